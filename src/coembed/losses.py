"""What training minimises: the paper's three unsupervised terms and matching from exact truth.

Takes embeddings and operators, gives unweighted scalars; `LossWeights` is applied in one place,
`total`. Written against the array API: torch differentiates them, NumPy evaluates them.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from coembed.annotations import Float
from coembed.errors import InputError
from coembed.shapes import Array, namespace

__all__ = [
    "LossWeights",
    "coupling_loss",
    "matching_loss",
    "off_diagonal_loss",
    "off_diagonal_part_loss",
    "orthonormality_loss",
    "total",
]

_PAIRED = 3.0  # in sigma: a point without a partner so near has none


@dataclass(frozen=True)
class LossWeights:
    """Weight of each term; 0 leaves it out. The default is the released code's objective."""

    off_diagonal: float | int = 1.0
    """The paper and the released code: 1."""
    orthonormality: float | int = 1000.0
    """The released code: 1000; the paper's text: 50."""
    coupling: float | int = 50.0
    """The released code: 50; the paper's text: 1000."""
    matching: float | int = 0.0
    """Matching loss from exact truth; not in the paper; needs data with truth."""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not 0 <= value < float("inf"):
                raise InputError(f"loss weight {name} must be 0 or more; got {value}")
        if not any(asdict(self).values()):
            raise InputError("at least one loss weight must be above 0")


def off_diagonal_loss(
    embedding: Float[Array, "n k"], laplacian: Array, evals: Float[Array, " k"]
) -> Float[Array, ""]:
    r"""How far an embedding is from the shape's own eigenbasis, in energy.

    .. math:: \|\Psi^\top L \Psi - \Lambda\|_F

    References
    ----------
    [Zeng25] eq. 4, one of its two summands.
    """
    xp = namespace(embedding)
    return _norm(
        embedding.T @ (laplacian @ embedding) - xp.eye(len(evals), dtype=evals.dtype) * evals
    )


def off_diagonal_part_loss(embedding: Float[Array, "n k"], laplacian: Array) -> Float[Array, ""]:
    r"""How far the embedding of a part is from separate frequencies, whatever these are.

    .. math:: \|\Psi^\top L \Psi - \mathrm{diag}(\Psi^\top L \Psi)\|_F

    References
    ----------
    [Zeng25] supplement, off-diagonal loss of partial shapes.
    """
    xp = namespace(embedding)
    energy = embedding.T @ (laplacian @ embedding)
    return _norm(energy * (1 - xp.eye(energy.shape[0], dtype=energy.dtype)))


def orthonormality_loss(
    embedding: Float[Array, "n k"], mass: Float[Array, " n"]
) -> Float[Array, ""]:
    r"""How far an embedding is from mass-orthonormal.

    .. math:: \|\Psi^\top M \Psi - I\|_F

    References
    ----------
    [Zeng25] eq. 5, one of its two summands.
    """
    xp = namespace(embedding)
    gram = embedding.T @ (mass[:, None] * embedding)
    return _norm(gram - xp.eye(gram.shape[0], dtype=gram.dtype))


def coupling_loss(
    source: tuple[Float[Array, "n d"], Float[Array, " n"], Float[Array, "n k"]],
    target: tuple[Float[Array, "m d"], Float[Array, " m"], Float[Array, "m k"]],
) -> Float[Array, ""]:
    r"""How differently corresponding descriptors look in the two embeddings.

    .. math:: \|D_S^\top M_S \Psi_S - D_T^\top M_T \Psi_T\|_F

    Parameters
    ----------
    source, target
        Descriptors, mass and embedding of each shape.

    References
    ----------
    [Zeng25] eq. 6.
    """
    (d_s, m_s, psi_s), (d_t, m_t, psi_t) = source, target
    return _norm(d_s.T @ (m_s[:, None] * psi_s) - d_t.T @ (m_t[:, None] * psi_t))


def matching_loss(
    source: Float[Array, "n k"],
    target: Float[Array, "m k"],
    distance: Float[Array, "n m"],
    temperature: Float[Array, ""],
    *,
    sigma: float = 0.02,
) -> Float[Array, ""]:
    r"""Cross-entropy of cosine similarity against a soft exact truth, in both directions.

    With rows normalised, C = Ψ_S Ψ_Tᵀ and G = exp(-d² / 2σ²): the mean over rows of the
    cross-entropy between softmax(e^temperature C) and G normalised to rows, plus the same for
    columns. Points that have no partner within 3σ, as on a whole that is matched with a part, are
    left out of the mean.

    Parameters
    ----------
    distance
        Distances between the two points' places on the mean body, metres.
    temperature
        Logarithm of the factor on the cosine; learned.
    sigma
        Width of the target, metres.
    """
    xp = namespace(source)
    source = source / xp.linalg.vector_norm(source, axis=1, keepdims=True)
    target = target / xp.linalg.vector_norm(target, axis=1, keepdims=True)
    logits = xp.exp(temperature) * (source @ target.T)
    # the floor of e^-60 keeps denormal numbers, a hundred times slower, out of the sums
    likeness = xp.exp(xp.clip(-(distance**2) / (2 * sigma**2), min=-60.0))
    result = 0.0
    for axis in (0, 1):
        wanted = likeness / xp.sum(likeness, axis=axis, keepdims=True)
        entropy = _log_sum_exp(logits, axis) - xp.sum(wanted * logits, axis=axis)
        paired = xp.astype(xp.min(distance, axis=axis) < _PAIRED * sigma, entropy.dtype)
        result = result + xp.sum(paired * entropy) / xp.clip(xp.sum(paired), min=1)
    return result


def total(terms: Mapping[str, Array], weights: LossWeights) -> Array:
    """The weighted sum that is optimised; terms with weight 0 need not be there."""
    return sum(weight * terms[name] for name, weight in asdict(weights).items() if weight)


def _log_sum_exp(x: Float[Array, "n m"], axis: int) -> Float[Array, " r"]:
    xp = namespace(x)
    largest = xp.max(x, axis=axis, keepdims=True)
    return xp.log(xp.sum(xp.exp(x - largest), axis=axis)) + xp.squeeze(largest, axis=axis)


def _norm(x: Float[Array, "a b"]) -> Float[Array, ""]:
    return namespace(x).linalg.matrix_norm(x)
