from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial import ConvexHull, cKDTree

from coembed import baselines, benchmark, evaluation, files, formats, layouts, matching, parts
from coembed.benchmark import Settings, Table
from coembed.disturbances import Disturbance
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
        formats.write(folder / "off" / f"{name}.ply", Shape((points * factors)[order]))
        place = np.argsort(order)
        (folder / "corres" / f"{name}.vts").write_text("\n".join(str(r + 1) for r in place))
    formats.write(folder / "off" / "no_truth.ply", Shape(points))
    return folder


@pytest.fixture(scope="module")
def table(data, tiny_model):
    return benchmark.bench(tiny_model, data, Settings(samples=50))


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
    one, other = (formats.read(data / "off" / f"{name}.ply") for name in "ac")
    pairs = files.read_pairs(*(data / "corres" / f"{name}.vts" for name in "ac"))
    found = matching.match(tiny_model, one, other)
    errors = evaluation.evaluate(Correspondence(found.p2p, found.score, 200), other, pairs,
                                 samples=50)  # fmt: skip
    np.testing.assert_allclose(errors_of(table, 0, 2), errors.errors, rtol=1e-5)


def test_a_cache_changes_nothing_and_is_mended(table, data, tiny_model, tmp_path):
    for _ in range(2):
        found = benchmark.bench(tiny_model, data, Settings(samples=50), cache=tmp_path)
        np.testing.assert_allclose(found.errors, table.errors, atol=1e-6)
        for path in tmp_path.glob("*.npy"):
            path.write_bytes(path.read_bytes()[:-20])
    assert len(list(tmp_path.glob("*.geodesics.npy"))) == 3


def test_a_run_goes_on_where_it_was_cut_off(table, data, tiny_model, tmp_path, monkeypatch):
    settings = Settings(samples=50)
    judged = benchmark._judged

    def cut_off(target, sources):
        if target == 1:
            raise KeyboardInterrupt
        return judged(target, sources)

    monkeypatch.setattr(benchmark, "_judged", cut_off)
    with pytest.raises(KeyboardInterrupt):
        benchmark.bench(tiny_model, data, settings, cache=tmp_path)
    monkeypatch.undo()
    done, pair_errors = [], benchmark._pair_errors
    monkeypatch.setattr(
        benchmark, "_pair_errors", lambda i, j: done.append((i, j)) or pair_errors(i, j)
    )
    found = benchmark.bench(tiny_model, data, settings, cache=tmp_path)
    assert {j for _, j in done} == {1, 2}
    np.testing.assert_allclose(found.errors, table.errors, atol=1e-6)
    done.clear()
    benchmark.bench(tiny_model, data, settings, cache=tmp_path)
    assert not done


def test_what_was_kept_is_not_used_for_other_settings_weights_or_code(
    data, tiny_model, tmp_path, monkeypatch
):
    done, pair_errors = [], benchmark._pair_errors
    monkeypatch.setattr(
        benchmark, "_pair_errors", lambda i, j: done.append((i, j)) or pair_errors(i, j)
    )

    def count(model=tiny_model, **change):
        done.clear()
        settings = Settings(**{"samples": 5, **change})
        benchmark.bench(model, data, settings, shapes=slice(0, 2), cache=tmp_path)
        return len(done)

    assert count() == 4
    assert count() == 0
    assert count(samples=6) == 4
    assert count(disturbance=Disturbance(turn=10)) == 4
    # coupled, the embeddings are the same and only the weights of the attention differ
    assert count(coupled=True) == 4
    changed = {**tiny_model.parameters, "refiner.last.bias": np.ones(8, np.float32)}
    other = replace(tiny_model, parameters=changed)
    assert count(other, coupled=True) == 4
    # methods without a network do not ask for its weights
    assert count(method="hks") == 4
    assert count(other, method="hks") == 0
    form = replace(tiny_model.config, similarity="cosine")
    assert count(replace(tiny_model, config=form)) == 4
    monkeypatch.setattr(benchmark, "_code", lambda: "other")
    assert count() == 4


