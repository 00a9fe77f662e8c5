"""Which rows to help for the money: an exact knapsack that looks at few of many rows.

The relaxation that allows one row to be helped in part is solved by sorting: it helps the rows with the largest gain
per cost, and the row that no longer fits in part. Its value bounds the best, and a row whose exchange would lose more
than the bound leaves is decided: of 100,000 rows some dozens are left (Dembo and Hammer, 1980). These are decided one
after the other, outwards from the row that no longer fits; of the sets so far, none is kept that costs no less than
another and gains no more, nor one whose own bound is below the best found (Pisinger, 1997).
"""

from typing import NamedTuple

import numpy as np

from gbce.base import Array

# Sets that are kept at once, and in all for one budget, by hand: some hundred are usual. Beyond, the most promising
# ones are followed, and the bound of the others tells how far the result may be from the best.
_MOST_AT_ONCE, _MOST_SETS = 200_000, 4_000_000
_ROUNDING = 1e-9  # of the budget: costs are sums of numbers from a file
_EQUAL = 1e-12  # of the largest gain: differences that are rounding

_MOST_DIGITS, _LARGEST = 4, 2.0**50  # of costs that are multiples of a step: decimals, and all that doubles keep


class Best(NamedTuple):
    """Rows to help ``(n,)``, and a bound on what any others within the budget gain: the same if they are the best."""

    helped: Array
    bound: float


class Knapsack:
    """The rows with the largest sum of gains ``(n,)`` whose costs ``(n,)`` do not exceed a budget, for many budgets."""

    def __init__(self, gains: Array, costs: Array) -> None:
        self.gains, self.costs = gains, costs
        self.order = np.argsort(-_rate(gains, costs), kind="stable")
        self.order = self.order[gains[self.order] > 0]
        self.step = _common_step(costs[self.order])

    def best(self, money: float) -> Best:
        """Return the best rows within the money."""
        room = money * (1.0 + _ROUNDING)
        order = self.order[self.costs[self.order] <= room]
        gain, cost = self.gains[order], self.costs[order]
        spent = np.cumsum(cost)
        greedy = int(np.searchsorted(spent, room, side="right"))
        taken, missed = np.arange(len(order)) < greedy, 0.0
        if greedy < len(order):
            left = room - (float(spent[greedy - 1]) if greedy else 0.0)
            if self.step:  # in whole steps: what no sum of costs can use does not count
                cost, left = np.round(cost / self.step), float(np.floor(left / self.step))
            core = _Core(gain, cost, greedy, left)
            taken[core.exchange()] ^= True
            missed = core.missed
        helped = np.zeros(len(self.gains), dtype=bool)
        helped[order[taken]] = True
        return Best(helped, float(self.gains[helped].sum()) + missed)


