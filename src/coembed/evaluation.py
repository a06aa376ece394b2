"""Correspondence and truth to geodesic errors.

Takes saved maps, gives numbers; sees no model. Distances are on the target, in units of the
square root of its area.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from coembed import geometry, spectrum
from coembed.annotations import Bool, Float, Int
from coembed.errors import InputError
from coembed.shapes import Correspondence, Shape

__all__ = [
    "NORMALISER",
    "GeodesicErrors",
    "area_of",
    "area_under_curve",
    "auroc",
    "evaluate",
    "overlap",
    "spaced",
]

NORMALISER = "sqrt(target area)"
"""What every error is divided by, as reports name it."""


@dataclass(frozen=True, eq=False)
class GeodesicErrors:
    """Errors of one map, as fractions of the square root of the target's area.

    Parameters
    ----------
    rows
        Source rows that were judged.
    errors
        Their errors; infinite where the map has no answer.
    method
        How distances were found.
    """

    rows: Int[np.ndarray, " s"]
    errors: Float[np.ndarray, " s"]
    method: str

    @property
    def mean(self) -> float:
        """Mean error of the answered rows."""
        return float(self._answered.mean()) if len(self._answered) else float("nan")

    @property
    def median(self) -> float:
        """Median error of the answered rows."""
        return float(np.median(self._answered)) if len(self._answered) else float("nan")

    @property
    def coverage(self) -> float:
        """Share of the judged rows that have an answer."""
        return len(self._answered) / len(self.errors)

    @property
    def _answered(self) -> Float[np.ndarray, " a"]:
        return self.errors[np.isfinite(self.errors)]

    def within(self, radius: float) -> float:
        """Share of the judged rows with an error of at most ``radius``."""
        return float((self.errors <= radius).mean())

    def curve(self, radii: Float[np.ndarray, " t"]) -> Float[np.ndarray, " t"]:
        """Share of the judged rows within each radius."""
        return np.array([self.within(radius) for radius in radii])

    def auc(self, limit: float = 0.25, steps: int = 101) -> float:
        """Mean of the curve over radii up to ``limit``: 1 for a perfect map."""
        return area_under_curve(self.errors, limit, steps)

    def summary(self) -> Mapping[str, float | int | str]:
        """The usual numbers, by name."""
        return {
            "rows": len(self.errors),
            "coverage": self.coverage,
            "mean_x100": 100 * self.mean,
            "median_x100": 100 * self.median,
            "within_1": self.within(0.01),
            "within_5": self.within(0.05),
            "within_10": self.within(0.10),
            "auc_25": self.auc(),
            "divided_by": NORMALISER,
            "geodesics": self.method,
        }


def evaluate(
    matches: Correspondence, target: Shape, truth: Int[np.ndarray, "s 2"], *, samples: int = 500
) -> GeodesicErrors:
    """Error of a map against the truth.

    Parameters
    ----------
    truth
        Pairs (source row, target row), from `coembed.files.read_truth` or ``read_pairs``.
    samples
        At most that many pairs, evenly spaced, are judged: each needs distances of its own.
        0 judges all.

    Raises
    ------
    InputError
        If the truth names rows that the map or the target does not have.
    """
    if len(truth) == 0:
        raise InputError("the truth holds no pairs")
    for column, n, what in ((0, len(matches.p2p), "source"), (1, matches.n_target, "target")):
        if truth[:, column].min() < 0 or truth[:, column].max() >= n:
            raise InputError(
                f"the truth names {what} rows {truth[:, column].min()} to "
                f"{truth[:, column].max()}; the {what} has rows 0 to {n - 1}"
            )
    if matches.n_target != len(target.points):
        raise InputError(
            f"the map is for a target of {matches.n_target} points; "
            f"{target.name} has {len(target.points)}"
        )
    chosen = spaced(len(truth), samples)
    rows, wanted = truth[chosen, 0], truth[chosen, 1]
    found = matches.p2p[rows]
    distances = geometry.geodesics(target, wanted)[np.arange(len(rows)), found]
    errors = np.where(found < 0, np.inf, distances / np.sqrt(area_of(target)))
    return GeodesicErrors(rows, errors, geometry.geodesics_method(target))


def area_under_curve(
    errors: Float[np.ndarray, " s"], limit: float = 0.25, steps: int = 101
) -> float:
    """Mean share of errors within a radius, over ``steps`` radii from 0 to ``limit``."""
    ordered = np.sort(errors)
    return float(
        np.searchsorted(ordered, np.linspace(0, limit, steps), "right").mean() / len(errors)
    )


def overlap(found: Bool[np.ndarray, " n"], true: Bool[np.ndarray, " n"]) -> float:
    """Intersection over union of two sets of rows; 1 if both are empty."""
    union = (found | true).sum()
    return float((found & true).sum() / union) if union else 1.0


def auroc(scores: Float[np.ndarray, " n"], true: Bool[np.ndarray, " n"]) -> float:
    """The chance that a true row has a higher score than one that is not; equal ones count half.

    That is the area under the curve of the rate of true positives over that of false ones; NaN
    where all rows are of one kind.
    """
    if true.all() or not true.any():
        return float("nan")
    others = np.sort(scores[~true])
    lower, upper = (np.searchsorted(others, scores[true], side) for side in ("left", "right"))
    return float((lower + upper).mean() / 2 / len(others))


def spaced(n: int, samples: int) -> Int[np.ndarray, " s"]:
    """``samples`` evenly spaced rows of n; all of them for 0 or too many."""
    if samples < 0:
        raise InputError(f"samples must be 0 (all) or more; got {samples}")
    if samples == 0 or samples >= n:
        return np.arange(n)
    return np.linspace(0, n - 1, samples).round().astype(np.int64)


def area_of(shape: Shape) -> float:
    """Area of the mesh where there are faces, else the point-cloud Laplacian's total mass."""
    if len(shape.sound_faces):
        return float(geometry.face_areas(shape.points[shape.sound_faces]).sum())
    distinct = np.unique(shape.points[shape.usable], axis=0)
    return float(spectrum.laplacian(distinct, name=shape.name)[1].sum())
