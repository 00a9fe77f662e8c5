"""Predictors of boosters (XGBoost, LightGBM, CatBoost), torch modules and ONNX Runtime sessions.

Each function converts encoded rows to the input of its framework and its outputs to numbers or probabilities.
"""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd

from gbce.base import Array
from gbce.predictors._columns import Rows, as_numbers, column_names, in_order, table_decoder
from gbce.predictors._forests import FEW_ROWS
from gbce.predictors._predictor import Predictor, shares, unfitted_error
from gbce.space import Space

_N_PROBES = 50  # rows on which two kinds of call must agree to the last bit; by hand
_USUAL_THRESHOLD = 0.5  # between two classes, so that the decision is the more probable one
_DTYPES = {
    "float": "float32", "double": "float64", "float16": "float16", "bool": "bool", "string": "object",
    **{kind: kind for kind in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")},
}  # fmt: skip
Feed = Callable[[Array], dict[str, Array]]

# --- boosters --------------------------------------------------------------------------------------------------------


def from_xgboost(booster: Any, space: Space, name: str) -> Predictor:
    """Wrap an ``xgboost.Booster``, a classifier if its objective is one, with classes 0, 1, ...

    Where the objective returns labels or margins, the margins are converted to shares: for ``multi:softmax`` and
    ``binary:logitraw`` these are the probabilities.
    """
    learner = json.loads(booster.save_config())["learner"]
    objective = str(learner["objective"]["name"])
    n_classes = max(2, int(learner["learner_model_param"]["num_class"]))
    rows, direct = _xgboost_rows(booster, space, name), _xgboost_in_place(booster, space, name, learner)

    def ask(x: Array, margin: bool = False) -> Any:
        return booster.predict(rows(x), output_margin=margin) if direct is None else direct(x, margin)

    if objective in ("binary:logistic", "multi:softprob"):
        return Predictor(name, ask, classes=tuple(range(n_classes)))
    if objective in ("binary:logitraw", "binary:hinge", "multi:softmax"):
        return Predictor(name, lambda x: shares(ask(x, margin=True), n_classes), classes=tuple(range(n_classes)))
    return Predictor(name, ask, plain=objective == "reg:logistic")


def _xgboost_rows(booster: Any, space: Space, name: str) -> Rows:
    from xgboost import DMatrix

    wanted = booster.feature_names
    if wanted is None:
        if booster.num_features() != space.n_columns:
            trained = f"{name} was trained on {booster.num_features()} columns"
            raise ValueError(f"{trained}, but the data have {space.n_columns}")
        numbers = as_numbers(space, name)
        return lambda x: DMatrix(numbers(x))
    as_input = in_order(wanted, space, name, frame=False, own=False)
    types = booster.feature_types

    def rows(x: Array) -> Any:
        table = as_input(x)
        if isinstance(table, pd.DataFrame):
            return DMatrix(table, feature_names=list(wanted), enable_categorical=True)
        return DMatrix(table, feature_names=list(wanted), feature_types=types, enable_categorical=True)

    return rows


def _xgboost_in_place(booster: Any, space: Space, name: str, learner: Any) -> Callable[[Array, bool], Any] | None:
    """Return the booster's in-place prediction for unnamed numeric columns; None where it differs from ``predict``."""
    if booster.feature_names is not None or str(learner["gradient_booster"]["name"]) != "gbtree":
        return None
    numbers = as_numbers(space, name)

    def ask(x: Array, margin: bool) -> Any:
        return booster.inplace_predict(numbers(x), predict_type="margin" if margin else "value")

    from xgboost import DMatrix

    probes = np.random.default_rng(0).normal(size=(_N_PROBES, space.n_columns))
    try:
        agree = all(
            np.array_equal(
                booster.inplace_predict(probes, predict_type=kind),
                booster.predict(DMatrix(probes), output_margin=kind == "margin"),
            )
            for kind in ("value", "margin")
        )
    except Exception:  # a release of XGBoost may not support it
        return None
    return ask if agree else None


def from_lightgbm(booster: Any, space: Space, name: str) -> Predictor:
    """Wrap a ``lightgbm.Booster``, a classifier if its objective is one, with classes 0, 1, ..."""
    words = str(booster.dump_model(num_iteration=1).get("objective", "")).split()
    objective, options = (words[0] if words else ""), dict(part.split(":", 1) for part in words[1:] if ":" in part)
    names = booster.feature_name()
    unnamed = names == [f"Column_{j}" for j in range(len(names))]
    if unnamed and space.columns is not None and list(map(str, space.columns)) != names:
        if len(names) != space.n_columns:
            raise ValueError(f"{name} was trained on {len(names)} columns, but the data have {space.n_columns}")
        as_input: Rows = as_numbers(space, name)
    else:
        as_input = in_order(names, space, name, frame=False, own=False)
    classes: tuple[int, ...] | None = None
    if objective == "binary":
        classes = (0, 1)
    elif objective in ("multiclass", "multiclassova"):
        classes = tuple(range(int(options["num_class"])))

    def ask(x: Array) -> Any:
        # one thread for few rows: starting more takes longer than predicting
        options = {"num_threads": 1} if len(x) <= FEW_ROWS else {}
        return booster.predict(as_input(x), **options)

    return Predictor(name, ask, classes=classes, plain=objective.startswith("cross_entropy"))


def from_catboost(model: Any, space: Space, name: str) -> Predictor:
    """Wrap a CatBoost model, core or estimator; categorical columns become strings or integers."""
    if not model.is_fitted():
        raise unfitted_error(name)
    as_input = catboost_rows(model, space, name)
    classes = tuple(np.asarray(model.classes_).tolist())
    if not classes:
        return Predictor(name, lambda x: model.predict(as_input(x)))
    if len(classes) < 2:
        raise ValueError(f"{name} has a single class, {classes[0]!r}: no other decision is possible")
    return Predictor(
        name,
        lambda x: model.predict(as_input(x), prediction_type="Probability"),
        classes=classes,
        decide=lambda x: model.predict(as_input(x), prediction_type="Class"),
        decide_always=_threshold(model) != _USUAL_THRESHOLD,
    )


def _threshold(model: Any) -> float:
    return float(model.get_probability_threshold()) if hasattr(model, "get_probability_threshold") else _USUAL_THRESHOLD


def catboost_rows(model: Any, space: Space, name: str) -> Callable[[Array], pd.DataFrame]:
    """Return a function from encoded rows to the frame of a CatBoost model: categories are strings or integers."""
    names = model.feature_names_
    if names == [str(j) for j in range(len(names))]:  # fitted on an array
        if len(names) != space.n_columns:
            raise ValueError(f"{name} was fitted on {len(names)} columns, but the data have {space.n_columns}")
        decode: Rows = table_decoder(space)
    else:
        decode = in_order(names, space, name, own=False)
    categories = model.get_cat_feature_indices()

    def rows(x: Array) -> pd.DataFrame:
        table = decode(x).set_axis(names, axis=1)
        numeric = [names[j] for j in categories if pd.api.types.is_float_dtype(table.dtypes.iloc[j])]
        return table.astype(dict.fromkeys(numeric, "int64"))

    return rows


# --- torch modules ---------------------------------------------------------------------------------------------------


def from_torch(module: Any, space: Space, name: str) -> Predictor:
    """Wrap a ``torch.nn.Module`` that takes one tensor of rows ``(n, columns)`` and returns one.

    Rows have the dtype and device of its parameters; it runs in evaluation mode without gradients, and its mode is
    restored. Whether it classifies is unknown; :func:`gbce.classifier` declares it.
    """
    import torch

    numbers = as_numbers(space, name)

    def ask(x: Array) -> Array:
        like = next((t for t in (*module.parameters(), *module.buffers()) if t.is_floating_point()), torch.empty(0))
        rows = torch.from_numpy(numbers(x)).to(device=like.device, dtype=like.dtype)
        with _evaluating(module), torch.no_grad():
            out = module(rows)
        if not isinstance(out, torch.Tensor):
            raise TypeError(
                f"the module must return one tensor, but returned {type(out).__name__}: explain a function of rows "
                "that selects the tensor, or a module around this one"
            )
        return out.cpu().double().numpy()

    return Predictor(name, ask, plain=True)


@contextmanager
def _evaluating(module: Any) -> Iterator[None]:
    """Put a module and its parts into evaluation mode, and restore the mode of each part afterwards."""
    training = [part for part in module.modules() if part.training]
    for part in training:
        part.training = False
    try:
        yield
    finally:
        for part in training:
            part.training = True


# --- ONNX Runtime sessions -------------------------------------------------------------------------------------------


def from_onnx(session: Any, space: Space, name: str, classes: tuple[Any, ...] | None = None) -> Predictor:
    """Wrap an ``onnxruntime.InferenceSession``.

    It takes one tensor of all columns, or one named input per column. A single output has one or several numbers per
    row, and whether it classifies is unknown. A label and probabilities, as converted classifiers return them, make a
    classifier: a dictionary per row (ZipMap) has its classes; with a tensor of probabilities, integer labels are taken
    to count from zero, and strings must be named by :func:`gbce.classifier`.
    """
    feed = _feed(session, space, name)
    outputs = session.get_outputs()
    if len(outputs) == 1:
        return Predictor(name, lambda x: session.run(None, feed(x))[0], plain=True)
    label, *rest = outputs
    if label.type not in ("tensor(int64)", "tensor(string)") or len(rest) != 1:
        listed = [f"{out.name}: {out.type}" for out in outputs]
        raise TypeError(
            f"{name} returns {listed}, but only one output, or a label and its probabilities, is supported: explain a "
            "function of rows that runs the session and returns probabilities or numbers"
        )
    if rest[0].type.startswith("seq(map("):
        return _from_zipmap(session, feed, space, name)
    integers = label.type == "tensor(int64)"
    output = rest[0].name
    if classes is None:
        classes = _count_classes(label, rest[0], name)
    elif integers != all(isinstance(one, int) for one in classes):  # the user's own names
        return Predictor(name, lambda x: session.run([output], feed(x))[0], classes=classes)
    known = set(classes)

    def decide(x: Array) -> Any:
        labels = session.run([label.name], feed(x))[0]
        unknown = sorted(set(labels.tolist()) - known)
        if unknown:
            raise ValueError(
                f"the session returned the label {unknown[0]!r}, which is not among {list(classes)}: name its classes, "
                "in the order of its probabilities, by gbce.classifier(session, classes=[...])"
            )
        return labels

    return Predictor(name, lambda x: session.run([output], feed(x))[0], classes=classes, decide=decide)


def _count_classes(label: Any, probabilities: Any, name: str) -> tuple[int, ...]:
    width = probabilities.shape[-1] if probabilities.shape else None
    if label.type != "tensor(int64)" or not isinstance(width, int):
        raise TypeError(
            f"{name} returns labels and a tensor of probabilities, but not which column is which label: name them, in "
            "the order of the probabilities, by gbce.classifier(session, classes=[...])"
        )
    return tuple(range(width))


def _from_zipmap(session: Any, feed: Feed, space: Space, name: str) -> Predictor:
    """Wrap a session that returns one dictionary of probabilities per row; a row of zeros shows the classes."""
    label, probabilities = (out.name for out in session.get_outputs())
    first = session.run([probabilities], feed(np.zeros((1, len(space)))))[0][0]
    classes = tuple(first)

    def ask(x: Array) -> Array:
        rows = session.run([probabilities], feed(x))[0]
        return np.array([[row[one] for one in classes] for row in rows], dtype=float)

    return Predictor(name, ask, classes=classes, decide=lambda x: session.run([label], feed(x))[0])


def _feed(session: Any, space: Space, name: str) -> Feed:
    """Return a function from encoded rows to the session's inputs by name."""
    inputs = session.get_inputs()
    unknown = [f"{one.name}: {one.type}" for one in inputs if _dtype(one) is None]
    if unknown:
        raise TypeError(f"{name} takes {unknown}, to which rows of numbers and strings cannot be converted")
    if len(inputs) == 1 and _dtype(inputs[0]) != "object":
        return _one_tensor(inputs[0], space, name)
    table = table_decoder(space)
    have = column_names(space)
    if sorted(one.name for one in inputs) != sorted(have):
        have = [re.sub(r"[^A-Za-z0-9_]", "_", column) for column in have]  # as converters rename them
    if sorted(one.name for one in inputs) != sorted(have):
        raise ValueError(
            f"{name} takes the inputs {[one.name for one in inputs]}, the data have the columns {have}: a session "
            "takes one tensor of all columns or one input per column of the same name; else explain a function of rows"
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
        raise ValueError(f"{name} takes {width} columns, but the data have {space.n_columns}")
    numbers = as_numbers(space, name)
    return lambda x: {one.name: _converted(numbers(x), one)}


def _column(column: Any, one: Any) -> Array:
    if _dtype(one) == "object":
        values = column.astype(str).to_numpy(dtype=object)
    elif column.dtype.kind == "f":
        values = _converted(column.to_numpy(dtype=float, na_value=np.nan), one)
    else:
        values = column.to_numpy(dtype=_dtype(one))
    return np.asarray(values if len(one.shape) == 1 else values[:, None])


def _converted(values: Array, one: Any) -> Array:
    """Return numbers in the dtype of an input; reject those of which one of integers would keep a part only."""
    with np.errstate(invalid="ignore"):
        converted = values.astype(_dtype(one))
    lost = values[converted != values] if converted.dtype.kind in "iub" else values[:0]
    if len(lost):
        raise ValueError(
            f"the session takes {one.type} as {one.name!r}, in which {lost[0]:g} is another number: declare such "
            "columns by Space.infer(data, kinds={column: 'integer'})"
        )
    return converted
