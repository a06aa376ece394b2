"""Shapes to parts by k-means in the embedding, the same parts on all of them.

Takes a model and shapes, gives labels; needs scikit-learn (``coembed[segment]``).
"""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from coembed import files, formats, geometry, sampling, spectrum
from coembed.annotations import Float, Int
from coembed.colourings import NONE, PALETTE
from coembed.errors import InputError, MissingExtraError
from coembed.matching import POINTS, embed
from coembed.model import CoupledEmbedding
from coembed.search import nearest
from coembed.shapes import Embedding, Shape

__all__ = ["Segmentation", "check_output", "row_areas", "segment", "write_segmentation"]

_FITTED = 5_000  # points of a shape that the clusters are found with
_TIME = 0.01  # in areas: heat spreads the embedding about 0.1 sqrt(area) far
_CHUNK = 50_000  # points whose labels are found at a time
_STARTS = 10  # of k-means, the best of which is taken
_MASSES = 20_000  # points of a cloud whose areas are found; others share with the nearest


@dataclass(frozen=True, eq=False)
class Segmentation:
    """Parts of several shapes, named alike on all of them.

    Parameters
    ----------
    parts
        Numbers of parts, ascending; each part of a finer level lies in one of the coarser.
    labels
        For each shape the part of each row, a column a level; -1 for rows without an embedding.
        Part 0 is the largest, by points of all shapes.
    """

    parts: tuple[int, ...]
    labels: tuple[Int[np.ndarray, "n l"], ...]

    def names(self) -> tuple[str, ...]:
        """Of the levels: ``part``, or with several ``part_4``, ``part_12``."""
        if len(self.parts) == 1:
            return ("part",)
        return tuple(f"part_{n}" for n in self.parts)


def segment(
    model: CoupledEmbedding,
    shapes: Sequence[Shape | Embedding],
    *,
    parts: int | Sequence[int],
    joint: bool = True,
    seed: int = 0,
    points: int | None = POINTS,
    cache: Path | None = None,
) -> Segmentation:
    """Part shapes by k-means in the embedding: points that match get the same label.

    The embedding is smoothed by heat on the shape first, one implicit step (M + tL)⁻¹M of t = 0.01
    areas. It changes nothing for embeddings as smooth as the eigenfunctions that those of the paper
    are like; those of weights trained by matching tell near points apart, but not far ones, and
    would part a shape into scattered patches.

    Parameters
    ----------
    parts
        How many. Several numbers give nested parts: the finest are found, then merged by Ward's
        rule.
    joint
        Cluster the points of all shapes at once. Otherwise each shape alone, as in the paper, and
        the clusters of the others are matched to those of the first: as pairs of centres that
        are nearest in sum.
    seed
        Of k-means.
    points, cache
        As in `match`.

    Raises
    ------
    InputError
        If there are no shapes, or more parts than points.
    MissingExtraError
        Without scikit-learn.

    References
    ----------
    [Zeng25] sec. 5.7.
    """
    levels = tuple(sorted({parts} if isinstance(parts, int) else set(parts)))
    if not levels or levels[0] < 2:
        raise InputError(f"parts must be 2 or more; got {parts}")
    if not shapes:
        raise InputError("there are no shapes to part")
    embedded = [
        shape if isinstance(shape, Embedding) else embed(model, shape, points=points, cache=cache)
        for shape in shapes
    ]
    for one in embedded:
        if one.weights != model.digest:
            raise InputError(f"{one.name}: was embedded with other weights; embed it again")
        if levels[-1] > len(one.values):
            raise InputError(f"{one.name}: has {len(one.values)} points for {levels[-1]} parts")
    features = [_Features.of(one) for one in embedded]
    values = [one.values for one in features]
    if joint:
        centres = [_centres(values, levels[-1], seed)] * len(embedded)
    else:
        centres = _matched(values, levels[-1], seed)
    finest = [_labels(*each) for each in zip(embedded, features, centres, strict=True)]
    return Segmentation(levels, _nested(finest, np.mean(centres, axis=0), levels))


