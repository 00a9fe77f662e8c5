"""The posterior against closed forms, quadrature and enumeration (fixed seeds, four standard errors)."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import laplace
from sklearn.ensemble import ExtraTreesRegressor

import gbce
from support.exact import Grid, gaussian_log_prior, linear, midpoints, tree_cells
from support.laws import close, figures_agree

SAMPLER = gbce.Importance(n_candidates=100_000, n_draws=20_000)
DATA = np.random.default_rng(0).normal(size=(50, 10))


def explain(model, x0, target, *, prior=None, eta=1.0, space=None, seed=3, **options):
    space = gbce.Space.real(len(x0)) if space is None else space
    explainer = gbce.Explainer(model, DATA[:, : len(x0)], space=space, prior=prior, eta=eta, sampler=SAMPLER, **options)
    return explainer.explain(x0, target, rules=[], seed=seed)


@pytest.mark.parametrize("d", [1, 2, 10])
@pytest.mark.parametrize("eta", [0.3, 2.0])
def test_linear_model_has_its_gaussian_posterior(d, eta):
    case = linear(d, eta=eta, seed=d)
    explanation = explain(case.predict, case.x0, gbce.Value(case.y, scale=1, tolerance=0.5), eta=eta)
    figures_agree(
        explanation,
        {
            "mean": case.mean,
            "cov": case.cov,
            "log_evidence": case.log_evidence,
            "success_probability": case.success_probability(0.5),
            "tail": case.tail(0.1),
            "stability": case.stability,
            "importance": case.importance,
        },
    )


def test_loss_scale_and_eta_are_one_knob():
    case = linear(2, eta=1.0)
    by_eta = explain(case.predict, case.x0, gbce.Value(case.y, scale=1, tolerance=0.5), eta=4.0)
    by_scale = explain(case.predict, case.x0, gbce.Value(case.y, scale=0.5, tolerance=0.5), eta=1.0)
    np.testing.assert_array_equal(by_eta.draws.x, by_scale.draws.x)
    figures_agree(by_scale, {"log_evidence": replace(case, eta=4.0).log_evidence})


@pytest.mark.parametrize(
    ("prior", "S"),
    [
        (gbce.Gaussian(0.5), np.diag([0.25, 0.25])),
        (gbce.Gaussian([0.5, 2.0]), np.diag([0.25, 4.0])),
        (gbce.Gaussian({"x2": 2.0, "x1": 0.5}), np.diag([0.25, 4.0])),
        (gbce.Gaussian(cov=[[1.0, 0.6], [0.6, 2.0]]), np.array([[1.0, 0.6], [0.6, 2.0]])),
    ],
)
def test_gaussian_priors_of_every_shape(prior, S):
    case = replace(linear(2, eta=1.5), S=S)
    explanation = explain(case.predict, case.x0, gbce.Value(case.y, scale=1, tolerance=0.5), prior=prior, eta=1.5)
    figures_agree(explanation, {"mean": case.mean, "cov": case.cov, "log_evidence": case.log_evidence})


def test_prior_is_measured_in_each_features_scale():
    space = gbce.Space.real(2, scale=[0.5, 3.0])
    case = replace(linear(2), S=np.diag([0.25, 9.0]))
    explanation = explain(case.predict, case.x0, gbce.Value(case.y, scale=1, tolerance=0.5), space=space)
    figures_agree(explanation, {"mean": case.mean, "cov": case.cov, "importance": case.importance})
    in_units = np.trace(case.cov / np.outer([0.5, 3.0], [0.5, 3.0]))
    figures_agree(explanation, {"stability": in_units})


def test_immutable_features_are_conditioned_on():
    cov = np.array([[1.0, 0.7], [0.7, 2.0]])
    case = replace(linear(2), S=cov)
    space = gbce.Space((gbce.Feature("x1", mutable=False), gbce.Feature("x2")))
    target = gbce.Value(case.y, scale=1, tolerance=0.5)
    explanation = explain(case.predict, case.x0, target, prior=gbce.Gaussian(cov=cov), space=space)
    given = 2.0 - 0.7**2 / 1.0  # variance of x2 given x1
    one = replace(case, w=case.w[1:], b=case.b + case.w[0] * case.x0[0], x0=case.x0[1:], S=np.array([[given]]))
    assert (explanation.draws.x[:, 0] == case.x0[0]).all()
    close(explanation.draws.log_evidence, one.log_evidence, explanation.draws.log_evidence_se, "log evidence")
    close(explanation.distribution["stability"], one.stability, explanation.distribution["stability_se"], "variance")


def test_free_energy_is_expected_loss_plus_divergence():
    case = linear(2, eta=1.3)
    explanation = explain(case.predict, case.x0, gbce.Value(case.y, scale=1, tolerance=0.5), eta=1.3)
    numbers = explanation.diagnostics
    assert numbers["free_energy"] == pytest.approx(numbers["expected_potential"] + numbers["divergence_from_prior"])
    assert numbers["divergence_from_prior"] == pytest.approx(case.divergence, rel=0.02)
    assert numbers["free_energy"] == pytest.approx(-case.log_evidence, abs=4 * numbers["log_evidence_se"])


# --- several models ---------------------------------------------------------------------------------------------


def two_models(eta):
    first = linear(2, eta=eta, seed=1)
    return first, replace(first, w=np.array([0.2, -0.9]), b=0.8)


def test_average_of_losses_is_gaussian():
    first, second = two_models(1.2)
    share = np.array([0.3, 0.7])
    precision = np.linalg.inv(first.S)
    pull = precision @ first.x0
    for weight, case in zip(share, (first, second), strict=True):
        precision = precision + 2 * 1.2 * weight * np.outer(case.w, case.w)
        pull = pull + 2 * 1.2 * weight * (case.y - case.b) * case.w
    explanation = explain(
        [first.predict, second.predict], first.x0, gbce.Value(first.y, scale=1, tolerance=0.5), eta=1.2,
        weights=[3, 7], combine="average",
    )  # fmt: skip
    cov = np.linalg.inv(precision)
    figures_agree(explanation, {"mean": cov @ pull, "cov": cov})


def test_any_is_the_mixture_of_the_models_posteriors():
    first, second = two_models(1.2)
    log_share = np.log([0.3, 0.7]) + np.array([first.log_evidence, second.log_evidence])
    share = np.exp(log_share - logsumexp(log_share))
    mean = share @ [first.mean, second.mean]
    explanation = explain(
        [first.predict, second.predict], first.x0, gbce.Value(first.y, scale=1, tolerance=0.5), eta=1.2, weights=[3, 7]
    )
    sp = share[0] * first.success_probability(0.5) + share[1] * _success_under(first, second)
    figures_agree(
        explanation,
        {"mean": mean, "log_evidence": logsumexp(log_share), "success_probability": sp,
         "importance": share @ [first.importance, second.importance]},
    )  # fmt: skip


def _success_under(judge, law):
    """Probability that a draw from one model's posterior succeeds under another model."""
    from scipy.stats import norm

    f = norm(judge.w @ law.mean + judge.b, np.sqrt(judge.w @ law.cov @ judge.w))
    return f.cdf(judge.y + 0.5) - f.cdf(judge.y - 0.5)


