"""What was read off a pool of evaluated points before it was let go, so that tables stay as they were."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from gbce.base import Array
from gbce.posterior import Evaluated, GibbsPosterior

__all__ = ["PRIOR_LEVELS", "TAIL_LEVELS", "ExactFigures", "Points", "PoolRecord", "SamplerInfo"]

_SAID = (float, float, bool)  # outputs, losses, verdicts
# Probabilities at which quantiles of the prior are kept: the ends of the usual intervals (50, 80, 90 and 95%) are among
# them, and between two of them a picture can be drawn by eye. A convention on which no table hangs.
PRIOR_LEVELS = np.linspace(0.0, 1.0, 41)
# Shares of the losses at which their quantiles are kept: every tail with at most three digits is among them. Between
# two of them a quantile is known up to its neighbours.
TAIL_LEVELS = 1_000
_SAME_LEVEL = 1e-6  # of a step between two levels: what is less is rounding

# --- evaluated points ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Points:
    """Evaluated points; ``n`` points, ``m`` latent coordinates, ``d`` features, ``K`` models.

    Parameters
    ----------
    z : array of shape (n, m)
        Latent coordinates.
    x : array of shape (n, d)
        Rows, encoded.
    outputs, loss : array of shape (n, K)
        Each model's output and loss.
    reached : bool array of shape (n, K)
        Whether each model's output counts as reached.
    cost : array of shape (n,)
        The prior's distance d(row, x).
    log_correction : array of shape (n,)
        Correction for a map that is not the prior itself.
    """

    z: Array
    x: Array
    outputs: Array
    loss: Array
    reached: Array
    cost: Array
    log_correction: Array

    def __len__(self) -> int:
        return len(self.x)

    @classmethod
    def evaluate(cls, posterior: GibbsPosterior, z: Array) -> "Points":
        """Place latent points ``(n, m)`` and ask every model about them."""
        placed = posterior.prior.place(z)
        fits = np.isfinite(placed.log_correction)
        if fits.all() and len(fits):
            said = posterior.evaluate(placed.x)
        elif not fits.any():
            said = Evaluated(*(np.zeros((len(z), len(posterior.mixture.weights)), dtype) for dtype in _SAID))
        else:  # rows that break a constraint are not shown to any model, and count for nothing
            some = posterior.evaluate(placed.x[fits])
            said = Evaluated(*(_fill(values, fits) for values in some))
        return cls(z, placed.x, *said, cost=placed.cost, log_correction=placed.log_correction)

    @classmethod
    def join(cls, parts: "Sequence[Points]") -> "Points":
        """Return all points one after the other."""
        return cls(*map(np.concatenate, zip(*(part._arrays for part in parts), strict=True)))

    def take(self, index: Array) -> "Points":
        """Return the points at ``index``, positions or a mask."""
        where = index.nonzero()[0] if index.dtype == bool else index
        return Points(*(array.take(where, axis=0) for array in self._arrays))

    def replace_where(self, to: "Points", where: Array) -> "Points":
        """Return these points with those of ``to`` in the places of the mask ``where`` ``(n,)``."""
        at = where.nonzero()[0]
        arrays = [array.copy() for array in self._arrays]
        for array, other in zip(arrays, to._arrays, strict=True):
            array[at] = other[at]
        return Points(*arrays)

    @property
    def _arrays(self) -> tuple[Array, ...]:
        return self.z, self.x, self.outputs, self.loss, self.reached, self.cost, self.log_correction


def _fill(values: Array, where: Array) -> Array:
    """Put values ``(k, K)`` in the places of a mask ``(n,)``; the others get the largest, or zero."""
    filled = np.zeros((len(where), values.shape[1]), dtype=values.dtype)
    if len(values) and values.dtype != bool:
        filled[:] = values.max(axis=0)
    filled[where] = values
    return filled


# --- what was read off a pool of evaluated points before it was let go, so that tables stay as they were -------------


@dataclass(frozen=True, eq=False)
class PoolRecord:
    """Numbers that need every evaluated point, kept where the points are not.

    Parameters
    ----------
    n_evaluated : int
        How many points there were.
    ess, worst_ess : float
        Effective sample size in all, and of the figure that runs agree on least.
    worst_of : int
        Which figure that is, see :attr:`gbce.draws.Draws.worst_ess`.
    pareto_k, expected_potential : float
        Of the weights' tail; under the posterior.
    figures : tuple of (str, str, float, float, float or None, float or None)
        Figures of the posterior: what is measured, of which model if not of the first, value, error, and the ends of an
        interval of its own.
    change, change_se : array of shape (d,)
        Mean size of each feature's change under the posterior, and its error.
    prior_shares : tuple of arrays
        Of each feature with levels, how probable each is under the prior, and last that it is missing; an empty array
        for other features.
    prior_moves : array of shape (41, d)
        Quantiles of each feature's signed change under the prior, in units of its scale, at ``PRIOR_LEVELS``; the
        probability of a change for a category.
    """

    n_evaluated: int
    ess: float
    worst_ess: float
    worst_of: int
    pareto_k: float
    expected_potential: float
    figures: tuple[tuple[str, str, float, float, float | None, float | None], ...]
    change: Array
    change_se: Array
    prior_shares: tuple[Array, ...]
    prior_moves: Array


# --- what a sampler reports beside its draws -------------------------------------------------------------------------


@dataclass(frozen=True)
class SamplerInfo:
    """What a sampler reports beside its draws; ``None`` where it has nothing to report.

    A sampler that reports more has a subclass with more fields, plain numbers and text: they appear among the
    diagnostics and in files.

    Parameters
    ----------
    sampler : str
        Its name.
    complete : bool
        Whether it finished; if not, the budget ran out.
    goal_met : bool, optional
        Whether the eta that was found achieves what was asked for.
    r_hat : float, optional
        The largest, where there are chains.
    doubt : str, optional
        Why the draws may be incomplete though their weights look well, as a part of a sentence.
    joint : bool, optional
        Whether each point was shown to one of many models.
    model_evidence : tuple of K float, optional
        Log evidence of each of these models by itself.
    ended : str, optional
        Why it did not finish, as a part of a sentence, where it was not the budget.
    seen_once : float, optional
        Share of the mass that only one of several independent runs found: what none of them found is estimated by it.
    """

    sampler: str = "a sampler"
    complete: bool = True
    goal_met: bool | None = None
    r_hat: float | None = None
    doubt: str | None = None
    joint: bool | None = None
    model_evidence: tuple[float, ...] | None = None
    ended: str | None = None
    seen_once: float | None = None

    @property
    def draws_posterior(self) -> bool:
        """Whether draws of the posterior were wanted at all."""
        return True

    @property
    def advice(self) -> str:
        """What to do where the draws do not suffice, as the end of a sentence."""
        return "let it draw more, or use gbce.SMC()"

    @property
    def runs(self) -> str:
        """How many independent runs there were, as a text such as ``"200 chains"``; empty for a pool of points."""
        return ""

    @property
    def kind_of_run(self) -> str:
        """What several of these runs are called."""
        return "runs"

    @property
    def scope(self) -> str:
        """What a good verdict is confined to, as a part of a sentence; empty where known points were compared too."""
        return ""

    @property
    def tempered(self) -> bool:
        """Whether the draws came up from the prior on rungs, so that the error of the evidence tells how well."""
        return False

    def entries(self) -> dict[str, Any]:
        """Return what was reported, as plain data by name."""
        said = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: value for name, value in said.items() if value is not None}


# --- figures of a posterior that were computed, not drawn ------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ExactFigures:
    """What is known of a posterior without Monte Carlo error; ``d`` features, ``K`` models.

    Parameters
    ----------
    cells : int
        Over which the sums were taken.
    success : array of shape (K + 2,)
        Success probability under each model, under all, and under at least half of them.
    success_se : array of shape (K + 2,)
        What is not known of these: outputs at the very limit of the target, where rounding decides, were asked for
        by a sample. Zero where there are none, or all were asked for.
    loss_levels : array of shape (K, 1001)
        Losses that are not exceeded with probability 0, 0.001, ..., 1, for each model.
    stability, expected_loss, expected_potential : float
        Total variance; loss of the first model; potential.
    change : array of shape (d,)
        Mean size of each feature's change.
    """

    cells: int
    success: Array
    success_se: Array
    loss_levels: Array
    stability: float
    expected_loss: float
    expected_potential: float
    change: Array

    def tail(self, k: int, alpha: float) -> tuple[float, float, float]:
        """Loss of model ``k`` that is exceeded with probability ``alpha`` at most, and between which it must lie."""
        place = (1.0 - alpha) * TAIL_LEVELS
        near = round(place)
        if abs(place - near) < _SAME_LEVEL:
            value = float(self.loss_levels[k, near])
            return value, value, value
        low, high = (float(self.loss_levels[k, int(end)]) for end in (np.floor(place), np.ceil(place)))
        return high, low, high
