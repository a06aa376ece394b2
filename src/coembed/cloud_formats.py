"""Readers of point clouds: text tables, PTS, PCD, LAS, and arrays of NumPy and MATLAB."""

import csv
import io
import re
import struct
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from coembed.contents import WHOLE, Content, Request, columns_of, miscounted, name_columns, text_of
from coembed.errors import FileFormatError, MissingExtraError
from coembed.isolation import decoded

__all__ = [
    "FACE_NAMES",
    "POINT_NAMES",
    "read_las",
    "read_mat",
    "read_numpy",
    "read_pcd",
    "read_text",
]

_FORGED_NUMBERS = re.compile(r"(?i)([-+]?)(?:nan\(\w*\)|1\.#(?:QNAN|SNAN|IND)\w*|n/?a|null)")
_FORGED_INFINITY = re.compile(r"(?i)1\.#INF\w*")
_FORTRAN = re.compile(r"[-+]?\d*\.?\d*[dD][-+]?\d+")
_WHOLE = re.compile(r"[-+]?\d{1,18}")


# --------------------------------------------------------------------------------------- text


def read_text(path: Path, request: Request = WHOLE) -> Content:
    """Columns split by commas, semicolons, tabs or blanks; x, y and z by name, else the first.

    PTS files too: a line that counts the rows may stand before them.
    """
    text, cut = request.end_of(text_of(path))
    plain = None if request.chosen else _three_columns(text)
    content = Content(plain) if plain is not None else _table(path, text, request)
    return content._replace(notes=cut + content.notes)


def _table(path: Path, text: str, request: Request) -> Content:
    numbered = list(_lines(text))
    if not numbered:
        raise FileFormatError(f"{path}: the file holds no points")
    names = _comment_names(text)
    split = _splitter(numbered)
    first = split(numbered[0][1])
    if not all(map(_is_number, first)):
        names, numbered = first, numbered[1:]
        if not numbered:
            raise FileFormatError(f"{path}: the file holds no points; only a line of names")
    rows, notes = _blocks(path, [(number, split(line)) for number, line in numbered], request)
    if not rows:
        raise FileFormatError(f"{path}: the file holds no points")
    width = len(rows[0][1])
    names = names if names is not None and len(names) == width else None
    wanted = _wanted_columns(path, names, rows, request)
    for i, (number, row) in enumerate(rows):
        if len(row) != width or width <= max(wanted):
            expected = "three numbers a line" if width < 3 or len(row) < 3 else f"{width} columns"
            raise FileFormatError(
                f"{path}: expected {expected}; point {i} (counted from 0) is "
                f"{' '.join(row)[:80]!r} in line {number}"
            )
    content = _named(path, rows, wanted, names)
    return content._replace(notes=notes + content.notes)


def _wanted_columns(
    path: Path, names: list[str] | None, rows: list[tuple[int, list[str]]], request: Request
) -> tuple[int, ...]:
    """Places of the coordinates: as chosen, by name, or the first three if no other could be."""
    width = len(rows[0][1])
    how = f"; say which columns hold them, as in {path.name}#2,3,4 or {path.name}#east,north,height"
    if request.chosen:
        bare = [_bare(name).lower() for name in names or ()]
        words = [word.strip().lower() for word in request.chosen.split(",")]
        places = [bare.index(word) if bare.count(word) == 1 else _place(word) for word in words]
        if len(places) != 3 or len(set(places)) != 3 or not all(0 <= c < width for c in places):
            listed = f" ({', '.join(names)[:200]})" if names else ""
            raise FileFormatError(
                f"{path}: expected three of the {width} columns{listed} behind #, by name or by "
                f"number from 1; got {request.chosen[:60]!r}"
            )
        return tuple(places)
    xyz = _xyz(names) if names is not None else None
    if xyz is not None or width <= 3:
        return xyz or (0, 1, 2)
    if names is not None:
        raise FileFormatError(
            f"{path}: none of its {width} columns ({', '.join(names)[:200]}) are called x, y and "
            f"z{how}"
        )
    first = [row[0] for _, row in rows if len(row) == width]
    counts = [[str(i + base) for i in range(len(rows))] for base in (0, 1)]
    if first in counts and len(rows) > 2:
        raise FileFormatError(
            f"{path}: the first of its {width} columns counts the rows, so that the first three "
            f"are hardly coordinates{how}"
        )
    return (0, 1, 2)


