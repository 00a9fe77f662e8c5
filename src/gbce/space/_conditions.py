"""What a follow-up question holds on to: columns that stay, or whose values lie in a range, in the user's units.

A condition is about one column. It is a constraint like any other, except that the row itself need not meet it.
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
from gbce.space._feature import Feature
from gbce.space._infer import encode_bound
from gbce.space._table import value_text

if TYPE_CHECKING:
    from gbce.space._space import Space

__all__ = ["Effort", "effort_cost", "read_conditions", "read_effort", "restate", "say_effort"]

# --- what a follow-up question holds on to ---------------------------------------------------------------------------

_OPTIONS = ("keep", "at_least", "at_most", "between", "exactly")


def restate(space: "Space", conditions: Sequence[Condition], x0: Array, *, spikes: bool) -> "Space":
    """Return the space in which conditions hold for every draw around the row ``x0`` of shape ``(d,)``.

    The prior that is placed there is the one of ``space`` given the conditions. A column that is kept cannot move, and
    a range becomes bounds where cutting the prior off is the same as conditioning it. It is not where the row's own
    value, or missing, has a probability of its own (``spikes``), and bounds include the row: then it is a constraint.

    Examples
    --------
    >>> from gbce.space import Space
    >>> space, x0 = Space.real(["income", "debt"]), np.array([3.0, 1.0])
    >>> given = read_conditions(space, x0, keep=["income"], at_most={"debt": 2.0})
    >>> print(restate(space, given, x0, spikes=False))
    feature  kind  range      unit of change  may change
    income   real  any                     1  no
    debt     real  -inf to 2               1  yes
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
            changed = replace(feature, low=_open(low), high=_open(high))
        else:
            space = replace(space, constraints=(*space.constraints, condition))
            continue
        space = replace(space, features=(*space.features[:j], changed, *space.features[j + 1 :]))
    return space


def _open(bound: float) -> float | None:
    return bound if math.isfinite(bound) else None


# --- reading what a person asks ----------------------------------------------------------------------------------


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
    """Return conditions on columns, given in the user's units, for the row ``x0`` of shape ``(d,)``.

    Parameters
    ----------
    space : Space
        Whose columns they are.
    x0 : array of shape (d,)
        The row.
    keep : iterable of str
        Columns that stay exactly as the row has them.
    at_least, at_most : mapping of str to value, optional
        Ends of a range: numbers, levels of an ordinal, moments.
    between : mapping of str to (low, high), optional
        Both ends at once.
    exactly : mapping of str to value, optional
        One value: a number, a level, a moment, or ``None`` for missing.

    Returns
    -------
    tuple of Condition
        In the order of the columns.

    Raises
    ------
    ValueError
        For a column that is not there, a value that it cannot have, and conditions that exclude each other.
    """
    named = {"at_least": at_least, "at_most": at_most, "between": between, "exactly": exactly}
    by_option = {what: _as_mapping(what, values) for what, values in named.items()}
    kept = _as_names(keep)
    _require_known(space, {"keep": kept, **by_option})
    asked = {name for names in (kept, *by_option.values()) for name in names}
    if not asked:
        raise ValueError(
            "given needs a condition: keep=['income'], at_least={'income': 3000}, at_most={'debt': 200}, "
            "between={'age': (30, 40)} or exactly={'job': 'clerk'}"
        )
    found = []
    for j, name in enumerate(space.names):
        if name in asked:
            what = [option for option in _OPTIONS if name in (kept if option == "keep" else by_option[option])]
            if len(what) > 1 and what != ["at_least", "at_most"]:
                raise ValueError(f"{' and '.join(what)} all name {name!r}: say once what is to hold for it")
            found.append(_read_one(space, x0, j, {option: by_option.get(option, {}).get(name) for option in what}))
    return tuple(found)


