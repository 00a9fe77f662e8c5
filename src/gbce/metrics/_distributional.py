"""Figures of the whole posterior, each with its Monte Carlo error (Section 2.5.3 of the paper).

Each figure is computed from the draws; its error follows from its influence function on the pool (the delta method),
see :meth:`gbce.draws.Draws.standard_error`. The tail is a quantile and has its own interval. Figures that a sampler
computed exactly have no error. Also here: figures along eta, and how models agree on a point or on the draws.
"""

from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import stdtr

from gbce._numerics import (
    ENOUGH_ESS,
    NORMAL_975,
    ROUNDS_TO_ZERO,
    TINY,
    WIDE_ROUNDING,
    share_and_error,
    weighted_quantile,
)
from gbce._validation import printable
from gbce.base import Array
from gbce.draws import Draws, Points
from gbce.metrics._pointwise import costs
from gbce.posterior import Mixture
from gbce.space import Centre, Places, Space

FIGURE_TITLES = {  # in summaries and plots; other figures go by their names
    "success_probability": "success probability",
    "tail": "tail loss",
    "stability": "stability (total variance)",
    "expected_loss": "expected loss",
    "expected_cost": "expected cost",
    "expected_distance": "expected distance",
    "log_evidence": "log evidence",
}
SEVERAL_MODELS = ("all", "half")  # suffixes of figures under all models, and under at least half of them
# The path from the prior to eta; both chosen by hand for a smooth curve.
_N_ETAS = 40
_SMALLEST_ETA = 1e-3  # first step from the prior, relative to eta
FEWEST_MODELS = 4  # with fewer, Student's t has at most two degrees of freedom and no finite variance
# The sentence on disagreement names a difference only if it is clear and large; chosen by hand, and nothing else
# depends on these.
_CLEAR = 3.0  # standard errors: by chance alone 0.3% of differences are larger
_LARGE = 0.2  # in units of the feature's scale, or as a probability

# --- figures of the posterior ----------------------------------------------------------------------------------------


class FigureName(NamedTuple):
    """Name of a figure: what it measures and, unless it is the first model's, of which model."""

    measure: str
    model: str = ""

    def __str__(self) -> str:
        return f"{self.measure}[{self.model}]" if self.model else self.measure


class Figure(NamedTuple):
    """A value and its Monte Carlo standard error; a 95% interval if it is not the value plus or minus 1.96 errors."""

    value: float
    se: float
    interval: tuple[float, float] | None = None

    def entries(self, name: str) -> dict[str, float]:
        """Return table entries: the value under its name, its error, and the ends of its own interval."""
        lines = {name: self.value, f"{name}_se": self.se}
        if self.interval is not None:
            lines |= {f"{name}_low": self.interval[0], f"{name}_high": self.interval[1]}
        return lines


def expectation(draws: Draws, values: Array, unit: float = 0.0) -> Figure:
    """Return the posterior mean of pool values ``(N,)``; unseen mass may shift it by that mass times ``unit``."""
    values = np.where(draws.pool_weights > 0, values, 0.0)  # infinite values may have no weight
    mean = float(draws.mean(values))
    if not np.isfinite(mean):
        return Figure(mean, np.nan)
    return Figure(mean, max(float(draws.standard_error(values - mean)), draws.unseen * unit))


def success_probability(draws: Draws, reached: Array) -> Figure:
    """Return SP, the probability that a draw reaches the target, from verdicts ``(N,)`` on the pool."""
    figure = expectation(draws, reached.astype(float))
    drawn = reached[draws.index]
    if drawn.any() and not drawn.all():
        return figure
    share, se = share_and_error(np.array(float(drawn.all())), _count_independent(draws))
    return Figure(float(share), float(se))


def tail(draws: Draws, loss: Array, alpha: float) -> Figure:
    """Return the ``1 - alpha`` quantile of losses ``(N,)`` on the pool; the error is that of the longer side."""
    # between the order statistics given by the error of the share below the quantile (Woodruff, 1952): no density
    own, level = loss[draws.index], 1.0 - alpha
    t = weighted_quantile(own, draws.weights, level)
    error = NORMAL_975 * _estimate_share_error(draws, loss, t, level)
    low = weighted_quantile(own, draws.weights, max(level - error, 0.0))
    # the first loss with more than that share at or below it: equality does not exclude it
    high = weighted_quantile(own, draws.weights, min(level + error + WIDE_ROUNDING, 1.0))
    longer = max((high - t) if high > t else 0.0, (t - low) if t > low else 0.0)
    return Figure(t, max(longer / NORMAL_975, draws.unseen * _compute_loss_unit(draws)), (low, high))


