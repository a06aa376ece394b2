import json
import os
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from coembed import files, matching
from coembed.errors import FileFormatError, InputError
from coembed.shapes import Correspondence, Shape

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
    is_tetrahedron(files.read(put(tmp_path / "a.off", text)))


def test_off_without_faces(tmp_path):
    shape = files.read(put(tmp_path / "a.off", f"OFF\n4 0 0\n{rows(TETRAHEDRON)}\n"))
    is_tetrahedron(shape, faces=False)


def test_off_polygons_become_triangles(tmp_path):
    text = f"OFF\n8 2 0\n{rows(CUBE)}\n4 0 1 3 2\n5 0 1 5 7 6\n"
    shape = files.read(put(tmp_path / "a.off", text))
    assert shape.faces.tolist() == [[0, 1, 3], [0, 3, 2], [0, 1, 5], [0, 5, 7], [0, 7, 6]]


def test_off_cut_off(tmp_path):
    text = f"OFF\n4 4 6\n{rows(TETRAHEDRON)}\n3 0 2 1\n"
    with pytest.raises(FileFormatError, match=r"expected 4 points and 4 faces; got 5 lines.*cut"):
        files.read(put(tmp_path / "a.off", text))


@pytest.mark.parametrize("text", ["hello\nworld\n", "OFF\nfour four\n", "XOFF\n1 0 0\n0 0 0\n"])
def test_not_an_off_file(tmp_path, text):
    with pytest.raises(FileFormatError, match="not a readable OFF file"):
        files.read(put(tmp_path / "a.off", text))


def test_off_with_a_word_for_a_number(tmp_path):
    with pytest.raises(FileFormatError, match="not a readable OFF file"):
        files.read(put(tmp_path / "a.off", "OFF\n2 0 0\n0 0 0\n0 x 0\n"))


def test_ply_ascii(tmp_path):
    text = (
        f"ply\nformat ascii 1.0\ncomment by hand\nelement vertex 4\n{PLY_XYZ}"
        "element face 4\nproperty list uchar int vertex_indices\nend_header\n"
        f"{rows(TETRAHEDRON)}\n{OFF_FACES}\n"
    )
    is_tetrahedron(files.read(put(tmp_path / "a.ply", text)))


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
    is_tetrahedron(files.read(put(tmp_path / "a.ply", header.encode() + body)))


def test_ply_points_only(tmp_path):
    text = f"ply\nformat ascii 1.0\nelement vertex 4\n{PLY_XYZ}end_header\n{rows(TETRAHEDRON)}\n"
    is_tetrahedron(files.read(put(tmp_path / "a.ply", text)), faces=False)


def test_ply_with_no_faces_in_its_face_element(tmp_path):
    text = (
        f"ply\nformat ascii 1.0\nelement vertex 4\n{PLY_XYZ}"
        "element face 0\nproperty list uchar int vertex_indices\nend_header\n"
        f"{rows(TETRAHEDRON)}\n"
    )
    is_tetrahedron(files.read(put(tmp_path / "a.ply", text)), faces=False)


def test_ply_quads_and_triangles_mixed(tmp_path):
    text = (
        f"ply\nformat ascii 1.0\nelement vertex 8\n{PLY_XYZ}"
        "element face 2\nproperty list uchar uint vertex_indices\nend_header\n"
        f"{rows(CUBE)}\n4 0 1 3 2\n3 0 1 5\n"
    )
    shape = files.read(put(tmp_path / "a.ply", text))
    assert shape.faces.tolist() == [[0, 1, 3], [0, 3, 2], [0, 1, 5]]


def test_ply_cut_off(tmp_path):
    text = f"ply\nformat ascii 1.0\nelement vertex 9\n{PLY_XYZ}end_header\n{rows(TETRAHEDRON)}\n"
    with pytest.raises(FileFormatError, match=r"a\.ply: not a readable PLY file \(.+\)"):
        files.read(put(tmp_path / "a.ply", text))


def test_ply_binary_cut_off(tmp_path):
    files.write(tmp_path / "a.ply", Shape(CUBE))
    content = (tmp_path / "a.ply").read_bytes()
    with pytest.raises(FileFormatError, match="not a readable PLY file"):
        files.read(put(tmp_path / "b.ply", content[:-10]))


def test_ply_without_vertices_or_coordinates(tmp_path):
    none = "ply\nformat ascii 1.0\nelement thing 1\nproperty float x\nend_header\n1\n"
    with pytest.raises(FileFormatError, match="has no element 'vertex'"):
        files.read(put(tmp_path / "a.ply", none))
    flat = (
        "ply\nformat ascii 1.0\nelement vertex 1\nproperty float x\nproperty float y\n"
        "end_header\n1 2\n"
    )
    with pytest.raises(FileFormatError, match="vertices need x, y and z; got x, y"):
        files.read(put(tmp_path / "b.ply", flat))


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
    is_tetrahedron(files.read(put(tmp_path / "a.obj", text)))


