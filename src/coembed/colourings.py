"""What a pair of shapes can be coloured by, with what one side lacks carried over by the map.

Takes shapes and a correspondence, gives `Colouring` records; pictures and pages draw them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import scipy

from coembed.annotations import Float, Int
from coembed.errors import InputError
from coembed.evaluation import GeodesicErrors
from coembed.shapes import Correspondence, Shape
from coembed.transfer import Carrier, is_category

__all__ = [
    "NONE",
    "PALETTE",
    "Colouring",
    "colouring",
    "colourings",
    "normals",
    "number",
    "painted",
    "position_colours",
]

NONE = 0.62
"""Grey of points that have no value."""

PALETTE = np.array([
    [31, 119, 180], [255, 127, 14], [44, 160, 44], [214, 39, 40], [148, 103, 189], [140, 86, 75],
    [227, 119, 194], [188, 189, 34], [23, 190, 207], [122, 162, 247], [255, 187, 120],
    [152, 223, 138], [255, 152, 150], [197, 176, 213], [96, 60, 20], [247, 182, 210],
    [120, 130, 20], [12, 90, 100], [70, 20, 110], [250, 220, 60],
], dtype=np.uint8)  # fmt: skip
"""Colours of categories, in turn."""

_RAMP = np.array([
    [68, 1, 84], [71, 44, 122], [59, 81, 139], [44, 113, 142], [33, 144, 141], [39, 173, 129],
    [92, 200, 99], [170, 220, 50], [253, 231, 37],
])  # fmt: skip  # viridis, CC0
_HEAT = np.array([
    [247, 244, 190], [252, 206, 107], [249, 154, 50], [229, 92, 48], [187, 55, 84], [137, 34, 106],
    [86, 16, 110], [36, 10, 60],
])  # fmt: skip  # dark is bad
_SIGNED = np.array([
    [33, 62, 150], [80, 130, 200], [160, 200, 230], [243, 243, 240], [245, 190, 150],
    [220, 110, 80], [150, 20, 40],
])  # fmt: skip
_FULL_ERROR = 0.2  # in sqrt(area): the end of the error colours
_MOST = 12  # attributes that are offered
_NEIGHBORS = 12  # of a point, for its normal
_COLOURS = (("red", "green", "blue"), ("diffuse_red", "diffuse_green", "diffuse_blue"))


@dataclass(frozen=True, eq=False)
class Colouring:
    """Values of both shapes' points, and the colours that they mean.

    Parameters
    ----------
    label
        What it is called.
    kind
        ``"rgb"``: colours as uint8; ``"number"``: NaN where there is none; ``"category"``: codes,
        -1 where there is none.
    values
        Of source and target.
    low, high
        Ends of the numbers' ramp.
    names
        Of the categories.
    ramp
        Colours from low to high.
    """

    label: str
    kind: str
    values: tuple[np.ndarray, np.ndarray]
    low: float = 0.0
    high: float = 1.0
    names: tuple[str, ...] = ()
    ramp: Int[np.ndarray, "c 3"] = field(default_factory=lambda: np.zeros((0, 3), dtype=np.int64))

    @property
    def gaps(self) -> bool:
        """Whether some points have no value."""
        if self.kind == "number":
            return any(bool(np.isnan(v).any()) for v in self.values)
        return self.kind == "category" and any(bool((v < 0).any()) for v in self.values)


def colourings(
    source: Shape, target: Shape, matches: Correspondence, errors: GeodesicErrors | None = None
) -> list[Colouring]:
    """All that a pair can be coloured by: position, error, trust, and the shapes' attributes.

    Trust is left out where it is 1 throughout, as in a map that was read from text.

    What only one of the shapes has is carried to the other by the map, as `transfer` does it. An
    error belongs to the source point that was judged.
    """
    matches.check_between(source, target)
    there = Carrier.of(source, target, matches, "target")
    found = [_by_position(source, there)]
    if errors is not None:
        found.append(_by_error(source, target, matches, errors))
    if (matches.score[matches.p2p >= 0] != 1).any():  # a map read from text has no scores
        found.append(_by_trust(matches, there))
    back: Carrier | None = None
    names = [*source.attributes, *(n for n in target.attributes if n not in source.attributes)]
    triples = [triple for triple in _COLOURS if set(triple) <= set(names)]
    skipped = {name for triple in triples for name in triple}
    groups = [*triples, *((name,) for name in names if name not in skipped)]
    for group in groups[:_MOST]:
        own = [_stacked(shape, group) for shape in (source, target)]
        if own[0] is None and own[1] is None:
            continue
        if own[0] is None:
            back = back or Carrier.of(source, target, matches, "source")
        found += _by_attribute(group, own, there, back)
    return found


def colouring(found: Sequence[Colouring], label: str) -> Colouring:
    """The one of that label; those of an attribute carry its name.

    Raises
    ------
    InputError
        If there is none.
    """
    for one in found:
        if one.label == label:
            return one
    raise InputError(
        f"there is nothing called {label!r} to colour by; expected one of "
        f"{', '.join(one.label for one in found)}"
    )


def number(
    label: str, values: Sequence[np.ndarray], *, signed: bool = False, ramp: np.ndarray = _RAMP
) -> Colouring:
    """Colouring by numbers; the ramp ends at the 1st and 99th percentile, signed ones about 0."""
    one, other = (np.asarray(v, dtype=np.float64) for v in values)
    one, other = (np.where(np.isfinite(v), v, np.nan) for v in (one, other))
    known = np.concatenate([one[~np.isnan(one)], other[~np.isnan(other)]])
    low, high = (float(x) for x in np.quantile(known, [0.01, 0.99])) if len(known) else (0.0, 1.0)
    if signed:
        high = max(abs(low), abs(high))
        low, ramp = -high, _SIGNED
    return Colouring(label, "number", (one, other), low, max(high, low + 1e-12), (), ramp)


def painted(one: Colouring, side: int) -> Float[np.ndarray, "n 3"]:
    """Colours of one side's points, from 0 to 1."""
    values = one.values[side]
    if one.kind == "rgb":
        return values / 255
    if one.kind == "category":
        colours = PALETTE[values % len(PALETTE)] / 255
        colours[values < 0] = NONE
        return colours
    place = np.clip((values - one.low) / (one.high - one.low), 0, 1) * (len(one.ramp) - 1)
    place = np.nan_to_num(place)
    low = np.minimum(place.astype(np.int64), len(one.ramp) - 2)
    share = (place - low)[:, None]
    colours = ((1 - share) * one.ramp[low] + share * one.ramp[low + 1]) / 255
    colours[np.isnan(values)] = NONE
    return colours


