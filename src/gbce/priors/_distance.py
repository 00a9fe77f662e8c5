"""Priors ``exp(-distance(x, row))`` for arbitrary distances, sampled from a fitted proposal with importance weights.

A distance is first checked to be integrable, along random and flattest rays. Gower's distance is a ready one.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gbce._numerics import effective_sample_size, normalise
from gbce._validation import require_finite
from gbce.base import Array, Prior
from gbce.priors._assemble import Chained
from gbce.priors._distributions import LAPLACE, NORMAL, STUDENT, Distribution
from gbce.priors._families import SHRINKAGE
from gbce.priors._located import LocatedPrior, free_features
from gbce.priors._parts import FiniteValues, Part, Reals
from gbce.space import Space

Distance = Callable[[Array, Array], Array]


@dataclass(frozen=True)
class _Growth:
    """How the growth of a distance is measured along rays."""

    seed: int = 20_000  # any number, but fixed: whether a distance is rejected must not depend on the user's seed
    n_rays: int = 64  # random directions besides the axes; chosen by hand
    n_refined: int = 4  # of these, those of slowest growth, which are then rotated to grow even less
    far_end: int = 4  # doublings at the far end, and those of a thousandfold distance
    long_way: int = 10
    first_turn: float = 0.5  # steps relative to a unit ray: the last is near its rounding error
    least_turn: float = 1e-14
    shortest_ray: float = 0.1  # a rotated ray that is shorter has lost its direction


_GROWTH = _Growth()

_FAR = 2.0 ** np.arange(10, 46)  # where growth is measured, in units of each feature's scale: a thousand to 4e13


@dataclass(frozen=True)
class _Fit:
    """How a proposal for a distance is fitted; it needs no model call."""

    # any number, but fixed: the proposal is part of the prior and must not depend on the user's seed
    seed: int = 20_000
    n_points: int = 2_000  # points of a round of fitting; they need no model call
    laplace_growth: float = 0.95  # powers of one and two, less a tolerance: growth is measured, not known
    normal_growth: float = 1.95
    # of a feature's scale, up and down: moves from a billionth to a billion times of it are tried
    doublings: float = 30.0
    dearest_level: float = 50.0  # cost of a level, which leaves it a probability of about 2e-22 instead of zero
    # Chosen by hand. A poor fit costs effective draws, never correctness: the weights correct it.
    least_step: float = 0.3  # least deviation of a proposal: in integer steps, or relative to the first guess
    least_move: float = 1e-3
    better: float = 1.05  # times the best effective sample size so far: a smaller gain is noise
    patience: int = 4  # rounds without a better fit before the best one is taken
    min_ess_share: float = 0.2  # effective share of points; factor and least power for it
    tempering: float = 0.8
    least_power: float = 1e-6


_FIT = _Fit()

# Standard deviations of the normal and the Laplace distribution; for Student's, whose own is 1.41, the scale that fits
# a normal distribution best.
_SPREAD = {"normal": 1.0, "laplace": np.sqrt(2.0), "student": 1.3}

# --- integrability ---------------------------------------------------------------------------------------------------


def require_integrable(
    cost: Callable[[Array], Array],
    x0: Array,
    free: Array,
    low: Array,
    high: Array,
    unit: Array,
    names: tuple[str, ...],
) -> float:
    """Reject a distance for which ``exp(-d)`` has infinite mass; return the slowest power at which it grows.

    Along a ray the mass is the integral of ``r**(m-1) exp(-d(r))`` over the ``m`` unbounded features, finite if ``d``
    outgrows ``m log r``. A space without such features is compact: everything is integrable.
    """
    up, down = ~np.isfinite(high), ~np.isfinite(low)
    m = int((up | down).sum())
    if m == 0:
        return np.inf

    def measure_along(rays: Array, radii: Array) -> Array:
        x = np.tile(x0, (len(rays), len(radii), 1))
        x[:, :, free] += radii[None, :, None] * (rays * unit)[:, None, :]
        return cost(x.reshape(-1, len(x0))).reshape(len(rays), len(radii))

    def measure_nearest(rays: Array) -> Array:
        return measure_along(rays, _FAR[:1])[:, 0]

    rays = _draw_rays(up, down)
    flattest = rays[np.argsort(measure_nearest(rays), kind="stable")[: _GROWTH.n_refined]]
    rays = np.vstack([rays, *(_rotate_flatter(ray, up, down, measure_nearest) for ray in flattest)])
    d = measure_along(rays, _FAR)
    with np.errstate(invalid="ignore", divide="ignore"):
        slope = np.diff(d, axis=1) / np.log(2.0)
        power = np.log2(d[:, 1:] / d[:, :-1])
    # an infinite distance grows fast enough
    slope, power = np.where(np.isinf(d[:, 1:]), np.inf, slope), np.where(np.isinf(d[:, 1:]), np.inf, power)
    # flat at the far end, or, for a direction found by search and so not quite exact, over a thousandfold distance
    slow = (slope[:, -_GROWTH.far_end :].min(axis=1) <= m) | (slope[:, : _GROWTH.long_way].max(axis=1) <= m)
    if slow.any():
        first = int(np.flatnonzero(slow)[0])
        moving = [names[free[j]] for j in np.flatnonzero(rays[first])]
        where = f"Along {moving[0]!r}" if len(moving) == 1 else "In a direction without bounds"
        raise ValueError(
            f"DistancePrior: exp(-distance) cannot be integrated. {where} the distance reaches only "
            f"{d[first, _GROWTH.long_way]:.4g} however far one goes (it must grow faster than {m} x log of the move), "
            "so the prior would have infinite mass there. Use a distance that grows, such as a norm, or bound those "
            "features in the Space."
        )
    return float(power[:, -_GROWTH.far_end :].min())


def _draw_rays(up: Array, down: Array) -> Array:
    """Return unbounded directions: along each feature, and at random."""
    rng = np.random.default_rng(_GROWTH.seed)
    axes = np.vstack([np.diag(up.astype(float)), -np.diag(down.astype(float))])
    sign = np.where(up & down, rng.choice([-1.0, 1.0], (_GROWTH.n_rays, len(up))), np.where(up, 1.0, -1.0))
    rays = np.vstack([axes, sign * np.abs(rng.standard_normal((_GROWTH.n_rays, len(up)))) * (up | down)])
    rays = rays[np.abs(rays).sum(axis=1) > 0]
    return rays / np.linalg.norm(rays, axis=1, keepdims=True)


def _rotate_flatter(ray: Array, up: Array, down: Array, distance: Callable[[Array], Array]) -> Array:
    """Rotate a ray by coordinate descent with decreasing steps to where the distance grows least."""
    best, step = float(distance(ray[None, :])[0]), _GROWTH.first_turn
    turns = np.vstack([np.diag((up | down).astype(float)), -np.diag((up | down).astype(float))])
    while step > _GROWTH.least_turn and best > 0:
        tried = np.clip(ray + step * turns, np.where(down, -np.inf, 0.0), np.where(up, np.inf, 0.0))
        size = np.linalg.norm(tried, axis=1)
        tried = tried[size > _GROWTH.shortest_ray] / size[size > _GROWTH.shortest_ray, None]
        d = distance(tried)
        if d.min() < best:
            best, ray = float(d.min()), tried[int(np.argmin(d))]
        else:
            step *= 0.5
    return ray


# --- distance priors -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DistancePrior:
    """The prior ``exp(-distance(x, row))`` for any distance, restricted to the space.

    Rows are drawn from a proposal fitted to the distance without any model call, and corrected by importance weights.
    A distance that is bounded, or grows too slowly, in an unbounded direction has no such prior (its mass is infinite)
    and is rejected; so is one that is only just integrable.

    Parameters
    ----------
    distance : callable
        ``distance(x, row)`` with ``x`` of shape ``(n, d)`` and ``row`` of shape ``(d,)``, in the features' own
        units, levels by their positions; returns ``(n,)`` non-negative numbers (infinity excludes a point).
        :class:`gbce.Gower` is a ready one for mixed tables.
    proposal : Gaussian or Laplace, optional
        Draw from this prior instead of a fitted proposal. Its tails must not be lighter than those of
        ``exp(-distance)``.

    Examples
    --------
    >>> euclid = DistancePrior(lambda x, row: np.linalg.norm(x - row, axis=1))
    >>> euclid.at(Space.real(3), np.zeros(3)).dimension
    3
    """

    distance: Distance
    proposal: Prior | None = None

    def __post_init__(self) -> None:
        if not callable(self.distance):
            raise TypeError(f"DistancePrior: distance must be a function of (x, row), not {self.distance!r}")
        if self.proposal is not None and not hasattr(self.proposal, "at"):
            raise TypeError(f"DistancePrior: proposal must be a prior such as gbce.Laplace(), not {self.proposal!r}")

    def learned(self, space: Space, data: Array) -> "DistancePrior":
        """Return this prior with its distance fitted to data ``(n, d)``."""
        learn: Any = getattr(self.distance, "learned", None)
        return self if learn is None else replace(self, distance=learn(space, data))

    def at(self, space: Space, x0: Array) -> LocatedPrior:
        """Place the prior at the row ``x0``, fitting the proposal to the distance there."""
        free, low, high = free_features(space, x0)
        if any(space.features[j].missing in ("leave", "any") for j in free):
            raise ValueError(
                "DistancePrior: values that may become known or missing need a gbce.Gaussian or gbce.Laplace"
            )

        def cost(x: Array) -> Array:
            return self._measure(x, x0, space)

        if not np.isfinite(cost(x0[None, :])[0]):
            raise ValueError("DistancePrior: the distance of the row to itself must be finite")
        number = np.array([not space.features[j].unordered for j in free])
        where, low, high = free[number], low[number], high[number]
        unit = space.scale[where]
        growth = require_integrable(cost, x0, where, low, high, unit, space.names)
        if self.proposal is not None:
            base = self.proposal.at(space, x0)
            if not base.exact:
                raise ValueError("DistancePrior: a proposal must be sampled exactly, without importance weights")
            return replace(base, distance=cost)
        levels = tuple(_propose_levels(cost, x0, space, j) for j in free[~number])
        if len(where) == 0:
            return LocatedPrior(space, x0, levels, cost)
        scales = _guess_scales(cost, x0, where, low, high, unit)
        start = _propose_numbers(space, x0, STUDENT, where, scales, low, high)
        fits = [
            _fit(LocatedPrior(space, x0, (start, *levels), cost), distribution)
            for distribution in _safe_distributions(growth)
        ]
        return max(fits, key=lambda fit: fit[1])[0]

    def _measure(self, x: Array, x0: Array, space: Space) -> Array:
        """Call the user's distance and check its values ``(n,)``."""
        with np.errstate(over="ignore"):
            measured = self.distance(x.copy(), x0.copy())  # it may modify its arguments
        try:
            d = np.asarray(measured, dtype=float)
        except (TypeError, ValueError):
            raise ValueError(f"DistancePrior: distance(x, row) must return numbers, not {measured!r:.80}") from None
        if d.shape != (len(x),):
            raise ValueError(
                f"DistancePrior: distance(x, row) must return one number per line of x, ({len(x)},), not {d.shape}"
            )
        bad = ~(d >= 0)
        if bad.any():
            i = int(np.flatnonzero(bad)[0])
            where = dict(zip(space.names, x[i].tolist(), strict=True))
            raise ValueError(f"DistancePrior: a distance must be zero or more, but it is {d[i]} at {where}")
        return d


