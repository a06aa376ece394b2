"""Make the compass of the shipped weights anew: ``python benchmarks/compass.py`` (four minutes).

It is made of generated people only; `coembed.alignment` says what it is for.
"""

from pathlib import Path

import coembed
from coembed import alignment


def main():
    path = Path(coembed.__file__).parent / "data" / "compass.npz"
    alignment.save(alignment.learn(coembed.load()), path, force=True)
    print(path.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
