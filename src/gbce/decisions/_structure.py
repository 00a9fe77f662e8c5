"""The search for the nearest point on the cells of a tree ensemble, for one question: no model is asked."""

from collections.abc import Callable, Iterator
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
    find_nearest_cells,
    price_units,
    prove_cheapest,
    reachable_cells,
    say_cheapest,
    score_constraints,
)

__all__ = ["NO_PROOF", "Reaching", "prove_nearest", "seek_on_cells"]

# --- what it is to reach a target with a margin, and how much is missing where it is not reached ---------------------

# Probabilities are compared by their log-odds, in which many classifiers add up what features say; a forest's zero is
# taken as one vote in a thousand. By hand: it orders points of a search, nothing else.
_LEAST_ODDS = 1e-3


@dataclass(frozen=True)
class Reaching:
    """Whether the first model reaches a target, by ``margin`` more than it has to.

    Parameters
    ----------
    target : Target
        With its numbers filled in.
    margin : float
        In units of the output, see :class:`gbce.Nearest`.
    """

    target: Target
    margin: float = 0.0

    def require(self, rule: Rule) -> None:
        """Refuse a margin that the target has no room for, or does not know."""
        if self.margin == 0:
            return
        name = type(self.target).__name__
        try:
            low, high = self.target.accepted()
        except TypeError:
            raise ValueError(
                f"{rule.label}: margin is a distance of one output from what is accepted, which {name} does not say; "
                "leave margin at 0, and ask for more in the target itself"
            ) from None
        room = min(high, 1.0) if self.target.reads_classes else high
        if low + self.margin > room or (np.isfinite(high) and low + self.margin > high - self.margin):
            raise ValueError(
                f"{rule.label}: no output is that far inside the target ({self.target.describe()}), which accepts "
                f"{low:g} to {room:g}; ask for a smaller margin"
            )

    def judge(self, said: Evaluated) -> Judged:
        """Return what is missing at evaluated points, and whether they reach, by the first model."""
        output, loss, reached = said.outputs[:, 0], said.loss[:, 0], said.reached[:, 0].astype(bool)
        accepted = self._accepted()
        if accepted is None:
            return Judged(loss, reached)
        low, high = accepted
        if self.margin > 0:
            reached = reached & (output >= low) & (output <= high)
        with np.errstate(over="ignore", invalid="ignore"):  # outputs at both ends of what doubles hold
            gap = np.maximum(self._place(low) - self._place(output), self._place(output) - self._place(high))
        return Judged(gap, reached)

    def _accepted(self) -> tuple[float, float] | None:
        """Return the lowest and the highest output that are far enough inside; none if the output does not tell."""
        try:
            low, high = self.target.accepted()
        except TypeError:
            return None
        return low + self.margin, high - self.margin

    def _place(self, output: float | Array) -> Array:
        """Return outputs on the scale on which they are compared."""
        if not self.target.reads_classes:
            return np.asarray(output, dtype=float)
        p = np.clip(output, _LEAST_ODDS, 1.0 - _LEAST_ODDS)
        return np.asarray(np.where(np.isinf(output), output, np.log(p / (1.0 - p))))


# --- the search for the nearest point on the cells of a tree ensemble, for one question ------------------------------

_LEAST_MISSING = 1e-12  # where a target is not reached, whatever else is said of it


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
    """Yield cheap points that reach by the leaves of the first model, if it is a tree ensemble that can be read.

    The first points may lie on the very boundary, where rounding decides; if the model denies them, those that come
    next lie beyond it.

    Parameters
    ----------
    scene : Scene
        What was asked and drawn.
    posterior : GibbsPosterior
        With the models.
    reaching : Reaching
        The target and a margin.
    starts : array of shape (s, d)
        Points that may reach.
    power, most_changes, path
        As in :func:`gbce.search.find_nearest_cells`.
    """
    first, target = posterior.predictors[0], reaching.target
    if target.reads_classes and first.decide_always:  # by a rule of its own, which leaves do not tell
        return
    trees = posterior.read_trees()
    reachable = None if trees is None else reachable_cells(
        trees, scene.space, scene.x0, price_units(scene.space, scene.x0, power)
    )  # fmt: skip
    if trees is None or reachable is None:
        return
    constraints = score_constraints(trees, target, reaching.margin)
    wishes = (
        [_read_outputs(trees, posterior, reaching)]
        if constraints is None
        else _around_ties(trees, reaching, constraints)
    )
    for one in wishes:
        yield find_nearest_cells(trees, reachable, one, starts, power=power, most_changes=most_changes, path=path)


def _around_ties(trees: CellTrees, reaching: Reaching, constraints: ScoreConstraints) -> list[ScoreConstraints]:
    """Return the wish with the boundary and, after it, without; where votes tie, the first of the classes wins."""
    room, target = constraints.rounding(trees), reaching.target
    with_ties, beyond = constraints.beyond(-room), constraints.beyond(room)
    votes = isinstance(target, Class) and trees.inside.link == "identity" and len(constraints.least) > 0
    if votes and list(trees.inside.classes or ()).index(target.label) > 0:  # type: ignore[attr-defined]
        return [beyond]
    return [with_ties, beyond]


def _read_outputs(trees: CellTrees, posterior: GibbsPosterior, reaching: Reaching) -> ScoreConstraints:
    """Return a wish that reads outputs as the target does, for targets that weighted sums cannot say."""
    first = posterior.predictors[0]
    plain = replace(posterior, budget=replace(posterior.budget, ceiling=None))

    def missing(scores: Array) -> Array:
        values = trees.inside.link_scores(scores)
        decided = values.argmax(axis=1) if first.classes is not None and values.ndim == 2 else None
        said = reaching.judge(plain.read([Outputs(values, first.classes, decided, first.name)]))
        gap = np.where(np.isfinite(said.gap), said.gap, np.finfo(float).max)
        return np.where(said.reached, 0.0, np.maximum(gap, _LEAST_MISSING))

    n_scores = len(trees.base)
    return ScoreConstraints(np.eye(n_scores), np.zeros(n_scores), missing)


# --- a nearest point with a proof ------------------------------------------------------------------------------------

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
