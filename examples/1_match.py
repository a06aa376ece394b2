"""Match two point clouds, and look at the map.

Writes map.npz (target row of every source row, and how far to trust it) and map.html, a page to
turn and to point at.
"""

from pathlib import Path

import coembed
from coembed import datasets, files

if not Path("people").exists():  # any two files will do; these are made up
    datasets.write_bodies(Path("people"), n=2, n_points=1500, seed=0)
source = coembed.read("people/off/body0000.ply")
target = coembed.read("people/off/body0001.ply")

matches = coembed.match(coembed.load(), source, target)

files.write_matches("map.npz", matches, force=True)
coembed.view(source, target, matches, "map.html", force=True)
print(f"{(matches.p2p >= 0).sum()} of {len(matches.p2p)} points have a partner")
print(f"mean trust {matches.score.mean():.2f}; open map.html")
