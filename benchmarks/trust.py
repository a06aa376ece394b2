"""Fit and check the trust score.

``python benchmarks/trust.py`` fits the four numbers of `coembed.trust` on 24 generated people in
48 pairs and prints them. ``--data data`` instead judges the score of `coembed.match` on the test
shapes of FAUST_r and SCAPE_r: expected calibration error (ten bins), area under the ROC curve for
errors above 10 %, and the reliability diagram (``--out``).
"""

import argparse
import os
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np

import coembed
from coembed import bodies, datasets, evaluation, geometry, matching, trust
from coembed.layouts import read_collection
from coembed.search import there_and_back

MEAN_SIZE = 1.33  # sqrt(area) of the mean body, metres
TESTS = {"faust_r": "80:100", "scape_r": "51:71"}


def generated(model, count=24):
    """Signs of all matches of generated pairs, and whether each is right."""
    rng = np.random.default_rng(500)
    samples = [
        bodies.sample(bodies.body(rng, touching=0.3), int(rng.integers(3000, 6000)), rng)
        for _ in range(count)
    ]
    embedded = [matching.embed(model, sample.shape, align="none") for sample in samples]
    places = []
    for sample, one in zip(samples, embedded, strict=True):
        place = np.zeros(one.points.shape)
        place[one.rows] = sample.place
        places.append(place)
    signs, right = [], []
    for i in range(count):
        for j in ((i + 1) % count, (i + 5) % count):
            a, b = embedded[i], embedded[j]
            there, back = there_and_back(a.values, b.values, similarity=a.similarity)
            off = np.linalg.norm(a.points - a.points[back], axis=1)
            signs.append(trust.signs(a.points, b.points[there], off))
            away = np.linalg.norm(places[i] - places[j][there], axis=1) / MEAN_SIZE
            right.append(away < trust.CLOSE)
    return np.concatenate(signs), np.concatenate(right)


def fitted(signs, right):
    """Logistic regression by Newton's method."""
    weights = np.zeros(signs.shape[1])
    for _ in range(50):
        chance = 1 / (1 + np.exp(-signs @ weights))
        curvature = (signs * (chance * (1 - chance))[:, None]).T @ signs
        weights += np.linalg.solve(curvature, signs.T @ (right - chance))
    return weights


def judged(model, folder, shapes, pairs, refine):
    """Scores and errors of truth samples of random pairs, found by `match`."""
    collection = read_collection(folder, chosen=datasets.part(shapes))
    embedded = [matching.embed(model, member.shape) for member in collection.members]
    rng = np.random.default_rng(0)
    scores, errors = [], []
    for _ in range(pairs):
        i, j = rng.choice(len(embedded), 2, replace=False)
        shape = collection.members[j].shape
        found = matching.match(model, embedded[i], embedded[j], refine=refine)
        start, wanted = collection.truth(i, j)
        chosen = evaluation.spaced(len(start), 300)
        far = geometry.geodesics(shape, wanted[chosen])
        size = np.sqrt(geometry.face_areas(shape.points[shape.faces]).sum())
        scores.append(found.score[start[chosen]])
        errors.append(far[np.arange(len(chosen)), found.p2p[start[chosen]]] / size)
    return np.concatenate(scores), np.concatenate(errors)


def area_under_roc(scores, bad):
    order = np.argsort(scores)
    rank = np.empty(len(scores))
    rank[order] = np.arange(len(scores))
    n = (~bad).sum()
    return (rank[~bad].mean() - (n - 1) / 2) / bad.sum()


def bins(scores, right):
    """Mean score, share of right ones, and share of all, in each of ten bins."""
    bin_of = np.clip((scores * 10).astype(int), 0, 9)
    found = [k for k in range(10) if (bin_of == k).any()]
    return np.array([
        (scores[bin_of == k].mean(), right[bin_of == k].mean(), (bin_of == k).mean())
        for k in found
    ])  # fmt: skip


def draw(curves, path):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(4.5, 4.2))
    axes.plot([0, 1], [0, 1], color="#999999", linewidth=1)
    for name, table in curves.items():
        axes.plot(table[:, 0], table[:, 1], marker="o", markersize=4, label=name)
    axes.set(xlabel="score", ylabel="share within 5 %", xlim=(0, 1), ylim=(0, 1))
    axes.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path, dpi=150)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    model = coembed.load()
    if options.data is None:
        print(*(f"{weight:.3f}" for weight in fitted(*generated(model))), sep=", ")
        return
    curves = {}
    for name, shapes in TESTS.items():
        for refine in ("none", "register"):
            scores, errors = judged(model, options.data / name, shapes, options.pairs, refine)
            table = bins(scores, errors < trust.CLOSE)
            calibration = float((np.abs(table[:, 0] - table[:, 1]) * table[:, 2]).sum())
            print(
                f"{name} {refine}: calibration error {calibration:.3f}, AUROC (error > 10 %) "
                f"{area_under_roc(scores, errors > 0.1):.3f}, mean score {scores.mean():.3f}, "
                f"within 5 % {(errors < trust.CLOSE).mean():.3f}, "
                f"above 10 % {(errors > 0.1).mean():.4f}",
                flush=True,
            )
            curves[f"{name}, {refine}"] = table
    if options.out is not None:
        draw(curves, options.out)


if __name__ == "__main__":
    main()
