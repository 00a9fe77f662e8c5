"""Whether what comes before a model treats every column by itself, so that boxes of rows stay boxes.

Scalers are rising functions of one number each, imputers leave known values as they are, encoders spell levels. What is
not known here (a projection, a product of columns, anybody's own function) is not said to be columnwise.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from gbce.base import Array
from gbce.space import Space, say_difference

__all__ = [
    "ColumnMap",
    "as_numbers",
    "column_names",
    "fitted_columns",
    "in_order",
    "made_by",
    "map_columns",
    "map_in_turn",
    "table_decoder",
]

# --- what every framework needs --------------------------------------------------------------------------------------

Rows = Callable[[Array], Any]


def made_by(model: Any, package: str, *names: str) -> bool:
    """Whether a class of ``package`` (of one of these names) is among the model's; the package is not imported."""
    return any(
        cls.__module__.split(".")[0] == package and (not names or cls.__name__ in names) for cls in type(model).__mro__
    )


def fitted_columns(model: Any) -> list[str]:
    """Return the names of the columns that a model was fitted on, in its order; none where it does not know them.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> fitted_columns(LinearRegression().fit(pd.DataFrame({"b": [0.0, 1.0], "a": [1.0, 3.0]}), [0.0, 1.0]))
    ['b', 'a']
    """
    for name in ("feature_names_in_", "feature_names_", "feature_names"):
        found = getattr(model, name, None)
        if isinstance(found, (list, tuple, np.ndarray)):
            return [str(label) for label in found]
    named = getattr(model, "feature_name", None)  # a booster of LightGBM
    return [str(label) for label in named()] if made_by(model, "lightgbm", "Booster") and named is not None else []


def in_order(wanted: Sequence[Any], space: Space, name: str, *, frame: bool = True, own: bool = True) -> Rows:
    """Return a function of float rows that gives the columns the model was fitted on, in its order.

    Data in an array get the model's names, unless it does without a ``frame``. Frames are of the data's ``own``
    library, or of pandas.
    """
    wanted = [str(label) for label in wanted]
    if space.columns is None:
        if len(wanted) != space.n_columns:
            raise ValueError(f"{name} was fitted on {len(wanted)} columns, the data have {space.n_columns}")
        return (lambda x: pd.DataFrame(space.decode(x), columns=wanted)) if frame else space.decode
    decode: Rows = space.decode if own else space.frame
    have = list(map(str, space.columns))
    if wanted in (have, [label.replace(" ", "_") for label in have]):  # LightGBM keeps its names without blanks
        return decode
    if sorted(wanted) != sorted(have):
        difference = say_difference(wanted, have) or "has a column twice"
        raise ValueError(f"{name} was fitted on the columns {wanted}, the data have {have}: the table {difference}")
    positions = [have.index(label) for label in wanted]
    return lambda x: _pick(decode(x), positions)


def _pick(table: Any, positions: Sequence[int]) -> Any:
    """Return columns of a frame by their positions."""
    if isinstance(table, pd.DataFrame):
        picked = table.iloc[:, list(positions)]
        if not (picked.dtypes == "float64").all():
            return picked
        # laid out as by a table that has this order itself: sums differ in their last bits by layout
        return pd.DataFrame(np.ascontiguousarray(picked.to_numpy()), columns=picked.columns)
    names = nw.from_native(table, eager_only=True).columns
    return table.select([names[j] for j in positions])


def as_numbers(space: Space, name: str) -> Callable[[Array], Array]:
    """Return a function of float rows that gives the decoded rows as a float array ``(n, columns)``."""

    def rows(x: Array) -> Array:
        decoded = space.decode(x) if space.columns is None else space.frame(x)
        if isinstance(decoded, pd.DataFrame):
            words = [str(label) for label, dtype in decoded.dtypes.items() if not _is_numeric(dtype)]
            if words:
                raise TypeError(
                    f"{name} takes numbers only, but the columns {words} hold something else: explain a function "
                    "that turns rows of the data into the model's numbers and asks it"
                )
            decoded = decoded.to_numpy(dtype=float, na_value=np.nan)
        return np.ascontiguousarray(decoded, dtype=float)  # sums differ in their last bits by layout

    return rows


def _is_numeric(dtype: Any) -> bool:
    if isinstance(dtype, pd.CategoricalDtype):
        dtype = dtype.categories.dtype
    return bool(pd.api.types.is_numeric_dtype(dtype))


def table_decoder(space: Space) -> Callable[[Array], pd.DataFrame]:
    """Return a function of float rows that gives a frame of pandas, whatever the data were."""
    if space.columns is not None:
        return space.frame
    names = column_names(space)
    return lambda x: pd.DataFrame(space.decode(x), columns=names)


def column_names(space: Space) -> list[str]:
    """Return the names of the columns of decoded rows; those of arrays are the features' or x1, x2, ..."""
    if space.columns is not None:
        return list(map(str, space.columns))
    width = space.n_columns
    return list(space.names) if len(space.names) == width else [f"x{j + 1}" for j in range(width)]


# --- whether what comes before a model treats every column by itself, so that boxes of rows stay boxes ---------------

