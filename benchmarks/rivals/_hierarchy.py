"""Changes of many rows that share their groups' and the population's centres, sampled without slopes of the model.

The law is ``mu0_j ~ N(0, 1)``, ``omega_j ~ half-normal(0.5)``, ``mu_gj ~ N(mu0_j, omega_j)``, ``b_j`` as ``omega_j``,
``delta_ij ~ Laplace(mu_gj, b_j)`` (or normal), times ``score(row_i + delta_i) ** kappa * exp(-rate |delta_i|_1)``.

Four chains go side by side, and one call of the model serves all rows of all of them. A row's change is renewed in a
random set of its numbers: candidates come from the law itself, and one of them or what is there is picked by what the
model says (iterated sampling importance resampling, which keeps the target exactly). What is above the rows needs no
model: slices, once around the centres and once with their standardised offsets held fixed, since one of the two is slow
whenever spreads are small or large (interweaving, Yu and Meng 2011). Three more moves carry the rows along: a group's
centre with its rows, a width with the deviations from the centres, and whole columns, all levels of them at once: these
go a way that is right where the model says nothing, and the model decides whether to go it (surrogate transitions, Liu
2001), which it hardly ever refuses for columns that do not matter to it.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.rivals._hierarchy_law import Law, LogScore
from benchmarks.rivals._hierarchy_state import State

__all__ = ["Levels", "mixing", "sample_levels", "worth"]

_NEVER = 10.0  # R-hat of chains that never moved, or far apart


@dataclass
class Levels:
    """Draws of the hierarchy, each array with steps and chains in front.

    Parameters
    ----------
    population, spread, width : ndarray of shape (steps, chains, p)
        ``mu0``, ``omega`` and ``b``.
    groups : ndarray of shape (steps, chains, g, p)
        ``mu_g``.
    changes : ndarray of shape (steps, chains, n, p)
        ``delta``.
    moved : dict of str to float
        How often each move went anywhere.
    """

    population: Any
    spread: Any
    width: Any
    groups: Any
    changes: Any
    moved: dict[str, float] = field(default_factory=dict)

    @property
    def r_hat(self) -> float:
        """The worst R-hat of all that is above the rows."""
        parts = [self.population, np.log(self.spread), np.log(self.width), *np.moveaxis(self.groups, 2, 0)]
        return mixing(np.concatenate(parts, axis=2))

    def costs(self, groups: Any) -> Any:
        """Return the mean l1 size of changes in each group, by draw ``(steps, chains, g)``: what groups have to pay."""
        sizes = np.abs(self.changes).sum(axis=3)
        return np.stack([sizes[:, :, groups == g].mean(axis=2) for g in range(self.groups.shape[2])], axis=2)


def mixing(figures: Any) -> float:
    """Return the worst R-hat of figures ``(steps, chains, m)``; those that are the same everywhere do not count."""
    from arviz_stats.base import array_stats  # type: ignore[attr-defined]  # slow to import, needed only here

    watched = figures[:, :, np.ptp(figures, axis=(0, 1)) > 0].transpose(2, 1, 0)
    if watched.size == 0:
        return 1.0
    with np.errstate(all="ignore"):
        r_hat = array_stats.rhat(watched)
    return float(np.minimum(np.nan_to_num(r_hat, nan=_NEVER), _NEVER).max())


def worth(figures: Any) -> float:
    """Return how many independent draws a figure ``(steps, chains)`` is worth.

    Where each chain has its own draw of the levels above, their differences count as slowness: it is too few then.
    """
    from arviz_stats.base import array_stats  # type: ignore[attr-defined]  # slow to import, needed only here

    with np.errstate(all="ignore"):
        ess = float(array_stats.ess(figures.T[None], method="bulk")[0])
    return min(ess, figures.size) if np.isfinite(ess) else 1.0


def sample_levels(
    law: Law,
    log_score: LogScore,
    groups: Any,
    free: Any,
    *,
    steps: int = 200,
    warmup: int = 200,
    chains: int = 4,
    candidates: int = 3,
    n_groups: int | None = None,
    rng: np.random.Generator,
) -> Levels:
    """Draw from the joint law of all levels.

    Parameters
    ----------
    law : Law
        Options.
    log_score : callable
        Changes ``(chains, n, m, p)`` to logarithms of scores ``(chains, n, m)``; ignores numbers that are not free.
    groups : ndarray of shape (n,)
        The group of each row, from zero.
    free : ndarray of shape (n, p)
        Which numbers of each row may change; the others say nothing about centres.
    steps, warmup, chains : int
        Kept and dropped steps of each chain.
    candidates : int
        Tried at once for each row.
    n_groups : int, optional
        Where some have no row.
    rng : Generator
        All chance.
    """
    state = State(law, log_score, groups, free, chains, n_groups or int(groups.max()) + 1, rng)
    kept: list[tuple[Any, ...]] = []
    moved: dict[str, list[float]] = {"rows": [], "groups": [], "widths": [], "columns": []}
    for step in range(warmup + steps):
        moved["rows"].append(state.renew_changes(candidates))
        turn = step % 4
        if turn in (0, 2):
            moved["groups"].append(state.carry_groups(2 * candidates))
        elif turn == 1:
            moved["columns"].append(state.renew_columns())
        elif law.width is None:
            moved["widths"].append(state.carry_widths(2 * candidates))
        state.renew_levels()
        if step >= warmup:
            kept.append((state.mu0, state.omega, state.b, state.mu, state.delta))
    shares = {name: float(np.mean(values)) for name, values in moved.items() if values}
    population, spread, width, means, changes = (np.stack(part) for part in zip(*kept, strict=True))
    return Levels(population, spread, width, means, changes, shares)
