"""The result for many rows: the tables of single explanations, stack_records."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from gbce._validation import show
from gbce.explanation import Answer, Explanation, Share, Status, point_table
from gbce.metrics import unknown_errors, unknown_figures
from gbce.space import Space

__all__ = ["ExplanationTable", "Record", "failure_of", "record_of", "stack_records"]

_DIAGNOSTICS = (
    "ess", "pareto_k", "n_distinct", "log_evidence", "log_evidence_se", "n_model_calls", "n_model_rows", "verdict",
)  # fmt: skip
_NAN = float("nan")
_UNKNOWN = Share(_NAN, _NAN, _NAN, 0)
_NO_ANSWER = {
    "kind": "", "changes": "", "n_changes": 0, "cost": _NAN, "output": _NAN, "reached": False, "reliability": _NAN,
    "reliability_low": _NAN, "reliability_high": _NAN, "survival": _NAN, "sentence": "",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Record:
    """What is kept of one explanation: its tables, without the draws."""

    counterfactuals: pd.DataFrame
    pointwise: pd.DataFrame
    distribution: pd.Series
    importance: pd.DataFrame
    diagnostics: dict[str, Any]
    answer: dict[str, Any]


def record_of(explanation: Explanation) -> Record:
    """Read the tables off an explanation, so that its draws can be let go."""
    numbers = explanation.diagnostics
    kept = {"status": str(explanation.status), "sampling": str(numbers["sampling"])} | {
        name: numbers[name] for name in _DIAGNOSTICS
    }
    kept |= {"notes": " ".join(explanation.notes), "seed": explanation.seed, "error": ""}
    return Record(
        explanation.counterfactuals,
        explanation.pointwise,
        explanation.distribution,
        explanation.importance,
        kept,
        _describe_answer(explanation.answer),
    )


def _describe_answer(answer: Answer | None) -> dict[str, Any]:
    """Return an answer as one line of a table; a row without one has an empty line."""
    if answer is None:
        return dict(_NO_ANSWER)
    held, refits = (share or _UNKNOWN for share in (answer.reliability, answer.survival))
    return {
        "kind": str(answer.kind),
        "changes": answer.changes_in_words,
        "n_changes": answer.n_changes,
        "cost": answer.cost,
        "output": float(answer.decision.outputs[0]),
        "reached": answer.reached,
        "reliability": held.share,
        "reliability_low": held.low,
        "reliability_high": held.high,
        "survival": refits.share,
        "sentence": answer.sentence,
    }


def failure_of(error: Exception, space: Space, seed: int, n_calls: int, n_rows: int) -> Record:
    """Return the record of a row that could not be explained: no decision, no figure, and why."""
    unknown = dict.fromkeys(_DIAGNOSTICS, float("nan"))
    kept = (
        {"status": str(Status.FAILED), "sampling": ""}
        | unknown
        | {"n_distinct": 0, "n_model_calls": n_calls, "n_model_rows": n_rows}
    )
    kept |= {"verdict": "", "notes": "", "seed": seed, "error": f"{type(error).__name__}: {error}"}
    features = pd.Index(space.names, name="feature")
    return Record(
        point_table(space, np.zeros((0, len(space))), []),
        pd.DataFrame({"reached": np.zeros(0, dtype=bool)}),
        pd.Series(dtype=float),
        pd.DataFrame(np.nan, index=features, columns=["change", "se", "prior", "ratio"]),
        kept,
        dict(_NO_ANSWER),
    )


@dataclass(frozen=True, eq=False)
class ExplanationTable:
    """Explanations of many rows, as tables whose first index level is the row's own label.

    Parameters
    ----------
    counterfactuals, pointwise : DataFrame
        By (row, rule): the decisions, and their figures. A row that could not be explained has none.
    distribution : DataFrame
        By row: the figures of its posterior; NaN for a row that could not be explained.
    importance : DataFrame
        By (row, feature); NaN for a row that could not be explained.
    diagnostics : DataFrame
        By row: status, effective sample size, the verdict as a word (``sampling``) and as a sentence, notes, the seed
        that explains the row again on its own, and the error of a row that could not be explained, whose status is
        "failed".
    n_model_calls, n_model_rows : int
        What it really cost: rows that were explained together share calls.
    answers : DataFrame
        By row the answer to hand over: ``kind``, what ``changes`` in words, how many columns, ``cost``, ``output``,
        ``reached``, ``reliability`` with its interval, ``survival`` over refits, and the whole ``sentence``. A row
        that could not be explained has an empty line.

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
    answers: pd.DataFrame

    def __len__(self) -> int:
        return len(self.diagnostics)

    @property
    def errors(self) -> pd.Series:
        """Why rows could not be explained, by row; empty if all were."""
        return self.diagnostics.loc[self.diagnostics["status"] == Status.FAILED, "error"]

    def error_sentence(self) -> str:
        """Return how many rows could not be explained and why the first one could not."""
        label, error = next(self.errors.items())
        return f"{len(self.errors)} of {len(self)} rows could not be explained, first row {show(label)}: {error}"

    def by_rule(self) -> pd.DataFrame:
        """Mean and standard deviation over rows of each rule's figures, and the share of rows it reaches."""
        errors = [f"{name}_se" for name in unknown_errors()]
        figures = self.pointwise.select_dtypes("number").drop(columns=errors, errors="ignore")
        means = figures.groupby(level="rule", sort=False).agg(["mean", "std"])
        means[("reached", "share")] = self.pointwise["reached"].groupby(level="rule", sort=False).mean()
        return means

    def summary(self) -> str:
        """Return a readable text: how many rows, how many attained, how far to trust it, the rules compared."""
        status = ", ".join(f"{n} {name}" for name, n in self.diagnostics["status"].value_counts().items())
        verdicts = self.diagnostics.loc[self.diagnostics["status"] != Status.FAILED, "sampling"]
        trust = ", ".join(f"{n} {name}" for name, n in verdicts.value_counts().items())
        text = [
            f"{len(self)} rows: {status}",
            f"verdicts: {trust or 'none'}",
            f"cost: {self.n_model_calls:,} model calls, {self.n_model_rows:,} rows",
        ]
        kinds = self.answers["kind"][self.answers["kind"] != ""]
        if len(kinds):
            changed = self.answers.loc[kinds.index, "n_changes"].median()
            listed = ", ".join(f"{n} {name}" for name, n in kinds.value_counts().items())
            text.insert(1, f"answers: {listed}; columns to change in the median: {changed:g}")
        if len(self.errors):
            text.append(self.error_sentence())
        if len(self.pointwise):
            shown = self.by_rule()
            table = pd.DataFrame({"reached": shown[("reached", "share")].map("{:.0%}".format)})
            for name in ("loss", "distance", *unknown_figures()):
                pairs = zip(shown[(name, "mean")], shown[(name, "std")], strict=True)
                table[name] = [f"{mean:.4g} ± {sd:.3g}" for mean, sd in pairs]
            text += ["", "Mean ± SD over rows", table.to_string()]
        return "\n".join(text)


