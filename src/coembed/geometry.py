"""Shape to operators: Laplacian, mass, eigenpairs, tangent gradients; geodesic distances.

Takes a `Shape`, gives the `Operators` that the network reads. Everything runs in float64 and
is deterministic: fixed start vector, fixed signs, an order of points that the file cannot change.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import scipy

from coembed import compiled, files
from coembed.annotations import Float, Int
from coembed.errors import InputError
from coembed.shapes import MIN_POINTS, Operators, Shape
from coembed.spectrum import N_NEIGHBORS, components, eigenpairs, laplacian, nearest_points

__all__ = [
    "DistinctPoints",
    "components_of",
    "distinct_points",
    "face_areas",
    "geodesics",
    "geodesics_method",
    "gradients",
    "inside_out",
    "lost_precision",
    "on_surface",
    "prepare",
    "surface_points",
    "vertex_areas",
]

N_EIG = 79

_PARTS = "separate components, each with a constant mode of its own"
_STRIPES = 4  # steps of single precision between two points: with fewer the shape suffers
_HOLLOW = 0.003  # volume by area^1.5: a sphere has 0.09, a person 0.03, a flat sheet 0
_CHUNK = 20_000  # points whose gradient weights exist at a time


def prepare(
    shape: Shape,
    *,
    n_eig: int = N_EIG,
    n_neighbors: int = N_NEIGHBORS,
    cache: Path | None = None,
) -> Operators:
    """Operators of a shape, from its points alone.

    1. Keep each distinct point once, in the order of a space-filling curve.
    2. Point-cloud Laplacian and lumped mass; centre; scale to area 1.
    3. The ``n_eig`` lowest eigenpairs above the constants (one constant a component).
    4. Gradients of the eigenvectors in tangent frames.

    Parameters
    ----------
    shape
        At least `MIN_POINTS` distinct points.
    n_eig
        Eigenpairs wanted; fewer (with a note) if the shape has too few points.
    n_neighbors
        Neighbours for the Laplacian and the gradients; fewer (with a note) for tiny shapes.
    cache
        Folder where operators are kept under a key of content, settings and version. A cache
        that cannot be read or written costs time, never the result.

    Raises
    ------
    InputError
        If there are too few distinct points.
    NumericalError
        If no Laplacian or no eigenpairs can be found.

    References
    ----------
    [Sharp20] for the Laplacian, [Sharp22] for the gradients; [Zeng25] supplement, sec. LBO.
    """
    # the two Laplacians agree, but not to the last digit
    own = compiled.native() is not None
    settings = {"n_eig": n_eig, "n_neighbors": n_neighbors, "native": own}
    if cache is not None:
        stored = files.read_operators(cache, shape, settings)
        if stored is not None:
            return replace(stored, name=shape.name)
    operators = _prepared(shape, n_eig, n_neighbors)
    if cache is not None:
        files.write_operators(cache, shape, settings, operators)
    return operators


def _prepared(shape: Shape, n_eig: int, n_neighbors: int) -> Operators:
    distinct = distinct_points(shape)
    points, notes = distinct.points, list(distinct.notes)
    n = len(points)
    if n_neighbors > n - 1:
        notes.append(f"neighbours lowered from {n_neighbors} to {n - 1}: {n} distinct points")
        n_neighbors = n - 1
    neighbors = nearest_points(points, n_neighbors)
    stiffness, mass = laplacian(
        points, n_neighbors=n_neighbors, neighbors=neighbors, name=shape.name
    )
    shift = mass @ points / mass.sum()
    scale = 1 / np.sqrt(mass.sum())
    points, mass = (points - shift) * scale, mass * scale**2
    n_constant = len(np.unique(components(stiffness)))
    if n_constant > 1:
        notes.append(f"{n_constant} {_PARTS}")
    if n_eig > n - n_constant - 1:
        notes.append(
            f"eigenpairs lowered from {n_eig} to {n - n_constant - 1}: {n} distinct points"
        )
        n_eig = n - n_constant - 1
    _check_surface(shape, n, n_constant)
    evals, evecs = eigenpairs(
        stiffness, mass, n_eig, n_constant=n_constant, points=points, name=shape.name
    )
    grad_x, grad_y = gradients(points, evecs, neighbors)
    return Operators(
        points=points,
        mass=mass,
        weak=(stiffness.data, stiffness.indices, stiffness.indptr),
        evals=evals,
        evecs=evecs,
        grad_x=grad_x,
        grad_y=grad_y,
        rows=distinct.rows,
        centre=distinct.centre + shift * distinct.size,
        scale=float(scale / distinct.size),
        notes=tuple(notes),
        name=shape.name,
    )


def components_of(notes: tuple[str, ...]) -> int:
    """Separate components of operators with these notes."""
    told = [note.removesuffix(_PARTS) for note in notes if note.endswith(_PARTS)]
    return int(told[0]) if told else 1


def _check_surface(shape: Shape, n: int, n_constant: int) -> None:
    if n - n_constant < 2:
        raise InputError(
            f"{shape.name}: {n} distinct points fall into {n_constant} separate components; "
            "expected one or a few surfaces"
        )


@dataclass(frozen=True, eq=False)
class DistinctPoints:
    """Each point of a shape once, in an order that depends on the points alone.

    Parameters
    ----------
    points
        Along a space-filling curve, in a unit box: ``(shape.points - centre) / size``.
    rows
        For each row of the shape, its row in ``points``; -1 where it has none.
    notes
        What was changed on the way in, one sentence each.
    """

    points: Float[np.ndarray, "n 3"]
    rows: Int[np.ndarray, " r"]
    centre: Float[np.ndarray, " 3"]
    size: float
    notes: tuple[str, ...]


def distinct_points(shape: Shape) -> DistinctPoints:
    """Each point of a shape once.

    Raises
    ------
    InputError
        If there are fewer than `MIN_POINTS`, or all lie on one line.
    """
    notes = [
        f"{len(rows)} rows are {reason} and have no answer (first: row {rows[0]})"
        for reason, rows in shape.unusable.items()
    ]
    used = np.flatnonzero(shape.usable)
    points = shape.points[used]
    if len(points) < MIN_POINTS:
        told = f" usable ones among {len(shape.points)} rows" if notes else ""
        raise InputError(
            f"{shape.name}: at least {MIN_POINTS} points are needed; got {len(points)}{told}"
        )
    low, high = points.min(axis=0), points.max(axis=0)
    centre, size = (low + high) / 2, max(float((high - low).max()), 1e-300)
    # neighbours in space become neighbours in memory: Laplacian and gradients run 2 to 6 times
    # faster on large clouds
    order = _curve_order(points, (points - low) / size)
    ordered = points[order]
    new = np.append(True, (ordered[1:] != ordered[:-1]).any(axis=1))
    if new.sum() < MIN_POINTS:
        raise InputError(
            f"{shape.name}: at least {MIN_POINTS} distinct points are needed; "
            f"got {new.sum()} among {len(points)} rows"
        )
    placed = (ordered[new] - centre) / size
    spread = np.linalg.eigvalsh(np.cov(placed.T))
    if spread[1] <= 1e-13 * spread[2]:
        raise InputError(f"{shape.name}: all points lie on one line; expected points of a surface")
    rows = np.full(len(shape.points), -1)
    rows[used[order]] = np.cumsum(new) - 1
    repeated = len(order) - int(new.sum())
    if repeated:
        notes.append(f"{repeated} repeated points share the answer of their first copy")
    lost = lost_precision(points)
    if lost:
        notes.append(lost)
    return DistinctPoints(placed, rows, centre, size, tuple(notes))


def lost_precision(points: Float[np.ndarray, "n 3"]) -> str:
    """What to tell of points that lie in stripes, far from 0 in single precision; "" if not."""
    if not len(points):
        return ""
    farthest = np.abs(points).max()
    if farthest > np.finfo(np.float32).max:
        return ""
    step = float(np.spacing(farthest.astype(np.float32)))
    usual = float(np.ptp(points, axis=0).max()) / np.sqrt(len(points))
    if usual > _STRIPES * step or not (points == points.astype(np.float32)).all():
        return ""
    return (
        f"coordinates in single precision, so far from 0, lie in steps of {step:.2g}; the details "
        "of the shape are lost: export it in double precision, or with the offset taken away"
    )


def _curve_order(
    points: Float[np.ndarray, "n 3"], unit: Float[np.ndarray, "n 3"]
) -> Int[np.ndarray, " n"]:
    """Rows along a Z-shaped curve through the unit box, 21 bits an axis.

    Points in the same cell of the curve go by their coordinates, so only equal points keep the
    order of the file.
    """
    cell = (unit * (2**21 - 1)).astype(np.uint64)
    for shift, mask in (
        (32, 0x1F00000000FFFF),
        (16, 0x1F0000FF0000FF),
        (8, 0x100F00F00F00F00F),
        (4, 0x10C30C30C30C30C3),
        (2, 0x1249249249249249),
    ):
        cell = (cell | (cell << np.uint64(shift))) & np.uint64(mask)
    key = cell[:, 0] | (cell[:, 1] << np.uint64(1)) | (cell[:, 2] << np.uint64(2))
    order = np.argsort(key, kind="stable")
    same = key[order][1:] == key[order][:-1]
    if same.any():
        shared = np.append(False, same) | np.append(same, False)
        rows = order[shared]
        x, y, z = points[rows].T
        order[shared] = rows[np.lexsort((z, y, x, key[rows]))]
    return order


def gradients(
    points: Float[np.ndarray, "n 3"],
    functions: Float[np.ndarray, "n k"],
    neighbors: Int[np.ndarray, "n j"],
) -> tuple[Float[np.ndarray, "n k"], Float[np.ndarray, "n k"]]:
    """Tangent gradient of functions on a cloud, by least squares over the nearest neighbours.

    Minimises sum_j (g . t_j - (u_j - u_i))^2 + 1e-5 |g|^2 over the tangent offsets t_j. The
    frame is (x, y, normal): x is the first world axis (the second where the normal lies along
    the first) made tangent. The normal is the least axis of the neighbours' offsets, on the
    side to which the surface bulges.

    References
    ----------
    [Sharp22] sec. 3.3.
    """
    n = len(points)
    grad_x, grad_y = np.empty(functions.shape), np.empty(functions.shape)
    for first in range(0, n, _CHUNK):
        rows = slice(first, min(first + _CHUNK, n))
        near = neighbors[rows]
        offsets = points[near] - points[rows, None]
        weights = _least_squares(offsets @ _tangent_axes(offsets))  # n 2 j
        starts = np.arange(len(near) + 1, dtype=near.dtype) * near.shape[1]
        for axis, gradient in enumerate((grad_x, grad_y)):
            operator = scipy.sparse.csr_array(
                (weights[:, axis].ravel(), near.ravel(), starts), shape=(len(near), n)
            )
            gradient[rows] = operator @ functions
            gradient[rows] -= weights[:, axis].sum(axis=1)[:, None] * functions[rows]
    return grad_x, grad_y


def _least_squares(tangent: Float[np.ndarray, "n j 2"]) -> Float[np.ndarray, "n 2 j"]:
    """(TᵀT + 1e-5 I)⁻¹ Tᵀ for each point, by the closed form of a 2 x 2 inverse."""
    normal = tangent.transpose(0, 2, 1) @ tangent + 1e-5 * np.eye(2)
    xx, xy, yy = normal[:, 0, 0], normal[:, 0, 1], normal[:, 1, 1]
    inverse = np.stack([yy, -xy, -xy, xx], axis=1).reshape(-1, 2, 2)
    inverse /= (xx * yy - xy * xy)[:, None, None]
    return inverse @ tangent.transpose(0, 2, 1)


def _tangent_axes(offsets: Float[np.ndarray, "n j 3"]) -> Float[np.ndarray, "n 3 2"]:
    _, vectors = np.linalg.eigh(offsets.transpose(0, 2, 1) @ offsets)
    normals = vectors[:, :, 0]
    # of the two normals take the one on the convex side: a rule that no rotation changes
    inward = np.einsum("na,na->n", normals, offsets.mean(axis=1)) > 0
    normals = np.where(inward[:, None], -normals, normals)
    along_first = np.abs(normals[:, 0]) >= 0.9
    axis = np.where(along_first[:, None], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0])
    x = axis - normals * np.einsum("na,na->n", axis, normals)[:, None]
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return np.stack([x, np.cross(normals, x)], axis=-1)


def geodesics(
    shape: Shape, sources: Int[np.ndarray, " s"], *, edges: bool = False
) -> Float[np.ndarray, "s n"]:
    """Geodesic distance from each source row to every point, in the shape's units.

    Heat method: on the mesh where there are faces, else on the point cloud. With ``edges``, the
    shortest way along the edges of the mesh instead, which is some per cent too long.

    Raises
    ------
    InputError
        If ``edges`` is asked for and there are no faces, or points they do not lead to.

    References
    ----------
    [Crane13]; library ``potpourri3d``.
    """
    if edges:
        return _edge_distances(shape, sources)
    for reason in ("not finite", "far away"):
        missing = shape.unusable.get(reason, np.empty(0, dtype=np.int64))
        if len(missing):
            raise InputError(
                f"{shape.name}: {len(missing)} rows are {reason} (first: row {missing[0]}), so "
                "there is no distance to them; remove them to judge maps on this shape"
            )
    import potpourri3d

    if _is_mesh(shape):
        solver = potpourri3d.MeshHeatMethodDistanceSolver(shape.points, shape.faces)
        inverse = np.arange(len(shape.points))
    else:
        distinct, inverse = np.unique(shape.points, axis=0, return_inverse=True)
        inverse = inverse.reshape(-1)
        solver = potpourri3d.PointCloudHeatSolver(distinct)
    distances = np.empty((len(sources), len(shape.points)))
    starts, place = np.unique(inverse[sources], return_inverse=True)
    for i, start in enumerate(starts):
        distances[place.reshape(-1) == i] = solver.compute_distance(int(start))[inverse]
    return distances


def _edge_distances(shape: Shape, sources: Int[np.ndarray, " s"]) -> Float[np.ndarray, "s n"]:
    if not _is_mesh(shape) or shape.faces is None:
        raise InputError(f"{shape.name}: has no faces, so there are no edges to measure along")
    pairs = np.concatenate([shape.faces[:, [0, 1]], shape.faces[:, [1, 2]], shape.faces[:, [2, 0]]])
    pairs = np.unique(np.sort(pairs, axis=1), axis=0)
    lengths = np.linalg.norm(shape.points[pairs[:, 0]] - shape.points[pairs[:, 1]], axis=1)
    n = len(shape.points)
    graph = scipy.sparse.csr_array((lengths, (pairs[:, 0], pairs[:, 1])), shape=(n, n))
    distances = np.asarray(scipy.sparse.csgraph.dijkstra(graph, directed=False, indices=sources))
    if not np.isfinite(distances).all():
        raise InputError(
            f"{shape.name}: the mesh falls into separate parts, and no edges lead from one to the "
            "other; measure by the heat method"
        )
    return distances


def geodesics_method(shape: Shape, *, edges: bool = False) -> str:
    """How `geodesics` finds the distances of this shape."""
    if edges:
        return "shortest ways along mesh edges"
    return "heat method on the mesh" if _is_mesh(shape) else "heat method on the point cloud"


def _is_mesh(shape: Shape) -> bool:
    return shape.faces is not None and len(shape.faces) > 0


def face_areas(corners: Float[np.ndarray, "f 3 3"]) -> Float[np.ndarray, " f"]:
    """Area of each triangle of a mesh, given by its corners."""
    a, b, c = corners.transpose(1, 0, 2)
    return np.linalg.norm(np.cross(b - a, c - a), axis=1) / 2


def vertex_areas(
    points: Float[np.ndarray, "n 3"], faces: Int[np.ndarray, "f 3"]
) -> Float[np.ndarray, " n"]:
    """Area that each vertex of a mesh stands for: a third of the triangles at it."""
    third = face_areas(points[faces]) / 3
    return np.bincount(faces.ravel(), np.repeat(third, 3), len(points))


def inside_out(shape: Shape) -> bool:
    """Whether the faces of a mesh wind inwards: it was mirrored, or its faces are reversed.

    Without faces nobody can tell: a mirrored person is a person.
    """
    return winding(shape) < 0


def winding(shape: Shape) -> int:
    """1 if the faces of a mesh wind outwards, -1 if inwards, 0 if nobody can tell.

    It is the sign of the volume behind the faces, 1/6 sum det(a, b, c) about their middle, where
    that is clearly not 0.
    """
    faces = shape.sound_faces
    if not len(faces):
        return 0
    corners = shape.points[faces]
    area = face_areas(corners)
    total = float(area.sum())
    corners = corners - (area @ corners.mean(axis=1)) / total
    volume = float(np.linalg.det(corners).sum()) / 6
    return int(volume > _HOLLOW * total**1.5) - int(volume < -_HOLLOW * total**1.5)


def surface_points(
    corners: Float[np.ndarray, "f 3 3"],
    n: int,
    rng: "np.random.Generator",  # quoted: to look at it would load it
    density: Float[np.ndarray, " f"] | float = 1.0,
) -> tuple[Int[np.ndarray, " n"], Float[np.ndarray, "n 3"]]:
    """Random places on a mesh, uniform by area times ``density``: triangle and barycentric."""
    area = density * face_areas(corners)
    face = rng.choice(len(area), n, p=area / area.sum())
    root, along = np.sqrt(rng.random(n)), rng.random(n)
    return face, np.stack([1 - root, root * (1 - along), root * along], axis=1)


def on_surface(
    corners: Float[np.ndarray, "f 3 3"],
    face: Int[np.ndarray, " n"],
    barycentric: Float[np.ndarray, "n 3"],
) -> Float[np.ndarray, "n 3"]:
    """Where places on a mesh lie."""
    return np.einsum("nca,nc->na", corners[face], barycentric)
