"""An explained row as plain columns with declared dtypes: partitions of stores, and parts that engines pass around."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from gbce._validation import show
from gbce.base import Array, Outputs, Target
from gbce.batch._rows import find_unfit
from gbce.batch._table import RowFacts, describe_answer, describe_diagnostics, describe_failure
from gbce.explanation import Answer, Explanation, Share, Status
from gbce.metrics import Verdict
from gbce.space import Codec, Space
from gbce.targets import Change, Class, Numeric

ANSWER_PREFIX, ROW_PREFIX = "answer_", "row_"  # of the columns with the values to aim for, and of those of the row
_FROM_DIAGNOSTICS = {
    "status": "str", "sampling": "str", "ess": "float64", "pareto_k": "float64", "n_distinct": "int64",
    "log_evidence": "float64", "log_evidence_se": "float64", "n_model_calls": "int64", "n_model_rows": "int64",
    "sampling_note": "str", "posterior_note": "str", "notes": "str", "seed": "int64", "error": "str",
}  # fmt: skip
_FROM_ANSWER = {
    "kind": "str", "changes": "str", "n_changes": "int64", "cost": "float64", "output": "float64", "reached": "bool",
    "reliability": "float64", "reliability_low": "float64", "reliability_high": "float64", "survival": "float64",
    "sentence": "str",
}  # fmt: skip
# beside these, what letters state
_FROM_FACTS = {
    "now": "float64", "now_reached": "bool", "promised": "float64", "reliability_n": "int64",
    "reliability_exact": "bool", "survival_low": "float64", "survival_high": "float64", "survival_n": "int64",
}  # fmt: skip
_POSTERIOR = ("success_probability", "expected_loss", "expected_cost", "tail", "stability")
_FROM_POSTERIOR = {f"{name}{suffix}": "float64" for name in _POSTERIOR for suffix in ("", "_se")}
ANSWER_COLUMNS, DIAGNOSTIC_COLUMNS = tuple(_FROM_ANSWER), tuple(_FROM_DIAGNOSTICS)  # as in a table in memory
POSTERIOR_COLUMNS = tuple(_FROM_POSTERIOR)
_EMPTY: dict[str, Any] = {"str": "", "bool": False, "int64": 0, "float64": float("nan")}
_NULLABLE = {"b": "boolean", "i": "Int64", "u": "UInt64", "f": "Float64"}  # by the kind of a dtype with missing values

# --- the columns -----------------------------------------------------------------------------------------------------


def schema_of(space: Space) -> dict[str, str]:
    """Return the columns of an explained row and their dtypes: diagnostics, answer, posterior, values to aim for."""
    return _FROM_DIAGNOSTICS | _FROM_ANSWER | _FROM_FACTS | _FROM_POSTERIOR | _value_dtypes(space, ANSWER_PREFIX)


def stored_schema(space: Space) -> dict[str, str]:
    """Return the columns of a partition of a store: position, label, those of :func:`schema_of`, the row's values."""
    return {"position": "int64", "label": "str"} | schema_of(space) | _value_dtypes(space, ROW_PREFIX)


def _value_dtypes(space: Space, prefix: str) -> dict[str, str]:
    values = space.frame(np.zeros((0, len(space))))
    return {f"{prefix}{name}": _plain_dtype(dtype) for name, dtype in values.dtypes.items()}


def _plain_dtype(dtype: Any) -> str:
    """Return the name of a dtype that every engine has: strings for categories and mixed objects."""
    if (isinstance(dtype, np.dtype) and dtype.kind in "biufM") or str(dtype).startswith("datetime64"):
        return str(dtype)
    return _NULLABLE.get(getattr(dtype, "kind", ""), "str") if hasattr(dtype, "na_value") else "str"


