"""Follow-up questions against exact answers: quadrature, enumeration, and the same question put to the models anew."""

import itertools
import json
import re
import zipfile
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp
from scipy.stats import norm, t

import gbce
from gbce.explanation import Status
from gbce.posterior import Mixture
from support.exact import Grid, gaussian_log_prior, midpoints
from support.laws import WITHIN, within

X0 = np.array([0.2, -0.1])
TARGET = gbce.Value(1.5, scale=1, tolerance=0.5)
SAMPLERS = {
    "default": None,
    "candidates": gbce.Importance(20_000, 4_000),
    "islands": gbce.SMC(1_000, 3_200, n_islands=16, max_looks=0),
    "chains": gbce.Chains(n_chains=100, n_steps=150),
}


def model(x):
    return x[:, 0] + 0.7 * x[:, 1] + 0.2 * x[:, 0] * x[:, 1]


def make(sampler=None, prior=None, eta=2.0, d=2):
    data = np.random.default_rng(0).normal(size=(100, d))
    return gbce.Explainer(model, data, space=gbce.Space.real(d), sampler=sampler, prior=prior, eta=eta)


def grid(inside):
    """The posterior on a grid, given an event."""
    axes = (midpoints(-6, 6, 800),) * 2
    whole = Grid.of(axes, gaussian_log_prior(X0, np.eye(2)), lambda x: 2.0 * np.square(model(x) - 1.5))
    x = whole.x[inside(whole.x)]
    prior = gaussian_log_prior(X0, np.eye(2))(x)
    log_weights = prior - 2.0 * np.square(model(x) - 1.5)
    weights = np.exp(log_weights - logsumexp(log_weights))
    return Grid(x, weights, logsumexp(log_weights) - logsumexp(prior)), whole.weights[inside(whole.x)].sum()


def agrees(explanation, exact, success):
    """Success probability, changes and evidence within their errors of a grid's."""
    found, errors = explanation.distribution, within(explanation.draws)
    value, se = found["success_probability"], found["success_probability_se"]
    assert abs(value - exact.mean(success(exact.x))) < errors * se
    table = explanation.importance
    assert (np.abs(table["change"] - exact.importance(explanation.x0)) < errors * table["se"] + 1e-9).all()
    said = explanation.diagnostics
    assert abs(said["log_evidence"] - exact.log_evidence) < errors * said["log_evidence_se"]


def reached(x):
    return np.abs(model(x) - 1.5) <= 0.5


EVENTS = [
    ({"at_most": {"x1": 0.5}}, lambda x: x[:, 0] <= 0.5),
    ({"at_least": {"x1": 0.4}}, lambda x: x[:, 0] >= 0.4),  # the row does not meet it
    (
        {"between": {"x1": (0.0, 1.0)}, "at_most": {"x2": 0.9}},
        lambda x: (x[:, 0] > 0) & (x[:, 0] < 1) & (x[:, 1] < 0.9),
    ),
]


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize(("asked", "inside"), EVENTS)
def test_ranges_against_quadrature_from_the_draws_and_anew(sampler, asked, inside):
    explainer = make(SAMPLERS[sampler])
    explanation = explainer.explain(X0, TARGET, rules=[gbce.Medoid()], seed=5)
    assert (explanation.draws.groups is not None) == (sampler in ("islands", "chains"))
    exact, probability = grid(inside)
    given = explanation.given(**asked)
    agrees(given, exact, reached)
    assert inside(given.draws.pool.x).all()
    if sampler == "candidates":
        prior = gaussian_log_prior(X0, np.eye(2))(exact.x)
        prior = np.exp(prior - logsumexp(prior))
        assert given.importance["prior"].to_numpy() == pytest.approx(prior @ np.abs(exact.x - X0), rel=0.05)
    said = float(re.search(r"probability ([0-9.e-]+) \(se", given.notes[-1]).group(1))
    assert said == pytest.approx(probability, abs=0.05)
    anew = explainer.given(explanation, **asked, seed=6)
    agrees(anew, exact, reached)
    assert inside(anew.draws.x).all()
    assert len(anew.draws.pool.z[0]) == 2


