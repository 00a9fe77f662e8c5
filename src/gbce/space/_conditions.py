"""Parse the conditions and effort factors of a follow-up question, given in the user's units.

A condition fixes one column, or restricts it to a range or value. It is a constraint like any other, except that the
row itself need not meet it. An effort factor multiplies the prior cost of changing a column.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gbce._validation import is_number, printable, show
from gbce.base import Array
from gbce.space._constraints import Condition
from gbce.space._infer import encode_bound, read_mapping

if TYPE_CHECKING:
    from gbce.space._space import Space

_OPTIONS = ("keep", "at_least", "at_most", "between", "exactly")
Effort = tuple[tuple[str, float], ...]  # column names with their factors

# --- conditions ------------------------------------------------------------------------------------------------------


def restate(space: "Space", conditions: Sequence[Condition], x0: Array, *, spikes: bool) -> "Space":
    """Return the space in which every draw around the row ``x0`` ``(d,)`` meets the conditions.

    A prior placed there is the prior of ``space`` conditioned on them. A kept column becomes immutable, and a range
    becomes bounds where truncating the prior is the same as conditioning it. It is not where the row's own value, or a
    missing one, has positive probability (``spikes``), because bounds always include the row: then it is a constraint.
    """
    for condition in conditions:
        j = space.position[condition.name]
        feature, inside = space.features[j], bool(condition.holds(space, x0[None, :])[0])
        plain = feature.missing is None and not feature.unordered and not space.is_computed[j]
        if condition.kept and not space.is_computed[j]:
            changed = replace(feature, mutable=False)
        elif plain and inside and not spikes:
            least, most = replace(feature, direction="any").range_from(x0[j])
            low, high = max(condition.ends[0], least), min(condition.ends[1], most)
            changed = replace(feature, low=_as_bound(low), high=_as_bound(high))
        else:
            space = replace(space, constraints=(*space.constraints, condition))
            continue
        space = replace(space, features=(*space.features[:j], changed, *space.features[j + 1 :]))
    return space


def _as_bound(limit: float) -> float | None:
    """Return a limit as a feature's bound: ``None`` where it is infinite."""
    return limit if math.isfinite(limit) else None


def read_conditions(
    space: "Space",
    x0: Array,
    *,
    keep: Iterable[str] | str = (),
    at_least: Mapping[str, Any] | None = None,
    at_most: Mapping[str, Any] | None = None,
    between: Mapping[str, tuple[Any, Any]] | None = None,
    exactly: Mapping[str, Any] | None = None,
) -> tuple[Condition, ...]:
    """Parse conditions on columns for the row ``x0`` ``(d,)``, in column order; ``exactly`` None means missing.

    Raises ``ValueError`` for an unknown column, a value that it cannot take, and conditions that contradict each other.
    """
    named = {"at_least": at_least, "at_most": at_most, "between": between, "exactly": exactly}
    by_option = {what: read_mapping(values, what) for what, values in named.items()}
    kept = _as_names(keep)
    _require_known(space, {"keep": kept, **by_option})
    constrained = {name for names in (kept, *by_option.values()) for name in names}
    if not constrained:
        raise ValueError(
            "given needs a condition: keep=['income'], at_least={'income': 3000}, at_most={'debt': 200}, "
            "between={'age': (30, 40)} or exactly={'job': 'clerk'}"
        )
    found = []
    for j, name in enumerate(space.names):
        if name in constrained:
            what = [option for option in _OPTIONS if name in (kept if option == "keep" else by_option[option])]
            if len(what) > 1 and what != ["at_least", "at_most"]:
                raise ValueError(f"{' and '.join(what)} all name {name!r}: give one condition for it")
            found.append(_read_one(space, x0, j, {option: by_option.get(option, {}).get(name) for option in what}))
    return tuple(found)