def test_all_is_the_worst_case_by_quadrature():
    first, second = two_models(1.2)

    def worst(x):
        return 1.2 * np.maximum((first.predict(x) - first.y) ** 2, (second.predict(x) - second.y) ** 2)

    axes = [midpoints(c - 6, c + 6) for c in first.x0]
    grid = Grid.of(axes, gaussian_log_prior(first.x0, first.S), worst)
    explanation = explain(
        [first.predict, second.predict], first.x0, gbce.Value(first.y, scale=1, tolerance=0.5), eta=1.2, combine="all"
    )
    both = np.array([np.abs(case.predict(grid.x) - case.y) <= 0.5 for case in (first, second)])
    figures_agree(
        explanation,
        {
            "mean": grid.mean(grid.x),
            "log_evidence": grid.log_evidence,
            "stability": grid.stability,
            "importance": grid.importance(first.x0),
            "success_probability": grid.mean(both[0].astype(float)),
            "success_probability[predict #2]": grid.mean(both[1].astype(float)),
            "success_probability[all]": grid.mean(both.all(axis=0).astype(float)),
            "success_probability[half]": grid.mean(both.any(axis=0).astype(float)),
        },
    )


# --- quadrature: a curved model, other priors, truncation ---------------------------------------------------------


def curved(x):
    return 2.0 * np.sin(x[:, 0]) + 0.8 * x[:, 1] ** 2 - 1.2 * x[:, 0] * x[:, 1]


X0 = np.array([0.2, 0.1])
Y = 2.6
TARGET = gbce.Value(Y, scale=1, tolerance=0.5)


def curved_grid(axes, log_prior, loss=lambda x: (curved(x) - Y) ** 2):
    return Grid.of(axes, log_prior, loss)


