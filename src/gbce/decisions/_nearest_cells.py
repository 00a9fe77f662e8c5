"""The search for the nearest point on the cells of a tree ensemble, for one question: no model is asked."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from gbce.base import Array, Outputs
from gbce.decisions._reaching import Reaching
from gbce.draws import Scene
from gbce.posterior import GibbsPosterior
from gbce.search import CellWish, NearestSites, find_nearest_cells, offer_cells, price_units, wish_for
from gbce.targets import Class
from gbce.trees import CellTrees

__all__ = ["seek_on_cells"]

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
) -> Iterator[NearestSites]:
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
    offers = None if trees is None else offer_cells(
        trees, scene.space, scene.x0, price_units(scene.space, scene.x0, power)
    )  # fmt: skip
    if trees is None or offers is None:
        return
    wish = wish_for(trees, target, reaching.margin)
    wishes = [_read_outputs(trees, posterior, reaching)] if wish is None else _around_ties(trees, reaching, wish)
    for one in wishes:
        yield find_nearest_cells(trees, offers, one, starts, power=power, most_changes=most_changes, path=path)


def _around_ties(trees: CellTrees, reaching: Reaching, wish: CellWish) -> list[CellWish]:
    """Return the wish with the boundary and, after it, without; where votes tie, the first of the classes wins."""
    room, target = wish.rounding(trees), reaching.target
    with_ties, beyond = wish.beyond(-room), wish.beyond(room)
    votes = isinstance(target, Class) and trees.inside.link == "identity" and len(wish.least) > 0
    if votes and list(trees.inside.classes or ()).index(target.label) > 0:  # type: ignore[attr-defined]
        return [beyond]
    return [with_ties, beyond]


def _read_outputs(trees: CellTrees, posterior: GibbsPosterior, reaching: Reaching) -> CellWish:
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
    return CellWish(np.eye(n_scores), np.zeros(n_scores), missing)
