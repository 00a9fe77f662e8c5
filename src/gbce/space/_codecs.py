"""Columns in and out: a column of the user's table as numbers, and numbers as that column again, dtype and all."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from gbce._validation import distinguish, show
from gbce.base import Array
from gbce.space._times import counts_of, too_fine, unit_and_zone

__all__ = ["Codec", "OneHotCodec"]

_LARGEST_EXACT = 2**53  # below it every whole number is a double of its own (IEEE 754)
_MOST_LEVELS_LISTED = 12  # in one sentence; by hand


@dataclass(frozen=True)
class Codec:
    """One column: its label, its dtype, and how its values are numbers.

    Parameters
    ----------
    label : object
        Of the column.
    dtype : str
        As pandas spells it; ``category`` is spelled out by ``levels`` and ``ordered``.
    levels : tuple, optional
        Values by their codes.
    ordered : bool
        Of a category dtype.
    blank : {"", "none", "nan", "na"}
        What stands in an object column where a value is missing.
    origin, tick : int
        Of a datetime: the moment that is zero, and the steps of the dtype's resolution that are one.
    """

    label: Any
    dtype: str = "float64"
    levels: tuple[Any, ...] | None = None
    ordered: bool = False
    blank: str = ""
    origin: int = 0
    tick: int = 0

    @property
    def labels(self) -> tuple[Any, ...]:
        """Columns of the table that it reads and writes."""
        return (self.label,)

    @property
    def precise(self) -> bool:
        """Whether any float fits the column as it is."""
        return self.levels is None and not self.tick and self.dtype in ("float64", "Float64")

    def encode(self, table: pd.DataFrame, what: str) -> Array:
        """Return the column as numbers ``(n,)``, NaN where a value is missing."""
        column = table[self.label]
        if self.tick:
            return self._from_times(column, what)
        if self.levels is not None:
            return self._from_levels(column, what)
        values = numbers(column, what)
        self._require_held(values, column, what)
        return values

    def decode(self, x: Array) -> dict[Any, Any]:
        """Return the column, by its label, of numbers ``(n,)``."""
        if self.tick:
            return {self.label: self._as_times(x)}
        if self.levels is not None:
            return {self.label: self._as_levels(x)}
        if self.dtype == "float64":
            return {self.label: x}
        if self.dtype == "object":
            values = np.asarray(x, dtype=object)
            return {self.label: pd.Series(np.where(np.isnan(x), self._blank, values), dtype=object)}
        kind = self._kind
        if not isinstance(kind, np.dtype):
            gone = np.isnan(x)
            whole = pd.array(np.where(gone, 0.0, x).astype(kind.numpy_dtype), dtype=kind)
            whole[gone] = pd.NA
            return {self.label: whole}
        return {self.label: x.astype(kind)}

    @cached_property
    def _kind(self) -> Any:
        return pd.api.types.pandas_dtype(self.dtype)

    # --- numbers --------------------------------------------------------------------------------------------

    def _require_held(self, x: Array, column: pd.Series, what: str) -> None:
        held = holds(x, self.dtype)
        if not held.all():
            i = int(np.flatnonzero(~held)[0])
            value, _ = distinguish(x[i], np.round(x[i]))
            raise ValueError(
                f"{what}: {str(self.label)!r} = {value} does not fit its column of {self.dtype} in the data, "
                "which would change it. Correct the value, or give the data that column as a float."
            )
        if column.dtype.kind in "iu" and len(x) and np.nanmax(np.abs(x), initial=0.0) >= _LARGEST_EXACT:
            raise ValueError(
                f"{what}: column {str(self.label)!r} holds whole numbers beyond 2**53, too large to be told apart. "
                "Drop it if it is an identifier, or make it a category."
            )

    # --- levels ---------------------------------------------------------------------------------------------

    @cached_property
    def _codes(self) -> dict[Any, int]:
        return {level: code for code, level in enumerate(self.levels or ())}

    @property
    def _blank(self) -> Any:
        return {"none": None, "na": pd.NA}.get(self.blank, np.nan)

    def _from_levels(self, column: pd.Series, what: str) -> Array:
        missing = column.isna().to_numpy()
        if isinstance(column.dtype, pd.CategoricalDtype):
            by_category = np.array([self._codes.get(level, -1) for level in column.cat.categories], dtype=float)
            codes = np.where(missing, np.nan, 0.0)
            codes[~missing] = by_category[column.cat.codes.to_numpy()[~missing]]
        else:
            values = column.to_numpy(dtype=object)
            codes = np.array(
                [np.nan if gone else self._code(value) for value, gone in zip(values, missing, strict=True)]
            )
        unseen = codes < 0
        if unseen.any():
            i = int(np.flatnonzero(unseen)[0])
            levels = self.levels or ()
            known = ", ".join(map(repr, levels[:_MOST_LEVELS_LISTED]))
            known += ", ..." if len(levels) > _MOST_LEVELS_LISTED else ""
            raise ValueError(
                f"{what}: column {str(self.label)!r} holds {show(column.iloc[i])} in row {show(column.index[i])}, a "
                f"level that the data do not have; its levels are {known}. Correct it, or name all levels with "
                f"Space.infer(data, levels={{{str(self.label)!r}: [...]}})."
            )
        return codes

    def _code(self, value: Any) -> float:
        try:
            return float(self._codes.get(value, -1))
        except TypeError:  # a list is no level
            return -1.0

    @cached_property
    def _level_array(self) -> Any:
        levels = list(self.levels or ())
        if self.dtype == "category":
            return pd.CategoricalDtype(levels, ordered=self.ordered)
        if self.dtype == "object":
            values = np.empty(len(levels) + 1, dtype=object)
            values[:-1] = levels
            values[-1] = self._blank
            return values
        return pd.array(levels, dtype=pd.api.types.pandas_dtype(self.dtype))

    def _as_levels(self, x: Array) -> Any:
        codes = np.where(np.isnan(x), -1, np.round(x)).astype(np.intp)
        known = self._level_array
        if self.dtype == "category":
            return pd.Categorical.from_codes(codes, dtype=known)
        if self.dtype == "object":
            return pd.Series(known[codes], dtype=object)
        return known.take(codes, allow_fill=bool((codes < 0).any()))

    # --- times ----------------------------------------------------------------------------------------------

    def _from_times(self, column: pd.Series, what: str) -> Array:
        missing = column.isna().to_numpy()
        known, x = column[~missing], np.full(len(column), np.nan)
        counts = counts_of(known, self.dtype, f"{what}: column {str(self.label)!r} holds")
        whole, part = np.divmod(counts - self.origin, self.tick)
        x[~missing] = whole + part / self.tick  # divided in two: in nanoseconds a century is no float64 any more
        off = self._counts(x[~missing]) != counts
        if off.any():
            raise too_fine(f"{what}: column {str(self.label)!r} holds", known, int(np.flatnonzero(off)[0]))
        return x

    def _counts(self, x: Array) -> Array:
        whole = np.floor(x)
        part = np.round((x - whole) * self.tick).astype(np.int64)
        return np.asarray(self.origin + whole.astype(np.int64) * self.tick + part)

    def _as_times(self, x: Array) -> Any:
        known = ~np.isnan(x)
        counts = np.full(len(x), np.iinfo(np.int64).min)  # not a time
        counts[known] = self._counts(x[known])
        unit, zone = unit_and_zone(self.dtype)
        times = pd.Series(counts.view(f"datetime64[{unit}]"))
        return times if zone is None else times.dt.tz_localize("UTC").dt.tz_convert(zone)


@dataclass(frozen=True)
class OneHotCodec:
    """Columns of zeros and ones that spell one category; all zeros are a level of their own if ``base`` is set."""

    labels: tuple[Any, ...]
    dtypes: tuple[str, ...]
    base: bool = False

    precise = False

    def encode(self, table: pd.DataFrame, what: str) -> Array:
        """Return the position of the one ``(n,)``."""
        ones = np.column_stack([numbers(table[label], what) for label in self.labels])
        total = ones.sum(axis=1)
        good = np.isin(ones, (0.0, 1.0)).all(axis=1) & ((total == 1) | ((total == 0) & self.base))
        if not good.all():
            i = int(np.flatnonzero(~good)[0])
            raise ValueError(
                f"{what}: the columns {list(map(str, self.labels))} are said to spell one category, but in row "
                f"{show(table.index[i])} they hold {ones[i].tolist()}: exactly one of them must be 1"
            )
        return np.where(total == 0, len(self.labels), ones.argmax(axis=1)).astype(float)

    def decode(self, x: Array) -> dict[Any, Any]:
        """Return the columns by their labels."""
        return {
            label: (x == code).astype(pd.api.types.pandas_dtype(dtype))
            if isinstance(pd.api.types.pandas_dtype(dtype), np.dtype)
            else pd.array((x == code).astype(int)).astype(dtype)
            for code, (label, dtype) in enumerate(zip(self.labels, self.dtypes, strict=True))
        }


def numbers(column: pd.Series, what: str) -> Array:
    """Return a column as float64 ``(n,)``, NaN where it is missing; a text is named with its place."""
    if column.dtype.kind in "fiub":
        x = column.to_numpy(dtype=float, na_value=np.nan)
    else:
        for label, value in column.items():
            if value is None or value is pd.NA:
                continue
            if not isinstance(value, (int, float, np.number, np.bool_)):
                raise ValueError(
                    f"{what}: column {str(column.name)!r} holds {show(value)} in row {show(label)} where a number "
                    "belongs. Correct it, or make the column a category in the data as well."
                )
        x = pd.to_numeric(column).to_numpy(dtype=float, na_value=np.nan)
    infinite = np.isinf(x)
    if infinite.any():
        i = int(np.flatnonzero(infinite)[0])
        raise ValueError(
            f"{what}: column {str(column.name)!r} is {x[i]} in row {show(column.index[i])}. "
            "Fill in or drop infinite values first."
        )
    return x


def holds(x: Array, dtype: str) -> Array:
    """Whether a column of this dtype holds each value as it is; every float column does, up to its precision."""
    kind = pd.api.types.pandas_dtype(dtype)
    if kind.kind not in "iub":
        return np.ones(len(x), dtype=bool)
    whole = np.iinfo(getattr(kind, "numpy_dtype", kind)) if kind.kind in "iu" else None
    low, high = (whole.min, whole.max) if whole else (0, 1)
    masked = not isinstance(kind, np.dtype)
    return ((x == np.round(x)) & (x >= low) & (x <= high)) | (np.isnan(x) & masked)
