"""Evaluated points, and the reports that accompany draws: of the sampler, of a dropped pool, of exact figures."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from gbce._numerics import MEMORY_CELLS
from gbce.base import Array
from gbce.posterior import Evaluated, GibbsPosterior

_DTYPES = (float, float, bool)  # outputs, losses, verdicts
# Levels at which prior quantiles are stored: they include the ends of the usual intervals (50, 80, 90 and 95%) and are
# dense enough to interpolate in a plot. A convention; no table depends on it.
PRIOR_LEVELS = np.linspace(0.0, 1.0, 41)
# Number of steps between stored quantiles of the loss: exact for every tail of at most three digits, and bounded by the
# neighbours in between.
TAIL_LEVELS = 1_000
_SAME_LEVEL = 1e-6  # of a step between two levels: smaller differences are rounding

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
    def evaluate(cls, posterior: GibbsPosterior, z: Array, before: "Points | None" = None) -> "Points":
        """Map latent points ``(n, m)`` to rows and evaluate every model on them.

        With the ``n`` points ``before`` a move, rows that the move has not changed are not evaluated again.
        """
        most = max(MEMORY_CELLS // max(z.shape[1], 1), 1)
        if len(z) > most:
            parts = [slice(start, start + most) for start in range(0, len(z), most)]
            earlier = [None if before is None else before.take(np.arange(len(z))[some]) for some in parts]
            return cls.join([cls.evaluate(posterior, z[some], old) for some, old in zip(parts, earlier, strict=True)])
        placed = posterior.prior.place(z)
        if before is not None:
            moved = ~((placed.x == before.x) | (np.isnan(placed.x) & np.isnan(before.x))).all(axis=1)
            same = replace(before, z=z, log_correction=placed.log_correction)
            return same if not moved.any() else same.replace_where(cls.evaluate(posterior, z[moved]), moved)
        fits = np.isfinite(placed.log_correction)
        if fits.all() and len(fits):
            evaluated = posterior.evaluate(placed.x)
        elif not fits.any():
            evaluated = Evaluated(*(np.zeros((len(z), len(posterior.mixture.weights)), dtype) for dtype in _DTYPES))
        else:  # rows that violate a constraint are not evaluated, and have no weight
            some = posterior.evaluate(placed.x[fits])
            evaluated = Evaluated(*(_fill(values, fits) for values in some))
        return cls(z, placed.x, *evaluated, cost=placed.cost, log_correction=placed.log_correction)

    @classmethod
    def join(cls, parts: "Sequence[Points]") -> "Points":
        """Concatenate points; one part alone is not copied."""
        if len(parts) == 1:
            return parts[0]
        return cls(*map(np.concatenate, zip(*(part._arrays for part in parts), strict=True)))

    def take(self, index: Array) -> "Points":
        """Return the points at ``index``, positions or a mask."""
        where = index.nonzero()[0] if index.dtype == bool else index
        return Points(*(array.take(where, axis=0) for array in self._arrays))

    def replace_where(self, to: "Points", where: Array) -> "Points":
        """Return these points with those of ``to``, all or only these, where the mask ``(n,)`` is true."""
        at = where.nonzero()[0]
        source = at if len(to) == len(self) else slice(None)
        arrays = [array.copy() for array in self._arrays]
        for array, other in zip(arrays, to._arrays, strict=True):
            array[at] = other[source]
        return Points(*arrays)

    @property
    def _arrays(self) -> tuple[Array, ...]:
        return self.z, self.x, self.outputs, self.loss, self.reached, self.cost, self.log_correction


def _fill(values: Array, where: Array) -> Array:
    """Scatter values ``(k, K)`` to a mask ``(n,)``; the others get the largest value, or False."""
    filled = np.zeros((len(where), values.shape[1]), dtype=values.dtype)
    if len(values) and values.dtype != bool:
        filled[:] = values.max(axis=0)
    filled[where] = values
    return filled


# --- record of a dropped pool ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PoolRecord:
    """Figures that need every evaluated point, stored where the points are not kept.

    ``worst_ess`` and ``worst_of`` are those of :attr:`gbce.draws.Draws.worst_ess`. ``figures`` are tuples of measure,
    model (empty for the first), value, error, and the ends of its own interval. ``change`` and ``change_se`` ``(d,)``
    are the posterior mean size of each feature's change and its error. ``prior_shares`` are, for each feature with
    levels, their prior probabilities, and last that of a missing value. ``prior_moves`` ``(41, d)`` are prior quantiles
    of signed changes in units of scale at ``PRIOR_LEVELS``, or the probability of a change for a category.
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


# --- sampler report --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SamplerInfo:
    """What a sampler reports beside its draws; ``None`` where it has nothing to report.

    A sampler that reports more has a subclass with more fields, plain numbers and strings: they appear in the
    diagnostics and in files.

    Parameters
    ----------
    sampler : str
        Its name.
    complete : bool
        Whether it finished; if not, the budget ran out.
    goal_met : bool, optional
        Whether the eta that was found achieves its goal.
    r_hat : float, optional
        The largest R-hat, if there are chains.
    doubt : str, optional
        Why the draws may be incomplete although their weights look fine, as part of a sentence.
    joint : bool, optional
        Whether each point was evaluated by one of many models.
    model_evidence : tuple of K float, optional
        Log evidence of each of these models by itself.
    ended : str, optional
        Why it did not finish, as part of a sentence, unless it was the budget.
    seen_once : float, optional
        Share of the mass that only one of several independent runs found, an estimate of the mass that none found.
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
    def undrawn(self) -> str:
        """Why there is no posterior, where :attr:`draws_posterior` is False."""
        return "only an answer was asked for"

    @property
    def draws_posterior(self) -> bool:
        """Whether draws of the posterior were requested at all."""
        return True

    @property
    def advice(self) -> str:
        """What to do if the draws do not suffice, as the end of a sentence."""
        return "let it draw more, or use gbce.SMC()"

    @property
    def runs(self) -> str:
        """The number of independent runs, such as ``"200 chains"``; empty for a pool of points."""
        return ""

    @property
    def kind_of_run(self) -> str:
        """The plural noun for these runs."""
        return "runs"

    @property
    def scope(self) -> str:
        """The limits of a good verdict, as part of a sentence; empty if known points were compared too."""
        return ""

    @property
    def tempered(self) -> bool:
        """Whether the draws were tempered from the prior, so that the error of the evidence shows their quality."""
        return False

    def entries(self) -> dict[str, Any]:
        """Return the fields that are not None, by name."""
        reported = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: value for name, value in reported.items() if value is not None}


# --- exact figures ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ExactFigures:
    """Figures of a posterior without Monte Carlo error, summed over ``cells``; ``d`` features, ``K`` models.

    ``success`` ``(K + 2,)`` are success probabilities under each model, under all, and under at least half of them;
    ``success_se`` their errors, because outputs at the very limit of the target, where rounding decides, may be
    evaluated for a sample of cells only. ``loss_levels`` ``(K, 1001)`` are quantiles of each model's loss at levels 0,
    0.001, ..., 1. ``stability`` is the total variance, ``change`` ``(d,)`` the mean size of each feature's change.
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
        """Return the ``1 - alpha`` quantile of the loss of model ``k``, and bounds on it."""
        place = (1.0 - alpha) * TAIL_LEVELS
        near = round(place)
        if abs(place - near) < _SAME_LEVEL:
            value = float(self.loss_levels[k, near])
            return value, value, value
        low, high = (float(self.loss_levels[k, int(end)]) for end in (np.floor(place), np.ceil(place)))
        return high, low, high
