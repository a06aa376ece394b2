"""Order of trust: known spectrum, identities, invariances, a second method."""

import logging

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra
from scipy.spatial import ConvexHull
from scipy.spatial.transform import Rotation

from coembed import geometry, spectrum
from coembed.errors import InputError, NumericalError
from coembed.shapes import MIN_POINTS, Shape

ARRAYS = ("points", "mass", "evals", "evecs", "grad_x", "grad_y", "centre")


def same_bits(one, other, *, rows=True):
    for name in (*ARRAYS, *(("rows",) if rows else ())):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    np.testing.assert_array_equal(one.laplacian.toarray(), other.laplacian.toarray())
    assert one.scale == other.scale
    assert one.notes == other.notes


# --------------------------------------------------------------------------- known answers


def degrees_and_spectrum(sphere_points, n):
    evals = geometry.prepare(Shape(sphere_points(n)), n_eig=24).evals
    degree = np.repeat([1, 2, 3, 4], [3, 5, 7, 9])
    return evals, 4 * np.pi * degree * (degree + 1)


def test_sphere_has_the_known_spectrum_with_its_multiplicities(sphere_points):
    evals, exact = degrees_and_spectrum(sphere_points, 2000)
    # the error of linear elements grows with the eigenvalue times the squared spacing:
    # 80 pi / 2000 is about 0.13, a tenth of which is seen
    np.testing.assert_allclose(evals, exact, rtol=0.02)
    for first, last in ((0, 3), (3, 8), (8, 15), (15, 24)):
        assert np.ptp(evals[first:last]) < 0.02 * evals[first]


def test_the_spectrum_converges_as_points_are_added(sphere_points):
    off = []
    for n in (500, 2000):
        evals, exact = degrees_and_spectrum(sphere_points, n)
        off.append(np.abs(evals / exact - 1).max())
    assert off[1] < 0.5 * off[0]


def test_nearest_points_are_others_and_in_order(rng):
    points = rng.standard_normal((300, 3))
    near = spectrum.nearest_points(points, 7)
    distances = np.linalg.norm(points[:, None] - points, axis=2)
    np.testing.assert_array_equal(near, distances.argsort(axis=1)[:, 1:8])


def test_gradient_of_a_linear_function_on_a_plane_is_exact_but_for_the_regulariser(rng):
    points = np.concatenate([rng.uniform(-2, 2, (400, 2)), np.zeros((400, 1))], axis=1)
    function = 3 * points[:, :1] - 2 * points[:, 1:2]
    grad_x, grad_y = geometry.gradients(points, function, spectrum.nearest_points(points, 30))
    # the frame is (x, y, normal); a plane bulges to neither side, so y may point either way
    np.testing.assert_allclose(grad_x[:, 0], 3, rtol=1e-3)
    np.testing.assert_allclose(np.abs(grad_y[:, 0]), 2, rtol=1e-3)


def test_gradient_of_a_constant_is_zero(sphere):
    near = spectrum.nearest_points(sphere.points, 30)
    for grad in geometry.gradients(sphere.points, np.ones((500, 1)), near):
        np.testing.assert_allclose(grad, 0, atol=1e-10)


def test_gradient_of_height_on_a_sphere_is_tangent_length(sphere):
    height = sphere.points[:, 2:]
    grad_x, grad_y = geometry.gradients(
        sphere.points, height, spectrum.nearest_points(sphere.points, 12)
    )
    length = np.hypot(grad_x, grad_y)[:, 0]
    # |grad z| = sqrt(1 - z^2) on the unit sphere; the fit is of first order in the spacing
    off = np.abs(length - np.sqrt(1 - height[:, 0] ** 2))
    assert off.mean() < 0.03
    assert off.max() < 0.15


def test_mass_is_uniform_on_a_uniform_sphere(sphere_operators):
    assert sphere_operators.mass.std() < 0.1 * sphere_operators.mass.mean()


def test_area_of_the_sphere_is_found(sphere):
    _, mass = spectrum.laplacian(sphere.points)
    # chords under the arc: area is short by about spacing squared, 4 pi / 500
    assert mass.sum() == pytest.approx(4 * np.pi, rel=0.03)


# ------------------------------------------------------------------------------ identities


