"""Explain tables in parts: one function from a part to a plain frame with a declared schema, and Dask's use of it.

A row's random numbers come from the seed and the row's own values, so the answers do not depend on how a table is cut
into parts, on the number of workers or on tasks that were run twice. Any engine that maps a function over frames can
call :func:`explain_partition`; docs/howto/clusters.md has Spark and Ray.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gbce._validation import show
from gbce.base import Rule, Target
from gbce.batch import ANSWER_PREFIX, Packed, cast, empty_frame, encode_rows, explain_part, schema_of
from gbce.explainer import Explainer

if TYPE_CHECKING:
    from dask.dataframe import DataFrame as DaskFrame

__all__ = ["ANSWER_PREFIX", "cast", "dask", "explain_partition", "pack", "schema"]

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
        By column: what ``table.diagnostics`` and ``table.answers`` say of a row, what letters state beside that, the
        main figures of its posterior, then ``answer_<column>`` for each column of the data. Columns of categories and
        of mixed objects are strings.

    Examples
    --------
    >>> import gbce
    >>> data = pd.DataFrame({"income": [1200.0, 3400.0, 2000.0], "job": ["clerk", "nurse", "clerk"]})
    >>> columns = schema(gbce.Explainer(lambda x: x["income"], data))
    >>> columns["reached"], columns["answer_income"], columns["answer_job"]
    ('bool', 'float64', 'str')
    """
    return schema_of(_unpack(explainer).space)


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
    if not isinstance(frame, pd.DataFrame):
        raise TypeError(f"frame must be a pandas DataFrame, not {type(frame).__name__}: convert the part first")
    if not len(frame):
        return empty_frame(schema(explainer)).set_axis(frame.index, axis=0)
    session, n = explainer._session.drawing(posterior), len(frame)
    seeds = [seed] * n if isinstance(seed, (int, np.integer)) else list(seed)
    if len(seeds) != n:
        raise ValueError(f"seed has {len(seeds)} seeds for {n} rows: give one for all of them, or one for each")
    group = encode_rows(explainer.space, frame)
    found = explain_part(session, group, target, rules, seeds, max_model_rows, total_time)
    return found.set_axis(frame.index, axis=0)


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
        _explain_shipped, shipped, target, options, meta=empty_frame(schema(explainer)), enforce_metadata=False
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
