"""Findings about one row: the question, its draws and decisions, and the tables that are read from them."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from gbce.base import Array, Query, Rule, Target
from gbce.decisions import Decision, Strategies, answers_among, stack_points
from gbce.draws import Draws, Points
from gbce.eta import Calibration
from gbce.explanation._answer import Answer
from gbce.explanation._tables import changes, intervals, path_table, point_table, quantiles, rule_index, shares
from gbce.explanation._words import Status
from gbce.metrics import (
    Diagnosis,
    Evaluation,
    Figure,
    FigureName,
    Judgement,
    costs,
    describe_posterior,
    figures,
    importance,
    unknown_errors,
    unknown_figures,
)
from gbce.posterior import Mixture
from gbce.space import Space, describe_effort
from gbce.trees import Proof


@dataclass(frozen=True, eq=False)
class Findings:
    """The fields of an explanation, the parts of its question by name, and its tables."""

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
    strategies: Strategies | None = None

    # --- the query ------------------------------------------------------------------------------------------

    @property
    def space(self) -> Space:
        """The features."""
        return self.query.space

    @property
    def target(self) -> Target:
        """The target, with its numbers resolved."""
        return self.query.target

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the ``K`` models."""
        return self.query.models

    @property
    def mixture(self) -> Mixture:
        """Eta, the weights of the models and their combination."""
        return self.query.mixture

    @property
    def evaluation(self) -> Evaluation:
        """Settings of the figures."""
        return self.query.evaluation

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The decision rules."""
        return self.query.rules

    @property
    def seed(self) -> int:
        """The seed that reproduces the draws."""
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
        """Conditions of a follow-up question as strings such as ``"income stays at 3000"``; empty without one."""
        return (*(condition.text for condition in self.query.conditions), *describe_effort(self.query.effort))

    # --- tables ---------------------------------------------------------------------------------------------

    @cached_property
    def counterfactuals(self) -> pd.DataFrame:
        """One line per decision in the user's columns and dtypes, with the rule as the index."""
        decided = answers_among(self.decisions)
        return point_table(self.space, stack_points(decided, len(self.space)), [one.label for one in decided])

    def changes(self) -> pd.DataFrame:
        """Return the changes as a tidy table: one line per rule and changed feature, ``from``, ``to`` and ``change``.

        Values are as in the table; ``change`` is the difference of two numbers, or of the positions of an ordinal's
        levels, and NaN for a category.
        """
        return changes(self.space, self.x0, answers_among(self.decisions))

    @cached_property
    def sparsity_path(self) -> pd.DataFrame:
        """The best point for each number of changed features, by Nearest if it is among the rules, else by MAP.

        One line per number of changes, ``changes``: ``rule``, ``cost`` (the sum of changes in units of each feature's
        scale; for ``Nearest(distance="l2")`` their Euclidean distance), ``distance`` (always Euclidean), ``loss``,
        ``output`` and ``reached`` of the first model, then the row in the user's columns. Nearest has a line only
        if one more change makes it cheaper; MAP has one for each number under a :class:`gbce.Sparse` prior, and a
        single one under any other.
        """
        return path_table(self.space, self.x0, self.free, self.decisions)

    @cached_property
    def pointwise(self) -> pd.DataFrame:
        """Figures of each decision: rule by loss, cost, distance, robustness, plausibility, reached, and more.

        ``loss`` (L_pt), ``reached`` and ``output`` are those of the first model; with several models ``combined_loss``
        is the loss of their combination, and those of each model follow with its name in brackets. ``cost`` is the sum
        of changes in units of each feature's scale, which the answer minimises, whatever distance a rule was asked to
        minimise; ``distance`` (D_pt) is Euclidean in the same units; ``robustness`` (Rb) and ``plausibility`` (Plu) are
        as in the paper; ``objective`` is the function that MAP minimises; ``changed`` counts the changed columns.
        """
        decided = answers_among(self.decisions)
        loss = np.array([decision.loss for decision in decided]).reshape(-1, len(self.models))
        x = stack_points(decided, len(self.space))
        prior_cost = np.array([decision.cost for decision in decided])
        table: dict[str, Any] = {
            "loss": loss[:, 0],
            "cost": costs(self.space, x, self.x0, "l1"),
            "distance": self.space.distance(x, self.x0),
            **{name: [decision.figures.get(name, np.nan) for decision in decided] for name in unknown_figures()},
            "reached": np.array([decision.reached[0] for decision in decided], dtype=bool),
            "output": [decision.outputs[0] for decision in decided],
            "objective": self.mixture.objective(loss, prior_cost),
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
        ``expected_loss``, ``expected_cost`` (the sum of changes) and ``expected_distance`` (Euclidean). ``tail_low``
        and ``tail_high`` are the 95% interval of the tail, from order statistics; ``tail_se`` is that of its longer
        side. With several models these belong to the first; those of each model, and success under all and under at
        least half of them, follow in brackets.
        """
        table: dict[str, float] = {}
        for name, figure in self.figures.items():
            table |= figure.entries(str(name))
        return pd.Series(table, name="value")

    @cached_property
    def figures(self) -> dict[FigureName, Figure]:
        """The figures of ``distribution``, each with its value, error and interval."""
        return figures(self.draws, self.space, self.x0, self.evaluation.alpha, self.models)

    @cached_property
    def importance(self) -> pd.DataFrame:
        """By feature: ``change`` = E|x_j - row_j| (VarImp), its error ``se``, the ``prior``'s value, and the ``ratio``.

        A feature that does not matter to the model moves as it does under the prior: its ratio is near one.
        """
        return importance(self.draws, self.space, self.x0)

    def intervals(self, mass: float = 0.9) -> pd.DataFrame:
        """Return the row's value and a central posterior interval of each feature, in its own units.

        A category has no interval: ``median`` is its most probable level, and :meth:`shares` lists them all.

        Parameters
        ----------
        mass : float
            Probability of the interval.
        """
        if not 0 < mass < 1:
            raise ValueError(f"mass must lie between 0 and 1, not {mass!r}")
        return intervals(self.draws, self.space, self.x0, mass)

    def quantiles(self, q: float) -> Array:
        """Return a quantile of each encoded feature, ``(d,)``; for a category, its most probable level."""
        return quantiles(self.draws, self.space, q)

    def shares(self, feature: str) -> pd.DataFrame:
        """Return the probability of each level of a category or an ordinal under the posterior and the prior.

        Parameters
        ----------
        feature : str
            Name of the feature.

        Returns
        -------
        DataFrame
            One line per level, and one for missing values if the feature allows them: ``posterior`` and ``prior``.
        """
        return shares(self.draws, self.space, feature)

    @cached_property
    def diagnostics(self) -> dict[str, Any]:
        """Sampling diagnostics: ess, pareto_k or r_hat, log_evidence and its error, rungs, cost, notes, and more.

        ``sampling`` rates the draws in one word of :class:`gbce.metrics.Verdict`, ``sampling_note`` in a sentence, and
        ``posterior_note`` also says which share of them reaches the target. ``verdict`` is the older name of
        ``sampling_note``; the next version drops it. ``calibration`` has the figures by which a rule found eta.
        """
        diagnosis = Diagnosis.of(self.draws, self.mixture, tuple(self.space.names[j] for j in self.free))
        sampling, sentence = judged = diagnosis.judge()
        return diagnosis.entries() | {
            "calibration": self._calibration(),
            "n_model_calls": self.n_model_calls,
            "n_model_rows": self.n_model_rows,
            "sampling": sampling,
            "sampling_note": sentence,
            "posterior_note": self._describe_posterior(judged),
            "verdict": sentence,  # deprecated name
            "notes": list(self.notes),
        }

    def _describe_posterior(self, judged: Judgement) -> str:
        """Return which share of the draws reaches the target, and how well they were sampled."""
        if not self.draws.info.draws_posterior:
            return judged.sentence
        raised = self.calibration is not None and not self.calibration.met  # as far as the draws carry it
        remedy = "" if raised or self.status == Status.NOT_ATTAINED else 'set `eta="auto"` for draws that do'
        return describe_posterior(judged, float(self.distribution["success_probability"]), remedy)

    def _calibration(self) -> dict[str, Any]:
        """Return how eta was found, with the figures by which it was."""
        if self.calibration is None:
            return {}
        names = ("success_probability", "expected_loss")
        found = {key: float(self.distribution[key]) for name in names for key in (name, f"{name}_se")}
        return {**self.calibration.entries(), "eta": self.eta, **found}
