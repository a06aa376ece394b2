from dataclasses import replace

import numpy as np
import pytest

from coembed import layers
from coembed.model import in_backend_of


def dense_attention(query, key, value, n_heads):
    """The formula, written out."""
    width = query.shape[1] // n_heads
    result = np.empty((len(query), query.shape[1]))
    for head in range(n_heads):
        part = slice(head * width, (head + 1) * width)
        weights = np.exp(query[:, part] @ key[:, part].T / np.sqrt(width))
        result[:, part] = weights / weights.sum(axis=1, keepdims=True) @ value[:, part]
    return result


@pytest.fixture
def signals(rng):
    # 1100 is no multiple of the chunk of 512, 70 is less than one
    return rng.standard_normal((1100, 8)), *rng.standard_normal((2, 70, 8))


def test_linear_by_hand():
    parameters = {"a.weight": np.array([[1.0, 2.0], [0.0, -1.0]]), "a.bias": np.array([0.5, 0.0])}
    np.testing.assert_array_equal(
        layers.linear(parameters, "a", np.array([[3.0, 4.0]])), [[11.5, -4.0]]
    )


def test_attention_is_the_formula_across_chunk_boundaries(signals):
    np.testing.assert_allclose(
        layers.attention(*signals, n_heads=2), dense_attention(*signals, 2), rtol=1e-10
    )


def test_attention_of_torch_and_numpy_agree(signals):
    torch = pytest.importorskip("torch")
    found = layers.attention(*(torch.as_tensor(s) for s in signals), n_heads=4)
    np.testing.assert_allclose(
        found.numpy(), layers.attention(*signals, n_heads=4), rtol=1e-8, atol=1e-10
    )


def test_attention_to_one_point_is_its_value(signals):
    query, key, value = signals
    found = layers.attention(query, key[:1], value[:1], n_heads=2)
    np.testing.assert_allclose(found, np.repeat(value[:1], 1100, axis=0))


def test_attention_survives_large_scores(signals):
    query, key, value = signals
    found = layers.attention(1e4 * query, key, value, n_heads=2)
    assert np.isfinite(found).all()


def test_no_chunk_of_attention_sees_all_pairs_at_once(signals, monkeypatch):
    """Memory is linear: results do not depend on the chunk, and chunks may be tiny."""
    whole = layers.attention(*signals, n_heads=2)
    for chunk in (1, 7, 1099, 5000):
        monkeypatch.setattr(layers, "_CHUNK", chunk)
        np.testing.assert_allclose(layers.attention(*signals, n_heads=2), whole, rtol=1e-10)


def extracted(model, operators, smooth="none", points=None):
    operators = in_backend_of(operators, model.parameters["extractor.first.weight"])
    points = operators.points if points is None else points
    return layers.extractor(model.parameters, operators, points, n_blocks=2, smooth=smooth)


@pytest.mark.parametrize("chunk", [1, 100, 699, 700, 701])
def test_the_extractor_does_not_depend_on_its_chunk(
    tiny_model, torus_operators, monkeypatch, chunk
):
    whole = extracted(tiny_model, torus_operators)
    monkeypatch.setattr(layers, "_CHUNK", chunk)
    np.testing.assert_allclose(extracted(tiny_model, torus_operators), whole, atol=1e-5)


@pytest.mark.parametrize("smooth", ["none", "blocks"])
def test_the_extractor_is_equivariant_to_the_order_of_points(
    tiny_model, torus_operators, smooth, rng
):
    order = rng.permutation(700)
    names = ("points", "mass", "evecs", "grad_x", "grad_y")
    shuffled = replace(
        torus_operators, **{name: getattr(torus_operators, name)[order] for name in names}
    )
    np.testing.assert_allclose(
        extracted(tiny_model, shuffled, smooth),
        extracted(tiny_model, torus_operators, smooth)[order],
        atol=1e-5,
    )


def test_the_sign_of_an_eigenvector_changes_nothing(tiny_model, torus_operators, rng):
    sign = rng.choice([-1.0, 1.0], 16)
    names = ("evecs", "grad_x", "grad_y")
    flipped = replace(
        torus_operators, **{name: getattr(torus_operators, name) * sign for name in names}
    )
    np.testing.assert_allclose(
        extracted(tiny_model, flipped), extracted(tiny_model, torus_operators), atol=1e-5
    )


