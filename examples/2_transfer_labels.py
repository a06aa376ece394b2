"""Carry labels from a labelled template to a scan, and landmarks with them.

Writes labelled.ply, the scan with the template's attribute `part`, and landmarks.csv.
"""

from pathlib import Path

import numpy as np

import coembed
from coembed import datasets, landmarks, transfer

if not Path("people").exists():
    datasets.write_bodies(Path("people"), n=2, n_points=1500, seed=0)
scan = coembed.read("people/off/body0000.ply")
bare = coembed.read("people/off/body0001.ply")
height = bare.points[:, 1] - bare.points[:, 1].min()
part = np.digitize(height, np.quantile(height, [0.25, 0.5, 0.75]))  # labels of your own go here
template = coembed.Shape(bare.points, bare.faces, name="template", attributes={"part": part})

matches = coembed.match(coembed.load(), scan, template)  # from the scan to the template

labelled = transfer.transfer(scan, template, matches, what=["part"])
coembed.write("labelled.ply", labelled, force=True)
print(f"points a part: {np.bincount(labelled.attributes['part']).tolist()}")

crown = landmarks.place(template, ("crown",), template.points[[height.argmax()]])
found = landmarks.carry_landmarks(scan, template, matches, crown, to="source")
landmarks.write_landmarks("landmarks.csv", found, force=True)
print(f"the crown is row {found.rows[0]} of the scan")
