"""Labels, units and digits: how columns and values are written for people."""

import numpy as np
import pandas as pd
import pytest

import gbce
from gbce.space import Feature, Space, space_fields, space_of


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "income": rng.normal(4_000, 900, 80).round(2),
            "loan_to_value": rng.uniform(0, 1.2, 80).round(2),
            "exposure": rng.normal(0, 0.02, 80),
            "amount": rng.integers(100, 90_000, 80),
            "year": rng.integers(1990, 2020, 80),
            "job": rng.choice(["clerk", "none"], 80),
        }
    )


@pytest.fixture(scope="module")
def space(frame):
    return Space.infer(
        frame, labels={"loan_to_value": "Loan-to-value ratio"}, units={"income": "USD"}, digits={"amount": -2}
    )


def test_numbers_are_written_with_the_decimals_of_the_data(space):
    by_name = {one.name: one.digits for one in space.features}
    assert by_name == {"income": 2, "loan_to_value": 2, "exposure": 4, "amount": -2, "year": None, "job": None}
    assert space.format(1, 0.934426) == "0.93"
    assert space.format(0, 2437.183) == "2,437.18 USD"
    assert space.format(0, 2450.0) == "2,450 USD"
    assert space.format(2, 0.0123456) == "0.0123"
    assert space.format(3, 12_345) == "12,300"
    assert space.format(4, 2004.0) == "2004"
    assert space.format(5, 0.0) == "clerk"
    assert space.format(5, 0.0, quoted=True) == "'clerk'"
    assert space.format(0, np.nan) == "missing"


def test_a_value_to_act_on_is_written_exactly(space):
    for j, value in ((1, 0.934426), (0, 2437.1834), (2, 1 / 3), (3, 12_345.0), (1, np.nextafter(0.5, 1))):
        text = space.format(j, value, exact=True, unit=False)
        assert float(text.replace(",", "")) == value
    assert space.format(1, 0.93, exact=True) == "0.93"


def test_single_precision_is_not_written_out():
    rows = pd.DataFrame({"a": np.array([0.93, 0.5, 0.12, 0.31], dtype=np.float32)})
    space = Space.infer(rows)
    assert space.features[0].digits == 2
    assert space.format(0, float(np.float32(0.93)), exact=True) == "0.93"


def test_a_change_is_always_seen(space):
    assert space.format_change(1, 0.934426, 0.95) == ("0.93", "0.95")
    now, then = space.format_change(1, 0.5, 0.5004)
    assert (now, then) == ("0.5", "0.5004")
    assert space.format_change(0, 2100.0, 2450.0) == ("2,100", "2,450 USD")
    assert space.format_change(0, 2100.0, np.nan) == ("2,100 USD", "missing")
    assert space.format_change(1, 0.93, 0.934426) == ("0.93", "0.934426")
    assert space.format_change(1, 0.93, 0.8) == ("0.93", "0.80")  # as many decimals on both sides
    assert space.format_change(1, 0.93, 0.930004, exact=False) == ("0.93", "0.930004")
    tens = Space([Feature("pay", "integer", scale=900.0, digits=-2)])
    assert tens.format_change(0, 2_110, 2_130, exact=False) == ("2,110", "2,130")


def test_ranges_are_rounded_inwards(space):
    rng = np.random.default_rng(1)
    for _ in range(300):
        j = int(rng.integers(3))
        low, width = rng.normal(0, 1), rng.exponential() * 10.0 ** rng.integers(-6, 3)
        inside = low + rng.uniform() * width
        text = space.format_range(j, low, low + width, inside=inside).removesuffix(" USD")
        first, last = (float(end.replace(",", "")) for end in text.split(" to "))
        assert low <= first <= inside <= last <= low + width
        assert last - first >= 0.95 * width
    assert space.format_range(1, -np.inf, 0.48649) == "up to 0.48"
    assert space.format_range(0, 2450.0, np.inf) == "at least 2,450 USD"
    assert space.format_range(1, -np.inf, np.inf) == "any value"


def test_words_survive_copies_files_and_another_order(space, frame):
    again = space_of(space_fields(space))
    assert again == space
    assert again.label(1) == "Loan-to-value ratio"
    assert again.format(0, 1.0) == "1 USD"
    turned = space.ordered_by(list(frame.columns)[::-1])
    assert turned.label(turned.position["loan_to_value"]) == "Loan-to-value ratio"
    old = {name: value for name, value in space_fields(space)["features"][0].items() if name not in ("label", "digits")}
    assert Feature(**old | {"levels": None}).digits is None  # files of earlier versions have neither


def test_answers_and_reports_use_labels_and_frames_use_names(space, frame):
    def model(rows):
        return rows["income"] / 4_000 - rows["loan_to_value"]

    explainer = gbce.Explainer(model, frame, space=space)
    found = explainer.explain(frame.iloc[0], gbce.AtLeast(0.9), seed=0, rules=["Nearest"])
    changed = set(found.answer.changes.index)
    assert changed <= set(frame.columns)
    assert ("Loan-to-value ratio" in found.answer.sentence) == ("loan_to_value" in changed)
    assert ("USD" in found.answer.sentence) == ("income" in changed)
    assert "Loan-to-value ratio" in found.summary()
    assert list(found.counterfactuals.columns) == list(frame.columns)
    assert "loan_to_value" in found.importance.index


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"labels": {"ltv": "x"}}, ValueError, "labels names"),
        ({"labels": {"income": 3}}, TypeError, "labels: 'income' needs a string"),
        ({"labels": {"income": " "}}, TypeError, "labels: 'income' needs a string"),
        ({"labels": ["income"]}, TypeError, "labels must be a mapping"),
        ({"labels": {"income": "job"}}, ValueError, "'income' and 'job' would both be called 'job'"),
        ({"units": {"income": None}}, TypeError, "units: 'income' needs a string"),
        ({"units": {"job": "USD"}}, ValueError, "units: 'job' is categorical"),
        ({"digits": {"income": "two"}}, TypeError, "digits: 'income' needs an integer"),
        ({"digits": {"income": 99}}, ValueError, "digits must be an integer from -15 to 15"),
        ({"digits": {"job": 2}}, ValueError, "digits: 'job' is categorical"),
    ],
)
def test_wrong_words_get_a_sentence(frame, options, error, words):
    with pytest.raises(error, match=words):
        Space.infer(frame, **options)


def test_wrong_words_of_real_spaces_get_a_sentence():
    with pytest.raises(ValueError, match="units names \\['c'\\]"):
        Space.real(["a", "b"], units={"c": "USD"})
    with pytest.raises(TypeError, match="digits: 'a' needs an integer"):
        Space.real(["a", "b"], digits={"a": 1.5})


def test_a_hostile_label_is_escaped(frame):
    space = Space.infer(frame, labels={"income": "\x1b[31mred"}, units={"income": "\x07"})
    assert space.label(0).isprintable()
    assert space.format(0, 1.5).isprintable()
