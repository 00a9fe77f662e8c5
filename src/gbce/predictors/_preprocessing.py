"""Compile fitted scikit-learn preprocessing into lookup tables and column arithmetic that need no data frame.

Features with few values are looked up in tables that the steps themselves filled; numeric columns go through the same
arithmetic. The result is used only where it reproduces the output of the steps to the last bit.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from gbce.base import Array
from gbce.space import Space, list_values

_SCALERS = ("StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler")
# Steps each of whose output columns depends on one input column.
_COLUMNWISE = (*_SCALERS, "SimpleImputer", "OneHotEncoder", "OrdinalEncoder", "TargetEncoder", "KBinsDiscretizer")
_ARITHMETIC: dict[str, Any] = {"minus": np.subtract, "over": np.divide, "times": np.multiply, "plus": np.add}
_MOST_VALUES = 300  # of a feature that is looked up: integers with more values are not levels; by hand
_MOST_CELLS = 2_000_000  # numbers in the rows that fill the tables: 16 MB; by hand
_N_PROBES = 200  # random rows on which the output of the steps must be reproduced to the last bit; by hand

# --- one column through the steps ------------------------------------------------------------------------------------


class AffineStep(NamedTuple):
    """One operation on a column: ``fill`` missing values, or ``minus``, ``over``, ``times``, ``plus`` a number."""

    what: str
    number: float


Traces = list[tuple[int, tuple[AffineStep, ...]]]  # output columns of one input column, with the operations


def is_columnwise(step: Any) -> bool:
    """Whether every output column of a fitted step depends on a single input column."""
    if _is_skipped(step):
        return True
    name = _stock_name(step)
    if name == "ColumnTransformer":
        return not step.transformer_weights and all(is_columnwise(block) for _, block, _ in step.transformers_)
    if name == "Pipeline":
        return all(is_columnwise(one) for _, one in step.steps)
    return name in _COLUMNWISE or (name == "FunctionTransformer" and step.func is None)


def parts_of(step: Any) -> list[Any]:
    """Return a step and all steps nested in it."""
    if _is_skipped(step):
        return []
    name = _stock_name(step)
    inner: Sequence[Any] = ()
    if name == "ColumnTransformer":
        inner = [block for _, block, _ in step.transformers_]
    elif name == "Pipeline":
        inner = [one for _, one in step.steps]
    return [step, *(part for one in inner for part in parts_of(one))]


def trace_column(step: Any, position: int) -> Traces | None:
    """Trace a numeric column through a fitted step, to none if it is dropped; None if the step is not known."""
    if _is_skipped(step):
        return [(position, ())]
    name = _stock_name(step)
    if name == "Pipeline":
        return _trace_pipeline([one for _, one in step.steps], position)
    if name == "ColumnTransformer":
        return _trace_blocks(step, position)
    if name == "SimpleImputer":
        return _trace_imputer(step, position)
    if name in _SCALERS:
        return None if getattr(step, "clip", False) else [(position, _scaler_operations(step, name, position))]
    if name == "FunctionTransformer" and step.func is None:
        return [(position, ())]
    return None


def _is_skipped(step: Any) -> bool:
    return step is None or isinstance(step, str)  # "passthrough"; the caller handles "drop"


def _stock_name(step: Any) -> str:
    """Return the class name of an unmodified scikit-learn step, else an empty string."""
    own = type(step).__module__.startswith("sklearn.") and "transform" not in vars(step)
    return type(step).__name__ if own else ""


def _trace_pipeline(steps: Sequence[Any], position: int) -> Traces | None:
    ends: Traces = [(position, ())]
    for step in steps:
        later = []
        for at, done in ends:
            found = trace_column(step, at)
            if found is None:
                return None
            later += [(to, done + more) for to, more in found]
        ends = later
    return ends


def _trace_blocks(step: Any, position: int) -> Traces | None:
    ends = []
    for name, block, _ in step.transformers_:
        inputs = list(step._transformer_to_input_indices[name])
        if position not in inputs or (isinstance(block, str) and block == "drop"):
            continue
        start = step.output_indices_[name].start
        for local in [i for i, one in enumerate(inputs) if one == position]:
            found = trace_column(block, local)
            if found is None:
                return None
            ends += [(start + to, done) for to, done in found]
    return ends


def _trace_imputer(step: Any, position: int) -> Traces | None:
    missing = step.missing_values
    if step.add_indicator or not (isinstance(missing, float) and np.isnan(missing)):
        return None
    filled = np.asarray(step.statistics_, dtype=float)
    if np.isnan(filled).any():  # such a column may be dropped, and others move up
        return None
    return [(position, (AffineStep("fill", float(filled[position])),))]


def _scaler_operations(step: Any, name: str, position: int) -> tuple[AffineStep, ...]:
    def number(of: str) -> float:
        return float(getattr(step, of)[position])

    if name == "MinMaxScaler":
        return AffineStep("times", number("scale_")), AffineStep("plus", number("min_"))
    if name == "MaxAbsScaler":
        return (AffineStep("over", number("scale_")),)
    centre, by = ("with_mean", "mean_") if name == "StandardScaler" else ("with_centering", "center_")
    spread = "with_std" if name == "StandardScaler" else "with_scaling"
    done = [AffineStep("minus", number(by))] if getattr(step, centre) else []
    return (*done, *([AffineStep("over", number("scale_"))] if getattr(step, spread) else []))


# --- compiled preprocessing ------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Table:
    """Output columns for each value of a feature with few values: one line per value from ``low``, missing last."""

    feature: int
    low: float
    n_values: int
    takes_missing: bool
    columns: Array | slice
    lines: Array


@dataclass(frozen=True, eq=False)
class _Numbers:
    """Numeric columns: input features, output columns, and the operations on them in order."""

    features: Array | slice
    columns: Array | slice
    stages: tuple[tuple[str, Array, Array | None], ...]
    integer: Array
    single: Array


@dataclass(frozen=True, eq=False)
class CompiledPreprocessing:
    """Lookup tables and column arithmetic equivalent to fitted scikit-learn preprocessing."""

    base: Array  # constant columns (C,); the others are overwritten
    numbers: _Numbers
    tables: tuple[_Table, ...]  # of features with few values
    plain: bool  # whether the steps return an array of floats, so that the matrix is the input of the last step
    sparse: bool  # whether the steps return a sparse matrix
    by_columns: bool  # whether they return a matrix in column order: products differ in their last bits by layout
    _seen: list[tuple[dict[str, Any], dict[str, Any]]] = field(repr=False)

    @classmethod
    def of(
        cls, steps: Sequence[Any], as_rows: Callable[[Array], Any], order: Array, space: Space
    ) -> "CompiledPreprocessing | None":
        """Compile fitted steps, or return None where that is not possible.

        ``as_rows`` maps encoded rows ``(n, d)`` to the output of the steps; ``order`` has the feature of each input
        column of the first step, -1 where a feature has several columns.
        """
        try:
            compiled = cls._compile(steps, as_rows, order, space)
            rows = probe_rows(space, _N_PROBES)
            matrix = None if compiled is None else compiled.matrix(rows)
            own = None if matrix is None else as_matrix(as_rows(rows))
            return compiled if matrix is not None and own is not None and _same(matrix, own) else None
        except Exception:  # private parts of another library may change with any release
            return None

    @classmethod
    def _compile(
        cls, steps: Sequence[Any], as_rows: Callable[[Array], Any], order: Array, space: Space
    ) -> "CompiledPreprocessing | None":
        if not all(map(is_columnwise, steps)):
            return None
        traces: dict[int, Traces] = {}
        values: dict[int, Array] = {}
        for j, (feature, codec) in enumerate(zip(space.features, space.codecs, strict=True)):
            few = _enumerate_values(feature, codec)
            if few is None or (getattr(codec, "levels", None) is None and j in order):
                found = _trace_feature(steps, codec, np.flatnonzero(order == j))
                if found is not None:
                    traces[j] = found
                    continue
            if few is None:
                return None
            values[j] = few
        rows = [probe_rows(space, 2)]  # a single row has no layout
        start = rows[0][:1]
        for j, few in values.items():
            part = np.repeat(start, len(few), axis=0)
            part[:, j] = few
            rows.append(part)
        if sum(map(len, rows)) * len(space) > _MOST_CELLS:
            return None
        output = as_rows(np.concatenate(rows))
        matrix = as_matrix(output)
        if matrix.size > _MOST_CELLS:
            return None
        tables, at = [], len(rows[0])
        for j, few in values.items():
            lines = matrix[at : at + len(few)]
            at += len(few)
            differ = np.flatnonzero(~((lines == lines[:1]) | (np.isnan(lines) & np.isnan(lines[:1]))).all(axis=0))
            known = int((~np.isnan(few)).sum())
            lines = np.ascontiguousarray(lines[:, differ])
            tables.append(_Table(j, float(few[0]), known, known < len(few), _as_index(differ), lines))
        plain = isinstance(output, np.ndarray) and output.dtype == float
        seen = [(vars(part), dict(vars(part))) for step in steps for part in parts_of(step)]
        sparse, by_columns = hasattr(output, "toarray"), plain and not output.flags.c_contiguous
        return cls(matrix[0].copy(), _gather_numbers(traces, space), tuple(tables), plain, sparse, by_columns, seen)

    @property
    def fresh(self) -> bool:
        """Whether the steps are unchanged since they were compiled: none was refitted."""
        return all(
            len(now) == len(then) and all(now.get(name, now) is value for name, value in then.items())
            for now, then in self._seen
        )

    def matrix(self, x: Array) -> Array | None:
        """Return the output of the steps for encoded rows ``(n, d)`` as floats ``(n, C)``; None for unknown values."""
        codes = self._codes(x)
        if codes is None:
            return None
        output = np.empty((len(x), len(self.base)), order="F" if self.by_columns else "C")
        output[:] = self.base
        output[:, self.numbers.columns] = _apply_operations(np.array(x[:, self.numbers.features]), self.numbers)
        for table, own in zip(self.tables, codes, strict=True):
            output[:, table.columns] = table.lines.take(own, axis=0)
        return output

    def _codes(self, x: Array) -> Array | None:
        """Return the lines of rows ``(n, d)`` in each of ``k`` tables, ``(k, n)``; None for an unknown value."""
        values = x[:, self._tabled].T - self._lows
        missing = np.isnan(values)
        if missing.any():
            if missing[~self._take_missing].any():
                return None
            values = np.where(missing, self._n_values, values)
        codes = values.astype(np.intp)
        known = (codes == values) & (codes >= 0) & (codes < self._n_values + missing)
        return codes if known.all() else None

    @cached_property
    def _tabled(self) -> Array:
        return np.array([table.feature for table in self.tables], dtype=np.intp)

    @cached_property
    def _lows(self) -> Array:
        return np.array([table.low for table in self.tables]).reshape(-1, 1)

    @cached_property
    def _n_values(self) -> Array:
        return np.array([table.n_values for table in self.tables], dtype=np.intp).reshape(-1, 1)

    @cached_property
    def _take_missing(self) -> Array:
        return np.array([table.takes_missing for table in self.tables], dtype=bool)


@dataclass(frozen=True, eq=False)
class OwnPreprocessing:
    """Preprocessing that is not compiled: the output of the steps themselves as a matrix."""

    as_rows: Callable[[Array], Any]  # encoded rows (n, d) to the output of the steps
    plain: bool  # as in CompiledPreprocessing
    sparse: bool

    fresh = True

    @classmethod
    def of(cls, as_rows: Callable[[Array], Any], space: Space) -> "OwnPreprocessing":
        """Find out what the steps return."""
        output = as_rows(probe_rows(space, 2))
        return cls(as_rows, isinstance(output, np.ndarray) and output.dtype == float, hasattr(output, "toarray"))

    def matrix(self, x: Array) -> Array:
        """Return the output of the steps for encoded rows ``(n, d)`` as floats ``(n, C)``."""
        return as_matrix(self.as_rows(x))


def as_matrix(rows: Any) -> Array:
    """Return rows as a float array ``(n, C)`` in row order; raise TypeError for columns that are not numeric."""
    if hasattr(rows, "toarray"):
        rows = rows.toarray()
    if isinstance(rows, pd.DataFrame):
        if not all(pd.api.types.is_numeric_dtype(kind) for kind in rows.dtypes):
            raise TypeError("levels are not numbers")
        rows = rows.to_numpy(dtype=float, na_value=np.nan)
    return np.ascontiguousarray(rows, dtype=float)


def probe_rows(space: Space, n: int) -> Array:
    """Draw random encoded rows ``(n, d)`` of admissible values, some of them missing where a feature allows it."""
    rng = np.random.default_rng(0)
    rows = np.empty((n, len(space)))
    for j, (feature, codec) in enumerate(zip(space.features, space.codecs, strict=True)):
        few = _enumerate_values(feature, codec)
        if few is not None:
            rows[:, j] = rng.choice(few, n)
            continue
        low = feature.low if feature.low is not None else (feature.high or 0.0) - 4.0 * feature.scale
        high = feature.high if feature.high is not None else low + 8.0 * feature.scale
        drawn = rng.uniform(low, high, n)
        drawn = np.clip(np.round(drawn), np.ceil(low), np.floor(high)) if feature.discrete else drawn
        rows[:, j] = drawn if feature.missing is None else np.where(rng.random(n) < 0.1, np.nan, drawn)
    return rows


def _enumerate_values(feature: Any, codec: Any) -> Array | None:
    """Return all encoded values of a feature, NaN last; None if there are many."""
    if feature.levels is not None:
        values = list_values(feature, 0.0, len(feature.levels) - 1.0, _MOST_VALUES)
    elif feature.low is not None and feature.high is not None and not getattr(codec, "tick", 0):
        values = list_values(feature, np.ceil(feature.low), np.floor(feature.high), _MOST_VALUES)
    else:
        return None
    return values if values is None or feature.missing is None else np.append(values, np.nan)


def _trace_feature(steps: Sequence[Any], codec: Any, positions: Array) -> Traces | None:
    """Trace a numeric feature through all steps; None if that is not possible."""
    if getattr(codec, "tick", 0) or len(positions) != 1:
        return None
    return _trace_pipeline(steps, int(positions[0]))


def _gather_numbers(traces: dict[int, Traces], space: Space) -> _Numbers:
    """Combine the traces of all numeric columns into stages of one operation on several columns each."""
    flat = [(j, to, list(done)) for j, ends in traces.items() for to, done in ends]
    stages: list[tuple[str, Array, Array | None]] = []
    while any(done for _, _, done in flat):
        what = next(done[0].what for _, _, done in flat if done)
        at = np.array([bool(done) and done[0].what == what for _, _, done in flat])
        amounts = np.array([done.pop(0).number if taken else 0.0 for taken, (_, _, done) in zip(at, flat, strict=True)])
        stages.append((what, amounts[at], None if at.all() else np.flatnonzero(at)))
    dtypes = [str(space.codecs[j].dtype) for j, _, _ in flat]  # type: ignore[union-attr]
    integer = [j for j, kind in enumerate(dtypes) if kind.lower().startswith(("int", "uint"))]
    single = [j for j, kind in enumerate(dtypes) if kind.lower() == "float32"]
    return _Numbers(
        _as_index(np.array([j for j, _, _ in flat], dtype=np.intp)),
        _as_index(np.array([to for _, to, _ in flat], dtype=np.intp)),
        tuple(stages),
        np.array(integer, dtype=np.intp),
        np.array(single, dtype=np.intp),
    )


def _as_index(positions: Array) -> Array | slice:
    """Return positions as a slice if they are consecutive, which is faster to index with."""
    if len(positions) and np.array_equal(positions, np.arange(len(positions)) + positions[0]):
        return slice(int(positions[0]), int(positions[0]) + len(positions))
    return positions


def _apply_operations(values: Array, numbers: _Numbers) -> Array:
    """Apply the operations to numeric columns ``(n, k)`` in place."""
    if numbers.integer.size:
        values[:, numbers.integer] = np.trunc(values[:, numbers.integer])  # as an integer column does
    if numbers.single.size:
        values[:, numbers.single] = values[:, numbers.single].astype(np.float32)
    for what, amounts, at in numbers.stages:
        part = values if at is None else values[:, at]
        if what == "fill":
            np.copyto(part, amounts, where=np.isnan(part))
        else:
            _ARITHMETIC[what](part, amounts, out=part)
        if at is not None:
            values[:, at] = part
    return values


def _same(a: Array, b: Array) -> bool:
    return a.shape == b.shape and np.array_equal(a, b, equal_nan=True)
