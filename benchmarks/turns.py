"""Turn test shapes at random and see whether ``--align auto`` brings them back.

``python benchmarks/turns.py data/faust_r 80:100 --turns 50`` prints, for each shape, how many turns
are brought within 25 degrees of the file's own frame, and, for the first few turns (``--judged``),
the mean error x 100 of maps to two other shapes, which stand as they are, before and after.
"""

import argparse
import json
import os
import time
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
from scipy.spatial.transform import Rotation

import coembed
from coembed import alignment, datasets, evaluation, geometry
from coembed.layouts import read_collection
from coembed.search import nearest

NEAR = 25
TARGETS = 2


def degrees(rotation):
    return float(np.rad2deg(Rotation.from_matrix(rotation).magnitude()))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("shapes")
    parser.add_argument("--turns", type=int, default=50)
    parser.add_argument("--judged", type=int, default=3, help="turns whose maps are judged")
    parser.add_argument("--samples", type=int, default=200)
    options = parser.parse_args()
    model = coembed.load()
    collection = read_collection(options.folder, chosen=datasets.part(options.shapes))
    shapes = [member.shape for member in collection.members]
    operators = [geometry.prepare(shape) for shape in shapes]
    embedded = [np.asarray(model.embed(one))[one.rows] for one in operators]
    sizes = [np.sqrt(geometry.face_areas(s.points[s.faces]).sum()) for s in shapes]
    turns, maps, rng = [], [], np.random.default_rng(0)
    for i, one in enumerate(operators):
        judged = []
        for step in range(1, TARGETS + 1):
            j = (i + 7 * step) % len(shapes)
            start, wanted = collection.truth(i, j)
            chosen = evaluation.spaced(len(start), options.samples)
            far = geometry.geodesics(shapes[j], wanted[chosen]) / sizes[j]
            judged.append((j, start[chosen], far))

        def error(values, judged=judged):
            errors = []
            for j, start, far in judged:
                found = nearest(values[start], embedded[j], similarity="cosine")
                errors.append(far[np.arange(len(found)), found].mean())
            return 100 * float(np.mean(errors))

        before, after, angles, seconds = error(embedded[i]), [], [], []
        for turn in Rotation.random(options.turns, random_state=rng.integers(2**31)):
            turned = alignment.turned(one, turn.as_matrix())
            began = time.process_time()
            found = alignment.align(turned, "auto", model)
            seconds.append(time.process_time() - began)
            angles.append(degrees(found.rotation @ turn.as_matrix()))
            if len(after) >= options.judged:
                continue
            values = np.asarray(model.embed(alignment.turned(turned, found.rotation)))[one.rows]
            after.append(error(values))
        turns += list(zip(angles, seconds, strict=True))
        maps += [(before, now) for now in after]
        near = int((np.array(angles) <= NEAR).sum())
        print(
            f"{shapes[i].name}: {near} of {len(angles)} within {NEAR}, worst {max(angles):.0f}; "
            f"error {before:.2f} -> {np.mean(after):.2f}, worst {max(after):.2f}",
            flush=True,
        )
    (angles, seconds), (before, after) = np.array(turns).T, np.array(maps).T
    print(json.dumps({
        "turns": len(angles), "within_25": float((angles <= NEAR).mean()),
        "within_90": float((angles <= 90).mean()), "mean_degrees": float(angles.mean()),
        "maps": TARGETS * len(maps),
        "before_x100": float(before.mean()), "after_x100": float(after.mean()),
        "cpu_seconds": float(seconds.mean()), "most_cpu_seconds": float(seconds.max()),
    }))  # fmt: skip


if __name__ == "__main__":
    main()
