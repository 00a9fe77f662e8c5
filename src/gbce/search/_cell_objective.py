"""The posterior on cells of a tree ensemble: what the prior offers in each, and what leaves make of the loss."""

from dataclasses import dataclass

import numpy as np

from gbce.base import Array, Target
from gbce.posterior import GibbsPosterior, Mixture
from gbce.predictors import Predictor
from gbce.priors import ColumnLaw, column_laws
from gbce.search._cell_offers import CellOffers, offer_cells
from gbce.search._cell_wish import CellWish
from gbce.trees import CellTrees, outputs_of, why_unreadable

__all__ = ["CellObjective", "objective_on_cells"]


@dataclass(frozen=True, eq=False)
class CellObjective:
    """What a mode minimises, cell by cell: eta times the loss at the sums of leaves, plus what values cost.

    Parameters
    ----------
    trees : CellTrees
        The one model.
    predictor : Predictor
        The same, as it is asked.
    target : Target
        With its numbers filled in.
    mixture : Mixture
        With eta.
    offers : CellOffers
        In each cell of each feature the value that costs least under the prior, and this cost.
    """

    trees: CellTrees
    predictor: Predictor
    target: Target
    mixture: Mixture
    offers: CellOffers

    def read(self, scores: Array, *, surely: bool = False) -> tuple[Array, Array]:
        """Return eta times the loss of scores ``(n, K)``, and which reach the target, each ``(n,)``.

        ``surely`` if rounding must not change what reaches.
        """
        said = self.target.read(outputs_of(self.trees, self.predictor, scores))
        loss, reached = np.asarray(said.loss, dtype=float), np.asarray(said.reached, dtype=bool)
        if surely:
            for shift in self._shifts:
                reached = reached & self.target.read(outputs_of(self.trees, self.predictor, scores + shift)).reached
        potential = self.mixture.potential(np.where(np.isnan(loss), np.inf, loss)[:, None])
        return np.asarray(potential), reached

    @property
    def _shifts(self) -> list[Array]:
        """By what rounding may move scores: one of them up or down, against the others."""
        n = len(self.trees.base)
        room = CellWish(np.eye(n), np.zeros(n)).rounding(self.trees)
        if n == 1:
            return [np.array([room]), np.array([-room])]
        return [sign * room * (2.0 * (np.arange(n) == k) - 1.0) for k in range(n) for sign in (1.0, -1.0)]

    def scores(self, slots: Array) -> Array:
        """Return scores ``(n, K)`` at slots ``(n, m)``."""
        return self.trees.scores(self.offers.cells_at(slots))


def objective_on_cells(posterior: GibbsPosterior, mixture: Mixture) -> CellObjective | None:
    """Return the objective on cells; None where leaves do not tell it, or the prior is no product over columns.

    Parameters
    ----------
    posterior : GibbsPosterior
        With one model, which is asked about some hundred rows the first time, to check what was read of it.
    mixture : Mixture
        With the eta that counts.
    """
    prior = posterior.prior
    if len(posterior.predictors) != 1:
        return None
    try:
        laws = {law.where: law for law in column_laws(prior)}
    except ValueError:  # columns are tied together
        return None
    predictor, trees = posterior.predictors[0], posterior.read_trees()
    if trees is None or why_unreadable(trees, predictor, posterior.target):
        return None
    at_row = float(prior.cost(prior.x0[None, :])[0])

    def price(j: int, values: Array) -> Array:
        x = np.tile(prior.x0, (len(values), 1))
        x[:, j] = values
        return prior.cost(x) - at_row

    offers = offer_cells(trees, prior.space, prior.x0, price, lambda j: _likeliest(laws[j], trees.edges[j]))
    if offers is None or (offers.price < 0).any():  # where a change is likelier than none, no price is a bound
        return None
    return CellObjective(trees, predictor, posterior.target, mixture, offers)


def _likeliest(law: ColumnLaw, edges: Array) -> Array:
    """Return in each cell the likeliest value that has a probability of its own; NaN for missing and where none has."""
    found = np.full(len(edges) + 2, np.nan)
    order = np.argsort(law.log_values, kind="stable")  # the likeliest last, which stays
    order = order[np.isfinite(law.log_values[order])]
    found[np.searchsorted(edges, law.values[order], side="left")] = law.values[order]
    return found
