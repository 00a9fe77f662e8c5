"""Catoni's bound and the learning rate of least bound: closed forms, the true risk in simulation, what is refused."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, multivariate_normal
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gbce
from gbce.ensembles._coefficients import SPEEDS, catoni_bound, clipped_loss, normal_kl
from gbce.ensembles._posterior import Question
from gbce.ensembles._problem import Categorical, Net, NormalErrors, Problem


def rows(seed, n, d=8):
    """Half of the rows are easy, so that the model is wrong about the noise; the bound does not mind."""
    rng = np.random.default_rng(seed)
    x, noise = rng.normal(size=(n, d)), np.where(rng.random(n) < 0.5, 0.1, 0.7)
    return x, x[:, 0] - 0.5 * x[:, 1] + noise * rng.normal(size=n)


def normal_pair(seed, p=3):
    rng = np.random.default_rng(seed)
    (m, m0), roots = rng.normal(size=(2, p)), rng.normal(size=(2, p, p))
    precision, precision0 = (root @ root.T + np.eye(p) for root in roots)
    return m, precision, m0, precision0, rng


def test_divergence_of_normal_laws_is_that_of_their_densities():
    m, precision, m0, precision0, rng = normal_pair(1)
    law, law0 = (multivariate_normal(a, np.linalg.inv(b)) for a, b in ((m, precision), (m0, precision0)))
    draws = law.rvs(100_000, random_state=rng)
    logs = law.logpdf(draws) - law0.logpdf(draws)
    assert abs(logs.mean() - normal_kl(m, precision, m0, precision0)) < 4 * logs.std() / np.sqrt(len(logs))
    assert normal_kl(m, precision, m, precision) == pytest.approx(0, abs=1e-12)
    one = np.ones(1)  # N(1, 1/4) from N(0, 1): (s + m**2 - 1 - log s) / 2
    assert normal_kl(one, 4 * np.eye(1), 0 * one, np.eye(1)) == pytest.approx(0.5 * (0.25 + 1 - 1 + np.log(4)))


@pytest.mark.parametrize("clip", [0.1, 2.0, 50.0])
@pytest.mark.parametrize("kind", ["number", "classes"])
def test_clipped_loss_is_its_integral_over_outputs(kind, clip):
    m, precision, _, _, rng = normal_pair(2)
    x = np.vstack([3 * rng.normal(size=(20, 3)), np.zeros((1, 3))])
    y = rng.normal(size=21)
    likelihood = NormalErrors(y, 0.6) if kind == "number" else Categorical((y > 0).astype(int))
    problem = Problem(Net((3, 1), bias=False), likelihood, x, np.eye(3))
    z = np.linspace(-9, 9, 200_001)  # in standard deviations of each row's output
    sd = np.sqrt(np.einsum("ni,ij,nj->n", x, np.linalg.inv(precision), x))
    outputs = x @ m + sd * z[:, None]
    summed = np.minimum(likelihood.loss(outputs[:, :, None]), clip) * np.exp(-0.5 * z**2)[:, None]
    exact = summed.sum(axis=0) * (z[1] - z[0]) / np.sqrt(2 * np.pi)
    assert np.allclose(clipped_loss(problem, m, precision, clip), exact, rtol=1e-7, atol=1e-9)


def test_catoni_bound_is_the_inverse_of_his_inequality():
    """At the bound, ``-log(1 - (1 - exp(-C)) R) - C r = (KL + log(1 / delta)) / n``."""
    r, kl, n, delta, clip = 0.3, 4.0, 200, 0.05, 2.0
    for speed in SPEEDS:
        risk = catoni_bound(r, kl, n, delta, clip, speed) / clip
        left = -np.log1p(np.expm1(-speed) * risk) - speed * r / clip
        assert left == pytest.approx((kl + np.log(1 / delta)) / n)


def test_facts_are_the_terms_of_the_bound_and_eta_its_minimum():
    """Everything again from the definition, for a ridge whose prior and noise are given."""
    x, y = rows(0, 120)
    choice = gbce.PACBayes(clip=1.5, delta=0.1, share=0.4)
    method = gbce.CoefficientPosterior(choice, prior_sd=0.7, noise_sd=0.5)
    question = Question.of(Ridge(), x, y, 3000, 5, None, False)
    posterior = method.draw(question)
    facts = posterior.facts
    order = np.random.default_rng(question.children(2)[0]).permutation(120)
    known, held = order[:48], order[48:]
    design = np.column_stack([x, np.ones(120)])
    prior = np.diag([0.7**-2] * 8 + [0.0])
    bounds = []
    for eta in facts["eta_grid"]:
        precision0, precision = (eta * one.T @ one / 0.25 + prior for one in (design[known], design))
        mean0 = np.linalg.solve(precision0, eta * design[known].T @ y[known] / 0.25)
        mean = np.linalg.solve(precision, eta * design.T @ y / 0.25)
        problem = Problem(Net((8, 1)), NormalErrors(y[held], 0.5), x[held], prior)
        r, kl = clipped_loss(problem, mean, precision, 1.5).mean(), normal_kl(mean, precision, mean0, precision0)
        bounds.append(min(catoni_bound(r, kl, 72, 0.1 / (13 * len(SPEEDS)), 1.5, speed) for speed in SPEEDS))
        if eta == facts["eta"]:
            assert [facts["bound_loss"], facts["bound_kl"]] == pytest.approx([r, kl])
            drawn = np.array([[*model.coef_, model.intercept_] for model in posterior])
            sd = np.sqrt(np.diag(np.linalg.inv(precision)))
            assert np.all(np.abs(drawn.mean(axis=0) - mean) < 4 * sd / np.sqrt(3000))  # the law of the bound is drawn
    assert facts["eta_bounds"] == pytest.approx(tuple(bounds))
    assert facts["eta"] == facts["eta_grid"][int(np.argmin(facts["eta_bounds"]))]
    assert facts["bound"] == min(facts["eta_bounds"])
    assert facts["bound_rows"] == 72
    assert f"{facts['bound']:.3f}" in facts["bound_says"]
    assert "bound=" in repr(posterior)


@pytest.mark.parametrize("kind", ["number", "classes"])
def test_bound_holds_against_the_true_risk(kind):
    """Rows are few for their columns, so that the mean loss alone is too low more often than not."""
    method = gbce.LaplaceApproximation(gbce.PACBayes(delta=0.2))
    learner = LinearRegression() if kind == "number" else LogisticRegression()
    fresh, wanted = rows(10_000, 4000)
    broken = optimistic = 0
    for seed in range(30):
        x, y = rows(seed, 60)
        if kind == "classes":
            posterior = gbce.model_posterior(learner, x, y > 0, method, 200, seed=seed)
            logits = np.array([model.scores(fresh)[:, 0] for model in posterior])
            loss = np.logaddexp(0, np.where(wanted > 0, -1.0, 1.0) * logits)
        else:
            posterior = gbce.model_posterior(learner, x, y, method, 200, seed=seed)
            error = np.array([model.predict(fresh) for model in posterior]) - wanted
            loss = error**2 / (2 * posterior.facts["noise_sd"] ** 2)
        risk = np.minimum(loss, 2.0).mean()
        broken += posterior.facts["bound"] < risk
        optimistic += posterior.facts["bound_loss"] < risk
        assert posterior.facts["bound"] <= 2.0 / -np.expm1(-SPEEDS[0])  # what it comes to at worst
    assert broken <= binom.ppf(0.999, 30, 0.2)
    assert optimistic > 15


def test_what_is_set_apart_alone_sets_scales_and_noise():
    """Rows of the bound may be anything: the pipeline, the noise and the prior do not change with them."""
    x, y = rows(3, 100)
    frame = pd.DataFrame(x, columns=list("abcdefgh"))
    learner = make_pipeline(StandardScaler(), Ridge(1.0))
    method = gbce.CoefficientPosterior(gbce.PACBayes())
    question = Question.of(learner, frame, y, 2, 0, None, False)
    held = np.random.default_rng(question.children(2)[0]).permutation(100)[50:]
    other_x, other_y = frame.copy(), y.copy()
    other_x.iloc[held], other_y[held] = 1.5 * other_x.iloc[held], y[held] + 1.0
    one, two = method.draw(question), method.draw(replace(question, X=other_x, y=other_y))
    for fact in ("noise_sd", "prior_sd"):
        assert one.facts[fact] == pytest.approx(two.facts[fact], rel=1e-12)  # one rounding apart, by memory layout
    np.testing.assert_allclose(one[0].prepare[0].mean_, two[0].prepare[0].mean_, rtol=1e-12)
    assert one.facts["bound"] != two.facts["bound"]
    assert gbce.Explainer(one, frame)._session.predictors[0](frame.iloc[:3].to_numpy()).values.shape == (3,)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: gbce.PACBayes(clip=0), "clip must be a positive number"),
        (lambda: gbce.PACBayes(delta=1), "delta must be between 0 and 1"),
        (lambda: gbce.PACBayes(share="half"), "share must be between 0 and 1"),
        (lambda: gbce.PACBayes(grid=[0.5, -1]), "grid must be positive numbers"),
        (lambda: draw(MLPRegressor(), gbce.LaplaceApproximation(gbce.PACBayes(), noise_sd=1.0)), "linear models"),
        (lambda: draw(LogisticRegression(), gbce.CoefficientPosterior(gbce.PACBayes())), "LaplaceApproximation"),
        (
            lambda: draw(LogisticRegression(), gbce.LaplaceApproximation(gbce.PACBayes()), 3),
            "two-class logistic models",
        ),
        (
            lambda: draw(LinearRegression(), gbce.CoefficientPosterior(gbce.PACBayes(share=0.05), noise_sd=1.0)),
            "are linearly dependent",  # five rows cannot tell nine coefficients
        ),
    ],
)
def test_what_has_no_bound_is_refused_in_words(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def draw(learner, method, classes=2):
    x, y = rows(0, 100)
    outcomes = np.digitize(y, [0.0] if classes == 2 else [-0.5, 0.5]) if "Logistic" in type(learner).__name__ else y
    return gbce.model_posterior(learner, x, outcomes, method, 2, seed=0)
