"""Save an explainer as a model of MLflow: rows in, answers out, wherever such models are hosted.

Strings stand for categories, and nothing is NaN in an answer, because neither survives JSON.
"""

from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd

from gbce._validation import show
from gbce.base import Target
from gbce.distributed import explain_partition, schema
from gbce.explainer import Explainer
from gbce.targets import parse_target

__all__ = ["save"]

# What unpickling an explainer needs whatever its model is.
_NEEDED = ("gbce", "cloudpickle", "numpy", "pandas", "scikit-learn")
_TYPES = {"b": "boolean", "i": "long", "u": "long", "f": "double", "M": "datetime"}  # by the kind of a dtype


def save(
    explainer: Explainer,
    path: str | Path,
    *,
    target: Target | Any = None,
    posterior: bool = False,
    max_model_rows: int | None = None,
    pip_requirements: Sequence[str] | None = None,
    **options: Any,
) -> None:
    """Save an explainer as a pyfunc model, which ``mlflow models serve`` and every host of MLflow models answers with.

    Its input are rows in the columns of the data, categories as strings. Its output has one line for each row in the
    columns of :func:`gbce.distributed.schema`, missing figures as ``None``. The parameters ``target``, as people write
    it (``"approved>=0.8"``, ``"<=140"``), ``seed`` and ``posterior`` may be given with each request.

    Parameters
    ----------
    explainer : Explainer
        With models that cloudpickle can pickle. MLflow models of this kind hold a pickle: loading one runs the code in
        it, so only load those of people you trust.
    path : str or Path
        A new folder.
    target : Target or class label, optional
        The target of requests that name none; a string is read as people write it.
    posterior : bool
        Whether to draw the posterior of each row unless a request says otherwise.
    max_model_rows : int, optional
        As in :meth:`gbce.Explainer.explain`, for each row.
    pip_requirements : sequence of str, optional
        What the host installs; by default gbce, cloudpickle, numpy, pandas and scikit-learn as they are here. Name the
        framework of the model if it is another.
    **options
        Further options of ``mlflow.pyfunc.save_model``, such as ``metadata``.

    Raises
    ------
    ImportError
        If MLflow is not installed.

    Examples
    --------
    >>> import gbce.mlflow
    >>> gbce.mlflow.save(explainer, "explainer", target="approved")  # doctest: +SKIP

    Then ``mlflow models serve -m explainer``, and ``curl localhost:5000/invocations`` with ``{"dataframe_records":
    [...], "params": {"target": "approved>=0.8"}}``.
    """
    if not isinstance(explainer, Explainer):
        raise TypeError(f"explainer must be a gbce.Explainer, not {show(explainer)}")
    flavour = _import_pyfunc()
    if isinstance(target, str):
        target = parse_target(target, explainer._session.predictors[0].classes)
    settings = {"target": target, "posterior": bool(posterior), "max_model_rows": max_model_rows}
    model = _model_class()(explainer, settings)
    needed = [f"{name}=={version(name)}" for name in _NEEDED] if pip_requirements is None else list(pip_requirements)
    flavour.save_model(
        str(path), python_model=model, signature=_describe(explainer, settings), pip_requirements=needed, **options
    )


def _answer(explainer: Explainer, settings: Mapping[str, Any], rows: Any, params: Mapping[str, Any]) -> pd.DataFrame:
    """Return one line for each row, for a request with parameters; ``None`` where a figure is missing."""
    text = params.get("target")
    target = parse_target(str(text), explainer._session.predictors[0].classes) if text else settings["target"]
    if target is None:
        raise ValueError('the request has no target: give {"params": {"target": "..."}}, or save the model with one')
    frame = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(rows)
    table = explain_partition(
        explainer, frame, target, seed=int(params.get("seed") or 0), max_model_rows=settings["max_model_rows"],
        posterior=bool(params.get("posterior", settings["posterior"])),
    )  # fmt: skip
    plain = table.astype(object)
    return plain.where(table.notna(), None)


# --- MLflow ----------------------------------------------------------------------------------------------------------


def _import_pyfunc() -> Any:
    try:
        return import_module("mlflow.pyfunc")
    except ImportError:
        raise ImportError("gbce.mlflow needs MLflow: pip install mlflow") from None


def __getattr__(name: str) -> Any:
    """Define the class of saved models when it is first used: pickles name it, so that they hold no code of it."""
    if name == "ExplainerModel":
        return _model_class()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _model_class() -> Any:
    """Return the class of saved models, which is one of MLflow's."""
    if "ExplainerModel" in globals():
        return globals()["ExplainerModel"]
    base: Any = _import_pyfunc().PythonModel

    class ExplainerModel(base):
        """An explainer with the settings of its requests."""

        def __init__(self, explainer: Explainer, settings: Mapping[str, Any]) -> None:
            self.explainer, self.settings = explainer, settings

        def predict(self, context: Any, model_input: Any, params: Mapping[str, Any] | None = None) -> pd.DataFrame:
            """Return the table of answers."""
            return _answer(self.explainer, self.settings, model_input, params or {})

    ExplainerModel.__qualname__ = "ExplainerModel"  # of the module, where pickles look for it
    globals()["ExplainerModel"] = ExplainerModel
    return ExplainerModel


def _describe(explainer: Explainer, settings: Mapping[str, Any]) -> Any:
    """Return the signature: columns in and out, and parameters."""
    types = import_module("mlflow.types.schema")
    space = explainer.space
    known = {name: dtype for name, dtype in schema(explainer).items() if name.startswith("answer_")}
    columns = [(name.removeprefix("answer_"), _type_of(dtype)) for name, dtype in known.items()]
    optional = {str(codec.labels[0]) for feature, codec in zip(space.features, space.codecs, strict=True)
                if feature.missing is not None}  # fmt: skip
    inputs = types.Schema([types.ColSpec(kind, name, required=name not in optional) for name, kind in columns])
    outputs = types.Schema([types.ColSpec(_type_of(dtype), name, required=False)
                            for name, dtype in schema(explainer).items()])  # fmt: skip
    params = types.ParamSchema([
        types.ParamSpec("target", "string", ""), types.ParamSpec("seed", "long", 0),
        types.ParamSpec("posterior", "boolean", settings["posterior"]),
    ])  # fmt: skip
    return import_module("mlflow.models").ModelSignature(inputs, outputs, params)


def _type_of(dtype: str) -> str:
    """Return MLflow's name of a dtype of a schema."""
    return "string" if dtype == "str" else _TYPES[pd.api.types.pandas_dtype(dtype).kind]
