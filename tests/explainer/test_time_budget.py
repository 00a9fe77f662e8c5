"""Time: kept to within a batch of a measured pace, on a clock that only models move."""

import subprocess
import sys
import threading
from dataclasses import replace

import joblib
import numpy as np
import pytest

import gbce
from gbce.batch._many import Allowance
from gbce.budget import Budget, BudgetSpentError, Pace
from support.clock import Clock

DATA = np.random.default_rng(0).normal(size=(300, 4))
SPACE = gbce.Space.real(4)
EASY = gbce.AtLeast(2.0, scale=1, tolerance=0.1)
HARD = gbce.Value(9.0, scale=0.1, tolerance=0.1)
BLINK = 0.05  # seconds: a batch may end so much after the deadline
# Seconds: a dozen decisions and one that ended early, their own rows, asked when time is over; and a clock's last bits.
DECIDED = 0.035 + 1e-9


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("gbce.budget._now", clock)
    return clock


@pytest.fixture(scope="module")
def known():
    """An explanation that was made without any limit."""
    explainer = gbce.Explainer(lambda x: x.sum(axis=1), DATA, space=SPACE)
    return explainer.explain(DATA[0], EASY, seed=0)


# --- the pace of a model ---------------------------------------------------------------------------------------------


def test_a_pace_tells_calls_from_rows():
    pace = Pace()
    for rows in (1, 8, 64, 512, 30):
        pace.add(rows, 0.2 + 0.001 * rows)
    assert (pace.per_call, pace.per_row) == (pytest.approx(0.2), pytest.approx(0.001))


def test_a_first_call_that_loads_something_does_not_count_for_long():
    pace = Pace()
    pace.add(1, 5.0)
    assert pace.per_row == 5.0
    pace.add(100, 0.1)
    assert (pace.per_call, pace.per_row) == (0.0, pytest.approx(0.001))


def test_a_pace_follows_a_model_that_slows_down():
    pace = Pace()
    for seconds in [0.001] * 50 + [0.01] * 15:
        pace.add(100, 100 * seconds)
    assert 0.009 < pace.per_row <= 0.01


def test_a_share_knows_the_pace_of_the_whole(clock):
    whole = Budget(deadline=1010.0)
    with whole.spending(100, 1):
        clock.time += 0.1
    assert whole.share(0.5).affords(10**9, [(1, 1)]) == pytest.approx(0.8 * 0.5 * 9.9 * 1000, abs=2)


def test_models_of_different_pace_are_counted_each_by_its_own(clock):
    whole = Budget(deadline=1010.0)
    for model, seconds in ((1, 0.001), (2, 0.1)):
        with whole.spending(10, model):
            clock.time += 10 * seconds
    left = 1010.0 - clock.time
    assert whole.affords(10**9, [(1, 1), (2, 1)]) == int(0.8 * left / 0.101)
    assert whole.affords(10**9, [(1, 1)]) == int(0.8 * left / 0.001)


def test_a_model_of_unknown_pace_is_asked_little_at_first(clock):
    model = clock.model()
    gbce.Explainer(model, DATA, space=SPACE).explain(DATA[0], EASY, rules=[], seed=0, time_budget=5)
    assert model.sizes[0] == 1  # the row itself
    assert model.sizes[1] <= 8
    assert max(model.sizes) <= 0.25 * 5 * 1000


# --- one row ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sampler", [gbce.SMC(), gbce.Importance(), gbce.Chains(20, 20)], ids=lambda s: type(s).__name__
)
@pytest.mark.parametrize(("per_row", "per_call"), [(1e-3, 0.0), (1e-2, 0.0), (1e-5, 0.02), (1e-3, 0.02)])
@pytest.mark.parametrize("target", [EASY, HARD], ids=["easy", "hard"])
def test_an_explanation_keeps_its_time(clock, sampler, per_row, per_call, target):
    explainer = gbce.Explainer(clock.model(per_row, per_call), DATA, space=SPACE, sampler=sampler)
    explanation = explainer.explain(DATA[0], target, seed=0, time_budget=2)
    assert clock.passed <= 2 + BLINK + per_call + 10 * per_row + 10 * per_row  # and as many decisions, in one call
    assert {"Nearest", "MAP"} <= {decision.label for decision in explanation.decisions}
    assert clock.passed >= 0.5 or explanation.diagnostics["complete"]  # what was allowed is used, too


