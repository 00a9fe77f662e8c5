"""The one call: from a fitted model and a row to an explanation. Assembly only; the mathematics lives elsewhere."""

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from hashlib import sha256
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from gbce._numerics import SAMPLING, seed_number, stream
from gbce._validation import is_count, show
from gbce.base import Array, Outputs, Prior, Query, Rule, Sampler, Target
from gbce.budget import Budget, budget_of
from gbce.decisions import (
    MAP,
    ChanceConstrained,
    CVaR,
    Nearest,
    Reliable,
    apply_rule,
    evaluate_points,
    require_rule,
    require_rules,
)
from gbce.draws import Draws, Points
from gbce.ensembles import ModelPosterior, as_models
from gbce.eta import Calibration, EtaRule, ModelError, as_eta
from gbce.explainer._answering import REPLACED, Prover, hand_over, judge_answer, proof_of, safe_box_of
from gbce.explainer._notes import (
    AssumedPrior,
    assume_prior,
    budget_note,
    calibration_note,
    flag_missed_mass,
    hanging_note,
    judge_status,
    mode_note,
    order_by_model,
    sampling_budget,
    seek_reach,
    shortfall_note,
    unreached_note,
)
from gbce.explainer._session import ADVICE, Progress, decide, explain_given, require_own, say_settings, watched
from gbce.explanation import Event, Explanation, SafeBox, Status, choice_table, exclude_row, require_explanation
from gbce.metrics import SEVERAL_MODELS, Evaluation, Neighbours, require_noise
from gbce.posterior import Combine, GibbsPosterior, Mixture, as_weights
from gbce.predictors import Predictor, Reference, as_predictor
from gbce.priors import WithEffort
from gbce.samplers import MANY_MODELS, SMC, SearchOnly, sample_jointly
from gbce.space import Space, has_labels, restate
from gbce.stress import KnownModels, OtherModels, explainer_survival, frontier, replace_models, sensitivity
from gbce.targets import as_target
from gbce.trees import CellReader, ExactTrees, sum_if_few

if TYPE_CHECKING:
    from gbce.batch import ExplanationTable

__all__ = ["Explainer"]

_DEFAULT_RULES: tuple[Rule, ...] = (Nearest(), ChanceConstrained(), CVaR(), MAP())
_RULES_WITHOUT_POSTERIOR: tuple[Rule, ...] = (Nearest(),)  # the others choose among draws
_DEFAULT_POLICY = Reliable()
_DEFAULT = "left out, which is"  # of a setting: what stands for it, and more where more is known of the models
_SAMPLING_SHARE = 0.5  # of a budget, if there are rules; chosen by hand, and the rest is for them and their figures


