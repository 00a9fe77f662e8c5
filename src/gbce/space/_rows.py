"""Rows of the user's table as float64 ``(n, d)``, and back into the same library, columns and dtypes."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from gbce._validation import show
from gbce.base import Array
from gbce.space._codecs import Codec, OneHotCodec
from gbce.space._feature import Feature
from gbce.space._frames import Layout, as_pandas

__all__ = [
    "RowCodec",
    "as_table",
    "column_dtypes",
    "group_levels",
    "groups_of",
    "has_labels",
    "layout_of",
    "repeated",
    "require_distinct",
    "say_difference",
    "unmasked",
]

# --- rows of the user's table as float64 ``(n, d)``, and back into the same library, columns and dtypes --------------


def as_table(rows: Any, what: str, names: Sequence[str] | None = None) -> pd.DataFrame:
    """Return ``rows`` as a DataFrame, unconverted.

    A frame (of pandas, polars or pyarrow), a Series or a mapping keeps its names; an array gets ``names``, or x1, x2,
    ... where there are none.
    """
    frame = as_pandas(rows)
    if frame is not None:
        table = frame
    elif isinstance(rows, pd.Series):
        by_position = names is not None and isinstance(rows.index, pd.RangeIndex) and len(rows) == len(names)
        values = rows.to_list()
        table = pd.DataFrame([values], columns=list(names) if by_position and names else list(rows.index))
    elif isinstance(rows, Mapping):
        table = pd.DataFrame([dict(rows)])
    elif isinstance(rows, (list, tuple)) and rows and all(isinstance(row, (Mapping, pd.Series)) for row in rows):
        table = _from_named(rows, what, names)
    else:
        table = _from_array(rows, what, names)
    if table.shape[1] == 0:
        raise ValueError(f"{what} has no columns")
    if len(table) == 0:
        raise ValueError(f"{what} has no rows")
    return table


def unmasked(values: Any) -> Any:
    """Return values as they are, but a masked array as a plain one with NaN, or None among objects, for what is masked.

    Examples
    --------
    >>> unmasked(np.ma.array([1, 2], mask=[False, True]))
    array([ 1., nan])
    """
    if not isinstance(values, np.ma.MaskedArray):
        return values
    plain, hidden = np.asarray(values), np.ma.getmaskarray(values)
    if not hidden.any():
        return plain
    blank: Any = np.nan if plain.dtype.kind in "fiub" else None
    return np.where(hidden, blank, plain)


def _from_named(rows: Sequence[Any], what: str, names: Sequence[str] | None) -> pd.DataFrame:
    """Return rows that are mappings or Series as a frame; all must have the same names."""
    tables = [as_table(row, what, names) for row in rows]
    want = list(tables[0].columns)
    for i, table in enumerate(tables):
        difference = say_difference(list(map(str, want)), list(map(str, table.columns)))
        if difference:
            raise ValueError(f"{what}: row {i} {difference}; the first one has {want}.")
    return pd.DataFrame([table[want].iloc[0].tolist() for table in tables], columns=want)


def say_difference(want: Sequence[str], have: Sequence[str]) -> str:
    """Say which names are missing and which are extra, as the rest of a sentence; empty if none is.

    Examples
    --------
    >>> say_difference(["a", "b"], ["b", "c"])
    "lacks ['a'] and has also ['c']"
    """
    missing, extra = _without(want, have), _without(have, want)
    return " and ".join(([f"lacks {missing}"] if missing else []) + ([f"has also {extra}"] if extra else []))


def _from_array(rows: Any, what: str, names: Sequence[str] | None) -> pd.DataFrame:
    if isinstance(rows, (list, tuple)) and any(isinstance(row, np.ma.MaskedArray) for row in rows):
        rows = np.ma.array(rows)
    rows = unmasked(rows)
    try:
        array = np.asarray(rows)
    except ValueError as error:
        raise ValueError(f"{what} is not a rectangular table: {error}") from None
    if array.ndim == 1:
        array = array[None, :]
    if array.ndim == 0:
        raise ValueError(f"{what} must be a table with rows and columns, not {rows!r}")
    if array.ndim != 2:
        raise ValueError(f"{what} must be a table with rows and columns, not an array of shape {array.shape}")
    if names is None:
        names = [f"x{j + 1}" for j in range(array.shape[1])]
    if array.shape[1] != len(names):
        raise ValueError(f"{what} has {array.shape[1]} columns, but the model's rows have {len(names)}: {list(names)}")
    if array.dtype.kind in "OUS":
        array = np.asarray(rows, dtype=object).reshape(array.shape)
    return pd.DataFrame(array, columns=list(names))


@dataclass(frozen=True)
class RowCodec:
    """How rows of a space are written in the user's table; the fields are those of :class:`gbce.Space`."""

    features: tuple[Feature, ...]
    columns: tuple[Any, ...] | None
    codecs: tuple[Codec | OneHotCodec, ...]
    layout: Layout | None

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Of the features."""
        return tuple(feature.name for feature in self.features)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Of the table's columns."""
        return self.names if self.columns is None else tuple(map(str, self.columns))

    def match(self, rows: Any, what: str, names: Sequence[str] | None = None) -> pd.DataFrame:
        """Return rows as a table with the space's columns in their order; an array's columns are the ``names``."""
        table = as_table(rows, what, self.labels if names is None else names)
        have, want = [str(c) for c in table.columns], self.labels
        difference = say_difference(want, have)
        if difference:
            advice = "Names must match the data." if _without(want, have) else "Drop what the model was not fitted on."
            raise ValueError(f"{what} {difference}; the columns are {list(want)}. {advice}")
        require_distinct(have, what)
        table = table.set_axis(have, axis=1)[list(want)]
        return table.set_axis(list(self.columns or self.names), axis=1)

    def encode(self, rows: Any, what: str) -> Array:
        """Turn rows into numbers ``(n, d)``; refuse what may not be missing."""
        table = self.match(rows, what)
        x = np.column_stack([codec.encode(table, what) for codec in self.codecs])
        may = np.array([feature.missing is not None for feature in self.features])
        bad = np.isnan(x) & ~may
        if bad.any():
            i, j = np.argwhere(bad)[0]
            more = f" ({int(bad.sum())} such values in all)" if bad.sum() > 1 else ""
            raise ValueError(
                f"{what}: column {self.names[j]!r} is missing in row {show(table.index[i])}{more}, but the data have "
                "no missing values there. Fill it in, or allow it with "
                f"Space.infer(data, missing={{{self.names[j]!r}: 'keep'}}) if the model can take it."
            )
        return x

    def decode(self, x: Array) -> Any:
        """Turn numbers ``(n, d)`` into a frame of the data's library, or into an array where the data were one."""
        decoded = self._decode_plain(x)
        return decoded if self.layout is None else self.layout.restore(decoded)

    def frame(self, x: Array) -> pd.DataFrame:
        """Turn numbers ``(n, d)`` into a frame of pandas; columns of an array get the features' names."""
        decoded = self._decode_plain(x)
        return decoded if self.columns is not None else pd.DataFrame(decoded, columns=list(self.names))

    def _decode_plain(self, x: Array) -> Any:
        """Turn numbers ``(n, d)`` into a frame of pandas, or into an array where the data were one."""
        x = np.atleast_2d(np.asarray(x, dtype=float))
        if self.columns is None:
            if all(codec.precise for codec in self.codecs):
                return x.copy(order="K")
            parts = [codec.decode(x[:, j]) for j, codec in enumerate(self.codecs)]
            return np.column_stack([np.asarray(column, dtype=float) for part in parts for column in part.values()])
        if self._all_floats:
            return pd.DataFrame(x.copy(order="K"), columns=self._index.view())
        series: dict[Any, Any] = {}
        for j, codec in enumerate(self.codecs):
            series |= codec.decode(x[:, j])
        return pd.DataFrame({label: series[label] for label in self.columns}, columns=self._index.view())

    @cached_property
    def _all_floats(self) -> bool:
        """Whether all columns are floats that are shown as they are, in the order of the features."""
        plain = all(isinstance(codec, Codec) and codec.precise and codec.dtype == "float64" for codec in self.codecs)
        return plain and [label for codec in self.codecs for label in codec.labels] == list(self.columns or ())

    @cached_property
    def _index(self) -> pd.Index:
        """The labels of the columns, which pandas takes longer to make than a frame."""
        return pd.Index(list(self.columns or self.names))


