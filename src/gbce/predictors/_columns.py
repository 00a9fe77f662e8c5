"""Convert encoded rows to the columns a model was fitted on, and find out whether preprocessing acts column by column.

Boxes of rows stay boxes under columnwise preprocessing: scalers are increasing functions of one column, imputers keep
known values, encoders map levels. Unknown steps (projections, products of columns, user functions) do not count.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from gbce.base import Array
from gbce.space import Space, describe_difference

Rows = Callable[[Array], Any]
_INCREASING = ("StandardScaler", "MaxAbsScaler", "RobustScaler", "MinMaxScaler", "SimpleImputer", "MissingIndicator")
_LEVELS = ("OneHotEncoder", "OrdinalEncoder", "TargetEncoder")  # a value between two levels is not valid
_NONLINEAR = ("PowerTransformer", "QuantileTransformer", "KBinsDiscretizer", "Binarizer")
_FUNCTIONS = (
    *("log", "log1p", "log2", "log10", "exp", "expm1", "exp2", "sqrt", "cbrt"),
    *("arcsinh", "sinh", "tanh", "arctan", "negative", "positive"),
)
_KEEPING_POSITIONS = (
    *("StandardScaler", "MaxAbsScaler", "RobustScaler", "MinMaxScaler", "OrdinalEncoder"),
    *("PowerTransformer", "QuantileTransformer", "Binarizer", "FunctionTransformer"),
)

# --- column names and order ------------------------------------------------------------------------------------------


def made_by(model: Any, package: str, *names: str) -> bool:
    """Whether the model's class derives from one of ``package`` (with one of ``names``), which is not imported."""
    return any(
        cls.__module__.split(".")[0] == package and (not names or cls.__name__ in names) for cls in type(model).__mro__
    )


def fitted_columns(model: Any) -> list[str]:
    """Return the names of the columns that a model was fitted on, in order; empty if it did not record them."""
    for name in ("feature_names_in_", "feature_names_", "feature_names"):
        found = getattr(model, name, None)
        if isinstance(found, (list, tuple, np.ndarray)):
            return [str(label) for label in found]
    named = getattr(model, "feature_name", None)  # a booster of LightGBM
    return [str(label) for label in named()] if made_by(model, "lightgbm", "Booster") and named is not None else []


def in_order(wanted: Sequence[Any], space: Space, name: str, *, frame: bool = True, own: bool = True) -> Rows:
    """Return a function from encoded rows to the columns the model was fitted on, in its order.

    Rows of array data become a frame with the model's names if ``frame``. Frames are of the data's ``own`` library, or
    of pandas.
    """
    wanted = [str(label) for label in wanted]
    if space.columns is None:
        if len(wanted) != space.n_columns:
            raise ValueError(f"{name} was fitted on {len(wanted)} columns, but the data have {space.n_columns}")
        return (lambda x: pd.DataFrame(space.decode(x), columns=wanted)) if frame else space.decode
    decode: Rows = space.decode if own else space.frame
    have = list(map(str, space.columns))
    if wanted in (have, [label.replace(" ", "_") for label in have]):  # LightGBM replaces blanks in names
        return decode
    if sorted(wanted) != sorted(have):
        difference = describe_difference(wanted, have) or "has a duplicated column"
        raise ValueError(f"{name} was fitted on the columns {wanted}, but the data have {have}: the table {difference}")
    positions = [have.index(label) for label in wanted]
    return lambda x: _pick(decode(x), positions)


def _pick(table: Any, positions: Sequence[int]) -> Any:
    """Select columns of a frame by position."""
    if isinstance(table, pd.DataFrame):
        picked = table.iloc[:, list(positions)]
        if not (picked.dtypes == "float64").all():
            return picked
        # the memory layout of a table in this order: sums differ in their last bits by layout
        return pd.DataFrame(np.ascontiguousarray(picked.to_numpy()), columns=picked.columns)
    names = nw.from_native(table, eager_only=True).columns
    return table.select([names[j] for j in positions])


def as_numbers(space: Space, name: str) -> Callable[[Array], Array]:
    """Return a function from encoded rows to decoded rows as a float array ``(n, columns)``."""

    def rows(x: Array) -> Array:
        decoded = space.decode(x) if space.columns is None else space.frame(x)
        if isinstance(decoded, pd.DataFrame):
            other = [str(label) for label, dtype in decoded.dtypes.items() if not _is_numeric(dtype)]
            if other:
                raise TypeError(
                    f"{name} takes numbers only, but the columns {other} are not numeric: explain a function that "
                    "converts rows of the data to the model's numbers and calls it"
                )
            decoded = decoded.to_numpy(dtype=float, na_value=np.nan)
        return np.ascontiguousarray(decoded, dtype=float)  # sums differ in their last bits by layout

    return rows


def _is_numeric(dtype: Any) -> bool:
    if isinstance(dtype, pd.CategoricalDtype):
        dtype = dtype.categories.dtype
    return bool(pd.api.types.is_numeric_dtype(dtype))