def test_errors_of_what_is_left_are_those_that_seeds_show():
    explainer = make(gbce.Importance(3_000, 1_000))
    exact, _ = grid(EVENTS[0][1])
    z = []
    for seed in range(25):
        given = explainer.explain(X0, TARGET, rules=[], seed=seed).given(**EVENTS[0][0])
        table = given.importance
        z.append((table["change"] - exact.importance(X0)) / table["se"])
    assert 0.6 < np.sqrt(np.mean(np.square(z))) < 1.5


def test_a_run_without_a_point_inside_still_counts_as_a_run():
    explanation = make(SAMPLERS["candidates"]).explain(X0, TARGET, rules=[], seed=0)
    groups = np.arange(len(explanation.draws.pool)) % 4
    draws = replace(explanation.draws, groups=groups)
    inside = (groups != 3) & (draws.pool.x[:, 0] < 0.5)
    size = np.abs(draws.pool.x - X0)
    kept = draws.restrict(inside, explanation.mixture, size, np.arange(2))
    assert kept.groups.max() == 3
    value = kept.pool.x[:, 1]
    influence = value - kept.pool_weights @ value
    sums = np.array([(kept.pool_weights * influence)[kept.groups == g].sum() for g in range(4)])
    by_hand = np.sqrt(np.square(sums - sums.mean()).sum() * 4 / 3)
    plain = replace(kept, index=np.arange(len(kept.pool)), resampled=False).standard_error(influence)
    assert plain == pytest.approx(by_hand * t.ppf(0.975, 3) / norm.ppf(0.975))
    few = draws.restrict(inside & (np.cumsum(inside) <= 3), explanation.mixture, size, np.arange(2))
    assert few.groups.max() < len(few.pool)


# --- where equality has a probability -------------------------------------------------------------------------------


def sparse_exact(change, eta, keep_first):
    """Mean size of both changes and the evidence under Sparse in two dimensions, by quadrature of its four parts."""
    step = midpoints(-6, 6, 800)
    density = norm.pdf(step) * (step[1] - step[0])
    parts = [(np.zeros((1, 2)), np.array([(1 - change) ** 2]))]
    parts.append((np.column_stack([np.zeros_like(step), step]), change * (1 - change) * density))
    if not keep_first:
        parts.append((np.column_stack([step, np.zeros_like(step)]), change * (1 - change) * density))
        both = np.stack(np.meshgrid(step, step, indexing="ij"), axis=-1).reshape(-1, 2)
        parts.append((both, change**2 * np.outer(density, density).ravel()))
    x, prior = (np.concatenate(some) for some in zip(*parts, strict=True))
    weights = prior * np.exp(-eta * np.square(model(x + X0) - 1.5))
    return Grid(x + X0, weights / weights.sum(), np.log(weights.sum() / prior.sum()))


@pytest.mark.parametrize("sampler", ["default", "candidates"])
def test_a_real_column_that_is_kept_under_a_sparse_prior(sampler):
    explainer = make(SAMPLERS[sampler], prior=gbce.Sparse(change=0.4))
    explanation = explainer.explain(X0, TARGET, rules=[gbce.MAP(), gbce.CVaR()], seed=2)
    agrees(explanation, sparse_exact(0.4, 2.0, keep_first=False), reached)
    exact = sparse_exact(0.4, 2.0, keep_first=True)
    given = explanation.given(keep="x1")
    agrees(given, exact, reached)
    assert (given.draws.x[:, 0] == X0[0]).all()
    assert given.free.tolist() == [1]
    assert given.draws.z.shape[1] == 1
    assert given.conditions == ("x1 stays at 0.2",)
    anew = explainer.given(explanation, keep=["x1"])
    agrees(anew, exact, reached)
    assert set(anew.counterfactuals["x1"]) == {0.2}
    assert (anew.seed, anew.eta, anew.rules) == (explanation.seed, explanation.eta, explanation.rules)
    assert "Sampled again given that x1 stays at 0.2" in " ".join(anew.notes)


