"""The law of one row's change around its group's centre, and candidates from it that a model picks from."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Law", "LogScore", "draw_changes", "log_mass", "pick_some", "renew"]

_FLAT = 1e-9  # a slope below which a stretch counts as flat

LogScore = Callable[[Any], Any]  # changes (chains, rows, m, p) to logarithms of scores (chains, rows, m)


@dataclass(frozen=True)
class Law:
    """The hierarchy's options; a number fixes what would otherwise have its own law.

    Parameters
    ----------
    kappa : float
        Weight of the logarithm of the score.
    rate : float
        Of the proximity term, per unit of l1 distance.
    family : {"laplace", "normal"}
        Of the changes around their centre.
    centre, spread, width : float, optional
        ``mu0``, ``omega`` and ``b`` where they are known.
    """

    kappa: float = 1.0
    rate: float = 1.0
    family: str = "laplace"
    centre: float | None = None
    spread: float | None = None
    width: float | None = None

    def __post_init__(self) -> None:
        if self.family not in ("laplace", "normal"):
            raise ValueError(f"the family of changes is 'laplace' or 'normal', not {self.family!r}")
        if self.kappa < 0 or self.rate < 0:
            raise ValueError("kappa and rate must not be negative")

    @property
    def late_rate(self) -> float:
        """The rate that candidates do not carry yet, so that it counts when one of them is picked."""
        return self.rate if self.family == "normal" else 0.0

    def around(self, deviation: Any, width: Any) -> Any:
        """Return the logarithm of the density of deviations from a centre, but for the width's own factor."""
        scaled = deviation / width
        return -np.abs(scaled) if self.family == "laplace" else -0.5 * scaled**2


def draw_changes(law: Law, centre: Any, width: Any, rng: np.random.Generator) -> Any:
    """Return changes from their law around ``centre``, with the proximity term where the family is Laplace.

    That product has an exponential tail on either side of zero and the centre, and an exponential stretch between them.
    """
    centre, width = np.broadcast_arrays(centre, width)
    if law.family == "normal":
        return centre + width * rng.standard_normal(centre.shape)
    low, high, length = np.minimum(centre, 0.0), np.maximum(centre, 0.0), np.abs(centre)
    slope, fall, flat, parts = _stretches(law, centre, width)
    of_zero, of_centre, between = parts
    pick = rng.uniform(size=centre.shape) * (of_zero + of_centre + between)
    along = rng.uniform(size=centre.shape)
    tail = -np.log1p(-along) / (1 / width + law.rate)
    outward = np.where(centre >= 0, 1.0, -1.0)  # from zero to the centre
    step = np.where(flat, along * length, -np.log1p(-along * fall) / slope)
    inside = np.where(1 / width >= law.rate, centre - outward * step, outward * step)
    beyond_zero, beyond_centre = -outward * tail, centre + outward * tail
    change = np.where(pick < of_zero, beyond_zero, np.where(pick < of_zero + of_centre, beyond_centre, inside))
    return np.where((pick >= of_zero + of_centre), np.clip(change, low, high), change)


def pick_some(shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    """Pick random sets along the last axis: about one number, or two, four and so on up to all of them."""
    p = shape[-1]
    sizes = np.minimum(2.0 ** np.arange(np.ceil(np.log2(max(p, 1))) + 1), p)
    share = sizes[rng.integers(0, len(sizes), shape[:-1])] / max(p, 1)
    return rng.uniform(size=shape) < share[..., None]


def _stretches(law: Law, centre: Any, width: Any) -> tuple[Any, Any, Any, tuple[Any, Any, Any]]:
    """Return slope and fall between zero and the centre, where it is flat, and the masses of the three stretches.

    Masses, of the tail at zero, of that at the centre and between, are in units of the height of the higher kink.
    """
    inner, length = 1 / width, np.abs(centre)
    slope = np.abs(inner - law.rate)
    flat = slope * length < _FLAT
    slope = np.where(flat, 1.0, slope)
    fall = -np.expm1(-slope * length)
    top = -length * np.minimum(inner, law.rate)
    tail = 1 / (inner + law.rate)
    of_zero, of_centre = np.exp(-length * inner - top) * tail, np.exp(-length * law.rate - top) * tail
    return slope, fall, flat, (of_zero, of_centre, np.where(flat, length, fall / slope))


def log_mass(law: Law, centre: Any, width: Any) -> Any:
    """Return the logarithm of the mass that the proximity term leaves of the law of a change."""
    if law.family == "normal":
        return np.zeros(np.broadcast_shapes(np.shape(centre), np.shape(width)))
    parts = _stretches(law, centre, width)[3]
    return np.log(sum(parts)) - np.abs(centre) * np.minimum(1 / width, law.rate) - np.log(2 * width)


def renew(
    law: Law,
    change: Any,
    said: Any,
    centre: Any,
    width: Any,
    free: Any,
    log_score: LogScore,
    m: int,
    rng: np.random.Generator,
) -> tuple[Any, Any, float]:
    """Renew random sets of the free numbers of changes ``(chains, rows, p)`` by one of ``m`` candidates each.

    ``said`` ``(chains, rows)`` is their log score, ``centre`` and ``width`` have the shape of the changes.

    Returns
    -------
    change, said, share
        What there is now, and the share of rows that moved.
    """
    *shape, p = change.shape
    touched = pick_some(change.shape, rng) & free
    wide = (*shape, m, p)
    fresh = draw_changes(
        law, np.broadcast_to(centre[..., None, :], wide), np.broadcast_to(width[..., None, :], wide), rng
    )
    tried = np.where(touched[..., None, :], fresh, change[..., None, :])
    scores = log_score(tried)
    all_scores = np.concatenate([said[..., None], scores], axis=-1)
    all_changes = np.concatenate([change[..., None, :], tried], axis=-2)
    weight = law.kappa * all_scores - law.late_rate * np.abs(all_changes).sum(axis=-1)
    best = np.argmax(weight + rng.gumbel(size=weight.shape), axis=-1)[..., None]
    moved = best[..., 0] > 0
    change = np.take_along_axis(all_changes, best[..., None], axis=-2)[..., 0, :]
    return change, np.take_along_axis(all_scores, best, axis=-1)[..., 0], float(moved.mean())
