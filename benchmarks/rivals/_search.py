"""A nearest point that keeps a condition, by trial: for methods whose publication names a problem and no solver.

Distance plus a large weight times what the condition lacks is lowered by a small population that moves towards the row,
takes columns back, mixes and steps at random. It asks in batches and needs no gradient, so that any model will do.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

import gbce
from benchmarks.rivals._data import Data
from benchmarks.rivals._model import CountedModel
from benchmarks.rivals._protocol import CannotRunError
from benchmarks.rivals._question import Codes, Question
from benchmarks.rivals._wish import Wish

__all__ = ["MARGIN", "Pool", "distance", "lacking", "make_codes", "panel", "scores", "search"]

MARGIN = 1e-6  # above one half, so that a tie, which `predict` may settle either way, does not count as reached
_WEIGHT = 1e3  # of what is lacking: ranges of a column that a whole unit of it is worth; large, as penalties are
_ROUNDS = 10  # of asking
_SIZE = 96  # points asked at once
_PARENTS = 10  # that go on to the next round
_PATIENCE = 4  # rounds without a gain of a thousandth
_ROWS = 2000  # rows of the data that are looked at; more would cost time and hardly be nearer
_NEAREST = 32  # of them that a search starts from
_COARSE, _FINE = 0.3, 3e-4  # of a range: steps are drawn evenly on a log scale between them

Lack = Callable[[Any], Any]  # points (n, p) to what they lack (n,), zero where the condition holds


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
    question: Question, lack: Lack, starts: Any, rng: np.random.Generator, origin: Any = None, rounds: int = _ROUNDS
) -> tuple[Any, float]:
    """Return the nearest point found that lacks nothing, or the one that lacks least for its distance.

    Parameters
    ----------
    question : Question
        The row, its bounds and levels.
    lack : callable
        Points ``(n, p)`` to what they lack.
    starts : ndarray of shape (m, p)
        Points to begin with; noise between the bounds is added where there are none.
    rng : Generator
        Chance.
    origin : ndarray of shape (p,), optional
        What distances are measured from, if not the row.
    rounds : int
        Of asking.

    Returns
    -------
    point : ndarray of shape (p,)
        Where its row really lies.
    lacks : float
        Zero if the condition holds there.
    """
    origin = question.start if origin is None else origin
    origin = question.settle(origin)[0]
    low, high = question.limits
    if not len(starts):
        starts = rng.uniform(low, high, (_NEAREST, len(low)))
    # rows of the data, what lies between them and the row, and the row itself
    first = np.vstack([origin[None, :], *(origin + t * (starts - origin) for t in (1.0, 0.75, 0.5, 0.25))])
    points = _distinct(question.settle(first))
    far, lacks = distance(points, origin), lack(points)
    stale = 0
    for _ in range(rounds):
        value = far + _WEIGHT * lacks
        keep = np.argsort(value, kind="stable")[:_PARENTS]
        points, far, lacks, value = points[keep], far[keep], lacks[keep], value[keep]
        born = np.vstack([_greedy(question, points[0], origin), _children(question, points, origin, rng)])
        born = _distinct(question.settle(np.where(question.free, np.clip(born, low, high), origin)))
        reach = distance(born, origin)
        promising = reach < value[-1]  # distance alone is more than what is known already
        if promising.any():
            born, reach = born[promising], reach[promising]
            points, far = np.vstack([points, born]), np.concatenate([far, reach])
            lacks = np.concatenate([lacks, lack(born)])
        gained = value[0] - (far + _WEIGHT * lacks).min() > 1e-3
        stale = 0 if gained else stale + 1
        if stale >= _PATIENCE and lacks.min() == 0.0:
            break
    best = int(np.argmin(np.where(lacks == 0.0, far, np.inf)) if (lacks == 0.0).any() else np.argmin(far + _WEIGHT * lacks))
    return points[best], float(lacks[best])


def _distinct(z: Any) -> Any:
    """Return points without repetitions, in their order."""
    _, first = np.unique(np.round(z, 12), axis=0, return_index=True)
    return z[np.sort(first)]


def _greedy(question: Question, best: Any, origin: Any) -> Any:
    """Return the best point with one column taken back each, and points on its way back."""
    column = question.codes.column
    changed = np.unique(column[best != origin])
    single = np.array([np.where(column == j, origin, best) for j in changed]).reshape(-1, len(best))
    plain = np.isnan(question.codes.level)
    steps = 1 - np.geomspace(1e-4, 0.6, 10)[:, None]
    shorter = np.where(plain, origin + steps * (best - origin), best)
    return np.vstack([single, shorter])


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
