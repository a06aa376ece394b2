"""The main job on the example that ships: two generated people, matched and measured."""

import json
import time
from importlib.resources import as_file
from importlib.resources import files as package_files
from pathlib import Path
from typing import Any

from coembed import evaluation, files, formats, matching, model, viewing

__all__ = ["run"]


def run(out: Path, *, force: bool = False) -> dict[str, Any]:
    """Match the example pair; write map, run record and picture into ``out``.

    Returns
    -------
    Points, seconds per stage, mean error x 100, share within 5 %, and where the files are.
    """
    out.mkdir(parents=True, exist_ok=True)
    written = {name: out / name for name in ("map.txt", "map.txt.json", "picture.png")}
    for path in written.values():
        files.check_writable(path, force=force)
    with as_file(package_files("coembed") / "data" / "example") as example:
        started = time.perf_counter()
        source, target = (formats.read(example / f"{side}.ply") for side in ("source", "target"))
        seconds = {"read": time.perf_counter() - started}
        truth = files.read_truth(example / "truth.txt")
    matches = matching.match(model.load(), source, target)
    seconds |= matches.record["seconds"]
    started = time.perf_counter()
    errors = evaluation.evaluate(matches, target, truth)
    seconds["evaluate"] = time.perf_counter() - started
    files.write_matches(written["map.txt"], matches, force=force)
    record = json.dumps(matches.record, indent=1).encode()
    files.write_bytes(written["map.txt.json"], record, force=force)
    started = time.perf_counter()
    viewing.view(source, target, matches, written["picture.png"], errors=errors, force=force)
    seconds["view"] = time.perf_counter() - started
    return {
        "points": f"{len(source.points)} -> {len(target.points)}",
        "seconds": {stage: round(value, 2) for stage, value in seconds.items()},
        "mean error x 100": round(100 * errors.mean, 2),
        "within 5 %": f"{100 * errors.within(0.05):.1f} %",
        "judged": f"{len(errors.rows)} points, {errors.method}",
        "map": str(written["map.txt"]),
        "run record": str(written["map.txt.json"]),
        "picture": str(written["picture.png"]),
    }
