"""The nouns: what a shape, its operators and a correspondence are.

Frozen records that check themselves on construction; every other module takes and gives them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy

from coembed.annotations import Bool, Float, Int, Sparse
from coembed.errors import InputError
from coembed.sampling import Interpolation

__all__ = [
    "MIN_POINTS",
    "Alignment",
    "Array",
    "Completion",
    "Correspondence",
    "Embedding",
    "Operators",
    "Shape",
    "degrees_of",
    "namespace",
]

Array = Any
"""An array of the running back end: NumPy for inference, torch for training."""


def namespace(array: Array) -> Any:
    """Functions of the array API standard for this kind of array."""
    if isinstance(array, np.ndarray):
        return np  # NumPy keeps to the standard itself; array-api-compat takes 0.1 s to import
    from array_api_compat import array_namespace

    return array_namespace(array)


_TELLING = 0.002  # of likeness: by less no turn is better than another
MIN_POINTS = 20
"""The fewest distinct points that carry enough neighbours for a Laplacian."""

_HUGE = 1e150  # a coordinate whose square is no number
_FAR = 1e6  # times the size of a shape: what is farther away cannot belong to it,
_FEW = 0.05  # if it is no more than this share of the rows


@dataclass(frozen=True, eq=False)
class Shape:
    """A point cloud, or the vertices of a mesh, as read: input rows, units and frame.

    Parameters
    ----------
    points
        Positions; converted to float64. Rows are never re-ordered or merged.
    faces
        Triangles as 0-based rows of ``points``; used for geodesics and pictures only.
    name
        What messages and records call the shape, usually its file.
    attributes
        Further columns of the points (normals, colours, labels, ...): names and dtypes of the
        file, one row per point. They are carried along and never used for matching.
    notes
        What reading had to decide or change, one sentence each.

    Raises
    ------
    InputError
        If an array has the wrong shape, or a face names no point.
    """

    points: Float[np.ndarray, "n 3"]
    faces: Int[np.ndarray, "f 3"] | None = None
    name: str = "shape"
    attributes: Mapping[str, np.ndarray] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        points = np.asarray(self.points)
        if points.ndim != 2 or points.shape[1] != 3 or points.dtype.kind not in "fiu":
            raise InputError(
                f"{self.name}: points must be numbers of shape (n, 3); "
                f"got {points.dtype} of shape {points.shape}"
            )
        points = points.astype(np.float64)
        object.__setattr__(self, "points", points)
        if self.faces is not None:
            object.__setattr__(self, "faces", self._checked_faces(np.asarray(self.faces)))
        for name, values in self.attributes.items():
            if np.ndim(values) < 1 or len(values) != len(points):
                raise InputError(
                    f"{self.name}: attribute {name!r} must have one row for each of the "
                    f"{len(points)} points; got shape {np.shape(values)}"
                )

    def _checked_faces(self, faces: np.ndarray) -> np.ndarray:
        if faces.ndim != 2 or faces.shape[1] != 3 or faces.dtype.kind not in "iu":
            raise InputError(
                f"{self.name}: faces must be integers of shape (f, 3); "
                f"got {faces.dtype} of shape {faces.shape}"
            )
        n = len(self.points)
        if len(faces) and (faces.min() < 0 or faces.max() >= len(self.points)):
            raise InputError(
                f"{self.name}: faces must name points 0 to {len(self.points) - 1}; "
                f"found {faces.min()} to {faces.max()}"
                + (
                    "; they count from 1, so subtract it"
                    if faces.min() >= 1 and faces.max() == n
                    else ""
                )
            )
        return faces.astype(np.int64)

    @cached_property
    def sound_faces(self) -> Int[np.ndarray, "f 3"]:
        """Faces with an area: three corners that differ, are finite and not on one line."""
        if self.faces is None:
            return np.empty((0, 3), dtype=np.int64)
        near = self.faces[self._in_reach[self.faces].all(axis=1)]
        corners = self.points[near]
        size = np.abs(corners).max(initial=0)
        if not 1e-70 < size < 1e70:  # whose squares and products are no numbers
            corners = corners / (size or 1)
        a, b, c = corners.transpose(1, 0, 2)
        double = np.linalg.norm(np.cross(b - a, c - a), axis=1)
        longest = np.maximum(((b - a) ** 2).sum(axis=1), ((c - a) ** 2).sum(axis=1))
        return near[double > 1e-12 * longest]

    @cached_property
    def _finite(self) -> Bool[np.ndarray, " n"]:
        """Rows of numbers that can be squared."""
        x, y, z = np.abs(self.points.T)
        return np.asarray((x < _HUGE) & (y < _HUGE) & (z < _HUGE))  # not so for NaN

    @cached_property
    def _in_reach(self) -> Bool[np.ndarray, " n"]:
        """Rows that are finite, without the few that shrink all others to one point."""
        finite = self._finite
        columns = np.ascontiguousarray(self.points[finite].T)
        if not columns.size:
            return finite
        middle = np.array([np.partition(x, len(x) // 2)[len(x) // 2] for x in columns])
        reach = max(float(x.max() - x.min()) for x in columns)
        off = np.abs(columns - middle[:, None]).max(axis=0)
        # only where most are about one place: quartiles take longer than all of this
        if not reach or 2 * (off <= 10 * reach / _FAR).sum() < len(off):
            return finite
        size = np.ptp(np.quantile(columns, [0.25, 0.75], axis=1), axis=0).max()
        far = off > _FAR * size
        if not size or far.mean() > _FEW:
            return finite
        near = finite.copy()
        near[finite] = ~far
        return near

    @cached_property
    def unusable(self) -> dict[str, Int[np.ndarray, " r"]]:
        """Rows that can have no answer, by reason.

        ``"not finite"``: a coordinate is NaN, infinite or beyond 1e150, whose square is no number.
        ``"far away"``: a million times the size of the shape proper (between the quartiles) away,
        as rows of 0 0 0 among geo-referenced ones are, if they are few: the others would be one
        point beside them.
        ``"unreferenced"``: the shape is a mesh and no face with an area holds the point; not told
        where most points are like that, since such a file is a cloud with some faces.
        """
        near = self._in_reach
        reasons = {
            "not finite": np.flatnonzero(~self._finite),
            "far away": np.flatnonzero(self._finite & ~near),
        }
        held = np.zeros(len(near), dtype=bool)
        held[self.sound_faces] = True
        if 2 * held.sum() > near.sum():
            reasons["unreferenced"] = np.flatnonzero(near & ~held)
        return {reason: rows for reason, rows in reasons.items() if len(rows)}

    @cached_property
    def usable(self) -> Bool[np.ndarray, " n"]:
        """Rows that can have an answer."""
        usable = np.ones(len(self.points), dtype=bool)
        for rows in self.unusable.values():
            usable[rows] = False
        return usable


@dataclass(frozen=True, eq=False)
class Operators:
    """What the network needs to know of a shape: centred, area one, distinct points only.

    The k rows of points are the distinct points of the shape in an order of their own (along
    a space-filling curve), so nothing depends on the order of the file; ``rows`` leads back.

    Parameters
    ----------
    points
        Positions, centred and scaled so that the area is 1.
    mass
        Lumped areas; they sum to 1.
    weak
        The weak, positive semi-definite Laplacian L by columns: its entries, their rows, and where
        each column starts. Scale-free. ``laplacian`` is the sparse matrix of these.
    evals
        Eigenvalues of L Φ = M Φ Λ in 1/area, ascending, without the constants.
    evecs
        Mass-orthonormal eigenvectors Φ, ΦᵀMΦ = I; the largest entry of each is positive.
    grad_x, grad_y
        Gradient of every eigenvector along the two axes of each point's tangent frame.
    rows
        For each row of the shape, its row in the arrays above; -1 where it has none.
    centre, scale
        ``points = (shape.points - centre) * scale``.
    notes
        What was changed on the way in, one sentence each.
    """

    points: Float[Array, "n 3"]
    mass: Float[Array, " n"]
    weak: tuple[np.ndarray, np.ndarray, np.ndarray]
    evals: Float[Array, " k"]
    evecs: Float[Array, "n k"]
    grad_x: Float[Array, "n k"]
    grad_y: Float[Array, "n k"]
    rows: Int[np.ndarray, " r"]
    centre: Float[np.ndarray, " 3"] = field(default_factory=lambda: np.zeros(3))
    scale: float = 1.0
    notes: tuple[str, ...] = ()
    name: str = "shape"

    @cached_property
    def laplacian(self) -> Sparse:
        """Sparse matrix of ``weak``."""
        n = len(self.mass)
        return scipy.sparse.csc_array(self.weak, shape=(n, n))

    def placed(self, factor: float, shift: Float[np.ndarray, " 3"]) -> "Operators":
        """The same shape larger by a factor, then moved: for parts, whose whole has area 1."""
        scale = self.scale * factor
        return replace(
            self,
            points=(self.points * factor + shift).astype(self.points.dtype),
            mass=self.mass * factor**2,
            evals=self.evals / factor**2,
            evecs=self.evecs / factor,
            grad_x=self.grad_x / factor**2,
            grad_y=self.grad_y / factor**2,
            centre=self.centre - shift / scale,
            scale=scale,
        )


def degrees_of(rotation: Float[np.ndarray, "3 3"]) -> float:
    """The angle of a rotation."""
    return float(np.rad2deg(np.arccos(np.clip((np.trace(rotation) - 1) / 2, -1, 1))))


@dataclass(frozen=True, eq=False)
class Alignment:
    """How a shape was turned for the network, so that it stands as the weights expect.

    Parameters
    ----------
    way
        How the turn was found: ``"auto"``, ``"yaw"``, ``"target"``; ``"none"``; ``"given"``.
    rotation
        The network saw ``points @ rotation.T``.
    likeness
        Mean cosine of nearest neighbours, both ways, between the embedding of the shape so
        turned and those of people who stand upright; 0 where nobody looked.
    runner_up, other
        Likeness in the best turn of those more than 60 degrees away, and that turn.
    curve
        Likeness after a further turn by 0, 30, ... 330 degrees about the y axis; empty if no
        search was needed.
    known
        Whether the shape looks like those that the turn was found with.
    stands
        False if the shape seems to stand otherwise and was not turned, as it was not asked for.
    """

    way: str = "none"
    rotation: Float[np.ndarray, "3 3"] = field(default_factory=lambda: np.eye(3))
    likeness: float = 0.0
    runner_up: float = 0.0
    other: Float[np.ndarray, "3 3"] | None = None
    curve: tuple[float, ...] = ()
    known: bool = True
    stands: bool = True

    @property
    def turns(self) -> bool:
        """Whether the shape was turned at all."""
        return not np.array_equal(self.rotation, np.eye(3))

    @property
    def margin(self) -> float:
        """By how much the turn is better than any quite different one."""
        return self.likeness - self.runner_up

    @property
    def ambiguous(self) -> bool:
        """Whether a quite different turn is as good as the one that was taken."""
        return self.known and self.other is not None and self.margin < _TELLING

    @property
    def notes(self) -> tuple[str, ...]:
        """What to tell of it, one sentence each."""
        told = []
        if self.turns:
            told.append(f"{self._turn()}; the points themselves stay")
        if not self.known:
            told.append(
                f"looks like no person in any turn (likeness {self.likeness:.3f}), so its turn is "
                "not known"
            )
        elif self.ambiguous:
            told.append(
                f"two turns are almost equally likely ({self.likeness:.4f} and "
                f"{self.runner_up:.4f}): left and right, or front and back, may be exchanged"
            )
        return tuple(told)

    def _turn(self) -> str:
        x, y, z = (
            self.rotation[2, 1] - self.rotation[1, 2],
            self.rotation[0, 2] - self.rotation[2, 0],
            self.rotation[1, 0] - self.rotation[0, 1],
        )
        degrees = degrees_of(self.rotation)
        axis = np.array([x, y, z]) / max(float(np.linalg.norm([x, y, z])), 1e-12)
        about = ", ".join(f"{value:.2f}" for value in axis)
        likely = f" (likeness {self.likeness:.3f})" if self.likeness else ""
        return f"turned by {degrees:.0f} degrees about ({about}) for the network{likely}"

    def facts(self) -> dict[str, Any]:
        """All of it as plain numbers and text, for records and files."""
        other = None if self.other is None else self.other.tolist()
        arrays = {"rotation": self.rotation.tolist(), "other": other, "curve": list(self.curve)}
        return {**vars(self), **arrays}

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> "Alignment":
        """What `facts` gave, again."""
        known = dict(facts)
        known["rotation"] = np.array(known["rotation"])
        known["other"] = None if known["other"] is None else np.array(known["other"])
        return cls(**{**known, "curve": tuple(known["curve"])})


_WHOLE_FACTOR, _WHOLE_SHIFT = 0.9, 0.1  # a shape nearer to its whole than this is whole


@dataclass(frozen=True, eq=False)
class Completion:
    """Where a shape lies on the whole that it is a part of; the area of that is 1, its middle 0.

    Parameters
    ----------
    factor
        Its points, in units of the square root of its own area, times this are in units of the
        square root of the area of the whole; the square is the share of the whole that is there.
    shift
        What is added then, for the network.
    likeness
        Mean cosine between the part, so placed, and the most alike points of whole people; 0 where
        nobody looked.
    known
        False if the shape looks like no part of a person; then it is left as it is.
    """

    factor: float = 1.0
    shift: Float[np.ndarray, " 3"] = field(default_factory=lambda: np.zeros(3))
    likeness: float = 0.0
    known: bool = True

    @property
    def whole(self) -> bool:
        """Whether the shape is nearly all of it."""
        near = float(np.linalg.norm(self.shift)) < _WHOLE_SHIFT
        return _WHOLE_FACTOR < self.factor < 1 / _WHOLE_FACTOR and near

    @property
    def notes(self) -> tuple[str, ...]:
        """What to tell of it, one sentence each."""
        if not self.known:
            return (
                f"looks like no part of a person (likeness {self.likeness:.3f}), so the scale of "
                "the whole is not known; its own area is taken for that of the whole",
            )
        if self.whole:
            return ()
        share = f"{self.factor**2:.0%}"
        if self.factor > 1:  # noise makes a surface larger
            return (
                f"nothing seems to be missing, but its area is not that of a whole one: scaled to "
                f"{share} of it for the network",
            )
        return (f"taken for a part: about {share} of a whole one, and scaled so for the network",)

    def facts(self) -> dict[str, Any]:
        """All of it as plain numbers, for records and files."""
        return {**vars(self), "shift": self.shift.tolist()}

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> "Completion":
        """What `facts` gave, again."""
        return cls(**{**facts, "shift": np.array(facts["shift"])})


@dataclass(frozen=True, eq=False)
class Embedding:
    """A shape's embedding: all that matching needs to know of it.

    ``np.asarray(embedding)`` is the embedding of every row of the shape. The network may have
    looked at a sample of the points only; the others' values are interpolated when asked for.

    Parameters
    ----------
    values
        Embeddings of the sample.
    sample
        Rows of ``points`` that the network has looked at.
    interpolation
        From ``values`` to all ``points``; None if the sample is all of them.
    points
        Distinct points, centred and scaled so that the area is 1; of a part, so that the area of
        its whole is 1.
    rows
        For each row of the shape, its row in ``points``; -1 where it has none.
    centre, scale
        ``points = (shape.points - centre) * scale``.
    name, sha256
        What messages call the shape, and the digest of its points.
    weights, similarity
        Digest of the network, and what a near neighbour means for it.
    notes
        What was changed on the way in, one sentence each.
    alignment
        How the shape was turned for the network; ``points`` are not.
    completion
        How a part lies on its whole; None if the shape was taken for a whole one.
    seconds
        For operators and network.
    otherwise
        Some rows of ``points`` and their embedding with the shape turned the next best way; None
        if nobody asked. It is not written to files.
    """

    values: Float[np.ndarray, "m d"]
    sample: Int[np.ndarray, " m"]
    interpolation: Interpolation | None
    points: Float[np.ndarray, "n 3"]
    rows: Int[np.ndarray, " r"]
    centre: Float[np.ndarray, " 3"]
    scale: float
    name: str
    sha256: str
    weights: str
    similarity: str
    notes: tuple[str, ...] = ()
    alignment: Alignment = field(default_factory=Alignment)
    completion: Completion | None = None
    seconds: tuple[float, float] = (0.0, 0.0)
    otherwise: tuple[Int[np.ndarray, " q"], Float[np.ndarray, "q e"]] | None = None

    @property
    def part(self) -> bool:
        """Whether the shape is a part, so that some of the other shape may have no match here."""
        part = self.completion
        return part is not None and not part.whole and part.factor <= 1

    def everywhere(self) -> Float[np.ndarray, "n d"]:
        """Embedding of every distinct point."""
        return self.carried(self.values)

    def at(self, rows: Int[np.ndarray, " q"]) -> Float[np.ndarray, "q d"]:
        """Embedding of some of the distinct points."""
        return self.carried(self.values, rows)

    def carried(
        self, values: Float[np.ndarray, "m d"], rows: Int[np.ndarray, " q"] | None = None
    ) -> Float[np.ndarray, "q d"]:
        """Any values of the sample at some of the distinct points, or at all."""
        if self.interpolation is not None:
            return self.interpolation(values, rows)
        return values if rows is None else values[rows]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        values = self.everywhere()[self.rows].astype(dtype or self.values.dtype, copy=False)
        values[self.rows < 0] = np.nan
        return values

    def first_rows(self) -> Int[np.ndarray, " n"]:
        """For each distinct point the first row of the shape that holds it."""
        first = np.empty(len(self.points), dtype=np.int64)
        known = np.flatnonzero(self.rows >= 0)[::-1]
        first[self.rows[known]] = known
        return first


@dataclass(frozen=True, eq=False)
class Correspondence:
    """For every source point the row of its target point, or -1.

    Parameters
    ----------
    p2p
        0-based rows of the target, in the order of the source file; -1 where there is none.
    score
        How mutual each match is, in [0, 1]: 1 where source and target choose each other,
        falling to 0 the further away (on the source, in units of its size) the way back ends.
    n_target
        Number of rows of the target.
    record
        Inputs, settings, changes on the way in, and seconds per stage.

    Raises
    ------
    InputError
        If the arrays disagree or a value names no target row.
    """

    p2p: Int[np.ndarray, " n"]
    score: Float[np.ndarray, " n"]
    n_target: int
    record: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        p2p, score = np.asarray(self.p2p), np.asarray(self.score)
        if p2p.ndim != 1 or p2p.dtype.kind not in "iu" or score.shape != p2p.shape:
            raise InputError(
                "a correspondence needs integers of shape (n,) and as many scores; "
                f"got {p2p.dtype} of shape {p2p.shape} and scores of shape {score.shape}"
            )
        if len(p2p) and (p2p.min() < -1 or p2p.max() >= self.n_target):
            raise InputError(
                f"a correspondence must hold target rows 0 to {self.n_target - 1}, or -1; "
                f"found {p2p.min()} to {p2p.max()}"
            )
        object.__setattr__(self, "p2p", p2p.astype(np.int64))
        object.__setattr__(self, "score", score.astype(np.float64))

    def check_between(self, source: Shape, target: Shape) -> None:
        """Raise `InputError` unless this leads from as many points to as many as these have."""
        sizes = len(source.points), len(target.points)
        led = len(self.p2p), self.n_target
        if led != sizes:
            advice = (
                "; it leads the other way: exchange the two shapes" if led == sizes[::-1] else ""
            )
            raise InputError(
                f"the map leads from {led[0]} to {led[1]} points; "
                f"{source.name} has {sizes[0]} and {target.name} {sizes[1]}{advice}"
            )
