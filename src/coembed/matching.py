"""Embeddings to correspondences: the whole way from two shapes to the rows of their files.

Takes a model and two shapes (or their embeddings), gives a `Correspondence`.
"""

import hashlib
import platform
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from coembed import (
    __version__,
    adaptation,
    alignment,
    compiled,
    completion,
    functional,
    geometry,
    health,
    locator,
    overlap,
    sampling,
    trust,
)  # fmt: skip
from coembed.alignment import Way
from coembed.annotations import Bool, Float, Int
from coembed.errors import InputError, NumericalError
from coembed.functional import Basis
from coembed.layers import Landmarks
from coembed.locator import Lying, Seen
from coembed.model import PEOPLE, CoupledEmbedding
from coembed.registration import Registration, Surface, register
from coembed.search import Cells, Partition, directed, nearest, there_and_back
from coembed.shapes import (
    MIN_POINTS,
    Alignment,
    Completion,
    Correspondence,
    Embedding,
    Operators,
    Shape,
)

__all__ = [
    "POINTS",
    "REFINEMENTS",
    "Cost",
    "EmbeddedCorrespondence",
    "apart",
    "embed",
    "estimate",
    "match",
    "match_otherwise",
]

Shared = Callable[[np.ndarray], np.ndarray]
"""Logarithms of the odds that the other part has points of a part, too."""

POINTS = 20_000
"""Points of a shape that the network looks at, if it has more and nothing else is asked for."""

REFINEMENTS = ("none", "register", "spectral")
"""What may be done to the nearest neighbours in the embedding."""

_BRUTE = 8_000  # points of both shapes up to which every pair is looked at
_IN_A_CELL, _LARGE_CELLS = 50, 5_000  # points of a small cell; number of large ones
_ASKED = 200  # queries whose answers are compared with an exact search
_LANDMARKS_ABOVE, _LANDMARKS = 10_000, 2_000  # points, for cross-attention

# measured on one core of an AMD EPYC: seconds and bytes for a point that the network looks at, for
# any point of a shape, for any point in the search; bytes of the program itself. The library's
# Laplacian of 100,000 points at a time takes most bytes; of larger shapes, and where ours is
# compiled, the eigenvectors do
_SECONDS_LOOKED_AT, _SECONDS, _SECONDS_SEARCHED = 1e-4, 3e-6, 5e-6
_BYTES_LOOKED_AT, _BYTES_SEARCHED, _BYTES = 13_500, 700, 120_000_000
_BYTES_LAPLACIAN, _BYTES_LOOKED_AT_MORE = 1_350_000_000, 6_500
_TOUCHING = 0.01  # share of a shape's points where limbs touch that is worth a remark
_SEAT = 1.0  # weight of where on the body points are, against the embedding
_PILE = 3.0  # times the mean number of points that are led to one: a pile
_CROWDED = 0.1  # so much less is the chance of a counterpart for a row of a pile
_COUNTERPART = 0.5  # chance of a counterpart below which a row gets no answer
_LACKING = 0.06  # share of rows without a counterpart that whole targets do not reach
_FEWEST = 1000  # points that are worth looking at


@dataclass(frozen=True, eq=False)
class EmbeddedCorrespondence(Correspondence):
    """A correspondence that still holds both embeddings, and so can answer for more points.

    Parameters
    ----------
    embeddings
        Of source and target, as they were matched.
    registration
        How the two lie on each other; None unless they were registered and fit.
    """

    embeddings: tuple[Embedding, Embedding] = field(kw_only=True)
    registration: Registration | None = field(kw_only=True, default=None)

    def deformed(self, share: float = 1.0) -> Float[np.ndarray, "n 3"]:
        """Where the source rows come to lie on the target, in the target file's frame and units.

        Parameters
        ----------
        share
            Of the way there; 0: the source as it was, but of the target's size and in its place.

        Raises
        ------
        InputError
            If the shapes were not registered, or do not fit.
        """
        if self.registration is None:
            raise InputError(
                "there is no deformed shape: the two were not registered, or do not fit"
            )
        source, target = self.embeddings
        moved = self.registration.deformed[0] if share == 1 else self.registration.between(share)
        if source.interpolation is not None:
            moved = source.interpolation(moved)
        placed = moved[source.rows] / target.scale + target.centre
        placed[source.rows < 0] = np.nan
        return placed

    def apply(self, points: Float[np.ndarray, "q 3"]) -> Int[np.ndarray, " q"]:
        """Target rows for further points of the source, in the source file's frame and units.

        Each takes the embedding interpolated from the nearest source points; -1 for points that
        are not finite.

        Raises
        ------
        InputError
            If the points are not numbers of shape (q, 3).
        """
        source, target = self.embeddings
        given = Shape(points, name="further points").points
        finite = np.isfinite(given).all(axis=1)
        placed = (given[finite] - source.centre) * source.scale
        carried = sampling.interpolation(placed, source.points)
        queries, near = carried(source.everywhere()), carried.nearest[:, 0]
        if max(len(source.points), len(target.points)) <= _BRUTE:
            found = nearest(queries, target.everywhere(), similarity=source.similarity)
        else:
            whole, there = (
                _partition(one, _cells(one, _LARGE_CELLS)[0]) for one in (source, target)
            )
            own = Partition.of(whole.cell[near], whole.parent[whole.cell[near]])
            cells = Cells(target.at, there, source.similarity)
            found = cells.find(queries.__getitem__, own)
        answers = np.full(len(given), -1)
        answers[finite] = target.first_rows()[found]
        return answers


