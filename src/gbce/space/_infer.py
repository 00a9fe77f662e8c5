"""Infer features and codecs from a table and the options of a user: kinds, levels, units and bounds."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, NamedTuple, get_args

import numpy as np
import pandas as pd

from gbce._numerics import ROUNDING
from gbce._validation import is_number, is_whole, show
from gbce.base import Array
from gbce.space._codecs import LARGEST_EXACT, Codec, OneHotCodec, ends_of, ticks_of, too_large
from gbce.space._constraints import compared_columns
from gbce.space._expressions import depends_on_origin
from gbce.space._feature import Feature, Kind, Units, units_of
from gbce.space._format import decimals_of
from gbce.space._rows import group_levels, groups_of
from gbce.space._suggest import Assumptions, Span, assume_bounds, describe_spans, describe_units

_BOUNDS = ("data", "none")  # values of bounds= other than a mapping
# Options that name columns.
_BY_COLUMN = (
    "immutable", "increase", "decrease", "bounds", "kinds", "levels", "missing", "scale", "labels", "units", "digits"
)  # fmt: skip
# Floats that are all integral count as integers from so many on: halves would all be integral once in a million.
_ENOUGH_TO_TELL = 20
_ALL_INTEGRAL = 2.0**53  # floats beyond it have no fractional part

# --- user options ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ColumnOptions:
    """The options of :meth:`gbce.Space.infer`, keyed by column name."""

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
    labels: Mapping[str, str]
    units: Mapping[str, str]
    digits: Mapping[str, int]
    compared: Sequence[tuple[str, frozenset[str]]] = ()  # expressions, with the columns that each relates
    all_bounds: str | None = None
    table: bool = False

    @classmethod
    def of(cls, names: tuple[str, ...], **given: Any) -> "ColumnOptions":
        """Check options against the column names."""
        bounds = given["bounds"]
        for_all = isinstance(bounds, str)
        if for_all and bounds not in _BOUNDS:
            raise ValueError(f"bounds must be a mapping of names to (low, high), 'data' or 'none', not {bounds!r}")
        one_hot = groups_of(read_mapping(given["one_hot"], "one_hot"), names)
        grouped = {member for members in one_hot.values() for member in members}
        known = [name for name in names if name not in grouped] + list(one_hot)
        mappings = ("kinds", "levels", "missing", "labels", "units", "digits")
        read: dict[str, Any] = {what: read_mapping(given[what], what) for what in mappings}
        read["levels"] = {
            name: tuple(one) if isinstance(one, Iterable) and not isinstance(one, str) else one
            for name, one in read["levels"].items()
        }
        read |= {what: _read_names(what, given[what]) for what in ("immutable", "increase", "decrease")}
        computed = read_mapping(given["computed"], "computed")
        options = cls(
            **read,
            bounds={} if for_all else read_mapping(bounds, "bounds"),
            scale=read_mapping(given["scale"], "scale") if isinstance(given["scale"], Mapping) else given["scale"],
            one_hot=one_hot,
            computed=frozenset(computed),
            compared=compared_columns(given["constraints"], computed, tuple(known)),
            all_bounds=bounds if for_all else None,
            table=given["table"],
        )
        options._require_valid(known)
        return options

    def _require_valid(self, names: list[str]) -> None:
        """Reject unknown columns and contradictory or malformed options."""
        scales = self.scale if isinstance(self.scale, Mapping) else {}
        for what in _BY_COLUMN:
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
            if not isinstance(levels, tuple):
                raise ValueError(f"levels of {name!r} must be a list, not {levels!r}")
            if any(pd.api.types.is_scalar(level) and pd.isna(level) for level in levels):
                advice = f"missing={{{name!r}: 'any'}} allows it"
                raise ValueError(f"levels of {name!r}: a missing value is not a level; {advice}")
        require_words(self.labels, self.units, self.digits, names)
        for name, pair in self.bounds.items():
            if isinstance(pair, str) or np.asarray(pair, dtype=object).shape != (2,):
                raise ValueError(f"bounds of {name!r} must be (low, high), None for an open side, not {pair!r}")

    def can_vary(self, name: str, codec: Any) -> bool:
        """Whether the options define how a column that is constant in the data may change: levels, unit or formula."""
        own = None if isinstance(codec, OneHotCodec) else codec.levels
        if name in self.computed or (own is not None and len(own) == 1 and self.missing.get(name) == "any"):
            return True
        measured = isinstance(codec, Codec) and own is None and isinstance(self.scale, Mapping)
        return name in self.scale if measured else len(tuple(self.levels.get(name, ()))) > 1


def _read_names(what: str, value: Any) -> frozenset[str]:
    """Return an option as a set of column names."""
    if value is None:
        return frozenset()
    if isinstance(value, str):
        return frozenset({value})
    if not isinstance(value, Iterable):
        raise TypeError(f"{what} must be a list of column names, not {value!r}")
    return frozenset(map(str, value))  # a column 0 is the feature "0"


def read_mapping(given: Any, what: str) -> dict[str, Any]:
    """Return an option as a mapping keyed by column name."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise TypeError(f"{what} must be a mapping of column names to values, not {given!r}")
    named = {str(name): value for name, value in given.items()}
    if len(named) < len(given):
        raise ValueError(f"{what} names a column twice: {sorted(map(str, given))}")
    return named