def test_what_was_kept_is_not_used_for_other_faces_or_mirrored_truth(
    tmp_path, sphere_points, tiny_model
):
    points = sphere_points(100) * [1, 1.5, 2]
    faces = ConvexHull(points).simplices.astype(np.int64)
    (tmp_path / "off").mkdir()
    (tmp_path / "corres").mkdir()
    for name, factor in (("a", 1.2), ("b", 1.3)):
        formats.write(tmp_path / "off" / f"{name}.ply", Shape(points * [1, 1, factor], faces))
        lines = "\n".join(str(row + 1) for row in range(100))
        (tmp_path / "corres" / f"{name}.vts").write_text(lines)

    def run():
        settings = Settings(method="hks", samples=30)
        return benchmark.bench(tiny_model, tmp_path, settings, cache=tmp_path / "cache")

    assert run().flipped is None
    for name in "ab":
        (tmp_path / "corres" / f"{name}.sym.vts").write_text(
            (tmp_path / "corres" / f"{name}.vts").read_text()
        )
    assert run().flipped == 0
    before = len(list((tmp_path / "cache").glob("*.errors.npy")))
    for name in "ab":
        path = tmp_path / "off" / f"{name}.ply"
        formats.write(path, Shape(formats.read(path).points), force=True)
    assert run().geodesics == "heat method on the point cloud"
    assert len(list((tmp_path / "cache").glob("*.errors.npy"))) == before + 2


def test_shapes_may_be_chosen_and_progress_is_told(data, tiny_model):
    told = []
    found = benchmark.bench(
        tiny_model, data, Settings(samples=5), shapes=slice(1, 3),
        report=lambda *facts: told.append(facts),
    )  # fmt: skip
    assert found.names == ("b", "c")
    assert told == [(what, done, 2) for what in ("embed", "match") for done in range(3)]


def test_several_processes_give_the_same_table(table, data, tiny_model):
    found = benchmark.bench(tiny_model, data, Settings(samples=50), jobs=2)
    np.testing.assert_array_equal(found.errors, table.errors)
    assert found.peak_mb > 50


@pytest.mark.parametrize("method", ["spectral", "hks", "wks", "cqhb-gt"])
def test_baselines_match_a_copy_without_error(data, tiny_model, method):
    if method.startswith("cqhb"):
        pytest.importorskip("pymanopt")
    found = benchmark.bench(
        tiny_model, data, Settings(method=method, samples=50), shapes=slice(0, 2)
    )
    np.testing.assert_allclose(found.errors, 0, atol=1e-6)


def test_bases_coupled_by_signatures_match_better_than_chance(data, tiny_model):
    """The copy's eigenvectors are the same, but signatures cannot tell the ball's mirror images."""
    pytest.importorskip("pymanopt")
    found = benchmark.bench(
        tiny_model, data, Settings(method="cqhb-hks", samples=50), shapes=slice(0, 2)
    )
    assert found.apart.mean() < 0.4


@pytest.mark.parametrize("refine", ["zoomout", "spectral"])
def test_refining_an_exact_map_keeps_it(data, tiny_model, refine):
    found = benchmark.bench(
        tiny_model, data, Settings(refine=refine, samples=50), shapes=slice(0, 2)
    )
    np.testing.assert_allclose(found.errors, 0, atol=1e-6)


def test_the_outside_library_is_asked_for_the_map_of_each_pair(data, tiny_model, monkeypatch):
    monkeypatch.setattr(baselines, "pyfm_mesh", lambda shape: shape.name)
    asked = []

    def constant(source, target):
        asked.append((source, target))
        return np.zeros(200, dtype=np.int64)

    monkeypatch.setattr(baselines, "pyfm_map", constant)
    found = benchmark.bench(tiny_model, data, Settings(method="pyfm-wks", samples=50))
    assert len(asked) == 9
    assert errors_of(found, 0, 1).mean() > 0.1


