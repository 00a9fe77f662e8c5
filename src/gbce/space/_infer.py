"""What is assumed of a table when nobody says otherwise: how far its numbers go, and which of them have a robust unit.

Everything here is read off the data, and said in one note together with the option that changes it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, get_args

import numpy as np
import pandas as pd

from gbce._validation import show
from gbce.base import Array
from gbce.space._codecs import Codec, OneHotCodec, ticks_of
from gbce.space._feature import ROUNDING, Feature, Kind, Units, units_of
from gbce.space._rows import group_levels, groups_of

__all__ = [
    "Assumptions",
    "ColumnOptions",
    "Columns",
    "Span",
    "assume_bounds",
    "codec_of",
    "columns_of",
    "describe_spans",
    "describe_units",
    "encode_bound",
]

# --- what is assumed of a table when nobody says otherwise -----------------------------------------------------------

_MARGIN = 0.1  # of the range, beyond it on each side: what was not seen, but is near to what was
# Whole numbers with so few values are steps of a scale that has ends: a rate from 1 to 4, rooms, the hour, the day of
# the month. Each must come twice on average, or the ends are those of a small sample. Both chosen by hand.
_FEW_VALUES, _TIMES_SEEN = 31, 2
_MOST_NAMED = 2  # columns that one clause of the note names; the others are counted


class Span(NamedTuple):
    """How far a column goes, ``None`` where it has no end, and why: words of the note, or nothing to say."""

    low: float | None = None
    high: float | None = None
    edge: str = ""


@dataclass(frozen=True)
class Assumptions:
    """What was assumed of a table, in sentences that each name the option to change it.

    Parameters
    ----------
    sentences : tuple of str
        None, if nothing was assumed.

    Examples
    --------
    >>> Assumptions(("Numbers stay within 0 to 9 (bounds=).",)).note("Three columns change (prior=).")
    'Assumed: three columns change (prior=). Numbers stay within 0 to 9 (bounds=).'
    """

    sentences: tuple[str, ...] = ()

    def note(self, *before: str) -> str:
        """Return all of it as one note, after other sentences of that kind; nothing where nothing was assumed."""
        said = [*before, *self.sentences]
        return f"Assumed: {said[0][0].lower()}{' '.join(said)[1:]}" if said else ""


def assume_bounds(kind: Kind, known: Array, *, whole_range: bool = True) -> Span:
    """Return how far a column of numbers ``(n,)`` is assumed to go.

    Its range and a tenth of it beyond on each side; but a column that never changes its sign does not, a share stays
    within 0 and 1, and whole numbers with few values stay within these.

    Parameters
    ----------
    kind : str
        Of the column; categories and ordinals have no such bounds.
    known : array of shape (n,)
        What the data hold, missing values left out.
    whole_range : bool
        Whether the range counts; otherwise only the edges that numbers have by nature do.

    Examples
    --------
    >>> assume_bounds("real", np.array([0.5, 2.5, 10.5]))
    Span(low=0.0, high=11.5, edge='never below 0')
    >>> assume_bounds("integer", np.array([1, 2, 3, 4, 4, 2, 1, 3.0]))
    Span(low=1.0, high=4.0, edge='within the values seen')
    """
    if kind in ("categorical", "boolean", "ordinal") or len(known) == 0:
        return Span()
    least, most = float(known.min()), float(known.max())
    if kind == "datetime":  # it counts from a moment that means nothing
        return _widened(kind, least, most) if whole_range and least < most else Span()
    if whole_range and least < most and _has_few_values(known):
        return Span(least, most, "within the values seen")
    span = _widened(kind, least, most) if whole_range and least < most else Span()
    share = kind == "real" and least >= 0.0 and most <= 1.0 and least < most
    low, high, edge = span.low, span.high, ""
    if least >= 0.0 and (low is None or low < 0.0):
        low, edge = 0.0, "never below 0"
    if most <= 0.0 and not least >= 0.0 and (high is None or high > 0.0):
        high, edge = 0.0, "never above 0"
    if share and (high is None or high > 1.0):
        high, edge = 1.0, "within 0 and 1"
    return Span(low, high, edge)


def describe_spans(spans: Sequence[tuple[str, Span]]) -> tuple[str, ...]:
    """Say in one sentence how far columns go, by name and why; of many columns two are named, the others counted."""
    if all(span.low is None and span.high is None for _, span in spans):
        return ()
    clauses = []
    if any(span.edge != "within the values seen" and None not in (span.low, span.high) for _, span in spans):
        clauses.append("numbers stay within the data's range and a tenth of it beyond")
    for edge in dict.fromkeys(span.edge for _, span in spans if span.edge):
        clauses.append(f"{_listed([name for name, span in spans if span.edge == edge])} {edge}")
    text = "; ".join(clauses)
    return (f"{text[0].upper()}{text[1:]} (bounds= changes that; the row itself may lie outside).",)


def describe_units(units: Units) -> tuple[str, ...]:
    """Say in one sentence which columns are not measured by their standard deviation, or as was asked, and why."""
    if units.inflated:
        return (
            f"Most of {_listed(units.inflated)} is one value: the unit is the median distance of the others to it, "
            "times 1.4826 (scale= changes that).",
        )
    if not units.robust:
        return ()
    ranked = sorted(units.robust, key=lambda one: -one[1])
    times = f"{'up to ' * (len(ranked) > 1)}{ranked[0][1]:,.0f} times that"
    return (
        f"The unit of {_listed([name for name, _ in ranked])} is the spread of the middle half, or where one value is "
        f"frequent that of the others, as the standard deviation is {times} (scale= changes that).",
    )


def _widened(kind: Kind, least: float, most: float) -> Span:
    """Return the range and a margin beyond it, in whole steps where there are such."""
    margin = _MARGIN * most - _MARGIN * least  # each by itself: the difference of two numbers may be none
    margin = margin if kind == "real" else float(np.floor(margin))
    low, high = least - margin, most + margin
    return Span(low if np.isfinite(low) else None, high if np.isfinite(high) else None)


def _has_few_values(known: Array) -> bool:
    """Whether numbers ``(n,)`` are whole and few of them are different."""
    if not (known == np.floor(known)).all():
        return False
    different = len(np.unique(known))
    return different <= min(_FEW_VALUES, len(known) / _TIMES_SEEN)


def _listed(names: Sequence[str]) -> str:
    """Return names in one phrase; many of them cut short."""
    shown = [repr(name) for name in names[:_MOST_NAMED]]
    more = len(names) - len(shown)
    if more:
        return f"{', '.join(shown)} and {more} more"
    return " and ".join(shown)


# --- a space read off a table ----------------------------------------------------------------------------------------

_BOUNDS = ("data", "none")  # what bounds may be in one word

# Floats that are all whole are whole numbers from so many on: by chance numbers in halves are so once in a million.
_ENOUGH_TO_TELL = 20
_ALL_ARE_WHOLE = 2.0**53  # floats beyond have no fractions


@dataclass(frozen=True)
class ColumnOptions:
    """What a user says about columns, by name; see :meth:`gbce.Space.infer`."""

    immutable: frozenset[str]
    increase: frozenset[str]
    decrease: frozenset[str]
    bounds: Mapping[str, Any]
    kinds: Mapping[str, Kind]
    levels: Mapping[str, tuple[Any, ...]]
    missing: Mapping[str, Any]
    scale: Any
    one_hot: Mapping[str, tuple[str, ...]]
    computed: frozenset[str]
    all_bounds: str | None = None
    table: bool = False

    @classmethod
    def of(cls, names: tuple[str, ...], **given: Any) -> "ColumnOptions":
        """Check what was given against the names of the columns."""
        bounds = given["bounds"]
        in_a_word = isinstance(bounds, str)
        if in_a_word and bounds not in _BOUNDS:
            raise ValueError(f"bounds must be a mapping of names to (low, high), 'data' or 'none', not {bounds!r}")
        one_hot = groups_of(_by_name(given["one_hot"], "one_hot"), names)
        inside = {member for members in one_hot.values() for member in members}
        known = [name for name in names if name not in inside] + list(one_hot)
        options = cls(
            immutable=_names("immutable", given["immutable"]),
            increase=_names("increase", given["increase"]),
            decrease=_names("decrease", given["decrease"]),
            bounds={} if in_a_word else _by_name(bounds, "bounds"),
            kinds=_by_name(given["kinds"], "kinds"),
            levels=_by_name(given["levels"], "levels"),
            missing=_by_name(given["missing"], "missing"),
            scale=_by_name(given["scale"], "scale") if isinstance(given["scale"], Mapping) else given["scale"],
            one_hot=one_hot,
            computed=frozenset(_by_name(given["computed"], "computed")),
            all_bounds=bounds if in_a_word else None,
            table=given["table"],
        )
        options._require_known(known)
        return options

    def _require_known(self, names: list[str]) -> None:
        scales = self.scale if isinstance(self.scale, Mapping) else {}
        for what in ("immutable", "increase", "decrease", "bounds", "kinds", "levels", "missing", "scale"):
            unknown = sorted(set(scales if what == "scale" else getattr(self, what)) - set(names))
            if unknown:
                raise ValueError(f"{what} names {unknown}, which the data do not have; columns are {names}")
        both = self.increase & self.decrease
        if both:
            raise ValueError(f"{sorted(both)} cannot be both in increase and in decrease; use immutable instead")
        for name, kind in self.kinds.items():
            if kind not in get_args(Kind):
                known = ", ".join(map(repr, get_args(Kind)))
                raise ValueError(f"kinds: {name!r} must be one of {known}, not {kind!r}")
        for name, levels in self.levels.items():
            if isinstance(levels, str) or not isinstance(levels, Iterable):
                raise ValueError(f"levels of {name!r} must be a list, not {levels!r}")
        for name, pair in self.bounds.items():
            if isinstance(pair, str) or np.asarray(pair, dtype=object).shape != (2,):
                raise ValueError(f"bounds of {name!r} must be (low, high), None for an open side, not {pair!r}")

    def moves_anyway(self, name: str, codec: Any) -> bool:
        """Whether the options say how a column that is constant in the data may change: its levels, unit or formula."""
        own = None if isinstance(codec, OneHotCodec) else codec.levels
        if name in self.computed or (own is not None and len(own) == 1 and self.missing.get(name) == "any"):
            return True
        measured = isinstance(codec, Codec) and own is None and isinstance(self.scale, Mapping)
        return name in self.scale if measured else len(tuple(self.levels.get(name, ()))) > 1


class Columns(NamedTuple):
    """What was read off a table: a feature and a codec for each column, or for each group of one-hot columns.

    ``constant`` names columns that would be free if the data showed more than one value; ``assumed`` is ``None`` where
    the data were no frame, and nothing was assumed of them.
    """

    features: tuple[Feature, ...]
    codecs: tuple[Any, ...]
    constant: list[str]
    assumed: Assumptions | None


def columns_of(table: pd.DataFrame, options: ColumnOptions) -> Columns:
    """Read features and codecs off a table.

    A column that holds one value only in the data stays as it is, whatever its kind, unless the options say how it
    moves.
    """
    by_name = {str(label): label for label in table.columns}
    member_of = {member: group for group, members in options.one_hot.items() for member in members}
    names = tuple(dict.fromkeys(member_of.get(name, name) for name in by_name))
    blank = [name for name, label in by_name.items() if table[label].isna().all()]
    if blank:
        raise ValueError(f"data: the columns {blank} hold no value at all. Drop them.")
    codecs: list[Any] = []
    kinds: list[Kind] = []
    for name in names:
        if name in options.one_hot:
            labels = [by_name[member] for member in options.one_hot[name]]
            base = bool((table[labels].sum(axis=1) == 0).any())
            codecs.append(OneHotCodec(tuple(labels), tuple(str(table[label].dtype) for label in labels), base))
            kinds.append("categorical")
        else:
            kind = _kind(table[by_name[name]], name, options)
            codecs.append(codec_of(table[by_name[name]], kind, options.levels.get(name)))
            kinds.append(kind)
    x = np.column_stack([codec.encode(table, "data") for codec in codecs])
    if len(x) < 2:
        raise ValueError(f"data must have at least two rows to read units from, not {len(x)}")
    constant = [
        name
        for j, name in enumerate(names)
        if name not in options.immutable and _is_constant(x[:, j]) and not options.moves_anyway(name, codecs[j])
    ]
    fixed = options.immutable | set(constant)
    units, measured = _units(names, kinds, x, options, fixed | options.computed)
    spans = {name: _span(name, kinds[j], x[:, j], options) for j, name in enumerate(names)}
    features = [
        _feature(name, kinds[j], x[:, j], codecs[j], units[name], spans[name], options, mutable=name not in fixed)
        for j, name in enumerate(names)
    ]
    moving = [(name, span) for name, span in spans.items() if name not in fixed and span is not None]
    said = (*(describe_spans(moving) if options.table else ()), *describe_units(measured))
    return Columns(tuple(features), tuple(codecs), constant, Assumptions(said) if options.table or said else None)


def _units(
    names: tuple[str, ...], kinds: list[Kind], x: Array, options: ColumnOptions, fixed: frozenset[str]
) -> tuple[dict[str, float], Units]:
    """Return the unit of each column, read off its spread unless it is given or the column is a category."""
    measured = [j for j, kind in enumerate(kinds) if kind not in ("categorical", "boolean")]
    units = dict.fromkeys(names, 1.0)
    given = options.scale if isinstance(options.scale, Mapping) else {}
    units |= {name: given[name] for name in names if name in given}
    some = [names[j] for j in measured]
    found = units_of(x[:, measured], some, options.scale, fixed, table=options.table)
    return units | dict(zip(some, found.units, strict=True)), found


def _span(name: str, kind: Kind, x: Array, options: ColumnOptions) -> Span | None:
    """Return how far a column goes if nobody says so, ``None`` if somebody does.

    Of what is computed only the edges count that it has by nature: how far it goes follows from the other columns.
    """
    if options.all_bounds is not None or name in options.bounds:
        return None
    known = x[~np.isnan(x)]
    if options.table:
        return assume_bounds(kind, known, whole_range=name not in options.computed)
    # a count that is never negative in the data stays so
    return Span(0.0 if kind == "integer" and len(known) and known.min() >= 0 else None)


def _should_be_integers(column: pd.Series) -> bool:
    """Whether floats are whole numbers: some are missing, which makes floats of them, or there are enough to tell."""
    known = column.dropna()
    enough = 0 < len(known) < len(column) or len(known) >= _ENOUGH_TO_TELL
    whole = (known == known.round()) & (known.abs().astype(float) < _ALL_ARE_WHOLE)  # which no half precision holds
    return enough and bool(whole.all()) and known.nunique() > 1


def _is_constant(x: Array) -> bool:
    """Whether a column of numbers or codes ``(n,)`` holds one value only, up to rounding, beside missing ones."""
    low, high = 0.5 * np.nanmin(x), 0.5 * np.nanmax(x)  # half of each: their difference is a number
    return bool(high - low <= ROUNDING * max(abs(low), abs(high)))


def _kind(column: pd.Series, name: str, options: ColumnOptions) -> Kind:
    if name in options.kinds:
        return options.kinds[name]
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return "ordinal" if dtype.ordered else "categorical"
    if name in options.levels:
        return "categorical"
    if dtype.kind == "b":
        return "boolean"
    if dtype.kind == "M":
        return "datetime"
    if dtype.kind in "iu":
        flags = set(column.dropna().unique().tolist()) <= {0, 1}
        return "boolean" if flags and name not in options.bounds else "integer"
    if dtype.kind == "f":
        return "integer" if options.table and _should_be_integers(column) else "real"
    if dtype.kind in "cmV" or isinstance(dtype, (pd.PeriodDtype, pd.IntervalDtype)):
        raise ValueError(
            f"data: column {name!r} of {dtype} holds neither numbers nor texts, levels or times: convert it, e.g. a "
            "span of time to its days"
        )
    known = column.dropna()
    _require_one_sort(known, name)
    if dtype.kind == "O" and len(known) and all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in known):
        return "real"
    return "categorical"


def _require_one_sort(known: pd.Series, name: str) -> None:
    """Refuse a column of numbers with a text in between, and values that are no levels."""
    number = np.array([isinstance(value, (int, float)) and not isinstance(value, bool) for value in known])
    text = np.array([isinstance(value, str) for value in known])
    if number.any() and text.any():
        i = int(np.flatnonzero(text if number.sum() >= text.sum() else number)[0])
        belongs = "a number" if number.sum() >= text.sum() else "a text"
        raise ValueError(
            f"data: column {name!r} holds {show(known.iloc[i])} in row {show(known.index[i])} where {belongs} belongs. "
            "Correct it, or convert the whole column."
        )
    odd = next((value for value in known if isinstance(value, (list, dict, set, np.ndarray))), None)
    if odd is not None:
        raise ValueError(f"data: column {name!r} holds {odd!r}, which is neither a number nor a level")


def codec_of(column: pd.Series, kind: Kind, levels: Any = None) -> Codec:
    """Return the codec of a column."""
    dtype, label = column.dtype, column.name
    missing = column[column.isna()]
    blank = "" if missing.empty else "none" if missing.iloc[0] is None else "na" if missing.iloc[0] is pd.NA else "nan"
    if kind == "datetime":
        times = column.dropna()
        if dtype.kind != "M" or times.empty:
            raise ValueError(
                f"data: column {str(label)!r} of {dtype} holds no times; convert it with pandas.to_datetime"
            )
        origin, tick, _ = ticks_of(times.astype("int64").tolist(), str(dtype))
        return Codec(label, str(dtype), origin=origin, tick=tick)
    if kind in ("real", "integer"):
        real = kind == "real" and dtype.kind in "iub"
        return Codec(label, "float64" if real else str(dtype), blank=blank)
    if isinstance(dtype, pd.CategoricalDtype):
        return Codec(label, "category", tuple(dtype.categories.tolist()), bool(dtype.ordered), blank)
    found = _sort(column.dropna().unique().tolist())
    if levels is None and kind == "ordinal" and any(isinstance(value, str) for value in found):
        raise ValueError(
            f"column {str(label)!r} is said to be ordinal, but its texts do not say in which order: give "
            f"levels={{{str(label)!r}: [lowest, ..., highest]}}"
        )
    if kind == "boolean":
        found = [False, True] if dtype.kind == "b" else [0, 1]
    return Codec(label, str(dtype), tuple(found if levels is None else levels), blank=blank)


def _feature(
    name: str,
    kind: Kind,
    x: Array,
    codec: Any,
    unit: float,
    span: Span | None,
    options: ColumnOptions,
    *,
    mutable: bool,
) -> Feature:
    known = x[~np.isnan(x)]
    levels, frequencies = None, None
    if kind in ("ordinal", "categorical", "boolean"):
        levels = group_levels(codec) if isinstance(codec, OneHotCodec) else codec.levels
    if kind in ("categorical", "boolean"):
        # one more than was seen (Laplace's rule of succession): a level that never occurs can be reached
        counts = np.bincount(known.astype(int), minlength=len(levels or ())) + 1.0
        frequencies = tuple((counts / counts.sum()).tolist())
    low, high = _bounds(name, kind, known, codec, options) if span is None else span[:2]
    has_missing = len(known) < len(x)
    return Feature(
        name,
        kind=kind,
        low=low,
        high=high,
        levels=levels,
        scale=unit,
        mutable=mutable,
        direction="increase" if name in options.increase else "decrease" if name in options.decrease else "any",
        unit=_unit_name(codec),
        missing=options.missing.get(name, "keep" if has_missing else None),
        frequencies=frequencies,
        centre=None if not len(known) or kind in ("categorical", "boolean") else float(_middle(known, kind)),
        stretch=options.table and span is not None and (low is not None or high is not None),
    )


def _middle(known: Array, kind: Kind) -> float:
    return float(np.sort(known)[(len(known) - 1) // 2]) if kind != "real" else float(np.median(known))


def _bounds(name: str, kind: Kind, known: Array, codec: Any, options: ColumnOptions) -> tuple[Any, Any]:
    """Return the bounds that somebody asked for."""
    if kind in ("categorical", "boolean"):
        if name in options.bounds:
            raise ValueError(
                f"bounds: {name!r} is {kind} and has none; forbid levels by a constraint such as \"{name} != 'x'\", or "
                "make it ordinal"
            )
        return None, None
    if options.all_bounds is not None:
        seen = options.all_bounds == "data" and len(known)
        return (float(known.min()), float(known.max())) if seen else (None, None)
    low, high = (encode_bound(name, kind, bound, codec) for bound in options.bounds[name])
    if kind in ("ordinal", "datetime") and low is not None and high is not None and low > high:
        raise ValueError(f"bounds of {name!r}: {options.bounds[name][0]!r} lies above {options.bounds[name][1]!r}")
    return low, high


def encode_bound(name: str, kind: Kind, bound: Any, codec: Codec, what: str = "bounds of") -> Any:
    """Return a bound that a user gave for a column as it is encoded; ``what`` it is begins the sentence if it fails."""
    if bound is None:
        return None
    if kind == "ordinal":
        if bound not in (codec.levels or ()):
            raise ValueError(f"{what} {name!r} must be levels out of {list(codec.levels or ())}, not {bound!r}")
        return float((codec.levels or ()).index(bound))
    if kind == "datetime":
        try:
            moment = pd.Timestamp(bound)
        except (TypeError, ValueError):
            raise ValueError(f"{what} {name!r} must be moments, not {bound!r}") from None
        zone = getattr(pd.api.types.pandas_dtype(codec.dtype), "tz", None)
        if zone is not None and moment.tzinfo is None:
            moment = moment.tz_localize(zone)
        return float(codec.encode(pd.DataFrame({codec.label: [moment]}), "bounds")[0])
    return bound


def _unit_name(codec: Any) -> str:
    if isinstance(codec, Codec) and codec.tick:
        return ticks_of([codec.origin, codec.origin + codec.tick], codec.dtype)[2]
    return ""


def _sort(values: list[Any]) -> list[Any]:
    try:
        return sorted(values)
    except TypeError:  # of several types: in the order of their appearance
        return values


def _names(what: str, value: Any) -> frozenset[str]:
    if isinstance(value, str):
        return frozenset({value})
    if value is None or not isinstance(value, Iterable):
        raise TypeError(f"{what} must be a list of column names, not {value!r}")
    return frozenset(map(str, value))  # a column 0 is the feature "0"


def _by_name(given: Any, what: str) -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise TypeError(f"{what} must be a mapping by column name, not {given!r}")
    named = {str(name): value for name, value in given.items()}
    if len(named) < len(given):
        raise ValueError(f"{what} names a column twice: {sorted(map(str, given))}")
    return named