@pytest.mark.parametrize(
    ("asked", "inside"),
    [
        ({"at_most": {"x1": 0.9}}, lambda x: x[:, 0] <= 0.9),
        ({"at_least": {"x1": 0.6}}, lambda x: x[:, 0] >= 0.6),
    ],
)
def test_ranges_under_a_sparse_prior_change_how_probable_it_is_to_stay(asked, inside):
    explainer = make(prior=gbce.Sparse(change=0.4))
    explanation = explainer.explain(X0, TARGET, rules=[gbce.MAP(), gbce.ChanceConstrained()], seed=2)
    whole = sparse_exact(0.4, 2.0, keep_first=False)
    kept = inside(whole.x)
    x, weights = whole.x[kept], whole.weights[kept] / whole.weights[kept].sum()
    prior = whole.weights * np.exp(2.0 * np.square(model(whole.x) - 1.5))
    log_evidence = whole.log_evidence + np.log(whole.weights[kept].sum()) - np.log(prior[kept].sum() / prior.sum())
    exact = Grid(x, weights, log_evidence)
    agrees(explanation.given(**asked), exact, reached)
    anew = explainer.given(explanation, **asked)
    agrees(anew, exact, reached)
    assert inside(anew.counterfactuals.to_numpy()).all()


FRAME = pd.DataFrame(
    {
        "job": ["none", "clerk", "skilled", "clerk"] * 25,
        "rooms": [1, 2, 3, 4] * 25,
        "since": pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-03", "2024-01-05"] * 25),
        "school": pd.Categorical(["low", "mid", "high", "mid"] * 25, ["low", "mid", "high"], ordered=True),
    }
)


def score(frame):
    days = (frame["since"] - pd.Timestamp("2024-01-01")).dt.days
    return (
        (frame["job"] == "skilled") * 1.5 + 0.4 * frame["rooms"] + 0.2 * days + 0.5 * frame["school"].cat.codes
    ).to_numpy(dtype=float)


@pytest.fixture(scope="module")
def of_levels():
    space = gbce.Space.infer(
        FRAME, bounds={"rooms": (1, 6), "since": (pd.Timestamp("2024-01-01"), pd.Timestamp("2024-01-08"))}
    )
    explainer = gbce.Explainer(score, FRAME, space=space, prior=gbce.Gaussian(), sampler=gbce.Importance(40_000, 4_000))
    return explainer, explainer.explain(FRAME.iloc[0], gbce.AtLeast(3.0, scale=0.7), rules=[gbce.MAP()], seed=1)


def enumerate_table(explainer, explanation):
    """Every row of the table with its exact posterior and prior probability."""
    space, x0 = explainer.space, explanation.x0
    low, high = space.limits(x0)
    x = np.array(list(itertools.product(*(np.arange(a, b + 1) for a, b in zip(low, high, strict=True)))))
    prior = np.exp(-explainer._session.prior.at(space, x0).cost(x))
    loss = np.square(np.maximum(3.0 - score(space.frame(x)), 0.0) / 0.7)
    return x, prior / prior.sum(), Mixture(1.0, np.ones(1)).potential(loss[:, None])


