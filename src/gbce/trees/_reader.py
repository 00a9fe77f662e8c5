"""A fitted model read as a tree ensemble when somebody wants it, once, and believed after it was seen to be right."""

from collections.abc import Callable
from operator import is_
from typing import Any, NamedTuple

import numpy as np

from gbce.base import Array, Outputs
from gbce.budget import Budget
from gbce.space import Space
from gbce.trees._cells import CellTrees
from gbce.trees._read import read_cells
from gbce.trees._scores import TreeScores
from gbce.trees._structure import ModelStructure, read_structure, same_output

__all__ = ["CellReader", "Snapshot"]

# --- whether a fitted model still is what it was when it was looked at -----------------------------------------------

_MOST_PARTS = 200  # objects within a model that are looked at; by hand, so that it takes next to no time
_COUNTS = ("num_trees", "num_boosted_rounds")  # of boosters, which grow in place


class _Part(NamedTuple):
    """One object, what it held, what counts the things in it that grow in place, and how many there were."""

    thing: Any
    held: dict[str, Any]
    counts: list[Callable[[], int]]
    sizes: list[int]


class Snapshot:
    """What a model and the fitted objects within it held, by identity.

    Parameters
    ----------
    model : object
        As the user gave it.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> model = LinearRegression().fit([[0.0], [1.0]], [0.0, 1.0])
    >>> taken = Snapshot(model)
    >>> taken.holds, model.fit([[0.0], [1.0]], [5.0, 1.0]) is model, taken.holds
    (True, True, False)
    """

    def __init__(self, model: Any) -> None:
        self._parts = [_look_at(one) for one in _find_parts(model)]

    @property
    def holds(self) -> bool:
        """Whether nothing was put in another's place, and nothing has grown."""
        for thing, held, counts, sizes in self._parts:
            now = vars(thing)
            if now.keys() != held.keys() or not all(map(is_, map(now.get, held), held.values())):
                return False
            if [count() for count in counts] != sizes:
                return False
        return True


def _find_parts(model: Any) -> list[Any]:
    """Return a model and the fitted objects within it, as far as they have attributes: steps, what is wrapped."""
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


def _look_at(thing: Any) -> _Part:
    """Return what an object holds, with the lengths of lists, to which a warm start adds in place, and of a booster."""
    held = dict(vars(thing))
    counts = [value.__len__ for value in held.values() if isinstance(value, list)]
    counts += [getattr(thing, name) for name in _COUNTS if callable(getattr(thing, name, None))]
    return _Part(thing, held, counts, [count() for count in counts])


# --- a fitted model read as a tree ensemble when somebody wants it, once, and believed after it was seen -------------

# Chosen by hand: what is read wrongly is wrong in most trees, so that few rows tell.
_ROWS, _EDGES = 200, 200  # of the data, and at both sides of edges of cells, where the model must say the same
_HASTY, _FEWEST = 40, 10  # rows where a budget is short, and below which nothing is believed
_HASTY_NUMBERS = 2_000_000  # nodes times features that are read under a deadline: that takes less than a second


