"""Weights under the reference's names, made here, and its attention written out."""

import pickle

import numpy as np
import pytest

from coembed.errors import FileFormatError, WeightsError
from coembed.reference import import_weights

torch = pytest.importorskip("torch")

WIDTH, DIM, HEADS = 16, 6, 4


class Code:
    def __reduce__(self):
        return (print, ("this must not be printed",))


def reference_state(rng, *, attention=True):
    """The reference's state dictionary, of a narrow network."""

    def tensor(*shape):
        return torch.tensor(rng.standard_normal(shape) / 4, dtype=torch.float32)

    state = {}

    def linear(name, n_in, n_out, *more):
        state[f"{name}.weight"], state[f"{name}.bias"] = tensor(n_out, n_in, *more), tensor(n_out)

    linear("feature_extractor.first_lin", 3, WIDTH)
    for i in range(4):
        name = f"feature_extractor.block_{i}"
        state[f"{name}.spec0.diffusion_time"] = tensor(WIDTH)
        state[f"{name}.spec0.laplacian_power"] = tensor(WIDTH)
        state[f"{name}.pairwise_dot.A_re.weight"] = tensor(WIDTH, WIDTH)
        state[f"{name}.pairwise_dot.A_im.weight"] = tensor(WIDTH, WIDTH)
        linear(f"{name}.mlp0.miniMLP_mlp_layer_000", 3 * WIDTH, WIDTH)
        linear(f"{name}.mlp0.miniMLP_mlp_layer_001", WIDTH, WIDTH)
        linear(f"{name}.mlp0.miniMLP_mlp_layer_002", WIDTH, WIDTH)
    linear("feature_extractor.last_lin", WIDTH, DIM)
    if attention:
        linear("refine.first_lin", DIM, WIDTH)
        for part in ("proj.0", "proj.1", "proj.2", "merge"):
            linear(f"refine.layers.0.attn.{part}", WIDTH, WIDTH, 1)
        linear("refine.layers.0.mlp.0", 2 * WIDTH, 2 * WIDTH, 1)
        linear("refine.layers.0.mlp.3", 2 * WIDTH, WIDTH, 1)
        linear("refine.last_lin", WIDTH, DIM)
    return state


def reference_refine(state, x, y):
    """The reference's cross-attention as it is written there: channels split (dim, heads)."""
    values = {name: value.numpy().astype(np.float64) for name, value in state.items()}

    def linear(name, signal):
        weight = values[f"{name}.weight"]
        return signal @ weight.reshape(weight.shape[:2]).T + values[f"{name}.bias"]

    def message(x, y):
        layer = "refine.layers.0"
        query, key, value = (
            linear(f"{layer}.attn.proj.{i}", s).reshape(len(s), WIDTH // HEADS, HEADS)
            for i, s in enumerate((x, y, y))
        )
        scores = np.einsum("ndh,mdh->hnm", query, key) / np.sqrt(WIDTH // HEADS)
        weights = np.exp(scores) / np.exp(scores).sum(axis=2, keepdims=True)
        mixed = np.einsum("hnm,mdh->ndh", weights, value).reshape(len(x), WIDTH)
        both = np.concatenate([x, linear(f"{layer}.attn.merge", mixed)], axis=1)
        hidden = linear(f"{layer}.mlp.0", both)
        hidden = (hidden - hidden.mean(axis=0)) / np.sqrt(hidden.var(axis=0) + 1e-5)
        return linear(f"{layer}.mlp.3", np.maximum(hidden, 0))

    x, y = linear("refine.first_lin", x), linear("refine.first_lin", y)
    x = x + message(x, y)
    y = y + message(y, x)
    return linear("refine.last_lin", x), linear("refine.last_lin", y)


@pytest.fixture
def saved(tmp_path, rng):
    state = reference_state(rng)
    torch.save(state, tmp_path / "cat.pth")
    return tmp_path / "cat.pth", state


def test_the_form_is_read_from_the_file(saved):
    model = import_weights(saved[0])
    config = model.config
    assert (config.dim, config.n_eig, config.width, config.n_blocks) == (6, 6, 16, 4)
    assert config.attention
    assert (config.centre, config.smooth, config.similarity) == ("points", "none", "l2")
    assert model.info["name"] == "cat"
    assert "research" in model.info["licence"]
    assert not any("power" in name for name in model.parameters)


def test_the_extractor_is_taken_over_unchanged(saved):
    path, state = saved
    found = import_weights(path).parameters
    for ours, theirs in (
        ("first.weight", "first_lin.weight"),
        ("last.bias", "last_lin.bias"),
        ("blocks.1.time", "block_1.spec0.diffusion_time"),
        ("blocks.0.rotate.real", "block_0.pairwise_dot.A_re.weight"),
        ("blocks.1.rotate.imaginary", "block_1.pairwise_dot.A_im.weight"),
        ("blocks.1.mlp.2.weight", "block_1.mlp0.miniMLP_mlp_layer_002.weight"),
    ):
        np.testing.assert_array_equal(
            found[f"extractor.{ours}"], state[f"feature_extractor.{theirs}"].numpy()
        )


def test_attention_with_contiguous_heads_is_the_references(saved, rng):
    path, state = saved
    x, y = rng.standard_normal((30, DIM)), rng.standard_normal((20, DIM))
    found = import_weights(path).couple(x.astype(np.float32), y.astype(np.float32))
    for ours, theirs in zip(found, reference_refine(state, x, y), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_names_of_a_wrapped_module_and_no_attention(tmp_path, rng):
    state = reference_state(rng, attention=False)
    torch.save({f"module.{name}": value for name, value in state.items()}, tmp_path / "a.pth")
    assert not import_weights(tmp_path / "a.pth").config.attention


def test_a_pickle_with_code_is_not_run(tmp_path, capsys):
    torch.save({"a": Code()}, tmp_path / "a.pth")
    with pytest.raises(FileFormatError, match=r"a\.pth: not a weights file of torch"):
        import_weights(tmp_path / "a.pth")
    (tmp_path / "b.pth").write_bytes(pickle.dumps({"a": Code()}))
    with pytest.raises(FileFormatError, match="not a weights file of torch") as caught:
        import_weights(tmp_path / "b.pth")
    assert "\n" not in str(caught.value)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("content", [[1, 2], {"a": 1}])
def test_other_content(tmp_path, content):
    torch.save(content, tmp_path / "a.pth")
    with pytest.raises(WeightsError, match="expected a mapping of names to tensors"):
        import_weights(tmp_path / "a.pth")


def test_weights_of_another_network(tmp_path, rng):
    torch.save({"conv.weight": torch.zeros(2)}, tmp_path / "a.pth")
    with pytest.raises(WeightsError, match="holds no weights of the reference's network"):
        import_weights(tmp_path / "a.pth")
    state = reference_state(rng)
    del state["feature_extractor.block_0.pairwise_dot.A_re.weight"]
    torch.save(state, tmp_path / "b.pth")
    with pytest.raises(WeightsError, match=r"missing \['extractor\.blocks\.0\.rotate\.real'\]"):
        import_weights(tmp_path / "b.pth")


def test_missing_and_empty_files(tmp_path):
    with pytest.raises(FileFormatError, match="no such file"):
        import_weights(tmp_path / "none.pth")
    (tmp_path / "a.pth").write_bytes(b"")
    with pytest.raises(FileFormatError, match="not a weights file of torch"):
        import_weights(tmp_path / "a.pth")
