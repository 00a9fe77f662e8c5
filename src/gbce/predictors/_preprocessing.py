"""The steps before a model's last one, worked out once, so that rows become its matrix without a frame on the way.

Features of few values are looked up in tables that the steps themselves filled in; numbers go through the very same
arithmetic. Nothing is believed that did not give the steps' own bits.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from gbce.base import Array
from gbce.space import Space

__all__ = ["AffineStep", "CompiledPreprocessing", "as_matrix", "follow", "is_columnwise", "parts_of", "probe_rows"]

# --- what the steps before a model do to one column of numbers -------------------------------------------------------


class AffineStep(NamedTuple):
    """One thing that is done to a column: ``fill`` what is missing, or ``minus``, ``over``, ``times``, ``plus``."""

    what: str
    number: float


_SCALERS = ("StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler")
# Whatever else these do, a column of theirs rests on one column of what they are given.
_COLUMNWISE = (*_SCALERS, "SimpleImputer", "OneHotEncoder", "OrdinalEncoder", "TargetEncoder", "KBinsDiscretizer")


def is_columnwise(step: Any) -> bool:
    """Whether every column that a fitted step gives rests on a single column of what it takes.

    Examples
    --------
    >>> from sklearn.preprocessing import PolynomialFeatures, StandardScaler
    >>> is_columnwise(StandardScaler()), is_columnwise(PolynomialFeatures())
    (True, False)
    """
    if _skipped(step):
        return True
    name = _stock_name(step)
    if name == "ColumnTransformer":
        return not step.transformer_weights and all(is_columnwise(block) for _, block, _ in step.transformers_)
    if name == "Pipeline":
        return all(is_columnwise(one) for _, one in step.steps)
    return name in _COLUMNWISE or (name == "FunctionTransformer" and step.func is None)


def parts_of(step: Any) -> list[Any]:
    """Return a step and all steps within it."""
    if _skipped(step):
        return []
    name = _stock_name(step)
    inner: Sequence[Any] = ()
    if name == "ColumnTransformer":
        inner = [block for _, block, _ in step.transformers_]
    elif name == "Pipeline":
        inner = [one for _, one in step.steps]
    return [step, *(part for one in inner for part in parts_of(one))]


def follow(step: Any, position: int) -> list[tuple[int, tuple[AffineStep, ...]]] | None:
    """Return where a column of numbers ends up, and what is done to it on the way; None where that is not known.

    Parameters
    ----------
    step : transformer
        Fitted.
    position : int
        Of the column in what it takes.

    Returns
    -------
    list of (int, tuple of Work) or None
        One pair for each column that the step makes of it; none where it drops it.

    Examples
    --------
    >>> from sklearn.preprocessing import StandardScaler
    >>> follow(StandardScaler().fit([[0.0, 1.0], [2.0, 5.0]]), 1)
    [(1, (Work(what='minus', number=3.0), Work(what='over', number=2.0)))]
    """
    if _skipped(step):
        return [(position, ())]
    name = _stock_name(step)
    if name == "Pipeline":
        return _through([one for _, one in step.steps], position)
    if name == "ColumnTransformer":
        return _through_blocks(step, position)
    if name == "SimpleImputer":
        return _through_imputer(step, position)
    if name in _SCALERS:
        return None if getattr(step, "clip", False) else [(position, _scaled(step, name, position))]
    if name == "FunctionTransformer" and step.func is None:
        return [(position, ())]
    return None


def _skipped(step: Any) -> bool:
    return step is None or isinstance(step, str)  # "passthrough"; who drops columns sees to it above


def _stock_name(step: Any) -> str:
    """Return the name of a class of scikit-learn's own; nothing for any other, or where a method was put in."""
    own = type(step).__module__.startswith("sklearn.") and "transform" not in vars(step)
    return type(step).__name__ if own else ""


def _through(steps: Sequence[Any], position: int) -> list[tuple[int, tuple[AffineStep, ...]]] | None:
    ends: list[tuple[int, tuple[AffineStep, ...]]] = [(position, ())]
    for step in steps:
        later = []
        for at, done in ends:
            found = follow(step, at)
            if found is None:
                return None
            later += [(to, done + more) for to, more in found]
        ends = later
    return ends


def _through_blocks(step: Any, position: int) -> list[tuple[int, tuple[AffineStep, ...]]] | None:
    ends = []
    for name, block, _ in step.transformers_:
        inputs = list(step._transformer_to_input_indices[name])
        if position not in inputs or (isinstance(block, str) and block == "drop"):
            continue
        start = step.output_indices_[name].start
        for local in [i for i, one in enumerate(inputs) if one == position]:
            found = follow(block, local)
            if found is None:
                return None
            ends += [(start + to, done) for to, done in found]
    return ends


def _through_imputer(step: Any, position: int) -> list[tuple[int, tuple[AffineStep, ...]]] | None:
    missing = step.missing_values
    if step.add_indicator or not (isinstance(missing, float) and np.isnan(missing)):
        return None
    filled = np.asarray(step.statistics_, dtype=float)
    if np.isnan(filled).any():  # such a column may be dropped, and others move up
        return None
    return [(position, (AffineStep("fill", float(filled[position])),))]


