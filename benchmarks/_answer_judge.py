"""What an answer is worth, in plain pandas: whether the model grants it, what it costs, and whether it can be."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from benchmarks._real_tables import Case

__all__ = ["Columns", "Judged", "judge"]

WIDENED = 0.1  # of its range: how far beyond the data a column may go, on each side
_SAME = 1e-9  # of a range: what counts as no change


@dataclass(frozen=True)
class Columns:
    """What the columns of a table can be, read off the data.

    Parameters
    ----------
    low, high : Series of float
        Of the columns of numbers: the range of the data, missing cells left out.
    whole : frozenset of str
        Columns of numbers with whole ones only.
    levels : mapping
        The values of every other column.
    """

    low: pd.Series
    high: pd.Series
    whole: frozenset[str]
    levels: dict[str, frozenset[Any]]

    @classmethod
    def of(cls, X: pd.DataFrame) -> "Columns":
        """Read a table."""
        numbers = X.select_dtypes("number").astype(float)
        known = {name: numbers[name].dropna() for name in numbers}
        whole = frozenset(name for name, column in known.items() if (column == column.round()).all())
        others = [name for name in X.columns if name not in known]
        return cls(numbers.min(), numbers.max(), whole, {name: frozenset(X[name].dropna().unique()) for name in others})

    @property
    def ranges(self) -> pd.Series:
        """The range of each column of numbers; one where all values are the same."""
        spread = self.high - self.low
        return spread.where(spread > 0, 1.0)

    def edges(self, name: str) -> tuple[float, float]:
        """Return the least and the largest number that a column can hold.

        That is the range widened, but not below zero where nothing is, and not above one where all lie in [0, 1].
        """
        low, high, spread = self.low[name], self.high[name], self.ranges[name]
        least, most = low - WIDENED * spread, high + WIDENED * spread
        return (max(least, 0.0) if low >= 0 else least), (min(most, 1.0) if low >= 0 and high <= 1 else most)

    def sizes(self, answer: pd.Series, row: pd.Series) -> dict[str, float]:
        """Return the size of each change: in ranges, and one for another level or a cell that comes or goes."""
        sizes = {}
        for name in row.index:
            new, old = answer[name], row[name]
            if pd.isna(new) or pd.isna(old):
                sizes[name] = float(pd.isna(new) != pd.isna(old))
            elif name in self.levels:
                sizes[name] = float(new != old)
            else:
                size = abs(float(new) - float(old)) / self.ranges[name]
                sizes[name] = size if size > _SAME else 0.0
        return sizes

    def misfits(self, answer: pd.Series, changed: list[str]) -> tuple[int, int]:
        """Count changed values that a column cannot be: those beyond it, and fractions where numbers are whole."""
        outside = fractions = 0
        for name in changed:
            value = answer[name]
            if pd.isna(value):
                outside += 1
            elif name in self.levels:
                outside += value not in self.levels[name]
            else:
                least, most = self.edges(name)
                slack = _SAME * self.ranges[name]
                outside += not least - slack <= float(value) <= most + slack
                fractions += name in self.whole and float(value) != round(float(value))
        return outside, fractions


@dataclass(frozen=True)
class Judged:
    """One answer, judged."""

    valid: bool
    l1: float
    changed: int
    outside: int
    fractions: int


def judge(case: Case, columns: Columns, answer: pd.DataFrame, row: pd.DataFrame) -> Judged:
    """Judge an answer, a frame of one line, as it was given: numbers are not rounded before the model sees them."""
    text = {name: case.X[name].dtype for name in columns.levels}
    given = answer[list(case.X.columns)].reset_index(drop=True).astype(text)
    sizes = columns.sizes(given.iloc[0], row.iloc[0])
    changed = [name for name, size in sizes.items() if size > 0]
    outside, fractions = columns.misfits(given.iloc[0], changed)
    valid = bool(np.asarray(case.valid(given, row)).ravel()[0])
    return Judged(valid, sum(sizes.values()), len(changed), outside, fractions)