def stack_records(records: Sequence[Record], labels: Sequence[Any], n_calls: int, n_rows: int) -> ExplanationTable:
    """Stack records under their rows' labels."""
    keys = pd.Index(labels, name="row", tupleize_cols=False)
    names = next((record.distribution.index for record in records if len(record.distribution)), pd.Index([]))
    distribution = pd.DataFrame([record.distribution.reindex(names) for record in records]).set_axis(keys, axis=0)
    return ExplanationTable(
        counterfactuals=_stack([record.counterfactuals for record in records], keys, "rule"),
        pointwise=_stack([record.pointwise for record in records], keys, "rule"),
        distribution=distribution,
        importance=_stack([record.importance for record in records], keys, "feature"),
        diagnostics=pd.DataFrame([record.diagnostics for record in records], index=keys),
        n_model_calls=n_calls,
        n_model_rows=n_rows,
        answers=pd.DataFrame([record.answer for record in records], index=keys),
    )


def _stack(frames: Sequence[pd.DataFrame], keys: pd.Index, inner: str) -> pd.DataFrame:
    lengths = [len(frame) for frame in frames]
    # a frame without a line has nothing to say on columns and dtypes, unless there is no other
    whole = pd.concat([frame for frame in frames if len(frame)] or list(frames[:1]), ignore_index=False)
    outer = keys.take(np.repeat(np.arange(len(frames)), lengths))
    return whole.set_axis(pd.MultiIndex.from_arrays([outer, whole.index], names=["row", inner]), axis=0)
