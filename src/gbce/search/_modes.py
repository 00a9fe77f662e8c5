"""The one search: places of low objective, found from known points and drawn back towards the row in lock-step.

It works in the latent space, where every prior is ``N(0, I)`` and the *height* of a point is its potential plus half
its squared length: minus the log density of the posterior there. A known row that reaches the target is far too high
as it is, because it differs from the row in every feature. What it does not need is taken back, first many coordinates
at a time, then one by one, and what it needs is drawn back as far as that pays. Where this ends is a *site*.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from gbce.base import Array
from gbce.budget import BudgetSpentError
from gbce.draws import Points
from gbce.posterior import GibbsPosterior
from gbce.search._objective import (
    LEAST_GAIN,
    SLOPED_SHARE,
    BudgetedObjective,
    Descent,
    Memory,
    find_gradients_and_curvatures,
    find_slopes,
    join,
    keep_apart,
    neg_log_density_of,
    potential_of,
    take_lower,
)

__all__ = ["Modes", "rows_for_search", "search_modes", "walk_out"]

# The numbers of this file decide where sampling begins, never what is drawn: proposals around sites are weighed by
# their density. They were chosen by hand on single trees in 10 and 29 columns, and are judged by benchmarks/trust.py.
_STEPS, _SLOPED_STEPS = 40, 12  # of taking coordinates back; on a slope, single ones are not what is too much
_DRAWN_IN, _HALVINGS = 40, 5  # points drawn in coordinate by coordinate, and halvings of what may be too far
_SAME_POTENTIAL = 1e-9  # by rounding
_CROSSED, _CROSS_STEPS = 8, 12  # points whose changes are joined, and steps of taking back what that did not need
_MOST_AFTER = 16  # starts that are left after these rounds
_SINGLE_ROUNDS = 4  # of taking back and drawing back single coordinates, at most
_COARSE = np.array([0.0, 0.3, 0.6, 0.8, 0.92, 1.04, 1.15])  # parts of a coordinate that are tried, zero being the row
_FINE = np.array([0.0, 0.9, 0.96, 0.985, 0.995, 1.01])  # and from the second round on, in turn with the coarse ones
_MOST_ROWS, _MOST_ROWS_PER_COORDINATE = 5_000, 80  # asked about by one search: the sum of both
_MOST_CELLS = 4_000_000  # numbers in all points that one search asks about: it bounds memory where columns are many
_LEAST_ROWS_PER_COORDINATE = 16  # whatever that takes: with fewer, a descent ends before its first steps
_BUDGET_PARTS = 4  # one part in so many of a budget may go into a search
_PROBED = 4  # starts whose slopes are looked at first: where none has any, the model is piecewise constant
_HOPELESS = 40.0  # height above the lowest at which a start is given up after the first stage
_MARGIN = 16.0  # height above the lowest at which an end is no site: e**-16 of its density; width can make up for some
_MOST_MODES = 16
_OUTWARD = np.array([-3.0, -1.5, -0.75, 0.75, 1.5, 3.0])  # steps of the walk from the row, in latent deviations
_WALK_STEPS = 6  # at most
# Ends whose changes are exchanged for values of known rows, trials, and the probability that a change is given up.
_FEWER_ON_SLOPES = 8  # times: there, descents have exchanged changes already
_EXCHANGED, _EXCHANGES_PER_COORDINATE, _MOST_EXCHANGES, _GIVEN_UP = 6, 80, 1_500, 0.4
_MOST_EXCHANGE_ROUNDS = 3
_NEWTON_STEPS = (1, 2, 5)  # at most; in between, ends that are the same are joined


_Value = Callable[[GibbsPosterior, Points], Array]


class Modes(NamedTuple):
    """Distinct places of low objective: ``k`` points, the lowest first, in ``m`` latent coordinates.

    ``height`` ``(k,)`` is minus the log density there. ``slope`` and ``bend`` ``(k, m)`` say how the potential changes
    around each: its slope, zero for a model that is piecewise constant, and its curvature over half a deviation.
    ``asked`` are all latent points ``(n, m)`` that the search has asked about, and their potentials ``(n,)``.
    """

    points: Points
    neg_log_density: Array
    slope: Array
    curvature: Array
    asked: tuple[Array, Array] | None = None

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


def search_modes(
    posterior: GibbsPosterior,
    rng: np.random.Generator,
    starts: Points,
    memory: Memory,
    donors: Array | None = None,
    others: Points | None = None,
    *,
    components: bool = True,
) -> Modes:
    """Draw evaluated points back towards the row, all of them together, and return where they end.

    Parameters
    ----------
    posterior : GibbsPosterior
        Whose models are asked, within its budget and a limit of 5,000 rows and 80 for each coordinate.
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
    neg_log_density = neg_log_density_of(posterior, starts)
    usable = np.isfinite(neg_log_density)
    now, neg_log_density = starts.take(usable), neg_log_density[usable]
    m = starts.z.shape[1]
    ask = BudgetedObjective(posterior, memory, posterior.affords(rows_for_search(m)) // _BUDGET_PARTS)
    try:
        now, neg_log_density = keep_apart(now, neg_log_density, np.inf, len(neg_log_density))
        slope = find_slopes(ask, now.take(np.arange(min(_PROBED, len(now)))))
        now = _shorten(ask, rng, now, neg_log_density, bool(slope.any()))
        neg_log_density = neg_log_density_of(posterior, now)
        now, neg_log_density = keep_apart(now, neg_log_density, np.inf, len(neg_log_density))
        if slope.any():
            descent = Descent(ask, bool(_on_slope(slope).any()))
            now, neg_log_density = descent.choose(rng, now, neg_log_density)
            for steps in _NEWTON_STEPS:  # no start is hopeless before its first step
                now, neg_log_density = descent.descend(now, neg_log_density, steps)
                now, neg_log_density = keep_apart(now, neg_log_density, _HOPELESS, _MOST_AFTER)
            if others is not None:
                now, neg_log_density = descent.descend_unexplained(others, now, neg_log_density, _HOPELESS, _MOST_AFTER)
        now, neg_log_density = keep_apart(now, neg_log_density, _HOPELESS, _MOST_AFTER)
        now, neg_log_density = _draw_back(ask, now, neg_log_density)
        if donors is not None and len(donors):
            n = min(_EXCHANGES_PER_COORDINATE * m, _MOST_EXCHANGES) // (_FEWER_ON_SLOPES if slope.any() else 1)
            for _ in range(_MOST_EXCHANGE_ROUNDS):  # what was found by one can be exchanged again
                lowest = neg_log_density.min(initial=np.inf)
                exchanged = keep_apart(*_exchange(ask, rng, now, neg_log_density, donors, n), _HOPELESS, _MOST_AFTER)
                now, neg_log_density = keep_apart(
                    *join(now, neg_log_density, *_draw_back(ask, *exchanged)), _HOPELESS, _MOST_AFTER
                )
                if neg_log_density.min(initial=np.inf) > lowest - LEAST_GAIN:
                    break
        crossed = keep_apart(*_cross(ask, rng, now, neg_log_density), _HOPELESS, _MOST_AFTER)
        now, neg_log_density = keep_apart(
            *join(now, neg_log_density, *_draw_back(ask, *crossed)), _HOPELESS, _MOST_AFTER
        )
    except BudgetSpentError:  # what there is by then are sites as well, only less low
        pass
    now, neg_log_density = keep_apart(now, neg_log_density, _MARGIN, _MOST_MODES)
    flat = np.zeros(now.z.shape)
    if not components:
        return Modes(now, neg_log_density, flat, flat)
    ask.rows_left = max(ask.rows_left, 3 * now.z.size)  # for a last look around, whatever was spent before
    slope = curvature = flat
    with suppress(BudgetSpentError):
        slope, curvature = find_gradients_and_curvatures(ask, now)
    z, potential = zip(*ask.asked, strict=True) if ask.asked else ((flat[:0],), (neg_log_density[:0],))
    return Modes(now, neg_log_density, slope, curvature, (np.concatenate(z), np.concatenate(potential)))


def walk_out(posterior: GibbsPosterior, row: Points, memory: Memory) -> Points:
    """Walk from the row ``(1, m)`` by changes of single coordinates, those that gain most, and return where it ends."""
    now, neg_log_density = row, neg_log_density_of(posterior, row)
    m = row.z.shape[1]
    ask = BudgetedObjective(posterior, memory, _MOST_ROWS + _MOST_ROWS_PER_COORDINATE * m)
    try:
        for _ in range(_WALK_STEPS):
            to = now.z[:, :, None] + _OUTWARD
            now, neg_log_density, gained = _try_singly(ask, now, neg_log_density, to.transpose(0, 2, 1))
            if not gained:
                break
    except BudgetSpentError:
        pass
    return now


def _shorten(
    ask: BudgetedObjective, rng: np.random.Generator, now: Points, neg_log_density: Array, sloped: bool
) -> Points:
    """Take back what points do not need.

    Where models are piecewise constant the potential must not rise: a far point gains more by giving up what it needs
    than by keeping it, and would never come to the near corner of its box.
    """
    if sloped:
        return _take_back(ask, rng, now, neg_log_density, _SLOPED_STEPS, neg_log_density_of)
    worth = potential_of(ask.posterior, now) < neg_log_density.min(
        initial=np.inf
    )  # a point is nowhere lower than its potential
    far, value = now.take(worth), potential_of(ask.posterior, now)[worth]
    far = _take_back(ask, rng, far, value, _STEPS, potential_of)
    order = np.argsort(neg_log_density_of(ask.posterior, far), kind="stable")[:_DRAWN_IN]
    far = _draw_in(ask, far.take(order), value[order])
    return Points.join([far, now.take(~worth)])


# --- stages -----------------------------------------------------------------------------------------------------------


def _take_back(
    ask: BudgetedObjective, rng: np.random.Generator, now: Points, value: Array, steps: int, kind: _Value
) -> Points:
    """Take coordinates back to the centre while a ``value`` does not rise: random blocks, halved where one fails.

    A point that needs ``q`` of ``m`` coordinates is left with these after about ``2 q log2(m / q)`` steps, all points
    in lock step.
    """
    k, m = now.z.shape
    moved = now.z != 0
    rank = np.argsort(np.argsort(np.where(moved, rng.random((k, m)), np.inf), axis=1), axis=1)
    count, place = moved.sum(axis=1), np.zeros(k, dtype=int)
    size = np.maximum(count // 2, 1)
    for _ in range(steps):
        active = np.flatnonzero(place < count)
        if len(active) == 0:
            break
        block = (rank >= place[:, None]) & (rank < (place + size)[:, None])
        now, won = _try_while(ask, now, np.where(block, 0.0, now.z), active, value, kind)
        place = place + np.where(won, size, size == 1)
        size = np.where(won, 2 * size, np.maximum(size // 2, 1))
    return now


def _draw_in(ask: BudgetedObjective, now: Points, value: Array) -> Points:
    """Draw points towards the centre while their potential does not rise: as a whole, then coordinate by coordinate.

    In a box, where the potential is constant, this ends near the corner that is nearest to the centre.
    """
    for _ in range(_HALVINGS):
        now, _won = _try_while(ask, now, 0.5 * now.z, np.arange(len(now)), value, potential_of)
    low = np.zeros(now.z.shape)  # parts of each coordinate at which the potential is higher, and at which it is not
    high = np.ones(now.z.shape)
    point, coordinate = np.nonzero(now.z)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)[point, coordinate]
        trial = now.z[point]
        trial[np.arange(len(point)), coordinate] *= middle
        ask.require(len(trial))
        tried, _heights = ask(trial)
        holds = potential_of(ask.posterior, tried) <= value[point] + _SAME_POTENTIAL
        high[point[holds], coordinate[holds]] = middle[holds]
        low[point[~holds], coordinate[~holds]] = middle[~holds]
    return _try_while(ask, now, high * now.z, np.arange(len(now)), value, potential_of)[0]


def _try_while(
    ask: BudgetedObjective, now: Points, z: Array, active: Array, value: Array, kind: _Value
) -> tuple[Points, Array]:
    """Move the ``active`` points to ``z`` where their value is not above ``value`` there; and which ones moved."""
    tried, _ = ask(z[active])
    won, at = np.zeros(len(now), dtype=bool), np.zeros(len(now), dtype=int)
    won[active] = kind(ask.posterior, tried) <= value[active] + _SAME_POTENTIAL
    at[active] = np.arange(len(active))
    return now.replace_where(tried.take(at), won), won


def _cross(
    ask: BudgetedObjective, rng: np.random.Generator, now: Points, neg_log_density: Array
) -> tuple[Points, Array]:
    """Join the changes of every two of the lowest points, and take back what the union does not need."""
    k = min(_CROSSED, len(now))
    one, other = np.triu_indices(k, 1)
    if len(one) == 0:
        return now, neg_log_density
    both, _ = ask(np.where(now.z[one] != 0, now.z[one], now.z[other]))
    both = _take_back(ask, rng, both, potential_of(ask.posterior, both), _CROSS_STEPS, potential_of)
    return both, neg_log_density_of(ask.posterior, both)


def _draw_back(ask: BudgetedObjective, now: Points, neg_log_density: Array) -> tuple[Points, Array]:
    """Draw single coordinates back until nothing is gained; ends that are the same are joined on the way."""
    for number in range(_SINGLE_ROUNDS):
        now, neg_log_density, gained = _draw_back_singly(ask, now, neg_log_density, _FINE if number % 2 else _COARSE)
        if number and not gained:
            break
        now, neg_log_density = keep_apart(now, neg_log_density, _HOPELESS, _MOST_AFTER)
    return now, neg_log_density


def _exchange(
    ask: BudgetedObjective, rng: np.random.Generator, now: Points, neg_log_density: Array, donors: Array, n: int
) -> tuple[Points, Array]:
    """Pay for what the lowest points change with another coordinate, which gets a value of a known point.

    Some changes are given up, and one coordinate is set to what it is in a known point. Where the potential does
    not rise, the new coordinate is drawn in as far as that holds, and what else is not needed any more is taken back.
    """
    now, neg_log_density = now.take(np.arange(min(_EXCHANGED, len(now)))), neg_log_density[:_EXCHANGED]
    k, m = now.z.shape
    mode = rng.integers(k, size=n)
    line, trial = np.arange(len(mode)), now.z[mode]
    trial = np.where(rng.random(trial.shape) < _GIVEN_UP, 0.0, trial)
    new = rng.integers(m, size=len(mode))
    trial[line, new] = donors[rng.integers(len(donors), size=len(mode)), new]
    tried, _ = ask(trial)
    value = potential_of(ask.posterior, now)[mode]
    holds = np.flatnonzero(potential_of(ask.posterior, tried) <= value + _SAME_POTENTIAL)
    if len(holds) == 0:
        return now, neg_log_density
    others = np.where(np.arange(m) == new[:, None], 0.0, trial)[holds]
    holds = holds[np.argsort(np.square(others).sum(axis=1), kind="stable")[:_DRAWN_IN]]  # those that gave up most
    moved, value = tried.take(holds), value[holds]
    only = np.arange(m) == new[holds][:, None]
    low, high = np.zeros(len(holds)), np.ones(len(holds))
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        tried, _ = ask(np.where(only, middle[:, None], 1.0) * moved.z)
        good = potential_of(ask.posterior, tried) <= value + _SAME_POTENTIAL
        low, high = np.where(good, low, middle), np.where(good, middle, high)
    moved, _ = _try_while(
        ask, moved, np.where(only, high[:, None], 1.0) * moved.z, np.arange(len(moved)), value, potential_of
    )
    moved = _take_back(ask, rng, moved, value, _CROSS_STEPS, potential_of)
    return moved, neg_log_density_of(ask.posterior, moved)


def _draw_back_singly(
    ask: BudgetedObjective, now: Points, neg_log_density: Array, parts: Array
) -> tuple[Points, Array, bool]:
    """Draw single coordinates back, all the way or a part of it, or a little out, and join what gains."""
    return _try_singly(ask, now, neg_log_density, now.z[:, None, :] * parts[:, None])


def _try_singly(ask: BudgetedObjective, now: Points, neg_log_density: Array, to: Array) -> tuple[Points, Array, bool]:
    """Try values ``to`` ``(k, t, m)`` of single coordinates, then the best ones of each point together."""
    k, m = now.z.shape
    start, kind, coordinate = np.nonzero(to != now.z[:, None, :])
    if len(start) == 0:
        return now, neg_log_density, False
    ask.require(len(start))
    trial = now.z[start]
    trial[np.arange(len(start)), coordinate] = to[start, kind, coordinate]
    _, neg_log_densities = ask(trial)
    table = np.full(to.shape, np.inf)
    table[start, kind, coordinate] = neg_log_densities
    best, least = table.argmin(axis=1), table.min(axis=1)  # (k, m): for each coordinate by itself
    gains = least < neg_log_density[:, None] - LEAST_GAIN / m
    if not gains.any():
        return now, neg_log_density, False
    goal = np.take_along_axis(to, best[:, None, :], axis=1)[:, 0]
    # all that gain together, the better half of them, and the best one alone, which is known already
    rank = np.argsort(np.argsort(np.where(gains, least, np.inf), axis=1, kind="stable"), axis=1, kind="stable")
    count = gains.sum(axis=1)
    shares = [count, np.ceil(count / 2), np.minimum(count, 2), np.minimum(count, 1)]
    together = np.concatenate([np.where(rank < n[:, None], goal, now.z) for n in shares])
    joined, joint_heights = ask(together)
    after, height_after = take_lower(now, neg_log_density, joined, joint_heights.reshape(len(shares), k))
    return after, height_after, bool((neg_log_density - height_after > LEAST_GAIN).any())
