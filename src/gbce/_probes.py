"""What an explainer can put an explanation to, beside its own question: other models, noise, other rows."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
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


class Probes(ABC):
    """The questions of an explainer about models and rows that change."""

    space: Space
    data: Array

    @abstractmethod
    def _ready(self, target: Target, budget: Budget | None = None) -> tuple[tuple[Predictor, ...], Target]: ...

    @abstractmethod
    def _own_posterior(self, explanation: Explanation) -> GibbsPosterior: ...

    @abstractmethod
    def _posterior_of(self, explanation: Explanation) -> GibbsPosterior: ...

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

    def survival(self, explanation: Explanation, models: Any) -> pd.DataFrame:
        """Put an explanation to models that it has not seen; see :func:`gbce.metrics.survival`.

        Asked again about the same models, an explainer does not look at them anew.
        """
        self._own_posterior(explanation)
        return survived(explanation, self._others(models))

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
            What may be spent, as in :meth:`explain`; the walk ends when half of it is gone.

        Returns
        -------
        DataFrame
            As :meth:`gbce.Explanation.frontier`; reliability is over models and copies, ``se`` its error over copies.
            With ``unseen`` also the share of these that accept each point.

        Notes
        -----
        A point that was sought until all of a dozen refits accept it has been fitted to them: of further refits fewer
        will. ``"next"`` takes the models' outputs at a point as a sample and asks for the next one (Student's
        predictive distribution), which knows more than a count of verdicts and goes on where all accept; but it too
        is optimistic about points that were chosen by it. ``unseen`` models tell.
        """
        self._own_posterior(explanation)
        posterior = self._under(explanation, models, weights)
        counts = posterior.mixture.weights > 0
        posterior = with_models(
            posterior, list(compress(posterior.predictors, counts)), posterior.mixture.weights[counts]
        )
        first = self._posterior_of(explanation).predictors[:1]
        search = Frontier(
            explanation, replace(posterior, budget=budget_of(max_model_rows, time_budget)), self.data,
            own=None if models is None else with_models(posterior, first, np.ones(1)),
            unseen=None if unseen is None else self._under(explanation, unseen),
            noise=noise, reliability=reliability, distance=distance, levels=levels,
            n_perturb=n_perturb, n_confirm=n_confirm, max_candidates=max_candidates, refine=refine,
        )  # fmt: skip
        return search.table()

    def sensitivity(
        self, row: Any, target: Target, *, noise: Noise = 0.1, n_rows: int = 8, n_null: int = 4, seed: Any = None
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

        Returns
        -------
        Sensitivity
            With a ``table`` and a ``sentence``.
        """
        predictors, target = self._ready(target)

        def explained(x0: Array, number: int) -> Explanation:
            return self._explained(x0, predictors, target, (), number, Budget())

        x0 = self.space.encode_row(row)
        return sensitivity(explained, self.space, x0, noise=noise, n_rows=n_rows, n_null=n_null, seed=seed)

    def _under(self, explanation: Explanation, models: Any, weights: Sequence[float] | None = None) -> GibbsPosterior:
        """Return the question of an explanation put to other models, or to this explainer's own."""
        posterior = self._posterior_of(explanation)
        if models is None:
            own = posterior.mixture.weights if weights is None else as_weights(weights, len(posterior.predictors))
            return with_models(posterior, posterior.predictors, own)
        others = self._others(models)
        chosen = others.weights if weights is None else as_weights(weights, len(others.predictors))
        return with_models(posterior, others.ready(explanation.target), chosen)

    def _others(self, models: Any) -> OtherModels:
        """Wrap models, or remember that it was done before: looking at classifiers takes longer than asking them."""
        known: list[OtherModels] = self.__dict__.setdefault("_known", [])
        for others in known:
            again = others.again(models)
            if again is not None:
                return again
        known[:] = [*known[-1:], OtherModels.of(models, self.space, self.data)]
        return known[-1]
