"""Every table and chart of docs/reproduce.md, by one command.

``make tables DATA=data WEIGHTS=weights`` with the community's FAUST_r, SCAPE_r and SHREC'19_r in
DATA (``faust_r``, ``scape_r``, ``shrec19_r``) and the paper's released weights in WEIGHTS
(``faust.pth``, ``scape.pth``, ``surreal.pth``). Writes benchmarks/results/tables.json, the charts
docs/*.png and docs/*.svg, and the part of docs/reproduce.md between its two marks. What is in the
cache folder is not measured again, so a run that was cut off goes on.
"""

import argparse
import datetime
import json
import os
import platform
import shlex
import sys
import time
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
from speed import processor

from coembed import benchmark, charts, model, reference
from coembed.benchmark import Settings
from coembed.disturbances import Disturbance

ROOT = Path(__file__).parent.parent
RESULT = ROOT / "benchmarks" / "results" / "tables.json"
PAGE = ROOT / "docs" / "reproduce.md"
MARKS = ("<!-- tables: written by benchmarks/tables.py -->", "<!-- end of tables -->")

SETS = {
    "FAUST": ("faust_r", slice(80, 100), "all"),
    "SCAPE": ("scape_r", slice(51, 71), "all"),
    "SHREC'19": ("shrec19_r", slice(None), "listed"),
    "SHREC'19 upright": ("shrec19_upright", slice(None), "listed"),
}
PAPER = {  # mean x 100: tables 2 and 3 of the paper; in brackets there, with noise
    "spectral": {"FAUST": "67.1", "SCAPE": "62.3"},
    "hks": {"FAUST": "43.0", "SCAPE": "40.5"},
    "cqhb-hks": {"FAUST": "37.2", "SCAPE": "31.6"},
    "cqhb-gt": {"FAUST": "10.5", "SCAPE": "10.8"},
    "coe faust": {"FAUST": "3.7", "SCAPE": "8.7", "SHREC'19 upright": "9.5"},
    "coe scape": {"FAUST": "3.7", "SCAPE": "3.2", "SHREC'19 upright": "8.1"},
    "coe surreal": {"FAUST": "3.4", "SCAPE": "3.3", "SHREC'19 upright": "4.6"},
}
NOISY_PAPER = {"FAUST": "5.2", "SCAPE": "5.2", "SHREC'19 upright": "9.4"}
BASELINES = ("spectral", "hks", "wks", "cqhb-hks", "cqhb-gt", "pyfm-wks")
SIGMAS = (0.0, 0.005, 0.01, 0.02, 0.03)
HARDER = {
    "half of the points left out": Disturbance(thin=0.5),
    "3,000 points taken anew": Disturbance(resample=3000),
    "turned by up to 20°": Disturbance(turn=20),
    "turned by up to 45°": Disturbance(turn=45),
    "turned by up to 180°": Disturbance(turn=180),
    "bridge between two places": Disturbance(contact=True),
}


class Runs:
    """Rows that were measured, by (set, weights, settings)."""

    def __init__(self, options):
        self.options = options
        self.models = {"human": model.load("human")}
        for name in ("faust", "scape", "surreal"):
            path = options.weights / f"{name}.pth"
            if path.exists():
                self.models[name] = reference.import_weights(path)
        self.rows = []
        self.errors = {}

    def row(self, set_name, weights="human", **choices):
        """The summary of one row; None where its data or weights are missing."""
        folder, shapes, pairs = SETS[set_name]
        if choices.get("method") == "pyfm-wks":
            pairs = 60  # two seconds each
        path = self.options.data / folder
        if set_name == "SHREC'19 upright" and self.options.upright is not None:
            path = self.options.upright
        if weights not in self.models or not path.is_dir():
            return None
        disturbance = choices.pop("disturbance", Disturbance())
        settings = Settings(align="none", **choices, disturbance=disturbance)
        command = command_of(folder, shapes, pairs, weights, settings)
        for row in self.rows:
            if row["command"] == command:
                return row
        started = time.perf_counter()
        table = benchmark.bench(
            self.models[weights], path, settings, shapes=shapes, pairs=pairs,
            cache=self.options.cache, jobs=self.options.jobs,
        )  # fmt: skip
        row = {"set": set_name, "command": command, **table.summary()}
        row["wall_s"] = round(time.perf_counter() - started, 1)
        self.rows.append(row)
        self.errors[command] = table.apart.ravel()
        print(f"{row['mean_x100']:6.2f}  {row['wall_s']:6.1f} s  {command}", flush=True)
        return row


def command_of(folder, shapes, pairs, weights, settings):
    words = ["coembed", "bench", f"data/{folder}"]
    if shapes != slice(None):
        words += ["--shapes", f"{shapes.start}:{shapes.stop}"]
    if pairs != "all":
        words += ["--pairs", str(pairs)]
    if settings.method == "coe":
        words += ["--weights", weights if weights == "human" else f"{weights}.safetensors"]
    else:
        words += ["--method", settings.method]
    if settings.refine != "none":
        words += ["--refine", settings.refine]
    if settings.edges:
        words += ["--edges"]
    for name, value in vars(settings.disturbance).items():
        if value:
            words += [f"--{name}"] if value is True else [f"--{name}", str(value)]
    return shlex.join(words)


def cell(row):
    if row is None:
        return "-"
    return f"{row['mean_x100']:.2f} ({row['mean_low_x100']:.2f}-{row['mean_high_x100']:.2f})"


