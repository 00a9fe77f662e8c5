"""Many rows: in groups that share model calls, groups in parallel, finished rows kept."""

import os
import pickle
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import joblib
import numpy as np
import pandas as pd
from tqdm.auto import tqdm

from gbce._numerics import seed_numbers
from gbce._validation import is_count, show
from gbce.base import Array, Rule, Target
from gbce.batch._store import Store, describe_run, rows_to_describe
from gbce.batch._table import ExplanationTable, Record, failure_of, record_of, stack_records
from gbce.budget import Budget, BudgetSpentError, budget_of, deadline_in, require_rows, require_seconds
from gbce.explainer import Explainer, Progress, is_shown
from gbce.predictors import Lockstep, Predictor

__all__ = ["Allowance", "OnError", "explain_many"]

# --- what explaining many rows may spend -----------------------------------------------------------------------------

_MODELS_SHARE = 0.9  # of the whole time, chosen by hand: the rest is for computing figures when models have answered


@dataclass
class Allowance:
    """Limits for each row and for all of them.

    Parameters
    ----------
    rows : int, optional
        Model rows for each row.
    seconds : float, optional
        For each row; less when setting up took some of it.
    whole : Budget
        For all rows; its clock is running.
    """

    rows: int | None
    seconds: float | None
    whole: Budget

    @classmethod
    def of(cls, rows: Any, seconds: Any, total_rows: Any, total_seconds: Any) -> "Allowance":
        """Check what a user may give; the clock starts now."""
        budget_of(rows, seconds)
        require_rows(total_rows, "total_model_rows")
        require_seconds(total_seconds, "total_time")
        return cls(rows, seconds, budget_of(total_rows, total_seconds))

    def rows_for_each(self, n: int, setting_up: int) -> int | None:
        """Return the model rows for each of ``n`` rows; ``setting_up`` are those that it takes to begin.

        It does not depend on which rows are finished or on who was asked before, so neither do the bits.
        """
        if self.whole.max_rows is None:
            return self.rows
        each = (self.whole.max_rows - setting_up) // max(n, 1)
        if each < 1:
            raise BudgetSpentError(
                f"total_model_rows = {self.whole.max_rows:,} leaves none for each of {n:,} rows after {setting_up:,} "
                "that setting up takes: raise it, or explain fewer rows"
            )
        return each if self.rows is None else min(self.rows, each)

    @contextmanager
    def setting_up(self, n: int) -> Iterator[Budget]:
        """Yield what setting up may spend where ``n`` rows are to be explained: its time is taken out of theirs."""
        if self.seconds is None:
            yield self.whole
            return
        own = deadline_in(n * self.seconds)
        rows = None if self.whole.max_rows is None else self.whole.max_rows - self.whole.rows
        deadline = own if self.whole.deadline is None else min(own, self.whole.deadline)
        yield Budget(rows, deadline, paces=self.whole.paces)
        self.seconds = max(Budget(deadline=own).time_left / n, 0.0)

    def seconds_for_group(self, n: int, left: int, workers: int) -> float | None:
        """Return the seconds for ``n`` rows that are explained together, of ``left`` that ``workers`` have to do."""
        own = None if self.seconds is None else n * self.seconds
        if self.whole.deadline is None:
            return own
        part = _MODELS_SHARE * self.whole.time_left * min(n * workers / left, 1.0)
        return part if own is None else min(own, part)


# --- many rows -------------------------------------------------------------------------------------------------------

OnError = Literal["record", "raise"]

_ROWS_PER_GROUP = 16  # rows that share model calls: what a kill loses, as the documents say; chosen by hand
_MAX_GROUP_CELLS = 40_000_000  # numbers in the candidates of a group: 320 MB
_LOOK_EVERY = 0.5  # seconds, by hand: for so long a process outlives the one that it works for
_USUAL_CANDIDATES = 20_000  # of a sampler that does not say how many it has


