"""What counts as reached is what a model's own predict decides."""

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import gbce
from gbce.budget import Budget
from gbce.predictors import Panel, as_predictor
from support.endpoint import FAST, serving
from support.makes import CLASSIFIED, FRAME, LABELS, QUICK, classifiers

RULES = [gbce.MAP(), gbce.Mean(), gbce.Medoid(), gbce.DiverseSet(5)]


def explained(model, label, data=FRAME, **options):
    """Explain a row that the model does not yet give the label."""
    row = np.asarray(data)[model.predict(data) != label][0]
    explainer = gbce.Explainer(model, data, sampler=QUICK, **options)
    return explainer.explain(row, gbce.Class(label), rules=RULES, seed=0)


def share_decided_otherwise(model, label, explanation):
    """Compare draws and decisions with ``predict``; return how often the most probable class is not what it gives."""
    rows = explanation.space.decode(explanation.draws.x)
    wanted = model.predict(rows) == label
    np.testing.assert_array_equal(explanation.draws.reached[:, 0], wanted)
    assert 0 < wanted.mean() < 1, "draws on one side only would agree by themselves"
    shown = [decision.x for decision in explanation.decisions if decision.label in explanation.pointwise.index]
    chosen = explanation.space.decode(np.vstack(shown))
    np.testing.assert_array_equal(explanation.pointwise["reached"], model.predict(chosen) == label)
    most_probable = np.asarray(model.classes_)[model.predict_proba(rows).argmax(axis=1)]
    return np.mean((most_probable == label) != wanted)


NUMBERED = dict(zip(classifiers(), range(8), strict=True))


# every classifier with two and with three classes, numbers or words
@pytest.mark.parametrize(
    ("name", "labels"),
    [(a, b) for a, b in CLASSIFIED if list(LABELS).index(b) in (NUMBERED[a] % 2, 3 - NUMBERED[a] % 2)],
)
def test_reached_agrees_with_predict(name, labels):
    model = classifiers()[name].fit(FRAME, LABELS[labels])
    label = model.classes_[-1].item()
    assert share_decided_otherwise(model, label, explained(model, label)) == 0


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize(
    "model", [KNeighborsClassifier(2), RandomForestClassifier(2, max_features=1, random_state=3)], ids=["knn", "forest"]
)
def test_tie_that_the_model_calls_another_class_is_not_reached(model, labels):
    model.fit(FRAME, LABELS[labels])
    label = model.classes_[-1].item()
    explanation = explained(model, label)
    share_decided_otherwise(model, label, explanation)
    tied = explanation.draws.outputs[:, 0] == 0.5
    assert tied.sum() > 10
    assert not explanation.draws.reached[tied, 0].any()
    sure = explanation.draws.outputs[:, 0] > 0.5
    assert explanation.draws.reached[sure, 0].all()


def test_tie_that_the_model_calls_the_wanted_class_is_reached():
    x = np.repeat([[0.0], [1.0]], [20, 30], axis=0)
    y = np.concatenate([np.tile(["no", "yes"], 10), np.repeat(["no", "yes"], [25, 5])])
    model = GradientBoostingClassifier(init="zero", n_estimators=1, max_depth=1).fit(x, y)
    explanation = explained(model, "yes", x)
    tied = explanation.draws.outputs[:, 0] == 0.5
    assert tied.sum() > 10
    assert explanation.draws.reached[tied, 0].all()
    assert share_decided_otherwise(model, "yes", explanation) > 0


APART = np.vstack([np.random.default_rng(i).normal(centre, 0.3, (60, 2)) for i, centre in enumerate((-4, 4))])
THRESHOLDS = {
    "high": lambda wanted: FixedThresholdClassifier(LogisticRegression(), threshold=0.9, pos_label=wanted),
    "low": lambda wanted: FixedThresholdClassifier(LogisticRegression(), threshold=0.2, pos_label=wanted),
    "in a pipeline": lambda wanted: make_pipeline(StandardScaler(), THRESHOLDS["high"](wanted)),
    "tuned": lambda wanted: TunedThresholdClassifierCV(LogisticRegression(), cv=2, thresholds=[0.9, 0.95]),
}


