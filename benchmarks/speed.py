"""Seconds and memory of the pipeline on one thread, without torch.

Run it with ``make bench-speed`` (ten minutes); it writes ``benchmarks/results/speed.json`` and
the chart ``docs/runtime.png`` (and ``.svg``). Times of stages are the best of three in one
process; a whole pair is ``coembed match`` in a fresh process, from two PLY files to the map on
disk: the best of 24 at up to 5,000 points, of 8 at 20,000, of 3 above, all pairs in turns, so
that a slow minute of the machine meets them all. CPU seconds are what counts on a busy machine;
the yardstick, measured before and after, says how fast it was. Each pair also has the seconds of
its stages: reading, operators, network (with the turn), search; what is left is start-up and
writing. Both people of a pair stand upright, but in the row with ``searched``: one of them leans,
and its turn is looked for.

``python benchmarks/speed.py --against CHECKOUT`` also runs the code that the paper's authors
released (a checkout of github.com/zenghjian/coe with its weights; needs torch, see ``make test``)
on the pairs of 1,000 and 5,000 points, best of 3 among the same turns, and tells how many times as
much that takes.
"""

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed program is compiled once only

import numpy as np

import coembed
from coembed import bodies, charts, formats
from coembed.search import nearest

RESULT = Path(__file__).parent / "results" / "speed.json"
REFERENCE = Path(__file__).parent / "reference_match.py"
CHART = Path(__file__).parent.parent / "docs" / "runtime"
STANDING, LEANING = (0, 3), (0, 1)  # seeds of the people of a pair
USUAL = {"by": "coembed", "cached": False, "processes": 1, "searched": False}
MEASURED = ("wall_s", "cpu_s", "peak_mb")
COMPARED = (1000, 5000)  # points that the reference, whose matrices are dense, copes with
SIZES = (1000, 5000, 20_000, 60_000)
WHOLE = {  # what the network looks at: sizes of both shapes
    "full": (1000, 5000, 20_000, 60_000, 180_000),
    "20k": (60_000, 180_000, 500_000, 1_000_000),
    "5k": (20_000, 180_000, 500_000, 1_000_000),
}


def best(work, repeats=3):
    """Least wall and CPU seconds of several runs."""
    wall, cpu = [], []
    for _ in range(repeats):
        wall_0, cpu_0 = time.perf_counter(), time.process_time()
        result = work()
        wall.append(time.perf_counter() - wall_0)
        cpu.append(time.process_time() - cpu_0)
    return result, {"wall_s": round(min(wall), 3), "cpu_s": round(min(cpu), 3)}


def stages(n):
    model = coembed.load()
    shapes = [_person(n, seed) for seed in STANDING]
    operators, prepare = best(lambda: coembed.prepare(shapes[0]))
    other = coembed.prepare(shapes[1])
    phi, embed = best(lambda: model.embed(operators))
    psi = model.embed(other)
    _, found = best(lambda: nearest(phi, psi, similarity=model.config.similarity))
    return {"points": n, "prepare": prepare, "embed": embed, "nearest": found}


def whole_pairs(kinds, checkout):
    """Least seconds and most memory of each kind of pair."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_people(folder, {kind["points"] for kind in kinds})
        runs = [[] for _ in kinds]
        for turn in range(max(map(_repeats, kinds))):
            for kind, run in zip(kinds, runs, strict=True):
                if turn < _repeats(kind):
                    run.append(taken(_command(folder, checkout, **kind)))
                    if kind["by"] == "coembed":
                        record = json.loads((folder / "map.txt.json").read_text())
                        run[-1]["stages_s"] = record["seconds"]
    # the first run fills the cache
    return [kind | _least(run[kind["cached"] :]) for kind, run in zip(kinds, runs, strict=True)]


def _least(runs):
    """Least seconds, most memory, and the stages of the fastest run, as its record has them."""
    fastest = min(runs, key=lambda run: run["cpu_s"])
    return fastest | {
        "wall_s": min(run["wall_s"] for run in runs),
        "peak_mb": max(run["peak_mb"] for run in runs),
    }


def _repeats(kind):
    n = kind["points"]
    return 3 if n > 20_000 or kind["by"] == "reference" else 8 if n > 5000 else 24


def write_people(folder, sizes):
    """In a process of its own: a child's peak memory starts at its parent's."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        for n in sizes:
            for seed in {*STANDING, *LEANING}:
                process.submit(write_person, folder, n, seed).result()


def write_person(folder, n, seed):
    formats.write(folder / f"{n} {seed}.ply", _person(n, seed))