def test_several_models_of_different_pace_keep_the_time(clock):
    models = [clock.model(1e-5), clock.model(5e-3, slope=1.1), clock.model(1e-3, slope=0.9)]
    explanation = gbce.Explainer(models, DATA, space=SPACE).explain(DATA[0], EASY, seed=0, time_budget=5)
    assert 1.25 <= clock.passed <= 5 + BLINK + 10 * 6e-3
    assert len(explanation.decisions) >= 2


def test_many_models_that_share_the_points_keep_the_time(clock):
    models = [clock.model(1e-4 * (1 + k), slope=1 + 0.01 * k) for k in range(20)]
    explanation = gbce.Explainer(models, DATA, space=SPACE).explain(DATA[0], EASY, seed=0, time_budget=20)
    assert explanation.draws.facts["joint"]
    assert 5 <= clock.passed <= 20 + BLINK + 10 * sum(1e-4 * (1 + k) for k in range(20))


@pytest.mark.parametrize("target", [EASY, HARD], ids=["easy", "hard"])
def test_a_model_that_becomes_slower_does_no_harm(clock, target):
    explainer = gbce.Explainer(clock.model(1e-4, later=3e-4), DATA, space=SPACE)
    explanation = explainer.explain(DATA[0], target, seed=0, time_budget=2)
    assert clock.passed <= 2 + 3 * BLINK + DECIDED
    assert len(explanation.decisions) >= 2


def test_something_comes_back_from_a_model_of_half_a_second_a_row(clock):
    explainer = gbce.Explainer(clock.model(0.5), DATA, space=SPACE)
    explanation = explainer.explain(DATA[0], EASY, rules=[gbce.Mean()], seed=0, time_budget=2)
    assert clock.passed <= 2 + 2 * 0.5  # a row, and those of the decision and the answer
    assert len(explanation.decisions) == 1


def test_a_price_per_call_is_told_from_one_per_row(clock):
    model = clock.model(1e-6, per_call=0.05)
    explainer = gbce.Explainer(model, DATA, space=SPACE, sampler=gbce.Importance())
    explanation = explainer.explain(DATA[0], EASY, rules=[], seed=0, time_budget=2)
    assert clock.passed <= 2 + BLINK + 0.05
    assert len(explanation.draws.pool) > 1_000  # forty calls of one row would be forty


def test_a_spent_share_refuses_whatever_is_known():
    late = Budget(deadline=0.0)
    assert (late.affords(5, [(1, 1)]), late.batch(5, [(1, 1)])) == (0, 1)
    with pytest.raises(BudgetSpentError):
        late.require(1, [(1, 1)])


def test_rules_make_do_with_fewer_candidates(clock):
    rules = [gbce.CVaR(), gbce.DirectOpt()]
    explainer = gbce.Explainer(clock.model(), DATA, space=SPACE)
    explanation = explainer.explain(DATA[0], EASY, rules=rules, seed=0, time_budget=2)
    assert [decision.label for decision in explanation.decisions] == ["CVaR", "DirectOpt"]
    assert explanation.pointwise["robustness"].notna().all()
    assert any("DirectOpt: the budget ran out; the best point so far" in note for note in explanation.notes)
    row = explanation.mixture.objective(explanation.row.loss, explanation.row.cost)[0]
    assert explanation.pointwise.loc["DirectOpt", "objective"] <= row


def test_without_a_limit_a_question_is_one_call(clock):
    model = clock.model()
    rules = [gbce.CVaR(race=False, refine=False)]
    gbce.Explainer(model, DATA, space=SPACE).explain(DATA[0], EASY, rules=rules, seed=0)
    assert model.sizes[:3] == [300, 1, 3_000]  # the data, once; the row; its candidates
    assert 800 * 64 in model.sizes


