import numpy as np
import pytest

from coembed import descriptors


def test_hks_of_one_mode_by_hand():
    found = descriptors.hks(np.array([2.0]), np.array([[1.0], [3.0]]), n_times=3)
    decay = np.exp(-2 * np.array([0.01, 0.1, 1.0]))
    np.testing.assert_allclose(found, [decay, 9 * decay])


def test_hks_falls_with_time_and_is_constant_on_a_sphere(sphere_operators):
    # 15 modes: three full degrees, whose squares add to a constant (addition theorem)
    found = descriptors.hks(sphere_operators.evals[:15], sphere_operators.evecs[:, :15])
    assert found.shape == (500, 512)
    assert (np.diff(found, axis=1) < 0).all()
    # the points' spacing is seen by a few per cent
    assert (found.std(axis=0) < 0.06 * found.mean(axis=0)).all()
    degree = np.array([1, 2, 3])
    exact = ((2 * degree + 1) * np.exp(-0.01 * 4 * np.pi * degree * (degree + 1))).sum()
    assert found[:, 0].mean() == pytest.approx(exact, rel=0.03)


def test_descriptors_do_not_see_the_sign_of_eigenvectors(torus_operators):
    one = torus_operators
    for descriptor in (descriptors.hks, descriptors.wks):
        np.testing.assert_allclose(
            descriptor(one.evals, -one.evecs), descriptor(one.evals, one.evecs)
        )


def test_wks_weights_add_to_one(torus_operators):
    one = torus_operators
    found = descriptors.wks(one.evals, one.evecs, n_energies=50)
    assert found.shape == (700, 50)
    # a weighted mean of squared modes: between the least and the largest of them, mass one each
    squares = one.evecs**2
    assert (found <= squares.max(axis=1, keepdims=True) + 1e-9).all()
    np.testing.assert_allclose(one.mass @ found, 1, rtol=1e-9)


def test_torch_agrees_with_numpy(torus_operators):
    torch = pytest.importorskip("torch")
    evals, evecs = torus_operators.evals, torus_operators.evecs
    for descriptor in (descriptors.hks, descriptors.wks):
        found = descriptor(torch.as_tensor(evals), torch.as_tensor(evecs))
        np.testing.assert_allclose(found.numpy(), descriptor(evals, evecs), rtol=1e-10)


def test_single_precision_stays_single(torus_operators):
    evals, evecs = (a.astype(np.float32) for a in (torus_operators.evals, torus_operators.evecs))
    assert descriptors.hks(evals, evecs).dtype == np.float32


def test_bumps_are_the_same_on_a_part_as_on_its_whole(rng):
    places = rng.random((400, 3))
    mass = np.full(400, 1 / 400)
    part = places[:, 0] < 0.6
    whole, cut = descriptors.bumps((places, mass), (places[part], mass[part]), 400)
    assert whole.shape == (400, 400)
    assert cut.shape == (part.sum(), 400)
    inside = places[:, 0] < 0.4  # four widths from the rim
    np.testing.assert_allclose(whole[part][:, inside], cut[:, inside], rtol=1e-3, atol=1e-4)
    integral = mass @ whole[:, inside]
    assert ((integral == 0) | (np.abs(integral - 1) < 1e-9)).all()
    assert integral.mean() > 0.9
    far = places[:, 0] > 0.8
    assert not whole[:, far].any()
    assert not cut[:, far].any()
