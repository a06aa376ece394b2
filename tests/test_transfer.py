import numpy as np
import pytest

from coembed import formats
from coembed.errors import InputError
from coembed.shapes import Correspondence, Shape
from coembed.transfer import Carrier, carried, is_category, transfer


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


def flat_grid(n):
    """Points of a flat square, n by n, and its triangles."""
    x, y = np.meshgrid(np.arange(n), np.arange(n), indexing="ij")
    points = np.column_stack([x.ravel(), y.ravel(), np.zeros(n * n)]).astype(float)
    corner = (np.arange(n - 1)[:, None] * n + np.arange(n - 1)).ravel()
    halves = [np.column_stack([corner, corner + n, corner + 1])]
    halves.append(np.column_stack([corner + 1, corner + n, corner + n + 1]))
    return points, np.concatenate(halves)


def test_shares_sum_to_one_where_there_is_an_answer(sphere_points, rng):
    one, other = Shape(sphere_points(300)), Shape(sphere_points(200))
    p2p = rng.integers(-1, 200, 300)
    matches = Correspondence(p2p, np.ones(300), 200)
    for to in ("source", "target"):
        carrier = Carrier.of(one, other, matches, to)
        for matrix in (carrier.smooth, carrier.votes):
            total = matrix.sum(axis=1)
            np.testing.assert_allclose(total[carrier.answered], 1)
            assert (total[~carrier.answered] == 0).all()
        assert carrier.votes.data.min() > 0
    back = Carrier.of(one, other, matches, "source")
    np.testing.assert_array_equal(back.answered, p2p >= 0)


def test_a_permutation_is_carried_exactly_both_ways(sphere_points, rng):
    points, p2p = sphere_points(200), rng.permutation(200)
    values = {"heat": rng.normal(size=200), "part": rng.integers(9, size=200)}
    one = Shape(points, attributes=values)
    other = Shape(points[np.argsort(p2p)])
    matches = Correspondence(p2p, np.ones(200), 200)
    there = transfer(one, other, matches, to="target")
    for name in values:
        np.testing.assert_array_equal(there.attributes[name][p2p], values[name])
    again = transfer(Shape(points), there, matches)
    for name in values:
        np.testing.assert_array_equal(again.attributes[name], values[name])


def test_to_the_target_by_hand():
    """Means and majorities where several rows end, nothing far from all of them."""
    rows = np.arange(41.0)
    line = np.column_stack([rows, np.sin(rows), np.zeros(41)])
    values = {"heat": np.array([1.5, 2.5, 9.5]), "part": np.array([4, 4, 2])}
    source = Shape(np.array([[0, 0, 0], [0.1, 0, 0], [0.2, 0, 0.0]]), attributes=values)
    matches = Correspondence(np.array([0, 0, 1]), np.ones(3), 41)
    found = carried(source, Shape(line), matches, to="target")
    assert found.shape.attributes["heat"][:2].tolist() == [2, 9.5]
    assert found.shape.attributes["part"][:2].tolist() == [4, 2]
    assert np.isnan(found.shape.attributes["heat"][-1])
    assert found.shape.attributes["part"][-1] == -1
    assert found.without == np.isnan(found.shape.attributes["heat"]).sum() > 20


def test_values_between_few_points_are_interpolated_and_labels_are_not():
    points, _ = flat_grid(40)
    coarse = points.reshape(40, 40, 3)[2::5, 2::5].reshape(-1, 3)
    match = np.linalg.norm(points[:, None] - coarse, axis=2).argmin(axis=1)
    values = {"x": coarse[:, 0] + 0.5, "part": (coarse[:, 0] > 18).astype(int)}
    matches = Correspondence(match, np.ones(1600), 64)
    found = transfer(Shape(points), Shape(coarse, attributes=values), matches).attributes
    inner = ((points > 2) & (points < 37))[:, :2].all(axis=1)
    np.testing.assert_allclose(found["x"][inner], points[inner, 0] + 0.5, atol=0.05)
    np.testing.assert_array_equal(found["part"], values["part"][match])


def test_colours_are_averaged_and_rounded_and_named_kinds_are_found():
    points, _ = flat_grid(5)
    red = np.arange(25, dtype=np.uint8)
    giver = Shape(points, attributes={"red": red, "part": np.arange(25), "heat": points[:, 0]})
    matches = Correspondence(np.array([*range(24), 23]), np.ones(25), 25)
    found = transfer(giver, Shape(points), matches, what=["colors", "part"], to="target")
    assert list(found.attributes) == ["red", "part"]
    assert found.attributes["red"].dtype == np.uint8
    assert found.attributes["red"][23] == 24  # the mean of 23 and 24, rounded to the even one
    with pytest.raises(InputError, match=r"has no 'uv' to carry; it has red, part, heat"):
        transfer(giver, Shape(points), matches, what=["uv"], to="target")
    with pytest.raises(InputError, match="shape has: carry them --to target"):
        transfer(giver, Shape(points), matches)


