"""Survival of decisions and draws under other models, and sensitivity of the posterior to changes of the row.

Other models of the same table are wrapped once and remembered, because preparing classifiers takes longer than calling
them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gbce._numerics import JUDGING, ROUNDING, seed_number, stream
from gbce._validation import is_count, printable
from gbce.base import Array, Outputs, Target
from gbce.budget import Budget, BudgetSpentError, budget_of
from gbce.decisions import answers_among, stack_points
from gbce.draws import Draws
from gbce.ensembles import ModelPosterior, as_models
from gbce.explanation import Explanation, require_explanation
from gbce.metrics import Noise, offsets, require_noise, survival_table
from gbce.posterior import GibbsPosterior, as_weights
from gbce.predictors import Panel, Predictor, Reference, as_predictor
from gbce.space import Places, Space

if TYPE_CHECKING:
    from gbce.explainer import Explainer, Session

_N_REMEMBERED = 2  # lists of models: enough for the ``models`` and ``unseen`` of one frontier
_MAX_COMPARED = 2_000  # draws of each posterior: 32 MB of distances
# Ratios of the shift of the posterior mean to that of the row that decide the words of the sentence; by hand.
_FARTHER = 1.1
_MUCH_FARTHER = 2.0

# --- other models of the same table ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class OtherModels:
    """K models as given and wrapped, weights ``(K,)`` that sum to one, and rows on which classifiers are compared."""

    models: tuple[Any, ...]
    predictors: tuple[Predictor, ...]
    weights: Array
    reference: Reference

    @classmethod
    def of(cls, models: Any, space: Space, data: Array, what: str = "models") -> "OtherModels":
        """Wrap one model, a list or a posterior over models, with encoded ``data (n, d)``; errors name ``what``."""
        listed = as_models(models, what)
        predictors = tuple(as_predictor(model, space) for model in listed)
        return cls(listed, predictors, _weights_of(models, len(listed)), Reference.of(data, space))

    def match(self, models: Any) -> "OtherModels | None":
        """Return these models with the current weights of ``models`` if they are the same objects, else None."""
        listed = as_models(models, "models")
        if len(listed) != len(self.models) or any(a is not b for a, b in zip(listed, self.models, strict=True)):
            return None
        return replace(self, weights=_weights_of(models, len(listed)))

    def prepare(self, target: Target, budget: Budget) -> tuple[Predictor, ...]:
        """Return the predictors, as classifiers if the target is a class."""
        if target.reads_classes:
            return self.reference.as_classifiers(self.predictors, budget)
        return tuple(predictor.with_fresh_meter() for predictor in self.predictors)


def _weights_of(models: Any, n: int) -> Array:
    return models.weights if isinstance(models, ModelPosterior) else as_weights(None, n)


@dataclass
class KnownModels:
    """Cache of the other models that an explainer was given last; classifiers are compared on rows ``data (n, d)``."""

    space: Space
    data: Array
    recent: list[OtherModels] = field(default_factory=list)

    def wrap(self, models: Any) -> OtherModels:
        """Wrap models, or return them from the cache."""
        for others in self.recent:
            known = others.match(models)
            if known is not None:
                return known
        self.recent[:] = [*self.recent[-(_N_REMEMBERED - 1) :], OtherModels.of(models, self.space, self.data)]
        return self.recent[-1]


def posterior_under(
    session: "Session",
    explanation: "Explanation",
    models: Any,
    budget: Budget,
    weights: Sequence[float] | None = None,
) -> GibbsPosterior:
    """Return the posterior of an explanation under other models, or under the session's own if None."""
    posterior = session.posterior_of(explanation, budget)
    if models is None:
        own = posterior.mixture.weights if weights is None else as_weights(weights, len(posterior.predictors))
        return replace_models(posterior, posterior.predictors, own)
    others = session.other_models.wrap(models)
    chosen = others.weights if weights is None else as_weights(weights, len(others.predictors))
    return replace_models(posterior, others.prepare(explanation.target, budget), chosen)


