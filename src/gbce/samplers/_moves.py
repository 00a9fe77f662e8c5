"""Markov moves of a whole population, with one model call per sweep, and elliptical slice sampling of chains.

Every move leaves ``exp(-u(z)) N(z; 0, I)`` invariant, whatever ``u``. Proposals are mixed: *pCN* (Cotter et al., 2013),
``z' = r z + s e`` with ``r**2 + s**2 = 1``, in all coordinates or in some; *fitted pCN* (Rudolf and Sprungk, 2018)
around a normal fitted to the posterior so far; *hops* (ter Braak and Vrugt, 2008) by the difference of two other
points, which carry points between modes; where columns may stay unchanged, *redraws* of some coordinates from the
product of the marginals so far, which turn single changes on and off. The last three adapt to other points than those
they move.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gbce.base import Array
from gbce.draws import Points
from gbce.posterior import GibbsPosterior
from gbce.samplers._proposals import MixtureProposal, NormalComponent, ProductOfMarginals

_PLAIN, _PARTIAL, _FITTED, _HOP, _REDRAW = 0, 1, 2, 3, 4  # the kinds of moves, as positions
# These numbers change how fast points move, never their distribution. They were chosen by hand, except where a
# reference is given.
_SHARES = (0.05, 0.15, 0.6, 0.2)  # fitted moves go farthest; the others are for regions where no normal fits
# Where columns may stay unchanged. Under two linear and network models with log Z -48, 12 rungs of 25 sweeps found -57
# and -50 with the shares above, -51 and -50 with these; at an equal number of rows redraws of up to four coordinates
# mixed less well.
_SHARES_SPIKED = (0.05, 0.05, 0.15, 0.15, 0.6)
_BOLD_SHARE = 0.5  # of the fitted proposals: independent of the current point, however rarely accepted
_JUMP_SHARE = 0.5  # of the bold proposals, where there is a distribution to jump to
_MAX_HOP = 8  # coordinates of one hop
_FULL_SHARE = 0.5  # of the hops, by the full difference
_HOP_SCALE = 2.38  # over the root of twice the directions: that of a random walk (ter Braak and Vrugt, 2008)
_BLUR = 0.01  # noise, so that hops can reach every point
_ACCEPTANCE = 0.25  # target; for random walks 0.234 is optimal (Roberts, Gelman and Gilks, 1997)
_ADAPTATION = 2.0  # change of a log step per unit of excess acceptance
_SMALLEST_STEP = 1e-4  # limit of adaptation
_FIRST_STEPS = {"plain": 0.5, "partial": 0.9, "fitted": 0.9}  # they adapt within a few sweeps
_JITTER = 0.4  # of each point's own step, on the log scale: no one scale fits everywhere
_MAX_ANGLES = 40  # in one sweep; two to ten are usual, so that stopping is rare

# --- moves of a population --------------------------------------------------------------------------------------------


class Learned(NamedTuple):
    """What moves of one half of a population know of the other: a normal fit, points ``(n, m)``, and marginals."""

    component: NormalComponent
    points: Array
    marginals: ProductOfMarginals | None = None  # where columns may stay unchanged


class StepSizes(NamedTuple):
    """Step sizes, in (0, 1] of each distribution's own spread, and the last acceptance rate."""

    plain: float = _FIRST_STEPS["plain"]
    partial: float = _FIRST_STEPS["partial"]
    fitted: float = _FIRST_STEPS["fitted"]
    acceptance: float = float("nan")

    def adapt(self, accepted: Array, kind: Array, bold: Array) -> "StepSizes":
        """Return longer steps where more than a quarter was accepted, shorter ones where less."""

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
    """One sweep over a population: propose, evaluate, accept."""

    posterior: GibbsPosterior  # evaluates proposals
    u: Callable[[Points], Array]  # negative log density of evaluated points against ``N(0, I)``, ``(n,)``
    learned: Sequence[Learned] = ()  # empty for pCN alone
    half: Array | None = None  # (n,): Which of them each point uses
    jumps: MixtureProposal | None = None  # replaces the fitted normal for half of the bold proposals

    def sweep(self, rng: np.random.Generator, points: Points, steps: StepSizes) -> tuple[Points, StepSizes]:
        """Move every point once."""
        proposal = self._propose(rng, points.z, steps)
        # where columns may stay unchanged, many a proposal has the same row
        proposed = Points.evaluate(self.posterior, proposal.z, points if self.posterior.prior.spikes else None)
        with np.errstate(invalid="ignore"):
            gain = self.u(points) - self.u(proposed) + proposal.correction
        accepted = np.log(rng.random(len(points))) < gain  # a comparison with NaN rejects
        return points.replace_where(proposed, accepted), steps.adapt(accepted, proposal.kind, proposal.bold)

    def _propose(self, rng: np.random.Generator, z: Array, steps: StepSizes) -> Proposal:
        """Propose a move for every point ``(n, m)``, of a kind drawn at random for each."""
        n, m = z.shape
        # The kind and step of each point. A bold proposal is independent of the current point. Kinds and steps do not
        # depend on positions, so that the reverse move is chosen with the same probability.
        noise = rng.standard_normal(z.shape)
        shares = _SHARES_SPIKED if self.learned and self.learned[0].marginals is not None else _SHARES
        kind: Array = rng.choice(len(shares), size=n, p=shares) if self.learned else np.full(n, _PLAIN)  # type: ignore[assignment]
        bold: Array = np.logical_and(kind == _FITTED, rng.random(n) < _BOLD_SHARE)
        own = np.array([steps.plain, steps.partial, steps.fitted, 1.0, 1.0])[kind] * np.exp(
            _JITTER * rng.standard_normal(n)
        )
        step = np.where(bold, 1.0, np.minimum(own, 1.0))[:, None]
        keep = np.sqrt(1 - np.square(step))
        # pCN leaves N(0, I) invariant, whatever the step (Cotter et al., 2013), and so does a partial move, which keeps
        # the other coordinates: no correction.
        to = keep * z + step * noise
        part: Array = np.equal(kind, _PARTIAL)
        to[part] = np.where(_choose_coordinates(rng, _draw_sizes(rng, int(part.sum()), m), m), to[part], z[part])
        correction = np.zeros(n)
        # Moves of one half of the islands use a fit and points of the other half only: given these, the moves are
        # fixed, so that adapting them does not bias the weights of its half.
        for number, learned in enumerate(self.learned):
            component = learned.component
            # pCN around the fitted normal leaves that normal invariant instead of N(0, I); the ratio of both densities
            # at the two points is the Hastings correction (Rudolf and Sprungk, 2018)
            fit = (kind == _FITTED) & (self.half == number)
            to[fit] = component.mean + keep[fit] * (z[fit] - component.mean) + step[fit] * component.noise(noise[fit])
            correction[fit] = component.log_ratio(z[fit]) - component.log_ratio(to[fit])
            hop = (kind == _HOP) & (self.half == number)
            # hops are symmetric (ter Braak and Vrugt, 2008): what remains is the ratio of N(0, I)
            to[hop] = _propose_hops(rng, z[hop], learned)
            correction[hop] = 0.5 * (np.square(z[hop]).sum(axis=1) - np.square(to[hop]).sum(axis=1))
            redraw = (kind == _REDRAW) & (self.half == number)
            if learned.marginals is not None:
                chosen = _choose_coordinates(rng, _draw_sizes(rng, int(redraw.sum()), m), m)
                to[redraw] = np.where(chosen, learned.marginals.transform(noise[redraw]), z[redraw])
                before, after = (learned.marginals.log_densities(some[redraw]) for some in (z, to))
                correction[redraw] = np.where(chosen, before - after, 0.0).sum(axis=1)
        # Some bold proposals come from a distribution fixed before any point moved, so that modes which the other half
        # has lost can still be reached: an independence proposal, corrected by its density.
        if self.jumps is not None:
            jump = bold & (rng.random(n) < _JUMP_SHARE)
            to[jump] = self.jumps.draw(rng, int(jump.sum()))
            correction[jump] = self.jumps.log_component_density(z[jump]) - self.jumps.log_component_density(to[jump])
        return Proposal(to, correction, kind, bold)


