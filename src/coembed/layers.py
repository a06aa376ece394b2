"""Network blocks as pure functions of (parameters, operators, arrays).

Written once against the array API: NumPy runs them for inference, torch for training and on a
GPU. They know arrays and nothing of the task; `coembed.model` puts them together. Parameters
are a flat mapping from dotted names to arrays; a weight is (out, in) as in torch.
"""

from collections.abc import Mapping

import numpy as np

from coembed.annotations import Float
from coembed.shapes import Array, Operators, namespace

__all__ = ["attention", "cross_attention", "extractor", "linear"]

Parameters = Mapping[str, Array]
Landmarks = tuple[Array, Array]
"""Rows that stand for all of a shape, and how many points each stands for."""

_CHUNK = 512  # rows; a chunk of every intermediate array stays in the processor's cache


def linear(parameters: Parameters, name: str, x: Float[Array, "*n a"]) -> Float[Array, "*n b"]:
    """X Wᵀ + b."""
    result = x @ parameters[f"{name}.weight"].T
    result += parameters[f"{name}.bias"]
    return result


def extractor(
    parameters: Parameters,
    operators: Operators,
    features: Float[Array, "n c"],
    *,
    n_blocks: int,
    smooth: str = "none",
) -> Float[Array, "n d"]:
    """Intermediate embedding of one shape: linear, diffusion blocks, linear.

    Parameters
    ----------
    features
        Input signal, one row per point.
    smooth
        ``"blocks"`` projects the signal on the eigenvectors after each block (y <- Φ Φ⁺ y, the
        paper's ASAP variant); ``"none"`` does not (the released code and weights).

    References
    ----------
    [Zeng25] sec. 4.1 and supplement, sec. Architecture; [Sharp22]; [Attaiki23].
    """
    inverse = _spectral_inverse(operators)
    x = linear(parameters, "extractor.first", features)
    for block in range(n_blocks):
        x = _diffusion_block(parameters, f"extractor.blocks.{block}", operators, inverse, x)
        if smooth == "blocks":
            x = operators.evecs @ (inverse @ x)
    return linear(parameters, "extractor.last", x)


def _spectral_inverse(operators: Operators) -> Float[Array, "k n"]:
    """Φ⁺ = diag(ΦᵀMΦ)^-1/2 Φᵀ M, as in the reference."""
    xp = namespace(operators.evecs)
    weighted = operators.evecs * operators.mass[:, None]
    norms = xp.sqrt(xp.sum(weighted * operators.evecs, axis=0))
    return (weighted / norms).T


def _diffusion_block(
    parameters: Parameters,
    name: str,
    operators: Operators,
    inverse: Float[Array, "k n"],
    x: Float[Array, "n c"],
) -> Float[Array, "n c"]:
    """Learned diffusion, gradient features and a point-wise MLP with a skip connection.

    x_d = Φ exp(-Λ |t|) Φ⁺ x with a time per channel; g = tanh(<∇x_d, A ∇x_d>) with a complex
    linear A; x + MLP([x, x_d, g]). Only Φ⁺ x couples the points: the rest runs in chunks.
    """
    xp = namespace(x)
    time = xp.abs(parameters[f"{name}.time"])
    spectrum = xp.exp(-operators.evals[:, None] * time[None, :]) * (inverse @ x)
    # A and the first layer are applied to the spectrum: it has far fewer rows than there are points
    real, imaginary = (
        spectrum @ parameters[f"{name}.rotate.{part}"].T for part in ("real", "imaginary")
    )
    turned = xp.concat([spectrum, real, imaginary], axis=1)
    n, c = x.shape
    weight = parameters[f"{name}.mlp.0.weight"].T
    of_x, of_diffused, of_products = weight[:c], spectrum @ weight[c : 2 * c], weight[2 * c :]
    size = _CHUNK if isinstance(x, np.ndarray) else n
    chunks = []
    for start in range(0, n, size):
        rows = slice(start, start + size)
        products = _gradient_features(
            operators.grad_x[rows] @ turned, operators.grad_y[rows] @ turned
        )
        hidden = products @ of_products
        hidden += x[rows] @ of_x
        hidden += operators.evecs[rows] @ of_diffused
        hidden += parameters[f"{name}.mlp.0.bias"]
        hidden = _relu(linear(parameters, f"{name}.mlp.1", _relu(hidden)))
        hidden = linear(parameters, f"{name}.mlp.2", hidden)
        hidden += x[rows]
        chunks.append(hidden)
    return chunks[0] if len(chunks) == 1 else xp.concat(chunks, axis=0)


