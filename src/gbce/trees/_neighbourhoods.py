"""Whether coordinate draws missed a mode: bridge sampling between them and the neighbourhoods of other starts.

Chains start at training rows and at the prior's points of least loss, at the last level and without tempering, so that
they stay where islands may never come to. Around the places with most mass, the product of full conditional
distributions is a neighbourhood whose density is known. Bridge sampling (Meng and Wong, 1996) between it and the
islands' draws gives the same evidence as the islands, unless they missed it. Then islands climb again, and on every
rung draw some points from the neighbourhoods, weighted as draws from the mixture of both.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logsumexp

from gbce._numerics import first_of_each
from gbce.base import Array
from gbce.posterior import Mixture
from gbce.trees._along import Steps
from gbce.trees._coordinate_draws import CellPoints, CellProblem


@dataclass(frozen=True)
class Tuning:
    """What only tunes the search for places; all sizes are small beside a population of 1,000 points."""

    rows: int = 64  # training rows of least objective from which chains start
    points: int = 32  # and points of the prior of least loss
    sweeps: int = 2
    places: int = 4
    states: int = 8  # of the chains of each place: their conditionals are averaged
    levels: tuple[float, ...] = (1.0, 0.1)  # of the last one, at which neighbourhoods are made
    same: float = 5.0  # a state whose density under another neighbourhood is lower by less, in nats, belongs to it
    draws: int = 400  # from each neighbourhood
    seen: float = 5.0  # points of the prior that are expected where the least share is: then none can be missed
    # Missed is what exceeds so many errors and so much of the posterior, the share that 2,000 draws cannot tell.
    errors: float = 4.0
    share: float = 0.02


TUNING = Tuning()
SHARE = 0.2  # of the points that climb, by which those around places are drawn anew on every rung

# --- distributions ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Neighbourhoods:
    """Product distributions on cells: for each column their log ratios to the prior ``(K, n)``, ``K`` of them."""

    masses: tuple[Array, ...]
    log_ratios: tuple[Array, ...]

    @classmethod
    def around(cls, problem: CellProblem, points: CellPoints, mixture: Mixture, n: int = 1) -> "Neighbourhoods":
        """Return the product of full conditionals at points, averaged over each ``n`` of them in turn."""
        ratios = []
        for column, mass in enumerate(problem.masses):
            steps = problem.find_steps(column, points)
            ratio, _ = _compute_step_ratios(steps, problem.potential(steps, mixture))
            along = np.repeat(ratio, _count_cells(steps, len(mass))).reshape(-1, n, len(mass))
            ratios.append(along[:, 0] if n == 1 else logsumexp(along, axis=1) - np.log(n))
        return cls(problem.masses, tuple(ratios))

    @classmethod
    def join(cls, parts: "Sequence[Neighbourhoods]") -> "Neighbourhoods":
        """Concatenate neighbourhoods."""
        ratios = zip(*(part.log_ratios for part in parts), strict=True)
        return cls(parts[0].masses, tuple(np.concatenate(of_column) for of_column in ratios))

    def __len__(self) -> int:
        return len(self.log_ratios[0])

    def log_ratio(self, cells: Array) -> Array:
        """Return the log ratios of all neighbourhoods to the prior ``(n, K)`` on cells ``(n, m)``."""
        return np.asarray(sum(ratio[:, cells[:, i]] for i, ratio in enumerate(self.log_ratios))).T

    def draw(self, rng: np.random.Generator, which: Array) -> Array:
        """Draw cells ``(n, m)``, each from the neighbourhood ``which`` ``(n,)``."""
        cells = np.empty((len(which), len(self.masses)), dtype=np.int32)
        for i, (mass, ratio) in enumerate(zip(self.masses, self.log_ratios, strict=True)):
            upto = np.cumsum(mass * np.exp(ratio), axis=1)
            drawn = rng.random(len(which))
            for k in range(len(self)):
                own = which == k
                found = np.searchsorted(upto[k], drawn[own] * upto[k, -1], side="right")
                cells[own, i] = np.minimum(found, len(mass) - 1)
        return cells


def _compute_step_ratios(steps: Steps, potential: Array) -> tuple[Array, Array]:
    """Return the log ratio of the full conditional to the prior on each step, and the number of each point's steps."""
    counts = np.diff(steps.starts)
    top = np.minimum.reduceat(potential, steps.starts[:-1])
    weights = steps.masses * np.exp(np.repeat(top, counts) - potential)
    with np.errstate(divide="ignore"):
        total = np.log(np.add.reduceat(weights, steps.starts[:-1]))
    return np.repeat(top - total, counts) - potential, counts


