"""Two embeddings to sharper ones, by laying the clouds on each other.

Each shape is deformed onto the other, as rigidly as possible, starting from the nearest
neighbours in the embedding. What comes out are embeddings with further columns: where each point
comes to lie, and how the surface is turned there; so matches are found as before. Takes and gives
`Embedding`; lengths are in units of sqrt(area).
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy

from coembed import sampling
from coembed.annotations import Bool, Float, Int, Sparse
from coembed.normals import flattest
from coembed.search import directed, nearest
from coembed.shapes import Embedding
from coembed.spectrum import factored

__all__ = ["Registration", "Surface", "register"]

_POINTS, _NODES = 5_000, 1_000  # of each shape: matched against, and moved
_NEIGHBORS, _SPREAD = 10, 16  # of a node in its graph; points that make a normal
_CYCLE = 0.06  # where a way back ends so far off, the trust is 1/e
_FLOOR = 0.02  # of trust and of stiffness, what always remains
_SMOOTH = 0.1  # the length over which the first guess is smoothed
_CUT = 1.5  # an edge stretched to more than so many times its length is not of one surface
_COVERED = 0.05  # a point with nothing of the other shape so near is not covered
_AGREED = 0.1  # two answers so far apart have 1/e of the trust
_PASSES = 2  # after the first
_WELL = 0.75  # times the distance between points: residual of surfaces that lie well
_BADLY = 0.03  # residual of surfaces that do not
_NEWTON = 12  # steps from the first guess to the last digit
_DOUBT = 4.0  # times the usual distance between features: there they count half
_FEATURES, _SIGMA, _NORMAL = 0.7, 0.025, 1.2  # of the answer: weight, scales


@dataclass(frozen=True)
class _Round:
    """Match by features, positions and normals, then deform with a stiffness of this length."""

    features: float
    sigma: float
    length: float
    steps: int
    slide: bool = False


_ROUNDS = (
    _Round(1.0, 0.05, 0.1, 4),
    _Round(0.8, 0.04, 0.07, 4),
    _Round(0.6, 0.03, 0.05, 8, slide=True),
    _Round(0.5, 0.03, 0.05, 8, slide=True),
    _Round(0.3, 0.03, 0.03, 10, slide=True),
)
_FIRST = _Round(1.0, np.inf, 0.1, 4)
_ROUND_NORMAL = 0.5


@dataclass(frozen=True, eq=False)
class Registration:
    """Two shapes laid on each other.

    Parameters
    ----------
    embeddings
        Of source and target, to be compared by L2.
    deformed
        Where the source's sample comes to lie on the target, and the target's on the source, in
        the frame of the embedding it is laid on.
    residuals
        Root mean square distance from the deformed shape to the one it is laid on, or back,
        whichever is more; for both directions.
    touching
        Share of each shape's points where two limbs touch: neighbours that the other shape has
        apart.
    """

    embeddings: tuple[Embedding, Embedding]
    deformed: tuple[Float[np.ndarray, "n 3"], Float[np.ndarray, "m 3"]]
    residuals: tuple[float, float]
    touching: tuple[float, float]
    _moved: tuple["Surface", Float[np.ndarray, "k 3"]]

    def between(self, share: float) -> Float[np.ndarray, "n 3"]:
        """The source's sample on its way: 0 as it was, 1 as it lies on the target.

        Turns are shared out as turns, so that limbs swing and do not shrink: each node's rotation
        goes this share of its angle, and the nodes lie where their edges fit together best.
        """
        surface, places = self._moved
        graph = _Graph.of(surface, None)
        nodes = graph.between(surface.points[surface.nodes], places, share)
        return surface.carry(nodes)

    @property
    def fits(self) -> bool:
        """Whether one of the two lies on the other well enough to be believed."""
        return min(self.residuals) < _BADLY


@dataclass(frozen=True, eq=False)
class Surface:
    """What registration needs of one shape, whatever the other one is.

    Parameters
    ----------
    embedding
        Of the shape.
    chosen
        About 5,000 rows of the embedding's sample, evenly spread. What follows is of these.
    points, features, spread
        Positions, embeddings of length 1, and the neighbours that make a normal.
    nodes, edges
        About 1,000 rows that are moved, and which of them are neighbours.
    """

    embedding: Embedding
    chosen: Int[np.ndarray, " n"]
    points: Float[np.ndarray, "n 3"]
    features: Float[np.ndarray, "n d"]
    spread: Int[np.ndarray, "n j"]
    nodes: Int[np.ndarray, " k"]
    edges: Int[np.ndarray, "e 2"]

    @classmethod
    def of(cls, embedding: Embedding) -> "Surface":
        """Surface of a shape from its embedding."""
        points = embedding.points[embedding.sample]
        chosen = sampling.thin(points, _POINTS)
        points, features = points[chosen], embedding.values[chosen]
        nodes = sampling.thin(points, _NODES)
        tree = scipy.spatial.cKDTree(points[nodes])
        k = min(_NEIGHBORS, len(nodes) - 1)
        own = np.repeat(np.arange(len(nodes)), k)
        near = tree.query(points[nodes], k=k + 1)[1][:, 1:].ravel()
        edges = np.unique(np.sort(np.stack([own, near], axis=1), axis=1), axis=0)
        return cls(
            embedding,
            chosen,
            points,
            directed(features, "cosine"),
            _spread(points),
            nodes,
            edges,
        )

    @property
    def sample(self) -> Float[np.ndarray, "s 3"]:
        """Positions of the embedding's whole sample."""
        return self.embedding.points[self.embedding.sample]

    @cached_property
    def carry(self) -> sampling.Interpolation:
        """From the nodes to the embedding's whole sample."""
        return sampling.interpolation(self.sample, self.points[self.nodes])

    @cached_property
    def normals(self) -> Float[np.ndarray, "n 3"]:
        """Normals of the points; their signs mean nothing."""
        return self.normals_at(self.points)

    def normals_at(self, places: Float[np.ndarray, "n 3"]) -> Float[np.ndarray, "n 3"]:
        """Normals when the points lie elsewhere."""
        return flattest(places, self.spread)


