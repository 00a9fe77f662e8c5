"""A model file of every kind, fitted on categories and missing values: from an empty folder to a page and a letter."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from gbce.cli import main

NUMBERS = ["hours", "vibration"]
COLUMNS = ["seal", "bay", *NUMBERS]
SETTINGS = """[data]
index = "pump"
drop = ["state"]

[model]
classes = {classes}
missing = "unknown"

[reasons]
seal = "Kind of seal"
bay = "Bay"
hours = "Hours in service"
vibration = "Vibration"
"""
LABELS, CODES = '["keep", "repair"]', '["repair", "keep"]'  # of models on strings, and of boosters on zeros and ones
QUIET = {"iterations": 20, "verbose": 0, "allow_writing_files": False, "random_seed": 0}


def simulate_pumps():
    """Return pumps whose seals and vibrations are missing for some, and whose bays are codes."""
    rng = np.random.default_rng(4)
    n = 400
    seals = pd.Series(rng.choice(["soft", "hard", "steel"], n)).where(rng.random(n) > 0.1)
    vibration = pd.Series(rng.gamma(2, 1.0, n).round(2)).where(rng.random(n) > 0.1)
    pumps = pd.DataFrame({"pump": [f"P{i}" for i in range(n)], "seal": seals, "bay": rng.integers(1, 4, n)})
    pumps = pumps.assign(hours=rng.integers(100, 9000, n), vibration=vibration)
    wear = pumps["hours"] / 2500 + vibration.fillna(2) + (seals == "soft") + (pumps["bay"] == 3)
    return pumps.assign(state=np.where(wear < wear.median(), "keep", "repair"))


PUMPS = simulate_pumps()
IS_KEPT = (PUMPS["state"] == "keep").astype(int)
CATEGORIES = PUMPS[COLUMNS].astype({"seal": "category"})
FOR_CATBOOST = PUMPS[COLUMNS].fillna({"seal": "unknown"})


def fit_catboost(**options):
    catboost = pytest.importorskip("catboost")
    model = catboost.CatBoostClassifier(**QUIET, cat_features=["seal", "bay"], **options)
    return model.fit(FOR_CATBOOST, PUMPS["state"])


def write_catboost(path):
    fit_catboost().save_model(str(path))


def write_catboost_json(path):
    from importlib import import_module

    model = fit_catboost()
    pool = import_module("catboost").Pool(FOR_CATBOOST, PUMPS["state"], cat_features=["seal", "bay"])
    model.save_model(str(path), format="json", pool=pool)


def write_catboost_one_hot(path):
    fit_catboost(one_hot_max_size=10).save_model(str(path), format="json")


def fit_lightgbm():
    lightgbm = pytest.importorskip("lightgbm")
    return lightgbm.LGBMClassifier(n_estimators=20, verbose=-1).fit(CATEGORIES, IS_KEPT)


def write_lightgbm(path):
    fit_lightgbm().booster_.save_model(path)


def write_xgboost(path):
    xgboost = pytest.importorskip("xgboost")
    xgboost.XGBClassifier(n_estimators=20, enable_categorical=True).fit(CATEGORIES, IS_KEPT).save_model(path)


def write_onnx(path):
    skl2onnx = pytest.importorskip("skl2onnx")
    pytest.importorskip("onnxruntime")
    from skl2onnx.common.data_types import FloatTensorType, StringTensorType

    prepare = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["seal"]), (SimpleImputer(), ["bay", *NUMBERS])
    )
    model = make_pipeline(prepare, GradientBoostingClassifier(n_estimators=20, random_state=0))
    inputs = [(name, (StringTensorType if name == "seal" else FloatTensorType)([None, 1])) for name in COLUMNS]
    options = {"options": {"zipmap": False}, "target_opset": 18}  # which the lowest runtime knows
    known = PUMPS[COLUMNS].fillna({"seal": "None"})  # strings have no missing value there
    model.fit(known, PUMPS["state"])
    path.write_bytes(skl2onnx.convert_sklearn(model, initial_types=inputs, **options).SerializeToString())


def write_skops(path):
    files = pytest.importorskip("skops.io")
    model = HistGradientBoostingClassifier(max_iter=20, categorical_features=[0])
    files.dump(model.fit(CATEGORIES, PUMPS["state"]), path)


def write_mlflow(path):
    """Write the estimator, which MLflow writes with skops."""
    mlflow = pytest.importorskip("mlflow")
    mlflow.lightgbm.save_model(fit_lightgbm(), str(path))


def write_mlflow_booster(path):
    """Write a booster, which MLflow writes in LightGBM's own format, and names skops as well."""
    mlflow = pytest.importorskip("mlflow")
    mlflow.lightgbm.save_model(fit_lightgbm().booster_, str(path))