@pytest.mark.parametrize("which", ["sphere_operators", "torus_operators"])
def test_operators_satisfy_their_identities(which, request):
    one = request.getfixturevalue(which)
    weak, evecs = one.laplacian.toarray(), one.evecs
    np.testing.assert_array_equal(weak, weak.T)
    np.testing.assert_allclose(weak.sum(axis=1), 0, atol=1e-10 * np.abs(weak).max())
    assert np.linalg.eigvalsh(weak)[0] > -1e-10 * np.abs(weak).max()
    assert one.mass.sum() == pytest.approx(1, abs=1e-12)
    assert (one.mass > 0).all()
    np.testing.assert_allclose(evecs.T @ (one.mass[:, None] * evecs), np.eye(16), atol=1e-9)
    residual = (weak @ evecs / one.mass[:, None] - evecs * one.evals) / one.evals
    assert np.sqrt(one.mass @ residual**2).max() < 2e-3
    np.testing.assert_allclose(one.mass @ one.points, 0, atol=1e-12)
    np.testing.assert_allclose(one.mass @ evecs, 0, atol=1e-9)
    assert (np.diff(one.evals) >= 0).all()
    assert one.evals[0] > 1
    largest = np.abs(evecs).argmax(axis=0)
    assert (evecs[largest, np.arange(16)] > 0).all()


def test_lanczos_and_the_dense_solver_agree(torus_operators, monkeypatch):
    one = torus_operators
    monkeypatch.setattr(spectrum, "_DENSE_BELOW", 10_000)
    evals, evecs = spectrum.eigenpairs(one.laplacian, one.mass, 16)
    np.testing.assert_allclose(one.evals, evals, rtol=1e-8)
    np.testing.assert_allclose(one.evecs, evecs, atol=1e-3)


def test_centre_and_scale_lead_from_the_file_to_the_operators(torus, torus_operators):
    one = torus_operators
    np.testing.assert_allclose((torus.points - one.centre) * one.scale, one.points[one.rows])


# ------------------------------------------------------------------------------ invariances


@pytest.mark.parametrize(
    ("turn", "shift", "factor"),
    [((0.3, -1.1, 0.7), 0.0, 1.0), ((0, 0, 0), 1000.0, 1.0), ((0, 0, 0), 0.0, 1e-4),
     ((2.0, 0.5, -0.4), -3.0, 250.0)],
    ids=["turn", "shift", "scale", "all"],
)  # fmt: skip
def test_operators_do_not_see_rotation_translation_or_scale(
    torus, torus_operators, turn, shift, factor
):
    matrix = Rotation.from_rotvec(turn).as_matrix()
    moved = Shape(factor * torus.points @ matrix.T + shift)
    one, other = torus_operators, geometry.prepare(moved, n_eig=16)
    # the library's local triangulations decide near ties otherwise after a turn:
    # 1e-4 in the eigenvalues, a few per cent in the mass of one point in twenty
    np.testing.assert_allclose(other.evals, one.evals, rtol=1e-3)
    assert np.abs(other.mass[other.rows] / one.mass[one.rows] - 1).mean() < 0.01
    mass, evecs = one.mass[one.rows], one.evecs[one.rows]
    likeness = np.abs(np.einsum("n,nk,nk->k", mass, evecs, other.evecs[other.rows]))
    assert (likeness > 0.99).all()
    length = [np.hypot(o.grad_x, o.grad_y)[o.rows] for o in (one, other)]
    assert np.abs(length[1] - length[0]).mean() < 0.02 * length[0].mean()


def test_a_shift_and_a_scale_change_round_off_only(torus, torus_operators):
    other = geometry.prepare(Shape(250 * torus.points - 3), n_eig=16)
    np.testing.assert_allclose(other.evals, torus_operators.evals, rtol=1e-6)
    np.testing.assert_allclose(
        other.evecs[other.rows], torus_operators.evecs[torus_operators.rows], atol=1e-5
    )


def test_row_order_changes_rows_and_nothing_else(torus, torus_operators, rng):
    order = rng.permutation(len(torus.points))
    other = geometry.prepare(Shape(torus.points[order]), n_eig=16)
    same_bits(torus_operators, other, rows=False)
    np.testing.assert_array_equal(other.rows, torus_operators.rows[order])


def test_repeated_points_share_one_row(torus, torus_operators):
    twice = Shape(np.concatenate([torus.points, torus.points[[3, 3, 8]]]))
    other = geometry.prepare(twice, n_eig=16)
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(other, name), getattr(torus_operators, name))
    np.testing.assert_array_equal(other.rows[-3:], other.rows[[3, 3, 8]])
    assert other.notes == ("3 repeated points share the answer of their first copy",)


