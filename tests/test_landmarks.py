import numpy as np
import pytest

from coembed import landmarks
from coembed.errors import FileFormatError, InputError
from coembed.shapes import Correspondence, Shape


@pytest.fixture
def grid():
    """A flat square of 30 by 30 points and its triangles."""
    n = 30
    x, y = np.meshgrid(np.arange(n), np.arange(n), indexing="ij")
    points = np.column_stack([x.ravel(), y.ravel(), np.zeros(n * n)]).astype(float)
    corner = (np.arange(n - 1)[:, None] * n + np.arange(n - 1)).ravel()
    faces = [np.column_stack([corner, corner + n, corner + 1])]
    faces.append(np.column_stack([corner + 1, corner + n, corner + n + 1]))
    return Shape(points, np.concatenate(faces), name="grid")


def test_on_a_surface_by_hand(grid):
    asked = np.array([[3.25, 4.5, 2.0], [7, 7, 0], [np.nan, 0, 0]])
    found = landmarks.place(grid, ("a", "b", "c"), asked)
    np.testing.assert_allclose(found.points[:2], [[3.25, 4.5, 0], [7, 7, 0]])
    corners = grid.points[grid.faces[found.face[:2]]]
    again = np.einsum("qc,qca->qa", found.barycentric[:2], corners)
    np.testing.assert_allclose(again, found.points[:2], atol=1e-12)
    assert found.rows.tolist() == [3 * 30 + 4, 7 * 30 + 7, -1]
    assert found.face[2] == -1


def test_of_a_cloud_the_nearest_row(grid):
    cloud = Shape(grid.points)
    found = landmarks.place(cloud, ("a",), np.array([[3.2, 4.4, 2.0]]))
    assert found.rows.tolist() == [94]
    assert found.points.tolist() == [[3, 4, 0]]
    assert found.face.tolist() == [-1]


@pytest.mark.parametrize("to", ["source", "target"])
def test_carried_along_and_against_a_map(grid, to):
    other = Shape(2 * grid.points + [5, 0, 0], grid.faces)
    matches = Correspondence(np.arange(900), np.ones(900), 900)
    giver, receiver = (grid, other) if to == "target" else (other, grid)
    given = landmarks.place(giver, ("a", "b"), giver.points[[465, 100]] + 0.3)
    found = landmarks.carry_landmarks(grid, other, matches, given, to=to)
    ratio = 2 if to == "target" else 0.5
    origin = receiver.points[0] - ratio * giver.points[0]
    np.testing.assert_allclose(found.points, ratio * given.points + origin, atol=0.25 * ratio)


def test_a_match_that_goes_astray_does_not_pull(grid):
    p2p = np.arange(900)
    p2p[466] = 10
    matches = Correspondence(p2p, np.ones(900), 900)
    given = landmarks.place(grid, ("a",), grid.points[[465]])
    found = landmarks.carry_landmarks(grid, grid, matches, given)
    np.testing.assert_allclose(found.points[0], grid.points[465], atol=0.25)


def test_far_from_every_match_there_is_no_answer(grid):
    p2p = np.where(grid.points[:, 0] < 10, np.arange(900), -1)
    matches = Correspondence(p2p, np.ones(900), 900)
    given = landmarks.place(grid, ("a", "b"), grid.points[[100, 899]])
    found = landmarks.carry_landmarks(grid, grid, matches, given)
    assert (found.rows >= 0).tolist() == [True, False]


def test_files_go_round(grid, tmp_path):
    asked = np.array([[3.25, 4.5, 0], [np.nan] * 3])
    found = landmarks.place(grid, ("nose, left", "b"), asked)
    landmarks.write_landmarks(tmp_path / "a.csv", found)
    first = (tmp_path / "a.csv").read_text().splitlines()
    assert first[0] == "name,row,x,y,z,face,b0,b1,b2"
    assert first[2] == "b,-1,,,,-1,,,"
    lines = "\n".join(first[:2]) + "\n"
    (tmp_path / "b.csv").write_text(lines)
    again = landmarks.read_landmarks(tmp_path / "b.csv", grid)
    assert again.names == ("nose, left",)
    np.testing.assert_allclose(again.points, found.points[:1])


@pytest.mark.parametrize(
    ("text", "names", "places"),
    [
        ("94\n# remark\n\n7", ("0", "1"), [[3, 4, 0], [0, 7, 0]]),
        ("nose 94", ("nose",), [[3, 4, 0]]),
        ("nose, 3, 4, 0\nchin, 5, 6, 0", ("nose", "chin"), [[3, 4, 0], [5, 6, 0]]),
        ("3 4 0", ("0",), [[3, 4, 0]]),
        ("name,row\nnose,94", ("nose",), [[3, 4, 0]]),
    ],
)
def test_forms_of_lines(grid, tmp_path, text, names, places):
    (tmp_path / "a.txt").write_text(text)
    found = landmarks.read_landmarks(tmp_path / "a.txt", grid)
    assert found.names == names
    np.testing.assert_allclose(found.points, places, atol=1e-12)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no landmarks"),
        ("900", "line 1: expected a row of grid, 0 to 899; got 900"),
        ("1.5", "expected a row of grid"),
        ("nose", "line 1: not a landmark"),
        ("a b c d e", "line 1: expected a row or x y z"),
        ("name,row\nnose,", "line 2: not a landmark"),
    ],
)
def test_bad_lines(grid, tmp_path, text, message):
    (tmp_path / "a.txt").write_text(text)
    with pytest.raises(FileFormatError, match=message):
        landmarks.read_landmarks(tmp_path / "a.txt", grid)


def test_landmarks_are_written_as_csv(grid, tmp_path):
    found = landmarks.place(grid, ("a",), np.zeros((1, 3)))
    with pytest.raises(InputError, match=r"written as \.csv"):
        landmarks.write_landmarks(tmp_path / "a.txt", found)
