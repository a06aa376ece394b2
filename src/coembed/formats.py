"""Shapes in and out of files of every format.

Rows stay those of the file: nothing is merged, dropped or sorted. A file that holds less or
more than it says is an error, never part of a shape.
"""

import io
import logging
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from coembed.cloud_formats import (
    FACE_NAMES,
    POINT_NAMES,
    read_las,
    read_mat,
    read_numpy,
    read_pcd,
    read_text,
)
from coembed.contents import Content, Request
from coembed.errors import CoembedError, FileFormatError, InputError
from coembed.files import check_readable, split_choice, write_bytes
from coembed.mesh_formats import read_gltf, read_obj, read_off, read_ply, read_stl
from coembed.shapes import Shape
from coembed.vtk_formats import read_vtk, read_vtk_xml

__all__ = ["CUT", "PARTS", "READERS", "read", "write"]

log = logging.getLogger(__name__)

READERS: Mapping[str, Callable[[Path, Request], Content]] = {
    ".off": read_off,
    ".ply": read_ply,
    ".obj": read_obj,
    ".stl": read_stl,
    ".xyz": read_text,
    ".txt": read_text,
    ".csv": read_text,
    ".asc": read_text,
    ".pts": read_text,
    ".pcd": read_pcd,
    ".npy": read_numpy,
    ".npz": read_numpy,
    ".mat": read_mat,
    ".las": read_las,
    ".laz": read_las,
    ".vtk": read_vtk,
    ".vtp": read_vtk_xml,
    ".vtu": read_vtk_xml,
    ".glb": read_gltf,
    ".gltf": read_gltf,
}
"""Reader of each ending."""

_TEXT = (".xyz", ".txt", ".csv", ".asc", ".pts")
PARTS: Mapping[str, str] = {
    **dict.fromkeys(_TEXT, "columns"),
    **dict.fromkeys((".glb", ".gltf"), "nodes"),
    **dict.fromkeys((".npz", ".mat"), "the array of points"),
}
"""What can be chosen by a # behind the name of a file, by ending."""
CUT = (".off", ".ply", ".obj", ".stl", *_TEXT, ".pcd", ".npy", ".las", ".vtk")
"""Endings of files that can be read as far as they go; others are packed or end with an index."""


def read(path: Path | str, *, incomplete: bool = False) -> Shape:
    """Read a point cloud or mesh; rows stay those of the file, polygons become triangles.

    Parameters
    ----------
    path
        A file whose ending, in capitals or not, says its format:

        - PLY, OBJ, OFF (also COFF, NOFF, STOFF): a mesh, or points only
        - STL: corners at exactly the same place become one point
        - PCD, PTS, and text (XYZ, TXT, ASC, CSV): columns named x, y and z, else the first three
        - NPY: (n, 3) or (3, n), further columns are attributes; NPZ: ``points`` or ``vertices``
          or ``xyz``, perhaps ``faces``
        - MAT: ``VERT`` and ``TRIV``, or ``X``, ``Y``, ``Z`` and ``TRIV``, also in a struct;
          version 7.3 needs ``coembed[mat]``
        - LAS and LAZ, which need ``coembed[las]``
        - VTK, VTP, VTU: polydata and unstructured grids
        - GLB, glTF: all nodes of the scene, placed

        Behind a # it says what is taken of a file that holds more: columns of a text by number
        from 1 or by name (``scan.csv#4,5,6``), nodes of a scene with what hangs below them
        (``scene.glb#Hand,Arm``), the array or struct of points (``a.npz#scan``, ``a.mat#right``).
    incomplete
        Take the whole rows of a file that is cut off, which is refused otherwise; a note says how
        many they are. Not for packed files, and XML, glTF, NPZ, MAT and LAZ.

    Returns
    -------
    Shape
        With the attributes of its points, and notes on what reading had to decide.

    Raises
    ------
    FileFormatError
        If the file is missing, empty, cut off, of an unknown format or not what its name says.
    MissingExtraError
        If the format needs a library that is not installed.
    InputError
        If faces name points that are not there.
    """
    named, (path, chosen) = str(path), split_choice(Path(path))
    check_readable(path)
    reader, ending = READERS.get(path.suffix.lower()), path.suffix.lower()
    if reader is None:
        raise FileFormatError(
            f"{path}: unknown format {path.suffix or '(no ending)'!r}; "
            f"expected one of {', '.join(READERS)}"
        )
    kind = ending[1:].upper()
    if path.stat().st_size == 0:
        raise FileFormatError(f"{path}: the file is empty")
    if chosen and ending not in PARTS:
        raise FileFormatError(
            f"{named}: there is no such file, and nothing to choose from in {kind} files; "
            f"what stands behind # names a part of {', '.join(PARTS)}"
        )
    in_part = f"; {kind} files cannot be read in part" if incomplete and ending not in CUT else ""
    try:
        with np.errstate(invalid="ignore"):  # bytes that are no number become NaN
            content = reader(path, Request(chosen, incomplete))
    except CoembedError as error:
        if in_part and isinstance(error, FileFormatError):
            raise FileFormatError(f"{error}{in_part}") from error
        raise
    except Exception as error:  # a reader's own errors have many types; the file is what failed
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise FileFormatError(f"{path}: not a readable {kind} file ({reason}){in_part}") from error
    if not len(content.points):
        raise FileFormatError(f"{path}: the file holds no points")
    for note in content.notes:
        log.info("%s: %s", path, note)
    points, faces, attributes, notes = _of_points_that_are_there(content) if incomplete else content
    return Shape(points, faces, name=named, attributes=attributes, notes=notes)


