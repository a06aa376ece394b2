"""Make the compasses of the shipped weights anew: ``python benchmarks/compass.py`` (eight minutes).

They are made of generated people only; `coembed.alignment` says what they are for.
"""

from pathlib import Path

import coembed
from coembed import alignment, model


def main():
    for name in model.SHIPPED:
        path = Path(coembed.__file__).parent / "data" / f"{name}-compass.npz"
        alignment.save(alignment.learn(coembed.load(name)), path, force=True)
        print(path, path.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
