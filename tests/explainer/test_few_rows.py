"""Explanations within a few hundred model rows: a search on a surrogate, confirmed by the model."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

import gbce
from gbce.metrics import costs

X, Y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
LINE = LinearRegression().fit(X, Y)
WISH = gbce.AtMost(150)


class Paid:
    """A model that charges for every row."""

    def __init__(self, function):
        self.function, self.rows = function, 0

    def __call__(self, frame):
        self.rows += len(frame)
        return self.function(frame)


def l1(explanation, x):
    return float(costs(explanation.space, x[None, :], explanation.query.x0, "l1")[0])


@pytest.mark.parametrize("row", [0, 3])
def test_three_hundred_rows_find_what_thousands_do(row):
    model = Paid(LINE.predict)
    explainer = gbce.Explainer(model, X)
    found = explainer.explain(X.iloc[row], WISH, seed=0, max_model_rows=300)
    assert model.rows <= 300
    assert found.answer.reached
    assert LINE.predict(found.answer.row)[0] <= 150
    free = explainer.explain(X.iloc[row], WISH, rules=[gbce.Nearest()], seed=0, posterior=False)
    assert found.answer.cost < 1.05 * l1(free, free.decisions[0].x)


def test_the_verdict_says_what_few_rows_cannot_tell():
    explainer = gbce.Explainer(Paid(LINE.predict), X)
    found = explainer.explain(X.iloc[0], WISH, seed=0, max_model_rows=300)
    assert found.diagnostics["sampling"] == "not sampled"
    assert "300 model rows are too few" in found.diagnostics["verdict"]
    note = next(note for note in found.diagnostics["notes"] if "surrogate" in note)
    assert "cannot show whether a cheaper point exists" in note
    assert "or a more reliable one" in note
    own = gbce.Explainer(Paid(LINE.predict), X, policy=gbce.ChanceConstrained())
    notes = own.explain(X.iloc[0], WISH, seed=0, max_model_rows=300).diagnostics["notes"]
    assert not any("or a more reliable one" in note for note in notes)


def test_a_class_is_reached_within_a_hundred_rows():
    features, y = load_breast_cancer(return_X_y=True, as_frame=True)
    fitted = make_pipeline(StandardScaler(), LogisticRegression()).fit(features, y)
    model = Paid(fitted.predict_proba)
    explainer = gbce.Explainer(gbce.classifier(model, [0, 1]), features)
    row = features[fitted.predict(features) == 0].iloc[[5]]
    found = explainer.explain(row, gbce.Class(1), seed=0, max_model_rows=150)
    assert model.rows <= 150
    assert fitted.predict(found.answer.row)[0] == 1


def test_rules_that_were_asked_for_are_applied():
    explainer = gbce.Explainer(Paid(LINE.predict), X)
    rules = [gbce.Nearest("changes"), gbce.Nearest("l2")]
    found = explainer.explain(X.iloc[0], WISH, rules=rules, seed=0, max_model_rows=300)
    assert [one.label for one in found.decisions if not one.beside] == [rule.label for rule in rules]
    assert all(one.reached[0] for one in found.decisions)


def test_trees_that_are_read_need_no_surrogate():
    tree = DecisionTreeRegressor(max_depth=4, random_state=0).fit(X, Y)
    found = gbce.Explainer(tree, X).explain(X.iloc[0], WISH, seed=0, max_model_rows=1_000)
    assert found.diagnostics["sampler"] != "SearchOnly"
    assert not any("surrogate" in note for note in found.diagnostics["notes"])


def test_the_same_question_has_the_same_answer():
    found = [gbce.Explainer(Paid(LINE.predict), X).explain(X.iloc[2], WISH, seed=1, max_model_rows=200) for _ in "ab"]
    np.testing.assert_array_equal(found[0].answer.decision.x, found[1].answer.decision.x)
    assert found[0].diagnostics["n_model_rows"] == found[1].diagnostics["n_model_rows"] <= 200


def test_a_slow_model_is_called_a_few_times_with_many_rows():
    """The recipe of docs/howto/budgets.md."""
    calls = []

    class Slow:
        cost_per_call = True

        def __call__(self, frame):
            calls.append(len(frame))
            return LINE.predict(frame)

    explainer = gbce.Explainer(Slow(), X, outputs=LINE.predict(X))
    found = explainer.explain(X.iloc[0], WISH, seed=0, max_model_rows=1_000)
    assert LINE.predict(found.answer.row)[0] <= 150
    assert len(calls) <= 20
    assert sum(calls) <= 1_000
    assert found.answer.reliability is not None  # from the rows that the search left
