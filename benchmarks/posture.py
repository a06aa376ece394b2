"""Make anew what tells which way is up for a person.

``python benchmarks/posture.py --out runs/posture`` makes 30,000 people, who stand (45 %), sit on
the ground (20 %), crouch (10 %) or stoop (25 %), in eight minutes on two cores, fits the ridge
regression and trains the network in as many. What was made is not made again. posture.npz goes
into the package. Of 1,500 other people is told how often up is missed by more than 25 degrees.
"""

import argparse
import os
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
import torch
from scipy.spatial.transform import Rotation

from coembed import alignment, bodies, geometry, poses, posture, processes, rotations, skinning
from coembed.posture import Bearing

SHARDS, PEOPLE = 21, 1500  # the last shard is held out
KINDS = {
    "posed": poses.sample, "seated": poses.seated,
    "crouched": poses.crouched, "stooped": poses.stooped,
}  # fmt: skip
SHARES = (0.45, 0.2, 0.1, 0.25)
LANDMARKS, POINTS, AXES, RIDGE = 100, 400, 20, 1.0
DIRECTIONS, BLUR = 400, 8.0  # that are tried of each person; degrees
WIDTH, SECOND = 96, 48
STEPS, AT_ONCE, RATE, DECAY = 12000, 64, 4e-3, 1e-3
NOISE, OF_FORM = 0.01, 0.02  # sqrt(area): of the landmarks, of the form
TO_Y_UP = alignment.AXES["z"]


def size_of(vertices, faces):
    """The square root of the area."""
    return float(np.sqrt(geometry.face_areas(vertices[faces]).sum()))


def landmarks():
    """Places of the landmarks on the mean body, and what of each vertex counts for each of them."""
    template = skinning.body_model()
    size = size_of(template.mean, template.faces)
    places = template.mean @ TO_Y_UP.T / size
    at = bodies.on_mean(*bodies.landmarks(LANDMARKS)) @ TO_Y_UP.T / size
    return at, posture.shares(places, geometry.vertex_areas(places, template.faces), at)


def write_people(shard, path):
    """Kind, landmarks and points of people, upright, their area being 1."""
    _, share = landmarks()
    faces, points = skinning.body_model().faces, bodies.landmarks(POINTS)
    kinds, found = [], []
    for person in range(shard * PEOPLE, (shard + 1) * PEOPLE):
        rng = np.random.default_rng([person, 5])
        kind = int(rng.choice(len(SHARES), p=SHARES))
        body = bodies.body(rng, draw=list(KINDS.values())[kind])
        both = np.concatenate([share @ body.vertices, bodies.on_body(body, *points)])
        kinds.append(kind)
        found.append((both / size_of(body.vertices, faces)).astype(np.float32))
    np.savez(path, kinds=np.array(kinds), points=np.array(found))


def load_people(paths):
    shards = [np.load(path) for path in paths]
    kinds, points = (np.concatenate([one[name] for one in shards]) for name in ("kinds", "points"))
    return kinds, points - points[:, LANDMARKS:].mean(axis=1, keepdims=True)


def laid(people, at):
    """The landmarks of people, laid on the mean body, and the turns back."""
    found = [posture.laid_on(one.astype(np.float64), at) for one in people[:, :LANDMARKS]]
    lying, turns = (np.array(one) for one in zip(*found, strict=True))
    return lying.reshape(len(people), -1), turns.mT.reshape(len(people), 9)


def fitted(offsets, back):
    """Axes, forms and frame, from the offsets of people's landmarks and the turns back."""
    axes = np.linalg.svd(offsets, full_matrices=False)[2][:AXES]
    forms = offsets @ axes.T
    rows = posture.terms(offsets, forms)
    normal = rows.T @ rows + RIDGE * np.eye(rows.shape[1])
    return axes, forms, np.linalg.solve(normal, rows.T @ back)


def borne(people, seed):
    """For each person directions all around, turned at random, and how the ground bears them."""
    turns = Rotation.random(len(people), random_state=seed).as_matrix().astype(np.float32)
    share = np.full(POINTS, 1 / POINTS, np.float32)
    around = rotations.directions(DIRECTIONS).astype(np.float32)
    found = np.empty((3, len(people), DIRECTIONS), np.float32)
    for i, (one, turn) in enumerate(zip(people, turns, strict=True)):
        found[:, i] = posture.bearing(one[LANDMARKS:], share, around @ turn.T)
    return torch.from_numpy(turns), torch.from_numpy(found)


