"""Results as pages to read: one match, or the worst pairs of a benchmark.

Takes shapes, maps and records, gives HTML that holds its pictures and asks the network for
nothing; needs matplotlib (``coembed[view]``).
"""

import base64
import html
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from coembed import files, health
from coembed.annotations import Float
from coembed.benchmark import Judged, Table
from coembed.colourings import colouring, colourings
from coembed.errors import InputError
from coembed.pictures import Panel, check_drawable, picture
from coembed.shapes import Correspondence, Embedding, Shape
from coembed.viewing import panels_of

__all__ = ["check_report", "neighbour_distances", "report_bench", "report_match", "shape_of"]

_ASKED = 5_000  # points whose neighbours are followed
_BINS = 40
_SHOWN = ("notes", "alignment", "verdict", "warnings", "health")  # of a record, in words

_STYLE = """
:root { color-scheme: light dark; --line: #8886; --bar: #3b6fb6; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1100px; margin: 0 auto; padding: 16px; }
h1 { font-size: 22px; overflow-wrap: anywhere; } h2 { font-size: 17px; margin: 28px 0 8px; }
img { max-width: 100%; background: #fff; border-radius: 4px; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
td, th { text-align: left; padding: 2px 16px 2px 0; border-bottom: 1px solid var(--line);
  vertical-align: top; overflow-wrap: anywhere; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: 12px; }
figure { margin: 0 0 16px; }
svg { max-width: 100%; } svg text { fill: currentColor; font-size: 12px; }
rect { fill: var(--bar); } .axis { stroke: currentColor; stroke-width: 1; }
"""


def check_report(out: Path, *, force: bool = False) -> None:
    """Raise unless a report can be made and written there, before any work is done."""
    files.check_writable(out, force=force)
    if out.suffix.lower() != ".html":
        raise InputError(f"{out}: reports are written as .html")
    check_drawable()


def report_match(
    source: Shape | Embedding, target: Shape | Embedding, matches: Correspondence
) -> bytes:
    """A page on one match: pictures, trust, distances, what is odd, and the run record.

    Raises
    ------
    MissingExtraError
        Without matplotlib.
    """
    one, other = shape_of(source), shape_of(target)
    found = colourings(one, other, matches)
    rows = [panels_of(one, other, found, colouring(found, "position"))]
    if any(each.label == "trust" for each in found):
        rows.append(panels_of(one, other, found, colouring(found, "trust")))
    answered = matches.p2p >= 0
    apart = neighbour_distances(one, other, matches)
    facts: dict[str, Any] = {
        "source": f"{one.name}, {len(one.points)} points",
        "target": f"{other.name}, {len(other.points)} points",
        "rows without a match": int((~answered).sum()),
        "target rows that are a match": len(np.unique(matches.p2p[answered])),
        "mean trust": float(matches.score[answered].mean()) if answered.any() else "none",
        "seconds": matches.record.get("seconds", {}).get("total", "unknown"),
    }
    trust = _histogram(matches.score[answered], (0.0, 1.0), "trust", "matches")
    label = "distance between the matches of neighbours, in distances of neighbours"
    distances = _histogram(apart, (0.0, 12.0), label, "points")
    far = (
        "none"
        if not len(apart)
        else f"median {np.median(apart):.2f}, 95 % below "
        + (f"{np.quantile(apart, 0.95):.2f}; {100 * float((apart > 10).mean()):.1f} % above 10")
    )
    parts = [
        _image(rows, f"{one.name} to {other.name}"),
        _section("What came out", _table(facts)),
        _section("Trust", trust),
        _section("Do neighbours stay together?", distances + f"<p>{html.escape(far)}.</p>"),
        _section("What was odd", _list(_remarks(matches.record))),
        _section("The shapes", _healths([s for s in (source, target) if isinstance(s, Shape)])),
        _section("Run record", f"<pre>{html.escape(json.dumps(matches.record, indent=1))}</pre>"),
    ]
    return _page(f"{one.name} to {other.name}", parts)


def report_bench(facts: Mapping[str, Any], table: Table, worst: Sequence[Judged]) -> bytes:
    """A page on a benchmark: its numbers, how the pairs spread, and pictures of the worst."""
    means = 100 * table.means[table.pairs[:, 0] != table.pairs[:, 1]]
    top = float(max(means.max(initial=0), 1.0))
    parts = [
        _section("Numbers", _table(facts)),
        _section("Pairs", _histogram(means, (0.0, top), "mean error x 100 of a pair", "pairs")),
    ]
    for one in worst:
        found = colourings(one.source, one.target, one.matches, one.errors)
        row = panels_of(
            one.source, one.target, found, colouring(found, "position"), one.errors
        )  # fmt: skip
        names = [Path(shape.name).stem for shape in (one.source, one.target)]
        title = f"{names[0]} to {names[1]}: {100 * one.errors.mean:.2f}"
        parts.append(_section(title, _image([row], title)))
    return _page(f"Benchmark of {Path(str(facts.get('folder', ''))).name}", parts)


