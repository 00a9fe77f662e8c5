"""Choosing eta, and the eta path: against closed forms, and against fresh runs."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq, minimize_scalar
from scipy.stats import norm
from sklearn.linear_model import LinearRegression, LogisticRegression

import gbce
from support.exact import linear
from support.laws import close

CASE = linear(2, seed=4)
SPACE = gbce.Space.real(2)
DATA = np.random.default_rng(0).normal(size=(200, 2))
TARGET = gbce.Value(CASE.y, scale=1, tolerance=0.2)
SMALL = gbce.SMC(4_000, 1_000)


def explained(eta, *, target=TARGET, model=CASE.predict, sampler=SMALL, seed=0, **options):
    explainer = gbce.Explainer(model, DATA, space=SPACE, eta=eta, sampler=sampler, **options)
    return explainer.explain(CASE.x0, target, rules=[], seed=seed)


def exact_eta(missing):
    return brentq(lambda log_eta: missing(replace(CASE, eta=float(np.exp(log_eta)))), -8, 8)


# --- the path ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampler", [SMALL, gbce.Importance(20_000, 2_000), gbce.Chains(100, 60, start=SMALL)])
def test_path_is_the_closed_form_at_every_eta(sampler):
    explanation = explained(4.0, sampler=sampler)
    calls = explanation.n_model_calls
    path = explanation.path([0.0, 0.05, 0.5, 1.0, 2.0, 4.0])
    assert explanation.n_model_calls == calls
    for eta, line in path.iterrows():
        exact = replace(CASE, eta=float(eta))
        close(line["success_probability"], exact.success_probability(0.2), line["success_probability_se"], f"SP {eta}")
        close(line["stability"], exact.stability, line["stability_se"], f"stability {eta}")
        close(line["tail"], exact.tail(0.1), line["tail_se"], f"tail {eta}")
        if eta > 0:
            close(line["log_evidence"], exact.log_evidence, line["log_evidence_se"], f"log Z {eta}")
    assert path.loc[0.0, "log_evidence"] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("max_looks", [0, 6])
def test_path_of_a_hard_run_agrees_with_fresh_runs(max_looks):
    far = gbce.Value(CASE.y + 6.0, scale=1, tolerance=0.5)
    whole = explained(2.0, target=far, sampler=replace(SMALL, max_looks=max_looks))
    assert (len(whole.draws.rungs) > 1) == (max_looks == 0)  # tempered
    path = whole.path([0.5, 1.0, 2.0])
    # draws around sites at one eta may be too few for a quarter of it, which is told, but never for a half
    carried = path[path["success_probability"].notna()]
    assert list(carried.index) == [0.5, 1.0, 2.0] or (max_looks and list(carried.index) == [1.0, 2.0])
    for eta, line in carried.iterrows():
        fresh = explained(float(eta), target=far, seed=77).path([eta]).iloc[0]
        for name in ("success_probability", "stability", "tail", "expected_distance", "log_evidence"):
            error = np.hypot(line[f"{name}_se"], fresh[f"{name}_se"])
            assert abs(line[name] - fresh[name]) <= 4 * error, (eta, name)


def test_path_leaves_open_what_the_draws_cannot_carry():
    path = explained(0.1, sampler=gbce.Importance(2_000, 500)).path([0.1, 1e6])
    assert path.loc[1e6].drop("ess").isna().all()
    assert path.loc[0.1].notna().all()
    assert path.loc[1e6, "ess"] < 100


def test_default_path_begins_at_the_prior_and_ends_at_eta():
    path = explained(3.0).path()
    assert path.index[0] == 0.0
    assert path.index[-1] == pytest.approx(3.0)
    assert (path["success_probability"].diff().dropna() > -0.01).all()  # it never falls


# --- rules ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampler", [SMALL, gbce.Importance(20_000, 2_000)])
def test_success_probability_finds_the_smallest_eta(sampler):
    explanation = explained(gbce.SuccessProbability(0.6), sampler=sampler)
    wanted = np.exp(exact_eta(lambda case: case.success_probability(0.2) - 0.6))
    assert explanation.eta == pytest.approx(wanted, rel=0.25)
    exact = replace(CASE, eta=explanation.eta)
    close(exact.success_probability(0.2), 0.6, explanation.distribution["success_probability_se"], "exact SP there")
    assert explanation.at(0.9 * explanation.eta).diagnostics["calibration"] == {}  # this one nobody sought
    assert explanation.at(combine="all").calibration == explanation.calibration
    found = explanation.diagnostics["calibration"]
    assert found["rule"] == "SuccessProbability(0.6)"
    assert found["met"] is True
    assert found["success_probability"] == pytest.approx(0.6, abs=4 * found["success_probability_se"])


def test_expected_loss_is_a_lagrange_multiplier():
    explanation = explained(gbce.ExpectedLoss(0.3))
    f = replace(CASE, eta=explanation.eta).output
    exact = f.var() + (f.mean() - CASE.y) ** 2
    close(exact, 0.3, explanation.distribution["expected_loss_se"], "exact expected loss there")
    assert explanation.diagnostics["calibration"]["met"] is True


def test_a_goal_that_the_prior_meets_needs_no_eta():
    assert explained(gbce.SuccessProbability(0.001)).eta == 0.0


@pytest.mark.parametrize("sampler", [SMALL, gbce.Importance(20_000, 2_000)])
def test_auto_never_goes_below_one(sampler):
    near = gbce.Value(CASE.y - 1.5, scale=1, tolerance=4)  # the prior reaches it in nearly every draw
    assert explained(gbce.SuccessProbability(0.9), target=near, sampler=sampler).eta == 0.0
    explanation = explained("auto", target=near, sampler=sampler)
    assert explanation.eta == 1.0
    assert explanation.diagnostics["calibration"]["met"] is True
    assert explanation.diagnostics["calibration"]["rule"] == "SuccessProbability(0.9, least=1)"


def test_auto_is_the_eta_of_nine_draws_in_ten_where_that_is_above_one():
    explanation = explained("auto")
    wanted = np.exp(exact_eta(lambda case: case.success_probability(0.2) - 0.9))
    assert wanted > 1
    assert explanation.eta == pytest.approx(wanted, rel=0.25)


@pytest.mark.parametrize("least", [0.0, 3.0])
def test_the_least_eta_holds_where_success_is_not_monotone(least):
    rule = gbce.SuccessProbability(0.3, least=least)
    models = [lambda x: x[:, 0], lambda x: 3.0 - x[:, 0]]  # the second pulls away from what reaches under the first
    explanation = explained(rule, target=gbce.AtLeast(0.0, scale=1), model=models, combine="average")
    assert explanation.eta == least


@pytest.mark.parametrize("seed", range(3))
def test_a_far_goal_is_met_without_tempering_all_candidates(seed):
    case = linear(12, seed=6)
    target, data = gbce.Value(case.y + 5.0, scale=1, tolerance=0.4), np.random.default_rng(1).normal(size=(300, 12))
    far = replace(case, y=case.y + 5.0)
    explainer = gbce.Explainer(case.predict, data, space=gbce.Space.real(12), eta=gbce.SuccessProbability(0.9))
    explanation = explainer.explain(case.x0, target, rules=[], seed=seed)
    exact = replace(far, eta=explanation.eta)
    figures, found = explanation.distribution, explanation.diagnostics
    assert found["sampling"] == "trustworthy"
    assert found["n_model_rows"] < 50_000  # tempering 20,000 candidates took 87,000 to 188,000
    close(exact.success_probability(0.4), 0.9, figures["success_probability_se"], "exact SP at the eta found")
    close(figures["stability"], exact.stability, figures["stability_se"], "stability")
    close(found["log_evidence"], exact.log_evidence, found["log_evidence_se"], "log Z")


@pytest.mark.parametrize("sampler", [SMALL, gbce.Importance(2_000, 500)])
def test_a_goal_that_cannot_be_met_is_reported_with_the_best(sampler):
    bounded = explained(
        gbce.SuccessProbability(0.9), model=lambda x: np.tanh(x[:, 0]), target=gbce.AtLeast(1.5, scale=0.3),
        sampler=sampler,
    )  # fmt: skip
    assert bounded.diagnostics["calibration"]["met"] is False
    assert any("SuccessProbability(0.9) could not be met" in note for note in bounded.notes)
    assert np.isfinite(bounded.eta)


# --- success that falls as eta grows ----------------------------------------------------------------------------


class Tug:
    """One feature from N(x0, 1), wanted near 0 (that counts) and near 2 (it counts in the loss): a normal posterior.

    On its way from the row at -2 to the least loss at 1 it passes through the target.
    """

    x0, tolerance = -2.0, 0.5
    target = gbce.Multi({0: gbce.Value(0, scale=1, tolerance=0.5), 1: gbce.Value(2, scale=1, tolerance=99)})

    @staticmethod
    def predict(x):
        return np.column_stack([x[:, 0], x[:, 0]])

    @classmethod
    def success(cls, eta):
        precision = 1 + 4 * eta
        law = norm((cls.x0 + 4 * eta) / precision, precision**-0.5)
        return law.cdf(cls.tolerance) - law.cdf(-cls.tolerance)


TUG_BEST = float(minimize_scalar(lambda eta: -Tug.success(eta), bounds=(0, 5), method="bounded").x)
WAYS = [SMALL, gbce.Importance(20_000, 2_000), gbce.Chains(100, 60, start=SMALL)]


def tugged(eta, sampler):
    one = gbce.Space.real(1)
    return gbce.Explainer(Tug.predict, DATA[:, :1], space=one, eta=eta, sampler=sampler).explain(
        [Tug.x0], Tug.target, rules=[], seed=0
    )


@pytest.mark.parametrize("sampler", WAYS)
def test_the_smallest_eta_is_found_though_success_falls_beyond_it(sampler):
    found = tugged(gbce.SuccessProbability(0.5), sampler)
    wanted = brentq(lambda eta: Tug.success(eta) - 0.5, 0, TUG_BEST)
    assert Tug.success(20.0) < 0.1
    assert found.diagnostics["calibration"]["met"] is True
    assert found.eta < TUG_BEST
    close(Tug.success(found.eta), 0.5, found.distribution["success_probability_se"], "exact SP there")
    assert found.eta == pytest.approx(wanted, rel=0.25)


@pytest.mark.parametrize("sampler", WAYS)
def test_where_no_eta_is_enough_the_best_is_taken(sampler):
    found = tugged(gbce.SuccessProbability(0.8), sampler)
    assert found.diagnostics["calibration"]["met"] is False
    assert any("SuccessProbability(0.8) could not be met" in note for note in found.notes)
    se = found.distribution["success_probability_se"]
    assert Tug.success(found.eta) >= Tug.success(TUG_BEST) - 4 * se
    close(found.distribution["success_probability"], Tug.success(found.eta), se, "SP there")


def label_beside_a_likelier_one(x):
    """Three classes: the middle one is more probable above 1, but there the last one is more probable still."""
    far = (x[:, 0] > 1)[:, None]
    return np.where(far, [0.03, 0.45, 0.52], [0.30, 0.42, 0.28])


@pytest.mark.parametrize("sampler", [SMALL, gbce.Importance(20_000, 2_000)])
@pytest.mark.parametrize(
    ("model", "target", "at_zero"),
    [
        (gbce.classifier(label_beside_a_likelier_one, ["a", "b", "c"]), gbce.Class("b"), norm.cdf(1)),
        (
            [lambda x: np.where(np.abs(x[:, 0]) < 1, 0.0, -5.0), lambda x: np.where(x[:, 0] > 1, 0.0, -3.0)],
            gbce.AtLeast(0, scale=1, tolerance=0),
            norm.cdf(1) - norm.cdf(-1),
        ),
    ],
    ids=["several classes", "several models"],
)
def test_no_eta_is_taken_that_is_worse_than_none(model, target, at_zero, sampler):
    weights = [0.01, 0.99] if isinstance(model, list) else None
    explainer = gbce.Explainer(
        model, DATA[:, :1], space=gbce.Space.real(1), eta=gbce.SuccessProbability(0.95), sampler=sampler,
        weights=weights,
    )  # fmt: skip
    found = explainer.explain([0.0], target, rules=[], seed=0)
    assert found.diagnostics["calibration"]["met"] is False
    close(found.distribution["success_probability"], at_zero, found.distribution["success_probability_se"], "SP")


def test_model_error_is_the_unit_rule():
    y = DATA @ [1.0, 2.0] + np.random.default_rng(1).normal(scale=0.5, size=200)
    model = LinearRegression().fit(DATA, y)
    scale = gbce.noise_scale(model, DATA, y)
    by_rule = explained(gbce.ModelError(y), model=model, target=gbce.Value(2.0, scale=0.7, tolerance=0.5))
    assert by_rule.eta == pytest.approx((0.7 / scale) ** 2)
    assert by_rule.diagnostics["calibration"]["mse"] == pytest.approx(scale**2 / 2)
    by_number = explained(gbce.ModelError(mse=0.25), model=model, target=gbce.AtLeast(2.0, scale=1, tolerance=0))
    assert by_number.eta == pytest.approx(2.0)
    absolute = gbce.Value(2.0, scale=0.5, tolerance=0.5, loss="absolute")
    assert explained(gbce.ModelError(mae=0.25), model=model, target=absolute).eta == pytest.approx(2.0)
    assert explained(gbce.ModelError(y), model=model, target=absolute).eta == pytest.approx(0.5 / 0.4, rel=0.2)


def test_model_error_of_a_class_is_one():
    labels = (DATA.sum(axis=1) > 0).astype(int)
    model = LogisticRegression().fit(DATA, labels)
    assert explained(gbce.ModelError(), model=model, target=gbce.Class(1)).eta == 1.0


def test_at_takes_rules_too():
    explanation = explained(8.0)
    again = explanation.at(gbce.SuccessProbability(0.6))
    assert again.diagnostics["calibration"]["rule"] == "SuccessProbability(0.6)"
    assert again.distribution["success_probability"] == pytest.approx(0.6, abs=0.05)
    with pytest.raises(TypeError, match="ModelError needs the model"):
        explanation.at(gbce.ModelError(mse=1.0))
    with pytest.raises(ValueError, match="the draws cannot be reweighted to ExpectedLoss"):
        explanation.at(gbce.ExpectedLoss(-1.0))


@pytest.mark.parametrize(
    ("make", "error", "sentence"),
    [
        (lambda: gbce.SuccessProbability(1.0), ValueError, "must lie between 0 and 1"),
        (lambda: gbce.SuccessProbability("high"), ValueError, "must be a finite number"),
        (lambda: gbce.ExpectedLoss(np.inf), ValueError, "must be a finite number"),
        (lambda: gbce.ModelError(mse=-1), ValueError, "mse must be a positive number"),
        (lambda: explained(gbce.SuccessProbability), TypeError, "not the class"),
        (lambda: explained("big"), ValueError, "eta must be zero or a positive number"),
        (lambda: explained(gbce.ModelError()), ValueError, r"give the outcomes of the data, ModelError\(y\)"),
        (lambda: explained(gbce.ModelError([1.0] * 200)), TypeError, "cannot refit method on folds"),
        (
            lambda: explained(gbce.ModelError([1.0] * 3), model=LinearRegression().fit(DATA, DATA[:, 0])),
            ValueError,
            "y has 3 outcomes, but the explainer's data have 200 rows",
        ),
        (
            lambda: explained(gbce.ModelError(mse=1.0), target=gbce.Loss(lambda f: f**2, threshold=1)),
            TypeError,
            "does not know the units of a user-defined loss",
        ),
        (lambda: explained(1.0).path([-1.0]), ValueError, "etas must be zero or positive"),
        (lambda: explained(1.0).path([]), ValueError, "etas must be zero or positive"),
        (lambda: gbce.SuccessProbability(0.9, least=-1), ValueError, "least must be zero or positive"),
        (lambda: explained("automatic"), ValueError, 'or "auto", not'),
        (lambda: explained(1.0).path("ab"), ValueError, "etas must be numbers"),
        (lambda: gbce.SMC(n_islands=1), ValueError, "n_islands must be at least 2"),
    ],
)  # fmt: skip
def test_bad_rules_get_a_sentence(make, error, sentence):
    with pytest.raises(error, match=sentence):
        make()
