"""Pictures of correspondences.

Takes two shapes and a map, writes a PNG; needs matplotlib (``coembed[view]``).
"""

import io
from pathlib import Path

import numpy as np

from coembed import files
from coembed.annotations import Float
from coembed.errors import InputError, MissingExtraError
from coembed.evaluation import GeodesicErrors
from coembed.shapes import Correspondence, Shape

__all__ = ["view"]

_LIGHT = np.array([-0.4, 0.6, 0.7])
_UNREACHED = 0.93  # grey of target points that no source point is matched to
_FULL_ERROR = 0.2  # in sqrt(area): the end of the error colours


def view(
    source: Shape,
    target: Shape,
    matches: Correspondence,
    out: Path | str,
    *,
    errors: GeodesicErrors | None = None,
    force: bool = False,
) -> None:
    """Write a PNG: the source coloured by position, and the colours carried to the target.

    Shapes are seen from the front (down the z axis, y up). Target points that no source point
    is matched to stay light grey. With ``errors`` a third panel shows the error of each judged
    source point.

    Raises
    ------
    MissingExtraError
        Without matplotlib.
    InputError
        If the map is not one between these two shapes.
    """
    out = Path(out)
    files.check_writable(out, force=force)
    if out.suffix.lower() != ".png":
        raise InputError(f"{out}: pictures are written as .png")
    matches.check_between(source, target)
    try:
        from matplotlib import colormaps
        from matplotlib.cm import ScalarMappable
        from matplotlib.colors import Normalize
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError('pictures need matplotlib: pip install "coembed[view]"') from error
    colours = _position_colours(source.points)
    panels = [("source", source.points, colours)]
    panels.append(("target, colours carried over", target.points, _carried(colours, matches)))
    figure = Figure(figsize=(5 * (len(panels) + (errors is not None)), 6.4), layout="constrained")
    if errors is not None:
        shown = colormaps["inferno_r"](np.clip(errors.errors / _FULL_ERROR, 0, 1) * 0.9 + 0.05)
        title = f"error at {len(errors.rows)} points, mean {100 * errors.mean:.2f} % of √area"
        panels.append((title, source.points, np.full((len(source.points), 3), _UNREACHED)))
    for place, (title, points, colour) in enumerate(panels, start=1):
        axes = figure.add_subplot(1, len(panels), place)
        axes.set_title(title, fontsize=11)
        axes.set_aspect("equal")
        axes.axis("off")
        order = np.argsort(points[:, 2])
        shade = _shading(points)[order, None]
        size = 45000 / len(points)
        axes.scatter(points[order, 0], points[order, 1], s=size, c=colour[order] * shade, lw=0)
        if errors is not None and place == len(panels):
            judged = points[errors.rows]
            front = np.argsort(judged[:, 2])
            axes.scatter(judged[front, 0], judged[front, 1], s=22, c=shown[front], lw=0)
            scale = ScalarMappable(Normalize(0, 100 * _FULL_ERROR), "inferno_r")
            figure.colorbar(scale, ax=axes, location="bottom", shrink=0.7, label="error x 100")
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=110)
    files.write_bytes(out, stream.getvalue(), force=force)


def _position_colours(points: Float[np.ndarray, "n 3"]) -> Float[np.ndarray, "n 3"]:
    low, high = points.min(axis=0), points.max(axis=0)
    return 0.15 + 0.8 * (points - low) / np.maximum(high - low, 1e-12)


def _carried(
    colours: Float[np.ndarray, "n 3"], matches: Correspondence
) -> Float[np.ndarray, "m 3"]:
    """Mean colour of the source points that end at each target point."""
    answered = matches.p2p >= 0
    ends = matches.p2p[answered]
    count = np.bincount(ends, minlength=matches.n_target)
    carried = (
        np.stack(
            [
                np.bincount(ends, colours[answered, channel], matches.n_target)
                for channel in range(3)
            ],
            axis=1,
        )
        / np.maximum(count, 1)[:, None]
    )
    carried[count == 0] = _UNREACHED
    return carried


def _shading(points: Float[np.ndarray, "n 3"]) -> Float[np.ndarray, " n"]:
    """Brightness by how a point's surroundings face the light; normals point to the viewer."""
    from scipy.spatial import cKDTree

    _, near = cKDTree(points).query(points, k=min(16, len(points)))
    offsets = points[near] - points[:, None]
    _, vectors = np.linalg.eigh(offsets.transpose(0, 2, 1) @ offsets)
    normals = vectors[:, :, 0]
    normals = np.where(normals[:, 2:] < 0, -normals, normals)
    return 0.7 + 0.3 * np.clip(normals @ (_LIGHT / np.linalg.norm(_LIGHT)), 0, 1)