@pytest.mark.parametrize(
    ("asked", "inside"),
    [
        ({"keep": ["job"]}, lambda one: one["job"] == "none"),
        ({"exactly": {"job": "skilled"}}, lambda one: one["job"] == "skilled"),
        ({"keep": ["rooms"], "at_most": {"school": "mid"}}, lambda one: (one["rooms"] == 1) & (one["school"] <= "mid")),
        ({"exactly": {"rooms": 3}}, lambda one: one["rooms"] == 3),
        (
            {"between": {"since": ("2024-01-02", "2024-01-04")}},
            lambda one: one["since"].between("2024-01-02", "2024-01-04"),
        ),
        ({"at_least": {"since": pd.Timestamp("2024-01-02")}}, lambda one: one["since"] >= "2024-01-02"),
    ],
)
def test_levels_whole_numbers_and_dates_against_enumeration(of_levels, asked, inside):
    explainer, explanation = of_levels
    x, prior, potential = enumerate_table(explainer, explanation)
    kept = inside(explainer.space.frame(x)).to_numpy(dtype=bool)
    x, prior, potential = x[kept], prior[kept] / prior[kept].sum(), potential[kept]
    weights = prior * np.exp(-potential)
    evidence = np.log(weights.sum())
    weights /= weights.sum()
    change = weights @ explainer.space.change(x, explanation.x0)
    for found in (explanation.given(**asked), explainer.given(explanation, **asked)):
        table, said = found.importance, found.diagnostics
        assert (np.abs(table["change"] - change) < WITHIN * table["se"] + 1e-9).all()
        assert abs(said["log_evidence"] - evidence) < WITHIN * said["log_evidence_se"]
        assert inside(found.counterfactuals).all()
        if found.draws.seen is not None:
            assert inside(explainer.space.frame(found.draws.seen.x)).all()


def test_missing_values_are_kept_or_asked_for():
    frame = pd.DataFrame({"a": [1.0, np.nan, 2.0, 0.5] * 20, "b": np.linspace(-1, 1, 80)})
    space = gbce.Space.infer(frame, missing={"a": "any"})
    explainer = gbce.Explainer(lambda one: one["a"].fillna(1.0).to_numpy() + one["b"].to_numpy(), frame, space=space)
    known = explainer.explain({"a": 1.0, "b": 0.0}, gbce.AtLeast(1.5, scale=0.5), rules=[], seed=0)
    gone = explainer.explain({"a": np.nan, "b": 0.0}, gbce.AtLeast(1.5, scale=0.5), rules=[], seed=0)
    assert np.isnan(known.given(exactly={"a": None}).draws.x[:, 0]).all()
    assert np.isnan(explainer.given(known, exactly={"a": None}).draws.x[:, 0]).all()
    assert not np.isnan(known.given(at_least={"a": 0.0}).draws.x[:, 0]).any()
    assert not np.isnan(explainer.given(known, at_least={"a": 0.0}).draws.x[:, 0]).any()
    assert np.isnan(gone.given(keep="a").draws.x[:, 0]).all()
    assert gone.given(keep="a").conditions == ("a stays missing",)


# --- what else belongs to the result ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def answered():
    explainer = make(prior=gbce.Sparse(change=0.4))
    rules = [gbce.MAP(), gbce.Mean(), gbce.CVaR(max_candidates=60)]
    return explainer, explainer.explain(X0, TARGET, rules=rules, seed=2)


def test_rules_that_need_no_model_are_applied_again_and_the_others_named(answered):
    _, explanation = answered
    given = explanation.given(at_most={"x2": 0.0})
    assert given.counterfactuals.index[0] == "MAP"
    assert "Mean, CVaR(max_candidates=60) can only be applied with the model" in given.notes[-1]
    assert given.pointwise["robustness"].isna().all()
    assert (given.draws.seen is None) or (given.draws.seen.x[:, 1] <= 0).all()
    known = explanation.draws.known
    inside = known.x[:, 1] <= 0
    cheapest = explanation.mixture.objective(known.loss, known.cost)[inside & known.reached[:, 0]].min()
    assert given.pointwise.loc["MAP", "objective"] <= cheapest + 1e-9 or given.pointwise.loc["MAP", "reached"]


