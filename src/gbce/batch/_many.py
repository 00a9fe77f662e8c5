"""Explain groups of rows within a budget; the rows of a group share their time and, if calls are paid for, the calls.

What is kept of a row is decided by a sink, and a run counts what all of them take.
"""

import os
import pickle
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, Protocol, TypeVar

import joblib
import numpy as np

from gbce._validation import is_count, show
from gbce.base import Array, Rule, Target
from gbce.batch._columns import Line, line_of, line_of_failure
from gbce.batch._question import fingerprint_run, rows_to_fingerprint
from gbce.batch._store import Keep, save_draws
from gbce.batch._table import Record, failure_of, record_of
from gbce.budget import (
    Budget,
    BudgetSpentError,
    budget_of,
    deadline_in,
    require_rows,
    require_seconds,
)
from gbce.explainer import Session
from gbce.explanation import Explanation
from gbce.predictors import Lockstep, Predictor
from gbce.space import Space

OnError = Literal["record", "raise"]

_MODELS_SHARE = 0.9  # of the total time, chosen by hand: the rest is for computing figures after the model calls
_ROWS_PER_GROUP = 16  # rows that share their time and paid model calls, and are lost if the process is killed; by hand
# the same for rows of a large store: a Parquet file of 16 rows is mostly its footer
_ROWS_PER_FILE, _MANY_ROWS = 64, 1_024
_MAX_GROUP_CELLS = 40_000_000  # numbers in the candidates of a group: 320 MB
_USUAL_CANDIDATES = 20_000  # of a sampler that does not declare their number

# --- budgets ---------------------------------------------------------------------------------------------------------


@dataclass
class Allowance:
    """Model rows and seconds for each row (less what the set-up took), and the running budget of all of them."""

    rows: int | None
    seconds: float | None
    whole: Budget

    @classmethod
    def of(cls, rows: Any, seconds: Any, total_rows: Any, total_seconds: Any) -> "Allowance":
        """Check the user's limits and start the clock."""
        budget_of(rows, seconds)
        require_rows(total_rows, "total_model_rows")
        require_seconds(total_seconds, "total_time")
        return cls(rows, seconds, budget_of(total_rows, total_seconds))

    def rows_for_each(self, n: int, setting_up: int) -> int | None:
        """Return the model rows for each of ``n`` rows, after those that ``setting_up`` takes.

        The result does not depend on finished rows or earlier model calls, so that runs are reproducible.
        """
        if self.whole.max_rows is None:
            return self.rows
        each = (self.whole.max_rows - setting_up) // max(n, 1)
        if each < 1:
            raise BudgetSpentError(
                f"total_model_rows = {self.whole.max_rows:,} leaves none for each of {n:,} rows after {setting_up:,} "
                "for the set-up: raise it, or explain fewer rows"
            )
        return each if self.rows is None else min(self.rows, each)

    @contextmanager
    def setting_up(self, n: int) -> Iterator[Budget]:
        """Yield the budget for the set-up of ``n`` rows; its time is deducted from theirs."""
        if self.seconds is None:
            yield self.whole
            return
        own = deadline_in(n * self.seconds)
        rows = None if self.whole.max_rows is None else self.whole.max_rows - self.whole.rows
        deadline = own if self.whole.deadline is None else min(own, self.whole.deadline)
        yield Budget(rows, deadline, paces=self.whole.paces)
        self.seconds = max(Budget(deadline=own).time_left / n, 0.0)

    def seconds_for_group(self, n: int, left: int, workers: int) -> float | None:
        """Return the seconds for a group of ``n`` rows, of ``left`` rows that remain for ``workers``."""
        own = None if self.seconds is None else n * self.seconds
        if self.whole.deadline is None:
            return own
        part = _MODELS_SHARE * self.whole.time_left * min(n * workers / left, 1.0)
        return part if own is None else min(own, part)


# --- a run over many rows --------------------------------------------------------------------------------------------

Member = tuple[int, Any, Array, int]  # position, label, row and seed


class Sink(Protocol):
    """What is kept of an explanation, so that the rest can be freed; it travels to the processes that explain."""

    def take(self, position: int, explanation: Explanation) -> Any:
        """Return what is kept of an explained row."""

    def take_failure(self, error: Exception, member: Member, n_calls: int, n_rows: int) -> Any:
        """Return what is kept of a row that could not be explained."""


