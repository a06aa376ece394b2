import base64
import json
import os
import struct
import sys
import zlib
from pathlib import Path

import numpy as np
import plyfile
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from coembed import cloud_formats, files, formats
from coembed.errors import CoembedError, FileFormatError, InputError, MissingExtraError
from coembed.shapes import Shape

CUBE = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], float)
TETRAHEDRON = np.array([[0, 0, 0], [1, 0, 0], [0, 2, 0], [0, 0, 3.5]], float)
FACES = [[0, 2, 1], [0, 1, 3], [1, 2, 3], [2, 0, 3]]
FEW = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def put(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def rows(points):
    return "\n".join(" ".join(f"{v:g}" for v in row) for row in points)


def is_tetrahedron(shape, *, faces=True):
    np.testing.assert_array_equal(shape.points, TETRAHEDRON)
    if faces:
        assert shape.faces.tolist() == FACES
    else:
        assert shape.faces is None


OFF_FACES = "\n".join("3 " + " ".join(map(str, f)) for f in FACES)
PLY_XYZ = "".join(f"property float {axis}\n" for axis in "xyz")


# ---------------------------------------------------------------------------------- formats


@pytest.mark.parametrize(
    "text",
    [
        f"OFF\n4 4 6\n{rows(TETRAHEDRON)}\n{OFF_FACES}\n",
        f"OFF\n4 4\n{rows(TETRAHEDRON)}\n{OFF_FACES}",
        f"OFF 4 4 0\r\n{rows(TETRAHEDRON)}\n{OFF_FACES}\n".replace("\n", "\r\n"),
        f"# made by hand\nOFF # here\n\n4 4 6 # counts\n# points\n{rows(TETRAHEDRON)}\n\n"
        f"{OFF_FACES}\n# end\n",
        "COFF\n4 4 6\n" + "\n".join(f"{r} 255 0 0 255" for r in rows(TETRAHEDRON).split("\n"))
        + "\n" + "\n".join(f"{f} 0.5 0.5 0.5" for f in OFF_FACES.split("\n")),
        "NOFF\n4 4 6\n" + "\n".join(f"{r} 0 0 1" for r in rows(TETRAHEDRON).split("\n"))
        + f"\n{OFF_FACES}\n",
    ],
    ids=["plain", "no edges", "one line, crlf", "comments", "colours", "normals"],
)  # fmt: skip
def test_off(tmp_path, text):
    is_tetrahedron(formats.read(put(tmp_path / "a.off", text)))


def test_off_without_faces(tmp_path):
    shape = formats.read(put(tmp_path / "a.off", f"OFF\n4 0 0\n{rows(TETRAHEDRON)}\n"))
    is_tetrahedron(shape, faces=False)


def test_off_polygons_become_triangles(tmp_path):
    text = f"OFF\n8 2 0\n{rows(CUBE)}\n4 0 1 3 2\n5 0 1 5 7 6\n"
    shape = formats.read(put(tmp_path / "a.off", text))
    assert shape.faces.tolist() == [[0, 1, 3], [0, 3, 2], [0, 1, 5], [0, 5, 7], [0, 7, 6]]


def test_off_cut_off(tmp_path):
    text = f"OFF\n4 4 6\n{rows(TETRAHEDRON)}\n3 0 2 1\n"
    with pytest.raises(FileFormatError, match=r"expected 4 points and 4 faces; got 5 lines.*cut"):
        formats.read(put(tmp_path / "a.off", text))


@pytest.mark.parametrize("text", ["hello\nworld\n", "OFF\nfour four\n", "XOFF\n1 0 0\n0 0 0\n"])
def test_not_an_off_file(tmp_path, text):
    with pytest.raises(FileFormatError, match="not a readable OFF file"):
        formats.read(put(tmp_path / "a.off", text))


def test_off_with_a_word_for_a_number(tmp_path):
    with pytest.raises(FileFormatError, match="not a readable OFF file"):
        formats.read(put(tmp_path / "a.off", "OFF\n2 0 0\n0 0 0\n0 x 0\n"))


def test_ply_ascii(tmp_path):
    text = (
        f"ply\nformat ascii 1.0\ncomment by hand\nelement vertex 4\n{PLY_XYZ}"
        "element face 4\nproperty list uchar int vertex_indices\nend_header\n"
        f"{rows(TETRAHEDRON)}\n{OFF_FACES}\n"
    )
    is_tetrahedron(formats.read(put(tmp_path / "a.ply", text)))


@pytest.mark.parametrize(("order", "kind"), [("<", "little"), (">", "big")])
@pytest.mark.parametrize("name", ["vertex_indices", "vertex_index"])
def test_ply_binary_with_properties_in_any_order(tmp_path, order, kind, name):
    header = (
        f"ply\nformat binary_{kind}_endian 1.0\nelement vertex 4\n"
        "property uchar red\nproperty double z\nproperty float x\nproperty float nx\n"
        f"property double y\nelement face 4\nproperty list uchar int {name}\nend_header\n"
    )
    body = b"".join(struct.pack(f"{order}Bdffd", 9, z, x, 0.5, y) for x, y, z in TETRAHEDRON)
    body += b"".join(struct.pack(f"{order}B3i", 3, *face) for face in FACES)
    is_tetrahedron(formats.read(put(tmp_path / "a.ply", header.encode() + body)))


def test_ply_points_only(tmp_path):
    text = f"ply\nformat ascii 1.0\nelement vertex 4\n{PLY_XYZ}end_header\n{rows(TETRAHEDRON)}\n"
    is_tetrahedron(formats.read(put(tmp_path / "a.ply", text)), faces=False)


def test_ply_with_no_faces_in_its_face_element(tmp_path):
    text = (
        f"ply\nformat ascii 1.0\nelement vertex 4\n{PLY_XYZ}"
        "element face 0\nproperty list uchar int vertex_indices\nend_header\n"
        f"{rows(TETRAHEDRON)}\n"
    )
    is_tetrahedron(formats.read(put(tmp_path / "a.ply", text)), faces=False)


def test_ply_quads_and_triangles_mixed(tmp_path):
    text = (
        f"ply\nformat ascii 1.0\nelement vertex 8\n{PLY_XYZ}"
        "element face 2\nproperty list uchar uint vertex_indices\nend_header\n"
        f"{rows(CUBE)}\n4 0 1 3 2\n3 0 1 5\n"
    )
    shape = formats.read(put(tmp_path / "a.ply", text))
    assert shape.faces.tolist() == [[0, 1, 3], [0, 3, 2], [0, 1, 5]]


def test_ply_binary_is_mapped_where_all_faces_are_triangles(tmp_path, monkeypatch):
    """Reading row by row takes longer than a preview of as many points."""
    formats.write(tmp_path / "a.ply", Shape(TETRAHEDRON, np.array(FACES)))
    expected = formats.read(tmp_path / "a.ply")
    monkeypatch.setattr(plyfile.PlyElement, "_read_bin", None)
    monkeypatch.setattr(plyfile.PlyElement, "_read_txt", None)
    again = formats.read(tmp_path / "a.ply")
    is_tetrahedron(again)
    np.testing.assert_array_equal(again.points, expected.points)


def test_ply_cut_off(tmp_path):
    text = f"ply\nformat ascii 1.0\nelement vertex 9\n{PLY_XYZ}end_header\n{rows(TETRAHEDRON)}\n"
    with pytest.raises(FileFormatError, match="declares 9 rows of element 'vertex' but 4 "):
        formats.read(put(tmp_path / "a.ply", text))


def test_ply_binary_cut_off(tmp_path):
    formats.write(tmp_path / "a.ply", Shape(CUBE))
    content = (tmp_path / "a.ply").read_bytes()
    with pytest.raises(FileFormatError, match="declares 8 rows of element 'vertex' but 7 "):
        formats.read(put(tmp_path / "b.ply", content[:-10]))


def test_ply_without_vertices_or_coordinates(tmp_path):
    none = "ply\nformat ascii 1.0\nelement thing 1\nproperty float x\nend_header\n1\n"
    with pytest.raises(FileFormatError, match="has no element 'vertex'"):
        formats.read(put(tmp_path / "a.ply", none))
    flat = (
        "ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nproperty float y\n"
        "end_header\n1 2\n"
    )
    with pytest.raises(FileFormatError, match="vertices need x, y and z; got x, y"):
        formats.read(put(tmp_path / "b.ply", flat))


OBJ_POINTS = "\n".join("v " + row for row in rows(TETRAHEDRON).split("\n"))


@pytest.mark.parametrize(
    "faces",
    [
        "\n".join("f " + " ".join(str(i + 1) for i in f) for f in FACES),
        # seams: one point has several texture corners, and must stay one row
        "vt 0 0\nvt 1 0\nvt 0 1\nvt 1 1\nvt .5 .5\nvn 0 0 1\nvn 0 1 0\n"
        + "\n".join(
            "f " + " ".join(f"{i + 1}/{(i + j) % 5 + 1}/{j % 2 + 1}" for i in f)
            for j, f in enumerate(FACES)
        ),
        "vn 0 0 1\n" + "\n".join("f " + " ".join(f"{i + 1}//1" for i in f) for f in FACES),
        "vt 0 0\n" + "\n".join("f " + " ".join(f"{i + 1}/1" for i in f) for f in FACES),
        "\n".join("f " + " ".join(str(i - 4) for i in f) for f in FACES),
    ],
    ids=["plain", "v/vt/vn", "v//vn", "v/vt", "negative"],
)
def test_obj(tmp_path, faces):
    text = f"# by hand\no thing\n{OBJ_POINTS}\n{faces}\n"
    is_tetrahedron(formats.read(put(tmp_path / "a.obj", text)))


def test_obj_points_only(tmp_path):
    is_tetrahedron(formats.read(put(tmp_path / "a.obj", OBJ_POINTS + "\n")), faces=False)


def test_obj_keeps_points_that_no_face_names(tmp_path):
    shape = formats.read(put(tmp_path / "a.obj", OBJ_POINTS + "\nf 2 3 4\n"))
    np.testing.assert_array_equal(shape.points, TETRAHEDRON)
    assert shape.faces.tolist() == [[1, 2, 3]]


def test_obj_quads_become_triangles(tmp_path):
    points = "\n".join("v " + row for row in rows(CUBE).split("\n"))
    shape = formats.read(put(tmp_path / "a.obj", f"{points}\nf 1 2 4 3\n"))
    assert sorted(map(sorted, shape.faces.tolist())) == [[0, 1, 3], [0, 2, 3]]


def test_stl_ascii_and_binary(tmp_path):
    corners = TETRAHEDRON[np.array(FACES)]
    text = "solid t\n"
    for face in corners:
        points = "".join(f"vertex {rows([p])}\n" for p in face)
        text += f"facet normal 0 0 1\nouter loop\n{points}endloop\nendfacet\n"
    binary = b"\0" * 80 + struct.pack("<I", 4)
    for face in corners:
        binary += struct.pack("<12fH", 0, 0, 1, *face.ravel(), 0)
    for content in (text + "endsolid t\n", binary):
        shape = formats.read(put(tmp_path / "a.stl", content))
        # corners at one place are one point, numbered by first appearance
        np.testing.assert_array_equal(shape.points, TETRAHEDRON[[0, 2, 1, 3]])
        np.testing.assert_array_equal(shape.points[shape.faces], corners)
        assert "12 corners became 4 points" in shape.notes[0]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.xyz", rows(TETRAHEDRON)),
        ("a.txt", rows(TETRAHEDRON).replace(" ", "\t") + "\n\n"),
        ("a.csv", "x,y,z\n" + rows(TETRAHEDRON).replace(" ", ",")),
        ("a.csv", rows(TETRAHEDRON).replace(" ", "; ").replace("\n", "\r\n")),
        ("a.xyz", "# scan 1\n// of a thing\n" + rows(TETRAHEDRON).replace("\n", " # point\n")),
        ("a.xyz", "\n".join(f"  {r}  0 0 1 7" for r in rows(TETRAHEDRON).split("\n"))),
        ("a.csv", "\ufeffX, Y, Z, label\n" + rows(TETRAHEDRON).replace(" ", ",").replace(
            "\n", ",a\n") + ",b"),
        ("a.csv", '"z","id","x","y"\n' + "\n".join(
            f"{z},{i},{x},{y}" for i, (x, y, z) in enumerate(TETRAHEDRON))),
        ("a.txt", "points of a scan\n" + rows(TETRAHEDRON)),
        ("A.XYZ", rows(TETRAHEDRON)),
    ],
    ids=["spaces", "tabs", "header", "semicolons, crlf", "comments", "more columns",
         "byte order mark and label", "named columns", "a title", "capitals"],
)  # fmt: skip
def test_text(tmp_path, name, text):
    is_tetrahedron(formats.read(put(tmp_path / name, text)), faces=False)


