import numpy as np
import pytest

from coembed import formats, layouts
from coembed.errors import FileFormatError, InputError
from coembed.shapes import Shape


def write_shape(folder, name, n=30):
    path = folder / "off" / f"{name}.ply"
    path.parent.mkdir(parents=True, exist_ok=True)
    formats.write(path, Shape(np.random.default_rng(len(name)).normal(size=(n, 3))))


def write_rows(folder, name, rows, ending="vts"):
    path = folder / "corres" / f"{name}.{ending}" if ending else folder / "corres" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(str(row + 1) for row in rows) + "\n")


@pytest.fixture
def template(tmp_path):
    """Three shapes with four template samples each, and one without truth."""
    for i, name in enumerate("abc"):
        write_shape(tmp_path, name)
        write_rows(tmp_path, name, [i, i + 1, i + 2, 29])
    write_shape(tmp_path, "z")
    return tmp_path


@pytest.fixture
def star(tmp_path):
    """Two shapes of different size that lead to a third one, as in TOPKIDS."""
    for name, n in (("kid00", 40), ("kid01", 30), ("kid02", 35)):
        write_shape(tmp_path, name, n)
    write_rows(tmp_path, "kid01", np.arange(30)[::-1])
    write_rows(tmp_path, "kid02_ref.txt", np.arange(35) + 5, ending="")
    return tmp_path


@pytest.fixture
def classes(tmp_path):
    """Two classes with templates of their own and a bridge between them, as in DT4D."""
    for name, rows in (
        ("bear/one", [0, 1, 2]), ("bear/two", [5, 6, 7]), ("fox/one", [9, 8]), ("fox/two", [3, 4]),
        ("owl/one", [1]), ("owl/two", [2]),
    ):  # fmt: skip
        write_shape(tmp_path, name)
        write_rows(tmp_path, name, rows)
    write_rows(tmp_path, "cross_category_corres/bear_fox", [1, 0, 1])
    return tmp_path


def test_shapes_of_a_template_correspond_sample_by_sample(template):
    found = layouts.read_collection(template)
    assert [member.name for member in found.members] == ["a", "b", "c"]
    source, target = found.truth(0, 2)
    assert source.tolist() == [0, 1, 2, 29]
    assert target.tolist() == [2, 3, 4, 29]
    assert found.truth(0, 2, mirrored=True) is None
    assert found.pairs().tolist() == [[i, j] for i in range(3) for j in range(3)]
    assert "1 of 4 shapes have no truth" in found.notes
    chosen = layouts.read_collection(template, chosen=slice(1, 3))
    assert [member.name for member in chosen.members] == ["b", "c"]


def test_o35_files_that_count_from_zero_are_found_out_and_can_be_stated(template):
    found = layouts.read_collection(template)
    assert "truth: a template leads to each shape, rows counted from 1" in found.notes
    for i, name in enumerate("abc"):
        rows = np.array([i, i + 1, i + 2, 29])
        write_rows(template, name, rows - 1)
    with pytest.raises(InputError, match=r"a\.vts: line 1 names row 0; .*say --truth-base 0"):
        layouts.read_collection(template)
    found = layouts.read_collection(template, base=0)
    assert found.truth(0, 2)[1].tolist() == [2, 3, 4, 29]
    assert "truth: a template leads to each shape, rows counted from 0" in found.notes
    write_rows(template, "b", [1, 2, 3, 40])
    with pytest.raises(InputError, match=r"b\.vts: line 4 names row 41; b\.ply has rows 0 to 29$"):
        layouts.read_collection(template, base=0)


def test_a_mirrored_template_is_read_for_the_target(template):
    write_rows(template, "c", [9, 8, 7, 6], "sym.vts")
    found = layouts.read_collection(template)
    source, target = found.truth(0, 2, mirrored=True)
    assert source.tolist() == [0, 1, 2, 29]
    assert target.tolist() == [9, 8, 7, 6]
    assert found.truth(2, 0, mirrored=True) is None


