"""Read the answers of many rows from a table or stored lines as encoded arrays, ask models, and write results.

Everything in this room starts from these arrays, so that it does not matter whether the rows were explained in this
process or are lines of a data set that another one wrote.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from gbce._validation import show
from gbce.base import Array, Target
from gbce.batch import ANSWER_PREFIX, ROW_PREFIX, ExplanationTable, StoredTable, encode_lines, label_groups
from gbce.budget import budget_of
from gbce.explainer import Explainer
from gbce.explanation import AnswerKind, Status
from gbce.files import to_json
from gbce.predictors import Panel
from gbce.space import Space
from gbce.stress import OtherModels
from gbce.targets import Change


class PolicyResult:
    """A result as plain data, which ``print`` shows as sentences."""

    @property
    def sentences(self) -> list[str]:
        """What was found, in sentences."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data: strings, finite numbers, booleans, None, lists and mappings."""
        raise NotImplementedError

    def __str__(self) -> str:
        return "\n".join(self.sentences)

    def to_json(self, path: str | Path | None = None) -> str | Path:
        """Return :meth:`to_dict` as strict JSON, or write it to ``path`` atomically and return the path."""
        return to_json(self.to_dict(), path)

    def save(self, path: str | Path) -> Path:
        """Write the result to ``path`` atomically, for :func:`gbce.policy.load`, and return the path."""
        from gbce.policy._files import save_result  # imports the classes of results, hence not at the top

        return save_result(self, path)


_BY_ROW = ("labels", "x0", "answers", "answered", "already", "failed", "reliable", "reliability", "cost", "words")

_WORDS = "changes"
_STORED = ("status", "kind", _WORDS, "reached", "cost", "reliability", "reliability_low", "reliability_high")


@dataclass(frozen=True, eq=False)
class AnsweredRows:
    """The rows of a table and their answers, as plain arrays.

    Parameters
    ----------
    space : Space
        The features.
    labels : Index of n
        The labels of the rows.
    x0, answers : ndarray of shape (n, d)
        The rows and their answers; the row itself where there is none, and NaN for a row that does not fit the space.
    answered : ndarray of shape (n,)
        Whether a row has an answer that reaches the target.
    already : ndarray of shape (n,)
        Whether the row reaches the target as it is.
    failed : ndarray of shape (n,)
        Whether the row could not be explained.
    reliable : ndarray of shape (n,)
        Whether the answer keeps its policy's promise.
    reliability : ndarray of shape (n, 3)
        Of each answer, with the ends of its 95% interval; NaN where it is not known.
    cost : ndarray of shape (n,)
        Of each answer, in units of each feature's scale; NaN without one.
    words : ndarray of shape (n,)
        The changes of each answer, as a sentence's part; empty without one.
    target : Target, optional
        What the rows were explained for; None where rows have different ones or lines do not tell.
    """

    space: Space
    labels: pd.Index
    x0: Array
    answers: Array
    answered: Array
    already: Array
    failed: Array
    reliable: Array
    reliability: Array
    cost: Array
    words: Array
    target: Target | None = None

    def __len__(self) -> int:
        return len(self.x0)

    def take(self, where: Array) -> "AnsweredRows":
        """Return the rows at some positions, or where a mask holds."""
        return replace(self, **{name: getattr(self, name)[where] for name in _BY_ROW})


def read_answers(table: Any, explainer: Explainer | None = None) -> AnsweredRows:
    """Read the answers of many rows.

    Parameters
    ----------
    table : ExplanationTable, StoredTable, DataFrame or AnsweredRows
        From ``explain_many``; of a store; read already; or stored lines: the columns of
        :func:`gbce.distributed.schema` with ``row_<column>`` for each column of the data, and the row's ``label`` if it
        has one.
    explainer : Explainer, optional
        Whose space stored lines are encoded with; a table in memory has its own.

    Examples
    --------
    >>> import gbce
    >>> data = np.random.default_rng(0).normal(size=(60, 2))
    >>> explainer = gbce.Explainer(lambda x: x.sum(axis=1), data)
    >>> table = explainer.explain_many(data[:3], gbce.AtLeast(2), seed=0, progress=False, posterior=False)
    >>> rows = read_answers(table)
    >>> rows.x0.shape, rows.answered.tolist(), rows.target.describe()
    ((3, 2), [True, True, True], 'at least 2')
    """
    return read_whole(table, explainer)


def read_whole(table: Any, explainer: Explainer | None, *, words: bool = True) -> AnsweredRows:
    """Return all parts of :func:`read_parts` as one."""
    parts = list(read_parts(table, explainer, words=words))
    if not parts:
        raise ValueError(
            f"the store {table.folder} has no finished rows yet: run explain_many with store= again to continue"
        )
    if len(parts) == 1:
        return parts[0]
    joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _BY_ROW if name != "labels"}
    labels = parts[0].labels.append([part.labels for part in parts[1:]])
    return AnsweredRows(parts[0].space, labels, **joined, target=parts[0].target)


def read_parts(table: Any, explainer: Explainer | None = None, *, words: bool = True) -> Iterator[AnsweredRows]:
    """Yield the answers of a store part by part, so that memory does not grow with it, and those of others at once.

    Without ``words``, those of a store are left on disk.
    """
    if explainer is not None and not isinstance(explainer, Explainer):
        raise TypeError(f"explainer must be the gbce.Explainer that explained the rows, not {show(explainer)}")
    for rows in _list_parts(table, explainer, words):
        if explainer is not None and explainer.space.names != rows.space.names:
            raise ValueError(
                f"explainer has the columns {list(explainer.space.names)}, but the table has "
                f"{list(rows.space.names)}: give the one that explained the rows"
            )
        yield rows


