"""What an explainer can put an explanation to, beside its own question: other models, noise, other rows."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import compress
from typing import Any

import numpy as np
import pandas as pd

from gbce._across import OtherModels, survived, with_models
from gbce._budget import Budget, budget_of
from gbce._frontier import Frontier, Reliability
from gbce._sensitivity import Sensitivity, sensitivity
from gbce._weights import Array
from gbce.decisions import Rule
from gbce.explanation import Explanation
from gbce.noise import Noise
from gbce.posterior import GibbsPosterior, as_weights
from gbce.predictors import Predictor
from gbce.space import Space
from gbce.targets import Target

__all__ = ["Probes"]

_FOR_UNSEEN = 0.1  # of the time of a frontier


class Probes(ABC):
    """The questions of an explainer about models and rows that change."""

    space: Space
    data: Array

    @abstractmethod
    def _ready(self, target: Target, budget: Budget | None = None) -> tuple[tuple[Predictor, ...], Target]: ...

    @abstractmethod
    def _own_posterior(self, explanation: Explanation, budget: Budget | None = None) -> GibbsPosterior: ...

    @abstractmethod
    def _posterior_of(self, explanation: Explanation, budget: Budget | None = None) -> GibbsPosterior: ...

    @abstractmethod
    def _explained(
        self,
        x0: Array,
        predictors: tuple[Predictor, ...],
        target: Target,
        rules: tuple[Rule, ...],
        number: int,
        budget: Budget,
    ) -> Explanation: ...

    def survival(
        self,
        explanation: Explanation,
        models: Any,
        *,
        max_model_rows: int | None = None,
        time_budget: float | None = None,
    ) -> pd.DataFrame:
        """Put an explanation to models that it has not seen; see :func:`gbce.metrics.survival`.

        Asked again about the same models, an explainer does not look at them anew.
        """
        budget = budget_of(max_model_rows, time_budget)
        self._own_posterior(explanation, budget)
        return survived(explanation, self._others(models), budget)

    def frontier(
        self,
        explanation: Explanation,
        *,
        noise: Noise | None = None,
        models: Any = None,
        weights: Sequence[float] | None = None,
        unseen: Any = None,
        reliability: Reliability = "share",
        distance: str = "l2",
        levels: Sequence[float] | None = None,
        refine: bool = True,
        n_perturb: int = 64,
        n_confirm: int = 512,
        max_candidates: int = 800,
        max_model_rows: int | None = None,
        time_budget: float | None = None,
    ) -> pd.DataFrame:
        """Return the cheapest point for every reliability, under execution noise and other models.

        Points are the draws, the decisions and, with ``refine``, what a walk from the row finds that makes the change
        that buys most for its price, step by step, and then gives up what is not needed.

        Parameters
        ----------
        explanation : Explanation
            Of this explainer.
        noise : number, sequence, mapping or function, optional
            Execution noise, see :class:`gbce.Evaluation`; none when left out.
        models, weights : optional
            Whose verdicts count, such as refits; this explainer's own when left out. A point must then also succeed
            under this explainer's first model, the one in use.
        unseen : estimator, callable, or list of them, optional
            Models that take no part in the search, to see what it found hold.
        reliability : {"share", "next"}
            The share of models (and copies) that accept a point; or the probability that one more model does,
            see Notes.
        distance, levels
            As in :meth:`gbce.Explanation.frontier`.
        refine : bool
            Whether to look beyond the draws.
        n_perturb, n_confirm, max_candidates : int
            Perturbed copies of every candidate; fresh ones to confirm promising candidates, and as many again to
            report them by; draws that are tried.
        max_model_rows, time_budget : optional
            What may be spent, as in :meth:`explain`; the walk ends when half of it is gone. Where the rest does not
            suffice to confirm points under fresh noise, they come back as they were found, with a warning.

        Returns
        -------
        DataFrame
            As :meth:`gbce.Explanation.frontier`; reliability is over models and copies, ``se`` its error over copies.
            With ``unseen`` also the share of these that accept each point, NaN where the budget left nothing for them.

        Raises
        ------
        BudgetSpentError
            If the budget does not even allow one point.

        Notes
        -----
        A point that was sought until all of a dozen refits accept it has been fitted to them: of further refits fewer
        will. ``"next"`` takes the models' outputs at a point as a sample and asks for the next one (Student's
        predictive distribution), which knows more than a count of verdicts and goes on where all accept; but it too
        is optimistic about points that were chosen by it. ``unseen`` models tell.
        """
        whole = budget_of(max_model_rows, time_budget)
        # what the search leaves to models that take no part in it; of rows it leaves enough anyway
        budget = whole if unseen is None or whole.deadline is None else whole.share(1.0 - _FOR_UNSEEN)
        self._own_posterior(explanation, budget)
        posterior = self._under(explanation, models, budget, weights)
        counts = posterior.mixture.weights > 0
        posterior = with_models(
            posterior, list(compress(posterior.predictors, counts)), posterior.mixture.weights[counts]
        )
        first = self._posterior_of(explanation, budget).predictors[:1]
        search = Frontier(
            explanation, posterior, self.data,
            own=None if models is None else with_models(posterior, first, np.ones(1)),
            unseen=None if unseen is None else self._under(explanation, unseen, whole),
            noise=noise, reliability=reliability, distance=distance, levels=levels,
            n_perturb=n_perturb, n_confirm=n_confirm, max_candidates=max_candidates, refine=refine,
        )  # fmt: skip
        return search.table()

    def sensitivity(
        self,
        row: Any,
        target: Target,
        *,
        noise: Noise = 0.1,
        n_rows: int = 8,
        n_null: int = 4,
        seed: Any = None,
        max_model_rows: int | None = None,
        time_budget: float | None = None,
    ) -> Sensitivity:
        """Explain rows nearby, and see how far the answer moves when the row does.

        Parameters
        ----------
        row, target, seed
            As in :meth:`explain`.
        noise : number, sequence, mapping or function
            How far the row moves, see :class:`gbce.Evaluation`; only what can move does, within the space.
        n_rows, n_null : int
            Rows nearby; further runs at the row itself, which tell what chance alone does. Each is a whole run.
        max_model_rows, time_budget : optional
            What all runs together may spend, as in :meth:`explain`; each gets the same share. Runs that the budget
            ended stop at a smaller eta, which the table and the sentence tell.

        Returns
        -------
        Sensitivity
            With a ``table`` and a ``sentence``.

        Raises
        ------
        BudgetSpentError
            If the budget does not allow a run at the row, one more there, and one nearby.
        """
        budget = budget_of(max_model_rows, time_budget)
        x0 = self.space.encode_row(row)
        predictors, target = self._ready(target, budget)

        def explained(x: Array, number: int, part: Budget) -> Explanation:
            return self._explained(x, predictors, target, (), number, part)

        return sensitivity(
            explained, self.space, x0, noise=noise, n_rows=n_rows, n_null=n_null, seed=seed, budget=budget
        )

    def _under(
        self, explanation: Explanation, models: Any, budget: Budget, weights: Sequence[float] | None = None
    ) -> GibbsPosterior:
        """Return the question of an explanation put to other models, or to this explainer's own."""
        posterior = self._posterior_of(explanation, budget)
        if models is None:
            own = posterior.mixture.weights if weights is None else as_weights(weights, len(posterior.predictors))
            return with_models(posterior, posterior.predictors, own)
        others = self._others(models)
        chosen = others.weights if weights is None else as_weights(weights, len(others.predictors))
        return with_models(posterior, others.ready(explanation.target, budget), chosen)

    def _others(self, models: Any) -> OtherModels:
        """Wrap models, or remember that it was done before: looking at classifiers takes longer than asking them."""
        known: list[OtherModels] = self.__dict__.setdefault("_known", [])
        for others in known:
            again = others.again(models)
            if again is not None:
                return again
        known[:] = [*known[-1:], OtherModels.of(models, self.space, self.data)]
        return known[-1]
