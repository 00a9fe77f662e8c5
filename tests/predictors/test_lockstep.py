"""Tasks in step: their questions are asked in one call, and everything else is as if they ran one by one."""

import contextvars
import signal
import threading

import numpy as np
import pytest

from gbce.predictors import Lockstep
from gbce.predictors._predictor import Predictor

SETTING = contextvars.ContextVar("SETTING", default="")


class Counting:
    """Doubles the first column, and remembers how many rows each call had and in which thread it came."""

    def __init__(self):
        self.sizes, self.threads = [], set()

    def __call__(self, rows):
        self.sizes.append(len(rows))
        self.threads.add(threading.get_ident())
        if (rows[:, 0] < 0).any():
            raise ValueError("a negative number")
        return 2 * rows[:, 0]


def asking(step, model, *rounds):
    """Return a task that asks about so many rows, round after round, and adds up the answers."""

    def task(number):
        return sum(step.ask(number, model, np.full((n, 1), 10.0 * number + n)).sum() for n in rounds)

    return task


def test_questions_of_a_round_are_one_call_in_the_thread_of_the_caller():
    step, model = Lockstep(1_000), Counting()
    found = step.run([asking(step, model, 1, 2, 3), asking(step, model, 4), asking(step, model, 5, 6)])
    assert model.sizes == [10, 8, 3]
    assert model.threads == {threading.get_ident()}
    assert (step.n_calls, step.n_rows) == (3, 21)
    assert found == [2 * (1 + 2 * 2 + 3 * 3), 2 * 4 * 14, 2 * (5 * 25 + 6 * 26)]


def test_no_two_tasks_run_at_a_time_and_the_order_is_always_the_same():
    step, model, order = Lockstep(1_000), Counting(), []

    def task(number):
        for part in range(3):
            order.append((part, number))
            step.ask(number, model, np.ones((1, 1)))

    step.run([task] * 4)
    assert order == [(part, number) for part in range(3) for number in range(4)]


def test_different_functions_are_asked_separately_and_large_questions_in_batches():
    step, one, other = Lockstep(4), Counting(), Counting()
    step.run([asking(step, one, 3), asking(step, other, 2), asking(step, one, 3)])
    assert one.sizes == [4, 2]
    assert other.sizes == [2]


def test_trouble_with_one_question_is_heard_by_its_task_alone():
    step, model = Lockstep(1_000), Counting()

    def bad(number):
        step.ask(number, model, np.full((1, 1), -1.0))

    def good(number):
        found.append(float(step.ask(number, model, np.ones((1, 1)))[0]))

    found = []
    with pytest.raises(ValueError, match="a negative number"):
        step.run([bad, good])
    assert found == [2.0]


def test_steps_within_steps():
    outer, model = Lockstep(1_000), Counting()

    def explain(number):
        inner = Lockstep(1_000)

        def rule(which):
            return inner.ask(which, lambda_of[number], np.ones((1 + which, 1))).sum()

        return inner.run([rule, rule])

    lambda_of = [lambda rows, number=number: outer.ask(number, model, rows) for number in range(3)]
    assert outer.run([explain] * 3) == [[2.0, 4.0]] * 3
    assert model.sizes == [9]


def test_what_the_caller_has_set_holds_in_tasks():
    step = Lockstep(1_000)
    SETTING.set("mine")
    with np.errstate(divide="raise"):
        assert step.run([lambda number: (SETTING.get(), np.geterr()["divide"])] * 2) == [("mine", "raise")] * 2


def test_shared_predictors_count_for_themselves_and_the_predictor_what_was_called():
    step, model = Lockstep(1_000), Counting()
    predictor = Predictor("model", model)
    shared = [step.share(predictor, number) for number in range(2)]
    step.run([lambda number: shared[number](np.ones((3, 1)))] * 2)
    assert [(one.meter.calls, one.meter.rows) for one in shared] == [(1, 3), (1, 3)]
    assert (predictor.meter.calls, predictor.meter.rows) == (1, 6)


def test_an_interrupt_while_a_model_is_asked_ends_all_tasks():
    step, asked, ended = Lockstep(100), [], [threading.Event(), threading.Event()]

    def model(rows):
        asked.append(len(rows))
        raise KeyboardInterrupt

    def task(number):
        try:
            step.ask(number, model, np.ones((1, 1)))
        finally:
            ended[number].set()

    with pytest.raises(KeyboardInterrupt):
        step.run([task, task])
    assert all(one.wait(10) for one in ended)
    assert asked == [2]


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="no signal to a thread on this system")
def test_an_interrupt_while_a_task_runs_keeps_it_from_asking():
    step, model, stopped, ended = Lockstep(100), Counting(), threading.Event(), threading.Event()

    def task(number):
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        stopped.wait(0.3)
        try:
            step.ask(number, model, np.ones((1, 1)))
        finally:
            ended.set()

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # which is another one in the background
    try:
        with pytest.raises(KeyboardInterrupt):
            step.run([task])
    finally:
        signal.signal(signal.SIGINT, before)
    stopped.set()
    assert ended.wait(10)
    assert model.sizes == []
