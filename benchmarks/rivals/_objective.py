"""What distance minimisers minimise (Wachter et al. 2017): a squared miss at a price, and the distance from the row."""

from typing import Any

import numpy as np

from benchmarks.rivals._question import Codes, Question

__all__ = ["Objective", "mad"]


def mad(codes: Codes) -> Any:
    """Return the median absolute deviation of each number in the data ``(p,)``.

    Where it is zero, as of nearly all levels of categories, it is the standard deviation; one where that is zero too.
    """
    points = codes.points
    spread = np.median(np.abs(points - np.median(points, axis=0)), axis=0)
    spread = np.where(spread > 0, spread, points.std(axis=0))
    return np.where(spread > 0, spread, 1.0)


class Objective:
    """``price * (f(x) - y')^2 + sum_j |x_j - x0_j| / MAD_j`` for one row.

    A class or an interval is wanted, not one value: y' is its point nearest to f(x), a margin inside.

    Parameters
    ----------
    question : Question
        The row, and what is wanted of it.
    margin : float
        How far inside: as a probability, or in standard deviations of the outcome.
    """

    def __init__(self, question: Question, margin: float) -> None:
        self.question = question
        wish = question.wish
        self.weight = np.where(question.free, 1.0 / mad(question.codes), 0.0)
        self.margin = min(margin, 0.5 if wish.classifies else (wish.high - wish.low) / wish.unit / 2)

    def parts(self, z: Any) -> tuple[Any, Any]:
        """Return the squared misses ``(n,)`` and the distances ``(n,)`` of the rows of points ``(n, p)``."""
        question = self.question
        depths = question.wish.depths(question.model, question.frame(z))
        return np.maximum(self.margin - depths, 0.0) ** 2, self.distances(z)

    def distances(self, z: Any) -> Any:
        """Return how far the rows of points lie from the row ``(n,)``."""
        return np.abs(self.question.settle(z) - self.question.start) @ self.weight

    def values(self, z: Any, price: float) -> Any:
        """Return the objective ``(n,)``."""
        miss, distance = self.parts(z)
        return price * miss + distance