def test_the_bijective_form_asks_the_outside_library_for_the_way_back(
    data, tiny_model, monkeypatch
):
    monkeypatch.setattr(baselines, "pyfm_mesh", lambda shape: Path(shape.name).stem)
    asked = []

    def same_rows(source, target):
        asked.append((source, target))
        return np.arange(200)

    monkeypatch.setattr(baselines, "pyfm_map", same_rows)
    settings = Settings(method="pyfm-wks", refine="spectral", samples=5)
    found = benchmark.bench(tiny_model, data, settings, pairs=2)
    names = [(found.names[i], found.names[j]) for i, j in found.pairs.tolist()]
    assert sorted(asked) == sorted(pair for there in names for pair in (there, there[::-1]))
    # no pair is drawn in both directions, or the ways back could be other pairs' ways there
    assert not set(names) & {there[::-1] for there in names}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "other"}, "method must be one of coe, spectral, hks"),
        ({"refine": "icp"}, "refine must be one of none, register, spectral, zoomout; got 'icp'"),
        (
            {"method": "hks", "coupled": True},
            "only the method coe can be coupled or registered; got hks",
        ),
        ({"samples": -1}, r"samples must be 0 \(all\) or more; got -1"),
        ({"adapt": -1.0}, "adapt must be a number of seconds, 0 or more; got -1"),
        ({"method": "hks", "adapt": 1.0}, "only the method coe adapts, or turns .*; got hks"),
        ({"method": "wks", "align": "target"}, "only the method coe adapts, or turns .*; got wks"),
    ],
)
def test_settings_that_make_no_sense(change, message):
    with pytest.raises(InputError, match=message):
        Settings(**change)


@pytest.mark.parametrize("change", [{"align": ("none", "z")}, {"align": "target"}, {"adapt": 0.2}])
def test_what_depends_on_the_pair_is_matched_as_match_does_it(data, tiny_model, change):
    settings = Settings(samples=0, **change)
    found = benchmark.bench(tiny_model, data, settings, shapes=slice(0, 2))
    collection = layouts.read_collection(data, chosen=slice(0, 2))
    source, target = (member.shape for member in collection.members)
    one = matching.match(tiny_model, source, target, **change)
    pairs = np.stack(collection.truth(0, 1), axis=1)
    errors = evaluation.evaluate(one, target, pairs, samples=0)
    np.testing.assert_allclose(errors_of(found, 0, 1), errors.errors, atol=1e-5)
    if change.get("align") == ("none", "z"):
        assert (matching.match(tiny_model, source, target).p2p != one.p2p).any()


def test_pairs_that_are_adapted_have_no_zoomout(data, tiny_model):
    with pytest.raises(InputError, match=r"pairs that are adapted, .*got zoomout"):
        benchmark.bench(tiny_model, data, Settings(adapt=1.0, refine="zoomout"))


def test_listed_pairs(data, tiny_model):
    path = data / "pairs.txt"
    path.write_text("a,c\nc,b\na,no_truth\n")
    found = benchmark.bench(tiny_model, data, Settings(samples=5), pairs="listed")
    assert found.pairs.tolist() == [[2, 1], [0, 2]]
    assert "mean_with_self_pairs_x100" not in found.summary()
    assert "1 of 3 listed pairs cannot be judged" in found.summary()["notes"]
    path.unlink()


def test_some_pairs_of_many(data, tiny_model, table):
    found = benchmark.bench(tiny_model, data, Settings(samples=50), pairs=3)
    assert len(found.pairs) == 3
    for (i, j), row in zip(found.pairs.tolist(), found.errors, strict=True):
        np.testing.assert_array_equal(row, errors_of(table, i, j))


def test_noise_makes_errors(table, data, tiny_model):
    found = benchmark.bench(
        tiny_model, data, Settings(samples=50, disturbance=Disturbance(noise=0.05))
    )
    assert errors_of(found, 0, 1).mean() > errors_of(table, 0, 1).mean()


def test_errors_of_a_thinned_shape_are_measured_on_the_whole_one(data, tiny_model):
    settings = Settings(method="spectral", samples=0, disturbance=Disturbance(thin=0.3))
    found = benchmark.bench(tiny_model, data, settings, shapes=slice(0, 2))
    # each shape matched with itself: exact where a point was kept, else off by a neighbour
    errors = errors_of(found, 0, 0)
    assert 0.6 < (errors < 1e-6).mean() < 0.8
    assert errors.max() < 0.25


def test_distances_along_edges_are_longer(tmp_path, sphere_points, tiny_model):
    points = sphere_points(200) * [1, 1.5, 2]
    faces = ConvexHull(points).simplices.astype(np.int64)
    for name, factor in (("a0", 1.0), ("a1", 1.3)):
        path = tmp_path / "off" / f"{name}.ply"
        path.parent.mkdir(exist_ok=True)
        formats.write(path, Shape(points * [1, 1, factor], faces))
    tables = [
        benchmark.bench(tiny_model, tmp_path, Settings(method="hks", samples=40, edges=edges))
        for edges in (False, True)
    ]
    assert tables[0].geodesics == "heat method on the mesh"
    assert tables[1].geodesics == "shortest ways along mesh edges"
    assert 1.0 < tables[1].apart.mean() / tables[0].apart.mean() < 1.3


