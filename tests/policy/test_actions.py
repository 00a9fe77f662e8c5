"""Group actions: what they may change, whom they serve, and whether what they promise holds for other rows."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import gbce
from gbce.policy import Action, Move, actions
from gbce.policy._action import apply_action, list_amounts, propose_actions, vary_action
from support.policies import answered_rows, approve, lending, lending_rows, simulated_answers

K = 3


@pytest.fixture(scope="module")
def explainer():
    return lending()


@pytest.fixture(scope="module")
def answered(explainer):
    return simulated_answers(explainer, lending_rows(120, 7), 7)


@pytest.fixture(scope="module")
def found(explainer, answered):
    return actions(answered, K, explainer=explainer, seed=0)


def test_amounts_are_written_as_people_write_them():
    space = gbce.Space.infer(pd.DataFrame({"discount": [0.1, 0.3, 7.5, 2.2], "rate": [0.01, 0.07, 0.55, 0.32]}))
    for j in (0, 1):
        amounts = list_amounts(space, j, 5.0)
        assert max(len(repr(one)) for one in amounts.tolist()) <= 5, amounts  # 0.6, not 0.6000000000000001
        assert (np.diff(amounts) > 0).all()


def test_every_promise_is_what_model_and_rules_say(explainer, answered, found):
    """Costs are those of plain pandas, infinite where the model refuses or a rule of the row is broken."""
    frame, scale = explainer.space.frame(answered.x0), explainer.space.scale
    for number, action in enumerate(found.actions):
        x = apply_action(action, answered.x0)
        after = explainer.space.frame(x)
        kept = (after["debt"] >= 0) & (after["debt"] >= 0.2 * after["pay"] - 1e-9) & (after["years"] >= frame["years"])
        kept &= (after["age"] == frame["age"]) & (after["years"] <= 40) & (approve(after) >= 60)
        move = np.abs(x - answered.x0) / scale
        job = explainer.space.position["job"]
        move[:, job] = x[:, job] != answered.x0[:, job]
        expected = np.where(kept, move.sum(axis=1), np.inf)
        np.testing.assert_allclose(found.row_costs[:, number], expected, rtol=1e-12)
        assert explainer.space.position["age"] not in action.columns
    least = found.row_costs.min(axis=1)
    np.testing.assert_array_equal(found.serves >= 0, np.isfinite(least))
    assert found.rows["cost"].to_numpy() == pytest.approx(np.where(np.isfinite(least), least, np.nan), nan_ok=True)


def test_limits_of_each_row_are_those_of_placing_it_alone(answered):
    """What settle_each accepts is exactly what place leaves as it is."""
    rules = ["debt >= 0.2 * pay", "never job 'nurse' -> 'cook'"]
    space, x0 = lending(constraints=rules).space, answered.x0[:40].copy()
    x0[0, space.position["debt"]] = 0.0
    rng = np.random.default_rng(0)
    x = x0.copy()
    for j in range(len(space)):
        moved = rng.random(len(x0)) < 0.5
        x[moved, j] += rng.choice([-25.0, -1.0, 0.5, 1.0, 25.0], moved.sum())
    job = space.position["job"]
    x[:, job] = rng.integers(0, 3, len(x0))
    after, good = space.settle_each(x, x0)
    alone = [space.place(one[None], row) for one, row in zip(x, x0, strict=True)]
    untouched = [bool(fine[0]) and np.array_equal(placed[0], one) for (placed, fine), one in zip(alone, x, strict=True)]
    np.testing.assert_array_equal(good, untouched)
    assert not good[(x0[:, job] == 2) & (x[:, job] == 1)].any()
    assert ((x0[:, job] == 2) & (x[:, job] == 1)).any()
    assert 0 < good.sum() < len(x)
    np.testing.assert_array_equal(after, x)


def test_computed_columns_follow_and_keep_their_bounds():
    data = pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0], "b": [1.0, 1.0, 2.0, 2.0], "s": [2.0, 3.0, 5.0, 6.0]})
    space = gbce.Space.infer(data, computed={"s": "a + b"}, bounds={"s": (None, 7.0), "a": (0, 9)})
    x0 = space.encode(data)
    x = x0.copy()
    x[:, 0] += [1.0, 4.0, 1.0, 2.0]
    after, good = space.settle_each(x, x0)
    assert after[:, 2].tolist() == [3.0, 7.0, 6.0, 8.0]
    assert good.tolist() == [True, True, True, False]


def test_a_fourth_action_is_added_and_changes_none(explainer, answered, found):
    more = actions(answered, K + 2, explainer=explainer, seed=0)
    assert more.actions[:K] == found.actions
    assert more.coverage[:K] == found.coverage
    first = more.first(K)
    pd.testing.assert_frame_equal(first.frame(), found.frame())
    pd.testing.assert_frame_equal(first.rows, found.rows)
    shares = [share.share for share in more.coverage]
    assert shares == sorted(shares)


def test_what_is_promised_is_the_share_of_the_rows_that_did_not_choose(explainer, answered):
    found = actions(answered, 1, explainer=explainer, seed=1, worth=1.2, choosing=0.3)
    n, rest = found.n_chosen_on, len(found.labels) - found.n_chosen_on
    assert found.coverage[0].n == rest
    assert found.seen[0] != found.coverage[0].share
    assert round(n * found.seen[0] + rest * found.coverage[0].share, 6) == (found.serves >= 0).sum()


def test_the_best_k_of_the_candidates_are_at_least_as_good_as_the_nested(explainer, answered):
    options = {"explainer": explainer, "seed": 0, "worth": 2.0, "max_candidates": 30}
    best, nested = (actions(answered, 2, exact=exact, **options) for exact in (True, False))
    assert best.exact
    assert best.guarantee == 1.0
    assert len(best) == 2
    assert 0.63 < nested.guarantee <= 1.0
    with pytest.raises(ValueError, match="not nested"):
        best.first(1)


def test_the_last_row_in_a_hundred_is_not_served_at_any_price():
    """One of 300 rows needs an action that is sixty times as dear; a large worth serves it all the same."""
    space = gbce.Space.infer(pd.DataFrame({"pay": np.r_[np.linspace(40, 59, 299), 0.0]}), scale="raw")
    explainer = gbce.Explainer(lambda x: x["pay"], space.frame(np.linspace(40.0, 99.0, 60)[:, None]), space=space)
    rows = answered_rows(np.full(300, 0.95), space=space)
    x0 = np.r_[np.full(299, 59.0), 0.0][:, None]
    rows = replace(rows, x0=x0, answers=np.full((300, 1), 60.0), target=gbce.AtLeast(60.0))
    options = {"explainer": explainer, "with_data": False}
    found = actions(rows, 1, seed=0, choosing=0.999, **options)  # all rows but one choose
    assert found.actions[0].moves == (Move(0, "by", 1.0),)
    assert 0.99 < found.seen[0] < 1.0
    assert actions(rows, 1, seed=0, choosing=0.999, worth=1e6, **options).seen[0] == 1.0


def test_prices_decide_what_changes(explainer, answered):
    paid = actions(answered, 1, explainer=explainer, prices={"pay": 1e4, "years": 1.0, "debt": 1.0}, seed=0, worth=90.0)
    assert "job" not in {explainer.space.names[j] for j in paid.actions[0].columns}
    taken = paid.rows[paid.rows["action"] == 1]
    assert len(taken)
    after = paid.apply(explainer.space.frame(answered.x0).loc[taken.index], 1)
    before = explainer.space.frame(answered.x0).loc[taken.index]
    by_hand = (after["debt"] - before["debt"]).abs() + (after["years"] - before["years"]).abs()
    assert (after["pay"] == before["pay"]).all()  # a step of pay costs more than a row is worth
    np.testing.assert_allclose(taken["cost"], by_hand)
    assert taken["cost"].max() <= 90
    only = actions(answered, 2, explainer=explainer, keep=["pay", "job"], seed=0)
    assert all(explainer.space.names[j] in ("debt", "years") for one in only.actions for j in one.columns)


def test_groups_get_their_own_actions_or_equal_ones(explainer, answered):
    own = actions(answered, 2, explainer=explainer, groups="job", seed=0)
    assert set(own.groups) <= {"clerk", "nurse", "cook"}
    assert set(own.steps) == {1, 2}
    for number, group in enumerate(own.groups):
        others = np.array(own.group_of_rows) != group
        assert np.isinf(own.row_costs[others, number]).all()
    labels = ["few" if i < 20 else "many" for i in range(len(answered))]
    equal = actions(answered, 2, explainer=explainer, groups=labels, share="equal", seed=0, worth=1.5)
    assert equal.groups == (None, None)
    assert set(equal.group_coverage) == {"few", "many"}
    assert "few" in str(equal)


def test_one_model_row_for_each_pair_that_is_possible_and_a_budget_is_kept(explainer, answered):
    n = len(answered)
    small = actions(answered, 2, explainer=explainer, seed=0, max_model_rows=3_000)
    assert small.n_model_rows <= 3_000
    assert len(small) == 2
    whole = actions(answered, 2, explainer=explainer, seed=0)
    assert whole.n_model_rows <= 1_200 * n
    with pytest.raises(gbce.BudgetSpentError, match="does not allow one candidate"):
        actions(answered, 2, explainer=explainer, seed=0, max_model_rows=100)


def test_answers_that_are_not_reliable_are_not_built_from(explainer, answered):
    half = np.arange(len(answered)) % 2 == 0
    space = explainer.space
    wild = answered.answers.copy()
    wild[~half, space.position["pay"]] += 300.0
    mixed = replace(answered, answers=wild, reliable=half)
    found = actions(mixed, 2, explainer=explainer, seed=0)
    assert max((abs(move.value) for one in found.actions for move in one.moves), default=0) < 200
    low = replace(mixed, reliability=np.where(half, 0.95, 0.2)[:, None] * np.ones(3))
    assert len(actions(low, 1, explainer=explainer, seed=0, min_reliability=0.9)) == 1
    with pytest.raises(ValueError, match="no answer has a reliability of at least"):
        actions(low, 1, explainer=explainer, seed=0, min_reliability=0.99)


def test_answers_suggest_amounts_values_levels_and_their_unions(explainer):
    space = explainer.space
    x0 = space.encode(lending_rows(6, 3))
    pay, debt, job = (space.position[name] for name in ("pay", "debt", "job"))
    x = x0.copy()
    x[:3, pay] += [4.8, 6.2, 9.9]
    x[3:5, debt] = 3.0
    x[5, job] = (x0[5, job] + 1) % 3
    allowed = np.ones(len(space), dtype=bool)
    listed = propose_actions(space, x0, x, allowed, 3, 200)
    assert len(set(listed)) == len(listed)
    amounts = {move.value for one in listed for move in one.moves if move.column == pay and move.how == "by"}
    assert {5.0, 10.0, 20.0} & amounts == {10.0, 20.0} or max(amounts) >= 19
    assert any(move.how == "at most" and move.column == debt for one in listed for move in one.moves)
    assert any(move.how == "to" and move.column == job for one in listed for move in one.moves)
    assert any(len(one.moves) == 2 for one in listed)
    x[:, pay] += 1.0
    none = propose_actions(space, x0, x, np.arange(len(space)) != pay, 3, 200)
    assert all(pay not in one.columns for one in none)
    around = vary_action(space, listed[0], [], 3)
    assert listed[0] not in around
    assert around


def test_a_change_is_exchanged_for_that_of_another_column():
    """All rows need a and c; most answers change a and b, which is enough for half of them, and some c."""
    n = 24
    hard = np.arange(n) % 2
    data = pd.DataFrame(np.random.default_rng(0).uniform(0, 2, (n, 3)), columns=list("abc")).assign(hard=hard)

    def approve_both(rows):
        second = np.where(rows["hard"] == 1, rows["c"], np.maximum(rows["b"], rows["c"]))
        return np.minimum(rows["a"], second).to_numpy(dtype=float)

    space = gbce.Space.infer(data, immutable=["hard"], scale="raw", bounds=dict.fromkeys("abc", (0, 5)))
    explainer = gbce.Explainer(approve_both, data, space=space)
    x0 = space.encode(data.assign(a=0.0, b=0.0, c=0.0))
    answers = x0 + np.array([1.0, 1.0, 0.0, 0.0])
    answers[::3, :3] = 0.0, 0.0, 1.0
    rows = replace(answered_rows(np.full(n, 0.95), space=space), x0=x0, answers=answers, target=gbce.AtLeast(1.0))
    found = actions(rows, 1, explainer=explainer, seed=0, max_columns=2, with_data=False)
    assert found.coverage[0].share == 1.0
    assert found.actions[0].columns == (0, 2)


def test_actions_read_as_sentences_and_are_plain_data(explainer, found, tmp_path):
    space = explainer.space
    pay, debt, job, years = (space.position[name] for name in ("pay", "debt", "job", "years"))
    one = Action((Move(pay, "by", 5.0), Move(debt, "at most", 300.0), Move(job, "to", 2.0)))
    assert one.describe(space) == "raise pay by 5, lower debt to at most 300 and set job to 'nurse'"
    assert Action((Move(years, "at least", 3.0),)).describe(space) == "raise years to at least 3"
    x0 = space.encode(lending_rows(1, 4))
    x0[0, debt] = 100.0
    assert apply_action(one, x0)[0, debt] == 100.0  # who is below stays there
    text = str(found)
    assert text.startswith("1. ")
    assert "Of the rows that took no part in the choice" in text
    assert f"measured on the other {len(found.labels) - found.n_chosen_on}" in text
    written = json.loads(found.to_json(tmp_path / "actions.json").read_text())
    assert written["actions"][0]["changes"].keys() == {space.names[j] for j in found.actions[0].columns}
    assert len(written["rows"]) == len(found.labels)
    assert found.plot().get_xlim() == (0.0, 1.0)


def test_intervals_of_coverage_hold_in_simulated_tables(explainer):
    """The truth is the share of 2,000 other rows that the actions of each table serve."""
    space = explainer.space
    others = lending_rows(2_000, 999)
    x0 = space.encode(others)
    inside, n_tables = 0, 60
    for seed in range(n_tables):
        rows = simulated_answers(explainer, lending_rows(80, 5_000 + seed), seed)
        found = actions(rows, 2, explainer=explainer, seed=seed, worth=2.0, max_candidates=30, max_columns=2)
        served = np.zeros(len(x0), dtype=bool)
        for action in found.actions:
            x, possible = space.settle_each(apply_action(action, x0), x0)
            size = space.change(x, x0) / space.scale
            served |= possible & (approve(space.frame(x)).to_numpy() >= 60) & (size.sum(axis=1) <= 2.0)
        inside += found.coverage[-1].low <= served.mean() <= found.coverage[-1].high
    # three standard errors around 95%
    assert inside / n_tables >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / n_tables)


def test_memory_does_not_grow_with_the_table(explainer):
    import tracemalloc

    peaks = []
    for n in (4_000, 30_000):
        rows = simulated_answers(explainer, lending_rows(400, 3), 3)
        rows = rows.take(np.resize(np.arange(len(rows)), n))
        tracemalloc.start()
        actions(rows, 2, explainer=explainer, seed=0, max_candidates=40)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    # by row: the copy of the rows that miss the target and two costs; the batches and the actions tried are the rest
    assert peaks[1] - peaks[0] < 26_000 * 260
    assert peaks[1] < 50e6


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"k": 0}, "k must be an integer"),
        ({"share": "fair"}, "share must be 'own'"),
        ({"worth": -1}, "worth must be a positive number"),
        ({"keep": ["height"]}, "keep names 'height'"),
        ({"prices": {"height": 1}}, "prices names 'height'"),
        ({"prices": {"pay": -1}}, "the price of 'pay' must be a number of at least 0"),
        ({"prices": {}}, "prices names no column"),
        ({"groups": "height"}, "there is no column 'height'"),
        ({"groups": ["a"]}, "groups must have one entry per row"),
        ({"choosing": 1.0}, "choosing must lie between 0 and 1"),
        ({"min_reliability": 2}, "min_reliability must lie between"),
        ({"keep": ["pay", "debt", "job", "years"]}, "may change no column"),
        ({"prices": {"age": 1}}, "may change no column"),
    ],
)
def test_bad_input_gets_a_sentence(explainer, answered, options, said):
    with pytest.raises(ValueError, match=said):
        actions(answered, **{"k": 1, "explainer": explainer, "seed": 0} | options)


def test_rows_without_a_common_target_or_an_explainer_get_a_sentence(explainer, answered):
    with pytest.raises(ValueError, match="no common target"):
        actions(replace(answered, target=None), 1, explainer=explainer)
    for wrong in ("mine", None):
        with pytest.raises(TypeError, match=r"explainer must be the gbce\.Explainer"):
            actions(answered, 1, explainer=wrong)
    other = gbce.Explainer(lambda x: x.sum(axis=1), np.random.default_rng(0).normal(size=(20, 2)))
    with pytest.raises(ValueError, match="explainer has the columns"):
        actions(answered, 1, explainer=other)
    for name in ("exact", "with_data"):
        with pytest.raises(TypeError, match=f"{name} must be True or False"):
            actions(answered, 1, explainer=explainer, **{name: "no"})
    with pytest.raises(TypeError, match="a group must be a string, a number or a tuple"):
        actions(answered, 1, explainer=explainer, groups=[["a"]] * len(answered))
    nobody = replace(answered, already=np.ones(len(answered), dtype=bool))
    with pytest.raises(ValueError, match="need at least 2"):
        actions(nobody, 1, explainer=explainer)
    without = replace(answered, answered=np.zeros(len(answered), dtype=bool))
    with pytest.raises(ValueError, match="nothing to build actions from"):
        actions(without, 1, explainer=explainer)
