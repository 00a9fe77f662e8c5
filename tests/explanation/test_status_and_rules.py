"""One word each for what became of a question and for the draws; and decisions that know their rules."""

import json
import pickle

import numpy as np
import pandas as pd
import pytest

import gbce
from gbce.explanation import Status
from gbce.metrics import Verdict

DATA = np.random.default_rng(0).normal(size=(100, 2))
ENOUGH = gbce.Importance(4_000, 500)


def explainer_of(sampler=ENOUGH, **options):
    return gbce.Explainer(lambda x: x.sum(axis=1), DATA, space=gbce.Space.real(2), sampler=sampler, **options)


def wish(y):
    return gbce.AtLeast(y, scale=1)


# --- words -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("y", "status", "word"),
    [
        (1.0, Status.ATTAINABLE, "attainable"),
        (-1.0, Status.ALREADY_REACHED, "already reached"),
        (1e6, Status.NOT_ATTAINED, "not attained"),
    ],
)
def test_a_status_is_its_word(y, status, word, tmp_path):
    capped = gbce.Explainer(lambda x: np.minimum(x.sum(axis=1), 5.0), DATA, space=gbce.Space.real(2), sampler=ENOUGH)
    explanation = capped.explain([0.0, 0.0], wish(y), rules=[gbce.Medoid()], seed=0)
    again = gbce.load(explanation.save(tmp_path / "one.gbce"))
    for one in (explanation, again, pickle.loads(pickle.dumps(explanation))):
        assert one.status is status
        assert one.status == word
        assert (str(one.status), f"{one.status}", repr(one.status)) == (word, word, repr(word))
        assert {word: 1}[one.status] == 1
        assert f", {word}," in repr(one)
        assert json.loads(json.dumps(one.status)) == word


def shortened():
    return explainer_of().explain([0.0, 0.0], wish(1.0), rules=[], seed=0, max_model_rows=900)


@pytest.mark.parametrize(
    ("make", "verdict", "word"),
    [
        (lambda: explainer_of().explain([0.0, 0.0], wish(1.0), rules=[], seed=0), Verdict.TRUSTWORTHY, "trustworthy"),
        (
            lambda: explainer_of(gbce.Importance(400, 100)).explain([0.0, 0.0], wish(1.0), rules=[], seed=0),
            Verdict.CARE,
            "use with care",
        ),
        (
            lambda: explainer_of(gbce.Importance(60, 50)).explain([0.0, 0.0], wish(1.0), rules=[], seed=0),
            Verdict.NOT_SAMPLED,
            "not sampled",
        ),
        (shortened, Verdict.NOT_FINISHED, "not finished"),
    ],
    ids=lambda value: str(value) if isinstance(value, str) else "",
)
def test_a_verdict_is_its_word_and_begins_its_sentence(make, verdict, word, tmp_path):
    explanation = make()
    again = gbce.load(explanation.save(tmp_path / "one.gbce"))
    for one in (explanation, again):
        found = one.diagnostics
        assert found["sampling"] is verdict
        assert found["sampling"] == word
        assert (str(found["sampling"]), repr(found["sampling"])) == (word, repr(word))
        assert found["sampling_note"].startswith(word)
        assert found["verdict"] == found["sampling_note"]  # the older name, for a version
        assert word in " ".join(one.summary().split("\ntarget ")[0].split())


def test_tables_of_many_rows_hold_plain_words():
    table = explainer_of().explain_many(
        np.array([[0.0, 0.0], [3.0, 3.0]]), wish(1.0), rules=[gbce.Medoid()], seed=0, progress=False
    )
    assert table.diagnostics["status"].tolist() == ["attainable", "already reached"]
    assert table.diagnostics["sampling"].tolist() == ["trustworthy"] * 2
    for name in ("status", "sampling"):
        assert {type(word) for word in table.diagnostics[name]} == {str}
    first, answers, sampling = table.summary().splitlines()[:3]
    assert first == "2 rows: 1 attainable, 1 already reached"
    assert answers == "answers: 1 reliable, 1 nothing to change; columns to change in the median: 1"
    assert sampling.startswith("posterior: ")
    assert sampling.endswith(", fewer than half in 1; sampling: 2 trustworthy")


def test_a_row_that_failed_has_the_word_for_it():
    def model(x):
        if (x[:, 0] > 50).any():
            raise RuntimeError("no")
        return x.sum(axis=1)

    explainer = gbce.Explainer(model, DATA, space=gbce.Space.real(2), sampler=ENOUGH)
    with pytest.warns(UserWarning, match="1 of 2 rows could not be explained"):
        table = explainer.explain_many(np.array([[0.0, 0.0], [99.0, 0.0]]), wish(1.0), seed=0, progress=False)
    assert table.diagnostics["status"].tolist() == ["attainable", Status.FAILED]
    assert table.diagnostics["sampling"].tolist() == ["trustworthy", ""]
    assert table.errors.index.tolist() == [1]
    assert "sampling: 1 trustworthy" in table.summary()


