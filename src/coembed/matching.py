"""Embeddings to correspondences: nearest neighbours, and the whole way from two shapes.

Takes a model and two shapes, gives a `Correspondence` in the rows of the files.
"""

import hashlib
import platform
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from coembed import __version__, geometry
from coembed.annotations import Float, Int
from coembed.errors import InputError, NumericalError
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
    jobs: int = 1,
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
    jobs
        2 prepares and embeds the two shapes at the same time, the second one in a forked process;
        the result is the same. For programs of one thread only, such as the command line.

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
    started = time.perf_counter()
    pair = _embedded_pair(model, (source, target), cache, jobs)
    embeddings = (pair[0].embedding, pair[1].embedding)
    refining = time.perf_counter()
    if coupled:
        embeddings = model.couple(*embeddings)
    searching = time.perf_counter()
    similarity = model.config.similarity
    there = nearest(embeddings[0], embeddings[1], similarity=similarity)
    back = nearest(embeddings[1], embeddings[0], similarity=similarity)
    points, rows = pair[0].operators.points, pair[0].operators.rows
    returned = np.linalg.norm(points - points[back[there]], axis=1)
    score = np.exp(-((returned / _CYCLE) ** 2))
    ended = time.perf_counter()
    seconds = {
        "prepare": pair[0].seconds[0] + pair[1].seconds[0],
        "embed": pair[0].seconds[1] + pair[1].seconds[1] + searching - refining,
        "match": ended - searching,
        "total": ended - started,
    }
    record = _record(model, (source, target), pair, coupled, seconds)
    p2p = _first_rows(pair[1].operators)[there][rows]
    return Correspondence(p2p, score[rows], len(target.points), record)


def embed(
    model: CoupledEmbedding, shape: Shape, *, cache: Path | None = None
) -> Float[np.ndarray, "n d"]:
    """Embedding of every point of a shape, in the rows of its file."""
    one = _embedded(model, shape, cache)
    return one.embedding[one.operators.rows]


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


@dataclass(frozen=True, eq=False)
class _Embedded:
    """A shape's embedding, its operators without the large arrays, and seconds for the two."""

    embedding: Float[np.ndarray, "n d"]
    operators: Operators
    seconds: tuple[float, float]


def _embedded(model: CoupledEmbedding, shape: Shape, cache: Path | None) -> _Embedded:
    started = time.perf_counter()
    operators = geometry.prepare(shape, n_eig=model.config.n_eig, cache=cache)
    prepared = time.perf_counter()
    embedding = np.asarray(model.embed(operators))
    seconds = (prepared - started, time.perf_counter() - prepared)
    none = np.empty((len(embedding), 0))
    slim = replace(operators, evecs=none, grad_x=none, grad_y=none, evals=np.empty(0))
    return _Embedded(embedding, slim, seconds)


def _embedded_pair(
    model: CoupledEmbedding, shapes: tuple[Shape, Shape], cache: Path | None, jobs: int
) -> tuple[_Embedded, _Embedded]:
    if jobs == 1:
        return _embedded(model, shapes[0], cache), _embedded(model, shapes[1], cache)
    from multiprocessing import get_context

    # a fork starts at once; a fresh interpreter would take longer than a shape of 5,000 points
    context = get_context("fork")
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_send_embedded, args=(sending, model, shapes[1], cache))
    process.start()
    sending.close()  # so that the end of the process ends the waiting below
    try:
        first = _embedded(model, shapes[0], cache)
        second = receiving.recv()
    except EOFError as error:
        raise NumericalError(
            f"{shapes[1].name}: the process that prepared it ended without a result, perhaps for "
            "want of memory; try one process (--jobs 1)"
        ) from error
    finally:
        process.terminate()
        process.join()
        receiving.close()
    if isinstance(second, Exception):
        raise second
    return first, second


def _send_embedded(sending: Any, model: CoupledEmbedding, shape: Shape, cache: Path | None) -> None:
    try:
        sending.send(_embedded(model, shape, cache))
    except Exception as error:  # it is raised again where the result is awaited
        sending.send(error)


def _first_rows(operators: Operators) -> Int[np.ndarray, " n"]:
    """For each distinct point the first row of the shape that holds it."""
    first = np.empty(len(operators.mass), dtype=np.int64)
    first[operators.rows[::-1]] = np.arange(len(operators.rows))[::-1]
    return first


def _record(
    model: CoupledEmbedding,
    shapes: tuple[Shape, Shape],
    embedded: tuple[_Embedded, _Embedded],
    coupled: bool,
    seconds: dict[str, float],
) -> dict[str, Any]:
    inputs = [
        {
            "name": shape.name,
            "rows": len(shape.points),
            "sha256": hashlib.sha256(shape.points.tobytes()).hexdigest(),
            "changes": list(one.operators.notes),
            "centre": one.operators.centre.tolist(),
            "scale": one.operators.scale,
        }
        for shape, one in zip(shapes, embedded, strict=True)
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
