import json
import os
import sys
from multiprocessing import get_context

import numpy as np
import pytest

from coembed import compiled, geometry, matching, trust
from coembed.errors import InputError, NumericalError, WeightsError
from coembed.model import CoupledEmbedding, ModelConfig, initial_parameters
from coembed.shapes import Shape


def test_a_shape_matches_itself_row_by_row(tiny_model, torus):
    found = matching.match(tiny_model, torus, torus)
    np.testing.assert_array_equal(found.p2p, np.arange(700))
    assert found.score.min() > 0.99
    assert found.n_target == 700


@pytest.fixture(scope="module")
def pair(tiny_model, torus, sphere):
    return matching.match(tiny_model, torus, sphere)


def test_scores_lie_between_zero_and_one(pair):
    assert pair.score.min() >= 0
    assert pair.score.max() <= 1
    assert pair.score.min() < 0.99


def test_scores_are_what_the_ways_there_and_back_say(tiny_model, torus, sphere, pair):
    back = matching.match(tiny_model, sphere, torus).p2p
    one, other = (geometry.prepare(shape, n_eig=16) for shape in (torus, sphere))
    points, ends = one.points[one.rows], other.points[other.rows][pair.p2p]
    off = np.linalg.norm(points - points[back[pair.p2p]], axis=1)
    np.testing.assert_allclose(pair.score, trust.score(points, ends, off), atol=1e-9)


def test_a_permuted_source_permutes_the_map(tiny_model, torus, sphere, pair, rng):
    order = rng.permutation(700)
    found = matching.match(tiny_model, Shape(torus.points[order]), sphere)
    np.testing.assert_array_equal(found.p2p, pair.p2p[order])
    np.testing.assert_array_equal(found.score, pair.score[order])


def test_a_permuted_target_renames_the_answers(tiny_model, torus, sphere, pair, rng):
    order = rng.permutation(500)
    found = matching.match(tiny_model, torus, Shape(sphere.points[order]))
    np.testing.assert_array_equal(order[found.p2p], pair.p2p)
    np.testing.assert_array_equal(found.score, pair.score)


def test_copies_in_the_target_answer_with_their_first_row(tiny_model, torus, sphere, pair):
    doubled = Shape(np.concatenate([sphere.points, sphere.points]))
    found = matching.match(tiny_model, torus, doubled)
    np.testing.assert_array_equal(found.p2p, pair.p2p)
    assert found.n_target == 1000
    turned = Shape(doubled.points[::-1])
    found = matching.match(tiny_model, torus, turned)
    np.testing.assert_array_equal(found.p2p, 499 - pair.p2p)


def test_copies_in_the_source_share_their_answer(tiny_model, torus, sphere, pair):
    more = Shape(np.concatenate([torus.points, torus.points[[4, 4, 9]]]))
    found = matching.match(tiny_model, more, sphere)
    np.testing.assert_array_equal(found.p2p, np.concatenate([pair.p2p, pair.p2p[[4, 4, 9]]]))


def test_place_and_unit_of_a_shape_do_not_count(tiny_model, torus, sphere, pair):
    found = matching.match(tiny_model, Shape(1000 * torus.points + 50), sphere)
    # round-off may flip a near tie or two
    assert (found.p2p != pair.p2p).mean() < 0.01


def test_the_coupled_mode_is_another_map(tiny_model, torus, sphere, pair):
    found = matching.match(tiny_model, torus, sphere, coupled=True)
    assert found.record["coupled"] is True
    assert (found.p2p != pair.p2p).any()


def test_the_coupled_mode_needs_attention(torus):
    config = ModelConfig(dim=8, n_eig=16, width=16, n_blocks=1, n_heads=2, attention=False)
    model = CoupledEmbedding(config, initial_parameters(config, 0))
    with pytest.raises(WeightsError, match="hold no cross-attention"):
        matching.match(model, torus, torus, coupled=True)


def test_the_record_tells_what_was_done(pair, tiny_model, torus):
    record = pair.record
    assert json.loads(json.dumps(record)) == record
    assert record["source"]["name"] == "torus"
    assert record["source"]["rows"] == 700
    assert record["target"]["changes"] == []
    assert len(record["source"]["sha256"]) == 64
    assert record["weights"] == "tiny"
    assert record["model"]["dim"] == 8
    assert set(record["seconds"]) == {"prepare", "embed", "refine", "match", "total"}
    again = matching.match(tiny_model, torus, torus).record
    assert again["source"]["sha256"] == record["source"]["sha256"]


