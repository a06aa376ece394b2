"""Where on the body the points of a part are, told in whatever turn, place and scale it comes.

The embedding reads positions, so it knows a part only if that stands upright and has the scale of
its whole. The `Locator`, a small network of its own, reads how the points lie to each other: for
every two of them the distance and the angles between the way and the normals, which no turn
changes. From what it tells, guesses follow of how the part lies on the body. Takes and gives
arrays; NumPy runs it, torch trains it (``benchmarks/locator.py``).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import as_file, files
from typing import NamedTuple

import numpy as np

from coembed import normals, sampling
from coembed.annotations import Float, Int
from coembed.layers import linear
from coembed.rotations import rotation_near
from coembed.shapes import Array, degrees_of, namespace

__all__ = ["HEADS", "LAYERS", "Locator", "Lying", "Seen", "load", "scores"]

LAYERS, HEADS = 4, 4
_LOOKED_AT = 2000  # points that tell the normals
_POINTS = 400  # points that the network looks at, if nothing else is asked for
_DRAWN, _CORNERS = 600, 3  # random sets of so many points, each laid on the body
_FOLLOWED, _KEPT = 24, 8  # of these, those that are made better; of these, the best
_SIZES = 0.05, 0.6  # sqrt(area of the whole): mean distances of parts from their middle
_BLUR = (0.1, 0.1, 0.08, 0.08, 0.06, 0.06, 0.05, 0.05)  # sqrt(area), round by round
_LOOSE = 0.3  # blur, for people in other poses than the mean body
_WIDE, _AXES = 0.15, 32  # sqrt(area): so near places are alike; axes along which places differ most
_FACING = 0.1  # sqrt(area): as far apart are two points at one place, at right angles / √2
_COARSE, _LIKELY = 0.08, 12  # blur, and anchors of each point, while random sets are compared
_FLOOR = 0.002  # chance density of a point that lies nowhere on the body
_ALIKE, _APART = (60.0, 0.5), (25.0, 0.3)  # degrees, logarithm of the factor: closer random sets,
# closer guesses, are one and the same


@dataclass(frozen=True)
class Lying:
    """How a part lies on its whole: turned, then times a factor, then moved; how likely that is."""

    rotation: Float[np.ndarray, "3 3"]
    factor: float
    shift: Float[np.ndarray, " 3"]
    likeness: float = 0.0

    def turned(
        self, rotation: Float[np.ndarray, "3 3"], middle: Float[np.ndarray, " 3"]
    ) -> "Lying":
        """The same turned otherwise; the middle of the part stays where it was."""
        moved = self.factor * (self.rotation - rotation) @ middle
        return Lying(rotation, self.factor, self.shift + moved)


class _Ways(NamedTuple):
    """Several ways in which a part may lie."""

    turns: Float[np.ndarray, "g 3 3"]
    factors: Float[np.ndarray, " g"]
    shifts: Float[np.ndarray, "g 3"]

    @classmethod
    def of(cls, found: list[Lying]) -> "_Ways":
        return cls(
            np.array([one.rotation for one in found]).reshape(-1, 3, 3),
            np.array([one.factor for one in found]),
            np.array([one.shift for one in found]).reshape(-1, 3),
        )

    def each(self, likeness: Float[np.ndarray, " g"]) -> list[Lying]:
        return [
            Lying(turn, float(factor), shift, float(alike))
            for turn, factor, shift, alike in zip(*self, likeness, strict=True)
        ]

    def placed(self, points: Float[np.ndarray, "n 3"]) -> Float[np.ndarray, "g n 3"]:
        """Points of the part as it lies each way."""
        turned = points @ self.turns.transpose(0, 2, 1)
        return self.factors[:, None, None] * turned + self.shifts[:, None]


@dataclass(frozen=True, eq=False)
class Locator:
    """A network that tells where on the mean body each point of a part is.

    Parameters
    ----------
    places, normals
        Of k anchors, spread over the mean body, y up, facing +z, its area being 1.
    parameters
        Of the network.
    """

    places: Float[np.ndarray, "k 3"]
    normals: Float[np.ndarray, "k 3"]
    parameters: Mapping[str, np.ndarray]

    @cached_property
    def axes(self) -> Float[np.ndarray, "k s"]:
        """Principal axes of how near the anchors are to each other, and how alike their normals."""
        seats = np.hstack([self.places, _FACING * self.normals])
        squared = ((seats[:, None] - seats) ** 2).sum(axis=2)
        values, vectors = np.linalg.eigh(np.exp(-squared / (2 * _WIDE**2)))
        return vectors[:, -_AXES:] * np.sqrt(values[-_AXES:])

    def look(self, points: Float[np.ndarray, "n 3"], count: int = _POINTS) -> "Seen":
        """About so many points of a part, and the chances of each to be at each anchor."""
        enough = sampling.thin(points, _LOOKED_AT)
        rows = sampling.thin(points[enough], count)
        outward, few = normals.outward(points[enough])[rows], points[enough[rows]]
        values = np.asarray(
            scores(self.parameters, few.astype(np.float32), outward.astype(np.float32))
        )
        chances = np.exp(values - values.max(axis=1, keepdims=True)).astype(np.float64)
        chances /= chances.sum(axis=1, keepdims=True)
        return Seen(self, enough[rows], few, outward, chances)


@dataclass(frozen=True, eq=False)
class Seen:
    """Some points of a part, as the locator sees them.

    Parameters
    ----------
    rows
        Of the part's points.
    points, outward
        They, and their unit normals.
    chances
        Of each to be at each anchor.
    """

    locator: Locator
    rows: Int[np.ndarray, " m"]
    points: Float[np.ndarray, "m 3"]
    outward: Float[np.ndarray, "m 3"]
    chances: Float[np.ndarray, "m k"]

    def guesses(self, *, factor: float | None = None) -> list[Lying]:
        """Ways in which the part may lie on the body; the likeliest first, none twice.

        Three random points, each on one of its anchors by their chances, tell a turn, a factor and
        a shift (Umeyama 1991). Of 600 such sets those in which all points lie best are made better:
        each point is drawn to its anchors, by their chances times how near they are and how alike
        the normals, eight times.

        Parameters
        ----------
        factor
            If it is known.
        """
        followed = _different(self._drawn(factor), _ALIKE, _FOLLOWED)
        return _different(self._better(followed, factor), _APART, _KEPT)

    def likeness(self, lying: Lying) -> float:
        """How well the part lies so: the mean logarithm, over its points, of the chances of the
        anchors, times how near they are and how alike the normals.
        """
        return float(_mean_logarithm(self._near(_Ways.of([lying]), _BLUR[-1]))[0])

    def seats(self, lying: Lying | None = None) -> Float[np.ndarray, "m s"]:
        """Features whose inner product tells how likely two points are at the same place.

        c Kᵀ c' ≈ ⟨s, s'⟩ for chances c and c' of two points, of any two parts, where K tells how
        near the anchors are to each other and how alike their normals: exp(-(|a - a'|² +
        0.01 |n - n'|²) / (2 · 0.15²)).

        Parameters
        ----------
        lying
            How the part lies on the body, if that is known; then an anchor counts the less the
            further a point lies from it, so that left is not taken for right.
        """
        chances = self.chances
        if lying is not None:
            near = self._near(_Ways.of([lying]), _LOOSE)[0] + 1e-12
            chances = near / near.sum(axis=1, keepdims=True)
        return chances @ self.locator.axes

    def _drawn(self, factor: float | None) -> list[Lying]:
        """Random guesses."""
        rng = np.random.default_rng(0)
        chosen = rng.random((_DRAWN, len(self.points))).argsort(axis=1)[:, :_CORNERS]
        limits = self.chances.cumsum(axis=1)[chosen]
        found = (limits < rng.random(chosen.shape)[..., None]).sum(axis=2)
        anchors = self.locator.places[np.minimum(found, len(self.locator.places) - 1)]
        ways = _laid(self.points[chosen], anchors, np.ones(chosen.shape), factor)
        middle = self.points.mean(axis=0)
        size = np.sqrt(((self.points - middle) ** 2).sum(axis=1).mean()) * ways.factors
        likeness = self._compared(ways)
        likeness[(size < _SIZES[0]) | (size > _SIZES[1])] = -np.inf
        return [one for one in ways.each(likeness) if np.isfinite(one.likeness)]

    def _compared(self, ways: _Ways) -> Float[np.ndarray, " g"]:
        """Likeness of many guesses at once, by half of the points and the likeliest anchors."""
        likely = np.argpartition(-self.chances, _LIKELY, axis=1)[::2, :_LIKELY]
        chances = np.take_along_axis(self.chances[::2], likely, axis=1)
        lying = ways.placed(self.points[::2])
        away = ((lying[:, :, None] - self.locator.places[likely]) ** 2).sum(axis=3)
        facing = self.outward[::2] @ ways.turns.transpose(0, 2, 1)
        agree = (facing[:, :, None] * self.locator.normals[likely]).sum(axis=3)
        return _mean_logarithm(chances * np.exp(agree - 1 - away / (2 * _COARSE**2)))

    def _better(self, guesses: list[Lying], factor: float | None) -> list[Lying]:
        """The same, each point drawn to the anchors that are near, likely and face as it does."""
        ways = _Ways.of(guesses)
        for blur in _BLUR:
            near = self._near(ways, blur)
            total = near.sum(axis=2)
            drawn = near @ self.locator.places / np.maximum(total, 1e-12)[..., None]
            ways = _laid(self.points, drawn, total / (total + _FLOOR), factor)
        return ways.each(_mean_logarithm(self._near(ways, _BLUR[-1])))

    def _near(self, ways: _Ways, blur: float) -> Float[np.ndarray, "g n k"]:
        """Chance of each anchor, times how near a point lies to it and how alike the normals."""
        lying = ways.placed(self.points)
        away = (lying**2).sum(axis=2)[..., None] - 2 * lying @ self.locator.places.T
        away += (self.locator.places**2).sum(axis=1)
        agree = self.outward @ ways.turns.transpose(0, 2, 1) @ self.locator.normals.T
        near: Float[np.ndarray, "g n k"] = agree - 1 - away / (2 * blur**2)
        return np.exp(near, out=near) * self.chances


def _laid(
    points: Float[np.ndarray, "*g n 3"],
    places: Float[np.ndarray, "g n 3"],
    weights: Float[np.ndarray, "g n"],
    factor: float | None,
) -> _Ways:
    """The ways in which points lie best on their places (Umeyama 1991)."""
    shares = (weights / np.maximum(weights.sum(axis=-1, keepdims=True), 1e-12))[..., None]
    here, there = ((shares * one).sum(axis=-2, keepdims=True) for one in (points, places))
    points, places = points - here, places - there
    moments = np.swapaxes(shares * places, -1, -2) @ points
    turns = rotation_near(moments)
    spread = np.maximum((shares * points**2).sum(axis=(-1, -2)), 1e-12)
    stretch = (turns * moments).sum(axis=(-1, -2))
    factors = stretch / spread if factor is None else np.full(spread.shape, factor)
    moved = factors[..., None] * (turns @ np.swapaxes(here, -1, -2))[..., 0]
    return _Ways(turns, factors, there[..., 0, :] - moved)


def _mean_logarithm(near: Float[np.ndarray, "g n k"]) -> Float[np.ndarray, " g"]:
    """The likeness of guesses, from how near the anchors of each point are."""
    likeness: Float[np.ndarray, " g"] = np.log(near.sum(axis=2) + _FLOOR).mean(axis=1)
    return likeness


def _different(found: list[Lying], apart: tuple[float, float], most: int) -> list[Lying]:
    """The likeliest first, without those that lie nearly as a likelier one; so many at most.

    Parameters
    ----------
    apart
        Degrees, and logarithms of the factor, by which others differ.
    """
    kept: list[Lying] = []
    for one in sorted(found, key=lambda one: -one.likeness):
        if all(
            degrees_of(one.rotation @ other.rotation.T) > apart[0]
            or abs(np.log(one.factor / other.factor)) > apart[1]
            for other in kept
        ):
            kept.append(one)
        if len(kept) == most:
            break
    return kept


# ---------------------------------------------------------------------------------- network


def scores(
    parameters: Mapping[str, Array],
    points: Float[Array, "*b n 3"],
    outward: Float[Array, "*b n 3"],
) -> Float[Array, "*b n k"]:
    """Logarithms, up to a number for each point, of the chance that it is at each anchor.

    A layer is a transformer's, whose attention is moved by what two points are to each other and
    gathers that as well: a = softmax(q kᵀ / √c + W z), x + V [a v, a z], x + MLP(x). The relations
    of a point's pairs, pooled, are its first features.

    Parameters
    ----------
    points, outward
        One part or several of as many points; unit normals.
    """
    xp = namespace(points)
    related, near, own = _relations(points, outward)
    z = _relu(linear(parameters, "pairs.0", related))
    z = _relu(linear(parameters, "pairs.1", z))
    pooled = (xp.mean(z, axis=-2), xp.max(z, axis=-2), xp.sum(near[..., None] * z, axis=-2), own)
    x = linear(parameters, "first", xp.concat(pooled, axis=-1))
    for layer in range(LAYERS):
        name = f"layers.{layer}"
        x = x + _gathered(parameters, name, _normal(parameters, f"{name}.norm.0", x), z)
        hidden = linear(parameters, f"{name}.mlp.0", _normal(parameters, f"{name}.norm.1", x))
        x = x + linear(parameters, f"{name}.mlp.1", _relu(hidden))
    return linear(parameters, "last", _normal(parameters, "norm", x))


def _relations(
    points: Float[Array, "*b n 3"], outward: Float[Array, "*b n 3"]
) -> tuple[Float[Array, "*b n n 10"], Float[Array, "*b n n"], Float[Array, "*b n 3"]]:
    """What every two points are to each other, weights of those near, what each is to the middle.

    Lengths are in the mean distance (root of the mean square) from the middle. The last of the
    angles, (n × n′) · u, tells left from right.
    """
    xp = namespace(points)
    points = points - xp.mean(points, axis=-2, keepdims=True)
    squared = xp.sum(points**2, axis=-1)
    size = xp.sqrt(xp.mean(squared, axis=-1))[..., None, None]
    points = points / size
    ways = points[..., None, :, :] - points[..., :, None, :]
    far = xp.sqrt(xp.clip(xp.sum(ways**2, axis=-1), min=1e-12))
    ways = ways / far[..., None]
    here, there = outward[..., :, None, :], outward[..., None, :, :]
    leaves, comes = xp.sum(ways * here, axis=-1), xp.sum(ways * there, axis=-1)
    alike = xp.sum(here * there, axis=-1)
    handed = xp.sum(xp.linalg.cross(here + 0 * ways, there + 0 * ways) * ways, axis=-1)
    related = xp.stack(
        [
            far, xp.log(xp.clip(far, min=0.02)),
            xp.exp(-((far / 0.15) ** 2)), xp.exp(-((far / 0.5) ** 2)),
            leaves, comes, alike, handed, leaves * far, comes * far,
        ],
        axis=-1,
    )  # fmt: skip
    near = xp.exp(-((far / 0.3) ** 2))
    near = near / xp.sum(near, axis=-1, keepdims=True)
    squared = xp.sum(points**2, axis=-1)
    own = xp.stack([xp.sqrt(squared), squared, xp.sum(outward * points, axis=-1)], axis=-1)
    return related, near, own


def _gathered(
    parameters: Mapping[str, Array],
    name: str,
    x: Float[Array, "*b n c"],
    z: Float[Array, "*b n n e"],
) -> Float[Array, "*b n c"]:
    """Attention to all points, and to what these are to each."""
    xp = namespace(x)
    *batch, n, c = x.shape
    turned = linear(parameters, f"{name}.attend", x).reshape(*batch, n, 3, HEADS, c // HEADS)
    query, key, value = (xp.moveaxis(turned[..., i, :, :], -2, -3) for i in range(3))
    scores = query @ xp.moveaxis(key, -1, -2) / (c // HEADS) ** 0.5
    scores = scores + xp.moveaxis(linear(parameters, f"{name}.bias", z), -1, -3)
    weights = xp.exp(scores - xp.max(scores, axis=-1, keepdims=True))
    weights = weights / xp.sum(weights, axis=-1, keepdims=True)
    values = xp.moveaxis(weights @ value, -3, -2).reshape(*batch, n, c)
    relations = (xp.moveaxis(weights, -3, -2) @ z).reshape(*batch, n, -1)
    return linear(parameters, f"{name}.merge", xp.concat([values, relations], axis=-1))


def _normal(
    parameters: Mapping[str, Array], name: str, x: Float[Array, "*b n c"]
) -> Float[Array, "*b n c"]:
    """Each row less its mean, over its standard deviation, times a learned scale, and moved."""
    xp = namespace(x)
    x = x - xp.mean(x, axis=-1, keepdims=True)
    x = x / xp.sqrt(xp.mean(x * x, axis=-1, keepdims=True) + 1e-5)
    return x * parameters[f"{name}.weight"] + parameters[f"{name}.bias"]


def _relu(x: Float[Array, "*b c"]) -> Float[Array, "*b c"]:
    return namespace(x).clip(x, min=0)


@cache
def load() -> Locator:
    """The locator that ships, for parts of people."""
    with as_file(files("coembed") / "data" / "locator.npz") as path, np.load(path) as stored:
        arrays = {name: stored[name].astype(np.float32) for name in stored.files}
    places, towards = (arrays.pop(name).astype(np.float64) for name in ("places", "normals"))
    return Locator(places, towards, arrays)
