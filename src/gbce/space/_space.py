"""Define the space of admissible rows: features, constraints, distances, and encoding of rows.

Everywhere else a row is a float64 vector ``x`` of shape ``(d,)`` and a batch is ``(n, d)``: numbers as they are, levels
by their positions, times in their unit, NaN where a value is missing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from gbce.base import Array
from gbce.space._codecs import Codec, OneHotCodec, require_writable
from gbce.space._constraints import (
    Computed,
    Constraint,
    as_computed,
    as_constraints,
    forbid,
    read_transitions,
    require_consistent,
)
from gbce.space._feature import Feature, Kind
from gbce.space._format import Wording, readable_step
from gbce.space._frames import Layout
from gbce.space._infer import ColumnOptions, as_storable, codec_of, columns_of, read_mapping, require_words
from gbce.space._places import Measuring
from gbce.space._rows import as_table, has_labels, layout_of, repeated, require_distinct
from gbce.space._suggest import Assumptions, Suggestions, suggest
from gbce.space._table import as_text, check_table, constant_notes, misfits, protected_notes

# Features requested by number: more is a typo. By hand: a batch of 20,000 candidates takes 16 GB there.
_MOST_FEATURES = 100_000
_SHOWN = 30  # features in a repr


@dataclass(frozen=True, repr=False)
class Space(Wording, Measuring):
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
        the data, but a number that is never negative, or never positive, keeps its sign, a share stays between 0 and 1,
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
            transition: a row with the first level never gets the second. Times are related to times only, and their
            difference is counted in the steps that printing the space shows: ``"end - start <= 30"``.
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
        constraints = list(constraints) if isinstance(constraints, Iterator) else constraints  # it is read twice
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
            constraints=constraints,
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
        table = self.match(data, "data", self.names)
        codecs = tuple(
            replace(codec_of(table.iloc[:, j], feature.kind, feature.levels), levels=feature.levels)
            for j, feature in enumerate(self.features)
        )
        features, layout = tuple(map(as_storable, self.features, codecs)), layout_of(data, codecs)
        adopted = replace(self, features=features, columns=tuple(table.columns), codecs=codecs, layout=layout)
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

    # --- properties -----------------------------------------------------------------------------------------

    @cached_property
    def steps(self) -> Array:
        """The step in which a person would change each number, ``(d,)``; zero for levels, times and computed columns.

        Examples
        --------
        >>> Space.infer([[2437.18, 0.5], [4230.5, 0.93], [3100.25, 0.12]]).steps
        array([10.  ,  0.01])
        """
        return np.where(self.is_computed, 0.0, [readable_step(feature) for feature in self.features])

    @property
    def free_reals(self) -> bool:
        """Whether all features are unbounded and free to change, as in :meth:`real`."""
        return self.plain and all(
            feature.mutable and feature.direction == "any" and feature.low is None and feature.high is None
            for feature in self.features
        )

    def __repr__(self) -> str:
        lines = str(self).splitlines()
        if len(self) <= _SHOWN:
            return str(self)
        return "\n".join([*lines[: _SHOWN + 1], f"and {len(self) - _SHOWN} more features", *lines[len(self) + 1 :]])

    def __str__(self) -> str:
        notes = (*self.notes, *([] if self.assumed is None else [self.assumed.note()]))
        return as_text(self, [note for note in notes if note])

    # --- encoding and decoding ------------------------------------------------------------------------------

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
        return check_table(self, self.match(frame, "frame"))


def _read_words(names: Sequence[str], what: str, given: Any) -> dict[str, Any]:
    """Return labels, units or digits by name; reject unknown names."""
    by_name = read_mapping(given, what)
    unknown = sorted(set(by_name) - set(names))
    if unknown:
        raise ValueError(f"{what} names {unknown}, which are not features; the features are {list(names)}")
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
