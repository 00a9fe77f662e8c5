"""Before a target is called out of reach: a walk from the row, the one that frontiers take."""

from contextlib import suppress
from dataclasses import replace

import numpy as np

from gbce.base import Array
from gbce.budget import BudgetSpentError
from gbce.draws import Draws, Points
from gbce.posterior import GibbsPosterior
from gbce.search import Shelf, StepsFromRow, walk

__all__ = ["seek_reach"]

_WALK_SHARE = 0.5  # of what is left of a budget; chosen by hand, and the rest is for rules


def seek_reach(posterior: GibbsPosterior, draws: Draws, data: Array) -> Draws:
    """Return the draws, with points that reach the target among what was seen if a walk finds any and nothing else did.

    Parameters
    ----------
    posterior : GibbsPosterior
        Whose first model decides.
    draws : Draws
        With every point that is known so far.
    data : array of shape (n, d)
        Rows whose values are tried.
    """
    if draws.known.reached[:, 0].any():
        return draws
    prior, budget = posterior.prior, posterior.budget.share(_WALK_SHARE)
    asking = replace(posterior, budget=budget)
    shelf = Shelf.empty(np.ones(1), prior.x0)

    def judge(x: Array) -> tuple[Array, Array]:
        said = asking.evaluate_first(x)
        return said.reached[:, 0].astype(float), said.loss[:, 0]

    walk(judge, prior.cost, StepsFromRow.of(prior.space, prior.x0, data), shelf)
    found = shelf.filled
    if len(found) == 0:
        return draws
    with suppress(BudgetSpentError):
        said = posterior.evaluate(found)
        latent = prior.locate(found)
        points = Points(latent, found, *said, cost=prior.cost(found), log_correction=np.zeros(len(found)))
        seen = points if draws.seen is None else Points.join([draws.seen, points])
        return replace(draws, seen=seen)
    return draws