def test_text_with_too_few_numbers_names_the_line(tmp_path):
    with pytest.raises(FileFormatError, match=r"point 1 \(counted from 0\) is '3 4'"):
        formats.read(put(tmp_path / "a.xyz", "0 1 2\n3 4\n"))


def test_text_with_a_word_in_the_middle(tmp_path):
    with pytest.raises(FileFormatError, match="not a readable XYZ file"):
        formats.read(put(tmp_path / "a.xyz", "0 1 2\n3 four 5\n"))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ">f8"])
def test_npy(tmp_path, dtype):
    np.save(tmp_path / "a.npy", np.asfortranarray(TETRAHEDRON.astype(dtype)))
    is_tetrahedron(formats.read(tmp_path / "a.npy"), faces=False)


def test_npy_of_whole_numbers(tmp_path):
    np.save(tmp_path / "a.npy", CUBE.astype(np.int16))
    np.testing.assert_array_equal(formats.read(tmp_path / "a.npy").points, CUBE)


@pytest.mark.parametrize("array", [np.zeros((4, 9)), np.zeros((9, 2)), np.array(["a"])])
def test_npy_of_another_shape(tmp_path, array):
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(FileFormatError, match=r"shape \(n, 3\) or \(3, n\); got"):
        formats.read(tmp_path / "a.npy")


def test_npy_that_holds_code_is_not_run(tmp_path):
    np.save(tmp_path / "a.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(FileFormatError, match=r"not a readable NPY file"):
        formats.read(tmp_path / "a.npy")


def test_npz(tmp_path):
    np.savez(tmp_path / "a.npz", points=TETRAHEDRON, faces=np.array(FACES), other=np.ones(2))
    is_tetrahedron(formats.read(tmp_path / "a.npz"))
    np.savez(tmp_path / "b.npz", points=TETRAHEDRON)
    is_tetrahedron(formats.read(tmp_path / "b.npz"), faces=False)


def test_npz_without_points(tmp_path):
    np.savez(tmp_path / "a.npz", one=TETRAHEDRON, abc=np.ones(1))
    with pytest.raises(FileFormatError, match="'points', 'vertices' or 'xyz'; got abc 1, one 4x3"):
        formats.read(tmp_path / "a.npz")


# ------------------------------------------------------------------------------------ errors


def test_missing_file():
    with pytest.raises(FileFormatError, match=r"nowhere\.ply: no such file"):
        formats.read("nowhere.ply")


def test_folder_in_place_of_a_file(tmp_path):
    with pytest.raises(FileFormatError, match="is a folder; expected a file"):
        formats.read(tmp_path)


def test_unknown_ending(tmp_path):
    with pytest.raises(FileFormatError, match=r"unknown format '\.blend'; expected one of \.off, "):
        formats.read(put(tmp_path / "a.blend", "x"))
    with pytest.raises(FileFormatError, match=r"\(no ending\)"):
        formats.read(put(tmp_path / "scan", "x"))


@pytest.mark.parametrize("ending", list(formats.READERS))
def test_empty_file(tmp_path, ending):
    with pytest.raises(FileFormatError, match="the file is empty"):
        formats.read(put(tmp_path / f"a{ending}", b""))


@pytest.mark.parametrize("ending", list(formats.READERS))
def test_rubbish_gives_one_line(tmp_path, ending):
    content = bytes(range(7, 256)) * 4
    with pytest.raises((FileFormatError, InputError)) as caught:
        formats.read(put(tmp_path / f"a{ending}", content))
    assert "\n" not in str(caught.value)
    assert str(tmp_path / f"a{ending}") in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.off", "OFF\n0 0 0\n"),
        ("a.ply", f"ply\nformat ascii 1.0\nelement vertex 0\n{PLY_XYZ}end_header\n"),
        ("a.xyz", "# nothing\n\n"),
        ("a.csv", "x,y,z\n"),
        ("a.obj", "# nothing\n"),
    ],
)
def test_files_without_points(tmp_path, name, text):
    with pytest.raises(FileFormatError, match="the file holds no points"):
        formats.read(put(tmp_path / name, text))


def test_rows_that_are_not_finite_keep_their_place(tmp_path):
    found = formats.read(put(tmp_path / "a.xyz", "0 1 2\nnan 0 0\n1 1 1\n"))
    np.testing.assert_array_equal(found.points, [[0, 1, 2], [np.nan, 0, 0], [1, 1, 1]])


