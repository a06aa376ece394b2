"""Relations that must hold between maps of the same pair, on real shapes.

``python benchmarks/relations.py --data data`` matches pairs of faust_r, scape_r and shrec19_r in
--data, plainly and registered, then again without faces, in millimetres, far from the origin,
permuted, with duplicates, with rows that are not finite, with a warm cache and from two processes;
prints the share of rows that have the same answer, for docs/reliability.md.
"""

import argparse
import os
import tempfile
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np

from coembed import formats, matching, model
from coembed.shapes import Shape

PAIRS = (
    ("faust_r/off/tr_reg_080.off", "faust_r/off/tr_reg_093.off"),
    ("scape_r/off/mesh052.off", "scape_r/off/mesh060.off"),
    ("shrec19_r/off/1.off", "shrec19_r/off/14.off"),
    ("faust_r/off/tr_reg_006.off", "faust_r/off/tr_reg_007.off"),
)


def shares(weights, source, target, refine, rng):
    """Share of rows with the answer of the plain input, for each change of it."""

    def found(shape, **settings):
        return matching.match(weights, shape, target, refine=refine, **settings).p2p

    points, base, n = source.points, found(source), len(source.points)
    order, more = rng.permutation(n), np.append(np.arange(n), rng.integers(n, size=500))
    even = np.round(points * 2**20) / 2**20  # so that an offset loses no digit
    bad = np.concatenate([np.full((2, 3), np.nan), points, np.full((3, 3), np.inf)])
    gaps = found(Shape(bad))
    with tempfile.TemporaryDirectory() as cache:
        found(source, cache=Path(cache))
        warm = found(source, cache=Path(cache))
    return {
        "faces left out": found(Shape(points)) == base,
        "millimetres": found(Shape(points * 1000)) == base,
        "offset 5e6": found(Shape(even + np.array([5e6, 4e5, 2e3]))) == found(Shape(even)),
        "permuted": found(Shape(points[order])) == base[order],
        "duplicates": found(Shape(points[more])) == base[more],
        "NaN rows": gaps == np.concatenate([[-1, -1], base, [-1, -1, -1]]),
        "cache warm": warm == base,
        "two processes": found(source, jobs=2) == base,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    options = parser.parse_args()
    weights, rng = model.load(), np.random.default_rng(0)
    for number, names in enumerate(PAIRS):
        pair = [formats.read(options.data / name) for name in names]
        for refine in ("none", "register"):
            result = shares(weights, *pair, refine, rng)
            if number == 0 and refine == "none":
                print(
                    f"| pair | refine | {' | '.join(result)} |\n|---{'|---' * (1 + len(result))}|"
                )
            cells = " | ".join(f"{same.mean():.4g}" for same in result.values())
            print(
                f"| {Path(names[0]).stem}, {Path(names[1]).stem} | {refine} | {cells} |", flush=True
            )


if __name__ == "__main__":
    main()
