"""Modes of the posterior in the latent space, found by descents from evaluated points in lockstep.

In the latent space every prior is ``N(0, I)``, and the negative log density of a point is its potential plus half its
squared norm. A training row that reaches the target has a low density because it differs from the row in every
feature. Changes it does not need are undone, first blocks of coordinates and then single ones, and the others are
shrunk towards the row as far as the density rises. The points where this ends are the modes.
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
    SMOOTH_SHARE,
    BudgetedObjective,
    Descent,
    Memory,
    find_gradients,
    find_gradients_and_curvatures,
    join,
    keep_apart,
    neg_log_density_of,
    potential_of,
    take_lower,
)

__all__ = ["Modes", "rows_for_search", "search_modes"]

# These numbers decide where sampling begins, never its target: draws from proposals at the modes are weighted by
# their density. They were chosen by hand on single trees in 10 and 29 columns, and are judged by benchmarks/trust.py.
_STEPS, _SMOOTH_STEPS = 40, 12  # of undoing blocks; fewer for smooth models, where few coordinates are superfluous
_SHRUNK, _HALVINGS = 40, 5  # points shrunk coordinate by coordinate, and bisection steps of each
_SAME_POTENTIAL = 1e-9  # up to rounding
_COMBINED, _COMBINE_STEPS = 8, 12  # points whose changes are combined, and steps of undoing needless ones
_MOST_AFTER = 16  # starts left after these rounds
_SINGLE_ROUNDS = 4  # of rescaling single coordinates, at most
_COARSE = np.array([0.0, 0.3, 0.6, 0.8, 0.92, 1.04, 1.15])  # factors tried for a coordinate; zero is the row
_FINE = np.array([0.0, 0.9, 0.96, 0.985, 0.995, 1.01])  # from the second round on, alternating with the coarse ones
_MOST_ROWS, _MOST_ROWS_PER_COORDINATE = 5_000, 80  # evaluated by one search: the sum of both
_MOST_CELLS = 4_000_000  # numbers in all points of one search: it bounds memory where there are many columns
_LEAST_ROWS_PER_COORDINATE = 16  # in any case: with fewer, a descent ends before its first steps
_BUDGET_PARTS = 4  # a search may spend one part in this many of a budget
_PROBED = 4  # starts whose gradients are evaluated first: where none has any, the model is piecewise constant
_HOPELESS = 40.0  # negative log density above the lowest at which a start is dropped after the first stage
_MARGIN = 16.0  # above the lowest, at which an end is no mode: e**-16 of its density; some of it is offset by width
_MOST_MODES = 16
_FEWER_IF_SMOOTH = 8  # times fewer swaps for smooth models, where descents have traded changes already
_SWAPPED, _UNDO_PROBABILITY = 6, 0.4  # points whose changes are swapped for a donor's value; for each of their changes
_SWAPS_PER_COORDINATE, _MOST_SWAPS = 80, 1_500  # trials in a round
_MOST_SWAP_ROUNDS = 3
_NEWTON_STEPS = (1, 2, 5)  # at most; in between, points that coincide are merged


_Value = Callable[[GibbsPosterior, Points], Array]


class Modes(NamedTuple):
    """Distinct modes: ``k`` points in ``m`` latent coordinates, the lowest ``neg_log_density`` ``(k,)`` first.

    ``gradient`` and ``curvature`` ``(k, m)`` are those of the potential: the gradient is zero for a piecewise constant
    model, the curvature is a second difference over half a standard deviation. ``evaluated`` are all latent points
    ``(n, m)`` that the search evaluated, and their potentials ``(n,)``.
    """

    points: Points
    neg_log_density: Array
    gradient: Array
    curvature: Array
    evaluated: tuple[Array, Array] | None = None

    @property
    def smooth(self) -> Array:
        """Whether each mode ``(k,)`` has a gradient in most coordinates, and not just beside the step of a tree."""
        return _has_gradient(self.gradient)


def _has_gradient(gradient: Array) -> Array:
    """Whether most coordinates of each gradient ``(k, m)`` are not zero."""
    return np.asarray((gradient != 0).mean(axis=1) > SMOOTH_SHARE)


def rows_for_search(m: int) -> int:
    """Return how many model rows must be left, in ``m`` coordinates, for a search to get its full allowance."""
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
    """Descend from evaluated points, all in lockstep, and return the modes where they end.

    It evaluates at most 5,000 rows plus 80 per coordinate, and records all of them in ``memory``. Coordinates of
    ``donors`` ``(n, m)``, latent training rows, may be swapped into the modes. For smooth models, ``others`` below all
    known basins are further starts. Without proposal ``components`` to be placed at the modes, gradients and curvatures
    stay zero.
    """
    f = neg_log_density_of(posterior, starts)
    usable = np.isfinite(f)
    now, f = starts.take(usable), f[usable]
    m = starts.z.shape[1]
    objective = BudgetedObjective(posterior, memory, posterior.affords(rows_for_search(m)) // _BUDGET_PARTS)
    try:
        now, f = keep_apart(now, f, np.inf, len(f))
        gradient = find_gradients(objective, now.take(np.arange(min(_PROBED, len(now)))))
        now = _undo_needless(objective, rng, now, f, bool(gradient.any()))
        f = neg_log_density_of(posterior, now)
        now, f = keep_apart(now, f, np.inf, len(f))
        if gradient.any():
            descent = Descent(objective, bool(_has_gradient(gradient).any()))
            now, f = descent.choose(rng, now, f)
            for steps in _NEWTON_STEPS:  # no start is dropped before its first step
                now, f = descent.descend(now, f, steps)
                now, f = keep_apart(now, f, _HOPELESS, _MOST_AFTER)
            if others is not None:
                now, f = descent.descend_unexplained(others, now, f, _HOPELESS, _MOST_AFTER)
        now, f = keep_apart(now, f, _HOPELESS, _MOST_AFTER)
        now, f = _rescale_coordinates(objective, now, f)
        if donors is not None and len(donors) and len(now):
            n = min(_SWAPS_PER_COORDINATE * m, _MOST_SWAPS) // (_FEWER_IF_SMOOTH if gradient.any() else 1)
            for _ in range(_MOST_SWAP_ROUNDS):  # the result of one round can be swapped again
                lowest = f.min(initial=np.inf)
                swapped = keep_apart(*_swap_coordinates(objective, rng, now, f, donors, n), _HOPELESS, _MOST_AFTER)
                now, f = keep_apart(*join(now, f, *_rescale_coordinates(objective, *swapped)), _HOPELESS, _MOST_AFTER)
                if f.min(initial=np.inf) > lowest - LEAST_GAIN:
                    break
        combined = keep_apart(*_combine_pairs(objective, rng, now, f), _HOPELESS, _MOST_AFTER)
        now, f = keep_apart(*join(now, f, *_rescale_coordinates(objective, *combined)), _HOPELESS, _MOST_AFTER)
    except BudgetSpentError:  # the points so far are modes as well, only less refined
        pass
    now, f = keep_apart(now, f, _MARGIN, _MOST_MODES)
    flat = np.zeros(now.z.shape)
    if not components:
        return Modes(now, f, flat, flat)
    objective.rows_left = max(objective.rows_left, 3 * now.z.size)  # always enough for the final differences
    gradient = curvature = flat
    with suppress(BudgetSpentError):
        gradient, curvature = find_gradients_and_curvatures(objective, now)
    z, potential = zip(*(objective.evaluated or [(flat[:0], f[:0])]), strict=True)
    return Modes(now, f, gradient, curvature, (np.concatenate(z), np.concatenate(potential)))


def _undo_needless(
    objective: BudgetedObjective, rng: np.random.Generator, now: Points, f: Array, smooth: bool
) -> Points:
    """Undo the changes that points do not need.

    For piecewise constant models the potential must not rise: a far point would gain more by undoing changes that it
    needs, and would never reach the near corner of its box.
    """
    if smooth:
        return _undo_blocks(objective, rng, now, f, _SMOOTH_STEPS, neg_log_density_of)
    potential = potential_of(objective.posterior, now)
    worth = potential < f.min(initial=np.inf)  # the potential bounds what shrinking can reach
    far, value = now.take(worth), potential[worth]
    far = _undo_blocks(objective, rng, far, value, _STEPS, potential_of)
    order = np.argsort(neg_log_density_of(objective.posterior, far), kind="stable")[:_SHRUNK]
    far = _shrink_in_box(objective, far.take(order), value[order])
    return Points.join([far, now.take(~worth)])


# --- stages of the search ---------------------------------------------------------------------------------------------


def _undo_blocks(
    objective: BudgetedObjective, rng: np.random.Generator, now: Points, value: Array, steps: int, kind: _Value
) -> Points:
    """Set random blocks of coordinates to zero while a ``value`` does not rise, halving blocks that fail."""
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
        now, won = _move_unless_above(objective, now, np.where(block, 0.0, now.z), active, value, kind)
        place = place + np.where(won, size, size == 1)
        size = np.where(won, 2 * size, np.maximum(size // 2, 1))
    return now


def _shrink_in_box(objective: BudgetedObjective, now: Points, value: Array) -> Points:
    """Shrink points, as a whole and then by coordinate, while the potential does not rise: to a box's corner."""
    for _ in range(_HALVINGS):
        now, _won = _move_unless_above(objective, now, 0.5 * now.z, np.arange(len(now)), value, potential_of)
    low = np.zeros(now.z.shape)  # shares of each coordinate at which the potential is higher, and at which it is not
    high = np.ones(now.z.shape)
    point, coordinate = np.nonzero(now.z)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)[point, coordinate]
        trial = now.z[point]
        trial[np.arange(len(point)), coordinate] *= middle
        objective.require(len(trial))
        tried, _ = objective(trial)
        accepted = potential_of(objective.posterior, tried) <= value[point] + _SAME_POTENTIAL
        high[point[accepted], coordinate[accepted]] = middle[accepted]
        low[point[~accepted], coordinate[~accepted]] = middle[~accepted]
    return _move_unless_above(objective, now, high * now.z, np.arange(len(now)), value, potential_of)[0]


