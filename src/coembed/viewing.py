"""A correspondence to look at: a page for a browser, or a picture for paper.

Takes two shapes and a map, writes a file; pictures need matplotlib (``coembed[view]``).
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from coembed import files, geometry
from coembed.annotations import Float
from coembed.colourings import NONE, Colouring, colouring, colourings, number
from coembed.errors import InputError
from coembed.evaluation import GeodesicErrors
from coembed.pages import SHOWN, viewer_page
from coembed.pictures import Panel, draw
from coembed.shapes import Correspondence, Embedding, Shape

__all__ = ["draw_bases", "panels_of", "view"]


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


def draw_bases(
    shapes: Sequence[Shape],
    embeddings: Sequence[Embedding],
    out: Path | str,
    *,
    n: int = 10,
    cache: Path | None = None,
    up: str = "y",
    force: bool = False,
) -> None:
    """Write a picture of eigenfunctions and of embeddings, a row for each shape.

    The upper rows show the first ``n`` eigenfunctions of the Laplacian of each shape, which differ
    in sign and, where eigenvalues are close, in order from shape to shape; the lower rows the
    ``n`` directions in which the embeddings of all shapes spread most, which do not. Each column of
    the lower rows is one linear function of the embedding, the same for all shapes.

    Raises
    ------
    InputError
        If n is less than 1 or more than there are.

    References
    ----------
    [Zeng25] fig. 2 and supplement.
    """
    values = [np.asarray(one, dtype=np.float64) for one in embeddings]
    most = min(values[0].shape[1], 64)
    if not 1 <= n <= most:
        raise InputError(f"functions to draw must be 1 to {most}; got {n}")
    if embeddings[0].similarity == "cosine":
        values = [v / np.maximum(np.linalg.norm(v, axis=1, keepdims=True), 1e-12) for v in values]
    known = np.concatenate([v[np.isfinite(v).all(axis=1)] for v in values])
    middle = known.mean(axis=0)
    directions = np.linalg.eigh((known - middle).T @ (known - middle))[1][:, ::-1][:, :n]
    directions *= np.sign(directions[np.abs(directions).argmax(axis=0), np.arange(n)])
    rows = []
    for shape in shapes:
        operators = geometry.prepare(shape, n_eig=n, cache=cache)
        evecs = np.where(operators.rows[:, None] < 0, np.nan, operators.evecs[operators.rows])
        rows.append(_functions(shape, evecs, "eigenfunction"))
    for shape, one in zip(shapes, values, strict=True):
        rows.append(_functions(shape, (one - middle) @ directions, "embedding"))
    draw(rows, Path(out), up=up, force=force)


def _functions(shape: Shape, values: Float[np.ndarray, "n k"], what: str) -> list[Panel]:
    return [
        Panel.of(f"{what} {i + 1}", shape, number("", (column, column), signed=True), 0)
        for i, column in enumerate(values.T)
    ]
