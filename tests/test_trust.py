"""Scores are chances, and verdicts catch what a smooth map hides."""

from dataclasses import replace

import numpy as np
import pytest

import coembed
from coembed import bodies, compiled, geometry, matching, skinning, trust
from coembed.shapes import Alignment, Shape


@pytest.fixture(scope="module")
def model():
    return coembed.load()


@pytest.fixture(scope="module")
def people():
    samples = []
    for seed in (21, 22):
        rng = np.random.default_rng(seed)
        samples.append(bodies.sample(bodies.body(rng), 2500, rng, name=f"person{seed}"))
    return samples


def test_a_perfect_map_has_high_scores_and_a_shuffled_one_low(sphere_points, rng):
    points = sphere_points(600) / 3.5
    assert trust.score(points, points, np.zeros(600)).min() > 0.95
    shuffled = points[rng.permutation(600)]
    off = np.linalg.norm(points - shuffled, axis=1)
    assert trust.score(points, shuffled, off).max() < 0.2


def test_the_score_of_a_tiny_shape_uses_the_neighbours_there_are(sphere_points):
    points = sphere_points(5)
    assert trust.score(points, points, np.zeros(5)).shape == (5,)


def test_scores_are_near_the_share_of_right_matches(model, people):
    source, target = people
    found = matching.match(model, source.shape, target.shape)
    away = np.linalg.norm(source.place - target.place[found.p2p], axis=1) / 1.33
    assert abs((away < trust.CLOSE).mean() - found.score.mean()) < 0.06
    assert found.record["verdict"] == {"word": "good", "reasons": []}
    poor = found.score < np.quantile(found.score, 0.05)
    assert away[poor].mean() > 1.5 * away[~poor].mean()


def test_a_person_against_a_torus_is_refused(model, people, torus):
    found = matching.match(model, people[0].shape, torus)
    assert found.record["verdict"]["word"] == "refused"
    assert any("no whole person" in reason for reason in found.record["verdict"]["reasons"])


def test_a_person_who_lies_and_is_not_turned_is_doubtful(model, people):
    lying = replace(people[1].shape, points=people[1].shape.points[:, [0, 2, 1]] * [1, 1, -1])
    found = matching.match(model, people[0].shape, lying, align="none")
    verdict = found.record["verdict"]
    assert verdict["word"] != "good"
    assert any("--align auto" in reason for reason in verdict["reasons"])


def test_two_likely_turns_make_a_pair_doubtful():
    one = Alignment("auto", likeness=0.97, runner_up=0.9695, other=np.eye(3))
    verdict = trust.judge(np.ones(10), ("a", "b"), (one, Alignment()))
    assert verdict.word == "doubtful"
    assert "left and right" in verdict.reasons[0]


def test_a_better_other_answer_makes_a_pair_doubtful():
    ways = (Alignment(), Alignment())
    other = {"mean_score": 0.95, "first": 0.9, "nearly_as_good": True}
    verdict = trust.judge(np.ones(10), ("a", "b"), ways, other=other)
    assert verdict.word == "doubtful"
    assert "a turned the next best way gives a better map" in verdict.reasons[0]
    worse = {**other, "mean_score": 0.89}
    assert trust.judge(np.ones(10), ("a", "b"), ways, other=worse).word == "good"


def test_an_empty_map_is_refused():
    assert trust.judge(np.ones(0), ("a", "b"), (Alignment(), Alignment())).word == "refused"


def test_mirrored_meshes_are_told_by_their_faces(rng):
    template = skinning.body_model()
    mirrored = sound = 0
    for seed in range(10):
        body = bodies.body(np.random.default_rng(seed))
        turn = np.linalg.qr(rng.standard_normal((3, 3)))[0]
        turn *= np.sign(np.linalg.det(turn))
        points = body.vertices @ turn + rng.standard_normal(3)
        sound += geometry.inside_out(Shape(points, template.faces))
        mirrored += geometry.inside_out(Shape(points * [1, -1, 1], template.faces))
    assert (mirrored, sound) == (10, 0)


