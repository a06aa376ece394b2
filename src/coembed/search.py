"""Nearest neighbours in an embedding: brute force for small shapes, cells for large ones.

Takes and gives arrays. ``"l2"`` means least Euclidean distance, ``"cosine"`` least angle.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy

from coembed.annotations import Float, Int
from coembed.errors import InputError

__all__ = ["Cells", "Partition", "directed", "nearest", "there_and_back"]

_CHUNK = 128  # rows of the distance matrix that exist at a time
_LOOKED_AT = 24  # cells of the target for each cell of queries

Values = Callable[[Int[np.ndarray, " r"]], Float[np.ndarray, "r d"]]
"""From rows to their embeddings, so that all of them need not exist at a time."""


def nearest(
    source: Float[np.ndarray, "n d"], target: Float[np.ndarray, "m d"], *, similarity: str = "l2"
) -> Int[np.ndarray, " n"]:
    """Row of the nearest target embedding for each source embedding; the first among equals.

    Exact; memory is linear in n and m.
    """
    source, target = directed(source, similarity), directed(target, similarity)
    half_square = _half_square(target)
    found = np.empty(len(source), dtype=np.int64)
    for start in range(0, len(source), _CHUNK):
        rows = slice(start, start + _CHUNK)
        closeness = source[rows] @ target.T
        closeness -= half_square
        found[rows] = closeness.argmax(axis=1)
    return found


def there_and_back(
    source: Float[np.ndarray, "n d"], target: Float[np.ndarray, "m d"], *, similarity: str = "l2"
) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " n"]]:
    """For each source row its nearest target row, and the source row nearest to that one.

    Both directions from one matrix, of which a few rows exist at a time.
    """
    source, target = directed(source, similarity), directed(target, similarity)
    half_squares = _half_square(source), _half_square(target)
    there = np.empty(len(source), dtype=np.int64)
    back = np.zeros(len(target), dtype=np.int64)
    nearest_yet = np.full(len(target), -np.inf, dtype=source.dtype)
    for start in range(0, len(source), _CHUNK):
        rows = slice(start, start + _CHUNK)
        closeness = source[rows] @ target.T
        closeness -= half_squares[1]
        there[rows] = closeness.argmax(axis=1)
        closeness -= half_squares[0][rows, None]
        most = closeness.max(axis=0)
        nearer = np.flatnonzero(most > nearest_yet)
        nearest_yet[nearer] = most[nearer]
        back[nearer] = start + closeness[:, nearer].argmax(axis=0)
    return there, back[there]


def directed(values: Float[np.ndarray, "n d"], similarity: str) -> Float[np.ndarray, "n d"]:
    """Unit rows for ``"cosine"``, the same rows for ``"l2"``."""
    if similarity not in ("l2", "cosine"):
        raise InputError(f"similarity must be l2 or cosine; got {similarity!r}")
    if similarity == "l2":
        return values
    return values / np.sqrt(2 * _half_square(values))[:, None]


def _half_square(values: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
    """|y|²/2: the least distance from x is where x.y - |y|²/2 is largest."""
    return np.einsum("nd,nd->n", values, values) / 2


@dataclass(frozen=True, eq=False)
class Partition:
    """Points cut into cells of neighbours, and the cells into larger ones.

    Parameters
    ----------
    cell
        Cell of each point, 0 to c - 1, none empty; about 50 points each are best.
    parent
        Larger cell of each cell, 0 to p - 1, none empty; 5,000 at most are best.
    """

    cell: Int[np.ndarray, " n"]
    parent: Int[np.ndarray, " c"]

    @classmethod
    def of(cls, cell: Int[np.ndarray, " n"], parent: Int[np.ndarray, " n"]) -> "Partition":
        """From any numbers for the cell and the larger cell of each point."""
        _, first, dense = np.unique(cell, return_index=True, return_inverse=True)
        _, parents = np.unique(parent[first], return_inverse=True)
        return cls(dense, parents)


class Cells:
    """The points of an embedding by cells, to be searched in.

    A query looks at all points of the 24 cells whose mean embeddings are nearest to the mean of
    its own cell; these cells are found in the same way by means of the larger cells. That finds
    the nearest point nearly always and misses by little otherwise, in time linear in the number
    of points.

    Parameters
    ----------
    values, partition
        Embeddings and cells of n points.
    similarity
        ``"l2"`` or ``"cosine"``.
    """

    def __init__(self, values: Values, partition: Partition, similarity: str) -> None:
        self.similarity = similarity
        self.points = _Groups(values, partition.cell, similarity)
        self.cells = _Groups(self.points.means.__getitem__, partition.parent, "l2")

    def find(self, queries: Values, partition: Partition) -> Int[np.ndarray, " q"]:
        """Row of the nearest of the n points for each query."""
        wanted = _Groups(queries, partition.cell, self.similarity)
        near = self._cells_near(wanted.means, partition.parent)
        found = np.empty(len(wanted.values), dtype=np.int64)
        for group, run in enumerate(wanted.runs):
            closeness = self.points.closeness(wanted.values[run], near[group])
            found[run] = self.points.rows(closeness.argmax(axis=1), near[group])
        return found[wanted.place]

    def _cells_near(
        self, means: Float[np.ndarray, "c d"], parent: Int[np.ndarray, " c"]
    ) -> Int[np.ndarray, "c r"]:
        """The cells to look at for each group of queries."""
        wanted = _Groups(means.__getitem__, parent, "l2")
        near = np.empty((len(means), min(_LOOKED_AT, len(self.points.means))), dtype=np.int64)
        closeness = wanted.means @ self.cells.means.T - _half_square(self.cells.means)
        above = _largest(closeness, _LOOKED_AT)
        for group, run in enumerate(wanted.runs):
            closeness = self.cells.closeness(wanted.values[run], above[group])
            near[run] = self.cells.rows(_largest(closeness, near.shape[1]), above[group])
        return near[wanted.place]


class _Groups:
    """Values in the order of their groups, so that each group is one run, and its mean."""

    def __init__(self, values: Values, group: Int[np.ndarray, " n"], similarity: str) -> None:
        self.order = np.argsort(group, kind="stable")
        self.place = np.empty_like(self.order)
        self.place[self.order] = np.arange(len(self.order))
        self.values = directed(values(self.order), similarity)
        self.half_square = _half_square(self.values)
        counts = np.bincount(group)
        self.starts = np.append(0, np.cumsum(counts))
        self.runs = [slice(*edges) for edges in zip(self.starts, self.starts[1:], strict=False)]
        shares = np.repeat(1 / counts, counts).astype(self.values.dtype)
        self.means = (
            scipy.sparse.csr_array((shares, np.arange(len(group)), self.starts)) @ self.values
        )

    def closeness(
        self, queries: Float[np.ndarray, "q d"], groups: Int[np.ndarray, " r"]
    ) -> Float[np.ndarray, "q p"]:
        """Of each query to all members of some groups, one group after the other."""
        runs = [self.runs[group] for group in groups]
        closeness = queries @ np.concatenate([self.values[run] for run in runs]).T
        closeness -= np.concatenate([self.half_square[run] for run in runs])
        return closeness

    def rows(
        self, places: Int[np.ndarray, "..."], groups: Int[np.ndarray, " r"]
    ) -> Int[np.ndarray, "..."]:
        """What the columns of `closeness` stand for."""
        ends = np.cumsum(self.starts[groups + 1] - self.starts[groups])
        which = np.searchsorted(ends, places, side="right")
        return self.order[self.starts[groups + 1][which] - (ends[which] - places)]


def _largest(closeness: Float[np.ndarray, "q p"], k: int) -> Int[np.ndarray, "q k"]:
    """Columns of the ``k`` largest (or of all), in their own order."""
    if k >= closeness.shape[1]:
        return np.broadcast_to(np.arange(closeness.shape[1]), closeness.shape)
    return np.sort(np.argpartition(-closeness, k - 1, axis=1)[:, :k], axis=1)
