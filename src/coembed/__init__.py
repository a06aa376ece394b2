"""Dense maps between non-rigidly deformed point clouds by deep coupled embeddings.

The public names are loaded when they are first used, so that importing the package is fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coembed.errors import CoembedError
    from coembed.evaluation import evaluate
    from coembed.formats import read, write
    from coembed.geometry import prepare
    from coembed.matching import embed, match
    from coembed.model import CoupledEmbedding, ModelConfig, load, save
    from coembed.segmentation import segment
    from coembed.shapes import Correspondence, Embedding, Operators, Shape
    from coembed.training import TrainConfig, train
    from coembed.viewing import view

__version__ = "0.1.0"

__all__ = [
    "CoembedError",
    "Correspondence",
    "CoupledEmbedding",
    "Embedding",
    "ModelConfig",
    "Operators",
    "Shape",
    "TrainConfig",
    "embed",
    "evaluate",
    "load",
    "match",
    "prepare",
    "read",
    "save",
    "segment",
    "train",
    "view",
    "write",
]

_HOMES = {
    "errors": ("CoembedError",),
    "evaluation": ("evaluate",),
    "formats": ("read", "write"),
    "geometry": ("prepare",),
    "matching": ("embed", "match"),
    "model": ("CoupledEmbedding", "ModelConfig", "load", "save"),
    "segmentation": ("segment",),
    "shapes": ("Correspondence", "Embedding", "Operators", "Shape"),
    "training": ("TrainConfig", "train"),
    "viewing": ("view",),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"coembed.{home}"), name)
    raise AttributeError(f"module 'coembed' has no attribute {name!r}")