def _compute_loss_unit(draws: Draws) -> float:
    """Return the loss over which the posterior density changes by a factor e, the scale of the draws' losses."""
    eta = draws.rungs[-1]
    return 1.0 / eta if eta > 0 else 0.0


def _estimate_share_error(draws: Draws, loss: Array, t: float, level: float) -> float:
    """Estimate the error of the share of draws below the quantile ``t``, as of a plain share of ``level``."""
    # Draws equal to t are split so that exactly this share lies below. Split ones hardly differ from it and would make
    # the error look small, so they only determine how many independent draws the pool is worth.
    own = loss[draws.index]
    less, equal = float(draws.weights @ (own < t)), float(draws.weights @ (own == t))
    split = min(max((level - less) / equal, 0.0), 1.0)
    influence = (loss < t) + split * (loss == t) - level
    variance = float(draws.pool_weights @ np.square(influence))
    if variance > WIDE_ROUNDING:
        worth = variance / max(float(draws.standard_error(influence)) ** 2, TINY)
    else:  # nearly all losses equal t
        worth = _count_independent(draws)
    return float(np.sqrt(level * (1.0 - level) / max(worth, 1.0)))


def _count_independent(draws: Draws) -> float:
    """Return the equivalent number of independent draws, with the errors of the pool and of resampling."""
    return 1.0 / (1.0 / draws.ess + draws.resampled / len(draws) + draws.unseen**2)


def stability(draws: Draws, u: Places) -> Figure:
    """Return the trace of the covariance of the draws, from the pool in units of each feature's scale."""
    in_pool = np.bincount(draws.index, weights=draws.weights, minlength=len(u))
    squares = u.squares_from(Centre(draws.mean(u.axes), u.shares(in_pool)))
    # divisor n - 1 if the weights are equal
    correction = 1.0 / max(1.0 - float(np.square(draws.weights).sum()), TINY)
    value = float(draws.mean(squares)) * correction
    unit = float(draws.prior_weights @ squares)
    return Figure(value, max(float(draws.standard_error(squares - value)), draws.unseen * unit))


def importance(draws: Draws, space: Space, x0: Array) -> pd.DataFrame:
    """Return VarImp, the expected size of each feature's change (a probability for a category), and the prior's."""
    if draws.exact is not None:
        change, se = draws.exact.change, np.zeros(len(space))
    elif draws.record is not None:
        change, se = draws.record.change, draws.record.change_se
    else:
        size, read = space.change(draws.pool.x, x0), draws.read
        change = read.mean(size)
        se = np.maximum(read.standard_error(size - change), read.unseen * _find_change_unit(draws, space, x0, size))
    table = {"change": change, "se": se, "prior": draws.prior_change}
    with np.errstate(invalid="ignore", divide="ignore"):
        table["ratio"] = np.where(draws.prior_change > 0, change / draws.prior_change, 1.0)
    return pd.DataFrame(table, index=pd.Index(space.names, name="feature"))


def _find_change_unit(draws: Draws, space: Space, x0: Array, size: Array) -> Array:
    """Return how far each feature moves where mass is missed ``(d,)``: the prior's mean change, given that it moves."""
    moved, weights = size > 0, draws.read.prior_weights
    # where all points move, that is the mean change, of which a better estimate is known
    given = np.where(moved.all(axis=0), 0.0, (weights @ size) / np.maximum(weights @ moved, TINY))
    steps = np.array([float(feature.discrete) for feature in space.features])
    unit = np.maximum(np.maximum(draws.prior_change, steps), given)
    return np.where(np.isin(np.arange(len(space)), space.free(x0)), unit, 0.0)


def most_moved(table: pd.DataFrame, n: int) -> list[str]:
    """Return up to ``n`` free features of an importance table that differ most from the prior, in column order."""
    difference = (table["ratio"] - 1.0).abs()[table["prior"] > 0].sort_values(ascending=False, kind="stable")
    kept = set(difference.index[:n])
    return [name for name in table.index if name in kept]


class PoolGeometry(NamedTuple):
    """The pool's points in units of each feature's scale, with their costs and distances ``(N,)`` from the row."""

    places: Places
    cost: Array
    distance: Array

    @classmethod
    def of(cls, pool: Points, space: Space, x0: Array) -> "PoolGeometry":
        """Measure a pool, once for all weights."""
        return cls(space.embed(pool.x), costs(space, pool.x, x0, "l1"), space.distance(pool.x, x0))