def require_words(labels: Mapping[str, Any], units: Mapping[str, Any], digits: Mapping[str, Any], names: Any) -> None:
    """Reject labels, units and digits of a wrong type, and labels that would be confused with another column."""
    for what, given in (("labels", labels), ("units", units)):
        for name, text in given.items():
            if not isinstance(text, str) or not text.strip():
                raise TypeError(f"{what}: {name!r} needs a string that is not empty, not {show(text)}")
    for name, number in digits.items():
        if not is_whole(number):
            raise TypeError(f"digits: {name!r} needs an integer, the decimals of its numbers, not {show(number)}")
    shown = [labels.get(name, name) for name in names]
    for label in labels.values():
        if shown.count(label) > 1:
            both = [name for name, other in zip(names, shown, strict=True) if other == label]
            raise ValueError(f"labels: {' and '.join(map(repr, both))} would both be called {label!r}")


# --- features and codecs ---------------------------------------------------------------------------------------------


class Columns(NamedTuple):
    """A feature and a codec for each column, or for each group of one-hot columns."""

    features: tuple[Feature, ...]
    codecs: tuple[Any, ...]
    constant: list[str]  # columns that would be free if they varied in the data
    assumed: Assumptions | None  # None where the data were an array, about which nothing is assumed


def columns_of(table: pd.DataFrame, options: ColumnOptions) -> Columns:
    """Infer features and codecs from a table; constant columns are held fixed unless the options let them vary."""
    by_name = {str(label): label for label in table.columns}
    member_of = {member: group for group, members in options.one_hot.items() for member in members}
    names = tuple(dict.fromkeys(member_of.get(name, name) for name in by_name))
    empty = [name for name, label in by_name.items() if table[label].isna().all()]
    if empty:
        raise ValueError(f"data: the columns {empty} hold no value at all. Drop them.")
    codecs: list[Any] = []
    kinds: list[Kind] = []
    for name in names:
        if name in options.one_hot:
            labels = [by_name[member] for member in options.one_hot[name]]
            base = bool((table[labels].sum(axis=1) == 0).any())
            codecs.append(OneHotCodec(tuple(labels), tuple(str(table[label].dtype) for label in labels), base))
            kinds.append("categorical")
        else:
            _require_restorable(table[by_name[name]].dtype, name)
            kind = _infer_kind(table[by_name[name]], name, options)
            codecs.append(codec_of(table[by_name[name]], kind, options.levels.get(name)))
            kinds.append(kind)
    codecs = _align_times(codecs, names, options.compared)
    x = np.column_stack([codec.encode(table, "data") for codec in codecs])
    if len(x) < 2:
        raise ValueError(f"data must have at least two rows to read units from, not {len(x)}")
    constant = [
        name
        for j, name in enumerate(names)
        if name not in options.immutable and _is_constant(x[:, j]) and not options.can_vary(name, codecs[j])
    ]
    fixed = options.immutable | set(constant)
    units, measured = _choose_units(names, kinds, x, options, fixed | options.computed)
    spans = {name: _assume_span(name, kinds[j], x[:, j], options) for j, name in enumerate(names)}
    features = [
        _build_feature(name, kinds[j], x[:, j], codecs[j], units[name], spans[name], options, mutable=name not in fixed)
        for j, name in enumerate(names)
    ]
    free = [(name, span) for name, span in spans.items() if name not in fixed and span is not None]
    notes = (*(describe_spans(free) if options.table else ()), *describe_units(measured))
    return Columns(tuple(features), tuple(codecs), constant, Assumptions(notes) if options.table or notes else None)


