"""Models are loaded from files of their own formats; a pickle only if it is trusted."""

import functools
import os
import pickle
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import gbce
from gbce.predictors import ModelFileError, hash_model, load_model

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(200, 3)), columns=["a", "b", "c"])
Y = (X["a"] + X["b"] > 0).astype(int)


def outputs(model):
    explainer = gbce.Explainer(model, X)
    return explainer._session.predictors[0](explainer.space.encode(X[:20])).values


def write_lightgbm(folder):
    lightgbm = pytest.importorskip("lightgbm")
    model = lightgbm.LGBMClassifier(n_estimators=5, verbose=-1).fit(X, Y)
    model.booster_.save_model(folder / "model.txt")
    return folder / "model.txt", model.predict_proba(X[:20])[:, 1]


def write_xgboost(folder, name="model.json"):
    xgboost = pytest.importorskip("xgboost")
    model = xgboost.XGBClassifier(n_estimators=5).fit(X, Y)
    model.save_model(folder / name)
    return folder / name, model.predict_proba(X[:20])[:, 1]


def write_catboost(folder):
    catboost = pytest.importorskip("catboost")
    model = catboost.CatBoostClassifier(iterations=5, verbose=0, allow_writing_files=False).fit(X, Y)
    model.save_model(str(folder / "model.cbm"))
    return folder / "model.cbm", model.predict_proba(X[:20])[:, 1]


def write_catboost_json(folder):
    catboost = pytest.importorskip("catboost")
    model = catboost.CatBoostClassifier(iterations=5, verbose=0, allow_writing_files=False).fit(X, Y)
    model.save_model(str(folder / "model.json"), format="json")
    return folder / "model.json", model.predict_proba(X[:20])[:, 1]


def write_onnx(folder):
    skl2onnx = pytest.importorskip("skl2onnx")
    pytest.importorskip("onnxruntime")
    model = LogisticRegression().fit(X.to_numpy(), Y)
    options = {"options": {"zipmap": False}, "target_opset": 18}  # which the lowest runtime knows
    written = skl2onnx.to_onnx(model, X.to_numpy(dtype="float32")[:1], **options)
    (folder / "model.onnx").write_bytes(written.SerializeToString())
    return folder / "model.onnx", model.predict_proba(X.to_numpy()[:20])[:, 1]


def write_skops(folder, model=None):
    files = pytest.importorskip("skops.io")
    model = (model or make_pipeline(StandardScaler(), RandomForestClassifier(5, random_state=0))).fit(X, Y)
    files.dump(model, folder / "model.skops")
    return folder / "model.skops", model.predict_proba(X[:20])[:, 1]


WRITERS = [write_lightgbm, write_xgboost, write_catboost, write_catboost_json, write_onnx, write_skops]


@pytest.mark.parametrize("write", WRITERS)
def test_a_loaded_model_predicts_as_before(write, tmp_path):
    path, expected = write(tmp_path)
    found = outputs(load_model(path))
    found = found[:, 1] if found.ndim == 2 else found
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_skops_files_of_trees_and_boosters_are_trusted(tmp_path):
    lightgbm, xgboost = pytest.importorskip("lightgbm"), pytest.importorskip("xgboost")
    for model in (
        HistGradientBoostingClassifier(max_iter=3),
        lightgbm.LGBMClassifier(n_estimators=3, verbose=-1),
        xgboost.XGBClassifier(n_estimators=3),
    ):
        path, expected = write_skops(tmp_path, model)
        np.testing.assert_allclose(load_model(path).predict_proba(X[:20])[:, 1], expected, atol=1e-6)


def test_a_skops_file_of_boosting_with_categories_is_trusted_and_a_partial_of_another_function_is_not(tmp_path):
    files = pytest.importorskip("skops.io")
    frame = pd.DataFrame({"a": np.arange(60.0), "b": pd.Categorical(list("xyz") * 20)})
    model = HistGradientBoostingClassifier(max_iter=3).fit(frame, np.arange(60) % 2)
    files.dump(model, tmp_path / "categories.skops")
    loaded = load_model(tmp_path / "categories.skops")
    np.testing.assert_array_equal(loaded.predict_proba(frame), model.predict_proba(frame))
    files.dump(FunctionTransformer(functools.partial(os.system, "true")), tmp_path / "partial.skops")
    with pytest.raises(ModelFileError, match=r"not trusted: posix\.system"):
        load_model(tmp_path / "partial.skops")


class Sly(LogisticRegression):
    """A type that is on nobody's list."""


