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
    WHOLE,
    Content,
    Request,
    columns_of,
    miscounted,
    text_of,
    triangles,
    triangles_of,
    triangulated,
)
from coembed.errors import FileFormatError

__all__ = ["read_gltf", "read_obj", "read_off", "read_ply", "read_stl"]


# --------------------------------------------------------------------------------------- PLY

_PLY_CORNERS = ("vertex_indices", "vertex_index")


def read_ply(path: Path, request: Request = WHOLE) -> Content:
    """ASCII and both binaries; properties by name, in any order and type."""
    content = path.read_bytes()
    for name, count in _ply_counts(content):
        if count > len(content) and not request.incomplete:  # before memory is taken for so many
            raise miscounted(path, f"rows of element {name!r}", count, f"only {len(content)} bytes")
    data, cut = _ply_data(path, content, request)
    if "vertex" not in data:
        raise FileFormatError(f"{path}: has no element 'vertex'")
    vertex = data["vertex"]
    names = {p.name for p in vertex.properties}
    axes = "XYZ" if {"X", "Y", "Z"} <= names and not {"x", "y", "z"} & names else "xyz"
    if not set(axes) <= names:
        raise FileFormatError(f"{path}: vertices need x, y and z; got {', '.join(sorted(names))}")
    points = np.stack([np.asarray(vertex[axis], dtype=np.float64) for axis in axes], axis=1)
    lists = [p.name for p in vertex.properties if vertex[p.name].dtype.kind == "O"]
    kept = [p.name for p in vertex.properties if p.name not in (*lists, *axes)]
    attributes = {name: _native(vertex[name]) for name in kept}
    notes = tuple(f"list property {name!r} of the points is left out" for name in lists)
    faces, more = _ply_faces(data)
    return Content(points, faces, attributes, cut + notes + more)


def _ply_counts(content: bytes) -> list[tuple[str, int]]:
    """Declared rows of each element."""
    head = content[: content.find(b"end_header")]
    found = re.findall(rb"(?m)^element\s+(\S+)\s+(\d+)", head)
    return [(name.decode(errors="replace"), int(count)) for name, count in found]


def _ply_data(path: Path, content: bytes, request: Request) -> tuple[Any, tuple[str, ...]]:
    """Elements of a whole file; of one that is cut off the whole rows, if these are wanted."""
    from plyfile import PlyData, PlyElementParseError

    declared = _ply_counts(content)
    clamped = _recounted(content, [min(count, len(content)) for _, count in declared])
    try:
        data, rest = _ply_elements(path if clamped == content else None, clamped)
    except PlyElementParseError as error:
        if error.row is None or error.element is None:
            raise
        place = [name for name, _ in declared].index(error.element.name)
        what, count = f"rows of element {error.element.name!r}", declared[place][1]
        notes = request.cut(path, what, count, f"{error.row} ({error.message})")
        counts = [count for _, count in declared[:place]]
        absent = [0] * (len(declared) - place - 1)
        whole = _whole_rows(content, sum(counts), error.row)
        if whole is None:
            raise miscounted(path, what, count, f"{error.row} ({error.message})") from None
        again = _recounted(content, [*counts, whole, *absent])
        notes = request.cut(path, what, count, whole)
        return PlyData.read(_KeptOpen(again)), notes
    _check_end(path, data, content[content.find(b"end_header") :], rest)
    return data, ()


def _recounted(content: bytes, counts: list[int]) -> bytes:
    """Content whose header declares these numbers of rows."""
    end, left = content.find(b"end_header"), iter(counts)
    count = re.compile(rb"(?m)^(element\s+\S+\s+)\d+")
    return count.sub(lambda m: m[1] + b"%d" % next(left), content[:end]) + content[end:]


def _whole_rows(content: bytes, before: int, row: int) -> int | None:
    """Rows of the element in which a file ends; None if it does not end there.

    In a text the last line may be cut in the middle of a number, so it counts only with its end.
    """
    if not _is_text(content):
        return row
    lines = content[content.find(b"end_header") :].splitlines(keepends=True)[1:]
    whole = len(lines) - before - (bool(lines) and not lines[-1].endswith(b"\n"))
    return min(row, whole) if row >= whole - 1 else None


