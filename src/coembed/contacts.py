"""Bodies that touch or run into themselves.

`touch` changes a pose so that two places of the skin meet: hands together, a hand on the body, a
foot on the other leg, legs pressed together. `penetration` finds what has gone too far. Takes and
gives what `coembed.skinning` and `coembed.poses` hold.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares
from scipy.spatial import cKDTree

from coembed import geometry, poses
from coembed.annotations import Bool, Float, Int
from coembed.skinning import BodyModel, posed, vertex_normals

__all__ = ["penetration", "touch"]

_DEPTH = 0.008  # metres
_ARM, _LEG = (2, 4, 6), (8, 10, 12)  # upper, lower, hand or foot of the left; the right's are + 1
_HANDS, _HAND, _FOOT = 0.3, 0.4, 0.15  # shares of the kinds of contact; the rest: both legs


@dataclass(frozen=True, eq=False)
class _Contact:
    """Two template triangles that shall meet, and the limbs that move, all by the same angles."""

    faces: Int[np.ndarray, " 2"]
    limbs: tuple[str, ...]


def touch(
    model: BodyModel,
    rest: Float[np.ndarray, "v 3"],
    joints: Float[np.ndarray, "b 3"],
    pose: poses.Pose,
    rng: np.random.Generator,
) -> poses.Pose:
    """The pose with arms or legs moved until two random places of the skin meet, face to face.

    Least squares over the limb's angles, within the joint limits and near the given pose; what
    cannot be reached is approached. Whether skin runs into skin is not looked at.
    """
    contact = _contact(model, rng)
    gap = rng.uniform(-0.004, 0.006)
    rows = model.faces[contact.faces].ravel()
    low, high = poses.limits(contact.limbs[0])
    unit = 30.0  # degrees

    def moved(angles: Float[np.ndarray, " a"]) -> poses.Pose:
        return poses.moved(pose, contact.limbs, unit * angles)

    def residuals(angles: Float[np.ndarray, " a"]) -> Float[np.ndarray, " r"]:
        corners = posed(model, rest, joints, moved(angles), rows=rows).reshape(2, 3, 3)
        normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-12)
        apart = corners[0].mean(axis=0) - corners[1].mean(axis=0) - gap * normals[1]
        return np.concatenate([apart / 0.01, 2 * normals.sum(axis=0), (angles - start) / 2])

    start = np.clip(getattr(pose, contact.limbs[0]), low + 1e-6, high - 1e-6) / unit
    found = least_squares(residuals, start, bounds=(low / unit, high / unit), max_nfev=8)
    return moved(found.x)


def _contact(model: BodyModel, rng: np.random.Generator) -> _Contact:
    part = model.parts[model.faces[:, 0]]
    side = int(rng.integers(2))
    name, kind = ("left", "right")[side], rng.random()
    if kind < _HANDS or kind >= _HANDS + _HAND + _FOOT:
        limb = "arm" if kind < _HANDS else "leg"
        one = _face(model, np.isin(part, [6] if limb == "arm" else _LEG), rng)
        centres = model.mean[model.faces].mean(axis=1)
        _, other = cKDTree(centres).query(centres[one] * [-1, 1, 1])
        return _Contact(np.array([one, other]), (f"left_{limb}", f"right_{limb}"))
    if kind < _HANDS + _HAND:
        moving, still = [6 + side], [p for p in range(14) if p not in [q + side for q in _ARM]]
        limb = "arm"
    else:
        moving, still = [10 + side, 12 + side], [q + 1 - side for q in _LEG]
        limb = "leg"
    chosen = [_face(model, np.isin(part, parts), rng) for parts in (moving, still)]
    return _Contact(np.array(chosen), (f"{name}_{limb}",))


def _face(model: BodyModel, among: Bool[np.ndarray, " f"], rng: np.random.Generator) -> int:
    area = geometry.face_areas(model.mean[model.faces]) * among
    return int(rng.choice(len(area), p=area / area.sum()))


def _part_pairs() -> list[tuple[int, int]]:
    """Ordered pairs of parts that must not run into each other: all but neighbours on a limb."""
    touching = set()
    for side in (0, 1):
        chain = [2 + 2 * i + side for i in range(6)]
        touching |= {(chain[0], chain[1]), (chain[1], chain[2])}  # upper arm, lower arm, hand
        touching |= {(chain[3], chain[4]), (chain[4], chain[5])}  # thigh, shin, foot
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
    normals = vertex_normals(vertices, model.faces)
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
