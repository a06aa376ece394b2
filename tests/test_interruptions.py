"""A full disk, a killed process, a shared cache: nothing is lost or half written."""

import os
import random
import subprocess
import sys
import time

import numpy as np
import pytest

from coembed import files, formats, geometry, matching
from coembed.shapes import Correspondence, Shape

posix = pytest.mark.skipif(os.name != "posix", reason="limits and signals are those of POSIX")

# a limit on the size of files stands for a full disk: the write fails half-way
TOO_LARGE = """
import resource, signal, sys
import numpy as np
from coembed import files
from coembed.shapes import Correspondence
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
try:
    files.write_matches(sys.argv[1], Correspondence(np.arange(99_999), np.ones(99_999), 99_999),
                        force=True)
except OSError as error:
    sys.exit(7)
"""


@posix
def test_a_write_that_fails_half_way_leaves_what_was_there(tmp_path):
    path = tmp_path / "map.txt"
    files.write_matches(path, Correspondence(np.arange(3), np.ones(3), 3))
    before = path.read_bytes()
    done = subprocess.run([sys.executable, "-c", TOO_LARGE, str(path)])
    assert done.returncode == 7
    assert path.read_bytes() == before
    assert [found.name for found in tmp_path.iterdir()] == ["map.txt"]


@posix
def test_a_cache_without_room_costs_time_only(torus, tmp_path, monkeypatch, caplog):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    wanted = geometry.prepare(torus, n_eig=16)
    monkeypatch.setattr(files, "write_bytes", full)
    found = geometry.prepare(torus, n_eig=16, cache=tmp_path)
    np.testing.assert_array_equal(found.evecs, wanted.evecs)
    assert "operators are not cached" in caplog.text


@posix
@pytest.mark.slow
def test_a_killed_match_leaves_a_whole_map_or_none(torus, sphere, tmp_path):
    formats.write(tmp_path / "a.ply", torus)
    formats.write(tmp_path / "b.ply", sphere)
    out, cache = tmp_path / "map.txt", tmp_path / "cache"
    words = [sys.executable, "-m", "coembed", "match", "a.ply", "b.ply", "--out", "map.txt"]
    words += ["--force", "--cache", "cache"]
    started = time.time()
    subprocess.run(words, cwd=tmp_path, check=True, capture_output=True)
    whole, taken = out.read_bytes(), time.time() - started
    moments = random.Random(0)
    for _ in range(6):
        out.unlink(missing_ok=True)
        for kept in cache.iterdir():
            kept.unlink()
        process = subprocess.Popen(
            words, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(taken * moments.uniform(0.3, 1.0))
        process.kill()
        process.wait()
        assert not out.exists() or out.read_bytes() == whole
        # what the killed one has left in the cache does not harm the next
        subprocess.run(words, cwd=tmp_path, check=True, capture_output=True)
        assert out.read_bytes() == whole


@posix
@pytest.mark.slow
def test_processes_share_a_cache(torus, sphere, tmp_path):
    formats.write(tmp_path / "a.ply", torus)
    formats.write(tmp_path / "b.ply", sphere)
    words = [sys.executable, "-m", "coembed", "match", "a.ply", "b.ply", "--cache", "cache"]
    running = [
        subprocess.Popen([*words, "--out", f"{name}.txt"], cwd=tmp_path, stdout=subprocess.DEVNULL)
        for name in "xyz"
    ]
    assert [process.wait() for process in running] == [0, 0, 0]
    maps = [(tmp_path / f"{name}.txt").read_bytes() for name in "xyz"]
    assert maps[0] == maps[1] == maps[2]
    assert len(list((tmp_path / "cache").iterdir())) == 2


def test_a_result_is_never_written_over_another(tiny_model, torus, tmp_path):
    path = tmp_path / "map.txt"
    path.write_text("mine")
    found = matching.match(tiny_model, torus, Shape(torus.points))
    with pytest.raises(Exception, match="exists already"):
        files.write_matches(path, found)
    assert path.read_text() == "mine"
