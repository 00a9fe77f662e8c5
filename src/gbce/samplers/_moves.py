"""Moves of a whole population at once: one model call for all points, accepted or refused one by one.

A move leaves ``exp(-u(z)) N(z; 0, I)`` as it is, whatever ``u``. Proposals are mixed, each point drawing its own:

- *pCN* (Cotter et al., 2013), ``z' = r z + s e`` with ``r**2 + s**2 = 1``, in all coordinates or in some: it keeps the
  latent law in any dimension;
- *fitted pCN* (Rudolf and Sprungk, 2018), the same around a normal law fitted to the posterior so far;
- *hops* (ter Braak and Vrugt, 2008): some coordinates move by the difference of two other points, which carries points
  from mode to mode.

What the last two know is learned from other points than the ones they move.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np

from gbce.base import Array
from gbce.draws import Points
from gbce.posterior import GibbsPosterior

__all__ = ["Kernel", "Learned", "NormalComponent", "Slice", "StepSizes", "memory"]

# --- moves of a whole population at once -----------------------------------------------------------------------------

_PLAIN, _PARTIAL, _FITTED, _HOP = 0, 1, 2, 3  # the kinds of moves, as positions
# The numbers of this file change how fast points move, never what they are draws of. They were chosen by hand, except
# where a reference is given.
_SHARES = (0.05, 0.15, 0.6, 0.2)  # fitted moves go farthest; the others are for places that no normal law fits
_BOLD_SHARE = 0.5  # of the fitted proposals: drawn afresh, however seldom that is accepted
_JUMP_SHARE = 0.5  # of the bold proposals, where there is a law to jump to
_MAX_HOP = 8  # directions of one hop
_BY_DISTRIBUTION_SHARE, _FULL_SHARE = 0.5, 0.5  # of the hops: along fitted directions, and by the whole difference
_HOP_SCALE = 2.38  # over the root of twice the directions: that of a random walk (ter Braak and Vrugt, 2008)
_BLUR = 0.01  # so that hops reach every place
_ACCEPTANCE = 0.25  # to which steps are adapted; for random walks 0.234 is best (Roberts, Gelman and Gilks, 1997)
_ADAPTATION = 2.0  # change of a log step for each unit of acceptance in excess
_SMALLEST_STEP = 1e-4  # that adaptation may come to
_FIRST_STEPS = {"plain": 0.5, "partial": 0.9, "fitted": 0.9}  # they adapt within a few sweeps
_JITTER = 0.4  # of each point's own step, on the log scale: no one scale fits all places
_MOST_PER_POINT = 0.9  # coordinates for each independent point: beyond one, the correction of the spread breaks down
_LEAST_VARIANCE = 1e-8  # of a fitted direction: with none, points could not leave a plane
_MEAN_ERRORS = 2.0  # standard errors below which a coordinate of a fitted mean is taken as zero, the latent law's


@dataclass(frozen=True)
class NormalComponent:
    """A normal law on the latent space that differs from the standard one in a few directions only.

    Its covariance is ``I + U diag(variance - 1) U'``. In a direction in which nothing was learned the latent law
    ``N(0, 1)`` stays, so that a fit to a thousand points is safe in a hundred dimensions.

    Parameters
    ----------
    mean : array of shape (m,)
        Centre.
    directions : array of shape (m, k)
        ``U``, orthonormal columns.
    variance : array of shape (k,)
        Along each of them.
    """

    mean: Array
    directions: Array
    variance: Array

    @classmethod
    def fit(cls, z: Array, weights: Array, n: float) -> "NormalComponent":
        """Fit to weighted points ``(N, m)`` that are worth ``n`` independent ones.

        Eigenvalues within the spread that sampling alone gives ``n`` points of variance one are taken as one; those
        beyond it are corrected for that spread (the spiked model of Baik, Ben Arous and Péché, 2005). The mean is that
        of the points wherever it differs from zero by more than its error, which is small where the points lie close.
        """
        mean = weights @ z
        offset = z - mean
        value, vector = np.linalg.eigh((offset * weights[:, None]).T @ offset)
        ratio = min(z.shape[1] / n, _MOST_PER_POINT)
        beyond = value > (1 + np.sqrt(ratio)) ** 2
        if z.shape[1] <= _MOST_PER_POINT * n:  # fewer points leave directions without any spread: that tells nothing
            beyond |= value < (1 - np.sqrt(ratio)) ** 2
        seen = np.maximum(value[beyond], _LEAST_VARIANCE)
        moment = seen + 1 - ratio
        root = np.sqrt(np.maximum(np.square(moment) - 4 * seen, 0.0))
        variance = 0.5 * (moment + np.where(seen > 1, root, -root))
        error = np.sqrt(np.minimum(weights @ np.square(offset), 1.0) / n)
        mean = np.where(np.abs(mean) > _MEAN_ERRORS * error, mean, 0.0)
        return cls(mean, vector[:, beyond], np.maximum(variance, _LEAST_VARIANCE))

    def widen(self, by: float) -> "NormalComponent":
        """Return the law with ``by`` times the variance in every direction that was learned."""
        return replace(self, variance=by * self.variance)

    @property
    def dimension(self) -> int:
        """Number of latent coordinates."""
        return len(self.mean)

    def place(self, e: Array) -> Array:
        """Turn standard normal noise ``(n, m)`` into draws."""
        return self.mean + self.noise(e)

    def noise(self, e: Array) -> Array:
        """Turn standard normal ``(n, m)`` into centred noise of this covariance."""
        return e + ((e @ self.directions) * (np.sqrt(self.variance) - 1)) @ self.directions.T

    def excess(self, z: Array) -> Array:
        """Log density ``(n,)`` against the latent law's, up to a constant."""
        offset = z - self.mean
        along = np.square(offset @ self.directions) @ (1 / self.variance - 1)
        return -0.5 * (np.square(offset).sum(axis=1) + along - np.square(z).sum(axis=1))