def register(source: Surface, target: Surface) -> Registration:
    """Lay two shapes on each other and embed them anew.

    1. In both directions: about 1,000 nodes are matched by their features and moved there
       smoothly; then, five times, they are matched by features, position and normal and moved as
       rigidly as possible.
    2. If one does not lie well (and none is a part): where the two directions disagree and one
       leaves points of the other shape uncovered, the other direction is right. Both are done
       again from there, with those edges cut that would be stretched: limbs that touch are not of
       one surface.
    3. The new embeddings: features, positions on both shapes, normals on both shapes (the products
       of their components, so that signs do not matter). A direction counts for less the worse it
       fits; features count for less where they contradict position and normal.
    """
    surfaces = source, target
    starts = [_by_features(a, b) for a, b in _both(*surfaces)]
    noise = sum(start.noise for start in starts) / 2
    ways = _deformed(surfaces, starts)
    well = _WELL / np.sqrt(min(len(surface.points) for surface in surfaces))
    parts = any(surface.embedding.part for surface in surfaces)
    for _ in range(_PASSES):
        # what a part leaves uncovered tells nothing
        if parts or max(way.residual for way in ways) < well:
            break
        on = [way.points for way in ways]
        starts = [
            _by_consensus(*pair, *placed, noise)
            for pair, placed in zip(_both(*surfaces), _both(*on), strict=True)
        ]
        again = _deformed(surfaces, starts)
        ways = [min(pair, key=lambda way: way.residual) for pair in zip(ways, again, strict=True)]
    return _embedded_anew(surfaces, ways, noise)


def _both(one: Any, other: Any) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """A pair as seen from either side."""
    return (one, other), (other, one)


def _spread(points: Float[np.ndarray, "n 3"]) -> Int[np.ndarray, "n j"]:
    """Nearest points of each, itself among them."""
    found: Int[np.ndarray, "n j"] = scipy.spatial.cKDTree(points).query(
        points, k=min(_SPREAD, len(points))
    )[1]
    return found


