import numpy as np
import pytest
from scipy.sparse import csc_array

from coembed import losses
from coembed.errors import InputError
from coembed.losses import LossWeights

PSI = np.array([[1.0, 2.0], [3.0, 4.0]])
MASS = np.array([0.5, 0.5])
EDGE = csc_array(np.array([[1.0, -1.0], [-1.0, 1.0]]))


def scalar(value):
    return np.asarray(value, dtype=np.float64)


# ----------------------------------------------------------------------------- worked by hand


def test_off_diagonal_by_hand():
    # Psi^T L Psi = [[4, 4], [4, 4]] for one edge; minus diag(0, 2)
    found = losses.off_diagonal_loss(PSI, EDGE, np.array([0.0, 2.0]))
    assert found == pytest.approx(np.sqrt(16 + 16 + 16 + 4))


def test_orthonormality_by_hand():
    # Psi^T M Psi = [[5, 7], [7, 10]]
    assert losses.orthonormality_loss(PSI, MASS) == pytest.approx(np.sqrt(16 + 49 + 49 + 81))


def test_coupling_by_hand():
    ones, zero = np.ones((2, 1)), np.zeros((2, 2))
    found = losses.coupling_loss((ones, MASS, PSI), (ones, MASS, zero))
    assert found == pytest.approx(np.sqrt(2**2 + 3**2))
    assert losses.coupling_loss((ones, MASS, PSI), (ones, MASS, PSI)) == 0


def test_matching_by_hand():
    far = np.array([[0.0, 1.0], [1.0, 0.0]])
    found = losses.matching_loss(np.eye(2), 5 * np.eye(2), far, scalar(np.log(3)))
    # cosines 1 and 0, times 3; the soft truth is one-hot at 50 sigma
    assert found == pytest.approx(2 * (np.log(np.exp(3) + 1) - 3))
    # where every pair corresponds equally, the truth is uniform
    found = losses.matching_loss(np.eye(2), np.eye(2), np.zeros((2, 2)), scalar(np.log(3)))
    assert found == pytest.approx(2 * (np.log(np.exp(3) + 1) - 1.5))


def test_one_point_each_has_nothing_to_confuse():
    found = losses.matching_loss(PSI[:1], PSI[1:], np.zeros((1, 1)), scalar(0))
    assert found == pytest.approx(0, abs=1e-12)


# --------------------------------------------------------------------------------- identities


def test_spectral_terms_vanish_on_eigenvectors(torus_operators):
    one = torus_operators
    # against an embedding twice as long: energies of 200 and 16 unit products
    assert losses.off_diagonal_loss(one.evecs, one.laplacian, one.evals) < 1e-6
    assert losses.off_diagonal_loss(2 * one.evecs, one.laplacian, one.evals) > 100
    assert losses.orthonormality_loss(one.evecs, one.mass) < 1e-9
    assert losses.orthonormality_loss(2 * one.evecs, one.mass) == pytest.approx(3 * 4, rel=1e-6)


def test_spectral_terms_vanish_in_single_precision_of_torch(torus_operators):
    torch = pytest.importorskip("torch")
    one = torus_operators
    evecs, mass = torch.as_tensor(one.evecs).float(), torch.as_tensor(one.mass).float()
    assert float(losses.orthonormality_loss(evecs, mass)) < 1e-4


def test_coupling_does_not_see_the_order_of_points(torus_operators, rng):
    one = torus_operators
    signals, order = rng.standard_normal((700, 5)), rng.permutation(700)
    source = (signals, one.mass, one.evecs)
    found = losses.coupling_loss(source, tuple(part[order] for part in source))
    assert found == pytest.approx(0, abs=1e-10)


def test_matching_is_least_where_points_agree(rng):
    embedding, places = rng.standard_normal((30, 6)), rng.standard_normal((30, 3))
    distance = np.linalg.norm(places[:, None] - places[None], axis=2)
    agree = losses.matching_loss(embedding, embedding, distance, scalar(3))
    shuffled = losses.matching_loss(embedding, embedding[::-1].copy(), distance, scalar(3))
    assert agree < 0.1 * shuffled
    # cosine: length does not count
    longer = losses.matching_loss(7 * embedding, embedding, distance, scalar(3))
    assert longer == pytest.approx(agree)
    # symmetric in the two shapes
    back = losses.matching_loss(embedding[::-1].copy(), embedding, distance.T, scalar(3))
    assert back == pytest.approx(
        losses.matching_loss(embedding, embedding[::-1].copy(), distance, scalar(3))
    )