def cast(frame: pd.DataFrame, columns: Mapping[str, str]) -> pd.DataFrame:
    """Return a frame with the columns and dtypes of a schema, whatever an engine made of them on the way.

    Parameters
    ----------
    frame : DataFrame of n rows
        Such as Ray's or Spark's, whose strings, integers and missing values have other dtypes.
    columns : mapping
        As from :func:`gbce.distributed.schema`.

    Returns
    -------
    DataFrame of n rows
        Equal to the last bit to what :func:`gbce.distributed.explain_partition` returned.

    Examples
    --------
    >>> cast(pd.DataFrame({"cost": [1], "kind": ["reliable"]}), {"kind": "str", "cost": "float64"}).dtypes["cost"]
    dtype('float64')
    """
    missing = [name for name in columns if name not in frame.columns]
    if missing:
        raise ValueError(f"the frame has no column {show(missing[0])}, which the schema declares")
    return pd.DataFrame({name: _cast_column(frame[name], dtype) for name, dtype in columns.items()}, index=frame.index)


def _cast_column(values: pd.Series, dtype: str) -> pd.Series:
    """Return a column with a dtype of a schema."""
    if dtype != "str":
        return values.astype(dtype)
    strings = [None if missing else str(one) for one, missing in zip(values, values.isna(), strict=True)]
    return pd.Series(strings, index=values.index, dtype=pd.Series([""]).dtype)


def empty_frame(columns: Mapping[str, str]) -> pd.DataFrame:
    """Return a frame without rows in the columns and dtypes of a schema."""
    return cast(pd.DataFrame({name: [] for name in columns}), columns)


# --- from explanations -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Line:
    """What the columns say of one row, and its encoded answer ``(d,)``; None if there is none."""

    values: dict[str, Any]
    answer: Array | None


def line_of(explanation: Explanation) -> Line:
    """Extract the plain values of an explanation, so that everything else can be freed."""
    answer, row = explanation.answer, explanation.row
    values = describe_diagnostics(explanation) | describe_answer(answer) | _describe_facts(answer)
    values |= {"now": float(row.outputs[0, 0]), "now_reached": bool(row.reached[0, 0])}
    if explanation.draws.info.draws_posterior:
        figures = explanation.distribution
        values |= {name: figures[name] for name in _FROM_POSTERIOR if name in figures}
    return Line(values, None if answer is None else answer.decision.x)


def _describe_facts(answer: Answer | None) -> dict[str, Any]:
    """Return what letters state of an answer, beside its line in ``table.answers``."""
    if answer is None:
        return {}
    found: dict[str, Any] = {"promised": float("nan") if answer.promised is None else answer.promised}
    if answer.reliability is not None:
        found |= {"reliability_n": answer.reliability.n, "reliability_exact": answer.reliability.exact}
    if answer.survival is not None:
        low, high, n = answer.survival.low, answer.survival.high, answer.survival.n
        found |= {"survival_low": low, "survival_high": high, "survival_n": n}
    return found


def line_of_failure(error: Exception | str, seed: int, n_calls: int = 0, n_rows: int = 0) -> Line:
    """Return the line of a row that could not be explained."""
    return Line(describe_failure(error, seed, n_calls, n_rows) | describe_answer(None), None)


def frame_of(lines: Sequence[Line], x0: Array, fits: Array, space: Space) -> pd.DataFrame:
    """Return lines as a frame in the columns of :func:`stored_schema`, without position and label.

    ``x0 (n, d)`` are the rows; where they do not fit the space, not ``fits (n,)``, the values of rows and answers are
    empty. A row without an answer has its own values in the columns of the answer.
    """
    columns = {name: dtype for name, dtype in stored_schema(space).items() if name not in ("position", "label")}
    plain = _FROM_DIAGNOSTICS | _FROM_ANSWER | _FROM_FACTS | _FROM_POSTERIOR
    held: dict[str, Any] = {
        name: [line.values.get(name, _EMPTY[dtype]) for line in lines] for name, dtype in plain.items()
    }
    aims = np.array([own if line.answer is None else line.answer for line, own in zip(lines, x0, strict=True)])
    for prefix, points in ((ANSWER_PREFIX, aims), (ROW_PREFIX, x0)):
        values = space.frame(points[fits])
        for name in values.columns:
            dtype = columns[f"{prefix}{name}"]
            held[f"{prefix}{name}"] = _fill_in(_cast_column(values[name], dtype), fits, dtype)
    return cast(pd.DataFrame(held), columns)


