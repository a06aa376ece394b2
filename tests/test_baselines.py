import sys

import numpy as np
import pytest
from scipy.linalg import expm, orthogonal_procrustes
from scipy.spatial import ConvexHull

from coembed import baselines, geometry
from coembed.errors import InputError, MissingExtraError
from coembed.functional import Basis
from coembed.search import nearest
from coembed.shapes import Shape


@pytest.fixture(scope="module")
def pair(torus):
    """Bases of a torus and of a copy in another order with other signs, and the true map."""
    operators = geometry.prepare(torus, n_eig=20)
    n = len(torus.points)
    evecs, mass = operators.evecs[operators.rows], operators.mass[operators.rows]
    order = np.random.default_rng(0).permutation(n)
    signs = np.random.default_rng(1).choice([-1, 1], 20)
    one = Basis(operators.evals, evecs, mass)
    other = Basis(operators.evals, (evecs * signs)[order], mass[order])
    return one, other, np.argsort(order)


def test_true_points_couple_the_bases(pair):
    pytest.importorskip("pymanopt")
    one, other, truth = pair
    rows = np.arange(0, len(truth), 7)
    assert (nearest(one.evecs, other.evecs) == truth).mean() < 0.5
    phi, psi = baselines.coupled_bases(one, other, (one.evecs[rows], other.evecs[truth[rows]]))
    np.testing.assert_array_equal(nearest(phi, psi), truth)
    np.testing.assert_allclose(phi, psi[truth], atol=1e-3 * np.abs(phi).max())
    for found, basis in ((phi, one), (psi, other)):
        gram = found.T @ (basis.mass[:, None] * found)
        np.testing.assert_allclose(gram, np.eye(20), atol=1e-6)


def test_the_optimum_is_no_worse_than_the_start(pair):
    """Against signals that cannot be met, coupling and diagonality are traded, not lost."""
    pytest.importorskip("pymanopt")
    one, other, _ = pair
    rng = np.random.default_rng(2)
    f, g = rng.normal(size=(2, 40, 20))
    scale = one.evals / one.evals[-1]

    def cost(phi, psi):
        r, q = (
            np.linalg.lstsq(basis.evecs, found, rcond=None)[0]
            for basis, found in ((one, phi), (other, psi))
        )
        offs = [((x.T @ (scale[:, None] * x) - np.diag(scale)) ** 2).sum() for x in (r, q)]
        apart = f @ r / np.linalg.norm(f) - g @ q / np.linalg.norm(g)
        return sum(offs) + 10 * (apart**2).sum()

    values = [
        cost(*baselines.coupled_bases(one, other, (f, g), coupling=10, iterations=i))
        for i in (1, 60)
    ]
    assert values[1] < 0.95 * values[0]
    assert values[1] < cost(one.evecs, other.evecs)


def test_pyfm_maps_a_mesh_to_itself(sphere_points):
    pytest.importorskip("pyFM")
    points = sphere_points(400)
    faces = ConvexHull(points).simplices.astype(np.int64)
    inward = np.einsum("fa,fa->f", np.cross(*_sides(points, faces)), points[faces[:, 0]]) < 0
    faces[inward] = faces[inward][:, ::-1]
    bumpy = (
        points * [1, 1.4, 2] + 0.3 * np.exp(-4 * ((points - [0.6, 0.6, 0.5]) ** 2).sum(1))[:, None]
    )
    mesh = baselines.pyfm_mesh(Shape(bumpy, faces, name="bumpy"))
    found = baselines.pyfm_map(mesh, mesh)
    assert found.shape == (400,)
    # of 400 points on an area of about 20 a neighbour is 0.25 away
    assert np.median(np.linalg.norm(bumpy[found] - bumpy, axis=1)) < 0.3
    with pytest.raises(InputError, match="cloud: the method pyfm-wks needs faces"):
        baselines.pyfm_mesh(Shape(points, name="cloud"))


def _sides(points, faces):
    a, b, c = points[faces].transpose(1, 0, 2)
    return b - a, c - a


def test_without_the_libraries_one_line_says_what_to_install(pair, monkeypatch):
    monkeypatch.setitem(sys.modules, "pymanopt", None)
    monkeypatch.setitem(sys.modules, "pyFM.mesh", None)
    one, other, _ = pair
    with pytest.raises(MissingExtraError, match=r"coembed\[bench\]"):
        baselines.coupled_bases(one, other, (one.evecs, other.evecs))
    with pytest.raises(MissingExtraError, match=r"coembed\[bench\]"):
        baselines.pyfm_mesh(Shape(np.eye(3)))