def _align_times(codecs: list[Any], names: Sequence[str], compared: Sequence[tuple[str, frozenset[str]]]) -> list[Any]:
    """Return codecs that count the times of one expression from the same instant; reject those of unequal steps."""
    times = {name: codec for name, codec in zip(names, codecs, strict=True) if isinstance(codec, Codec) and codec.tick}
    aligned: set[str] = set()
    for text, related in compared:
        own = [name for name in names if name in times and name in related]
        kinds = {(times[name].step, times[name].has_zone) for name in own}
        if len(kinds) > 1:
            raise ValueError(
                f"{text!r} relates the times {own}, which have different steps, or only some a time zone: round them "
                "in the data, e.g. with .dt.floor('D'), or give a function of the frame"
            )
        if depends_on_origin(text, own):
            raise ValueError(
                f"{text!r} relates the times {own} to a number, but a time is not a number: relate times to "
                "each other, limit them with bounds=, or give a function of the frame"
            )
        aligned |= set(own) if len(own) > 1 else set()
    if not aligned:
        return codecs
    start = min(times[name].start for name in aligned)
    return [
        times[name].counted_from(start) if name in aligned else codec for name, codec in zip(names, codecs, strict=True)
    ]


def _choose_units(
    names: tuple[str, ...], kinds: list[Kind], x: Array, options: ColumnOptions, fixed: frozenset[str]
) -> tuple[dict[str, float], Units]:
    """Return the unit of each column: given, one for a category, or estimated from its spread."""
    measured = [j for j, kind in enumerate(kinds) if kind not in ("categorical", "boolean")]
    units = dict.fromkeys(names, 1.0)
    given = options.scale if isinstance(options.scale, Mapping) else {}
    units |= {name: given[name] for name in names if name in given}
    numeric = [names[j] for j in measured]
    found = units_of(x[:, measured], numeric, options.scale, fixed, table=options.table)
    return units | dict(zip(numeric, found.units, strict=True)), found


def _assume_span(name: str, kind: Kind, x: Array, options: ColumnOptions) -> Span | None:
    """Return the assumed bounds of a column, ``None`` if the user gave some; a computed one keeps its sign or share."""
    if options.all_bounds is not None or name in options.bounds:
        return None
    known = x[~np.isnan(x)]
    if options.table:
        return assume_bounds(kind, known, whole_range=name not in options.computed)
    # a count that is never negative in the data stays so
    return Span(0.0 if kind == "integer" and len(known) and known.min() >= 0 else None)


def _should_be_integers(column: pd.Series) -> bool:
    """Whether a float column holds integers: it has missing values (which force floats) or enough values to judge."""
    known = column.dropna()
    enough = 0 < len(known) < len(column) or len(known) >= _ENOUGH_TO_TELL
    integral = (known == known.round()) & (known.abs().astype(float) < _ALL_INTEGRAL)  # float16 cannot hold the limit
    return enough and bool(integral.all()) and known.nunique() > 1


def _is_constant(x: Array) -> bool:
    """Whether a column of numbers or codes ``(n,)`` has a single known value, up to rounding."""
    low, high = 0.5 * np.nanmin(x), 0.5 * np.nanmax(x)  # halved, so that their difference cannot overflow
    return bool(high - low <= ROUNDING * max(abs(low), abs(high)))


