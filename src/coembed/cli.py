"""One command per verb: parse, call one library function, report.

Results go to stdout, progress and warnings to stderr. Exit code 0: done; 1: the work failed;
2: wrong use.
"""

import json
import logging
import os
import sys
import time
from pathlib import Path
from typing import Any

import click

import coembed
from coembed.errors import CoembedError

__all__ = ["commands", "main"]

PATH = click.Path(path_type=Path)
COUNT = click.IntRange(min=1)
NATURAL = click.IntRange(min=0)
FORCE = click.option("--force", is_flag=True, help="Overwrite what is there.")
JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
WEIGHTS = click.option(
    "--weights", default="human", show_default=True, help="A .safetensors file, or 'human'."
)
CACHE = click.option("--cache", type=PATH, help="Folder where operators are kept for later.")
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
@WEIGHTS
@COUPLED
@CACHE
@click.option(
    "--jobs",
    type=click.IntRange(1, 2),
    default=_default_jobs,
    help="Processes: 2 prepares both shapes at once. Default: 2 on Linux if there are cores.",
)
@FORCE
@JSON
def match(
    source: Path, target: Path, out: Path, weights: str, coupled: bool, cache: Path | None,
    jobs: int, force: bool, as_json: bool,
) -> None:  # fmt: skip
    """Find the target point of every source point.

    The map has one line per source point: the row of its target point, counted from 0, or -1.
    A run record is written beside it as OUT.json.

    Example: coembed match cat.ply lion.ply --out cat-lion.txt
    """
    from coembed import files, matching, model

    record_path = out.with_name(out.name + ".json")
    for path in (out, record_path):
        files.check_writable(path, force=force)
    if out.suffix not in (".txt", ".npz"):
        raise click.BadParameter("maps are written as .txt or .npz", param_hint="--out")
    loaded = model.load(weights)
    started = time.perf_counter()
    one, other = files.read(source), files.read(target)
    seconds = time.perf_counter() - started
    matches = matching.match(loaded, one, other, coupled=coupled, cache=cache, jobs=jobs)
    matches.record["seconds"] = {"read": round(seconds, 3), **matches.record["seconds"]}
    files.write_matches(out, matches, force=force)
    files.write_bytes(record_path, json.dumps(matches.record, indent=1).encode(), force=force)
    for side in ("source", "target"):
        for change in matches.record[side]["changes"]:
            click.echo(f"{matches.record[side]['name']}: {change}", err=True)
    report = {
        "source_points": len(matches.p2p),
        "target_points": matches.n_target,
        "unanswered": int((matches.p2p < 0).sum()),
        "mean_score": round(float(matches.score.mean()), 4),
        "seconds": matches.record["seconds"],
        "map": str(out),
        "record": str(record_path),
    }
    _print(report, as_json)


@commands.command()
@click.argument("matches", type=PATH)
@click.option("--target", type=PATH, required=True, help="Target shape.")
@click.option("--truth", type=PATH, required=True, help="0-based map, or the source's .vts.")
@click.option("--target-truth", type=PATH, help="The target's .vts, if --truth is a .vts.")
@click.option(
    "--samples", default=500, type=NATURAL, show_default=True, help="Points judged; 0: all."
)
@JSON
def evaluate(
    matches: Path, target: Path, truth: Path, target_truth: Path | None, samples: int, as_json: bool
) -> None:
    """Measure a map against the truth: geodesic errors in units of sqrt(target area).

    Example: coembed evaluate cat-lion.txt --target lion.ply --truth cat-lion.truth.txt
    """
    from coembed import evaluation, files

    shape = files.read(target)
    found = files.read_matches(matches, n_target=len(shape.points))
    pairs = _truth(truth, target_truth)
    _print(evaluation.evaluate(found, shape, pairs, samples=samples).summary(), as_json)


