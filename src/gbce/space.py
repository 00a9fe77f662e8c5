"""Features and the space they span: names, bounds, units, what may change and in which direction.

This is the only room that knows columns, frames, dtypes, bounds and units. Everywhere else a row is a
float64 vector ``x`` of shape ``(d,)`` and a batch is ``(n, d)``; :meth:`Space.encode` and :meth:`Space.decode`
go back and forth.
"""

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from gbce._checks import is_number
from gbce._rows import as_float_columns, as_table, holds
from gbce._units import units_of
from gbce._weights import Array

__all__ = ["Feature", "Space"]

Kind = Literal["real", "integer", "ordinal", "categorical"]
Direction = Literal["any", "increase", "decrease"]

_TOUCH = 1e-9  # relative slack for a row that sits on its bound up to rounding


@dataclass(frozen=True)
class Feature:
    """One column: its range, its unit of change, and whether and which way it may move.

    Parameters
    ----------
    name : str
        Column name.
    kind : {"real"}
        What values it takes. The names "integer", "ordinal" and "categorical" are reserved.
    low, high : float, optional
        Bounds that every draw respects. ``None`` means unbounded.
    levels : sequence, optional
        Reserved for ordinal and categorical features.
    scale : float
        How much change counts as one unit: priors, distances and noise are measured in it.
    mutable : bool
        Whether the feature may change at all.
    direction : {"any", "increase", "decrease"}
        Which way it may move from the row's value.

    Examples
    --------
    >>> Feature("income", low=0, scale=1000.0, direction="increase").low
    0.0
    """

    name: str
    kind: Kind = "real"
    low: float | None = None
    high: float | None = None
    levels: tuple[Any, ...] | None = None
    scale: float = 1.0
    mutable: bool = True
    direction: Direction = "any"

    def __post_init__(self) -> None:
        if self.kind != "real":
            known = ", ".join(map(repr, get_args(Kind)))
            if self.kind not in get_args(Kind):
                raise ValueError(f"feature {self.name!r}: kind must be one of {known}, not {self.kind!r}")
            raise ValueError(
                f"feature {self.name!r}: kind {self.kind!r} is not supported in this version, only 'real' is. "
                "Encode the column as a number before the model, or hold it fixed with mutable=False."
            )
        if self.direction not in get_args(Direction):
            raise ValueError(
                f"feature {self.name!r}: direction must be 'any', 'increase' or 'decrease', not {self.direction!r}"
            )
        for side in ("low", "high"):
            value = getattr(self, side)
            if value is not None:
                if not is_number(value) or math.isnan(value):
                    raise ValueError(f"feature {self.name!r}: {side} must be a number or None, not {value!r}")
                object.__setattr__(self, side, float(value))
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError(f"feature {self.name!r}: low = {self.low:g} is above high = {self.high:g}")
        if not is_number(self.scale) or not math.isfinite(self.scale) or self.scale <= 0:
            raise ValueError(
                f"feature {self.name!r}: scale must be a positive number, not {self.scale!r}. It is the amount "
                "of change that counts as one unit."
            )
        object.__setattr__(self, "scale", float(self.scale))
        if not isinstance(self.mutable, (bool, np.bool_)):
            raise ValueError(f"feature {self.name!r}: mutable must be True or False, not {self.mutable!r}")
        object.__setattr__(self, "mutable", bool(self.mutable))


