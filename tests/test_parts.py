import numpy as np
import pytest
from scipy.spatial import ConvexHull

from coembed import cuts, formats, layouts, parts
from coembed.errors import FileFormatError, InputError
from coembed.shapes import Shape


@pytest.fixture
def wholes(tmp_path, sphere_points):
    """Three meshes of 60 points; the third one counts them backwards, and is a sample short."""
    ball = sphere_points(60) * [1, 1.5, 2]
    faces = ConvexHull(ball).simplices.astype(np.int64)
    inward = np.linalg.det(ball[faces]) < 0
    faces[inward] = faces[inward][:, ::-1]
    folder = tmp_path / "wholes"
    (folder / "off").mkdir(parents=True)
    (folder / "corres").mkdir()
    for name in "abc":
        back = name == "c"
        points, corners = (ball[::-1], 59 - faces[:, ::-1]) if back else (ball, faces)
        formats.write(folder / "off" / f"{name}.ply", Shape(points.copy(), corners.copy()))
        rows = np.arange(60)[::-1] if back else np.arange(60)
        (folder / "corres" / f"{name}.vts").write_text("\n".join(str(row + 1) for row in rows))
    return folder


@pytest.fixture
def views(tmp_path):
    """Ten rows of a in two views and twenty of c in one."""
    folder = tmp_path / "views" / "index"
    folder.mkdir(parents=True)
    for name, rows in (
        ("a_view_2", range(10)), ("a_view_10", range(59, 49, -1)), ("c_view_1", range(20)),
    ):  # fmt: skip
        (folder / f"index_{name}.txt").write_text("\n".join(map(str, rows)))
    return folder.parent


def names_of(collection):
    return [member.name for member in collection.members]


def test_views_are_parts_in_the_order_of_their_files(wholes, views):
    found = parts.with_views(layouts.read_collection(wholes), views)
    assert names_of(found) == ["a", "b", "c", "a_view_2", "a_view_10", "c_view_1"]
    assert found.notes[-1] == "3 views are parts of 2 shapes"
    part, whole = found.members[4], found.members[0]
    assert part.part
    assert part.whole is whole
    assert not whole.part
    np.testing.assert_array_equal(part.shape.points, whole.shape.points[59:49:-1])
    assert part.shape.faces is None
    shape, rows = part.measured
    assert shape is whole.shape
    assert rows.tolist() == list(range(59, 49, -1))
    assert whole.measured[1].tolist() == list(range(60))


def test_truth_of_a_part_lacks_what_it_does_not_show(wholes, views):
    found = parts.with_views(layouts.read_collection(wholes), views)
    source, target = found.truth(4, 2)  # rows 59 to 50 of a, whose samples c counts backwards
    assert source.tolist() == [-1] * 50 + list(range(9, -1, -1))
    assert target.tolist() == list(range(59, -1, -1))
    source, target = found.truth(1, 3)
    assert source.tolist() == list(range(60))
    assert target.tolist() == [*range(10), *[-1] * 50]
    source, target = found.truth(3, 4)  # two views without a sample in common
    assert not ((source >= 0) & (target >= 0)).any()


def test_each_part_is_a_source_and_each_other_whole_a_target(wholes, views):
    found = parts.with_views(layouts.read_collection(wholes), views)
    assert found.pairs().tolist() == [[3, 1], [3, 2], [4, 1], [4, 2], [5, 0], [5, 1]]
    chosen = parts.with_views(layouts.read_collection(wholes, chosen=slice(0, 2)), views)
    assert names_of(chosen) == ["a", "b", "a_view_2", "a_view_10"]
    assert chosen.pairs().tolist() == [[2, 1], [3, 1]]


def test_a_list_of_pairs_names_parts(wholes, views, tmp_path):
    path = tmp_path / "list.txt"
    path.write_text("a_view_10, b\nb, a_view_2\na_view_2, a\nc_view_9, a\n")
    found = layouts.with_pairs(parts.with_views(layouts.read_collection(wholes), views), path)
    assert found.pairs("listed").tolist() == [[4, 1], [1, 3], [3, 0]]
    assert found.notes[-1] == "1 of 4 listed pairs cannot be judged"
    path.write_text("\n")
    with pytest.raises(InputError, match=r"list\.txt: lists no pairs"):
        layouts.with_pairs(found, path)
    with pytest.raises(FileFormatError, match=r"none\.txt: no such file"):
        layouts.with_pairs(found, tmp_path / "none.txt")


