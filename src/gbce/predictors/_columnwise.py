"""Whether what comes before a model treats every column by itself, so that boxes of rows stay boxes.

Scalers are rising functions of one number each, imputers leave known values as they are, encoders spell levels. What is
not known here (a projection, a product of columns, anybody's own function) is not said to be columnwise.
"""

from collections.abc import Sequence
from typing import Any

__all__ = ["stepwise_inputs"]

_RISING = ("StandardScaler", "MaxAbsScaler", "RobustScaler", "MinMaxScaler", "SimpleImputer")
_STEPWISE = ("OneHotEncoder", "OrdinalEncoder")  # a value between two levels is none: the levels must be few and known


def stepwise_inputs(step: Any, inputs: Sequence[int]) -> set[int] | None:
    """Return which ``inputs`` (columns by position) a fitted step encodes as levels; None if it is not columnwise.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, StandardScaler
    >>> stepwise_inputs(make_pipeline(StandardScaler()), [0, 1])
    set()
    >>> sorted(stepwise_inputs(OneHotEncoder(), [0, 1]))
    [0, 1]
    >>> stepwise_inputs(PolynomialFeatures(), [0, 1]) is None
    True
    """
    if step is None or (isinstance(step, str) and step in ("passthrough", "drop")):
        return set()
    name, module = type(step).__name__, type(step).__module__
    if not module.startswith("sklearn."):
        return None
    if name == "Pipeline":
        return _through_steps([one for _, one in step.steps], inputs)
    if name == "ColumnTransformer":
        return _of_blocks(step, inputs)
    if name in _STEPWISE:
        return set(inputs)
    if name == "FunctionTransformer":  # what a ColumnTransformer puts in the place of "passthrough"
        return set() if step.func is None else None
    if name in _RISING:
        return None if getattr(step, "clip", False) else set()
    return None


def _through_steps(steps: Sequence[Any], inputs: Sequence[int]) -> set[int] | None:
    """Return what several steps in a row encode; behind the first one it is not known which columns are which."""
    found: set[int] = set()
    for number, step in enumerate(steps):
        own = stepwise_inputs(step, inputs)
        if own is None:
            return None
        found |= own if number == 0 else set(inputs) if own else set()
    return found


def _of_blocks(step: Any, inputs: Sequence[int]) -> set[int] | None:
    """Return what the blocks of a column transformer encode."""
    positions = getattr(step, "_transformer_to_input_indices", None)
    if positions is None:
        return None
    found: set[int] = set()
    for name, block, _ in step.transformers_:
        own = stepwise_inputs(block, [inputs[i] for i in positions[name]])
        if own is None:
            return None
        found |= own
    return found
