"""Refitted models in two halves: one takes part in choosing a point, the other confirms it."""

from dataclasses import replace

import numpy as np

from gbce._numerics import SHARE_ROUNDING
from gbce.base import Array
from gbce.decisions._trials import lower_bound
from gbce.draws import Scene
from gbce.metrics import Noise, evaluate_under_noise, offsets
from gbce.posterior import GibbsPosterior

__all__ = ["FEWEST_TO_CONFIRM", "SPREADS", "confirms", "refit_share", "refit_shares", "split_refits"]

# Measured on rows of the breast cancer and diabetes tables: of points that 6 others had confirmed for 6 refits, 3 of 36
# kept less than 0.88 of 50 unseen refits where 0.9 was asked for; of those that 10 or 12 had confirmed, none of 94.
FEWEST_TO_CONFIRM = 10
# Times the noise under which refits choose a point, each where the one before was not confirmed: what holds under wider
# noise is further from where models disagree. Chosen by hand.
SPREADS = (1.0, 2.0, 4.0)
_ORDER = 0  # seed of the order in which they are split: the same for all rows, whatever order they were given in


def split_refits(refits: GibbsPosterior) -> tuple[GibbsPosterior, GibbsPosterior | None]:
    """Return the refits that choose, and those that confirm; of too few all choose."""
    n = len(refits.predictors)
    if n < 2 * FEWEST_TO_CONFIRM:
        return refits, None
    order = np.random.default_rng(_ORDER).permutation(n)
    return _only(refits, np.sort(order[: n // 2])), _only(refits, np.sort(order[n // 2 :]))


def _only(refits: GibbsPosterior, which: Array) -> GibbsPosterior:
    weights = refits.mixture.weights[which]
    equal = np.full(len(which), 1 / len(which))  # of models that count for nothing each is as good as another
    mixture = replace(refits.mixture, weights=weights / weights.sum() if weights.sum() > 0 else equal)
    return replace(refits, predictors=tuple(refits.predictors[k] for k in which), mixture=mixture)


def refit_shares(scene: Scene, noise: Noise | None, x: Array, copies: int, spread: float = 1.0) -> Array:
    """Return how often each of ``R`` refitted models accepts points ``(k, d)`` under noise: ``(k, R)``.

    Noise is so many times as wide as it is said to be.
    """
    refits = scene.refits
    assert refits is not None
    drawn = spread * offsets(scene.noise if noise is None else noise, scene.space, scene.rng, copies)
    return np.asarray(evaluate_under_noise(refits, scene.space, x, drawn).reached.mean(axis=1))


def refit_share(scene: Scene, noise: Noise | None, x: Array, copies: int, spread: float = 1.0) -> Array:
    """Return how often they accept points ``(k, d)`` on average, each with its weight: ``(k,)``."""
    assert scene.refits is not None
    return refit_shares(scene, noise, x, copies, spread) @ scene.refits.mixture.weights


def confirms(shares: Array, weights: Array, probability: float, confidence: float) -> bool:
    """Whether enough of refits accept a point, from how often each of them does so under noise ``(R,)``.

    Each has to accept it with the probability or more; the lower confidence bound of the share that does must be the
    probability, and of too few to show that, all have to. As some points may be put to this one after the other, each
    has a part of the risk: the luckiest of several would be no better than one that these refits chose.
    """
    risk, n = (1.0 - confidence) / len(SPREADS), len(shares)
    accepting = float((shares >= probability - SHARE_ROUNDING) @ weights)
    enough = min(probability, lower_bound(1.0, n, risk))
    return lower_bound(accepting, n, risk) >= enough - SHARE_ROUNDING