class Learned(NamedTuple):
    """What moves of one half of a population know of the other: a normal law, and points ``(n, m)``."""

    component: NormalComponent
    points: Array


class Jumps(Protocol):
    """A law that points can be drawn from afresh, known before any of them moved."""

    def draw(self, rng: np.random.Generator, n: int) -> Array:
        """Draw ``n`` latent points ``(n, m)``."""
        ...

    def near(self, z: Array) -> Array:
        """Log density ``(n,)`` against the latent law."""
        ...


class StepSizes(NamedTuple):
    """How far proposals go, in (0, 1] of each law's own spread, and how many were accepted last."""

    plain: float = _FIRST_STEPS["plain"]
    partial: float = _FIRST_STEPS["partial"]
    fitted: float = _FIRST_STEPS["fitted"]
    acceptance: float = float("nan")

    def adapt(self, accepted: Array, kind: Array, bold: Array) -> "StepSizes":
        """Return steps a little longer where more than a quarter was accepted, shorter where less."""

        def adapt(step: float, which: Array) -> float:
            if not which.any():
                return step
            excess = accepted[which].mean() - _ACCEPTANCE
            return float(np.clip(step * np.exp(_ADAPTATION * excess), _SMALLEST_STEP, 1.0))

        return StepSizes(
            adapt(self.plain, kind == _PLAIN),
            adapt(self.partial, kind == _PARTIAL),
            adapt(self.fitted, (kind == _FITTED) & ~bold),
            float(accepted.mean()),
        )


class Proposal(NamedTuple):
    """Proposed latent points ``(n, m)``, log Hastings corrections ``(n,)``, the kind of each, and which are bold."""

    z: Array
    correction: Array
    kind: Array
    bold: Array


