"""The cheapest points that reach a target under a tree ensemble, found on its cells: no model is asked.

Around any point the leaves say what every single move of a feature would come to. Moves are made by what they gain for
their price, at several exchange rates of the two; changes that are not needed are given back; training rows and other
points that reach are starts as well; then one change is drawn back while another makes up for it; in the end pairs
of changes are looked at that leaves do not rule out and, where changing at all costs a good part of the price, what
comes of going without one of the changes. Leaves that cost more to enter than the best point are left out on the way,
which is exact and makes large forests small. What still is large gets fewer ways.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from gbce.base import Array
from gbce.search import NearestPoints
from gbce.trees._cells import CellTrees
from gbce.trees._move_table import Entries, MoveTable, enter_leaves
from gbce.trees._pairs import find_pairs
from gbce.trees._question import ReachableCells, ScoreConstraints

__all__ = ["find_nearest_cells"]

_Try = TypeVar("_Try")

# Chosen by hand, on breast cancer, diabetes and California housing: they trade time for cost.
_POWERS = (1.5, 2.5, 1.0)  # of the share of what is missing that a move gains, which is then divided by its price
_POWERS_FEW = (1.0, 2.5, 6.0)  # where the number of changes is limited, which favours moves that gain much
_STARTS = 3  # cheap points that reach, which are gone towards
_TOWARDS = 1.5  # the power for that, and for coming to fewer changes
_ROOM = 1.3  # times the price of the best: so far is gone on the way to another point
_WORTH_LAYING = 0.5  # of the leaves that are laid out: with more left, doing it again takes longer than it saves
_MOST_MOVES = 100  # of one way
_MOST_DRAWN = 6  # slots to which one change is drawn back while another makes up for it
_EXCHANGE_ROUNDS = 10
_REMOVED = 3  # changes, one at a time, that are taken away to come to fewer
_PAIR = 2  # changes, all of which are looked at
_FOR_CHANGING = 0.25  # of the best price: with more for changing at all, however little, other changes are tried
_CHECKED = 48  # moves that are checked against rules between features, the best of them
_ALIKE = 1.02  # times the least price for a number of changes: points that stand by where the model denies that one
_LEAST_SAVING = 1e-9  # of a price: less is rounding
_NOISE = 0.1  # of the rounding error of sums: what is gained less is none
# Leaves and slots, times the square of the number of features, that tries of one kind look at before no more are made:
# a hundredth of a second for two features. With more, ways are longer and more can be exchanged: on a forest of 380,000
# leaves and eight features a quarter of this makes one answer in eight 6% dearer, this none.
_MOST_WORK = 250_000
_TINY = 1e-12  # of what is missing, and of a price of nothing


def find_nearest_cells(
    trees: CellTrees,
    reachable: ReachableCells,
    constraints: ScoreConstraints,
    starts: Array | None = None,
    *,
    power: int = 1,
    most_changes: int | None = None,
    path: int = 0,
) -> NearestPoints:
    """Find cheap points that reach a target, by the leaves of a tree ensemble.

    Parameters
    ----------
    trees : CellTrees
        The ensemble.
    offers : ReachableCells
        What its cells offer around the row, and at what price.
    wish : ScoreConstraints
        What is wanted of its scores.
    starts : array of shape (s, d), optional
        Encoded points that may reach, such as training rows. Of those that do, the cheap ones are begun at.
    power : {1, 2}
        Root of the sum of prices that is the cost.
    most_changes : int, optional
        Largest number of changed features.
    path : int
        Up to this number of changes, each has a point of its own if it is dearer with fewer.

    Returns
    -------
    NearestPoints
        Points that reach by these sums, which differ from the model's own in rounding: the cheapest first. Empty where
        none was found, which does not mean that there is none.

    Examples
    --------
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> from gbce import Space
    >>> from gbce.trees import read_structure
    >>> from gbce.trees import price_units, reachable_cells
    >>> from gbce.trees import read_cells
    >>> space, x = Space.real(2), np.random.default_rng(0).normal(size=(80, 2))
    >>> model = RandomForestRegressor(10, random_state=0).fit(x, x[:, 0] + 3 * x[:, 1])
    >>> trees = read_cells(read_structure(model, space), space, x)
    >>> offers = reachable_cells(trees, space, np.zeros(2), price_units(space, np.zeros(2)))
    >>> found = find_nearest_cells(trees, offers, ScoreConstraints(np.ones((1, 1)), np.array([2.0])))
    >>> bool(model.predict(found.x[:1])[0] >= 2 - 1e-9), found.changes[:1].tolist()
    (True, [1])
    """
    search = _Search(trees, reachable, constraints)
    if len(reachable.moving):
        search.run(_place(trees, reachable, starts), most_changes, path)
    return search.sites(power)


def _place(trees: CellTrees, reachable: ReachableCells, starts: Array | None) -> Array:
    """Return the slots ``(n, m)`` of points that can be had, the cheapest first."""
    if starts is None or len(starts) == 0:
        return np.zeros((0, len(reachable.moving)), dtype=int)
    slots = reachable.slots_of(trees.cells(starts))
    slots = slots[np.lexsort(slots.T[::-1])]
    slots = slots[np.r_[True, (slots[1:] != slots[:-1]).any(axis=1)]]
    cost = reachable.cost(slots)
    slots, cost = slots[np.isfinite(cost)], cost[np.isfinite(cost)]
    return slots[np.argsort(cost, kind="stable")]


class _Search:
    """One search, with what it found: the cheapest point for every number of changes, and some beside it."""

    def __init__(self, trees: CellTrees, reachable: ReachableCells, constraints: ScoreConstraints) -> None:
        self.trees, self.reachable, self.constraints = trees, reachable, constraints
        self.ruled = bool(reachable.space.constraints) or not reachable.all_paid
        self.noise = _NOISE * constraints.rounding(trees)
        self.had = np.isfinite(reachable.price)  # slots to which a feature can move
        self.most = len(reachable.moving)  # changes that are allowed
        self.limit = np.inf  # price up to which the lines are complete
        self.n_laid = 0
        self.work = 0  # leaves and slots that were looked at
        self.seen: dict[bytes, tuple[Array, float]] = {}  # what is missing, by the slots
        self.least: dict[int, tuple[float, Array]] = {}  # by the number of changes
        self.beside: dict[bytes, tuple[float, Array]] = {}  # by what changes
        self.keeps: dict[bytes, bool] = {}  # whether slots keep the rules

    def run(self, starts: Array, most_changes: int | None, path: int) -> None:
        """Search with as many changes as are allowed, then with fewer."""
        m = len(self.reachable.moving)
        self.most = m if most_changes is None else min(most_changes, m)
        starts = self._keep_reaching(starts)
        for start in starts:
            self._note(start)
        first = _ROOM * self._best()
        entries = enter_leaves(self.trees, self.reachable, first, self.most)
        self._lay(entries, first)
        if self.ruled:  # a way from the row may be closed where moves have to be made together
            self._give_back(starts[:_STARTS])
        for power in self._worth_doing(_POWERS if self.most == m else (*_POWERS, *_POWERS_FEW[1:])):
            self._go_from_row(power)
            if _ROOM * self._best() < self.limit:
                self._lay(entries, _ROOM * self._best())
        for start in self._worth_doing(starts[:_STARTS]):
            self._go_from_row(_TOWARDS, start)
        if self._best() < np.inf:
            self._lay(entries, self._best())
            self._exchange()
            self._pair_up(entries)
            self._make_up()
        fewest = min(((price, n) for n, (price, _) in self.least.items()), default=(np.inf, 0))[1]
        if min(fewest - 1, path) > 0:
            few = enter_leaves(self.trees, self.reachable, most_changes=min(fewest - 1, path))
            for k in self._worth_doing(range(min(fewest - 1, path), 0, -1)):
                self._search_fewer(k, few)

    def _worth_doing(self, tries: Iterable[_Try]) -> Iterator[_Try]:
        """Yield tries of one kind until they have looked at too much; the first is always made."""
        before = self.work
        for one in tries:
            yield one
            if self.work - before > _MOST_WORK * len(self.reachable.moving) ** 2:
                return

    def _search_fewer(self, k: int, entries: Entries) -> None:
        """Search with at most ``k`` changes: from the row, and from the best point with more."""
        self.most = k
        self.seen = {}
        self._lay(entries, _ROOM * self._best())
        if k == 1 and not self.ruled:  # one look at the row shows all of them
            self.lines.go(self.reachable.here)
            self._look()
            return
        for power in self._worth_doing(_POWERS_FEW):
            self._go_from_row(power)
        more = min((n for n in self.least if n > k), default=None)
        if more == k + 1:
            self._take_away(self.least[more][1], _REMOVED)
        if self._best() < np.inf:
            self._exchange()

    # --- what is known ------------------------------------------------------------------------------------------

    def _best(self) -> float:
        """Return the least price with the changes that are allowed."""
        return min((price for n, (price, _) in self.least.items() if n <= self.most), default=np.inf)

    def _best_slots(self) -> Array:
        """Return the slots ``(m,)`` of the cheapest point with the changes that are allowed."""
        least = self._best()
        return next(slots for n, (price, slots) in self.least.items() if n <= self.most and price == least)

    def _changed(self, slots: Array) -> Array:
        """Return which features of slots ``(..., m)`` differ from the row's by themselves."""
        return np.asarray((slots != self.reachable.here) & self.reachable.paid)

    def _own(self) -> Array:
        """Return what each feature costs here ``(m,)``."""
        own = self.reachable.price[self.lines.slots]
        return own if self.reachable.all_paid else np.where(self.reachable.paid, own, 0.0)

    def _keep_reaching(self, slots: Array) -> Array:
        """Return those of slots ``(n, m)`` that reach and can be had."""
        slots, good = self._settle(slots)
        slots = slots[good]
        return slots[self._reach(slots)]

    def _settle(self, slots: Array) -> tuple[Array, Array]:
        """Return slots ``(n, m)`` with what follows from others, and which of them keep the rules ``(n,)``."""
        if not self.ruled or len(slots) == 0:
            return slots, np.ones(len(slots), dtype=bool)
        x = self.reachable.points(slots)
        return self._add_following(slots, x), self.reachable.space.admissible(x, self.reachable.x0)

    def _add_following(self, slots: Array, x: Array) -> Array:
        """Return slots ``(n, m)`` of points ``(n, d)`` with what follows from others."""
        if self.reachable.all_paid:
            return slots
        return np.where(self.reachable.paid, slots, self.reachable.slots_of(self.trees.cells(x)))

    def _follow(self, slots: Array) -> Array:
        """Return slots ``(m,)`` with what follows from others."""
        if self.reachable.all_paid:
            return slots
        return self._add_following(slots[None, :], self.reachable.points(slots[None, :]))[0]

    def _keeps_rules(self, slots: Array) -> bool:
        """Whether slots ``(m,)`` keep the rules; a way may lead over some that do not."""
        if not self.ruled:
            return True
        key = slots.tobytes()
        if key not in self.keeps:
            self.keeps[key] = bool(self._settle(slots[None, :])[1][0])
        return self.keeps[key]

    def _reach(self, slots: Array) -> Array:
        """Return which of slots ``(n, m)`` reach ``(n,)``."""
        if len(slots) == 0:
            return np.zeros(0, dtype=bool)
        return (
            self.constraints.missing(self.trees.scores(self.reachable.cells_at(slots)) @ self.constraints.weights.T)
            <= 0
        )

    def _note(self, slots: Array) -> None:
        """Remember slots ``(m,)`` that reach, where they are cheap for their number of changes."""
        changed = self._changed(slots)
        n, price = int(changed.sum()), float(self.reachable.cost(slots))
        if n > self.most or n == 0:
            return
        if n not in self.least or price < self.least[n][0]:
            self.least[n] = (price, slots.copy())
        elif price > _ALIKE * self.least[n][0]:
            return
        key = changed.tobytes()
        if key not in self.beside or price < self.beside[key][0]:
            self.beside[key] = (price, slots.copy())

    def sites(self, power: int) -> NearestPoints:
        """Return what was found, the cheapest first."""
        found = {slots.tobytes(): slots for _, slots in (*self.least.values(), *self.beside.values())}
        slots = np.array(list(found.values()), dtype=int).reshape(len(found), len(self.reachable.moving))
        cost, changes = self.reachable.cost(slots) ** (1.0 / power), self._changed(slots).sum(axis=1)
        order = np.lexsort((changes, cost))
        return NearestPoints(self.reachable.points(slots[order]), cost[order], changes[order])

    # --- looking around -----------------------------------------------------------------------------------------

    def _lay(self, entries: Entries, limit: float) -> None:
        """Lay out the leaves that can be entered for a price; what costs more is not known then."""
        kept = entries.within(limit, self.most)
        if self.seen and len(kept.leaf) > _WORTH_LAYING * self.n_laid:
            return
        self.n_laid = len(kept.leaf)
        self.lines = MoveTable(self.trees, self.reachable, self.constraints.weights, kept.leaf)
        self.limit = limit
        self.seen = {}

    def _look(self) -> tuple[Array, float]:
        """Return what is missing where each feature alone moves to each slot ``(N,)``, and here; note what reaches."""
        key = self.lines.slots.tobytes()
        if key not in self.seen:
            steps, here = self.lines.steps()
            self.work += self.n_laid + len(steps)
            missing = self.constraints.missing(steps)
            self.seen[key] = missing, float(self.constraints.missing(here[None, :])[0])
            self._note_next(missing)
        return self.seen[key]

    def _note_next(self, missing: Array) -> None:
        """Note the cheapest point that one move from here reaches, if there is one."""
        to = self._allow(((missing <= 0) & self.had).nonzero()[0])
        if len(to) == 0:
            return
        own = self._own()
        price = own.sum() - own[self.reachable.feature[to]] + self.reachable.price[to]
        cheap = price <= self.limit
        slots = self._pick(to[cheap], -price[cheap], reaching=True)
        if slots is not None:
            self._note(slots)

    def _allow(self, to: Array) -> Array:
        """Return those of the slots ``(k,)`` to which a feature may move within the number of changes."""
        reachable = self.reachable
        if self.most == len(reachable.moving):
            return to
        changed = self._changed(self.lines.slots)
        n = int(changed.sum())
        if n < self.most:
            return to
        feature = reachable.feature[to]
        back = reachable.here[feature] == to
        return to[back | changed[feature]] if n == self.most else to[back]

    def _pick(self, to: Array, worth: Array, *, reaching: bool = False) -> Array | None:
        """Return the slots ``(m,)`` after the move to one of ``to`` ``(k,)`` that is worth most and keeps the rules."""
        reachable, here = self.reachable, self.lines.slots
        if len(to) == 0:
            return None
        if reachable.all_paid:  # nothing else moves with it
            best = int(to[worth.argmax()])
            slots = here.copy()
            slots[reachable.feature[best]] = best
            if self._keeps_rules(slots):
                return slots
        top = to[np.argsort(-worth, kind="stable")[:_CHECKED]]
        moved = np.repeat(here[None, :], len(top), axis=0)
        moved[np.arange(len(top)), reachable.feature[top]] = top
        moved, good = self._settle(moved)
        if reaching and not reachable.all_paid:  # what follows from the move has moved, too
            good[good] = self._reach(moved[good])
        first = int(good.argmax())
        return moved[first] if good[first] else None

    # --- ways ---------------------------------------------------------------------------------------------------

    def _go_from_row(self, power: float, towards: Array | None = None) -> None:
        """Go from the row until the target is reached, and give back what is not needed."""
        reachable, within = self.reachable, self.had
        if towards is not None:
            low, high = np.minimum(reachable.here, towards), np.maximum(reachable.here, towards)
            slot = np.arange(len(reachable.price))
            within = (low[reachable.feature] <= slot) & (slot <= high[reachable.feature]) & self.had
        self.lines.go(reachable.here)
        if self._advance(power, within):
            self._go_back()

    def _advance(self, power: float, within: Array) -> bool:
        """Move by gain for the price, to slots ``within``, until the target is reached; return whether it is."""
        reachable = self.reachable
        for _ in range(_MOST_MOVES):
            missing, left = self._look()
            own = self._own()
            if own.sum() >= min(self.limit, _ROOM * self._best()):
                return False
            if left <= 0:
                return True
            gains = (left - missing > max(_TINY * left, self.noise)) & within
            to = self._allow(gains.nonzero()[0])
            price = reachable.price[to] - own[reachable.feature[to]]
            worth = (1.0 - missing[to] / left) ** power / np.maximum(price, _LEAST_SAVING)
            slots = self._pick(to, worth)
            if slots is None:
                return False
            self.lines.go(slots)
        return False

    def _go_back(self) -> None:
        """Draw changes back from a point that reaches, the largest saving first, as long as it reaches."""
        reachable = self.reachable
        for _ in range(_MOST_MOVES):
            missing, left = self._look()
            own = self._own()
            if left > 0 or not self._keeps_rules(self.lines.slots):  # what follows from others may spoil a move
                return
            self._note(self.lines.slots)
            to = (missing <= 0).nonzero()[0]
            saved = own[reachable.feature[to]] - reachable.price[to]
            enough = saved > _LEAST_SAVING * max(float(own.sum()), _TINY)
            slots = self._pick(to[enough], saved[enough], reaching=True)
            if slots is None:
                return
            self.lines.go(slots)

    def _give_back(self, starts: Sequence[Array] | Array) -> None:
        """Give changes back from points that reach and whose price is known."""
        for start in starts:
            if self.reachable.cost(start) <= self.limit:
                self.lines.go(start)
                self._go_back()

    def _exchange(self) -> None:
        """Draw one change of the best point back while another move makes up for it, as long as that saves."""
        for _ in range(_EXCHANGE_ROUNDS):
            before, best = self._best(), self._best_slots()
            for i in np.flatnonzero(self._changed(best)).tolist():
                for slot in self._worth_doing(self._nearer(i, int(best[i]))):
                    moved = best.copy()
                    moved[i] = slot
                    self.lines.go(self._follow(moved))
                    self._look()
            if self._best() >= before * (1.0 - _LEAST_SAVING):
                return
            self.lines.go(self._best_slots())
            self._go_back()

    def _pair_up(self, entries: Entries) -> None:
        """Look at pairs of changes that cost less than the best point; two may gain only together."""
        if self.most < _PAIR or not self.reachable.all_paid or self.constraints.reads is not None:
            return
        before = self._best()

        def accept(slots: Array) -> float | None:
            slots = self._keep_reaching(slots)
            if len(slots) == 0:
                return None
            self._note(slots[0])
            return float(self.reachable.cost(slots[0]))

        below, shown = before * (1.0 - _LEAST_SAVING), _CHECKED if self.ruled else 1
        find_pairs(self.trees, self.reachable, self.constraints, entries, below, accept, shown)
        if self._best() < before:
            self._exchange()

    def _make_up(self) -> None:
        """Go without single changes of the best point as long as that saves, where changing at all costs much."""
        for _ in range(_EXCHANGE_ROUNDS):
            before, best = self._best(), self._best_slots()
            changed = self._changed(best)
            if changed.sum() <= _PAIR or self.reachable.cheapest_moves()[changed].sum() < _FOR_CHANGING * before:
                return
            self._take_away(best, len(best))
            if self._best() >= before * (1.0 - _LEAST_SAVING):
                return

    def _nearer(self, i: int, slot: int) -> list[int]:
        """Return slots of a feature that are cheaper than one, at most a few, the row's own first."""
        own = np.arange(self.reachable.starts[i], self.reachable.starts[i + 1])
        own = own[self.reachable.price[own] < self.reachable.price[slot]]
        own = own[np.argsort(self.reachable.price[own], kind="stable")]
        if len(own) > _MOST_DRAWN:
            own = own[np.linspace(0, len(own) - 1, _MOST_DRAWN).astype(int)]
        return [int(one) for one in own]

    def _take_away(self, slots: Array, most: int) -> None:
        """Take at most so many single changes of a point away, one at a time, and let others make up for it."""
        if self.reachable.cost(slots) > self.limit:
            return
        self.lines.go(slots)
        missing, _ = self._look()
        changed = np.flatnonzero(self._changed(slots))
        order = np.argsort(missing[self.reachable.here[changed]], kind="stable")[:most]
        for i in changed[order].tolist():
            fewer = slots.copy()
            fewer[i] = self.reachable.here[i]
            self.lines.go(self._follow(fewer))
            if self._advance(_TOWARDS, self.had):
                self._go_back()
