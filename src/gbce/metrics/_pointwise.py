"""Figures of single points: execution noise and robustness, plausibility, the frontier, survival of refits.

All points that are compared share the same offsets (common random numbers), so that differences between them are not
blurred by the noise. Noise moves only mutable features, integers in whole steps. Loss and distance (L_pt and D_pt)
need no code of their own: the loss comes with every evaluated point, and the distance is Euclidean in units of
each feature's scale. Decisions and draws are compared by their cost, the sum of changes in these units, which is what
the answer minimises.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri

from gbce._numerics import JUDGING, ROUNDING, share_and_error, stream, wilson
from gbce._validation import require_counts, require_finite
from gbce.base import Array, Query
from gbce.budget import BudgetSpentError
from gbce.draws import Draws
from gbce.posterior import Evaluated, GibbsPosterior
from gbce.space import Places, Space
from gbce.trees import read_models

# --- execution noise -------------------------------------------------------------------------------------------------

_MAX_CELLS = 10_000_000  # numbers in one perturbed batch: 80 MB
# Smallest standard deviation, in units of the spacing of floats at the point: below, offsets are lost in rounding; at
# it, a probability is off by less than 1e-6.
_FINE = 1e6

Noise = float | Sequence[float] | Mapping[str, float] | Callable[[np.random.Generator, int], Array]


def offsets(noise: Noise, space: Space, rng: np.random.Generator, n: int) -> Array:
    """Draw ``n`` offsets of shape ``(n, d)``.

    ``noise`` is a standard deviation in units of each feature's scale (one number, one per feature, or a mapping by
    name that leaves the other features exact), or a function ``(rng, n) -> (n, d)`` in the features' own units.
    """
    if callable(noise):
        drawn = np.asarray(noise(rng, n), dtype=float)
        if drawn.shape != (n, len(space)) or not np.isfinite(drawn).all():
            raise ValueError(f"noise(rng, {n}) must return finite offsets of shape ({n}, {len(space)})")
        return np.where(_is_movable(space), drawn[:, space.data_order], 0.0)
    drawn = rng.standard_normal((n, len(space)))
    drawn *= _parse_deviations(noise, space) * space.scale
    drawn[:, ~_is_movable(space)] = 0.0
    return drawn


def deviations(noise: Noise, space: Space) -> Array | None:
    """Return the standard deviation of each feature's offsets ``(d,)`` in its own units; None for a function."""
    if callable(noise):
        return None
    return np.where(_is_movable(space), _parse_deviations(noise, space) * space.scale, 0.0)


