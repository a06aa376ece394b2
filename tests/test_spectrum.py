import numpy as np
import pytest
import scipy

from coembed import compiled, geometry, spectrum
from coembed.errors import NumericalError
from coembed.shapes import Shape


@pytest.fixture(scope="module")
def operators(sphere_points):
    """Laplacian, mass and points of an ellipsoid of area about one."""
    points = geometry.distinct_points(Shape(sphere_points(4000) * [0.2, 0.3, 0.4])).points
    stiffness, mass = spectrum.laplacian(points)
    return stiffness, mass / mass.sum(), points


@pytest.fixture
def short_way(monkeypatch):
    """Take the short way already for small clouds."""
    monkeypatch.setattr(spectrum, "_EXACT_BELOW", 1000)
    monkeypatch.setattr(spectrum, "_COARSE", 800)


def test_the_short_way_is_near_the_exact_one(operators, short_way):
    stiffness, mass, points = operators
    exact, basis = spectrum.eigenpairs(stiffness, mass, 25)
    evals, evecs = spectrum.eigenpairs(stiffness, mass, 25, points=points)
    assert (evals >= exact * (1 - 1e-9)).all()  # Rayleigh-Ritz comes from above
    np.testing.assert_allclose(evals[:10], exact[:10], rtol=2e-3)
    np.testing.assert_allclose(evals, exact, rtol=0.03)
    cosines = np.linalg.svd(basis[:, :20].T @ (mass[:, None] * evecs), compute_uv=False)
    assert cosines.min() > 0.98


def test_the_short_way_keeps_the_promises_of_the_exact_one(operators, short_way):
    stiffness, mass, points = operators
    evals, evecs = spectrum.eigenpairs(stiffness, mass, 25, points=points)
    assert (np.diff(evals) >= 0).all()
    np.testing.assert_allclose(evecs.T @ (mass[:, None] * evecs), np.eye(25), atol=1e-9)
    np.testing.assert_allclose(mass @ evecs, 0, atol=1e-9)
    assert (evecs[np.abs(evecs).argmax(axis=0), np.arange(25)] > 0).all()
    again = spectrum.eigenpairs(stiffness, mass, 25, points=points)
    assert again[1].tobytes() == evecs.tobytes()


def test_the_short_way_leaves_out_one_constant_for_each_component(sphere_points, short_way):
    """A speck that the thinned cloud misses has a constant of its own all the same."""
    speck = 0.001 * sphere_points(40) + [1.0, 0, 0]
    points = np.concatenate([sphere_points(3000) * [0.2, 0.3, 0.4], speck])
    points = geometry.distinct_points(Shape(points)).points
    stiffness, mass = spectrum.laplacian(points, n_neighbors=12)
    mass = mass / mass.sum()
    exact, _ = spectrum.eigenpairs(stiffness, mass, 12, n_constant=2)
    evals, _ = spectrum.eigenpairs(stiffness, mass, 12, n_constant=2, points=points)
    assert evals.min() > 1
    np.testing.assert_allclose(evals, exact, rtol=0.02)


def test_a_laplacian_in_parts_is_that_of_the_whole(operators, monkeypatch):
    whole, _, points = operators
    _, whole_mass = spectrum.laplacian(points)
    monkeypatch.setattr(spectrum, "_PART", 1500)
    monkeypatch.setattr(compiled, "native", lambda: None)
    near = spectrum.nearest_points(points, 30)
    asked = []
    library = spectrum._library_laplacian
    monkeypatch.setattr(
        spectrum, "_library_laplacian", lambda *given: asked.append(given[0]) or library(*given)
    )
    parts, mass = spectrum.laplacian(points, neighbors=near)
    assert [len(given) < len(points) for given in asked] == [True, True, True]
    assert abs(parts - parts.T).max() == 0
    np.testing.assert_allclose(parts.sum(axis=1), 0, atol=1e-10)
    np.testing.assert_allclose(mass, whole_mass, rtol=1e-3)
    assert abs(parts - whole).max() < 1e-3 * abs(whole).max()


def test_many_eigenpairs_of_few_points_take_the_exact_way(operators, monkeypatch):
    stiffness, mass, points = operators
    monkeypatch.setattr(spectrum, "_EXACT_BELOW", 1000)
    one = spectrum.eigenpairs(stiffness, mass, 60, points=points)
    other = spectrum.eigenpairs(stiffness, mass, 60)
    np.testing.assert_array_equal(one[0], other[0])


def test_prepare_takes_the_short_way_for_large_clouds(sphere_points, monkeypatch):
    shape = Shape(sphere_points(3000) * [1, 2, 3])
    exact = geometry.prepare(shape, n_eig=12)
    monkeypatch.setattr(spectrum, "_EXACT_BELOW", 1000)
    short = geometry.prepare(shape, n_eig=12)
    assert (exact.evals != short.evals).any()
    np.testing.assert_allclose(short.evals, exact.evals, rtol=0.02)


def test_lanczos_finds_every_eigenpair_of_parts_that_are_alike(sphere_points, monkeypatch):
    """More often than a block has vectors: twelve spheres, three of each first eigenvalue."""
    points = geometry.distinct_points(Shape(sphere_points(600))).points
    weak, mass = spectrum.laplacian(points)
    many = scipy.sparse.block_diag([weak] * 12, format="csc")
    evals, evecs = spectrum.eigenpairs(many, np.tile(mass, 12), 60, n_constant=12)
    inner = evecs.T @ (np.tile(mass, 12)[:, None] * evecs)
    np.testing.assert_allclose(inner, np.eye(60), atol=1e-9)
    monkeypatch.setattr(spectrum, "_DENSE_BELOW", 10_000)
    one, _ = spectrum.eigenpairs(weak, mass, 8)
    np.testing.assert_allclose(evals, np.repeat(one, 12)[:60], rtol=1e-6)


def test_lanczos_gives_up_in_one_sentence(operators, monkeypatch):
    monkeypatch.setattr(spectrum, "_TOLERANCE", 0.0)
    with pytest.raises(NumericalError, match="egg: no 21 eigenpairs of 4000 points among 280"):
        spectrum.eigenpairs(*operators[:2], 20, name="egg")


def test_lanczos_keeps_many_vectors_orthogonal(sphere_points):
    one = geometry.prepare(Shape(sphere_points(1500) * [1, 2, 3]), n_eig=200)
    inner = one.evecs.T @ (one.mass[:, None] * one.evecs)
    np.testing.assert_allclose(inner, np.eye(200), atol=1e-9)


def test_components_are_those_of_the_graph(rng):
    ends = rng.integers(0, 500, (2, 300))
    graph = scipy.sparse.coo_array((np.ones(300), ends), shape=(500, 500)).tocsc()
    graph = scipy.sparse.csc_array(graph + graph.T + scipy.sparse.eye_array(500))
    count, labels = scipy.sparse.csgraph.connected_components(graph, directed=False)
    found = spectrum.components(graph)
    assert 100 < count == len(set(found)) == len(set(zip(found, labels, strict=True)))
    assert (found[found] == found).all()
    assert (found <= np.arange(500)).all()