def match(
    model: CoupledEmbedding,
    source: Shape | Embedding,
    target: Shape | Embedding,
    *,
    align: Way | tuple[Way, Way] = "auto",
    partial: bool = False,
    scale: float | None = None,
    coupled: bool = False,
    refine: str = "none",
    adapt: float = 0.0,
    points: int | None = POINTS,
    cache: Path | None = None,
    jobs: int = 1,
    report: Callable[[str], None] = lambda _: None,
) -> EmbeddedCorrespondence:
    """For every source point its target point: the nearest one in the embedding.

    Parameters
    ----------
    model
        From `load`.
    source, target
        Shapes, or what `embed` made of them with the same model.
    align
        How to turn the shapes for the network, which knows them as its training shapes stood (for
        the shipped weights: people, y up, facing +z); one for both, or one each. A turn of 20
        degrees does no harm. ``"auto"``: a shape that does not stand so is turned; two that look
        like no people are turned alike (see ``"target"``). ``"yaw"``: about the y axis only.
        ``"target"``: the source is turned as the target stands. ``"x"``, ``"-x"``, ... ``"-z"``:
        the axis that is up. A rotation matrix, or its nine numbers. ``"none"``: not at all. The
        points of the answer, such as `EmbeddedCorrespondence.deformed`, are never turned.
    partial
        Either shape may be a part of a person: what one camera sees, or what a cut leaves. How
        large the whole is and where the part lies on it is found first (`coembed.completion`).
        Source rows that have no counterpart on a target that is a part get -1. An `Embedding` made
        without ``partial`` is taken for a whole.
    scale
        How long a unit of the source file is in units of the target file, if it is known: 1 if
        both are in metres. By default that is found, too. Only for ``partial``.
    coupled
        Refine the pair's embeddings by cross-attention first, as in the paper; by default each
        shape is embedded alone, as the released code does at test. Above 10,000 points attention
        looks at 2,000 landmarks of each shape.
    refine
        ``"none"``: the nearest neighbour, as in the paper. ``"register"``: lay the shapes on each
        other first, and compare position and normal too; it takes about a second more and gives
        the sharpest maps. Where the shapes do not lie on each other the map stays as it was, and
        the record says so. ``"spectral"``: ZoomOut with 200 eigenvectors in both directions.
    adapt
        About so many seconds train the network's last layer on the pair's own mutual matches
        first; what comes out is kept only if the two shapes then agree better. Needs torch.
    points
        Of larger shapes the network looks at a sample of so many points, evenly spread, and the
        embedding is interpolated to the others; None: at all. Every row is answered either way.
    cache
        Folder for operators, see `prepare`.
    jobs
        2 prepares and embeds the two shapes at the same time, the second one in a forked process;
        the result is the same. For programs of one thread only, such as the command line.
    report
        Called with a word at the beginning of each stage: "embed", "refine", "match".

    Returns
    -------
    Target rows in source order; -1 for rows that are not finite, or that no face of a mesh holds
    (the record counts them; in the target such rows are never an answer). The score of a match is
    the chance that it is right within 5 % of sqrt(area), see `coembed.trust.score`; the record has
    a verdict on the pair: good, doubtful or refused. Above 8,000 points the search looks at the
    likely part of the target only (the record says how often it finds the same as a full one), and
    there is one score for each of 5,000 cells.

    References
    ----------
    [Zeng25] sec. 4.3.
    """
    _check(refine, adapt, scale, partial)
    if coupled:
        model.check_coupled()
    started = time.perf_counter()
    report("embed")
    how = _How(points, cache, align if isinstance(align, tuple) else (align,) * 2, partial, scale)
    pair = _embedded_pair(model, (source, target), how, jobs)
    partial = partial or any(one.part for one in pair)
    located, shared = _located(*pair) if partial else (pair, None)
    other = trust.other_answer(*located)
    refining = time.perf_counter()
    pair = _coupled(model, *pair) if coupled else located
    laid: Registration | None = None
    notes: list[str] = []
    if refine != "none" or adapt:
        report("refine")
        pair, laid, notes = _refined(pair, refine, adapt, cache)
    report("match")
    searching = time.perf_counter()
    there, score, chance, recall = _found(*pair, shared)
    ended = time.perf_counter()
    seconds = {
        "prepare": pair[0].seconds[0] + pair[1].seconds[0],
        "embed": pair[0].seconds[1] + pair[1].seconds[1],
        "refine": searching - refining,
        "match": ended - searching,
        "total": ended - started,
    }
    settings = {
        "coupled": coupled, "refine": refine, "adapt": adapt, "search_recall": recall,
        "notes": notes, "partial": {"scale": scale} if partial else None,
    }  # fmt: skip
    record = _record(model, pair, (source, target), settings, seconds)
    rows = pair[0].rows
    p2p = np.where(rows < 0, -1, pair[1].first_rows()[there][rows])
    if partial:
        p2p = _without_counterpart(p2p, pair, chance[rows] < _COUNTERPART, record)
    scores = np.where(rows < 0, 0, score[rows])
    record |= _judged(scores[p2p >= 0], pair, trust.handedness(source, target, p2p), other)
    record["answer_sha256"] = hashlib.sha256(p2p.tobytes() + scores.tobytes()).hexdigest()
    return EmbeddedCorrespondence(
        p2p, scores, len(pair[1].rows), record, embeddings=pair, registration=laid
    )


