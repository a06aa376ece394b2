"""Readers of meshes: PLY, OFF, OBJ, STL, glTF. A mesh without faces is a point cloud."""

import json
import re
import struct
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from coembed.contents import (
    Content,
    columns_of,
    miscounted,
    triangles,
    triangles_of,
    triangulated,
)
from coembed.errors import FileFormatError

__all__ = ["read_gltf", "read_obj", "read_off", "read_ply", "read_stl"]


# --------------------------------------------------------------------------------------- PLY

_PLY_CORNERS = ("vertex_indices", "vertex_index")


def read_ply(path: Path) -> Content:
    """ASCII and both binaries; properties by name, in any order and type."""
    from plyfile import PlyElementParseError

    content = path.read_bytes()
    head = content[: content.find(b"end_header")]
    for name, count in re.findall(rb"(?m)^element\s+(\S+)\s+(\d+)", head):
        if int(count) > len(content):  # before memory is taken for so many
            what = f"rows of element {name.decode(errors='replace')!r}"
            raise miscounted(path, what, int(count), f"only {len(content)} bytes")
    try:
        data, rest = _ply_data(path, head, content)
    except PlyElementParseError as error:
        if error.row is None or error.element is None:
            raise
        what = f"rows of element {error.element.name!r}"
        found = f"{error.row} ({error.message})"
        raise miscounted(path, what, error.element.count, found) from None
    if "vertex" not in data:
        raise FileFormatError(f"{path}: has no element 'vertex'")
    vertex = data["vertex"]
    names = {p.name for p in vertex.properties}
    if not {"x", "y", "z"} <= names:
        raise FileFormatError(f"{path}: vertices need x, y and z; got {', '.join(sorted(names))}")
    _check_end(path, data, content[len(head) :], rest)
    points = np.stack([np.asarray(vertex[axis], dtype=np.float64) for axis in "xyz"], axis=1)
    lists = [p.name for p in vertex.properties if vertex[p.name].dtype.kind == "O"]
    kept = [p.name for p in vertex.properties if p.name not in (*lists, *"xyz")]
    attributes = {name: _native(vertex[name]) for name in kept}
    notes = tuple(f"list property {name!r} of the points is left out" for name in lists)
    faces, more = _ply_faces(data)
    return Content(points, faces, attributes, notes + more)


def _ply_data(path: Path, head: bytes, content: bytes) -> tuple[Any, bytes]:
    """All elements, and the bytes that follow them."""
    from plyfile import PlyData, PlyElementParseError

    stream = _KeptOpen(content)
    if not re.search(rb"(?m)^format\s+ascii", head):
        # rows of one length are mapped, which takes no time; other files are read row by row
        three = dict.fromkeys(_PLY_CORNERS, 3)
        with suppress(PlyElementParseError), path.open("rb") as mapped:
            return PlyData.read(mapped, known_list_len={"face": three}), mapped.read()
    return PlyData.read(stream), stream.read()


class _KeptOpen(BytesIO):
    """Bytes that stay open when the reader of text around them goes."""

    def close(self) -> None:
        """Do nothing."""


def _check_end(path: Path, data: Any, body: bytes, rest: bytes) -> None:
    """Refuse what follows the last declared row: the header counts wrongly, so all is in doubt."""
    rows = sum(element.count for element in data.elements)
    if data.text:
        found = sum(1 for line in body.splitlines()[1:] if line.strip())
        if found > rows:
            raise miscounted(path, "rows of all elements", rows, found)
    elif rest := rest.strip(b"\0 \t\r\n"):
        found_bytes = f"{len(rest)} bytes more than these take"
        raise miscounted(path, "rows of all elements", rows, found_bytes)


def _native(values: Any) -> np.ndarray:
    """Copy in the byte order of this machine."""
    array = np.asarray(values)
    return array.astype(array.dtype.newbyteorder("="))


def _ply_faces(data: Any) -> tuple[np.ndarray | None, tuple[str, ...]]:
    if "face" not in data or not data["face"].count:
        return None, ()
    for name in _PLY_CORNERS:
        if name in data["face"]:
            polygons = data["face"][name]
            alike = polygons.dtype.kind != "O"
            faces = polygons.astype(np.int64) if alike else triangles_of(list(polygons))
            return faces, triangulated(len(polygons), faces)
    return None, ("its faces name no points and are left out",)


# --------------------------------------------------------------------------------------- OFF


