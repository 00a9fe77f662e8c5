"""Figures of single points: robustness and plausibility (Rb and Plu of the paper), the frontier, survival of refits.

Loss and distance (L_pt and D_pt) need no code of their own: the loss comes with every evaluated point, and the
distance is Euclidean in units of each feature's scale.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from gbce._numerics import JUDGING, WEIGHT_ROUNDING, share_and_error, stream, wilson
from gbce.base import Array, Query
from gbce.budget import BudgetSpentError
from gbce.draws import Draws
from gbce.metrics._noise import evaluate_under_noise, offsets
from gbce.posterior import GibbsPosterior
from gbce.space import Places, Space

__all__ = [
    "POINT_FIGURES",
    "Neighbours",
    "PointFigure",
    "costs",
    "evaluate_figures",
    "frontier_table",
    "near_front",
    "pareto_front",
    "positions_at_levels",
    "robustness",
    "survival_table",
    "unknown_errors",
    "unknown_figures",
]

_FEWEST_PERTURBED = 10  # below this many copies robustness is not reported: its error would be up to 0.16
_DIGITS = 12  # of a printed reliability: beyond them, sums of weights are rounding error

# --- figures of one point --------------------------------------------------------------------------------------------


class PointFigure(NamedTuple):
    """A figure of single points, shown in tables, files and summaries beside loss, distance and verdict.

    ``evaluate(query, posterior, x, neighbours)`` takes points ``(k, d)`` and returns values ``(k,)`` and their Monte
    Carlo errors ``(k,)``, or ``None``; ``has_error`` tells which. ``meaning`` is for the legend of a summary.
    """

    name: str
    meaning: str
    evaluate: Callable[[Query, GibbsPosterior, Array, "Neighbours"], tuple[Array, Array | None]]
    has_error: bool = False


class PointValues(NamedTuple):
    """Figures of ``k`` points by name, each ``(k,)``, and the Monte Carlo errors of those that have one."""

    values: dict[str, Array]
    errors: dict[str, Array]


def evaluate_figures(query: Query, posterior: GibbsPosterior, x: Array, neighbours: "Neighbours") -> PointValues:
    """Compute every figure of :data:`POINT_FIGURES` for points ``(k, d)``; NaN where the budget does not allow it."""
    found = PointValues({}, {})
    for figure in POINT_FIGURES:
        found.values[figure.name], error = figure.evaluate(query, posterior, x, neighbours)
        if error is not None:
            found.errors[figure.name] = error
    return found


def _compute_robustness(
    query: Query, posterior: GibbsPosterior, x: Array, neighbours: "Neighbours"
) -> tuple[Array, Array]:
    """Compute robustness and its error under as many copies as the budget allows, or NaN."""
    evaluation, unknown = query.evaluation, np.full(len(x), np.nan)
    shifts = offsets(evaluation.noise, query.space, stream(query.seed, JUDGING, query.key), evaluation.n_perturb)
    shifts = shifts[: posterior.affords(len(shifts) * len(x)) // len(x)]
    if len(shifts) < min(_FEWEST_PERTURBED, evaluation.n_perturb):
        return unknown, unknown
    try:
        return robustness(posterior, query.space, x, shifts)
    except BudgetSpentError:  # time ran out earlier than expected
        return unknown, unknown


def _compute_plausibility(
    query: Query, posterior: GibbsPosterior, x: Array, neighbours: "Neighbours"
) -> tuple[Array, Array | None]:
    """Compute plausibility, which has no Monte Carlo error."""
    return neighbours.plausibility(x, query.evaluation.neighbours), None


# A new figure needs one entry here: tables, files, batches and summaries read this list.
POINT_FIGURES = (
    PointFigure("robustness", "share that still succeeds under execution noise", _compute_robustness, has_error=True),
    PointFigure("plausibility", "mean distance to the nearest training rows", _compute_plausibility),
)


def unknown_figures() -> dict[str, float]:
    """Return NaN for every figure, by name."""
    return {figure.name: float("nan") for figure in POINT_FIGURES}


def unknown_errors() -> dict[str, float]:
    """Return NaN for the error of every figure that has one, by name."""
    return {figure.name: float("nan") for figure in POINT_FIGURES if figure.has_error}


def robustness(posterior: GibbsPosterior, space: Space, x: Array, shifts: Array) -> tuple[Array, Array]:
    """Return the share of perturbed copies that reach the target under the first model, and its error.

    ``x`` ``(k, d)`` are points and ``shifts`` ``(n, d)`` offsets, the same for every point; both results are ``(k,)``.
    """
    reached = evaluate_under_noise(posterior, space, x, shifts, first_only=True).reached[:, :, 0]
    return share_and_error(reached.mean(axis=1), len(shifts))


@dataclass(frozen=True)
class Neighbours:
    """Training rows in units of each feature's scale, indexed for nearest-neighbour search."""

    rows: Places
    space: Space

    @classmethod
    def of(cls, x: Array, space: Space) -> "Neighbours":
        """Index training rows ``(n, d)``."""
        return cls(space.embed(x), space)

    def plausibility(self, x: Array, q: int) -> Array:
        """Return the mean distance ``(k,)`` of points ``(k, d)`` to their ``q`` nearest training rows."""
        return self.rows.nearest_distances(self.space.embed(x), min(q, len(self.rows))).mean(axis=1)


