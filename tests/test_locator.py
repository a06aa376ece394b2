import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from coembed import alignment, bodies, locator, normals, sampling
from coembed.shapes import degrees_of

TURN = Rotation.from_euler("xyz", (70, 100, -40), degrees=True).as_matrix()


@pytest.fixture(scope="module")
def shipped():
    return locator.load()


@pytest.fixture(scope="module")
def piece():
    """The upper body of somebody: points, outward normals, places on the mean body."""
    rng = np.random.default_rng(3)
    sample = bodies.sample(bodies.body(rng), 3000, rng)
    chosen = sample.shape.points[:, 1] > np.quantile(sample.shape.points[:, 1], 0.6)
    points = sample.shape.points[chosen]
    return points, normals.outward(points), sample.place[chosen]


def looked_at(points, outward, rows):
    return points[rows].astype(np.float32), outward[rows].astype(np.float32)


def test_turn_place_scale_and_order_do_not_matter(shipped, piece, rng):
    points, outward, _ = piece
    rows = sampling.thin(points, 150)
    usual = locator.scores(shipped.parameters, *looked_at(points, outward, rows))
    moved = 3 * points @ TURN.T + (1, -2, 5)
    other = locator.scores(shipped.parameters, *looked_at(moved, outward @ TURN.T, rows))
    np.testing.assert_allclose(other, usual, atol=2e-3)
    order = rng.permutation(len(rows))
    mixed = locator.scores(shipped.parameters, *looked_at(points, outward, rows[order]))
    np.testing.assert_allclose(mixed, usual[order], atol=2e-3)


def test_left_is_told_from_right(shipped, piece):
    points, outward, _ = piece
    rows, mirror = sampling.thin(points, 150), np.array([-1, 1, 1])
    usual, mirrored = (
        locator.scores(shipped.parameters, *looked_at(points * side, outward * side, rows))
        for side in (1, mirror)
    )
    sides = [shipped.places[one.argmax(axis=1), 0] for one in (usual, mirrored)]
    clear = (abs(sides[0]) > 0.1) & (abs(sides[1]) > 0.1)
    assert (sides[0] * sides[1] < 0)[clear].mean() > 0.8


def test_several_parts_at_once_are_each_as_alone(shipped, piece):
    points, outward, _ = piece
    rows = [sampling.thin(points, 100)[:90], sampling.thin(points, 120)[:90]]
    alone = [locator.scores(shipped.parameters, *looked_at(points, outward, one)) for one in rows]
    both = locator.scores(shipped.parameters, *looked_at(points, outward, np.array(rows)))
    np.testing.assert_allclose(both, alone, atol=1e-4)


def test_torch_gives_the_same(shipped, piece):
    torch = pytest.importorskip("torch")
    points, outward, _ = piece
    seen = looked_at(points, outward, sampling.thin(points, 100))
    parameters = {name: torch.from_numpy(one) for name, one in shipped.parameters.items()}
    found = locator.scores(parameters, *map(torch.from_numpy, seen))
    np.testing.assert_allclose(found.numpy(), locator.scores(shipped.parameters, *seen), atol=1e-3)


@pytest.mark.parametrize("factor", [None, 0.6])
def test_a_piece_in_any_turn_is_laid_on_the_body(shipped, piece, factor):
    points, _, place = piece
    turned = points @ TURN.T
    size = np.sqrt(1.8)  # about the area of a person
    found = shipped.look(turned).guesses(factor=None if factor is None else 1 / size)
    best = found[0]
    assert degrees_of(best.rotation @ TURN) < 25
    assert best.factor * size == pytest.approx(1, rel=0.2)
    if factor is not None:
        assert best.factor == 1 / size
    there = best.factor * turned @ best.rotation.T + best.shift
    places = place @ alignment.AXES["z"].T / size
    assert np.median(np.linalg.norm(there - places, axis=1)) < 0.15
    assert [one.likeness for one in found] == sorted((one.likeness for one in found), reverse=True)


def test_anchors_are_alike_if_they_are_near(shipped):
    alike = shipped.axes @ shipped.axes.T
    away = np.linalg.norm(shipped.places[:, None] - shipped.places, axis=2)
    assert (alike[away > 0.6] < 0.2).all()
    assert alike.max() < 1.1
    assert np.median(alike[(away > 0) & (away < 0.07)]) > 0.7


def test_guesses_differ_and_do_not_change_between_runs(shipped, piece):
    points = piece[0]
    first, again = (shipped.look(points).guesses() for _ in range(2))
    assert 1 <= len(first) <= 8
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one.rotation, other.rotation)
        assert one.factor == other.factor
    for i, one in enumerate(first):
        for other in first[:i]:
            turned = degrees_of(one.rotation @ other.rotation.T) > 25
            assert turned or abs(np.log(one.factor / other.factor)) > 0.3


def test_points_of_two_people_sit_alike_where_they_correspond(shipped, piece):
    points, _, place = piece
    rng = np.random.default_rng(5)
    other = bodies.sample(bodies.body(rng), 2000, rng)
    one, two = shipped.look(points), shipped.look(other.shape.points)
    assert 300 < len(one.rows) <= 400
    np.testing.assert_array_equal(one.points, points[one.rows])
    lying = shipped.look(points, 200).guesses()[0]
    for seats in (one.seats(), one.seats(lying)):
        found = (seats @ two.seats().T).argmax(axis=1)
        off = place[one.rows] - other.place[two.rows[found]]
        assert np.median(np.linalg.norm(off, axis=1)) < 0.08
    away = locator.Lying(lying.rotation, lying.factor, lying.shift + 0.5)
    assert one.likeness(lying) > one.likeness(away)
    assert not np.allclose(one.seats(away), one.seats(lying), atol=1e-3)
