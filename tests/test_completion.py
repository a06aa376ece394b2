import json
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

import coembed
from coembed import bodies, completion, files, formats, geometry, matching, model, spectrum, trust
from coembed.cli import commands
from coembed.errors import InputError
from coembed.shapes import Completion, Shape, degrees_of


@pytest.fixture(scope="module")
def network():
    return model.load("human-parts")


@pytest.fixture(scope="module")
def person():
    return bodies.body(np.random.default_rng(3))


@pytest.fixture(scope="module")
def whole(person):
    return bodies.sample(person, 2500, np.random.default_rng(4), name="whole")


@pytest.fixture(scope="module")
def view(person):
    rng = np.random.default_rng(6)
    return bodies.scan(person, 2000, rng, cut="views", name="view")


@pytest.fixture(scope="module")
def matched(network, whole, view):
    return matching.match(network, whole.shape, view.shape, partial=True)


def true_frame(part, whole):
    """Factor and shift of a part of a body of which the whole is there as well."""
    return whole.scale / part.scale, (part.centre - whole.centre) * whole.scale


def test_the_scale_and_place_of_a_view_are_found(network, whole, view):
    part, all_of_it = (geometry.prepare(one.shape) for one in (view, whole))
    factor, shift = true_frame(part, all_of_it)
    assert factor < 0.85
    found = completion.complete(part, network)
    assert not found.whole
    assert found.known
    assert found.factor == pytest.approx(factor, rel=0.12)
    assert np.linalg.norm(found.shift - shift) < 0.12
    given = completion.complete(part, network, factor=factor)
    assert given.factor == factor
    assert np.linalg.norm(given.shift - shift) < 0.12


@pytest.mark.parametrize("turn", [(0, 0, 0), (120, 0, 0), (40, 60, 170)])
def test_a_part_in_any_direction_is_set_upright(network, view, turn):
    rotation = Rotation.from_euler("xyz", turn, degrees=True).as_matrix()
    part = geometry.prepare(Shape(view.shape.points @ rotation.T, name="view"))
    found, _ = completion.stand(part, network)
    assert degrees_of(found.rotation @ rotation) < 40
    assert (found.turns == 0) == (turn == (0, 0, 0))
    assert found.known


def test_a_piece_in_any_direction_is_set_upright(network, whole):
    points = whole.shape.points
    rotation = Rotation.from_euler("xyz", (70, 100, -40), degrees=True).as_matrix()
    piece = points[points[:, 1] > np.quantile(points[:, 1], 0.75)] @ rotation.T
    part, all_of_it = geometry.prepare(Shape(piece)), geometry.prepare(whole.shape)
    turn, found = completion.stand(part, network)
    assert degrees_of(turn.rotation @ rotation) < 40
    assert found.factor == pytest.approx(true_frame(part, all_of_it)[0], rel=0.2)


def test_a_part_that_is_turned_to_its_target_is_completed(network, whole, view):
    rotation = Rotation.from_euler("xyz", (0, 90, 0), degrees=True).as_matrix()
    turned = Shape(view.shape.points @ rotation.T, name="view")
    found = matching.match(network, turned, whole.shape, partial=True, align=("target", "none"))
    source = found.embeddings[0]
    assert degrees_of(source.alignment.rotation @ rotation) < 40
    assert source.completion.known
    assert source.completion.factor < 0.9
    given = matching.match(
        network, turned, whole.shape, partial=True, align=("target", "none"), scale=1.0
    ).embeddings
    assert given[0].scale == pytest.approx(given[1].scale)


def test_half_a_person_lies_where_it_was_cut(network, whole):
    shape = whole.shape
    legs = shape.points[shape.points[:, 1] < np.median(shape.points[:, 1])]
    part, all_of_it = geometry.prepare(Shape(legs)), geometry.prepare(shape)
    factor, shift = true_frame(part, all_of_it)
    found = completion.complete(part, network)
    assert found.factor == pytest.approx(factor, rel=0.15)
    assert shift[1] < -0.2
    assert found.shift[1] == pytest.approx(shift[1], abs=0.15)


def test_a_whole_person_is_whole_and_stays_as_it_is(network, whole):
    found = completion.complete(geometry.prepare(whole.shape), network)
    assert found.whole
    assert found.notes == ()
    alone = matching.embed(network, whole.shape)
    looked_at = matching.embed(network, whole.shape, partial=True)
    assert not looked_at.part
    np.testing.assert_array_equal(alone.values, looked_at.values)


