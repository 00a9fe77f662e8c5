"""Reads a fitted model as a tree ensemble on first use, once per fit, and checks it against the model's predictions.

A :class:`Snapshot` detects models that were refitted in place.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from gbce.base import Array, Outputs
from gbce.budget import Budget
from gbce.posterior import GibbsPosterior
from gbce.predictors import Panel, Predictor
from gbce.space import Space
from gbce.trees._cells import CellTrees, compiled_loops, outputs_of, why_unreadable
from gbce.trees._read import read_cells
from gbce.trees._scores import TreeScores
from gbce.trees._structure import ModelStructure, read_structure, same_output

_MOST_PARTS = 200  # objects within a model that are inspected; hand-tuned, so that it takes next to no time
_COUNTS = ("num_trees", "num_boosted_rounds")  # of boosters, which grow in place
# Hand-tuned: a wrong reading is wrong in most trees, so that few rows reveal it.
_ROWS, _EDGES = 200, 200  # data rows, and points on both sides of cell edges, where the outputs must agree
_HASTY, _FEWEST = 40, 10  # rows under a tight budget, and the minimum for a check
_HASTY_NUMBERS = 2_000_000  # nodes times features read under a deadline: less than a second

# --- detecting a refit -----------------------------------------------------------------------------------------------


class Snapshot:
    """Attributes of a model and its fitted parts, by identity, to detect a refit in place."""

    def __init__(self, model: Any) -> None:
        self._parts = _find_parts(model)
        self._kept = [value for one in self._parts for value in vars(one).values()]  # so that nothing gets their ids
        grown = [value.__len__ for value in self._kept if isinstance(value, list)]  # a warm start extends these
        named: list[Any] = [getattr(one, name, None) for one in self._parts for name in _COUNTS]
        self._counts: list[Callable[[], int]] = [*grown, *(one for one in named if callable(one))]
        self._state = self._describe()

    @property
    def holds(self) -> bool:
        """Whether no attribute was replaced and nothing has grown."""
        return self._describe() == self._state

    def _describe(self) -> tuple[list[list[str]], list[int], list[int]]:
        """Return the names and identities of all attributes, and the sizes of what may grow."""
        parts = [vars(one) for one in self._parts]
        ids = list(map(id, chain.from_iterable(part.values() for part in parts)))
        return list(map(list, parts)), ids, [count() for count in self._counts]


def _find_parts(model: Any) -> list[Any]:
    """Return a model and the fitted objects within it that have attributes: steps and wrapped estimators."""
    found: list[Any] = []
    todo = [model]
    while todo and len(found) < _MOST_PARTS:
        one = todo.pop()
        if not hasattr(one, "__dict__") or isinstance(one, type) or any(one is other for other in found):
            continue
        found.append(one)
        for value in vars(one).values():
            for item in (value if isinstance(value, (list, tuple)) else [value])[:_MOST_PARTS]:
                some = item if isinstance(item, tuple) else (item,)
                todo += [each for each in some if hasattr(each, "fit") or hasattr(each, "predict")]
    return found


# --- reading and checking --------------------------------------------------------------------------------------------


class CellReader:
    """Reads a model as boxes of cells on the first call and remembers the result.

    Parameters
    ----------
    model : object
        The user's model.
    space : Space
        The features.
    rows : array of shape (n, d)
        Rows of the data, encoded.
    """

    def __init__(self, model: Any, space: Space, rows: Array) -> None:
        self._model, self._space, self._rows = model, space, rows
        self._structure: ModelStructure | None = None
        self._structure_read = False
        self._trees: CellTrees | None = None
        self._read = self._checked = False
        self._snapshot: Snapshot | None = None
        self._run: object = None  # the last run in which the model was looked at
        self.note = ""

    def __getstate__(self) -> dict[str, Any]:
        """Drop what was read, which another process reads again; keep that a check failed."""
        rejected = self._checked and self._trees is None
        empty = dict.fromkeys(("_structure", "_trees", "_snapshot", "_run"))
        return {**vars(self), **empty, "_structure_read": False, "_read": rejected}

    @property
    def inside(self) -> ModelStructure | None:
        """Structure of the model, read once per fit and not checked."""
        self._forget_if_refitted()
        if not self._structure_read:
            self._snapshot = Snapshot(self._model)
            self._structure, self._structure_read = read_structure(self._model, self._space), True
        return self._structure

    @property
    def readable(self) -> bool:
        """Whether the model is a tree ensemble that can be read, as far as is known without calling it."""
        return self.inside is not None and isinstance(self.inside.parts, TreeScores)

    def read(
        self,
        ask: Callable[[Array], Outputs],
        affords: Callable[[int], int] = lambda n: n,
        budget: Budget | None = None,
        run: object = None,
    ) -> CellTrees | None:
        """Return the model as boxes of cells; None if it is not a tree ensemble or does not agree with what was read.

        Parameters
        ----------
        ask : callable
            Takes rows ``(n, d)`` and returns the model's outputs. Called once, on data rows and points at cell edges.
        affords : callable, optional
            Takes a number of rows and returns how many of them may be evaluated now.
        budget : Budget, optional
            With a limit, few rows are evaluated; under a deadline, no large ensemble is read.
        run : object, optional
            What belongs to one run only, in which the model is looked at once.
        """
        if run is not None and run is self._run:
            return self._trees
        trees = self.read_unchecked(budget)
        if trees is None:
            return None
        if not self._checked:
            x, limited = self._rows_to_check(trees), budget is not None and budget.limited
            if limited:  # checked again in each run, so that the same question has the same rows left, half of them
                x = x[: affords(2 * _HASTY) // 2]
                if len(x) < _FEWEST:
                    return None
            agrees_with_model = _agree(trees, x, ask(x))
            self._checked = not (limited and agrees_with_model)
            if not agrees_with_model:
                self._trees = None
                self.note = (
                    f"The trees read from the {type(self._model).__name__} do not reproduce its predictions, so it is "
                    "treated as a black box."
                )
        self._run = run
        return self._trees

    def read_unchecked(self, budget: Budget | None = None) -> CellTrees | None:
        """Return the model as boxes of cells without calling it, unless a check has failed before."""
        self._forget_if_refitted()
        if not self._read:
            if budget is not None and budget.deadline is not None and self._size() > _HASTY_NUMBERS:
                return None
            self._trees, self._read = self._read_cells(), True
        return self._trees

    def _read_cells(self) -> CellTrees | None:
        """Return the model as boxes of cells, not checked yet; None, with a note, where numba is missing."""
        readable = self.inside is not None and isinstance(self.inside.parts, TreeScores)
        if readable and compiled_loops() is None:
            self.note = (
                f"numba cannot be imported, so the {type(self._model).__name__} is treated as a black box; with it, "
                "tree ensembles are read."
            )
            return None
        return read_cells(self.inside, self._space, self._rows)

    def _forget_if_refitted(self) -> None:
        """Discard what was read if the model was refitted in place."""
        if self._snapshot is not None and not self._snapshot.holds:
            self._structure = self._trees = self._snapshot = self._run = None
            self._structure_read = self._read = self._checked = False
            self.note = ""

    def _size(self) -> int:
        """Return the number of nodes times features; 0 for other models."""
        parts = None if self.inside is None else self.inside.parts
        return len(parts.column) * len(self._space) if isinstance(parts, TreeScores) else 0

    def _rows_to_check(self, trees: CellTrees) -> Array:
        """Return data rows and points derived from them just below and above edges ``(n, d)``."""
        rng = np.random.default_rng(0)
        some = self._rows[np.unique(np.linspace(0, len(self._rows) - 1, _ROWS).astype(int))]
        at = some[rng.integers(len(some), size=_EDGES)]
        for j in trees.used.tolist():
            edges = trees.edges[j]
            if len(edges) == 0 or self._space.is_computed[j]:
                continue
            edge = edges[rng.integers(len(edges), size=_EDGES)]
            if self._space.features[j].discrete:  # edges lie between integers
                edge = edge + np.where(rng.random(_EDGES) < 0.5, -0.5, 0.5)
            else:
                edge = np.where(rng.random(_EDGES) < 0.5, edge, np.nextafter(edge, np.inf))
            at[:, j] = np.where(np.isnan(at[:, j]), at[:, j], edge)
        ends = _find_bounds(self._space)
        low, high = np.maximum(trees.low, ends[0]), np.minimum(trees.high, ends[1])
        at = at[((at >= low) & (at <= high) | np.isnan(at)).all(axis=1)]
        if len(at):
            at = self._space.completed(at, some[0])
            at = at[self._space.admissible(at, some[0])]
        found = np.vstack([some, at])
        return found[rng.permutation(len(found))]


def _find_bounds(space: Space) -> tuple[Array, Array]:
    """Return the bounds of features ``(d,)``, independent of the row."""
    low = [0.0 if f.unordered else -np.inf if f.low is None else f.low for f in space.features]
    high = [len(f.levels or ()) - 1.0 if f.unordered else np.inf if f.high is None else f.high for f in space.features]
    return np.array(low), np.array(high)


def _agree(trees: CellTrees, x: Array, outputs: Outputs) -> bool:
    """Whether cells reproduce the model's outputs for rows ``(n, d)``, up to rounding."""
    known = trees.covers(x)
    mine, own = trees.outputs(trees.cells(x[known])), np.asarray(outputs.values)[known]
    if own.ndim == 1 and mine.ndim == 2 and mine.shape[1] == 2:  # the probability of one class
        mine = mine[:, 1]
    if mine.shape != own.shape:
        return False
    return bool(np.all(np.abs(mine - own) <= same_output(trees.inside, own)))


