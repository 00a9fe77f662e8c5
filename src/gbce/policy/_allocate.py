"""Whom to help first under a budget: the rows whose answers reach the target most often for the money.

An answer succeeds with its reliability, independently of the other rows, so that the number of rows that reach the
target is a sum of independent yes-or-no variables (Poisson binomial), whose distribution is computed exactly. The best
expected number under a budget is a knapsack, solved by mixed-integer programming.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.signal import fftconvolve

from gbce._validation import is_count, is_number, show
from gbce.base import Array
from gbce.explanation import number_text
from gbce.policy._read import AnsweredRows, PolicyResult, read_answers
from gbce.policy._serving import Prices
from gbce.space import plain_records

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gbce.explainer import Explainer

# How much the variance of the number counts against its mean, when a number has to be reached with some probability.
# For any such weight the best set is a knapsack; by hand, over the range in which a row is worth anything.
_VARIANCE_WEIGHTS = (0.0, 0.15, 0.35, 0.7, 1.0, -0.3)
_SECONDS = 20.0  # for one program; by hand, those of 100,000 rows take about one
_HALVINGS = 14  # of the money between too little and enough: to 1 in 16,000 of it
_SMALL = 200  # answers up to which their numbers are convolved directly, by hand
_LEVEL = (0.025, 0.975)  # the number of rows lies between these quantiles with probability 95%
_AROUND = 4.0  # times the budget at which the frontier ends, or where everybody is helped; by hand
_ROUNDING = 1e-9  # of the budget: costs are sums of numbers from a file


# --- the number of rows that succeed ---------------------------------------------------------------------------------


def count_distribution(probabilities: Array) -> Array:
    """Return the probabilities ``(n + 1,)`` of 0 to n successes of independent trials ``(n,)``.

    Examples
    --------
    >>> count_distribution(np.array([0.5, 0.5])).tolist()
    [0.25, 0.5, 0.25]
    """
    p = np.asarray(probabilities)
    if p.ndim != 1 or p.dtype.kind not in "fiu" or not ((p >= 0) & (p <= 1)).all():
        raise ValueError("count_distribution: probabilities must be an array of n numbers between 0 and 1")
    return _convolve(p.astype(float))


def _convolve(probabilities: Array) -> Array:
    """Return the distribution of the sum, by halves where it is long."""
    if len(probabilities) <= _SMALL:
        found = np.ones(1)
        for p in probabilities:
            found = np.convolve(found, [1.0 - p, p])
        return found
    half = len(probabilities) // 2
    found = fftconvolve(_convolve(probabilities[:half]), _convolve(probabilities[half:]))
    found = np.maximum(found, 0.0)  # rounding of the transform
    return np.asarray(found / found.sum())


def _chance(probabilities: Array, at_least: int) -> float:
    return float(count_distribution(probabilities)[at_least:].sum())


# --- the result ------------------------------------------------------------------------------------------------------


class _Best(NamedTuple):
    """Rows to help ``(n,)``, and whether the solver proved that none are better."""

    helped: Array
    proved: bool


@dataclass(frozen=True, eq=False)
class Allocation(PolicyResult):
    """Whom to help under a budget, and what more or less money would do.

    Made by :func:`gbce.policy.allocate`. ``print`` shows the sentences.

    Parameters
    ----------
    labels : Index of n
        The rows that can be helped: those with an answer that do not reach the target as they are.
    helped : ndarray of shape (n,)
        Whether a row is helped.
    costs : ndarray of shape (n,)
        The cost of each row's answer.
    reliability : ndarray of shape (n, 3)
        The probability that it reaches the target, with the ends of its interval.
    words : tuple of n str
        The answers.
    budget : float
        The money that may be spent, or is needed.
    spent : float
        The cost of the rows that are helped.
    expected : tuple of float
        The expected number of helped rows that reach the target, and the ends of its 95% interval, from those of the
        reliabilities.
    likely : tuple of int
        The number itself lies between these with probability 95%.
    at_least, chance : int and float, optional
        The number of rows asked for, and the probability with which at least so many reach the target.
    frontier : DataFrame
        By budget: ``helped``, ``spent``, ``expected`` with ``low`` and ``high``, and the range ``likely_low`` to
        ``likely_high`` of the number itself.
    proved : bool
        Whether no other rows have a higher expected number within the budget.
    prices : str
        What costs are measured in.

    Examples
    --------
    >>> import gbce
    >>> data = pd.DataFrame(np.random.default_rng(0).normal(50, 10, size=(99, 2)).round(1), columns=["pay", "debt"])
    >>> explainer = gbce.Explainer(lambda x: x["pay"] - x["debt"], data)
    >>> low = data[data["pay"] < data["debt"]].iloc[:9]
    >>> table = explainer.explain_many(low, gbce.AtLeast(0), seed=0, posterior=False, progress=False)
    >>> help = gbce.policy.allocate(table, 5.0)
    >>> bool(help.spent <= 5.0), help.rows.columns.tolist()
    (True, ['helped', 'cost', 'reliability', 'per_cost', 'changes'])
    """

    labels: pd.Index
    helped: Array
    costs: Array
    reliability: Array
    words: tuple[str, ...]
    budget: float
    spent: float
    expected: tuple[float, float, float]
    likely: tuple[int, int]
    at_least: int | None
    chance: float | None
    frontier: pd.DataFrame
    proved: bool
    prices: str
    n_without: int

    def __len__(self) -> int:
        return int(self.helped.sum())

    def __repr__(self) -> str:
        spent = number_text(self.spent, 4)
        return f"<Allocation: {len(self)} of {len(self.labels)} rows for {spent}; print(...) says more>"

    @property
    def sentences(self) -> list[str]:
        """Whom to help, what it costs and what it brings, one sentence each."""
        mean, low, high = self.expected
        unit = f" {self.prices}" if self.prices else ""
        most = f" of {number_text(self.budget, 4)}" if self.budget > self.spent else ""
        lines = [
            f"Help {len(self):,} of {len(self.labels):,} rows for {number_text(self.spent, 4)}{unit}{most}: "
            f"{mean:,.1f} are expected to reach the target (95%: {low:,.1f} to "
            f"{high:,.1f}), and with probability 95% it is {self.likely[0]:,} to {self.likely[1]:,}."
        ]
        if self.at_least is not None and self.chance is not None:
            lines.append(f"At least {self.at_least:,} reach it with probability {self.chance:.3f}.")
        if not self.proved:
            lines.append("The solver ran out of time: other rows may do slightly better.")
        if self.n_without:
            rows = "1 row has" if self.n_without == 1 else f"{self.n_without:,} rows have"
            lines.append(f"{rows} no answer that reaches the target, and cannot be helped.")
        return [*lines, "Rows succeed independently of each other, each with the reliability of its answer."]

    @property
    def rows(self) -> pd.DataFrame:
        """By row: ``helped``, ``cost``, ``reliability``, ``per_cost`` and ``changes``; those to help come first.

        Among these, and among the others, the rows with the highest reliability for their cost come first.
        """
        with np.errstate(divide="ignore"):
            rate = np.where(self.costs > 0, self.reliability[:, 0] / np.maximum(self.costs, 1e-300), np.inf)
        table = pd.DataFrame(
            {
                "helped": self.helped, "cost": self.costs, "reliability": self.reliability[:, 0], "per_cost": rate,
                "changes": list(self.words),
            },
            index=self.labels,
        )  # fmt: skip
        return table.iloc[np.lexsort((-rate, ~self.helped))]

    def frame(self) -> pd.DataFrame:
        """Return the frontier: by budget, the rows that are helped and the number that reaches the target."""
        return self.frontier.copy()

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data: strings, finite numbers, booleans, None, lists and mappings."""
        plain = ("budget", "spent", "at_least", "chance", "proved", "prices")
        return {name: getattr(self, name) for name in plain} | {
            "expected": list(self.expected),
            "likely": list(self.likely),
            "rows_without_answer": self.n_without,
            "rows": plain_records(self.rows),
            "frontier": plain_records(self.frontier),
        }

    def plot(self, *, ax: "Axes | None" = None) -> "Axes":
        """Plot the rows that reach the target against the money; see :func:`gbce.plots.plot_allocation`."""
        from gbce.plots import plot_allocation

        return plot_allocation(self, ax=ax)


