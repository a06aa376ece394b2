"""Turn the shapes of a folder upright, facing +z, for measuring weights that expect it.

``python benchmarks/upright.py data/shrec19_r data/shrec19_upright`` copies the folder with every
shape turned about its centre; truth and pairs stay. No truth is looked at: of all turns, the one
is taken in which the embedding of the shape by the ``human`` weights lies nearest to those of a
few generated bodies (mean cosine of nearest neighbours, both ways). A coarse search over the 24
turns of a cube and two yaws between, then smaller steps from the best few, all on 800 points; these
and their backs are then compared on 2,000 points.
"""

import argparse
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
from scipy.spatial.transform import Rotation

import coembed
from coembed import bodies, datasets, formats, processes
from coembed.shapes import Shape

COARSE, FINE = (800, 6), (2000, 12)  # points of a shape, generated bodies to compare with
KEPT = 4
MODEL = coembed.load()


def embedded(operators, turn=None):
    if turn is not None:
        operators = replace(operators, points=operators.points @ turn.as_matrix().T)
    rows = np.asarray(MODEL.embed(operators))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def references(points, count):
    rng = np.random.default_rng(0)
    people = [bodies.sample(bodies.body(rng), points, rng).shape for _ in range(count)]
    return [embedded(coembed.prepare(person)) for person in people]


BANKS = {size: references(*size) for size in (COARSE, FINE)}


def likeness(operators, turn, size=COARSE):
    rows = embedded(operators, turn)
    products = [rows @ other.T for other in BANKS[size]]
    return float(np.mean([(p.max(axis=0).mean() + p.max(axis=1).mean()) / 2 for p in products]))


def coarse():
    cube = Rotation.create_group("O")
    yaws = [Rotation.from_euler("y", degrees, degrees=True) for degrees in (0, 30, 60)]
    return [yaw * turn for turn in cube for yaw in yaws]


def climbed(operators, turn):
    """The turn nearby that cannot be bettered by 5 degrees about any axis."""
    value = likeness(operators, turn)
    for step in (20, 10, 5):
        better = True
        while better:
            better = False
            for axis in (*np.eye(3), *-np.eye(3)):
                other = Rotation.from_rotvec(np.deg2rad(step) * axis) * turn
                new = likeness(operators, other)
                if new > value + 1e-5:
                    value, turn, better = new, other, True
    return turn


def sampled(shape, points):
    rows = np.random.default_rng(0).choice(
        len(shape.points), min(points, len(shape.points)), replace=False
    )
    return coembed.prepare(Shape(shape.points[rows], name=shape.name))


def upright(shape):
    """The best turn found, its likeness, and that of the best one more than 60 degrees away."""
    few, many = sampled(shape, COARSE[0]), sampled(shape, FINE[0])
    turns = coarse()
    order = np.argsort([-likeness(few, turn) for turn in turns])
    found = [climbed(few, turns[i]) for i in order[:KEPT]]
    # front and back are easily taken for each other
    found += [Rotation.from_euler("y", 180, degrees=True) * turn for turn in found[:2]]
    values = [likeness(many, turn, FINE) for turn in found]
    best = int(np.argmax(values))
    away = [
        value
        for value, turn in zip(values, found, strict=True)
        if (turn * found[best].inv()).magnitude() > np.deg2rad(60)
    ]
    return found[best], values[best], max(away)


def turned(path):
    shape = formats.read(path)
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
    with processes.pool(options.jobs) as pool:
        for path, (shape, turn, value, other) in zip(paths, pool.map(turned, paths), strict=True):
            formats.write(options.out / "off" / f"{path.stem}.ply", shape)
            facts[path.stem] = {
                "turn_degrees": np.rad2deg(turn.as_rotvec()).round(1).tolist(),
                "likeness": round(value, 4),
                "runner_up": round(other, 4),
            }
            print(path.stem, facts[path.stem], flush=True)
    (options.out / "turns.json").write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