def _command(folder, checkout, *, points, by, looked_at, cached, processes, searched):
    seeds, out = LEANING if searched else STANDING, str(folder / "map.txt")
    paths = [str(folder / f"{points} {seed}.ply") for seed in seeds]
    if by == "reference":
        return [sys.executable, "-W", "ignore", str(REFERENCE), checkout, *paths, out]
    command = [sys.executable, "-m", "coembed", "match", *paths, "--force", "--out", out]
    command += ["--jobs", str(processes), "--points", looked_at]
    return command + (["--cache", str(folder / "cache")] if cached else [])


def taken(command):
    """Wall and CPU seconds and MB of a command."""
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)} failed with status {status}")
    return {
        "wall_s": round(time.perf_counter() - started, 3),
        "cpu_s": round(used.ru_utime + used.ru_stime, 3),
        "peak_mb": round(used.ru_maxrss / 1024),
    }


def import_seconds():
    code = "import time; t = time.perf_counter(); import coembed; print(time.perf_counter() - t)"
    runs = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)
        for _ in range(5)
    ]
    return round(min(runs), 4)


def _person(n, seed):
    rng = np.random.default_rng([7, seed])
    return bodies.sample(bodies.body(rng), n, rng, name=f"person {seed}").shape


def processor():
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _yardstick():
    """Seconds of ten million additions in plain Python: how fast the machine is just now."""

    def additions():
        total = 0
        for i in range(10_000_000):
            total += i

    return best(additions)[1]["wall_s"]


def compared(rows):
    """How many times as much the reference takes as we do for the same pair."""
    ours = {row["points"]: row for row in rows if _usual(row) and row["looked_at"] == "full"}
    return [
        {"points": row["points"]}
        | {name: round(row[name] / ours[row["points"]][name], 1) for name in MEASURED}
        for row in rows
        if row["by"] == "reference"
    ]


def _usual(row):
    return row | USUAL == row


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", metavar="CHECKOUT", help="of the reference code")
    checkout = parser.parse_args().against
    five = {"points": 5000, "looked_at": "full"}
    kinds = [five, five | {"cached": True}, five | {"processes": 2}, five | {"searched": True}]
    kinds += [
        {"points": n, "looked_at": looked_at}
        for looked_at, sizes in WHOLE.items()
        for n in sizes
        if n != 5000
    ]
    if checkout:
        kinds += [{"points": n, "looked_at": "full", "by": "reference"} for n in COMPARED]
    # first the pairs, for the sake of their peaks, too
    rows = whole_pairs([USUAL | kind for kind in kinds], checkout)
    result = {
        "date": datetime.date.today().isoformat(),
        "machine": f"{processor()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
        "yardstick_s": _yardstick(),
        "threads_a_process": 1,
        "coembed": coembed.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "torch_imported": "torch" in sys.modules,
        "import_s": import_seconds(),
        "pairs_from_files_to_map": rows,
        "reference_times_as_much": compared(rows),
        "stages": [stages(n) for n in SIZES],
    }
    result["yardstick_after_s"] = _yardstick()
    lines = lines_of(result)
    result["slopes"] = {name: slope(*line) for name, line in lines.items()}
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))
    draw(lines, result["slopes"])


def lines_of(result):
    """Sizes and CPU seconds of every stage and of whole pairs, by what is to be said of them."""
    rows = result["stages"]
    sizes = [row["points"] for row in rows]
    lines = {
        stage: (sizes, [row[stage]["cpu_s"] for row in rows])
        for stage in ("prepare", "embed", "nearest")
    }
    rows = [row for row in result["pairs_from_files_to_map"] if _usual(row)]
    for looked_at in WHOLE:
        found = {row["points"]: row["cpu_s"] for row in rows if _like(row, looked_at)}
        lines[f"pair, files to map, {looked_at}"] = tuple(zip(*sorted(found.items()), strict=True))
    return lines


def _like(row, looked_at):
    """Of 20,000 points all are looked at by default, as a sample of 20,000 is of more."""
    return row["looked_at"] == looked_at or (
        (looked_at, row["looked_at"], row["points"]) == ("20k", "full", 20_000)
    )


def slope(sizes, seconds):
    """The power of the number of points with which the time grows: least squares of logarithms."""
    return round(float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0]), 2)


def draw(lines, slopes):
    lines = {f"{name}: n^{slopes[name]}": line for name, line in lines.items()}
    labels = ("points of each shape", "CPU seconds")
    charts.draw_lines(lines, CHART, labels=labels, logarithmic=True, force=True)


if __name__ == "__main__":
    main()