def test_a_cache_changes_nothing(tiny_model, torus, sphere, pair, tmp_path):
    for _ in range(2):
        found = matching.match(tiny_model, torus, sphere, cache=tmp_path)
        np.testing.assert_array_equal(found.p2p, pair.p2p)
        np.testing.assert_array_equal(found.score, pair.score)


def test_embeddings_are_in_the_rows_of_the_file(tiny_model, torus, rng):
    order = rng.permutation(700)
    one = matching.embed(tiny_model, torus)
    assert np.asarray(one).shape == (700, 8)
    other = matching.embed(tiny_model, Shape(torus.points[order]))
    np.testing.assert_array_equal(np.asarray(other), np.asarray(one)[order])


def test_two_processes_give_the_same_bytes(tiny_model, sphere_points):
    one, other = Shape(sphere_points(300) * [1, 2, 3]), Shape(sphere_points(280) * [1, 2, 2.5])
    alone = matching.match(tiny_model, one, other)
    both = matching.match(tiny_model, one, other, jobs=2)
    assert both.p2p.tobytes() == alone.p2p.tobytes()
    assert both.score.tobytes() == alone.score.tobytes()


def test_an_error_of_the_other_process_is_raised(tiny_model, sphere_points):
    one, flat = Shape(sphere_points(300)), Shape(np.zeros((40, 3)), name="flat")
    with pytest.raises(InputError, match="flat: at least 20 distinct points"):
        matching.match(tiny_model, one, flat, jobs=2)
    with pytest.raises(InputError, match="flat: at least 20 distinct points"):
        matching.match(tiny_model, flat, one, jobs=2)


def test_a_process_that_dies_is_told(tiny_model, sphere_points, monkeypatch):
    monkeypatch.setattr(matching, "_send_embedded", lambda *_: os._exit(9))
    shapes = [Shape(sphere_points(300), name=name) for name in "ab"]
    with pytest.raises(NumericalError, match="b: the process that prepared it ended"):
        matching.match(tiny_model, *shapes, jobs=2)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere one process does both shapes")
def test_the_other_process_ends_if_nobody_waits_for_it(tiny_model, sphere_points):
    """As when the first one is killed: more than a pipe holds is not sent for ever."""
    context = get_context("fork")
    ends, how = context.Pipe(duplex=False), matching._How(None, None, ("none", "none"))
    work = (*ends, tiny_model, Shape(sphere_points(4000)), how)
    process = context.Process(target=matching._send_embedded, args=work)
    process.start()
    for end in ends:
        end.close()
    process.join(60)
    running = process.is_alive()
    process.kill()
    assert not running
    assert process.exitcode == 0


# --------------------------------------------------------------------------------- large clouds


@pytest.fixture(scope="module")
def large(sphere_points):
    """Two ellipsoids with more points than brute force is used for."""
    one, other = sphere_points(9000) * [1, 2, 3], sphere_points(8500) * [1, 2, 2.7]
    return Shape(one, name="one"), Shape(other, name="other")


@pytest.fixture(scope="module")
def large_pair(tiny_model, large):
    return matching.match(tiny_model, *large, points=1500)


def test_of_a_large_cloud_a_sample_is_looked_at_and_every_row_answered(large_pair, large):
    assert len(large_pair.p2p) == 9000
    assert large_pair.n_target == 8500
    assert (large_pair.p2p >= 0).all()
    record = large_pair.record["source"]
    assert 1300 < record["looked_at"] <= 1500
    assert f"the network looked at {record['looked_at']} of 9000" in record["changes"][0]
    assert large_pair.record["search_recall"] > 0.97


def test_the_sample_gives_nearly_the_map_of_all_points(tiny_model, large, large_pair):
    full = matching.match(tiny_model, *large, points=None)
    assert full.record["source"]["changes"] == []
    assert full.record["source"]["looked_at"] == 9000
    target = large[1].points
    off = np.linalg.norm(target[full.p2p] - target[large_pair.p2p], axis=1)
    assert np.median(off) < 0.2
    assert abs(full.score.mean() - large_pair.score.mean()) < 0.1


def test_a_permuted_large_cloud_permutes_the_map(tiny_model, large, large_pair, rng):
    one, other = rng.permutation(9000), rng.permutation(8500)
    found = matching.match(
        tiny_model, Shape(large[0].points[one]), Shape(large[1].points[other]), points=1500
    )
    np.testing.assert_array_equal(other[found.p2p], large_pair.p2p[one])
    np.testing.assert_array_equal(found.score, large_pair.score[one])