def test_faces_that_name_no_point(tmp_path):
    with pytest.raises(InputError, match="faces must name points 0 to 3"):
        formats.read(put(tmp_path / "a.off", f"OFF\n4 1 0\n{rows(TETRAHEDRON)}\n3 0 1 4\n"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission(tmp_path):
    put(tmp_path / "a.xyz", "0 0 0").chmod(0)
    with pytest.raises(FileFormatError, match="permission denied"):
        formats.read(tmp_path / "a.xyz")


# ----------------------------------------------------------------------------------- writing


@FEW
@given(
    points=arrays_of.arrays(
        np.float64,
        st.tuples(st.integers(1, 20), st.just(3)),
        elements=st.floats(allow_nan=False, allow_infinity=False),
    ),
    data=st.data(),
)
def test_ply_round_trip(tmp_path, points, data):
    faces = data.draw(
        st.none()
        | arrays_of.arrays(
            np.int64,
            st.tuples(st.integers(1, 9), st.just(3)),
            elements=st.integers(0, len(points) - 1),
        )
    )
    formats.write(tmp_path / "a.ply", Shape(points, faces), force=True)
    again = formats.read(tmp_path / "a.ply")
    np.testing.assert_array_equal(again.points, points)
    if faces is None:
        assert again.faces is None
    else:
        np.testing.assert_array_equal(again.faces, faces)


def test_shapes_are_written_as_ply_only(tmp_path):
    with pytest.raises(InputError, match="shapes are written as PLY"):
        formats.write(tmp_path / "a.obj", Shape(CUBE))


def test_an_off_file_without_its_first_word(tmp_path):
    shape = formats.read(put(tmp_path / "a.off", "3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n"))
    assert shape.points.shape == (3, 3)
    assert shape.faces.tolist() == [[0, 1, 2]]


def test_a_cut_off_npz_shape_leaves_no_open_file(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, points=np.zeros((30, 3)))
    path.write_bytes(path.read_bytes()[:-60])
    with pytest.raises(FileFormatError, match="not a readable NPZ file"):
        formats.read(path)


# ---------------------------------------------------------------------------- kinds of complaint

# Each of these was reported to makers of other readers, most of them several times.

SPHERE = np.random.default_rng(3).normal(size=(40, 3)).round(6)
XYZ = ("x", "y", "z")


def put_obj(path, text):
    return formats.read(put(path / "a.obj", text))


def test_o01_ply_without_faces_and_with_a_list_property(tmp_path):
    header = (
        f"ply\nformat binary_little_endian 1.0\nelement vertex 4\n{PLY_XYZ}property float nx\n"
        "property uchar kind\nproperty list uchar int view\nelement face 0\n"
        "property list uchar int vertex_indices\nend_header\n"
    )
    body = b""
    for i, point in enumerate(TETRAHEDRON):
        body += struct.pack("<4fBB", *point, i / 2, i, i) + struct.pack(f"<{i}i", *range(i))
    shape = formats.read(put(tmp_path / "a.ply", header.encode() + body))
    is_tetrahedron(shape, faces=False)
    assert shape.attributes["nx"].tolist() == [0, 0.5, 1, 1.5]
    assert shape.attributes["kind"].dtype == np.uint8
    assert shape.notes == ("list property 'view' of the points is left out",)


def test_o02_ply_properties_by_name_and_sized_types(tmp_path):
    header = (
        "ply\nformat binary_little_endian 1.0\nelement vertex 4\nproperty uint8 red\n"
        "property float64 z\nproperty float64 y\nproperty float64 x\nproperty int32 label\n"
        "element face 4\nproperty list uint8 uint32 vertex_index\nproperty uint8 red\nend_header\n"
    )
    points = TETRAHEDRON + 1e-12  # doubles stay doubles
    body = b"".join(struct.pack("<B3di", 7, *p[::-1], i) for i, p in enumerate(points))
    body += b"".join(struct.pack("<B3IB", 3, *face, 9) for face in FACES)
    shape = formats.read(put(tmp_path / "a.ply", header.encode() + body))
    np.testing.assert_array_equal(shape.points, points)
    assert shape.faces.tolist() == FACES
    assert shape.attributes["label"].tolist() == [0, 1, 2, 3]
    assert {k: v.dtype.str for k, v in shape.attributes.items()} == {"red": "|u1", "label": "<i4"}


def test_o03_big_endian_ply_equals_its_twin(tmp_path):
    header = (
        "ply\nformat binary_{}_endian 1.0\nelement vertex 4\n" + PLY_XYZ + "property ushort q\n"
        "element face 4\nproperty list uchar int vertex_indices\nend_header\n"
    )
    shapes = []
    for order, kind in (("<", "little"), (">", "big")):
        body = b"".join(struct.pack(f"{order}3fH", *p, 515) for p in TETRAHEDRON)
        body += b"".join(struct.pack(f"{order}B3i", 3, *face) for face in FACES)
        content = header.format(kind).encode() + body
        shapes.append(formats.read(put(tmp_path / f"{kind}.ply", content)))
        is_tetrahedron(shapes[-1])
    for shape in shapes:
        assert shape.attributes["q"].tolist() == [515] * 4
        assert shape.attributes["q"].dtype == np.dtype(np.uint16)


@pytest.mark.parametrize("layout", ["ascii", "binary_little_endian"])
@pytest.mark.parametrize("declared", [3, 5, 10**15])
def test_o04_ply_that_holds_less_or_more_than_it_says(tmp_path, layout, declared):
    head = f"ply\nformat {layout} 1.0\nelement vertex {declared}\n{PLY_XYZ}end_header\n"
    body = TETRAHEDRON.astype("<f4").tobytes() if layout[0] == "b" else rows(TETRAHEDRON).encode()
    with pytest.raises(FileFormatError, match=f"a.ply: declares {declared} rows of .* but .*found"):
        formats.read(put(tmp_path / "a.ply", head.encode() + body))


def test_o04_cut_rows_of_other_formats(tmp_path):
    cut = {
        "a.off": "OFF\n5 0 0\n0 0 0\n1 1 1\n",
        "b.off": "OFF\n1 0 0\n0 0 0\n1 1 1\n",
        "c.off": "OFF\n3 1 0\n0 0 0\n1 1 1\n2 2 2\n3 0 1\n",
        "a.xyz": "0 0 0 1\n1 1 1 1\n2 2 2",
        "a.obj": "v 0 0 0\nv 1 1 1\nv 2 2",
        "b.obj": "v 0 0 0\nv 1 1 1\nf 1 2 3",
        "a.pts": "3\n0 0 0\n1 1 1\n",
        "a.stl": "solid a\nfacet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 0 0\n",
        "b.stl": b"\0" * 80 + struct.pack("<I", 3) + b"\0" * 70,
    }
    for name, text in cut.items():
        with pytest.raises(FileFormatError, match=r"expected|declares|names point"):
            formats.read(put(tmp_path / name, text))


def test_o05_obj_seams_do_not_multiply_points(tmp_path):
    points = "\n".join("v " + row for row in rows(CUBE).split("\n"))
    corners = "vt 0 0\nvt 1 0\nvt 1 1\n" * 4 + "vn 0 0 1\nvn 1 0 0\n"
    faces = "f 1/1/1 2/2/1 4/3/1 3/4/1\nf 1/5/2 2/6/2 6/7/2 5/8/2\nf 3/9/2 4/10/2 2/1/2\n"
    shape = put_obj(tmp_path, f"mtllib a.mtl\n{points}\nv 9 9 9\n{corners}usemtl m\ns 1\n{faces}")
    np.testing.assert_array_equal(shape.points, [*CUBE, [9, 9, 9]])  # also what no face names
    assert shape.faces.tolist() == [[0, 1, 3], [0, 3, 2], [0, 1, 5], [0, 5, 4], [2, 3, 1]]


def test_o06_obj_relative_indices_between_points(tmp_path):
    triangle = "v 0 0 0\nv 1 0 0\nv 0 1 0\nf -3 -2 -1\n"
    shape = put_obj(tmp_path, "o a\n" + triangle + "g b\n" + triangle + "o c\n" + triangle)
    assert shape.faces.tolist() == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]


def test_o06_obj_polygons_colours_continued_lines_and_other_records(tmp_path):
    points = "\n".join(f"v {row} 0.5 0.25 1" for row in rows(CUBE).split("\n"))
    shape = put_obj(tmp_path, f"{points}\nl 1 2\np 3\nf 1 2 \\\n 4 3 \\\n7\ncstype bspline\nend\n")
    np.testing.assert_array_equal(shape.points, CUBE)
    assert shape.faces.tolist() == [[0, 1, 3], [0, 3, 2], [0, 2, 6]]
    assert [shape.attributes[c][0] for c in ("red", "green", "blue")] == [0.5, 0.25, 1]
    assert "1 polygons cut into 3 triangles; no points were added" in shape.notes
    assert "records of the kind 'l' are left out" in shape.notes


@pytest.mark.parametrize("index", ["0", "9", "-9", "1.5", "a", ""])
def test_o06_obj_wrong_index_names_the_line(tmp_path, index):
    with pytest.raises(FileFormatError, match=r"line 6: (a face|expected corners)"):
        put_obj(tmp_path, f"# one\n{OBJ_POINTS}\nf 1 2 {index}\n")


def test_o07_off_comments_and_colours(tmp_path):
    lines = rows(TETRAHEDRON).split("\n")
    text = "OFF\n# one\n\n 4 4 0\n" + "\n# two\n\n".join(lines) + f"\n{OFF_FACES}\n"
    is_tetrahedron(formats.read(put(tmp_path / "a.off", text)))
    coloured = "\n".join(f"{row} 255 {i} 0 128" for i, row in enumerate(lines))
    shape = formats.read(put(tmp_path / "b.off", f"COFF\n4 4 0\n{coloured}\n{OFF_FACES}\n"))
    is_tetrahedron(shape)
    assert {k: v.tolist() for k, v in shape.attributes.items()} == {
        "red": [255] * 4, "green": [0, 1, 2, 3], "blue": [0] * 4, "alpha": [128] * 4
    }  # fmt: skip
    assert shape.attributes["red"].dtype == np.uint8
    normals = "\n".join(f"{row} 0 0 1 0.5 0.5 0.5" for row in lines)
    shape = formats.read(put(tmp_path / "c.off", f"CNOFF\n4 0 0\n{normals}\n"))
    assert shape.attributes["nz"].tolist() == [1] * 4
    assert shape.attributes["red"].tolist() == [0.5] * 4


def pcd(layout, table, *, points=None):
    names = {"f": "F", "u": "U", "i": "I"}
    fields = [(n, table.dtype[n].base, table.dtype[n].shape) for n in table.dtype.names]
    head = (
        "# .PCD v0.7\nVERSION 0.7\nFIELDS " + " ".join(n for n, _, _ in fields)
        + "\nSIZE " + " ".join(str(d.itemsize) for _, d, _ in fields)
        + "\nTYPE " + " ".join(names[d.kind] for _, d, _ in fields)
        + "\nCOUNT " + " ".join(str(int(np.prod(s))) for _, _, s in fields)
        + f"\nWIDTH {len(table) // 4}\nHEIGHT 4\nVIEWPOINT 0 0 0 1 0 0 0\n"
        + f"POINTS {len(table) if points is None else points}\nDATA {layout}\n"
    )  # fmt: skip
    if layout == "ascii":
        text = "\n".join(
            " ".join(repr(v.item()) for n in table.dtype.names for v in np.ravel(row[n]))
            for row in table
        )
        return head.encode() + text.encode()
    if layout == "binary":
        return head.encode() + table.tobytes()
    plain = b"".join(np.ascontiguousarray(table[n]).tobytes() for n in table.dtype.names)
    packed = b"".join(bytes([len(part) - 1]) + part for part in chunks(plain, 32))
    return head.encode() + struct.pack("<2I", len(packed), len(plain)) + packed


def chunks(data, size):
    return [data[i : i + size] for i in range(0, len(data), size)]


def grid(n=20):
    kinds = [("label", "<u2"), ("x", "<f4"), ("y", "<f8"), ("z", "<f4"), ("hist", "<f4", (3,))]
    table = np.zeros(n, kinds)
    for axis, name in enumerate(XYZ):
        table[name] = SPHERE[:n, axis].astype(np.float32)
    table["label"], table["hist"] = np.arange(n), np.arange(3 * n).reshape(n, 3)
    return table


@pytest.mark.parametrize("layout", ["ascii", "binary", "binary_compressed"])
def test_o08_pcd_keeps_every_row_and_every_field(tmp_path, layout):
    table = grid()
    for name in XYZ:
        table[name][3::7] = np.nan
    content = formats.read(put(tmp_path / "a.pcd", pcd(layout, table)))
    assert np.isnan(content.points[3::7]).all()
    assert len(content.points) == 20
    np.testing.assert_array_equal(content.points[:, 1], table["y"])
    np.testing.assert_array_equal(content.attributes["label"], table["label"])
    np.testing.assert_array_equal(content.attributes["hist"], table["hist"])
    assert content.attributes["label"].dtype == np.uint16


@pytest.mark.parametrize("layout", ["ascii", "binary", "binary_compressed"])
def test_o08_pcd_that_holds_less_than_it_says(tmp_path, layout):
    content = pcd(layout, grid())
    for wrong in (content[:-30], pcd(layout, grid(), points=24)):
        with pytest.raises(FileFormatError, match=r"declares \d+ .* but .* found"):
            formats.read(put(tmp_path / "a.pcd", wrong))


def test_o08_pcd_packed_runs_that_repeat(tmp_path):
    # one new byte, then a run of 7 + 3 + 2 that repeats it: LZF may overlap with what it writes
    assert cloud_formats._lzf(bytes([0, 65, 0b11100000, 3, 0]), 13) == b"A" * 13
    assert cloud_formats._lzf(bytes([1, 65, 66, 0b01000000, 1]), 6) == b"ABABAB"


def test_o09_text_in_every_dress(tmp_path):
    lines = [[repr(v) for v in row] for row in SPHERE.tolist()]
    dressed = {
        "names.csv": "name,label,x,y,z\n"
        + "\n".join(f"p {i},{i},{','.join(row)}" for i, row in enumerate(lines)),
        "quoted.csv": '"a, b","Z [m]","Y [m]","X [m]"\n'
        + "\n".join(f'"q, r",{z},{y},{x}' for x, y, z in lines),
        "comma.xyz": "\n".join(",".join(row) for row in lines),
        "tab.txt": "\n".join("\t".join(row) for row in lines),
        "mixed.xyz": "# x y z nx ny nz\n"
        + "\n".join("  {}   {}\t{} 1 0 0  ".format(*row) for row in lines),
        "crlf.asc": "\r\n".join(" ".join(row) for row in lines),
        "cloud_compare.asc": "//X Y Z R G B\n"
        + "\n".join(" ".join(row) + " 255 0 7" for row in lines),
        "decimal.csv": "x;y;z\n" + "\n".join(";".join(row).replace(".", ",") for row in lines),
        "paraview.csv": '"label","Points:0","Points:1","Points:2"\n'
        + "\n".join("1," + ",".join(row) for row in lines),
        "ends.csv": "\n".join(", ".join(row) + "," for row in lines),
    }
    found = {name: formats.read(put(tmp_path / name, text)) for name, text in dressed.items()}
    for name, shape in found.items():
        np.testing.assert_array_equal(shape.points, SPHERE, err_msg=name)
    assert found["names.csv"].attributes["name"][7] == "p 7"
    assert found["names.csv"].attributes["label"].dtype == np.int64
    assert list(found["mixed.xyz"].attributes) == ["nx", "ny", "nz"]
    assert found["mixed.xyz"].notes == ("6 columns: x y z nx ny nz",)
    assert list(found["cloud_compare.asc"].attributes) == ["R", "G", "B"]


def test_o09_what_cannot_be_told_is_refused(tmp_path):
    with pytest.raises(FileFormatError, match=r"\(name, a, b, c\) are called x, y and z; say"):
        formats.read(put(tmp_path / "a.csv", "name,a,b,c\np0,1,2,3\np1,4,5,6\n"))
    with pytest.raises(FileFormatError, match=r"expected 4 columns; point 1 .* in line 2"):
        formats.read(put(tmp_path / "a.xyz", "1 2 3 4\n1 2 3\n"))


def test_o10_pts_with_and_without_a_count(tmp_path):
    body = "\n".join(f"{row} {i - 9} 1 2 {i}" for i, row in enumerate(rows(SPHERE).split("\n")))
    floats = body.replace(" 1 2 ", ".5 1 2 ")
    for text in (f"40\n{body}\n", body, floats, f"40\n{body}\n2\n0 0 0 1 1 2 3\n1 1 1 1 1 2 3\n"):
        shape = formats.read(put(tmp_path / "a.pts", text))
        np.testing.assert_allclose(shape.points[:40], SPHERE, rtol=1e-5)
        assert list(shape.attributes) == ["intensity", "red", "green", "blue"]
        assert len(shape.points) == (42 if "\n2\n" in text else 40)
    with pytest.raises(FileFormatError, match="declares 50 points but 40 were found"):
        formats.read(put(tmp_path / "a.pts", f"50\n{body}\n"))


def test_o11_binary_stl_that_begins_with_solid(tmp_path):
    content = b"solid by a CAD tool".ljust(80) + struct.pack("<I", 4)
    for face in TETRAHEDRON[np.array(FACES)]:
        content += struct.pack("<12fH", 0, 0, 1, *face.ravel(), 0)
    shape = formats.read(put(tmp_path / "a.STL", content))
    assert shape.points.shape == (4, 3)
    assert shape.notes == ("12 corners became 4 points, numbered by first appearance",)
    np.testing.assert_array_equal(shape.points[shape.faces], TETRAHEDRON[np.array(FACES)])
    with pytest.raises(FileFormatError, match=r"declares 4 triangles but bytes for 3\.8"):
        formats.read(put(tmp_path / "a.stl", content[:-10]))


def glb(nodes, *, points=TETRAHEDRON, **more):
    body = points.astype("<f4").tobytes() + np.array(FACES, "<u4").tobytes()
    header = {
        "asset": {"version": "2.0"},
        "scene": 0,
        "scenes": [{"nodes": [0]}],
        "nodes": nodes,
        "meshes": [{"primitives": [{"attributes": {"POSITION": 0}, "indices": 1}]}],
        "accessors": [
            {"bufferView": 0, "componentType": 5126, "count": 4, "type": "VEC3",
             "min": [0, 0, 0], "max": [1, 2, 3.5]},
            {"bufferView": 1, "componentType": 5125, "count": 12, "type": "SCALAR"},
        ],
        "bufferViews": [
            {"buffer": 0, "byteOffset": 0, "byteLength": 48},
            {"buffer": 0, "byteOffset": 48, "byteLength": 48},
        ],
        "buffers": [{"byteLength": 96}],
        **more,
    }  # fmt: skip
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 4)
    chunks = struct.pack("<2I", len(text), 0x4E4F534A) + text
    chunks += struct.pack("<2I", len(body), 0x004E4942) + body
    return struct.pack("<4s2I", b"glTF", 2, 12 + len(chunks)) + chunks


