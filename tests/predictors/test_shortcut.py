"""Pipelines and estimators, asked without frames, give their own bits; what may answer otherwise is asked itself."""

import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pytest
import xgboost
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)

import gbce
from gbce.predictors import as_predictor

RNG = np.random.default_rng(5)
N = 240
TABLE = pd.DataFrame(
    {
        "amount": RNG.normal(3_000.0, 900.0, N),
        "term": RNG.integers(4, 60, N),
        "rate": RNG.random(N).astype(np.float32),
        "job": RNG.choice(["clerk", "nurse", "smith", "none"], N),
        "home": pd.Categorical(RNG.choice(["rent", "own", "free"], N)),
        "phone": RNG.random(N) < 0.4,
        "cards": RNG.integers(0, 5, N),
    }
)
TABLE.loc[RNG.random(N) < 0.1, "amount"] = np.nan
TABLE.loc[RNG.random(N) < 0.1, "job"] = None
NUMBERS = ["amount", "term", "rate", "cards"]
GOOD = TABLE["amount"].fillna(2_000.0) / 900.0 - TABLE["term"] / 20.0 + (TABLE["job"] == "nurse") + TABLE["cards"]
SCORE = GOOD.to_numpy()
WORDS = np.array(["bad", "fair", "good"])[np.digitize(SCORE, np.quantile(SCORE, [0.3, 0.6]))]
SPACE = gbce.Space.infer(TABLE)
SIZES = (1, 2, 49, 50, 51, 101, 1_201)


def spelled(**options):
    return OneHotEncoder(handle_unknown="ignore", **{"sparse_output": False, **options})


def prepared(numbers=None, levels=None, **options):
    """Text and categories to ``levels``, numbers to ``numbers``, as most tables are prepared."""
    return make_column_transformer(
        (levels or spelled(), make_column_selector(dtype_exclude="number")),
        (numbers or make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), NUMBERS),
        **options,
    )


STEPS = {
    "spelled out and scaled": prepared,
    "sparse": lambda: prepared(levels=spelled(sparse_output=True), sparse_threshold=1.0),
    "first level dropped": lambda: prepared(levels=spelled(drop="first")),
    "numbered": lambda: prepared(
        levels=OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-2)
    ),
    "other scalers": lambda: make_column_transformer(
        (make_pipeline(SimpleImputer(), RobustScaler(), MinMaxScaler()), ["term", "amount"]),
        (MaxAbsScaler(), ["cards"]),
        (FunctionTransformer(), ["rate"]),
        (spelled(), ["home", "phone"]),
    ),
    "whole numbers spelled out": lambda: make_column_transformer(
        (spelled(), ["cards", "term"]), (SimpleImputer(), ["amount"]), (KBinsDiscretizer(3), ["cards"])
    ),
    "passed on": lambda: make_column_transformer((spelled(), ["job", "home"]), remainder="passthrough"),
}
CORES = {
    "forest": lambda: RandomForestRegressor(12, random_state=0),
    "forest of classes": lambda: RandomForestClassifier(12, random_state=0),
    "histogram": lambda: HistGradientBoostingRegressor(max_iter=8),
    "histogram of classes": lambda: HistGradientBoostingClassifier(max_iter=8),
    "lightgbm": lambda: lightgbm.LGBMRegressor(n_estimators=8, n_jobs=1, verbose=-1),
    "lightgbm of classes": lambda: lightgbm.LGBMClassifier(n_estimators=8, n_jobs=1, verbose=-1),
    "xgboost": lambda: xgboost.XGBRegressor(n_estimators=8, n_jobs=1),
    "logistic": lambda: LogisticRegression(tol=0.1, max_iter=3_000),
    "ridge": Ridge,
    "ridge of classes": RidgeClassifier,
    "boosting": lambda: GradientBoostingClassifier(n_estimators=8),
}


def wish(core):
    return WORDS if "of classes" in core or core in ("logistic", "boosting") else SCORE


def fitted(steps, core, table=TABLE):
    return make_pipeline(STEPS[steps](), CORES[core]()).fit(table, wish(core))