def test_shapes_that_lead_to_one(star):
    found = layouts.read_collection(star)
    assert [member.name for member in found.members] == ["kid00", "kid01", "kid02"]
    source, target = found.truth(1, 0)
    assert source.tolist() == list(range(30))
    assert target.tolist() == list(range(30))[::-1]
    source, target = found.truth(0, 2)
    assert source.tolist() == list(range(5, 40))
    assert target.tolist() == list(range(35))
    assert found.truth(1, 2) is None
    pairs = found.pairs().tolist()
    assert [1, 2] not in pairs
    assert {(1, 0), (0, 1), (2, 0), (0, 2)} <= {tuple(pair) for pair in pairs}
    assert "every shape leads to kid00" in found.notes[0]


def test_classes_correspond_within_and_over_bridges(classes):
    found = layouts.read_collection(classes)
    place = {member.name: i for i, member in enumerate(found.members)}
    source, target = found.truth(place["bear/one"], place["bear/two"])
    assert (source.tolist(), target.tolist()) == ([0, 1, 2], [5, 6, 7])
    source, target = found.truth(place["bear/one"], place["fox/one"])
    assert (source.tolist(), target.tolist()) == ([0, 1, 2], [8, 9, 8])
    source, target = found.truth(place["fox/two"], place["bear/two"])
    assert (source.tolist(), target.tolist()) == ([4, 3, 4], [5, 6, 7])
    assert found.truth(place["owl/one"], place["fox/one"]) is None
    assert len(found.pairs()) == 16 + 4


def test_shapes_of_a_kind_share_the_order_of_points(tmp_path):
    for name, n in (("cat0", 30), ("cat1", 30), ("dog0", 25), ("dog12", 25)):
        write_shape(tmp_path, name, n)
    found = layouts.read_collection(tmp_path)
    source, target = found.truth(0, 1)
    assert source.tolist() == target.tolist() == list(range(30))
    assert found.truth(0, 2) is None
    assert len(found.pairs()) == 8
    write_shape(tmp_path, "dog13", 26)
    with pytest.raises(InputError, match=r"dog13.* has 26 points and .*dog0.* 25; without corres"):
        layouts.read_collection(tmp_path)


def test_listed_pairs_are_those_with_truth(template):
    (template / "pairs.txt").write_text("a,c\nz,a\n\nc, b\nnone,b\n")
    found = layouts.read_collection(template)
    assert found.pairs("listed").tolist() == [[0, 2], [2, 1]]
    assert "2 of 4 listed pairs cannot be judged" in found.notes
    (template / "pairs.txt").write_text("z,a\n")
    with pytest.raises(InputError, match="names no pair of two shapes that have truth"):
        layouts.read_collection(template).pairs("listed")
    (template / "pairs.txt").write_text("a,c\na c\n")
    with pytest.raises(InputError, match="line 2 must hold two names and a comma; got 'a c'"):
        layouts.read_collection(template)
    (template / "pairs.txt").unlink()
    with pytest.raises(InputError, match=r"pairs\.txt: no such file"):
        layouts.read_collection(template).pairs("listed")


def test_a_number_of_pairs_is_always_the_same_draw(template):
    found = layouts.read_collection(template)
    pairs = [tuple(pair) for pair in found.pairs(4).tolist()]
    assert len(set(pairs)) == 4
    assert all(i != j for i, j in pairs)
    assert found.pairs(4).tolist() == layouts.read_collection(template).pairs(4).tolist()
    for count in (0, 7):
        with pytest.raises(InputError, match=f"{count} pairs were asked for; there are 6"):
            found.pairs(count)


@pytest.mark.parametrize(("row", "line"), [(-1, 3), (30, 3)])
def test_rows_that_the_shape_does_not_have(template, row, line):
    write_rows(template, "b", [0, 1, row, 2])
    with pytest.raises(
        InputError, match=rf"b\.vts: line {line} names row {row + 1}; b\.ply has rows 1 to 30"
    ):
        layouts.read_collection(template)
    write_rows(template, "b", [0, 1, 2, 3])
    write_rows(template, "b", [0, 1, row, 2], "sym.vts")
    with pytest.raises(InputError, match=rf"b\.sym\.vts: line {line} names row {row + 1}"):
        layouts.read_collection(template)


def test_truth_of_different_length(template):
    write_rows(template, "b", [0, 1])
    with pytest.raises(InputError, match="different numbers of lines: 4 for a, 2 for b"):
        layouts.read_collection(template)
    write_rows(template, "b", [0, 1, 2, 3])
    write_rows(template, "c", [0, 1], "sym.vts")
    with pytest.raises(InputError, match=r"c\.sym\.vts: 2 lines; c\.vts has 4"):
        layouts.read_collection(template)