def _count_cells(steps: Steps, n: int) -> Array:
    """Return the number of cells of each step, out of ``n`` cells of the column."""
    ends = np.append(steps.first[1:], 0)
    ends[steps.starts[1:] - 1] = n
    return np.asarray(ends - steps.first)


def _sum_own_ratios(problem: CellProblem, points: CellPoints, mixture: Mixture) -> Array:
    """Return the log ratio of the product of full conditionals to the prior at each point itself ``(n,)``."""
    total = np.zeros(len(points))
    for column in range(len(problem.masses)):
        steps = problem.find_steps(column, points)
        ratio, counts = _compute_step_ratios(steps, problem.potential(steps, mixture))
        begun = steps.first <= np.repeat(points.cells[:, column], counts)
        total += ratio[steps.starts[:-1] + np.add.reduceat(begun.astype(int), steps.starts[:-1]) - 1]
    return total


# --- places ----------------------------------------------------------------------------------------------------------


class Places(NamedTuple):
    """Neighbourhoods of places at the last level, ``K`` of them, and at lower ones as well."""

    near: Neighbourhoods
    wider: Neighbourhoods

    def surround(
        self, rng: np.random.Generator, problem: CellProblem, points: CellPoints, n_islands: int
    ) -> tuple[CellPoints, Array, Array]:
        """Add draws around the places to the points of each island, as many as :data:`SHARE` of all.

        Returns all points, island by island, the log ratios ``(n,)`` of the density around places to the prior,
        infinite for new points that violate constraints between columns, and the neighbourhood from which each was
        drawn ``(n,)``, counted from one; zero for the old points.
        """
        near, each = self.wider, len(points) // n_islands
        more = max(int(each * SHARE / (1.0 - SHARE)), 1)
        which = np.arange(n_islands * more) % len(near)
        placed = problem.place(rng, near.draw(rng, which))
        old, new = np.arange(n_islands * each), n_islands * each + np.arange(n_islands * more)
        order = np.hstack([old.reshape(n_islands, each), new.reshape(n_islands, more)]).ravel()
        together = CellPoints.join([points, placed.points])
        ratio = logsumexp(near.log_ratio(together.cells), axis=1) - np.log(len(near)) + problem.log_admissible
        ratio[len(points) :][~placed.admissible] = np.inf
        return together.take(order), ratio[order], np.append(np.zeros(len(points), dtype=int), 1 + which)[order]


def find_places(
    rng: np.random.Generator, problem: CellProblem, prior_points: CellPoints, mixture: Mixture
) -> Places | None:
    """Return the places with most mass to which chains come from training rows and from points of the prior."""
    least = _choose_starts(prior_points, mixture.potential(prior_points.loss), TUNING.points)
    starts = [prior_points.take(least), *_start_at_rows(rng, problem, mixture)]
    points = _run_chains(rng, problem, CellPoints.join(starts), mixture)
    potential = mixture.potential(points.loss)
    points = points.take(np.flatnonzero(np.isfinite(potential)))
    if len(points) == 0:
        return None
    chosen = _choose_distinct(problem, points, mixture)
    states = _run_chains(rng, problem, points.take(np.repeat(chosen, TUNING.states)), mixture)
    levels = (replace(mixture, eta=mixture.eta * share) for share in TUNING.levels)
    near = [Neighbourhoods.around(problem, states, level, TUNING.states) for level in levels]
    return Places(near[0], Neighbourhoods.join(near))


def _start_at_rows(rng: np.random.Generator, problem: CellProblem, mixture: Mixture) -> Sequence[CellPoints]:
    """Return the training rows of most probable cells, as far as the row can come to them, in one batch or none."""
    rows = problem.posterior.landmarks
    if rows is None or len(rows) == 0:
        return []
    cells = problem.cells_of(rows)
    placed = problem.place(rng, cells[first_of_each(cells)])
    points = placed.points.take(np.flatnonzero(placed.admissible))
    with np.errstate(divide="ignore"):
        log_mass = sum(np.log(mass)[points.cells[:, i]] for i, mass in enumerate(problem.masses))
    return [points.take(_choose_starts(points, mixture.potential(points.loss) - log_mass, TUNING.rows))]


