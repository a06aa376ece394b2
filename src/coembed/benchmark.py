"""A folder of shapes with truth to one table: every ordered pair, by one protocol.

Each shape is embedded once; distances are found (and cached) for one target at a time; what is
kept is one error per pair and sample.
"""

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from threadpoolctl import threadpool_limits

from coembed import datasets, descriptors, evaluation, files, geometry, matching
from coembed.errors import InputError
from coembed.model import CoupledEmbedding
from coembed.shapes import Shape

__all__ = ["METHODS", "Table", "bench", "disturbed"]

METHODS = ("coe", "spectral", "hks", "wks")
"""Nearest neighbours in: the network's embedding, the eigenvectors, the heat and the wave kernel
signature."""


@dataclass(frozen=True, eq=False)
class Table:
    """Errors of pairs of shapes, as fractions of sqrt(target area).

    Parameters
    ----------
    names
        The shapes.
    pairs
        Source and target of each pair, target by target; self pairs among them if every pair was
        asked for.
    errors
        One row a pair, one column a truth sample.
    flipped
        Share of samples that lie nearer to the mirrored truth than to the truth, and more than
        0.15 from the truth; None without ``.sym.vts``.
    geodesics
        How distances were found.
    seconds
        Of one shape (operators and embedding, as far as they were not cached) and of one pair.
    """

    names: tuple[str, ...]
    pairs: Int[np.ndarray, "p 2"]
    errors: Float[np.ndarray, "p s"]
    flipped: float | None
    geodesics: str
    seconds: tuple[float, float]

    def summary(self) -> dict[str, float | int | str]:
        """The table's numbers, by name; means and medians x 100, self pairs left out."""
        apart = self.pairs[:, 0] != self.pairs[:, 1]
        errors = self.errors[apart]
        means = errors.mean(axis=1)
        low, high = self._interval(self.pairs[apart], means)
        result: dict[str, float | int | str] = {
            "shapes": len(self.names),
            "pairs": int(apart.sum()),
            "samples": self.errors.shape[1],
            "mean_x100": 100 * float(means.mean()),
            "mean_low_x100": 100 * low,
            "mean_high_x100": 100 * high,
            "median_pair_x100": 100 * float(np.median(means)),
            "worst_pair_x100": 100 * float(means.max()),
            "mean_with_self_pairs_x100": 100 * float(self.errors.mean()),
            "within_1": float((errors <= 0.01).mean()),
            "within_5": float((errors <= 0.05).mean()),
            "within_10": float((errors <= 0.10).mean()),
            "auc_25": evaluation.area_under_curve(errors.ravel()),
            "geodesics": self.geodesics,
            "seconds_a_shape": round(self.seconds[0], 3),
            "seconds_a_pair": round(self.seconds[1], 4),
        }
        if apart.all():
            del result["mean_with_self_pairs_x100"]
        if self.flipped is not None:
            result["flipped"] = self.flipped
        return result

    def _interval(
        self, pairs: Int[np.ndarray, "p 2"], means: Float[np.ndarray, " p"], rounds: int = 1000
    ) -> tuple[float, float]:
        """95 % interval of the mean, by drawing shapes (not pairs) with replacement."""
        rng = np.random.default_rng(0)
        drawn = []
        for _ in range(rounds):
            n = len(self.names)
            count = np.bincount(rng.integers(n, size=n), minlength=n)
            weight = count[pairs[:, 0]] * count[pairs[:, 1]]
            if weight.any():
                drawn.append(float((means * weight).sum() / weight.sum()))
        low, high = np.quantile(drawn, [0.025, 0.975])
        return float(low), float(high)


