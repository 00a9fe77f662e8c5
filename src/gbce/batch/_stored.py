"""The table of a store: what the explained rows have on disk, read when it is asked for and not kept."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gbce._validation import show
from gbce.base import Array, Rule, Target
from gbce.batch._columns import (
    ANSWER_COLUMNS,
    ANSWER_PREFIX,
    DIAGNOSTIC_COLUMNS,
    POSTERIOR_COLUMNS,
    ROW_PREFIX,
    encode_lines,
    facts_from,
)
from gbce.batch._store import PartitionError, Store
from gbce.batch._table import (
    ANSWER,
    EncodedRows,
    ExplanationTable,
    Record,
    RowFacts,
    failure_of,
    record_of,
    stack_records,
    table_of_answers,
)
from gbce.explanation import Explanation, Status
from gbce.files import FileError, read_target
from gbce.files import load as load_explanation
from gbce.space import Space

if TYPE_CHECKING:
    from gbce.plots import TablePlots

_SUMMED_UP = (*DIAGNOSTIC_COLUMNS, *ANSWER_COLUMNS, *POSTERIOR_COLUMNS)


class StoredTable:
    """The explained rows of a store on disk; each attribute reads what it needs, and nothing stays in memory.

    A store without draws has answers, diagnostics and rows. Decisions of other rules, importance and draws are only
    there if ``explain_many(..., keep="draws")`` kept them.

    Parameters
    ----------
    store : Store
        As :func:`gbce.load` opens it.
    n_model_calls, n_model_rows : int
        Effort of the run that returned the table; zero for one that was loaded.

    Examples
    --------
    >>> import gbce, os, tempfile
    >>> data = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 2)), columns=["a", "b"])
    >>> explainer = gbce.Explainer(lambda x: x["a"] + x["b"], data)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = explainer.explain_many(
    ...         data[:3], gbce.AtLeast(2), seed=0, posterior=False, progress=False, store=os.path.join(folder, "run")
    ...     )
    ...     again = gbce.load(os.path.join(folder, "run"))
    ...     len(again), again.answers["reached"].tolist(), again.diagnostics.equals(table.diagnostics)
    (3, [True, True, True], True)
    """

    def __init__(self, store: Store, n_model_calls: int = 0, n_model_rows: int = 0) -> None:
        self._store = store
        self.n_model_calls, self.n_model_rows = n_model_calls, n_model_rows

    @classmethod
    def open(cls, folder: str | Path) -> "StoredTable":
        """Open the store in a folder, as :func:`gbce.load` does."""
        return cls(Store.open(Path(folder)))

    # --- what it is ---------------------------------------------------------------------------------------------------

    @property
    def folder(self) -> Path:
        """The folder of the store."""
        return self._store.folder

    @property
    def space(self) -> Space:
        """The columns: what may change, how far and in which unit; functions of constraints are not kept."""
        return self._store.space

    @property
    def target(self) -> Target:
        """The target; one that is a function cannot judge outputs."""
        return read_target(self._store.run["target"])

    @property
    def complete(self) -> bool:
        """Whether all rows of the run are there."""
        return len(self) == self._store.run["n"]

    @property
    def has_draws(self) -> bool:
        """Whether the draws of the rows were kept."""
        return self._store.keep is not None

    def __len__(self) -> int:
        numbers, n = self._store.numbers(), self._store.run["n"]
        if numbers == list(range(-(-(n or 0) // self._store.size))):  # none is missing
            return int(n or 0)
        return sum(map(self._store.count, numbers))

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the labels of the rows."""
        for frame in self.frames(["label"]):
            yield from frame.index

    def __repr__(self) -> str:
        n, whole = len(self), self._store.run["n"]
        rows = f"{n:,} rows" if n == whole else f"{n:,} rows of {'a stream' if whole is None else f'{whole:,}'}"
        return f"<StoredTable: {rows} in {self.folder}; print(table.summary()) shows it>"

    # --- what is read -------------------------------------------------------------------------------------------------

    def frames(self, columns: list[str] | None = None) -> Iterator[pd.DataFrame]:
        """Yield the partitions in order as plain frames by label, with some ``columns`` or all.

        Examples
        --------
        How many rows have an answer, of a table of any size::

            sum((frame["kind"] != "").sum() for frame in table.frames(["kind"]))
        """
        for number in self._store.numbers():
            yield self._read(number, columns)

    def tables(self) -> Iterator[ExplanationTable]:
        """Yield the partitions in order as tables in memory, see :meth:`read`."""
        return map(self._table_of, self.frames())

    def frame(self, columns: list[str] | None = None) -> pd.DataFrame:
        """Return all rows as one plain frame by label, with some ``columns`` or all."""
        parts = list(self.frames(columns))
        if not parts:
            raise ValueError(
                f"the store {self.folder} has no finished rows yet: run explain_many with store= again to continue"
            )
        return pd.concat(parts)

    def _read(self, number: int, columns: list[str] | None) -> pd.DataFrame:
        """Return a partition by label."""
        wanted = None if columns is None else list(dict.fromkeys(["label", *columns]))
        try:
            frame = self._store.read(number, wanted)
        except PartitionError as error:
            raise FileError(
                f"{self._store.path(number)} is damaged: {error}; run explain_many with store= again to recompute it"
            ) from error
        labels = frame["label"]
        if self._store.run["labels"] == "int64":
            labels = labels.astype("int64")
        kept = frame if columns is None or "label" in columns else frame.drop(columns="label")
        return kept.set_axis(pd.Index(labels, name="row"), axis=0)

    @property
    def answers(self) -> pd.DataFrame:
        """The recommended answers by row, as in :class:`ExplanationTable`."""
        return self.frame(list(ANSWER_COLUMNS))

    @property
    def diagnostics(self) -> pd.DataFrame:
        """Status, quality of the sampling, notes, seed and error by row, as in :class:`ExplanationTable`."""
        return _add_alias(self.frame(list(DIAGNOSTIC_COLUMNS)))

    @property
    def distribution(self) -> pd.DataFrame:
        """The main figures of the posteriors by row, each with its error; NaN where none was drawn."""
        return self.read().distribution if self.has_draws else self.frame(list(POSTERIOR_COLUMNS))

    @property
    def errors(self) -> pd.Series:
        """Errors of the rows that could not be explained; empty if there are none."""
        found = self.frame(["status", "error"])
        return found.loc[found["status"] == Status.FAILED, "error"]

    @property
    def rows(self) -> pd.DataFrame:
        """The rows that were explained, in plain dtypes."""
        names = [name for name in self._store.run["schema"] if name.startswith(ROW_PREFIX)]
        return self.frame(names).rename(columns=lambda name: name.removeprefix(ROW_PREFIX))

    @property
    def counterfactuals(self) -> pd.DataFrame:
        """The decisions of all rules by row and rule; needs the draws."""
        return self._read_whole("counterfactuals").counterfactuals

    @property
    def pointwise(self) -> pd.DataFrame:
        """The figures of the decisions by row and rule; needs the draws."""
        return self._read_whole("pointwise").pointwise

    @property
    def importance(self) -> pd.DataFrame:
        """The importance by row and feature; needs the draws."""
        return self._read_whole("importance").importance

    def by_rule(self) -> pd.DataFrame:
        """Mean and standard deviation over rows of each rule's figures; needs the draws."""
        return self._read_whole("by_rule()").by_rule()

    def changes(self, rule: "Rule | str | None" = None) -> pd.DataFrame:
        """Return the changes in tidy form, as :meth:`ExplanationTable.changes`; without draws, those of the answers."""
        if not self.has_draws and rule in (None, ANSWER):
            parts = [table.changes(ANSWER) for table in self.tables()]
            return pd.concat(parts, ignore_index=True) if parts else self._read_whole("changes").changes()
        return self._read_whole(f"changes({'' if rule is None else show(rule)})").changes(rule)

    def __getitem__(self, label: Any) -> ExplanationTable:
        """Return the table of the row with a label, in memory; of all of them where it is not unique.

        Raises
        ------
        KeyError
            If there is no such row.
        """
        return self._table_of(self._find(label))

    def explanation(self, label: Any) -> Explanation:
        """Return the explanation of a row with its draws, of the first if the label is not unique; needs the draws."""
        self._require_draws("explanation(label)")
        own = self._find(label)
        return self._store.load_draws(
            int(own["position"].iloc[0]), encode_lines(own, ROW_PREFIX, self.space)[0], own["seed"].iloc[0]
        )

    def _find(self, label: Any) -> pd.DataFrame:
        """Return the plain lines of a label."""
        found = []
        for number in self._store.numbers():
            where = [one == label for one in self._read(number, ["seed"]).index]
            if any(where):
                found.append(self._read(number, None)[where])
        if not found:
            raise KeyError(f"there is no row {label!r} in the store {self.folder}")
        return pd.concat(found)

    # --- in memory ----------------------------------------------------------------------------------------------------

    def read(self) -> ExplanationTable:
        """Return all rows as a table in memory: with draws the same one as without a store, else answers alone."""
        return self._table_of(self.frame())

    def _read_whole(self, what: str) -> ExplanationTable:
        self._require_draws(what)
        return self.read()

    def _require_draws(self, what: str) -> None:
        if not self.has_draws:
            raise ValueError(
                f"{what} needs the draws, which this store does not keep: explain_many(..., keep='draws') keeps them, "
                "and without a store the table has them"
            )

    def _table_of(self, frame: pd.DataFrame) -> ExplanationTable:
        """Return plain lines as a table in memory."""
        x0 = encode_lines(frame, ROW_PREFIX, self.space)
        if self.has_draws:
            lines = zip(frame.to_dict("records"), x0, strict=True)
            records = [self._record_of(line, row) for line, row in lines]
            effort = (int(frame[name].sum()) for name in ("n_model_calls", "n_model_rows"))
            return stack_records(records, list(frame.index), *effort)
        target = self.target
        encoded = EncodedRows(
            self.space, x0, encode_lines(frame, ANSWER_PREFIX, self.space), (frame["kind"] != "").to_numpy(),
            np.zeros((0, len(self.space))), np.zeros(0, dtype=int), target.describe(),
        )  # fmt: skip
        facts = tuple(facts_from(frame, target, self._store.run["model"]))
        return self._answers_in(frame, encoded, facts)

    def _answers_in(
        self, frame: pd.DataFrame, encoded: EncodedRows | None = None, facts: tuple[RowFacts | None, ...] = ()
    ) -> ExplanationTable:
        parts = (frame[list(names)] for names in (ANSWER_COLUMNS, DIAGNOSTIC_COLUMNS, POSTERIOR_COLUMNS))
        answers, diagnostics, figures = parts
        return table_of_answers(self.space, answers, _add_alias(diagnostics), figures, encoded, facts)

    def _record_of(self, line: dict[str, Any], row: Array) -> Record:
        """Return the tables of a row from its draws; of one that failed, from its line."""
        if line["status"] == Status.FAILED:
            effort = line["n_model_calls"], line["n_model_rows"]
            return failure_of(line["error"], self.space, row, line["seed"], *effort)
        return record_of(self._store.load_draws(line["position"], row, line["seed"]))

    # --- what is made of it -------------------------------------------------------------------------------------------

    def summary(self) -> str:
        """Return a readable summary, see :meth:`ExplanationTable.summary`."""
        return self._answers_in(self.frame(list(_SUMMED_UP))).summary()

    @property
    def plot(self) -> "TablePlots":
        """Plots of the answers: ``table.plot.changes()``, ``table.plot.costs(groups)``."""
        return self.read().plot

    def to_html(self, path: str | Path | None = None, *, groups: Any = None, policies: Any = None) -> str | Path:
        """Return or write the page of all rows, see :meth:`ExplanationTable.to_html`; without draws, of the answers."""
        return self.read().to_html(path, groups=groups, policies=policies)

    def to_json(self, path: str | Path | None = None) -> str | Path:
        """Return all tables as strict JSON, or write it to a file, see :meth:`ExplanationTable.to_json`."""
        return self.read().to_json(path)

    def letters(self, reasons: Mapping[str, str], **options: Any) -> pd.DataFrame:
        """Return letters for mail merge, one line per row, see :meth:`ExplanationTable.letters`."""
        parts = [table.letters(reasons, **options) for table in self.tables()]
        return pd.concat(parts) if parts else self.read().letters(reasons, **options)


