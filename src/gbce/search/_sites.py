"""The one search: places of low objective, found from known points and drawn back towards the row in lock-step.

It works in the latent space, where every prior is ``N(0, I)`` and the *height* of a point is its potential plus half
its squared length: minus the log density of the posterior there. A known row that reaches the target is far too high
as it is, because it differs from the row in every feature. What it does not need is taken back, first many coordinates
at a time, then one by one, and what it needs is drawn back as far as that pays. Where this ends is a *site*.
"""

from typing import NamedTuple

import numpy as np

from gbce.base import Array
from gbce.budget import BudgetSpentError
from gbce.draws import Points
from gbce.posterior import GibbsPosterior
from gbce.search._asking import LEAST_GAIN, Asking, Memory, height_of, join, keep_apart, take_lower
from gbce.search._slopes import SLOPED_SHARE, Descent, find_slopes, find_slopes_and_bends

__all__ = ["Sites", "find_sites", "rows_for_search", "walk_out"]

# The numbers of this file decide where sampling begins, never what is drawn: proposals around sites are weighed by
# their density. They were chosen by hand on single trees in 10 and 29 columns, and are judged by benchmarks/trust.py.
_ROUNDS, _TRIALS = 4, 4  # of taking back random sets of coordinates, and attempts for each point in a round
_MOST_AFTER = 16  # starts that are left after these rounds
_SINGLE_ROUNDS = 4  # of taking back and drawing back single coordinates, at most
_COARSE = np.array([0.0, 0.3, 0.6, 0.8, 0.92, 1.04, 1.15])  # parts of a coordinate that are tried, zero being the row
_FINE = np.array([0.0, 0.9, 0.96, 0.985, 0.995, 1.01])  # and from the second round on, in turn with the coarse ones
_MOST_ROWS, _MOST_ROWS_PER_COORDINATE = 2_500, 80  # asked about by one search: the sum of both
_MOST_CELLS = 4_000_000  # numbers in all points that one search asks about: it bounds memory where columns are many
_LEAST_ROWS_PER_COORDINATE = 16  # whatever that takes: with fewer, a descent ends before its first steps
_BUDGET_PARTS = 4  # one part in so many of a budget may go into a search
_PROBED = 4  # starts whose slopes are looked at first: where none has any, the model is piecewise constant
_HOPELESS = 40.0  # height above the lowest at which a start is given up after the first stage
_MARGIN = 16.0  # height above the lowest at which an end is no site: e**-16 of its density; width can make up for some
_MOST_SITES = 16
_OUTWARD = np.array([-3.0, -1.5, -0.75, 0.75, 1.5, 3.0])  # steps of the walk from the row, in latent deviations
_WALK_STEPS = 6  # at most
_EXCHANGED, _EXCHANGES, _BEST_EXCHANGES = 6, 40, 3  # ends that are given values of known rows, trials, and best of them
_NEWTON_STEPS = (1, 2, 5)  # at most; in between, ends that are the same are joined


class Sites(NamedTuple):
    """Distinct places of low objective: ``k`` points, the lowest first, in ``m`` latent coordinates.

    ``height`` ``(k,)`` is minus the log density there. ``slope`` and ``bend`` ``(k, m)`` say how the potential changes
    around each: its slope, zero for a model that is piecewise constant, and its curvature over half a deviation.
    """

    points: Points
    height: Array
    slope: Array
    bend: Array

    @property
    def smooth(self) -> Array:
        """Whether each site ``(k,)`` lies on a slope in most coordinates, and not just beside the step of a tree."""
        return _on_slope(self.slope)


def _on_slope(slope: Array) -> Array:
    return np.asarray((slope != 0).mean(axis=1) > SLOPED_SHARE)


