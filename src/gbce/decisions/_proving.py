"""A nearest point with a proof: how much cheaper anything else can be that reaches the target."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from gbce.base import Array
from gbce.budget import BudgetSpentError
from gbce.draws import Scene
from gbce.metrics import costs
from gbce.posterior import GibbsPosterior
from gbce.search import Proof, prove_cheapest, say_cheapest

__all__ = ["NO_PROOF", "prove_nearest"]

NO_PROOF = (
    "that takes a tree ensemble that can be read as cells, a target on one output or class, and a budget that lets it "
    "be looked at."
)


def prove_nearest(
    scene: Scene,
    posterior: GibbsPosterior,
    rule: Any,
    x: Array,
    accepts: Callable[[Array], Array],
    readable: float,
) -> tuple[Array, Proof | None]:
    """Return a point that reaches, as cheap as can be, and a proof of what it can cost at least.

    Parameters
    ----------
    scene : Scene
        What was asked.
    posterior : GibbsPosterior
        With the models, and what may be spent.
    rule : Nearest
        With distance, margin and number of changes.
    x : array of shape (d,)
        The cheapest point that a search found.
    accepts : callable
        Takes points ``(n, d)``, returns whether the model itself accepts them.
    readable : float
        Share of the cost that numbers of few digits may add: a cheaper point is taken where it saves more.
    """
    space, x0, first = scene.space, scene.x0, replace(posterior, predictors=posterior.predictors[:1])
    if posterior.target.reads_classes and posterior.predictors[0].decide_always:  # by a threshold of its own
        return x, None
    try:
        trees = posterior.read_trees()
        if trees is None:
            return x, None
        found = prove_cheapest(
            trees, space, x0, posterior.target, x, accepts, distance=rule.distance, margin=rule.margin,
            most_changes=rule.max_changes, late=lambda: first.affords(1) < 1,
        )  # fmt: skip
    except BudgetSpentError:
        return x, None
    if found is None:
        return x, None
    cost = _cost(scene, rule.distance, x)
    optimum = None if found.x is None else _cost(scene, rule.distance, found.x)
    if found.x is not None and optimum is not None and optimum < (1.0 - readable) * cost:
        x, cost = found.x, optimum
    proof = Proof(
        "trees", "", boxes=found.boxes, lower=min(found.lower, cost), cost=cost, least_changes=found.least_changes,
        optimum=optimum,
    )  # fmt: skip
    limits = [] if rule.max_changes is None else [f"at most {rule.max_changes} changed features"]
    limits += [] if rule.margin == 0 else [f"a margin of {rule.margin:g}"]
    under = f" with {' and '.join(limits)}" if limits else ""
    return x, replace(proof, sentence=say_cheapest(proof, trees.inside.parts.origin, rule.distance, under))


def _cost(scene: Scene, distance: str, x: Array) -> float:
    if distance == "changes":
        own = ~scene.space.is_computed
        return float(np.count_nonzero(scene.space.changed(x[None, :], scene.x0)[0, own]))
    return float(costs(scene.space, x[None, :], scene.x0, distance)[0])
