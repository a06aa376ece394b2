"""How large the whole is that a shape is a part of, where on it the part lies, and how it stands.

A part alone has an area of its own, so half a person would be as large as a whole one. Compared
with the people of the `Compass`, every point tells where on a body it would be; how far points are
from each other there tells the scale, and where they lie tells the place. Takes `Operators`, gives
a `Completion`, and an `Alignment` with it.
"""

from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from coembed import alignment
from coembed.annotations import Float
from coembed.model import CoupledEmbedding
from coembed.shapes import Alignment, Completion, Operators, degrees_of

__all__ = ["complete", "locate", "stand"]

# points of the part and people of the compass that are looked at
_COARSE, _FINE = (200, 4), (400, 8)
_STARTS, _ROUNDS = (1.0, 0.7), 3  # factors to begin with, how often each is made better
_START_AROUND = 0.6  # in any turn
_FOLLOWED, _KEPT = 12, 3  # of all turns, those that are made better; of these, the best
_APART = 20.0, 0.3  # degrees, logarithm of the factor: closer ones are one and the same
_NEAR, _FAR = 0.05, 0.25  # sqrt(area): lengths that are compared; longer ones change with the pose
_PART = 0.88  # likeness of parts of people
_STANDS = 0.955  # likeness of parts that stand upright, which turned ones do not reach
_GAIN = 0.015  # of likeness, over the factor, for which a part is turned
_OTHER = 60.0  # degrees: turns that are different answers
_MOST = 1.4  # by so much a round changes the factor at most


@dataclass(frozen=True)
class _Lying:
    """How a part lies: turned, then times a factor, then moved; how like people it is so."""

    rotation: Float[np.ndarray, "3 3"]
    factor: float
    shift: Float[np.ndarray, " 3"]
    likeness: float = 0.0

    def placed(self, few: Operators) -> Operators:
        return alignment.turned(few, self.rotation).placed(self.factor, self.shift)


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
    part = _Part(operators, network, factor)
    return part.completion(part.as_it_stands())


def stand(
    operators: Operators, network: CoupledEmbedding, *, factor: float | None = None
) -> tuple[Alignment, Completion]:
    """The turn in which a part stands upright, and how it lies on its whole then.

    What is missing makes wrong turns look right as long as the part has the scale of its own area,
    so the part is completed in every turn that is tried: as it stands, and if it is not like enough
    so, in the 60 turns of an icosahedron. The best of these are set upright, too, while they are
    completed. A part is turned only if that makes it clearly more like people, the more clearly
    the less of a person is there.
    """
    part = _Part(operators, network, factor)
    first = part.as_it_stands()
    found = [first, *(part.around() if first.likeness < _STANDS else ())]
    best = max(found, key=lambda one: one.likeness)
    if best.likeness - first.likeness < _GAIN / best.factor or best.likeness < _PART:
        best = first
    apart = [one for one in found if degrees_of(one.rotation @ best.rotation.T) > _OTHER]
    other = max(apart, key=lambda one: one.likeness, default=None)
    completion = part.completion(best)
    turn = Alignment(
        "auto",
        rotation=best.rotation,
        likeness=best.likeness,
        runner_up=0.0 if other is None else other.likeness,
        other=None if other is None else other.rotation,
        known=completion.known,
    )
    return turn, completion