def _propose_hops(rng: np.random.Generator, z: Array, learned: Learned) -> Array:
    """Add the difference of two other points in a few coordinates, in full or scaled."""
    n, m = z.shape
    a, b = learned.points[rng.integers(len(learned.points), size=(2, n))]
    size = rng.integers(1, min(m, _MAX_HOP) + 1, size=n)
    scale = np.where(rng.random(n) < _FULL_SHARE, 1.0, _HOP_SCALE / np.sqrt(2 * size))
    shift = a - b + _BLUR * rng.standard_normal((n, m))
    return z + scale[:, None] * np.where(_choose_coordinates(rng, size, m), shift, 0.0)


def _draw_sizes(rng: np.random.Generator, n: int, m: int) -> Array:
    """Draw numbers of coordinates ``(n,)`` from one to all ``m``, uniform in the logarithm."""
    return np.ceil(m ** rng.random(n))


def _choose_coordinates(rng: np.random.Generator, size: Array, m: int) -> Array:
    """Choose ``size`` of ``m`` coordinates for each point: a mask ``(n, m)``."""
    return rng.random((len(size), m)).argsort(axis=1).argsort(axis=1) < size[:, None]


def correlate_with_start(before: Points, now: Points, u: Callable[[Points], Array]) -> float:
    """Return the correlation of a population with its start: of positions, or of densities if larger."""
    position = _correlation(before.z, now.z).mean()
    with np.errstate(invalid="ignore"):
        density = _correlation(u(before)[:, None], u(now)[:, None])[0]
    return float(max(position, density))