def test_what_is_no_person_is_left_as_it_is_and_told(network, torus):
    found = completion.complete(geometry.prepare(torus), network)
    assert not found.known
    assert found.factor == 1
    assert "no part of a person" in found.notes[0]


def test_where_points_sit_on_the_body_makes_the_map_of_a_piece_better(network, whole, monkeypatch):
    rng = np.random.default_rng(8)
    piece = bodies.scan(bodies.body(rng), 1500, rng, cut="pieces", name="piece")
    off = []
    for weight in (0.0, matching._SEAT):
        monkeypatch.setattr(matching, "_SEAT", weight)
        found = matching.match(network, piece.shape, whole.shape, partial=True)
        off.append(np.linalg.norm(piece.place - whole.place[found.p2p], axis=1).mean())
    assert off[1] < 0.8 * off[0]


def test_rows_without_a_counterpart_get_no_answer(matched, whole, view):
    missing = cKDTree(view.place).query(whole.place)[0] > 0.04
    found = matched.p2p < 0
    assert 0.2 < missing.mean() < 0.8
    assert (found & missing).sum() / missing.sum() > 0.6
    assert (~found & ~missing).sum() / (~missing).sum() > 0.6
    told = matched.record["partial"]
    assert told["without_counterpart"] == found.sum()
    assert told["most_on_one"] < told["most_on_one_before"] / 2  # piled up at the rim
    assert told["most_on_one"] == np.bincount(matched.p2p[~found]).max()
    answered = ~found
    off = np.linalg.norm(whole.place[answered] - view.place[matched.p2p[answered]], axis=1)
    assert np.median(off) < 0.08


def test_every_row_of_a_part_is_answered_by_a_whole_target(network, whole, view):
    found = matching.match(network, view.shape, whole.shape, partial=True)
    assert (found.p2p >= 0).all()
    off = np.linalg.norm(view.place - whole.place[found.p2p], axis=1)
    assert np.median(off) < 0.08
    record = found.record["source"]["completion"]
    assert 0.4 < record["factor"] < 0.85
    assert any("taken for a part" in note for note in found.record["source"]["changes"])
    assert found.record["target"]["completion"]["factor"] > 0.9
    source = found.embeddings[0]
    assert source.otherwise[1].shape[1] == source.values.shape[1]  # both answers with seats


def test_a_part_that_is_taken_for_a_whole_is_doubtful_and_the_way_out_is_named(whole, view):
    found = matching.match(model.load(), view.shape, whole.shape)
    verdict = found.record["verdict"]
    assert verdict["word"] != "good"
    assert any("--partial" in reason for reason in verdict["reasons"])


def test_units_and_order_of_parts_do_not_matter(network, whole, view, matched, rng):
    order = rng.permutation(len(view.shape.points))
    other = Shape(1000 * view.shape.points[order] + 7, name="view")
    found = matching.match(network, whole.shape, other, partial=True)
    back = np.where(found.p2p < 0, -1, order[found.p2p])
    assert (back == matched.p2p).mean() > 0.99


def test_a_known_scale_is_kept(network, whole, view):
    inches = Shape(view.shape.points / 0.0254, name="view")
    found = matching.match(network, inches, whole.shape, partial=True, scale=0.0254)
    source, target = found.embeddings
    assert source.scale / target.scale == pytest.approx(0.0254)
    with pytest.raises(InputError, match="scale must be above 0, and needs partial"):
        matching.match(network, inches, whole.shape, scale=0.0254)


def test_a_part_is_laid_on_its_whole(network, whole, view):
    plain, laid = (
        matching.match(network, view.shape, whole.shape, partial=True, refine=refine)
        for refine in ("none", "register")
    )
    assert laid.registration is not None
    off = [
        np.linalg.norm(view.place - whole.place[found.p2p], axis=1).mean()
        for found in (plain, laid)
    ]
    assert off[1] < off[0]


def test_an_embedding_of_a_part_is_written_whole(network, view, tmp_path):
    embedding = matching.embed(network, view.shape, partial=True)
    assert embedding.part
    files.write_embedding(tmp_path / "view.npz", embedding)
    read = files.read_embedding(tmp_path / "view.npz")
    assert read.part
    assert read.completion.factor == embedding.completion.factor
    np.testing.assert_array_equal(read.completion.shift, embedding.completion.shift)
    np.testing.assert_array_equal(read.points, embedding.points)


