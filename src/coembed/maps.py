"""Maps and truth in files of any origin: which way they lead and where their rows count from.

Takes a file and the sizes of two shapes, gives rows from 0; what does not fit is refused in words
that say what would.
"""

from pathlib import Path

import numpy as np

from coembed import files
from coembed.annotations import Int
from coembed.errors import InputError
from coembed.shapes import Correspondence

__all__ = ["changed_rows", "counted_from", "read_map", "read_template", "read_truth"]


def read_map(
    path: Path, *, n_target: int, n_source: int | None = None, base: int | None = None
) -> Correspondence:
    """Read a map from source to target and see that it is one.

    Parameters
    ----------
    n_target, n_source
        Rows of the two shapes; the source's if they are known.
    base
        What the file calls the first row, 0 or 1. None: see `counted_from`; its
        ``record["counted_from"]`` says what was found.

    Raises
    ------
    InputError
        If its length or its rows do not fit; it says so if they fit the other direction.
    """
    if path.suffix == ".npz":
        found = files.read_matches(path, n_target=None)
        _check_direction(path, len(found.p2p), found.n_target, n_source, n_target)
        return found
    rows = files.read_rows(path)
    if n_source is not None and len(rows) != n_source:
        _check_direction(path, len(rows), None, n_source, n_target)
    base = counted_from(path, rows, n_target, stated=base, option="--base")
    _check_rows(path, rows, base, n_target, "target", n_source)
    p2p = np.where(rows < base, -1, rows - base)
    return Correspondence(p2p, (p2p >= 0).astype(float), n_target, {"counted_from": base})


def changed_rows(path: Path, matches: Correspondence) -> int:
    """How many rows of a map in a file are not those of a correspondence.

    Raises
    ------
    InputError
        If it is a map between other shapes.
    """
    found = read_map(path, n_source=len(matches.p2p), n_target=matches.n_target, base=0)
    return int((found.p2p != matches.p2p).sum())


def read_truth(
    path: Path, *, n_source: int, n_target: int, base: int | None = None, lines: str = "source"
) -> tuple[Int[np.ndarray, "s 2"], str]:
    """Read the truth of a pair as (source row, target row), and say how it was understood.

    Parameters
    ----------
    path
        A map, line i for row i; or two numbers a line, a row of each shape.
    base
        What the file calls the first row. None: see `counted_from`.
    lines
        ``"target"``: the map leads from target to source, or the target's row comes first.

    Raises
    ------
    InputError
        If its length or its rows do not fit; it says so if they fit the other direction.
    """
    table = files.read_rows(path, columns=(1, 2))
    sides = (("source", n_source), ("target", n_target))
    (one, n), (other, m) = sides if lines == "source" else sides[::-1]
    if table.ndim == 1:
        _check_truth_length(path, len(table), (one, n), (other, m))
        base = counted_from(path, table, m, stated=base, option="--truth-base")
        table = np.stack([np.arange(n) + base, table], axis=1)
    elif base is None:
        option = "--truth-base"
        base = max(counted_from(path, table[:, i], (n, m)[i], stated=None, option=option)
                   for i in (0, 1))  # fmt: skip
    _check_rows(path, table[:, 0], base, n, one)
    _check_rows(path, table[:, 1], base, m, other)
    pairs = table - base if lines == "source" else table[:, ::-1] - base
    return pairs[(pairs >= 0).all(axis=1)], f"{one} to {other}, rows counted from {base}"


def read_template(
    source: Path, target: Path, *, n_source: int, n_target: int, base: int | None = None
) -> tuple[Int[np.ndarray, "s 2"], str]:
    """Read the truth of a pair from what leads to each shape from the samples of one template.

    Parameters
    ----------
    base
        What the files call the first row. None: 1, unless a file names 0, which is refused.

    Returns
    -------
    As `read_truth`.

    Raises
    ------
    InputError
        If lengths or rows do not fit; it says so if the two files seem to be exchanged.
    """
    columns = [files.read_rows(path) for path in (source, target)]
    files.check_as_long(source, target, *map(len, columns))
    sizes = (n_source, n_target)
    for path, rows in zip((source, target), columns, strict=True):
        if base is None and (rows == 0).any():
            raise InputError(
                f"{path}: line {int((rows == 0).argmax()) + 1} names row 0, but such files count "
                "from 1; say --truth-base 0 if this one counts from 0, --truth-base 1 if 0 "
                "means none"
            )
    base = 1 if base is None else base
    crossed = all((rows - base < n).all() for rows, n in zip(columns, sizes[::-1], strict=True))
    _check_rows(source, columns[0], base, n_source, "source", swapped=crossed)
    _check_rows(target, columns[1], base, n_target, "target", swapped=crossed)
    pairs = np.stack(columns, axis=1) - base
    return pairs[(pairs >= 0).all(axis=1)], f"template to each shape, rows counted from {base}"


def counted_from(
    path: Path, rows: Int[np.ndarray, " n"], n: int, *, stated: int | None, option: str
) -> int:
    """What a map calls the first of n rows: 0, or 1 if it names n and never 0, or as stated.

    Raises
    ------
    InputError
        If it names both 0 and n, and nothing is stated.
    """
    if stated is not None:
        return stated
    last, first = bool((rows == n).any()) and rows.max() == n, bool((rows == 0).any())
    if last and first:
        raise InputError(
            f"{path}: names row 0 and row {n}, but there are {n} rows: it counts from 1 and 0 "
            f"means none, or it belongs to another shape; if the former, say {option} 1"
        )
    return 1 if last else 0


def _check_direction(
    path: Path, n_lines: int, n_named: int | None, n_source: int | None, n_target: int
) -> None:
    """Refuse a map of the wrong length; ``n_named`` are the rows of its target, if it says."""
    if n_source in (None, n_lines) and n_named in (None, n_target):
        return
    leads = f"has {n_lines} lines" if n_named is None else f"leads from {n_lines} to {n_named} rows"
    sizes = f"the target has {n_target} points"
    if n_source is not None:
        sizes = f"the source has {n_source} points, {sizes}"
    back = n_lines == n_target and (None in (n_named, n_source) or n_named == n_source)
    advice = (
        "it leads from target to source: exchange the two shapes, or match them the other way"
        if back
        else "it belongs to other shapes"
    )
    raise InputError(f"{path}: {leads}, but {sizes}; {advice}")


def _check_truth_length(
    path: Path, n_lines: int, lines: tuple[str, int], others: tuple[str, int]
) -> None:
    (one, n), (other, m) = lines, others
    if n_lines == n:
        return
    advice = "it belongs to another shape, or leads from a template (then give one for each shape)"
    if n_lines == m:
        advice = f"it leads the other way: say --truth-from {other}"
    raise InputError(
        f"{path}: has {n_lines} lines, but the {one} has {n} points and the {other} {m}; {advice}"
    )


def _check_rows(
    path: Path,
    rows: Int[np.ndarray, " n"],
    base: int,
    n: int,
    side: str,
    n_source: int | None = None,
    *,
    swapped: bool = False,
) -> None:
    beyond = rows - base >= n
    if not beyond.any():
        return
    line = int(beyond.argmax())
    advice = ""
    if swapped:
        advice = "; the two files fit if they are exchanged"
    elif len(rows) == n and n_source != n:
        advice = f"; it has a line for each point of the {side}: does it lead the other way?"
    raise InputError(
        f"{path}: line {line + 1} names row {rows[line]}, but the {side} has rows {base} to "
        f"{n - 1 + base}{advice}"
    )