def _safe_distributions(growth: float) -> list[Distribution]:
    """Return the distributions whose tails are not lighter than ``exp(-r**growth)``."""
    return [STUDENT] + [LAPLACE] * (growth >= _FIT.laplace_growth) + [NORMAL] * (growth >= _FIT.normal_growth)


def _guess_scales(
    cost: Callable[[Array], Array], x0: Array, free: Array, low: Array, high: Array, unit: Array
) -> Array:
    """Return how far each feature alone can move before the distance rises by one: a first guess of its scale."""
    steps = 2.0 ** np.arange(-_FIT.doublings, _FIT.doublings + 1)
    x = np.tile(x0, (len(free), 2, len(steps), 1))
    for j, feature in enumerate(free):
        for side, sign in enumerate((1.0, -1.0)):
            x[j, side, :, feature] = np.clip(x0[feature] + sign * steps * unit[j], low[j], high[j])
    d = cost(x.reshape(-1, len(x0))).reshape(len(free), 2, len(steps))
    near = d <= d.min() + 1.0
    moved = np.stack([np.abs(x[j, :, :, feature] - x0[feature]) / unit[j] for j, feature in enumerate(free)])
    farthest = (near * moved).max(axis=(1, 2))  # a clipped move counts up to its limit
    return unit * np.maximum(farthest, steps[0])


