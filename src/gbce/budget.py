"""What an explanation may spend: rows shown to models, and time.

A budget is asked before a model is: who can do with less asks :meth:`Budget.affords` and stops in good order, who
cannot runs into :class:`BudgetSpentError`. How long a row takes is measured, for every model by itself, and known to
all shares of a budget. A call cannot be broken off, so under a deadline a model is asked in batches, each of a size
that the measured pace allows, and in a thread that is left behind if the model hangs.
"""

import contextvars
import math
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from gbce._validation import is_number, is_whole

__all__ = [
    "Budget", "BudgetSpentError", "HangingError", "Load", "Pace", "Watcher", "budget_of", "deadline_in",
    "require_rows", "require_seconds",
]  # fmt: skip

Load = Sequence[tuple[int, float]]  # models by a number of theirs, and how many of its rows a point takes

# The numbers below were chosen by hand: they trade a deadline that is kept for time that is used.
# That a ceiling rises when it is lifted. By hand: without one, a posterior of boosted trees in 12 columns was still not
# sampled after 5.7 million rows and three minutes.
_LIFTED_TIMES = 3
_UNLIMITED = 2**62  # rows: more than anybody asks, and still a 64-bit integer
_PLANNED_SHARE = 0.8  # of the time that is left: a measured pace may be off, and there is work between calls
_SLACK = 2  # times the time that is left: what was planned a little earlier is not refused
_BATCH_SHARE = 0.25  # of the time that is left that one batch may take: then the clock is looked at again
_SHORTEST_BATCH = 0.05  # seconds: a shorter batch is not worth another look at the clock
_GROWTH = 8  # how many times larger than any before a batch may be; the first is a single row
# A small batch may double if it takes less than half of the time that is left: where a call has a price, batches of one
# row would never tell what a row costs.
_SMALL_BATCH, _SMALL_GROWTH, _SMALL_SHARE = 64, 2, 0.5
_TRIAL_POINTS = 100  # that may be planned before a pace is known; they are asked about in batches, too
_FADE = 0.8  # weight of a call after the next one: models slow down and speed up
_LEAST_SLOPE = 0.1  # of the mean seconds per row: a price per call does not make rows free
_SAME_SIZE = 1e-9  # relative spread of batch sizes below which a slope would be rounding
# How long a call that is under way is waited for when the time is over, by hand: a second, so that a busy machine is
# taken for no more than that, or so many times what calls of its size took.
_LEAST_PATIENCE, _PATIENCE = 1.0, 10.0
_IDLE = 1.0  # seconds after which a thread for models that nobody asks ends; by hand, work between calls takes less


class BudgetSpentError(RuntimeError):
    """A model was about to be asked more than ``max_model_rows`` or ``time_budget`` allow."""


class HangingError(BudgetSpentError):
    """A model had not answered long after the time was over, and was left behind."""


class Watcher(Protocol):
    """Somebody who looks on while a budget is spent."""

    def begin(self, stage: str) -> None:
        """Learn what is done now, such as ``"sampling"``."""
        ...

    def spend(self, rows: int) -> None:
        """Learn that models were asked about so many more rows."""
        ...


