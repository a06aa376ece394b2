"""A correspondence to look at: a page for a browser, or a picture for paper.

Takes two shapes and a map, writes a file; pictures need matplotlib (``coembed[view]``).
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from coembed import files
from coembed.colourings import NONE, Colouring, colouring, colourings
from coembed.errors import InputError
from coembed.evaluation import GeodesicErrors
from coembed.pages import SHOWN, viewer_page
from coembed.pictures import Panel, draw
from coembed.shapes import Correspondence, Shape

__all__ = ["panels_of", "view"]


def view(
    source: Shape,
    target: Shape,
    matches: Correspondence,
    out: Path | str,
    *,
    errors: GeodesicErrors | None = None,
    by: str = "position",
    up: str = "y",
    shown: int = SHOWN,
    force: bool = False,
) -> None:
    """Write a map as a page (``.html``) or a picture (``.png``, ``.svg``).

    A page opens in any browser from disk, without a network. It shows both shapes, coloured by
    position, error, trust or any attribute; pointing at a point shows its partner. A picture shows
    the source and the target in the colours of one of these. What only one shape has is carried to
    the other by the map; points that get nothing are grey.

    Parameters
    ----------
    errors
        Adds colours by error; to a picture, a third panel.
    by
        What a picture, and at first a page, is coloured by: ``"position"``, ``"trust"``, or the
        name of an attribute (``"colours"`` for red, green and blue).
    up
        Axis that points up: ``"x"``, ``"y"`` or ``"z"``.
    shown
        Points of the source that a page holds at most; further ones are thinned for the eye only.

    Raises
    ------
    MissingExtraError
        For a picture, without matplotlib.
    InputError
        If the map is not one between these two shapes, or the file has another ending.
    """
    out = Path(out)
    files.check_writable(out, force=force)
    if out.suffix.lower() not in (".html", ".png", ".svg"):
        raise InputError(f"{out}: maps are drawn as .html, .png or .svg")
    if up not in ("x", "y", "z"):
        raise InputError(f"up must be x, y or z; got {up!r}")
    if shown < 1:
        raise InputError(f"shown must be 1 or more; got {shown}")
    found = colourings(source, target, matches, errors)
    first = colouring(found, by)
    if out.suffix.lower() != ".html":
        draw([panels_of(source, target, found, first, errors)], out, up=up, force=force)
        return
    found = [first, *(one for one in found if one is not first)]
    notes = [] if errors is None else [f"mean error x 100: {100 * errors.mean:.2f}"]
    page = viewer_page(source, target, matches, found, shown=shown, up=up, notes=notes)
    files.write_bytes(out, page, force=force)


def panels_of(
    source: Shape,
    target: Shape,
    found: Sequence[Colouring],
    one: Colouring,
    errors: GeodesicErrors | None = None,
) -> list[Panel]:
    """Source and target in the colours of one colouring; with errors, the source with these."""
    panels = [
        Panel.of("source", source, one, 0),
        Panel.of("target, colours carried over", target, one, 1),
    ]
    if one.kind == "number":
        panels = [replace(panel, scale=one, title=panel.title.split(",")[0]) for panel in panels]
    if errors is not None:
        scale = colouring(found, "error x 100")
        title = f"error at {len(errors.rows)} points, mean {100 * errors.mean:.2f} % of √area"
        last = Panel.of(title, source, scale, 0)
        rest = np.ones(len(source.points), dtype=bool)
        rest[errors.rows] = False
        last.colours[rest] = 0.5 * (1 + NONE)
        panels.append(replace(last, marked=errors.rows, scale=scale))
    return panels