def first_figures(draws: Draws, geometry: PoolGeometry, alpha: float) -> dict[str, Figure]:
    """Return the figures of a posterior under the first model, by name."""
    pool, exact = draws.pool, draws.exact
    return {
        "success_probability": _success(draws, 0, pool.reached[:, 0]),
        "tail": _tail(draws, 0, alpha),
        "stability": stability(draws, geometry.places) if exact is None else Figure(exact.stability, 0.0),
        "expected_loss": expectation(draws, pool.loss[:, 0], _compute_loss_unit(draws))
        if exact is None
        else Figure(exact.expected_loss, 0.0),
        "expected_cost": expectation(draws, geometry.cost, float(draws.prior_weights @ geometry.cost)),
        "expected_distance": expectation(draws, geometry.distance, float(draws.prior_weights @ geometry.distance)),
    }


def _success(draws: Draws, k: int, reached: Array) -> Figure:
    """Return the success probability of model ``k``, of all models (K) or of half of them (K + 1)."""
    if draws.exact is None:
        return success_probability(draws, reached)
    return Figure(float(draws.exact.success[k]), float(draws.exact.success_se[k]))


def _tail(draws: Draws, k: int, alpha: float) -> Figure:
    """Return the tail of model ``k``; an exact one between two stored levels has both as its interval."""
    if draws.exact is None:
        return tail(draws, draws.pool.loss[:, k], alpha)
    value, low, high = draws.exact.tail(k, alpha)
    return Figure(value, (high - low) / NORMAL_975 if high > low else 0.0, (low, high))


def figures(draws: Draws, space: Space, x0: Array, alpha: float, models: tuple[str, ...]) -> dict[FigureName, Figure]:
    """Return all figures by name; with several models, also those of each, and success under all and half of them."""
    if draws.record is not None:
        recorded = {
            FigureName(measure, model): Figure(value, se, None if low is None or high is None else (low, high))
            for measure, model, value, se, low, high in draws.record.figures
        }
        # files of versions that did not record the cost
        return recorded | {
            name: expectation(draws, costs(space, draws.pool.x, x0, "l1"))
            for name in {FigureName("expected_cost")} - recorded.keys()
        }
    draws = draws.read
    pool, first = draws.pool, first_figures(draws, PoolGeometry.of(draws.pool, space, x0), alpha)
    table = {FigureName(name): figure for name, figure in first.items()}
    if len(models) > 1:
        share = pool.reached.mean(axis=1)
        for k, (name, reached) in enumerate(zip(models, pool.reached.T, strict=True)):
            table[FigureName("success_probability", name)] = _success(draws, k, reached)
            table[FigureName("tail", name)] = _tail(draws, k, alpha)
        for k, (name, reached) in enumerate(zip(SEVERAL_MODELS, (share == 1, share >= 0.5), strict=True)):
            table[FigureName("success_probability", name)] = _success(draws, len(models) + k, reached)
    return table


# --- eta path --------------------------------------------------------------------------------------------------------


def eta_path(
    draws: Draws, mixture: Mixture, space: Space, x0: Array, alpha: float, etas: Array | None = None
) -> pd.DataFrame:
    """Return one row of figures per eta; if too few points are effective, only their number."""
    if etas is None:
        etas = (
            np.array([0.0, *np.geomspace(_SMALLEST_ETA, 1.0, _N_ETAS) * mixture.eta])
            if mixture.eta > 0
            else np.zeros(1)
        )
    geometry = PoolGeometry.of(draws.pool, space, x0)
    lines = [_compute_path_row(draws.reweigh(replace(mixture, eta=float(eta))), geometry, alpha) for eta in etas]
    return pd.DataFrame(lines, index=pd.Index(etas, name="eta", dtype=float))


def _compute_path_row(draws: Draws, geometry: PoolGeometry, alpha: float) -> dict[str, float]:
    """Return the figures at one eta, NaN if the effective sample size is too small."""
    figures = first_figures(draws, geometry, alpha)
    figures["log_evidence"] = Figure(draws.log_evidence, draws.log_evidence_se)
    carried = draws.ess >= ENOUGH_ESS
    line = {key: value for name, figure in figures.items() for key, value in figure.entries(name).items()}
    return (line if carried else dict.fromkeys(line, np.nan)) | {"ess": draws.ess}


# --- probability under another model ---------------------------------------------------------------------------------