def test_nothing_is_averaged_across_a_seam():
    """The texture wraps round at x = 20: coordinates jump from 1 to 0."""
    points, faces = flat_grid(40)
    u = (points[:, 0] / 20) % 1
    giver = Shape(points, faces, attributes={"s": u, "t": points[:, 1] / 40})
    shifted = Shape(points + np.array([0.5, 0.25, 0]), faces)
    matches = Correspondence(np.arange(1600), np.ones(1600), 1600)
    quarter = points.reshape(40, 40, 3)[::2, ::2].reshape(-1, 3)
    rows = np.arange(1600).reshape(40, 40)[::2, ::2].ravel()
    coarse = Shape(quarter, attributes={"s": u[rows], "t": quarter[:, 1] / 40})
    few = Correspondence(rows, np.ones(400), 1600)
    found = carried(coarse, shifted, few, what=["uv"], to="target")
    s = found.shape.attributes["s"]
    true = (points[:, 0] / 20) % 1
    apart = np.abs(s - true)
    assert np.minimum(apart, 1 - apart).max() < 0.11  # never in the middle of 0 and 1
    exact = carried(giver, shifted, matches, what=["uv"], to="target")
    assert exact.torn == 2 * 39
    assert carried(giver, shifted, matches, what=["s"], to="target").torn == 78


def test_weights_of_a_skin_sum_to_one(sphere_points, rng):
    weights = rng.dirichlet(np.ones(5), 100).astype(np.float32)
    giver = Shape(sphere_points(100), attributes={"weights": weights})
    p2p = np.arange(400) // 4
    receiver = Shape(sphere_points(400))
    found = transfer(receiver, giver, Correspondence(p2p, np.ones(400), 100), what=["weights"])
    got = found.attributes["weights"]
    assert got.shape == (400, 5)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got.sum(axis=1), 1, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "values", "label"),
    [
        ("part", np.arange(3), True),
        ("part", np.array([1.0, 2, np.nan]), True),
        ("heat", np.array([0.5, 1, 2]), False),
        ("red", np.arange(3, dtype=np.uint8), False),
        ("s", np.array([0.0, 1, 1]), False),
        ("word", np.array(["a", "b", "a"]), True),
    ],
)
def test_labels_are_whole_numbers_or_words(name, values, label):
    assert is_category(name, values) == label


def test_an_empty_map_gives_nothing(sphere_points):
    giver = Shape(sphere_points(30), attributes={"heat": np.ones(30) / 2, "part": np.ones(30, int)})
    nothing = Correspondence(np.full(30, -1), np.zeros(30), 30)
    for to in ("source", "target"):
        pair = (
            (Shape(sphere_points(30)), giver)
            if to == "source"
            else (giver, Shape(sphere_points(30)))
        )
        found = carried(*pair, nothing, to=to)
        assert found.without == 30
        assert np.isnan(found.shape.attributes["heat"]).all()
        assert (found.shape.attributes["part"] == -1).all()


@pytest.mark.slow
def test_round_trip_on_generated_bodies():
    """Labels away from borders survive the way there and back by the true map."""
    from scipy.spatial import cKDTree

    from coembed import bodies
    from coembed.skinning import body_model

    shapes, places = [], []
    for seed in range(2):
        rng = np.random.default_rng(seed)
        sample = bodies.sample(bodies.body(rng), 3000, rng)
        corner = body_model().faces[sample.face, sample.barycentric.argmax(axis=1)]
        parts = body_model().parts[corner]
        shapes.append(Shape(sample.shape.points, attributes={"part": parts}))
        places.append(sample.place)
    p2p = cKDTree(places[1]).query(places[0])[1]
    matches = Correspondence(p2p, np.ones(3000), 3000)
    there = transfer(shapes[0], Shape(shapes[1].points), matches, to="target")
    back = transfer(Shape(shapes[0].points), there, matches)
    label = shapes[0].attributes["part"]
    around = cKDTree(places[0]).query_ball_point(places[0], 0.03)
    inner = np.array([(label[rows] == label[i]).all() for i, rows in enumerate(around)])
    right = back.attributes["part"] == label
    assert right[inner].mean() > 0.98
    assert right.mean() > 0.95
