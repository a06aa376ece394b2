import struct

import numpy as np
import pytest

from coembed import colourings, pictures
from coembed.errors import InputError
from coembed.pictures import Panel
from coembed.shapes import Shape

matplotlib = pytest.importorskip("matplotlib")


def panel(points, colour=(1, 0, 0), faces=None, **more):
    return Panel(
        "a_b $c", Shape(points, faces), np.tile(np.array(colour, float), (len(points), 1)), **more
    )


def pixels(content):
    import io

    return matplotlib.image.imread(io.BytesIO(content))[:, :, :3]


def size_of(content):
    assert content.startswith(b"\x89PNG\r\n")
    return struct.unpack(">II", content[16:24])


def test_the_camera_is_a_rotation_with_up_upwards():
    for up, axis in zip("xyz", np.eye(3), strict=True):
        turned = pictures.rotation(up, 22.0)
        np.testing.assert_allclose(turned.T @ turned, np.eye(3), atol=1e-12)
        assert np.linalg.det(turned) == pytest.approx(1)
        assert axis @ turned[:, 1] == pytest.approx(np.cos(np.deg2rad(10)))
    np.testing.assert_allclose(pictures.rotation("y", 0.0)[:, 0], [1, 0, 0], atol=1e-12)
    np.testing.assert_allclose(pictures.rotation("z", 0.0)[:, 0], [1, 0, 0], atol=1e-12)
    with pytest.raises(InputError, match="up must be x, y or z"):
        pictures.rotation("w", 0.0)


def test_what_is_in_front_hides_what_is_behind():
    square = np.array([[0, 0], [1, 0], [1, 1], [0, 1.0]])
    behind, front = (np.column_stack([square, np.full(4, z)]) for z in (0, 0.2))
    faces = np.array([[0, 1, 2], [0, 2, 3]])
    points = np.concatenate([front, behind])
    colours = np.repeat([[1.0, 0, 0], [0, 0, 1.0]], 4, axis=0)
    shape = Shape(points, np.concatenate([faces, faces + 4]))
    image = pixels(pictures.picture([[Panel("", shape, colours)]], turn=0.0))
    red = (image[:, :, 0] > image[:, :, 2] + 0.3).sum()
    blue = (image[:, :, 2] > image[:, :, 0] + 0.3).sum()
    assert red > 10 * blue > 0


def test_a_cloud_fills_its_outline(sphere_points):
    image = pixels(pictures.picture([[panel(sphere_points(2000))]]))
    rows, columns = np.nonzero(image[:, :, 0] > image[:, :, 1] + 0.2)
    share = len(rows) / ((np.ptp(rows) + 1) * (np.ptp(columns) + 1))
    assert share == pytest.approx(np.pi / 4, abs=0.04)


def test_rows_of_panels_and_their_bytes(sphere_points):
    points = sphere_points(100)
    scale = colourings.number("x", (points[:, 0], points[:, 0]))
    rows = [[panel(points), panel(points, scale=scale, marked=np.array([3]))], [panel(points)]]
    content = pictures.picture(rows)
    assert content == pictures.picture(rows)
    one = size_of(pictures.picture([[panel(points)]]))
    both = size_of(content)
    assert both[0] > 1.8 * one[0]
    assert both[1] == pytest.approx(2 * one[1], rel=0.02)


def test_svg_keeps_words_and_is_the_same_each_time(sphere_points):
    content = pictures.picture([[panel(sphere_points(100))]], kind="svg")
    assert b"a_b $c</text>" in content
    assert content == pictures.picture([[panel(sphere_points(100))]], kind="svg")


def test_bad_rows_are_left_out(sphere_points):
    points = sphere_points(100).copy()
    points[7] = np.nan
    pictures.picture([[panel(points, marked=np.array([7, 8]))]])
    with pytest.raises(InputError, match="no point to draw"):
        pictures.picture([[panel(points[7:8])]])


def test_other_endings_are_refused(sphere_points, tmp_path):
    with pytest.raises(InputError, match=r"written as \.png or \.svg"):
        pictures.draw([[panel(sphere_points(30))]], tmp_path / "a.jpg")


def test_shapes_in_rows_by_an_attribute(sphere_points, tmp_path):
    shapes = [Shape(sphere_points(60), name=f"{i}.ply", attributes={"part": np.arange(60) % 4 - 1})
              for i in range(4)]  # fmt: skip
    pictures.draw_shapes(shapes, tmp_path / "a.png", by="part", columns=3)
    width, height = size_of((tmp_path / "a.png").read_bytes())
    assert width / height == pytest.approx(3 / 2, rel=0.2)
    with pytest.raises(InputError, match=r"0\.ply: has no attribute 'hat'"):
        pictures.draw_shapes(shapes, tmp_path / "b.png", by="hat")
