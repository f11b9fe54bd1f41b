"""Which parts of a map are worth a closer look."""

import numpy as np

# Points of a region, at most: as many as have room for their names.
POINTS = 25
REGIONS = 3
FEWEST_POINTS = 40


def map_regions(points: np.ndarray, size: int = POINTS, regions: int = REGIONS) -> list[tuple[float, ...]]:
    """The densest squares of a map that do not overlap.

    Args:
        points: float array `(n, 2)`.
        size: int. Points of each square, roughly. Defaults to `25`.
        regions: int. Squares, fewer where there is no room. Defaults to `3`.

    Returns:
        list of boxes `(left, bottom, right, top)`, the densest first; none of a map of fewer than 40 points.
    """
    if len(points) < FEWEST_POINTS:
        return []
    radii = np.empty(len(points))
    for i, point in enumerate(points):
        radii[i] = np.partition(np.abs(points - point).max(axis=1), size)[size]
    found: list[tuple[float, ...]] = []
    for i in np.argsort(radii, kind="stable"):
        half = 1.08 * radii[i]
        left, bottom, right, top = *(points[i] - half), *(points[i] + half)
        if all(right < box[0] or left > box[2] or top < box[1] or bottom > box[3] for box in found):
            found.append((float(left), float(bottom), float(right), float(top)))
            if len(found) == regions:
                break
    return found
