"""Embeddings to correspondences: nearest neighbours, and the whole way from two shapes.

Takes a model and two shapes, gives a `Correspondence` in the rows of the files.
"""

import hashlib
import platform
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from coembed import __version__, geometry
from coembed.errors import InputError
from coembed.model import CoupledEmbedding
from coembed.shapes import Correspondence, Operators, Shape

__all__ = ["embed", "match", "nearest"]

_CHUNK = 256  # rows of the distance matrix that exist at a time
_CYCLE = 0.06  # in sqrt(area): where the way back ends this far off, the score is 1/e


def match(
    model: CoupledEmbedding,
    source: Shape,
    target: Shape,
    *,
    coupled: bool = False,
    cache: Path | None = None,
) -> Correspondence:
    """For every source point its target point: the nearest one in the embedding.

    Parameters
    ----------
    model
        From `load`. The shapes should stand as its training shapes did (the shipped weights
        expect y up, facing +z); a turn of 20 degrees does no harm.
    coupled
        Refine the pair's embeddings by cross-attention first, as in the paper; by default each
        shape is embedded alone, as the released code does at test.
    cache
        Folder for operators, see `prepare`.

    Returns
    -------
    Target rows in source order. The score of a match is exp(-(d / 0.06)²), d being the distance
    on the source, in units of sqrt(area), between the point and where the target point's own
    nearest neighbour leads back to.

    References
    ----------
    [Zeng25] sec. 4.3.
    """
    if coupled:
        model.check_coupled()
    seconds: dict[str, float] = {}
    started = time.perf_counter()
    operators = [
        geometry.prepare(shape, n_eig=model.config.n_eig, cache=cache) for shape in (source, target)
    ]
    seconds["prepare"] = time.perf_counter() - started
    started = time.perf_counter()
    embeddings = [model.embed(one) for one in operators]
    if coupled:
        embeddings = list(model.couple(*embeddings))
    seconds["embed"] = time.perf_counter() - started
    started = time.perf_counter()
    similarity = model.config.similarity
    there = nearest(embeddings[0], embeddings[1], similarity=similarity)
    back = nearest(embeddings[1], embeddings[0], similarity=similarity)
    points = operators[0].points
    returned = np.linalg.norm(points - points[back[there]], axis=1)
    score = np.exp(-((returned / _CYCLE) ** 2))
    first_row = _first_rows(operators[1])
    rows = operators[0].rows
    p2p, score = first_row[there][rows], score[rows]
    seconds["match"] = time.perf_counter() - started
    record = _record(model, (source, target), operators, coupled, seconds)
    return Correspondence(p2p, score, len(target.points), record)


def embed(
    model: CoupledEmbedding, shape: Shape, *, cache: Path | None = None
) -> Float[np.ndarray, "n d"]:
    """Embedding of every point of a shape, in the rows of its file."""
    operators = geometry.prepare(shape, n_eig=model.config.n_eig, cache=cache)
    return np.asarray(model.embed(operators))[operators.rows]


def nearest(
    source: Float[np.ndarray, "n d"], target: Float[np.ndarray, "m d"], *, similarity: str = "l2"
) -> Int[np.ndarray, " n"]:
    """Row of the nearest target embedding for each source embedding; the first among equals.

    ``"l2"``: least Euclidean distance; ``"cosine"``: least angle. Memory is linear in n and m.
    """
    if similarity not in ("l2", "cosine"):
        raise InputError(f"similarity must be l2 or cosine; got {similarity!r}")
    if similarity == "cosine":
        source, target = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (source, target))
    # least distance and largest x.y - |y|²/2 are the same; for unit rows |y|² is constant
    half_square = None if similarity == "cosine" else (target * target).sum(axis=1) / 2
    found = np.empty(len(source), dtype=np.int64)
    for start in range(0, len(source), _CHUNK):
        rows = slice(start, start + _CHUNK)
        closeness = source[rows] @ target.T
        if half_square is not None:
            closeness -= half_square
        found[rows] = closeness.argmax(axis=1)
    return found


def _first_rows(operators: Operators) -> Int[np.ndarray, " n"]:
    """For each distinct point the first row of the shape that holds it."""
    first = np.empty(len(operators.mass), dtype=np.int64)
    first[operators.rows[::-1]] = np.arange(len(operators.rows))[::-1]
    return first


def _record(
    model: CoupledEmbedding,
    shapes: tuple[Shape, Shape],
    operators: list[Operators],
    coupled: bool,
    seconds: dict[str, float],
) -> dict[str, Any]:
    inputs = [
        {
            "name": shape.name,
            "rows": len(shape.points),
            "sha256": hashlib.sha256(shape.points.tobytes()).hexdigest(),
            "changes": list(one.notes),
            "centre": one.centre.tolist(),
            "scale": one.scale,
        }
        for shape, one in zip(shapes, operators, strict=True)
    ]
    return {
        "coembed": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "source": inputs[0],
        "target": inputs[1],
        "weights": model.info.get("name", ""),
        "model": asdict(model.config),
        "coupled": coupled,
        "seconds": {stage: round(value, 3) for stage, value in seconds.items()},
    }
