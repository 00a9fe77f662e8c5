"""Explain many rows within a budget, in groups that share their time and, if calls are paid for, model calls.

Groups run in parallel; finished rows can be kept in a store, from which a later run continues.
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
from typing import Any, Generic, Literal, TypeVar

import joblib
import numpy as np
import pandas as pd

from gbce._numerics import seed_numbers
from gbce._validation import is_count, show
from gbce.base import Array, Rule, Target
from gbce.batch._store import Store, describe_run, rows_to_describe
from gbce.batch._table import ExplanationTable, Record, failure_of, record_of, stack_records
from gbce.budget import (
    Budget,
    BudgetSpentError,
    budget_of,
    deadline_in,
    progress_bar,
    require_rows,
    require_seconds,
)
from gbce.explainer import Progress, Session, is_shown
from gbce.predictors import Lockstep, Predictor

__all__ = ["Allowance", "OnError", "Packed", "explain_many"]

OnError = Literal["record", "raise"]
T = TypeVar("T")

_MODELS_SHARE = 0.9  # of the total time, chosen by hand: the rest is for computing figures after the model calls
_ROWS_PER_GROUP = 16  # rows that share their time and paid model calls, and are lost if the process is killed; by hand
_MAX_GROUP_CELLS = 40_000_000  # numbers in the candidates of a group: 320 MB
_POLL_INTERVAL = 0.5  # seconds, by hand: how long a worker may outlive its parent process
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


# --- many rows -------------------------------------------------------------------------------------------------------


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
    keep_pool: bool = False,
) -> ExplanationTable:
    """Explain every row; see :meth:`gbce.Explainer.explain_many`."""
    if not isinstance(keep_pool, bool):
        raise TypeError(f"keep_pool must be True or False, not {keep_pool!r}")
    if keep_pool and store is None:
        raise ValueError("keep_pool applies to the files of a store: pass store=, or leave keep_pool out")
    if on_error not in ("record", "raise"):
        raise ValueError(f"on_error must be 'record' or 'raise', not {on_error!r}")
    listed, target = session.listed_rules(rules), session.listed_target(target)
    allowance = Allowance.of(max_model_rows, time_budget, total_model_rows, total_time)
    x = session.space.encode(rows)
    labels = list(rows.index) if isinstance(rows, pd.DataFrame) else list(range(len(x)))
    for label, row in zip(labels, x, strict=True):
        session.space.require_inside(row, f"row {label!r}")
    # with or without a store, so that results do not depend on it
    max_model_rows = allowance.rows_for_each(len(x), session.rows_to_prepare(target) + rows_to_describe(session))
    kept, calls, rows_asked = None, 0, 0
    if store is not None:
        asked = [predictor.with_fresh_meter() for predictor in session.predictors]
        refits = [] if session.refits is None else [one.with_fresh_meter() for one in session.refits.predictors]
        with allowance.setting_up(len(x)) as budget:
            run = describe_run(session, asked, refits, x, target, listed, max_model_rows, budget)
        run["time_budget"] = time_budget
        kept = Store.open(store, run, None if seed is None else seed_numbers(seed, len(x)), len(x), keep_pool)
        calls, rows_asked = _count_asked([*asked, *refits])
    seeds = seed_numbers(seed, len(x)) if kept is None else kept.seeds
    records: dict[int, Record] = {}
    n_without = 0
    bar = progress_bar(total=len(x), desc="explaining", unit="row", disable=not is_shown(progress))
    with bar:
        for position in range(len(x)):
            if kept is not None and kept.has(position):
                found = kept.load(position, x[position], seeds[position])
                records[position] = record_of(found)
                n_without += found.draws.record is not None
                bar.update()
        # groups depend neither on finished rows nor on n_jobs, so that results are reproducible
        size = _choose_group_size(session, x.shape[1])
        groups = [list(range(start, min(start + size, len(x)))) for start in range(0, len(x), size)]
        todo = [[i for i in group if i not in records] for group in groups]
        if len(records) < len(x):
            # set up once, here: the data are not evaluated again by every process
            with allowance.setting_up(len(x) - len(records)) as budget:
                ready, target = session.prepare(target, budget)
                session.ask_about_data(ready, budget)
                session.read_models(ready, budget)
            n_calls, n_rows = _count_asked(ready)
            calls, rows_asked = calls + n_calls, rows_asked + n_rows
        members = list(zip(range(len(x)), labels, x, seeds, strict=True))
        for done, n_calls, n_rows in _explain_groups(
            session, [[members[i] for i in g] for g in todo if g], target, listed, kept, n_jobs, max_model_rows,
            allowance, on_error,
        ):  # fmt: skip
            records |= done
            calls, rows_asked = calls + n_calls, rows_asked + n_rows
            bar.update(len(done))
    table = stack_records([records[i] for i in range(len(x))], labels, calls, rows_asked)
    if keep_pool and n_without:
        warnings.warn(
            f"{n_without} of {len(x)} rows were already in the store {store} without their evaluated points; to "
            "explain them again with keep_pool=True, use another folder or delete their files",
            stacklevel=4,
        )
    if len(table.errors):
        warnings.warn(f"{table.error_sentence()}; table.errors has them all", stacklevel=4)
    return table


Done = tuple[dict[int, Record], int, int]
Member = tuple[int, Any, Array, int]  # position, label, row and seed


def _count_asked(predictors: Sequence[Predictor]) -> tuple[int, int]:
    """Return the calls and rows of predictors so far."""
    return sum(p.meter.calls for p in predictors), sum(p.meter.rows for p in predictors)


def _explain_groups(
    session: Session,
    groups: Sequence[Sequence[Member]],
    target: Target,
    rules: tuple[Rule, ...],
    store: Store | None,
    n_jobs: int | None,
    max_model_rows: int | None,
    allowance: Allowance,
    on_error: OnError,
) -> Iterable[Done]:
    """Explain groups in this process or in several, and yield each when it is done."""
    workers = joblib.effective_n_jobs(n_jobs or 1) if len(groups) > 1 else 1

    def arguments() -> Iterable[tuple[Any, ...]]:
        left = sum(map(len, groups))
        for group in groups:
            limits = max_model_rows, allowance.seconds_for_group(len(group), left, workers)
            yield group, target, rules, store, limits, on_error
            left -= len(group)

    if workers == 1:
        yield from (_explain_group(session, *group) for group in arguments())
        return
    # a group's time is what is left when it is dispatched: not ahead of time, and one by one
    options: dict[str, Any] = {} if allowance.whole.deadline is None else {"pre_dispatch": "n_jobs", "batch_size": 1}
    options |= {"initializer": _watch_parent, "initargs": (os.getpid(),)}
    pool = joblib.Parallel(n_jobs=n_jobs, return_as="generator_unordered", **options)
    packed = Packed.of(session)
    yield from pool(joblib.delayed(_explain_packed)(packed, *group) for group in arguments())


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


def _watch_parent(parent: int) -> None:
    """Start a thread that ends this worker process soon after its parent."""
    threading.Thread(target=_exit_after, args=(parent,), daemon=True).start()


def _exit_after(parent: int) -> None:
    """Exit when the parent process is gone: finished rows are in the store, unfinished files are cleared later."""
    while os.getppid() == parent:
        time.sleep(_POLL_INTERVAL)
    os._exit(1)


def _explain_packed(packed: Packed[Session], *group: Any) -> Done:
    return _explain_group(packed.unpack(), *group)


def _explain_group(
    session: Session,
    group: Sequence[Member],
    target: Target,
    rules: tuple[Rule, ...],
    store: Store | None,
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
        return {place: failure_of(error, session.space, row, seed, 0, 0) for place, _, row, seed in group}, 0, 0
    models = (*predictors, *refits)

    def explain(member: Member, asked: Sequence[Predictor], budget: Budget) -> tuple[int, Record]:
        position, label, row, seed = member
        own, again = tuple(asked[: len(predictors)]), tuple(asked[len(predictors) :])
        try:
            explanation = session.explain_encoded(row, own, target, rules, seed, budget, again)
        except Exception as error:
            if on_error == "raise":
                raise _name_row_in(error, label) from error.__cause__ or error
            return position, failure_of(error, session.space, row, seed, *_count_asked(asked))
        if store is not None:
            store.save(position, explanation)
        return position, record_of(explanation)

    if any(predictor.cost_per_call for predictor in models):
        return _explain_in_step(explain, group, models, max_rows, timed)
    done, calls, rows = {}, 0, 0
    for number, member in enumerate(group):
        asked = [predictor.with_fresh_meter() for predictor in models]
        position, record = explain(member, asked, _share_time(timed, len(group) - number, max_rows))
        n_calls, n_rows = _count_asked(asked)
        done[position], calls, rows = record, calls + n_calls, rows + n_rows
    return done, calls, rows


def _share_time(timed: Budget, left: int, max_rows: int | None) -> Budget:
    """Return the budget of the next of ``left`` rows: the seconds of all of them, in equal shares."""
    if timed.deadline is None:
        return Budget(max_rows)
    return Budget(max_rows, timed.share(1.0 / left).deadline, whole=timed, paces=timed.paces)


def _explain_in_step(
    explain: Callable[[Member, Sequence[Predictor], Budget], tuple[int, Record]],
    group: Sequence[Member],
    models: Sequence[Predictor],
    max_rows: int | None,
    timed: Budget,
) -> Done:
    """Explain the rows of a group together, with merged model calls."""
    step = Lockstep(min(predictor.batch_rows for predictor in models), timed)

    def task(member: Member) -> Callable[[int], tuple[int, Record]]:
        def run(number: int) -> tuple[int, Record]:
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


def _choose_group_size(session: Session, d: int) -> int:
    """Return the number of rows per group such that the candidates fit in memory."""
    declared: Any = getattr(session.sampler, "n_candidates", None)  # may be anything in a user's own sampler
    candidates = int(declared) if is_count(declared) else _USUAL_CANDIDATES
    return max(1, min(_ROWS_PER_GROUP, _MAX_GROUP_CELLS // (candidates * d)))
