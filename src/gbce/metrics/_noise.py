"""Execution noise: what becomes of a recommendation that is carried out only approximately.

The paper's D_r. The same offsets are used for every point that is compared (common random numbers), so that the
difference between two points is not blurred by the noise itself. Noise moves only what can move, whole numbers in
whole steps and categories not at all, and never leaves the space.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gbce.base import Array
from gbce.posterior import Evaluated, GibbsPosterior
from gbce.space import Space

__all__ = ["Noise", "deviations", "evaluate_under_noise", "offsets", "require_noise"]

Noise = float | Sequence[float] | Mapping[str, float] | Callable[[np.random.Generator, int], Array]

_MAX_CELLS = 10_000_000  # numbers in one perturbed batch: 80 MB


def offsets(noise: Noise, space: Space, rng: np.random.Generator, n: int) -> Array:
    """Draw ``n`` offsets of shape ``(n, d)``.

    ``noise`` is a standard deviation in units of each feature's scale (one number, one per feature, or a mapping by
    name that leaves the other features exact), or a function ``(rng, n) -> (n, d)`` in the features' own units.
    """
    if callable(noise):
        drawn = np.asarray(noise(rng, n), dtype=float)
        if drawn.shape != (n, len(space)) or not np.isfinite(drawn).all():
            raise ValueError(f"noise(rng, {n}) must return finite offsets of shape ({n}, {len(space)})")
        return np.where(_movable(space), drawn[:, space.data_order], 0.0)
    drawn = rng.standard_normal((n, len(space)))
    drawn *= _deviations(noise, space) * space.scale
    drawn[:, ~_movable(space)] = 0.0
    return drawn


def deviations(noise: Noise, space: Space) -> Array | None:
    """Return the standard deviation of each feature's offsets ``(d,)``, in its own units; None for a function.

    Examples
    --------
    >>> deviations(0.1, Space.real(2, scale=[1.0, 20.0]))
    array([0.1, 2. ])
    """
    if callable(noise):
        return None
    return np.where(_movable(space), _deviations(noise, space) * space.scale, 0.0)


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
            meant = np.broadcast_to(points, (len(points), n, d)).reshape(-1, d)
            moved = space.move_each(meant, moved, posterior.prior.x0)
        parts.append(evaluate(moved))
    joined = parts[0] if len(parts) == 1 else [np.concatenate(columns) for columns in zip(*parts, strict=True)]
    return Evaluated(*(values.reshape(k, n, -1) for values in joined))


def require_noise(noise: Noise | None, space: Space) -> None:
    """Check a noise that is given in numbers against the space, before any model is asked."""
    if noise is not None and not callable(noise):
        _deviations(noise, space)


def _movable(space: Space) -> Array:
    """Whether noise moves each feature ``(d,)``."""
    movable = [feature.mutable and not feature.unordered for feature in space.features]
    return np.logical_and(movable, ~space.is_computed)


def _deviations(noise: Any, space: Space) -> Array:
    order: Any = space.data_order  # of a list
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
