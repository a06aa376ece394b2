"""The training loop: examples to weights, resumable to the bit on a CPU.

Needs torch. The ladder is `train` (set-up, loop, checkpoints) and `step` (one pair to its loss
terms); what a step sees depends on (seed, step) alone, so a resumed run equals one without a
break, and several processes (``torchrun``) share the pairs of a batch.
"""

import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save as to_bytes
from scipy.spatial import cKDTree

from coembed import __version__, descriptors, files, losses, search
from coembed.annotations import Float
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

__all__ = ["Progress", "TrainConfig", "joined", "step", "train"]

_ON_WHOLE = 0.7  # share of parts that are seen as they lie on their whole
_UNSURE = 0.08  # how far from there: standard deviation of log size and, in sqrt(area), of place
_PARTNER = 0.05  # metres: held-out points without a partner so near are not judged
_ORIGIN = ("name", "data", "licence", "step", "start")  # what to keep of weights started from


@dataclass(frozen=True)
class TrainConfig:
    """Everything that fixes a training run but its data."""

    model: ModelConfig = field(default_factory=ModelConfig)
    """Form of the network."""
    weights: LossWeights = field(default_factory=LossWeights)
    """Weight of each loss term."""
    steps: int = 10_000
    """Optimiser steps."""
    batch: int = 1
    """Pairs a step; their gradients are averaged."""
    learning_rate: float | int = 1e-3
    """Of Adam with amsgrad."""
    schedule: str = "constant"
    """``"constant"`` (the reference) or ``"cosine"`` (down to 1 % at the last step)."""
    sigma: float | int = 0.02
    """Width of the matching loss's target, metres."""
    descriptor: str = "hks"
    """What the coupling loss compares: ``"hks"`` (512 times), ``"wks"``, or ``"place"``: the exact
    truth, which unlike the other two is the same on a part as on its whole."""
    precision: str = "float32"
    """Of the network's products: ``"float32"`` or ``"bfloat16"`` (losses stay in float32)."""
    turn: float | int = 0.0
    """Each shape is turned about the vertical (y) by up to this many degrees."""
    tilt: float | int = 0.0
    """Standard deviation of a turn about a random horizontal axis, degrees."""
    start: str = ""
    """Weights to begin with, ``"human"`` or a file; empty: random ones."""
    seed: int = 0
    """Of the first parameters and of the order of pairs."""
    save_every: int = 500
    """Steps between checkpoints, each with a look at the validation examples."""

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "save_every"):
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
        for name, allowed in (
            ("schedule", ("constant", "cosine")),
            ("descriptor", ("hks", "wks", "place")),
            ("precision", ("float32", "bfloat16")),
        ):
            if getattr(self, name) not in allowed:
                raise InputError(
                    f"train {name} must be {' or '.join(allowed)}; got {getattr(self, name)!r}"
                )


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
        Go on from ``out``; the result equals that of a run without a break. Learning rate and
        number of steps may be others than before.
    info
        Goes into the weights' header.
    report
        Called after each step.

    Raises
    ------
    InputError
        If there are too few examples, truth is missing, ``out`` holds another run, or the
        weights to start from are of another form.
    NumericalError
        If the loss is not finite; the state before the step stays in ``out``.
    """
    _check(examples, validation, config)
    group = _Group(config)
    state = _State(config, group.own(device))
    with _Log(out, config, resume, state, group) as log:
        while state.step < config.steps:
            started = time.perf_counter()
            rate = _learning_rate(config, state.step)
            terms = _gradients(state, config, examples, group)
            if not math.isfinite(sum(terms.values())):
                log.checkpoint(state)
                raise NumericalError(
                    f"training stopped at step {state.step}: the loss is not finite ({terms}); "
                    f"pairs: {_names(config, examples, state.step)}; lower the learning rate "
                    f"({config.learning_rate}) or look at these shapes, and resume from {out}"
                )
            state.update(rate)
            error, last = None, state.step == config.steps
            if (state.step % config.save_every == 0 or last) and group.rank == 0:
                error = _validate(state.parameters, config, validation)
                if error is None or error < state.best:
                    state.best = math.inf if error is None else error
                    _save_weights(state, config, info or {}, out / "best.safetensors", error)
            progress = Progress(state.step, terms, rate, error, time.perf_counter() - started)
            log.write(progress)
            if state.step % config.save_every == 0 or last:
                log.checkpoint(state)
            if report is not None:
                report(progress)
    group.wait()
    return load(out / "best.safetensors")


def _gradients(
    state: "_State", config: TrainConfig, examples: Sequence[Example], group: "_Group"
) -> dict[str, float]:
    """Leave the batch's mean gradient in the parameters; mean of each loss term."""
    state.optimizer.zero_grad()
    sums: dict[str, float] = {}
    for number in range(group.rank, config.batch, group.size):
        chosen = _pair(config, state.step, number, len(examples))
        draw = state.step * config.batch + number
        source, target = (_varied(examples[i], config, draw, i) for i in chosen)
        terms = step(state.parameters, config, source, target)
        (losses.total(terms, config.weights) / config.batch).backward()
        for name, value in terms.items():
            sums[name] = sums.get(name, 0.0) + float(value.detach()) / config.batch
    return group.summed(state.parameters, sums)