def read_off(path: Path) -> Content:
    """OFF and its kinds with normals, colours or texture; comments and blank lines anywhere."""
    # our own parser: importing a mesh library would take longer than matching the shapes
    text = re.sub(r"#[^\n]*", "", path.read_text(encoding="utf-8", errors="replace"))
    header = re.match(r"\s*(?:([A-Z4n]*OFF)\s+)?(\d+)\s+(\d+)(?:[ \t]+\d+)?[ \t]*\r?\n", text)
    kind = (header[1] if header is not None else None) or "OFF"
    if header is None or not re.fullmatch("(ST)?C?N?OFF", kind):
        raise FileFormatError(
            f"{path}: not a readable OFF file; expected OFF (or COFF, NOFF, STOFF) in plain text, "
            "then the numbers of points and faces"
        )
    n_points, n_faces = int(header[2]), int(header[3])
    lines = [line for line in text[header.end() :].splitlines() if line.strip()]
    if len(lines) != n_points + n_faces:
        more = "" if len(lines) > n_points + n_faces else ", so the file is cut off"
        raise FileFormatError(
            f"{path}: expected {n_points} points and {n_faces} faces; got {len(lines)} lines{more}"
        )
    rows = [line.split() for line in lines[:n_points]]
    for number, row in enumerate(rows):
        if len(row) < 3 or (kind != "OFF" and len(row) != len(rows[0])):
            wanted = 3 if kind == "OFF" else len(rows[0])
            raise FileFormatError(
                f"{path}: expected {wanted} numbers a point; point {number} (counted from 0) "
                f"is {' '.join(row)[:60]!r}"
            )
    if kind == "OFF":
        rows = [row[:3] for row in rows]
    table = np.array(rows, dtype=np.float64).reshape(n_points, -1 if n_points else 3)
    attributes = _off_attributes(kind, table[:, 3:])
    if not n_faces:
        return Content(table[:, :3], None, attributes)
    faces = _off_faces(path, lines[n_points:])
    return Content(table[:, :3], faces, attributes, triangulated(n_faces, faces))


def _off_attributes(kind: str, further: np.ndarray) -> dict[str, np.ndarray]:
    """Columns behind x, y and z: normals, then colours, then texture."""
    attributes = {}
    if "N" in kind and further.shape[1] >= 3:
        attributes = columns_of(further, ("nx", "ny", "nz"))
        further = further[:, 3:]
    width = further.shape[1] - (2 if "ST" in kind else 0)
    if "C" in kind and width in (3, 4):
        colours = further[:, :width]
        if ((colours == np.trunc(colours)) & (colours >= 0) & (colours <= 255)).all():
            colours = colours.astype(np.uint8)
        attributes |= columns_of(colours, ("red", "green", "blue", "alpha")[:width])
        further = further[:, width:]
    if "ST" in kind and further.shape[1] == 2:
        attributes |= columns_of(further, ("s", "t"))
    return attributes


def _off_faces(path: Path, lines: list[str]) -> np.ndarray:
    sizes, corners = [], []
    for number, line in enumerate(lines):
        words = line.split()
        size = int(words[0])
        if size < 0 or len(words) <= size:
            raise miscounted(path, f"corners of face {number}", size, len(words) - 1)
        sizes.append(size)
        corners += words[1 : 1 + size]
    return triangles(np.array(corners, dtype=np.int64), np.array(sizes, dtype=np.int64))


# --------------------------------------------------------------------------------------- OBJ


def read_obj(path: Path) -> Content:
    """Point i is the i-th ``v`` line, whatever texture, normals, groups or faces say."""
    # our own parser: mesh libraries split points at seams and drop those that no face names
    file = _Obj(path)
    text = path.read_text(encoding="utf-8", errors="replace")
    pending, begun = "", 0
    for number, line in enumerate(text.split("\n"), start=1):
        line = line.rstrip("\r")
        begun = begun or number
        if line.endswith("\\"):
            pending += line[:-1] + " "
            continue
        words = (pending + line).split("#", 1)[0].split()
        if words:
            file.take(words, begun)
        pending, begun = "", 0
    if pending.strip():
        raise FileFormatError(f"{path}: line {begun} goes on behind the end; the file is cut off")
    return file.content()


