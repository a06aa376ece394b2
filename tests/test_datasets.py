from pathlib import Path

import numpy as np
import pytest
from scipy.spatial import cKDTree

from coembed import bodies, datasets, files, formats, geometry, skinning
from coembed.datasets import BodyExamples, DataConfig, FolderExamples
from coembed.errors import InputError
from coembed.shapes import Shape


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    return BodyExamples(3, 7, (150, 200), 0.4, 16, tmp_path_factory.mktemp("examples"))


def test_examples_depend_on_settings_and_index_alone(examples, tmp_path):
    other = BodyExamples(2, 7, (150, 200), 0.4, 16, tmp_path)
    np.testing.assert_array_equal(other[1].place, examples[1].place)
    np.testing.assert_array_equal(other[1].operators.evecs, examples[1].operators.evecs)
    assert (
        len(examples[0].place) != len(examples[1].place)
        or (examples[0].place != examples[1].place).any()
    )


def test_examples_of_another_seed_are_others(examples, tmp_path):
    other = BodyExamples(1, 8, (150, 200), 0.4, 16, tmp_path)[0]
    assert other.operators.name == examples[0].operators.name
    assert other.place.shape != examples[0].place.shape or (other.place != examples[0].place).any()


def test_an_example_holds_what_training_reads(examples):
    one = examples[0]
    n = len(one.operators.mass)
    assert 150 <= n <= 200
    assert one.place.shape == (n, 3)
    assert one.operators.evecs.shape == (n, 16)
    for name in ("points", "mass", "evals", "evecs", "grad_x", "grad_y"):
        assert getattr(one.operators, name).dtype == np.float32
    assert one.operators.laplacian.dtype == np.float32


def test_places_are_in_the_order_of_the_operators(examples):
    rng = np.random.default_rng([7, 0])
    n = int(rng.integers(150, 201))
    sample = bodies.scan(bodies.body(rng, touching=examples.touching), n, rng)
    one = examples[0]
    np.testing.assert_allclose(one.place[one.operators.rows], sample.place, atol=1e-6)
    back = one.operators.points[one.operators.rows] / one.operators.scale + one.operators.centre
    np.testing.assert_allclose(back, sample.shape.points, atol=1e-5)


def test_parts_are_spread_among_whole_bodies_and_lead_back_to_theirs(examples, tmp_path):
    mixed = BodyExamples(5, 7, (150, 200), 0.4, 16, examples.cache, 2)
    assert [one.whole is None for one in mixed] == [True, True, False, True, False]
    np.testing.assert_array_equal(mixed[3].place, examples[2].place)  # the same whole bodies
    for index, one in enumerate(mixed[i] for i in (2, 4)):
        rng = np.random.default_rng([7, index, 1])
        rng.integers(150, 201)
        body = bodies.body(rng, touching=0.4)
        faces = skinning.body_model().faces
        whole = geometry.prepare(Shape(bodies.sample(body, 3000, rng).shape.points), n_eig=4)
        placed = one.operators.placed(float(one.whole[0]), one.whole[1:])
        there = placed.points / whole.scale + whole.centre
        vertices = body.vertices[np.unique(faces)]
        off = cKDTree(vertices).query(there)[0]
        assert np.median(off) < 0.03  # metres
        assert 0.3 < one.whole[0] < 1.1
    again = BodyExamples(5, 7, (150, 200), 0.4, 16, tmp_path, 2)[2]
    np.testing.assert_array_equal(again.whole, mixed[2].whole)


def test_a_stored_example_is_read_and_a_damaged_one_made_again(examples, monkeypatch):
    first = examples[2]
    made = monkeypatch.setattr(bodies, "body", None) or examples[2]
    np.testing.assert_array_equal(made.operators.evecs, first.operators.evecs)
    np.testing.assert_array_equal(made.place, first.place)
    monkeypatch.undo()
    (path,) = examples.cache.glob("*-000002.safetensors")
    content = path.read_bytes()
    path.write_bytes(content[:-99])
    np.testing.assert_array_equal(examples[2].operators.evecs, first.operators.evecs)
    assert path.read_bytes() == content


