"""Parts of whole shapes with truth: views that files list, and cuts made on the fly.

Takes a collection of whole shapes, gives one in which parts of them stand beside them.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from coembed import cuts, files, geometry, layouts
from coembed.annotations import Int
from coembed.errors import InputError
from coembed.layouts import Collection, Member
from coembed.shapes import Shape
from coembed.skinning import vertex_normals

__all__ = ["cut", "part_of", "with_views"]


def part_of(whole: Member, kept: Int[np.ndarray, " n"], name: str) -> Member:
    """What is left of a member: its rows ``kept``, in that order, as a cloud.

    Faces are left out: a point at the rim may have lost all of its own, and rows that no face of a
    mesh holds get no answer.
    """
    place = np.full(len(whole.shape.points), -1)
    place[kept] = np.arange(len(kept))
    mirrored = None if whole.mirrored is None else place[whole.mirrored]
    shape = Shape(whole.shape.points[kept], name=name)
    return Member(
        name, shape, whole.template, place[whole.rows], mirrored, part=True, whole=whole, kept=kept
    )


def with_views(collection: Collection, folder: Path) -> Collection:
    """Shapes, and the views of them that a folder lists.

    ``index/index_NAME_view_V.txt`` (or without ``index/``) holds the rows of shape NAME that view V
    shows, one a line, counted from 0, in the order that the part is to have. The part is called
    NAME_view_V. Views of shapes that were not chosen are left out.

    Raises
    ------
    InputError
        If there are no views, or one names a shape that is missing or a row that it does not have.
    """
    inner = folder / "index" if (folder / "index").is_dir() else folder
    paths = sorted(inner.glob("index_*_view_*.txt"), key=_by_number)
    if not paths:
        raise InputError(f"{inner}: holds no views; expected files index_NAME_view_V.txt")
    wholes = {member.name: member for member in collection.members}
    there = layouts.named_paths(collection.folder)
    parts = []
    for path in paths:
        part = path.stem.removeprefix("index_")
        name = part.rpartition("_view_")[0]
        if name not in there:
            raise InputError(
                f"{path}: is a view of {name}, which {collection.folder} does not hold"
            )
        if name in wholes:
            kept = files.read_rows(path)
            _check_kept(path, kept, wholes[name])
            parts.append(part_of(wholes[name], kept, part))
    if not parts:
        raise InputError(f"{inner}: holds views of other shapes than those chosen")
    note = f"{len(parts)} views are parts of {len({id(p.whole) for p in parts})} shapes"
    members = (*collection.members, *parts)
    return replace(collection, members=members, notes=(*collection.notes, note))


def _by_number(path: Path) -> tuple[str, int]:
    name, _, view = path.stem.rpartition("_view_")
    return name, int(view) if view.isdecimal() else -1


def _check_kept(path: Path, kept: Int[np.ndarray, " n"], whole: Member) -> None:
    n = len(whole.shape.points)
    bad = np.flatnonzero((kept < 0) | (kept >= n))
    if len(bad):
        raise InputError(
            f"{path}: line {bad[0] + 1} names row {kept[bad[0]]}; {whole.name} has rows 0 to "
            f"{n - 1}"
        )
    if len(np.unique(kept)) < len(kept):
        twice = np.flatnonzero(np.bincount(kept) > 1)[0]
        raise InputError(f"{path}: names row {twice} more than once")


def cut(collection: Collection, kind: str, *, both: bool = False) -> Collection:
    """Whole shapes, and a part of each, called NAME_KIND; with ``both`` the parts alone.

    Listed pairs then name the part of their source, with ``both`` of their target, too. The cut of
    a shape depends on its name and the kind only, so that it is the same in every run.

    Raises
    ------
    InputError
        If the shapes are parts already, or a shape has no faces, which a view of it takes.
    """
    if collection.parts:
        raise InputError(f"{collection.folder}: its shapes are parts already; do not cut them")
    parts = tuple(_cut(collection.members, kind))
    listed = collection.listed
    if listed is not None:
        end = f"_{kind}" if both else ""
        listed = tuple((f"{one}_{kind}", f"{other}{end}") for one, other in listed)
    left = 100 * np.mean([len(p.shape.points) / len(m.shape.points)
                          for p, m in zip(parts, collection.members, strict=True)])  # fmt: skip
    note = f"{'all shapes' if both else 'sources'} are cut ({kind}): {left:.0f} % of the rows left"
    members = parts if both else (*collection.members, *parts)
    return replace(collection, members=members, listed=listed, notes=(*collection.notes, note))


def _cut(members: tuple[Member, ...], kind: str) -> Iterator[Member]:
    for member in members:
        shape = member.shape
        if kind == "views" and not len(shape.sound_faces):
            raise InputError(
                f"{shape.name}: has no faces, so nothing hides what a view does not show; cut "
                "planes, holes, limbs or pieces"
            )
        for reason, rows in shape.unusable.items():
            raise InputError(f"{shape.name}: {len(rows)} rows are {reason}; it cannot be cut")
        seed = hashlib.sha256(f"{kind} {member.name}".encode()).digest()
        rng = np.random.default_rng(list(seed))
        faces = shape.sound_faces[:, :: -1 if geometry.inside_out(shape) else 1]
        normals = vertex_normals(shape.points, faces)
        kept = cuts.kept(kind, shape.points[faces], shape.points, normals, rng)
        if not kept.any():
            raise InputError(f"{shape.name}: nothing of it is left by the cut {kind}")
        yield part_of(member, np.flatnonzero(kept), f"{member.name}_{kind}")