@contextmanager
def joined(device: str) -> Iterator[bool]:
    """Join the processes of a ``torchrun`` launch; yields whether this is the first of them.

    Without such a launch there is nothing to join and this is the first.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield True
        return
    distributed = _torch().distributed
    distributed.init_process_group("nccl" if device.startswith("cuda") else "gloo")
    try:
        yield distributed.get_rank() == 0
    finally:
        distributed.destroy_process_group()


def step(
    parameters: "Mapping[str, torch.Tensor]", config: TrainConfig, source: Example, target: Example
) -> "dict[str, torch.Tensor]":
    """Loss terms of one pair, unweighted; only those with a weight are computed."""
    weights, like = config.weights, parameters["extractor.first.weight"]
    model = CoupledEmbedding(
        config.model, {k: v for k, v in parameters.items() if k != "temperature"}
    )
    torch = _torch()
    pair = [in_backend_of(example.operators, like) for example in (source, target)]
    low = config.precision == "bfloat16"
    with torch.autocast(like.device.type, torch.bfloat16, enabled=low):
        psi = list(model(*pair)) if config.model.attention else [model.embed(one) for one in pair]
    psi = [embedding.to(like.dtype) for embedding in psi]
    terms = {}
    if weights.off_diagonal:
        terms["off_diagonal"] = sum(
            losses.off_diagonal_part_loss(embedding, _sparse(one, like))
            if example.whole is not None
            else losses.off_diagonal_loss(embedding, _sparse(one, like), one.evals)
            for example, one, embedding in zip((source, target), pair, psi, strict=True)
        )
    if weights.orthonormality:  # which a part, with rows of an orthonormal matrix missing, has not
        terms["orthonormality"] = sum(
            losses.orthonormality_loss(embedding, one.mass) * (example.whole is None)
            for example, one, embedding in zip((source, target), pair, psi, strict=True)
        )
    if weights.coupling:
        masses = [one.mass for one in pair]
        if config.descriptor == "place":
            places = _places(source, target, like)
            signals = descriptors.bumps((places[0], masses[0]), (places[1], masses[1]))
        else:
            describe = descriptors.hks if config.descriptor == "hks" else descriptors.wks
            signals = tuple(describe(one.evals, one.evecs) for one in pair)
        terms["coupling"] = losses.coupling_loss(*zip(signals, masses, psi, strict=True))
    if weights.matching:
        terms["matching"] = losses.matching_loss(
            psi[0],
            psi[1],
            torch.cdist(*_places(source, target, like)),
            parameters["temperature"],
            sigma=config.sigma,
        )
    return terms


def _places(source: Example, target: Example, like: "torch.Tensor") -> "list[torch.Tensor]":
    """Where the points of a pair lie on the mean body."""
    torch = _torch()
    return [
        torch.as_tensor(one.place, dtype=like.dtype, device=like.device) for one in (source, target)
    ]


def _torch() -> Any:
    try:
        import tensorboardX  # noqa: F401
        import torch
    except ImportError as error:
        raise MissingExtraError(
            'training needs torch and tensorboardX: pip install "coembed[train]"'
        ) from error
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
    if config.descriptor == "place" and examples[0].place is None:
        raise InputError(
            "the descriptor place needs data with exact truth, such as generated bodies; "
            "these shapes have none: use hks or wks"
        )


def _pair(config: TrainConfig, step: int, number: int, n: int) -> tuple[int, int]:
    """Indices of pair ``number`` of a step's batch."""
    rng = np.random.default_rng([config.seed, step * config.batch + number])
    one, other = rng.choice(n, 2, replace=False)
    return int(one), int(other)


