"""The input of a rule: the query, the draws, and the models if they are at hand."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gbce.base import Array, Choice, ModelNeededError, Query, Rule
from gbce.draws._draws import Draws
from gbce.draws._points import Points
from gbce.posterior import GibbsPosterior, Mixture
from gbce.space import Places, Space

if TYPE_CHECKING:
    from gbce.metrics import Noise

__all__ = ["Scene"]


@dataclass(frozen=True)
class Scene:
    """Everything a rule may use: the query, the draws, and the models if they are at hand.

    Parameters
    ----------
    query : Query
        The question about a row.
    draws : Draws
        From the posterior.
    rng : Generator
        The same random stream for every rule, whatever their order.
    posterior : GibbsPosterior, optional
        For rules that call the model; ``None`` when there is only an explanation.
    refits : GibbsPosterior, optional
        The same question under refitted models, where the explainer was given some.
    earlier : tuple of pairs of Rule and Choice
        Choices of earlier rules, for a rule that ``reads_earlier``.
    """

    query: Query
    draws: Draws
    rng: np.random.Generator
    posterior: GibbsPosterior | None = None
    refits: GibbsPosterior | None = None
    earlier: tuple[tuple[Rule, Choice], ...] = ()

    @property
    def mixture(self) -> Mixture:
        """How losses combine, and eta."""
        return self.query.mixture

    @property
    def space(self) -> Space:
        """The features, their units and limits."""
        return self.query.space

    @property
    def row(self) -> Points:
        """The row itself as one evaluated point."""
        return self.query.row

    @property
    def x0(self) -> Array:
        """The row, encoded: ``(d,)``."""
        return self.query.x0

    @property
    def free(self) -> Array:
        """Positions ``(m,)`` of the features that can move."""
        return self.query.free

    @property
    def noise(self) -> "Noise":
        """Execution noise for rules that do not set their own."""
        return self.query.evaluation.noise

    def units(self, x: Array) -> Places:
        """Return the free features of ``(n, d)`` in units of their scales."""
        return self.space.embed(x, self.free)

    def distance(self, x: Array) -> Array:
        """Return the Euclidean distance ``(n,)`` of ``(n, d)`` from the row in units of each feature's scale."""
        return self.space.distance(x, self.x0)

    def objective(self, points: Points) -> Array:
        """Return the negative log posterior density ``(n,)``, up to a constant."""
        return self.mixture.objective(points.loss, points.cost)

    def model(self, rule: Rule) -> GibbsPosterior:
        """Return the posterior with its models, or raise an error that says how to get it."""
        if self.posterior is None:
            raise ModelNeededError(
                f"{rule.label} needs the model, which an explanation does not contain: call "
                "explainer.decide(explanation, rule), or give the rule to explainer.explain(..., rules=[...])"
            )
        return self.posterior

    def pick(self, index: Array, note: str = "") -> Choice:
        """Choose points of the pool by their positions."""
        points = self.draws.pool.take(np.atleast_1d(index))
        return Choice(points.x, points, note)
