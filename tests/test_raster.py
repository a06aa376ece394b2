import numpy as np
import pytest

from coembed.raster import Raster, _shares

RED, BLUE = np.array([1.0, 0, 0]), np.array([0, 0, 1.0])


def canvas(height=50):
    return Raster(np.zeros(2), np.array([2.0, 1.0]), height)


def triangle(depth, colour):
    """The half of the square from 0.2 to 0.8 below its diagonal."""
    points = np.array([[0.2, 0.2, depth], [0.8, 0.2, depth], [0.2, 0.8, depth]])
    return points, np.tile(colour, (3, 1)), np.array([[0, 1, 2]])


def test_a_triangle_covers_its_area():
    raster = canvas(100)
    raster.triangles(*triangle(0.0, RED))
    image = raster.image()
    assert image.shape == (100, 200, 4)
    assert image[:, :, 3].sum() / 100**2 == pytest.approx(0.18, rel=0.03)
    inside = image[:, :, 3] == 1
    assert (image[inside][:, :3] == RED).all()
    assert image[30, 30, 3] == 1  # row 30 is up by 0.3, column 30 is right by 0.3
    assert image[70, 70, 3] == 0


@pytest.mark.parametrize("first", [0.0, 1.0])
def test_the_nearer_one_is_seen_whatever_came_first(first):
    raster = canvas()
    for depth in (first, 1 - first):
        raster.triangles(*triangle(depth, RED if depth else BLUE))
    image = raster.image()
    assert (image[image[:, :, 3] == 1][:, :3] == RED).all()


def test_two_that_cross_are_parted_where_they_cross():
    points, colours, faces = triangle(0.0, RED)
    tilted = points.copy()
    tilted[:, 2] = points[:, 0] - 0.4
    raster = canvas(100)
    raster.triangles(points, colours, faces)
    raster.triangles(tilted, np.tile(BLUE, (3, 1)), faces)
    row = raster.image()[25]
    assert (row[22:38, 0] == 1).all()
    assert (row[42:70, 2] == 1).all()


def test_colours_of_corners_are_interpolated():
    points, _, faces = triangle(0.0, RED)
    raster = canvas(100)
    raster.triangles(points, np.column_stack([points[:, 0], points[:, 1], np.zeros(3)]), faces)
    image = raster.image()
    np.testing.assert_allclose(image[30, 40, :2], [0.405, 0.305], atol=0.01)


def test_dots_are_discs():
    raster = canvas(200)
    raster.dots(np.array([[0.5, 0.5, 0.0], [1.5, 0.5, 0.0]]), np.stack([RED, BLUE]), 0.2)
    image = raster.image()
    assert image[:, :, 3].sum() / 200**2 == pytest.approx(2 * np.pi * 0.04, rel=0.02)
    assert image[100, 100, :3].tolist() == [1, 0, 0]
    assert image[100, 300, :3].tolist() == [0, 0, 1]
    tiny = canvas()
    tiny.dots(np.array([[0.5, 0.5, 0.0], [9.0, 0.5, 0.0]]), np.stack([RED, BLUE]), 1e-9)
    assert 0 < tiny.image()[:, :, 3].sum() < 2  # seen all the same; what is outside is not


def test_shares_sum_to_one():
    for n in (1, 2, 5):
        shares = _shares(n)
        assert len(shares) == (n + 1) * (n + 2) // 2
        np.testing.assert_allclose(shares.sum(axis=1), 1)
        assert shares.min() >= 0


def test_depth_is_that_of_the_nearest_thing_drawn():
    raster = canvas()
    for depth in (1.0, 3.0, 2.0):
        raster.triangles(*triangle(depth, RED))
    places = np.array([[0.3, 0.3, 0.0], [0.3, 0.3, 9.0], [0.7, 0.7, 0.0], [1.9, 0.9, 0.0]])
    np.testing.assert_allclose(raster.depth_at(places), [3, 3, -np.inf, -np.inf])


def test_depth_beyond_the_picture_is_that_at_its_border():
    raster = canvas()
    square = np.array([[0, 0, 4.0], [1, 0, 4.0], [1, 1, 4.0], [0, 1, 4.0]])
    raster.triangles(square, np.tile(RED, (4, 1)), np.array([[0, 1, 2], [0, 2, 3]]))
    places = np.array([[-5, 0.5, 0], [0.5, -5, 0], [0.5, 5, 0], [5, 0.5, 0.0]])
    np.testing.assert_allclose(raster.depth_at(places), [4, 4, 4, -np.inf])