# ------------------------------------------------------------------- odd and tiny shapes


def test_each_component_loses_one_constant_and_no_mode(sphere_points):
    small = sphere_points(300)
    aside = np.array([10, 0, 0])
    pair = Shape(np.concatenate([small, small + aside, small - aside]))
    one, single = geometry.prepare(pair, n_eig=9), geometry.prepare(Shape(small), n_eig=3)
    assert one.notes == ("3 separate components, each with a constant mode of its own",)
    # three equal spheres: every mode of one comes three times, at a third of the total area
    # (a sphere's near ties in the triangulation fall differently in each: 1 % here)
    np.testing.assert_allclose(one.evals, 3 * np.repeat(single.evals, 3), rtol=0.02)
    assert not np.isclose(one.evals, 0, atol=1).any()
    assert one.evecs.shape == (900, 9)


def test_tiny_shapes_get_fewer_eigenpairs_and_say_so(sphere_points):
    one = geometry.prepare(Shape(sphere_points(25)))
    assert one.evecs.shape == (25, 23)
    assert one.notes == (
        "neighbours lowered from 30 to 24: 25 distinct points",
        "eigenpairs lowered from 79 to 23: 25 distinct points",
    )


def test_the_fewest_points_that_are_taken(sphere_points):
    assert len(geometry.prepare(Shape(sphere_points(MIN_POINTS))).mass) == MIN_POINTS
    with pytest.raises(InputError, match=f"at least {MIN_POINTS} points are needed; got 19"):
        geometry.prepare(Shape(sphere_points(MIN_POINTS - 1)))


def test_too_few_distinct_points_are_refused():
    with pytest.raises(InputError, match=r"20 distinct points are needed; got 1 among 50 rows"):
        geometry.prepare(Shape(np.ones((50, 3))))


def test_points_on_a_line_are_refused_with_their_name():
    line = np.outer(np.linspace(0, 1, 60), [1.0, 2.0, 3.0])
    with pytest.raises((InputError, NumericalError), match="wire"):
        geometry.prepare(Shape(line, name="wire"))


def test_points_on_a_plane_and_a_grid_are_taken():
    x, y = np.meshgrid(np.arange(12.0), np.arange(12.0))
    flat = np.stack([x.ravel(), y.ravel(), np.zeros(144)], axis=1)
    one = geometry.prepare(Shape(flat), n_eig=10)
    assert np.isfinite(one.evecs).all()
    assert np.isfinite(one.grad_x).all()


# ------------------------------------------------------------------------------------ cache


def test_a_warm_cache_equals_a_cold_one_bit_for_bit(torus, torus_operators, tmp_path):
    cold = geometry.prepare(torus, n_eig=16, cache=tmp_path / "new" / "cache")
    warm = geometry.prepare(torus, n_eig=16, cache=tmp_path / "new" / "cache")
    same_bits(cold, torus_operators)
    same_bits(warm, torus_operators)
    assert len(list((tmp_path / "new" / "cache").iterdir())) == 1


def test_a_warm_cache_computes_nothing_and_takes_the_name_of_the_shape(
    torus, tmp_path, monkeypatch
):
    geometry.prepare(torus, n_eig=16, cache=tmp_path)
    monkeypatch.setattr(geometry, "_prepared", None)
    again = geometry.prepare(Shape(torus.points, name="other"), n_eig=16, cache=tmp_path)
    assert again.name == "other"


@pytest.mark.parametrize("harm", ["cut", "flipped", "emptied", "text"])
def test_a_damaged_cache_file_is_made_again(torus, torus_operators, tmp_path, caplog, harm):
    geometry.prepare(torus, n_eig=16, cache=tmp_path)
    (path,) = tmp_path.iterdir()
    content = bytearray(path.read_bytes())
    if harm == "flipped":
        content[-100] ^= 1
    path.write_bytes(
        {"cut": content[:-500], "flipped": content, "emptied": b"", "text": b"hello"}[harm]
    )
    with caplog.at_level(logging.WARNING):
        same_bits(geometry.prepare(torus, n_eig=16, cache=tmp_path), torus_operators)
    assert "damaged and made again" in caplog.text
    caplog.clear()
    same_bits(geometry.prepare(torus, n_eig=16, cache=tmp_path), torus_operators)
    assert not caplog.records


