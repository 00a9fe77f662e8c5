"""Limit the model evaluations and the time of an explanation, and call models under a deadline.

Callers that can do with less check :meth:`Budget.affords` and stop in good order; others run into
:class:`BudgetSpentError`. The time per row is measured for each model and shared by all parts of a budget. A call
cannot be interrupted, so under a deadline models are called in batches sized by their measured pace, in a thread that
is abandoned if the model hangs.
"""

import contextvars
import logging
import math
import queue
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from gbce._validation import is_number, is_whole

__all__ = [
    "Budget", "BudgetSpentError", "HangingError", "Load", "Pace", "Watcher", "budget_of", "deadline_in",
    "progress_bar", "require_rows", "require_seconds",
]  # fmt: skip

_LOG = logging.getLogger("gbce")
Load = Sequence[tuple[int, float]]  # models by number, and how many rows of each a point takes


@dataclass(frozen=True)
class _Pacing:
    """How batches keep a deadline; chosen by hand: keeping it is traded for using the time."""

    # Factor by which a lifted ceiling rises. By hand: without a ceiling, a posterior of boosted trees in 12 columns was
    # still not sampled after 5.7 million rows and three minutes.
    lifted_times: int = 3
    planned_share: float = 0.8  # of the time left: a measured pace may be off, and there is work between calls
    slack: int = 2  # times the time left: work planned a little earlier is not rejected
    batch_share: float = 0.25  # of the time left that one batch may take before the clock is checked again
    shortest_batch: float = 0.05  # seconds: a shorter batch is not worth another check of the clock
    growth: int = 8  # how many times larger than any before a batch may be; the first is a single row
    # A small batch may double if it takes less than half of the time left: where calls have a fixed cost, batches of
    # one row would never show the cost of a row.
    small_batch: int = 64
    small_growth: int = 2
    small_share: float = 0.5
    trial_points: int = 100  # that may be planned before a pace is known; they are evaluated in batches, too
    fade: float = 0.8  # factor by which each call discounts earlier ones: models slow down and speed up
    least_slope: float = 0.1  # of the mean seconds per row: a fixed cost per call does not make rows free
    same_size: float = 1e-9  # relative spread of batch sizes below which a slope would be rounding error
    # How long a running call is waited for after the deadline, by hand: at least a second, for a busy machine, or this
    # many times what calls of its size took.
    least_patience: float = 1.0
    patience: float = 10.0
    idle: float = 1.0  # seconds after which an unused model thread ends; by hand, work between calls takes less


_PACING = _Pacing()

HALF = 0.5  # of what is left of a budget, for a stage that others follow; by hand
_UNLIMITED = 2**62  # rows: more than anybody evaluates, and still a 64-bit integer

# --- errors and measurements -----------------------------------------------------------------------------------------


class BudgetSpentError(RuntimeError):
    """A model call would have exceeded ``max_model_rows`` or ``time_budget``."""


class HangingError(BudgetSpentError):
    """A model had not returned long after the deadline, and was abandoned."""


class Watcher(Protocol):
    """Observes how a budget is spent."""

    def begin(self, stage: str) -> None:
        """Record the start of a stage, such as ``"sampling"``."""
        ...

    def spend(self, rows: int) -> None:
        """Record that models evaluated ``rows`` more rows."""
        ...


@dataclass
class Pace:
    """Seconds per call and seconds per row of a model: a regression line through measured calls.

    Fitted by least squares with weights 1 / rows, under which it reproduces the total time exactly. The first call,
    which may load or compile something, counts only until there is a second.

    Examples
    --------
    >>> pace = Pace()
    >>> for rows in (1, 10, 100):
    ...     pace.add(rows, 0.5 + 0.01 * rows)
    >>> round(pace.per_call, 6), round(pace.per_row, 6), pace.most
    (0.5, 0.01, 100)
    """

    calls: int = 0
    most: int = 0
    sums: tuple[float, ...] = (0.0,) * 5

    def add(self, rows: int, seconds: float) -> None:
        """Add a measured call."""
        fade = 0.0 if self.calls == 1 else _PACING.fade
        new = (1.0 / rows, 1.0, float(rows), seconds / rows, seconds)
        self.sums = tuple(fade * old + added for old, added in zip(self.sums, new, strict=True))
        self.calls, self.most = self.calls + 1, max(self.most, rows)

    @property
    def per_row(self) -> float:
        """Seconds per row."""
        return self._fitted[1]

    @property
    def per_call(self) -> float:
        """Fixed seconds per call."""
        return self._fitted[0]

    @property
    def _fitted(self) -> tuple[float, float]:
        """Seconds per call and per row: the intercept and slope of call times over rows."""
        inverse, calls, rows, rates, seconds = self.sums
        mean = seconds / rows
        spread = inverse * rows - calls * calls
        if spread <= _PACING.same_size * calls * calls:  # all calls have one size
            return 0.0, mean
        slope = min(max((inverse * seconds - calls * rates) / spread, _PACING.least_slope * mean), mean)
        return (seconds - slope * rows) / calls, slope


