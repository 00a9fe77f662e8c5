"""The Explainer: explain rows of a table under fitted models. It assembles the steps; the mathematics is elsewhere."""

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
from gbce.explainer._answering import REPLACED, Prover, choose_answer, find_safe_box, judge_answer, state_proof
from gbce.explainer._notes import (
    AssumedPrior,
    assume_prior,
    flag_missed_mass,
    has_meaning,
    judge_status,
    limit_sampling,
    note_budget,
    note_calibration,
    note_hanging,
    note_mode,
    note_shortfall,
    note_unreached,
    order_by_model,
    seek_reach,
)
from gbce.explainer._session import ADVICE, Progress, decide, describe_settings, explain_given, require_own, watched
from gbce.explanation import Event, Explanation, SafeBox, Status, choice_table, exclude_row, require_explanation
from gbce.metrics import SEVERAL_MODELS, Evaluation, Neighbours, require_noise
from gbce.posterior import Combine, GibbsPosterior, Mixture, as_weights
from gbce.predictors import Predictor, Reference, as_predictor
from gbce.priors import WithEffort
from gbce.samplers import MANY_MODELS, SMC, SearchOnly, sample_jointly
from gbce.space import Space, has_labels, restate
from gbce.stress import KnownModels, OtherModels, explainer_survival, frontier, replace_models, sensitivity
from gbce.targets import as_target
from gbce.trees import CellReader, ExactTrees, draw_if_many, sum_if_few

if TYPE_CHECKING:
    from gbce.batch import ExplanationTable

__all__ = ["Explainer"]

_DEFAULT_RULES: tuple[Rule, ...] = (Nearest(), ChanceConstrained(), CVaR(), MAP())
_RULES_WITHOUT_POSTERIOR: tuple[Rule, ...] = (Nearest(),)  # the other defaults need draws
_DEFAULT_POLICY = Reliable()
_DEFAULT = "left out, which is"  # prefix of a default in the recorded settings
_SAMPLING_SHARE = 0.5  # of the budget if there are rules, chosen by hand; the rest is for them and their figures