def replace_models(posterior: GibbsPosterior, predictors: Sequence[Predictor], weights: Array) -> GibbsPosterior:
    """Return the same posterior with other models in it."""
    mixture = replace(posterior.mixture, weights=weights)
    return replace(posterior, predictors=tuple(predictors), mixture=mixture, readers=())


# --- sensitivity to the row ------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """How far a posterior shifts with its row, compared with its variation between runs.

    Parameters
    ----------
    table : DataFrame
        One line per run: the ``row`` that was explained ("same" or "moved"), how far it ``moved``, the energy
        ``distance`` of its posterior from that of the first run, the ``shift`` of the posterior mean, all in units of
        each feature's scale, its ``success_probability``, and the ``eta`` it reached, which is smaller than requested
        where the budget ended it.
    sentence : str
        The result in words.

    Examples
    --------
    >>> import gbce
    >>> data = np.random.default_rng(0).normal(size=(100, 2))
    >>> explainer = gbce.Explainer(lambda x: x.sum(axis=1), data)
    >>> found = explainer.sensitivity(data[0], gbce.AtLeast(2), noise=0.3, n_rows=2, n_null=1, seed=0)
    >>> found.table["row"].tolist()
    ['same', 'moved', 'moved']
    """

    table: pd.DataFrame
    sentence: str

    def __str__(self) -> str:
        return printable(self.sentence)


def sensitivity(
    explainer: "Explainer",
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
    """Explain nearby rows and measure how far the posterior shifts with the row.

    Parameters
    ----------
    row, target, seed
        As in :meth:`explain`.
    noise : number, sequence, mapping or function
        Perturbation of the row, see :class:`gbce.Evaluation`; only features that may change move, within the space.
    n_rows, n_null : int
        Number of nearby rows; number of further runs at the row itself, which show the variation by chance. Each is a
        complete run.
    max_model_rows, time_budget : optional
        Budget of all runs together, as in :meth:`explain`, in equal shares. Runs that the budget ended stop at a
        smaller eta, as the table and the sentence report.

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
    session = explainer._session
    space, x0 = session.space, session.space.encode_row(row)
    predictors, target = session.prepare(target, budget)

    def explain(x: Array, number: int, part: Budget) -> Explanation:
        return session.explain_encoded(x, predictors, target, (), number, part)

    for name, n in (("n_rows", n_rows), ("n_null", n_null)):
        if not is_count(n):
            raise ValueError(f"{name} must be an integer of at least 1, not {n!r}")
    require_noise(noise, space)
    number = seed_number(seed)
    seeds = [seed_number(child) for child in np.random.SeedSequence(number).spawn(1 + n_null + n_rows)]
    near = space.project(x0 + offsets(noise, space, stream(number, JUDGING), n_rows), x0)
    moved = space.distance(near, x0)
    if not (moved > 0).any():
        raise ValueError("no copy of the row moved: give a larger noise, and noise for a feature that may change")
    runs = _explain_each(explain, [x0] * (1 + n_null) + list(near), seeds, budget)
    kinds, lengths = ["same"] * n_null + ["moved"] * n_rows, [0.0] * n_null + list(moved)
    first = next(runs)
    lines, ended = [], int(_ended_early(first))
    # each is compared before the next is run, so that the budget includes the time of the comparison
    for kind, length, other in zip(kinds, lengths, runs, strict=True):
        ended += _ended_early(other)
        if other is not None:
            apart = _compare_draws(space, first.draws, other.draws)
            lines.append((kind, length, *apart, float(other.distribution["success_probability"]), other.eta))
    table = pd.DataFrame(lines, columns=["row", "moved", "distance", "shift", "success_probability", "eta"])
    if table["row"].nunique() < 2:
        raise BudgetSpentError("the budget does not allow runs to compare: raise max_model_rows or time_budget")
    return Sensitivity(table.rename_axis("run"), _describe(table) + _note_early_end(ended, len(seeds)))