# --- the call --------------------------------------------------------------------------------------------------------


def allocate(
    table: Any,
    budget: float | None = None,
    *,
    at_least: int | None = None,
    probability: float = 0.9,
    costs: Any = None,
    prices: Any = None,
    explainer: "Explainer | None" = None,
    points: int = 20,
) -> Allocation:
    """Choose the rows to help so that most reach the target for the money.

    Parameters
    ----------
    table : ExplanationTable or DataFrame
        The answers of many rows: from ``explain_many``, or stored lines (:func:`gbce.policy.read_answers`).
    budget : float, optional
        The most that may be spent, in the unit of the costs. The expected number of rows that reach the target is the
        highest possible within it.
    at_least : int, optional
        So many rows must reach the target with the given probability. With a budget, the expected number is the highest
        found under this condition; without one, the cost is the lowest found.
    probability : float
        Of reaching ``at_least`` rows.
    costs : Series, mapping, sequence or str, optional
        The cost of helping each row: by row label, in order, or the name of a column of stored lines. By default the
        cost of its answer, in units of each feature's scale.
    prices : mapping or Series of str to float, optional
        The price of one unit of a number, or of one change of a category, by column, paid for what answers change.
    explainer : Explainer, optional
        For stored lines: its space. No model is called.
    points : int
        Number of budgets on the frontier.

    Returns
    -------
    Allocation
        The rows to help, what it brings, and the frontier.

    Notes
    -----
    A row succeeds with the reliability of its answer, or surely where that is not known and the answer reaches the
    target. Rows are independent: a change of the model that hits many of them is not included.

    The choice under a budget is exact. That under ``at_least`` is the best of the sets with the best sum of mean and
    weighted variance, for several weights; its probability is exact, but another set may be slightly cheaper.

    Examples
    --------
    >>> import gbce
    >>> data = pd.DataFrame(np.random.default_rng(0).normal(50, 10, size=(99, 2)).round(1), columns=["pay", "debt"])
    >>> explainer = gbce.Explainer(lambda x: x["pay"] - x["debt"], data)
    >>> low = data[data["pay"] < data["debt"]].iloc[:9]
    >>> table = explainer.explain_many(low, gbce.AtLeast(0), seed=0, posterior=False, progress=False)
    >>> enough = gbce.policy.allocate(table, at_least=3, probability=0.9, prices={"pay": 10, "debt": 10})
    >>> enough.chance >= 0.9
    True
    """
    known = read_answers(table, explainer)
    _require_request(budget, at_least, probability, points)
    needed = ~known.already & ~known.failed
    rows = known.take(np.flatnonzero(needed & known.answered))
    if len(rows) == 0:
        raise ValueError("no row has an answer that reaches the target: nobody can be helped")
    cost, unit = _read_costs(table, known, rows, costs, prices)
    reliability = _read_reliability(rows)
    p = reliability[:, 0]
    if at_least is not None and at_least > len(rows):
        raise ValueError(f"at_least={at_least:,} is more than the {len(rows):,} rows that can be helped")
    if at_least is None:
        assert budget is not None  # one of the two is given
        best = _fill(p, cost, float(budget))
    else:
        best = _fill_surely(p, cost, budget, at_least, probability)
    money = float(budget) if budget is not None else float(cost[best.helped].sum())
    figures = _figures(best.helped, reliability)
    return Allocation(
        labels=rows.labels,
        helped=best.helped,
        costs=cost,
        reliability=reliability,
        words=tuple(map(str, rows.words)),
        budget=money,
        spent=float(cost[best.helped].sum()),
        expected=figures[:3],
        likely=figures[3:],
        at_least=at_least,
        chance=None if at_least is None else _chance(p[best.helped], at_least),
        frontier=_trace(p, cost, reliability, money, points),
        proved=best.proved,
        prices=unit,
        n_without=int((needed & ~known.answered).sum()),
    )