def test_a_cache_that_cannot_be_written_is_only_a_warning(torus, torus_operators, tmp_path, caplog):
    (tmp_path / "file").write_text("in the way")
    with caplog.at_level(logging.WARNING):
        one = geometry.prepare(torus, n_eig=16, cache=tmp_path / "file" / "cache")
    same_bits(one, torus_operators)
    assert "not cached" in caplog.text


def test_a_cache_is_never_shared_between_settings_or_contents(torus, tmp_path):
    geometry.prepare(torus, n_eig=16, cache=tmp_path)
    assert len(geometry.prepare(torus, n_eig=12, cache=tmp_path).evals) == 12
    geometry.prepare(torus, n_eig=16, n_neighbors=20, cache=tmp_path)
    moved = torus.points.copy()
    moved[5, 1] = np.nextafter(moved[5, 1], 10)
    geometry.prepare(Shape(moved), n_eig=16, cache=tmp_path)
    assert len(list(tmp_path.iterdir())) == 4


def test_equal_values_share_a_cache_whatever_their_type(torus, tmp_path):
    single = torus.points.astype(np.float32)
    geometry.prepare(Shape(single), n_eig=16, cache=tmp_path)
    geometry.prepare(Shape(single.astype(np.float64)), n_eig=16, cache=tmp_path)
    geometry.prepare(Shape(np.asfortranarray(single)), n_eig=16, cache=tmp_path)
    assert len(list(tmp_path.iterdir())) == 1


# -------------------------------------------------------------------------------- geodesics


@pytest.mark.parametrize("mesh", [True, False], ids=["mesh", "cloud"])
def test_geodesics_on_the_sphere_are_great_circles(sphere_points, mesh):
    points = sphere_points(1500)
    shape = Shape(points, ConvexHull(points).simplices if mesh else None)
    sources = np.array([0, 700, 0])
    found = geometry.geodesics(shape, sources)
    exact = np.arccos(np.clip(points[sources] @ points.T, -1, 1))
    assert found.shape == (3, 1500)
    # the heat method smooths over a spacing (0.09 here)
    assert np.abs(found - exact).max() < 0.1
    assert np.abs(found - exact).mean() < 0.04
    np.testing.assert_array_equal(found[0], found[2])
    assert geometry.geodesics_method(shape).endswith("mesh" if mesh else "cloud")


def test_geodesics_agree_with_shortest_edge_paths(sphere_points):
    points = sphere_points(1500)
    faces = ConvexHull(points).simplices
    found = geometry.geodesics(Shape(points, faces), np.array([10]))[0]
    edges = np.unique(np.sort(faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1), axis=0)
    lengths = np.linalg.norm(points[edges[:, 0]] - points[edges[:, 1]], axis=1)
    graph = csr_array((lengths, edges.T), shape=(1500, 1500))
    paths = dijkstra(graph, directed=False, indices=10)
    far = paths > 0.5
    # paths along edges zigzag: longer, by less than a fifth
    assert (found[far] / paths[far]).max() < 1.05
    assert (found[far] / paths[far]).min() > 0.8


def test_geodesics_of_a_cloud_give_copies_of_a_point_the_same_answer(sphere_points):
    points = sphere_points(200)
    shape = Shape(np.concatenate([points, points[:2]]))
    found = geometry.geodesics(shape, np.array([0, 200]))
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[:, :2], found[:, 200:])


def test_distances_along_edges_by_hand():
    square = Shape(
        np.array([[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]]),
        np.array([[0, 1, 2], [0, 2, 3]]),
    )
    found = geometry.geodesics(square, np.array([0, 1]), edges=True)
    np.testing.assert_allclose(found, [[0, 1, np.sqrt(2), 1], [1, 0, 1, 2]])
    assert geometry.geodesics_method(square, edges=True) == "shortest ways along mesh edges"
    with pytest.raises(InputError, match="cloud: has no faces, so there are no edges"):
        geometry.geodesics(Shape(square.points, name="cloud"), np.array([0]), edges=True)


def test_edges_do_not_lead_to_another_part():
    square = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0]])
    apart = Shape(
        np.concatenate([square, square + 9]), np.array([[0, 1, 2], [3, 4, 5]]), name="two"
    )
    with pytest.raises(InputError, match="two: the mesh falls into separate parts"):
        geometry.geodesics(apart, np.array([0]), edges=True)