def test_what_is_known_of_a_decision_is_not_lost(answered):
    _, explanation = answered
    mean = next(one for one in explanation.decisions if one.label == "Mean")
    given = explanation.given(at_least={"x1": float(mean.x[0]) - 0.1})
    assert any(np.array_equal(x, mean.x) for x in given.draws.seen.x)


def test_conditions_add_up_and_a_model_can_be_asked_under_them(answered):
    explainer, explanation = answered
    given = explanation.given(at_most={"x1": 1.0}).given(at_least={"x1": -0.5})
    assert given.conditions == ("x1 is at most 1", "x1 is at least -0.5")
    assert ((given.draws.x[:, 0] >= -0.5) & (given.draws.x[:, 0] <= 1.0)).all()
    chosen = explainer.decide(given, gbce.CVaR(max_candidates=60))
    assert -0.5 <= chosen["x1"].iloc[0] <= 1.0
    anew = explainer.given(given, keep=["x2"])
    assert anew.conditions == (*given.conditions, "x2 stays at -0.1")
    assert ((anew.draws.x[:, 0] >= -0.5) & (anew.draws.x[:, 0] <= 1.0) & (anew.draws.x[:, 1] == -0.1)).all()
    assert not explainer.decide(anew, gbce.CVaR(max_candidates=60)).empty
    assert explanation.at(1.0).given(at_most={"x1": 1.0}).eta == 1.0
    assert explainer.given(explanation.at(1.0), at_most={"x1": 1.0}).eta == 1.0


def test_eta_that_a_rule_found_stays_and_its_report_does_not():
    explainer = make(eta=gbce.SuccessProbability(0.8))
    explanation = explainer.explain(X0, TARGET, rules=[], seed=0)
    for found in (explanation.given(at_most={"x1": 0.8}), explainer.given(explanation, at_most={"x1": 0.8})):
        assert found.eta == explanation.eta
        assert found.diagnostics["calibration"] == {}


def test_what_cannot_be_attained_under_a_condition_is_said():
    explainer = make(prior=gbce.Sparse(change=0.4))
    explanation = explainer.explain(X0, gbce.AtLeast(2.5, scale=1), rules=[gbce.MAP()], seed=0)
    assert explanation.status is Status.ATTAINABLE
    given = explanation.given(at_most={"x1": 0.2, "x2": -0.1})
    anew = explainer.given(explanation, at_most={"x1": 0.2, "x2": -0.1})
    for found in (given, anew):
        assert found.status is Status.NOT_ATTAINED
        assert found.notes[0] == found.status_note
        assert "None of" in found.status_note


def test_the_answer_is_one_that_meets_the_conditions():
    explainer = make(prior=gbce.Sparse(change=0.4))
    explanation = explainer.explain(X0, gbce.AtLeast(1.5, scale=1), rules=[gbce.Nearest()], seed=0)
    first = explanation.answer
    moved = "x1" if first.decision.x[0] != X0[0] else "x2"
    same = explanation.given(at_least={moved: float(first.decision.x[int(moved == "x2")]) - 0.8}).answer
    assert same.sentence == first.sentence  # the cheapest of all is the cheapest of some
    assert same.reliability == first.reliability
    given = explanation.given(keep=[moved])
    known = given.draws.known
    cost = np.abs(known.x - X0).sum(axis=1)[known.reached[:, 0]].min()
    assert given.answer.cost == pytest.approx(cost)
    assert given.answer.reached
    assert given.answer.reliability is None
    assert f"given that {moved} stays at" in given.answer.because
    assert given.answer.sentence in given.summary()
    anew = explainer.given(explanation, keep=[moved])
    assert moved not in anew.answer.changes.index
    assert anew.answer.reached
    assert anew.answer.reliability is not None
    assert anew.answer.reliability.share >= 0.85
    assert anew.pointwise.loc["Nearest", "reached"]


