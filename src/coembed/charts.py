"""Curves of results, as PNG and SVG that can be printed.

Takes errors or numbers, writes pictures; needs matplotlib (``coembed[view]``).
"""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from coembed import files
from coembed.annotations import Float
from coembed.errors import InputError, MissingExtraError

__all__ = ["check_drawable", "draw_curves", "draw_lines"]

_DASHES = ("-", "--", "-.", ":")  # told apart without colours too
_MARKS = "osD^vPX"


def draw_curves(
    errors: Mapping[str, Float[np.ndarray, " s"]], out: Path, *, limit: float = 0.25,
    force: bool = False,
) -> tuple[Path, Path]:  # fmt: skip
    """Share of samples within each geodesic error, one curve a name.

    Parameters
    ----------
    errors
        Fractions of sqrt(target area).
    out
        Path without ending: OUT.png and OUT.svg are written.

    Returns
    -------
    The two files.
    """
    figure, axes = _axes("geodesic error / √area", "correspondences within it, %")
    radii = np.linspace(0, limit, 251)
    for i, (name, values) in enumerate(errors.items()):
        values = np.sort(values[np.isfinite(values)])
        if not len(values):
            raise InputError(f"{name}: there are no errors to draw")
        share = 100 * np.searchsorted(values, radii, "right") / len(values)
        axes.plot(radii, share, _DASHES[i % 4], label=_label(f"{name} ({100 * values.mean():.2f})"))
    axes.set_xlim(0, limit)
    axes.set_ylim(0, 100)
    axes.legend(title="mean error × 100", loc="lower right", frameon=False)
    return _write(figure, out, force)


def draw_lines(
    lines: Mapping[str, tuple[Sequence[float | int], Sequence[float | int]]],
    out: Path,
    *,
    labels: tuple[str, str],
    logarithmic: bool = False,
    force: bool = False,
) -> tuple[Path, Path]:
    """Numbers over numbers, one line with marks a name: error over noise, time over points."""
    figure, axes = _axes(*labels)
    for i, (name, (x, y)) in enumerate(lines.items()):
        axes.plot(x, y, _DASHES[i % 4] + _MARKS[i % 7], label=_label(name), markersize=4)
    if logarithmic:
        axes.set_xscale("log")
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    return _write(figure, out, force)


def _label(name: str) -> str:
    """The name as it is: no mathematics, and not left out for an underscore in front."""
    name = name.replace("$", r"\$")
    return f" {name}" if name.startswith("_") else name


def check_drawable() -> None:
    """Raise `MissingExtraError` where nothing can be drawn."""
    _figure()


def _figure() -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError('charts need matplotlib: pip install "coembed[view]"') from error
    return Figure(figsize=(5.2, 3.6), layout="constrained")


def _axes(across: str, up: str) -> tuple[Any, Any]:
    figure = _figure()
    axes = figure.add_subplot()
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.grid(alpha=0.3)
    return figure, axes


def _write(figure: Any, out: Path, force: bool) -> tuple[Path, Path]:
    from matplotlib import rc_context

    paths = (out.with_name(out.name + ".png"), out.with_name(out.name + ".svg"))
    for path in paths:
        files.check_writable(path, force=force)
    # the same numbers give the same bytes: no date, no random names
    with rc_context({"svg.hashsalt": "coembed", "svg.fonttype": "none"}):
        for path in paths:
            stream = io.BytesIO()
            metadata = {"Date": None} if path.suffix == ".svg" else None
            figure.savefig(stream, format=path.suffix[1:], dpi=200, metadata=metadata)
            files.write_bytes(path, stream.getvalue(), force=force)
    return paths