def bench(
    model: CoupledEmbedding,
    folder: Path,
    *,
    method: str = "coe",
    shapes: slice = slice(None),
    listed: bool = False,
    noise: float = 0.0,
    samples: int = 500,
    coupled: bool = False,
    cache: Path | None = None,
    jobs: int = 1,
    report: Callable[[str, int, int], None] = lambda *_: None,
) -> Table:
    """Match pairs of a folder's shapes and judge each against the truth.

    Parameters
    ----------
    folder
        Community layout: shapes in ``off/``, truth in ``corres/NAME.vts`` (rows from 1), perhaps
        ``corres/NAME.sym.vts`` and ``pairs.txt`` (two names a line, with a comma).
    method
        One of `METHODS`; all but ``"coe"`` leave the model aside.
    shapes
        Which of the sorted shapes that have truth, for example the usual test split.
    listed
        Match the pairs of ``pairs.txt`` of which both shapes have truth, instead of all.
    noise
        Standard deviation of Gaussian noise on every coordinate of every shape, see `disturbed`.
    samples
        Truth samples judged per pair, evenly spaced over the template; 0: all.
    coupled
        Refine each pair by cross-attention.
    cache
        Folder for operators and geodesics.
    jobs
        Processes.
    report
        Told what is being done, how many of it are done, and of how many.

    Raises
    ------
    InputError
        If the folder holds too little, or truth and shapes disagree.
    """
    if method not in METHODS:
        raise InputError(f"method must be one of {', '.join(METHODS)}; got {method!r}")
    if coupled:
        model.check_coupled()
    paths, loaded, rows = _read(folder, shapes, samples)
    names = tuple(path.stem for path in paths)
    pairs = _listed_pairs(folder, names) if listed else _all_pairs(len(names))
    used = np.unique(pairs).tolist()
    started = time.perf_counter()
    tasks = [(model, method, disturbed(loaded[i], noise, seed=i), cache) for i in used]
    found = _run(_features, tasks, jobs, lambda done: report("embed", done, len(used)))
    features = dict(zip(used, found, strict=True))
    per_shape = (time.perf_counter() - started) / len(used)
    started = time.perf_counter()
    refining, similarity = (model if coupled else None, model.config.similarity)
    judged = []
    for j in np.unique(pairs[:, 1]).tolist():
        sources = [(features[i], rows[i]) for i in pairs[pairs[:, 1] == j, 0].tolist()]
        target = _Target(features[j], loaded[j], rows[j], _mirrored(folder, paths[j], samples))
        judged.append((refining, similarity if method == "coe" else "l2", sources, target, cache))
    results = _run(_judged, judged, jobs, lambda done: report("match", done, len(judged)))
    errors, flipped = zip(*results, strict=True)
    # the results come target by target
    order = np.argsort(pairs[:, 1], kind="stable")
    share = None if None in flipped else float(np.mean(flipped))
    seconds = (per_shape, (time.perf_counter() - started) / len(pairs))
    method_of = geometry.geodesics_method(loaded[0])
    return Table(names, pairs[order], np.concatenate(errors), share, method_of, seconds)


def disturbed(shape: Shape, sigma: float | int, *, seed: int = 0) -> Shape:
    """The shape with Gaussian noise on every coordinate, clipped at five standard deviations.

    Parameters
    ----------
    sigma
        In units of the radius of the ball about the points' mean that holds them all, as in the
        paper (0.01, clipped at 0.05). For a standing person that radius is about 0.8 sqrt(area).

    References
    ----------
    [Zeng25] sec. 5.4.
    """
    if not 0 <= sigma < 1:
        raise InputError(f"noise must be between 0 and 1 (radius of the shape); got {sigma}")
    if sigma == 0:
        return shape
    centre = shape.points.mean(axis=0)
    radius = np.linalg.norm(shape.points - centre, axis=1).max()
    drawn = np.random.default_rng([20, seed]).normal(0, 1, shape.points.shape)
    moved = shape.points + radius * sigma * np.clip(drawn, -5, 5)
    return Shape(moved, shape.faces, name=shape.name)


def _read(
    folder: Path, shapes: slice, samples: int
) -> tuple[list[Path], list[Shape], list[Int[np.ndarray, " s"]]]:
    """Shapes that have truth, and the rows of the chosen truth samples in each."""
    paths = [p for p in datasets.shape_paths(folder) if _truth_path(folder, p).exists()][shapes]
    if len(paths) < 2:
        raise InputError(
            f"{folder}: fewer than two shapes with truth; expected files in off/ and a "
            "corres/NAME.vts for each"
        )
    loaded = [files.read(path) for path in paths]
    truth = [files.read_vts(_truth_path(folder, path)) for path in paths]
    for path, shape, rows in zip(paths, loaded, truth, strict=True):
        if len(rows) != len(truth[0]):
            raise InputError(
                f"{folder}: the .vts files have different numbers of lines: {len(truth[0])} for "
                f"{paths[0].stem}, {len(rows)} for {path.stem}"
            )
        bad = np.flatnonzero((rows < 0) | (rows >= len(shape.points)))
        if len(bad):
            raise InputError(
                f"{_truth_path(folder, path)}: line {bad[0] + 1} names row {rows[bad[0]] + 1}; "
                f"{path.name} has rows 1 to {len(shape.points)}"
            )
    chosen = evaluation.spaced(len(truth[0]), samples)
    return paths, loaded, [rows[chosen] for rows in truth]


