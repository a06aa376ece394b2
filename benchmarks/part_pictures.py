"""Draw the worst pairs of a table of views, and some of the others, for docs/partial.md.

``python benchmarks/part_pictures.py data/scape_r data/scape_r_partial/index views/pairs.csv
docs/partial.png`` matches the three worst pairs of the table anew, registered, and one in the
middle, and draws each view in the colours that the map carries over from its target.
"""

import argparse
import csv
import os
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import matplotlib as mpl
import numpy as np

import coembed
from coembed.shapes import Shape

mpl.use("Agg")
from matplotlib import pyplot as plt


def colours(points):
    low, high = points.min(axis=0), points.max(axis=0)
    return np.clip((points - low) / (high - low), 0, 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("views", type=Path)
    parser.add_argument("table", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    with options.table.open() as stream:
        rows = sorted(csv.DictReader(stream), key=lambda row: -float(row["mean_x100"]))
    model = coembed.load("human-parts")
    chosen = [*rows[:3], rows[len(rows) // 2]]
    figure, axes = plt.subplots(1, 2 * len(chosen), figsize=(12, 3.2))
    for number, row in enumerate(chosen):
        name, _, view = row["source"].partition("_view_")
        whole, target = (
            coembed.read(options.folder / "off" / f"{one}.off") for one in (name, row["target"])
        )
        seen = np.loadtxt(options.views / f"index_{name}_view_{view}.txt", dtype=int)
        part = Shape(whole.points[seen], name=row["source"])
        matches = coembed.match(model, part, target, partial=True, refine="register")
        shown = colours(target.points)
        left, right = axes[2 * number : 2 * number + 2]
        left.scatter(*part.points[:, :2].T, c=shown[matches.p2p], s=1)
        left.set_title(f"{row['source']}: {float(row['mean_x100']):.1f}", fontsize=7)
        right.scatter(*target.points[:, :2].T, c=shown, s=1)
        right.set_title(row["target"], fontsize=7)
        for axis in (left, right):
            axis.set_aspect("equal")
            axis.axis("off")
    figure.tight_layout()
    figure.savefig(options.out, dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    main()
