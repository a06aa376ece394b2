import numpy as np
import pytest

from coembed import functional, geometry
from coembed.functional import Basis
from coembed.search import nearest
from coembed.shapes import Shape


def basis_of(shape, k):
    operators = geometry.prepare(shape, n_eig=k)
    rows = operators.rows
    return Basis(operators.evals, operators.evecs[rows], operators.mass[rows])


@pytest.fixture(scope="module")
def pair(torus):
    """A torus and a copy in another order, each with its basis; and the true map."""
    order = np.random.default_rng(0).permutation(len(torus.points))
    copy = Shape(torus.points[order], name="copy")
    return basis_of(torus, 60), basis_of(copy, 60), np.argsort(order)


def refined(*arguments, **settings):
    return nearest(*functional.zoomout(*arguments, **settings))


def test_a_functional_map_by_hand():
    source = np.array([[1.0, 0], [0, 1], [1, 1]])
    found = functional.functional_map(source, source @ [[0.0, 2], [3, 1]])
    np.testing.assert_allclose(found, [[0, 2], [3, 1]], atol=1e-12)


@pytest.mark.parametrize("both", [False, True])
def test_the_exact_map_stays(pair, both):
    source, target, truth = pair
    back = np.argsort(truth) if both else None
    found = refined(source, target, truth, back, first=20, step=20)
    np.testing.assert_array_equal(found, truth)


@pytest.mark.parametrize("both", [False, True])
def test_a_map_with_errors_is_mended(pair, both, rng):
    source, target, truth = pair
    n = len(truth)

    def spoiled(p2p):
        wrong = rng.random(n) < 0.3
        return np.where(wrong, rng.integers(n, size=n), p2p)

    start = spoiled(truth)
    back = spoiled(np.argsort(truth)) if both else None
    found = refined(source, target, start, back, first=20, step=20)
    assert (start == truth).mean() < 0.75
    assert (found == truth).mean() > 0.95


def test_fewer_modes_than_the_first_step_are_used_as_they_are(pair):
    source, target, truth = pair
    few = [Basis(b.evals[:12], b.evecs[:, :12], b.mass) for b in (source, target)]
    found = refined(*few, truth, first=80)
    np.testing.assert_array_equal(found, truth)


def test_a_functional_map_that_cannot_be_exact_is_the_least_squares_one():
    found = functional.functional_map(np.array([[1.0], [1], [2]]), np.array([[0.0], [3], [3]]))
    # the slope of the line through zero: (0 + 3 + 6) / (1 + 1 + 4)
    np.testing.assert_allclose(found, [[1.5]], atol=1e-12)


def test_a_coarse_map_becomes_fine_step_by_step(pair, rng):
    """What six eigenvectors tell in noise; all sixty at once would follow the noise."""
    source, target, truth = pair
    noise = rng.normal(scale=0.5, size=(len(truth), 6))
    start = nearest(source.evecs[:, :6] + noise, target.evecs[:, :6])
    stepwise = refined(source, target, start, first=10, step=10)
    at_once = refined(source, target, start, first=60)
    assert (start == truth).mean() < 0.2
    assert (at_once == truth).mean() < 0.6
    assert (stepwise == truth).mean() > 0.95


def test_bases_of_different_size_and_shapes_of_different_numbers_of_points(pair):
    source, target, truth = pair
    part = np.flatnonzero(np.arange(len(truth)) % 3)
    few = Basis(target.evals[:40], target.evecs[part, :40], target.mass[part])
    # row of the part for each source row whose target is in it; the others start at the nearest
    place = nearest(target.evecs[truth], target.evecs[part])
    back = np.argsort(truth)[part]
    for way_back in (None, back):
        found = refined(source, few, place, way_back, first=20, step=20)
        assert found.shape == truth.shape
        assert found.max() < len(part)
        assert (part[found] == truth).mean() > 0.6
