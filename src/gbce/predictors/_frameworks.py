"""ONNX Runtime sessions: rows as the tensors of their inputs, their outputs as numbers or probabilities."""

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
from gbce.predictors._predictor import Predictor, shares
from gbce.space import Space

__all__ = ["catboost_rows", "from_catboost", "from_lightgbm", "from_onnx", "from_torch", "from_xgboost"]

# --- boosters without an estimator around them -----------------------------------------------------------------------

_N_PROBES = 50  # rows on which two ways to ask must give the same bits; by hand
_USUAL_THRESHOLD = 0.5  # between two classes, where the more probable one is decided for


def from_xgboost(booster: Any, space: Space, name: str) -> Predictor:
    """Wrap an ``xgboost.Booster``: its objective says whether it classifies.

    Classes are numbers from zero, as XGBoost has them. Where the objective returns labels or margins, the margins are
    read as shares: of ``multi:softmax`` and ``binary:logitraw`` these are the probabilities.
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
            raise ValueError(f"{name} was trained on {booster.num_features()} columns, the data have {space.n_columns}")
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
    """Return the booster's answers without a matrix of its own, for columns of numbers without names, if alike."""
    if booster.feature_names is not None or str(learner["gradient_booster"]["name"]) != "gbtree":
        return None
    numbers = as_numbers(space, name)

    def ask(x: Array, margin: bool) -> Any:
        return booster.inplace_predict(numbers(x), predict_type="margin" if margin else "value")

    from xgboost import DMatrix

    probes = np.random.default_rng(0).normal(size=(_N_PROBES, space.n_columns))
    try:
        alike = all(
            np.array_equal(
                booster.inplace_predict(probes, predict_type=kind),
                booster.predict(DMatrix(probes), output_margin=kind == "margin"),
            )
            for kind in ("value", "margin")
        )
    except Exception:  # what a release of XGBoost takes is its own
        return None
    return ask if alike else None


def from_lightgbm(booster: Any, space: Space, name: str) -> Predictor:
    """Wrap a ``lightgbm.Booster``: its objective says whether it classifies; classes are numbers from zero."""
    said = str(booster.dump_model(num_iteration=1).get("objective", "")).split()
    objective, options = (said[0] if said else ""), dict(part.split(":", 1) for part in said[1:] if ":" in part)
    names = booster.feature_name()
    unnamed = names == [f"Column_{j}" for j in range(len(names))]
    if unnamed and space.columns is not None and list(map(str, space.columns)) != names:
        if len(names) != space.n_columns:
            raise ValueError(f"{name} was trained on {len(names)} columns, the data have {space.n_columns}")
        as_input: Rows = as_numbers(space, name)
    else:
        as_input = in_order(names, space, name, frame=False, own=False)
    classes: tuple[int, ...] | None = None
    if objective == "binary":
        classes = (0, 1)
    elif objective in ("multiclass", "multiclassova"):
        classes = tuple(range(int(options["num_class"])))

    def ask(x: Array) -> Any:
        # in one thread: more of them take longer to start than a few rows take
        options = {"num_threads": 1} if len(x) <= FEW_ROWS else {}
        return booster.predict(as_input(x), **options)

    return Predictor(name, ask, classes=classes, plain=objective.startswith("cross_entropy"))


def from_catboost(model: Any, space: Space, name: str) -> Predictor:
    """Wrap any CatBoost model, core or estimator; columns of categories go in as words or whole numbers."""
    if not model.is_fitted():
        from sklearn.exceptions import NotFittedError

        raise NotFittedError(f"{name} is not fitted: call fit(X, y) before it can be explained")
    as_input = catboost_rows(model, space, name)
    classes = tuple(np.asarray(model.classes_).tolist())
    if not classes:
        return Predictor(name, lambda x: model.predict(as_input(x)))
    if len(classes) < 2:
        raise ValueError(f"{name} knows a single class, {classes[0]!r}: there is nothing to decide otherwise")
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
    """Return encoded rows as a frame that a CatBoost model takes: categories are words or whole numbers."""
    names = model.feature_names_
    if names == [str(j) for j in range(len(names))]:  # fitted on an array
        if len(names) != space.n_columns:
            raise ValueError(f"{name} was fitted on {len(names)} columns, the data have {space.n_columns}")
        make: Rows = table_decoder(space)
    else:
        make = in_order(names, space, name, own=False)
    categories = model.get_cat_feature_indices()

    def rows(x: Array) -> pd.DataFrame:
        table = make(x).set_axis(names, axis=1)
        whole = [names[j] for j in categories if pd.api.types.is_float_dtype(table.dtypes.iloc[j])]
        return table.astype(dict.fromkeys(whole, "int64"))

    return rows


# --- torch modules as functions of rows ------------------------------------------------------------------------------


def from_torch(module: Any, space: Space, name: str) -> Predictor:
    """Wrap a ``torch.nn.Module`` that takes one tensor of rows ``(n, columns)`` and returns one.

    Rows go in as its parameters are, usually float32, on its device, in evaluation mode and without gradients; the
    module is left in the mode it was in. It does not say whether it classifies; :func:`gbce.classifier` does.
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
                "that picks the tensor, or a module around this one"
            )
        return out.cpu().double().numpy()

    return Predictor(name, ask, plain=True)


@contextmanager
def _evaluating(module: Any) -> Iterator[None]:
    """Put a module and its parts into evaluation mode; afterwards each part is as it was."""
    training = [part for part in module.modules() if part.training]
    for part in training:
        part.training = False
    try:
        yield
    finally:
        for part in training:
            part.training = True


# --- ONNX Runtime sessions -------------------------------------------------------------------------------------------

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
