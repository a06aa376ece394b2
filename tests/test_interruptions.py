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
    words = [
        sys.executable,
        "-m",
        "coembed",
        "match",
        "a.ply",
        "b.ply",
        "--anyway",
        "--out",
        "map.txt",
    ]
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


# prepares one shape; with a share of the bytes to be written as its argument it stops after these
PREPARE = """
import os, sys, time
from pathlib import Path
from coembed import formats, geometry
share = float(sys.argv[1])
class Slow:
    def __init__(self, stream): self.stream = stream
    def __enter__(self): return self
    def __exit__(self, *_): self.stream.close()
    def write(self, content):
        self.stream.write(content[: int(share * len(content))])
        self.stream.flush()
        print("written", flush=True)
        time.sleep(60)
if share >= 0:
    real = os.fdopen
    os.fdopen = lambda *words: Slow(real(*words)) if words[1] == "wb" else real(*words)
geometry.prepare(formats.read("a.ply"), n_eig=16, cache=Path("cache"))
"""


def check_cache(cache, whole):
    """What has the name of operators is whole, to the byte; all else is hidden."""
    for path in cache.iterdir():
        if path.name.endswith(".operators.safetensors") and path.name[0] != ".":
            assert path.read_bytes() == whole
            assert len(files.operators_from(path).evals) == 16
        else:
            assert path.name[0] == "."
            assert path.suffix == ".part"


@posix
@pytest.mark.slow
def test_a_killed_prepare_never_leaves_half_of_operators(torus, tmp_path):
    """Killed at many moments, and surely in the middle of writing, with a cache that others use."""
    formats.write(tmp_path / "a.ply", torus)
    cache, words = tmp_path / "cache", [sys.executable, "-c", PREPARE]

    def begin(share):
        return subprocess.Popen(
            [*words, str(share)], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    started = time.time()
    assert begin(-1).communicate()[1] == b""
    taken = time.time() - started
    (made,) = cache.iterdir()
    whole = made.read_bytes()
    moments = random.Random(0)
    for share in (*[-1] * 6, 0, 0.001, 0.5, 0.999, 1):
        made.unlink(missing_ok=True)
        process = begin(share)
        if share < 0:
            time.sleep(taken * moments.uniform(0.2, 1.0))
        else:
            assert process.stdout.readline() == b"written\n"
        # not before: had it been the faster one, there would be nothing left to write
        other = begin(-1) if share == 0.5 else None
        process.kill()
        process.communicate()
        check_cache(cache, whole)
        if other is not None:  # it uses the cache all the while
            assert other.communicate()[1] == b""
        assert begin(-1).communicate()[1] == b""  # the next has nothing to complain of
        check_cache(cache, whole)
        assert made.exists()


@posix
@pytest.mark.slow
def test_processes_share_a_cache(torus, sphere, tmp_path):
    formats.write(tmp_path / "a.ply", torus)
    formats.write(tmp_path / "b.ply", sphere)
    words = [
        sys.executable,
        "-m",
        "coembed",
        "match",
        "a.ply",
        "b.ply",
        "--anyway",
        "--cache",
        "cache",
    ]
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
