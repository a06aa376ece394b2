"""What belongs to the points of one shape carried to another along a map.

A map leads from source to target; things are carried along it, to the target, or against it, to
the source. Takes shapes and a correspondence, gives a shape with more attributes.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy

from coembed import sampling
from coembed.annotations import Bool, Float, Int, Sparse
from coembed.errors import InputError
from coembed.shapes import Correspondence, Shape

__all__ = [
    "KINDS",
    "Carrier",
    "Transferred",
    "carried",
    "fill_value",
    "is_category",
    "spacing",
    "transfer",
]

_NEAR = 6  # places that a value is interpolated from
_REACH, _LEAST_REACH = 5.0, 0.015  # spacings of the places, or of the shape's size; beyond
# the larger of the two there is no answer
_TOGETHER = 4.0  # spacings of the givers; what is further apart is not averaged
_TORN = 4.0  # times the usual change of texture coordinates with distance: a seam lies between
_ASKED = 5_000  # points whose nearest neighbour tells the spacing

_COLOUR = re.compile(r"(diffuse_)?(red|green|blue|alpha)|rgba?|colou?rs?|[rgb]", re.IGNORECASE)
_UV = re.compile(r"[stuv]|uv|texture_[uvst]|texcoord.*|uv_?[01]", re.IGNORECASE)
_WEIGHT = re.compile(r"(skin_?)?weights?(_?\d+)*", re.IGNORECASE)

KINDS = ("colors", "labels", "uv", "weights")
"""What may be asked for besides the name of an attribute."""


def transfer(
    source: Shape,
    target: Shape,
    matches: Correspondence,
    *,
    what: Sequence[str] = (),
    to: str = "source",
) -> Shape:
    """The source with the target's attributes, or the target with the source's.

    Whole numbers (labels) are never averaged; names and types stay. To the source each row takes
    what its match has; where several rows share a match, other values than labels are interpolated
    between the middles of such groups. To the target each row takes the mean, of labels the
    majority, of the rows that end there; where none ends, that of the six nearest places where
    some do, unless these are far away. Rows without an answer get `fill_value`. An attribute of
    the same name that the receiver has is replaced.

    Parameters
    ----------
    what
        Names of attributes, or ``"colors"``, ``"labels"`` (whole numbers), ``"uv"`` (nothing is
        averaged across a seam), ``"weights"`` (of a skin; each row sums to 1). Nothing: all.
    to
        ``"source"`` or ``"target"``: the shape that receives.

    Raises
    ------
    InputError
        If the map is not one between these two, or the giver has no such attributes.
    """
    return carried(source, target, matches, what=what, to=to).shape


@dataclass(frozen=True, eq=False)
class Transferred:
    """A shape that attributes were carried to.

    Parameters
    ----------
    shape
        The receiver with its new attributes.
    names
        Of these.
    without
        Rows that got nothing.
    torn
        Faces of the receiver whose texture coordinates lie on both sides of a seam; None if no
        such coordinates were carried.
    """

    shape: Shape
    names: tuple[str, ...]
    without: int
    torn: int | None


def carried(
    source: Shape,
    target: Shape,
    matches: Correspondence,
    *,
    what: Sequence[str] = (),
    to: str = "source",
) -> Transferred:
    """What `transfer` does, and what became of it."""
    if to not in ("source", "target"):
        raise InputError(f"to must be source or target; got {to!r}")
    giver, receiver = (target, source) if to == "source" else (source, target)
    matches.check_between(source, target)
    names = _chosen(giver, receiver, what, to)
    carrier = Carrier.of(source, target, matches, to)
    found: dict[str, np.ndarray] = {}
    for group in _groups(names):
        found |= _carried(carrier, giver, group)
    got = {name: found[name] for name in names}
    shape = replace(receiver, attributes={**receiver.attributes, **got})
    uv = [values.reshape(len(values), -1) for name, values in got.items() if _UV.fullmatch(name)]
    torn = _torn(receiver, np.concatenate(uv, axis=1)) if uv else None
    return Transferred(shape, tuple(names), int((~carrier.answered).sum()), torn)


def fill_value(dtype: np.dtype) -> float | int | str:
    """What stands where there is no match: NaN, -1, the largest unsigned number, or no text."""
    if dtype.kind in "fc":
        return float("nan")
    if dtype.kind == "u":
        return int(np.iinfo(dtype).max)
    return -1 if dtype.kind == "i" else ""


def is_category(name: str, values: np.ndarray) -> bool:
    """Whether values are labels: whole numbers or text, but no colours or coordinates."""
    if any(kind.fullmatch(name) for kind in (_COLOUR, _UV, _WEIGHT)):
        return False
    if values.dtype.kind != "f":
        return True
    known = values[np.isfinite(values)]
    return bool((known == np.trunc(known)).all())


@dataclass(frozen=True, eq=False)
class Carrier:
    """A map as the share that each receiving row takes of each giving row.

    Parameters
    ----------
    smooth
        Shares of values that may be averaged; a row sums to 1, or is empty if it has no answer.
        Some are a little below 0, so that linear functions are carried exactly.
    votes
        The same for labels, none below 0.
    """

    smooth: Sparse
    votes: Sparse

    @classmethod
    def of(cls, source: Shape, target: Shape, matches: Correspondence, to: str) -> "Carrier":
        """Shares by the rules of `transfer`."""
        usable = np.isfinite(source.points).all(axis=1) & (matches.p2p >= 0)
        rows = np.flatnonzero(usable)
        rows = rows[np.isfinite(target.points[matches.p2p[rows]]).all(axis=1)]
        ends = matches.p2p[rows]
        if to == "source":
            one = (np.ones(len(rows)), (rows, ends))
            votes = scipy.sparse.csr_array(one, shape=(len(source.points), len(target.points)))
            return cls(_against(source.points, target.points, rows, ends), votes)
        return cls(*_along(source.points, target, rows, ends))

    @property
    def answered(self) -> Bool[np.ndarray, " n"]:
        """Receiving rows that take something."""
        return np.diff(self.votes.indptr) > 0

    def mean(self, values: Float[np.ndarray, "m d"]) -> Float[np.ndarray, "n d"]:
        """Averages; NaN where there is no answer."""
        mixed = np.asarray(self.smooth @ values)
        mixed[~self.answered] = np.nan
        return mixed

    def majority(self, values: np.ndarray) -> np.ndarray:
        """Labels with most votes, the first in order among equals; `fill_value` without any."""
        labels, codes = np.unique(values, axis=0, return_inverse=True)
        codes = codes.reshape(-1)
        shape = (len(codes), len(labels))
        one_hot = scipy.sparse.csr_array(
            (np.ones(len(codes)), (np.arange(len(codes)), codes)), shape
        )
        winner = _heaviest(self.votes @ one_hot)
        result = np.full((len(winner), *values.shape[1:]), fill_value(values.dtype), values.dtype)
        result[winner >= 0] = labels[winner[winner >= 0]]
        return result


def spacing(points: Float[np.ndarray, "n 3"]) -> float:
    """Median distance of a point to the nearest other place; 0 for less than two places."""
    places = np.unique(points, axis=0)
    if len(places) < 2:
        return 0.0
    asked = places[:: max(1, len(places) // _ASKED)]
    return float(np.median(scipy.spatial.cKDTree(places).query(asked, k=2)[0][:, 1]))


# --------------------------------------------------------------------------------- the shares


def _against(
    source: Float[np.ndarray, "n 3"],
    target: Float[np.ndarray, "m 3"],
    rows: Int[np.ndarray, " r"],
    ends: Int[np.ndarray, " r"],
) -> Sparse:
    """Shares that source rows take of target rows.

    Each target row that is an answer has one place on the source, the middle of its rows; values
    are interpolated between these places.
    """
    shape = (len(source), len(target))
    if not len(rows):
        return scipy.sparse.csr_array(shape)
    used, group, middles = _middles(source, rows, ends)
    near, weights = _interpolated(source[rows], middles)
    together = np.linalg.norm(target[used[near]] - target[ends][:, None], axis=2)
    shares = _within(weights, together <= _TOGETHER * spacing(target[used]))
    own = shares.sum(axis=1) == 0  # its group is torn apart, or all around belongs elsewhere
    near[own, 0], shares[own, 0] = group[own], 1
    entries = (shares.ravel(), (np.repeat(rows, near.shape[1]), used[near].ravel()))
    return _without_zeros(scipy.sparse.csr_array(entries, shape=shape))


def _along(
    source: Float[np.ndarray, "n 3"],
    target: Shape,
    rows: Int[np.ndarray, " r"],
    ends: Int[np.ndarray, " r"],
) -> tuple[Sparse, Sparse]:
    """Shares that target rows take of source rows; the same without those below 0, for votes."""
    shape = (len(target.points), len(source))
    if not len(rows):
        return scipy.sparse.csr_array(shape), scipy.sparse.csr_array(shape)
    hit, group, origin = _middles(source, rows, ends)
    share = 1 / np.bincount(group)[group]
    donors = scipy.sparse.csr_array((share, (group, rows)), shape=(len(hit), len(source)))
    asking = target.usable
    asking[hit] = True
    asking = np.flatnonzero(asking & np.isfinite(target.points).all(axis=1))
    places, queries = target.points[hit], target.points[asking]
    near, weights = _interpolated(queries, places)
    distance = np.linalg.norm(places[near] - queries[:, None], axis=2)
    together = np.linalg.norm(origin[near] - origin[near[:, :1]], axis=2)
    size = float(np.linalg.norm(np.ptp(queries, axis=0)))
    reach = max(_REACH * spacing(places), _LEAST_REACH * size)
    grouped = max(_TOGETHER * spacing(origin), _LEAST_REACH * size)
    shares = _within(weights, (distance <= reach) & (together <= grouped))
    where = (np.repeat(asking, near.shape[1]), near.ravel())
    found = []
    for kept in (shares, _within(np.maximum(shares, 0), shares > 0)):
        matrix = scipy.sparse.csr_array((kept.ravel(), where), shape=(shape[0], len(hit)))
        found.append(_without_zeros(matrix @ donors))
    return found[0], found[1]


def _middles(
    source: Float[np.ndarray, "n 3"], rows: Int[np.ndarray, " r"], ends: Int[np.ndarray, " r"]
) -> tuple[Int[np.ndarray, " u"], Int[np.ndarray, " r"], Float[np.ndarray, "u 3"]]:
    """Target rows that are answers; for each source row which of them; the middle of its rows."""
    used, group, counts = np.unique(ends, return_inverse=True, return_counts=True)
    sums = [np.bincount(group, source[rows, axis]) for axis in range(3)]
    return used, group, np.stack(sums, axis=1) / counts[:, None]


def _interpolated(
    queries: Float[np.ndarray, "q 3"], places: Float[np.ndarray, "p 3"]
) -> tuple[Int[np.ndarray, "q j"], Float[np.ndarray, "q j"]]:
    """The places nearest to each query and the shares by which values are carried from them."""
    found = sampling.interpolation(queries, places, k=_NEAR)
    near, weights = found.nearest.astype(np.int64), found.weights.astype(np.float64)
    exact = (places[near] == queries[:, None]).all(axis=2)
    one_of = np.where(exact.any(axis=1, keepdims=True), exact, weights)
    return near, one_of


def _within(
    weights: Float[np.ndarray, "q j"], kept: Bool[np.ndarray, "q j"]
) -> Float[np.ndarray, "q j"]:
    """Weights of what is kept, as shares of 1; none below 0 where something was left out."""
    shares = np.where(kept, weights, 0)
    shares = np.where(kept.all(axis=1, keepdims=True), shares, np.maximum(shares, 0))
    total = shares.sum(axis=1, keepdims=True)
    return np.where(total > 0, shares / np.where(total > 0, total, 1), 0)


def _without_zeros(matrix: Sparse) -> Sparse:
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return matrix


def _heaviest(matrix: Sparse) -> Int[np.ndarray, " n"]:
    """Column of the largest entry of each row, the first among equals; -1 for empty rows."""
    matrix.sort_indices()
    counts = np.diff(matrix.indptr)
    winner = np.full(matrix.shape[0], -1)
    if not len(matrix.data):
        return winner
    full = np.flatnonzero(counts)
    starts = matrix.indptr[full]
    # votes that differ by rounding only are equal
    most = np.repeat(np.maximum.reduceat(matrix.data, starts) * (1 - 1e-9), counts[full])
    top = np.flatnonzero(matrix.data >= most)
    owner = np.repeat(full, counts[full])[top]
    winner[owner[::-1]] = matrix.indices[top[::-1]]
    return winner


# --------------------------------------------------------------------------- which, and how


def _chosen(giver: Shape, receiver: Shape, what: Sequence[str], to: str) -> list[str]:
    """Names of the attributes that were asked for."""
    has = giver.attributes
    if not has:
        other = "target" if to == "source" else "source"
        hint = f"; {receiver.name} has: carry them --to {other}" if receiver.attributes else ""
        raise InputError(f"{giver.name}: has no attributes (colours, labels, ...) to carry{hint}")
    kinds = {
        "colors": [name for name in has if _COLOUR.fullmatch(name)],
        "labels": [name for name, values in has.items() if is_category(name, values)],
        "uv": [name for name in has if _UV.fullmatch(name)],
        "weights": [name for name in has if _WEIGHT.fullmatch(name)],
    }
    names: list[str] = []
    for word in what or has:
        found = [word] if word in has else kinds.get(word, [])
        if not found:
            raise InputError(
                f"{giver.name}: has no {word!r} to carry; it has {', '.join(has)}. "
                f"Name one of these, or {', '.join(KINDS)}"
            )
        names += [name for name in found if name not in names]
    return names


def _groups(names: list[str]) -> list[list[str]]:
    """Attributes that are carried together: texture coordinates, skin weights; others alone."""
    joint = [[name for name in names if kind.fullmatch(name)] for kind in (_UV, _WEIGHT)]
    alone = [[name] for name in names if not any(name in group for group in joint)]
    return [group for group in joint if group] + alone


def _carried(carrier: Carrier, giver: Shape, names: list[str]) -> dict[str, np.ndarray]:
    """Attributes of one kind on the receiver's rows."""
    columns = [giver.attributes[name] for name in names]
    if is_category(names[0], columns[0]):
        return {names[0]: carrier.majority(columns[0])}
    flat = [values.reshape(len(values), -1).astype(np.float64) for values in columns]
    table = np.concatenate(flat, axis=1)
    if _UV.fullmatch(names[0]):
        smooth = _unseamed(carrier.smooth, table, giver.points)
        carrier = Carrier(smooth, carrier.votes)
    mixed = carrier.mean(table)
    if _WEIGHT.fullmatch(names[0]):
        mixed = np.maximum(mixed, 0)
        total = mixed.sum(axis=1, keepdims=True)
        mixed = mixed / np.where(total > 0, total, 1)
    parts = np.split(mixed, np.cumsum([part.shape[1] for part in flat])[:-1], axis=1)
    return {
        name: _typed(part.reshape(-1, *values.shape[1:]), values.dtype, carrier.answered)
        for name, part, values in zip(names, parts, columns, strict=True)
    }


