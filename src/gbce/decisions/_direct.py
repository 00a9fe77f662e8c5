"""Direct optimisation: conventional distance minimisation, the paper's baseline (Eq. 1)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gbce._numerics import first_of_least
from gbce._validation import require_counts
from gbce.base import Array, Choice, Rule
from gbce.budget import BudgetSpentError
from gbce.draws import Scene
from gbce.search import nelder_mead

__all__ = ["DirectOpt"]


@dataclass(frozen=True)
class DirectOpt(Rule):
    """Minimise ``eta * loss + d(row, x)`` by Nelder-Mead from the row and from draws of the prior.

    All starts advance together, with one model call per iteration for all of them. Coordinates are the free
    features in units of their scales; whole numbers and positions of levels are rounded.

    Parameters
    ----------
    n_starts : int
        The row, and one draw of the prior for each further start.
    max_iterations : int
        Of each start.

    Examples
    --------
    >>> DirectOpt().label
    'DirectOpt'
    """

    asks_model: ClassVar[bool] = True

    n_starts: int = 20
    max_iterations: int = 3_000

    def __post_init__(self) -> None:
        require_counts(self, "n_starts", "max_iterations")

    def choose(self, scene: Scene) -> Choice:
        """Choose the best end point; ties go to the smaller distance from the row."""
        posterior = scene.model(self)
        free = scene.free[~np.isnan(scene.x0[scene.free])]  # what is missing stays so
        unit = scene.space.scale[free]

        def rows(u: Array) -> Array:
            x = np.tile(scene.x0, (len(u), 1))
            x[:, free] = u * unit
            return scene.space.project(x, scene.x0)

        seen: list[tuple[float, Array]] = []  # the best point of each question, for when the budget runs out

        def objective(u: Array) -> Array:
            x = rows(u)
            value = posterior.objective(x, posterior.evaluate(x).loss)
            least = first_of_least(value, scene.distance(x))
            seen.append((float(value[least]), x[least]))
            return value

        z = posterior.prior.draw(scene.rng, self.n_starts - 1)
        starts = np.vstack([scene.x0[None, :], posterior.prior.place(z).x])
        low, high = scene.space.limits(scene.x0)
        try:
            minima = nelder_mead(
                objective,
                np.where(np.isnan(starts), scene.x0, starts)[:, free] / unit,
                low[free] / unit,
                high[free] / unit,
                max_iterations=self.max_iterations,
            )
        except BudgetSpentError:
            if not seen:
                raise
            x = min(seen, key=lambda point: point[0])[1]
            return Choice(x[None, :], note=f"{self.label}: the budget ran out; the best point so far was taken.")
        x = rows(minima.x)
        winner = first_of_least(minima.value, scene.distance(x))
        unfinished = int((~minima.converged).sum())
        note = (
            f"{self.label}: {unfinished} of {self.n_starts} starts stopped at {self.max_iterations} iterations."
            if unfinished
            else ""
        )
        return Choice(x[winner][None, :], note=note)
