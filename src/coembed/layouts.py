"""Folders of shapes with truth, in the layouts the community uses.

Takes a folder, gives its shapes, the pairs that can be judged and the truth of each pair.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from coembed import datasets, files, formats
from coembed.annotations import Int
from coembed.errors import InputError
from coembed.shapes import Shape

__all__ = ["Collection", "Member", "Truth", "read_collection"]

_BRIDGES = "cross_category_corres"

Truth = tuple[Int[np.ndarray, " t"], Int[np.ndarray, " t"]]
"""Rows of two shapes that correspond, one by one."""


@dataclass(frozen=True, eq=False)
class Member:
    """A shape, and its row for each sample of the template it belongs to.

    Parameters
    ----------
    template
        Shapes of the same template correspond sample by sample.
    mirrored
        The rows for the mirrored template; None if they are not known.
    """

    name: str
    shape: Shape
    template: str
    rows: Int[np.ndarray, " t"]
    mirrored: Int[np.ndarray, " t"] | None = None


@dataclass(frozen=True, eq=False)
class Collection:
    """Shapes with truth.

    Parameters
    ----------
    bridges
        For two templates, the sample of the second one that belongs to each of the first.
    listed
        Names of the pairs of ``pairs.txt``; None without one.
    notes
        How the folder was understood, and what of it cannot be judged.
    """

    folder: Path
    members: tuple[Member, ...]
    bridges: Mapping[tuple[str, str], Int[np.ndarray, " t"]]
    listed: tuple[tuple[str, str], ...] | None
    notes: tuple[str, ...]

    def truth(self, source: int, target: int, *, mirrored: bool = False) -> Truth | None:
        """Corresponding rows of two members (with the mirrored target), or None if unknown."""
        one, other = self.members[source], self.members[target]
        rows = other.mirrored if mirrored else other.rows
        if rows is None:
            return None
        there = self.bridges.get((one.template, other.template))
        if one.template == other.template:
            return one.rows, rows
        if there is not None:
            return one.rows, rows[there]
        back = self.bridges.get((other.template, one.template))
        return None if back is None else (one.rows[back], rows)

    def pairs(self, which: str | int = "all") -> Int[np.ndarray, "p 2"]:
        """Pairs that can be judged: all ordered ones, those ``"listed"``, or so many at random.

        ``"all"`` has each shape with itself among them; a number draws from the others, always
        the same ones.
        """
        n = len(self.members)
        if which == "listed":
            return self._listed()
        known = [(i, j) for i in range(n) for j in range(n) if self.truth(i, j, mirrored=False)]
        apart = np.array([pair for pair in known if pair[0] != pair[1]], dtype=np.int64)
        if not len(apart):
            raise InputError(
                f"{self.folder}: no two shapes correspond; expected corres/NAME.vts, or names that "
                "differ in the last number only"
            )
        if which == "all":
            return np.array(known, dtype=np.int64)
        count = int(which)
        if not 1 <= count <= len(apart):
            raise InputError(
                f"{self.folder}: {count} pairs were asked for; there are {len(apart)} of two "
                "different shapes"
            )
        return apart[np.sort(np.random.default_rng(0).choice(len(apart), count, replace=False))]

    def _listed(self) -> Int[np.ndarray, "p 2"]:
        if self.listed is None:
            raise InputError(f"{self.folder / 'pairs.txt'}: no such file")
        place = {member.name: i for i, member in enumerate(self.members)}
        known = [
            (place[a], place[b])
            for a, b in self.listed
            if a in place and b in place and self.truth(place[a], place[b])
        ]
        if not any(i != j for i, j in known):
            raise InputError(
                f"{self.folder / 'pairs.txt'}: names no pair of two shapes that have truth"
            )
        return np.array(known, dtype=np.int64)


def read_collection(folder: Path, *, chosen: slice = slice(None), base: int = 1) -> Collection:
    """Read a folder of shapes with truth.

    Shapes are in ``off/`` (or the folder itself), perhaps in subfolders, which are then
    templates of their own. Truth is one of

    - ``corres/NAME.vts``: for each sample of a common template the row of the shape, counted
      from 1, perhaps with ``corres/NAME.sym.vts`` for the mirrored template (FAUST, SCAPE, SMAL,
      SHREC'19, DT4D; ``corres/cross_category_corres/A_B.vts`` leads from template A to B);
    - ``corres/NAME.vts`` or ``NAME_ref.txt`` with a line for each of the shape's own points and
      no file for one shape, which they lead to (TOPKIDS);
    - nothing: shapes whose names differ in the last number share the order of points (TOSCA).

    ``pairs.txt`` may list pairs, two names a line with a comma.

    Parameters
    ----------
    chosen
        Which of the sorted shapes that have truth.
    base
        What the files of truth call the first row, 1 or 0.

    Raises
    ------
    InputError
        If the folder holds too little, or truth and shapes disagree: names file and line.
    """
    paths = datasets.shape_paths(folder)
    inner = folder / "off" if (folder / "off").is_dir() else folder
    names: dict[str, Path] = {}
    for path in paths:
        name = path.relative_to(inner).with_suffix("").as_posix()
        if name in names:
            raise InputError(f"{names[name]} and {path}: two files for one shape; take one away")
        names[name] = path
    truth = {name: _truth_path(folder, name) for name in names}
    known = [name for name in names if truth[name].exists()]
    notes: list[str] = []
    bridges: dict[tuple[str, str], Int[np.ndarray, " t"]] = {}
    if not known and not (folder / "corres").exists():
        known = list(names)[chosen]
        members = _ordered_alike({name: formats.read(names[name]) for name in known})
        notes.append("truth: shapes of one kind share the order of points")
    else:
        shapes = {name: formats.read(names[name]) for name in known}
        rows = {name: _rows(truth[name], shapes[name], base) for name in known}
        rest = [name for name in names if name not in known]
        if len(rest) == 1 and _leads_to_one(folder, rows, shapes, rest[0]):
            centre = formats.read(names[rest[0]])
            members, bridges = _star(folder, rows, shapes, rest[0], centre, base)
            members = members[chosen]
            notes.append(f"truth: every shape leads to {rest[0]}, rows counted from {base}")
        else:
            if rest:
                notes.append(f"{len(rest)} of {len(names)} shapes have no truth")
            notes.append(f"truth: a template leads to each shape, rows counted from {base}")
            made = ((folder, name, shapes[name], rows[name], base) for name in known[chosen])
            members = [_member(*parts) for parts in made]
            _check_templates(folder, members)
            bridges = _bridges(folder, members, base)
    if len(members) < 2:
        raise InputError(
            f"{folder}: fewer than two shapes with truth; expected files in off/ and a "
            "corres/NAME.vts for each"
        )
    listed = _listed(folder / "pairs.txt")
    if listed is not None:
        notes.append(f"{_lost(listed, members)} of {len(listed)} listed pairs cannot be judged")
    return Collection(folder, tuple(members), bridges, listed, tuple(notes))


def _lost(listed: tuple[tuple[str, str], ...], members: list[Member]) -> int:
    there = {member.name for member in members}
    return sum(not {a, b} <= there for a, b in listed)


def _truth_path(folder: Path, name: str) -> Path:
    path = folder / "corres" / f"{name}.vts"
    other = folder / "corres" / f"{name}_ref.txt"
    return other if other.exists() and not path.exists() else path


def _rows(path: Path, shape: Shape, base: int) -> Int[np.ndarray, " t"]:
    """Rows from 0; each must be one of the shape's, but in truth that leads elsewhere."""
    rows = files.read_rows(path) - base
    if len(rows) != len(shape.points):
        _check_rows(path, rows, len(shape.points), shape.name, base)
    return rows


def _check_rows(path: Path, rows: Int[np.ndarray, " t"], n: int, name: str, base: int) -> None:
    bad = np.flatnonzero((rows < 0) | (rows >= n))
    if not len(bad):
        return
    other = 1 - base
    lowest, highest = rows.min() + base, rows.max() + base
    fits = other <= lowest and highest <= n - 1 + other
    advice = f"; if it counts from {other}, say --truth-base {other}" if fits else ""
    raise InputError(
        f"{path}: line {bad[0] + 1} names row {rows[bad[0]] + base}; {Path(name).name} has rows "
        f"{base} to {n - 1 + base}{advice}"
    )


def _leads_to_one(
    folder: Path,
    rows: Mapping[str, Int[np.ndarray, " t"]],
    shapes: Mapping[str, Shape],
    other: str,
) -> bool:
    """Whether the truth leads from every shape to the one that has none.

    Then it has a line for each point of its own shape. If that holds and the lines could as well
    be those of a common template, nobody can tell; lines that name each own row once are those of
    a template.
    """
    sizes = {name: len(shape.points) for name, shape in shapes.items()}
    if not rows or any(len(one) != sizes[name] for name, one in rows.items()):
        return False
    named = any(str(_truth_path(folder, name)).endswith("_ref.txt") for name in rows)
    beyond = any(one.max() >= sizes[name] for name, one in rows.items())
    if named or beyond or len({len(one) for one in rows.values()}) > 1 or len(rows) == 1:
        return True
    if all(len(np.unique(one)) == len(one) for one in rows.values()):
        return False
    raise InputError(
        f"{folder}: {other} alone has no corres/NAME.vts, and the others have a line for each of "
        f"their points: they may lead to {other} or to a common template; name them "
        f"NAME_ref.txt if they lead to {other}, or take {other} away"
    )


def _star(
    folder: Path,
    rows: Mapping[str, Int[np.ndarray, " t"]],
    shapes: Mapping[str, Shape],
    centre: str,
    shape: Shape,
    base: int,
) -> tuple[list[Member], dict[tuple[str, str], Int[np.ndarray, " t"]]]:
    """Members that are each their own template, with a bridge from each to the one in common."""
    for name, one in rows.items():
        _check_rows(_truth_path(folder, name), one, len(shape.points), shape.name, base)
    members = [
        Member(name, shapes[name], name, np.arange(len(shapes[name].points))) for name in rows
    ]
    members.append(Member(centre, shape, centre, np.arange(len(shape.points))))
    members.sort(key=lambda member: member.name)
    return members, {(name, centre): one for name, one in rows.items()}


def _member(
    folder: Path, name: str, shape: Shape, rows: Int[np.ndarray, " t"], base: int
) -> Member:
    path = _truth_path(folder, name)
    _check_rows(path, rows, len(shape.points), shape.name, base)
    mirrored = folder / "corres" / f"{name}.sym.vts"
    twin = None
    if mirrored.exists():
        twin = files.read_rows(mirrored) - base
        _check_rows(mirrored, twin, len(shape.points), shape.name, base)
        if len(twin) != len(rows):
            raise InputError(f"{mirrored}: {len(twin)} lines; {path.name} has {len(rows)}")
    return Member(name, shape, name.rpartition("/")[0], rows, twin)


def _check_templates(folder: Path, members: list[Member]) -> None:
    first: dict[str, Member] = {}
    for member in members:
        other = first.setdefault(member.template, member)
        if len(member.rows) != len(other.rows):
            raise InputError(
                f"{folder}: the .vts files have different numbers of lines: {len(other.rows)} for "
                f"{other.name}, {len(member.rows)} for {member.name}"
            )


def _bridges(
    folder: Path, members: list[Member], base: int
) -> dict[tuple[str, str], Int[np.ndarray, " t"]]:
    sizes = {member.template: len(member.rows) for member in members}
    found = {}
    for path in sorted((folder / "corres" / _BRIDGES).glob("*.vts")):
        for one in sizes:
            other = path.stem.removeprefix(f"{one}_")
            if path.stem == f"{one}_{other}" and other in sizes:
                rows = files.read_rows(path) - base
                if len(rows) != sizes[one]:
                    back = "; it leads the other way" if len(rows) == sizes[other] else ""
                    raise InputError(
                        f"{path}: {len(rows)} lines; the template of {one} has {sizes[one]}{back}"
                    )
                _check_rows(path, rows, sizes[other], f"the template of {other}", base)
                found[one, other] = rows
    return found


def _ordered_alike(shapes: Mapping[str, Shape]) -> list[Member]:
    """Members of kinds by name without the last number, each with all of its rows."""
    first: dict[str, Shape] = {}
    members = []
    for name, shape in shapes.items():
        kind = re.sub(r"\d+$", "", name)
        other = first.setdefault(kind, shape)
        if len(shape.points) != len(other.points):
            raise InputError(
                f"{shape.name}: has {len(shape.points)} points and {other.name} "
                f"{len(other.points)}; without corres/NAME.vts, shapes whose names differ in the "
                "last number must share the order of points"
            )
        members.append(Member(name, shape, kind, np.arange(len(shape.points))))
    return members


def _listed(path: Path) -> tuple[tuple[str, str], ...] | None:
    if not path.exists():
        return None
    files.check_readable(path)
    pairs = []
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        words = [word.strip() for word in line.split(",")]
        if len(words) != 2:
            if not line.strip():
                continue
            raise InputError(f"{path}: line {number} must hold two names and a comma; got {line!r}")
        pairs.append((words[0], words[1]))
    return tuple(pairs)
