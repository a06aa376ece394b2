"""Decoders that a damaged file can crash, each run in a process of its own.

MATLAB and LAZ files are decoded by compiled libraries. Some damaged files make these abort or
write where they should not; then the process ends, and here that is an error like any other.
"""

import io
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from coembed.errors import FileFormatError

__all__ = ["decoded"]

_START = "from coembed.isolation import _child; _child()"
_WAIT = 60  # seconds on the clock for the program to start, on a busy machine or a slow disk
_SECONDS, _SECONDS_PER_BYTE = 2, 1e-5  # of work, once the library is loaded
_OUT_OF_TIME = 24  # the signal that ends a process whose time of work is used up
_MEMORY, _MEMORY_PER_BYTE = 4 << 30, 200  # bytes of address space


def decoded(kind: str, path: Path) -> dict[str, Any]:
    """Arrays of a file by name, structs as dictionaries; ``kind`` is mat5, mat73 or laz.

    Raises
    ------
    FileFormatError
        If the decoder refuses the file, crashes or does not end.
    """
    size = path.stat().st_size
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "arrays.npz"
        # threads only cost memory here, and the child finds what this process finds
        more = {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
        try:
            subprocess.run(
                [sys.executable, "-c", _START, kind, str(path.absolute()), str(out)],
                env={**os.environ, **more, "OPENBLAS_NUM_THREADS": "1"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=_WAIT + 2 * _seconds(size),
                check=True,
            )
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            crashed = getattr(error, "returncode", None) not in (None, -_OUT_OF_TIME)
            how = "crashed" if crashed else "did not end"
            raise FileFormatError(
                f"{path}: damaged: its decoder {how}; copy or export the file again"
            ) from error
        with np.load(io.BytesIO(out.read_bytes()), allow_pickle=False) as arrays:
            flat = {name: arrays[name] for name in arrays.files}
    if "error" in flat:
        raise ValueError(str(flat["error"]))
    return _nested(flat)


def _nested(flat: Mapping[str, np.ndarray]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, values in flat.items():
        place = found
        *structs, last = name.removeprefix("/").split("/")
        for struct in structs:
            place = place.setdefault(struct, {})
        place[last] = values
    return found


def _flat(found: Mapping[str, Any], start: str = "", depth: int = 0) -> dict[str, np.ndarray]:
    """Arrays of numbers or text by path; whatever else there is carries no points."""
    out: dict[str, np.ndarray] = {}
    for name, value in found.items():
        if isinstance(value, Mapping) and depth < 4:
            out |= _flat(value, f"{start}{name}/", depth + 1)
        elif np.asarray(value).dtype.kind in "fiubU":
            out[f"{start}{name}"] = np.asarray(value)
    return out


def _child() -> None:
    """Decode ``argv[2]`` by the decoder ``argv[1]`` into ``argv[3]``."""
    kind, path, out = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    import_module(_LIBRARIES[kind])
    _limit(path.stat().st_size)
    try:
        # the slash keeps a variable named file or error apart from our own names
        arrays = {f"/{name}": v for name, v in _flat(_DECODERS[kind](path)).items()}
    except BaseException as error:  # a panic of the LAZ decoder is no Exception
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        arrays = {"error": np.array(reason)}
    with out.open("wb") as stream:
        np.savez(stream, **arrays)  # type: ignore[arg-type]


def _seconds(size: int) -> int:
    return int(_SECONDS + size * _SECONDS_PER_BYTE)


def _limit(size: int) -> None:
    """Let absurd sizes and endless loops in damaged files fail, where the system can do that."""
    try:
        import resource
    except ImportError:  # Windows
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    begun = int(used.ru_utime + used.ru_stime) + 1
    limits = (
        (resource.RLIMIT_AS, _MEMORY + size * _MEMORY_PER_BYTE),
        (resource.RLIMIT_CPU, begun + _seconds(size)),
    )
    for what, most in limits:
        hard = resource.getrlimit(what)[1]
        if hard == resource.RLIM_INFINITY or most < hard:
            resource.setrlimit(what, (most, most + 1 if what == resource.RLIMIT_CPU else hard))


def _mat5(path: Path) -> dict[str, Any]:
    from scipy.io import loadmat

    found = loadmat(io.BytesIO(path.read_bytes()), simplify_cells=True)
    return {name: value for name, value in found.items() if not name.startswith("__")}


def _mat73(path: Path) -> dict[str, Any]:
    import h5py

    def read(group: Any, depth: int = 0) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for name in group:
            item = None if name.startswith("#") else group.get(name)
            if isinstance(item, h5py.Group) and depth < 4:
                out[name] = read(item, depth + 1)
            elif isinstance(item, h5py.Dataset) and item.dtype.kind in "fiub":
                out[name] = item[()].T  # HDF5 keeps MATLAB's columns as rows
        return out

    with h5py.File(path, "r") as file:
        return read(file)


def _laz(path: Path) -> dict[str, Any]:
    import laspy

    data = laspy.read(path)
    fields = {name: np.asarray(data[name], dtype=np.float64) for name in "xyz"}
    names = [name for name in data.point_format.dimension_names if name not in ("X", "Y", "Z")]
    return fields | {name: np.array(data[name]) for name in names}


_LIBRARIES = {"mat5": "scipy.io", "mat73": "h5py", "laz": "laspy"}
_DECODERS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "mat5": _mat5,
    "mat73": _mat73,
    "laz": _laz,
}
