import numpy as np
import pytest
from scipy.spatial import ConvexHull

from coembed import bodies, cuts
from coembed.skinning import body_model, vertex_normals

Z = np.array([0.0, 0, 1])


@pytest.fixture(scope="module")
def ball(sphere_points):
    """Corners and points of a sphere, whose normals are its points."""
    points = sphere_points(2000)
    return points[ConvexHull(points).simplices], points


@pytest.fixture(scope="module")
def person():
    """Corners, points and normals of a generated person."""
    faces = body_model().faces
    vertices = bodies.body(np.random.default_rng(4)).vertices
    return vertices[faces], vertices, vertex_normals(vertices, faces)


def square(side, z):
    """Two triangles about the z axis."""
    corners = side / 2 * np.array([[-1, -1], [1, -1], [1, 1], [-1, 1.0]])
    points = np.column_stack([corners, np.full(4, z)])
    return points[np.array([[0, 1, 2], [0, 2, 3]])]


@pytest.mark.parametrize("distance", [1.5, 3.0, 10.0])
def test_a_camera_sees_the_cap_of_a_sphere_up_to_its_horizon(ball, distance):
    corners, points = ball
    squarely = cuts.views(corners, points, points, Z, distance)
    # of a unit sphere from afar d: what lies above 1 / d
    assert (squarely[points[:, 2] < 1 / distance - 0.01] == 0).all()
    assert (squarely[points[:, 2] > 1 / distance + 0.12] > 0).all()
    top = points[:, 2].argmax()
    assert squarely[top] == pytest.approx(1, abs=0.01)
    ways = distance * Z - points
    cosine = np.einsum("na,na->n", ways, points) / np.linalg.norm(ways, axis=1)
    np.testing.assert_allclose(squarely[squarely > 0], cosine[squarely > 0], atol=0.02)


def test_other_directions_see_other_sides(ball, rng):
    corners, points = ball
    for direction in (*np.eye(3), *-np.eye(3), rng.normal(size=3)):
        seen = points[cuts.views(corners, points, points, 7 * direction) > 0]
        along = seen @ direction / np.linalg.norm(direction)
        assert 1 / 3 - 0.01 < along.min() < 1 / 3 + 0.12


def test_units_and_place_change_nothing(person):
    corners, points, normals = person
    first = cuts.views(corners, points, normals, Z)
    moved = cuts.views(1000 * corners + 50, 1000 * points + 50, 3 * normals, Z)
    np.testing.assert_allclose(first, moved, atol=1e-9)


def test_a_plate_hides_the_middle_of_a_plane_behind_it():
    across = np.linspace(-1, 1, 41)
    x, y = (one.ravel() for one in np.meshgrid(across, across))
    points = np.column_stack([x, y, np.zeros(len(x))])
    normals = np.tile(Z, (len(points), 1))
    plane, plate = square(2.2, 0.0), square(1.0, 0.5)
    assert (cuts.views(plane, points, normals, Z) > 0).all()
    corners = np.concatenate([plane, plate])
    seen = cuts.views(corners, points, normals, Z, 4.0) > 0
    size = np.linalg.norm([1.1, 1.1, 0.25])
    away = 0.25 + 4 * size  # of the camera from the plane
    edge = 0.5 * away / (away - 0.5)  # of the shadow: rays spread
    reach = np.abs(points[:, :2]).max(axis=1)
    assert not seen[reach < edge - 0.04].any()
    assert seen[reach > edge + 0.04].all()
    # from behind the plane is seen from its back only
    assert not (cuts.views(corners, points, normals, -Z) > 0).any()


def test_a_near_camera_sees_less(person):
    corners, points, normals = person
    near, far = (
        (cuts.views(corners, points, normals, Z, distance) > 0).mean() for distance in (1.5, 20.0)
    )
    assert 0.2 < near < far < 0.55


@pytest.mark.parametrize("kind", cuts.KINDS)
def test_the_same_seed_cuts_the_same_another_another(person, kind):
    first, again, other = (
        cuts.kept(kind, *person, np.random.default_rng(seed)) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    assert first.dtype == bool
    assert first.shape == (len(person[1]),)


@pytest.mark.parametrize("kind", [kind for kind in cuts.KINDS if kind != "pieces"])
def test_a_quarter_is_left_and_something_is_lost(person, kind):
    shares = [cuts.kept(kind, *person, np.random.default_rng(seed)).mean() for seed in range(8)]
    assert min(shares) >= 0.25
    assert np.median(shares) < 0.95


def test_holes_and_limbs_stop_before_too_little_is_left(ball):
    """On a sphere big balls would take nearly all."""
    _, points = ball
    for seed in range(30):
        rng = np.random.default_rng(seed)
        assert cuts.holes(points, rng).mean() >= 0.25
        assert cuts.limbs(points, rng).mean() >= 0.25


def test_a_plane_parts_what_is_left_from_what_is_not(ball):
    _, points = ball
    stay = cuts.planes(points, np.random.default_rng(3))
    middles = points[stay].mean(axis=0), points[~stay].mean(axis=0)
    normal = middles[1] - middles[0]
    along = points @ (normal / np.linalg.norm(normal))
    assert 0.25 <= stay.mean() <= 0.9
    assert along[stay].max() < along[~stay].min() + 0.05


def test_a_piece_is_what_lies_in_a_ball(person):
    points = person[1]
    shares = []
    for seed in range(20):
        stay = cuts.pieces(points, np.random.default_rng(seed))
        middle = points[np.random.default_rng(seed).integers(len(points))]
        away = np.linalg.norm(points - middle, axis=1)
        assert away[stay].max() < away[~stay].min()
        shares.append(stay.mean())
    assert 0.059 < min(shares) < 0.12
    assert 0.25 < max(shares) < 0.351


@pytest.mark.parametrize("seed", range(5))
def test_lost_limbs_are_balls_about_ends(person, seed):
    _, points, _ = person
    stay = cuts.limbs(points, np.random.default_rng(seed))
    rng = np.random.default_rng(seed)
    ends = points[(points @ rng.standard_normal((int(rng.integers(1, 4)), 3)).T).argmax(axis=0)]
    away = np.linalg.norm(points[:, None] - ends, axis=2)
    # of the balls that were taken away, each point is in one
    taken = [k for k in range(len(ends)) if not stay[away[:, k].argmin()]]
    assert taken
    size = np.linalg.norm(points - points.mean(axis=0), axis=1).max()
    assert away[~stay][:, taken].min(axis=1).max() < 0.8 * size


def test_a_surface_that_shows_its_back_only_leaves_what_is_seen():
    """No camera in front: ten looks, and then what most of them showed, be it nothing."""
    corners = square(1.0, 0.0)
    points = corners.reshape(-1, 3)
    stay = cuts.kept("views", corners, points, np.zeros_like(points), np.random.default_rng(0))
    assert not stay.any()
