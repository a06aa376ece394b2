"""One page that shows a map in a browser, from disk, without a network.

The page itself is built from ``viewer/`` (three.js, MIT licence) and ships as a file; here its
data are written into it: facts as JSON, arrays as one deflated buffer.
"""

import base64
import html
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files as package_files
from typing import Any

import numpy as np

from coembed import sampling
from coembed.annotations import Float, Int
from coembed.colourings import PALETTE, Colouring, normals
from coembed.shapes import Correspondence, Shape
from coembed.transfer import spacing

__all__ = ["SHOWN", "escaped_json", "viewer_page"]

SHOWN = 250_000
"""Points of the source that a page holds at most; of the target half as many more."""

_FACES = 600_000  # triangles of a shape that a page holds at most
_CHANNELS = 12
_LEVEL = 6  # of compression
_STEPS = 65_535  # of a coordinate within the larger of the two boxes
_ALIKE = 4.0  # ratio of sizes up to which both shapes are shown in the same units
_DOT = 2.2  # size of a dot, in distances to the nearest other point
_GAP = 65_535  # stands for no value


def viewer_page(
    source: Shape,
    target: Shape,
    matches: Correspondence,
    found: Sequence[Colouring],
    *,
    shown: int = SHOWN,
    up: str = "y",
    notes: Sequence[str] = (),
) -> bytes:
    """The page of a pair, with a map and colourings.

    Positions are kept in steps of 1/65535 of the shape's size, numbers in as many steps of their
    range. Of a source of more than ``shown`` points an evenly spread part is shown, of the target
    all their matches and as large a part; rows that the page names are those of the files all the
    same. Surfaces are shown where all of a shape's points are, and not more than 600,000
    triangles. A page is 0.6 MB and at most 110 bytes for each shown point; about 20 are usual.

    Parameters
    ----------
    up
        Axis that points up at first: ``"x"``, ``"y"`` or ``"z"``.
    notes
        Sentences for the foot of the page.
    """
    chosen = _shown_rows(source, target, matches, shown)
    buffer = _Buffer()
    sides = _sides(buffer, (source, target), matches, chosen)
    place = np.full(len(target.points) + 1, -1)
    place[chosen[1]] = np.arange(len(chosen[1]))
    remarks = list(notes)
    for shape, rows in zip((source, target), chosen, strict=True):
        if len(rows) < len(shape.points):
            remarks.append(f"{shape.name}: {len(rows)} of {len(shape.points)} points are shown")
    if len(found) > _CHANNELS:
        remarks.append(f"{_CHANNELS} of {len(found)} colourings are kept")
    hits = np.bincount(matches.p2p[matches.p2p >= 0], minlength=len(target.points))
    facts = {
        "sides": sides,
        "map": buffer.add("i4", place[matches.p2p[chosen[0]]]),
        "hits": buffer.add("u4", hits[chosen[1]]) if len(chosen[0]) < len(source.points) else None,
        "channels": [_channel(buffer, one, chosen) for one in found[:_CHANNELS]],
        "notes": remarks,
        "up": up,
    }
    page = (package_files("coembed") / "data" / "viewer.html").read_text(encoding="utf-8")
    packed = base64.b64encode(zlib.compress(bytes(buffer.content), _LEVEL)).decode()
    parts = {
        "@@TITLE@@": html.escape(f"{source.name} to {target.name}"),
        "@@FACTS@@": escaped_json(facts),
        "@@DATA@@": packed,
    }
    head, rest = page.split("@@TITLE@@")
    middle, rest = rest.split("@@FACTS@@")
    tail, end = rest.split("@@DATA@@")
    pieces = (head, parts["@@TITLE@@"], middle, parts["@@FACTS@@"], tail, parts["@@DATA@@"], end)
    return "".join(pieces).encode()