def _correlation(a: Array, b: Array) -> Array:
    """Return the correlation of columns ``(n, c)``, zero where it is undefined."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # infinite values have no correlation: NaN, 0
        a, b = _rescale(a - a.mean(axis=0)), _rescale(b - b.mean(axis=0))
        scale = np.sqrt(np.square(a).sum(axis=0) * np.square(b).sum(axis=0))
        return np.where(scale > 0, (a * b).sum(axis=0) / scale, 0.0)


def _rescale(values: Array) -> Array:
    """Divide columns ``(n, c)`` by powers of two, which is exact, so that their squares do not overflow."""
    peak = np.abs(values).max(axis=0)
    return np.ldexp(values, -np.frexp(np.where(np.isfinite(peak), peak, 1.0))[1])


# --- elliptical slice sampling ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Slice:
    """Elliptical slice sampling (Murray, Adams and MacKay, 2010): one sweep over all chains in lockstep."""

    posterior: GibbsPosterior  # evaluates proposals
    u: Callable[[Points], Array]  # negative log density of evaluated points against ``N(0, I)``, ``(n,)``
    max_angles: int = (
        _MAX_ANGLES  # tried before a chain stays put; the reverse path has the same length, so this is invariant
    )

    def sweep(self, rng: np.random.Generator, points: Points, steps: StepSizes) -> tuple[Points, StepSizes]:
        """Move every chain once; the reported step is the mean ``|sin(a)|``, in place of pCN's."""
        n = len(points)
        z, v = points.z, rng.standard_normal(points.z.shape)
        log_level = -self.u(points) + np.log1p(-rng.random(n))
        angle = 2 * np.pi * rng.random(n)
        low, high = angle - 2 * np.pi, angle.copy()
        active = np.arange(n)
        for _ in range(self.max_angles):
            a = angle[active][:, None]
            tried = Points.evaluate(self.posterior, np.cos(a) * z[active] + np.sin(a) * v[active])
            u = self.u(tried)
            found = (-u >= log_level[active]) & (u < np.inf)  # a chain of density zero goes on
            places = np.arange(n)
            places[active[found]] = n + np.flatnonzero(found)
            points = Points.join([points, tried]).take(places)
            active = active[~found]
            if len(active) == 0:
                break
            a = angle[active]
            low[active], high[active] = np.where(a < 0, a, low[active]), np.where(a < 0, high[active], a)
            angle[active] = low[active] + (high[active] - low[active]) * rng.random(len(active))
        angle[active] = 0.0
        return points, steps._replace(plain=float(np.abs(np.sin(angle)).mean()), acceptance=1 - len(active) / n)
