"""One command per verb: parse, call one library function, report.

Results go to stdout, progress and warnings to stderr. Exit code 0: done; 1: the work failed;
2: wrong use.
"""

import json
import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

import coembed
from coembed import memory
from coembed.errors import CoembedError, InputError

__all__ = ["commands", "main"]


def _points(text: str) -> int | None:
    """A number of points, such as 5000 or 20k, or full for all: None."""
    if text.lower() == "full":
        return None
    return _multiple(text, {"k": 10**3, "m": 10**6}, "a number such as 5000 or 20k, or full")


def _memory(text: str) -> int:
    """An amount of memory, such as 2GB or 800MB, in bytes."""
    return _multiple(text, {"gb": 10**9, "mb": 10**6}, "an amount such as 2GB or 800MB")


def _multiple(text: str, units: Mapping[str, int], expected: str) -> int:
    small = text.lower()
    try:
        for unit, factor in units.items():
            if small.endswith(unit):
                return round(float(small.removesuffix(unit)) * factor)
        return int(small)
    except ValueError as error:
        raise click.BadParameter(f"expected {expected}; got {text!r}") from error


PATH = click.Path(path_type=Path)
EXTRAS = {
    "train": ("torch", "tensorboardX"),
    "view": ("matplotlib",),
    "bench": ("pyFM", "pymanopt"),
    "segment": ("sklearn",),
    "las": ("laspy", "lazrs"),
    "mat": ("h5py",),
}
FRAMES = 20  # steps of a morph
WORST = 6  # pairs of a benchmark that its report shows
LONG = 8  # seconds that a match may take without saying so
COUNT = click.IntRange(min=1)
NATURAL = click.IntRange(min=0)
FORCE = click.option("--force", is_flag=True, help="Overwrite what is there.")
JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
WEIGHTS = click.option(
    "--weights", default="human", show_default=True, help="A .safetensors file, or 'human'."
)
WEIGHTS_BY_PART = click.option(
    "--weights", help="A .safetensors file, 'human' (default), or 'human-parts' (with --partial)."
)
PARTIAL = click.option(
    "--partial", is_flag=True,
    help="Shapes may be parts of people; target parts leave rows without an answer.",
)  # fmt: skip
REFINE = click.option(
    "--refine",
    type=click.Choice(["none", "register", "spectral"]),
    default="none",
    show_default=True,
    help="register: lay the shapes on each other first; sharper maps "
    "for a second more. spectral: ZoomOut.",
)
CACHE = click.option("--cache", type=PATH, help="Folder where operators are kept for later.")
POINTS = click.option(
    "--points", type=_points, metavar="5k|20k|full|N", default="20k", show_default=True,
    help="Points that the network looks at; the others are interpolated. full: all.",
)  # fmt: skip
INCOMPLETE = click.option(
    "--incomplete",
    is_flag=True,
    help="Use the whole rows of files that are cut off, which are refused otherwise.",
)
BASES = click.Choice(["auto", "0", "1"])
MAP_BASE = click.option(
    "--base", type=BASES, default="auto", show_default=True,
    help="What the map calls the first row; auto: 0, or 1 if it names the last row by that count.",
)  # fmt: skip
TRUTH_BASE = click.option(
    "--truth-base", type=BASES, default="auto", show_default=True,
    help="What the truth calls the first row; auto: as for maps, but 1 in two .vts files.",
)  # fmt: skip
TRUTH_FROM = click.option(
    "--truth-from", type=click.Choice(["source", "target"]), default="source", show_default=True,
    help="Whose rows the lines of the truth stand for; of two numbers a line, the first.",
)  # fmt: skip
TRUTH = "A map, two rows a line, or the source's .vts."
ALIGN = click.option(
    "--align", default="auto", show_default=True, metavar="WAY",
    help="How to turn shapes for the network: auto, yaw, target, none, the axis that is up (x, -x, "
    "... -z), or nine numbers of a rotation. Two, as in none:z, are for SOURCE:TARGET.",
)  # fmt: skip
ALIGN_EACH = click.option(
    "--align", default="auto", show_default=True, metavar="WAY",
    help="How to turn every shape for the network: auto, yaw, none, the axis that is up (x, -x, "
    "... -z), or nine numbers of a rotation.",
)  # fmt: skip
ADAPT = click.option(
    "--adapt", default=0.0, metavar="SECONDS",
    help="First train the last layer on the pair; kept if the shapes then agree better.",
)  # fmt: skip
ANYWAY = click.option("--anyway", is_flag=True, help="Write also maps whose verdict is refused.")
COUPLED = click.option(
    "--coupled", is_flag=True, help="Refine each pair by cross-attention, as in the paper."
)


def _default_jobs() -> int:
    return 2 if sys.platform == "linux" and (os.cpu_count() or 1) > 1 else 1


def main() -> None:
    """Run the command line; print one line, not a traceback, for what users can mend."""
    # one thread a process: the same bytes whatever the machine, and forks are safe; it must be
    # set before NumPy is imported
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    memory.keep_freed()
    logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.WARNING)
    debug = "--debug" in sys.argv
    try:
        commands(args=[word for word in sys.argv[1:] if word != "--debug"], prog_name="coembed")
    except CoembedError as error:
        if debug:
            raise
        click.echo(f"coembed: {error}", err=True)
        sys.exit(1)
    except OSError as error:
        if debug:
            raise
        click.echo(f"coembed: {error.filename or ''}: {error.strerror or error}", err=True)
        sys.exit(1)


@click.group(context_settings={"max_content_width": 100})
@click.version_option(coembed.__version__)
def commands() -> None:
    """Two point clouds in, a dense map out.

    Add --debug to any command to see the traceback of an error.
    """


@commands.command()
@click.argument("source", type=PATH)
@click.argument("target", type=PATH)
@click.option("--out", type=PATH, required=True, help="Map to write: .txt or .npz.")
@WEIGHTS_BY_PART
@ALIGN
@PARTIAL
@click.option(
    "--scale",
    type=float,
    help="With --partial: a unit of the source in units of the target; else found.",
)
@click.option("--both", is_flag=True,
              help="Write OUT-other too: with the source turned the next best way.")  # fmt: skip
