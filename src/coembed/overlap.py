"""How far a point of a part is, on the body, from what there is of another part.

A match always leads to some point of the target, so the match alone does not tell that a point has
no counterpart. Where it is on the mean body, and which way it faces, does. Takes and gives arrays.
"""

import numpy as np

from coembed import compiled, normals
from coembed.annotations import Float

__all__ = ["away", "seats"]

_FACING = 0.1  # sqrt(area): as far apart as that are two points at one place, at right angles / √2
_NEAREST = 5, 60


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
) -> Float[np.ndarray, "n 4"]:
    """Mean distance of each point to the nearest 5 and 60 of the others: in place, then in all."""
    reach = [*range(1, min(max(_NEAREST), len(others)) + 1)]
    means = []
    for columns in (3, 6):
        found = compiled.tree(others[:, :columns]).query(seats[:, :columns], k=reach)[0]
        means += [found[:, :count].mean(axis=1) for count in _NEAREST]
    return np.stack(means, axis=1)