@pytest.mark.parametrize("labels", [(0, 1), ("no", "yes")], ids=["numbers", "words"])
@pytest.mark.parametrize("name", THRESHOLDS)
def test_threshold_of_the_model_is_followed_even_where_no_row_of_the_data_shows_it(name, labels):
    model = THRESHOLDS[name](labels[1]).fit(APART, np.repeat(labels, 60))
    most_probable = np.asarray(labels)[model.predict_proba(APART).argmax(axis=1)]
    assert (most_probable == model.predict(APART)).all()
    explanation = explained(model, labels[1], APART, space=gbce.Space.real(2, scale=4.0), eta=0.5)
    assert share_decided_otherwise(model, labels[1], explanation) > 0.01


def test_threshold_on_a_tie_is_followed():
    model = FixedThresholdClassifier(KNeighborsClassifier(2), threshold=0.5, pos_label="yes").fit(
        FRAME, LABELS["two words"]
    )
    explanation = explained(model, "yes", eta=0.02)  # p = 0 must not be ruled out
    tied = explanation.draws.outputs[:, 0] == 0.5
    assert tied.sum() > 10
    assert explanation.draws.reached[tied, 0].all()
    assert share_decided_otherwise(model, "yes", explanation) > 0


class Cautious(LogisticRegression):
    """Says the middle class unless another one is very likely."""

    def predict(self, X):
        p = self.predict_proba(X)
        return np.where(p.max(axis=1) > 0.8, self.classes_[p.argmax(axis=1)], self.classes_[1])


@pytest.mark.parametrize("labels", ["three numbers", "three words"])
def test_predict_of_the_models_own_is_followed_with_three_classes(labels):
    model = Cautious().fit(FRAME, LABELS[labels])
    for label in model.classes_.tolist():
        assert share_decided_otherwise(model, label, explained(model, label)) > 0.01


def test_wanted_probability_counts_instead_of_the_decision():
    model = LogisticRegression().fit(FRAME, LABELS["three words"])
    explainer = gbce.Explainer(model, FRAME, sampler=QUICK)
    explanation = explainer.explain(FRAME.iloc[0], gbce.Class("top", probability=0.3), rules=RULES, seed=0)
    p = model.predict_proba(explanation.space.decode(explanation.draws.x))[:, 2]
    np.testing.assert_array_equal(explanation.draws.reached[:, 0], p >= 0.3)
    assert (explanation.draws.reached[:, 0] != (p > 0.5)).any()


def test_verdict_of_each_model_is_its_own_whatever_the_order_of_its_classes():
    models = [
        LogisticRegression().fit(FRAME, LABELS["two words"]),
        DecisionTreeClassifier(max_depth=2).fit(FRAME, np.where(LABELS["two words"] == "yes", "yes", "zero")),
    ]
    explainer = gbce.Explainer(models, FRAME, sampler=QUICK)
    explanation = explainer.explain(FRAME.iloc[0], gbce.Class("yes"), rules=(), seed=0)
    rows = explanation.space.decode(explanation.draws.x)
    for k, model in enumerate(models):
        np.testing.assert_array_equal(explanation.draws.reached[:, k], model.predict(rows) == "yes")


# --- one row at a time ---------------------------------------------------------------------------------------------


class InBatches:
    """Adds up columns, and says something else of a row alone than among others."""

    def __init__(self, among_others):
        self.among_others, self.sizes = among_others, []

    def __call__(self, rows):
        self.sizes.append(len(rows))
        said = np.asarray(rows, dtype=float).sum(axis=1)
        return said if len(rows) == 1 else self.among_others(said)


POINTS = np.random.default_rng(0).normal(size=(200, 3))
AMONG_OTHERS = {
    "larger": lambda said: said + 0.3,
    "smaller": lambda said: said - 0.3,
    "normalised": lambda said: said - 0.2 * said.mean(),
}
WISH = gbce.AtLeast(2.0, scale=1.0)


def reaches_alone(model, rows):
    return [bool(model(row[None, :])[0] >= 2.0) for row in np.asarray(rows, dtype=float)]


@pytest.mark.parametrize("name", AMONG_OTHERS)
def test_decisions_are_confirmed_one_row_at_a_time(name):
    model = InBatches(AMONG_OTHERS[name])
    explanation = gbce.Explainer(model, POINTS, space=gbce.Space.real(3)).explain(POINTS[0], WISH, seed=0)
    rows = [one.x for one in explanation.decisions]
    assert [bool(one.reached[0]) for one in explanation.decisions] == reaches_alone(model, rows)
    assert explanation.answer.reached
    assert reaches_alone(model, [explanation.answer.decision.x]) == [True]
    assert any("The outputs of InBatches depend on the batch" in note for note in explanation.notes)
    assert explanation.diagnostics["sampling"] == "use with care"


