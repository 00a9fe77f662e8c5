"""Figures for one point: robustness and plausibility (Rb and Plu of the paper).

Loss and distance (L_pt and D_pt) need no code of their own: the loss comes with every evaluated point, and the
distance is Euclidean in units of each feature's scale.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gbce._numerics import JUDGING, stream
from gbce.base import Array, Query
from gbce.budget import BudgetSpentError
from gbce.metrics._noise import offsets, under_noise
from gbce.posterior import GibbsPosterior
from gbce.space import Places, Space

__all__ = ["Neighbours", "PointFigures", "evaluate_figures", "open_errors", "open_figures", "robustness"]

_FEWEST_PERTURBED = 10  # copies, below which robustness is not worth a number: its error is above 0.15


class PointFigures(NamedTuple):
    """Figures of ``k`` points by name, each ``(k,)``, and the Monte Carlo errors of those that have one."""

    values: dict[str, Array]
    errors: dict[str, Array]


def evaluate_figures(query: Query, posterior: GibbsPosterior, x: Array, neighbours: "Neighbours") -> PointFigures:
    """Return every figure of points ``(k, d)`` that a table shows beside loss, distance and verdict.

    A figure that is added here, and to :func:`open_figures`, appears in tables and files. One that the budget does not
    allow is NaN.
    """
    robust, robust_se = _robustness_within(query, posterior, x)
    near = neighbours.plausibility(x, query.evaluation.neighbours)
    return PointFigures({"robustness": robust, "plausibility": near}, {"robustness": robust_se})


def open_figures() -> dict[str, float]:
    """Return the figures of a point that nobody was asked about."""
    return {"robustness": float("nan"), "plausibility": float("nan")}


def open_errors() -> dict[str, float]:
    """Return the errors of these."""
    return {"robustness": float("nan")}


def _robustness_within(query: Query, posterior: GibbsPosterior, x: Array) -> tuple[Array, Array]:
    """Return robustness and its error under as many copies as the budget allows, or NaN."""
    evaluation, unknown = query.evaluation, np.full(len(x), np.nan)
    shifts = offsets(evaluation.noise, query.space, stream(query.seed, JUDGING), evaluation.n_perturb)
    shifts = shifts[: posterior.affords(len(shifts) * len(x)) // len(x)]
    if len(shifts) < min(_FEWEST_PERTURBED, evaluation.n_perturb):
        return unknown, unknown
    try:
        return robustness(posterior, query.space, x, shifts)
    except BudgetSpentError:  # time ran out earlier than was foreseen
        return unknown, unknown


def robustness(posterior: GibbsPosterior, space: Space, x: Array, shifts: Array) -> tuple[Array, Array]:
    """Share of perturbed copies that reach the target under the first model, and its Monte Carlo error.

    Parameters
    ----------
    posterior : GibbsPosterior
        With the models.
    space : Space
        Whose limits hold under noise, too.
    x : array of shape (k, d)
        Points.
    shifts : array of shape (n, d)
        Offsets, the same for every point.

    Returns
    -------
    tuple of two arrays of shape (k,)
        Rb and its standard error.
    """
    reached = under_noise(posterior, space, x, shifts, first_only=True).reached[:, :, 0]
    return binomial(reached.mean(axis=1), len(shifts))


def binomial(share: Array, n: float) -> tuple[Array, Array]:
    """Return a share of ``n`` trials and its standard error, which is not zero at shares of 0 and 1.

    There Agresti and Coull's two extra successes and failures stand in: none in 200 trials is not "impossible".
    """
    adjusted = np.where((share == 0) | (share == 1), (share * n + 2) / (n + 4), share)
    size = np.where((share == 0) | (share == 1), n + 4, n)
    return share, np.sqrt(adjusted * (1 - adjusted) / size)


@dataclass(frozen=True)
class Neighbours:
    """Training rows in units of each feature's scale, ready to be searched."""

    rows: Places
    space: Space

    @classmethod
    def of(cls, x: Array, space: Space) -> "Neighbours":
        """Index training rows ``(n, d)``."""
        return cls(space.embed(x), space)

    def plausibility(self, x: Array, q: int) -> Array:
        """Mean distance ``(k,)`` of each point ``(k, d)`` to its ``q`` nearest training rows; smaller is better."""
        return self.rows.nearest_distances(self.space.embed(x), min(q, len(self.rows))).mean(axis=1)
