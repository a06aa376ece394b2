"""Readers of VTK's files: legacy ``.vtk``, and XML ``.vtp`` and ``.vtu``.

Our own, since VTK itself is a hundred times our size and smaller libraries refuse polydata.
"""

import re
import zlib
from base64 import b64decode
from pathlib import Path
from typing import Any, Literal

import numpy as np

from coembed.contents import WHOLE, Content, Request, miscounted, triangles, triangulated
from coembed.errors import FileFormatError

__all__ = ["read_vtk", "read_vtk_xml"]

_TRIANGLE, _STRIP, _POLYGON, _PIXEL, _QUAD = 5, 6, 7, 8, 9
_LEGACY_TYPES = {
    "char": "i1", "signed_char": "i1", "unsigned_char": "u1", "short": "i2",
    "unsigned_short": "u2", "int": "i4", "unsigned_int": "u4", "long": "i8",
    "unsigned_long": "u8", "float": "f4", "double": "f8", "vtktypeint64": "i8",
    "vtktypeuint64": "u8", "vtkidtype": "i8",
}  # fmt: skip
_XML_TYPES = {
    "Int8": "i1", "UInt8": "u1", "Int16": "i2", "UInt16": "u2", "Int32": "i4", "UInt32": "u4",
    "Int64": "i8", "UInt64": "u8", "Float32": "f4", "Float64": "f8",
}  # fmt: skip
_DATASETS = ("POLYDATA", "UNSTRUCTURED_GRID", "STRUCTURED_GRID")
_CELLS = ("VERTICES", "LINES", "POLYGONS", "TRIANGLE_STRIPS", "CELLS")


