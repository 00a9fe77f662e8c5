"""One independent look at a posterior: a search of its own, laws around what it found, and draws from them.

A look begins with starts that no other look has. Around the sites where its search ends it puts normal laws, with the
latent law beside them as a defence, learns from a few rounds of draws how wide they have to be and how much each
counts, and then draws afresh from what it has learned: the draws that count have had no part in the learning, so that
their weights, the posterior against the whole mixture of laws, have no bias. Two looks that cover what each other found
are the evidence that nothing of weight was missed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gbce._numerics import effective_sample_size, log_sum_exp, log_total, normalise
from gbce.base import Array
from gbce.draws import Points, log_target
from gbce.posterior import GibbsPosterior, Mixture
from gbce.samplers._coverage import Coverage
from gbce.samplers._guide import Guide
from gbce.samplers._lessons import Lessons
from gbce.samplers._site_laws import guide_around
from gbce.samplers._tilted import tilt
from gbce.search import Sites

__all__ = [
    "KEPT",
    "MOST_FOR_EFFECTIVE",
    "Agreement",
    "Look",
    "agreement",
    "join_looks",
    "least_rows_for_looks",
    "rows_for_look",
    "take_look",
]

# Chosen by hand; they decide what a look costs. What is wrong with its laws shows in its weights.
_PILOT, _PILOT_PER_COORDINATE = 500, 25  # draws of a round of learning: the sum of both
_LARGEST_PILOT = 3_000  # in more than a hundred coordinates there is less to be learned than would be needed anyway
_MOST_ROUNDS, _MOST_LEARNING = 14, 18_000  # of learning, and draws of all of them; 30 coordinates may need all rounds
# Efficiency, effective draws for each draw, at which learning is over: in any case, or where the draws that are wanted
# take no more than so many rounds of learning.
_GOOD, _ROUNDS_WORTH = 0.25, 2
_IMPROVES = 1.2  # times the efficiency before: learning that gains less is over after two rounds that fail
MOST_FOR_EFFECTIVE = 60  # draws for one effective draw: where more would be needed, points are moved instead
_ROUNDS_LEFT = 4  # rounds of learning that a budget must still allow for another one to begin
_USUAL_ROUNDS, _AT_BEST = 2, 0.5  # rounds of learning that most looks take, and the efficiency that few exceed
_STRATA_SHARE = 0.4  # of strata among the components of the first round
KEPT = 0.5  # of the effective draws that were wanted: with fewer, a look draws a second time
# When looks agree: at most this share of the mass is covered by one of them only, and the log evidences of what both
# cover differ by no more than so many standard errors, or by no more than this.
_SEEN_ONCE, _Z_EVIDENCE, _EVIDENCE_SLACK = 0.02, 3.5, 0.03


@dataclass(frozen=True, eq=False)
class Look:
    """What one look has to say.

    Parameters
    ----------
    guide : Guide
        The law its draws come from.
    points : Points
        Draws from it, evaluated; those that break a constraint are left out.
    n : int
        How many there were before that.
    sites : Sites
        Where its search ended.
    efficiency : float
        Effective draws for each draw, in the last round of learning.
    """

    guide: Guide
    points: Points
    n: int
    sites: Sites
    efficiency: float


def rows_for_look(n_effective: float) -> int:
    """Return how many rows a budget must still allow for a look to get all that it may ask."""
    return _MOST_LEARNING + 2 * round(MOST_FOR_EFFECTIVE * n_effective)


def least_rows_for_looks(m: int, n_effective: float) -> int:
    """Return how many rows two looks in ``m`` coordinates take for so many effective draws, if all goes well."""
    return 2 * _USUAL_ROUNDS * _pilot(m) + round(n_effective / _AT_BEST)


def _pilot(m: int) -> int:
    """Return the draws of a round of learning in ``m`` coordinates."""
    return min(_PILOT + _PILOT_PER_COORDINATE * m, _LARGEST_PILOT)


def take_look(
    posterior: GibbsPosterior,
    rng: np.random.Generator,
    sites: Sites,
    plain: Points,
    known: tuple[Array, Array],
    n_effective: float,
    most: int,
) -> Look:
    """Learn laws around sites, then draw from them until about ``n_effective`` draws count, ``most`` at most.

    ``plain`` are candidates of the prior, from which is learned as well. Where learning does not come to one effective
    draw in sixty, nothing is drawn. Where ``most`` is less than would be needed, as many are drawn as it allows.
    """
    lessons = Lessons(posterior, plain, known, rng)
    guide = guide_around(sites, posterior, tilt(posterior, sites)).beside(lessons.stratify(), _STRATA_SHARE)
    pilot = _pilot(plain.z.shape[1])
    best, failures, efficiency = guide, 0, 0.0
    good = min(_GOOD, n_effective / (_ROUNDS_WORTH * pilot))
    for _ in range(min(_MOST_ROUNDS, _MOST_LEARNING // pilot)):
        drawn = _draw(posterior, rng, guide, pilot)
        now = _efficiency(posterior, guide, drawn, pilot)
        lessons.add(guide, drawn)
        tells = now * pilot >= lessons.enough  # with fewer draws that count, it is the efficiency of a few heavy ones
        failures = failures + 1 if tells and now <= _IMPROVES * efficiency else 0
        if now > efficiency:
            best, efficiency = guide, now
        if efficiency >= good or failures > 1 or posterior.affords(_ROUNDS_LEFT * pilot) < _ROUNDS_LEFT * pilot:
            break
        guide = lessons.fit(guide)
    if efficiency == 0.0:  # no draw had a finite loss
        return Look(guide, plain.take(np.zeros(0, dtype=int)), 0, sites, efficiency)
    # What counts is drawn afresh. If it is far less effective than the rounds of learning promised, they had missed
    # something: then it is one more of them.
    for last in (False, True):
        final = lessons.add_way(lessons.fit(best))
        if efficiency * MOST_FOR_EFFECTIVE < 1:
            break
        n = min(int(np.ceil(n_effective / efficiency)), most)
        drawn = _draw(posterior, rng, final, n)
        efficiency = _efficiency(posterior, final, drawn, n)
        hopeless = efficiency * MOST_FOR_EFFECTIVE < 1  # another such draw would not do either: this one counts
        if last or hopeless or n == most or efficiency * n >= KEPT * n_effective:
            return Look(final, drawn, n, sites, efficiency)
        lessons.add(final, drawn)
    return Look(final, plain.take(np.zeros(0, dtype=int)), 0, sites, efficiency)


def join_looks(looks: Sequence[Look]) -> Coverage:
    """Return the draws of all looks together: each is weighed as one of the whole mixture."""
    pool = Points.join([look.points for look in looks])

    def log_density(points: Points) -> Array:
        return log_sum_exp(np.array([look.guide.excess(points.z) + np.log(look.n) for look in looks]), axis=0)

    return Coverage(pool, log_density, -log_density(pool))


@dataclass(frozen=True)
class Agreement:
    """Whether looks agree: the share of the mass that only one of them covers, and the gap of log evidences.

    The mass that was seen by one look only estimates what none has seen (Good, 1953). ``gap`` is that between the last
    look and all before it, apart from the mass that one of the two does not cover; ``errors`` is the gap in standard
    errors.
    """

    seen_once: float
    gap: float
    errors: float

    @property
    def holds(self) -> bool:
        """Whether what remains is what chance alone explains."""
        close = self.errors <= _Z_EVIDENCE or self.gap <= _EVIDENCE_SLACK
        return self.seen_once <= _SEEN_ONCE and close

    def describe(self) -> str:
        """Say in what they disagree, as a part of a sentence."""
        if self.seen_once > _SEEN_ONCE:
            return f"independent searches end at different places ({self.seen_once:.0%} of the mass seen by one only)"
        return f"independent searches lead to log evidences that differ by {self.gap:.2f}"


def agreement(mixture: Mixture, looks: Sequence[Look]) -> Agreement:
    """Compare what each look covers with what all found together, and the evidence of the last with all before it."""
    whole = join_looks(looks)
    weights = normalise(whole.log_base_weights + log_target(mixture, whole.pool))
    total = whole.log_mass(mixture)
    covers = np.array([~join_looks([look]).outweighed(whole.pool, mixture, total) for look in looks])
    parts = [join_looks(looks[:-1]), join_looks(looks[-1:])]
    evidence = [part.log_base_weights + log_target(mixture, part.pool) for part in parts]
    missed = [float(weights[~covered].sum()) for covered in (covers[:-1].any(axis=0), covers[-1])]
    earlier, last = (log_total(one) - np.log1p(-min(gone, 0.999)) for one, gone in zip(evidence, missed, strict=True))
    error = np.sqrt(sum(np.square(normalise(one)).sum() for one in evidence))
    gap = abs(last - earlier)
    return Agreement(float(weights[covers.sum(axis=0) < 2].sum()), gap, float(gap / error))


def _draw(posterior: GibbsPosterior, rng: np.random.Generator, guide: Guide, n: int) -> Points:
    """Draw from the whole mixture, the latent law included, and keep what breaks no constraint."""
    near = rng.binomial(n, guide.share)
    z = np.vstack([guide.draw(rng, near), rng.standard_normal((n - near, posterior.prior.dimension))])
    points = Points.evaluate(posterior, z)
    return points.take(np.isfinite(points.log_correction))


def _efficiency(posterior: GibbsPosterior, guide: Guide, points: Points, n: int) -> float:
    """Effective draws for each of ``n`` draws, of which these are the points that break no constraint."""
    log_weights = log_target(posterior.mixture, points) - guide.excess(points.z)
    return effective_sample_size(normalise(log_weights)) / n if np.isfinite(log_weights).any() else 0.0