def test_rows_that_the_common_shape_does_not_have(star):
    write_rows(star, "kid01", np.arange(30) + 20)
    with pytest.raises(InputError, match=r"kid01\.vts: line 21 names row 41; kid00\.ply has rows"):
        layouts.read_collection(star)


def test_bridges_that_fit_no_template(classes):
    write_rows(classes, "cross_category_corres/bear_fox", [1, 0])
    with pytest.raises(InputError, match=r"bear_fox\.vts: 2 lines; the template of bear has 3"):
        layouts.read_collection(classes)
    write_rows(classes, "cross_category_corres/bear_fox", [1, 0, 2])
    with pytest.raises(InputError, match=r"bear_fox\.vts: line 3 names row 3"):
        layouts.read_collection(classes)


def test_too_little_truth(template):
    with pytest.raises(InputError, match="fewer than two shapes with truth"):
        layouts.read_collection(template, chosen=slice(0, 1))
    for path in (template / "corres").iterdir():
        path.unlink()
    with pytest.raises(InputError, match="fewer than two shapes with truth"):
        layouts.read_collection(template)
    with pytest.raises(InputError, match="no such folder"):
        layouts.read_collection(template / "none")


def test_truth_that_is_no_numbers(template):
    (template / "corres" / "b.vts").write_text("1\ntwo\n")
    with pytest.raises(FileFormatError, match=r"b\.vts: expected one row number per line"):
        layouts.read_collection(template)


@pytest.mark.parametrize("centre", ["aaa", "mmm", "zzz"])
def test_the_common_shape_may_stand_anywhere_in_the_order(tmp_path, centre):
    for name, n in (("kid1", 30), ("pup2", 25), (centre, 40)):
        write_shape(tmp_path, name, n)
    write_rows(tmp_path, "kid1", np.arange(30) + 10)
    write_rows(tmp_path, "pup2", np.arange(25)[::-1])
    found = layouts.read_collection(tmp_path)
    names = [member.name for member in found.members]
    assert names == sorted(["kid1", "pup2", centre])
    kid, pup, one = (names.index(name) for name in ("kid1", "pup2", centre))
    source, target = found.truth(kid, one)
    assert (source.tolist(), target.tolist()) == (list(range(30)), list(range(10, 40)))
    source, target = found.truth(one, pup)
    assert (source.tolist(), target.tolist()) == (list(range(25))[::-1], list(range(25)))
    assert found.truth(kid, pup) is None
    assert f"every shape leads to {centre}" in found.notes[0]
    # a draw of pairs knows only those that have truth: four of two different shapes
    drawn = {tuple(pair) for pair in found.pairs(4).tolist()}
    assert drawn == {(kid, one), (one, kid), (pup, one), (one, pup)}
    with pytest.raises(InputError, match="5 pairs were asked for; there are 4"):
        found.pairs(5)


def test_a_part_of_shapes_that_lead_to_one(star):
    found = layouts.read_collection(star, chosen=slice(0, 2))
    assert [member.name for member in found.members] == ["kid00", "kid01"]
    assert found.truth(1, 0)[1].tolist() == list(range(30))[::-1]
    # without the one in common nothing corresponds, but each shape with itself
    found = layouts.read_collection(star, chosen=slice(1, 3))
    with pytest.raises(InputError, match="no two shapes correspond"):
        found.pairs()


def test_a_part_of_shapes_that_share_their_order(tmp_path):
    for name, n in (("cat0", 25), ("cat1", 30), ("cat10", 30), ("dog0", 30)):
        write_shape(tmp_path, name, n)
    # what is not chosen is not looked at: the first cat has another size
    found = layouts.read_collection(tmp_path, chosen=slice(1, None))
    assert [member.name for member in found.members] == ["cat1", "cat10", "dog0"]
    assert found.pairs().tolist() == [[0, 0], [0, 1], [1, 0], [1, 1], [2, 2]]
    assert found.pairs(2).tolist() == [[0, 1], [1, 0]]


