"""Rotations do what they say."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from coembed import rotations


def test_sixty_turns_come_within_45_degrees_of_any():
    turns = Rotation.from_matrix(np.array(rotations.all_around()))
    assert len(turns) == 60
    for one in Rotation.random(200, random_state=0):
        assert np.rad2deg((turns * one).magnitude().min()) < 45


def test_tilts_are_the_smallest_rotations_about_horizontal_axes():
    leans = np.array([[0, 0], [30, 0], [0, -12], [-9, 12]], float)
    for turn, lean in zip(rotations.tilt(leans), leans, strict=True):
        expected = Rotation.from_rotvec([lean[0], 0, lean[1]], degrees=True).as_matrix()
        np.testing.assert_allclose(turn, expected, atol=1e-12)


@pytest.mark.parametrize("direction", [(1, 2, 3), (-1, -5, 0.1), (0, 1, 0), (0, -1, 0), (0, 0, 1)])
def test_what_raises_a_direction_is_the_smallest_rotation(direction):
    unit = np.array(direction, float) / np.linalg.norm(direction)
    found = rotations.raising(unit)
    np.testing.assert_allclose(found @ unit, [0, 1, 0], atol=1e-12)
    np.testing.assert_allclose(found @ found.T, np.eye(3), atol=1e-12)
    assert Rotation.from_matrix(found).magnitude() == pytest.approx(np.arccos(unit[1]), abs=1e-7)


def test_directions_are_evenly_spread():
    found = rotations.directions(500)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-12)
    angles = np.rad2deg(np.arccos(np.clip(found @ found.T - 2 * np.eye(500), -1, 1)))
    nearest = angles.min(axis=1)
    assert 6 < nearest.min() < nearest.max() < 11
    asked = Rotation.random(300, random_state=1).as_matrix()[:, 1]
    assert np.rad2deg(np.arccos((asked @ found.T).max(axis=1))).max() < 8


def test_the_rotation_near_a_matrix_is_one_even_if_that_mirrors(rng):
    turn = Rotation.random(random_state=2).as_matrix()
    np.testing.assert_allclose(rotations.rotation_near(turn @ np.diag([3.0, 2, 1])), turn)
    several = rotations.rotation_near(rng.standard_normal((20, 3, 3)))
    np.testing.assert_allclose(np.linalg.det(several), 1)
    np.testing.assert_allclose(
        several @ several.transpose(0, 2, 1), np.broadcast_to(np.eye(3), (20, 3, 3)), atol=1e-12
    )


def test_points_are_laid_best_on_where_they_were(rng):
    places = rng.standard_normal((40, 3))
    turn = Rotation.random(random_state=3).as_matrix()
    found = rotations.laid_best(places @ turn + [5, 0, -2], rng.uniform(1, 2, 40), places)
    np.testing.assert_allclose(found, turn, atol=1e-12)


def test_about_y_takes_z_towards_x():
    np.testing.assert_allclose(rotations.about_y(90.0) @ [0, 0, 1], [1, 0, 0], atol=1e-12)
    np.testing.assert_allclose(rotations.about_y(90.0) @ [0, 1, 0], [0, 1, 0])
