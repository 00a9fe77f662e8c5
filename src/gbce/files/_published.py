"""What other programs read: the JSON schema of explanations, and their files in a run of MLflow."""

import json
import math
import tempfile
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

from gbce.explanation import Explanation
from gbce.files._files import save


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of :meth:`gbce.Explanation.to_json`.

    Examples
    --------
    >>> sorted(json_schema()["properties"])[:3]
    ['answer', 'changes', 'counterfactuals']
    """
    found: dict[str, Any] = json.loads(files("gbce.files").joinpath("explanation.schema.json").read_text("utf-8"))
    return found


def log_mlflow(explanation: Explanation, folder: str) -> None:
    """Log an explanation to the active run of MLflow, see :meth:`gbce.Explanation.log_mlflow`."""
    try:
        mlflow = import_module("mlflow")
    except ImportError:
        raise ImportError("log_mlflow needs MLflow: pip install mlflow-skinny") from None
    with tempfile.TemporaryDirectory() as place:
        save(explanation, Path(place, "explanation.gbce"))
        explanation.to_json(Path(place, "explanation.json"))
        explanation.to_html(Path(place, "explorer.html"))
        explanation.counterfactuals.to_csv(Path(place, "counterfactuals.csv"))
        mlflow.log_artifacts(place, artifact_path=folder)
    answer, drawn = explanation.answer, explanation.draws.info.draws_posterior
    figures = {
        "gbce_success_probability": float(explanation.distribution["success_probability"]) if drawn else math.nan,
        "gbce_effective_draws": float(explanation.diagnostics["ess"]) if drawn else math.nan,
        "gbce_reached": math.nan if answer is None else float(answer.reached),
        "gbce_cost": math.nan if answer is None else answer.cost,
        "gbce_reliability": math.nan if answer is None or answer.reliability is None else answer.reliability.share,
    }
    mlflow.log_metrics({name: value for name, value in figures.items() if math.isfinite(value)})
