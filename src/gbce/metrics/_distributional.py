"""Figures for the whole posterior, each with its Monte Carlo error (Section 2.5.3 of the paper).

Each figure is read off the draws; its error follows from the figure's influence function on the pool the draws were
picked from (the delta method), see :meth:`gbce.draws.Draws.standard_error`. The tail is a quantile and has an
interval of its own. Where a sampler computed figures instead of drawing them, these are taken, with no error.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd

from gbce._numerics import NORMAL_975, SHARE_ROUNDING, TINY, share_and_error, weighted_quantile
from gbce.base import Array
from gbce.draws import Draws, ExactFigures, Points
from gbce.space import Centre, Places, Space

__all__ = [
    "FIGURE_TITLES",
    "SEVERAL_MODELS",
    "Figure",
    "FigureName",
    "PoolGeometry",
    "figures",
    "first_figures",
    "importance",
    "most_moved",
    "stability",
    "success_probability",
    "tail",
]

FIGURE_TITLES = {  # in summaries and pictures; a figure that is not here goes by its name
    "success_probability": "success probability",
    "tail": "tail loss",
    "stability": "stability (total variance)",
    "expected_loss": "expected loss",
    "expected_distance": "expected distance",
    "log_evidence": "log evidence",
}
SEVERAL_MODELS = ("all", "half")  # in the brackets of figures under all models, and under at least half of them
_NO_VARIANCE = 1e-9  # of the influence of a quantile: what is less is rounding, and nearly all losses are equal


class FigureName(NamedTuple):
    """What a figure is called: what it measures, and of several models whose it is, where it is not the first one's."""

    measure: str
    model: str = ""

    def __str__(self) -> str:
        return f"{self.measure}[{self.model}]" if self.model else self.measure


class Figure(NamedTuple):
    """A value and its Monte Carlo standard error; a 95% interval, where that is not 1.96 errors on either side."""

    value: float
    se: float
    interval: tuple[float, float] | None = None

    def entries(self, name: str) -> dict[str, float]:
        """Return the lines of a table: the value under its name, its error, and the ends of its own interval."""
        lines = {name: self.value, f"{name}_se": self.se}
        if self.interval is not None:
            lines |= {f"{name}_low": self.interval[0], f"{name}_high": self.interval[1]}
        return lines


def expectation(draws: Draws, values: Array, unit: float = 0.0) -> Figure:
    """Posterior mean of ``values`` given for the pool, ``(N,)``; unseen mass may change it by its share of a unit."""
    values = np.where(draws.pool_weights > 0, values, 0.0)  # what has no weight does not count, even if it is infinite
    mean = float(draws.mean(values))
    if not np.isfinite(mean):
        return Figure(mean, np.nan)
    return Figure(mean, max(float(draws.standard_error(values - mean)), draws.unseen * unit))


def success_probability(draws: Draws, reached: Array) -> Figure:
    """SP: probability that a draw reaches the target, from verdicts ``(N,)`` on the pool."""
    figure = expectation(draws, reached.astype(float))
    drawn = reached[draws.index]
    if drawn.any() and not drawn.all():
        return figure
    share, se = share_and_error(np.array(float(drawn.all())), _n_independent(draws))
    return Figure(float(share), float(se))


def tail(draws: Draws, loss: Array, alpha: float) -> Figure:
    """Tail: the loss that a draw stays below with probability ``1 - alpha``, from losses ``(N,)`` on the pool.

    Its interval has two order statistics as its ends: the losses between which the quantile must lie if the share of
    draws below it is known up to its error (Woodruff, 1952). No density has to be estimated, and where many losses are
    equal the interval reaches to the next one if the share leaves that open. The standard error is that of the longer
    side, so that 1.96 of it on either side cover the interval.
    """
    own, level = loss[draws.index], 1.0 - alpha
    t = weighted_quantile(own, draws.weights, level)
    error = NORMAL_975 * _share_error(draws, loss, t, level)
    low = weighted_quantile(own, draws.weights, max(level - error, 0.0))
    # the first loss with more than that share at or below it: a share that is just attained does not rule it out
    high = weighted_quantile(own, draws.weights, min(level + error + SHARE_ROUNDING, 1.0))
    longer = max((high - t) if high > t else 0.0, (t - low) if t > low else 0.0)
    return Figure(t, max(longer / NORMAL_975, draws.unseen * _unit_of_loss(draws)), (low, high))


def _unit_of_loss(draws: Draws) -> float:
    """Loss over which the posterior's density changes by a factor e: the scale on which losses of draws differ."""
    eta = draws.rungs[-1]
    return 1.0 / eta if eta > 0 else 0.0


def _share_error(draws: Draws, loss: Array, t: float, level: float) -> float:
    """Error of the share of draws below the quantile ``t``, were it a plain share of ``level``.

    Draws equal to ``t`` are split so that exactly ``level`` lies below. Split ones differ little from that level and
    would make the error look small; so it only says how many draws the pool is worth, and the error is that of a share
    of so many.
    """
    own = loss[draws.index]
    less, equal = float(draws.weights @ (own < t)), float(draws.weights @ (own == t))
    split = min(max((level - less) / equal, 0.0), 1.0)
    influence = (loss < t) + split * (loss == t) - level
    variance = float(draws.pool_weights @ np.square(influence))
    if variance > _NO_VARIANCE:
        worth = variance / max(float(draws.standard_error(influence)) ** 2, TINY)
    else:  # nearly all draws are equal to t
        worth = _n_independent(draws)
    return float(np.sqrt(level * (1.0 - level) / max(worth, 1.0)))


