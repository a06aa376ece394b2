"""How far to believe a map: a score for each match, and a verdict on the pair.

Takes where matches lead and where the way back ends. The score is calibrated on generated people:
of the matches with a score of about s, about s lie within 5 % of sqrt(area) of the truth.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coembed import compiled
from coembed.annotations import Float
from coembed.shapes import Alignment

__all__ = ["CLOSE", "Verdict", "judge", "score", "signs"]

CLOSE = 0.05
"""In sqrt(area): an error below it is what the score is the chance of."""

_NEIGHBORS = 10
# logistic regression on 24 generated people in 48 pairs (benchmarks/trust.py): off, off of the
# neighbours, stretch, constant
_WEIGHTS = (-0.312, -2.279, -0.738, -7.381)
_GOOD, _POOR = 0.8, 0.5  # mean scores of a pair: above, good; below, refused


@dataclass(frozen=True)
class Verdict:
    """Whether a map is to be believed: good, doubtful or refused, and why not, a sentence each."""

    word: str
    reasons: tuple[str, ...] = ()


def score(
    points: Float[np.ndarray, "n 3"], ends: Float[np.ndarray, "n 3"], off: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """The chance of each match to be right within 5 % of sqrt(area).

    Parameters
    ----------
    points, ends
        Source points and those they are matched with, each in units of sqrt(area).
    off
        How far from the point the way back from the target ends.
    """
    chance: Float[np.ndarray, " n"] = 1 / (1 + np.exp(-(signs(points, ends, off) @ _WEIGHTS)))
    return chance


def signs(
    points: Float[np.ndarray, "n 3"], ends: Float[np.ndarray, "n 3"], off: Float[np.ndarray, " n"]
) -> Float[np.ndarray, "n 4"]:
    """What the score is made of: logarithms of three lengths, and 1.

    How far the way back ends off; the median of that over the ten neighbours; and the median factor
    by which the distances to these are stretched or shrunk.
    """
    k = min(_NEIGHBORS, len(points) - 1)
    near = compiled.tree(points).query(points, k=k + 1)[1][:, 1:]
    before, after = (
        np.linalg.norm(places[near] - places[:, None], axis=2) for places in (points, ends)
    )
    factor = np.median(np.abs(np.log((after + 0.005) / (before + 0.005))), axis=1)
    around = np.median(off[near], axis=1)
    return np.stack(
        [np.log(off + 0.01), np.log(around + 0.01), np.log(factor + 0.05), np.ones(len(off))],
        axis=1,
    )


def judge(
    scores: Float[np.ndarray, " n"], names: Sequence[str], alignments: Sequence[Alignment]
) -> Verdict:
    """The verdict on a pair, from the scores of its matches and how its shapes stand."""
    mean = float(scores.mean()) if len(scores) else 0.0
    reasons = []
    if mean < _GOOD:
        reasons.append(f"the mean score is {mean:.2f}: many matches contradict their neighbours")
    strangers = [
        name for name, one in zip(names, alignments, strict=True)
        if not one.known or (one.way == "target" and not alignments[1].known)
    ]  # fmt: skip
    if strangers:
        verb = "look" if len(strangers) > 1 else "looks"
        reasons.append(f"{' and '.join(strangers)} {verb} like no whole person")
    for name, one in zip(names, alignments, strict=True):
        if not one.stands:
            reasons.append(
                f"{name} does not seem to stand as the weights expect (people, y up, facing +z): "
                "let its turn be found (--align auto)"
            )
        if one.ambiguous:
            reasons.append(f"{name} can be turned two ways: left and right may be exchanged")
    if not reasons:
        return Verdict("good")
    return Verdict("refused" if mean < _POOR else "doubtful", tuple(reasons))