def _list_parts(table: Any, explainer: Explainer | None, words: bool) -> Iterator[AnsweredRows]:
    if isinstance(table, AnsweredRows):
        yield table
    elif isinstance(table, ExplanationTable):
        yield _read_table(table)
    elif isinstance(table, StoredTable):
        space = table.space if explainer is None else explainer.space
        # a target relative to each row's output is another one for each row
        target = None if isinstance(table.target, Change) else table.target
        columns = [name for name in _list_columns(space) if words or name != _WORDS]
        for frame in table.frames(columns):  # by label
            lines = frame if words else frame.assign(**{_WORDS: ""})
            yield replace(_encode_lines(lines, space), target=target)
    elif isinstance(table, pd.DataFrame):
        if explainer is None:
            raise ValueError("stored lines do not hold the features: give explainer=, the one that explained the rows")
        yield _encode_lines(table, explainer.space)
    else:
        raise TypeError(
            "table must be an ExplanationTable from explain_many, a table of a store from gbce.load or a DataFrame of "
            f"its lines, not {show(table)}"
        )


def _read_table(table: ExplanationTable) -> AnsweredRows:
    known = table.require_encoded("a policy")
    if not table.has_answers and len(table) > len(table.errors):
        raise ValueError("no row of the table has an answer: explain the rows with rules and with a policy")
    lines, status = table.answers, table.diagnostics["status"].to_numpy()
    targets = {fact.target for fact in table.facts if fact is not None}
    return AnsweredRows(
        known.space, lines.index, known.x0, known.answers, known.answered & lines["reached"].to_numpy(dtype=bool),
        status == Status.ALREADY_REACHED, status == Status.FAILED, (lines["kind"] == AnswerKind.RELIABLE).to_numpy(),
        _reliability_of(lines),
        lines["cost"].to_numpy(dtype=float), lines["changes"].to_numpy(dtype=object),
        targets.pop() if len(targets) == 1 else None,
    )  # fmt: skip


def _reliability_of(lines: pd.DataFrame) -> Array:
    return lines[["reliability", "reliability_low", "reliability_high"]].to_numpy(dtype=float)


def _list_columns(space: Space) -> list[str]:
    """Return the columns that are read of stored lines."""
    columns = list(space.frame(np.zeros((0, len(space)))).columns)
    return [*_STORED, *(f"{prefix}{name}" for prefix in (ROW_PREFIX, ANSWER_PREFIX) for name in columns)]


def _encode_lines(lines: pd.DataFrame, space: Space) -> AnsweredRows:
    """Encode stored lines; rows that could not be explained and do not fit the space have NaN."""
    missing = [name for name in _list_columns(space) if name not in lines.columns]
    if missing:
        raise ValueError(
            f"the lines have no column {show(missing[0])}: read a whole data set of explain_many, rows included"
        )
    failed = (lines["status"] == Status.FAILED).to_numpy()
    x0, answers = (encode_lines(lines, prefix, space) for prefix in (ROW_PREFIX, ANSWER_PREFIX))
    kind = lines["kind"].to_numpy(dtype=object)
    labels = pd.Index(lines["label"] if "label" in lines.columns else lines.index, name="row")
    return AnsweredRows(
        space, labels, x0, answers, lines["reached"].to_numpy(dtype=bool) & (kind != ""),
        kind == str(AnswerKind.NOTHING), failed, kind == str(AnswerKind.RELIABLE),
        _reliability_of(lines), lines["cost"].to_numpy(dtype=float), lines["changes"].to_numpy(dtype=object),
    )  # fmt: skip


def read_groups(groups: Any, rows: AnsweredRows) -> Array:
    """Return the group of each row, or its value of a column; missing ones are a group of their own."""
    if not isinstance(groups, str):
        return np.asarray(label_groups(groups, rows.labels).to_numpy())
    space = rows.space
    if groups not in space.position:
        raise ValueError(f"groups: there is no column {groups!r}; the columns are {list(space.names)}")
    return read_groups(space.readable(rows.x0)[groups].to_numpy(dtype=object), rows)


class Verdicts(NamedTuple):
    """What models return for points: outputs and whether they reach the target ``(K, n)``, and what it took."""

    outputs: Array
    reached: Array
    n_calls: int
    n_rows: int


def ask_models(models: Any, space: Space, target: Target, x: Array, data: Array) -> Verdicts:
    """Evaluate points ``(n, d)`` by models; ``data`` ``(m, d)`` are rows on which classifiers are compared."""
    budget = budget_of(None, None)
    predictors = OtherModels.of(models, space, data).prepare(target, budget)
    outputs, reached = [], []
    for predictor in predictors:
        read = target.read(Panel((predictor,), budget, use_predict=True).ask(x)[0])
        outputs.append(np.asarray(read.output, dtype=float))
        reached.append(np.asarray(read.reached, dtype=bool))
    calls, rows = (sum(getattr(one.meter, name) for one in predictors) for name in ("calls", "rows"))
    return Verdicts(np.array(outputs), np.array(reached), calls, rows)
