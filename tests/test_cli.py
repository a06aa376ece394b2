import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import coembed
from coembed import benchmark, cli, compiled, files, formats, model
from coembed.benchmark import Settings
from coembed.disturbances import Disturbance
from coembed.errors import InputError
from coembed.model import ModelConfig, load, save
from coembed.shapes import Correspondence, Shape


@pytest.fixture(scope="module")
def folder(tmp_path_factory, sphere_points, tiny_model):
    """Two shapes in correspondence, a map, its truth and weights."""
    path = tmp_path_factory.mktemp("cli")
    points = sphere_points(150) * [1, 1.5, 2]
    (path / "off").mkdir()
    (path / "corres").mkdir()
    for name, factor in (("cat", 1), ("lion", 1.1)):
        formats.write(path / f"{name}.ply", Shape(points * [1, 1, factor]))
        formats.write(path / "off" / f"{name}.ply", Shape(points * [1, 1, factor]))
        rows = "\n".join(str(row + 1) for row in range(150)) + "\n"
        (path / "corres" / f"{name}.vts").write_text(rows)
    matches = Correspondence(np.arange(150), np.ones(150), 150)
    files.write_matches(path / "map.txt", matches)
    save(tiny_model, path / "tiny.safetensors")
    return path


@pytest.fixture
def call(folder, monkeypatch, capfd):
    """Run the command line as a user does; gives exit code, output and error output."""
    monkeypatch.chdir(folder)

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["coembed", *map(str, words)])
        with pytest.raises(SystemExit) as caught:
            cli.main()
        out, err = capfd.readouterr()
        code = caught.value.code
        return 0 if code is None else code, out, err

    return run


# ------------------------------------------------------------------------------------ verbs


def test_match_writes_a_map_and_its_record(call, folder, tmp_path):
    out = tmp_path / "a.txt"
    code, printed, _ = call(
        "match", "cat.ply", "lion.ply", "--out", out, "--weights", "tiny.safetensors", "--json"
    )
    assert code == 0
    facts = json.loads(printed)
    assert facts["source_points"] == facts["target_points"] == 150
    assert set(facts["seconds"]) == {"read", "prepare", "embed", "refine", "match", "total"}
    assert len(files.read_matches(out, n_target=150).p2p) == 150
    record = json.loads((tmp_path / "a.txt.json").read_text())
    assert record["source"]["name"] == "cat.ply"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "a.txt.json"]


def test_match_with_the_shipped_weights_a_cache_and_scores(call, tmp_path):
    words = ("match", "cat.ply", "cat.ply", "--out", tmp_path / "a.npz", "--cache", tmp_path / "c")
    code, printed, err = call(*words)
    assert code == 0, err
    assert "mean score" in printed
    found = files.read_matches(tmp_path / "a.npz", n_target=150)
    assert (found.p2p == np.arange(150)).mean() > 0.95
    assert list((tmp_path / "c").iterdir())
    code, _, err = call(*words)
    assert code == 1
    assert "exists already" in err
    assert call(*words, "--force")[0] == 0


def test_match_says_what_it_changed_on_the_way_in(call, folder, tmp_path):
    points = formats.read(folder / "cat.ply").points
    formats.write(tmp_path / "twice.ply", Shape(np.concatenate([points, points])))
    code, _, err = call(
        "match", tmp_path / "twice.ply", "lion.ply", "--out", tmp_path / "a.txt",
        "--weights", "tiny.safetensors", "--coupled",
    )  # fmt: skip
    assert code == 0
    assert "150 repeated points share the answer of their first copy" in err


def test_embeddings_are_matched_like_their_shapes(call, tmp_path):
    weights = ("--weights", "tiny.safetensors")
    for name in ("cat", "lion"):
        out = tmp_path / f"{name}.npz"
        code, printed, err = call("embed", f"{name}.ply", "--out", out, *weights)
        assert code == 0, err
        assert "shapes      1" in printed
    one = tmp_path / "one.txt"
    other = tmp_path / "other.txt"
    assert call("match", "cat.ply", "lion.ply", "--out", one, *weights)[0] == 0
    pair = (tmp_path / "cat.npz", tmp_path / "lion.npz")
    assert call("match", *pair, "--out", other, *weights)[0] == 0
    assert one.read_bytes() == other.read_bytes()
    code, _, err = call("match", *pair, "--out", tmp_path / "third.txt")
    assert code == 1
    assert "was embedded with other weights" in err


def test_several_shapes_are_embedded_into_a_folder(call, tmp_path):
    words = ("embed", "cat.ply", "lion.ply", "--weights", "tiny.safetensors", "--out")
    for jobs, folder in ((1, tmp_path / "one"), (2, tmp_path / "two")):
        code, printed, err = call(*words, folder, "--jobs", jobs)
        assert code == 0, err
        assert "shapes      2" in printed
        assert sorted(path.name for path in folder.iterdir()) == ["cat.npz", "lion.npz"]
    for name in ("cat", "lion"):
        one, two = (files.read_embedding(tmp_path / f / f"{name}.npz") for f in ("one", "two"))
        np.testing.assert_array_equal(one.values, two.values)
    code, _, err = call(*words, tmp_path / "one")
    assert (code, "cat.npz: exists already" in err) == (1, True)
    code, _, err = call("embed", "cat.ply", "cat.ply", "--out", tmp_path / "three")
    assert (code, "two of the shapes have the same name" in err) == (1, True)
    assert not (tmp_path / "three").exists()