# --- calls in a thread -----------------------------------------------------------------------------------------------


class _ThreadCaller:
    """Call functions in a worker thread, and abandon the thread if a function does not return."""

    # Kept from call to call, because a new thread may cost a model a new thread pool; a daemon, so that the interpreter
    # does not wait for it; and it ends after a while without calls.

    def __init__(self) -> None:
        self._worker: _Worker | None = None

    def call(self, function: Callable[[Any], Any], argument: Any, seconds: float) -> Any:
        """Call a function, or raise ``queue.Empty`` if it takes longer than ``seconds``."""
        job = (contextvars.copy_context(), function, argument)  # context variables of the caller, numpy's too
        if self._worker is None or not self._worker.submit(job):
            self._worker = _Worker()
            self._worker.submit(job)
            threading.Thread(target=self._worker.serve, name="gbce-model", daemon=True).start()
        try:
            succeeded, result = self._worker.results.get(timeout=min(seconds, threading.TIMEOUT_MAX))
        except BaseException:  # it hangs, or Ctrl-C: whatever that thread still returns is dropped
            self._worker = None
            raise
        if not succeeded:
            raise result
        return result


class _Worker:
    """Job and result queues between a caller and its thread."""

    def __init__(self) -> None:
        self.jobs: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.results: queue.SimpleQueue[tuple[bool, Any]] = queue.SimpleQueue()
        self.lock, self.ended = threading.Lock(), False

    def submit(self, job: Any) -> bool:
        """Queue a job; return False if the thread has ended."""
        with self.lock:
            if not self.ended:
                self.jobs.put(job)
            return not self.ended

    def serve(self) -> None:
        """Run jobs until none has come for a while."""
        while True:
            try:
                context, function, argument = self.jobs.get(timeout=_PACING.idle)
            except queue.Empty:
                with self.lock:
                    self.ended = self.jobs.empty()
                if self.ended:
                    return
                continue
            try:
                self.results.put((True, context.run(function, argument)))
            except BaseException as error:
                self.results.put((False, error))
            del context, function, argument  # hold no reference to a model while idle


# --- budgets ---------------------------------------------------------------------------------------------------------


