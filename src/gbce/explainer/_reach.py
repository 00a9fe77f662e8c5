"""Before a target is called out of reach: a walk from the row, as frontiers take it, and a climb by loss alone."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from gbce._numerics import DECIDING, stream
from gbce.base import Array, Query
from gbce.budget import BudgetSpentError
from gbce.decisions import Decision
from gbce.draws import Draws, Points, Scene
from gbce.posterior import GibbsPosterior
from gbce.search import Shelf, StepsFromRow, polish_mode, walk

__all__ = ["add_reaching", "seek_reach"]

_SHARE = 0.5  # of what is left of a budget; chosen by hand, and the rest is for rules
_STEEP = 1e6  # times eta: what a thousandth of a unit of loss is lower may cost hundreds of units more


def seek_reach(query: Query, posterior: GibbsPosterior, draws: Draws, data: Array) -> Draws:
    """Return the draws, with points that reach the target among what was seen if any are found and nothing else did.

    Parameters
    ----------
    query : Query
        What is asked.
    posterior : GibbsPosterior
        Whose first model decides.
    draws : Draws
        With every point that is known so far.
    data : array of shape (n, d)
        Rows whose values are tried.
    """
    if draws.known.reached[:, 0].any():
        return draws
    prior = posterior.prior
    asking = replace(posterior, budget=posterior.budget.share(_SHARE))
    shelf = Shelf.empty(np.ones(1), prior.x0)

    def judge(x: Array) -> tuple[Array, Array]:
        said = asking.evaluate_first(x)
        return said.reached[:, 0].astype(float), said.loss[:, 0]

    walk(judge, prior.cost, StepsFromRow.of(prior.space, prior.x0, data), shelf)
    draws = _add_seen(posterior, draws, shelf.filled)
    return draws if draws.known.reached[:, 0].any() else _climb(query, asking, draws)


def _climb(query: Query, posterior: GibbsPosterior, draws: Draws) -> Draws:
    """Return the draws, with the end of a way to lower loss, whatever it costs, among what was seen."""
    steep = replace(posterior.mixture, eta=_STEEP * posterior.mixture.eta)
    scene = Scene(replace(query, mixture=steep), draws, stream(query.seed, DECIDING))
    found = polish_mode(scene, replace(posterior, mixture=steep))
    before = [] if draws.seen is None else [draws.seen]
    return replace(draws, seen=Points.join([*before, *found])) if found else draws


def add_reaching(posterior: GibbsPosterior, draws: Draws, decisions: Sequence[Decision]) -> Draws:
    """Return the draws, with decisions that reach the target among what was seen if nothing else of it does.

    Rules look side by side: one that was content with the best seen may then begin at what another one came upon.
    """
    found = [decision.x for decision in decisions if decision.reached[0]]
    if not found or draws.known.reached[:, 0].any():
        return draws
    return _add_seen(posterior, draws, np.array(found))


def _add_seen(posterior: GibbsPosterior, draws: Draws, x: Array) -> Draws:
    """Return the draws, with points ``(k, d)`` among what was seen; without them where the budget does not allow it."""
    prior = posterior.prior
    with suppress(BudgetSpentError):
        if len(x):
            said = posterior.evaluate(x)
            points = Points(prior.locate(x), x, *said, cost=prior.cost(x), log_correction=np.zeros(len(x)))
            return replace(draws, seen=points if draws.seen is None else Points.join([draws.seen, points]))
    return draws
