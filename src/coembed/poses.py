"""Human poses: anatomical angles, their limits, and the joint rotations they stand for.

Takes a random generator, gives a `Pose`; `rotations` turns it into one rotation per moving bone
of a body whose joints are known. Frame: metres, z up, the body looks along -y, its left is +x.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from coembed.annotations import Float

__all__ = [
    "ARCHETYPES",
    "Pose",
    "crouched",
    "limits",
    "mirror",
    "moved",
    "rotations",
    "sample",
    "seated",
    "stooped",
]

_REST_ARM = (12, 15, 0, 12, 0, 0, 0)
_REST_LEG = (3, 6, 5, 5, 0)


@dataclass(frozen=True, eq=False)
class Pose:
    """Anatomical angles in degrees.

    Parameters
    ----------
    spine, neck
        Bend forward, bend to the left, turn to the left.
    left_arm, right_arm
        Raise (0 hanging, 90 level, 180 overhead), azimuth (0 to the side, 90 to the front,
        180 across the body), twist, elbow, forearm roll, wrist bend, wrist to the side.
    left_leg, right_leg
        Forward, outward, twist, knee, ankle.
    root
        Pitch forward, roll, yaw of the whole body.
    hands, spread
        Curl and spread of the fingers of the left and the right hand.
    noise
        How far `sample` may stray from this pose, as a factor on its standard deviations.
    """

    spine: Float[np.ndarray, " 3"]
    neck: Float[np.ndarray, " 3"]
    left_arm: Float[np.ndarray, " 7"]
    right_arm: Float[np.ndarray, " 7"]
    left_leg: Float[np.ndarray, " 5"]
    right_leg: Float[np.ndarray, " 5"]
    root: Float[np.ndarray, " 3"]
    hands: Float[np.ndarray, " 2"]
    spread: Float[np.ndarray, " 2"]
    noise: float = 1.0


def _pose(
    *,
    spine: Sequence[float | int] = (0, 0, 0),
    neck: Sequence[float | int] = (0, 0, 0),
    arms: Sequence[float | int] = _REST_ARM,
    right_arm: Sequence[float | int] | None = None,
    legs: Sequence[float | int] = _REST_LEG,
    right_leg: Sequence[float | int] | None = None,
    root: Sequence[float | int] = (0, 0, 0),
    hands: Sequence[float | int] = (20, 20),
    noise: float = 1.0,
) -> Pose:
    """A pose whose right side repeats the left one unless it is given."""
    return Pose(
        spine=np.array(spine, float),
        neck=np.array(neck, float),
        left_arm=np.array(arms, float),
        right_arm=np.array(arms if right_arm is None else right_arm, float),
        left_leg=np.array(legs, float),
        right_leg=np.array(legs if right_leg is None else right_leg, float),
        root=np.array(root, float),
        hands=np.array(hands, float),
        spread=np.zeros(2),
        noise=noise,
    )


# fmt: off
ARCHETYPES: Mapping[str, Pose] = {
    "stand": _pose(),
    "a_pose": _pose(arms=(45, 10, 0, 8, 0, 0, 0), legs=(0, 12, 5, 3, 0)),
    "t_pose": _pose(arms=(90, 5, 0, 5, 0, 0, 0), legs=(0, 8, 5, 3, 0)),
    "arms_up": _pose(arms=(160, 25, 0, 12, 0, 0, 0), spine=(-5, 0, 0)),
    "arms_v": _pose(arms=(135, 10, 0, 10, 0, 0, 0), legs=(0, 22, 8, 3, 0)),
    "arms_forward": _pose(arms=(88, 88, 0, 8, 0, 0, 0)),
    "hands_on_hips": _pose(arms=(52, -8, 66, 74, 0, 5, 0), legs=(0, 10, 8, 3, 0), noise=0.5),
    "arms_crossed": _pose(arms=(42, 80, 40, 100, 0, 0, 0), right_arm=(52, 85, 40, 88, 0, 0, 0), noise=0.5),
    "one_up": _pose(arms=(165, 30, 0, 15, 0, 0, 0), right_arm=(15, 10, 0, 15, 0, 0, 0), spine=(0, -5, 0)),
    "point": _pose(arms=(85, 60, 0, 5, 0, 0, 0), right_arm=(52, -8, 66, 74, 0, 5, 0), neck=(0, 0, 30), hands=(15, 30)),
    "biceps": _pose(arms=(88, 15, -85, 100, 0, 0, 0), hands=(70, 70)),
    "wave": _pose(arms=(80, 20, -80, 80, 0, 0, 0), right_arm=_REST_ARM),
    "salute": _pose(arms=(85, 40, -45, 125, 0, 0, 0), right_arm=_REST_ARM, noise=0.6),
    "hands_behind_head": _pose(arms=(125, -5, -55, 125, 0, 0, 0), noise=0.5),
    "walk": _pose(arms=(28, 88, 0, 25, 0, 0, 0), right_arm=(22, -75, 0, 15, 0, 0, 0), legs=(-22, 3, 3, 22, 15), right_leg=(28, 3, 3, 8, -5), spine=(5, 0, 8)),
    "run": _pose(arms=(50, 85, 10, 90, 0, 0, 0), right_arm=(45, -75, 0, 90, 0, 0, 0), legs=(-30, 3, 3, 75, 30), right_leg=(60, 3, 3, 65, 0), spine=(15, 0, 12), root=(10, 0, 0), hands=(60, 60)),
    "kick_front": _pose(arms=(55, 20, 0, 30, 0, 0, 0), right_arm=(50, 60, 0, 40, 0, 0, 0), legs=(85, 5, 0, 10, 25), right_leg=(-5, 5, 8, 12, 0), spine=(-12, 0, 0)),
    "kick_side": _pose(arms=(60, 30, 0, 40, 0, 0, 0), right_arm=(45, 60, 20, 70, 0, 0, 0), legs=(25, 70, 20, 10, 10), right_leg=(0, 12, 10, 10, 0), spine=(0, -25, 0), root=(0, 12, 0)),
    "knee_up": _pose(arms=(40, 40, 0, 60, 0, 0, 0), legs=(95, 8, 0, 95, 20), right_leg=(0, 5, 5, 5, 0)),
    "tree": _pose(arms=(168, 40, 0, 35, 0, 0, 0), legs=(55, 60, 55, 120, 25), right_leg=(0, 2, 3, 3, 0), noise=0.5),
    "flamingo": _pose(arms=(70, 20, 0, 20, 0, 0, 0), legs=(-5, 3, 0, 110, 30), right_leg=(0, 4, 3, 5, 0)),
    "squat": _pose(arms=(80, 80, 0, 15, 0, 0, 0), legs=(80, 22, 15, 95, 22), spine=(25, 0, 0), root=(15, 0, 0)),
    "crouch": _pose(arms=(60, 75, 0, 40, 0, 0, 0), legs=(108, 28, 12, 128, 28), spine=(35, 0, 0), root=(20, 0, 0), neck=(-15, 0, 0), noise=0.6),
    "lunge": _pose(arms=(35, 40, 0, 50, 0, 0, 0), legs=(75, 4, 3, 85, 15), right_leg=(-25, 4, 3, 35, 25), spine=(8, 0, 0)),
    "side_lunge": _pose(arms=(70, 60, 0, 25, 0, 0, 0), legs=(55, 35, 15, 75, 20), right_leg=(5, 42, 5, 4, 0), spine=(20, 8, 0)),
    "bow": _pose(arms=(50, 80, 0, 10, 0, 0, 0), legs=(50, 7, 5, 6, 0), spine=(35, 0, 0), root=(50, 0, 0), neck=(-10, 0, 0)),
    "toe_touch": _pose(arms=(135, 85, 0, 8, 0, 0, 0), legs=(75, 8, 4, 8, 0), spine=(50, 0, 0), root=(72, 0, 0), neck=(15, 0, 0), noise=0.6),
    "bend_back": _pose(arms=(150, 40, 0, 20, 0, 0, 0), legs=(-12, 10, 5, 22, 0), spine=(-35, 0, 0), neck=(-20, 0, 0)),
    "side_bend": _pose(arms=(160, 20, 0, 30, 0, 0, 0), right_arm=(12, 10, 0, 20, 0, 0, 0), spine=(0, -32, 0), neck=(0, -12, 0), legs=(0, 14, 5, 4, 0)),
    "twist": _pose(arms=(80, 20, 0, 30, 0, 0, 0), right_arm=(70, 70, 0, 40, 0, 0, 0), spine=(8, 0, 42), neck=(0, 0, 25), legs=(0, 14, 8, 8, 0)),
    "sit": _pose(arms=(35, 75, 0, 55, 0, 0, 0), legs=(88, 12, 3, 88, 0), spine=(6, 0, 0)),
    "sit_floor": _pose(arms=(40, 30, 0, 15, 0, 0, 0), legs=(92, 14, 4, 8, -10), spine=(15, 0, 0)),
    "kneel": _pose(arms=(35, 50, 0, 40, 0, 0, 0), legs=(92, 6, 3, 95, 5), right_leg=(0, 6, 3, 100, 35), spine=(5, 0, 0)),
    "throw": _pose(arms=(100, -20, -70, 85, 0, 0, 0), right_arm=(75, 70, 0, 15, 0, 0, 0), legs=(-20, 8, 5, 20, 15), right_leg=(40, 6, 5, 20, 0), spine=(-8, 5, 25), hands=(60, 20)),
    "boxing": _pose(arms=(48, 78, 5, 115, 0, 0, 0), right_arm=(38, 75, 5, 125, 0, 0, 0), legs=(25, 10, 10, 30, 8), right_leg=(-8, 12, 12, 20, 5), spine=(14, 0, 15), hands=(80, 80), noise=0.6),
    "punch": _pose(arms=(88, 80, 0, 8, 0, 0, 0), right_arm=(40, 60, 0, 125, 0, 0, 0), legs=(35, 8, 5, 35, 5), right_leg=(-20, 10, 10, 15, 10), spine=(10, 0, -25), hands=(80, 80)),
    "star_jump": _pose(arms=(125, 8, 0, 5, 0, 0, 0), legs=(5, 40, 10, 6, 25)),
    "arabesque": _pose(arms=(95, 60, 0, 10, 0, 0, 0), right_arm=(85, -10, 0, 10, 0, 0, 0), legs=(-35, 8, 5, 12, 35), right_leg=(45, 3, 5, 5, 0), spine=(10, 0, 0), root=(45, 0, 0), neck=(-25, 0, 0)),
    "crawl": _pose(arms=(88, 88, 0, 5, 0, -60, 0), legs=(88, 6, 0, 92, 30), spine=(5, 0, 0), root=(80, 0, 0), neck=(-30, 0, 0)),
    "superhero": _pose(arms=(170, 70, 0, 5, 0, 0, 0), right_arm=(20, 0, 0, 15, 0, 0, 0), legs=(-10, 5, 5, 10, 35), right_leg=(30, 5, 5, 60, 30), spine=(-15, 0, 0), hands=(80, 60)),
    "hug": _pose(arms=(70, 60, 10, 55, 0, 0, 0)),
    "climb": _pose(arms=(140, 75, 0, 60, 0, 0, 0), right_arm=(60, 70, 0, 90, 0, 0, 0), legs=(90, 20, 5, 100, 15), right_leg=(10, 8, 5, 15, 10)),
    "golf": _pose(arms=(45, 95, 0, 10, 0, 0, 0), right_arm=(60, 75, 0, 25, 0, 0, 0), spine=(22, 0, 20), legs=(25, 14, 8, 20, 5), root=(18, 0, 0)),
}
# fmt: on

_DEVIATION = {
    "spine": (8, 6, 9), "neck": (9, 7, 16), "arm": (13, 16, 16, 16, 35, 14, 8),
    "leg": (9, 5, 7, 10, 8), "root": (5, 4, 0),
}  # fmt: skip
_LIMITS = {
    "spine": ((-40, -38, -48), (62, 38, 48)),
    "neck": ((-40, -32, -65), (40, 32, 65)),
    "arm": ((3, -75, -90, 0, -75, -65, -22), (178, 150, 75, 142, 75, 60, 22)),
    "leg": ((-38, -12, -35, 0, -25), (118, 72, 58, 142, 48)),
    "root": ((-40, -30, -180), (95, 30, 180)),
}
_KIND = {
    "spine": "spine", "neck": "neck", "left_arm": "arm", "right_arm": "arm",
    "left_leg": "leg", "right_leg": "leg", "root": "root",
}  # fmt: skip

_MIX, _FREE = 0.35, 0.15  # shares of poses with the halves of two archetypes, and of free poses


def mirror(pose: Pose) -> Pose:
    """The same pose with left and right exchanged."""
    flip = np.array([1, -1, -1])
    return replace(
        pose,
        left_arm=pose.right_arm,
        right_arm=pose.left_arm,
        left_leg=pose.right_leg,
        right_leg=pose.left_leg,
        spine=pose.spine * flip,
        neck=pose.neck * flip,
        root=pose.root * flip,
        hands=pose.hands[::-1],
        spread=pose.spread[::-1],
    )


def moved(pose: Pose, limbs: Sequence[str], angles: Float[np.ndarray, " angles"]) -> Pose:
    """The pose with the same angles for each of some limbs, for example both arms."""
    changed: dict[str, Any] = dict.fromkeys(limbs, angles)
    return replace(pose, **changed)


def limits(name: str) -> tuple[Float[np.ndarray, " angles"], Float[np.ndarray, " angles"]]:
    """Lowest and highest angles of a field of `Pose`, for example ``left_arm``."""
    low, high = _LIMITS[_KIND[name]]
    return np.array(low, float), np.array(high, float)


def sample(rng: np.random.Generator) -> Pose:
    """A random pose within the joint limits.

    About half are an archetype with noise; a third take arms and head from one archetype and
    the rest from another; the others are drawn from the joint limits around a relaxed stance.
    """
    kind = rng.random()
    if kind < _MIX:
        pose = _mixed(_archetype(rng), _archetype(rng), rng)
    elif kind < _MIX + _FREE:
        pose = _free(rng)
    else:
        pose = _archetype(rng)
    return _strayed(pose, rng)


def seated(rng: np.random.Generator) -> Pose:
    """A random pose of somebody who sits on the ground, legs stretched out up to knees drawn up.

    Arms and head are those of `sample`. The thighs rise by up to 70 degrees and the knees are
    bent by twice that, so that the feet rest on the ground; the pelvis tips back as knees rise.
    """
    rise = rng.uniform(0, 70)
    pitch = max(min(rng.uniform(-35, 10), 26 - rise), -40)
    bend = rng.uniform(-10, 40) if rise < 20 else rng.uniform(-5, 55)

    def leg() -> Float[np.ndarray, " 5"]:
        thigh = max(rise + rng.normal(0, 8), 0)
        outward, twist, ankle = rng.uniform([0, -5, -15], [28, 20, 25])
        return np.clip([90 + thigh + pitch, outward, twist, 2 * thigh, ankle], *limits("left_leg"))

    return replace(
        sample(rng),
        spine=np.array([bend, rng.normal(0, 5), rng.normal(0, 8)]),
        left_leg=leg(),
        right_leg=leg(),
        root=np.array([pitch, rng.normal(0, 3), 0]),
    )


def crouched(rng: np.random.Generator) -> Pose:
    """A random pose of somebody who crouches or squats; half have arms and head of any pose."""
    lower = ARCHETYPES["crouch" if rng.random() < 0.5 else "squat"]
    upper = _archetype(rng) if rng.random() < 0.5 else lower
    return _strayed(replace(_mixed(upper, lower, rng), spine=lower.spine), rng)


def stooped(rng: np.random.Generator) -> Pose:
    """A random pose of somebody who stands bent forward, knees straight or a little bent.

    The pelvis tips forward by 15 to 90 degrees and the spine bends further; the hips go back so that
    the feet bear the weight. Arms hang down in half of the poses and are those of `sample` in
    the others.
    """
    pitch, bend = rng.uniform(15, 90), rng.uniform(-10, 55)
    knee = rng.uniform(0, 12) if rng.random() < 0.5 else rng.uniform(10, 70)
    apart, back = rng.uniform(-2, 30), 18 * np.sin(np.deg2rad(pitch))

    def leg(step: float) -> Float[np.ndarray, " 5"]:
        bent = max(knee + rng.normal(0, 5), 0)
        forward = pitch + back + bent / 2 + step
        outward, twist, ankle = apart + rng.normal(0, 3), rng.uniform(-5, 20), rng.normal(0, 6)
        return np.clip([forward, outward, twist, bent, ankle], *limits("left_leg"))

    def hanging() -> Float[np.ndarray, " 7"]:
        lift = pitch + bend + rng.normal(0, 20)
        side, elbow = rng.uniform(60, 100), abs(rng.normal(0, 25))
        angles = [lift, side, rng.normal(0, 15), elbow, rng.normal(0, 30), 0, 0]
        return np.clip(angles, *limits("left_arm"))

    pose, step = sample(rng), rng.normal(0, 8)
    if rng.random() < 0.5:
        pose = replace(pose, left_arm=hanging(), right_arm=hanging())
    return replace(
        pose,
        spine=np.array([bend, rng.normal(0, 6), rng.normal(0, 9)]),
        neck=np.clip([rng.uniform(-40, 25), *rng.normal(0, (8, 16))], *limits("neck")),
        left_leg=leg(step),
        right_leg=leg(-step),
        root=np.array([pitch, rng.normal(0, 4), 0]),
    )


def _strayed(pose: Pose, rng: np.random.Generator) -> Pose:
    changed = {}
    for name, group in _KIND.items():
        noise = pose.noise * rng.normal(0, _DEVIATION[group])
        changed[name] = np.clip(getattr(pose, name) + noise, *_LIMITS[group])
    changed["hands"] = np.clip(pose.hands + rng.normal(0, 18, 2), -8, 95)
    changed["spread"] = rng.normal(0, 5, 2)
    return replace(pose, **changed)


def _archetype(rng: np.random.Generator) -> Pose:
    pose = list(ARCHETYPES.values())[rng.integers(len(ARCHETYPES))]
    return mirror(pose) if rng.random() < 0.5 else pose


def _mixed(upper: Pose, lower: Pose, rng: np.random.Generator) -> Pose:
    spine = (upper.spine + lower.spine) / 2 if rng.random() < 0.5 else lower.spine
    return replace(
        lower,
        spine=spine,
        neck=upper.neck,
        left_arm=upper.left_arm,
        right_arm=upper.right_arm,
        hands=upper.hands,
        noise=max(upper.noise, lower.noise),
    )


def _free(rng: np.random.Generator) -> Pose:
    def between(
        group: str, a: Sequence[float | int], b: Sequence[float | int]
    ) -> Float[np.ndarray, " angles"]:
        low, high = (np.array(limit, float) for limit in _LIMITS[group])
        return low + (high - low) * rng.beta(a, b)

    def arm() -> Float[np.ndarray, " 7"]:
        angles = between("arm", [1.1, 1.6, 2, 1.1, 2, 2, 2], [1.3, 1.6, 2, 1.8, 2, 2, 2])
        return np.where(np.arange(7) < 4, angles, 0)

    def leg() -> Float[np.ndarray, " 5"]:
        return between("leg", [1.6, 1.5, 2, 1.1, 2], [2.6, 4, 2.5, 2.6, 2])

    return Pose(
        spine=rng.normal(0, [18, 12, 16]),
        neck=rng.normal(0, [10, 8, 20]),
        left_arm=arm(),
        right_arm=arm(),
        left_leg=leg(),
        right_leg=leg(),
        root=rng.normal([5, 0, 0], [12, 5, 0]),
        hands=np.full(2, 20.0),
        spread=np.zeros(2),
    )


# ---------------------------------------------------------------- angles to joint rotations

_X, _Y, _Z = np.eye(3)
_SPINE = {"spine05": 0.12, "spine04": 0.2, "spine03": 0.26, "spine02": 0.24, "spine01": 0.18}
_NECK = {"neck01": 0.25, "neck02": 0.25, "neck03": 0.2, "head": 0.3}

Joints = Mapping[str, Float[np.ndarray, " 3"]]
Rotations = dict[str, Float[np.ndarray, "3 3"]]


def rotations(pose: Pose, joints: Joints) -> tuple[Rotations, Float[np.ndarray, "3 3"]]:
    """Local rotation (in rest axes) of each bone that moves, and the turn of the whole body.

    Parameters
    ----------
    joints
        Rest position of each bone's head, by name; the axes of elbows, knees and fingers are
        read off these, so that a pose means the same on every body.
    """
    local: Rotations = {}
    for chain, angles in ((_SPINE, pose.spine), (_NECK, pose.neck)):
        for bone, share in chain.items():
            local[bone] = _euler(share * np.deg2rad(angles))
    for side, sign, arm, leg, hand in (
        ("L", 1.0, pose.left_arm, pose.left_leg, 0),
        ("R", -1.0, pose.right_arm, pose.right_leg, 1),
    ):
        local |= _arm_rotations(np.deg2rad(arm), joints, side, sign)
        curl, spread = np.deg2rad([pose.hands[hand], pose.spread[hand]])
        wrist_bend, wrist_side = np.deg2rad(arm[5:])
        local |= _hand_rotations(wrist_bend, wrist_side, curl, spread, joints, side, sign)
        local |= _leg_rotations(np.deg2rad(leg), joints, side, sign)
    return local, _euler(np.deg2rad(pose.root))


def _arm_rotations(
    angles: Float[np.ndarray, " 7"], joints: Joints, side: str, sign: float
) -> Rotations:
    lifted, azimuth, twist, elbow, roll = angles[:5]
    # collar bone and shoulder blade lift with the arm
    lift = max(0.0, lifted - np.deg2rad(50)) * 0.28
    forward = 0.12 * (azimuth - np.deg2rad(20)) * np.sin(min(lifted, np.pi / 2))
    clavicle = _turn(_Z, -sign * forward) @ _turn(_Y, -sign * lift * 0.6)
    shoulder = _turn(_Y, -sign * lift * 0.4)
    # wanted direction of the upper arm and axis of the elbow, in the chest's rest axes
    heading = np.cos(azimuth) * sign * _X - np.sin(azimuth) * _Y
    raised = _turn(_cross(-_Z, heading), lifted)
    upper = raised @ -_Z
    hinge = _turn(upper, sign * twist) @ (raised @ -_X)
    at_shoulder, at_elbow, at_wrist = (
        joints[f"{bone}.{side}"] for bone in ("upperarm01", "lowerarm01", "wrist")
    )
    rest_upper, rest_lower = _unit(at_elbow - at_shoulder), _unit(at_wrist - at_elbow)
    rest_hinge = _cross(rest_upper, rest_lower)
    rest_flex = np.arctan2(np.linalg.norm(rest_hinge), rest_upper @ rest_lower)
    rest_hinge = _unit(rest_hinge)
    full = _frame(upper, hinge) @ _frame(rest_upper, rest_hinge).T
    # swing at the shoulder; half of the turn about the arm's own axis happens further down
    swing, turn = _swing_twist((clavicle @ shoulder).T @ full, rest_upper)
    return {
        f"clavicle.{side}": clavicle,
        f"shoulder01.{side}": shoulder,
        f"upperarm01.{side}": swing @ _turn(rest_upper, 0.45 * turn),
        f"upperarm02.{side}": _turn(rest_upper, 0.55 * turn),
        f"lowerarm01.{side}": _turn(rest_hinge, elbow - rest_flex)
        @ _turn(rest_lower, sign * 0.25 * roll),
        f"lowerarm02.{side}": _turn(rest_lower, sign * 0.75 * roll),
    }


def _hand_rotations(
    bend: float, sideways: float, curl: float, spread: float, joints: Joints, side: str, sign: float
) -> Rotations:
    knuckle = joints[f"finger3-1.{side}"]
    along = _unit(knuckle - joints[f"wrist.{side}"])
    across = joints[f"finger2-1.{side}"] - joints[f"finger5-1.{side}"]
    across = _unit(across - along * (across @ along))
    palm = _cross(along, across) * sign
    if (joints[f"finger3-3.{side}"] - knuckle) @ palm < 0:
        palm = -palm  # fingers curl to the palm side at rest
    hinge = _cross(along, palm)
    local = {
        f"wrist.{side}": _turn(hinge, bend) @ _turn(palm, sideways),
        f"finger1-2.{side}": _turn(hinge, 0.3 * curl),
        f"finger1-3.{side}": _turn(hinge, 0.4 * curl),
    }
    for finger in range(2, 6):
        bent = curl * (0.85 + 0.1 * (finger - 2))
        fan = _turn(palm, sign * spread * (finger - 3.5) / 2)
        local[f"finger{finger}-1.{side}"] = _turn(hinge, bent * 0.8 - 0.25) @ fan
        local[f"finger{finger}-2.{side}"] = _turn(hinge, bent * 0.9 - 0.2)
        local[f"finger{finger}-3.{side}"] = _turn(hinge, bent * 0.6 - 0.1)
    return local


def _leg_rotations(
    angles: Float[np.ndarray, " 5"], joints: Joints, side: str, sign: float
) -> Rotations:
    forward, outward, twist, knee, ankle = angles
    at_hip, at_knee, at_ankle = (
        joints[f"{bone}.{side}"] for bone in ("upperleg01", "lowerleg01", "foot")
    )
    rest_upper, rest_lower = _unit(at_knee - at_hip), _unit(at_ankle - at_knee)
    rest_hinge = _unit(_X - rest_upper * (_X @ rest_upper))
    bent = rest_lower - rest_hinge * (rest_lower @ rest_hinge)
    rest_flex = np.arctan2(_cross(rest_upper, bent) @ rest_hinge, rest_upper @ bent)
    if forward < np.deg2rad(45):
        raised = _turn(_Y, -sign * outward) @ _turn(_X, -forward)
    else:  # for a raised thigh, outward means a turn about the vertical
        raised = _turn(_Z, sign * outward) @ _turn(_X, -forward)
    upper = raised @ -_Z
    hinge = _turn(upper, -sign * twist) @ (raised @ _X)
    full = _frame(upper, hinge) @ _frame(rest_upper, rest_hinge).T
    swing, turn = _swing_twist(full, rest_upper)
    return {
        f"upperleg01.{side}": swing @ _turn(rest_upper, 0.45 * turn),
        f"upperleg02.{side}": _turn(rest_upper, 0.55 * turn),
        f"lowerleg01.{side}": _turn(rest_hinge, knee - rest_flex),
        f"foot.{side}": _turn(_X, ankle),
    }


def _euler(angles: Float[np.ndarray, " 3"]) -> Float[np.ndarray, "3 3"]:
    """Bend forward about x, then to the left about y, then turn to the left about z."""
    bend, side, turn = angles
    return _turn(_Z, turn) @ _turn(_Y, side) @ _turn(_X, bend)


def _turn(axis: Float[np.ndarray, " 3"], angle: float) -> Float[np.ndarray, "3 3"]:
    """Rotation by ``angle`` radians about an axis, right-handed (Rodrigues)."""
    # plain numbers: a pose takes a hundred of these, and they are most of its time
    x, y, z = axis.tolist()
    size = max(math.sqrt(x * x + y * y + z * z), 1e-12)
    x, y, z = x / size, y / size, z / size
    c, s = math.cos(angle), math.sin(angle)
    d = 1 - c
    return np.array(
        [
            [c + d * x * x, d * x * y - s * z, d * x * z + s * y],
            [d * x * y + s * z, c + d * y * y, d * y * z - s * x],
            [d * x * z - s * y, d * y * z + s * x, c + d * z * z],
        ]
    )


def _unit(vector: Float[np.ndarray, " 3"]) -> Float[np.ndarray, " 3"]:
    return vector / max(math.sqrt(vector @ vector), 1e-12)


def _cross(a: Float[np.ndarray, " 3"], b: Float[np.ndarray, " 3"]) -> Float[np.ndarray, " 3"]:
    (ax, ay, az), (bx, by, bz) = a.tolist(), b.tolist()
    return np.array([ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx])


def _frame(
    first: Float[np.ndarray, " 3"], second: Float[np.ndarray, " 3"]
) -> Float[np.ndarray, "3 3"]:
    """Orthonormal frame: ``first``, the part of ``second`` normal to it, and their product."""
    first = _unit(first)
    second = _unit(second - first * (first @ second))
    return np.stack([first, second, _cross(first, second)], axis=1)


def _swing_twist(
    rotation: Float[np.ndarray, "3 3"], axis: Float[np.ndarray, " 3"]
) -> tuple[Float[np.ndarray, "3 3"], float]:
    """Split a rotation into a swing and the angle of a twist about ``axis`` before it."""
    # the vector part of the quaternion over its real part, for the part along the axis
    (_, a, b), (c, _, d), (e, f, _) = rotation.tolist()
    along = np.array([f - d, b - e, c - a]) @ axis
    twist = 2 * math.atan2(along, 1 + float(np.trace(rotation)))
    return rotation @ _turn(axis, twist).T, twist
