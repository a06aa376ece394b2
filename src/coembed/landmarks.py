"""Single named points of a shape, and where they lie on another one by a map.

Takes and gives files of one landmark a line: a row of the shape, or a place.
"""

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from coembed import files
from coembed.annotations import Float, Int
from coembed.errors import FileFormatError, InputError
from coembed.shapes import Correspondence, Shape
from coembed.transfer import spacing

__all__ = ["Landmarks", "carry_landmarks", "place", "read_landmarks", "write_landmarks"]

_NEAR = 8  # matches that a landmark is carried by
_REACH = 5.0  # spacings: further from any match a landmark has no answer
_SCATTER = 6.0  # spacings: matches that end further from the nearest one's are left out
_CORNERS = 12  # nearest points whose triangles are looked at
_COLUMNS = ("name", "row", "x", "y", "z", "face", "b0", "b1", "b2")


@dataclass(frozen=True, eq=False)
class Landmarks:
    """Named places on a shape.

    Parameters
    ----------
    names
        What they are called.
    rows
        Nearest row of the shape; -1 where there is none.
    points
        Places, in the shape's frame and units; NaN where there is none.
    face, barycentric
        Triangle of the shape and coordinates in it, of surfaces; else -1 and NaN.
    """

    names: tuple[str, ...]
    rows: Int[np.ndarray, " q"]
    points: Float[np.ndarray, "q 3"]
    face: Int[np.ndarray, " q"]
    barycentric: Float[np.ndarray, "q 3"]


def carry_landmarks(
    source: Shape, target: Shape, matches: Correspondence, given: Landmarks, *, to: str = "target"
) -> Landmarks:
    """Landmarks of one shape on the other.

    Each goes to the mean of where the eight matches nearest to it lead, weighted by
    1 / (distance² + spacing²); matches that end far from where the nearest one does are left out.
    That place is moved to the nearest one on the surface, or to the nearest row of a cloud.

    Parameters
    ----------
    given
        On the source if they go ``to`` the ``"target"``, else on the target.

    Raises
    ------
    InputError
        If the map is not one between these two.
    """
    if to not in ("source", "target"):
        raise InputError(f"to must be source or target; got {to!r}")
    matches.check_between(source, target)
    rows = np.flatnonzero(matches.p2p >= 0)
    here, there = source.points[rows], target.points[matches.p2p[rows]]
    sound = np.isfinite(here).all(axis=1) & np.isfinite(there).all(axis=1)
    here, there = here[sound], there[sound]
    receiver = target
    if to == "source":
        here, there, receiver = there, here, source
    moved = np.full(given.points.shape, np.nan)
    known = np.isfinite(given.points).all(axis=1)
    if len(here) and known.any():
        moved[known] = _moved(here, there, given.points[known])
    return place(receiver, given.names, moved)


def _moved(
    here: Float[np.ndarray, "n 3"], there: Float[np.ndarray, "n 3"], asked: Float[np.ndarray, "q 3"]
) -> Float[np.ndarray, "q 3"]:
    gaps = spacing(here), spacing(there)
    k = min(_NEAR, len(here))
    distance, near = scipy.spatial.cKDTree(here).query(asked, k=range(1, k + 1))
    ends = there[near]
    stray = np.linalg.norm(ends - ends[:, :1], axis=2) > _SCATTER * gaps[1]
    weights = np.where(stray, 0, 1 / (distance**2 + max(gaps[0], 1e-300) ** 2))
    moved = (weights[:, :, None] * ends).sum(axis=1) / weights.sum(axis=1)[:, None]
    moved[distance[:, 0] > _REACH * gaps[0]] = np.nan
    return moved


def place(shape: Shape, names: tuple[str, ...], points: Float[np.ndarray, "q 3"]) -> Landmarks:
    """Landmarks at the places of a shape nearest to some points; none where these are NaN."""
    n = len(points)
    rows, face = np.full(n, -1), np.full(n, -1)
    moved, barycentric = np.full((n, 3), np.nan), np.full((n, 3), np.nan)
    known = np.flatnonzero(np.isfinite(points).all(axis=1))
    usable = np.flatnonzero(shape.usable)
    if len(known) and len(usable):
        tree = scipy.spatial.cKDTree(shape.points[usable])
        if len(shape.sound_faces):
            near = usable[tree.query(points[known], k=range(1, min(_CORNERS, len(usable)) + 1))[1]]
            found = [
                _on_surface(shape, rows_, q) for rows_, q in zip(near, points[known], strict=True)
            ]
            face[known] = [one[0] for one in found]
            barycentric[known] = [one[1] for one in found]
            moved[known] = [one[2] for one in found]
            rows[known] = usable[tree.query(moved[known])[1]]
        else:
            rows[known] = usable[tree.query(points[known])[1]]
            moved[known] = shape.points[rows[known]]
    return Landmarks(names, rows, moved, face, barycentric)