@dataclass(frozen=True)
class InTables:
    """Keeps the tables of a row."""

    space: Space

    def take(self, position: int, explanation: Explanation) -> Record:
        """Return the tables of an explanation."""
        return record_of(explanation)

    def take_failure(self, error: Exception, member: Member, n_calls: int, n_rows: int) -> Record:
        """Return empty tables with the error."""
        _, _, row, seed = member
        return failure_of(error, self.space, row, seed, n_calls, n_rows)


@dataclass(frozen=True)
class InLines:
    """Keeps the plain columns of a row, and its draws in a file of the ``folder`` of a store if ``keep`` says so."""

    folder: Path | None = None
    keep: Keep = None
    digest: str = ""

    def take(self, position: int, explanation: Explanation) -> Line:
        """Return the line of an explanation, after its draws are on disk."""
        if self.folder is not None and self.keep is not None:
            save_draws(explanation, self.folder, position, self.keep, self.digest)
        return line_of(explanation)

    def take_failure(self, error: Exception, member: Member, n_calls: int, n_rows: int) -> Line:
        """Return the line of a failure."""
        return line_of_failure(error, member[-1], n_calls, n_rows)


class Todo(NamedTuple):
    """Rows that are explained together, with a key to find them by."""

    key: int
    members: Sequence[Member]


Done = tuple[dict[int, Any], int, int]  # what was kept by position, calls, rows


@dataclass
class Run:
    """What is asked of all rows, and the calls and model rows that it took so far."""

    session: Session
    target: Target
    rules: tuple[Rule, ...]
    allowance: Allowance
    on_error: OnError = "record"
    n_jobs: int | None = None
    calls: int = 0
    rows: int = 0

    def limit(self, n: int | None) -> int | None:
        """Return the model rows for each of ``n`` rows: with or without a store, as results must not depend on it."""
        if n is None:
            if self.allowance.whole.limited:
                raise ValueError(
                    "total_model_rows and total_time need the number of rows, which an iterator does not give: use "
                    "max_model_rows and time_budget, or give a frame or a Parquet data set"
                )
            return self.allowance.rows
        setting_up = self.session.rows_to_prepare(self.target) + rows_to_fingerprint(self.session)
        return self.allowance.rows_for_each(n, setting_up)

    def describe(self, n: int, limit: int | None) -> dict[str, Any]:
        """Return what decides the result, see :func:`fingerprint_run`."""
        session = self.session
        asked = [predictor.with_fresh_meter() for predictor in session.predictors]
        refits = [] if session.refits is None else [one.with_fresh_meter() for one in session.refits.predictors]
        with self.allowance.setting_up(n) as budget:
            question = fingerprint_run(session, asked, refits, self.target, self.rules, limit, budget)
        self._count([*asked, *refits])
        return question

    def set_up(self, n: int) -> None:
        """Evaluate the data and read the models once, here and not in every process, and resolve the target."""
        with self.allowance.setting_up(n) as budget:
            ready, self.target = self.session.prepare(self.target, budget)
            self.session.ask_about_data(ready, budget)
            self.session.read_models(ready, budget)
        self._count(ready)

    def explain(
        self, todos: Iterable[Todo], sink: Sink, limit: int | None, left: int | None
    ) -> Iterator[tuple[int, dict[int, Any]]]:
        """Explain groups in this process or in several; yield the key of each and what is kept, when it is done."""

        def tasks() -> Iterator[tuple[Any, ...]]:
            remaining = left or 0
            for key, members in todos:
                remaining = max(remaining, len(members))
                seconds = self.allowance.seconds_for_group(len(members), remaining, count_workers(self.n_jobs))
                yield key, members, self.target, self.rules, sink, (limit, seconds), self.on_error
                remaining -= len(members)

        timed = self.allowance.whole.deadline is not None
        for key, (done, calls, rows) in run_tasks(_explain_group, self.session, tasks(), self.n_jobs, timed=timed):
            self.calls, self.rows = self.calls + calls, self.rows + rows
            yield key, done

    def _count(self, predictors: Sequence[Predictor]) -> None:
        calls, rows = _count_asked(predictors)
        self.calls, self.rows = self.calls + calls, self.rows + rows


def _count_asked(predictors: Sequence[Predictor]) -> tuple[int, int]:
    """Return the calls and rows of predictors so far."""
    return sum(p.meter.calls for p in predictors), sum(p.meter.rows for p in predictors)


