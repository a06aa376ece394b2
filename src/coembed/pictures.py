"""Pictures for papers: shapes side by side, seen by one fixed camera, as PNG or SVG.

Takes shapes and their colours, writes a file; needs matplotlib (``coembed[view]``), no screen.
"""

import io
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from coembed import files, sampling
from coembed.annotations import Float, Int
from coembed.colourings import NONE, PALETTE, Colouring, normals, painted
from coembed.errors import InputError, MissingExtraError
from coembed.raster import Raster
from coembed.shapes import Shape

__all__ = ["Panel", "check_drawable", "draw", "draw_shapes", "picture", "rotation"]

_LIGHT = np.array([-0.35, 0.45, 0.82])
_TURN, _TILT = 22.0, 10.0  # degrees: the camera stands to the right of the front, and above
_POINTS = 60_000  # of a shape that are drawn
_FACES = 600_000  # of a shape that are drawn as a surface
_COVER = 5.0  # times the outline of a shape that its dots would cover, side by side
_GRID = 40  # cells along a panel by which the outline's area is told
_DPI = 160


@dataclass(frozen=True, eq=False)
class Panel:
    """One shape of a picture.

    Parameters
    ----------
    title
        Above it.
    shape
        What is drawn: a surface where there are faces, else points.
    colours
        Of its points, from 0 to 1.
    marked
        Rows that are drawn again, larger and on top.
    scale
        Numbers whose colour bar stands below.
    """

    title: str
    shape: Shape
    colours: Float[np.ndarray, "n 3"]
    marked: Int[np.ndarray, " m"] | None = None
    scale: Colouring | None = None

    @classmethod
    def of(cls, title: str, shape: Shape, one: Colouring, side: int) -> "Panel":
        """A shape in the colours of one side of a colouring."""
        return cls(title, shape, painted(one, side))


def draw(
    panels: Sequence[Sequence[Panel]],
    out: Path,
    *,
    up: str = "y",
    turn: float = _TURN,
    force: bool = False,
) -> None:
    """Write panels, in rows, as ``.png`` or ``.svg``; see `picture`.

    Raises
    ------
    InputError
        If the file has another ending or exists already.
    MissingExtraError
        Without matplotlib.
    """
    files.check_writable(out, force=force)
    kind = out.suffix.lower().removeprefix(".")
    if kind not in ("png", "svg"):
        raise InputError(f"{out}: pictures are written as .png or .svg")
    files.write_bytes(out, picture(panels, kind=kind, up=up, turn=turn), force=force)


def draw_shapes(
    shapes: Sequence[Shape], out: Path, *, by: str, columns: int = 6, force: bool = False
) -> None:
    """Write shapes, several in a row, coloured by an attribute of whole numbers of theirs.

    Raises
    ------
    InputError
        If a shape has no such attribute.
    """
    panels = []
    for shape in shapes:
        if by not in shape.attributes:
            raise InputError(f"{shape.name}: has no attribute {by!r} to be coloured by")
        codes = shape.attributes[by].astype(np.int64)
        colours = PALETTE[codes % len(PALETTE)] / 255
        colours[codes < 0] = NONE
        panels.append(Panel(Path(shape.name).stem, shape, colours))
    rows = [panels[i : i + columns] for i in range(0, len(panels), columns)]
    draw(rows, out, force=force)


def picture(
    panels: Sequence[Sequence[Panel]],
    *,
    kind: str = "png",
    up: str = "y",
    turn: float = _TURN,
    size: float = 3.6,
) -> bytes:
    """A picture of panels in rows, as a file of some kind.

    The camera is the same for all: it stands far away, a little above, ``turn`` degrees to the
    right of where +z points, with the axis ``up`` upwards. Each shape fills its panel. What an SVG
    shows of shapes is pixels, its words are text. The same input gives the same bytes.

    Parameters
    ----------
    size
        Height of a panel, inches.
    """
    figure = _figure()
    from matplotlib import rc_context

    columns = max(len(row) for row in panels)
    boxes = [[_Seen.of(panel, up, turn) for panel in row] for row in panels]
    aspect = float(np.clip(max(seen.aspect for row in boxes for seen in row), 0.55, 2.0))
    wide = max(size * aspect, 1.7)
    figure.set_size_inches(columns * wide + 0.2, len(panels) * (size + 0.3))
    axes = figure.subplots(len(panels), columns, squeeze=False)
    for row, (drawn, places) in enumerate(zip(boxes, axes, strict=True)):
        for column, place in enumerate(places):
            place.axis("off")
            if column < len(drawn):
                _draw_panel(figure, place, panels[row][column], drawn[column], (wide, size))
    stream = io.BytesIO()
    metadata = {"Date": None} if kind == "svg" else None
    with rc_context({"svg.hashsalt": "coembed", "svg.fonttype": "none"}):
        figure.savefig(stream, format=kind, dpi=_DPI, metadata=metadata)
    return stream.getvalue()


def check_drawable() -> None:
    """Raise `MissingExtraError` where nothing can be drawn."""
    _figure()


