"""How a person stands, from where their parts lie: which way is up, and where they face.

Landmarks tell how a person holds themselves. A `Posture` has learned from generated people, who
stand, stoop, crouch and sit on the ground, which way is up for them and where the trunk then faces;
how the ground would bear them helps with the one, head and feet with the other. Takes and gives
arrays.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import as_file, files
from typing import NamedTuple

import numpy as np

from coembed.annotations import Float
from coembed.layers import linear
from coembed.rotations import about_y, directions, laid_best, raising, rotation_near, tilt
from coembed.shapes import Array, namespace

__all__ = ["Bearing", "Posture", "bearing", "laid_on", "load", "scores", "shares", "terms"]

_SPREAD = 0.045  # sqrt(area): so near points stand for a landmark
_DEEP = 0.05  # sqrt(area): points less than about so far above the lowest one bear
_BALANCE = 0.1  # sqrt(area): how far the centre usually is from above the place that bears
_COARSE = 500  # directions that are tried, and then leans about the best one, in degrees
_MOST, _STEP = 24.0, 1.5
# how much the ground counts beside what has been learned, in all directions and near the best one;
# chosen on training shapes of FAUST_r and SCAPE_r and on generated people
_BORNE, _BORNE_NEAR = 0.25, 2.0
_HEAD, _FEET = 0.5, -0.535  # heights on the mean body above and below which these are
_SEEN = 6  # points from which is read where a part faces


@dataclass(frozen=True, eq=False)
class Posture:
    """What tells how a person stands.

    Parameters
    ----------
    landmarks
        Places of l landmarks on the mean body, y up, facing +z, its area being 1.
    usual
        Where these lie on the average of many people, each laid on the mean body.
    axes
        The k principal axes of the landmarks' offsets from there.
    frame
        From these offsets, the products of any two of their coordinates on the axes, and 1, to the
        nine entries of the rotation that sets the person upright again: a ridge regression.
    parameters
        Of the network that tells which way is up: see `scores`.
    """

    landmarks: Float[np.ndarray, "l 3"]
    usual: Float[np.ndarray, "l 3"]
    axes: Float[np.ndarray, "k c"]
    frame: Float[np.ndarray, "e 9"]
    parameters: Mapping[str, np.ndarray]

    def upright(
        self,
        points: Float[np.ndarray, "n 3"],
        mass: Float[np.ndarray, " n"],
        places: Float[np.ndarray, "n 3"],
    ) -> Float[np.ndarray, "3 3"]:
        """The rotation that sets a person upright, facing +z, from the places of its points.

        Points and places are in units of sqrt(area).
        """
        found = shares(places, mass, self.landmarks) @ points
        laid, first = laid_on(found, self.landmarks)
        offsets = (laid - self.usual).reshape(1, -1)
        forms = offsets @ self.axes.T
        row = terms(offsets, forms)[0]
        rotation = rotation_near((row @ self.frame).reshape(3, 3)) @ first
        up = self.up(points, mass, found, forms[0])
        rotation = raising(rotation @ up) @ rotation
        x, _, z = _front(points @ rotation.T, mass, places)
        return about_y(-float(np.rad2deg(np.arctan2(x, z)))) @ rotation

    def up(
        self,
        points: Float[np.ndarray, "n 3"],
        mass: Float[np.ndarray, " n"],
        landmarks: Float[np.ndarray, "l 3"],
        form: Float[np.ndarray, " k"],
    ) -> Float[np.ndarray, " 3"]:
        """Which way is up, from where the landmarks are and how they lie to each other.

        Of all directions the one whose score, and so much of how the ground would bear the shape,

            log carried - off² / 2 balance²

        is largest. Near it the ground counts more, for it tells more exactly.

        Parameters
        ----------
        form
            Coordinates, on the axes, of the landmarks' offsets once they are laid on the body.
        """
        share = (mass / mass.sum()).astype(np.float32)
        middle = share @ points
        points, landmarks, form = (
            one.astype(np.float32) for one in (points - middle, landmarks - middle, form)
        )

        def best(tried: Float[np.ndarray, "u 3"], borne: float) -> Float[np.ndarray, " 3"]:
            tried = tried.astype(np.float32)
            found = bearing(points, share, tried)
            heights = tried @ landmarks.T - found.lowest[:, None]
            ground = np.log(found.carried) - found.off**2 / (2 * _BALANCE**2)
            values = scores(self.parameters, heights, found, form)
            direction: Float[np.ndarray, " 3"] = tried[(values + borne * ground).argmax()]
            return direction.astype(np.float64)

        first = best(directions(_COARSE), _BORNE)
        return best(_leaning() @ raising(first), _BORNE_NEAR)


class Bearing(NamedTuple):
    """How the ground would bear a shape, for each of some directions that may be up."""

    lowest: Float[Array, "*b u"]
    carried: Float[Array, "*b u"]
    off: Float[Array, "*b u"]


def bearing(
    points: Float[np.ndarray, "n 3"], share: Float[np.ndarray, " n"], ups: Float[np.ndarray, "u 3"]
) -> Bearing:
    """How low the lowest point is, how much bears, how far the middle is from above that.

    Of the points, which are about their middle and in units of sqrt(area), those less than about
    ``deep`` above the lowest one bear: Σ mᵢ exp(-(hᵢ / deep)²), the shares m adding up to 1.
    """
    heights = points @ ups.T
    lowest = heights.min(axis=0)
    bears = np.exp(-(((heights - lowest) / _DEEP) ** 2)) * share[:, None]
    carried = np.maximum(bears.sum(axis=0), 1e-12)  # the lowest point may stand for no area
    ways = (bears.T @ points) / carried[:, None]
    ways -= ups * (ways * ups).sum(axis=1, keepdims=True)
    return Bearing(lowest, carried, np.sqrt((ways**2).sum(axis=1)))


def scores(
    parameters: Mapping[str, Array],
    heights: Float[Array, "*b u l"],
    found: Bearing,
    form: Float[Array, "*b k"],
) -> Float[Array, "*b u"]:
    """Log-odds, but for a constant, of each of some directions to be up.

    A network of two hidden layers with a linear shortcut. It reads how high the landmarks are
    above the lowest point, how the ground would bear the shape, and the shape's form, which is the
    same for all directions. So it does not matter how the shape lies.
    """
    xp = namespace(heights)
    cues = [heights, xp.log(found.carried)[..., None], found.off[..., None]]
    seen = xp.concat(cues, axis=-1)
    formed = linear(parameters, "form", form)[..., None, :]
    hidden = _silu(linear(parameters, "first", seen) + formed)
    hidden = _silu(linear(parameters, "second", hidden))
    shortcut = linear(parameters, "shortcut", seen)
    return (linear(parameters, "last", hidden) + shortcut)[..., 0]


def _silu(x: Float[Array, "*b c"]) -> Float[Array, "*b c"]:
    xp = namespace(x)
    return x / (1 + xp.exp(xp.clip(-x, max=80)))  # of what is no person, x may be anything


@cache
def _leaning() -> Float[np.ndarray, "u 3"]:
    """Directions about y, evenly spread."""
    leans = [(0.0, 0.0)]
    for angle in np.arange(_STEP, _MOST + _STEP / 2, _STEP).tolist():
        turns = np.arange(0, 2 * np.pi, _STEP / angle)
        leans += [(angle * np.cos(turn), angle * np.sin(turn)) for turn in turns.tolist()]
    return tilt(np.array(leans))[:, 1]


def _front(
    points: Float[np.ndarray, "n 3"],
    mass: Float[np.ndarray, " n"],
    places: Float[np.ndarray, "n 3"],
) -> Float[np.ndarray, " 3"]:
    """Where a person faces who stands upright, the trunk facing nearly +z: also head and feet.

    The sum of horizontal directions: +z, and where the head faces and each foot, if they are
    seen; these count the less, the more their axis from right to left is steep.
    """
    _, height, _ = places.T
    feet = height < _FEET
    front = np.array([0.0, 0, 1])
    for part in (height > _HEAD, feet & (places[:, 0] > 0), feet & (places[:, 0] < 0)):
        if np.count_nonzero(part) >= _SEEN:
            left = laid_best(points[part], mass[part], places[part])[0]
            front += np.cross(left, [0, 1, 0])
    return front


def shares(
    places: Float[np.ndarray, "n 3"], mass: Float[np.ndarray, " n"], at: Float[np.ndarray, "l 3"]
) -> Float[np.ndarray, "l n"]:
    """How much each point counts in the mean that stands for each landmark."""
    squared = ((places[None] - at[:, None]) ** 2).sum(axis=2)
    near = (np.exp(-squared / (2 * _SPREAD**2)) + 1e-12) * mass
    found: Float[np.ndarray, "l n"] = near / near.sum(axis=1, keepdims=True)
    return found


def terms(
    offsets: Float[np.ndarray, "p c"], forms: Float[np.ndarray, "p k"]
) -> Float[np.ndarray, "p e"]:
    """Offsets, the products of any two of their coordinates on the axes, and 1."""
    one, other = np.triu_indices(forms.shape[1])
    return np.hstack([offsets, forms[:, one] * forms[:, other], np.ones((len(offsets), 1))])


def laid_on(
    points: Float[np.ndarray, "l 3"], others: Float[np.ndarray, "l 3"]
) -> tuple[Float[np.ndarray, "l 3"], Float[np.ndarray, "3 3"]]:
    """Points about their mean, turned until they lie best on the others about theirs; the turn."""
    points, others = points - points.mean(axis=0), others - others.mean(axis=0)
    rotation = rotation_near(others.T @ points)
    return points @ rotation.T, rotation


@cache
def load() -> Posture:
    """What ships, for people."""
    with as_file(files("coembed") / "data" / "posture.npz") as path, np.load(path) as stored:
        arrays = {name: stored[name].astype(np.float32) for name in stored.files}
    names = ("landmarks", "usual", "axes", "frame")
    landmarks, usual, axes, frame = (arrays.pop(name) for name in names)
    return Posture(landmarks, usual, axes, frame, arrays)
