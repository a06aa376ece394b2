import os
import struct

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from coembed import formats
from coembed.errors import FileFormatError, InputError
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


def test_rows_that_are_not_finite_are_counted(tmp_path):
    with pytest.raises(InputError, match=r"1 of 3 rows are not \(first: row 1"):
        formats.read(put(tmp_path / "a.xyz", "0 1 2\nnan 0 0\n1 1 1\n"))


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
