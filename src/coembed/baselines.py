"""Methods to compare with that need no network: coupled bases, and an outside library.

Takes the bases of a pair of shapes, gives coupled bases or a point-wise map. Needs
``coembed[bench]``.
"""

from typing import Any

import numpy as np

from coembed.annotations import Float, Int
from coembed.errors import InputError, MissingExtraError
from coembed.functional import Basis
from coembed.shapes import Shape

__all__ = ["coupled_bases", "pyfm_map", "pyfm_mesh"]

_MISSING = 'this method needs pymanopt and pyfmaps: pip install "coembed[bench]"'
_MODES = 200  # of the library's meshes


def coupled_bases(
    source: Basis,
    target: Basis,
    coefficients: tuple[Float[np.ndarray, "d a"], Float[np.ndarray, "d b"]],
    *,
    coupling: float | int = 1.0,
    iterations: int = 100,
) -> tuple[Float[np.ndarray, "n k"], Float[np.ndarray, "m k"]]:
    r"""Coupled quasi-harmonic bases Φ R, Ψ Q of two shapes.

    .. math:: \min_{R, Q \in O(k)} \|R^\top \Lambda R - \Lambda\|_F^2
              + \|Q^\top \Gamma Q - \Gamma\|_F^2
              + \mu \|F R - G Q\|_F^2

    by conjugate gradients on the product of two Stiefel manifolds. Λ and Γ are divided by their
    largest entry, F and G by their Frobenius norm, so that ``coupling`` (μ) means the same on
    every pair. The start is R = 1 and the Q that best fits the coefficients.

    Parameters
    ----------
    coefficients
        F and G: coefficients of corresponding functions in the two bases, one a row. For
        descriptors D that is Dᵀ M Φ, for corresponding points the rows of Φ there.

    References
    ----------
    [Kovnatsky13] eq. 8, with the off-diagonal penalty of [Zeng25] eq. 1.
    """
    try:
        from pymanopt import Problem, function
        from pymanopt.manifolds import Product, Stiefel
        from pymanopt.optimizers import ConjugateGradient
    except ImportError as error:
        raise MissingExtraError(_MISSING) from error
    k = min(len(source.evals), len(target.evals))
    bases = [basis.evecs[:, :k] for basis in (source, target)]
    diagonals = [basis.evals[:k] / basis.evals[k - 1] for basis in (source, target)]
    # ‖F R - G Q‖² = ‖F‖² + ‖G‖² - 2 tr(Rᵀ FᵀG Q) for square orthogonal R and Q
    f, g = (part[:, :k] / np.linalg.norm(part[:, :k]) for part in coefficients)
    both = f.T @ g

    def off(rotation: np.ndarray, diagonal: np.ndarray) -> np.ndarray:
        return rotation.T @ (diagonal[:, None] * rotation) - np.diag(diagonal)

    manifold = Product([Stiefel(k, k), Stiefel(k, k)])

    def cost(r: np.ndarray, q: np.ndarray) -> float:
        offs = [(off(x, d) ** 2).sum() for x, d in zip((r, q), diagonals, strict=True)]
        return float(sum(offs)) + coupling * (2 - 2 * (r * (both @ q)).sum())

    def gradient(r: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        offs = [4 * d[:, None] * (x @ off(x, d)) for x, d in zip((r, q), diagonals, strict=True)]
        return offs[0] - 2 * coupling * both @ q, offs[1] - 2 * coupling * both.T @ r

    left, _, right = np.linalg.svd(both.T)
    optimizer = ConjugateGradient(max_iterations=iterations, verbosity=0, max_time=np.inf)
    numpy = function.numpy(manifold)  # wants functions whose arguments it can count
    problem = Problem(
        manifold,
        numpy(lambda r, q: cost(r, q)),
        euclidean_gradient=numpy(lambda r, q: gradient(r, q)),
    )
    found = optimizer.run(problem, initial_point=[np.eye(k), left @ right]).point
    return bases[0] @ found[0], bases[1] @ found[1]


def pyfm_mesh(shape: Shape) -> Any:
    """Mesh of the library pyFM, with its spectrum, for `pyfm_map`.

    Raises
    ------
    InputError
        If the shape has no faces or too few points.
    """
    try:
        from pyFM.mesh import TriMesh
    except ImportError as error:
        raise MissingExtraError(_MISSING) from error
    if shape.faces is None or not len(shape.faces):
        raise InputError(f"{shape.name}: the method pyfm-wks needs faces; this shape has none")
    if len(shape.points) < _MODES + 50:
        raise InputError(
            f"{shape.name}: the method pyfm-wks needs {_MODES + 50} points or more; "
            f"got {len(shape.points)}"
        )
    mesh = TriMesh(shape.points, shape.faces, area_normalize=True, center=True)
    mesh.process(_MODES, verbose=False)
    return mesh


def pyfm_map(source: Any, target: Any) -> Int[np.ndarray, " n"]:
    """Map by the functional maps of the library pyFM from wave kernel signatures.

    With the settings of that library's quick start: k = 30, orientation term on.

    References
    ----------
    [Ovsjanikov12]; library ``pyfmaps``.
    """
    from pyFM.functional import FunctionalMapping

    model = FunctionalMapping(target, source)  # its maps lead from the second mesh to the first
    model.preprocess(descr_type="WKS", subsample_step=2, k_process=_MODES)
    model.fit(K=30, w_descr=1.0, w_lap=0.1, w_dcomm=1.0, w_orient=1.0)
    return np.asarray(model.get_p2p(n_jobs=1), dtype=np.int64)