class Explainer:
    """Explains rows of a table under one or several fitted models.

    Parameters
    ----------
    model : estimator, callable, list of them, or ModelPosterior
        A fitted estimator or pipeline (scikit-learn, LightGBM, XGBoost, CatBoost, torch, ONNX), a
        :class:`gbce.Remote`, or a function of rows. With several, put the best one first: figures are reported for
        it, with the others' beside them.
    data : DataFrame or array of shape (n, d)
        Rows the model was fitted on, without the outcome: for units, for plausibility, for the spread of outputs. In
        which order they have their columns does not matter where the model knows its own: features are in its order.
    space : Space, optional
        What may change, how far and in which unit; read off the data when left out, see :meth:`gbce.Space.infer`.
    prior : Gaussian, Laplace, Sparse, NearData or DistancePrior, optional
        Law of candidates around the row. When left out: on a frame ``Sparse(moves=3)``, under which about three columns
        change; on an array, and in a :meth:`gbce.Space.real`, the paper's ``Gaussian()``. A note says so.
    eta : float, SuccessProbability, ExpectedLoss or ModelError
        Weight of the loss against the prior: a number, or a rule that finds one for each row.
    sampler : SMC, ExactTrees, Importance, Chains or Nested, optional
        How to draw. When left out: :class:`gbce.ExactTrees` for tree ensembles with few cells where columns move by
        themselves, and ``SMC()`` otherwise. A prior or sampler of your own will do, see :mod:`gbce.base`.
    weights : sequence of K numbers, optional
        Of the models; equal when left out. :func:`gbce.weights_from_risk` computes them from cross-validated losses.
    combine : {"any", "all", "average"} or Entropic
        What several models must agree on: at least one (the paper's mixture), all (the worst case), their mean, or
        anything between (:class:`gbce.Entropic`).
    evaluation : Evaluation, optional
        Settings of the figures: execution noise, neighbours, tail.
    batch_rows : int, optional
        Largest number of rows in one model call.
    refits : list of models or ModelPosterior, optional
        The same model fitted again, to other samples or with other seeds, 20 or more: ``explanation.answer`` is then
        sought among points that half of these accept as well, and says how many of the others do.
    policy : Rule or name of one, optional
        What chooses ``explanation.answer``: :class:`gbce.Reliable` unless told otherwise, any rule, or ``None`` if no
        answer is to be sought.
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
        refits: Any = None,
        policy: Rule | str | None = _DEFAULT_POLICY,
        joint: bool | None = None,
    ) -> None:
        if hasattr(data, "predict"):
            raise TypeError(
                f"data must be a table, not {type(data).__name__}, which predicts: gbce.Explainer(model, data) takes "
                "the model first, then the data"
            )
        if isinstance(model, ModelPosterior) and weights is None:
            weights = model.weights
        models = as_models(model, "model")
        if space is not None:
            _require_attribute(space, "adopt", "space", "gbce.Space.infer(data)")
        self.space = order_by_model(Space.infer(data) if space is None else space.adopt(data), models, prior)
        self.data = self.space.encode(data, what="data")
        self._assumed = assume_prior(self.space, data) if prior is None else AssumedPrior(prior)
        self.prior: Prior = self._assumed.prior
        if hasattr(self.prior, "learned"):  # what it reads off the data: correlations, densities, ranges
            self.prior = self.prior.learned(self.space, self.data)
        self.sampler: Sampler = SMC() if sampler is None else sampler
        self.sums_if_few = sampler is None  # whether cells are summed instead, where they are few
        self.evaluation = Evaluation() if evaluation is None else evaluation
        number, self.eta_rule = as_eta(eta)
        self.mixture = Mixture(number, as_weights(weights, len(models)), combine)
        _require_attribute(self.prior, "at", "prior", "gbce.Gaussian(), gbce.Laplace() or gbce.DistancePrior(...)")
        _require_attribute(self.sampler, "sample", "sampler", "gbce.SMC()")
        _require_attribute(self.evaluation, "noise", "evaluation", "gbce.Evaluation()")
        if batch_rows is not None and not is_count(batch_rows):
            raise ValueError(f"batch_rows must be a whole number of at least 1, not {batch_rows!r}")
        require_noise(self.evaluation.noise, self.space)
        self._models = models
        self._readers = tuple(CellReader(one, self.space, self.data) for one in models)
        self._prover = Prover(self._readers[0])
        predictors = [as_predictor(one, self.space, batch_rows=batch_rows) for one in models]
        self.predictors = _make_names_distinct(predictors)
        self._neighbours = Neighbours.of(self.data, self.space)
        self._reference = Reference.of(self.data, self.space)
        self.other_models = KnownModels(self.space, self.data)
        self.refits = None if refits is None else OtherModels.of(refits, self.space, self.data, "refits")
        self.policy = None if policy is None else require_rules(policy, self.space)[0]
        self._model_error: dict[str, Any] = {}  # added to, and shared with what explains without a posterior
        can = combine == "any" and self.eta_rule is None and len(models) > 1 and not isinstance(sampler, ExactTrees)
        if joint and not can:
            raise ValueError('joint=True needs several models, combine="any", a number as eta, and a sampler of points')
        self.jointly = can and (len(models) >= MANY_MODELS if joint is None else bool(joint))

    def explain(
        self,
        row: Any,
        target: Target | Any,
        *,
        rules: Sequence[Rule | str] | Rule | str | None = None,
        seed: Any = None,
        max_model_rows: int | None = None,
        time_budget: float | None = None,
        progress: Progress = "auto",
        posterior: bool = True,
    ) -> Explanation:
        """Explain one row.

        Parameters
        ----------
        row : Series, mapping, one-row DataFrame or array of shape (d,)
            The row, x_b; a frame may be of any library, whatever the data are.
        target : Value, Range, AtLeast, AtMost, Change, Class, Multi or Loss; or a class label of the model
            What is wanted of the model's output, y*; ``"good"`` is short for ``Class("good")``.
        rules : Rule or name of one, or a sequence of them, optional
            Which decisions to take; Nearest, ChanceConstrained, CVaR and MAP when left out, without a posterior
            Nearest alone.
        seed : int, Generator or SeedSequence, optional
            The same row and seed give the same bits, here and in :meth:`explain_many`.
        max_model_rows : int, optional
            Most rows that may be shown to models, over all of them. When they are used up, the posterior at the eta
            that was reached comes back, and says so. When left out, sampling ends at thirty times the rows of a usual
            explanation (1,200,000 for each model with the default sampler), at ten times while no point reaches the
            target, with a note.
        time_budget : float, optional
            Seconds after which no model is asked any more, but for the few rows of the decisions. How long a row takes
            is measured, and models are asked in batches, so that the time is overrun by one batch at most: 0.05
            seconds, or a single row where models take longer. The bits then depend on the machine. Models are called in
            another thread; one that hangs is left behind a second later, with a note, or an error if nothing is known.
        progress : bool or "auto"
            Whether to show what is done now and how many model rows it took so far. ``"auto"`` does so on a terminal
            and in a notebook, if it takes longer than a second; nothing is left behind.
        posterior : bool
            Whether to draw the posterior. Without it there is one search, and the answer with its reliability, for a
            part of the model rows: :class:`gbce.SearchOnly` stands for the sampler, and its few draws are not to be
            trusted.

        Returns
        -------
        Explanation
            Plain data; it can be saved, plotted and sent without the model.

        Raises
        ------
        BudgetSpentError
            If the budget does not even allow a first look, or a model hangs before there is one.
        """
        _require_order(row, target, "explain(row, target)")
        if not self._wants(posterior):
            return self._without_posterior().explain(
                row, target, rules=rules, seed=seed, max_model_rows=max_model_rows, time_budget=time_budget,
                progress=progress,
            )  # fmt: skip
        budget = budget_of(max_model_rows, time_budget)
        listed = self.listed_rules(rules)
        x0 = self.space.encode_row(row)
        with watched(budget, progress):
            predictors, target = self.prepare(target, budget)
            self.prior.at(self.space, x0)  # a prior that cannot be placed is refused before models are asked
            self.ask_about_data(predictors, budget)
            refits = self.prepare_refits(target, budget)
            return self.explain_encoded(x0, predictors, target, listed, seed_number(seed), budget, refits)

    def explain_many(
        self,
        rows: Any,
        target: Target | Any,
        *,
        rules: Sequence[Rule | str] | Rule | str | None = None,
        seed: Any = None,
        n_jobs: int | None = None,
        progress: Progress = True,
        store: str | Path | None = None,
        max_model_rows: int | None = None,
        time_budget: float | None = None,
        total_model_rows: int | None = None,
        total_time: float | None = None,
        on_error: Literal["record", "raise"] = "record",
        keep_pool: bool = False,
        posterior: bool = True,
    ) -> "ExplanationTable":
        """Explain many rows; rows share model calls, and a run that is killed can be resumed.

        Parameters
        ----------
        rows : DataFrame, array of shape (n, d), or list of mappings or Series
            The rows; the index of a frame names them in the result.
        target, rules
            As in :meth:`explain`.
        seed : int, Generator or SeedSequence, or a list of one for each row, optional
            A row gets what :meth:`explain` gives it with the same seed, to the last bit, whatever ``n_jobs`` is, where
            it stands and what stands beside it. Rows with named columns have random numbers of their own, made of the
            seed and their values, so that errors average out over a table; rows of an array share those of the seed,
            unless each has one of its own.
        n_jobs : int, optional
            Processes to use, as in joblib; one when left out. A model that uses all cores by itself gains little.
        progress : bool or "auto"
            Whether to show a progress bar; ``"auto"`` does on a terminal and in a notebook.
        store : path, optional
            A folder that keeps each finished row as a file that :func:`gbce.load` reads. A second run of the same
            question with the same folder explains only what is missing; what a kill loses is the group of rows
            (sixteen at most) that was under way. Another question is refused: models and functions are known by what
            they return for a few dozen rows of the data, a :class:`gbce.Remote` by its address and version.
        max_model_rows, time_budget : optional
            Most rows that may be shown to models, and seconds, for each row that is explained, as in :meth:`explain`.
            Rows that are explained together put their seconds together; what setting up takes comes out of them.
        total_model_rows, total_time : optional
            The same for all rows in all, setting up included. Every row gets the same share of the model rows; of the
            time, what earlier groups of rows left is shared out to the later ones.
        on_error : {"record", "raise"}
            What becomes of a row that cannot be explained, because the model or a function fails for it: a line in
            ``diagnostics`` with the status "failed" and its error, and a warning in the end, while the others go on;
            or the end of the run, with an error that names the row. Such a row is not kept in a ``store``, so that it
            is tried again. Rows that do not fit the table are refused before anything is asked.
        keep_pool : bool
            Whether the files of a store keep every evaluated point, see :meth:`gbce.Explanation.save`. Without them,
            they are four to six times smaller, and tables, pictures, decisions and draws are the same. Rows that
            are in a store already stay as they are.
        posterior : bool
            Whether to draw the posterior of each row, as in :meth:`explain`: without it a table of answers takes a part
            of the model rows.

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

        _require_order(rows, target, "explain_many(rows, target)")
        return explain_many(
            self if self._wants(posterior) else self._without_posterior(),
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
            keep_pool=keep_pool,
        )

    survival = explainer_survival
    frontier = frontier
    sensitivity = sensitivity

    def decide(
        self,
        explanation: Explanation,
        rule: Rule | str,
        *,
        max_model_rows: int | None = None,
        time_budget: float | None = None,
    ) -> pd.DataFrame:
        """Apply a rule that may ask the model to an explanation of this explainer.

        Parameters
        ----------
        explanation : Explanation
            Of this explainer.
        rule : Rule or str
            Such as ``gbce.CVaR(0.95)`` or ``"CVaR"``.
        max_model_rows, time_budget : optional
            What may be spent, as in :meth:`explain`.

        Returns
        -------
        DataFrame
            The chosen points in the user's columns, one line each; what the rule says about its choice, such as that
            the budget ended, is in ``.attrs["note"]``.

        Raises
        ------
        BudgetSpentError
            If the budget does not allow what the rule asks the model, and the rule cannot do with what is known.
        """
        rule = require_rule(rule)
        posterior = self.own_posterior(explanation, budget_of(max_model_rows, time_budget))
        choice = apply_rule(rule, explanation.query, explanation.draws, posterior)
        table = choice_table(self.space, choice, rule)
        table.attrs["note"] = choice.note
        return table

    def assess(
        self,
        explanation: Explanation,
        rows: Any,
        *,
        max_model_rows: int | None = None,
        time_budget: float | None = None,
    ) -> pd.DataFrame:
        """Judge any rows as if a rule had chosen them, to answer "what if one does this instead".

        Parameters
        ----------
        explanation : Explanation
            Of this explainer.
        rows : DataFrame or array of shape (k, d)
            Alternatives; the index of a frame names them in the result.
        max_model_rows, time_budget : optional
            What may be spent, as in :meth:`explain`. Robustness is NaN where it is not enough for that.

        Returns
        -------
        DataFrame
            The columns of ``explanation.pointwise``.

        Raises
        ------
        BudgetSpentError
            If the budget does not even allow the rows themselves.
        """
        posterior = self.own_posterior(explanation, budget_of(max_model_rows, time_budget))
        x = self.space.encode(rows)
        named = isinstance(rows, pd.DataFrame) and not isinstance(rows.index, pd.RangeIndex)
        labels = [str(label) for label in rows.index] if named else [f"row {i}" for i in range(len(x))]
        decisions = evaluate_points(explanation.query, posterior, labels, x, self._neighbours)
        return replace(explanation, decisions=decisions).pointwise

    def safe_box(
        self, explanation: Explanation, label: str = "answer", *, features: Sequence[str] | None = None
    ) -> SafeBox | None:
        """Return ranges around a decision within which the first model certainly reaches the target.

        Parameters
        ----------
        explanation : Explanation
            Made by this explainer.
        label : str
            Which decision, as its tables name it; ``"answer"`` for the answer.
        features : sequence of str, optional
            Columns that may vary; those that the decision changes when left out.

        Returns
        -------
        SafeBox or None
            Proved from all leaves. None where the model is no tree ensemble that can be read, where the decision does
            not reach the target, or where no range is more than a point: around the cheapest points they are thin,
            around an answer with slack they are wide.

        Examples
        --------
        >>> import gbce
        >>> from sklearn.tree import DecisionTreeRegressor
        >>> x = np.arange(40.0)[:, None]
        >>> explainer = gbce.Explainer(DecisionTreeRegressor(max_depth=3).fit(x, x[:, 0]), x)
        >>> explanation = explainer.explain([3.0], gbce.AtLeast(20), rules=["MAP"], seed=0)
        >>> explainer.safe_box(explanation).features
        ('x1',)
        """
        posterior = self.own_posterior(explanation, budget_of(None, None))
        found = [one for one in explanation.decisions if one.label == label]
        if label == "answer" and explanation.answer is not None:
            found = [explanation.answer.decision]
        if not found:
            labels = [one.label for one in explanation.decisions]
            raise ValueError(f"safe_box: there is no decision {label!r}; the labels are {labels}, and 'answer'")
        if isinstance(features, str):
            features = [features]
        if features is not None and len(set(features)) < len(features):
            raise ValueError(f"safe_box: a column is named twice in {list(features)}")
        unknown = sorted(set(features or ()) - set(self.space.names))
        if unknown:
            raise ValueError(f"safe_box: there are no columns {unknown}; the features are {list(self.space.names)}")
        which = None if features is None else np.array([self.space.position[name] for name in features], dtype=int)
        return safe_box_of(explanation.query, posterior, found[0].x, which) if found[0].reached[0] else None

    def given(
        self,
        explanation: Explanation,
        *,
        keep: Iterable[str] | str = (),
        at_least: Mapping[str, Any] | None = None,
        at_most: Mapping[str, Any] | None = None,
        between: Mapping[str, tuple[Any, Any]] | None = None,
        exactly: Mapping[str, Any] | None = None,
        effort: Mapping[str, float] | None = None,
        eta: float | None = None,
        seed: Any = None,
        max_model_rows: int | None = None,
        time_budget: float | None = None,
    ) -> Explanation:
        """Explain the row of an explanation again, given that columns stay, lie in a range or are harder to change.

        It is the posterior of :meth:`gbce.Explanation.given`, which answers from the draws where they carry it; here
        the models are asked anew. Row, target and rules are those of the explanation, and so is eta unless another one
        is given.

        Parameters
        ----------
        explanation : Explanation
            Of this explainer.
        keep, at_least, at_most, between, exactly, effort : optional
            What is to hold, as in :meth:`gbce.Explanation.given`.
        eta : float, optional
            Another weight of the loss against the prior, with or without conditions.
        seed : int, Generator or SeedSequence, optional
            The explanation's own when left out.
        max_model_rows, time_budget : optional
            What may be spent, as in :meth:`explain`.

        Returns
        -------
        Explanation
            A new run. A rule whose point does not meet the conditions, because the row itself does not, is left out.

        Raises
        ------
        ValueError
            For conditions that nothing meets, and an explanation of other models.

        Examples
        --------
        >>> import gbce
        >>> data = np.random.default_rng(0).normal(size=(60, 2))
        >>> explainer = gbce.Explainer(lambda x: x.sum(axis=1), data, space=gbce.Space.real(2))
        >>> explanation = explainer.explain([0.0, 0.0], gbce.AtLeast(1, scale=1), rules=[gbce.MAP()], seed=0)
        >>> explainer.given(explanation, keep=["x1"]).counterfactuals["x1"].tolist()
        [0.0]
        """
        event = Event(keep, at_least, at_most, between, exactly, effort)
        return explain_given(self, explanation, event, eta, seed, budget_of(max_model_rows, time_budget))

    def widget(self, explanation: Explanation) -> Any:
        """Return a live page for a notebook: set values, ask the model, hold columns and sample anew.

        Needs the extra ``widget`` (anywidget). What is asked runs in the kernel; ``widget.explanation`` is what the
        page shows now. An edited row is explained with the explanation's target, its numbers as they were filled in. In
        a notebook without a kernel a widget is blank; the explanation itself shows its page there.

        Parameters
        ----------
        explanation : Explanation
            Of this explainer.

        Examples
        --------
        >>> import gbce
        >>> data = np.random.default_rng(0).normal(size=(60, 2))
        >>> explainer = gbce.Explainer(lambda x: x.sum(axis=1), data, space=gbce.Space.real(2))
        >>> explanation = explainer.explain([0.0, 0.0], gbce.AtLeast(1, scale=1), rules=[gbce.MAP()], seed=0)
        >>> live = explainer.widget(explanation)  # doctest: +SKIP
        """
        from gbce.pages import make_widget

        return make_widget(self, explanation)

    # --- the steps for one row, for the rooms that build on them -------------------------------------------

    def listed_rules(self, rules: Any) -> tuple[Rule, ...]:
        """Return rules as a tuple, the default ones for ``None``, or say what is wrong with them."""
        usual = _RULES_WITHOUT_POSTERIOR if isinstance(self.sampler, SearchOnly) else _DEFAULT_RULES
        return require_rules(usual if rules is None else rules, self.space)

    def listed_target(self, target: Any) -> Target:
        """Return a target as it is, and a class label as the wish for it; or say what is wrong with it."""
        first = self.predictors[0]
        return as_target(target, first.classes, first.name)

    def prepare(self, target: Target | Any, budget: Budget) -> tuple[tuple[Predictor, ...], Target]:
        """Return predictors that count from zero and the target with its open numbers filled in.

        What this asks the models is asked once per explainer.
        """
        target = self.listed_target(target)
        predictors = tuple(predictor.with_fresh_meter() for predictor in self.predictors)
        if target.reads_classes:
            predictors = self._reference.as_classifiers(predictors, budget)
        spread = self._reference.output_spread(predictors[0], budget) if target.needs_spread else 1.0
        return predictors, target.resolve(spread)

    def prepare_refits(self, target: Target, budget: Budget) -> tuple[Predictor, ...]:
        """Return the predictors of refitted models, if there are any, that count from zero."""
        return () if self.refits is None else self.refits.prepare(target, budget)

    def ask_about_data(self, predictors: tuple[Predictor, ...], budget: Budget) -> None:
        """Ask models about some rows of the data, once per explainer: those that meet a target show where to search."""
        if self._searches:
            self._reference.ask_known(predictors, budget)

    def read_models(self, predictors: tuple[Predictor, ...], budget: Budget) -> None:
        """Read models as tree ensembles, where they are and it will be wanted, before other processes go on."""
        if not budget.limited and (self.policy is not None or self.sums_if_few):
            for reader, predictor in zip(self._readers, predictors, strict=True):
                reader.read(predictor)

    def rows_to_prepare(self, target: Target) -> int:
        """Return how many model rows :meth:`prepare` and :meth:`ask_about_data` take, if nothing was asked before."""
        rows = self._reference.rows_to_compare(self.predictors) if target.reads_classes else 0
        if self._searches:
            rows += self._reference.rows_to_know(self.predictors, target.reads_classes)
        return rows + (len(self._reference.rows) if target.needs_spread else 0)

    def explain_encoded(
        self,
        x0: Array,
        predictors: tuple[Predictor, ...],
        target: Target,
        rules: tuple[Rule, ...],
        seed: int,
        budget: Budget,
        refits: tuple[Predictor, ...] = (),
    ) -> Explanation:
        """Explain a row ``(d,)`` as it is encoded; predictors, refits and target are those of :meth:`prepare`."""
        posterior, query = self._evaluate_row(self._posterior(x0, predictors, target, budget), x0, rules, seed)
        for rule in rules:
            rule.check_target(query.target)
        decides = bool(rules) or isinstance(self.sampler, SearchOnly)  # which is there for an answer
        rng, share = stream(seed, SAMPLING, query.key), _SAMPLING_SHARE if decides else 1.0
        spending = sampling_budget(budget.share(share), self.sampler, len(predictors), self.jointly)
        allowed = replace(posterior, budget=spending)
        budget.begin("sampling")
        exact = sum_if_few(allowed, rng) if self.sums_if_few and not self.jointly else None
        if exact is not None:
            draws = exact
        else:
            draws = sample_jointly(self.sampler, allowed, rng) if self.jointly else self.sampler.sample(allowed, rng)
        if not isinstance(draws, Draws):
            raise TypeError(f"the sampler {type(self.sampler).__name__} must return Draws, not {draws!r:.80}")
        draws = replace(draws, space=self.space)
        # eta is the one that was reached, or found
        posterior = replace(posterior, mixture=replace(posterior.mixture, eta=draws.rungs[-1]), goal=None)
        query = replace(query, mixture=posterior.mixture)
        proof = self._prover.prove(query, posterior, draws.known)
        if not query.row.reached[0, 0] and proof is None:
            budget.begin("searching")
            draws = seek_reach(query, posterior, draws, self.data)
        budget.begin("deciding")
        policy = self.policy if decides else None
        again = None if self.refits is None else replace_models(posterior, refits, self.refits.weights)
        decided, draws = decide(query, draws, posterior, again, policy, self._neighbours)
        choices, rule_notes, handed, decisions, depends, apart = decided
        answer = None
        for rule, choice in handed if decisions else []:  # judged together with the others, shown apart from them
            *others, last = decisions
            decisions = tuple(others)
            best = hand_over(query, posterior, draws.known, last, decisions, depends)
            why = choice.note if best is last or not depends else f"{REPLACED} what {rule.label} chose"
            answer = judge_answer(query, posterior, again, draws, rule, why, best)
        # what a sampler knows of its own coverage is code, and has been heard: a result is plain data
        draws = replace(flag_missed_mass(query, posterior, draws, decisions, apart), coverage=None)
        judged = decisions
        if answer is not None and not any(decision.reached[0] for decision in decisions):
            judged = (*decisions, replace(answer.decision, label="the answer"))
        status, note = judge_status(query, draws.known, judged, proof, depends)
        calibration = self._calibration(draws)
        notes = [
            note,
            unreached_note(draws, spending, None if self.eta_rule is not None else self.mixture.eta)
            or budget_note(draws, None if self.eta_rule is not None else self.mixture.eta),
            hanging_note(posterior),
            "" if decisions or not choices else "The budget left no row to judge decisions with.",
            calibration_note(calibration, posterior.mixture.eta),
            *rule_notes,
            *self.space.notes,
            self._assumed.note(self.space),
            shortfall_note(query, status, decisions),
            mode_note(query, decisions),
            *(reader.note for reader in self._readers),
        ]
        return Explanation(
            query=query,
            draws=draws,
            decisions=decisions,
            status=status,
            status_note=note,
            notes=tuple(sentence for sentence in notes if sentence),
            n_model_calls=posterior.n_calls + (0 if again is None else again.n_calls),
            n_model_rows=posterior.n_rows + (0 if again is None else again.n_rows),
            calibration=calibration,
            answer=answer if answer is None else replace(answer, proof=proof_of(answer, decisions, proof)),
            proof=proof if status == Status.NOT_ATTAINED else None,
        )

    def own_posterior(self, explanation: Explanation, budget: Budget) -> GibbsPosterior:
        """Return the posterior that an explanation was drawn from; refuse an explanation of other models."""
        posterior = self.posterior_of(require_explanation(explanation), budget)
        require_own(explanation, posterior)
        known = self._reference.known(posterior.predictors)
        return posterior if known is None else _with_landmarks(posterior, *known)

    def posterior_of(self, explanation: Explanation, budget: Budget) -> GibbsPosterior:
        """Return the posterior of an explanation under this explainer's models, which need not be its own."""
        query = explanation.query
        same = len(explanation.models) == len(self.predictors) and query.space.names == self.space.names
        space = restate(self.space, query.conditions, query.x0, spikes=query.sparse) if same else self.space
        if not same or explanation.space != space:
            raise ValueError(f"the explanation was made with another space, or another number of models. {ADVICE}")
        predictors, target = self.prepare(explanation.target, budget)
        prior = WithEffort(self.prior, query.effort).at(space, explanation.x0)
        mixture = explanation.mixture
        return GibbsPosterior(prior, predictors, target, mixture, budget=budget, readers=self._readers)

    @property
    def _searches(self) -> bool:
        """Whether the sampler begins at rows of the data; somebody's own need not say."""
        return bool(getattr(self.sampler, "searches", False))

    # --- pieces ---------------------------------------------------------------------------------------------

    def _wants(self, posterior: Any) -> bool:
        """Whether draws of the posterior are wanted; anything but yes and no is refused."""
        if not isinstance(posterior, (bool, np.bool_)):
            raise TypeError(f"posterior must be True or False, not {posterior!r:.80}")
        if isinstance(self.sampler, SearchOnly):  # it is without one already
            return True
        if not posterior and self.eta_rule is not None and not isinstance(self.eta_rule, ModelError):
            raise ValueError(f"posterior=False needs a number as eta: {self.eta_rule.label} finds one by draws")
        return bool(posterior)

    def _without_posterior(self) -> "Explainer":
        """Return the same explainer, as it is now, with a search in place of the sampler."""
        again = copy(self)
        again.__dict__ |= {"_data_hash": self._data_hash}  # made once, for all copies
        again.__dict__.pop("settings", None)  # which name the sampler
        again.sampler, again.sums_if_few = SearchOnly(), False
        return again

    def _posterior(
        self, x0: Array, predictors: tuple[Predictor, ...], target: Target, budget: Budget
    ) -> GibbsPosterior:
        """Return the posterior of a row, at the eta that was given or with the goal that it is to meet."""
        mixture, rule = self.mixture, self.eta_rule
        if isinstance(rule, ModelError):
            self._model_error |= rule.measure(self._models[0], self.space.decode(self.data), target, self._model_error)
            mixture, rule = replace(mixture, eta=rule.eta(target, self._model_error)), None
        prior = self.prior.at(self.space, x0)
        return GibbsPosterior(prior, predictors, target, mixture, rule, budget=budget, readers=self._readers)

    def _evaluate_row(
        self, posterior: GibbsPosterior, x0: Array, rules: tuple[Rule, ...], seed: int
    ) -> tuple[GibbsPosterior, Query]:
        """Evaluate the row; return the posterior with its target bound to what was said, and the whole question."""
        x = x0[None, :]
        others = replace(posterior, predictors=posterior.predictors[1:])
        said = posterior.ask_alone(x) + (others.ask(x, use_predict=True) if others.predictors else [])
        posterior = replace(posterior, target=posterior.target.bind(said[0]))
        known = self._reference.known(posterior.predictors) if self._searches else None
        if known is not None:
            posterior = _with_landmarks(posterior, *known)
        zero = np.zeros((1, posterior.prior.dimension))
        row = Points(zero, x, *posterior.read(said), cost=posterior.prior.cost(x), log_correction=np.zeros(1))
        row = exclude_row(row, self.space)
        return posterior, Query(
            space=self.space,
            target=posterior.target,
            models=tuple(predictor.name for predictor in posterior.predictors),
            mixture=posterior.mixture,
            evaluation=self.evaluation,
            rules=rules,
            seed=seed,
            row=row,
            free=self.space.free(x0),
            identities=tuple(predictor.identity for predictor in posterior.predictors),
            sparse=posterior.prior.spikes,
            settings=self.settings,
        )

    @cached_property
    def settings(self) -> tuple[tuple[str, str], ...]:
        """What the explainer was made with, as texts by name, for receipts."""
        return say_settings(
            [*self._models, *(() if self.refits is None else self.refits.models)],
            prior=self.prior,
            sampler=f"{_DEFAULT}: {self.sampler!r}" if self.sums_if_few else self.sampler,
            policy=self.policy,
            refits=None if self.refits is None else f"{len(self.refits.models)} models",
            eta_rule=None if self.eta_rule is None else self.eta_rule.label,
            jointly=True if self.jointly else None,
            data=f"{len(self.data)} rows, SHA-256 {self._data_hash}",
        )

    @cached_property
    def _data_hash(self) -> str:
        return sha256(np.ascontiguousarray(self.data).data).hexdigest()

    def _calibration(self, draws: Draws) -> Calibration | None:
        """Return how eta was found; nothing if it was given."""
        if self.eta_rule is None:
            return None
        if isinstance(self.eta_rule, ModelError):
            return Calibration(self.eta_rule.label, errors=dict(self._model_error))
        return Calibration(self.eta_rule.label, met=bool(draws.info.goal_met))


