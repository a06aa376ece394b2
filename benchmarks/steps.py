"""Time of a training step on this machine: float32, bfloat16, and compiled by torch.compile.

``python benchmarks/steps.py`` trains on a few generated bodies, one thread, and prints the median
seconds of a step for each; shapes differ in their number of points, as in training.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import torch
from speed import processor

from coembed import datasets, layers, losses, recipes, training

RESULT = Path(__file__).parent / "results" / "steps.json"


def seconds(examples, config, steps):
    """Median seconds of forward and backward pass, the first steps left out."""
    state = training._State(config, "cpu")
    taken = []
    for number in range(steps):
        started = time.perf_counter()
        state.optimizer.zero_grad()
        pair = (examples[number % len(examples)], examples[(number + 1) % len(examples)])
        losses.total(training.step(state.parameters, config, *pair), config.weights).backward()
        state.update(config.learning_rate)
        taken.append(time.perf_counter() - started)
    return round(statistics.median(taken[len(examples) + 1 :]), 3)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recipe", nargs="*", default=["human"])
    parser.add_argument("--steps", type=int, default=15)
    options = parser.parse_args()
    torch.set_num_threads(1)
    plain, results = layers.extractor, {}
    for name in options.recipe:
        recipe = recipes.read_recipe(name, ["data.bodies=4"])
        with tempfile.TemporaryDirectory() as cache:
            examples = list(
                datasets.training_sets(
                    recipe.data, None, n_eig=recipe.train.model.n_eig, cache=Path(cache)
                )[0]
            )
        results[name] = {}
        for precision in ("float32", "bfloat16"):
            config = replace(recipe.train, precision=precision)
            results[name][precision] = seconds(examples, config, options.steps)
            print(name, results[name], flush=True)
        layers.extractor = torch.compile(plain, dynamic=True)
        results[name]["float32, compiled"] = seconds(examples, recipe.train, options.steps)
        layers.extractor = plain
        print(name, results[name], flush=True)
    facts = {
        "date": time.strftime("%Y-%m-%d"),
        "machine": processor(),
        "torch": torch.__version__,
        "seconds": results,
    }
    RESULT.write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
