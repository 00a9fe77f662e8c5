"""Whether a model has slopes, whether it is linear, and a plane through it near a row where it is not."""

from typing import Any, NamedTuple

import numpy as np
from sklearn.linear_model import LogisticRegression

from benchmarks.rivals._question import Question

__all__ = ["Plane", "has_slopes", "linear_plane", "local_plane", "standard"]

_LOOKS = 3  # rows of the data at which slopes are looked at
_STEPS = 1e-3, 1e-4  # of a range: two small changes; differences of models in single precision still have digits
_ALIKE = 0.2  # relative difference of the slopes over these
_CHECKS = 20  # rows of the data at which a linear model has to be linear
_SAME = 1e-4  # of the spread of logits: what a linear model's may be off by, since slopes are differences
_WIDTH = 0.75  # of the root of the number of columns: LIME's kernel


class Plane(NamedTuple):
    """A logit that is linear in the columns.

    ``slopes`` ``(p,)`` has what a standard deviation of a number adds, and what a change of the row's category to a
    level adds; ``level`` is the logit at the row.
    """

    slopes: Any
    level: float


def standard(question: Question) -> tuple[Any, Any]:
    """Return origin and size ``(p,)`` of coordinates ``(z - origin) / size``: standard scores, levels as 0 and 1."""
    points, plain = question.codes.points, np.isnan(question.codes.level)
    spread = points.std(axis=0)
    return np.where(plain, points.mean(axis=0), 0.0), np.where(plain, np.where(spread > 0, spread, 1.0), 0.5)


def has_slopes(question: Question) -> bool:
    """Whether the logit changes alike with two small changes of some number, at most of a few rows of the data.

    A model with steps passes none of them in a small change, or one by chance. Whole numbers are made fractions for it:
    a linear model of them has slopes, too.
    """
    numbers = np.flatnonzero(np.isnan(question.codes.level) & question.free)
    looks = _spread_out(question, _LOOKS)
    wide, narrow = (np.array([_small_changes(question, z, numbers, step) for z in looks]) for step in _STEPS)
    alike = (wide != 0) & (np.abs(wide - narrow) <= _ALIKE * np.abs(wide))
    return bool((alike.mean(axis=0) > 0.5).any())


def _small_changes(question: Question, z: Any, numbers: Any, step: float) -> Any:
    """Return how the logit changes with some numbers of a point ``(p,)`` about it, whole or not."""
    each = np.arange(len(numbers))
    moved = np.tile(z, (2 * len(numbers), 1))
    moved[each, numbers] += step
    moved[len(numbers) + each, numbers] -= step
    frame, at = question.codes.unrounded(moved, question.x0)
    said = question.wish.logits(question.model, frame)
    apart = at[each, numbers] - at[len(numbers) + each, numbers]
    return (said[: len(numbers)] - said[len(numbers) :]) / np.where(apart > 0, apart, np.inf)


def linear_plane(question: Question) -> Plane | None:
    """Return a linear model's own weights, read off its slopes; nothing where these do not foretell its logits."""
    slopes = question.slopes(question.start)
    z = question.settle(np.vstack([question.start, _spread_out(question, _CHECKS)]))
    said = question.logits(z)
    numbers = np.isnan(question.codes.level)
    moved = np.where(numbers, z - question.start, 2 * z)  # the slope of the row's own level is zero
    if np.abs(said[0] + moved @ slopes - said).max() > _SAME * max(np.ptp(said), 1.0):
        return None
    return Plane(np.where(numbers, slopes * standard(question)[1], slopes), float(said[0]))


def local_plane(question: Question, n: int, rng: np.random.Generator) -> Plane | None:
    """Return LIME's plane: a logistic regression on the model's verdicts on ``n`` made-up rows, weighted by nearness.

    Numbers are drawn from a normal law with the mean and standard deviation of the data, levels by their frequency, and
    what the row may not change stays. Nothing where the model says the same of all.
    """
    codes, (origin, size) = question.codes, standard(question)
    numbers = np.isnan(codes.level)
    drawn = rng.standard_normal((n, len(origin))) * size + origin
    for j in np.unique(codes.column[~numbers]):  # as a whole from rows of the data
        mine = np.flatnonzero(codes.column == j)
        drawn[:, mine] = codes.points[rng.integers(0, len(codes.points), n)][:, mine]
    z = question.settle(drawn)
    granted = question.granted(z)
    if granted.all() or not granted.any():
        return None
    x, x0 = ((at - origin) / size for at in (z, question.start))
    nearness = np.exp(-((x - x0) ** 2).sum(axis=1) / (2 * _WIDTH**2 * x.shape[1]))
    fit = LogisticRegression(max_iter=1_000).fit(x[:, question.free], granted, sample_weight=nearness)
    weight = np.zeros(len(x0))
    weight[question.free] = fit.coef_[0]
    own = np.array([weight[(codes.column == j) & (question.start > 0)].sum() for j in codes.column])
    return Plane(np.where(numbers, weight, weight - own), float(fit.intercept_[0] + weight @ x0))


def _spread_out(question: Question, n: int) -> Any:
    """Return rows of the data ``(n, p)``, as far as the row may become them."""
    points = question.codes.points
    return question.settle(points[np.linspace(0, len(points) - 1, min(n, len(points))).astype(int)])