def neighbour_distances(
    source: Shape, target: Shape, matches: Correspondence
) -> Float[np.ndarray, " q"]:
    """How far the matches of neighbouring source points are from each other.

    For up to 5,000 matched points: the distance between the match of the point and that of its
    nearest matched neighbour, divided by how far the two are apart, both in units of the sizes of
    the matched parts (the diagonals of their boxes). A map that keeps lengths has 1 throughout.
    """
    rows = np.flatnonzero(matches.p2p >= 0)
    here, there = source.points[rows], target.points[matches.p2p[rows]]
    sound = np.isfinite(here).all(axis=1) & np.isfinite(there).all(axis=1)
    here, there = here[sound], there[sound]
    _, first = np.unique(here, axis=0, return_index=True)
    here, there = here[np.sort(first)], there[np.sort(first)]
    if len(here) < 2:
        return np.empty(0)
    asked = np.linspace(0, len(here) - 1, min(_ASKED, len(here))).astype(np.int64)
    distance, near = scipy.spatial.cKDTree(here).query(here[asked], k=2)
    apart = np.linalg.norm(there[near[:, 1]] - there[asked], axis=1)
    sizes = [max(float(np.linalg.norm(np.ptp(side, axis=0))), 1e-300) for side in (here, there)]
    return (apart / sizes[1]) / (distance[:, 1] / sizes[0])


def shape_of(one: Shape | Embedding) -> Shape:
    """The shape, or the points that an embedding holds of it."""
    if isinstance(one, Shape):
        return one
    points = one.points[one.rows] / one.scale + one.centre
    points[one.rows < 0] = np.nan
    return Shape(points, name=one.name)


# ------------------------------------------------------------------------------------- HTML


def _page(title: str, parts: Iterable[str]) -> bytes:
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    head = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
    )
    body = "\n".join([f"<h1>{html.escape(title)}</h1>", *parts])
    return f"{head}{body}\n</body>\n</html>\n".encode()


def _section(title: str, content: str) -> str:
    return f"<h2>{html.escape(title)}</h2>\n{content}" if content else ""


def _table(facts: Mapping[str, Any]) -> str:
    cells = [
        (html.escape(name.replace("_", " ")), html.escape(_words(value)))
        for name, value in facts.items()
    ]
    rows = "".join(f"<tr><th>{name}</th><td>{value}</td></tr>" for name, value in cells)
    return f"<table>{rows}</table>"


def _list(sentences: Sequence[str]) -> str:
    items = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in sentences)
    return f"<ul>{items}</ul>" if items else "<p>Nothing.</p>"


def _words(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name.replace('_', ' ')} {_words(part)}" for name, part in value.items())
    if isinstance(value, list | tuple):
        return "; ".join(_words(part) for part in value)
    return str(value)


def _image(rows: Sequence[Sequence[Panel]], words: str) -> str:
    content = base64.b64encode(picture(rows)).decode()
    source = f"data:image/png;base64,{content}"
    return f'<figure><img alt="{html.escape(words)}" src="{source}"></figure>'


def _histogram(
    values: Float[np.ndarray, " n"], ends: tuple[float, float], label: str, what: str
) -> str:
    """Bars of how many values lie where; the last one has all that are larger."""
    if not len(values):
        return "<p>There is nothing to count.</p>"
    counts, _ = np.histogram(np.clip(values, *ends), _BINS, ends)
    width, height = 720, 160
    bar = width / _BINS
    bars = [
        f'<rect x="{i * bar + 1:.1f}" y="{height * (1 - count / counts.max()):.1f}" '
        f'width="{bar - 1:.1f}" height="{height * count / counts.max():.1f}"/>'
        for i, count in enumerate(counts.tolist())
    ]
    ticks = [
        f'<text x="{width * i / 4:.0f}" y="{height + 16}" text-anchor="{anchor}">'
        f"{ends[0] + (ends[1] - ends[0]) * i / 4:.3g}</text>"
        for i, anchor in enumerate(("start", "middle", "middle", "middle", "end"))
    ]
    axis = f'<line class="axis" x1="0" y1="{height}" x2="{width}" y2="{height}"/>'
    name = (
        f'<text x="{width / 2}" y="{height + 34}" text-anchor="middle">{html.escape(label)} '
        f"(highest bar: {counts.max()} of {len(values)} {what})</text>"
    )
    box = f'<svg viewBox="0 0 {width} {height + 40}" width="{width}" role="img">'
    return f"{box}{''.join(bars)}{axis}{''.join(ticks)}{name}</svg>"


def _remarks(record: Mapping[str, Any]) -> list[str]:
    """What a record says in words: changes of both shapes, notes, alignment, verdict."""
    found = []
    for side in ("source", "target"):
        facts = record.get(side, {})
        found += [f"{facts['name']}: {change}" for change in facts.get("changes", ())]
    for name in _SHOWN:
        told = record.get(name)
        if isinstance(told, list | tuple):
            found += [_words(part) for part in told]
        elif told not in (None, ""):
            found.append(f"{name}: {_words(told)}")
    return found


def _healths(shapes: Sequence[Shape]) -> str:
    return "".join(
        f"<h3>{html.escape(shape.name)}</h3>"
        + _table({k: v for k, v in asdict(health.examine(shape)).items() if v not in ("", ())})
        for shape in shapes
    )
