"""How large the whole is that a shape is a part of, where on it the part lies, and how it stands.

A part alone has an area of its own, so half a person would be as large as a whole one. Compared
with the people of the `Compass`, every point tells where on a body it would be; how far points are
from each other there tells the scale, and where they lie tells the place. Takes `Operators`, gives
a `Completion`, and an `Alignment` with it.
"""

from dataclasses import replace
from functools import cache, cached_property

import numpy as np

from coembed import alignment, locator
from coembed.annotations import Float
from coembed.locator import Lying, Seen
from coembed.model import CoupledEmbedding
from coembed.shapes import Alignment, Completion, Embedding, Operators, degrees_of

__all__ = ["complete", "lying", "stand"]

_LOOKED_AT, _PEOPLE = 400, 8  # points of the part, people of the compass
_LOCATED = 200  # points of the part that guesses are made from
_STARTS, _ROUNDS = (1.0, 0.7), 3  # factors to begin with, how often each is made better
_NEAR, _FAR = 0.05, 0.25  # sqrt(area): lengths that are compared; longer ones change with the pose
_PART = 0.8  # worth of parts of people
_STANDS = 0.955  # likeness of parts that stand upright, which turned ones do not reach
_LEAN = 45.0  # degrees: guesses that a part may follow without being turned
_WEIGHT = 0.02  # of what the locator says, against the likeness
_GAIN = 0.05  # of both, for which a part is turned
_OTHER = 60.0  # degrees: turns that are different answers
_MOST = 1.4  # by so much a round changes the factor at most


def complete(
    operators: Operators, network: CoupledEmbedding, *, factor: float | None = None
) -> Completion:
    """Find the whole that a shape, which stands upright, is a part of.

    From two guesses of the factor, three times: embed 400 points, take for each the mean of the
    places of the most alike points of eight people; multiply the factor by the median, over pairs
    of points, of the ratio of their distances there and here; move the shape by the median
    offset. The guess that becomes most alike wins; if it is not like enough, those of the `Locator`
    that hardly turn the shape are tried, too.

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
    so, in those that the `Locator` guesses. A part is turned only if that makes it clearly more
    like people and lets it lie clearly better on the body.
    """
    part = _Part(operators, network, factor)
    best, found = part.as_it_stands(), []
    if best.likeness < _STANDS:
        found = part.around()
        likeliest = max(found, key=part.worth, default=best)
        if part.known(likeliest) and part.worth(likeliest) - part.worth(best) > _GAIN:
            best = likeliest
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


def lying(embedding: Embedding) -> Lying | None:
    """How a shape that was embedded lies on the mean body; None if it looks like no part of it."""
    part = embedding.completion
    if part is not None and not part.known:
        return None
    shift = _middle() if part is None or part.whole else _middle() + part.shift
    return Lying(embedding.alignment.rotation, 1.0, shift)


@cache
def _middle() -> Float[np.ndarray, " 3"]:
    """Of the mean body, where the people of the compass have theirs."""
    return alignment.load("human-parts").places.mean(axis=(0, 1))


class _Part:
    """A part, looked at in many turns, scales and places."""

    def __init__(
        self, operators: Operators, network: CoupledEmbedding, factor: float | None
    ) -> None:
        self._compass, self._network = alignment.known_to(network, partial=True)
        self._points, self._factor = operators.points, factor
        self._few = alignment.thinned(operators, _LOOKED_AT, self._network.config.n_eig)

    @cached_property
    def _seen(self) -> Seen:
        return locator.load().look(self._points, _LOCATED)

    @cached_property
    def _guesses(self) -> list[Lying]:
        found = self._seen.guesses(factor=self._factor)
        return [replace(one, shift=one.shift - _middle()) for one in found]

    def completion(self, lying: Lying) -> Completion:
        """What was found, or that it is like no part of a person."""
        if self.known(lying):
            return Completion(lying.factor, lying.shift, lying.likeness)
        factor = 1.0 if self._factor is None else self._factor
        return Completion(factor, likeness=lying.likeness, known=False)

    def as_it_stands(self) -> Lying:
        """How the part lies best if it is not turned."""
        found = [self._settled(Lying(np.eye(3), start, np.zeros(3))) for start in _STARTS]
        best = max(found, key=lambda one: one.likeness)
        if best.likeness >= _STANDS:
            return best
        middle = self._points.mean(axis=0)
        near = [
            self._settled(one.turned(np.eye(3), middle), 2)
            for one in self._guesses if degrees_of(one.rotation) < _LEAN
        ]  # fmt: skip
        return max([best, *near], key=self.worth)

    def around(self) -> list[Lying]:
        """How the part lies best in some turns that the locator tells."""
        return [self._settled(one, 2) for one in self._guesses]

    def worth(self, lying: Lying) -> float:
        """How like people a part is, and how well it lies on the body, in one number."""
        there = replace(lying, shift=lying.shift + _middle())
        return lying.likeness + _WEIGHT * self._seen.likeness(there)

    def known(self, lying: Lying) -> bool:
        """Whether it looks like a part of a person."""
        return lying.likeness >= _STANDS or self.worth(lying) >= _PART

    def _settled(self, lying: Lying, rounds: int = _ROUNDS) -> Lying:
        """So often scaled and placed as the places of its points tell; how like people it is so."""
        few, start = self._few, lying.factor
        for step in range(1, rounds + 1):
            placed = _placed(few, lying)
            places = self._look(placed)[1]
            factor = lying.factor
            if self._factor is None:
                ratio = _ratio(placed.points, places, few.mass)
                factor *= float(np.clip(ratio, 1 / _MOST, _MOST))
            else:  # step by step, since what is small in the middle looks like a belly
                factor = start * (self._factor / start) ** (step / rounds)
            offsets = places - few.points @ lying.rotation.T * factor
            lying = replace(lying, factor=factor, shift=np.median(offsets, axis=0))
        return replace(lying, likeness=self._look(_placed(few, lying))[0])

    def _look(self, placed: Operators) -> tuple[float, Float[np.ndarray, "n 3"]]:
        """How like people a part is, and where its points are on the mean body about its middle."""
        values = np.asarray(self._network.embed(placed))
        alike, _, places = self._compass.look_up(values, _PEOPLE)
        return float(placed.mass @ alike / placed.mass.sum()), places - _middle()


def _placed(few: Operators, lying: Lying) -> Operators:
    """A part as it lies on its whole."""
    return alignment.turned(few, lying.rotation).placed(lying.factor, lying.shift)


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