def test_operators_are_those_of_a_larger_shape(sphere_operators, sphere):
    larger = sphere_operators.placed(0.5, np.array([1.0, 2, 3]))
    np.testing.assert_allclose(larger.mass.sum(), 0.25)
    gram = larger.evecs.T @ (larger.mass[:, None] * larger.evecs)
    np.testing.assert_allclose(gram, np.eye(gram.shape[0]), atol=1e-8)
    energy = larger.evecs.T @ (larger.laplacian @ larger.evecs)
    np.testing.assert_allclose(np.diag(energy), larger.evals, rtol=1e-6)
    back = (sphere.points - larger.centre) * larger.scale
    np.testing.assert_allclose(larger.points[larger.rows], back, atol=1e-12)
    near = spectrum.nearest_points(larger.points, 30)
    fresh, _ = geometry.gradients(larger.points, larger.evecs, near)
    np.testing.assert_allclose(larger.grad_x, fresh, rtol=1e-2, atol=1e-3 * np.abs(fresh).max())


def test_chances_fall_with_every_sign(rng):
    points = rng.random((300, 3))
    near, far, shared = np.full(300, 0.01), np.full(300, 0.3), np.full(300, 2.0)
    for similarity in ("cosine", "l2"):
        good, bad = (
            trust.chances(points, points, off, off, odds, similarity)
            for off, odds in ((near, shared), (far, -shared))
        )
        for one, other in zip(good, bad, strict=True):
            assert (one > other).all()
            assert ((one >= 0) & (one <= 1)).all()
        assert (good[0] <= good[1]).all()
    right, there = trust.chances(points, points, near)
    np.testing.assert_array_equal(right, trust.score(points, points, near))
    assert (there == 1).all()


@pytest.mark.parametrize(
    ("factor", "shift", "whole"),
    [(0.95, 0.05, True), (0.8, 0.0, False), (1.0, 0.3, False), (1.3, 0.0, False)],
)
def test_nearly_all_is_whole(factor, shift, whole):
    found = Completion(factor, np.array([shift, 0, 0]))
    assert found.whole == whole
    again = Completion.of(json.loads(json.dumps(found.facts())))
    assert again.facts() == found.facts()
    assert replace(found, known=False).notes != ()


def test_what_is_larger_than_a_whole_lacks_nothing(network, whole, view):
    target = matching.embed(network, whole.shape, partial=True)
    large = replace(target, completion=Completion(1.3))
    assert not large.part
    assert "nothing seems to be missing" in large.completion.notes[0]
    assert replace(target, completion=Completion(0.8)).part
    assert (matching.match(network, view.shape, large, partial=True).p2p >= 0).all()


def test_parts_on_the_command_line(whole, view, tmp_path):
    for one in (whole, view):
        formats.write(tmp_path / f"{one.shape.name}.ply", one.shape)
    out = tmp_path / "map.txt"
    words = ["match", str(tmp_path / "whole.ply"), str(tmp_path / "view.ply"), "--out", str(out)]
    result = CliRunner().invoke(commands, [*words, "--partial", "--jobs", "1"])
    assert result.exit_code == 0, result.output
    record = json.loads((tmp_path / "map.txt.json").read_text())
    assert record["weights"] == "human-parts"
    rows = np.loadtxt(out, dtype=int)
    assert (rows < 0).sum() == record["partial"]["without_counterpart"] > 0
    again = CliRunner().invoke(commands, ["rerun", f"{out}.json"])
    assert again.exit_code == 0, again.output
    result = CliRunner().invoke(commands, [*words, "--scale", "1", "--force"])
    assert result.exit_code != 0
    assert coembed.__version__ == record["coembed"]


def test_a_whole_shape_that_was_embedded_alone_is_matched_with_a_part(
    network, whole, view, matched, tmp_path
):
    part = matching.embed(network, view.shape, partial=True)
    files.write_embedding(tmp_path / "view.npz", part)
    alone = matching.embed(network, whole.shape)
    found = matching.match(network, alone, files.read_embedding(tmp_path / "view.npz"))
    assert (found.p2p == matched.p2p).mean() > 0.99


def test_a_target_as_large_as_a_whole_is_a_part_if_much_is_missing_there(network, whole, view):
    target = matching.embed(network, view.shape, partial=True)
    large = replace(target, completion=Completion(1.0))
    source = matching.embed(network, whole.shape, partial=True)
    found = matching.match(network, source, large, partial=True)
    assert (found.p2p < 0).mean() > 0.2
    assert any("taken for a part" in note for note in found.record["notes"])
    stranger = replace(target, completion=Completion(1.0, known=False))
    assert (matching.match(network, source, stranger, partial=True).p2p >= 0).all()
