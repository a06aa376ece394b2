"""Turns are found on people, left alone on what stands well or is no person, and told."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.spatial.transform import Rotation

import coembed
from coembed import alignment, bodies, files, formats, matching
from coembed.cli import commands
from coembed.errors import InputError
from coembed.shapes import Alignment, Shape

# other people than those of the compass; poses that lean far are set upright, and so turned
SEEDS = (1, 2, 3)
CASES = Path(__file__).parents[1].parent / "shared" / "cases"


@pytest.fixture(scope="module")
def model():
    return coembed.load()


@pytest.fixture(scope="module")
def people():
    samples = []
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        samples.append(bodies.sample(bodies.body(rng), 2500, rng, name=f"person{seed}"))
    return samples


@pytest.fixture(scope="module")
def operators(people):
    return [coembed.prepare(person.shape) for person in people]


def degrees(rotation):
    return np.rad2deg(Rotation.from_matrix(rotation).magnitude())


def test_the_shipped_compass_belongs_to_the_shipped_weights(model):
    compass = alignment.load()
    assert compass.weights == model.digest
    assert model.frame == coembed.model.PEOPLE
    np.testing.assert_allclose(np.linalg.norm(compass.embeddings, axis=2), 1, atol=1e-3)


def test_people_who_stand_upright_stay_as_they_are(model, operators):
    for one in operators:
        found = alignment.align(one, "auto", model)
        assert found.known
        assert not found.turns
        assert not found.curve
        assert not found.notes
        assert found.margin > 0.002


@pytest.mark.parametrize("seed", range(4))
def test_turned_people_are_set_upright_again(model, operators, seed):
    turn = Rotation.random(random_state=seed).as_matrix()
    found = alignment.align(alignment.turned(operators[seed % len(SEEDS)], turn), "auto", model)
    assert found.known
    assert len(found.curve) == 12
    assert degrees(found.rotation @ turn) < 30
    assert "turned by" in found.notes[0]


def test_yaw_turns_about_the_vertical_only(model, operators):
    turn = Rotation.from_euler("y", 140, degrees=True).as_matrix()
    found = alignment.align(alignment.turned(operators[0], turn), "yaw", model)
    assert found.rotation[1, 1] == 1
    assert degrees(found.rotation @ turn) < 30


def test_a_turned_person_is_matched_as_an_upright_one(model, people):
    source, target = people[0], people[1]
    turn = Rotation.random(random_state=5).as_matrix()
    file = replace(source.shape, points=source.shape.points @ turn.T * 1000 + [5e3, 0, 7])

    def error(shape, align):
        found = matching.match(model, shape, target.shape, align=align)
        return np.linalg.norm(source.place - target.place[found.p2p], axis=1).mean()

    upright = error(source.shape, "auto")
    assert error(file, "auto") < 1.2 * upright + 0.005
    assert error(file, "none") > 3 * upright  # so the turn was needed


def test_points_of_the_answer_are_not_turned(model, people):
    turn = Rotation.from_euler("x", 90, degrees=True).as_matrix()
    shape = replace(people[0].shape, points=people[0].shape.points @ turn.T)
    embedding = matching.embed(model, shape)
    assert embedding.alignment.turns
    back = embedding.points[embedding.rows] / embedding.scale + embedding.centre
    np.testing.assert_allclose(back, shape.points, atol=1e-9)


@pytest.mark.parametrize("way", ["z", "-z", "x", "-x", "-y"])
def test_naming_the_axis_equals_turning_the_file(model, people, way):
    rotation = alignment.AXES[way]
    assert np.allclose(rotation @ rotation.T, np.eye(3))
    assert np.linalg.det(rotation) == 1
    axis = "xyz".index(way[-1])
    assert rotation[1, axis] == (-1 if way[0] == "-" else 1)
    lying = replace(people[0].shape, points=people[0].shape.points @ rotation)
    named = matching.match(model, people[1].shape, lying, align=("none", way))
    upright = matching.match(model, people[1].shape, people[0].shape, align="none")
    assert (named.p2p == upright.p2p).mean() > 0.97  # the operators' ties depend on the frame


def test_nine_numbers_are_a_rotation():
    text = ",".join(str(value) for value in alignment.AXES["z"].ravel())
    np.testing.assert_allclose(alignment.rotation_of(text), alignment.AXES["z"], atol=1e-12)


@pytest.mark.parametrize(
    ("way", "told"),
    [
        ("up", "must be auto"),
        ("1,2,3", "nine numbers"),
        ("1,0,0,0,1,0,0,0,2", "no rotation"),
        ("-1,0,0,0,1,0,0,0,1", "mirrors"),
        (np.full((3, 3), np.nan), "no rotation"),
    ],
)
def test_what_is_no_turn_is_refused(way, told):
    with pytest.raises(InputError, match=told):
        alignment.rotation_of(way)


def test_weights_of_an_unknown_frame_turn_nothing(model, operators):
    strange = replace(model, info={})
    lying = alignment.turned(operators[0], alignment.AXES["z"])
    assert alignment.align(lying, "auto", strange).way == "none"
    with pytest.raises(InputError, match="trained on people"):
        alignment.align(lying, "yaw", strange)


def test_what_is_no_person_is_told_and_left_as_it_stands(model, torus):
    found = alignment.align(coembed.prepare(torus), "auto", model)
    assert not found.known
    assert not found.turns
    assert "no person" in found.notes[0]


def test_the_source_can_be_turned_as_the_target_stands(model, people):
    turn = Rotation.random(random_state=8).as_matrix()
    source = replace(people[0].shape, points=people[0].shape.points @ turn.T)
    found = matching.match(model, source, people[1].shape, align=("target", "none"))
    used = found.embeddings[0].alignment
    assert used.way == "target"
    assert used.turns
    error = np.linalg.norm(people[0].place - people[1].place[found.p2p], axis=1).mean()
    assert error < 0.1


def test_the_other_answer_exchanges_left_and_right(model, people):
    source, target = people[0], people[1]
    first = matching.match(model, source.shape, target.shape)
    other = matching.match_otherwise(model, source.shape, target.shape, first)
    side = source.place[:, 0]
    far = np.abs(side) > 0.3  # arms
    for found, sign in ((first, 1), (other, -1)):
        agrees = np.sign(target.place[found.p2p][far, 0]) == sign * np.sign(side[far])
        assert agrees.mean() > 0.9


def test_an_alignment_goes_through_a_file(model, people, tmp_path):
    turn = Rotation.from_euler("y", 120, degrees=True).as_matrix()
    shape = Shape(people[0].shape.points @ turn.T, name="turned")
    embedding = matching.embed(model, shape)
    files.write_embedding(tmp_path / "e.npz", embedding)
    again = files.read_embedding(tmp_path / "e.npz").alignment
    assert again.facts() == embedding.alignment.facts()
    assert again.turns


def test_two_likely_turns_are_told():
    found = Alignment("auto", likeness=0.97, runner_up=0.9695, other=alignment.BACK)
    assert "equally likely" in found.notes[0]


@pytest.fixture(scope="module")
def folder(people, tmp_path_factory):
    folder = tmp_path_factory.mktemp("people")
    for name, person in zip("ab", people, strict=False):
        coembed.write(folder / f"{name}.ply", person.shape)
    lying = people[1].shape.points[:, [0, 2, 1]] * [1, -1, 1]
    coembed.write(folder / "lying.ply", Shape(lying))
    return folder


def run(folder, *words):
    arguments = ["match", str(folder / "a.ply"), *map(str, words), "--force"]
    return CliRunner().invoke(commands, arguments, catch_exceptions=False)


def test_o29_another_axis_is_found_or_named(folder, tmp_path):
    maps = {}
    for name, target, align in (
        ("upright", "b", "auto"), ("found", "lying", "auto"), ("named", "lying", "none:z"),
        ("left", "lying", "none"),
    ):  # fmt: skip
        out = tmp_path / f"{name}.txt"
        done = run(folder, folder / f"{target}.ply", "--out", out, "--align", align)
        assert done.exit_code == 0
        maps[name] = np.loadtxt(out, dtype=int)
        assert ("turned by" in done.stderr) == (name in ("found", "named"))
        assert ("--align auto" in done.stderr) == (name == "left")
    assert (maps["named"] == maps["upright"]).mean() > 0.97
    assert (maps["found"] == maps["named"]).mean() > 0.3  # a turn of some degrees more or less


def test_o30_both_answers_are_given_when_asked_for(folder, people, tmp_path):
    done = run(folder, folder / "b.ply", "--out", tmp_path / "m.txt", "--both")
    assert done.exit_code == 0
    assert "the other answer" in done.stderr
    side = people[0].place[:, 0]
    arms = np.abs(side) > 0.3
    for name, sign in (("m.txt", 1), ("m-other.txt", -1)):
        found = np.loadtxt(tmp_path / name, dtype=int)
        agrees = np.sign(people[1].place[found, 0]) == sign * np.sign(side)
        assert agrees[arms].mean() > 0.9
    assert (tmp_path / "m-other.txt.json").exists()


def figure(pose, left_out=()):
    shape = formats.read(CASES / f"O30_{pose}.ply")
    return Shape(shape.points[~np.isin(shape.attributes["part"], left_out)], name=pose)


@pytest.mark.skipif(not CASES.exists(), reason="needs the cases in ../shared")
@pytest.mark.parametrize("order", [("rest", "pose"), ("pose", "rest")])
def test_o30_a_symmetric_figure_is_told_without_being_asked_for(model, order):
    source, target = (figure(f"symmetric_{pose}") for pose in order)
    found = matching.match(model, source, target)
    assert found.record["other_answer"]["nearly_as_good"]
    side = formats.read(CASES / f"O30_symmetric_{order[0]}.ply").attributes["part"]
    there = formats.read(CASES / f"O30_symmetric_{order[1]}.ply").attributes["part"][found.p2p]
    for arm in (3, 4):
        assert (there[side == arm] == arm).mean() > 0.9


@pytest.mark.skipif(not CASES.exists(), reason="needs the cases in ../shared")
def test_o30_a_figure_whose_back_is_like_its_front_is_doubtful(model):
    no_nose_no_feet = (2, 7, 8)
    one, other = (figure(f"symmetric_{pose}", no_nose_no_feet) for pose in ("rest", "pose"))
    verdict = matching.match(model, one, other).record["verdict"]
    assert verdict["word"] == "doubtful"
    assert any("can be turned two ways" in reason for reason in verdict["reasons"])


def test_o30_left_stays_left_both_ways_and_on_every_run(model, people):
    for one, other in ((people[0], people[1]), (people[1], people[0])):
        maps = [matching.match(model, one.shape, other.shape).p2p for _ in range(2)]
        np.testing.assert_array_equal(*maps)
        arms = np.abs(one.place[:, 0]) > 0.3
        agrees = np.sign(other.place[maps[0], 0]) == np.sign(one.place[:, 0])
        assert agrees[arms].mean() > 0.95


def test_three_ways_are_refused(folder, tmp_path):
    done = run(folder, folder / "b.ply", "--out", tmp_path / "m.txt", "--align", "x:y:z")
    assert done.exit_code == 2
    assert not (tmp_path / "m.txt").exists()
