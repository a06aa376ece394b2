import numpy as np
import pytest

from coembed import benchmark, evaluation, files, matching
from coembed.benchmark import Table
from coembed.errors import InputError
from coembed.shapes import Correspondence, Shape


@pytest.fixture(scope="module")
def data(tmp_path_factory, sphere_points):
    """Three stretched spheres whose rows correspond, one in another order."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "off").mkdir()
    (folder / "corres").mkdir()
    points = sphere_points(200)
    orders = [np.arange(200), np.arange(200)[::-1], np.arange(200)]
    for name, order, factors in zip(
        "abc", orders, ([1, 1.5, 2], [1, 1.5, 2], [2, 1, 1.2]), strict=True
    ):
        files.write(folder / "off" / f"{name}.ply", Shape((points * factors)[order]))
        place = np.argsort(order)
        (folder / "corres" / f"{name}.vts").write_text("\n".join(str(r + 1) for r in place))
    files.write(folder / "off" / "no_truth.ply", Shape(points))
    return folder


@pytest.fixture(scope="module")
def table(data, tiny_model):
    return benchmark.bench(tiny_model, data, samples=50)


def test_every_ordered_pair_is_judged(table):
    assert table.names == ("a", "b", "c")
    assert table.errors.shape == (3, 3)
    assert table.samples == 50
    assert table.method == "heat method on the point cloud"
    # a shape with itself, and with its copy in another order, is matched without error
    np.testing.assert_allclose(np.diag(table.errors), 0, atol=1e-6)
    assert table.errors[0, 1] == pytest.approx(0, abs=1e-6)
    assert table.errors[1, 0] == pytest.approx(0, abs=1e-6)
    assert table.within[0, 1] == 1
    assert table.errors[0, 2] > 0


def test_the_table_agrees_with_matching_and_evaluating_one_pair(table, data, tiny_model):
    one, other = (files.read(data / "off" / f"{name}.ply") for name in "ac")
    pairs = files.read_pairs(*(data / "corres" / f"{name}.vts" for name in "ac"))
    found = matching.match(tiny_model, one, other)
    errors = evaluation.evaluate(Correspondence(found.p2p, found.score, 200), other, pairs,
                                 samples=50)  # fmt: skip
    assert table.errors[0, 2] == pytest.approx(errors.mean, rel=1e-6)
    assert table.within[0, 2] == errors.within(0.05)


def test_a_cache_changes_nothing_and_is_mended(table, data, tiny_model, tmp_path):
    for _ in range(2):
        found = benchmark.bench(tiny_model, data, samples=50, cache=tmp_path)
        np.testing.assert_allclose(found.errors, table.errors, atol=1e-6)
        for path in tmp_path.glob("*.npy"):
            path.write_bytes(path.read_bytes()[:-20])
    assert len(list(tmp_path.glob("*.geodesics.npy"))) == 3


def test_shapes_may_be_chosen_and_progress_is_told(data, tiny_model):
    told = []
    found = benchmark.bench(
        tiny_model, data, shapes=slice(1, 3), samples=5,
        report=lambda *facts: told.append(facts),
    )  # fmt: skip
    assert found.names == ("b", "c")
    assert told == [("embed", 0, 2), ("embed", 1, 2), ("match", 0, 2), ("match", 1, 2),
                    ("match", 2, 2)]  # fmt: skip


def test_the_coupled_mode_runs(data, tiny_model):
    found = benchmark.bench(tiny_model, data, shapes=slice(0, 2), samples=5, coupled=True)
    assert np.isfinite(found.errors).all()


def test_the_summary_by_hand():
    errors = np.array([[0.0, 0.02, 0.04], [0.06, 0.0, 0.08], [0.1, 0.12, 0.3]])
    found = Table(("a", "b", "c"), errors, np.ones((3, 3)), 7, "by hand").summary()
    assert found["pairs"] == 6
    assert found["mean_x100"] == pytest.approx(7)
    assert found["median_pair_x100"] == pytest.approx(7)
    assert found["worst_pair_x100"] == pytest.approx(12)
    assert found["mean_with_self_pairs_x100"] == pytest.approx(8)
    assert found["mean_low_x100"] <= found["mean_x100"] <= found["mean_high_x100"]
    assert found["within_5"] == 1


def test_folders_without_enough_truth(data, tiny_model, tmp_path):
    with pytest.raises(InputError, match="fewer than two shapes with truth"):
        benchmark.bench(tiny_model, data, shapes=slice(0, 1))
    with pytest.raises(InputError, match="no such folder"):
        benchmark.bench(tiny_model, tmp_path / "none")


def test_truth_of_different_templates(data, tiny_model, tmp_path):
    (tmp_path / "off").mkdir()
    (tmp_path / "corres").mkdir()
    for name, lines in (("a", "1\n2\n"), ("b", "1\n")):
        files.write(tmp_path / "off" / f"{name}.ply", files.read(data / "off" / f"{name}.ply"))
        (tmp_path / "corres" / f"{name}.vts").write_text(lines)
    with pytest.raises(InputError, match="different numbers of lines"):
        benchmark.bench(tiny_model, tmp_path)


@pytest.mark.parametrize("row", [0, 201])
def test_truth_that_names_no_row(data, tiny_model, tmp_path, row):
    (tmp_path / "off").mkdir()
    (tmp_path / "corres").mkdir()
    for name in "ab":
        files.write(tmp_path / "off" / f"{name}.ply", files.read(data / "off" / f"{name}.ply"))
        (tmp_path / "corres" / f"{name}.vts").write_text(f"1\n{row}\n")
    with pytest.raises(InputError, match="rows"):
        benchmark.bench(tiny_model, tmp_path)