def test_obj_points_only(tmp_path):
    is_tetrahedron(files.read(put(tmp_path / "a.obj", OBJ_POINTS + "\n")), faces=False)


def test_obj_keeps_points_that_no_face_names(tmp_path):
    shape = files.read(put(tmp_path / "a.obj", OBJ_POINTS + "\nf 2 3 4\n"))
    np.testing.assert_array_equal(shape.points, TETRAHEDRON)
    assert shape.faces.tolist() == [[1, 2, 3]]


def test_obj_quads_become_triangles(tmp_path):
    points = "\n".join("v " + row for row in rows(CUBE).split("\n"))
    shape = files.read(put(tmp_path / "a.obj", f"{points}\nf 1 2 4 3\n"))
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
        shape = files.read(put(tmp_path / "a.stl", content))
        np.testing.assert_array_equal(shape.points, corners.reshape(-1, 3))
        assert shape.faces.tolist() == np.arange(12).reshape(4, 3).tolist()


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
    is_tetrahedron(files.read(put(tmp_path / name, text)), faces=False)


def test_text_with_too_few_numbers_names_the_line(tmp_path):
    with pytest.raises(FileFormatError, match=r"point 1 \(counted from 0\) is '3 4'"):
        files.read(put(tmp_path / "a.xyz", "0 1 2\n3 4\n"))


def test_text_with_a_word_in_the_middle(tmp_path):
    with pytest.raises(FileFormatError, match="not a readable XYZ file"):
        files.read(put(tmp_path / "a.xyz", "0 1 2\n3 four 5\n"))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ">f8"])
def test_npy(tmp_path, dtype):
    np.save(tmp_path / "a.npy", np.asfortranarray(TETRAHEDRON.astype(dtype)))
    is_tetrahedron(files.read(tmp_path / "a.npy"), faces=False)


def test_npy_of_whole_numbers(tmp_path):
    np.save(tmp_path / "a.npy", CUBE.astype(np.int16))
    np.testing.assert_array_equal(files.read(tmp_path / "a.npy").points, CUBE)


@pytest.mark.parametrize("array", [np.zeros((3, 9)), np.zeros((9, 2)), np.array(["a"])])
def test_npy_of_another_shape(tmp_path, array):
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(FileFormatError, match=r"expected numbers of shape \(n, 3\); got"):
        files.read(tmp_path / "a.npy")