def test_points_and_memory_are_numbers_with_units(call, tmp_path):
    words = ("match", "cat.ply", "lion.ply", "--weights", "tiny.safetensors")
    for number, text in enumerate(("0.1k", "100", "full", "1m")):
        out = tmp_path / f"{number}.txt"
        assert call(*words, "--out", out, "--points", text, "--max-memory", "2GB")[0] == 0
        looked_at = json.loads((tmp_path / f"{number}.txt.json").read_text())["source"]["looked_at"]
        assert (looked_at == 150) == (text in ("full", "1m"))
    code, _, err = call(*words, "--out", tmp_path / "no.txt", "--max-memory", "10MB")
    assert code == 1
    assert "needs about" in err


def test_a_long_match_says_how_long(call, tmp_path, monkeypatch):
    monkeypatch.setattr(cli, "LONG", 0)
    words = ("match", "cat.ply", "lion.ply", "--weights", "tiny.safetensors")
    code, _, err = call(*words, "--out", tmp_path / "a.txt")
    assert code == 0
    assert "about 0 s and 0.1 GB" in err


def test_evaluate_with_a_map_and_with_two_vts(call):
    for truth in (
        ("--truth", "map.txt"),
        ("--truth", "corres/cat.vts", "--target-truth", "corres/lion.vts"),
    ):
        code, printed, _ = call("evaluate", "map.txt", "--target", "lion.ply", *truth, "--json")
        assert code == 0
        facts = json.loads(printed)
        assert facts["rows"] == 150
        assert facts["mean_x100"] == pytest.approx(0, abs=1e-4)
        assert facts["coverage"] == 1


def test_o35_direction_and_base_are_told_stated_and_checked(call, folder, tmp_path):
    """A part of 60 points against the whole of 150, whose maps have another length each way."""
    whole = formats.read("lion.ply")
    formats.write(tmp_path / "part.ply", Shape(whole.points[:60]))
    kept = replace(whole, attributes={"label": np.arange(150)})
    formats.write(tmp_path / "whole.ply", kept)
    names = {"there": range(60), "there1": range(1, 61), "back": [i % 60 for i in range(150)]}
    for name, rows in names.items():
        (tmp_path / f"{name}.txt").write_text("\n".join(map(str, rows)) + "\n")
    part, target = tmp_path / "part.ply", tmp_path / "whole.ply"
    there, back = tmp_path / "there.txt", tmp_path / "back.txt"
    words = ("evaluate", there, "--target", target, "--truth")
    facts = json.loads(call(*words, there, "--json")[1])
    assert facts["mean_x100"] == 0
    assert facts["map"] == facts["truth"] == "source to target, rows counted from 0"
    assert facts["divided_by"] == "sqrt(target area)"
    one = json.loads(call(*words, tmp_path / "there1.txt", "--truth-base", "1", "--json")[1])
    assert one["mean_x100"] == 0
    assert one["truth"] == "source to target, rows counted from 1"
    code, _, err = call(*words, back)
    assert code == 1
    assert "it leads the other way: say --truth-from target" in err
    assert call(*words, back, "--truth-from", "target")[0] == 0
    assert call(*words, folder / "corres" / "cat.vts", "--target-truth",
                folder / "corres" / "lion.vts", "--truth-from", "target")[0] == 2  # fmt: skip
    code, printed, _ = call("transfer", part, target, tmp_path / "there1.txt", "--base", "1",
                            "--out", tmp_path / "x.ply")  # fmt: skip
    assert code == 0
    assert "rows counted from 1" in printed
    assert formats.read(tmp_path / "x.ply").attributes["label"].tolist() == list(range(60))
    for verb, ending in (("transfer", "ply"), ("view", "png")):
        code, _, err = call(verb, part, target, back, "--out", tmp_path / f"y.{ending}")
        assert code == 1
        assert err.count("\n") == 1
        assert "it leads from target to source: exchange the two shapes" in err


def test_evaluate_prints_one_fact_a_line(call):
    code, printed, _ = call("evaluate", "map.txt", "--target", "lion.ply", "--truth", "map.txt")
    assert code == 0
    assert {line.split("  ")[0] for line in printed.splitlines()} >= {"rows", "auc 25"}


def test_view_with_and_without_truth(call, tmp_path):
    pytest.importorskip("matplotlib")
    words = ("view", "cat.ply", "lion.ply", "map.txt", "--out")
    assert call(*words, tmp_path / "a.png")[0] == 0
    assert call(*words, tmp_path / "b.png", "--truth", "map.txt")[0] == 0
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_view_writes_a_page_beside_the_map(call, folder, tmp_path):
    (tmp_path / "map.txt").write_bytes((folder / "map.txt").read_bytes())
    words = ("view", "cat.ply", "lion.ply", tmp_path / "map.txt", "--truth", "map.txt")
    code, printed, err = call(*words, "--samples", 40)
    assert code == 0, err
    assert f"page   {tmp_path / 'map.html'}  (0.6 MB)" in printed
    page = (tmp_path / "map.html").read_text(encoding="utf-8")
    assert '"label": "error x 100"' in page
    code, _, err = call(*words)
    assert code == 1
    assert "exists already" in err


def test_info_of_shapes_and_weights(call):
    code, printed, _ = call("info", "cat.ply", "tiny.safetensors", "human", "--json")
    assert code == 0
    shape, tiny, human = (json.loads(line) for line in printed.splitlines())
    assert shape["points"] == shape["distinct"] == 150
    assert len(shape["eigenvalues_times_area"]) == 5
    assert tiny["name"] == "tiny"
    assert human["parameters"] > 10_000