def test_shapes_need_no_folder_of_their_own(template):
    inside = layouts.read_collection(template)
    for path in (template / "off").iterdir():
        path.rename(template / path.name)
    (template / "off").rmdir()
    found = layouts.read_collection(template)
    assert [member.name for member in found.members] == ["a", "b", "c"]
    for i in range(3):
        np.testing.assert_array_equal(found.members[i].rows, inside.members[i].rows)


def test_shapes_none_of_which_correspond(tmp_path):
    for name in ("cat0", "dog0"):
        write_shape(tmp_path, name)
    found = layouts.read_collection(tmp_path)
    for which in ("all", 1):
        with pytest.raises(InputError, match="no two shapes correspond"):
            found.pairs(which)


def test_truth_that_may_mean_two_things_is_not_guessed(tmp_path):
    """As many lines as points, one shape without: a template, or truth that leads to that shape?"""
    for name in ("k0", "k1", "k2"):
        write_shape(tmp_path, name)
    for name in ("k1", "k2"):
        write_rows(tmp_path, name, [0, *range(29)])
    with pytest.raises(InputError, match=r"may lead to k0 or to a common template; name them"):
        layouts.read_collection(tmp_path)
    for name in ("k1", "k2"):
        (tmp_path / "corres" / f"{name}.vts").rename(tmp_path / "corres" / f"{name}_ref.txt")
    found = layouts.read_collection(tmp_path)
    assert found.truth(1, 0)[1].tolist() == [0, *range(29)]
    for name in ("k1", "k2"):
        (tmp_path / "corres" / f"{name}_ref.txt").unlink()
        write_rows(tmp_path, name, np.arange(30)[::-1])
    found = layouts.read_collection(tmp_path)
    assert [member.name for member in found.members] == ["k1", "k2"]


def test_equal_counts_that_reach_beyond_lead_to_the_other_shape(tmp_path):
    for name, n in (("k0", 60), ("k1", 30), ("k2", 30)):
        write_shape(tmp_path, name, n)
    for name in ("k1", "k2"):
        write_rows(tmp_path, name, np.arange(30) * 2)
    found = layouts.read_collection(tmp_path)
    assert found.truth(2, 0)[1].tolist() == list(range(0, 60, 2))


def test_a_wrong_row_is_reported_by_the_file_it_stands_in(template):
    (template / "corres" / "b.vts").rename(template / "corres" / "b_ref.txt")
    write_rows(template, "b_ref.txt", [0, 1, 99, 2], ending="")
    with pytest.raises(InputError, match=r"b_ref\.txt: line 3 names row 100"):
        layouts.read_collection(template)


def test_two_files_for_one_shape(template):
    np.save(template / "off" / "b.npy", np.zeros((30, 3)))
    with pytest.raises(InputError, match=r"b\.npy and .*b\.ply: two files for one shape"):
        layouts.read_collection(template)


def test_pairs_of_a_shape_with_itself_are_no_pairs(template):
    (template / "pairs.txt").write_text("a,a\n")
    with pytest.raises(InputError, match="names no pair of two shapes that have truth"):
        layouts.read_collection(template).pairs("listed")


def test_a_list_of_pairs_beside_the_shapes_is_no_shape(tmp_path):
    for name in ("cat0", "cat1"):
        formats.write(
            tmp_path / f"{name}.ply", Shape(np.random.default_rng(0).normal(size=(30, 3)))
        )
    (tmp_path / "pairs.txt").write_text("cat0,cat1\n")
    assert layouts.read_collection(tmp_path).pairs("listed").tolist() == [[0, 1]]


# ------------------------------------------------------------- parts, and what they lead to


def write_map(folder, name, rows, inner="corres"):
    (folder / inner).mkdir(exist_ok=True)
    (folder / inner / f"{name}.map").write_text("\n".join(map(str, rows)) + "\n")


@pytest.fixture
def mapped(tmp_path):
    """Two parts of 10 and 12 points that lead to a whole one of 30, as in PFARM."""
    for name, n in (("cut-1--19-tr_2", 10), ("cut-2--michael5", 12), ("smpl-base_neutro", 30)):
        write_shape(tmp_path, name, n)
    write_map(tmp_path, "cut-1--19-tr_2_smpl-base_neutro", range(20, 30))
    write_map(tmp_path, "cut-2--michael5_smpl-base_neutro", [*range(11), -1])
    return tmp_path


