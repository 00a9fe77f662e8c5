"""Average effects of columns over the data: whether advice goes against what the model usually does.

The effect of a number is its partial dependence between a low and a high quantile of the data: the mean difference of
the first model's outputs over rows of the data when the column is set to one or the other (Friedman, 2001). That of a
level is the same between the row's level and the new one.
"""

from dataclasses import replace

import numpy as np

from gbce.base import Array
from gbce.budget import BudgetSpentError
from gbce.posterior import GibbsPosterior
from gbce.space import Space
from gbce.trees import read_models

_ROWS = 60  # of the data, over which an effect is averaged; chosen by hand
_CLEARLY = 2.0  # standard errors by which an effect must differ from zero
_MOST_COLUMNS = 8  # changed columns that are looked at: no sentence lists more
_ENDS = (0.1, 0.9)  # quantiles of the data that stand for a lower and a higher value


def find_against(posterior: GibbsPosterior, space: Space, x0: Array, x: Array, better: float) -> tuple[str, ...]:
    """Return the columns whose change from ``x0`` to ``x``, both ``(d,)``, goes against their average effect."""
    which = np.flatnonzero(space.changed(x[None, :], x0)[0] & ~space.is_computed & ~np.isnan(x) & ~np.isnan(x0))
    if better == 0 or not 0 < len(which) <= _MOST_COLUMNS:
        return ()
    levels = space.unordered[which]
    effect = _average_effects(posterior, space, x0, which, {int(j): (x0[j], x[j]) for j in which[levels]})
    signs = np.where(levels, 1.0, np.sign(x[which] - x0[which]))
    return tuple(space.names[j] for j, one in zip(which, better * signs * effect, strict=True) if one < 0)


def forbid_against(posterior: GibbsPosterior, space: Space, x0: Array, better: float) -> Space:
    """Return the space in which numbers of the row ``x0`` ``(d,)`` only move where they help on average."""
    which = np.array([j for j in space.free(x0).tolist() if not space.unordered[j] and not np.isnan(x0[j])], dtype=int)
    effect = better * _average_effects(posterior, space, x0, which, {})
    features = list(space.features)
    for j, one in zip(which.tolist(), effect.tolist(), strict=True):
        if one != 0 and features[j].direction == "any":
            features[j] = replace(features[j], direction="increase" if one > 0 else "decrease")
    return replace(space, features=tuple(features)) if effect.any() else space


def _average_effects(
    posterior: GibbsPosterior, space: Space, x0: Array, which: Array, levels: dict[int, tuple[float, float]]
) -> Array:
    """Return the mean effect ``(m,)`` of raising each column, or of changing its level; zero where it is not clear."""
    rows, none = posterior.landmarks, np.zeros(len(which))
    if rows is None or len(rows) < 2 or len(which) == 0:
        return none
    some = rows[np.unique(np.linspace(0, len(rows) - 1, min(_ROWS, len(rows))).round().astype(int))]
    x = np.tile(some, (len(which), 2, 1, 1))
    for i, j in enumerate(which.tolist()):
        ends = levels.get(j) or np.nanquantile(rows[:, j], _ENDS, method="nearest")
        x[i, 0, :, j], x[i, 1, :, j] = ends
    x = x.reshape(-1, len(x0))
    if space.computed:
        x = space.completed(x, x0)
    read = read_models(posterior)
    try:
        if read.affords(len(x)) < len(x):
            return none
        outputs = read.evaluate_first(x).outputs[:, 0].reshape(len(which), 2, len(some))
    except BudgetSpentError:
        return none
    with np.errstate(invalid="ignore"):
        gain = outputs[:, 1] - outputs[:, 0]
        mean, error = gain.mean(axis=1), gain.std(axis=1, ddof=1) / np.sqrt(len(some))
        return np.where(np.abs(mean) > _CLEARLY * error, mean, 0.0)
