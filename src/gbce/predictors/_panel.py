"""Several tasks at once that share their model calls: rows of a table, two searches, or rules.

Each task runs in a thread of its own until it asks a model; then the next one runs. When all of them wait, their
questions are put to the model in one call, and all go on. What a model says of a row does not depend on the other rows
of the call, so the answers are those of running the tasks one by one; a model with a cost per call is called far less
often.

Threads are only a way to stop in the middle of a task: no two run at a time, so that what tasks share is safe and every
run goes the same way. Models are asked in the thread of the caller; under a deadline, in the one that its budget has
for them.
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

__all__ = ["Lockstep", "Panel"]

# --- models asked together within a budget, whoever asks -------------------------------------------------------------


@dataclass(frozen=True)
class Panel:
    """Models, and what may be spent on asking them.

    Parameters
    ----------
    predictors : tuple of Predictor
        The models.
    budget : Budget
        What may be spent.
    use_predict : bool
        Whether the ``predict`` of classifiers is asked as well.
    """

    predictors: tuple[Predictor, ...]
    budget: Budget
    use_predict: bool = False

    @property
    def load(self) -> Load:
        """How many rows of each model a point takes; a model is known by its function."""
        return [(id(predictor.ask), predictor.questions(self.use_predict)) for predictor in self.predictors]

    @property
    def each(self) -> int:
        """The most rows that a point takes."""
        return sum(predictor.questions(self.use_predict) for predictor in self.predictors)

    def affords(self, n: int) -> int:
        """Return how many of ``n`` points all models can still be asked about."""
        return self.budget.affords(n, self.load, self.each)

    def portions(self, n: int, copies: int = 1) -> Iterator[slice]:
        """Yield slices of ``n`` points, each of ``copies`` rows, as many as the budget allows.

        Each is as large as the budget allows by then. Where it is not known how long a model takes, the first is one
        point at least.
        """
        done = 0
        while done < n:
            size = self.affords((n - done) * copies) // copies
            if size == 0 and not self.budget.unmeasured(self.load):
                return
            yield slice(done, done + max(size, 1))
            done += max(size, 1)

    def ask(self, x: Array) -> list[Outputs]:
        """Return what every model says about ``x`` of shape ``(n, d)``, or refuse."""
        load = self._require(len(x))
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
        """Return what every model says about the first rows of ``x``, as many as the budget allows, or refuse."""
        load = self.load
        parts: list[list[Outputs]] = []
        done = 0
        while size := min(self.affords(len(x) - done), self.budget.batch(len(x) - done, load)):
            parts.append(self._ask_each(x[done : done + size]))
            done += size
        if not parts:
            raise BudgetSpentError("not a single row is within the budget: raise max_model_rows or time_budget")
        return _join(parts)

    def ask_alone(self, x: Array) -> list[Outputs]:
        """Return what every model says about rows ``(n, d)``, each asked by itself as a user asks, or refuse.

        When the time is over, they are no more than the first few, or none. Models whose calls are paid for are asked
        about all rows in one.
        """
        self._require(len(x))
        if not all(predictor.by_row for predictor in self.predictors):
            return self.ask(x)
        parts: list[list[Outputs]] = []
        while len(parts) < len(x) and not self.budget.root.is_late:
            parts.append(self._ask_each(x[len(parts) : len(parts) + 1], alone=True))
        return _join(parts) if parts else []

    def _require(self, n: int) -> Load:
        """Refuse ``n`` points that are beyond the budget, or a model that hangs; return the load of a point."""
        for predictor in self.predictors:
            if (lost := self.budget.root.lost.get(id(predictor.ask))) is not None:
                raise HangingError(f"{predictor.name} {lost}")
        self.budget.require(n, self.load)
        return self.load

    def _ask_each(self, x: Array, alone: bool = False) -> list[Outputs]:
        said = []
        for predictor in self.predictors:
            with self.budget.spending(len(x) * predictor.questions(self.use_predict), id(predictor.ask)):
                try:
                    said.append(predictor(x, use_predict=self.use_predict, alone=alone, budget=self.budget))
                except HangingError as error:
                    self.budget.root.lost[id(predictor.ask)] = str(error)
                    raise HangingError(f"{predictor.name} {error}") from None
        return said


def _join(parts: Sequence[Sequence[Outputs]]) -> list[Outputs]:
    """Return what models said in several calls as if it had been one."""
    if len(parts) == 1:
        return list(parts[0])
    joined = []
    for said in zip(*parts, strict=True):
        decided = [one.decided for one in said if one.decided is not None]
        values = np.concatenate([one.values for one in said])
        joined.append(replace(said[0], values=values, decided=np.concatenate(decided) if decided else None))
    return joined


# --- several tasks at once that share their model calls --------------------------------------------------------------

T = TypeVar("T")
Ask = Callable[[Array], Any]


@dataclass(eq=False)
class _Call:
    """How far one task is: what it asks, where it waits for what it is told, and how it ended."""

    question: tuple[Ask, Array, bool] | None = None  # the last says whether it is asked alone
    told: SimpleQueue[Any] = field(default_factory=SimpleQueue)
    ended: bool = False
    result: Any = None
    error: BaseException | None = None


class Lockstep:
    """Runs tasks in turn; questions to the same function are asked in one call, in the order of the tasks.

    Where there is a ``budget`` with a deadline, a model that hangs is left behind.
    """

    def __init__(self, batch_rows: int, budget: Budget | None = None) -> None:
        self.batch_rows = batch_rows
        self.budget = Budget() if budget is None else budget
        self.n_calls = 0
        self.n_rows = 0
        self._stopped = False
        self._turns: list[_Call] = []
        self._paused: SimpleQueue[_Call] = SimpleQueue()
        self._meters: dict[Ask, Meter] = {}

    def share(self, predictor: Predictor, number: int) -> Predictor:
        """Return the predictor with its questions put through the lockstep, as those of the task ``number``.

        It counts what its task asks; the predictor itself counts the calls that are made.
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
        """Call each task with its number, all in step, and return their results in order."""
        self._turns = [_Call() for _ in tasks]
        for number, task in enumerate(tasks):
            context = contextvars.copy_context()  # what the caller has set, for numpy or by itself, holds in tasks too
            arguments = (self._work, self._turns[number], task, number)
            threading.Thread(target=context.run, args=arguments, daemon=True).start()
        try:
            self._take_turns()
        except BaseException:  # Ctrl-C: nobody goes on asking a model behind the user's back
            self._stopped = True
            for turn in self._turns:
                turn.told.put(None)
            raise
        for turn in self._turns:
            if turn.error is not None:
                raise turn.error
        return [turn.result for turn in self._turns]

    def ask(self, number: int, function: Ask, x: Array, alone: bool = False) -> Any:
        """Put the question of task ``number`` and wait for the answer; ``alone`` it shares its call with nobody."""
        turn = self._turns[number]
        turn.question = (function, x, alone)
        self._paused.put(turn)
        answer = self._wait(turn)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def _work(self, turn: _Call, task: Callable[[int], Any], number: int) -> None:
        try:
            self._wait(turn)
            turn.result = task(number)
        except BaseException as error:
            turn.error = error
        finally:
            turn.ended = True
            self._paused.put(turn)

    def _wait(self, turn: _Call) -> Any:
        told = None if self._stopped else turn.told.get()
        if self._stopped:
            raise InterruptedError("stopped while waiting for an answer")
        return told

    def _take_turns(self) -> None:
        """Let every task run until it asks or ends, answer all questions, and so on until all have ended."""
        answers: dict[_Call, Any] = dict.fromkeys(self._turns)
        while answers:
            for turn, answer in answers.items():
                turn.told.put(answer)
                self._paused.get()
            answers = self._answer_all([turn for turn in answers if not turn.ended])

    def _answer_all(self, waiting: Sequence[_Call]) -> dict[_Call, Any]:
        """Return what each task is told, in their order."""
        asked: dict[tuple[Ask, _Call | None], dict[_Call, Array]] = {}
        for turn in waiting:
            assert turn.question is not None
            function, x, alone = turn.question
            asked.setdefault((function, turn if alone else None), {})[turn] = x
        answers: dict[_Call, Any] = {}
        for (function, _), questions in asked.items():
            answers |= self._answer(function, questions)
        return {turn: answers[turn] for turn in waiting}

    def _answer(self, function: Ask, questions: dict[_Call, Array]) -> dict[_Call, Any]:
        answers: dict[_Call, Any] = {}
        try:
            answer = self._in_batches(function, np.concatenate(list(questions.values())))
        except HangingError as error:
            return dict.fromkeys(questions, error)
        except Exception:
            # one task's trouble is not the others': ask again one by one, and let each hear its own
            for turn, x in questions.items():
                try:
                    answers[turn] = self._in_batches(function, x)
                except Exception as error:
                    answers[turn] = error
            return answers
        start = 0
        for turn, x in questions.items():
            answers[turn] = answer[start : start + len(x)]
            start += len(x)
        return answers

    def _in_batches(self, function: Ask, x: Array) -> Array:
        parts: list[Array] = []
        meter = self._meters.get(function, Meter())
        for start in range(0, len(x), self.batch_rows):
            rows = x[start : start + self.batch_rows]
            self.n_calls, meter.calls = self.n_calls + 1, meter.calls + 1
            self.n_rows, meter.rows = self.n_rows + len(rows), meter.rows + len(rows)
            with self.budget.spending(len(rows), id(function)):
                raw = self.budget.call(function, rows, id(function))
            answer = np.array(unmasked(raw))  # a copy: a runtime may write its next answer into the same memory
            if len(answer) != len(rows):
                raise ValueError(f"{len(answer)} answers for {len(rows)} rows")
            parts.append(answer)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)