def _names(config: TrainConfig, examples: Sequence[Example], step: int) -> str:
    pairs = [_pair(config, step, number, len(examples)) for number in range(config.batch)]
    names = [" and ".join(examples[i].operators.name for i in pair) for pair in pairs]
    return ", ".join(names)


def _varied(example: Example, config: TrainConfig, draw: int, index: int) -> Example:
    """The example turned at random; its operators are kept, which a turn hardly changes.

    A part is as it is alone, or about as large as on its whole and about in its place there.
    """
    if example.whole is None and not (config.turn or config.tilt):
        return example
    rng = np.random.default_rng([config.seed, draw, index])
    yaw, heading = np.deg2rad(rng.uniform(-config.turn, config.turn)), rng.uniform(0, 2 * np.pi)
    tilt = np.deg2rad(config.tilt) * rng.standard_normal()
    matrix = _rotation(np.array([np.cos(heading), 0, np.sin(heading)]), tilt) @ _rotation(
        np.array([0.0, 1.0, 0.0]), yaw
    )
    operators = example.operators
    if example.whole is not None and rng.random() < _ON_WHOLE:
        factor = float(example.whole[0] * np.exp(_UNSURE * rng.standard_normal()))
        operators = operators.placed(factor, example.whole[1:] + _UNSURE * rng.standard_normal(3))
    return replace(example, operators=replace(operators, points=operators.points @ matrix.T))


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
        found = search.nearest(embeddings[i], embeddings[i + 1], similarity=config.model.similarity)
        off = np.linalg.norm(places[i] - places[i + 1][found], axis=1)
        paired = cKDTree(places[i + 1]).query(places[i])[0] < _PARTNER
        errors.append(float(off[paired].mean()))
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
    if state.start:
        facts["start"] = state.start
    if "temperature" in state.parameters:
        facts["cosine_factor"] = math.exp(float(state.parameters["temperature"].detach()))
    save(CoupledEmbedding(config.model, _arrays(state.parameters), facts), path, force=True)


def _start(config: TrainConfig) -> CoupledEmbedding:
    if not config.start:
        return CoupledEmbedding(config.model, initial_parameters(config.model, config.seed))
    start = load(config.start)
    if start.config != config.model:
        raise InputError(
            f"the weights to start from, {config.start}, have another form: {start.config}; "
            f"this run's is {config.model}"
        )
    return start


class _State:
    """Parameters, optimiser and step: what a checkpoint holds."""

    def __init__(self, config: TrainConfig, device: str) -> None:
        torch = _torch()
        start = _start(config)
        self.start = {key: start.info[key] for key in _ORIGIN if key in start.info}
        initial = dict(start.parameters)
        if config.weights.matching:
            factor = start.info.get("cosine_factor", 20.0)
            initial["temperature"] = np.array(math.log(factor), dtype=np.float32)
        self.parameters = {
            name: torch.tensor(value, device=device, requires_grad=True)
            for name, value in initial.items()
        }
        self.optimizer = torch.optim.Adam(
            self.parameters.values(), lr=config.learning_rate, amsgrad=True
        )
        self.step = 0
        self.best = math.inf

    def update(self, rate: float) -> None:
        self.optimizer.param_groups[0]["lr"] = rate
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