def _read_one(space: "Space", x0: Array, j: int, asked: dict[str, Any]) -> Condition:
    """Return the condition on one feature; ``asked`` has one option, or both ends of a range."""
    feature, codec, name = space.features[j], space.codecs[j], space.names[j]
    if "keep" in asked:
        return _keep(space, x0, j)
    if "exactly" in asked:
        value = _encode(feature, codec, asked["exactly"], "exactly")
        if np.isnan(value):
            if np.isnan(x0[j]):
                return _keep(space, x0, j)
            condition = Condition(name, None, None, f"{printable(name)} is missing", missing=True)
        elif value == x0[j]:
            return _keep(space, x0, j)
        else:
            condition = Condition(name, value, value, f"{printable(name)} is {_say(feature, codec, value)}")
    else:
        condition = _read_range(feature, codec, asked)
    _require_room(space, x0, j, condition)
    return condition


def _keep(space: "Space", x0: Array, j: int) -> Condition:
    feature, codec, name = space.features[j], space.codecs[j], space.names[j]
    if np.isnan(x0[j]):
        return Condition(name, None, None, f"{printable(name)} stays missing", kept=True, missing=True)
    text = f"{printable(name)} stays at {_say(feature, codec, x0[j])}"
    return Condition(name, float(x0[j]), float(x0[j]), text, kept=True)


def _read_range(feature: Feature, codec: Any, asked: dict[str, Any]) -> Condition:
    if feature.unordered:
        what, value = next(iter(asked.items()))
        levels = ", ".join(map(show, feature.levels or ()))
        raise ValueError(
            f"{what}: {feature.name!r} is {feature.kind} and its levels ({levels}) have no order, so there is no "
            f"{what.replace('_', ' ')} {value!r}; use exactly={{{feature.name!r}: level}}"
        )
    if "between" in asked:
        pair = asked["between"]
        if isinstance(pair, str) or np.asarray(pair, dtype=object).shape != (2,):
            raise ValueError(f"between: {feature.name!r} needs two values, (low, high), not {pair!r}")
        asked = {"at_least": pair[0], "at_most": pair[1]}
        ends = [_encode(feature, codec, value, "between") for value in pair]
    else:
        ends = [_encode(feature, codec, asked[what], what) if what in asked else math.nan for what in _OPTIONS[1:3]]
    if ends[0] > ends[1]:
        low, high = asked["at_least"], asked["at_most"]
        raise ValueError(f"no value of {feature.name!r} is at least {show(low)} and at most {show(high)} at once")
    texts = [_say(feature, codec, end) for end in ends]
    words = f"between {texts[0]} and {texts[1]}"
    if np.isnan(ends).any():
        words = f"at most {texts[1]}" if np.isnan(ends[0]) else f"at least {texts[0]}"
    low_end, high_end = (None if np.isnan(end) else end for end in ends)
    return Condition(feature.name, low_end, high_end, f"{printable(feature.name)} is {words}")


def _encode(feature: Feature, codec: Any, value: Any, what: str) -> float:
    """Return a value of the user's as a number, NaN for missing; what cannot be one is refused."""
    name = feature.name
    if value is None or value is pd.NA or value is pd.NaT or (is_number(value) and math.isnan(value)):
        if what != "exactly":
            raise ValueError(f"{what}: {name!r} needs a value, not {value!r}")
        if feature.missing is None:
            raise ValueError(f"exactly: {name!r} cannot be missing")
        return math.nan
    if feature.leveled:
        levels = feature.levels or ()
        if value not in levels:
            known = ", ".join(map(show, levels))
            raise ValueError(f"{what}: {name!r} has no level {show(value)}; its levels are {known}")
        return float(levels.index(value))
    if feature.kind == "datetime":
        encoded = encode_bound(name, feature.kind, value, codec, what)
        return float(encoded)
    if not is_number(value) or not math.isfinite(value):
        raise ValueError(f"{what}: {name!r} needs a finite number, not {show(value)}")
    if feature.kind == "integer" and what == "exactly" and value != round(value):
        raise ValueError(f"exactly: {name!r} holds whole numbers, and {value:g} is none")
    return float(value)


def _say(feature: Feature, codec: Any, value: float) -> str:
    text = value_text(feature, codec, value)
    quoted = feature.leveled and not np.isnan(value) and isinstance((feature.levels or ())[round(value)], str)
    return printable(repr(text) if quoted else text)


