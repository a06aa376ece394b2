"""How far a point of a part is, on the body, from what there is of another part.

A match always leads to some point of the target, so the match alone does not tell that a point has
no counterpart. Where it is on the mean body, and which way it faces, does. Takes and gives arrays.
"""

import numpy as np

from coembed import compiled, normals
from coembed.annotations import Float

__all__ = ["away", "seats"]

_FACING = 0.1  # sqrt(area): as far apart as that are two points at one place, at right angles / √2
_NEAREST = 5


def seats(
    places: Float[np.ndarray, "n 3"],
    points: Float[np.ndarray, "n 3"],
    rotation: Float[np.ndarray, "3 3"],
) -> Float[np.ndarray, "n 6"]:
    """Places on the mean body, and outward normals, 0.1 long, of the shape as it stands upright.

    The embedding knows no normals, so the front of an arm and its back have nearly one place.

    Parameters
    ----------
    rotation
        That sets the points upright.
    """
    return np.hstack([places, _FACING * normals.outward(points) @ rotation.T])


def away(
    seats: Float[np.ndarray, "n 6"], others: Float[np.ndarray, "m 6"]
) -> Float[np.ndarray, "n 2"]:
    """Mean distance of each point to the nearest five of the others: in place, and in all."""
    k = min(_NEAREST, len(others))
    found = [
        compiled.tree(others[:, :columns]).query(seats[:, :columns], k=[*range(1, k + 1)])[0]
        for columns in (3, 6)
    ]
    return np.stack([one.mean(axis=1) for one in found], axis=1)
