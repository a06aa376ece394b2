"""A folder of shapes with truth to one table: many pairs, by one protocol.

Each shape is embedded once; distances are found (and cached) for one target at a time; what is
kept is one error per pair and sample. With a cache a run that was cut off goes on where it was.
Where there are parts of shapes, or a pair is adapted or turned as such, each pair is matched by
itself, as `match` does it.
"""

import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache as once
from multiprocessing import get_context
from pathlib import Path
from typing import Any, cast

import numpy as np
from threadpoolctl import threadpool_limits

from coembed import (
    adaptation,
    baselines,
    descriptors,
    disturbances,
    evaluation,
    files,
    functional,
    geometry,
    layouts,
    matching,
    parts,
    processes,
)  # fmt: skip
from coembed.annotations import Bool, Float, Int
from coembed.cuts import KINDS
from coembed.disturbances import Disturbance
from coembed.errors import InputError
from coembed.evaluation import GeodesicErrors
from coembed.functional import Basis
from coembed.layouts import Collection, Member, Truth
from coembed.matching import POINTS, embed
from coembed.model import CoupledEmbedding
from coembed.registration import Surface, register
from coembed.search import nearest
from coembed.shapes import Correspondence, Embedding, Shape

__all__ = ["METHODS", "REFINEMENTS", "Judged", "Settings", "Table", "bench", "worst"]

METHODS = ("coe", "spectral", "hks", "wks", "cqhb-hks", "cqhb-gt", "pyfm-wks")
"""Nearest neighbours in: the network's embedding, the eigenvectors, the heat and the wave kernel
signature, coupled quasi-harmonic bases (from signatures, from the truth); and the library pyFM."""

REFINEMENTS = ("none", "register", "spectral", "zoomout")
"""What is done to the map of a method: as in `match`, or ZoomOut in one direction."""

_COUPLED_MODES = 50  # the paper's k
_MAKERS = (
    "sampling", "search", "rotations", "spectrum", "shapes", "files", "geometry", "descriptors",
    "layers", "model", "raster", "cuts", "losses", "adaptation", "evaluation", "posture",
    "alignment", "normals", "locator", "completion", "functional", "registration", "overlap",
    "trust", "matching", "baselines", "disturbances", "layouts", "parts", "benchmark",
)  # fmt: skip


_HEAD = 3  # numbers of a pair before its errors