def _check(refine: str, adapt: float, scale: float | None, partial: bool) -> None:
    if refine not in REFINEMENTS:
        raise InputError(f"refine must be one of {', '.join(REFINEMENTS)}; got {refine!r}")
    adaptation.check(adapt)
    if scale is not None and not (partial and 0 < scale < np.inf):
        raise InputError(f"scale must be above 0, and needs partial; got {scale}")


def match_otherwise(
    model: CoupledEmbedding,
    source: Shape,
    target: Shape | Embedding,
    matches: EmbeddedCorrespondence,
    **settings: Any,
) -> EmbeddedCorrespondence:
    """The other answer: as `match`, but with the source turned the next best way.

    For people that is, nearly always, the way in which front and back, and so left and right, are
    exchanged; where no turn was looked for, it is half a turn about the y axis.

    Parameters
    ----------
    matches
        The first answer.
    settings
        Those it was found with, without ``align``.
    """
    first, second = (one.alignment for one in matches.embeddings)
    ways = alignment.otherwise(first), second.rotation
    return match(model, source, target, align=ways, **settings)


@dataclass(frozen=True)
class Cost:
    """What a match will take, roughly: seconds and bytes, and the share spent on embedding."""

    seconds: float
    memory: int
    embedding: float


def estimate(
    source: Shape | Embedding,
    target: Shape | Embedding,
    *,
    points: int | None = POINTS,
    jobs: int = 1,
    max_memory: float | int = np.inf,
) -> Cost:
    """What `match` with these arguments will take, from measurements on one machine.

    Raises
    ------
    InputError
        If that is more memory than ``max_memory``; it says how many points would fit.
    """
    new = [len(one.points) for one in (source, target) if isinstance(one, Shape)]
    looked_at = [n if points is None else min(n, points) for n in new]
    n = len(source.points) + len(target.points)
    at_once = jobs if len(new) == 2 else 1
    embedding = (_SECONDS_LOOKED_AT * sum(looked_at) + _SECONDS * sum(new)) / at_once
    seconds = embedding + _SECONDS_SEARCHED * n
    fixed = _BYTES + _BYTES_SEARCHED * n
    largest = max(looked_at, default=0)
    each = _BYTES_LOOKED_AT if compiled.native() is None else _BYTES_LOOKED_AT_MORE
    laplacian = min(each * largest, _BYTES_LAPLACIAN)
    memory = int(fixed + at_once * max(laplacian, _BYTES_LOOKED_AT_MORE * largest))
    if memory > max_memory:
        left = (max_memory - fixed) / at_once
        each = each if left < _BYTES_LAPLACIAN else _BYTES_LOOKED_AT_MORE
        fits = int(left / each / 100) * 100
        advice = f"--points {fits} would fit" if fits >= _FEWEST else "thin the shapes first"
        raise InputError(
            f"matching {source.name} and {target.name} needs about {memory / 1e9:.2f} GB, more "
            f"than the {max_memory / 1e9:.2f} GB allowed; {advice}"
        )
    return Cost(seconds, memory, embedding / seconds)