def test_bodies_writes_a_folder_in_the_community_layout(call, tmp_path):
    code, printed, _ = call("bodies", "--n", 1, "--points", 100, "--out", tmp_path / "people")
    assert code == 0
    assert "people" in printed
    assert len(formats.read(tmp_path / "people" / "off" / "body0000.ply").points) == 100
    code, _, err = call("bodies", "--n", 1, "--points", 100, "--out", tmp_path / "people")
    assert code == 1
    assert "exists already" in err


TINY = ("--recipe", "tiny", "--set", "train.steps=2", "--set", "data.points=0")


def test_train_on_a_folder_and_resume(call, folder, tmp_path):
    pytest.importorskip("torch")
    words = (
        "train", "--recipe", "scape", "--data", folder, "--set", "train.steps=2",
        "--set", "data.points=0", "--out", tmp_path / "run",
    )  # fmt: skip
    code, printed, err = call(*words)
    assert code == 0, err
    assert "best.safetensors" in printed
    model = load(tmp_path / "run" / "best.safetensors")
    assert model.config == ModelConfig(attention=False)
    assert model.info["recipe"] == "scape"
    code, _, err = call(*words)
    assert code == 1
    assert "holds a run already" in err
    assert call(*words, "--resume")[0] == 0


def test_matching_needs_truth(call, folder, tmp_path):
    pytest.importorskip("torch")
    code, _, err = call(
        "train", *TINY, "--data", folder, "--set", "data.bodies=0", "--out", tmp_path / "run"
    )
    assert code == 1
    assert "exact truth" in err


def test_bench_writes_its_results_and_overwrites_nothing(call, tmp_path):
    words = (
        "bench", ".", "--weights", "tiny.safetensors", "--samples", 20, "--noise", 0.01, "--jobs",
        2, "--out", tmp_path / "out",
    )  # fmt: skip
    code, printed, err = call(*words)
    assert code == 0, err
    assert "mean x100" in printed
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["curve.png", "curve.svg", "pairs.csv", "table.json"]
    facts = json.loads((tmp_path / "out" / "table.json").read_text())
    assert facts["noise"] == 0.01
    assert facts["pairs"] == 2
    lines = (tmp_path / "out" / "pairs.csv").read_text().splitlines()
    assert len(lines) == 5
    code, printed, err = call(*words)
    assert (code, printed) == (1, "")
    assert "exists already" in err
    assert call(*words, "--force")[0] == 0


def test_bench_refuses_to_overwrite_before_it_does_any_work(call, tmp_path, monkeypatch):
    monkeypatch.setattr(benchmark, "bench", lambda *_, **__: pytest.fail("worked"))
    monkeypatch.setattr(model, "load", lambda *_: pytest.fail("read weights"))
    for name in ("table.json", "pairs.csv", "curve.png", "curve.svg"):
        out = tmp_path / name.replace(".", "-")
        out.mkdir()
        (out / name).write_text("mine")
        code, printed, err = call("bench", ".", "--weights", "tiny.safetensors", "--out", out)
        assert (code, printed) == (1, "")
        assert err.splitlines() == [
            f"coembed: {out / name}: exists already; choose another name or add --force"
        ]
        assert [path.name for path in out.iterdir()] == [name]
        assert (out / name).read_text() == "mine"


def test_bench_options_reach_the_benchmark(call, folder, tmp_path, monkeypatch):
    asked = []

    def remember(model, where, settings, **more):
        asked.append((where, settings, more))
        raise InputError("that will do")

    monkeypatch.setattr(benchmark, "bench", remember)
    words = ("bench", ".", "--weights", "tiny.safetensors")
    code, _, err = call(
        *words, "--method", "hks", "--refine", "zoomout", "--shapes", "1:9", "--pairs", 3,
        "--noise", 0.1, "--thin", 0.2, "--turn", 30, "--resample", 40, "--contact", "--samples", 5,
        "--edges", "--cache", tmp_path / "c", "--jobs", 2,
    )  # fmt: skip
    assert (code, err) == (1, "coembed: that will do\n")
    where, settings, more = asked[0]
    assert where == Path()
    disturbance = Disturbance(resample=40, thin=0.2, contact=True, noise=0.1, turn=30.0)
    assert settings == Settings("hks", "zoomout", False, 5, True, disturbance)
    report = more.pop("report")
    assert callable(report)
    assert more == {
        "shapes": slice(1, 9), "pairs": 3, "views": None, "cache": tmp_path / "c", "jobs": 2,
    }  # fmt: skip
    call(*words, "--coupled", "--pairs", "listed", "--points", "5k")
    assert asked[1][1] == Settings(coupled=True, points=5000)
    assert asked[1][2]["pairs"] == "listed"
    call(*words)
    assert asked[2][1] == Settings()
    assert asked[2][2]["pairs"] == "all"
    assert asked[2][2]["shapes"] == slice(None)
    (tmp_path / "list.txt").write_text("a,b\n")
    call(*words, "--views", tmp_path, "--pairs", tmp_path / "list.txt")
    assert (asked[3][2]["views"], asked[3][2]["pairs"]) == (tmp_path, tmp_path / "list.txt")
    call(*words, "--cut", "limbs", "--cut-both")
    assert asked[4][1] == Settings(cut="limbs", cut_both=True)


