"""Point-wise descriptors: heat and wave kernel signatures; bumps where the truth is known.

Takes eigenpairs or places, gives features; the coupling loss compares shapes through them.
"""

import numpy as np

from coembed.annotations import Float
from coembed.shapes import Array, namespace

__all__ = ["bumps", "hks", "wks"]

_WIDTH = 0.05  # of a bump: standard deviation, metres
_THERE = 0.2  # of the usual area under a bump: less is left of one that lies beyond a rim


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


def bumps(
    source: tuple[Float[Array, "n 3"], Float[Array, " n"]],
    target: tuple[Float[Array, "m 3"], Float[Array, " m"]],
    n_bumps: int = 256,
) -> tuple[Float[Array, "n b"], Float[Array, "m b"]]:
    r"""Bumps about the same places of two shapes, each with an integral of 1 on either.

    .. math:: d_b(i) = e^{-|p_i - q_b|^2 / 2\sigma^2} / \sum_j m_j e^{-|p_j - q_b|^2 / 2\sigma^2}

    with sigma = 5 cm and the q_b evenly spaced rows of the source. Bumps that one of the two has
    hardly any of, as beyond the rim of a part, are 0 on both. So these survive partiality, which
    heat and wave kernels do not.

    Parameters
    ----------
    source, target
        Where the points lie on the mean body, metres; their masses.
    """
    xp = namespace(source[0])
    n = source[0].shape[0]
    centres = source[0][:: max(1, n // n_bumps)][:n_bumps]
    found, there = [], 1.0
    for places, mass in (source, target):
        squared = xp.sum((places[:, None, :] - centres[None, :, :]) ** 2, axis=2)
        bump = xp.exp(xp.clip(-squared / (2 * _WIDTH**2), min=-60.0))
        area = mass @ bump
        there = there * xp.astype(area > _THERE * xp.mean(area), area.dtype)
        found.append(bump / area)
    return found[0] * there, found[1] * there
