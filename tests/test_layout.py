"""Rules that keep the package easy to read: order of imports, public names, sizes."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import coembed

SOURCE = Path(coembed.__file__).parent
ORDER = [
    "annotations",
    "errors",
    "memory",
    "processes",
    "compiled",
    "sampling",
    "search",
    "rotations",
    "spectrum",
    "shapes",
    "files",
    "maps",
    "contents",
    "isolation",
    "cloud_formats",
    "mesh_formats",
    "vtk_formats",
    "formats",
    "geometry",
    "health",
    "descriptors",
    "layers",
    "model",
    "reference",
    "losses",
    "poses",
    "skinning",
    "contacts",
    "raster",
    "cuts",
    "bodies",
    "datasets",
    "evaluation",
    "posture",
    "alignment",
    "normals",
    "locator",
    "completion",
    "functional",
    "registration",
    "adaptation",
    "overlap",
    "trust",
    "matching",
    "cohorts",
    "training",
    "recipes",
    "baselines",
    "disturbances",
    "layouts",
    "parts",
    "benchmark",
    "charts",
    "transfer",
    "landmarks",
    "colourings",
    "segmentation",
    "pages",
    "pictures",
    "viewing",
    "reports",
    "demonstration",
    "cli",
]
MOST_LINES = 43  # of code in a function; what needs more falls into parts that have names


def lines_of_code(function):
    """Lines of a function below its docstring."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return function.end_lineno - body[0].lineno + 1 if body else 0


def tree_of(module):
    return ast.parse((SOURCE / f"{module}.py").read_text(encoding="utf-8"))


def imported(module):
    """Names of coembed's modules that a module imports, anywhere in it."""
    found = set()
    for node in ast.walk(tree_of(module)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: imports are written out"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        found |= {name.split(".")[1] for name in names if name.startswith("coembed.")}
    return found - {"__version__"}


def test_every_module_has_its_place_in_the_order():
    modules = {path.stem for path in SOURCE.glob("*.py")} - {"__init__", "__main__"}
    assert modules == set(ORDER)


@pytest.mark.parametrize("module", ORDER)
def test_modules_import_only_what_comes_before_them(module):
    assert imported(module) <= set(ORDER[: ORDER.index(module)])


@pytest.mark.parametrize("module", ORDER)
def test_every_module_says_what_it_is_for_and_what_is_public(module):
    assert ast.get_docstring(tree_of(module))
    loaded = __import__(f"coembed.{module}", fromlist=["__all__"])
    assert list(loaded.__all__) == sorted(loaded.__all__, key=lambda n: (not n.isupper(), n)) or (
        list(loaded.__all__) == sorted(loaded.__all__)
    )
    for name in loaded.__all__:
        assert hasattr(loaded, name)


def test_public_names_are_sorted_documented_and_importable():
    assert coembed.__all__ == sorted(coembed.__all__)
    homes = [name for names in coembed._HOMES.values() for name in names]
    assert sorted(homes) == coembed.__all__
    for name in coembed.__all__:
        assert getattr(coembed, name).__doc__, name
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = coembed.nothing


HEAVY = {
    "torch",
    "trimesh",
    "matplotlib",
    "potpourri3d",
    "jaxtyping",
    "plyfile",
    "laspy",
    "h5py",
    "sklearn",
}


@pytest.mark.parametrize(
    "module", ["coembed", "coembed.formats", "coembed.matching", "coembed.cli"]
)
def test_importing_loads_no_heavy_library(module):
    code = f"import sys, {module}; print(*{HEAVY | {'scipy.io'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


@pytest.mark.parametrize("module", ORDER)
def test_functions_fit_on_a_page(module):
    for node in ast.walk(tree_of(module)):
        if isinstance(node, ast.FunctionDef):
            assert lines_of_code(node) <= MOST_LINES, f"{module}.{node.name}"


@pytest.mark.parametrize("module", ORDER[:-1])
def test_nothing_is_printed_below_the_command_line(module):
    for node in ast.walk(tree_of(module)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id != "print"


def test_asserts_are_not_checks_of_input():
    for module in ORDER:
        for node in ast.walk(tree_of(module)):
            if isinstance(node, ast.ExceptHandler):
                assert node.type is not None, module


def test_matching_loads_scipy_only_when_operators_are_made():
    """Its imports take longer than a match whose operators are cached."""
    code = (
        "import sys; from coembed import matching, model; "
        "print([name for name in sys.modules if name.startswith('scipy.') and 'sparse' in name "
        "or name in ('scipy.linalg', 'scipy.spatial', 'torch')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
