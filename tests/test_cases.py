"""Complaints of users of other tools, turned into tests: geometry, pose, units, order.

Each is named by its number in docs/reliability.md and makes its own small input.
"""

import json

import numpy as np
import pytest

from coembed import files, matching
from coembed.errors import InputError
from coembed.shapes import Shape


@pytest.fixture(scope="module")
def plain(tiny_model, torus, sphere):
    return matching.match(tiny_model, torus, sphere)


def with_rows(points, rows, values):
    """Points with further rows, which then have these numbers."""
    n = len(points) + len(rows)
    result = np.empty((n, 3))
    kept = np.setdiff1d(np.arange(n), rows)
    result[kept], result[rows] = points, values
    return result, kept


# --------------------------------------------------------------------- geometry


@pytest.mark.parametrize(
    ("points", "message"),
    [
        (np.full((50, 3), np.nan), "got 0 usable ones among 50 rows"),
        (np.zeros((1, 3)), "at least 20 points are needed; got 1"),
        (np.outer(np.arange(90.0), [1, 2, 3]) + 5e6, "all points lie on one line"),
        (np.ones((400, 3)), "at least 20 distinct points are needed; got 1 among 400 rows"),
    ],
)
def test_o18_nothing_inside_is_told_apart(tiny_model, sphere, points, message):
    with pytest.raises(InputError, match=message):
        matching.match(tiny_model, Shape(points), sphere)


def test_o19_rows_that_are_not_finite_have_no_answer_and_change_nothing(
    tiny_model, torus, sphere, plain
):
    bad = np.array([0, 17, 300, 511, 704])
    values = np.array(
        [[np.nan, 0, 0], [0, np.inf, 0], [1, 2, -np.inf], [np.nan] * 3, [0, 0, np.nan]]
    )
    source, kept = with_rows(torus.points, bad, values)
    found = matching.match(tiny_model, Shape(source), sphere)
    np.testing.assert_array_equal(found.p2p[bad], -1)
    np.testing.assert_array_equal(found.score[bad], 0)
    np.testing.assert_array_equal(found.p2p[kept], plain.p2p)
    np.testing.assert_array_equal(found.score[kept], plain.score)
    assert (
        "5 rows are not finite and have no answer (first: row 0)"
        in found.record["source"]["changes"]
    )
    target, there = with_rows(sphere.points, bad[:3], values[:3])
    found = matching.match(tiny_model, torus, Shape(target))
    np.testing.assert_array_equal(found.p2p, there[plain.p2p])


@pytest.mark.parametrize(
    ("value", "reason"), [(1e39, "far away"), (-4e8, "far away"), (1e200, "not finite")]
)
def test_o19_rows_beyond_all_others_have_no_answer_and_change_nothing(
    tiny_model, torus, sphere, plain, value, reason
):
    """As memory that was never written to, or the origin among geo-referenced points."""
    source, kept = with_rows(torus.points, np.array([0, 99]), [[0, value, 0], [value, 1, 1]])
    found = matching.match(tiny_model, Shape(source), sphere)
    assert found.p2p[[0, 99]].tolist() == [-1, -1]
    np.testing.assert_array_equal(found.p2p[kept], plain.p2p)
    told = f"2 rows are {reason} and have no answer (first: row 0)"
    assert told in found.record["source"]["changes"]
    target, there = with_rows(sphere.points, np.array([3]), [[value, value, value]])
    found = matching.match(tiny_model, torus, Shape(target))
    np.testing.assert_array_equal(found.p2p, there[plain.p2p])
    mesh = Shape(np.vstack([sphere.points, [[value] * 3]]), np.array([[0, 1, 500], [0, 1, 2]]))
    assert mesh.sound_faces.tolist() == [[0, 1, 2]]


def test_o19_an_outlier_is_an_answer_like_others(tiny_model, torus, sphere):
    """A hundred times the size away: it may be meant."""
    source = Shape(np.vstack([torus.points, [[150.0, 0, 0]]]))
    assert not source.unusable
    assert matching.match(tiny_model, source, sphere).p2p.min() >= 0


def test_o20_copies_share_their_answer_and_change_nothing(tiny_model, torus, sphere, plain, rng):
    rows = np.concatenate([np.arange(700), rng.integers(700, size=100), np.full(40, 5)])
    order = rng.permutation(len(rows))
    found = matching.match(tiny_model, Shape(torus.points[rows[order]]), sphere)
    np.testing.assert_array_equal(found.p2p, plain.p2p[rows[order]])


def closed_mesh(points):
    """Faces of the convex hull of points on a sphere."""
    from scipy.spatial import ConvexHull

    return ConvexHull(points).simplices.astype(np.int64)


def test_o21_points_of_no_face_have_no_answer_and_change_nothing(tiny_model, torus, sphere):
    clean = matching.match(tiny_model, sphere, torus)
    loose = np.concatenate([np.zeros((5, 3)), np.full((20, 3), 40.0) + np.arange(20)[:, None]])
    mesh = Shape(np.concatenate([sphere.points, loose]), closed_mesh(sphere.points))
    found = matching.match(tiny_model, mesh, torus)
    np.testing.assert_array_equal(found.p2p[:500], clean.p2p)
    np.testing.assert_array_equal(found.p2p[500:], -1)
    assert any("25 rows are unreferenced" in line for line in found.record["source"]["changes"])
    back = matching.match(tiny_model, torus, mesh)
    assert back.p2p.max() < 500


def test_o22_faces_without_area_are_as_good_as_none(tiny_model, torus, sphere):
    clean = matching.match(tiny_model, sphere, torus)
    faces = closed_mesh(sphere.points)
    points = np.concatenate([sphere.points, [sphere.points[0] * 2, sphere.points[0] * 3]])
    poor = np.array([[0, 500, 501], [3, 3, 9], [7, 7, 7], faces[0]])
    found = matching.match(tiny_model, Shape(points, np.concatenate([faces, poor])), torus)
    np.testing.assert_array_equal(found.p2p[:500], clean.p2p)
    np.testing.assert_array_equal(found.p2p[500:], -1)


