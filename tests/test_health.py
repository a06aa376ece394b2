from dataclasses import asdict

import numpy as np
import pytest

from coembed import health, matching
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
        (np.outer(np.arange(30.0), [1, 2, 3]), "all points lie on one line"),
    ],
)
def test_what_a_match_would_refuse_is_told_in_its_words(points, refusal):
    assert refusal in health.examine(Shape(points)).refusal


def test_counts_of_the_run_record_are_those_of_the_report(tiny_model, sphere_points):
    """As far as they are cheap; of stored embeddings, what these know."""
    points, faces = grid(8)
    points = np.concatenate([points, points[:3], [[np.nan, 0, 0], [50, 0, 0], [3, 3, 4.0]]])
    faces = np.concatenate([faces, [[0, 0, 5], [0, 1, 2], faces[20], [0, 1, 69]]])
    mesh = Shape(points, faces)
    cloud = Shape(np.concatenate([sphere_points(200), sphere_points(200) + 5, np.zeros((2, 3))]))
    found = matching.match(tiny_model, mesh, cloud)
    for side, shape in (("source", mesh), ("target", cloud)):
        counts = found.record[side]["health"]
        report = asdict(health.examine(shape))
        extent = counts.pop("extent")
        np.testing.assert_allclose(extent, report["extent"], rtol=1e-12, atol=1e-12)
        parts = counts.pop("components")
        assert counts == {name: report[name] for name in counts}
        assert len(counts) == 9
        assert parts == (1 if side == "source" else 2)
    stored = matching.match(tiny_model, found.embeddings[0], cloud).record["source"]["health"]
    assert (stored["rows"], stored["distinct"], stored["repeated"]) == (70, 65, 0)
    assert "faces" not in stored


def test_crowded_edges_by_hand():
    faces = np.array([[0, 1, 2], [1, 0, 3], [0, 1, 4], [2, 1, 5], [1, 2, 6]])
    points = np.random.default_rng(0).normal(size=(7, 3))
    assert health.examine(Shape(points, faces)).non_manifold == 2
    assert health.examine(Shape(points, faces[:2])).non_manifold == 0


@pytest.mark.parametrize("size", [1e-250, 1e-60, 1, 1e60, 1e140])
def test_faces_keep_their_area_whatever_the_units(size):
    points, faces = grid(5)
    flat = np.concatenate([faces, [[0, 1, 2], [3, 3, 4]]])
    assert len(Shape(points * size, flat).sound_faces) == len(faces)
