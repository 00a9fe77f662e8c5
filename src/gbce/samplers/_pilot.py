"""A first value of the eta that meets a goal, from as few model rows as possible.

Weighted prior draws come first, then tilted products of growing divergence with the prior draws, then a small tempered
run that starts from these, and a search for modes where that does not reach the target. The value need not be exact:
draws at it are reweighted to the eta that meets the goal.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gbce._numerics import effective_sample_size, log_sum_exp
from gbce.base import Array
from gbce.draws import Draws, Points
from gbce.eta import solve_eta
from gbce.posterior import GibbsPosterior
from gbce.samplers._islands import LEAST_ISLANDS, Islands, draw_start_if_affordable
from gbce.samplers._proposals import MixtureProposal, NormalComponent
from gbce.samplers._starts import Starts
from gbce.samplers._tempering import Bridge
from gbce.samplers._tilts import TiltedProduct, tilt

# Points and sweeps of the tempered run. On four networks and regressions, two rows each, its eta was within a factor
# of two of the solution.
_TEMPERED_POINTS, _SWEEPS = 200, 8
# Divergences of tilts are doubled until their own draws meet the goal; then some between the last two follow. In ten
# rows of breast cancer, half under a regression and half under a network, nine needed no tempered run; the eta found
# was within a fifth of the solution.
_FIRST_DIVERGENCE, _MOST_DOUBLINGS, _DRAWS = 1.0, 8, 100
_STRONGEST, _TILTED_SHARE = 5, 0.8  # of the tilts, those from which to temper, and their share of the points
_STARTED = 4  # points of such a start for each that is moved
_STEEP = 100.0  # potential of a usual prior draw in a search for modes that reach the target: few modes cost more
_LEAST_ESS = 20.0  # with fewer effective draws a tempered run is no worse
_BETWEEN, _DRAWS_BETWEEN = (0.25, 0.5, 0.75), 200  # on the log scale
_MOST_REFITS, _DRAWS_REFITTED = 8, 300  # of a tilt to the points at the largest eta that they carry so far


class Pilot(NamedTuple):
    """A first value of eta, ``None`` if the goal may be out of reach, and what led to it, if anything did.

    That is a tilt fitted at this eta, or else tilts whose draws reach the target, from which to temper.
    """

    eta: float | None
    tilt: TiltedProduct | None = None
    reaching: MixtureProposal | None = None


def find_first_eta(posterior: GibbsPosterior, rng: np.random.Generator, first: Points) -> Pilot:
    """Find about the eta that meets the goal, given prior draws."""
    drawn: Drawn = []
    found = _solve_on(posterior, first, drawn)
    if found.met:
        return Pilot(found.eta)
    drawn = _climb_by_tilts(posterior, rng)
    reaching = _propose_tilts(drawn)
    for _ in range(_MOST_REFITS if drawn else 0):
        found = _solve_on(posterior, first, drawn)
        if found.met:
            return Pilot(found.eta, drawn[-1][0])
        component = drawn[-1][0].refit(found.z, found.weights, effective_sample_size(found.weights))
        drawn.append(_draw_tilted(posterior, rng, component, _DRAWS_REFITTED))
    guess = _solve_on(posterior, first, drawn, least_ess=1.0)
    reaching = reaching if guess.met else None
    tempered = _temper(posterior, rng, first, reaching, guess.eta)
    return Pilot(_guess_from_modes(posterior, rng, first) if tempered is None else tempered, reaching=reaching)


Drawn = list[tuple[TiltedProduct, Points]]  # tilts, each with its draws


class _Found(NamedTuple):
    """The eta closest to the goal, whether it meets it, and points ``(n, m)`` with weights ``(n,)`` at it."""

    eta: float
    met: bool
    z: Array
    weights: Array


def _solve_on(posterior: GibbsPosterior, first: Points, drawn: Drawn, least_ess: float = _LEAST_ESS) -> _Found:
    """Find the eta that meets the goal among those that prior draws and those of tilts carry."""
    goal, pool = posterior.goal, Points.join([first, *(points for _, points in drawn)])
    assert goal is not None
    parts = [np.full(len(pool), np.log(len(first)))]
    parts += [component.log_density(pool.z) + np.log(len(points)) for component, points in drawn]
    base, flat = -log_sum_exp(np.array(parts), axis=0), replace(posterior.mixture, eta=0.0)
    draws = Draws.weigh(pool, flat, posterior.prior, log_base_weights=base)
    eta, met = solve_eta(draws, posterior.mixture, goal, least_ess=least_ess)
    there = draws.reweigh(replace(posterior.mixture, eta=eta))
    return _Found(eta, met, pool.z, there.pool_weights)


def _climb_by_tilts(posterior: GibbsPosterior, rng: np.random.Generator) -> Drawn:
    """Draw from tilts of growing divergence until these draws meet the goal; none if they never do."""
    direction = tilt(posterior)
    if direction is None:
        return []
    drawn: Drawn = []
    for number in range(_MOST_DOUBLINGS):
        divergence = _FIRST_DIVERGENCE * 2.0**number
        drawn.append(_draw_tilted(posterior, rng, direction.with_divergence(divergence), _DRAWS))
        if _meets_goal(posterior, drawn[-1][1]):
            between = [divergence * 2.0 ** (part - 1.0) for part in _BETWEEN]
            some = [direction.with_divergence(one) for one in between]
            return drawn + [_draw_tilted(posterior, rng, one, _DRAWS_BETWEEN) for one in some]
    return []


def _propose_tilts(drawn: Drawn) -> MixtureProposal | None:
    """Return a mixture of the strongest tilts, of which at least the last one reaches the target; or ``None``."""
    if not drawn:
        return None
    tilts = [component for component, _ in drawn[-_STRONGEST:]]
    m = tilts[0].dimension
    none = NormalComponent(np.zeros(m), np.zeros((m, 0)), np.zeros(0))
    return MixtureProposal((*tilts, none), _TILTED_SHARE, np.full(len(tilts) + 1, 1.0 / (len(tilts) + 1)))


def _draw_tilted(
    posterior: GibbsPosterior, rng: np.random.Generator, component: TiltedProduct, n: int
) -> tuple[TiltedProduct, Points]:
    """Draw ``n`` points from a tilt."""
    return component, Points.evaluate(posterior, component.transform(rng.standard_normal((n, component.dimension))))


def _meets_goal(posterior: GibbsPosterior, points: Points) -> bool:
    """Whether points of equal weights meet the goal."""
    assert posterior.goal is not None
    equal = np.full(len(points), 1.0 / len(points))
    return posterior.goal.shortfall(points.loss[:, 0], points.reached[:, 0], equal) <= 0


def _temper(
    posterior: GibbsPosterior, rng: np.random.Generator, first: Points, reaching: MixtureProposal | None, guess: float
) -> float | None:
    """Return the eta of a small tempered run, from tilts up to a guess of it, or from prior draws."""
    goal = posterior.goal
    assert goal is not None
    small, bridge, start = (
        Islands(_TEMPERED_POINTS, LEAST_ISLANDS, _SWEEPS, max_rounds=1),
        Bridge(posterior.mixture),
        first,
    )
    if reaching is not None:
        bridge = Bridge(posterior.mixture, reaching, guess)
        drawn = draw_start_if_affordable(posterior, rng, bridge, _STARTED * _TEMPERED_POINTS)
        bridge, start = (Bridge(posterior.mixture), first) if drawn is None else (bridge, drawn)
    draws = small.temper(posterior, rng, bridge, start).draws
    within_reach = len(posterior.predictors) == 1 and draws.pool.reached[:, 0].any()
    if not (draws.info.goal_met or within_reach):
        return None  # several models may never meet it, and a target may be out of reach
    return max(draws.rungs[-1], goal.least)


def _guess_from_modes(posterior: GibbsPosterior, rng: np.random.Generator, first: Points) -> float | None:
    """Return the eta from which a mode that reaches the target outweighs the prior draws; ``None`` without one."""
    goal, usual = posterior.goal, float(np.median(posterior.mixture.effective_loss(first.loss)))
    if len(posterior.predictors) > 1 or not 0 < usual < np.inf:
        return None
    assert goal is not None
    at = replace(posterior, mixture=replace(posterior.mixture, eta=_STEEP / usual), goal=None)
    found = Starts(at, rng, first).search(components=False).points
    found = found.take(found.reached[:, 0])
    gain = usual - posterior.mixture.effective_loss(found.loss)
    cost = 0.5 * np.square(found.z).sum(axis=1)[gain > 0]
    return max(float((cost / gain[gain > 0]).min()), goal.least) if len(cost) else None
