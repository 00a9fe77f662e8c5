"""A frame of polars goes in, the model sees such frames, and tables come back."""

import datetime as dt
import importlib.util
from dataclasses import replace

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import gbce
from gbce.space import as_pandas

pl = pytest.importorskip("polars")

QUICK = gbce.Importance(n_candidates=400, n_draws=60)
RULES = [gbce.MAP(), gbce.Mean(), gbce.CVaR(n_perturb=8)]
LEVELS = ("none", "school", "university")


def mixed(n=120, seed=0):
    rng = np.random.default_rng(seed)
    days = [dt.date(2020, 1, 1) + dt.timedelta(days=int(k)) for k in rng.integers(0, 900, n)]
    return pl.DataFrame(
        {
            "age": pl.Series(rng.integers(18, 80, n), dtype=pl.Int16),
            "income": rng.normal(30, 8, n),
            "debt": pl.Series(rng.normal(size=n), dtype=pl.Float32),
            "job": np.array(["clerk", "cook", "pilot"])[rng.integers(0, 3, n)],
            "education": pl.Series(np.array(LEVELS)[rng.integers(0, 3, n)], dtype=pl.Enum(LEVELS)),
            "city": pl.Series(np.array(["Ulm", "Bonn"])[rng.integers(0, 2, n)], dtype=pl.Categorical),
            "member": rng.random(n) < 0.5,
            "since": days,
            "seen": pl.Series(
                [dt.datetime(2021, 1, 1, int(h)) for h in rng.integers(0, 24, n)], dtype=pl.Datetime("ms")
            ),
            "grade": pl.Series([None if k == 0 else int(k) for k in rng.integers(0, 9, n)], dtype=pl.UInt8),
        }
    )


DATA = mixed()


def score(frame):
    """A model that speaks polars and nothing else."""
    assert frame.schema == DATA.schema
    return frame.select(
        pl.col("income") / 8
        - pl.col("debt")
        + pl.when(pl.col("job") == "pilot").then(1.0).otherwise(0.0)
        + pl.col("education").to_physical().cast(pl.Float64)
        + pl.col("member").cast(pl.Float64)
        + pl.col("since").dt.year().cast(pl.Float64)
        - 2021
        + pl.col("grade").fill_null(0).cast(pl.Float64) / 10
    ).to_series()


def test_rows_come_back_with_the_schema_of_the_data():
    space = gbce.Space.infer(DATA)
    assert space.decode(space.encode(DATA)).equals(DATA)
    assert space.decode(space.encode(DATA)).schema == DATA.schema
    pd.testing.assert_frame_equal(space.frame(space.encode(DATA)), as_pandas(DATA))
    kinds = {feature.name: feature.kind for feature in space.features}
    assert (kinds["age"], kinds["job"], kinds["member"], kinds["since"]) == (
        "integer", "categorical", "boolean", "datetime",
    )  # fmt: skip


def test_rows_may_come_in_any_form():
    space = gbce.Space.infer(DATA)
    one = space.encode_row(DATA[3])
    named = DATA.row(3, named=True)
    for row in (named, as_pandas(DATA).iloc[[3]], pd.Series(named), DATA[3].select(sorted(DATA.columns))):
        np.testing.assert_array_equal(space.encode_row(row), one)


@pytest.mark.parametrize("rows", [DATA[:3], as_pandas(DATA).iloc[:3]], ids=["polars", "pandas"])
def test_a_model_of_polars_expressions_is_explained_saved_and_loaded(rows, tmp_path):
    wishes = {"immutable": ["age"], "increase": ["education"], "kinds": {"education": "ordinal"}}
    space = gbce.Space.infer(DATA, **wishes, constraints=["income >= 5"])
    explainer = gbce.Explainer(score, DATA, space=space, prior=gbce.Gaussian(), sampler=QUICK)
    row = rows[0] if isinstance(rows, pl.DataFrame) else rows.iloc[[0]]
    target = gbce.AtLeast(float(score(DATA)[0]) + 1.0)
    explanation = explainer.explain(row, target, rules=RULES, seed=0)
    chosen = explanation.counterfactuals
    assert isinstance(chosen, pd.DataFrame)
    assert chosen.index.name == "rule"
    assert list(chosen.columns) == DATA.columns
    assert (chosen["age"] == DATA["age"][0]).all()
    assert explanation.pointwise["reached"].any()
    again = gbce.load(explanation.save(tmp_path / "row.gbce"))
    assert again.space == explanation.space
    assert again.space.decode(again.draws.x).schema == DATA.schema
    assert again.space.decode(again.draws.x).equals(space.decode(explanation.draws.x))
    pd.testing.assert_frame_equal(again.counterfactuals, chosen)
    pd.testing.assert_frame_equal(explainer.decide(again, gbce.MAP()), explainer.decide(explanation, gbce.MAP()))
    judged = explainer.assess(explanation, rows[:2])
    assert len(judged) == 2
    store = {"store": tmp_path / "many", "keep": "draws"}
    table = explainer.explain_many(rows, target, rules=[gbce.MAP()], seed=0, progress=False, **store)
    assert len(table.counterfactuals) == 3
    assert gbce.load(sorted((tmp_path / "many" / "draws").glob("*.gbce"))[0]).space.layout == space.layout