def embed(
    model: CoupledEmbedding,
    shape: Shape,
    *,
    align: Way = "auto",
    partial: bool = False,
    points: int | None = POINTS,
    cache: Path | None = None,
) -> Embedding:
    """Embedding of a shape: ``np.asarray(embed(...))`` has a row for each row of its file.

    Parameters
    ----------
    align, partial, points, cache
        As in `match`.
    """
    return _How(points, cache, (align, align), partial).embedded(model, shape, 1)


def _embed(
    model: CoupledEmbedding,
    shape: Shape,
    points: int | None,
    cache: Path | None,
    settled: Callable[[Operators], tuple[Alignment, Completion | None]],
    *,
    otherwise: bool = False,
) -> Embedding:
    """Embedding of a shape, turned and, if it is a part, placed on its whole as ``settled`` says of
    its operators; perhaps turned otherwise, too.
    """
    if points is not None and points < MIN_POINTS:
        raise InputError(f"points must be {MIN_POINTS} or more, or None for all; got {points}")
    started = time.perf_counter()
    looked_at = _LookedAt.of(model, shape, points, cache)
    prepared = time.perf_counter()
    operators = looked_at.operators
    (turn, part), factor = settled(operators), 1.0
    upright = _upright(operators, turn)
    if part is not None and not part.whole:
        factor = part.factor
        operators = operators.placed(factor, np.zeros(3))
        upright = upright.placed(factor, part.shift)
    values = np.asarray(model.embed(upright))
    other = None
    if otherwise:
        rows, others = alignment.glimpse(operators, alignment.otherwise(turn), model)
        other = looked_at.sample[rows], others
    return Embedding(
        values=looked_at.ordered(values),
        sample=looked_at.sample,
        interpolation=looked_at.interpolation,
        points=looked_at.points if factor == 1 else looked_at.points * factor,
        rows=looked_at.rows,
        centre=looked_at.centre,
        scale=looked_at.scale * factor,
        notes=(
            *shape.notes, *looked_at.notes, *turn.notes, *(part.notes if part else ()),
            *_mirrored(shape),
        ),
        alignment=turn,
        completion=part,
        seconds=(prepared - started, time.perf_counter() - prepared),
        name=shape.name,
        sha256=hashlib.sha256(shape.points.tobytes()).hexdigest(),
        weights=model.digest,
        similarity=model.config.similarity,
        otherwise=other,
    )  # fmt: skip


def _upright(operators: Operators, turn: Alignment) -> Operators:
    return alignment.turned(operators, turn.rotation) if turn.turns else operators


def _mirrored(shape: Shape) -> tuple[str, ...]:
    if not geometry.inside_out(shape):
        return ()
    return (
        "its faces wind inwards: the shape is mirrored (then left and right of the answer are "
        "exchanged), or only its faces are reversed",
    )


@dataclass(frozen=True, eq=False)
class _LookedAt:
    """Operators of a shape or of a sample of it; the rest as in `Embedding`."""

    operators: Operators
    sample: Int[np.ndarray, " m"]
    interpolation: sampling.Interpolation | None
    points: Float[np.ndarray, "n 3"]
    rows: Int[np.ndarray, " r"]
    centre: Float[np.ndarray, " 3"]
    scale: float
    notes: tuple[str, ...]

    @classmethod
    def of(
        cls, model: CoupledEmbedding, shape: Shape, points: int | None, cache: Path | None
    ) -> "_LookedAt":
        n_eig = model.config.n_eig
        if points is not None and points < len(shape.points):
            distinct = geometry.distinct_points(shape)
            if points < len(distinct.points):
                return cls._sampled(n_eig, shape.name, distinct, points, cache)
        operators = geometry.prepare(shape, n_eig=n_eig, cache=cache)
        return cls(
            operators, np.arange(len(operators.points)), None, operators.points, operators.rows,
            operators.centre, operators.scale, operators.notes,
        )  # fmt: skip

    def ordered(self, values: Float[np.ndarray, "m d"]) -> Float[np.ndarray, "m d"]:
        """Values of the operators' points in the order of the sample."""
        return values if self.interpolation is None else values[self.operators.rows]

    @classmethod
    def _sampled(
        cls, n_eig: int, name: str, distinct: geometry.DistinctPoints, n: int, cache: Path | None
    ) -> "_LookedAt":
        points = distinct.points
        sample = sampling.thin(points, n)
        operators = geometry.prepare(Shape(points[sample], name=name), n_eig=n_eig, cache=cache)
        note = (
            f"the network looked at {len(sample)} of {len(points)} distinct points; the embeddings "
            "of the others are interpolated"
        )
        return cls(
            operators,
            sample,
            sampling.interpolation(points, points[sample]),
            (points - operators.centre) * operators.scale,
            distinct.rows,
            distinct.centre + operators.centre * distinct.size,
            operators.scale / distinct.size,
            (*distinct.notes, note, *operators.notes),
        )