def test_matching_is_finite_far_from_any_truth(rng):
    embedding = rng.standard_normal((5, 3))
    found = losses.matching_loss(embedding, embedding, np.full((5, 5), 1e3), scalar(8))
    assert np.isfinite(found)


# ----------------------------------------------------------------------------------- gradients


def test_autograd_agrees_with_finite_differences(rng):
    torch = pytest.importorskip("torch")
    psi = torch.tensor(rng.standard_normal((7, 3)), requires_grad=True)
    phi = torch.tensor(rng.standard_normal((6, 3)), requires_grad=True)
    mass, other = torch.tensor(rng.random(7)), torch.tensor(rng.random(6))
    half = torch.tensor(rng.standard_normal((7, 7)))
    evals = torch.tensor(rng.random(3))
    signals = torch.tensor(rng.random((7, 4))), torch.tensor(rng.random((6, 4)))
    distance = torch.tensor(0.05 * rng.random((7, 6)))
    heat = torch.tensor(1.3, dtype=torch.float64, requires_grad=True)
    check = torch.autograd.gradcheck  # central differences in double precision
    assert check(lambda p: losses.off_diagonal_loss(p, half @ half.T, evals), (psi,))
    assert check(lambda p: losses.orthonormality_loss(p, mass), (psi,))
    assert check(
        lambda p, q: losses.coupling_loss((signals[0], mass, p), (signals[1], other, q)),
        (psi, phi),
    )
    assert check(lambda p, q, t: losses.matching_loss(p, q, distance, t), (psi, phi, heat))


def test_torch_and_numpy_agree(rng):
    torch = pytest.importorskip("torch")
    psi, phi = rng.standard_normal((2, 9, 4))
    distance, mass = 0.05 * rng.random((9, 9)), rng.random(9)

    def both(loss, *arrays):
        found = loss(*(torch.as_tensor(array) for array in arrays))
        assert float(found) == pytest.approx(float(loss(*arrays)), rel=1e-10)

    both(losses.orthonormality_loss, psi, mass)
    both(losses.off_diagonal_loss, psi, np.diag(mass), mass[:4])
    both(losses.matching_loss, psi, phi, distance, scalar(1))
    both(lambda a, b, m: losses.coupling_loss((a, m, b), (b, m, a)), psi, phi, mass)


# ------------------------------------------------------------------------------------- weights


def test_the_default_weights_are_the_released_codes():
    assert LossWeights() == LossWeights(1, 1000, 50, 0)


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_weights_reject_nonsense(value):
    with pytest.raises(InputError, match="loss weight coupling must be 0 or more; got"):
        LossWeights(coupling=value)


def test_some_weight_must_be_above_zero():
    with pytest.raises(InputError, match="at least one loss weight must be above 0"):
        LossWeights(0, 0, 0, 0)


def test_total_is_the_weighted_sum_of_what_is_wanted():
    weights = LossWeights(2, 0, 0, 0.5)
    terms = {"off_diagonal": scalar(3), "matching": scalar(4)}
    assert losses.total(terms, weights) == 8


def test_points_without_a_partner_do_not_count(rng):
    embedding = rng.standard_normal((6, 3))
    distance = np.abs(np.arange(6)[:, None] - np.arange(6)) * 1.0
    alone = losses.matching_loss(embedding[:4], embedding[:4], distance[:4, :4], scalar(2))
    more = losses.matching_loss(embedding[:4], embedding, distance[:4], scalar(2))
    logits = np.exp(2) * _unit(embedding[:4]) @ _unit(embedding).T
    columns = np.log(np.exp(logits).sum(axis=0)) - np.r_[np.diag(logits), np.zeros(2)]
    rows = np.log(np.exp(logits).sum(axis=1)) - np.diag(logits)
    assert more == pytest.approx(rows.mean() + columns[:4].mean())
    assert more > alone


def _unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_the_part_of_an_eigenbasis_need_not_have_its_frequencies():
    laplacian = np.diag([1.0, 2, 3, 4])
    basis = np.eye(4)[:, :2]
    assert losses.off_diagonal_part_loss(basis, laplacian) == 0
    mixed = basis @ np.array([[1.0, 1], [-1, 1]])
    assert losses.off_diagonal_part_loss(mixed, laplacian) == pytest.approx(np.sqrt(2))