@dataclass
class Budget:
    """Model rows and time that are left; without limits everything is affordable."""

    max_rows: int | None = None  # counted once for every model
    deadline: float | None = None  # on the clock of time.monotonic
    # The budget of which this one is a share, charged as well. Plans are made for the share, but running work is
    # stopped only at the deadline of the whole.
    whole: "Budget | None" = None
    # Rows at which even an unlimited budget ends. It does not enter plans, so that it has no effect before it is met.
    ceiling: int | None = None
    rows: int = 0
    met_ceiling: bool = False
    lifted: bool = False  # whether the ceiling was raised, or is not to be
    watch: Watcher | None = field(default=None, repr=False)
    paces: dict[int, Pace] = field(default_factory=dict, repr=False)
    lost: dict[int, str] = field(default_factory=dict, repr=False)  # models that hang, with the error message
    _caller: _ThreadCaller = field(default_factory=_ThreadCaller, repr=False)

    @property
    def root(self) -> "Budget":
        """The original budget of which this one is a share or continuation."""
        return self if self.whole is None else self.whole.root

    @property
    def limited(self) -> bool:
        """Whether there is any limit."""
        return self.max_rows is not None or self.deadline is not None

    @property
    def outermost(self) -> "Budget":
        """The largest enclosing budget with a deadline."""
        return self if self.whole is None or self.deadline is None else self.whole.outermost

    @property
    def end(self) -> float | None:
        """The deadline of the outermost budget; ``None`` if this one has none."""
        return self.outermost.deadline

    @property
    def is_late(self) -> bool:
        """Whether the deadline has passed."""
        return self.time_left <= 0

    @property
    def rows_left(self) -> int:
        """Rows that may still be evaluated; without a limit, more than anybody evaluates."""
        limits = [limit for limit in (self.max_rows, self.ceiling) if limit is not None]
        return min(limits) - self.rows if limits else _UNLIMITED

    @property
    def time_left(self) -> float:
        """Seconds until the deadline, infinite without one, negative after it."""
        return math.inf if self.deadline is None else self.deadline - _now()

    def affords(self, n: int, load: Load = (), each: int | None = None) -> int:
        """Return how many of ``n`` points can be evaluated now: all, fewer, or none.

        A point takes as many rows as in ``load``, or at most ``each``. Time is predicted from earlier calls; before
        there are any, a few points are affordable.
        """
        if self.max_rows is not None or self.ceiling is not None:
            rows = each or int(sum(rows for _, rows in load)) or 1
            within = self.rows_left // rows
            self.met_ceiling |= self.ceiling is not None and within < n
            n = min(n, within)
        return max(min(n, self._points_in_time(load)), 0)

    def _points_in_time(self, load: Load) -> int:
        """Return the number of points that can be expected to be evaluated before the deadline."""
        left = self.time_left
        if self.deadline is None or left <= 0:
            return _UNLIMITED if left > 0 else 0
        if self.unmeasured(load):
            return _PACING.trial_points
        per_call, per_point = self._predict_seconds(load)
        seconds = _PACING.planned_share * left - per_call
        return int(min(seconds / per_point, _UNLIMITED)) if per_point > 0 else _UNLIMITED

    def unmeasured(self, load: Load) -> bool:
        """Whether there is a deadline, time is left, and the pace of some model is unknown."""
        return self.deadline is not None and self.time_left > 0 and any(key not in self.paces for key, _ in load)

    def _predict_seconds(self, load: Load) -> tuple[float, float]:
        """Return the seconds per call and per point, counting models of unknown pace as zero."""
        known = [(self.paces[key], rows) for key, rows in load if key in self.paces]
        return sum(pace.per_call for pace, _ in known), sum(rows * pace.per_row for pace, rows in known)

    def require(self, n: int, load: Load) -> None:
        """Raise if ``n`` points exceed the limits, with some slack for predicted time."""
        rows = n * int(sum(rows for _, rows in load))
        within = rows <= self.rows_left
        if within and self.deadline is not None:
            per_call, per_point = self._predict_seconds(load)
            within = self.time_left > 0 and per_call + n * per_point <= _PACING.slack * self.time_left
        if not within:
            self.met_ceiling |= self.ceiling is not None
            if self.root.rows == 0:
                raise BudgetSpentError(
                    "the budget ran out before the first prediction: raise max_model_rows or time_budget"
                )
            raise BudgetSpentError(f"{rows:,} more model rows exceed the budget: raise max_model_rows or time_budget")

    def require_time(self) -> None:
        """Raise if the deadline of the whole budget has passed."""
        if self.end is not None and _now() >= self.end:
            raise BudgetSpentError("the time ran out during model calls: raise time_budget")

    def batch(self, n: int, load: Load) -> int:
        """Return how many of ``n`` points to evaluate in the next call: under a deadline, few enough to stop soon."""
        if self.end is None:
            return n
        largest = [self.paces[key].most / rows for key, rows in load if rows and key in self.paces]
        if self.unmeasured(load) or not largest:
            return min(n, 1)
        per_call, per_point = self._predict_seconds(load)
        left, most = self.end - _now(), min(largest)
        size = _PACING.growth * most
        if per_point > 0:
            size = min(size, (max(_PACING.batch_share * left, _PACING.shortest_batch) - per_call) / per_point)
            affordable = (_PACING.small_share * left - per_call) / per_point
            size = max(size, min(_PACING.small_growth * most, _PACING.small_batch, affordable))
        return max(int(min(size, n)), min(n, 1))

    @contextmanager
    def spending(self, rows: int, model: int) -> Iterator[None]:
        """Charge ``rows``, and measure the model's pace by the time that the block takes."""
        start = _now()
        try:
            yield
        finally:
            self._charge(rows)
        if rows:
            self.paces.setdefault(model, Pace()).add(rows, _now() - start)

    def call(self, function: Callable[[Any], Any], rows: Any, model: int) -> Any:
        """Return ``function(rows)``: the one line that calls a model.

        Under a deadline it runs in another thread; if it has not returned long after the deadline, the thread is
        abandoned and the model is not called again.
        """
        root = self.root
        if root.deadline is None:
            return function(rows)
        if model in root.lost:
            raise HangingError(root.lost[model])
        pace = self.paces.get(model)
        predicted = 0.0 if pace is None else pace.per_call + len(rows) * pace.per_row
        seconds = max(root.deadline - _now(), 0.0) + max(_PACING.least_patience, _PACING.patience * predicted)
        try:
            return root._caller.call(function, rows, seconds)
        except queue.Empty:
            root.lost[model] = (
                f"did not return within {seconds:.3g} seconds, was abandoned in its thread and is not called again: "
                "find out why it hangs, or raise time_budget"
            )
            raise HangingError(root.lost[model]) from None

    def share(self, fraction: float) -> "Budget":
        """Return a budget with a fraction of the rows and time left."""
        if not self.limited:
            return self
        now = _now()
        return Budget(
            None if self.max_rows is None else int(fraction * (self.max_rows - self.rows)),
            None if self.deadline is None else now + fraction * (self.deadline - now),
            whole=self,
            paces=self.paces,
        )

    def begin(self, stage: str) -> None:
        """Tell watchers and the log that a stage begins."""
        if self.whole is None:
            _LOG.debug("%s, %s model rows so far", stage, f"{self.rows:,}")
        if self.watch is not None:
            self.watch.begin(stage)
        if self.whole is not None:
            self.whole.begin(stage)

    def under(self, ceiling: int, *, rises: bool = True) -> "Budget":
        """Return an otherwise unlimited share with a ceiling of so many rows, which can be lifted if it ``rises``."""
        return Budget(whole=self, ceiling=ceiling, lifted=not rises, paces=self.paces)

    def lift(self) -> None:
        """Raise the ceiling, if any, once."""
        if self.ceiling is not None and not self.lifted:
            self.ceiling, self.lifted = _PACING.lifted_times * self.ceiling, True

    def without_deadline(self) -> "Budget":
        """Return the same budget without its deadline, for the few rows that every report needs."""
        left = None if self.max_rows is None else self.max_rows - self.rows
        return Budget(left, whole=self, paces=self.paces)

    def _charge(self, rows: int) -> None:
        """Count rows, here and in all enclosing budgets."""
        self.rows += rows
        if self.watch is not None:
            self.watch.spend(rows)
        if self.whole is not None:
            self.whole._charge(rows)