_RISING = ("StandardScaler", "MaxAbsScaler", "RobustScaler", "MinMaxScaler", "SimpleImputer", "MissingIndicator")
_LEVELS = ("OneHotEncoder", "OrdinalEncoder", "TargetEncoder")  # a value between two levels is none
_BENT = ("PowerTransformer", "QuantileTransformer", "KBinsDiscretizer", "Binarizer")
_FUNCTIONS = (
    *("log", "log1p", "log2", "log10", "exp", "expm1", "exp2", "sqrt", "cbrt"),
    *("arcsinh", "sinh", "tanh", "arctan", "negative", "positive"),
)
_KEEPING = (
    *("StandardScaler", "MaxAbsScaler", "RobustScaler", "MinMaxScaler", "OrdinalEncoder"),
    *("PowerTransformer", "QuantileTransformer", "Binarizer", "FunctionTransformer"),
)


class ColumnMap(NamedTuple):
    """What becomes of columns, by position.

    Parameters
    ----------
    levels : frozenset of int
        Encoded as levels, which must be few and known.
    bent : frozenset of int
        Sent through functions that rise or fall all the way, but may be level for a while, end somewhere, or be rounded
        unevenly in the last digits.
    """

    levels: frozenset[int] = frozenset()
    bent: frozenset[int] = frozenset()

    def joined(self, other: "ColumnMap") -> "ColumnMap":
        """Return both together."""
        return ColumnMap(self.levels | other.levels, self.bent | other.bent)


def map_columns(step: Any, inputs: Sequence[int]) -> ColumnMap | None:
    """Return what a fitted step does to its ``inputs`` (columns by position); None if it is not columnwise.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, PolynomialFeatures, StandardScaler
    >>> map_columns(make_pipeline(StandardScaler()), [0, 1])
    Treated(levels=frozenset(), bent=frozenset())
    >>> sorted(map_columns(OneHotEncoder(), [0, 1]).levels)
    [0, 1]
    >>> sorted(map_columns(FunctionTransformer(np.log1p), [0, 1]).bent)
    [0, 1]
    >>> map_columns(PolynomialFeatures(), [0, 1]) is None
    True
    """
    if step is None or (isinstance(step, str) and step in ("passthrough", "drop")):
        return ColumnMap()
    name, module = type(step).__name__, type(step).__module__
    if not module.startswith("sklearn."):
        return None
    if name == "Pipeline":
        return map_in_turn([one for _, one in step.steps], inputs)
    if name == "ColumnTransformer":
        return _of_blocks(step, inputs)
    if name == "FeatureUnion":
        return _together(map_columns(one, inputs) for _, one in step.transformer_list)
    return ColumnMap() if _selects(step) else _alone(step, name, inputs)


def _alone(step: Any, name: str, inputs: Sequence[int]) -> ColumnMap | None:
    """Return what a step does that is neither made of others nor a choice of columns."""
    every = frozenset(inputs)
    if name in _LEVELS or (name == "KBinsDiscretizer" and step.encode != "ordinal"):
        return ColumnMap(levels=every)
    if name in _BENT or (name == "MinMaxScaler" and step.clip):
        return ColumnMap(bent=every)
    if name == "FunctionTransformer":  # also what a ColumnTransformer puts in the place of "passthrough"
        return ColumnMap() if step.func is None else ColumnMap(bent=every) if _is_monotone(step) else None
    if name in ("SimpleImputer", "MissingIndicator") and not _adds_missing_indicator(step.missing_values):
        return None  # a number that stands for a gap is not treated as its neighbours are
    return ColumnMap() if name in _RISING else None


def _selects(step: Any) -> bool:
    return type(step).__module__.startswith("sklearn.feature_selection.") and hasattr(step, "get_support")


def _is_monotone(step: Any) -> bool:
    known = any(step.func is getattr(np, name, None) for name in _FUNCTIONS)
    return known and not step.kw_args


def _adds_missing_indicator(value: Any) -> bool:
    return value is None or value is pd.NA or (isinstance(value, float) and np.isnan(value))


def map_in_turn(steps: Sequence[Any], inputs: Sequence[int]) -> ColumnMap | None:
    """Return what several steps in a row do; behind one that makes other columns it is not known which are which."""
    found, in_place = ColumnMap(), True
    for step in steps:
        own = map_columns(step, inputs)
        if own is None:
            return None
        if not in_place:
            every = frozenset(inputs)
            own = ColumnMap(every if own.levels else frozenset(), every if own.bent else frozenset())
        found = found.joined(own)
        in_place = in_place and _keeps_places(step, len(inputs))
    return found


def _keeps_places(step: Any, n_inputs: int) -> bool:
    """Whether a step makes as many columns as it gets, each of the one in its place."""
    if step is None or isinstance(step, str):
        return True
    if type(step).__name__ == "SimpleImputer":
        filled = np.asarray(step.statistics_, dtype=object)
        return not step.add_indicator and (step.keep_empty_features or not pd.isna(filled).any())
    return type(step).__name__ in _KEEPING and getattr(step, "n_features_in_", n_inputs) == n_inputs


def _of_blocks(step: Any, inputs: Sequence[int]) -> ColumnMap | None:
    """Return what the blocks of a column transformer do."""
    positions = getattr(step, "_transformer_to_input_indices", None)
    if positions is None:
        return None
    blocks = ((block, [inputs[i] for i in positions[name]]) for name, block, _ in step.transformers_)
    return _together(map_columns(block, own) for block, own in blocks)


def _together(parts: Iterable[ColumnMap | None]) -> ColumnMap | None:
    found = ColumnMap()
    for part in parts:
        if part is None:
            return None
        found = found.joined(part)
    return found
