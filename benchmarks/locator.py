"""Train the locator that ships anew: ``python benchmarks/locator.py --out runs/locator``.

Parts of 3,600 generated people, eight of each, are made once (40 minutes of one core) and kept in
the folder; then the network of `coembed.locator` learns, in steps of 16 parts (0.4 s of two cores),
which of 256 anchors on the mean body each of 112 points is at. What is in the folder is gone on
with; ``locator.npz`` there is what ``src/coembed/data`` holds. One part in 24 is never trained on:
their cross-entropy, the median error and the share within 0.15 are printed.

What ships learned in two runs: 15,000 steps of 128 points, of parts of 5,750 other people without
lone limbs and slabs; then ``--start FIRST.npz --steps 6000``.
"""

import argparse
import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from scipy.spatial import cKDTree

from coembed import (
    alignment,
    bodies,
    geometry,
    locator,
    normals,
    poses,
    processes,
    sampling,
    skinning,
)

SHARDS, PEOPLE = 24, 150
KEPT, LOOKED_AT = 320, 112  # points of a part that are stored, and that a step looks at
ANCHORS, WIDTH, RELATIONS = 256, 96, 24
AT_ONCE, TOGETHER = 16, 4  # parts of a step; in a thread, so that they fit in its cache
STEPS, WARM, RATE, DECAY = 20_000, 300, 1e-3, 0.01
BLUR, FACING = 0.03, 0.05  # sqrt(area): of the truth; that opposite normals are apart, halved
NOISE, FLIPPED = 0.01, 0.03  # most, of a part's size, in half of the parts; share of the normals
TO_Y_UP = alignment.AXES["z"]
CUTS = ("views", "planes", "pieces", "pieces")
LIMBS = ((2, 4, 6), (3, 5, 7), (8, 10, 12), (9, 11, 13), (1,), (0,))  # arms, legs, head, torso
LENGTH, SLAB = (0.4, 1.0), (0.08, 0.35)  # shares of a limb's points, and of a body's


def write_parts(shard, path):
    """Points, outward normals and places of parts of generated people."""
    rng = np.random.default_rng(2001 + shard)
    parts = []
    for person in range(PEOPLE):
        lot = rng.random()
        draw = poses.seated if lot < 0.05 else poses.crouched if lot < 0.08 else None
        body = bodies.body(rng, touching=0.35, draw=draw)
        scans = []
        for cut in (*CUTS, ("holes", "limbs")[person % 2]):
            scan = bodies.scan(body, int(rng.integers(900, 2500)), rng, cut=cut)
            scans.append((scan.shape.points, scan.place))
        whole = bodies.scan(body, 16_000, rng)
        for chosen in (limb(whole, rng), limb(whole, rng), slab(whole, rng)):
            rows = chosen[: int(rng.integers(900, 2500))]
            scans.append((whole.shape.points[rows], whole.place[rows]))
        for points, places in scans:
            rows = rng.permutation(sampling.thin(points, KEPT + 20))[:KEPT]
            if len(rows) == KEPT:
                towards = normals.outward(points)[rows]
                parts.append(np.stack([points[rows], towards, places[rows]]))
    np.save(path, np.array(parts, dtype=np.float32))


def limb(scan, rng):
    """Rows of an arm, a leg, the head or the torso, or of a stretch of one."""
    model = skinning.body_model()
    parts = LIMBS[rng.integers(len(LIMBS))]
    rows = np.flatnonzero(np.isin(model.parts[model.faces[scan.face, 0]], parts))
    places = scan.place[rows]
    axis = np.linalg.svd(places - places.mean(axis=0), full_matrices=False)[2][0]
    return rows[stretch(places @ (axis + rng.normal(0, 0.2, 3)), rng.uniform(*LENGTH), rng)]


def slab(scan, rng):
    """Rows between two planes, as the body stands or on the mean body."""
    points = scan.place if rng.random() < 0.5 else scan.shape.points
    return np.flatnonzero(stretch(points @ rng.standard_normal(3), rng.uniform(*SLAB), rng))


def stretch(along, share, rng):
    """Which values are within an interval that holds this share of them."""
    first = rng.uniform(0, 1 - share)
    low, high = np.quantile(along, [first, first + share])
    return (along >= low) & (along <= high)


class Body:
    """The mean body, y up, its area being 1; its anchors."""

    def __init__(self):
        model = skinning.body_model()
        self.size = float(np.sqrt(geometry.face_areas(model.mean[model.faces]).sum()))
        mean = model.mean @ TO_Y_UP.T / self.size
        self._normals = skinning.vertex_normals(mean, model.faces)
        self._tree = cKDTree(mean)
        points = bodies.on_mean(*bodies.landmarks(8000)) @ TO_Y_UP.T / self.size
        self.places = points[sampling.thin(points, ANCHORS)]
        self.normals = self.normals_at(self.places)

    def normals_at(self, places):
        """Unit normals of the mean body where it is nearest."""
        return self._normals[self._tree.query(places)[1]]

    def seats(self, metres):
        """Where places are, and which way the body faces there."""
        places = metres @ TO_Y_UP.T / self.size
        return np.concatenate([places, FACING * self.normals_at(places)], axis=-1)


def load_parts(paths, body):
    """Tensors: points and normals, and seats."""
    parts = np.concatenate([np.load(path) for path in paths])
    seats = body.seats(parts[:, 2]).astype(np.float32)
    return torch.from_numpy(parts[:, :2]), torch.from_numpy(seats)