class _Legacy:
    """Place in a legacy file, and what has been read up to there."""

    def __init__(self, path: Path, request: Request) -> None:
        self.path, self.data, self.at = path, path.read_bytes(), 0
        self.request = request
        self.notes: tuple[str, ...] = ()
        self.binary = False
        self.points: np.ndarray | None = None
        self.cells: dict[str, tuple[np.ndarray, np.ndarray]] = {}  # corners, sizes
        self.types: np.ndarray | None = None
        self.attributes: dict[str, np.ndarray] = {}
        self.owner = ""  # whose data follow: POINT_DATA or CELL_DATA
        self.rows = 0

    def line(self) -> str:
        """Read the next line."""
        end = self.data.find(b"\n", self.at)
        end = len(self.data) if end < 0 else end
        text = self.data[self.at : end].decode("utf-8", errors="replace").strip()
        self.at = end + 1
        return text

    def words(self) -> list[str]:
        """Words of the next line that is not blank; none at the end of the file."""
        while self.at < len(self.data):
            words = self.line().split()
            if words:
                return words
        return []

    def numbers(self, n: int, kind: str, what: str, width: int = 0) -> np.ndarray:
        """Read the next n numbers; of rows of a width those that are whole, if that will do."""
        if kind.lower() not in _LEGACY_TYPES:
            raise FileFormatError(
                f"{self.path}: {what} are of type {kind!r}; expected one of "
                f"{', '.join(_LEGACY_TYPES)}"
            )
        dtype = np.dtype(_LEGACY_TYPES[kind.lower()])
        if n < 0:
            raise FileFormatError(f"{self.path}: declares {n} numbers of {what}")
        if self.binary:
            found = max((len(self.data) - self.at) // dtype.itemsize, 0)
            start, whole = self.at, n if n <= found else self._whole(n, found, what, width)
            self.at = start + n * dtype.itemsize
            return np.frombuffer(self.data, dtype.newbyteorder(">"), whole, start).astype(dtype)
        words: list[bytes] = []
        while len(words) < n and self.at < len(self.data):
            end = self.data.find(b"\n", self.at)
            end = len(self.data) if end < 0 else end
            words += self.data[self.at : end].split()
            self.at = end + 1
        if len(words) > n:
            raise miscounted(self.path, f"numbers of {what}", n, len(words))
        if len(words) < n:
            words = words[: self._whole(n, len(words), what, width)]
        try:
            return np.array(words, dtype=np.float64 if dtype.kind == "f" else dtype).astype(dtype)
        except (ValueError, OverflowError) as error:
            raise FileFormatError(f"{self.path}: {what}: expected numbers ({error})") from error

    def _whole(self, n: int, found: int, what: str, width: int) -> int:
        """How many of n numbers make whole rows, if that will do."""
        if not width:
            raise miscounted(self.path, f"numbers of {what}", n, found)
        self.notes += self.request.cut(self.path, f"numbers of {what}", n, found)
        cut = not self.binary and self.data[-1:].strip() != b""  # in the middle of a number
        return max(found - cut, 0) // width * width


def read_vtk(path: Path, request: Request = WHOLE) -> Content:
    """Legacy files, ASCII or binary, to version 5.1: polydata, unstructured and curved grids."""
    file = _Legacy(path, request)
    first, _, kind = file.line(), file.line(), file.line().upper()
    if not first.startswith("# vtk DataFile") or kind not in ("ASCII", "BINARY"):
        raise FileFormatError(
            f"{path}: not a legacy VTK file; expected '# vtk DataFile Version', a title, then "
            f"ASCII or BINARY; got {first[:40]!r} and {kind[:20]!r}"
        )
    file.binary = kind == "BINARY"
    while words := file.words():
        try:
            _section(file, [words[0].upper(), *words[1:]])
        except (FileFormatError, ValueError, IndexError):
            if not request.incomplete or file.points is None:
                raise
            file.notes += (f"the file is cut off in its section {words[0][:40]}, left out here",)
            break
    if file.points is None:
        raise FileFormatError(f"{path}: has no section POINTS")
    faces, n_polygons = _legacy_faces(file)
    notes = file.notes + triangulated(n_polygons, faces)
    return Content(file.points, faces if len(faces) else None, file.attributes, notes)


def _section(file: _Legacy, words: list[str]) -> None:
    """Read one section, whose first line is given."""
    name = words[0]
    if name == "DATASET":
        if words[1].upper() not in _DATASETS:
            raise FileFormatError(
                f"{file.path}: holds {words[1]}; expected one of {', '.join(_DATASETS)}"
            )
    elif name == "POINTS":
        n = int(words[1])
        table = file.numbers(3 * n, words[2], f"the coordinates of {n} points", width=3)
        file.points = table.reshape(-1, 3).astype(np.float64)
    elif name in _CELLS:
        file.cells[name] = _legacy_cells(file, name, int(words[1]), int(words[2]))
    elif name == "CELL_TYPES":
        file.types = file.numbers(int(words[1]), "int", "cell types")
    elif name in ("POINT_DATA", "CELL_DATA"):
        file.owner, file.rows = name, int(words[1])
        points = 0 if file.points is None else len(file.points)
        if name == "POINT_DATA" and file.rows != points:
            raise miscounted(file.path, "rows of point data", file.rows, f"{points} points")
    elif name == "METADATA":
        while file.at < len(file.data) and file.line():
            pass  # it ends with a blank line
    elif name == "DIMENSIONS":
        pass  # the points are listed all the same
    else:
        _legacy_data(file, words)


def _legacy_cells(file: _Legacy, name: str, n: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    before = file.at
    words = file.words()
    if words and words[0].upper() == "OFFSETS":  # version 5.1
        offsets = file.numbers(n, words[1], f"offsets of {name}").astype(np.int64)
        words = file.words()
        if not words or words[0].upper() != "CONNECTIVITY":
            raise FileFormatError(f"{file.path}: {name}: expected CONNECTIVITY after OFFSETS")
        corners = file.numbers(size, words[1], f"corners of {name}").astype(np.int64)
        return corners, np.diff(offsets)
    file.at = before
    flat = file.numbers(size, "int", f"{n} {name}").astype(np.int64)
    sizes: list[int] = []
    at = 0
    listed = flat.tolist()
    for _ in range(n):
        if at >= size or listed[at] < 0 or at + 1 + listed[at] > size:
            raise miscounted(file.path, name, n, len(sizes))
        sizes.append(listed[at])
        at += 1 + listed[at]
    heads = np.cumsum([0, *(s + 1 for s in sizes)])[:-1]
    return np.delete(flat[:at], heads), np.array(sizes, dtype=np.int64)


def _legacy_data(file: _Legacy, words: list[str]) -> None:
    """Read an array of point or cell data; those of points are kept."""
    name = words[0]
    if name == "FIELD":
        for _ in range(int(words[2])):
            head = file.words()
            while head and head[0].upper() == "METADATA":
                _section(file, ["METADATA"])
                head = file.words()
            if len(head) < 4:
                raise miscounted(file.path, "arrays in a field", int(words[2]), "fewer")
            width, rows = int(head[1]), int(head[2])
            _keep(file, head[0], width, file.numbers(width * rows, head[3], head[0]))
    elif name == "LOOKUP_TABLE":
        colours = int(words[2]) * 4
        file.numbers(colours, "unsigned_char" if file.binary else "float", "a lookup table")
    elif name == "COLOR_SCALARS":
        width = int(words[2])
        kind = "unsigned_char" if file.binary else "float"
        _keep(file, words[1], width, file.numbers(width * file.rows, kind, words[1]))
    elif name in ("SCALARS", "VECTORS", "NORMALS", "TENSORS", "TEXTURE_COORDINATES"):
        width = {"SCALARS": 1, "TENSORS": 9}.get(name, 3)
        kind = words[2]
        if name == "SCALARS":
            width = int(words[3]) if len(words) > 3 else 1
            before = file.at
            table = file.words()
            if not table or table[0].upper() != "LOOKUP_TABLE":
                file.at = before
        elif name == "TEXTURE_COORDINATES":
            width, kind = int(words[2]), words[3]
        _keep(file, words[1], width, file.numbers(width * file.rows, kind, words[1]))
    else:
        raise FileFormatError(
            f"{file.path}: unknown section {name[:40]!r} at byte {file.at}; the file is damaged or "
            "an array before it is of another length than declared"
        )


def _keep(file: _Legacy, name: str, width: int, values: np.ndarray) -> None:
    n = -1 if file.points is None else len(file.points)
    if file.owner == "POINT_DATA" and width > 0 and len(values) == n * width:
        file.attributes[name] = values if width == 1 else values.reshape(-1, width)


def _legacy_faces(file: _Legacy) -> tuple[np.ndarray, int]:
    parts = [_of_type(*file.cells["POLYGONS"], _POLYGON)] if "POLYGONS" in file.cells else []
    if "TRIANGLE_STRIPS" in file.cells:
        parts.append(_of_type(*file.cells["TRIANGLE_STRIPS"], _STRIP))
    if "CELLS" in file.cells:
        corners, sizes = file.cells["CELLS"]
        if file.types is None or len(file.types) != len(sizes):
            found = 0 if file.types is None else len(file.types)
            raise miscounted(file.path, "cells", len(sizes), f"{found} cell types")
        parts.append(_mixed_cells(corners, sizes, file.types))
    return _joined(parts)


def _joined(parts: list[tuple[np.ndarray, int]]) -> tuple[np.ndarray, int]:
    if not parts:
        return np.zeros((0, 3), dtype=np.int64), 0
    return np.concatenate([faces for faces, _ in parts]), sum(n for _, n in parts)


def _of_type(corners: np.ndarray, sizes: np.ndarray, kind: int) -> tuple[np.ndarray, int]:
    """Triangles of polygons or of triangle strips, and how many polygons they were."""
    if len(sizes) and (sizes.min() < 0 or sizes.sum() > len(corners)):
        raise ValueError("the offsets of its cells do not fit their corners")
    if kind != _STRIP:
        return triangles(corners, sizes), len(sizes)
    faces = []
    for strip in np.split(corners, np.cumsum(sizes)[:-1]):
        windows = np.stack([strip[:-2], strip[1:-1], strip[2:]], axis=1)
        windows[1::2] = windows[1::2, [1, 0, 2]]  # every second one turns the other way
        faces.append(windows)
    found = np.concatenate(faces) if faces else np.zeros((0, 3), dtype=np.int64)
    return found, len(found)


def _mixed_cells(
    corners: np.ndarray, sizes: np.ndarray, types: np.ndarray
) -> tuple[np.ndarray, int]:
    """Triangles of those cells of an unstructured grid that are surfaces, in their order."""
    if len(sizes) and (sizes.min() < 0 or sizes.sum() > len(corners)):
        raise ValueError("the offsets of its cells do not fit their corners")
    corners = corners.copy()
    starts = np.cumsum(sizes) - sizes
    for start in starts[(types == _PIXEL) & (sizes == 4)]:  # its corners go in rows, not round
        corners[start + 2], corners[start + 3] = corners[start + 3], corners[start + 2]
    surface = np.isin(types, (_TRIANGLE, _POLYGON, _PIXEL, _QUAD))
    keep = np.repeat(surface, sizes)
    parts = [_of_type(corners[: sizes.sum()][keep], sizes[surface], _POLYGON)]
    for i in np.flatnonzero(types == _STRIP):
        strip = corners[starts[i] : starts[i] + sizes[i]]
        parts.append(_of_type(strip, sizes[i : i + 1], _STRIP))
    return _joined(parts)


# --------------------------------------------------------------------------------------- XML


class _Xml:
    """An XML file of VTK, with the bytes appended to it cut out."""

    def __init__(self, path: Path) -> None:
        from xml.etree import ElementTree

        self.path, data = path, path.read_bytes()
        self.appended, self.base64 = b"", False
        head = re.search(rb"<AppendedData([^>]*)>\s*_", data)
        if head is not None:  # raw bytes are no XML
            end = data.rfind(b"</AppendedData>")
            if end < head.end():
                raise FileFormatError(f"{path}: its appended data have no end; the file is cut off")
            self.appended, self.base64 = data[head.end() : end], b"base64" in head[1]
            data = data[: head.start()] + data[end + len(b"</AppendedData>") :]
        if b"<!" in re.sub(rb"<!--.*?-->", b"", data, flags=re.DOTALL):
            raise FileFormatError(f"{path}: holds declarations that VTK files do not have")
        self.root = ElementTree.fromstring(data)
        if self.root.tag != "VTKFile":
            raise FileFormatError(f"{path}: expected <VTKFile>; got <{self.root.tag}>")
        self.order: Literal["<", ">"] = ">" if self.root.get("byte_order") == "BigEndian" else "<"
        self.header = np.dtype(_XML_TYPES[self.root.get("header_type", "UInt32")])
        self.header = self.header.newbyteorder(self.order)
        compressor = self.root.get("compressor")
        if compressor not in (None, "vtkZLibDataCompressor"):
            raise FileFormatError(
                f"{path}: compressed by {compressor}; write it uncompressed or with zlib"
            )
        self.compressed = compressor is not None

    def array(self, node: Any, n: int | None = None) -> np.ndarray:
        """Numbers of a DataArray; with n, that many rows."""
        name, kind = node.get("Name", "array"), node.get("type", "")
        if kind not in _XML_TYPES:
            raise FileFormatError(f"{self.path}: array {name!r} is of unknown type {kind!r}")
        dtype = np.dtype(_XML_TYPES[kind]).newbyteorder(self.order)
        layout, width = node.get("format", "ascii"), int(node.get("NumberOfComponents") or 1)
        if layout == "ascii":
            words = (node.text or "").split()
            plain = np.array(words, dtype=np.float64 if dtype.kind == "f" else dtype)
        elif layout == "appended":
            plain = np.frombuffer(self._appended(int(node.get("offset", 0))), dtype)
        else:
            plain = np.frombuffer(self._decoded("".join((node.text or "").split()).encode()), dtype)
        plain = plain.astype(dtype.newbyteorder("="))
        if n is not None and (width < 1 or len(plain) != n * width):
            raise miscounted(self.path, f"numbers of {name!r}", n * width, len(plain))
        return plain.reshape(-1, width) if width > 1 else plain

    def _appended(self, offset: int) -> bytes:
        data = self.appended[offset:]
        if self.base64:
            # the next array begins where this one ends; decoding stops there by itself
            return self._decoded(data)
        return self._unpacked(data)

    def _decoded(self, text: bytes) -> bytes:
        """Decode base64; the header is padded on its own if the data are compressed."""
        size = self.header.itemsize
        if not self.compressed:
            need = int(np.frombuffer(b64decode(text[:16])[:size], self.header)[0])
            return self._unpacked(b64decode(text[: -(-(size + need) // 3) * 4]))
        n_blocks = int(np.frombuffer(b64decode(text[:16])[:size], self.header)[0])
        head = -(-(size * (3 + n_blocks)) // 3) * 4
        lengths = np.frombuffer(b64decode(text[:head])[: size * (3 + n_blocks)], self.header)
        body = -(-int(lengths[3:].sum()) // 3) * 4
        return self._unpacked(lengths.tobytes() + b64decode(text[head : head + body]))

    def _unpacked(self, data: bytes) -> bytes:
        size = self.header.itemsize
        if not self.compressed:
            need = int(np.frombuffer(data[:size], self.header)[0])
            if len(data) < size + need:
                raise miscounted(self.path, "bytes of an array", need, len(data) - size)
            return data[size : size + need]
        n_blocks, block, _ = (int(v) for v in np.frombuffer(data[: 3 * size], self.header))
        if (3 + n_blocks) * size > len(data):
            raise miscounted(self.path, "compressed blocks", n_blocks, "fewer")
        lengths = np.frombuffer(data[3 * size :][: n_blocks * size], self.header)
        at, out = (3 + n_blocks) * size, []
        for length in map(int, lengths):
            out.append(zlib.decompressobj().decompress(data[at : at + length], max(block, 1)))
            at += length
        return b"".join(out)


def read_vtk_xml(path: Path, _: Request = WHOLE) -> Content:
    """PolyData and UnstructuredGrid, ascii, base64 or appended, plain or compressed by zlib."""
    file = _Xml(path)
    kind = file.root.get("type", "")
    grid = file.root.find(kind) if kind in ("PolyData", "UnstructuredGrid") else None
    if grid is None:
        raise FileFormatError(f"{path}: holds {kind!r}; expected PolyData or UnstructuredGrid")
    points, parts, columns, start = [], [], [], 0
    for piece in grid.findall("Piece"):
        n = int(piece.get("NumberOfPoints", 0))
        node = piece.find("Points/DataArray")
        if n and node is None:
            raise miscounted(path, "points", n, 0)
        if not n:
            continue
        points.append(file.array(node, n).reshape(-1, 3).astype(np.float64))
        faces, n_polygons = _piece_faces(file, piece)
        parts.append((faces + start, n_polygons))
        found = piece.findall("PointData/DataArray")
        columns.append({a.get("Name", "array"): file.array(a, n) for a in found})
        start += n
    faces, n_polygons = _joined(parts)
    shared = [name for name in columns[0] if all(name in c for c in columns)] if columns else []
    attributes = {name: np.concatenate([c[name] for c in columns]) for name in shared}
    stacked = np.concatenate(points) if points else np.zeros((0, 3))
    notes = triangulated(n_polygons, faces)
    return Content(stacked, faces if len(faces) else None, attributes, notes)


def _piece_faces(file: _Xml, piece: Any) -> tuple[np.ndarray, int]:
    parts = []
    for name in ("Polys", "Strips", "Cells"):
        arrays = {a.get("Name"): a for a in piece.findall(f"{name}/DataArray")}
        if "connectivity" not in arrays or "offsets" not in arrays:
            continue
        corners = file.array(arrays["connectivity"]).astype(np.int64)
        sizes = np.diff(file.array(arrays["offsets"]).astype(np.int64), prepend=0)
        if name == "Cells":
            types = file.array(arrays["types"], len(sizes))
            parts.append(_mixed_cells(corners, sizes, types))
        else:
            parts.append(_of_type(corners, sizes, _STRIP if name == "Strips" else _POLYGON))
    return _joined(parts)
