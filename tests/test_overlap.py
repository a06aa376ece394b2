import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from coembed import bodies, evaluation, locator, normals, overlap


def look(points):
    return locator.load().look(points)


@pytest.fixture(scope="module")
def ball():
    rng = np.random.default_rng(0)
    points = rng.standard_normal((3000, 3))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def test_normals_point_outwards_on_a_ball_and_on_half_of_it(ball):
    for part in (ball, ball[ball[:, 0] > 0], 7 * ball + 3):
        found = normals.outward(part)
        out = part - 3 if len(part) == len(ball) and part is not ball else part
        assert np.einsum("na,na->n", found, out).min() > 0
        np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1)


def test_most_normals_of_a_body_point_outwards():
    rng = np.random.default_rng(1)
    body = bodies.body(rng)
    view = bodies.scan(body, 3000, rng, cut="views")
    corners = body.vertices[bodies.body_model().faces][view.face]
    truth = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    found = normals.outward(view.shape.points)
    assert (np.einsum("na,na->n", found, truth) > 0).mean() > 0.85


def test_what_the_other_part_has_is_told_from_what_it_lacks():
    rng = np.random.default_rng(2)
    one, other = (bodies.sample(bodies.body(rng), 3000, rng) for _ in range(2))
    heights = np.quantile(one.place[:, 2], (0.3, 0.7))
    upper, lower = one.place[:, 2] > heights[0], other.place[:, 2] < heights[1]
    turn = Rotation.from_euler("xyz", (50, 20, 130), degrees=True).as_matrix()
    points, others = one.shape.points[upper], other.shape.points[lower]
    odds = overlap.shared(look(points), look(others), points)
    common = one.place[upper, 2] < heights[1]
    assert evaluation.auroc(odds, common) > 0.9
    assert ((odds > 0) == common).mean() > 0.8
    few = np.arange(0, len(points), 7)
    some = overlap.shared(look(points), look(others), points[few])
    np.testing.assert_allclose(some, odds[few], atol=1e-9)
    turned = points @ turn.T
    turned = overlap.shared(look(turned), look(100 * others + 3), turned)
    assert (np.sign(turned) == np.sign(odds)).mean() > 0.95


def test_a_whole_has_everything():
    rng = np.random.default_rng(4)
    body = bodies.body(rng)
    view, whole = bodies.scan(body, 2000, rng, cut="views"), bodies.sample(body, 3000, rng)
    points = view.shape.points
    assert (overlap.shared(look(points), look(whole.shape.points), points) > 0).mean() > 0.95