# --- what is asked once ----------------------------------------------------------------------------------------------


def test_a_spread_is_read_off_as_many_rows_as_there_is_time_for(clock):
    data = np.random.default_rng(1).normal(size=(4_000, 4))
    explainer = gbce.Explainer(clock.model(), data, space=SPACE)
    open_scale = gbce.AtLeast(2.0)
    hasty = explainer.explain(data[0], open_scale, seed=0, time_budget=2)
    assert clock.passed <= 2 + BLINK + DECIDED
    scale = data.sum(axis=1).std() / 10
    assert hasty.target.scale != scale
    assert hasty.target.scale == pytest.approx(scale, rel=4 / np.sqrt(2 * 300))  # four errors of 300 rows
    later = explainer.explain(data[0], open_scale, rules=[], seed=0)
    assert later.target.scale == pytest.approx(scale, rel=1e-12)  # what was read in haste is not kept
    with pytest.raises(BudgetSpentError, match="takes at least 30 model rows: give the target a scale"):
        gbce.Explainer(clock.model(0.1), data, space=SPACE).explain(data[0], open_scale, time_budget=2)


class SlowClassifier:
    """Has a threshold of its own, and takes its time."""

    classes_ = np.array(["no", "yes"])

    def __init__(self, clock):
        self.clock, self.rows = clock, 0

    def predict_proba(self, x):
        self.rows += len(x)
        self.clock.time += 1e-3 * len(x)
        p = 1 / (1 + np.exp(-np.asarray(x).sum(axis=1)))
        return np.column_stack([1 - p, p])

    def predict(self, x):
        return self.classes_[(self.predict_proba(x)[:, 1] > 0.8).astype(int)]


def test_a_slow_classifier_is_explained_in_time_and_compared_again_later(clock):
    model = SlowClassifier(clock)
    explainer = gbce.Explainer(model, DATA, space=SPACE)
    explanation = explainer.explain(DATA[0] - 1, gbce.Class("yes"), seed=0, time_budget=4)
    assert clock.passed <= 4 + BLINK + 2 * DECIDED
    assert len(explanation.decisions) >= 2
    model.rows = 0
    free = explainer.explain(DATA[0] - 1, gbce.Class("yes"), rules=[], seed=0)
    fresh = gbce.Explainer(model, DATA, space=SPACE).explain(DATA[0] - 1, gbce.Class("yes"), rules=[], seed=0)
    assert free.n_model_rows == fresh.n_model_rows  # the whole comparison, once more
    np.testing.assert_array_equal(free.draws.x, fresh.draws.x)


def test_classifiers_are_compared_at_fewer_points_where_rows_are_short(clock):
    model = SlowClassifier(clock)
    explainer = gbce.Explainer(model, DATA, space=SPACE)
    explanation = explainer.explain(DATA[0] - 1, gbce.Class("yes"), seed=0, max_model_rows=2_000)
    assert 1_000 < model.rows == explanation.n_model_rows <= 2_000
    assert len(explanation.decisions) >= 2
    others = [SlowClassifier(clock), SlowClassifier(clock)]
    table = explainer.survival(explanation, others, max_model_rows=400)
    assert sum(other.rows for other in others) + model.rows - explanation.n_model_rows <= 400
    assert table["survival"].notna().all()
    again = explainer.explain(DATA[0] - 1, gbce.Class("yes"), seed=0, max_model_rows=2_000)
    np.testing.assert_array_equal(again.draws.x, explanation.draws.x)


def test_rows_that_nobody_asks_are_not_charged():
    def predict(x):
        return 1 / (1 + np.exp(-x.sum(axis=1)))

    model = gbce.classifier(predict, classes=["no", "yes"])  # without a predict there is nothing to compare
    explanation = gbce.Explainer(model, DATA, space=SPACE).explain(
        DATA[0] - 1, gbce.Class("yes"), seed=0, max_model_rows=3_000
    )
    assert 1_000 < explanation.n_model_rows <= 3_000


