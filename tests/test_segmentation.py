import csv

import numpy as np
import pytest

from coembed import bodies, formats, segmentation
from coembed.errors import InputError
from coembed.matching import embed
from coembed.model import load
from coembed.segmentation import segment
from coembed.shapes import Shape

pytest.importorskip("sklearn")


@pytest.fixture(scope="module")
def people():
    """Two people of 900 points, their samples, and what the shipped weights make of them."""
    found = []
    for seed in range(2):
        rng = np.random.default_rng(seed)
        sample = bodies.sample(bodies.body(rng), 900, rng, name=f"person{seed}.ply")
        found.append((sample, embed(load(), sample.shape)))
    return found


def test_parts_are_the_same_on_both_and_hang_together(people):
    from scipy.spatial import cKDTree

    (one, first), (other, second) = people
    found = segment(load(), [first, second], parts=6)
    assert found.names() == ("part",)
    one_labels, other_labels = (labels[:, 0] for labels in found.labels)
    assert set(one_labels) == set(other_labels) == set(range(6))
    partner = cKDTree(other.place).query(one.place)[1]
    assert (one_labels == other_labels[partner]).mean() > 0.9
    near = cKDTree(one.shape.points).query(one.shape.points, k=6)[1]
    assert (one_labels[near] == one_labels[:, None]).mean() > 0.85


def test_the_same_seed_gives_the_same_labels_and_order_is_by_size(people):
    embedded = [one for _, one in people]
    found = segment(load(), embedded, parts=5, seed=3)
    again = segment(load(), embedded, parts=5, seed=3)
    for labels, other in zip(found.labels, again.labels, strict=True):
        np.testing.assert_array_equal(labels, other)
    sizes = np.bincount(np.concatenate(found.labels)[:, 0])
    assert (np.diff(sizes) <= 0).all()


def test_several_numbers_give_nested_parts(people):
    found = segment(load(), [one for _, one in people], parts=[8, 3])
    assert found.parts == (3, 8)
    assert found.names() == ("part_3", "part_8")
    coarse, fine = np.concatenate(found.labels).T
    assert set(coarse) == {0, 1, 2}
    for part in range(8):
        assert len(set(coarse[fine == part])) == 1


def test_shapes_parted_alone_get_matched_labels(people):
    """A shape and its copy in another order: the same parts whatever k-means called them."""
    sample, embedded = people[0]
    order = np.random.default_rng(4).permutation(900)
    copy = embed(load(), Shape(sample.shape.points[order], name="copy"))
    found = segment(load(), [embedded, copy], parts=5, joint=False)
    one, other = (labels[:, 0] for labels in found.labels)
    assert (one[order] == other).mean() > 0.95


def test_rows_without_an_embedding_get_no_label(people):
    points = people[0][0].shape.points.copy()
    points[7] = np.nan
    found = segment(load(), [Shape(points)], parts=3)
    assert np.flatnonzero(found.labels[0][:, 0] < 0).tolist() == [7]


def test_areas_by_hand(sphere_points):
    square = np.array([[0, 0, 0], [2, 0, 0], [2, 2, 0], [0, 2, 0], [9, 9, 9.0]])
    mesh = Shape(square, np.array([[0, 1, 2], [0, 2, 3]]))
    np.testing.assert_allclose(segmentation.row_areas(mesh), np.array([4, 2, 4, 2, 0]) / 3)
    points = sphere_points(2000)
    twice = Shape(np.concatenate([points, points[:100], [[np.nan] * 3]]))
    areas = segmentation.row_areas(twice)
    assert areas.sum() == pytest.approx(4 * np.pi, rel=0.02)
    np.testing.assert_array_equal(areas[:100], areas[2000:2100])
    assert areas[-1] == 0


def test_files(people, tmp_path):
    shapes = [sample.shape for sample, _ in people]
    found = segment(load(), [one for _, one in people], parts=[4, 2])
    segmentation.write_segmentation(tmp_path / "out", shapes, found)
    again = formats.read(tmp_path / "out" / "person1.ply")
    np.testing.assert_array_equal(again.points, shapes[1].points)
    np.testing.assert_array_equal(again.attributes["part_4"], found.labels[1][:, 1])
    assert set(again.attributes) == {"part_2", "part_4", "red", "green", "blue"}
    rows = list(csv.DictReader((tmp_path / "out" / "parts.csv").read_text().splitlines()))
    assert len(rows) == 2 * (2 + 4)
    for shape in ("person0", "person1"):
        for level in ("2", "4"):
            chosen = [row for row in rows if (row["shape"], row["level"]) == (shape, level)]
            assert sum(int(row["points"]) for row in chosen) == 900
            assert sum(float(row["share"]) for row in chosen) == pytest.approx(1, abs=1e-3)
    with pytest.raises(InputError, match="exists already"):
        segmentation.write_segmentation(tmp_path / "out", shapes, found)
    with pytest.raises(InputError, match="same name"):
        segmentation.write_segmentation(tmp_path / "b", [shapes[0]] * 2, found)


@pytest.mark.parametrize(
    ("parts", "message"), [(1, "parts must be 2 or more"), (901, "has 900 points for 901 parts")]
)
def test_bad_numbers(people, parts, message):
    with pytest.raises(InputError, match=message):
        segment(load(), [people[0][1]], parts=parts)


def test_embeddings_of_other_weights_are_refused(people, tiny_model):
    with pytest.raises(InputError, match="other weights"):
        segment(tiny_model, [people[0][1]], parts=3)
    with pytest.raises(InputError, match="no shapes"):
        segment(tiny_model, [], parts=3)
