import numpy as np
import pytest

from coembed import poses, skinning


@pytest.fixture(scope="module")
def model():
    return skinning.body_model()


def test_the_template_is_a_closed_manifold(model):
    edges = model.faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)
    one_way, count = np.unique(edges, axis=0, return_counts=True)
    assert (count == 1).all()  # each edge once in each direction: closed and oriented
    other_way = np.unique(edges[:, ::-1], axis=0)
    np.testing.assert_array_equal(one_way, other_way)
    assert len(np.unique(model.faces)) == len(model.mean)


def test_the_template_is_the_right_way_out(model):
    a, b, c = model.mean[model.faces].transpose(1, 0, 2)
    volume = np.einsum("fa,fa->", a, np.cross(b, c)) / 6
    assert 0.03 < volume < 0.15  # cubic metres of a person


def test_skin_weights_add_to_one(model):
    np.testing.assert_allclose(model.skin_weights.sum(axis=1), 1)
    assert (model.skin_weights >= 0).all()
    assert model.skin_bones.max() < len(model.bones)


def test_parents_come_before_their_children(model):
    assert (model.parents < np.arange(len(model.parents))).all()
    assert (model.parents < 0).sum() == 1


def test_both_sides_have_the_same_parts(model):
    counts = np.bincount(model.parts, minlength=14)
    assert (counts > 0).all()
    np.testing.assert_allclose(counts[2::2], counts[3::2], rtol=0.1)


def test_no_turn_leaves_the_skin_where_it_is(model, monkeypatch):
    monkeypatch.setattr(poses, "rotations", lambda pose, joints: ({}, np.eye(3)))
    found = skinning.posed(model, model.mean, model.joint_mean, poses.ARCHETYPES["stand"])
    np.testing.assert_allclose(found, model.mean, atol=1e-12)


def test_a_turn_of_the_root_turns_the_whole_body(model, monkeypatch):
    turn = poses._euler(np.array([0.1, 0.2, 1.5]))
    monkeypatch.setattr(poses, "rotations", lambda pose, joints: ({}, turn))
    found = skinning.posed(model, model.mean, model.joint_mean, poses.ARCHETYPES["stand"])
    head = model.joint_mean[model.parents < 0]
    np.testing.assert_allclose(found - head, (model.mean - head) @ turn.T, atol=1e-12)
