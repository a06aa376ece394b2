"""Which points of a part the other part has as well, as the locator tells.

A match always leads to some point of the target, so the match alone does not tell that a point has
no counterpart. Where on the body it is, and where the points of the other part are, does. Takes and
gives arrays.
"""

import numpy as np

from coembed import sampling
from coembed.annotations import Float
from coembed.locator import Seen

__all__ = ["shared"]

_LEAST = 1e-3  # chance


def shared(seen: Seen, others: Seen, points: Float[np.ndarray, "n 3"]) -> Float[np.ndarray, " n"]:
    """Logarithm of the odds that a point is where another part has points, too.

    With a and b the chances of the points of either part to be at each anchor k of the `Locator`,
    p_i = Σ_k a_ik (1 - Π_j (1 - b_jk)). How the parts are turned and scaled does not matter.

    Parameters
    ----------
    seen, others
        The part and the other one.
    points
        Of the part: between those that were seen, p is interpolated.
    """
    found = seen.chances @ (1 - np.prod(1 - others.chances, axis=0))
    carried = sampling.interpolation(points, seen.points)(found[:, None])[:, 0]
    carried = np.clip(carried, _LEAST, 1 - _LEAST)
    odds: Float[np.ndarray, " n"] = np.log(carried / (1 - carried))
    return odds
