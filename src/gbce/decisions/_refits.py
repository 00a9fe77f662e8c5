"""Refitted models in two halves: one takes part in choosing a point, the other confirms it."""

from dataclasses import dataclass, field, replace

import numpy as np

from gbce._numerics import SHARE_ROUNDING
from gbce.base import Array
from gbce.decisions._trials import lower_bound
from gbce.draws import Scene
from gbce.metrics import Noise, evaluate_under_noise, offsets
from gbce.posterior import GibbsPosterior

__all__ = ["FEWEST_TO_SPLIT", "Confirming", "refit_share", "split_refits"]

FEWEST_TO_SPLIT = 12
_ORDER = 0  # seed of the order in which they are split: the same for all rows, whatever order they were given in


def split_refits(refits: GibbsPosterior) -> tuple[GibbsPosterior, GibbsPosterior | None]:
    """Return the refits that choose, and those that confirm; of too few all choose."""
    n = len(refits.predictors)
    if n < FEWEST_TO_SPLIT:
        return refits, None
    order = np.random.default_rng(_ORDER).permutation(n)
    return _only(refits, np.sort(order[: n // 2])), _only(refits, np.sort(order[n // 2 :]))


def _only(refits: GibbsPosterior, which: Array) -> GibbsPosterior:
    weights = refits.mixture.weights[which]
    equal = np.full(len(which), 1 / len(which))  # of models that count for nothing each is as good as another
    mixture = replace(refits.mixture, weights=weights / weights.sum() if weights.sum() > 0 else equal)
    return replace(refits, predictors=tuple(refits.predictors[k] for k in which), mixture=mixture)


def refit_share(scene: Scene, noise: Noise | None, x: Array, copies: int, spread: float = 1.0) -> Array:
    """Return how often refitted models accept points ``(k, d)`` under noise, each with its weight: ``(k,)``.

    Noise is so many times as wide as it is said to be.
    """
    refits = scene.refits
    assert refits is not None
    drawn = spread * offsets(scene.noise if noise is None else noise, scene.space, scene.rng, copies)
    reached = evaluate_under_noise(refits, scene.space, x, drawn).reached
    return np.asarray(reached.mean(axis=1) @ refits.mixture.weights)


@dataclass
class Confirming:
    """Refits that had no part in choosing say of one point after another whether it keeps the promise.

    The first point has to be accepted by the share that is promised. Each further one has to show as much at half of
    the risk, which takes a greater share: the first to be lucky among many would be no better than one that was chosen.

    Parameters
    ----------
    scene : Scene
        What was asked, with these refits.
    probability : float
        What is promised.
    risk : float
        Of confirming a point that falls short of what the first has to show, over all of them together.
    """

    scene: Scene
    probability: float
    risk: float
    needed: list[float] = field(default_factory=list)  # shares that the points asked about so far had to be accepted by

    @property
    def n(self) -> int:
        """How many refits there are."""
        assert self.scene.refits is not None
        return len(self.scene.refits.predictors)

    @property
    def next_needed(self) -> float:
        """The share that the next point has to be accepted by; above one where none can be confirmed any more."""
        shown = lower_bound(self.probability, self.n, self.risk / 2)
        risk = self.risk / 2 ** (len(self.needed) + 1)
        shares = np.linspace(self.probability, 1.0, 101)
        enough = [s for s in shares.tolist() if lower_bound(s, self.n, risk) >= shown - SHARE_ROUNDING]
        return enough[0] if enough else np.inf

    def confirm(self, x: Array, noise: Noise | None, copies: int) -> bool:
        """Whether enough of the refits accept one point ``(d,)`` under noise."""
        share = float(refit_share(self.scene, noise, x[None, :], copies)[0])
        self.needed.append(self.next_needed)
        return share >= self.needed[-1] - SHARE_ROUNDING

    def say_failure(self) -> str:
        """Say what kept the last point from being confirmed, if it is not to be seen by its share."""
        asked, needed = len(self.needed), self.needed[-1]
        return f"It is number {asked} of the points that they were asked to confirm, which takes {100 * needed:.0f}%."
