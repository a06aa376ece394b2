"""Which way is up for somebody who stands nearly upright: the way in which the ground bears them.

Takes points with y up, within about 36 degrees; gives the rotation that is still missing.
"""

from functools import cache

import numpy as np

from coembed.annotations import Float

__all__ = ["stand", "tilt"]

# chosen on training shapes of FAUST_r and SCAPE_r
_DEEP = 0.05  # sqrt(area): points less than about so far above the lowest one bear
_BALANCE = 0.1  # sqrt(area): how far the centre usually is from above the place that bears
_LEAN = 24.0  # degrees: how far up usually is from where it was thought to be
_MOST, _STEP, _FINE_STEP = 36.0, 6.0, 1.5  # degrees that are tried


def stand(
    points: Float[np.ndarray, "n 3"], mass: Float[np.ndarray, " n"]
) -> Float[np.ndarray, "3 3"]:
    """The smallest rotation after which a shape stands on the ground, as one would.

    Of the directions near y the one u is up for which

        log Σ mᵢ exp(-(hᵢ / deep)²) - |b|² / 2 balance² - angle(u, y)² / 2 lean²

    is largest: much of the surface is near the ground (hᵢ: height above the lowest point, the
    mass m adding up to 1), and the centre of mass is above the part that is (b: the horizontal
    way from one to the other). Points are in units of sqrt(area).
    """
    share = mass / mass.sum()
    centred = points - share @ points
    coarse = tilt(_around(_MOST, _STEP))
    first = coarse[_best(centred, share, coarse[:, 1])]
    fine = tilt(_around(1.5 * _STEP, _FINE_STEP)) @ first
    found: Float[np.ndarray, "3 3"] = fine[_best(centred, share, fine[:, 1])]
    return found


def tilt(leans: Float[np.ndarray, "k 2"]) -> Float[np.ndarray, "k 3 3"]:
    """Rotations about horizontal axes (x, z), each as long as its angle in degrees."""
    angles = np.linalg.norm(leans, axis=1)
    x, z = (leans / np.maximum(angles, 1e-12)[:, None]).T
    cos, sin = np.cos(np.deg2rad(angles)), np.sin(np.deg2rad(angles))
    rows = [
        cos + (1 - cos) * x * x, -sin * z, (1 - cos) * x * z,
        sin * z, cos, -sin * x,
        (1 - cos) * x * z, sin * x, cos + (1 - cos) * z * z,
    ]  # fmt: skip
    return np.stack(rows, axis=1).reshape(-1, 3, 3)


@cache
def _around(most: float, step: float) -> Float[np.ndarray, "k 2"]:
    """Leans of up to so many degrees, evenly spread."""
    leans = [(0.0, 0.0)]
    for angle in np.arange(step, most + step / 2, step).tolist():
        turns = np.arange(0, 2 * np.pi, step / angle)
        leans += [(angle * np.cos(turn), angle * np.sin(turn)) for turn in turns.tolist()]
    return np.array(leans)


def _best(
    points: Float[np.ndarray, "n 3"], share: Float[np.ndarray, " n"], ups: Float[np.ndarray, "k 3"]
) -> int:
    """Which of some directions is up; the points are about their centre."""
    heights = points @ ups.T
    heights -= heights.min(axis=0)
    bears = np.exp(-((heights / _DEEP) ** 2)) * share[:, None]
    carried = bears.sum(axis=0)
    ways = (bears.T @ points) / carried[:, None]
    ways -= ups * (ways * ups).sum(axis=1, keepdims=True)
    off = (ways**2).sum(axis=1)
    leans = np.rad2deg(np.arccos(np.clip(ups[:, 1], -1, 1)))
    values = np.log(carried) - off / (2 * _BALANCE**2) - leans**2 / (2 * _LEAN**2)
    return int(values.argmax())
