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


def errors_of(table, source, target):
    """The row of a pair."""
    return table.errors[(table.pairs == [source, target]).all(axis=1)][0]


def test_every_ordered_pair_is_judged(table):
    assert table.names == ("a", "b", "c")
    assert table.errors.shape == (9, 50)
    assert table.pairs.tolist() == [[i, j] for j in range(3) for i in range(3)]
    assert table.geodesics == "heat method on the point cloud"
    # a shape with itself, and with its copy in another order, is matched without error
    for pair in ([0, 0], [1, 1], [2, 2], [0, 1], [1, 0]):
        np.testing.assert_allclose(errors_of(table, *pair), 0, atol=1e-6)
    assert errors_of(table, 0, 2).mean() > 0
    assert table.flipped is None


def test_the_table_agrees_with_matching_and_evaluating_one_pair(table, data, tiny_model):
    one, other = (files.read(data / "off" / f"{name}.ply") for name in "ac")
    pairs = files.read_pairs(*(data / "corres" / f"{name}.vts" for name in "ac"))
    found = matching.match(tiny_model, one, other)
    errors = evaluation.evaluate(Correspondence(found.p2p, found.score, 200), other, pairs,
                                 samples=50)  # fmt: skip
    np.testing.assert_allclose(errors_of(table, 0, 2), errors.errors, rtol=1e-5)


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
    assert told == [(what, done, 2) for what in ("embed", "match") for done in range(3)]


def test_several_processes_give_the_same_table(table, data, tiny_model):
    found = benchmark.bench(tiny_model, data, samples=50, jobs=2)
    np.testing.assert_array_equal(found.errors, table.errors)


@pytest.mark.parametrize("method", ["spectral", "hks", "wks"])
def test_baselines_match_a_copy_without_error(data, tiny_model, method):
    found = benchmark.bench(tiny_model, data, method=method, shapes=slice(0, 2), samples=50)
    np.testing.assert_allclose(found.errors, 0, atol=1e-6)
    with pytest.raises(InputError, match="method must be one of coe, spectral"):
        benchmark.bench(tiny_model, data, method="other")


def test_listed_pairs(data, tiny_model):
    path = data / "pairs.txt"
    path.write_text("a,c\nc,b\na,no_truth\n")
    found = benchmark.bench(tiny_model, data, listed=True, samples=5)
    assert found.pairs.tolist() == [[2, 1], [0, 2]]
    assert "mean_with_self_pairs_x100" not in found.summary()
    path.write_text("x,y\n")
    with pytest.raises(InputError, match="names no pair of shapes that have truth"):
        benchmark.bench(tiny_model, data, listed=True)
    path.write_text("a c\n")
    with pytest.raises(InputError, match="line 1 must hold two names"):
        benchmark.bench(tiny_model, data, listed=True)
    path.unlink()


def test_noise_is_bounded_and_leaves_the_rest_alone(sphere_points):
    shape = Shape(sphere_points(500) * 3 + 7, name="ball")
    noisy = benchmark.disturbed(shape, 0.01, seed=1)
    moved = (noisy.points - shape.points) / 3
    assert 0.009 < moved.std() < 0.011
    assert np.abs(moved).max() <= 0.0501
    assert noisy.name == "ball"
    assert benchmark.disturbed(shape, 0.0) is shape
    with pytest.raises(InputError, match="noise must be between 0 and 1"):
        benchmark.disturbed(shape, -0.1)


def test_noise_makes_errors(table, data, tiny_model):
    found = benchmark.bench(tiny_model, data, samples=50, noise=0.05)
    assert errors_of(found, 0, 1).mean() > errors_of(table, 0, 1).mean()


def test_flips_are_counted(data, tiny_model, tmp_path):
    """Where the mirrored truth is what the map gives, every sample far from it is a flip."""
    (tmp_path / "off").mkdir()
    (tmp_path / "corres").mkdir()
    turned = np.roll(np.arange(200), 100)
    for name, place in (("a", np.arange(200)), ("c", turned)):
        files.write(tmp_path / "off" / f"{name}.ply", files.read(data / "off" / "a.ply"))
        lines = {"vts": place, "sym.vts": np.arange(200)}
        for ending, rows in lines.items():
            content = "\n".join(str(row + 1) for row in rows)
            (tmp_path / "corres" / f"{name}.{ending}").write_text(content)
    found = benchmark.bench(tiny_model, tmp_path, samples=0)
    far = (errors_of(found, 0, 1) > 0.15).mean()
    assert far > 0.9
    # of the four pairs, one ends at the mirrored rows
    assert found.flipped == pytest.approx(far / 4, abs=0.02)


def test_the_coupled_mode_runs(data, tiny_model):
    found = benchmark.bench(tiny_model, data, shapes=slice(0, 2), samples=5, coupled=True)
    assert np.isfinite(found.errors).all()


def test_the_summary_by_hand():
    means = np.array([[0.0, 0.02, 0.04], [0.06, 0.0, 0.08], [0.1, 0.12, 0.3]])
    pairs = np.array([[i, j] for i in range(3) for j in range(3)])
    errors = means.reshape(9, 1) + np.array([[-0.004, 0.004]])
    found = Table(("a", "b", "c"), pairs, np.abs(errors), None, "by hand", (1.0, 2.0)).summary()
    assert found["pairs"] == 6
    assert found["samples"] == 2
    assert found["mean_x100"] == pytest.approx(7)
    assert found["median_pair_x100"] == pytest.approx(7)
    assert found["worst_pair_x100"] == pytest.approx(12)
    assert found["mean_low_x100"] <= found["mean_x100"] <= found["mean_high_x100"]
    assert found["within_1"] == 0
    assert found["within_5"] == pytest.approx(4 / 12)
    assert found["within_10"] == pytest.approx(9 / 12)
    assert "flipped" not in found


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