def _read_one(space: "Space", x0: Array, j: int, options: dict[str, Any]) -> Condition:
    """Parse the condition on one feature; ``options`` has one entry, or both ends of a range."""
    name = space.names[j]
    if "keep" in options:
        return _keep_value(space, x0, j)
    if "exactly" in options:
        value = encode_value(space, j, options["exactly"], "exactly", exact=True)
        if np.isnan(value):
            if np.isnan(x0[j]):
                return _keep_value(space, x0, j)
            condition = Condition(name, None, None, f"{space.label(j)} is missing", missing=True)
        elif value == x0[j]:
            return _keep_value(space, x0, j)
        else:
            condition = Condition(name, value, value, f"{space.label(j)} is {_format_value(space, j, value)}")
    else:
        condition = _read_range(space, j, options)
    _require_feasible(space, x0, j, condition)
    return condition


def _keep_value(space: "Space", x0: Array, j: int) -> Condition:
    """Return the condition that a feature keeps the row's value."""
    name, label = space.names[j], space.label(j)
    if np.isnan(x0[j]):
        return Condition(name, None, None, f"{label} stays missing", kept=True, missing=True)
    text = f"{label} stays at {space.format(j, x0[j], quoted=True)}"
    return Condition(name, float(x0[j]), float(x0[j]), text, kept=True)


def _read_range(space: "Space", j: int, options: dict[str, Any]) -> Condition:
    """Parse ``at_least``, ``at_most`` or ``between`` for one feature."""
    feature = space.features[j]
    if feature.unordered:
        what, value = next(iter(options.items()))
        levels = ", ".join(map(show, feature.levels or ()))
        raise ValueError(
            f"{what}: {feature.name!r} is {feature.kind} and its levels ({levels}) have no order, so there is no "
            f"{what.replace('_', ' ')} {value!r}; use exactly={{{feature.name!r}: level}}"
        )
    if "between" in options:
        pair = options["between"]
        if isinstance(pair, str) or np.asarray(pair, dtype=object).shape != (2,):
            raise ValueError(f"between: {feature.name!r} needs two values, (low, high), not {pair!r}")
        options = {"at_least": pair[0], "at_most": pair[1]}
        ends = [encode_value(space, j, value, "between", exact=False) for value in pair]
    else:
        ends = [
            encode_value(space, j, options[what], what, exact=False) if what in options else math.nan
            for what in _OPTIONS[1:3]
        ]
    if ends[0] > ends[1]:
        low, high = options["at_least"], options["at_most"]
        raise ValueError(f"no value of {feature.name!r} is both at least {show(low)} and at most {show(high)}")
    shown = [_format_value(space, j, end) for end in ends]
    words = f"between {shown[0]} and {shown[1]}"
    if np.isnan(ends).any():
        words = f"at most {shown[1]}" if np.isnan(ends[0]) else f"at least {shown[0]}"
    low_end, high_end = (None if np.isnan(end) else end for end in ends)
    return Condition(feature.name, low_end, high_end, f"{space.label(j)} is {words}")


def encode_value(space: "Space", j: int, value: Any, what: str, *, exact: bool) -> float:
    """Encode a value given as ``what``: an ``exact`` one, NaN for missing, or the end of a range, which is known."""
    feature, name = space.features[j], space.names[j]
    if value is None or value is pd.NA or value is pd.NaT or (is_number(value) and math.isnan(value)):
        if not exact:
            raise ValueError(f"{what}: {name!r} needs a value, not {value!r}")
        if feature.missing is None:
            raise ValueError(f"{what}: {name!r} cannot be missing")
        return math.nan
    if feature.leveled:
        levels = feature.levels or ()
        if value not in levels:
            known = ", ".join(map(show, levels))
            raise ValueError(f"{what}: {name!r} has no level {show(value)}; its levels are {known}")
        return float(levels.index(value))
    if feature.kind == "datetime":
        return float(encode_bound(name, feature.kind, value, space.codecs[j], what))
    if not is_number(value) or not math.isfinite(value):
        raise ValueError(f"{what}: {name!r} needs a finite number, not {show(value)}")
    if feature.kind == "integer" and exact and value != round(value):
        raise ValueError(f"{what}: {name!r} holds integers, and {value:g} is not one")
    return float(value)