def _on_surface(
    shape: Shape, near: Int[np.ndarray, " j"], point: Float[np.ndarray, " 3"]
) -> tuple[int, Float[np.ndarray, " 3"], Float[np.ndarray, " 3"]]:
    """Nearest place on the triangles of some rows: row of ``faces``, coordinates, place."""
    from trimesh import triangles

    closest_point: Any = triangles.closest_point
    to_barycentric: Any = triangles.points_to_barycentric
    faces = shape.faces
    assert faces is not None
    close = np.flatnonzero(np.isin(faces, near).any(axis=1))
    corners = shape.points[faces[close]]
    area = np.linalg.norm(
        np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1
    )
    close, corners = close[area > 0], corners[area > 0]
    found = closest_point(corners, np.repeat(point[None], len(close), axis=0))
    best = int(((found - point) ** 2).sum(axis=1).argmin())
    inside = to_barycentric(corners[best : best + 1], found[best : best + 1])[0]
    inside = np.clip(inside, 0, 1) / np.clip(inside, 0, 1).sum()
    return int(close[best]), inside, inside @ corners[best]


def read_landmarks(path: Path | str, shape: Shape) -> Landmarks:
    """Landmarks of a shape, one a line: ``row`` or ``x y z``, a name before it if wanted.

    Words are parted by blanks or commas; a first line with the words ``row`` or ``x`` names the
    columns, as `write_landmarks` writes them. Lines that begin with # are left out.

    Raises
    ------
    FileFormatError
        If a line is of another form, or names no row of the shape.
    """
    path = Path(path)
    files.check_readable(path)
    text = path.read_text(encoding="utf-8", errors="replace")
    lines = [(i, line.strip()) for i, line in enumerate(text.splitlines(), start=1)]
    lines = [(i, line) for i, line in lines if line and not line.startswith("#")]
    if not lines:
        raise FileFormatError(f"{path}: holds no landmarks")
    head = [word.strip().lower() for word in lines[0][1].split(",")]
    titled = head if "row" in head or {"x", "y", "z"} <= set(head) else None
    names: list[str] = []
    points: list[list[float]] = []
    for number, line in lines[1:] if titled else lines:
        words = next(csv.reader([line])) if "," in line else line.split()
        name, place_ = _parsed(path, number, [word.strip() for word in words], titled)
        if len(place_) == 1:
            row = int(place_[0])
            if not (0 <= row < len(shape.points)) or row != place_[0]:
                raise FileFormatError(
                    f"{path}: line {number}: expected a row of {shape.name}, 0 to "
                    f"{len(shape.points) - 1}; got {place_[0]:g}"
                )
            place_ = shape.points[row].tolist()
        names.append(name or str(len(names)))
        points.append(place_)
    return place(shape, tuple(names), np.array(points, dtype=np.float64).reshape(-1, 3))


def _parsed(
    path: Path, number: int, words: list[str], titled: list[str] | None
) -> tuple[str, list[float]]:
    """Name, and a row or a place."""
    try:
        if titled:
            cells = dict(zip(titled, words, strict=False))
            if cells.get("x"):
                return cells.get("name", ""), [float(cells[axis]) for axis in "xyz"]
            return cells.get("name", ""), [float(cells["row"])]
        if len(words) in (1, 3):
            return "", [float(word) for word in words]
        if len(words) in (2, 4):
            return words[0], [float(word) for word in words[1:]]
    except (ValueError, KeyError) as error:
        raise FileFormatError(f"{path}: line {number}: not a landmark ({error})") from error
    raise FileFormatError(
        f"{path}: line {number}: expected a row or x y z, a name before it if wanted; got "
        f"{' '.join(words)[:60]!r}"
    )


def write_landmarks(path: Path | str, landmarks: Landmarks, *, force: bool = False) -> None:
    """Write landmarks as CSV: name, row, x, y, z, face, b0, b1, b2; empty where there is none.

    Rows and faces are those of the shape's file, counted from 0.
    """
    path = Path(path)
    if path.suffix.lower() != ".csv":
        raise InputError(f"{path}: landmarks are written as .csv")
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for i, name in enumerate(landmarks.names):
        lost, cloud = landmarks.rows[i] < 0, landmarks.face[i] < 0
        writer.writerow([
            name,
            int(landmarks.rows[i]),
            *([""] * 3 if lost else landmarks.points[i].tolist()),
            int(landmarks.face[i]),
            *([""] * 3 if cloud else landmarks.barycentric[i].tolist()),
        ])  # fmt: skip
    files.write_bytes(path, stream.getvalue().encode(), force=force)