def test_what_reaches_by_rounding_in_a_batch_is_not_handed_over():
    def steps(said):
        return np.floor(10 * said) / 10

    def model(rows):
        said = steps(np.asarray(rows, dtype=float).sum(axis=1))
        return said - 1e-12 if len(rows) == 1 else said

    explanation = gbce.Explainer(model, POINTS, space=gbce.Space.real(3)).explain(POINTS[0], WISH, seed=0)
    decided = explanation.decisions[0]
    assert decided.label == "Nearest"
    assert not decided.reached[0]
    assert explanation.answer.reached
    assert model(explanation.answer.decision.x[None, :])[0] >= 2.0
    assert "that the model confirms; predicting each row alone" in explanation.answer.reason
    assert any("Nearest" in note and "depend on the batch" in note for note in explanation.notes)
    assert not any("cannot be trusted" in note for note in explanation.notes)


def test_where_nothing_reaches_alone_nothing_is_said_to():
    def model(rows):
        said = np.asarray(rows, dtype=float).sum(axis=1)
        return np.minimum(said, 1.9) if len(rows) == 1 else said

    explanation = gbce.Explainer(model, POINTS, space=gbce.Space.real(3)).explain(POINTS[0], WISH, seed=0)
    assert explanation.status == "not attained"
    assert not explanation.answer.reached
    assert not explanation.pointwise["reached"].any()


def test_rows_that_are_explained_together_are_confirmed_one_at_a_time():
    model = InBatches(AMONG_OTHERS["larger"])
    explainer = gbce.Explainer(model, POINTS, space=gbce.Space.real(3))
    table = explainer.explain_many(POINTS[:4], WISH, seed=0, progress=False)
    assert table.pointwise["reached"].tolist() == reaches_alone(model, table.counterfactuals)
    assert table.answers["reached"].all()
    assert model.sizes.count(1) >= 4 * (1 + 3)  # a row itself, and decisions that differ


def test_a_steady_model_has_no_such_note():
    model = make_pipeline(StandardScaler(), RandomForestClassifier(20, random_state=0)).fit(FRAME, LABELS["two words"])
    explainer = gbce.Explainer(model, FRAME, sampler=QUICK)
    explanation = explainer.explain(FRAME.iloc[0], gbce.Class("yes"), seed=0)
    assert not any("batch" in note for note in explanation.notes)
    own = [model.predict_proba(explanation.space.decode(one.x[None, :]))[0, 1] for one in explanation.decisions]
    np.testing.assert_array_equal([one.outputs[0] for one in explanation.decisions], own)


def test_a_model_whose_calls_are_paid_for_is_asked_about_all_decisions_in_one():
    with serving() as endpoint:
        remote = as_predictor(gbce.Remote(endpoint.url, **FAST), gbce.Space.real(3))
        (said,) = Panel((remote,), Budget()).ask_alone(POINTS[:5])
        assert [len(body["rows"]) for body in endpoint.bodies] == [5]
    assert len(said.values) == 5


def test_when_the_time_is_over_nothing_is_asked_alone():
    model = InBatches(AMONG_OTHERS["larger"])
    late = Budget(deadline=0.0).without_deadline()
    assert Panel((as_predictor(model, gbce.Space.real(3)),), late).ask_alone(POINTS[:5]) == []
    assert model.sizes == []


def test_single_rows_are_confirmed_by_a_fast_call_only_once_it_was_equal():
    from gbce.predictors._fast import Alone

    rows, asked = np.arange(16.0)[:, None], []

    def own(x):
        asked.append(len(x))
        return x[:, 0] * 2.0

    quick = Alone(own, lambda x: x[:, 0] + x[:, 0])
    np.testing.assert_array_equal([quick(row[None])[0] for row in rows], 2.0 * rows[:, 0])
    assert 0 < len(asked) < len(rows)
    asked.clear()
    wrong = Alone(own, lambda x: np.nextafter(x[:, 0] + x[:, 0], np.inf))
    np.testing.assert_array_equal([wrong(row[None])[0] for row in rows], 2.0 * rows[:, 0])
    assert len(asked) == len(rows)
