"""What coembed raises on purpose.

::

    CoembedError
    ├── InputError       (ValueError)    an array, option or argument is wrong
    ├── FileFormatError  (ValueError)    a file is missing, or not what its name says
    ├── WeightsError     (ValueError)    weights and code do not fit
    ├── NumericalError   (RuntimeError)  a solver or a loss failed
    └── MissingExtraError (ImportError)  an optional dependency is needed

A message says what, what was expected, what came and, where it helps, what to try.
"""

__all__ = [
    "CoembedError",
    "FileFormatError",
    "InputError",
    "MissingExtraError",
    "NumericalError",
    "WeightsError",
]


class CoembedError(Exception):
    """Base of every error that coembed raises on purpose."""


class InputError(CoembedError, ValueError):
    """An array, option or argument is wrong."""


class FileFormatError(CoembedError, ValueError):
    """A file is missing, or is not what its name says."""


class WeightsError(CoembedError, ValueError):
    """Weights and code, or weights and request, do not fit."""


class NumericalError(CoembedError, RuntimeError):
    """A solver or a loss failed; the message names the shape and what to try."""


class MissingExtraError(CoembedError, ImportError):
    """An optional dependency is needed; the message holds the install line."""
