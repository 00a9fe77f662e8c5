"""Figures for one point: robustness and plausibility (Rb and Plu of the paper), and whatever is added to their list.

Loss and distance (L_pt and D_pt) need no code of their own: the loss comes with every evaluated point, and the
distance is Euclidean in units of each feature's scale.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gbce._numerics import JUDGING, share_and_error, stream
from gbce.base import Array, Query
from gbce.budget import BudgetSpentError
from gbce.metrics._noise import evaluate_under_noise, offsets
from gbce.posterior import GibbsPosterior
from gbce.space import Places, Space

__all__ = [
    "POINT_FIGURES", "Neighbours", "PointFigure", "PointValues", "evaluate_figures", "robustness",
    "unknown_errors", "unknown_figures",
]  # fmt: skip

_FEWEST_PERTURBED = 10  # copies below which robustness is not worth a number: the error of a share is up to 0.16


class PointFigure(NamedTuple):
    """A figure of single points, as tables, files and summaries show it beside loss, distance and verdict.

    Parameters
    ----------
    name : str
        Of its column.
    meaning : str
        What it is, in a few words, for the legend of a summary.
    evaluate : function of a query, a posterior, points ``(k, d)`` and training rows
        Returns values ``(k,)`` and their Monte Carlo errors ``(k,)``, or ``None`` instead of errors.
    has_error : bool
        Whether it has a Monte Carlo error, which stands in a column of its own.
    """

    name: str
    meaning: str
    evaluate: Callable[[Query, GibbsPosterior, Array, "Neighbours"], tuple[Array, Array | None]]
    has_error: bool = False


class PointValues(NamedTuple):
    """Figures of ``k`` points by name, each ``(k,)``, and the Monte Carlo errors of those that have one."""

    values: dict[str, Array]
    errors: dict[str, Array]


def evaluate_figures(query: Query, posterior: GibbsPosterior, x: Array, neighbours: "Neighbours") -> PointValues:
    """Return every figure in :data:`POINT_FIGURES` of points ``(k, d)``; one that the budget does not allow is NaN."""
    found = PointValues({}, {})
    for figure in POINT_FIGURES:
        found.values[figure.name], error = figure.evaluate(query, posterior, x, neighbours)
        if error is not None:
            found.errors[figure.name] = error
    return found


def _robustness_within_budget(
    query: Query, posterior: GibbsPosterior, x: Array, neighbours: "Neighbours"
) -> tuple[Array, Array]:
    """Return robustness and its error under as many copies as the budget allows, or NaN."""
    evaluation, unknown = query.evaluation, np.full(len(x), np.nan)
    shifts = offsets(evaluation.noise, query.space, stream(query.seed, JUDGING, query.key), evaluation.n_perturb)
    shifts = shifts[: posterior.affords(len(shifts) * len(x)) // len(x)]
    if len(shifts) < min(_FEWEST_PERTURBED, evaluation.n_perturb):
        return unknown, unknown
    try:
        return robustness(posterior, query.space, x, shifts)
    except BudgetSpentError:  # time ran out earlier than expected
        return unknown, unknown


def _plausibility(
    query: Query, posterior: GibbsPosterior, x: Array, neighbours: "Neighbours"
) -> tuple[Array, Array | None]:
    return neighbours.plausibility(x, query.evaluation.neighbours), None


# One entry is all that a new figure takes: tables, files, batches and summaries go by this list.
POINT_FIGURES = (
    PointFigure(
        "robustness", "share that still succeeds under execution noise", _robustness_within_budget, has_error=True
    ),
    PointFigure("plausibility", "mean distance to the nearest training rows", _plausibility),
)


def unknown_figures() -> dict[str, float]:
    """Return the figures of a point for which none was computed: NaN by name."""
    return {figure.name: float("nan") for figure in POINT_FIGURES}


def unknown_errors() -> dict[str, float]:
    """Return the errors of figures that were not computed: NaN by name."""
    return {figure.name: float("nan") for figure in POINT_FIGURES if figure.has_error}


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
    reached = evaluate_under_noise(posterior, space, x, shifts, first_only=True).reached[:, :, 0]
    return share_and_error(reached.mean(axis=1), len(shifts))


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