def _explain_each(
    explain: Callable[[Array, int, Budget], Explanation], rows: Sequence[Array], seeds: Sequence[int], budget: Budget
) -> Iterator[Any]:
    """Explain rows, each with an equal share of the remaining budget; yield None for one it does not allow."""
    for number, (row, seed) in enumerate(zip(rows, seeds, strict=True)):
        try:
            yield explain(row, seed, budget.share(1.0 / (len(rows) - number)))
        except BudgetSpentError:
            if number == 0 or not budget.limited:  # nothing to compare with, or the model's own limit
                raise
            yield None


def _ended_early(run: Explanation | None) -> bool:
    """Whether the budget ended a run early."""
    return run is None or not run.draws.info.complete


def _note_early_end(ended: int, n: int) -> str:
    """Return a note if the budget ended runs early: posteriors at different etas differ even at the same row."""
    return f"; the budget ended {ended} of {n} runs early: they may differ for that reason alone" if ended else ""


def energy_distance(a: Places, b: Places, a_weights: Array | None = None, b_weights: Array | None = None) -> float:
    """Return the energy distance of two weighted samples.

    ``sqrt(2 E|A - B| - E|A - A'| - E|B - B'|)`` (Székely and Rizzo, 2013), zero for equal distributions only. Pairs of
    a point with itself are left out, so that it does not depend on sample sizes; a negative estimate counts as zero.
    """
    wa = np.full(len(a), 1.0 / len(a)) if a_weights is None else a_weights
    wb = np.full(len(b), 1.0 / len(b)) if b_weights is None else b_weights

    def within(points: Places, weights: Array) -> float:
        others = 1.0 - float(np.square(weights).sum())
        return float(weights @ points.distances(points) @ weights) / others if others > ROUNDING else 0.0

    squared = 2.0 * float(wa @ a.distances(b) @ wb) - within(a, wa) - within(b, wb)
    return float(np.sqrt(max(squared, 0.0)))


def _compare_draws(space: Space, one: Draws, other: Draws) -> tuple[float, float]:
    """Return the energy distance of two posteriors and the distance of their means."""
    sets = []
    for draws in (one, other):
        some = np.unique(np.linspace(0, len(draws) - 1, min(len(draws), _MAX_COMPARED)).astype(int))
        sets.append((space.embed(draws.x[some]), draws.weights[some] / draws.weights[some].sum()))
    (a, wa), (b, wb) = sets
    return energy_distance(a, b, wa, wb), a.between(a.centre(wa), b.centre(wb))


def _describe(table: pd.DataFrame) -> str:
    same, moved = table[table["row"] == "same"], table[table["row"] == "moved"]
    length, shift = float(moved["moved"].median()), float(moved["shift"].median())
    chance = float(same["shift"].max())
    text = (
        f"shifting the row by {length:.2g} shifts the posterior mean by {shift:.2g} (medians, in units of each "
        f"feature's scale; {chance:.2g} by chance alone)"
    )
    if (moved["distance"] > same["distance"].max()).mean() <= 0.5 and shift <= chance:
        return f"No effect beyond chance: {text}"
    if shift > _FARTHER * length:
        much = "much " if shift > _MUCH_FARTHER * length else ""
        return f"The posterior shifts {much}farther than the row: {text}"
    return f"Similar rows get similar answers: {text}"


# --- survival --------------------------------------------------------------------------------------------------------


