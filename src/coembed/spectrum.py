"""The Laplacian of a point cloud and its lowest eigenpairs.

Takes and gives arrays and sparse matrices. Everything runs in float64 and is deterministic: fixed
start vectors, fixed signs.
"""

from types import ModuleType
from typing import Any

import numpy as np
import scipy
from threadpoolctl import threadpool_limits

from coembed import compiled, sampling
from coembed.annotations import Float, Int, Sparse
from coembed.errors import NumericalError

__all__ = ["N_NEIGHBORS", "components", "eigenpairs", "factored", "laplacian", "nearest_points"]

N_NEIGHBORS = 30

_SHIFT = -0.01  # negative: L - shift M is positive definite, so one factorisation is stable
_TOLERANCE = 1e-4  # of Lanczos, for residuals; eigenvalues are exact to 1e-8 with it
_FURTHER = 40  # Lanczos vectors beyond two for each eigenpair: with fewer none converges
_AGAIN = 8  # steps after which rounding errors are taken out
_NOTHING = 1e-7  # of a vector's length: rounding errors alone
_DENSE_BELOW = 400  # points
_EXACT_BELOW = 8_000  # points; with fewer the shorter way is not shorter
_SUPERLU = {
    "ColPerm": "MMD_AT_PLUS_A",
    "DiagPivotThresh": 0.0,  # such a matrix needs no pivots, and without them there is less fill
    "Relax": 8,
    "PanelSize": 1,  # panels are meant for denser factors: one column is a third faster
    "SymmetricMode": True,
}
_MOLLIFIED = 1e-5  # of the mean length: no triangle's sides come nearer to a line
_PART = 100_000  # points whose Laplacian the library makes at a time: 1 GB
_SEAM = 4  # steps to the nearest points and on to theirs
_COARSE = 2_000  # points of the thinned cloud, twice as many for the largest
_COLUMNS = 8  # right-hand sides solved at a time: few enough to stay in the processor's cache
_GUARD = 17  # further vectors in the block, for the sake of the last ones wanted


def nearest_points(points: Float[np.ndarray, "n 3"], k: int) -> Int[np.ndarray, "n j"]:
    """The ``k`` nearest other points of each, nearest first."""
    neighbors = compiled.neighbors(points, points, k + 1)
    return _without(np.arange(len(points)), neighbors)


def _without(
    own: Int[np.ndarray, " n"], neighbors: Int[np.ndarray, "n j"]
) -> Int[np.ndarray, "n k"]:
    """Drop each point from its own neighbours; the farthest goes where it is not among them."""
    if (neighbors[:, 0] == own).all():
        return neighbors[:, 1:]
    itself = neighbors == own[:, None]
    itself[~itself.any(axis=1), -1] = True
    return neighbors[~itself].reshape(len(neighbors), -1)


def laplacian(
    points: Float[np.ndarray, "n 3"],
    *,
    n_neighbors: int = N_NEIGHBORS,
    neighbors: Int[np.ndarray, "n j"] | None = None,
    name: str = "shape",
) -> tuple[Sparse, Float[np.ndarray, " n"]]:
    """Weak, positive semi-definite point-cloud Laplacian and lumped mass, in the points' units.

    Parameters
    ----------
    neighbors
        The ``n_neighbors`` nearest points of each, of points in an order in which neighbours are
        near.

    Notes
    -----
    Where ``coembed._native`` was not compiled, the library makes it. Both agree to 1e-9 but where
    a neighbourhood has two triangulations that are equally good, as on a regular grid. The library
    takes a cloud of more than 100,000 in parts if ``neighbors`` are given, each with a seam of four
    times the nearest around it, for the sake of memory; entries agree with those of the whole to
    0.1 % but for a few points.

    Raises
    ------
    NumericalError
        If the neighbourhoods are too degenerate for a triangulation.

    References
    ----------
    [Sharp20]; library ``robust-laplacian``.
    """
    compiled.load_sparse()  # for the library, which would load more
    try:
        native = compiled.native()
        if native is not None:
            near = nearest_points(points, n_neighbors) if neighbors is None else neighbors
            weak, mass = _native_laplacian(native, points, near)
        elif neighbors is None or len(points) <= _PART:
            weak, mass = _library_laplacian(points, n_neighbors)
        else:
            weak, mass = _laplacian_in_parts(points, n_neighbors, neighbors)
    except (RuntimeError, ValueError) as error:
        raise NumericalError(
            f"{name}: no Laplacian of {len(points)} points ({error}); "
            "check that the points lie on a surface"
        ) from error
    if not (np.isfinite(weak.data).all() and np.isfinite(mass).all() and mass.sum() > 0):
        raise NumericalError(
            f"{name}: the Laplacian of {len(points)} points is not finite or has no area; "
            "check that the points lie on a surface"
        )
    # a point without area would make the generalised eigenproblem singular
    return weak, np.maximum(mass, 1e-6 * mass.mean())


