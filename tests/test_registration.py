from dataclasses import replace

import numpy as np
import pytest

from coembed import bodies, matching, model, registration
from coembed.errors import InputError
from coembed.shapes import Shape


@pytest.fixture(scope="module")
def human():
    return model.load("human")


@pytest.fixture(scope="module")
def people():
    """Two people, each with points of its own, and for each point its place on the mean body."""
    samples = []
    for seed in (11, 12):
        rng = np.random.default_rng(seed)
        samples.append(bodies.sample(bodies.body(rng), 1500, rng, name=f"person {seed}"))
    return samples


@pytest.fixture(scope="module")
def registered(human, people):
    return matching.match(human, people[0].shape, people[1].shape, refine="register")


def error(people, p2p):
    """Mean distance, on the mean body, between each point and its match."""
    return np.linalg.norm(people[0].place - people[1].place[p2p], axis=1).mean()


def spoiled(embedding, rng, share):
    """An embedding with noise of this share of its spread."""
    noise = rng.normal(size=embedding.values.shape) * embedding.values.std() * share
    return replace(embedding, values=(embedding.values + noise).astype(np.float32))


def test_the_closest_rotations_are_those_of_the_singular_value_decomposition(rng):
    matrices = rng.normal(size=(200, 3, 3))
    matrices[50:100, :, 2] = matrices[50:100, :, 1]  # of rank 2
    u, _, vt = np.linalg.svd(matrices)
    u[:, :, 2] *= np.linalg.det(u @ vt)[:, None]
    found = registration._closest_rotations(matrices * 7)
    gained = np.einsum("kab,kab->k", found, matrices)
    np.testing.assert_allclose(gained, np.einsum("kab,kab->k", u @ vt, matrices), rtol=1e-6)
    np.testing.assert_allclose(
        found @ found.transpose(0, 2, 1), np.tile(np.eye(3), (200, 1, 1)), atol=1e-5
    )
    np.testing.assert_allclose(np.linalg.det(found), 1, atol=1e-5)


def test_registration_mends_a_noisy_embedding(human, people, rng):
    pair = [spoiled(matching.embed(human, one.shape), rng, 0.6) for one in people]
    plain, refined = (
        error(people, matching.match(human, *pair, refine=how).p2p) for how in ("none", "register")
    )
    assert refined < 0.8 * plain


def test_registration_does_little_harm_to_a_good_map_of_two_builds(human, people, registered):
    plain = error(people, matching.match(human, people[0].shape, people[1].shape).p2p)
    assert error(people, registered.p2p) < 1.15 * plain


def test_the_deformed_source_lies_on_the_target(people, registered):
    target = people[1].shape.points
    size = np.ptp(target, axis=0).max()
    off = np.linalg.norm(registered.deformed() - target[registered.p2p], axis=1)
    assert registered.deformed().shape == people[0].shape.points.shape
    assert np.median(off) < 0.02 * size
    before = np.linalg.norm(people[0].shape.points - target[registered.p2p], axis=1)
    assert np.median(off) < 0.3 * np.median(before)


def test_the_deformed_source_is_in_the_frame_of_the_targets_file(human, people, registered):
    moved = Shape(people[1].shape.points * 1000 + [5e5, 0, -3e5])
    found = matching.match(human, people[0].shape, moved, refine="register")
    np.testing.assert_array_equal(found.p2p, registered.p2p)
    wanted = registered.deformed() * 1000 + [5e5, 0, -3e5]
    np.testing.assert_allclose(found.deformed(), wanted, atol=1)  # of about 1,700


def test_a_permuted_source_permutes_the_registered_map(human, people, registered, rng):
    order = rng.permutation(len(registered.p2p))
    source = Shape(people[0].shape.points[order])
    found = matching.match(human, source, people[1].shape, refine="register")
    np.testing.assert_array_equal(found.p2p, registered.p2p[order])
    np.testing.assert_array_equal(found.deformed(), registered.deformed()[order])


def test_shapes_that_do_not_lie_on_each_other_keep_the_plain_map(human, people, rng):
    rod = rng.normal(size=(1500, 3)) * [1, 0.02, 0.02]
    other = Shape(rod, name="rod")
    plain = matching.match(human, people[0].shape, other)
    found = matching.match(human, people[0].shape, other, refine="register")
    np.testing.assert_array_equal(found.p2p, plain.p2p)
    assert found.registration is None
    assert "cannot be laid on each other" in found.record["notes"][0]
    with pytest.raises(InputError, match="no deformed shape"):
        found.deformed()


def test_a_sample_is_registered_and_the_rest_interpolated(human, people, registered):
    found = matching.match(human, people[0].shape, people[1].shape, refine="register", points=1000)
    assert found.record["source"]["looked_at"] <= 1000
    assert len(found.p2p) == len(found.deformed()) == 1500
    assert error(people, found.p2p) < 1.3 * error(people, registered.p2p)


def test_limbs_that_touch_are_told_apart(human):
    """A person whose limbs touch, against one whose limbs do not."""
    surfaces = []
    for seed, touching in ((3, 1), (12, 0)):
        rng = np.random.default_rng(seed)
        shape = bodies.sample(bodies.body(rng, touching=touching), 2000, rng).shape
        surfaces.append(registration.Surface.of(matching.embed(human, shape)))
    found = registration.register(*surfaces)
    assert found.touching[0] > found.touching[1]


def test_the_same_input_gives_the_same_bytes(human, people, registered):
    again = matching.match(human, people[0].shape, people[1].shape, refine="register")
    np.testing.assert_array_equal(again.p2p, registered.p2p)
    assert again.deformed().tobytes() == registered.deformed().tobytes()


def test_the_points_themselves_are_answered_by_the_registered_map(people, registered):
    np.testing.assert_array_equal(registered.apply(people[0].shape.points), registered.p2p)


def test_spectral_refinement_finds_a_permutation(tiny_model, torus, rng):
    order = rng.permutation(len(torus.points))
    found = matching.match(tiny_model, torus, Shape(torus.points[order]), refine="spectral")
    np.testing.assert_array_equal(order[found.p2p], np.arange(len(order)))
    assert found.registration is None


def test_an_unknown_refinement_is_refused(tiny_model, torus):
    with pytest.raises(InputError, match="refine must be one of none, register, spectral; got 'x'"):
        matching.match(tiny_model, torus, torus, refine="x")


def test_on_the_way_limbs_swing_and_do_not_shrink(human, people):
    surfaces = [registration.Surface.of(matching.embed(human, one.shape)) for one in people]
    laid = registration.register(*surfaces)
    start, end = surfaces[0].sample, laid.deformed[0]
    np.testing.assert_allclose(laid.between(0.0), start, atol=0.02)
    np.testing.assert_allclose(laid.between(1.0), end, atol=0.02)
    half = laid.between(0.5)
    near = surfaces[0].spread

    def lengths(points):
        return np.linalg.norm(points[near] - points[:, None], axis=2).mean()

    assert lengths(half) > 0.97 * min(lengths(start), lengths(end))
    straight = lengths((start + end) / 2)
    assert lengths(half) >= straight
