import json
import os
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
from safetensors import safe_open

from coembed import training
from coembed.datasets import BodyExamples, Example
from coembed.errors import InputError, NumericalError
from coembed.losses import LossWeights
from coembed.model import ModelConfig, load
from coembed.training import TrainConfig

torch = pytest.importorskip("torch")

MATCHING = LossWeights(0.0, 0.0, 0.0, matching=1.0)
MODEL = ModelConfig(
    dim=8, n_eig=16, width=16, n_blocks=2, n_heads=2, attention=False, similarity="cosine"
)


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    cached = BodyExamples(5, 0, (150, 180), 0.4, 16, tmp_path_factory.mktemp("examples"))
    return list(cached)


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def config(**change):
    return TrainConfig(
        **{"model": MODEL, "weights": MATCHING, "steps": 6, "save_every": 3, **change}
    )


def log_of(out):
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    for line in lines:
        del line["seconds"]
    return lines


def arrays_of(path):
    with safe_open(path, framework="numpy") as opened:
        return {name: opened.get_tensor(name) for name in opened.keys()}, opened.metadata()  # noqa: SIM118


# ----------------------------------------------------------------------------------- learning


def test_matching_of_one_pair_can_be_learned_by_heart(examples, tmp_path):
    seen = []
    training.train(
        examples[:2], config(steps=60, learning_rate=1e-2, save_every=100), out=tmp_path / "run",
        report=seen.append,
    )  # fmt: skip
    first, last = (np.mean([p.terms["matching"] for p in part]) for part in (seen[:5], seen[-5:]))
    assert last < 0.6 * first
    assert [p.step for p in seen] == list(range(1, 61))


def test_the_papers_loss_of_one_pair_falls(examples, tmp_path):
    seen = []
    training.train(
        examples[:2],
        config(model=replace(MODEL, dim=16), weights=LossWeights(), steps=150, learning_rate=2e-2),
        out=tmp_path / "run", report=seen.append,
    )  # fmt: skip
    weights = {"off_diagonal": 1, "orthonormality": 1000, "coupling": 50}
    totals = [sum(weights[name] * p.terms[name] for name in weights) for p in seen]
    assert np.mean(totals[-5:]) < 0.9 * np.mean(totals[:5])


def test_all_terms_together_with_attention(examples, tmp_path):
    # the off-diagonal term compares with the eigenvalues, so dim and n_eig agree
    form = replace(MODEL, dim=16, attention=True)
    seen = []
    model = training.train(
        examples, config(model=form, weights=LossWeights(matching=1000), steps=2),
        out=tmp_path / "run", report=seen.append,
    )  # fmt: skip
    assert set(seen[0].terms) == {"off_diagonal", "orthonormality", "coupling", "matching"}
    before = training.initial_parameters(form, 0)
    for name, value in model.parameters.items():
        # the bias before the instance norm has no effect, so it need not move
        if name not in ("refiner.mlp.0.bias", "refiner.key.bias"):
            assert (value != before[name]).any(), name


def test_a_step_gives_unweighted_terms(examples):
    form = replace(MODEL, dim=16)
    parameters = {
        name: torch.tensor(value) for name, value in training.initial_parameters(form, 0).items()
    }
    parameters["temperature"] = torch.tensor(1.0)
    terms = [
        training.step(parameters, config(model=form, weights=weights), *examples[:2])
        for weights in (LossWeights(1, 1, 1, 1), LossWeights(7, 70, 700, 7))
    ]
    assert terms[0].keys() == {"off_diagonal", "orthonormality", "coupling", "matching"}
    for name, value in terms[0].items():
        assert float(value) == float(terms[1][name])


# ------------------------------------------------------------------------------------- resume


@pytest.mark.parametrize("schedule", ["constant", "cosine"])
def test_resume_equals_no_interruption_bit_for_bit(examples, tmp_path, schedule):
    settings = config(schedule=schedule, turn=20, tilt=5)
    kept = {"validation": examples[3:], "info": {"name": "run"}}
    training.train(examples[:3], settings, out=tmp_path / "whole", **kept)

    def stop(progress):
        if progress.step == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        training.train(examples[:3], settings, out=tmp_path / "broken", report=stop, **kept)
    assert len(log_of(tmp_path / "broken")) == 4
    training.train(examples[:3], settings, out=tmp_path / "broken", resume=True, **kept)
    assert log_of(tmp_path / "broken") == log_of(tmp_path / "whole")
    for name in ("last", "best"):
        one, other = (
            arrays_of(tmp_path / run / f"{name}.safetensors") for run in ("whole", "broken")
        )
        assert one[1] == other[1]
        assert one[0].keys() == other[0].keys()
        for key, value in one[0].items():
            np.testing.assert_array_equal(value, other[0][key], err_msg=key)


