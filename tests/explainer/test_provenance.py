"""An explanation is put to the models that it was made with, and to no others."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression

import gbce

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 3))
Y = X @ [1.0, -2.0, 0.5]
QUICK = gbce.Importance(n_candidates=800, n_draws=200)
FIT, OTHER = LinearRegression().fit(X, Y), LinearRegression().fit(X, -Y)
TARGET = gbce.AtLeast(2.0)
CALLS = {
    "decide": lambda e, x: e.decide(x, gbce.Mean()),
    "assess": lambda e, x: e.assess(x, X[:2]),
    "survival": lambda e, x: e.survival(x, FIT),
    "frontier": lambda e, x: e.frontier(x, refine=False),
}


def explainer(model=FIT, **options):
    return gbce.Explainer(model, X, sampler=QUICK, **options)


def explained(*models, target=TARGET, **options):
    model = list(models) if len(models) > 1 else models[0]
    return explainer(model, **options).explain(X[0], target, rules=[gbce.MAP()], seed=0)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_explanation_of_another_model_is_refused(call, tmp_path):
    explanation = explained(OTHER)
    with pytest.raises(
        ValueError, match=r"made with another model: LinearRegression returns .* where it has .*Explain"
    ):
        call(explainer(), explanation)
    with pytest.raises(ValueError, match="another model"):  # and not only while it is fresh
        call(explainer(), gbce.load(explanation.save(tmp_path / "one.gbce")))
    call(explainer(OTHER), explanation)
    call(explainer(OTHER), gbce.load(tmp_path / "one.gbce"))


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("what", [None, "row0.gbce", []], ids=str)
def test_what_is_no_explanation_is_told(call, what):
    with pytest.raises(TypeError, match=r"explanation must come from explainer.explain\(...\) or gbce.load"):
        call(explainer(), what)


def test_no_explanation_for_the_plain_function_either():
    with pytest.raises(TypeError, match="explanation must come from"):
        gbce.metrics.survival(None, FIT)


def test_the_one_of_several_models_that_changed_is_found():
    both = explained(FIT, OTHER)
    explainer([FIT, OTHER]).decide(both, gbce.Mean())
    with pytest.raises(ValueError, match="another model: LinearRegression #2 returns"):
        explainer([FIT, LinearRegression().fit(X, Y + X[:, 0])]).decide(both, gbce.Mean())


def test_model_that_was_fitted_again_in_place_is_another():
    model = LinearRegression().fit(X, Y)
    mine = explainer(model)
    explanation = mine.explain(X[0], TARGET, rules=[], seed=0)
    mine.decide(explanation, gbce.Mean())
    model.fit(X, -Y)
    with pytest.raises(ValueError, match="another model"):
        mine.decide(explanation, gbce.Mean())


def test_classifiers_and_losses_of_ones_own():
    yes, no = LogisticRegression().fit(X, Y > 0), LogisticRegression().fit(X, Y <= 0)
    explanation = explained(yes, target=gbce.Class(True))
    explainer(yes).decide(explanation, gbce.Mean())
    with pytest.raises(ValueError, match="another model: LogisticRegression"):
        explainer(no).decide(explanation, gbce.Mean())
    wish = gbce.Loss(lambda f: np.abs(f - 2.0), threshold=0.2)
    explanation = explained(FIT, target=wish)
    explainer().decide(explanation, gbce.Mean())
    with pytest.raises(ValueError, match="another model"):
        explainer(OTHER).decide(explanation, gbce.Mean())


def test_loss_whose_function_a_file_lost_can_still_be_told(tmp_path):
    explanation = explained(FIT, target=gbce.Loss(lambda f: np.abs(f - 2.0), threshold=0.2))
    again = gbce.load(explanation.save(tmp_path / "one.gbce"))
    explainer().decide(again, gbce.Mean())
    with pytest.raises(ValueError, match="another model"):
        explainer(OTHER).decide(again, gbce.Mean())


def test_the_same_fit_in_single_precision_or_from_another_run_is_the_same_model():
    forest = RandomForestRegressor(10, random_state=0).fit(X, Y)
    explanation = explained(forest)
    again = RandomForestRegressor(10, random_state=0).fit(X, Y)
    explainer(again).decide(explanation, gbce.Mean())
    coarse = explained(lambda rows: FIT.predict(rows.astype("float32")).astype("float32"))
    explainer(FIT.predict).decide(coarse, gbce.Mean())
    with pytest.raises(ValueError, match="another model"):
        explainer(RandomForestRegressor(10, random_state=1).fit(X, Y)).decide(explanation, gbce.Mean())


def test_explanation_of_another_prior_is_refused():
    explanation = explained(FIT, prior=gbce.Laplace(0.5))
    with pytest.raises(ValueError, match="different prior"):
        explainer().decide(explanation, gbce.Mean())
    explainer(prior=gbce.Laplace(0.5)).decide(explanation, gbce.Mean())


def test_asking_again_costs_a_few_dozen_rows():
    asked = []

    def counted(rows):
        asked.append(len(rows))
        return FIT.predict(rows)

    mine = explainer(counted)
    explanation = mine.explain(X[0], TARGET, rules=[], seed=0)
    asked.clear()
    mine.decide(explanation, gbce.Mean())
    assert len(asked) == 1
    assert 24 <= asked[0] <= 50


def test_rows_with_equal_labels_are_all_assessed():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    mine = gbce.Explainer(lambda rows: rows["a"] - 2 * rows["b"], frame, sampler=QUICK)
    explanation = mine.explain(frame.iloc[0], TARGET, rules=[], seed=0)
    twins = frame.iloc[[3, 8, 5]].set_axis(["x", "x", "y"])
    table = mine.assess(explanation, twins)
    assert table.index.tolist() == ["x", "x", "y"]
    np.testing.assert_allclose(table["output"], (twins["a"] - 2 * twins["b"]).to_numpy())
    apart = mine.assess(explanation, twins.set_axis(["x", "z", "y"]))
    pd.testing.assert_frame_equal(table, apart.set_axis(table.index, axis=0))