# --- decisions know their rules --------------------------------------------------------------------------------------

RULES = [gbce.MAP(k=41), gbce.CVaR(0.8), gbce.DiverseSet(3), gbce.RandomDraw(2), gbce.Medoid()]


def test_a_decision_carries_its_rule_and_so_does_its_file(tmp_path):
    explainer = explainer_of()
    explanation = explainer.explain([0.0, 0.0], wish(1.0), rules=RULES, seed=0)
    positions = [0, 1, 2, 2, 2, 3, 3, 4]
    assert [RULES.index(decision.rule) for decision in explanation.decisions] == positions
    for i, decision in zip(positions, explanation.decisions, strict=True):
        assert decision.rule is RULES[i] is explanation.rules[i]
        assert decision.label.startswith(RULES[i].label)
        assert not decision.beside
    again = gbce.load(explanation.save(tmp_path / "one.gbce"))
    assert again.rules == tuple(RULES)
    for i, decision in zip(positions, again.decisions, strict=True):
        assert decision.rule is again.rules[i]
        assert decision.rule == RULES[i]
        assert type(decision.rule) is type(RULES[i])
    for one in (explanation.at(0.9), again.at(0.9)):
        assert all(decision.rule in RULES for decision in one.decisions)
        assert {type(decision.rule) for decision in one.decisions} >= {gbce.MAP, gbce.Medoid}
    twice = gbce.load(again.save(tmp_path / "two.gbce"))
    assert [decision.rule for decision in twice.decisions] == [decision.rule for decision in explanation.decisions]


def test_what_stands_beside_an_answer_is_marked_and_stays_so(tmp_path):
    explainer = explainer_of(prior=gbce.Sparse(change=0.5))
    explanation = explainer.explain([0.0, 0.0], wish(1.0), rules=[gbce.MAP(), gbce.Medoid()], seed=0)
    again = gbce.load(explanation.save(tmp_path / "one.gbce"))
    for one in (explanation, again):
        assert [decision.beside for decision in one.decisions] == [False, True, False]
        assert [type(decision.rule) for decision in one.decisions] == [gbce.MAP, gbce.MAP, gbce.Medoid]
        assert one.decisions[0].label == "MAP"
        assert one.decisions[1].label.startswith("MAP with ")
        assert {type(decision.beside) for decision in one.decisions} == {bool}


def test_a_row_that_somebody_proposes_has_no_rule():
    explainer = explainer_of()
    explanation = explainer.explain([0.0, 0.0], wish(1.0), rules=[gbce.Medoid()], seed=0)
    named = pd.DataFrame([[1.0, 1.0]], columns=list(explanation.space.names), index=["Medoid"])
    assessed = explainer.assess(explanation, named)
    assert assessed.index.tolist() == ["Medoid"]  # whatever it is called
    assert explanation.decisions[0].rule == gbce.Medoid()


def test_a_row_that_somebody_proposes_says_what_it_breaks():
    data = pd.DataFrame({"age": [20, 40, 60, 80], "pay": [1.0, 2.0, 3.0, 9.0], "rent": [0.5, 1.0, 2.0, 3.0]})
    space = gbce.Space.infer(data, immutable=["age"], bounds={"pay": (0, 10)}, constraints=["rent <= pay"])
    explainer = gbce.Explainer(lambda x: x["pay"] - 0.1 * x["rent"], data, space=space)
    explanation = explainer.explain(data.iloc[1], gbce.AtLeast(4), rules=["Nearest"], seed=0, posterior=False)
    proposed = pd.DataFrame({"age": [40, 41, 40, 40], "pay": [5.0, 5.0, 12.0, 1.0], "rent": [1.0, 1.0, 1.0, 2.0]})
    broken = explainer.assess(explanation, proposed)["breaks"].tolist()
    assert broken == ["", "age must stay as it is", "pay must be 0 to 10", "rent <= pay"]
    assert explainer.assess(explanation, explanation.counterfactuals)["breaks"].tolist() == [""]


def test_a_forbidden_transition_of_a_proposed_row_is_named():
    data = pd.DataFrame({"school": ["low", "mid", "high", "mid"] * 5, "pay": [1.0, 2.0, 3.0, 9.0] * 5})
    space = gbce.Space.infer(data, constraints=["never school 'high' -> 'low'"])
    explainer = gbce.Explainer(lambda x: x["pay"], data, space=space)
    row = {"school": "high", "pay": 1.0}
    explanation = explainer.explain(row, gbce.AtLeast(4), rules=["Nearest"], seed=0, posterior=False)
    proposed = pd.DataFrame({"school": ["low", "mid"], "pay": [5.0, 5.0]})
    broken = explainer.assess(explanation, proposed)["breaks"].tolist()
    assert broken == ["school must not change from 'high' to 'low'", ""]
