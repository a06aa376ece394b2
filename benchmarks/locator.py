"""Train the locator that ships anew: ``python benchmarks/locator.py --out runs/locator``.

Parts of 6,000 generated people, six of each, are made once (20 minutes of one core) and kept in the
folder; then the network of `coembed.locator` learns, in 15,000 steps of 16 parts (an hour of two
cores), which of 256 anchors on the mean body each of 128 points is at. What is in the folder is
gone on with; ``locator.npz`` there is what ``src/coembed/data`` holds. One part in 24 is never
trained on: their cross-entropy, the median error and the share within 0.15 are printed.
"""

import argparse
import math
import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

os.environ["OMP_WAIT_POLICY"] = "PASSIVE"

import numpy as np
import torch
from scipy.spatial import cKDTree

from coembed import alignment, bodies, geometry, locator, normals, poses, sampling, skinning

SHARDS, PEOPLE = 24, 250
KEPT, LOOKED_AT = 320, 128  # points of a part that are stored, and that a step looks at
ANCHORS, WIDTH, RELATIONS = 256, 96, 24
AT_ONCE, STEPS, WARM, RATE, DECAY = 16, 15_000, 300, 1e-3, 0.01
BLUR, FACING = 0.03, 0.05  # sqrt(area): of the truth; that opposite normals are apart, halved
NOISE, FLIPPED = 0.01, 0.03  # most, of a part's size, in half of the parts; share of the normals
TO_Y_UP = alignment.AXES["z"]
CUTS = ("views", "planes", "pieces", "pieces", "pieces")


def write_parts(shard, path):
    """Points, outward normals and places of parts of generated people."""
    rng = np.random.default_rng(1001 + shard)
    parts = []
    for person in range(PEOPLE):
        lot = rng.random()
        draw = poses.seated if lot < 0.05 else poses.crouched if lot < 0.08 else None
        body = bodies.body(rng, touching=0.2, draw=draw)
        for cut in (*CUTS, ("holes", "limbs")[person % 2]):
            scan = bodies.scan(body, int(rng.integers(900, 2500)), rng, cut=cut)
            points = scan.shape.points
            rows = rng.permutation(sampling.thin(points, KEPT + 20))[:KEPT]
            if len(rows) == KEPT:
                towards = normals.outward(points)[rows]
                parts.append(np.stack([points[rows], towards, scan.place[rows]]))
    np.save(path, np.array(parts, dtype=np.float32))


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


def train(parts, held, body, folder):
    torch.manual_seed(0)
    parameters, path = first_parameters(), folder / "state.pt"
    optimizer = torch.optim.AdamW(parameters.values(), RATE, weight_decay=DECAY)
    first = 0
    if path.is_file():
        first, stored, state = torch.load(path)
        for name, value in stored.items():
            parameters[name].data.copy_(value)
        optimizer.load_state_dict(state)
    anchors = torch.from_numpy(np.hstack([body.places, FACING * body.normals])).float()
    for step in range(first, STEPS):
        random = torch.Generator().manual_seed(step)
        share = 0.5 + 0.5 * math.cos(math.pi * step / STEPS)
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1, (step + 1) / WARM) * share
        chosen = torch.randint(len(parts[0]), (AT_ONCE,), generator=random)
        rows = torch.randperm(KEPT, generator=random)[:LOOKED_AT]
        points, towards = parts[0][chosen][:, :, rows].unbind(1)
        points, towards = disturbed(points, towards, random)
        loss, _ = loss_of(parameters, points, towards, parts[1][chosen][:, rows], anchors)
        optimizer.zero_grad()
        loss.backward()
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
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(options.jobs)
    paths = [options.out / f"parts-{shard}.npy" for shard in range(SHARDS)]
    missing = [shard for shard, path in enumerate(paths) if not path.is_file()]
    with ProcessPoolExecutor(options.jobs) as pool:
        list(pool.map(write_parts, missing, [paths[shard] for shard in missing]))
    body = Body()
    parts, held = load_parts(paths[:-1], body), load_parts(paths[-1:], body)
    print(len(parts[0]), "parts,", len(held[0]), "held out", flush=True)
    parameters = train(parts, held, body, options.out)
    stored = {name: value.detach().numpy().astype(np.float16) for name, value in parameters.items()}
    places, towards = (one.astype(np.float32) for one in (body.places, body.normals))
    np.savez(options.out / "locator.npz", places=places, normals=towards, **stored)


if __name__ == "__main__":
    main()
