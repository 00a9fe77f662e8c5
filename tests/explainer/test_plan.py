"""Plans: the best order against all orders, chances against closed forms, and what to do if a step fails."""

import json
from dataclasses import replace
from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr

import gbce
from gbce.explainer._planning import _describe_fallback, best_order

DATA = pd.DataFrame(np.random.default_rng(0).normal(10, 3, size=(200, 3)).round(1), columns=["skill", "hours", "debt"])
ROW = {"skill": 8.0, "hours": 9.0, "debt": 12.0}
NOISE = 0.2


def score(rows):
    return (rows["skill"] + 2 * rows["hours"] - rows["debt"]).to_numpy(dtype=float)


def explain(constraints=(), target=None, **options):
    space = gbce.Space.infer(DATA, scale={name: 3.0 for name in DATA}, constraints=constraints)
    evaluation = gbce.Evaluation(noise=NOISE)
    explainer = gbce.Explainer(score, DATA, space=space, evaluation=evaluation, **options)
    return explainer, explainer.explain(ROW, target or gbce.AtLeast(30), rules=["Nearest"], seed=0)


@pytest.fixture(scope="module")
def made():
    explainer, explanation = explain(["hours <= skill + 2"])
    return explainer, explanation, explainer.plan(explanation, to="answer")


def price(order, weight, before, possible, chance, loss):
    """What an order of single changes costs, None if it breaks a rule."""
    mask, short, area = 0, 0.0, 0.0
    for j in order:
        if before[j] & ~mask:
            return None
        short += weight[j] * (1 - chance[mask])
        area += weight[j] * loss[mask]
        mask |= 1 << j
        if not possible[mask]:
            return None
    return short, area


@pytest.mark.parametrize("seed", range(40))
def test_the_best_order_is_the_best_of_all_orders(seed):
    rng = np.random.default_rng(seed)
    m = int(rng.integers(2, 6))
    weight, loss = rng.exponential(size=m), rng.exponential(size=1 << m)
    chance = rng.random(1 << m) * (rng.random(1 << m) < 0.4)
    possible = rng.random(1 << m) < 0.7
    possible[[0, -1]] = True
    before = [sum(1 << k for k in range(j) if rng.random() < 0.15) for j in range(m)]
    found = best_order(weight, before, possible, chance, loss)
    prices = [one for order in permutations(range(m)) if (one := price(order, weight, before, possible, chance, loss))]
    single = found is not None and all(mask.bit_count() == 1 for mask in found.masks)
    assert single == bool(prices)
    if prices:
        assert found.n_orders == len(prices)
        assert found.short == pytest.approx(min(prices)[0])
        assert found.short_loss == pytest.approx(min(one for one in prices if one[0] <= min(prices)[0] + 1e-9)[1])


def test_columns_that_are_tied_change_together_and_no_others():
    possible = np.array([True, False, False, True, True, True, False, True])  # 0 and 1 only together, or 2 before 0
    found = best_order(np.ones(3), [0, 0, 0], possible, np.zeros(8), np.zeros(8))
    assert [mask.bit_count() for mask in found.masks].count(2) <= 1
    assert sum(found.masks) == 7
    possible = np.array([True, False, False, True])
    assert best_order(np.ones(2), [0, 0], possible, np.zeros(4), np.zeros(4)).masks == (3,)
    assert best_order(np.ones(2), [0, 1], possible, np.zeros(4), np.zeros(4)) is None


def test_each_step_keeps_the_rules_and_the_model_is_asked_about_it(made):
    _, explanation, plan = made
    space, x = explanation.space, np.array([step.x for step in plan])
    assert space.admissible(x, explanation.x0).all()
    assert np.array_equal(x[-1], explanation.answer.decision.x)
    changed = space.changed(np.vstack([explanation.x0, x])[1:], np.vstack([explanation.x0, x])[:-1])
    assert [tuple(np.array(space.names)[one]) for one in changed] == [step.columns for step in plan]
    assert [step.output for step in plan] == pytest.approx(score(space.frame(x)).tolist())
    assert [step.reached for step in plan] == [output >= 30 for output in score(space.frame(x))]
    assert plan.cost == pytest.approx(explanation.answer.cost)
    assert plan.steps[-1].holds == plan.prospect == explanation.answer.reliability


def test_a_rule_decides_the_order():
    """Hours may not pass the skill by more than two, so the skill rises first."""
    explainer, explanation = explain(["hours <= skill + 2"])
    goal = {"skill": 12.0, "hours": 13.5, "debt": 12.0}
    plan = plan_to(explainer, explanation, goal)
    assert [step.columns for step in plan] == [("skill",), ("hours",)]
    with pytest.raises(ValueError, match="no sequence of these changes keeps both"):
        plan_to(explainer, explanation, goal, order=[("hours", "skill")])


def plan_to(explainer, explanation, goal, **options):
    """The plan to any point, which stands in as the answer."""
    x = explanation.space.encode_row(goal)
    output = score(pd.DataFrame([goal]))
    decision = replace(explanation.answer.decision, x=x, outputs=output, reached=output >= 30)
    answer = replace(explanation.answer, decision=decision, reliability=None)
    return explainer.plan(replace(explanation, answer=answer), fallbacks=False, **options)


