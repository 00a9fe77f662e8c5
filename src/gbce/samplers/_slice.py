"""Elliptical slice sampling (Murray, Adams and MacKay, 2010) of many chains in lock-step.

A chain at ``z`` draws ``v ~ N(0, I)`` and a height below its own density, and moves to a random place on the ellipse
``z cos(a) + v sin(a)`` that is above that height. Angles that are too low shrink a bracket around ``a = 0``, the
chain's own place, so there is no step to choose. Only chains that are still looking are asked about again.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gbce.base import Array
from gbce.draws import Points
from gbce.posterior import GibbsPosterior
from gbce.samplers._moves import StepSizes

__all__ = ["Slice"]

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
        height = -self.u(points) + np.log1p(-rng.random(n))
        angle = 2 * np.pi * rng.random(n)
        low, high = angle - 2 * np.pi, angle.copy()
        looking = np.arange(n)
        for _ in range(self.max_asked):
            a = angle[looking][:, None]
            asked = Points.evaluate(self.posterior, np.cos(a) * z[looking] + np.sin(a) * v[looking])
            u = self.u(asked)
            found = (-u >= height[looking]) & (u < np.inf)  # a chain of density zero goes on looking
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
