"""In which order the data have their columns does not matter where the model knows its own."""

import lightgbm
import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import gbce
from gbce.metrics._pointwise import deviations, offsets

RNG = np.random.default_rng(0)
NUMBERS = pd.DataFrame(RNG.normal(size=(150, 4)), columns=["income", "age", "debt", "rate"])
MIXED = NUMBERS.assign(job=pd.Categorical(RNG.choice(["boss", "clerk", "none"], 150)), n=RNG.integers(0, 5, 150))
Y = NUMBERS["income"] - 2 * NUMBERS["debt"] + 0.5 * np.abs(NUMBERS["age"])
QUICK = gbce.SMC(n_candidates=500, n_draws=100)
PLACE = int(Y.argmin())


def encoded(last):
    return make_pipeline(make_column_transformer((OneHotEncoder(), ["job"]), remainder=StandardScaler()), last)


MODELS = {
    "linear": (Ridge().fit(NUMBERS, Y), NUMBERS),
    "boosting": (HistGradientBoostingRegressor(max_iter=5).fit(NUMBERS, Y), NUMBERS),
    "pipeline": (encoded(LogisticRegression()).fit(MIXED, Y > 0), MIXED),
    "forest": (encoded(RandomForestRegressor(5, random_state=0)).fit(MIXED, Y), MIXED),
    "lightgbm": (lightgbm.LGBMRegressor(n_estimators=5, verbose=-1, n_jobs=1).fit(MIXED, Y), MIXED),
}


def explained(model, data, **options):
    space = gbce.Space.infer(data, immutable=["rate"])
    explainer = gbce.Explainer(model, data, space=space, sampler=QUICK, **options)
    target = gbce.Class(True) if explainer._session.predictors[0].classes else gbce.AtLeast(1.0)
    return explainer, explainer.explain(data.iloc[PLACE], target, seed=0)


@pytest.mark.parametrize("name", MODELS)
def test_another_order_of_columns_gives_the_same_answer(name):
    model, data = MODELS[name]
    mixed = data[list(RNG.permutation(data.columns))]
    mixed = mixed if list(mixed) != list(data) else data[list(data)[::-1]]
    (explainer, one), (again, other) = explained(model, data), explained(model, mixed)
    assert np.array_equal(one.draws.x, other.draws.x)
    assert one.answer.sentence == other.answer.sentence
    assert list(other.counterfactuals) == list(mixed)  # tables have the user's order
    pd.testing.assert_frame_equal(one.counterfactuals, other.counterfactuals[list(data)], check_exact=True)
    pd.testing.assert_frame_equal(one.pointwise, other.pointwise, check_exact=True)
    table = explainer.explain_many(mixed.iloc[[PLACE]], one.target, seed=0, progress=False)
    assert table.answers["sentence"].tolist() == [one.answer.sentence]
    said = np.asarray(model.predict(data.iloc[:9]))
    ask = again._session.predictors[0]
    outputs = ask(again._session.data[:9], use_predict=True)
    assert np.array_equal(said, outputs.values if outputs.decided is None else np.array(ask.classes)[outputs.decided])


def test_a_function_has_the_order_of_the_data():
    data = NUMBERS[["rate", "debt", "age", "income"]]
    explainer = gbce.Explainer(lambda frame: frame["income"] - frame["debt"], data, sampler=QUICK)
    assert explainer.space.names == tuple(data.columns)


def test_options_by_position_are_those_of_the_data():
    model, data = MODELS["linear"]
    mixed = data[["rate", "debt", "age", "income"]]
    wide = gbce.Gaussian(cov=np.diag([1.0, 4.0, 9.0, 16.0]))
    assert gbce.Explainer(model, mixed, prior=wide).space.names == tuple(mixed.columns)
    space = gbce.Explainer(model, mixed).space
    assert space.names == tuple(data.columns)
    by_name = {"rate": 0.1, "debt": 0.2, "age": 0.3, "income": 0.4}
    assert np.array_equal(deviations(by_name, space), deviations([0.1, 0.2, 0.3, 0.4], space))
    drawn = offsets(lambda rng, n: np.tile([0.1, 0.2, 0.3, 0.4], (n, 1)), space, RNG, 2)
    assert drawn[0].tolist() == [by_name[name] for name in data.columns]
