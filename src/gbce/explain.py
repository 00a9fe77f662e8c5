"""The one call: from a fitted model and a row to an explanation. Assembly only; the mathematics lives elsewhere."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from gbce._budget import Budget, budget_of
from gbce._deciding import chosen, judged, judged_points
from gbce._joint import MANY_MODELS, sample_jointly
from gbce._probes import Probes
from gbce._provenance import require_explanation, require_own
from gbce._reference import Reference
from gbce._seeds import SAMPLING, seed_number, stream
from gbce._status import budget_note, calibration_note, mode_note, short_note, status_of
from gbce._weights import Array
from gbce.calibration import EtaRule, ModelError, as_eta
from gbce.decisions import MAP, ChanceConstrained, CVaR, Mean, Rule, require_rule
from gbce.draws import Draws, Points
from gbce.explanation import Explanation, lines
from gbce.metrics import Evaluation, Neighbours
from gbce.models import ModelPosterior, listed_models
from gbce.noise import require_noise
from gbce.posterior import Combine, GibbsPosterior, Mixture, as_weights
from gbce.predictors import Predictor, as_predictor
from gbce.priors import Gaussian, Prior
from gbce.samplers import SMC, Sampler
from gbce.space import Space
from gbce.targets import Class, Target

if TYPE_CHECKING:
    from gbce.batch import ExplanationTable

__all__ = ["DEFAULT_RULES", "Explainer"]

DEFAULT_RULES: tuple[Rule, ...] = (MAP(), Mean(), CVaR(), ChanceConstrained())


class Explainer(Probes):
    """Explains rows of a table to one or several fitted models.

    Parameters
    ----------
    model : estimator, callable, list of them, or ModelPosterior
        A fitted scikit-learn, LightGBM or XGBoost estimator or pipeline, or a function of rows. With several, put
        the best one first: figures are reported for it, with the others' beside them.
    data : DataFrame or array of shape (n, d)
        Rows the model was fitted on, without the outcome: for units, for plausibility, for the spread of outputs.
    space : Space, optional
        What may change, how far and in which unit; read off the data when left out.
    prior : Gaussian, Laplace or DistancePrior, optional
        Law of candidates around the row; ``Gaussian()`` when left out.
    eta : float, SuccessProbability, ExpectedLoss or ModelError
        Weight of the loss against the prior: a number, or a rule that finds one for each row.
    sampler : SMC, Importance, Chains or Nested, optional
        How to draw; ``SMC()`` when left out.
    weights : sequence of K numbers, optional
        Of the models; equal when left out. :func:`gbce.weights_from_risk` computes them from cross-validated losses.
    combine : {"any", "all", "average"} or Entropic
        What several models must agree on: at least one (the paper's mixture), all (the worst case), their mean, or
        anything between (:class:`gbce.Entropic`).
    evaluation : Evaluation, optional
        Settings of the figures: execution noise, neighbours, tail.
    batch_rows : int, optional
        Largest number of rows in one model call.
    joint : bool, optional
        Whether points carry the index of a model and only that one is asked about them, which makes a mixture of many
        models (``combine="any"``, a number as eta) cost about as much as one. From twenty models on when left out.

    Examples
    --------
    >>> import gbce
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import LinearRegression
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> explainer = gbce.Explainer(LinearRegression().fit(X, y), X, space=gbce.Space.infer(X, immutable=["sex"]))
    >>> explanation = explainer.explain(X.iloc[0], gbce.AtMost(150), rules=[gbce.ChanceConstrained(0.8)], seed=0)
    >>> explanation.counterfactuals.shape
    (1, 10)
    >>> explanation.pointwise["reached"].tolist()
    [True]
    """

    def __init__(
        self,
        model: Any,
        data: Any,
        *,
        space: Space | None = None,
        prior: Prior | None = None,
        eta: float | EtaRule = 1.0,
        sampler: Sampler | None = None,
        weights: Sequence[float] | Array | None = None,
        combine: Combine = "any",
        evaluation: Evaluation | None = None,
        batch_rows: int | None = None,
        joint: bool | None = None,
    ) -> None:
        if isinstance(model, ModelPosterior) and weights is None:
            weights = model.weights
        models = listed_models(model, "model")
        if space is not None:
            _require(space, "adopt", "space", "gbce.Space.infer(data)")
        self.space = Space.infer(data) if space is None else space.adopt(data)
        self.data = self.space.encode(data, what="data")
        self.prior: Prior = Gaussian() if prior is None else prior
        if hasattr(self.prior, "learned"):  # what it reads off the data: correlations, densities, ranges
            self.prior = self.prior.learned(self.space, self.data)
        self.sampler: Sampler = SMC() if sampler is None else sampler
        self.evaluation = Evaluation() if evaluation is None else evaluation
        number, self.eta_rule = as_eta(eta)
        self.mixture = Mixture(number, as_weights(weights, len(models)), combine)
        _require(self.prior, "at", "prior", "gbce.Gaussian(), gbce.Laplace() or gbce.DistancePrior(...)")
        _require(self.sampler, "sample", "sampler", "gbce.SMC()")
        _require(self.evaluation, "noise", "evaluation", "gbce.Evaluation()")
        whole = isinstance(batch_rows, (int, np.integer)) and not isinstance(batch_rows, bool)
        if batch_rows is not None and (not whole or batch_rows < 1):
            raise ValueError(f"batch_rows must be a whole number of at least 1, not {batch_rows!r}")
        require_noise(self.evaluation.noise, self.space)
        self._models = models
        predictors = [as_predictor(one, self.space, batch_rows=batch_rows) for one in models]
        self.predictors = _with_distinct_names(predictors)
        self._neighbours = Neighbours.of(self.data, self.space)
        self._reference = Reference.of(self.data, self.space.discrete)
        self._model_error: dict[str, Any] | None = None
        can = combine == "any" and self.eta_rule is None and len(models) > 1
        if joint and not can:
            raise ValueError('joint=True needs several models, combine="any" and a number as eta')
        self._jointly = can and (len(models) >= MANY_MODELS if joint is None else bool(joint))

    def explain(
        self,
        row: Any,
        target: Target,
        *,
        rules: Sequence[Rule] | Rule | None = None,
        seed: Any = None,
        max_model_rows: int | None = None,
        time_budget: float | None = None,
    ) -> Explanation:
        """Explain one row.

        Parameters
        ----------
        row : Series, mapping, one-row DataFrame or array of shape (d,)
            The row, x_b; a frame may be of any library, whatever the data are.
        target : Value, Range, AtLeast, AtMost, Change, Class, Multi or Loss
            What is wanted of the model's output, y*.
        rules : Rule or sequence of Rule, optional
            Which decisions to take; MAP, Mean, CVaR and ChanceConstrained when left out.
        seed : int, Generator or SeedSequence, optional
            The same seed gives the same bits.
        max_model_rows : int, optional
            Most rows that may be shown to models, over all of them. When they are used up, the posterior at the eta
            that was reached comes back, and says so.
        time_budget : float, optional
            Seconds after which no model is asked any more, but for the few rows of the decisions. How long a row takes
            is measured, and models are asked in batches, so that the time is overrun by one batch at most: 0.05
            seconds, or a single row where models take longer. The bits then depend on the machine.

        Returns
        -------
        Explanation
            Plain data; it can be saved, plotted and sent without the model.

        Raises
        ------
        BudgetSpentError
            If the budget does not even allow a first look.
        """
        budget = budget_of(max_model_rows, time_budget)
        listed = self._checked_rules(rules)
        x0 = self.space.encode_row(row)
        predictors, target = self._ready(target, budget)
        return self._explained(x0, predictors, target, listed, seed_number(seed), budget)

    def explain_many(
        self,
        rows: Any,
        target: Target,
        *,
        rules: Sequence[Rule] | Rule | None = None,
        seed: Any = None,
        n_jobs: int | None = None,
        progress: bool = True,
        store: str | Path | None = None,
        max_model_rows: int | None = None,
        time_budget: float | None = None,
        total_model_rows: int | None = None,
        total_time: float | None = None,
        on_error: Literal["record", "raise"] = "record",
    ) -> "ExplanationTable":
        """Explain many rows; rows share model calls, and a run that is killed can be resumed.

        Parameters
        ----------
        rows : DataFrame or array of shape (n, d)
            The rows; the index of a frame names them in the result.
        target, rules
            As in :meth:`explain`.
        seed : int, Generator or SeedSequence, optional
            The same seed gives the same bits, whatever ``n_jobs`` is.
        n_jobs : int, optional
            Processes to use, as in joblib; one when left out. A model that uses all cores by itself gains little.
        progress : bool
            Whether to show a progress bar.
        store : path, optional
            A folder that keeps each finished row as a file that :func:`gbce.load` reads. A second run of the same
            question with the same folder explains only what is missing; what a kill loses is the group of rows
            (sixteen at most) that was under way. Another question is refused: models and functions are known by what
            they return for a few dozen rows of the data, a :class:`gbce.Remote` by its address and version.
        max_model_rows, time_budget : optional
            Most rows that may be shown to models, and seconds, for each row that is explained, as in :meth:`explain`.
            Rows that are explained together put their seconds together.
        total_model_rows, total_time : optional
            The same for all rows in all, setting up included. Every row gets the same share of the model rows; of the
            time, what earlier groups of rows left is shared out to the later ones.
        on_error : {"record", "raise"}
            What becomes of a row that cannot be explained, because the model or a function fails for it: a line in
            ``diagnostics`` with the status "failed" and its error, and a warning in the end, while the others go on;
            or the end of the run, with an error that names the row. Such a row is not kept in a ``store``, so that it
            is tried again. Rows that do not fit the table are refused before anything is asked.

        Returns
        -------
        ExplanationTable
            The tables of all rows.

        Examples
        --------
        >>> import gbce
        >>> data = np.random.default_rng(0).normal(size=(60, 2))
        >>> explainer = gbce.Explainer(lambda x: x.sum(axis=1), data)
        >>> table = explainer.explain_many(data[:4], gbce.AtLeast(2), rules=[gbce.Mean()], seed=0, progress=False)
        >>> table.counterfactuals.shape
        (4, 2)
        """
        from gbce.batch import explain_many  # an outer room: it uses this one

        return explain_many(
            self,
            rows,
            target,
            rules=rules,
            seed=seed,
            n_jobs=n_jobs,
            progress=progress,
            store=store,
            max_model_rows=max_model_rows,
            time_budget=time_budget,
            total_model_rows=total_model_rows,
            total_time=total_time,
            on_error=on_error,
        )

    def _explained(
        self,
        x0: Array,
        predictors: tuple[Predictor, ...],
        target: Target,
        rules: tuple[Rule, ...],
        number: int,
        budget: Budget,
    ) -> Explanation:
        posterior = self._posterior(x0, predictors, target, budget)
        posterior, at_row = _settled(posterior, x0)
        part = 0.5 if rules else 1.0  # of the budget; the rest is for the rules and their figures
        rng, allowed = stream(number, SAMPLING), replace(posterior, budget=budget.share(part))
        draws = sample_jointly(self.sampler, allowed, rng) if self._jointly else self.sampler.sample(allowed, rng)
        if posterior.prior.spikes:
            draws = replace(draws, facts={**draws.facts, "spikes": True})
        posterior = replace(posterior, mixture=replace(posterior.mixture, eta=draws.rungs[-1]), goal=None)
        explanation = Explanation(
            space=self.space,
            target=posterior.target,
            models=tuple(predictor.name for predictor in posterior.predictors),
            identities=tuple(predictor.identity for predictor in posterior.predictors),
            mixture=posterior.mixture,
            evaluation=self.evaluation,
            rules=rules,
            seed=number,
            row=at_row,
            draws=draws,
            decisions=(),
            status="",
            notes=(),
            n_model_calls=0,
            n_model_rows=0,
            calibration=self._calibration(target, draws),
        )
        choices, rule_notes = chosen(explanation, posterior, rules)
        decisions = judged(explanation, posterior, choices, self._neighbours)
        status, note = status_of(at_row, draws.pool, decisions, posterior.target)
        asked = None if self.eta_rule is not None else self.mixture.eta
        notes = [
            note,
            budget_note(draws, asked),
            "" if decisions or not choices else "The budget left no row to judge decisions with.",
            calibration_note(explanation.calibration, posterior.mixture.eta),
            *rule_notes,
            *self.space.notes,
            short_note(status, decisions, posterior.target),
            "" if posterior.prior.spikes else mode_note(decisions, posterior.mixture),
        ]
        return replace(
            explanation,
            decisions=decisions,
            status=status,
            notes=tuple(sentence for sentence in notes if sentence),
            n_model_calls=posterior.n_calls,
            n_model_rows=posterior.n_rows,
        )

    def decide(self, explanation: Explanation, rule: Rule) -> pd.DataFrame:
        """Apply a rule that may ask the model to an explanation of this explainer.

        Returns
        -------
        DataFrame
            The chosen points in the user's columns, one line each.
        """
        require_rule(rule)
        posterior = self._own_posterior(explanation)
        choice = rule.choose(explanation.scene(posterior))
        return lines(self.space, choice.x, choice.labels(rule.label))

    def assess(self, explanation: Explanation, rows: Any) -> pd.DataFrame:
        """Judge any rows as if a rule had chosen them, to answer "what if one does this instead".

        Parameters
        ----------
        explanation : Explanation
            Of this explainer.
        rows : DataFrame or array of shape (k, d)
            Alternatives; the index of a frame names them in the result.

        Returns
        -------
        DataFrame
            The columns of ``explanation.pointwise``.
        """
        posterior = self._own_posterior(explanation)
        x = self.space.encode(rows)
        named = isinstance(rows, pd.DataFrame) and not isinstance(rows.index, pd.RangeIndex)
        labels = [str(label) for label in rows.index] if named else [f"row {i}" for i in range(len(x))]
        decisions = judged_points(explanation, posterior, labels, x, self._neighbours)
        return replace(explanation, decisions=decisions).pointwise

    # --- pieces ---------------------------------------------------------------------------------------------

    def _checked_rules(self, rules: Any) -> tuple[Rule, ...]:
        listed = _as_rules(rules)
        for rule in listed:
            require_noise(getattr(rule, "noise", None), self.space)
        return listed

    def _ready(self, target: Target, budget: Budget | None = None) -> tuple[tuple[Predictor, ...], Target]:
        """Return predictors that count from zero and the target with its open numbers filled in."""
        _require_target(target)
        budget = Budget() if budget is None else budget
        predictors = tuple(predictor.metered() for predictor in self.predictors)
        if isinstance(target, Class):
            predictors = self._reference.as_classifiers(predictors, budget)
        spread = self._reference.output_spread(predictors[0], budget) if target.needs_spread else 1.0
        return predictors, target.resolved(spread)

    def _setting_up(self, target: Target) -> int:
        """Return how many model rows :meth:`_ready` takes, if nothing was asked before."""
        _require_target(target)
        rows = self._reference.rows_to_compare(self.predictors) if isinstance(target, Class) else 0
        return rows + (len(self._reference.rows) if target.needs_spread else 0)

    def _posterior(
        self, x0: Array, predictors: tuple[Predictor, ...], target: Target, budget: Budget
    ) -> GibbsPosterior:
        """Return the posterior of a row, at the eta that was given or with the goal that it is to meet."""
        mixture, rule = self.mixture, self.eta_rule
        if isinstance(rule, ModelError):
            self._model_error = rule.measured(self._models[0], self.space.decode(self.data), target, self._model_error)
            mixture, rule = replace(mixture, eta=rule.eta(target, self._model_error)), None
        prior = self.prior.at(self.space, x0)
        return GibbsPosterior(prior, predictors, target, mixture, rule, self._reference.rows, budget)

    def _calibration(self, target: Target, draws: Draws) -> dict[str, Any]:
        """Return how eta was found, as plain numbers and text; nothing if it was given."""
        if self.eta_rule is None:
            return {}
        if isinstance(self.eta_rule, ModelError):
            return {"rule": self.eta_rule.label, "met": True, **(self._model_error or {})}
        return {"rule": self.eta_rule.label, "met": bool(draws.facts.get("goal_met", False))}

    def _own_posterior(self, explanation: Explanation, budget: Budget | None = None) -> GibbsPosterior:
        """Return the question of an explanation; refuse one of other models, and what is none."""
        posterior = self._posterior_of(require_explanation(explanation), budget)
        require_own(explanation, posterior)
        return posterior

    def _posterior_of(self, explanation: Explanation, budget: Budget | None = None) -> GibbsPosterior:
        if explanation.space != self.space or len(explanation.models) != len(self.predictors):
            raise ValueError("the explanation was made with another space or other models than this explainer has")
        budget = Budget() if budget is None else budget
        predictors, target = self._ready(explanation.target, budget)
        prior = self.prior.at(self.space, explanation.x0)
        return GibbsPosterior(prior, predictors, target, explanation.mixture, budget=budget)


def _settled(posterior: GibbsPosterior, x0: Array) -> tuple[GibbsPosterior, Points]:
    """Return the posterior, its target settled for the row, and the row itself as one evaluated point."""
    x = x0[None, :]
    said = posterior.ask(x, own_decision=True)
    posterior = replace(posterior, target=posterior.target.settled(said[0]))
    zero = np.zeros((1, posterior.prior.dimension))
    return posterior, Points(zero, x, *posterior.read(said), cost=posterior.prior.cost(x), extra=np.zeros(1))


def _as_rules(rules: Any) -> tuple[Rule, ...]:
    if rules is None:
        return DEFAULT_RULES
    listed = tuple(rules) if isinstance(rules, Iterable) and not isinstance(rules, str) else (rules,)
    for rule in listed:
        require_rule(rule)
    labels = [rule.label for rule in listed]
    twice = sorted({label for label in labels if labels.count(label) > 1})
    if twice:
        raise ValueError(f"rules: {', '.join(twice)} is listed twice")
    return listed


def _require_target(target: Any) -> None:
    if not isinstance(target, Target):
        raise TypeError(f"target must be a gbce target such as gbce.AtLeast(10), not {target!r}")


def _require(value: Any, method: str, what: str, example: str) -> None:
    if isinstance(value, type) or not hasattr(value, method):
        raise TypeError(f"{what} must be an object such as {example}, not {value!r}")


def _with_distinct_names(predictors: Sequence[Predictor]) -> tuple[Predictor, ...]:
    names: list[str] = []
    for predictor in predictors:
        same = sum(name.split(" #")[0] == predictor.name for name in names)
        names.append(predictor.name if same == 0 else f"{predictor.name} #{same + 1}")
    return tuple(replace(predictor, name=name) for predictor, name in zip(predictors, names, strict=True))