def _move_unless_above(
    objective: BudgetedObjective, now: Points, z: Array, active: Array, value: Array, kind: _Value
) -> tuple[Points, Array]:
    """Move the ``active`` points to ``z`` where ``value`` is not exceeded; also return which moved ``(k,)``."""
    tried, _ = objective(z[active])
    won, at = np.zeros(len(now), dtype=bool), np.zeros(len(now), dtype=int)
    won[active] = kind(objective.posterior, tried) <= value[active] + _SAME_POTENTIAL
    at[active] = np.arange(len(active))
    return now.replace_where(tried.take(at), won), won


def _combine_pairs(
    objective: BudgetedObjective, rng: np.random.Generator, now: Points, f: Array
) -> tuple[Points, Array]:
    """Combine the changes of every two of the lowest points, and undo what the union does not need."""
    k = min(_COMBINED, len(now))
    one, other = np.triu_indices(k, 1)
    if len(one) == 0:
        return now, f
    both, _ = objective(np.where(now.z[one] != 0, now.z[one], now.z[other]))
    both = _undo_blocks(objective, rng, both, potential_of(objective.posterior, both), _COMBINE_STEPS, potential_of)
    return both, neg_log_density_of(objective.posterior, both)


def _rescale_coordinates(objective: BudgetedObjective, now: Points, f: Array) -> tuple[Points, Array]:
    """Rescale single coordinates until nothing is gained, merging points that coincide on the way."""
    for number in range(_SINGLE_ROUNDS):
        now, f, gained = _rescale_singly(objective, now, f, _FINE if number % 2 else _COARSE)
        if number and not gained:
            break
        now, f = keep_apart(now, f, _HOPELESS, _MOST_AFTER)
    return now, f


