import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coembed import files, matching
from coembed.errors import FileFormatError, InputError
from coembed.shapes import Correspondence

FEW = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def put(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


# ----------------------------------------------------------------------------------- writing


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


def test_a_map_for_another_target(tmp_path):
    path = tmp_path / "a.npz"
    files.write_matches(path, Correspondence(np.zeros(5, int), np.ones(5), 7))
    with pytest.raises(InputError, match="is for a target of 7 points; this one has 99"):
        files.read_matches(path, n_target=99)


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
