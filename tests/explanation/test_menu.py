"""The menu of few columns against enumeration: what reaches, what cannot, and what it costs."""

from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

import gbce

COLUMNS = ("a", "b", "c", "e")
VALUES = (0, 1, 2, 3)


def small_table():
    """All rows of four integers from 0 to 3, shuffled."""
    rows = np.array(list(product(VALUES, repeat=len(COLUMNS))))
    return pd.DataFrame(np.random.default_rng(0).permutation(rows), columns=list(COLUMNS))


def score(x):
    """Two columns are needed together, a third one alone, and the fourth is of no use."""
    return np.minimum(x["a"], x["b"]) + np.where(x["c"] == 3, 2, 0)


@pytest.fixture(scope="module", params=["tree", "function", "forest"])
def asked(request):
    data = small_table()
    fitted = {
        "tree": DecisionTreeRegressor(random_state=0).fit(data, score(data)),
        "function": lambda x: score(x).to_numpy(dtype=float),
        "forest": RandomForestClassifier(30, random_state=0).fit(data, score(data) >= 2),
    }
    model = fitted[request.param]
    target = gbce.Class(True) if request.param == "forest" else gbce.AtLeast(2.0)
    space = gbce.Space.infer(data, bounds={name: (0, 3) for name in COLUMNS})
    explainer = gbce.Explainer(model, data, space=space)
    row = {"a": 0, "b": 0, "c": 0, "e": 1}
    return model, target, explainer.explain(row, target, seed=0)


def reaches(model, target, rows):
    if isinstance(target, gbce.Class):
        return model.predict(rows) == target.label
    return (model.predict(rows) if hasattr(model, "predict") else model(rows)) >= target.y


def enumerate_set(model, target, explanation, columns):
    """Return whether changing some or all of the columns reaches, and the least cost of changing all of them."""
    row = explanation.space.frame(explanation.x0[None, :])
    options = [VALUES if name in columns else [int(row[name].iloc[0])] for name in COLUMNS]
    rows = pd.DataFrame(list(product(*options)), columns=list(COLUMNS))
    good = rows[reaches(model, target, rows)]
    scale = dict(zip(explanation.space.names, explanation.space.scale, strict=True))
    change = pd.DataFrame({name: (good[name] - row[name].iloc[0]).abs() / scale[name] for name in columns})
    own = change[(change > 0).all(axis=1)].sum(axis=1)
    return len(good) > 0, float(own.min()) if len(own) else np.inf


def test_the_menu_agrees_with_enumeration(asked):
    model, target, explanation = asked
    menu = explanation.menu()
    by_set = {frozenset(line["columns"]): line for line in menu.table.to_dict("records")}
    truth = {
        frozenset(one): enumerate_set(model, target, explanation, one)
        for size in (1, 2, 3)
        for one in combinations(COLUMNS, size)
    }
    minimal = [one for one, (can, _) in truth.items() if can and not any(truth[s][0] for s in truth if s < one)]
    assert minimal
    for one in minimal:
        assert by_set[one]["verdict"] == "reaches"
        assert by_set[one]["cost"] == pytest.approx(truth[one][1])
    for one, line in by_set.items():
        can, least = truth[one]
        if line["verdict"] == "reaches":
            assert line["cost"] >= least - 1e-9
        else:
            assert not can
    assert menu.tried >= len(by_set)


def test_impossible_is_proved_and_only_for_models_that_can_be_read(asked):
    model, target, explanation = asked
    table = explanation.menu().table
    never = table[table["verdict"] == "impossible"]
    if hasattr(model, "predict"):
        assert len(never)
        assert never["proof"].str.startswith("Impossible within these bounds").all()
        assert "nothing found" not in set(table["verdict"])
    else:
        assert len(never) == 0
        assert "nothing found" in set(table["verdict"])
    for columns in never["columns"]:
        assert not enumerate_set(model, target, explanation, columns)[0]


def test_points_of_the_menu_change_just_their_columns_and_reach(asked):
    model, target, explanation = asked
    found = explanation.strategies
    rows = explanation.space.frame(found.x)
    assert reaches(model, target, rows).all()
    table = explanation.menu(4).table
    good = table[table["verdict"] == "reaches"]
    assert (good["cost"] <= good["reliable_cost"].fillna(np.inf)).all()
    assert good["sentence"].str.len().gt(0).all()
    assert table["share"].sum() <= 1.0 + 1e-9


def test_a_linear_model_proves_sets_that_cannot_reach():
    rng = np.random.default_rng(0)
    data = pd.DataFrame(rng.normal(size=(300, 4)), columns=list(COLUMNS))
    weights = np.array([3.0, 1.0, 0.2, 0.0])
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(data, data @ weights > 0)
    space = gbce.Space.infer(data, bounds={name: (-2.5, 2.5) for name in COLUMNS})
    row = dict.fromkeys(COLUMNS, 0.0) | {"a": -1.0}
    explanation = gbce.Explainer(model, data, space=space).explain(row, gbce.Class(True), seed=0)
    table = explanation.menu().table
    corners = {
        frozenset(one): max(
            model.decision_function(pd.DataFrame([row | dict(zip(one, ends, strict=True))], columns=list(COLUMNS)))[0]
            for ends in product((-2.5, 2.5), repeat=len(one))
        )
        for size in (1, 2, 3)
        for one in combinations(COLUMNS, size)
    }
    assert (table["verdict"] == "impossible").any()
    for line in table.to_dict("records"):
        assert (corners[frozenset(line["columns"])] > 0) == (line["verdict"] == "reaches")


def test_it_reads_well_and_has_a_limit(asked):
    explanation = asked[-1]
    menu = explanation.menu(1)
    assert (menu.table["size"] <= 1).all()
    text = str(explanation.menu())
    assert text.splitlines()[0].startswith("1. cost ")
    assert "sets of at most 3 columns were tried." in text
    assert "<table" in menu._repr_html_()
    assert len(explanation.menu()) == (explanation.menu().table["verdict"] == "reaches").sum()


def test_columns_have_their_labels():
    data = pd.DataFrame(np.random.default_rng(0).uniform(size=(300, 3)), columns=list("abc"))
    model = DecisionTreeRegressor(max_depth=2).fit(data, (data["a"] > 0.5) * 1.0 + (data["b"] > 0.5))
    explainer = gbce.Explainer(model, data, space=gbce.Space.infer(data, labels={"c": "the third"}))
    row = data[(data["a"] < 0.4) & (data["b"] < 0.4)].iloc[0]
    menu = explainer.explain(row, gbce.AtLeast(1.9), seed=0).menu(2)
    assert "proved impossible: {a}, {b}, {the third}, {a, the third}, {b, the third}" in str(menu)
    assert ("a", "c") in [tuple(one) for one in menu.table["columns"]]
