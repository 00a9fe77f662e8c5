"""Explain many rows: into tables in memory, into a store on disk that a later run continues, or as one plain frame."""

import warnings
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gbce._numerics import seed_numbers
from gbce._validation import show
from gbce.base import Rule, Target
from gbce.batch._columns import Line, cast, frame_of, line_of_failure, require_kept, schema_of
from gbce.batch._many import Allowance, InLines, InTables, Member, OnError, Run, Todo, choose_group_size
from gbce.batch._rows import Group, Rows
from gbce.batch._store import Keep, PartitionError, Store
from gbce.batch._stored import StoredTable
from gbce.batch._table import ExplanationTable, failure_of, stack_records
from gbce.budget import progress_bar
from gbce.explainer import Progress, Session, is_shown
from gbce.explanation import Status

_LARGEST_SEED = 2**63 - 1  # of an int64 column


def explain_many(
    session: Session,
    rows: Any,
    target: Target | Any,
    *,
    rules: Sequence[Rule | str] | Rule | str | None,
    seed: Any,
    n_jobs: int | None,
    progress: Progress,
    store: Any,
    max_model_rows: int | None = None,
    time_budget: float | None = None,
    total_model_rows: int | None = None,
    total_time: float | None = None,
    on_error: OnError = "record",
    keep: Keep = None,
) -> ExplanationTable | StoredTable:
    """Explain every row; see :meth:`gbce.Explainer.explain_many`."""
    if keep not in (None, "draws", "pool"):
        raise ValueError(f"keep must be 'draws', 'pool' or None, not {keep!r}")
    if keep is not None and store is None:
        raise ValueError("keep applies to the files of a store: pass store=, or leave keep out")
    if on_error not in ("record", "raise"):
        raise ValueError(f"on_error must be 'record' or 'raise', not {on_error!r}")
    listed, target = session.listed_rules(rules), session.listed_target(target)
    allowance = Allowance.of(max_model_rows, time_budget, total_model_rows, total_time)
    run = Run(session, target, listed, allowance, on_error, n_jobs)
    source = Rows.of(rows, session.space)
    if store is None:
        table: Any = _explain_in_memory(run, source, seed, is_shown(progress))
        failed, message = len(table.errors), table.error_sentence() if len(table.errors) else ""
    else:
        with Store.locked(store) as folder:
            filling = _Filling.begin(folder, run, source, seed, {"time_budget": time_budget, "keep": keep})
            table = filling.fill(is_shown(progress))
        failed, message = filling.n_failed, f"{filling.n_failed} of {len(table)} rows {filling.first_error}"
    if failed:
        warnings.warn(f"{message}; table.errors has them all", stacklevel=4)
    return table


def _explain_in_memory(run: Run, source: Rows, seed: Any, shown: bool) -> ExplanationTable:
    """Explain rows and keep the tables of all of them."""
    whole = source.whole()
    unknown = [i for i in whole.errors if np.isnan(whole.x[i]).all()]  # tables in memory hold encoded rows
    if unknown or run.on_error == "raise":
        _raise_first(whole, unknown)
    n, space = len(whole), run.session.space
    seeds, limit = seed_numbers(seed, n), run.limit(n)
    records = {i: failure_of(error, space, whole.x[i], seeds[i], 0, 0) for i, error in whole.errors.items()}
    members = [(i, whole.labels[i], whole.x[i], seeds[i]) for i in np.flatnonzero(whole.fits).tolist()]
    if members:
        run.set_up(n)
    # groups do not depend on n_jobs, so that results are reproducible
    size = choose_group_size(run.session)
    todos = [Todo(i, members[i : i + size]) for i in range(0, len(members), size)]
    with _bar(len(members), shown) as bar:
        for _, done in run.explain(todos, InTables(space), limit, len(members)):
            records |= done
            bar.update(len(done))
    return stack_records([records[i] for i in range(n)], whole.labels, run.calls, run.rows)