def test_parts_lead_to_a_whole_by_maps(mapped):
    found = layouts.read_collection(mapped)
    assert [member.name for member in found.members if member.part] == [
        "cut-1--19-tr_2", "cut-2--michael5",
    ]  # fmt: skip
    assert found.pairs().tolist() == [[0, 2], [1, 2]]
    source, target = found.truth(0, 2)
    assert (source.tolist(), target.tolist()) == (list(range(10)), list(range(20, 30)))
    source, target = found.truth(1, 2)
    assert (source.tolist(), target.tolist()) == (list(range(12)), [*range(11), -1])
    assert found.truth(0, 1) is None
    # the other way only what a part leads to is known
    source, target = found.truth(2, 1)
    assert (source.tolist(), target.tolist()) == ([*range(11), -1], list(range(12)))
    assert found.notes == ("truth: a map leads from each part, rows counted from 0",)
    second = layouts.read_collection(mapped, chosen=slice(1, 2))
    assert [member.name for member in second.members] == ["cut-2--michael5", "smpl-base_neutro"]


def test_maps_may_lie_in_maps_and_shapes_in_shapes(mapped):
    """As DPFM has SHREC'16: shapes/cuts-cat1.off, maps/cuts-cat1_cuts-cat.map."""
    (mapped / "off").rename(mapped / "shapes")
    (mapped / "corres").rename(mapped / "maps")
    write_shape(mapped, "rest", 30)
    (mapped / "off" / "rest.ply").rename(mapped / "shapes" / "rest.ply")
    (mapped / "off").rmdir()
    found = layouts.read_collection(mapped)
    assert found.pairs().tolist() == [[0, 2], [1, 2]]
    assert "1 of 4 shapes have no truth" in found.notes


def test_parts_may_lead_to_parts(tmp_path):
    """As in CP2P: maps both ways, -1 where there is no counterpart."""
    for name in ("one", "other"):
        write_shape(tmp_path, name, 20)
    write_map(tmp_path, "one_other", [*range(10, 20), *[-1] * 10])
    write_map(tmp_path, "other_one", [*[-1] * 10, *range(10)])
    found = layouts.read_collection(tmp_path)
    assert all(member.part for member in found.members)
    assert found.pairs().tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert found.truth(1, 0)[1].tolist() == [*[-1] * 10, *range(10)]


def test_maps_that_disagree_with_the_shapes(mapped):
    name = "cut-1--19-tr_2_smpl-base_neutro"
    for rows, message in (
        (range(9), rf"{name}\.map: 9 lines; cut-1--19-tr_2\.ply has 10 points"),
        ([*range(9), 30], r"line 10 names row 30; smpl-base_neutro\.ply has rows 0 to 29$"),
        ([-2, *range(9)], "line 1 names row -2"),
        (range(21, 31), "line 10 names row 30"),
    ):
        write_map(mapped, name, rows)
        with pytest.raises(InputError, match=message):
            layouts.read_collection(mapped)
    (mapped / "corres" / f"{name}.map").rename(mapped / "corres" / "cut-9_smpl-base_neutro.map")
    with pytest.raises(InputError, match=r"cut-9_smpl.*must be called PART_WHOLE\.map"):
        layouts.read_collection(mapped)
    (mapped / "corres" / "cut-9_smpl-base_neutro.map").write_text("")
    (mapped / "corres" / "cut-9_smpl-base_neutro.map").rename(mapped / "corres" / f"{name}.map")
    with pytest.raises(FileFormatError, match="the file is empty"):
        layouts.read_collection(mapped)