def _swap_coordinates(
    objective: BudgetedObjective, rng: np.random.Generator, now: Points, f: Array, donors: Array, n: int
) -> tuple[Points, Array]:
    """Swap changes of the lowest points for the value of one coordinate of a training row.

    Some changes are undone and one coordinate is set to a donor's value. Where the potential does not rise, the new
    coordinate is shrunk as far as that holds, and changes that are no longer needed are undone.
    """
    now, f = now.take(np.arange(min(_SWAPPED, len(now)))), f[:_SWAPPED]
    k, m = now.z.shape
    mode = rng.integers(k, size=n)
    line, trial = np.arange(len(mode)), now.z[mode]
    trial = np.where(rng.random(trial.shape) < _UNDO_PROBABILITY, 0.0, trial)
    new = rng.integers(m, size=len(mode))
    trial[line, new] = donors[rng.integers(len(donors), size=len(mode)), new]
    tried, _ = objective(trial)
    value = potential_of(objective.posterior, now)[mode]
    accepted = np.flatnonzero(potential_of(objective.posterior, tried) <= value + _SAME_POTENTIAL)
    if len(accepted) == 0:
        return now, f
    others = np.where(np.arange(m) == new[:, None], 0.0, trial)[accepted]
    accepted = accepted[np.argsort(np.square(others).sum(axis=1), kind="stable")[:_SHRUNK]]  # those that undid most
    moved, value = tried.take(accepted), value[accepted]
    only = np.arange(m) == new[accepted][:, None]
    low, high = np.zeros(len(accepted)), np.ones(len(accepted))
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        tried, _ = objective(np.where(only, middle[:, None], 1.0) * moved.z)
        good = potential_of(objective.posterior, tried) <= value + _SAME_POTENTIAL
        low, high = np.where(good, low, middle), np.where(good, middle, high)
    moved, _ = _move_unless_above(
        objective, moved, np.where(only, high[:, None], 1.0) * moved.z, np.arange(len(moved)), value, potential_of
    )
    moved = _undo_blocks(objective, rng, moved, value, _COMBINE_STEPS, potential_of)
    return moved, neg_log_density_of(objective.posterior, moved)


