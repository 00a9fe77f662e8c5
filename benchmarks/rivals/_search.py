"""A nearest point that keeps a condition, by trial: for methods whose publication names a problem and no solver.

Distance plus a large weight times what the condition lacks is lowered by a small population that moves towards the row,
takes columns back, mixes and steps at random. It asks in batches and needs no gradient, so that any model will do.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import gbce
from benchmarks.rivals._data import Data
from benchmarks.rivals._model import CountedModel
from benchmarks.rivals._protocol import CannotRunError
from benchmarks.rivals._question import Codes, Question
from benchmarks.rivals._wish import Wish

__all__ = ["MARGIN", "Condition", "Pool", "distance", "lacking", "make_codes", "panel", "scores", "search"]

MARGIN = 1e-6  # above one half, so that a tie, which `predict` may settle either way, does not count as reached
_WEIGHT = 1e3  # of what is lacking: ranges of a column that a whole unit of it is worth; large, as penalties are
_LEAST = 1e-3  # that counts as lacking where something does, so that a tie is no bargain
_ROUNDS = 6  # of asking: a call costs the same for one row as for hundreds, so few of them and large
_SIZE = 512  # points made at once
_PARENTS = 40  # that go on to the next round
_BEST = 3  # of them whose columns are taken back one by one
_BACK = 1.0, 0.5, 0.2, 0.05, 0.01  # how much of a column's change is taken back
_GRID = 8  # values of each number that are tried on their own
_PATIENCE, _GAIN = 3, 1e-3  # so many rounds without such a gain are enough
_ROWS = 2000  # rows of the data that are looked at; more would cost time and hardly be nearer
_NEAREST = 32  # of them that a search starts from
_COARSE, _FINE = 0.3, 3e-4  # of a range: steps are drawn evenly on a log scale between them

Condition = Callable[[Any], Any]  # scores of models (k, n) to what a point lacks (n,), zero where the condition holds


def make_codes(data: Data, space: gbce.Space) -> Codes:
    """Return the table as numbers; a table that cannot be one is none for the method."""
    try:
        return Codes(data.X, space)
    except ValueError as error:
        raise CannotRunError(f"takes no such table: {error}") from error


def panel(model: CountedModel, data: Data, refits: int) -> list[CountedModel]:
    """Return a model and refits of it, the ensemble that methods for several models look at."""
    try:
        return [model, *data.refits(refits)]
    except ValueError as error:
        raise CannotRunError(f"needs several models: {error}") from error


def scores(question: Question, models: list[CountedModel], z: Any) -> Any:
    """Return how much each model is in favour of points ``(n, p)``: ``(k, n)``."""
    frame = question.frame(z)
    return np.array([question.wish.scores(model, frame) for model in models])


def lacking(score: Any, level: float = 0.5 + MARGIN) -> Any:
    """Return how much scores lack up to a level; zero from there on."""
    return np.maximum(level - score, 0.0)


def distance(z: Any, origin: Any) -> Any:
    """Return the l1 distance of points ``(n, p)`` in ranges, another level being one."""
    return np.abs(np.atleast_2d(z) - origin).sum(axis=1)


class Pool:
    """Rows of the data and what the model says of them.

    Parameters
    ----------
    model : CountedModel
        Is asked once.
    data : Data
        The rows, of which at most 2,000 are looked at.
    codes : Codes
        Turn rows into numbers.
    """

    def __init__(self, model: CountedModel, data: Data, codes: Codes) -> None:
        rows = np.arange(len(data.X))
        if len(rows) > _ROWS:
            rows = np.sort(np.random.default_rng(0).choice(rows, _ROWS, replace=False))
        self._points = codes.points[rows]
        self._said = model.predict(data.X.iloc[rows])

    def nearest(self, question: Question, n: int = _NEAREST) -> Any:
        """Return up to ``n`` rows that reach the wish, nearest first, with the row's own fixed columns ``(m, p)``."""
        points = self._points[self.reaching(question.wish)]
        if not len(points):
            return points
        settled = question.settle(points)
        return settled[np.argsort(distance(settled, question.start), kind="stable")[:n]]

    def reaching(self, wish: Wish) -> Any:
        """Whether each row reaches a wish ``(n,)``."""
        return wish.reached(self._said)


def search(
    question: Question,
    models: list[CountedModel],
    conditions: Sequence[Condition],
    starts: Any,
    rng: np.random.Generator,
    origin: Any = None,
) -> list[tuple[Any, float]]:
    """Return for each condition the nearest point found that keeps it, or the one that lacks least for its distance.

    Parameters
    ----------
    question : Question
        The row, its bounds and levels.
    models : list of CountedModel
        Are asked, for all conditions at once.
    conditions : sequence of callable
        Scores of the models ``(k, n)`` to what each point lacks ``(n,)``.
    starts : ndarray of shape (m, p)
        Points to begin with; noise between the bounds is taken where there are none.
    rng : Generator
        Chance.
    origin : ndarray of shape (p,), optional
        What distances are measured from, if not the row.

    Returns
    -------
    list of (ndarray of shape (p,), float)
        Where the point's row really lies, and what it lacks: zero if the condition holds there.
    """
    origin = question.settle(question.start if origin is None else origin)[0]
    if not len(starts):
        low, high = question.limits
        starts = rng.uniform(low, high, (_NEAREST, len(low)))
    # the row itself, one column of it changed, rows of the data, and what lies between
    between = [origin + t * (starts - origin) for t in (1.0, 0.75, 0.5, 0.25)]
    first = np.vstack([origin[None, :], _single(question, origin), *between])
    points = _distinct(question.settle(first))
    told = scores(question, models, points)
    crowds = [_Crowd(question, origin, points, condition(told)) for condition in conditions]
    for _ in range(_ROUNDS):
        born = np.vstack([crowd.breed(rng) for crowd in crowds])
        if not len(born):
            break
        told = scores(question, models, born)
        for crowd, condition in zip(crowds, conditions, strict=True):
            crowd.learn(born, condition(told))
    return [crowd.best() for crowd in crowds]