@pytest.fixture
def shrec16(tmp_path):
    """Two cuts of a cat and one of a dog, as their authors lay them out."""
    faces = np.array([[0, 1, 2], [3, 4, 5], [6, 7, 8]])
    (tmp_path / "null").mkdir()
    (tmp_path / "cuts").mkdir()
    for path, n in (("null/cat", 30), ("null/dog", 25), ("null/wolf", 20)):
        points = np.random.default_rng(n).normal(size=(n, 3))
        formats.write(tmp_path / f"{path}.ply", Shape(points, faces))
    for name, lines in (
        ("cuts_cat_shape_1", ["1 0.2 0.5 0.3", "3 1 0 0"]),
        ("cuts_cat_shape_2", ["2 0 0 1", "9 1 0 0", "2 0.4 0.35 0.25"]),
        ("cuts_dog_shape_1", ["1 0 1 0", "2 0 1 0"]),
    ):
        points = np.random.default_rng(1).normal(size=(len(lines), 3))
        formats.write(tmp_path / "cuts" / f"{name}.ply", Shape(points))
        (tmp_path / "cuts" / f"{name}.baryc_gt").write_text("\n".join(lines))
    return tmp_path


def test_cuts_lead_to_null_shapes_by_faces_and_weights(shrec16):
    found = layouts.read_collection(shrec16 / "cuts")
    names = [member.name for member in found.members]
    assert names == ["cuts_cat_shape_1", "cuts_cat_shape_2", "cuts_dog_shape_1", "cat", "dog"]
    assert [member.part for member in found.members] == [True] * 3 + [False] * 2
    assert found.pairs().tolist() == [[0, 3], [1, 3], [2, 4]]
    source, target = found.truth(0, 3)
    assert (source.tolist(), target.tolist()) == ([0, 1], [1, 6])
    # a face that the shape has lost since then: nothing is known of that row
    source, target = found.truth(1, 3)
    assert (source.tolist(), target.tolist()) == ([0, 2], [5, 3])
    assert "truth: each part leads to a shape of" in found.notes[-1]


def test_cuts_lead_to_null_shapes_row_by_row(shrec16):
    """As the community keeps them now: off/ and corres/NAME.vts, counted from 1."""
    for folder in ("cuts", "null"):
        (shrec16 / folder / "off").mkdir()
        for path in (shrec16 / folder).glob("*.ply"):
            path.rename(shrec16 / folder / "off" / path.name)
    for path in (shrec16 / "cuts").glob("*.baryc_gt"):
        path.unlink()
    write_rows(shrec16 / "cuts", "cuts_cat_shape_1", [28, 29])
    write_rows(shrec16 / "cuts", "cuts_dog_shape_1", [24, 0])
    found = layouts.read_collection(shrec16 / "cuts")
    assert found.truth(0, 2)[1].tolist() == [28, 29]
    assert found.truth(1, 3)[1].tolist() == [24, 0]
    assert "1 of 3 shapes have no truth" in found.notes
    write_rows(shrec16 / "cuts", "cuts_dog_shape_1", [24, 25])
    with pytest.raises(InputError, match=r"dog_shape_1\.vts: line 2 names row 26; dog\.ply has"):
        layouts.read_collection(shrec16 / "cuts")
    write_rows(shrec16 / "cuts", "cuts_dog_shape_1", [24])
    with pytest.raises(InputError, match=r"dog_shape_1\.vts: 1 lines; .* has 2 points"):
        layouts.read_collection(shrec16 / "cuts")


def test_cuts_that_disagree_with_null_shapes(shrec16):
    with pytest.raises(InputError, match=r"holds whole shapes in null .* such as .*cuts"):
        layouts.read_collection(shrec16)
    path = shrec16 / "cuts" / "cuts_dog_shape_1.baryc_gt"
    for content, message in (
        ("1 0 1 0\n", r"dog_shape_1\.baryc_gt: 1 lines; .* has 2 points"),
        ("8 0 1 0\n9 0 1 0\n", r"baryc_gt: names faces that dog\.ply does not have"),
        ("1 0 1\n1 0 1\n", r"baryc_gt: expected a face, counted from 1, and three weights"),
        ("0 0 1 0\n1 0 1 0\n", r"baryc_gt: expected a face, counted from 1, and three weights"),
        ("one 0 1 0\n", r"baryc_gt: expected a face and three weights per line \("),
    ):
        path.write_text(content)
        with pytest.raises(InputError, match=message):
            layouts.read_collection(shrec16 / "cuts")
    path.write_text("1 0 1 0\n1 0 1 0\n")
    (shrec16 / "null" / "dog.ply").unlink()
    with pytest.raises(InputError, match=r"cuts_dog_shape_1\.ply: its name must hold that of one"):
        layouts.read_collection(shrec16 / "cuts")
