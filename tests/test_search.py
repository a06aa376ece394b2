import numpy as np
import pytest

from coembed import search
from coembed.errors import InputError
from coembed.search import Cells, Partition


@pytest.mark.parametrize("similarity", ["l2", "cosine"])
def test_nearest_is_brute_force(rng, similarity):
    # more rows than one chunk of the distance matrix
    source, target = rng.standard_normal((1500, 5)), rng.standard_normal((300, 5))
    a, b = source, target
    if similarity == "cosine":
        a, b = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (source, target))
    wanted = np.linalg.norm(a[:, None] - b[None], axis=2).argmin(axis=1)
    np.testing.assert_array_equal(search.nearest(source, target, similarity=similarity), wanted)


@pytest.mark.parametrize("similarity", ["l2", "cosine"])
@pytest.mark.parametrize("sizes", [(1500, 300), (90, 700), (1, 1)])
def test_there_and_back_is_nearest_twice(rng, similarity, sizes):
    source, target = (rng.standard_normal((n, 5)) for n in sizes)
    there, back = search.there_and_back(source, target, similarity=similarity)
    wanted = search.nearest(source, target, similarity=similarity)
    np.testing.assert_array_equal(there, wanted)
    home = search.nearest(target, source, similarity=similarity)
    np.testing.assert_array_equal(back, home[wanted])


def test_there_and_back_takes_the_first_among_equals(rng):
    source = rng.standard_normal((400, 3))
    twice = np.concatenate([source, source])
    there, back = search.there_and_back(twice, twice)
    np.testing.assert_array_equal(there, np.tile(np.arange(400), 2))
    np.testing.assert_array_equal(back, there)


def test_nearest_takes_the_first_among_equals(rng):
    source = rng.standard_normal((20, 3))
    found = search.nearest(source, np.concatenate([source, source]))
    np.testing.assert_array_equal(found, np.arange(20))


def test_nearest_does_not_lose_small_differences_in_a_common_offset(rng):
    """Embeddings in single precision, far from zero compared with their spread."""
    source = (100 + rng.standard_normal((200, 4))).astype(np.float32)
    np.testing.assert_array_equal(search.nearest(source, source), np.arange(200))


def test_nearest_rejects_an_unknown_similarity():
    with pytest.raises(InputError, match="similarity must be l2 or cosine; got 'dot'"):
        search.nearest(np.ones((2, 2)), np.ones((2, 2)), similarity="dot")


@pytest.fixture(scope="module")
def surface(sphere_points):
    """Cells of the points of a sphere, and a smooth embedding of them."""
    points = sphere_points(6000)
    x, y, z = points.T
    values = np.stack([x, y, z, x * y, y * z, z * x, x * x - y * y], axis=1).astype(np.float32)
    cell, parent = ((points @ sphere_points(n).T).argmax(axis=1) for n in (400, 90))
    return Partition.of(cell, parent), values


def cells(values, partition, similarity="l2"):
    return Cells(values.__getitem__, partition, similarity)


@pytest.mark.parametrize("similarity", ["l2", "cosine"])
def test_cells_find_what_brute_force_finds(surface, similarity, rng):
    partition, values = surface
    queries = values + 0.02 * rng.standard_normal(values.shape).astype(np.float32)
    wanted = search.nearest(queries, values, similarity=similarity)
    found = cells(values, partition, similarity).find(queries.__getitem__, partition)
    assert (found == wanted).mean() > 0.995
    # those that are missed are near all the same
    off = np.linalg.norm(values[found] - values[wanted], axis=1)
    assert off.max() < 0.3


def test_cells_answer_in_the_order_of_the_queries(surface, rng):
    partition, values = surface
    order = rng.permutation(len(values))
    shuffled = Partition(partition.cell[order], partition.parent)
    found = cells(values, partition).find(values[order].__getitem__, shuffled)
    np.testing.assert_array_equal(found, order)
    found = cells(values[order], shuffled).find(values.__getitem__, partition)
    np.testing.assert_array_equal(order[found], np.arange(len(values)))


def test_few_cells_are_brute_force(rng):
    values, queries = rng.standard_normal((400, 5)), rng.standard_normal((100, 5))
    partition = Partition.of(rng.integers(0, 20, 400), np.zeros(400, dtype=int))
    one = Partition(np.zeros(100, dtype=int), np.zeros(1, dtype=int))
    found = cells(values, partition).find(queries.__getitem__, one)
    np.testing.assert_array_equal(found, search.nearest(queries, values))


def test_a_partition_of_any_numbers(rng):
    cell = np.array([90, 7, 7, 1000, 90])
    found = Partition.of(cell, np.array([3, 3, 3, -5, 3]))
    np.testing.assert_array_equal(found.cell, [1, 0, 0, 2, 1])
    np.testing.assert_array_equal(found.parent, [1, 1, 0])
