"""Encode rows of the user's table as float64 ``(n, d)``, and decode them to the same library, columns and dtypes."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from gbce._validation import show
from gbce.base import Array
from gbce.space._codecs import Codec, OneHotCodec
from gbce.space._feature import Feature
from gbce.space._frames import Layout, as_pandas
from gbce.space._terms import level_positions

# --- input of any form as a pandas frame -----------------------------------------------------------------------------


def as_table(rows: Any, what: str, names: Sequence[str] | None = None) -> pd.DataFrame:
    """Return a frame, Series, mapping or array as a pandas frame; an array gets ``names``, or x1, x2, ..."""
    frame = as_pandas(rows)
    if frame is not None:
        table = frame
    elif isinstance(rows, pd.Series):
        by_position = names is not None and isinstance(rows.index, pd.RangeIndex) and len(rows) == len(names)
        values = rows.to_list()
        table = _one_row(values, list(names) if by_position and names else list(rows.index))
    elif isinstance(rows, Mapping):
        table = _one_row(dict(rows))
    elif isinstance(rows, (list, tuple)) and rows and all(isinstance(row, (Mapping, pd.Series)) for row in rows):
        table = _from_named(rows, what, names)
    else:
        table = _from_array(rows, what, names)
    if table.shape[1] == 0:
        raise ValueError(f"{what} has no columns")
    if len(table) == 0:
        raise ValueError(f"{what} has no rows")
    return table


def _one_row(row: Any, columns: list[Any] | None = None) -> pd.DataFrame:
    try:
        return pd.DataFrame([row], columns=columns)
    except OverflowError:  # of pandas 2, for integers that no float holds: these are refused by the name of the column
        return pd.DataFrame([row], columns=columns, dtype=object)


def unmasked(values: Any) -> Any:
    """Replace masked entries of a masked array by NaN (None among objects); return anything else unchanged."""
    if not isinstance(values, np.ma.MaskedArray):
        return values
    plain, mask = np.asarray(values), np.ma.getmaskarray(values)
    if not mask.any():
        return plain
    missing: Any = np.nan if plain.dtype.kind in "fiub" else None
    return np.where(mask, missing, plain)


def _from_named(rows: Sequence[Any], what: str, names: Sequence[str] | None) -> pd.DataFrame:
    """Return a list of mappings or Series, all with the same names, as a frame."""
    tables = [as_table(row, what, names) for row in rows]
    expected = list(tables[0].columns)
    for i, table in enumerate(tables):
        difference = describe_difference(list(map(str, expected)), list(map(str, table.columns)))
        if difference:
            raise ValueError(f"{what}: row {i} {difference}; the first one has {expected}.")
    return pd.DataFrame([table[expected].iloc[0].tolist() for table in tables], columns=expected)


def describe_difference(want: Sequence[str], have: Sequence[str]) -> str:
    """Describe missing and extra names, for the end of a sentence; empty if there are none."""
    missing, extra = _without(want, have), _without(have, want)
    return " and ".join(([f"lacks {missing}"] if missing else []) + ([f"has also {extra}"] if extra else []))


def _from_array(rows: Any, what: str, names: Sequence[str] | None) -> pd.DataFrame:
    """Return an array, or nested lists, as a frame."""
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
        numbered = isinstance(rows, (int, np.integer)) and not isinstance(rows, bool)
        hint = f"; if it is the number of a row, pass the values: data.iloc[[{rows}]]" if numbered else ""
        raise ValueError(f"{what} must be a table with rows and columns, not {rows!r}{hint}")
    if array.ndim != 2:
        raise ValueError(f"{what} must be a table with rows and columns, not an array of shape {array.shape}")
    if names is None:
        names = [f"x{j + 1}" for j in range(array.shape[1])]
    if array.shape[1] != len(names):
        raise ValueError(f"{what} has {array.shape[1]} columns, but the model's rows have {len(names)}: {list(names)}")
    if array.dtype.kind in "OUS":
        array = np.asarray(rows, dtype=object).reshape(array.shape)
    return pd.DataFrame(array, columns=list(names))


# --- encoding and decoding -------------------------------------------------------------------------------------------


class RowCodec:
    """The columns of a :class:`gbce.Space`, by which rows are encoded and decoded."""

    features: tuple[Feature, ...]
    columns: tuple[Any, ...] | None
    codecs: tuple[Codec | OneHotCodec, ...]
    layout: Layout | None

    def __len__(self) -> int:
        return len(self.features)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Feature names, in column order."""
        return tuple(feature.name for feature in self.features)

    @cached_property
    def position(self) -> dict[str, int]:
        """Position of each feature by its name."""
        return {name: j for j, name in enumerate(self.names)}

    @cached_property
    def column_labels(self) -> tuple[str, ...]:
        """Names of the table's columns; a one-hot group has one feature but several columns."""
        return self.names if self.columns is None else tuple(map(str, self.columns))

    @property
    def n_columns(self) -> int:
        """Number of columns of the table."""
        return len(self.column_labels)

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Dtype of each column of the table."""
        by_label = {label: dtype for codec in self.codecs for label, dtype in column_dtypes(codec)}
        return tuple(by_label[label] for label in (self.names if self.columns is None else self.columns))

    @cached_property
    def scale(self) -> Array:
        """Unit of change of each feature, shape ``(d,)``."""
        return np.array([feature.scale for feature in self.features])

    @cached_property
    def data_order(self) -> Array:
        """Rank of each feature ``(d,)`` in the order of the user's columns."""
        if self.columns is None:
            return np.arange(len(self.features))
        rank = {label: i for i, label in enumerate(self.columns)}
        first = [min(rank[label] for label in codec.labels) for codec in self.codecs]
        return np.argsort(np.argsort(first))

    def match(self, rows: Any, what: str, names: Sequence[str] | None = None) -> pd.DataFrame:
        """Return rows as a table with the space's columns in order; the columns of an array are called ``names``."""
        table = as_table(rows, what, self.column_labels if names is None else names)
        have, expected = [str(c) for c in table.columns], self.column_labels
        difference = describe_difference(expected, have)
        if difference:
            lacking = _without(expected, have)
            advice = "Names must match the data." if lacking else "Drop columns that the model was not fitted on."
            raise ValueError(f"{what} {difference}; the columns are {list(expected)}. {advice}")
        require_distinct(have, what)
        table = table.set_axis(have, axis=1)[list(expected)]
        return table.set_axis(list(self.columns or self.names), axis=1)

    def encode(self, rows: Any, *, what: str = "rows") -> Array:
        """Encode the user's rows as float64 ``(n, d)``; columns of a frame are matched by name.

        Parameters
        ----------
        rows : DataFrame, Series, mapping, or array of shape (n, d) or (d,)
            One or more rows.
        what : str
            What to call them in an error.
        """
        table = self.match(rows, what)
        x = np.column_stack([codec.encode(table, what) for codec in self.codecs])
        may_be_missing = np.array([feature.missing is not None for feature in self.features])
        bad = np.isnan(x) & ~may_be_missing
        if bad.any():
            i, j = np.argwhere(bad)[0]
            more = f" ({int(bad.sum())} such values in all)" if bad.sum() > 1 else ""
            raise ValueError(
                f"{what}: column {self.names[j]!r} is missing in row {show(table.index[i])}{more}, but the data have "
                "no missing values there. Fill it in, or allow it with "
                f"Space.infer(data, missing={{{self.names[j]!r}: 'keep'}}) if the model can handle it."
            )
        return x

    def decode(self, x: Array) -> Any:
        """Decode ``(n, d)`` to the form the model was fitted on: a frame of its library with its dtypes, or an array.

        The result shares no memory with ``x``, so that it may be modified.
        """
        decoded = self._decode_plain(x)
        return decoded if self.layout is None else self.layout.restore(decoded)

    def frame(self, x: Array) -> pd.DataFrame:
        """Decode ``(n, d)`` to a pandas frame; array columns get the features' names."""
        decoded = self._decode_plain(x)
        return decoded if self.columns is not None else pd.DataFrame(decoded, columns=list(self.names))

    def readable(self, x: Array) -> pd.DataFrame:
        """Decode ``(n, d)`` to a frame with one column per feature; a one-hot group shows its level."""
        columns: dict[str, Any] = {}
        for j, (feature, codec) in enumerate(zip(self.features, self.codecs, strict=True)):
            one_hot = isinstance(codec, OneHotCodec)
            columns[feature.name] = (
                self.values(feature.name, x) if one_hot else next(iter(codec.decode(x[:, j]).values()))
            )
        return pd.DataFrame(columns).astype(object)

    def values(self, name: str, x: Array) -> Array:
        """Return one feature of ``(n, d)`` decoded: numbers, or levels as objects."""
        j = self.position[name]
        feature = self.features[j]
        if not feature.leveled:
            return x[:, j]
        levels = np.array([*(feature.levels or ()), np.nan], dtype=object)
        return levels[level_positions(x[:, j])]

    def _decode_plain(self, x: Array) -> Any:
        """Decode numbers ``(n, d)`` to a pandas frame, or to an array if the data were one."""
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
        """Whether all columns are float64, in the order of the features."""
        plain = all(isinstance(codec, Codec) and codec.precise and codec.dtype == "float64" for codec in self.codecs)
        return plain and [label for codec in self.codecs for label in codec.labels] == list(self.columns or ())

    @cached_property
    def _index(self) -> pd.Index:
        """The column index, cached because building it takes longer than building the frame."""
        return pd.Index(list(self.columns or self.names))