class _Crowd:
    """Points that go on, for one condition."""

    def __init__(self, question: Question, origin: Any, points: Any, lacks: Any) -> None:
        self._question, self._origin = question, origin
        self._points, self._far, self._lacks = points, distance(points, origin), lacks
        self._stale = 0

    @property
    def _values(self) -> Any:
        return self._far + _WEIGHT * np.where(self._lacks > 0, np.maximum(self._lacks, _LEAST), 0.0)

    @property
    def _first(self) -> int:
        """The nearest point that lacks nothing, or the best one."""
        holds = self._lacks == 0.0
        return int(np.argmin(np.where(holds, self._far, np.inf) if holds.any() else self._values))

    def breed(self, rng: np.random.Generator) -> Any:
        """Return points to ask about next ``(n, p)``; none if nothing has been gained for long."""
        keep = np.argsort(self._values, kind="stable")[:_PARENTS]
        keep = np.append(self._first, keep[keep != self._first])
        self._points, self._far, self._lacks = self._points[keep], self._far[keep], self._lacks[keep]
        if self._stale >= _PATIENCE and self._lacks[0] == 0.0:
            return self._points[:0]
        question, origin, (low, high) = self._question, self._origin, self._question.limits
        greedy = [_greedy(question, z, origin) for z in self._points[:_BEST]]
        born = np.vstack([*greedy, _children(question, self._points, origin, rng)])
        born = _distinct(question.settle(np.where(question.free, np.clip(born, low, high), origin)))
        return born[distance(born, origin) < self._values.max()]  # of others, distance alone is too much already

    def learn(self, points: Any, lacks: Any) -> None:
        """Take in what points lack."""
        before = self._values.min()
        self._points = np.vstack([self._points, points])
        self._far = np.concatenate([self._far, distance(points, self._origin)])
        self._lacks = np.concatenate([self._lacks, lacks])
        self._stale = 0 if before - self._values.min() > _GAIN else self._stale + 1

    def best(self) -> tuple[Any, float]:
        """Return the nearest point that lacks nothing, or the best one, and what it lacks."""
        return self._points[self._first], float(self._lacks[self._first])


def _distinct(z: Any) -> Any:
    """Return points without repetitions, in their order."""
    _, first = np.unique(np.round(z, 12), axis=0, return_index=True)
    return z[np.sort(first)]


def _single(question: Question, origin: Any) -> Any:
    """Return the origin with one column changed: a number to values of a grid, a level to each other one."""
    column, level = question.codes.column, question.codes.level
    low, high = question.limits
    made = [origin]
    for k in np.flatnonzero(question.free):
        if np.isnan(level[k]):
            values = np.linspace(low[k], high[k], _GRID)
            made += [np.where(np.arange(len(column)) == k, value, origin) for value in values]
        else:
            made.append(np.where(column == column[k], 0.5 * (level == level[k]), origin))
    return np.array(made)


def _greedy(question: Question, point: Any, origin: Any) -> Any:
    """Return a point with one column taken back, in part or in whole, and with all numbers taken back in part."""
    column = question.codes.column
    plain = np.isnan(question.codes.level)
    changed = np.unique(column[point != origin])
    towards = origin - point
    single = [point + np.where(column == j, t, 0.0) * towards for j in changed for t in _BACK]
    every = [point + np.where(plain, t, 0.0) * towards for t in _BACK]
    return np.array(single + every)


def _children(question: Question, parents: Any, origin: Any, rng: np.random.Generator) -> Any:
    """Return points made of others ``(_SIZE, p)``."""
    column, level = question.codes.column, question.codes.level
    plain = np.isnan(level)
    mother, father, other = (parents[rng.integers(0, len(parents), _SIZE)] for _ in range(3))
    each = rng.uniform(size=(_SIZE, column.max() + 1))[:, column]  # one number for all levels of a column
    move = rng.integers(0, 4, _SIZE)[:, None]
    back = np.where(each < rng.uniform(size=(_SIZE, 1)), origin, mother)
    nearer = np.where(plain, origin + np.sqrt(rng.uniform(size=(_SIZE, 1))) * (mother - origin), mother)
    mixed = np.where(each < 0.5, mother, father) + np.where(plain, 0.5 * (father - other), 0.0)
    sizes = np.exp(rng.uniform(np.log(_FINE), np.log(_COARSE), (_SIZE, 1)))
    moved = each < np.maximum(rng.uniform(size=(_SIZE, 1)), 2 / (column.max() + 1))
    stepped = mother + np.where(plain & moved, sizes * rng.standard_normal(mother.shape), 0.0)
    stepped = _switched(question, stepped, rng)
    return np.select([move == 0, move == 1, move == 2], [back, nearer, mixed], stepped)


def _switched(question: Question, z: Any, rng: np.random.Generator) -> Any:
    """Return points of which every third has another level in one of its free columns of levels."""
    column, level = question.codes.column, question.codes.level
    levels = np.flatnonzero(~np.isnan(level) & question.free)
    if not len(levels):
        return z
    chosen = rng.choice(levels, len(z))
    touched = rng.uniform(size=(len(z), 1)) < 1 / 3
    same = touched & (column == column[chosen][:, None])
    return np.where(same, 0.5 * (np.arange(len(column)) == chosen[:, None]), z)
