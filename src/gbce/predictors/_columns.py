"""What every framework needs: which one a model is from, and rows in the columns and the form that it takes."""

from collections.abc import Callable, Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from gbce.base import Array
from gbce.space import Space, say_difference

__all__ = ["as_numbers", "column_names", "fitted_columns", "in_order", "made_by", "table_decoder"]

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
