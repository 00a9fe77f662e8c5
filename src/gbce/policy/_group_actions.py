"""The result for group actions: the actions in words, whom each serves, and what they promise for other rows."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gbce._validation import is_count
from gbce.base import Array
from gbce.explanation import Mean, Share, number_text
from gbce.policy._action import Action, apply_action
from gbce.policy._read import PolicyResult
from gbce.space import Space, plain_records

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_IN_FULL = 1_000.0  # costs from here on are written without decimals, by convention


@dataclass(frozen=True, eq=False)
class GroupActions(PolicyResult):
    """At most k actions, whom each serves, and what they promise for rows that took no part in the choice.

    Made by :func:`gbce.policy.actions`. ``print`` shows the sentences.

    Parameters
    ----------
    space : Space
        The features.
    target : str
        The target in words.
    actions : tuple of m Action
        In the order in which they were chosen: the first ``j`` are the answer for ``j``.
    groups : tuple of m
        The group that an action is for, None for everybody.
    steps : tuple of m int
        At which size of the set, from 1, an action came in; with ``share="own"`` each group gets one at each step.
    coverage : tuple of Share
        By step, the share of rows that some action brings to the target, with a 95% interval, on rows that did not
        choose.
    cost : tuple of Mean
        By step, the mean cost of these rows' cheapest action, with a 95% interval; NaN where no row is served.
    group_coverage : mapping of group to tuple of Share
        The same coverage within each group; empty without groups.
    seen : tuple of float
        By step, the share of the rows that chose the actions which they serve: always a little too good.
    labels : Index of n
        The rows that had to be served: those that do not reach the target as they are and could be explained.
    row_costs : ndarray of shape (n, m)
        The cost of each action for each row, infinite where it does not serve.
    group_of_rows : tuple of n, optional
        The group of each row.
    prices : str
        What costs are measured in; empty for those of the user.
    guarantee : float
        How much of the best possible total of the same candidates the chosen ones are known to reach, 1 if they are the
        best.
    exact : bool
        Whether the set is the best for its size, rather than nested.
    n_chosen_on : int
        Number of rows that chose the actions, at random; the others measured coverage and cost.
    n_model_calls, n_model_rows : int
        What it took.

    Examples
    --------
    >>> import gbce
    >>> data = pd.DataFrame(np.random.default_rng(0).normal(50, 10, size=(99, 2)).round(1), columns=["pay", "debt"])
    >>> explainer = gbce.Explainer(lambda x: x["pay"] - x["debt"], data)
    >>> low = data[data["pay"] < data["debt"]].iloc[:9]
    >>> table = explainer.explain_many(low, gbce.AtLeast(0), seed=0, posterior=False, progress=False)
    >>> few = gbce.policy.actions(table, 2, explainer=explainer, seed=0)
    >>> len(few.actions), few.frame().columns[:3].tolist()
    (2, ['action', 'rows', 'mean_cost'])
    """

    space: Space
    target: str
    actions: tuple[Action, ...]
    groups: tuple[Any, ...]
    steps: tuple[int, ...]
    coverage: tuple[Share, ...]
    cost: tuple[Mean, ...]
    group_coverage: dict[Any, tuple[Share, ...]]
    seen: tuple[float, ...]
    labels: pd.Index
    row_costs: Array
    group_of_rows: tuple[Any, ...] | None
    prices: str
    guarantee: float
    exact: bool
    n_chosen_on: int
    n_model_calls: int
    n_model_rows: int

    def __len__(self) -> int:
        return len(self.actions)

    def __repr__(self) -> str:
        found = f"{self._percent(self.coverage[-1])} of other rows" if self.coverage else "no action found"
        return f"<GroupActions: {len(self)} actions for {len(self.labels)} rows, {found}; print(...) shows them>"

    @property
    def sentences(self) -> list[str]:
        """The actions and what they promise, one sentence each."""
        if not self.actions:
            return [f"No action brings any of the {len(self.labels)} rows to the target ({self.target})."]
        taken = self.serves
        lines = []
        for number, (action, group) in enumerate(zip(self.actions, self.groups, strict=True)):
            own = taken == number
            n = int(own.sum())
            words = action.describe(self.space)
            who = "" if group is None else f" ({group})"
            cost = f", at {self._money(self.row_costs[own, number].mean())} each" if own.any() else ""
            rows = f"{n:,} row{'s' * (n != 1)}"
            lines.append(f"{number + 1}. {words[0].upper()}{words[1:]}{who}: best for {rows}{cost}.")
        share, mean = self.coverage[-1], self.cost[-1]
        paid = f" at {self._money(mean.mean)} (95%: {_round(mean.low)} to {_round(mean.high)})" if share.share else ""
        reached = f"{self._percent(share)} reach the target ({self.target}){paid}."
        lines.append(f"Of the rows that took no part in the choice, {reached}")
        lines += [f"{group}: {self._percent(shares[-1])}." for group, shares in self.group_coverage.items()]
        rest = len(self.labels) - self.n_chosen_on
        return [*lines, f"Chosen on {self.n_chosen_on:,} of the rows at random, measured on the other {rest:,}."]

    def _money(self, cost: float) -> str:
        return f"{_round(cost)} {self.prices}".rstrip()

    @staticmethod
    def _percent(share: Share) -> str:
        return f"{share.share:.0%} (95%: {share.low:.0%} to {share.high:.0%})"

    @property
    def serves(self) -> Array:
        """By row ``(n,)``, the position of the cheapest action that serves it; -1 where none does."""
        if not self.actions:
            return np.full(len(self.labels), -1)
        return np.where(np.isfinite(self.row_costs).any(axis=1), self.row_costs.argmin(axis=1), -1)

    @property
    def rows(self) -> pd.DataFrame:
        """By row: ``action``, its number from 1 (0: none), ``cost``, and the action in ``words``."""
        serves, words = self.serves, [action.describe(self.space) for action in self.actions]
        cost = np.where(serves >= 0, self.row_costs.min(axis=1, initial=np.inf), np.nan)
        return pd.DataFrame(
            {"action": serves + 1, "cost": cost, "words": ["" if i < 0 else words[i] for i in serves]},
            index=self.labels,
        )

    def first(self, k: int) -> "GroupActions":
        """Return the result for the first ``k`` steps: nested results contain those for fewer actions."""
        if not is_count(k) or k > len(self.coverage):
            raise ValueError(f"k must be an integer from 1 to {len(self.coverage)}, not {k!r}")
        if self.exact and k < len(self.coverage):
            raise ValueError("an exact choice is not nested: ask for it with a smaller k")
        kept = [i for i, step in enumerate(self.steps) if step <= k]
        return replace(
            self,
            actions=tuple(self.actions[i] for i in kept), groups=tuple(self.groups[i] for i in kept),
            steps=tuple(self.steps[i] for i in kept), coverage=self.coverage[:k], cost=self.cost[:k],
            group_coverage={group: shares[:k] for group, shares in self.group_coverage.items()}, seen=self.seen[:k],
            row_costs=self.row_costs[:, kept],
        )  # fmt: skip

    def frame(self) -> pd.DataFrame:
        """Return one line per action: in words, whom it serves best, and the promise of all actions so far.

        Figures of the action alone and of the first actions together stand in one line: ``..._so_far`` are cumulative.

        Returns
        -------
        DataFrame
            By number from 1: ``action``; ``rows`` for which it is the cheapest that serves and their ``mean_cost``;
            ``n_changes``; ``coverage_so_far`` and ``cost_so_far`` of the actions up to this step with their intervals,
            on rows that did not choose; ``group`` if there are groups.
        """
        serves, lines = self.serves, []
        for number, (action, step) in enumerate(zip(self.actions, self.steps, strict=True)):
            own, at = serves == number, step - 1
            mean = float(self.row_costs[own, number].mean()) if own.any() else float("nan")
            share, cost = self.coverage[at], self.cost[at]
            lines.append(
                [action.describe(self.space), int(own.sum()), mean, len(action.moves), *share[:3], *cost[:3]]
            )  # fmt: skip
        so_far = [f"{name}_so_far{end}" for name in ("coverage", "cost") for end in ("", "_low", "_high")]
        columns = ["action", "rows", "mean_cost", "n_changes", *so_far]
        table = pd.DataFrame(lines, columns=columns, index=pd.RangeIndex(1, len(lines) + 1, name="number"))
        return table if self.group_of_rows is None else table.assign(group=list(self.groups))

    def apply(self, rows: Any, number: int) -> pd.DataFrame:
        """Return rows of the table after an action, by its number from 1, in their own columns.

        A row for which the action is not possible (bounds, directions, constraints) is left as it is.

        Parameters
        ----------
        rows : DataFrame or array of n rows
            In the columns of the data.
        number : int
            Which action.
        """
        if not is_count(number) or number > len(self):
            raise ValueError(f"number must be an integer from 1 to {len(self)}, not {number!r}")
        x0 = self.space.encode(rows)
        after, possible = self.space.settle_each(apply_action(self.actions[number - 1], x0), x0)
        found = self.space.frame(np.where(possible[:, None], after, x0))
        return found.set_axis(rows.index) if isinstance(rows, pd.DataFrame) else found

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data: strings, finite numbers, booleans, None, lists and mappings."""
        actions = plain_records(self.frame())
        for line, action in zip(actions, self.actions, strict=True):
            line["changes"] = action.to_dict(self.space)
        plain = ("target", "prices", "guarantee", "exact", "n_chosen_on", "n_model_calls", "n_model_rows")
        return {name: getattr(self, name) for name in plain} | {
            "actions": actions,
            "coverage": [one._asdict() for one in self.coverage],
            "cost": plain_records(pd.DataFrame([one._asdict() for one in self.cost])) if self.cost else [],
            "group_coverage": {str(g): [one._asdict() for one in found] for g, found in self.group_coverage.items()},
            "coverage_of_choosing_rows": list(self.seen),
            "rows": plain_records(self.rows),
        }

    def plot(self, *, ax: "Axes | None" = None) -> "Axes":
        """Plot coverage and cost on other rows against the number of actions; see :func:`gbce.plots.plot_actions`."""
        from gbce.plots import plot_actions

        return plot_actions(self, ax=ax)


def _round(cost: float) -> str:
    """Write a cost with four significant digits, or in full from a thousand on."""
    return number_text(round(cost), 4) if abs(cost) >= _IN_FULL else number_text(cost, 4)