def test_examples_end(examples):
    assert len(examples) == 3
    assert len(list(examples)) == 3
    with pytest.raises(IndexError):
        examples[3]


@pytest.mark.parametrize("jobs", [1, 2])
def test_fill_makes_each_once(sphere_points, tmp_path, jobs):
    folder(tmp_path, sphere_points, 3)
    shapes = FolderExamples(datasets.shape_paths(tmp_path), 0, 1, 4, tmp_path / "cache")
    assert sorted(datasets.fill(shapes, jobs)) == [0, 1, 2]
    assert len(list((tmp_path / "cache").iterdir())) == 3


def folder(path, sphere_points, n, ending=".ply"):
    (path / "off").mkdir(parents=True)
    for i in range(n):
        formats.write(path / "off" / f"s{i:02d}{ending}", Shape(sphere_points(60 + i) * [1, 2, 3]))
    return path


def test_shapes_of_a_folder_are_sorted_and_filtered(sphere_points, tmp_path):
    folder(tmp_path, sphere_points, 3)
    (tmp_path / "off" / "notes.md").write_text("not a shape")
    assert [path.name for path in datasets.shape_paths(tmp_path)] == [
        "s00.ply",
        "s01.ply",
        "s02.ply",
    ]
    assert datasets.shape_paths(tmp_path / "off") == datasets.shape_paths(tmp_path)


def test_folders_that_hold_nothing(tmp_path):
    with pytest.raises(InputError, match="no such folder"):
        datasets.shape_paths(tmp_path / "none")
    with pytest.raises(InputError, match=r"holds no shapes; expected files ending in \.off"):
        datasets.shape_paths(tmp_path)


def test_folder_examples_have_no_truth_and_may_be_thinned(sphere_points, tmp_path):
    paths = datasets.shape_paths(folder(tmp_path, sphere_points, 2))
    whole = FolderExamples(paths, 0, 1, 8, tmp_path / "cache")
    thinned = FolderExamples(paths, 40, 2, 8, tmp_path / "cache")
    assert len(whole) == 2
    assert whole[1].place is None
    assert len(whole[1].operators.mass) == 61
    assert len(thinned[1].operators.mass) == 40
    assert len(thinned) == len(list(thinned)) == 4
    # the third example is the first shape again, with other points
    assert thinned[2].operators.name == thinned[0].operators.name
    assert (thinned[2].operators.mass != thinned[0].operators.mass).any()
    assert whole[0].operators.evecs.dtype == np.float32


def test_shapes_in_folders_of_their_own(tmp_path):
    for path in ("off/b/x.ply", "off/a.obj", "off/b/notes.md", "corres/a.txt"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("")
    found = datasets.shape_paths(tmp_path)
    assert [path.relative_to(tmp_path).as_posix() for path in found] == ["off/a.obj", "off/b/x.ply"]


def test_training_sets_of_bodies(tmp_path):
    def made(**change):
        return datasets.training_sets(
            DataConfig(bodies=5, points=1000, **change), None, n_eig=16, cache=tmp_path
        )

    examples, held_out, facts = made(seed=3)
    assert (len(examples), len(held_out)) == (5, 32)
    assert examples.n_points == (600, 1250)
    others, other_out, _ = made(seed=4)
    assert not {examples.seed, held_out.seed} & {others.seed, other_out.seed}
    assert "CC0" in facts["data"]
    with pytest.raises(InputError, match="is not read, since 5 bodies are generated"):
        datasets.training_sets(DataConfig(bodies=5), tmp_path, n_eig=16, cache=tmp_path)


def test_training_sets_of_a_folder_hold_out_every_tenth(tmp_path, unchecked):
    for i in range(25):
        (tmp_path / f"s{i:02d}.off").write_text("OFF\n")

    def made(shapes=":"):
        data = DataConfig(bodies=0, points=0, shapes=shapes)
        return datasets.training_sets(data, tmp_path, n_eig=16, cache=tmp_path)

    examples, held_out, facts = made()
    assert [path.stem for path in held_out.paths] == ["s09", "s19"]
    assert len(examples) == 23
    assert not set(examples.paths) & set(held_out.paths)
    assert facts["data"].startswith("23 shapes")
    examples, held_out, facts = made("5:20")
    assert len(held_out) == 0
    assert [path.stem for path in examples.paths] == [f"s{i:02d}" for i in range(5, 20)]
    assert facts["data"].endswith("5:20")
    with pytest.raises(InputError, match="name a folder of shapes with --data"):
        datasets.training_sets(DataConfig(bodies=0), None, n_eig=16, cache=tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bodies": -1}, "data bodies must be a whole number of 0 or more; got -1"),
        ({"seed": -1}, "data seed must be"),
        ({"points": 99}, "need 100 points or more for training; got 99"),
        ({"touching": 1.1}, "data touching must be between 0 and 1; got 1.1"),
        ({"copies": 0}, "data copies must be a whole number of 1 or more; got 0"),
        ({"shapes": "3"}, "expected FIRST:END, such as 0:51; got '3'"),
        ({"shapes": "a:b"}, "expected FIRST:END"),
    ],
)
def test_data_settings_that_make_no_sense(change, message):
    with pytest.raises(InputError, match=message):
        DataConfig(**change)


