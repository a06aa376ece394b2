from dataclasses import replace

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


KINDS = {
    "resample": Disturbance(resample=500),
    "thin": Disturbance(thin=0.4),
    "noise": Disturbance(noise=0.02),
    "turn": Disturbance(turn=30),
    "contact": Disturbance(contact=True),
    "all": Disturbance(resample=500, thin=0.4, contact=True, noise=0.02, turn=30),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_disturbance_depends_on_its_seed_alone(mesh, kind):
    one, again, other = (disturb(mesh, KINDS[kind], seed=seed) for seed in (4, 4, 5))
    np.testing.assert_array_equal(one.shape.points, again.shape.points)
    np.testing.assert_array_equal(one.there, again.there)
    np.testing.assert_array_equal(one.back, again.back)
    same = (
        one.shape.points.shape == other.shape.points.shape
        and (one.shape.points == other.shape.points).all()
    )
    # where to bridge is no matter of chance
    assert same == (kind == "contact")


@pytest.mark.parametrize("kind", KINDS)
def test_rows_lead_there_and_back(mesh, kind):
    """The rows named are the nearest ones, seen before noise and turn."""
    still = {"noise": 0.0, "turn": 0.0}
    found = disturb(mesh, KINDS[kind], seed=2)
    before = disturb(mesh, replace(KINDS[kind], **still), seed=2).shape.points
    n, m = len(mesh.points), len(found.shape.points)
    assert (len(found.there), len(found.back)) == (n, m)
    assert found.there.min() >= 0
    assert found.there.max() < m
    assert found.back.min() >= 0
    assert found.back.max() < n
    apart = np.linalg.norm(mesh.points[:, None] - before[None], axis=2)
    np.testing.assert_allclose(apart[np.arange(n), found.there], apart.min(axis=1))
    # a point taken anew leads to the nearest corner of its triangle (sides of 0.07 at most)
    off = apart[found.back, np.arange(m)] - apart.min(axis=0)
    assert off.max() < (0.05 if "resample" in kind or kind == "all" else 1e-12)
    if kind in ("noise", "turn"):
        np.testing.assert_array_equal(found.there, np.arange(n))
        np.testing.assert_array_equal(found.back, np.arange(n))
        np.testing.assert_array_equal(found.shape.faces, mesh.faces)
        assert (found.shape.points != mesh.points).any()
    else:
        assert found.shape.faces is None


def test_thinning_falls_off_along_the_shape():
    """By e³ from one end to the other in the odds: from the densest fifth to the emptiest."""
    points = np.random.default_rng(0).uniform(-1, 1, (6000, 3))
    found = disturb(Shape(points), Disturbance(thin=0.7), seed=1)
    kept = np.zeros(6000, bool)
    kept[found.back] = True
    middle = points[kept].mean(axis=0) - points.mean(axis=0)
    along = points @ middle
    ends = [kept[part].mean() for part in np.array_split(np.argsort(along), 5)]
    assert (np.diff(ends) > 0).all()
    assert ends[-1] > 3 * ends[0]


def test_points_are_taken_anew_by_area():
    """A square of one half and a hundred small pieces of the other: each half gets its half."""
    edge = np.linspace(0, 1, 101)
    fan = np.stack([edge, np.ones(101), np.zeros(101)], axis=1)
    points = np.concatenate([[[0.0, 0, 0], [1, 0, 0]], fan])
    faces = np.array([[0, 1, 102], *([0, 2 + i, 3 + i] for i in range(100))])
    found = disturb(Shape(points, faces), Disturbance(resample=4000))
    x, y, z = found.shape.points.T
    assert (z == 0).all()
    assert (y <= x).mean() == pytest.approx(0.5, abs=0.04)
    # uniform within the large triangle too: the mean of its points is its centroid
    large = found.shape.points[y <= x]
    np.testing.assert_allclose(large.mean(axis=0), [2 / 3, 1 / 3, 0], atol=0.02)


def test_a_number_of_points_is_whole(unchecked):
    with pytest.raises(InputError, match=r"resample must be a number of points; got 1\.5"):
        Disturbance(resample=1.5)
    with pytest.raises(InputError, match="noise must be between 0 and 1"):
        Disturbance(noise=float("nan"))