def test_chances_are_those_of_a_normal_distribution():
    explainer, explanation = explain()
    plan = plan_to(
        explainer, explanation, {"skill": 11.0, "hours": 14.0, "debt": 7.0}, order=[("skill", "hours", "debt")]
    )
    weights, sd = {"skill": 1.0, "hours": 2.0, "debt": -1.0}, NOISE * 3.0
    left = dict(weights)
    for step in [None, *plan]:
        if step is not None:
            del left[step.columns[0]]
            held = ndtr((step.output - 30) / (sd * np.sqrt(6.0)))
            assert step.holds.low - 0.02 <= held <= step.holds.high + 0.02
        spread = sd * np.sqrt(sum(one**2 for one in left.values()))
        expected = ndtr(2.0 / spread) if spread else 1.0
        share = plan.prospect if step is None else step.prospect
        assert abs(share.share - expected) < 4 * np.sqrt(expected * (1 - expected) / share.n) + 1e-12


def test_the_posterior_given_a_step_is_that_of_given(made):
    _, explanation, plan = made
    first = plan.steps[0]
    (name,) = first.columns
    j = explanation.space.position[name]
    side = "at_least" if first.x[j] > explanation.x0[j] else "at_most"
    given = explanation.given(**{side: {name: float(first.x[j])}})
    share, error = (given.distribution[f"success_probability{end}"] for end in ("", "_se"))
    assert abs(first.posterior - share) < 4 * error + 1e-9


def test_what_to_do_if_a_step_fails_keeps_what_was_done_and_what_failed(made):
    explainer, explanation, plan = made
    done = []
    for step in plan:
        held = [explanation.space.position[name] for name in (*done, *step.columns)]
        if step.fallback.x is not None:
            start = explanation.x0 if not done else plan.steps[len(done) - 1].x
            assert np.array_equal(step.fallback.x[held], start[held])
            assert score(explanation.space.frame(step.fallback.x[None, :]))[0] >= 30
            assert 0 <= step.fallback.probability <= 1
        done += step.columns
    first = explainer.given(explanation, keep=list(plan.steps[0].columns))
    assert plan.steps[0].fallback.probability == pytest.approx(first.distribution["success_probability"], abs=0.05)


@pytest.mark.parametrize(
    ("share", "says"),
    [
        (0.95, "If this cannot be done: lower debt, which works with probability 0.950."),
        (0.7, "If this cannot be done: lower debt, which works with probability 0.700, less than the 0.9 wanted."),
        (0.051, "no other way was found that is likely to work: the best, lower debt, works only 5 times in 100."),
    ],
)
def test_a_way_that_will_hardly_work_is_not_recommended(share, says):
    assert _describe_fallback("lower debt", gbce.explanation.Share.of(share, 1000), 0.9).endswith(says)


def test_time_and_effort_order_the_steps():
    explainer, explanation = explain()
    goal = {"skill": 11.0, "hours": 14.0, "debt": 7.0}
    slow = plan_to(explainer, explanation, goal, time={"skill": 12, "hours": 1, "debt": 2})
    assert [step.columns for step in slow] == [("hours",), ("debt",), ("skill",)]  # long steps while little is missing
    assert slow.time == 15
    dear = plan_to(explainer, explanation, goal, effort={"skill": 3.0})
    assert dear.cost == pytest.approx(slow.cost + 2.0 * 1.0)


def test_a_plan_is_plain_data(made, tmp_path):
    plan = made[2]
    assert json.loads(plan.to_json())["steps"][0]["row"].keys() == set(DATA)
    assert json.loads(plan.to_json(tmp_path / "plan.json").read_text())["reached"] is True
    assert len(plan.table) == len(plan) + 1
    assert list(plan.table[["skill", "hours", "debt"]].iloc[0]) == list(ROW.values())
    assert str(plan).count("If this cannot be done") == len(plan)


def test_a_row_that_reaches_needs_no_plan():
    explainer, explanation = explain(target=gbce.AtLeast(5))
    plan = explainer.plan(explanation)
    assert len(plan) == 0
    assert "nothing to change" in str(plan)
    with pytest.raises(ValueError, match="no step to draw"):
        plan.plot()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"order": [("skill", "hours"), ("hours", "skill")]}, "would have to change before itself"),
        ({"order": [("skills", "hours")]}, "order names 'skills'"),
        ({"order": ("skill", "hours")}, "must be a sequence of columns"),
        ({"order": "skill"}, "must be a list of sequences"),
        ({"time": {"age": 3}}, "time names 'age'"),
        ({"time": {"skill": -1}}, "zero or more, not -1"),
        ({"time": [1]}, "time must be a mapping"),
        ({"effort": {"skill": 0}}, "must be a positive number"),
        ({"to": "Mean"}, "there is no decision 'Mean'"),
        ({"to": 40}, "there is no strategy 40"),
        ({"to": None}, "to must be 'answer'"),
    ],
)
def test_options_that_make_no_sense_are_a_sentence(made, options, problem):
    with pytest.raises((ValueError, TypeError), match=problem):
        made[0].plan(made[1], fallbacks=False, **options)