def test_a_run_stopped_before_its_first_checkpoint_starts_again(examples, tmp_path):
    def stop(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        training.train(examples, config(), out=tmp_path / "run", report=stop)
    training.train(examples, config(), out=tmp_path / "run", resume=True)
    assert [line["step"] for line in log_of(tmp_path / "run")] == [1, 2, 3, 4, 5, 6]


def test_resuming_a_finished_run_changes_nothing(examples, tmp_path):
    one = training.train(examples, config(), out=tmp_path / "run")
    log = log_of(tmp_path / "run")
    two = training.train(examples, config(), out=tmp_path / "run", resume=True)
    assert log_of(tmp_path / "run") == log
    for name, value in one.parameters.items():
        np.testing.assert_array_equal(value, two.parameters[name])


def test_resume_wants_the_same_settings(examples, tmp_path):
    training.train(examples, config(), out=tmp_path / "run")
    with pytest.raises(InputError, match=r"other settings \(model, seed\); resume with the same"):
        training.train(
            examples, config(seed=1, model=replace(MODEL, width=32)), out=tmp_path / "run",
            resume=True,
        )  # fmt: skip


def test_a_folder_that_holds_something_is_left_alone(examples, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="holds a run already; add --resume or choose another"):
        training.train(examples, config(), out=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


# -------------------------------------------------------------------------------------- start


def test_a_run_can_start_from_weights_and_says_so(examples, tmp_path):
    first = training.train(
        examples, config(), out=tmp_path / "one", info={"name": "one", "data": "d", "licence": "L"}
    )
    begun = config(start=str(tmp_path / "one" / "best.safetensors"), learning_rate=1e-9)
    second = training.train(examples, begun, out=tmp_path / "two", info={"name": "two"})
    for name, value in first.parameters.items():
        np.testing.assert_allclose(value, second.parameters[name], atol=1e-6)
    assert second.info["name"] == "two"
    assert second.info["start"] == {"name": "one", "data": "d", "licence": "L", "step": 6}
    # the factor on the cosine goes on from where it was, too
    assert first.info["cosine_factor"] != pytest.approx(20.0, rel=1e-4)
    assert second.info["cosine_factor"] == pytest.approx(first.info["cosine_factor"], rel=1e-6)


def test_weights_to_start_from_must_have_the_same_form(examples, tmp_path):
    with pytest.raises(InputError, match=r"the weights to start from, human, have another form"):
        training.train(examples, config(start="human"), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


# ----------------------------------------------------------------------------- what is written


def test_the_log_and_the_weights_say_what_was_done(examples, tmp_path):
    model = training.train(
        examples[:3], config(), out=tmp_path / "run", validation=examples[3:],
        info={"name": "it", "licence": "MIT"},
    )  # fmt: skip
    lines = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    for number, line in enumerate(lines, start=1):
        assert set(line) == {"step", "terms", "learning_rate", "validation", "seconds"}
        assert line["step"] == number
        assert set(line["terms"]) == {"matching"}
        assert (line["validation"] is not None) == (number % 3 == 0)
    best = load(tmp_path / "run" / "best.safetensors")
    assert best.config == MODEL == model.config
    assert best.info["name"] == "it"
    assert best.info["licence"] == "MIT"
    assert best.info["training"]["steps"] == 6
    measured = {line["step"]: line["validation"] for line in lines}
    assert best.info["validation"] == measured[best.info["step"]]
    assert best.info["validation"] == min(v for v in measured.values() if v is not None)
    assert "temperature" not in best.parameters
    assert json.loads((tmp_path / "run" / "config.json").read_text())["steps"] == 6


def test_validation_without_truth_is_the_loss(examples, tmp_path):
    blind = [Example(one.operators, None) for one in examples]
    seen = []
    training.train(
        blind[:3], config(weights=LossWeights(0, 1, 0)), out=tmp_path / "run",
        validation=blind[3:], report=seen.append,
    )  # fmt: skip
    assert seen[2].validation > 0
    assert seen[1].validation is None


def test_the_cosine_schedule_falls_to_a_hundredth():
    settings = config(schedule="cosine", steps=100, learning_rate=2.0)
    rates = [training._learning_rate(settings, step) for step in range(101)]
    assert rates[0] == 2
    assert rates[-1] == pytest.approx(0.02)
    assert (np.diff(rates) < 0).all()
    assert training._learning_rate(config(learning_rate=2.0), 5) == 2


def test_a_turn_is_about_the_vertical_and_depends_on_the_step(examples):
    settings = config(turn=30)
    one, same, other = (training._varied(examples[0], settings, step, 0) for step in (1, 1, 2))
    before, after = examples[0].operators.points, one.operators.points
    np.testing.assert_array_equal(after, same.operators.points)
    assert (after != other.operators.points).any()
    np.testing.assert_allclose(after[:, 1], before[:, 1], atol=1e-6)
    np.testing.assert_allclose(
        np.linalg.norm(after, axis=1), np.linalg.norm(before, axis=1), atol=1e-6
    )
    cosine = (before[:, [0, 2]] * after[:, [0, 2]]).sum() / (before[:, [0, 2]] ** 2).sum()
    assert cosine >= np.cos(np.deg2rad(30)) - 1e-6
    assert training._varied(examples[0], config(), 1, 0) is examples[0]


def test_a_pair_is_two_different_shapes_and_a_function_of_seed_and_step():
    settings = config(seed=3)
    pairs = [training._pair(settings, step, 0, 4) for step in range(200)]
    assert all(one != other for one, other in pairs)
    assert len(set(pairs)) == 12
    assert training._pair(settings, 7, 0, 4) == pairs[7]


# -------------------------------------------------------------------------------------- errors


def test_too_few_examples(examples, tmp_path):
    with pytest.raises(InputError, match="training needs two shapes or more; got 1"):
        training.train(examples[:1], config(), out=tmp_path / "run")
    with pytest.raises(InputError, match="validation needs two shapes or more, or none; got 1"):
        training.train(examples, config(), out=tmp_path / "run", validation=examples[:1])
    assert not (tmp_path / "run").exists()


def test_matching_needs_truth(examples, tmp_path):
    blind = [Example(one.operators, None) for one in examples]
    with pytest.raises(InputError, match="needs data with exact truth"):
        training.train(blind, config(), out=tmp_path / "run")


def test_a_loss_that_is_not_finite_stops_and_saves_the_state_before_it(
    examples, tmp_path, monkeypatch
):
    real, calls = training.step, []

    def spoiled(*arguments):
        calls.append(1)
        terms = real(*arguments)
        return {k: v * float("nan") for k, v in terms.items()} if len(calls) == 5 else terms

    monkeypatch.setattr(training, "step", spoiled)
    with pytest.raises(NumericalError, match=r"stopped at step 4.*pairs: body \d and body \d"):
        training.train(examples, config(), out=tmp_path / "run")
    header = arrays_of(tmp_path / "run" / "last.safetensors")[1]
    assert json.loads(header["state"])[0] == 4
    monkeypatch.undo()
    training.train(examples, config(), out=tmp_path / "run", resume=True)
    assert len(log_of(tmp_path / "run")) == 6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": 0}, "train steps must be a whole number of 1 or more; got 0"),
        ({"save_every": 0}, "train save_every must be"),
        ({"batch": 0}, "train batch must be"),
        ({"descriptor": "shot"}, "train descriptor must be hks or wks or place; got 'shot'"),
        ({"precision": "float16"}, "train precision must be float32 or bfloat16"),
        ({"learning_rate": 0.0}, "train learning_rate must be a number above 0; got 0"),
        ({"learning_rate": float("nan")}, "learning_rate must be"),
        ({"sigma": -1.0}, "train sigma must be"),
        ({"turn": -5.0}, "train turn must be"),
        ({"tilt": float("inf")}, "train tilt must be"),
        ({"schedule": "linear"}, "train schedule must be constant or cosine; got 'linear'"),
    ],
)
def test_config_rejects_nonsense(change, message):
    with pytest.raises(InputError, match=message):
        TrainConfig(**change)


@pytest.mark.parametrize("name", ["turn", "tilt"])
def test_a_turn_just_below_zero_is_refused(name):
    assert getattr(TrainConfig(**{name: 0.0}), name) == 0
    with pytest.raises(InputError, match=f"{name} must be"):
        TrainConfig(**{name: -0.5})


def test_off_diagonal_loss_needs_as_many_channels_as_eigenpairs():
    with pytest.raises(InputError, match="model dim must equal n_eig; got 8 and 16"):
        TrainConfig(model=replace(MODEL, dim=8, n_eig=16))


# -------------------------------------------------------------------------- batches and processes


def test_the_gradient_of_a_batch_is_the_mean_of_its_pairs(examples):
    settings = config(batch=2, turn=20)
    state, group = training._State(settings, "cpu"), training._Group(settings)
    terms = training._gradients(state, settings, examples, group)
    found = {name: value.grad.clone() for name, value in state.parameters.items()}
    sums, values = {name: torch.zeros_like(value) for name, value in found.items()}, []
    for number in range(2):
        chosen = training._pair(settings, 0, number, len(examples))
        pair = [training._varied(examples[i], settings, number, i) for i in chosen]
        state.optimizer.zero_grad()
        one = training.step(state.parameters, settings, *pair)["matching"]
        one.backward()
        values.append(float(one.detach()))
        for name, value in state.parameters.items():
            sums[name] += value.grad / 2
    assert terms["matching"] == pytest.approx(np.mean(values), rel=1e-6)
    for name, value in found.items():
        torch.testing.assert_close(value, sums[name], rtol=1e-4, atol=1e-6)


def test_pairs_of_a_batch_differ_from_step_to_step():
    settings = config(batch=3)
    pairs = [training._pair(settings, step, i, 1000) for step in range(5) for i in range(3)]
    assert len(set(pairs)) == 15


SMALL = {
    "data.bodies": 4, "data.points": 150, "model.dim": 8, "model.n_eig": 16, "model.width": 16,
    "train.save_every": 2,
}  # fmt: skip


def command(out, *start, **change):
    """Words that train the tiny recipe, made smaller, from a command line."""
    words = [*(start or [sys.executable]), "-m", "coembed", "train", "--recipe", "tiny"]
    for name, value in {**SMALL, **change}.items():
        words += ["--set", f"{name}={value}"]
    return [*words, "--out", str(out)]


@pytest.fixture
def environment():
    return {**os.environ, "OMP_NUM_THREADS": "1"}


@pytest.mark.slow
def test_two_processes_equal_one(tmp_path, environment):
    """A torchrun launch of two gives the losses of one process with the same batch."""
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
    change = {"train.batch": 2, "train.steps": 4}
    for words in (
        command(tmp_path / "one", **change), command(tmp_path / "two", *launch, "2", **change),
    ):  # fmt: skip
        done = subprocess.run(words, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    one, two = log_of(tmp_path / "one"), log_of(tmp_path / "two")
    assert len(one) == len(two) == 4
    for a, b in zip(one, two, strict=True):
        assert a["terms"]["matching"] == pytest.approx(b["terms"]["matching"], rel=1e-5)
    assert one[-1]["validation"] == pytest.approx(two[-1]["validation"], rel=1e-3)


@pytest.mark.slow
def test_killed_and_resumed_is_the_same_as_not_killed(tmp_path, environment):
    change = {"train.steps": 40}
    done = subprocess.run(command(tmp_path / "whole", **change), env=environment)
    assert done.returncode == 0
    words = command(tmp_path / "killed", **change)
    process = subprocess.Popen(words, env=environment, stderr=subprocess.DEVNULL)
    log = tmp_path / "killed" / "log.jsonl"
    while not (log.exists() and len(log.read_text().splitlines()) >= 5):
        assert process.poll() is None, "ended before it could be killed"
        time.sleep(0.01)
    process.kill()
    process.wait()
    assert len(log.read_text().splitlines()) < 40
    assert subprocess.run([*words, "--resume"], env=environment).returncode == 0
    assert log_of(tmp_path / "killed") == log_of(tmp_path / "whole")
    for name in ("last.safetensors", "best.safetensors"):
        whole, killed = (arrays_of(tmp_path / run / name)[0] for run in ("whole", "killed"))
        for key, value in whole.items():
            np.testing.assert_array_equal(killed[key], value)


def test_processes_share_a_batch_evenly(monkeypatch):
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 1)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    with pytest.raises(InputError, match="2 processes cannot share a batch of 3 pairs evenly"):
        training._Group(config(batch=3))
    monkeypatch.setenv("LOCAL_RANK", "1")
    group = training._Group(config(batch=4))
    assert (group.own("cuda"), group.own("cpu")) == ("cuda:1", "cpu")


def test_nothing_is_joined_without_a_launch(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with training.joined("cpu") as first:
        assert first
    assert not torch.distributed.is_initialized()


def test_half_precision_is_near_full_precision(examples):
    state = training._State(config(), "cpu")
    full, low = (
        float(
            training.step(state.parameters, config(precision=p), *examples[:2])["matching"].detach()
        )
        for p in ("float32", "bfloat16")
    )
    assert full != low
    assert low == pytest.approx(full, rel=0.02)


def test_the_descriptor_changes_the_coupling_term_alone(examples):
    form = replace(MODEL, dim=16)
    terms = []
    for descriptor in ("hks", "wks"):
        settings = config(model=form, weights=LossWeights(), descriptor=descriptor)
        state = training._State(settings, "cpu")
        terms.append(training.step(state.parameters, settings, *examples[:2]))
    assert terms[0]["coupling"] != terms[1]["coupling"]
    assert terms[0]["off_diagonal"] == terms[1]["off_diagonal"]


def test_the_log_can_be_read_by_tensorboard(examples, tmp_path):
    training.train(examples, config(steps=3), out=tmp_path / "run", validation=examples[3:])
    events = list((tmp_path / "run" / "tensorboard").iterdir())
    assert len(events) == 1
    content = events[0].read_bytes()
    for name in (b"matching", b"learning_rate", b"validation"):
        assert name in content


def test_learning_rate_and_steps_may_change_on_the_way(examples, tmp_path):
    training.train(examples, config(steps=3), out=tmp_path / "run")
    training.train(examples, config(steps=6, learning_rate=1e-4), out=tmp_path / "run", resume=True)
    rates = [line["learning_rate"] for line in log_of(tmp_path / "run")]
    assert rates == [1e-3] * 3 + [1e-4] * 3
    assert json.loads((tmp_path / "run" / "config.json").read_text())["steps"] == 6


# --------------------------------------------------------------------------------------- parts


def part_of(example):
    """The example as if it were a part of a body twice as large."""
    return replace(example, whole=np.array([0.7, 0.1, -0.3, 0.0]))


def test_parts_are_seen_alone_or_about_where_they_lie_on_their_whole(examples):
    part = part_of(examples[0])
    areas = []
    for draw in range(60):
        seen = training._varied(part, config(), draw, 0).operators
        again = training._varied(part, config(), draw, 0).operators
        np.testing.assert_array_equal(seen.points, again.points)
        areas.append(float(seen.mass.sum()))
    alone = np.isclose(areas, 1, rtol=1e-5)
    assert 0.15 < alone.mean() < 0.5
    assert np.median(np.array(areas)[~alone]) == pytest.approx(0.49, rel=0.15)


def test_the_papers_terms_of_a_part(examples):
    form = replace(MODEL, dim=16)
    parameters = {
        name: torch.tensor(value) for name, value in training.initial_parameters(form, 0).items()
    }
    settings = config(model=form, weights=LossWeights(1, 1, 1), descriptor="place")
    whole, other = examples[:2]
    terms = training.step(parameters, settings, whole, other)
    parts = training.step(parameters, settings, whole, part_of(other))
    alone = training.step(parameters, settings, whole, whole)
    assert float(parts["coupling"]) == float(terms["coupling"])
    assert float(parts["orthonormality"]) == pytest.approx(float(alone["orthonormality"]) / 2)
    assert float(parts["off_diagonal"]) < float(terms["off_diagonal"])
    assert float(alone["coupling"]) == pytest.approx(0, abs=1e-5)


def test_the_descriptor_place_needs_truth(examples, tmp_path):
    blind = [replace(example, place=None) for example in examples]
    settings = config(
        model=replace(MODEL, dim=16), weights=LossWeights(1, 1, 1), descriptor="place"
    )
    with pytest.raises(InputError, match="descriptor place needs data with exact truth"):
        training.train(blind, settings, out=tmp_path / "run")
