import base64
import json
import re
import shutil
import subprocess
import zlib

import numpy as np
import pytest

from coembed import pages
from coembed.colourings import colourings
from coembed.shapes import Correspondence, Shape

KINDS = {"u1": np.uint8, "i1": np.int8, "u2": np.uint16, "u4": np.uint32, "i4": np.int32}


@pytest.fixture
def pair(sphere_points):
    points = sphere_points(300)
    one = Shape(points, name="</script><b>one</b>", attributes={"part": np.arange(300) % 3})
    other = Shape(2 * sphere_points(200), name="other", attributes={"heat": np.linspace(0, 1, 200)})
    p2p = np.arange(300) % 200
    p2p[:5] = -1
    return one, other, Correspondence(p2p, np.linspace(0.1, 1, 300), 200)


def page_of(pair, **settings):
    return pages.viewer_page(*pair, colourings(*pair), **settings).decode()


def content(page):
    """The facts of a page and a function to its arrays, read as the page reads them."""
    facts = json.loads(re.search(r'<script id="facts"[^>]*>(.*?)</script>', page, re.S)[1])
    packed = re.search(r'<script id="data"[^>]*>(.*?)</script>', page, re.S)[1]
    buffer = zlib.decompress(base64.b64decode(packed))
    return facts, lambda place: np.frombuffer(buffer, KINDS[place[0]], place[2], place[1])


def test_a_page_holds_positions_map_and_values(pair):
    one, _, matches = pair
    facts, array = content(page_of(pair))
    side = facts["sides"][0]
    assert side["shown"] == 300
    assert side["rows"] is None
    assert side["unmatched"] == 5
    placed = np.array(side["low"]) + side["step"] * array(side["positions"]).reshape(-1, 3)
    scale = np.ptp(one.points[:, 0]) / np.ptp(placed[:, 0])
    spans = np.ptp(one.points, axis=0) / scale
    np.testing.assert_allclose(np.ptp(placed, axis=0), spans, atol=4e-5)
    np.testing.assert_array_equal(array(facts["map"]), matches.p2p)
    labels = [channel["label"] for channel in facts["channels"]]
    assert labels == ["position", "trust", "part", "heat"]
    trust = facts["channels"][1]
    stored = array(trust["values"][0])
    assert (stored[:5] == 65535).all()
    np.testing.assert_allclose(stored[5:] / 65534, matches.score[5:], atol=1e-5)
    np.testing.assert_array_equal(array(facts["channels"][2]["values"][0]), np.arange(300) % 3)


def test_thinning_keeps_every_partner_and_the_files_rows(pair):
    _, _, matches = pair
    facts, array = content(page_of(pair, shown=60))
    one, other = (array(side["rows"]) for side in facts["sides"])
    assert 40 <= len(one) <= 60
    assert len(other) <= 90
    there = array(facts["map"])
    ends = np.where(there < 0, -1, other[there].astype(np.int64))
    np.testing.assert_array_equal(ends, matches.p2p[one])
    hits = np.bincount(matches.p2p[matches.p2p >= 0], minlength=200)
    np.testing.assert_array_equal(array(facts["hits"]), hits[other])
    assert any("points are shown" in note for note in facts["notes"])


def test_names_of_files_cannot_become_markup(pair):
    page = page_of(pair)
    assert "<b>one" not in page
    assert content(page)[0]["sides"][0]["title"] == "source: </script><b>one</b> (300 points)"
    assert page.count("<script") == 3
    assert not re.search(r'(src|href)="?https?:', page)


def test_the_same_input_gives_the_same_bytes_and_the_licence_is_there(pair):
    page = page_of(pair)
    assert page == page_of(pair)
    assert "Permission is hereby granted" in page
    assert "three.js authors" in page


def test_surfaces_keep_the_faces_of_what_is_shown():
    corners = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [np.nan, 0, 0], [1, 1, 0.0]])
    shape = Shape(corners, np.array([[0, 1, 2], [1, 4, 2], [0, 1, 3]]))
    pair = (shape, shape, Correspondence(np.arange(5), np.ones(5), 5))
    facts, array = content(page_of(pair))
    side = facts["sides"][0]
    assert array(side["rows"]).tolist() == [0, 1, 2, 4]
    assert array(side["faces"]).tolist() == [0, 1, 2, 1, 3, 2]


BROWSER = shutil.which("chromium") or shutil.which("google-chrome")


@pytest.mark.skipif(BROWSER is None, reason="no Chromium to open the page with")
def test_a_browser_shows_the_page_and_names_the_partner(pair, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(page_of(pair, shown=250))
    _, _, matches = pair
    facts, array = content(path.read_text())
    row = int(array(facts["sides"][0]["rows"])[-1])
    options = (
        "--headless=new", "--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader",
        "--enable-unsafe-swiftshader", "--virtual-time-budget=20000", "--dump-dom",
        f"--user-data-dir={tmp_path / 'profile'}",
    )  # fmt: skip
    address = f"{path.as_uri()}#source={row}"
    done = subprocess.run([BROWSER, *options, address], capture_output=True, text=True, timeout=120)
    assert 'data-state="ready"' in done.stdout, done.stderr[-2000:]
    assert f"source row {row} → target row {matches.p2p[row]}" in done.stdout