def test_pairs_with_fewer_samples_are_filled_up(tmp_path, sphere_points, tiny_model):
    """Two shapes of different size that lead to a third: each pair has samples of its own."""
    points = sphere_points(60) * [1, 1.5, 2]
    (tmp_path / "corres").mkdir()
    for name, n in (("ref", 60), ("x", 40), ("y", 50)):
        path = tmp_path / "off" / f"{name}.ply"
        path.parent.mkdir(exist_ok=True)
        formats.write(path, Shape(points[:n]))
        if name != "ref":
            lines = "\n".join(str(row + 1) for row in range(n))
            (tmp_path / "corres" / f"{name}.vts").write_text(lines)
    found = benchmark.bench(tiny_model, tmp_path, Settings(samples=0))
    counts = {
        (found.names[i], found.names[j]): int(np.isfinite(row).sum())
        for (i, j), row in zip(found.pairs.tolist(), found.errors, strict=True)
    }
    assert counts["x", "ref"] == counts["ref", "x"] == counts["x", "x"] == 40
    assert counts["y", "ref"] == 50
    assert ("x", "y") not in counts
    assert np.isfinite(found.summary()["mean_x100"])


def test_flips_are_counted(data, tiny_model, tmp_path):
    """Where the mirrored truth is what the map gives, every sample far from it is a flip."""
    (tmp_path / "off").mkdir()
    (tmp_path / "corres").mkdir()
    turned = np.roll(np.arange(200), 100)
    for name, place in (("a", np.arange(200)), ("c", turned)):
        formats.write(tmp_path / "off" / f"{name}.ply", formats.read(data / "off" / "a.ply"))
        lines = {"vts": place, "sym.vts": np.arange(200)}
        for ending, rows in lines.items():
            content = "\n".join(str(row + 1) for row in rows)
            (tmp_path / "corres" / f"{name}.{ending}").write_text(content)
    found = benchmark.bench(tiny_model, tmp_path, Settings(samples=0))
    far = (errors_of(found, 0, 1) > 0.15).mean()
    assert far > 0.9
    # of the two pairs of different shapes, one ends at the mirrored rows
    assert found.flipped == pytest.approx(far / 2, abs=0.02)


def test_the_coupled_mode_runs(data, tiny_model):
    found = benchmark.bench(tiny_model, data, Settings(samples=5, coupled=True), shapes=slice(0, 2))
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
    assert found["peak_mb"] == 0
    assert "flipped" not in found


def test_folders_without_enough_truth(data, tiny_model, tmp_path):
    with pytest.raises(InputError, match="fewer than two shapes with truth"):
        benchmark.bench(tiny_model, data, shapes=slice(0, 1))
    with pytest.raises(InputError, match="no such folder"):
        benchmark.bench(tiny_model, tmp_path / "none")


def test_pairs_as_lines():
    table = Table(
        ("a", "b"), np.array([[0, 1], [1, 0]]), np.array([[0.01, 0.03], [0.1, np.nan]]), None,
        "by hand", (1.0, 2.0),
    )  # fmt: skip
    assert table.lines() == "source,target,mean_x100\na,b,2.0000\nb,a,10.0000\n"


def test_peak_memory_is_left_out_where_it_is_not_known():
    table = Table(
        ("a", "b"), np.array([[0, 1]]), np.array([[0.01]]), 0.5, "by hand", (1.0, 2.0), np.nan
    )
    assert "peak_mb" not in table.summary()
    assert table.summary()["flipped"] == 0.5


# ------------------------------------------------------------- meshes with an exact copy


