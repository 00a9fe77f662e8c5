"""ONNX Runtime sessions: rows as the tensors of their inputs, their outputs as numbers or probabilities."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from gbce.base import Array
from gbce.predictors._columns import as_numbers, column_names, table_decoder
from gbce.predictors._predictor import Predictor
from gbce.space import Space

__all__ = ["from_onnx"]

_DTYPES = {
    "float": "float32", "double": "float64", "float16": "float16", "bool": "bool", "string": "object",
    **{kind: kind for kind in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")},
}  # fmt: skip
Feed = Callable[[Array], dict[str, Array]]


def from_onnx(session: Any, space: Space, name: str, classes: tuple[Any, ...] | None = None) -> Predictor:
    """Wrap an ``onnxruntime.InferenceSession``.

    It takes one tensor of all columns, or one input per column, by name. One output is a number or a row of numbers
    per row, and does not say whether it classifies. A label and probabilities, as converted classifiers return them,
    make a classifier: with a dictionary per row (ZipMap) the session knows its classes, with a tensor of probabilities
    whole-number labels are taken to count from zero, and words must be named by :func:`gbce.classifier`.
    """
    feed = _feed(session, space, name)
    outputs = session.get_outputs()
    if len(outputs) == 1:
        return Predictor(name, lambda x: session.run(None, feed(x))[0], plain=True)
    label, *rest = outputs
    if label.type not in ("tensor(int64)", "tensor(string)") or len(rest) != 1:
        listed = [f"{out.name}: {out.type}" for out in outputs]
        raise TypeError(
            f"{name} returns {listed}, where one output, or a label and its probabilities, can be read: explain a "
            "function of rows that runs the session and returns probabilities or numbers"
        )
    if rest[0].type.startswith("seq(map("):
        return _from_zipmap(session, feed, space, name)
    whole = label.type == "tensor(int64)"
    ask = rest[0].name
    if classes is None:
        classes = _count_classes(label, rest[0], name)
    elif whole != all(isinstance(one, int) for one in classes):  # other names for them
        return Predictor(name, lambda x: session.run([ask], feed(x))[0], classes=classes)
    known = set(classes)

    def decide(x: Array) -> Any:
        labels = session.run([label.name], feed(x))[0]
        strange = sorted(set(labels.tolist()) - known)
        if strange:
            raise ValueError(
                f"the session gave the label {strange[0]!r}, which is not among {list(classes)}: name its classes, in "
                "the order of its probabilities, by gbce.classifier(session, classes=[...])"
            )
        return labels

    return Predictor(name, lambda x: session.run([ask], feed(x))[0], classes=classes, decide=decide)


def _count_classes(label: Any, probabilities: Any, name: str) -> tuple[int, ...]:
    width = probabilities.shape[-1] if probabilities.shape else None
    if label.type != "tensor(int64)" or not isinstance(width, int):
        raise TypeError(
            f"{name} returns labels and a tensor of probabilities, but not which column is which label: name them, in "
            "the order of the probabilities, by gbce.classifier(session, classes=[...])"
        )
    return tuple(range(width))


def _from_zipmap(session: Any, feed: Feed, space: Space, name: str) -> Predictor:
    """Read probabilities that come as one dictionary per row; a first row of zeros tells the classes."""
    label, probabilities = (out.name for out in session.get_outputs())
    first = session.run([probabilities], feed(np.zeros((1, len(space)))))[0][0]
    classes = tuple(first)

    def ask(x: Array) -> Array:
        said = session.run([probabilities], feed(x))[0]
        return np.array([[row[one] for one in classes] for row in said], dtype=float)

    return Predictor(name, ask, classes=classes, decide=lambda x: session.run([label], feed(x))[0])


def _feed(session: Any, space: Space, name: str) -> Feed:
    """Return a function of float rows that gives the session's inputs by name."""
    inputs = session.get_inputs()
    strange = [f"{one.name}: {one.type}" for one in inputs if _dtype(one) is None]
    if strange:
        raise TypeError(f"{name} takes {strange}, which rows of numbers and words cannot be turned into")
    if len(inputs) == 1 and _dtype(inputs[0]) != "object":
        return _one_tensor(inputs[0], space, name)
    table = table_decoder(space)
    have = column_names(space)
    if sorted(one.name for one in inputs) != sorted(have):
        have = [re.sub(r"[^A-Za-z0-9_]", "_", column) for column in have]  # as converters have them
    if sorted(one.name for one in inputs) != sorted(have):
        raise ValueError(
            f"{name} takes the inputs {[one.name for one in inputs]}, the data have the columns {have}: a session "
            "takes one tensor of all columns or one input per column, named like it; else explain a function of rows"
        )
    positions = {one.name: have.index(one.name) for one in inputs}

    def feed(x: Array) -> dict[str, Array]:
        rows = table(x)
        return {one.name: _column(rows.iloc[:, positions[one.name]], one) for one in inputs}

    return feed


def _dtype(one: Any) -> str | None:
    return _DTYPES.get(one.type.removeprefix("tensor(").removesuffix(")"))


def _one_tensor(one: Any, space: Space, name: str) -> Feed:
    width = one.shape[-1] if one.shape else None
    if isinstance(width, int) and width != space.n_columns:
        raise ValueError(f"{name} takes {width} columns, the data have {space.n_columns}")
    numbers, dtype = as_numbers(space, name), _dtype(one)
    return lambda x: {one.name: numbers(x).astype(dtype)}


def _column(column: Any, one: Any) -> Array:
    dtype = _dtype(one)
    values = column.astype(str).to_numpy(dtype=object) if dtype == "object" else column.to_numpy(dtype=dtype)
    return np.asarray(values if len(one.shape) == 1 else values[:, None])
