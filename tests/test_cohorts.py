import csv
import json
from pathlib import Path

import pytest

from coembed import cohorts, files, formats, matching
from coembed.errors import InputError
from coembed.shapes import Shape


@pytest.fixture
def scans(tmp_path, sphere_points):
    """Four scans in folders of their own, of the same name but for the case; one is broken."""
    paths = []
    for folder, name, n in (("a", "scan", 100), ("b", "scan", 120), ("c", "SCAN", 140)):
        path = tmp_path / "in" / folder / f"{name}.ply"
        path.parent.mkdir(parents=True)
        formats.write(path, Shape(sphere_points(n) * [1, 2, 3]))
        paths.append(path)
    broken = tmp_path / "in" / "d.ply"
    broken.write_bytes(paths[0].read_bytes()[:900])
    return [*paths, broken]


@pytest.fixture
def template(tiny_model, sphere):
    return matching.embed(tiny_model, sphere)


def carried(tiny_model, template, scans, out, **settings):
    # the maps of untrained weights are rightly refused
    return [
        cohorts.carry(tiny_model, template, *pair, **{"anyway": True, **settings})
        for pair in zip(scans, cohorts.map_paths(scans, out), strict=True)
    ]


def test_each_specimen_has_a_map_of_its_own_and_a_broken_one_its_reason(
    tiny_model, template, scans, tmp_path
):
    results = carried(tiny_model, template, scans, tmp_path / "out")
    assert [r.state for r in results] == ["done", "done", "done", "failed"]
    assert "d.ply" in results[3].reason
    for result, n in zip(results, (100, 120, 140), strict=False):
        assert result.points == n
        assert len(files.read_matches(result.map, n_target=n).p2p) == 500
    assert len({r.map.casefold() for r in results}) == 4


def test_what_is_finished_is_kept_and_what_has_changed_is_made_again(
    tiny_model, template, scans, tmp_path, sphere_points
):
    out = tmp_path / "out"
    first = carried(tiny_model, template, scans[:2], out)
    before = Path(first[0].map).read_bytes()
    again = carried(tiny_model, template, scans[:2], out)
    assert [r.state for r in again] == ["kept", "kept"]
    assert [(r.points, r.mean_score) for r in again] == [(r.points, r.mean_score) for r in first]
    formats.write(scans[1], Shape(sphere_points(130) * [1, 2, 3]), force=True)
    changed = carried(tiny_model, template, scans[:2], out)
    assert [r.state for r in changed] == ["kept", "done"]
    assert changed[1].points == 130
    assert Path(first[0].map).read_bytes() == before
    other = carried(tiny_model, template, scans[:1], out, points=60)
    assert other[0].state == "done"
    forced = carried(tiny_model, template, scans[1:2], out / "b", force=True)
    assert forced[0].state == "done"


def test_a_map_that_is_not_ours_is_never_overwritten(tiny_model, template, scans, tmp_path):
    (tmp_path / "out" / "a").mkdir(parents=True)
    (tmp_path / "out" / "a" / "scan.txt").write_text("mine")
    results = carried(tiny_model, template, scans[:2], tmp_path / "out")
    assert [r.state for r in results] == ["failed", "done"]
    assert (tmp_path / "out" / "a" / "scan.txt").read_text() == "mine"


def test_names_that_differ_by_case_or_ending_only_stay_apart(tmp_path):
    specimens = [tmp_path / name for name in ("x.ply", "X.ply", "x.obj", "y.ply")]
    found = cohorts.map_paths(specimens, tmp_path / "out")
    assert [path.name for path in found] == ["x.txt", "X-2.txt", "x-3.txt", "y.txt"]
    with pytest.raises(InputError, match="named twice"):
        cohorts.map_paths([tmp_path / "x.ply", tmp_path / "." / "x.ply"], tmp_path)


def test_the_summary_has_a_line_for_each(tiny_model, template, scans, tmp_path):
    results = carried(tiny_model, template, scans, tmp_path / "out")
    table, listing = cohorts.write_summary(tmp_path / "out", results)
    with table.open(encoding="utf-8") as opened:
        rows = list(csv.DictReader(opened))
    assert [row["state"] for row in rows] == ["done", "done", "done", "failed"]
    assert [row["map"] for row in json.loads(listing.read_text())] == [r.map for r in results]


def test_an_uncarried_record_is_made_again(tiny_model, template, scans, tmp_path):
    out = tmp_path / "out"
    result = carried(tiny_model, template, scans[:1], out)[0]
    record = Path(result.map + ".json")
    stored = json.loads(record.read_text())
    record.write_text(json.dumps({**stored, "made_of": {}}))
    again = carried(tiny_model, template, scans[:1], out)[0]
    assert again == result


@pytest.mark.parametrize("harm", ["cut", "beyond", "gone"])
def test_a_map_that_is_no_longer_whole_is_made_again(tiny_model, template, scans, tmp_path, harm):
    out = tmp_path / "out"
    path = Path(carried(tiny_model, template, scans[:1], out)[0].map)
    before = path.read_bytes()
    lines = path.read_text().splitlines()
    lines = lines[:300] if harm == "cut" else ["100", *lines[1:]]
    path.unlink() if harm == "gone" else path.write_text("\n".join(lines))
    again = carried(tiny_model, template, scans[:1], out)[0]
    assert again.state == "done"
    assert path.read_bytes() == before


def test_refused_maps_are_told_and_not_written(tiny_model, template, scans, tmp_path):
    out = tmp_path / "out"
    results = carried(tiny_model, template, scans[2:], out, anyway=False)
    assert [r.state for r in results] == ["refused", "failed"]
    assert "the mean score is" in results[0].reason
    assert results[0].mean_score < 0.5
    assert not out.exists()
    assert carried(tiny_model, template, scans[2:], out)[0].state == "done"
