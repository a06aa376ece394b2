import struct

import numpy as np
import pytest

from coembed import viewing
from coembed.errors import InputError
from coembed.evaluation import GeodesicErrors
from coembed.shapes import Correspondence, Shape

pytest.importorskip("matplotlib")


@pytest.fixture
def pair(sphere_points):
    one, other = Shape(sphere_points(60), name="one"), Shape(sphere_points(80), name="other")
    p2p = np.arange(60)
    p2p[:5] = -1
    return one, other, Correspondence(p2p, np.ones(60), 80)


def size_of(path):
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG\r\n")
    return struct.unpack(">II", content[16:24])


def test_a_picture_of_two_panels_or_of_three(pair, tmp_path):
    viewing.view(*pair, tmp_path / "a.png")
    errors = GeodesicErrors(np.array([1, 7]), np.array([0.01, np.inf]), "by hand")
    viewing.view(*pair, str(tmp_path / "b.png"), errors=errors)
    two, three = size_of(tmp_path / "a.png"), size_of(tmp_path / "b.png")
    assert three[0] == pytest.approx(1.5 * two[0], rel=0.02)


def test_colours_are_carried_along_the_map(pair):
    one, _, matches = pair
    colours = viewing._position_colours(one.points)
    assert colours.min() >= 0
    assert colours.max() <= 1
    carried = viewing._carried(colours, matches)
    np.testing.assert_allclose(carried[5:60], colours[5:])
    assert (carried[60:] == viewing._UNREACHED).all()
    both = viewing._carried(colours[:2], Correspondence(np.array([1, 1]), np.ones(2), 3))
    np.testing.assert_allclose(both[1], colours[:2].mean(axis=0))


def test_shading_is_between_its_ends(pair):
    shade = viewing._shading(pair[1].points)
    assert shade.min() >= 0.7
    assert shade.max() <= 1 + 1e-12


def test_pictures_are_png(pair, tmp_path):
    with pytest.raises(InputError, match=r"pictures are written as \.png"):
        viewing.view(*pair, tmp_path / "a.jpg")


def test_nothing_is_overwritten_unasked(pair, tmp_path):
    (tmp_path / "a.png").write_text("mine")
    with pytest.raises(InputError, match="exists already"):
        viewing.view(*pair, tmp_path / "a.png")
    viewing.view(*pair, tmp_path / "a.png", force=True)
    size_of(tmp_path / "a.png")


def test_a_map_of_other_shapes(pair, tmp_path):
    one, other, matches = pair
    with pytest.raises(InputError, match="leads from 60 to 80 points; other has 80 and one 60"):
        viewing.view(other, one, matches, tmp_path / "a.png")
    assert not list(tmp_path.iterdir())