@COUPLED
@REFINE
@ANYWAY
@ADAPT
@click.option(
    "--deformed",
    type=PATH,
    help="Write the source as it lies on the target, with --refine register.",
)
@click.option(
    "--morph",
    type=PATH,
    help="Folder for 21 shapes on the way there, 00.ply to 20.ply, with --refine register.",
)
@click.option("--report", type=PATH, help="Page on the match to write: .html.")
@POINTS
@click.option("--max-memory", type=_memory, metavar="2GB",
              help="Refuse before any work what would need more.")  # fmt: skip
@CACHE
@click.option(
    "--jobs",
    type=click.IntRange(1, 2),
    default=_default_jobs,
    help="Processes: 2 prepares both shapes at once. Default: 2 on Linux if there are cores.",
)
@INCOMPLETE
@FORCE
@JSON
def match(
    source: Path, target: Path, out: Path, weights: str | None, align: str, partial: bool,
    scale: float | None, both: bool, coupled: bool,
    refine: str, anyway: bool, adapt: float, deformed: Path | None, morph: Path | None,
    report: Path | None, points: int | None, max_memory: int | None, cache: Path | None, jobs: int,
    incomplete: bool, force: bool, as_json: bool,
) -> None:  # fmt: skip
    """Find the target point of every source point.

    SOURCE and TARGET are shapes, or .npz files written by `coembed embed`. What stands behind a #
    chooses a part of a file: scene.glb#Hand,Arm nodes, scan.csv#4,5,6 or scan.csv#east,north,up
    columns, a.npz#scan an array. The map has one line per source point: the row of its target
    point, counted from 0, or -1. A run record is written beside it as OUT.json. A map whose verdict
    is refused is not written, and the exit code then is 1; --anyway writes it.

    Example: coembed match cat.ply lion.ply --out cat-lion.txt
    """
    from coembed import files, matching, model

    moved = _outputs_of_match(out, refine, deformed, morph, force)
    second = _other_output(out, force) if both else None
    _check_report(report, force)
    weights = _weights(weights, partial)
    loaded = model.load(weights)
    started = time.perf_counter()
    one, other = (_shape_or_embedding(path, incomplete) for path in (source, target))
    seconds = time.perf_counter() - started
    cost = matching.estimate(
        one, other, points=points, jobs=jobs, max_memory=max_memory or float("inf")
    )
    with _bar_of_match(cost) as stage:
        settings: dict[str, Any] = {
            "coupled": coupled, "refine": refine, "adapt": adapt, "points": points,
            "cache": cache, "jobs": jobs, "partial": partial, "scale": scale,
        }  # fmt: skip
        matches = matching.match(loaded, one, other, align=_ways(align), report=stage, **settings)
        if not anyway:
            _check_verdict(matches)
        if second is not None:
            again = matching.match_otherwise(loaded, one, other, matches, **settings)
            files.write_run(second, again, again.record, force=force)
            click.echo(_compared(matches, again, second), err=True)
    matches.record["seconds"] = {"read": round(seconds, 3), **matches.record["seconds"]}
    kept = {name: value for name, value in settings.items() if name not in ("cache", "jobs")}
    matches.record["run"] = {
        "source": str(source), "source_sha256": files.digest_of(source),
        "target": str(target), "target_sha256": files.digest_of(target),
        "weights": weights, "align": align, "incomplete": incomplete, **kept,
    }  # fmt: skip
    faces = one.faces if isinstance(one, coembed.Shape) else None
    record_path = _write_match(matches, out, moved, faces, force)
    if report is not None:
        from coembed import reports

        files.write_bytes(report, reports.report_match(one, other, matches), force=force)
    facts = _facts_of_match(matches) | {"map": str(out), "record": str(record_path)}
    _print(facts | ({} if report is None else {"report": str(report)}), as_json)


def _weights(given: str | None, partial: bool) -> str:
    return given or ("human-parts" if partial else "human")


def _check_verdict(matches: Any) -> None:
    from coembed import trust

    why = trust.refusal(matches.record)
    if why:
        raise CoembedError(f"{why}; nothing is written (--anyway writes the map all the same)")


def _facts_of_match(matches: Any) -> dict[str, Any]:
    facts = {
        "source_points": len(matches.p2p),
        "target_points": matches.n_target,
        "unanswered": int((matches.p2p < 0).sum()),
        "mean_score": round(float(matches.score.mean()), 4),
        "verdict": matches.record["verdict"]["word"],
    }
    other = matches.record["other_answer"]
    if other is not None:
        told = _against(other["mean_score"], other["first"])
        facts["other_answer"] = f"{told}; --both writes it"
    return facts | {"seconds": matches.record["seconds"]}


def _other_output(out: Path, force: bool) -> Path:
    from coembed import files

    second = out.with_stem(f"{out.stem}-other")
    for path in (second, files.record_path(second)):
        files.check_writable(path, force=force)
    return second


def _compared(matches: Any, again: Any, second: Path) -> str:
    """How good the other answer is, by the mean scores of both."""
    first, other = (float(one.score.mean()) for one in (matches, again))
    return f"the other answer, {second}, is {_against(other, first)}"


def _against(other: float, first: float) -> str:
    """How good an answer of one mean score is against that of another."""
    from coembed.trust import NEARLY

    nearly = "nearly as good" if other > first - NEARLY else "worse"
    word = "better" if other > first else nearly
    return f"{word}: mean score {other:.3f} against {first:.3f}"


def _ways(align: str) -> Any:
    """One way to turn shapes, or the source's and the target's."""
    ways = tuple(align.split(":"))
    if len(ways) > 2:
        raise click.BadParameter(f"expected WAY or SOURCE:TARGET; got {align!r}")
    return ways if len(ways) == 2 else align


def _way(align: str) -> Any:
    """A way to turn one shape, to which no other is the target."""
    from coembed import alignment

    if align == "target" or ":" in align:
        raise click.BadParameter(
            f"expected one way for every shape, and there is no target here; got {align!r}",
            param_hint="--align",
        )
    return align if align in alignment.SEARCHES else alignment.rotation_of(align)


def _outputs_of_match(
    out: Path, refine: str, deformed: Path | None, morph: Path | None, force: bool
) -> dict[Path, float]:
    """Files of the source on its way, and the share of the way; all outputs can be written."""
    if out.suffix not in (".txt", ".npz"):
        raise click.BadParameter("maps are written as .txt or .npz", param_hint="--out")
    moved = {} if deformed is None else {deformed: 1.0}
    if morph is not None:
        moved |= {morph / f"{step:02}.ply": step / FRAMES for step in range(FRAMES + 1)}
    if moved and refine != "register":
        raise click.UsageError("--deformed and --morph are made by --refine register only")
    from coembed import files

    for path in (out, files.record_path(out), *(path for path in moved if path.exists())):
        files.check_writable(path, force=force)
    return moved


