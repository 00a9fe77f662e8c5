"""Columns that are harder or easier to change, and another eta: against quadrature, from the draws and anew."""

import numpy as np
import pytest

import gbce
from gbce.metrics import costs
from gbce.space import effort_cost
from support.exact import Grid, gaussian_log_prior, midpoints
from support.laws import within

X0 = np.array([0.2, -0.1])
TARGET = gbce.Value(1.5, scale=1, tolerance=0.5)


def model(x):
    return x[:, 0] + 0.7 * x[:, 1] + 0.2 * x[:, 0] * x[:, 1]


def make(prior=None, **options):
    data = np.random.default_rng(0).normal(size=(100, 2))
    space = gbce.Space([gbce.Feature("x1", scale=0.5), gbce.Feature("x2")])
    sampler = gbce.Importance(20_000, 4_000)
    return gbce.Explainer(model, data, space=space, sampler=sampler, prior=prior or gbce.Gaussian(1.5), eta=2.0,
                          **options)  # fmt: skip


@pytest.fixture(scope="module")
def explainer():
    return make()


@pytest.fixture(scope="module")
def explanation(explainer):
    return explainer.explain(X0, TARGET, rules=[gbce.MAP()], seed=5)


def grid(factor, eta):
    """The posterior where a unit of x1 (0.5) counts so many times."""
    plain = gaussian_log_prior(X0, np.diag([0.75**2, 1.5**2]))

    def harder(x):
        return plain(x) - (factor - 1.0) * np.abs(x[:, 0] - X0[0]) / 0.5

    return Grid.of((midpoints(-7, 7, 500),) * 2, harder, lambda x: eta * np.square(model(x) - 1.5))


def agrees(explanation, exact):
    errors, said = within(explanation.draws), explanation.distribution
    success = exact.mean(np.abs(model(exact.x) - 1.5) <= 0.5)
    assert abs(said["success_probability"] - success) < errors * said["success_probability_se"]
    moved = explanation.importance
    assert (np.abs(moved["change"] - exact.importance(X0)) < errors * moved["se"]).all()
    known = explanation.diagnostics
    assert abs(known["log_evidence"] - exact.log_evidence) < errors * known["log_evidence_se"]


@pytest.mark.parametrize("factor", [3.0, 0.5])
def test_effort_is_a_factor_of_the_prior_from_the_draws_and_anew(explainer, explanation, factor):
    asked = {"effort": {"x1": factor}}
    agrees(explanation.given(**asked), grid(factor, 2.0))
    agrees(explainer.given(explanation, **asked, seed=6), grid(factor, 2.0))
    agrees(explainer.given(explanation, **asked, eta=0.5, seed=7), grid(factor, 0.5))


def test_another_eta_alone_is_asked_anew(explainer, explanation):
    found = explainer.given(explanation, eta=0.5)
    agrees(found, grid(1.0, 0.5))
    assert found.conditions == ()
    with pytest.raises(ValueError, match="eta must be zero or a positive number"):
        explainer.given(explanation, eta=-1.0)
    with pytest.raises(ValueError, match="given needs a condition"):
        explainer.given(explanation)


def test_the_answer_is_the_cheapest_known_point_by_the_costs_so_changed(explanation):
    given = explanation.given(effort={"x1": 8.0})
    known = given.draws.known
    cost = costs(given.space, known.x, X0, "l1") + effort_cost(given.space, (("x1", 8.0),), known.x, X0)
    best = known.x[np.where(known.reached[:, 0], cost, np.inf).argmin()]
    assert given.answer.decision.x == pytest.approx(best)
    assert abs(best[0] - X0[0]) < abs(explanation.answer.decision.x[0] - X0[0])


def price_of(space, *points):
    x = np.array(points)
    return costs(space, x, X0, "l1") + effort_cost(space, (("x1", 8.0),), x, X0)


def test_another_run_answers_by_the_policy_at_the_costs_so_changed(explainer, explanation):
    found = explainer.given(explanation, effort={"x1": 8.0}, seed=6)
    assert found.answer.kind == "reliable"
    assert found.answer.reliability.share >= found.answer.promised
    now, before = price_of(found.space, found.answer.decision.x, explanation.answer.decision.x)
    assert now < 0.9 * before


def test_a_policy_that_counts_no_efforts_leaves_the_cheapest_point_with_its_reliability():
    explainer = make(policy="Nearest")
    found = explainer.given(explainer.explain(X0, TARGET, rules=["Nearest"], seed=5), effort={"x1": 8.0}, seed=6)
    decided = [one.x for one in found.decisions if one.reached[0]]
    price = price_of(found.space, found.answer.decision.x, *decided)
    assert decided
    assert price[0] == pytest.approx(price.min())
    assert found.answer.reliability is not None


def test_efforts_multiply_and_go_with_conditions_rules_and_files(explainer, explanation, tmp_path):
    twice = explanation.given(effort={"x1": 2.0}).given(effort={"x1": 1.5}, at_most={"x2": 2.0})
    once = explanation.given(effort={"x1": 3.0}, at_most={"x2": 2.0})
    assert twice.query.effort == once.query.effort == (("x1", 3.0),)
    assert twice.draws.pool_weights == pytest.approx(once.draws.pool_weights)
    assert twice.conditions == ("x2 is at most 2", "a change of x1 counts 3 times")
    again = gbce.load(twice.save(tmp_path / "twice.gbce"))
    assert again.query.effort == twice.query.effort
    assert again.distribution.equals(twice.distribution)
    # a rule that asks the models knows the prior with the effort in it
    mode, plain = (explainer.decide(one, gbce.MAP())["x1"].iloc[0] for one in (again, explanation))
    assert abs(mode - X0[0]) < abs(plain - X0[0])


def test_figures_at_another_eta_are_those_of_its_path(explanation, tmp_path):
    there = explanation.at(1.0)
    line = explanation.path([1.0]).iloc[0]
    for name in ("success_probability", "success_probability_se", "tail", "expected_loss", "expected_distance"):
        assert there.distribution[name] == line[name]
    assert len(there.draws) == len(explanation.draws)
    kept = gbce.load(there.save(tmp_path / "there.gbce", pool=False))
    assert kept.distribution.equals(there.distribution)


@pytest.mark.parametrize(
    ("effort", "error", "said"),
    [
        ({"x9": 2.0}, ValueError, "effort names 'x9'"),
        ({"x1": 0.0}, ValueError, "must be a positive number, not 0.0"),
        ({"x1": "hard"}, ValueError, "must be a positive number, not 'hard'"),
        (["x1"], TypeError, "effort must be a mapping"),
    ],
)
def test_what_is_no_effort_is_refused(explainer, explanation, effort, error, said):
    with pytest.raises(error, match=said):
        explanation.given(effort=effort)
    with pytest.raises(error, match=said):
        explainer.given(explanation, effort=effort)


def test_too_few_draws_are_refused_with_the_line_that_asks(explanation):
    with pytest.raises(ValueError, match=r"explainer\.given\(explanation, effort=\{'x1': 1000000000\.0\}\)"):
        explanation.given(effort={"x1": 1e9})