def test_bench_of_parts_says_what_was_cut_and_what_was_answered(call, tmp_path):
    code, printed, err = call(
        "bench", ".", "--weights", "tiny.safetensors", "--samples", 20, "--cut", "holes",
        "--cut-both", "--align", "none", "--out", tmp_path / "out",
        "--report", tmp_path / "page.html", "--json",
    )  # fmt: skip
    assert code == 0, err
    facts = json.loads(printed)
    assert (facts["cut"], facts["cut_both"], facts["answered"]) == ("holes", True, 1)
    assert 0.25 < facts["common_iou"] < 1
    assert 0 <= facts["common_auroc"] <= 1
    lines = (tmp_path / "out" / "pairs.csv").read_text().splitlines()
    assert lines[0] == "source,target,mean_x100,answered,iou,auroc"
    assert "_holes to " in (tmp_path / "page.html").read_text()


def test_bench_prints_one_object_that_says_what_was_done(call, tmp_path):
    words = (
        "bench", ".", "--weights", "tiny.safetensors", "--method", "hks", "--refine", "zoomout",
        "--thin", 0.2, "--turn", 30, "--contact", "--samples", 20, "--pairs", 1, "--json",
        "--out", tmp_path / "out", "--cache", tmp_path / "cache",
    )  # fmt: skip
    code, printed, err = call(*words)
    assert code == 0, err
    (line,) = printed.splitlines()
    facts = json.loads(line)
    assert json.loads((tmp_path / "out" / "table.json").read_text()) == facts
    named = {name: facts[name] for name in ("method", "refine", "thin", "turn", "contact")}
    assert named == {
        "method": "hks", "refine": "zoomout", "thin": 0.2, "turn": 30, "contact": True,
    }  # fmt: skip
    # what was not done, and weights that were not used, are not named
    assert not {"weights", "coupled", "points", "noise", "resample"} & set(facts)
    assert facts["pairs"] == 1
    header, row = (tmp_path / "out" / "pairs.csv").read_text().splitlines()
    assert header == "source,target,mean_x100"
    assert set(row.split(",")[:2]) == {"cat", "lion"}
    assert float(row.split(",")[2]) == pytest.approx(facts["mean_x100"], abs=1e-3)
    curve = (tmp_path / "out" / "curve.svg").read_text()
    assert f"hks ({facts['mean_x100']:.2f})" in curve
    # the cache makes the second run the same, but for its times
    before = {p: (tmp_path / "out" / p).read_bytes() for p in ("pairs.csv", "curve.svg")}
    assert list((tmp_path / "cache").glob("*.errors.npy"))
    assert call(*words, "--force")[0] == 0
    assert before == {p: (tmp_path / "out" / p).read_bytes() for p in before}


def test_bench_prints_the_table(call, folder):
    code, printed, err = call(
        "bench", folder, "--weights", "tiny.safetensors", "--samples", 20, "--json"
    )
    assert code == 0, err
    facts = json.loads(printed)
    assert facts["pairs"] == 2
    assert facts["weights"] == "tiny"
    assert np.isfinite(facts["mean_x100"])


def test_import_weights(call, tmp_path):
    torch = pytest.importorskip("torch")
    torch.save({"a": torch.zeros(1)}, tmp_path / "a.pth")
    code, _, err = call("import-weights", tmp_path / "a.pth", tmp_path / "a.safetensors")
    assert code == 1
    assert "holds no weights of the reference's network" in err
    assert not (tmp_path / "a.safetensors").exists()


def test_demo_matches_the_shipped_pair(call, tmp_path):
    pytest.importorskip("matplotlib")
    code, printed, err = call("demo", "--out", tmp_path / "demo")
    assert code == 0, err
    names = sorted(path.name for path in (tmp_path / "demo").iterdir())
    assert names == ["map.txt", "map.txt.json", "picture.png"]
    error = next(line for line in printed.splitlines() if line.startswith("mean error"))
    # a map by chance lies at about 40
    assert float(error.split()[-1]) < 10
    assert call("demo", "--out", tmp_path / "demo")[0] == 1


# ------------------------------------------------------------------------------ wrong use