@dataclass(frozen=True)
class Kernel:
    """One sweep over a population: propose, ask the models, accept.

    Parameters
    ----------
    posterior : GibbsPosterior
        Whose models are asked.
    u : callable
        Minus the log density of evaluated points against the latent law, ``(n,)``.
    learned : sequence of Learned
        Empty for pCN alone.
    half : int array of shape (n,)
        Which of them each point uses.
    jumps : Jumps, optional
        Where half of the bold proposals go instead of the fitted law.
    """

    posterior: GibbsPosterior
    u: Callable[[Points], Array]
    learned: Sequence[Learned] = ()
    half: Array | None = None
    jumps: Jumps | None = None

    def sweep(self, rng: np.random.Generator, points: Points, steps: StepSizes) -> tuple[Points, StepSizes]:
        """Move every point once."""
        proposal = self._propose(rng, points.z, steps)
        proposed = Points.evaluate(self.posterior, proposal.z)
        with np.errstate(invalid="ignore"):
            gain = self.u(points) - self.u(proposed) + proposal.correction
        accepted = np.log(rng.random(len(points))) < gain  # a comparison with NaN refuses
        return points.replace_where(proposed, accepted), steps.adapt(accepted, proposal.kind, proposal.bold)

    def _propose(self, rng: np.random.Generator, z: Array, steps: StepSizes) -> Proposal:
        """Propose a place for every point ``(n, m)``: each draws a kind of proposal of its own."""
        n, m = z.shape
        # What each point does, and how far it goes. A bold one goes all the way: it forgets where it is. Kinds and
        # steps do not depend on places, so that the way back is as likely to be chosen.
        noise = rng.standard_normal(z.shape)
        kind: Array = rng.choice(len(_SHARES), size=n, p=_SHARES) if self.learned else np.full(n, _PLAIN)  # type: ignore[assignment]
        bold: Array = np.logical_and(kind == _FITTED, rng.random(n) < _BOLD_SHARE)
        own = np.array([steps.plain, steps.partial, steps.fitted, 1.0])[kind] * np.exp(_JITTER * rng.standard_normal(n))
        step = np.where(bold, 1.0, np.minimum(own, 1.0))[:, None]
        keep = np.sqrt(1 - np.square(step))
        # pCN keeps N(0, I), whatever the step (Cotter et al., 2013): no correction. A partial move keeps the other
        # coordinates as they are, and with them the law.
        to = keep * z + step * noise
        part: Array = np.equal(kind, _PARTIAL)
        size = np.ceil(m ** rng.random(int(part.sum())))  # from one coordinate to all, few as likely as many
        to[part] = np.where(_choose_coordinates(rng, size, m), to[part], z[part])
        correction = np.zeros(n)
        # Moves of one half of the islands know a law and points of the other half only: seen from the point that moves
        # they are fixed, so that adapting them does not bias the weights of its half.
        for number, learned in enumerate(self.learned):
            component = learned.component
            # pCN around the fitted law keeps that law instead of N(0, I); the ratio of both densities, here and
            # there, is the Hastings correction (Rudolf and Sprungk, 2018)
            fit = (kind == _FITTED) & (self.half == number)
            to[fit] = component.mean + keep[fit] * (z[fit] - component.mean) + step[fit] * component.noise(noise[fit])
            correction[fit] = component.excess(z[fit]) - component.excess(to[fit])
            hop = (kind == _HOP) & (self.half == number)
            # a hop is as likely to be made back (ter Braak and Vrugt, 2008): what remains is the ratio of N(0, I)
            to[hop] = _hop(rng, z[hop], learned)
            correction[hop] = 0.5 * (np.square(z[hop]).sum(axis=1) - np.square(to[hop]).sum(axis=1))
        # Some of the bold ones go to a law that was known before any point moved, so that modes which the other half
        # has lost can still be reached; an independence proposal, corrected by that law's density.
        if self.jumps is not None:
            jump = bold & (rng.random(n) < _JUMP_SHARE)
            to[jump] = self.jumps.draw(rng, int(jump.sum()))
            correction[jump] = self.jumps.near(z[jump]) - self.jumps.near(to[jump])
        return Proposal(to, correction, kind, bold)


def _hop(rng: np.random.Generator, z: Array, learned: Learned) -> Array:
    """Move by the difference of two other points, in full or at the scale of a random walk, in a few directions.

    These are coordinates, or, for half of the points, directions in which the fitted law differs from the latent one:
    in many dimensions modes differ in few of those.
    """
    n, m = z.shape
    a, b = learned.points[rng.integers(len(learned.points), size=(2, n))]
    shift = a - b
    special = learned.component.directions
    by_distribution: Array = np.less(rng.random(n), _BY_DISTRIBUTION_SHARE if special.shape[1] else 0.0)
    full: Array = np.less(rng.random(n), _FULL_SHARE)
    for which, basis in ((~by_distribution, np.eye(m)), (by_distribution, special)):
        k = basis.shape[1]
        size = rng.integers(1, min(k, _MAX_HOP) + 1, size=int(which.sum())) if k else np.zeros(0, dtype=int)
        chosen = _choose_coordinates(rng, size, k)
        scale = np.where(full[which], 1.0, _HOP_SCALE / np.sqrt(2 * np.maximum(size, 1)))
        along = shift[which] @ basis + _BLUR * rng.standard_normal((len(size), k))
        shift[which] = scale[:, None] * np.where(chosen, along, 0.0) @ basis.T
    return z + shift