@pytest.fixture(scope="module")
def twins(tmp_path_factory, sphere_points):
    """A bumpy mesh without symmetry and its copy in another order: the truth is exact."""
    folder = tmp_path_factory.mktemp("twins")
    (folder / "off").mkdir()
    (folder / "corres").mkdir()
    ball = sphere_points(260)
    bump = sum(
        height * np.exp(-4 * ((ball - place) ** 2).sum(1))
        for height, place in (
            (0.6, [0.6, 0.6, 0.5]),
            (0.4, [-0.7, 0.5, 0.5]),
            (0.5, [0, -0.6, 0.8]),
        )
    )
    points = ball * [1, 1.4, 2] * (1 + bump)[:, None]
    faces = ConvexHull(ball).simplices.astype(np.int64)
    a, b, c = ball[faces].transpose(1, 0, 2)
    inward = np.einsum("fa,fa->f", np.cross(b - a, c - a), a) < 0
    faces[inward] = faces[inward][:, ::-1]
    order = np.random.default_rng(8).permutation(260)
    place = np.argsort(order)
    for name, shape, rows in (
        ("one", Shape(points, faces), np.arange(260)),
        ("two", Shape(points[order], place[faces]), place),
    ):
        formats.write(folder / "off" / f"{name}.ply", shape)
        lines = "\n".join(str(row + 1) for row in rows)
        (folder / "corres" / f"{name}.vts").write_text(lines)
    return folder


@pytest.mark.parametrize("method", benchmark.METHODS)
@pytest.mark.parametrize("refine", benchmark.REFINEMENTS)
def test_every_method_and_refinement_finds_an_exact_copy(twins, tiny_model, method, refine):
    if method.startswith("cqhb"):
        pytest.importorskip("pymanopt")
    if method.startswith("pyfm"):
        pytest.importorskip("pyFM")
    if refine == "register" and method != "coe":
        with pytest.raises(InputError, match="only the method coe"):
            Settings(method=method, refine=refine)
        return
    settings = Settings(method=method, refine=refine, samples=40)
    found = benchmark.bench(tiny_model, twins, settings, pairs=2)
    assert found.pairs.tolist() == [[1, 0], [0, 1]]
    if method == "cqhb-hks":
        # signatures are fewer than the modes, so that some stay apart; chance would be a half.
        # Which do depends on the operators' last bits: 1e-15 more or less give 0.02 to 0.17
        assert found.errors.mean() < 0.25
    else:
        np.testing.assert_allclose(found.errors, 0, atol=1e-6)


def test_the_real_library_gives_the_same_from_two_processes(twins, tiny_model):
    pytest.importorskip("pyFM")
    tables = [
        benchmark.bench(
            tiny_model, twins, Settings(method="pyfm-wks", samples=40), pairs=2, jobs=jobs
        )
        for jobs in (1, 2)
    ]
    np.testing.assert_array_equal(tables[0].errors, tables[1].errors)


@pytest.mark.parametrize(
    ("change", "most"),
    [
        ({}, 1e-6),
        ({"noise": 0.002}, 1e-6),
        ({"contact": True}, 1e-6),
        ({"thin": 0.3}, 0.06),
        ({"resample": 400}, 0.06),
        ({"resample": 400, "thin": 0.3, "contact": True, "noise": 0.002}, 0.07),
    ],
)
def test_the_right_place_on_a_disturbed_copy_is_an_error_of_a_neighbour(
    twins, tiny_model, monkeypatch, change, most
):
    """Matched by their positions: rows that were led astray would be a half apart, as by chance."""
    monkeypatch.setattr(benchmark, "embed", lambda model, shape, **_: shape.points)
    settings = Settings(samples=0, disturbance=Disturbance(**change))
    found = benchmark.bench(tiny_model, twins, settings)
    assert found.errors.shape == (4, 260)
    assert found.geodesics == "heat method on the mesh"
    assert found.apart.mean() <= most
    if most > 0.01:
        assert found.apart.mean() > 0.005


def test_true_points_of_thinned_shapes_couple_their_bases(twins, tiny_model):
    pytest.importorskip("pymanopt")
    settings = Settings(method="cqhb-gt", samples=0, disturbance=Disturbance(thin=0.2))
    found = benchmark.bench(tiny_model, twins, settings, pairs=2)
    # by chance a half; the rows that are left are not those of the files
    assert found.errors.mean() < 0.1


def test_a_turn_of_all_shapes_is_seen_by_who_looks_at_positions_only(
    twins, tiny_model, monkeypatch
):
    def mean(method):
        settings = Settings(method=method, samples=0, disturbance=Disturbance(turn=90))
        return benchmark.bench(tiny_model, twins, settings, pairs=2).errors.mean()

    assert mean("spectral") < 1e-3
    monkeypatch.setattr(benchmark, "embed", lambda model, shape, **_: shape.points)
    assert mean("coe") > 0.03


