"""Damage files of every format, thousands of them, and see that nothing worse than a message comes.

``python benchmarks/fuzz.py --minutes 10`` writes a body in every format, changes bytes, cuts,
doubles, moves and joins pieces, changes numbers in text, and reads each file. A file may load (then
its points, attributes and faces must agree, and a file that was only cut must give the points that
the whole one begins with) or be refused in one line; a traceback, a crash, an answer that is empty
or out of line, or more than 10 seconds of work is a failure, and the file is kept. ``--formats
mat,laz`` damages these only; there are several layouts of most. Writes
benchmarks/results/fuzz.json, or what ``--out`` names.
"""

import argparse
import datetime
import io
import json
import re
import resource
import signal
import tempfile
import time
from collections import Counter
from pathlib import Path

import h5py
import laspy
import numpy as np
import trimesh
from scipy.io import savemat
from speed import processor

from coembed import bodies, formats, geometry
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
    found |= compiled_seeds(mesh, points)
    return {name: c.encode() if isinstance(c, str) else bytes(c) for name, c in found.items()}


def compiled_seeds(mesh, points):
    """MATLAB, LAS and LAZ, whose decoders are compiled; and VTK's XML."""
    found = {}
    surface = {"VERT": mesh.vertices, "TRIV": mesh.faces + 1.0}
    x, y, z = (column[:, None] for column in np.asarray(mesh.vertices).T)
    struct = {"surface": {"X": x, "Y": y, "Z": z, "TRIV": mesh.faces + 1.0}}
    for name, content, packed in (
        ("mat", surface, False), ("mat-packed", surface, True), ("mat-struct", struct, True),
    ):  # fmt: skip
        stream = io.BytesIO()
        savemat(stream, content, do_compression=packed)
        found[name] = stream.getvalue()
    stream = io.BytesIO()
    with h5py.File(stream, "w") as file:
        file["VERT"], file["TRIV"] = np.asarray(mesh.vertices).T, mesh.faces.T + 1.0
        group = file.create_group("more")
        group.create_dataset("label", data=np.arange(9.0), compression="gzip")
    found["mat-73"] = stream.getvalue()
    for kind in (0, 2, 7):
        header = laspy.LasHeader(point_format=kind, version="1.4" if kind > 5 else "1.2")
        header.scales, header.offsets = [1e-4] * 3, [0.0] * 3
        cloud = laspy.LasData(header)
        cloud.x, cloud.y, cloud.z = points.T
        for ending, packed in (("las", False), ("laz", True)):
            stream = io.BytesIO()
            cloud.write(stream, do_compress=packed)
            found[f"{ending}-{kind}"] = stream.getvalue()
    rows = " ".join(f"{v:.5f}" for v in points.ravel())
    found["vtp"] = (
        '<VTKFile type="PolyData" version="0.1" byte_order="LittleEndian"><PolyData>'
        f'<Piece NumberOfPoints="{len(points)}" NumberOfPolys="0"><Points><DataArray '
        f'type="Float32" NumberOfComponents="3" format="ascii">{rows}</DataArray></Points></Piece>'
        "</PolyData></VTKFile>"
    )
    return found


def mutated(content, rng):
    """The content after one to four kinds of damage, and whether it was only cut."""
    data = bytearray(content)
    kinds = [int(rng.integers(7)) for _ in range(rng.integers(1, 5))]
    for kind in kinds:
        if not data:
            break
        place, size = int(rng.integers(len(data))), int(rng.integers(1, 40))
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
    return bytes(data), set(kinds) == {1}


def judged(path, whole, cut):
    """What reading a damaged file comes to; ``whole`` are the points of the sound one."""
    try:
        shape = formats.read(path)
    except CoembedError as error:
        return "refused" if "\n" not in str(error) else "MANY LINES"
    n = len(shape.points)
    if not n:
        return "EMPTY"
    if any(len(values) != n for values in shape.attributes.values()):
        return "MISALIGNED attributes"
    if cut and not (n <= len(whole) and np.array_equal(shape.points[: n - 1], whole[: n - 1])):
        return "MISALIGNED points"  # the last number of a text may be cut
    try:
        distinct = geometry.distinct_points(shape)
    except CoembedError as error:
        return "read, too little for a match" if "\n" not in str(error) else "MANY LINES"
    there = distinct.rows >= 0
    back = distinct.points[distinct.rows[there]] * distinct.size + distinct.centre
    off = np.abs(back - shape.points[there]).max() / np.abs(shape.points[there]).max(initial=1e-300)
    if not np.array_equal(there, shape.usable) or off > 1e-6:
        return "MISALIGNED rows"
    return "read"


class TooLongError(BaseException):  # which the reader of files does not take for its own
    """A file that takes longer than it may."""


def _stop(*_):
    raise TooLongError


def timed(path, whole, cut):
    """What reading a damaged file comes to, and the seconds of work it takes."""
    before = work()
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    signal.alarm(20 * SECONDS)  # decoders are processes of their own, with limits of their own
    try:
        outcome = judged(path, whole, cut)
    except TooLongError:
        outcome = "HANG"
    except BaseException as error:  # all there is: that is what is looked for
        outcome = f"TRACEBACK {type(error).__name__}"
    signal.alarm(0)
    signal.setitimer(signal.ITIMER_PROF, 0)
    seconds = work() - before
    return ("HANG" if seconds > SECONDS else outcome), seconds


def work():
    """Seconds that this process and those it has waited for have worked."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--formats", default="", help="Of these kinds only, with commas between.")
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()
    signal.signal(signal.SIGALRM, _stop)
    signal.signal(signal.SIGPROF, _stop)
    counts, files, slowest, started = Counter(), Counter(), 0.0, time.time()
    rng = np.random.default_rng(options.seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sound = seeds(folder)
        wanted = options.formats.split(",") if options.formats else list(sound)
        kinds = [kind for kind in sound if kind in wanted or kind.split("-")[0] in wanted]
        whole = {}
        for kind in kinds:
            path = folder / f"sound.{kind.split('-')[0].lower()}"
            path.write_bytes(sound[kind])
            whole[kind] = formats.read(path).points
        kept = Path(tempfile.gettempdir())
        while time.time() - started < 60 * options.minutes:
            kind = kinds[int(rng.integers(len(kinds)))]
            ending = kind.split("-")[0].lower()
            path = folder / f"fuzz.{ending}"
            content, cut = mutated(sound[kind], rng)
            path.write_bytes(content)
            outcome, seconds = timed(path, whole[kind], cut)
            slowest = max(slowest, seconds)
            counts[outcome] += 1
            files[ending] += 1
            if not outcome.startswith(("read", "refused")):
                mark = f"fuzz-{options.seed}-{counts[outcome]}-{outcome.replace(' ', '-')}"
                path.rename(kept / f"{mark}.{ending}")
                print(outcome, kind, flush=True)
            elif seconds > SECONDS / 3:
                path.rename(kept / f"fuzz-{options.seed}-{counts.total()}-slow.{ending}")
    result = {
        "machine": processor(), "date": datetime.date.today().isoformat(), "seed": options.seed,
        "minutes": options.minutes, "formats": dict(sorted(files.items())),
        "files": counts.total(), "outcomes": dict(counts), "slowest_s": round(slowest, 2),
    }  # fmt: skip
    print(json.dumps(result, indent=1))
    options.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
