"""Review answers that were given earlier under today's model: who is still served, and who must be notified."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

import gbce
from gbce._validation import show
from gbce.base import Array, Target
from gbce.batch import label_groups
from gbce.budget import budget_of
from gbce.explanation import Share
from gbce.policy._read import AnsweredRows, PolicyResult, ask_models, read_groups, read_parts
from gbce.space import plain_records

if TYPE_CHECKING:
    from gbce.explainer import Explainer

_ROWS_AT_ONCE = 50_000  # rows and answers in one batch, by hand: 40 MB in a hundred columns
_MOST_NAMED = 5  # labels of rows that a sentence names


class ReviewKind(StrEnum):
    """What has become of a row and its answer."""

    SERVED = "still served"
    LOST = "no longer served"
    ACCEPTED = "accepted as it is"
    KEPT = "accepted, as before"
    REFUSED = "refused now"
    NEVER = "never served"
    FAILED = "failed"

    def __repr__(self) -> str:
        return repr(self.value)


_MEANINGS = {
    ReviewKind.SERVED: "the row misses the target, and its answer reaches it",
    ReviewKind.LOST: "neither the row nor its answer reaches the target any more",
    ReviewKind.ACCEPTED: "the row reaches the target now without any change",
    ReviewKind.KEPT: "the row reached the target, and still does",
    ReviewKind.REFUSED: "the row reached the target, and no longer does",
    ReviewKind.NEVER: "the row misses the target, and had no answer",
    ReviewKind.FAILED: "the row could not be explained",
}
_TO_NOTIFY = (ReviewKind.LOST, ReviewKind.ACCEPTED, ReviewKind.REFUSED)


@dataclass(frozen=True, eq=False)
class Review(PolicyResult):
    """Answers given earlier under today's model, as plain data. Made by :func:`gbce.policy.review`.

    Parameters
    ----------
    table : DataFrame
        One line per row, by its label: ``kind``; ``notify``, whether the person must be notified; ``changes``, what the
        answer said; ``output_row`` and ``output_answer`` of today's model.
    target : str
        The target in words.
    served : Share
        Of the rows that had an answer and still miss the target without it, the share whose answer still reaches it.
    groups : DataFrame, optional
        By group: rows, and the same share with its interval.
    n_model_calls, n_model_rows : int
        What it took.
    """

    table: pd.DataFrame
    target: str
    served: Share
    groups: pd.DataFrame | None
    n_model_calls: int
    n_model_rows: int

    def __len__(self) -> int:
        return len(self.table)

    @property
    def counts(self) -> pd.Series:
        """The number of rows of each kind."""
        found = {kind: int((self.table["kind"] == kind).sum()) for kind in _MEANINGS}
        return pd.Series(found, name="rows").rename_axis("kind")

    @property
    def to_notify(self) -> pd.DataFrame:
        """The lines of the rows whose people must be notified."""
        return self.table[self.table["notify"]]

    @property
    def sentences(self) -> list[str]:
        """What was found, in sentences."""
        n = int(self.counts[ReviewKind.SERVED] + self.counts[ReviewKind.LOST])
        share = self.served
        lines = [
            f"Of {n:,} answers that are still needed, {share.share:.0%} (95%: {share.low:.0%} to {share.high:.0%}) "
            f"still reach the target ({self.target})."
            if n
            else "No answer is still needed."
        ]
        for kind in _TO_NOTIFY:
            if count := int(self.counts[kind]):
                s = "s" * (count != 1)
                lines.append(f"Notify {count:,} row{s} of kind {str(kind)!r}: {_MEANINGS[kind]} {self._name(kind)}.")
        if not self.table["notify"].any():
            lines.append("Nobody has to be notified.")
        if count := int(self.counts[ReviewKind.FAILED]):
            rows = f"{count:,} rows" if count > 1 else "1 row"
            lines.append(
                f"{rows} could not be explained then and cannot be judged now {self._name(ReviewKind.FAILED)}."
            )
        return lines

    def _name(self, kind: ReviewKind) -> str:
        """Return the labels of the first rows of a kind in brackets, and how many more there are."""
        labels = self.table.index[self.table["kind"] == kind]
        more = f" and {len(labels) - _MOST_NAMED:,} more" if len(labels) > _MOST_NAMED else ""
        return f"(row{'s' * (len(labels) != 1)} {', '.join(map(str, labels[:_MOST_NAMED]))}{more})"

    def __repr__(self) -> str:
        return f"<Review: {len(self):,} rows, {int(self.table['notify'].sum()):,} to be notified; print(...) says more>"

    def frame(self) -> pd.DataFrame:
        """Return a copy of ``table`` with plain strings."""
        return self.table.assign(kind=self.table["kind"].astype(str))

    def to_dict(self) -> dict[str, Any]:
        """Return the review as plain data, ready for JSON."""
        return {
            "target": self.target,
            "served": self.served._asdict(),
            "counts": {str(kind): int(count) for kind, count in self.counts.items()},
            "groups": None if self.groups is None else plain_records(self.groups),
            "rows": plain_records(self.frame()),
        }

    def to_html(self, path: str | Path | None = None) -> str | Path:
        """Return the page of the review, or write it atomically to ``path`` and return the path."""
        from gbce.pages import policy_page, write_page

        page = policy_page([self])
        return page if path is None else write_page(page, path)


def review(
    answers: Any,
    new_model: Any,
    *,
    target: Target | None = None,
    explainer: "Explainer | None" = None,
    groups: Any = None,
) -> Review:
    """Ask today's model about answers that were given earlier: who is still served, and who must be notified.

    Each row and each answer is evaluated once, in large batches.

    Parameters
    ----------
    answers : ExplanationTable, DataFrame or path
        The explained rows, stored lines, or the store of ``explain_many(..., store=)``, which is read part by part.
    new_model : estimator or callable
        Today's model, for rows with the same columns.
    target : Target, optional
        By default that of the answers. Stored lines do not tell.
    explainer : Explainer, optional
        For stored lines: the one that explained the rows, whose space they are encoded with; and for a ``target`` whose
        scale or tolerance comes from the data.
    groups : str, sequence, Series or mapping, optional
        A column, or the group of each row, in order or by label: the share of answers that still hold is reported for
        each.

    Returns
    -------
    Review
        Plain data with ``.table``, ``.to_notify``, ``.counts``, ``.to_html(path)`` and ``.to_json(path)``.

    Examples
    --------
    >>> import gbce
    >>> data = pd.DataFrame(np.random.default_rng(0).normal(50, 10, size=(99, 2)).round(1), columns=["pay", "debt"])
    >>> explainer = gbce.Explainer(lambda x: x["pay"] - x["debt"], data)
    >>> low = data[data["pay"] < data["debt"]].iloc[:5]
    >>> table = explainer.explain_many(low, gbce.AtLeast(0), seed=0, posterior=False, progress=False)
    >>> print(review(table, lambda x: x["pay"] - x["debt"] - 20).sentences[0])
    Of 5 answers that are still needed, 0% (95%: 0% to 43%) still reach the target (at least 0).
    """
    stored = gbce.load(answers) if isinstance(answers, (str, Path)) else answers
    lines, labels, calls, asked = [], [], 0, 0
    for rows in read_parts(stored, explainer):
        wanted = _require_target(rows.target if target is None else target, explainer)
        outputs, reached, more_calls, more_rows = _ask(new_model, rows, wanted)
        calls, asked = calls + more_calls, asked + more_rows
        lines.append(_list_lines(rows, outputs, reached))
        if isinstance(groups, str):
            labels.append(read_groups(groups, rows))
    if not any(map(len, lines)):
        raise ValueError("review: there is no row to review")
    table = pd.concat(lines)
    shares = None
    if groups is not None:
        of_rows = np.concatenate(labels) if labels else label_groups(groups, table.index).to_numpy()
        shares = pd.DataFrame(
            {group: _share_line(table["kind"][of_rows == group]) for group in pd.unique(of_rows)}
        ).T.rename_axis("group")
    return Review(table, wanted.describe(), _share_of(table["kind"]), shares, calls, asked)


def _require_target(target: Any, explainer: "Explainer | None") -> Target:
    """Return a target that can judge outputs, its open numbers resolved on the data of the explainer."""
    if target is None:
        raise ValueError(
            "review: the answers have no recorded target, or several: give target=, such as gbce.Class('good')"
        )
    if not isinstance(target, Target):
        raise ValueError(f"review: target must be a Target such as gbce.Class('good'), not {show(target)}")
    if not target.needs_spread:
        return target
    if explainer is None:
        raise ValueError(
            f"review: the scale and the tolerance of the target ({target.describe()}) come from data: give explainer=, "
            "or give the target both as numbers"
        )
    return explainer._session.prepare(target, budget_of(None, None))[1]


def _list_lines(rows: AnsweredRows, outputs: Array, reached: Array) -> pd.DataFrame:
    """Return the table of some rows from outputs and verdicts ``(2, n)`` at rows and answers."""
    kinds = _judge(rows, *reached)
    return pd.DataFrame(
        {
            "kind": pd.Series(kinds, dtype=object),
            "notify": [kind in _TO_NOTIFY for kind in kinds],
            "changes": rows.words,
            "output_row": outputs[0],
            "output_answer": np.where(rows.answered, outputs[1], np.nan),
        }
    ).set_axis(pd.Index(rows.labels, name="row"))


def _ask(model: Any, rows: AnsweredRows, target: Target) -> tuple[Array, Array, int, int]:
    """Return outputs and verdicts ``(2, n)`` of the model at rows and answers, and what it took."""
    outputs, reached = np.full((2, len(rows)), np.nan), np.zeros((2, len(rows)), dtype=bool)
    calls = asked = 0
    size = max(_ROWS_AT_ONCE // 2, 1)
    for start in range(0, len(rows), size):
        some = np.arange(start, min(start + size, len(rows)))
        known = some[~rows.failed[some]]
        answered = some[rows.answered[some]]
        x = np.vstack([rows.x0[known], rows.answers[answered]])
        if len(x) == 0:
            continue
        found = ask_models(model, rows.space, target, x, rows.x0[known][:100])
        if len(found.outputs) != 1:
            raise ValueError(
                f"review: new_model must be one model, today's, not {len(found.outputs)}: review each alone"
            )
        for line, where, part in ((0, known, slice(len(known))), (1, answered, slice(len(known), None))):
            outputs[line, where], reached[line, where] = found.outputs[0, part], found.reached[0, part]
        calls, asked = calls + found.n_calls, asked + found.n_rows
    return outputs, reached, calls, asked


def _judge(rows: AnsweredRows, now: Array, then: Array) -> list[ReviewKind]:
    """Return what has become of each row: ``now`` is whether the row reaches, ``then`` whether its answer does."""
    kinds = {  # the first that holds
        ReviewKind.FAILED: rows.failed,
        ReviewKind.KEPT: rows.already & now,
        ReviewKind.REFUSED: rows.already,
        ReviewKind.ACCEPTED: now,
        ReviewKind.NEVER: ~rows.answered,
        ReviewKind.SERVED: then,
        ReviewKind.LOST: np.ones(len(rows), dtype=bool),
    }
    order, holds = list(kinds), np.array(list(kinds.values()))
    return [order[i] for i in holds.argmax(axis=0)]


def _share_of(kinds: pd.Series) -> Share:
    served, n = int((kinds == ReviewKind.SERVED).sum()), int(kinds.isin([ReviewKind.SERVED, ReviewKind.LOST]).sum())
    return Share.of(served / n, n) if n else Share(float("nan"), float("nan"), float("nan"), 0)


def _share_line(kinds: pd.Series) -> dict[str, float]:
    share = _share_of(kinds)
    return {
        "rows": float(len(kinds)), "needed": float(share.n), "served": share.share, "low": share.low,
        "high": share.high, "notify": float(kinds.isin(_TO_NOTIFY).sum()),
    }  # fmt: skip
