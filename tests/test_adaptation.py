from dataclasses import replace

import numpy as np
import pytest

from coembed import adaptation, matching
from coembed.errors import InputError


@pytest.fixture(scope="module")
def pair(tiny_model, torus):
    """A shape and itself, seen through a noisy matrix, with noise."""
    one = matching.embed(tiny_model, torus)
    rng = np.random.default_rng(0)
    noise = rng.normal(scale=0.3 * one.values.std(), size=(2, *one.values.shape))
    return tuple(replace(one, values=(one.values + part).astype(np.float32)) for part in noise)


def off(pair):
    return adaptation._there_and_back(pair[0].points, *(one.values for one in pair))[1].mean()


def test_adapting_brings_the_shapes_to_agree_or_leaves_them(pair):
    pytest.importorskip("torch")
    *changed, remark = adaptation.adapt(*pair, 20)
    assert off(changed) <= off(pair)
    if off(changed) < off(pair):
        assert remark.startswith("adapted in 20 steps: the way there and back ends")
    else:
        assert remark.startswith("not adapted")


def test_adapting_gives_the_same_bytes_twice(pair):
    pytest.importorskip("torch")
    first, second = (adaptation.adapt(*pair, 5) for _ in range(2))
    assert first[0].values.tobytes() == second[0].values.tobytes()
    assert first[2] == second[2]


def test_what_agrees_already_stays(tiny_model, torus):
    pytest.importorskip("torch")
    one = matching.embed(tiny_model, torus)
    source, target, remark = adaptation.adapt(one, one, 3)
    assert source is one
    assert target is one
    assert remark.startswith("not adapted")


def test_an_embedding_that_tells_nothing_stays(pair):
    pytest.importorskip("torch")
    blank = [replace(one, values=np.ones_like(one.values)) for one in pair]
    assert adaptation.adapt(*blank, 3)[2].startswith("not adapted")


def test_match_adapts_and_says_so(tiny_model, torus, sphere):
    pytest.importorskip("torch")
    found = matching.match(tiny_model, torus, sphere, adapt=0.3)
    assert "adapted" in found.record["notes"][0]
    assert found.record["adapt"] == 0.3
    with pytest.raises(InputError, match="adapt must be a number of seconds"):
        matching.match(tiny_model, torus, sphere, adapt=-1.0)
