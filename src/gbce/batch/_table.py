"""The result for many rows: the tables of single explanations, stacked, and their rows as encoded by the space."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from gbce._validation import printable, show
from gbce.base import Array, Target
from gbce.decisions import Rule, answers_among, match_label, stack_points
from gbce.explanation import Answer, Explanation, Share, Status, point_table
from gbce.files import to_json
from gbce.metrics import MOSTLY, Verdict, unknown_errors, unknown_figures
from gbce.space import Space, plain_records
from gbce.targets import Class, Numeric

if TYPE_CHECKING:
    from gbce.plots import TablePlots

_DIAGNOSTICS = (
    "ess", "pareto_k", "n_distinct", "log_evidence", "log_evidence_se", "n_model_calls", "n_model_rows",
)  # fmt: skip
_NAN = float("nan")
_UNKNOWN = Share(_NAN, _NAN, _NAN, 0)
_NO_ANSWER = {
    "kind": "", "changes": "", "n_changes": 0, "cost": _NAN, "output": _NAN, "reached": False, "reliability": _NAN,
    "reliability_low": _NAN, "reliability_high": _NAN, "survival": _NAN, "sentence": "",
}  # fmt: skip
ANSWER = "answer"  # used like the label of a rule, for explanation.answer
_SENTENCES = ("sampling_note", "posterior_note", "verdict")  # the last is an alias of the first
_BY_ROW = ("counterfactuals", "pointwise", "distribution", "importance", "diagnostics", "answers")
_CHANGES = ["rule", "feature", "from", "to", "change"]

# --- encoded rows ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class EncodedRows:
    """The rows ``x0`` ``(n, d)`` of a table, ``answers`` ``(n, d)`` of those ``answered`` ``(n,)``, and ``decisions``.

    Where there is no answer, the row itself stands for it. Decisions ``(k, d)`` are in the order of
    ``table.pointwise``, each with the ``place`` ``(k,)`` of its row, as labels may be duplicated. ``target`` is in
    words, empty where rows have different ones.
    """

    space: Space
    x0: Array
    answers: Array
    answered: Array
    decisions: Array
    place: Array
    target: str = ""

    def take(self, where: Array) -> "EncodedRows":
        """Return the rows at some positions."""
        mine = np.isin(self.place, where)
        place = np.searchsorted(where, self.place[mine])
        picked = (self.x0[where], self.answers[where], self.answered[where], self.decisions[mine], place)
        return EncodedRows(self.space, *picked, self.target)


def _encode_one(space: Space, x0: Array, answer: Array | None, decisions: Array, target: str = "") -> EncodedRows:
    """Return one row ``(d,)`` with its answer ``(d,)``, if it has one, and its decisions ``(k, d)``."""
    aim, answered = (x0 if answer is None else answer)[None, :], np.array([answer is not None])
    return EncodedRows(space, x0[None, :], aim, answered, decisions, np.zeros(len(decisions), dtype=int), target)


def _stack_encoded(rows: Sequence[EncodedRows]) -> EncodedRows | None:
    """Stack single rows of one space; None if there are none."""
    if not rows:
        return None
    names = ("x0", "answers", "answered", "decisions")
    x0, answers, answered, decisions = (np.concatenate([getattr(row, name) for row in rows]) for name in names)
    place, targets = (
        np.repeat(np.arange(len(rows)), [len(row.place) for row in rows]),
        {row.target for row in rows} - {""},
    )
    target = targets.pop() if len(targets) == 1 else ""
    return EncodedRows(rows[0].space, x0, answers, answered, decisions, place, target)


class RowFacts(NamedTuple):
    """What letters state of one row and its answer, beside the encoded points.

    ``now`` and ``output`` are the first model's outputs at the row and at the answer; ``sampled`` is whether a
    posterior was drawn.
    """

    target: Target
    model: str
    now: float
    now_reached: bool
    output: float
    reached: bool
    reliability: Share | None
    survival: Share | None
    promised: float | None
    sampled: bool


def facts_of(explanation: Explanation) -> RowFacts | None:
    """Return the facts of an explanation; None without an answer, or for a target that is a function."""
    answer, target, row = explanation.answer, explanation.target, explanation.row
    if answer is None or not isinstance(target, (Class, Numeric)):
        return None
    return RowFacts(
        target, explanation.models[0], float(row.outputs[0, 0]), bool(row.reached[0, 0]),
        float(answer.decision.outputs[0]), answer.reached, answer.reliability, answer.survival, answer.promised,
        explanation.draws.info.draws_posterior,
    )  # fmt: skip


# --- the result for many rows ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Record:
    """The tables of one explanation, without its draws."""

    counterfactuals: pd.DataFrame
    pointwise: pd.DataFrame
    distribution: pd.Series
    importance: pd.DataFrame
    diagnostics: dict[str, Any]
    answer: dict[str, Any]
    changes: pd.DataFrame
    rules: tuple[str, ...]
    encoded: EncodedRows
    facts: RowFacts | None = None


def record_of(explanation: Explanation) -> Record:
    """Extract the tables of an explanation, so that its draws can be freed."""
    return Record(
        explanation.counterfactuals,
        explanation.pointwise,
        explanation.distribution,
        explanation.importance,
        describe_diagnostics(explanation),
        describe_answer(explanation.answer),
        explanation.changes(),
        tuple(rule.label for rule in explanation.rules),
        _encode_one(
            explanation.space,
            explanation.x0,
            None if explanation.answer is None else explanation.answer.decision.x,
            stack_points(answers_among(explanation.decisions), len(explanation.space)),
            explanation.target.describe(),
        ),
        facts_of(explanation),
    )


def describe_diagnostics(explanation: Explanation) -> dict[str, Any]:
    """Return the diagnostics of an explanation as one line of a table."""
    numbers = explanation.diagnostics
    kept = {"status": str(explanation.status), "sampling": str(numbers["sampling"])} | {
        name: numbers[name] for name in (*_DIAGNOSTICS, *_SENTENCES)
    }
    return kept | {"notes": " ".join(explanation.notes), "seed": explanation.seed, "error": ""}


def describe_answer(answer: Answer | None) -> dict[str, Any]:
    """Return an answer as one line of a table, an empty one if there is no answer."""
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


def describe_failure(error: Exception | str, seed: int, n_calls: int, n_rows: int) -> dict[str, Any]:
    """Return the diagnostics of a row that could not be explained."""
    text = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
    return {
        "status": str(Status.FAILED),
        "sampling": "",
        **dict.fromkeys(_DIAGNOSTICS, _NAN),
        **{"n_distinct": 0, "n_model_calls": n_calls, "n_model_rows": n_rows},
        **dict.fromkeys(_SENTENCES, ""),
        **{"notes": "", "seed": seed, "error": text},
    }


def failure_of(error: Exception | str, space: Space, x0: Array, seed: int, n_calls: int, n_rows: int) -> Record:
    """Return the record of a row ``(d,)`` that could not be explained: empty tables and the error."""
    features = pd.Index(space.names, name="feature")
    return Record(
        point_table(space, np.zeros((0, len(space))), []),
        pd.DataFrame({"reached": np.zeros(0, dtype=bool)}),
        pd.Series(dtype=float),
        pd.DataFrame(np.nan, index=features, columns=["change", "se", "prior", "ratio"]),
        describe_failure(error, seed, n_calls, n_rows),
        describe_answer(None),
        pd.DataFrame(columns=_CHANGES),
        (),
        _encode_one(space, x0, None, np.zeros((0, len(space)))),
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
        By row: status, effective sample size, quality of the sampling as a word (``sampling``) and as a sentence
        (``sampling_note``; ``verdict`` is an alias), the same with the share of draws that reach the target
        (``posterior_note``), notes, the seed that reproduces the row on its own, and the error of a row that could not
        be explained, whose status is "failed".
    n_model_calls, n_model_rows : int
        Total effort: rows that were explained together share calls.
    answers : DataFrame
        By row, the recommended answer: ``kind``, ``changes`` in words, number of changed columns, ``cost``,
        ``output``, ``reached``, ``reliability`` with its interval, ``survival`` over refits, and the full ``sentence``.
        A row that could not be explained has an empty line.
    rules : tuple of str
        Labels of the requested rules.
    moves : DataFrame
        The result of :meth:`changes`.
    encoded : EncodedRows, optional
        Encoded rows, answers and decisions, for :attr:`rows` and :meth:`to_html`.
    facts : tuple of RowFacts or None
        By row, what :meth:`letters` states.

    Examples
    --------
    >>> import gbce, numpy as np
    >>> data = np.random.default_rng(0).normal(size=(60, 2))
    >>> explainer = gbce.Explainer(lambda x: x.sum(axis=1), data)
    >>> table = explainer.explain_many(data[:3], gbce.AtLeast(2), rules=[gbce.MAP()], seed=0, progress=False)
    >>> table.pointwise.index.names, len(table)
    (FrozenList(['row', 'rule']), 3)
    >>> table
    <ExplanationTable: 3 rows, 3 attainable, 1 rule; print(table.summary()) shows it>
    >>> table.changes().columns.tolist()
    ['row', 'rule', 'feature', 'from', 'to', 'change']
    """

    counterfactuals: pd.DataFrame
    pointwise: pd.DataFrame
    distribution: pd.DataFrame
    importance: pd.DataFrame
    diagnostics: pd.DataFrame
    n_model_calls: int
    n_model_rows: int
    answers: pd.DataFrame
    rules: tuple[str, ...] = ()
    moves: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=["row", *_CHANGES]))
    encoded: EncodedRows | None = None
    facts: tuple[RowFacts | None, ...] = ()

    def __len__(self) -> int:
        return len(self.diagnostics)

    def __repr__(self) -> str:
        return f"<ExplanationTable: {self._counts()}; print(table.summary()) shows it>"

    def __str__(self) -> str:
        """One line per row with its whole answer; failed rows with their error."""
        lines = zip(self.diagnostics.index, self.answers["sentence"], self.diagnostics["error"], strict=True)
        return "\n".join(
            f"{printable(str(label))}: {sentence or error or 'no answer'}" for label, sentence, error in lines
        )

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the labels of the rows."""
        return iter(self.diagnostics.index)

    def __getitem__(self, label: Any) -> "ExplanationTable":
        """Return the table of the row with a label, of all of them where it is not unique.

        Raises
        ------
        KeyError
            If there is no such row.
        """
        where = np.flatnonzero([one == label for one in self.diagnostics.index])
        if len(where) == 0:
            raise KeyError(f"there is no row {label!r}; the first rows are {self.diagnostics.index[:5].tolist()}")
        kept = {name: self._take(getattr(self, name), label, where) for name in _BY_ROW}
        own = self.diagnostics.iloc[where]
        return replace(
            self,
            **kept,
            moves=self.moves[[one == label for one in self.moves["row"]]],
            n_model_calls=int(own["n_model_calls"].sum(skipna=True)),
            n_model_rows=int(own["n_model_rows"].sum(skipna=True)),
            encoded=None if self.encoded is None else self.encoded.take(where),
            facts=tuple(self.facts[i] for i in where) if self.facts else (),
        )

    @staticmethod
    def _take(frame: pd.DataFrame, label: Any, where: Array) -> pd.DataFrame:
        """Return the lines of a row in one of the tables."""
        if frame.index.nlevels == 1:
            return frame.iloc[where]
        return frame[[one == label for one in frame.index.get_level_values(0)]]

    def _repr_html_(self) -> str:
        text = f"<p>{escape(self._counts())}</p>"
        text += self._compare_rules().to_html(border=0, escape=True) if len(self.pointwise) else ""
        from gbce.pages import view_table

        return view_table(self, text)

    def _counts(self) -> str:
        n, k = len(self), len(self.rules)
        rows, rules = f"{n:,} row{'s' * (n != 1)}", f"{k} rule{'s' * (k != 1)}"
        return ", ".join([rows, *self._count_words(self.diagnostics["status"]), rules])

    @staticmethod
    def _count_words(words: pd.Series) -> list[str]:
        return [f"{n:,} {word}" for word, n in words.value_counts().items()]

    def changes(self, rule: "Rule | str | None" = None) -> pd.DataFrame:
        """Return the changes in tidy form: one line per row, rule and feature, with ``from``, ``to``, ``change``.

        The columns after ``row`` are those of :meth:`gbce.Explanation.changes`. A decision without changes and a row
        that could not be explained have no line.

        Parameters
        ----------
        rule : Rule or str, optional
            Only its decisions: a rule, its label, or ``"answer"`` for the recommended answers. By default the decisions
            of all rules, without the answers.
        """
        if rule is None:
            return self.moves.copy()
        label = self.label_of(rule)
        if label == ANSWER:
            return self._list_answer_changes()
        return self.moves[self.moves["rule"] == label].copy()

    def label_of(self, rule: Rule | str) -> str:
        """Return the label of a rule of this table, or ``"answer"``; raise if the table has no such rule."""
        found = ANSWER if isinstance(rule, str) and rule == ANSWER else None
        listed = list(dict.fromkeys([*self.rules, *self.pointwise.index.get_level_values("rule")]))
        found = found or match_label(rule, listed)
        if found is None:
            raise ValueError(
                f"there is no rule {getattr(rule, 'label', rule)!r}; the explanations have {listed}, and {ANSWER!r}"
            )
        return found

    @property
    def has_answers(self) -> bool:
        """Whether any row has a recommended answer."""
        return bool((self.answers["kind"] != "").any())

    def _list_answer_changes(self) -> pd.DataFrame:
        """Return the changes of the answers as :meth:`changes` has those of rules."""
        known = self.require_encoded("changes of answers")
        labels, space = self.diagnostics.index[known.answered], known.space
        x0, x = known.x0[known.answered], known.answers[known.answered]
        before, after = space.readable(x0), space.readable(x)
        lines: list[tuple[Any, ...]] = []
        for i, j in np.argwhere(space.changed(x, x0)).tolist():
            by = _NAN if space.features[j].unordered else x[i, j] - x0[i, j]
            lines.append((labels[i], ANSWER, space.names[j], before.iat[i, j], after.iat[i, j], float(by)))
        return pd.DataFrame(lines, columns=["row", *_CHANGES]).infer_objects()

    @property
    def rows(self) -> pd.DataFrame:
        """The rows to explain, in the user's columns and dtypes, failed ones included."""
        known = self.require_encoded("rows")
        return known.space.frame(known.x0).set_axis(self.diagnostics.index)

    def require_encoded(self, what: str) -> EncodedRows:
        """Return the encoded rows, or raise an error that names ``what`` needs them."""
        if self.encoded is None:
            raise ValueError(f"{what} needs the rows, which this table does not have: run explain_many")
        return self.encoded

    @property
    def errors(self) -> pd.Series:
        """Errors of the rows that could not be explained; empty if there are none."""
        return self.diagnostics.loc[self.diagnostics["status"] == Status.FAILED, "error"]

    def error_sentence(self) -> str:
        """Return the number of rows that could not be explained, and the error of the first."""
        label, error = next(self.errors.items())
        return f"{len(self.errors)} of {len(self)} rows could not be explained, first row {show(label)}: {error}"

    def by_rule(self) -> pd.DataFrame:
        """Mean and standard deviation over rows of each rule's figures, and the share of rows it reaches."""
        errors = [f"{name}_se" for name in unknown_errors()]
        figures = self.pointwise.select_dtypes("number").drop(columns=errors, errors="ignore")
        means = figures.groupby(level="rule", sort=False).agg(["mean", "std"])
        means[("reached", "share")] = self.pointwise["reached"].groupby(level="rule", sort=False).mean()
        return means

    def to_dict(self) -> dict[str, Any]:
        """Return all tables as plain data, lists of mappings: docs/reference.md has the keys.

        Returns
        -------
        dict
            Strings, finite numbers, booleans, ``None`` (missing or not finite), lists and mappings of them.
        """
        return {
            "rules": list(self.rules),
            "answers": plain_records(self.answers),
            "counterfactuals": plain_records(self.counterfactuals, values="values"),
            "changes": plain_records(self.changes()),
            "pointwise": plain_records(self.pointwise),
            "distribution": plain_records(self.distribution),
            "importance": plain_records(self.importance),
            "diagnostics": plain_records(self.diagnostics.drop(columns="verdict")),
            "n_model_calls": int(self.n_model_calls),
            "n_model_rows": int(self.n_model_rows),
        }

    def to_json(self, path: str | Path | None = None) -> str | Path:
        """Return :meth:`to_dict` as strict JSON, or write it to ``path`` atomically and return the path."""
        return to_json(self.to_dict(), path)

    @property
    def plot(self) -> "TablePlots":
        """Plots: ``table.plot.changes()``, ``table.plot.costs(groups)``."""
        from gbce.plots import TablePlots  # imports this package, hence not at the top

        return TablePlots(self)

    def to_html(self, path: str | Path | None = None, *, groups: Any = None, policies: Any = None) -> str | Path:
        """Return an interactive HTML page of all rows, or write it to ``path`` atomically and return the path.

        The file needs no server and no network: in any browser it filters and sorts rows by any column, plots how often
        and how far columns change, compares groups, and shows the answer, decisions and figures of each row.

        Parameters
        ----------
        path : str or Path, optional
            The file, such as ``"rows.html"``; by default the page is returned as a string.
        groups : str, sequence, Series or mapping, optional
            Groups of rows to compare first: the name of a column, or the group of each row, in order or by row label.
            Columns with two to eight values are compared in any case.
        policies : result of gbce.policy, mapping of row labels to plans, or a list of these, optional
            What was decided about the rows: actions, an allocation, fairness, a review, and plans. Each gets a section.

        Examples
        --------
        >>> import gbce
        >>> data = np.random.default_rng(0).normal(size=(60, 2))
        >>> explainer = gbce.Explainer(lambda x: x.sum(axis=1), data)
        >>> table = explainer.explain_many(data[:2], gbce.AtLeast(2), rules=["MAP"], seed=0, progress=False)
        >>> table.to_html()[:15]
        '<!doctype html>'
        """
        from gbce.pages import table_page, write_page

        page = table_page(self, groups=groups, policies=policies)
        return page if path is None else write_page(page, path)

    def letters(self, reasons: Mapping[str, str], **options: Any) -> pd.DataFrame:
        """Return letters for mail merge, one line per row: reasons, what would have been, receipt and text.

        Parameters
        ----------
        reasons : mapping of str to str
            The reason for each column, as text or code.
        **options
            As in :meth:`gbce.Explanation.letter`, but for ``alternatives``, which a table does not have.

        Returns
        -------
        DataFrame
            By row: ``reason_1`` to ``reason_4``, ``would_have``, ``depends``, ``receipt``, the whole ``text``, and
            ``refused`` with the reason in one sentence where there must be no letter.

        Examples
        --------
        >>> import gbce
        >>> data = pd.DataFrame(np.random.default_rng(0).normal(50, 10, size=(99, 2)).round(1), columns=["pay", "debt"])
        >>> explainer = gbce.Explainer(lambda x: x["pay"] - x["debt"], data)
        >>> target = gbce.AtLeast(0)
        >>> table = explainer.explain_many(data[:3], target, seed=0, posterior=False, progress=False)
        >>> table.letters({"pay": "Income insufficient", "debt": "Excessive obligations"}).shape
        (3, 9)
        """
        from gbce.words import letters_of

        return letters_of(self, reasons, **options)

    def summary(self) -> str:
        """Return a readable summary: numbers of rows by status, quality of the draws, and the rules compared."""
        status = ", ".join(self._count_words(self.diagnostics["status"]))
        text = [
            f"{len(self)} rows: {status}",
            self._describe_posteriors(),
            f"effort: {self.n_model_calls:,} model calls, {self.n_model_rows:,} rows",
        ]
        answered = self.answers[self.answers["kind"] != ""]
        if len(answered):
            changed = answered["n_changes"].median()
            listed = ", ".join(self._count_words(answered["kind"]))
            text.insert(1, f"answers: {listed}; columns to change in the median: {changed:g}")
        if len(self.errors):
            text.append(self.error_sentence())
        if len(self.pointwise):
            text += ["", "Mean ± SD over rows", self._compare_rules().to_string()]
        return "\n".join(text)

    def _describe_posteriors(self) -> str:
        """Return how many draws reach the target, over the rows that were sampled, and how well they were."""
        explained = (self.diagnostics["status"] != Status.FAILED).to_numpy()
        sampling = f"sampling: {', '.join(self._count_words(self.diagnostics['sampling'][explained])) or 'none'}"
        sampled = explained & (self.diagnostics["sampling"] != Verdict.NOT_SAMPLED).to_numpy()
        if not sampled.any():
            notes = self.diagnostics["sampling_note"][explained].unique()
            return f"posterior: {notes[0]}" if len(notes) == 1 else sampling
        success = self.distribution["success_probability"][sampled]
        text = f"posterior: {success.median():.0%} of the draws reach the target in the median row"
        few = int((success < MOSTLY).sum())
        return f"{text}{f', fewer than half in {few:,}' if few else ''}; {sampling}"

    def _compare_rules(self) -> pd.DataFrame:
        """Return the figures of each rule as strings, mean and standard deviation over rows."""
        shown = self.by_rule()
        table = pd.DataFrame({"reached": shown[("reached", "share")].map("{:.0%}".format)})
        for name in ("loss", "cost", "changed", *unknown_figures()):
            pairs = zip(shown[(name, "mean")], shown[(name, "std")], strict=True)
            table[name] = [f"{mean:.4g} ± {sd:.3g}" for mean, sd in pairs]
        return table


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
        rules=tuple(dict.fromkeys(label for record in records for label in record.rules)),
        moves=_stack_changes([record.changes for record in records], keys),
        encoded=_stack_encoded([record.encoded for record in records]),
        facts=tuple(record.facts for record in records),
    )


