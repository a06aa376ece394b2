import json

import numpy as np
import pytest
from safetensors.numpy import save_file

from coembed import model as models
from coembed.errors import FileFormatError, InputError, WeightsError
from coembed.model import CoupledEmbedding, ModelConfig, initial_parameters, load, save


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dim": 0}, "model dim must be a whole number of 1 or more; got 0"),
        ({"n_blocks": 2.5}, "n_blocks must be a whole number"),
        ({"width": "128"}, "width must be a whole number"),
        ({"width": 30}, "width must be a multiple of n_heads; got 30 and 4"),
        ({"smooth": "all"}, "smooth must be one of none, blocks; got 'all'"),
        ({"centre": "mean"}, "centre must be one of area, points"),
        ({"similarity": "L2"}, "similarity must be one of l2, cosine"),
    ],
)
def test_config_rejects_nonsense(unchecked, change, message):
    with pytest.raises(InputError, match=message):
        ModelConfig(**change)


@pytest.mark.parametrize("attention", [True, False])
def test_initial_parameters_have_the_shapes_asked_for(attention):
    config = ModelConfig(dim=5, n_eig=7, width=12, n_blocks=3, n_heads=3, attention=attention)
    parameters = initial_parameters(config, 0)
    shapes = {name: value.shape for name, value in parameters.items()}
    assert shapes == models.parameter_shapes(config)
    assert any(name.startswith("refiner.") for name in shapes) == attention
    assert {value.dtype for value in parameters.values()} == {np.dtype(np.float32)}


def test_initial_parameters_follow_their_rule_and_their_seed(tiny_config):
    one, same, other = (initial_parameters(tiny_config, seed) for seed in (0, 0, 1))
    for name, value in one.items():
        np.testing.assert_array_equal(value, same[name])
    assert (one["extractor.first.weight"] != other["extractor.first.weight"]).all()
    assert (one["extractor.blocks.0.time"] == np.float32(1e-4)).all()
    assert np.abs(one["extractor.blocks.1.mlp.0.weight"]).max() <= 1 / np.sqrt(48)
    assert np.abs(one["extractor.blocks.1.mlp.0.bias"]).max() <= 1 / np.sqrt(48)
    assert not one["refiner.mlp.1.bias"].any()


def test_the_default_is_the_form_of_the_released_network():
    config = ModelConfig()
    assert (config.dim, config.n_eig, config.width, config.n_blocks) == (79, 79, 128, 4)
    count = sum(int(np.prod(s)) for s in models.parameter_shapes(config).values())
    # worked out from the blocks: first, 4 x (time, rotate, MLP), last; refiner
    block = 128 + 2 * 128**2 + (384 * 128 + 128) + 2 * (128**2 + 128)
    extractor = (3 * 128 + 128) + 4 * block + (128 * 79 + 79)
    refiner = (79 * 128 + 128) + 4 * (128**2 + 128) + (256**2 + 256) + (256 * 128 + 128)
    assert count == extractor + refiner + (128 * 79 + 79)


def test_embeddings_have_a_row_for_each_distinct_point(
    tiny_model, torus_operators, sphere_operators
):
    one, other = tiny_model(torus_operators, sphere_operators)
    assert one.shape == (700, 8)
    assert other.shape == (500, 8)
    assert one.dtype == np.float32
    alone = tiny_model.embed(torus_operators)
    assert np.abs(alone - one).max() > 1e-3
    again = tiny_model.couple(alone, tiny_model.embed(sphere_operators))
    np.testing.assert_array_equal(again[0], one)


def test_torch_and_numpy_agree_on_a_whole_pair(tiny_model, torus_operators, sphere_operators):
    torch = pytest.importorskip("torch")
    parameters = {name: torch.as_tensor(value) for name, value in tiny_model.parameters.items()}
    other = CoupledEmbedding(tiny_model.config, parameters)
    for found, wanted in zip(
        other(torus_operators, sphere_operators),
        tiny_model(torus_operators, sphere_operators),
        strict=True,
    ):
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-4, atol=1e-5)


def test_centre_of_the_points_is_their_mean(tiny_model, torus_operators):
    config = ModelConfig(**{**vars(tiny_model.config), "centre": "points"})
    found = CoupledEmbedding(config, tiny_model.parameters).embed(torus_operators)
    assert np.abs(found - tiny_model.embed(torus_operators)).max() > 1e-4


