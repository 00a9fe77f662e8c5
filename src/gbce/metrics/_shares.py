"""Shares of successes, with errors and intervals that are not zero where all trials or none succeed."""

import numpy as np

from gbce._numerics import NORMAL_975
from gbce.base import Array

__all__ = ["PRINTED_Z_95", "ROUNDS_TO_ZERO", "share_and_error", "wilson"]

PRINTED_Z_95 = 1.96  # errors on either side of intervals in texts and pictures: the figure that the documents name
ROUNDS_TO_ZERO = 0.005  # shares below it would be printed as 0%


def share_and_error(share: Array, n: float) -> tuple[Array, Array]:
    """Return a share of ``n`` trials and its standard error, which is not zero at shares of 0 and 1.

    There the two extra successes and failures of Agresti and Coull (1998) are counted: none in 200 trials is not
    "impossible".
    """
    adjusted = np.where((share == 0) | (share == 1), (share * n + 2) / (n + 4), share)
    size = np.where((share == 0) | (share == 1), n + 4, n)
    return share, np.sqrt(adjusted * (1 - adjusted) / size)


def wilson(share: Array, n: float | Array, z: float = NORMAL_975) -> tuple[Array, Array]:
    """Return Wilson's (1927) interval of shares of ``n`` trials; at shares of 0 and 1 it still has a width.

    For a mean of figures between zero and one it is at least as wide as necessary: none varies more than a yes or no.
    """
    share = np.asarray(share, dtype=float)
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    # at shares of 0 and 1 one end is the share itself, but for its last bit
    return np.clip(middle - half, 0.0, share), np.clip(middle + half, share, 1.0)