@dataclass(frozen=True)
class Settings:
    """How shapes are disturbed and pairs matched and judged."""

    method: str = "coe"
    """One of `METHODS`; all but ``"coe"`` leave the model aside."""
    refine: str = "none"
    """One of `REFINEMENTS`."""
    coupled: bool = False
    """Refine each pair's embedding by cross-attention."""
    samples: int = 500
    """Truth samples judged per pair, evenly spaced over the template; 0: all."""
    edges: bool = False
    """Measure distances along mesh edges, which is too long by some per cent."""
    disturbance: Disturbance = field(default_factory=Disturbance)
    """What is done to every shape first."""
    points: int | None = POINTS
    """Of larger shapes the network looks at so many points; None: at all."""
    align: str | tuple[str, str] = "auto"
    """How the shapes are turned for the network, see `match`: one way, or the source's and the
    target's."""
    adapt: float = 0.0
    """Seconds for which the last layer is trained on each pair, see `match`."""
    truth_base: int = 1
    """What the files of truth call the first row."""
    cut: str = ""
    """One of `coembed.cuts.KINDS`: every source is cut like that, always in the same way."""
    cut_both: bool = False
    """Cut targets as well; errors are measured on the whole target."""
    partial: bool = False
    """Match pairs with a part as such, see `match`: rows without counterpart get no answer."""

    def __post_init__(self) -> None:
        for name, choice in (("method", METHODS), ("refine", REFINEMENTS)):
            if getattr(self, name) not in choice:
                raise InputError(
                    f"{name} must be one of {', '.join(choice)}; got {getattr(self, name)!r}"
                )
        if self.method != "coe" and (self.coupled or self.refine == "register"):
            raise InputError(f"only the method coe can be coupled or registered; got {self.method}")
        adaptation.check(self.adapt)
        if self.by_pairs and self.method != "coe":
            raise InputError(
                f"only the method coe adapts, or turns the shapes of a pair; got {self.method}"
            )
        if self.samples < 0:
            raise InputError(f"samples must be 0 (all) or more; got {self.samples}")
        if self.cut and self.cut not in KINDS:
            raise InputError(f"cut must be one of {', '.join(KINDS)}; got {self.cut!r}")
        if self.partial and self.method != "coe":
            raise InputError(f"only the method coe matches parts as partial; got {self.method}")
        if self.cut_both and not self.cut:
            raise InputError("to cut both shapes of a pair, say how: one of " + ", ".join(KINDS))

    @property
    def by_pairs(self) -> bool:
        """Whether a shape's embedding depends on the pair, so that each is matched by itself."""
        return self.adapt > 0 or not self.one_way

    @property
    def one_way(self) -> bool:
        """Whether a shape is turned alike as source and as target, whatever the other is."""
        return isinstance(self.align, str) and self.align != "target"


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
        One row a pair, one column a truth sample; NaN where a pair has fewer samples, infinite
        where the map has no answer.
    flipped
        Share of samples that lie nearer to the mirrored truth than to the truth, and more than
        0.15 from the truth, self pairs left out; None without ``.sym.vts``.
    geodesics
        How distances were found.
    seconds
        Of one shape (operators and embedding, as far as they were not cached) and of one pair,
        as they passed on the clock: two processes halve them.
    peak_mb
        Most memory of any process, 10^6 bytes.
    notes
        How the folder was understood.
    common
        For each pair how well it was found which rows of the source have a counterpart: IoU of
        those that have and those that were answered, AUROC of the score. NaN where all have one.
    """

    names: tuple[str, ...]
    pairs: Int[np.ndarray, "p 2"]
    errors: Float[np.ndarray, "p s"]
    flipped: float | None
    geodesics: str
    seconds: tuple[float, float]
    peak_mb: float = 0.0
    notes: tuple[str, ...] = ()
    common: Float[np.ndarray, "p 2"] | None = None

    @property
    def apart(self) -> Float[np.ndarray, "q s"]:
        """Errors of the pairs of two different shapes."""
        return self.errors[self.pairs[:, 0] != self.pairs[:, 1]]

    @property
    def means(self) -> Float[np.ndarray, " p"]:
        """Mean error of the answered samples of each pair; NaN if there are none."""
        return _mean_of(self.errors, np.isfinite(self.errors))

    @property
    def answered(self) -> Float[np.ndarray, " p"]:
        """Share of each pair's samples that have an answer."""
        return _mean_of(np.isfinite(self.errors).astype(float), ~np.isnan(self.errors))

    def summary(self) -> dict[str, float | int | str]:
        """The table's numbers, by name; means and medians x 100, self pairs left out.

        Samples without an answer count in no mean, and are within no radius.
        """
        apart = self.pairs[:, 0] != self.pairs[:, 1]
        some = np.isfinite(self.means)
        if not some[apart].any():
            raise InputError("no pair of two different shapes has a single answer")
        means, pairs = self.means[some], self.pairs[some]
        apart = pairs[:, 0] != pairs[:, 1]
        low, high = self._interval(pairs[apart], means[apart])
        errors = self.apart[~np.isnan(self.apart)]
        result: dict[str, float | int | str] = {
            "divided_by": evaluation.NORMALISER,
            "shapes": len(self.names),
            "pairs": len(self.apart),
            "samples": self.errors.shape[1],
            "mean_x100": 100 * float(means[apart].mean()),
            "mean_low_x100": 100 * low,
            "mean_high_x100": 100 * high,
            "median_pair_x100": 100 * float(np.median(means[apart])),
            "worst_pair_x100": 100 * float(means[apart].max()),
            "mean_with_self_pairs_x100": 100 * float(means.mean()),
            "within_1": float((errors <= 0.01).mean()),
            "within_5": float((errors <= 0.05).mean()),
            "within_10": float((errors <= 0.10).mean()),
            "auc_25": evaluation.area_under_curve(errors),
            "geodesics": self.geodesics,
            "seconds_a_shape": round(self.seconds[0], 3),
            "seconds_a_pair": round(self.seconds[1], 4),
        }
        if np.isfinite(self.peak_mb):
            result["peak_mb"] = round(self.peak_mb)
        if apart.all():
            del result["mean_with_self_pairs_x100"]
        result |= self._partial()
        if self.flipped is not None:
            result["flipped"] = self.flipped
        if self.notes:
            result["notes"] = "; ".join(self.notes)
        return result

    def lines(self) -> str:
        """Mean error of each pair as CSV: source, target, mean x 100.

        Where rows may have no counterpart there are further columns: the share of samples that
        were answered, IoU and AUROC of `common`.
        """
        partial = bool(self._partial())
        rows = ["source,target,mean_x100" + partial * ",answered,iou,auroc"]
        common = np.full((len(self.pairs), 2), np.nan) if self.common is None else self.common
        numbers = np.column_stack([100 * self.means, self.answered, common])
        for (i, j), some in zip(self.pairs, numbers[:, : 4 if partial else 1], strict=True):
            written = ("" if np.isnan(one) else f"{one:.4f}" for one in some)
            rows.append(",".join([self.names[i], self.names[j], *written]))
        return "\n".join(rows) + "\n"

    def _partial(self) -> dict[str, float | int | str]:
        """The numbers that parts of shapes have; none if every sample of whole ones is answered."""
        apart = self.pairs[:, 0] != self.pairs[:, 1]
        if self.common is None and self.answered.min() == 1:
            return {}
        result: dict[str, float | int | str] = {"answered": float(self.answered[apart].mean())}
        common = np.empty((0, 2)) if self.common is None else self.common[apart]
        for name, column in zip(("common_iou", "common_auroc"), common.T, strict=True):
            if np.isfinite(column).any():
                result[name] = float(np.nanmean(column))
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


