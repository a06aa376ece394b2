"""A shape to a report of what is in it: what matching will leave out, merge or refuse.

Takes a `Shape`, gives a `Health`; changes nothing.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from coembed import geometry
from coembed.annotations import Float, Int
from coembed.errors import CoembedError
from coembed.shapes import Embedding, Shape

__all__ = ["Health", "count", "examine"]

_NEIGHBORS = 8  # of a point, for density and components of a cloud
_HEIGHTS = {"metres": (0.4, 2.6), "centimetres": (40, 260), "millimetres": (400, 2600)}


@dataclass(frozen=True)
class Health:
    """What is in a shape.

    Parameters
    ----------
    rows, distinct, repeated
        Rows of the file; different usable points; further rows that repeat one of these.
    not_finite, far_away, unreferenced
        Rows without an answer, see `Shape.unusable`.
    faces, degenerate, non_manifold
        Triangles; those without an area; edges with more than two faces.
    components
        Separate parts: of the mesh if there are faces, else of the graph of near neighbours.
    extent
        Size of the box about the usable points, in the file's units.
    spacing
        Median distance from a point to the nearest other one, in the file's units.
    unevenness
        Ratio of the 95th to the 5th percentile of these distances.
    units
        What the units would be if the shape were a person; "" if that fits none.
    warnings
        What a user should know, one sentence each.
    refusal
        Why a match would be refused; "" if it would not.
    """

    rows: int
    distinct: int
    repeated: int
    not_finite: int
    far_away: int
    unreferenced: int
    faces: int
    degenerate: int
    non_manifold: int
    components: int
    extent: tuple[float, float, float]
    spacing: float
    unevenness: float
    units: str
    warnings: tuple[str, ...]
    refusal: str


def examine(shape: Shape) -> Health:
    """Report on a shape."""
    good = shape.usable
    points, names = np.unique(shape.points[good], axis=0, return_inverse=True)
    distances, near = _near(points)
    extent = np.ptp(points, axis=0) if len(points) else np.zeros(3)
    spacing = float(np.median(distances)) if len(distances) else 0.0
    low, high = np.quantile(distances, [0.05, 0.95]) if len(distances) else (0.0, 0.0)
    faces = shape.sound_faces
    components = _components(len(points), near)
    if len(faces):
        place = np.full(len(shape.points), -1)
        place[good] = names.reshape(-1)
        components = _components(len(points), place[faces])
    return Health(
        rows=len(shape.points),
        distinct=len(points),
        repeated=int(good.sum()) - len(points),
        **_counted(shape),
        components=components,
        extent=(float(extent[0]), float(extent[1]), float(extent[2])),
        spacing=spacing,
        unevenness=float(high / low) if low > 0 else float("inf") if high > 0 else 1.0,
        units=_units(float(extent.max(initial=0))),
        warnings=tuple(_warnings(points, components)),
        refusal=_refusal(shape),
    )


def count(embedding: Embedding, shape: Shape | None = None) -> dict[str, Any]:
    """Count what is in a shape, as far as that takes no more than milliseconds.

    These are fields of `Health` that need no search for neighbours (4 ms for a mesh of 10,000
    points, 60 ms for one of 160,000); ``components`` are those of the graph that the operators
    were made on. Without the shape, what its embedding knows.
    """
    answered = int((embedding.rows >= 0).sum())
    extent = np.ptp(embedding.points, axis=0) / embedding.scale
    known = {
        "rows": len(embedding.rows),
        "distinct": len(embedding.points),
        "repeated": answered - len(embedding.points),
        "components": geometry.components_of(embedding.notes),
        "extent": extent.tolist(),
    }
    return known if shape is None else {**known, **_counted(shape)}


def _counted(shape: Shape) -> dict[str, int]:
    """Rows without an answer, and faces."""
    unusable = {reason: len(rows) for reason, rows in shape.unusable.items()}
    n_faces = 0 if shape.faces is None else len(shape.faces)
    return {
        "not_finite": unusable.get("not finite", 0),
        "far_away": unusable.get("far away", 0),
        "unreferenced": unusable.get("unreferenced", 0),
        "faces": n_faces,
        "degenerate": n_faces - len(shape.sound_faces),
        "non_manifold": _crowded_edges(shape.sound_faces),
    }


def _near(
    points: Float[np.ndarray, "n 3"],
) -> tuple[Float[np.ndarray, " m"], Int[np.ndarray, "m j"]]:
    """Distance to the nearest other point, each point with its neighbours; nothing for one."""
    if len(points) < 2:
        return np.empty(0), np.empty((0, 0), dtype=np.int64)
    k = min(_NEIGHBORS + 1, len(points))
    distances, near = scipy.spatial.cKDTree(points).query(points, k=k)
    return distances[:, 1], near


def _components(n: int, groups: Int[np.ndarray, "g j"]) -> int:
    """Parts of a graph in which the members of each group hang together."""
    if not groups.size:
        return n
    first = np.repeat(groups[:, 0], groups.shape[1] - 1)
    pairs = (np.ones(len(first)), (first, groups[:, 1:].ravel()))
    graph = scipy.sparse.csr_array(pairs, shape=(n, n))
    return int(
        scipy.sparse.csgraph.connected_components(graph, directed=False, return_labels=False)
    )


def _crowded_edges(faces: Int[np.ndarray, "f 3"]) -> int:
    """Edges of more than two faces."""
    if not len(faces):
        return 0
    one, other = faces.ravel(), np.roll(faces, -1, axis=1).ravel()
    # sorting one number an edge is twenty times faster than sorting pairs
    edges = np.sort(np.minimum(one, other) * (faces.max() + 1) + np.maximum(one, other))
    _, sizes = np.unique(edges, return_counts=True)
    return int((sizes > 2).sum())


def _units(size: float) -> str:
    fitting = [name for name, (low, high) in _HEIGHTS.items() if low <= size <= high]
    return fitting[0] if len(fitting) == 1 else ""


def _warnings(points: Float[np.ndarray, "n 3"], components: int) -> list[str]:
    found = []
    if components > 1:
        found.append(f"{components} separate parts; each is matched, but nothing joins them")
    lost = geometry.lost_precision(points)
    if lost:
        found.append(lost)
    return found


def _refusal(shape: Shape) -> str:
    """What `prepare` says of the shape, without the wait: it looks at the points only."""
    try:
        geometry.distinct_points(shape)
    except CoembedError as error:
        return str(error)
    return ""