def test_a_sheet_and_a_cloud_are_not_inside_out(sphere_points):
    grid = np.stack(np.meshgrid(np.arange(5.0), np.arange(5.0), [0.0]), axis=-1).reshape(-1, 3)
    faces = np.array([[i, i + 1, i + 5] for i in range(19)])
    assert not geometry.inside_out(Shape(grid, faces))
    assert not geometry.inside_out(Shape(grid, faces[:, ::-1]))
    assert not geometry.inside_out(Shape(sphere_points(30)))


@pytest.fixture(scope="module")
def meshes():
    """Two people with their faces, and for each vertex the one on the other side."""
    template = skinning.body_model()
    across = template.mean * [-1, 1, 1]
    other_side = compiled.neighbors(across, template.mean, 1).ravel()
    people = [
        Shape(bodies.body(np.random.default_rng(seed)).vertices, template.faces, name=f"p{seed}")
        for seed in (31, 32)
    ]
    return people, other_side


def test_a_map_that_mirrors_is_told_by_the_faces(meshes):
    (one, two), other_side = meshes
    rows = np.arange(len(one.points))
    assert trust.handedness(one, two, rows) > 0.95
    kept = trust.handedness(one, two, other_side)
    assert kept < 0.2
    verdict = trust.judge(np.ones(9), ("p31", "p32"), (Alignment(), Alignment()), kept)
    assert verdict.word == "doubtful"
    assert "the map mirrors" in verdict.reasons[0]


def test_faces_that_all_wind_inwards_do_not_make_a_map_a_mirrored_one(meshes):
    (one, two), other_side = meshes
    rows = np.arange(len(one.points))
    reversed_one = replace(one, faces=one.faces[:, ::-1])
    assert trust.handedness(reversed_one, two, rows) > 0.95
    assert trust.handedness(reversed_one, two, other_side) < 0.2
    mirrored = replace(one, points=one.points * [-1, 1, 1])
    # left of a mirrored person is left, as anybody sees it
    assert trust.handedness(mirrored, two, other_side) > 0.8


def test_handedness_is_unknown_without_faces_about_a_volume(meshes, sphere_points):
    (one, two), _ = meshes
    rows = np.arange(len(one.points))
    cloud = replace(one, faces=None)
    assert trust.handedness(cloud, two, rows) is None
    assert trust.handedness(one, cloud, rows) is None
    assert trust.handedness(one, two, np.full(len(rows), -1)) is None
    assert trust.handedness(one, two, np.zeros(len(rows), dtype=int)) is None


def test_a_match_of_meshes_keeps_left_and_right(model, people, meshes):
    (one, two), _ = meshes
    record = matching.match(model, one, two, points=2000).record
    assert record["handedness_kept"] > 0.8
    assert matching.match(model, people[0].shape, two).record["handedness_kept"] is None


def test_the_other_answer_is_known_without_being_asked_for(model, people):
    source, target = people
    found = matching.match(model, source.shape, target.shape)
    other = found.record["other_answer"]
    again = matching.match_otherwise(model, source.shape, target.shape, found)
    assert other["first"] == pytest.approx(found.score.mean(), abs=0.03)
    assert other["mean_score"] == pytest.approx(again.score.mean(), abs=0.04)
    assert other["nearly_as_good"] == (other["mean_score"] > other["first"] - trust.NEARLY)
    embedded = matching.embed(model, source.shape)
    assert matching.match(model, embedded, target.shape).record["other_answer"] is None


def test_a_match_tells_of_a_mirrored_mesh(model):
    template = skinning.body_model()
    rng = np.random.default_rng(4)
    vertices = bodies.body(rng).vertices
    mirrored = Shape(vertices * [-1, 1, 1], template.faces, name="mirrored")
    embedding = matching.embed(model, mirrored, points=2000)
    assert any("wind inwards" in note for note in embedding.notes)
