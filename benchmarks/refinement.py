"""What registration gains or costs where it could do harm, and what time it takes.

``python benchmarks/refinement.py --data data`` matches, plainly and registered: FAUST_r and SCAPE_r
shapes of the *training* splits (faust_r, scape_r in --data) as they are, with noise, as halves and
as single views, onto whole shapes; the smallest of 60 generated people and the largest, both ways;
an animal (``--animal spot.obj``, any closed mesh that stands on legs) and itself in another pose;
and 5,000 to 180,000 points of one pair. Prints the tables and writes
benchmarks/results/refinement.json.
"""

import argparse
import datetime
import json
import os
import time
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
from speed import processor

from coembed import bodies, evaluation, formats, geometry, layouts, matching, model
from coembed.shapes import Shape

RESULT = Path(__file__).parent / "results" / "refinement.json"
PAIRS = 8  # of a data set
SIZES = (5_000, 20_000, 60_000, 180_000)


def noisy(points, rng):
    """Gaussian noise of 0.01 of the radius, as in the tables."""
    radius = np.linalg.norm(points - points.mean(axis=0), axis=1).max()
    return points + 0.01 * radius * rng.standard_normal(points.shape)


def half(points, rng):
    """Rows on the larger side of a random plane, 65 % of all."""
    along = points @ rng.standard_normal(3)
    return np.flatnonzero(along <= np.quantile(along, 0.65))


def seen(points, rng):
    """Rows that a camera at the height of the shape sees, by a grid of depths."""
    turn = rng.uniform(0, 2 * np.pi)
    toward, across = np.array([np.cos(turn), 0, np.sin(turn)]), [-np.sin(turn), 0, np.cos(turn)]
    size = np.ptp(points, axis=0).max()
    pixel = np.round(np.stack([points @ across, points[:, 1]], axis=1) * 70 / size)
    _, place = np.unique(pixel, axis=0, return_inverse=True)
    depth = points @ toward
    front = np.full(place.max() + 1, -np.inf)
    np.maximum.at(front, place.reshape(-1), depth)
    return np.flatnonzero(depth > front[place.reshape(-1)] - 0.05 * size)


def maps(weights, source, target, **settings):
    """The plain and the registered map, from embeddings made once; seconds of the latter."""
    pair = [matching.embed(weights, shape, **settings) for shape in (source, target)]
    plain = matching.match(weights, *pair)
    started = time.process_time()
    registered = matching.match(weights, *pair, refine="register")
    return plain, registered, time.process_time() - started


def errors(found, known, wanted, shape):
    """Mean geodesic error x 100 of rows ``known`` of maps, whose truth is ``wanted``."""
    size = np.sqrt(evaluation.area_of(shape))
    far = geometry.geodesics(shape, wanted) / size
    return [100 * float(far[np.arange(len(wanted)), one.p2p[known]].mean()) for one in found]


def data_rows(weights, folder, ids, rng):
    collection = layouts.read_collection(folder)
    result = {name: [] for name in ("as it is", "noise 0.01", "half", "single view")}
    for i, j in zip(ids, np.roll(ids, 1), strict=True):
        source, target = collection.members[i].shape, collection.members[j].shape
        truth = [rows[evaluation.spaced(len(rows), 500)] for rows in collection.truth(i, j)]
        for name, errs in result.items():
            rows, points, goal = np.arange(len(source.points)), source.points, target
            if name == "noise 0.01":
                points = noisy(points, rng)
                goal = Shape(noisy(target.points, rng))
            elif name != "as it is":
                rows = (half if name == "half" else seen)(points, rng)
            known = np.flatnonzero(np.isin(truth[0], rows))
            found = maps(weights, Shape(points[rows]), goal)[:2]
            asked = np.searchsorted(rows, truth[0][known])
            errs.append(errors(found, asked, truth[1][known], target))
    return result


def builds(weights):
    """The four smallest of sixty people to the four largest, and back; on the mean body."""
    people = []
    for seed in range(60):
        rng = np.random.default_rng(1000 + seed)
        one = bodies.sample(bodies.body(rng), 4000, rng)
        people.append((evaluation.area_of(one.shape), one))
    people.sort(key=lambda pair: pair[0])
    result = []
    for k in range(4):
        ends = people[k][1], people[-1 - k][1]
        for one, other in (ends, ends[::-1]):
            found = maps(weights, one.shape, other.shape)[:2]
            off = [np.linalg.norm(one.place - other.place[f.p2p], axis=1).mean() for f in found]
            result.append([100 * float(value) / 1.34 for value in off])  # sqrt(area) of the mean
    return result


