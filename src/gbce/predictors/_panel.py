"""Models asked together within a budget, whoever asks: what may still be spent is looked up, and charged."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gbce.base import Array, Outputs
from gbce.budget import Budget, BudgetSpentError, HangingError, Load
from gbce.predictors._predictor import Predictor

__all__ = ["Panel"]


@dataclass(frozen=True)
class Panel:
    """Models, and what may be spent on asking them.

    Parameters
    ----------
    predictors : tuple of Predictor
        The models.
    budget : Budget
        What may be spent.
    use_predict : bool
        Whether the ``predict`` of classifiers is asked as well.
    """

    predictors: tuple[Predictor, ...]
    budget: Budget
    use_predict: bool = False

    @property
    def load(self) -> Load:
        """How many rows of each model a point takes; a model is known by its function."""
        return [(id(predictor.ask), predictor.questions(self.use_predict)) for predictor in self.predictors]

    @property
    def each(self) -> int:
        """The most rows that a point takes."""
        return sum(predictor.questions(self.use_predict) for predictor in self.predictors)

    def affords(self, n: int) -> int:
        """Return how many of ``n`` points all models can still be asked about."""
        return self.budget.affords(n, self.load, self.each)

    def portions(self, n: int, copies: int = 1) -> Iterator[slice]:
        """Yield slices of ``n`` points, each of ``copies`` rows, as many as the budget allows.

        Each is as large as the budget allows by then. Where it is not known how long a model takes, the first is one
        point at least.
        """
        done = 0
        while done < n:
            size = self.affords((n - done) * copies) // copies
            if size == 0 and not self.budget.unmeasured(self.load):
                return
            yield slice(done, done + max(size, 1))
            done += max(size, 1)

    def ask(self, x: Array) -> list[Outputs]:
        """Return what every model says about ``x`` of shape ``(n, d)``, or refuse."""
        load = self._require(len(x))
        parts: list[list[Outputs]] = []
        done = 0
        while done < len(x) or not parts:
            if parts:
                self.budget.require_time()
            size = self.budget.batch(len(x) - done, load)
            parts.append(self._ask_each(x[done : done + size]))
            done += size
        return _join(parts)

    def ask_some(self, x: Array) -> list[Outputs]:
        """Return what every model says about the first rows of ``x``, as many as the budget allows, or refuse."""
        load = self.load
        parts: list[list[Outputs]] = []
        done = 0
        while size := min(self.affords(len(x) - done), self.budget.batch(len(x) - done, load)):
            parts.append(self._ask_each(x[done : done + size]))
            done += size
        if not parts:
            raise BudgetSpentError("not a single row is within the budget: raise max_model_rows or time_budget")
        return _join(parts)

    def ask_alone(self, x: Array) -> list[Outputs]:
        """Return what every model says about rows ``(n, d)``, each asked by itself as a user asks, or refuse.

        When the time is over, they are no more than the first few, or none. Models whose calls are paid for are asked
        about all rows in one.
        """
        self._require(len(x))
        if not all(predictor.by_row for predictor in self.predictors):
            return self.ask(x)
        parts: list[list[Outputs]] = []
        while len(parts) < len(x) and not self.budget.root.is_late:
            parts.append(self._ask_each(x[len(parts) : len(parts) + 1], alone=True))
        return _join(parts) if parts else []

    def _require(self, n: int) -> Load:
        """Refuse ``n`` points that are beyond the budget, or a model that hangs; return the load of a point."""
        for predictor in self.predictors:
            if (lost := self.budget.root.lost.get(id(predictor.ask))) is not None:
                raise HangingError(f"{predictor.name} {lost}")
        self.budget.require(n, self.load)
        return self.load

    def _ask_each(self, x: Array, alone: bool = False) -> list[Outputs]:
        said = []
        for predictor in self.predictors:
            with self.budget.spending(len(x) * predictor.questions(self.use_predict), id(predictor.ask)):
                try:
                    said.append(predictor(x, use_predict=self.use_predict, alone=alone, budget=self.budget))
                except HangingError as error:
                    self.budget.root.lost[id(predictor.ask)] = str(error)
                    raise HangingError(f"{predictor.name} {error}") from None
        return said


def _join(parts: Sequence[Sequence[Outputs]]) -> list[Outputs]:
    """Return what models said in several calls as if it had been one."""
    if len(parts) == 1:
        return list(parts[0])
    joined = []
    for said in zip(*parts, strict=True):
        decided = [one.decided for one in said if one.decided is not None]
        values = np.concatenate([one.values for one in said])
        joined.append(replace(said[0], values=values, decided=np.concatenate(decided) if decided else None))
    return joined
