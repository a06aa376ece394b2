import numpy as np
import pytest

from coembed import disturbances, geometry
from coembed.disturbances import Disturbance, disturb
from coembed.errors import InputError
from coembed.shapes import Shape


def tube(bend=np.pi, n=60, around=12, radius=0.12):
    """A closed tube along an arc of radius 1: a half circle brings its ends near each other."""
    along = np.linspace(0, bend, n)
    angle = np.linspace(0, 2 * np.pi, around, endpoint=False)
    outward = np.stack([np.cos(along), np.sin(along), np.zeros(n)], axis=1)
    offset = np.cos(angle)[:, None, None] * outward + np.sin(angle)[:, None, None] * [0, 0, 1]
    points = (outward + radius * offset).transpose(1, 0, 2).reshape(-1, 3)
    rows = np.arange(n * around).reshape(n, around)
    a, b = rows[:-1], rows[1:]
    quads = np.stack([a, b, np.roll(b, -1, axis=1), np.roll(a, -1, axis=1)], axis=-1).reshape(-1, 4)
    faces = np.concatenate([quads[:, [0, 1, 2]], quads[:, [0, 2, 3]]])
    return Shape(points, faces, name="tube")


@pytest.fixture(scope="module")
def mesh():
    return tube()


def test_nothing_asked_for_changes_nothing(mesh):
    found = disturb(mesh, Disturbance())
    np.testing.assert_array_equal(found.shape.points, mesh.points)
    np.testing.assert_array_equal(found.shape.faces, mesh.faces)
    np.testing.assert_array_equal(found.there, np.arange(len(mesh.points)))
    np.testing.assert_array_equal(found.back, np.arange(len(mesh.points)))


def test_noise_has_its_size_and_its_bound(sphere_points):
    shape = Shape(sphere_points(2000) * 3 + 7, name="ball")
    found = disturb(shape, Disturbance(noise=0.01), seed=1)
    moved = (found.shape.points - shape.points) / 3
    assert 0.0095 < moved.std() < 0.0105
    assert np.abs(moved).max() <= 0.0501
    assert found.shape.name == "ball"
    np.testing.assert_array_equal(found.there, found.back)
    again = disturb(shape, Disturbance(noise=0.01), seed=1)
    np.testing.assert_array_equal(again.shape.points, found.shape.points)
    other = disturb(shape, Disturbance(noise=0.01), seed=2)
    assert (other.shape.points != found.shape.points).all()


def test_a_turn_is_about_the_vertical(mesh):
    angles = []
    for seed in range(12):
        found = disturb(mesh, Disturbance(turn=40), seed=seed)
        np.testing.assert_allclose(found.shape.points[:, 1], mesh.points[:, 1])
        first, turned = mesh.points[0, [0, 2]], found.shape.points[0, [0, 2]]
        assert np.linalg.norm(first) == pytest.approx(np.linalg.norm(turned))
        angles.append(np.degrees(np.arctan2(turned[1], turned[0]) - np.arctan2(*first[::-1])))
    assert np.abs(angles).max() <= 40
    assert np.abs(angles).max() > 20
    assert min(angles) < 0 < max(angles)


def test_thinning_keeps_rows_and_is_uneven(mesh):
    found = disturb(mesh, Disturbance(thin=0.6), seed=3)
    n = len(mesh.points)
    assert len(found.back) == round(0.4 * n)
    assert (np.diff(found.back) > 0).all()
    np.testing.assert_array_equal(found.shape.points, mesh.points[found.back])
    np.testing.assert_array_equal(found.there[found.back], np.arange(len(found.back)))
    assert found.shape.faces is None
    # a plain draw would move the mean by about a twentieth of that
    assert np.linalg.norm(found.shape.points.mean(axis=0) - mesh.points.mean(axis=0)) > 0.1


def test_points_taken_anew_lie_on_the_surface(sphere_points):
    from scipy.spatial import ConvexHull

    points = sphere_points(400)
    ball = Shape(points, ConvexHull(points).simplices.astype(np.int64), name="ball")
    found = disturb(ball, Disturbance(resample=900))
    assert len(found.shape.points) == len(found.back) == 900
    radius = np.linalg.norm(found.shape.points, axis=1)
    assert radius.max() <= 1 + 1e-12
    assert radius.min() > 0.98
    # the nearest corner of a triangle of a ball of 400 points
    assert np.linalg.norm(found.shape.points - points[found.back], axis=1).max() < 0.2
    assert np.linalg.norm(found.shape.points[found.there] - points, axis=1).max() < 0.4
    with pytest.raises(InputError, match="ball: has no faces to take points from"):
        disturb(Shape(points, name="ball"), Disturbance(resample=900))


def test_a_contact_joins_the_nearest_places_that_are_far_along_the_surface():
    bent = tube(bend=1.85 * np.pi)
    found = disturb(bent, Disturbance(contact=True))
    n = len(bent.points)
    np.testing.assert_array_equal(found.shape.points[:n], bent.points)
    np.testing.assert_array_equal(found.there, np.arange(n))
    added = found.shape.points[n:]
    assert len(added) >= 12
    # the two ends of the tube are the place: angle 0 and 1.85 pi on a circle of radius 1
    angle = np.arctan2(added[:, 1], added[:, 0]) % (2 * np.pi)
    assert ((angle > 1.8 * np.pi) | (angle < 0.05 * np.pi)).all()
    ends = [0, n - 12]
    before = geometry.geodesics(Shape(bent.points), np.array(ends[:1]))[0, ends[1]]
    after = geometry.geodesics(Shape(found.shape.points), np.array(ends[:1]))[0, ends[1]]
    assert after < 0.4 * before


def test_a_ball_has_no_two_places_to_join(sphere_points, monkeypatch):
    monkeypatch.setattr(disturbances, "_FAR", 3.0)
    with pytest.raises(InputError, match="no two places are far apart along the surface"):
        disturb(Shape(sphere_points(300)), Disturbance(contact=True))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"noise": -0.1}, "noise must be between 0 and 1"),
        ({"noise": 1.0}, "noise must be between 0 and 1"),
        ({"thin": 1.0}, "thin must be between 0 and 1"),
        ({"turn": 181.0}, "turn must be between 0 and 180 degrees; got 181"),
        ({"turn": -1.0}, "turn must be between"),
        ({"resample": -1}, "resample must be a number of points; got -1"),
    ],
)
def test_disturbances_that_make_no_sense(change, message):
    with pytest.raises(InputError, match=message):
        Disturbance(**change)
