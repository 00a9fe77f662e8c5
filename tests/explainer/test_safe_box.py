"""Safe boxes against random points: all of them reach, and the ranges are more than points."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gbce
from gbce.predictors import look_inside
from gbce.search import find_safe_ranges
from gbce.trees import read_cells


def make_table(n=300):
    rng = np.random.default_rng(8)
    frame = pd.DataFrame(
        {
            "income": rng.normal(50, 12, n).round(1),
            "debt": rng.normal(15, 5, n).round(1),
            "age": rng.integers(18, 80, n),
            "owner": rng.random(n) < 0.4,
        }
    )
    y = frame["income"] - 1.5 * frame["debt"] + 0.2 * frame["age"] + 5 * frame["owner"] + rng.normal(0, 2, n)
    return frame, np.asarray(y)


FRAME, Y = make_table()
LABELS = np.where(Y > 40, "good", np.where(Y > 25, "fair", "bad"))
MODELS = {
    "boosting": (GradientBoostingRegressor(n_estimators=30, random_state=0).fit(FRAME, Y), None),
    "forest": (RandomForestRegressor(20, random_state=0).fit(FRAME, Y), None),
    "scaled": (
        make_pipeline(StandardScaler(), RandomForestRegressor(10, max_depth=5, random_state=0)).fit(FRAME, Y),
        None,
    ),
    "classes": (GradientBoostingClassifier(n_estimators=10, random_state=0).fit(FRAME, LABELS), "good"),
}


def draw_within(rng, space, ranges, x, n=400):
    """Random rows of a box, half of them at its very ends."""
    rows = np.repeat(x[None, :], n, axis=0)
    for j, low, high in zip(ranges.features, ranges.low, ranges.high, strict=True):
        low, high = max(low, x[j] - 50 * space.scale[j]), min(high, x[j] + 50 * space.scale[j])
        values = rng.uniform(low, high, n)
        if space.features[j].discrete:
            values = np.clip(np.round(values), low, high)
        rows[:, j] = np.where(rng.random(n) < 0.5, rng.choice([low, high], n), values)
    return rows


@pytest.mark.parametrize("name", MODELS)
def test_every_point_of_a_box_reaches(name):
    model, label = MODELS[name]
    space = gbce.Space.infer(FRAME, bounds={"income": (None, None)})
    x, rng = space.encode(FRAME), np.random.default_rng(1)
    trees = read_cells(look_inside(model, space), space, x)
    said = model.predict(FRAME)
    level = np.quantile(said, 0.6) if label is None else None
    wishes = [(gbce.Class(label), said == label)] if label else [
        (gbce.AtLeast(level, scale=1).resolve(1.0), said >= level),
        (gbce.Range(level - 8, level, scale=1).resolve(1.0), (said >= level - 8) & (said <= level)),
    ]  # fmt: skip
    wide = 0
    for wish, reached in wishes:
        for i in np.flatnonzero(reached)[:12]:
            which = np.sort(rng.choice(4, 3, replace=False))
            ranges = find_safe_ranges(trees, space, x[i], x[i], wish, which)
            if ranges is None:
                continue
            assert set(ranges.features) <= set(which)
            at = x[i][ranges.features]
            assert (ranges.low <= at).all()
            assert (at <= ranges.high).all()
            then = model.predict(space.decode(draw_within(rng, space, ranges, x[i])))
            if label:
                assert (then == label).all()
            else:
                low, high = wish.accepted()
                assert ((then >= low) & (then <= high)).all()
            wide += int(((ranges.high - ranges.low) / space.scale[ranges.features] > 0.5).any())
    assert wide >= 8, wide  # not one of them only a hair wide


@pytest.fixture(scope="module")
def explained():
    explainer = gbce.Explainer(MODELS["boosting"][0], FRAME, prior=gbce.Gaussian(), sampler=gbce.Importance(500))
    row = {"income": 30.0, "debt": 20.0, "age": 40, "owner": False}
    return explainer, explainer.explain(row, gbce.AtLeast(25), rules=[gbce.Nearest()], seed=0)


def test_the_answer_says_where_it_holds(explained, tmp_path):
    explainer, explanation = explained
    answer = explanation.answer
    assert answer.safe.sentence.startswith("This holds anywhere with ")
    assert answer.safe.sentence in answer.sentence
    assert answer.safe.contains(answer.decision.x[None, :])[0]
    assert list(answer.safe.table.columns) == ["low", "high"]
    assert set(answer.safe.features) <= set(answer.changes.index)
    assert answer.to_dict()["safe"] == answer.safe.to_dict()
    again = gbce.load(explanation.save(tmp_path / "safe.gbce")).answer
    assert again.sentence == answer.sentence
    assert again.safe.table.equals(answer.safe.table)
    assert explainer.safe_box(explanation).to_dict() == answer.safe.to_dict()


def test_any_decision_and_any_columns_have_a_box(explained):
    explainer, explanation = explained
    free = explainer.safe_box(explanation, features=["age"])
    assert free.features == ("age",)
    assert explainer.safe_box(explanation, "Nearest", features=["income", "debt", "age"]) is not None
    with pytest.raises(ValueError, match="no decision 'Best'"):
        explainer.safe_box(explanation, "Best")
    with pytest.raises(ValueError, match="no columns"):
        explainer.safe_box(explanation, features=["height"])


def test_models_that_are_no_trees_have_none():
    numbers = FRAME.drop(columns="owner")
    explainer = gbce.Explainer(LinearRegression().fit(numbers, Y), numbers, sampler=gbce.Importance(500))
    explanation = explainer.explain(numbers.iloc[0], gbce.AtLeast(45), rules=[gbce.Nearest()], seed=0)
    assert explanation.answer.safe is None