def _rate(gains: Array, costs: Array) -> Array:
    """Return gains per cost."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(costs > 0, gains / costs, np.inf)


def _common_step(costs: Array) -> float:
    """Return the largest number of which all costs are multiples, down to four decimals; 0 without one."""
    for digits in range(_MOST_DIGITS + 1):
        whole = np.round(costs * 10**digits)
        if (whole > _LARGEST).any():
            return 0.0
        if np.allclose(whole, costs * 10**digits, rtol=0.0, atol=1e-6):
            return float(np.gcd.reduce(whole.astype(np.int64))) / 10**digits if len(costs) else 0.0
    return 0.0


class _Layer(NamedTuple):
    """Sets of exchanges: what they cost and gain, the set that each comes from, and whether the last row is in it."""

    cost: Array
    gain: Array
    parent: Array
    exchanged: Array


class _Core:
    """Exchanges that improve the rows of the largest rates: of those helped, before ``greedy``, for those not helped.

    Rows are in the order of their rates, and ``left`` is what is left of the money.
    """

    def __init__(self, gain: Array, cost: Array, greedy: int, left: float) -> None:
        self.gain, self.cost, self.greedy, self.left = gain, cost, greedy, left
        self.sign = np.where(np.arange(len(gain)) < greedy, -1.0, 1.0)  # of the gain and the cost of an exchange
        self.rate = _rate(gain, cost)
        self.equal = _EQUAL * float(gain.max())
        # the bound of any set that exchanges a row: the first misfit is helped in part, for what is left
        self.upper = left * self.rate[greedy] - np.abs(gain - cost * self.rate[greedy])
        self.missed = 0.0  # what other exchanges may gain beside the found ones, at most

    def exchange(self) -> Array:
        """Return the positions of the best exchanges."""
        start = max(self._list_first(), key=self._gain_of)
        least = self._gain_of(start)
        open_ = np.flatnonzero(self.upper > least + self.equal)
        found, bound = self._decide(open_[open_ >= self.greedy], open_[open_ < self.greedy][::-1], least)
        best = start if found is None else found
        gained = self._gain_of(best)
        self.missed = bound - gained if bound > gained + self.equal else 0.0
        return best

    def _gain_of(self, rows: Array) -> float:
        """Return what exchanges gain."""
        return float((self.sign[rows] * self.gain[rows]).sum())

    def _list_first(self) -> list[Array]:
        """List simple exchanges: none, one row more, and the first misfit for one that is helped."""
        g, found = self.greedy, [np.zeros(0, dtype=int)]
        fits = np.flatnonzero(self.cost[g:] <= self.left) + g
        if len(fits):
            found.append(fits[[np.argmax(self.gain[fits])]])
        enough = np.flatnonzero(self.cost[:g] >= self.cost[g] - self.left)
        if len(enough):
            found.append(np.append(enough[np.argmin(self.gain[enough])], g))
        return found

    def _decide(self, outside: Array, inside: Array, least: float) -> tuple[Array | None, float]:
        """Return the best exchanges that gain more than ``least``, None without one, and the bound of all others.

        ``outside`` are rows that are not helped, ``inside`` those that are, each from the first misfit on.
        """
        sides = outside, inside
        # what is left, or is too much, counts at the rate of the next row of that side
        rates = np.append(self.rate[outside], 0.0), np.append(self.rate[inside], np.inf)
        layer = _Layer(np.zeros(1), np.zeros(1), np.zeros(1, dtype=np.int32), np.zeros(1, dtype=bool))
        back: list[tuple[int, Array, Array]] = []
        best: Array | None = None
        at, held, bound = [0, 0], 0, -np.inf
        while at[0] < len(outside) or at[1] < len(inside):
            side = 0 if at[1] == len(inside) or at[0] < min(at[1] + 1, len(outside)) else 1
            row = int(sides[side][at[side]])
            at[side] += 1
            if self.upper[row] <= least + self.equal:
                continue
            layer = self._extend(layer, self.sign[row] * self.cost[row], self.sign[row] * self.gain[row])
            over = layer.cost - self.left
            upper = layer.gain - over * np.where(over > 0, rates[1][at[1]], rates[0][at[0]])
            top = int(np.argmax(np.where(over <= 0, layer.gain, -np.inf)))
            if over[top] <= 0 and layer.gain[top] > least + self.equal:
                least = float(layer.gain[top])
                best = _trace_back([*back, (row, layer.parent, layer.exchanged)], top)
            kept = np.flatnonzero(upper > least + self.equal)
            most = min(_MOST_AT_ONCE, _MOST_SETS - held)
            if len(kept) > most:
                order = np.argsort(-upper[kept], kind="stable")
                bound = max(bound, float(upper[kept[order[most]]]))
                kept = np.sort(kept[order[:most]])
            if not len(kept):
                break
            layer = _Layer(*(column[kept] for column in layer))
            back.append((row, layer.parent, layer.exchanged))
            held += len(kept)
        return best, bound

    def _extend(self, layer: _Layer, cost: float, gain: float) -> _Layer:
        """Return the sets with and without one more exchange, without those that cost no less and gain no more."""
        n = len(layer.cost)
        costs, gains = np.concatenate([layer.cost, layer.cost + cost]), np.concatenate([layer.gain, layer.gain + gain])
        order = np.lexsort((-gains, costs))
        highest = np.maximum.accumulate(gains[order])
        order = order[np.append(True, highest[1:] > highest[:-1] + self.equal)]
        return _Layer(costs[order], gains[order], (order % n).astype(np.int32), order >= n)


def _trace_back(back: list[tuple[int, Array, Array]], at: int) -> Array:
    """Return the rows of a set by its position in the last layer."""
    rows = []
    for row, parent, exchanged in reversed(back):
        if exchanged[at]:
            rows.append(row)
        at = int(parent[at])
    return np.array(rows, dtype=int)
