"""Files in and out: operators, embeddings, maps, truth. No mathematics.

Writers are atomic and overwrite nothing unasked.
"""

import hashlib
import io
import json
import logging
import os
import re
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from coembed.annotations import Int
from coembed.errors import FileFormatError, InputError
from coembed.sampling import Interpolation
from coembed.shapes import Alignment, Completion, Correspondence, Embedding, Operators, Shape

__all__ = [
    "check_as_long",
    "check_readable",
    "check_writable",
    "holds_embedding",
    "read_embedding",
    "read_matches",
    "read_operators",
    "read_pairs",
    "read_rows",
    "read_truth",
    "read_vts",
    "split_choice",
    "write_array",
    "write_bytes",
    "write_embedding",
    "write_matches",
    "write_operators",
]

log = logging.getLogger(__name__)


# ------------------------------------------------------------------------------- plain bytes


def split_choice(path: Path) -> tuple[Path, str]:
    """Path of a file, and which part of it is wanted, as in ``scene.glb#Hand``.

    A file whose own name has a # is found first.
    """
    name, mark, chosen = path.name.partition("#")
    if not mark or not name or path.exists():
        return path, ""
    return path.with_name(name), chosen


def check_readable(path: Path) -> None:
    """Raise `FileFormatError` unless ``path`` is a file that can be opened."""
    path, _ = split_choice(path)
    if not path.exists():
        raise FileFormatError(f"{path}: no such file")
    if path.is_dir():
        raise FileFormatError(f"{path}: is a folder; expected a file")
    if not os.access(path, os.R_OK):
        raise FileFormatError(f"{path}: cannot be read (permission denied)")


def check_writable(path: Path, *, force: bool = False) -> None:
    """Raise `InputError` unless ``path`` can be written without losing anything."""
    if path.is_dir():
        raise InputError(f"{path}: is a folder; expected the name of a file to write")
    if path.exists() and not force:
        raise InputError(f"{path}: exists already; choose another name or add --force")
    if not path.parent.is_dir():
        raise InputError(f"{path}: there is no folder {path.parent} to write into")
    if not os.access(path.parent, os.W_OK):
        raise InputError(f"{path}: the folder {path.parent} cannot be written to")


def write_bytes(path: Path, content: bytes, *, force: bool = False) -> None:
    """Write a file whole or not at all."""
    check_writable(path, force=force)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        Path(temporary).chmod(0o666 & ~_umask())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def digest_of(path: Path) -> str:
    """SHA-256 of a file's bytes, and of those beside it that hold the points of a ``.gltf``."""
    path, _ = split_choice(path)
    with path.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256")
    if path.suffix.lower() == ".gltf":
        from urllib.parse import unquote

        for name in re.findall(rb'"uri"\s*:\s*"([^":]+)"', path.read_bytes()):
            beside = path.parent / unquote(name.decode(errors="replace"))
            digest.update(beside.read_bytes() if beside.is_file() else b"")
    return digest.hexdigest()


def write_array(path: Path, array: np.ndarray) -> None:
    """Keep an array in a cache; a folder that cannot be written to is only a warning."""
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, stream.getvalue(), force=True)
    except (OSError, InputError) as error:
        log.warning("%s: not cached (%s)", path, error)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


# --------------------------------------------------------------------------------- operators

_OPERATORS_FORMAT = "coembed-operators-2"  # raise the number whenever prepare changes its result
_OPERATOR_ARRAYS = ("points", "mass", "evals", "evecs", "grad_x", "grad_y", "rows", "centre")
_WEAK_ARRAYS = ("l_data", "l_indices", "l_indptr")


def read_operators(cache: Path, shape: Shape, settings: Mapping[str, Any]) -> Operators | None:
    """Operators of this content and these settings from a cache folder, or None."""
    path = cache / _operators_name(shape, settings)
    try:
        return operators_from(path)
    except FileNotFoundError:
        return None
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        log.warning("%s: cached operators are damaged and made again (%s)", path, error)
        return None


