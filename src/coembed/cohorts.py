"""One template carried to many specimens: a map for each, and a table of what became of them.

Maps lead from the template to the specimen: line i is the specimen's row for the template's row i,
so all of them have the same length and landmarks on the template are found on every specimen.
"""

import csv
import io
import json
import logging
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from coembed import files, formats, maps, matching, trust
from coembed.errors import CoembedError, InputError
from coembed.model import CoupledEmbedding
from coembed.shapes import Embedding

__all__ = ["STATES", "Carried", "carry", "map_paths", "write_summary"]

STATES = ("done", "kept", "refused", "failed")
"""What can become of a specimen."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Carried:
    """What became of one specimen.

    Parameters
    ----------
    specimen, map
        Its file, and that of its map.
    state
        ``"done"``; ``"kept"``: a map of the same files, weights and settings was there already;
        ``"refused"``: there is no map, because its verdict is that it is none; ``"failed"``.
    points, unanswered, mean_score
        Rows of the specimen; template rows without an answer; mean score of the map.
    reason
        Why it failed or was refused.
    """

    specimen: str
    map: str
    state: str
    points: int = 0
    unanswered: int = 0
    mean_score: float = 0.0
    reason: str = ""


def map_paths(specimens: Sequence[Path], out: Path) -> list[Path]:
    """Where the maps go: the specimens' folders again under ``out``, names with .txt.

    Two specimens never share a map, also where the file system does not tell A from a.

    Raises
    ------
    InputError
        If a specimen is named twice.
    """
    resolved = [path.resolve() for path in specimens]
    for path in resolved:
        if resolved.count(path) > 1:
            raise InputError(f"{path}: is named twice")
    root = Path(os.path.commonpath([path.parent for path in resolved]))
    found: list[Path] = []
    taken: set[str] = set()
    for path in resolved:
        base = out / files.split_choice(path)[0].relative_to(root).with_suffix("")
        name, number = base.name, 2
        while str(base.with_name(name)).casefold() in taken:
            name, number = f"{base.name}-{number}", number + 1
        taken.add(str(base.with_name(name)).casefold())
        found.append(base.with_name(name + ".txt"))
    return found


def carry(
    model: CoupledEmbedding,
    template: Embedding,
    specimen: Path,
    out: Path,
    *,
    force: bool = False,
    incomplete: bool = False,
    anyway: bool = False,
    **settings: Any,
) -> Carried:
    """Match the template to one specimen and write the map and its record beside it.

    What fails is told in the result; a map that is there with the same files, weights and settings
    is kept.

    Parameters
    ----------
    incomplete
        Take the whole rows of a specimen that is cut off.
    anyway
        Write the map even if its verdict is refused.
    settings
        Of `coembed.match`: refine, points, cache.
    """
    record_path = files.record_path(out)
    named = (str(specimen), str(out))
    try:
        files.check_readable(specimen)
        made_of = {
            "template": template.sha256,
            "specimen": files.digest_of(specimen),
            "chosen": files.split_choice(specimen)[1],
            "incomplete": incomplete,
            "weights": model.digest,
            **{name: value for name, value in settings.items() if name != "cache"},
        }
        stored = None if force else _stored(record_path)
        if stored is not None and stored.get("made_of") == made_of and _is_whole(out, stored):
            return Carried(*named, "kept", **stored["result"])
        shape = formats.read(specimen, incomplete=incomplete)
        found = matching.match(model, template, shape, **settings)
        result: dict[str, Any] = {
            "points": found.n_target,
            "unanswered": int((found.p2p < 0).sum()),
            "mean_score": round(float(found.score.mean()), 4),
        }
        why = "" if anyway else trust.refusal(found.record)
        if why:
            return Carried(*named, "refused", **result, reason=why)
        record = {**found.record, "made_of": made_of, "result": result}
        out.parent.mkdir(parents=True, exist_ok=True)
        replaced = force or stored is not None
        files.write_run(out, found, record, force=replaced)
    except (CoembedError, OSError, MemoryError) as error:
        return Carried(*named, "failed", reason=" ".join(str(error).split()))
    return Carried(*named, "done", **result)


def _is_whole(path: Path, stored: dict[str, Any]) -> bool:
    """Whether the map of an earlier run is there and leads from the template to the specimen."""
    sizes = {"n_source": stored["source"]["rows"], "n_target": stored["target"]["rows"]}
    try:
        maps.read_map(path, **sizes, base=0)
    except CoembedError as error:
        log.warning("%s; it is made again", error)
        return False
    return True


def _stored(path: Path) -> dict[str, Any] | None:
    """Record of an earlier run; None if there is none that can be read."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return stored if isinstance(stored, dict) and "made_of" in stored else None


def write_summary(out: Path, results: Iterable[Carried]) -> tuple[Path, Path]:
    """Write summary.csv and summary.json, a line for each specimen, in place of earlier ones."""
    rows = [asdict(result) for result in results]
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    paths = out / "summary.csv", out / "summary.json"
    out.mkdir(parents=True, exist_ok=True)
    files.write_bytes(paths[0], stream.getvalue().encode(), force=True)
    files.write_bytes(paths[1], json.dumps(rows, indent=1).encode(), force=True)
    return paths