def _scaled(step: Any, name: str, position: int) -> tuple[AffineStep, ...]:
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


# --- the steps before a model's last one, worked out once, so that rows become its matrix without a ------------------

_MOST_VALUES = 300  # of a feature that is looked up: whole numbers beyond are no levels; by hand
_MOST_CELLS = 2_000_000  # numbers in the rows that fill the tables: 16 MB; by hand
_N_PROBES = 200  # random rows on which the steps' own bits must come out; by hand


@dataclass(frozen=True, eq=False)
class _Table:
    """What the steps make of a feature of few values: one line per value from ``low`` up, the last one if missing."""

    feature: int
    low: float
    n_values: int
    takes_missing: bool
    columns: Array | slice
    lines: Array


@dataclass(frozen=True, eq=False)
class _Numbers:
    """Columns of numbers: where they come from, where they go, and what is done to them one after the other."""

    features: Array | slice
    columns: Array | slice
    stages: tuple[tuple[str, Array, Array | None], ...]
    whole: Array
    single: Array


@dataclass(frozen=True, eq=False)
class CompiledPreprocessing:
    """What comes before the last step, as tables and arithmetic.

    Parameters
    ----------
    base : array, shape (C,)
        Columns that nothing changes, and what is overwritten elsewhere.
    numbers : _Numbers
        Columns of numbers.
    tables : tuple of _Table
        Of features with few values.
    plain : bool
        Whether the steps give an array of floats, so that the matrix is what the last step would be given.
    sparse : bool
        Whether the steps give a sparse matrix.
    by_columns : bool
        Whether the steps lay the matrix out column by column: products differ in their last bits by layout.
    """

    base: Array
    numbers: _Numbers
    tables: tuple[_Table, ...]
    plain: bool
    sparse: bool
    by_columns: bool
    _seen: list[tuple[dict[str, Any], dict[str, Any]]] = field(repr=False)

    @classmethod
    def of(
        cls, steps: Sequence[Any], as_rows: Callable[[Array], Any], order: Array, space: Space
    ) -> "CompiledPreprocessing | None":
        """Work the steps out, or return None where that cannot be done.

        Parameters
        ----------
        steps : sequence of transformers
            Fitted, of scikit-learn.
        as_rows : callable
            Encoded rows ``(n, d)`` to what the steps make of them.
        order : array of int
            The feature of each column that the first step is given; -1 where a feature has several columns.
        space : Space
            How rows look.
        """
        try:
            made = cls._made(steps, as_rows, order, space)
            rows = probe_rows(space, _N_PROBES)
            said = None if made is None else made.matrix(rows)
            own = None if said is None else as_matrix(as_rows(rows))
            return made if said is not None and own is not None and _same(said, own) else None
        except Exception:  # what another library has inside is its own, and may change with any release
            return None

    @classmethod
    def _made(
        cls, steps: Sequence[Any], as_rows: Callable[[Array], Any], order: Array, space: Space
    ) -> "CompiledPreprocessing | None":
        if not all(map(is_columnwise, steps)):
            return None
        ways: dict[int, list[tuple[int, tuple[AffineStep, ...]]]] = {}
        values: dict[int, Array] = {}
        for j, (feature, codec) in enumerate(zip(space.features, space.codecs, strict=True)):
            few = _enumerate_values(feature, codec)
            if few is None or (getattr(codec, "levels", None) is None and j in order):
                found = _numbers_way(steps, codec, np.flatnonzero(order == j))
                if found is not None:
                    ways[j] = found
                    continue
            if few is None:
                return None
            values[j] = few
        rows = [probe_rows(space, 2)]  # a single one has no layout
        start = rows[0][:1]
        for j, few in values.items():
            part = np.repeat(start, len(few), axis=0)
            part[:, j] = few
            rows.append(part)
        if sum(map(len, rows)) * len(space) > _MOST_CELLS:
            return None
        given = as_rows(np.concatenate(rows))
        matrix = as_matrix(given)
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
        plain = isinstance(given, np.ndarray) and given.dtype == float
        seen = [(vars(part), dict(vars(part))) for step in steps for part in parts_of(step)]
        sparse, by_columns = hasattr(given, "toarray"), plain and not given.flags.c_contiguous
        return cls(matrix[0].copy(), _gathered(ways, space), tuple(tables), plain, sparse, by_columns, seen)

    @property
    def fresh(self) -> bool:
        """Whether the steps are still those that were worked out: none was fitted anew."""
        return all(
            len(now) == len(then) and all(now.get(name, now) is value for name, value in then.items())
            for now, then in self._seen
        )

    def matrix(self, x: Array) -> Array | None:
        """Return what the steps make of encoded rows ``(n, d)`` as floats ``(n, C)``, None for values not known."""
        codes = self._codes(x)
        if codes is None:
            return None
        made = np.empty((len(x), len(self.base)), order="F" if self.by_columns else "C")
        made[:] = self.base
        made[:, self.numbers.columns] = _worked(np.array(x[:, self.numbers.features]), self.numbers)
        for table, own in zip(self.tables, codes, strict=True):
            made[:, table.columns] = table.lines.take(own, axis=0)
        return made

    def _codes(self, x: Array) -> Array | None:
        """Return the lines of rows ``(n, d)`` in each of ``k`` tables, ``(k, n)``; None where a value has none."""
        values = x[:, self._tabled].T - self._lows
        gone = np.isnan(values)
        if gone.any():
            if gone[~self._take_missing].any():
                return None
            values = np.where(gone, self._n_values, values)
        codes = values.astype(np.intp)
        known = (codes == values) & (codes >= 0) & (codes < self._n_values + gone)
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


