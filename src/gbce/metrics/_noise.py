"""Execution noise (the paper's D_r): perturbed copies of points, and the distribution of a point under Gaussian noise.

All points that are compared share the same offsets (common random numbers), so that differences between them are not
blurred by the noise. Noise moves only mutable features, integers in whole steps and categories not at all, and never
leaves the space.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from gbce._validation import require_counts, require_finite
from gbce.base import Array
from gbce.posterior import Evaluated, GibbsPosterior
from gbce.space import Space

__all__ = [
    "Evaluation",
    "Noise",
    "NoiseDistribution",
    "deviations",
    "evaluate_under_noise",
    "noise_distribution",
    "offsets",
    "require_noise",
]

_MAX_CELLS = 10_000_000  # numbers in one perturbed batch: 80 MB
# Smallest standard deviation, in units of the spacing of floats at the point: below, offsets are lost in rounding; at
# it, a probability is off by less than 1e-6.
_FINE = 1e6

# --- perturbed copies ------------------------------------------------------------------------------------------------

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
    """Return the standard deviation of each feature's offsets ``(d,)`` in its own units; None for a function.

    >>> deviations(0.1, Space.real(2, scale=[1.0, 20.0]))
    array([0.1, 2. ])
    """
    if callable(noise):
        return None
    return np.where(_is_movable(space), _parse_deviations(noise, space) * space.scale, 0.0)


def evaluate_under_noise(
    posterior: GibbsPosterior, space: Space, x: Array, shifts: Array, *, first_only: bool = False
) -> Evaluated:
    """Evaluate every point ``(k, d)`` under every offset ``(n, d)``: arrays ``(k, n, K)``, in few model calls."""
    evaluate = posterior.evaluate_first if first_only else posterior.evaluate
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
    """Distribution of one feature under noise: a normal with ``centre`` and ``sd``, clipped and rounded.

    ``low`` and ``high`` are the extreme values. ``start`` is set if the feature moves in whole steps from there,
    ``digits`` if the column is stored at lower precision.
    """

    feature: int
    centre: float
    sd: float
    low: float
    high: float
    start: float | None
    digits: np.dtype[Any] | None

    def upto(self, ends: Array) -> Array:
        """Return probabilities ``(n,)`` of values up to ``ends`` ``(n,)``, finite numbers.

        >>> whole = ColumnNoise(0, 3.0, 1.0, 2.0, 9.0, 0.0, None)
        >>> whole.upto(np.array([1.5, 2.5, 3.5, 9.5])).round(4)
        array([0.    , 0.3085, 0.6915, 1.    ])
        """
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