def has_labels(data: Any) -> bool:
    """Whether data are a frame, with named columns."""
    return as_pandas(data) is not None


def layout_of(data: Any, codecs: Sequence[Codec | OneHotCodec]) -> Layout | None:
    """Return the layout of a non-pandas or sparse frame, else ``None``; integer columns read as real become floats."""
    if not has_labels(data):
        return None
    if isinstance(data, pd.DataFrame):
        layout = Layout.of(data)
        return layout if layout.schema else None
    real = [label for codec in codecs for label, dtype in column_dtypes(codec) if dtype == "float64"]
    return Layout.of(data).with_floats(real)


def column_dtypes(codec: Codec | OneHotCodec) -> list[tuple[Any, str]]:
    """Return label and dtype of each column that a codec covers."""
    dtypes = codec.dtypes if isinstance(codec, OneHotCodec) else (codec.dtype,)
    return list(zip(codec.labels, dtypes, strict=True))


def require_distinct(names: Sequence[str], what: str) -> None:
    """Reject duplicate column names."""
    twice = repeated(names)
    if twice:
        raise ValueError(f"{what}: a column name occurs twice: {twice}. Rename or drop one of them.")


def repeated(names: Sequence[str]) -> list[str]:
    """Return the names that occur more than once."""
    return sorted(name for name, count in Counter(names).items() if count > 1)