def _products(normals: Float[np.ndarray, "n 3"]) -> Float[np.ndarray, "n 6"]:
    """Coordinates of n nᵀ: the same for n and -n, as far apart as the matrices are."""
    x, y, z = normals.T
    root = np.sqrt(2)
    return np.stack([x * x, y * y, z * z, root * x * y, root * x * z, root * y * z], axis=1)


def _placed(
    points: Float[np.ndarray, "n 3"],
    normals: Float[np.ndarray, "n 3"],
    sigma: float = _SIGMA,
    normal: float = _NORMAL,
) -> Float[np.ndarray, "n 9"]:
    """Coordinates in which points are near that lie near each other and are turned alike."""
    parts = (points / sigma, _products(normals) / normal)
    return np.concatenate(parts, axis=1, dtype=np.float32, casting="same_kind")


# ----------------------------------------------------------------------------- where to begin


@dataclass(frozen=True, eq=False)
class _Start:
    """Where the nodes of a surface shall go first, and how far to trust that and their features.

    ``noise`` is the usual distance between features that belong together; ``torn``: the places
    are good enough to tell edges that would be stretched.
    """

    places: Float[np.ndarray, "k 3"]
    trust: Float[np.ndarray, " k"]
    reliance: Float[np.ndarray, " k"]
    noise: float
    torn: bool


def _by_features(a: Surface, b: Surface) -> _Start:
    features = a.features[a.nodes]
    squared = 2 - 2 * features @ b.features.T
    near = np.argpartition(squared, 3, axis=1)[:, :4]
    squared = np.maximum(np.take_along_axis(squared, near, axis=1), 0)
    least = squared.min(axis=1)
    noise = max(float(np.median(least)), 1e-12)
    shares = np.exp((least[:, None] - squared) / noise)
    shares /= shares.sum(axis=1, keepdims=True)
    first = near[np.arange(len(near)), squared.argmin(axis=1)]
    back = nearest(b.features[first], a.features)
    off = np.linalg.norm(a.points[back] - a.points[a.nodes], axis=1)
    places = np.einsum("kj,kja->ka", shares, b.points[near])
    trust = np.exp(-((off / _CYCLE) ** 2)) + _FLOOR
    return _Start(places, trust, np.ones(len(near)), noise, torn=False)


def _by_consensus(
    a: Surface,
    b: Surface,
    a_on_b: Float[np.ndarray, "n 3"],
    b_on_a: Float[np.ndarray, "m 3"],
    noise: float,
) -> _Start:
    """What the two directions say together, and which to believe where they disagree."""
    rows = a.nodes
    own = nearest(_placed(a_on_b[rows], a.normals_at(a_on_b)[rows]), _placed(b.points, b.normals))
    other = nearest(_placed(a.points[rows], a.normals[rows]), _placed(b_on_a, b.normals_at(b_on_a)))
    reached = np.linalg.norm(b_on_a[other] - a.points[rows], axis=1) < _COVERED
    covered = _distance(b.points, a_on_b)[other] < _COVERED
    answer = np.where(reached & ~covered, other, own)
    apart = np.linalg.norm(b.points[own] - b.points[other], axis=1)
    trust = np.where(reached & covered, np.exp(-((apart / _AGREED) ** 2)), 1.0) + _FLOOR
    reliance = _reliance(a.features[rows], b.features[answer], noise)
    return _Start(b.points[answer], trust, reliance, noise, torn=True)


def _reliance(
    features: Float[np.ndarray, "k d"], others: Float[np.ndarray, "k d"], noise: float
) -> Float[np.ndarray, " k"]:
    """1 where features are as alike as those that belong together, less where they are not."""
    squared = ((features - others) ** 2).sum(axis=1)
    return 1 / (1 + squared / (_DOUBT * noise))


def _distance(
    points: Float[np.ndarray, "n 3"], others: Float[np.ndarray, "m 3"]
) -> Float[np.ndarray, " n"]:
    found: Float[np.ndarray, " n"] = scipy.spatial.cKDTree(others).query(points)[0]
    return found