def _choose_starts(points: CellPoints, objective: Array, n: int) -> Array:
    """Return positions of ``n`` points of least objective, where scores repeat first the best one of each.

    Points of one leaf of a single tree all have its score, and the leaf of least loss has more rows than there are
    starts: other leaves, each a mode, would have none.
    """
    order = np.argsort(objective, kind="stable")
    again = np.ones(len(order), dtype=bool)
    again[first_of_each(points.scores[order])] = False
    return order[np.argsort(again, kind="stable")][:n]


def _run_chains(rng: np.random.Generator, problem: CellProblem, points: CellPoints, mixture: Mixture) -> CellPoints:
    for _ in range(TUNING.sweeps):
        points = problem.sweep(rng, points, mixture)
    return points


def _choose_distinct(problem: CellProblem, points: CellPoints, mixture: Mixture) -> Array:
    """Return the states with most mass around them, none in the neighbourhood of another.

    The mass of a product distribution is its unnormalised density at any point over its normalised one; a state that
    its own conditionals make less likely than the prior does is on its way elsewhere.
    """
    own = _sum_own_ratios(problem, points, mixture)
    mass = -mixture.potential(points.loss) - np.maximum(own, 0.0)
    free, chosen = np.isfinite(mass), list[int]()
    while free.any() and len(chosen) < TUNING.places:
        best = np.argmax(np.where(free, mass, -np.inf), keepdims=True)
        near = Neighbourhoods.around(problem, points.take(best), mixture)
        free &= near.log_ratio(points.cells)[:, 0] < own - TUNING.same
        free[best] = False
        chosen.append(int(best[0]))
    return np.array(chosen, dtype=int)


# --- the check -------------------------------------------------------------------------------------------------------


def is_covered(n: int, log_evidence: float) -> bool:
    """Whether ``n`` points of the prior are dense enough for any share of the posterior that counts."""
    return n * TUNING.share * np.exp(log_evidence) >= TUNING.seen


def measure_missed(
    rng: np.random.Generator,
    problem: CellProblem,
    places: Places,
    mixture: Mixture,
    drawn: CellPoints,
    weights: Array,
    log_z: Array,
) -> float:
    """Return the share of the posterior that draws of islands missed around some place; zero within the errors.

    ``drawn`` are points of islands, the same number of each in turn, with ``weights`` ``(J, n / J)`` inside islands;
    ``log_z`` ``(J,)`` are the islands' log evidences.
    """
    near, n_islands = places.near, len(log_z)
    shares = np.exp(log_z - logsumexp(log_z))
    log_evidence = float(logsumexp(log_z) - np.log(n_islands)) + problem.log_admissible
    relative = _spread(shares)  # error of the evidence, relative to it
    at_drawn = near.log_ratio(drawn.cells) + mixture.potential(drawn.loss)[:, None] + log_evidence
    theirs = np.einsum("jn,jnk->jk", weights, expit(at_drawn).reshape(n_islands, -1, len(near)))
    missed = 0.0
    for k in range(len(near)):
        placed = problem.place(rng, near.draw(rng, np.full(TUNING.draws, k)))
        ratio = near.log_ratio(placed.points.cells)[:, k]
        own = expit(-mixture.potential(placed.points.loss) - log_evidence - ratio) * placed.admissible
        expected = float(shares @ theirs[:, k])
        error = _spread(shares * (theirs[:, k] - expected))
        error = np.sqrt(own.var() / len(own) + error**2 + (expected * relative) ** 2)
        excess = float(own.mean()) - expected
        if excess > TUNING.errors * error + TUNING.share:
            missed = max(missed, excess)
    return missed


def _spread(parts: Array) -> float:
    """Return the standard error of a sum of independent parts ``(J,)``."""
    return float(np.sqrt(np.square(parts - parts.mean()).sum() * len(parts) / (len(parts) - 1)))
