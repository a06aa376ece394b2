"""Maps and truth that others wrote: direction and index base are found out, or asked for."""

import numpy as np
import pytest

from coembed import files, maps
from coembed.errors import FileFormatError, InputError
from coembed.shapes import Correspondence


def put(path, rows):
    path.write_text("".join(f"{row}\n" for row in rows))
    return path


@pytest.mark.parametrize(
    ("rows", "stated", "base", "p2p"),
    [
        ([0, 3, 2], None, 0, [0, 3, 2]),
        ([1, 4, 2], None, 1, [0, 3, 1]),  # names row 4 of 4
        ([1, 3, 2], None, 0, [1, 3, 2]),  # either would do: as we write it
        ([1, 3, 2], 1, 1, [0, 2, 1]),
        ([-1, 3, 2], None, 0, [-1, 3, 2]),
        ([0, 4, 2], 1, 1, [-1, 3, 1]),  # 0 means none
    ],
)
def test_o35_where_a_map_counts_from(tmp_path, rows, stated, base, p2p):
    found = maps.read_map(put(tmp_path / "a.txt", rows), n_source=3, n_target=4, base=stated)
    assert found.record["counted_from"] == base
    assert found.p2p.tolist() == p2p
    np.save(tmp_path / "a.npy", np.array(rows, dtype=float))
    found = maps.read_map(tmp_path / "a.npy", n_source=3, n_target=4, base=stated)
    assert found.p2p.tolist() == p2p


@pytest.mark.parametrize(
    ("rows", "stated", "message"),
    [
        ([0, 4, 2], None, "names row 0 and row 4, but there are 4 rows: .* say --base 1"),
        ([0, 4, 2], 0, "line 2 names row 4, but the target has rows 0 to 3"),
        ([0, 1, 6], 1, "line 3 names row 6, but the target has rows 1 to 4"),
        ([0, 1, 2, 0], None, "leads from target to source: exchange the two shapes"),
        ([0, 1], None, "has 2 lines, but the source has 3 points, .*; it belongs to other shapes"),
    ],
)
def test_o35_a_map_that_does_not_fit(tmp_path, rows, stated, message):
    with pytest.raises(InputError, match=message):
        maps.read_map(put(tmp_path / "a.txt", rows), n_source=3, n_target=4, base=stated)


def test_o35_direction_of_a_map_of_ours_and_of_one_whose_source_is_not_known(tmp_path):
    files.write_matches(tmp_path / "a.npz", Correspondence(np.arange(4), np.ones(4), 6))
    assert maps.read_map(tmp_path / "a.npz", n_source=4, n_target=6).n_target == 6
    with pytest.raises(InputError, match=r"from 4 to 6 rows, .* it leads from target to source"):
        maps.read_map(tmp_path / "a.npz", n_source=6, n_target=4)
    with pytest.raises(InputError, match=r"from 4 to 6 rows, .* it leads from target to source"):
        maps.read_map(tmp_path / "a.npz", n_target=4)
    with pytest.raises(InputError, match="belongs to other shapes"):
        maps.read_map(tmp_path / "a.npz", n_source=4, n_target=9)
    with pytest.raises(InputError, match="does it lead the other way"):
        maps.read_map(put(tmp_path / "b.txt", [0, 5, 2, 3]), n_target=4)


@pytest.mark.parametrize(
    ("rows", "options", "pairs", "told"),
    [
        ([2, -1, 0], {}, [[0, 2], [2, 0]], "source to target, rows counted from 0"),
        ([1, 4, 2], {}, [[0, 0], [1, 3], [2, 1]], "source to target, rows counted from 1"),
        ([2, 0, 1, 1], {"lines": "target"}, [[2, 0], [0, 1], [1, 2], [1, 3]],
         "target to source, rows counted from 0"),
        (["0 3", "2,1"], {}, [[0, 3], [2, 1]], "source to target, rows counted from 0"),
        (["1\t4", "3\t2"], {}, [[0, 3], [2, 1]], "source to target, rows counted from 1"),
        (["1 2", "3 1"], {"base": 1, "lines": "target"}, [[1, 0], [0, 2]],
         "target to source, rows counted from 1"),
    ],
)  # fmt: skip
def test_o35_truth_of_either_direction_and_base(tmp_path, rows, options, pairs, told):
    path = put(tmp_path / "truth.txt", rows)
    found, how = maps.read_truth(path, n_source=3, n_target=4, **options)
    assert found.tolist() == pairs
    assert how == told


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([0, 1, 2, 0], {}, "it leads the other way: say --truth-from target"),
        ([0, 1, 2], {"lines": "target"}, "it leads the other way: say --truth-from source"),
        ([0, 1], {}, "has 2 lines, .* leads from a template"),
        ([0, 1, 7], {}, "line 3 names row 7, but the target has rows 0 to 3"),
        (["0 3", "3 1"], {}, "names row 3, but the source|names row 0 and row 3"),
    ],
)
def test_o35_truth_that_does_not_fit(tmp_path, rows, options, message):
    with pytest.raises(InputError, match=message):
        maps.read_truth(put(tmp_path / "truth.txt", rows), n_source=3, n_target=4, **options)


def test_o35_truth_from_a_template(tmp_path):
    one, other = put(tmp_path / "a.vts", [1, 3]), put(tmp_path / "b.vts", [4, 2])
    found, how = maps.read_template(one, other, n_source=3, n_target=4)
    assert found.tolist() == [[0, 3], [2, 1]]
    assert how == "template to each shape, rows counted from 1"
    with pytest.raises(InputError, match="the two files fit if they are exchanged"):
        maps.read_template(other, one, n_source=3, n_target=4)
    with pytest.raises(InputError, match="line 1 names row 4, but the source has rows 0 to 2"):
        maps.read_template(other, other, n_source=3, n_target=5, base=0)
    zero = put(tmp_path / "c.vts", [0, 2])
    with pytest.raises(InputError, match=r"line 1 names row 0, .* say --truth-base 0 if"):
        maps.read_template(zero, one, n_source=3, n_target=4)
    assert maps.read_template(zero, one, n_source=3, n_target=4, base=0)[0].tolist() == [
        [0, 1], [2, 3],
    ]  # fmt: skip
    assert maps.read_template(zero, one, n_source=3, n_target=4, base=1)[0].tolist() == [[1, 2]]


@pytest.mark.parametrize("text", ["0 1\n2 3\n", "0 1\n2\n", "# a map\n0\n1\n", "0,5\n1,6\n"])
def test_o35_a_map_of_several_columns_is_never_run_together(tmp_path, text):
    (tmp_path / "a.txt").write_text(text)
    with pytest.raises(FileFormatError, match="expected one row number per line"):
        maps.read_map(tmp_path / "a.txt", n_source=4, n_target=9)


def test_o35_a_map_in_one_line(tmp_path):
    (tmp_path / "a.txt").write_text("0 2 1 1\r\n")
    assert maps.read_map(tmp_path / "a.txt", n_source=4, n_target=3).p2p.tolist() == [0, 2, 1, 1]


def test_o35_arrays_that_are_no_maps(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((4, 3)))
    with pytest.raises(FileFormatError, match=r"one a row; got shape \(4, 3\)"):
        maps.read_map(tmp_path / "a.npy", n_source=4, n_target=9)
    (tmp_path / "b.npy").write_bytes(b"nothing")
    with pytest.raises(FileFormatError, match="not a readable NPY file"):
        maps.read_map(tmp_path / "b.npy", n_source=4, n_target=9)
