import subprocess
import sys

import pytest

from coembed import memory

TAKE_AND_FREE = """
import resource, sys
import numpy as np
from coembed import memory
{}
np.ones(4_000_000)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    np.ones(4_000_000)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def page_faults(line):
    code = TAKE_AND_FREE.format(line)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="glibc")
def test_kept_memory_is_not_asked_for_again():
    kept, given_back = page_faults("memory.keep_freed()"), page_faults("")
    assert kept < given_back / 4


def test_another_c_library_is_left_alone(monkeypatch):
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda _: object())
    memory.keep_freed()