def _explain_group(
    session: Session,
    group: Sequence[Member],
    target: Target,
    rules: tuple[Rule, ...],
    sink: Sink,
    limits: tuple[int | None, float | None],
    on_error: OnError,
) -> Done:
    """Explain the rows of a group one after the other, or in lockstep if calls of a model are paid for."""
    max_rows, seconds = limits
    timed = Budget() if seconds is None else Budget(deadline=deadline_in(seconds))
    try:
        predictors, target = session.prepare(target, timed)
        refits = session.prepare_refits(target, timed)
    except BudgetSpentError as error:  # time was up before these rows were started
        if on_error == "raise":
            raise
        return {member[0]: sink.take_failure(error, member, 0, 0) for member in group}, 0, 0
    models = (*predictors, *refits)

    def explain(member: Member, asked: Sequence[Predictor], budget: Budget) -> tuple[int, Any]:
        position, label, row, seed = member
        own, again = tuple(asked[: len(predictors)]), tuple(asked[len(predictors) :])
        try:
            explanation = session.explain_encoded(row, own, target, rules, seed, budget, again)
        except Exception as error:
            if on_error == "raise":
                raise _name_row_in(error, label) from error.__cause__ or error
            return position, sink.take_failure(error, member, *_count_asked(asked))
        return position, sink.take(position, explanation)

    if any(predictor.cost_per_call for predictor in models):
        return _explain_in_step(explain, group, models, max_rows, timed)
    done, calls, rows = {}, 0, 0
    for number, member in enumerate(group):
        asked = [predictor.with_fresh_meter() for predictor in models]
        position, kept = explain(member, asked, _share_time(timed, len(group) - number, max_rows))
        n_calls, n_rows = _count_asked(asked)
        done[position], calls, rows = kept, calls + n_calls, rows + n_rows
    return done, calls, rows


def _share_time(timed: Budget, left: int, max_rows: int | None) -> Budget:
    """Return the budget of the next of ``left`` rows: the seconds of all of them, in equal shares."""
    if timed.deadline is None:
        return Budget(max_rows)
    return Budget(max_rows, timed.share(1.0 / left).deadline, whole=timed, paces=timed.paces)


def _explain_in_step(
    explain: Callable[[Member, Sequence[Predictor], Budget], tuple[int, Any]],
    group: Sequence[Member],
    models: Sequence[Predictor],
    max_rows: int | None,
    timed: Budget,
) -> Done:
    """Explain the rows of a group together, with merged model calls."""
    step = Lockstep(min(predictor.batch_rows for predictor in models), timed)

    def task(member: Member) -> Callable[[int], tuple[int, Any]]:
        def run(number: int) -> tuple[int, Any]:
            shared = [step.share(predictor, number) for predictor in models]
            return explain(member, shared, Budget(max_rows, timed.deadline))

        return run

    done = step.run([task(member) for member in group])
    return dict(done), step.n_calls, step.n_rows


def _name_row_in(error: Exception, label: Any) -> Exception:
    """Return an error of the same class that names its row."""
    try:
        return type(error)(f"row {show(label)}: {error}")
    except Exception:  # a class that takes other arguments
        return RuntimeError(f"row {show(label)}: {type(error).__name__}: {error}")