def _with_landmarks(posterior: GibbsPosterior, rows: Array, outputs: Sequence[Outputs]) -> GibbsPosterior:
    """Return a posterior that knows rows of the data ``(n, d)`` and what models said there."""
    said = posterior.read(outputs)
    return replace(posterior, landmarks=rows, landmark_loss=said.loss, landmark_said=said)


def _require_attribute(value: Any, attribute: str, what: str, example: str) -> None:
    if isinstance(value, type) or not hasattr(value, attribute):
        raise TypeError(f"{what} must be an object such as {example}, not {value!r}")


def _require_order(row: Any, target: Any, order: str) -> None:
    """Refuse a target in the place of a row, or a row in that of a target."""
    is_table = has_labels(target) or isinstance(target, (pd.Series, Mapping))
    is_table |= isinstance(target, np.ndarray) and target.ndim > 0
    if isinstance(row, Target) or (is_table and isinstance(row, (str, bool, int, float, np.generic))):
        raise TypeError(f"row and target are swapped: {order} takes the row first, not {show(row)}")


def _make_names_distinct(predictors: Sequence[Predictor]) -> tuple[Predictor, ...]:
    taken = list(SEVERAL_MODELS) if len(predictors) > 1 else []
    n_taken = len(taken)
    for predictor in predictors:
        numbered = (f"{predictor.name} #{number}" for number in count(2))
        taken.append(next(name for name in chain([predictor.name], numbered) if name not in taken))
    return tuple(replace(predictor, name=name) for predictor, name in zip(predictors, taken[n_taken:], strict=True))
