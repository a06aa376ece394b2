import subprocess
import sys

import numpy as np
import pytest
import scipy

from coembed import compiled


def printed(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_the_tree_is_that_of_scipy(rng):
    points, asked = rng.standard_normal((500, 3)), rng.standard_normal((50, 3))
    found = compiled.tree(points).query(asked, k=4)
    wanted = scipy.spatial.cKDTree(points).query(asked, k=4)
    np.testing.assert_array_equal(found[1], wanted[1])


SEEN = "['numpy.f2py', 'numpy.testing', 'scipy.spatial.distance', 'scipy.special']"
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
        "scipy.special.gamma(3))"
    )
    assert printed(code).split("\n") == [
        "True",
        "True",
        "[0, 1, 2]",
        "0.0 numpy.testing 2.0",
    ]


@pytest.mark.parametrize("found", ["no such file", "not loadable"])
def test_another_scipy_is_loaded_in_the_ordinary_way(monkeypatch, found, tmp_path):
    monkeypatch.delitem(sys.modules, compiled._TREE, raising=False)
    (tmp_path / "spatial").mkdir()
    if found == "not loadable":
        (tmp_path / "spatial" / "_ckdtree.py").write_text("import no_such_module_at_all")
    monkeypatch.setattr(compiled.scipy, "__file__", str(tmp_path / "__init__.py"))
    monkeypatch.setattr(compiled.scipy, "spatial", scipy.spatial)
    assert compiled.tree(np.eye(3)).query(np.eye(3))[1].tolist() == [0, 1, 2]
