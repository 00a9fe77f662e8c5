"""Several explanations at once that share their model calls.

Each explanation runs in a thread of its own until it asks a model. When all of them wait, their questions are put to
the model in one call, and all go on. What a model says of a row does not depend on the other rows of the call, so the
answers are those of explaining the rows one by one; a model with a cost per call is called far less often.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from gbce.base import Array
from gbce.predictors._predictor import Predictor
from gbce.space import unmasked

__all__ = ["Lockstep"]

T = TypeVar("T")
Ask = Callable[[Array], Any]


class Lockstep:
    """Runs tasks in threads; questions to the same function are asked in one call, in the order of the tasks."""

    def __init__(self, batch_rows: int) -> None:
        self.batch_rows = batch_rows
        self.n_calls = 0
        self.n_rows = 0
        self._turn = threading.Condition()
        self._running = 0
        self._stopped = False
        self._questions: dict[int, tuple[Ask, Array]] = {}
        self._answers: dict[int, Any] = {}

    def share(self, predictor: Predictor, number: int) -> Predictor:
        """Return the predictor with its questions put through the lockstep, as those of the task ``number``."""
        ask, decide = predictor.ask, predictor.decide
        return replace(
            predictor.with_fresh_meter(),
            ask=lambda rows: self.ask(number, ask, rows),
            decide=None if decide is None else lambda rows: self.ask(number, decide, rows),
        )

    def run(self, tasks: Sequence[Callable[[int], T]]) -> list[T]:
        """Call each task with its number, all in step, and return their results in order."""
        results: list[Any] = [None] * len(tasks)
        errors: list[BaseException | None] = [None] * len(tasks)

        def work(number: int) -> None:
            try:
                results[number] = tasks[number](number)
            except BaseException as error:
                errors[number] = error
            finally:
                with self._turn:
                    self._running -= 1
                    self._answer_if_all_wait()

        self._running = len(tasks)
        threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(len(tasks))]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        except BaseException:  # Ctrl-C: nobody goes on asking a model behind the user's back
            with self._turn:
                self._stopped = True
                self._turn.notify_all()
            raise
        for error in errors:
            if error is not None:
                raise error
        return results

    def ask(self, number: int, function: Ask, x: Array) -> Any:
        """Put the question of task ``number`` and wait for the answer."""
        with self._turn:
            self._questions[number] = (function, x)
            self._answer_if_all_wait()
            while number not in self._answers:
                if self._stopped:
                    raise InterruptedError("stopped while waiting for an answer")
                self._turn.wait()
            answer = self._answers.pop(number)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def _answer_if_all_wait(self) -> None:
        if self._stopped or not self._questions or len(self._questions) < self._running:
            return
        asked, self._questions = dict(sorted(self._questions.items())), {}
        functions = list(dict.fromkeys(function for function, _ in asked.values()))
        for function in functions:
            self._answer(function, {n: x for n, (f, x) in asked.items() if f is function})
        self._turn.notify_all()

    def _answer(self, function: Ask, questions: dict[int, Array]) -> None:
        together = np.concatenate(list(questions.values()))
        try:
            answer = self._in_batches(function, together)
        except Exception:
            # one row's trouble is not the others': ask again one by one, and let each hear its own
            for number, x in questions.items():
                try:
                    self._answers[number] = self._in_batches(function, x)
                except Exception as error:
                    self._answers[number] = error
            return
        start = 0
        for number, x in questions.items():
            self._answers[number] = answer[start : start + len(x)]
            start += len(x)

    def _in_batches(self, function: Ask, x: Array) -> Array:
        parts = []
        for start in range(0, len(x), self.batch_rows):
            rows = x[start : start + self.batch_rows]
            self.n_calls += 1
            self.n_rows += len(rows)
            answer = np.asarray(unmasked(function(rows)))
            if len(answer) != len(rows):
                raise ValueError(f"{len(answer)} answers for {len(rows)} rows")
            parts.append(answer)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)
