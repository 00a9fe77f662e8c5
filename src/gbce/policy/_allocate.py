"""Whom to help first under a budget: the rows whose answers reach the target most often for the money.

An answer succeeds with its reliability, independently of the other rows, so that the number of rows that reach the
target is a sum of independent yes-or-no variables (Poisson binomial), whose distribution is computed exactly. The best
expected number under a budget is a knapsack, which is solved exactly.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.fft import irfft, next_fast_len, rfft

from gbce._validation import is_count, is_number, show
from gbce.base import Array
from gbce.explanation import number_text
from gbce.policy._knapsack import Best, Knapsack
from gbce.policy._read import AnsweredRows, PolicyResult, read_answers
from gbce.policy._serving import Prices
from gbce.space import plain_records

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gbce.explainer import Explainer

# How much the variance of the number counts against its mean, when a number has to be reached with some probability.
# For any such weight the best set is a knapsack; by hand, over the range in which a row is worth anything.
_VARIANCE_WEIGHTS = (0.0, 0.15, 0.35, 0.7, 1.0, -0.3)
_HALVINGS = 14  # of the money between too little and enough: to 1 in 16,000 of it
_SMALL = 128  # answers up to which their numbers are convolved directly, by hand
_LEVEL = (0.025, 0.975)  # the number of rows lies between these quantiles with probability 95%
_AROUND = 4.0  # times the budget at which the frontier ends, or where everybody is helped; by hand
_ROUNDING = 1e-9  # of a figure: two are the same
_MEDIAN = 0.5  # a number that is reached with more than this probability is at most the median


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
    """Return the distribution of the sum: of small blocks by recursion, of two blocks by their transforms."""
    n = len(probabilities)
    n_blocks = 1 << max(int(np.ceil(np.log2(max(n, 1) / _SMALL))), 0)
    p = np.zeros((n_blocks, -(-n // n_blocks)))
    p.ravel()[:n] = probabilities
    found = np.zeros((n_blocks, p.shape[1] + 1))
    found[:, 0] = 1.0
    for one in p.T[:, :, None]:
        found[:, 1:] += one * (found[:, :-1] - found[:, 1:])
        found[:, :1] *= 1.0 - one
    while len(found) > 1:
        size = 2 * found.shape[1] - 1
        fast = next_fast_len(size, real=True)
        both = rfft(found[::2], fast, axis=1) * rfft(found[1::2], fast, axis=1)
        found = np.maximum(irfft(both, fast, axis=1)[:, :size], 0.0)  # rounding of the transform
        found /= found.sum(axis=1, keepdims=True)
    return np.asarray(found[0, : n + 1])


def _chance(probabilities: Array, at_least: int) -> float:
    return float(count_distribution(probabilities)[at_least:].sum())


# --- the result ------------------------------------------------------------------------------------------------------


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
        Whether no other rows have a higher expected number within the budget; where none is given, whether no others
        that reach ``at_least`` cost less.
    prices : str
        What costs are measured in.
    n_without : int
        Number of rows that cannot be helped: they have no answer that reaches the target.
    most_expected : float, optional
        No other rows have a higher expected number within the budget; None where no budget is given.
    least_cost : float, optional
        No other rows that reach ``at_least`` cost less; None where a budget is given.

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
    most_expected: float | None = None
    least_cost: float | None = None

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
        if not self.proved and self.most_expected is not None:
            lines.append(f"Others may do better: up to {number_text(self.most_expected, 6)} is not excluded.")
        if not self.proved and self.least_cost is not None:
            lines.append(f"Others may do so for less: {number_text(self.least_cost, 4)} is not excluded.")
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
        plain = ("budget", "spent", "at_least", "chance", "proved", "prices", "most_expected", "least_cost")
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

    The choice under a budget is exact, however many rows there are; ``proved`` and ``most_expected`` tell where it is
    not, as where reliabilities are a linear function of costs. That under ``at_least`` is the best of the sets with the
    best sum of mean and weighted variance, for several weights: its probability is exact, but another set may be
    slightly cheaper, though not than ``least_cost``.

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
        best = Knapsack(p, cost).best(float(budget))
    else:
        best = _fill_surely(p, cost, budget, at_least, probability)
    spent = float(cost[best.helped].sum())
    money, found = (float(budget), float(p[best.helped].sum())) if budget is not None else (spent, spent)
    figures = _figures(best.helped, reliability)
    return Allocation(
        labels=rows.labels,
        helped=best.helped,
        costs=cost,
        reliability=reliability,
        words=tuple(map(str, rows.words)),
        budget=money,
        spent=spent,
        expected=figures[:3],
        likely=figures[3:],
        at_least=at_least,
        chance=None if at_least is None else _chance(p[best.helped], at_least),
        frontier=_trace(p, cost, reliability, money, points),
        proved=bool(abs(best.bound - found) <= _ROUNDING * found),
        prices=unit,
        n_without=int((needed & ~known.answered).sum()),
        most_expected=None if budget is None else best.bound,
        least_cost=best.bound if budget is None else None,
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


def _fill_surely(p: Array, cost: Array, budget: float | None, at_least: int, probability: float) -> Best:
    """Return the rows that reach a number with some probability: the best within the budget, or the cheapest found."""
    programs = [Knapsack(p - weight * p * (1.0 - p), cost) for weight in _VARIANCE_WEIGHTS]
    everybody = _chance(p, at_least)
    if everybody < probability:
        raise ValueError(
            f"at least {at_least:,} rows with probability {probability:g} cannot be achieved at any cost: helping all "
            f"{len(p):,} rows reaches it with probability {everybody:.3f}"
        )

    def find_enough(money: float) -> Array | None:
        """Return the first set within the money that is enough; the first weight minds no variance."""
        tried = (one.best(money).helped for one in programs)
        return next((helped for helped in tried if _chance(p[helped], at_least) >= probability), None)

    if budget is not None and (found := find_enough(float(budget))) is not None:
        return Best(found, programs[0].best(float(budget)).bound)
    cheapest = np.ones(len(p), dtype=bool)
    low, high = 0.0, float(cost.sum())
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        found = find_enough(middle)
        if found is None:
            low = middle
        else:
            cheapest, high = found, float(cost[found].sum())
    if budget is not None:
        within = _chance(p[programs[0].best(float(budget)).helped], at_least)
        raise ValueError(
            f"at least {at_least:,} rows with probability {probability:g} cost {high:,.6g}, the least that was found; "
            f"within the budget of {budget:,.6g} the probability is {within:.3f}"
        )
    return Best(cheapest, _least_cost(p, cost, at_least, probability))


def _least_cost(p: Array, cost: Array, at_least: int, probability: float) -> float:
    """Return a bound on the cost of rows that reach a number with some probability."""
    # the mean is at least the number times the probability (Markov), and more than the number less one if it is the
    # median or less (Jogdeo and Samuels, 1968); so much is reached at the least cost if a row may be helped in part
    mean = max(at_least * probability, at_least - 1.0 if probability > _MEDIAN else 0.0)
    with np.errstate(divide="ignore"):
        order = np.argsort(np.where(p > 0, cost / p, np.inf), kind="stable")
    reached = np.append(0.0, np.cumsum(p[order]))
    return float(np.interp(mean, reached, np.append(0.0, np.cumsum(cost[order]))))


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
    program, lines = Knapsack(p, cost), []
    for one in budgets:
        helped = program.best(float(one)).helped
        lines.append((int(helped.sum()), float(cost[helped].sum()), *_figures(helped, reliability)))
    names = ["helped", "spent", "expected", "low", "high", "likely_low", "likely_high"]
    return pd.DataFrame(lines, columns=names, index=pd.Index(budgets, name="budget"))
