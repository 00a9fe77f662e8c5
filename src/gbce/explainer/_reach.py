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
from gbce.priors import LocatedPrior
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
    with suppress(BudgetSpentError):
        if len(shelf.filled):
            return _add_seen(draws, [_locate(prior, shelf.filled, *posterior.evaluate(shelf.filled))])
    return _climb(query, asking, draws)


def _climb(query: Query, posterior: GibbsPosterior, draws: Draws) -> Draws:
    """Return the draws, with the end of a way to lower loss, whatever it costs, among what was seen."""
    steep = replace(posterior.mixture, eta=_STEEP * posterior.mixture.eta)
    scene = Scene(replace(query, mixture=steep), draws, stream(query.seed, DECIDING, query.key))
    return _add_seen(draws, polish_mode(scene, replace(posterior, mixture=steep)))


def add_reaching(posterior: GibbsPosterior, draws: Draws, decisions: Sequence[Decision]) -> Draws:
    """Return the draws, with decisions that reach the target among what was seen if nothing else of it does.

    Rules look side by side: one that was content with the best seen may then begin at what another one came upon.
    """
    found = [decision for decision in decisions if decision.reached[0]]
    if not found or draws.known.reached[:, 0].any():
        return draws
    x, *said = (np.array([getattr(one, name) for one in found]) for name in ("x", "outputs", "loss", "reached"))
    return _add_seen(draws, [_locate(posterior.prior, x, *said)])


def _locate(prior: LocatedPrior, x: Array, outputs: Array, loss: Array, reached: Array) -> Points:
    """Return points ``(k, d)`` that models were asked about."""
    return Points(prior.locate(x), x, outputs, loss, reached, prior.cost(x), np.zeros(len(x)))


def _add_seen(draws: Draws, points: Sequence[Points]) -> Draws:
    """Return the draws, with points among what was seen."""
    before = [] if draws.seen is None else [draws.seen]
    return replace(draws, seen=Points.join([*before, *points])) if points else draws