def test_o12_glb_nodes_are_placed(tmp_path):
    nodes = [
        {"name": "root", "rotation": [-(0.5**0.5), 0, 0, 0.5**0.5], "children": [1, 2]},
        {"name": "torso", "mesh": 0, "scale": [2, 2, 2], "translation": [0, 0, 3]},
        {"name": "limb", "mesh": 0, "translation": [4, 0, 0]},
    ]
    shape = formats.read(put(tmp_path / "a.glb", glb(nodes)))
    flat = np.concatenate([TETRAHEDRON * 2 + [0, 0, 3], np.add(TETRAHEDRON, [4, 0, 0])])
    np.testing.assert_allclose(shape.points, flat[:, [0, 2, 1]] * [1, 1, -1], atol=1e-12)
    assert shape.faces.tolist() == FACES + (np.array(FACES) + 4).tolist()
    assert shape.notes == ("node 'torso': rows 0 to 3", "node 'limb': rows 4 to 7")
    with pytest.raises(FileFormatError, match=r"declares \d+ bytes but \d+ were found"):
        formats.read(put(tmp_path / "a.glb", glb(nodes)[:-8]))
    packed = glb(nodes, extensionsRequired=["KHR_draco_mesh_compression"])
    with pytest.raises(FileFormatError, match="compressed by KHR_draco"):
        formats.read(put(tmp_path / "a.glb", packed))