def _raise_first(group: Group, among: Sequence[int] = ()) -> None:
    """Raise for the first row that does not fit."""
    if group.errors:
        i = min(among or group.errors)
        raise ValueError(f"row {show(group.labels[i])}: {group.errors[i].removeprefix('ValueError: row: ')}")


def _bar(n: int | None, shown: bool) -> Any:
    """Return a progress bar with the rate and the time left."""
    return progress_bar(total=n, desc="explaining", unit="row", disable=not shown)


def _skip(bar: Any, n: int) -> None:
    """Advance a progress bar by rows that were there, which say nothing of the rate."""
    if not bar.disable:
        bar.initial += n
        bar.update(n)


# --- a store ---------------------------------------------------------------------------------------------------------


class _Filling:
    """Fills a store with the partitions that it lacks."""

    def __init__(self, run: Run, store: Store, source: Rows, limit: int | None, is_set_up: bool) -> None:
        self.run, self.store, self.source, self.limit, self.is_set_up = run, store, source, limit, is_set_up
        self.n_failed, self.first_error = 0, ""
        self._n = 0  # rows so far
        self._started: dict[int, tuple[Group, pd.DataFrame | None]] = {}  # with the rows that are kept

    @classmethod
    def begin(cls, folder: Path, run: Run, source: Rows, seed: Any, options: dict[str, Any]) -> "_Filling":
        """Begin the run in a folder, or continue it there if it is the same; raise if the folder has another."""
        first, source = source.peek()
        require_kept(run.session.space, first.x[first.fits])
        n, limit = source.n, run.limit(source.n)
        known: dict[str, Any] = {
            "rows": first.digest if n == len(first) else None,
            "n": n,
            "seed": None if seed is None else _as_seeds(seed, n),
        }
        question = run.describe(n or len(first), limit) | options
        is_new = not Store.is_begun(folder)
        if is_new:
            run.set_up(n or len(first))
            known["seed"] = _as_seeds(_draw_seeds(n), n) if seed is None else known["seed"]
        size = choose_group_size(run.session, n, stored=True)
        store = Store.begin(
            folder, question, known, run.session.space, run.target, run.session.predictors[0].name, size, first.labels
        )
        return cls(run, store, source, limit, is_new)

    def fill(self, shown: bool) -> StoredTable:
        """Explain the rows that are missing, write each partition when it is done, and return the whole."""
        run, store = self.run, self.store
        with _bar(self.source.n, shown) as bar:
            gaps = self._find_gaps(bar)
            first = next(gaps, None)
            if first is not None and not self.is_set_up:
                run.set_up(self.source.n or len(first.members))
            sink = InLines(store.folder, store.keep, store.run["digest"])
            for number, done in run.explain(
                chain(() if first is None else [first], gaps), sink, self.limit, self.source.n
            ):
                self._write(number, done)
                bar.update(len(done))
        beyond = [number for number in store.numbers() if number * store.size >= self._n]
        if beyond or store.run["n"] not in (None, self._n):
            raise ValueError(
                f"folder {str(store.folder)!r} holds results of a different run (rows changed: there were more than "
                f"the {self._n} given now). Use another folder, or delete this one."
            )
        return StoredTable(store.finish(self._n), run.calls, run.rows)

    def _find_gaps(self, bar: Any) -> Iterator[Todo]:
        """Yield the rows of each partition that are not in the store, failed or lack their draws."""
        for number, group in enumerate(self.source.groups(self.store.size)):
            if self.run.on_error == "raise":
                _raise_first(group)
            self.store.require_labels(group.labels)
            require_kept(self.store.space, group.x[group.fits])
            self._n += len(group)
            before = self._read(number, group)
            missing = group.fits
            if before is not None:
                failed = (before["status"] == Status.FAILED).to_numpy()
                lacking = [self.store.lacks_draws(group.start + i) for i in range(len(group))]
                missing &= failed | np.array(lacking, dtype=bool)
            todo = np.flatnonzero(missing).tolist()
            _skip(bar, len(group) - len(todo))
            if todo or before is None:
                self._started[number] = group, None if before is None else before[~missing]
            if todo:
                seeds = self.store.seeds(group.start, len(group))
                members: list[Member] = [(group.start + i, group.labels[i], group.x[i], seeds[i]) for i in todo]
                yield Todo(number, members)
            elif before is None:
                self._write(number, {})

    def _read(self, number: int, group: Group) -> pd.DataFrame | None:
        """Return a partition that is whole; None if there is none, or a damaged one."""
        try:
            return self.store.find(number, group.start, len(group), group.digest)
        except PartitionError as error:
            warnings.warn(f"{self.store.path(number)} is damaged and computed again: {error}", stacklevel=2)
            return None

    def _write(self, number: int, done: dict[int, Line]) -> None:
        """Write a partition: the rows that are done, those that do not fit, and those that were there before."""
        group, before = self._started.pop(number)
        kept = set() if before is None else set(before["position"])
        lines = dict(done)
        for i, error in group.errors.items():
            if group.start + i not in kept:
                lines[group.start + i] = line_of_failure(error, self.store.seeds(group.start + i, 1)[0])
        where = np.array(sorted(lines), dtype=int)
        at = where - group.start
        frame = frame_of([lines[i] for i in where], group.x[at], group.fits[at], self.store.space)
        frame.insert(0, "position", where)
        frame.insert(1, "label", [str(group.labels[i]) for i in at])
        columns = self.store.run["schema"]
        parts = [cast(frame, columns), *([] if before is None else [before])]
        whole = pd.concat([part for part in parts if len(part)]).sort_values("position", ignore_index=True)
        self.store.write(number, whole, group.digest)
        failed = np.flatnonzero((whole["status"] == Status.FAILED).to_numpy())
        self.n_failed += len(failed)
        if len(failed) and not self.first_error:
            line = whole.iloc[failed[0]]
            label = group.labels[int(line["position"]) - group.start]
            self.first_error = f"could not be explained, first row {show(label)}: {line['error']}"


