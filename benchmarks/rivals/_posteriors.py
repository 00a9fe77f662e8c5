"""Posterior against posterior: Raman's distribution and gbce's, on the same rows.

Every distribution is thinned to as many draws. A draw reaches where the model's own ``predict`` grants the wish. The
success region has no natural measure, so a reference set stands for it: training rows with what may not change put
back, and as many rows in which one to three columns are redrawn evenly within their limits, those of both that reach.
Coverage is the share of them with a reaching draw within ``radius``, an l1 distance in ranges of the columns. A mode is
a set of columns that change by more than a twentieth of their range, or in their level, and that one in a hundred draws
changes and reaches.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

import gbce
from benchmarks.rivals._data import Data
from benchmarks.rivals._model import CountedModel
from benchmarks.rivals._question import Codes, Question
from benchmarks.rivals._wish import Wish
from benchmarks.rivals.raman import Hierarchical, InstanceLevel

__all__ = ["Line", "Posteriors", "Sampled", "compare", "find_reference"]

_RADIUS = 0.25  # a quarter of one column's range; a convention, stated in tables
_CHANGED = 0.05  # of a range: a change that counts
_SHARE = 0.01  # of the draws: what makes a mode
_REFERENCE = 1_000  # points of either kind that are shown to the model
_MOST_COLUMNS = 3  # that are redrawn at once
_DRAWS = 250  # of every distribution


@dataclass(frozen=True)
class Sampled:
    """What a method drew for one row.

    Parameters
    ----------
    name : str
        In tables.
    z : ndarray of shape (n, p)
        Draws of equal weight, as numbers.
    ess : float
        How many independent draws they are worth.
    seconds, rows : float, int
        What they took; model rows.
    """

    name: str
    z: Any
    ess: float
    seconds: float
    rows: int


@dataclass(frozen=True)
class Line:
    """One distribution in figures.

    Parameters
    ----------
    name : str
        Of the method.
    reached : float
        Share of draws that reach.
    coverage : float
        Share of the reference set that has a reaching draw nearby; nan where the set is empty.
    modes : int
        Sets of changed columns with a reaching draw.
    cost : float
        Mean l1 distance of reaching draws from the row, in ranges; nan where none reaches.
    nearest : float
        The least of them.
    ess, seconds, rows
        As in :class:`Sampled`.
    """

    name: str
    reached: float
    coverage: float
    modes: int
    cost: float
    nearest: float
    ess: float
    seconds: float
    rows: int


def find_reference(question: Question, rng: np.random.Generator, n: int = _REFERENCE) -> Any:
    """Return points ``(k, p)`` that are granted the wish, from the data and from changes of few columns."""
    codes = question.codes
    known = np.flatnonzero(codes.known)
    rows = codes.points[rng.permutation(known)[:n]]
    low, high = question.limits
    columns = np.unique(codes.column[question.free])
    changed = np.tile(question.start, (n if len(columns) else 0, 1))
    for z in changed:
        some = rng.permutation(columns)[: rng.integers(1, _MOST_COLUMNS + 1)]
        mine = np.isin(codes.column, some)
        z[mine] = rng.uniform(low[mine], high[mine])
    points = question.settle(np.concatenate([rows, changed]))
    return points[question.granted(points)]


def compare(question: Question, sampled: list[Sampled], reference: Any, radius: float = _RADIUS) -> list[Line]:
    """Return the figures of several distributions of one row, by one reference set ``(k, p)``."""
    return [_measure(question, one, reference, radius) for one in sampled]


def _measure(question: Question, one: Sampled, reference: Any, radius: float) -> Line:
    z = question.settle(one.z)
    reached = question.granted(z)
    good = z[reached]
    far = np.abs(good - question.start).sum(axis=1)
    return Line(
        one.name,
        float(reached.mean()),
        _cover(reference, good, radius),
        _count_modes(question, good, len(z)),
        float(far.mean()) if len(far) else np.nan,
        float(far.min()) if len(far) else np.nan,
        one.ess,
        one.seconds,
        one.rows,
    )


def _cover(reference: Any, points: Any, radius: float) -> float:
    """Return the share of a reference set ``(k, p)`` with one of the points ``(n, p)`` within a radius."""
    if len(reference) == 0:
        return float("nan")
    if len(points) == 0:
        return 0.0
    near = [bool((np.abs(points - z).sum(axis=1) <= radius).any()) for z in reference]
    return float(np.mean(near))


def _count_modes(question: Question, points: Any, n: int) -> int:
    """Return how many sets of columns change in one of a hundred of ``n`` draws, of which ``points`` reach."""
    codes = question.codes
    moved = np.abs(points - question.start) > _CHANGED
    sets = np.stack([moved[:, codes.column == j].any(axis=1) for j in np.unique(codes.column)], axis=1)
    _, counts = np.unique(sets, axis=0, return_counts=True) if len(sets) else (sets, np.zeros(0))
    return int((counts >= _SHARE * n).sum())


class Posteriors:
    """The distributions that are compared, fitted once and asked about row after row.

    Parameters
    ----------
    model : CountedModel
        The model.
    data : Data
        What it was fitted on.
    space : Space
        What columns can be.
    draws : int
        To which every distribution is thinned.
    full : Hierarchical, optional
        The hierarchy, where not with its defaults.
    """

    def __init__(
        self,
        model: CountedModel,
        data: Data,
        space: gbce.Space,
        draws: int = _DRAWS,
        full: Hierarchical | None = None,
    ) -> None:
        self._model, self._codes, self._draws = model, Codes(data.X, space), draws
        self._single, self._full = InstanceLevel(), full or Hierarchical()
        for rival in (self._single, self._full):
            rival.fit(model, data, space)
        self._explainer = gbce.Explainer(model, data.X, space=space, policy=None)

    def lines(self, row: pd.DataFrame, wish: Wish, seed: int) -> list[Line]:
        """Return the figures of each distribution for a frame of one row.

        What the hierarchy takes for its population is not in the seconds and rows of a row.
        """
        self._full.levels(wish)
        question = Question(self._model, self._codes, row, wish)

        def of_gbce() -> tuple[Any, float]:
            drawn = self._explainer.explain(row, wish.target, rules=[], seed=seed, progress=False).draws
            weights = drawn.weights / drawn.weights.sum()
            chosen = np.random.default_rng(seed).choice(len(drawn), self._draws, p=weights)
            return self._codes.of(self._codes.space.encode(drawn.frame().iloc[chosen])), drawn.ess

        def of_rival(rival: InstanceLevel | Hierarchical) -> tuple[Any, float]:
            drawn = rival.draw(row, wish, seed)
            if drawn is None:
                return np.empty((0, len(question.start))), 0.0
            return drawn.z, drawn.ess

        sampled = [
            self._sample("gbce", of_gbce, seed),
            self._sample("Raman, one row (reconstruction)", lambda: of_rival(self._single), seed),
            self._sample("Raman, hierarchy (reconstruction)", lambda: of_rival(self._full), seed),
        ]
        reference = find_reference(question, np.random.default_rng(seed))
        return compare(question, [one for one in sampled if len(one.z)], reference)

    def _sample(self, name: str, draw: Callable[[], tuple[Any, float]], seed: int) -> Sampled:
        """Draw with a clock, and thin."""
        began, rows = time.process_time(), self._model.rows
        z, ess = draw()
        seconds, rows = time.process_time() - began, self._model.rows - rows
        chosen = np.random.default_rng(seed).permutation(len(z))[: self._draws]
        return Sampled(name, z[chosen], ess, seconds, rows)