UTM = np.array([5e5, 5.4e6, 300])


def las(path, *, compressed=False):
    laspy = pytest.importorskip("laspy")
    header = laspy.LasHeader(point_format=2, version="1.2")
    header.scales, header.offsets = [0.001] * 3, UTM
    data = laspy.LasData(header)
    data.x, data.y, data.z = (SPHERE + UTM).T
    data.red = np.arange(40) * 1600
    data.write(str(path), do_compress=compressed)
    return path


def test_o13_las_is_scaled_and_keeps_16_bits(tmp_path):
    shape = formats.read(las(tmp_path / "a.las"))
    np.testing.assert_allclose(shape.points, SPHERE + UTM, atol=6e-4)
    np.testing.assert_array_equal(shape.attributes["red"], np.arange(40) * 1600)
    assert shape.attributes["red"].dtype == np.uint16
    (tmp_path / "a.las").rename(tmp_path / "b.laz")  # what a file is stands in its header
    np.testing.assert_array_equal(formats.read(tmp_path / "b.laz").points, shape.points)
    content = (tmp_path / "b.laz").read_bytes()
    with pytest.raises(FileFormatError, match="declares 40 points but 38 were found"):
        formats.read(put(tmp_path / "c.las", content[:-30]))


def test_o13_laz_with_and_without_its_decoder(tmp_path, monkeypatch):
    pytest.importorskip("lazrs")
    path = las(tmp_path / "a.laz", compressed=True)
    assert len(formats.read(path).points) == 40
    import laspy

    monkeypatch.setattr(laspy.LazBackend, "detect_available", classmethod(lambda cls: ()))
    with pytest.raises(MissingExtraError, match=r'LAZ.*pip install "coembed\[las\]"'):
        formats.read(path)
    monkeypatch.setitem(sys.modules, "laspy", None)
    with pytest.raises(MissingExtraError, match=r'a\.laz: .*pip install "coembed\[las\]"'):
        formats.read(path)


def vtk(*, binary=False, version="4.2"):
    def numbers(values, kind):
        values = np.asarray(values).ravel()
        if binary:
            return values.astype(np.dtype(kind).newbyteorder(">")).tobytes() + b"\n"
        return (" ".join(map(str, values.astype(kind).tolist())) + "\n").encode()

    kind = b"BINARY" if binary else b"ASCII"
    out = f"# vtk DataFile Version {version}\nmade by hand\n".encode() + kind
    out += b"\nDATASET POLYDATA\nPOINTS 4 float\n" + numbers(TETRAHEDRON, "f4")
    out += b"METADATA\nINFORMATION 0\n\n"
    if version == "5.1":
        out += b"POLYGONS 5 12\nOFFSETS vtktypeint64\n" + numbers(range(0, 13, 3), "i8")
        out += b"CONNECTIVITY vtktypeint64\n" + numbers(FACES, "i8")
    else:
        out += b"POLYGONS 4 16\n" + numbers([[3, *f] for f in FACES], "i4")
    out += b"CELL_DATA 4\nSCALARS area float\nLOOKUP_TABLE default\n" + numbers([9] * 4, "f4")
    out += b"POINT_DATA 4\nSCALARS thick float 1\nLOOKUP_TABLE default\n" + numbers([0.5] * 4, "f4")
    out += b"SCALARS region int\nLOOKUP_TABLE default\n" + numbers([1, 2, 3, 4], "i4")
    out += b"NORMALS n float\n" + numbers([[0, 0, 1]] * 4, "f4")
    return out + b"FIELD FieldData 1\nscore 1 4 double\n" + numbers([0.1] * 4, "f8")


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("version", ["4.2", "5.1"])
def test_o14_legacy_vtk(tmp_path, binary, version):
    shape = formats.read(put(tmp_path / "a.vtk", vtk(binary=binary, version=version)))
    is_tetrahedron(shape)
    assert {n: v.dtype.str for n, v in shape.attributes.items()} == {
        "thick": "<f4", "region": "<i4", "n": "<f4", "score": "<f8"
    }  # fmt: skip
    assert shape.attributes["region"].tolist() == [1, 2, 3, 4]
    assert shape.attributes["n"].shape == (4, 3)
    with pytest.raises(FileFormatError, match=r"declares \d+ numbers of score but \d+ were found"):
        formats.read(put(tmp_path / "a.vtk", vtk(binary=binary, version=version)[:-12]))


def test_o14_vtk_grids_strips_and_points_without_cells(tmp_path):
    head = "# vtk DataFile Version 3.0\nx\nASCII\n"
    points = f"POINTS 8 double\n{rows(CUBE)}\n"
    text = f"{head}DATASET UNSTRUCTURED_GRID\n{points}CELLS 4 17\n4 0 1 3 2\n4 4 5 6 7\n3 0 1 4\n"
    shape = formats.read(put(tmp_path / "a.vtk", text + "2 0 1\nCELL_TYPES 4\n9\n8\n5\n3\n"))
    assert shape.faces.tolist() == [[0, 1, 3], [0, 3, 2], [4, 5, 7], [4, 7, 6], [0, 1, 4]]
    text = f"{head}DATASET POLYDATA\n{points}TRIANGLE_STRIPS 1 5\n4 0 1 2 3\n"
    shape = formats.read(put(tmp_path / "a.vtk", text))
    assert shape.faces.tolist() == [[0, 1, 2], [2, 1, 3]]
    shape = formats.read(put(tmp_path / "a.vtk", f"{head}DATASET POLYDATA\n{points}"))
    assert shape.faces is None
    np.testing.assert_array_equal(shape.points, CUBE)
    with pytest.raises(FileFormatError, match="holds STRUCTURED_POINTS; expected one of POLYDATA"):
        formats.read(put(tmp_path / "a.vtk", f"{head}DATASET STRUCTURED_POINTS\n"))


def vtp(layout, *, packed=False, header="UInt32"):
    size, appended, arrays = {"UInt32": "<u4", "UInt64": "<u8"}[header], [], {}
    given = {
        "points": (TETRAHEDRON, "Float64", 3), "connectivity": (FACES, "Int32", 1),
        "offsets": ([3, 6, 9, 12], "Int64", 1), "label": ([5, 6, 7, 8], "UInt8", 1),
    }  # fmt: skip
    kinds = {"Float64": "<f8", "Int32": "<i4", "Int64": "<i8", "UInt8": "<u1"}
    for name, (values, kind, width) in given.items():
        raw = np.asarray(values).astype(kinds[kind]).tobytes()
        if packed:
            body = zlib.compress(raw)
            head = np.array([1, len(raw), 0, len(body)], size).tobytes()
        else:
            head, body = np.array([len(raw)], size).tobytes(), raw
        text, offset = "", sum(map(len, appended))
        if layout == "ascii":
            text = " ".join(map(str, np.ravel(values).tolist()))
        elif layout == "binary":
            pair = (head, body) if packed else (head + body, b"")
            text = "".join(base64.b64encode(part).decode() for part in pair)
        else:
            appended.append(head + body)
        arrays[name] = (
            f'<DataArray type="{kind}" Name="{name}" NumberOfComponents="{width}" '
            f'format="{layout}" offset="{offset}">{text}</DataArray>'
        )
    compressor = ' compressor="vtkZLibDataCompressor"' if packed else ""
    text = (
        f'<?xml version="1.0"?>\n<VTKFile type="PolyData" byte_order="LittleEndian" '
        f'header_type="{header}"{compressor}><PolyData>'
        f'<Piece NumberOfPoints="4" NumberOfPolys="4"><PointData>{arrays["label"]}</PointData>'
        f"<Points>{arrays['points']}</Points>"
        f"<Polys>{arrays['connectivity']}{arrays['offsets']}</Polys></Piece></PolyData>"
    ).encode()
    if appended:
        raw = b"".join(appended)
        text += b'<AppendedData encoding="raw">_' + raw + b"</AppendedData>"
    return text + b"</VTKFile>"


