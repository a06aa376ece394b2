"""How well things are carried between generated bodies, by the true map and by a predicted one.

    python benchmarks/transfer.py [--pairs 10] [--points 5000]

Each pair is two people in different poses, sampled independently. Labels are the true body parts,
the smooth attribute is the place on the mean body, landmarks are 50 template points. Written to
benchmarks/results/transfer.json.
"""

import argparse
import json
import platform
from pathlib import Path

import numpy as np
from scipy.spatial import cKDTree

import coembed
from coembed import bodies
from coembed.landmarks import carry_landmarks, place
from coembed.shapes import Correspondence, Shape
from coembed.skinning import body_model
from coembed.transfer import transfer

BORDER = 0.03  # metres on the mean body: points nearer to another part are left out
RESULT = Path(__file__).parent / "results" / "transfer.json"


def made(seed: int, n: int) -> tuple[bodies.Body, bodies.Sample, Shape]:
    """A body, a sample of it, and the sample as a shape with its true attributes."""
    rng = np.random.default_rng([9, seed])
    body = bodies.body(rng)
    sample = bodies.sample(body, n, rng)
    model = body_model()
    corner = model.faces[sample.face, sample.barycentric.argmax(axis=1)]
    attributes = {"part": model.parts[corner].astype(np.int32), "place": sample.place}
    return body, sample, Shape(sample.shape.points, name=f"body {seed}", attributes=attributes)


def judged(pair, to: str, matches: Correspondence) -> dict[str, float]:
    """Share of right labels away from borders, error of places and of landmarks in cm."""
    source, target = pair[0][2], pair[1][2]
    (body, sample, receiver), giver = (pair[0], pair[1]) if to == "source" else pair[::-1]
    bare = [
        Shape(s.points, attributes=s.attributes if s is giver[2] else {}) for s in (source, target)
    ]
    got = transfer(*bare, matches, to=to).attributes
    label, near = receiver.attributes["part"], cKDTree(sample.place)
    around = near.query_ball_point(sample.place, BORDER)
    inner = np.array([(label[rows] == label[i]).all() for i, rows in enumerate(around)])
    answered = np.isfinite(got["place"]).all(axis=1)
    apart = np.linalg.norm(got["place"] - sample.place, axis=1)[answered]
    face, barycentric = bodies.landmarks(50)
    names = tuple(map(str, range(50)))
    given = place(giver[2], names, bodies.on_body(giver[0], face, barycentric))
    moved = carry_landmarks(source, target, matches, given, to=to)
    off = np.linalg.norm(moved.points - bodies.on_body(body, face, barycentric), axis=1)
    return {
        "labels_%": 100 * (got["part"][inner] == label[inner]).mean(),
        "labels_all_%": 100 * (got["part"] == label).mean(),
        "place_cm": 100 * apart.mean(),
        "landmarks_cm": 100 * np.nanmean(off),
        "empty_%": 100 * (~answered).mean(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--points", type=int, default=5000)
    given = parser.parse_args()
    model = coembed.load()
    found: dict[str, list[dict[str, float]]] = {}
    for i in range(given.pairs):
        pair = (made(2 * i, given.points), made(2 * i + 1, given.points))
        exact = cKDTree(pair[1][1].place).query(pair[0][1].place)[1]
        maps = {"true": Correspondence(exact, np.ones(len(exact)), given.points)}
        for refine in ("none", "register"):
            maps[refine] = coembed.match(model, pair[0][2], pair[1][2], refine=refine)
        for name, matches in maps.items():
            for to in ("source", "target"):
                found.setdefault(f"{name}, to {to}", []).append(judged(pair, to, matches))
    table = {
        name: {k: round(float(np.mean([one[k] for one in rows])), 2) for k in rows[0]}
        for name, rows in found.items()
    }
    facts = {"pairs": given.pairs, "points": given.points, "python": platform.python_version()}
    RESULT.write_text(json.dumps(facts | {"table": table}, indent=1) + "\n")
    print(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()
