import numpy as np
import pytest

from coembed import sampling


@pytest.mark.parametrize("n", [50, 400, 1900])
def test_thinning_gives_about_as_many_as_wanted_and_never_more(sphere_points, n):
    points = sphere_points(2000)
    rows = sampling.thin(points, n)
    assert 0.9 * n <= len(rows) <= n
    assert (np.diff(rows) > 0).all()


def test_thinning_is_even_where_the_cloud_is_not(rng, sphere_points):
    points = sphere_points(40_000)
    kept = rng.random(len(points)) < np.where(points[:, 2] > 0, 1.0, 0.1)
    points = points[kept]
    rows = sampling.thin(points, 500)
    assert abs((points[rows, 2] > 0).mean() - 0.5) < 0.06
    apart = np.linalg.norm(points[rows][:, None] - points[rows][None], axis=2)
    np.fill_diagonal(apart, 9)
    assert apart.min() > 0.2 * np.median(apart.min(axis=1))


def test_thinning_does_not_depend_on_the_order(sphere_points, rng):
    points = sphere_points(3000)
    order = rng.permutation(3000)
    one = points[sampling.thin(points, 300)]
    other = points[order][sampling.thin(points[order], 300)]
    assert {tuple(p) for p in one} == {tuple(p) for p in other}


def test_thinning_by_nothing_and_to_one(sphere_points):
    points = sphere_points(100)
    np.testing.assert_array_equal(sampling.thin(points, 100), np.arange(100))
    np.testing.assert_array_equal(sampling.thin(points, 1000), np.arange(100))
    assert len(sampling.thin(points, 1)) == 1


def test_a_far_point_does_not_swallow_the_rest(sphere_points):
    points = np.append(1e-7 * sphere_points(1000), [[1.0, 0, 0]], axis=0)
    assert len(sampling.thin(points, 200)) >= 180


def test_interpolation_is_exact_at_the_points_and_near_between(sphere_points):
    points = sphere_points(4000)
    rows = sampling.thin(points, 1000)
    carry = sampling.interpolation(points, points[rows])
    values = points[rows] * [1, 2, 3]
    found = carry(values)
    np.testing.assert_allclose(found[rows], values, atol=1e-6)
    assert np.abs(found - points * [1, 2, 3]).max() < 0.02
    np.testing.assert_allclose(carry.weights.sum(axis=1), 1, rtol=1e-6)
    np.testing.assert_array_equal(carry.nearest[rows, 0], np.arange(len(rows)))
    assert carry(values.astype(np.float32)).dtype == np.float32


def test_interpolation_carries_linear_functions_of_a_plane_nearly_exactly(rng):
    plane, others = (np.append(rng.random((n, 2)), np.zeros((n, 1)), axis=1) for n in (300, 2000))
    values = others[:, :2] @ [[3.0, 1.0], [-2.0, 5.0]] + 7
    carry = sampling.interpolation(plane, others)
    off = np.abs(carry(values) - (plane[:, :2] @ [[3.0, 1.0], [-2.0, 5.0]] + 7))
    assert np.median(off) < 2e-3
    assert off.max() < 0.05


def test_interpolation_from_fewer_points_than_asked(sphere_points):
    carry = sampling.interpolation(sphere_points(50), np.eye(3)[:2])
    assert carry.nearest.shape == (50, 2)
    np.testing.assert_allclose(carry.weights.sum(axis=1), 1, rtol=1e-6)
    alone = sampling.interpolation(sphere_points(50), np.eye(3)[:1], k=1)
    np.testing.assert_allclose(alone(np.array([[5.0]])), 5)