def rows_for_search(m: int) -> int:
    """Return how many rows a budget must still allow, in ``m`` coordinates, for a search to get all that it may ask."""
    most = max(_MOST_CELLS // m, _LEAST_ROWS_PER_COORDINATE * m)
    return _BUDGET_PARTS * min(_MOST_ROWS + _MOST_ROWS_PER_COORDINATE * m, most)


def find_sites(
    posterior: GibbsPosterior,
    rng: np.random.Generator,
    starts: Points,
    memory: Memory,
    donors: Array | None = None,
    others: Points | None = None,
    *,
    laws: bool = True,
) -> Sites:
    """Draw evaluated points back towards the row, all of them together, and return where they end.

    Parameters
    ----------
    posterior : GibbsPosterior
        Whose models are asked, within its budget and a limit of 2,500 rows and 80 for each coordinate.
    rng : Generator
        For sets of coordinates that are taken back together, and for wide starts.
    starts : Points
        Evaluated points; those of infinite height are left out.
    memory : Memory
        Gets every point that is asked about.
    donors : array of shape (n, m), optional
        Latent points of known rows, whose values single coordinates of the ends may be given.
    others : Points, optional
        Evaluated points; where models are smooth, those that lie lower than the ends explain are starts as well.
    laws : bool
        Whether somebody puts laws around the sites; if not, slopes and bends there are not looked at, and zero.
    """
    height = height_of(posterior, starts)
    usable = np.isfinite(height)
    now, height = starts.take(usable), height[usable]
    m = starts.z.shape[1]
    ask = Asking(posterior, memory, posterior.affords(rows_for_search(m)) // _BUDGET_PARTS)
    try:
        now, height = _take_back_sets(ask, rng, now, height)
        now, height = keep_apart(now, height, np.inf, len(height))
        slope = find_slopes(ask, now.take(np.arange(min(_PROBED, len(now)))))
        if slope.any():
            descent = Descent(ask, bool(_on_slope(slope).any()))
            now, height = descent.choose(rng, now, height)
            for steps in _NEWTON_STEPS:  # no start is hopeless before its first step
                now, height = descent.descend(now, height, steps)
                now, height = keep_apart(now, height, _HOPELESS, _MOST_AFTER)
            if others is not None:
                now, height = descent.descend_unexplained(others, now, height, _HOPELESS, _MOST_AFTER)
        now, height = keep_apart(now, height, _HOPELESS, _MOST_AFTER)
        now, height = _draw_back(ask, now, height)
        if donors is not None and len(donors):
            exchanged = _exchange(ask, rng, now, height, donors)
            now, height = keep_apart(*join(now, height, *_draw_back(ask, *exchanged)), _HOPELESS, _MOST_AFTER)
    except BudgetSpentError:  # what there is by then are sites as well, only less low
        pass
    now, height = keep_apart(now, height, _MARGIN, _MOST_SITES)
    flat = np.zeros(now.z.shape)
    if not laws:
        return Sites(now, height, flat, flat)
    ask.rows_left = max(ask.rows_left, 3 * now.z.size)  # for a last look around, whatever was spent before
    try:
        return Sites(now, height, *find_slopes_and_bends(ask, now))
    except BudgetSpentError:
        return Sites(now, height, flat, flat)


def walk_out(posterior: GibbsPosterior, row: Points, memory: Memory) -> Points:
    """Walk from the row ``(1, m)`` by changes of single coordinates, those that gain most, and return where it ends."""
    now, height = row, height_of(posterior, row)
    m = row.z.shape[1]
    ask = Asking(posterior, memory, _MOST_ROWS + _MOST_ROWS_PER_COORDINATE * m)
    try:
        for _ in range(_WALK_STEPS):
            to = now.z[:, :, None] + _OUTWARD
            now, height, gained = _try_singly(ask, now, height, to.transpose(0, 2, 1))
            if not gained:
                break
    except BudgetSpentError:
        pass
    return now


# --- stages -----------------------------------------------------------------------------------------------------------


def _take_back_sets(ask: Asking, rng: np.random.Generator, now: Points, height: Array) -> tuple[Points, Array]:
    """Take random sets of coordinates back to the centre wherever that lowers a point: many at once, or about one."""
    k, m = now.z.shape
    for _ in range(_ROUNDS if k else 0):
        part = m ** -rng.uniform(0.0, 1.0, size=(_TRIALS * k, 1))
        trial = np.where(rng.random((_TRIALS * k, m)) < part, 0.0, np.tile(now.z, (_TRIALS, 1)))
        tried, heights = ask(trial)
        now, height = take_lower(now, height, tried, heights.reshape(_TRIALS, k))
    return now, height


def _draw_back(ask: Asking, now: Points, height: Array) -> tuple[Points, Array]:
    """Draw single coordinates back until nothing is gained; ends that are the same are joined on the way."""
    for number in range(_SINGLE_ROUNDS):
        now, height, gained = _draw_back_singly(ask, now, height, _FINE if number % 2 else _COARSE)
        if number and not gained:
            break
        now, height = keep_apart(now, height, _HOPELESS, _MOST_AFTER)
    return now, height


def _exchange(ask: Asking, rng: np.random.Generator, now: Points, height: Array, donors: Array) -> tuple[Points, Array]:
    """Give the lowest points one or two coordinates of known points, or take one back: the best such changes."""
    now, height = now.take(np.arange(min(_EXCHANGED, len(now)))), height[:_EXCHANGED]
    k, m = now.z.shape
    trial = np.tile(now.z, (_EXCHANGES, 1))
    line = np.arange(len(trial))
    donor = donors[rng.integers(len(donors), size=len(trial))]
    for share in (1.0, 0.3):
        j = np.where(rng.random(len(trial)) < share, rng.integers(m, size=len(trial)), -1)
        trial[line[j >= 0], j[j >= 0]] = donor[line[j >= 0], j[j >= 0]]
    back = rng.integers(m, size=len(trial))
    kept = rng.random(len(trial)) < 0.5
    trial[line[~kept], back[~kept]] = 0.0
    tried, heights = ask(trial)
    order = np.argsort(heights.reshape(_EXCHANGES, k), axis=0, kind="stable")[:_BEST_EXCHANGES]
    best = (order * k + np.arange(k)).ravel()
    return tried.take(best), heights[best]


def _draw_back_singly(ask: Asking, now: Points, height: Array, parts: Array) -> tuple[Points, Array, bool]:
    """Draw single coordinates back, all the way or a part of it, or a little out, and join what gains."""
    return _try_singly(ask, now, height, now.z[:, None, :] * parts[:, None])


def _try_singly(ask: Asking, now: Points, height: Array, to: Array) -> tuple[Points, Array, bool]:
    """Try values ``to`` ``(k, t, m)`` of single coordinates, then the best ones of each point together."""
    k, m = now.z.shape
    start, kind, coordinate = np.nonzero(to != now.z[:, None, :])
    if len(start) == 0:
        return now, height, False
    ask.require(len(start))
    trial = now.z[start]
    trial[np.arange(len(start)), coordinate] = to[start, kind, coordinate]
    _, heights = ask(trial)
    table = np.full(to.shape, np.inf)
    table[start, kind, coordinate] = heights
    best, least = table.argmin(axis=1), table.min(axis=1)  # (k, m): for each coordinate by itself
    gains = least < height[:, None] - LEAST_GAIN / m
    if not gains.any():
        return now, height, False
    goal = np.take_along_axis(to, best[:, None, :], axis=1)[:, 0]
    # all that gain together, the better half of them, and the best one alone, which is known already
    rank = np.argsort(np.argsort(np.where(gains, least, np.inf), axis=1, kind="stable"), axis=1, kind="stable")
    count = gains.sum(axis=1)
    shares = [count, np.ceil(count / 2), np.minimum(count, 2), np.minimum(count, 1)]
    together = np.concatenate([np.where(rank < n[:, None], goal, now.z) for n in shares])
    joined, joint_heights = ask(together)
    after, height_after = take_lower(now, height, joined, joint_heights.reshape(len(shares), k))
    return after, height_after, bool((height - height_after > LEAST_GAIN).any())
