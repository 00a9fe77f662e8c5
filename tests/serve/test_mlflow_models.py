"""Explainers as models of MLflow: the answers without it here; saved, loaded and served where it is installed."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import gbce
import gbce.mlflow
from gbce.distributed import explain_partition, schema


@pytest.fixture(scope="module")
def explainer():
    rng = np.random.default_rng(0)
    data = pd.DataFrame({
        "income": rng.uniform(10, 80, 80).round(1), "years": rng.integers(0, 9, 80),
        "job": pd.Categorical(rng.choice(["clerk", "smith"], 80)), "gap": rng.choice([1.0, np.nan], 80),
    })  # fmt: skip
    fit = LogisticRegression().fit(data[["income", "years"]], data["income"] + data["years"] > 50)
    return gbce.Explainer(gbce.classifier(Narrow(fit), classes=["declined", "approved"]), data)


class Narrow:
    """A model that looks at two columns."""

    def __init__(self, fit):
        self.fit = fit

    def __call__(self, rows):
        return self.fit.predict_proba(rows[["income", "years"]])[:, 1]


ROWS = [
    {"income": 30.0, "years": 2, "job": "clerk", "gap": None},
    {"income": 20.5, "years": 1, "job": "smith", "gap": 1.0},
]
SETTINGS = {"target": None, "posterior": False, "max_model_rows": None}


def test_answers_are_those_of_the_library_and_fit_in_json(explainer):
    found = gbce.mlflow._answer(explainer, SETTINGS, pd.DataFrame(ROWS), {"target": "approved", "seed": 3})
    own = explain_partition(explainer, pd.DataFrame(ROWS), "approved", seed=3)
    assert list(found.columns) == list(schema(explainer))
    assert found["sentence"].tolist() == own["sentence"].tolist()
    records = json.loads(json.dumps(found.to_dict(orient="records"), allow_nan=False))
    assert records[0]["success_probability"] is None
    assert records[0]["answer_job"] == "clerk"
    assert records[0]["answer_gap"] is None
    assert records[1]["answer_gap"] == 1.0


def test_a_target_is_needed_and_read_as_people_write_it(explainer):
    with pytest.raises(ValueError, match="the request has no target"):
        gbce.mlflow._answer(explainer, SETTINGS, ROWS, {"target": ""})
    sure = gbce.mlflow._answer(explainer, SETTINGS, ROWS, {"target": "approved>=0.9"})
    saved = gbce.mlflow._answer(explainer, SETTINGS | {"target": gbce.Class("approved", probability=0.9)}, ROWS, {})
    assert sure["sentence"].tolist() == saved["sentence"].tolist()
    assert min(sure["output"]) >= 0.9
    with pytest.raises(ValueError, match="is not a class of the model"):
        gbce.mlflow._answer(explainer, SETTINGS, ROWS, {"target": "aproved"})


def test_saving_needs_an_explainer_and_mlflow(explainer, tmp_path, monkeypatch):
    with pytest.raises(TypeError, match=r"must be a gbce\.Explainer"):
        gbce.mlflow.save(explainer.space, tmp_path / "model")
    monkeypatch.setitem(__import__("sys").modules, "mlflow.pyfunc", None)
    with pytest.raises(ImportError, match="pip install mlflow"):
        gbce.mlflow.save(explainer, tmp_path / "model")


@pytest.mark.filterwarnings("ignore")  # of MLflow's own server, and of what it runs on, when these are imported
def test_mlflow_saves_loads_and_serves_it(explainer, tmp_path):
    """In ``make test-machines``, which installs MLflow."""
    pytest.importorskip("mlflow")
    import mlflow
    from mlflow.pyfunc.scoring_server import init
    from starlette.testclient import TestClient

    gbce.mlflow.save(explainer, tmp_path / "model", target="approved")
    model = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    frame = pd.DataFrame(ROWS)
    own = explain_partition(explainer, frame, "approved", seed=5)
    found = model.predict(frame, params={"seed": 5})
    assert found["sentence"].tolist() == own["sentence"].tolist()
    client = TestClient(init(model))
    response = client.post("/invocations", json={"dataframe_records": ROWS, "params": {"seed": 5}})
    assert response.status_code == 200, response.text
    lines = json.loads(response.text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))["predictions"]
    assert [line["sentence"] for line in lines] == own["sentence"].tolist()
    assert lines[0]["answer_job"] == "clerk"
    asked = {"dataframe_records": ROWS, "params": {"target": "nobody"}}
    assert client.post("/invocations", json=asked).status_code == 400