def _n_independent(draws: Draws) -> float:
    """Return how many independent draws have the same error: of the pool, and of picking draws from it."""
    return 1.0 / (1.0 / draws.ess + draws.resampled / len(draws) + draws.unseen**2)


def stability(draws: Draws, u: Places) -> Figure:
    """Stability: trace of the covariance of the draws, from the pool ``N`` in units of each feature's scale."""
    in_pool = np.bincount(draws.index, weights=draws.weights, minlength=len(u))
    squares = u.squares_from(Centre(draws.mean(u.axes), u.shares(in_pool)))
    # n - 1 in the divisor when the weights are equal
    correction = 1.0 / max(1.0 - float(np.square(draws.weights).sum()), TINY)
    value = float(draws.mean(squares)) * correction
    unit = float(draws.prior_weights @ squares)
    return Figure(value, max(float(draws.standard_error(squares - value)), draws.unseen * unit))


def importance(draws: Draws, space: Space, x0: Array) -> pd.DataFrame:
    """VarImp: expected size of each feature's change, with its error and the prior's own value beside it.

    For a category it is the probability of a change.
    """
    if draws.exact is not None:
        change, se = draws.exact.change, np.zeros(len(space))
    elif draws.record is not None:
        change, se = draws.record.change, draws.record.change_se
    else:
        size, read = space.change(draws.pool.x, x0), draws.read
        change = read.mean(size)
        steps = np.array([float(feature.discrete) for feature in space.features])
        unit = np.where(np.isin(np.arange(len(space)), space.free(x0)), np.maximum(draws.prior_change, steps), 0.0)
        se = np.maximum(read.standard_error(size - change), read.unseen * unit)
    table = {"change": change, "se": se, "prior": draws.prior_change}
    with np.errstate(invalid="ignore", divide="ignore"):
        table["ratio"] = np.where(draws.prior_change > 0, change / draws.prior_change, 1.0)
    return pd.DataFrame(table, index=pd.Index(space.names, name="feature"))


def most_moved(table: pd.DataFrame, n: int) -> list[str]:
    """Return at most ``n`` free features of an importance table that differ most from the prior, in column order."""
    gap = (table["ratio"] - 1.0).abs()[table["prior"] > 0].sort_values(ascending=False, kind="stable")
    kept = set(gap.index[:n])
    return [name for name in table.index if name in kept]


class PoolGeometry(NamedTuple):
    """The pool's points in units of each feature's scale, and their distances ``(N,)`` from the row."""

    places: Places
    distance: Array

    @classmethod
    def of(cls, pool: Points, space: Space, x0: Array) -> "PoolGeometry":
        """Measure a pool: once for all weights that it may get."""
        return cls(space.embed(pool.x), space.distance(pool.x, x0))


def first_figures(draws: Draws, geometry: PoolGeometry, alpha: float) -> dict[str, Figure]:
    """Figures of a posterior by name, under the first model."""
    pool, exact = draws.pool, draws.exact
    if exact is not None:
        return {
            "success_probability": _exact_success(exact, 0),
            "tail": _exact_tail(exact, 0, alpha),
            "stability": Figure(exact.stability, 0.0),
            "expected_loss": Figure(exact.expected_loss, 0.0),
            "expected_distance": expectation(draws, geometry.distance),
        }
    return {
        "success_probability": success_probability(draws, pool.reached[:, 0]),
        "tail": tail(draws, pool.loss[:, 0], alpha),
        "stability": stability(draws, geometry.places),
        "expected_loss": expectation(draws, pool.loss[:, 0], _unit_of_loss(draws)),
        "expected_distance": expectation(draws, geometry.distance, float(draws.prior_weights @ geometry.distance)),
    }


def _exact_success(exact: ExactFigures, k: int) -> Figure:
    """Success probability of model ``k``, of all (at K) or of half of them, as it was computed."""
    return Figure(float(exact.success[k]), float(exact.success_se[k]))


def _exact_tail(exact: ExactFigures, k: int, alpha: float) -> Figure:
    """Tail of model ``k`` as it was computed; between two levels that were kept, with both as its interval."""
    value, low, high = exact.tail(k, alpha)
    return Figure(value, (high - low) / NORMAL_975 if high > low else 0.0, (low, high))


def figures(draws: Draws, space: Space, x0: Array, alpha: float, models: tuple[str, ...]) -> dict[FigureName, Figure]:
    """All figures of a posterior by name; of several models, those of each, and success under all and half of them."""
    if draws.record is not None:
        return {
            FigureName(measure, model): Figure(value, se, None if low is None or high is None else (low, high))
            for measure, model, value, se, low, high in draws.record.figures
        }
    draws = draws.read
    pool, first = draws.pool, first_figures(draws, PoolGeometry.of(draws.pool, space, x0), alpha)
    table = {FigureName(name): figure for name, figure in first.items()}
    if len(models) > 1 and draws.exact is not None:
        for k, name in enumerate(models):
            table[FigureName("success_probability", name)] = _exact_success(draws.exact, k)
            table[FigureName("tail", name)] = _exact_tail(draws.exact, k, alpha)
        for k, name in enumerate(SEVERAL_MODELS, start=len(models)):
            table[FigureName("success_probability", name)] = _exact_success(draws.exact, k)
    elif len(models) > 1:
        for k, name in enumerate(models):
            table[FigureName("success_probability", name)] = success_probability(draws, pool.reached[:, k])
            table[FigureName("tail", name)] = tail(draws, pool.loss[:, k], alpha)
        share = pool.reached.mean(axis=1)
        for name, enough in zip(SEVERAL_MODELS, (share == 1, share >= 0.5), strict=True):
            table[FigureName("success_probability", name)] = success_probability(draws, enough)
    return table
