"""Evaluate several models within a budget, and merge the model calls of several tasks.

Only models with a cost per call have their calls merged; for others, tasks run one after the other. Tasks (rows of a
table, two searches, decision rules) run as coroutines: each in a thread of its own until it needs predictions, never
two at a time, so that shared state is safe and runs are reproducible. When all of them wait, their rows go to the model
in one call. A prediction does not depend on the other rows of the call, so results are those of running the tasks one
by one. Models run in the caller's thread; under a deadline, in the one of its budget.
"""

import contextvars
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from queue import SimpleQueue
from typing import Any, TypeVar

import numpy as np

from gbce.base import Array, Outputs
from gbce.budget import Budget, BudgetSpentError, HangingError, Load
from gbce.predictors._predictor import Meter, Predictor
from gbce.space import unmasked

T = TypeVar("T")
Ask = Callable[[Array], Any]

# --- models within a budget ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Panel:
    """Models with a budget for their calls; ``use_predict`` also calls the ``predict`` of classifiers."""

    predictors: tuple[Predictor, ...]
    budget: Budget
    use_predict: bool = False

    @property
    def load(self) -> Load:
        """The number of rows of each model per point; a model is identified by its function."""
        return [(id(predictor.ask), predictor.questions(self.use_predict)) for predictor in self.predictors]

    @property
    def each(self) -> int:
        """The number of model rows per point."""
        return sum(predictor.questions(self.use_predict) for predictor in self.predictors)

    def affords(self, n: int) -> int:
        """Return how many of ``n`` points all models can still evaluate."""
        return self.budget.affords(n, self.load, self.each)

    def portions(self, n: int, copies: int = 1) -> Iterator[slice]:
        """Yield slices of ``n`` points of ``copies`` rows each, as large and as many as the budget allows by then.

        The first has at least one point where it is not known how long a model takes.
        """
        done = 0
        while done < n:
            size = self.affords((n - done) * copies) // copies
            if size == 0 and not self.budget.unmeasured(self.load):
                return
            yield slice(done, done + max(size, 1))
            done += max(size, 1)

    def ask(self, x: Array) -> list[Outputs]:
        """Return the outputs of every model at ``x`` of shape ``(n, d)``, or raise if the budget is too small."""
        load = self._require(x)
        parts: list[list[Outputs]] = []
        done = 0
        while done < len(x) or not parts:
            if parts:
                self.budget.require_time()
            size = self.budget.batch(len(x) - done, load)
            parts.append(self._ask_each(x[done : done + size]))
            done += size
        return _join(parts)

    def ask_some(self, x: Array) -> list[Outputs]:
        """Return the outputs of every model for the first rows of ``x``, as many as the budget allows; none raises."""
        load = self.load
        parts: list[list[Outputs]] = []
        done = 0
        while size := min(self.affords_first(x[done:]), self.budget.batch(len(x) - done, load)):
            parts.append(self._ask_each(x[done : done + size]))
            done += size
        if not parts:
            raise BudgetSpentError("the budget does not allow a single row: raise max_model_rows or time_budget")
        return _join(parts)

    def ask_alone(self, x: Array) -> list[Outputs]:
        """Return the outputs of every model for rows ``(n, d)``, each in a call of its own as a user would make it.

        When time is over, outputs are those of the first few rows, or none. Models whose calls are paid for get all
        rows in one call.
        """
        self._require(x)
        if any(predictor.cost_per_call for predictor in self.predictors):
            return self.ask(x)
        parts: list[list[Outputs]] = []
        while len(parts) < len(x) and not self.budget.root.is_late:
            parts.append(self._ask_each(x[len(parts) : len(parts) + 1], alone=True))
        return _join(parts) if parts else []

    def affords_first(self, x: Array) -> int:
        """Return how many of points ``(n, d)``, from the first on, all models can evaluate; known ones are free."""
        if all(predictor.memory is None for predictor in self.predictors):
            return self.affords(len(x))
        new = self._are_new(x)
        most = self.affords(int(new.sum()))
        return len(x) if most >= new.sum() else int(np.searchsorted(np.cumsum(new), most, side="right"))

    def _are_new(self, x: Array) -> Array:
        """Return which points ``(n, d)`` some model has to evaluate: ``(n,)``."""
        return np.any([predictor.rows_to_pay(x, self.use_predict) > 0 for predictor in self.predictors], axis=0)

    def _require(self, x: Array) -> Load:
        """Raise if points ``(n, d)`` exceed the budget or a model hangs; return the load of a point."""
        for predictor in self.predictors:
            if (lost := self.budget.root.lost.get(id(predictor.ask))) is not None:
                raise HangingError(f"{predictor.name} {lost}")
        remembers = any(predictor.memory is not None for predictor in self.predictors)
        self.budget.require(int(self._are_new(x).sum()) if remembers else len(x), self.load)
        return self.load

    def _ask_each(self, x: Array, alone: bool = False) -> list[Outputs]:
        outputs = []
        for predictor in self.predictors:
            with self.budget.spending(int(predictor.rows_to_pay(x, self.use_predict).sum()), id(predictor.ask)):
                try:
                    outputs.append(predictor(x, use_predict=self.use_predict, alone=alone, budget=self.budget))
                except HangingError as error:
                    self.budget.root.lost[id(predictor.ask)] = str(error)
                    raise HangingError(f"{predictor.name} {error}") from None
        return outputs