def has_labels(data: Any) -> bool:
    """Whether data are a frame, whose columns have labels."""
    return as_pandas(data) is not None


def layout_of(data: Any, codecs: Sequence[Codec | OneHotCodec]) -> Layout | None:
    """Return the layout of a frame that is not of pandas, or has sparse columns.

    A whole number that is read as a real one becomes a float.
    """
    if not has_labels(data):
        return None
    if isinstance(data, pd.DataFrame):
        layout = Layout.of(data)
        return layout if layout.schema else None
    real = [label for codec in codecs for label, dtype in column_dtypes(codec) if dtype == "float64"]
    return Layout.of(data).with_floats(real)


def column_dtypes(codec: Codec | OneHotCodec) -> list[tuple[Any, str]]:
    """Return label and dtype of each column that a codec reads and writes."""
    dtypes = codec.dtypes if isinstance(codec, OneHotCodec) else (codec.dtype,)
    return list(zip(codec.labels, dtypes, strict=True))


def require_distinct(names: Sequence[str], what: str) -> None:
    """Refuse two columns of one name."""
    twice = repeated(names)
    if twice:
        raise ValueError(f"{what}: a column name occurs twice: {twice}. Rename or drop one of them.")


def repeated(names: Sequence[str]) -> list[str]:
    """Return the names that occur more than once."""
    return sorted(name for name, count in Counter(names).items() if count > 1)