def _propose_numbers(
    space: Space, x0: Array, distribution: Distribution, where: Array, factor: Array, low: Array, high: Array
) -> Reals | Chained:
    """Build the part that proposes numbers, integers in integer steps."""
    stepped = space.discrete[where]
    if not stepped.any():
        return Reals(where, distribution, x0[where], factor, low, high)
    no_coefs = np.zeros((0, len(where)))
    return Chained(where, distribution, x0[where], factor, low, high, stepped, no_coefs, np.zeros(0))


def _propose_levels(cost: Callable[[Array], Array], x0: Array, space: Space, j: int) -> Part:
    """Build the part that proposes the levels of a category, each by its own cost."""
    codes = space.features[j].levels_from(x0[j])
    x = np.tile(x0, (len(codes), 1))
    x[:, j] = codes
    return FiniteValues(np.array([j]), codes, np.minimum(cost(x), _FIT.dearest_level), 1.0)


def _fit(start: LocatedPrior, distribution: Distribution) -> tuple[LocatedPrior, float]:
    """Fit the proposal's second moments about the row by tempered importance sampling; also return its ESS."""
    rng = np.random.default_rng(_FIT.seed)
    spread = _SPREAD[distribution.name]
    numbers: Any = start.parts[0]
    correlated = isinstance(numbers, Reals) and not np.isfinite([numbers.low, numbers.high]).any()
    located, best = replace(start, parts=(replace(numbers, distribution=distribution), *start.parts[1:])), (start, -1.0)
    stale = 0
    while stale < _FIT.patience:
        placed = located.place(rng.standard_normal((_FIT.n_points, located.dimension)))
        log_weights, factor = -placed.log_correction, located.parts[0].factor  # type: ignore[attr-defined]
        if not np.isfinite(log_weights).any():
            factor, stale = 0.5 * factor, stale + 1  # every point is excluded: propose nearer to the row
        else:
            quality = effective_sample_size(normalise(log_weights))
            stale = 0 if quality > _FIT.better * best[1] else stale + 1
            if quality > best[1]:
                best = (located, quality)
            weights = normalise(_temper(log_weights))
            offset = placed.x[:, numbers.where] - numbers.origin
            factor = _estimate_factor(offset, weights, correlated=correlated) / spread
            if factor.ndim == 1:  # among few points a feature may not have moved at all
                step = np.where(start.space.discrete[numbers.where], _FIT.least_step, _FIT.least_move * numbers.factor)
                factor = np.maximum(factor, step)
        located = replace(start, parts=(replace(numbers, distribution=distribution, factor=factor), *start.parts[1:]))
    return best