def _ply_elements(path: Path | None, content: bytes) -> tuple[Any, bytes]:
    """All elements of the content, which a file may hold too, and the bytes that follow them."""
    from plyfile import PlyData, PlyElementParseError

    stream = _KeptOpen(content)
    if path is not None and not _is_text(content):
        # rows of one length are mapped, which takes no time; other files are read row by row
        three = dict.fromkeys(_PLY_CORNERS, 3)
        with suppress(PlyElementParseError), path.open("rb") as mapped:
            return PlyData.read(mapped, known_list_len={"face": three}), mapped.read()
    return PlyData.read(stream), stream.read()


def _is_text(content: bytes) -> bool:
    return bool(re.search(rb"(?m)^format\s+ascii", content[: content.find(b"end_header")]))


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


def read_off(path: Path, request: Request = WHOLE) -> Content:
    """OFF and its kinds with normals, colours or texture; comments and blank lines anywhere."""
    # our own parser: importing a mesh library would take longer than matching the shapes
    text = re.sub(r"#[^\n]*", "", text_of(path))
    header = re.match(r"\s*(?:([A-Z4n]*OFF)\s+)?(\d+)\s+(\d+)(?:[ \t]+\d+)?[ \t]*\r?\n", text)
    kind = (header[1] if header is not None else None) or "OFF"
    if header is None or not re.fullmatch("(ST)?C?N?OFF", kind):
        raise FileFormatError(
            f"{path}: not a readable OFF file; expected OFF (or COFF, NOFF, STOFF) in plain text, "
            "then the numbers of points and faces"
        )
    n_points, n_faces = int(header[2]), int(header[3])
    lines = [line for line in text[header.end() :].splitlines() if line.strip()]
    notes: tuple[str, ...] = ()
    if len(lines) != n_points + n_faces:
        if not request.incomplete or len(lines) > n_points + n_faces:
            more = "" if len(lines) > n_points + n_faces else ", so the file is cut off"
            raise FileFormatError(
                f"{path}: expected {n_points} points and {n_faces} faces; got {len(lines)} lines"
                f"{more}"
            )
        lines = lines[: len(lines) - (text[-1] != "\n")]  # a last line without end may be cut
        notes = request.cut(path, "points and faces", n_points + n_faces, len(lines))
        n_points = min(n_points, len(lines))
        n_faces = len(lines) - n_points
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
        return Content(table[:, :3], None, attributes, notes)
    faces = _off_faces(path, lines[n_points:])
    return Content(table[:, :3], faces, attributes, notes + triangulated(n_faces, faces))


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


def read_obj(path: Path, request: Request = WHOLE) -> Content:
    """Point i is the i-th ``v`` line, whatever texture, normals, groups or faces say."""
    # our own parser: mesh libraries split points at seams and drop those that no face names
    text, cut = request.end_of(text_of(path))
    file = _Obj(path, request)
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
    if pending.strip() and not request.incomplete:
        raise FileFormatError(f"{path}: line {begun} goes on behind the end; the file is cut off")
    content = file.content()
    return content._replace(notes=cut + content.notes)


class _Obj:
    """What has been read of an OBJ file."""

    def __init__(self, path: Path, request: Request) -> None:
        self.path, self.request = path, request
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
        if len(beyond) and not self.request.incomplete:
            face = np.searchsorted(np.cumsum(sizes), beyond[0], side="right")
            raise FileFormatError(
                f"{self.path}: line {self.lines[face]}: a face names point "
                f"{corners[beyond[0]] + 1}; the file holds {len(points)}"
            )
        faces = triangles(corners, sizes)
        return Content(points, faces, attributes, (*notes, *triangulated(len(sizes), faces)))


# --------------------------------------------------------------------------------------- STL