FAILURES = {
    "no shape": ("match", "none.ply", "lion.ply", "--out", "OUT.txt"),
    "no weights": ("match", "cat.ply", "lion.ply", "--out", "OUT.txt", "--weights", "none"),
    "torch weights": ("match", "cat.ply", "lion.ply", "--out", "OUT.txt", "--weights", "a.pth"),
    "shape as weights": (
        "match", "cat.ply", "lion.ply", "--out", "OUT.txt", "--weights", "cat.ply"),
    "map as shape": ("match", "corres/cat.vts", "lion.ply", "--out", "OUT.txt"),
    "no folder": ("match", "cat.ply", "lion.ply", "--out", "none/OUT.txt"),
    "no map": ("evaluate", "none.txt", "--target", "lion.ply", "--truth", "map.txt"),
    "shape as map": ("evaluate", "cat.ply", "--target", "lion.ply", "--truth", "map.txt"),
    "no truth": ("view", "cat.ply", "lion.ply", "map.txt", "--out", "OUT.png", "--truth", "no"),
    "no picture": ("view", "cat.ply", "lion.ply", "map.txt", "--out", "OUT.jpg"),
    "no info": ("info", "none.ply"),
    "folder as shape": ("info", "off"),
    "few points": ("train", "--set", "data.points=50", "--out", "OUT"),
    "no data": ("train", "--recipe", "scape", "--data", "none", "--out", "OUT"),
    "no folder named": ("train", "--recipe", "scape", "--out", "OUT"),
    "no recipe": ("train", "--recipe", "none", "--out", "OUT"),
    "unknown field": ("train", "--set", "train.pace=3", "--out", "OUT"),
    "odd slice": ("bench", ".", "--shapes", "3", "--out", "OUT"),
    "bench of nothing": ("bench", "nowhere", "--out", "OUT"),
    "unknown method": ("bench", ".", "--method", "other"),
    "many pairs": ("bench", ".", "--pairs", "3", "--weights", "tiny.safetensors"),
    "much noise": ("bench", ".", "--noise", "2"),
    "unknown refinement": ("bench", ".", "--refine", "icp"),
    "coupled signatures": ("bench", ".", "--method", "hks", "--coupled"),
    "no pairs": ("bench", ".", "--pairs", "0", "--weights", "tiny.safetensors"),
    "no list of pairs": ("bench", ".", "--pairs", "listed", "--weights", "tiny.safetensors"),
    "nothing left": ("bench", ".", "--thin", "1"),
    "a turn too far": ("bench", ".", "--turn", "200"),
    "fewer than no points": ("bench", ".", "--resample", "-3"),
    "no shapes chosen": ("bench", ".", "--shapes", "1:2", "--weights", "tiny.safetensors"),
    "empty bench": ("bench", "off"),
    "no file to import": ("import-weights", "none.pth", "OUT.safetensors"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAILURES)
def test_what_users_can_mend_is_one_line_and_leaves_nothing_behind(call, folder, name):
    before = sorted(folder.rglob("*"))
    code, printed, err = call(*FAILURES[name])
    assert code == 1
    assert printed == ""
    lines = [line for line in err.splitlines() if line.strip()]
    assert len(lines) == 1
    assert lines[0].startswith("coembed: ")
    assert "Traceback" not in err
    assert sorted(folder.rglob("*")) == before


MISUSES = {
    "no command": (),
    "unknown command": ("fly",),
    "no output": ("match", "cat.ply", "lion.ply"),
    "unknown option": ("info", "cat.ply", "--fast"),
    "odd ending": ("match", "cat.ply", "lion.ply", "--out", "OUT.mat"),
    "half a truth": (
        "evaluate", "map.txt", "--target", "lion.ply", "--truth", "corres/cat.vts"),
    "two truths": (
        "evaluate", "map.txt", "--target", "lion.ply", "--truth", "map.txt",
        "--target-truth", "corres/lion.vts"),
    "odd pairs": ("bench", ".", "--pairs", "some", "--out", "OUT"),
    "half a pair": ("bench", ".", "--pairs", "1.5"),
    "negative pairs": ("bench", ".", "--pairs", "-1"),
    "half a point": ("bench", ".", "--resample", "1.5"),
    "odd points": ("match", "cat.ply", "lion.ply", "--out", "OUT.txt", "--points", "3x"),
    "odd memory": ("match", "cat.ply", "lion.ply", "--out", "OUT.txt", "--max-memory", "3TB"),
    "several embeddings in one file": ("embed", "cat.ply", "lion.ply", "--out", "OUT.npz"),
    "no jobs": ("bench", ".", "--jobs", "0"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISUSES)
def test_wrong_use_has_exit_code_two(call, folder, name):
    before = sorted(folder.rglob("*"))
    code, _, err = call(*MISUSES[name])
    assert code == 2
    assert "Usage" in err
    assert "Traceback" not in err
    assert sorted(folder.rglob("*")) == before


ODD_NUMBERS = {
    "samples": ("evaluate", "map.txt", "--target", "lion.ply", "--truth", "map.txt",
                "--samples", "-3"),
    "bench samples": ("bench", ".", "--weights", "tiny.safetensors", "--samples", "-3"),
    "no bodies": ("bodies", "--n", "0", "--out", "OUT"),
    "seed of bodies": ("bodies", "--n", "1", "--points", "50", "--seed", "-1", "--out", "OUT"),
    "seed of training": ("train", "--set", "data.seed=-1", "--out", "OUT"),
    "jobs": ("train", "--jobs", "0", "--out", "OUT"),
    "bodies to train on": ("train", "--set", "data.bodies=-1", "--out", "OUT"),
}  # fmt: skip


@pytest.mark.parametrize("name", ODD_NUMBERS)
def test_numbers_that_make_no_sense_are_refused(call, folder, name):
    before = sorted(folder.rglob("*"))
    code, _, err = call(*ODD_NUMBERS[name])
    assert code in (1, 2)
    assert "Traceback" not in err
    assert sorted(folder.rglob("*")) == before


def test_debug_shows_the_traceback(folder, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["coembed", "info", "none.ply", "--debug"])
    with pytest.raises(coembed.CoembedError):
        cli.main()


def test_the_program_itself(tmp_path):
    """A process of its own: exit codes as a shell sees them, no traceback."""
    start = [sys.executable, "-m", "coembed"]
    done = subprocess.run([*start, "--version"], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert coembed.__version__ in done.stdout
    done = subprocess.run(
        [*start, "info", "none.ply"], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 1
    assert done.stderr == "coembed: none.ply: no such file\n"
    done = subprocess.run([*start, "info"], capture_output=True, text=True, check=False)
    assert done.returncode == 2


# ------------------------------------------------------------------------------------ help


@pytest.mark.parametrize("name", sorted(cli.commands.commands))
def test_every_command_has_help_with_an_example(name):
    shown = CliRunner().invoke(cli.commands, [name, "--help"])
    assert shown.exit_code == 0
    assert f"Example: coembed {name} " in shown.output
    example = shown.output.split("Example: coembed ")[1].split("\n\n")[0].split()
    # the example parses: its options exist
    options = {word for word in example if word.startswith("--")}
    known = {opt for param in cli.commands.commands[name].params for opt in param.opts}
    assert options <= known


def test_the_group_lists_every_command():
    shown = CliRunner().invoke(cli.commands, ["--help"]).output
    for name in cli.commands.commands:
        assert f"\n  {name} " in shown


def test_check_reports_every_shape_and_fails_for_one_that_would_be_refused(call, tmp_path):
    (tmp_path / "one.xyz").write_text("1 2 3\n")
    code, printed, err = call(
        "check", "cat.ply", tmp_path / "one.xyz", tmp_path / "none.xyz", "--json"
    )
    reports = [json.loads(line) for line in printed.splitlines()]
    assert code == 1
    assert (reports[0]["rows"], reports[0]["refusal"]) == (150, "")
    assert "at least 20 points" in reports[1]["refusal"]
    assert "no such file" in reports[2]["refusal"]
    assert "2 of 3 shapes would be refused" in err
    code, printed, _ = call("check", "cat.ply")
    assert code == 0
    assert "rows          150" in printed


def test_rerun_repeats_a_match_and_sees_what_has_changed(call, folder, tmp_path):
    out, copy = tmp_path / "a.txt", tmp_path / "lion.ply"
    copy.write_bytes((folder / "lion.ply").read_bytes())
    weights = ("--weights", folder / "tiny.safetensors")
    assert call("match", folder / "cat.ply", copy, "--out", out, *weights)[0] == 0
    again = tmp_path / "b.txt"
    code, printed, _ = call("rerun", f"{out}.json", "--out", again, "--json")
    assert code == 0
    assert json.loads(printed)["same_answer"] is True
    assert again.read_bytes() == out.read_bytes()
    record = json.loads((tmp_path / "a.txt.json").read_text())
    (tmp_path / "other.json").write_text(json.dumps({**record, "answer_sha256": "0"}))
    code, _, err = call("rerun", tmp_path / "other.json")
    assert code == 1
    assert "the answer differs" in err
    copy.write_bytes((folder / "cat.ply").read_bytes())
    code, _, err = call("rerun", f"{out}.json")
    assert code == 1
    assert "has changed since" in err
    (tmp_path / "c.json").write_text("[]")
    assert call("rerun", tmp_path / "c.json")[0] == 1


def test_o04_a_cut_file_is_refused_unless_asked_for_and_then_told(call, folder, tmp_path):
    """In every command that reads shapes; the record says so, and rerun and carry know."""
    cut, weights = tmp_path / "cut.ply", ("--weights", folder / "tiny.safetensors")
    cut.write_bytes((folder / "cat.ply").read_bytes()[: -24 * 50 - 5])
    told = "the file is cut off: of 150 rows of element 'vertex' 99 are there and are used"
    out = tmp_path / "a.txt"
    code, _, err = call("match", cut, "lion.ply", "--out", out, *weights)
    assert code == 1
    assert "declares 150 rows of element 'vertex' but 99 " in err
    code, _, err = call("match", cut, "lion.ply", "--out", out, *weights, "--incomplete")
    assert code == 0
    assert told in err
    assert len(out.read_text().splitlines()) == 99
    assert told in json.loads((tmp_path / "a.txt.json").read_text())["source"]["changes"]
    assert call("rerun", f"{out}.json")[0] == 0
    assert call("transfer", cut, "lion.ply", out, "--out", tmp_path / "b.ply")[0] == 1
    (tmp_path / "whole.ply").write_bytes((folder / "lion.ply").read_bytes())
    assert call("check", cut)[0] == 1
    code, printed, _ = call("check", cut, "--incomplete")
    assert code == 0
    assert told in printed
    assert call("info", cut, "--incomplete")[0] == 0
    assert call("embed", cut, "--out", tmp_path / "e.npz", *weights, "--incomplete")[0] == 0
    assert call("evaluate", "map.txt", "--target", cut, "--truth", "map.txt", "--incomplete")[0]
    words = ("carry", "lion.ply", cut, "--out", tmp_path / "maps", *weights, "--json")
    assert call(*words)[0] == 1
    assert json.loads(call(*words, "--incomplete")[1])["done"] == 1
    assert json.loads(call(*words, "--incomplete")[1])["kept"] == 1


def test_a_part_of_a_file_is_chosen_for_every_command(call, folder, tmp_path):
    """The record names it, so that rerun finds it, and carry does not take one part for another."""
    cat, lion = (formats.read(folder / f"{name}.ply").points for name in ("cat", "lion"))
    two, weights = tmp_path / "two.npz", ("--weights", folder / "tiny.safetensors")
    np.savez(two, cat=cat, lion=lion)
    assert call("match", two, "cat.ply", "--out", tmp_path / "a.txt", *weights)[0] == 1
    out = tmp_path / "a.txt"
    assert call("match", f"{two}#lion", f"{two}#cat", "--out", out, *weights)[0] == 0
    assert call("match", "lion.ply", "cat.ply", "--out", tmp_path / "b.txt", *weights)[0] == 0
    assert out.read_bytes() == (tmp_path / "b.txt").read_bytes()
    assert call("rerun", f"{out}.json")[0] == 0
    assert call("embed", f"{two}#lion", "--out", tmp_path / "e", *weights)[0] == 0
    assert (tmp_path / "e" / "two.npz").exists()
    for part, state in (("cat", "done"), ("cat", "kept"), ("lion", "done")):
        words = ("carry", "cat.ply", f"{two}#{part}", "--out", tmp_path / "maps", *weights)
        assert json.loads(call(*words, "--json")[1])[state] == 1
    assert (tmp_path / "maps" / "two.txt").exists()


def test_rerun_sees_that_the_map_beside_the_record_is_another(call, folder, tmp_path):
    out, weights = tmp_path / "a.txt", ("--weights", "tiny.safetensors")
    assert call("match", "cat.ply", "lion.ply", "--out", out, *weights)[0] == 0
    assert json.loads(call("rerun", f"{out}.json", "--json")[1])["map_beside"] == "the same"
    rows = out.read_text().splitlines()
    out.write_text("\n".join(["3" if rows[0] != "3" else "4", *rows[1:]]))
    code, _, err = call("rerun", f"{out}.json")
    assert code == 1
    assert "1 rows are not those that were recorded" in err
    out.unlink()
    assert json.loads(call("rerun", f"{out}.json", "--json")[1])["map_beside"] == "not there"


def test_carry_matches_a_template_to_all_and_tells_which_failed(call, folder, tmp_path):
    broken = tmp_path / "broken.ply"
    broken.write_bytes((folder / "cat.ply").read_bytes()[:500])
    words = (
        "carry", folder / "cat.ply", folder / "lion.ply", broken, "--out", tmp_path / "out",
        "--weights", folder / "tiny.safetensors", "--json",
    )  # fmt: skip
    code, printed, err = call(*words)
    assert code == 1
    facts = json.loads(printed)
    assert (facts["done"], facts["failed"], facts["refused"]) == (1, 1, 0)
    assert "of 2 specimens 1 failed" in err
    assert "broken.ply" in err
    assert json.loads(call(*words)[1])["kept"] == 1


def test_match_writes_the_deformed_source(call, folder, tmp_path):
    words = (
        "match",
        "cat.ply",
        "cat.ply",
        "--out",
        tmp_path / "a.txt",
        "--weights",
        "tiny.safetensors",
    )
    made = ("--deformed", tmp_path / "d.ply", "--morph", tmp_path / "m")
    code, _, err = call(*words, "--refine", "register", *made)
    assert code == 0, err
    moved, still = formats.read(tmp_path / "d.ply"), formats.read(folder / "cat.ply")
    size = np.ptp(still.points, axis=0).max()
    assert np.abs(moved.points - still.points).max() < 0.05 * size
    frames = sorted((tmp_path / "m").iterdir())
    assert [path.name for path in frames] == [f"{number:02}.ply" for number in range(21)]
    np.testing.assert_array_equal(formats.read(frames[20]).points, moved.points)
    code, _, err = call(*words, "--force", "--deformed", tmp_path / "e.ply")
    assert code == 2
    assert "--refine register only" in err


def test_doctor_tells_what_works_and_what_to_install(call, monkeypatch):
    code, printed, _ = call("doctor", "--json")
    facts = json.loads(printed)
    assert code == 0
    assert facts["formats"][".ply"] == "works"
    assert set(facts["extras"]) == {"train", "view", "bench", "segment", "las", "mat"}
    monkeypatch.setattr(compiled, "native", lambda: None)
    import importlib.util

    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "laspy" else found(name)
    )
    code, printed, _ = call("doctor")
    assert code == 0
    assert "compiled          not built" in printed
    assert 'no laspy: pip install "coembed[las]"' in printed


def test_transfer_writes_the_source_with_the_targets_attributes(call, folder, tmp_path):
    other = files.read_matches(folder / "map.txt", n_target=150)
    lion = formats.read(folder / "lion.ply")
    labelled = coembed.Shape(lion.points, attributes={"label": np.arange(150, dtype=np.uint8)})
    formats.write(tmp_path / "lion.ply", labelled)
    words = ("transfer", folder / "cat.ply", tmp_path / "lion.ply", folder / "map.txt")
    code, printed, err = call(*words, "--out", tmp_path / "out.ply")
    assert code == 0, err
    assert "label" in printed
    found = formats.read(tmp_path / "out.ply").attributes["label"]
    np.testing.assert_array_equal(found, other.p2p)


def test_transfer_to_the_target_and_of_landmarks(call, folder, tmp_path):
    shape = formats.read(folder / "cat.ply")
    attributes = {"part": np.arange(150, dtype=np.int32) % 5, "heat": shape.points[:, 0]}
    formats.write(tmp_path / "cat.ply", Shape(shape.points, attributes=attributes))
    words = ("transfer", tmp_path / "cat.ply", "lion.ply", "map.txt", "--to", "target", "--out")
    code, printed, err = call(*words, tmp_path / "a.ply", "--what", "labels", "--json")
    assert code == 0, err
    assert json.loads(printed) == {
        "map": "source to target, rows counted from 0", "attributes": ["part"], "without": 0,
        "shape": str(tmp_path / "a.ply"),
    }  # fmt: skip
    assert list(formats.read(tmp_path / "a.ply").attributes) == ["part"]
    code, _, err = call(
        "transfer", tmp_path / "cat.ply", "lion.ply", "map.txt", "--out", tmp_path / "b.ply"
    )
    assert code == 1
    assert "carry them --to target" in err
    (tmp_path / "marks.txt").write_text("nose 7\ntail 140\n")
    marks = ("--what", "landmarks", "--landmarks", tmp_path / "marks.txt")
    code, printed, err = call(*words, tmp_path / "a.csv", *marks)
    assert code == 0, err
    assert "landmarks  2" in printed
    rows = [line.split(",")[:2] for line in (tmp_path / "a.csv").read_text().splitlines()]
    assert rows[1:] == [["nose", "7"], ["tail", "140"]]
    assert call(*words, tmp_path / "c.csv", "--what", "landmarks")[0] == 2


def test_match_and_bench_write_reports(call, folder, tmp_path):
    pytest.importorskip("matplotlib")
    weights = ("--weights", "tiny.safetensors")
    report = tmp_path / "a.html"
    words = ("match", "cat.ply", "lion.ply", "--out", tmp_path / "a.txt", *weights)
    code, printed, err = call(*words, "--report", report, "--json")
    assert code == 0, err
    assert json.loads(printed)["report"] == str(report)
    assert b"Run record" in report.read_bytes()
    code, _, err = call(*words, "--force", "--report", tmp_path / "a.pdf")
    assert code == 1
    assert "reports are written as .html" in err
    bench = ("bench", ".", "--pairs", 1, "--samples", 20, *weights)
    code, _, err = call(*bench, "--report", tmp_path / "b.html")
    assert code == 0, err
    assert (tmp_path / "b.html").read_bytes().count(b"data:image/png") == 1


def test_bench_reports_the_worst_pairs_of_truth_counted_from_0(call, folder, tmp_path):
    pytest.importorskip("matplotlib")
    (tmp_path / "corres").mkdir()
    (tmp_path / "off").mkdir()
    for name in ("cat", "lion"):
        shape = formats.read(folder / f"{name}.ply")
        formats.write(tmp_path / "off" / f"{name}.ply", shape)
        rows = "\n".join(map(str, range(150))) + "\n"
        (tmp_path / "corres" / f"{name}.vts").write_text(rows)
    words = (
        "bench", tmp_path, "--weights", "tiny.safetensors", "--samples", 20, "--json",
        "--report", tmp_path / "worst.html",
    )  # fmt: skip
    code, printed, err = call(*words, "--truth-base", 0)
    assert code == 0, err
    assert (tmp_path / "worst.html").read_bytes().count(b"data:image/png") == 2
    same = call("bench", ".", "--weights", "tiny.safetensors", "--samples", 20, "--json")[1]
    mean = "mean_x100"
    assert json.loads(printed)[mean] == pytest.approx(json.loads(same)[mean], abs=1e-6)
    code, _, err = call(*words, "--force")
    assert code == 1  # row 0 where rows are counted from 1
    assert ".vts" in err


def test_a_refused_map_is_not_written_unless_asked_for(call, folder, torus, tmp_path):
    formats.write(tmp_path / "torus.ply", torus)
    out = tmp_path / "m.txt"
    words = ("match", "cat.ply", tmp_path / "torus.ply", "--out", out, "--both")
    words += ("--weights", "tiny.safetensors")
    code, printed, err = call(*words)
    assert (code, printed) == (1, "")
    assert "no map of cat.ply to" in err
    assert "nothing is written" in err
    assert err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["torus.ply"]
    code, printed, err = call(*words, "--anyway")
    assert code == 0, err
    assert "refused" in printed
    assert out.exists()
    record = json.loads((tmp_path / "m.txt.json").read_text())
    assert record["verdict"]["word"] == "refused"


def test_carry_tells_what_was_refused(call, folder, torus, tmp_path):
    formats.write(tmp_path / "torus.ply", torus)
    words = ("carry", "cat.ply", "lion.ply", tmp_path / "torus.ply", "--out", tmp_path / "out")
    words += ("--weights", "tiny.safetensors", "--json")
    code, printed, err = call(*words)
    assert code == 1
    facts = json.loads(printed)
    assert (facts["done"], facts["refused"], facts["failed"]) == (1, 1, 0)
    assert "of 2 specimens 1 refused" in err
    assert len(list((tmp_path / "out").rglob("*.txt"))) == 1
    code, printed, _ = call(*words, "--anyway")
    assert code == 0
    assert json.loads(printed)["kept"] == 1


@pytest.mark.parametrize("verb", ["segment", "bases", "embed"])
@pytest.mark.parametrize("way", ["target", "x:y"])
def test_shapes_alone_have_no_target_to_turn_to(call, tmp_path, verb, way):
    out = tmp_path / ("o.png" if verb == "bases" else "o")
    code, _, err = call(verb, "cat.ply", "--out", out, "--align", way)
    assert code == 2
    assert "there is no target here" in err
    assert not out.exists()


def test_segment_writes_parts_a_table_and_a_picture(call, tmp_path):
    pytest.importorskip("sklearn")
    pytest.importorskip("matplotlib")
    words = ("segment", "cat.ply", "lion.ply", "--parts", 3, "--weights", "tiny.safetensors")
    words = (*words, "--out", tmp_path / "parts", "--picture", tmp_path / "a.png")
    code, printed, err = call(*words, "--json")
    assert code == 0, err
    assert json.loads(printed)["parts"] == [3]
    names = sorted(path.name for path in (tmp_path / "parts").iterdir())
    assert names == ["cat.ply", "lion.ply", "parts.csv"]
    assert (tmp_path / "a.png").stat().st_size > 5000
    code, _, err = call(*words)
    assert code == 1
    assert "exists already" in err
    assert call(*words, "--force", "--independent")[0] == 0


def test_bases_draws_a_picture(call, tmp_path):
    pytest.importorskip("matplotlib")
    words = ("bases", "cat.ply", "lion.ply", "--weights", "tiny.safetensors", "--functions", 2)
    code, printed, err = call(*words, "--out", tmp_path / "a.png")
    assert code == 0, err
    assert printed == f"picture  {tmp_path / 'a.png'}\n"
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
