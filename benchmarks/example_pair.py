"""Make the example pair that ships with the package: two people, two poses, exact truth."""

from pathlib import Path

import numpy as np
from scipy.spatial import cKDTree

from coembed import bodies, files, formats

SEEDS = (13, 0)
POINTS = 5000
OUT = Path(__file__).parent.parent / "src" / "coembed" / "data" / "example"


def main() -> None:
    OUT.mkdir(exist_ok=True)
    people = [bodies.body(np.random.default_rng([2026, seed])) for seed in SEEDS]
    samples = [
        bodies.sample(body, POINTS, np.random.default_rng([2026, seed, 1]))
        for body, seed in zip(people, SEEDS, strict=True)
    ]
    for side, sample in zip(("source", "target"), samples, strict=True):
        formats.write(OUT / f"{side}.ply", sample.shape, force=True)
    # the source's points as they lie on the target's surface, and the target sample nearest
    exact = bodies.on_body(people[1], samples[0].face, samples[0].barycentric)
    _, nearest = cKDTree(samples[1].shape.points).query(exact)
    content = "\n".join(map(str, nearest.tolist())) + "\n"
    files.write_bytes(OUT / "truth.txt", content.encode(), force=True)


if __name__ == "__main__":
    main()
