import numpy as np
import pytest

from coembed import health
from coembed.shapes import Shape


def grid(n):
    """A flat mesh of n by n points, 1 apart."""
    points = np.stack([*np.meshgrid(np.arange(n), np.arange(n)), np.zeros((n, n))], axis=-1)
    corner = (np.arange(n - 1)[:, None] * n + np.arange(n - 1)).reshape(-1)
    one = np.stack([corner, corner + 1, corner + n], axis=1)
    other = np.stack([corner + 1, corner + n + 1, corner + n], axis=1)
    return points.reshape(-1, 3).astype(float), np.concatenate([one, other])


def test_a_sound_mesh():
    found = health.examine(Shape(*grid(8)))
    assert (found.rows, found.distinct, found.faces, found.components) == (64, 64, 98, 1)
    assert found.extent == (7, 7, 0)
    assert (found.spacing, found.unevenness) == (1, 1)
    counts = (found.repeated, found.not_finite, found.unreferenced, found.degenerate)
    assert (*counts, found.non_manifold) == (0, 0, 0, 0, 0)
    assert (found.warnings, found.refusal, found.units) == ((), "", "")


def test_everything_that_is_wrong_is_counted():
    points, faces = grid(8)
    points = np.concatenate([points, points[:3], [[np.nan, 0, 0], [50, 0, 0], [3, 3, 4.0]]])
    faces = np.concatenate([faces, [[0, 0, 5], [0, 1, 2], faces[20], [0, 1, 69]]])
    faces = np.concatenate([faces, faces[:6] * 0 + [64, 65, 10]])
    found = health.examine(Shape(points, faces))
    assert (found.rows, found.not_finite, found.degenerate) == (70, 1, 2)
    assert found.unreferenced == 2  # one far away, and one copy that no face names
    assert found.repeated == 2
    assert found.non_manifold >= 1
    assert found.distinct == 65


def test_parts_of_a_cloud_and_of_a_mesh(sphere_points):
    one = sphere_points(200)
    found = health.examine(Shape(np.concatenate([one, one + np.array([5, 0, 0])])))
    assert found.components == 2
    assert "2 separate parts" in found.warnings[0]
    points, faces = grid(6)
    apart = health.examine(
        Shape(
            np.concatenate([points, points + np.array([9, 0, 0])]),
            np.concatenate([faces, faces + 36]),
        )
    )
    assert apart.components == 2


@pytest.mark.parametrize(
    ("size", "units"), [(1.7, "metres"), (170, "centimetres"), (1700, "millimetres"), (1e5, "")]
)
def test_units_are_those_that_suit_a_person(sphere_points, size, units):
    assert health.examine(Shape(sphere_points(100) * size / 2)).units == units


def test_precision_that_was_lost_is_told(sphere_points):
    far = sphere_points(300) + np.array([5e6, 0, 0])
    assert health.examine(Shape(far)).warnings == ()
    found = health.examine(Shape(far.astype(np.float32)))
    assert any("lie in steps of 0.5" in line for line in found.warnings)


@pytest.mark.parametrize(
    ("points", "refusal"),
    [
        (np.zeros((0, 3)), "got 0"),
        (np.ones((30, 3)), "got 1 among 30 rows"),
        (np.full((30, 3), np.nan), "got 0 usable ones among 30 rows"),
    ],
)
def test_what_a_match_would_refuse_is_told_in_its_words(points, refusal):
    assert refusal in health.examine(Shape(points)).refusal