class Explainer:
    """Explains rows of a table under one or several fitted models.

    Parameters
    ----------
    model : estimator, callable, list of them, or ModelPosterior
        A fitted estimator or pipeline (scikit-learn, LightGBM, XGBoost, CatBoost, torch, ONNX), a
        :class:`gbce.Remote`, or a function of rows. With several models, put the best one first: figures are reported
        for it, followed by those of the others.
    data : DataFrame or array of shape (n, d)
        Rows the model was fitted on, without the outcome; used for units, plausibility and the spread of outputs. The
        order of columns does not matter if the model knows its own.
    space : Space, optional
        What may change, how far and in which unit; inferred from the data by default, see :meth:`gbce.Space.infer`.
    prior : Gaussian, Laplace, Sparse, NearData or DistancePrior, optional
        Distribution of candidates around the row. By default ``Sparse(moves=3)`` for a frame, under which about three
        columns change, and the paper's ``Gaussian()`` for an array or a :meth:`gbce.Space.real`; a note says so.
    eta : float, "auto", SuccessProbability, ExpectedLoss or ModelError
        Weight of the loss against the prior: a number, or a rule that finds one for each row. ``"auto"`` is
        ``SuccessProbability(0.9, least=1)``: the smallest eta, at least 1, whose posterior reaches the target with
        probability 0.9. By default ``"auto"`` for one model on a frame, so that the posterior speaks about the target,
        and the paper's 1 for an array, a :meth:`gbce.Space.real`, several models, or a sampler other than ``SMC``.
    sampler : SMC, ExactTrees, GibbsTrees, Importance, Chains or Nested, optional
        How to draw. By default :class:`gbce.ExactTrees` for tree ensembles with few cells whose columns move
        independently, :class:`gbce.GibbsTrees` for those with many on a table, and ``SMC()`` otherwise. For a prior or
        sampler of your own see :mod:`gbce.base`.
    weights : sequence of K numbers, optional
        Weights of the models, equal by default. :func:`gbce.weights_from_risk` computes them from cross-validated
        losses.
    combine : {"any", "all", "average"} or Entropic
        How several models are combined: at least one must agree (the paper's mixture), all must (the worst case), their
        average loss counts, or anything in between (:class:`gbce.Entropic`).
    evaluation : Evaluation, optional
        Settings of the figures: execution noise, neighbours, tail.
    batch_rows : int, optional
        Largest number of rows in one model call.
    refits : list of models or ModelPosterior, optional
        At least 20 refits of the same model, to other samples or with other seeds. ``explanation.answer`` is then
        chosen among points that half of them accept, and reports how many of the other half agree.
    policy : Rule or name of one, optional
        Rule that chooses ``explanation.answer``, :class:`gbce.Reliable` by default; ``None`` for no answer.
    joint : bool, optional
        Whether each point carries the index of one model and is evaluated by that one only, so that a mixture of many
        models (``combine="any"``, eta a number) costs about as much as one. By default from twenty models on.

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
        eta: float | Literal["auto"] | EtaRule | None = None,
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
        if hasattr(self.prior, "learned"):  # from the data: correlations, densities, ranges
            self.prior = self.prior.learned(self.space, self.data)
        self.sampler: Sampler = SMC() if sampler is None else sampler
        self.sums_if_few = sampler is None  # whether cells are summed instead, where they are few
        self.evaluation = Evaluation() if evaluation is None else evaluation
        # on a table the posterior has to speak about the target; the paper's eta = 1 is for arrays
        chosen = has_meaning(self.space, data) and len(models) == 1 and (sampler is None or isinstance(sampler, SMC))
        self._eta_assumed = eta is None and chosen
        number, self.eta_rule = as_eta(("auto" if chosen else 1.0) if eta is None else eta)
        self.mixture = Mixture(number, as_weights(weights, len(models)), combine)
        _require_attribute(self.prior, "at", "prior", "gbce.Gaussian(), gbce.Laplace() or gbce.DistancePrior(...)")
        _require_attribute(self.sampler, "sample", "sampler", "gbce.SMC()")
        _require_attribute(self.evaluation, "noise", "evaluation", "gbce.Evaluation()")
        if batch_rows is not None and not is_count(batch_rows):
            raise ValueError(f"batch_rows must be an integer of at least 1, not {batch_rows!r}")
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
        self._model_error: dict[str, Any] = {}  # shared with the copy that explains without a posterior
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
            The row, x_b; a frame may come from any library.
        target : Value, Range, AtLeast, AtMost, Change, Class, Multi or Loss; or a class label of the model
            Desired output of the model, y*; ``"good"`` is short for ``Class("good")``.
        rules : Rule or name of one, or a sequence of them, optional
            Decision rules to apply; by default Nearest, ChanceConstrained, CVaR and MAP, and without a posterior
            Nearest alone.
        seed : int, Generator or SeedSequence, optional
            The same row and seed give identical results, here and in :meth:`explain_many`.
        max_model_rows : int, optional
            Largest number of model rows, over all models. When they are used up, the result is the posterior at the
            eta reached so far, with a note. By default sampling ends, with a note, at thirty times the rows of a usual
            explanation (1,200,000 for each model with the default sampler), or at ten times while no point reaches
            the target.
        time_budget : float, optional
            Seconds after which models are no longer called, except for the few rows of the decisions. Batches are sized
            by the measured time per row, so that the limit is exceeded by one batch at most: 0.05 seconds, or a single
            row for slower models. Results then depend on the machine. Models are called in another thread; one that
            hangs is abandoned a second later, with a note, or with an error if there is no result yet.
        progress : bool or "auto"
            Whether to show the current stage and the number of model rows so far. ``"auto"`` does so on a terminal and
            in a notebook after one second; the bar disappears in the end.
        posterior : bool
            Whether to draw the posterior. Without it, one search finds the answer and its reliability for a fraction of
            the model rows: :class:`gbce.SearchOnly` replaces the sampler, and its few draws are not to be trusted.

        Returns
        -------
        Explanation
            Plain data, which can be saved, plotted and sent without the model.

        Raises
        ------
        BudgetSpentError
            If the budget does not allow the first predictions, or a model hangs before there are any.
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
            self.prior.at(self.space, x0)  # a prior that does not fit raises before any model is called
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
        """Explain many rows, with shared model calls; an interrupted run can be resumed.

        Parameters
        ----------
        rows : DataFrame, array of shape (n, d), or list of mappings or Series
            The rows; the index of a frame names them in the result.
        target, rules
            As in :meth:`explain`.
        seed : int, Generator or SeedSequence, or a list of one for each row, optional
            Each row gets exactly the result of :meth:`explain` with the same seed, whatever ``n_jobs``, its position
            and the other rows. Rows with named columns have their own random numbers, derived from the seed and their
            values, so that errors average out over a table; rows of an array share those of the seed, unless a list
            gives each its own.
        n_jobs : int, optional
            Number of processes, as in joblib; one by default. A model that uses all cores gains little.
        progress : bool or "auto"
            Whether to show a progress bar; ``"auto"`` does on a terminal and in a notebook.
        store : path, optional
            Folder for finished rows, each a file that :func:`gbce.load` reads. A second run of the same question with
            the same folder explains only the missing rows; an interruption loses at most the current group of sixteen
            rows. A different question raises an error: models and functions are recognised by their outputs for a few
            dozen rows of the data, a :class:`gbce.Remote` by its address and version.
        max_model_rows, time_budget : optional
            Limits for each explained row, as in :meth:`explain`. Rows that are explained together pool their seconds,
            which include setting up.
        total_model_rows, total_time : optional
            The same limits for all rows together, setting up included. Model rows are shared equally; time that earlier
            groups of rows did not use goes to the later ones.
        on_error : {"record", "raise"}
            What to do with a row for which the model or a function fails: record the status "failed" and the error in
            ``diagnostics``, go on and warn in the end; or stop with an error that names the row. A failed row is not
            stored, so that it is tried again. Rows that do not fit the table raise an error before any model is called.
        keep_pool : bool
            Whether stored files keep every evaluated point, see :meth:`gbce.Explanation.save`. Without them files are
            four to six times smaller; tables, plots, decisions and draws are the same. Rows already stored stay as they
            are.
        posterior : bool
            Whether to draw the posterior of each row, as in :meth:`explain`; without it a table of answers takes a
            fraction of the model rows.

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
        from gbce.batch import explain_many  # a higher package: it imports this one

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
        """Apply one more rule to an explanation of this explainer; the rule may call the model.

        Parameters
        ----------
        explanation : Explanation
            Made by this explainer.
        rule : Rule or str
            Such as ``gbce.CVaR(0.95)`` or ``"CVaR"``.
        max_model_rows, time_budget : optional
            Limits, as in :meth:`explain`.

        Returns
        -------
        DataFrame
            The chosen points in the user's columns, one line each; a note on the choice, such as that the budget ran
            out, is in ``.attrs["note"]``.

        Raises
        ------
        BudgetSpentError
            If the budget is too small for the rule and it cannot choose among known points.
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
        """Evaluate any rows as if a rule had chosen them, to answer "what if we do this instead?".

        Parameters
        ----------
        explanation : Explanation
            Made by this explainer.
        rows : DataFrame or array of shape (k, d)
            Alternatives; the index of a frame names them in the result.
        max_model_rows, time_budget : optional
            Limits, as in :meth:`explain`. Robustness is NaN if they do not allow it.

        Returns
        -------
        DataFrame
            The columns of ``explanation.pointwise``.

        Raises
        ------
        BudgetSpentError
            If the budget does not allow the rows themselves.
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
        """Return ranges around a decision within which the first model is guaranteed to reach the target.

        Parameters
        ----------
        explanation : Explanation
            Made by this explainer.
        label : str
            Label of the decision, or ``"answer"`` for the answer.
        features : sequence of str, optional
            Columns that may vary; by default those that the decision changes.

        Returns
        -------
        SafeBox or None
            Proved from all leaves. None if the model is not a tree ensemble that can be read, if the decision does not
            reach the target, or if no range is more than a point: ranges are narrow around the cheapest points and wide
            around an answer with slack.

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
        return find_safe_box(explanation.query, posterior, found[0].x, which) if found[0].reached[0] else None

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

        The posterior is that of :meth:`gbce.Explanation.given`, which reweights the draws if enough are left; here the
        models are called again. Row, target, rules and, by default, eta are those of the explanation.

        Parameters
        ----------
        explanation : Explanation
            Made by this explainer.
        keep, at_least, at_most, between, exactly, effort : optional
            Conditions, as in :meth:`gbce.Explanation.given`.
        eta : float, optional
            Another weight of the loss against the prior, with or without conditions.
        seed : int, Generator or SeedSequence, optional
            By default that of the explanation.
        max_model_rows, time_budget : optional
            Limits, as in :meth:`explain`.

        Returns
        -------
        Explanation
            A new run. A rule is left out if its point violates the conditions because the row itself does.

        Raises
        ------
        ValueError
            For conditions that no point meets, and for an explanation of other models.

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
        """Return a live page for a notebook: set values, call the model, hold columns and sample again.

        Needs the extra ``widget`` (anywidget). Questions run in the kernel; ``widget.explanation`` is the explanation
        shown. An edited row is explained with the target of the explanation, including its inferred numbers. Without a
        kernel the widget is blank; the explanation itself still shows its page.

        Parameters
        ----------
        explanation : Explanation
            Made by this explainer.

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

    # --- steps for one row, shared with batches and stress tests --------------------------------------------

    def listed_rules(self, rules: Any) -> tuple[Rule, ...]:
        """Return rules as a validated tuple, the defaults for ``None``."""
        usual = _RULES_WITHOUT_POSTERIOR if isinstance(self.sampler, SearchOnly) else _DEFAULT_RULES
        return require_rules(usual if rules is None else rules, self.space)

    def listed_target(self, target: Any) -> Target:
        """Return a validated target; a class label becomes a ``Class`` target."""
        first = self.predictors[0]
        return as_target(target, first.classes, first.name)

    def prepare(self, target: Target | Any, budget: Budget) -> tuple[tuple[Predictor, ...], Target]:
        """Return predictors with fresh call counters, and the target with its open numbers resolved on the data."""
        target = self.listed_target(target)
        predictors = tuple(predictor.with_fresh_meter() for predictor in self.predictors)
        if target.reads_classes:
            predictors = self._reference.as_classifiers(predictors, budget)
        spread = self._reference.output_spread(predictors[0], budget) if target.needs_spread else 1.0
        return predictors, target.resolve(spread)

    def prepare_refits(self, target: Target, budget: Budget) -> tuple[Predictor, ...]:
        """Return the predictors of refitted models, if any, with fresh call counters."""
        return () if self.refits is None else self.refits.prepare(target, budget)

    def ask_about_data(self, predictors: tuple[Predictor, ...], budget: Budget) -> None:
        """Evaluate some rows of the data, once per explainer, as starting points of searches."""
        if self._searches:
            self._reference.ask_known(predictors, budget)

    def read_models(self, predictors: tuple[Predictor, ...], budget: Budget) -> None:
        """Read tree ensembles in advance if they will be needed, before other processes start."""
        if not budget.limited and (self.policy is not None or self.sums_if_few):
            for reader, predictor in zip(self._readers, predictors, strict=True):
                reader.read(predictor)

    def rows_to_prepare(self, target: Target) -> int:
        """Return how many model rows :meth:`prepare` and :meth:`ask_about_data` take the first time."""
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
        """Explain an encoded row ``(d,)``; predictors, refits and target come from :meth:`prepare`."""
        posterior, query = self._evaluate_row(self._posterior(x0, predictors, target, budget), x0, rules, seed)
        for rule in rules:
            rule.check_target(query.target)
        decides = bool(rules) or isinstance(self.sampler, SearchOnly)  # SearchOnly exists to find an answer
        rng, share = stream(seed, SAMPLING, query.key), _SAMPLING_SHARE if decides else 1.0
        spending = limit_sampling(budget.share(share), self.sampler, len(predictors), self.jointly)
        allowed = replace(posterior, budget=spending)
        budget.begin("sampling")
        by_cells = self.sums_if_few and not self.jointly
        on_cells = sum_if_few(allowed, rng) if by_cells else None
        on_cells = draw_if_many(allowed, rng) if by_cells and on_cells is None else on_cells
        if on_cells is not None:
            draws = on_cells
        else:
            draws = sample_jointly(self.sampler, allowed, rng) if self.jointly else self.sampler.sample(allowed, rng)
        if not isinstance(draws, Draws):
            raise TypeError(f"the sampler {type(self.sampler).__name__} must return Draws, not {draws!r:.80}")
        draws = replace(draws, space=self.space)
        # the eta that the sampler reached, or found
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
        choices, rule_notes, by_policy, decisions, depends, apart = decided
        answer = None
        for rule, choice in by_policy if decisions else []:  # evaluated with the others, reported separately
            *others, last = decisions
            decisions = tuple(others)
            best = choose_answer(query, posterior, draws.known, last, decisions, depends)
            why = choice.note if best is last or not depends else f"{REPLACED} what {rule.label} chose"
            answer = judge_answer(query, posterior, again, draws, rule, why, best)
        # the coverage check is code and no longer needed: a result is plain data
        draws = replace(flag_missed_mass(query, posterior, draws, decisions, apart), coverage=None)
        judged = decisions
        if answer is not None and not any(decision.reached[0] for decision in decisions):
            judged = (*decisions, replace(answer.decision, label="the answer"))
        status, note = judge_status(query, draws.known, judged, proof, depends)
        calibration = self._calibration(draws)
        notes = [
            note,
            note_unreached(draws, spending, None if self.eta_rule is not None else self.mixture.eta)
            or note_budget(draws, None if self.eta_rule is not None else self.mixture.eta),
            note_hanging(posterior),
            "" if decisions or not choices else "The budget left no model rows to evaluate decisions.",
            note_calibration(calibration, posterior.mixture.eta),
            *rule_notes,
            *self.space.notes,
            self._assumed.note(self.space),
            note_shortfall(query, status, decisions),
            note_mode(query, decisions),
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
            answer=answer if answer is None else replace(answer, proof=state_proof(answer, decisions, proof)),
            proof=proof if status == Status.NOT_ATTAINED else None,
        )

    def own_posterior(self, explanation: Explanation, budget: Budget) -> GibbsPosterior:
        """Return the posterior that an explanation was drawn from; raise if it was made with other models."""
        posterior = self.posterior_of(require_explanation(explanation), budget)
        require_own(explanation, posterior)
        known = self._reference.known(posterior.predictors)
        return posterior if known is None else _add_landmarks(posterior, *known)

    def posterior_of(self, explanation: Explanation, budget: Budget) -> GibbsPosterior:
        """Return the posterior of an explanation under this explainer's models, whatever models it was made with."""
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
        """Whether the sampler starts from rows of the data; a user-defined one may not tell."""
        return bool(getattr(self.sampler, "searches", False))

    # --- helpers --------------------------------------------------------------------------------------------

    def _wants(self, posterior: Any) -> bool:
        """Validate the option ``posterior`` and return whether this explainer should draw."""
        if not isinstance(posterior, (bool, np.bool_)):
            raise TypeError(f"posterior must be True or False, not {posterior!r:.80}")
        if isinstance(self.sampler, SearchOnly):  # it already searches only
            return True
        if (
            not posterior
            and self.eta_rule is not None
            and not (isinstance(self.eta_rule, ModelError) or self._eta_assumed)
        ):
            raise ValueError(f"posterior=False needs a number as eta: {self.eta_rule.label} needs draws")
        return bool(posterior)

    def _without_posterior(self) -> "Explainer":
        """Return a copy with a search in place of the sampler."""
        again = copy(self)
        again.__dict__ |= {"_data_hash": self._data_hash}  # computed once for all copies
        again.__dict__.pop("settings", None)  # they name the sampler
        again.sampler, again.sums_if_few = SearchOnly(), False
        if self._eta_assumed:
            again.eta_rule = None
        return again

    def _posterior(
        self, x0: Array, predictors: tuple[Predictor, ...], target: Target, budget: Budget
    ) -> GibbsPosterior:
        """Return the posterior of a row, at a given eta or with the goal that eta has to meet."""
        mixture, rule = self.mixture, self.eta_rule
        if isinstance(rule, ModelError):
            self._model_error |= rule.measure(self._models[0], self.space.decode(self.data), target, self._model_error)
            mixture, rule = replace(mixture, eta=rule.eta(target, self._model_error)), None
        prior = self.prior.at(self.space, x0)
        return GibbsPosterior(prior, predictors, target, mixture, rule, budget=budget, readers=self._readers)

    def _evaluate_row(
        self, posterior: GibbsPosterior, x0: Array, rules: tuple[Rule, ...], seed: int
    ) -> tuple[GibbsPosterior, Query]:
        """Evaluate the row; return the posterior with its target bound to the row's outputs, and the query."""
        x = x0[None, :]
        others = replace(posterior, predictors=posterior.predictors[1:])
        outputs = posterior.ask_alone(x) + (others.ask(x, use_predict=True) if others.predictors else [])
        posterior = replace(posterior, target=posterior.target.bind(outputs[0]))
        known = self._reference.known(posterior.predictors) if self._searches else None
        if known is not None:
            posterior = _add_landmarks(posterior, *known)
        zero = np.zeros((1, posterior.prior.dimension))
        row = Points(zero, x, *posterior.read(outputs), cost=posterior.prior.cost(x), log_correction=np.zeros(1))
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
        """Settings of the explainer as strings by name, for receipts."""
        return describe_settings(
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
        """Return how eta was found, None if it was given."""
        if self.eta_rule is None:
            return None
        if isinstance(self.eta_rule, ModelError):
            return Calibration(self.eta_rule.label, errors=dict(self._model_error))
        return Calibration(self.eta_rule.label, met=bool(draws.info.goal_met))


def _add_landmarks(posterior: GibbsPosterior, rows: Array, outputs: Sequence[Outputs]) -> GibbsPosterior:
    """Add evaluated rows of the data ``(n, d)`` to a posterior."""
    reading = posterior.read(outputs)
    return replace(posterior, landmarks=rows, landmark_loss=reading.loss, landmark_evaluated=reading)


def _require_attribute(value: Any, attribute: str, what: str, example: str) -> None:
    if isinstance(value, type) or not hasattr(value, attribute):
        raise TypeError(f"{what} must be an object such as {example}, not {value!r}")


def _require_order(row: Any, target: Any, order: str) -> None:
    """Raise if row and target are swapped."""
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