def check_output(out: Path, shapes: Sequence[Path], *, force: bool = False) -> None:
    """Raise `InputError` unless `write_segmentation` can write into that folder."""
    paths = _paths(out, [str(path) for path in shapes])
    if out.exists() and not out.is_dir():
        raise InputError(f"{out}: is a file; expected a folder")
    for path in paths:
        if path.exists():
            files.check_writable(path, force=force)
    if not out.exists():
        files.check_writable(out, force=force)


def write_segmentation(
    out: Path,
    shapes: Sequence[Shape],
    found: Segmentation,
    *,
    force: bool = False,
) -> list[Shape]:
    """Write NAME.ply with labels and colours for each shape, and parts.csv with their areas.

    Colours are those of the finest level. Areas are in the file's units squared.

    Returns
    -------
    The shapes as they were written.

    Raises
    ------
    InputError
        If two shapes have the same name, or a file exists already.
    """
    *paths, table = _paths(out, [shape.name for shape in shapes])
    for path in (*paths, table):
        if path.exists():
            files.check_writable(path, force=force)
    out.mkdir(parents=True, exist_ok=True)
    rows: list[Mapping[str, Any]] = []
    labelled = []
    for path, shape, labels in zip(paths, shapes, found.labels, strict=True):
        rows += _rows_of_table(path.stem, row_areas(shape), found, labels)
        labelled.append(_labelled(shape, found, labels))
        formats.write(path, labelled[-1], force=force)
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    files.write_bytes(table, stream.getvalue().encode(), force=force)
    return labelled


def _paths(out: Path, names: Sequence[str]) -> list[Path]:
    """Files of the shapes, and that of the table."""
    paths = [out / f"{Path(name).stem}.ply" for name in names]
    if len({str(path).casefold() for path in paths}) < len(paths):
        raise InputError(f"{out}: two of the shapes have the same name without its ending")
    return [*paths, out / "parts.csv"]


def row_areas(shape: Shape) -> Float[np.ndarray, " n"]:
    """Area that each row stands for; 0 for rows that cannot be used.

    A third of the triangles at it; of a cloud its mass in the Laplacian, where rows at one place,
    and beyond 20,000 points all rows nearest to one of these, share it evenly.
    """
    areas = np.zeros(len(shape.points))
    faces = shape.sound_faces
    if len(faces):
        return geometry.vertex_areas(shape.points, faces)
    usable = np.flatnonzero(shape.usable)
    places, place = np.unique(shape.points[usable], axis=0, return_inverse=True)
    chosen = sampling.thin(places, _MASSES)
    mass = spectrum.laplacian(places[chosen], name=shape.name)[1]
    owner = scipy.spatial.cKDTree(places[chosen]).query(places)[1][place.reshape(-1)]
    areas[usable] = (mass / np.maximum(np.bincount(owner, minlength=len(chosen)), 1))[owner]
    return areas


# --------------------------------------------------------------------------------- clustering


@dataclass(frozen=True, eq=False)
class _Features:
    """Smoothed embedding of an even part of a shape's points."""

    values: Float[np.ndarray, "m d"]
    points: Float[np.ndarray, "m 3"]

    @classmethod
    def of(cls, one: Embedding) -> "_Features":
        chosen = sampling.thin(one.points[one.sample], _FITTED)
        points = one.points[one.sample][chosen]
        values = one.values[chosen].astype(np.float64)
        if one.similarity == "cosine":
            values /= np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1e-12)
        weak, mass = spectrum.laplacian(points, name=one.name)
        mass = mass / mass.sum()
        step = scipy.sparse.diags_array(mass).tocsc() + _TIME * weak.tocsc()
        smooth = scipy.sparse.linalg.splu(step).solve(mass[:, None] * values)
        return cls(smooth, points)


