"""Exported JSON follows the published schema; a run of MLflow gets the files and figures."""

import json
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import gbce
from gbce.files import json_schema
from support.lending import declined, explained, explainer, linear

jsonschema = pytest.importorskip("jsonschema")
VALIDATOR = jsonschema.Draft202012Validator(json_schema())


def questions():
    data, model = linear()
    plain = gbce.Explainer(model, data)
    yield "search", explained()
    yield "posterior", explained(posterior=True)
    yield "missed", plain.explain(data.iloc[0], gbce.AtLeast(1_000), seed=0, posterior=False)
    yield "no answer", gbce.Explainer(model, data, policy=None).explain(data.iloc[0], gbce.AtLeast(5), rules=[], seed=0)
    proof = [gbce.Nearest(prove=True)]
    yield "proof", explainer().explain(declined(1).iloc[0], "approved", rules=proof, seed=0, posterior=False)
    yield (
        "array",
        gbce.Explainer(lambda x: x[:, 0], np.eye(3), space=gbce.Space.real(3)).explain(
            [0.0, 0.0, 0.0], gbce.Value(1.0, scale=1, tolerance=0.1), rules=["MAP", "Mean"], seed=0
        ),
    )


def test_the_schema_itself_is_sound():
    jsonschema.Draft202012Validator.check_schema(json_schema())


@pytest.mark.parametrize("draws", [False, True])
def test_exports_follow_the_schema(draws):
    for name, explanation in questions():
        found = json.loads(explanation.to_json(draws=draws))
        assert [f"{name}: {error.json_path} {error.message}" for error in VALIDATOR.iter_errors(found)] == []


@pytest.mark.parametrize("key", ["answer", "row", "seed", "status"])
def test_the_schema_finds_what_is_wrong(key):
    found = json.loads(explained().to_json())
    assert not VALIDATOR.is_valid({name: value for name, value in found.items() if name != key})
    assert not VALIDATOR.is_valid(found | {key: "nonsense"})
    assert not VALIDATOR.is_valid(found | {"more": 1})


def test_a_run_of_mlflow_gets_files_and_figures(monkeypatch, tmp_path):
    """The two functions of MLflow that are called, with its own signatures; examples/apps runs the real one."""
    kept = {}
    fake = types.ModuleType("mlflow")

    def log_artifacts(local_dir, artifact_path=None):
        kept["files"] = {path.name: path.stat().st_size for path in Path(local_dir).iterdir()}
        kept["folder"] = artifact_path

    fake.log_artifacts, fake.log_metrics = log_artifacts, lambda metrics: kept.update(metrics)
    monkeypatch.setitem(sys.modules, "mlflow", fake)
    explained().log_mlflow()
    assert sorted(kept["files"]) == ["counterfactuals.csv", "explanation.gbce", "explanation.json", "explorer.html"]
    assert all(kept["files"].values())
    assert kept["folder"] == "model_explanations_gbce"
    assert kept["gbce_reliability"] == explained().answer.reliability.share
    assert "gbce_effective_draws" not in kept  # without a posterior
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(ImportError, match="pip install mlflow-skinny"):
        explained().log_mlflow()