@pytest.mark.parametrize("prior", [gbce.Gaussian(), gbce.Sparse(change=0.4)])
def test_a_row_that_reaches_the_target_but_breaks_the_condition_is_no_answer(prior):
    explainer = make(prior=prior)
    rules = [gbce.MAP(), gbce.Nearest(), gbce.DirectOpt(n_starts=3, max_iterations=50)]
    explanation = explainer.explain(X0, gbce.AtLeast(-1, scale=1), rules=rules, seed=0)
    assert explanation.status is Status.ALREADY_REACHED
    assert explanation.given(at_most={"x1": 0.3}).status is Status.ALREADY_REACHED
    given = explanation.given(at_least={"x1": 0.7})
    anew = explainer.given(explanation, at_least={"x1": 0.7})
    for found in (given, anew):
        assert found.status is Status.ATTAINABLE
        assert (found.counterfactuals["x1"] >= 0.7).all()
        assert {"MAP", "Nearest"} <= set(found.counterfactuals.index)
        assert found.counterfactuals.loc["Nearest", "x1"] < 0.75
        assert found.answer.decision.x[0] >= 0.7
        assert found.answer.reached
    assert anew.draws.seen is None or (anew.draws.seen.x[:, 0] >= 0.7).all()


def test_files_summaries_and_pictures(answered, tmp_path):
    explainer, explanation = answered
    for name, found in {
        "given": explanation.given(keep=["x1"]),
        "range": explanation.given(at_least={"x1": 0.5}),
        "anew": explainer.given(explanation, at_least={"x1": 0.5}, keep=["x2"]),
    }.items():
        again = gbce.load(found.save(tmp_path / f"{name}.gbce"))
        assert again.conditions == found.conditions
        assert again.query.conditions == found.query.conditions
        assert again.space == found.space
        assert np.array_equal(again.draws.x, found.draws.x)
        pd.testing.assert_series_equal(again.distribution, found.distribution)
        assert explainer.decide(again, gbce.CVaR(max_candidates=20)).shape == (1, 2)
        assert "x1" in again.summary()
        assert again.plot.changes() is not None
        assert again.plot.posterior() is not None


def test_a_file_without_the_pool_answers_no_question_but_can_be_asked_anew(answered, tmp_path):
    explainer, explanation = answered
    small = gbce.load(explanation.given(at_most={"x1": 1.0}).save(tmp_path / "small.gbce", pool=False))
    assert small.conditions == ("x1 is at most 1",)
    with pytest.raises(ValueError, match="given"):
        small.given(keep=["x2"])
    anew = explainer.given(small, keep=["x2"])
    assert (anew.draws.x[:, 1] == -0.1).all()
    assert (anew.draws.x[:, 0] <= 1.0).all()


def rewritten(path, change):
    with zipfile.ZipFile(path) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    name = next(name for name in parts if name.endswith(".json"))
    manifest = json.loads(parts[name])
    change(manifest)
    parts[name] = json.dumps(manifest).encode()
    with zipfile.ZipFile(path, "w") as file:
        for name, content in parts.items():
            file.writestr(name, content)
    return path


def test_files_that_lie_about_their_conditions(answered, tmp_path):
    _, explanation = answered
    given = explanation.given(at_least={"x1": 0.5})
    for change, said in (
        (lambda one: one.update(name="x9"), "does not exist"),
        (lambda one: one.update(low=3.0), "do not meet"),
        (lambda one: one.update(low=float("nan")), "not a number"),
    ):
        path = rewritten(given.save(tmp_path / "two.gbce"), lambda manifest, c=change: c(manifest["conditions"][0]))
        with pytest.raises(gbce.FileError, match=said):
            gbce.load(path)


# --- refusals, a sentence each ---------------------------------------------------------------------------------------


