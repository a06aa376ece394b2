import os
import struct
import subprocess
import sys

import numpy as np
import pytest

from coembed import formats, viewing
from coembed.errors import InputError
from coembed.evaluation import GeodesicErrors
from coembed.files import write_matches
from coembed.matching import embed
from coembed.shapes import Correspondence, Shape


@pytest.fixture
def pair(sphere_points):
    one = Shape(sphere_points(60), name="one", attributes={"part": np.arange(60) // 20})
    other = Shape(sphere_points(80), name="other")
    p2p = np.arange(60)
    p2p[:5] = -1
    return one, other, Correspondence(p2p, np.linspace(0, 1, 60), 80)


def size_of(path):
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG\r\n")
    return struct.unpack(">II", content[16:24])


def test_a_picture_of_two_panels_or_of_three(pair, tmp_path):
    pytest.importorskip("matplotlib")
    viewing.view(*pair, tmp_path / "a.png")
    errors = GeodesicErrors(np.array([1, 7]), np.array([0.01, np.inf]), "by hand")
    viewing.view(*pair, str(tmp_path / "b.png"), errors=errors, by="part", up="z")
    viewing.view(*pair, tmp_path / "c.svg", by="trust")
    two, three = size_of(tmp_path / "a.png"), size_of(tmp_path / "b.png")
    assert three[0] == pytest.approx(1.5 * two[0], rel=0.05)
    assert b"trust" in (tmp_path / "c.svg").read_bytes()


def test_a_page_begins_with_the_colours_asked_for(pair, tmp_path):
    viewing.view(*pair, tmp_path / "a.html", by="part")
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert page.index('"label": "part"') < page.index('"label": "position"')


def test_pictures_need_no_display_and_pages_no_matplotlib(pair, tmp_path):
    pytest.importorskip("matplotlib")
    one, other, matches = pair
    formats.write(tmp_path / "one.ply", one)
    formats.write(tmp_path / "other.ply", other)
    write_matches(tmp_path / "map.npz", matches)
    bare = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY")}
    words = [sys.executable, "-m", "coembed", "view", "one.ply", "other.ply", "map.npz", "--out"]
    subprocess.run([*words, "a.png"], cwd=tmp_path, env=bare, check=True)
    size_of(tmp_path / "a.png")
    code = "import sys; sys.modules['matplotlib'] = None; from coembed.cli import main; main()"
    words = [sys.executable, "-c", code, *words[3:], "a.html"]
    subprocess.run(words, cwd=tmp_path, env=bare, check=True)
    words[-1] = "b.png"
    done = subprocess.run(words, cwd=tmp_path, env=bare, capture_output=True, text=True)
    assert done.returncode == 1
    assert 'pip install "coembed[view]"' in done.stderr


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"out": "a.jpg"}, r"drawn as \.html, \.png or \.svg"),
        ({"up": "w"}, "up must be x, y or z"),
        ({"shown": 0}, "shown must be 1 or more"),
        ({"by": "hat"}, "nothing called 'hat'"),
    ],
)
def test_bad_settings(pair, tmp_path, settings, message):
    out = tmp_path / settings.pop("out", "a.html")
    with pytest.raises(InputError, match=message):
        viewing.view(*pair, out, **settings)
    assert not list(tmp_path.iterdir())


def test_bases_have_a_row_for_each_shape_and_kind(sphere_points, tiny_model, tmp_path):
    pytest.importorskip("matplotlib")
    shapes = [Shape(sphere_points(200) * factors) for factors in ([1, 1.5, 2], [1, 1.4, 2.2])]
    embedded = [embed(tiny_model, shape) for shape in shapes]
    viewing.draw_bases(shapes, embedded, tmp_path / "a.png", n=3)
    width, height = size_of(tmp_path / "a.png")
    viewing.draw_bases(shapes[:1], embedded[:1], tmp_path / "b.png", n=3)
    assert height == pytest.approx(2 * size_of(tmp_path / "b.png")[1], rel=0.02)
    viewing.draw_bases(shapes, embedded, tmp_path / "c.png", n=6)
    assert size_of(tmp_path / "c.png")[0] == pytest.approx(2 * width, rel=0.05)
    with pytest.raises(InputError, match="must be 1 to 8; got 9"):
        viewing.draw_bases(shapes, embedded, tmp_path / "d.png", n=9)


def test_nothing_is_overwritten_unasked(pair, tmp_path):
    (tmp_path / "a.html").write_text("mine")
    with pytest.raises(InputError, match="exists already"):
        viewing.view(*pair, tmp_path / "a.html")
    viewing.view(*pair, tmp_path / "a.html", force=True)
    assert (tmp_path / "a.html").stat().st_size > 500_000


def test_a_map_of_other_shapes(pair, tmp_path):
    one, other, matches = pair
    with pytest.raises(InputError, match="leads from 60 to 80 points; other has 80 and one 60"):
        viewing.view(other, one, matches, tmp_path / "a.html")
    assert not list(tmp_path.iterdir())
