"""Several processes at once."""

import os
import subprocess
import sys

import pytest

from coembed import processes

WORK = """
import time
from coembed import processes
with processes.pool(2) as pool:
    list(pool.map(time.sleep, [0.1] * 4))
    print("begun", flush=True)
    time.sleep(600)
"""


def remember(value):
    os.environ["COEMBED_TEST"] = value


def recall(number):
    return os.environ["COEMBED_TEST"], number


def test_each_process_starts_as_told_and_results_keep_their_order():
    with processes.pool(2, start=remember, arguments=("told",)) as pool:
        assert list(pool.map(recall, range(20))) == [("told", number) for number in range(20)]


@pytest.mark.skipif(os.name != "posix", reason="signals are those of POSIX")
def test_processes_end_when_the_one_that_began_them_is_killed():
    process = subprocess.Popen([sys.executable, "-c", WORK], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"begun\n"
    process.kill()
    process.communicate(timeout=60)  # waits for all that can still write to the pipe
