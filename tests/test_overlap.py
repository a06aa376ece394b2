import numpy as np
import pytest

from coembed import bodies, normals, overlap


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


def test_seats_turn_with_the_shape(ball):
    turn = np.array([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]])
    upright = overlap.seats(ball, ball @ turn.T, np.eye(3))
    np.testing.assert_allclose(overlap.seats(ball, ball, turn), upright, atol=1e-9)


def test_what_the_other_part_lacks_is_away(ball):
    front, back = ball[:, 2] > 0, ball[:, 2] < 0
    seats = overlap.seats(ball, ball, np.eye(3))
    away = overlap.away(seats[front], seats[front][::2])
    assert away.shape == (front.sum(), 4)
    assert away[:, 0].max() < 0.2
    assert (away[:, 1] > away[:, 0]).all()  # of more of the others
    flat = seats * (1, 1, 0, 1, 1, 1)  # the two sides of a thin limb have one place
    one, other = (overlap.away(flat[front], flat[side]) for side in (front, back))
    assert np.median(other[:, 0]) < 0.05
    assert np.median(other[:, 2]) > 2 * np.median(one[:, 2])
