"""Starts of mode searches: training rows that reach the target, low prior draws and hybrids; none is used twice."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from gbce._numerics import fork
from gbce.base import Array
from gbce.draws import Points
from gbce.posterior import GibbsPosterior, run_together
from gbce.samplers._importance import draw_candidates
from gbce.search import Memory, Modes, neg_log_density_of, rows_for_search, search_modes

# Chosen by hand: more starts find more modes, each costs about fifty rows.
_KNOWN = 96  # training rows of one search
_GROUPS = 12  # of training rows, by loss: those that just miss the target may be much nearer
_BEST_KNOWN = 4  # training rows of the lowest objective, evaluated as they are
_MOST_CHANGED = 100  # training rows evaluated after projection
_MOST_KNOWN = 2_000  # training rows evaluated, if they were not before
_LOWEST, _GOOD, _GOOD_SHARE = 4, 6, 0.1  # of the prior draws: the lowest, and some from the best tenth
_CORNERS = 32  # points between training rows of identical potential
_ANYWHERE = 16  # overdispersed points: with a smooth potential each leads into some basin
# Hybrids, which differ from the row in a few coordinates: their number, the most coordinates, the width of random
# values, and how many become starts: the lowest ones, and others of the best tenth.
_HYBRIDS, _FEW, _WIDTH, _LOWEST_HYBRIDS, _GOOD_HYBRIDS = 300, 4, 2.0, 12, 4


@dataclass
class Starts:
    """Selects starts, and searches for modes from them."""

    posterior: GibbsPosterior  # the target
    rng: np.random.Generator  # for all random choices
    first: Points  # prior draws. The first two searches get a half each, later ones draw their own
    memory: Memory = field(init=False)
    known: Points | None = field(init=False, default=None)
    plain: list[Points] = field(init=False, default_factory=list)
    landmarks: tuple[Array, Array] = field(init=False)
    _row: Points = field(init=False)
    _groups: list[Array] = field(init=False)
    _queue: Array = field(init=False)
    _each: int = field(init=False)

    def __post_init__(self) -> None:
        self.memory = Memory(self.posterior)
        self.memory.add(self.first)
        self._groups = self._group_known()
        self._queue = self._order_known()
        self._each = min(_KNOWN, -(-len(self._queue) // 2))

    def search_twice(self) -> list[Modes]:
        """Run the first two searches: independent, in shared model calls."""
        posterior, rows = self.posterior, rows_for_search(self.posterior.prior.dimension)
        starts = run_together(posterior, [self._prepare_starts(), self._prepare_starts()], rows)
        searches = [self._search_from(some, plain) for some, plain in zip(starts, self.plain, strict=True)]
        return run_together(posterior, searches, rows)

    def search(self, extra: Points | None = None, *, components: bool = True) -> Modes:
        """Search from starts that no earlier search had, and from ``extra`` points if there are any."""
        starts = self._prepare_starts()(self.posterior)
        starts = starts if extra is None else Points.join([starts, extra])
        return self._search_from(starts, self.plain[-1], components=components)(self.posterior)

    def _prepare_starts(self) -> Callable[[GibbsPosterior], Points]:
        """Return a function that finds starts no earlier search had, in one model call."""
        rng, plain = fork(self.rng), self._next_candidates()
        self.plain.append(plain)
        known, self._queue = self._queue[: self._each], self._queue[self._each :]

        def find_starts(posterior: GibbsPosterior) -> Points:
            anywhere = _WIDTH * rng.standard_normal((_ANYWHERE, plain.z.shape[1]))
            evaluated = self._evaluate(posterior, np.vstack([self._draw_hybrids(rng), anywhere, known, self._corners]))
            hybrids, others = evaluated.take(np.arange(_HYBRIDS)), evaluated.take(np.arange(_HYBRIDS, len(evaluated)))
            best = self._pick_low(rng, hybrids, _LOWEST_HYBRIDS, _GOOD_HYBRIDS)
            return Points.join([self._pick_low(rng, plain, _LOWEST, _GOOD), best, others])

        return find_starts

    def _search_from(
        self, starts: Points, plain: Points, *, components: bool = True
    ) -> Callable[[GibbsPosterior], Modes]:
        """Return a function that searches from these starts and from the row."""
        rng, donors = fork(self.rng), np.concatenate(self._groups) if self._groups else None
        starts = Points.join([starts, self._row])
        return lambda posterior: search_modes(posterior, rng, starts, self.memory, donors, plain, components=components)

    def _group_known(self) -> list[Array]:
        """Return latent training rows ``(n, m)`` better than the row, grouped by loss, the nearest first."""
        z, potential = self.landmarks = self._evaluate_row_and_landmarks()
        better = potential < self.posterior.mixture.potential(self._row.loss)[0]
        order = np.argsort(potential, kind="stable")
        order = order[better[order]] if better.any() else order
        groups = [z[group] for group in np.array_split(order, _GROUPS) if len(group)]
        return [group[np.argsort(np.square(group).sum(axis=1), kind="stable")] for group in groups]

    def _order_known(self) -> Array:
        """Return training rows in the order of their use: from each group in turn the nearest, and a random one."""
        if not self._groups:
            return np.zeros((0, self.posterior.prior.dimension))
        turns, parities = [], []
        for group in self._groups:
            nearest, other = np.arange(len(group)), np.argsort(self.rng.permutation(len(group)))
            turns.append(np.minimum(nearest, other))  # each row is used at the first of its two turns
            parities.append(other < nearest)
        number = np.repeat(np.arange(len(self._groups)), [len(group) for group in self._groups])
        return np.concatenate(self._groups)[np.lexsort((np.concatenate(parities), number, np.concatenate(turns)))]

    @cached_property
    def _corners(self) -> Array:
        """Latent points ``(n, m)`` nearest to zero between training rows of identical potential.

        Rows of one leaf of a tree have the same potential, and points between them lie in the leaf, nearer to its
        corner than any row of the data. The most promising are taken; groups that span several leaves may promise too
        much.
        """
        z, potential = self.landmarks
        if len(z) == 0:
            return z
        _, group, size = np.unique(potential, return_inverse=True, return_counts=True)
        low, high = np.full((len(size), z.shape[1]), np.inf), np.full((len(size), z.shape[1]), -np.inf)
        np.minimum.at(low, group, z)
        np.maximum.at(high, group, z)
        near = np.clip(0.0, low, high)
        least = np.full(len(size), np.inf)
        np.minimum.at(least, group, potential)
        neg_log_density = np.where(size > 1, least + 0.5 * np.square(near).sum(axis=1), np.inf)
        order = np.argsort(neg_log_density, kind="stable")[:_CORNERS]
        return near[order[np.isfinite(neg_log_density[order])]]

    def _draw_hybrids(self, rng: np.random.Generator) -> Array:
        """Draw latent points ``(n, m)`` with a few coordinates from a training row, or random, and zeros elsewhere."""
        m = self.posterior.prior.dimension
        z = _WIDTH * rng.standard_normal((_HYBRIDS, m))
        if self._groups:
            which = rng.integers(len(self._groups), size=_HYBRIDS)
            sizes = np.array([len(group) for group in self._groups])[which]
            # nearer rows more often
            place = (sizes * rng.random(_HYBRIDS) ** 2).astype(int)
            z = np.array([self._groups[g][i] for g, i in zip(which, place, strict=True)])
        size = rng.integers(1, min(_FEW, m) + 1, size=(_HYBRIDS, 1))
        chosen = rng.random((_HYBRIDS, m)).argsort(axis=1).argsort(axis=1) < size
        return np.where(chosen, z, 0.0)

    def _evaluate_row_and_landmarks(self) -> tuple[Array, Array]:
        """Evaluate the row and some training rows; return latent training rows ``(n, m)`` and potentials ``(n,)``.

        Training rows that are already admissible keep the loss computed at set-up; the nearest of the others are
        re-evaluated after projection. The rest is known approximately, which is enough to choose starts.
        """
        posterior = self.posterior
        rows, loss = posterior.landmarks, posterior.landmark_loss
        if rows is None or len(rows) == 0:
            none = np.zeros((0, posterior.prior.dimension))
            self._evaluate_with_row(none)
            return none, np.zeros(0)
        if loss is None:
            n = max(posterior.affords(min(len(rows), _MOST_KNOWN) + 1) - 1, 0)
            z = posterior.prior.locate(rows if len(rows) == n else rows[self.rng.choice(len(rows), n, replace=False)])
            self.known = self._evaluate_with_row(z)
            return z, posterior.mixture.potential(self.known.loss)
        z, potential = posterior.prior.locate(rows), posterior.mixture.potential(loss)
        placed = posterior.prior.place(z)
        as_it_is: Array = np.isclose(placed.x, rows, equal_nan=True).all(axis=1)  # type: ignore[assignment]
        with np.errstate(over="ignore"):
            best = np.argsort(potential + placed.cost, kind="stable")[:_BEST_KNOWN]
        changed = np.setdiff1d(np.argsort(np.square(z).sum(axis=1), kind="stable"), np.flatnonzero(as_it_is), True)
        # no decision rule may do worse than these
        evaluated = self._evaluate_with_row(z[np.union1d(best, changed[:_MOST_CHANGED])])
        unevaluated = np.zeros(loss.shape)
        every = Points(z, placed.x, unevaluated, loss, unevaluated > 0, placed.cost, placed.log_correction)
        self.known = Points.join([every.take(as_it_is), evaluated])
        return z, potential

    def _evaluate_with_row(self, z: Array) -> Points:
        """Evaluate the row and latent points ``(n, m)`` in one call; return the latter."""
        both = self._evaluate(self.posterior, np.vstack([np.zeros((1, z.shape[1])), z]))
        self._row = both.take(np.zeros(1, dtype=int))
        return both.take(np.arange(1, len(both)))

    def _next_candidates(self) -> Points:
        """Return the prior draws of the next search."""
        number = len(self.plain)
        if number < 2:
            return self.first.take(np.arange(number, len(self.first), 2))
        return draw_candidates(self.posterior, self.rng, max(len(self.first) // 2, 1))

    def _evaluate(self, posterior: GibbsPosterior, z: Array) -> Points:
        """Evaluate latent points, and remember the best."""
        points = Points.evaluate(posterior, z)
        self.memory.add(points)
        return points

    def _pick_low(self, rng: np.random.Generator, points: Points, lowest: int, good: int) -> Points:
        """Return the points of least negative log density, and some at random of the best tenth that follows."""
        order = np.argsort(neg_log_density_of(self.posterior, points), kind="stable")
        best = order[lowest : lowest + max(int(_GOOD_SHARE * len(order)), good)]
        return points.take(np.concatenate([order[:lowest], rng.permutation(best)[:good]]))