class CellReader:
    """Reads a model as boxes of cells at the first call, and remembers what came of it.

    Parameters
    ----------
    model : object
        As the user gave it.
    space : Space
        The features.
    rows : array of shape (n, d)
        Rows of the data, encoded.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> x = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> model = DecisionTreeRegressor(random_state=0).fit(x, [1.0, 3.0, 4.0, 9.0])
    >>> reader = CellReader(model, Space.real(1), x)
    >>> reader.read(lambda rows: Outputs(model.predict(rows))).n_cells.tolist()
    [4]
    >>> reader = CellReader(model, Space.real(1), x)
    >>> reader.read(lambda rows: Outputs(model.predict(rows) + 1)) is None, reader.note[:60]
    (True, 'What was read of the DecisionTreeRegressor differs from what')
    """

    def __init__(self, model: Any, space: Space, rows: Array) -> None:
        self._model, self._space, self._rows = model, space, rows
        self._inside: ModelStructure | None = None
        self._looked = False
        self._trees: CellTrees | None = None
        self._read = self._checked = False
        self._snapshot: Snapshot | None = None
        self.note = ""

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what was read, which another process reads again; what was seen of it holds there, too."""
        denied = self._checked and self._trees is None
        empty = {"_inside": None, "_looked": False, "_trees": None, "_read": denied, "_snapshot": None}
        return {**vars(self), **empty}

    @property
    def inside(self) -> ModelStructure | None:
        """What the model is made of, looked up once for every fit and not checked."""
        self._forget_if_refitted()
        if not self._looked:
            self._snapshot = Snapshot(self._model)
            self._inside, self._looked = read_structure(self._model, self._space), True
        return self._inside

    def read(
        self,
        ask: Callable[[Array], Outputs],
        affords: Callable[[int], int] = lambda n: n,
        budget: Budget | None = None,
    ) -> CellTrees | None:
        """Return the model as boxes of cells; None where it is no tree ensemble, or what was read is not the model.

        Parameters
        ----------
        ask : callable
            Takes rows ``(n, d)``, returns what the model itself says. It is called once: about rows of the data and
            about points at the very edges of cells.
        affords : callable, optional
            Takes a number of rows, returns how many of them may be asked about now.
        budget : Budget, optional
            With a limit, few rows are asked about; under a deadline, no large ensemble is read.
        """
        self._forget_if_refitted()
        if not self._read:
            if budget is not None and budget.deadline is not None and self._size() > _HASTY_NUMBERS:
                return None
            self._trees, self._read = read_cells(self.inside, self._space, self._rows), True
        if self._trees is None or self._checked:
            return self._trees
        x = self._rows_to_check(self._trees)
        limited = budget is not None and budget.limited
        if limited:  # and again the next time, so that the same question has the same rows left
            x = x[: affords(_HASTY)]
            if len(x) < _FEWEST:
                return None
        right = _agree(self._trees, x, ask(x))
        self._checked = not (limited and right)
        if not right:
            self._trees = None
            self.note = (
                f"What was read of the {type(self._model).__name__} differs from what it says itself, so that it is "
                "asked like any other model."
            )
        return self._trees

    def _forget_if_refitted(self) -> None:
        """Forget what was read of a model that was fitted anew in place: nothing of it holds any more."""
        if self._snapshot is not None and not self._snapshot.holds:
            self._inside, self._looked, self._trees, self._read, self._checked = None, False, None, False, False
            self._snapshot, self.note = None, ""

    def _size(self) -> int:
        parts = None if self.inside is None else self.inside.parts
        return len(parts.column) * len(self._space) if isinstance(parts, TreeScores) else 0

    def _rows_to_check(self, trees: CellTrees) -> Array:
        """Return rows of the data and, made of them, points just below and above edges ``(n, d)``."""
        rng = np.random.default_rng(0)
        some = self._rows[np.unique(np.linspace(0, len(self._rows) - 1, _ROWS).astype(int))]
        at = some[rng.integers(len(some), size=_EDGES)]
        for j in trees.used.tolist():
            edges = trees.edges[j]
            if len(edges) == 0 or self._space.is_computed[j]:
                continue
            edge = edges[rng.integers(len(edges), size=_EDGES)]
            if self._space.features[j].discrete:  # edges lie between whole numbers
                edge = edge + np.where(rng.random(_EDGES) < 0.5, -0.5, 0.5)
            else:
                edge = np.where(rng.random(_EDGES) < 0.5, edge, np.nextafter(edge, np.inf))
            at[:, j] = np.where(np.isnan(at[:, j]), at[:, j], edge)
        ends = _ends(self._space)
        low, high = np.maximum(trees.low, ends[0]), np.minimum(trees.high, ends[1])
        at = at[((at >= low) & (at <= high) | np.isnan(at)).all(axis=1)]
        if len(at):
            at = self._space.completed(at, some[0])
            at = at[self._space.admissible(at, some[0])]
        found = np.vstack([some, at])
        return found[rng.permutation(len(found))]


def _ends(space: Space) -> tuple[Array, Array]:
    """Return the bounds of features ``(d,)``, whatever the row."""
    low = [0.0 if f.unordered else -np.inf if f.low is None else f.low for f in space.features]
    high = [len(f.levels or ()) - 1.0 if f.unordered else np.inf if f.high is None else f.high for f in space.features]
    return np.array(low), np.array(high)


def _agree(trees: CellTrees, x: Array, said: Outputs) -> bool:
    """Whether cells say what the model said about rows ``(n, d)``, but for rounding."""
    known = trees.covers(x)
    mine, own = trees.outputs(trees.cells(x[known])), np.asarray(said.values)[known]
    if own.ndim == 1 and mine.ndim == 2 and mine.shape[1] == 2:  # a classifier asked for one class
        mine = mine[:, 1]
    if mine.shape != own.shape:
        return False
    return bool(np.all(np.abs(mine - own) <= same_output(trees.inside, own)))
