"""Decoders that a damaged file crashes or keeps busy end with one line, not with the program."""

import os

import pytest

from coembed import isolation
from coembed.errors import FileFormatError

posix = pytest.mark.skipif(os.name != "posix", reason="limits are those of POSIX")


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ("import os; os.abort()", "its decoder crashed"),
        pytest.param(
            "from coembed.isolation import _limit; _limit(0)\nwhile True: pass",
            "its decoder did not end",
            marks=[posix, pytest.mark.slow],
        ),
        pytest.param(
            "from coembed.isolation import _limit; _limit(0); b'0' * (1 << 40)",
            "its decoder crashed",
            marks=posix,
        ),
    ],
)
def test_a_decoder_that_fails_is_an_error_of_the_file(tmp_path, monkeypatch, start, message):
    path = tmp_path / "a.mat"
    path.write_bytes(b"nothing")
    monkeypatch.setattr(isolation, "_START", start)
    with pytest.raises(FileFormatError, match=f"a.mat: damaged: {message}; copy or export"):
        isolation.decoded("mat5", path)