@dataclass
class Pace:
    """How long a model takes: seconds of a call and seconds of each row in it, a line through what was measured.

    The line has least squares with weights one over rows, under which it explains the total time exactly. A first call
    may load or compile something: it counts until there is a second.

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
        """Learn from a call."""
        fade = 0.0 if self.calls == 1 else _FADE
        new = (1.0 / rows, 1.0, float(rows), seconds / rows, seconds)
        self.sums = tuple(fade * old + more for old, more in zip(self.sums, new, strict=True))
        self.calls, self.most = self.calls + 1, max(self.most, rows)

    @property
    def per_row(self) -> float:
        """Seconds that a row adds."""
        return self._line[1]

    @property
    def per_call(self) -> float:
        """Seconds of a call, however small."""
        return self._line[0]

    @property
    def _line(self) -> tuple[float, float]:
        inverse, calls, rows, rates, seconds = self.sums
        mean = seconds / rows
        spread = inverse * rows - calls * calls
        if spread <= _SAME_SIZE * calls * calls:  # all calls have one size
            return 0.0, mean
        slope = min(max((inverse * seconds - calls * rates) / spread, _LEAST_SLOPE * mean), mean)
        return (seconds - slope * rows) / calls, slope


class _Caller:
    """Calls functions in a thread of its own, and leaves it behind with a function that does not come back.

    The thread stays from call to call, because a new one may cost a model a new pool of threads of its own. It is a
    daemon, which no interpreter waits for, and ends when nobody has asked for a while.
    """

    def __init__(self) -> None:
        self._line: _Line | None = None

    def call(self, function: Callable[[Any], Any], argument: Any, seconds: float) -> Any:
        """Return what a function returns, or raise ``queue.Empty`` after so many seconds."""
        job = (contextvars.copy_context(), function, argument)  # what the caller has set, for numpy too, holds there
        if self._line is None or not self._line.take(job):
            self._line = _Line()
            self._line.take(job)
            threading.Thread(target=self._line.serve, name="gbce-model", daemon=True).start()
        try:
            good, outcome = self._line.said.get(timeout=min(seconds, threading.TIMEOUT_MAX))
        except BaseException:  # it hangs, or Ctrl-C: what that thread still says, nobody hears
            self._line = None
            raise
        if not good:
            raise outcome
        return outcome


class _Line:
    """Between a caller and its thread: what is asked, and what is said."""

    def __init__(self) -> None:
        self.asked: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.said: queue.SimpleQueue[tuple[bool, Any]] = queue.SimpleQueue()
        self.lock, self.ended = threading.Lock(), False

    def take(self, job: Any) -> bool:
        """Hand a job to the thread, unless it has ended."""
        with self.lock:
            if not self.ended:
                self.asked.put(job)
            return not self.ended

    def serve(self) -> None:
        """Do jobs as they come in, until none has come for a while."""
        while True:
            try:
                context, function, argument = self.asked.get(timeout=_IDLE)
            except queue.Empty:
                with self.lock:
                    self.ended = self.asked.empty()
                if self.ended:
                    return
                continue
            try:
                self.said.put((True, context.run(function, argument)))
            except BaseException as error:
                self.said.put((False, error))
            del context, function, argument  # nothing of a model is held on to while nobody asks


@dataclass
class Budget:
    """Rows and time that are left; without limits everything is affordable.

    Parameters
    ----------
    max_rows : int, optional
        Rows, counted once for every model.
    deadline : float, optional
        On the clock of ``time.monotonic``.
    whole : Budget, optional
        The budget this one is a share of; it is charged as well. Plans are made for the share, but what is under way
        is broken off only when the time of the whole is over.
    ceiling : int, optional
        Rows after which even an unlimited budget gives no more. Nobody plans with it, so that it changes nothing before
        it is met; :meth:`lift` raises it.
    lifted : bool
        Whether the ceiling was raised.
    """

    max_rows: int | None = None
    deadline: float | None = None
    whole: "Budget | None" = None
    ceiling: int | None = None
    rows: int = 0
    met_ceiling: bool = False
    lifted: bool = False
    watch: Watcher | None = field(default=None, repr=False)
    paces: dict[int, Pace] = field(default_factory=dict, repr=False)
    lost: dict[int, str] = field(default_factory=dict, repr=False)  # models that hang, and what to say of them
    _caller: _Caller = field(default_factory=_Caller, repr=False)

    @property
    def root(self) -> "Budget":
        """The budget that was given, of which this one is a share, or what goes on after its deadline."""
        return self if self.whole is None else self.whole.root

    @property
    def limited(self) -> bool:
        """Whether there is any limit."""
        return self.max_rows is not None or self.deadline is not None

    @property
    def outermost(self) -> "Budget":
        """The budget that this one is in the end a share of, as far as time goes."""
        return self if self.whole is None or self.deadline is None else self.whole.outermost

    @property
    def end(self) -> float | None:
        """The deadline of the outermost budget; none if this one has none."""
        return self.outermost.deadline

    @property
    def is_late(self) -> bool:
        """Whether the time is over."""
        return self.time_left <= 0

    @property
    def rows_left(self) -> int:
        """Rows that may still be asked; without a limit, more than anybody asks."""
        limits = [limit for limit in (self.max_rows, self.ceiling) if limit is not None]
        return min(limits) - self.rows if limits else _UNLIMITED

    @property
    def time_left(self) -> float:
        """Seconds until the deadline, infinite without one, negative after it."""
        return math.inf if self.deadline is None else self.deadline - _now()

    def affords(self, n: int, load: Load = (), each: int | None = None) -> int:
        """Return how many of ``n`` points can be asked about now: all, fewer, or none.

        A point takes as many rows as the load says, or at most ``each``. Time is foreseen from what rows have cost so
        far; before that is known, a few are affordable.
        """
        if self.max_rows is not None or self.ceiling is not None:
            rows = each or int(sum(rows for _, rows in load)) or 1
            within = self.rows_left // rows
            self.met_ceiling |= self.ceiling is not None and within < n
            n = min(n, within)
        return max(min(n, self._points_in_time(load)), 0)

    def _points_in_time(self, load: Load) -> int:
        """Points that can be expected to be answered before the deadline."""
        left = self.time_left
        if self.deadline is None or left <= 0:
            return _UNLIMITED if left > 0 else 0
        if self.unmeasured(load):
            return _TRIAL_POINTS
        per_call, per_point = self._seconds(load)
        seconds = _PLANNED_SHARE * left - per_call
        return int(min(seconds / per_point, _UNLIMITED)) if per_point > 0 else _UNLIMITED

    def unmeasured(self, load: Load) -> bool:
        """Whether time matters, there is some, and how long a model takes is not known."""
        return self.deadline is not None and self.time_left > 0 and any(key not in self.paces for key, _ in load)

    def _seconds(self, load: Load) -> tuple[float, float]:
        """Seconds that a question takes whatever its size, and those of each point; what is not known takes none."""
        known = [(self.paces[key], rows) for key, rows in load if key in self.paces]
        return sum(pace.per_call for pace, _ in known), sum(rows * pace.per_row for pace, rows in known)

    def require(self, n: int, load: Load) -> None:
        """Refuse ``n`` points that are beyond the limits; a forecast of time has some slack."""
        rows = n * int(sum(rows for _, rows in load))
        within = rows <= self.rows_left
        if within and self.deadline is not None:
            per_call, per_point = self._seconds(load)
            within = self.time_left > 0 and per_call + n * per_point <= _SLACK * self.time_left
        if not within:
            self.met_ceiling |= self.ceiling is not None
            raise BudgetSpentError(
                f"{rows:,} more model rows are not within the budget: raise max_model_rows or time_budget"
            )

    def require_time(self) -> None:
        """Refuse to go on with what is under way when the time of the whole is over."""
        if self.end is not None and _now() >= self.end:
            raise BudgetSpentError("the time ran out while models were asked: raise time_budget")

    def batch(self, n: int, load: Load) -> int:
        """Return how many of ``n`` points to ask about in the next call: under a deadline, few enough to stop soon."""
        if self.end is None:
            return n
        asked = [self.paces[key].most / rows for key, rows in load if rows and key in self.paces]
        if self.unmeasured(load) or not asked:
            return min(n, 1)
        per_call, per_point = self._seconds(load)
        left, most = self.end - _now(), min(asked)
        size = _GROWTH * most
        if per_point > 0:
            size = min(size, (max(_BATCH_SHARE * left, _SHORTEST_BATCH) - per_call) / per_point)
            size = max(size, min(_SMALL_GROWTH * most, _SMALL_BATCH, (_SMALL_SHARE * left - per_call) / per_point))
        return max(int(min(size, n)), min(n, 1))

    @contextmanager
    def spending(self, rows: int, model: int) -> Iterator[None]:
        """Charge ``rows``, and learn from the time the block takes how fast the model is."""
        start = _now()
        try:
            yield
        finally:
            self._charge(rows)
        if rows:
            self.paces.setdefault(model, Pace()).add(rows, _now() - start)

    def call(self, function: Callable[[Any], Any], rows: Any, model: int) -> Any:
        """Return ``function(rows)``: the one line that calls a model.

        Without a deadline it is just that. With one it runs in another thread, and when that has not come back long
        after the deadline, it is left behind, and the model is not asked again.
        """
        root = self.root
        if root.deadline is None:
            return function(rows)
        if model in root.lost:
            raise HangingError(root.lost[model])
        pace = self.paces.get(model)
        foreseen = 0.0 if pace is None else pace.per_call + len(rows) * pace.per_row
        seconds = max(root.deadline - _now(), 0.0) + max(_LEAST_PATIENCE, _PATIENCE * foreseen)
        try:
            return root._caller.call(function, rows, seconds)
        except queue.Empty:
            root.lost[model] = (
                f"did not answer within {seconds:.3g} seconds, was left behind in its "
                "thread and is not asked again: see why it hangs, or raise time_budget"
            )
            raise HangingError(root.lost[model]) from None

    def share(self, fraction: float) -> "Budget":
        """Return a budget of a fraction of what is left."""
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
        """Tell whoever looks on what is done now."""
        if self.watch is not None:
            self.watch.begin(stage)
        if self.whole is not None:
            self.whole.begin(stage)

    def under(self, ceiling: int) -> "Budget":
        """Return an unlimited budget that ends at so many more rows, or later if the ceiling is lifted before."""
        return Budget(whole=self, ceiling=ceiling, paces=self.paces)

    def lift(self) -> None:
        """Raise the ceiling, if there is one, once."""
        if self.ceiling is not None and not self.lifted:
            self.ceiling, self.lifted = _LIFTED_TIMES * self.ceiling, True

    def without_deadline(self) -> "Budget":
        """Return the same budget without its deadline, for the few rows without which nothing can be reported."""
        left = None if self.max_rows is None else self.max_rows - self.rows
        return Budget(left, whole=self, paces=self.paces)

    def _charge(self, rows: int) -> None:
        self.rows += rows
        if self.watch is not None:
            self.watch.spend(rows)
        if self.whole is not None:
            self.whole._charge(rows)


def _now() -> float:
    """Return the time on the clock that deadlines are on; tests put another clock in its place."""
    return time.monotonic()


def deadline_in(seconds: float) -> float:
    """Return the time, on the clock of deadlines, that is so many seconds away."""
    return _now() + seconds


def budget_of(max_model_rows: Any, time_budget: Any) -> Budget:
    """Check what a user may give as limits; the clock starts now."""
    require_rows(max_model_rows, "max_model_rows")
    require_seconds(time_budget, "time_budget")
    deadline = None if time_budget is None else deadline_in(float(time_budget))
    return Budget(None if max_model_rows is None else int(max_model_rows), deadline)


def require_rows(limit: Any, name: str) -> None:
    """Check a limit of rows; ``None`` is none."""
    if limit is not None and not (is_whole(limit) and limit >= 1):
        raise ValueError(f"{name} must be a whole number of at least 1, not {limit!r}: leave it out for no limit")


def require_seconds(limit: Any, name: str) -> None:
    """Check a limit of time; ``None`` is none."""
    if limit is not None and not (is_number(limit) and 0 < limit < math.inf):
        raise ValueError(f"{name} must be a positive number of seconds, not {limit!r}: leave it out for no limit")