def _native_laplacian(
    native: ModuleType, points: Float[np.ndarray, "n 3"], neighbors: Int[np.ndarray, "n k"]
) -> tuple[Sparse, Float[np.ndarray, " n"]]:
    places, near = np.ascontiguousarray(points), np.ascontiguousarray(neighbors, dtype=np.int32)
    parts = native.point_cloud_laplacian(places, near, _MOLLIFIED)
    starts, rows = (np.frombuffer(part, dtype=np.int32) for part in parts[:2])
    values, mass = (np.frombuffer(part) for part in parts[2:])
    return scipy.sparse.csc_array((values, rows, starts), shape=(len(points),) * 2), mass


def _library_laplacian(
    points: Float[np.ndarray, "n 3"], n_neighbors: int
) -> tuple[Sparse, Float[np.ndarray, " n"]]:
    import robust_laplacian

    weak, mass = robust_laplacian.point_cloud_laplacian(
        points, mollify_factor=_MOLLIFIED, n_neighbors=n_neighbors
    )
    return scipy.sparse.csc_array((weak + weak.T) / 2), np.asarray(mass.diagonal())


def _laplacian_in_parts(
    points: Float[np.ndarray, "n 3"], n_neighbors: int, neighbors: Int[np.ndarray, "n j"]
) -> tuple[Sparse, Float[np.ndarray, " n"]]:
    """Rows of each part from the Laplacian of the part and a seam around it."""
    n = len(points)
    weak, masses = [], []
    for own in np.array_split(np.arange(n), -(-n // _PART)):
        taken = np.zeros(n, dtype=bool)
        taken[own] = True
        for _ in range(_SEAM):
            taken[neighbors[taken].ravel()] = True
        rows = np.flatnonzero(taken)
        inside = np.searchsorted(rows, own)
        part, mass = _library_laplacian(points[rows], n_neighbors)
        part = scipy.sparse.csr_array(part)[inside]
        weak.append(
            scipy.sparse.csr_array((part.data, rows[part.indices], part.indptr), (len(own), n))
        )
        masses.append(mass[inside])
    whole = scipy.sparse.csr_array(scipy.sparse.vstack(weak))
    # entries across a seam may differ by side: with their mean rows must sum to 0 again
    whole = scipy.sparse.csr_array((whole + whole.T) / 2)
    whole.setdiag(whole.diagonal() - whole.sum(axis=1))
    return scipy.sparse.csc_array(whole), np.concatenate(masses)


def eigenpairs(
    stiffness: Sparse,
    mass: Float[np.ndarray, " n"],
    n_eig: int,
    *,
    n_constant: int = 1,
    points: Float[np.ndarray, "n 3"] | None = None,
    name: str = "shape",
) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, "n k"]]:
    """Lowest eigenpairs of L Φ = M Φ Λ above the ``n_constant`` constants.

    Shift-invert block Lanczos on M^-1/2 L M^-1/2 with a shift below zero, from fixed vectors; dense
    for small shapes; component by component, since those that are alike have equal eigenvalues.
    ΦᵀMΦ = I; the largest entry of each eigenvector is positive. Eigenvalues are exact to 1e-8.

    Parameters
    ----------
    points
        Where the Laplacian's points are, in any units. If given, large clouds take a shorter way,
        twice as fast: eigenvectors of a thinned cloud, interpolated, then one inverse iteration
        of the whole block with the full operator and a Rayleigh-Ritz step. It is exact to 0.1 %
        for the lowest third of the eigenvalues, to 1 % for most, to 4 % for the last few.

    Raises
    ------
    NumericalError
        If the iteration does not converge.
    """
    n, wanted = len(mass), n_eig + n_constant
    root = np.sqrt(mass)
    matrix = scipy.sparse.csc_array(stiffness, copy=True)
    matrix.data /= root[matrix.indices] * np.repeat(root, np.diff(matrix.indptr))
    # several BLAS threads make small products several times slower
    with threadpool_limits(limits=1, user_api="blas"):
        if points is None or n < max(_EXACT_BELOW, 100 * wanted):
            evals, vectors = _exact(matrix, wanted, n_constant, name)
        else:
            evals, vectors = _lifted(matrix, root, points, n_eig, name)
            n_constant = 0
    evecs = vectors / root[:, None]
    evecs /= np.sqrt(mass @ evecs**2)
    evecs, evals = evecs[:, n_constant:], np.maximum(evals[n_constant:], 0)
    largest = np.abs(evecs).argmax(axis=0)
    evecs *= np.sign(evecs[largest, np.arange(n_eig)])
    return evals, np.ascontiguousarray(evecs)


