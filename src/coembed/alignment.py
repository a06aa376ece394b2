"""Which way a shape stands, and the turn that lets it stand as the weights expect.

People who stand upright and face +z have embeddings that are alike, whoever they are; turned ones
have others. So a shape is compared with a few generated people, the `Compass`, in many turns. Every
comparison also tells which part of a body each point would be, and from where the parts lie the
upright frame is read off (`coembed.posture`), so a few good guesses lead to the turn. Takes
`Operators`, gives an `Alignment`.
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import as_file
from importlib.resources import files as package_files
from pathlib import Path

import numpy as np

from coembed import files, model, posture, sampling
from coembed.annotations import Float, Int
from coembed.errors import InputError
from coembed.model import PEOPLE, CoupledEmbedding
from coembed.rotations import about_y, all_around, laid_best, rotation_near
from coembed.search import directed, nearest
from coembed.shapes import Alignment, Embedding, Operators, degrees_of

__all__ = [
    "AXES",
    "BACK",
    "SEARCHES",
    "Compass",
    "Way",
    "align",
    "align_to",
    "glimpse",
    "known_to",
    "learn",
    "load",
    "otherwise",
    "rotation_of",
    "save",
    "thinned",
    "turned",
]

Way = str | np.ndarray

SEARCHES = ("auto", "yaw", "target", "none")
"""Ways to look for a turn: any, but only if one is needed; about the y axis; towards the target, as
that stands; not at all."""

_QUARTER = np.array([[1.0, 0, 0], [0, 0, 1], [0, -1, 0]])  # z goes to y, y to -z
AXES = {
    "x": np.array([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]]),
    "-x": np.array([[0.0, 1, 0], [-1, 0, 0], [0, 0, 1]]),
    "y": np.eye(3),
    "-y": np.diag([-1.0, -1, 1]),
    "z": _QUARTER,
    "-z": _QUARTER.T,
}
"""The rotation that takes each axis to y, leaving one of the others where it is."""

# points of the shape and people of the compass that are looked at
_COARSE, _MIDDLE, _FINE = (200, 4), (400, 6), (800, 12)
_KEPT, _STEPS = 6, 2  # guesses that are followed, how often each is set upright
_SAME, _OTHER = 30.0, 60.0  # degrees: turns that are one and the same; that are different answers
_UPRIGHT = 0.955  # likeness that people reach who stand within about 30 degrees of upright
_PERSON = 0.94  # likeness that people reach in some turn
_PART = 0.9  # the same of parts of people, to whole ones
_PART_GAIN = 0.04  # for which a part is turned: what is missing can make a wrong turn look right
_GAIN = 0.01  # of likeness, for which a small turn is worth while
BACK = np.diag([-1.0, 1, -1])
"""Half a turn about the y axis."""


@dataclass(frozen=True, eq=False)
class Compass:
    """A few people who stand upright, as the network sees them.

    Parameters
    ----------
    weights
        Digest of the network.
    embeddings
        Unit rows for m points of each of b people.
    places
        The same points on the mean body, y up, its area being 1.
    """

    weights: str
    embeddings: Float[np.ndarray, "b m d"]
    places: Float[np.ndarray, "b m 3"]

    way = "auto"
    least, enough = _PERSON, _UPRIGHT
    gain, stays = _GAIN, False  # likeness for which a turn is worth while; whether of any turn
    lean = _SAME  # degrees that still count as upright

    def compare(
        self, values: Float[np.ndarray, "n d"], mass: Float[np.ndarray, " n"], people: int
    ) -> tuple[float, Float[np.ndarray, "n 3"]]:
        """How alike an embedding is to those of the first so many people, and each point's place.

        The likeness is the mean cosine of nearest neighbours, both ways.
        """
        alike, back, places = self.look_up(values, people)
        return (float(mass @ alike) / float(mass.sum()) + back) / 2, places

    def look_up(
        self, values: Float[np.ndarray, "n d"], people: int
    ) -> tuple[Float[np.ndarray, " n"], float, Float[np.ndarray, "n 3"]]:
        """The cosine of the point most alike to each, the mean of those back, and its place.

        Means over the first so many people.
        """
        values = directed(values, "cosine")
        alike, back, places = np.zeros(len(values)), 0.0, np.zeros((len(values), 3))
        for person in range(people):
            cosines = values @ self.embeddings[person].T
            found = cosines.argmax(axis=1)
            places += self.places[person][found]
            alike += cosines[np.arange(len(found)), found]
            back += float(cosines.max(axis=0).mean())
        return alike / people, back / people, places / people

    def upright(
        self,
        points: Float[np.ndarray, "n 3"],
        mass: Float[np.ndarray, " n"],
        places: Float[np.ndarray, "n 3"],
    ) -> Float[np.ndarray, "3 3"]:
        """The rotation that sets a person upright, from the places of its points."""
        return posture.load().upright(points, mass, places)


class _PartCompass(Compass):
    """A compass for parts of people: what of a person is missing does not count."""

    least, enough = _PART, _PART
    gain, stays = _PART_GAIN, True
    lean = 2 * _SAME
    upright = staticmethod(laid_best)  # on the mean body: landmarks may be missing

    def compare(
        self, values: Float[np.ndarray, "n d"], mass: Float[np.ndarray, " n"], people: int
    ) -> tuple[float, Float[np.ndarray, "n 3"]]:
        """As of a `Compass`, but the likeness from the shape to the people only."""
        alike, _, places = self.look_up(values, people)
        return float(mass @ alike) / float(mass.sum()), places


class _Template:
    """One shape, as it stands, in the place of the people of a `Compass`."""

    way = "target"
    least, enough = -1.0, -1.0
    gain, stays = _GAIN, False
    lean = _SAME
    upright = staticmethod(laid_best)  # on the template

    def __init__(
        self, embedding: Float[np.ndarray, "m d"], points: Float[np.ndarray, "m 3"]
    ) -> None:
        self._embedding, self._points = embedding, points

    def compare(
        self, values: Float[np.ndarray, "n d"], mass: Float[np.ndarray, " n"], _people: int
    ) -> tuple[float, Float[np.ndarray, "n 3"]]:
        """As of a `Compass`; the places are on the template. It counts as all the people."""
        cosines = directed(values, "cosine") @ self._embedding.T
        there = float(mass @ cosines.max(axis=1)) / float(mass.sum())
        return (there + float(cosines.max(axis=0).mean())) / 2, self._points[cosines.argmax(axis=1)]


def align(
    operators: Operators, way: Way, network: CoupledEmbedding, *, partial: bool = False
) -> Alignment:
    """The turn in which a shape stands as those did that the network was trained on.

    Parameters
    ----------
    way
        One of `SEARCHES`, of `AXES`, or a rotation: a matrix, or its nine numbers row by row with
        commas between. ``"auto"`` first looks whether the shape stands upright as it is; then it
        stays so, and so does what looks like no person in any turn.
    network
        Where nothing tells that its training shapes were people, y up, facing +z
        (``info["frame"]``), ``"auto"`` leaves every shape as it is.
    partial
        The shape may be a part of a person.

    Raises
    ------
    InputError
        If there is no such way, or the network's frame is not known to ``"yaw"``.
    """
    if not isinstance(way, str) or way not in SEARCHES:
        return Alignment("given", rotation_of(way))
    if way == "yaw" and network.frame != PEOPLE:
        raise InputError(
            "align yaw needs weights trained on people (y up, facing +z), and these do not say "
            "that they are; use target, or name the axis that is up"
        )
    if way == "target" or network.frame != PEOPLE:
        return Alignment("none")
    compass, known = known_to(network, partial=partial)
    search = _Search(operators, known, compass)
    if way == "yaw":
        return search.yaw()
    if way == "none":
        return Alignment("none", stands=search.standing() is not None)
    return search.standing() or search.anyhow()


def align_to(operators: Operators, target: Embedding, network: CoupledEmbedding) -> Alignment:
    """The turn in which a shape's embedding is most like that of a target, as that one stands.

    A turn is only made if that makes them clearly more alike.
    """
    sample = target.sample[sampling.thin(target.points[target.sample], _FINE[0])]
    template = _Template(directed(target.at(sample), "cosine"), target.points[sample])
    return _Search(operators, network, template).anyhow()


def rotation_of(way: Way) -> Float[np.ndarray, "3 3"]:
    """The rotation that an axis (the one that is up in the file) or nine numbers stand for.

    Raises
    ------
    InputError
        If it is none, or a reflection.
    """
    if isinstance(way, str) and way in AXES:
        return AXES[way]
    try:
        numbers = way.split(",") if isinstance(way, str) else way
        matrix = np.array(numbers, dtype=np.float64).reshape(3, 3)
    except ValueError as error:
        raise InputError(
            f"align must be {', '.join(SEARCHES)}, the axis that is up ({', '.join(AXES)}), or "
            f"the nine numbers of a rotation, row by row; got {way!r}"
        ) from error
    if not np.allclose(matrix @ matrix.T, np.eye(3), atol=1e-3):
        raise InputError(
            "align: the matrix is no rotation; its rows must be of length 1 and at right angles"
        )
    if np.linalg.det(matrix) < 0:
        raise InputError("align: the matrix mirrors; if that is meant, mirror the file itself")
    return rotation_near(matrix)


def otherwise(found: Alignment) -> Float[np.ndarray, "3 3"]:
    """The next best turn; half a turn about the y axis from the best one if none was looked for."""
    return BACK @ found.rotation if found.other is None else found.other


def glimpse(
    operators: Operators, rotation: Float[np.ndarray, "3 3"], network: CoupledEmbedding
) -> tuple[Int[np.ndarray, " m"], Float[np.ndarray, "m d"]]:
    """800 rows of a shape's points, and nearly their embedding, had the shape been turned."""
    rows = sampling.thin(operators.points, _FINE[0])
    few = _at(operators, rows, network.config.n_eig)
    return rows, np.asarray(network.embed(turned(few, rotation)))