def as_matrix(rows: Any) -> Array:
    """Return rows as floats ``(n, C)``, in rows; refuse what is no number.

    Examples
    --------
    >>> as_matrix(pd.DataFrame({"a": [1, 2], "b": [0.5, 1.5]}))
    array([[1. , 0.5],
           [2. , 1.5]])
    """
    if hasattr(rows, "toarray"):
        rows = rows.toarray()
    if isinstance(rows, pd.DataFrame):
        if not all(pd.api.types.is_numeric_dtype(kind) for kind in rows.dtypes):
            raise TypeError("levels are no numbers")
        rows = rows.to_numpy(dtype=float, na_value=np.nan)
    return np.ascontiguousarray(rows, dtype=float)


def probe_rows(space: Space, n: int) -> Array:
    """Return random encoded rows ``(n, d)``, each value one that its feature can have, some of them missing."""
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
    """Return all values that a feature can have as encoded, NaN last; None if they are many."""
    if feature.levels is not None:
        values = np.arange(len(feature.levels), dtype=float)
    elif feature.discrete and feature.low is not None and feature.high is not None and not getattr(codec, "tick", 0):
        values = np.arange(np.ceil(feature.low), np.floor(feature.high) + 1.0)[: _MOST_VALUES + 1]
    else:
        return None
    if not 0 < len(values) <= _MOST_VALUES:
        return None
    return values if feature.missing is None else np.append(values, np.nan)


def _numbers_way(steps: Sequence[Any], codec: Any, positions: Array) -> list[tuple[int, tuple[AffineStep, ...]]] | None:
    """Return where a feature of numbers goes, and what is done to it; None if that is not known."""
    if getattr(codec, "tick", 0) or len(positions) != 1:
        return None
    ends: list[tuple[int, tuple[AffineStep, ...]]] = [(int(positions[0]), ())]
    for step in steps:
        later = []
        for at, done in ends:
            found = follow(step, at)
            if found is None:
                return None
            later += [(to, done + more) for to, more in found]
        ends = later
    return ends


def _gathered(ways: dict[int, list[tuple[int, tuple[AffineStep, ...]]]], space: Space) -> _Numbers:
    """Return the ways of all columns of numbers, side by side; where one is shorter, nothing is done to it."""
    flat = [(j, to, list(done)) for j, ends in ways.items() for to, done in ends]
    stages: list[tuple[str, Array, Array | None]] = []
    while any(done for _, _, done in flat):
        what = next(done[0].what for _, _, done in flat if done)
        at = np.array([bool(done) and done[0].what == what for _, _, done in flat])
        amounts = np.array([done.pop(0).number if taken else 0.0 for taken, (_, _, done) in zip(at, flat, strict=True)])
        stages.append((what, amounts[at], None if at.all() else np.flatnonzero(at)))
    dtypes = [str(space.codecs[j].dtype) for j, _, _ in flat]  # type: ignore[union-attr]
    whole = [j for j, kind in enumerate(dtypes) if kind.lower().startswith(("int", "uint"))]
    single = [j for j, kind in enumerate(dtypes) if kind.lower() == "float32"]
    return _Numbers(
        _as_index(np.array([j for j, _, _ in flat], dtype=np.intp)),
        _as_index(np.array([to for _, to, _ in flat], dtype=np.intp)),
        tuple(stages),
        np.array(whole, dtype=np.intp),
        np.array(single, dtype=np.intp),
    )


def _as_index(positions: Array) -> Array | slice:
    """Return positions as what picks their columns: those that lie side by side without being looked up one by one."""
    if len(positions) and np.array_equal(positions, np.arange(len(positions)) + positions[0]):
        return slice(int(positions[0]), int(positions[0]) + len(positions))
    return positions


def _worked(values: Array, numbers: _Numbers) -> Array:
    """Do to columns of numbers ``(n, k)`` what is done to them; they are written over."""
    if numbers.whole.size:
        values[:, numbers.whole] = np.trunc(values[:, numbers.whole])  # as a column of whole numbers does
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


_ARITHMETIC: dict[str, Any] = {"minus": np.subtract, "over": np.divide, "times": np.multiply, "plus": np.add}


def _same(a: Array, b: Array) -> bool:
    return a.shape == b.shape and np.array_equal(a, b, equal_nan=True)