def grid_figures(grid, x0=X0):
    loss = (curved(grid.x) - Y) ** 2
    return {
        "mean": grid.mean(grid.x),
        "log_evidence": grid.log_evidence,
        "success_probability": grid.mean((loss <= 0.25).astype(float)),
        "tail": grid.quantile(loss, 0.9),
        "stability": grid.stability,
        "importance": grid.importance(x0),
    }


def test_curved_model():
    grid = curved_grid([midpoints(c - 6, c + 6) for c in X0], gaussian_log_prior(X0, np.eye(2)))
    figures_agree(explain(curved, X0, TARGET), grid_figures(grid))


def test_papers_two_dimensional_figures():
    """Table 1 of the paper, from its true function at a base point near (0.2, 0.1), to model and Monte Carlo error."""
    rng = np.random.default_rng(42)
    x = rng.normal(size=(200_000, 2))
    y = np.quantile(curved(x) + rng.normal(scale=0.3, size=len(x)), 0.9)
    explanation = explain(curved, X0, gbce.Value(float(y), scale=1, tolerance=0.5))
    assert explanation.distribution["success_probability"] == pytest.approx(0.443, rel=0.1)
    assert explanation.distribution["tail"] == pytest.approx(1.7388, rel=0.1)
    assert explanation.distribution["stability"] == pytest.approx(2.4636, rel=0.1)
    np.testing.assert_allclose(explanation.importance["change"], [0.808, 1.167], rtol=0.1)


def test_laplace_prior():
    def log_prior(x):
        return laplace(X0, [0.7, 1.4]).logpdf(x).sum(axis=1)

    # the grid has the row's coordinates on cell edges, where the density has its kink
    grid = curved_grid([np.concatenate([midpoints(c - 18, c, 900), midpoints(c, c + 18, 900)]) for c in X0], log_prior)
    figures_agree(explain(curved, X0, TARGET, prior=gbce.Laplace([0.7, 1.4])), grid_figures(grid))


BOUNDED = gbce.Space(
    (gbce.Feature("x1", low=-0.8, high=1.0), gbce.Feature("x2", direction="decrease")),
)
LIMITS = [(-0.8, 1.0), (X0[1] - 12.0, X0[1])]


@pytest.mark.parametrize(
    ("prior", "log_prior"),
    [
        (gbce.Gaussian(), gaussian_log_prior(X0, np.eye(2))),
        (gbce.Gaussian(cov=[[1.0, -0.7], [-0.7, 1.5]]), gaussian_log_prior(X0, [[1.0, -0.7], [-0.7, 1.5]])),
        (gbce.Laplace(), lambda x: -np.abs(x - X0).sum(axis=1)),
        (
            gbce.DistancePrior(lambda x, row: 2.0 * np.linalg.norm(x - row, axis=1)),
            lambda x: -2.0 * np.linalg.norm(x - X0, axis=1),
        ),
    ],
    ids=["gaussian", "correlated", "laplace", "distance"],
)
def test_truncation_to_bounds_and_direction(prior, log_prior):
    grid = curved_grid([midpoints(*side) for side in LIMITS], log_prior)
    explanation = explain(curved, X0, TARGET, prior=prior, space=BOUNDED)
    figures_agree(explanation, grid_figures(grid))
    x = explanation.draws.pool.x
    assert x[:, 0].min() >= -0.8
    assert x[:, 0].max() <= 1.0
    assert x[:, 1].max() <= X0[1]


@pytest.mark.parametrize(
    "distance",
    [
        lambda x, row: np.linalg.norm(x - row, axis=1),
        lambda x, row: np.abs(x - row).sum(axis=1) ** 1.5,
        lambda x, row: 3.0 * np.log1p(np.square(x - row).sum(axis=1)),
        lambda x, row: 0.5 * np.einsum("ni,ij,nj->n", x - row, np.array([[2.0, 1.7], [1.7, 2.0]]), x - row),
    ],
    ids=["euclidean", "power", "heavy-tailed", "mahalanobis"],
)
def test_any_distance_is_a_prior(distance):
    side = np.sinh(midpoints(-7, 7, 1600))  # a grid that reaches far out

    def log_prior(x):
        stretch = np.log(np.hypot(1.0, x - X0)).sum(axis=1)  # cell size of the stretched grid
        return stretch - distance(x, X0)

    grid = curved_grid([side + c for c in X0], log_prior)
    explanation = explain(curved, X0, TARGET, prior=gbce.DistancePrior(distance))
    exact = grid_figures(grid)
    figures_agree(explanation, {name: exact[name] for name in ("mean", "log_evidence", "success_probability", "tail")})
    close(explanation.importance["change"], exact["importance"], explanation.importance["se"], "importance")