def test_no_coupled_mode_without_attention(torus_operators):
    config = ModelConfig(dim=8, n_eig=16, width=16, n_blocks=1, n_heads=2, attention=False)
    model = CoupledEmbedding(config, initial_parameters(config, 0), {"name": "plain"})
    assert model.embed(torus_operators).shape == (700, 8)
    with pytest.raises(WeightsError, match="'plain' hold no cross-attention"):
        model(torus_operators, torus_operators)


def test_parameters_must_fit_the_config(tiny_model):
    parameters = dict(tiny_model.parameters)
    del parameters["extractor.last.bias"]
    with pytest.raises(WeightsError, match=r"missing \['extractor\.last\.bias'\], unexpected none"):
        CoupledEmbedding(tiny_model.config, parameters)
    parameters |= {"extractor.last.bias": np.zeros(8, np.float32), "more": np.zeros(1, np.float32)}
    with pytest.raises(WeightsError, match=r"missing none, unexpected \['more'\]"):
        CoupledEmbedding(tiny_model.config, parameters)
    del parameters["more"]
    parameters["extractor.last.bias"] = np.zeros(9, np.float32)
    with pytest.raises(WeightsError, match=r"extractor\.last\.bias must be \(8,\); got \(9,\)"):
        CoupledEmbedding(tiny_model.config, parameters)


# ------------------------------------------------------------------------------------ files


def test_save_and_load_round_trip(tiny_model, tmp_path):
    save(tiny_model, tmp_path / "a.safetensors")
    again = load(tmp_path / "a.safetensors")
    assert again.config == tiny_model.config
    assert again.info == {"name": "tiny"}
    assert again.parameters.keys() == tiny_model.parameters.keys()
    for name, value in again.parameters.items():
        np.testing.assert_array_equal(value, tiny_model.parameters[name])
    save(again, tmp_path / "b.safetensors")
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()


def test_save_does_not_overwrite_unasked(tiny_model, tmp_path):
    save(tiny_model, tmp_path / "a.safetensors")
    with pytest.raises(InputError, match="exists already"):
        save(tiny_model, tmp_path / "a.safetensors")
    save(tiny_model, tmp_path / "a.safetensors", force=True)


def test_the_shipped_weights_load():
    model = load("human")
    assert model.info["licence"]
    assert model.info["data"]


@pytest.mark.parametrize("ending", [".pth", ".pt"])
def test_weights_of_torch_come_with_a_hint(ending):
    with pytest.raises(WeightsError, match=rf"coembed import-weights a{ending} a\.safetensors"):
        load(f"a{ending}")


def test_missing_weights():
    with pytest.raises(FileFormatError, match="no such file"):
        load("nowhere.safetensors")


def test_no_safetensors_file(tmp_path):
    (tmp_path / "a.safetensors").write_text("hello")
    with pytest.raises(FileFormatError, match="not a safetensors file"):
        load(tmp_path / "a.safetensors")


def test_weights_cut_off(tiny_model, tmp_path):
    save(tiny_model, tmp_path / "a.safetensors")
    content = (tmp_path / "a.safetensors").read_bytes()
    (tmp_path / "b.safetensors").write_bytes(content[:-40])
    with pytest.raises(FileFormatError, match="not a safetensors file"):
        load(tmp_path / "b.safetensors")


@pytest.mark.parametrize("header", [None, {"format": "pt"}])
def test_safetensors_of_another_kind(tmp_path, header):
    save_file({"a": np.zeros(2, np.float32)}, tmp_path / "a.safetensors", metadata=header)
    with pytest.raises(WeightsError, match="expected the header 'coembed-weights-1', got"):
        load(tmp_path / "a.safetensors")


def with_config(tiny_model, path, **change):
    config = {k: v for k, v in {**vars(tiny_model.config), **change}.items() if v is not None}
    header = {"format": "coembed-weights-1", "config": config, "info": {}}
    save_file(dict(tiny_model.parameters), path, metadata={"coembed": json.dumps(header)})
    return path


def test_config_of_another_version(tiny_model, tmp_path):
    with pytest.raises(WeightsError, match=r"its config has the keys.*'wings'.*this version knows"):
        load(with_config(tiny_model, tmp_path / "a.safetensors", wings=2))
    with pytest.raises(WeightsError, match="its config has the keys"):
        load(with_config(tiny_model, tmp_path / "b.safetensors", centre=None))


def test_config_that_does_not_fit_the_arrays(tiny_model, tmp_path):
    with pytest.raises(WeightsError, match="must be"):
        load(with_config(tiny_model, tmp_path / "a.safetensors", dim=9))
    with pytest.raises(WeightsError, match="missing"):
        load(with_config(tiny_model, tmp_path / "b.safetensors", n_blocks=3))
