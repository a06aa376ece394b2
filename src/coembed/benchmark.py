"""A folder of shapes with truth to one table: every ordered pair, by one protocol.

Each shape is embedded once; geodesics are cached per target; nothing holds all pairs at once.
"""

import hashlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from coembed import datasets, evaluation, files, geometry, matching
from coembed.errors import InputError
from coembed.model import CoupledEmbedding
from coembed.shapes import Shape

log = logging.getLogger(__name__)

__all__ = ["Table", "bench"]


@dataclass(frozen=True, eq=False)
class Table:
    """Mean error of every ordered pair of shapes, as a fraction of sqrt(target area).

    Parameters
    ----------
    names
        The shapes.
    errors
        Source by target; the diagonal holds the self pairs.
    within
        Share of samples within 5 %, for the same pairs.
    samples
        Truth samples judged per pair.
    method
        How geodesic distances were found.
    """

    names: tuple[str, ...]
    errors: Float[np.ndarray, "p p"]
    within: Float[np.ndarray, "p p"]
    samples: int
    method: str

    @property
    def _others(self) -> Float[np.ndarray, " pairs"]:
        return self.errors[~np.eye(len(self.names), dtype=bool)]

    def summary(self) -> dict[str, float | int | str]:
        """The table's numbers, by name; errors x 100."""
        apart = ~np.eye(len(self.names), dtype=bool)
        low, high = self._interval()
        return {
            "shapes": len(self.names),
            "pairs": int(apart.sum()),
            "samples": self.samples,
            "mean_x100": 100 * float(self._others.mean()),
            "mean_low_x100": 100 * low,
            "mean_high_x100": 100 * high,
            "median_pair_x100": 100 * float(np.median(self._others)),
            "worst_pair_x100": 100 * float(self._others.max()),
            "mean_with_self_pairs_x100": 100 * float(self.errors.mean()),
            "within_5": float(self.within[apart].mean()),
            "geodesics": self.method,
        }

    def _interval(self, rounds: int = 1000) -> tuple[float, float]:
        """95 % interval of the mean, by drawing shapes (not pairs) with replacement."""
        rng = np.random.default_rng(0)
        means = []
        for _ in range(rounds):
            drawn = rng.integers(len(self.names), size=len(self.names))
            apart = drawn[:, None] != drawn[None, :]
            if apart.any():
                means.append(self.errors[np.ix_(drawn, drawn)][apart].mean())
        low, high = np.quantile(means, [0.025, 0.975])
        return float(low), float(high)


def bench(
    model: CoupledEmbedding,
    folder: Path,
    *,
    shapes: slice = slice(None),
    samples: int = 500,
    coupled: bool = False,
    cache: Path | None = None,
    report: Callable[[str, int, int], None] = lambda *_: None,
) -> Table:
    """Match every ordered pair of a folder's shapes and judge it against the truth.

    Parameters
    ----------
    folder
        Community layout: shapes in ``off/``, truth in ``corres/NAME.vts`` (rows from 1).
    shapes
        Which of the sorted shapes that have truth, for example the usual test split.
    samples
        Truth samples judged per pair, evenly spaced over the template.
    coupled
        Refine each pair by cross-attention.
    cache
        Folder for operators and geodesics.
    report
        Told what is being done, how many of it are done, and of how many.
    """
    if coupled:
        model.check_coupled()
    paths = [p for p in datasets.shape_paths(folder) if _truth_path(folder, p).exists()][shapes]
    if len(paths) < 2:
        raise InputError(
            f"{folder}: fewer than two shapes with truth; expected files in off/ and a "
            "corres/NAME.vts for each"
        )
    loaded = [files.read(path) for path in paths]
    truth = [files.read_vts(_truth_path(folder, path)) for path in paths]
    if len({len(rows) for rows in truth}) != 1:
        raise InputError(f"{folder}: the .vts files have different numbers of lines")
    for path, shape, rows_of in zip(paths, loaded, truth, strict=True):
        _check_rows(path, shape, rows_of)
    chosen = evaluation.spaced(len(truth[0]), samples)
    rows = [t[chosen] for t in truth]
    embeddings = []
    for i, shape in enumerate(loaded):
        report("embed", i, len(loaded))
        embeddings.append(matching.embed(model, shape, cache=cache))
    errors = np.empty((len(paths), len(paths)))
    within = np.empty_like(errors)
    for j, target in enumerate(loaded):
        report("match", j, len(loaded))
        distances = _cached_geodesics(target, rows[j], cache) / np.sqrt(evaluation.area_of(target))
        for i, found in enumerate(_matched(model, embeddings, rows, j, coupled)):
            error = distances[np.arange(len(found)), found]
            errors[i, j], within[i, j] = error.mean(), (error <= 0.05).mean()
    report("match", len(loaded), len(loaded))
    names = tuple(path.stem for path in paths)
    return Table(names, errors, within, len(chosen), geometry.geodesics_method(loaded[0]))


def _matched(
    model: CoupledEmbedding,
    embeddings: list[Float[np.ndarray, "n d"]],
    rows: list[Int[np.ndarray, " s"]],
    target: int,
    coupled: bool,
) -> Iterator[Int[np.ndarray, " s"]]:
    """For each source, the target rows found for the source's truth samples."""
    for i, embedding in enumerate(embeddings):
        pair = (embedding, embeddings[target])
        phi, psi = model.couple(*pair) if coupled else pair
        yield matching.nearest(phi[rows[i]], psi, similarity=model.config.similarity)


def _check_rows(path: Path, shape: Shape, rows: Int[np.ndarray, " s"]) -> None:
    bad = np.flatnonzero((rows < 0) | (rows >= len(shape.points)))
    if len(bad):
        raise InputError(
            f"{path.stem}.vts: line {bad[0] + 1} names row {rows[bad[0]] + 1}; {path} has rows 1 "
            f"to {len(shape.points)}"
        )


def _truth_path(folder: Path, path: Path) -> Path:
    return folder / "corres" / f"{path.stem}.vts"


def _cached_geodesics(
    shape: Shape, rows: Int[np.ndarray, " s"], cache: Path | None
) -> Float[np.ndarray, "s n"]:
    if cache is None:
        return geometry.geodesics(shape, rows)
    digest = hashlib.sha256(shape.points.tobytes() + rows.tobytes())
    digest.update(b"" if shape.faces is None else shape.faces.tobytes())
    path = cache / f"{digest.hexdigest()[:40]}.geodesics.npy"
    try:
        stored = np.load(path, allow_pickle=False)
        if stored.shape == (len(rows), len(shape.points)):
            return stored.astype(np.float64)
    except (OSError, ValueError):
        pass  # not there yet, or cut off: made again
    distances = geometry.geodesics(shape, rows)
    files.write_array(path, distances.astype(np.float32))
    return distances.astype(np.float32).astype(np.float64)