def _require_request(budget: Any, at_least: Any, probability: Any, points: Any) -> None:
    if budget is None and at_least is None:
        raise ValueError("give budget=, the most that may be spent, or at_least=, the number of rows to reach, or both")
    if budget is not None and not (is_number(budget) and 0 <= budget < np.inf):
        raise ValueError(f"budget must be a number of at least 0, not {budget!r}")
    if at_least is not None and not is_count(at_least):
        raise ValueError(f"at_least must be an integer, a number of rows, at least 1, not {at_least!r}")
    if not is_number(probability) or not 0 < probability < 1:
        raise ValueError(f"probability must lie between 0 and 1, not {probability!r}")
    if not is_count(points, 2):
        raise ValueError(f"points must be an integer of at least 2, not {points!r}")


def _read_reliability(rows: AnsweredRows) -> Array:
    """Return the reliabilities ``(n, 3)``, one where they are not known."""
    found = rows.reliability.copy()
    found[np.isnan(found[:, 0])] = 1.0
    ends = np.isnan(found)
    return np.where(ends, found[:, [0]], found)


def _read_costs(table: Any, known: AnsweredRows, rows: AnsweredRows, costs: Any, prices: Any) -> tuple[Array, str]:
    """Return what helping each row costs, and the unit in words."""
    if costs is not None and prices is not None:
        raise ValueError("give costs=, one for each row, or prices=, one for each column, not both")
    if prices is not None:
        priced = Prices.of(rows.space, prices)
        changed = rows.space.changed(rows.answers, rows.x0) & ~rows.space.is_computed & ~priced.priced
        if changed.any():
            i, j = np.argwhere(changed)[0]
            raise ValueError(
                f"prices has no entry for {rows.space.names[j]!r}, which the answer of row {show(rows.labels[i])} "
                "changes: give its price, or explain the rows with that column immutable"
            )
        return priced.cost(rows.answers, rows.x0), ""
    if costs is None:
        return rows.cost, "units of scale"
    return _match_costs(table, known, rows, costs), ""