def position_colours(points: Float[np.ndarray, "n 3"]) -> Float[np.ndarray, "n 3"]:
    """Red, green and blue by x, y and z within the shape's box; grey where not finite."""
    finite = np.isfinite(points).all(axis=1)
    colours = np.full(points.shape, NONE)
    if finite.any():
        low, high = points[finite].min(axis=0), points[finite].max(axis=0)
        colours[finite] = 0.15 + 0.8 * (points[finite] - low) / np.maximum(high - low, 1e-12)
    return colours


def normals(points: Float[np.ndarray, "n 3"]) -> Float[np.ndarray, "n 3"]:
    """Unit normals of a cloud from each point's nearest ones, of either sign."""
    tree = scipy.spatial.cKDTree(points)
    near = tree.query(points, k=range(1, min(_NEIGHBORS, len(points)) + 1))[1]
    offsets = [points[:, axis][near] - points[:, axis, None] for axis in range(3)]
    spread = np.empty((len(points), 3, 3))
    for a in range(3):
        for b in range(3):
            spread[:, a, b] = np.einsum("nj,nj->n", offsets[a], offsets[b])
    return np.linalg.eigh(spread)[1][:, :, 0]


def _bytes(colours: Float[np.ndarray, "n 3"]) -> np.ndarray:
    grey = np.where(np.isnan(colours), NONE, colours)
    return np.rint(255 * np.clip(grey, 0, 1)).astype(np.uint8)


