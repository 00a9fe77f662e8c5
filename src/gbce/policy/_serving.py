"""Whom an action serves, and at what cost: all actions at all rows, in large batches, each pair once."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from gbce._numerics import row_keys
from gbce._validation import is_number, show
from gbce.base import Array, Target
from gbce.budget import Budget
from gbce.explainer import Explainer
from gbce.metrics import costs
from gbce.policy._action import Action, apply_action
from gbce.predictors import Panel
from gbce.space import Space

# Numbers in one batch of rows, by hand: 2 MB, so that memory does not grow with the table, and calls stay few.
_BATCH_CELLS = 250_000
_MOST_DATA = 2_000  # rows of the data that are evaluated, by hand: quantiles and levels need no more


@dataclass(frozen=True)
class Prices:
    """The cost of a change: per unit of a number, per change of a level; by default in units of each scale."""

    space: Space
    by_column: tuple[tuple[str, float], ...] | None = None

    @classmethod
    def of(cls, space: Space, given: Any) -> "Prices":
        """Read prices per unit of columns, from a mapping or a Series by column."""
        if given is None:
            return cls(space)
        if not isinstance(given, (Mapping, pd.Series)):
            raise TypeError(
                f"prices must be a mapping of column names to prices, such as {{'hours': 20}}, not {given!r}"
            )
        read = []
        for name, price in given.items():
            if name not in space.position:
                raise ValueError(
                    f"prices names {show(name)}, which the table does not have; columns are {list(space.names)}"
                )
            if not is_number(price) or not 0 <= price < np.inf:
                raise ValueError(f"prices: the price of {name!r} must be a number of at least 0, not {price!r}")
            read.append((str(name), float(price)))
        if not read:
            raise ValueError("prices names no column: leave it out, or give {'hours': 20}, the price of one unit")
        return cls(space, tuple(read))

    @property
    def priced(self) -> Array:
        """Whether a column has a price, ``(d,)``: no action changes another one."""
        if self.by_column is None:
            return np.ones(len(self.space), dtype=bool)
        return np.isin(self.space.names, [name for name, _ in self.by_column])

    def cost(self, x: Array, x0: Array) -> Array:
        """Return the cost ``(n,)`` of moving each row ``x0 (n, d)`` to ``x (n, d)``."""
        if self.by_column is None:
            return costs(self.space, x, x0, "l1")
        change, total = self.space.change(x, x0), np.zeros(len(x))
        for name, price in self.by_column:
            total += price * change[:, self.space.position[name]]
        return total


@dataclass(eq=False)
class Serving:
    """Evaluates actions at rows, and remembers what it evaluated for the rows that actions are chosen on."""

    space: Space
    x0: Array  # (n, d) on which actions are chosen
    prices: Prices
    ask: Callable[[Array], Array]
    affords: Callable[[int], int]
    most_cost: float = np.inf
    n_rows: int = 0
    n_calls: int = 0
    known: dict[Action, Array] = field(default_factory=dict)

    def learn(self, actions: Sequence[Action], reserve: int = 0) -> list[Action]:
        """Return the actions whose costs ``(n,)`` or inf are ``known``: the budget leaves ``reserve`` model rows."""
        new = [action for action in dict.fromkeys(actions) if action not in self.known]
        size = max(1, _BATCH_CELLS // max(self.x0.size, 1))
        for start in range(0, len(new), size):
            some = new[start : start + size]
            some = some[: max(self.affords(len(some) * len(self.x0) + reserve) - reserve, 0) // max(len(self.x0), 1)]
            if not some:
                break
            self.known |= dict(zip(some, self.evaluate(some, self.x0).T, strict=True))
        return [action for action in actions if action in self.known]

    def costs(self, actions: Sequence[Action]) -> Array:
        """Return the costs ``(n, m)`` or inf of known actions."""
        columns = [self.known[action] for action in actions]
        return np.column_stack(columns) if columns else np.zeros((len(self.x0), 0))

    def evaluate(self, actions: Sequence[Action], x0: Array) -> Array:
        """Return the costs ``(n, m)`` of actions at any rows ``(n, d)``, infinite where one does not serve."""
        found = np.full((len(x0), len(actions)), np.inf)
        size = max(1, _BATCH_CELLS // max(len(actions) * x0.shape[1], 1))
        for start in range(0, len(x0), size):
            rows = x0[start : start + size]
            found[start : start + size] = self._evaluate_block(actions, rows)
        return found

    def judge(self, x: Array) -> Array:
        """Return which rows ``(n, d)`` reach the target, in one call of the model, which is counted."""
        self.n_rows += len(x)
        self.n_calls += 1
        return self.ask(x)

    def _evaluate_block(self, actions: Sequence[Action], rows: Array) -> Array:
        """Evaluate all actions at some rows in one call of the model."""
        before = np.tile(rows, (len(actions), 1))
        after = np.concatenate([apply_action(action, rows) for action in actions]) if actions else before
        after, possible = self.space.settle_each(after, before)
        cost = self.prices.cost(after, before)
        possible &= self.space.changed(after, before).any(axis=1) & (cost <= self.most_cost)
        where = np.flatnonzero(possible)
        if len(where):
            possible[where] = self.judge(after[where])
        return np.where(possible, cost, np.inf).reshape(len(actions), len(rows)).T


def open_serving(
    explainer: Explainer, target: Target | Any, budget: Budget, x0: Array, prices: Prices, most_cost: float
) -> Serving:
    """Return what evaluates actions at rows ``(n, d)`` by the first model of an explainer."""
    predictors, resolved = explainer._session.prepare(target, budget)
    panel = Panel(predictors[:1], budget, use_predict=True)

    def reached(x: Array) -> Array:
        return np.asarray(resolved.read(panel.ask(x)[0]).reached, dtype=bool)

    return Serving(prices.space, x0, prices, reached, panel.affords, most_cost)


def split_data(serving: Serving, data: Array, excluded: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return some rows of the data ``(n, d)`` that miss the target and some that reach it, without those excluded."""
    rows = data[rng.permutation(len(data))[:_MOST_DATA]]
    keys = row_keys(np.ascontiguousarray(rows))
    known = set(keys).intersection(row_keys(np.ascontiguousarray(excluded)))
    rows = rows[[key not in known for key in keys]]
    if not len(rows) or serving.affords(2 * len(rows)) < 2 * len(rows):
        return data[:0], data[:0]
    reached = serving.judge(rows)
    return rows[~reached], rows[reached]
