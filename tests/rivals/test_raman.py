"""Hierarchical Bayesian counterfactuals: both methods against the exact law of one row, and on a mixed table."""

import numpy as np
import pandas as pd
import pytest

import gbce
from benchmarks.rivals import raman
from benchmarks.rivals._hierarchy_law import Law
from benchmarks.rivals._wish import Wish
from benchmarks.rivals.raman import METHODS, Hierarchical, InstanceLevel, split_in_two
from support.asked import Formula, Logistic, corners, fitted

QUICK = {"population": 8, "warmup": 15, "steps": 15, "renewals": 12}


class Mixed:
    """Wants a large number, or the level z."""

    classes_ = np.array(["no", "yes"])

    def predict_proba(self, frame):
        logit = 8 * (frame["a"].to_numpy() + 0.6 * (frame["kind"] == "z").to_numpy() - 0.8)
        p = 1 / (1 + np.exp(-logit))
        return np.column_stack([1 - p, p])

    def predict(self, frame):
        return self.classes_[(self.predict_proba(frame)[:, 1] >= 0.5).astype(int)]


def mixed_table():
    rng = np.random.default_rng(0)
    return pd.DataFrame({
        "a": rng.uniform(size=150),
        "kind": rng.choice(["x", "y", "z"], 150),
        "sex": rng.choice(["f", "m"], 150),
        "gone": np.where(rng.uniform(size=150) < 0.2, np.nan, rng.uniform(size=150)),
    })  # fmt: skip


def test_one_row_has_the_law_that_it_claims():
    X = corners(1, n=400)
    spread, start, slope = float(X["x1"].std(ddof=0)), 0.3, 12.0
    space = gbce.Space.infer(X, bounds={"x1": (None, None)})
    model = Logistic(lambda x: slope * (x[:, 0] - 0.6))
    rival, wish, _ = fitted(InstanceLevel(draws=2_000), model, X, label=1, space=space)
    drawn = rival.draw(pd.DataFrame({"x1": [start]}), wish, 0)
    change = np.linspace(-6, 6, 24_001)
    # two widths of a half and a rate of one: a rate of three per standard deviation
    density = np.exp(-3 * np.abs(change)) / (1 + np.exp(-slope * (start + spread * change - 0.6)))
    density /= density.sum()
    found = (rival._codes.back(drawn.z, np.array([start]))[:, 0] - start) / spread
    mean = density @ change
    error = np.sqrt((density @ change**2 - mean**2) / min(drawn.ess, 500))
    assert abs(found.mean() - mean) < 5 * error


def test_new_row_has_the_law_that_its_group_gives_it():
    X = corners(1, n=400)
    spread, start, slope = float(X["x1"].std(ddof=0)), 0.3, 12.0
    space = gbce.Space.infer(X, bounds={"x1": (None, None)})
    model = Logistic(lambda x: slope * (x[:, 0] - 0.6))
    law = Law(centre=0.0, spread=1e-6, width=0.5)  # a group's centre that is known: the law of one row again
    rival, wish, _ = fitted(Hierarchical(law, walkers=300, kept=2, **QUICK), model, X, label=1, space=space)
    drawn = rival.draw(pd.DataFrame({"x1": [start]}), wish, 0)
    change = np.linspace(-6, 6, 24_001)
    density = np.exp(-3 * np.abs(change)) / (1 + np.exp(-slope * (start + spread * change - 0.6)))
    density /= density.sum()
    found = (rival._codes.back(drawn.z, np.array([start]))[:, 0] - start) / spread
    mean = density @ change
    assert abs(found.mean() - mean) < 5 * np.sqrt((density @ change**2 - mean**2) / 300)


