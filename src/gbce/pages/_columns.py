"""Columns as a page has them: what a person reads of their values, and the values of every point."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gbce._validation import printable
from gbce.base import Array
from gbce.draws import Draws
from gbce.explanation import Explanation, say_value
from gbce.metrics import prior_moves, prior_shares
from gbce.pages._arrays import pack_array
from gbce.space import Space, plain_value

__all__ = ["describe_columns"]

_PRECISION = 1e-5  # of a unit of scale that values may be off by in a page: three digits of any figure are safe
_ENDS = (0.05, 0.5, 0.95)  # as explanation.intervals(): 90%


def describe_columns(explanation: Explanation, x: Array) -> list[dict[str, Any]]:
    """Return one mapping for each feature, with its values in points ``(n, d)``."""
    space, importance = explanation.space, explanation.importance
    free = set(explanation.free.tolist())
    quantiles = [explanation.quantiles(q) for q in _ENDS]
    found = []
    for j, feature in enumerate(space.features):
        now, moved = explanation.x0[j], importance.iloc[j]
        found.append(
            {
                "name": printable(feature.name),
                "key": feature.name,
                "kind": feature.kind,
                "unit": printable(feature.unit) if feature.kind == "real" or feature.kind == "integer" else "",
                "scale": feature.scale,
                "free": j in free,
                "computed": bool(space.is_computed[j]),
                "missing": feature.missing is not None,
                "now": None if np.isnan(now) else float(now),
                "levels": None if not feature.leveled else _say_levels(space, j),
                "written": None if not feature.leveled else [plain_value(level) for level in feature.levels or ()],
                "moments": _say_moments(space, j, x[:, j]) if feature.kind == "datetime" else None,
                "values": pack_array(x[:, j], precision=_PRECISION * feature.scale, apart_from=float(now)),
                "change": plain_value(moved["change"]),
                "change_se": plain_value(moved["se"]),
                "prior": _prior(explanation.draws, space, explanation.x0, j),
                "own": {
                    "change": moved["change"],
                    "ends": None if feature.unordered else _plain([ends[j] for ends in quantiles]),
                    "shares": None if not feature.leveled else _shares(explanation, j),
                },
            }
        )
    return found


def _say_levels(space: Space, j: int) -> list[str]:
    return [say_value(space, j, float(code)) for code in range(len(space.features[j].levels or ()))]


def _say_moments(space: Space, j: int, values: Array) -> dict[str, Any]:
    """Return every moment that occurs, from the earliest on, as a number and as a text."""
    every = np.unique(values[~np.isnan(values)])
    return {"values": pack_array(every), "texts": [say_value(space, j, float(one)) for one in every]}


def _prior(draws: Draws, space: Space, x0: Array, j: int) -> dict[str, Any] | None:
    """Return what the prior says of a feature, where the points that would tell are not kept."""
    if draws.record is None:
        return None
    feature = space.features[j]
    if feature.leveled:
        return {"shares": _plain(prior_shares(draws, space, j))}
    start = (feature.centre or 0.0) if np.isnan(x0[j]) else x0[j]
    return {"ends": _plain(start + feature.scale * prior_moves(draws, space, x0, j, _ENDS))}


def _shares(explanation: Explanation, j: int) -> list[Any]:
    """Return how probable each level is for the question as it was asked, and last that it is missing."""
    found = explanation.shares(explanation.space.names[j])["posterior"].to_numpy(dtype=float)
    return _plain(found if explanation.space.features[j].missing is not None else np.append(found, 0.0))


def _plain(values: Sequence[float] | Array) -> list[Any]:
    return [plain_value(float(value)) for value in values]