@dataclass(frozen=True)
class _How:
    """How the two shapes of a pair are to be embedded."""

    points: int | None
    cache: Path | None
    ways: tuple[Way, Way]
    partial: bool = False
    scale: float | None = None

    def embedded(
        self,
        model: CoupledEmbedding,
        shape: Shape | Embedding,
        side: int,
        target: Embedding | None = None,
    ) -> Embedding:
        """The embedding of one of the shapes; that of a source of known scale needs the target."""
        if isinstance(shape, Shape):
            way, first = self.ways[side], side == 0
            return _embed(
                model, shape, self.points, self.cache,
                lambda ops: self.settled(ops, way, model, target), otherwise=first,
            )  # fmt: skip
        if shape.weights != model.digest:
            raise InputError(
                f"{shape.name}: was embedded with other weights than those to match with; "
                "name the same weights, or embed it again"
            )
        return shape

    def settled(
        self, operators: Operators, way: Way, model: CoupledEmbedding, target: Embedding | None
    ) -> tuple[Alignment, Completion | None]:
        """How a shape is turned, and how a part lies on its whole: found, or by the known scale.

        Which of the turns of a part is right shows once it is placed.
        """
        if not self.partial:
            return alignment.align(operators, way, model), None
        factor = self._factor(operators, target)
        if isinstance(way, str) and way == "auto" and model.frame == PEOPLE:
            return completion.stand(operators, model, factor=factor)
        turn = alignment.align(operators, way, model, partial=True)
        return turn, completion.complete(_upright(operators, turn), model, factor=factor)

    def turned_to(
        self, operators: Operators, model: CoupledEmbedding, target: Embedding
    ) -> tuple[Alignment, Completion | None]:
        """The same of a source that is turned as its target stands."""
        turn = alignment.align_to(operators, target, model)
        if not self.partial:
            return turn, None
        factor = self._factor(operators, target)
        return turn, completion.complete(_upright(operators, turn), model, factor=factor)

    def _factor(self, operators: Operators, target: Embedding | None) -> float | None:
        if self.scale is None or target is None:
            return None
        return self.scale * target.scale / operators.scale


def _aligned_to_target(
    model: CoupledEmbedding,
    source: Shape | Embedding,
    pair: tuple[Embedding, Embedding],
    how: _How,
) -> tuple[Embedding, Embedding]:
    """The pair, its source turned as the target stands, if that is asked for or all there is."""
    wanted = [way if isinstance(way, str) else "given" for way in how.ways]
    strangers = wanted == ["auto", "auto"] and not any(one.alignment.known for one in pair)
    if isinstance(source, Embedding) or not (wanted[0] == "target" or strangers):
        return pair
    target = pair[1]
    turned = _embed(
        model, source, how.points, how.cache,
        lambda ops: how.turned_to(ops, model, target), otherwise=True,
    )  # fmt: skip
    return turned, target


def _embedded_pair(
    model: CoupledEmbedding,
    shapes: tuple[Shape | Embedding, Shape | Embedding],
    how: _How,
    jobs: int,
) -> tuple[Embedding, Embedding]:
    if how.scale is not None:
        target = how.embedded(model, shapes[1], 1)
        pair = how.embedded(model, shapes[0], 0, target), target
    elif jobs == 1 or any(isinstance(shape, Embedding) for shape in shapes):
        pair = how.embedded(model, shapes[0], 0), how.embedded(model, shapes[1], 1)
    else:
        pair = _embedded_at_once(model, shapes, how)
    return _aligned_to_target(model, shapes[0], pair, how)