class _Group:
    """The processes that share a batch: those of torch.distributed where it was started, or one."""

    def __init__(self, config: TrainConfig) -> None:
        distributed = _torch().distributed
        self.together = distributed.is_available() and distributed.is_initialized()
        self.rank = distributed.get_rank() if self.together else 0
        self.size = distributed.get_world_size() if self.together else 1
        if config.batch % self.size:
            raise InputError(
                f"{self.size} processes cannot share a batch of {config.batch} pairs evenly; "
                f"set train batch to a multiple of {self.size}"
            )

    def own(self, device: str) -> str:
        """The device of this process: each has a GPU of its own."""
        several = self.together and device == "cuda"
        return f"cuda:{os.environ['LOCAL_RANK']}" if several else device

    def wait(self) -> None:
        if self.together:
            _torch().distributed.barrier()

    def summed(
        self, parameters: "Mapping[str, torch.Tensor]", terms: dict[str, float]
    ) -> dict[str, float]:
        """Sum gradients and loss terms over all processes."""
        if not self.together:
            return terms
        torch = _torch()
        for value in parameters.values():
            if value.grad is not None:
                torch.distributed.all_reduce(value.grad)
        device = next(iter(parameters.values())).device
        sums = torch.tensor(list(terms.values()), dtype=torch.float64, device=device)
        torch.distributed.all_reduce(sums)
        return dict(zip(terms, sums.tolist(), strict=True))


class _Log:
    """The run's folder: settings, a line per step (also for TensorBoard), checkpoints.

    Only the first of several processes writes.
    """

    def __init__(
        self, out: Path, config: TrainConfig, resume: bool, state: _State, group: _Group
    ) -> None:
        self.out, self.first = out, group.rank == 0
        if self.first:
            _open_run(out, config, resume)
        group.wait()
        if resume and (out / "last.safetensors").exists():
            state.read(out / "last.safetensors")
        self.path = out / "log.jsonl"
        if self.first:
            from tensorboardX import SummaryWriter

            lines = self.path.read_text().splitlines(keepends=True) if self.path.exists() else []
            files.write_bytes(self.path, "".join(lines[: state.step]).encode(), force=True)
            self.board = SummaryWriter(str(out / "tensorboard"), purge_step=state.step + 1)

    def __enter__(self) -> "_Log":
        return self

    def __exit__(self, *_: object) -> None:
        if self.first:
            self.board.close()

    def write(self, progress: Progress) -> None:
        if not self.first:
            return
        with self.path.open("a") as stream:
            stream.write(json.dumps(asdict(progress)) + "\n")
        numbers = {**progress.terms, "learning_rate": progress.learning_rate}
        if progress.validation is not None:
            numbers["validation"] = progress.validation
        for name, value in numbers.items():
            self.board.add_scalar(name, value, progress.step)

    def checkpoint(self, state: _State) -> None:
        if self.first:
            self.board.flush()
            files.write_bytes(self.out / "last.safetensors", state.bytes(), force=True)


def _open_run(out: Path, config: TrainConfig, resume: bool) -> None:
    """Make the run's folder, or see that the one there was started with the same settings.

    Learning rate and number of steps may change on the way.
    """
    path, settings = out / "config.json", asdict(config)
    if not resume:
        if out.exists() and any(out.iterdir()):
            raise InputError(f"{out}: holds a run already; add --resume or choose another folder")
        out.mkdir(parents=True, exist_ok=True)
        files.write_bytes(path, json.dumps(settings, indent=1).encode())
        return
    files.check_readable(path)
    before = json.loads(path.read_text())
    changed = [name for name, value in settings.items() if before.get(name) != value]
    if not set(changed) <= {"learning_rate", "steps"}:
        raise InputError(
            f"{out}: the run was started with other settings ({', '.join(changed)}); "
            "resume with the same ones (only learning_rate and steps may change)"
        )
    files.write_bytes(path, json.dumps(settings, indent=1).encode(), force=True)
