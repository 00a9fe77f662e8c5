"""A target as conditions on the scores of a tree ensemble that say exactly where it is reached, but for rounding."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from gbce.base import Array, Target
from gbce.predictors import MORE_TERMS
from gbce.search._proofs._conditions import score_of
from gbce.search._proofs._prove import sum_margin
from gbce.targets import Class
from gbce.trees import CellTrees

__all__ = ["CellWish", "wish_for"]

_OWN_DECISION = 0.5  # of a Class: the model's own decision counts
_LEAST_ROUNDING = 1e-12  # of the size of the scores: running sums over thousands of cells round more than the model's


@dataclass(frozen=True, eq=False)
class CellWish:
    """What is wanted of scores: ``q`` weighted sums of them, each at least some number, or anything else.

    Parameters
    ----------
    weights : array of shape (q, K)
        Of the scores in each sum.
    least : array of shape (q,)
        What each sum must come to; it is not looked at where ``reads`` is given.
    reads : callable, optional
        Takes sums ``(n, q)``, returns what is missing ``(n,)``, zero where the target is reached.
    """

    weights: Array
    least: Array
    reads: Callable[[Array], Array] | None = None

    def missing(self, sums: Array) -> Array:
        """Return what is missing ``(n,)`` where the sums are ``(n, q)``: zero where the target is reached."""
        if self.reads is not None:
            return self.reads(sums)
        if len(self.least) == 1:
            return np.maximum(self.least[0] - sums[:, 0], 0.0)
        by_sum = (np.maximum(least - sums[:, k], 0.0) for k, least in enumerate(self.least.tolist()))
        return np.asarray(sum(by_sum))  # many times quicker than along short rows

    def beyond(self, room: float) -> "CellWish":
        """Return the wish for ``room`` more, or less if it is negative."""
        return replace(self, least=self.least + room)

    def rounding(self, trees: CellTrees) -> float:
        """Return by how much sums may differ from the model's own, whose terms are added in another order."""
        epsilon = max(trees.epsilon, _LEAST_ROUNDING / (MORE_TERMS + trees.n_trees))
        margin = sum_margin(trees.tree, trees.value, trees.base, epsilon, trees.n_trees, self.weights)
        return float(margin.max(initial=0.0))


def wish_for(trees: CellTrees, target: Target, margin: float = 0.0) -> CellWish | None:
    """Return what a target wants of scores; None where weighted sums cannot say it.

    Parameters
    ----------
    trees : CellTrees
        With link and classes of the model.
    target : Target
        With its numbers filled in.
    margin : float
        How far beyond the boundary, in units of the output.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from gbce import Space
    >>> from gbce.predictors import look_inside
    >>> from gbce.trees import read_cells
    >>> x = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> model = DecisionTreeClassifier(random_state=0).fit(x, ["no", "no", "yes", "no"])
    >>> trees = read_cells(look_inside(model, Space.real(1)), Space.real(1), x)
    >>> wish_for(trees, Class("yes")).weights
    array([[-1.,  1.]])
    """
    inside, n_scores = trees.inside, len(trees.base)
    if isinstance(target, Class):
        classes = list(inside.classes or ())
        if target.label not in classes:
            return None
        wanted = classes.index(target.label)
        low, high = target.accepted()
        if target.probability == _OWN_DECISION and margin == 0:
            return _for_decision(inside.link, wanted, n_scores)
        if inside.link == "logistic":
            return _between(low + margin, min(high - margin, np.inf), "logistic", np.array([1.0 if wanted else -1.0]))
        if inside.link == "identity" and n_scores == len(classes):
            return _between(low + margin, high - margin, "identity", np.eye(n_scores)[wanted])
        return None
    if inside.classes is not None or n_scores != 1:
        return None
    try:
        low, high = target.accepted()
    except TypeError:
        return None
    return _between(low + margin, high - margin, inside.link, np.ones(1))


def _for_decision(link: str, wanted: int, n_scores: int) -> CellWish | None:
    if link == "logistic":
        return CellWish(np.array([[1.0 if wanted else -1.0]]), np.zeros(1))
    unit = np.eye(n_scores)
    rows = np.array([unit[wanted] - unit[k] for k in range(n_scores) if k != wanted])
    return CellWish(rows, np.zeros(len(rows))) if len(rows) else None


def _between(low: float, high: float, link: str, score: Array) -> CellWish | None:
    """Return the wish for an output of one score that lies between two numbers."""
    rows, least = [], []
    for sign, end in ((1.0, low), (-1.0, high)):
        place = score_of(end, link, sign) if np.isfinite(end) else None
        if place is None:  # every score is on its right side
            continue
        rows.append(sign * score)
        least.append(sign * place)
    return CellWish(np.array(rows), np.array(least)) if rows and np.isfinite(least).all() else None
