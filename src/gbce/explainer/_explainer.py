"""The Explainer: explain rows of a table under fitted models. It has the documented methods, a session the steps."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from gbce._numerics import seed_number
from gbce._validation import printable, show
from gbce.base import Array, Prior, Rule, Sampler, Target
from gbce.budget import budget_of
from gbce.decisions import Reliable, apply_rule, evaluate_points, require_rule
from gbce.eta import EtaRule
from gbce.explainer._answering import find_safe_box
from gbce.explainer._follow_up import explain_given
from gbce.explainer._notes import Progress, short_traceback, watched
from gbce.explainer._planning import make_plan
from gbce.explainer._session import open_session
from gbce.explanation import Event, Explanation, Plan, SafeBox, choice_table
from gbce.metrics import Evaluation
from gbce.posterior import Combine
from gbce.space import Space, describe_broken, has_labels
from gbce.stress import explainer_survival, frontier, sensitivity

if TYPE_CHECKING:
    from gbce.batch import ExplanationTable

_DEFAULT_POLICY = Reliable()
_SHOWN = 3  # models named in a repr


class Explainer:
    """Explains rows of a table under one or several fitted models.

    Parameters
    ----------
    model : estimator, callable, list or mapping of them, or ModelPosterior
        A fitted estimator or pipeline (scikit-learn, LightGBM, XGBoost, CatBoost, torch, ONNX), a
        :class:`gbce.Remote`, or a function of rows. With several models, put the best one first: figures are reported
        for it, followed by those of the others. A mapping names them: ``{"forest": m, "boosting": n}``. A model with
        an attribute ``cost_per_call = True`` is called as rarely as a ``Remote``, with shared calls.
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
    cache : path, optional
        A file of outputs, made if it is missing: no row is asked twice, by this call or any later one. Outputs belong
        to a model's identity: the address and version of a :class:`gbce.Remote`, the content of a fitted estimator, or
        an attribute ``identity`` of your own function. Of those found in the file three are asked again, once, and an
        error says if another model answers. It is an SQLite file of numbers; processes may share it.
    outputs : array of shape (n,) or (n, c), optional
        What the first model returns for the rows of ``data`` (probabilities, for a class), if that is known: these
        rows are not asked.

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

    __slots__ = ("__weakref__", "_session")  # options cannot be changed later: setting one raises an error

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
        cache: str | Path | None = None,
        outputs: Any = None,
    ) -> None:
        if hasattr(data, "predict") or callable(data):
            raise TypeError(
                f"data must be a table, not {type(data).__name__}, which predicts: gbce.Explainer(model, data) takes "
                "the model first, then the data"
            )
        self._session = open_session(
            model, data, space=space, prior=prior, eta=eta, sampler=sampler, weights=weights, combine=combine,
            evaluation=evaluation, batch_rows=batch_rows, refits=refits, policy=policy, joint=joint, cache=cache,
            outputs=outputs,
        )  # fmt: skip

    def __repr__(self) -> str:
        names = ", ".join(printable(one.name) for one in self._session.predictors[:_SHOWN])
        more = len(self._session.predictors) - _SHOWN
        shown = f"{names} and {more} more" if more > 0 else names
        rows, free = len(self._session.data), sum(one.mutable for one in self.space.features)
        policy = "no policy" if self._session.policy is None else self._session.policy.label
        columns = f"{len(self.space)} column{'s' * (len(self.space) != 1)}, {free} of which may change"
        return f"<Explainer: {shown}; {rows:,} rows of {columns}; {policy}>"

    @property
    def space(self) -> Space:
        """The table: what may change, how far and in which unit, as given or inferred."""
        return self._session.space

    @short_traceback
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
            the target; where eta is sought, as by default for a frame, at five times.
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
        session = self._session.drawing(posterior)
        budget = budget_of(max_model_rows, time_budget)
        listed, x0 = session.listed_rules(rules), self.space.encode_row(row)
        with watched(budget, progress):
            return session.explain(x0, target, listed, seed_number(seed), budget)

    @short_traceback
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
        keep: Literal["draws", "pool"] | None = None,
        posterior: bool = True,
    ) -> "ExplanationTable | Any":  # with a store a StoredTable, which callers without one need not expect
        """Explain many rows; an interrupted run can be resumed.

        Parameters
        ----------
        rows : DataFrame, array of shape (n, d), list of mappings or Series, path, or iterator of frames
            The rows; the index of a frame names them in the result. The path of a Parquet file or of a folder of them,
            and an iterator, are read in parts, and a row that does not fit is a line with its error.
        target, rules
            As in :meth:`explain`.
        seed : int, Generator or SeedSequence, or a list of one for each row, optional
            Each row gets exactly the result of :meth:`explain` with the same seed, whatever ``n_jobs``, its position
            and the other rows. Rows with named columns have their own random numbers, derived from the seed and their
            values, so that errors average out over a table; rows of an array share those of the seed, unless a list
            gives each its own.
        n_jobs : int, optional
            Number of processes, with the backend that :func:`joblib.parallel_config` sets; one by default. A model that
            uses all cores gains little. If a process is killed, its groups of rows are sent again.
        progress : bool or "auto"
            Whether to show a progress bar with the rate and the time left; ``"auto"`` does on a terminal and in a
            notebook.
        store : path, optional
            Folder for the table, a Parquet data set that other programs read and :func:`gbce.load` opens; needs the
            extra ``parquet``. Rows are written in groups and not kept in memory. A second run of the same question with
            the same folder explains only the missing rows; an interruption loses the current groups, of 16 rows, or 64
            in large tables. A different question raises an error: models and functions are recognised by their outputs
            for a few dozen rows of the data, a :class:`gbce.Remote` by its address and version. Nobody else can write
            into the folder meanwhile.
        max_model_rows, time_budget : optional
            Limits for each explained row, as in :meth:`explain`. Rows that are explained together pool their seconds,
            which include setting up.
        total_model_rows, total_time : optional
            The same limits for all rows together, setting up included. Model rows are shared equally; time that earlier
            groups of rows did not use goes to the later ones.
        on_error : {"record", "raise"}
            What to do with a row for which the model or a function fails: record the status "failed" and the error in
            ``diagnostics``, go on and warn in the end; or stop with an error that names the row. The next run with a
            store tries its failed rows again. Rows of a frame that do not fit the table raise an error before any model
            is called.
        keep : {"draws", "pool"}, optional
            Whether the store also keeps the draws of each row, in a file that :func:`gbce.load` reads, or every
            evaluated point, see :meth:`gbce.Explanation.save`, which takes four to six times the space.
        posterior : bool
            Whether to draw the posterior of each row, as in :meth:`explain`; without it a table of answers takes a
            fraction of the model rows.

        Returns
        -------
        ExplanationTable or StoredTable
            The tables of all rows; with a store, one that reads them from there when they are asked for.

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
            self._session.drawing(posterior), rows, target, rules=rules, seed=seed, n_jobs=n_jobs, progress=progress,
            store=store, max_model_rows=max_model_rows, time_budget=time_budget, total_model_rows=total_model_rows,
            total_time=total_time, on_error=on_error, keep=keep,
        )  # fmt: skip

    survival = short_traceback(explainer_survival)
    frontier = short_traceback(frontier)
    sensitivity = short_traceback(sensitivity)

    @short_traceback
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
        posterior = self._session.own_posterior(explanation, budget_of(max_model_rows, time_budget))
        choice = apply_rule(rule, explanation.query, explanation.draws, posterior)
        table = choice_table(self.space, choice, rule)
        table.attrs["note"] = choice.note
        return table

    @short_traceback
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
            The columns of ``explanation.pointwise``, and ``breaks``: which bounds and constraints of the space a row
            does not keep, as a string; empty if it keeps all.

        Raises
        ------
        BudgetSpentError
            If the budget does not allow the rows themselves.
        """
        posterior = self._session.own_posterior(explanation, budget_of(max_model_rows, time_budget))
        x = self.space.encode(rows)
        named = isinstance(rows, pd.DataFrame) and not isinstance(rows.index, pd.RangeIndex)
        labels = [str(label) for label in rows.index] if named else [f"row {i}" for i in range(len(x))]
        decisions = evaluate_points(explanation.query, posterior, labels, x, self._session.neighbours)
        table = replace(explanation, decisions=decisions).pointwise
        return table.assign(breaks=describe_broken(explanation.space, x, explanation.x0))

    @short_traceback
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
        posterior = self._session.own_posterior(explanation, budget_of(None, None))
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

    @short_traceback
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
            Conditions, as in :meth:`gbce.Explanation.given`. With an effort the default policy takes the point that is
            cheapest by it among those that keep its promise; other policies leave the cheapest known point.
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
        return explain_given(self._session, explanation, event, eta, seed, budget_of(max_model_rows, time_budget))

    @short_traceback
    def plan(
        self,
        explanation: Explanation,
        *,
        to: str | int = "answer",
        effort: Mapping[str, float] | None = None,
        time: Mapping[str, float] | None = None,
        order: Iterable[Sequence[str]] | None = None,
        fallbacks: bool = True,
        max_model_rows: int | None = None,
        time_budget: float | None = None,
    ) -> Plan:
        """Order the changes of an answer as steps, with what the model says after each and what to do if one fails.

        Each step changes one column and keeps the space and the rules between columns; columns that these rules tie
        change together where there is no other way. Of all possible orders it is the one with which the least effort,
        or time, is expected to be spent before the target is reached if one could stop after any step, and then the one
        whose loss falls earliest.

        Parameters
        ----------
        explanation : Explanation
            Made by this explainer.
        to : str or int
            Where to go: ``"answer"`` (if it misses the target, the cheapest decision that reaches it, or else the best
            point seen), the label of a rule, or the number of a strategy of ``explanation.alternatives``.
        effort : mapping of str to float, optional
            What a change of a column costs, as a factor of its size in units of the column's scale, as in
            :meth:`gbce.Explanation.given`.
        time : mapping of str to float, optional
            How long the change of a column takes, in any unit; zero for columns not named. The order then minimises
            time instead of effort.
        order : list of sequences of str, optional
            What must come before what: ``[("degree", "job")]`` changes the degree before the job if both change.
        fallbacks : bool
            Whether to look for what to do if a step cannot be made: the answer given the steps before it, the columns
            of this one as they are. Each takes about as many model rows as the explanation.
        max_model_rows, time_budget : optional
            Limits, as in :meth:`explain`.

        Returns
        -------
        Plan
            Plain data with ``.steps``, ``.sentences``, ``.table``, ``.plot()`` and ``.to_json()``. Three probabilities
            stand beside each step, see :class:`gbce.explanation.PlanStep`: ``holds``, that the target is reached under
            execution noise if one stops there; ``prospect``, that the whole plan reaches it if the steps so far were
            made exactly and noise is left in the others; ``posterior``, that of the target under the posterior given
            these steps.

        Raises
        ------
        ValueError
            If more than ten columns change, if no order keeps all rules, and for an explanation of other models.

        Examples
        --------
        >>> import gbce
        >>> data = pd.DataFrame(np.random.default_rng(0).normal(size=(200, 2)), columns=["skill", "hours"])
        >>> explainer = gbce.Explainer(lambda x: x["skill"] + x["hours"], data)
        >>> explanation = explainer.explain({"skill": 0.0, "hours": 0.0}, gbce.AtLeast(4), rules=["Nearest"], seed=0)
        >>> plan = explainer.plan(explanation, order=[("skill", "hours")], fallbacks=False)
        >>> [step.columns for step in plan], plan.n_orders
        ([('skill',), ('hours',)], 1)
        """
        budget = budget_of(max_model_rows, time_budget)
        return make_plan(
            self._session, explanation, to=to, effort=effort, time=time, order=order, fallbacks=fallbacks, budget=budget
        )

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


def _require_order(row: Any, target: Any, order: str) -> None:
    """Raise if row and target are swapped."""
    is_table = has_labels(target) or isinstance(target, (pd.Series, Mapping))
    is_table |= isinstance(target, np.ndarray) and target.ndim > 0
    if isinstance(row, Target) or (is_table and isinstance(row, (str, bool, int, float, np.generic))):
        raise TypeError(f"row and target are swapped: {order} takes the row first, not {show(row)}")
