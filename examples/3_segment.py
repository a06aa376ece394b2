"""Part several shapes, with the same labels on all of them.

Writes parts/NAME.ply with labels and colours, and parts/parts.csv with areas.
Needs scikit-learn: pip install "coembed[segment]".
"""

from pathlib import Path

import coembed
from coembed import datasets, segmentation

if not Path("people").exists():
    datasets.write_bodies(Path("people"), n=2, n_points=1500, seed=0)
shapes = [coembed.read(path) for path in sorted(Path("people/off").glob("*.ply"))]

found = coembed.segment(coembed.load(), shapes, parts=[4, 12])  # 12 parts, merged to 4

segmentation.write_segmentation(Path("parts"), shapes, found, force=True)
print(Path("parts/parts.csv").read_text())
