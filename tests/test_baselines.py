import sys

import numpy as np
import pytest

from coembed import baselines, geometry
from coembed.errors import InputError, MissingExtraError
from coembed.functional import Basis
from coembed.matching import nearest
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
    from scipy.spatial import ConvexHull

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