def _embedded_at_once(
    model: CoupledEmbedding, shapes: tuple[Shape | Embedding, Shape | Embedding], how: _How
) -> tuple[Embedding, Embedding]:
    """Both shapes embedded, the second one in a forked process."""
    from multiprocessing import get_context

    # a fork starts at once; a fresh interpreter would take longer than a shape of 5,000 points
    context = get_context("fork")
    receiving, sending = context.Pipe(duplex=False)
    work = (receiving, sending, model, shapes[1], how)
    process = context.Process(target=_send_embedded, args=work)
    process.start()
    sending.close()  # so that the end of the process ends the waiting below
    try:
        first = how.embedded(model, shapes[0], 0)
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


def _send_embedded(
    receiving: Any, sending: Any, model: CoupledEmbedding, shape: Shape | Embedding, how: _How
) -> None:
    # this process's copy; with it open, sending would wait for ever once the other process is gone
    receiving.close()
    result: Embedding | Exception
    try:
        result = how.embedded(model, shape, 1)
    except Exception as error:  # it is raised again where the result is awaited
        result = error
    with suppress(BrokenPipeError):  # nobody waits any more
        sending.send(result)


def _judged(
    scores: Float[np.ndarray, " n"],
    pair: tuple[Embedding, Embedding],
    kept: float | None,
    other: dict[str, Any] | None,
) -> dict[str, Any]:
    """Verdict, the other answer, and share of handedness kept, for the record."""
    names, turns = [one.name for one in pair], [one.alignment for one in pair]
    partial = any(one.completion is not None for one in pair)
    verdict = trust.judge(scores, names, turns, kept, other, partial)
    return {
        "other_answer": other,
        "handedness_kept": None if kept is None else round(kept, 3),
        "verdict": {"word": verdict.word, "reasons": list(verdict.reasons)},
    }


def _coupled(
    model: CoupledEmbedding, source: Embedding, target: Embedding
) -> tuple[Embedding, Embedding]:
    """The pair refined by cross-attention, through landmarks if it is large."""
    landmarks = None
    if max(len(source.values), len(target.values)) > _LANDMARKS_ABOVE:
        landmarks = (_landmarks(source), _landmarks(target))
    refined = model.couple(source.values, target.values, landmarks=landmarks)
    return replace(source, values=refined[0]), replace(target, values=refined[1])


def _located(source: Embedding, target: Embedding) -> tuple[tuple[Embedding, Embedding], Shared]:
    """The pair with where on the body the locator sees its points; what tells the odds that the
    target has them, too.

    Small pieces and hidden sides the locator knows better than the embedding, which has seen no
    normals.
    """
    first, second = (locator.load().look(one.points) for one in (source, target))
    seated = _seated(source, first), _seated(target, second)
    return seated, lambda points: overlap.shared(first, second, points)


def _seated(embedding: Embedding, seen: Seen) -> Embedding:
    """An embedding with the seats of its points beside it, if it is one of directions."""
    if embedding.similarity != "cosine":
        return embedding

    def beside(
        values: Float[np.ndarray, "q d"], rows: Int[np.ndarray, " q"], lying: Lying | None
    ) -> Float[np.ndarray, "q e"]:
        carried = sampling.interpolation(embedding.points[rows], seen.points)
        parts = directed(values, "cosine"), _SEAT * carried(seen.seats(lying))
        return np.hstack(parts, dtype=values.dtype)

    lying, otherwise = completion.lying(embedding), embedding.otherwise
    if otherwise is not None:
        turn, middle = alignment.otherwise(embedding.alignment), seen.points.mean(axis=0)
        other = None if lying is None else lying.turned(turn, middle)
        otherwise = otherwise[0], beside(otherwise[1], otherwise[0], other)
    values = beside(embedding.values, embedding.sample, lying)
    return replace(embedding, values=values, otherwise=otherwise)


def _refined(
    pair: tuple[Embedding, Embedding], refine: str, adapt: float, cache: Path | None
) -> tuple[tuple[Embedding, Embedding], Registration | None, list[str]]:
    """The pair adapted, then refined; how its shapes lie on each other; remarks."""
    laid: Registration | None = None
    notes: list[str] = []
    if adapt:
        first, second, remark = adaptation.adapt(*pair, max(1, round(adapt * adaptation.STEPS)))
        pair, notes = (first, second), [remark]
    if refine == "register":
        pair, laid, remarks = _registered(*pair)
        notes += remarks
    elif refine == "spectral":
        pair = _zoomed_out(*pair, cache)
    return pair, laid, notes


