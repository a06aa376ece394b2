"""Folders of shapes with truth, in the layouts the community uses.

Takes a folder, gives its shapes, the pairs that can be judged and the truth of each pair.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from coembed import datasets, files, formats
from coembed.annotations import Float, Int
from coembed.errors import InputError
from coembed.shapes import Shape

__all__ = ["Collection", "Member", "Truth", "named_paths", "read_collection", "with_pairs"]

_BRIDGES = "cross_category_corres"

Truth = tuple[Int[np.ndarray, " t"], Int[np.ndarray, " t"]]
"""Rows of two shapes that correspond, one by one; -1 where one of them, a part, has no such row."""


@dataclass(frozen=True, eq=False)
class Member:
    """A shape, and its row for each sample of the template it belongs to.

    Parameters
    ----------
    template
        Shapes of the same template correspond sample by sample.
    rows
        -1: a sample that the shape, a part, lacks.
    mirrored
        The rows for the mirrored template; None if they are not known.
    part
        Whether it is a part of a shape only.
    whole, kept
        Of a part that was cut from another member: that one, and the part's rows of it.
    """

    name: str
    shape: Shape
    template: str
    rows: Int[np.ndarray, " t"]
    mirrored: Int[np.ndarray, " t"] | None = None
    part: bool = False
    whole: "Member | None" = None
    kept: Int[np.ndarray, " n"] | None = None

    @property
    def measured(self) -> tuple[Shape, Int[np.ndarray, " n"]]:
        """Where ways to the shape are measured, as a part lacks some: the whole; its rows there."""
        if self.whole is None or self.kept is None:
            return self.shape, np.arange(len(self.shape.points))
        return self.whole.shape, self.kept


@dataclass(frozen=True, eq=False)
class Collection:
    """Shapes with truth.

    Parameters
    ----------
    bridges
        For two templates, the sample of the second one that belongs to each of the first; -1 where
        none does.
    listed
        Names of the pairs of a list, such as ``pairs.txt``; None without one.
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
            return one.rows, _led(rows, there)
        back = self.bridges.get((other.template, one.template))
        return None if back is None else (_led(one.rows, back), rows)

    @property
    def parts(self) -> bool:
        """Whether there are parts among the shapes."""
        return any(member.part for member in self.members)

    def pairs(self, which: str | int = "all") -> Int[np.ndarray, "p 2"]:
        """Pairs that can be judged: all ordered ones, those ``"listed"``, or so many at random.

        ``"all"`` has each shape with itself among them; a number draws from the others, always
        the same ones. Where there are parts, only they are sources, and whole shapes, if there are
        any, are targets; a part and the whole that it was cut from are no pair.
        """
        if which == "listed":
            return self._listed()
        sources, targets = self._sides()
        known = [(i, j) for i in sources for j in targets if self._alike(i, j)]
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

    def _sides(self) -> tuple[list[int], list[int]]:
        """Who may be source and who may be target."""
        everyone = list(range(len(self.members)))
        if not self.parts:
            return everyone, everyone
        parts = [i for i in everyone if self.members[i].part]
        return parts, [i for i in everyone if not self.members[i].part] or parts

    def _alike(self, source: int, target: int) -> bool:
        """Whether two members correspond somewhere, and are not a part and its own whole."""
        truth = self.truth(source, target)
        if truth is None or self.members[source].whole is self.members[target]:
            return False
        return bool(((truth[0] >= 0) & (truth[1] >= 0)).any())

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
            raise InputError(f"{self.folder}: the list names no pair of two shapes that have truth")
        return np.array(known, dtype=np.int64)


