"""Parts of shapes: what a camera sees of a surface, what a plane, holes or lost limbs leave.

Takes the triangles of a surface and points on it, gives which of the points stay.
"""

import numpy as np

from coembed.annotations import Bool, Float
from coembed.raster import Raster

__all__ = ["BY_PLACE", "KINDS", "holes", "kept", "limbs", "pieces", "planes", "views"]

KINDS = ("views", "planes", "holes", "limbs", "pieces")

_PIXELS = 100  # of the larger side of what a camera sees
_THICK = 0.01  # of the size: what lies that little behind the nearest surface is seen, too
_GRAZING = 0.05  # cosine between normal and way to the camera below which nothing is seen
_LEAST = 0.25  # share of the points that is left, or more
_PIECE = 0.06, 0.35  # shares of the points that are left, if it is a piece
_LOOKS = 10  # from elsewhere, while less is seen


def kept(
    kind: str,
    corners: Float[np.ndarray, "f 3 3"],
    points: Float[np.ndarray, "n 3"],
    normals: Float[np.ndarray, "n 3"],
    rng: np.random.Generator,
) -> Bool[np.ndarray, " n"]:
    """Which points of a surface stay after a random cut of one of `KINDS`."""
    if kind == "views":
        return _view(corners, points, normals, rng)
    return BY_PLACE[kind](points, rng)


def _view(
    corners: Float[np.ndarray, "f 3 3"],
    points: Float[np.ndarray, "n 3"],
    normals: Float[np.ndarray, "n 3"],
    rng: np.random.Generator,
) -> Bool[np.ndarray, " n"]:
    """What a random camera sees: the first that sees a quarter, or of ten the one that sees most.

    So much is not seen from near, or from above a standing person.
    """
    most = np.zeros(len(points), dtype=bool)
    for _ in range(_LOOKS):
        direction = rng.standard_normal(3) * (1, 0.5, 1)  # cameras stand about more than above
        seen = views(corners, points, normals, direction, rng.uniform(1.5, 5)) > 0
        if seen.mean() > most.mean():
            most = seen
        if most.mean() >= _LEAST:
            break
    return most


def views(
    corners: Float[np.ndarray, "f 3 3"],
    points: Float[np.ndarray, "n 3"],
    normals: Float[np.ndarray, "n 3"],
    direction: Float[np.ndarray, " 3"],
    distance: float = 3.0,
) -> Float[np.ndarray, " n"]:
    """How squarely a camera that looks at the middle of a surface sees its points; 0: not at all.

    That is the cosine between the normal and the way to the camera.

    Parameters
    ----------
    corners
        The triangles, which may hide the points.
    normals
        Of the points, outwards; of any length.
    direction
        From the middle to the camera.
    distance
        Of the camera from the middle, in sizes (the longest way from the middle to a corner).
    """
    middle = (corners.min(axis=(0, 1)) + corners.max(axis=(0, 1))) / 2
    size = float(np.linalg.norm(corners - middle, axis=2).max())
    direction = direction / np.linalg.norm(direction)
    frame = np.linalg.svd(direction[None])[2][[1, 2, 0]]
    frame[2] = direction

    def seen_at(places: Float[np.ndarray, "... 3"]) -> Float[np.ndarray, "... 3"]:
        """Right and up in the picture, and the distance from the camera, negative."""
        there = (places - middle) / size @ frame.T - (0, 0, distance)
        return np.concatenate([there[..., :2] / -there[..., 2:], there[..., 2:]], axis=-1)

    edges, places = seen_at(corners), seen_at(points)
    low, high = (edges[..., :2].min(axis=(0, 1)), edges[..., :2].max(axis=(0, 1)))
    margin = 0.01 * (high - low)
    pixels = round(_PIXELS * float((high - low)[1] / (high - low).max()))
    raster = Raster(low - margin, high + margin, max(1, pixels))
    flat = edges.reshape(-1, 3)
    raster.triangles(flat, np.zeros_like(flat), np.arange(len(flat)).reshape(-1, 3))
    ways = middle + size * distance * direction - points
    cosine = np.einsum("na,na->n", ways, normals)
    cosine /= np.linalg.norm(ways, axis=1) * np.maximum(np.linalg.norm(normals, axis=1), 1e-300)
    facing = cosine > _GRAZING
    # within a pixel a slanting surface is nearer at one side than at the other
    slope = distance / raster.scale / np.maximum(cosine, _GRAZING)
    in_front = places[:, 2] >= raster.depth_at(places) - _THICK - slope
    squarely: Float[np.ndarray, " n"] = np.where(facing & in_front, cosine, 0.0)
    return squarely


def planes(points: Float[np.ndarray, "n 3"], rng: np.random.Generator) -> Bool[np.ndarray, " n"]:
    """Which points lie on one side of a random plane, a quarter of them at least."""
    along = points @ rng.standard_normal(3)
    share = rng.uniform(_LEAST, 0.9)
    return along <= np.quantile(along, share)


def holes(points: Float[np.ndarray, "n 3"], rng: np.random.Generator) -> Bool[np.ndarray, " n"]:
    """Which points are outside three to ten random balls, a quarter of them at least."""
    middles = points[rng.integers(len(points), size=int(rng.integers(3, 11)))]
    return _outside(points, middles, rng.uniform(0.06, 0.25, len(middles)))


def limbs(points: Float[np.ndarray, "n 3"], rng: np.random.Generator) -> Bool[np.ndarray, " n"]:
    """Which points are left when one to three ends are lost, a quarter of them at least.

    An end is a ball about the point that lies farthest in a random direction.
    """
    directions = rng.standard_normal((int(rng.integers(1, 4)), 3))
    middles = points[(points @ directions.T).argmax(axis=0)]
    return _outside(points, middles, rng.uniform(0.25, 0.8, len(middles)))


def pieces(points: Float[np.ndarray, "n 3"], rng: np.random.Generator) -> Bool[np.ndarray, " n"]:
    """Which points lie in a ball about a random one that holds 6 to 35 % of them."""
    middle = points[rng.integers(len(points))]
    away = np.linalg.norm(points - middle, axis=1)
    return away <= np.quantile(away, rng.uniform(*_PIECE))


def _outside(
    points: Float[np.ndarray, "n 3"],
    middles: Float[np.ndarray, "b 3"],
    radii: Float[np.ndarray, " b"],
) -> Bool[np.ndarray, " n"]:
    """Which points are in none of the balls, which go one by one while enough is left.

    Radii are in sizes: the longest way from the points' mean to one of them.
    """
    size = float(np.linalg.norm(points - points.mean(axis=0), axis=1).max())
    stay = np.ones(len(points), dtype=bool)
    for middle, radius in zip(middles, size * radii, strict=True):
        left = stay & (np.linalg.norm(points - middle, axis=1) > radius)
        if left.mean() >= _LEAST:
            stay = left
    return stay


BY_PLACE = {"planes": planes, "holes": holes, "limbs": limbs, "pieces": pieces}
"""Those of `KINDS` for which only counts where the points are."""
