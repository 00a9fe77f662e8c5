"""Numbers that depend on each other: correlated, or bound together by linear conditions."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from gbce.base import Array
from gbce.priors._laws import Law, log_mass, truncate_and_weigh, untruncate
from gbce.priors._parts import standardise

__all__ = ["Chained"]

_INSIDE = 1e-12  # relative: how far inside a condition a value stays, so that rounding does not break it
_WHOLE_ROUNDING = 1e-9  # of a step: a limit that rounding puts just short of a whole number is that number


class _Pairs(NamedTuple):
    """Conditions and features that look at each other, each feature once: positions, and the features' in a step."""

    condition: Array
    feature: Array
    row: Array


class _Step(NamedTuple):
    """Features ``(c,)`` that are drawn together, and in which conditions they are."""

    features: Array
    pairs: list[_Pairs]

    @classmethod
    def of(cls, features: Array, sides: Array) -> "_Step":
        """Find the conditions, whose coefficients are ``sides``, that look at features."""
        row, condition = np.nonzero(sides[:, features].T)
        turn = np.arange(len(row)) - np.searchsorted(row, row)  # of several conditions of a feature
        parts = [np.flatnonzero(turn == t) for t in range(turn.max(initial=-1) + 1)]
        return cls(features, [_Pairs(condition[part], features[row[part]], row[part]) for part in parts])


@dataclass(frozen=True)
class Chained:
    """Numbers that depend on each other, drawn one after another, each within what the ones before it leave.

    They are correlated (``factor``), or bound together by linear conditions ``sides @ x <= room``, or both (for limits
    alone this is the map of Geweke, Hajivassiliou and Keane). Whole numbers are cells of the continuous law.

    Parameters
    ----------
    where, law, origin, factor, low, high
        As in :class:`Reals`.
    whole : bool array of shape (k,)
        Which of them move in whole steps.
    sides, room : arrays of shape (c, k) and (c,)
        The conditions.
    """

    where: Array
    law: Law
    origin: Array
    factor: Array
    low: Array
    high: Array
    whole: Array
    sides: Array
    room: Array

    exact = False

    @property
    def covariance(self) -> Array:
        """Spread of the law."""
        lower = self._lower
        return lower @ lower.T

    @property
    def _lower(self) -> Array:
        return np.diag(self.factor) if self.factor.ndim == 1 else self.factor

    def draw(self, z: Array) -> tuple[Array, Array]:
        """Return values and their log density; minus infinity where there is no room left."""
        x, log_q, _ = self._go_through(z, None)
        return x, log_q

    def draw_values(self, z: Array) -> Array:
        """Return the values alone."""
        return self.draw(z)[0]

    def invert(self, x: Array) -> Array:
        """Return noise for values."""
        return self._go_through(np.zeros_like(x), x)[2]

    def cost(self, x: Array) -> Array:
        """Return minus the log density."""
        return self.law.cost(standardise(x - self.origin, self.factor)).sum(axis=1)

    @cached_property
    def _steps(self) -> "list[_Step]":
        """Features that are drawn together, because none of them looks at another: step by step, in order."""
        k = len(self.origin)
        number = np.arange(k)  # with a matrix each looks at all before it
        if self.factor.ndim == 1:
            shared = (self.sides != 0).T.astype(int) @ (self.sides != 0).astype(int) > 0
            for j in range(k):
                number[j] = (number[:j][shared[j, :j]] + 1).max(initial=0)
        return [_Step.of(np.flatnonzero(number == i), self.sides) for i in range(number.max(initial=-1) + 1)]

    @cached_property
    def _later(self) -> Array:
        """What features after each one can give back of the conditions' room, at least: ``(c, k)``."""
        least = np.minimum(_times(self.sides, self.low), _times(self.sides, self.high))
        later = [least[:, j + 1 :].sum(axis=1) for j in range(len(self.origin))]
        return np.array(later).reshape(len(self.origin), len(self.room)).T

    def _go_through(self, z: Array, given: Array | None) -> tuple[Array, Array, Array]:
        """Go through the features; values are drawn, or those nearest to ``given`` are taken and their noise found.

        Within a step arrays are ``(c, n)``, or ``(c, 1)`` where they are the same for all points.
        """
        (n, k), lower, alone = z.shape, self._lower, self.factor.ndim == 1
        x, e, noise = np.empty((n, k)), np.empty((n, k)), np.array(z)
        terms, used = np.empty((k, n)), np.zeros((len(self.room), n))
        for number, (step, pairs) in enumerate(self._steps):
            origin, whole = self.origin[step][:, None], self.whole[step]
            shift = origin if alone else (self.origin[step[0]] + e[:, : step[0]] @ lower[step[0], : step[0]])[None, :]
            scale, half = lower[step, step][:, None], 0.5 * whole[:, None]
            low, high = self._limits(step, pairs, used if number else used[:, :1])  # at first nothing is used
            empty = ~(low <= high)
            low, high = np.where(empty, origin, low), np.where(empty, origin, high)
            edges = (low - half - shift) / scale, (high + half - shift) / scale
            if given is not None:
                value = np.clip(given[:, step].T, low, high)
                noise[:, step] = untruncate(self.law, (value - shift) / scale, *edges).T
                log_room = log_mass(self.law, *edges)
            else:
                drawn, log_room = truncate_and_weigh(self.law, z[:, step].T, *edges)
                value = shift + scale * drawn
                if whole.any():
                    value[whole] = origin[whole] + np.round(value[whole] - origin[whole])
                value = np.clip(value, low, high)
            own = (value - shift) / scale
            x[:, step], e[:, step] = value.T, own.T
            for pair in pairs:
                used[pair.condition] += self.sides[pair.condition, pair.feature][:, None] * value[pair.row]
            log_density = self.law.log_pdf(own)
            if whole.any():
                side = (half / scale)[whole]
                log_density[whole] = log_mass(self.law, own[whole] - side, own[whole] + side)
            terms[step] = np.where(empty, np.inf, log_density - log_room)
        log_q = np.zeros(n)
        for term in terms:  # one after the other, as they would be summed feature by feature
            log_q += term
        return x, np.where(np.isnan(log_q), np.inf, log_q), noise

    def _limits(self, step: Array, pairs: "list[_Pairs]", used: Array) -> tuple[Array, Array]:
        """Limits ``(c, n)`` of features, given what is used of the conditions' room and what later ones can give."""
        low, high = self.low[step][:, None], self.high[step][:, None]
        if pairs:
            low, high = (np.repeat(end, used.shape[1], axis=1) for end in (low, high))
        for i, j, row in pairs:
            side = self.sides[i, j][:, None]
            bound = (self.room[i][:, None] - used[i] - self._later[i, j][:, None]) / side
            margin = _INSIDE * np.maximum(1.0, np.abs(np.where(np.isfinite(bound), bound, 0.0)))
            up = side[:, 0] > 0
            high[row[up]] = np.minimum(high[row[up]], (bound - margin)[up])
            low[row[~up]] = np.maximum(low[row[~up]], (bound + margin)[~up])
        whole = self.whole[step]
        if whole.any():
            origin = self.origin[step][whole][:, None]
            low, high = low.copy(), high.copy()
            low[whole] = origin + np.ceil(low[whole] - origin - _WHOLE_ROUNDING)
            high[whole] = origin + np.floor(high[whole] - origin + _WHOLE_ROUNDING)
        return low, high


def _times(sides: Array, limit: Array) -> Array:
    """Product of coefficients and limits, zero where a feature has no part in a condition."""
    with np.errstate(invalid="ignore"):
        return np.where(sides == 0, 0.0, sides * limit)