def write_operators(
    cache: Path, shape: Shape, settings: Mapping[str, Any], operators: Operators
) -> None:
    """Keep operators in a cache folder; a folder that cannot be written to is only a warning."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        path = cache / _operators_name(shape, settings)
        write_bytes(path, operators_bytes(operators), force=True)
    except (OSError, InputError) as error:
        log.warning("%s: operators are not cached (%s)", cache, error)


def operators_bytes(operators: Operators, **more: np.ndarray) -> bytes:
    """Operators and further arrays as one safetensors file that holds its own checksum."""
    arrays = {name: np.ascontiguousarray(getattr(operators, name)) for name in _OPERATOR_ARRAYS}
    arrays |= {**dict(zip(_WEAK_ARRAYS, operators.weak, strict=True)), **more}
    header = {
        "format": _OPERATORS_FORMAT,
        "scale": operators.scale.hex(),
        "notes": operators.notes,
        "name": operators.name,
        "sha256": _digest(arrays),
    }
    # one entry, since the order of several differs from run to run
    return to_bytes(arrays, metadata={"coembed": json.dumps(header)})


def operators_from(path: Path) -> Operators:
    """Read what `operators_bytes` made; ValueError if it is damaged or from another version."""
    with safe_open(path, framework="numpy") as opened:
        header = json.loads((opened.metadata() or {}).get("coembed", "{}"))
        arrays = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    if header.get("format") != _OPERATORS_FORMAT or header.get("sha256") != _digest(arrays):
        raise ValueError("checksum or version differs")
    return Operators(
        **{name: arrays[name] for name in _OPERATOR_ARRAYS},
        weak=tuple(arrays[name] for name in _WEAK_ARRAYS),
        scale=float.fromhex(header["scale"]),
        notes=tuple(header["notes"]),
        name=header["name"],
    )


def _operators_name(shape: Shape, settings: Mapping[str, Any]) -> str:
    digest = hashlib.sha256(np.ascontiguousarray(shape.points).tobytes())
    for rows in shape.unusable.values():  # some of them for want of faces
        digest.update(rows.tobytes())
    digest.update(json.dumps([_OPERATORS_FORMAT, dict(settings)], sort_keys=True).encode())
    return f"{digest.hexdigest()[:40]}.operators.safetensors"


def _digest(arrays: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(arrays[name]).tobytes())
    return digest.hexdigest()


# -------------------------------------------------------------------------------- embeddings

_EMBEDDING_FORMAT = "coembed-embedding-4"
_EMBEDDING_ARRAYS = ("values", "sample", "points", "rows", "centre")
_EMBEDDING_FACTS = ("scale", "name", "sha256", "weights", "similarity", "notes")


def write_embedding(path: Path | str, embedding: Embedding, *, force: bool = False) -> None:
    """Write an embedding as ``.npz``; matching it later gives the same map to the bit.

    The same embedding gives the same bytes, so the seconds it took are left out.
    """
    path = Path(path)
    if path.suffix != ".npz":
        raise InputError(f"{path}: embeddings are written as .npz")
    facts = {name: getattr(embedding, name) for name in _EMBEDDING_FACTS}
    facts["alignment"] = embedding.alignment.facts()
    completion = embedding.completion
    facts["completion"] = None if completion is None else completion.facts()
    arrays = {name: getattr(embedding, name) for name in _EMBEDDING_ARRAYS}
    if embedding.interpolation is not None:
        arrays["nearest"] = embedding.interpolation.nearest
        arrays["nearest_weights"] = embedding.interpolation.weights
    stream = io.BytesIO()
    header = np.array(json.dumps({"format": _EMBEDDING_FORMAT, **facts}))
    np.savez(stream, embedding=header, **arrays)
    write_bytes(path, stream.getvalue(), force=force)


def read_embedding(path: Path | str) -> Embedding:
    """Read an embedding written by `write_embedding`.

    Raises
    ------
    FileFormatError
        If the file holds something else.
    """
    path = Path(path)
    check_readable(path)
    try:
        with np.load(path, allow_pickle=False) as opened:
            header = json.loads(str(opened["embedding"]))
            arrays = {name: opened[name] for name in opened.files if name != "embedding"}
        if header.pop("format") != _EMBEDDING_FORMAT:
            raise ValueError("it comes from another version")
        carried = arrays.pop("nearest", None), arrays.pop("nearest_weights", None)
        interpolation = None if carried[0] is None else Interpolation(*carried)
        header["notes"] = tuple(header["notes"])
        header["alignment"] = Alignment.of(header["alignment"])
        completion = header["completion"]
        header["completion"] = None if completion is None else Completion.of(completion)
        return Embedding(**arrays, **header, interpolation=interpolation)
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
        raise FileFormatError(f"{path}: not an embedding written by coembed ({error})") from error


def holds_embedding(path: Path) -> bool:
    """Whether a file is an ``.npz`` as `write_embedding` writes it."""
    if path.suffix != ".npz" or not path.is_file():
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            return "embedding.npy" in archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return False


# ---------------------------------------------------------------------------- maps and truth


def write_matches(path: Path | str, matches: Correspondence, *, force: bool = False) -> None:
    """Write a map: ``.txt`` has one target row per line; ``.npz`` also scores and the record."""
    path = Path(path)
    if path.suffix == ".txt":
        content = "\n".join(map(str, matches.p2p.tolist())) + "\n"
        write_bytes(path, content.encode(), force=force)
    elif path.suffix == ".npz":
        stream = io.BytesIO()
        np.savez_compressed(
            stream,
            p2p=matches.p2p,
            score=matches.score,
            n_target=np.array(matches.n_target),
            record=np.array(json.dumps(matches.record)),
        )
        write_bytes(path, stream.getvalue(), force=force)
    else:
        raise InputError(f"{path}: maps are written as .txt or .npz")


def record_path(path: Path) -> Path:
    """Where the run record of a map lies: beside it."""
    return path.with_name(path.name + ".json")


def write_run(
    path: Path, matches: Correspondence, record: Mapping[str, Any], *, force: bool = False
) -> Path:
    """Write a map and its run record beside it; give the record's place."""
    write_matches(path, matches, force=force)
    beside = record_path(path)
    write_bytes(beside, json.dumps(record, indent=1).encode(), force=force)
    return beside


