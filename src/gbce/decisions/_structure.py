"""Search and prove the nearest point on the cells of a tree ensemble, without calling the model."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gbce.base import Array, Outputs, Rule, Target
from gbce.budget import BudgetSpentError
from gbce.draws import Scene
from gbce.metrics import costs
from gbce.posterior import Evaluated, GibbsPosterior
from gbce.search import Judged, NearestPoints
from gbce.targets import Class
from gbce.trees import (
    CellTrees,
    Proof,
    ScoreConstraints,
    describe_cheapest,
    find_nearest_cells,
    price_units,
    prove_cheapest,
    reachable_cells,
    score_constraints,
)

# Probabilities are compared by log-odds, in which many classifiers are additive; a forest's zero counts as one vote in
# a thousand. Chosen by hand: it only orders the points of a search.
_LEAST_ODDS = 1e-3
_LEAST_SHORTFALL = 1e-12  # where the target is not reached, however close the output is
NO_PROOF = (
    "a proof needs a tree ensemble that can be read as cells, a target on one output or class, and enough budget to "
    "search them."
)

# --- reaching a target -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reaching:
    """Whether the first model reaches ``target`` with ``margin`` to spare (see :class:`gbce.Nearest`)."""

    target: Target
    margin: float = 0.0

    def require(self, rule: Rule) -> None:
        """Refuse a margin that does not fit into the target, or is not defined for it."""
        if self.margin == 0:
            return
        name = type(self.target).__name__
        try:
            low, high = self.target.accepted()
        except TypeError:
            raise ValueError(
                f"{rule.label}: margin needs a target on a single output, which {name} is not; leave margin at 0, "
                "and set a stricter target instead"
            ) from None
        room = min(high, 1.0) if self.target.reads_classes else high
        if low + self.margin > room or (np.isfinite(high) and low + self.margin > high - self.margin):
            raise ValueError(
                f"{rule.label}: no output is that far inside the target ({self.target.describe()}), which accepts "
                f"{low:g} to {room:g}; ask for a smaller margin"
            )

    @property
    def has_margin(self) -> bool:
        """Whether the shortfall tells how far a point exceeds the target, as it does for a single output."""
        return self._accepted_range() is not None

    def judge(self, evaluated: Evaluated) -> Judged:
        """Compute the shortfall of evaluated points, and whether they reach the target, by the first model."""
        output, loss = evaluated.outputs[:, 0], evaluated.loss[:, 0]
        reached = evaluated.reached[:, 0].astype(bool)
        accepted = self._accepted_range()
        if accepted is None:
            return Judged(loss, reached)
        low, high = accepted
        if self.margin > 0:
            reached = reached & (output >= low) & (output <= high)
        with np.errstate(over="ignore", invalid="ignore"):  # outputs near the limits of floats
            shortfall = np.maximum(
                self._comparison_scale(low) - self._comparison_scale(output),
                self._comparison_scale(output) - self._comparison_scale(high),
            )
        return Judged(shortfall, reached)

    def _accepted_range(self) -> tuple[float, float] | None:
        """Return the lowest and highest accepted output, less the margin; ``None`` without a single output."""
        try:
            low, high = self.target.accepted()
        except TypeError:
            return None
        return low + self.margin, high - self.margin

    def _comparison_scale(self, output: float | Array) -> Array:
        """Return outputs on the scale on which they are compared: log-odds for probabilities."""
        if not self.target.reads_classes:
            return np.asarray(output, dtype=float)
        p = np.clip(output, _LEAST_ODDS, 1.0 - _LEAST_ODDS)
        return np.asarray(np.where(np.isinf(output), output, np.log(p / (1.0 - p))))


# --- search on cells -------------------------------------------------------------------------------------------------


def seek_on_cells(
    scene: Scene,
    posterior: GibbsPosterior,
    reaching: Reaching,
    starts: Array,
    *,
    power: int,
    most_changes: int | None,
    path: int,
) -> Iterator[NearestPoints]:
    """Yield cheap points that reach by the leaves of a readable first model, then ones strictly inside the boundary."""
    first, target = posterior.predictors[0], reaching.target
    if target.reads_classes and first.decide_always:  # by a rule of its own that leaves do not show
        return
    trees = posterior.read_trees()
    reachable = None if trees is None else reachable_cells(
        trees, scene.space, scene.x0, price_units(scene.space, scene.x0, "l2" if power == 2 else "l1")
    )  # fmt: skip
    if trees is None or reachable is None:
        return
    constraints = score_constraints(trees.inside, target, reaching.margin)
    variants = (
        [_constrain_outputs(trees, posterior, reaching)]
        if constraints is None or not constraints.exact
        else _handle_ties(trees, reaching, constraints)
    )
    for variant in variants:
        yield find_nearest_cells(trees, reachable, variant, starts, power=power, most_changes=most_changes, path=path)


def _handle_ties(trees: CellTrees, reaching: Reaching, constraints: ScoreConstraints) -> list[ScoreConstraints]:
    """Return the constraints with the boundary and without it; where votes tie, the first class wins."""
    room, target = constraints.rounding(trees), reaching.target
    with_ties, beyond = constraints.beyond(-room), constraints.beyond(room)
    votes = isinstance(target, Class) and trees.inside.link == "identity" and len(constraints.least) > 0
    if votes and list(trees.inside.classes or ()).index(target.label) > 0:  # type: ignore[attr-defined]
        return [beyond]
    return [with_ties, beyond]


def _constrain_outputs(trees: CellTrees, posterior: GibbsPosterior, reaching: Reaching) -> ScoreConstraints:
    """Return constraints by the shortfall of outputs, for targets that are not linear in the scores."""
    first = posterior.predictors[0]
    plain = replace(posterior, budget=replace(posterior.budget, ceiling=None))

    def compute_shortfall(scores: Array) -> Array:
        values = trees.inside.link_scores(scores)
        decided = values.argmax(axis=1) if first.classes is not None and values.ndim == 2 else None
        judged = reaching.judge(plain.read([Outputs(values, first.classes, decided, first.name)]))
        shortfall = np.where(np.isfinite(judged.gap), judged.gap, np.finfo(float).max)
        return np.where(judged.reached, 0.0, np.maximum(shortfall, _LEAST_SHORTFALL))

    n_scores = len(trees.base)
    return ScoreConstraints(np.eye(n_scores), np.zeros(n_scores), compute_shortfall)


# --- proof -----------------------------------------------------------------------------------------------------------


def prove_nearest(
    scene: Scene,
    posterior: GibbsPosterior,
    rule: Any,
    x: Array,
    accepts: Callable[[Array], Array],
    readable: float,
) -> tuple[Array, Proof | None]:
    """Return the cheapest point known, at first ``x`` ``(d,)``, with a proof of a bound on the cost of all others."""
    space, x0, first = scene.space, scene.x0, replace(posterior, predictors=posterior.predictors[:1])
    if posterior.target.reads_classes and posterior.predictors[0].decide_always:  # by a threshold of its own
        return x, None
    found = None
    with suppress(BudgetSpentError):
        trees = posterior.read_trees()
        found = None if trees is None else prove_cheapest(
            trees, space, x0, posterior.target, x, accepts, distance=rule.distance, margin=rule.margin,
            most_changes=rule.max_changes, late=lambda: first.affords(1) < 1,
            solver=not posterior.budget.limited,
        )  # fmt: skip
    if found is None or trees is None:
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
    return x, replace(proof, sentence=describe_cheapest(proof, trees.inside.parts.origin, rule.distance, under))


def _cost(scene: Scene, distance: str, x: Array) -> float:
    """Return the distance of one point ``(d,)`` from the row."""
    if distance == "changes":
        own = ~scene.space.is_computed
        return float(np.count_nonzero(scene.space.changed(x[None, :], scene.x0)[0, own]))
    return float(costs(scene.space, x[None, :], scene.x0, distance)[0])
