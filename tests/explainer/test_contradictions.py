"""What an explanation says in one place it does not deny in another: random tree ensembles and tables of all kinds."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import ExtraTreesRegressor, GradientBoostingRegressor, RandomForestRegressor
from sklearn.tree import DecisionTreeRegressor

import gbce
from gbce._numerics import SAMPLING, stream
from gbce.base import Choice, Rule
from gbce.draws import Points
from gbce.metrics import Verdict

MAKES = [
    lambda seed: DecisionTreeRegressor(max_depth=5, min_samples_leaf=3, random_state=seed),
    lambda seed: RandomForestRegressor(8, min_samples_leaf=3, random_state=seed),
    lambda seed: ExtraTreesRegressor(8, max_depth=6, random_state=seed),
    lambda seed: GradientBoostingRegressor(n_estimators=12, max_depth=3, random_state=seed),
]


def random_question(seed):
    """A table with numbers, counts and a yes or no, a tree ensemble fitted to it, a row and a wish, all at random."""
    rng = np.random.default_rng(seed)
    n, d = 250, int(rng.integers(3, 7))
    frame = pd.DataFrame(rng.normal(size=(n, d)) * rng.lognormal(size=d), columns=[f"x{j}" for j in range(d)])
    frame["count"] = rng.poisson(3, size=n)
    frame["flag"] = rng.random(n) < 0.4
    y = frame["x0"] * frame["flag"] + 0.5 * frame["count"] + np.sin(frame["x1"]) + rng.normal(size=n) * 0.3
    model = MAKES[seed % len(MAKES)](seed).fit(frame.to_numpy(float), y)
    said = model.predict(frame.to_numpy(float))
    wish = gbce.AtLeast(float(np.quantile(said, rng.uniform(0.8, 1.0)) + (seed % 5 == 4) * 2 * np.ptp(said)))
    immutable = ["x2"] if rng.random() < 0.5 else []
    prior = [gbce.Gaussian(0.5), gbce.Gaussian(), gbce.Sparse()][seed % 3]
    space = gbce.Space.infer(frame, immutable=immutable)
    explainer = gbce.Explainer(lambda f: model.predict(np.asarray(f, dtype=float)), frame, space=space, prior=prior)
    row = frame.iloc[int(np.argsort(said)[rng.integers(n // 2)])]
    return explainer, row, wish, rng


@cache
def answer(number):
    explainer, row, wish, _ = random_question(100 + number)
    return explainer, explainer.explain(row, wish, rules=[gbce.MAP(), gbce.ChanceConstrained(0.7)], seed=number)


@pytest.fixture(scope="module", params=range(15))
def answered(request):
    return answer(request.param)


def known_rows(explainer, explanation):
    """Training rows that the row may become, evaluated: encoded, with objective and verdict."""
    space, data, x0 = explainer.space, explainer._session.data, explanation.x0
    fixed = [j for j in range(len(space)) if j not in set(explanation.free)]
    x = data[(data[:, fixed] == x0[fixed]).all(axis=1)] if fixed else data
    return x[space.admissible(x, x0)] if len(x) else x


def test_no_evaluated_point_is_better_than_the_mode(answered):
    _, explanation = answered
    if explanation.query.sparse:
        pytest.skip("densities with different numbers of changes are not compared")
    mode = explanation.pointwise.loc["MAP", "objective"]
    known = explanation.draws.known
    assert mode <= explanation.mixture.objective(known.loss, known.cost).min() + 1e-9
    assert mode <= explanation.pointwise["objective"].min() + 1e-9


def test_no_training_row_is_better_than_the_mode(answered):
    explainer, explanation = answered
    if explanation.query.sparse:
        pytest.skip("densities with different numbers of changes are not compared")
    x = known_rows(explainer, explanation)
    posterior = explainer._session.own_posterior(explanation, gbce.budget.Budget())
    if len(x):
        objective = posterior.objective(x, posterior.evaluate(x).loss)
        assert explanation.pointwise.loc["MAP", "objective"] <= objective.min() + 1e-6


def test_what_a_training_row_reaches_is_attainable(answered):
    explainer, explanation = answered
    x = known_rows(explainer, explanation)
    posterior = explainer._session.own_posterior(explanation, gbce.budget.Budget())
    if len(x) and posterior.evaluate(x).reached[:, 0].any():
        assert explanation.status != "not attained"


def test_no_frontier_reaches_what_is_called_not_attained(answered):
    explainer, explanation = answered
    front = explainer.frontier(explanation)
    if explanation.status == "not attained":
        assert (front.index < 1).all() or len(front) == 0
    if len(front) and front.index.max() >= 1:
        assert explanation.status != "not attained"


def test_draws_that_are_trusted_explain_every_known_point(answered):
    explainer, explanation = answered
    if explanation.diagnostics["sampling"] != Verdict.TRUSTWORTHY:
        return  # then it says so
    posterior = explainer._session.own_posterior(explanation, gbce.budget.Budget())
    known = Points.evaluate(posterior, posterior.prior.locate(explainer._session.data))
    seen = explanation.draws.seen
    points = known if seen is None else Points.join([known, seen])
    # a result holds no code: what its draws cover is asked of the sampler, which draws them again
    _, cover = explainer._session.sampler.sample_with_coverage(
        posterior, stream(explanation.seed, SAMPLING, explanation.query.key)
    )
    assert cover is not None
    unexplained = np.flatnonzero(cover.unexplained(points, explanation.mixture))
    rng = np.random.default_rng(0)  # a needle, with no mass to speak of around it, may be left alone
    assert not any(cover.has_missed_mass_near(posterior, rng, points.z[i]) for i in unexplained)


def test_the_questions_are_of_all_kinds():
    """Some targets are out of reach, some are met far away: otherwise the tests above would show nothing."""
    assert {"attainable", "not attained"} <= {str(answer(number)[1].status) for number in range(5, 15)}


@dataclass(frozen=True)
class Told(Rule):
    """A point that somebody knows of."""

    point: tuple[float, ...] = ()

    def choose(self, scene):
        return Choice(np.array([self.point]))


def _needle(x):
    """One in a small ball that no search can see from outside, zero elsewhere."""
    return (np.linalg.norm(np.asarray(x, dtype=float) - [1.5, -1.2, 0.9], axis=1) < 0.05).astype(float)


def test_what_one_rule_comes_upon_the_others_know():
    x = np.random.default_rng(0).normal(size=(200, 3))
    x = x[_needle(x) == 0]
    told = Told((1.52, -1.22, 0.88))
    explainer = gbce.Explainer(_needle, x, sampler=gbce.SMC(n_candidates=2_000, n_draws=300))
    blind = explainer.explain(np.zeros(3), gbce.AtLeast(0.5, scale=0.1), rules=["Nearest"], seed=0)
    assert blind.status == "not attained"
    explanation = explainer.explain(np.zeros(3), gbce.AtLeast(0.5, scale=0.1), rules=["Nearest", "CVaR", told], seed=0)
    points = explanation.pointwise
    assert explanation.status == "attainable"
    assert points.loc["Nearest", "reached"]
    assert points.loc["Nearest", "distance"] < points.loc[told.label, "distance"]  # drawn back to the ball's near side
    assert explanation.answer.reached
    assert not any("no evaluated point reaches" in note for note in explanation.notes)
    assert "best seen" not in explanation.answer.because


def test_where_the_budget_ends_the_first_choices_stand():
    x = np.random.default_rng(0).normal(size=(200, 3))
    explainer = gbce.Explainer(_needle, x[_needle(x) == 0], sampler=gbce.SMC(n_candidates=2_000, n_draws=300))
    told = Told((1.52, -1.22, 0.88))
    for rows in (7_000, 9_000, 12_000):
        explanation = explainer.explain(
            np.zeros(3), gbce.AtLeast(0.5, scale=0.1), rules=["Nearest", told], seed=0, max_model_rows=rows
        )
        assert explanation.n_model_rows <= rows
        if len(explanation.decisions):
            assert told.label in explanation.pointwise.index
            assert explanation.status == "attainable"