def survival(
    explanation: Explanation,
    models: Any,
    *,
    max_model_rows: int | None = None,
    time_budget: float | None = None,
) -> pd.DataFrame:
    """Evaluate decisions and draws of an explanation under other models, such as refits.

    Parameters
    ----------
    explanation : Explanation
        Just made, or loaded from a file.
    models : estimator, callable, list of them, or ModelPosterior
        Fitted for the same table; a posterior over models brings its weights.
    max_model_rows, time_budget : optional
        Budget as in :meth:`gbce.Explainer.explain`: rows over all models, seconds. Decisions come first; then as many
        randomly selected draws as the rest allows, which ``se`` takes into account.

    Returns
    -------
    DataFrame
        By rule, and for the ``posterior``: ``before`` (success under the first model), ``survival`` (share of
        ``models`` under which it succeeds), its 95% interval ``low`` to ``high`` over models, ``all`` (success
        under all of them), Monte Carlo error ``se``, ``n_models``. The line of the posterior is NaN where the budget
        does not allow a single draw.

    Raises
    ------
    BudgetSpentError
        If the budget does not even allow the decisions.

    Examples
    --------
    >>> import gbce
    >>> from sklearn.linear_model import LinearRegression
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> y = X @ [1.0, 2.0] + np.random.default_rng(1).normal(size=50)
    >>> explainer = gbce.Explainer(LinearRegression().fit(X, y), X)
    >>> explanation = explainer.explain(X[0], gbce.AtLeast(2.0), rules=gbce.Mean(), seed=0)
    >>> refits = gbce.model_posterior(LinearRegression(), X, y, gbce.BayesianBootstrap(), 20, seed=0)
    >>> table = gbce.metrics.survival(explanation, refits)
    >>> table.index.tolist(), table["n_models"].tolist()
    (['Mean', 'posterior'], [20, 20])
    """
    pool = require_explanation(explanation).draws.pool
    others = OtherModels.of(models, explanation.space, pool.x[np.isfinite(pool.log_correction)])
    return _evaluate_survival(explanation, others, budget_of(max_model_rows, time_budget))


def explainer_survival(
    explainer: "Explainer",
    explanation: Explanation,
    models: Any,
    *,
    max_model_rows: int | None = None,
    time_budget: float | None = None,
) -> pd.DataFrame:
    """Evaluate an explanation under other models; see :func:`gbce.metrics.survival`.

    The same models are not prepared a second time.
    """
    budget = budget_of(max_model_rows, time_budget)
    session = explainer._session
    session.own_posterior(explanation, budget)
    return _evaluate_survival(explanation, session.other_models.wrap(models), budget)


def _evaluate_survival(explanation: Explanation, others: OtherModels, budget: Budget) -> pd.DataFrame:
    """Evaluate decisions and draws under other models; see :func:`gbce.metrics.survival`."""
    draws, decisions, target = explanation.draws, answers_among(explanation.decisions), explanation.target
    predictors = others.prepare(target, budget)

    def reached(outputs: list[Outputs]) -> Array:
        return np.column_stack([target.read(one).reached for one in outputs])

    decided = np.zeros((0, len(predictors)), dtype=bool)
    if decisions:
        x = stack_points(decisions, len(explanation.space))
        decided = reached(Panel(predictors, budget, use_predict=True).ask(x))
    # in random order, so that those within the budget are a sample of all
    where, drawn = draws.distinct[0], np.zeros((0, len(predictors)), dtype=bool)
    order = (
        stream(explanation.seed, JUDGING, explanation.query.key).permutation(len(where))
        if budget.limited
        else np.arange(len(where))
    )
    try:
        drawn = reached(Panel(predictors, budget).ask_some(draws.pool.x[where[order]]))
    except BudgetSpentError:
        if not budget.limited:  # the model's own limit
            raise
    which = order[: len(drawn)]
    labels = tuple(decision.label for decision in decisions)
    table = survival_table(labels, decided, draws, drawn[np.argsort(which)], others.weights, np.sort(which))
    before = [float(decision.reached[0]) for decision in decisions]
    table.insert(0, "before", [*before, float(explanation.distribution["success_probability"])])
    return table.assign(n_models=len(predictors))
