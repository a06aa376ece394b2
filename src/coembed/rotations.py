"""Rotations: near a matrix, between sets of points, about axes, all around.

Takes and gives matrices; vectors are columns, y is up.
"""

from functools import cache

import numpy as np

from coembed.annotations import Float

__all__ = ["about_y", "all_around", "directions", "laid_best", "raising", "rotation_near", "tilt"]


def rotation_near(matrix: Float[np.ndarray, "*g 3 3"]) -> Float[np.ndarray, "*g 3 3"]:
    """The rotation R with the largest tr(RᵀM), of one matrix or of each of several."""
    left, _, right = np.linalg.svd(matrix)
    left[..., -1] *= np.sign(np.linalg.det(left @ right))[..., None]
    rotation: Float[np.ndarray, "*g 3 3"] = left @ right
    return rotation


def laid_best(
    points: Float[np.ndarray, "n 3"],
    mass: Float[np.ndarray, " n"],
    places: Float[np.ndarray, "n 3"],
) -> Float[np.ndarray, "3 3"]:
    """The rotation that lays points, each of so much mass, best on their places."""
    weights = mass[:, None] / mass.sum()
    points = points - (weights * points).sum(axis=0)
    return rotation_near((weights * places).T @ points)


def about_y(degrees: float) -> Float[np.ndarray, "3 3"]:
    """The rotation about the y axis that takes z towards x."""
    cos, sin = np.cos(np.deg2rad(degrees)), np.sin(np.deg2rad(degrees))
    return np.array([[cos, 0, sin], [0, 1, 0], [-sin, 0, cos]])


def tilt(leans: Float[np.ndarray, "k 2"]) -> Float[np.ndarray, "k 3 3"]:
    """Rotations about horizontal axes (x, z), each as long as its angle in degrees."""
    angles = np.linalg.norm(leans, axis=1)
    x, z = (leans / np.maximum(angles, 1e-12)[:, None]).T
    cos, sin = np.cos(np.deg2rad(angles)), np.sin(np.deg2rad(angles))
    rows = [
        cos + (1 - cos) * x * x, -sin * z, (1 - cos) * x * z,
        sin * z, cos, -sin * x,
        (1 - cos) * x * z, sin * x, cos + (1 - cos) * z * z,
    ]  # fmt: skip
    return np.stack(rows, axis=1).reshape(-1, 3, 3)


def raising(direction: Float[np.ndarray, " 3"]) -> Float[np.ndarray, "3 3"]:
    """The smallest rotation that takes a direction to y."""
    x, y, z = direction
    size = np.hypot(x, z)
    degrees = np.rad2deg(np.arctan2(size, y))
    axis = np.array([-z, x]) / size if size > 0 else np.array([1.0, 0])
    found: Float[np.ndarray, "3 3"] = tilt(degrees * axis[None])[0]
    return found


@cache
def directions(count: int) -> Float[np.ndarray, "k 3"]:
    """So many directions, evenly spread over the sphere: a spiral about y."""
    heights = 1 - (2 * np.arange(count) + 1) / count
    turns = np.pi * (1 + np.sqrt(5)) * (np.arange(count) + 0.5)
    size = np.sqrt(1 - heights**2)
    return np.stack([size * np.cos(turns), heights, size * np.sin(turns)], axis=1)


@cache
def all_around() -> tuple[Float[np.ndarray, "3 3"], ...]:
    """The 60 rotations of an icosahedron: none is further than 45 degrees from one of them."""
    golden = (1 + np.sqrt(5)) / 2
    fifth = np.array([[golden, -1, golden - 1], [1, golden - 1, -golden], [golden - 1, golden, 1]])
    makers = (np.array([[0.0, 0, 1], [1, 0, 0], [0, 1, 0]]), np.diag([-1.0, -1, 1]), fifth / 2)
    found = [np.eye(3)]
    for one in found:  # grows while it is gone through
        for maker in makers:
            new = rotation_near(maker @ one)
            if all(np.abs(new - old).max() > 1e-6 for old in found):
                found.append(new)
    return tuple(found)
