import numpy as np
import pytest

from coembed import functional, geometry
from coembed.functional import Basis
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


def test_a_functional_map_by_hand():
    source = np.array([[1.0, 0], [0, 1], [1, 1]])
    found = functional.functional_map(source, source @ [[0.0, 2], [3, 1]])
    np.testing.assert_allclose(found, [[0, 2], [3, 1]], atol=1e-12)


@pytest.mark.parametrize("both", [False, True])
def test_the_exact_map_stays(pair, both):
    source, target, truth = pair
    back = np.argsort(truth) if both else None
    found = functional.zoomout(source, target, truth, back, first=20, step=20)
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
    found = functional.zoomout(source, target, start, back, first=20, step=20)
    assert (start == truth).mean() < 0.75
    assert (found == truth).mean() > 0.95


def test_only_the_rows_asked_for_are_answered(pair):
    source, target, truth = pair
    rows = np.array([5, 3, 600])
    np.testing.assert_array_equal(
        functional.zoomout(source, target, truth, rows=rows, first=20, step=20), truth[rows]
    )


def test_fewer_modes_than_the_first_step_are_used_as_they_are(pair):
    source, target, truth = pair
    few = [Basis(b.evals[:12], b.evecs[:, :12], b.mass) for b in (source, target)]
    found = functional.zoomout(*few, truth, first=80)
    np.testing.assert_array_equal(found, truth)