def _without(names: Sequence[str], others: Sequence[str]) -> list[str]:
    """Return the names that are none of the others."""
    known = set(others)
    return [name for name in names if name not in known]


# --- columns of zeros and ones that spell one category ---------------------------------------------------------------


def group_levels(codec: OneHotCodec) -> tuple[Any, ...]:
    """Return the levels that the columns spell: their names without what all of them start with."""
    labels = list(map(str, codec.labels))
    shared = _shared_start(labels)
    return tuple([label[len(shared) :] or label for label in labels] + (["(none)"] if codec.base else []))


def _shared_start(labels: list[str]) -> str:
    start = labels[0]
    while start and not all(label.startswith(start) and label != start for label in labels):
        start = start[:-1]
    cut = max(start.rfind(sign) for sign in "_=: .")
    return start[: cut + 1]


def groups_of(one_hot: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Return the columns of each group by its name; every column of the table ``names`` is in one group at most."""
    groups: dict[str, tuple[str, ...]] = {}
    owner: dict[str, str] = {}
    for name, members in one_hot.items():
        if name in names:
            raise ValueError(f"one_hot[{name!r}] has the name of a column of the data: give it a name of its own")
        groups[name] = _members(name, members, names)
        shared = [member for member in groups[name] if member in owner]
        if shared:
            others = sorted({owner[member] for member in shared})
            raise ValueError(
                f"one_hot[{name!r}] and one_hot[{others[0]!r}] share the columns {shared}: a column belongs to one "
                "group only. List the columns of each group, or give longer texts that they start with."
            )
        owner |= dict.fromkeys(groups[name], name)
    return groups


def _members(name: str, members: Any, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns of a group, listed or given by what they start with."""
    if isinstance(members, str):
        members = [column for column in names if column.startswith(members)]
    listed = tuple(map(str, members))
    known = set(names)
    unknown = [member for member in listed if member not in known]
    if unknown or len(listed) < 2:
        raise ValueError(
            f"one_hot[{name!r}] must list at least two columns of the data, or be a text they start with; "
            f"{f'unknown {unknown}' if unknown else f'found {list(listed)}'}"
        )
    twice = sorted({member for member in listed if listed.count(member) > 1})
    if twice:
        raise ValueError(f"one_hot[{name!r}] lists {twice} twice: name each column once")
    return listed