def _mean_of(
    values: Float[np.ndarray, "p s"], chosen: Bool[np.ndarray, "p s"]
) -> Float[np.ndarray, " p"]:
    """Mean of the chosen values of each row; NaN if there are none."""
    count = chosen.sum(axis=1)
    total = np.where(chosen, values, 0).sum(axis=1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def bench(
    model: CoupledEmbedding,
    folder: Path,
    settings: Settings | None = None,
    *,
    shapes: slice = slice(None),
    pairs: str | int | Path = "all",
    views: Path | None = None,
    cache: Path | None = None,
    jobs: int = 1,
    report: Callable[[str, int, int], None] = lambda *_: None,
) -> Table:
    """Match pairs of a folder's shapes and judge each against the truth.

    Parameters
    ----------
    folder
        Shapes with truth, see `coembed.layouts.read_collection`.
    shapes
        Which of the sorted shapes that have truth, for example the usual test split.
    pairs
        ``"all"`` ordered ones, those ``"listed"`` in ``pairs.txt`` or in a file of this form, or so
        many drawn at random. Where there are parts: of each part with each whole shape.
    views
        Folder of views of the shapes, see `coembed.parts.with_views`.
    cache
        Folder for operators, geodesics and finished targets.
    jobs
        Processes.
    report
        Told what is being done, how many of it are done, and of how many.

    Raises
    ------
    InputError
        If the folder holds too little, or truth and shapes disagree.
    """
    settings = settings or Settings()
    if settings.coupled:
        model.check_coupled()
    collection = _collection(folder, settings, shapes, views)
    if isinstance(pairs, Path):
        collection = layouts.with_pairs(collection, pairs)
    chosen = collection.pairs("listed" if isinstance(pairs, Path) else pairs)
    used = np.unique(chosen).tolist()
    started = time.perf_counter()
    by_pairs = _by_pairs(settings, collection)
    tasks = [(model, settings, collection.members[i], i, by_pairs, cache) for i in used]
    prepared = _run(_prepared, tasks, jobs, lambda done: report("embed", done, len(used)))
    known = dict(zip(used, prepared, strict=True))
    per_shape = (time.perf_counter() - started) / len(used)
    started = time.perf_counter()
    targets = np.unique(chosen[:, 1]).tolist()
    weights = model.digest.encode() if settings.method == "coe" else b""
    _shared.update(
        model=model, weights=weights, settings=settings, collection=collection, known=known,
        cache=cache,
    )  # fmt: skip
    judged = [(j, chosen[chosen[:, 1] == j, 0].tolist()) for j in targets]
    results = list(_run(_judged, judged, jobs, lambda done: report("match", done, len(judged))))
    _shared.clear()
    table = _stacked(results)
    seconds = (per_shape, (time.perf_counter() - started) / len(chosen))
    # the results come target by target
    order = np.argsort(chosen[:, 1], kind="stable")
    apart = chosen[order, 0] != chosen[order, 1]
    answers = np.isfinite(table[apart, _HEAD:]).sum(axis=1)
    share = float(np.average(table[apart, 0], weights=answers)) if answers.any() else np.nan
    measured = collection.members[targets[0]].measured[0]
    names = tuple(member.name for member in collection.members)
    return Table(
        names, chosen[order], table[:, _HEAD:], None if np.isnan(share) else share,
        geometry.geodesics_method(measured, edges=settings.edges), seconds, _peak_mb(),
        collection.notes, table[:, 1:_HEAD] if collection.parts else None,
    )  # fmt: skip


def _collection(folder: Path, settings: Settings, shapes: slice, views: Path | None) -> Collection:
    """The shapes of a folder and their parts."""
    collection = layouts.read_collection(folder, chosen=shapes, base=settings.truth_base)
    if views is not None:
        collection = parts.with_views(collection, views)
    if settings.cut:
        collection = parts.cut(collection, settings.cut, both=settings.cut_both)
    if settings.partial and not collection.parts:
        raise InputError(f"{folder}: no shape is a part, so none can be matched as partial")
    if _by_pairs(settings, collection) and settings.refine == "zoomout":
        raise InputError(
            "pairs that are adapted, turned by pairs or have a part are matched as match does it, "
            f"with refine {', '.join(matching.REFINEMENTS)}; got zoomout"
        )
    return collection


def _by_pairs(settings: Settings, collection: Collection) -> bool:
    """Whether each pair is matched by itself, as `match` does it."""
    return settings.method == "coe" and (collection.parts or settings.by_pairs)


@dataclass(frozen=True, eq=False)
class Judged:
    """One pair of a benchmark: its shapes before any disturbance, its map, its errors."""

    source: Shape
    target: Shape
    matches: Correspondence
    errors: GeodesicErrors


def worst(
    model: CoupledEmbedding,
    folder: Path,
    settings: Settings,
    table: Table,
    *,
    n: int,
    shapes: slice = slice(None),
    views: Path | None = None,
    cache: Path | None = None,
) -> list[Judged]:
    """The pairs of a finished table with the largest mean errors, matched once more.

    Arguments are those of `bench`, which keeps errors only; self pairs are left out.
    """
    collection = _collection(folder, settings, shapes, views)
    by_pairs = _by_pairs(settings, collection)
    means = np.nan_to_num(table.means, nan=-np.inf)
    means[table.pairs[:, 0] == table.pairs[:, 1]] = -np.inf
    found = []
    for row in np.argsort(-means, kind="stable")[: min(n, int(np.isfinite(means).sum()))].tolist():
        i, j = table.pairs[row].tolist()
        one, other = (
            _prepared(model, settings, collection.members[k], k, by_pairs, cache) for k in (i, j)
        )
        pair = collection.members[i].shape, collection.members[j].shape
        truth = collection.truth(i, j)
        assert truth is not None
        p2p, score = _answers(
            model, settings, one, other, truth, np.arange(len(pair[0].points)), cache
        )
        rows, _ = _sampled(collection, i, j, settings.samples)
        errors = table.errors[row, : len(rows)]
        judged = ~np.isnan(errors)
        matches = Correspondence(
            p2p, np.ones(len(p2p)) if score is None else score, len(pair[1].points)
        )
        errors_of = GeodesicErrors(rows[judged], errors[judged], table.geodesics)
        found.append(Judged(*pair, matches, errors_of))
    return found


@dataclass(frozen=True, eq=False)
class _Prepared:
    """A disturbed shape and what the methods need of it, in the rows of its file."""

    shape: Shape
    there: Int[np.ndarray, " n"]
    back: Int[np.ndarray, " m"]
    features: Float[np.ndarray, "m d"]
    basis: Basis | None
    surface: Surface | None
    mesh: Any
    digest: str
    given: Shape | Embedding | None = None
    """What `match` is given, where pairs are matched by themselves."""


_shared: dict[str, Any] = {}
"""What the tasks of one run have in common; worker processes inherit it."""


def _prepared(
    model: CoupledEmbedding,
    settings: Settings,
    member: Member,
    index: int,
    by_pairs: bool,
    cache: Path | None,
) -> _Prepared:
    shape = member.shape
    disturbed = disturbances.disturb(shape, settings.disturbance, seed=index)
    hard, method = disturbed.shape, settings.method
    if hard.unusable:
        reason, rows = next(iter(hard.unusable.items()))
        raise InputError(f"{hard.name}: {len(rows)} rows are {reason}; a benchmark needs all rows")
    spectral = settings.refine in ("spectral", "zoomout")
    modes = functional.MODES if spectral else _COUPLED_MODES
    basis = _basis(hard, modes, cache) if spectral or method.startswith("cqhb") else None
    surface: Surface | None = None
    given: Shape | Embedding | None = None
    way = cast(str, settings.align)  # where there are two, they are for the pairs
    if by_pairs:
        given = hard  # it may have to be turned as its target stands
        features = np.empty((len(hard.points), 0))
        if not member.part and settings.one_way:
            given = embed(model, hard, align=way, points=settings.points, cache=cache)
    elif method == "coe":
        embedding = embed(model, hard, align=way, points=settings.points, cache=cache)
        features = np.asarray(embedding)
        if settings.refine == "register":
            surface = Surface.of(embedding)
    elif method in ("cqhb-gt", "pyfm-wks"):
        features = np.empty((len(hard.points), 0))
    else:
        operators = geometry.prepare(hard, cache=cache)
        features = operators.evecs
        if method != "spectral":
            signature = descriptors.wks if method == "wks" else descriptors.hks
            features = signature(operators.evals, operators.evecs)
        features = features[operators.rows]
    digest = hashlib.sha256(features.tobytes())
    for one in (hard, shape):
        digest.update(one.points.tobytes() + (b"" if one.faces is None else one.faces.tobytes()))
    mesh = baselines.pyfm_mesh(hard) if method == "pyfm-wks" else None
    return _Prepared(
        hard, disturbed.there, disturbed.back, features, basis, surface, mesh, digest.hexdigest(),
        given,
    )  # fmt: skip


def _basis(shape: Shape, modes: int, cache: Path | None) -> Basis:
    operators = geometry.prepare(shape, n_eig=modes, cache=cache)
    rows = operators.rows
    copies = np.bincount(rows, minlength=len(operators.mass))
    return Basis(operators.evals, operators.evecs[rows], (operators.mass / copies)[rows])


def _judged(target: int, sources: list[int]) -> Float[np.ndarray, "p s"]:
    """For every source of one target its numbers and its errors; kept for later."""
    path = None
    if _shared["cache"] is not None:
        path = _shared["cache"] / f"{_key(target, sources)}.errors.npy"
        stored = _stored_array(path)
        if stored is not None and len(stored) == len(sources):
            return stored
    found = _stacked(_pair_errors(source, target)[None] for source in sources)
    if path is not None:
        files.write_array(path, found)
    return found


def _key(target: int, sources: list[int]) -> str:
    """Fingerprint of all that the errors of one target depend on."""
    settings, collection = _shared["settings"], _shared["collection"]
    key = hashlib.sha256(_code().encode() + json.dumps(asdict(settings)).encode())
    key.update(_shared["weights"])
    for i in (target, *sources):
        key.update(_shared["known"][i].digest.encode())
        for mirrored in (False, True):
            truth = _sampled(collection, i, target, settings.samples, mirrored=mirrored)
            key.update(b"".join(rows.tobytes() for rows in truth) + b"|")
    return key.hexdigest()[:40]


def _pair_errors(source: int, target: int) -> Float[np.ndarray, " s"]:
    """Share of flips, IoU and AUROC of the common part (NaN where not known), then the errors."""
    settings, known, collection = (_shared[key] for key in ("settings", "known", "collection"))
    one, other = known[source], known[target]
    shape, into = collection.members[target].measured
    start, wanted = _sampled(collection, source, target, settings.samples)
    truth = collection.truth(source, target)
    asked = np.concatenate([start, truth[0] if collection.parts else start[:0]])
    found, score = _answers(
        _shared["model"], settings, one, other, truth, np.maximum(asked, 0), _shared["cache"]
    )
    ends, size = np.where(found < 0, -1, into[found])[: len(start)], _size(shape, target)
    judged, answered = (start >= 0) & (wanted >= 0), ends >= 0

    def away(rows: Int[np.ndarray, " s"]) -> Float[np.ndarray, " s"]:
        errors = np.where((start >= 0) & (rows >= 0), np.inf, np.nan)
        # from all of the target's samples, as they are the same for every source
        far = _geodesics(shape, into[rows[rows >= 0]], settings.edges, _shared["cache"])
        place = np.cumsum(rows >= 0) - 1
        those = (errors == np.inf) & answered
        errors[those] = far[place[those], ends[those]] / size
        return errors

    errors, flipped = away(wanted), np.nan
    _, twin = _sampled(collection, source, target, settings.samples, mirrored=True)
    if len(twin) and (judged & answered).any():
        nearer = (errors > 0.15) & (away(twin) < errors)
        flipped = float(nearer[judged & answered].mean())
    common = np.full(2, np.nan)
    if collection.parts:
        common = _common(truth, found[len(start) :], None if score is None else score[len(start) :])
    return np.concatenate([[flipped], common, errors])


def _common(
    truth: Truth, found: Int[np.ndarray, " t"], score: Float[np.ndarray, " t"] | None
) -> Float[np.ndarray, " 2"]:
    """IoU of rows with a counterpart and answered ones, AUROC of the score; NaN if all have one."""
    there = truth[0] >= 0
    true = truth[1][there] >= 0
    if true.all():
        return np.full(2, np.nan)
    among = np.nan if score is None else evaluation.auroc(score[there], true)
    return np.array([evaluation.overlap(found[there] >= 0, true), among])


def _answers(
    model: CoupledEmbedding,
    settings: Settings,
    one: _Prepared,
    other: _Prepared,
    truth: Truth,
    rows: Int[np.ndarray, " s"],
    cache: Path | None,
) -> tuple[Int[np.ndarray, " s"], Float[np.ndarray, " s"] | None]:
    """Row of the target, or -1, for some rows of the source, and the score if there is one."""
    asked = one.there[rows]
    if one.given is None or other.given is None:
        return other.back[_matched(model, settings, one, other, truth, asked)], None
    # the one place where pairs are matched by themselves
    matches = matching.match(
        model, one.given, other.given, align=settings.align, refine=settings.refine,
        coupled=settings.coupled, points=settings.points, cache=cache,
        partial=settings.partial, adapt=settings.adapt,
    )  # fmt: skip
    found = matches.p2p[asked]
    return np.where(found < 0, -1, other.back[found]), matches.score[asked]


def _matched(
    model: CoupledEmbedding,
    settings: Settings,
    one: _Prepared,
    other: _Prepared,
    truth: Truth,
    rows: Int[np.ndarray, " s"],
) -> Int[np.ndarray, " s"]:
    """Row of the disturbed target for some rows of the disturbed source."""
    phi, psi = one.features, other.features
    if settings.coupled:
        phi, psi = (np.asarray(x) for x in model.couple(phi, psi))
    elif settings.method.startswith("cqhb"):
        phi, psi = _coupled_bases(settings.method, one, other, truth)
    similarity = model.config.similarity if settings.method == "coe" else "l2"
    if one.surface is not None and other.surface is not None:
        laid = register(one.surface, other.surface)
        if laid.fits:
            phi, psi = (np.asarray(embedding) for embedding in laid.embeddings)
            similarity = "l2"

    def there(rows: Any = slice(None)) -> Int[np.ndarray, " s"]:
        if settings.method == "pyfm-wks":
            return baselines.pyfm_map(one.mesh, other.mesh)[rows]
        return nearest(phi[rows], psi, similarity=similarity)

    if one.basis is None or other.basis is None or settings.refine not in ("spectral", "zoomout"):
        return there(rows)
    back = None
    if settings.refine == "spectral":
        if settings.method == "pyfm-wks":
            back = baselines.pyfm_map(other.mesh, one.mesh)
        else:
            back = nearest(psi, phi, similarity=similarity)
    phi, psi = functional.zoomout(one.basis, other.basis, there(), back)
    return nearest(phi[rows], psi)


def _coupled_bases(
    method: str, one: _Prepared, other: _Prepared, truth: Truth
) -> tuple[Float[np.ndarray, "n k"], Float[np.ndarray, "m k"]]:
    coefficients, bases = [], []
    there = (truth[0] >= 0) & (truth[1] >= 0)
    for shape, rows in zip((one, other), truth, strict=True):
        assert shape.basis is not None
        evecs = shape.basis.evecs[:, :_COUPLED_MODES]
        bases.append(replace(shape.basis, evals=shape.basis.evals[:_COUPLED_MODES], evecs=evecs))
        if method == "cqhb-gt":
            coefficients.append(evecs[shape.there[rows[there]]])
        else:
            coefficients.append(shape.features.T @ (shape.basis.mass[:, None] * evecs))
    return baselines.coupled_bases(bases[0], bases[1], (coefficients[0], coefficients[1]))


def _sampled(
    collection: Collection, source: int, target: int, samples: int, *, mirrored: bool = False
) -> Truth:
    """Evenly spaced part of the truth of a pair, the same for every source of one template."""
    truth = collection.truth(source, target, mirrored=mirrored)
    if truth is None:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    chosen = evaluation.spaced(len(truth[0]), samples)
    return truth[0][chosen], truth[1][chosen]


def _stacked(parts: Iterable[np.ndarray]) -> Float[np.ndarray, "p s"]:
    """Rows of several tables, the short ones filled up with NaN."""
    parts = list(parts)
    width = max(part.shape[1] for part in parts)
    return np.concatenate(
        [np.pad(p, ((0, 0), (0, width - p.shape[1])), constant_values=np.nan) for p in parts]
    )


def _run(
    work: Callable[..., Any],
    tasks: list[tuple[Any, ...]],
    jobs: int,
    report: Callable[[int], None],
) -> Iterator[Any]:
    """Results in the order of the tasks, from one process or several."""
    if jobs == 1:
        for done, task in enumerate(tasks):
            report(done)
            yield work(*task)
    else:
        # forked processes have what is shared without copying it; others are sent it once
        context = get_context("fork" if sys.platform == "linux" else "spawn")
        with processes.pool(
            min(jobs, len(tasks)), context=context, start=_start, arguments=(_shared,)
        ) as pool:
            for done, future in enumerate([pool.submit(work, *task) for task in tasks]):
                report(done)
                yield future.result()
    report(len(tasks))


def _start(shared: Mapping[str, Any]) -> None:
    threadpool_limits(limits=1)
    _shared.update(shared)


def _peak_mb() -> float:
    try:
        import resource
    except ImportError:  # not on Windows
        return float("nan")
    unit = 1 if sys.platform == "darwin" else 1024
    everyone = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return max(resource.getrusage(who).ru_maxrss for who in everyone) * unit / 1e6


@once
def _code() -> str:
    """Fingerprint of the code that makes results, and of what it has learned: stored errors of
    others are not used.
    """
    digest, here = hashlib.sha256(), Path(__file__).parent
    learned = sorted((here / "data").glob("*.npz"))
    for path in (*(here / f"{module}.py" for module in _MAKERS), *learned):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _size(shape: Shape, target: int) -> float:
    """Square root of a target's area, found once: for a cloud it takes a Laplacian."""
    sizes = _shared.setdefault("sizes", {})
    if target not in sizes:
        sizes[target] = float(np.sqrt(evaluation.area_of(shape)))
    return float(sizes[target])


def _geodesics(
    shape: Shape, rows: Int[np.ndarray, " s"], edges: bool, cache: Path | None
) -> Float[np.ndarray, "s n"]:
    """Distances from rows of a target; the last ones are kept for the next source."""
    key = hashlib.sha256(shape.points.tobytes() + rows.tobytes() + bytes([edges]))
    key.update(b"" if shape.faces is None else shape.faces.tobytes())
    name = key.hexdigest()[:40]
    recent = _shared.setdefault("geodesics", {})
    if name not in recent:
        path = None if cache is None else cache / f"{name}.geodesics.npy"
        stored = None if path is None else _stored_array(path)
        if stored is None or stored.shape != (len(rows), len(shape.points)):
            stored = geometry.geodesics(shape, rows, edges=edges).astype(np.float32)
            if path is not None:
                files.write_array(path, stored)
        while len(recent) > 1:  # one for the truth, one for its mirror image
            recent.pop(next(iter(recent)))
        recent[name] = stored
    return recent[name]


def _stored_array(path: Path) -> np.ndarray | None:
    try:
        stored: np.ndarray = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None  # not there yet, or cut off: made again
    return stored
