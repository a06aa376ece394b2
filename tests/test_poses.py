import numpy as np
import pytest

from coembed import bodies, poses, skinning

FIELDS = ("spine", "neck", "left_arm", "right_arm", "left_leg", "right_leg", "root", "hands",
          "spread")  # fmt: skip


@pytest.fixture(scope="module")
def joints():
    model = skinning.body_model()
    return dict(zip(model.bones, model.joint_mean, strict=True))


@pytest.mark.parametrize("name", poses.ARCHETYPES)
def test_mirrored_twice_is_the_same(name):
    pose = poses.ARCHETYPES[name]
    twice = poses.mirror(poses.mirror(pose))
    for part in FIELDS:
        np.testing.assert_array_equal(getattr(twice, part), getattr(pose, part))


def test_the_mirror_exchanges_the_sides():
    pose = poses.ARCHETYPES["throw"]
    other = poses.mirror(pose)
    np.testing.assert_array_equal(other.left_arm, pose.right_arm)
    np.testing.assert_array_equal(other.spine, pose.spine * [1, -1, -1])
    np.testing.assert_array_equal(other.hands, pose.hands[::-1])


def test_poses_are_a_function_of_the_seed():
    one, same, other = (poses.sample(np.random.default_rng(seed)) for seed in (3, 3, 4))
    for part in FIELDS:
        np.testing.assert_array_equal(getattr(one, part), getattr(same, part))
    assert (one.left_arm != other.left_arm).any()


@pytest.mark.parametrize("draw", [poses.sample, poses.seated, poses.crouched, poses.stooped])
def test_sampled_poses_stay_within_the_limits(draw):
    rng = np.random.default_rng(0)
    for _ in range(300):
        pose = draw(rng)
        for part, group in poses._KIND.items():
            low, high = poses._LIMITS[group]
            assert (getattr(pose, part) >= low).all(), part
            assert (getattr(pose, part) <= high).all(), part
        assert pose.hands.min() >= -8
        assert pose.hands.max() <= 95


def test_seat_and_feet_of_the_seated_rest_on_the_ground():
    place = skinning.body_model().mean[:, 2]
    height = (place - place.min()) / np.ptp(place)
    rng = np.random.default_rng(0)
    for _ in range(12):
        up = bodies.body(rng, draw=poses.seated).vertices[:, 1]
        assert np.ptp(up) < 1.4
        for part in ((height > 0.42) & (height < 0.55), height < 0.05):
            assert up[part].min() - up.min() < 0.16


def test_who_stoops_stands_on_the_feet_with_the_head_in_front():
    place = skinning.body_model().mean[:, 2]
    height = (place - place.min()) / np.ptp(place)
    rng = np.random.default_rng(0)
    for _ in range(12):
        vertices = bodies.body(rng, draw=poses.stooped).vertices
        up, front = vertices[:, 1], vertices[:, 2]
        feet = height < 0.05
        assert up[feet].min() - up.min() < 0.16
        assert front[height > 0.9].mean() > front[(height > 0.45) & (height < 0.55)].mean() + 0.05
        assert abs(front.mean() - front[feet].mean()) < 0.2


def test_archetypes_lie_within_the_limits():
    for name, pose in poses.ARCHETYPES.items():
        for part, group in poses._KIND.items():
            low, high = poses._LIMITS[group]
            assert (getattr(pose, part) >= low).all(), (name, part)
            assert (getattr(pose, part) <= high).all(), (name, part)


def test_rotations_are_orthonormal_and_name_bones(joints):
    rng = np.random.default_rng(1)
    for pose in [*poses.ARCHETYPES.values(), *(poses.sample(rng) for _ in range(20))]:
        local, root = poses.rotations(pose, joints)
        assert local.keys() <= joints.keys()
        stacked = np.stack([root, *local.values()])
        np.testing.assert_allclose(
            stacked @ stacked.transpose(0, 2, 1), np.broadcast_to(np.eye(3), stacked.shape),
            atol=1e-10,
        )  # fmt: skip
        np.testing.assert_allclose(np.linalg.det(stacked), 1, atol=1e-10)


def test_a_straight_spine_and_level_feet_do_not_turn(joints):
    local, root = poses.rotations(poses.ARCHETYPES["stand"], joints)
    np.testing.assert_allclose(root, np.eye(3), atol=1e-12)
    for bone in (*poses._SPINE, *poses._NECK, "foot.L", "foot.R"):
        np.testing.assert_allclose(local[bone], np.eye(3), atol=1e-12)


def test_a_relaxed_stance_turns_legs_little(joints):
    local, _ = poses.rotations(poses.ARCHETYPES["stand"], joints)
    for side in "LR":
        for bone in ("upperleg01", "upperleg02", "lowerleg01"):
            angle = np.arccos(np.clip((np.trace(local[f"{bone}.{side}"]) - 1) / 2, -1, 1))
            assert np.rad2deg(angle) < 30, bone


def end_of_chain(pose, joints, bones):
    """Where the last bone's head comes to lie, from the pose's rotations alone."""
    model = skinning.body_model()
    rest = model.mean
    local, _ = poses.rotations(pose, joints)
    names, moved = list(model.bones), {}
    turn = {}
    for bone, parent in zip(names, model.parents, strict=True):
        above = np.eye(3) if parent < 0 else turn[names[parent]]
        start = joints[bone]
        if parent >= 0:
            up = names[parent]
            start = moved[up] + above @ (joints[bone] - joints[up])
        moved[bone], turn[bone] = start, above @ local.get(bone, np.eye(3))
    assert rest.shape[1] == 3
    return [moved[bone] for bone in bones]


def test_arms_go_where_the_angles_say(joints):
    bones = [f"{bone}.{side}" for side in "LR" for bone in ("upperarm01", "lowerarm01")]
    for name, wanted in (("t_pose", [1, 0, 0]), ("arms_forward", [0, -1, 0])):
        found = end_of_chain(poses.ARCHETYPES[name], joints, bones)
        for start, end, sign in ((*found[:2], 1), (*found[2:], -1)):
            along = (end - start) / np.linalg.norm(end - start)
            # the names promise a direction, not a protractor: within 20 degrees
            assert along @ (np.array(wanted) * [sign, 1, 1]) > np.cos(np.deg2rad(20)), name


def test_swing_and_twist_make_up_the_rotation(rng):
    for _ in range(20):
        axis = rng.standard_normal(3)
        axis /= np.linalg.norm(axis)
        rotation = poses._turn(rng.standard_normal(3), rng.uniform(-3, 3))
        swing, angle = poses._swing_twist(rotation, axis)
        np.testing.assert_allclose(swing @ poses._turn(axis, angle), rotation, atol=1e-10)
        # a swing does not turn about the axis: its own axis is normal to it
        skew = np.array([swing[2, 1] - swing[1, 2], swing[0, 2] - swing[2, 0],
                         swing[1, 0] - swing[0, 1]])  # fmt: skip
        assert abs(skew @ axis) < 1e-9
