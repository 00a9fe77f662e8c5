"""What is asked of the models once per explainer, on rows of the data: the spread of outputs, and how they decide."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from gbce._budget import Budget, BudgetSpentError
from gbce._seeds import JUDGING, stream
from gbce._units import deviations
from gbce._weights import Array
from gbce.predictors import Predictor, as_classifier, follow_predict

__all__ = ["Reference"]

_MOST = 5_000  # rows of the data, to read the spread of outputs off
_N_BETWEEN = 2_000  # points at which a classifier's predict is compared with its probabilities


@dataclass
class Reference:
    """Some rows of the data, and what the models said there."""

    rows: Array
    steps: Array
    spread: Array | None = None
    classifiers: tuple[Predictor, ...] | None = None

    @classmethod
    def of(cls, data: Array, steps: Array) -> "Reference":
        """Take evenly spaced rows of data ``(n, d)``; ``steps`` ``(d,)``: which features move in whole steps."""
        return cls(data[:: max(1, len(data) // _MOST)], steps)

    def as_classifiers(self, predictors: tuple[Predictor, ...], budget: Budget) -> tuple[Predictor, ...]:
        """Return the predictors as classifiers that count from zero, their ``predict`` compared once."""
        if self.classifiers is not None:
            return tuple(predictor.metered() for predictor in self.classifiers)
        rows = (1 + 2 * _N_BETWEEN) * len(predictors)
        with _setting_up(budget, rows, "comparing predict with probabilities", ""):
            ready = [as_classifier(predictor, self.rows) for predictor in predictors]
            self.classifiers = tuple(follow_predict(predictor, _between(self.rows, self.steps)) for predictor in ready)
        return self.classifiers

    def output_spread(self, first: Predictor, budget: Budget) -> Array:
        """Return the standard deviation of each of the first model's outputs ``(c,)``, asked for once."""
        if self.spread is None:
            advice = "give the target a scale and a tolerance, or "
            with _setting_up(budget, len(self.rows), "reading the spread of outputs off the data", advice):
                values = first(self.rows).values
            self.spread = np.atleast_1d(deviations(values, np.std))
        return self.spread


@contextmanager
def _setting_up(budget: Budget, rows: int, what: str, advice: str) -> Iterator[None]:
    """Charge what is asked, or say why it cannot be asked."""
    if budget.affords(rows) < rows:
        raise BudgetSpentError(f"{what} takes {rows:,} model rows, once: {advice}raise max_model_rows or time_budget")
    with budget.spending(rows):
        yield


def _between(rows: Array, steps: Array) -> Array:
    """Return points on segments between rows: on their way from class to class they meet every threshold.

    What moves in whole steps is taken from the nearer end.
    """
    rng = stream(0, JUDGING)
    first, second = rows[rng.integers(len(rows), size=(2, _N_BETWEEN))]
    share = rng.random((_N_BETWEEN, 1))
    return np.where(steps, np.where(share > 0.5, first, second), share * first + (1 - share) * second)