class _Obj:
    """What has been read of an OBJ file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.points: list[list[str]] = []
        self.normals: list[list[str]] = []
        self.corners: list[int] = []
        self.sizes: list[int] = []
        self.lines: list[int] = []  # of the faces
        self.aligned = True  # whether every corner has the normal of its point's own number
        self.skipped: set[str] = set()

    def take(self, words: list[str], number: int) -> None:
        """Take one statement."""
        kind = words[0]
        if kind == "v":
            if not 4 <= len(words) <= 9:
                raise FileFormatError(
                    f"{self.path}: line {number}: expected v and 3 to 8 numbers; got "
                    f"{' '.join(words)[:60]!r}"
                )
            self.points.append(words[1:])
        elif kind == "vn":
            self.normals.append(words[1:])
        elif kind in ("f", "fo"):
            self._face(words[1:], number)
        elif kind in ("l", "p", "curv", "curv2", "surf", "vp"):
            self.skipped.add(kind)

    def _face(self, corners: list[str], number: int) -> None:
        if len(corners) < 3:
            raise FileFormatError(
                f"{self.path}: line {number}: a face needs 3 corners; got {len(corners)}"
            )
        for corner in corners:
            parts = corner.split("/")
            try:
                row = self._row(parts[0], len(self.points))
                if self.aligned:
                    normal = parts[2] if len(parts) > 2 and parts[2] else "0"
                    self.aligned = self._row(normal, len(self.normals)) == row
            except ValueError as error:
                raise FileFormatError(
                    f"{self.path}: line {number}: expected corners like 7 or 7/1/2; got "
                    f"{corner[:40]!r}"
                ) from error
            if row < 0:
                raise FileFormatError(
                    f"{self.path}: line {number}: a face names point {parts[0]}; expected 1 to "
                    f"{len(self.points)}, or -1 to -{len(self.points)}"
                )
            self.corners.append(row)
        self.sizes.append(len(corners))
        self.lines.append(number)

    @staticmethod
    def _row(word: str, count: int) -> int:
        """Row of an index that counts from 1, or back from the last row so far."""
        index = int(word)
        return index - 1 if index >= 0 else count + index

    def content(self) -> Content:
        """All of it."""
        widths = {len(row) for row in self.points}
        width = widths.pop() if len(widths) == 1 else 3
        notes = [f"records of the kind {kind!r} are left out" for kind in sorted(self.skipped)]
        if widths:
            notes.append("colours that only some points have are left out")
        try:
            table = np.array([row[:width] for row in self.points], dtype=np.float64)
        except ValueError as error:
            raise FileFormatError(f"{self.path}: a v line holds no numbers ({error})") from error
        points = table.reshape(len(self.points), -1)[:, :3] if len(table) else np.zeros((0, 3))
        names = {4: ("w",), 6: ("red", "green", "blue"), 7: ("red", "green", "blue", "alpha")}
        attributes = columns_of(table[:, 3:], names.get(width, ())) if len(table) else {}
        if self.aligned and self.sizes and len(self.normals) == len(points):
            normals = np.array(self.normals, dtype=np.float64)
            attributes |= columns_of(normals.reshape(len(points), -1), ("nx", "ny", "nz"))
        if not self.sizes:
            return Content(points, None, attributes, tuple(notes))
        corners, sizes = np.array(self.corners, np.int64), np.array(self.sizes, np.int64)
        beyond = np.flatnonzero(corners >= len(points))
        if len(beyond):
            face = np.searchsorted(np.cumsum(sizes), beyond[0], side="right")
            raise FileFormatError(
                f"{self.path}: line {self.lines[face]}: a face names point "
                f"{corners[beyond[0]] + 1}; the file holds {len(points)}"
            )
        faces = triangles(corners, sizes)
        return Content(points, faces, attributes, (*notes, *triangulated(len(sizes), faces)))


# --------------------------------------------------------------------------------------- STL


def read_stl(path: Path) -> Content:
    """Binary or ASCII, told apart by length, since binary files may begin with "solid" too.

    STL has no points, only corners of triangles. Corners at exactly the same place become one
    point, numbered by first appearance; ``faces`` says for each corner which point it became.
    """
    content = path.read_bytes()
    n = struct.unpack_from("<I", content, 80)[0] if len(content) >= 84 else 0
    if len(content) >= 84 and len(content) == 84 + 50 * n:
        rows = np.frombuffer(content, np.dtype([("c", "<f4", (4, 3)), ("word", "<u2")]), n, 84)
        corners = rows["c"][:, 1:].reshape(-1, 3).astype(np.float64)
    elif content.lstrip()[:5].lower() == b"solid" and (
        b"facet" in content or b"endsolid" in content
    ):
        corners = _ascii_stl(path, content.decode("utf-8", errors="replace"))
    elif len(content) < 84:
        raise FileFormatError(
            f"{path}: not a readable STL file; expected 'solid' and facets, or at least 84 bytes; "
            f"got {len(content)} bytes"
        )
    else:
        raise miscounted(path, "triangles", n, f"bytes for {(len(content) - 84) / 50:.1f}")
    # adding 0 makes -0 and 0 the same place
    keys = np.ascontiguousarray(corners + 0.0).view(np.dtype((np.void, 24))).ravel()
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    number = np.empty(len(first), dtype=np.int64)
    number[order] = np.arange(len(first))
    faces = number[inverse.reshape(-1)].reshape(-1, 3)
    points = corners[first[order]]
    notes = (f"{len(corners)} corners became {len(points)} points, numbered by first appearance",)
    return Content(points, faces if len(faces) else None, {}, notes)


def _ascii_stl(path: Path, text: str) -> np.ndarray:
    words = text.split()
    lower = [word.lower() for word in words]
    n_facets = lower.count("facet")
    starts = [i for i, word in enumerate(lower) if word == "vertex"]
    whole = lower.count("endfacet")
    if whole != n_facets or len(starts) != 3 * n_facets:
        raise miscounted(path, "facets", n_facets, f"{whole} whole ones, {len(starts)} corners")
    if "endsolid" not in lower:
        raise FileFormatError(f"{path}: has no 'endsolid' after {n_facets} facets; it is cut off")
    corners = [words[i + 1 : i + 4] for i in starts]
    return np.array(corners, dtype=np.float64).reshape(-1, 3)


# -------------------------------------------------------------------------------------- glTF


def read_gltf(path: Path) -> Content:
    """All meshes of the scene, each as often and where its nodes put it, in the units of the root.

    The rows of a node follow each other; a note says which rows are whose.
    """
    import trimesh

    header = _gltf_header(path)
    scene: Any = trimesh.load_scene(
        path, process=False, merge_primitives=False, skip_materials=True
    )
    points, faces, columns, notes, start = [], [], [], [], 0
    for node in _in_file_order(scene, header):
        transform, name = scene.graph[node]
        part = scene.geometry[name]
        placed = np.asarray(part.vertices, dtype=np.float64)
        placed = placed @ transform[:3, :3].T + transform[:3, 3]
        if hasattr(part, "faces"):
            faces.append(np.asarray(part.faces, dtype=np.int64).reshape(-1, 3) + start)
        points.append(placed)
        columns.append(_gltf_attributes(part, len(placed)))
        notes.append(f"node {node!r}: rows {start} to {start + len(placed) - 1}")
        start += len(placed)
    if not points:
        raise FileFormatError(f"{path}: the file holds no points")
    shared = [name for name in columns[0] if all(name in c for c in columns)]
    attributes = {name: np.concatenate([c[name] for c in columns]) for name in shared}
    joined = np.concatenate(faces) if faces else None
    return Content(np.concatenate(points), joined, attributes, tuple(notes))


def _in_file_order(scene: Any, header: Any) -> list[str]:
    """Nodes that carry geometry, in the order of the file's list of nodes."""
    place = {str(node.get("name", i)): i for i, node in enumerate(header.get("nodes", []))}
    parents = scene.graph.transforms.parents

    def first(node: str) -> int:
        while node not in place and node in parents:  # parts of a mesh hang below its node
            node = parents[node]
        return place.get(node, len(place))

    return sorted(scene.graph.nodes_geometry, key=first)