def _write_match(
    matches: Any, out: Path, moved: Mapping[Path, float], faces: Any, force: bool
) -> Path:
    """Write what a match has made, tell what was changed, and say where the record is."""
    from coembed import files, formats

    record_path = files.write_run(out, matches, matches.record, force=force)
    for path, share in moved.items() if matches.registration else ():
        path.parent.mkdir(parents=True, exist_ok=True)
        formats.write(path, coembed.Shape(matches.deformed(share), faces), force=force)
    for side in ("source", "target"):
        for change in matches.record[side]["changes"]:
            click.echo(f"{matches.record[side]['name']}: {change}", err=True)
    for note in (*matches.record["notes"], *matches.record["verdict"]["reasons"]):
        click.echo(note, err=True)
    return record_path


@commands.command()
@click.argument("record", type=PATH)
@click.option("--out", type=PATH, help="Map to write: .txt or .npz.")
@FORCE
@JSON
def rerun(record: Path, out: Path | None, force: bool, as_json: bool) -> None:
    """Repeat the match of a run record and say whether the answer is the same, to the byte.

    Files are looked for where they were, first from the present folder, then from the record's. The
    exit code is 1 if they or the weights have changed, or if the answer differs, or if the map
    beside the record is no longer the one that was written with it.

    Example: coembed rerun cat-lion.txt.json
    """
    from coembed import files, maps, matching, model

    if out is not None:
        files.check_writable(out, force=force)
    stored = files.read_record(record)
    run = stored["run"]
    loaded = model.load(run["weights"])
    if loaded.digest != stored["weights_sha256"]:
        raise InputError(f"{run['weights']}: other weights than those of the record")
    pair = []
    for side in ("source", "target"):
        path = Path(run[side])
        path = path if files.split_choice(path)[0].exists() else record.parent / path
        if files.digest_of(path) != run[f"{side}_sha256"]:
            raise InputError(f"{path}: the file has changed since the record was written")
        pair.append(_shape_or_embedding(path, run.get("incomplete", False)))
    settings = {name: run[name] for name in ("coupled", "refine", "adapt", "points")}
    settings |= {name: run.get(name) for name in ("partial", "scale")}
    matches = matching.match(loaded, pair[0], pair[1], align=_ways(run["align"]), **settings)
    if out is not None:
        files.write_matches(out, matches, force=force)
    same = matches.record["answer_sha256"] == stored["answer_sha256"]
    versions = {name: stored[name] for name in ("coembed", "python", "numpy")}
    beside = record.with_suffix("")
    kept = maps.changed_rows(beside, matches) if beside.is_file() else None
    state = "not there" if kept is None else f"{kept} rows differ" if kept else "the same"
    _print({"same_answer": same, "map_beside": state, "recorded_with": versions}, as_json)
    if not same:
        raise CoembedError(f"{record}: the answer differs from the recorded one")
    if kept:
        raise CoembedError(f"{beside}: {kept} rows are not those that were recorded")