def _exact(
    matrix: Sparse, wanted: int, n_parts: int, name: str
) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, "n k"]]:
    """The lowest eigenpairs of all components together."""
    n = matrix.shape[0]
    if n_parts == 1:
        if n > max(_DENSE_BELOW, _most_vectors(wanted)):
            return _lanczos(matrix, wanted, name)
        evals, vectors = np.linalg.eigh(matrix.toarray())
        return evals[:wanted], vectors[:, :wanted]
    first = components(matrix)
    parts = [np.flatnonzero(first == row) for row in np.unique(first)]
    found = [_exact(matrix[rows][:, rows], min(wanted, len(rows)), 1, name) for rows in parts]
    evals = np.concatenate([values for values, _ in found])
    origin = np.repeat(np.arange(len(found)), [len(values) for values, _ in found])
    chosen = np.argsort(evals, kind="stable")[:wanted]
    vectors = np.zeros((n, wanted))
    for i, (rows, (_, own)) in enumerate(zip(parts, found, strict=True)):
        columns = np.flatnonzero(origin[chosen] == i)
        vectors[np.ix_(rows, columns)] = own[:, : len(columns)]  # the lowest ones, in order
    return evals[chosen], vectors


def _lanczos(
    matrix: Sparse, wanted: int, name: str
) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, "n k"]]:
    """Rayleigh-Ritz on V, (A - shift I)^-1 V, ...: blocks of rows, each orthogonal to all before.

    In blocks, the factors and the rows before are read from memory a few times less often, and an
    eigenvalue of a symmetric shape is found as often as it occurs, up to eight times.
    """
    n, most = matrix.shape[0], _most_vectors(wanted)
    factor, rng = _factor(matrix), np.random.default_rng(0)
    basis, ritz = np.empty((most, n)), np.zeros((most, most))
    block = _orthonormal(rng.standard_normal((_COLUMNS, n)), basis[:0], 0.0, rng)
    for step in range(most // _COLUMNS):
        own, size = slice(step * _COLUMNS, (step + 1) * _COLUMNS), (step + 1) * _COLUMNS
        known = basis[:size]
        basis[own] = block
        block = factor.solve(block.T).T
        length = float(np.linalg.norm(block))
        ritz[own, :size] = block @ known.T
        block = block - ritz[own, :size] @ known
        if step % _AGAIN < 2:  # what rounding leaves grows from step to step, through two of them
            block -= (block @ known.T) @ known
        if size >= 2 * wanted + _FURTHER and step % 2:
            values, turn = np.linalg.eigh(ritz[:size, :size])  # reads the lower triangle only
            values, turn = values[: -wanted - 1 : -1], turn[:, : -wanted - 1 : -1]
            outside = np.linalg.norm(block.T @ turn[own], axis=0)
            if (outside <= _TOLERANCE * values).all():
                return 1 / values + _SHIFT, known.T @ turn
        block = _orthonormal(block, known, length, rng)
    raise NumericalError(
        f"{name}: no {wanted} eigenpairs of {n} points among {most} vectors; ask for fewer"
    )


def _most_vectors(wanted: int) -> int:
    return 4 * wanted // _COLUMNS * _COLUMNS + 200


def _orthonormal(
    rows: Float[np.ndarray, "b n"],
    others: Float[np.ndarray, "m n"],
    length: float,
    rng: np.random.Generator,
) -> Float[np.ndarray, "b n"]:
    """Orthonormal rows that span the given ones, which are orthogonal to others.

    New ones in place of those that are next to nothing, compared with their former length: then
    the others span all that can be reached from them.
    """
    least = (_NOTHING * length) ** 2
    for _ in range(2):  # the second time for those that were nearly dependent
        values, turn = np.linalg.eigh(rows @ rows.T)
        rows = (turn / np.sqrt(np.maximum(values, least))).T @ rows
        lost = values <= least
        if lost.any():
            new = rng.standard_normal((int(lost.sum()), rows.shape[1])) / np.sqrt(rows.shape[1])
            rows[lost] = new - (new @ others.T) @ others
    return rows


def _factor(matrix: Sparse) -> Any:
    n = matrix.shape[0]
    unit = scipy.sparse.csc_array((np.ones(n), np.arange(n), np.arange(n + 1)), shape=(n, n))
    factor = factored(matrix - _SHIFT * unit)
    native = compiled.native()
    if native is None or not np.array_equal(factor.perm_r, factor.perm_c):
        return factor
    return _NativeFactor(native, factor)


class _NativeFactor:
    """Takes over the factors of SuperLU, whose own solutions take three times as long."""

    def __init__(self, native: ModuleType, factor: Any) -> None:
        one = np.ones(factor.shape[0])
        self._native, self._place = native, factor.perm_r
        self._upper = _columns(factor.U, -1, 1 / factor.U.diagonal())
        self._lower = _columns(factor.L, 0, one)

    def solve(self, right: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        solution = np.array(right, dtype=np.float64, order="C")
        self._native.solve(self._upper, self._lower, self._place, solution)
        return solution


def _columns(
    matrix: Sparse, diagonal: int, scale: Float[np.ndarray, " n"]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Starts, rows and values without the diagonal, which comes first or last in each column."""
    matrix.sort_indices()
    starts = matrix.indptr
    out = starts[:-1] if diagonal == 0 else starts[1:] - 1
    fewer = starts - np.arange(len(starts), dtype=np.int32)
    return fewer, np.delete(matrix.indices, out), np.delete(matrix.data, out), scale


def factored(matrix: Sparse) -> Any:
    """Sparse LU of a symmetric, positive definite matrix; its ``solve`` takes many columns."""
    columns = scipy.sparse.csc_array(matrix, dtype=np.float64)
    columns.sum_duplicates()
    alone = compiled.superlu()
    if alone is None:
        return scipy.sparse.linalg.splu(columns, options=_SUPERLU)
    starts, rows = (part.astype(np.int32) for part in (columns.indptr, columns.indices))
    return alone.gstrf(
        columns.shape[0], columns.nnz, columns.data, rows, starts,
        csc_construct_func=scipy.sparse.csc_array, ilu=False, options=_SUPERLU,
    )  # fmt: skip


def components(matrix: Sparse) -> Int[np.ndarray, " n"]:
    """For each row of a symmetric matrix, all of whose diagonal is stored, the first connected.

    Rows point to lower ones, those to lower ones still, and so on [Zhang20]: a few rounds suffice.
    """
    rows, starts = matrix.indices, matrix.indptr[:-1]
    first = np.arange(matrix.shape[0])
    while True:
        last = first[first]
        lowest = np.minimum.reduceat(last[rows], starts)
        found = np.minimum(np.minimum(first, lowest), last)
        np.minimum.at(found, first, lowest)
        if (found[found] == last).all():
            return last
        first = found


def _lifted(
    matrix: Sparse,
    root: Float[np.ndarray, " n"],
    points: Float[np.ndarray, "n 3"],
    n_eig: int,
    name: str,
) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, "n k"]]:
    """Eigenpairs above the constants, from those of a thinned cloud."""
    few = sampling.thin(points, _COARSE if len(points) < 50_000 else 2 * _COARSE)
    weak, mass = laplacian(points[few], name=name)
    scale = root @ root / mass.sum()  # both clouds with the same area
    n_constant = len(np.unique(components(weak)))
    _, coarse = eigenpairs(weak, mass * scale, n_eig + _GUARD, n_constant=n_constant, name=name)
    block = sampling.interpolation(points, points[few])(coarse)
    block *= root[:, None]
    _, part = np.unique(components(matrix), return_inverse=True)
    constants = scipy.sparse.csc_array((root, (np.arange(len(root)), part)))
    constants = constants / np.sqrt((constants.multiply(constants)).sum(axis=0))
    factor = _factor(matrix)
    for start in range(0, block.shape[1], _COLUMNS):
        columns = slice(start, start + _COLUMNS)
        block[:, columns] = factor.solve(block[:, columns])
    block -= constants @ (constants.T @ block)
    block /= np.linalg.norm(block, axis=0)
    whiten = np.linalg.inv(np.linalg.cholesky(block.T @ block))
    evals, turn = np.linalg.eigh(whiten @ (block.T @ (matrix @ block)) @ whiten.T)
    return evals[:n_eig], block @ (whiten.T @ turn[:, :n_eig])
