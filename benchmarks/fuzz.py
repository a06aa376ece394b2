"""Damage files of every format, thousands of them, and see that nothing worse than a message comes.

``python benchmarks/fuzz.py --minutes 10`` writes a body in every format, changes bytes, cuts,
doubles, moves and joins pieces, changes numbers in text, and reads each file. A file may load (then
its points are checked: some, three columns) or be refused in one line; a traceback, a crash, an
answer that is empty, or more than 10 seconds is a failure, and the file is kept. Writes
benchmarks/results/fuzz.json.
"""

import argparse
import datetime
import json
import re
import signal
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
import trimesh
from speed import processor

from coembed import bodies, formats
from coembed.errors import CoembedError
from coembed.shapes import Shape

RESULT = Path(__file__).parent / "results" / "fuzz.json"
SECONDS = 10


def seeds(folder):
    """One small sound file of every format that can be written here."""
    rng = np.random.default_rng(0)
    points = bodies.sample(bodies.body(rng), 60, rng).shape.points
    mesh = trimesh.creation.icosphere(subdivisions=1)
    found = {}
    for ending in ("ply", "off", "obj", "stl", "glb"):
        found[ending] = mesh.export(file_type=ending)
    formats.write(folder / "a.ply", Shape(points))
    found["PLY"] = (folder / "a.ply").read_bytes()
    lines = [" ".join(f"{v:.5f}" for v in row) for row in points]
    found["xyz"] = "\n".join(lines)
    found["csv"] = "x,y,z,label\n" + "\n".join(f"{row.replace(' ', ',')},7" for row in lines)
    found["pts"] = f"{len(lines)}\n" + "\n".join(f"{row} 12 1 2 3" for row in lines)
    header = "# .PCD v0.7\nVERSION 0.7\nFIELDS x y z\nSIZE 4 4 4\nTYPE F F F\nCOUNT 1 1 1\n"
    header += f"WIDTH {len(lines)}\nHEIGHT 1\nVIEWPOINT 0 0 0 1 0 0 0\nPOINTS {len(lines)}\nDATA "
    found["pcd"] = header + "ascii\n" + "\n".join(lines)
    found["PCD"] = (header + "binary\n").encode() + points.astype("<f4").tobytes()
    corners = "\n".join(f"3 {a} {b} {c}" for a, b, c in mesh.faces)
    vertices = "\n".join(" ".join(map(str, v)) for v in mesh.vertices)
    n, f = len(mesh.vertices), len(mesh.faces)
    found["vtk"] = (
        f"# vtk DataFile Version 4.2\nbody\nASCII\nDATASET POLYDATA\nPOINTS {n} float\n{vertices}\n"
        f"POLYGONS {f} {4 * f}\n{corners}\n"
    )
    np.save(folder / "a.npy", points)
    found["npy"] = (folder / "a.npy").read_bytes()
    np.savez(folder / "a.npz", points=mesh.vertices, faces=mesh.faces)
    found["npz"] = (folder / "a.npz").read_bytes()
    return {name: c.encode() if isinstance(c, str) else bytes(c) for name, c in found.items()}


def mutated(content, rng):
    """The content after one to four kinds of damage."""
    data = bytearray(content)
    for _ in range(rng.integers(1, 5)):
        if not data:
            break
        place, size = int(rng.integers(len(data))), int(rng.integers(1, 40))
        kind = rng.integers(7)
        if kind == 0:
            data[place] = int(rng.integers(256))
        elif kind == 1:
            del data[place:]
        elif kind == 2:
            del data[place : place + size]
        elif kind == 3:
            data[place:place] = data[place : place + size]
        elif kind == 4:
            data[place : place + size] = rng.bytes(size)
        elif kind == 5:
            other = int(rng.integers(len(data)))
            data[place : place + size] = data[other : other + size]
        else:
            numbers = list(re.finditer(rb"-?\d+(\.\d+)?", bytes(data)))
            if numbers:
                one = numbers[rng.integers(len(numbers))]
                odd = (b"-1", b"0", b"999999999999", b"nan", b"1e400", b"", b"1.#QNAN")
                data[one.start() : one.end()] = odd[rng.integers(len(odd))]
    return bytes(data)


class TooLongError(Exception):
    """A file that takes longer than it may."""


def _stop(*_):
    raise TooLongError


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    signal.signal(signal.SIGALRM, _stop)
    counts, slowest, started = Counter(), 0.0, time.time()
    rng = np.random.default_rng(options.seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sound = seeds(folder)
        kept = Path(tempfile.gettempdir())
        while time.time() - started < 60 * options.minutes:
            ending = list(sound)[int(rng.integers(len(sound)))]
            path = folder / f"fuzz.{ending.lower()}"
            path.write_bytes(mutated(sound[ending], rng))
            begun = time.time()
            signal.alarm(SECONDS)
            try:
                shape = formats.read(path)
                outcome = "read" if len(shape.points) else "EMPTY"
            except CoembedError as error:
                outcome = "refused" if "\n" not in str(error) else "MANY LINES"
            except TooLongError:
                outcome = "HANG"
            except BaseException as error:  # all there is: that is what is looked for
                outcome = f"TRACEBACK {type(error).__name__}"
            signal.alarm(0)
            slowest = max(slowest, time.time() - begun)
            counts[outcome] += 1
            if outcome not in ("read", "refused"):
                path.rename(kept / f"fuzz-{counts[outcome]}-{outcome.split()[0]}.{ending}")
                print(outcome, ending, flush=True)
    result = {
        "machine": processor(), "date": datetime.date.today().isoformat(), "seed": options.seed,
        "minutes": options.minutes, "formats": sorted({name.lower() for name in sound}),
        "files": counts.total(), "outcomes": dict(counts), "slowest_s": round(slowest, 2),
    }  # fmt: skip
    print(json.dumps(result, indent=1))
    RESULT.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