def rotation(up: str, turn: float) -> Float[np.ndarray, "3 3"]:
    """Rows times this are right, up and towards the camera."""
    axes = {"x": (1, 2, 0), "y": (2, 0, 1), "z": (0, 1, 2)}  # front, right, up
    if up not in axes:
        raise InputError(f"up must be x, y or z; got {up!r}")
    front, right, above = np.eye(3)[list(axes[up])]
    if up == "z":
        front, right = -right, front  # as y up, turned: front is -y
    angle, tilt = np.deg2rad(turn), np.deg2rad(_TILT)
    across = np.cos(angle) * right - np.sin(angle) * front
    level = np.cos(angle) * front + np.sin(angle) * right
    towards = np.cos(tilt) * level + np.sin(tilt) * above
    upwards = np.cos(tilt) * above - np.sin(tilt) * level
    return np.stack([across, upwards, towards], axis=1)


@dataclass(frozen=True, eq=False)
class _Seen:
    """A panel's shape as the camera sees it: middle of its box at 0, the larger side 1.

    Coordinates are right, up and towards the camera; rows those of the shape that are drawn.
    """

    points: Float[np.ndarray, "n 3"]
    rows: Int[np.ndarray, " n"]
    faces: Int[np.ndarray, "f 3"]
    aspect: float

    @classmethod
    def of(cls, panel: Panel, up: str, turn: float) -> "_Seen":
        shape = panel.shape
        finite = np.flatnonzero(np.isfinite(shape.points).all(axis=1))
        if not len(finite):
            raise InputError(f"{shape.name}: there is no point to draw")
        faces = shape.sound_faces
        meshed = 0 < len(faces) <= _FACES
        rows = np.arange(len(shape.points)) if meshed else finite
        if not meshed:
            rows = finite[sampling.thin(shape.points[finite], _POINTS)]
        seen = np.nan_to_num(shape.points[rows]) @ rotation(up, turn)
        low, high = (end(seen[np.isin(rows, finite)], axis=0) for end in (np.min, np.max))
        size = float((high - low)[:2].max()) or 1.0
        aspect = float((high - low)[0] / max((high - low)[1], 1e-9 * size))
        return cls((seen - (low + high) / 2) / size, rows, faces if meshed else faces[:0], aspect)


def _draw_panel(
    figure: Any, axes: Any, panel: Panel, seen: _Seen, inches: tuple[float, float]
) -> None:
    wide, size = inches
    lines = textwrap.wrap(panel.title, max(16, int(14 * wide)))
    axes.set_title("\n".join(lines), fontsize=9, parse_math=False)
    axes.set_aspect("equal")
    half = 0.52
    axes.set_xlim(-half * min(seen.aspect, 1), half * min(seen.aspect, 1))
    axes.set_ylim(-half * min(1 / seen.aspect, 1), half * min(1 / seen.aspect, 1))
    colours = panel.colours[seen.rows]
    edges = np.array([axes.get_xlim(), axes.get_ylim()])
    raster = Raster(edges[:, 0], edges[:, 1], round(size * _DPI))
    if len(seen.faces):
        shade = _shade(_vertex_normals(seen))
        raster.triangles(seen.points, colours * shade[:, None], seen.faces)
    else:
        shade = _shade(normals(seen.points)) if len(seen.points) > 3 else np.ones(len(colours))
        raster.dots(seen.points, colours * shade[:, None], _radius(seen.points))
    axes.imshow(raster.image(), extent=edges.ravel(), origin="lower")
    if panel.marked is not None and len(panel.marked):
        place = np.full(len(panel.shape.points), -1)
        place[seen.rows] = np.arange(len(seen.rows))
        kept = panel.marked[place[panel.marked] >= 0]
        kept = kept[np.argsort(seen.points[place[kept], 2], kind="stable")]
        x, y, _ = seen.points[place[kept]].T
        axes.scatter(x, y, s=4 * size, c=panel.colours[kept], lw=0, rasterized=True)
    if panel.scale is not None:
        _draw_bar(figure, axes, panel.scale)


def _vertex_normals(seen: _Seen) -> Float[np.ndarray, "n 3"]:
    corners = seen.points[seen.faces]
    crossed = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    facing = np.zeros_like(seen.points)
    for corner in range(3):
        np.add.at(facing, seen.faces[:, corner], crossed)
    return facing / np.maximum(np.linalg.norm(facing, axis=1, keepdims=True), 1e-300)


def _radius(points: Float[np.ndarray, "n 3"]) -> float:
    """Of dots whose areas sum to so many times that of the outline, which they then fill."""
    outline = len(np.unique(np.floor(points[:, :2] * _GRID), axis=0)) / _GRID**2
    return float(np.sqrt(_COVER * outline / (np.pi * len(points))))


def _shade(facing: Float[np.ndarray, "n 3"]) -> Float[np.ndarray, " n"]:
    """Brightness by how a surface, of either side, faces the light and the camera."""
    towards = np.where(facing[:, 2:] < 0, -facing, facing)
    light = _LIGHT / np.linalg.norm(_LIGHT)
    return 0.55 + 0.5 * np.clip(towards @ light, 0, 1)


def _draw_bar(figure: Any, axes: Any, scale: Colouring) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap, Normalize

    colours = LinearSegmentedColormap.from_list("ramp", scale.ramp / 255)
    ends = Normalize(scale.low, scale.high)
    figure.colorbar(
        ScalarMappable(ends, colours), ax=axes, location="bottom", shrink=0.7, label=scale.label
    )


def _figure() -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError('pictures need matplotlib: pip install "coembed[view]"') from error
    return Figure(layout="constrained")