def _place(word: str) -> int:
    return int(word) - 1 if re.fullmatch(r"\d{1,6}", word) else -1


def _three_columns(text: str) -> np.ndarray | None:
    """Points of a text of three numbers a line and nothing else, six times faster; or None."""
    lines = text.split("\n", 1)
    mark = "," if "," in lines[0] else None
    words = lines[0].split(mark)
    if len(words) != 3 or not all(map(_is_number, words)) or re.search(r"[^-+.\deE,\s]", text):
        return None
    try:
        return np.loadtxt(io.StringIO(text), ndmin=2, comments=None, delimiter=mark)
    except ValueError:  # rows of several lengths: told by the careful reader
        return None


def _named(
    path: Path,
    rows: list[tuple[int, list[str]]],
    wanted: tuple[int, ...],
    names: list[str] | None,
) -> Content:
    """Points and attributes of rows of words of one length."""
    columns = [_column([row[c] for _, row in rows]) for c in range(len(rows[0][1]))]
    for c in wanted:
        if columns[c].dtype.kind not in "fi":
            i = next(i for i, (_, row) in enumerate(rows) if not _is_number(row[c]))
            raise FileFormatError(
                f"{path}: not a readable {path.suffix[1:].upper()} file: expected numbers in "
                f"column {c + 1}; got {rows[i][1][c][:40]!r} in line {rows[i][0]}; if other "
                "columns hold the coordinates, name them x, y and z in the first line"
            )
    points = np.stack([columns[c].astype(np.float64) for c in wanted], axis=1)
    rest = [c for c in range(len(columns)) if c not in wanted]
    if names is not None:
        called = [_bare(names[c]) or f"column{c + 1}" for c in rest]
    elif rest and min(rest) == 3 and all(columns[c].dtype.kind in "fi" for c in rest):
        called = name_columns(np.stack([columns[c].astype(np.float64) for c in rest], axis=1))
    else:
        called = [f"column{c + 1}" for c in rest]
    attributes = {name: columns[c] for name, c in zip(called, rest, strict=True)}
    order = dict(zip(wanted, "xyz", strict=True)) | dict(zip(rest, called, strict=True))
    read_as = " ".join(order[c] for c in range(len(columns)))
    notes = (f"{len(columns)} columns: {read_as}",) if rest else ()
    return Content(points, None, attributes, notes)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines that hold something, by number, without comments."""
    for number, line in enumerate(text.split("\n"), start=1):
        if "#" in line or "//" in line:
            # CloudCompare writes the names of columns as //X Y Z; a # inside a word is no comment
            line = re.split(r"(?:^|\s)(?:#|//)", line)[0]
        line = line.strip(" \t\r")
        if line.strip(",;"):
            yield number, line


def _comment_names(text: str) -> list[str] | None:
    """Names of columns from a comment before the first row, as in '# x y z nx ny nz'."""
    for line in text.split("\n")[:50]:
        comment = re.match(r"\s*(?:#|//)+(.*)", line)
        if comment is None:
            return None
        words = re.split(r"[\s,;]+", comment[1].strip())
        if _xyz(words) is not None:
            return words
    return None


def _splitter(numbered: list[tuple[int, str]]) -> Any:
    """Find how the columns of a table are split: by what gives three numbers in its first rows."""
    sample = [line for _, line in numbered[:3]][::-1]  # the first may be a title or a count
    ways = {";": _by(";"), ",": _by(","), "\t": _by("\t"), " ": _by_blanks, "": _by_anything}
    for line in sample:
        for mark, way in ways.items():
            if mark in line and sum(map(_is_number, way(line))) >= 3:
                return way
    return _by_anything


def _by(mark: str) -> Any:
    def split(line: str) -> list[str]:
        if mark not in line:
            return _by_anything(line)
        words = next(csv.reader([line], delimiter=mark, skipinitialspace=True))
        words = [word.strip() for word in words]
        if not words[-1]:
            words.pop()  # a mark at the end of the line
        if mark == ";":  # where these split columns, commas are decimal
            words = [re.sub(r"^([-+]?\d*),(\d+)", r"\1.\2", word) for word in words]
        return [word or "nan" for word in words]

    return split


def _by_blanks(line: str) -> list[str]:
    words = line.split()
    if len(words) > 2 and all(re.fullmatch(r"[-+]?\d+,\d+", word) for word in words):
        return [word.replace(",", ".") for word in words]  # decimal commas
    return words


def _by_anything(line: str) -> list[str]:
    return re.split(r"[\s,;]+", line.strip(" \t\r,;"))


def _is_number(word: str) -> bool:
    try:
        float(_plain(word))
    except ValueError:
        return False
    return True


def _plain(word: str) -> str:
    """Spellings of NaN and infinity by other programs, as Python reads them."""
    if _FORGED_NUMBERS.fullmatch(word):
        return "nan"
    if _FORTRAN.fullmatch(word):
        return word.replace("D", "E").replace("d", "e")
    return _FORGED_INFINITY.sub("inf", word)


def _column(words: list[str]) -> np.ndarray:
    """Whole numbers, numbers, or the words themselves."""
    try:
        numbers = np.array(words, dtype=np.float64)
        whole = bool((numbers == np.trunc(numbers)).all()) and all(map(_WHOLE.fullmatch, words))
        return np.array(words, dtype=np.int64) if whole else numbers
    except ValueError:
        pass
    try:
        return np.array([_plain(word) for word in words], dtype=np.float64)
    except ValueError:
        return np.array(words)


def _bare(name: str) -> str:
    """Name without quotes and units: 'X [m]' is X."""
    return re.sub(r"\s*[\[(].*?[\])]\s*$", "", name.strip().strip("\"'").strip())


def _xyz(names: list[str]) -> tuple[int, ...] | None:
    """Places of the columns named x, y and z, also as other programs call them."""
    bare = [_bare(name).lower() for name in names]
    for triple in (
        ("x", "y", "z"),
        ("points:0", "points:1", "points:2"),  # ParaView
        ("points_0", "points_1", "points_2"),
        ("px", "py", "pz"),
        ("pos_x", "pos_y", "pos_z"),
        ("x_coord", "y_coord", "z_coord"),
        ("coord_x", "coord_y", "coord_z"),
        ("easting", "northing", "elevation"),
        ("easting", "northing", "height"),
        ("east", "north", "up"),
    ):
        if all(bare.count(name) == 1 for name in triple):
            return tuple(map(bare.index, triple))
    return None


def _blocks(
    path: Path, rows: list[tuple[int, list[str]]], request: Request
) -> tuple[list[tuple[int, list[str]]], tuple[str, ...]]:
    """Rows without lines that count them; a single whole number in a line is such a count."""
    if len(rows[0][1]) != 1 or not _WHOLE.fullmatch(rows[0][1][0]):
        return rows, ()
    kept: list[tuple[int, list[str]]] = []
    declared = 0
    for number, row in rows:
        if len(row) == 1 and _WHOLE.fullmatch(row[0]) and len(kept) == declared:
            declared += int(row[0])
        else:
            kept.append((number, row))
    if len(kept) > declared:
        raise miscounted(path, "points", declared, len(kept))
    notes = request.cut(path, "points", declared, len(kept)) if len(kept) < declared else ()
    return kept, notes


# ---------------------------------------------------------------------------------------- PCD


def read_pcd(path: Path, request: Request = WHOLE) -> Content:
    """Point Cloud Library: ascii, binary, binary_compressed; organised clouds keep every row."""
    content = path.read_bytes()
    head = re.search(rb"(?m)^DATA\s+(\w+)[ \t]*\r?\n?", content)
    if head is None:
        raise FileFormatError(f"{path}: not a PCD file; expected a header that ends with DATA")
    header = _pcd_header(path, content[: head.start()].decode("utf-8", errors="replace"))
    dtype, n = _pcd_dtype(path, header), int(header["POINTS"][0])
    if n < 0 or n != int(header["WIDTH"][0]) * int(header["HEIGHT"][0]):
        size = "WIDTH {WIDTH[0]} and HEIGHT {HEIGHT[0]}".format(**header)
        raise miscounted(path, "points", n, size)
    body, kind = content[head.end() :], head[1].decode().lower()
    notes: tuple[str, ...] = ()
    if request.incomplete and kind in ("ascii", "binary"):
        declared = n
        body, n = _pcd_whole_rows(body, kind, dtype, n)
        notes = request.cut(path, "points", declared, n) if n < declared else ()
    if not n:
        raise FileFormatError(f"{path}: the file holds no points")
    if kind == "ascii":
        table = _pcd_ascii(path, body, dtype, n)
    elif kind == "binary":
        found = len(body) / dtype.itemsize
        if len(body) < n * dtype.itemsize or body[n * dtype.itemsize :].strip(b"\0\r\n"):
            raise miscounted(path, "points", n, f"bytes for {found:.1f}")
        table = np.frombuffer(body, dtype, n)
    elif kind == "binary_compressed":
        table = _pcd_compressed(path, body, dtype, n)
    else:
        raise FileFormatError(
            f"{path}: DATA is {kind!r}; expected ascii, binary or binary_compressed"
        )
    points = np.stack([table[axis].astype(np.float64) for axis in "xyz"], axis=1)
    names = [name for name in table.dtype.names or () if name not in "xyz" and name[:2] != "_ "]
    attributes = {name: table[name].astype(table[name].dtype.newbyteorder("=")) for name in names}
    return Content(points, None, attributes, notes)


def _pcd_whole_rows(body: bytes, kind: str, dtype: np.dtype, n: int) -> tuple[bytes, int]:
    """Whole rows of a body that may be cut off, and how many they are, at most n."""
    if kind == "binary":
        found = min(n, len(body) // dtype.itemsize)
        return (body[: found * dtype.itemsize] if found < n else body), found
    lines = [line for line in body.splitlines(keepends=True) if line.strip()]
    if len(lines) <= n and lines and not lines[-1].endswith(b"\n"):
        width = sum(int(np.prod(dtype[name].shape, dtype=int)) for name in dtype.names or ())
        if len(lines) < n or len(lines[-1].split()) < width:
            lines.pop()  # its last number may be cut
    return b"".join(lines), min(n, len(lines))


def _pcd_header(path: Path, text: str) -> dict[str, list[str]]:
    lines = [line.split("#", 1)[0].split() for line in text.splitlines()]
    header = {words[0]: words[1:] for words in lines if words}
    missing = [n for n in ("FIELDS", "SIZE", "TYPE", "POINTS") if not header.get(n)]
    if missing:
        raise FileFormatError(f"{path}: the header lacks {', '.join(missing)}")
    if not {"x", "y", "z"} <= set(header["FIELDS"]):
        header["FIELDS"] = [f.lower() if f in ("X", "Y", "Z") else f for f in header["FIELDS"]]
    fields = header["FIELDS"]
    header.setdefault("COUNT", ["1"] * len(fields))
    header.setdefault("WIDTH", header["POINTS"])
    header.setdefault("HEIGHT", ["1"])
    for name in ("SIZE", "TYPE", "COUNT"):
        if len(header[name]) != len(fields):
            raise miscounted(path, f"entries of {name}", len(fields), len(header[name]))
    if not {"x", "y", "z"} <= set(fields):
        raise FileFormatError(f"{path}: fields need x, y and z; got {', '.join(fields)}")
    return header


def _pcd_dtype(path: Path, header: Mapping[str, list[str]]) -> np.dtype:
    parts: list[Any] = []
    for i, name in enumerate(header["FIELDS"]):
        kind, size = header["TYPE"][i], int(header["SIZE"][i])
        count = int(header["COUNT"][i])
        if kind not in ("F", "I", "U") or size not in (1, 2, 4, 8) or (kind, size) == ("F", 1):
            raise FileFormatError(f"{path}: field {name!r} has the unknown type {kind} {size}")
        if count < 1 or (count > 1 and name in ("x", "y", "z")):
            raise FileFormatError(f"{path}: field {name!r} has the wrong count {count}")
        # fields named _ are padding and may come several times; "_ 3" cannot clash with a field
        title = f"_ {i}" if name == "_" else name
        shape = () if count == 1 else (count,)
        parts.append((title, f"<{kind.lower()}{size}", shape))
    return np.dtype(parts)


def _pcd_ascii(path: Path, body: bytes, dtype: np.dtype, n: int) -> np.ndarray:
    rows = [line.split() for line in body.decode("utf-8", errors="replace").splitlines()]
    rows = [row for row in rows if row]
    if len(rows) != n:
        raise miscounted(path, "points", n, len(rows))
    width = sum(int(np.prod(dtype[name].shape, dtype=int)) for name in dtype.names or ())
    for i, row in enumerate(rows):
        if len(row) != width:
            raise miscounted(path, f"numbers in point {i} (counted from 0)", width, len(row))
    table, at = np.zeros(n, dtype), 0
    for name in dtype.names or ():
        base = dtype[name].base
        values = table[name].reshape(n, -1)
        for i in range(values.shape[1]):
            words = [_plain(row[at]) for row in rows]
            values[:, i] = np.array(words, np.float64 if base.kind == "f" else base)
            at += 1
        table[name] = values.reshape(table[name].shape)
    return table


def _pcd_compressed(path: Path, body: bytes, dtype: np.dtype, n: int) -> np.ndarray:
    """Fields one after the other, packed by LZF."""
    if len(body) < 8:
        raise miscounted(path, "points", n, f"{len(body)} bytes")
    packed, size = (int(v) for v in np.frombuffer(body, "<u4", 2))
    if size != n * dtype.itemsize:
        raise miscounted(path, "points", n, f"bytes for {size / dtype.itemsize:.1f}")
    if packed > len(body) - 8:
        raise miscounted(path, "compressed bytes", packed, len(body) - 8)
    plain = _lzf(body[8 : 8 + packed], size)
    if len(plain) != size:
        raise miscounted(path, "bytes of points", size, len(plain))
    table, at = np.empty(n, dtype), 0
    for name in dtype.names or ():
        field = dtype[name]
        count = n * field.itemsize // field.base.itemsize
        values = np.frombuffer(plain, field.base, count, at)
        table[name] = values.reshape(table[name].shape)
        at += n * field.itemsize
    return table


def _lzf(data: bytes, size: int) -> bytes:
    """Unpack LZF: runs of new bytes, and runs that repeat what was unpacked before."""
    out, at = bytearray(), 0
    while at < len(data) and len(out) <= size:
        control = data[at]
        at += 1
        if control < 32:
            out += data[at : at + control + 1]
            at += control + 1
            continue
        length = control >> 5
        if length == 7:
            length += data[at]
            at += 1
        start = len(out) - ((control & 31) << 8) - data[at] - 1
        at += 1
        if start < 0:
            raise ValueError("its packed data point before their beginning")
        length += 2
        run = bytes(out[start : start + length])
        while len(run) < length:  # it repeats itself
            run += run[: length - len(run)]
        out += run
    return bytes(out)


# ---------------------------------------------------------------------------------------- LAS


def _check_las(path: Path, content: bytes) -> None:
    """Refuse headers that count more records than the file can hold: laspy would read them all."""
    if content[:4] != b"LASF" or len(content) < 227:
        raise FileFormatError(
            f"{path}: not a LAS file; expected LASF and a header of 227 bytes or more; got "
            f"{len(content)} bytes that begin with {content[:4]!r}"
        )
    size, start, records = struct.unpack_from("<HII", content, 94)
    if records * 54 > max(min(start, len(content)) - size, 0):
        raise miscounted(path, "variable length records", records, f"room for {start} bytes")
    if content[25] >= 4 and len(content) >= 247:
        begin, records = struct.unpack_from("<QI", content, 235)
        if records * 60 > max(len(content) - begin, 0):
            raise miscounted(path, "extended records", records, f"only {len(content)} bytes")


def read_las(path: Path, request: Request = WHOLE) -> Content:
    """LAS and LAZ: scaled coordinates in double precision, the other fields as they are."""
    try:
        import laspy
    except ImportError as error:
        raise MissingExtraError(f'{path}: LAS needs laspy: pip install "coembed[las]"') from error
    content = path.read_bytes()
    _check_las(path, content)
    with laspy.open(io.BytesIO(content)) as reader:
        header = reader.header
        n = int(header.point_count)
        size, start = header.point_format.size, int(header.offset_to_point_data)
        compressed = bool(header.are_points_compressed)
    if compressed and not laspy.LazBackend.detect_available():
        raise MissingExtraError(
            f'{path}: compressed points (LAZ) need a decoder: pip install "coembed[las]"'
        )
    found = max(len(content) - start, 0)
    notes: tuple[str, ...] = ()
    if not compressed and found < n * size:
        notes = request.cut(path, "points", n, found // size)
        n = found // size
    if n > 1000 * len(content):  # before memory is taken for so many
        raise miscounted(path, "points", n, f"only {len(content)} bytes")
    if compressed:
        fields = decoded("laz", path)
    else:
        with laspy.open(io.BytesIO(content)) as reader:
            fields = _las_fields(reader.read_points(n))
    if len(fields["x"]) != n:
        raise miscounted(path, "points", n, len(fields["x"]))
    points = np.stack([fields.pop(axis) for axis in "xyz"], axis=1)
    return Content(points, None, fields, notes)


def _las_fields(data: Any) -> dict[str, np.ndarray]:
    names = [name for name in data.point_format.dimension_names if name not in ("X", "Y", "Z")]
    fields = {axis: np.asarray(data[axis], dtype=np.float64) for axis in "xyz"}
    return fields | {name: np.array(data[name]) for name in names}


# -------------------------------------------------------------------------------------- arrays

POINT_NAMES = ("points", "vertices", "xyz", "vert", "verts", "positions", "pos", "coords", "v")
FACE_NAMES = ("faces", "triangles", "triv", "tri", "cells", "f")


def read_numpy(path: Path, request: Request = WHOLE) -> Content:
    """One array, or an archive with one array of points; pickled objects are never run."""
    content = path.read_bytes()
    cut: tuple[str, ...] = ()
    if request.incomplete and path.suffix.lower() == ".npy":
        content, cut = _whole_rows(path, content, request)
    stream = io.BytesIO(content)
    try:
        loaded = np.load(stream, allow_pickle=False)
    except ValueError as error:
        raise _pickled(path, path.suffix[1:].upper(), error) from error
    if isinstance(loaded, np.ndarray):
        if rest := len(stream.read()):
            raise miscounted(path, "values", loaded.size, f"{rest} more bytes")
        points = _point_array(path, loaded)
        return points._replace(notes=cut + points.notes)
    arrays, notes = {}, []
    with loaded:
        for name in loaded.files:
            try:
                arrays[name] = loaded[name]
            except ValueError as error:
                if name.lower() in POINT_NAMES + FACE_NAMES:
                    raise _pickled(path, name, error) from error
                notes.append(f"array {name!r} cannot be read and is left out")
    return _of_arrays(path, arrays, tuple(notes), request.chosen)


def _whole_rows(path: Path, content: bytes, request: Request) -> tuple[bytes, tuple[str, ...]]:
    """An NPY file that is cut off as one of fewer rows, if it is kept row by row."""
    stream = io.BytesIO(content)
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else (
        np.lib.format.read_array_header_2_0
    )  # fmt: skip
    shape, by_columns, dtype = read(stream)
    size = dtype.itemsize * int(np.prod(shape[1:], dtype=np.int64))
    whole = (len(content) - stream.tell()) // size if size and shape else 0
    if by_columns or dtype.hasobject or not shape or whole >= shape[0] or shape[0] == 3:
        return content, ()
    rows = np.frombuffer(content, dtype, whole * size // dtype.itemsize, stream.tell())
    again = io.BytesIO()
    np.save(again, rows.reshape(whole, *shape[1:]), allow_pickle=False)
    return again.getvalue(), request.cut(path, "rows", shape[0], whole)


def _pickled(path: Path, what: str, error: ValueError) -> FileFormatError:
    if "pickle" in str(error).lower():
        return FileFormatError(
            f"{path}: not a readable {what} file: it holds Python objects (pickle), which are "
            "never run; save plain numbers of shape (n, 3)"
        )
    reason = " ".join(str(error).split())[:300]
    return FileFormatError(f"{path}: not a readable {path.suffix[1:].upper()} file ({reason})")


def _of_arrays(
    path: Path, arrays: Mapping[str, Any], notes: tuple[str, ...] = (), chosen: str = ""
) -> Content:
    """Points, faces and attributes of named arrays."""
    named = [name for name in arrays if (name == chosen if chosen else name.lower() in POINT_NAMES)]
    if len(named) != 1:
        wanted = repr(chosen) if chosen else "'points', 'vertices' or 'xyz'"
        listed = ", ".join(
            f"{name} {'x'.join(map(str, np.shape(arrays[name])))}" for name in sorted(arrays)
        )
        raise FileFormatError(
            f"{path}: expected one array named {wanted}; got "
            f"{listed[:300] or 'none'}; say which one holds the points, as in {path.name}#NAME"
        )
    content = _point_array(path, np.asarray(arrays[named[0]]))
    n = len(content.points)
    triangular = [name for name in arrays if name.lower() in FACE_NAMES]
    faces = np.asarray(arrays[triangular[0]]) if triangular else None
    if faces is not None and faces.dtype.kind == "f" and (faces == np.trunc(faces)).all():
        faces = faces.astype(np.int64)
    attributes = dict(content.attributes)
    for name, values in arrays.items():
        plain = np.asarray(values)
        if name not in (named[0], *triangular[:1]) and plain.dtype.kind in "fiubU":
            plain = plain.T if plain.ndim == 2 and plain.shape[0] == 1 else plain
            if plain.ndim and len(plain) == n:
                plain = plain[:, 0] if plain.shape[1:] == (1,) else plain
                attributes[name] = plain
    if faces is not None and not faces.size:
        faces = None
    return Content(content.points, faces, attributes, notes + content.notes)


def _point_array(path: Path, array: np.ndarray) -> Content:
    """Points of an array of (n, 3), (3, n), (n, more), or with fields x, y and z."""
    notes: tuple[str, ...] = ()
    if array.dtype.names and {"x", "y", "z"} <= set(array.dtype.names) and array.ndim == 1:
        stacked = np.stack([array[axis] for axis in "xyz"], axis=1)
        attributes = {n: array[n] for n in array.dtype.names if n not in ("x", "y", "z")}
        return Content(_point_array(path, stacked).points, None, attributes)
    if array.ndim == 3 and len(array) == 1:
        array, notes = array[0], (f"a batch of one cloud, {array.shape}",)
    if array.ndim == 2 and array.shape[0] == 3 and array.shape[1] > 3:
        notes += (f"the array is {array.shape}, read as {array.shape[1]} points by columns",)
        array = array.T
    if (
        array.ndim != 2
        or array.dtype.kind not in "fiu"
        or array.shape[1] < 3
        or (array.shape[1] > 3 and array.shape[0] < array.shape[1])
    ):
        raise FileFormatError(
            f"{path}: expected numbers of shape (n, 3) or (3, n); got {array.dtype} of shape "
            f"{array.shape}"
        )
    further = array[:, 3:]
    attributes = columns_of(further.astype(array.dtype.newbyteorder("=")), name_columns(further))
    if attributes:
        notes += (f"{array.shape[1]} columns: x y z {' '.join(attributes)}",)
    return Content(np.ascontiguousarray(array[:, :3], dtype=np.float64), None, attributes, notes)


# -------------------------------------------------------------------------------------- MATLAB


def read_mat(path: Path, request: Request = WHOLE) -> Content:
    """MATLAB files of every version: VERT or X, Y and Z, and TRIV, perhaps in a struct."""
    content = path.read_bytes()
    new = content[:10] == b"MATLAB 7.3" or b"\x89HDF\r\n\x1a\n" in (content[:8], content[512:520])
    found = _mat_73(path) if new else _mat_5(path, content)
    if request.chosen in found and not isinstance(found[request.chosen], Mapping):
        plain = _of_arrays(path, found, chosen=request.chosen)
        return plain if plain.faces is None else _from_one(path, plain)
    structs = list(_structs("", found))
    if request.chosen:
        structs = [one for one in structs if one[0] == request.chosen]
    if len(structs) != 1:
        names = ", ".join(sorted(found)) or "none"
        which = " and ".join(repr(name or "the file") for name, _ in structs)
        raise FileFormatError(
            f"{path}: expected VERT (n x 3), or X, Y and Z, and perhaps TRIV, in the file or in "
            f"one struct; got {f'several: {which}' if structs else f'the variables {names[:300]}'}"
            f"; say which one, as in {path.name}#NAME"
        )
    arrays = dict(structs[0][1])
    keys = {name.lower(): name for name in arrays}
    if not any(name in POINT_NAMES for name in keys):
        axes = [np.asarray(arrays.pop(keys[axis])).ravel() for axis in "xyz"]
        if len({len(values) for values in axes}) != 1:
            raise FileFormatError(
                f"{path}: X, Y and Z differ in length ({', '.join(str(len(a)) for a in axes)})"
            )
        arrays["points"] = np.stack(axes, axis=1)
    plain = _of_arrays(path, arrays)
    return plain if plain.faces is None else _from_one(path, plain)


def _from_one(path: Path, content: Content) -> Content:
    """Faces by rows, counting from 0; MATLAB counts from 1 and may hold them as doubles."""
    faces = np.asarray(content.faces)
    if faces.ndim == 2 and faces.shape[1] != 3 and faces.shape[0] == 3:
        faces = faces.T
    if faces.ndim != 2 or faces.shape[1] != 3 or faces.dtype.kind not in "fiu":
        raise FileFormatError(
            f"{path}: expected triangles of shape (f, 3); got {faces.dtype} of shape {faces.shape}"
        )
    if not (np.isfinite(faces).all() and (faces == np.trunc(faces)).all()):
        raise FileFormatError(f"{path}: expected whole row numbers as triangles")
    if np.abs(faces).max() > 2**53:
        raise FileFormatError(f"{path}: a triangle names point {faces.max():g}")
    faces = faces.astype(np.int64)
    if faces.min() == 0:
        return content._replace(faces=faces)
    note = "triangles count points from 1 in the file, from 0 here"
    return content._replace(faces=faces - 1, notes=(*content.notes, note))


def _structs(name: str, found: Mapping[str, Any], depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Every struct that holds points, the file itself included."""
    keys = {key.lower() for key in found}
    if keys & set(POINT_NAMES) or {"x", "y", "z"} <= keys:
        yield name, {k: v for k, v in found.items() if not isinstance(v, Mapping)}
    elif depth < 4:
        for key, value in found.items():
            if isinstance(value, Mapping):
                yield from _structs(f"{name}.{key}".strip("."), value, depth + 1)


def _mat_5(path: Path, content: bytes) -> dict[str, Any]:
    # version 5 has its byte order at 126; version 4 begins with a number below 2**24
    if content[126:128] not in (b"IM", b"MI") and 0 not in content[:4]:
        raise FileFormatError(f"{path}: not a readable MAT file; it begins with {content[:16]!r}")
    return decoded("mat5", path)


def _mat_73(path: Path) -> dict[str, Any]:
    ways = "save it again with save(..., '-v7')"
    if find_spec("h5py") is None:
        raise MissingExtraError(
            f'{path}: a MATLAB 7.3 (HDF5) file: {ways}, or pip install "coembed[mat]"'
        )
    try:
        return decoded("mat73", path)
    except ValueError as error:
        reason = str(error).removeprefix(f"{path}: ")
        raise FileFormatError(
            f"{path}: a MATLAB 7.3 (HDF5) file that is cut off or damaged ({reason}); {ways}"
        ) from error