def first_parameters():
    """Random ones, as torch begins with."""
    heads, layers, c, e = locator.HEADS, locator.LAYERS, WIDTH, RELATIONS
    sizes = {"pairs.0": (10, 32), "pairs.1": (32, e), "first": (3 * e + 3, c), "last": (c, ANCHORS)}
    norms = ["norm"]
    for name in (f"layers.{layer}" for layer in range(layers)):
        sizes |= {
            f"{name}.attend": (c, 3 * c), f"{name}.bias": (e, heads),
            f"{name}.merge": (c + heads * e, c),
            f"{name}.mlp.0": (c, 2 * c), f"{name}.mlp.1": (2 * c, c),
        }  # fmt: skip
        norms += [f"{name}.norm.0", f"{name}.norm.1"]
    modules = {name: torch.nn.Linear(*size) for name, size in sizes.items()}
    modules |= {name: torch.nn.LayerNorm(c) for name in norms}
    return {
        f"{name}.{kind}": value.detach().requires_grad_()
        for name, module in modules.items()
        for kind, value in module.named_parameters()
    }


def loss_of(parameters, points, towards, seats, anchors):
    """Cross-entropy to the anchors near the truth, and the likeliest ones."""
    truth = (-torch.cdist(seats, anchors).square() / (2 * BLUR**2)).softmax(-1)
    found = locator.scores(parameters, points, towards).log_softmax(-1)
    return -(truth * found).sum(-1).mean(), found.argmax(-1)


def disturbed(points, towards, random):
    """With noise and wrong normals."""
    count = len(points)
    most = NOISE * points.std(1).norm(dim=-1)[:, None, None]
    most = most * torch.rand(count, 1, 1, generator=random)
    most = most * (torch.rand(count, 1, 1, generator=random) < 0.5)
    wrong = torch.rand(towards.shape[:2], generator=random) < FLIPPED
    noise = torch.randn(points.shape, generator=random)
    return points + most * noise, torch.where(wrong[..., None], -towards, towards)


def train(parts, held, body, options):
    torch.manual_seed(0)
    parameters, path = first_parameters(), options.out / "state.pt"
    if options.start is not None:
        stored = np.load(options.start)
        for name, value in parameters.items():
            value.data.copy_(torch.from_numpy(stored[name].astype(np.float32)))
    optimizer = torch.optim.AdamW(parameters.values(), RATE, weight_decay=DECAY)
    first = 0
    if path.is_file():
        first, stored, state = torch.load(path)
        for name, value in stored.items():
            parameters[name].data.copy_(value)
        optimizer.load_state_dict(state)
    anchors = torch.from_numpy(np.hstack([body.places, FACING * body.normals])).float()
    pool = ThreadPoolExecutor(options.jobs)

    def gradient(points, towards, seats):
        loss, _ = loss_of(parameters, points, towards, seats, anchors)
        return torch.autograd.grad(loss, tuple(parameters.values()))

    for step in range(first, options.steps):
        random = torch.Generator().manual_seed(step)
        share = 0.5 + 0.5 * math.cos(math.pi * step / options.steps)
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1, (step + 1) / WARM) * share
        chosen = torch.randint(len(parts[0]), (AT_ONCE,), generator=random)
        rows = torch.randperm(KEPT, generator=random)[:LOOKED_AT]
        points, towards = parts[0][chosen][:, :, rows].unbind(1)
        sides = (*disturbed(points, towards, random), parts[1][chosen][:, rows])
        found = pool.map(gradient, *(side.split(TOGETHER) for side in sides))
        for value, several in zip(parameters.values(), zip(*found, strict=True), strict=True):
            value.grad = torch.stack(several).mean(0)
        torch.nn.utils.clip_grad_norm_(parameters.values(), 1.0)
        optimizer.step()
        if (step + 1) % 500 == 0:
            torch.save((step + 1, parameters, optimizer.state_dict()), path)
            print(step + 1, *judged(parameters, held, anchors), flush=True)
    return parameters


@torch.no_grad()
def judged(parameters, held, anchors):
    """Cross-entropy, median error (sqrt(area) of the body) and share within 0.15."""
    found = []
    for sides, seats in zip(held[0][::3].split(50), held[1][::3].split(50), strict=True):
        points, towards = sides[:, :, :LOOKED_AT].unbind(1)
        seats = seats[:, :LOOKED_AT]
        loss, likeliest = loss_of(parameters, points, towards, seats, anchors)
        off = (anchors[likeliest] - seats)[..., :3].norm(dim=-1)
        found.append([loss, off.median(), (off < 0.15).float().mean()])
    return np.mean(found, axis=0).round(3)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--start", type=Path, help="locator.npz of other weights to go on from")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    paths = [options.out / f"parts-{shard}.npy" for shard in range(SHARDS)]
    missing = [shard for shard, path in enumerate(paths) if not path.is_file()]
    with processes.pool(options.jobs) as pool:
        list(pool.map(write_parts, missing, [paths[shard] for shard in missing]))
    body = Body()
    parts, held = load_parts(paths[:-1], body), load_parts(paths[-1:], body)
    print(len(parts[0]), "parts,", len(held[0]), "held out", flush=True)
    parameters = train(parts, held, body, options)
    stored = {name: value.detach().numpy().astype(np.float16) for name, value in parameters.items()}
    places, towards = (one.astype(np.float32) for one in (body.places, body.normals))
    np.savez(options.out / "locator.npz", places=places, normals=towards, **stored)


if __name__ == "__main__":
    main()
