"""Explain tables in parts: one function from a part to a plain frame with a declared schema, and Dask's use of it.

A row's random numbers come from the seed and the row's own values, so the answers do not depend on how a table is cut
into parts, on the number of workers or on tasks that were run twice. Any engine that maps a function over frames can
call :func:`explain_partition`; docs/howto/clusters.md has Spark and Ray.
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gbce._validation import show
from gbce.base import Rule, Target
from gbce.batch import Packed
from gbce.explainer import Explainer
from gbce.explanation import Status

if TYPE_CHECKING:
    from dask.dataframe import DataFrame as DaskFrame

__all__ = ["ANSWER_PREFIX", "cast", "dask", "explain_partition", "pack", "schema"]

ANSWER_PREFIX = "answer_"  # of the columns with the values to aim for
_FROM_ANSWERS = {
    "kind": "str", "reached": "bool", "n_changes": "int64", "cost": "float64", "output": "float64",
    "reliability": "float64", "reliability_low": "float64", "reliability_high": "float64", "survival": "float64",
    "changes": "str", "sentence": "str",
}  # fmt: skip
_FROM_DIAGNOSTICS = {"status": "str", "sampling": "str", "seed": "int64", "n_model_rows": "int64", "error": "str"}
_FROM_POSTERIOR = {"success_probability": "float64", "success_probability_se": "float64"}
_EMPTY: dict[str, Any] = {"str": "", "bool": False, "int64": 0, "float64": float("nan")}

Packable = Explainer | Packed[Explainer]


def pack(explainer: Explainer) -> Packed[Explainer]:
    """Pickle an explainer for other processes, each of which unpacks it once however many parts it explains.

    Parameters
    ----------
    explainer : Explainer
        With models of any kind; functions and classes of a notebook travel by value.

    Returns
    -------
    Packed
        Accepted wherever this module takes an explainer. It pickles to a few bytes more than the explainer.

    Examples
    --------
    >>> import gbce
    >>> data = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 2)), columns=["a", "b"])
    >>> packed = pack(gbce.Explainer(lambda x: x["a"] + x["b"], data))
    >>> packed.unpack() is packed.unpack()
    True
    """
    return Packed.of(explainer)


def schema(explainer: Packable) -> dict[str, str]:
    """Return the columns of :func:`explain_partition` and their dtypes, before any row is explained.

    Parameters
    ----------
    explainer : Explainer or Packed
        The explainer.

    Returns
    -------
    dict
        By column: what ``table.answers`` and ``table.diagnostics`` say of a row, then ``answer_<column>`` for each
        column of the data. Columns of categories and of mixed objects are strings.

    Examples
    --------
    >>> import gbce
    >>> data = pd.DataFrame({"income": [1200.0, 3400.0, 2000.0], "job": ["clerk", "nurse", "clerk"]})
    >>> columns = schema(gbce.Explainer(lambda x: x["income"], data))
    >>> columns["reached"], columns["answer_income"], columns["answer_job"]
    ('bool', 'float64', 'str')
    """
    space = _unpack(explainer).space
    values = space.frame(np.zeros((0, len(space))))
    dtypes = {f"{ANSWER_PREFIX}{name}": _plain_dtype(dtype) for name, dtype in values.dtypes.items()}
    return _FROM_DIAGNOSTICS | _FROM_ANSWERS | _FROM_POSTERIOR | dtypes


def explain_partition(
    explainer: Packable,
    frame: pd.DataFrame,
    target: Target | Any,
    *,
    seed: int | Sequence[int] = 0,
    rules: Sequence[Rule | str] | Rule | str | None = None,
    posterior: bool = False,
    max_model_rows: int | None = None,
    total_time: float | None = None,
) -> pd.DataFrame:
    """Explain the rows of one part of a table: a pure function for engines that map over parts.

    Parameters
    ----------
    explainer : Explainer or Packed
        Made once, on the whole data; :func:`pack` makes it travel cheaply.
    frame : DataFrame of n rows
        The part, in the columns of the data. Its index is kept.
    target, rules, max_model_rows, total_time
        As in :meth:`gbce.Explainer.explain_many`.
    seed : int, or sequence of n int
        One for all rows, which have their own random numbers all the same, or one for each.
    posterior : bool
        Whether to draw the posterior of each row, which adds its success probability; by default the answer alone.

    Returns
    -------
    DataFrame of n rows
        In the columns and dtypes of :func:`schema`. A row that could not be explained has the status ``"failed"``, its
        error, and its own values in the columns of the answer.

    Examples
    --------
    >>> import gbce
    >>> data = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 2)), columns=["a", "b"])
    >>> explainer = gbce.Explainer(lambda x: x["a"] + x["b"], data)
    >>> part = explain_partition(explainer, data.iloc[:3], gbce.AtLeast(2), seed=0)
    >>> part["reached"].tolist(), part.columns.tolist() == list(schema(explainer))
    ([True, True, True], True)
    """
    explainer = _unpack(explainer)
    columns = schema(explainer)
    if not isinstance(frame, pd.DataFrame):
        raise TypeError(f"frame must be a pandas DataFrame, not {type(frame).__name__}: convert the part first")
    if not len(frame):
        return _empty_frame(columns).set_axis(frame.index, axis=0)
    seeds = [seed] * len(frame) if isinstance(seed, (int, np.integer)) else list(seed)
    if len(seeds) != len(frame):
        raise ValueError(
            f"seed has {len(seeds)} seeds for {len(frame)} rows: give one for all of them, or one for each"
        )
    wrong = _find_unfit(explainer, frame)
    fits = [i for i in range(len(frame)) if i not in wrong]
    lines = [_describe_unfit(frame.iloc[i], columns, seeds[i], wrong[i]) for i in sorted(wrong)]
    if fits:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*rows could not be explained")  # their lines have the errors
            table = explainer.explain_many(
                frame.iloc[fits], target, rules=rules, seed=[seeds[i] for i in fits], progress=False,
                posterior=posterior, max_model_rows=max_model_rows, total_time=total_time,
            )  # fmt: skip
        lines.insert(0, _flatten(table, columns))
    whole = pd.concat(lines, ignore_index=True)
    order = np.argsort(np.array([*fits, *sorted(wrong)]))
    return whole.iloc[order].set_axis(frame.index, axis=0)


def cast(frame: pd.DataFrame, columns: Mapping[str, str]) -> pd.DataFrame:
    """Return a frame with the columns and dtypes of a schema, whatever an engine made of them on the way.

    Parameters
    ----------
    frame : DataFrame of n rows
        Such as Ray's or Spark's, whose strings, integers and missing values have other dtypes.
    columns : mapping
        As from :func:`schema`.

    Returns
    -------
    DataFrame of n rows
        Equal to the last bit to what :func:`explain_partition` returned.

    Examples
    --------
    >>> cast(pd.DataFrame({"cost": [1], "kind": ["reliable"]}), {"kind": "str", "cost": "float64"}).dtypes["cost"]
    dtype('float64')
    """
    missing = [name for name in columns if name not in frame.columns]
    if missing:
        raise ValueError(f"the frame has no column {show(missing[0])}, which the schema declares")
    return pd.DataFrame({name: _cast_column(frame[name], dtype) for name, dtype in columns.items()}, index=frame.index)


def dask(
    explainer: Explainer,
    frame: "DaskFrame",
    target: Target | Any,
    *,
    seed: int = 0,
    rules: Sequence[Rule | str] | Rule | str | None = None,
    posterior: bool = False,
    max_model_rows: int | None = None,
) -> "DaskFrame":
    """Explain every row of a Dask frame, lazily and part by part; needs the extra ``dask``.

    Parameters
    ----------
    explainer : Explainer
        Made once, on data in memory. Workers get it once each.
    frame : dask.dataframe.DataFrame
        The rows, in the columns of the data.
    target, seed, rules, posterior, max_model_rows
        As in :func:`explain_partition`.

    Returns
    -------
    dask.dataframe.DataFrame
        One line per row in the columns of :func:`schema`, as many parts as ``frame``. Write it with ``to_parquet``, or
        ``compute()`` it. A part whose worker dies is computed again, with the same result.

    Examples
    --------
    >>> import gbce
    >>> import dask.dataframe as dd  # doctest: +SKIP
    >>> gbce.distributed.dask(explainer, dd.read_parquet("rows"), "approved").to_parquet("answers")  # doctest: +SKIP
    """
    try:
        from dask.dataframe import DataFrame
        from dask.delayed import delayed
    except ImportError as error:
        raise ImportError("gbce.distributed.dask needs Dask: pip install 'gbce[dask]'") from error
    if not isinstance(frame, DataFrame):
        raise TypeError(f"frame must be a Dask DataFrame, not {type(frame).__name__}: dask.dataframe.from_pandas(rows)")
    packed = pack(explainer)
    options = {"seed": seed, "rules": rules, "posterior": posterior, "max_model_rows": max_model_rows}
    # one node of the graph, so that a worker fetches the explainer once and not with each of its parts
    shipped = delayed(packed, name=f"explainer-{packed.digest}", traverse=False)
    return frame.map_partitions(
        _explain_shipped, shipped, target, options, meta=_empty_frame(schema(explainer)), enforce_metadata=False
    )


def _explain_shipped(
    frame: pd.DataFrame, explainer: Packed[Explainer], target: Any, options: Mapping[str, Any]
) -> pd.DataFrame:
    return explain_partition(explainer, frame, target, **options)


def _unpack(explainer: Packable) -> Explainer:
    found = explainer.unpack() if isinstance(explainer, Packed) else explainer
    if not isinstance(found, Explainer):
        raise TypeError(f"explainer must be a gbce.Explainer, or one from gbce.distributed.pack, not {show(found)}")
    return found


def _plain_dtype(dtype: Any) -> str:
    """Return the name of a dtype that every engine has: strings for categories and mixed objects."""
    plain = isinstance(dtype, np.dtype) and dtype.kind in "biufM"
    return str(dtype) if plain or str(dtype).startswith("datetime64") else "str"


def _cast_column(values: pd.Series, dtype: str) -> pd.Series:
    """Return a column with a dtype of a schema."""
    if dtype != "str":
        return values.astype(dtype)
    strings = [None if missing else str(one) for one, missing in zip(values, values.isna(), strict=True)]
    return pd.Series(strings, index=values.index, dtype=pd.Series([""]).dtype)


def _empty_frame(columns: Mapping[str, str]) -> pd.DataFrame:
    return cast(pd.DataFrame({name: [] for name in columns}), columns)


def _flatten(table: Any, columns: Mapping[str, str]) -> pd.DataFrame:
    """Return one line per row of an ExplanationTable, in the columns of a schema."""
    known = table.require_encoded("a partition")
    values = known.space.frame(known.answers).add_prefix(ANSWER_PREFIX).set_axis(table.answers.index, axis=0)
    figures = table.distribution.reindex(columns=list(_FROM_POSTERIOR))
    unsampled = (table.diagnostics["sampling"] == "not sampled").to_numpy()
    figures = figures.mask(unsampled[:, None] & np.ones(figures.shape, dtype=bool))
    return cast(pd.concat([table.diagnostics, table.answers, figures, values], axis=1).reset_index(drop=True), columns)


def _find_unfit(explainer: Explainer, frame: pd.DataFrame) -> dict[int, str]:
    """Return the errors of rows that do not fit the table, by position."""
    try:
        encoded = explainer.space.encode(frame)
        for row in encoded:
            explainer.space.require_inside(row, "row")
    except (TypeError, ValueError):  # one at a time, to find which
        return {i: error for i in range(len(frame)) if (error := _error_of(explainer, frame.iloc[[i]]))}
    return {}


def _error_of(explainer: Explainer, row: pd.DataFrame) -> str:
    """Return why a row does not fit the table; empty if it does."""
    try:
        explainer.space.require_inside(explainer.space.encode(row)[0], "row")
    except (TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def _describe_unfit(row: pd.Series, columns: Mapping[str, str], seed: int, error: str) -> pd.DataFrame:
    """Return the line of a row that does not fit the table, which has no values to aim for."""
    line = {name: _EMPTY.get(dtype) for name, dtype in columns.items()}
    return cast(pd.DataFrame([line | {"status": str(Status.FAILED), "seed": seed, "error": error}]), columns)