def test_a_turn_of_the_tangent_frames_changes_nothing(tiny_model, torus_operators, rng):
    angle = rng.uniform(0, 2 * np.pi, (700, 1))
    x, y = torus_operators.grad_x, torus_operators.grad_y
    turned = replace(
        torus_operators,
        grad_x=np.cos(angle) * x - np.sin(angle) * y,
        grad_y=np.sin(angle) * x + np.cos(angle) * y,
    )
    np.testing.assert_allclose(
        extracted(tiny_model, turned), extracted(tiny_model, torus_operators), atol=1e-5
    )


def test_smooth_blocks_end_in_the_span_of_the_eigenvectors(tiny_model, torus_operators):
    parameters = {
        **tiny_model.parameters,
        "extractor.last.weight": np.eye(16, dtype=np.float32),
        "extractor.last.bias": np.zeros(16, dtype=np.float32),
    }
    one = in_backend_of(torus_operators, parameters["extractor.last.weight"])

    def outside(smooth):
        found = layers.extractor(parameters, one, one.points, n_blocks=2, smooth=smooth)
        inside = one.evecs @ (one.evecs.T @ (one.mass[:, None] * found))
        return np.abs(found - inside).max() / np.abs(found).max()

    assert outside("blocks") < 1e-5
    assert outside("none") > 1e-2


def test_diffusion_at_time_zero_is_the_projection(torus_operators, rng):
    """With an MLP that passes only x_d on, a block adds the projection to its input."""
    width = 3
    zeros, eye = np.zeros((width, width)), np.eye(width)
    parameters = {
        "b.time": np.zeros(width), "b.rotate.real": eye, "b.rotate.imaginary": zeros,
        "b.mlp.0.weight": np.concatenate([zeros, eye, zeros], axis=1),
        "b.mlp.0.bias": 9 + 0 * eye[0],
        "b.mlp.1.weight": eye, "b.mlp.1.bias": 0 * eye[0],
        "b.mlp.2.weight": eye, "b.mlp.2.bias": 0 * eye[0] - 9,
    }  # fmt: skip
    one, x = torus_operators, rng.standard_normal((700, width))
    inverse = layers._spectral_inverse(one)
    np.testing.assert_allclose(inverse @ one.evecs, np.eye(16), atol=1e-9)
    projected = one.evecs @ (one.evecs.T @ (one.mass[:, None] * x))
    found = layers._diffusion_block(parameters, "b", one, inverse, x)
    np.testing.assert_allclose(found - x, projected, atol=1e-9)
    parameters["b.time"] = np.full(width, -0.03)  # its size counts, not its sign
    found = layers._diffusion_block(parameters, "b", one, inverse, x) - x
    np.testing.assert_allclose(inverse @ found, np.exp(-0.03 * one.evals)[:, None] * (inverse @ x))


@pytest.mark.parametrize("smooth", ["none", "blocks"])
def test_the_extractor_of_torch_and_numpy_agree(tiny_model, torus_operators, smooth):
    torch = pytest.importorskip("torch")
    parameters = {name: torch.as_tensor(value) for name, value in tiny_model.parameters.items()}
    one = in_backend_of(torus_operators, parameters["extractor.first.weight"])
    found = layers.extractor(parameters, one, one.points, n_blocks=2, smooth=smooth)
    np.testing.assert_allclose(
        found.numpy(), extracted(tiny_model, torus_operators, smooth), rtol=1e-5, atol=1e-5
    )


def test_cross_attention_of_torch_and_numpy_agree(tiny_model, rng):
    torch = pytest.importorskip("torch")
    x, y = (rng.standard_normal((n, 8)).astype(np.float32) for n in (600, 45))
    parameters = {name: torch.as_tensor(value) for name, value in tiny_model.parameters.items()}
    found = layers.cross_attention(parameters, torch.as_tensor(x), torch.as_tensor(y), n_heads=2)
    wanted = layers.cross_attention(tiny_model.parameters, x, y, n_heads=2)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one.numpy(), other, rtol=1e-5, atol=1e-5)


def test_cross_attention_is_equivariant_and_its_order_matters(tiny_model, rng):
    x, y = (rng.standard_normal((n, 8)).astype(np.float32) for n in (60, 45))
    order = rng.permutation(60)
    one = layers.cross_attention(tiny_model.parameters, x, y, n_heads=2)
    other = layers.cross_attention(tiny_model.parameters, x[order], y, n_heads=2)
    np.testing.assert_allclose(other[0], one[0][order], atol=1e-5)
    np.testing.assert_allclose(other[1], one[1], atol=1e-5)
    swapped = layers.cross_attention(tiny_model.parameters, y, x, n_heads=2)
    assert np.abs(swapped[0] - one[1]).max() > 1e-4