def _without(names: Sequence[str], others: Sequence[str]) -> list[str]:
    """Return the names that are not among the others."""
    known = set(others)
    return [name for name in names if name not in known]


# --- one-hot groups --------------------------------------------------------------------------------------------------


def group_levels(codec: OneHotCodec) -> tuple[Any, ...]:
    """Return the levels of a one-hot group: the column names without their common prefix."""
    labels = list(map(str, codec.labels))
    shared = _find_prefix(labels)
    return tuple([label[len(shared) :] or label for label in labels] + (["(none)"] if codec.base else []))


def _find_prefix(labels: list[str]) -> str:
    """Return the common prefix of labels, up to its last separator."""
    start = labels[0]
    while start and not all(label.startswith(start) and label != start for label in labels):
        start = start[:-1]
    cut = max(start.rfind(sign) for sign in "_=: .")
    return start[: cut + 1]


def groups_of(one_hot: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Return the columns of each one-hot group; no column may be in two groups."""
    groups: dict[str, tuple[str, ...]] = {}
    owner: dict[str, str] = {}
    for name, members in one_hot.items():
        if name in names:
            raise ValueError(f"one_hot[{name!r}] has the name of a column of the data: give the group another name")
        groups[name] = _read_members(name, members, names)
        shared = [member for member in groups[name] if member in owner]
        if shared:
            others = sorted({owner[member] for member in shared})
            raise ValueError(
                f"one_hot[{name!r}] and one_hot[{others[0]!r}] share the columns {shared}: a column belongs to one "
                "group only. List the columns of each group, or give longer prefixes."
            )
        owner |= dict.fromkeys(groups[name], name)
    return groups


def _read_members(name: str, members: Any, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns of a group, given as a list or as a prefix."""
    if isinstance(members, str):
        members = [column for column in names if column.startswith(members)]
    listed = tuple(map(str, members))
    known = set(names)
    unknown = [member for member in listed if member not in known]
    if unknown or len(listed) < 2:
        raise ValueError(
            f"one_hot[{name!r}] must list at least two columns of the data, or be their common prefix; "
            f"{f'unknown {unknown}' if unknown else f'found {list(listed)}'}"
        )
    twice = sorted({member for member in listed if listed.count(member) > 1})
    if twice:
        raise ValueError(f"one_hot[{name!r}] lists {twice} twice: name each column once")
    return listed