# --- further questions -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [None, 0.1])
@pytest.mark.parametrize("others", [False, True])
def test_a_frontier_keeps_its_time_and_comes_back(clock, known, noise, others):
    explainer = gbce.Explainer(clock.model(), DATA, space=SPACE)
    models = {"models": [clock.model(slope=s) for s in (0.9, 1.0, 1.1)]} if others else {}
    table = explainer.frontier(known, noise=noise, time_budget=2, unseen=[clock.model(slope=1.05)], **models)
    assert clock.passed <= 2 + BLINK + DECIDED
    assert len(table) > 0
    assert table["unseen"].notna().all()


def test_a_frontier_whose_time_runs_out_says_so_and_comes_back(clock, known):
    slow = gbce.Explainer(clock.model(1e-3, later=0.1), DATA, space=SPACE)
    with pytest.warns(UserWarning, match="before points could be confirmed"):
        table = slow.frontier(known, noise=0.1, time_budget=1)
    assert len(table) > 0
    with pytest.raises(BudgetSpentError, match="one point takes 64 rows"):
        gbce.Explainer(clock.model(1.0), DATA, space=SPACE).frontier(known, noise=0.1, time_budget=1)


def test_survival_keeps_time_and_rows(clock, known):
    explainer = gbce.Explainer(clock.model(), DATA, space=SPACE)
    models = [clock.model(slope=s) for s in (0.8, 1.0, 1.2)]
    free = explainer.survival(known, models)
    for ask in (explainer.survival, gbce.metrics.survival):
        start = clock.time
        table = ask(known, models, time_budget=1.5)
        assert clock.time - start <= 1.5 + BLINK
        assert clock.time - start >= 0.375
        assert table.drop("posterior").equals(free.drop("posterior"))
        few, all_of_them = table.loc["posterior"], free.loc["posterior"]
        assert abs(few["survival"] - all_of_them["survival"]) < 4 * few["se"]
        assert all_of_them["se"] < few["se"] < 0.1
        sum_before = sum(sum(model.sizes) for model in models)
        ask(known, models, max_model_rows=300)
        assert 200 < sum(sum(model.sizes) for model in models) - sum_before <= 300
        assert ask(known, models, max_model_rows=10**6).equals(free)
    # one row more, of the explainer's own model: whether the explanation is its own
    none = explainer.survival(known, models, max_model_rows=3 * len(known.counterfactuals) + 1)
    assert np.isnan(none.loc["posterior", "survival"])
    assert none.drop("posterior").equals(free.drop("posterior"))
    with pytest.raises(BudgetSpentError):
        explainer.survival(known, models, max_model_rows=2)


def test_the_error_of_some_draws_covers_all_of_them(known):
    models = [lambda x, s=s: s * x[:, 0] + x[:, 1:].sum(axis=1) for s in (0.6, 1.0, 1.4)]
    explainer = gbce.Explainer(lambda x: x.sum(axis=1), DATA, space=SPACE)
    all_of_them = explainer.survival(known, models).loc["posterior", "survival"]
    z = []
    for seed in range(40):
        other = replace(known, query=replace(known.query, seed=seed))
        few = explainer.survival(other, models, max_model_rows=360).loc["posterior"]
        z.append((few["survival"] - all_of_them) / few["se"])
    # a part of the error is that of all draws, so the spread is at most one; 40 values: four errors of their SD
    assert np.sqrt(np.mean(np.square(z))) < 1 + 4 / np.sqrt(2 * 40)


