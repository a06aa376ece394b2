"""Shapes made harder on purpose: what a benchmark may do to its input.

Takes a shape, gives another one and how the rows of the two belong together.
"""

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from coembed import evaluation, geometry
from coembed.annotations import Float, Int
from coembed.errors import InputError
from coembed.shapes import Shape

__all__ = ["Disturbance", "Disturbed", "disturb"]

_FAR = 0.5  # in sqrt(area): places this far apart along the surface are bridged
_BRIDGE = 0.03  # radius of the bridge, in sqrt(area)
_PROBES = 64


@dataclass(frozen=True)
class Disturbance:
    """What is done to every shape, in the order given here; by default nothing."""

    resample: int = 0
    """Take that many points anew from the surface, uniform by area: another discretisation."""
    thin: float | int = 0.0
    """Share of points that are left out, most on one side of the shape, fewest on the other."""
    contact: bool = False
    """Join the two nearest places that are far apart along the surface by a bridge of points."""
    noise: float | int = 0.0
    """Standard deviation of Gaussian noise on each coordinate, clipped at five of them, in units
    of the radius of the ball about the points' mean that holds them all, as in the paper (0.01,
    clipped at 0.05). For a standing person that radius is about 0.8 sqrt(area)."""
    turn: float | int = 0.0
    """Turn about the vertical (y) by up to this many degrees, either way."""

    def __post_init__(self) -> None:
        if self.resample < 0 or not isinstance(self.resample, int):
            raise InputError(f"resample must be a number of points; got {self.resample!r}")
        for name, most, unit in (
            ("thin", 1, "a share of the points"),
            ("noise", 1, "a part of the shape's radius"),
        ):
            if not 0 <= getattr(self, name) < most:
                raise InputError(
                    f"{name} must be between 0 and {most} ({unit}); got {getattr(self, name)}"
                )
        if not 0 <= self.turn <= 180:
            raise InputError(f"turn must be between 0 and 180 degrees; got {self.turn}")


@dataclass(frozen=True, eq=False)
class Disturbed:
    """A shape after a disturbance.

    Parameters
    ----------
    there
        For each row of the first shape, the nearest row of the disturbed one.
    back
        For each row of the disturbed shape, the nearest row of the first.
    """

    shape: Shape
    there: Int[np.ndarray, " n"]
    back: Int[np.ndarray, " m"]


def disturb(shape: Shape, disturbance: Disturbance, *, seed: int = 0) -> Disturbed:
    """Disturb a shape; the same settings and seed give the same result.

    Raises
    ------
    InputError
        If a shape without faces shall be sampled anew, or has no two places to bridge.

    References
    ----------
    [Zeng25] sec. 5.4 for the noise.
    """
    rng = np.random.default_rng([20, seed])
    points, kept = shape.points, np.arange(len(shape.points))
    if disturbance.resample:
        points, kept = _resampled(shape, disturbance.resample, rng)
    if disturbance.thin:
        rows = _thinned(points, disturbance.thin, rng)
        points, kept = points[rows], kept[rows]
    if disturbance.contact:
        bridge = _bridge(shape)
        _, nearest = cKDTree(shape.points).query(bridge)
        points, kept = np.concatenate([points, bridge]), np.concatenate([kept, nearest])
    same = points is shape.points
    there = kept if same else cKDTree(points).query(shape.points)[1]
    if disturbance.noise:
        points = points + _noise(points, disturbance.noise, rng)
    if disturbance.turn:
        angle = np.deg2rad(rng.uniform(-disturbance.turn, disturbance.turn))
        points = points @ Rotation.from_rotvec([0, angle, 0]).as_matrix().T
    faces = shape.faces if same else None
    return Disturbed(Shape(points, faces, name=shape.name), np.asarray(there, np.int64), kept)


def _noise(
    points: Float[np.ndarray, "n 3"], sigma: float, rng: np.random.Generator
) -> Float[np.ndarray, "n 3"]:
    radius = np.linalg.norm(points - points.mean(axis=0), axis=1).max()
    return radius * sigma * np.clip(rng.standard_normal(points.shape), -5, 5)


def _resampled(
    shape: Shape, n: int, rng: np.random.Generator
) -> tuple[Float[np.ndarray, "m 3"], Int[np.ndarray, " m"]]:
    """Points on the surface, and the nearest corner of the triangle each lies in."""
    if shape.faces is None or not len(shape.faces):
        raise InputError(f"{shape.name}: has no faces to take points from; leave out resample")
    corners = shape.points[shape.faces]
    face, barycentric = geometry.surface_points(corners, n, rng)
    points = geometry.on_surface(corners, face, barycentric)
    return points, shape.faces[face, barycentric.argmax(axis=1)]


def _thinned(
    points: Float[np.ndarray, "n 3"], share: float, rng: np.random.Generator
) -> Int[np.ndarray, " m"]:
    direction = rng.standard_normal(3)
    along = (points - points.mean(axis=0)) @ (direction / np.linalg.norm(direction))
    # the rows that win a draw whose odds fall by e³ from one end of the shape to the other
    odds = np.exp(-3 * along / np.ptp(along))
    order = np.argsort(rng.exponential(size=len(points)) / odds, kind="stable")
    return np.sort(order[: max(1, round((1 - share) * len(points)))])


def _bridge(shape: Shape) -> Float[np.ndarray, "b 3"]:
    """Points of a thin tube between the two nearest places that are far apart on the surface."""
    size = float(np.sqrt(evaluation.area_of(shape)))
    probes = _spread(shape.points, _PROBES)
    along = geometry.geodesics(shape, probes)
    straight = np.linalg.norm(shape.points[probes][:, None] - shape.points, axis=2)
    straight[along < _FAR * size] = np.inf
    if not np.isfinite(straight).any():
        raise InputError(f"{shape.name}: no two places are far apart along the surface")
    probe, row = np.unravel_index(straight.argmin(), straight.shape)
    ends = shape.points[[probes[probe], row]]
    axis = ends[1] - ends[0]
    frame = np.linalg.svd(axis[None])[2]
    spacing = size / np.sqrt(len(shape.points))
    rings = max(2, round(float(np.linalg.norm(axis)) / spacing) + 1)
    around = max(6, round(2 * np.pi * _BRIDGE * size / spacing))
    angle = np.linspace(0, 2 * np.pi, around, endpoint=False)
    circle = (
        _BRIDGE * size * (np.outer(np.cos(angle), frame[1]) + np.outer(np.sin(angle), frame[2]))
    )
    steps = np.linspace(0, 1, rings)[:, None, None]
    return (ends[0] + steps * axis + circle).reshape(-1, 3)


def _spread(points: Float[np.ndarray, "n 3"], n: int) -> Int[np.ndarray, " s"]:
    """Rows far from each other: each is the farthest from those before it."""
    rows = [int(np.linalg.norm(points - points.mean(axis=0), axis=1).argmax())]
    distance = np.full(len(points), np.inf)
    for _ in range(min(n, len(points)) - 1):
        distance = np.minimum(distance, np.linalg.norm(points - points[rows[-1]], axis=1))
        rows.append(int(distance.argmax()))
    return np.array(rows)