@pytest.mark.parametrize("make", [lambda: InstanceLevel(draws=300), lambda: Hierarchical(**QUICK)], ids=["row", "full"])
def test_mixed_rows_keep_their_rules_and_a_seed_gives_the_same_answer(make):
    X = mixed_table()
    space = gbce.Space.infer(X, immutable=["sex"], bounds={"a": (0, 1)})
    rival, wish, _ = fitted(make(), Mixed(), X, label="yes", space=space)
    row = X[X["gone"].isna() & X["a"].between(0.5, 0.7) & (X["kind"] == "x")].iloc[[0]]
    found = rival.counterfactual(row, wish, 5)
    answer = found.answers[""]
    assert Mixed().predict(answer).tolist() == ["yes"]
    for frame in (answer, found.draws):
        assert (frame["sex"] == row["sex"].item()).all()
        assert frame["gone"].isna().all()
        assert frame["a"].between(0, 1).all()
    reached = found.draws[Mixed().predict(found.draws) == "yes"]
    nearest = (reached["a"] - row["a"].item()).abs() + (reached["kind"] != "x")
    assert abs(answer["a"].item() - row["a"].item()) + (answer["kind"].item() != "x") <= nearest.min() + 0.02
    assert "of the draws are granted" in found.note
    pd.testing.assert_frame_equal(answer, rival.counterfactual(row, wish, 5).answers[""])


def test_population_learns_which_way_to_go_and_its_convergence_is_said():
    X = corners(2, n=200)
    rival, wish, counted = fitted(Hierarchical(**QUICK), Logistic(lambda x: 15 * (x[:, 0] - 0.7)), X, label=1)
    found = rival.counterfactual(X[X["x1"] < 0.5].iloc[[0]], wish, 0)
    levels = rival.levels(wish)
    assert levels.population[..., 0].mean() > levels.population[..., 1].mean() + 0.2
    assert f"R-hat {levels.r_hat:.2f}" in found.note
    rows = counted.rows
    assert rival.levels(wish) is levels  # sampled once
    assert counted.rows == rows


def test_intervals_of_numbers_share_a_population():
    X = corners(2, n=200)
    rival, wish, _ = fitted(Hierarchical(**QUICK), Formula(lambda x: x[:, 0] + x[:, 1]), X, low=1.2, unit=0.4)
    found = rival.counterfactual(X[X.sum(axis=1) < 0.9].iloc[[0]], wish, 0)
    assert found.answers[""].sum(axis=1).item() >= 1.2
    assert rival.levels(Wish(low=1.5, unit=0.4)) is rival.levels(wish)
    assert rival._shared(Wish(high=0.5)).low == -np.inf
    assert np.isfinite([rival._shared(Wish(low=0.2, high=0.5)).low, rival._shared(Wish(low=0.2, high=0.5)).high]).all()


def test_loss_of_an_interval_is_minus_the_log_of_its_score():
    wish = Wish(low=1.0, unit=0.5)
    said = np.array([0.2, 1.0, 1.7])
    loss = raman._as_loss(wish).function(said)
    model = Formula(lambda x: x[:, 0])
    assert np.exp(-loss) == pytest.approx(wish.scores(model, pd.DataFrame({"a": said})))


def test_nothing_granted_and_nobody_refused_are_said():
    X, row = corners(1, n=60), pd.DataFrame({"x1": [0.5]})
    never, wish, _ = fitted(Hierarchical(**QUICK), Logistic(lambda x: x[:, 0] - 40), X, label=1)
    found = never.counterfactual(row, wish, 0)
    assert not found.answers
    assert "no draw is granted" in found.note
    always, wish, _ = fitted(Hierarchical(**QUICK), Logistic(lambda x: x[:, 0] + 40), X, label=1)
    assert "no row of the data is refused" in always.counterfactual(row, wish, 0).note


def test_groups_by_a_protected_column_or_what_stays():
    X = mixed_table()
    column, group = split_in_two(X, gbce.Space.infer(X))
    assert column == "sex"
    assert group.tolist() == (X["sex"] != X["sex"].mode()[0]).astype(int).tolist()
    plain = corners(2).rename(columns={"x1": "b", "x2": "c"})
    column, group = split_in_two(plain, gbce.Space.infer(plain, immutable=["c"]))
    assert column == "c"
    assert group.sum() == 100


def test_both_are_called_reconstructions():
    assert all(method.label.endswith("(reconstruction)") for method in METHODS)
