"""Fit and check what tells which points of a part have a counterpart.

``python benchmarks/overlap.py --fit`` fits the numbers of `coembed.trust` for parts on generated
people, of whom one camera's view, what a plane, holes or lost limbs leave is matched with another
such part or a whole one, plainly and registered, and prints them. Without ``--fit`` it judges
`coembed.match` on other generated people: intersection over union of the predicted and the true
common part of two parts, area under the ROC curve of the chance of a counterpart, and the most rows
that are led to one point.
"""

import argparse
import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
from scipy.spatial import cKDTree
from trust import MEAN_SIZE, fitted

import coembed
from coembed import bodies, cuts, evaluation, locator, matching, overlap, trust
from coembed.search import there_and_back

FITTED, JUDGED = 96, 150  # pairs
PARTNER = 0.04  # metres on the mean body: farther there is no counterpart


def pairs(count, seed):
    """Pairs of scans: two parts, twice as often as a whole one (of kind "") and a part."""
    rng = np.random.default_rng(seed)

    def one(cut):
        body = bodies.body(rng, touching=0.2)
        return bodies.scan(body, int(rng.integers(2000, 4000)), rng, cut=cut)

    for number in range(count):
        kinds = [str(rng.choice(cuts.KINDS[:4], p=(0.55, 0.15, 0.1, 0.2))) for _ in range(2)]
        if number % 3 == 2:
            kinds[0] = ""
        yield kinds, one(kinds[0]), one(kinds[1])


def found(model, source, target, refine):
    """Signs of all matches, whether each is right, whether it could be, and the answer."""
    matches = matching.match(model, source.shape, target.shape, partial=True, refine=refine)
    a, b = matches.embeddings
    x, y = a.everywhere(), b.everywhere()
    there, back = there_and_back(x, y, similarity=a.similarity)
    off = np.linalg.norm(a.points - a.points[back], axis=1)
    apart = matching.apart(x, y[there], a.similarity)
    look = locator.load().look
    shared = overlap.shared(look(a.points), look(b.points), a.points)
    signs = trust.part_signs(a.points, b.points[there], off, apart, shared)[a.rows]
    wrong = np.linalg.norm(source.place - target.place[b.first_rows()[there]][a.rows], axis=1)
    possible = cKDTree(target.place).query(source.place)[0] < PARTNER
    return signs, (wrong / MEAN_SIZE < trust.CLOSE) & possible, possible, matches


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--pairs", type=int)
    parser.add_argument("--weights", default="human-parts")
    options = parser.parse_args()
    count = options.pairs or (FITTED if options.fit else JUDGED)
    model = coembed.load(options.weights)
    for refine in ("none", "register"):
        kept, seen, parted = [], [], []
        for kinds, source, target in pairs(count, 900 if options.fit else 901):
            signs, right, possible, matches = found(model, source, target, refine)
            kept.append((signs, right, possible))
            if not options.fit:
                parted.append(kinds[0] != "")
                seen.append(
                    (
                        evaluation.overlap(matches.p2p >= 0, possible),
                        evaluation.auroc(matches.score, possible),
                        (matches.p2p >= 0).mean(), possible.mean(),
                        matches.embeddings[1].part,
                    )
                )  # fmt: skip
                print(refine, kinds, np.round(seen[-1], 3), flush=True)
        signs, right, possible = (np.concatenate(part) for part in zip(*kept, strict=True))
        if options.fit:
            for name, label in (("right", right), ("counterpart", possible)):
                weights = fitted(signs, label.astype(float))
                chance = 1 / (1 + np.exp(-signs @ weights))
                auroc = evaluation.auroc(chance, label)
                print(refine, name, tuple(np.round(weights, 3).tolist()), f"AUROC {auroc:.3f}")
        else:
            print(f"{refine}: mean IoU, AUROC, answered, common, target taken for a part")
            seen, parted = np.array(seen), np.array(parted)
            for name, chosen in (("two parts", parted), ("whole and part", ~parted)):
                print(f"{name}, {chosen.sum()}:", np.nanmean(seen[chosen], axis=0).round(3))
            print(f"all, {len(seen)}:", np.nanmean(seen, axis=0).round(3), flush=True)


if __name__ == "__main__":
    main()