# --------------------------------------------------------------------- what a cache keeps


def test_two_processes_share_a_cache(table, data, tiny_model, tmp_path, monkeypatch):
    settings = Settings(samples=50)
    found = benchmark.bench(tiny_model, data, settings, cache=tmp_path, jobs=2)
    np.testing.assert_allclose(found.errors, table.errors, atol=1e-6)
    assert len(list(tmp_path.glob("*.errors.npy"))) == 3
    monkeypatch.setattr(benchmark, "_pair_errors", None)
    for jobs in (1, 2):
        again = benchmark.bench(tiny_model, data, settings, cache=tmp_path, jobs=jobs)
        np.testing.assert_array_equal(again.errors, found.errors)
        np.testing.assert_array_equal(again.pairs, found.pairs)


def test_what_was_kept_holds_the_flips_and_the_gaps_too(
    data, tiny_model, sphere_points, tmp_path, monkeypatch
):
    mirrored, star = tmp_path / "mirrored", tmp_path / "star"
    points = sphere_points(60) * [1, 1.5, 2]
    for folder in (mirrored, star):
        (folder / "off").mkdir(parents=True)
        (folder / "corres").mkdir()
    turned = np.roll(np.arange(60), 30)
    for name, rows in (("a", np.arange(60)), ("c", turned)):
        formats.write(mirrored / "off" / f"{name}.ply", Shape(points))
        for ending, place in (("vts", rows), ("sym.vts", np.arange(60))):
            lines = "\n".join(str(row + 1) for row in place)
            (mirrored / "corres" / f"{name}.{ending}").write_text(lines)
    for name, n in (("ref", 60), ("x", 40), ("y", 50)):
        formats.write(star / "off" / f"{name}.ply", Shape(points[:n]))
        if name != "ref":
            lines = "\n".join(str(row + 1) for row in range(n))
            (star / "corres" / f"{name}.vts").write_text(lines)
    folders, settings = (mirrored, star), Settings(samples=0)
    first = [benchmark.bench(tiny_model, f, settings, cache=tmp_path / "c") for f in folders]
    monkeypatch.setattr(benchmark, "_pair_errors", None)
    again = [benchmark.bench(tiny_model, f, settings, cache=tmp_path / "c") for f in folders]
    assert first[0].flipped > 0.1
    assert again[0].flipped == first[0].flipped
    assert first[1].flipped is None
    assert again[1].flipped is None
    assert np.isnan(first[1].errors).any()
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one.errors, other.errors)


def test_the_whole_summary_of_two_errors_by_hand():
    found = Table(
        ("a", "b"), np.array([[0, 0], [1, 0], [0, 1]]),
        np.array([[0.0, 0.0], [0.05, np.nan], [0.1, 0.2]]), 0.25, "by hand", (1.23456, 0.123456),
        12.6, ("one", "two"),
    ).summary()  # fmt: skip
    assert (found["shapes"], found["pairs"], found["samples"]) == (2, 2, 2)
    # pairs count alike, however many samples they have: (5 + 15) / 2
    assert found["mean_x100"] == pytest.approx(10)
    assert found["mean_with_self_pairs_x100"] == pytest.approx(20 / 3)
    assert found["median_pair_x100"] == pytest.approx(10)
    assert found["worst_pair_x100"] == pytest.approx(15)
    # two shapes are drawn both or not at all: the interval is the mean
    assert found["mean_low_x100"] == found["mean_high_x100"] == pytest.approx(10)
    # the three errors that exist: 0.05, 0.1, 0.2
    assert [found[f"within_{r}"] for r in (1, 5, 10)] == [0, 1 / 3, 2 / 3]
    # of 101 radii 0, 0.0025, ... 0.25 they lie within 81, 61 and 21
    assert found["auc_25"] == pytest.approx((81 + 61 + 21) / 303, abs=0.01)
    assert (found["seconds_a_shape"], found["seconds_a_pair"]) == (1.235, 0.1235)
    assert (found["peak_mb"], found["flipped"], found["notes"]) == (13, 0.25, "one; two")