def _draw_seeds(n: int | None) -> list[int] | int:
    """Return new seeds of ``n`` rows, each its own; one for all of a stream."""
    drawn = np.random.SeedSequence().generate_state(n or 1, np.uint64) >> np.uint64(1)
    return int(drawn[0]) if n is None else drawn.tolist()


def _as_seeds(seed: Any, n: int | None) -> int | list[int]:
    """Return the seeds of ``n`` rows: one number if they are equal."""
    if n is None and isinstance(seed, (list, tuple, np.ndarray)):
        raise ValueError("seed: give one seed for an iterator; each of its rows still gets its own random numbers")
    seeds = seed_numbers(seed, n or 1)
    if max(seeds) > _LARGEST_SEED:
        raise ValueError(f"seed: a store holds seeds up to {_LARGEST_SEED}, not {max(seeds)}")
    return seeds[0] if len(set(seeds)) == 1 else seeds


# --- one part of a table ---------------------------------------------------------------------------------------------


def explain_part(
    session: Session,
    group: Group,
    target: Target | Any,
    rules: Any,
    seeds: Sequence[int],
    max_model_rows: int | None,
    total_time: float | None,
) -> pd.DataFrame:
    """Return the rows of a group in the columns of :func:`schema_of`, see ``gbce.distributed.explain_partition``."""
    allowance = Allowance.of(max_model_rows, None, None, total_time)
    run = Run(session, session.listed_target(target), session.listed_rules(rules), allowance)
    lines = {i: line_of_failure(error, seeds[i]) for i, error in group.errors.items()}
    fits = np.flatnonzero(group.fits).tolist()
    if fits:
        run.set_up(len(fits))
        members = [(i, group.labels[i], group.x[i], seeds[i]) for i in fits]
        size = choose_group_size(session)
        todos = [Todo(i, members[i : i + size]) for i in range(0, len(members), size)]
        for _, done in run.explain(todos, InLines(), max_model_rows, len(fits)):
            lines |= done
    frame = frame_of([lines[i] for i in range(len(group))], group.x, group.fits, session.space)
    return frame[list(schema_of(session.space))]