def _infer_kind(column: pd.Series, name: str, options: ColumnOptions) -> Kind:
    """Return the kind of a column: as given, or from its dtype and values."""
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
            f"data: column {name!r} of {dtype} holds neither numbers nor strings, levels or times: convert it, e.g. a "
            "duration to days"
        )
    known = column.dropna()
    _require_homogeneous(known, name)
    if dtype.kind == "O" and len(known) and all(map(_is_real_number, known)):
        if any(isinstance(value, int) and abs(value) >= LARGEST_EXACT for value in known):
            raise ValueError(f"data: {too_large(name)}")
        return "real"
    return "categorical"


def _require_restorable(dtype: Any, name: str) -> None:
    """Reject types of Arrow in a pandas frame that pandas does not find again by their name, and times."""
    if not isinstance(dtype, pd.ArrowDtype):
        return
    try:
        found = pd.api.types.pandas_dtype(str(dtype)) == dtype
    except (TypeError, NotImplementedError):
        found = False
    if not found or dtype.kind == "M":
        raise ValueError(
            f"data: column {name!r} of {dtype} cannot be returned in its type: convert it with "
            + (".astype('datetime64[us]')" if dtype.kind == "M" else ".astype(float) or .astype(str)")
        )


def _require_homogeneous(known: pd.Series, name: str) -> None:
    """Reject a column that mixes numbers and strings, or holds containers."""
    is_numeric = np.array([_is_real_number(value) for value in known])
    is_string = np.array([isinstance(value, str) for value in known])
    if is_numeric.any() and is_string.any():
        mostly_numeric = is_numeric.sum() >= is_string.sum()
        i = int(np.flatnonzero(is_string if mostly_numeric else is_numeric)[0])
        expected = "a number" if mostly_numeric else "a string"
        raise ValueError(
            f"data: column {name!r} holds {show(known.iloc[i])} in row {show(known.index[i])} where {expected} is "
            "expected. Correct it, or convert the whole column."
        )
    odd = next((value for value in known if not _is_hashable(value)), None)
    if odd is not None:
        raise ValueError(f"data: column {name!r} holds {odd!r}, which is neither a number nor a level")


def _is_real_number(value: Any) -> bool:
    """Whether a value of an object column is a number, be it a Decimal as databases return them."""
    return isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:  # a list, or a tuple that holds one
        return False
    return True


def codec_of(column: pd.Series, kind: Kind, levels: Any = None) -> Codec:
    """Build the codec of a column."""
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
        if isinstance(dtype, pd.CategoricalDtype):
            raise ValueError(
                f"data: column {str(label)!r} holds categories, and {kind} ones are numbers: convert it with "
                ".astype(float)"
            )
        real = kind == "real" and dtype.kind in "iub"
        decimal = dtype.kind == "O" and any(isinstance(value, Decimal) for value in column)
        return Codec(label, "float64" if real else str(dtype), blank=blank, decimal=decimal)
    if isinstance(dtype, pd.CategoricalDtype):
        return Codec(label, "category", tuple(dtype.categories.tolist()), bool(dtype.ordered), blank)
    found = _sort(column.dropna().unique().tolist())
    if levels is None and kind == "ordinal" and any(isinstance(value, str) for value in found):
        raise ValueError(
            f"column {str(label)!r} is declared ordinal, but the order of its strings is unknown: give "
            f"levels={{{str(label)!r}: [lowest, ..., highest]}}"
        )
    if kind == "boolean" and levels is None and (dtype.kind == "b" or set(found) <= {0, 1}):
        found = [False, True] if dtype.kind == "b" else [0, 1]
    elif kind == "boolean" and len(found if levels is None else levels) != 2:
        raise ValueError(
            f"data: column {str(label)!r} is declared boolean, but holds {len(found)} different values, not two"
        )
    return Codec(label, str(dtype), tuple(found if levels is None else levels), blank=blank)


