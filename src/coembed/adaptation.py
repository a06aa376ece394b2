"""Two embeddings to two that agree better: the last layer, trained on the pair itself.

The truth of the pair is not known; its own mutual matches stand for it. Takes and gives
`Embedding`; needs torch.
"""

from dataclasses import replace

import numpy as np

from coembed import losses
from coembed.annotations import Float, Int
from coembed.errors import InputError, MissingExtraError
from coembed.search import there_and_back
from coembed.shapes import Embedding

__all__ = ["STEPS", "adapt", "check"]

STEPS = 12
"""Steps for each second that is asked for; a number, so that the answer is always the same."""

_MATCHES = 1000  # of the pair that a step looks at
_MUTUAL = 0.05  # in sqrt(area): a match whose way back ends nearer is taken for true
_FACTOR = 32.0  # on the cosine, as training left it
_METRES = 1.4  # sqrt(area) of the people whose distances the loss was made for
_RATE = 3e-3


def check(seconds: float) -> None:
    """Raise `InputError` for what is no time to adapt for."""
    if not 0 <= seconds < np.inf:
        raise InputError(f"adapt must be a number of seconds, 0 or more; got {seconds}")


def adapt(source: Embedding, target: Embedding, steps: int) -> tuple[Embedding, Embedding, str]:
    """Embeddings of the pair after some steps, or as they were, and a remark on which.

    The network's last layer is linear, so training it is finding one matrix for both embeddings:
    that of the least `coembed.losses.matching_loss` between mutual matches. It is kept only if,
    with it, the way there and back leads nearer home (mean over the source's sample).

    Raises
    ------
    MissingExtraError
        Without torch.
    """
    try:
        import torch
    except ImportError as error:
        raise MissingExtraError('adapting needs torch: pip install "coembed[train]"') from error
    pair = source.values, target.values
    points, places = (one.points[one.sample] for one in (source, target))
    there, before = _there_and_back(points, *pair)
    mutual = np.flatnonzero(before < _MUTUAL)
    if len(mutual) < 2:
        return source, target, "not adapted: hardly a match of the pair is mutual"
    x, y = (torch.tensor(values) for values in pair)
    matrix = torch.eye(x.shape[1], requires_grad=True)
    optimiser = torch.optim.Adam([matrix], _RATE)
    rng = np.random.default_rng(0)
    for _ in range(steps):
        rows = rng.choice(mutual, min(_MATCHES, len(mutual)), replace=False)
        ends = places[there[rows]] * _METRES
        apart = np.linalg.norm(ends[:, None] - ends[None], axis=2).astype(np.float32)
        loss = losses.matching_loss(
            x[rows] @ matrix, y[there[rows]] @ matrix, torch.tensor(apart),
            torch.log(torch.tensor(_FACTOR)),
        )  # fmt: skip
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    found = matrix.detach().numpy()
    changed = [replace(one, values=one.values @ found) for one in (source, target)]
    after = _there_and_back(points, changed[0].values, changed[1].values)[1]
    told = f"the way there and back ends {before.mean():.4f} off before, {after.mean():.4f} after"
    if after.mean() >= before.mean():
        return source, target, f"not adapted: {told}"
    return changed[0], changed[1], f"adapted in {steps} steps: {told}"


def _there_and_back(
    points: Float[np.ndarray, "n 3"], x: Float[np.ndarray, "n d"], y: Float[np.ndarray, "m d"]
) -> tuple[Int[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Match of each point, and how far from it the match's own match is."""
    there, back = there_and_back(x, y, similarity="cosine")
    return there, np.linalg.norm(points - points[back], axis=1)