@dataclass(frozen=True)
class Space:
    """The features of a table, in the model's column order.

    Build one with :meth:`infer` from data or :meth:`real` from a number of features; the constructor takes
    ready :class:`Feature` objects.

    Parameters
    ----------
    features : sequence of Feature
        In the order of the model's columns.
    columns : tuple, optional
        Column labels of the user's frame; ``None`` when rows are arrays.
    dtypes : tuple of str, optional
        One dtype per column, restored by :meth:`decode`.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"age": [30.0, 50.0], "income": [1.0, 3.0]}).astype({"income": "float32"})
    >>> space = Space.infer(frame, immutable=["age"])
    >>> space.encode(frame).shape
    (2, 2)
    >>> bool((space.decode(space.encode(frame)).dtypes == frame.dtypes).all())
    True
    """

    features: tuple[Feature, ...]
    columns: tuple[Any, ...] | None = None
    dtypes: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", tuple(self.features))
        if not self.features:
            raise ValueError("a space needs at least one feature")
        twice = sorted({name for name in self.names if self.names.count(name) > 1})
        if twice:
            raise ValueError(f"feature names must differ, but {', '.join(map(repr, twice))} occurs twice")
        if not self.dtypes:
            object.__setattr__(self, "dtypes", ("float64",) * len(self.features))

    # --- building -------------------------------------------------------------------------------------------

    @classmethod
    def infer(
        cls,
        data: Any,
        *,
        immutable: Iterable[str] = (),
        increase: Iterable[str] = (),
        decrease: Iterable[str] = (),
        bounds: Mapping[str, tuple[float | None, float | None]] | None = None,
        kinds: Mapping[str, Kind] | None = None,
        scale: str | Mapping[str, float] = "sd",
    ) -> "Space":
        """Read names, dtypes and units off a table.

        Parameters
        ----------
        data : DataFrame or array of shape (n, d)
            The rows the model was fitted on, without the outcome. Array columns are named x1, x2, ...
        immutable, increase, decrease : iterable of str
            Columns that may not change, only rise, only fall.
        bounds : mapping of str to (low, high)
            ``None`` leaves a side open.
        kinds : mapping of str to str
            Only "real" in this version.
        scale : {"sd", "mad", "raw"} or mapping of str to float
            The unit of change of each feature: its standard deviation, its median absolute deviation times
            1.4826, one, or given numbers (columns that the mapping leaves out take their standard deviation).

        Returns
        -------
        Space
            With one feature per column.

        Examples
        --------
        >>> space = Space.infer([[0.0, 10.0], [2.0, 30.0]], bounds={"x2": (0, None)}, increase=["x1"])
        >>> space.scale
        array([ 1., 10.])
        """
        table = as_table(data, "data")
        names = tuple(map(str, table.columns))
        known = set(names)
        bounds, kinds = _by_name(bounds or {}), _by_name(kinds or {})
        wishes = {"immutable": immutable, "increase": increase, "decrease": decrease}
        sets = {key: _names(key, value) for key, value in wishes.items()}
        scale = _by_name(scale) if isinstance(scale, Mapping) else scale
        scales = scale if isinstance(scale, Mapping) else {}
        for what, given in {**sets, "bounds": bounds, "kinds": kinds, "scale": scales}.items():
            unknown = sorted(set(given) - known)
            if unknown:
                raise ValueError(f"{what} names {unknown}, which the data do not have; columns are {list(names)}")
        both = sets["increase"] & sets["decrease"]
        if both:
            raise ValueError(f"{sorted(both)} cannot be both in increase and in decrease; use immutable instead")
        for name, pair in bounds.items():
            if np.asarray(pair, dtype=object).shape != (2,):
                raise ValueError(f"bounds of {name!r} must be (low, high), None for an open side, not {pair!r}")
        values = as_float_columns(table, "data")
        if len(values) < 2:
            raise ValueError(f"data must have at least two rows to read units from, not {len(values)}")
        units = units_of(values, names, scale, sets["immutable"])
        features = tuple(
            Feature(
                name,
                kind=kinds.get(name, "real"),
                low=bounds.get(name, (None, None))[0],
                high=bounds.get(name, (None, None))[1],
                scale=units[j],
                mutable=name not in sets["immutable"],
                direction="increase" if name in sets["increase"]
                else "decrease" if name in sets["decrease"] else "any",
            )
            for j, name in enumerate(names)
        )  # fmt: skip
        return cls(features)._shaped_like(data, table)

    @classmethod
    def real(cls, d_or_names: int | Sequence[str], *, scale: float | Sequence[float] = 1.0) -> "Space":
        """Real features in raw units, free to move anywhere: the setting of the paper.

        Examples
        --------
        >>> Space.real(2).names
        ('x1', 'x2')
        """
        if isinstance(d_or_names, str):
            raise ValueError(f"Space.real takes a number of features or a list of names, not {d_or_names!r}")
        names = [f"x{j + 1}" for j in range(d_or_names)] if isinstance(d_or_names, int) else list(d_or_names)
        scales = np.asarray(scale, dtype=float)
        if scales.shape not in ((), (len(names),)):
            raise ValueError(f"scale must be one number or {len(names)}, one per feature, not shape {scales.shape}")
        scales = np.broadcast_to(scales, (len(names),))
        return cls(tuple(Feature(name, scale=float(s)) for name, s in zip(names, scales, strict=True)))

    def adopt(self, data: Any) -> "Space":
        """Return this space with the layout (frame or array, dtypes) of ``data``, whose columns must match."""
        table = self._matched(as_table(data, "data", self.names), "data")
        if self.columns is not None and self.columns == tuple(table.columns):
            return self  # read off such a frame before, and said then what there was to say
        return self._shaped_like(data, table)

    def _shaped_like(self, data: Any, table: pd.DataFrame) -> "Space":
        if not isinstance(data, pd.DataFrame):
            return self
        dtypes, floated = [], []
        for feature, dtype in zip(self.features, table.dtypes, strict=True):
            if feature.mutable and dtype.kind != "f":
                floated.append(feature.name)
                dtypes.append("float64")
            else:
                dtypes.append(str(dtype))
        if floated:
            warnings.warn(
                f"columns {floated} do not hold floating-point numbers; they are explored as real numbers and "
                "come back as float64. Hold them fixed with immutable=[...] if that makes no sense.",
                UserWarning,
                stacklevel=3,
            )
        return replace(self, columns=tuple(table.columns), dtypes=tuple(dtypes))

    # --- plain facts ----------------------------------------------------------------------------------------

    @property
    def names(self) -> tuple[str, ...]:
        """Feature names, in column order."""
        return tuple(feature.name for feature in self.features)

    @property
    def scale(self) -> Array:
        """Unit of change of each feature, shape ``(d,)``."""
        return np.array([feature.scale for feature in self.features])

    def __len__(self) -> int:
        return len(self.features)

    def limits(self, x0: Array) -> tuple[Array, Array]:
        """Lowest and highest value each feature may take when the row is ``x0``: two arrays ``(d,)``.

        An immutable feature has both at the row's own value.
        """
        low = np.array([-math.inf if f.low is None else f.low for f in self.features])
        high = np.array([math.inf if f.high is None else f.high for f in self.features])
        fixed = np.array([not f.mutable for f in self.features])
        low = np.where([f.direction == "increase" for f in self.features], np.maximum(low, x0), low)
        high = np.where([f.direction == "decrease" for f in self.features], np.minimum(high, x0), high)
        # a row that rounding puts a hair outside its bound keeps its own value
        low, high = np.minimum(low, x0), np.maximum(high, x0)
        return np.where(fixed, x0, low), np.where(fixed, x0, high)

    def project(self, x: Array, x0: Array) -> Array:
        """Nearest admissible points to ``x`` of shape ``(n, d)`` when the row is ``x0``."""
        low, high = self.limits(x0)
        return np.clip(x, low, high)

    def distance(self, x: Array, x0: Array) -> Array:
        """Euclidean distance ``(n,)`` of ``(n, d)`` to the row in units of each feature's scale."""
        return np.linalg.norm((x - x0) / self.scale, axis=1)

    # --- rows in and out ------------------------------------------------------------------------------------

    def encode(self, rows: Any, *, what: str = "rows") -> Array:
        """Turn the user's rows into float64 ``(n, d)``; columns of a frame are matched by name.

        Parameters
        ----------
        rows : DataFrame, Series, mapping, or array of shape (n, d) or (d,)
            One or more rows.
        what : str
            What to call them in an error.
        """
        table = self._matched(as_table(rows, what, self.names), what)
        x = as_float_columns(table, what)
        for j, dtype in enumerate(self.dtypes):
            held = holds(x[:, j], dtype)
            if not held.all():
                raise ValueError(
                    f"{what}: {self.names[j]!r} = {x[~held, j][0]:g} does not fit its column of {dtype} in the data, "
                    "which would change it. Correct the value, or give the data that column as a float."
                )
        return x

    def encode_row(self, row: Any) -> Array:
        """Turn exactly one row into ``(d,)`` and check that it lies inside its bounds."""
        x = self.encode(row, what="row")
        if len(x) != 1:
            raise ValueError(f"row must be a single row, but it has {len(x)}; pick one, e.g. frame.iloc[[0]]")
        self.require_inside(x[0], "row")
        return x[0]

    def require_inside(self, x: Array, what: str) -> None:
        """Require a row ``(d,)`` to lie inside its bounds."""
        for feature, value in zip(self.features, x, strict=True):
            slack = _TOUCH * max(1.0, abs(value))
            for bound, side, outside in (
                (feature.low, "below", feature.low is not None and value < feature.low - slack),
                (feature.high, "above", feature.high is not None and value > feature.high + slack),
            ):
                if outside:
                    raise ValueError(
                        f"{what}: {feature.name!r} = {value:g} lies {side} its bound {bound:g}. Correct the row or "
                        "widen the bound: a bound holds for the row as well as for every draw."
                    )

    def decode(self, x: Array) -> Any:
        """Turn ``(n, d)`` into what the model was fitted on: a frame with its dtypes, or an array."""
        x = np.atleast_2d(np.asarray(x, dtype=float))
        if self.columns is None:
            return x
        if all(dtype == "float64" for dtype in self.dtypes):
            return pd.DataFrame(x, columns=list(self.columns))
        series = {
            label: pd.Series(x[:, j]).astype(dtype)
            for j, (label, dtype) in enumerate(zip(self.columns, self.dtypes, strict=True))
        }
        return pd.DataFrame(series, columns=list(self.columns))

    def frame(self, x: Array) -> pd.DataFrame:
        """Like :meth:`decode`, but always a frame: array columns get the features' names."""
        decoded = self.decode(x)
        return decoded if self.columns is not None else pd.DataFrame(decoded, columns=list(self.names))

    def _matched(self, table: pd.DataFrame, what: str) -> pd.DataFrame:
        have, want = [str(c) for c in table.columns], self.names
        missing = [name for name in want if name not in have]
        extra = [name for name in have if name not in want]
        if missing or extra:
            parts = ([f"lacks {missing}"] if missing else []) + ([f"has also {extra}"] if extra else [])
            advice = "Drop what the model was not fitted on." if not missing else "Names must match the data."
            raise ValueError(f"{what} {' and '.join(parts)}; the columns are {list(want)}. {advice}")
        if len(have) != len(want):
            raise ValueError(f"{what}: a column name occurs twice in {have}")
        table = table.set_axis(have, axis=1)[list(want)]
        return table if self.columns is None else table.set_axis(list(self.columns), axis=1)


def _names(what: str, value: Any) -> set[str]:
    if isinstance(value, str):
        return {value}
    if value is None or not isinstance(value, Iterable):
        raise TypeError(f"{what} must be a list of column names, not {value!r}")
    return set(map(str, value))  # a column 0 is the feature "0"


def _by_name(given: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(name): value for name, value in given.items()}