KINDS = {
    "model.cbm": (write_catboost, LABELS),
    "model.json": (write_catboost_json, LABELS),
    "one-hot.json": (write_catboost_one_hot, LABELS),
    "model.txt": (write_lightgbm, CODES),
    "booster.json": (write_xgboost, CODES),
    "model.ubj": (write_xgboost, CODES),
    "model.onnx": (write_onnx, LABELS),
    "model.skops": (write_skops, LABELS),
    "folder": (write_mlflow, CODES),
    "booster": (write_mlflow_booster, CODES),
}


@pytest.fixture
def commands(tmp_path, monkeypatch, capsys):
    """Return a function that runs one command in an empty folder, and returns its code and what it printed."""
    monkeypatch.chdir(tmp_path)
    PUMPS.to_csv("pumps.csv", index=False)

    def call(words):
        code = main([*words.split(), "--quiet"] if words.startswith("explain") else words.split())
        out, err = capsys.readouterr()
        return code, out + err

    return call


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")  # of writers
def test_a_page_and_a_letter_of_every_kind_of_file(name, commands, tmp_path):
    write, classes = KINDS[name]
    write(tmp_path / name)
    (tmp_path / "own.toml").write_text(SETTINGS.format(classes=classes))
    wanted = "--row P7 --settings own.toml --target keep --no-posterior"
    assert commands(f"explain {name} pumps.csv {wanted} -o row.gbce") == (0, "")
    assert commands("report row.gbce -o page.html")[0] == 0
    assert commands("letters row.gbce --settings own.toml -o letter.html")[0] == 0
    assert "'keep'" in (tmp_path / "page.html").read_text()
    assert "not legal advice" in (tmp_path / "letter.html").read_text()


def test_missing_categories_of_catboost_need_their_string(commands, tmp_path):
    write_catboost(tmp_path / "model.cbm")
    (tmp_path / "own.toml").write_text(SETTINGS.format(classes=LABELS).replace("missing =", "# missing ="))
    code, said = commands("explain model.cbm pumps.csv --row P7 --settings own.toml --target keep")
    assert code == 1
    assert said.startswith("gbce: the column 'seal' has missing values, for which CatBoost is fitted with a string")
    assert said.count("\n") == 1


def test_a_row_in_json_has_codes_and_missing_categories_too(commands, tmp_path):
    """As in the table, where the bay is a code, which CatBoost reads as a string."""
    write_catboost(tmp_path / "model.cbm")
    (tmp_path / "own.toml").write_text(SETTINGS.format(classes=LABELS))
    i = int(PUMPS["seal"].isna().to_numpy().nonzero()[0][0])
    (tmp_path / "row.json").write_text(PUMPS.loc[i, COLUMNS].to_json())
    found = []
    for row in (["--row", PUMPS.loc[i, "pump"]], ["--row", (tmp_path / "row.json").read_text()]):
        words = ["explain", "model.cbm", "pumps.csv", *row, "--settings", "own.toml", "--target", "keep"]
        assert main([*words, "--no-posterior", "--quiet", "-f", "json", "-o", "found.json"]) == 0
        found.append(json.loads((tmp_path / "found.json").read_text())["answer"])
    assert found[0] == found[1]


def test_an_onnx_file_without_names_of_classes_asks_for_the_setting(commands, tmp_path):
    write_onnx(tmp_path / "model.onnx")
    (tmp_path / "own.toml").write_text(SETTINGS.format(classes=LABELS).replace("classes =", "# classes ="))
    code, said = commands("explain model.onnx pumps.csv --row P7 --settings own.toml --target keep")
    assert (code, said.rstrip().endswith("by classes in [model] of the settings")) == (1, True), said
