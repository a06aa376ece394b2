"""The training loop: examples to weights, resumable to the bit on a CPU.

Needs torch. The ladder is `train` (set-up, loop, checkpoints) and `step` (one pair to its loss
terms); what a step sees depends on (seed, step) alone, so a resumed run equals one without a
break.
"""

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from safetensors import safe_open
from safetensors.numpy import save as to_bytes

from coembed import __version__, descriptors, files, losses, matching
from coembed.datasets import Example
from coembed.errors import InputError, MissingExtraError, NumericalError, WeightsError
from coembed.losses import LossWeights
from coembed.model import (
    CoupledEmbedding,
    ModelConfig,
    in_backend_of,
    initial_parameters,
    load,
    save,
)
from coembed.shapes import Operators

if TYPE_CHECKING:
    import torch

__all__ = ["Progress", "TrainConfig", "step", "train"]


@dataclass(frozen=True)
class TrainConfig:
    """Everything that fixes a training run but its data."""

    model: ModelConfig = field(default_factory=ModelConfig)
    """Form of the network."""
    weights: LossWeights = field(default_factory=LossWeights)
    """Weight of each loss term."""
    steps: int = 10_000
    """Optimiser steps; one pair each."""
    learning_rate: float | int = 1e-3
    """Of Adam with amsgrad."""
    schedule: str = "constant"
    """``"constant"`` (the reference) or ``"cosine"`` (down to 1 % at the last step)."""
    sigma: float | int = 0.02
    """Width of the matching loss's target, metres."""
    turn: float | int = 0.0
    """Each shape is turned about the vertical (y) by up to this many degrees."""
    tilt: float | int = 0.0
    """Standard deviation of a turn about a random horizontal axis, degrees."""
    seed: int = 0
    """Of the first parameters and of the order of pairs."""
    save_every: int = 500
    """Steps between checkpoints, each with a look at the validation examples."""

    def __post_init__(self) -> None:
        for name in ("steps", "save_every"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise InputError(f"train {name} must be a whole number of 1 or more; got {value!r}")
        for name in ("learning_rate", "sigma", "turn", "tilt"):
            value = getattr(self, name)
            if not 0 <= value < math.inf or (value == 0 and name in ("learning_rate", "sigma")):
                least = "of 0 or more" if name in ("turn", "tilt") else "above 0"
                raise InputError(f"train {name} must be a number {least}; got {value}")
        if self.weights.off_diagonal and self.model.dim != self.model.n_eig:
            raise InputError(
                "the off-diagonal loss compares the embedding with the eigenvalues: model dim must "
                f"equal n_eig; got {self.model.dim} and {self.model.n_eig}"
            )
        if self.schedule not in ("constant", "cosine"):
            raise InputError(f"train schedule must be constant or cosine; got {self.schedule!r}")


@dataclass(frozen=True)
class Progress:
    """What the loop tells its caller after each step: the log's line."""

    step: int
    terms: Mapping[str, float]
    learning_rate: float
    validation: float | None
    seconds: float


def train(
    examples: Sequence[Example],
    config: TrainConfig,
    *,
    out: Path,
    validation: Sequence[Example] = (),
    resume: bool = False,
    info: Mapping[str, Any] | None = None,
    device: str = "cpu",
    report: Callable[[Progress], None] | None = None,
) -> CoupledEmbedding:
    """Train a network on pairs of examples.

    Parameters
    ----------
    examples
        At least two. Pairs are drawn at random.
    out
        The run's folder: ``config.json``, ``log.jsonl`` (a line per step, every term
        unweighted), ``last.safetensors`` (to resume), ``best.safetensors`` (the weights).
    validation
        Held-out examples; the weights with the smallest error on them are kept. With truth the
        error is the mean distance on the mean body between matched points (metres), without it
        the weighted loss. Without validation examples the last weights are kept.
    resume
        Go on from ``out``; the result equals that of a run without a break.
    info
        Goes into the weights' header.
    report
        Called after each step.

    Raises
    ------
    InputError
        If there are too few examples, truth is missing, or ``out`` holds another run.
    NumericalError
        If the loss is not finite; the state before the step stays in ``out``.
    """
    torch = _torch()
    _check(examples, validation, config)
    state = _State(config, device)
    log_path = _open_run(out, config, resume, state)
    best = state.best
    while state.step < config.steps:
        started = time.perf_counter()
        chosen = _pair(config.seed, state.step, len(examples))
        source, target = (_turned(examples[i], config, state.step, i) for i in chosen)
        rate = _learning_rate(config, state.step)
        terms = step(state.parameters, config, source, target)
        loss = losses.total(terms, config.weights)
        if not torch.isfinite(loss):
            values = {name: float(value.detach()) for name, value in terms.items()}
            raise NumericalError(
                f"training stopped at step {state.step}: the loss of "
                f"{source.operators.name} and {target.operators.name} is not finite ({values}); "
                f"lower the learning rate ({config.learning_rate}) and resume from {out}"
            )
        state.update(loss, rate)
        error = None
        if state.step % config.save_every == 0 or state.step == config.steps:
            error = _validate(state.parameters, config, validation)
            if error is None or error < best:
                best = state.best = math.inf if error is None else error
                _save_weights(state, config, info or {}, out / "best.safetensors", error)
        progress = Progress(
            state.step,
            {name: float(value.detach()) for name, value in terms.items()},
            rate,
            error,
            time.perf_counter() - started,
        )
        with log_path.open("a") as log:
            log.write(json.dumps(asdict(progress)) + "\n")
        if state.step % config.save_every == 0 or state.step == config.steps:
            files.write_bytes(out / "last.safetensors", state.bytes(), force=True)
        if report is not None:
            report(progress)
    return load(out / "best.safetensors")


def step(
    parameters: "Mapping[str, torch.Tensor]", config: TrainConfig, source: Example, target: Example
) -> "dict[str, torch.Tensor]":
    """Loss terms of one pair, unweighted; only those with a weight are computed."""
    weights, like = config.weights, parameters["extractor.first.weight"]
    model = CoupledEmbedding(
        config.model, {k: v for k, v in parameters.items() if k != "temperature"}
    )
    pair = [in_backend_of(example.operators, like) for example in (source, target)]
    psi = list(model(*pair)) if config.model.attention else [model.embed(one) for one in pair]
    terms = {}
    if weights.off_diagonal:
        terms["off_diagonal"] = sum(
            losses.off_diagonal_loss(embedding, _sparse(one, like), one.evals)
            for one, embedding in zip(pair, psi, strict=True)
        )
    if weights.orthonormality:
        terms["orthonormality"] = sum(
            losses.orthonormality_loss(embedding, one.mass)
            for one, embedding in zip(pair, psi, strict=True)
        )
    if weights.coupling:
        signals = [descriptors.hks(one.evals, one.evecs) for one in pair]
        masses = [one.mass for one in pair]
        terms["coupling"] = losses.coupling_loss(*zip(signals, masses, psi, strict=True))
    if weights.matching:
        torch = _torch()
        places = [
            torch.as_tensor(one.place, dtype=like.dtype, device=like.device)
            for one in (source, target)
        ]
        terms["matching"] = losses.matching_loss(
            psi[0],
            psi[1],
            torch.cdist(places[0], places[1]),
            parameters["temperature"],
            sigma=config.sigma,
        )
    return terms


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise MissingExtraError('training needs torch: pip install "coembed[train]"') from error
    return torch


def _sparse(operators: Operators, like: "torch.Tensor") -> "torch.Tensor":
    torch = _torch()
    coo = operators.laplacian.tocoo()
    indices = torch.as_tensor(np.stack([coo.row, coo.col]), dtype=torch.int64)
    return torch.sparse_coo_tensor(
        indices, torch.as_tensor(coo.data, dtype=like.dtype), coo.shape, check_invariants=False
    ).to(like.device)


def _check(examples: Sequence[Example], validation: Sequence[Example], config: TrainConfig) -> None:
    if len(examples) < 2:
        raise InputError(f"training needs two shapes or more; got {len(examples)}")
    if len(validation) == 1:
        raise InputError("validation needs two shapes or more, or none; got 1")
    if config.weights.matching and examples[0].place is None:
        raise InputError(
            "the matching loss needs data with exact truth, such as generated bodies; "
            "these shapes have none: set its weight to 0"
        )


def _pair(seed: int, step: int, n: int) -> tuple[int, int]:
    one, other = np.random.default_rng([seed, step]).choice(n, 2, replace=False)
    return int(one), int(other)


def _turned(example: Example, config: TrainConfig, step: int, index: int) -> Example:
    """The example turned at random; its operators are kept, which a turn hardly changes."""
    if not (config.turn or config.tilt):
        return example
    rng = np.random.default_rng([config.seed, step, index])
    yaw, heading = np.deg2rad(rng.uniform(-config.turn, config.turn)), rng.uniform(0, 2 * np.pi)
    tilt = np.deg2rad(config.tilt) * rng.standard_normal()
    matrix = _rotation(np.array([np.cos(heading), 0, np.sin(heading)]), tilt) @ _rotation(
        np.array([0.0, 1.0, 0.0]), yaw
    )
    points = example.operators.points @ matrix.T
    return replace(example, operators=replace(example.operators, points=points))


def _rotation(axis: Float[np.ndarray, " 3"], angle: float) -> Float[np.ndarray, "3 3"]:
    from scipy.spatial.transform import Rotation

    return Rotation.from_rotvec(axis * angle).as_matrix()


def _learning_rate(config: TrainConfig, step: int) -> float:
    if config.schedule == "constant":
        return config.learning_rate
    share = step / config.steps
    return config.learning_rate * (0.01 + 0.99 * (1 + math.cos(math.pi * share)) / 2)


def _validate(
    parameters: "Mapping[str, torch.Tensor]", config: TrainConfig, validation: Sequence[Example]
) -> float | None:
    """Mean error over consecutive pairs of the held-out examples."""
    if not validation:
        return None
    torch = _torch()
    errors = []
    places = [example.place for example in validation if example.place is not None]
    if not places:
        with torch.no_grad():
            for i in range(len(validation) - 1):
                terms = step(parameters, config, validation[i], validation[i + 1])
                errors.append(float(losses.total(terms, config.weights)))
        return float(np.mean(errors))
    model = CoupledEmbedding(config.model, _arrays(parameters))
    embeddings = [model.embed(example.operators) for example in validation]
    for i in range(len(validation) - 1):
        nearest = matching.nearest(
            embeddings[i], embeddings[i + 1], similarity=config.model.similarity
        )
        off = places[i] - places[i + 1][nearest]
        errors.append(float(np.linalg.norm(off, axis=1).mean()))
    return float(np.mean(errors))


def _arrays(parameters: "Mapping[str, torch.Tensor]") -> dict[str, np.ndarray]:
    return {
        name: value.detach().cpu().numpy()
        for name, value in parameters.items()
        if name != "temperature"
    }


def _save_weights(
    state: "_State", config: TrainConfig, info: Mapping[str, Any], path: Path, error: float | None
) -> None:
    facts = {
        **info,
        "version": __version__,
        "training": asdict(config),
        "step": state.step,
        "validation": error,
    }
    save(CoupledEmbedding(config.model, _arrays(state.parameters), facts), path, force=True)


class _State:
    """Parameters, optimiser and step: what a checkpoint holds."""

    def __init__(self, config: TrainConfig, device: str) -> None:
        torch = _torch()
        initial = initial_parameters(config.model, config.seed)
        if config.weights.matching:
            initial["temperature"] = np.array(math.log(20.0), dtype=np.float32)
        self.parameters = {
            name: torch.tensor(value, device=device, requires_grad=True)
            for name, value in initial.items()
        }
        self.optimizer = torch.optim.Adam(
            self.parameters.values(), lr=config.learning_rate, amsgrad=True
        )
        self.step = 0
        self.best = math.inf

    def update(self, loss: "torch.Tensor", rate: float) -> None:
        self.optimizer.param_groups[0]["lr"] = rate
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.step += 1

    def bytes(self) -> bytes:
        arrays = {}
        for name, value in self.parameters.items():
            arrays[name] = value.detach().cpu().numpy()
            for key, moment in self.optimizer.state[value].items():
                arrays[f"adam.{key}.{name}"] = moment.cpu().numpy()
        arrays = {name: np.array(value, order="C") for name, value in arrays.items()}
        return to_bytes(arrays, metadata={"state": json.dumps([self.step, self.best.hex()])})

    def read(self, path: Path) -> None:
        torch = _torch()
        files.check_readable(path)
        with safe_open(path, framework="numpy") as opened:
            header, names = opened.metadata(), set(opened.keys())
            if not self.parameters.keys() <= names:
                raise WeightsError(f"{path}: the checkpoint is of a network of another form")
            with torch.no_grad():
                for name, value in self.parameters.items():
                    value.copy_(torch.as_tensor(opened.get_tensor(name)))
                    self.optimizer.state[value] = {
                        key: torch.as_tensor(opened.get_tensor(f"adam.{key}.{name}").copy()).to(
                            "cpu" if key == "step" else value.device
                        )
                        for key in ("step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq")
                    }
        self.step, best = json.loads(header["state"])
        self.best = float.fromhex(best)


def _open_run(out: Path, config: TrainConfig, resume: bool, state: _State) -> Path:
    """Make or reopen the run's folder; on resume, bring the state and the log back in step."""
    settings = json.dumps(asdict(config), indent=1)
    config_path, log_path = out / "config.json", out / "log.jsonl"
    if not resume:
        if out.exists() and any(out.iterdir()):
            raise InputError(f"{out}: holds a run already; add --resume or choose another folder")
        out.mkdir(parents=True, exist_ok=True)
        files.write_bytes(config_path, settings.encode())
        return log_path
    files.check_readable(config_path)
    before = json.loads(config_path.read_text())
    changed = [f.name for f in fields(config) if before.get(f.name) != asdict(config)[f.name]]
    if changed:
        raise InputError(
            f"{out}: the run was started with other settings ({', '.join(changed)}); "
            "resume with the same ones"
        )
    if (out / "last.safetensors").exists():
        state.read(out / "last.safetensors")
    lines = log_path.read_text().splitlines(keepends=True) if log_path.exists() else []
    files.write_bytes(log_path, "".join(lines[: state.step]).encode(), force=True)
    return log_path