def _temper(log_weights: Array) -> Array:
    """Temper weights until a fifth of the points are effective, so that a bad first guess still helps."""
    power, n = 1.0, len(log_weights)
    while power > _FIT.least_power and effective_sample_size(normalise(power * log_weights)) < _FIT.min_ess_share * n:
        power *= _FIT.tempering
    return power * log_weights


def _estimate_factor(offset: Array, weights: Array, *, correlated: bool) -> Array:
    """Estimate scales ``(k,)`` from weighted offsets ``(n, k)``, or a shrunk Cholesky factor ``(k, k)``."""
    moments = (offset * weights[:, None]).T @ offset
    scale = np.sqrt(np.diag(moments))
    if not correlated or len(scale) == 1:
        return scale
    shrunk = moments / np.outer(scale, scale)
    shrunk = (1 - SHRINKAGE) * shrunk + SHRINKAGE * np.eye(len(scale))
    return scale[:, None] * np.linalg.cholesky(shrunk)


# --- Gower's distance ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Gower:
    """Gower's distance for mixed tables, times ``strength``: for :class:`DistancePrior`.

    The mean over features of each change: of a number relative to its range in the data, of a category one.

    Parameters
    ----------
    strength : float
        The prior is ``exp(-strength * distance)``.

    Examples
    --------
    >>> import gbce
    >>> data = np.random.default_rng(0).normal(size=(300, 2))
    >>> explainer = gbce.Explainer(lambda x: x.sum(axis=1), data, prior=gbce.DistancePrior(Gower(20.0)))
    >>> explainer.explain([0.0, 0.0], gbce.AtLeast(1), rules=[], seed=0).status
    'attainable'
    """

    strength: float = 10.0  # chosen by hand: changing every feature by its whole range costs ten
    width: Array | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        require_finite(self, "strength")
        if self.strength <= 0:
            raise ValueError(f"Gower: strength must be positive, not {self.strength!r}")

    def learned(self, space: Space, data: Array) -> "Gower":
        """Return this distance with the ranges of data ``(n, d)``; zero for categories."""
        spread = np.nanmax(data, axis=0) - np.nanmin(data, axis=0)
        unordered = np.array([feature.unordered for feature in space.features])
        return replace(self, width=np.where(unordered, 0.0, np.where(spread > 0, spread, space.scale)))

    def __call__(self, x: Array, row: Array) -> Array:
        """Return the distance ``(n,)`` of rows ``(n, d)``."""
        if self.width is None:
            raise ValueError("Gower has seen no data yet; give the prior to gbce.Explainer(..., prior=...)")
        difference = np.abs(x - row)
        share = np.where(self.width > 0, difference / np.where(self.width > 0, self.width, 1.0), difference != 0)
        share = np.where(np.isnan(difference), np.isnan(x) != np.isnan(row), share)
        return self.strength * share.mean(axis=1)