def test_written_bodies_can_be_trained_on_with_truth(tmp_path):
    out = tmp_path / "people"
    datasets.write_bodies(out, n=1, n_points=120, seed=4)
    paths = datasets.shape_paths(out)
    rng = np.random.default_rng([4, 0])
    sample = bodies.sample(bodies.body(rng), 120, rng)
    whole = FolderExamples(paths, 0, 1, 16, tmp_path / "cache")[0]
    np.testing.assert_allclose(whole.place[whole.operators.rows], sample.place, atol=1e-6)
    some = FolderExamples(paths, 60, 1, 16, tmp_path / "cache")[0]
    assert some.place.shape == (60, 3)
    known = {tuple(row) for row in whole.place.round(6).tolist()}
    assert {tuple(row) for row in some.place.round(6).tolist()} <= known


def test_written_bodies_hold_their_exact_truth(tmp_path):
    calls = []
    out = tmp_path / "people"
    datasets.write_bodies(out, n=2, n_points=120, seed=4, report=lambda: calls.append(1))
    assert len(calls) == 2
    assert sorted(p.name for p in (out / "off").iterdir()) == ["body0000.ply", "body0001.ply"]
    rows = [files.read_vts(out / "corres" / f"body000{i}.vts") for i in range(2)]
    assert rows[0].shape == (1000,)
    assert rows[0].min() >= 0
    assert rows[0].max() < 120
    assert len(np.unique(rows[0])) > 90
    model = skinning.body_model()
    with np.load(out / "corres" / "body0001.npz") as exact:
        face, barycentric = exact["face"], exact["barycentric"]
    rng = np.random.default_rng([4, 1])
    person = bodies.body(rng)
    shape = formats.read(out / "off" / "body0001.ply")
    built = np.einsum("nc,nca->na", barycentric, person.vertices[model.faces[face]])
    np.testing.assert_allclose(built, shape.points, atol=1e-12)
    truth = bodies.on_body(person, *bodies.landmarks(1000))
    off = np.linalg.norm(shape.points[rows[1]] - truth, axis=1)
    wanted = np.linalg.norm(shape.points[:, None] - truth[None], axis=2).min(axis=0)
    np.testing.assert_allclose(off, wanted)


def test_written_bodies_overwrite_nothing(tmp_path):
    with pytest.raises(InputError, match="exists already"):
        datasets.write_bodies(tmp_path, n=1, n_points=50, seed=0)
    for n, points in ((0, 100), (1, 19)):
        with pytest.raises(InputError, match=f"got {n} and {points}"):
            datasets.write_bodies(tmp_path / "new", n=n, n_points=points, seed=0)
    assert not Path(tmp_path / "new").exists()


def test_only_the_community_layout_is_searched_in_depth(tmp_path):
    """A folder of shapes may hold results or caches below it; those are not shapes."""
    for path in ("x.ply", "cache/y.npy"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("")
    assert [path.name for path in datasets.shape_paths(tmp_path)] == ["x.ply"]