def _residual(
    points: Float[np.ndarray, "n 3"],
    others: Float[np.ndarray, "m 3"],
    part: bool = False,
    on_part: bool = False,
) -> float:
    """Root mean square distance of a shape to that on which it lies, or back if that is more.

    A part covers a part of the other only, so nobody looks back; on a part only the nearer half
    of the points is asked to lie.
    """
    ways = [_distance(points, others)]
    if not part and not on_part:
        ways.append(_distance(others, points))
    if on_part:
        ways[0] = np.sort(ways[0])[: (len(points) + 1) // 2]
    return float(np.sqrt(max((way @ way) / len(way) for way in ways)))


# -------------------------------------------------------------------------------- deformation


@dataclass(frozen=True, eq=False)
class _Way:
    """Where a surface's nodes and points come to lie on the other, and how far off they are."""

    nodes: Float[np.ndarray, "k 3"]
    points: Float[np.ndarray, "n 3"]
    residual: float


def _deformed(surfaces: tuple[Surface, Surface], starts: list[_Start]) -> list[_Way]:
    return [_deform(a, b, start) for (a, b), start in zip(_both(*surfaces), starts, strict=True)]


def _deform(a: Surface, b: Surface, start: _Start) -> _Way:
    """Move ``a`` onto ``b``."""
    graph = _Graph.of(a, start.places if start.torn else None)
    places = graph.smooth(start.places, start.trust)
    if not start.torn:
        graph = _Graph.of(a, places)
    normals = a.normals[a.nodes]
    features = a.features[a.nodes] * start.reliance[:, None]
    places, turned = graph.settle(places, start.places, start.trust, _FIRST)
    for once in _ROUNDS:
        weight = once.features / np.sqrt(start.noise)
        facing = np.einsum("kab,kb->ka", turned, normals)
        here = _placed(places, facing, once.sigma, _ROUND_NORMAL)
        there = _placed(b.points, b.normals, once.sigma, _ROUND_NORMAL)
        found = nearest(
            np.hstack([features * weight, here], dtype=np.float32),
            np.hstack([b.features * weight, there], dtype=np.float32),
        )
        slide = b.normals[found] if once.slide else None
        places, turned = graph.settle(places, b.points[found], start.trust, once, slide)
    points = a.carry(places, a.chosen)
    return _Way(places, points, _residual(points, b.points, a.embedding.part, b.embedding.part))


def _stretched(surface: Surface, places: Float[np.ndarray, "k 3"]) -> Bool[np.ndarray, " e"]:
    """Edges that are much longer with the nodes in these places than on the surface."""
    before, after = (
        np.linalg.norm(nodes[surface.edges[:, 0]] - nodes[surface.edges[:, 1]], axis=1)
        for nodes in (surface.points[surface.nodes], places)
    )
    stretched: Bool[np.ndarray, " e"] = after > _CUT * before
    return stretched


@dataclass(frozen=True, eq=False)
class _Graph:
    """The nodes of a surface as a body that resists being stretched and bent.

    Its energy is sum over edges w |(y_i - y_j) - R (x_i - x_j)|², with R the mean of the rotations
    of both ends; the weights make that the Dirichlet energy of a surface of area 1.
    """

    edges: Int[np.ndarray, "e 2"]
    vectors: Float[np.ndarray, "e 3"]
    stiffness: Float[np.ndarray, " e"]
    difference: Sparse
    ends: Sparse
    mean: Sparse

    @classmethod
    def of(cls, surface: Surface, places: Float[np.ndarray, "k 3"] | None) -> "_Graph":
        """Edges that are much longer between ``places`` than on the surface are cut."""
        nodes, edges = surface.points[surface.nodes], surface.edges
        n, m = len(nodes), len(edges)
        vectors = nodes[edges[:, 0]] - nodes[edges[:, 1]]
        squared = np.maximum((vectors**2).sum(axis=1), 1e-12)
        # the mean over directions of (y_i - y_j)² is |grad y|² r² / 2
        stiffness = np.full(m, 1 / (m * squared.mean()))
        if places is not None:
            stiffness[_stretched(surface, places)] *= _FLOOR
        ones, rows = np.ones(m), np.arange(m)
        first = scipy.sparse.csr_array((ones, (rows, edges[:, 0])), shape=(m, n))
        second = scipy.sparse.csr_array((ones, (rows, edges[:, 1])), shape=(m, n))
        ends = scipy.sparse.csr_array(((first + second).T) @ scipy.sparse.diags_array(stiffness))
        near = ends @ (first + second)  # has the sum of all weights on its diagonal
        own = near.diagonal()
        mean = scipy.sparse.csr_array(near - 0.7 * scipy.sparse.diags_array(own))
        return cls(edges, vectors, stiffness, first - second, ends, mean)

    @cached_property
    def laplacian(self) -> Sparse:
        weighted = scipy.sparse.diags_array(self.stiffness) @ self.difference
        return scipy.sparse.csc_array(self.difference.T @ weighted)

    def smooth(
        self, places: Float[np.ndarray, "k 3"], trust: Float[np.ndarray, " k"]
    ) -> Float[np.ndarray, "k 3"]:
        """Places that bend as little as those allow that are to be trusted."""
        n = len(trust)
        bending = _SMOOTH**4 * n * (self.laplacian @ self.laplacian)
        held = factored(scipy.sparse.diags_array(trust / n) + bending)
        smoothed: Float[np.ndarray, "k 3"] = held.solve(trust[:, None] / n * places)
        return smoothed

    def settle(
        self,
        places: Float[np.ndarray, "k 3"],
        wanted: Float[np.ndarray, "k 3"],
        trust: Float[np.ndarray, " k"],
        once: _Round,
        slide: Float[np.ndarray, "k 3"] | None = None,
    ) -> tuple[Float[np.ndarray, "k 3"], Float[np.ndarray, "k 3 3"]]:
        """Move the nodes to where they are wanted, as rigidly as possible.

        With normals ``slide`` only the distance from the plane through the wanted place counts.
        """
        pull, stiff = trust / len(trust), once.length**2
        held = factored(scipy.sparse.diags_array(pull) + stiff * self.laplacian)
        for _ in range(once.steps):
            turned = self._rotations(places)
            edges = self._turned_edges(turned)
            goal = wanted
            if slide is not None:
                away = np.einsum("ka,ka->k", wanted - places, slide)
                goal = places + away[:, None] * slide
            places = held.solve(stiff * self._divergence(edges) + pull[:, None] * goal)
        return places, turned

    def between(
        self, start: Float[np.ndarray, "k 3"], end: Float[np.ndarray, "k 3"], share: float
    ) -> Float[np.ndarray, "k 3"]:
        """Places on the way from ``start``, where the edges are as built, to ``end``."""
        rotation = scipy.spatial.transform.Rotation
        turned = self._rotations(end)
        turns = rotation.from_matrix(turned).as_rotvec()
        part = rotation.from_rotvec(turns * share).as_matrix()
        # what the rotation leaves of each edge's change grows evenly
        rest = self.difference @ end - self._turned_edges(turned)
        wanted = self._turned_edges(part) + share * rest
        pinned = self.laplacian + 1e-9 * scipy.sparse.eye_array(len(start))  # nothing holds it
        places = factored(pinned).solve(self._divergence(wanted))
        middle = (1 - share) * start.mean(axis=0) + share * end.mean(axis=0)
        moved: Float[np.ndarray, "k 3"] = places - places.mean(axis=0) + middle
        return moved

    def _turned_edges(self, turned: Float[np.ndarray, "k 3 3"]) -> Float[np.ndarray, "e 3"]:
        """The edges as built, each turned by the mean of the rotations of its ends."""
        mean = (turned[self.edges[:, 0]] + turned[self.edges[:, 1]]) / 2
        edges: Float[np.ndarray, "e 3"] = np.einsum("eab,eb->ea", mean, self.vectors)
        return edges

    def _divergence(self, edges: Float[np.ndarray, "e 3"]) -> Float[np.ndarray, "k 3"]:
        """What the Laplacian of places must be for their differences to be these edges."""
        divergence: Float[np.ndarray, "k 3"] = self.difference.T @ (self.stiffness[:, None] * edges)
        return divergence

    def _rotations(self, places: Float[np.ndarray, "k 3"]) -> Float[np.ndarray, "k 3 3"]:
        """How each node's surroundings are turned, smoothed over its neighbours."""
        moved = self.difference @ places
        outer = moved[:, :, None] * self.vectors[:, None, :]
        own = _closest_rotations((self.ends @ outer.reshape(-1, 9)).reshape(-1, 3, 3))
        return _closest_rotations((self.mean @ own.reshape(-1, 9)).reshape(-1, 3, 3))


def _closest_rotations(matrices: Float[np.ndarray, "k 3 3"]) -> Float[np.ndarray, "k 3 3"]:
    """The rotations R with the largest tr(RᵀS), without a singular value decomposition.

    With S = R P, the trace p of P is the largest root of a quartic, found by Newton's method; then
    by the theorem of Cayley and Hamilton R = (p S + cof S) (SᵀS + q I)⁻¹, 2 q = p² - tr SᵀS.
    """
    size = np.linalg.norm(matrices, axis=(1, 2), keepdims=True)
    s = matrices / np.maximum(size, 1e-300)
    cofactor = np.stack([np.cross(s[:, (i + 1) % 3], s[:, (i + 2) % 3]) for i in range(3)], axis=1)
    determinant = np.einsum("ka,ka->k", s[:, 0], cofactor[:, 0])
    inner = s.transpose(0, 2, 1) @ s
    second = (cofactor**2).sum(axis=(1, 2))  # sum of products of two squared singular values
    p = np.full(len(s), np.sqrt(3))
    for _ in range(_NEWTON):
        value = (p * p - 1) ** 2 - 8 * p * determinant - 4 * second
        slope = 4 * p * (p * p - 1) - 8 * determinant
        p = p - value / np.maximum(slope, 1e-12)
    q = (p * p - 1) / 2 + 1e-9  # a little more, for what lies on one line
    right = inner + q[:, None, None] * np.eye(3)
    left = p[:, None, None] * s + cofactor
    return np.linalg.solve(right, left.transpose(0, 2, 1)).transpose(0, 2, 1)


# ------------------------------------------------------------------------------ what comes out


def _embedded_anew(
    surfaces: tuple[Surface, Surface],
    ways: list[_Way],
    noise: float,
) -> Registration:
    """Embeddings of features, positions and normals, from where the nodes lie."""
    own, moved, deformed = [], [], []
    embeddings = [surface.embedding for surface in surfaces]
    for surface, way in zip(surfaces, ways, strict=True):
        points = surface.sample
        spread = _spread(points)
        there = surface.carry(way.nodes)
        own.append(_placed(points, flattest(points, spread)))
        moved.append(_placed(there, flattest(there, spread)))
        deformed.append(there)
    residuals = [way.residual for way in ways]
    first, second = ((min(residuals) / residual) ** 2 for residual in residuals)
    columns = (
        np.hstack([first * moved[0], second * own[0]], dtype=np.float32),
        np.hstack([first * own[1], second * moved[1]], dtype=np.float32),
    )
    a, b = surfaces
    found = nearest(columns[0][a.chosen[a.nodes]], columns[1][b.chosen])
    reliance = _reliance(a.features[a.nodes], b.features[found], noise)
    everywhere = a.carry(reliance[:, None])
    values = [directed(one.values, "cosine") * (_FEATURES / np.sqrt(noise)) for one in embeddings]
    values[0] = values[0] * np.clip(everywhere, 0, 1)
    anew = [
        replace(one, values=np.hstack([*parts], dtype=np.float32), similarity="l2")
        for one, *parts in zip(embeddings, values, columns, strict=True)
    ]
    touching = [_torn(*parts) for parts in zip(surfaces, ways, strict=True)]
    return Registration(
        (anew[0], anew[1]), (deformed[0], deformed[1]), (residuals[0], residuals[1]),
        (touching[0], touching[1]), (a, ways[0].nodes),
    )  # fmt: skip


def _torn(surface: Surface, way: _Way) -> float:
    """Share of the nodes of which neighbours are torn away; 0 where the surface does not fit."""
    if way.residual > _BADLY:
        return 0.0
    stretched = _stretched(surface, way.nodes)
    return len(np.unique(surface.edges[stretched])) / len(surface.nodes)