def read_record(path: Path | str) -> dict[str, Any]:
    """Read the run record that `coembed match` writes beside a map.

    Raises
    ------
    FileFormatError
        If the file is no such record.
    """
    path = Path(path)
    check_readable(path)
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise FileFormatError(f"{path}: not a run record: {error}") from error
    if not isinstance(stored, dict) or not {"run", "answer_sha256"} <= set(stored):
        raise FileFormatError(f"{path}: not a run record of `coembed match`, or an old one")
    return stored


def read_matches(path: Path | str, *, n_target: int | None) -> Correspondence:
    """Read a map written by `write_matches`; a text map has score 1 where there is a match.

    ``n_target`` is the number of rows of the target; None: what an ``.npz`` says itself. For maps
    that others wrote see `coembed.maps.read_map`.
    """
    path = Path(path)
    check_readable(path)
    if path.suffix == ".npz":
        try:
            with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as data:
                p2p, score, record = data["p2p"], data["score"], json.loads(str(data["record"]))
                stored = int(data["n_target"])
        except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
            raise FileFormatError(f"{path}: not a map written by coembed ({error})") from error
        if n_target not in (None, stored):
            raise InputError(
                f"{path}: the map is for a target of {stored} points; this one has {n_target}"
            )
        return Correspondence(p2p, score, stored, record)
    p2p = read_rows(path)
    n_target = int(p2p.max()) + 1 if n_target is None else n_target
    return Correspondence(p2p, (p2p >= 0).astype(np.float64), n_target)


