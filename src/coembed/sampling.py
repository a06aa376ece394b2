"""Fewer points that stand for many: thinning a cloud, and the way back to all of its points.

Takes and gives arrays.
"""

import numpy as np
import scipy

from coembed import compiled
from coembed.annotations import Float, Int

__all__ = ["Interpolation", "interpolation", "thin"]

_ROUNDS = 20
_CHUNK = 50_000  # points whose weights are found at a time
_HELD_BACK = 0.01  # of the offsets' spread, against directions that are not spanned


def thin(points: Float[np.ndarray, "n 3"], n: int) -> Int[np.ndarray, " m"]:
    """Rows of about ``n`` points, never more, evenly spread: one to each cell of a cubic grid.

    The cells' edge is chosen so that 0.97 n to n cells hold points; of each cell the point
    nearest its centre is taken. Where no edge comes near that (points in a clump far smaller
    than the whole), every so manieth point is taken instead.
    """
    if n >= len(points):
        return np.arange(len(points))
    low = points.min(axis=0)
    size = float((points - low).max())
    least, most = size / 2**20, 1.001 * size  # edges that give too many and few enough cells
    edge, count = size / np.sqrt(n), 0
    for round_ in range(_ROUNDS):
        cell = np.sort(_cells(points, low, edge))
        count = 1 + int(np.count_nonzero(cell[1:] != cell[:-1]))
        if count <= n:
            most = edge
            if count >= 0.97 * n:
                break
        else:
            least = edge
        # on a surface the number of cells goes with 1 / edge²; halving is slower but sure
        guess = edge * np.sqrt(count / (0.985 * n))
        sure = round_ >= 4 or not least < guess < most
        edge = np.sqrt(least * most) if sure else guess
    if count < 0.9 * n:  # a clump far smaller than the whole: no grid parts it
        return np.linspace(0, len(points) - 1, n).astype(np.int64)
    return _nearest_centres(points, low, most)


def _nearest_centres(
    points: Float[np.ndarray, "n 3"], low: Float[np.ndarray, " 3"], edge: float
) -> Int[np.ndarray, " m"]:
    """Of each cell the row of the point nearest its centre, the first among equals."""
    cell = _cells(points, low, edge)
    place = (points - low) / edge
    off = ((place - np.floor(place) - 0.5) ** 2).sum(axis=1)
    order = np.argsort(cell, kind="stable")
    starts = np.flatnonzero(np.diff(cell[order], prepend=-1))
    counts = np.diff(starts, append=len(order))
    near = off[order] == np.repeat(np.minimum.reduceat(off[order], starts), counts)
    rows = np.flatnonzero(near)
    first = np.diff(np.repeat(np.arange(len(starts)), counts)[rows], prepend=-1) > 0
    return np.sort(order[rows[first]])


def _cells(
    points: Float[np.ndarray, "n 3"], low: Float[np.ndarray, " 3"], edge: float
) -> Int[np.ndarray, " n"]:
    """One number for the grid cell of each point, 21 bits an axis."""
    cell = np.zeros(len(points), dtype=np.int64)
    for axis in range(3):
        cell = (cell << 21) | ((points[:, axis] - low[axis]) / edge).astype(np.int64)
    return cell


class Interpolation:
    """Values at some points from values at others: sums over the nearest of those.

    Parameters
    ----------
    nearest
        For each point the nearest of the others, nearest first.
    weights
        Their weights; each row sums to 1.
    """

    def __init__(self, nearest: Int[np.ndarray, "n j"], weights: Float[np.ndarray, "n j"]) -> None:
        self.nearest, self.weights = nearest, weights

    def __call__(
        self, values: Float[np.ndarray, "m d"], rows: Int[np.ndarray, " r"] | None = None
    ) -> Float[np.ndarray, "r d"]:
        """Interpolate, to some of the points or to all, in the precision of ``values``."""
        chosen = slice(None) if rows is None else rows
        nearest, weights = self.nearest[chosen], self.weights[chosen].astype(values.dtype)
        n, j = nearest.shape
        starts = np.arange(n + 1, dtype=nearest.dtype) * j
        matrix = scipy.sparse.csr_array(
            (weights.ravel(), nearest.ravel(), starts), shape=(n, len(values))
        )
        return matrix @ values


def interpolation(
    points: Float[np.ndarray, "n 3"], others: Float[np.ndarray, "m 3"], *, k: int = 6
) -> Interpolation:
    """How to carry values from ``others`` to ``points``, by the ``k`` nearest.

    Moving least squares: the linear function that fits the k values best, each weighted by
    1 / distance², is read off at the point. So linear functions are carried exactly, up to a small
    share kept back for directions (such as a surface's normal) that the k do not span, and a point
    that is one of the others takes that one's value.
    """
    k = min(k, len(others))
    nearest = compiled.neighbors(points, others, k)
    weights = np.empty((len(points), k), dtype=np.float32)
    for start in range(0, len(points), _CHUNK):
        rows = slice(start, start + _CHUNK)
        weights[rows] = _weights(others[nearest[rows]] - points[rows, None])
    return Interpolation(nearest, weights)


def _weights(offsets: Float[np.ndarray, "n j 3"]) -> Float[np.ndarray, "n j"]:
    """Of moving least squares about a point, from the others' offsets, the nearest first."""
    squared = np.einsum("nja,nja->nj", offsets, offsets)
    own = 1 / np.maximum(squared, 1e-12 * np.maximum(squared[:, -1:], 1e-200))
    own /= own.sum(axis=1, keepdims=True)
    first = np.einsum("nj,nja->na", own, offsets)
    second = np.einsum("nj,nja,njb->nab", own, offsets, offsets, optimize=True)
    spread = np.trace(second, axis1=1, axis2=2)[:, None, None]
    second += (_HELD_BACK * spread + 1e-300) * np.eye(3)
    slope = np.linalg.solve(second, first[:, :, None])[:, :, 0]
    weights = own * (1 - np.einsum("na,nja->nj", slope, offsets))
    return weights / weights.sum(axis=1, keepdims=True)