def locate(
    values: Float[np.ndarray, "m d"],
    network: CoupledEmbedding,
    operators: Operators | None = None,
) -> Float[np.ndarray, "m 3"] | None:
    """Where on the mean body each point of a shape is: means of the places on all people.

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
    return compass.look_up(values, len(compass.embeddings))[2]


class _Part:
    """A part, looked at in many turns, scales and places."""

    def __init__(
        self, operators: Operators, network: CoupledEmbedding, factor: float | None
    ) -> None:
        self._compass, self._network = alignment.known_to(network, partial=True)
        self._middle = self._compass.places.mean(axis=(0, 1))
        self._factor = factor
        n_eig = self._network.config.n_eig
        self._thinned = cache(lambda points: alignment.thinned(operators, points, n_eig))

    def completion(self, lying: _Lying) -> Completion:
        """What was found, or that it is like no part of a person."""
        if lying.likeness >= _PART:
            return Completion(lying.factor, lying.shift, lying.likeness)
        factor = 1.0 if self._factor is None else self._factor
        return Completion(factor, likeness=lying.likeness, known=False)

    def as_it_stands(self) -> _Lying:
        """How the part lies best if it is not turned."""
        found = [
            self._settled(_Lying(np.eye(3), start, np.zeros(3)), _FINE, _ROUNDS)
            for start in _STARTS
        ]
        return max(found, key=lambda one: one.likeness)

    def around(self) -> list[_Lying]:
        """How the part lies best in any turn; the likeliest of some that differ."""
        found = [
            self._settled(_Lying(turn, _START_AROUND, np.zeros(3)), _COARSE, 1)
            for turn in alignment.all_around()
        ]
        found = [
            self._settled(one, _COARSE, 2, turns=True) for one in _different(found)[:_FOLLOWED]
        ]
        return [self._settled(one, _FINE, 2, turns=True) for one in _different(found)[:_KEPT]]

    def _settled(
        self, lying: _Lying, looked_at: tuple[int, int], rounds: int, *, turns: bool = False
    ) -> _Lying:
        """So often scaled, placed and perhaps turned as the places of its points tell."""
        points, people = looked_at
        few, start = self._thinned(points), lying.factor
        for step in range(1, rounds + 1):
            placed = lying.placed(few)
            places = self._look(placed, people)[1]
            factor, rotation = lying.factor, lying.rotation
            if self._factor is None:
                ratio = _ratio(placed.points, places, few.mass)
                factor *= float(np.clip(ratio, 1 / _MOST, _MOST))
            else:  # step by step, since what is small in the middle looks like a belly
                factor = start * (self._factor / start) ** (step / rounds)
            if turns:
                rotation = alignment.laid_best(placed.points, few.mass, places) @ rotation
            offsets = places - few.points @ rotation.T * factor
            lying = _Lying(rotation, factor, np.median(offsets, axis=0))
        return replace(lying, likeness=self._look(lying.placed(few), people)[0])

    def _look(self, placed: Operators, people: int) -> tuple[float, Float[np.ndarray, "n 3"]]:
        """How like people a part is, and where its points are on the mean body about its middle."""
        values = np.asarray(self._network.embed(placed))
        alike, _, places = self._compass.look_up(values, people)
        return float(placed.mass @ alike / placed.mass.sum()), places - self._middle


def _different(found: list[_Lying]) -> list[_Lying]:
    """The likeliest first, without those that lie nearly as a likelier one."""
    degrees, scale = _APART
    kept: list[_Lying] = []
    for one in sorted(found, key=lambda one: -one.likeness):
        if all(
            degrees_of(one.rotation @ other.rotation.T) > degrees
            or abs(np.log(one.factor / other.factor)) > scale
            for other in kept
        ):
            kept.append(one)
    return kept


def _ratio(
    points: Float[np.ndarray, "n 3"],
    places: Float[np.ndarray, "n 3"],
    mass: Float[np.ndarray, " n"],
) -> float:
    """Median ratio of distances between places and between points, by the pairs' mass.

    Of pairs whose two distances have a geometric mean from 0.05 to 0.25: chosen by one of them
    alone, noise would make the other too large.
    """
    here, there = (_squares(one) for one in (points, places))
    middle = here * there
    chosen = (middle > _NEAR**4) & (middle < _FAR**4)
    if not chosen.any():
        return 1.0
    ratios, weights = (there[chosen] / here[chosen]), np.outer(mass, mass)[chosen]
    order = np.argsort(ratios, kind="stable")
    total = np.cumsum(weights[order])
    return float(np.sqrt(ratios[order[np.searchsorted(total, total[-1] / 2)]]))


def _squares(points: Float[np.ndarray, "n 3"]) -> Float[np.ndarray, "n n"]:
    """Squared distances between points, each pair once; the others are 0."""
    lengths = (points**2).sum(axis=1)
    return np.triu(np.maximum(lengths[:, None] + lengths - 2 * points @ points.T, 0.0), 1)