def test_the_interval_comes_from_drawing_shapes():
    """Of four shapes one is bad as source and as target: it is drawn or not."""
    pairs = np.array([[i, j] for i in range(4) for j in range(4) if i != j])
    errors = np.where((pairs == 3).any(axis=1), 0.2, 0.0)[:, None]
    found = Table(tuple("abcd"), pairs, errors, None, "by hand", (1.0, 1.0)).summary()
    assert found["mean_x100"] == pytest.approx(10)
    # drawn without the bad one: 0 (one draw in three); with it and one other only: 20
    assert found["mean_low_x100"] == 0
    assert 15 < found["mean_high_x100"] < 20 + 1e-9


# ------------------------------------------------------------------ parts of shapes


@pytest.fixture(scope="module")
def views(tmp_path_factory):
    """The first 150 rows of one in a view, and the last 150 of two in another."""
    folder = tmp_path_factory.mktemp("views")
    for name, rows in (("one", range(150)), ("two", range(110, 260))):
        (folder / f"index_{name}_view_1.txt").write_text("\n".join(map(str, rows)))
    return folder


@pytest.fixture
def answered_by_place(monkeypatch):
    """Matches are the nearest points, as the shapes lie on each other; rows 0 to 29 get none."""
    asked = []

    def match(model, source, target, **settings):
        asked.append((source, target, settings))
        found = cKDTree(np.asarray(target.points)).query(np.asarray(source.points))[1]
        found[:30] = -1
        return Correspondence(found, np.linspace(0, 1, len(found)), len(target.points))

    def embed(model, shape, **_):
        return shape  # what is embedded need only have points here

    monkeypatch.setattr(benchmark.matching, "match", match)
    monkeypatch.setattr(benchmark, "embed", embed)
    return asked


def test_a_part_is_judged_where_it_has_samples(twins, views, tiny_model, answered_by_place):
    found = benchmark.bench(tiny_model, twins, Settings(samples=0), views=views)
    assert found.names == ("one", "two", "one_view_1", "two_view_1")
    assert found.pairs.tolist() == [[3, 0], [2, 1]]
    view = errors_of(found, 2, 1)
    assert np.isinf(view[:30]).all()
    np.testing.assert_allclose(view[30:150], 0, atol=1e-6)
    assert np.isnan(view[150:]).all()
    np.testing.assert_allclose(found.answered, 120 / 150)
    np.testing.assert_allclose(found.means, 0, atol=1e-6)
    summary = found.summary()
    assert summary["answered"] == pytest.approx(0.8)
    # rows without an answer are within no radius
    assert summary["within_5"] == pytest.approx(0.8)
    assert summary["mean_x100"] == pytest.approx(0, abs=1e-4)
    # every row of a part has its counterpart in a whole shape
    assert "common_iou" not in summary
    assert np.isnan(found.common).all()
    lines = found.lines().splitlines()
    assert lines[0] == "source,target,mean_x100,answered,iou,auroc"
    assert lines[1].startswith("two_view_1,one,0.0000,0.8000,,")
    parts_given = [source for source, _, _ in answered_by_place]
    assert sorted(len(part.points) for part in parts_given) == [150, 150]
    assert all(settings["align"] == "auto" for _, _, settings in answered_by_place)
    assert not any(settings["partial"] for _, _, settings in answered_by_place)
    benchmark.bench(tiny_model, twins, Settings(partial=True), views=views)
    assert all(settings["partial"] for _, _, settings in answered_by_place[2:])


def test_of_a_whole_and_a_part_the_common_part_is_judged(
    twins, views, tiny_model, answered_by_place, tmp_path
):
    path = tmp_path / "list.txt"
    path.write_text("two, one_view_1\n")
    found = benchmark.bench(tiny_model, twins, Settings(samples=0), pairs=path, views=views)
    truth = files.read_vts(twins / "corres" / "two.vts")  # row of two for each row of one
    seen, answered = np.arange(260) < 150, truth >= 30
    score = np.linspace(0, 1, 260)[truth]
    iou = (seen & answered).sum() / (seen | answered).sum()
    higher = (score[seen][:, None] > score[~seen]).mean()
    np.testing.assert_allclose(found.common, [[iou, higher]])
    assert found.summary()["common_iou"] == pytest.approx(iou)
    assert found.summary()["common_auroc"] == pytest.approx(higher)
    assert found.lines().splitlines()[1].endswith(f"{iou:.4f},{higher:.4f}")
    errors = found.errors[0]
    assert (np.isnan(errors) == ~seen).all()
    # measured on the whole of the part
    np.testing.assert_allclose(errors[seen & answered], 0, atol=1e-6)
    assert np.isinf(errors[seen & ~answered]).all()


