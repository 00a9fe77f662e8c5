"""Finding eta: the smallest one at which weighted draws achieve what was asked for."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from gbce._weights import Array, effective_sample_size, normalise
from gbce.draws import Draws
from gbce.posterior import EtaGoal, Mixture

__all__ = ["Settled", "settled"]

_HALVINGS = 60
_PRECISION = 1e-4  # of eta
_LEAST = 100.0  # effective draws without which nothing is believed
_STEEPEST = 1e12


class Settled(NamedTuple):
    """An eta, and whether it achieves the goal; if not, it is the largest that could be looked at."""

    eta: float
    met: bool


def settled(draws: Draws, mixture: Mixture, goal: EtaGoal, top: float | None = None) -> Settled:
    """Search from zero to ``top``, or without it as far as the draws carry."""
    pool = draws.pool

    def weights(eta: float) -> Array:
        return normalise(draws.base - replace(mixture, eta=eta).potential(pool.loss) - pool.extra)

    def missing(eta: float) -> float:
        return goal.shortfall(pool.loss[:, 0], pool.reached[:, 0], weights(eta))

    if missing(0.0) <= 0:
        return Settled(0.0, True)
    if top is None:
        top = _carried(lambda eta: effective_sample_size(weights(eta)) >= _LEAST)
    if missing(top) > 0:
        return Settled(top, False)
    low, high = 0.0, top
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if missing(middle) > 0 else (low, middle)
        if high - low <= _PRECISION * high:
            break
    return Settled(high, True)


def _carried(enough: Callable[[float], bool]) -> float:
    """Return an eta, as large as can be, at which there are draws enough."""
    low, high = 0.0, 1.0
    while high < _STEEPEST and enough(high):
        low, high = high, 2.0 * high
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if enough(middle) else (low, middle)
    return low