def _match_costs(table: Any, known: AnsweredRows, rows: AnsweredRows, costs: Any) -> Array:
    """Return given costs of the rows that can be helped."""
    if isinstance(costs, str):
        if not isinstance(table, pd.DataFrame) or costs not in table.columns:
            raise ValueError(f"costs: the table has no column {costs!r}; give a Series by row label")
        labels = table["label"] if "label" in table.columns else table.index
        costs = dict(zip(labels, table[costs], strict=True))
    if isinstance(costs, (pd.Series, Mapping)):
        by_label = dict(costs.items())
        missing = [label for label in rows.labels if label not in by_label]
        if missing:
            raise ValueError(f"costs has no entry for row {show(missing[0])}: its index must have the row labels")
        listed: Sequence[Any] = [by_label[label] for label in rows.labels]
    else:
        whole = list(costs)
        if len(whole) != len(known):
            raise ValueError(f"costs must have one entry per row: {len(known)} rows, but {len(whole)} entries")
        place = {label: i for i, label in enumerate(known.labels)}
        if len(place) < len(known):
            raise ValueError(
                "costs in order need distinct row labels: reset the index of the rows before explaining them"
            )
        listed = [whole[place[label]] for label in rows.labels]
    for label, one in zip(rows.labels, listed, strict=True):
        if not is_number(one) or not 0 <= one < np.inf:
            raise ValueError(f"costs: the cost of row {show(label)} must be a number of at least 0, not {one!r}")
    return np.array(listed, dtype=float)


# --- programs --------------------------------------------------------------------------------------------------------


