import sys

import numpy as np
import pytest

from coembed import charts
from coembed.errors import InputError, MissingExtraError


def test_curves_say_name_and_mean_and_are_the_same_every_time(tmp_path):
    pytest.importorskip("matplotlib")
    errors = {"one": np.array([0.0, 0.02, 0.04]), "two": np.array([0.1, np.nan, 0.3])}
    for name in "ab":
        png, svg = charts.draw_curves(errors, tmp_path / name)
        assert (png.name, svg.name) == (f"{name}.png", f"{name}.svg")
    for ending in ("png", "svg"):
        content = (tmp_path / f"a.{ending}").read_bytes()
        assert content == (tmp_path / f"b.{ending}").read_bytes()
    text = (tmp_path / "a.svg").read_text()
    assert "one (2.00)" in text
    assert "two (20.00)" in text
    assert (tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG"


def test_lines_have_labels_and_may_be_logarithmic(tmp_path):
    pytest.importorskip("matplotlib")
    lines = {"prepare": ([10, 100], [1, 10]), "embed": ([10, 100], [2, 3])}
    labels = ("points", "seconds")
    _, plain = charts.draw_lines(lines, tmp_path / "plain", labels=labels)
    _, log = charts.draw_lines(lines, tmp_path / "log", labels=labels, logarithmic=True)
    for word in ("prepare", "embed", *labels):
        assert word in plain.read_text()
    assert plain.read_bytes() != log.read_bytes()


def test_nothing_is_overwritten_unasked(tmp_path):
    pytest.importorskip("matplotlib")
    (tmp_path / "a.svg").write_text("mine")
    with pytest.raises(InputError, match=r"a\.svg: exists already"):
        charts.draw_curves({"one": np.zeros(3)}, tmp_path / "a")
    assert (tmp_path / "a.svg").read_text() == "mine"
    assert not (tmp_path / "a.png").exists()
    charts.draw_curves({"one": np.zeros(3)}, tmp_path / "a", force=True)
    assert (tmp_path / "a.svg").read_text() != "mine"


def test_without_matplotlib_one_line_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"coembed\[view\]"):
        charts.draw_curves({"one": np.zeros(3)}, tmp_path / "a")


@pytest.fixture
def drawn(monkeypatch):
    """Figures as they are handed to the writer."""
    figures, write = [], charts._write
    monkeypatch.setattr(
        charts, "_write", lambda figure, *more: figures.append(figure) or write(figure, *more)
    )
    return figures


def test_the_curve_by_hand(drawn, tmp_path):
    pytest.importorskip("matplotlib")
    errors = np.array([0.0, 0.05, 0.1, np.nan, 0.4])
    charts.draw_curves({"one": errors, "two": np.zeros(2)}, tmp_path / "a", limit=0.2)
    one, two = drawn[0].axes[0].get_lines()
    radii, share = one.get_data()
    assert (radii[0], radii[-1]) == (0, 0.2)
    # the missing error counts for nothing; one at the radius is within it
    for radius, wanted in ((0, 25), (0.04, 25), (0.0496, 25), (0.0504, 50), (0.11, 75), (0.2, 75)):
        assert share[np.abs(radii - radius).argmin()] == wanted
    assert (two.get_ydata() == 100).all()
    assert one.get_linestyle() != two.get_linestyle()
    words = [text.get_text() for text in drawn[0].axes[0].get_legend().get_texts()]
    assert words == ["one (13.75)", "two (0.00)"]


def test_lines_are_the_numbers_and_the_same_bytes_every_time(drawn, tmp_path):
    pytest.importorskip("matplotlib")
    lines = {"a": ([1, 2, 4], [3.0, 5, 9])}
    paths = [charts.draw_lines(lines, tmp_path / name, labels=("x", "y")) for name in "ab"]
    for one, other in zip(*paths, strict=True):
        assert one.read_bytes() == other.read_bytes()
    x, y = drawn[0].axes[0].get_lines()[0].get_data()
    assert (x.tolist(), y.tolist()) == ([1, 2, 4], [3, 5, 9])
    with pytest.raises(InputError, match="exists already"):
        charts.draw_lines(lines, tmp_path / "a", labels=("x", "y"))
    charts.draw_lines(lines, tmp_path / "a", labels=("x", "y"), logarithmic=True, force=True)
    scales = [(f.axes[0].get_xscale(), f.axes[0].get_yscale()) for f in (drawn[0], drawn[-1])]
    assert scales == [("linear", "linear"), ("log", "log")]


def test_names_are_shown_as_they_are(tmp_path):
    pytest.importorskip("matplotlib")
    _, svg = charts.draw_curves({"_mine": np.zeros(3), "a$b$c": np.zeros(3)}, tmp_path / "a")
    assert "_mine (0.00)" in svg.read_text()
    assert "a$b$c (0.00)" in svg.read_text()


def test_no_errors_are_no_curve(tmp_path):
    pytest.importorskip("matplotlib")
    with pytest.raises(InputError, match="one: there are no errors to draw"):
        charts.draw_curves({"one": np.array([np.nan])}, tmp_path / "a")
