import numpy as np
import pytest

from coembed import bodies, poses


@pytest.fixture(scope="module")
def model():
    return bodies.body_model()


@pytest.fixture(scope="module")
def person():
    return bodies.body(np.random.default_rng(1))


@pytest.fixture
def standing(monkeypatch):
    monkeypatch.setattr(poses, "sample", lambda rng: poses.ARCHETYPES["stand"])
    return bodies.body(np.random.default_rng(0))


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
    found = bodies.posed(model, model.mean, model.joint_mean, poses.ARCHETYPES["stand"])
    np.testing.assert_allclose(found, model.mean, atol=1e-12)


def test_a_turn_of_the_root_turns_the_whole_body(model, monkeypatch):
    turn = poses._euler(np.array([0.1, 0.2, 1.5]))
    monkeypatch.setattr(poses, "rotations", lambda pose, joints: ({}, turn))
    found = bodies.posed(model, model.mean, model.joint_mean, poses.ARCHETYPES["stand"])
    head = model.joint_mean[model.parents < 0]
    np.testing.assert_allclose(found - head, (model.mean - head) @ turn.T, atol=1e-12)


def test_bodies_are_a_function_of_the_seed(person):
    again = bodies.body(np.random.default_rng(1))
    np.testing.assert_array_equal(again.vertices, person.vertices)
    other = bodies.body(np.random.default_rng(2))
    assert np.abs(other.vertices - person.vertices).max() > 0.1


def test_a_standing_person_is_upright_and_faces_along_z(model, standing):
    extent = np.ptp(standing.vertices, axis=0)
    assert extent.argmax() == 1
    assert 1.2 < extent[1] < 2.3  # metres
    middle = [standing.vertices[model.parts == part].mean(axis=0) for part in range(14)]
    assert middle[1][1] > middle[0][1] > middle[12][1]  # head over torso over feet
    assert middle[12][2] > middle[10][2]  # toes in front of the shin
    assert middle[4][0] > middle[5][0]  # the left arm is at +x


def test_samples_lie_on_the_surface_where_they_say(model, person):
    found = bodies.sample(person, 300, np.random.default_rng(0), name="it")
    assert found.shape.name == "it"
    assert found.shape.faces is None
    np.testing.assert_allclose(found.barycentric.sum(axis=1), 1)
    assert (found.barycentric >= 0).all()
    for corners, points in ((person.vertices, found.shape.points), (model.mean, found.place)):
        built = np.einsum("nc,nca->na", found.barycentric, corners[model.faces[found.face]])
        np.testing.assert_allclose(built, points, atol=1e-12)
    np.testing.assert_array_equal(
        bodies.on_body(person, found.face, found.barycentric), found.shape.points
    )


def test_samples_are_uniform_by_area(model, person):
    found = bodies.sample(person, 20_000, np.random.default_rng(0))
    area = bodies._face_areas(person.vertices[model.faces])
    part = model.parts[model.faces[:, 0]]
    wanted = 20_000 * np.bincount(part, area, 14) / area.sum()
    counts = np.bincount(part[found.face], minlength=14)
    # chi-square with 13 degrees of freedom; the 99.99 % point is 41
    assert ((counts - wanted) ** 2 / wanted).sum() < 41
    # uniform in the triangle: each barycentric coordinate has mean 1/3 and variance 1/18
    np.testing.assert_allclose(found.barycentric.mean(axis=0), 1 / 3, atol=0.01)
    np.testing.assert_allclose(found.barycentric.var(axis=0), 1 / 18, atol=0.003)


def test_samples_of_one_body_are_independent(person):
    rng = np.random.default_rng(0)
    one, other = (bodies.sample(person, 50, rng) for _ in range(2))
    assert (one.shape.points != other.shape.points).any(axis=1).all()


def test_landmarks_are_always_the_same(person):
    one, other = bodies.landmarks(40), bodies.landmarks(40)
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)
    assert bodies.on_body(person, *one).shape == (40, 3)


def test_the_rest_shape_does_not_run_into_itself(model):
    assert bodies.penetration(model, model.mean, model.mean).mean() < 0.001


def test_a_hand_in_the_chest_is_seen(model):
    vertices = model.mean.copy()
    hand = model.parts == 6
    chest = (vertices[model.parts == 0].min(axis=0) + vertices[model.parts == 0].max(axis=0)) / 2
    vertices[hand] = 0.3 * (vertices[hand] - vertices[hand].mean(axis=0)) + chest
    bad = bodies.penetration(model, vertices, model.mean)
    assert bad[hand].mean() > 0.3
    assert bad.mean() > bodies._TOLERATED


def test_people_differ_in_size():
    rng = np.random.default_rng(0)
    model = bodies.body_model()
    people = np.stack([bodies._random_person(rng, model) for _ in range(30)])
    heights = [np.ptp((model.mean + np.tensordot(one, model.basis, 1))[:, 2]) for one in people]
    assert np.ptp(heights) > 0.1