# --- cost-reliability frontier ---------------------------------------------------------------------------------------


def costs(space: Space, x: Array, x0: Array, distance: str) -> Array:
    """Return the cost ``(n,)`` of points ``(n, d)``: their distance from the row in units of each feature's scale.

    The sum of changes (``"l1"``) leaves out computed columns, which follow from the others.
    """
    if distance == "l2":
        return space.distance(x, x0)
    if distance == "l1":
        return np.asarray((space.change(x, x0) / space.scale)[:, ~space.is_computed].sum(axis=1))
    raise ValueError(f"distance must be 'l2' or 'l1', not {distance!r}")


def pareto_front(reliability: Array, cost: Array) -> Array:
    """Return positions of the Pareto-optimal points, from the cheapest on: no cheaper point is as reliable.

    A point that never succeeds is not among them.
    """
    order = np.lexsort((-reliability, cost))
    so_far = np.maximum.accumulate(np.append(0.0, reliability[order]))[:-1]
    return order[reliability[order] > so_far + WEIGHT_ROUNDING]


def near_front(reliability: Array, cost: Array, n: int, most: int) -> Array:
    """Return positions of points that may be on the front, where reliability is a share of ``n`` noisy trials.

    A point is kept if it is at most one standard error below the best of the cheaper ones; if more than ``most`` are,
    the most promising.
    """
    order = np.lexsort((-reliability, cost))
    share = reliability[order]
    so_far = np.maximum.accumulate(np.append(0.0, share))[:-1]
    error = np.sqrt(share * (1 - share) / n)
    excess = share + error - so_far
    kept = np.flatnonzero((excess > WEIGHT_ROUNDING) & (share > 0))
    if len(kept) > most:
        # ranked in units of the error: points of medium reliability have the largest errors, and would otherwise
        # crowd out the reliable ones
        promise = excess[kept] / (error[kept] + 1.0 / n)
        kept = np.sort(kept[np.argsort(-promise, kind="stable")[:most]])
    return order[kept]


def positions_at_levels(reliability: Array, levels: Sequence[float] | None) -> Array:
    """Return positions along a front: the first that attains each level, or all without levels."""
    if levels is None:
        return np.arange(len(reliability))
    wanted = np.atleast_1d(np.asarray(levels, dtype=float))
    if wanted.ndim != 1 or not ((wanted > 0) & (wanted <= 1)).all():
        raise ValueError(f"levels must be probabilities above 0 and at most 1, not {levels!r}")
    found = np.searchsorted(reliability, np.sort(wanted) - WEIGHT_ROUNDING)
    return np.unique(found[found < len(reliability)])


def frontier_table(space: Space, x: Array, reliability: Array, figures: Mapping[str, Array]) -> pd.DataFrame:
    """Return a front as a table indexed by reliability: figures such as ``distance``, then the user's columns."""
    rows = space.frame(x)
    taken = {str(name) for name in rows.columns}
    named = {name + "_" * (name in taken): values for name, values in figures.items()}
    index = pd.Index(np.round(reliability, _DIGITS), name="reliability", dtype=float)
    return pd.concat([pd.DataFrame(named, index=index), rows.set_axis(index)], axis=1)


# --- survival under other models -------------------------------------------------------------------------------------


def survival_table(
    labels: tuple[str, ...], decided: Array, draws: Draws, drawn: Array, weights: Array, which: Array | None = None
) -> pd.DataFrame:
    """Return how decisions and the posterior fare under ``K`` further models, one row each, the posterior last.

    ``decided`` ``(r, K)`` tells whether decisions reach the target under each model, ``drawn`` ``(u, K)`` the same for
    the distinct draws, or for a random selection ``which`` ``(u,)`` of them; ``weights`` ``(K,)`` are those of the
    models.

    Columns are ``survival``, the share of models under which the target is reached (for the posterior, the mean over
    models of its success probability); ``low`` and ``high``, Wilson's 95% interval, for which the models count as a
    sample of possible refits of effective size ``1 / sum(weights**2)``; ``all``, the probability of success under all
    of them; and ``se``, the Monte Carlo error of ``survival``, zero for a decision.
    """
    weight, counts = draws.distinct[1], weights > 0
    spread = 1.0 / draws.ess + (1.0 / len(draws) if draws.resampled else 0.0)
    if which is not None and len(which) < len(weight):
        weight = weight[which] / weight[which].sum()
        spread += float(np.square(weight).sum())  # from using only some of them
    share, under_all = drawn @ weights, np.asarray(drawn[:, counts].all(axis=1))
    mean = _average(weight, share)
    size = 1.0 / spread
    values = np.append(decided @ weights, mean)
    low, high = wilson(values, 1.0 / float(np.square(weights).sum()))
    table = {
        "survival": values,
        "low": low,
        "high": high,
        "all": np.append(decided[:, counts].all(axis=1).astype(float), _average(weight, under_all)),
        "se": np.append(np.zeros(len(decided)), np.sqrt(_average(weight, np.square(share - mean)) / size)),
    }
    return pd.DataFrame(table, index=pd.Index([*labels, "posterior"], name="rule", dtype=object))


def _average(weight: Array, values: Array) -> float:
    """Return the weighted mean, NaN if there are no values."""
    return float(weight @ values) if len(values) else float("nan")