def _typed(mixed: np.ndarray, dtype: np.dtype, answered: Bool[np.ndarray, " n"]) -> np.ndarray:
    """Averages in the type of what was averaged."""
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        mixed = np.clip(np.rint(np.nan_to_num(mixed)), limits.min, limits.max)
    result = mixed.astype(dtype)
    result[~answered] = fill_value(dtype)
    return result


def _unseamed(
    matrix: Sparse, uv: Float[np.ndarray, "m c"], points: Float[np.ndarray, "m 3"]
) -> Sparse:
    """The shares without those of rows that lie across a seam from the heaviest one.

    A seam is where texture coordinates change much more with distance than they usually do.
    """
    heaviest = _heaviest(matrix)
    sound = np.isfinite(points).all(axis=1) & np.isfinite(uv).all(axis=1)
    rows = np.flatnonzero(sound)[:: max(1, int(sound.sum()) // _ASKED)]
    k = min(_NEAR + 1, int(sound.sum()))
    near = np.flatnonzero(sound)[
        scipy.spatial.cKDTree(points[sound]).query(points[rows], k=range(1, k + 1))[1]
    ]
    lengths = np.linalg.norm(points[near] - points[rows][:, None], axis=2)
    changes = np.linalg.norm(uv[near] - uv[rows][:, None], axis=2)
    usual = (
        float(np.median(changes[lengths > 0] / lengths[lengths > 0])) if (lengths > 0).any() else 0
    )
    owner = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    first = heaviest[owner]
    apart = np.linalg.norm(points[matrix.indices] - points[first], axis=1)
    change = np.linalg.norm(uv[matrix.indices] - uv[first], axis=1)
    torn = change > _TORN * usual * apart
    touched = np.bincount(owner, torn, matrix.shape[0])[owner] > 0
    data = np.where(torn, 0, np.where(touched, np.maximum(matrix.data, 0), matrix.data))
    data /= np.bincount(owner, data, matrix.shape[0])[owner]
    return _without_zeros(
        scipy.sparse.csr_array((data, matrix.indices, matrix.indptr), matrix.shape)
    )


def _torn(shape: Shape, uv: np.ndarray) -> int:
    """Faces along whose edges texture coordinates change much more than they usually do."""
    faces = shape.sound_faces
    faces = faces[np.isfinite(uv[faces]).all(axis=(1, 2))]
    if not len(faces):
        return 0
    edges = faces[:, [[0, 1], [1, 2], [2, 0]]]
    lengths = np.linalg.norm(np.diff(shape.points[edges], axis=2)[:, :, 0], axis=2)
    changes = np.linalg.norm(np.diff(uv[edges], axis=2)[:, :, 0], axis=2)
    rates = changes / np.maximum(lengths, 1e-300)
    return int((rates > _TORN * np.median(rates)).any(axis=1).sum())