def turned(operators: Operators, rotation: Float[np.ndarray, "3 3"]) -> Operators:
    """The same shape, turned; all but its points stays."""
    return replace(operators, points=operators.points @ rotation.T)


class _Search:
    """One shape, looked at in many turns."""

    def __init__(
        self, operators: Operators, network: CoupledEmbedding, compass: "Compass | _Template"
    ) -> None:
        self._operators = operators
        self._model, self._compass = network, compass
        self._thinned: dict[int, Operators] = {}

    def _of(self, points: int) -> Operators:
        if points not in self._thinned:
            n_eig = self._model.config.n_eig
            self._thinned[points] = thinned(self._operators, points, n_eig)
        return self._thinned[points]

    def standing(self) -> Alignment | None:
        """The alignment of a shape that stands upright as it is; None if it does not."""
        there, places = self._look(_MIDDLE, np.eye(3))
        few = self._of(_MIDDLE[0])
        upright = self._compass.upright(few.points, few.mass, places)
        if there < self._compass.enough or degrees_of(upright) > self._compass.lean:
            return None
        back, _ = self._look(_MIDDLE, BACK)
        if back > there:
            return None
        return Alignment("auto", likeness=there, runner_up=back, other=BACK)

    def anyhow(self) -> Alignment:
        """The best of all turns."""
        apart = self.guesses()
        # front and back are easily taken for each other
        tried = [*apart[:3], *(BACK @ one for one in apart[:2])]
        return self._chosen(self._compass.way, [self._set_upright(_FINE, turn) for turn in tried])

    def guesses(self) -> list[Float[np.ndarray, "3 3"]]:
        """Turns in which the shape may stand upright, the most likely first, none twice."""
        values = [self._look(_COARSE, turn)[0] for turn in all_around()]
        guesses = [all_around()[i] for i in np.argsort(values, kind="stable")[::-1][:_KEPT]]
        for _ in range(_STEPS):
            guesses = [self._set_upright(_MIDDLE, guess) for guess in guesses]
        values = [self._look(_MIDDLE, guess)[0] for guess in guesses]
        apart: list[Float[np.ndarray, "3 3"]] = []
        for i in np.argsort(values, kind="stable")[::-1]:
            if all(degrees_of(guesses[i] @ one.T) > _SAME for one in apart):
                apart.append(guesses[i])
        return apart

    def yaw(self) -> Alignment:
        """The best of the turns about the y axis."""
        degrees = np.arange(0.0, 360.0, 15.0)
        values = [self._look(_COARSE, about_y(float(angle)))[0] for angle in degrees]
        best = degrees[np.argsort(values, kind="stable")[::-1][:3]]
        close = sorted({angle % 360 for one in best for angle in (one - 7.5, one, one + 7.5)})
        backs = [(angle + 180) % 360 for angle in close]
        return self._chosen("yaw", [about_y(angle) for angle in (*close, *backs)])

    def _chosen(self, way: str, turns: Sequence[Float[np.ndarray, "3 3"]]) -> Alignment:
        values = [self._look(_FINE, turn)[0] for turn in turns]
        best = int(np.argmax(values))
        rotation, likeness = turns[best], values[best]
        others = [i for i, one in enumerate(turns) if degrees_of(one @ rotation.T) > _OTHER]
        runner_up = max(others, key=lambda i: values[i], default=None)
        as_it_is, _ = self._look(_FINE, np.eye(3))
        known = likeness >= self._compass.least
        close = degrees_of(rotation) < _SAME or way == "target"
        stays = not known or (
            (close or self._compass.stays) and likeness - as_it_is < self._compass.gain
        )
        return Alignment(
            way,
            rotation=np.eye(3) if stays else rotation,
            likeness=as_it_is if stays else likeness,
            runner_up=0.0 if runner_up is None else values[runner_up],
            other=None if runner_up is None else turns[runner_up],
            curve=tuple(
                self._look(_COARSE, about_y(angle) @ rotation)[0]
                for angle in np.linspace(0, 330, 12).tolist()
            ),
            known=known,
        )

    def _set_upright(
        self, looked_at: tuple[int, int], turn: Float[np.ndarray, "3 3"]
    ) -> Float[np.ndarray, "3 3"]:
        _, places = self._look(looked_at, turn)
        few = self._of(looked_at[0])
        return self._compass.upright(few.points @ turn.T, few.mass, places) @ turn

    def _look(
        self, looked_at: tuple[int, int], turn: Float[np.ndarray, "3 3"]
    ) -> tuple[float, Float[np.ndarray, "n 3"]]:
        """Likeness and places in a turn, with so many points and people."""
        points, people = looked_at
        few = self._of(points)
        values = np.asarray(self._model.embed(turned(few, turn)))
        return self._compass.compare(values, few.mass, people)