def test_a_skops_file_of_an_unknown_type_is_refused_whatever_lies_beside_it(tmp_path):
    path, _ = write_skops(tmp_path, Sly())
    (tmp_path / "trusted.txt").write_text("test_model_files.Sly")
    with pytest.raises(ModelFileError, match=r"types that are not trusted: .*Sly"):
        load_model(path)


class Bomb:
    """Runs code when it is unpickled."""

    def __reduce__(self):
        return Path.touch, (Path("exploded"),)


@pytest.mark.parametrize("name", ["model.pkl", "model.joblib", "model.skops", "model.txt", "model"])
def test_a_pickle_runs_nothing_unless_it_is_trusted(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(ModelFileError, match="is a pickle, and loading one runs any code that is in it"):
        load_model(name)
    assert not Path("exploded").exists()


def test_a_trusted_pickle_is_loaded(tmp_path):
    model = LogisticRegression().fit(X, Y)
    joblib.dump(model, tmp_path / "model.joblib")
    np.testing.assert_array_equal(load_model(tmp_path / "model.joblib", trust_pickle=True).coef_, model.coef_)


@pytest.mark.parametrize("write", WRITERS)
def test_a_damaged_file_gets_one_sentence(write, tmp_path):
    path, _ = write(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 3])
    with pytest.raises(ModelFileError, match="could not be read as a") as caught:
        load_model(path)
    assert "\n" not in str(caught.value)


def test_what_is_no_model_is_named(tmp_path):
    (tmp_path / "model.txt").write_text("hello")
    with pytest.raises(ModelFileError, match="is not a LightGBM model"):
        load_model(tmp_path / "model.txt")
    (tmp_path / "model.doc").write_text("hello")
    with pytest.raises(ModelFileError, match="not a model file of a known kind"):
        load_model(tmp_path / "model.doc")
    with pytest.raises(FileNotFoundError, match="there is no model file"):
        load_model(tmp_path / "other")


def mlflow_folder(folder, flavour, entries, file):
    (folder / "mlflow").mkdir()
    (folder / "mlflow" / file.name).write_bytes(file.read_bytes())
    lines = [f"    {name}: {value}" for name, value in entries.items()]
    text = "\n".join(["artifact_path: model", "flavors:", f"  {flavour}:", *lines, "  python_function:",
                      "    loader_module: os", "model_uuid: x", ""])  # fmt: skip
    (folder / "mlflow" / "MLmodel").write_text(text)
    return folder / "mlflow"


def test_mlflow_folders_are_read_by_their_flavour(tmp_path):
    path, expected = write_skops(tmp_path)
    entries = {"pickled_model": path.name, "serialization_format": "skops"}
    found = load_model(mlflow_folder(tmp_path, "sklearn", entries, path))
    np.testing.assert_allclose(found.predict_proba(X[:20])[:, 1], expected)


def test_an_estimator_of_a_booster_in_an_mlflow_folder_may_be_of_skops(tmp_path):
    lightgbm = pytest.importorskip("lightgbm")
    path, expected = write_skops(tmp_path, lightgbm.LGBMClassifier(n_estimators=3, verbose=-1))
    found = load_model(mlflow_folder(tmp_path, "lightgbm", {"data": path.name, "serialization_format": "skops"}, path))
    np.testing.assert_allclose(found.predict_proba(X[:20])[:, 1], expected)


def test_an_mlflow_folder_with_a_pickle_is_a_pickle(tmp_path):
    path = tmp_path / "model.pkl"
    path.write_bytes(pickle.dumps(Bomb()))
    entries = {"pickled_model": path.name, "serialization_format": "cloudpickle"}
    with pytest.raises(ModelFileError, match="is a pickle"):
        load_model(mlflow_folder(tmp_path, "sklearn", entries, path))


def test_an_mlflow_folder_cannot_point_outside(tmp_path):
    path, _ = write_skops(tmp_path)
    folder = mlflow_folder(tmp_path, "sklearn", {"pickled_model": "../model.skops"}, path)
    with pytest.raises(ModelFileError, match="no file of it"):
        load_model(folder)
    (folder / "MLmodel").write_text("flavors:\n  spark:\n    data: x\n")
    with pytest.raises(ModelFileError, match=r"flavours \['spark'\], none of which can be read"):
        load_model(folder)


def test_the_hash_of_a_folder_covers_names_and_contents(tmp_path):
    (tmp_path / "a").write_text("1")
    first = hash_model(tmp_path)
    (tmp_path / "a").rename(tmp_path / "b")
    second = hash_model(tmp_path)
    (tmp_path / "b").write_text("2")
    assert len({first, second, hash_model(tmp_path)}) == 3
