import re

import numpy as np
import pytest

from coembed import benchmark, formats, matching, reports
from coembed.benchmark import Settings
from coembed.errors import InputError
from coembed.shapes import Correspondence, Shape

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def pair(sphere_points, tiny_model):
    points = sphere_points(150)
    one = Shape(points * [1, 1.5, 2], name="<one>")
    other = Shape(points * [1, 1.5, 2.2], name="other & co")
    return one, other, matching.match(tiny_model, one, other)


def test_a_page_on_a_match(pair):
    one, other, matches = pair
    matches.record["notes"] = ["hands touch"]
    matches.record["alignment"] = {"turned": 90.0, "by": "the spectrum"}
    page = reports.report_match(one, other, matches).decode()
    assert "&lt;one&gt; to other &amp; co" in page
    assert "<one>" not in page
    assert page.count("data:image/png;base64,") == 1
    assert "<li>hands touch</li>" in page
    assert "<li>alignment: turned 90, by the spectrum</li>" in page
    assert "answer_sha256" in page
    assert not re.search(r'(src|href)="?https?:', page)
    assert page.count("<rect") == 80
    assert page == reports.report_match(one, other, matches).decode()


def test_a_page_on_embeddings_and_on_a_map_without_answers(pair, tiny_model):
    one, other, _ = pair
    embedded = [matching.embed(tiny_model, shape) for shape in (one, other)]
    np.testing.assert_allclose(reports.shape_of(embedded[0]).points, one.points, atol=1e-12)
    nothing = Correspondence(np.full(150, -1), np.zeros(150), 150)
    page = reports.report_match(*embedded, nothing).decode()
    assert "There is nothing to count." in page
    assert "rows without a match</th><td>150<" in page


def test_neighbours_of_a_map_that_keeps_lengths_stay_at_one(sphere_points, rng):
    shape = Shape(sphere_points(400))
    order = rng.permutation(400)
    other = Shape(3 * shape.points[np.argsort(order)] + 1)
    found = reports.neighbour_distances(shape, other, Correspondence(order, np.ones(400), 400))
    np.testing.assert_allclose(found, 1)
    wild = Correspondence(rng.permutation(400), np.ones(400), 400)
    assert np.median(reports.neighbour_distances(shape, other, wild)) > 5
    none = Correspondence(np.full(400, -1), np.zeros(400), 400)
    assert len(reports.neighbour_distances(shape, other, none)) == 0


def test_a_page_on_a_benchmark_shows_the_worst_pairs(tmp_path, sphere_points, tiny_model):
    (tmp_path / "off").mkdir()
    (tmp_path / "corres").mkdir()
    for name, factors in zip("abc", ([1, 1.5, 2], [1, 1.5, 2], [2, 1, 1.2]), strict=True):
        formats.write(tmp_path / "off" / f"{name}.ply", Shape(sphere_points(200) * factors))
        rows = "\n".join(str(row + 1) for row in range(200))
        (tmp_path / "corres" / f"{name}.vts").write_text(rows)
    settings = Settings(samples=50)
    table = benchmark.bench(tiny_model, tmp_path, settings)
    worst = benchmark.worst(tiny_model, tmp_path, settings, table, n=2)
    means = np.nanmean(table.errors, axis=1)
    assert [one.errors.mean for one in worst] == sorted(means, reverse=True)[:2]
    one = worst[0]
    from coembed import evaluation

    truth = np.repeat(np.arange(200)[:, None], 2, axis=1)
    again = evaluation.evaluate(one.matches, one.target, truth, samples=50)
    np.testing.assert_array_equal(again.rows, one.errors.rows)
    np.testing.assert_allclose(again.errors, one.errors.errors, atol=1e-5)
    page = reports.report_bench({"folder": str(tmp_path), "mean_x100": 1.5}, table, worst).decode()
    assert page.count("data:image/png;base64,") == 2
    assert "mean x100</th><td>1.5<" in page


def test_reports_are_html(tmp_path):
    with pytest.raises(InputError, match=r"reports are written as \.html"):
        reports.check_report(tmp_path / "a.pdf")