def choose_group_size(session: Session, n: int | None = None, *, stored: bool = False) -> int:
    """Return the number of rows per group such that the candidates fit in memory; larger for files of many rows."""
    declared: Any = getattr(session.sampler, "n_candidates", None)  # may be anything in a user's own sampler
    candidates = int(declared) if is_count(declared) else _USUAL_CANDIDATES
    usual = _ROWS_PER_FILE if stored and (n is None or n >= _MANY_ROWS) else _ROWS_PER_GROUP
    return max(1, min(usual, _MAX_GROUP_CELLS // (candidates * len(session.space))))


# --- processes ---------------------------------------------------------------------------------------------------


T = TypeVar("T")
Task = tuple[Any, ...]  # a key, and the arguments

_POLL_INTERVAL = 0.5  # seconds, by hand: how long a worker may outlive its parent process


@dataclass(frozen=True)
class Packed(Generic[T]):
    """A pickled object with the digest of its bytes; each process unpacks it once and keeps what it learns of models.

    ``packed`` is an array of bytes because joblib sends large arrays once, and not with every group.
    """

    digest: str
    packed: Array

    @classmethod
    def of(cls, thing: T) -> "Packed[T]":
        """Pickle an object; functions and classes that cannot be imported elsewhere travel by value."""
        packed = pickle.dumps(joblib.wrap_non_picklable_objects(thing, keep_wrapper=False))
        return cls(sha256(packed).hexdigest(), np.frombuffer(packed, dtype=np.uint8))

    def unpack(self) -> T:
        """Return the object, the same one whenever this process unpacks it again before another one."""
        found = _unpacked.get(self.digest)
        if found is None:
            found = pickle.loads(self.packed.tobytes())
            _unpacked.clear()
            _unpacked[self.digest] = found
        return found

    def __dask_tokenize__(self) -> str:
        return self.digest


_unpacked: dict[str, Any] = {}  # in a worker process: what it last unpacked
_watched: set[int] = set()  # in a worker process: its parent


def count_workers(n_jobs: int | None) -> int:
    """Return how many processes, or threads, joblib uses for ``n_jobs``."""
    return int(joblib.effective_n_jobs(n_jobs or 1))


def run_tasks(
    function: Callable[..., T], shared: Any, tasks: Iterator[Task], n_jobs: int | None, *, timed: bool
) -> Iterator[tuple[Any, T]]:
    """Yield the key and the result of ``function(shared, *arguments)`` for each task, in the order they finish.

    ``timed`` tasks are made one by one when a process is free for them. If a process is killed, the tasks that were
    under way are sent again, each once.
    """
    if count_workers(n_jobs) == 1:
        for key, *arguments in tasks:
            yield key, function(shared, *arguments)
        return
    packed, parent = Packed.of(shared), os.getpid()
    under_way: dict[Any, Task] = {}
    again: set[Any] = set()
    failed: list[Exception] = []

    def sent(waiting: Iterable[Task]) -> Iterator[Any]:
        try:
            for key, *arguments in waiting:
                under_way[key] = (key, *arguments)
                yield joblib.delayed(_run_packed)(function, packed, parent, key, arguments)
        except Exception as error:  # joblib takes tasks in a thread of its own, which must not end by an error
            failed.append(error)

    waiting: Iterable[Task] = tasks
    while True:
        try:
            for key, result in _open_pool(n_jobs, timed)(sent(waiting)):
                del under_way[key]
                yield key, result
            if failed:
                raise failed[0]
            return
        except _killed() as error:
            lost = [key for key in under_way if key in again]
            if lost:
                raise RuntimeError(
                    f"a worker process was killed while it explained group {lost[0]}, and again in another "
                    "one; the usual reason is too little memory: use a smaller n_jobs. Rows in a store are kept."
                ) from error
            again |= under_way.keys()
            warnings.warn(
                f"a worker process was killed; {len(under_way)} groups that were under way are sent again", stacklevel=2
            )
            waiting = chain(list(under_way.values()), tasks)


def _killed() -> tuple[type[BaseException], ...]:
    """Return the errors by which a pool reports the death of a worker."""
    from joblib.externals.loky.process_executor import BrokenProcessPool

    return (BrokenProcessPool,)


def _open_pool(n_jobs: int | None, timed: bool) -> joblib.Parallel:
    """Return a pool of joblib's backend that yields results as they finish, or all at the end where it cannot."""
    options: dict[str, Any] = {"n_jobs": n_jobs, "batch_size": 1}
    if timed:
        options["pre_dispatch"] = "n_jobs"
    backend, _ = joblib.parallel.get_active_backend()
    if isinstance(backend, joblib.parallel.LokyBackend):
        options |= {"initializer": _watch_parent, "initargs": (os.getpid(),)}
    if backend.supports_return_generator:
        options["return_as"] = "generator_unordered"
    return joblib.Parallel(**options)


def _watch_parent(parent: int) -> None:
    """Start a thread, once, that ends this worker process soon after its parent; not in a thread of the parent."""
    if os.getppid() == parent and parent not in _watched:
        _watched.add(parent)
        threading.Thread(target=_exit_after, args=(parent,), daemon=True).start()


def _exit_after(parent: int) -> None:
    """Exit when the parent process is gone: finished rows are in the store, unfinished files are cleared later."""
    while os.getppid() == parent:
        time.sleep(_POLL_INTERVAL)
    os._exit(1)


def _run_packed(
    function: Callable[..., T], packed: Packed[Any], parent: int, key: Any, arguments: list[Any]
) -> tuple[Any, T]:
    _watch_parent(parent)
    return key, function(packed.unpack(), *arguments)