def escaped_json(facts: Any) -> str:
    """JSON that no HTML around it can take for markup."""
    text = json.dumps(facts, allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


@dataclass(eq=False)
class _Buffer:
    """Arrays one after the other, each at a multiple of four bytes."""

    content: bytearray = field(default_factory=bytearray)

    def add(self, kind: str, values: np.ndarray) -> list[str | int]:
        """Add an array; what the page needs to find it: type, first byte, length."""
        self.content += bytes(-len(self.content) % 4)
        start = len(self.content)
        self.content += np.ascontiguousarray(values, dtype=f"<{kind}").tobytes()
        return [kind, start, int(values.size)]


def _shown_rows(
    source: Shape, target: Shape, matches: Correspondence, shown: int
) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " m"]]:
    """Rows that are shown: all matches of the source's are among the target's."""
    rows = _thinned(source, shown)
    ends = matches.p2p[rows]
    if len(target.points) <= shown:
        return rows, np.union1d(_thinned(target, shown), ends[ends >= 0])
    return rows, np.union1d(_thinned(target, shown // 2), ends[ends >= 0])


def _thinned(shape: Shape, n: int) -> Int[np.ndarray, " m"]:
    finite = np.flatnonzero(np.isfinite(shape.points).all(axis=1))
    return finite[sampling.thin(shape.points[finite], n)]


def _sides(
    buffer: _Buffer,
    pair: tuple[Shape, Shape],
    matches: Correspondence,
    chosen: Sequence[np.ndarray],
) -> list[dict[str, Any]]:
    boxes = []
    for shape, rows in zip(pair, chosen, strict=True):
        points = shape.points[rows] if len(rows) else np.zeros((1, 3))
        boxes.append((points.min(axis=0), points.max(axis=0)))
    sizes = [float(np.linalg.norm(high - low)) or 1.0 for low, high in boxes]
    if max(sizes) <= _ALIKE * min(sizes):
        sizes = [max(sizes)] * 2
    unmatched = (
        int((matches.p2p < 0).sum()),
        len(pair[1].points) - len(np.unique(matches.p2p[matches.p2p >= 0])),
    )
    return [
        {
            **_side(buffer, shape, rows, box, size),
            "title": f"{title}: {shape.name} ({len(shape.points)} points)",
            "unmatched": missing,
        }
        for title, shape, rows, box, size, missing in zip(
            ("source", "target"), pair, chosen, boxes, sizes, unmatched, strict=True
        )
    ]


def _side(
    buffer: _Buffer,
    shape: Shape,
    rows: Int[np.ndarray, " n"],
    box: tuple[Float[np.ndarray, " 3"], Float[np.ndarray, " 3"]],
    size: float,
) -> dict[str, Any]:
    points = shape.points[rows]
    placed = (points - (box[0] + box[1]) / 2) / size if len(rows) else points
    low = placed.min(axis=0, initial=0)
    step = 1 / _STEPS
    faces = _shown_faces(shape, rows)
    meshed = 0 < len(faces) <= _FACES
    facing = None
    if not meshed and len(rows) > 3:
        facing = np.zeros((len(rows), 4))
        facing[:, :3] = np.rint(127 * normals(points))
    return {
        "shown": len(rows),
        "rows": None if len(rows) == len(shape.points) else buffer.add("u4", rows),
        "low": low.tolist(),
        "step": step,
        "spacing": max(_DOT * spacing(placed), 1e-4),
        "positions": buffer.add("u2", np.rint((placed - low) / step)),
        "normals": None if facing is None else buffer.add("i1", facing),
        "faces": buffer.add("u4", faces) if meshed else None,
    }


def _shown_faces(shape: Shape, rows: Int[np.ndarray, " n"]) -> Int[np.ndarray, "f 3"]:
    """Triangles of the shown points; none if some finite points are not shown."""
    if len(rows) < int(np.isfinite(shape.points).all(axis=1).sum()):
        return shape.sound_faces[:0]
    place = np.full(len(shape.points), -1)
    place[rows] = np.arange(len(rows))
    return place[shape.sound_faces]


def _channel(buffer: _Buffer, one: Colouring, chosen: Sequence[np.ndarray]) -> dict[str, Any]:
    values = [side[rows] for side, rows in zip(one.values, chosen, strict=True)]
    facts: dict[str, Any] = {"label": one.label, "kind": one.kind, "gaps": one.gaps}
    if one.kind == "rgb":
        facts["values"] = [buffer.add("u1", side) for side in values]
    elif one.kind == "category":
        codes = [np.where(side < 0, _GAP, side % _GAP) for side in values]
        facts["values"] = [buffer.add("u2", side) for side in codes]
        facts |= {"palette": PALETTE.tolist(), "names": one.names}
    else:
        shares = [np.clip((side - one.low) / (one.high - one.low), 0, 1) for side in values]
        steps = [
            np.where(np.isnan(s), _GAP, np.rint(np.nan_to_num(s) * (_GAP - 1))) for s in shares
        ]
        facts["values"] = [buffer.add("u2", side) for side in steps]
        facts |= {"low": one.low, "high": one.high, "ramp": one.ramp.tolist()}
    return facts
