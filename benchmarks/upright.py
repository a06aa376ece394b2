"""Turn the shapes of a folder upright, facing +z, for measuring weights that expect it.

``python benchmarks/upright.py data/shrec19_r data/shrec19_upright`` copies the folder with every
shape turned about its centre; truth and pairs stay. No truth is looked at: of all turns, the one
is taken in which the embedding of the shape by the ``human`` weights lies nearest to those of a
few generated bodies (mean cosine of nearest neighbours, both ways). Coarse search over rotations
30 degrees apart about each axis of the 24 turns of a cube, then smaller and smaller steps.
"""

import argparse
import json
import os
import shutil
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
from scipy.spatial.transform import Rotation

import coembed
from coembed import bodies, datasets, files
from coembed.shapes import Shape

POINTS, BODIES, KEPT = 800, 6, 4
MODEL = coembed.load()


def embedded(operators, turn=None):
    if turn is not None:
        operators = replace(operators, points=operators.points @ turn.as_matrix().T)
    rows = np.asarray(MODEL.embed(operators))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def references():
    rng = np.random.default_rng(0)
    people = [bodies.sample(bodies.body(rng), POINTS, rng).shape for _ in range(BODIES)]
    return [embedded(coembed.prepare(person)) for person in people]


BANK = references()


def likeness(operators, turn):
    rows = embedded(operators, turn)
    products = [rows @ other.T for other in BANK]
    return float(np.mean([(p.max(axis=0).mean() + p.max(axis=1).mean()) / 2 for p in products]))


def coarse():
    cube = Rotation.create_group("O")
    yaws = [Rotation.from_euler("y", degrees, degrees=True) for degrees in (0, 30, 60)]
    return [yaw * turn for turn in cube for yaw in yaws]


def upright(shape):
    """The best turn found, its likeness, and that of the best one more than 60 degrees away."""
    rng = np.random.default_rng(0)
    rows = rng.choice(len(shape.points), min(POINTS, len(shape.points)), replace=False)
    operators = coembed.prepare(Shape(shape.points[rows], name=shape.name))
    tried = sorted(((likeness(operators, t), i, t) for i, t in enumerate(coarse())), reverse=True)
    found = []
    for value, _, turn in tried[:KEPT]:
        for step in (20, 10, 5):
            better = True
            while better:
                better = False
                for axis in (*np.eye(3), *-np.eye(3)):
                    other = Rotation.from_rotvec(np.deg2rad(step) * axis) * turn
                    new = likeness(operators, other)
                    if new > value + 1e-5:
                        value, turn, better = new, other, True
        found.append((value, turn))
    value, turn = max(found, key=lambda pair: pair[0])
    everything = found + [(v, t) for v, _, t in tried]
    others = [v for v, t in everything if (t * turn.inv()).magnitude() > np.deg2rad(60)]
    return turn, value, max(others)


def turned(path):
    shape = files.read(path)
    turn, value, runner_up = upright(shape)
    centre = shape.points.mean(axis=0)
    points = (shape.points - centre) @ turn.as_matrix().T
    return Shape(points, shape.faces, name=shape.name), turn, value, runner_up


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    (options.out / "off").mkdir(parents=True)
    shutil.copytree(options.source / "corres", options.out / "corres")
    if (options.source / "pairs.txt").exists():
        shutil.copy(options.source / "pairs.txt", options.out / "pairs.txt")
    paths = datasets.shape_paths(options.source)
    facts = {}
    with ProcessPoolExecutor(options.jobs) as pool:
        for path, (shape, turn, value, other) in zip(paths, pool.map(turned, paths), strict=True):
            files.write(options.out / "off" / f"{path.stem}.ply", shape)
            facts[path.stem] = {
                "turn_degrees": np.rad2deg(turn.as_rotvec()).round(1).tolist(),
                "likeness": round(value, 4),
                "runner_up": round(other, 4),
            }
            print(path.stem, facts[path.stem], flush=True)
    (options.out / "turns.json").write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
