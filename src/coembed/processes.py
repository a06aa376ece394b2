"""Several processes at once, which end with the one that began them."""

import os
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import parent_process
from multiprocessing.context import BaseContext
from typing import Any

__all__ = ["pool"]


def pool(
    jobs: int,
    *,
    context: BaseContext | None = None,
    start: Callable[..., None] | None = None,
    arguments: tuple[Any, ...] = (),
) -> ProcessPoolExecutor:
    """So many processes; where this one is killed, they end, too, instead of waiting for ever.

    Parameters
    ----------
    context
        How they begin, as in `multiprocessing.get_context`.
    start, arguments
        What each of them calls first.
    """
    return ProcessPoolExecutor(jobs, context, _begin, (start, arguments))


def _begin(start: Callable[..., None] | None, arguments: tuple[Any, ...]) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if start is not None:
        start(*arguments)


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)  # the other thread waits for work that nobody sends