@pytest.mark.parametrize("layout", ["ascii", "binary", "appended"])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("header", ["UInt32", "UInt64"])
def test_o14_xml_polydata(tmp_path, layout, packed, header):
    content = vtp(layout, packed=packed, header=header)
    shape = formats.read(put(tmp_path / "a.vtp", content))
    is_tetrahedron(shape)
    assert shape.attributes["label"].tolist() == [5, 6, 7, 8]
    assert shape.attributes["label"].dtype == np.uint8
    with pytest.raises(FileFormatError):
        formats.read(put(tmp_path / "a.vtp", content[: len(content) // 2]))
    wrong = content.replace(b'NumberOfPoints="4"', b'NumberOfPoints="5"')
    with pytest.raises(FileFormatError, match="declares 15 numbers of 'points' but 12 were found"):
        formats.read(put(tmp_path / "a.vtp", wrong))


def test_o14_xml_unstructured_grid(tmp_path):
    text = (
        '<VTKFile type="UnstructuredGrid"><UnstructuredGrid>'
        + 2 * (
            '<Piece NumberOfPoints="8" NumberOfCells="2"><Points>'
            f'<DataArray type="Float32" NumberOfComponents="3">{rows(CUBE)}</DataArray></Points>'
            '<Cells><DataArray type="Int64" Name="connectivity">0 1 3 2 0 1 4</DataArray>'
            '<DataArray type="Int64" Name="offsets">4 7</DataArray>'
            '<DataArray type="UInt8" Name="types">9 5</DataArray></Cells></Piece>'
        )
        + "</UnstructuredGrid></VTKFile>"
    )  # fmt: skip
    shape = formats.read(put(tmp_path / "a.vtu", text))
    np.testing.assert_array_equal(shape.points, np.concatenate([CUBE, CUBE]))
    faces = np.array([[0, 1, 3], [0, 3, 2], [0, 1, 4]])
    assert shape.faces.tolist() == [*faces.tolist(), *(faces + 8).tolist()]


def test_o15_arrays_of_many_shapes(tmp_path):
    def read_array(array, **how):
        np.save(tmp_path / "a.npy", array, **how)
        return formats.read(tmp_path / "a.npy")

    shape = read_array(SPHERE.T)
    np.testing.assert_array_equal(shape.points, SPHERE)
    assert shape.notes == ("the array is (3, 40), read as 40 points by columns",)
    np.testing.assert_array_equal(read_array(SPHERE[None]).points, SPHERE)
    np.testing.assert_array_equal(read_array(SPHERE[:3]).points, SPHERE[:3])  # rows are points
    normals = (SPHERE / np.linalg.norm(SPHERE, axis=1, keepdims=True)).astype(np.float32)
    shape = read_array(np.concatenate([SPHERE.astype(np.float32), normals], axis=1))
    assert list(shape.attributes) == ["nx", "ny", "nz"]
    assert shape.attributes["nx"].dtype == np.float32
    half = read_array(SPHERE.astype(np.float16))
    np.testing.assert_array_equal(half.points, SPHERE.astype(np.float16).astype(float))
    fields = np.zeros(40, [("intensity", "u2"), ("z", "f4"), ("x", "f8"), ("y", "f8")])
    fields["x"] = SPHERE[:, 0]
    shape = read_array(fields)
    np.testing.assert_array_equal(shape.points[:, 0], SPHERE[:, 0])
    assert shape.attributes["intensity"].dtype == np.uint16
    for wrong in (SPHERE[:, :2], SPHERE.astype(complex), np.zeros((5, 40)), np.zeros((2, 9, 3))):
        with pytest.raises(FileFormatError, match=r"shape \(n, 3\)"):
            read_array(wrong)
    with pytest.raises(FileFormatError, match=r"Python objects .pickle., which are never run"):
        read_array(SPHERE.astype(object), allow_pickle=True)


def test_o15_archives_by_conventional_names(tmp_path):
    path = tmp_path / "a.npz"
    for name in ("points", "vertices", "xyz", "V"):
        np.savez(path, **{name: TETRAHEDRON}, faces=np.array(FACES), label=np.arange(4))
        shape = formats.read(path)
        is_tetrahedron(shape)
        assert shape.attributes["label"].tolist() == [0, 1, 2, 3]
    np.savez(path, a=TETRAHEDRON, b=TETRAHEDRON)
    with pytest.raises(FileFormatError, match=r"got a 4x3, b 4x3; say which one"):
        formats.read(path)
    is_tetrahedron(formats.read(f"{path}#b"), faces=False)
    with pytest.raises(FileFormatError, match=r"expected one array named 'c'; got a 4x3, b 4x3"):
        formats.read(f"{path}#c")


def test_o16_matlab_files_count_from_one(tmp_path):
    from scipy.io import savemat

    faces = np.array(FACES) + 1
    columns = dict(zip("XYZ", TETRAHEDRON.T[:, :, None], strict=True))
    for content in (
        {"surface": {**columns, "TRIV": faces}},
        {"VERT": TETRAHEDRON, "TRIV": faces.astype(float), "n": 4, "label": np.arange(4)},
        {"M": {"VERT": TETRAHEDRON, "TRIV": faces}, "other": 1},
    ):
        savemat(tmp_path / "a.mat", content)
        shape = formats.read(tmp_path / "a.mat")
        is_tetrahedron(shape)
        assert shape.notes == ("triangles count points from 1 in the file, from 0 here",)
    savemat(tmp_path / "a.mat", {"a": {"VERT": TETRAHEDRON}, "b": {"VERT": TETRAHEDRON}})
    with pytest.raises(FileFormatError, match="several: 'a' and 'b'"):
        formats.read(tmp_path / "a.mat")
    savemat(tmp_path / "a.mat", {"D": np.zeros((4, 4))})
    with pytest.raises(FileFormatError, match=r"expected VERT .*; got the variables D"):
        formats.read(tmp_path / "a.mat")


def mat_73(path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w", userblock_size=512) as file:
        file["surface/VERT"] = TETRAHEDRON.T  # as MATLAB does: its columns are our rows
        file["surface/TRIV"] = np.array(FACES, float).T + 1
    content = path.read_bytes()
    return put(path, b"MATLAB 7.3 MAT-file, Platform: any".ljust(512) + content[512:])


def test_o16_matlab_73(tmp_path, monkeypatch):
    path = mat_73(tmp_path / "a.mat")
    is_tetrahedron(formats.read(path))
    stub = put(tmp_path / "b.mat", b"MATLAB 7.3 MAT-file".ljust(600))
    with pytest.raises(FileFormatError, match=r"MATLAB 7\.3 \(HDF5\).*save it again with save"):
        formats.read(stub)
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(MissingExtraError, match=r'7\.3.*-v7.*pip install "coembed\[mat\]"'):
        formats.read(stub)


def test_o17_odd_paths(tmp_path):
    folder = tmp_path / "dossier é" / "点云 [v 1] #%"
    folder.mkdir(parents=True)
    path = folder / "ş (v 1) 'a'.PLY"
    formats.write(path, Shape(TETRAHEDRON, np.array(FACES)))
    is_tetrahedron(formats.read(path))
    is_tetrahedron(formats.read(put(folder / "ü.Obj", OBJ_POINTS)), faces=False)
    is_tetrahedron(formats.read(put(folder / "ü.GLB", glb([{"mesh": 0}]))))
    assert len(formats.read(las(folder / "ü.las")).points) == 40


# -------------------------------------------------------------------------------- attributes


def test_attributes_come_back_with_names_and_dtypes(tmp_path):
    given = {
        "nx": np.arange(4, dtype=np.float32), "red": np.arange(4, dtype=np.uint8),
        "label": np.arange(4, dtype=np.int32), "time": np.arange(4) / 3,
        "id": np.arange(4, dtype=np.int16),
    }  # fmt: skip
    formats.write(tmp_path / "a.ply", Shape(TETRAHEDRON, attributes=given))
    again = formats.read(tmp_path / "a.ply")
    is_tetrahedron(again, faces=False)
    assert list(again.attributes) == list(given)
    for name, values in given.items():
        np.testing.assert_array_equal(again.attributes[name], values)
        assert again.attributes[name].dtype == values.dtype


def test_attributes_that_ply_cannot_hold_as_they_are(tmp_path, caplog):
    given = {
        "big": np.arange(4) + 2**40, "small": np.arange(4), "half": np.ones(4, np.float16),
        "two words": np.ones((4, 2)), "name": np.array(list("abcd")), "yes": np.ones(4, bool),
    }  # fmt: skip
    formats.write(tmp_path / "a.ply", Shape(TETRAHEDRON, attributes=given))
    again = formats.read(tmp_path / "a.ply").attributes
    assert {n: v.dtype.str for n, v in again.items()} == {
        "big": "<f8", "small": "<i4", "half": "<f4", "two_words_0": "<f8", "two_words_1": "<f8",
        "yes": "|u1",
    }  # fmt: skip
    np.testing.assert_array_equal(again["big"], given["big"])
    assert "cannot hold the attribute 'name'" in caplog.text


def test_npz_keeps_every_attribute_as_it_is(tmp_path, caplog):
    attributes = {
        "tissue": np.array(["bone", "skin", "bone", ""]),
        "big": np.array([2**60 + 1, 0, -1, 5]),
        "half": np.arange(4, dtype=np.float16),
        "flag": np.array([True, False, True, True]),
        "vec": np.ones((4, 3), dtype=np.float32),
        "xyz": np.zeros(4),
    }
    path = tmp_path / "a.npz"
    formats.write(path, Shape(TETRAHEDRON, np.array(FACES), attributes=attributes))
    assert "'xyz' would be taken for points" in caplog.text
    again = formats.read(path)
    is_tetrahedron(again)
    for name, values in list(attributes.items())[:3]:
        np.testing.assert_array_equal(again.attributes[name], values)
        assert again.attributes[name].dtype == values.dtype
    np.testing.assert_array_equal(again.attributes["vec"], attributes["vec"])
    before = path.read_bytes()
    formats.write(path, Shape(TETRAHEDRON, np.array(FACES), attributes=attributes), force=True)
    assert path.read_bytes() == before


def test_unsigned_labels_with_rows_that_have_none_stay_whole_numbers(tmp_path):
    labels = np.array([0, 1000, 2**64 - 1, 7], dtype=np.uint64)
    formats.write(tmp_path / "a.ply", Shape(TETRAHEDRON, attributes={"label": labels}))
    found = formats.read(tmp_path / "a.ply").attributes["label"]
    assert found.dtype == np.uint32
    assert found.tolist() == [0, 1000, 2**32 - 1, 7]


def test_attributes_need_one_row_per_point():
    with pytest.raises(InputError, match="attribute 'a' must have one row for each of the 4"):
        Shape(TETRAHEDRON, attributes={"a": np.ones(3)})


# ----------------------------------------------------------------------- parts and cut files


def test_o12_nodes_are_chosen_by_name_with_what_hangs_below(tmp_path):
    nodes = [
        {"name": "root", "children": [1, 2]},
        {"name": "torso", "mesh": 0, "children": [3]},
        {"name": "limb, left", "mesh": 0, "translation": [4, 0, 0]},
        {"name": "head", "mesh": 0, "translation": [0, 9, 0]},
    ]
    path = put(tmp_path / "a.glb", glb(nodes))
    found = formats.read(f"{path}#torso")
    np.testing.assert_allclose(found.points, [*TETRAHEDRON, *np.add(TETRAHEDRON, [0, 9, 0])])
    assert found.faces.tolist() == FACES + (np.array(FACES) + 4).tolist()
    assert found.notes == (
        "node 'torso': rows 0 to 3", "node 'head': rows 4 to 7", "nodes left out: limb, left",
    )  # fmt: skip
    assert found.name == f"{path}#torso"
    np.testing.assert_allclose(
        formats.read(f"{path}#limb, left").points, np.add(TETRAHEDRON, [4, 0, 0])
    )
    assert len(formats.read(f"{path}#head,torso").points) == 8
    assert len(formats.read(f"{path}#root").points) == 12
    with pytest.raises(FileFormatError, match="has no node 'tail' with points; choose among torso"):
        formats.read(f"{path}#tail")


def gltf(folder, **more):
    """The text kind of `glb`, with its data in a file whose name has a blank."""
    content = glb([{"mesh": 0}], **more)
    size = struct.unpack_from("<I", content, 12)[0]
    header = json.loads(content[20 : 20 + size])
    (folder / "a b.bin").write_bytes(content[28 + size :])
    header["buffers"][0]["uri"] = "a%20b.bin"
    return put(folder / "a.gltf", json.dumps(header))


def test_o12_gltf_with_its_data_beside_it(tmp_path):
    path = gltf(tmp_path)
    is_tetrahedron(formats.read(path))
    before = files.digest_of(path)
    data = tmp_path / "a b.bin"
    data.write_bytes(data.read_bytes()[:-4] + b"\0\0\0\0")
    assert files.digest_of(path) != before
    data.unlink()
    with pytest.raises(FileFormatError, match=r"its points are in a%20b\.bin, which is not beside"):
        formats.read(path)


def test_o12_scenes_are_read_in_the_order_of_the_file_and_told_alike_every_time(tmp_path):
    """Meshes of several parts, nodes without names or of one name: the library names these anew."""
    part = {"attributes": {"POSITION": 0}, "indices": 1}
    nodes = [
        {"name": "x", "children": [1, 2, 3]},
        {"name": "x", "mesh": 0},
        {"mesh": 1, "translation": [9, 0, 0]},
        {"name": "x", "mesh": 0, "translation": [0, 9, 0]},
    ]
    meshes = [{"name": "m", "primitives": [part]}, {"primitives": [part, part]}]
    path = put(tmp_path / "a.glb", glb(nodes, meshes=meshes))
    found = formats.read(path)
    moved = [np.add(TETRAHEDRON, by) for by in ([0, 0, 0], [9, 0, 0], [9, 0, 0], [0, 9, 0])]
    np.testing.assert_allclose(found.points, np.concatenate(moved))
    assert found.notes == (
        "node 'x (1)': rows 0 to 3", "node '2': rows 4 to 11", "node 'x (3)': rows 12 to 15",
    )  # fmt: skip
    assert formats.read(path).notes == found.notes
    np.testing.assert_allclose(formats.read(f"{path}#x (3)").points, moved[3])
    np.testing.assert_allclose(formats.read(f"{path}#2").points, np.concatenate(moved[1:3]))
    assert len(formats.read(f"{path}#m").points) == 8
    assert len(formats.read(f"{path}#x").points) == 16


def test_o12_clouds_in_gltf(tmp_path):
    cloud = [{"primitives": [{"attributes": {"POSITION": 0}, "mode": 0}]}]
    found = formats.read(put(tmp_path / "a.glb", glb([{"mesh": 0}], meshes=cloud)))
    is_tetrahedron(found, faces=False)


def test_o09_columns_are_chosen_by_number_or_name(tmp_path):
    table = np.column_stack([np.arange(40), SPHERE + 1, np.arange(40) % 3])
    body = "\n".join(" ".join(map(str, row)) for row in table) + "\n"
    numbered = put(tmp_path / "a.xyz", body.replace(".0 ", " "))
    with pytest.raises(FileFormatError, match=r"the first of its 5 columns counts .* a\.xyz#2,3,4"):
        formats.read(numbered)
    found = formats.read(f"{numbered}#2,3,4")
    np.testing.assert_array_equal(found.points, SPHERE + 1)
    assert found.notes == ("5 columns: column1 x y z column5",)
    np.testing.assert_array_equal(formats.read(f"{numbered}#4,3,2").points, (SPHERE + 1)[:, ::-1])
    head = "id;Rechts [m];Hoch [m];H;class\n"
    named = put(tmp_path / "a.csv", head + body.replace(" ", ";"))
    with pytest.raises(FileFormatError, match=r"none of its 5 columns \(id, Rechts .* called x, y"):
        formats.read(named)
    for choice in ("rechts,hoch,h", "2,hoch,H", "2, 3, 4"):
        found = formats.read(f"{named}#{choice}")
        np.testing.assert_array_equal(found.points, SPHERE + 1)
        assert list(found.attributes) == ["id", "class"]
    for wrong in ("2,3", "2,3,9", "2,3,3", "a,b,c", "0,1,2"):
        with pytest.raises(FileFormatError, match="expected three of the 5 columns"):
            formats.read(f"{named}#{wrong}")


def test_o09_text_in_other_encodings_and_numbers(tmp_path):
    head, body = "Höhe,x,y,z\n", "\n".join(f"1,{x},{y},{z}" for x, y, z in SPHERE) + "\n"
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "cp1252"):
        found = formats.read(put(tmp_path / "a.csv", (head + body).encode(encoding)))
        np.testing.assert_array_equal(found.points, SPHERE)
        assert list(found.attributes) == ["Höhe"]
    fortran = "\n".join(" ".join(f"{v:.17E}".replace("E", "D") for v in row) for row in SPHERE)
    np.testing.assert_array_equal(
        formats.read(put(tmp_path / "a.xyz", fortran + "\n")).points, SPHERE
    )


def test_o02_coordinates_in_capitals(tmp_path):
    text = "ply\nformat ascii 1.0\nelement vertex 4\n" + PLY_XYZ.replace(" x", " X").replace(
        " y", " Y"
    ).replace(" z", " Z")
    found = formats.read(put(tmp_path / "a.ply", f"{text}end_header\n{rows(TETRAHEDRON)}\n"))
    is_tetrahedron(found, faces=False)
    assert not found.attributes
    content = pcd("ascii", grid()).replace(b" x y z", b" X Y Z")
    assert b" X Y Z" in content
    assert len(formats.read(put(tmp_path / "a.pcd", content)).points) == len(grid())


def test_o11_stl_in_capitals_and_padded(tmp_path):
    import trimesh

    mesh = trimesh.Trimesh(TETRAHEDRON, FACES, process=False)
    text = mesh.export(file_type="stl_ascii").upper()
    assert len(formats.read(put(tmp_path / "a.stl", text)).points) == 4
    padded = mesh.export(file_type="stl") + b"\0\0"
    assert len(formats.read(put(tmp_path / "b.stl", padded)).points) == 4
    with pytest.raises(FileFormatError, match="declares 4 triangles"):
        formats.read(put(tmp_path / "c.stl", padded + b"x"))


def test_o15_faces_kept_as_decimals_or_counted_from_one(tmp_path):
    np.savez(tmp_path / "a.npz", vertices=TETRAHEDRON, faces=np.array(FACES, dtype=float))
    is_tetrahedron(formats.read(tmp_path / "a.npz"))
    np.savez(tmp_path / "a.npz", vertices=TETRAHEDRON, faces=np.array(FACES) + 1)
    with pytest.raises(InputError, match="found 1 to 4; they count from 1"):
        formats.read(tmp_path / "a.npz")


@pytest.mark.parametrize(
    "head", ["Easting,Northing,Height,id", "X [mm],Y [mm],Z [mm],id", "coord_x,coord_y,coord_z,id"]
)
def test_o09_coordinates_by_other_names(tmp_path, head):
    body = "\n".join(f"{x},{y},{z},5" for x, y, z in SPHERE)
    found = formats.read(put(tmp_path / "a.csv", f"{head}\n{body}\n"))
    np.testing.assert_array_equal(found.points, SPHERE)
    assert found.attributes["id"].tolist() == [5] * 40


def test_o16_variables_and_structs_are_chosen_by_name(tmp_path):
    from scipy.io import savemat

    faces = np.array(FACES) + 1
    content = {"left": {"VERT": TETRAHEDRON, "TRIV": faces}, "right": {"VERT": TETRAHEDRON * 2}}
    savemat(tmp_path / "a.mat", {**content, "cloud": SPHERE})
    with pytest.raises(FileFormatError, match=r"several: 'left' and 'right'; .* a\.mat#NAME"):
        formats.read(tmp_path / "a.mat")
    is_tetrahedron(formats.read(tmp_path / "a.mat#left"))
    np.testing.assert_array_equal(formats.read(tmp_path / "a.mat#right").points, TETRAHEDRON * 2)
    np.testing.assert_array_equal(formats.read(tmp_path / "a.mat#cloud").points, SPHERE)
    with pytest.raises(FileFormatError, match="expected VERT"):
        formats.read(tmp_path / "a.mat#middle")


def test_a_mark_in_a_name_is_part_of_the_name_where_there_is_such_a_file(tmp_path):
    is_tetrahedron(formats.read(put(tmp_path / "scan#3.obj", OBJ_POINTS)), faces=False)
    put(tmp_path / "scan.obj", OBJ_POINTS)
    with pytest.raises(FileFormatError, match="nothing to choose from in OBJ files"):
        formats.read(tmp_path / "scan.obj#3")
    with pytest.raises(FileFormatError, match=r"none\.csv: no such file"):
        formats.read(tmp_path / "none.csv#1,2,3")


def test_o04_whole_rows_of_a_cut_file_on_request(tmp_path, valid):
    """Wherever the file is cut: the rows that are read are its first ones, and that is told."""
    read = set()
    for name, content in valid.items():
        path = tmp_path / name
        whole = formats.read(put(path, content)).points
        pieces = 40 if path.suffix in formats.CUT else 3
        for end in range(1, len(content) - 1, max(1, len(content) // pieces)):
            put(path, content[:end])
            try:
                formats.read(path)
                plain = True  # a text without counts, or cut in its last number
            except CoembedError:
                plain = False
            try:
                found = formats.read(path, incomplete=True)
            except CoembedError as error:
                whole_only = "cannot be read in part" in str(error)
                found = None
            if found is None:
                assert whole_only == (path.suffix not in formats.CUT)
                continue
            n = len(found.points)
            assert 0 < n <= len(whole)
            sure = n - plain  # nobody can see that only the very last number is cut
            np.testing.assert_array_equal(found.points[:sure], whole[:sure])
            assert found.faces is None or found.faces.max() < n
            assert all(len(values) == n for values in found.attributes.values())
            assert plain or any("cut off" in note or "left out" in note for note in found.notes)
            read.add(path.suffix)
        found = formats.read(put(path, content), incomplete=True)
        n = len(found.points)  # a last line that has no end may be cut
        np.testing.assert_array_equal(found.points, whole[:n])
        assert n == len(whole) or (n == len(whole) - 1 and not content.endswith(b"\n"))
    assert read | {".txt", ".asc"} == set(formats.CUT)


def test_o04_what_is_there_of_a_cut_file_is_told(tmp_path):
    head = f"ply\nformat ascii 1.0\nelement vertex 6\n{PLY_XYZ}property uchar red\n"
    head += "element face 2\nproperty list uchar int vertex_indices\nend_header\n"
    path = put(tmp_path / "a.ply", f"{head}0 0 0 1\n1 0 0 2\n0 1 0 3\n0 0 1")
    found = formats.read(path, incomplete=True)
    assert found.notes == (
        "the file is cut off: of 6 rows of element 'vertex' 3 are there and are used",
    )
    assert found.attributes["red"].tolist() == [1, 2, 3]
    put(path, f"{head}0 0 0 1\n1 0 x 2\n0 1 0 3\n0 0 1 4\n0 0 2 5\n")
    with pytest.raises(FileFormatError, match=r"but 1 .malformed input. were found"):
        formats.read(path, incomplete=True)  # damaged, not cut
    put(path, f"{head}0 0 0 1\n1 0 0 2\n0 1 0 3\n0 0 1 4\n0 0 2 5\n0 0 3 6\n3 0 1 2\n3 0")
    found = formats.read(path, incomplete=True)
    assert found.faces.tolist() == [[0, 1, 2]]
    assert len(found.points) == 6
    put(tmp_path / "a.obj", f"{OBJ_POINTS}\nf 1 2 3\nf 2 3 4\nf 2 3 5\nf 1 2")
    found = formats.read(tmp_path / "a.obj", incomplete=True)
    assert found.faces.tolist() == [[0, 1, 2], [1, 2, 3]]
    assert found.notes == (
        "the last line has no end and is left out: 'f 1 2'",
        "1 faces of points that are cut off are left out",
    )


# ----------------------------------------------------------------------------------- fuzzing


def valid_files(folder):
    """A small valid file of each format, by name."""
    from scipy.io import savemat

    formats.write(folder / "a.ply", Shape(TETRAHEDRON, np.array(FACES)), force=True)
    np.save(folder / "a.npy", SPHERE)
    np.savez(folder / "a.npz", points=TETRAHEDRON, faces=np.array(FACES))
    savemat(folder / "a.mat", {"S": {"VERT": TETRAHEDRON, "TRIV": np.array(FACES) + 1}})
    las(folder / "a.las")
    made = {path.name: path.read_bytes() for path in sorted(folder.glob("a.*"))}
    body = rows(SPHERE)
    return made | {
        "b.ply": f"ply\nformat ascii 1.0\nelement vertex 4\n{PLY_XYZ}end_header\n"
        f"{rows(TETRAHEDRON)}\n".encode(),
        "a.off": f"OFF\n4 4 6\n{rows(TETRAHEDRON)}\n{OFF_FACES}\n".encode(),
        "a.obj": f"{OBJ_POINTS}\nvn 0 0 1\nf 1//1 2//1 3//1 \\\n 4//1\nf -1 -2 -3\n".encode(),
        "a.stl": b"solid".ljust(80) + struct.pack("<I", 1) + struct.pack("<12fH", *range(12), 0),
        "b.stl": b"solid a\nfacet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 0 0\n"
        b"vertex 0 1 0\nendloop\nendfacet\nendsolid a\n",
        "a.xyz": body.encode(),
        "a.csv": b"name,x,y,z\n" + b"\n".join(b"p,%d,2,3" % i for i in range(9)),
        "a.pts": b"40\n" + body.encode(),
        "a.pcd": pcd("ascii", grid()),
        "b.pcd": pcd("binary", grid()),
        "c.pcd": pcd("binary_compressed", grid()),
        "a.vtk": vtk(),
        "b.vtk": vtk(binary=True, version="5.1"),
        "a.vtp": vtp("binary", packed=True),
        "b.vtp": vtp("appended"),
        "a.glb": glb([{"mesh": 0, "scale": [2, 2, 2]}]),
    }


@pytest.fixture(scope="module")
def valid(tmp_path_factory):
    return valid_files(tmp_path_factory.mktemp("valid"))


def loads_or_refuses(path):
    """A shape with as many rows in everything, or one line from coembed; never anything else."""
    message = None
    try:
        shape = formats.read(path)
    except CoembedError as error:
        message = str(error)
    if message is not None:
        assert "\n" not in message
        assert path.name in message
        return
    assert len(shape.points) > 0
    assert all(len(values) == len(shape.points) for values in shape.attributes.values())


@pytest.mark.parametrize("ending", sorted(formats.READERS))
@FEW
@given(content=st.binary(min_size=1, max_size=400))
def test_random_bytes_load_or_are_refused(tmp_path, ending, content):
    loads_or_refuses(put(tmp_path / f"a{ending}", content))


NUMBERS = [b"0", b"-1", b"7", b"99999999999", b"1e308", b"nan", b"x", b"", b"\xff\xff\xff\xff"]


@st.composite
def mutated(draw, content):
    """Content with a few bytes changed, cut, repeated or replaced."""
    out = bytearray(content)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(len(out) - 1, 0)))
        length = draw(st.integers(1, 12))
        kind = draw(st.sampled_from(["byte", "number", "cut", "drop", "repeat"]))
        if kind == "byte" and out:
            out[at] = draw(st.integers(0, 255))
        elif kind == "number":
            out[at : at + length] = draw(st.sampled_from(NUMBERS))
        elif kind == "cut":
            del out[at:]
        elif kind == "drop":
            del out[at : at + length]
        else:
            out[at:at] = out[at : at + length]
    return bytes(out)


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_mutated_files_load_or_are_refused(tmp_path, valid, data):
    name = data.draw(st.sampled_from(sorted(valid)))
    loads_or_refuses(put(tmp_path / name, data.draw(mutated(valid[name]))))


def test_the_files_to_be_mutated_are_valid(tmp_path, valid):
    for name, content in valid.items():
        assert len(formats.read(put(tmp_path / name, content)).points) >= 3
    endings = {Path(name).suffix for name in valid}
    assert endings | {".txt", ".asc", ".laz", ".vtu", ".gltf"} == set(formats.READERS)
