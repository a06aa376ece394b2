"""Attributes of one shape carried to another along a map."""

from dataclasses import replace

import numpy as np

from coembed.errors import InputError
from coembed.shapes import Correspondence, Shape

__all__ = ["fill_value", "transfer"]


def transfer(source: Shape, target: Shape, matches: Correspondence) -> Shape:
    """The source with the target's attributes: each row takes those of its match.

    Names and types stay, and values are those of single target rows: nothing is averaged, so a
    label is always one that the target has. Rows without a match get `fill_value`. An attribute
    of the same name that the source has is replaced.

    Raises
    ------
    InputError
        If the map is not one between these two, or the target has no attributes.
    """
    matches.check_between(source, target)
    if not target.attributes:
        raise InputError(f"{target.name}: has no attributes (colours, labels, ...) to carry over")
    answered = matches.p2p >= 0
    carried = {}
    for name, values in target.attributes.items():
        carried[name] = np.full(
            (len(answered), *values.shape[1:]), fill_value(values.dtype), values.dtype
        )
        carried[name][answered] = values[matches.p2p[answered]]
    return replace(source, attributes={**source.attributes, **carried})


def fill_value(dtype: np.dtype) -> float | int | str:
    """What stands where there is no match: NaN, -1, the largest unsigned number, or no text."""
    if dtype.kind in "fc":
        return float("nan")
    if dtype.kind == "u":
        return int(np.iinfo(dtype).max)
    return -1 if dtype.kind == "i" else ""
