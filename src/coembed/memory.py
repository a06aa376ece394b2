"""What this process does with memory that it no longer needs."""

import ctypes

__all__ = ["keep_freed"]

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # numbers of glibc's mallopt(3)
_ALL, _STEP = 2**31 - 1, 64 << 20  # bytes


def keep_freed() -> None:
    """Keep freed memory for the next need, where the C library lets itself be told (glibc).

    The operators of a large cloud take and free many large arrays. By default each goes back to
    the operating system, which clears it before it gives it out again: at 180,000 points that is
    a tenth of the time. It concerns the whole process, so it is for programs, not for libraries.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library, another system
        return
    for setting, value in ((_MMAP_THRESHOLD, _ALL), (_TRIM_THRESHOLD, _ALL), (_TOP_PAD, _STEP)):
        mallopt(setting, value)
