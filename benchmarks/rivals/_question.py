"""One row's question in plain numbers, for methods that move through numbers only."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

import gbce
from benchmarks.rivals._model import CountedModel
from benchmarks.rivals._wish import Wish

__all__ = ["Codes", "Question"]

_SAME = 1e-12  # of a range: a number this close to the row's has not moved


class Codes:
    """Rows of a table as numbers in which a change of one is a range of the column, or another level.

    A number is shifted and divided by its range in the data, so that it lies in [0, 1]; ordinals likewise by their
    levels. A category or boolean has one number for each of its levels, a half where it has it and zero elsewhere: the
    l1 distance between two levels is one. Missing numbers stand in the middle of what is known, missing levels
    nowhere.

    Parameters
    ----------
    X : DataFrame
        The data.
    space : Space
        What the columns can be.
    """

    def __init__(self, X: pd.DataFrame, space: gbce.Space) -> None:
        if any(feature.kind == "datetime" for feature in space.features):
            raise ValueError("a column of dates cannot be turned into a number here")
        self.space = space
        x = space.encode(X)
        self._shift = np.nanmin(x, axis=0)
        spread = np.nanmax(x, axis=0) - self._shift
        self._size = np.where(spread > 0, spread, 1.0)
        self._middle = np.nanmedian(x, axis=0)
        columns: list[int] = []
        levels: list[float] = []
        for j, feature in enumerate(space.features):
            known = range(len(feature.levels or ())) if feature.unordered else [np.nan]
            columns += [j] * len(known)
            levels += list(known)
        self.column = np.array(columns)  # (p,): the feature that a number belongs to
        self.level = np.array(levels)  # (p,): the level that it stands for, nan where it is the value itself
        discrete = np.array([feature.discrete for feature in space.features])
        self.whole = np.where(discrete, 1 / self._size, 0.0)[self.column]  # (p,): one, of what moves in whole steps
        self.known = ~np.isnan(x).any(axis=1)  # (n,): rows of the data with nothing missing
        self.points = self.of(x)  # (n, p): the data

    @property
    def edges(self) -> tuple[Any, Any]:
        """The least and the largest encoded value of each column in the data ``(d,)``."""
        return self._shift, self._shift + self._size

    def of(self, x: Any) -> Any:
        """Return encoded rows ``(n, d)`` as numbers ``(n, p)``."""
        values = x[:, self.column]
        plain = np.isnan(self.level)
        filled = np.where(np.isnan(values), self._middle[self.column], values)
        scaled = (filled - self._shift[self.column]) / self._size[self.column]
        return np.where(plain, scaled, 0.5 * (values == self.level))

    def back(self, z: Any, x0: Any, *, rounded: bool = True) -> Any:
        """Return numbers ``(n, p)`` as encoded rows ``(n, d)`` that keep what each column of a row ``(d,)`` allows.

        With several rows ``(m, d)`` the numbers are as many stretches of one length, each around one of them.
        """
        z, starts = np.atleast_2d(z), np.atleast_2d(x0)
        each = len(z) // len(starts)
        x0 = starts[0] if len(starts) == 1 else np.repeat(starts, each, axis=0)
        x = np.array(np.broadcast_to(x0, (len(z), starts.shape[1])))
        for j, feature in enumerate(self.space.features):
            mine = np.flatnonzero(self.column == j)
            if feature.unordered:
                x[:, j] = self.level[mine][np.argmax(z[:, mine], axis=1)]
            else:
                x[:, j] = z[:, mine[0]] * self._size[j] + self._shift[j]
                x[:, j] = np.round(x[:, j]) if rounded and feature.discrete else x[:, j]
        x = np.where(np.abs(x - x0) <= _SAME * self._size, x0, x)
        low, high = self.space.limits(x0)
        moves = (high > low) & ~np.isnan(x0)  # what is missing stays missing
        x = np.where(moves, np.clip(x, low, high), x0)
        stretches = [self.space.completed(x[i * each : (i + 1) * each], start) for i, start in enumerate(starts)]
        return np.concatenate(stretches)

    def unrounded(self, z: Any, x0: Any) -> tuple[pd.DataFrame, Any]:
        """Return numbers ``(n, p)`` as rows in which whole numbers may be fractions, and the numbers of these rows.

        Only to ask a model for its slopes: no answer has fractions.
        """
        x = self.back(z, x0, rounded=False)
        frame = self.space.frame(x)
        for j, feature in enumerate(self.space.features):
            if feature.discrete and not feature.leveled:
                frame[feature.name] = x[:, j]
        return frame, self.of(x)

    def scaled(self, x: Any) -> Any:
        """Return bounds or values of the columns ``(d,)`` on the scale of the numbers ``(p,)``."""
        values = (x - self._shift) / self._size
        return values[self.column]


class Question:
    """One row, what is wanted of it, and a model to ask about points around it.

    Parameters
    ----------
    model : CountedModel
        Is asked.
    codes : Codes
        Turn rows into numbers.
    row : DataFrame
        Of one line.
    wish : Wish
        What is wanted.

    Attributes
    ----------
    start : ndarray of shape (p,)
        The row.
    low, high : ndarray of shape (p,)
        Where numbers may lie.
    free : ndarray of shape (p,)
        Whether a number may change.
    """

    def __init__(self, model: CountedModel, codes: Codes, row: pd.DataFrame, wish: Wish) -> None:
        self.model, self.codes, self.row, self.wish = model, codes, row, wish
        space = codes.space
        self.x0 = space.encode(row)[0]
        self.start = codes.of(self.x0[None, :])[0]
        low, high = space.limits(self.x0)
        plain = np.isnan(codes.level)
        self.free = ((high > low) & ~np.isnan(self.x0))[codes.column]
        low, high = np.where(plain, codes.scaled(low), 0.0), np.where(plain, codes.scaled(high), 0.5)
        self.low, self.high = np.where(self.free, low, self.start), np.where(self.free, high, self.start)

    def frame(self, z: Any) -> pd.DataFrame:
        """Return points ``(n, p)`` as rows of the table: rounded, within bounds, what may not change unchanged."""
        return self.codes.space.frame(self.codes.back(z, self.x0))

    def settle(self, z: Any) -> Any:
        """Return points ``(n, p)`` where their rows really lie."""
        return self.codes.of(self.codes.back(z, self.x0))

    def scores(self, z: Any, model: CountedModel | None = None) -> Any:
        """Return how much the model, or another one, is in favour of points ``(n,)``."""
        return self.wish.scores(model or self.model, self.frame(z))

    def logits(self, z: Any, model: CountedModel | None = None) -> Any:
        """Return the same as logits ``(n,)``."""
        return self.wish.logits(model or self.model, self.frame(z))

    def gaps(self, z: Any, model: CountedModel | None = None) -> Any:
        """Return how far outputs at points lie outside of what is wanted ``(n,)``."""
        return self.wish.gaps(model or self.model, self.frame(z))

    def granted(self, z: Any, model: CountedModel | None = None) -> Any:
        """Whether the model's ``predict`` grants the wish at points ``(n,)``."""
        return self.wish.granted(model or self.model, self.frame(z))

    def slopes(self, z: Any, step: float = 1e-4) -> Any:
        """Return how the logit changes with each number at one point ``(p,)``, to ``(p,)``.

        Of numbers it is a central difference, within bounds; for models with steps that is zero. Whole numbers and
        ordinals move by one. Of a level it is what the model gains by it, since a change of level is a change of one.
        """
        frame, slopes = self.around(z, step)
        return slopes(self.wish.logits(self.model, frame))

    def around(self, z: Any, step: float = 1e-4) -> tuple[pd.DataFrame, Callable[[Any], Any]]:
        """Return rows around one point ``(p,)``, its own the last, and what turns their logits into :meth:`slopes`."""
        plain = np.isnan(self.codes.level)
        numbers, levels = np.flatnonzero(self.free & plain), np.flatnonzero(self.free & ~plain)
        moved = np.tile(z, (2 * len(numbers) + len(levels) + 1, 1))
        each = np.arange(len(numbers))
        steps = np.maximum(step, self.codes.whole[numbers])
        moved[each, numbers] += steps
        moved[len(numbers) + each, numbers] -= steps
        for i, k in enumerate(levels, start=2 * len(numbers)):
            moved[i, self.codes.column == self.codes.column[k]] = 0.0
            moved[i, k] = 0.5
        x = self.codes.back(moved, self.x0)
        at = self.codes.of(x)
        apart = at[each, numbers] - at[len(numbers) + each, numbers]

        def slopes(said: Any) -> Any:
            made = np.zeros(len(self.start))
            made[numbers] = (said[each] - said[len(numbers) + each]) / np.where(apart > 0, apart, np.inf)
            made[levels] = said[2 * len(numbers) : -1] - said[-1]
            return made

        return self.codes.space.frame(x), slopes

    @cached_property
    def limits(self) -> tuple[Any, Any]:
        """Finite bounds ``(p,)`` of where to look: the row's own, and the data's where these are open."""
        low = np.where(np.isfinite(self.low), self.low, np.minimum(self.codes.points.min(axis=0), self.start))
        high = np.where(np.isfinite(self.high), self.high, np.maximum(self.codes.points.max(axis=0), self.start))
        return low, high