def next_model_probability(outputs: Array, weights: Array, accepted: tuple[float, float]) -> Array:
    """Return the probability ``(...)`` that one more model's output is accepted, given outputs ``(..., K)``.

    The outputs at a point count as a sample from a normal distribution with unknown mean and variance, so the next one
    has a Student t predictive distribution. Unlike the share of models, it is below one even if all agree. Unequal
    ``weights`` ``(K,)`` reduce the effective sample size; ``accepted`` are the lowest and the highest accepted output,
    or infinite. Where all models give the same output, so does the next one.

    >>> outputs = np.array([[0.4, 0.6, 0.55, 0.65], [0.8, 0.82, 0.79, 0.81]])
    >>> next_model_probability(outputs, np.full(4, 0.25), (0.5, np.inf)).round(2)
    array([0.65, 1.  ])
    """
    square = float(np.square(weights).sum())
    mean = outputs @ weights
    variance = np.square(outputs - mean[..., None]) @ weights / (1.0 - square)
    # n = 1 / sum(w^2) models of equal weight: scale s * sqrt(1 + 1 / n), n - 1 degrees of freedom
    scale = np.maximum(np.sqrt(variance * (1.0 + square)), np.finfo(float).tiny)
    df, (low, high) = 1.0 / square - 1.0, accepted
    with np.errstate(over="ignore"):
        below, above = stdtr(df, (low - mean) / scale), stdtr(df, (mean - high) / scale)
    counted = outputs[..., weights > 0]
    least, most = counted.min(axis=-1), counted.max(axis=-1)
    return np.where(least == most, (low <= least) & (most <= high), np.clip(1.0 - below - above, 0.0, 1.0))


# --- disagreement between models -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Disagreement:
    """How much models disagree among the draws of a posterior, and where.

    Parameters
    ----------
    overall : Series
        ``differ``: probability that the verdicts on a draw are not all the same. ``pair``: probability that two
        different models, picked by their weights, give different verdicts. ``spread``: mean over draws of the standard
        deviation between the models' outputs, divided by the standard deviation of the first model's output among the
        draws. ``differ_se`` and ``pair_se``: Monte Carlo errors.
    pairs : DataFrame
        By pair of models: ``differ`` and ``se``.
    where : DataFrame
        By feature that can move, the largest difference first: mean value on draws on which the models ``agree`` and on
        which they ``differ``, the ``difference`` in units of the feature's scale, and its error ``se``. For a category,
        the shares of the ``level`` whose share differs most.
    sentence : str
        A summary in words.

    Examples
    --------
    >>> import gbce
    >>> data = np.random.default_rng(0).normal(size=(200, 2))
    >>> models = [lambda x: x[:, 0], lambda x: x[:, 0] + np.maximum(x[:, 1], 0)]
    >>> explainer = gbce.Explainer(models, data, space=gbce.Space.real(2))
    >>> found = explainer.explain([0.0, 0.0], gbce.AtLeast(1.0), rules=[], seed=0).disagreement()
    >>> found.where.index[0], found.pairs.shape
    ('x2', (1, 2))
    """

    overall: pd.Series
    pairs: pd.DataFrame
    where: pd.DataFrame
    sentence: str

    def __str__(self) -> str:
        return printable(self.sentence)


def disagreement(draws: Draws, space: Space, free: Array, models: tuple[str, ...], weights: Array) -> Disagreement:
    """Compare models with positive ``weights`` ``(K,)`` on the draws; the features ``free`` ``(m,)`` can move."""
    draws = draws.read
    counted, reached, differ = _compare_verdicts(draws, weights)
    outputs = draws.pool.outputs[:, counted]
    share = weights[counted] / weights[counted].sum()
    overall = success_probability(draws, differ)
    yes = reached @ share
    # without pairs of a model with itself
    pair = expectation(draws, 2.0 * yes * (1.0 - yes) / max(1.0 - float(np.square(share).sum()), TINY))
    first = outputs[draws.index, 0]
    own = float(np.sqrt(draws.weights @ np.square(first - draws.weights @ first)))
    between = draws.mean(np.sqrt(np.square(outputs - (outputs @ share)[:, None]) @ share))
    names = [models[k] for k in counted]
    pairs: dict[Any, Any] = {
        (names[a], names[b]): success_probability(draws, reached[:, a] != reached[:, b])
        for a, b in combinations(range(len(names)), 2)
    }
    where = _locate_disagreement(draws, space, free, differ)
    return Disagreement(
        overall=pd.Series(
            {
                "differ": overall.value,
                "differ_se": overall.se,
                "pair": pair.value,
                "pair_se": pair.se,
                "spread": float(between) / own if own > 0 else float("nan"),
            },
            name="value",
        ),
        pairs=pd.DataFrame(
            [(figure.value, figure.se) for figure in pairs.values()],
            columns=["differ", "se"],
            index=pd.MultiIndex.from_tuples(list(pairs), names=["model", "other"]),
        ),
        where=where,
        sentence=_write_sentence(overall.value, bool(reached[draws.index].all()), where),
    )