def _choose_coordinates(rng: np.random.Generator, size: Array, m: int) -> Array:
    """Choose ``size`` of ``m`` coordinates for each point: a mask ``(n, m)``."""
    return rng.random((len(size), m)).argsort(axis=1).argsort(axis=1) < size[:, None]


def memory(before: Points, now: Points, u: Callable[[Points], Array]) -> float:
    """Return how much a population remembers of its start: the correlation of places, or of heights if larger."""
    place = _correlation(before.z, now.z).mean()
    with np.errstate(invalid="ignore"):
        neg_log_density = _correlation(u(before)[:, None], u(now)[:, None])[0]
    return float(max(place, neg_log_density))


def _correlation(a: Array, b: Array) -> Array:
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # infinite heights have no correlation: NaN, 0
        a, b = _rescale(a - a.mean(axis=0)), _rescale(b - b.mean(axis=0))
        scale = np.sqrt(np.square(a).sum(axis=0) * np.square(b).sum(axis=0))
        return np.where(scale > 0, (a * b).sum(axis=0) / scale, 0.0)


def _rescale(values: Array) -> Array:
    """Divide columns ``(n, c)`` by powers of two, which changes no digit, so that their squares do not overflow."""
    peak = np.abs(values).max(axis=0)
    return np.ldexp(values, -np.frexp(np.where(np.isfinite(peak), peak, 1.0))[1])


# --- elliptical slice sampling (Murray, Adams and MacKay, 2010) of many chains in lock-step --------------------------

_MAX_ASKED = 40  # angles in one sweep; two to ten are usual, so that giving up is rare


@dataclass(frozen=True)
class Slice:
    """One sweep over all chains, which leaves ``exp(-u(z)) N(z; 0, I)`` as it is.

    Parameters
    ----------
    posterior : GibbsPosterior
        Whose models are asked.
    u : callable
        Minus the log density of evaluated points against the latent law, ``(n,)``.
    max_asked : int
        Angles that a chain tries before it stays where it is. A way that ends within them has a way back of the same
        length, so that giving up does not change the law.
    """

    posterior: GibbsPosterior
    u: Callable[[Points], Array]
    max_asked: int = _MAX_ASKED

    def sweep(self, rng: np.random.Generator, points: Points, steps: StepSizes) -> tuple[Points, StepSizes]:
        """Move every chain once; the step that is told is the mean ``|sin(a)|``, in the place of pCN's."""
        n = len(points)
        z, v = points.z, rng.standard_normal(points.z.shape)
        neg_log_density = -self.u(points) + np.log1p(-rng.random(n))
        angle = 2 * np.pi * rng.random(n)
        low, high = angle - 2 * np.pi, angle.copy()
        looking = np.arange(n)
        for _ in range(self.max_asked):
            a = angle[looking][:, None]
            asked = Points.evaluate(self.posterior, np.cos(a) * z[looking] + np.sin(a) * v[looking])
            u = self.u(asked)
            found = (-u >= neg_log_density[looking]) & (u < np.inf)  # a chain of density zero goes on looking
            places = np.arange(n)
            places[looking[found]] = n + np.flatnonzero(found)
            points = Points.join([points, asked]).take(places)
            looking = looking[~found]
            if len(looking) == 0:
                break
            a = angle[looking]
            low[looking], high[looking] = np.where(a < 0, a, low[looking]), np.where(a < 0, high[looking], a)
            angle[looking] = low[looking] + (high[looking] - low[looking]) * rng.random(len(looking))
        angle[looking] = 0.0
        return points, steps._replace(plain=float(np.abs(np.sin(angle)).mean()), acceptance=1 - len(looking) / n)
