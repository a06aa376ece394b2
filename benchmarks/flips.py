"""Count maps in which left and right are exchanged.

``python benchmarks/flips.py data/scape_r 51:71``: of all ordered pairs of two shapes, with
``--align none`` and ``--align auto``, those are counted whose map is nearer to the mirrored truth
(``corres/NAME.sym.vts``) than to the truth, on average over some samples of it. The mean error
x 100 to both is printed, too, and the pair for which the two are nearest to each other.
"""

import argparse
import json
import os
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np

import coembed
from coembed import datasets, evaluation, geometry, matching
from coembed.layouts import read_collection
from coembed.search import nearest


def judged(embedded, far, chosen, members):
    """Mean error to the truth and to the mirrored truth of every pair of two shapes."""
    means = {}
    for i, one in enumerate(embedded):
        for j, other in enumerate(embedded):
            if i != j:
                start = one[members[i].rows[chosen]]
                found = nearest(start, other, similarity="cosine")
                means[i, j] = [float(to[np.arange(len(found)), found].mean()) for to in far[j]]
    return means


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("shapes")
    parser.add_argument("--samples", type=int, default=200)
    options = parser.parse_args()
    model = coembed.load()
    members = read_collection(options.folder, chosen=datasets.part(options.shapes)).members
    chosen = evaluation.spaced(len(members[0].rows), options.samples)
    far = []
    for one in members:
        size = np.sqrt(evaluation.area_of(one.shape))
        rows = (one.rows[chosen], one.mirrored[chosen])
        far.append([geometry.geodesics(one.shape, some) / size for some in rows])
    for align in ("none", "auto"):
        embedded = [np.asarray(matching.embed(model, one.shape, align=align)) for one in members]
        means = judged(embedded, far, chosen, members)
        truth, mirrored = np.array(list(means.values())).T
        nearest_one = list(means)[int((mirrored - truth).argmin())]
        print(json.dumps({
            "align": align, "pairs": len(means), "flipped": int((mirrored < truth).sum()),
            "to_truth_x100": 100 * float(truth.mean()),
            "to_mirrored_x100": 100 * float(mirrored.mean()),
            "nearest_to_a_flip": [members[i].name for i in nearest_one],
            "there_x100": [100 * value for value in means[nearest_one]],
        }), flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
