"""What an explainer can put an explanation to, beside its own question: other models, noise, other rows."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import pandas as pd

from gbce._across import held_out, noisy_frontier, survived, with_models
from gbce._budget import Budget
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
        """Put an explanation to models that it has not seen, such as refits, and see whether the answer holds.

        Parameters
        ----------
        explanation : Explanation
            Of this explainer.
        models : estimator, callable, or list of them
            Fitted for the same table.

        Returns
        -------
        DataFrame
            By rule, and for the ``posterior``: ``before`` (success under the first model), ``survival`` (share of
            ``models`` under which it succeeds), its 95% interval ``low`` to ``high`` over models, ``all`` (success
            under all of them), Monte Carlo error ``se``, ``n_models``.
        """
        return survived(explanation, self._under(explanation, models))

    def frontier(
        self,
        explanation: Explanation,
        *,
        noise: Noise | None = None,
        models: Any = None,
        weights: Sequence[float] | None = None,
        distance: str = "l2",
        levels: Sequence[float] | None = None,
        n_perturb: int = 64,
        n_confirm: int = 512,
        max_candidates: int = 800,
    ) -> pd.DataFrame:
        """Return the cheapest draw for every reliability, under execution noise and other models.

        Parameters
        ----------
        explanation : Explanation
            Of this explainer.
        noise : number, sequence, mapping or function, optional
            Execution noise, see :class:`gbce.Evaluation`; none when left out.
        models, weights : optional
            Whose verdicts count, such as refits; this explainer's own when left out.
        distance, levels
            As in :meth:`gbce.Explanation.frontier`.
        n_perturb, n_confirm, max_candidates : int
            Perturbed copies of every candidate; fresh ones to confirm promising candidates, and as many again to
            report them by; draws that are tried.

        Returns
        -------
        DataFrame
            As :meth:`gbce.Explanation.frontier`; reliability is over models and copies, ``se`` its error over copies.
        """
        posterior = self._under(explanation, models, weights)
        return noisy_frontier(
            explanation, posterior, noise=noise, n_perturb=n_perturb, n_confirm=n_confirm,
            max_candidates=max_candidates, distance=distance, levels=levels,
        )  # fmt: skip

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
        predictors = held_out(models, self.space, self.data, explanation.target)
        return with_models(posterior, predictors, as_weights(weights, len(predictors)))
