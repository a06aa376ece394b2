"""The weights that the paper's authors released, brought into coembed's form.

Takes one of their ``.pth`` files, gives a `CoupledEmbedding`. Needs torch, and reads with its
safe loader only.
"""

import re
from pathlib import Path
from typing import Any

import numpy as np

from coembed import files
from coembed.annotations import Float
from coembed.errors import FileFormatError, MissingExtraError, WeightsError
from coembed.model import PEOPLE, CoupledEmbedding, ModelConfig

__all__ = ["import_weights"]

_NAMES = (
    (r"feature_extractor\.(first|last)_lin", r"extractor.\1"),
    (r"feature_extractor\.block_(\d+)\.spec0\.diffusion_time", r"extractor.blocks.\1.time"),
    (
        r"feature_extractor\.block_(\d+)\.pairwise_dot\.A_re\.weight",
        r"extractor.blocks.\1.rotate.real",
    ),
    (
        r"feature_extractor\.block_(\d+)\.pairwise_dot\.A_im\.weight",
        r"extractor.blocks.\1.rotate.imaginary",
    ),
    (
        r"feature_extractor\.block_(\d+)\.mlp0\.miniMLP_mlp_layer_00(\d)",
        r"extractor.blocks.\1.mlp.\2",
    ),
    (r"refine\.(first|last)_lin", r"refiner.\1"),
    (r"refine\.layers\.0\.attn\.proj\.0", "refiner.query"),
    (r"refine\.layers\.0\.attn\.proj\.1", "refiner.key"),
    (r"refine\.layers\.0\.attn\.proj\.2", "refiner.value"),
    (r"refine\.layers\.0\.attn\.merge", "refiner.merge"),
    (r"refine\.layers\.0\.mlp\.0", "refiner.mlp.0"),
    (r"refine\.layers\.0\.mlp\.3", "refiner.mlp.1"),
)


def import_weights(path: Path | str) -> CoupledEmbedding:
    """Read a ``.pth`` file of the reference code.

    The reference splits the channels of an attention head as (channel, head), heads fastest;
    here each head owns a contiguous run, so those weights are re-ordered. The reference's
    ``laplacian_power`` is uninitialised memory that no code reads; it is left out.

    Raises
    ------
    MissingExtraError
        Without torch.
    FileFormatError
        If the file cannot be read without running code.
    WeightsError
        If it holds something else than the reference's network.
    """
    try:
        import torch
    except ImportError as error:
        raise MissingExtraError(
            'importing reference weights needs torch: pip install "coembed[train]"'
        ) from error
    path = Path(path)
    files.check_readable(path)
    if path.suffix == ".safetensors":
        raise WeightsError(f"{path}: is a .safetensors file already; expected a .pth file")
    try:
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # the loader's errors have many types; the file is what failed
        raise FileFormatError(
            f"{path}: not a weights file of torch; expected a .pth file of tensors, as released "
            "with the paper, that the safe loader accepts"
        ) from error
    if not isinstance(loaded, dict) or not all(
        isinstance(v, torch.Tensor) for v in loaded.values()
    ):
        raise WeightsError(f"{path}: expected a mapping of names to tensors")
    parameters = _parameters(loaded)
    if "extractor.last.weight" not in parameters:
        raise WeightsError(f"{path}: holds no weights of the reference's network")
    dim, width = parameters["extractor.last.weight"].shape
    config = ModelConfig(
        dim=dim,
        n_eig=dim,
        width=width,
        centre="points",
        attention="refiner.first.weight" in parameters,
    )
    if config.attention:
        parameters |= _contiguous_heads(parameters, config.n_heads)
    info = {
        "name": path.stem,
        "origin": f"{path.name}, released with the paper's reference code",
        "data": "see the reference; FAUST, SCAPE and SURREAL are non-commercial",
        "licence": "of the reference and its data; for research measurement only",
        "frame": PEOPLE,
    }
    return CoupledEmbedding(config, parameters, info)


def _parameters(loaded: dict[str, Any]) -> dict[str, Float[np.ndarray, "..."]]:
    """Our names and float32 arrays; convolutions of width 1 become matrices."""
    parameters = {}
    for name, value in loaded.items():
        if not name.endswith("laplacian_power"):
            array = value.numpy().astype(np.float32)
            array = array[..., 0] if array.ndim == 3 else array
            parameters[_renamed(name.removeprefix("module."))] = array
    return parameters


def _renamed(name: str) -> str:
    for pattern, ours in _NAMES:
        name, found = re.subn(rf"^{pattern}(?=\.|$)", ours, name)
        if found:
            break
    return name


def _contiguous_heads(
    parameters: dict[str, Float[np.ndarray, "..."]], n_heads: int
) -> dict[str, Float[np.ndarray, "..."]]:
    width = parameters["refiner.query.weight"].shape[0]
    order = np.arange(width).reshape(-1, n_heads).T.ravel()
    changed = {"refiner.merge.weight": parameters["refiner.merge.weight"][:, order]}
    for part in ("query", "key", "value"):
        for kind in ("weight", "bias"):
            name = f"refiner.{part}.{kind}"
            changed[name] = parameters[name][order]
    return changed