def main_table(runs):
    lines = ["| method, weights | " + " | ".join(f"{s}: paper | measured" for s in SETS) + " |"]
    lines.append("|---" * (1 + 2 * len(SETS)) + "|")
    chosen = [(name, name, {"method": name}, "human") for name in BASELINES]
    for weights in ("faust", "scape", "surreal", "human"):
        chosen.append((f"CoE, `{weights}`", f"coe {weights}", {}, weights))
    for refine in ("zoomout", "spectral", "register"):
        chosen.append((f"CoE, `human`, {refine}", "", {"refine": refine}, "human"))
    for title, key, choices, weights in chosen:
        cells = [title]
        for name in SETS:
            row = runs.row(name, weights, **choices) if wanted(name, title, choices) else None
            cells += [PAPER.get(key, {}).get(name, "-"), cell(row)]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def wanted(set_name, title, choices):
    """Turning changes nothing for methods that look at the surface alone; the rest takes hours."""
    if set_name == "SHREC'19":
        return not choices or choices.get("method") in ("spectral", "hks", "wks", "cqhb-hks")
    return set_name != "SHREC'19 upright" or "CoE" in title


def noise_table(runs):
    lines = ["| weights, sigma 0.01 | " + " | ".join(SETS) + " |", "|---" * (1 + len(SETS)) + "|"]
    lines.append(
        "| paper, SURREAL | " + " | ".join(NOISY_PAPER.get(name, "-") for name in SETS) + " |"
    )
    for weights in ("surreal", "human"):
        rows = [runs.row(name, weights, disturbance=Disturbance(noise=0.01)) for name in SETS]
        lines.append(f"| `{weights}` | " + " | ".join(cell(row) for row in rows) + " |")
    return lines


def robustness_table(runs):
    columns = [(name, weights) for name in ("FAUST", "SCAPE") for weights in ("surreal", "human")]
    lines = ["| shapes are | " + " | ".join(f"{n}, `{w}`" for n, w in columns) + " |"]
    lines.append("|---" * (1 + len(columns)) + "|")
    for title, disturbance in {"as they are": Disturbance(), **HARDER}.items():
        rows = [runs.row(n, w, disturbance=disturbance) for n, w in columns]
        lines.append(f"| {title} | " + " | ".join(cell(row) for row in rows) + " |")
    return lines


def detail_table(runs):
    columns = {
        "mean": "mean_x100", "with self pairs": "mean_with_self_pairs_x100",
        "median pair": "median_pair_x100", "worst pair": "worst_pair_x100",
        "AUC": "auc_25", "within 1 %": "within_1", "5 %": "within_5", "10 %": "within_10",
        "s a pair": "seconds_a_pair", "MB": "peak_mb",
    }  # fmt: skip
    lines = ["| set, weights | " + " | ".join(columns) + " |", "|---" * (1 + len(columns)) + "|"]
    for name in SETS:
        for weights in ("faust", "scape", "surreal", "human"):
            row = runs.row(name, weights)
            if row is not None:
                cells = [f"{row[k]:.4g}" if k in row else "-" for k in columns.values()]
                lines.append(f"| {name}, `{weights}` | " + " | ".join(cells) + " |")
    return lines


def draw(runs):
    for name in ("FAUST", "SCAPE"):
        curves = {}
        for title, weights, choices in (
            ("CoE human", "human", {}), ("CoE human, bijective ZoomOut", "human",
                                         {"refine": "spectral"}),
            ("CoE human, registered", "human", {"refine": "register"}),
            ("CoE surreal", "surreal", {}), ("CQHB-GT", "human", {"method": "cqhb-gt"}),
            ("pyFM on WKS", "human", {"method": "pyfm-wks"}), ("HKS", "human", {"method": "hks"}),
            ("spectral", "human", {"method": "spectral"}),
        ):  # fmt: skip
            row = runs.row(name, weights, **choices)
            if row is not None:
                curves[title] = runs.errors[row["command"]]
        charts.draw_curves(curves, ROOT / "docs" / f"curves-{name.lower()}", force=True)
    lines = {}
    for name in ("FAUST", "SCAPE"):
        for weights in ("surreal", "human"):
            rows = [runs.row(name, weights, disturbance=Disturbance(noise=s)) for s in SIGMAS]
            if None not in rows:
                lines[f"{name}, {weights}"] = (SIGMAS, [row["mean_x100"] for row in rows])
    labels = ("noise σ, part of the shape's radius", "mean geodesic error × 100")
    charts.draw_lines(lines, ROOT / "docs" / "noise", labels=labels, force=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--upright", type=Path, help="what benchmarks/upright.py made")
    parser.add_argument("--cache", type=Path, default=ROOT / "runs" / "cache")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    runs = Runs(parser.parse_args())
    date = datetime.date.today().isoformat()
    machine = f"{processor()}, {os.cpu_count()} cores"
    parts = {
        "Matching": main_table(runs),
        "Noise": noise_table(runs),
        "Robustness": robustness_table(runs),
        "Details": detail_table(runs),
    }
    draw(runs)
    facts = {
        "date": date, "machine": machine, "python": platform.python_version(),
        "numpy": np.__version__, "processes": runs.options.jobs,
    }  # fmt: skip
    RESULT.write_text(json.dumps({**facts, "rows": runs.rows}, indent=1) + "\n")
    text = [f"Measured {date} on {machine}, {runs.options.jobs} processes.", ""]
    for title, lines in parts.items():
        text += [f"### {title}", "", *lines, ""]
    commands = [row["command"] for row in runs.rows]
    text += ["### The command of each row", "", "```sh", *commands, "```", ""]
    page = PAGE.read_text()
    before, rest = page.split(MARKS[0])
    after = rest.split(MARKS[1])[1]
    PAGE.write_text(before + MARKS[0] + "\n\n" + "\n".join(text) + "\n" + MARKS[1] + after)


if __name__ == "__main__":
    sys.exit(main())