def test_a_cut_of_both_shapes_is_measured_on_the_whole_target(twins, tiny_model, answered_by_place):
    settings = Settings(samples=0, cut="planes", cut_both=True)
    found = benchmark.bench(tiny_model, twins, settings)
    assert found.names == ("one_planes", "two_planes")
    assert found.geodesics == "heat method on the mesh"
    apart = found.errors[(found.pairs[:, 0] != found.pairs[:, 1])]
    np.testing.assert_allclose(apart[np.isfinite(apart)], 0, atol=1e-6)
    assert 0 < np.isnan(apart).mean() < 1
    assert "all shapes are cut (planes)" in found.summary()["notes"]


def test_parts_are_matched_as_match_does_it(twins, tiny_model, tmp_path):
    settings = Settings(samples=0, cut="holes", refine="register", align="none")
    found = benchmark.bench(tiny_model, twins, settings, cache=tmp_path / "cache", jobs=2)
    assert found.pairs.tolist() == [[3, 0], [2, 1]]
    collection = parts.cut(layouts.read_collection(twins), "holes")
    source, target = collection.members[2].shape, collection.members[1].shape
    one = matching.match(tiny_model, source, target, refine="register", align="none")
    truth = collection.truth(2, 1)
    pairs = np.stack(truth, axis=1)[truth[0] >= 0]
    errors = evaluation.evaluate(one, target, pairs, samples=0)
    row = errors_of(found, 2, 1)
    np.testing.assert_allclose(row[truth[0] >= 0], errors.errors, atol=1e-5)
    again = benchmark.bench(tiny_model, twins, settings, cache=tmp_path / "cache")
    np.testing.assert_array_equal(again.errors, found.errors)
    np.testing.assert_array_equal(again.common, found.common)
    judged = benchmark.worst(tiny_model, twins, settings, found, n=1)[0]
    assert len(judged.matches.p2p) == len(judged.source.points) < 260
    assert len(judged.target.points) == 260
    assert len(judged.errors.rows) == len(judged.source.points)


@pytest.mark.parametrize("method", ["spectral", "wks", "cqhb-gt"])
def test_methods_without_a_network_judge_parts_too(twins, tiny_model, method):
    if method.startswith("cqhb"):
        pytest.importorskip("pymanopt")
    settings = Settings(method=method, samples=0, cut="holes", cut_both=True)
    found = benchmark.bench(tiny_model, twins, settings)
    assert found.answered.min() == 1
    apart = found.pairs[:, 0] != found.pairs[:, 1]
    assert (found.common[apart, 0] < 1).all()
    assert np.isnan(found.common[:, 1]).all()  # there is no score


def test_settings_of_parts_that_make_no_sense(twins, tiny_model):
    with pytest.raises(InputError, match=r"cut must be one of views, .* limbs, pieces; got 'x'"):
        Settings(cut="x")
    with pytest.raises(InputError, match="to cut both shapes of a pair, say how"):
        Settings(cut_both=True)
    with pytest.raises(InputError, match="only the method coe matches parts as partial; got wks"):
        Settings(method="wks", partial=True)
    with pytest.raises(InputError, match="no shape is a part, so none can be matched as partial"):
        benchmark.bench(tiny_model, twins, Settings(partial=True))
    with pytest.raises(InputError, match=r"have a part are matched as .*got zoomout"):
        benchmark.bench(tiny_model, twins, Settings(cut="holes", refine="zoomout"))


def test_a_table_without_an_answer():
    table = Table(
        ("a", "b"), np.array([[0, 1], [1, 0]]), np.full((2, 3), np.inf), None, "by hand", (1.0, 1.0)
    )
    assert table.answered.tolist() == [0, 0]
    with pytest.raises(InputError, match="no pair of two different shapes has a single answer"):
        table.summary()
    some = replace(table, errors=np.array([[np.inf] * 3, [0.1, 0.3, np.inf]])).summary()
    assert some["mean_x100"] == some["worst_pair_x100"] == pytest.approx(20)
    assert some["pairs"] == 2
    assert some["answered"] == pytest.approx(1 / 3)
    assert some["within_10"] == pytest.approx(1 / 6)