def _build_feature(
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
    """Build the feature of one encoded column ``(n,)``."""
    known = x[~np.isnan(x)]
    levels, frequencies = None, None
    if kind in ("ordinal", "categorical", "boolean"):
        levels = group_levels(codec) if isinstance(codec, OneHotCodec) else codec.levels
    if kind in ("categorical", "boolean"):
        # one more than observed (Laplace's rule of succession), so that a level that never occurs can be reached
        counts = np.bincount(known.astype(int), minlength=len(levels or ())) + 1.0
        frequencies = tuple((counts / counts.sum()).tolist())
    low, high = _read_bounds(name, kind, known, codec, options) if span is None else span[:2]
    has_missing = len(known) < len(x)
    feature = Feature(
        name,
        kind=kind,
        low=low,
        high=high,
        levels=levels,
        scale=unit,
        mutable=mutable,
        direction="increase" if name in options.increase else "decrease" if name in options.decrease else "any",
        unit=_read_unit(name, kind, codec, options),
        missing=options.missing.get(name, "keep" if has_missing else None),
        frequencies=frequencies,
        centre=None if not len(known) or kind in ("categorical", "boolean") else float(_find_median(known, kind)),
        stretch=options.table and span is not None and (low is not None or high is not None),
        label=options.labels.get(name, ""),
        digits=_read_digits(name, kind, known, codec, options),
    )
    return as_storable(feature, codec)


def as_storable(feature: Feature, codec: Any) -> Feature:
    """Return a feature whose bounds are those of its column's dtype at most: numbers beyond them would wrap around."""
    if feature.kind not in ("integer", "real") or isinstance(codec, OneHotCodec):
        return feature
    least, most = ends_of(codec.dtype)
    low = -math.inf if feature.low is None else feature.low
    high = math.inf if feature.high is None else feature.high
    if least > max(low, -LARGEST_EXACT):
        feature = replace(feature, low=float(least))
    return replace(feature, high=float(most)) if most < min(high, LARGEST_EXACT) else feature


def _find_median(known: Array, kind: Kind) -> float:
    """Return the median, for discrete kinds the lower one, which is a value of the column."""
    return float(np.sort(known)[(len(known) - 1) // 2]) if kind != "real" else float(np.median(known))


def _read_bounds(name: str, kind: Kind, known: Array, codec: Any, options: ColumnOptions) -> tuple[Any, Any]:
    """Return the bounds given by the user, encoded."""
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


def encode_bound(name: str, kind: Kind, bound: Any, codec: Any, what: str = "bounds of") -> Any:
    """Encode a bound given by the user; the error message begins with ``what``."""
    if bound is None:
        return None
    if kind == "ordinal":
        if bound not in (codec.levels or ()):
            raise ValueError(f"{what} {name!r} must be levels out of {list(codec.levels or ())}, not {bound!r}")
        return float((codec.levels or ()).index(bound))
    if kind == "datetime":
        try:
            instant = pd.NaT if is_number(bound) else pd.Timestamp(bound)  # 2020 would be nanoseconds after 1970
        except (TypeError, ValueError):
            instant = pd.NaT
        if instant is pd.NaT:
            raise ValueError(f"{what} {name!r} must be times, not {bound!r}")
        zone = getattr(pd.api.types.pandas_dtype(codec.dtype), "tz", None)
        if zone is not None and instant.tzinfo is None:
            instant = instant.tz_localize(zone)
        return float(codec.encode(pd.DataFrame({codec.label: [instant]}), "bounds")[0])
    return bound


def _name_unit(codec: Any) -> str:
    """Return the name of the unit of a datetime column, else an empty string."""
    if isinstance(codec, Codec) and codec.tick:
        return ticks_of([codec.origin, codec.origin + codec.tick], codec.dtype)[2]
    return ""


def _read_unit(name: str, kind: Kind, codec: Any, options: ColumnOptions) -> str:
    """Return the name of a column's unit: as given, that of its times, or none."""
    if name not in options.units:
        return _name_unit(codec)
    if kind not in ("real", "integer"):
        raise ValueError(f"units: {name!r} is {kind}, and only numbers have a unit")
    return options.units[name]


def _read_digits(name: str, kind: Kind, known: Array, codec: Any, options: ColumnOptions) -> int | None:
    """Return the decimals of a column: as given, or from the data if it is real."""
    if name in options.digits:
        if kind not in ("real", "integer"):
            raise ValueError(f"digits: {name!r} is {kind}, and only numbers have digits")
        return options.digits[name]
    return decimals_of(known, codec.dtype) if kind == "real" and len(known) else None


def _sort(values: list[Any]) -> list[Any]:
    """Sort values; of mixed types, keep the order of appearance."""
    try:
        return sorted(values)
    except TypeError:
        return values