def test_a_small_cloud_can_be_sampled_too(tiny_model, torus, sphere, pair):
    found = matching.match(tiny_model, torus, sphere, points=400)
    off = np.linalg.norm(sphere.points[found.p2p] - sphere.points[pair.p2p], axis=1)
    assert np.median(off) < 0.3
    np.testing.assert_array_equal(found.apply(torus.points[:9]), found.p2p[:9])


def test_repeated_points_of_a_large_cloud_share_their_answer(tiny_model, large, large_pair):
    more = Shape(np.concatenate([large[0].points, large[0].points[:5]]))
    found = matching.match(tiny_model, more, large[1], points=1500)
    np.testing.assert_array_equal(found.p2p[:9000], large_pair.p2p)
    np.testing.assert_array_equal(found.p2p[9000:], large_pair.p2p[:5])
    assert "5 repeated points" in found.record["source"]["changes"][0]


def test_points_that_were_not_in_the_run_are_answered(large_pair, large, sphere_points):
    source, target = large
    # all but near ties
    assert (large_pair.apply(source.points[:700]) == large_pair.p2p[:700]).mean() > 0.99
    new = sphere_points(1234) * [1, 2, 3]
    found = large_pair.apply(new)
    nearby = np.linalg.norm(source.points[None] - new[:300, None], axis=2).argmin(axis=1)
    off = target.points[found[:300]] - target.points[large_pair.p2p[nearby]]
    assert np.median(np.linalg.norm(off, axis=1)) < 0.15


def test_points_outside_a_small_run_are_answered_in_the_files_units(tiny_model, torus, sphere):
    big = Shape(1000 * torus.points + 7)
    found = matching.match(tiny_model, big, sphere)
    np.testing.assert_array_equal(found.apply(big.points[:50]), found.p2p[:50])
    with_a_gap = np.concatenate([big.points[:1], np.full((1, 3), np.nan)])
    np.testing.assert_array_equal(found.apply(with_a_gap), [found.p2p[0], -1])


def test_embeddings_match_as_their_shapes_do(tiny_model, large, large_pair):
    one, other = (matching.embed(tiny_model, shape, points=1500) for shape in large)
    found = matching.match(tiny_model, one, other)
    np.testing.assert_array_equal(found.p2p, large_pair.p2p)
    np.testing.assert_array_equal(found.score, large_pair.score)
    mixed = matching.match(tiny_model, one, large[1], points=1500, jobs=2)
    np.testing.assert_array_equal(mixed.p2p, large_pair.p2p)


def test_embeddings_of_other_weights_are_refused(tiny_model, torus, sphere):
    config = tiny_model.config
    other = CoupledEmbedding(config, initial_parameters(config, 5))
    embedding = matching.embed(other, torus)
    with pytest.raises(InputError, match="torus: was embedded with other weights"):
        matching.match(tiny_model, embedding, sphere)


@pytest.mark.parametrize("points", [19, -1, 0])
def test_a_sample_needs_enough_points(tiny_model, torus, points):
    with pytest.raises(InputError, match="points must be 20 or more, or None for all; got"):
        matching.embed(tiny_model, torus, points=points)


def test_attention_through_landmarks_is_near_full_attention(tiny_model, large, monkeypatch):
    one, other = (matching.embed(tiny_model, shape, points=3000) for shape in large)
    full = matching.match(tiny_model, one, other, coupled=True)
    monkeypatch.setattr(matching, "_LANDMARKS_ABOVE", 1000)
    monkeypatch.setattr(matching, "_LANDMARKS", 500)
    through = matching.match(tiny_model, one, other, coupled=True)
    for whole, few in zip(full.embeddings, through.embeddings, strict=True):
        deviation = np.linalg.norm(whole.values - few.values) / np.linalg.norm(whole.values)
        assert 0 < deviation < 0.02


def test_the_estimate_grows_and_a_limit_is_refused_with_what_fits(large, monkeypatch):
    monkeypatch.setattr(compiled, "native", lambda: compiled)  # as if it were there
    full = matching.estimate(*large, points=None)
    sampled = matching.estimate(*large, points=2000)
    assert full.seconds > sampled.seconds
    assert full.memory > sampled.memory
    with pytest.raises(InputError, match=r"needs about .* GB, more than the 0.1. GB .*--points"):
        matching.estimate(*large, points=None, max_memory=0.95 * full.memory)
    with pytest.raises(InputError, match=r"thin the shapes first"):
        matching.estimate(*large, points=None, max_memory=1e8)
    matching.estimate(*large, points=None, max_memory=1e9)
    monkeypatch.setattr(compiled, "native", lambda: None)
    assert matching.estimate(*large, points=None).memory > full.memory
