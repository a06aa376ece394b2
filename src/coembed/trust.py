"""How far to believe a map: a score for each match, and a verdict on the pair.

Takes where matches lead and where the way back ends. The score is calibrated on generated people:
of the matches with a score of about s, about s lie within 5 % of sqrt(area) of the truth.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from coembed import compiled, geometry, sampling
from coembed.annotations import Float, Int
from coembed.search import there_and_back
from coembed.shapes import Alignment, Embedding, Shape

__all__ = [
    "CLOSE",
    "NEARLY",
    "Verdict",
    "chances",
    "handedness",
    "judge",
    "other_answer",
    "part_signs",
    "refusal",
    "score",
    "signs",
]

CLOSE = 0.05
"""In sqrt(area): an error below it is what the score is the chance of."""

NEARLY = 0.06
"""Of the mean score: an answer that has so much less than another is nearly as good."""

_NEIGHBORS = 10
_GLIMPSED = 800  # points of the target among which the other answer is looked for
# logistic regression on 24 generated people in 48 pairs (benchmarks/trust.py): off, off of the
# neighbours, stretch, constant
_WEIGHTS = (-0.312, -2.279, -0.738, -7.381)
# the same on parts of generated people (benchmarks/overlap.py), after matching by cosine and after
# registration: the match is right; there is a counterpart
_PARTS = {
    "cosine": (
        (-0.287, -0.541, -0.397, -1.077, -0.248, 0.531, -4.421),
        (-0.126, -0.534, -0.488, -0.81, -0.571, 1.2, -3.289),
    ),
    "l2": (
        (-0.193, -0.374, -0.206, -0.571, -0.244, 0.881, -2.18),
        (-0.152, -0.658, -0.323, -0.233, 0.093, 1.538, -2.804),
    ),
}
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


def chances(
    points: Float[np.ndarray, "n 3"],
    ends: Float[np.ndarray, "n 3"],
    off: Float[np.ndarray, " n"],
    apart: Float[np.ndarray, " n"] | None = None,
    shared: Float[np.ndarray, " n"] | None = None,
    similarity: str = "cosine",
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """The chance of each match to be right, as `score`, and of each point to have a counterpart.

    Parameters
    ----------
    apart
        How far apart the embeddings of the two points are.
    shared
        Logarithm of the odds that the target has the point, too (`coembed.overlap.shared`); None
        for whole shapes, of which every point has a counterpart.
    similarity
        By which they were compared: ``"cosine"``; ``"l2"`` after registration.
    """
    if apart is None or shared is None:
        return score(points, ends, off), np.ones(len(points))
    found = part_signs(points, ends, off, apart, shared)
    right, there = (1 / (1 + np.exp(-(found @ weights))) for weights in _PARTS[similarity])
    return np.minimum(right, there), there


def part_signs(
    points: Float[np.ndarray, "n 3"],
    ends: Float[np.ndarray, "n 3"],
    off: Float[np.ndarray, " n"],
    apart: Float[np.ndarray, " n"],
    shared: Float[np.ndarray, " n"],
) -> Float[np.ndarray, "n 7"]:
    """What the chances are made of where shapes are parts.

    Those of `signs`, and before the 1 the logarithms of how far apart the embeddings are and of the
    median of that over the ten neighbours, and ``shared``.
    """
    near = _near(points)
    logs = np.log(np.stack([apart, _median(apart[near])], axis=1) + 0.01)
    found = _signs(points, ends, off, near)
    return np.hstack([found[:, :3], logs, shared[:, None], found[:, 3:]])


def signs(
    points: Float[np.ndarray, "n 3"], ends: Float[np.ndarray, "n 3"], off: Float[np.ndarray, " n"]
) -> Float[np.ndarray, "n 4"]:
    """What the score is made of: logarithms of three lengths, and 1.

    How far the way back ends off; the median of that over the ten neighbours; and the median factor
    by which the distances to these are stretched or shrunk.
    """
    return _signs(points, ends, off, _near(points))


def _signs(
    points: Float[np.ndarray, "n 3"],
    ends: Float[np.ndarray, "n 3"],
    off: Float[np.ndarray, " n"],
    near: Int[np.ndarray, "n k"],
) -> Float[np.ndarray, "n 4"]:
    before, after = (
        np.linalg.norm(places[near] - places[:, None], axis=2) for places in (points, ends)
    )
    factor = _median(np.abs(np.log((after + 0.005) / (before + 0.005))))
    around = _median(off[near])
    return np.stack(
        [np.log(off + 0.01), np.log(around + 0.01), np.log(factor + 0.05), np.ones(len(off))],
        axis=1,
    )


def _median(values: Float[np.ndarray, "n k"]) -> Float[np.ndarray, " n"]:
    """Of each row, as NumPy's, which would load masked arrays (0.01 s)."""
    ordered, k = np.sort(values, axis=1), values.shape[1]
    middle: Float[np.ndarray, " n"] = (ordered[:, (k - 1) // 2] + ordered[:, k // 2]) / 2
    return middle


def _near(points: Float[np.ndarray, "n 3"]) -> Int[np.ndarray, "n k"]:
    k = min(_NEIGHBORS, len(points) - 1)
    return compiled.neighbors(points, points, k + 1)[:, 1:]


def handedness(
    source: Shape | Embedding, target: Shape | Embedding, p2p: Int[np.ndarray, " n"]
) -> float | None:
    """Share of the source's area whose left and right a map keeps; None if nobody can tell.

    A face of the source keeps its side if, with its corners carried to the target, it still winds
    about the outward normal there: 0.9 and more of a person's faces do, under 0.2 in a map that
    exchanges left and right but not front and back. Both must be meshes that wind one way about
    a volume; faces that the map makes a line or a point of do not count.
    """
    if not (isinstance(source, Shape) and isinstance(target, Shape)):
        return None
    ways = geometry.winding(source) * geometry.winding(target)
    faces = source.sound_faces
    faces = faces[(p2p[faces] >= 0).all(axis=1)]
    if not ways or not len(faces):
        return None
    a, b, c = target.points[p2p[faces]].transpose(1, 0, 2)
    carried = np.cross(b - a, c - a)
    normals = _normals(target)[p2p[faces]].sum(axis=1)
    keeps = ways * np.einsum("fa,fa->f", carried, normals)
    area = geometry.face_areas(source.points[faces]) * (carried != 0).any(axis=1)
    return float(area[keeps > 0].sum() / area.sum()) if area.any() else None


def _normals(shape: Shape) -> Float[np.ndarray, "n 3"]:
    """For each point the normals of its faces, added up, each as long as twice the area."""
    faces = shape.sound_faces
    a, b, c = shape.points[faces].transpose(1, 0, 2)
    sums = [
        np.bincount(faces.ravel(), np.repeat(part, 3), minlength=len(shape.points))
        for part in np.cross(b - a, c - a).T
    ]
    return np.stack(sums, axis=1)


def other_answer(source: Embedding, target: Embedding) -> dict[str, Any] | None:
    """How good the map is with the source turned the next best way; None if nobody looked.

    For people that nearly always exchanges front and back, and so left and right. Mean scores of
    both answers at 800 points, and whether the other one is nearly as good. Then only the way in
    which the shapes face tells which one is right.
    """
    if source.otherwise is None:
        return None
    rows, values = source.otherwise
    some = target.sample[sampling.thin(target.points[target.sample], _GLIMPSED)]
    points, ends, goals = source.points[rows], target.points[some], target.at(some)
    means = []
    for one in (source.at(rows), values):
        there, back = there_and_back(one, goals, similarity=source.similarity)
        off = np.linalg.norm(points - points[back], axis=1)
        means.append(round(float(score(points, ends[there], off).mean()), 3))
    nearly = means[1] > means[0] - NEARLY
    return {"mean_score": means[1], "first": means[0], "nearly_as_good": nearly}


def refusal(record: Mapping[str, Any]) -> str:
    """Why a map is refused, by its record, in one line; "" if it is not."""
    verdict = record["verdict"]
    if verdict["word"] != "refused":
        return ""
    return f"no map of {record['source']['name']} to {record['target']['name']}: " + "; ".join(
        verdict["reasons"]
    )


def judge(
    scores: Float[np.ndarray, " n"],
    names: Sequence[str],
    alignments: Sequence[Alignment],
    kept: float | None = None,
    other: Mapping[str, Any] | None = None,
    partial: bool = False,
) -> Verdict:
    """The verdict on a pair.

    Parameters
    ----------
    scores
        Of its matches.
    names, alignments
        Of its shapes.
    kept
        What `handedness` says of the map.
    other
        What `other_answer` says of the pair.
    partial
        Whether shapes were matched as parts.
    """
    mean = float(scores.mean()) if len(scores) else 0.0
    reasons = []
    if mean < _GOOD:
        hint = "" if partial else " (if one shape is a part of a person: --partial)"
        reasons.append(
            f"the mean score is {mean:.2f}: many matches contradict their neighbours{hint}"
        )
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
            reasons.append(
                f"{name} can be turned two ways: left and right may be exchanged (see --both)"
            )
    if kept is not None and kept < 0.5:
        reasons.append(
            f"the map mirrors: {1 - kept:.0%} of {names[0]}'s faces lie on {names[1]} the other "
            "way round, so left and right are exchanged"
        )
    if mean >= _POOR and other is not None and other["mean_score"] > other["first"]:
        reasons.append(
            f"{names[0]} turned the next best way gives a better map (mean score "
            f"{other['mean_score']:.3f} against {other['first']:.3f}): see both (--both)"
        )
    if not reasons:
        return Verdict("good")
    return Verdict("refused" if mean < _POOR else "doubtful", tuple(reasons))
