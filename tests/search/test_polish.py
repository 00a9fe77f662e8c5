"""The polished mode: exact where it is known, never worse than direct optimisation, for a fraction of its rows."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.datasets import load_diabetes
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.tree import DecisionTreeRegressor

import gbce
from gbce._numerics import DECIDING, stream
from gbce.budget import Budget
from gbce.draws import Scene
from gbce.search import _polish
from gbce.search._descents import Search, coordinates, newton
from support.boxes import Boxes
from support.exact import Linear, linear
from support.scenes import scene_of


class Question:
    """One row, one target: rules alone, with what they asked of the model."""

    def __init__(self, model, d, target, *, row=None, prior=None, eta=10.0, n=4_000, space=None, **options):
        data = np.random.default_rng(1).normal(size=(300, d))
        space = gbce.Space.real(d) if space is None else space
        sampler = gbce.Importance(n, 500)
        self.row = np.zeros(d) if row is None else np.asarray(row)
        self.explainer = gbce.Explainer(
            model, data, space=space, prior=prior or gbce.Gaussian(), eta=eta, sampler=sampler, **options
        )
        self.explanation = self.explainer.explain(self.row, target, rules=[], seed=0)
        self.pool = float(self.scene.objective(self.explanation.draws.pool).min())

    @property
    def scene(self):
        posterior = self.explainer._session.posterior_of(self.explanation, Budget())
        return Scene(self.explanation.query, self.explanation.draws, stream(0, DECIDING), posterior)

    def decide(self, rule=None, budget=None):
        """Point, objective, rows and calls of a rule."""
        scene = self.scene
        if budget is not None:
            scene = replace(scene, posterior=replace(scene.posterior, budget=budget))
        choice = (rule or gbce.MAP()).choose(scene)
        rows, calls = scene.posterior.n_rows, scene.posterior.n_calls
        said = scene.posterior.evaluate(choice.x)
        return choice, float(scene.posterior.objective(choice.x, said.loss)[0]), rows, calls


def value(y, **options):
    return gbce.Value(y, scale=1, tolerance=0.1, **options)


def smooth(x):
    rest = sum(0.5 * np.cos(2 * x[:, j]) + 0.4 * x[:, j] * x[:, j - 1] for j in range(2, x.shape[1]))
    return 2 * np.sin(x[:, 0]) + 0.8 * x[:, 1] ** 2 - 1.2 * x[:, 0] * x[:, 1] + rest


def fitted(estimator, d):
    x = np.random.default_rng(2).normal(size=(600, d))
    return estimator.fit(x, smooth(x))


# --- exact modes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 10, 30])
def test_mode_of_a_linear_model_is_exact(d):
    case = linear(d, eta=10.0, seed=d)
    choice, objective, _, _ = Question(case.predict, d, value(case.y), row=case.x0).decide()
    exact = 10.0 * (case.predict(case.mean) - case.y) ** 2 + 0.5 * np.square(case.mean - case.x0).sum()
    np.testing.assert_allclose(choice.x[0], case.mean, atol=1e-3)
    assert objective == pytest.approx(exact, abs=1e-5)


def test_mode_under_a_correlated_prior_is_exact():
    d = 6
    cov = 0.8 ** np.abs(np.subtract.outer(np.arange(d), np.arange(d)))
    case = linear(d, eta=10.0, seed=3)
    case = Linear(case.w, case.b, case.y, case.x0, cov, 10.0)
    choice, _, _, _ = Question(case.predict, d, value(case.y), row=case.x0, prior=gbce.Gaussian(cov=cov)).decide()
    np.testing.assert_allclose(choice.x[0], case.mean, atol=2e-3)


def test_laplace_prior_changes_one_feature_and_leaves_the_others_exactly():
    w = np.array([0.5, -2.0, 1.0, 1.5, 0.2])
    row = np.array([0.3, -1.2, 0.8, 2.0, -0.1])
    question = Question(lambda x: (x - row) @ w, 5, value(3.0), row=row, prior=gbce.Laplace(0.5))
    x = question.decide()[0].x[0]
    # 10 (2 v - 3)**2 + v / 0.5 is least where 40 (2 v - 3) + 2 = 0
    assert row[1] - x[1] == pytest.approx((3.0 - 2.0 / 40.0) / 2.0, abs=1e-3)
    np.testing.assert_array_equal(np.delete(x, 1), np.delete(row, 1))


def test_in_a_cell_the_mode_is_the_point_nearest_to_the_row():
    def steps(x):
        return 1.0 * (x[:, 0] > 0.7) + 1.0 * (x[:, 1] < -0.4)

    for prior in (gbce.Gaussian(), gbce.Laplace()):
        x = Question(steps, 3, gbce.AtLeast(2.0, scale=0.1), prior=prior).decide()[0].x
        assert steps(x)[0] == 2.0
        np.testing.assert_allclose(x[0], [0.7, -0.4, 0.0], atol=2e-3)


def test_of_a_tree_that_is_asked_the_mode_lies_in_the_best_leaf():
    """Three changes gain only together: before points of one leaf met, the objective was 15% above the least."""
    x, y = load_diabetes(return_X_y=True, scaled=False)
    tree = DecisionTreeRegressor(max_depth=7, min_samples_leaf=5, random_state=727).fit(x, y)
    boxes, scale, row = Boxes.of(tree, 10), x.std(axis=0), x[330]
    wanted, unit, sigma, eta = float(np.quantile(tree.predict(x), 0.93)), 6.6, 0.2, 0.6

    def objective(points, outputs):
        missing = np.maximum(wanted - outputs, 0.0) / unit
        return eta * np.square(missing) + 0.5 * np.square((points - row) / (sigma * scale)).sum(axis=1)

    space = gbce.Space.real([f"x{j}" for j in range(10)], scale=scale.tolist())
    explainer = gbce.Explainer(tree.predict, x, space=space, prior=gbce.Gaussian(sigma), eta=eta)
    found = explainer.explain(row, gbce.AtLeast(wanted, scale=unit), rules=[gbce.MAP()], seed=0).decisions[0].x[None]
    least = objective(np.clip(row, boxes.low, boxes.high), boxes.value).min()
    assert least * (1.0 - 1e-6) <= objective(found, tree.predict(found))[0] <= 1.01 * least


def test_bounds_directions_and_immutable_features_hold():
    features = (
        gbce.Feature("a", scale=0.5, high=0.6),
        gbce.Feature("b", scale=20.0, direction="increase"),
        gbce.Feature("c", mutable=False),
        gbce.Feature("d", direction="decrease", low=-1.0),
        gbce.Feature("e", low=-1e-6, high=1e-6),
    )

    def model(x):
        return x[:, 0] - 0.1 * x[:, 1] + 5.0 * x[:, 2] - 0.5 * x[:, 3] + 0.2 * x[:, 3] ** 2

    def objective(x):
        u = np.array([x[0], x[1], 0.0, x[2], 0.0])
        return 10.0 * (model(u[None, :])[0] - 2.0) ** 2 + 0.5 * (4 * x[0] ** 2 + (x[1] / 20.0) ** 2 + x[2] ** 2)

    limits = [(None, 0.6), (0.0, None), (-1.0, 0.0)]
    best = minimize(objective, np.zeros(3), bounds=limits, tol=1e-12)
    asked = []

    def meter(x):
        asked.append(x)
        return model(x)

    question = Question(meter, 5, value(2.0), space=gbce.Space(features))
    asked.clear()
    x = question.decide()[0].x[0]
    np.testing.assert_allclose(x[[0, 1, 3]], best.x, atol=2e-3)
    assert x[0] == 0.6
    assert x[1] == x[2] == 0.0
    everything = np.vstack(asked)
    assert (everything <= [0.6, np.inf, 0.0, 0.0, 1e-6]).all()
    assert (everything >= [-np.inf, 0.0, 0.0, -1.0, -1e-6]).all()


def test_any_distance_and_regions_that_it_excludes():
    def distance(x, row):
        return np.where(x[:, 1] > 1.5, np.inf, 3 * np.linalg.norm(x - row, axis=1))

    question = Question(lambda x: x[:, 0] + 2 * x[:, 1], 2, value(6.0), prior=gbce.DistancePrior(distance))

    def along(a):  # at the edge of what is allowed
        return 10.0 * (a + 3.0 - 6.0) ** 2 + 3 * np.hypot(a, 1.5)

    choice, objective, _, _ = question.decide()
    edge = minimize(lambda a: along(a[0]), [2.0], tol=1e-12)
    assert choice.x[0, 1] <= 1.5
    assert objective == pytest.approx(edge.fun, abs=0.02)  # the edge itself is approached, not met


@pytest.mark.parametrize("combine", ["any", "all", "average"])
def test_several_models_against_a_grid(combine):
    models = [smooth, lambda x: x[:, 0] - x[:, 1] + 1.0, lambda x: x[:, 1] ** 2 + x[:, 0]]
    question = Question(models, 2, value(2.5), row=[0.3, -0.2], combine=combine)
    _, objective, _, _ = question.decide()
    axis = np.linspace(-3, 3, 801)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    loss = np.column_stack([np.square(model(grid) - 2.5) for model in models])
    least = question.scene.mixture.objective(loss, 0.5 * np.square(grid - question.row).sum(axis=1)).min()
    assert objective <= least + 1e-3


def test_the_bottom_of_a_sharp_valley_is_found():
    models = [lambda x: x[:, 0], lambda x: x[:, 1]]
    choice = Question(models, 2, value(5.0), combine="all").decide()[0]
    # on the diagonal, where no single feature can move to advantage, 10 (a - 5)**2 + a**2 is least
    np.testing.assert_allclose(choice.x[0], 50 / 11, atol=0.02)
    curved = Question(smooth, 2, value(4.0, loss="absolute"), row=[0.3, -0.8], prior=gbce.Laplace(), eta=60.0)
    # along the curve on which the target is met exactly
    a = np.linspace(-3, 3, 60_001)
    root = np.sqrt(1.44 * a**2 - 3.2 * (2 * np.sin(a) - 4.0))
    least = min((np.abs(a - 0.3) + np.abs((1.2 * a + sign * root) / 1.6 + 0.8)).min() for sign in (-1, 1))
    # it is a search: of eight seeds one ended 0.0023 above the bottom, the others within 0.002
    assert curved.decide()[1] == pytest.approx(least, abs=5e-3)


# --- each descent alone -----------------------------------------------------------------------------------------


def search_from(question, v):
    search = Search.of(question.scene, question.scene.posterior, 10_000)
    v = np.atleast_2d(v).astype(float)
    return search, v, search(v)


def test_coordinate_steps_find_the_corner_of_a_cell_in_all_features_at_once():
    edge = np.array([0.31, 0.72, -0.55, 1.03, -0.27, 0.0])

    def cell(x):  # the last feature has no say
        return ((x - edge)[:, :5] * np.sign(edge[:5]) > 0).sum(axis=1)

    question = Question(cell, 6, gbce.AtLeast(5.0, scale=0.1))
    search, v, f = search_from(question, [np.sign(edge) + 1.3 * edge + np.eye(6)[5], 2.0 * edge + 0.4 * np.eye(6)[5]])
    corner, least = coordinates(search, v, f)
    np.testing.assert_allclose(corner, [edge, edge], atol=3e-3)
    np.testing.assert_array_equal(corner[:, 5], 0.0)  # back at the row, not merely near
    np.testing.assert_array_equal(least, search(corner))


def test_newton_steps_are_few_under_a_correlated_prior():
    d = 8
    cov = 0.9 ** np.abs(np.subtract.outer(np.arange(d), np.arange(d)))
    case = linear(d, eta=100.0, seed=5)
    case = Linear(case.w, case.b, case.y, case.x0, cov, 100.0)
    question = Question(case.predict, d, value(case.y), row=case.x0, prior=gbce.Gaussian(cov=cov), eta=100.0)
    search, v, f = search_from(question, np.ones(d))
    mode, least = newton(search, v, f)
    np.testing.assert_allclose(mode[0] + case.x0, case.mean, atol=3e-2)  # it is flat along the others
    assert least[0] == pytest.approx(search((case.mean - case.x0)[None, :])[0], abs=1e-4)
    assert 10_000 - search.rows_left <= 8 * (d + 7)


def test_newton_steps_stop_in_the_kinks_of_a_cost():
    question = Question(lambda x: x @ [0.5, -2.0, 1.0], 3, value(3.0), prior=gbce.Laplace(0.5))
    search, v, f = search_from(question, [0.4, 0.3, -0.2])
    mode, _ = newton(search, v, f)
    np.testing.assert_array_equal(mode[0, [0, 2]], 0.0)
    assert mode[0, 1] * 0.5 == pytest.approx(-(3.0 - 2.0 / 40.0) / 2.0, abs=1e-3)


# --- against direct optimisation --------------------------------------------------------------------------------

FOREST = RandomForestRegressor(20, min_samples_leaf=2, random_state=0, n_jobs=1)
TREES = ExtraTreesRegressor(20, random_state=0, n_jobs=1)
NETWORK = MLPRegressor(hidden_layer_sizes=(16, 16), solver="lbfgs", max_iter=100, max_fun=10**6, random_state=0)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("model", "d", "target", "prior", "eta"),
    [
        (smooth, 2, value(4.0), gbce.Gaussian(), 100.0),
        (smooth, 2, value(4.0, loss="absolute"), gbce.Gaussian(), 20.0),
        (smooth, 10, value(6.0), gbce.Gaussian(0.5), 100.0),
        (smooth, 10, gbce.AtLeast(9.0, scale=0.1), gbce.Laplace(), 1.0),
        (NETWORK, 10, value(4.0), gbce.Gaussian(), 50.0),
        (FOREST, 2, value(4.0), gbce.Gaussian(), 20.0),
        (FOREST, 10, gbce.AtLeast(6.0, scale=0.2), gbce.Gaussian(), 1.0),
        (TREES, 10, value(3.0), gbce.Laplace(0.5), 20.0),
    ],
    ids=["curved", "sharp", "curved-10", "hinge-10", "network-10", "forest", "forest-10", "trees-10"],
)
def test_as_good_as_direct_optimisation_for_a_fraction_of_its_rows(model, d, target, prior, eta):
    ready = model if callable(model) else fitted(model, d)
    row = 0.5 * np.random.default_rng(3).normal(size=d)
    question = Question(ready, d, target, row=row, prior=prior, eta=eta)
    _, polished, rows, calls = question.decide()
    _, direct, direct_rows, _ = question.decide(gbce.DirectOpt(max_iterations=600))
    slack = 0.05 if model is NETWORK else 1e-3  # twenty starts meet a slightly better mode of a network now and then
    assert polished <= direct + slack * max(1.0, direct)
    assert polished < question.pool
    assert rows <= (0.3 if d == 10 else 1.0) * direct_rows
    assert calls < rows / 5  # all starts in one call


@pytest.mark.parametrize("model", [FOREST, TREES])
def test_no_single_feature_can_go_back_to_advantage(model):
    question = Question(fitted(model, 10), 10, value(6.0), prior=gbce.Laplace(), eta=20.0)
    choice, objective, _, _ = question.decide()
    back = [np.where(np.eye(10, dtype=bool), share * choice.x, choice.x) for share in (0.0, 0.5, 0.9)]
    x = np.vstack(back)
    posterior = question.scene.posterior
    assert posterior.objective(x, posterior.evaluate(x).loss).min() >= objective - 1e-9


# --- the contract -----------------------------------------------------------------------------------------------


def test_the_choice_comes_with_what_the_model_said_and_is_the_same_every_time():
    question = Question(smooth, 4, value(4.0))
    choice, objective, _, _ = question.decide()
    np.testing.assert_array_equal(choice.known.x, choice.x)
    np.testing.assert_allclose(choice.known.outputs[:, 0], smooth(choice.x))
    assert question.scene.objective(choice.known)[0] == objective
    np.testing.assert_array_equal(question.decide()[0].x, choice.x)
    explanation = question.explainer.explain(question.row, value(4.0), rules=[gbce.MAP()], seed=0)
    np.testing.assert_array_equal(explanation.decisions[0].x, choice.x[0])
    assert explanation.pointwise["objective"]["MAP"] == pytest.approx(objective)


def test_a_row_that_cannot_be_beaten_asks_nothing():
    choice, objective, rows, _ = Question(smooth, 3, gbce.AtMost(5.0, scale=1)).decide()
    np.testing.assert_array_equal(choice.x[0], np.zeros(3))
    assert (objective, rows) == (0.0, 0)
    assert choice.note == "The most probable point is the row itself: no change is worth its cost."


def test_the_row_wins_where_the_first_bit_of_change_costs_more_than_it_brings():
    question = Question(lambda x: x.sum(axis=1), 3, value(1.0), prior=gbce.Laplace(0.1), eta=1.0)
    choice, objective, rows, _ = question.decide()  # the potential falls by 2 per unit, the cost rises by 10
    np.testing.assert_array_equal(choice.x[0], np.zeros(3))
    assert objective == 1.0
    assert rows > 0
    assert "no change is worth its cost" in choice.note


def test_without_a_model_or_without_polish_the_best_evaluated_point_is_taken():
    question = Question(smooth, 4, value(4.0))
    pool = question.explanation.draws.pool
    best = pool.x[np.argmin(question.scene.objective(pool))]
    choice, objective, rows, _ = question.decide(gbce.MAP(polish=False))
    assert (objective, rows) == (pytest.approx(question.pool), 0)
    np.testing.assert_array_equal(choice.x[0], best)
    np.testing.assert_array_equal(question.explanation.decide(gbce.MAP()).iloc[0], best)
    asked = replace(question.explanation.query, rules=(gbce.MAP(),))
    again = replace(question.explanation, query=asked).at(eta=2.0)
    weighed = again.mixture.objective(pool.loss, pool.cost)
    np.testing.assert_array_equal(again.decisions[0].x, pool.x[np.argmin(weighed)])


def test_polish_is_for_the_objective_only():
    question = Question(smooth, 2, value(4.0))
    for method in ("kde", "knn"):
        assert question.decide(gbce.MAP(method=method))[2] == 0
    with pytest.raises(ValueError, match="polish must be True or False, not 'no'"):
        gbce.MAP(polish="no")


def test_no_more_rows_than_the_limit(monkeypatch):
    monkeypatch.setattr(_polish, "_MOST_ROWS", 0)
    monkeypatch.setattr(_polish, "_MOST_ROWS_PER_FEATURE", 50)
    question = Question(fitted(FOREST, 10), 10, value(3.0))
    _, objective, rows, _ = question.decide()
    assert 100 < rows <= 500
    assert objective < question.pool


@pytest.mark.parametrize("max_rows", [0, 100, 1_000])
def test_a_spent_budget_ends_with_the_best_point_so_far(max_rows):
    asked = []

    def model(x):
        asked.append(x)
        return smooth(x)

    question = Question(model, 4, value(4.0), row=[0.5, 0.0, 0.1, 0.2])
    asked.clear()
    scene = question.scene
    budget = Budget(max_rows)
    choice = gbce.MAP().choose(replace(scene, posterior=replace(scene.posterior, budget=budget)))
    x = np.vstack([question.explanation.draws.pool.x, *asked])
    objective = 10.0 * np.square(smooth(x) - 4.0) + 0.5 * np.square(x - question.row).sum(axis=1)
    assert budget.rows == len(x) - 4_000 <= max_rows
    np.testing.assert_array_equal(choice.x[0], x[objective.argmin()])


def test_a_pool_of_copies_will_do():
    question = Question(smooth, 3, value(4.0))
    scene = question.scene
    few = scene.draws.pool.take(np.repeat([5, 17], 50))
    draws = replace(
        scene.draws, pool=few, pool_weights=np.full(100, 0.01), index=np.arange(100), log_base_weights=np.zeros(100)
    )
    choice = gbce.MAP().choose(replace(scene, draws=draws))
    assert scene.objective(choice.known)[0] < scene.objective(few).min()


def test_a_point_of_the_pool_that_cannot_be_beaten_is_kept():
    x = np.vstack([[0.7, 0.0], np.random.default_rng(0).normal(size=(50, 2))])
    scene = scene_of(x, model=lambda x: np.where(x[:, 0] >= 0.7, 0.0, 3.0))
    for budget in (Budget(), Budget(250)):  # the second ends when only worse points have been seen
        choice = gbce.MAP().choose(replace(scene, posterior=replace(scene.posterior, budget=budget)))
        np.testing.assert_array_equal(choice.x, [[0.7, 0.0]])
    assert scene.posterior.n_rows > 52 + 250  # it was tried


def test_infinite_losses_are_neither_start_nor_end():
    def loss(f):
        return np.where(f > 1.0, np.square(f - 1.5), np.inf)

    choice, objective, _, _ = Question(lambda x: x[:, 0] + x[:, 1], 2, gbce.Loss(loss, threshold=0.1)).decide()
    # 10 (2 a - 1.5)**2 + a**2 is least where 40 (2 a - 1.5) + 2 a = 0
    np.testing.assert_allclose(choice.x[0], 60 / 82, atol=1e-3)
    assert np.isfinite(objective)


def test_integers_and_real_columns_move_together_along_the_edge_of_the_target():
    """A plane beside which all integers are enumerated, with the best real columns for each in closed form."""
    d, n, eta, scale, wanted = 10, 4, 10.0, 0.08, 1.5
    units = np.array([0.25] * n + [1.0] * (d - n))
    integers = [gbce.Feature(f"n{j}", "integer", low=-20, high=20, scale=4.0) for j in range(n)]
    space = gbce.Space([*integers, *(gbce.Feature(f"r{j}", scale=1.0) for j in range(d - n))])
    whole = np.array(list(itertools.product(range(-6, 7), repeat=n)), dtype=float) / 4.0
    for seed in (2, 3, 4):
        rng = np.random.default_rng(seed)
        slope = rng.uniform(0.3, 1.0, size=d) * rng.choice([-1, 1], size=d)
        data = np.column_stack([np.round(4 * rng.normal(size=(300, n))), rng.normal(size=(300, d - n))])
        explainer = gbce.Explainer(
            lambda x, slope=slope: (x * units) @ slope,
            data, space=space, prior=gbce.Gaussian(0.5), eta=eta, sampler=gbce.Importance(2_000, 300),
        )  # fmt: skip
        explanation = explainer.explain(np.zeros(d), gbce.AtLeast(wanted, scale=scale), rules=[gbce.MAP()], seed=0)
        point = explanation.decisions[0].x * units
        found = eta * max(wanted - point @ slope, 0.0) ** 2 / scale**2 + 2.0 * point @ point
        steep, weight, left = np.linalg.norm(slope[n:]), eta / scale**2, wanted - whole @ slope[:n]
        length = np.maximum(weight * steep * left / (weight * steep**2 + 2.0), 0.0)  # of the real columns' step
        missed = np.maximum(left - length * steep, 0.0)
        best = (weight * missed**2 + 2.0 * length**2 + 2.0 * np.square(whole).sum(axis=1)).min()
        assert found == pytest.approx(best, abs=2e-3 * max(1.0, best))