def _fill_in(values: pd.Series, fits: Array, dtype: str) -> pd.Series:
    """Return a column for all rows from that of the rows that fit."""
    if fits.all():
        return values.reset_index(drop=True)
    kind = "float64" if dtype.startswith("float") else "int64" if "int" in dtype else dtype
    whole = pd.Series([_EMPTY.get(kind)] * len(fits), dtype=object)
    whole[fits] = values.to_numpy(dtype=object)
    return _cast_column(whole, dtype)


def require_kept(space: Space, x: Array) -> None:
    """Raise if a store would return rows ``(n, d)`` otherwise: it has levels by their strings, and no nanoseconds."""
    for name, codec, column in zip(space.names, space.codecs, x.T, strict=True):
        levels = list(map(str, getattr(codec, "levels", None) or ()))
        twice = [level for level in levels if levels.count(level) > 1] if len(set(levels)) < len(levels) else []
        if twice:
            raise ValueError(
                f"a store cannot tell two levels {twice[0]!r} of column {name!r} apart: rename one of them"
            )
        if isinstance(codec, Codec) and codec.tick and (codec.decode(column)[codec.label].dt.nanosecond > 0).any():
            raise ValueError(f"a store has no nanoseconds: round column {name!r}, e.g. with .dt.floor('us')")


# --- back to encoded rows --------------------------------------------------------------------------------------------


def encode_lines(frame: pd.DataFrame, prefix: str, space: Space) -> Array:
    """Return the rows or the answers of stored lines as ``(n, d)``, NaN for failed rows that do not fit."""
    failed = np.flatnonzero((frame["status"] == Status.FAILED).to_numpy())
    plain = _restore_columns(frame, prefix, space)
    unfit = [i for i in failed if find_unfit(space, plain.iloc[[i]])]
    x = np.full((len(frame), len(space)), np.nan)
    fits = np.setdiff1d(np.arange(len(frame)), unfit)
    if len(fits):
        x[fits] = space.encode(plain.iloc[fits], what="stored rows")
    return x


def _restore_columns(frame: pd.DataFrame, prefix: str, space: Space) -> pd.DataFrame:
    """Return the values of rows or answers, by the ``prefix`` of their columns, as a table that the space encodes."""
    values = {}
    known = {str(label): codec for codec in space.codecs for label in codec.labels}
    for name in space.frame(np.zeros((0, len(space)))).columns:
        column = frame[f"{prefix}{name}"]
        levels = getattr(known[str(name)], "levels", None)
        if levels is not None and not pd.api.types.is_numeric_dtype(column.dtype):
            by_name = {str(level): level for level in levels}
            column = pd.Series([by_name.get(one, one) for one in column], index=column.index, dtype=object)
        values[name] = column
    return pd.DataFrame(values)


def facts_from(frame: pd.DataFrame, target: Target, model: str) -> list[RowFacts | None]:
    """Rebuild what letters state of each row; None without an answer, or for a target that is a function."""
    return [_facts_from(line, target, model) for line in frame.to_dict("records")]


def _facts_from(line: dict[str, Any], target: Target, model: str) -> RowFacts | None:
    if line["kind"] == "" or line["status"] == Status.FAILED:
        return None
    if isinstance(target, Change):
        target = target.bind(Outputs(np.array([line["now"]]), model=model))
    if not isinstance(target, (Class, Numeric)):
        return None
    return RowFacts(
        target, model, line["now"], line["now_reached"], line["output"], line["reached"],
        _share_from(line, "reliability"), _share_from(line, "survival"),
        None if np.isnan(line["promised"]) else line["promised"], line["sampling"] != str(Verdict.NOT_SAMPLED),
    )  # fmt: skip


def _share_from(line: dict[str, Any], name: str) -> Share | None:
    """Return a proportion with its interval; None if it was not computed."""
    if np.isnan(line[name]):
        return None
    low, high, n = (line[f"{name}_{end}"] for end in ("low", "high", "n"))
    return Share(line[name], low, high, n, bool(line.get(f"{name}_exact", False)))