def _add_alias(diagnostics: pd.DataFrame) -> pd.DataFrame:
    """Return diagnostics with the alias of a column that a table in memory has."""
    place = diagnostics.columns.get_loc("posterior_note") + 1
    diagnostics = diagnostics.copy()
    diagnostics.insert(place, "verdict", diagnostics["sampling_note"])
    return diagnostics


def load(path: str | Path, *, max_bytes: int | None = None) -> Explanation | StoredTable:
    """Load an explanation from its file, or open the store of many rows in a folder.

    Parameters
    ----------
    path : str or Path
        A file that :meth:`gbce.Explanation.save` wrote, or a folder that ``explain_many(..., store=...)`` filled.
    max_bytes : int, optional
        Largest size of an explanation in memory; by default 500 MB, or ten times the size of the file if that is more.

    Returns
    -------
    Explanation or StoredTable
        An explanation identical to the last bit, but without models; or the table, which reads the folder when asked.

    Raises
    ------
    gbce.FileError
        If it is neither, is damaged, too large, or of another format; a ``ValueError``.
    OSError
        If the file does not exist or cannot be read.

    Examples
    --------
    >>> import gbce, numpy as np, os, tempfile
    >>> data = np.random.default_rng(0).normal(size=(50, 2))
    >>> explainer = gbce.Explainer(lambda x: x.sum(axis=1), data)
    >>> explanation = explainer.explain(data[0], gbce.AtLeast(2), rules=[gbce.MAP()], seed=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     again = gbce.load(explanation.save(os.path.join(folder, "row0.gbce")))
    >>> again.counterfactuals.equals(explanation.counterfactuals)
    True
    """
    if Path(path).is_dir():
        return StoredTable.open(path)
    return load_explanation(path, max_bytes=max_bytes)
