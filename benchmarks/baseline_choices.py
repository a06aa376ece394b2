"""Why the classical baselines differ from the paper's numbers: each open choice, varied.

``python benchmarks/baseline_choices.py --data data`` with the community's FAUST_r and SCAPE_r in
DATA. 60 pairs of each test set, always the same. Prints a table and writes
benchmarks/results/baseline_choices.json.
"""

import argparse
import json
import os
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np

from coembed import baselines, evaluation, geometry
from coembed.functional import Basis
from coembed.layouts import read_collection
from coembed.search import nearest

RESULT = Path(__file__).parent / "results" / "baseline_choices.json"
SETS = {"FAUST": ("faust_r", slice(80, 100)), "SCAPE": ("scape_r", slice(51, 71))}
TIMES = np.logspace(-2, 0, 512)


class Set:
    """Shapes of a test set with their spectra, and distances on the targets of the pairs."""

    def __init__(self, folder, shapes, cache):
        collection = read_collection(folder, chosen=shapes)
        self.members = collection.members
        self.pairs = collection.pairs(60)
        self.rows = [m.rows[evaluation.spaced(len(m.rows), 500)] for m in self.members]
        self.operators = [geometry.prepare(m.shape, cache=cache) for m in self.members]
        self.areas = [evaluation.area_of(m.shape) for m in self.members]
        self.far = {
            edges: {
                j: geometry.geodesics(self.members[j].shape, self.rows[j], edges=edges)
                for j in np.unique(self.pairs[:, 1]).tolist()
            }
            for edges in (False, True)
        }

    def error(self, features, edges=False):
        """Mean x 100 of nearest neighbours in the features of each pair."""
        errors = []
        for i, j in self.pairs.tolist():
            one, other = features(i, j)
            found = nearest(one[self.rows[i]], other)
            far = self.far[edges][j][np.arange(len(found)), found]
            errors.append(far.mean() / np.sqrt(self.areas[j]))
        return round(100 * float(np.mean(errors)), 1)

    def spectrum(self, i):
        """Eigenvalues and eigenvectors in file rows, at unit area."""
        return self.operators[i].evals, self.operators[i].evecs[self.operators[i].rows]

    def heat(self, i, in_ball):
        """Heat kernel signature; in_ball: at the scale where the shape fills the unit ball."""
        evals, evecs = self.spectrum(i)
        points = self.members[i].shape.points
        radius = np.linalg.norm(points - points.mean(axis=0), axis=1).max()
        factor = radius**2 / self.areas[i] if in_ball else 1.0
        return factor * (evecs**2) @ np.exp(-factor * evals[:, None] * TIMES)

    def coupled(self, i, j, count, k):
        """Coupled bases from ``count`` evenly spaced true correspondences (0: all of them)."""
        bases, coefficients = [], []
        for m in (i, j):
            evals, evecs = self.spectrum(m)
            bases.append(Basis(evals[:k], evecs[:, :k], np.ones(len(evecs))))
            rows = self.members[m].rows
            coefficients.append(evecs[rows[evaluation.spaced(len(rows), count)], :k])
        return baselines.coupled_bases(*bases, tuple(coefficients))


def measure(one):
    signs = [np.random.default_rng(i).choice([-1, 1], 79) for i in range(len(one.members))]
    results = {}
    for title, drawn, edges in (
        ("signs by our rule", False, False),
        ("random signs, as an eigensolver gives them", True, False),
        ("random signs, distances along edges", True, True),
    ):
        results[f"spectral: {title}"] = one.error(
            lambda i, j, drawn=drawn: tuple(
                one.spectrum(m)[1] * (signs[m] if drawn else 1) for m in (i, j)
            ),
            edges,
        )
    for title, ball, edges in (
        ("at unit area", False, False),
        ("in the unit ball", True, False),
        ("in the unit ball, distances along edges", True, True),
    ):
        results[f"hks: {title}"] = one.error(
            lambda i, j, ball=ball: (one.heat(i, ball), one.heat(j, ball)), edges
        )
    for count, k in ((0, 50), (50, 50), (20, 50), (10, 50), (0, 20), (20, 20)):
        title = f"{count or 'all'} true points, {k} modes"
        results[f"cqhb-gt: {title}"] = one.error(
            lambda i, j, count=count, k=k: one.coupled(i, j, count, k)
        )
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--cache", type=Path)
    options = parser.parse_args()
    results = {}
    for name, (folder, shapes) in SETS.items():
        results[name] = measure(Set(options.data / folder, shapes, options.cache))
    for title in results["FAUST"]:
        print(f"| {title} | " + " | ".join(str(results[name][title]) for name in SETS) + " |")
    RESULT.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
