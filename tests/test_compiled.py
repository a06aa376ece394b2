import subprocess
import sys

import numpy as np
import pytest
import scipy

from coembed import compiled, spectrum


def printed(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


CLOUDS = {
    "scattered": lambda rng: rng.standard_normal((500, 3)),
    "flat": lambda rng: rng.random((400, 3)) * [1, 1, 0],
    "line": lambda rng: rng.random((100, 3)) * [0, 0, 1e-200],
    "clumps": lambda rng: (
        np.repeat(rng.standard_normal((9, 3)), 40, 0) + 1e-9 * rng.standard_normal((360, 3))
    ),
    "far from the origin": lambda rng: 5e6 + rng.random((300, 3)),
    "few": lambda rng: rng.random((7, 3)),
    "one": lambda rng: rng.random((1, 3)),
}


@pytest.fixture(params=["ours", "SciPy's"])
def either(request, monkeypatch):
    """Neighbours by our own compiled part, and where that is missing."""
    if request.param == "SciPy's":
        monkeypatch.setattr(compiled, "native", lambda: None)
    elif compiled.native() is None:
        pytest.skip("not compiled")


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize("name", CLOUDS)
@pytest.mark.parametrize("k", [1, 7, 31])
def test_neighbours_are_the_nearest(rng, name, k):
    others = CLOUDS[name](rng)
    points = np.concatenate([others, others.mean(axis=0) + rng.standard_normal((50, 3))])
    k = min(k, len(others))
    found = compiled.neighbors(points, others, k)
    squared = ((points[:, None] - others) ** 2).sum(axis=2)
    wanted = np.sort(squared, axis=1)[:, :k]
    np.testing.assert_allclose(np.take_along_axis(squared, found, axis=1), wanted, rtol=1e-12)
    assert all(len(set(row)) == k for row in found.tolist())


@pytest.mark.skipif(compiled.native() is None, reason="not compiled")
@pytest.mark.parametrize("copies", [1, 30])
def test_the_lower_row_comes_first_among_equals(copies):
    grid = np.stack(np.meshgrid(*[np.arange(4.0)] * 3), axis=-1).reshape(-1, 3)
    others = np.concatenate([grid] * copies)
    squared = ((grid[:, None] - others) ** 2).sum(axis=2)
    wanted = np.argsort(squared, axis=1, kind="stable")[:, :20]
    np.testing.assert_array_equal(compiled.neighbors(grid, others, 20), wanted)


@pytest.mark.skipif(compiled.native() is None, reason="not compiled")
def test_neighbours_that_cannot_be_sought_are_refused(rng):
    points, bad = rng.random((9, 3)), np.full((1, 3), np.nan)
    for others, k in ((points[:4], 5), (np.concatenate([points, bad]), 2), (points[:0], 1)):
        with pytest.raises(ValueError, match="finite points, at least as many"):
            compiled.neighbors(points, others, k)
    with pytest.raises(ValueError, match="finite points, at least as many"):
        compiled.neighbors(bad, points, 2)
    assert compiled.neighbors(points[:0], points, 2).shape == (0, 2)


SEEN = "['numpy.f2py', 'numpy.testing', 'scipy.linalg', 'scipy.spatial.distance', 'scipy.special']"
PREPARE = (
    "import sys, numpy as np; from coembed import geometry, shapes; "
    "names = (np.__all__, np.__dir__); "
    "geometry.prepare(shapes.Shape(np.random.default_rng(0).standard_normal((900, 3)))); "
)


def test_preparing_a_shape_loads_no_more_than_it_uses():
    code = PREPARE + f"print([name for name in {SEEN} if name in sys.modules])"
    assert printed(code) == "[]"


def test_scipy_and_numpy_are_whole_afterwards():
    code = PREPARE + (
        "print(names == (np.__all__, np.__dir__)); import scipy.spatial, coembed.compiled; "
        "print(isinstance(coembed.compiled.tree(np.eye(3)), scipy.spatial.cKDTree)); "
        "print(scipy.spatial.KDTree(np.eye(3)).query(np.eye(3))[1].tolist()); "
        "print(scipy.spatial.transform.Rotation.identity().magnitude(), np.testing.__name__, "
        "scipy.special.gamma(3), scipy.sparse.linalg.splu(scipy.sparse.eye_array(2).tocsc()).nnz)"
    )
    assert printed(code).split("\n") == [
        "True",
        "True",
        "[0, 1, 2]",
        "0.0 numpy.testing 2.0 4",
    ]


@pytest.mark.parametrize("found", ["no such file", "not loadable"])
def test_another_scipy_is_loaded_in_the_ordinary_way(monkeypatch, found, tmp_path):
    for name in ("scipy.spatial._ckdtree", "scipy.sparse.linalg._dsolve._superlu"):
        monkeypatch.delitem(sys.modules, name, raising=False)
        path = tmp_path.joinpath(*name.split(".")[1:]).with_suffix(".py")
        path.parent.mkdir(parents=True)
        if found == "not loadable":
            path.write_text("import no_such_module_at_all")
    monkeypatch.setattr(compiled.scipy, "__file__", str(tmp_path / "__init__.py"))
    monkeypatch.setattr(compiled.scipy, "spatial", scipy.spatial)
    assert compiled.tree(np.eye(3)).query(np.eye(3))[1].tolist() == [0, 1, 2]
    assert compiled.superlu() is None
    matrix = scipy.sparse.csc_array(np.diag([1.0, 2, 4]))
    assert spectrum.factored(matrix).solve(np.ones(3)).tolist() == [1, 0.5, 0.25]
