"""The compiled Laplacian against the library's, which it repeats entry by entry."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import robust_laplacian
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st

from coembed import bodies, compiled, geometry, spectrum
from coembed.errors import NumericalError
from coembed.shapes import Shape

native = compiled.native()
pytestmark = pytest.mark.skipif(native is None, reason="not compiled")


def ellipsoid(rng, n=1500):
    points = rng.standard_normal((n, 3))
    return points / np.linalg.norm(points, axis=1)[:, None] * [0.2, 0.3, 0.4]


CLOUDS = {
    "ellipsoid": ellipsoid,
    "far from the origin": lambda rng: ellipsoid(rng) + 5,
    "open, flat": lambda rng: rng.random((600, 3)) * [1, 1, 0],
    "nearly on a line": lambda rng: rng.random((300, 3)) * [1, 1e-6, 1e-6],
    "without a surface": lambda rng: rng.random((800, 3)),
    "crossing planes": lambda rng: np.concatenate(
        [rng.random((500, 3)) * [1, 1, 0], rng.random((500, 3)) * [1, 0, 1] + [0, 0.5, -0.5]]
    ),
    "separate": lambda rng: np.concatenate([ellipsoid(rng, 400), ellipsoid(rng, 90) / 9 + 3]),
    "a far point": lambda rng: np.concatenate([ellipsoid(rng, 200), [[1e6, 0, 0]]]),
    "pairs": lambda rng: np.repeat(ellipsoid(rng, 300), 2, 0) + 1e-3 * rng.random((600, 3)),
    "tiny": lambda rng: rng.random((9, 3)) * 1e-30,
    "as few as can be": lambda rng: rng.random((4, 3)),
}


def both(points, n_neighbors=30):
    """Native and library, each as a pair of matrix and mass."""
    k = min(n_neighbors, len(points) - 1)
    near = spectrum.nearest_points(points, k)
    weak, mass = robust_laplacian.point_cloud_laplacian(points, n_neighbors=k)
    return spectrum._native_laplacian(native, points, near), (weak, mass.diagonal())


@pytest.mark.parametrize("name", CLOUDS)
@pytest.mark.parametrize("n_neighbors", [30, 12, 3])
def test_entries_are_those_of_the_library(rng, name, n_neighbors):
    (weak, mass), (wanted, wanted_mass) = both(CLOUDS[name](rng), n_neighbors)
    assert abs(weak - wanted).max() < 1e-7 * abs(wanted.diagonal()).mean()
    np.testing.assert_allclose(mass, wanted_mass, rtol=1e-6)


def test_entries_on_a_body_are_those_of_the_library(rng):
    body = bodies.sample(bodies.body(rng), 3000, rng)
    points = geometry.distinct_points(body.shape).points
    (weak, mass), (wanted, wanted_mass) = both(points)
    assert abs(weak - wanted).max() < 1e-9 * abs(wanted).max()
    np.testing.assert_allclose(mass, wanted_mass, rtol=1e-9)


def test_points_without_triangles_are_as_in_the_library():
    """Three of a line, far away: of each other they see only a line."""
    line = np.array([[50.0, 0, 0], [51.0, 0, 0], [52.5, 0, 0], [54.25, 0, 0]])
    points = np.concatenate([line, ellipsoid(np.random.default_rng(1), 40)])
    (weak, mass), (wanted, wanted_mass) = both(points, 3)
    np.testing.assert_allclose(weak.diagonal()[:4], 1)
    assert abs(weak - wanted).max() < 1e-9
    np.testing.assert_allclose(mass, wanted_mass)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_laplacian_is_one_for_any_points(data):
    """Points of a coarse grid are often coplanar, collinear and equally far."""
    place = st.tuples(*[st.integers(-4, 4)] * 3)
    rows = data.draw(st.lists(place, min_size=4, max_size=60, unique=True))
    points = np.array(sorted(rows)) * data.draw(st.sampled_from([1.0, 0.3, 1e-20, 1e20]))
    try:
        weak, mass = spectrum.laplacian(points, n_neighbors=min(30, len(points) - 1))
    except NumericalError:
        assert np.linalg.matrix_rank(points - points[0]) < 2 or len(points) < 9
        return
    assert weak.has_sorted_indices
    assert abs(weak - weak.T).max() == 0
    assert (mass > 0).all()
    ones = np.abs(weak @ np.ones(len(points)))
    alone = np.diff(weak.indptr) == 1  # points without triangles have a diagonal of 1
    assert (ones[~alone] <= 1e-9 * weak.diagonal().max()).all()


def test_positive_semi_definite_and_the_same_bytes_in_any_thread(rng):
    points = ellipsoid(rng)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: spectrum.laplacian(points), range(8)))
    weak, _ = found[0]
    assert len({(w.data.tobytes(), w.indices.tobytes(), m.tobytes()) for w, m in found}) == 1
    assert scipy.linalg.eigvalsh(weak.toarray(), subset_by_index=(0, 0))[0] > -1e-10


def test_without_it_the_library_serves(rng, monkeypatch, tmp_path):
    shape = Shape(ellipsoid(rng))
    one = geometry.prepare(shape, n_eig=9, cache=tmp_path)
    monkeypatch.setattr(compiled, "native", lambda: None)
    other = geometry.prepare(shape, n_eig=9, cache=tmp_path)
    np.testing.assert_allclose(other.evals, one.evals, rtol=1e-9)
    assert len(list(tmp_path.iterdir())) == 2  # neither is taken for the other


@pytest.mark.parametrize(
    "neighbors",
    [
        [[1, 2, 9], [0, 2, 3], [0, 1, 3], [0, 1, 2]],
        [[1, 2, -1], [0, 2, 3], [0, 1, 3], [0, 1, 2]],
        [[1, 2, 0], [0, 2, 3], [0, 1, 3], [0, 1, 2]],
        [[1, 2], [0, 2], [0, 1], [0, 1]],
        [[1, 2, 3]],
        [],
    ],
    ids=["none such", "negative", "itself", "too few", "one point's", "none"],
)
def test_neighbours_that_cannot_be_are_refused(rng, neighbors):
    with pytest.raises(ValueError, match="neighbours"):
        native.point_cloud_laplacian(rng.random((4, 3)), np.array(neighbors, dtype=np.int32), 1e-5)


def test_one_line_has_no_laplacian():
    with pytest.raises(NumericalError, match="no Laplacian of 20 points"):
        spectrum.laplacian(np.arange(20.0)[:, None] * [1, 2, 3], n_neighbors=6)


@pytest.mark.parametrize("columns", [(), (1,), (8,), (11,), (0,)])
def test_solutions_are_those_of_the_factor(rng, columns):
    weak, mass = spectrum.laplacian(ellipsoid(rng))
    factor = spectrum._factor(weak / mass.mean())
    assert isinstance(factor, spectrum._NativeFactor)
    matrix = weak / mass.mean() + 0.01 * scipy.sparse.eye_array(len(mass))
    right = rng.standard_normal((len(mass), *columns))
    kept = right.copy()
    np.testing.assert_allclose(matrix @ factor.solve(right), right, atol=1e-9)
    np.testing.assert_array_equal(right, kept)
    turned = np.asfortranarray(right)
    np.testing.assert_array_equal(factor.solve(turned), factor.solve(right))


def test_a_factor_that_does_not_fit_is_refused(rng):
    weak, _ = spectrum.laplacian(ellipsoid(rng, 200))
    factor = spectrum._factor(weak)
    with pytest.raises(ValueError, match="right-hand sides of its size"):
        factor.solve(np.ones(199))
    upper, (starts, *rest) = factor._upper, factor._lower
    with pytest.raises(ValueError, match="right-hand sides of its size"):
        native.solve(upper, (starts[:-1], *rest), factor._place, np.ones(200))
    fixed = np.ones(200)
    fixed.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        native.solve(upper, factor._lower, factor._place, fixed)
