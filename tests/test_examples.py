"""Every example runs as it stands and writes what it says."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import coembed

FOLDER = Path(__file__).parents[1] / "examples"
NEEDS = {"3_segment": "sklearn", "5_train": "torch"}
WRITES = {
    "1_match": ("map.npz", "map.html"),
    "2_transfer_labels": ("labelled.ply", "landmarks.csv"),
    "3_segment": ("parts/body0000.ply", "parts/parts.csv"),
    "4_evaluate": (),
    "5_train": ("run/best.safetensors",),
    "6_batch": ("maps/body0001.txt", "maps/summary.csv"),
}


def test_each_example_is_listed():
    assert sorted(path.stem for path in FOLDER.glob("*.py")) == sorted(WRITES)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(WRITES))
def test_examples_run(name, tmp_path):
    needed = NEEDS.get(name)
    if needed and find_spec(needed) is None:
        pytest.skip(f"needs {needed}")
    source = str(Path(coembed.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(FOLDER / f"{name}.py")],
        cwd=tmp_path, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout
    for written in WRITES[name]:
        assert (tmp_path / written).stat().st_size > 0
