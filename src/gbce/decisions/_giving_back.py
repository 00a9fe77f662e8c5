"""Changes that a point does not need to keep its promise are given back, under the same noise as before."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gbce._numerics import SHARE_ROUNDING
from gbce.base import Array
from gbce.decisions._risk import UnderNoise

__all__ = ["GivingBack"]

# How model rows are spent, by hand. A change that matters shows under a few copies; one that does not makes no
# difference under any.
_PARTS = (0.0625, 0.25, 1.0)  # of the copies, one after the other
_SMALL = 0.05  # of the cost, by hand: a change for which nobody would write another line
_BEHIND = 1  # successes fewer than before, after which a point still goes on to the next part


@dataclass(frozen=True)
class GivingBack:
    """A search for fewer changes that succeed under as many of the same copies.

    Parameters
    ----------
    noisy : UnderNoise
        The models under noise.
    shifts : array of shape (n, d)
        Offsets of the copies.
    cost : function of points ``(k, d)``
        What they cost ``(k,)``.
    tidy : function of points ``(k, d)``
        Returns the points ``(k, d)`` that are meant.
    holds_elsewhere : function of points ``(k, d)``
        Which of them ``(k,)`` hold in other respects.
    """

    noisy: UnderNoise
    shifts: Array
    cost: Callable[[Array], Array]
    tidy: Callable[[Array], Array]
    holds_elsewhere: Callable[[Array], Array]

    def run(self, x: Array) -> Array:
        """Return ``x`` ``(d,)`` without what it does not need.

        Single changes are tried first. Of those that can be given back, as many as possible are given back together,
        those that save most first, and the others are tried again.
        """
        scene, left = self.noisy.scene, self._changes(x)
        before = np.zeros(0)  # successes of x under as many copies as it was looked at
        while len(left):
            rows, sets = self._without(x, [column[None] for column in left])
            good, after, before = self._as_good(rows, x, before)
            rows, left = rows[good], np.concatenate([left[:0], *(sets[i] for i in good)])
            several, _ = self._without(x, _beginnings(left[np.argsort(self.cost(rows), kind="stable")]))
            good, more, before = self._as_good(several, x, before)
            rows, after = np.vstack([rows, several[good]]), np.vstack([after, more])
            order = np.argsort(self.cost(rows), kind="stable").tolist()
            best = next((i for i in order if self.holds_elsewhere(rows[[i]])[0]), None)
            if best is None:
                break
            x, before = rows[best], after[best]
            left = left[scene.space.changed(x[None, :], scene.x0)[0][left]]
        return x

    def without_small(self, x: Array) -> Array:
        """Return ``x`` ``(d,)`` without all of its small changes, and without each ``(k, d)``, the cheapest first."""
        rows, sets = self._without(x, [column[None] for column in self._changes(x)])
        small = (self.cost(rows) >= (1.0 - _SMALL) * self.cost(x[None, :])).nonzero()[0]
        columns = np.concatenate([self._changes(x)[:0], *(sets[i] for i in small)])
        together, _ = self._without(x, [columns] if len(columns) > 1 else [])
        rows = np.vstack([together, rows[small]])
        return rows[np.argsort(self.cost(rows), kind="stable")]

    def _changes(self, x: Array) -> Array:
        """Return the features that ``x`` ``(d,)`` changes, but for what is computed from others."""
        space = self.noisy.scene.space
        return np.flatnonzero(space.changed(x[None, :], self.noisy.scene.x0)[0] & ~space.is_computed)

    def _without(self, x: Array, sets: list[Array]) -> tuple[Array, list[Array]]:
        """Return ``x`` without each set of changes ``(k, d)``, where that is cheaper and can be had, and the sets."""
        scene = self.noisy.scene
        rows = np.tile(x, (len(sets), 1))
        for row, columns in zip(rows, sets, strict=True):
            row[columns] = scene.x0[columns]
        rows = self.tidy(rows)
        good = scene.space.admissible(rows, scene.x0) & (self.cost(rows) < self.cost(x[None, :]))
        good &= scene.space.changed(rows, scene.x0).any(axis=1)
        return rows[good], [columns for columns, kept in zip(sets, good, strict=True) if kept]

    def _as_good(self, rows: Array, x: Array, before: Array) -> tuple[Array, Array, Array]:
        """Return positions ``(m,)`` of points that succeed as often as ``x`` ``(d,)``, and their successes ``(m, n)``.

        ``before`` are those of ``x`` under the first copies; with as many as were needed they are returned, too.
        """
        which, n = np.arange(len(rows)), len(self.shifts)
        after = np.zeros((len(rows), n))
        start = 0
        for part in _PARTS:
            stop = max(int(part * n), 1)
            if len(which) == 0 or stop == start:
                continue
            if len(before) < stop:
                both = self.noisy.successes(np.vstack([rows[which], x]), self.shifts[start:stop])
                after[which, start:stop], before = both[:-1], np.append(before, both[-1])
            else:
                after[which, start:stop] = self.noisy.successes(rows[which], self.shifts[start:stop])
            behind = before[:stop].sum() - after[which, :stop].sum(axis=1)
            which = which[behind <= (_BEHIND if stop < n else n * SHARE_ROUNDING)]
            start = stop
        return which, after[which], before


def _beginnings(columns: Array) -> list[Array]:
    """Return the first 2, 4, 8, ... columns, and all."""
    sizes = {min(2**k, len(columns)) for k in range(1, len(columns).bit_length() + 1)} - {0, 1}
    return [columns[:size] for size in sorted(sizes)]