def _of_points_that_are_there(content: Content) -> Content:
    """A file that may be cut off, without faces of points that it no longer holds."""
    if content.faces is None or not len(content.faces):
        return content
    kept = (content.faces < len(content.points)).all(axis=1)
    if kept.all():
        return content
    note = f"{(~kept).sum()} faces of points that are cut off are left out"
    faces = content.faces[kept] if kept.any() else None
    return content._replace(faces=faces, notes=(*content.notes, note))


def write(path: Path | str, shape: Shape, *, force: bool = False) -> None:
    """Write a shape as binary PLY or NPZ in double precision, with the attributes of its points.

    Attributes keep names and dtypes. PLY has no 64-bit integers, half floats, text or blanks in
    names: integers become 32-bit where they fit and else doubles, half floats floats, blanks
    underscores; text is left out with a warning. NPZ has all of them.
    """
    from plyfile import PlyData, PlyElement

    path = Path(path)
    if path.suffix.lower() == ".npz":
        write_bytes(path, _npz(path, shape), force=force)
        return
    if path.suffix.lower() != ".ply":
        raise InputError(
            f"{path}: shapes are written as PLY or NPZ; name the file with the ending .ply or .npz"
        )
    columns = {name: shape.points[:, axis] for axis, name in enumerate("xyz")}
    columns |= _ply_columns(path, shape.attributes)
    vertex = np.empty(len(shape.points), dtype=[(n, v.dtype) for n, v in columns.items()])
    for name, values in columns.items():
        vertex[name] = values
    elements = [PlyElement.describe(vertex, "vertex")]
    if shape.faces is not None:
        face = np.empty(len(shape.faces), dtype=[("vertex_indices", "i4", (3,))])
        face["vertex_indices"] = shape.faces
        elements.append(PlyElement.describe(face, "face"))
    stream = io.BytesIO()
    PlyData(elements, byte_order="<").write(stream)
    write_bytes(path, stream.getvalue(), force=force)


def _npz(path: Path, shape: Shape) -> bytes:
    arrays = {"points": shape.points}
    if shape.faces is not None:
        arrays["faces"] = shape.faces
    for name, values in shape.attributes.items():
        if name.lower() in POINT_NAMES + FACE_NAMES or values.dtype.kind == "O":
            log.warning("%s: the attribute %r would be taken for points; left out", path, name)
            continue
        arrays[name] = values
    stream = io.BytesIO()
    np.savez(stream, **arrays)  # type: ignore[arg-type]
    return stream.getvalue()


def _ply_columns(path: Path, attributes: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Attributes as columns that PLY can hold; those with several columns are numbered."""
    columns = {}
    for title, values in attributes.items():
        name = re.sub(r"[^!-~]", "_", title) or "attribute"
        if values.dtype.kind not in "fiub" or name in ("x", "y", "z"):
            log.warning("%s: PLY cannot hold the attribute %r; it is left out", path, title)
            continue
        flat = _ply_type(values).reshape(len(values), -1)
        for i in range(flat.shape[1]):
            columns[name if values.ndim == 1 else f"{name}_{i}"] = flat[:, i]
    return columns


def _ply_type(values: np.ndarray) -> np.ndarray:
    """Values in one of the types of PLY; without loss, but for integers beyond 2**53."""
    kind, size = values.dtype.kind, values.dtype.itemsize
    if kind == "b":
        return values.astype(np.uint8)
    if kind == "f":
        return values.astype({2: np.float32, 4: np.float32}.get(size, np.float64))
    if size < 8:
        return values
    if kind == "u" and len(values):
        filled = values == np.iinfo(values.dtype).max  # rows without a match, see `fill_value`
        if not values[~filled].size or values[~filled].max() < np.iinfo(np.uint32).max:
            return np.where(filled, np.iinfo(np.uint32).max, values).astype(np.uint32)
    limits = np.iinfo(np.int32)
    fits = not len(values) or (values.min() >= limits.min and values.max() <= limits.max)
    return values.astype(np.int32 if fits else np.float64)