def _registered(
    source: Embedding, target: Embedding
) -> tuple[tuple[Embedding, Embedding], Registration | None, list[str]]:
    """The pair laid on each other, or as it was if it does not fit, and remarks."""
    laid = register(Surface.of(source), Surface.of(target))
    if not laid.fits:
        remark = (
            f"the shapes cannot be laid on each other ({100 * min(laid.residuals):.0f} % of "
            "sqrt(area) apart); the map is the plain one"
        )
        return (source, target), None, [remark]
    remarks = [
        f"{one.name}: limbs touch at about {share:.0%} of its points; look at the map there"
        for one, share in zip((source, target), laid.touching, strict=True)
        if share >= _TOUCHING
    ]
    return laid.embeddings, laid, remarks


def _zoomed_out(
    source: Embedding, target: Embedding, cache: Path | None
) -> tuple[Embedding, Embedding]:
    """The pair in the coordinates of a functional map of 200 eigenvectors."""
    few = [_sample_alone(one) for one in (source, target)]
    bases = []
    for one in few:
        shape = Shape(one.points, name=one.name)
        operators = geometry.prepare(shape, n_eig=functional.MODES, cache=cache)
        rows = operators.rows
        bases.append(Basis(operators.evals, operators.evecs[rows], operators.mass[rows]))
    there, back = _found(few[0], few[1])[0], _found(few[1], few[0])[0]
    values = functional.zoomout(bases[0], bases[1], there, back)
    first, second = (
        replace(one, values=value, similarity="l2")
        for one, value in zip((source, target), values, strict=True)
    )
    return first, second


def _sample_alone(embedding: Embedding) -> Embedding:
    """An embedding of those points only that the network has looked at."""
    rows = np.arange(len(embedding.sample))
    points = embedding.points[embedding.sample]
    return replace(embedding, points=points, sample=rows, rows=rows, interpolation=None)


def _landmarks(embedding: Embedding) -> Landmarks:
    points = embedding.points[embedding.sample]
    chosen = sampling.thin(points, _LANDMARKS)
    nearest_one = sampling.interpolation(points, points[chosen], k=1).nearest[:, 0]
    counts = np.bincount(nearest_one, minlength=len(chosen))
    return chosen, counts.astype(embedding.values.dtype)


def _found(
    source: Embedding, target: Embedding, shared: Shared | None = None
) -> tuple[Int[np.ndarray, " n"], Float[np.ndarray, " n"], Float[np.ndarray, " n"], float]:
    """For each source point its target point, the score, the chance that it has a counterpart at
    all, and the recall of the search.
    """
    points, similarity = source.points, source.similarity
    if max(len(points), len(target.points)) <= _BRUTE:
        x, y = source.everywhere(), target.everywhere()
        there, back = there_and_back(x, y, similarity=similarity)
        off = np.linalg.norm(points - points[back], axis=1)
        score, chance = _chances(source, target, np.arange(len(points)), there, off, shared)
        return there, score, chance - _CROWDED * _piled_up(there, off), 1.0
    cell, middle = _cells(source, _LARGE_CELLS)
    cell_there, middle_there = _cells(target, _LARGE_CELLS)
    cells = Cells(target.at, _partition(target, cell_there), similarity)
    there = cells.find(source.at, _partition(source, cell))
    back = nearest(target.at(middle_there), source.at(middle), similarity=similarity)
    few = points[middle]
    off = np.linalg.norm(few - few[back[cell_there[there[middle]]]], axis=1)
    ends = there[middle]
    score, chance = _chances(source, target, middle, ends, off, shared)
    chance = chance - _CROWDED * _piled_up(cell_there[ends], off)
    return there, score[cell], chance[cell], _recall(source, target, there)


def _chances(
    source: Embedding,
    target: Embedding,
    rows: Int[np.ndarray, " m"],
    ends: Int[np.ndarray, " m"],
    off: Float[np.ndarray, " m"],
    shared: Shared | None,
) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
    """The chance of matches of source rows to be right, and of these to have a counterpart."""
    points, similarity, gap, odds = source.points[rows], source.similarity, None, None
    if shared is not None:
        gap, odds = apart(source.at(rows), target.at(ends), similarity), shared(points)
    return trust.chances(points, target.points[ends], off, gap, odds, similarity)


def _piled_up(there: Int[np.ndarray, " n"], off: Float[np.ndarray, " n"]) -> Bool[np.ndarray, " n"]:
    """Which points lie where many more are led to one target than usual, and none is led back.

    So the points beyond a rim end up on it.
    """
    sources = np.bincount(there)
    crowded: Bool[np.ndarray, " n"] = sources[there] > _PILE * sources[sources > 0].mean()
    return crowded & (off > trust.CLOSE)


