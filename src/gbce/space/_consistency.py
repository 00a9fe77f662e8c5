"""Whether any row can meet all linear constraints and bounds at once."""

import numpy as np
from scipy.optimize import linprog

from gbce.base import Array
from gbce.space._constraints import Constraint
from gbce.space._feature import Feature

__all__ = ["require_consistent"]

_INFEASIBLE = 2  # the status that scipy.optimize.linprog gives a problem without a solution


def require_consistent(features: tuple[Feature, ...], constraints: tuple[Constraint, ...]) -> None:
    """Refuse linear constraints and bounds that no row can meet, and name the ones that contradict each other."""
    position = {feature.name: j for j, feature in enumerate(features)}
    lines, sources = [], []
    leveled = {feature.name for feature in features if feature.leveled}  # their numbers are positions, not levels
    for constraint in constraints:
        for weights, bound in constraint.halfspaces(complete=True):
            if leveled & set(weights):
                continue
            line = np.zeros(len(features))
            for name, weight in weights.items():
                line[position[name]] = weight
            lines.append((line, bound))
            sources.append(repr(constraint.text))
    if not lines:
        return
    for j, feature in enumerate(features):
        for limit, sign, word in ((feature.low, -1.0, "low"), (feature.high, 1.0, "high")):
            if limit is not None and not feature.stretch:  # those give way to a row
                lines.append((sign * np.eye(len(features))[j], sign * limit))
                sources.append(f"{feature.name} has {word} = {limit:g}")
    kept = list(range(len(lines)))
    if _feasible(lines, kept):
        return
    for i in list(kept):  # what can be left out without curing it has no part in the contradiction
        if not _feasible(lines, [k for k in kept if k != i]):
            kept.remove(i)
    named = list(dict.fromkeys(sources[i] for i in kept))
    raise ValueError(f"no row can meet all of these at once: {'; '.join(named)}. Drop or loosen one of them.")


def _feasible(lines: list[tuple[Array, float]], kept: list[int]) -> bool:
    if not kept:
        return True
    left, right = np.array([lines[k][0] for k in kept]), np.array([lines[k][1] for k in kept])
    found = linprog(np.zeros(left.shape[1]), left, right, bounds=(None, None), method="highs")
    return bool(found.status != _INFEASIBLE)
