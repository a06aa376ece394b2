"""Recipes: everything that fixes a training run, in one TOML file.

Takes a file, or the name of a recipe that ships with the package, gives a `Recipe`. Tables
``[data]``, ``[model]``, ``[loss]`` and ``[train]`` hold the fields of `DataConfig`, `ModelConfig`,
`LossWeights` and `TrainConfig`; what is left out has its default.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from importlib.resources import files as package_files
from pathlib import Path
from typing import Any

from coembed import files
from coembed.datasets import DataConfig
from coembed.errors import FileFormatError, InputError
from coembed.losses import LossWeights
from coembed.model import ModelConfig
from coembed.training import TrainConfig

__all__ = ["Recipe", "names", "read_recipe"]

_TABLES: Mapping[str, Any] = {
    "data": DataConfig, "model": ModelConfig, "loss": LossWeights, "train": TrainConfig,
}  # fmt: skip
_ELSEWHERE = ("model", "weights")  # fields of TrainConfig that have tables of their own


@dataclass(frozen=True)
class Recipe:
    """What to train on, and how."""

    name: str
    data: DataConfig
    train: TrainConfig


def names() -> tuple[str, ...]:
    """The recipes that ship with the package."""
    folder = package_files("coembed") / "data" / "recipes"
    return tuple(sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir()))


def read_recipe(recipe: str | Path, changes: Sequence[str] = ()) -> Recipe:
    """Read a recipe by file or name.

    Parameters
    ----------
    changes
        ``TABLE.FIELD=VALUE``, such as ``train.steps=100``, each in place of what the file says.

    Raises
    ------
    FileFormatError
        If the file is not TOML.
    InputError
        If a table or field is unknown, or a value makes no sense.
    """
    source, text = _text(recipe)
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FileFormatError(f"{source}: not a TOML file ({error})") from error
    for change in changes:
        table, field, value = _change(change)
        tables.setdefault(table, {})[field] = value
    configs = {}
    for table, values in tables.items():
        if table not in _TABLES or not isinstance(values, dict):
            raise InputError(f"{source}: unknown table {table}; expected {', '.join(_TABLES)}")
        known = [f.name for f in fields(_TABLES[table]) if f.name not in _ELSEWHERE]
        for field in values:
            if field not in known:
                raise InputError(
                    f"{source}: unknown field {table}.{field}; expected one of {', '.join(known)}"
                )
    for table in ("data", "model", "loss"):
        configs[table] = _made(source, table, tables.get(table, {}))
    train = {**tables.get("train", {}), "model": configs["model"], "weights": configs["loss"]}
    return Recipe(Path(source).stem, configs["data"], _made(source, "train", train))


def _made(source: str, table: str, values: Mapping[str, Any]) -> Any:
    try:
        return _TABLES[table](**values)
    except (TypeError, ValueError) as error:
        raise InputError(f"{source}: {error}") from error


def _text(recipe: str | Path) -> tuple[str, str]:
    path = Path(recipe)
    if path.suffix == ".toml":
        files.check_readable(path)
        return str(path), path.read_text(encoding="utf-8")
    if str(recipe) not in names():
        raise InputError(
            f"{recipe}: no such recipe; expected a .toml file or one of {', '.join(names())}"
        )
    entry = package_files("coembed") / "data" / "recipes" / f"{recipe}.toml"
    return str(recipe), entry.read_text(encoding="utf-8")


def _change(change: str) -> tuple[str, str, Any]:
    where, equals, value = change.partition("=")
    table, dot, field = where.strip().partition(".")
    if not equals or not dot:
        raise InputError(f"expected TABLE.FIELD=VALUE, such as train.steps=100; got {change!r}")
    try:
        return table, field, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return table, field, value.strip()  # a word without quotation marks