def read_stl(path: Path, request: Request = WHOLE) -> Content:
    """Binary or ASCII, told apart by length, since binary files may begin with "solid" too.

    STL has no points, only corners of triangles. Corners at exactly the same place become one
    point, numbered by first appearance; ``faces`` says for each corner which point it became.
    """
    content = path.read_bytes()
    n = struct.unpack_from("<I", content, 80)[0] if len(content) >= 84 else 0
    cut: tuple[str, ...] = ()
    plain = content.lstrip()[:5].lower() == b"solid" and b"facet" in content[:2000].lower()
    if not plain and not content[84 + 50 * n :].strip(b"\0\r\n"):
        content = content[: 84 + 50 * n]  # padded
    if request.incomplete and not plain and 84 <= len(content) < 84 + 50 * n:
        cut = request.cut(path, "triangles", n, (len(content) - 84) // 50)
        n = (len(content) - 84) // 50
        content = content[: 84 + 50 * n]
    if len(content) >= 84 and len(content) == 84 + 50 * n:
        rows = np.frombuffer(content, np.dtype([("c", "<f4", (4, 3)), ("word", "<u2")]), n, 84)
        corners = rows["c"][:, 1:].reshape(-1, 3).astype(np.float64)
    elif content.lstrip()[:5].lower() == b"solid" and (
        b"facet" in content.lower() or b"endsolid" in content.lower()
    ):
        corners, cut = _ascii_stl(path, content.decode("utf-8", errors="replace"), request)
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
    return Content(points, faces if len(faces) else None, {}, cut + notes)


def _ascii_stl(path: Path, text: str, request: Request) -> tuple[np.ndarray, tuple[str, ...]]:
    notes: tuple[str, ...] = ()
    words = text.split()
    lower = [word.lower() for word in words]
    if request.incomplete and "endsolid" not in lower:
        end = len(lower) - lower[::-1].index("endfacet") if "endfacet" in lower else 0
        notes = request.cut(path, "facets", lower.count("facet"), lower[:end].count("facet"))
        words, lower = words[:end], [*lower[:end], "endsolid"]
    n_facets = lower.count("facet")
    starts = [i for i, word in enumerate(lower) if word == "vertex"]
    whole = lower.count("endfacet")
    if whole != n_facets or len(starts) != 3 * n_facets:
        raise miscounted(path, "facets", n_facets, f"{whole} whole ones, {len(starts)} corners")
    if "endsolid" not in lower:
        raise FileFormatError(f"{path}: has no 'endsolid' after {n_facets} facets; it is cut off")
    corners = [words[i + 1 : i + 4] for i in starts]
    return np.array(corners, dtype=np.float64).reshape(-1, 3), notes


# -------------------------------------------------------------------------------------- glTF


def read_gltf(path: Path, request: Request = WHOLE) -> Content:
    """All meshes of the scene, each as often and where its nodes put it, in the units of the root.

    The rows of a node follow each other; a note says which rows are whose. Nodes that are chosen
    by name bring what hangs below them.
    """
    import trimesh

    header, data = _gltf_header(path)
    lines = _node_lines(header)
    scene: Any = trimesh.load_scene(
        BytesIO(_renamed(header, data)), file_type="gltf" if data is None else "glb",
        resolver=trimesh.resolvers.FilePathResolver(str(path)),
        process=False, merge_primitives=False, skip_materials=True,
    )  # fmt: skip
    found = _in_file_order(scene)
    taken, left = _chosen_nodes(path, lines, list(dict.fromkeys(i for i, _ in found)), request)
    points, faces, columns, rows, start = [], [], [], dict.fromkeys(taken, 0), 0
    for i, node in found:
        if i not in rows:
            continue
        transform, name = scene.graph[node]
        part = scene.geometry[name]
        placed = np.asarray(part.vertices, dtype=np.float64)
        placed = placed @ transform[:3, :3].T + transform[:3, 3]
        if hasattr(part, "faces"):
            faces.append(np.asarray(part.faces, dtype=np.int64).reshape(-1, 3) + start)
        points.append(placed)
        columns.append(_gltf_attributes(part, len(placed)))
        rows[i] += len(placed)
        start += len(placed)
    if not points:
        raise FileFormatError(f"{path}: the file holds no points")
    shared = [name for name in columns[0] if all(name in c for c in columns)]
    attributes = {name: np.concatenate([c[name] for c in columns]) for name in shared}
    joined = np.concatenate(faces) if faces else None
    notes = (*_rows_of_nodes(lines, rows), *left)
    return Content(np.concatenate(points), joined, attributes, notes)


def _node_lines(header: Any) -> list[list[str]]:
    """For each node its own name, its mesh's, and those of the nodes it hangs below.

    Own names are unique: nodes of one name have their number behind it.
    """
    nodes = header.get("nodes", [])
    given = [str(node.get("name", i)) for i, node in enumerate(nodes)]
    own = [f"{name} ({i})" if given.count(name) > 1 else name for i, name in enumerate(given)]
    parents = {child: i for i, node in enumerate(nodes) for child in node.get("children", [])}
    lines = []
    for i, node in enumerate(nodes):
        line = [own[i], given[i]]
        if "mesh" in node:
            line.append(str(header["meshes"][node["mesh"]].get("name", "")))
        above, seen = parents.get(i), {i}
        while above is not None and above not in seen:
            seen.add(above)
            line += [own[above], given[above]]
            above = parents.get(above)
        lines.append([name for name in dict.fromkeys(line) if name])
    return lines


def _renamed(header: Any, data: bytes | None) -> bytes:
    """The file with nodes named by their place: the library gives unnamed ones random names."""
    nodes = [{**node, "name": f"node {i}"} for i, node in enumerate(header.get("nodes", []))]
    text = json.dumps({**header, "nodes": nodes}).encode()
    if data is None:
        return text
    text += b" " * (-len(text) % 4)
    chunks = struct.pack("<I4s", len(text), b"JSON") + text + data
    return struct.pack("<4s2I", b"glTF", 2, 12 + len(chunks)) + chunks


def _in_file_order(scene: Any) -> list[tuple[int, str]]:
    """Parts of meshes, each with the place of its node in the file."""
    parents, order = scene.graph.transforms.parents, list(scene.geometry)
    found = []
    for part in scene.graph.nodes_geometry:
        node = part
        while re.fullmatch(r"node \d+", node) is None:  # parts of a mesh hang below its node
            node = parents[node]
        found.append((int(node[5:]), order.index(scene.graph[part][1]), part))
    return [(i, part) for i, _, part in sorted(found)]


def _chosen_nodes(
    path: Path, lines: list[list[str]], nodes: list[int], request: Request
) -> tuple[list[int], tuple[str, ...]]:
    """Nodes with geometry that are wanted, and a note on those that are not."""
    if not request.chosen:
        return nodes, ()
    known = [*dict.fromkeys(name for i in nodes for name in lines[i])]
    wanted = request.names(known)
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise FileFormatError(
            f"{path}: has no node {unknown[0]!r} with points; choose among {', '.join(known)[:300]}"
        )
    taken = [i for i in nodes if set(lines[i]) & set(wanted)]
    left = [lines[i][0] for i in nodes if i not in taken]
    return taken, (f"nodes left out: {', '.join(left)[:300]}",) if left else ()


def _rows_of_nodes(lines: list[list[str]], rows: dict[int, int]) -> list[str]:
    ends = np.cumsum(list(rows.values())).tolist()
    return [
        f"node {lines[i][0]!r}: rows {end - n} to {end - 1}"
        for (i, n), end in zip(rows.items(), ends, strict=True)
    ]


def _gltf_header(path: Path) -> tuple[Any, bytes | None]:
    """Header and packed data; cut files and compressed geometry are refused.

    The library would read these as something else.
    """
    from urllib.parse import unquote

    content, data = path.read_bytes(), None
    if content[:4] == b"glTF":
        length = struct.unpack_from("<I", content, 8)[0]
        if length != len(content):
            raise miscounted(path, "bytes", length, len(content))
        size = struct.unpack_from("<I", content, 12)[0]
        content, data = content[20 : 20 + size], content[20 + size :]
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
    for buffer in header.get("buffers", []):
        if not (uri := buffer.get("uri", "data:")).startswith("data:"):
            buffer["uri"] = unquote(uri)
            if not (path.parent / buffer["uri"]).is_file():
                raise FileFormatError(f"{path}: its points are in {uri}, which is not beside it")
    return header, data


def _gltf_attributes(part: Any, n: int) -> dict[str, np.ndarray]:
    found = dict(getattr(part, "vertex_attributes", {}))
    colours = getattr(part.visual, "kind", None) == "vertex" and part.visual.vertex_colors
    if isinstance(colours, np.ndarray) and colours.ndim == 2:
        found |= columns_of(colours, ("red", "green", "blue", "alpha"))
    kept = {name.lstrip("_").lower(): np.asarray(values) for name, values in found.items()}
    return {name: v for name, v in kept.items() if v.ndim and len(v) == n and v.dtype.kind in "fiu"}