def typed(error):
    """The line to type that an error ends with."""
    return re.search(r"run (explainer\.given\(.*\))$", str(error.value)).group(1)


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        ({"keep": ["x1"]}, "explainer.given(explanation, keep=['x1'])"),
        ({"keep": "x1"}, "explainer.given(explanation, keep=['x1'])"),
        (
            {"at_most": {"x1": np.float64(-2.0)}, "keep": iter(["x2"])},
            "explainer.given(explanation, keep=['x2'], at_most={'x1': -2.0})",
        ),
        ({"between": {"x1": (3.0, 3.1)}}, "explainer.given(explanation, between={'x1': (3.0, 3.1)})"),
    ],
)
def test_draws_that_cannot_carry_it_name_the_line_to_type_and_it_works(asked, line):
    explainer = make(gbce.Importance(5_000, 1_000))
    explanation = explainer.explain(X0, TARGET, rules=[gbce.Medoid()], seed=0)
    with pytest.raises(ValueError, match=r"no draw in which|effective draws of 5000 would be left") as error:
        explanation.given(**asked)
    assert typed(error) == line
    found = eval(line, {"explainer": explainer, "explanation": explanation})
    assert found.diagnostics["ess"] > 100


def test_a_date_in_the_line_to_type_can_be_typed(of_levels):
    explainer, explanation = of_levels
    asked = {"at_least": {"since": pd.Timestamp("2024-01-07")}, "exactly": {"rooms": 6, "job": "none"}}
    with pytest.raises(ValueError, match=r"would be left|no draw") as error:
        explanation.given(keep=["school"], **asked)
    found = eval(typed(error), {"explainer": explainer, "explanation": explanation})
    assert (found.draws.x[:, 1] == 6).all()


NOTHING = "given needs a condition"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({}, NOTHING),
        ({"keep": []}, NOTHING),
        ({"at_most": {}}, NOTHING),
        ({"keep": ["salary"]}, "keep names 'salary', which the table does not have; columns are"),
        ({"at_least": {"salary": 3}}, "at_least names 'salary'"),
        ({"keep": ["rooms"], "at_most": {"rooms": 3}}, "keep and at_most all name 'rooms'"),
        ({"exactly": {"rooms": 2}, "at_least": {"rooms": 2}}, "at_least and exactly all name 'rooms'"),
        ({"at_least": {"rooms": 4}, "at_most": {"rooms": 2}}, "both at least 4 and at most 2"),
        ({"between": {"rooms": (4, 2)}}, "both at least 4 and at most 2"),
        ({"between": {"rooms": 4}}, "needs two values, \\(low, high\\), not 4"),
        ({"between": {"rooms": "ab"}}, "needs two values"),
        ({"at_most": {"rooms": "three"}}, "at_most: 'rooms' needs a finite number, not 'three'"),
        ({"at_most": {"rooms": np.inf}}, "needs a finite number"),
        ({"at_most": {"rooms": None}}, "at_most: 'rooms' needs a value, not None"),
        ({"exactly": {"rooms": 2.5}}, "holds integers, and 2.5 is not one"),
        ({"exactly": {"rooms": None}}, "'rooms' cannot be missing"),
        ({"exactly": {"job": "boss"}}, "'job' has no level 'boss'; its levels are 'clerk', 'none', 'skilled'"),
        ({"at_most": {"school": "best"}}, "'school' has no level 'best'"),
        ({"at_most": {"job": "clerk"}}, "have no order, so there is no at most 'clerk'; use exactly="),
        ({"at_most": {"since": "yesterday or so"}}, "at_most 'since' must be times"),
        ({"at_least": {"rooms": 9}}, "rooms is at least 9: the row has 1, and 'rooms' may only lie between 1 and 6"),
        ({"between": {"rooms": (2.2, 2.8)}}, "rooms is between 2 and 3: the row has 1"),
        ({"keep": ["job", "rooms", "since", "school"]}, "nothing is left to change"),
        ({"keep": 3}, "keep must be a list of column names, not 3"),
        ({"keep": {"job": "none"}}, "keep must be a list of column names"),
        ({"at_most": ["rooms"]}, "at_most must be a mapping of column names to values"),
    ],
)
def test_bad_questions_are_refused_with_a_sentence(of_levels, asked, said):
    explainer, explanation = of_levels
    for ask in (explanation.given, lambda **some: explainer.given(explanation, **some)):
        with pytest.raises((ValueError, TypeError), match=said):
            ask(**asked)