def test_the_form_of_the_data_changes_no_number():
    pandas = as_pandas(DATA)
    seen = []

    def of_pandas(frame):
        seen.append(frame)
        return score(space.layout.restore(frame))

    space = gbce.Space.infer(DATA)
    target = gbce.AtLeast(float(score(DATA)[0]) + 1.0)
    one = gbce.Explainer(score, DATA, sampler=QUICK).explain(DATA[0], target, rules=RULES, seed=1)
    other = gbce.Explainer(of_pandas, pandas, sampler=QUICK).explain(pandas.iloc[[0]], target, rules=RULES, seed=1)
    np.testing.assert_array_equal(one.draws.x, other.draws.x)
    pd.testing.assert_frame_equal(one.counterfactuals, other.counterfactuals)
    assert all(isinstance(frame, pd.DataFrame) for frame in seen)


def outcome():
    return np.asarray(score(DATA)) > np.median(np.asarray(score(DATA)))


NUMBERS, WORDS = ["age", "income", "debt"], ["job", "city"]


def test_a_pipeline_fitted_on_polars_is_explained():
    part = DATA.select([*WORDS, *NUMBERS])
    prepare = ColumnTransformer([("n", StandardScaler(), NUMBERS), ("w", OneHotEncoder(), WORDS)])
    model = make_pipeline(prepare, LogisticRegression(max_iter=1000)).fit(part, outcome())
    row = part[int(np.flatnonzero(~model.predict(part))[0])]
    for data in (part, part.select(part.columns[::-1])):  # the model's own order is kept
        explainer = gbce.Explainer(model, data, prior=gbce.Gaussian(), sampler=QUICK)
        explanation = explainer.explain(row, gbce.Class(True), rules=[gbce.MAP()], seed=0)
        found = explanation.space.decode(explanation.decisions[0].x)
        assert isinstance(found, pl.DataFrame)
        assert found.columns == data.columns
        assert model.predict(found.select(part.columns))[0]
    table = explainer.explain_many(part[:3], gbce.Class(True), rules=[gbce.MAP()], seed=0, progress=False)
    assert len(table.counterfactuals) == 3


def test_eta_of_the_model_error_is_measured_on_polars():
    part = DATA.select(NUMBERS)
    y = np.asarray(score(DATA))
    model = LinearRegression().fit(part, y)
    explainer = gbce.Explainer(model, part, eta=gbce.ModelError(y), sampler=QUICK)
    explanation = explainer.explain(part[0], gbce.AtLeast(float(y[0]) + 1), rules=[gbce.MAP()], seed=0)
    assert explanation.mixture.eta > 0


@pytest.mark.parametrize("order", [1, -1])
def test_boosters_that_know_only_pandas_get_pandas(order):
    part = DATA.select(NUMBERS)
    pandas, y = as_pandas(part), outcome().astype(int)
    boosters = [
        lightgbm.train({"objective": "binary", "verbose": -1}, lightgbm.Dataset(pandas, y), 5),
        xgboost.train({"objective": "binary:logistic"}, xgboost.DMatrix(pandas, y), 5),
    ]
    if importlib.util.find_spec("catboost"):
        catboost = importlib.import_module("catboost")
        quiet = {"iterations": 5, "verbose": False, "allow_writing_files": False}
        boosters.append(catboost.CatBoostClassifier(**quiet).fit(pandas, y))
    for booster in boosters:
        explainer = gbce.Explainer(booster, part.select(NUMBERS[::order]), sampler=QUICK)
        explanation = explainer.explain(part[0], gbce.Class(1), rules=[gbce.MAP()], seed=0)
        assert explanation.counterfactuals.shape == (1, 3)


