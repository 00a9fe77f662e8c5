"""Nearest with a proof: what it says is what holds, and files keep it."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeRegressor

import gbce
from gbce.metrics import costs

ROW = {"income": 30.0, "debt": 20.0, "age": 40.0}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "income": rng.normal(50, 12, 400).round(1),
            "debt": rng.normal(15, 5, 400).round(1),
            "age": rng.integers(18, 80, 400),
        }
    ).astype(float)
    return frame, frame["income"] - 1.5 * frame["debt"] + 0.2 * frame["age"] + rng.normal(0, 2, 400)


@pytest.fixture(scope="module")
def explainer(table):
    frame, y = table
    model = GradientBoostingRegressor(n_estimators=40, max_depth=3, random_state=0).fit(frame, y)
    return gbce.Explainer(model, frame, prior=gbce.Gaussian(), sampler=gbce.Importance(500))


@pytest.fixture(scope="module")
def proved(explainer):
    return explainer.explain(ROW, gbce.AtLeast(40), rules=[gbce.Nearest(prove=True)], seed=0)


def test_no_point_of_many_is_cheaper_than_what_is_proved(explainer, proved):
    decision = proved.decisions[0]
    assert decision.reached[0]
    assert decision.proof.cost == pytest.approx(costs(proved.space, decision.x[None, :], proved.x0, "l1")[0])
    assert 0 <= decision.proof.gap <= 0.01 + 1e-9  # rounded to few digits: a hundredth at most
    rng = np.random.default_rng(0)
    x = proved.x0 + rng.exponential(proved.space.scale, (20_000, 3)) * rng.choice([-1, 0, 1], (20_000, 3))
    x = proved.space.project(x, proved.x0)
    reached = explainer._session.predictors[0](x).values >= 40
    assert costs(proved.space, x[reached], proved.x0, "l1").min() >= decision.proof.lower


def test_the_answer_says_what_is_proved_about_it(proved):
    proof = proved.decisions[0].proof
    assert proof.sentence.startswith(("No cheaper point reaches", "No point that reaches the target is more than"))
    stated = re.search(r"costs at least ([\d.]+), and this one ([\d.]+) \(proved", proved.answer.proof)
    assert float(stated[1]) <= proof.lower
    assert float(stated[2]) == pytest.approx(proved.answer.cost, rel=0.01)
    assert proved.answer.sentence.endswith(proved.answer.proof)


def test_the_policy_itself_may_prove(explainer, proved):
    session = explainer._session
    own = gbce.Explainer(session.models[0], session.space.decode(session.data), prior=gbce.Gaussian(),
                         sampler=gbce.Importance(500), policy=gbce.Nearest(prove=True))  # fmt: skip
    answer = own.explain(ROW, gbce.AtLeast(40), rules=[gbce.MAP()], seed=0).answer
    assert answer.proof == answer.decision.proof.sentence
    assert answer.decision.proof.lower == pytest.approx(proved.decisions[0].proof.lower, rel=1e-6)


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (gbce.Nearest("changes", prove=True), "No point with fewer changes"),
        (gbce.Nearest("l2", prove=True), "reaches the target"),
        (gbce.Nearest(max_changes=1, prove=True), "with at most 1 changed features"),
    ],
)
def test_other_distances_are_proved_in_their_own_words(explainer, rule, said):
    decision = explainer.explain(ROW, gbce.AtLeast(25), rules=[rule], seed=0).decisions[0]
    assert said in decision.proof.sentence
    assert decision.proof.lower > 0


def test_files_keep_proofs(proved, tmp_path):
    again = gbce.load(proved.save(tmp_path / "proved.gbce"))
    assert again.decisions[0].proof == proved.decisions[0].proof
    assert again.answer.sentence == proved.answer.sentence
    decision = replace(proved.decisions[0], proof=replace(proved.decisions[0].proof, lower=float("nan")))
    broken = replace(proved, decisions=(decision,)).save(tmp_path / "broken.gbce")
    with pytest.raises(gbce.FileError, match="proof"):
        gbce.load(broken)


def test_what_cannot_be_proved_is_said(table):
    frame, y = table
    explainer = gbce.Explainer(
        LinearRegression().fit(frame, y), frame, prior=gbce.Gaussian(), sampler=gbce.Importance(500)
    )
    explanation = explainer.explain(ROW, gbce.AtLeast(40), rules=[gbce.Nearest(prove=True)], seed=0)
    assert explanation.decisions[0].proof is None
    assert any("nothing could be proved" in note for note in explanation.notes)


def test_votes_that_tie_are_left_to_the_model(table):
    frame, y = table
    model = RandomForestClassifier(4, max_depth=4, random_state=0).fit(frame, np.where(y > 40, "yes", "no"))
    explainer = gbce.Explainer(model, frame, prior=gbce.Gaussian(), sampler=gbce.Importance(500))
    explanation = explainer.explain(ROW, "yes", rules=[gbce.Nearest(prove=True)], seed=0)
    decision = explanation.decisions[0]
    assert decision.reached[0]
    assert decision.proof.gap <= 0.01 + 1e-9


def test_prove_is_yes_or_no():
    with pytest.raises(ValueError, match="prove must be True or False"):
        gbce.Nearest(prove="yes")


def test_the_optimum_before_rounding_is_reported():
    x = np.arange(40.0)[:, None] / 7
    model = DecisionTreeRegressor(random_state=0).fit(x, x[:, 0])
    explainer = gbce.Explainer(model, x, space=gbce.Space.real(1), sampler=gbce.Importance(200))
    found = explainer.explain(x[0], gbce.AtLeast(4.0), rules=[gbce.Nearest(prove=True)], seed=0)
    proof = found.decisions[0].proof
    cut = x[27:29].mean()  # the first leaf of at least 4 begins after it
    assert proof.lower == pytest.approx(cut, rel=1e-6)
    assert proof.optimum == pytest.approx(cut, rel=1e-6)
    assert proof.cost > proof.optimum * (1 + 1e-5)  # of few digits
    assert proof.sentence.startswith(f"The cheapest point that reaches the target costs {proof.optimum:.6g} (proved")
