"""Points and triangles to pixels, what is in front hiding what is behind.

Takes positions as a camera sees them (right, up, towards it) and colours, gives an image.
"""

from collections.abc import Iterator

import numpy as np

from coembed.annotations import Float, Int

__all__ = ["Raster"]

_SAMPLES = 1_000_000  # that are looked at together
_FINER = 2  # pixels of the raster along a side of one pixel of the image
_STEPS = np.array([1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024])


class Raster:
    """An image that is drawn from samples of surfaces; of those at a pixel the nearest stays.

    Parameters
    ----------
    low, high
        Corners of what is seen: right and up.
    height
        Pixels from low to high.
    """

    def __init__(
        self, low: Float[np.ndarray, " 2"], high: Float[np.ndarray, " 2"], height: int
    ) -> None:
        self.low = low
        self.scale = _FINER * height / float(high[1] - low[1])
        width = max(1, round(height * float(high[0] - low[0]) / float(high[1] - low[1])))
        self.size = (_FINER * height, _FINER * width)
        self.depth = np.full(self.size[0] * self.size[1], -np.inf)
        self.colour = np.zeros((len(self.depth), 3), dtype=np.float32)

    def image(self) -> Float[np.ndarray, "h w 4"]:
        """Red, green, blue and cover, from 0 to 1; the first row is the lowest."""
        cover = np.isfinite(self.depth).astype(np.float32)
        both = np.concatenate([self.colour * cover[:, None], cover[:, None]], axis=1)
        height, width = (side // _FINER for side in self.size)
        mean = both.reshape(height, _FINER, width, _FINER, 4).mean(axis=(1, 3))
        mean[:, :, :3] /= np.maximum(mean[:, :, 3:], 1e-6)
        return np.clip(mean, 0, 1)

    def dots(
        self, points: Float[np.ndarray, "n 3"], colours: Float[np.ndarray, "n 3"], radius: float
    ) -> None:
        """Draw points as discs of a radius in the units of the positions."""
        reach = max(radius * self.scale, 0.75)
        steps = np.arange(-int(np.ceil(reach)), int(np.ceil(reach)) + 1)
        across, up = (side.ravel() for side in np.meshgrid(steps, steps))
        inside = across**2 + up**2 <= reach**2
        across, up = across[inside], up[inside]
        for rows in _chunks(len(points), len(across)):
            column, row = self._pixel(points[rows])
            places = ((column[:, None] + across).ravel(), (row[:, None] + up).ravel())
            depth = np.repeat(points[rows, 2], len(across))
            self._add(*places, depth, np.repeat(colours[rows], len(across), axis=0))

    def triangles(
        self,
        points: Float[np.ndarray, "n 3"],
        colours: Float[np.ndarray, "n 3"],
        faces: Int[np.ndarray, "f 3"],
    ) -> None:
        """Draw triangles; colours of their corners are interpolated."""
        corners = points[faces][:, :, :2]
        edges = np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2)
        # samples that are less than a pixel apart, as many for all triangles of about one size
        steps = np.searchsorted(_STEPS[:-1], 1.2 * self.scale * edges.max(axis=1))
        for step in np.unique(steps):
            shares = _shares(int(_STEPS[step]))
            chosen = faces[steps == step]
            for rows in _chunks(len(chosen), len(shares)):
                places = np.einsum("sc,fca->fsa", shares, points[chosen[rows]])
                shown = np.einsum("sc,fca->fsa", shares, colours[chosen[rows]])
                column, row = self._pixel(places.reshape(-1, 3))
                self._add(column, row, places[:, :, 2].ravel(), shown.reshape(-1, 3))

    def depth_at(self, places: Float[np.ndarray, "n 3"]) -> Float[np.ndarray, " n"]:
        """How near the nearest thing drawn so far is where places are seen."""
        column, row = np.clip(self._pixel(places), 0, np.array(self.size[::-1])[:, None] - 1)
        depth: Float[np.ndarray, " n"] = self.depth[row * self.size[1] + column]
        return depth

    def _pixel(self, places: Float[np.ndarray, "s 3"]) -> Int[np.ndarray, "2 s"]:
        """Column and row of places."""
        return np.floor((places[:, :2] - self.low) * self.scale).astype(np.int64).T

    def _add(
        self,
        column: Int[np.ndarray, " s"],
        row: Int[np.ndarray, " s"],
        depth: Float[np.ndarray, " s"],
        colours: Float[np.ndarray, "s 3"],
    ) -> None:
        inside = (column >= 0) & (row >= 0) & (column < self.size[1]) & (row < self.size[0])
        pixel = (row * self.size[1] + column)[inside]
        depth, colours = depth[inside], colours[inside]
        order = np.argsort(depth, kind="stable")
        winner = np.full(len(self.depth), -1)
        winner[pixel[order]] = order  # of several the last one, which is the nearest
        seen = np.flatnonzero(winner >= 0)
        seen = seen[depth[winner[seen]] > self.depth[seen]]
        self.depth[seen] = depth[winner[seen]]
        self.colour[seen] = colours[winner[seen]]


def _chunks(n: int, samples: int) -> Iterator[slice]:
    """Parts of n things, each with so many samples."""
    size = max(1, _SAMPLES // samples)
    for start in range(0, n, size):
        yield slice(start, start + size)


def _shares(n: int) -> Float[np.ndarray, "s 3"]:
    """Barycentric coordinates of an even grid on a triangle, n steps along a side."""
    one, other = np.meshgrid(np.arange(n + 1), np.arange(n + 1), indexing="ij")
    inside = one + other <= n
    first, second = one[inside], other[inside]
    return np.stack([first, second, n - first - second], axis=1) / n