def _rescale_singly(objective: BudgetedObjective, now: Points, f: Array, parts: Array) -> tuple[Points, Array, bool]:
    """Rescale single coordinates by each of ``parts``, and combine those that gain."""
    return _try_single_values(objective, now, f, now.z[:, None, :] * parts[:, None])


def _try_single_values(objective: BudgetedObjective, now: Points, f: Array, to: Array) -> tuple[Points, Array, bool]:
    """Try values ``to`` ``(k, t, m)`` of single coordinates, then the best ones of each point together."""
    k, m = now.z.shape
    start, kind, coordinate = np.nonzero(to != now.z[:, None, :])
    if len(start) == 0:
        return now, f, False
    objective.require(len(start))
    trial = now.z[start]
    trial[np.arange(len(start)), coordinate] = to[start, kind, coordinate]
    _, trial_f = objective(trial)
    table = np.full(to.shape, np.inf)
    table[start, kind, coordinate] = trial_f
    best, least = table.argmin(axis=1), table.min(axis=1)  # (k, m): for each coordinate by itself
    gains = least < f[:, None] - LEAST_GAIN / m
    if not gains.any():
        return now, f, False
    goal = np.take_along_axis(to, best[:, None, :], axis=1)[:, 0]
    # all that gain together, the better half of them, and the best one alone, which is known already
    rank = np.argsort(np.argsort(np.where(gains, least, np.inf), axis=1, kind="stable"), axis=1, kind="stable")
    count = gains.sum(axis=1)
    shares = [count, np.ceil(count / 2), np.minimum(count, 2), np.minimum(count, 1)]
    together = np.concatenate([np.where(rank < n[:, None], goal, now.z) for n in shares])
    joined, trial_f = objective(together)
    after, lower = take_lower(now, f, joined, trial_f.reshape(len(shares), k))
    return after, lower, bool((f - lower > LEAST_GAIN).any())
