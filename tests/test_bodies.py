import numpy as np
import pytest

from coembed import bodies, geometry, poses, skinning


@pytest.fixture(scope="module")
def model():
    return skinning.body_model()


@pytest.fixture(scope="module")
def person():
    return bodies.body(np.random.default_rng(1))


@pytest.fixture
def standing(monkeypatch):
    monkeypatch.setattr(poses, "sample", lambda rng: poses.ARCHETYPES["stand"])
    return bodies.body(np.random.default_rng(0))


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
    area = geometry.face_areas(person.vertices[model.faces])
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


def test_people_differ_in_size():
    rng = np.random.default_rng(0)
    model = skinning.body_model()
    people = np.stack([bodies._random_person(rng, model) for _ in range(30)])
    heights = [np.ptp((model.mean + np.tensordot(one, model.basis, 1))[:, 2]) for one in people]
    assert np.ptp(heights) > 0.1


def test_scans_remember_where_their_points_were(model, person):
    rng = np.random.default_rng(3)
    scans = [bodies.scan(person, 400, rng, name="it") for _ in range(12)]
    off = []
    for found in scans:
        assert found.shape.name == "it"
        assert 350 <= len(found.shape.points) <= 400
        truth = bodies.on_body(person, found.face, found.barycentric)
        off.append(np.linalg.norm(found.shape.points - truth, axis=1).max())
        built = np.einsum("nc,nca->na", found.barycentric, model.mean[model.faces[found.face]])
        np.testing.assert_allclose(built, found.place, atol=1e-12)
    assert 0 < np.sum(np.array(off) == 0) < len(scans)  # some are noisy, some are not
    assert max(off) < 0.15


def test_scans_are_uneven(person):
    rng = np.random.default_rng(0)
    middles = [bodies.scan(person, 2000, rng).shape.points.mean(axis=0) for _ in range(8)]
    even = [bodies.sample(person, 2000, rng).shape.points.mean(axis=0) for _ in range(8)]
    assert np.std(middles, axis=0).sum() > 1.5 * np.std(even, axis=0).sum()


def test_touching_bodies_differ_from_those_that_need_not(person):
    touching = bodies.body(np.random.default_rng(1), touching=1.0)
    assert np.abs(touching.vertices - person.vertices).max() > 0.01