def _join(parts: Sequence[Sequence[Outputs]]) -> list[Outputs]:
    """Concatenate the outputs of several calls."""
    if len(parts) == 1:
        return list(parts[0])
    joined = []
    for outputs in zip(*parts, strict=True):
        decided = [one.decided for one in outputs if one.decided is not None]
        values = np.concatenate([one.values for one in outputs])
        joined.append(replace(outputs[0], values=values, decided=np.concatenate(decided) if decided else None))
    return joined


# --- merged calls of several tasks -----------------------------------------------------------------------------------


@dataclass(eq=False)
class _Task:
    """State of one task: its pending request, the queue of replies it waits on, and its result or error."""

    request: tuple[Ask, Array, bool] | None = None  # function, rows, and whether the call must not be merged
    reply: SimpleQueue[Any] = field(default_factory=SimpleQueue)
    done: bool = False
    result: Any = None
    error: BaseException | None = None


class Lockstep:
    """Runs tasks in turn; requests to the same function are merged into one call, in the order of the tasks.

    A model that hangs is abandoned if the ``budget`` has a deadline.
    """

    def __init__(self, batch_rows: int, budget: Budget | None = None) -> None:
        self.batch_rows = batch_rows
        self.budget = Budget() if budget is None else budget
        self.n_calls = 0
        self.n_rows = 0
        self._stopped = False
        self._tasks: list[_Task] = []
        self._paused: SimpleQueue[_Task] = SimpleQueue()
        self._meters: dict[Ask, Meter] = {}

    def share(self, predictor: Predictor, number: int) -> Predictor:
        """Return the predictor with its calls sent through the lockstep as requests of task ``number``.

        It counts the requests of its task; the original predictor counts the calls that are made.
        """
        ask, decide = predictor.ask, predictor.decide
        own_ask, own_decide = predictor.own_ask or ask, predictor.own_decide or decide
        functions = [one for one in (ask, decide, own_ask, own_decide) if one is not None]
        self._meters |= dict.fromkeys(functions, predictor.meter)
        return replace(
            predictor.with_fresh_meter(),
            ask=lambda rows: self.ask(number, ask, rows),
            decide=None if decide is None else lambda rows: self.ask(number, decide, rows),
            own_ask=lambda rows: self.ask(number, own_ask, rows, alone=True),
            own_decide=None if own_decide is None else lambda rows: self.ask(number, own_decide, rows, alone=True),
            in_step=True,
        )

    def run(self, tasks: Sequence[Callable[[int], T]]) -> list[T]:
        """Run all tasks, each called with its number, and return their results in order."""
        self._tasks = [_Task() for _ in tasks]
        for number, task in enumerate(tasks):
            context = (
                contextvars.copy_context()
            )  # tasks inherit the context of the caller, numpy's error state included
            arguments = (self._work, self._tasks[number], task, number)
            threading.Thread(target=context.run, args=arguments, daemon=True).start()
        try:
            self._take_turns()
        except BaseException:  # Ctrl-C: no task goes on calling a model unseen
            self._stopped = True
            for state in self._tasks:
                state.reply.put(None)
            raise
        for state in self._tasks:
            if state.error is not None:
                raise state.error
        return [state.result for state in self._tasks]

    def ask(self, number: int, function: Ask, x: Array, alone: bool = False) -> Any:
        """Send a request of task ``number`` and wait for the reply; with ``alone`` its call is not merged."""
        state = self._tasks[number]
        state.request = (function, x, alone)
        self._paused.put(state)
        reply = self._wait(state)
        if isinstance(reply, BaseException):
            raise reply
        return reply

    def _work(self, state: _Task, task: Callable[[int], Any], number: int) -> None:
        try:
            self._wait(state)
            state.result = task(number)
        except BaseException as error:
            state.error = error
        finally:
            state.done = True
            self._paused.put(state)

    def _wait(self, state: _Task) -> Any:
        reply = None if self._stopped else state.reply.get()
        if self._stopped:
            raise InterruptedError("stopped while waiting for a model")
        return reply

    def _take_turns(self) -> None:
        """Run every task until its next request or its end, reply to all requests, and repeat until all are done."""
        replies: dict[_Task, Any] = dict.fromkeys(self._tasks)
        while replies:
            for state, reply in replies.items():
                state.reply.put(reply)
                self._paused.get()
            replies = self._reply_to_all([state for state in replies if not state.done])

    def _reply_to_all(self, waiting: Sequence[_Task]) -> dict[_Task, Any]:
        """Return the reply to each waiting task, in their order."""
        merged: dict[tuple[Ask, _Task | None], dict[_Task, Array]] = {}
        for state in waiting:
            assert state.request is not None
            function, x, alone = state.request
            merged.setdefault((function, state if alone else None), {})[state] = x
        replies: dict[_Task, Any] = {}
        for (function, _), requests in merged.items():
            replies |= self._call_merged(function, requests)
        return {state: replies[state] for state in waiting}

    def _call_merged(self, function: Ask, requests: dict[_Task, Array]) -> dict[_Task, Any]:
        """Call a function once with the rows of all requests; if that fails, once per request."""
        try:
            outputs = self._call_in_batches(function, np.concatenate(list(requests.values())))
        except HangingError as error:
            return dict.fromkeys(requests, error)
        except Exception:
            outputs = None
        replies: dict[_Task, Any] = {}
        start = 0
        for state, x in requests.items():
            replies[state] = self._call_one(function, x) if outputs is None else outputs[start : start + len(x)]
            start += len(x)
        return replies

    def _call_one(self, function: Ask, x: Array) -> Any:
        """Return the outputs of one task, or its error, which must not reach the others."""
        try:
            return self._call_in_batches(function, x)
        except Exception as error:
            return error

    def _call_in_batches(self, function: Ask, x: Array) -> Array:
        parts: list[Array] = []
        meter = self._meters.get(function, Meter())
        for start in range(0, len(x), self.batch_rows):
            rows = x[start : start + self.batch_rows]
            self.n_calls, meter.calls = self.n_calls + 1, meter.calls + 1
            self.n_rows, meter.rows = self.n_rows + len(rows), meter.rows + len(rows)
            with self.budget.spending(len(rows), id(function)):
                raw = self.budget.call(function, rows, id(function))
            outputs = np.array(unmasked(raw))  # a copy: a runtime may write its next output into the same memory
            if len(outputs) != len(rows):
                raise ValueError(f"{len(outputs)} outputs for {len(rows)} rows")
            parts.append(outputs)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)
