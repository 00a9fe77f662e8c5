"""Search for the nearest point with few model rows: on a surrogate, which the model confirms and corrects.

A Gaussian process is fitted to every output that was paid for, the usual search runs on it for nothing, and the points
of largest expected saving are evaluated; so it goes on, in a few calls, until the rows are used up or nothing is
expected to be saved any more.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
from scipy.special import ndtr

from gbce._numerics import first_of_each
from gbce.base import Array
from gbce.budget import BudgetSpentError
from gbce.search._candidates import CandidateMoves
from gbce.search._nearest import Evaluations, Judged, NearestPoints, find_nearest
from gbce.search._surrogate import Surrogate, fit_surrogate

__all__ = ["find_nearest_with_few_rows"]

# Chosen by hand on ten tables with four models (benchmarks/costly.py).
_ALONE = 0.25  # share of the rows for changes of one feature alone: a step of the model shows only where it is crossed
_ROUNDS = 10  # fits, and so about as many model calls
_LEAST_ROWS = 4  # of a round
_TRIED = 1_500  # points at which one search asks the surrogate
_STARTS = 12  # cheap points that reach, from which such a search undoes changes
_CAUTION = (0.0, 1.5)  # standard deviations that a point has to reach beyond the boundary, of one search and another
_LEAST_SAVING = 1e-3  # of the least cost: the search ends where less is expected
# While none reaches, the least cost counts as so many times that of the cheapest point which is about as likely to
# reach as the likeliest one.
_UNREACHED, _PROMISING = 2.0, 0.8
_RECENT, _WIDEST = 3, 5.0  # rounds whose errors widen the deviations, and by how much at most
_FARTHEST = 1e6  # shortfall: infinite ones are cut to it


def find_nearest_with_few_rows(
    around: CandidateMoves,
    judge: Callable[[Array], Judged],
    starts: Array,
    rows: int,
    *,
    trials: Array,
    evidence: tuple[Array, Array],
    power: int = 1,
    most_changes: int | None = None,
) -> NearestPoints:
    """Find the cheapest point that reaches a target for each set of changed features, with at most ``rows`` new rows.

    ``evidence`` are points ``(n, d)`` that were evaluated before, admissible or not, and their shortfalls ``(n,)``; the
    other arguments are those of :func:`find_nearest`.
    """
    search = _Search(around, judge, rows, power, most_changes, [evidence])
    search.evaluated.add(starts)
    with suppress(BudgetSpentError):
        search.run(trials)
    return search.evaluated.cheapest()


@dataclass
class _Promising:
    """Points ``(n, d)`` that the surrogate was asked about, with predicted shortfalls and their deviations ``(n,)``."""

    x: Array
    mean: Array
    sd: Array

    def take(self, which: Array) -> "_Promising":
        """Select some of the points."""
        return _Promising(self.x[which], self.mean[which], self.sd[which])


@dataclass
class _Search:
    """The rounds of one search, and what they have learned."""

    around: CandidateMoves
    judge: Callable[[Array], Judged]
    rows: int
    power: int
    most_changes: int | None
    known: list[tuple[Array, Array]]  # points and shortfalls
    missed_by: list[Array] = field(default_factory=list)  # standard deviations between proposals and the model
    evaluated: Evaluations = field(init=False)

    def __post_init__(self) -> None:
        self.evaluated = Evaluations(self.around, self._judge, lambda n: n, self.rows)

    def run(self, trials: Array) -> None:
        """Evaluate changes of one feature alone, then what the surrogate proposes."""
        alone = self.around.singles()[0][: int(_ALONE * self.rows)]
        self.evaluated.judge_all(self.around.x0[None, :], alone, trials[: int(_ALONE * self.rows)])
        batch = max(_LEAST_ROWS, -(-self.evaluated.rows_left // _ROUNDS))
        while self.evaluated.rows_left > 0:
            x, gap = self._all_known()
            surrogate = fit_surrogate(self.around.space, self.around.x0, x, gap)
            proposed = self._propose(surrogate, min(batch, self.evaluated.rows_left))
            if len(proposed.x) == 0:
                return
            (found,) = self.evaluated.judge_all(proposed.x)
            self.missed_by.append((found.gap - proposed.mean) / np.maximum(proposed.sd, np.finfo(float).tiny))

    def _judge(self, x: Array) -> Judged:
        """Ask the model, and keep what it says."""
        found = self.judge(x)
        self.known.append((x, found.gap))
        return found

    def _all_known(self) -> tuple[Array, Array]:
        """Return all evaluated points ``(n, d)`` and their shortfalls ``(n,)``, each once, the latest first."""
        x = np.vstack([points for points, _ in self.known[::-1]])
        gap = np.concatenate([gaps for _, gaps in self.known[::-1]])
        first = first_of_each(x)
        return x[first], np.clip(gap[first], -_FARTHEST, _FARTHEST)

    def _propose(self, surrogate: Surrogate, n: int) -> _Promising:
        """Return up to ``n`` new points of largest expected saving, one of each set of changes first."""
        asked = self._search_surrogate(surrogate)
        cost, changed = self.around.cost(asked.x), self.around.changed(asked.x)
        least = float(self.evaluated.cheapest().cost.min(initial=np.inf))
        likely = ndtr(-asked.mean / np.maximum(asked.sd, np.finfo(float).tiny))
        reached = np.isfinite(least)
        if not reached:
            promising = cost[likely >= _PROMISING * likely.max(initial=0.0)]
            least = _UNREACHED * float(promising.min(initial=np.inf)) if len(promising) else 0.0
        saving = np.maximum(least - cost, 0.0) * likely
        order = np.argsort(-saving, kind="stable")
        order = order[saving[order] > (_LEAST_SAVING * least if reached else 0.0)]
        leading = np.zeros(len(order), dtype=bool)
        leading[first_of_each(np.packbits(changed[order], axis=1))] = True
        return asked.take(np.concatenate([order[leading], order[~leading]])[:n])

    def _widening(self) -> float:
        """Return by how much deviations are widened: as far as earlier proposals were off, on average."""
        if not self.missed_by:
            return 1.0
        recent = np.concatenate(self.missed_by[-_RECENT:])
        return float(np.clip(np.sqrt(np.square(recent).mean()), 1.0, _WIDEST))

    def _search_surrogate(self, surrogate: Surrogate) -> _Promising:
        """Search on the surrogate, and return the new points that it was asked about, each once."""
        asked: list[tuple[Array, Array, Array]] = []
        widening = self._widening()
        cheapest = self.evaluated.cheapest().x[:_STARTS]
        for caution in _CAUTION:

            def predict(x: Array, caution: float = caution) -> Judged:
                mean, sd = surrogate.estimate(x)
                sd *= widening
                asked.append((x, mean, sd))
                return Judged(mean + caution * sd, mean + caution * sd <= 0)

            starts = cheapest[predict(cheapest).reached] if len(cheapest) else cheapest
            find_nearest(
                self.around, predict, starts, power=self.power, most_changes=self.most_changes, max_rows=_TRIED
            )
        x, mean, sd = (np.concatenate(part) for part in zip(*asked, strict=True))
        first = first_of_each(x)
        n = self.around.changed(x[first]).sum(axis=1)
        most = len(self.around.x0) if self.most_changes is None else self.most_changes
        own = first[(n > 0) & (n <= most) & self.evaluated.are_new(x[first])]
        return _Promising(x[own], mean[own], sd[own])
