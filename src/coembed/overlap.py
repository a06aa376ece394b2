"""Which points of a part the other part has as well, as the locator tells.

A match always leads to some point of the target, so the match alone does not tell that a point has
no counterpart. Where on the body it is, and where the points of the other part are, does. Takes and
gives arrays.
"""

import numpy as np

from coembed import locator, sampling
from coembed.annotations import Float, Int

__all__ = ["shared"]

_LOOKED_AT = 400  # points of each part; the others' chances are interpolated
_LEAST = 1e-3  # chance


def shared(
    points: Float[np.ndarray, "n 3"],
    others: Float[np.ndarray, "m 3"],
    rows: Int[np.ndarray, " q"] | None = None,
) -> Float[np.ndarray, " q"]:
    """Logarithm of the odds that a point is where the other part has points, too.

    With a and b the chances of the points of either part to be at each anchor k of the `Locator`,
    p_i = Σ_k a_ik (1 - Π_j (1 - b_jk)). How the parts are turned and scaled does not matter.

    Parameters
    ----------
    rows
        Of ``points``, if not all are asked for.
    """
    seen, there = (locator.load().look(one, _LOOKED_AT) for one in (points, others))
    chances = seen.chances @ (1 - np.prod(1 - there.chances, axis=0))
    asked = points if rows is None else points[rows]
    found = sampling.interpolation(asked, seen.points)(chances[:, None])[:, 0]
    found = np.clip(found, _LEAST, 1 - _LEAST)
    odds: Float[np.ndarray, " q"] = np.log(found / (1 - found))
    return odds
