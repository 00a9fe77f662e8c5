"""The answer in words, in tables and in files."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

import gbce
from gbce.explanation import describe_changes, number_text

SMALL = gbce.SMC(n_candidates=600)


def table(n=200):
    rng = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "credit amount": rng.integers(500, 8000, n),
            "income": rng.normal(50, 10, n).round(1),
            "purpose": rng.choice(["car", "radio/tv", "school"], n),
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D"),
            "owner": rng.random(n) < 0.5,
        }
    )


class Bank:
    """A classifier with a plain rule: small credits for a car, or a high income."""

    classes_ = np.array(["bad", "good"])

    def predict_proba(self, frame):
        score = 2.0 - frame["credit amount"] / 2000 + (frame["purpose"] == "car") + (frame["income"] - 50) / 10
        p = 1 / (1 + np.exp(-score.to_numpy(dtype=float)))
        return np.column_stack([1 - p, p])

    def predict(self, frame):
        return self.classes_[(self.predict_proba(frame)[:, 1] > 0.5).astype(int)]


ROW = {"credit amount": 6000, "income": 50.0, "purpose": "radio/tv", "since": pd.Timestamp("2021-05-01"), "owner": True}


@pytest.fixture(scope="module")
def explanation():
    data = table()
    space = gbce.Space.infer(data, immutable=["income", "purpose"])  # which leaves one thing to change
    return gbce.Explainer(Bank(), data, space=space, sampler=SMALL).explain(ROW, gbce.Class("good"), seed=0)


def test_the_answer_is_valid_by_the_models_own_word(explanation):
    answer = explanation.answer
    assert Bank().predict(answer.row).tolist() == ["good"]
    assert answer.reached
    assert answer.row.dtypes.to_dict() == table().dtypes.to_dict()
    assert answer.n_changes == len(answer.changes) <= 2


def test_the_sentence_says_what_changes_what_the_model_says_and_how_often_it_holds(explanation):
    answer = explanation.answer
    words = [f"from {number_text(6000.0)} to {number_text(float(answer.row['credit amount'].iloc[0]))}"]
    assert answer.sentence.startswith("Lower credit amount " + words[0])
    p = Bank().predict_proba(answer.row)[0, 1]
    assert f": the model then says 'good' (probability {p:.2f}). " in answer.sentence
    share = answer.reliability.share
    assert answer.sentence.endswith(f"it still works {int(100 * share + 1e-9)} times out of 100.")
    assert str(answer) == answer.sentence
    assert answer.sentence in repr(answer)


def test_summary_and_notebook_open_with_it(explanation):
    text = explanation.summary()
    assert " ".join(text.splitlines()).startswith(explanation.answer.sentence[:80])
    assert text.index("why this") < text.index("Decisions")
    html = explanation._repr_html_()
    assert html.index("class='answer'") < html.index("<h4>Decisions</h4>")


def test_changes_table_has_what_changes_and_nothing_else(explanation):
    changes = explanation.answer.changes
    assert list(changes.columns) == ["now", "then"]
    assert changes.loc["credit amount", "now"] == 6000
    assert "owner" not in changes.index


def test_plain_data_is_json(explanation):
    plain = json.loads(json.dumps(explanation.answer.to_dict(), allow_nan=False))
    assert plain["sentence"] == explanation.answer.sentence
    assert plain["kind"] == "reliable"
    assert plain["changes"]["credit amount"]["now"] == 6000
    assert plain["row"]["owner"] is True
    assert set(plain["reliability"]) == {"share", "low", "high", "n", "exact"}
    assert plain["survival"] is None


def test_a_file_keeps_it(explanation, tmp_path):
    again = gbce.load(explanation.save(tmp_path / "row.gbce")).answer
    assert again.sentence == explanation.answer.sentence
    assert again.kind == explanation.answer.kind
    assert again.to_dict() == explanation.answer.to_dict()
    np.testing.assert_array_equal(again.decision.x, explanation.answer.decision.x)
    assert again.decision.figures == explanation.answer.decision.figures


def test_an_explanation_without_an_answer_is_kept_too(tmp_path):
    data = np.random.default_rng(0).normal(size=(50, 2))
    explainer = gbce.Explainer(lambda x: x.sum(axis=1), data, policy=None, sampler=SMALL)
    explanation = explainer.explain(data[0], gbce.AtLeast(2), rules=[gbce.Mean()], seed=0)
    assert gbce.load(explanation.save(tmp_path / "row.gbce")).answer is None
    assert "why this" not in explanation.summary()
    assert "class='answer'" not in explanation._repr_html_()


def test_tables_of_many_rows_have_every_answer(tmp_path):
    data = table()
    explainer = gbce.Explainer(Bank(), data, sampler=SMALL)
    rows = data.iloc[:5]
    options = {"rules": [gbce.Nearest()], "seed": 3, "progress": False}
    many = explainer.explain_many(rows, gbce.Class("good"), store=tmp_path / "store", **options)
    resumed = explainer.explain_many(rows, gbce.Class("good"), store=tmp_path / "store", **options)
    pd.testing.assert_frame_equal(many.answers, resumed.answers)
    assert many.answers.index.tolist() == rows.index.tolist()
    assert many.answers["reached"].all()
    one = explainer.explain(
        rows.iloc[0], gbce.Class("good"), rules=[gbce.Nearest()], seed=int(many.diagnostics["seed"].iloc[0])
    )
    assert many.answers["sentence"].iloc[0] == one.answer.sentence
    assert many.answers["changes"].iloc[0] == one.answer.changes_in_words
    assert "answers: " in many.summary()


def test_another_policy_is_another_run(tmp_path):
    data = table()
    options = {"rules": [gbce.Nearest()], "seed": 3, "progress": False, "store": tmp_path / "store"}
    gbce.Explainer(Bank(), data, sampler=SMALL).explain_many(data.iloc[:2], gbce.Class("good"), **options)
    other = gbce.Explainer(Bank(), data, sampler=SMALL, policy=gbce.Reliable(0.7))
    with pytest.raises(ValueError, match="policy"):
        other.explain_many(data.iloc[:2], gbce.Class("good"), **options)


@pytest.mark.parametrize("rows", [60, 300, 2_000])
def test_a_small_budget_still_hands_over_something_and_keeps_to_it(rows):
    data = np.random.default_rng(0).normal(size=(200, 3))
    explainer = gbce.Explainer(lambda x: x.sum(axis=1), data, space=gbce.Space.real(3))
    explanation = explainer.explain([0.0, 0.0, 0.0], gbce.AtLeast(1.0, scale=1.0), seed=0, max_model_rows=rows)
    assert explanation.n_model_rows <= rows
    if explanation.answer is not None:
        assert explanation.answer.reached == bool(explanation.answer.decision.x.sum() >= 1.0)
    assert explanation.answer is not None or rows == 60


def test_words_for_every_kind_of_column():
    data = table()
    space = gbce.Space.infer(data)
    a = space.encode_row(ROW)
    b = space.encode_row(ROW | {"income": 52.25, "purpose": "car", "since": pd.Timestamp("2022-01-31"), "owner": False})
    assert describe_changes(space, a, b) == (
        "raise income from 50.00 to 52.25, change purpose from 'radio/tv' to 'car', move since from 2021-05-01 to "
        "2022-01-31 and change owner from True to False"
    )
    assert describe_changes(space, a, a) == ""


def test_a_change_beyond_the_usual_digits_is_told_apart():
    space = gbce.Space.real(["x"])
    said = describe_changes(space, np.array([0.1234567]), np.array([0.12345671]))
    assert said == "raise x from 0.1234567 to 0.12345671"


def test_names_with_control_characters_are_written_out():
    space = gbce.Space.real(["\x1b[31mx"])
    assert describe_changes(space, np.zeros(1), np.ones(1)) == r"raise \x1b[31mx from 0 to 1"


@pytest.mark.parametrize(
    ("target", "output", "reached", "said"),
    [
        (gbce.Class("good"), 0.561, True, "says 'good' (probability 0.56)"),
        (gbce.Class("good"), 0.4996, False, "gives 'good' a probability of 0.4996"),
        (gbce.Class("good", probability=0.8), 0.83, True, "gives 'good' a probability of 0.83 (wanted: 0.8 or more)"),
        (gbce.AtMost(140), 139.9, True, "predicts 139.9 (wanted: at most 140)"),
        (gbce.AtLeast(500), 499.99, False, "predicts 499.99 (wanted: at least 500)"),
        (gbce.Loss(abs, threshold=1), 0.5, True, "reaches the target (abs at most 1)"),
    ],
)
def test_what_models_say_as_targets_put_it(target, output, reached, said):
    assert target.say(output, reached) == said


def test_a_range_beside_other_changes_says_that_they_must_be_made():
    rng = np.random.default_rng(0)
    data = pd.DataFrame(rng.normal(50, 10, size=(200, 2)).round(1), columns=["income", "debt"])
    space = gbce.Space.infer(data, bounds={"income": (0, 55), "debt": (45, 100)})
    explainer = gbce.Explainer(lambda x: x["income"] - x["debt"], data, space=space)
    explanation = explainer.explain({"income": 40.0, "debt": 60.0}, gbce.AtLeast(7), seed=0, posterior=False)
    answer = explanation.answer
    assert answer.reached
    assert answer.n_changes == 2
    for names, beside in ((("income",), True), (("income", "debt"), False)):
        at = [space.position[name] for name in names]
        safe = gbce.SafeBox(answer.query.space, names, answer.decision.x[at], answer.decision.x[at] + 0.5)
        said = replace(explanation, answer=replace(answer, safe=safe))
        assert ("once the other changes are made" in said.answer.sentence) == beside
        assert ("With the other changes made" in said.to_text()) == beside
        assert ("他の変更も行い" in said.to_text("ja")) == beside


def test_a_reason_does_not_claim_what_fresh_trials_deny():
    data = pd.DataFrame({"a": np.linspace(0, 9, 40)})
    answer = gbce.Explainer(lambda x: x["a"], data).explain({"a": 1.0}, gbce.AtLeast(5), seed=0, posterior=False).answer
    assert "fresh trials" not in answer.because
    missed = replace(answer, reliability=answer.reliability._replace(share=0.89, exact=False))
    assert "fresh trials gave 0.890" in missed.because


def test_sentences_tell_the_first_of_several_models_of_one_class_apart():
    rng = np.random.default_rng(0)
    data = pd.DataFrame(rng.normal(size=(200, 2)), columns=["a", "b"])
    fits = [LinearRegression().fit(data, data @ slopes) for slopes in ([1.0, 0.5], [1.0, 0.6])]
    explainer = gbce.Explainer(fits, data, eta="auto")
    explanation = explainer.explain({"a": 0.0, "b": 0.0}, gbce.AtLeast(1.0), rules=["Nearest"], seed=0)
    assert ": the first LinearRegression then predicts " in explanation.answer.sentence
    assert all("the first LinearRegression then predicts" in one for one in explanation.alternatives())
    named = gbce.Explainer({"old": fits[0], "new": fits[1]}, data, eta="auto")
    told = named.explain({"a": 0.0, "b": 0.0}, gbce.AtLeast(1.0), rules=["Nearest"], seed=0)
    assert ": old then predicts " in told.answer.sentence
