"""Generated shapes and small models that every test may use."""

import numpy as np
import pytest
from jaxtyping import config as jaxtyping_config

from coembed import bodies, geometry
from coembed.model import CoupledEmbedding, ModelConfig, initial_parameters
from coembed.shapes import Shape


def fibonacci_sphere(n):
    """Nearly uniform points on the unit sphere."""
    i = np.arange(n) + 0.5
    polar, azimuth = np.arccos(1 - 2 * i / n), np.pi * (1 + 5**0.5) * i
    return np.stack(
        [np.cos(azimuth) * np.sin(polar), np.sin(azimuth) * np.sin(polar), np.cos(polar)], axis=1
    )


def random_torus(n, rng):
    """Points on a torus of radii 1 and 0.4, squashed so that no eigenvalue is double."""
    u, v = rng.uniform(0, 2 * np.pi, (2, n))
    ring = 1 + 0.4 * np.cos(v)
    return np.stack([1.3 * ring * np.cos(u), 0.8 * ring * np.sin(u), 0.4 * np.sin(v)], axis=1)


@pytest.fixture
def unchecked():
    """Let arguments of wrong types and shapes through to coembed's own checks, as users do."""
    jaxtyping_config.update("jaxtyping_disable", True)
    yield
    jaxtyping_config.update("jaxtyping_disable", False)


@pytest.fixture
def rng():
    return np.random.default_rng(20)


@pytest.fixture(scope="session")
def sphere_points():
    """Function from a number to that many points on the unit sphere."""
    return fibonacci_sphere


@pytest.fixture(scope="session")
def sphere():
    return Shape(fibonacci_sphere(500), name="sphere")


@pytest.fixture(scope="session")
def sphere_operators(sphere):
    return geometry.prepare(sphere, n_eig=16)


@pytest.fixture(scope="session")
def torus():
    return Shape(random_torus(700, np.random.default_rng(3)), name="torus")


@pytest.fixture(scope="session")
def torus_operators(torus):
    return geometry.prepare(torus, n_eig=16)


@pytest.fixture(scope="session")
def body_sample():
    rng = np.random.default_rng(5)
    return bodies.sample(bodies.body(rng), 400, rng, name="body")


@pytest.fixture(scope="session")
def tiny_config():
    return ModelConfig(dim=8, n_eig=16, width=16, n_blocks=2, n_heads=2)


@pytest.fixture(scope="session")
def tiny_model(tiny_config):
    parameters = initial_parameters(tiny_config, 1)
    # longer diffusion than the start of a training, so that its effect is seen
    for name in parameters:
        if name.endswith(".time"):
            parameters[name] = np.linspace(0.001, 0.1, 16, dtype=np.float32)
    return CoupledEmbedding(tiny_config, parameters, {"name": "tiny"})
