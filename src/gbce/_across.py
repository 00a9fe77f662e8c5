"""An explanation put to further models and to noise: what survives a refit, and what reliability costs."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from gbce._budget import Budget
from gbce._reference import Reference
from gbce._seeds import JUDGING, stream
from gbce._weights import Array
from gbce.explanation import Explanation
from gbce.metrics import at_levels, costs, frontier_table, near_front, pareto, survival
from gbce.noise import Noise, offsets, require_noise, under_noise
from gbce.posterior import GibbsPosterior
from gbce.predictors import Predictor, as_predictor
from gbce.space import Space
from gbce.targets import Class, Target

__all__ = ["held_out", "noisy_frontier", "survived", "with_models"]

_MOST = 200  # candidates that are looked at again


def held_out(models: Any, space: Space, data: Array, target: Target) -> tuple[Predictor, ...]:
    """Wrap models that an explainer does not have, ready for a target; ``data`` ``(n, d)`` as it was encoded."""
    listed = list(models) if isinstance(models, (list, tuple)) else [models]
    if not listed:
        raise ValueError("models is an empty list; give at least one fitted model")
    predictors = tuple(as_predictor(model, space) for model in listed)
    if isinstance(target, Class):
        predictors = Reference.of(data, space.discrete).as_classifiers(predictors, Budget())
    return predictors


def survived(explanation: Explanation, posterior: GibbsPosterior) -> pd.DataFrame:
    """Put decisions and draws to the posterior's models; see :meth:`gbce.Explainer.survival`."""
    draws, decisions = explanation.draws, explanation.decisions
    where = draws.distinct[0]
    decided = np.array([decision.x for decision in decisions]).reshape(-1, len(explanation.space))
    reached = np.zeros((0, len(posterior.predictors)), dtype=bool)
    if len(decided):
        reached = posterior.evaluate(decided, own_decision=True).reached
    drawn = posterior.evaluate(draws.pool.x[where]).reached
    table = survival(tuple(decision.label for decision in decisions), reached, draws, drawn)
    before = [float(decision.reached[0]) for decision in decisions]
    table.insert(0, "before", [*before, float(explanation.distribution["success_probability"])])
    return table.assign(n_models=len(posterior.predictors))


def noisy_frontier(
    explanation: Explanation,
    posterior: GibbsPosterior,
    *,
    noise: Noise | None,
    n_perturb: int,
    n_confirm: int,
    max_candidates: int,
    distance: str,
    levels: Sequence[float] | None,
) -> pd.DataFrame:
    """Return the frontier under the posterior's models and noise; see :meth:`gbce.Explainer.frontier`.

    The best of many noisy shares is too good to be true, so three sets of offsets are drawn: one to find points that
    may be on the front, one to choose among these, one to report the chosen ones by.
    """
    for name, n in (("n_perturb", n_perturb), ("n_confirm", n_confirm), ("max_candidates", max_candidates)):
        if not isinstance(n, (int, np.integer)) or isinstance(n, bool) or n < 1:
            raise ValueError(f"{name} must be a whole number of at least 1, not {n!r}")
    at_levels(np.zeros(0), levels)
    space, x0, rng = explanation.space, explanation.x0, stream(explanation.seed, JUDGING)
    x = candidates(explanation, max_candidates, rng)
    cost = costs(space, x, x0, distance)
    weights = posterior.mixture.weights

    def share(which: Array, shifts: Array) -> tuple[Array, Array]:
        reached = under_noise(posterior, space, x[which], shifts).reached @ weights
        mean, n = reached.mean(axis=1), len(shifts)
        # one copy more that goes the other way: few failures in many copies are not none, nor exactly so few
        inner = np.square(reached - mean[:, None]).sum(axis=1) + 1.0
        return mean, np.sqrt(inner) / n

    if noise is None:
        exact = np.zeros((1, len(space)))
        reliability = share(np.arange(len(x)), exact)[0]
        which = pareto(reliability, cost)
        which = which[at_levels(reliability[which], levels)]
        return frontier_table(space, x[which], reliability[which], np.zeros(len(which)), cost[which])
    require_noise(noise, space)
    shifts = offsets(noise, space, rng, n_perturb + 2 * n_confirm)
    looked = share(np.arange(len(x)), shifts[:n_perturb])[0]
    hopeful = near_front(looked, cost, n_perturb, _MOST)
    if len(hopeful) == 0:
        return frontier_table(space, x[:0], np.zeros(0), np.zeros(0), cost[:0])
    chosen = hopeful[pareto(share(hopeful, shifts[n_perturb : n_perturb + n_confirm])[0], cost[hopeful])]
    if len(chosen) == 0:
        return frontier_table(space, x[:0], np.zeros(0), np.zeros(0), cost[:0])
    reliability, se = share(chosen, shifts[n_perturb + n_confirm :])
    front = pareto(reliability, cost[chosen])
    front = front[at_levels(reliability[front], levels)]
    return frontier_table(space, x[chosen[front]], reliability[front], se[front], cost[chosen[front]])


def candidates(explanation: Explanation, most: int, rng: np.random.Generator) -> Array:
    """Return the row and at most ``most`` distinct draws ``(n, d)``, picked at random by weight, and the decisions."""
    where, weight = explanation.draws.distinct
    if len(where) > most:
        where = np.sort(rng.choice(where, size=most, replace=False, p=weight / weight.sum()))
    decided = np.array([decision.x for decision in explanation.decisions]).reshape(-1, len(explanation.space))
    return np.vstack([explanation.row.x, explanation.draws.pool.x[where], decided])


def with_models(posterior: GibbsPosterior, predictors: tuple[Predictor, ...], weights: Array) -> GibbsPosterior:
    """Return the posterior's question put to other models."""
    return replace(posterior, predictors=predictors, mixture=replace(posterior.mixture, weights=weights))
