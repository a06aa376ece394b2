"""Match one template to every shape of a folder; a bad file is told and does not stop the rest.

Writes maps/NAME.txt for each, and maps/summary.csv.
"""

from pathlib import Path

import coembed
from coembed import cohorts, datasets

if not Path("people").exists():
    datasets.write_bodies(Path("people"), n=2, n_points=1500, seed=0)
paths = sorted(Path("people/off").glob("*.ply"))
model = coembed.load()
template = coembed.embed(model, coembed.read(paths[0]))  # once

results = []
for path, out in zip(paths[1:], cohorts.map_paths(paths[1:], Path("maps")), strict=True):
    results.append(cohorts.carry(model, template, path, out, refine="register"))
    print(results[-1].state, path.name, results[-1].reason)
table, _ = cohorts.write_summary(Path("maps"), results)
print(f"see {table}; the same by one command: coembed carry TEMPLATE SHAPE... --out maps")
