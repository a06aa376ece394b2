"""The paper's ablation and its sweep of k, at small scale on generated bodies.

``python benchmarks/ablations.py`` trains the recipes ablation-* and k-* one after the other (what
was finished is kept in --runs and not trained again; an unfinished run goes on), then matches 12
generated people that no training saw, with and without cross-attention. Prints the tables and
writes benchmarks/results/ablations.json.
"""

import argparse
import json
import os
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import torch

from coembed import benchmark, datasets, model, recipes, training
from coembed.benchmark import Settings

ROOT = Path(__file__).parent.parent
RESULT = ROOT / "benchmarks" / "results" / "ablations.json"
PAPER = {  # table 4 of the paper, mean x 100 on FAUST and SCAPE
    "ablation-no-off-ortho": (20.1, 25.8),
    "ablation-no-ortho": (11.2, 15.6),
    "ablation-no-coupling": (5.6, 4.7),
    "ablation-no-asap": (3.9, 4.3),
    "ablation-no-attention": (4.0, 3.4),
    "ablation-no-asap-attention": (4.1, 3.6),
    "ablation-no-attention-coupling": (4.6, 4.9),
    "ablation-full": (3.7, 3.2),
}
SWEEP = [f"k-{k}" for k in range(10, 90, 10)]


def trained(name, runs, jobs, changes):
    recipe = recipes.read_recipe(name, changes)
    out = runs / name
    best = out / "best.safetensors"
    log = out / "log.jsonl"
    steps = len(log.read_text().splitlines()) if log.exists() else 0
    if steps < recipe.train.steps or not best.exists():
        examples, held_out, facts = datasets.training_sets(
            recipe.data, None, n_eig=recipe.train.model.n_eig, cache=runs / "examples"
        )
        for part in (examples, held_out):
            for _ in datasets.fill(part, jobs):
                pass
        training.train(
            examples, recipe.train, out=out, validation=held_out, resume=out.exists(),
            info={"name": name, "recipe": name, **facts},
        )  # fmt: skip
    return model.load(best)


def row(name, options):
    weights = trained(name, options.runs, options.jobs, options.set)
    result = {"steps": weights.info["step"]}
    for key, coupled in (("alone", False), ("coupled", True)):
        if coupled and not weights.config.attention:
            continue
        table = benchmark.bench(
            weights, options.runs / "people", Settings(coupled=coupled), jobs=options.jobs,
            cache=options.runs / "cache",
        )  # fmt: skip
        result[key] = round(table.summary()["mean_x100"], 2)
    print(name, result, flush=True)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "ablations")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", nargs="*", help="recipes; all if left out")
    parser.add_argument("--set", action="append", default=[], help="for every recipe")
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.runs.mkdir(parents=True, exist_ok=True)
    if not (options.runs / "people").exists():
        datasets.write_bodies(options.runs / "people", n=12, n_points=1500, seed=54321)
    names = options.only or [*PAPER, *SWEEP]
    results = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    for name in names:
        results[name] = row(name, options)
        RESULT.write_text(json.dumps(results, indent=1) + "\n")
    print("| row | paper: FAUST | SCAPE | measured: alone | with attention |")
    for name in names:
        paper = PAPER.get(name, ("-", "-"))
        cells = (*paper, results[name]["alone"], results[name].get("coupled", "-"))
        print(f"| {name} | " + " | ".join(map(str, cells)) + " |")


if __name__ == "__main__":
    main()
