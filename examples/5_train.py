"""Train weights on a folder of your own shapes, without any truth, and use them.

The weights are run/best.safetensors, for `coembed.load` and for --weights.
Forty steps show that it runs; docs/training.md says what good weights take.
Needs torch: pip install "coembed[train]".
"""

from pathlib import Path

import coembed
from coembed import datasets, recipes

if not Path("people").exists():
    datasets.write_bodies(Path("people"), n=2, n_points=1500, seed=0)
changes = ["data.bodies=0", "data.points=300", "model.n_blocks=2", "model.width=32"]
# the paper's three terms, which need shapes only
changes += ["loss.matching=0", "loss.off_diagonal=1", "loss.orthonormality=1", "loss.coupling=1"]
recipe = recipes.read_recipe("tiny", [*changes, "train.steps=40", "train.save_every=40"])
examples, held_out, facts = datasets.training_sets(
    recipe.data, Path("people"), n_eig=recipe.train.model.n_eig, cache=Path("examples-cache")
)

model = coembed.train(examples, recipe.train, out=Path("run"), validation=held_out, info=facts)

source, target = (coembed.read(path) for path in sorted(Path("people/off").glob("*.ply"))[:2])
print(f"{len(coembed.match(model, source, target).p2p)} points matched by weights of your own")
