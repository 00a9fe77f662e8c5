"""Whether ``exp(-distance)`` has finite mass, judged along rays."""

from collections.abc import Callable

import numpy as np

from gbce.base import Array

__all__ = ["require_integrable"]

_SEED = 20_000  # any number, but fixed: whether a distance is refused must not depend on the user's seed
_N_RAYS = 64  # random directions beside the axes; chosen by hand
_N_REFINED = 4  # of these, those that grow least, turned to grow still less
_FAR = 2.0 ** np.arange(10, 46)  # where growth is judged, in units of each feature's scale: a thousand to 4e13
_FAR_END, _LONG_WAY = 4, 10  # doublings at the far end, and those of a thousandfold way
_FIRST_TURN, _LEAST_TURN = 0.5, 1e-14  # of a ray of length one: the last is near its rounding error
_SHORTEST_RAY = 0.1  # a turned ray that is shorter has lost its direction


def require_integrable(
    cost: Callable[[Array], Array],
    x0: Array,
    free: Array,
    low: Array,
    high: Array,
    unit: Array,
    names: tuple[str, ...],
) -> float:
    """Refuse a distance whose ``exp(-d)`` has infinite mass; return the slowest power at which it grows.

    Along a ray the mass is the integral of ``r**(m-1) exp(-d(r))`` over the ``m`` features without bounds, finite
    if ``d`` outgrows ``m log r``. A space with no such feature is compact: anything can be integrated.
    """
    up, down = ~np.isfinite(high), ~np.isfinite(low)
    m = int((up | down).sum())
    if m == 0:
        return np.inf

    def along(rays: Array, way: Array) -> Array:
        x = np.tile(x0, (len(rays), len(way), 1))
        x[:, :, free] += way[None, :, None] * (rays * unit)[:, None, :]
        return cost(x.reshape(-1, len(x0))).reshape(len(rays), len(way))

    rays = _rays(up, down)
    flattest = rays[np.argsort(along(rays, _FAR[:1])[:, 0], kind="stable")[:_N_REFINED]]
    rays = np.vstack([rays, *(_turn_flatter(ray, up, down, lambda r: along(r, _FAR[:1])[:, 0]) for ray in flattest)])
    d = along(rays, _FAR)
    with np.errstate(invalid="ignore", divide="ignore"):
        slope = np.diff(d, axis=1) / np.log(2.0)
        power = np.log2(d[:, 1:] / d[:, :-1])
    # an infinite distance is as far as can be
    slope, power = np.where(np.isinf(d[:, 1:]), np.inf, slope), np.where(np.isinf(d[:, 1:]), np.inf, power)
    # flat at the far end, or, for a direction found by search and so not quite exact, over a thousandfold way
    slow = (slope[:, -_FAR_END:].min(axis=1) <= m) | (slope[:, :_LONG_WAY].max(axis=1) <= m)
    if slow.any():
        first = int(np.flatnonzero(slow)[0])
        moving = [names[free[j]] for j in np.flatnonzero(rays[first])]
        where = f"Along {moving[0]!r}" if len(moving) == 1 else "In a direction without bounds"
        raise ValueError(
            f"DistancePrior: exp(-distance) cannot be integrated. {where} the distance reaches only "
            f"{d[first, _LONG_WAY]:.4g} however far one goes (it must outgrow {m} x log of the way), so the prior "
            "would have infinite mass there. Use a distance that grows, such as a norm, or bound those features in the "
            "Space."
        )
    return float(power[:, -_FAR_END:].min())


def _rays(up: Array, down: Array) -> Array:
    """Directions without bounds: along each feature, and at random."""
    rng = np.random.default_rng(_SEED)
    axes = np.vstack([np.diag(up.astype(float)), -np.diag(down.astype(float))])
    sign = np.where(up & down, rng.choice([-1.0, 1.0], (_N_RAYS, len(up))), np.where(up, 1.0, -1.0))
    rays = np.vstack([axes, sign * np.abs(rng.standard_normal((_N_RAYS, len(up)))) * (up | down)])
    rays = rays[np.abs(rays).sum(axis=1) > 0]
    return rays / np.linalg.norm(rays, axis=1, keepdims=True)


def _turn_flatter(ray: Array, up: Array, down: Array, distance: Callable[[Array], Array]) -> Array:
    """Turn a ray, one coordinate at a time and in ever smaller steps, to where the distance grows least."""
    best, step = float(distance(ray[None, :])[0]), _FIRST_TURN
    turns = np.vstack([np.diag((up | down).astype(float)), -np.diag((up | down).astype(float))])
    while step > _LEAST_TURN and best > 0:
        tried = np.clip(ray + step * turns, np.where(down, -np.inf, 0.0), np.where(up, np.inf, 0.0))
        size = np.linalg.norm(tried, axis=1)
        tried = tried[size > _SHORTEST_RAY] / size[size > _SHORTEST_RAY, None]
        d = distance(tried)
        if d.min() < best:
            best, ray = float(d.min()), tried[int(np.argmin(d))]
        else:
            step *= 0.5
    return ray