def _require_room(space: "Space", x0: Array, j: int, condition: Condition) -> None:
    """Refuse a condition that no draw around the row can meet."""
    feature, codec, now = space.features[j], space.codecs[j], x0[j]
    if space.is_computed[j]:
        low, high = replace(feature, direction="any").range_from(now)
    else:
        low, high = (float(end[j]) for end in space.limits(x0))
    if condition.missing:
        if not space.may_become_missing[j]:
            raise ValueError(f"{condition.text}: a known value of {feature.name!r} stays known here")
        return
    least, most = max(low, condition.ends[0]), min(high, condition.ends[1])
    if feature.discrete and not np.isnan(now):
        least, most = now + np.ceil(least - now), now + np.floor(most - now)
    if least <= most:  # not where the row's value is missing and stays so: both are NaN
        return
    has = f"the row has {_say(feature, codec, now)}"
    if not feature.mutable or np.isnan(low) or low == high:
        raise ValueError(f"{condition.text}: {feature.name!r} may not change, and {has}")
    sides = [end if not math.isfinite(side) else _say(feature, codec, side)
             for side, end in ((low, "anything"), (high, "anything"))]  # fmt: skip
    raise ValueError(f"{condition.text}: {has}, and values from {sides[0]} to {sides[1]} are all it may take")


def _as_names(keep: Any) -> list[str]:
    if isinstance(keep, str):
        return [keep]
    if keep is None or not isinstance(keep, Iterable) or isinstance(keep, Mapping):
        raise TypeError(f"keep must be a list of column names, not {keep!r}")
    return list(map(str, keep))


def _as_mapping(what: str, values: Any) -> dict[str, Any]:
    if values is None:
        return {}
    if not isinstance(values, Mapping):
        raise TypeError(f"{what} must be a mapping of column names to values, not {values!r}")
    return {str(name): value for name, value in values.items()}


def _require_known(space: "Space", by_option: Mapping[str, Iterable[str]]) -> None:
    for what, names in by_option.items():
        unknown = [name for name in names if name not in space.position]
        if unknown:
            listed = ", ".join(map(repr, unknown))
            raise ValueError(f"{what} names {listed}, which the table does not have; columns are {list(space.names)}")


# --- how hard columns are to change ----------------------------------------------------------------------------------

Effort = tuple[tuple[str, float], ...]  # columns by name, each with its factor


def read_effort(space: "Space", asked: Any, before: Effort = ()) -> Effort:
    """Return factors by column, on top of those that held before; in the order of the columns, without ones.

    Raises
    ------
    TypeError, ValueError
        For what is no mapping, a column that is not there or follows from others, and a factor that is not positive.

    Examples
    --------
    >>> from gbce.space import Space
    >>> read_effort(Space.real(["income", "debt"]), {"debt": 2, "income": 1})
    (('debt', 2.0),)
    """
    if not isinstance(asked, Mapping):
        raise TypeError(f"effort must be a mapping of column names to factors, such as {{'income': 2}}, not {asked!r}")
    factors = dict(before)
    for name, factor in asked.items():
        if name not in space.position:
            raise ValueError(f"effort names {name!r}, which the table does not have; columns are {list(space.names)}")
        if space.is_computed[space.position[name]]:
            raise ValueError(f"effort: {name!r} is computed from other columns; say how hard those are to change")
        if not is_number(factor) or not 0 < factor < np.inf:
            raise ValueError(f"effort: the factor of {name!r} must be a positive number, not {factor!r}")
        factors[name] = factors.get(name, 1.0) * float(factor)
    return tuple((name, factors[name]) for name in space.names if factors.get(name, 1.0) != 1.0)


def effort_cost(space: "Space", effort: Effort, x: Array, x0: Array) -> Array:
    """Return what points ``(n, d)`` pay beyond their cost, ``(n,)``: below zero where a column is easier to change.

    A unit of a column's scale costs its factor instead of one.
    """
    more = np.zeros(len(x))
    if effort:
        units = space.change(x, x0) / space.scale
        for name, factor in effort:
            more += (factor - 1.0) * units[:, space.position[name]]
    return more


def say_effort(effort: Sequence[tuple[str, float]]) -> list[str]:
    """Return each factor as a text."""
    return [f"a change of {printable(name)} counts {factor:g} times" for name, factor in effort]
