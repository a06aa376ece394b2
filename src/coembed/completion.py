"""How large the whole is that a shape is a part of, where on it the part lies, and how it stands.

A part alone has an area of its own, so half a person would be as large as a whole one. Compared
with the people of the `Compass`, every point tells where on a body it would be; how far points are
from each other there tells the scale, and where they lie tells the place. Takes `Operators`, gives
a `Completion`, and an `Alignment` with it.
"""

import numpy as np

from coembed import alignment
from coembed.alignment import Compass
from coembed.annotations import Float
from coembed.model import CoupledEmbedding
from coembed.shapes import Alignment, Completion, Operators, degrees_of

__all__ = ["complete", "locate", "stand"]

_POINTS, _PEOPLE = 400, 8  # that are looked at
_STARTS, _ROUNDS = (1.0, 0.7), 3  # factors to begin with, how often each is made better
_NEAR, _FAR = 0.05, 0.25  # sqrt(area): lengths that are compared; longer ones change with the pose
_PART = 0.88  # likeness of parts of people
_GUESSES = 4  # turns that are tried
_STANDS = 0.955  # likeness of parts that stand upright, which turned ones do not reach
_GAIN = 0.015  # of likeness, for which a part is turned
_OTHER = 60.0  # degrees: turns that are different answers
_MOST = 1.4  # by so much a round changes the factor at most


def complete(
    operators: Operators, network: CoupledEmbedding, *, factor: float | None = None
) -> Completion:
    """Find the whole that a shape, which stands upright, is a part of.

    From two guesses of the factor, three times: embed 400 points, take for each the mean of the
    places of the most alike points of eight people; multiply the factor by the median, over pairs
    of points, of the ratio of their distances there and here; move the shape by the median
    offset. The guess that becomes most alike wins.

    Parameters
    ----------
    network
        Trained on people, as the weights that ship.
    factor
        If it is known.
    """
    compass, known = alignment.known_to(network, partial=True)
    few = alignment.thinned(operators, _POINTS, known.config.n_eig)
    found = [
        _settled(few, known, compass, start if factor is None else factor, factor is None)
        for start in (_STARTS if factor is None else (1.0,))
    ]
    best = max(found, key=lambda one: one.likeness)
    if best.likeness >= _PART:
        return best
    return Completion(1.0 if factor is None else factor, likeness=best.likeness, known=False)


def stand(operators: Operators, network: CoupledEmbedding) -> tuple[Alignment, Completion]:
    """The turn in which a part stands upright, and how it lies on its whole then.

    It is the turn in which the part is most alike once placed.

    What is missing makes wrong turns look right as long as the part has the scale of its own area,
    so each of a few guesses is completed first. A part is turned only if that makes it clearly
    more like people, and stays as it is if it is like enough.
    """
    turns = [np.eye(3)]
    found = [complete(operators, network)]
    if found[0].likeness < _STANDS:
        turns += alignment.guesses(operators, network)[:_GUESSES]
        found += [complete(alignment.turned(operators, one), network) for one in turns[1:]]
    likeness = [one.likeness for one in found]
    best = int(np.argmax(likeness))
    if likeness[best] - likeness[0] < _GAIN or not found[best].known:
        best = 0
    others = [i for i, one in enumerate(turns) if degrees_of(one @ turns[best].T) > _OTHER]
    other = max(others, key=lambda i: likeness[i], default=None)
    turn = Alignment(
        "auto",
        rotation=turns[best],
        likeness=likeness[best],
        runner_up=0.0 if other is None else likeness[other],
        other=None if other is None else turns[other],
        known=found[best].known,
    )
    return turn, found[best]


def locate(
    values: Float[np.ndarray, "m d"],
    network: CoupledEmbedding,
    operators: Operators | None = None,
) -> Float[np.ndarray, "m 3"] | None:
    """Where on the mean body each point of a shape is: means of the places on eight people.

    Parameters
    ----------
    values
        What the network makes of the shape.
    operators
        Of the shape, upright and placed on its whole, in case another network has to look at it:
        only the one for parts that ships is known to the compass. Without them None comes back.
    """
    compass, known = alignment.known_to(network, partial=True)
    if known is not network:
        if operators is None:
            return None
        values = np.asarray(known.embed(operators))
    return compass.look_up(values, _PEOPLE)[2]


def _settled(
    few: Operators, network: CoupledEmbedding, compass: Compass, factor: float, free: bool
) -> Completion:
    middle = compass.places.mean(axis=(0, 1))
    shift = np.zeros(3)
    for _ in range(_ROUNDS):
        placed = few.placed(factor, shift)
        places = compass.look_up(np.asarray(network.embed(placed)), _PEOPLE)[2] - middle
        if free:
            ratio = _ratio(placed.points, places, few.mass)
            factor *= float(np.clip(ratio, 1 / _MOST, _MOST))
        shift = np.median(places - few.points * factor, axis=0)
    alike = compass.look_up(np.asarray(network.embed(few.placed(factor, shift))), _PEOPLE)[0]
    return Completion(factor, shift, float(few.mass @ alike / few.mass.sum()))


def _ratio(
    points: Float[np.ndarray, "n 3"],
    places: Float[np.ndarray, "n 3"],
    mass: Float[np.ndarray, " n"],
) -> float:
    """Median ratio of distances between places and between points, by the pairs' mass.

    Of pairs whose two distances have a geometric mean from 0.05 to 0.25: chosen by one of them
    alone, noise would make the other too large.
    """
    here, there = (
        np.linalg.norm(one[:, None] - one[None], axis=2) + 1e-9 for one in (points, places)
    )
    mean = np.sqrt(here * there)
    chosen = (mean > _NEAR) & (mean < _FAR)
    if not chosen.any():
        return 1.0
    ratios, weights = (there / here)[chosen], np.outer(mass, mass)[chosen]
    order = np.argsort(ratios, kind="stable")
    total = np.cumsum(weights[order])
    return float(ratios[order[np.searchsorted(total, total[-1] / 2)]])