def test_npy_that_holds_code_is_not_run(tmp_path):
    np.save(tmp_path / "a.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(FileFormatError, match=r"not a readable NPY file"):
        files.read(tmp_path / "a.npy")


def test_npz(tmp_path):
    np.savez(tmp_path / "a.npz", points=TETRAHEDRON, faces=np.array(FACES), other=np.ones(2))
    is_tetrahedron(files.read(tmp_path / "a.npz"))
    np.savez(tmp_path / "b.npz", points=TETRAHEDRON)
    is_tetrahedron(files.read(tmp_path / "b.npz"), faces=False)


def test_npz_without_points(tmp_path):
    np.savez(tmp_path / "a.npz", xyz=TETRAHEDRON, abc=np.ones(1))
    with pytest.raises(FileFormatError, match="named 'points'; got abc, xyz"):
        files.read(tmp_path / "a.npz")


# ------------------------------------------------------------------------------------ errors


def test_missing_file():
    with pytest.raises(FileFormatError, match=r"nowhere\.ply: no such file"):
        files.read("nowhere.ply")


def test_folder_in_place_of_a_file(tmp_path):
    with pytest.raises(FileFormatError, match="is a folder; expected a file"):
        files.read(tmp_path)


def test_unknown_ending(tmp_path):
    with pytest.raises(FileFormatError, match=r"unknown format '\.blend'; expected one of \.off, "):
        files.read(put(tmp_path / "a.blend", "x"))
    with pytest.raises(FileFormatError, match=r"\(no ending\)"):
        files.read(put(tmp_path / "scan", "x"))


@pytest.mark.parametrize("ending", list(files.READERS))
def test_empty_file(tmp_path, ending):
    with pytest.raises(FileFormatError, match="the file is empty"):
        files.read(put(tmp_path / f"a{ending}", b""))


@pytest.mark.parametrize("ending", list(files.READERS))
def test_rubbish_gives_one_line(tmp_path, ending):
    content = bytes(range(7, 256)) * 4
    with pytest.raises((FileFormatError, InputError)) as caught:
        files.read(put(tmp_path / f"a{ending}", content))
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
        files.read(put(tmp_path / name, text))


def test_rows_that_are_not_finite_keep_their_place(tmp_path):
    found = files.read(put(tmp_path / "a.xyz", "0 1 2\nnan 0 0\n1 1 1\n"))
    np.testing.assert_array_equal(found.points, [[0, 1, 2], [np.nan, 0, 0], [1, 1, 1]])


def test_faces_that_name_no_point(tmp_path):
    with pytest.raises(InputError, match="faces must name points 0 to 3"):
        files.read(put(tmp_path / "a.off", f"OFF\n4 1 0\n{rows(TETRAHEDRON)}\n3 0 1 4\n"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission(tmp_path):
    put(tmp_path / "a.xyz", "0 0 0").chmod(0)
    with pytest.raises(FileFormatError, match="permission denied"):
        files.read(tmp_path / "a.xyz")


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
    files.write(tmp_path / "a.ply", Shape(points, faces), force=True)
    again = files.read(tmp_path / "a.ply")
    np.testing.assert_array_equal(again.points, points)
    if faces is None:
        assert again.faces is None
    else:
        np.testing.assert_array_equal(again.faces, faces)


@FEW
@given(
    p2p=st.lists(st.integers(-1, 9), min_size=1, max_size=30),
    scores=st.lists(st.floats(0, 1), min_size=30, max_size=30),
)
def test_map_round_trip(tmp_path, p2p, scores):
    matches = Correspondence(np.array(p2p), np.array(scores[: len(p2p)]), 10, {"coembed": "x"})
    for name in ("a.txt", "a.npz"):
        files.write_matches(tmp_path / name, matches, force=True)
        again = files.read_matches(tmp_path / name, n_target=10)
        np.testing.assert_array_equal(again.p2p, p2p)
        assert again.n_target == 10
    np.testing.assert_array_equal(again.score, matches.score)
    assert again.record == {"coembed": "x"}


def test_a_text_map_has_score_one_where_there_is_a_match(tmp_path):
    found = files.read_matches(put(tmp_path / "a.txt", "2\n-1\n0\n"), n_target=3)
    assert found.score.tolist() == [1, 0, 1]


def test_shapes_are_written_as_ply_only(tmp_path):
    with pytest.raises(InputError, match="shapes are written as PLY"):
        files.write(tmp_path / "a.obj", Shape(CUBE))


def test_maps_are_written_as_txt_or_npz_only(tmp_path):
    with pytest.raises(InputError, match=r"maps are written as \.txt or \.npz"):
        files.write_matches(tmp_path / "a.mat", Correspondence(np.zeros(1, int), np.ones(1), 1))


def test_nothing_is_overwritten_unasked(tmp_path):
    files.write_bytes(tmp_path / "a", b"old")
    with pytest.raises(InputError, match="exists already; choose another name or add --force"):
        files.write_bytes(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"old"
    files.write_bytes(tmp_path / "a", b"new", force=True)
    assert (tmp_path / "a").read_bytes() == b"new"


def test_places_that_cannot_be_written(tmp_path):
    with pytest.raises(InputError, match="is a folder"):
        files.check_writable(tmp_path)
    with pytest.raises(InputError, match="there is no folder"):
        files.check_writable(tmp_path / "none" / "a.txt")


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    files.write_bytes(tmp_path / "a", b"old")

    def fail(self, target):
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        files.write_bytes(tmp_path / "a", b"new", force=True)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


def test_written_files_have_the_usual_permissions(tmp_path):
    files.write_bytes(tmp_path / "a", b"x")
    (tmp_path / "b").write_bytes(b"x")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


def test_an_array_that_cannot_be_cached_is_only_a_warning(tmp_path, caplog):
    put(tmp_path / "file", "in the way")
    files.write_array(tmp_path / "file" / "a.npy", np.ones(3))
    assert "not cached" in caplog.text
    files.write_array(tmp_path / "new" / "a.npy", np.ones(3))
    np.testing.assert_array_equal(np.load(tmp_path / "new" / "a.npy"), np.ones(3))


# ------------------------------------------------------------------------------ maps and truth


def test_vts_rows_count_from_one(tmp_path):
    assert files.read_vts(put(tmp_path / "a.vts", "1\n5\n3\n")).tolist() == [0, 4, 2]


def test_truth_leaves_out_rows_without_a_target(tmp_path):
    truth = files.read_truth(put(tmp_path / "a.map", "4\n-1\n0\n"))
    assert truth.tolist() == [[0, 4], [2, 0]]


def test_pairs_come_from_two_vts_files(tmp_path):
    one, other = put(tmp_path / "a.vts", "1\n0\n3\n"), put(tmp_path / "b.vts", "7\n8\n9\n")
    assert files.read_pairs(one, other).tolist() == [[0, 6], [2, 8]]


def test_pairs_of_unequal_length(tmp_path):
    one, other = put(tmp_path / "a.vts", "1\n2\n"), put(tmp_path / "b.vts", "7\n")
    with pytest.raises(FileFormatError, match=r"a\.vts has 2 lines and .*b\.vts has 1"):
        files.read_pairs(one, other)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1\n2.5\n", "expected whole row numbers; got 2.5"),
        ("1\ntwo\n", "expected one row number per line"),
        ("\n", "the file is empty"),
        ("1\nnan\n", "expected"),
        ("1\n1e30\n", "expected"),
    ],
)
def test_truth_that_is_not_row_numbers(tmp_path, text, message):
    with pytest.raises(FileFormatError, match=message):
        files.read_truth(put(tmp_path / "a.txt", text))


def test_whole_numbers_written_as_decimals_are_taken(tmp_path):
    assert files.read_vts(put(tmp_path / "a.vts", "1.0\n2e0\n")).tolist() == [0, 1]


def test_a_map_that_names_no_target_row(tmp_path):
    with pytest.raises(InputError, match="target rows 0 to 2"):
        files.read_matches(put(tmp_path / "a.txt", "0\n3\n"), n_target=3)


@pytest.mark.parametrize("harm", ["text", "cut", "other arrays", "one array"])
def test_a_damaged_npz_map(tmp_path, harm):
    path = tmp_path / "a.npz"
    files.write_matches(path, Correspondence(np.zeros(50, int), np.ones(50), 1))
    if harm == "text":
        path.write_text("hello")
    elif harm == "cut":
        path.write_bytes(path.read_bytes()[:-60])
    elif harm == "other arrays":
        np.savez(path, a=np.ones(2))
    else:
        with path.open("wb") as stream:
            np.save(stream, np.ones(2))
    with pytest.raises(FileFormatError, match="not a map written by coembed"):
        files.read_matches(path, n_target=1)


def test_operators_of_another_version_are_not_read(tmp_path, sphere_operators, monkeypatch):
    files.write_bytes(tmp_path / "a", files.operators_bytes(sphere_operators))
    assert files.operators_from(tmp_path / "a").notes == sphere_operators.notes
    monkeypatch.setattr(files, "_OPERATORS_FORMAT", "coembed-operators-0")
    with pytest.raises(ValueError, match="checksum or version differs"):
        files.operators_from(tmp_path / "a")


def test_the_record_of_a_map_is_json(tmp_path):
    matches = Correspondence(np.zeros(1, int), np.ones(1), 1, {"a": [1, "ü"]})
    files.write_matches(tmp_path / "a.npz", matches)
    with np.load(tmp_path / "a.npz") as data:
        assert json.loads(str(data["record"])) == {"a": [1, "ü"]}


def test_an_off_file_without_its_first_word(tmp_path):
    shape = files.read(put(tmp_path / "a.off", "3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n"))
    assert shape.points.shape == (3, 3)
    assert shape.faces.tolist() == [[0, 1, 2]]


def test_a_map_for_another_target(tmp_path):
    path = tmp_path / "a.npz"
    files.write_matches(path, Correspondence(np.zeros(5, int), np.ones(5), 7))
    with pytest.raises(InputError, match="is for a target of 7 points; this one has 99"):
        files.read_matches(path, n_target=99)


def test_a_cut_off_npz_shape_leaves_no_open_file(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, points=np.zeros((30, 3)))
    path.write_bytes(path.read_bytes()[:-60])
    with pytest.raises(FileFormatError, match="not a readable NPZ file"):
        files.read(path)


# ---------------------------------------------------------------------------------- embeddings


@pytest.mark.parametrize("points", [None, 300])
def test_an_embedding_comes_back_as_it_was(tiny_model, torus, tmp_path, points):
    one = matching.embed(tiny_model, torus, points=points)
    path = tmp_path / "torus.npz"
    files.write_embedding(path, one)
    other = files.read_embedding(path)
    assert files.holds_embedding(path)
    for name in ("values", "sample", "points", "rows", "centre"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    for name in ("scale", "name", "sha256", "weights", "similarity", "notes"):
        assert getattr(one, name) == getattr(other, name)
    np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
    with pytest.raises(InputError, match="exists already"):
        files.write_embedding(path, one)
    again = tmp_path / "again.npz"
    files.write_embedding(again, matching.embed(tiny_model, torus, points=points))
    assert again.read_bytes() == path.read_bytes()


def test_what_is_no_embedding_is_refused(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, points=np.zeros((30, 3)))
    assert not files.holds_embedding(path)
    with pytest.raises(FileFormatError, match=r"a\.npz: not an embedding written by coembed"):
        files.read_embedding(path)
    path.write_bytes(b"nonsense")
    assert not files.holds_embedding(path)
    assert not files.holds_embedding(tmp_path / "none.npz")
    with pytest.raises(FileFormatError, match="no such file"):
        files.read_embedding(tmp_path / "none.npz")