def test_what_may_not_move_is_refused_and_what_is_met_anyway_is_not():
    space = gbce.Space((gbce.Feature("a", mutable=False), gbce.Feature("b", direction="increase"), gbce.Feature("c")))
    data = np.random.default_rng(0).normal(size=(50, 3))
    explainer = gbce.Explainer(lambda x: x.sum(axis=1), data, space=space)
    explanation = explainer.explain([1.0, 2.0, 0.0], gbce.AtLeast(4, scale=1), rules=[], seed=0)
    with pytest.raises(ValueError, match="a is at most 0: 'a' may not change, and the row has 1"):
        explanation.given(at_most={"a": 0})
    with pytest.raises(ValueError, match="b is at most 1: the row has 2, and 'b' may only lie between 2 and inf"):
        explanation.given(at_most={"b": 1})
    for asked in ({"keep": ["a"]}, {"at_most": {"a": 3}}):
        assert explanation.given(**asked).diagnostics["ess"] == pytest.approx(explanation.diagnostics["ess"])


def test_one_value_of_a_real_column_that_is_not_the_rows_cannot_be_drawn(answered):
    explainer, explanation = answered
    with pytest.raises(ValueError, match="probability zero"):
        explanation.given(exactly={"x1": 1.0})
    with pytest.raises(ValueError, match=r"Give a range, between=\{'x1': \(low, high\)\}"):
        explainer.given(explanation, exactly={"x1": 1.0})
    assert explanation.given(exactly={"x1": 0.2}).conditions == ("x1 stays at 0.2",)


def test_a_computed_column_has_a_range_and_is_not_kept():
    frame = pd.DataFrame({"a": np.linspace(-1, 1, 60), "b": np.linspace(1, -1, 60) ** 3})
    frame["total"] = frame["a"] + frame["b"]
    space = gbce.Space.infer(frame, computed={"total": "a + b"}, scale="raw")
    explainer = gbce.Explainer(lambda one: one["total"].to_numpy(), frame, space=space, prior=gbce.Gaussian())
    row = {"a": 0.0, "b": 0.0, "total": 0.0}
    explanation = explainer.explain(row, gbce.AtLeast(1.0, scale=0.5), rules=[], seed=0)
    drawn, anew = (
        found.importance for found in (
            explanation.given(at_most={"total": 1.2}), explainer.given(explanation, at_most={"total": 1.2})
        )
    )  # fmt: skip
    assert (np.abs(drawn["change"] - anew["change"]) < WITHIN * np.hypot(drawn["se"], anew["se"])).all()
    with pytest.raises(ValueError, match="'total' is computed from other columns; keep those instead"):
        explainer.given(explanation, keep=["total"])


def test_an_explanation_of_another_model_is_not_asked_again(answered):
    _, explanation = answered
    other = gbce.Explainer(lambda x: -model(x), np.zeros((3, 2)) + np.arange(3)[:, None], space=gbce.Space.real(2),
                           prior=gbce.Sparse(change=0.4))  # fmt: skip
    with pytest.raises(ValueError, match="made with another model"):
        other.given(explanation, keep=["x1"])
    with pytest.raises(TypeError, match="explanation must come from"):
        other.given("this", keep=["x1"])


def test_a_budget_holds_for_a_new_run(answered):
    explainer, explanation = answered
    found = explainer.given(explanation, keep=["x1"], max_model_rows=1_500)
    assert found.n_model_rows <= 1_500
