"""Rashomon sets, weights from risks, posteriors over models through an explainer, and bad input."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from scipy.stats import t as student
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gbce
from support.outcomes import LABELS, X, Y, coefficients

# --- Rashomon and risks ----------------------------------------------------------------------------------------------


def test_cross_val_risk_is_that_of_scikit_learn():
    from sklearn.metrics import log_loss, mean_squared_error
    from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict

    folds = KFold(5, shuffle=True, random_state=0)
    learners = [LinearRegression(), DummyRegressor()]
    risk = gbce.cross_val_risk(learners, X, Y)
    assert risk == pytest.approx([mean_squared_error(Y, cross_val_predict(one, X, Y, cv=folds)) for one in learners])
    absolute = gbce.cross_val_risk(learners[0], X, Y, loss=lambda y, f: np.abs(y - f))
    assert absolute == pytest.approx(np.mean(np.abs(Y - cross_val_predict(learners[0], X, Y, cv=folds))))
    folds = StratifiedKFold(4, shuffle=True, random_state=0)
    shares = cross_val_predict(LogisticRegression(), X, LABELS, cv=folds, method="predict_proba")
    assert gbce.cross_val_risk(LogisticRegression(), X, LABELS, cv=4) == pytest.approx(log_loss(LABELS, shares))
    assert gbce.weights_from_risk(risk, 20.0)[0] > 0.99


def test_rashomon_keeps_what_is_within_the_tolerance():
    method = gbce.Rashomon(0.1, candidates=[Ridge(1.0), DummyRegressor()])
    posterior = gbce.model_posterior(LinearRegression(), X, Y, method, 15, seed=0, n_jobs=2)
    facts = posterior.facts
    assert facts["tried"] == 15
    assert 2 <= len(posterior) < 15
    assert facts["limit"] == pytest.approx(1.1 * facts["best_risk"])
    assert list(facts["risks"]) == sorted(facts["risks"])
    assert facts["risks"][0] == facts["best_risk"]
    assert facts["risks"][-1] <= facts["limit"]
    assert not any(isinstance(model, DummyRegressor) for model in posterior)
    assert min(gbce.cross_val_risk([LinearRegression(), Ridge(1.0)], X, Y)) in facts["risks"]  # on the data as they are
    best = gbce.model_posterior(LinearRegression(), X, Y, gbce.Rashomon(0.0, bootstrap=False), 1, seed=0)
    assert len(best) == 1
    everything = gbce.model_posterior(LinearRegression(), X, Y, gbce.Rashomon(1e6, cv=3), 6, seed=0)
    assert len(everything) == 6


# --- through an explainer --------------------------------------------------------------------------------------------


def test_explainer_takes_a_posterior_with_its_weights():
    frame = pd.DataFrame(X, columns=["a", "b"])
    posterior = gbce.model_posterior(Ridge(1.0), frame, Y, gbce.CoefficientPosterior(), 3, seed=0)
    uneven = gbce.ModelPosterior(posterior.models, np.array([0.5, 0.3, 0.2]), "by hand")
    assert np.array_equal(gbce.Explainer(uneven, frame)._session.mixture.weights, [0.5, 0.3, 0.2])
    assert np.array_equal(gbce.Explainer(uneven, frame, weights=[1, 0, 0])._session.mixture.weights, [1, 0, 0])
    turned = frame[["b", "a"]]
    explainer = gbce.Explainer(posterior, turned)
    assert np.allclose(
        explainer._session.predictors[0](explainer.space.encode(turned)).values, posterior[0].predict(frame)
    )
    classes = gbce.model_posterior(LogisticRegression(), frame, LABELS, gbce.LaplaceApproximation(), 3, seed=0)
    explanation = gbce.Explainer(classes, frame).explain(frame.iloc[0], gbce.Class("yes"), rules=[gbce.MAP()], seed=0)
    assert explanation.draws.loss.shape[1] == 3
    assert len(posterior) == 3
    assert posterior[-1] is list(posterior)[2]
    assert "3 models by CoefficientPosterior" in repr(posterior)
    with pytest.raises(ValueError, match="read-only"):
        posterior.weights[0] = 1.0


def test_fully_bayesian_counterfactual_of_a_linear_regression():
    """Both losses are log likelihoods, both etas 1: the mixture over draws of theta against its exact integral."""
    rng = np.random.default_rng(11)
    sigma, wanted, row = 0.5, 3.0, np.array([0.2, -0.1])
    x = rng.normal(size=(6, 2))
    y = x @ [1.0, 0.5] + sigma * rng.normal(size=6)
    design = np.column_stack([x, np.ones(6)])
    V = np.linalg.inv(design.T @ design / sigma**2)
    m = V @ design.T @ y / sigma**2

    axes = [np.linspace(c - 6, c + 6, 301) for c in row]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    lifted = np.column_stack([grid, np.ones(len(grid))])
    variance = sigma**2 + np.einsum("ni,ij,nj->n", lifted, V, lifted)
    likelihood = np.sqrt(sigma**2 / variance) * np.exp(-((lifted @ m - wanted) ** 2) / (2 * variance))
    prior = np.exp(-((grid - row) ** 2).sum(axis=1) / 2)
    prior /= prior.sum()
    evidence = prior @ likelihood
    mean = (prior * likelihood) @ grid / evidence

    found = []
    method = gbce.CoefficientPosterior(noise_sd=sigma)
    for seed in range(16):
        posterior = gbce.model_posterior(LinearRegression(), x, y, method, 400, seed=seed)
        explainer = gbce.Explainer(posterior, x, space=gbce.Space.real(2), prior=gbce.Gaussian(1.0), eta=1.0,
                                   sampler=gbce.Importance(n_candidates=8000, n_draws=1000))  # fmt: skip
        wish = gbce.Value(wanted, scale=np.sqrt(2) * sigma, tolerance=0.1)
        draws = explainer.explain(row, wish, rules=[], seed=seed).draws
        found.append([*(draws.pool_weights @ draws.pool.x), draws.log_evidence])
    found = np.array(found)
    # each set has its own thetas and its own candidates, so the spread between sets holds both errors
    error = found.std(axis=0, ddof=1) / np.sqrt(len(found))
    error *= student.isf(norm.sf(4), len(found) - 1)  # as rare as four known standard errors
    assert np.all(np.abs(found.mean(axis=0) - [*mean, np.log(evidence)]) < error)
    plugged = prior * np.exp(-((lifted @ m - wanted) ** 2) / (2 * sigma**2))  # what one fitted model would say
    alone = np.array([*(plugged @ grid / plugged.sum()), np.log(plugged.sum())])
    assert np.any(np.abs(alone - [*mean, np.log(evidence)]) > error)


# --- bad input -------------------------------------------------------------------------------------------------------


GAP = np.where(np.arange(80) == 7, np.nan, Y)
HOLE = np.where(np.arange(160).reshape(80, 2) == 9, np.nan, X)
CP, BB = gbce.CoefficientPosterior(), gbce.BayesianBootstrap()
BAD = {
    "no fit": (dict(learner=np.sum), TypeError, "must have fit and predict"),
    "a class": (dict(learner=Ridge), TypeError, r"pass an instance of it, Ridge\(\)"),
    "no models": (dict(n_models=0), ValueError, "n_models must be an integer of at least 1, not 0"),
    "half a model": (dict(n_models=1.5), ValueError, "n_models must be an integer"),
    "seed": (dict(seed=-1), ValueError, "seed must be an integer"),
    "unknown method": (dict(method="bootstrap"), TypeError, r"gbce.BayesianBootstrap\(\).*not 'bootstrap'"),
    "method as a class": (dict(method=gbce.BayesianBootstrap), TypeError, "method must be an object"),
    "regressor with words": (dict(y=LABELS), TypeError, "Ridge is a regressor, but y holds '.*use a classifier"),
    "classifier with numbers": (dict(learner=LogisticRegression()), TypeError, "is a classifier, but y holds numbers"),
    "one class": (dict(learner=LogisticRegression(), y=np.ones(80)), ValueError, "single class 1.0"),
    "NaN in y": (dict(y=GAP), ValueError, "y is missing in 1 .*row 7"),
    "NA in y": (dict(y=pd.Series(GAP).convert_dtypes()), ValueError, "y is missing in 1 .*row 7"),
    "infinite y": (dict(y=np.where(np.isnan(GAP), np.inf, Y)), ValueError, "y is infinite in row 7"),
    "NaN in X": (dict(X=HOLE, method=CP), ValueError, "X is missing .* in 1 rows, first in row 4.*Imputer"),
    "NaN in X, refitted": (dict(X=HOLE, method=BB), ValueError, "Ridge cannot be fitted to these data: .*NaN"),
    "words in X": (dict(X=X.astype(str).astype(object) + "a", method=CP), TypeError, "needs numbers"),
    "lengths": (dict(y=Y[:5]), ValueError, "y has 5 outcomes, but X has 80 rows"),
    "several outcomes": (dict(y=np.column_stack([Y, Y])), ValueError, "one outcome per row"),
    "flat rows": (dict(X=X[:, 0]), ValueError, "X must be a table"),
    "trees have no coefficients": (dict(learner=RandomForestRegressor(), method=CP), TypeError, "any learner"),
    "safe without a prior": (
        dict(learner=LinearRegression(), method=gbce.CoefficientPosterior("safe")), ValueError, "give prior_sd",
    ),
    "safe network": (
        dict(learner=MLPRegressor(), method=gbce.CoefficientPosterior("safe", noise_sd=1.0)), ValueError, "network",
    ),
    "lasso penalty": (
        dict(learner=LogisticRegression(l1_ratio=0.5, solver="saga"), y=LABELS, method=CP), ValueError, "L2 penalty",
    ),
    "class weights": (
        dict(learner=LogisticRegression(class_weight="balanced"), y=LABELS, method=CP), ValueError, "class_weight=None",
    ),
    "positive": (dict(learner=LinearRegression(positive=True), method=CP), ValueError, "positive=False"),
    "no noise": (dict(learner=LinearRegression(), y=X[:, 0], method=CP), ValueError, "give noise_sd"),
    "twice the same column": (
        dict(learner=LinearRegression(), X=X[:, [0, 0]], method=CP), ValueError, "column 0, column 1 .*give a prior_sd",
    ),
    "separated classes": (
        dict(learner=LogisticRegression(C=np.inf), y=X[:, 0] > 1, method=CP), ValueError, "coefficients is improper",
    ),
    "a network too large": (
        dict(learner=MLPRegressor(hidden_layer_sizes=(3000,)), method=CP), ValueError, "12,001 coefficients",
    ),
    "mixed candidates": (
        dict(method=gbce.Rashomon(0.1, candidates=[LogisticRegression()])), TypeError, "candidates of one kind",
    ),
    "folds": (dict(method=gbce.Rashomon(0.1, cv=100)), ValueError, "cv must be an integer number of folds"),
}  # fmt: skip


FRAME = pd.DataFrame(X, columns=["a", "b"])
NUDGE = np.random.default_rng(12).normal(size=80)
DEPENDENT = {
    "a copy": (FRAME.assign(c=FRAME.a), "'a', 'c' are lin"),
    "a copy in another unit": (FRAME.assign(c=1e9 * FRAME.a), "'a', 'c' are lin"),
    "a copy but for the eighth digit": (FRAME.assign(c=FRAME.a * (1 + 1e-8 * NUDGE)), "'a', 'c' are lin"),
    "a sum": (FRAME.assign(c=0.1 * NUDGE, d=FRAME.a + FRAME.b), "'a', 'b', 'd' are lin"),
    "a constant": (FRAME.assign(c=0.1), "'c', the intercept are lin"),
    "nothing": (FRAME.assign(c=0.0), "'c' is zero in every row"),
    "two copies": (FRAME.assign(c=FRAME.a, d=FRAME.b), "'a', 'b', 'c', 'd' are lin"),
    "more columns than rows": (pd.DataFrame(np.random.default_rng(13).normal(size=(80, 90))), "and 85 more are lin"),
}  # fmt: skip


@pytest.mark.parametrize("method", [gbce.CoefficientPosterior, gbce.LaplaceApproximation])
@pytest.mark.parametrize("case", DEPENDENT)
def test_columns_that_depend_on_each_other_are_named(case, method):
    """By rank, not by whether a decomposition happens to fail: the last bit differs from processor to processor."""
    frame, words = DEPENDENT[case]
    noisy = method(noise_sd=0.7)
    for learner, y in ((LinearRegression(), Y), (LogisticRegression(C=np.inf), LABELS)):
        with pytest.raises(ValueError, match=words):
            gbce.model_posterior(learner, frame, y, noisy, 2)
    with pytest.raises(ValueError, match=r"are linearly dependent|zero in every row"):
        gbce.model_posterior(make_pipeline(StandardScaler(), LinearRegression()), frame, Y, noisy, 2)
    assert len(gbce.model_posterior(Ridge(), frame, Y, noisy, 2)) == 2  # a prior tells what data do not


def test_columns_that_nearly_depend_on_each_other_have_their_posterior():
    """Copies up to the fifth digit are apart: what the data know of their difference is drawn to a percent."""
    frame = FRAME.assign(c=FRAME.a * (1 + 1e-5 * NUDGE))
    posterior = gbce.model_posterior(LinearRegression(), frame, Y, gbce.CoefficientPosterior(noise_sd=0.7), 4000)
    inverse = np.linalg.pinv(np.column_stack([frame, np.ones(80)]), rcond=1e-12)  # not squared, unlike the precision
    spread = 0.7 * np.linalg.norm(inverse, axis=1)
    drawn = coefficients(posterior)
    assert np.all(np.abs(drawn.std(axis=0) / spread - 1) < 4 / np.sqrt(2 * 4000) + 0.01)
    assert np.all(np.abs(drawn.mean(axis=0) - inverse @ Y) < 4 * spread / np.sqrt(4000) + 0.01 * spread)


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_in_words(case):
    options, error, words = BAD[case]
    with pytest.raises(error, match=words):
        gbce.model_posterior(**{"learner": Ridge(), "X": X, "y": Y, "n_models": 2, **options})


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: gbce.CoefficientPosterior(0.0), 'eta must be a positive number or "safe"'),
        (lambda: gbce.CoefficientPosterior("brave"), "not 'brave'"),
        (lambda: gbce.CoefficientPosterior(prior_sd=-1.0), "prior_sd must be a positive number"),
        (lambda: gbce.CoefficientPosterior(n_chains=0), "n_chains must be an integer"),
        (lambda: gbce.CoefficientPosterior(grid=[]), "grid must be positive numbers"),
        (lambda: gbce.CoefficientPosterior(safe="S"), 'safe must be "R" or "I"'),
        (lambda: gbce.LaplaceApproximation(-1), "eta must be a positive number"),
        (lambda: gbce.Rashomon(-0.1), "tolerance must be zero or a positive number"),
        (lambda: gbce.ModelPosterior((1, 2), np.ones(3), "x"), "one number per model: 2"),
        (lambda: gbce.cross_val_risk([], X, Y), "models is empty"),
        (lambda: gbce.cross_val_risk(Ridge(), X, Y, loss=lambda y, f: np.inf), "must return finite numbers"),
        (lambda: gbce.cross_val_risk(LogisticRegression(), X, np.arange(80) < 3), "fewer than cv=5"),
    ],
)
def test_bad_options_are_refused_in_words(make, words):
    with pytest.raises(ValueError, match=words):
        make()
