"""What rules under execution noise share: their candidates, the noise, and the mean of the worst losses."""

from dataclasses import dataclass

import numpy as np

from gbce._numerics import SHARE_ROUNDING
from gbce.base import Array, Rule
from gbce.budget import BudgetSpentError
from gbce.draws import Scene
from gbce.metrics import Noise, evaluate_under_noise, offsets
from gbce.posterior import Evaluated, GibbsPosterior

__all__ = ["UnderNoise", "count_affordable", "pick_draws", "require_across", "require_switch", "tail_mean"]


@dataclass(frozen=True)
class UnderNoise:
    """Points under execution noise.

    Parameters
    ----------
    scene : Scene
        What was asked; its stream of randomness gives the offsets.
    posterior : GibbsPosterior
        With the models.
    noise : number, sequence, mapping or function, optional
        Of a rule; the evaluation's where it is left open.
    first_only : bool
        Whether only the first model is asked.
    """

    scene: Scene
    posterior: GibbsPosterior
    noise: Noise | None
    first_only: bool = False

    def draw_offsets(self, n: int) -> Array:
        """Draw ``n`` offsets ``(n, d)``."""
        noise = self.scene.noise if self.noise is None else self.noise
        return offsets(noise, self.scene.space, self.scene.rng, n)

    def evaluate(self, x: Array, shifts: Array) -> Evaluated:
        """Evaluate points ``(k, d)`` under the same offsets ``(n, d)``: arrays ``(k, n, K)``, in few model calls."""
        return evaluate_under_noise(self.posterior, self.scene.space, x, shifts, first_only=self.first_only)

    def success(self, x: Array, shifts: Array) -> Array:
        """Return the share of successes ``(k,)`` of points under the same offsets, models with their weights."""
        return self.successes(x, shifts).mean(axis=1)

    def successes(self, x: Array, shifts: Array) -> Array:
        """Return the success ``(k, n)`` of points under the same offsets: of several models, the share of them."""
        reached = self.evaluate(x, shifts).reached
        return reached[:, :, 0].astype(float) if self.first_only else reached @ self.scene.mixture.weights


def count_affordable(posterior: GibbsPosterior, most: int, rows_each: int) -> int:
    """Return how many candidates the budget allows, up to ``most``."""
    n = posterior.affords(most * rows_each) // rows_each
    if n == 0:
        raise BudgetSpentError(f"one candidate takes {rows_each} model rows: raise max_model_rows or time_budget")
    return n


def tail_mean(loss: Array, tau: float, weights: Array | None = None) -> Array:
    """Mean of the losses ``(k, n)`` at or above their tau-quantile, with weights ``(n,)`` if they differ: ``(k,)``.

    The quantile is the smallest loss with at least a share ``tau`` of the weights at or below it.
    """
    weights = np.ones(loss.shape[1]) if weights is None else weights
    loss, weights = loss[:, weights > 0], weights[weights > 0]
    if (weights == weights[:1]).all():  # in any order they are the same
        ordered, weight = np.sort(np.ascontiguousarray(loss), axis=1, kind="stable"), weights[None, :]
    else:
        order = np.argsort(loss, axis=1, kind="stable")
        ordered, weight = np.take_along_axis(loss, order, axis=1), weights[order]
    place = (np.cumsum(weight, axis=1) < tau * weights.sum() - SHARE_ROUNDING).sum(axis=1)
    var = np.take_along_axis(ordered, np.minimum(place, loss.shape[1] - 1)[:, None], axis=1)
    weight = np.where(ordered >= var, weight, 0.0)
    return (np.where(weight > 0, ordered, 0.0) * weight).sum(axis=1) / weight.sum(axis=1)


def pick_draws(scene: Scene, most: int, where: Array | None = None, weight: Array | None = None) -> Array:
    """Pool positions of at most ``most`` distinct draws, or of ``where``, at random in proportion to their weights."""
    if where is None or weight is None:
        where, weight = scene.draws.distinct
    if len(where) <= most:
        return where
    # Efraimidis and Spirakis (2006): sampling without replacement in proportion to the weights
    keys = np.log(scene.rng.random(len(where))) / weight
    return np.sort(where[np.argsort(-keys, kind="stable")[:most]])


def require_across(rule: Rule, default: str) -> None:
    """Refuse anything but the two ways in which a rule may look at several models."""
    across = getattr(rule, "across", None)
    if across not in (default, "models"):
        raise ValueError(f"{type(rule).__name__}: across must be {default!r} or 'models', not {across!r}")


def require_switch(rule: Rule, *names: str) -> None:
    """Refuse anything but true and false as the value of an option."""
    for name in names:
        value = getattr(rule, name)
        if not isinstance(value, (bool, np.bool_)):
            raise ValueError(f"{type(rule).__name__}: {name} must be True or False, not {value!r}")