def test_sensitivity_keeps_time_and_rows(clock):
    model = clock.model()
    explainer = gbce.Explainer(model, DATA, space=SPACE)
    options = {"n_rows": 3, "n_null": 2, "seed": 0}
    found = explainer.sensitivity(DATA[0], HARD, time_budget=6, **options)
    assert 1.5 <= clock.passed <= 6 + BLINK
    assert found.table["row"].tolist() == ["same"] * 2 + ["moved"] * 3
    assert (found.table["eta"] < 1).all()
    assert found.sentence.endswith("the budget ended 6 of 6 runs early: they may differ for that reason alone")
    model.sizes.clear()
    found = explainer.sensitivity(DATA[0], HARD, max_model_rows=6_000, **options)
    assert 3_000 < sum(model.sizes) <= 6_000
    with pytest.raises(BudgetSpentError, match="raise max_model_rows"):
        explainer.sensitivity(DATA[0], HARD, max_model_rows=12, **options)


# --- many rows -------------------------------------------------------------------------------------------------------


def many(explainer, rows, **options):
    return explainer.explain_many(rows, EASY, seed=0, progress=False, **options)


def test_every_row_has_its_time(clock):
    table = many(gbce.Explainer(clock.model(), DATA, space=SPACE), DATA[:4], time_budget=2)
    assert 2 <= clock.passed <= 4 * 2 + 4 * (BLINK + DECIDED)
    assert set(table.pointwise.index.get_level_values("row")) == {0, 1, 2, 3}


@pytest.mark.parametrize("n_rows", [2, 20])
def test_setting_up_is_part_of_the_rows_time(clock, n_rows):
    target = gbce.AtLeast(2.0)  # its scale is read off the data
    explainer = gbce.Explainer(clock.model(0.02), DATA, space=SPACE)
    table = explainer.explain_many(DATA[:n_rows], target, seed=0, progress=False, time_budget=2)
    assert clock.passed <= n_rows * (2 + BLINK + 20 * DECIDED)  # rows of the decisions take twenty times as long
    assert clock.passed >= n_rows
    assert not table.errors.size


@pytest.mark.parametrize("per_row", [None, 0.2])
def test_all_rows_have_their_time(clock, per_row):
    explainer = gbce.Explainer(clock.model(), DATA, space=SPACE)
    table = many(explainer, DATA[:20], total_time=20, time_budget=per_row)
    assert clock.passed <= (20 if per_row is None else 20 * per_row) + 20 * (BLINK + DECIDED)
    assert clock.passed >= (5 if per_row is None else 5 * per_row)
    assert len(table) == 20


def test_rows_whose_turn_comes_after_the_time_are_lines_with_that_error(clock, monkeypatch):
    monkeypatch.setattr("gbce.batch._many._ROWS_PER_GROUP", 2)
    explainer = gbce.Explainer(clock.model(per_row=30.0), DATA, space=SPACE)  # a single row takes all of the time
    with pytest.warns(UserWarning, match="could not be explained"):
        table = many(explainer, DATA[:6], total_time=10)
    assert len(table) == 6
    assert len(table.errors) >= 4
    assert table.errors.str.startswith("BudgetSpentError").all()
    with pytest.raises(gbce.BudgetSpentError):
        many(explainer, DATA[:6], total_time=10, on_error="raise")