def read_truth(path: Path | str) -> Int[np.ndarray, "s 2"]:
    """Truth of a pair, as (source row, target row): line i holds the target row of source row i.

    Rows count from 0, as in ``.map`` and ``.txt`` files; source rows with -1 are left out.
    """
    target = read_rows(Path(path))
    source = np.flatnonzero(target >= 0)
    return np.stack([source, target[source]], axis=1)


def read_pairs(source: Path | str, target: Path | str) -> Int[np.ndarray, "s 2"]:
    """Truth of a pair from two ``.vts`` files (or ``.sym.vts``), as (source row, target row).

    Line i of each names the row of its shape that belongs to sample i of a common template,
    **counted from 1**; one is subtracted here. Lines with 0 or less name no row.
    """
    rows = [read_vts(Path(path)) for path in (source, target)]
    check_as_long(source, target, *map(len, rows))
    pairs = np.stack(rows, axis=1)
    return pairs[(pairs >= 0).all(axis=1)]


def check_as_long(source: Path | str, target: Path | str, n: int, m: int) -> None:
    """Raise `FileFormatError` unless two files of samples of one template have as many lines."""
    if n != m:
        raise FileFormatError(
            f"{source} has {n} lines and {target} has {m}; two .vts files of one template have "
            "as many"
        )


def read_vts(path: Path | str) -> Int[np.ndarray, " s"]:
    """Rows of a shape for the samples of a template, **from 1 in the file**, from 0 here."""
    return read_rows(Path(path)) - 1


def read_rows(path: Path, *, columns: tuple[int, ...] = (1,)) -> Int[np.ndarray, "n ..."]:
    """Row numbers as a file holds them, one a line, or all in one line; ``.npy`` too.

    Parameters
    ----------
    columns
        How many numbers there may be in a line; for two, the result is of shape (n, 2).

    Raises
    ------
    FileFormatError
        If there are others, or no whole numbers.
    """
    check_readable(path)
    if path.suffix == ".npy":
        return _rows_of_array(path, columns)
    lines = path.read_text(encoding="utf-8-sig", errors="replace").splitlines()
    table = [words for words in (re.split(r"[\s,;]+", line.strip(" \t,;")) for line in lines)
             if words != [""]]  # fmt: skip
    if not table:
        raise FileFormatError(f"{path}: the file is empty")
    if len(table) == 1 and len(table[0]) > max(columns):
        table = [[word] for word in table[0]]
    width = len(table[0])
    for i, words in enumerate(table):
        if len(words) != width or width not in columns:
            raise FileFormatError(
                f"{path}: expected {' or '.join(('', 'one row number', 'two')[c] for c in columns)}"
                f" per line; got {' '.join(words)[:60]!r} in line {i + 1} of those that hold any"
            )
    return _whole(path, np.array([word for words in table for word in words]), width)


def _rows_of_array(path: Path, columns: tuple[int, ...]) -> Int[np.ndarray, "n ..."]:
    try:
        array = np.load(io.BytesIO(path.read_bytes()), allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise FileFormatError(f"{path}: not a readable NPY file ({error})") from error
    width = array.shape[1] if array.ndim == 2 else 1
    if array.ndim not in (1, 2) or width not in columns or not array.size:
        raise FileFormatError(f"{path}: expected row numbers, one a row; got shape {array.shape}")
    return _whole(path, array.ravel(), width)


def _whole(path: Path, words: np.ndarray, width: int) -> Int[np.ndarray, "n ..."]:
    try:
        rows = words.astype(np.float64)
    except ValueError as error:
        raise FileFormatError(f"{path}: expected one row number per line ({error})") from error
    bad = ~((np.abs(rows) < 2**53) & (rows == np.trunc(rows)))
    if bad.any():
        raise FileFormatError(f"{path}: expected whole row numbers; got {words[bad.argmax()]}")
    whole = rows.astype(np.int64)
    return whole if width == 1 else whole.reshape(-1, width)