def test_lightgbm_fitted_on_pandas_takes_categories_of_polars():
    rng = np.random.default_rng(0)
    pandas = pd.DataFrame({"a": rng.normal(size=200), "job": pd.Categorical(rng.choice(["cook", "nurse"], 200))})
    y = pandas["a"] + 2 * (pandas["job"] == "nurse")
    model = lightgbm.LGBMRegressor(n_estimators=5, verbose=-1).fit(pandas, y)
    one, other = (
        gbce.Explainer(model, data, sampler=QUICK).explain(data[:1], gbce.AtLeast(1.5), rules=[gbce.MAP()], seed=0)
        for data in (pandas, pl.from_pandas(pandas))
    )
    np.testing.assert_array_equal(one.draws.outputs, other.draws.outputs)


def test_functions_of_the_frame_get_the_frame_of_the_data():
    def affordable(frame):
        return frame.select(pl.col("debt") <= pl.col("income")).to_series()

    def double(frame):
        return 2 * frame["a"]

    space = gbce.Space.infer(DATA, constraints=[affordable])
    explanation = gbce.Explainer(score, DATA, space=space, sampler=QUICK).explain(
        DATA[0], gbce.AtLeast(5.0), rules=[gbce.MAP()], seed=0
    )
    assert affordable(space.decode(explanation.draws.x)).all()
    frame = pl.DataFrame({"a": [1.0, 2.0], "b": [2.0, 4.0]})
    space = gbce.Space.infer(frame, computed={"b": double})
    np.testing.assert_array_equal(space.completed(np.array([[5.0, 0.0]]), np.array([1.0, 2.0])), [[5.0, 10.0]])


def test_a_whole_number_read_as_real_reaches_the_model_as_a_float():
    space = gbce.Space.infer(DATA, kinds={"age": "real"})
    x = space.encode(DATA)
    x[:, 0] += 0.5
    assert space.decode(x)["age"].dtype == pl.Float64
    assert space.decode(x)["age"][0] == DATA["age"][0] + 0.5


def test_a_space_adopts_the_frame_of_the_data():
    frame = DATA.select("income", "job")
    by_hand = gbce.Space(
        (gbce.Feature("income"), gbce.Feature("job", "categorical", levels=["cook", "pilot", "clerk"]))
    )
    adopted = by_hand.adopt(frame)
    assert adopted.decode(adopted.encode(frame)).equals(frame)
    of_pandas = gbce.Space.infer(as_pandas(frame))
    assert of_pandas.adopt(frame).decode(of_pandas.encode(frame)).equals(frame)
    assert isinstance(gbce.Space.infer(frame).adopt(as_pandas(frame)).decode(of_pandas.encode(frame)), pd.DataFrame)
    assert replace(adopted, layout=None) == by_hand.adopt(as_pandas(frame))


def test_lazy_and_odd_frames_are_refused_with_a_sentence():
    with pytest.raises(TypeError, match=r"LazyFrame is lazy.*\.collect\(\)"):
        gbce.Space.infer(DATA.lazy())
    with pytest.raises(TypeError, match=r"column 'a' has the type List"):
        gbce.Space.infer(pl.DataFrame({"a": [[1], [2]]}))
    space = gbce.Space.infer(DATA)
    with pytest.raises(ValueError, match=r"row: column 'job' holds 'king' .*a level that the data do not have"):
        space.encode_row(DATA[0].with_columns(job=pl.lit("king")))
    with pytest.raises(ValueError, match=r"row lacks \['age'\]"):
        space.encode_row(DATA[0].drop("age"))


def test_tables_of_pyarrow_go_in_and_out():
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"n": pa.array([1, 2, 5], pa.int32()), "job": ["a", "b", "a"], "x": [1.0, 2.0, 4.0]})
    space = gbce.Space.infer(table)
    assert space.decode(space.encode(table)).equals(table)
    real = gbce.Space.infer(table, kinds={"n": "real"})
    assert real.decode(real.encode(table) + 0.25)["n"].to_pylist() == [1.25, 2.25, 5.25]