def _gradient_features(
    along_x: Float[Array, "n three_c"], along_y: Float[Array, "n three_c"]
) -> Float[Array, "n c"]:
    """Tanh of the real inner product of a gradient and its learned complex-linear image.

    For each axis: the gradient, its image under the real part, that under the imaginary part.
    """
    c = along_x.shape[1] // 3
    grad_x, real_x, imaginary_x = (along_x[:, i * c : (i + 1) * c] for i in range(3))
    grad_y, real_y, imaginary_y = (along_y[:, i * c : (i + 1) * c] for i in range(3))
    return namespace(along_x).tanh(
        grad_x * (real_x - imaginary_y) + grad_y * (real_y + imaginary_x)
    )


def _relu(x: Float[Array, "n c"]) -> Float[Array, "n c"]:
    """Of an array that nobody else holds: NumPy does it in place."""
    if isinstance(x, np.ndarray):
        # a row of zeros: with the number 0 it takes three times as long
        return np.maximum(x, np.zeros(x.shape[1], dtype=x.dtype), out=x)
    return namespace(x).clip(x, min=0)


def cross_attention(
    parameters: Parameters,
    x: Float[Array, "n d"],
    y: Float[Array, "m d"],
    *,
    n_heads: int,
    landmarks: tuple[Landmarks, Landmarks] | None = None,
) -> tuple[Float[Array, "n d"], Float[Array, "m d"]]:
    """Refine two intermediate embeddings by one layer of cross-attention.

    x <- x + MLP([x, attention(x, y)]), then y <- y + MLP([y, attention(y, x)]) with the x just
    updated, so the order of the two shapes matters.

    Parameters
    ----------
    landmarks
        Of x and of y: rows that stand for all, and how many points each stands for. Attention
        then looks at these only, each counted as often as it stands for a point, in time linear
        in n and m.

    References
    ----------
    [Zeng25] sec. 4.1; the block is that of [Attaiki21].
    """
    of_x, of_y = (None, None) if landmarks is None else landmarks
    x, y = linear(parameters, "refiner.first", x), linear(parameters, "refiner.first", y)
    x = x + _message(parameters, x, y, n_heads, of_y)
    y = y + _message(parameters, y, x, n_heads, of_x)
    return linear(parameters, "refiner.last", x), linear(parameters, "refiner.last", y)


def _message(
    parameters: Parameters,
    x: Float[Array, "n c"],
    y: Float[Array, "m c"],
    n_heads: int,
    landmarks: Landmarks | None,
) -> Float[Array, "n c"]:
    xp = namespace(x)
    counts = None
    if landmarks is not None:
        y, counts = y[landmarks[0]], landmarks[1]
    query, key, value = (
        linear(parameters, f"refiner.{part}", signal)
        for part, signal in (("query", x), ("key", y), ("value", y))
    )
    message = attention(query, key, value, n_heads=n_heads, counts=counts)
    merged = linear(parameters, "refiner.merge", message)
    hidden = linear(parameters, "refiner.mlp.0", xp.concat([x, merged], axis=1))
    centred = hidden - xp.mean(hidden, axis=0, keepdims=True)
    variance = xp.mean(centred * centred, axis=0, keepdims=True)
    return linear(parameters, "refiner.mlp.1", _relu(centred / xp.sqrt(variance + 1e-5)))


def attention(
    query: Float[Array, "n c"],
    key: Float[Array, "m c"],
    value: Float[Array, "m c"],
    *,
    n_heads: int,
    counts: Float[Array, " m"] | None = None,
) -> Float[Array, "n c"]:
    """softmax(Q Kᵀ / sqrt(c / h) + log counts) V per head, in memory linear in n and m.

    Each head owns a contiguous run of channels. Torch runs its fused kernel; NumPy takes the
    queries in chunks.
    """
    xp = namespace(query)
    width = query.shape[1] // n_heads
    bias = None if counts is None else xp.log(counts)[None, :]
    if not isinstance(query, np.ndarray):
        from torch.nn.functional import scaled_dot_product_attention

        query, key, value = (
            part.reshape(1, -1, n_heads, width).transpose(1, 2) for part in (query, key, value)
        )
        merged = scaled_dot_product_attention(query, key, value, attn_mask=bias)
        return merged.transpose(1, 2).reshape(-1, n_heads * width)
    heads = []
    for head in range(n_heads):
        channels = slice(head * width, (head + 1) * width)
        keys, values = key[:, channels].T, value[:, channels]
        chunks = []
        for start in range(0, query.shape[0], _CHUNK):
            scores = query[start : start + _CHUNK, channels] @ keys / width**0.5
            if bias is not None:
                scores = scores + bias
            weights = xp.exp(scores - xp.max(scores, axis=1, keepdims=True))
            chunks.append(weights @ values / xp.sum(weights, axis=1, keepdims=True))
        heads.append(xp.concat(chunks, axis=0))
    return xp.concat(heads, axis=1)
