import numpy as np
import pytest
from scipy.spatial import ConvexHull

from coembed import evaluation, geometry
from coembed.errors import InputError
from coembed.shapes import Correspondence, Shape

SQUARE = Shape(
    np.array([[0, 0, 0], [2, 0, 0], [2, 2, 0], [0, 2, 0]], float),
    np.array([[0, 1, 2], [0, 2, 3]]),
    name="square",
)


@pytest.fixture(scope="module")
def ball(sphere_points):
    points = sphere_points(300)
    return Shape(points, ConvexHull(points).simplices, name="ball")


def a_map(p2p, n_target):
    return Correspondence(np.asarray(p2p), np.ones(len(p2p)), n_target)


def diagonal(n):
    return np.stack([np.arange(n), np.arange(n)], axis=1)


def test_the_identity_has_no_error(ball):
    found = evaluation.evaluate(a_map(np.arange(300), 300), ball, diagonal(300), samples=0)
    np.testing.assert_allclose(found.errors, 0, atol=1e-9)
    assert found.mean == pytest.approx(0, abs=1e-9)
    assert found.auc() == 1
    assert found.coverage == 1
    assert found.within(0.01) == 1
    assert found.method == "heat method on the mesh"


def test_a_constant_map_has_the_error_worked_out_by_hand(ball):
    found = evaluation.evaluate(a_map(np.zeros(300, int), 300), ball, diagonal(300), samples=0)
    exact = np.arccos(np.clip(ball.points @ ball.points[0], -1, 1)) / np.sqrt(4 * np.pi)
    # the mean great circle from a point is pi / 2; mesh area and heat method are short by 2 %
    assert found.mean == pytest.approx(np.pi / 2 / np.sqrt(4 * np.pi), rel=0.05)
    np.testing.assert_allclose(found.errors, exact, atol=0.04)
    assert found.median == pytest.approx(np.median(exact), rel=0.05)
    radii = np.array([0.1, 0.3, 0.5])
    np.testing.assert_allclose(found.curve(radii), [(exact <= r).mean() for r in radii], atol=0.05)


def test_rows_without_an_answer_count_against_coverage_and_within(ball):
    p2p = np.arange(300)
    p2p[::3] = -1
    found = evaluation.evaluate(a_map(p2p, 300), ball, diagonal(300), samples=0)
    assert found.coverage == pytest.approx(2 / 3)
    assert found.within(0.5) == pytest.approx(2 / 3)
    assert found.auc() == pytest.approx(2 / 3)
    assert found.mean == pytest.approx(0, abs=1e-9)
    assert np.isinf(found.errors[::3]).all()


def test_a_map_without_any_answer(ball):
    found = evaluation.evaluate(a_map(np.full(300, -1), 300), ball, diagonal(300), samples=5)
    assert found.coverage == 0
    assert np.isnan(found.mean)
    assert np.isnan(found.median)
    assert found.within(1e9) == 0


def test_the_numbers_by_hand():
    errors = evaluation.GeodesicErrors(np.arange(4), np.array([0.0, 0.02, 0.08, np.inf]), "by hand")
    summary = errors.summary()
    assert summary["rows"] == 4
    assert summary["coverage"] == 0.75
    assert summary["mean_x100"] == pytest.approx(100 * 0.1 / 3)
    assert summary["median_x100"] == pytest.approx(2)
    assert [summary[f"within_{r}"] for r in (1, 5, 10)] == [0.25, 0.5, 0.75]
    assert summary["geodesics"] == "by hand"
    assert errors.auc(0.1, steps=3) == pytest.approx((0.25 + 0.5 + 0.75) / 3)


def test_samples_are_evenly_spaced_and_include_both_ends(ball):
    found = evaluation.evaluate(a_map(np.arange(300), 300), ball, diagonal(300), samples=3)
    assert found.rows.tolist() == [0, 150, 299]
    assert evaluation.spaced(4, 9).tolist() == [0, 1, 2, 3]
    assert evaluation.spaced(4, 0).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("truth", "message"),
    [
        ([[0, 0], [300, 0]], "the truth names source rows 0 to 300; the source has rows 0 to 299"),
        ([[0, -1]], "the truth names target rows -1 to -1"),
        ([[0, 300]], "target rows 300 to 300"),
    ],
)
def test_truth_must_name_rows(ball, truth, message):
    with pytest.raises(InputError, match=message):
        evaluation.evaluate(a_map(np.arange(300), 300), ball, np.array(truth))


def test_truth_must_hold_something(ball):
    with pytest.raises(InputError, match="the truth holds no pairs"):
        evaluation.evaluate(a_map(np.arange(300), 300), ball, np.zeros((0, 2), int))


def test_a_map_for_another_target(ball):
    with pytest.raises(InputError, match="for a target of 301 points; ball has 300"):
        evaluation.evaluate(a_map(np.arange(300), 301), ball, diagonal(300))


def test_area_of_a_square():
    assert evaluation.area_of(SQUARE) == 4


def test_area_of_a_cloud_is_that_of_its_laplacian(sphere):
    assert evaluation.area_of(sphere) == pytest.approx(4 * np.pi, rel=0.03)
    twice = Shape(np.concatenate([sphere.points, sphere.points]))
    assert evaluation.area_of(twice) == pytest.approx(evaluation.area_of(sphere))


def test_a_cloud_is_judged_by_the_cloud(sphere):
    found = evaluation.evaluate(a_map(np.arange(500), 500), sphere, diagonal(500), samples=10)
    assert found.method == "heat method on the point cloud"
    assert found.mean == pytest.approx(0, abs=1e-6)
    assert geometry.geodesics_method(sphere) == found.method


def test_overlap_of_two_sets_by_hand():
    one, other = np.array([True, True, False, False]), np.array([False, True, True, False])
    assert evaluation.overlap(one, other) == pytest.approx(1 / 3)
    assert evaluation.overlap(one, one) == 1
    assert evaluation.overlap(one, ~one) == 0
    assert evaluation.overlap(np.zeros(3, bool), np.zeros(3, bool)) == 1


def test_auroc_by_hand():
    true = np.array([True, True, False, False])
    assert evaluation.auroc(np.array([0.9, 0.8, 0.3, 0.1]), true) == 1
    assert evaluation.auroc(np.array([0.1, 0.3, 0.8, 0.9]), true) == 0
    assert evaluation.auroc(np.array([0.9, 0.2, 0.3, 0.1]), true) == pytest.approx(3 / 4)
    assert evaluation.auroc(np.full(4, 0.5), true) == pytest.approx(1 / 2)
    assert np.isnan(evaluation.auroc(np.full(2, 0.5), np.array([True, True])))
