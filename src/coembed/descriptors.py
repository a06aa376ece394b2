"""Operators to point-wise descriptors: heat and wave kernel signatures.

Takes eigenpairs, gives features; the coupling loss compares shapes through them.
"""

import numpy as np

from coembed.annotations import Float
from coembed.shapes import Array, namespace

__all__ = ["hks", "wks"]


def hks(
    evals: Float[Array, " k"], evecs: Float[Array, "n k"], n_times: int = 512
) -> Float[Array, "n t"]:
    r"""Heat kernel signature, from the non-constant modes, not normalised.

    .. math:: h_t(i) = \sum_k e^{-t \lambda_k} \phi_k(i)^2

    at ``n_times`` log-spaced times in [0.01, 1], in units of area.

    References
    ----------
    [Sun09]; [Zeng25] supplement, sec. Implementation (d = 512).
    """
    xp = namespace(evecs)
    times = xp.asarray(np.logspace(-2, 0, n_times), dtype=evecs.dtype)
    return (evecs * evecs) @ xp.exp(-evals[:, None] * times[None, :])


def wks(
    evals: Float[Array, " k"], evecs: Float[Array, "n k"], n_energies: int = 128
) -> Float[Array, "n e"]:
    r"""Wave kernel signature at ``n_energies`` energies between the log-eigenvalues.

    .. math:: w_e(i) = \sum_k \phi_k(i)^2 g_e(\lambda_k) / \sum_k g_e(\lambda_k), \quad
              g_e(\lambda) = e^{-(e - \log\lambda)^2 / 2\sigma^2}

    with sigma = 7 (range / n_energies) and the energies 2 sigma inside the range.

    References
    ----------
    [Aubry11].
    """
    xp = namespace(evecs)
    logs = xp.log(evals)
    low, high = float(logs[0]), float(logs[-1])
    sigma = 7 * (high - low) / n_energies
    energies = xp.asarray(
        np.linspace(low + 2 * sigma, high - 2 * sigma, n_energies), dtype=evecs.dtype
    )
    weights = xp.exp(-((energies[None, :] - logs[:, None]) ** 2) / (2 * sigma**2))
    return (evecs * evecs) @ (weights / xp.sum(weights, axis=0, keepdims=True))
