"""Whether two sets of answers came from one model, and the rows it is asked about to find out."""

from typing import Any

import numpy as np

from gbce.base import Array

__all__ = ["N_ASKED", "pick_rows", "same_answers"]

# All three by hand:
N_ASKED = 48  # rows: a few dozen tell two fits apart and cost next to nothing
_SHARE_OF_SPREAD = 1e-4  # answers that differ by less lead to the same explanation, whoever gave them
_SHARE_OF_SIZE = 1e-6  # above what single precision rounds (6e-8), on another processor or in another batch


def pick_rows(n: int) -> Array:
    """Return positions ``(m,)`` of at most :data:`N_ASKED` rows out of ``n``, evenly spaced."""
    return np.unique(np.linspace(0, n - 1, min(n, N_ASKED)).astype(int))


def same_answers(before: Any, now: Any) -> bool:
    """Whether numbers agree but for rounding: arrays of any one shape, judged by their spread and their size.

    Examples
    --------
    >>> same_answers([1.0, 2.0, 3.0], [1.0, 2.0, 3.0 + 1e-9])
    True
    >>> same_answers([1.0, 2.0, 3.0], [1.0, 2.0, 3.1])
    False
    """
    a, b = np.asarray(before, dtype=float), np.asarray(now, dtype=float)
    if a.shape != b.shape:
        return False
    known = np.isfinite(a)
    if not np.array_equal(a[~known], b[~known], equal_nan=True):
        return False
    if not known.any():
        return True
    a, b = a[known], b[known]
    size = np.abs(a).max()
    of_spread = _SHARE_OF_SPREAD * size * (a / size).std() if size > 0 else 0.0  # no square overflows
    room = _SHARE_OF_SIZE * size + of_spread
    return bool(np.all(np.abs(a - b) <= room))