def test_views_that_disagree_with_the_shapes(wholes, views):
    read = layouts.read_collection(wholes)
    path = views / "index" / "index_a_view_2.txt"
    for rows, message in (
        ("0\n60\n1", r"index_a_view_2\.txt: line 2 names row 60; a has rows 0 to 59"),
        ("0\n-1\n1", "line 2 names row -1"),
        ("4\n5\n4", r"index_a_view_2\.txt: names row 4 more than once"),
    ):
        path.write_text(rows)
        with pytest.raises(InputError, match=message):
            parts.with_views(read, views)
    path.write_text("")
    with pytest.raises(FileFormatError, match=r"index_a_view_2\.txt: the file is empty"):
        parts.with_views(read, views)
    path.rename(views / "index" / "index_z_view_1.txt")
    with pytest.raises(InputError, match=r"index_z_view_1\.txt: is a view of z, which .* not hold"):
        parts.with_views(read, views)
    (views / "index" / "index_z_view_1.txt").unlink()
    with pytest.raises(InputError, match="holds no views; expected files index_NAME_view_V"):
        parts.with_views(read, views.parent)


def test_views_of_shapes_that_were_not_chosen(wholes, views):
    for path in (views / "index").glob("index_a*"):
        path.unlink()
    read = layouts.read_collection(wholes, chosen=slice(0, 2))
    with pytest.raises(InputError, match="holds views of other shapes than those chosen"):
        parts.with_views(read, views)


@pytest.mark.parametrize("kind", cuts.KINDS)
def test_a_cut_is_the_same_in_every_run(wholes, kind):
    first = parts.cut(layouts.read_collection(wholes), kind)
    again = parts.cut(layouts.read_collection(wholes, chosen=slice(1, 3)), kind)
    assert names_of(first) == ["a", "b", "c", f"a_{kind}", f"b_{kind}", f"c_{kind}"]
    np.testing.assert_array_equal(first.members[4].kept, again.members[2].kept)
    left = [len(member.kept) / 60 for member in first.members[3:]]
    assert (0.06 if kind == "pieces" else 0.25) <= min(left) < 1
    assert f"sources are cut ({kind}): {100 * np.mean(left):.0f} % of the rows left" in first.notes
    assert first.pairs().tolist() == [[3, 1], [3, 2], [4, 0], [4, 2], [5, 0], [5, 1]]


def test_both_shapes_of_a_pair_may_be_cut(wholes):
    (wholes / "pairs.txt").write_text("a,c\nb,a\n")
    one = parts.cut(layouts.read_collection(wholes), "planes")
    assert one.listed == (("a_planes", "c"), ("b_planes", "a"))
    both = parts.cut(layouts.read_collection(wholes), "planes", both=True)
    assert names_of(both) == ["a_planes", "b_planes", "c_planes"]
    assert both.listed == (("a_planes", "c_planes"), ("b_planes", "a_planes"))
    assert [0, 1] in both.pairs().tolist()
    source, target = both.truth(0, 2)
    common = (source >= 0) & (target >= 0)
    assert 0 < common.sum() < 60
    one, other = both.members[0], both.members[2]
    # the same place of the two wholes, which lie on each other
    np.testing.assert_allclose(one.shape.points[source[common]], other.shape.points[target[common]])


def test_faces_that_wind_inwards_show_the_same(wholes):
    first = parts.cut(layouts.read_collection(wholes), "views")
    for path in (wholes / "off").iterdir():
        shape = formats.read(path)
        formats.write(path, Shape(shape.points, shape.faces[:, ::-1].copy()), force=True)
    again = parts.cut(layouts.read_collection(wholes), "views")
    np.testing.assert_array_equal(first.members[3].kept, again.members[3].kept)


def test_shapes_that_cannot_be_cut(wholes, views):
    both = parts.cut(layouts.read_collection(wholes), "holes")
    with pytest.raises(InputError, match="parts already"):
        parts.cut(both, "holes")
    with pytest.raises(InputError, match="parts already"):
        parts.cut(parts.with_views(layouts.read_collection(wholes), views), "holes")
    path = wholes / "off" / "b.ply"
    formats.write(path, Shape(formats.read(path).points), force=True)
    with pytest.raises(InputError, match=r"b\.ply: has no faces, so nothing hides"):
        parts.cut(layouts.read_collection(wholes), "views")
    parts.cut(layouts.read_collection(wholes), "holes")
    (wholes / "off" / "c.ply").unlink()
    points = formats.read(wholes / "off" / "a.ply").points
    points[7] = np.nan
    np.save(wholes / "off" / "c.npy", points)
    with pytest.raises(InputError, match=r"c\.npy: 1 rows are not finite; it cannot be cut"):
        parts.cut(layouts.read_collection(wholes), "holes")
