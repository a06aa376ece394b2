"""Parts of generated bodies and of the FAUST test shapes: agreement across shapes, and with truth.

    python benchmarks/segmentation.py [--faust data/faust_r]

Consistency: the share of template points that have the same label on two shapes, mean over all
pairs. IoU: of the generated bodies' true parts (14, by the strongest bone), each found part
assigned to one of them, the best way. Written to benchmarks/results/segmentation.json.
"""

import argparse
import json
import platform
from itertools import combinations
from pathlib import Path

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial import cKDTree

import coembed
from coembed import bodies, files, matching
from coembed.segmentation import segment
from coembed.skinning import body_model

NUMBERS = (4, 6, 8, 10, 14)
RESULT = Path(__file__).parent / "results" / "segmentation.json"


def agreement(at: list[np.ndarray]) -> tuple[float, float]:
    """Mean and least share of samples with equal labels, over pairs of shapes."""
    shares = [float((one == other).mean()) for one, other in combinations(at, 2)]
    return round(100 * float(np.mean(shares)), 1), round(100 * min(shares), 1)


def intersection(found: list[np.ndarray], true: list[np.ndarray], n: int) -> float:
    """Mean IoU over the true parts; 0 for those that no found part is assigned to."""
    count = np.zeros((n, max(t.max() for t in true) + 1))
    for one, other in zip(found, true, strict=True):
        np.add.at(count, (one, other), 1)
    iou = count / (count.sum(axis=0)[None] + count.sum(axis=1)[:, None] - count)
    rows, columns = linear_sum_assignment(-iou)
    return round(100 * float(iou[rows, columns].sum() / count.shape[1]), 1)


def judged(model, embedded, rows, true=None) -> dict[str, dict[str, object]]:
    """Agreement at these rows by number of parts; IoU of joint parts where truth is known."""
    table: dict[str, dict[str, object]] = {}
    for joint in (True, False):
        for n in NUMBERS:
            labels = [x[:, 0] for x in segment(model, embedded, parts=n, joint=joint).labels]
            mean, least = agreement([x[r] for x, r in zip(labels, rows, strict=True)])
            name = f"{n} parts, {'joint' if joint else 'independent'}"
            table[name] = {"same_%": mean, "worst_pair_%": least}
            if joint and true is not None:
                table[name]["mean_iou_%"] = intersection(labels, true, n)
    return table


def on_bodies(model) -> dict[str, dict[str, object]]:
    corners = body_model()
    samples, true, embedded = [], [], []
    for i in range(20):
        rng = np.random.default_rng([7, i])
        samples.append(bodies.sample(bodies.body(rng), 4000, rng))
        nearest = samples[-1].barycentric.argmax(axis=1)
        true.append(corners.parts[corners.faces[samples[-1].face, nearest]])
        embedded.append(matching.embed(model, samples[-1].shape))
    template = bodies.on_mean(*bodies.landmarks(2000))
    rows = [cKDTree(sample.place).query(template)[1] for sample in samples]
    return judged(model, embedded, rows, true)


def on_faust(model, folder: Path) -> dict[str, dict[str, object]]:
    paths = sorted((folder / "off").glob("*.off"))[80:100]
    embedded = [matching.embed(model, coembed.read(path)) for path in paths]
    rows = [files.read_vts(folder / "corres" / f"{path.stem}.vts") for path in paths]
    return judged(model, embedded, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faust", type=Path)
    given = parser.parse_args()
    model = coembed.load()
    facts: dict[str, object] = {"python": platform.python_version(), "bodies": on_bodies(model)}
    if given.faust:
        facts["faust"] = on_faust(model, given.faust)
    RESULT.write_text(json.dumps(facts, indent=1) + "\n")
    print(json.dumps(facts, indent=1))


if __name__ == "__main__":
    main()