def _gltf_header(path: Path) -> Any:
    """Refuse cut files and compressed geometry, which the library would read as something else."""
    content = path.read_bytes()
    if content[:4] == b"glTF":
        length = struct.unpack_from("<I", content, 8)[0]
        if length != len(content):
            raise miscounted(path, "bytes", length, len(content))
        size = struct.unpack_from("<I", content, 12)[0]
        content = content[20 : 20 + size]
    header = json.loads(content)
    needed = header.get("extensionsRequired", [])
    packed = [name for name in needed if "draco" in name.lower() or "meshopt" in name.lower()]
    if packed:
        raise FileFormatError(
            f"{path}: its geometry is compressed by {', '.join(packed)}; export it uncompressed"
        )
    for accessor in header.get("accessors", []):
        if "bufferView" not in accessor and accessor["count"] > 10_000_000:
            raise miscounted(path, "values", accessor["count"], "no data")
    return header


def _gltf_attributes(part: Any, n: int) -> dict[str, np.ndarray]:
    found = dict(getattr(part, "vertex_attributes", {}))
    colours = getattr(part.visual, "kind", None) == "vertex" and part.visual.vertex_colors
    if isinstance(colours, np.ndarray):
        found |= columns_of(colours, ("red", "green", "blue", "alpha"))
    kept = {name.lstrip("_").lower(): np.asarray(values) for name, values in found.items()}
    return {name: v for name, v in kept.items() if v.ndim and len(v) == n and v.dtype.kind in "fiu"}