def _by_position(source: Shape, there: Carrier) -> Colouring:
    colours = position_colours(source.points)
    return Colouring("position", "rgb", (_bytes(colours), _bytes(there.mean(colours))))


def _by_trust(matches: Correspondence, there: Carrier) -> Colouring:
    score = np.where(matches.p2p >= 0, matches.score, np.nan)
    carried = there.mean(np.nan_to_num(score)[:, None])[:, 0]
    return Colouring("trust", "number", (score, carried), 0.0, 1.0, (), _HEAT[::-1])


def _by_error(
    source: Shape, target: Shape, matches: Correspondence, errors: GeodesicErrors
) -> Colouring:
    """Of each judged source row; the target row where it ends has it too, the worst of several."""
    one, other = np.full(len(source.points), np.nan), np.full(len(target.points), np.nan)
    known = np.isfinite(errors.errors)
    rows, values = errors.rows[known], 100 * errors.errors[known]
    one[rows] = values
    np.fmax.at(other, matches.p2p[rows], values)
    return Colouring("error x 100", "number", (one, other), 0.0, 100 * _FULL_ERROR, (), _HEAT)


def _stacked(shape: Shape, group: Sequence[str]) -> np.ndarray | None:
    """The columns of a group of attributes side by side; None if the shape lacks one."""
    if not set(group) <= set(shape.attributes):
        return None
    return np.concatenate(
        [shape.attributes[name].reshape(len(shape.points), -1) for name in group], axis=1
    )


def _by_attribute(
    group: Sequence[str],
    own: Sequence[np.ndarray | None],
    there: Carrier,
    back: Carrier | None,
) -> list[Colouring]:
    """Colourings of one attribute: one for each of its columns, but for colours and labels."""
    given = next(values for values in own if values is not None)
    if given.dtype.kind not in "fiub":
        return []
    if is_category(group[0], given) and given.shape[1] == 1:
        one, other = own
        if one is None:
            assert back is not None
            one = back.majority(given)
        if other is None:
            other = there.majority(given)
        return [_categories(group[0], one[:, 0], other[:, 0])]
    floats = [None if values is None else values.astype(np.float64) for values in own]
    if floats[0] is None:
        assert back is not None
        floats[0] = back.mean(given.astype(np.float64))
    if floats[1] is None:
        floats[1] = there.mean(given.astype(np.float64))
    one, other = floats
    assert one is not None
    assert other is not None
    if len(group) == 3:
        full = 1 if given.dtype.kind == "f" and given.max(initial=0) <= 1 else 255
        return [Colouring("colours", "rgb", (_bytes(one / full), _bytes(other / full)))]
    if one.shape[1] == 1:
        return [number(group[0], (one[:, 0], other[:, 0]))]
    columns = range(min(one.shape[1], _MOST))
    return [number(f"{group[0]} {c}", (one[:, c], other[:, c])) for c in columns]


def _categories(label: str, one: np.ndarray, other: np.ndarray) -> Colouring:
    """Codes of the labels of both sides; -1 and the largest unsigned number are none."""
    none = np.iinfo(one.dtype).max if one.dtype.kind == "u" else -1
    both = np.concatenate([one, other])
    known = (both != none) & (both == both)
    labels, codes = np.unique(both[known], return_inverse=True)
    found = np.full(len(both), -1)
    found[known] = codes.reshape(-1)
    names = tuple(
        f"{value:g}" if isinstance(value, float) else str(value) for value in labels.tolist()
    )
    return Colouring(label, "category", (found[: len(one)], found[len(one) :]), names=names)