@commands.command()
@click.argument("source", type=PATH)
@click.argument("target", type=PATH)
@click.argument("matches", type=PATH)
@click.option("--out", type=PATH, required=True, help="Picture to write: .png.")
@click.option("--truth", type=PATH, help="Adds the error: 0-based map, or the source's .vts.")
@click.option("--target-truth", type=PATH, help="The target's .vts, if --truth is a .vts.")
@FORCE
def view(
    source: Path, target: Path, matches: Path, out: Path, truth: Path | None,
    target_truth: Path | None, force: bool,
) -> None:  # fmt: skip
    """Draw a map: the source coloured by position, the colours carried to the target.

    Example: coembed view cat.ply lion.ply cat-lion.txt --out cat-lion.png
    """
    from coembed import evaluation, files, viewing

    one, other = files.read(source), files.read(target)
    found = files.read_matches(matches, n_target=len(other.points))
    errors = None
    if truth is not None:
        errors = evaluation.evaluate(found, other, _truth(truth, target_truth))
    viewing.view(one, other, found, out, errors=errors, force=force)
    click.echo(f"picture  {out}")


@commands.command()
@click.argument("shapes", nargs=-1, required=True, type=PATH)
@JSON
def info(shapes: tuple[Path, ...], as_json: bool) -> None:
    """Show what a shape (points, area, lowest eigenvalues) or a weights file holds.

    Example: coembed info cat.ply human
    """
    from coembed import evaluation, files, geometry, model

    for path in shapes:
        if str(path) == "human" or path.suffix == ".safetensors":
            loaded = model.load(path)
            count = sum(int(value.size) for value in loaded.parameters.values())
            _print({"weights": str(path), "parameters": count, **loaded.info}, as_json)
            continue
        shape = files.read(path)
        operators = geometry.prepare(shape)
        facts = {
            "shape": str(path),
            "points": len(shape.points),
            "distinct": len(operators.mass),
            "faces": 0 if shape.faces is None else len(shape.faces),
            "size": (shape.points.max(axis=0) - shape.points.min(axis=0)).round(6).tolist(),
            "area": evaluation.area_of(shape),
            "eigenvalues_times_area": operators.evals[:5].round(3).tolist(),
            "changes": list(operators.notes),
        }
        _print(facts, as_json)


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
@click.option("--data", type=PATH, help="Folder of shapes; generated bodies if left out.")
@click.option("--n", default=200, type=COUNT, show_default=True, help="Generated bodies.")
@click.option(
    "--points", default=1200, type=NATURAL, show_default=True, help="Points per shape; 0: all."
)
@click.option("--steps", default=10_000, type=COUNT, show_default=True, help="Optimiser steps.")
@click.option("--loss", type=click.Choice(["paper", "paper-text", "matching", "both"]),
              help="Default: matching for bodies, paper for folders.")  # fmt: skip
@click.option("--attention/--no-attention", default=False, help="Train the cross-attention too.")
@click.option("--smooth", type=click.Choice(["none", "blocks"]), default="none", show_default=True)
@click.option("--schedule", type=click.Choice(["constant", "cosine"]), default="cosine",
              show_default=True, help="Learning rate.")  # fmt: skip