def _format_value(space: "Space", j: int, value: float) -> str:
    """Write a value for a sentence, with all digits that were given; a level that is a string is quoted."""
    return space.format(j, value, exact=True, quoted=True)


def _require_feasible(space: "Space", x0: Array, j: int, condition: Condition) -> None:
    """Reject a condition that no draw around the row can meet."""
    feature, now = space.features[j], x0[j]
    if space.is_computed[j]:
        low, high = replace(feature, direction="any").range_from(now)
    else:
        low, high = (float(end[j]) for end in space.limits(x0))
    if condition.missing:
        if not space.may_become_missing[j]:
            raise ValueError(f"{condition.text}: a known value of {feature.name!r} may not become missing")
        return
    least, most = max(low, condition.ends[0]), min(high, condition.ends[1])
    if feature.discrete and not np.isnan(now):
        least, most = now + np.ceil(least - now), now + np.floor(most - now)
    if least <= most:  # false where the row's value is missing and must stay so: both are NaN
        if not feature.unordered or least in feature.levels_from(now):
            return
        levels = [space.format(j, value, unit=False, quoted=True) for value in feature.levels_from(now)]
        raise ValueError(
            f"{condition.text}: a transition from {_format_value(space, j, now)} to it is forbidden; "
            f"{feature.name!r} may be {', '.join(levels)}"
        )
    has = f"the row has {_format_value(space, j, now)}"
    if not feature.mutable or np.isnan(low) or low == high:
        raise ValueError(f"{condition.text}: {feature.name!r} may not change, and {has}")
    limits = [_format_value(space, j, side) if math.isfinite(side) else str(side) for side in (low, high)]
    raise ValueError(f"{condition.text}: {has}, and {feature.name!r} may only lie between {limits[0]} and {limits[1]}")


def _as_names(keep: Any) -> list[str]:
    """Return ``keep`` as a list of column names."""
    if isinstance(keep, str):
        return [keep]
    if keep is None or not isinstance(keep, Iterable) or isinstance(keep, Mapping):
        raise TypeError(f"keep must be a list of column names, not {keep!r}")
    return list(map(str, keep))


def _require_known(space: "Space", by_option: Mapping[str, Iterable[str]]) -> None:
    """Reject options that name an unknown column."""
    for what, names in by_option.items():
        unknown = [name for name in names if name not in space.position]
        if unknown:
            listed = ", ".join(map(repr, unknown))
            raise ValueError(f"{what} names {listed}, which the table does not have; columns are {list(space.names)}")


# --- effort factors --------------------------------------------------------------------------------------------------


def read_effort(space: "Space", given: Any, before: Effort = ()) -> Effort:
    """Parse effort factors, multiplied by earlier ones; returned in column order, factors of one left out."""
    if not isinstance(given, Mapping):
        raise TypeError(f"effort must be a mapping of column names to factors, such as {{'income': 2}}, not {given!r}")
    factors = dict(before)
    for name, factor in read_mapping(given, "effort").items():
        if name not in space.position:
            raise ValueError(f"effort names {name!r}, which the table does not have; columns are {list(space.names)}")
        if space.is_computed[space.position[name]]:
            raise ValueError(f"effort: {name!r} is computed from other columns; give factors for those instead")
        if not is_number(factor) or not 0 < factor < np.inf:
            raise ValueError(f"effort: the factor of {name!r} must be a positive number, not {factor!r}")
        factors[name] = factors.get(name, 1.0) * float(factor)
    return tuple((name, factors[name]) for name in space.names if factors.get(name, 1.0) != 1.0)


def effort_cost(space: "Space", effort: Effort, x: Array, x0: Array) -> Array:
    """Return the cost ``(n,)`` that effort factors add to points ``(n, d)``; negative for factors below one."""
    extra = np.zeros(len(x))
    if effort:
        units = space.change(x, x0) / space.scale
        for name, factor in effort:
            extra += (factor - 1.0) * units[:, space.position[name]]
    return extra


def describe_effort(effort: Sequence[tuple[str, float]]) -> list[str]:
    """Describe each effort factor in words."""
    return [f"a change of {printable(name)} counts {factor:g} times" for name, factor in effort]