@commands.command()
@click.argument("template", type=PATH)
@click.argument("specimens", type=PATH, nargs=-1, required=True)
@click.option("--out", type=PATH, required=True, help="Folder for maps and summary.")
@WEIGHTS
@ALIGN
@REFINE
@ANYWAY
@POINTS
@CACHE
@click.option("--jobs", default=1, type=COUNT, show_default=True, help="Processes.")
@INCOMPLETE
@FORCE
@JSON
def carry(
    template: Path, specimens: tuple[Path, ...], out: Path, weights: str, align: str, refine: str,
    anyway: bool, points: int | None, cache: Path | None, jobs: int, incomplete: bool, force: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Match one template to many specimens: OUT gets a map for each, and summary.csv and .json.

    Line i of a map is the specimen's row for row i of the template. A specimen that fails, or whose
    map is refused, is listed with the reason and the others go on; the exit code then is 1. A
    second start keeps what is finished.

    Example: coembed carry template.ply specimens/*.ply --out maps --refine register --jobs 2
    """
    from coembed import cohorts, matching, model

    paths = cohorts.map_paths(specimens, out)
    loaded = model.load(weights)
    start = _shape_or_embedding(template, incomplete)
    if isinstance(start, coembed.Shape):
        first = align.split(":")[0]
        start = matching.embed(loaded, start, align=first, points=points, cache=cache)
    settings = {
        "align": _ways(align),
        "refine": refine,
        "points": points,
        "cache": cache,
        "force": force,
        "incomplete": incomplete,
        "anyway": anyway,
    }
    work = [(loaded, start, *pair, settings) for pair in zip(specimens, paths, strict=True)]
    results = []
    with _progress("carry", len(work)) as bar:
        for result in _each(jobs, _carry_one, work):
            bar.update(1)
            results.append(result)
    for result in results:
        if result.reason:
            click.echo(f"{result.state}: {result.reason}", err=True)
    table, _ = cohorts.write_summary(out, results)
    counts = {state: sum(r.state == state for r in results) for state in cohorts.STATES}
    _print({**counts, "summary": str(table)}, as_json)
    bad = [f"{counts[state]} {state}" for state in ("failed", "refused") if counts[state]]
    if bad:
        raise CoembedError(f"of {len(results)} specimens {' and '.join(bad)}; see {table}")


@commands.command()
@click.argument("shapes", type=PATH, nargs=-1, required=True)
@click.option("--out", type=PATH, required=True, help="Embedding to write: .npz, or a folder.")
@WEIGHTS_BY_PART
@ALIGN_EACH
@PARTIAL
@POINTS
@CACHE
@click.option("--jobs", default=1, type=COUNT, show_default=True, help="Processes.")
@INCOMPLETE
@FORCE
@JSON
def embed(
    shapes: tuple[Path, ...], out: Path, weights: str | None, align: str, partial: bool,
    points: int | None, cache: Path | None, jobs: int, incomplete: bool, force: bool, as_json: bool,
) -> None:  # fmt: skip
    """Embed shapes once, to be matched many times.

    Matching the .npz files gives the same map as matching the shapes, without preparing them.
    If OUT does not end in .npz it is a folder and gets NAME.npz for each shape.

    Example: coembed embed people/*.ply --out embedded --jobs 2
    """
    from coembed import model

    way, loaded = _way(align), model.load(_weights(weights, partial))
    paths = _embedding_paths(shapes, out, force)
    work = [
        (loaded, shape, way, partial, points, cache, path, force, incomplete)
        for shape, path in paths
    ]
    seconds = [0.0, 0.0]
    with _progress("embed", len(work), hidden=len(work) == 1) as bar:
        for name, notes, taken in _each(jobs, _embed_file, work):
            bar.update(1)
            seconds = [total + one for total, one in zip(seconds, taken, strict=True)]
            for note in notes:
                click.echo(f"{name}: {note}", err=True)
    facts = {
        "shapes": len(work),
        "seconds": {"prepare": round(seconds[0], 3), "embed": round(seconds[1], 3)},
        "embeddings": str(out),
    }
    _print(facts, as_json)


@commands.command()
@click.argument("matches", type=PATH)
@click.option("--target", type=PATH, required=True, help="Target shape.")
@click.option("--truth", type=PATH, required=True, help=TRUTH)
@click.option("--target-truth", type=PATH, help="The target's .vts, if --truth is a .vts.")
@MAP_BASE
@TRUTH_BASE
@TRUTH_FROM
@click.option(
    "--samples", default=500, type=NATURAL, show_default=True, help="Points judged; 0: all."
)
@INCOMPLETE
@JSON
def evaluate(
    matches: Path, target: Path, truth: Path, target_truth: Path | None, base: str,
    truth_base: str, truth_from: str, samples: int, incomplete: bool, as_json: bool,
) -> None:  # fmt: skip
    """Measure a map against the truth: geodesic errors in units of sqrt(target area).

    Example: coembed evaluate cat-lion.txt --target lion.ply --truth cat-lion.truth.txt
    """
    from coembed import evaluation, maps

    shape = _shape(target, incomplete)
    found = maps.read_map(matches, n_target=len(shape.points), base=_base(base))
    pairs, told = _truth(truth, target_truth, truth_base, truth_from, found)
    errors = evaluation.evaluate(found, shape, pairs, samples=samples)
    _print({"map": _told(found), "truth": told, **errors.summary()}, as_json)


@commands.command()
@click.argument("source", type=PATH)
@click.argument("target", type=PATH)
@click.argument("matches", type=PATH)
@click.option("--out", type=PATH, help="File to write: .html, .png or .svg. Default: MATCHES.html.")
@click.option("--truth", type=PATH, help=f"Adds the error. {TRUTH}")
@click.option("--target-truth", type=PATH, help="The target's .vts, if --truth is a .vts.")
@MAP_BASE
@TRUTH_BASE
@TRUTH_FROM
@click.option(
    "--samples", default=500, type=NATURAL, show_default=True, help="Points judged; 0: all."
)
@click.option("--by", default="position", show_default=True,
              help="Colour by position, trust, or an attribute of either shape.")  # fmt: skip
@click.option("--up", type=click.Choice(["x", "y", "z"]), default="y", show_default=True,
              help="Axis that points up.")  # fmt: skip
@click.option("--show", type=COUNT, default=250_000, show_default=True,
              help="Most points of the source in a page; more are thinned.")  # fmt: skip
@INCOMPLETE
@FORCE
def view(
    source: Path, target: Path, matches: Path, out: Path | None, truth: Path | None,
    target_truth: Path | None, base: str, truth_base: str, truth_from: str, samples: int, by: str,
    up: str, show: int, incomplete: bool, force: bool,
) -> None:  # fmt: skip
    """Show a map: a page to turn and to point at, or a picture.

    The page (.html) opens in any browser, without a network: both shapes side by side, coloured by
    position, error, trust or an attribute such as a segment, with the partner of the point under
    the pointer. A picture (.png, .svg) needs matplotlib, and no screen.

    Example: coembed view cat.ply lion.ply cat-lion.txt --out cat-lion.html
    """
    from coembed import evaluation, files, viewing

    out = matches.with_suffix(".html") if out is None else out
    files.check_writable(out, force=force)
    one, other = (_shape(path, incomplete) for path in (source, target))
    found = _map_between(matches, one, other, base)
    errors, facts = None, {"map": _told(found)}
    if truth is not None:
        pairs, facts["truth"] = _truth(truth, target_truth, truth_base, truth_from, found)
        errors = evaluation.evaluate(found, other, pairs, samples=samples)
    viewing.view(
        one, other, found, out, errors=errors, by=by, up=up, shown=show, force=force
    )  # fmt: skip
    what = "page" if out.suffix.lower() == ".html" else "picture"
    _print({**facts, what: f"{out}  ({out.stat().st_size / 1e6:.1f} MB)"}, as_json=False)


@commands.command()
@click.argument("shapes", nargs=-1, required=True, type=PATH)
@INCOMPLETE
@JSON
def check(shapes: tuple[Path, ...], incomplete: bool, as_json: bool) -> None:
    """Report on shapes: points, parts, repeated and bad rows, faces, extent, density, units.

    The exit code is 1 if a file cannot be read or a match would refuse it; the others are reported
    all the same.

    Example: coembed check scans/*.ply
    """
    from coembed import formats, health

    refused = 0
    for path in shapes:
        try:
            shape = formats.read(path, incomplete=incomplete)
            report = {"read": shape.notes, **asdict(health.examine(shape))}
        except CoembedError as error:
            report = {"refusal": str(error)}
        refused += bool(report["refusal"])
        facts = {"shape": str(path), **report}
        if not as_json:
            facts = {name: value for name, value in facts.items() if value not in ("", ())}
        _print(facts, as_json)
    if refused:
        raise CoembedError(f"{refused} of {len(shapes)} shapes would be refused")


@commands.command()
@click.argument("source", type=PATH)
@click.argument("target", type=PATH)
@click.argument("matches", type=PATH)
@click.option("--what", multiple=True, metavar="colors|labels|landmarks|uv|weights|ATTR",
              help="What to carry, several times if wanted. Default: all attributes.")  # fmt: skip
@click.option("--to", type=click.Choice(["source", "target"]), default="source", show_default=True,
              help="The shape that receives.")  # fmt: skip
@click.option("--landmarks", type=PATH,
              help="For --what landmarks: rows or places of the shape that gives.")  # fmt: skip
@click.option("--out", type=PATH, required=True,
              help="The receiver with attributes, .ply, or .npz, which also keeps text; of "
              "landmarks a .csv.")  # fmt: skip
@MAP_BASE
@INCOMPLETE
@FORCE
@JSON
def transfer(
    source: Path, target: Path, matches: Path, what: tuple[str, ...], to: str,
    landmarks: Path | None, out: Path, base: str, incomplete: bool, force: bool, as_json: bool,
) -> None:  # fmt: skip
    """Carry colours, labels, landmarks, ... along a map, to its source or to its target.

    The map leads from SOURCE to TARGET either way. Labels go by majority and are never averaged,
    other values are interpolated; names and types stay. Rows without an answer get NaN, -1, or the
    largest number of an unsigned type, and are counted.

    Example: coembed transfer scan.ply template.ply scan-template.txt --out labelled.ply
    """
    from coembed import files, formats
    from coembed.landmarks import carry_landmarks, read_landmarks, write_landmarks
    from coembed.transfer import carried

    if ("landmarks" in what) != (landmarks is not None) or (landmarks and len(what) > 1):
        raise click.UsageError("landmarks are carried alone: --what landmarks --landmarks FILE")
    files.check_writable(out, force=force)
    one, other = (_shape(path, incomplete) for path in (source, target))
    found = _map_between(matches, one, other, base)
    if landmarks is not None:
        given = read_landmarks(landmarks, other if to == "source" else one)
        placed = carry_landmarks(one, other, found, given, to=to)
        write_landmarks(out, placed, force=force)
        lost = int((placed.rows < 0).sum())
        facts = {"map": _told(found), "landmarks": len(placed.rows), "without": lost}
        _print({**facts, "table": str(out)}, as_json)
        return
    result = carried(one, other, found, what=what, to=to)
    formats.write(out, result.shape, force=force)
    facts = {"map": _told(found), "attributes": result.names, "without": result.without}
    facts["shape"] = str(out)
    if result.torn is not None:
        facts["faces_across_a_seam"] = result.torn
    _print(facts, as_json)


@commands.command()
@click.argument("shapes", nargs=-1, required=True, type=PATH)
@INCOMPLETE
@JSON
def info(shapes: tuple[Path, ...], incomplete: bool, as_json: bool) -> None:
    """Show what a shape (points, area, lowest eigenvalues) or a weights file holds.

    Example: coembed info cat.ply human
    """
    from coembed import evaluation, formats, geometry, model

    for path in shapes:
        if str(path) in model.SHIPPED or path.suffix == ".safetensors":
            loaded = model.load(path)
            count = sum(int(value.size) for value in loaded.parameters.values())
            _print({"weights": str(path), "parameters": count, **loaded.info}, as_json)
            continue
        shape = formats.read(path, incomplete=incomplete)
        operators = geometry.prepare(shape)
        facts = {
            "shape": str(path),
            "points": len(shape.points),
            "distinct": len(operators.mass),
            "faces": 0 if shape.faces is None else len(shape.faces),
            "size": (shape.points.max(axis=0) - shape.points.min(axis=0)).round(6).tolist(),
            "area": evaluation.area_of(shape),
            "eigenvalues_times_area": operators.evals[:5].round(3).tolist(),
            "changes": [*shape.notes, *operators.notes],
        }
        _print(facts, as_json)


@commands.command()
@JSON
def doctor(as_json: bool) -> None:
    """Show what works on this machine: versions, formats, extras, devices, and what to install.

    Example: coembed doctor --json
    """
    import platform
    from importlib.metadata import version
    from importlib.util import find_spec

    from coembed import compiled, formats, model

    def state(extra: str) -> str:
        absent = [name for name in EXTRAS[extra] if find_spec(name) is None]
        return f'no {", ".join(absent)}: pip install "coembed[{extra}]"' if absent else "works"

    facts: dict[str, Any] = {"coembed": coembed.__version__, "python": platform.python_version()}
    facts |= {name: version(name) for name in ("numpy", "scipy")}
    absent = "not built: a C compiler at installation makes matching faster"
    facts["compiled"] = absent if compiled.native() is None else "works"
    facts["formats"] = {end: state("las") if "la" in end else "works" for end in formats.READERS}
    facts["extras"] = {extra: state(extra) for extra in EXTRAS}
    facts["cores"] = os.cpu_count() or 1
    facts["gpu"] = "none found"
    if find_spec("torch") is not None:
        import torch

        if torch.cuda.is_available():
            facts["gpu"] = torch.cuda.get_device_name()
    facts["weights"] = f"human, {len(model.load().parameters)} arrays"
    if as_json:
        _print(facts, as_json)
        return
    for name, value in facts.items():
        rows = value.items() if isinstance(value, dict) else [("", value)]
        for part, told in rows:
            click.echo(f"{name:<9}{part:<9}{told}")


@commands.command()
@click.option("--n", default=10, type=COUNT, show_default=True, help="How many bodies.")
@click.option("--points", default=1200, show_default=True, help="Points per body.")
@click.option(
    "--seed", default=0, type=NATURAL, show_default=True, help="Other seeds give other bodies."
)
@click.option("--out", type=PATH, required=True, help="New folder.")
def bodies(n: int, points: int, seed: int, out: Path) -> None:
    """Generate people in random poses as point clouds with exact truth.

    Writes off/NAME.ply, corres/NAME.vts (the sample nearest each of 1000 template points,
    counted from 1) and corres/NAME.npz (template face and barycentric coordinates of every
    point: the exact truth).

    Example: coembed bodies --n 200 --points 1200 --out people
    """
    from coembed import datasets

    with _progress("bodies", n) as bar:
        datasets.write_bodies(out, n=n, n_points=points, seed=seed, report=lambda: bar.update(1))
    click.echo(f"folder  {out}")


@commands.command()
@click.option("--recipe", default="human", show_default=True,
              help="A .toml file, or one that ships: human, scape, faust, tiny, ...")  # fmt: skip
@click.option("--data", type=PATH, help="Folder of shapes, for recipes that generate none.")
@click.option("--set", "changes", multiple=True, metavar="TABLE.FIELD=VALUE",
              help="In place of what the recipe says, such as train.steps=100.")  # fmt: skip
@click.option("--device", default="cpu", show_default=True, help="cpu or cuda.")
@click.option(
    "--jobs", default=1, type=COUNT, show_default=True, help="Processes that prepare shapes."
)
@click.option("--out", type=PATH, required=True, help="The run's folder.")
@click.option("--resume", is_flag=True, help="Go on with the run in --out.")
def train(
    recipe: str, data: Path | None, changes: tuple[str, ...], device: str, jobs: int, out: Path,
    resume: bool,
) -> None:  # fmt: skip
    """Train weights by a recipe, on a folder of clouds or on generated bodies.

    OUT holds config.json, log.jsonl (every loss term of every step), tensorboard/ (the same to
    look at), last.safetensors (to resume) and best.safetensors (for --weights). Prepared shapes
    are kept in the folder examples beside OUT. Needs torch: pip install "coembed[train]". Several
    processes share the pairs of a batch: torchrun --nproc-per-node 2 -m coembed train ...

    Example: coembed train --recipe human --jobs 2 --out runs/human
    """
    from coembed import datasets, recipes, training

    chosen = recipes.read_recipe(recipe, changes)
    config = chosen.train
    examples, held_out, facts = datasets.training_sets(
        chosen.data, data, n_eig=config.model.n_eig, cache=out.parent / "examples"
    )
    with training.joined(device) as first:
        with _progress("prepare", len(examples) + len(held_out), hidden=not first) as bar:
            for examples_of in (examples, held_out):
                for _ in datasets.fill(examples_of, jobs):
                    bar.update(1)
        with _progress("train", config.steps, hidden=not first) as bar:

            def report(progress: training.Progress) -> None:
                bar.update(progress.step - bar.pos)
                if progress.validation is not None:
                    click.echo(
                        f"\nstep {progress.step}: validation {progress.validation:.4f}", err=True
                    )

            training.train(
                examples, config, out=out, validation=held_out, resume=resume, device=device,
                info={"name": out.name, "recipe": chosen.name, **facts}, report=report,
            )  # fmt: skip
    if first:
        click.echo(f"weights  {out / 'best.safetensors'}")


@commands.command("import-weights")
@click.argument("file", type=PATH)
@click.argument("out", type=PATH)
@FORCE
def import_weights(file: Path, out: Path, force: bool) -> None:
    """Convert weights released with the paper (.pth) to one .safetensors file.

    Example: coembed import-weights scape.pth scape.safetensors
    """
    from coembed import files, model, reference

    files.check_writable(out, force=force)
    model.save(reference.import_weights(file), out, force=force)
    click.echo(f"weights  {out}")


@commands.command()
@click.argument("folder", type=PATH)
@WEIGHTS_BY_PART
@click.option("--method", default="coe", show_default=True,
              help="coe, spectral, hks, wks, cqhb-hks, cqhb-gt or pyfm-wks.")  # fmt: skip
@click.option("--refine", default="none", show_default=True,
              help="none, register, spectral or zoomout, from the method's map.")  # fmt: skip
@click.option("--shapes", default=":", show_default=True, help="Of the sorted shapes: FIRST:END.")
@click.option("--pairs", default="all", show_default=True,
              help="all ordered ones, listed (in pairs.txt), a number, or a file.")  # fmt: skip
@click.option("--views", type=PATH, help="Folder of index_NAME_view_V.txt: rows of parts to match.")
@click.option("--cut", type=click.Choice(["views", "planes", "holes", "limbs", "pieces"]),
              help="Cut every source; targets stay whole.")  # fmt: skip
@click.option("--cut-both", is_flag=True, help="Cut the targets, too.")
@PARTIAL
@click.option(
    "--noise", default=0.0, show_default=True, help="Gaussian noise; 1: the shape's radius."
)
@click.option("--thin", default=0.0, show_default=True, help="Share of points left out unevenly.")
@click.option("--turn", default=0.0, show_default=True, help="Random turns about y, degrees.")
@click.option("--resample", default=0, show_default=True, help="Points taken anew from the faces.")
@click.option("--contact", is_flag=True, help="Bridge two places that are far along the surface.")
@click.option(
    "--samples", default=500, type=NATURAL, show_default=True, help="Truth samples per pair."
)
@click.option("--edges", is_flag=True, help="Measure along mesh edges (some per cent too long).")
@click.option(
    "--truth-base",
    type=click.Choice(["0", "1"]),
    default="1",
    show_default=True,
    help="What the files of truth call the first row.",
)
@ALIGN
@COUPLED
@ADAPT
@POINTS
@CACHE
@click.option("--jobs", default=1, type=COUNT, show_default=True, help="Processes.")
@click.option("--out", type=PATH, help="Folder for table.json, pairs.csv, curve.png, curve.svg.")
@click.option("--report", type=PATH, help="Page with pictures of the six worst pairs: .html.")
@FORCE
@JSON
def bench(
    folder: Path, weights: str | None, method: str, refine: str, shapes: str, pairs: str,
    views: Path | None, cut: str | None, cut_both: bool, partial: bool, noise: float, thin: float,
    turn: float, resample: int, contact: bool, samples: int, edges: bool, truth_base: str,
    align: str, coupled: bool, adapt: float, points: int | None, cache: Path | None, jobs: int,
    out: Path | None, report: Path | None, force: bool, as_json: bool,
) -> None:  # fmt: skip
    """Match the pairs of a folder of shapes with truth and print the error table.

    The folder is in a community layout: off/ with corres/NAME.vts (FAUST, SCAPE, SHREC'19 with
    pairs.txt, SMAL, DT4D, TOPKIDS), or shapes that share the order of points (TOSCA). With
    --cache a run that was cut off goes on where it was.

    Parts of shapes are matched with whole ones: those of a folder with corres/PART_WHOLE.map
    (PFARM, DPFM) or with a folder null beside it (SHREC'16 cuts and holes), those of --views, or
    those that --cut makes. Rows without an answer are left out of the error; their share is told.

    Example: coembed bench data/scape_r --shapes 51:71 --weights scape.safetensors
    """
    from coembed import benchmark, datasets, model
    from coembed.disturbances import Disturbance

    settings = benchmark.Settings(
        method=method, refine=refine, coupled=coupled, samples=samples, edges=edges,
        disturbance=Disturbance(
            resample=resample, thin=thin, contact=contact, noise=noise, turn=turn
        ),
        points=points, align=_ways(align), truth_base=int(truth_base), cut=cut or "",
        cut_both=cut_both, partial=partial, adapt=adapt,
    )  # fmt: skip
    members, chosen = datasets.part(shapes), _pairs(pairs)
    if out is not None:
        _check_results(out, force)
    _check_report(report, force)
    loaded = model.load(_weights(weights, partial))
    with _stages() as stage:
        table = benchmark.bench(
            loaded, folder, settings, shapes=members, pairs=chosen, views=views, cache=cache,
            jobs=jobs, report=stage,
        )  # fmt: skip
    facts: dict[str, Any] = {"folder": str(folder), "method": method, "refine": refine}
    if method == "coe":
        name = loaded.info.get("name", str(weights))
        facts |= {"weights": name, "coupled": coupled, "align": align, "points": points or "full"}
    done = {"cut": cut, "cut_both": cut_both, "partial": partial, "adapt": adapt}
    facts |= {k: v for k, v in (asdict(settings.disturbance) | done).items() if v}
    facts |= table.summary()
    if out is not None:
        _write_results(out, facts, table, force)
    if report is not None:
        from coembed import files, reports

        worst = benchmark.worst(
            loaded, folder, settings, table, n=WORST, shapes=members, views=views,
            cache=cache,
        )  # fmt: skip
        files.write_bytes(report, reports.report_bench(facts, table, worst), force=force)
    _print(facts, as_json)


@commands.command()
@click.option(
    "--out", type=PATH, default=Path("demo"), show_default=True, help="Folder for results."
)
@FORCE
def demo(out: Path, force: bool) -> None:
    """Match the two people that ship with the package and measure the error.

    Example: coembed demo --out demo
    """
    from coembed import demonstration

    _print(demonstration.run(out, force=force), as_json=False)


@commands.command()
@click.argument("shapes", type=PATH, nargs=-1, required=True)
@click.option("--out", type=PATH, required=True, help="Picture to write: .png or .svg.")
@click.option("--functions", default=8, type=COUNT, show_default=True, help="In each row.")
@click.option("--up", type=click.Choice(["x", "y", "z"]), default="y", show_default=True,
              help="Axis that points up.")  # fmt: skip
@WEIGHTS
@ALIGN_EACH
@CACHE
@FORCE
def bases(
    shapes: tuple[Path, ...], out: Path, functions: int, up: str, weights: str, align: str,
    cache: Path | None, force: bool,
) -> None:  # fmt: skip
    """Draw eigenfunctions and embeddings of shapes, a row for each shape and kind.

    Eigenfunctions of two shapes differ in sign and order, embeddings do not.

    Example: coembed bases cat.ply lion.ply --out bases.png
    """
    from coembed import files, formats, matching, model, viewing

    files.check_writable(out, force=force)
    way, loaded = _way(align), model.load(weights)
    read = [formats.read(path) for path in shapes]
    embedded = [matching.embed(loaded, shape, align=way, cache=cache) for shape in read]
    _tell(embedded)
    viewing.draw_bases(read, embedded, out, n=functions, cache=cache, up=up, force=force)
    click.echo(f"picture  {out}")


@commands.command()
@click.argument("shapes", type=PATH, nargs=-1, required=True)
@click.option("--parts", type=click.IntRange(min=2), multiple=True, default=(8,), show_default=True,
              help="How many; several numbers give nested parts.")  # fmt: skip
@click.option("--independent", is_flag=True,
              help="Part each shape alone, as in the paper, then match the labels.")  # fmt: skip
@click.option("--seed", default=0, type=NATURAL, show_default=True, help="Of k-means.")
@click.option("--out", type=PATH, required=True, help="Folder for NAME.ply and parts.csv.")
@click.option("--picture", type=PATH, help="Picture of all shapes: .png or .svg.")
@WEIGHTS
@ALIGN_EACH
@POINTS
@CACHE
@FORCE
@JSON
def segment(
    shapes: tuple[Path, ...], parts: tuple[int, ...], independent: bool, seed: int, out: Path,
    picture: Path | None, weights: str, align: str, points: int | None, cache: Path | None,
    force: bool, as_json: bool,
) -> None:  # fmt: skip
    """Part shapes by k-means in the embedding, with the same labels on all of them.

    OUT gets each shape as PLY with its labels (part) and their colours, and a table of the parts'
    areas. Needs scikit-learn: pip install "coembed[segment]".

    Example: coembed segment people/*.ply --parts 4 --parts 12 --out parts
    """
    from coembed import files, formats, matching, model, pictures, segmentation

    segmentation.check_output(out, shapes, force=force)
    if picture is not None:
        pictures.check_drawable()
        files.check_writable(picture, force=force)
    way, loaded = _way(align), model.load(weights)
    read, embedded = [], []
    with _progress("embed", len(shapes), hidden=len(shapes) == 1) as bar:
        for path in shapes:
            read.append(formats.read(path))
            embedded.append(matching.embed(loaded, read[-1], align=way, points=points, cache=cache))
            bar.update(1)
    _tell(embedded)
    found = segmentation.segment(
        loaded, embedded, parts=parts, joint=not independent, seed=seed
    )  # fmt: skip
    labelled = segmentation.write_segmentation(out, read, found, force=force)
    facts: dict[str, Any] = {"shapes": len(read), "parts": list(found.parts)}
    facts |= {"without": sum(int((labels[:, 0] < 0).sum()) for labels in found.labels)}
    facts |= {"folder": str(out), "table": str(out / "parts.csv")}
    if picture is not None:
        pictures.draw_shapes(labelled, picture, by=found.names()[-1], force=force)
        facts["picture"] = str(picture)
    _print(facts, as_json)


def _tell(embedded: Iterable[Any]) -> None:
    """What was changed of the shapes, and how they were turned."""
    for one in embedded:
        for note in one.notes:
            click.echo(f"{one.name}: {note}", err=True)


def _base(text: str) -> int | None:
    return None if text == "auto" else int(text)


def _map_between(path: Path, source: Any, target: Any, base: str) -> Any:
    from coembed import maps

    n, m = len(source.points), len(target.points)
    return maps.read_map(path, n_source=n, n_target=m, base=_base(base))


def _told(found: Any) -> str:
    """How a map was understood."""
    return f"source to target, rows counted from {found.record.get('counted_from', 0)}"


def _truth(
    truth: Path, target_truth: Path | None, base: str, lines: str, found: Any
) -> tuple[Any, str]:
    from coembed import maps

    if (truth.suffix == ".vts") != (target_truth is not None):
        raise click.UsageError(
            "a .vts truth needs both --truth and --target-truth; a map only --truth"
        )
    sizes = {"n_source": len(found.p2p), "n_target": found.n_target, "base": _base(base)}
    if target_truth is None:
        return maps.read_truth(truth, **sizes, lines=lines)
    if lines == "target":
        raise click.UsageError("two .vts files lead from a template; --truth-from is for maps")
    return maps.read_template(truth, target_truth, **sizes)


def _pairs(text: str) -> str | int | Path:
    if text in ("all", "listed"):
        return text
    if text.isdecimal():
        return int(text)
    if not Path(text).exists():
        raise click.BadParameter(
            f"expected all, listed, a number or a file of pairs; got {text!r}", param_hint="--pairs"
        )
    return Path(text)


def _check_report(report: Path | None, force: bool) -> None:
    if report is not None:
        from coembed import reports

        reports.check_report(report, force=force)


_RESULTS = ("table.json", "pairs.csv", "curve.png", "curve.svg")


def _check_results(out: Path, force: bool) -> None:
    from coembed import charts, files

    charts.check_drawable()
    if out.exists():
        for name in _RESULTS:
            files.check_writable(out / name, force=force)
    else:
        files.check_writable(out)


def _write_results(out: Path, facts: Any, table: Any, force: bool) -> None:
    from coembed import charts, files

    out.mkdir(exist_ok=True)
    files.write_bytes(out / "table.json", json.dumps(facts, indent=1).encode(), force=force)
    files.write_bytes(out / "pairs.csv", table.lines().encode(), force=force)
    name = str(facts.get("weights", facts["method"]))
    charts.draw_curves({name: table.apart.ravel()}, out / "curve", force=force)


@contextmanager
def _stages() -> Iterator[Callable[[str, int, int], None]]:
    """Reporter of a work of several stages: one progress bar after the other."""
    bars: dict[str, Any] = {}
    with ExitStack() as stack:

        def report(stage: str, done: int, of: int) -> None:
            if stage not in bars:
                stack.close()
                bars[stage] = stack.enter_context(_progress(stage, of))
            bars[stage].update(done - bars[stage].pos)

        yield report


def _embedding_paths(shapes: tuple[Path, ...], out: Path, force: bool) -> list[tuple[Path, Path]]:
    """Where the embedding of each shape goes; the folder is made."""
    from coembed import files

    if out.suffix == ".npz":
        if len(shapes) > 1:
            raise click.BadParameter("several shapes go into a folder", param_hint="--out")
        files.check_writable(out, force=force)
        return [(shapes[0], out)]
    stems = [files.split_choice(shape)[0].stem for shape in shapes]
    paths = [out / f"{stem}.npz" for stem in stems]
    if len(set(paths)) < len(paths):
        raise InputError(f"{out}: two of the shapes have the same name without its ending")
    for shape in shapes:
        files.check_readable(shape)
    out.mkdir(parents=True, exist_ok=True)
    for path in paths:
        files.check_writable(path, force=force)
    return list(zip(shapes, paths, strict=True))


def _embed_file(work: tuple[Any, ...]) -> tuple[str, tuple[str, ...], tuple[float, float]]:
    """Name, notes and seconds of one shape, whose embedding is written."""
    from coembed import files, formats, matching

    model, path, align, partial, points, cache, out, force, incomplete = work
    shape = formats.read(path, incomplete=incomplete)
    embedding = matching.embed(
        model, shape, align=align, partial=partial, points=points, cache=cache
    )
    files.write_embedding(out, embedding, force=force)
    return embedding.name, embedding.notes, embedding.seconds


def _each(jobs: int, function: Callable[[Any], Any], work: list[Any]) -> Iterator[Any]:
    """What a function gives for each piece of work, in order, from several processes."""
    if jobs == 1 or len(work) == 1:
        yield from map(function, work)
        return
    from coembed import processes

    with processes.pool(jobs) as pool:
        yield from pool.map(function, work)


def _carry_one(work: tuple[Any, ...]) -> Any:
    from coembed import cohorts

    *arguments, settings = work
    return cohorts.carry(*arguments, **settings)


def _shape(path: Path, incomplete: bool) -> Any:
    """A shape, telling what was read of a file that may be cut off."""
    from coembed import formats

    shape = formats.read(path, incomplete=incomplete)
    for note in shape.notes if incomplete else ():
        click.echo(f"{path}: {note}", err=True)
    return shape


def _shape_or_embedding(path: Path, incomplete: bool = False) -> Any:
    from coembed import files, formats

    if files.holds_embedding(path):
        return files.read_embedding(path)
    return formats.read(path, incomplete=incomplete)


@contextmanager
def _bar_of_match(cost: Any) -> Iterator[Callable[[str], None]]:
    """A bar over the stages of a match that takes long, with the time that is left."""
    if cost.seconds < LONG:
        yield lambda _: None
        return
    click.echo(
        f"about {cost.seconds:.0f} s and {cost.memory / 1e9:.1f} GB; fewer --points take less",
        err=True,
    )
    shares = {"embed": 0.0, "refine": cost.embedding, "match": cost.embedding}
    with _progress("match", 100) as bar:
        yield lambda stage: bar.update(round(100 * shares[stage]) - bar.pos)
        bar.update(100 - bar.pos)


def _progress(label: str, length: int, *, hidden: bool = False) -> Any:
    return click.progressbar(
        length=length, label=label, file=sys.stderr, show_pos=True, hidden=hidden
    )


def _print(facts: Any, as_json: bool) -> None:
    """One fact a line, or one JSON object."""
    if as_json:
        click.echo(json.dumps(facts))
        return
    width = max(len(name) for name in facts)
    for name, value in facts.items():
        shown = f"{value:.4g}" if isinstance(value, float) else value
        if isinstance(value, dict):
            shown = ", ".join(f"{key} {part}" for key, part in value.items())
        elif isinstance(value, tuple):
            numbers = all(isinstance(part, float) for part in value)
            shown = " ".join(f"{x:.4g}" for x in value) if numbers else "; ".join(value)
        click.echo(f"{name.replace('_', ' '):<{width}}  {shown}")