def test_all_rows_have_their_model_rows_whatever_is_finished(tmp_path):
    model_rows = []

    def model(x):
        model_rows.append(len(x))
        return x.sum(axis=1)

    target, rows = gbce.AtLeast(2.0), DATA[:3]
    options = {"seed": 0, "progress": False, "rules": [gbce.Mean()], "total_model_rows": 4_974}
    whole = gbce.Explainer(model, DATA, space=SPACE).explain_many(rows, target, **options)
    assert whole.n_model_rows == sum(model_rows) <= 4_974
    assert (
        whole.diagnostics["n_model_rows"] <= 1_442
    ).all()  # 300 for the spread, 300 for known rows, 48 for a store's note
    assert whole.diagnostics["n_model_rows"].sum() > 2_250
    explainer = gbce.Explainer(model, DATA, space=SPACE)
    options |= {"keep": "draws"}
    explainer.explain_many(rows, target, store=tmp_path / "s", **options)
    (tmp_path / "s" / "draws" / "row-000002.gbce").unlink()
    resumed = explainer.explain_many(rows, target, store=tmp_path / "s", **options)
    assert resumed.pointwise.equals(whole.pointwise)
    with pytest.raises(ValueError, match="max_model_rows changed"):
        explainer.explain_many(rows, target, store=tmp_path / "s", **options | {"total_model_rows": 20_000})
    with pytest.raises(ValueError, match="time_budget changed"):
        explainer.explain_many(rows, target, store=tmp_path / "s", time_budget=9.0, **options)
    with pytest.raises(BudgetSpentError, match="leaves none for each of 3 rows after 648 for the set-up"):
        explainer.explain_many(rows, target, **options | {"total_model_rows": 305, "keep": None})
    refitted = gbce.Explainer(model, DATA, space=SPACE, refits=[lambda x: x.sum(axis=1), lambda x: x.sum(axis=1) + 0.1])
    with pytest.raises(BudgetSpentError, match="after 744 for the set-up"):  # 48 of each refit for a store's note
        refitted.explain_many(rows, target, seed=0, progress=False, total_model_rows=305)


def test_groups_side_by_side_have_the_time_at_the_same_time(clock):
    allowance = Allowance.of(None, None, None, 100.0)
    assert allowance.seconds_for_group(16, 64, workers=1) == pytest.approx(0.9 * 100 / 4)
    assert allowance.seconds_for_group(16, 64, workers=2) == pytest.approx(0.9 * 100 / 2)
    clock.time += 60
    assert allowance.seconds_for_group(16, 16, workers=2) == pytest.approx(0.9 * 40)
    assert Allowance.of(None, 1.0, None, 100.0).seconds_for_group(16, 64, workers=2) == 16.0


def test_several_workers_have_a_time_in_all():
    explainer = gbce.Explainer(lambda x: x.sum(axis=1), DATA, space=SPACE, sampler=gbce.Importance(500, 100))
    with joblib.parallel_config(backend="threading"):
        table = many(explainer, DATA[:20], rules=[gbce.Mean()], n_jobs=2, total_time=3_600)
    assert len(table) == 20


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 0, -1, "soon", True])
@pytest.mark.parametrize("name", ["max_model_rows", "time_budget", "total_model_rows", "total_time"])
def test_limits_are_told_in_a_sentence(name, bad, known):
    explainer = gbce.Explainer(lambda x: x.sum(axis=1), DATA, space=SPACE)
    sentence = f"^{name} must be (an integer|a positive number) .*, not {bad!r}: leave it out for no limit$"
    with pytest.raises(ValueError, match=sentence):
        explainer.explain_many(DATA[:2], EASY, progress=False, **{name: bad})
    if name in ("max_model_rows", "time_budget"):
        for ask in (
            lambda **limit: explainer.explain(DATA[0], EASY, **limit),
            lambda **limit: explainer.sensitivity(DATA[0], EASY, **limit),
            lambda **limit: explainer.survival(known, [sum], **limit),
            lambda **limit: explainer.frontier(known, **limit),
        ):
            with pytest.raises(ValueError, match=sentence):
                ask(**{name: bad})


# --- models that hang ------------------------------------------------------------------------------------------------


class Hangs:
    """Adds up columns; from a call on it never comes back, until it is let go."""

    def __init__(self, after):
        self.after, self.calls, self.threads = after, 0, set()
        self.go, self.left = threading.Event(), threading.Event()

    def __call__(self, x):
        self.calls += 1
        self.threads.add(threading.current_thread())
        if self.calls > self.after:
            self.go.wait()
            self.left.set()
        return x.sum(axis=1)


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(gbce.budget, "_PACING", replace(gbce.budget._PACING, least_patience=0.05))


@pytest.fixture
def hanging():
    made = []

    def make(after):
        made.append(Hangs(after))
        return made[-1]

    yield make
    for one in made:
        one.go.set()