def _led(rows: Int[np.ndarray, " t"], samples: Int[np.ndarray, " s"]) -> Int[np.ndarray, " s"]:
    """The row of each sample, -1 for none."""
    return np.where(samples < 0, -1, rows[samples])


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

    Parts of shapes come with the whole ones that they are matched with:

    - ``corres/PART_WHOLE.map`` (or ``maps/``, the shapes in ``shapes/``): for each row of the part
      the row of the whole, counted from 0, -1 for none (PFARM, DPFM's SHREC'16, CP2P);
    - a folder ``null`` beside this one holds the wholes, whose name is a word of the part's name
      (SHREC'16 Partial: ``cuts/cuts_cat_shape_1.off`` and ``null/cat.off``, the shapes perhaps in
      ``off/``). Truth is ``corres/PART.vts``, the row of the whole for each of the part, or
      ``PART.baryc_gt`` beside the shape: face of the whole, counted from 1, and three weights, of
      which the largest counts.

    ``pairs.txt`` may list pairs, two names a line with a comma.

    Parameters
    ----------
    chosen
        Which of the sorted shapes that have truth; where there are parts, which of the parts.
    base
        What the files of truth call the first row, 1 or 0; those of parts that say from where
        they count are not asked.

    Raises
    ------
    InputError
        If the folder holds too little, or truth and shapes disagree: names file and line.
    """
    if (folder / "null").is_dir() and not (folder / "off").is_dir():
        raise InputError(
            f"{folder}: holds whole shapes in null and their parts beside it; name the folder of "
            f"the parts, such as {folder / 'cuts'}"
        )
    names = named_paths(folder)
    maps = [path for inner in ("corres", "maps") for path in (folder / inner).glob("*.map")]
    if maps:
        members, bridges, notes = _mapped(sorted(maps), names, chosen)
    elif (folder.parent / "null").is_dir() and folder.name != "null":
        members, bridges, notes = _against_null(folder, names, chosen, base)
    else:
        members, bridges, notes = _together(folder, names, chosen, base)
    if len(members) < 2:
        raise InputError(
            f"{folder}: fewer than two shapes with truth; expected files in off/ and a "
            "corres/NAME.vts for each"
        )
    found = Collection(folder, tuple(members), bridges, None, tuple(notes))
    listed = folder / "pairs.txt"
    return with_pairs(found, listed) if listed.exists() else found


_Read = tuple[list[Member], dict[tuple[str, str], Int[np.ndarray, " t"]], list[str]]
"""Members, bridges and notes."""


def named_paths(folder: Path) -> dict[str, Path]:
    """The shapes of a folder by name: the path within ``off/`` (or ``shapes/``) without ending."""
    if (folder / "shapes").is_dir() and not (folder / "off").is_dir():
        folder = folder / "shapes"
    inner = folder / "off" if (folder / "off").is_dir() else folder
    names: dict[str, Path] = {}
    for path in datasets.shape_paths(folder):
        name = path.relative_to(inner).with_suffix("").as_posix()
        if name in names:
            raise InputError(f"{names[name]} and {path}: two files for one shape; take one away")
        names[name] = path
    return names


def with_pairs(collection: Collection, path: Path) -> Collection:
    """A collection whose ``"listed"`` pairs are those of a file: two names a line with a comma.

    Raises
    ------
    InputError
        If the file is missing, empty or holds other lines.
    """
    listed = _listed(path)
    names = {member.name for member in collection.members}
    lost = sum(not {a, b} <= names for a, b in listed)
    note = f"{lost} of {len(listed)} listed pairs cannot be judged"
    return replace(collection, listed=listed, notes=(*collection.notes, note))


def _together(folder: Path, names: Mapping[str, Path], chosen: slice, base: int) -> _Read:
    """Whole shapes with a template, or that lead to one of them, or share an order."""
    truth = {name: _truth_path(folder, name) for name in names}
    known = [name for name in names if truth[name].exists()]
    if not known and not (folder / "corres").exists():
        known = list(names)[chosen]
        members = _ordered_alike({name: formats.read(names[name]) for name in known})
        return members, {}, ["truth: shapes of one kind share the order of points"]
    shapes = {name: formats.read(names[name]) for name in known}
    rows = {name: _rows(truth[name], shapes[name], base) for name in known}
    rest = [name for name in names if name not in known]
    if len(rest) == 1 and _leads_to_one(folder, rows, shapes, rest[0]):
        centre = formats.read(names[rest[0]])
        members, bridges = _star(folder, rows, shapes, rest[0], centre, base)
        note = f"truth: every shape leads to {rest[0]}, rows counted from {base}"
        return members[chosen], bridges, [note]
    notes = [f"{len(rest)} of {len(names)} shapes have no truth"] if rest else []
    notes.append(f"truth: a template leads to each shape, rows counted from {base}")
    made = ((folder, name, shapes[name], rows[name], base) for name in known[chosen])
    members = [_member(*parts) for parts in made]
    _check_templates(folder, members)
    return members, _bridges(folder, members, base), notes


def _mapped(maps: list[Path], names: Mapping[str, Path], chosen: slice) -> _Read:
    """Parts and what files of maps lead them to; each shape is its own template."""
    ends = {path: _ends(path, names) for path in maps}
    parts = sorted({one for one, _ in ends.values()})[chosen]
    ends = {path: pair for path, pair in ends.items() if pair[0] in parts}
    used = sorted({name for pair in ends.values() for name in pair})
    members = [_alone(name, formats.read(names[name]), part=name in parts) for name in used]
    shapes = {member.name: member.shape for member in members}
    bridges = {}
    for path, (one, other) in ends.items():
        rows, n = files.read_rows(path), len(shapes[one].points)
        if len(rows) != n:
            raise InputError(f"{path}: {len(rows)} lines; {names[one].name} has {n} points")
        answers = np.where(rows == -1, 0, rows)
        _check_rows(path, answers, len(shapes[other].points), names[other].name, 0, advise=False)
        bridges[one, other] = rows
    lost = len(names) - len(used) if chosen == slice(None) else 0
    notes = [f"{lost} of {len(names)} shapes have no truth"] if lost else []
    return members, bridges, [*notes, "truth: a map leads from each part, rows counted from 0"]


def _ends(path: Path, names: Mapping[str, Path]) -> tuple[str, str]:
    """The two shapes that the name of a map says."""
    words = path.stem.split("_")
    cuts = [("_".join(words[:k]), "_".join(words[k:])) for k in range(1, len(words))]
    for one, other in cuts:
        if one in names and other in names:
            return one, other
    raise InputError(
        f"{path}: must be called PART_WHOLE.map after two shapes of the folder; found no such two"
    )


def _alone(name: str, shape: Shape, *, part: bool = False) -> Member:
    """A member that is its own template."""
    return Member(name, shape, name, np.arange(len(shape.points)), part=part)


def _against_null(folder: Path, names: Mapping[str, Path], chosen: slice, base: int) -> _Read:
    """Parts that lead to whole shapes in a folder beside them."""
    null = named_paths(folder.parent / "null")
    truth = {name: _truth_of_part(folder, name, path) for name, path in names.items()}
    known = {name: path for name, path in truth.items() if path is not None}
    notes = [f"{len(names) - len(known)} of {len(names)} shapes have no truth"]
    members, bridges, wholes = [], {}, dict[str, Member]()
    for name in list(known)[chosen]:
        inside = [one for one in null if one in re.split(r"[_-]", name)]
        if len(inside) != 1:
            raise InputError(
                f"{names[name]}: its name must hold that of one whole shape of "
                f"{folder.parent / 'null'} as a word; it holds {len(inside)}"
            )
        if inside[0] not in wholes:
            wholes[inside[0]] = _alone(inside[0], formats.read(null[inside[0]]))
        whole, shape = wholes[inside[0]], formats.read(names[name])
        rows = _rows_of_part(known[name], shape, whole.shape, base)
        there = np.flatnonzero(rows >= 0)
        members.append(Member(name, shape, name, there, part=True))
        bridges[name, whole.name] = rows[there]
    notes = notes if len(known) < len(names) else []
    note = f"truth: each part leads to a shape of {folder.parent / 'null'}"
    return [*members, *wholes.values()], bridges, [*notes, note]


def _truth_of_part(folder: Path, name: str, path: Path) -> Path | None:
    rows = folder / "corres" / f"{name}.vts"
    places = (rows, path.with_suffix(".baryc_gt"), rows.with_suffix(".baryc_gt"))
    return next((one for one in places if one.exists()), None)


def _rows_of_part(path: Path, part: Shape, whole: Shape, base: int) -> Int[np.ndarray, " n"]:
    """Row of the whole shape for each of the part; -1 where a face is named that is not there."""
    if path.suffix == ".vts":
        rows = files.read_rows(path) - base
        _check_rows(path, rows, len(whole.points), whole.name, base)
    else:
        face, weights = _barycentric(path)
        faces = np.empty((0, 3), np.int64) if whole.faces is None else whole.faces
        there = face < len(faces)  # TOSCA's cat lost some faces after the truth was made
        rows = np.full(len(face), -1)
        rows[there] = faces[face[there], weights[there].argmax(axis=1)]
        if not there.any():
            raise InputError(f"{path}: names faces that {Path(whole.name).name} does not have")
    if len(rows) != len(part.points):
        raise InputError(
            f"{path}: {len(rows)} lines; {Path(part.name).name} has {len(part.points)} points"
        )
    return rows


def _barycentric(path: Path) -> tuple[Int[np.ndarray, " n"], Float[np.ndarray, "n 3"]]:
    """Faces from 0 and their weights."""
    files.check_readable(path)
    try:
        table = np.loadtxt(path, ndmin=2)
    except ValueError as error:
        raise InputError(f"{path}: expected a face and three weights per line ({error})") from error
    if table.shape[1] != 4 or not len(table) or (table[:, 0] < 1).any():
        raise InputError(f"{path}: expected a face, counted from 1, and three weights per line")
    return table[:, 0].astype(np.int64) - 1, table[:, 1:]


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


def _check_rows(
    path: Path, rows: Int[np.ndarray, " t"], n: int, name: str, base: int, *, advise: bool = True
) -> None:
    bad = np.flatnonzero((rows < 0) | (rows >= n))
    if not len(bad):
        return
    other = 1 - base
    lowest, highest = rows.min() + base, rows.max() + base
    fits = advise and other <= lowest and highest <= n - 1 + other
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


def _listed(path: Path) -> tuple[tuple[str, str], ...]:
    files.check_readable(path)
    pairs = []
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        words = [word.strip() for word in line.split(",")]
        if len(words) != 2:
            if not line.strip():
                continue
            raise InputError(f"{path}: line {number} must hold two names and a comma; got {line!r}")
        pairs.append((words[0], words[1]))
    if not pairs:
        raise InputError(f"{path}: lists no pairs; expected two names and a comma in each line")
    return tuple(pairs)