def test_o23_winding_does_not_matter_nor_edges_of_many_faces(tiny_model, torus, sphere, rng):
    faces = closed_mesh(sphere.points)
    turned = np.where((rng.random(len(faces)) < 0.4)[:, None], faces[:, ::-1], faces)
    fin = np.array([[faces[0, 0], faces[0, 1], 500]])
    points = np.concatenate([sphere.points, sphere.points[faces[0, :1]] * 1.3])
    maps = [
        matching.match(tiny_model, Shape(points, np.concatenate([f, fin])), torus).p2p
        for f in (faces, turned)
    ]
    np.testing.assert_array_equal(*maps)
    assert maps[0].min() >= 0


def test_o24_two_bodies_are_told_and_matched(tiny_model, torus, sphere):
    both = Shape(np.concatenate([torus.points, sphere.points + np.array([5, 0, 0])]))
    found = matching.match(tiny_model, both, both)
    np.testing.assert_array_equal(found.p2p, np.arange(1200))
    assert any("2 separate components" in line for line in found.record["source"]["changes"])


def test_o25_few_points_lower_the_settings_and_say_so(tiny_model, sphere_points, torus):
    found = matching.match(tiny_model, Shape(sphere_points(25)), torus)
    changes = " ".join(found.record["source"]["changes"])
    assert "neighbours lowered from 30 to 24" in changes
    assert found.p2p.min() >= 0
    with pytest.raises(InputError, match="at least 20 points are needed; got 5"):
        matching.match(tiny_model, Shape(sphere_points(5)), torus)


# ------------------------------------------------------------------- pose, units


@pytest.mark.parametrize("size", [1000, 3e-4, 2e7, 1e-30])
def test_o27_units_do_not_matter_and_the_scale_is_told(tiny_model, torus, sphere, plain, size):
    found = matching.match(tiny_model, Shape(torus.points * size), sphere)
    assert (found.p2p == plain.p2p).mean() >= 0.99
    ratio = plain.record["source"]["scale"] / found.record["source"]["scale"]
    assert ratio == pytest.approx(size, rel=1e-4)


def test_o28_an_offset_of_a_map_projection_does_not_matter(tiny_model, torus, sphere, plain):
    moved = np.round(torus.points * 2**20) / 2**20  # so that adding the offset rounds nothing
    offset = np.array([5e6, 4e5, 2e3])
    here = matching.match(tiny_model, Shape(moved), sphere)
    there = matching.match(tiny_model, Shape(moved + offset), sphere)
    np.testing.assert_array_equal(there.p2p, here.p2p)
    np.testing.assert_allclose(
        np.subtract(there.record["source"]["centre"], here.record["source"]["centre"]), offset,
        rtol=1e-9,
    )  # fmt: skip


def test_o31_every_point_of_a_part_is_answered(tiny_model, torus):
    part = torus.points[:, 0] < 0.3
    found = matching.match(tiny_model, Shape(torus.points[part]), torus)
    assert found.p2p.min() >= 0


def test_o32_counts_and_order_do_not_matter(tiny_model, torus, sphere, plain, rng):
    order = rng.permutation(700)
    found = matching.match(tiny_model, Shape(torus.points[order]), sphere)
    np.testing.assert_array_equal(found.p2p, plain.p2p[order])


def test_o33_a_sample_inside_leaves_the_rows_outside_alone(tiny_model, torus, sphere):
    found = matching.match(tiny_model, torus, sphere, points=300)
    assert len(found.p2p) == 700
    assert 0 <= found.p2p.min() <= found.p2p.max() < 500
    assert found.record["source"]["looked_at"] <= 300
    np.testing.assert_array_equal(found.apply(torus.points[:20]), found.p2p[:20])


# ------------------------------------------------------------ numbers and repetition


def test_o37_a_sphere_gives_the_same_bytes_twice(tiny_model, sphere, torus):
    first, second = (matching.match(tiny_model, sphere, torus) for _ in range(2))
    assert first.p2p.tobytes() == second.p2p.tobytes()
    assert first.score.tobytes() == second.score.tobytes()


def test_o38_a_cache_never_takes_one_shape_for_another(tiny_model, torus, sphere, tmp_path):
    """Same points, but other faces, so that other rows are answered; and other numbers, equal."""
    faces = closed_mesh(sphere.points)
    points = np.concatenate([sphere.points, [[3.0, 3, 3]]])
    mesh = Shape(points, faces)
    for shape in (mesh, Shape(points), mesh):
        found, wanted = (
            matching.match(tiny_model, shape, torus, cache=cache).p2p for cache in (tmp_path, None)
        )
        np.testing.assert_array_equal(found, wanted)
    single = torus.points.astype(np.float32)
    before = len(list(tmp_path.iterdir()))
    for array in (single, single.astype(np.float64)):
        matching.embed(tiny_model, Shape(array), cache=tmp_path)
    assert len(list(tmp_path.iterdir())) == before + 1


def test_a_map_with_gaps_survives_its_file(tiny_model, torus, sphere, tmp_path):
    source, _ = with_rows(torus.points, np.array([3]), [[np.nan, 0, 0]])
    found = matching.match(tiny_model, Shape(source), sphere)
    for name in ("a.txt", "a.npz"):
        files.write_matches(tmp_path / name, found)
        read = files.read_matches(tmp_path / name, n_target=500)
        np.testing.assert_array_equal(read.p2p, found.p2p)
    json.dumps(found.record, allow_nan=False)