def animal(weights, path, rng):
    """A mesh on legs and itself with the legs swung, points of each drawn apart."""
    mesh = formats.read(path)
    v = mesh.points
    low, high = v.min(axis=0), v.max(axis=0)
    along = 2 if high[2] - low[2] > high[0] - low[0] else 0
    hip = low[1] + 0.55 * (high - low)[1]
    below = np.clip((hip - v[:, 1]) / (0.25 * (high - low)[1]), 0, 1)
    side = np.sign(v[:, 2 - along] - (low + high)[2 - along] / 2)
    end = np.where(v[:, along] < (low + high)[along] / 2, 1, -1)
    swing = 0.5 * below * side * end
    moved = v.copy()
    moved[:, 1] += np.where(below > 0, (v[:, 1] - hip) * (np.cos(swing) - 1), 0)
    moved[:, along] -= np.where(below > 0, (v[:, 1] - hip) * np.sin(swing), 0)
    clouds, places = [], []
    for pose in (v, moved):
        where = geometry.surface_points(v[mesh.faces], 4000, rng)
        clouds.append(Shape(geometry.on_surface(pose[mesh.faces], *where)))
        places.append(geometry.on_surface(v[mesh.faces], *where))
    size = np.sqrt(evaluation.area_of(mesh))
    found = maps(weights, *clouds)[:2]
    return [
        100 * float(np.linalg.norm(places[0] - places[1][f.p2p], axis=1).mean() / size)
        for f in found
    ]


def sizes(weights, folder, rng):
    """Two shapes as clouds of more and more random points of their surfaces."""
    collection = layouts.read_collection(folder)
    (start, wanted), shapes = collection.truth(0, 1), [m.shape for m in collection.members[:2]]
    chosen = evaluation.spaced(len(start), 500)
    result = []
    for n in SIZES:
        clouds = []
        for shape, rows in zip(shapes, (start[chosen], wanted[chosen]), strict=True):
            where = geometry.surface_points(shape.points[shape.faces], n, rng)
            drawn = geometry.on_surface(shape.points[shape.faces], *where)
            clouds.append(Shape(np.concatenate([shape.points[rows], drawn])))
        plain, registered, seconds = maps(weights, *clouds)
        nearest = geometry.scipy.spatial.cKDTree(shapes[1].points)
        far = geometry.geodesics(shapes[1], wanted[chosen])
        far /= np.sqrt(evaluation.area_of(shapes[1]))
        off = []
        for found in (plain, registered):
            ends = nearest.query(clouds[1].points[found.p2p[:500]])[1]
            off.append(100 * float(far[np.arange(500), ends].mean()))
        result.append([n, *off, seconds - plain.record["seconds"]["match"]])
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--animal", type=Path)
    parser.add_argument("--weights", default="human")
    options = parser.parse_args()
    weights, rng = model.load(options.weights), np.random.default_rng(0)
    rows = {}
    for name, ids in (("scape_r", range(0, 48, 6)), ("faust_r", [7, 13, 21, 39, 47, 52, 68, 74])):
        for kind, found in data_rows(weights, options.data / name, list(ids), rng).items():
            rows[f"{name}, {kind}"] = found
    rows["small and large people"] = builds(weights)
    if options.animal:
        rows[options.animal.stem] = [animal(weights, options.animal, rng)]
    result = {
        "machine": processor(), "date": datetime.date.today().isoformat(),
        "weights": options.weights, "rows": rows,
        "sizes": sizes(weights, options.data / "scape_r", rng),
    }  # fmt: skip
    print("| pairs | plain | registered | worst change |\n|---|---|---|---|")
    for name, found in rows.items():
        plain, registered = np.mean(found, axis=0)
        worst = max(after - before for before, after in found)
        print(f"| {name} ({len(found)}) | {plain:.2f} | {registered:.2f} | {worst:+.2f} |")
    print("| points | plain | registered | seconds more |\n|---|---|---|---|")
    for n, plain, registered, seconds in result["sizes"]:
        print(f"| {n:,} | {plain:.2f} | {registered:.2f} | {seconds:.1f} |")
    RESULT.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