@click.option("--rate", default=1e-3, show_default=True, help="First learning rate.")
@click.option("--turn", default=25.0, show_default=True, help="Random turns, degrees either way.")
@click.option("--seed", default=0, type=NATURAL, show_default=True)
@click.option("--device", default="cpu", show_default=True, help="cpu or cuda.")
@click.option(
    "--jobs", default=1, type=COUNT, show_default=True, help="Processes that prepare shapes."
)
@click.option("--out", type=PATH, required=True, help="The run's folder.")
@click.option("--resume", is_flag=True, help="Go on with the run in --out.")
def train(
    data: Path | None, n: int, points: int, steps: int, loss: str | None, attention: bool,
    smooth: str, schedule: str, rate: float, turn: float, seed: int, device: str, jobs: int,
    out: Path, resume: bool,
) -> None:  # fmt: skip
    """Train weights on a folder of clouds or on generated bodies.

    OUT holds log.jsonl (every loss term of every step), last.safetensors (to resume) and
    best.safetensors (for --weights). Needs torch: pip install "coembed[train]".

    Example: coembed train --n 3000 --steps 12000 --out runs/human
    """
    from coembed import datasets, losses, training
    from coembed.model import ModelConfig

    loss = loss or ("matching" if data is None else "paper")
    weights = {
        "paper": losses.LossWeights(),
        "paper-text": losses.LossWeights(orthonormality=50.0, coupling=1000.0),
        "matching": losses.LossWeights(0.0, 0.0, 0.0, matching=1.0),
        "both": losses.LossWeights(matching=1000.0),
    }[loss]
    config = training.TrainConfig(
        model=ModelConfig(
            attention=attention, smooth=smooth, similarity="cosine" if weights.matching else "l2"
        ),
        weights=weights, steps=steps, schedule=schedule, learning_rate=rate, turn=turn,
        tilt=turn / 5, seed=seed,
    )  # fmt: skip
    examples, held_out, facts = datasets.training_sets(
        data,
        n=n,
        n_points=points,
        n_eig=config.model.n_eig,
        seed=seed,
        cache=out.parent / "examples",
    )
    with _progress("prepare", len(examples) + len(held_out)) as bar:
        for part in (examples, held_out):
            for _ in datasets.fill(part, jobs):
                bar.update(1)
    with _progress("train", steps) as bar:

        def report(progress: training.Progress) -> None:
            bar.update(progress.step - bar.pos)
            if progress.validation is not None:
                click.echo(
                    f"\nstep {progress.step}: validation {progress.validation:.4f}", err=True
                )

        training.train(
            examples, config, out=out, validation=held_out, resume=resume, device=device,
            info={"name": out.name, "losses": loss, **facts}, report=report,
        )  # fmt: skip
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
@WEIGHTS
@click.option("--method", type=click.Choice(["coe", "spectral", "hks", "wks"]), default="coe",
              show_default=True, help="What nearest neighbours are sought in.")  # fmt: skip
@click.option("--shapes", default=":", show_default=True, help="Of the sorted shapes: FIRST:END.")
@click.option("--pairs", type=click.Choice(["all", "listed"]), default="all", show_default=True,
              help="All ordered pairs, or those in pairs.txt.")  # fmt: skip
@click.option(
    "--noise", default=0.0, show_default=True, help="Gaussian noise; 1: the shape's radius."
)
@click.option(
    "--samples", default=500, type=NATURAL, show_default=True, help="Truth samples per pair."
)
@COUPLED
@CACHE
@click.option("--jobs", default=1, type=COUNT, show_default=True, help="Processes.")
@JSON
def bench(
    folder: Path, weights: str, method: str, shapes: str, pairs: str, noise: float, samples: int,
    coupled: bool, cache: Path | None, jobs: int, as_json: bool,
) -> None:  # fmt: skip
    """Match the pairs of a folder (off/, corres/NAME.vts) and print the error table.

    Example: coembed bench data/scape_r --shapes 51:71 --weights scape.safetensors
    """
    from coembed import benchmark, model

    try:
        first, end = (int(part) if part else None for part in shapes.split(":"))
    except ValueError as error:
        raise click.BadParameter(
            f"expected FIRST:END; got {shapes!r}", param_hint="--shapes"
        ) from error
    loaded = model.load(weights)
    table = benchmark.bench(
        loaded, folder, method=method, shapes=slice(first, end), listed=pairs == "listed",
        noise=noise, samples=samples, coupled=coupled, cache=cache, jobs=jobs,
        report=lambda what, done, of: click.echo(f"\r{what} {done}/{of}   ", err=True, nl=False),
    )  # fmt: skip
    click.echo(err=True)
    facts: dict[str, Any] = {"folder": str(folder), "method": method}
    if method == "coe":
        facts |= {"weights": loaded.info.get("name", weights), "coupled": coupled}
    _print({**facts, "noise": noise, **table.summary()}, as_json)


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


def _truth(truth: Path, target_truth: Path | None) -> Any:
    from coembed import files

    if (truth.suffix == ".vts") != (target_truth is not None):
        raise click.UsageError(
            "a .vts truth needs both --truth and --target-truth; a map only --truth"
        )
    return (
        files.read_truth(truth) if target_truth is None else files.read_pairs(truth, target_truth)
    )


def _progress(label: str, length: int) -> Any:
    return click.progressbar(length=length, label=label, file=sys.stderr, show_pos=True)


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
        click.echo(f"{name.replace('_', ' '):<{width}}  {shown}")
