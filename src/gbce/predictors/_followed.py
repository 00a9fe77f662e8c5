"""What the steps before a model do to one column of numbers: the very same arithmetic, without their checks.

Only scikit-learn's own classes are read; somebody's subclass, or a step with a method of its own put in, is not.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Work", "follow", "is_columnwise", "parts_of"]


class Work(NamedTuple):
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


def follow(step: Any, position: int) -> list[tuple[int, tuple[Work, ...]]] | None:
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


def _through(steps: Sequence[Any], position: int) -> list[tuple[int, tuple[Work, ...]]] | None:
    ends: list[tuple[int, tuple[Work, ...]]] = [(position, ())]
    for step in steps:
        later = []
        for at, done in ends:
            found = follow(step, at)
            if found is None:
                return None
            later += [(to, done + more) for to, more in found]
        ends = later
    return ends


def _through_blocks(step: Any, position: int) -> list[tuple[int, tuple[Work, ...]]] | None:
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


def _through_imputer(step: Any, position: int) -> list[tuple[int, tuple[Work, ...]]] | None:
    missing = step.missing_values
    if step.add_indicator or not (isinstance(missing, float) and np.isnan(missing)):
        return None
    filled = np.asarray(step.statistics_, dtype=float)
    if np.isnan(filled).any():  # such a column may be dropped, and others move up
        return None
    return [(position, (Work("fill", float(filled[position])),))]


def _scaled(step: Any, name: str, position: int) -> tuple[Work, ...]:
    def number(of: str) -> float:
        return float(getattr(step, of)[position])

    if name == "MinMaxScaler":
        return Work("times", number("scale_")), Work("plus", number("min_"))
    if name == "MaxAbsScaler":
        return (Work("over", number("scale_")),)
    centre, by = ("with_mean", "mean_") if name == "StandardScaler" else ("with_centering", "center_")
    spread = "with_std" if name == "StandardScaler" else "with_scaling"
    done = [Work("minus", number(by))] if getattr(step, centre) else []
    return (*done, *([Work("over", number("scale_"))] if getattr(step, spread) else []))