def _now() -> float:
    """Return the time on the clock of deadlines; tests replace it."""
    return time.monotonic()


def deadline_in(seconds: float) -> float:
    """Return the deadline that is so many seconds away."""
    return _now() + seconds


# --- user options ----------------------------------------------------------------------------------------------------


def budget_of(max_model_rows: Any, time_budget: Any) -> Budget:
    """Build a budget from a user's limits; the clock starts now."""
    require_rows(max_model_rows, "max_model_rows")
    require_seconds(time_budget, "time_budget")
    deadline = None if time_budget is None else deadline_in(float(time_budget))
    return Budget(None if max_model_rows is None else int(max_model_rows), deadline)


def require_rows(limit: Any, name: str) -> None:
    """Check a limit on rows; ``None`` is no limit."""
    if limit is not None and not (is_whole(limit) and limit >= 1):
        raise ValueError(f"{name} must be an integer of at least 1, not {limit!r}: leave it out for no limit")


def require_seconds(limit: Any, name: str) -> None:
    """Check a limit on time; ``None`` is no limit."""
    if limit is not None and not (is_number(limit) and 0 < limit < math.inf):
        raise ValueError(f"{name} must be a positive number of seconds, not {limit!r}: leave it out for no limit")


def progress_bar(**options: Any) -> Any:
    """Return a progress bar of tqdm that disappears when it is closed; ``options`` as for ``tqdm.tqdm``."""
    from tqdm import TqdmWarning

    with warnings.catch_warnings():  # in a notebook without ipywidgets the bar is plain text, which needs no advice
        warnings.simplefilter("ignore", TqdmWarning)
        from tqdm.auto import tqdm

    return tqdm(**{"leave": False} | options)
