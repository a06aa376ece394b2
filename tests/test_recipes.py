import pytest

from coembed import recipes
from coembed.datasets import DataConfig
from coembed.errors import FileFormatError, InputError
from coembed.losses import LossWeights
from coembed.model import ModelConfig
from coembed.training import TrainConfig

SHIPPED = recipes.names()


@pytest.mark.parametrize("name", SHIPPED)
def test_every_recipe_that_ships_can_be_read(name):
    recipe = recipes.read_recipe(name)
    assert recipe.name == name
    assert recipe.train.weights != LossWeights(0, 0, 0, 9)
    # weights trained to match by cosine are matched by cosine
    assert (recipe.train.model.similarity == "cosine") == bool(recipe.train.weights.matching)


@pytest.mark.parametrize("name", SHIPPED)
def test_every_recipe_says_what_it_is_for_in_few_lines(name):
    from importlib.resources import files

    text = (files("coembed") / "data" / "recipes" / f"{name}.toml").read_text()
    assert text.startswith("# ")
    assert len(text.splitlines()) <= 40


def test_the_ablations_differ_from_the_full_method_in_what_they_say():
    full = recipes.read_recipe("ablation-full").train
    assert (full.model.attention, full.model.smooth) == (True, "blocks")
    assert full.weights == LossWeights()
    found = {}
    for name in SHIPPED:
        if name.startswith("ablation-") and name != "ablation-full":
            one = recipes.read_recipe(name).train
            found[name.removeprefix("ablation-")] = {
                part
                for part, gone in (
                    ("off", not one.weights.off_diagonal),
                    ("ortho", not one.weights.orthonormality),
                    ("coupling", not one.weights.coupling),
                    ("asap", one.model.smooth == "none"),
                    ("attention", not one.model.attention),
                )
                if gone
            }
    assert len(found) == 7
    for name, gone in found.items():
        assert gone == set(name.removeprefix("no-").split("-"))


def test_the_sweep_has_eight_resolutions():
    sizes = sorted(
        recipes.read_recipe(name).train.model.dim for name in SHIPPED if name.startswith("k-")
    )
    assert sizes == [10, 20, 30, 40, 50, 60, 70, 80]


def test_a_file_gives_what_it_says_and_defaults_for_the_rest(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("[data]\nbodies = 7\n[model]\nn_blocks = 2\n[loss]\nmatching = 2.0\n")
    recipe = recipes.read_recipe(path)
    assert recipe.name == "mine"
    assert recipe.data == DataConfig(bodies=7)
    assert recipe.train == TrainConfig(
        model=ModelConfig(n_blocks=2), weights=LossWeights(matching=2.0)
    )


def test_changes_take_the_place_of_what_the_file_says():
    recipe = recipes.read_recipe(
        "tiny", ["train.steps=9", "model.smooth=blocks", "loss.coupling=3", 'data.shapes="1:2"']
    )
    assert recipe.train.steps == 9
    assert recipe.train.model.smooth == "blocks"
    assert recipe.train.weights.coupling == 3
    assert recipe.data.shapes == "1:2"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("steps=9", "expected TABLE.FIELD=VALUE"),
        ("train.steps", "expected TABLE.FIELD=VALUE"),
        ("train.pace=9", r"tiny: unknown field train.pace; expected one of steps, batch"),
        ("train.model=1", "unknown field train.model"),
        ("other.steps=9", "unknown table other; expected data, model, loss, train"),
        ("train.steps=0", "tiny: train steps must be a whole number"),
        ("train.steps=many", "tiny: "),
        ("data.shapes=3", "tiny: .*"),
        ("data.points=99", "need 100 points or more for training; got 99"),
        ("model.smooth=some", "model smooth must be one of"),
    ],
)
def test_changes_that_make_no_sense(change, message):
    with pytest.raises(InputError, match=message):
        recipes.read_recipe("tiny", [change])


def test_files_that_are_no_recipes(tmp_path):
    with pytest.raises(InputError, match=r"no such recipe; expected a \.toml file or one of abl"):
        recipes.read_recipe("none")
    with pytest.raises(FileFormatError, match="no such file"):
        recipes.read_recipe(tmp_path / "none.toml")
    path = tmp_path / "bad.toml"
    path.write_text("steps 3")
    with pytest.raises(FileFormatError, match="not a TOML file"):
        recipes.read_recipe(path)
    path.write_text("steps = 3")
    with pytest.raises(InputError, match="unknown table steps"):
        recipes.read_recipe(path)
