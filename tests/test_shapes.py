import numpy as np
import pytest

from coembed import errors
from coembed.errors import CoembedError, InputError
from coembed.shapes import Correspondence, Shape


def test_points_become_float64_and_stay_in_their_rows():
    points = np.arange(12, dtype=np.float32).reshape(4, 3)
    shape = Shape(points)
    assert shape.points.dtype == np.float64
    np.testing.assert_array_equal(shape.points, points)


def test_whole_numbers_are_points_too(unchecked):
    assert Shape(np.zeros((2, 3), dtype=np.int64)).points.dtype == np.float64


@pytest.mark.parametrize(
    "points",
    [np.zeros(3), np.zeros((4, 2)), np.zeros((2, 2, 3)), np.array([["a", "b", "c"]])],
    ids=["flat", "two columns", "three axes", "words"],
)
def test_points_of_another_shape_are_refused(points, unchecked):
    with pytest.raises(InputError, match=r"cat: points must be numbers of shape \(n, 3\); got"):
        Shape(points, name="cat")


def test_rows_that_are_not_finite_are_told():
    points = np.zeros((20, 3))
    points[7, 1], points[9, 0] = np.nan, np.inf
    assert {k: v.tolist() for k, v in Shape(points).unusable.items()} == {"not finite": [7, 9]}
    assert Shape(np.zeros((20, 3))).unusable == {}


def test_points_that_no_sound_face_holds_are_told():
    points = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [5, 5, 5], [2, 0, 0], [1, 1, 0.0]])
    faces = np.array([[0, 1, 2], [1, 5, 2], [0, 1, 4], [3, 3, 1]])  # the last two have no area
    shape = Shape(points, faces)
    np.testing.assert_array_equal(shape.sound_faces, faces[:2])
    assert shape.unusable["unreferenced"].tolist() == [3, 4]
    assert Shape(points, faces[2:]).unusable == {}  # a cloud with some faces


@pytest.mark.parametrize("faces", [np.zeros((1, 4), int), np.zeros((1, 3)), np.zeros(3, int)])
def test_faces_of_another_shape_are_refused(faces, unchecked):
    with pytest.raises(InputError, match=r"faces must be integers of shape \(f, 3\)"):
        Shape(np.zeros((3, 3)), faces)


@pytest.mark.parametrize("face", [(0, 1, 3), (-1, 0, 1)])
def test_faces_must_name_points(face):
    with pytest.raises(InputError, match="faces must name points 0 to 2"):
        Shape(np.zeros((3, 3)), np.array([face]))


def test_no_faces_at_all_is_a_shape():
    assert len(Shape(np.zeros((3, 3)), np.zeros((0, 3), int)).faces) == 0


def test_a_correspondence_keeps_what_it_is_given():
    matches = Correspondence(np.array([2, -1, 0], dtype=np.int32), np.array([1.0, 0.0, 0.5]), 3)
    assert matches.p2p.dtype == np.int64
    assert matches.p2p.tolist() == [2, -1, 0]
    assert matches.score.tolist() == [1.0, 0.0, 0.5]


@pytest.mark.parametrize("p2p", [[0, 3], [-2, 0]])
def test_a_correspondence_must_name_target_rows(p2p):
    with pytest.raises(InputError, match="target rows 0 to 2, or -1; found"):
        Correspondence(np.array(p2p), np.ones(2), 3)


def test_a_correspondence_needs_a_score_for_each_row(unchecked):
    with pytest.raises(InputError, match="as many scores"):
        Correspondence(np.array([0, 1]), np.ones(3), 3)


def test_records_are_frozen(sphere):
    with pytest.raises(AttributeError):
        sphere.name = "other"


def test_every_error_is_a_coembed_error_and_a_built_in_one():
    for name in errors.__all__:
        kind = getattr(errors, name)
        assert issubclass(kind, CoembedError)
        if kind is not CoembedError:
            assert issubclass(kind, (ValueError, RuntimeError, ImportError))
            assert f" {name} " in errors.__doc__
