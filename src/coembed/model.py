"""The network: operators of one or two shapes to embeddings; weights in one file.

Puts the blocks of `coembed.layers` together. A `CoupledEmbedding` is a config, a flat mapping of
NumPy arrays and what is known about them; one ``.safetensors`` file holds all three.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from importlib.resources import as_file
from importlib.resources import files as package_files
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from coembed import files, layers
from coembed.annotations import Float
from coembed.errors import FileFormatError, InputError, WeightsError
from coembed.layers import Landmarks
from coembed.shapes import Array, Operators

__all__ = [
    "PEOPLE",
    "SHIPPED",
    "CoupledEmbedding",
    "ModelConfig",
    "initial_parameters",
    "load",
    "save",
]

_FORMAT = "coembed-weights-1"

SHIPPED = ("human", "human-parts")
"""Names of the weights that ship."""

PEOPLE = "people, y up, facing +z"
"""What ``info["frame"]`` says of weights whose training shapes stood so."""


@dataclass(frozen=True)
class ModelConfig:
    """Everything that fixes the network's form; it travels with the weights."""

    dim: int = 79
    """Channels of the embedding."""
    n_eig: int = 79
    """Eigenpairs for the diffusion (the constant is not counted)."""
    width: int = 128
    """Channels of the blocks."""
    n_blocks: int = 4
    """Diffusion blocks."""
    smooth: str = "none"
    """``"blocks"``: project on the eigenvectors after each block (the paper's ASAP variant)."""
    attention: bool = True
    """Whether there is a cross-attention block."""
    n_heads: int = 4
    """Heads of the cross-attention."""
    centre: str = "area"
    """Origin of the input positions: ``"area"``: centroid of the surface; ``"points"``: mean of
    the distinct points, which depends on their density (the released weights)."""
    similarity: str = "l2"
    """What a near neighbour means for these weights: ``"l2"`` or ``"cosine"``."""

    def __post_init__(self) -> None:
        for name in ("dim", "n_eig", "width", "n_blocks", "n_heads"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise InputError(f"model {name} must be a whole number of 1 or more; got {value!r}")
        if self.width % self.n_heads:
            raise InputError(
                f"model width must be a multiple of n_heads; got {self.width} and {self.n_heads}"
            )
        for name, allowed in (
            ("smooth", ("none", "blocks")),
            ("centre", ("area", "points")),
            ("similarity", ("l2", "cosine")),
        ):
            if getattr(self, name) not in allowed:
                raise InputError(
                    f"model {name} must be one of {', '.join(allowed)}; got {getattr(self, name)!r}"
                )


@dataclass(frozen=True, eq=False)
class CoupledEmbedding:
    """A trained network.

    Parameters
    ----------
    config
        The network's form.
    parameters
        Arrays by dotted name, float32.
    info
        What is known of the weights: name, licence, training data, losses, measured errors.
    """

    config: ModelConfig
    parameters: Mapping[str, Array]
    info: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        wanted = parameter_shapes(self.config)
        missing = sorted(wanted.keys() - self.parameters.keys())
        unexpected = sorted(self.parameters.keys() - wanted.keys())
        if missing or unexpected:
            raise WeightsError(
                f"weights do not fit their config: missing {missing[:3] or 'none'}, "
                f"unexpected {unexpected[:3] or 'none'}"
            )
        for name, shape in wanted.items():
            if tuple(self.parameters[name].shape) != shape:
                raise WeightsError(
                    f"weights do not fit their config: {name} must be {shape}; "
                    f"got {tuple(self.parameters[name].shape)}"
                )

    @property
    def digest(self) -> str:
        """Fingerprint of form and parameters."""
        digest = hashlib.sha256(json.dumps(asdict(self.config)).encode())
        for name in sorted(self.parameters):
            digest.update(np.ascontiguousarray(self.parameters[name]).tobytes())
        return digest.hexdigest()

    @property
    def frame(self) -> str:
        """How the training shapes stood; "" if that is not known."""
        return str(self.info.get("frame", ""))

    def embed(self, operators: Operators) -> Float[Array, "n d"]:
        """Intermediate embedding of one shape: what matching uses by default."""
        operators = in_backend_of(operators, self.parameters["extractor.first.weight"])
        config, points = self.config, operators.points
        if config.centre == "points":
            points = points - points.mean(axis=0)
        return layers.extractor(
            self.parameters,
            operators,
            points,
            n_blocks=config.n_blocks,
            smooth=config.smooth,
        )

    def __call__(
        self, source: Operators, target: Operators
    ) -> tuple[Float[Array, "n d"], Float[Array, "m d"]]:
        """Coupled embeddings of a pair, refined by cross-attention: the paper's output.

        Raises
        ------
        WeightsError
            If these weights hold no cross-attention.
        """
        return self.couple(self.embed(source), self.embed(target))

    def couple(
        self,
        source: Float[Array, "n d"],
        target: Float[Array, "m d"],
        *,
        landmarks: tuple[Landmarks, Landmarks] | None = None,
    ) -> tuple[Float[Array, "n d"], Float[Array, "m d"]]:
        """Refine two intermediate embeddings by cross-attention, through landmarks if given."""
        self.check_coupled()
        return layers.cross_attention(
            self.parameters, source, target, n_heads=self.config.n_heads, landmarks=landmarks
        )

    def check_coupled(self) -> None:
        """Raise `WeightsError` if these weights hold no cross-attention."""
        if not self.config.attention:
            raise WeightsError(
                f"the weights {self.info.get('name', '')!r} hold no cross-attention, so there is "
                "no coupled mode; leave it off or use weights trained with attention"
            )


def in_backend_of(operators: Operators, like: Array) -> Operators:
    """Operators with the arrays that the network reads in the type of ``like``."""
    names = ("points", "mass", "evals", "evecs", "grad_x", "grad_y")
    changed: dict[str, Any]
    if isinstance(like, np.ndarray):
        changed = {name: np.asarray(getattr(operators, name), dtype=like.dtype) for name in names}
    else:
        import torch

        changed = {
            name: torch.as_tensor(getattr(operators, name), dtype=like.dtype, device=like.device)
            for name in names
        }
    return replace(operators, **changed)


def parameter_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Name and shape of every parameter of a network of this form."""
    width, dim = config.width, config.dim
    shapes: dict[str, tuple[int, ...]] = {}

    def linear(name: str, n_in: int, n_out: int) -> None:
        shapes[f"{name}.weight"], shapes[f"{name}.bias"] = (n_out, n_in), (n_out,)

    linear("extractor.first", 3, width)
    for block in range(config.n_blocks):
        name = f"extractor.blocks.{block}"
        shapes[f"{name}.time"] = (width,)
        shapes[f"{name}.rotate.real"] = shapes[f"{name}.rotate.imaginary"] = (width, width)
        linear(f"{name}.mlp.0", 3 * width, width)
        linear(f"{name}.mlp.1", width, width)
        linear(f"{name}.mlp.2", width, width)
    linear("extractor.last", width, dim)
    if config.attention:
        linear("refiner.first", dim, width)
        for part in ("query", "key", "value", "merge"):
            linear(f"refiner.{part}", width, width)
        linear("refiner.mlp.0", 2 * width, 2 * width)
        linear("refiner.mlp.1", 2 * width, width)
        linear("refiner.last", width, dim)
    return shapes


def initial_parameters(config: ModelConfig, seed: int) -> dict[str, Float[np.ndarray, "..."]]:
    """Random parameters: uniform in ±1/sqrt(inputs) as in torch; diffusion times 1e-4."""
    rng = np.random.default_rng(seed)
    shapes = parameter_shapes(config)
    parameters = {}
    for name, shape in shapes.items():
        if name.endswith(".time"):
            values = np.full(shape, 1e-4)
        elif name == "refiner.mlp.1.bias":
            values = np.zeros(shape)
        else:
            n_in = shape[1] if len(shape) == 2 else shapes[name.removesuffix("bias") + "weight"][1]
            values = rng.uniform(-1, 1, shape) / np.sqrt(n_in)
        parameters[name] = values.astype(np.float32)
    return parameters


def save(model: CoupledEmbedding, path: Path | str, *, force: bool = False) -> None:
    """Write weights, config and what is known of them as one ``.safetensors`` file."""
    parameters = {
        name: np.ascontiguousarray(np.asarray(value, dtype=np.float32))
        for name, value in model.parameters.items()
    }
    header = {"format": _FORMAT, "config": asdict(model.config), "info": dict(model.info)}
    # one entry, since the order of several differs from run to run
    content = to_bytes(parameters, metadata={"coembed": json.dumps(header)})
    files.write_bytes(Path(path), content, force=force)


def load(path: Path | str = "human") -> CoupledEmbedding:
    """Read weights; the network's form comes from the file itself.

    Parameters
    ----------
    path
        A ``.safetensors`` file written by `save`, or one of `SHIPPED`: ``"human"`` for whole
        people, ``"human-parts"`` for parts of people.

    Raises
    ------
    FileFormatError
        If there is no such file or it is no safetensors file.
    WeightsError
        If it holds something else than coembed's weights.
    """
    if str(path) in SHIPPED:
        with as_file(package_files("coembed") / "data" / f"{path}.safetensors") as shipped:
            return load(shipped)
    path = Path(path)
    if path.suffix in (".pth", ".pt"):
        raise WeightsError(
            f"{path}: weights must be a .safetensors file; "
            f"convert it with: coembed import-weights {path} {path.with_suffix('.safetensors')}"
        )
    files.check_readable(path)
    try:
        with safe_open(path, framework="numpy") as opened:
            header = json.loads((opened.metadata() or {}).get("coembed", "{}"))
            parameters = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise FileFormatError(f"{path}: not a safetensors file ({error})") from error
    if header.get("format") != _FORMAT:
        raise WeightsError(
            f"{path}: expected the header {_FORMAT!r}, got {header.get('format')!r}; "
            "the file holds no weights of coembed or comes from another version"
        )
    return CoupledEmbedding(_config(path, header), parameters, header["info"])


def _config(path: Path, header: Mapping[str, Any]) -> ModelConfig:
    settings = header["config"]
    known = {f.name for f in fields(ModelConfig)}
    if settings.keys() != known:
        raise WeightsError(
            f"{path}: its config has the keys {sorted(settings)}; "
            f"this version knows {sorted(known)}"
        )
    return ModelConfig(**settings)