def explain_many(
    explainer: Explainer,
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
        raise ValueError("keep_pool says what the files of a store keep: give explain_many a store, or leave it out")
    if on_error not in ("record", "raise"):
        raise ValueError(f"on_error must be 'record' or 'raise', not {on_error!r}")
    listed, target = explainer.listed_rules(rules), explainer.listed_target(target)
    allowance = Allowance.of(max_model_rows, time_budget, total_model_rows, total_time)
    x = explainer.space.encode(rows)
    labels = list(rows.index) if isinstance(rows, pd.DataFrame) else list(range(len(x)))
    for label, row in zip(labels, x, strict=True):
        explainer.space.require_inside(row, f"row {label!r}")
    # with or without a store, so that the bits do not depend on it
    max_model_rows = allowance.rows_for_each(len(x), explainer.rows_to_prepare(target) + rows_to_describe(explainer))
    kept, calls, rows_asked = None, 0, 0
    if store is not None:
        asked = [predictor.with_fresh_meter() for predictor in explainer.predictors]
        refits = [] if explainer.refits is None else [one.with_fresh_meter() for one in explainer.refits.predictors]
        with allowance.setting_up(len(x)) as budget:
            run = describe_run(explainer, asked, refits, x, target, listed, max_model_rows, budget)
        run["time_budget"] = time_budget
        kept = Store.open(store, run, None if seed is None else seed_numbers(seed, len(x)), len(x), keep_pool)
        calls, rows_asked = _count_asked([*asked, *refits])
    seeds = seed_numbers(seed, len(x)) if kept is None else kept.seeds
    records: dict[int, Record] = {}
    n_without = 0
    bar = tqdm(total=len(x), desc="explaining", unit="row", disable=not is_shown(progress))
    with bar:
        for position in range(len(x)):
            if kept is not None and kept.has(position):
                found = kept.load(position, x[position], seeds[position])
                records[position] = record_of(found)
                n_without += found.draws.record is not None
                bar.update()
        # groups do not depend on what is finished or on n_jobs, so neither do the bits
        size = _choose_group_size(explainer, x.shape[1])
        groups = [list(range(start, min(start + size, len(x)))) for start in range(0, len(x), size)]
        todo = [[i for i in group if i not in records] for group in groups]
        if len(records) < len(x):
            # set up once, here: what is read off the data is not read again by every process
            with allowance.setting_up(len(x) - len(records)) as budget:
                ready, target = explainer.prepare(target, budget)
                explainer.ask_about_data(ready, budget)
                explainer.read_models(ready, budget)
            n_calls, n_rows = _count_asked(ready)
            calls, rows_asked = calls + n_calls, rows_asked + n_rows
        members = list(zip(range(len(x)), labels, x, seeds, strict=True))
        for done, n_calls, n_rows in _explain_groups(
            explainer, [[members[i] for i in g] for g in todo if g], target, listed, kept, n_jobs, max_model_rows,
            allowance, on_error,
        ):  # fmt: skip
            records |= done
            calls, rows_asked = calls + n_calls, rows_asked + n_rows
            bar.update(len(done))
    table = stack_records([records[i] for i in range(len(x))], labels, calls, rows_asked)
    if keep_pool and n_without:
        warnings.warn(
            f"{n_without} of {len(x)} rows were already in the store {store} without their evaluated points, and stay "
            "so; use another folder, or delete their files, to have them explained again with keep_pool=True",
            stacklevel=3,
        )
    if len(table.errors):
        warnings.warn(f"{table.error_sentence()}; table.errors has them all", stacklevel=3)
    return table


Done = tuple[dict[int, Record], int, int]
Member = tuple[int, Any, Array, int]  # position, label, row and seed


def _count_asked(predictors: Sequence[Predictor]) -> tuple[int, int]:
    """Return the calls and rows of predictors so far."""
    return sum(p.meter.calls for p in predictors), sum(p.meter.rows for p in predictors)


def _explain_groups(
    explainer: Explainer,
    groups: Sequence[Sequence[Member]],
    target: Target,
    rules: tuple[Rule, ...],
    store: Store | None,
    n_jobs: int | None,
    max_model_rows: int | None,
    allowance: Allowance,
    on_error: OnError,
) -> Iterable[Done]:
    """Yield finished groups, in this process or from several."""
    workers = joblib.effective_n_jobs(n_jobs or 1) if len(groups) > 1 else 1

    def arguments() -> Iterable[tuple[Any, ...]]:
        left = sum(map(len, groups))
        for group in groups:
            limits = max_model_rows, allowance.seconds_for_group(len(group), left, workers)
            yield group, target, rules, store, limits, on_error
            left -= len(group)

    if workers == 1:
        yield from (_explain_group(explainer, *group) for group in arguments())
        return
    # a group's time is what is left when it is handed out: not ahead of time, and one by one
    handing: dict[str, Any] = {} if allowance.whole.deadline is None else {"pre_dispatch": "n_jobs", "batch_size": 1}
    handing |= {"initializer": _watch_sender, "initargs": (os.getpid(),)}
    pool = joblib.Parallel(n_jobs=n_jobs, return_as="generator_unordered", **handing)
    sent = _Sent.of(explainer)
    yield from pool(joblib.delayed(_explain_elsewhere)(sent, *group) for group in arguments())


@dataclass(frozen=True)
class _Sent:
    """An explainer for other processes, each of which unpacks it once and keeps what it learns of the models.

    Parameters
    ----------
    run : str
        Tells one run from another.
    packed : array of bytes
        The pickled explainer: joblib hands large arrays over once, and not with every group.
    """

    run: str
    packed: Array

    @classmethod
    def of(cls, explainer: Explainer) -> "_Sent":
        packed = pickle.dumps(joblib.wrap_non_picklable_objects(explainer, keep_wrapper=False))
        return cls(uuid.uuid4().hex, np.frombuffer(packed, dtype=np.uint8))

    def unpack(self) -> Explainer:
        found = _unpacked.get(self.run)
        if found is None:
            found = pickle.loads(self.packed.tobytes())
            _unpacked.clear()
            _unpacked[self.run] = found
        return found


_unpacked: dict[str, Explainer] = {}  # in a process that works for another: the explainer of its run


def _watch_sender(sender: int) -> None:
    """See to it that this process, which works for another, does not outlive it."""
    threading.Thread(target=_end_with, args=(sender,), daemon=True).start()


def _end_with(sender: int) -> None:
    """End this process soon after the one that it works for, whatever that died of: nobody wants its rows any more.

    Finished rows are in the store, whole; a file that is being written is cleared by the next run.
    """
    while os.getppid() == sender:
        time.sleep(_LOOK_EVERY)
    os._exit(1)


def _explain_elsewhere(sent: _Sent, *group: Any) -> Done:
    return _explain_group(sent.unpack(), *group)


def _explain_group(
    explainer: Explainer,
    group: Sequence[Member],
    target: Target,
    rules: tuple[Rule, ...],
    store: Store | None,
    limits: tuple[int | None, float | None],
    on_error: OnError,
) -> Done:
    max_rows, seconds = limits
    timed = Budget() if seconds is None else Budget(deadline=deadline_in(seconds))
    try:
        predictors, target = explainer.prepare(target, timed)
        refits = explainer.prepare_refits(target, timed)
    except BudgetSpentError as error:  # the time was up before these rows had their turn
        if on_error == "raise":
            raise
        return {place: failure_of(error, explainer.space, row, seed, 0, 0) for place, _, row, seed in group}, 0, 0
    step = Lockstep(min(predictor.batch_rows for predictor in (*predictors, *refits)), timed)

    def task(position: int, label: Any, row: Array, seed: int) -> Callable[[int], tuple[int, Record]]:
        def explain(number: int) -> tuple[int, Record]:
            shared, again = (tuple(step.share(one, number) for one in models) for models in (predictors, refits))
            try:
                explanation = explainer.explain_encoded(
                    row, shared, target, rules, seed, Budget(max_rows, timed.deadline), again
                )
            except Exception as error:
                if on_error == "raise":
                    raise _name_row_in(error, label) from error
                return position, failure_of(error, explainer.space, row, seed, *_count_asked((*shared, *again)))
            if store is not None:
                store.save(position, explanation)
            return position, record_of(explanation)

        return explain

    done = step.run([task(*member) for member in group])
    return dict(done), step.n_calls, step.n_rows


def _name_row_in(error: Exception, label: Any) -> Exception:
    """Return an error of the same kind that names its row."""
    try:
        return type(error)(f"row {show(label)}: {error}")
    except Exception:  # a kind that takes more than a sentence
        return RuntimeError(f"row {show(label)}: {type(error).__name__}: {error}")


def _choose_group_size(explainer: Explainer, d: int) -> int:
    asked: Any = getattr(explainer.sampler, "n_candidates", None)  # what somebody's own calls so may be no number
    candidates = int(asked) if is_count(asked) else _USUAL_CANDIDATES
    return max(1, min(_ROWS_PER_GROUP, _MAX_GROUP_CELLS // (candidates * d)))