@pytest.mark.parametrize("after", [0, 1, 3])
def test_a_model_that_hangs_at_first_is_named_in_an_error(impatient, hanging, after):
    model = hanging(after)
    explainer = gbce.Explainer(model, DATA, space=SPACE)
    with pytest.raises(BudgetSpentError, match=r"^Hangs did not return within .* raise time_budget$"):
        explainer.explain(DATA[0], gbce.AtLeast(2.0), seed=0, time_budget=0.3)
    assert model.calls == after + 1  # and nobody asks it again
    assert all(thread.daemon for thread in model.threads)


def test_what_was_drawn_before_a_model_hangs_comes_back_and_says_so(impatient, hanging):
    ask = Hangs(10**9)
    gbce.Explainer(ask, DATA, space=SPACE).explain(DATA[0], EASY, seed=0, time_budget=60)
    model = hanging(ask.calls // 2)
    explanation = gbce.Explainer(model, DATA, space=SPACE).explain(DATA[0], EASY, seed=0, time_budget=1)
    assert model.calls == model.after + 1
    assert len(explanation.draws.x) > 0
    assert any(note.startswith("Hangs did not return within") for note in explanation.notes)
    assert explanation.answer is None  # nothing that it had not said itself


@pytest.mark.parametrize("after", [0, 40])
def test_a_table_ends_with_a_model_that_hangs(impatient, hanging, after):
    model = hanging(after)
    explainer = gbce.Explainer(model, DATA, space=SPACE)
    if after == 0:
        with pytest.raises(BudgetSpentError, match="Hangs did not return"):
            explainer.explain_many(DATA[:3], gbce.AtLeast(2.0), seed=0, time_budget=0.1, progress=False)
    else:
        with pytest.warns(UserWarning, match="Hangs did not return"):  # rows that had not begun
            table = explainer.explain_many(DATA[:3], EASY, seed=0, time_budget=0.5, progress=False)
        assert len(table) == 3
    assert model.calls == after + 1


def test_a_thread_that_comes_back_late_ends_and_disturbs_nobody(impatient, hanging):
    model = hanging(0)
    explainer = gbce.Explainer(model, DATA, space=SPACE)
    with pytest.raises(BudgetSpentError):
        explainer.explain(DATA[0], EASY, seed=0, time_budget=0.1)
    (thread,) = model.threads
    model.go.set()
    thread.join(10)
    assert not thread.is_alive()
    assert explainer.explain(DATA[0], EASY, rules=[], seed=0, time_budget=60).status == "attainable"


def test_only_a_time_budget_takes_another_thread(hanging):
    model = hanging(10**9)
    explainer = gbce.Explainer(model, DATA, space=SPACE)
    explainer.explain(DATA[0], EASY, seed=0, max_model_rows=5_000)
    explainer.explain_many(DATA[:2], EASY, seed=0, progress=False, posterior=False)
    assert model.threads == {threading.current_thread()}
    model.threads.clear()
    explainer.explain(DATA[0], EASY, seed=0, time_budget=60)
    (thread,) = model.threads
    assert thread is not threading.current_thread()
    thread.join(10)  # it ends when nobody asks any more
    assert not thread.is_alive()


def test_what_a_model_raises_under_a_time_budget_is_what_it_raises_without():
    def model(x):
        raise ZeroDivisionError("no")

    explainer = gbce.Explainer(model, DATA, space=SPACE)
    with pytest.raises(gbce.PredictionError, match="model raised ZeroDivisionError: no"):
        explainer.explain(DATA[0], EASY, seed=0, time_budget=60)


def test_the_interpreter_ends_though_a_model_still_hangs():
    code = """
import threading, numpy as np, gbce, gbce.budget
from dataclasses import replace
gbce.budget._PACING = replace(gbce.budget._PACING, least_patience=0.05)
explainer = gbce.Explainer(lambda x: threading.Event().wait(), np.eye(3), space=gbce.Space.real(3))
try:
    explainer.explain(np.zeros(3), gbce.AtLeast(1, scale=1), time_budget=1)
except gbce.BudgetSpentError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert "model did not return" in run.stdout
