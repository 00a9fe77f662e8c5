"""Decisions for a recommendation that is carried out only approximately (Section 2.5.1 c of the paper)."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from gbce._checks import require_counts, require_finite
from gbce._weights import Array
from gbce.decisions._rule import Choice, Rule, Scene, best, pick
from gbce.noise import Noise, offsets, under_noise
from gbce.posterior import BudgetSpentError, GibbsPosterior

__all__ = ["CVaR", "ChanceConstrained"]

_FIRST_BLOCK = 50  # candidates asked about in the first call; later calls take more
_FALLBACKS = 20
_ROUNDING = 1e-12  # of a sum of weights


@dataclass(frozen=True)
class CVaR(Rule):
    """The draw whose loss under execution noise is least in its worst cases.

    For each candidate the mean of the losses at or above their ``tau``-quantile is taken over perturbed copies, the
    same perturbations for every candidate. With several models the loss is the one their combination stands for,
    ``potential / eta``, or every model's own.

    Parameters
    ----------
    tau : float
        The upper ``1 - tau`` share counts.
    noise : number, sequence, mapping or function, optional
        Execution noise D_r, see :class:`gbce.Evaluation`, whose noise is used when left open.
    n_perturb : int
        Perturbed copies of each candidate.
    max_candidates : int
        Distinct draws that are tried, picked at random.
    across : {"combined", "models"}
        Over what the worst cases are taken: over perturbed copies, with the models combined to one loss; or over
        perturbed copies and models jointly, each model with its weight.

    Examples
    --------
    >>> CVaR(tau=0.95).label
    'CVaR(tau=0.95)'
    """

    asks_model: ClassVar[bool] = True

    tau: float = 0.9
    noise: Noise | None = None
    n_perturb: int = 64
    max_candidates: int = 800
    across: Literal["combined", "models"] = "combined"

    def __post_init__(self) -> None:
        _require_across(self, "combined")
        require_finite(self, "tau")
        if not 0 <= self.tau < 1:
            raise ValueError(f"CVaR: tau must be at least 0 and below 1, not {self.tau!r}")
        require_counts(self, "n_perturb", "max_candidates")

    def choose(self, scene: Scene) -> Choice:
        """Choose; ties go to the smaller distance from the row."""
        posterior = scene.model(self)
        candidates = some_draws(scene, _affordable(posterior, self.max_candidates, self.n_perturb))
        x = scene.draws.pool.x[candidates]
        shifts = offsets(scene.noise if self.noise is None else self.noise, scene.space, scene.rng, self.n_perturb)
        loss = under_noise(posterior, scene.space, x, shifts).loss
        if self.across == "models":
            weights = np.tile(scene.mixture.weights, self.n_perturb)
            risk = joint_tail_mean(loss.reshape(len(x), -1), weights / weights.sum(), self.tau)
        else:
            combined = scene.mixture.effective_loss(loss.reshape(-1, loss.shape[2])).reshape(loss.shape[:2])
            risk = tail_mean(combined, self.tau)
        return pick(scene, candidates[best(risk, scene.distance(x))])


@dataclass(frozen=True)
class ChanceConstrained(Rule):
    """The draw nearest to the row that still succeeds with the given probability under execution noise.

    Candidates are gone through from the nearest outwards. One that looks promising under a few perturbations must
    hold under many fresh ones, because the best of several noisy estimates is too good to be true.

    Parameters
    ----------
    probability : float
        Least share of perturbed copies that must reach the target.
    noise : number, sequence, mapping or function, optional
        Execution noise, as in :class:`CVaR`.
    n_perturb : int
        Perturbed copies of each candidate for a first look.
    n_confirm : int
        Further copies of each promising one.
    max_candidates : int
        Distinct draws that are tried, picked at random.
    across : {"first", "models"}
        Whose verdicts count: the first model's; or those of all models on every copy, each with its weight.

    Notes
    -----
    If no candidate succeeds often enough, the one that does so most often is chosen, and a note says so.

    Examples
    --------
    >>> ChanceConstrained(0.8).label
    'ChanceConstrained(probability=0.8)'
    """

    asks_model: ClassVar[bool] = True

    probability: float = 0.9
    noise: Noise | None = None
    n_perturb: int = 64
    n_confirm: int = 512
    max_candidates: int = 800
    across: Literal["first", "models"] = "first"

    def __post_init__(self) -> None:
        _require_across(self, "first")
        require_finite(self, "probability")
        if not 0 < self.probability <= 1:
            raise ValueError(f"ChanceConstrained: probability must be above 0, at most 1, not {self.probability!r}")
        require_counts(self, "n_perturb", "n_confirm", "max_candidates")

    def choose(self, scene: Scene) -> Choice:
        """Choose the nearest candidate that holds."""
        posterior = scene.model(self)
        # each is looked at once; as much again is left for confirming
        candidates = some_draws(scene, _affordable(posterior, self.max_candidates, 2 * self.n_perturb))
        candidates = candidates[np.argsort(scene.distance(scene.draws.pool.x[candidates]), kind="stable")]
        noise = scene.noise if self.noise is None else self.noise
        shifts = offsets(noise, scene.space, scene.rng, self.n_perturb + self.n_confirm)
        few, many = shifts[: self.n_perturb], shifts[self.n_perturb :]

        def success(which: Array, shifts: Array) -> Array:
            x = scene.draws.pool.x[which]
            first = self.across == "first"
            reached = under_noise(posterior, scene.space, x, shifts, first_only=first).reached
            return reached[:, :, 0].mean(axis=1) if first else reached.mean(axis=1) @ scene.mixture.weights

        p, n = self.probability, self.n_perturb
        promising = p - np.sqrt(p * (1 - p) / n)
        looks = np.zeros(0)
        while len(looks) < len(candidates):
            block = candidates[len(looks) : 2 * len(looks) + _FIRST_BLOCK]
            share = success(block, few)
            looks = np.concatenate([looks, share])
            hopeful = block[share >= promising]
            if len(hopeful):
                holds = np.flatnonzero(success(hopeful, many) >= p - _ROUNDING)
                if len(holds):
                    return pick(scene, hopeful[holds[0]])
        best_few = candidates[np.sort(np.argsort(-looks, kind="stable")[:_FALLBACKS])]
        share = success(best_few, many)
        winner = int(np.argmax(share))  # the first of equals is the nearest
        where = "" if self.across == "first" else " and across models"
        note = (
            f"{self.label}: none of {len(candidates)} draws succeeds under noise{where} with probability {p:g}; "
            f"the best one, {share[winner]:.2f}, was taken."
        )
        return pick(scene, best_few[winner], note)


def _affordable(posterior: GibbsPosterior, most: int, rows_each: int) -> int:
    """Return how many candidates the budget allows, up to ``most``."""
    n = posterior.affords(most * rows_each) // rows_each
    if n == 0:
        raise BudgetSpentError(f"one candidate takes {rows_each} model rows")
    return n


def tail_mean(loss: Array, tau: float) -> Array:
    """Mean of the losses at or above their tau-quantile: ``(k, n)`` to ``(k,)``.

    The quantile is the smallest loss with at least a share ``tau`` of losses at or below it.
    """
    n = loss.shape[1]
    ordered = np.sort(loss, axis=1)
    var = ordered[:, max(int(np.ceil(tau * n - 1e-9)) - 1, 0)]
    tail = ordered >= var[:, None]
    return np.where(tail, ordered, 0.0).sum(axis=1) / tail.sum(axis=1)


def joint_tail_mean(loss: Array, weights: Array, tau: float) -> Array:
    """Mean of losses ``(k, n)`` at or above their tau-quantile, each with its weight ``(n,)``: ``(k,)``."""
    loss, weights = loss[:, weights > 0], weights[weights > 0]
    order = np.argsort(loss, axis=1, kind="stable")
    ordered, weight = np.take_along_axis(loss, order, axis=1), weights[order]
    place = (np.cumsum(weight, axis=1) < tau - 1e-9).sum(axis=1)
    var = np.take_along_axis(ordered, np.minimum(place, loss.shape[1] - 1)[:, None], axis=1)
    weight = np.where(ordered >= var, weight, 0.0)
    return (np.where(weight > 0, ordered, 0.0) * weight).sum(axis=1) / weight.sum(axis=1)


def _require_across(rule: Rule, default: str) -> None:
    across = getattr(rule, "across", None)
    if across not in (default, "models"):
        raise ValueError(f"{type(rule).__name__}: across must be {default!r} or 'models', not {across!r}")


def some_draws(scene: Scene, most: int) -> Array:
    """Pool positions of at most ``most`` distinct draws, picked at random in proportion to their weights."""
    where, weight = scene.draws.distinct
    if len(where) <= most:
        return where
    # Efraimidis and Spirakis: sampling without replacement in proportion to the weights
    keys = np.log(scene.rng.random(len(where))) / weight
    return np.sort(where[np.argsort(-keys, kind="stable")[:most]])