# --- reading instead of calling --------------------------------------------------------------------------------------


def read_models(posterior: GibbsPosterior) -> GibbsPosterior:
    """Return the posterior with its tree ensembles read instead of called, for searches and trials; no rows count.

    Models are read on tables only, so that figures of arrays are those of the model's own calls to the last bit, and
    without a deadline. A limit on rows does not hold for trees, but remains if one of several models cannot be read.
    """
    budget = posterior.budget
    if posterior.prior.space.columns is None or budget.deadline is not None:
        return posterior
    predictors = tuple(_read_predictor(posterior, k) for k in range(len(posterior.predictors)))
    if budget.limited:
        if any(read is own for read, own in zip(predictors, posterior.predictors, strict=True)):
            return posterior
        budget = Budget()
    return replace(posterior, predictors=predictors, budget=budget)


@dataclass(frozen=True, eq=False)
class _Reading:
    """Asks a model by reading its trees, and the model itself where they are not known."""

    trees: CellTrees
    own: Predictor
    budget: Budget

    def __call__(self, x: Array) -> Array:
        """Return the outputs of rows ``(n, d)``."""
        if not self.trees.covers(x).all():
            asked = Panel((self.own,), self.budget).ask(x)[0] if self.budget.limited else self.own(x)
            return np.asarray(asked.values)
        return outputs_of(self.trees, self.own, self.trees.scores(self.trees.cells(x))).values


def _read_predictor(posterior: GibbsPosterior, model: int) -> Predictor:
    """Return a predictor that reads the model as a tree ensemble; the model's own if that cannot be done."""
    own = posterior.predictors[model]
    if isinstance(own.ask, _Reading):  # whether the model was refitted is not checked for each batch again
        return own
    trees = posterior.read_trees(model)
    if trees is None or why_unreadable(trees, own, posterior.target):
        return own
    return replace(own, ask=_Reading(trees, own, posterior.budget), decide=None, memory=None).with_fresh_meter()
