"""Functional maps: point-wise maps as small matrices between spectral bases, and back.

A map T from source to target pulls functions on the target back to the source; in the bases
Φ (source) and Ψ (target) that is the matrix C = Φᵀ M Ψ[T], and T(i) is the target point whose
row of Ψ is nearest to row i of Φ C.
"""

from dataclasses import dataclass

import numpy as np
import scipy

from coembed import evaluation
from coembed.annotations import Float, Int
from coembed.search import nearest

__all__ = ["MODES", "Basis", "functional_map", "zoomout"]

MODES = 200
"""Eigenvectors that a map is refined with."""

_SAMPLES = 1500  # rows that fit the functional maps


@dataclass(frozen=True, eq=False)
class Basis:
    """Eigenvectors of a shape, the constant not among them, in the rows of its file.

    Parameters
    ----------
    mass
        Lumped areas; repeated rows share theirs.
    """

    evals: Float[np.ndarray, " k"]
    evecs: Float[np.ndarray, "n k"]
    mass: Float[np.ndarray, " n"]


def functional_map(
    source: Float[np.ndarray, "s a"], target: Float[np.ndarray, "s b"]
) -> Float[np.ndarray, "a b"]:
    """Least squares C of source C = target, row by row, for two bases at corresponding points."""
    return np.asarray(scipy.linalg.lstsq(source, target, lapack_driver="gelsy")[0])


def zoomout(
    source: Basis,
    target: Basis,
    p2p: Int[np.ndarray, " n"],
    back: Int[np.ndarray, " m"] | None = None,
    *,
    first: int = 80,
    step: int = 40,
) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, "m d"]]:
    """Refine a point-wise map by more and more eigenvectors; bijective with a map ``back``.

    1. Functional map of the first ``first`` eigenvectors from the point-wise map.
    2. Point-wise map from the functional map.
    3. ``step`` eigenvectors more, until all are used.

    With ``back`` the two directions are refined together: a source point has the coordinates
    [Φ C, Φ], a target point [Ψ, Ψ D], D being the functional map of the way back. The answer is
    these coordinates of all points; the refined map leads to the nearest ones.

    References
    ----------
    [Melzi19]; [Ren21] for the bijective form.
    """
    most = min(source.evecs.shape[1], target.evecs.shape[1])
    lines = evaluation.spaced(len(source.evecs), _SAMPLES)
    columns = evaluation.spaced(len(target.evecs), _SAMPLES)
    there = p2p[lines]
    home = None if back is None else back[columns]
    sizes = [*range(min(first, most), most, step), most]
    for k in sizes:
        phi, psi = (basis.evecs[:, :k].astype(np.float32) for basis in (source, target))
        one, other = phi @ functional_map(phi[lines], psi[there]), psi
        if home is not None:
            one = np.concatenate([one, phi], axis=1)
            other = np.concatenate([psi, psi @ functional_map(psi[columns], phi[home])], axis=1)
        if k == most:
            break
        there = nearest(one[lines], other)
        home = None if home is None else nearest(other[columns], one)
    return one, other
