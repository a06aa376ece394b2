"""People are set upright however they hold themselves."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import coembed
from coembed import alignment, bodies, poses, posture
from coembed.rotations import about_y

PEOPLE = 4


def tilts_of(draw, model):
    """Degrees by which the upright direction is missed, after one look."""
    compass, tilts = alignment.load(), []
    for seed in range(PEOPLE):
        rng = np.random.default_rng(seed)
        person = bodies.sample(bodies.body(rng, draw=draw), 1500, rng)
        few = alignment.thinned(coembed.prepare(person.shape), 800, model.config.n_eig)
        _, places = compass.compare(model.embed(few), few.mass, 12)
        upright = compass.upright(few.points, few.mass, places)
        tilts.append(np.rad2deg(np.arccos(np.clip(upright[1, 1], -1, 1))))
    return tilts


@pytest.mark.parametrize("draw", [poses.seated, poses.crouched, poses.stooped])
def test_who_sits_who_crouches_and_who_stoops_are_told_apart(draw):
    # tipped forward by 60 degrees who sits looks much like who crouches, by 90 like who stoops
    assert max(tilts_of(draw, coembed.load())) < 25


@pytest.fixture
def standing(rng):
    """A trunk, a leg that bears and its foot, a leg that is lifted sideways."""
    foot = rng.uniform([-0.04, 0, -0.03], [0.04, 0.03, 0.16], (200, 3))
    leg = rng.uniform([-0.05, 0.03, -0.05], [0.05, 0.6, 0.05], (400, 3))
    trunk = rng.uniform([-0.12, 0.6, -0.06], [0.12, 1.3, 0.1], (900, 3))
    lifted = leg @ Rotation.from_euler("z", 60, degrees=True).as_matrix().T + [0.5, 0.35, 0]
    points = np.concatenate([foot, leg, trunk, lifted])
    return points - points.mean(axis=0)


def test_somebody_on_one_leg_is_borne_by_it(standing):
    share = np.full(len(standing), 1 / len(standing))
    sideways = Rotation.from_euler("x", 90, degrees=True).as_matrix()
    ups = np.array([[0, 1.0, 0], sideways @ [0, 1.0, 0]])
    found = posture.bearing(standing, share, ups)
    np.testing.assert_allclose(found.lowest, (standing @ ups.T).min(axis=0))
    heights = standing[:, 1] - standing[:, 1].min()
    assert found.carried[0] == pytest.approx(np.exp(-((heights / 0.05) ** 2)).mean())
    foot = standing[:200].mean(axis=0)
    assert found.off[0] == pytest.approx(np.hypot(foot[0], foot[2]), abs=0.02)


def test_up_does_not_depend_on_how_the_shape_lies(standing, rng):
    known = posture.load()
    landmarks, form = known.usual, rng.standard_normal(len(known.axes))
    mass = np.ones(len(standing))
    up = known.up(standing, mass, landmarks, form)
    for seed in range(3):
        turn = Rotation.random(random_state=seed).as_matrix()
        found = known.up(standing @ turn.T, mass, landmarks @ turn.T, form)
        assert np.rad2deg(np.arccos(np.clip(found @ (turn @ up), -1, 1))) < 3


def test_what_is_no_person_gets_some_direction(rng):
    known = posture.load()
    rod = rng.standard_normal((300, 3)) * [30, 0.01, 0.01]
    mass = np.ones(300)
    mass[rod[:, 0].argmin()] = 0
    places = 0.1 * rng.standard_normal((300, 3))
    found = known.upright(rod, mass, places)
    np.testing.assert_allclose(found @ found.T, np.eye(3), atol=1e-6)


def test_head_and_feet_help_to_tell_the_front(rng):
    # the trunk faces +z, the head left by 40 degrees and the feet by 20
    places = np.concatenate([
        rng.uniform([-0.07, 0.51, -0.08], [0.07, 0.67, 0.08], (60, 3)),
        rng.uniform([0.05, -0.62, -0.05], [0.1, -0.54, 0.12], (40, 3)),
        rng.uniform([-0.1, -0.62, -0.05], [-0.05, -0.54, 0.12], (40, 3)),
        rng.uniform([-0.1, -0.1, -0.05], [0.1, 0.4, 0.05], (200, 3)),
    ])  # fmt: skip
    points = places.copy()
    for rows, angle in ((slice(60), 40.0), (slice(60, 100), 20.0), (slice(100, 140), 20.0)):
        points[rows] = places[rows] @ about_y(angle).T
    x, y, z = posture._front(points, np.ones(len(points)), places)
    assert y == 0
    assert np.rad2deg(np.arctan2(x, z)) == pytest.approx(20, abs=0.5)
    trunk = slice(140, None)  # nothing else is seen
    front = posture._front(points[trunk], np.ones(200), places[trunk])
    np.testing.assert_array_equal(front, [0, 0, 1])