def table_of_answers(
    space: Space,
    answers: pd.DataFrame,
    diagnostics: pd.DataFrame,
    distribution: pd.DataFrame,
    encoded: EncodedRows | None = None,
    facts: tuple[RowFacts | None, ...] = (),
) -> ExplanationTable:
    """Return a table of rows whose answers alone are known, without decisions, importance and draws."""
    nobody = pd.Index([None], name="row")
    importance = pd.DataFrame(columns=["change", "se", "prior", "ratio"], dtype=float)
    return ExplanationTable(
        counterfactuals=_stack([point_table(space, np.zeros((0, len(space))), [])], nobody, "rule"),
        pointwise=_stack([pd.DataFrame({"reached": np.zeros(0, dtype=bool)})], nobody, "rule"),
        distribution=distribution,
        importance=_stack([importance], nobody, "feature"),
        diagnostics=diagnostics,
        n_model_calls=int(diagnostics["n_model_calls"].sum()),
        n_model_rows=int(diagnostics["n_model_rows"].sum()),
        answers=answers,
        moves=pd.DataFrame(columns=["row", *_CHANGES]),
        encoded=encoded,
        facts=facts,
    )


def _stack(frames: Sequence[pd.DataFrame], keys: pd.Index, inner: str) -> pd.DataFrame:
    lengths = [len(frame) for frame in frames]
    # an empty frame must not decide columns and dtypes, unless there is no other
    whole = pd.concat([frame for frame in frames if len(frame)] or list(frames[:1]), ignore_index=False)
    outer = keys.take(np.repeat(np.arange(len(frames)), lengths))
    return whole.set_axis(pd.MultiIndex.from_arrays([outer, whole.index], names=["row", inner]), axis=0)


def _stack_changes(frames: Sequence[pd.DataFrame], keys: pd.Index) -> pd.DataFrame:
    """Concatenate the change tables of all rows, with the row label first."""
    outer = keys.take(np.repeat(np.arange(len(frames)), [len(frame) for frame in frames]))
    whole = pd.concat([frame for frame in frames if len(frame)] or [pd.DataFrame(columns=_CHANGES)], ignore_index=True)
    whole.insert(0, "row", outer)
    return whole.infer_objects()
