"""Define the space of admissible rows: features, constraints, distances, and encoding of rows.

Everywhere else a row is a float64 vector ``x`` of shape ``(d,)`` and a batch is ``(n, d)``: numbers as they are, levels
by their positions, times in their unit, NaN where a value is missing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from gbce._numerics import MEMORY_CELLS, ROUNDING
from gbce.base import Array
from gbce.space._codecs import Codec, OneHotCodec, require_writable
from gbce.space._constraints import Computed, Constraint, as_computed, as_constraints, require_consistent
from gbce.space._feature import Feature, Kind
from gbce.space._format import ends_text, label_text, pair_text, range_text, readable_step, value_text
from gbce.space._frames import Layout
from gbce.space._infer import Assumptions, ColumnOptions, codec_of, columns_of, read_mapping, require_words
from gbce.space._limits import (
    ConstraintGroups,
    Limits,
    RowLimits,
    complete,
    is_admissible,
    low_precision_of,
    move_each,
    place,
    settle_each,
)
from gbce.space._places import Centre, Checks, Places, distances_to, embed, nearest
from gbce.space._rows import RowCodec, as_table, column_dtypes, has_labels, layout_of, repeated, require_distinct
from gbce.space._suggest import Suggestions, suggest
from gbce.space._table import as_text, check_table, constant_notes, misfits, protected_notes
from gbce.space._terms import level_positions
from gbce.space._transitions import forbid, read_transitions

# Features requested by number: more is a typo. By hand: a batch of 20,000 candidates takes 16 GB there.
_MOST_FEATURES = 100_000
_SHOWN = 30  # features in a repr
_MOST_LIMITS = 100  # rows whose limits are cached; by hand: more than are explained at the same time


@dataclass(frozen=True, repr=False)
class Space:
    """The features of a table, in the model's column order, and the constraints between them.

    Build one with :meth:`infer` from data or :meth:`real` from a number of features; the constructor takes
    ready :class:`Feature` objects.

    Parameters
    ----------
    features : sequence of Feature
        In the order of the model's columns.
    columns : tuple, optional
        Column labels of the user's frame; ``None`` when rows are arrays.
    codecs : tuple, optional
        How each feature is encoded from the user's table.
    constraints : tuple of Constraint
        Constraints that every draw satisfies.
    computed : tuple of Computed
        Features computed from others.
    layout : Layout, optional
        The library and the types of the user's frame if it is not a pandas frame or has sparse columns.
    notes : tuple of str
        Sentences for the user on what was inferred from the data; not stored in files.
    assumed : Assumptions, optional
        Sentences on what was assumed about the frame from which the space was inferred; not stored in files.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"age": [30, 50], "income": [1.0, 3.0], "job": ["clerk", "none"]})
    >>> space = Space.infer(frame, immutable=["age"], bounds={"income": (0, None)})
    >>> print(space)
    feature  kind         range        unit of change  may change
    age      integer      28 to 52                 10  no
    income   real         0 to inf                  1  yes
    job      categorical  clerk, none      any change  yes
    >>> bool((space.decode(space.encode(frame)).dtypes == frame.dtypes).all())
    True
    """

    features: tuple[Feature, ...]
    columns: tuple[Any, ...] | None = None
    codecs: tuple[Codec | OneHotCodec, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    computed: tuple[Computed, ...] = ()
    layout: Layout | None = None
    notes: tuple[str, ...] = field(default=(), compare=False, repr=False)
    assumed: Assumptions | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", tuple(self.features))
        if not self.features:
            raise ValueError("a space needs at least one feature")
        twice = repeated(self.names)
        if twice:
            raise ValueError(f"feature names must differ, but {', '.join(map(repr, twice))} occurs twice")
        require_writable(self.columns or (), "the column label")
        if not self.codecs:
            object.__setattr__(self, "codecs", tuple(Codec(f.name, levels=f.levels) for f in self.features))
        others, transitions = read_transitions(self.constraints, self.names)
        object.__setattr__(self, "constraints", as_constraints(others, self.names))
        if transitions:
            object.__setattr__(self, "features", forbid(self.features, transitions))
        require_consistent(self.features, self.constraints)

    # --- construction ---------------------------------------------------------------------------------------

    @classmethod
    def infer(
        cls,
        data: Any,
        *,
        immutable: Iterable[str] = (),
        increase: Iterable[str] = (),
        decrease: Iterable[str] = (),
        bounds: Mapping[str, tuple[Any, Any]] | str | None = None,
        kinds: Mapping[str, Kind] | None = None,
        scale: str | Mapping[str, float] = "auto",
        levels: Mapping[str, Sequence[Any]] | None = None,
        missing: Mapping[str, str] | None = None,
        constraints: Any = (),
        computed: Mapping[str, Any] | None = None,
        one_hot: Mapping[str, Any] | None = None,
        labels: Mapping[str, str] | None = None,
        units: Mapping[str, str] | None = None,
        digits: Mapping[str, int] | None = None,
    ) -> "Space":
        """Infer names, kinds, levels, dtypes and units from a table.

        Strings, objects and unordered categories become categorical, ordered categories ordinal, bools and integers
        that are only ever 0 and 1 boolean, other integers integer, times datetime, everything else real. A column that
        is constant in the data is held fixed, and a note says so: to let it change give its unit with
        ``scale={name: number}``, or its ``levels``.

        For a frame more is assumed, and a note lists it once. Numbers and times may go up to 10% beyond the range in
        the data, but a number that is never negative, or never positive, keeps its sign, a share stays within 0 and 1,
        and integers with at most 31 distinct values stay within these. Computed columns keep their sign and share, but
        have no range. A row outside such a bound is still explained: the bound stretches to it. Columns with heavy
        tails get a robust unit. For an array nothing is assumed except that integers that are never negative stay so.

        Parameters
        ----------
        data : DataFrame or array of shape (n, d)
            The rows the model was fitted on, without the outcome. Array columns are named x1, x2, ... A frame may come
            from pandas, polars or pyarrow: the model receives frames of the same library and types. Result tables are
            always pandas.
        immutable, increase, decrease : iterable of str
            Columns that may not change, only rise, only fall.
        bounds : mapping of str to (low, high), "data" or "none"
            Bounds in the column's own values: levels of an ordinal, times of a datetime; ``None`` leaves a side open.
            Other columns keep their assumed bounds. ``"data"`` limits every number to its range in the data,
            ``"none"`` leaves all of them unbounded. A row outside a given bound is rejected.
        kinds : mapping of str to str
            Kinds of columns that cannot be inferred from the dtype.
        scale : {"auto", "sd", "mad", "raw"} or mapping of str to float
            The unit of change of each feature: its standard deviation, its median absolute deviation times 1.4826 (for
            a column that is mostly one value, the median distance of the others to it), one, or given numbers.
            ``"auto"``, also for columns not in the mapping, is the standard deviation; but for a frame, where it is
            more than three times the interquartile range over 1.349, it is the latter. Any change of a category counts
            as one unit.
        levels : mapping of str to sequence
            Levels that do not occur in the data, or the order of an ordinal's levels.
        missing : mapping of str to {"keep", "leave", "any"}
            Whether a missing value may become known, or a known one missing. Columns with missing values default to
            ``"keep"``; others allow none.
        constraints : list of str or callable
            Constraints that the row and every draw satisfy: ``"debt <= 0.4 * income"``, ``"if job == 'none' then hours
            == 0"``, or functions of the frame that return booleans. ``"never degree 'Master' -> 'Bachelor'"`` forbids a
            transition: a row with the first level never gets the second.
        computed : mapping of str to str or callable
            Columns computed from others, such as ``{"total": "a + b"}``: they are recomputed for every draw.
        one_hot : mapping of str to list of str, or str
            Groups of one-hot columns: a name for the category, and the columns or their common prefix.
        labels : mapping of str to str
            What people call columns, such as ``{"loan_to_value": "Loan-to-value ratio"}``: in sentences, reports, plots
            and pages. Frames, and the names that other options expect, stay those of the data.
        units : mapping of str to str
            Units of numbers, written behind them: ``{"income": "USD"}`` gives "2,450 USD".
        digits : mapping of str to int
            Decimals with which numbers are written, negative for tens, hundreds and so on. By default those in the
            data, or about three significant digits of the column's spread if there are more than three decimals.

        Returns
        -------
        Space
            One feature per column, or per group of one-hot columns.

        Examples
        --------
        >>> space = Space.infer([[0.0, 10.0], [2.0, 30.0]], bounds={"x2": (0, None)}, increase=["x1"])
        >>> space.scale
        array([ 1., 10.])
        """
        table = as_table(data, "data")
        require_distinct([str(label) for label in table.columns], "data")
        options = ColumnOptions.of(
            tuple(map(str, table.columns)),
            immutable=immutable,
            increase=increase,
            decrease=decrease,
            bounds=bounds,
            kinds=kinds,
            scale=scale,
            levels=levels,
            missing=missing,
            one_hot=one_hot,
            computed=computed,
            labels=labels,
            units=units,
            digits=digits,
            table=has_labels(data),
        )
        features, codecs, constant, assumed = columns_of(table, options)
        names = tuple(feature.name for feature in features)
        columns = tuple(table.columns) if has_labels(data) else None
        if columns is None and any(isinstance(codec, OneHotCodec) for codec in codecs):
            columns = tuple(table.columns)
        return cls(
            features,
            columns,
            codecs,
            constraints,
            as_computed(computed, names),
            layout_of(data, codecs),
            (*constant_notes(constant), *(protected_notes(features) if has_labels(data) else ())),
            assumed,
        )

    @classmethod
    def real(
        cls,
        d_or_names: int | Sequence[str],
        *,
        scale: float | Sequence[float] = 1.0,
        labels: Mapping[str, str] | None = None,
        units: Mapping[str, str] | None = None,
        digits: Mapping[str, int] | None = None,
    ) -> "Space":
        """Return a space of unbounded real features in raw units: the setting of the paper.

        ``labels``, ``units`` and ``digits`` are those of :meth:`infer`; without digits, numbers are written with up to
        six significant ones.

        Examples
        --------
        >>> Space.real(2).names
        ('x1', 'x2')
        >>> Space.real(["ltv"], labels={"ltv": "Loan-to-value ratio"}, digits={"ltv": 2}).format(0, 0.934426)
        '0.93'
        """
        names = _read_names(d_or_names)
        scales = np.asarray(scale, dtype=float)
        if scales.shape not in ((), (len(names),)):
            raise ValueError(f"scale must be one number or {len(names)}, one per feature, not shape {scales.shape}")
        called, unit = _read_words(names, "labels", labels), _read_words(names, "units", units)
        decimals = _read_words(names, "digits", digits)
        require_words(called, unit, decimals, names)
        features = [
            Feature(
                name, scale=float(s), label=called.get(name, ""), unit=unit.get(name, ""), digits=decimals.get(name)
            )
            for name, s in zip(names, np.broadcast_to(scales, (len(names),)), strict=True)
        ]
        return cls(tuple(features))

    @classmethod
    def suggest(cls, data: Any) -> Suggestions:
        """Suggest constraints that all or nearly all rows follow, as lines to paste into :meth:`infer`.

        Inequalities between two columns, columns that are sums of two others, levels that go with a level of another
        column, and numbers that are nearly always integral, each with the number of rows that follow it. Rules that
        unrelated columns would follow by chance are left out. Only you can tell which of them always hold.

        Parameters
        ----------
        data : DataFrame or array of shape (n, d)
            The rows, as in :meth:`infer`. At most 20,000 rows and 60 columns of each kind are compared.

        Returns
        -------
        Suggestions
            ``print`` shows the lines; ``.table`` is a frame with ``option``, ``line``, ``support`` and ``n``.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> income = rng.uniform(1_000, 5_000, 200).round()
        >>> frame = pd.DataFrame({"income": income, "rent": (income * rng.uniform(0.1, 0.9, 200)).round()})
        >>> print(Space.suggest(frame))
        constraints=[
            'rent <= income',  # all 200 rows
        ],
        """
        return suggest(as_table(data, "data"))

    def adopt(self, data: Any) -> "Space":
        """Return this space with the layout (frame or array, dtypes) of ``data``, whose columns must match."""
        if self.columns is not None or not has_labels(data):
            self.encode(data, what="data")  # raises if the data do not fit
            return replace(self, layout=layout_of(data, self.codecs)) if has_labels(data) else self
        table = self._row_codec.match(data, "data", self.names)
        codecs = tuple(
            replace(codec_of(table.iloc[:, j], feature.kind, feature.levels), levels=feature.levels)
            for j, feature in enumerate(self.features)
        )
        adopted = replace(self, columns=tuple(table.columns), codecs=codecs, layout=layout_of(data, codecs))
        adopted.encode(data, what="data")
        return adopted

    def ordered_by(self, labels: Sequence[str]) -> "Space":
        """Return this space with its features in the order of a model's columns; unchanged if those do not match.

        Tables keep the order of the user's columns.

        Examples
        --------
        >>> space = Space.infer(pd.DataFrame({"a": [1.5, 2.0], "b": [0.1, 0.3]}))
        >>> space.ordered_by(["b", "a"]).names, space.ordered_by(["b", "a"]).columns
        (('b', 'a'), ('a', 'b'))
        """
        rank = {label: i for i, label in enumerate(labels)}
        own = [[str(label) for label in codec.labels] for codec in self.codecs]
        if self.columns is None or sorted(rank) != sorted(label for group in own for label in group):
            return self
        order = sorted(range(len(own)), key=lambda j: min(rank[label] for label in own[j]))
        if order == list(range(len(order))):
            return self
        features, codecs = tuple(self.features[j] for j in order), tuple(self.codecs[j] for j in order)
        return replace(self, features=features, codecs=codecs)

    def named(self, names: Sequence[str], x: Array) -> "Space":
        """Return the space of an array with other names for its columns, which keep the sign they have in ``x``.

        A number that is never negative, or never positive, in the rows ``(n, d)`` stays so, unless it has a bound.
        """
        features = []
        for feature, name, values in zip(self.features, names, x.T, strict=True):
            own = replace(feature, name=str(name))
            if own.kind in ("real", "integer") and own.low is None and own.high is None:
                if np.nanmin(values) >= 0.0:
                    own = replace(own, low=0.0, stretch=True)
                elif np.nanmax(values) <= 0.0:
                    own = replace(own, high=0.0, stretch=True)
            features.append(own)
        codecs = tuple(
            replace(codec, label=str(name)) if isinstance(codec, Codec) else codec
            for codec, name in zip(self.codecs, names, strict=True)
        )
        return replace(self, features=tuple(features), codecs=codecs, notes=(*self.notes, *protected_notes(features)))

    @cached_property
    def data_order(self) -> Array:
        """Rank of each feature ``(d,)`` in the order of the user's columns."""
        if self.columns is None:
            return np.arange(len(self.features))
        rank = {label: i for i, label in enumerate(self.columns)}
        first = [min(rank[label] for label in codec.labels) for codec in self.codecs]
        return np.argsort(np.argsort(first))

    # --- properties -----------------------------------------------------------------------------------------

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Feature names, in column order."""
        return tuple(feature.name for feature in self.features)

    @cached_property
    def position(self) -> dict[str, int]:
        """Position of each feature by its name."""
        return {name: j for j, name in enumerate(self.names)}

    @property
    def column_labels(self) -> tuple[str, ...]:
        """Names of the table's columns; a one-hot group has one feature but several columns."""
        return self._row_codec.labels

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
    def steps(self) -> Array:
        """The step in which a person would change each number, ``(d,)``; zero for levels, times and computed columns.

        Examples
        --------
        >>> Space.infer([[2437.18, 0.5], [4230.5, 0.93], [3100.25, 0.12]]).steps
        array([10.  ,  0.01])
        """
        return np.where(self.is_computed, 0.0, [readable_step(feature) for feature in self.features])

    @cached_property
    def plain(self) -> bool:
        """Whether all features are real numbers that are never missing, without constraints or computed columns."""
        return all(feature.plain for feature in self.features) and not self.constraints and not self.computed

    @property
    def free_reals(self) -> bool:
        """Whether all features are unbounded and free to change, as in :meth:`real`."""
        return self.plain and all(
            feature.mutable and feature.direction == "any" and feature.low is None and feature.high is None
            for feature in self.features
        )

    @cached_property
    def discrete(self) -> Array:
        """Whether each feature is discrete, ``(d,)``."""
        return np.array([feature.discrete for feature in self.features])

    @property
    def unordered(self) -> Array:
        """Whether each feature is a category or a boolean, ``(d,)``."""
        return self.all_limits.unordered

    @property
    def may_become_missing(self) -> Array:
        """Whether each feature may become missing, ``(d,)``."""
        return self.all_limits.may_become_missing

    @cached_property
    def is_computed(self) -> Array:
        """Whether each feature is computed from others, ``(d,)``."""
        computed = {one.name for one in self.computed}
        return np.array([name in computed for name in self.names])

    def __len__(self) -> int:
        return len(self.features)

    def __repr__(self) -> str:
        lines = str(self).splitlines()
        if len(self) <= _SHOWN:
            return str(self)
        return "\n".join([*lines[: _SHOWN + 1], f"and {len(self) - _SHOWN} more features", *lines[len(self) + 1 :]])

    def __str__(self) -> str:
        notes = (*self.notes, *([] if self.assumed is None else [self.assumed.note()]))
        return as_text(self.features, self.codecs, self.constraints, self.computed, [note for note in notes if note])

    # --- words ----------------------------------------------------------------------------------------------

    def label(self, j: int) -> str:
        """Return what people call the feature at position ``j``: its label, or else its name.

        For whatever people read; control characters are escaped. Programs, options and frames use ``names``.

        Examples
        --------
        >>> Space.real(["ltv", "x"], labels={"ltv": "Loan-to-value ratio"}).label(0)
        'Loan-to-value ratio'
        """
        return label_text(self.features[j])

    def format(self, j: int, value: float, *, exact: bool = False, unit: bool = True, quoted: bool = False) -> str:
        """Write an encoded value of the feature at position ``j`` as people do.

        Numbers have the digits of their column, separated thousands and their unit.

        Parameters
        ----------
        j : int
            Position of the feature.
        value : float
            Encoded, as in ``x``; NaN is "missing".
        exact : bool
            Whether somebody will use this very value, so that it gets as many digits as tell it from any other number;
            otherwise it is rounded to the digits of its column.
        unit : bool
            Whether to write the unit behind a number.
        quoted : bool
            Whether to put levels that are strings in quotation marks, as in a sentence.

        Examples
        --------
        >>> space = Space.real(["income"], units={"income": "USD"}, digits={"income": 0})
        >>> space.format(0, 2437.18), space.format(0, 2437.18, exact=True), space.format(0, 2437.18, unit=False)
        ('2,437 USD', '2,437.18 USD', '2,437')
        """
        return value_text(self.features[j], self.codecs[j], value, exact=exact, unit=unit, quoted=quoted)

    def format_change(
        self, j: int, before: float, after: float, *, exact: bool = True, quoted: bool = False
    ) -> tuple[str, str]:
        """Write the value of a feature now and the one to change it to, so that they differ; the unit stands last.

        The new value is ``exact``, so that what a person reads is what the model was given.

        Examples
        --------
        >>> space = Space.real(["income"], units={"income": "USD"}, digits={"income": 0})
        >>> space.format_change(0, 2100.4, 2450.0)
        ('2,100', '2,450 USD')
        """
        return pair_text(self.features[j], self.codecs[j], before, after, exact=exact, quoted=quoted)

    def format_range(self, j: int, low: float, high: float, *, inside: float | None = None) -> str:
        """Write a range of encoded values of a feature, infinite where it has no end.

        Ends are rounded inwards, by at most 2% of the width, so that no number in the written range lies outside the
        true one; ``inside`` is a value that must stay in it.

        Examples
        --------
        >>> space = Space.real(["ltv"], digits={"ltv": 2})
        >>> space.format_range(0, 0.12345, 0.9381), space.format_range(0, -np.inf, 0.4861)
        ('0.13 to 0.93', 'up to 0.48')
        """
        return range_text(self.features[j], self.codecs[j], low, high, inside)

    def format_ends(self, j: int, low: float, high: float, *, inside: float | None = None) -> tuple[str, str]:
        """Write the ends of a range as :meth:`format_range` does, without words and unit; an open end is empty.

        Examples
        --------
        >>> Space.real(["ltv"], digits={"ltv": 2}).format_ends(0, 0.12345, np.inf)
        ('0.13', '')
        """
        return ends_text(self.features[j], self.codecs[j], low, high, inside)

    # --- admissible points ----------------------------------------------------------------------------------

    def limits(self, x0: Array) -> tuple[Array, Array]:
        """Return the lowest and the highest value of each feature at the row ``x0``: two read-only arrays ``(d,)``.

        For a feature that cannot change (immutable, computed, or missing and to be kept) both are the row's value.
        """
        found = self.row_limits(x0)
        return found.low, found.high

    def row_limits(self, x0: Array) -> RowLimits:
        """Return the limits at the row ``x0``, by which points are rounded and clipped; cached."""
        x0 = np.asarray(x0, dtype=float)
        key = x0.tobytes()
        cached = self._limits_of_rows.get(key)
        if cached is None:
            cached = self.all_limits.at(x0)
            if len(self._limits_of_rows) >= _MOST_LIMITS:
                self._limits_of_rows.clear()
            self._limits_of_rows[key] = cached
        return cached

    @cached_property
    def _limits_of_rows(self) -> dict[bytes, RowLimits]:
        """Cache of limits keyed by the bytes of rows: one explanation needs them hundreds of times."""
        return {}

    @cached_property
    def all_limits(self) -> Limits:
        """Everything that determines the limits of a row."""
        return Limits.of(self.features, self.is_computed)

    @cached_property
    def checks(self) -> Checks:
        """The compiled constraints: a function of rows ``(n, d)`` to booleans ``(n,)``."""
        return Checks.of(self, self.constraints)

    @cached_property
    def constraint_groups(self) -> ConstraintGroups:
        """Groups of features linked by constraints, for a space without computed features."""
        return ConstraintGroups.of(self)

    @cached_property
    def is_bound(self) -> Array:
        """Whether a constraint or computed feature depends, or may depend, on each feature, ``(d,)``."""
        seen = [*(one.names() for one in self.constraints), *(one.names() for one in self.computed)]
        known = {name for names in seen for name in names or ()}
        return np.array([None in seen or name in known for name in self.names])

    @cached_property
    def low_precision(self) -> list[tuple[int, np.dtype[Any]]]:
        """Positions and dtypes of real features that are stored with less than double precision."""
        return low_precision_of(self.features, self.codecs)

    def free(self, x0: Array) -> Array:
        """Return the positions ``(m,)`` of the features that can change from ``x0``."""
        low, high = self.limits(x0)
        return np.flatnonzero((high > low) | self.all_limits.may_become_missing)

    def project(self, x: Array, x0: Array, toward: Array | None = None) -> Array:
        """Return admissible points near ``x`` of shape ``(n, d)`` for the row ``x0``.

        Values are rounded and clipped, computed features recomputed. The move of a point that then violates a
        constraint is shrunk towards ``toward`` (by default the row) until it is admissible.
        """
        return place(self, x, x0, toward)[0]

    def place(self, x: Array, x0: Array) -> tuple[Array, Array]:
        """Return the points of :meth:`project`, and whether each is admissible, ``(n,)``.

        Some may not be if the row itself violates a constraint; each is checked once.
        """
        return place(self, x, x0, None)

    def move_each(self, start: Array, x: Array, x0: Array) -> Array:
        """Move admissible points ``start`` ``(n, d)`` towards ``x`` ``(n, d)`` for the row ``x0``, keeping them so.

        Where constraints do not let all features move together, each moves in turn as far as they allow, so that
        unconstrained features always move all the way.
        """
        return move_each(self, start, x, x0)

    def settle_each(self, x: Array, x0: Array) -> tuple[Array, Array]:
        """Return rows ``(n, d)`` with computed features recomputed, and whether each is admissible ``(n,)``.

        Each has its own row in ``x0`` ``(n, d)``, by whose limits it is judged; it is not moved to meet them.

        Examples
        --------
        >>> space = Space.infer([[0.0, 10.0], [2.0, 30.0]], bounds={"x1": (0, 2)}, increase=["x2"])
        >>> space.settle_each(np.array([[1.0, 12.0], [3.0, 30.0]]), np.array([[0.0, 10.0], [2.0, 30.0]]))[1].tolist()
        [True, False]
        """
        return settle_each(self, x, x0)

    def completed(self, x: Array, x0: Array) -> Array:
        """Return points ``(n, d)`` with computed features recomputed and values rounded to their columns' precision."""
        return complete(self, x, x0)

    def admissible(self, x: Array, x0: Array) -> Array:
        """Whether each of ``(n, d)`` satisfies the constraints and the bounds of computed features: ``(n,)``."""
        return is_admissible(self, x, x0)

    def values(self, name: str, x: Array) -> Array:
        """Return one feature of ``(n, d)`` decoded: numbers, or levels as objects."""
        j = self.position[name]
        feature = self.features[j]
        if not feature.leveled:
            return x[:, j]
        levels = np.array([*(feature.levels or ()), np.nan], dtype=object)
        return levels[level_positions(x[:, j])]

    # --- distances ------------------------------------------------------------------------------------------

    def embed(self, x: Array, which: Array | None = None) -> Places:
        """Embed rows ``(n, d)`` so that Euclidean distance is change in units of each feature's scale.

        With ``which``, positions ``(m,)``, only those features are embedded.
        """
        if which is None:
            return embed(self.features, x)
        return embed([self.features[j] for j in which], x[:, which])

    def nearest(self, point: Centre, x0: Array, which: Array) -> Array:
        """Return the admissible row ``(d,)`` nearest to an embedded point in the features ``which``.

        Applied to the mean of embedded draws this is their Fréchet mean: the row with the least expected squared
        distance.
        """
        low, high = self.limits(x0)
        chosen = [self.features[j] for j in which]
        x = x0.copy()
        x[which] = nearest(chosen, point, low[which], high[which], x0[which])
        return self.project(x[None, :], x0)[0]

    def distance(self, x: Array, x0: Array) -> Array:
        """Return the Euclidean distance ``(n,)`` of ``(n, d)`` to the row in units of each feature's scale."""
        return distances_to(self.features, x, x0)

    def change(self, x: Array, x0: Array, *, columns: slice = slice(None)) -> Array:
        """Return the size of each feature's change ``(n, d)`` in its own units; any change of a category counts one.

        Points and row may have only some ``columns``.
        """
        size = np.asarray(x - x0)
        np.abs(size, out=size)
        unordered, missing = self.all_limits.unordered[columns], np.isnan(size)
        size = np.where(unordered, size != 0, size) if unordered.any() else size
        if not missing.any():
            return size
        both = np.isnan(x) & np.isnan(x0)
        return np.where(both, 0.0, np.where(missing, np.where(unordered, 1.0, self.scale[columns]), size))

    def changed(self, x: Array, x0: Array, *, columns: slice = slice(None)) -> Array:
        """Whether each feature of ``(n, d)`` differs from the row's: ``(n, d)``; ``columns`` as in :meth:`change`."""
        here, there = np.broadcast_arrays(x, x0)
        differs, block = np.empty(here.shape, dtype=bool), max(MEMORY_CELLS // max(here.shape[1], 1), 1)
        for start in range(0, len(here), block):
            some = slice(start, start + block)
            differs[some] = self.change(here[some], there[some], columns=columns) > ROUNDING * self.scale[columns]
        return differs

    # --- encoding and decoding ------------------------------------------------------------------------------

    def encode(self, rows: Any, *, what: str = "rows") -> Array:
        """Encode the user's rows as float64 ``(n, d)``; columns of a frame are matched by name.

        Parameters
        ----------
        rows : DataFrame, Series, mapping, or array of shape (n, d) or (d,)
            One or more rows.
        what : str
            What to call them in an error.
        """
        return self._row_codec.encode(rows, what)

    def encode_row(self, row: Any) -> Array:
        """Encode exactly one row as ``(d,)`` and check its bounds and constraints."""
        x = self.encode(row, what="row")
        if len(x) != 1:
            raise ValueError(f"row must be a single row, but it has {len(x)}; pick one, e.g. frame.iloc[[0]]")
        self.require_inside(x[0], "row")
        return x[0]

    def require_inside(self, x: Array, what: str) -> None:
        """Require a row ``(d,)`` to lie within its bounds and to satisfy the constraints."""
        for problem in self.misfits(x[None, :]).itertuples(index=False):
            raise ValueError(f"{what}: {problem.problem}")

    def misfits(self, x: Array) -> pd.DataFrame:
        """List the problems of rows ``(n, d)``: one line per row and problem."""
        return misfits(self, x)

    def check(self, frame: Any) -> pd.DataFrame:
        """List the rows of a table that do not fit the space.

        Parameters
        ----------
        frame : DataFrame or array of shape (n, d)
            Rows to check.

        Returns
        -------
        DataFrame
            One line per problem: ``row``, ``feature`` (or the constraint) and ``problem``; empty if there are none. A
            column that cannot be read at all, such as one with an unseen level, is one line.

        Examples
        --------
        >>> space = Space.infer([[0.0, 10.0], [2.0, 30.0]], bounds={"x2": (0, None)})
        >>> space.check([[1.0, -5.0]])["problem"].tolist()
        ["'x2' = -5 lies below its bound 0. Correct the row or widen the bound: a bound holds for the row ..."]
        """
        return check_table(self, self._row_codec.match(frame, "frame"))

    def decode(self, x: Array) -> Any:
        """Decode ``(n, d)`` to the form the model was fitted on: a frame of its library with its dtypes, or an array.

        The result shares no memory with ``x``, so that it may be modified.
        """
        return self._row_codec.decode(x)

    def frame(self, x: Array) -> pd.DataFrame:
        """Decode ``(n, d)`` to a pandas frame; array columns get the features' names."""
        return self._row_codec.frame(x)

    def readable(self, x: Array) -> pd.DataFrame:
        """Decode ``(n, d)`` to a frame with one column per feature; a one-hot group shows its level."""
        columns: dict[str, Any] = {}
        for j, (feature, codec) in enumerate(zip(self.features, self.codecs, strict=True)):
            one_hot = isinstance(codec, OneHotCodec)
            columns[feature.name] = (
                self.values(feature.name, x) if one_hot else next(iter(codec.decode(x[:, j]).values()))
            )
        return pd.DataFrame(columns).astype(object)

    @cached_property
    def _row_codec(self) -> RowCodec:
        return RowCodec(self.features, self.columns, self.codecs, self.layout)


def _read_words(names: Sequence[str], what: str, given: Any) -> dict[str, Any]:
    """Return labels, units or digits by name; reject unknown names."""
    by_name = read_mapping(given, what)
    unknown = sorted(set(by_name) - set(names))
    if unknown:
        raise ValueError(f"{what} names {unknown}, which are no features; features are {list(names)}")
    return by_name


def _read_names(d_or_names: Any) -> list[str]:
    """Return the names of real features, given by number or by name."""
    if isinstance(d_or_names, (int, np.integer)) and not isinstance(d_or_names, bool):
        if d_or_names > _MOST_FEATURES:
            raise ValueError(
                f"Space.real: {d_or_names:,} features are too many; at the maximum of {_MOST_FEATURES:,} a batch of "
                "20,000 candidates already takes 16 GB"
            )
        return [f"x{j + 1}" for j in range(d_or_names)]
    if isinstance(d_or_names, str) or not isinstance(d_or_names, Iterable):
        raise ValueError(f"Space.real takes a number of features or a list of names, not {d_or_names!r}")
    return list(map(str, d_or_names))