def evaluate_under_noise(
    posterior: GibbsPosterior, space: Space, x: Array, shifts: Array, *, first_only: bool = False
) -> Evaluated:
    """Evaluate every point ``(k, d)`` under every offset ``(n, d)``: arrays ``(k, n, K)``, in few model calls."""
    read = read_models(posterior)
    evaluate = read.evaluate_first if first_only else read.evaluate
    k, (n, d) = len(x), shifts.shape
    block = max(1, _MAX_CELLS // (n * d))
    parts = []
    for start in range(0, k, block):
        points = x[start : start + block, None, :]
        moved = (points + shifts[None, :, :]).reshape(-1, d)
        if space.plain:
            moved = space.project(moved, posterior.prior.x0)
        else:
            intended = np.broadcast_to(points, (len(points), n, d)).reshape(-1, d)
            moved = space.move_each(intended, moved, posterior.prior.x0)
        parts.append(evaluate(moved))
    joined = parts[0] if len(parts) == 1 else [np.concatenate(columns) for columns in zip(*parts, strict=True)]
    return Evaluated(*(values.reshape(k, n, -1) for values in joined))


def require_noise(noise: Noise | None, space: Space) -> None:
    """Check numeric noise against the space, before any model is called."""
    if noise is not None and not callable(noise):
        _parse_deviations(noise, space)


def _is_movable(space: Space) -> Array:
    """Whether noise moves each feature ``(d,)``."""
    movable = [feature.mutable and not feature.unordered for feature in space.features]
    return np.logical_and(movable, ~space.is_computed)


def _parse_deviations(noise: Any, space: Space) -> Array:
    """Return standard deviations in units of scale, one or ``(d,)``, in the order of the space."""
    order: Any = space.data_order  # for a list
    if isinstance(noise, Mapping):
        unknown = sorted(set(noise) - set(space.names))
        if unknown:
            raise ValueError(f"noise names {unknown}, but the features are {list(space.names)}")
        noise, order = [noise.get(name, 0.0) for name in space.names], slice(None)
    try:
        sd = np.asarray(noise, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"noise must be a number, one per feature, a mapping or a function, not {noise!r}") from None
    if sd.shape not in ((), (len(space),)) or not np.isfinite(sd).all() or (sd < 0).any():
        raise ValueError(f"noise must be zero or more, one number or {len(space)}, not {noise!r}")
    return sd if sd.ndim == 0 else sd[order]


# --- distribution under gaussian noise -------------------------------------------------------------------------------


class ColumnNoise(NamedTuple):
    """One feature under noise: a clipped normal, in whole steps from ``start``, or stored in fewer ``digits``."""

    feature: int
    centre: float
    sd: float
    low: float
    high: float
    start: float | None
    digits: np.dtype[Any] | None

    def upto(self, ends: Array) -> Array:
        """Return probabilities ``(n,)`` of values up to ``ends`` ``(n,)``, finite numbers."""
        before = ndtr((self._find_crossings(ends) - self.centre) / self.sd)
        return np.where(ends < self.low, 0.0, np.where(ends >= self.high, 1.0, before))

    def beyond(self, low: float, high: float) -> float:
        """Return an upper bound on the probability outside an interval."""
        below = 0.0 if self.low >= low else float(ndtr((low - self.centre) / self.sd))
        above = 0.0 if self.high <= high else float(ndtr((self.centre - high) / self.sd))
        return below + above

    def quantile(self, level: Array) -> Array:
        """Return quantiles of the normal at levels ``(n,)``, before clipping and rounding."""
        return np.asarray(self.centre + self.sd * ndtri(level))

    def _find_crossings(self, ends: Array) -> Array:
        """Return the numbers of the normal below which values are at most ``ends`` ``(n,)``."""
        if self.start is not None:
            steps = np.floor(ends - self.start)
            steps += np.where(self.start + (steps + 1.0) <= ends, 1.0, np.where(self.start + steps > ends, -1.0, 0.0))
            return np.asarray(self.start + steps + 0.5)
        if self.digits is None:
            return ends
        with np.errstate(over="ignore"):
            last = ends.astype(self.digits)  # the largest number of this precision that is at most the end
            last = np.where(last > ends, np.nextafter(last, self.digits.type(-np.inf)), last)
            following = np.nextafter(last, self.digits.type(np.inf))
            return np.asarray((last.astype(float) + following.astype(float)) / 2.0)


@dataclass(frozen=True, eq=False)
class NoiseDistribution:
    """A point under noise: ``columns`` vary independently, ``base`` ``(d,)`` is the point without noise."""

    space: Space
    x0: Array
    base: Array
    columns: tuple[ColumnNoise, ...]

    def points(self, values: Array) -> Array:
        """Return the admissible rows ``(n, d)`` for normal values ``(n, m)`` of the columns."""
        x = np.tile(self.base, (len(values), 1))
        x[:, [column.feature for column in self.columns]] = values
        return self.space.move_each(np.tile(self.base, (len(values), 1)), x, self.x0)


def noise_distribution(noise: Noise, space: Space, x0: Array, x: Array) -> NoiseDistribution | None:
    """Return the distribution of a point ``(d,)`` under noise, or None if its columns are not independent normals.

    That is so for noise given as a function, for constraints on what moves, and for noise lost in rounding.

    >>> distribution = noise_distribution(0.1, Space.real(2, scale=[1.0, 20.0]), np.zeros(2), np.array([0.0, 5.0]))
    >>> [(column.centre, column.sd) for column in distribution.columns]
    [(0.0, 0.1), (5.0, 2.0)]
    """
    sd = deviations(noise, space)
    if sd is None:
        return None
    low, high = space.limits(x0)
    moves = (sd > 0) & (high > low) & ~np.isnan(x)
    if (moves & space.is_bound).any() or (sd[moves] < _FINE * np.spacing(np.abs(x[moves]))).any():
        return None
    base = space.move_each(x[None, :], x[None, :], x0)
    if not space.admissible(base, x0)[0]:
        return None
    ends = np.tile(base, (2, 1))
    ends[0, moves], ends[1, moves] = low[moves], high[moves]
    with np.errstate(invalid="ignore"):
        ends = space.move_each(np.tile(base, (2, 1)), ends, x0)
    digits = dict(space.low_precision)
    start = np.where(np.isnan(x0), 0.0, x0)
    columns = tuple(
        ColumnNoise(
            int(j), float(x[j]), float(sd[j]), float(ends[0, j]), float(ends[1, j]),
            float(start[j]) if space.discrete[j] else None, digits.get(int(j)),
        )
        for j in np.flatnonzero(moves)
    )  # fmt: skip
    return NoiseDistribution(space, x0, base[0], columns)


# --- settings --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Evaluation:
    """Settings of the reported figures.

    Parameters
    ----------
    noise : number, sequence, mapping or function
        Execution noise D_r: a standard deviation in units of each feature's scale (one number, one per feature, or
        a mapping by name that leaves the others exact), or a function ``(rng, n) -> (n, d)`` that draws offsets in
        the features' own units.
    n_perturb : int
        Number of perturbed copies for robustness.
    neighbours : int
        Number q of nearest training rows for plausibility.
    alpha : float
        Share of draws whose loss exceeds the tail figure.

    Examples
    --------
    >>> Evaluation(noise=0.2).n_perturb
    200
    """

    noise: Noise = 0.1
    n_perturb: int = 200
    neighbours: int = 20
    alpha: float = 0.1

    def __post_init__(self) -> None:
        require_counts(self, "n_perturb", "neighbours")
        require_finite(self, "alpha")
        if not 0 < self.alpha < 1:
            raise ValueError(f"Evaluation: alpha must lie between 0 and 1, not {self.alpha!r}")


# --- figures of points -----------------------------------------------------------------------------------------------

_FEWEST_PERTURBED = 10  # below this many copies robustness is not reported: its error would be up to 0.16
_DIGITS = 12  # of a printed reliability: beyond them, sums of weights are rounding error


class PointFigure(NamedTuple):
    """A figure of single points, shown in tables, files and summaries beside loss, cost and verdict.

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
    PointFigure("plausibility", "mean distance to the nearest training rows (less is better)", _compute_plausibility),
)


def unknown_figures() -> dict[str, float]:
    """Return NaN for every figure, by name."""
    return {figure.name: float("nan") for figure in POINT_FIGURES}


def unknown_errors() -> dict[str, float]:
    """Return NaN for the error of every figure that has one, by name."""
    return {figure.name: float("nan") for figure in POINT_FIGURES if figure.has_error}


def robustness(posterior: GibbsPosterior, space: Space, x: Array, shifts: Array) -> tuple[Array, Array]:
    """Return the share of copies of points ``(k, d)`` under offsets ``(n, d)`` that reach, and its error: ``(k,)``."""
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
        size = space.change(x, x0)
        size /= space.scale
        return np.asarray(size[:, ~space.is_computed].sum(axis=1))
    raise ValueError(f"distance must be 'l2' or 'l1', not {distance!r}")


def pareto_front(reliability: Array, cost: Array) -> Array:
    """Return the positions of points, the cheapest first, that succeed more often than any cheaper one."""
    order = np.lexsort((-reliability, cost))
    so_far = np.maximum.accumulate(np.append(0.0, reliability[order]))[:-1]
    return order[reliability[order] > so_far + ROUNDING]


def near_front(reliability: Array, cost: Array, n: int, most: int) -> Array:
    """Return at most ``most`` positions of points that may be on the front, given shares of ``n`` noisy trials."""
    order = np.lexsort((-reliability, cost))
    share = reliability[order]
    so_far = np.maximum.accumulate(np.append(0.0, share))[:-1]
    error = np.sqrt(share * (1 - share) / n)
    excess = share + error - so_far
    kept = np.flatnonzero((excess > ROUNDING) & (share > 0))
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
    found = np.searchsorted(reliability, np.sort(wanted) - ROUNDING)
    return np.unique(found[found < len(reliability)])


def frontier_table(space: Space, x: Array, reliability: Array, figures: Mapping[str, Array]) -> pd.DataFrame:
    """Return a front as a table indexed by reliability: figures such as ``cost``, then the user's columns."""
    rows = space.frame(x)
    taken = {str(name) for name in rows.columns}
    named = {name + "_" * (name in taken): values for name, values in figures.items()}
    index = pd.Index(np.round(reliability, _DIGITS), name="reliability", dtype=float)
    return pd.concat([pd.DataFrame(named, index=index), rows.set_axis(index)], axis=1)


# --- survival under other models -------------------------------------------------------------------------------------


def survival_table(
    labels: tuple[str, ...], decided: Array, draws: Draws, drawn: Array, weights: Array, which: Array | None = None
) -> pd.DataFrame:
    """Return how decisions ``(r, K)`` and draws ``which`` ``(u, K)`` fare under further models, the posterior last."""
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