def apart(
    one: Float[np.ndarray, "n d"], other: Float[np.ndarray, "n d"], similarity: str
) -> Float[np.ndarray, " n"]:
    """How far apart embeddings are, row by row, as the search sees it."""
    pair = [directed(values, similarity) for values in (one, other)]
    return np.linalg.norm(pair[0] - pair[1], axis=1).astype(np.float64)


def _without_counterpart(
    p2p: Int[np.ndarray, " n"],
    pair: tuple[Embedding, Embedding],
    missing: Bool[np.ndarray, " n"],
    record: dict[str, Any],
) -> Int[np.ndarray, " n"]:
    """The map without rows that have no counterpart; their number and what they did are told.

    Such rows pile up at the rim of the target: most rows with the same answer, with and without.
    A target that is a whole one by its size answers all rows, unless too many seem to have none.
    """
    missing, whole = missing & (p2p >= 0), not pair[1].part
    share = float(missing.mean())
    if whole and pair[1].completion is not None and pair[1].completion.known and share > _LACKING:
        whole = False
        record["notes"].append(
            f"{pair[1].name} is as large as a whole one, but {share:.0%} of the rows seem to have "
            "no counterpart there, so it is taken for a part"
        )
    if whole:
        return p2p
    left = np.where(missing, -1, p2p)
    most = [int(np.bincount(rows[rows >= 0], minlength=1).max()) for rows in (p2p, left)]
    record["partial"] |= {
        "without_counterpart": int(missing.sum()),
        "most_on_one_before": most[0], "most_on_one": most[1],
    }  # fmt: skip
    return left


def _recall(source: Embedding, target: Embedding, there: Int[np.ndarray, " n"]) -> float:
    """Share of a few source points for which a full search finds what was found."""
    asked = np.linspace(0, len(source.points) - 1, _ASKED).astype(np.int64)
    queries, similarity = source.at(asked), source.similarity
    rivals = [there[asked]]
    for start in range(0, len(target.points), _BRUTE):  # all of the target, but not at a time
        rows = np.arange(start, min(start + _BRUTE, len(target.points)))
        rivals.append(rows[nearest(queries, target.at(rows), similarity=similarity)])
    alike = [
        nearest(queries[i : i + 1], target.at(rows), similarity=similarity)[0] == 0
        for i, rows in enumerate(np.stack(rivals, axis=1))
    ]
    return round(float(np.mean(alike)), 3)


def _partition(embedding: Embedding, large: Int[np.ndarray, " n"]) -> Partition:
    """Cells of about 50 points, in the large ones."""
    n, m = len(embedding.points), len(embedding.sample)
    cell, _ = _cells(embedding, n // _IN_A_CELL)
    if embedding.interpolation is not None and n // _IN_A_CELL > 2 * m:
        # more cells wanted than points sampled: part theirs by the second nearest
        first, second = embedding.interpolation.nearest[:, :2].T.astype(np.int64)
        cell = first * m + second
    return Partition.of(cell, large)


def _cells(embedding: Embedding, n: int) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " c"]]:
    """About ``n`` cells of neighbouring points: the cell of each, the middle point of each cell."""
    points = embedding.points[embedding.sample]
    few = sampling.thin(points, n)
    cell = sampling.interpolation(points, points[few], k=1).nearest[:, 0]
    if embedding.interpolation is not None:
        cell = cell[embedding.interpolation.nearest[:, 0]]
    return cell, embedding.sample[few]


def _record(
    model: CoupledEmbedding,
    embedded: tuple[Embedding, Embedding],
    given: tuple[Shape | Embedding, Shape | Embedding],
    settings: dict[str, Any],
    seconds: dict[str, float],
) -> dict[str, Any]:
    inputs = [
        {
            "name": one.name,
            "rows": len(one.rows),
            "looked_at": len(one.sample),
            "sha256": one.sha256,
            "changes": list(one.notes),
            "health": health.count(one, shape if isinstance(shape, Shape) else None),
            "centre": one.centre.tolist(),
            "scale": one.scale,
            "alignment": one.alignment.facts(),
            "completion": None if one.completion is None else one.completion.facts(),
        }
        for one, shape in zip(embedded, given, strict=True)
    ]
    return {
        "coembed": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "source": inputs[0],
        "target": inputs[1],
        "weights": model.info.get("name", ""),
        "weights_sha256": model.digest,
        "model": asdict(model.config),
        **settings,
        "seconds": {stage: round(value, 3) for stage, value in seconds.items()},
    }
