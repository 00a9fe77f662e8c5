"""What is measured of a table and a model beside the answers: distributions against each other, and many models."""

from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

from benchmarks.rivals import multiplicity
from benchmarks.rivals._model import CountedModel
from benchmarks.rivals._posteriors import Posteriors
from benchmarks.rivals._problem import Problem
from benchmarks.rivals._protocol import CannotRunError

__all__ = ["MEASURES"]

_MOST_ROWS = 8  # of a measure that asks every pair of models about each


def _distributions(problem: Problem, seed: int) -> Iterator[dict[str, Any]]:
    """Compare the distributions for row after row."""
    sampled = Posteriors(CountedModel(problem.case.model), problem.data, problem.case.space)
    for i in range(len(problem.rows)):
        row = problem.rows.iloc[[i]]
        for line in sampled.lines(row, problem.wish(row), seed):
            yield {"row": i, **asdict(line)}


def _multiplicity(problem: Problem, seed: int) -> Iterator[dict[str, Any]]:
    """Set the bound on the cost under another model beside what is measured."""
    if problem.learn is None:
        raise CannotRunError("needs refits: nobody said how the model was fitted")
    rows = problem.rows.iloc[:_MOST_ROWS]
    wishes = [problem.wish(rows.iloc[[i]]) for i in range(len(rows))]
    model = CountedModel(problem.case.model)
    table = multiplicity.compare(model, problem.data, problem.case.space, rows, wishes, seed=seed)
    yield from table.to_dict("records")


MEASURES: dict[str, Callable[[Problem, int], Iterator[dict[str, Any]]]] = {
    "distributions": _distributions,
    "multiplicity": _multiplicity,
}
