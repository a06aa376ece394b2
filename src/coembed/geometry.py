"""Shape to operators: Laplacian, mass, eigenpairs, tangent gradients; geodesic distances.

Takes a `Shape`, gives the `Operators` that the network reads. Everything runs in float64 and
is deterministic: fixed start vector, fixed signs, an order of points that the file cannot change.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import robust_laplacian
from scipy.linalg import eigh
from scipy.sparse import csc_array, csr_array, diags_array, eye_array
from scipy.sparse.csgraph import connected_components, dijkstra
from scipy.sparse.linalg import LinearOperator, eigsh, splu
from scipy.spatial import cKDTree
from threadpoolctl import threadpool_limits

from coembed import files
from coembed.annotations import Float, Int
from coembed.errors import InputError, NumericalError
from coembed.shapes import MIN_POINTS, Operators, Shape

__all__ = [
    "eigenpairs",
    "face_areas",
    "geodesics",
    "geodesics_method",
    "gradients",
    "laplacian",
    "on_surface",
    "prepare",
    "surface_points",
]

N_EIG = 79
N_NEIGHBORS = 30

_SHIFT = -0.01  # negative: L - shift M is positive definite, so one factorisation is stable
_DENSE_BELOW = 400  # points; ARPACK wants far fewer eigenpairs than points


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
    settings = {"n_eig": n_eig, "n_neighbors": n_neighbors}
    if cache is not None:
        stored = files.read_operators(cache, shape, settings)
        if stored is not None:
            return replace(stored, name=shape.name)
    operators = _prepared(shape, n_eig, n_neighbors)
    if cache is not None:
        files.write_operators(cache, shape, settings, operators)
    return operators


def _prepared(shape: Shape, n_eig: int, n_neighbors: int) -> Operators:
    notes = []
    points, rows, centre, size = _distinct(shape)
    n = len(points)
    if n < len(shape.points):
        notes.append(
            f"{len(shape.points) - n} repeated points share the answer of their first copy"
        )
    if n_neighbors > n - 1:
        notes.append(f"neighbours lowered from {n_neighbors} to {n - 1}: {n} distinct points")
        n_neighbors = n - 1
    stiffness, mass = laplacian(points, n_neighbors=n_neighbors, name=shape.name)
    shift = mass @ points / mass.sum()
    scale = 1 / np.sqrt(mass.sum())
    points, mass = (points - shift) * scale, mass * scale**2
    n_constant = connected_components(stiffness, directed=False, return_labels=False)
    if n_constant > 1:
        notes.append(f"{n_constant} separate components, each with a constant mode of its own")
    if n_eig > n - n_constant - 1:
        notes.append(
            f"eigenpairs lowered from {n_eig} to {n - n_constant - 1}: {n} distinct points"
        )
        n_eig = n - n_constant - 1
    if n_eig < 1:
        raise InputError(
            f"{shape.name}: {n} distinct points fall into {n_constant} separate components; "
            "expected one or a few surfaces"
        )
    evals, evecs = eigenpairs(stiffness, mass, n_eig, n_constant=n_constant, name=shape.name)
    grad_x, grad_y = gradients(points, evecs, n_neighbors=n_neighbors)
    return Operators(
        points=points,
        mass=mass,
        laplacian=stiffness,
        evals=evals,
        evecs=evecs,
        grad_x=grad_x,
        grad_y=grad_y,
        rows=rows,
        centre=centre + shift * size,
        scale=float(scale / size),
        notes=tuple(notes),
        name=shape.name,
    )


def _distinct(
    shape: Shape,
) -> tuple[Float[np.ndarray, "n 3"], Int[np.ndarray, " r"], Float[np.ndarray, " 3"], float]:
    """Distinct points in an order of their own, in a unit box; the row of each file row in them."""
    if len(shape.points) < MIN_POINTS:
        raise InputError(
            f"{shape.name}: at least {MIN_POINTS} points are needed; got {len(shape.points)}"
        )
    low, high = shape.points.min(axis=0), shape.points.max(axis=0)
    centre, size = (low + high) / 2, float((high - low).max())
    distinct, rows = np.unique(shape.points, axis=0, return_inverse=True)
    if len(distinct) < MIN_POINTS:
        raise InputError(
            f"{shape.name}: at least {MIN_POINTS} distinct points are needed; "
            f"got {len(distinct)} among {len(shape.points)} rows"
        )
    points = (distinct - centre) / size
    # neighbours in space become neighbours in memory: Laplacian and gradients run 2 to 6 times
    # faster on large clouds; np.unique has already made the order independent of the file
    order = np.argsort(_morton_key(points), kind="stable")
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    return points[order], place[rows.reshape(-1)], centre, size


def _morton_key(points: Float[np.ndarray, "n 3"]) -> Int[np.ndarray, " n"]:
    """Place of each point of the unit box on a Z-shaped curve, 16 bits an axis."""
    cell = np.clip((points + 0.5) * 65536, 0, 65535).astype(np.uint64)
    for shift, mask in (
        (16, 0x0000FF0000FF),
        (8, 0x00F00F00F00F),
        (4, 0x0C30C30C30C3),
        (2, 0x249249249249),
    ):
        cell = (cell | (cell << np.uint64(shift))) & np.uint64(mask)
    key = cell[:, 0] | (cell[:, 1] << np.uint64(1)) | (cell[:, 2] << np.uint64(2))
    return key.astype(np.int64)


def laplacian(
    points: Float[np.ndarray, "n 3"], *, n_neighbors: int = N_NEIGHBORS, name: str = "shape"
) -> tuple[csc_array, Float[np.ndarray, " n"]]:
    """Weak, positive semi-definite point-cloud Laplacian and lumped mass, in the points' units.

    Raises
    ------
    NumericalError
        If the neighbourhoods are too degenerate for a triangulation.

    References
    ----------
    [Sharp20]; library ``robust-laplacian``.
    """
    try:
        weak, mass_matrix = robust_laplacian.point_cloud_laplacian(points, n_neighbors=n_neighbors)
    except (RuntimeError, ValueError) as error:
        raise NumericalError(
            f"{name}: no Laplacian of {len(points)} points ({error}); "
            "check that the points lie on a surface"
        ) from error
    mass = np.asarray(mass_matrix.diagonal())
    weak = csc_array((weak + weak.T) / 2)
    if not (np.isfinite(weak.data).all() and np.isfinite(mass).all() and mass.sum() > 0):
        raise NumericalError(
            f"{name}: the Laplacian of {len(points)} points is not finite or has no area; "
            "check that the points lie on a surface"
        )
    # a point without area would make the generalised eigenproblem singular
    return weak, np.maximum(mass, 1e-6 * mass.mean())


def eigenpairs(
    stiffness: csc_array,
    mass: Float[np.ndarray, " n"],
    n_eig: int,
    *,
    n_constant: int = 1,
    name: str = "shape",
) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, "n k"]]:
    """Lowest eigenpairs of L Φ = M Φ Λ above the ``n_constant`` constants.

    Shift-invert Lanczos on M^-1/2 L M^-1/2 with a shift below zero, from a fixed start vector;
    dense for small shapes. ΦᵀMΦ = I; the largest entry of each eigenvector is positive.

    Raises
    ------
    NumericalError
        If the iteration does not converge.
    """
    n, wanted = len(mass), n_eig + n_constant
    root = np.sqrt(mass)
    half = diags_array(1 / root)
    matrix = csc_array(half @ stiffness @ half)
    # several BLAS threads make ARPACK's small products several times slower
    with threadpool_limits(limits=1, user_api="blas"):
        if n <= max(_DENSE_BELOW, 2 * wanted + 1):
            evals, vectors = eigh(matrix.toarray(), subset_by_index=(0, wanted - 1))
        else:
            evals, vectors = _lanczos(matrix, wanted, name)
    evecs = vectors / root[:, None]
    evecs /= np.sqrt(mass @ evecs**2)
    evecs, evals = evecs[:, n_constant:], np.maximum(evals[n_constant:], 0)
    largest = np.abs(evecs).argmax(axis=0)
    evecs *= np.sign(evecs[largest, np.arange(n_eig)])
    return evals, np.ascontiguousarray(evecs)


def _lanczos(
    matrix: csc_array, wanted: int, name: str
) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, "n k"]]:
    n = matrix.shape[0]
    factor = splu(
        csc_array(matrix - _SHIFT * eye_array(n)),
        permc_spec="MMD_AT_PLUS_A",
        options={"SymmetricMode": True},
    )
    inverse = LinearOperator(matrix.shape, matvec=factor.solve, dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(n)
    try:
        # 1.4 times as many Lanczos vectors as eigenpairs: SciPy's default of twice is 1.6 x slower
        size = min(n - 1, int(1.4 * wanted) + 1)
        evals, vectors = eigsh(matrix, k=wanted, sigma=_SHIFT, OPinv=inverse, v0=start, ncv=size)
    except RuntimeError as error:  # ArpackError and ArpackNoConvergence
        raise NumericalError(
            f"{name}: no {wanted} eigenpairs of {n} points ({error}); ask for fewer eigenpairs"
        ) from error
    order = np.argsort(evals)
    return evals[order], vectors[:, order]


def gradients(
    points: Float[np.ndarray, "n 3"],
    functions: Float[np.ndarray, "n k"],
    *,
    n_neighbors: int = N_NEIGHBORS,
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
    _, neighbors = cKDTree(points).query(points, k=n_neighbors + 1)
    neighbors = _without_self(neighbors)
    offsets = points[neighbors] - points[:, None]
    axes = _tangent_axes(offsets)
    tangent = offsets @ axes  # n j 2
    weights = _least_squares(tangent)  # n 2 j
    columns = np.concatenate([neighbors, np.arange(n)[:, None]], axis=1)
    starts = np.arange(n + 1) * columns.shape[1]
    results = []
    for axis in range(2):
        own = weights[:, axis]
        values = np.concatenate([own, -own.sum(axis=1, keepdims=True)], axis=1)
        operator = csr_array((values.ravel(), columns.ravel(), starts), shape=(n, n))
        results.append(operator @ functions)
    return results[0], results[1]


def _least_squares(tangent: Float[np.ndarray, "n j 2"]) -> Float[np.ndarray, "n 2 j"]:
    """(TᵀT + 1e-5 I)⁻¹ Tᵀ for each point, by the closed form of a 2 x 2 inverse."""
    normal = tangent.transpose(0, 2, 1) @ tangent + 1e-5 * np.eye(2)
    xx, xy, yy = normal[:, 0, 0], normal[:, 0, 1], normal[:, 1, 1]
    inverse = np.stack([yy, -xy, -xy, xx], axis=1).reshape(-1, 2, 2)
    inverse /= (xx * yy - xy * xy)[:, None, None]
    return inverse @ tangent.transpose(0, 2, 1)


def _without_self(neighbors: Int[np.ndarray, "n j"]) -> Int[np.ndarray, "n j-1"]:
    """Drop each point from its own neighbours; the farthest goes where it is not among them."""
    own = neighbors == np.arange(len(neighbors))[:, None]
    own[~own.any(axis=1), -1] = True
    return neighbors[~own].reshape(len(neighbors), -1)


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
    graph = csr_array((lengths, (pairs[:, 0], pairs[:, 1])), shape=(n, n))
    distances = np.asarray(dijkstra(graph, directed=False, indices=sources))
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


def surface_points(
    corners: Float[np.ndarray, "f 3 3"],
    n: int,
    rng: np.random.Generator,
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
