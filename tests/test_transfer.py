import numpy as np
import pytest

from coembed import formats
from coembed.errors import InputError
from coembed.shapes import Correspondence, Shape
from coembed.transfer import transfer


@pytest.fixture
def target(sphere_points):
    labels = np.array([0, 7, 1000], np.uint16)[np.arange(30) % 3]
    attributes = {
        "label": labels,
        "quality": np.linspace(0, 1, 30),
        "part": np.arange(30, dtype=np.int8),
    }
    return Shape(sphere_points(30), attributes=attributes)


def test_o34_names_and_types_stay_and_labels_are_never_averaged(target, sphere_points, tmp_path):
    p2p = np.array([3, -1, 29, *[5] * 22])
    source = Shape(sphere_points(25), attributes={"label": np.zeros(25), "mine": np.ones(25)})
    found = transfer(source, target, Correspondence(p2p, np.ones(25), 30))
    assert {k: v.dtype.name for k, v in found.attributes.items()} == {
        "label": "uint16", "mine": "float64", "quality": "float64", "part": "int8",
    }  # fmt: skip
    assert found.attributes["label"][:4].tolist() == [0, 65535, 1000, 1000]
    assert np.isnan(found.attributes["quality"][1])
    assert found.attributes["part"][:3].tolist() == [3, -1, 29]
    formats.write(tmp_path / "a.ply", found)
    again = formats.read(tmp_path / "a.ply")
    for name, values in found.attributes.items():
        assert again.attributes[name].dtype == values.dtype
        np.testing.assert_array_equal(again.attributes[name], values)


def test_a_map_of_other_shapes_is_refused(target, sphere_points):
    with pytest.raises(InputError, match="the map leads from 3 to 30 points"):
        transfer(Shape(sphere_points(25)), target, Correspondence(np.zeros(3, int), np.ones(3), 30))


def test_a_target_without_attributes_is_refused(sphere_points):
    shape = Shape(sphere_points(25), name="bare")
    with pytest.raises(InputError, match="bare: has no attributes"):
        transfer(shape, shape, Correspondence(np.arange(25), np.ones(25), 25))