def test_the_cost_does_not_rise_above_that_of_the_start(pair):
    """The start is R = 1 and the Q that best fits the coefficients (orthogonal Procrustes)."""
    pytest.importorskip("pymanopt")
    one, other, _ = pair
    rng = np.random.default_rng(5)
    scale = one.evals / one.evals[-1]
    for coupling in (0.1, 1.0, 30.0):
        f, g = rng.normal(size=(2, 30, 20))

        def cost(r, q, f=f, g=g, coupling=coupling):
            offs = [((x.T @ (scale[:, None] * x) - np.diag(scale)) ** 2).sum() for x in (r, q)]
            apart = f @ r / np.linalg.norm(f) - g @ q / np.linalg.norm(g)
            return sum(offs) + coupling * (apart**2).sum()

        phi, psi = baselines.coupled_bases(one, other, (f, g), coupling=coupling, iterations=20)
        r, q = (b.evecs.T @ (b.mass[:, None] * x) for b, x in ((one, phi), (other, psi)))
        np.testing.assert_allclose(r @ r.T, np.eye(20), atol=1e-6)
        best = orthogonal_procrustes(g, f)[0]
        assert cost(r, q) < cost(np.eye(20), best)


def test_the_way_ends_where_no_small_rotation_lowers_the_cost(pair):
    pytest.importorskip("pymanopt")
    one, other, _ = pair
    one, other = (Basis(b.evals[:8], b.evecs[:, :8], b.mass) for b in (one, other))
    rng = np.random.default_rng(6)
    f, g = rng.normal(size=(2, 12, 8))
    scale = one.evals / one.evals[-1]

    def cost(r, q):
        offs = [((x.T @ (scale[:, None] * x) - np.diag(scale)) ** 2).sum() for x in (r, q)]
        apart = f @ r / np.linalg.norm(f) - g @ q / np.linalg.norm(g)
        return sum(offs) + 5 * (apart**2).sum()

    def slopes(r, q):
        """Change of the cost with a turn of r, and of q, in each of the 28 planes."""
        found = []
        for i, j in zip(*np.triu_indices(8, 1), strict=True):
            turn = np.zeros((8, 8))
            turn[i, j], turn[j, i] = 1e-5, -1e-5
            there, back = expm(turn), expm(-turn)
            found.append((cost(r @ there, q) - cost(r @ back, q)) / 2e-5)
            found.append((cost(r, q @ there) - cost(r, q @ back)) / 2e-5)
        return np.abs(found).max()

    phi, psi = baselines.coupled_bases(one, other, (f, g), coupling=5, iterations=400)
    r, q = (b.evecs.T @ (b.mass[:, None] * x) for b, x in ((one, phi), (other, psi)))
    assert slopes(np.eye(8), orthogonal_procrustes(g, f)[0]) > 0.1
    assert slopes(r, q) < 1e-3


def test_bases_of_different_size_are_coupled_in_the_smaller_one(pair, unchecked):
    pytest.importorskip("pymanopt")
    one, other, truth = pair
    part = np.arange(0, len(truth), 2)
    few = Basis(other.evals[:12], other.evecs[part, :12], other.mass[part])
    rows = np.argsort(truth)[part]
    phi, psi = baselines.coupled_bases(one, few, (one.evecs[rows], few.evecs))
    assert phi.shape == (len(truth), 12)
    assert psi.shape == (len(part), 12)
    np.testing.assert_array_equal(nearest(psi, phi), rows)


def test_pyfm_maps_lead_from_the_source_to_the_target(sphere_points):
    """Two meshings of one bumpy ball: the map has a target row for each row of the source."""
    pytest.importorskip("pyFM")
    meshes, points = [], []
    for n in (400, 300):
        ball = sphere_points(n)
        faces = ConvexHull(ball).simplices.astype(np.int64)
        inward = np.einsum("fa,fa->f", np.cross(*_sides(ball, faces)), ball[faces[:, 0]]) < 0
        faces[inward] = faces[inward][:, ::-1]
        bump = 0.6 * np.exp(-4 * ((ball - [0.6, 0.6, 0.5]) ** 2).sum(1))
        points.append(ball * [1, 1.4, 2] * (1 + bump)[:, None])
        meshes.append(baselines.pyfm_mesh(Shape(points[-1], faces)))
    for one, other in ((0, 1), (1, 0)):
        found = baselines.pyfm_map(meshes[one], meshes[other])
        assert found.shape == (len(points[one]),)
        assert found.max() < len(points[other])
        off = np.linalg.norm(points[other][found] - points[one], axis=1)
        # the shape is four long; by chance the median would be above two
        assert np.median(off) < 0.5
