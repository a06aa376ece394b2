"""Compiled parts: our own if they were built, and SciPy's without the Python around them.

A match of 5,000 points spends a third of its time on imports. What cannot be loaded alone, in
another version of SciPy say, is loaded in the ordinary way: it only takes longer.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import scipy

from coembed.annotations import Float, Int

__all__ = ["load_sparse", "native", "neighbors", "superlu", "tree"]

_CHUNK = 20_000  # points whose neighbours are sought at a time


@cache
def native() -> ModuleType | None:
    """What was compiled from ``_native.c``; None where there was no compiler at installation."""
    try:
        return import_module("coembed._native")
    except ImportError:
        return None


def load_sparse() -> None:
    """Load SciPy's sparse matrices; `scipy.sparse` serves afterwards."""
    if "scipy.sparse" not in sys.modules:
        with _numpy_as_it_is():
            import_module("scipy.sparse")


@contextmanager
def _numpy_as_it_is() -> Iterator[None]:
    """Let NumPy name only what is loaded of it.

    SciPy takes over all names of NumPy, and so makes it load f2py, its test tools, masked arrays
    and more, which takes 0.1 s.
    """
    loaded, names, listing = set(vars(np)), np.__all__, np.__dir__
    few = [name for name in names if name in loaded]
    vars(np).update(__all__=few, __dir__=lambda: sorted(loaded))
    try:
        yield
    finally:
        vars(np).update(__all__=names, __dir__=listing)


def neighbors(
    points: Float[np.ndarray, "n 3"], others: Float[np.ndarray, "m 3"], k: int
) -> Int[np.ndarray, "n k"]:
    """Rows of the ``k`` others nearest to each point, nearest first; ``k`` is at most m.

    Among equals the lower row comes first, where ours is compiled.
    """
    found = np.empty((len(points), k), dtype=np.int32)
    own = native()
    if own is not None:
        own.nearest(*(np.ascontiguousarray(p, dtype=np.float64) for p in (others, points)), found)
        return found
    others_tree = tree(others)
    for start in range(0, len(points), _CHUNK):
        rows = slice(start, start + _CHUNK)
        found[rows] = others_tree.query(points[rows], k=range(1, k + 1))[1]
    return found


def tree(points: Float[np.ndarray, "n d"]) -> Any:
    """SciPy's k-d tree of some points, without distances, hulls and rotations (0.1 s)."""
    alone = _alone("scipy.spatial._ckdtree")
    return scipy.spatial.cKDTree(points) if alone is None else alone.cKDTree(points)


def superlu() -> ModuleType | None:
    """SuperLU as SciPy has it, without dense and iterative solvers (0.08 s); None if it is not so.

    What is here called ``gstrf`` is behind `scipy.sparse.linalg.splu`.
    """
    return _alone("scipy.sparse.linalg._dsolve._superlu")


def _alone(name: str) -> ModuleType | None:
    """A compiled module of SciPy without the packages around it; None where there is no such."""
    if name not in sys.modules:
        *folders, _ = name.split(".")[1:]
        spec = PathFinder.find_spec(name, [str(Path(scipy.__file__).parent.joinpath(*folders))])
        if spec is None or spec.loader is None:
            return None
        load_sparse()  # which the k-d tree asks for
        # under its own name, so that SciPy finds it when it wants it
        sys.modules[name] = module_from_spec(spec)
        try:
            spec.loader.exec_module(sys.modules[name])
        except ImportError:
            del sys.modules[name]
            return None
    return sys.modules[name]