def _all_pairs(n: int) -> Int[np.ndarray, "p 2"]:
    return np.stack(np.meshgrid(np.arange(n), np.arange(n), indexing="ij"), axis=-1).reshape(-1, 2)


def _listed_pairs(folder: Path, names: tuple[str, ...]) -> Int[np.ndarray, "p 2"]:
    path = folder / "pairs.txt"
    files.check_readable(path)
    place = {name: i for i, name in enumerate(names)}
    lines = [line.split(",") for line in path.read_text().splitlines() if line.strip()]
    for number, line in enumerate(lines, start=1):
        if len(line) != 2:
            raise InputError(f"{path}: line {number} must hold two names and a comma; got {line}")
    pairs = [(place.get(a.strip()), place.get(b.strip())) for a, b in lines]
    known = [pair for pair in pairs if None not in pair]
    if not known:
        raise InputError(f"{path}: names no pair of shapes that have truth")
    return np.array(known, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class _Target:
    """A target, its rows for the truth samples, and those for the mirrored template."""

    features: Float[np.ndarray, "m d"]
    shape: Shape
    rows: Int[np.ndarray, " s"]
    mirrored: Int[np.ndarray, " s"] | None


def _features(
    model: CoupledEmbedding, method: str, shape: Shape, cache: Path | None
) -> Float[np.ndarray, "n d"]:
    """What nearest neighbours are sought in, in the rows of the file."""
    if method == "coe":
        return matching.embed(model, shape, cache=cache)
    operators = geometry.prepare(shape, n_eig=model.config.n_eig, cache=cache)
    if method == "spectral":
        return operators.evecs[operators.rows]
    signature = descriptors.hks if method == "hks" else descriptors.wks
    return signature(operators.evals, operators.evecs)[operators.rows]


def _judged(
    model: CoupledEmbedding | None,
    similarity: str,
    sources: list[tuple[Float[np.ndarray, "n d"], Int[np.ndarray, " s"]]],
    target: _Target,
    cache: Path | None,
) -> tuple[Float[np.ndarray, "p s"], float | None]:
    """Errors of every source of one target, and the share of flips; ``model`` refines pairs."""
    size = np.sqrt(evaluation.area_of(target.shape))
    found = []
    for phi, rows in sources:
        pair = (phi, target.features)
        refined, fixed = pair if model is None else model.couple(*pair)
        found.append(matching.nearest(refined[rows], fixed, similarity=similarity))
    ends, columns = np.stack(found), np.arange(len(target.rows))
    errors = (_cached_geodesics(target.shape, target.rows, cache) / size)[columns, ends]
    if target.mirrored is None:
        return errors, None
    other = (_cached_geodesics(target.shape, target.mirrored, cache) / size)[columns, ends]
    return errors, float(((errors > 0.15) & (other < errors)).mean())


def _run(
    work: Callable[..., Any],
    tasks: Iterable[tuple[Any, ...]],
    jobs: int,
    report: Callable[[int], None],
) -> Iterator[Any]:
    """Results in the order of the tasks, from one process or several."""
    tasks = list(tasks)
    if jobs == 1:
        for done, task in enumerate(tasks):
            report(done)
            yield work(*task)
    else:
        with ProcessPoolExecutor(min(jobs, len(tasks)), initializer=_one_thread) as pool:
            for done, future in enumerate([pool.submit(work, *task) for task in tasks]):
                report(done)
                yield future.result()
    report(len(tasks))


def _one_thread() -> None:
    threadpool_limits(limits=1)


def _truth_path(folder: Path, path: Path) -> Path:
    return folder / "corres" / f"{path.stem}.vts"


def _mirrored(folder: Path, path: Path, samples: int) -> Int[np.ndarray, " s"] | None:
    mirrored = folder / "corres" / f"{path.stem}.sym.vts"
    if not mirrored.exists():
        return None
    rows = files.read_vts(mirrored)
    return rows[evaluation.spaced(len(rows), samples)]


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
