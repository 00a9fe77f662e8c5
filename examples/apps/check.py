"""Run both apps and log to MLflow, each by its real library: ``python examples/apps/check.py``; others are skipped.

Needs streamlit, gradio and mlflow-skinny, which are too large for an extra.
"""

import os
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))


def check_streamlit() -> None:
    """Run the app, change an input, and read its text."""
    from streamlit.testing.v1 import AppTest

    app = AppTest.from_file(str(HERE / "streamlit_app.py"), default_timeout=120).run()
    assert not app.exception, app.exception
    first = app.markdown[0].value
    app.number_input[0].set_value(1_500).run()
    assert "would have said 'approved'" in first
    assert app.markdown[0].value != first


def check_gradio() -> None:
    """Call the app's function as its server does."""
    import gradio_app

    assert "would have said 'approved'" in gradio_app.app.fn(2_000, 3_000, "en")
    assert "なっていました" in gradio_app.app.fn(2_000, 3_000, "ja")
    assert "/explain" in gradio_app.app.get_api_info()["named_endpoints"]


def check_mlflow() -> None:
    """Log an explanation to a run in a folder, and load a model that MLflow wrote."""
    import gradio_app
    import mlflow

    with tempfile.TemporaryDirectory() as folder:
        os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
        mlflow.set_tracking_uri(Path(folder, "runs").as_uri())
        row = gradio_app.numbers.iloc[2]
        with mlflow.start_run() as run:
            gradio_app.explainer.explain(row, "approved", seed=0, posterior=False).log_mlflow()
        logged = {Path(one.path).name for one in mlflow.MlflowClient().list_artifacts(
            run.info.run_id, "model_explanations_gbce")}  # fmt: skip
        assert logged == {"counterfactuals.csv", "explanation.gbce", "explanation.json", "explorer.html"}, logged
        assert "gbce_cost" in mlflow.MlflowClient().get_run(run.info.run_id).data.metrics


def main() -> int:
    """Run the checks whose library is installed, and print one line each."""
    for name, check in (("streamlit", check_streamlit), ("gradio", check_gradio), ("mlflow", check_mlflow)):
        if find_spec(name) is None:
            print(f"{name}: not installed, skipped")
            continue
        check()
        print(f"{name}: runs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