def points(space=SPACE, table=TABLE, n=SIZES[-1]):
    """Rows of the data, columns mixed anew, and numbers anywhere, also beyond what the data hold."""
    x = space.encode(table)
    rng = np.random.default_rng(7)
    mixed = np.column_stack([rng.choice(column, n) for column in x.T])
    numbers = [space.position[name] for name in ("amount", "term", "cards") if name in space.position]
    far = rng.normal(1.0, 2.0, (n // 3, len(numbers))) * mixed[: n // 3, numbers]
    mixed[: n // 3, numbers] = np.where(space.discrete[numbers], np.round(far), far)
    return np.concatenate([x[: n // 4], mixed])[:n]


def own(model, rows):
    if hasattr(model, "predict_proba"):
        return model.predict_proba(rows)
    return model.decision_function(rows) if hasattr(model, "decision_function") else model.predict(rows)


def assert_same(model, space, rows, *, short=True, sizes=SIZES):
    """The predictor gives the model's own bits and labels for every size of batch, by a short way or not."""
    predictor = as_predictor(model, space)
    predictor(rows[:5], use_predict=True)
    assert getattr(predictor.ask, "short", False) is short or not hasattr(model, "predict_proba")
    for n in sizes:
        part = rows[:n]
        table = space.decode(part)
        said = predictor(part, use_predict=True)
        if said.classes is None or hasattr(model, "predict_proba"):
            expected = np.ascontiguousarray(own(model, table), dtype=float)
            if isinstance(model, Ridge):  # a product by BLAS, whose last bit may hang on the layout of the table
                np.testing.assert_allclose(said.values, expected, rtol=1e-13)
            else:
                assert said.values.tobytes() == expected.tobytes()
        if said.classes is not None:
            np.testing.assert_array_equal(np.asarray(said.classes)[said.decided], model.predict(table))
    assert predictor.meter.rows == (5 + sum(sizes)) * (2 if predictor.classes is not None else 1)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("steps", ["spelled out and scaled", "sparse"])
def test_last_steps_of_every_library(steps, core):
    if steps == "sparse" and "histogram" in core:
        pytest.skip("scikit-learn's histogram boosting takes no sparse matrix")
    short = not (steps == "sparse" and core in ("boosting", "xgboost"))  # asked as they are: zeros may be missing there
    assert_same(fitted(steps, core), SPACE, points(), short=short)


@pytest.mark.parametrize("steps", STEPS)
def test_steps_of_every_kind(steps):
    for core in ("histogram", "ridge") if steps not in ("passed on", "sparse") else ("forest",):
        assert_same(fitted(steps, core), SPACE, points(), sizes=(1, 50, 1_201))


def test_frame_of_numbers_needs_no_pipeline():
    table = TABLE[NUMBERS].fillna(2_000.0)
    space = gbce.Space.infer(table)
    rows = points(space, table)
    for core in CORES:
        model = CORES[core]().fit(table, wish(core))
        assert_same(model, space, rows, short=core != "boosting", sizes=(1, 50, 1_201))


def test_columns_in_another_order():
    table = TABLE[["phone", "cards", "home", "amount", "job", "rate", "term"]]
    model = fitted("spelled out and scaled", "forest of classes", table)
    predictor = as_predictor(model, SPACE)
    rows = points()
    predictor(rows[:5])
    assert predictor.ask.short
    expected = model.predict_proba(SPACE.decode(rows)[list(table.columns)])
    np.testing.assert_array_equal(predictor(rows).values, expected)


def test_frames_of_polars():
    part = TABLE[["amount", "term", "job", "cards"]]
    table = pl.DataFrame(part.astype(object).where(part.notna(), None).to_dict("list"))
    steps = make_column_transformer((spelled(), ["job"]), (SimpleImputer(), ["amount", "term"]))
    model = make_pipeline(steps, LogisticRegression(tol=0.1, max_iter=3_000)).fit(table, WORDS)
    space = gbce.Space.infer(table)
    assert_same(model, space, points(space, table), sizes=(1, 50, 300))


def test_lightgbm_reads_its_categories():
    table = TABLE.drop(columns="job").assign(home=TABLE["home"].cat.reorder_categories(["own", "rent", "free"]))
    space = gbce.Space.infer(table)
    for core in ("lightgbm", "lightgbm of classes"):
        assert_same(CORES[core]().fit(table, wish(core)), space, points(space, table))


def test_trees_know_missing_values_and_edges():
    table = TABLE[NUMBERS]
    space = gbce.Space.infer(table)
    forest = ExtraTreesRegressor(9, random_state=0).fit(table, SCORE)
    edges = np.unique(np.concatenate([tree.tree_.threshold for tree in forest.estimators_]))
    rows = points(space, table)
    amounts = np.random.default_rng(0).choice(edges, len(rows))
    rows[:, 0] = np.where(np.arange(len(rows)) % 3 == 0, np.nextafter(amounts, np.inf), amounts)
    rows[::7, 0] = np.nan
    for model in (forest, HistGradientBoostingRegressor(max_iter=8).fit(table, SCORE)):
        assert_same(model, space, rows)


def test_level_that_the_model_never_saw():
    space = gbce.Space.infer(TABLE, levels={"job": ["clerk", "nurse", "smith", "none", "pilot"]})
    rows = points(space)
    rows[::3, space.position["job"]] = 4
    assert_same(fitted("spelled out and scaled", "logistic"), space, rows)
    refusing = make_pipeline(prepared(levels=OneHotEncoder(sparse_output=False)), Ridge()).fit(TABLE, SCORE)
    predictor = as_predictor(refusing, space)
    assert np.isfinite(predictor(rows[1:2]).values).all()
    assert not predictor.ask.short
    with pytest.raises(gbce.PredictionError, match="unknown categories"):
        predictor(rows[:1])


def test_values_that_no_table_holds_are_put_to_the_model():
    model = make_pipeline(make_column_transformer((spelled(), ["cards"]), (MinMaxScaler(), ["term"])), Ridge())
    table = TABLE[["cards", "term"]]
    space = gbce.Space.infer(table)
    model.fit(table, SCORE)
    rows = np.array([[900.0, 5.0], [2.0, 7.0], [2.4, 7.9]])  # beyond all bounds; the last one is cut off by its column
    predictor = as_predictor(model, space)
    predictor(space.encode(table))
    assert predictor.ask.short
    np.testing.assert_array_equal(predictor(rows).values, model.predict(space.decode(rows)))


def test_missing_value_that_the_model_refuses_is_refused():
    model = make_pipeline(make_column_transformer((StandardScaler(), ["amount", "term"])), LinearRegression())
    table = TABLE[["amount", "term"]]
    model.fit(table.fillna(0.0), SCORE)
    predictor = as_predictor(model, space := gbce.Space.infer(table))
    full = space.encode(table)
    full = full[~np.isnan(full).any(axis=1)]
    for _ in range(2):
        np.testing.assert_array_equal(predictor(full).values, model.predict(space.decode(full)))
        with pytest.raises(gbce.PredictionError, match="NaN"):
            predictor(np.array([[np.nan, 5.0]]))


class Doubled(Ridge):
    def predict(self, X):
        return 2 * super().predict(X)


class Shifted(StandardScaler):
    def transform(self, X, copy=None):
        return super().transform(X, copy) + 1.0


class Halved(Pipeline):
    def predict(self, X, **params):
        return 0.5 * super().predict(X, **params)


def patched(model):
    model.predict = lambda X: np.full(len(X), 7.0)
    return model


def patched_step(model):
    scaler = model.steps[0][1]
    plain = type(scaler).transform
    scaler.transform = lambda X: 3.0 * plain(scaler, X)
    return model


NUMERIC = TABLE[NUMBERS].fillna(2_000.0)
OTHERS = {
    "class of the user": lambda: make_pipeline(StandardScaler(), Doubled()),
    "step of the user": lambda: make_pipeline(Shifted(), Ridge()),
    "pipeline of the user": lambda: Halved([("scaled", StandardScaler()), ("ridge", Ridge())]),
    "forest in a pipeline of the user": lambda: Halved(
        [("scaled", StandardScaler()), ("forest", RandomForestRegressor(5, n_jobs=1, random_state=0))]
    ),
    "function of the user": lambda: make_pipeline(FunctionTransformer(np.cumsum, kw_args={"axis": 1}), Ridge()),
    "products": lambda: make_pipeline(PolynomialFeatures(2), StandardScaler(), Ridge()),
}


@pytest.mark.parametrize("what", OTHERS)
def test_what_may_answer_otherwise_is_asked_itself(what):
    space = gbce.Space.infer(NUMERIC)
    assert_same(OTHERS[what]().fit(NUMERIC, SCORE), space, points(space, NUMERIC), short=False, sizes=(1, 60))


@pytest.mark.parametrize("patch", [patched, patched_step])
def test_method_that_was_put_in_is_heard(patch):
    space = gbce.Space.infer(NUMERIC)
    rows = points(space, NUMERIC)
    for core in (Ridge(), RandomForestRegressor(5, random_state=0)):
        model = make_pipeline(StandardScaler(), core).fit(NUMERIC, SCORE)
        assert_same(patch(model), space, rows, short=False, sizes=(1, 60))
    later = make_pipeline(StandardScaler(), Ridge()).fit(NUMERIC, SCORE)
    predictor = as_predictor(later, space)
    predictor(rows)
    assert predictor.ask.short
    patch(later)
    np.testing.assert_array_equal(predictor(rows).values, later.predict(space.decode(rows)))


@pytest.mark.parametrize("core", ["forest", "histogram", "lightgbm", "ridge", "logistic"])
def test_new_fit_is_followed(core):
    model = fitted("spelled out and scaled", core)
    rows = points()
    predictor = as_predictor(model, SPACE)
    predictor(rows)
    assert predictor.ask.short
    backwards = TABLE.iloc[::-1].assign(term=TABLE["term"] * 2)
    anew = (
        lambda: model.fit(backwards, wish(core)),
        lambda: model[-1].fit(model[:-1].transform(TABLE), wish(core)),
    )
    for again in anew:
        again()
        np.testing.assert_array_equal(predictor(rows[:60]).values, own(model, SPACE.decode(rows[:60])))


def test_short_way_that_differs_is_not_taken(monkeypatch):
    from gbce.predictors import _preprocessing as _prepared

    worked = _prepared._apply_operations
    monkeypatch.setattr(
        _prepared, "_apply_operations", lambda values, numbers: np.nextafter(worked(values, numbers), np.inf)
    )
    assert_same(fitted("spelled out and scaled", "forest"), SPACE, points(), short=False, sizes=(1, 60))


def test_model_of_an_unknown_kind_is_given_the_same_matrix():
    for core in (GaussianNB(), DummyClassifier(strategy="prior")):
        model = make_pipeline(prepared(), core).fit(TABLE, WORDS)
        assert_same(model, SPACE, points(), sizes=(1, 60))


def test_explanation_is_the_same_without_it(monkeypatch):
    from gbce.predictors import _fast as _shortcut

    model = fitted("spelled out and scaled", "forest of classes")
    row = TABLE[(model.predict(TABLE) == "bad") & TABLE["amount"].notna()].iloc[[0]]

    def explained():
        explainer = gbce.Explainer(model, TABLE, sampler=gbce.Importance(n_candidates=500, n_draws=100), policy=None)
        return explainer.explain(row, "good", rules=["Nearest", "Mean"], seed=0)

    quick = explained()
    monkeypatch.setattr(_shortcut.Shortcut, "compile", lambda self, method: None)
    plain = explained()
    pd.testing.assert_frame_equal(quick.counterfactuals, plain.counterfactuals, check_exact=True)
    np.testing.assert_array_equal(quick.draws.pool.x, plain.draws.pool.x)
    assert quick.diagnostics["n_model_rows"] == plain.diagnostics["n_model_rows"]
    assert quick.diagnostics["n_model_calls"] == plain.diagnostics["n_model_calls"]


@pytest.mark.filterwarnings("ignore:.*gblinear:UserWarning")
def test_boosters_alone():
    table = NUMERIC.to_numpy(dtype=float)
    space = gbce.Space.infer(table)
    rows = points(space, table)
    rows[::5, 1] = np.nan
    labels = (np.median(SCORE) < SCORE).astype(int)
    booster = xgboost.train({"objective": "binary:logistic", "nthread": 1}, xgboost.DMatrix(table, labels), 8)
    plain = xgboost.train({"objective": "reg:squarederror", "nthread": 1}, xgboost.DMatrix(table, SCORE), 8)
    linear = xgboost.train({"booster": "gblinear", "nthread": 1}, xgboost.DMatrix(table, SCORE), 8)
    for n in (1, 50, 1_201):
        part = rows[:n]
        p = booster.predict(xgboost.DMatrix(part)).astype(float)
        np.testing.assert_array_equal(as_predictor(booster, space)(part).values, np.column_stack([1.0 - p, p]))
        for other in (plain, linear):
            np.testing.assert_array_equal(as_predictor(other, space)(part).values, other.predict(xgboost.DMatrix(part)))
    alone = lightgbm.train({"verbose": -1, "num_threads": 1}, lightgbm.Dataset(table, SCORE), 8)
    for n in SIZES:
        np.testing.assert_array_equal(as_predictor(alone, space)(rows[:n]).values, alone.predict(rows[:n]))