def _centres(features: Sequence[np.ndarray], n: int, seed: int) -> Float[np.ndarray, "n d"]:
    """Middles of clusters; every shape has the same weight."""
    try:
        from sklearn.cluster import KMeans
    except ImportError as error:
        raise MissingExtraError(
            'parts need scikit-learn: pip install "coembed[segment]"'
        ) from error
    weights = np.concatenate([np.full(len(part), 1 / len(part)) for part in features])
    method: Any = KMeans(n, n_init=_STARTS, random_state=seed)
    return method.fit(np.concatenate(features), sample_weight=weights).cluster_centers_


def _matched(features: Sequence[np.ndarray], n: int, seed: int) -> list[Float[np.ndarray, "n d"]]:
    """Middles of each shape's own clusters, in the order of those of the first shape."""
    alone = [_centres([part], n, seed) for part in features]
    ordered = alone[:1]
    for middles in alone[1:]:
        apart = scipy.spatial.distance.cdist(alone[0], middles, "sqeuclidean")
        ordered.append(middles[scipy.optimize.linear_sum_assignment(apart)[1]])
    return ordered


def _labels(
    one: Embedding, features: _Features, middles: Float[np.ndarray, "p d"]
) -> Int[np.ndarray, " n"]:
    """Nearest middle for every row of a shape."""
    found = []
    for points in np.array_split(one.points, 1 + len(one.points) // _CHUNK):
        carried = sampling.interpolation(points, features.points)
        found.append(nearest(carried(features.values), middles))
    return np.where(one.rows < 0, -1, np.concatenate(found)[one.rows])


def _nested(
    finest: Sequence[Int[np.ndarray, " n"]],
    middles: Float[np.ndarray, "p d"],
    levels: Sequence[int],
) -> tuple[Int[np.ndarray, "n l"], ...]:
    """Labels of all levels, coarser ones by merging; the largest part of each level first."""
    share = sum(np.bincount(one[one >= 0], minlength=len(middles)) / len(one) for one in finest)
    columns: list[list[np.ndarray]] = [[] for _ in finest]
    tree = scipy.cluster.hierarchy.linkage(middles, "ward") if len(levels) > 1 else None
    for n in levels:
        group = np.arange(len(middles))
        if n < len(middles):
            group = scipy.cluster.hierarchy.fcluster(tree, n, "maxclust") - 1
        sizes = np.bincount(group, share, group.max() + 1)
        rank = np.empty(len(sizes), dtype=np.int64)
        rank[np.argsort(-sizes, kind="stable")] = np.arange(len(sizes))
        for column, one in zip(columns, finest, strict=True):
            column.append(np.where(one < 0, -1, rank[group[one]]))
    return tuple(np.stack(column, axis=1) for column in columns)


# ----------------------------------------------------------------------------------- results


def _labelled(shape: Shape, found: Segmentation, labels: Int[np.ndarray, "n l"]) -> Shape:
    """The shape with its labels and their colours."""
    columns = {name: labels[:, level].astype(np.int32) for level, name in enumerate(found.names())}
    colours = PALETTE[labels[:, -1] % len(PALETTE)]
    colours[labels[:, -1] < 0] = round(255 * NONE)
    columns |= {name: colours[:, c] for c, name in enumerate(("red", "green", "blue"))}
    return replace(shape, attributes={**shape.attributes, **columns})


def _rows_of_table(
    name: str,
    areas: Float[np.ndarray, " n"],
    found: Segmentation,
    labels: Int[np.ndarray, "n l"],
) -> list[Mapping[str, Any]]:
    rows: list[Mapping[str, Any]] = []
    whole = float(areas.sum()) or 1.0
    for level, parts in enumerate(found.parts):
        for part in range(parts):
            of_part = labels[:, level] == part
            area = float(areas[of_part].sum())
            rows.append({
                "shape": name,
                "level": parts,
                "part": part,
                "points": int(of_part.sum()),
                "area": f"{area:.6g}",
                "share": f"{area / whole:.4f}",
            })  # fmt: skip
    return rows
