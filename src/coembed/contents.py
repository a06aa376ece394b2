"""What every reader of shapes hands on, and the few steps that readers share.

A reader changes nothing silently: rows stay in the order of the file, and what it had to
decide is a note.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from coembed.annotations import Float, Int
from coembed.errors import FileFormatError

__all__ = [
    "WHOLE",
    "Content",
    "Request",
    "columns_of",
    "miscounted",
    "name_columns",
    "text_of",
    "triangles",
    "triangles_of",
    "triangulated",
]


class Content(NamedTuple):
    """Points, triangles, attributes of the points and notes, as one file holds them."""

    points: Float[np.ndarray, "n 3"]
    faces: Int[np.ndarray, "f 3"] | None = None
    attributes: Mapping[str, np.ndarray] = {}
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Request:
    """What is wanted of a file.

    Parameters
    ----------
    chosen
        Which part of it: names of nodes, columns or an array; "": what the reader takes itself.
    incomplete
        Take the whole rows of a file that is cut off.
    """

    chosen: str = ""
    incomplete: bool = False

    def names(self, known: Sequence[str]) -> list[str]:
        """What is chosen, by name: one that is known, or several with commas between."""
        return [self.chosen] if self.chosen in known else self.chosen.split(",")

    def cut(self, path: Path, what: str, declared: int, found: int | str) -> tuple[str, ...]:
        """Note that a file is cut off, if that is accepted.

        Raises
        ------
        FileFormatError
            If it is not.
        """
        if not self.incomplete:
            raise miscounted(path, what, declared, found)
        return (f"the file is cut off: of {declared} {what} {found} are there and are used",)

    def end_of(self, text: str) -> tuple[str, tuple[str, ...]]:
        """Text without a last line that has no end, if files that are cut off are accepted."""
        whole, last = text.rpartition("\n")[::2]
        if not self.incomplete or not last.strip():
            return text, ()
        return whole + "\n", (f"the last line has no end and is left out: {last[:40]!r}",)


WHOLE = Request()
"""All of a whole file."""


def miscounted(path: Path, what: str, declared: int, found: int | str) -> FileFormatError:
    """Error for a file that holds another number of things than it says."""
    return FileFormatError(
        f"{path}: declares {declared} {what} but {found} were found; the file is cut off or "
        "damaged: copy or export it again"
    )


def triangles(corners: Int[np.ndarray, " c"], sizes: Int[np.ndarray, " p"]) -> np.ndarray:
    """Fan triangulation of polygons given one after the other; triangles stay as they are."""
    sizes = np.asarray(sizes, dtype=np.int64)
    corners = np.asarray(corners, dtype=np.int64)
    counts = np.maximum(sizes - 2, 0)
    first = np.repeat(np.cumsum(sizes) - sizes, counts)
    step = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.stack([corners[first], corners[first + step + 1], corners[first + step + 2]], axis=1)


def triangles_of(polygons: Sequence[Any]) -> np.ndarray:
    """Fan triangulation of a list of polygons."""
    if not len(polygons):
        return np.zeros((0, 3), dtype=np.int64)
    sizes = np.fromiter((len(polygon) for polygon in polygons), np.int64, len(polygons))
    return triangles(np.concatenate([np.asarray(p, dtype=np.int64) for p in polygons]), sizes)


def triangulated(n_polygons: int, faces: np.ndarray) -> tuple[str, ...]:
    """Note for polygons that are not all triangles."""
    if n_polygons == len(faces):
        return ()
    return (f"{n_polygons} polygons cut into {len(faces)} triangles; no points were added",)


def text_of(path: Path) -> str:
    """Text of a file in UTF-8, or in UTF-16 with its mark, or as older Windows programs write."""
    content = path.read_bytes()
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return content.decode("utf-16", errors="replace").replace("\r\n", "\n")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("cp1252", errors="replace")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def columns_of(table: np.ndarray, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Columns by name."""
    return {name: table[:, column] for column, name in enumerate(names)}


def name_columns(further: np.ndarray) -> list[str]:
    """Names for nameless columns behind x, y and z, guessed from their values.

    Three columns of unit vectors are normals and three of whole numbers up to 255 colours; with
    one more in front it is an intensity, as in PTS files. Others are numbered as in the file.
    """
    n = further.shape[1] if further.ndim == 2 else 0
    numbered = [f"column{column}" for column in range(4, 4 + n)]
    if further.dtype.kind not in "fiu" or not len(further):
        return numbered
    last = further[:, -3:].astype(np.float64)
    whole = bool(((last >= 0) & (last <= 255) & (last == np.trunc(last))).all())
    if n == 3 and (np.abs(np.linalg.norm(last, axis=1) - 1) < 0.01).all():
        return ["nx", "ny", "nz"]
    if n in (3, 4) and whole:
        return ["intensity", "red", "green", "blue"][4 - n :]
    return numbered