def first_parameters():
    """Random ones, as torch begins with."""
    sizes = {
        "first": (LANDMARKS + 2, WIDTH), "form": (AXES, WIDTH), "second": (WIDTH, SECOND),
        "last": (SECOND, 1), "shortcut": (LANDMARKS + 2, 1),
    }  # fmt: skip
    modules = {name: torch.nn.Linear(*size) for name, size in sizes.items()}
    return {
        f"{name}.{kind}": value.detach().requires_grad_()
        for name, module in modules.items()
        for kind, value in module.named_parameters()
    }


class People:
    """Tensors of people, to be trained on; forms are in units of their standard deviations."""

    def __init__(self, points, forms, seed):
        self.landmarks = torch.from_numpy(points[:, :LANDMARKS])
        self.forms = torch.from_numpy(forms.astype(np.float32))
        self.turns, self.bearing = borne(points, seed)
        self.around = torch.from_numpy(rotations.directions(DIRECTIONS).astype(np.float32))

    def loss(self, parameters, rows, noise=0.0, of_form=0.0):
        """Cross-entropy to the directions near up of each; how far from it the likeliest is."""
        ups = self.around @ self.turns[rows].mT
        found = Bearing(*self.bearing[:, rows])
        places, forms = self.landmarks[rows], self.forms[rows]
        places = places + noise * torch.randn(places.shape)
        forms = forms + of_form * torch.randn(forms.shape)
        heights = ups @ places.mT - found.lowest[..., None]
        values = posture.scores(parameters, heights, found, forms)
        angles = torch.rad2deg(torch.arccos(ups[..., 1].clamp(-1, 1)))
        truth = (-((angles / BLUR) ** 2) / 2).softmax(-1)
        loss = -(truth * values.log_softmax(-1)).sum(-1)
        return loss, angles.gather(-1, values.argmax(-1, keepdim=True))[..., 0]


def train(people, held, kinds, scale, steps):
    torch.manual_seed(0)
    parameters = first_parameters()
    optimizer = torch.optim.AdamW(parameters.values(), RATE, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=steps)
    for step in range(steps):
        rows = torch.randint(len(people.forms), (AT_ONCE,))
        loss = people.loss(parameters, rows, NOISE, OF_FORM / scale)[0].mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if (step + 1) % 1000 == 0:
            print(step + 1, *judged(parameters, held, kinds), flush=True)
    return parameters


@torch.no_grad()
def judged(parameters, held, kinds):
    """Of each kind of people: cross-entropy, share missed by more than 25 degrees."""
    found = [held.loss(parameters, rows) for rows in torch.arange(len(kinds)).split(100)]
    loss, angles = (torch.cat(one).numpy() for one in zip(*found, strict=True))
    return [
        (name, *(round(float(one[kinds == kind].mean()), 3) for one in (loss, angles > 25)))
        for kind, name in enumerate(KINDS)
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    paths = [options.out / f"people-{shard}.npz" for shard in range(SHARDS)]
    missing = [shard for shard, path in enumerate(paths) if not path.is_file()]
    with processes.pool(options.jobs) as pool:
        list(pool.map(write_people, missing, [paths[shard] for shard in missing]))
    at, _ = landmarks()
    (_, people), (kinds, held) = load_people(paths[:-1]), load_people(paths[-1:])
    (lying, back), (others, _) = laid(people, at), laid(held, at)
    usual = lying.mean(axis=0)
    axes, forms, frame = fitted(lying - usual, back)
    scale = forms.std(axis=0).astype(np.float32)
    people = People(people, forms / scale, 1)
    held = People(held, (others - usual) @ axes.T / scale, 2)
    torch.set_num_threads(options.jobs)
    parameters = train(people, held, kinds, torch.from_numpy(scale), options.steps)
    stored = {name: value.detach().numpy() for name, value in parameters.items()}
    stored["form.weight"] = stored["form.weight"] / scale
    stored = {name: value.astype(np.float16) for name, value in stored.items()}
    known = {"landmarks": at, "usual": usual.reshape(-1, 3), "axes": axes, "frame": frame}
    stored |= {name: value.astype(np.float32) for name, value in known.items()}
    np.savez(options.out / "posture.npz", **stored)


if __name__ == "__main__":
    main()