def thinned(operators: Operators, n: int, n_eig: int) -> Operators:
    """The same functions on about n points, evenly spread."""
    return _at(operators, sampling.thin(operators.points, n), n_eig)


def _at(operators: Operators, rows: Int[np.ndarray, " m"], n_eig: int) -> Operators:
    """The same functions at some points, each of which stands for those nearest to it."""
    # in single precision, where nearest points are found 30 times faster than by a tree
    every = operators.points.astype(np.float32)
    near = nearest(every, every[rows])
    evecs, grad_x, grad_y = (
        getattr(operators, name)[rows, :n_eig].astype(np.float32)
        for name in ("evecs", "grad_x", "grad_y")
    )
    return replace(
        operators,
        points=operators.points[rows],
        mass=np.bincount(near, operators.mass, minlength=len(rows)),
        evals=operators.evals[:n_eig],
        evecs=evecs,
        grad_x=grad_x,
        grad_y=grad_y,
    )


# ---------------------------------------------------------------------------- making a compass


def learn(
    network: CoupledEmbedding, *, people: int = _FINE[1], points: int = 400, seed: int = 77
) -> Compass:
    """A compass for a network that was trained on people who stand upright, facing +z.

    Parameters
    ----------
    people, points
        Generated people to compare with, and points of each.
    """
    from coembed import bodies, geometry, skinning  # they take long to load; matching needs none

    rng, template = np.random.default_rng(seed), skinning.body_model()
    size = np.sqrt(geometry.face_areas(template.mean[template.faces]).sum())
    embeddings, places = [], []
    for _ in range(people):
        sample = bodies.sample(bodies.body(rng), 10 * points, rng)
        operators = geometry.prepare(sample.shape)
        place = np.empty(operators.points.shape)
        place[operators.rows] = sample.place
        rows = np.sort(rng.choice(sampling.thin(operators.points, points * 5 // 4), points, False))
        values = np.asarray(network.embed(operators))[rows]
        embeddings.append(directed(values, "cosine"))
        places.append(place[rows] @ _QUARTER.T / size)
    return Compass(network.digest, np.array(embeddings), np.array(places))


def save(compass: Compass, path: Path | str, *, force: bool = False) -> None:
    """Write a compass as ``.npz``, in half precision."""
    embeddings, places = (one.astype(np.float16) for one in (compass.embeddings, compass.places))
    stream = io.BytesIO()
    np.savez(stream, weights=compass.weights, embeddings=embeddings, places=places)
    files.write_bytes(Path(path), stream.getvalue(), force=force)


@cache
def load(name: str = "human") -> Compass:
    """The compass of weights that ship; that of ``"human-parts"`` is for parts of people."""
    with (
        as_file(package_files("coembed") / "data" / f"{name}-compass.npz") as path,
        np.load(path) as stored,
    ):
        embeddings, places = (stored[name].astype(np.float32) for name in ("embeddings", "places"))
        kind = _PartCompass if name == "human-parts" else Compass
        return kind(str(stored["weights"]), embeddings, places)


def known_to(network: CoupledEmbedding, *, partial: bool) -> tuple[Compass, CoupledEmbedding]:
    """The compass for whole people or for parts, and the network it is for, this one if it can."""
    name = "human-parts" if partial else "human"
    compass = load(name)
    return compass, network if network.digest == compass.weights else model.load(name)
