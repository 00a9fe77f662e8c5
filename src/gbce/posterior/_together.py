"""Tasks that do not need each other's answers ask the models together: two searches, two looks, the rules."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from gbce.posterior._posterior import GibbsPosterior
from gbce.predictors import Lockstep

__all__ = ["run_together"]

T = TypeVar("T")


def run_together(
    posterior: GibbsPosterior, tasks: Sequence[Callable[[GibbsPosterior], T]], rows: int, *, later: int | None = None
) -> list[T]:
    """Run tasks in step, so that what they ask the models at the same time is asked in one call.

    What is found does not depend on whether they run in step. They take turns instead under a deadline, where every
    call has to be timed by itself, and where rows are scarce, so that one may spend what another leaves.

    Parameters
    ----------
    posterior : GibbsPosterior
        Whose models are asked.
    tasks : sequence of functions of a posterior
        Each asks only the posterior that it is given, and shares no generator with another.
    rows : int
        Points that one of them may want to ask about.
    later : int, optional
        With it, tasks that take turns get an even share of what is left each, where so many more shares are for later.

    Returns
    -------
    list
        What the tasks return, in their order.
    """
    n, budget = len(tasks), posterior.budget
    shares = n + (1 if later is None else later)
    if n > 1 and budget.deadline is None and posterior.affords(shares * rows) == shares * rows:
        step = Lockstep(min(predictor.batch_rows for predictor in posterior.predictors))
        parts = [replace(posterior, budget=budget.share(1.0 / shares)) for _ in tasks]
        return step.run([_task_in(step, task, part) for task, part in zip(tasks, parts, strict=True)])
    found = []
    for number, task in enumerate(tasks):
        share = budget if later is None else budget.share(1.0 / (n - number + later))
        found.append(task(replace(posterior, budget=share)))
    return found


def _task_in(step: Lockstep, task: Callable[[GibbsPosterior], T], posterior: GibbsPosterior) -> Callable[[int], T]:
    def run(number: int) -> T:
        shared = tuple(step.share(predictor, number) for predictor in posterior.predictors)
        return task(replace(posterior, predictors=shared))

    return run