def table_decoder(space: Space) -> Callable[[Array], pd.DataFrame]:
    """Return a function from encoded rows to a pandas frame, whatever library the data came from."""
    if space.columns is not None:
        return space.frame
    names = column_names(space)
    return lambda x: pd.DataFrame(space.decode(x), columns=names)


def column_names(space: Space) -> list[str]:
    """Return the column names of decoded rows; arrays take those of the features, or x1, x2, ..."""
    if space.columns is not None:
        return list(map(str, space.columns))
    width = space.n_columns
    return list(space.names) if len(space.names) == width else [f"x{j + 1}" for j in range(width)]


# --- columnwise preprocessing ----------------------------------------------------------------------------------------


class ColumnMap(NamedTuple):
    """Columns, by position, that fitted preprocessing encodes as levels or maps by a monotone function.

    The monotone functions of ``bent`` may have flat parts, a limited domain, or rounding that is uneven in the last
    digits.
    """

    levels: frozenset[int] = frozenset()
    bent: frozenset[int] = frozenset()

    def joined(self, other: "ColumnMap") -> "ColumnMap":
        """Return the union of two maps."""
        return ColumnMap(self.levels | other.levels, self.bent | other.bent)


def map_columns(step: Any, inputs: Sequence[int]) -> ColumnMap | None:
    """Return how a fitted step maps its ``inputs`` (columns by position); None if it is not columnwise."""
    if step is None or (isinstance(step, str) and step in ("passthrough", "drop")):
        return ColumnMap()
    name, module = type(step).__name__, type(step).__module__
    if not module.startswith("sklearn."):
        return None
    if name == "Pipeline":
        return map_in_turn([one for _, one in step.steps], inputs)
    if name == "ColumnTransformer":
        return _map_blocks(step, inputs)
    if name == "FeatureUnion":
        return _join_maps(map_columns(one, inputs) for _, one in step.transformer_list)
    return ColumnMap() if _selects(step) else _map_single_step(step, name, inputs)


def _map_single_step(step: Any, name: str, inputs: Sequence[int]) -> ColumnMap | None:
    """Map the columns of a step that neither contains other steps nor selects columns."""
    every = frozenset(inputs)
    if name in _LEVELS or (name == "KBinsDiscretizer" and step.encode != "ordinal"):
        return ColumnMap(levels=every)
    if name in _NONLINEAR or (name == "MinMaxScaler" and step.clip):
        return ColumnMap(bent=every)
    if name == "FunctionTransformer":  # a ColumnTransformer also fits one for "passthrough"
        return ColumnMap() if step.func is None else ColumnMap(bent=every) if _is_monotone(step) else None
    if name in ("SimpleImputer", "MissingIndicator") and not _is_missing_value(step.missing_values):
        return None  # a number that codes a missing value is not mapped like its neighbours
    return ColumnMap() if name in _INCREASING else None


def _selects(step: Any) -> bool:
    return type(step).__module__.startswith("sklearn.feature_selection.") and hasattr(step, "get_support")


def _is_monotone(step: Any) -> bool:
    known = any(step.func is getattr(np, name, None) for name in _FUNCTIONS)
    return known and not step.kw_args


def _is_missing_value(value: Any) -> bool:
    return value is None or value is pd.NA or (isinstance(value, float) and np.isnan(value))


def map_in_turn(steps: Sequence[Any], inputs: Sequence[int]) -> ColumnMap | None:
    """Map columns through consecutive steps; after one that creates other columns, positions are no longer known."""
    found, in_place = ColumnMap(), True
    for step in steps:
        own = map_columns(step, inputs)
        if own is None:
            return None
        if not in_place:
            every = frozenset(inputs)
            own = ColumnMap(every if own.levels else frozenset(), every if own.bent else frozenset())
        found = found.joined(own)
        in_place = in_place and _keeps_positions(step, len(inputs))
    return found


def _keeps_positions(step: Any, n_inputs: int) -> bool:
    """Whether each output column of a step comes from the input column at the same position."""
    if step is None or isinstance(step, str):
        return True
    if type(step).__name__ == "SimpleImputer":
        filled = np.asarray(step.statistics_, dtype=object)
        return not step.add_indicator and (step.keep_empty_features or not pd.isna(filled).any())
    return type(step).__name__ in _KEEPING_POSITIONS and getattr(step, "n_features_in_", n_inputs) == n_inputs


def _map_blocks(step: Any, inputs: Sequence[int]) -> ColumnMap | None:
    """Map the columns of a column transformer, block by block."""
    positions = getattr(step, "_transformer_to_input_indices", None)
    if positions is None:
        return None
    blocks = ((block, [inputs[i] for i in positions[name]]) for name, block, _ in step.transformers_)
    return _join_maps(map_columns(block, own) for block, own in blocks)


def _join_maps(parts: Iterable[ColumnMap | None]) -> ColumnMap | None:
    found = ColumnMap()
    for part in parts:
        if part is None:
            return None
        found = found.joined(part)
    return found