def test_distance_prior_with_a_given_proposal_is_the_same_law():
    squared = gbce.DistancePrior(lambda x, row: 0.5 * np.square(x - row).sum(axis=1), proposal=gbce.Gaussian(1.3))
    grid = curved_grid([midpoints(c - 6, c + 6) for c in X0], gaussian_log_prior(X0, np.eye(2)))
    explanation = explain(curved, X0, TARGET, prior=squared)
    figures_agree(explanation, grid_figures(grid))
    np.testing.assert_allclose(explanation.importance["prior"], np.sqrt(2 / np.pi), rtol=0.02)


def test_fitted_proposal_is_efficient():
    """A proposal fitted to a distance keeps most of its candidates, in ten dimensions and with correlation."""
    from gbce._numerics import effective_sample_size, normalise

    rng = np.random.default_rng(0)
    root = rng.normal(size=(10, 10))
    metric = root @ root.T + np.eye(10)
    for distance in (
        lambda x, row: 0.5 * np.einsum("ni,ij,nj->n", x - row, metric, x - row),
        lambda x, row: 4.0 * np.linalg.norm(x - row, axis=1),
        lambda x, row: np.abs(x - row).sum(axis=1),
    ):
        placed = gbce.DistancePrior(distance).at(gbce.Space.real(10), np.zeros(10)).place(rng.normal(size=(5000, 10)))
        assert effective_sample_size(normalise(-placed.log_correction)) > 0.2 * 5000


def test_tree_ensemble_by_its_cells():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 2))
    forest = ExtraTreesRegressor(20, max_depth=5, random_state=0).fit(x, curved(x))
    cells, mass = tree_cells(forest, X0, 1.0)
    f = forest.predict(cells)
    log_weights = np.log(mass) - (f - Y) ** 2
    weights = np.exp(log_weights - logsumexp(log_weights))
    explanation = explain(forest, X0, TARGET)
    figures_agree(
        explanation,
        {
            "log_evidence": logsumexp(log_weights),
            "success_probability": weights[np.abs(f - Y) <= 0.5].sum(),
            "expected_loss": weights @ (f - Y) ** 2,
        },
    )


def test_targets_of_every_kind_by_quadrature():
    axes = [midpoints(c - 6, c + 6) for c in X0]
    prior = gaussian_log_prior(X0, np.eye(2))

    def outside(low, high):
        return lambda x: np.maximum(np.maximum(low - curved(x), curved(x) - high), 0.0)

    def probability(x):
        return 0.01 + 0.98 / (1.0 + np.exp(2.0 - curved(x)))

    for target, model, loss, reached in (
        (gbce.AtLeast(2.0, scale=0.5), curved, lambda x: outside(2, np.inf)(x) ** 2 / 0.25, lambda x: curved(x) >= 2),
        (gbce.AtMost(-1.0, scale=0.5, loss="absolute"), curved, lambda x: outside(-9e9, -1)(x) / 0.5,
         lambda x: curved(x) <= -1),
        (gbce.Range(2.0, 3.0, scale=0.5), curved, lambda x: outside(2, 3)(x) ** 2 / 0.25,
         lambda x: (curved(x) >= 2) & (curved(x) <= 3)),
        (gbce.Value(2.0, scale=0.5, tolerance=0.3, loss="absolute"), curved, lambda x: np.abs(curved(x) - 2) / 0.5,
         lambda x: np.abs(curved(x) - 2) <= 0.3),
        (gbce.Class(1), probability, lambda x: -np.log(probability(x)), lambda x: probability(x) > 0.5),
        (gbce.Class(0, probability=0.9), probability, lambda x: -np.log(1 - probability(x)),
         lambda x: 1 - probability(x) >= 0.9),
        (gbce.Loss(lambda f: np.abs(f - 1.0) ** 1.5, threshold=0.2), curved, lambda x: np.abs(curved(x) - 1.0) ** 1.5,
         lambda x: np.abs(curved(x) - 1.0) ** 1.5 <= 0.2),
    ):  # fmt: skip
        grid = Grid.of(axes, prior, loss)
        exact = {
            "log_evidence": grid.log_evidence,
            "success_probability": grid.mean(reached(grid.x).astype(float)),
            "expected_loss": grid.mean(loss(grid.x)),
        }
        figures_agree(explain(model, X0, target), exact)
