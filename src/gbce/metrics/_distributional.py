"""Figures for the whole posterior, each with its Monte Carlo error (Section 2.5.3 of the paper).

Each figure is read off the draws; its error follows from the figure's influence function on the pool the draws were
picked from (the delta method), see :meth:`gbce.draws.Draws.standard_error`.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd

from gbce._weights import Array, weighted_quantile
from gbce.draws import Draws, Points
from gbce.metrics._pointwise import binomial
from gbce.space import Centre, Places, Space

__all__ = [
    "Figure",
    "Measured",
    "figures",
    "first_figures",
    "importance",
    "most_moved",
    "stability",
    "success_probability",
    "tail",
]


class Figure(NamedTuple):
    """A value and its Monte Carlo standard error."""

    value: float
    se: float


def expectation(draws: Draws, values: Array) -> Figure:
    """Posterior mean of ``values`` given for the pool, ``(N,)``."""
    values = np.where(draws.pool_weights > 0, values, 0.0)  # what has no weight does not count, even if it is infinite
    mean = float(draws.mean(values))
    if not np.isfinite(mean):
        return Figure(mean, np.nan)
    return Figure(mean, float(draws.standard_error(values - mean)))


def success_probability(draws: Draws, reached: Array) -> Figure:
    """SP: probability that a draw reaches the target, from verdicts ``(N,)`` on the pool."""
    figure = expectation(draws, reached.astype(float))
    drawn = reached[draws.index]
    if drawn.any() and not drawn.all():
        return figure
    n = draws.ess if not draws.resampled else 1.0 / (1.0 / draws.ess + 1.0 / len(draws))
    return Figure(*map(float, binomial(np.array(float(drawn.all())), n)))


def tail(draws: Draws, loss: Array, alpha: float) -> Figure:
    """Tail: the loss that a draw stays below with probability ``1 - alpha``, from losses ``(N,)`` on the pool.

    Its error is that of the distribution function there, carried over to the loss by two more quantiles (Woodruff,
    1952), so that no density has to be estimated.
    """
    own = loss[draws.index]
    t = weighted_quantile(own, draws.weights, 1 - alpha)
    below = float(draws.standard_error((loss <= t) - (1 - alpha)))
    upper = weighted_quantile(own, draws.weights, min(1 - alpha + below, 1.0))
    lower = weighted_quantile(own, draws.weights, max(1 - alpha - below, 0.0))
    return Figure(t, 0.5 * (upper - lower))


def stability(draws: Draws, u: Places) -> Figure:
    """Stability: trace of the covariance of the draws, from the pool ``N`` in units of each feature's scale."""
    in_pool = np.bincount(draws.index, weights=draws.weights, minlength=len(u))
    squares = u.squares_from(Centre(draws.mean(u.axes), u.shares(in_pool)))
    # n - 1 in the divisor when the weights are equal
    correction = 1.0 / max(1.0 - float(np.square(draws.weights).sum()), 1e-300)
    value = float(draws.mean(squares)) * correction
    return Figure(value, float(draws.standard_error(squares - value)))


def importance(draws: Draws, space: Space, x0: Array) -> pd.DataFrame:
    """VarImp: expected size of each feature's change, with its error and the prior's own value beside it.

    For a category it is the probability of a change.
    """
    size = space.change(draws.pool.x, x0)
    change = draws.mean(size)
    se = draws.standard_error(size - change)
    table = {"change": change, "se": se, "prior": draws.prior_change}
    with np.errstate(invalid="ignore", divide="ignore"):
        table["ratio"] = np.where(draws.prior_change > 0, change / draws.prior_change, 1.0)
    return pd.DataFrame(table, index=pd.Index(space.names, name="feature"))


def most_moved(table: pd.DataFrame, n: int) -> list[str]:
    """Return at most ``n`` free features of an importance table that differ most from the prior, in column order."""
    gap = (table["ratio"] - 1.0).abs()[table["prior"] > 0].sort_values(ascending=False, kind="stable")
    kept = set(gap.index[:n])
    return [name for name in table.index if name in kept]


class Measured(NamedTuple):
    """The pool's points in units of each feature's scale, and their distances ``(N,)`` from the row."""

    places: Places
    distance: Array

    @classmethod
    def of(cls, pool: Points, space: Space, x0: Array) -> "Measured":
        """Measure a pool: once for all weights that it may get."""
        return cls(space.embed(pool.x), space.distance(pool.x, x0))


def first_figures(draws: Draws, measured: Measured, alpha: float) -> dict[str, Figure]:
    """Figures of a posterior by name, under the first model."""
    pool = draws.pool
    return {
        "success_probability": success_probability(draws, pool.reached[:, 0]),
        "tail": tail(draws, pool.loss[:, 0], alpha),
        "stability": stability(draws, measured.places),
        "expected_loss": expectation(draws, pool.loss[:, 0]),
        "expected_distance": expectation(draws, measured.distance),
    }


def figures(draws: Draws, space: Space, x0: Array, alpha: float, models: tuple[str, ...]) -> dict[str, Figure]:
    """All figures of a posterior by name; those of one model out of several carry its name in brackets."""
    pool, table = draws.pool, first_figures(draws, Measured.of(draws.pool, space, x0), alpha)
    if len(models) > 1:
        for k, name in enumerate(models):
            table[f"success_probability[{name}]"] = success_probability(draws, pool.reached[:, k])
            table[f"tail[{name}]"] = tail(draws, pool.loss[:, k], alpha)
        share = pool.reached.mean(axis=1)
        table["success_probability[all]"] = success_probability(draws, share == 1)
        table["success_probability[half]"] = success_probability(draws, share >= 0.5)
    return table
