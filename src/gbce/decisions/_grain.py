"""Average effects of changes over the data: whether advice goes against what the model usually does.

The effect of a change of one column is its partial dependence: the mean difference of the first model's outputs over
rows of the data when the column is set to its new value instead of the old one (Friedman, 2001).
"""

from dataclasses import replace

import numpy as np

from gbce.base import Array
from gbce.budget import BudgetSpentError
from gbce.posterior import GibbsPosterior
from gbce.space import Space
from gbce.trees import read_models

__all__ = ["find_against", "forbid_against"]

_ROWS = 60  # of the data, over which an effect is averaged; chosen by hand
_CLEARLY = 2.0  # standard errors by which an effect must differ from zero
_MOST_COLUMNS = 8  # changed columns that are looked at: no sentence lists more
_ENDS = (0.1, 0.9)  # quantiles of the data that stand for a lower and a higher value


def find_against(posterior: GibbsPosterior, space: Space, x0: Array, x: Array, better: float) -> tuple[str, ...]:
    """Return the columns whose change from ``x0`` to ``x``, both ``(d,)``, has the opposite effect on average.

    ``better`` is positive if the target wants larger outputs, negative if smaller ones. Empty without rows of the data
    or without the budget for ``2 * 60`` model rows for each changed column.
    """
    which = np.flatnonzero(space.changed(x[None, :], x0)[0] & ~space.is_computed & ~np.isnan(x) & ~np.isnan(x0))
    if better == 0 or not 0 < len(which) <= _MOST_COLUMNS:
        return ()
    effect = _average_effects(posterior, space, x0, [(int(j), float(x[j])) for j in which])
    return tuple(space.names[j] for j, one in zip(which, effect, strict=True) if one * better < 0)


def forbid_against(posterior: GibbsPosterior, space: Space, x0: Array, better: float) -> Space:
    """Return the space in which numbers of the row ``x0`` ``(d,)`` only move where they help on average."""
    rows = posterior.landmarks
    which = [j for j in space.free(x0).tolist() if space.features[j].kind in ("real", "integer", "ordinal")]
    which = [j for j in which if not np.isnan(x0[j])]
    if rows is None or not which or better == 0:
        return space
    ends = [np.nanquantile(rows[:, j], _ENDS, method="nearest") for j in which]
    changes = [(j, float(end)) for j, pair in zip(which, ends, strict=True) for end in pair]
    effect = better * np.array(_average_effects(posterior, space, x0, changes)).reshape(-1, 2)
    features = list(space.features)
    for j, pair, (down, up) in zip(which, ends, effect, strict=True):
        feature = features[j]
        no_down, no_up = down < 0 and pair[0] < x0[j], up < 0 and pair[1] > x0[j]
        if feature.direction != "any" or not (no_down or no_up):
            continue
        features[j] = (
            replace(feature, mutable=False)
            if no_down and no_up
            else replace(feature, direction="increase" if no_down else "decrease")
        )
    return replace(space, features=tuple(features))


def _average_effects(
    posterior: GibbsPosterior, space: Space, x0: Array, changes: list[tuple[int, float]]
) -> list[float]:
    """Return the mean effect of each change of a column, given with its new value; zero where it is not clear."""
    rows = posterior.landmarks
    if rows is None or len(rows) < 2:
        return [0.0] * len(changes)
    some = rows[np.unique(np.linspace(0, len(rows) - 1, min(_ROWS, len(rows))).round().astype(int))]
    x = np.tile(some, (2 * len(changes), 1))
    for i, (j, value) in enumerate(changes):
        first = 2 * i * len(some)
        x[first : first + len(some), j] = x0[j]
        x[first + len(some) : first + 2 * len(some), j] = value
    if space.computed:
        x = space.completed(x, x0)
    read = read_models(posterior)
    try:
        if read.affords(len(x)) < len(x):
            return [0.0] * len(changes)
        outputs = read.evaluate_first(x).outputs[:, 0].reshape(len(changes), 2, len(some))
    except BudgetSpentError:
        return [0.0] * len(changes)
    with np.errstate(invalid="ignore"):
        gain = outputs[:, 1] - outputs[:, 0]
        mean, error = gain.mean(axis=1), gain.std(axis=1, ddof=1) / np.sqrt(len(some))
    return np.where(np.abs(mean) > _CLEARLY * error, mean, 0.0).tolist()
