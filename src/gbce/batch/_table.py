"""The result for many rows: the tables of single explanations, stacked."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from gbce.explanation import Explanation

__all__ = ["ExplanationTable", "Record", "record_of", "stacked"]

_DIAGNOSTICS = (
    "ess", "pareto_k", "n_distinct", "log_evidence", "log_evidence_se", "n_model_calls", "n_model_rows", "verdict",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Record:
    """What is kept of one explanation: its tables, without the draws."""

    counterfactuals: pd.DataFrame
    pointwise: pd.DataFrame
    distribution: pd.Series
    importance: pd.DataFrame
    diagnostics: dict[str, Any]


def record_of(explanation: Explanation) -> Record:
    """Read the tables off an explanation, so that its draws can be let go."""
    numbers = explanation.diagnostics
    kept = {"status": explanation.status} | {name: numbers[name] for name in _DIAGNOSTICS}
    kept |= {"notes": " ".join(explanation.notes), "seed": explanation.seed}
    return Record(
        explanation.counterfactuals, explanation.pointwise, explanation.distribution, explanation.importance, kept
    )


@dataclass(frozen=True, eq=False)
class ExplanationTable:
    """Explanations of many rows, as tables whose first index level is the row's own label.

    Parameters
    ----------
    counterfactuals, pointwise : DataFrame
        By (row, rule): the decisions, and their figures.
    distribution : DataFrame
        By row: the figures of its posterior.
    importance : DataFrame
        By (row, feature).
    diagnostics : DataFrame
        By row: status, effective sample size, verdict, notes, and the seed that explains the row again on its own.
    n_model_calls, n_model_rows : int
        What it really cost: rows that were explained together share calls.

    Examples
    --------
    >>> import gbce, numpy as np
    >>> data = np.random.default_rng(0).normal(size=(60, 2))
    >>> explainer = gbce.Explainer(lambda x: x.sum(axis=1), data)
    >>> table = explainer.explain_many(data[:3], gbce.AtLeast(2), rules=[gbce.MAP()], seed=0, progress=False)
    >>> table.pointwise.index.names, len(table)
    (FrozenList(['row', 'rule']), 3)
    """

    counterfactuals: pd.DataFrame
    pointwise: pd.DataFrame
    distribution: pd.DataFrame
    importance: pd.DataFrame
    diagnostics: pd.DataFrame
    n_model_calls: int
    n_model_rows: int

    def __len__(self) -> int:
        return len(self.diagnostics)

    def by_rule(self) -> pd.DataFrame:
        """Mean and standard deviation over rows of each rule's figures, and the share of rows it reaches."""
        figures = self.pointwise.select_dtypes("number").drop(columns="robustness_se", errors="ignore")
        means = figures.groupby(level="rule", sort=False).agg(["mean", "std"])
        means[("reached", "share")] = self.pointwise["reached"].groupby(level="rule", sort=False).mean()
        return means

    def summary(self) -> str:
        """Return a readable text: how many rows, how many attained, how far to trust it, the rules compared."""
        status = ", ".join(f"{n} {name}" for name, n in self.diagnostics["status"].value_counts().items())
        verdicts = self.diagnostics["verdict"].str.split(":|,", regex=True).str[0].value_counts()
        trust = ", ".join(f"{n} {name}" for name, n in verdicts.items())
        lines = [
            f"{len(self)} rows: {status}",
            f"verdicts: {trust}",
            f"cost: {self.n_model_calls:,} model calls, {self.n_model_rows:,} rows",
        ]
        if len(self.pointwise):
            shown = self.by_rule()
            table = pd.DataFrame({"reached": shown[("reached", "share")].map("{:.0%}".format)})
            for name in ("loss", "distance", "robustness", "plausibility"):
                pairs = zip(shown[(name, "mean")], shown[(name, "std")], strict=True)
                table[name] = [f"{mean:.4g} ± {sd:.3g}" for mean, sd in pairs]
            lines += ["", "Mean ± SD over rows", table.to_string()]
        return "\n".join(lines)


def stacked(records: Sequence[Record], labels: Sequence[Any], n_calls: int, n_rows: int) -> ExplanationTable:
    """Stack records under their rows' labels."""
    keys = pd.Index(labels, name="row", tupleize_cols=False)
    distribution = pd.DataFrame([record.distribution for record in records]).set_axis(keys, axis=0)
    return ExplanationTable(
        counterfactuals=_stack([record.counterfactuals for record in records], keys, "rule"),
        pointwise=_stack([record.pointwise for record in records], keys, "rule"),
        distribution=distribution,
        importance=_stack([record.importance for record in records], keys, "feature"),
        diagnostics=pd.DataFrame([record.diagnostics for record in records], index=keys),
        n_model_calls=n_calls,
        n_model_rows=n_rows,
    )


def _stack(frames: Sequence[pd.DataFrame], keys: pd.Index, inner: str) -> pd.DataFrame:
    lengths = [len(frame) for frame in frames]
    whole = pd.concat(list(frames), ignore_index=False)
    outer = keys.take(np.repeat(np.arange(len(frames)), lengths))
    return whole.set_axis(pd.MultiIndex.from_arrays([outer, whole.index], names=["row", inner]), axis=0)
