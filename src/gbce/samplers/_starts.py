"""Where searches begin: known rows that reach the target, and good candidates; no two searches begin alike."""

from dataclasses import dataclass, field

import numpy as np

from gbce.base import Array
from gbce.draws import Points
from gbce.posterior import GibbsPosterior
from gbce.samplers._importance import candidates
from gbce.search import Memory, Sites, find_sites, height_of, walk_out

__all__ = ["Starts"]

# Chosen by hand: more starts find more sites, each costs about a hundred rows.
_KNOWN = 12  # known rows of one search, every second of them the nearest of those that are left
_MOST_KNOWN = 500  # known rows that are looked at in all
_LOWEST, _GOOD, _GOOD_SHARE = 4, 8, 0.1  # of the candidates: the lowest, and some out of the best tenth
_WIDE, _WIDTH = 300, 2.0  # further candidates from a latent law so much wider, for what lies farther out
_LOWEST_WIDE, _GOOD_WIDE = 2, 4  # of these


@dataclass
class Starts:
    """Hands out starts, and searches from them.

    Parameters
    ----------
    posterior : GibbsPosterior
        Whose models are asked.
    rng : Generator
        For all that is picked at random.
    first : Points
        Candidates of the prior. The first two searches get a half each, later ones draw their own.
    """

    posterior: GibbsPosterior
    rng: np.random.Generator
    first: Points
    memory: Memory = field(init=False)
    plain: list[Points] = field(init=False, default_factory=list)
    _queue: Array = field(init=False)
    _each: int = field(init=False)

    def __post_init__(self) -> None:
        self.memory = Memory(self.posterior)
        self.memory.add(self.first)
        self._queue = self._line_up()
        self._each = min(_KNOWN, -(-len(self._queue) // 2))

    def search(self, extra: Points | None = None) -> Sites:
        """Search from starts that no earlier search had, and from ``extra`` points if there are any."""
        plain = self._next_candidates()
        self.plain.append(plain)
        wide = self._evaluate(_WIDTH * self.rng.standard_normal((_WIDE, self.posterior.prior.dimension)))
        parts = [self._pick(plain, _LOWEST, _GOOD), self._pick(wide, _LOWEST_WIDE, _GOOD_WIDE)]
        known, self._queue = self._queue[: self._each], self._queue[self._each :]
        if len(known):
            parts.append(self._evaluate(known))
        row = self._evaluate(np.zeros((1, self.posterior.prior.dimension)))
        parts.append(walk_out(self.posterior, row, self.memory))
        if extra is not None and len(extra):
            parts.append(extra)
        return find_sites(self.posterior, self.rng, Points.join(parts), self.memory)

    def _line_up(self) -> Array:
        """Latent points ``(n, m)`` of known rows: the nearest one and one at random, in turn."""
        rows = self.posterior.landmarks
        if rows is None or len(rows) == 0:
            return np.zeros((0, self.posterior.prior.dimension))
        some = rows if len(rows) <= _MOST_KNOWN else rows[self.rng.choice(len(rows), _MOST_KNOWN, replace=False)]
        z = self.posterior.prior.locate(some)
        nearest = np.argsort(np.square(z).sum(axis=1), kind="stable")
        both = np.stack([nearest, self.rng.permutation(len(z))], axis=1).ravel()
        _, first = np.unique(both, return_index=True)
        return z[both[np.sort(first)]]

    def _next_candidates(self) -> Points:
        number = len(self.plain)
        if number < 2:
            return self.first.take(np.arange(number, len(self.first), 2))
        return candidates(self.posterior, self.rng, max(len(self.first) // 2, 1))

    def _evaluate(self, z: Array) -> Points:
        points = Points.evaluate(self.posterior, z)
        self.memory.add(points)
        return points

    def _pick(self, points: Points, lowest: int, good: int) -> Points:
        """Pick the lowest points, and some at random out of the best tenth of the others."""
        order = np.argsort(height_of(self.posterior, points), kind="stable")
        best = order[lowest : lowest + max(int(_GOOD_SHARE * len(order)), good)]
        return points.take(np.concatenate([order[:lowest], self.rng.permutation(best)[:good]]))