def disagreement_sentence(draws: Draws, space: Space, free: Array, weights: Array) -> str:
    """Return the summary sentence alone, without the table of pairs."""
    draws = draws.read
    _, reached, differ = _compare_verdicts(draws, weights)
    where = _locate_disagreement(draws, space, free, differ)
    return _write_sentence(float(draws.mean(differ.astype(float))), bool(reached[draws.index].all()), where)


def _compare_verdicts(draws: Draws, weights: Array) -> tuple[Array, Array, Array]:
    """Return the models that count ``(k,)``, their verdicts on the pool ``(N, k)``, and where these differ ``(N,)``."""
    counted = np.flatnonzero(weights > 0)
    if len(counted) < 2:
        raise ValueError(
            "disagreement needs at least two models with weights above zero: give gbce.Explainer a list of models"
        )
    reached = draws.pool.reached[:, counted]
    return counted, reached, np.asarray(reached.any(axis=1) & ~reached.all(axis=1))


def _locate_disagreement(draws: Draws, space: Space, free: Array, differ: Array) -> pd.DataFrame:
    """Compare draws with and without disagreement by feature; empty if all draws are of one kind."""
    columns = ["difference", "se", "agree", "differ", "level"]
    among_draws = differ[draws.index]
    if len(free) == 0 or among_draws.all() or not among_draws.any():
        return pd.DataFrame(columns=columns, index=pd.Index([], name="feature", dtype=object))
    lines = {space.names[j]: _compare_feature(draws, space, int(j), differ) for j in free}
    table = pd.DataFrame.from_dict(lines, orient="index", columns=columns).rename_axis("feature")
    # next to strings, pandas 3 would turn None into a missing string, NaN
    table["level"] = pd.Series([line[-1] for line in lines.values()], index=table.index, dtype=object)
    order = table["difference"].abs().fillna(-1.0).to_numpy(dtype=float).argsort(kind="stable")[::-1]
    return table.iloc[order]


def _compare_feature(draws: Draws, space: Space, j: int, differ: Array) -> tuple[Any, ...]:
    """Compare one feature between draws with and without disagreement: a row of the table."""
    feature, column = space.features[j], draws.pool.x[:, j]
    known = ~np.isnan(column)
    if not feature.unordered:
        line = _compare_means(draws, np.where(known, column, 0.0), known, differ)
        return (line[0] / feature.scale, line[1] / feature.scale, *line[2:], None)
    levels = [
        (_compare_means(draws, (column == code).astype(float), known, differ), level)
        for code, level in enumerate(feature.levels or ())
    ]
    line, level = max(levels, key=lambda found: abs(np.nan_to_num(found[0][0])))
    return (*line, level)


def _compare_means(draws: Draws, values: Array, known: Array, differ: Array) -> tuple[float, float, float, float]:
    """Compare means of known values ``(N,)`` with and without disagreement: difference, error, both means."""
    means, influence = [], np.zeros(len(values))
    for sign, group in ((-1.0, ~differ & known), (1.0, differ & known)):
        mass = float(draws.mean(group.astype(float)))
        if mass == 0:
            return (float("nan"),) * 4
        mean = float(draws.mean(np.where(group, values, 0.0))) / mass
        influence += sign * np.where(group, values - mean, 0.0) / mass
        means.append(mean)
    return means[1] - means[0], float(draws.standard_error(influence)), means[0], means[1]


def _write_sentence(differ: float, all_reach: bool, where: pd.DataFrame) -> str:
    """Summarise the disagreement and where it is largest."""
    if differ == 0:
        return "the models agree on every draw" + (": all reach the target" if all_reach else "")
    percent = "less than 1" if differ < ROUNDS_TO_ZERO else f"{100 * differ:.0f}"
    text = f"the models disagree on {percent}% of the draws"
    if len(where) == 0:
        return text
    name, top = where.index[0], where.iloc[0]
    size = abs(float(top["difference"]))
    if not (size > _LARGE and size > _CLEAR * float(top["se"])):
        return f"{text}, about equally everywhere"
    if top["level"] is not None:
        return f"{text}, mostly where {name} is {'' if top['difference'] > 0 else 'not '}{top['level']}"
    return f"{text}, mostly where {name} is {'high' if top['difference'] > 0 else 'low'}"
