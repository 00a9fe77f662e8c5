"""The result: plain data about one row, with its tables. No model inside, nothing executable."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gbce._numerics import ENOUGH_ESS, REWEIGHTING, stream
from gbce._validation import printable
from gbce.base import Array, Query, Rule, Target
from gbce.decisions import Decision, answers_among, apply_known_rules, apply_rule, require_rule, stack_points
from gbce.draws import Draws, Points
from gbce.eta import Calibration, EtaRule, ModelError, as_etas, solve_eta
from gbce.explanation._alternatives import Alternatives, alternatives
from gbce.explanation._answer import Answer
from gbce.explanation._given import Event, condition
from gbce.explanation._tables import (
    changes,
    choice_table,
    draws_frontier,
    intervals,
    path_table,
    point_table,
    quantiles,
    rule_index,
    shares,
)
from gbce.explanation._words import Status
from gbce.metrics import (
    Diagnosis,
    Disagreement,
    Evaluation,
    Figure,
    FigureName,
    disagreement,
    eta_path,
    figures,
    importance,
    unknown_errors,
    unknown_figures,
)
from gbce.posterior import Combine, Mixture, as_weights
from gbce.space import Space, say_effort
from gbce.trees import Proof

if TYPE_CHECKING:
    from gbce.plots import Plots

__all__ = ["Explanation", "require_explanation"]


@dataclass(frozen=True, eq=False)
class Explanation:
    """What would have to change for the models to reach the target, as a distribution and as decisions.

    Made by :meth:`gbce.Explainer.explain`; read through its tables.

    Parameters
    ----------
    query : Query
        What was asked: the features, the target with its numbers filled in, the models' names, eta with weights and
        combination, the settings of the figures, the rules, the number that reproduces the draws, and the row itself,
        evaluated. Each is also an attribute of the explanation.
    draws : Draws
        The posterior: ``.z (n, m)``, ``.x (n, d)``, ``.weights (n,)``, ``.outputs (n, K)``, ``.loss (n, K)``.
    decisions : tuple of Decision
        What the rules chose.
    status : Status
        ``"attainable"``, ``"already reached"`` or ``"not attained"``:
        whether there was anything to do, and whether any evaluated point does it.
    status_note : str
        The status as a sentence, where there is more to say; the first of the notes.
    notes : tuple of str
        Sentences the user should read.
    n_model_calls, n_model_rows : int
        What it cost.
    calibration : Calibration, optional
        How eta was found, where a rule found it.
    answer : Answer, optional
        The one decision to hand over, by the explainer's policy; ``None`` where no decision was asked for.
    proof : Proof, optional
        That the target cannot be reached within the bounds, where the model allows one: then ``status`` is
        ``"not attained"``. Without it, that status only says what a search has seen.

    Examples
    --------
    >>> import gbce, numpy as np
    >>> data = np.random.default_rng(0).normal(size=(200, 2))
    >>> explainer = gbce.Explainer(lambda x: x[:, 0] + x[:, 1], data, space=gbce.Space.real(2))
    >>> explanation = explainer.explain([0.0, 0.0], gbce.Value(1.0, scale=1, tolerance=0.5), seed=1)
    >>> explanation.status, explanation.draws.x.shape
    ('attainable', (2000, 2))
    >>> explanation.importance.loc["x1", "change"] < 1.0
    np.True_
    """

    query: Query
    draws: Draws
    decisions: tuple[Decision, ...]
    status: Status
    status_note: str
    notes: tuple[str, ...]
    n_model_calls: int
    n_model_rows: int
    calibration: Calibration | None = None
    answer: Answer | None = None
    proof: Proof | None = None

    # --- what was asked -------------------------------------------------------------------------------------

    @property
    def space(self) -> Space:
        """The features."""
        return self.query.space

    @property
    def target(self) -> Target:
        """What was wanted of the output, its numbers filled in."""
        return self.query.target

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the ``K`` models."""
        return self.query.models

    @property
    def mixture(self) -> Mixture:
        """Eta, with the weights of the models and their combination."""
        return self.query.mixture

    @property
    def evaluation(self) -> Evaluation:
        """Settings of the figures."""
        return self.query.evaluation

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Which decisions were asked for."""
        return self.query.rules

    @property
    def seed(self) -> int:
        """The number that reproduces the draws."""
        return self.query.seed

    @property
    def row(self) -> Points:
        """The row itself, evaluated."""
        return self.query.row

    @property
    def eta(self) -> float:
        """Weight of the loss against the prior."""
        return float(self.query.mixture.eta)

    @property
    def x0(self) -> Array:
        """The row, encoded: ``(d,)``."""
        return self.query.x0

    @property
    def free(self) -> Array:
        """Positions ``(m,)`` of the features that can move."""
        return self.query.free

    @property
    def conditions(self) -> tuple[str, ...]:
        """What a follow-up question held on to, as texts such as ``"income stays at 3000"``; empty without one."""
        return (*(condition.text for condition in self.query.conditions), *say_effort(self.query.effort))

    # --- tables ---------------------------------------------------------------------------------------------

    @cached_property
    def counterfactuals(self) -> pd.DataFrame:
        """One line per decision in the user's columns and dtypes, with the rule as the index."""
        decided = answers_among(self.decisions)
        return point_table(self.space, stack_points(decided, len(self.space)), [one.label for one in decided])

    def changes(self) -> pd.DataFrame:
        """Only what changes, tidy: one line per rule and changed feature, with ``from``, ``to`` and ``change``.

        Values are as the table has them; ``change`` is a difference of numbers, or of positions of an ordinal's levels,
        and NaN where there is none.
        """
        return changes(self.space, self.x0, answers_among(self.decisions))

    @cached_property
    def sparsity_path(self) -> pd.DataFrame:
        """The best answer for each number of changed features: Nearest's if it is among the rules, else MAP's.

        One line per number of changes, ``changes``: ``rule``, ``cost`` (the sum of changes in units of each feature's
        scale; for ``Nearest(distance="l2")`` their Euclidean distance), ``distance`` (always Euclidean), ``loss``,
        ``output`` and ``reached`` of the first model, then the row in the user's columns. Nearest has a line only
        where one more change makes it cheaper; MAP has one for each number under a :class:`gbce.Sparse` prior, and
        one in all under any other.
        """
        return path_table(self.space, self.x0, self.free, self.decisions)

    @cached_property
    def pointwise(self) -> pd.DataFrame:
        """Figures of each decision: rule by loss, distance, robustness, plausibility, reached, and more.

        ``loss`` (L_pt), ``reached`` and ``output`` are those of the first model; with several models
        ``combined_loss`` is the one their combination stands for, and each model's own follow with its name in
        brackets. ``distance`` (D_pt) is Euclidean in units of each feature's scale; ``robustness`` (Rb) and
        ``plausibility`` (Plu) as in the paper; ``objective`` is what MAP minimises; ``changed`` counts the columns that
        differ from the row's.
        """
        decided = answers_among(self.decisions)
        loss = np.array([decision.loss for decision in decided]).reshape(-1, len(self.models))
        x = stack_points(decided, len(self.space))
        cost = np.array([decision.cost for decision in decided])
        table: dict[str, Any] = {
            "loss": loss[:, 0],
            "distance": self.space.distance(x, self.x0),
            **{name: [decision.figures.get(name, np.nan) for decision in decided] for name in unknown_figures()},
            "reached": np.array([decision.reached[0] for decision in decided], dtype=bool),
            "output": [decision.outputs[0] for decision in decided],
            "objective": self.mixture.objective(loss, cost),
            "changed": self.space.changed(x, self.x0).sum(axis=1),
            **{f"{name}_se": [decision.errors.get(name, np.nan) for decision in decided] for name in unknown_errors()},
        }
        if len(self.models) > 1:
            table["combined_loss"] = self.mixture.effective_loss(loss)
            for k, name in enumerate(self.models):
                table[f"loss[{name}]"] = loss[:, k]
                table[f"reached[{name}]"] = np.array([bool(decision.reached[k]) for decision in decided], dtype=bool)
        return pd.DataFrame(table, index=rule_index(decision.label for decision in decided))

    @cached_property
    def distribution(self) -> pd.Series:
        """Figures of the whole posterior, each followed by its Monte Carlo error under the same name plus ``_se``.

        ``success_probability`` (SP), ``tail`` (Tail), ``stability`` (Stability, in units of each feature's scale),
        ``expected_loss`` and ``expected_distance``. ``tail_low`` and ``tail_high`` are the 95% interval of the tail,
        from order statistics; ``tail_se`` is that of its longer side. With several models these are the first one's;
        each model's own, and success under all and under at least half of them, follow in brackets.
        """
        table: dict[str, float] = {}
        for name, figure in self.figures.items():
            table |= figure.entries(str(name))
        return pd.Series(table, name="value")

    @cached_property
    def figures(self) -> dict[FigureName, Figure]:
        """The same with each figure's value, error and interval together."""
        return figures(self.draws, self.space, self.x0, self.evaluation.alpha, self.models)

    @cached_property
    def importance(self) -> pd.DataFrame:
        """By feature: ``change`` = E|x_j - row_j| (VarImp), its error ``se``, the ``prior``'s own value, and ``ratio``.

        A feature that does not matter to the model moves as far as the prior lets it: a ratio near one.
        """
        return importance(self.draws, self.space, self.x0)

    def intervals(self, mass: float = 0.9) -> pd.DataFrame:
        """Central interval of each feature's value under the posterior, in its own units, beside the row's value.

        A category has no interval: ``median`` is its most probable level; :meth:`shares` has them all.

        Parameters
        ----------
        mass : float
            Probability of the interval.
        """
        if not 0 < mass < 1:
            raise ValueError(f"mass must lie between 0 and 1, not {mass!r}")
        return intervals(self.draws, self.space, self.x0, mass)

    def quantiles(self, q: float) -> Array:
        """Quantile of each feature as encoded, ``(d,)``; of a category, its most probable level."""
        return quantiles(self.draws, self.space, q)

    def shares(self, feature: str) -> pd.DataFrame:
        """How probable each level of a category or an ordinal is, under the posterior and under the prior.

        Parameters
        ----------
        feature : str
            Its name.

        Returns
        -------
        DataFrame
            One line per level: ``posterior`` and ``prior``. A feature that may be missing has a line for that.
        """
        return shares(self.draws, self.space, feature)

    @cached_property
    def diagnostics(self) -> dict[str, Any]:
        """How it was sampled: ess, pareto_k or r_hat, log_evidence and its error, rungs, cost, notes, and more.

        ``sampling`` says how far the draws can be trusted in one word of :class:`gbce.metrics.Verdict`,
        ``sampling_note`` in a sentence. ``verdict`` is the older name of that sentence; the next version drops it.

        Where a rule chose eta, ``calibration`` has what it went by.
        """
        diagnosis = Diagnosis.of(self.draws, self.mixture, tuple(self.space.names[j] for j in self.free))
        sampling, sentence = diagnosis.judge()
        return diagnosis.entries() | {
            "calibration": self._calibration(),
            "n_model_calls": self.n_model_calls,
            "n_model_rows": self.n_model_rows,
            "sampling": sampling,
            "sampling_note": sentence,
            "verdict": sentence,  # the older name, for a version
            "notes": list(self.notes),
        }

    def _calibration(self) -> dict[str, Any]:
        """Return how eta was found, with the figures it was found by."""
        if self.calibration is None:
            return {}
        names = ("success_probability", "expected_loss")
        found = {key: float(self.distribution[key]) for name in names for key in (name, f"{name}_se")}
        return {**self.calibration.entries(), "eta": self.eta, **found}

    # --- other questions to the same draws ------------------------------------------------------------------

    def path(self, etas: Sequence[float] | None = None) -> pd.DataFrame:
        """Return figures of the posterior as functions of eta, with no further model call.

        Every rung of a tempered run is the posterior at a smaller eta; between rungs the points are reweighted.

        Parameters
        ----------
        etas : sequence of float, optional
            Where to look; from zero, the prior, to the explanation's own eta when left out. Not far beyond that too few
            effective draws are left.

        Returns
        -------
        DataFrame
            One line per eta: ``success_probability``, ``tail``, ``stability``, ``expected_loss``,
            ``expected_distance`` and ``log_evidence``, each again as ``*_se``, ``tail_low`` and ``tail_high``, and
            ``ess``. Below 100 effective draws the figures are left open.
        """
        self.draws.require_pool("path()")
        wanted = None if etas is None else as_etas(etas)
        return eta_path(self.draws, self.mixture, self.space, self.x0, self.evaluation.alpha, wanted)

    def disagreement(self) -> Disagreement:
        """Return how much the models disagree about the draws, and where: tables and a sentence."""
        return disagreement(self.draws, self.space, self.free, self.models, self.mixture.weights)

    def frontier(
        self, *, distance: str = "l2", levels: Sequence[float] | None = None, among: str = "draws"
    ) -> pd.DataFrame:
        """Return the cheapest draw (or decision) for every reliability, with no model call.

        It differs from :meth:`gbce.Explainer.frontier` in that it only reads what was evaluated, so that reliability is
        the share of the explanation's own models; that one asks models, and knows noise, other models and points beyond
        the draws.

        Parameters
        ----------
        distance : {"l2", "l1"}
            What is cheap, in units of each feature's scale: Euclidean distance from the row, or the sum of changes.
        levels : sequence of float, optional
            Reliabilities to answer for; every step of the frontier when left out. One that none attains has no line.
        among : {"draws", "pool"}
            Where to look: among the draws, or all evaluated points, those the posterior gives no weight included.

        Returns
        -------
        DataFrame
            By ``reliability``, the weighted share of models that reach the target: ``distance``, ``se`` (zero here),
            and the row in the user's columns.
        """
        points, weights = (self.draws, self.row, self.decisions, self.space), self.mixture.weights
        return draws_frontier(*points, weights, distance=distance, levels=levels, among=among)

    def at(
        self,
        eta: float | EtaRule | None = None,
        *,
        weights: Sequence[float] | None = None,
        combine: Combine | None = None,
    ) -> "Explanation":
        """Return the same draws at another eta, other model weights or another combination, by reweighting.

        Rules that choose among evaluated points are applied again; figures that need the model are left NaN.

        Parameters
        ----------
        eta : float, SuccessProbability or ExpectedLoss, optional
            The new eta, or what it is to achieve.
        weights : sequence of K numbers, optional
            New weights of the models.
        combine : {"any", "all", "average"} or Entropic, optional
            New combination.

        Raises
        ------
        ValueError
            Where fewer than 100 effective draws would be left, which are too few for an answer.
        """
        self.draws.require_pool("at(...)")
        mixture = Mixture(
            self.eta if eta is None or isinstance(eta, EtaRule) else eta,
            self.mixture.weights if weights is None else as_weights(weights, len(self.models)),
            self.mixture.combine if combine is None else combine,
        )
        calibration = self.calibration if eta is None else None  # that of another eta says nothing about this one
        if isinstance(eta, EtaRule):
            mixture, calibration = replace(mixture, eta=self._solve_eta(eta, mixture)), Calibration(eta.label)
        weighted = self.draws.reweigh(mixture)
        if weighted.ess < min(ENOUGH_ESS, self.draws.ess):
            raise ValueError(
                f"the draws cannot carry eta = {mixture.eta:g}, combine = {mixture.combine!r}: {weighted.ess:.0f} "
                f"effective draws would be left of {len(weighted.pool)}. Explain the row with these settings and more "
                "candidates."
            )
        picked = weighted.resample(stream(self.seed, REWEIGHTING, self.query.key), len(self.draws))
        draws = replace(picked, reweighted=True)
        query = replace(self.query, mixture=mixture)
        decisions, undecided = apply_known_rules(query, draws)
        *others, last = unknown_figures()
        note = f"Reweighted from eta = {self.eta:g}: {', '.join(others)} and {last} were not computed again."
        if undecided:
            note += f" {', '.join(undecided)} must ask the model: use explainer.decide(explanation, rule)."
        kept = (self.status_note,) if self.status != Status.ATTAINABLE else ()
        return replace(
            self, query=query, draws=draws, decisions=tuple(decisions), notes=(*kept, note), calibration=calibration
        )

    def given(
        self,
        *,
        keep: Iterable[str] | str = (),
        at_least: Mapping[str, Any] | None = None,
        at_most: Mapping[str, Any] | None = None,
        between: Mapping[str, tuple[Any, Any]] | None = None,
        exactly: Mapping[str, Any] | None = None,
        effort: Mapping[str, float] | None = None,
    ) -> "Explanation":
        """Return the posterior given that columns stay, lie in a range or are harder to change, from the draws.

        It answers "what if I cannot change that?". Draws that do not meet the conditions are left out and the others
        weighed anew; no model is asked. Rules that choose among evaluated points are applied again; figures that need
        the model are left NaN. ``diagnostics["log_evidence"]`` is then that of the conditioned question, against the
        prior given the same.

        Parameters
        ----------
        keep : iterable of str
            Columns that stay exactly as the row has them.
        at_least, at_most : mapping of str to value, optional
            Ends of a column's range, in its own units: numbers, levels of an ordinal, moments. The row itself need not
            lie in it.
        between : mapping of str to (low, high), optional
            Both ends at once.
        exactly : mapping of str to value, optional
            The one value a column is to have: a level, a whole number, a moment, ``None`` for missing.
        effort : mapping of str to float, optional
            How many times as much a change of a column counts: 2 is twice as hard, 0.5 half. The prior is multiplied by
            ``exp(-(factor - 1) * change)`` with the change in units of the column's scale, and the answer is the
            cheapest known point that reaches the target by the costs so changed; rules that go by distance measure it
            as before.

        Returns
        -------
        Explanation
            Its notes say how probable the conditions are, and how many effective draws are left.

        Raises
        ------
        ValueError
            Where fewer than 100 effective draws would be left: the error has the line to type that asks the models
            again, with :meth:`gbce.Explainer.given`. So it always is for a real column that is kept, unless the
            prior is one under which columns stay (:class:`gbce.Sparse`).

        Examples
        --------
        >>> import gbce
        >>> data = np.random.default_rng(0).normal(size=(200, 2))
        >>> explainer = gbce.Explainer(lambda x: x.sum(axis=1), data, space=gbce.Space.real(2))
        >>> explanation = explainer.explain([0.0, 0.0], gbce.AtLeast(1, scale=1), rules=[gbce.Medoid()], seed=1)
        >>> bool(explanation.given(at_most={"x1": 0.5}).draws.x[:, 0].max() <= 0.5)
        True
        """
        return condition(self, Event(keep, at_least, at_most, between, exactly, effort))

    def alternatives(self, k: int = 3) -> Alternatives:
        """Return distinct strategies: modes of the posterior with their probability, not ``k`` points of one cluster.

        Under a prior that lets most columns stay (:class:`gbce.Sparse`), and for categories, strategies differ in what
        is changed and which way; numbers that always move are parted where their distribution has a valley. No model
        is asked: each strategy is shown by the cheapest known point of it that reaches the target.

        Parameters
        ----------
        k : int
            Most strategies to list; fewer if the posterior has fewer. A strategy is listed if it has a probability of
            at least 0.05 and 20 effective draws; the probability of all others is ``other``.

        Returns
        -------
        Alternatives
            Its ``table`` has a line for each; printed, it is a list of sentences.

        Raises
        ------
        ValueError
            Where there are fewer than 100 effective draws.

        Examples
        --------
        >>> import gbce
        >>> data = np.random.default_rng(0).normal(size=(200, 2))
        >>> explainer = gbce.Explainer(lambda x: np.abs(x[:, 0]), data, space=gbce.Space.real(2))
        >>> explanation = explainer.explain([0.0, 0.0], gbce.AtLeast(2, scale=0.1), rules=[], seed=1)
        >>> found = explanation.alternatives()
        >>> len(found), found.table["mass"].round(1).tolist()
        (2, [0.5, 0.5])
        """
        return alternatives(self, k)

    def _solve_eta(self, rule: EtaRule, mixture: Mixture) -> float:
        if isinstance(rule, ModelError):
            raise TypeError("ModelError needs the model: give it to gbce.Explainer(..., eta=gbce.ModelError(y))")
        eta, met = solve_eta(self.draws, mixture, rule)
        if not met:
            raise ValueError(
                f"the draws cannot carry {rule.label}: of all etas that they carry, {eta:g} comes closest. Run "
                "gbce.Explainer(..., eta=...) with it."
            )
        return eta

    def decide(self, rule: Rule | str) -> pd.DataFrame:
        """Apply one more rule to the draws and return its choice in the user's columns, one line per point.

        The name of a built-in rule will do: ``"Medoid"``. A rule that must ask the model (CVaR, ChanceConstrained,
        DirectOpt) needs ``explainer.decide`` instead.
        """
        rule = require_rule(rule)
        choice = apply_rule(rule, self.query, self.draws)
        return choice_table(self.space, choice, rule)

    # --- for people -----------------------------------------------------------------------------------------
    # The outer rooms (plots, report, files) are imported when asked for, so that this room does not depend on them.

    def summary(self) -> str:
        """Return a readable text: how far to trust the sampling, posterior, what changes, decisions, notes."""
        from gbce.report import as_text

        return as_text(self)

    def __repr__(self) -> str:
        return (
            f"<Explanation: {printable(self.target.describe())}, {self.status}, {len(self.draws)} draws, "
            f"{len(answers_among(self.decisions))} decisions; print(explanation.summary()) shows it>"
        )

    def _repr_html_(self) -> str:
        from gbce.pages import view_explanation

        return view_explanation(self)

    @property
    def plot(self) -> "Plots":
        """Pictures: ``explanation.plot.before_after()``, ``explanation.plot.posterior()``, and more."""
        from gbce.plots import Plots

        return Plots(self)

    def to_arviz(self) -> Any:
        """Return the draws as ArviZ reads them: an ``xarray.DataTree`` with one chain per independent run.

        Variables are the features that can move, ``loss`` and ``distance``. Needs the extra ``arviz``.
        """
        from gbce.explanation._tables import to_arviz

        return to_arviz(self)

    def to_dict(self, *, draws: bool = False) -> dict[str, Any]:
        """Return it as plain data, for readers that know neither Python nor gbce: docs/reference.md has the keys.

        Parameters
        ----------
        draws : bool
            Whether to include the draws, each with its weight and what the first model says about it.

        Returns
        -------
        dict
            Texts, finite numbers, booleans, ``None`` (missing, or not finite), lists and mappings of them.
        """
        from gbce.explanation._tables import as_dict

        return as_dict(self, draws=draws)

    def to_json(self, path: str | Path | None = None, *, draws: bool = False) -> str | Path:
        """Return :meth:`to_dict` as strict JSON, or write that to ``path``, whole or not at all, and return the path.

        It cannot be read back as an explanation; :meth:`save` is for that.
        """
        from gbce.files import to_json

        return to_json(self.to_dict(draws=draws), path)

    def to_html(self, path: str | Path | None = None, *, frontier: pd.DataFrame | None = None) -> str | Path:
        """Return a page to explore the explanation in, or write it to ``path``, whole or not at all.

        One file that needs no server, no network and no Python: it opens with the answer, lets a person change how much
        the target counts, freeze columns, set ranges and say what is hard to change, and weighs the draws anew for
        that. No model is asked.

        Parameters
        ----------
        path : str or Path, optional
            The file to write; the page is returned as a text when left out.
        frontier : DataFrame, optional
            What :meth:`gbce.Explainer.frontier` returned for this explanation, for the slider of reliability. When left
            out, the slider has what the draws and decisions know.

        Returns
        -------
        str or Path
            The page, or the path it was written to.

        Raises
        ------
        OSError
            Where the file cannot be written.

        Examples
        --------
        >>> import gbce
        >>> data = np.random.default_rng(0).normal(size=(60, 2))
        >>> explainer = gbce.Explainer(lambda x: x.sum(axis=1), data, space=gbce.Space.real(2))
        >>> explanation = explainer.explain([0.0, 0.0], gbce.AtLeast(1, scale=1), rules=[gbce.MAP()], seed=1)
        >>> explanation.to_html()[:15]
        '<!doctype html>'
        """
        from gbce.pages import explore

        return explore(self, path, frontier=frontier)

    def save(self, path: str | Path, *, pool: bool | None = None) -> Path:
        """Write everything to one file, whole or not at all; :func:`gbce.load` reads it back.

        Parameters
        ----------
        path : str or Path
            The file.
        pool : bool, optional
            Whether to keep every evaluated point. Without them a file is four to six times smaller. Tables, pictures,
            decisions and draws stay as they are; :meth:`path`, :meth:`at`, ``frontier(among="pool")`` and ``draws.z``
            cannot be asked of what is read back, and say so. When left out they are kept up to 50 MB, which hundreds
            of columns exceed; where they are not kept, a warning says so.
        """
        from gbce.files import save

        return save(self, path, pool=pool)


def require_explanation(explanation: Any) -> Explanation:
    """Return ``explanation`` if it is one, or say what was expected."""
    if not isinstance(explanation, Explanation):
        raise TypeError(
            f"explanation must be what explainer.explain(...) or gbce.load(...) returned, not {explanation!r:.80}"
        )
    return explanation