def _fill(gains: Array, cost: Array, money: float) -> _Best:
    """Return the rows with the largest sum of gains ``(n,)`` whose costs ``(n,)`` do not exceed the money."""
    room = money * (1.0 + _ROUNDING)
    open_ = np.flatnonzero((gains > 0) & (cost <= room))
    helped = np.zeros(len(gains), dtype=bool)
    if not len(open_) or cost[open_].sum() <= room:
        helped[open_] = True
        return _Best(helped, True)
    found = milp(
        -gains[open_], constraints=LinearConstraint(cost[open_][None, :] / room, -np.inf, 1.0),
        bounds=Bounds(0, 1), integrality=np.ones(len(open_)), options={"time_limit": _SECONDS, "mip_rel_gap": 0.0},
    )  # fmt: skip
    if found.x is None:  # no time for any: the best ratios that fit
        order = open_[np.argsort(-gains[open_] / np.maximum(cost[open_], 1e-300), kind="stable")]
        helped[order[np.cumsum(cost[order]) <= room]] = True
        return _Best(helped, False)
    helped[open_[found.x > 0.5]] = True
    return _Best(helped, bool(found.status == 0))


def _fill_surely(p: Array, cost: Array, budget: float | None, at_least: int, probability: float) -> _Best:
    """Return the rows that reach a number with some probability: the best within the budget, or the cheapest found."""
    gains = [p - weight * p * (1.0 - p) for weight in _VARIANCE_WEIGHTS]
    everybody = _chance(p, at_least)
    if everybody < probability:
        raise ValueError(
            f"at least {at_least:,} rows with probability {probability:g} cannot be achieved at any cost: helping all "
            f"{len(p):,} rows reaches it with probability {everybody:.3f}"
        )

    def find_enough(money: float) -> _Best | None:
        """Return the first set within the money that is enough; the first weight minds no variance."""
        tried = (_fill(one, cost, money) for one in gains)
        return next((best for best in tried if _chance(p[best.helped], at_least) >= probability), None)

    if budget is not None and (found := find_enough(float(budget))) is not None:
        return found
    cheapest = _Best(np.ones(len(p), dtype=bool), True)
    low, high = 0.0, float(cost.sum())
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        found = find_enough(middle)
        if found is None:
            low = middle
        else:
            cheapest, high = found, float(cost[found.helped].sum())
    if budget is not None:
        within = _chance(p[_fill(p, cost, float(budget)).helped], at_least)
        raise ValueError(
            f"at least {at_least:,} rows with probability {probability:g} cost {high:,.6g} at the least; within "
            f"the budget of {budget:,.6g} the probability is {within:.3f}"
        )
    return cheapest


def _figures(helped: Array, reliability: Array) -> tuple[float, float, float, int, int]:
    """Return the expected number with its interval, and the 95% range of the number itself."""
    p = reliability[helped, 0]
    mean = float(p.sum())
    # errors of single reliabilities are independent: half widths add up as squares
    below, above = (float(np.sqrt(np.square(reliability[helped, end] - p).sum())) for end in (1, 2))
    reached = np.cumsum(count_distribution(p))
    low, high = (int(np.searchsorted(reached, level)) for level in _LEVEL)
    return mean, max(mean - below, 0.0), min(mean + above, float(len(p))), min(low, len(p)), min(high, len(p))


def _trace(p: Array, cost: Array, reliability: Array, money: float, points: int) -> pd.DataFrame:
    """Return the frontier: the best rows for evenly spaced budgets around the given one, and for this."""
    total = float(cost.sum())
    end = min(total, _AROUND * money) if money > 0 else total
    budgets = np.unique(np.append(np.linspace(0.0, end, points), money))
    lines = []
    for one in budgets:
        best = _fill(p, cost, float(one))
        mean, low, high, least, most = _figures(best.helped, reliability)
        lines.append((int(best.helped.sum()), float(cost[best.helped].sum()), mean, low, high, least, most))
    names = ["helped", "spent", "expected", "low", "high", "likely_low", "likely_high"]
    return pd.DataFrame(lines, columns=names, index=pd.Index(budgets, name="budget"))
