"""A class label in a target's place and names in place of rules: what they stand for, and what else is refused."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

import gbce
from gbce.targets import as_target
from support.three_columns import DATA, ROW, total

SAMPLER = gbce.Importance(400, 100)


def fitted(classes):
    return gbce.Explainer(LogisticRegression().fit(DATA, np.take(classes, total(DATA) > 0)), DATA, sampler=SAMPLER)


@pytest.mark.parametrize(
    ("classes", "label"),
    [
        (["bad", "good"], "good"),
        (["bad", "good"], np.str_("good")),
        ([False, True], True),
        ([0, 1], 1),
        ([0, 1], np.int64(1)),
        ([0.0, 1.0], 1.0),
        ([0.0, 1.0], 1),
    ],
)
def test_a_class_label_asks_for_a_decision_for_it(classes, label):
    explainer = fitted(classes)
    short = explainer.explain(ROW, label, rules=["MAP"], seed=0)
    long = explainer.explain(ROW, gbce.Class(classes[1]), rules=[gbce.MAP()], seed=0)
    assert short.target == gbce.Class(classes[1])
    assert type(short.target.label) is type(classes[1])
    pd.testing.assert_frame_equal(short.pointwise, long.pointwise)


def test_labels_and_names_work_for_many_rows_with_a_store_and_for_sensitivity(tmp_path):
    explainer = fitted(["bad", "good"])
    options = {"seed": 0, "progress": False, "store": tmp_path, "keep": "draws"}
    short = explainer.explain_many(DATA.iloc[:3], "good", rules=["Mean", "MAP"], **options)
    again = explainer.explain_many(DATA.iloc[:3], gbce.Class("good"), rules=[gbce.Mean(), gbce.MAP()], **options)
    pd.testing.assert_frame_equal(short.pointwise, again.pointwise)  # the store knows it as the same question
    moved = explainer.sensitivity(ROW, "good", n_rows=3, n_null=3, seed=0)
    assert len(moved.table)


BAD_LABELS = {
    "misspelled": (["bad", "good"], "god", ValueError, r"target: LogisticRegression never saw the label 'god'; its "
                   r"classes are \['bad', 'good'\]\. Did you mean 'good'\?"),
    "text of a number": ([0, 1], "1", ValueError, r"the label '1'; its classes are \[0, 1\]\. Did you mean 1"),
    "number that is no class": ([0, 1], 7, TypeError, r"target=7 is not a class of .*\. Use one of 0, 1, or "),
    "one as a probability": ([0, 1], 1.0, TypeError, r"target=1\.0 is not .*gbce\.Class\(label, probability=0\.8\)"),
    "a list of labels": (["bad", "good"], ["good"], TypeError, r"not \['good'\]$"),
    "nothing": (["bad", "good"], None, TypeError, r"not None$"),
    "a kind of target": (["bad", "good"], gbce.AtLeast, TypeError, r"not <class "),
}  # fmt: skip


@pytest.mark.parametrize(("classes", "label", "kind", "sentence"), BAD_LABELS.values(), ids=BAD_LABELS)
def test_what_is_no_class_is_refused_with_the_classes(classes, label, kind, sentence):
    explainer = fitted(classes)
    with pytest.raises(kind, match=sentence):
        explainer.explain(ROW, label)
    with pytest.raises(kind, match=sentence):
        explainer.explain_many(DATA.iloc[:2], label, progress=False)


@pytest.mark.parametrize("number", [10, 0.5, np.float32(2.0)])
@pytest.mark.parametrize("model", [LinearRegression().fit(DATA, total(DATA)), total], ids=["estimator", "function"])
def test_a_number_says_too_little(model, number):
    plain = np.asarray(number).item()
    with pytest.raises(TypeError, match=rf"not {plain}: a number does not say .* gbce\.AtLeast\({plain}\), "
                       rf"gbce\.AtMost\({plain}\) or gbce\.Value\({plain}\)"):  # fmt: skip
        gbce.Explainer(model, DATA).explain(ROW, number)


@pytest.mark.parametrize("label", ["good", True, b"good"])
def test_a_label_without_classes_is_refused_with_what_names_them(label):
    with pytest.raises(TypeError, match=r"total does not say which classes it has; gbce\.classifier\(model, classes="):
        gbce.Explainer(total, DATA).explain(ROW, label)


@pytest.mark.parametrize("label", [True, False, np.True_])
def test_yes_and_no_are_labels_where_classes_are(label):
    assert as_target(label, (False, True), "model") == gbce.Class(bool(label))
    assert as_target(label, (0, 1), "model") == gbce.Class(int(label))
    assert as_target(label, ("False", "True"), "model") == gbce.Class(str(label))
    with pytest.raises(
        TypeError, match=r"target=(True|False) is not a class of model\. Use one of 'no', 'yes', or gbce"
    ):
        as_target(label, ("no", "yes"), "model")


SWAPPED = {
    "a target": lambda explainer: explainer.explain(gbce.AtLeast(1), ROW),
    "a label": lambda explainer: explainer.explain("yes", DATA.iloc[[0]]),
    "a number and a mapping": lambda explainer: explainer.explain(1, DATA.iloc[0].to_dict()),
    "a number and an array": lambda explainer: explainer.explain(1.0, DATA.iloc[0].to_numpy()),
    "of many": lambda explainer: explainer.explain_many(gbce.AtLeast(1), DATA.head(2), progress=False),
}


@pytest.mark.parametrize("ask", SWAPPED.values(), ids=SWAPPED)
def test_swapped_arguments_are_said_to_be_swapped(ask):
    with pytest.raises(TypeError, match=r"^row and target are swapped: explain(_many\(rows|\(row), target\) takes"):
        ask(gbce.Explainer(total, DATA))


def test_a_model_in_the_place_of_the_data_is_said_to_be_there():
    with pytest.raises(TypeError, match=r"LinearRegression, which predicts: gbce\.Explainer\(model, data\) takes"):
        gbce.Explainer(DATA, LinearRegression().fit(DATA, total(DATA)))
    with pytest.raises(TypeError, match=r"function, which predicts: gbce\.Explainer\(model, data\) takes"):
        gbce.Explainer(DATA, total)


def test_labels_of_any_kind_are_found():
    day = pd.Timestamp("2024-05-01")
    assert as_target(day, (day, pd.Timestamp("2025-05-01")), "model") == gbce.Class(day)
    assert as_target(b"yes", (b"no", b"yes"), "model") == gbce.Class(b"yes")
    assert as_target(gbce.AtLeast(3), None, "model") == gbce.AtLeast(3)


def test_rules_by_name_are_those_with_their_usual_options():
    explainer = gbce.Explainer(total, DATA, sampler=SAMPLER)
    found = explainer.explain(ROW, gbce.AtLeast(1), rules=["Mean", gbce.RandomDraw(2), "MAP"], seed=0)
    assert found.rules == (gbce.Mean(), gbce.RandomDraw(2), gbce.MAP())
    assert explainer.explain(ROW, gbce.AtLeast(1), rules="Medoid", seed=0).rules == (gbce.Medoid(),)
    pd.testing.assert_frame_equal(found.decide("Medoid"), found.decide(gbce.Medoid()))
    pd.testing.assert_frame_equal(explainer.decide(found, "CVaR"), explainer.decide(found, gbce.CVaR()))


def test_a_policy_may_be_a_name_too():
    explainer = gbce.Explainer(total, DATA, sampler=SAMPLER, policy="MAP")
    assert explainer.explain(ROW, gbce.AtLeast(1), rules="MAP", seed=0).answer.policy == "MAP"
    with pytest.raises(ValueError, match="there is no rule 'Safest'"):
        gbce.Explainer(total, DATA, policy="Safest")


def test_every_rule_of_the_package_has_a_name():
    rules = {name for name in gbce.__all__ if isinstance(getattr(gbce, name), type)
             and issubclass(getattr(gbce, name), gbce.base.Rule)}  # fmt: skip
    with pytest.raises(ValueError, match="there is no rule 'Best'") as refused:
        gbce.Explainer(total, DATA).explain(ROW, gbce.AtLeast(1), rules="Best")
    listed = str(refused.value).split("rules by name are ")[1].split(", and one")[0]
    assert set(listed.split(", ")) == rules


BAD_NAMES = [
    ("map", r"there is no rule 'map'; rules by name are .*CVaR.*Did you mean 'MAP'\?"),
    ("ChanceConstraint", r"Did you mean 'ChanceConstrained'\?"),
    ("", r"there is no rule ''"),
    ("MAP(k=3)", r"one with options is an object such as gbce\.CVaR\(0\.8\)"),
    ("DiverseSet", r"the rule 'DiverseSet' needs options: write gbce\.DiverseSet\(k=\.\.\.\)"),
]


@pytest.mark.parametrize(("name", "sentence"), BAD_NAMES)
def test_a_name_of_no_rule_is_refused(name, sentence):
    explainer = gbce.Explainer(total, DATA, sampler=SAMPLER)
    for rules in (name, ["Mean", name]):
        with pytest.raises(ValueError, match=sentence):
            explainer.explain(ROW, gbce.AtLeast(1), rules=rules)
    found = explainer.explain(ROW, gbce.AtLeast(1), rules=[], seed=0)
    for decide in (found.decide, lambda rule: explainer.decide(found, rule)):
        with pytest.raises(ValueError, match=sentence):
            decide(name)


def test_a_rule_listed_by_name_and_as_an_object_is_listed_twice():
    with pytest.raises(ValueError, match="rules: MAP is listed twice"):
        gbce.Explainer(total, DATA).explain(ROW, gbce.AtLeast(1), rules=["MAP", gbce.MAP()])
