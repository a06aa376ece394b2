import numpy as np
import pytest

from coembed import colourings
from coembed.errors import InputError
from coembed.evaluation import GeodesicErrors
from coembed.shapes import Correspondence, Shape


@pytest.fixture
def pair(sphere_points):
    points = sphere_points(60)
    labels = (points[:, 2] > 0).astype(np.int32)
    red = np.linspace(0, 255, 60).astype(np.uint8)
    one = Shape(points, attributes={"part": labels, "red": red, "green": red, "blue": red})
    other = Shape(2 * points, attributes={"heat": points[:, 0]})
    score = np.full(60, 0.5)
    score[3] = 0
    p2p = np.arange(60)
    p2p[3] = -1
    return one, other, Correspondence(p2p, score, 60)


def test_what_one_side_lacks_is_carried_over(pair):
    one, other, matches = pair
    found = {c.label: c for c in colourings.colourings(one, other, matches)}
    assert list(found) == ["position", "trust", "colours", "part", "heat"]
    part = found["part"]
    assert part.kind == "category"
    assert part.names == ("0", "1")
    np.testing.assert_array_equal(*(np.delete(v, 3) for v in part.values))
    np.testing.assert_allclose(*(np.delete(v, 3) for v in found["heat"].values))
    assert np.isnan(found["heat"].values[0][3])
    assert found["heat"].gaps
    np.testing.assert_array_equal(*(np.delete(v, 3, 0) for v in found["colours"].values))
    assert np.isnan(found["trust"].values[0][3])


def test_position_is_grey_where_nothing_ends(sphere_points):
    shape = Shape(sphere_points(900))
    height = shape.points[:, 2]
    lonely = Correspondence(np.where(height > 0.5, np.arange(900), -1), np.ones(900), 900)
    found = colourings.colourings(shape, shape, lonely)
    assert [c.label for c in found] == ["position"]  # trust is 1 throughout: none was stored
    grey = (found[0].values[1] == round(255 * colourings.NONE)).all(axis=1)
    assert grey[height < -0.2].all()
    assert not grey[height > 0.5].any()


def test_errors_stand_at_both_ends(pair):
    one, other, matches = pair
    errors = GeodesicErrors(np.array([1, 7, 9]), np.array([0.01, 0.02, np.inf]), "by hand")
    found = colourings.colouring(colourings.colourings(one, other, matches, errors), "error x 100")
    for values in found.values:
        assert values[7] == pytest.approx(2)
        assert np.isnan(values[[0, 9]]).all()


def test_ramps_by_hand():
    one = colourings.number("x", (np.array([0.0, 1, np.nan, np.inf]), np.array([0.5])))
    shown = colourings.painted(one, 0)
    np.testing.assert_allclose(shown[:2] * 255, [one.ramp[0], one.ramp[-1]], atol=2)
    assert (shown[2:] == colourings.NONE).all()
    signed = colourings.number("y", (np.array([-2.0, 1]), np.array([0.0])), signed=True)
    assert signed.low == -signed.high
    middle = colourings.painted(signed, 1)[0]
    np.testing.assert_allclose(middle * 255, signed.ramp[3])


def test_normals_of_a_sphere_point_outwards_or_inwards(sphere_points):
    points = sphere_points(800)
    along = np.abs((colourings.normals(points) * points).sum(axis=1))
    assert along.min() > 0.99


def test_position_colours_cope_with_bad_rows(sphere_points):
    points = sphere_points(30).copy()
    points[4] = np.nan
    colours = colourings.position_colours(points)
    assert (colours[4] == colourings.NONE).all()
    assert colours.min() >= 0
    assert colours.max() <= 1


def test_an_unknown_colouring_is_told(pair):
    with pytest.raises(InputError, match=r"nothing called 'heart'.*position, trust, colours, part"):
        colourings.colouring(colourings.colourings(*pair), "heart")
