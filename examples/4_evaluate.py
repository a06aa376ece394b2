"""Measure a map against the truth: geodesic errors in units of sqrt(target area).

The truth of generated people is in their .vts files; a text file with the target row of every
source row, counted from 0, is read by `coembed.files.read_truth`.
"""

from pathlib import Path

import coembed
from coembed import datasets, files

if not Path("people").exists():
    datasets.write_bodies(Path("people"), n=2, n_points=1500, seed=0)
source = coembed.read("people/off/body0000.ply")
target = coembed.read("people/off/body0001.ply")
truth = files.read_pairs("people/corres/body0000.vts", "people/corres/body0001.vts")

for refine in ("none", "register"):
    matches = coembed.match(coembed.load(), source, target, refine=refine)
    errors = coembed.evaluate(matches, target, truth, samples=200)
    print(f"{refine}: mean x 100 {100 * errors.mean:.2f}, within 5 % {errors.within(0.05):.0%}")
