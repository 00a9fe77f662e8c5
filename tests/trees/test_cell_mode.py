"""The mode on cells: against every cell of small ensembles, with atoms, levels, whole numbers, bounds and gaps."""

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import gbce
from gbce._numerics import DECIDING, stream
from gbce.budget import Budget
from gbce.draws import Scene
from gbce.predictors import as_predictor
from gbce.trees import mode_on_cells
from gbce.trees._mode import ModeSearch, objective_on_cells, path_on_cells

OPTIMAL = 0.95  # share of small cases that must be solved exactly; the search is no proof
SMALL = {"n_estimators": 8, "num_leaves": 4, "min_child_samples": 5, "learning_rate": 0.5, "verbose": -1, "n_jobs": 1}
SETS = (
    ("number", "positive", "level"),
    ("number", "whole", "level"),
    ("number", "positive", "whole"),
    ("number", "positive", "whole", "level"),
)
PRIORS = (gbce.Gaussian(), gbce.Laplace(0.5), gbce.Gaussian(2.0))


def table(seed, n=70):
    """Two numbers, one of them above zero, whole numbers, and levels, some of them rare; and an outcome."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "number": rng.normal(size=n),
            "positive": rng.exponential(size=n),
            "whole": rng.integers(0, 7, size=n),
            "level": pd.Categorical.from_codes(rng.choice(4, size=n, p=[0.5, 0.3, 0.15, 0.05]), list("abcd")),
        }
    )
    effect = np.array([0.0, 1.0, -1.0, 2.0])[frame["level"].cat.codes]
    y = frame["number"] * frame["positive"] + np.sin(frame["whole"]) + effect + 0.3 * rng.normal(size=n)
    return frame, y.to_numpy()


def fitted(kind, seed, frame, y):
    """Fit few small trees: on categories as they are, or coded by a pipeline."""
    if kind == "boosting":
        return LGBMRegressor(**SMALL, random_state=seed).fit(frame, y)
    if kind == "class":
        return LGBMClassifier(**SMALL, random_state=seed).fit(frame, y > np.quantile(y, 0.7))
    if kind == "votes":
        return RandomForestClassifier(4, max_leaf_nodes=8, random_state=seed).fit(frame, y > np.quantile(y, 0.7))
    forest = RandomForestRegressor(5, max_leaf_nodes=6, random_state=seed)
    if "level" not in frame:
        return forest.fit(frame, y)
    encode = make_column_transformer((OneHotEncoder(), ["level"]), remainder="passthrough")
    return make_pipeline(encode, forest).fit(frame, y)


def question(seed, kind, columns):
    """A model of a small table, the table, the row that is farthest from what is wanted, and the target."""
    frame, y = table(seed)
    frame = frame[list(columns)]
    model = fitted(kind, seed, frame, y)
    row = frame.iloc[[int(np.asarray(model.predict(frame), dtype=float).argmin())]]
    if kind in ("class", "votes"):
        return model, frame, row, gbce.Class(True)
    wishes = (gbce.AtLeast(float(np.quantile(y, 0.9)), scale=0.5), gbce.Value(float(np.quantile(y, 0.8)), scale=0.3))
    return model, frame, row, wishes[seed % 2]


def scene_of(model, data, row, target, prior, *, eta=4.0, **options):
    sampler = gbce.Importance(300, 100)
    explainer = gbce.Explainer(model, data, prior=prior, eta=eta, sampler=sampler, policy=None, **options)
    explanation = explainer.explain(row, target, rules=[], seed=0)
    posterior = explainer._session.posterior_of(explanation, Budget())
    posterior.read_trees()  # which asks about some rows, once
    return Scene(explanation.query, explanation.draws, stream(0, DECIDING), posterior)


def every_cell(scene):
    """Ask the model about both ends of each cell, and every level: rows, objective, verdicts, numbers of changes."""
    posterior, space, x0 = scene.posterior, scene.space, scene.x0
    trees, (low, high) = posterior.read_trees(), space.limits(x0)
    options = [np.array([value]) for value in x0]
    for j in scene.free:
        if space.features[j].discrete:
            options[j] = np.arange(low[j], high[j] + 1)
        elif j in trees.used:
            near = np.concatenate([x0[[j]], trees.edges[j], np.nextafter(trees.edges[j], np.inf)])
            options[j] = np.unique(near[(near >= low[j]) & (near <= high[j])])
        if space.may_become_missing[j]:
            options[j] = np.append(options[j], np.nan)
    x = np.stack([one.ravel() for one in np.meshgrid(*options, indexing="ij")], axis=1)
    evaluated = posterior.evaluate(x)
    changes = space.changed(x, x0)[:, scene.free].sum(axis=1)
    return x, posterior.objective(x, evaluated.loss), evaluated.reached[:, 0], changes


def lowest(scene, points):
    return min((float(scene.objective(point)[0]) for point in points), default=np.inf)


@pytest.mark.parametrize("kind", ["forest", "boosting", "class"])
def test_the_best_of_all_cells_is_nearly_always_found_and_nothing_below_it(kind):
    exact = 0
    cases = range(21)
    for seed in cases:
        columns = SETS[(1, 2, 2)[seed % 3]] if kind == "forest" else SETS[3 if seed == 9 else seed % 3]
        scene = scene_of(*question(seed, kind, columns), PRIORS[seed // 2 % 3], eta=(1.0, 4.0, 20.0)[seed % 3])
        before = scene.posterior.n_rows
        found = mode_on_cells(scene, scene.posterior)
        assert found
        assert scene.posterior.n_rows - before == len(found) <= 3
        least = float(every_cell(scene)[1].min())
        own = lowest(scene, found)
        assert own >= least - 1e-9 * max(1.0, abs(least))
        exact += own <= least + 1e-6 * max(1.0, abs(least))
    assert exact >= OPTIMAL * len(cases)


@pytest.mark.parametrize("kind", ["forest", "boosting", "class"])
def test_single_moves_from_any_place_come_to_what_the_model_says_and_none_is_better(kind):
    rng = np.random.default_rng(3)
    scene = scene_of(*question(2, kind, SETS[1]), gbce.Sparse(change=0.3))
    objective = objective_on_cells(scene.posterior, scene.mixture)
    reachable, descent = objective.reachable, ModeSearch(objective)
    can = np.flatnonzero(np.isfinite(reachable.price))
    for _ in range(3):
        descent.slots = np.array([rng.choice(can[reachable.feature[can] == i]) for i in range(len(reachable.moving))])
        scan = descent.scan()
        assert np.isin(scan.to, can).all()
        slots = np.tile(descent.slots, (len(can), 1))
        slots[np.arange(len(can)), reachable.feature[can]] = can
        x = reachable.points(slots)
        evaluated = scene.posterior.evaluate(x)
        cost, potential = scene.posterior.prior.cost(x), scene.mixture.potential(evaluated.loss)
        kept = np.isin(can, scan.to)
        np.testing.assert_allclose(scan.cost, cost[kept], atol=1e-9)
        np.testing.assert_allclose(scan.potential, potential[kept], rtol=1e-6, atol=1e-9)
        assert scan.potential_here + scan.cost_here == pytest.approx((potential + cost)[can == descent.slots[0]][0])
        assert (scan.reached == evaluated.reached[kept, 0]).all()
        for i in range(len(reachable.moving)):
            least = (scan.potential + scan.cost)[reachable.feature[scan.to] == i].min()
            assert least == pytest.approx((potential + cost)[reachable.feature[can] == i].min(), rel=1e-6)


@pytest.mark.parametrize("kind", ["boosting", "class", "votes"])
def test_each_number_of_changes_has_its_best_cell_and_its_best_that_reaches(kind):
    exact = cases = 0
    for seed in range(6):
        scene = scene_of(
            *question(seed, kind, SETS[2] if kind == "votes" else SETS[seed % 3]), gbce.Sparse(change=0.3),
            eta=(2.0, 20.0)[seed % 2],
        )  # fmt: skip
        trees = scene.posterior.read_trees()
        x, objective, reached, changes = every_cell(scene)
        seen = trees.cells(x) != trees.cells(scene.x0[None, :])
        seen &= np.isin(np.arange(len(scene.x0)), trees.used)
        changes = np.where((seen == (x != scene.x0)).all(axis=1), changes, -1)  # of those that the model may see
        points = path_on_cells(scene, scene.posterior, 3)
        number = [int(scene.space.changed(point.x, scene.x0)[0, scene.free].sum()) for point in points]
        for k, among in itertools.product((1, 2, 3), (False, True)):
            own = (changes == k) & (reached | (not among))
            if not own.any():
                continue
            least = float(objective[own].min())
            mine = [p for n, p in zip(number, points, strict=True) if n == k and (p.reached[0, 0] or not among)]
            best = lowest(scene, mine)
            assert best >= least - 1e-9 * max(1.0, abs(least))
            exact, cases = exact + (best <= least + 1e-6 * max(1.0, abs(least))), cases + 1
    assert cases > 15
    assert exact >= 0.85 * cases  # of the best with just so many changes


def test_values_may_become_missing_where_the_table_has_gaps():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(200, 2)), columns=["gaps", "full"])
    frame.loc[rng.random(200) < 0.3, "gaps"] = np.nan
    y = np.where(frame["gaps"].isna(), 2.0, 0.3 * frame["gaps"]) + 0.2 * frame["full"]
    model = HistGradientBoostingRegressor(max_iter=5, max_leaf_nodes=5, random_state=0).fit(frame, y)
    space = gbce.Space.infer(frame, missing={"gaps": "any"})
    row = frame[frame["gaps"] < -1].iloc[[0]]
    scene = scene_of(model, frame, row, gbce.AtLeast(1.5, scale=0.2), gbce.Gaussian(), space=space)
    found = mode_on_cells(scene, scene.posterior)
    assert np.isnan(found[0].x[0, 0])
    assert lowest(scene, found) == pytest.approx(float(every_cell(scene)[1].min()))


@pytest.fixture(scope="module")
def diabetes():
    X, y = load_diabetes(return_X_y=True, scaled=False)
    X = X[:, [2, 3, 4, 7, 8, 9]]
    return X, RandomForestRegressor(20, min_samples_leaf=3, random_state=0).fit(X, y)


@pytest.mark.parametrize("prior", [gbce.Gaussian(), gbce.Laplace(0.5), gbce.Sparse(moves=2)], ids=repr)
def test_the_rule_asks_a_few_rows_and_ends_no_worse_than_any_draw_or_by_asking(diabetes, prior):
    X, model = diabetes
    for i in (1, 7):
        now = float(model.predict(X[[i]])[0])
        target = gbce.AtLeast(now + 50, scale=15) if now < 150 else gbce.AtMost(now - 50, scale=15)
        scene = scene_of(model, X, X[i], target, prior)
        asked = replace(scene, posterior=replace(scene.posterior, readers=()))
        before = scene.posterior.n_rows
        choice = gbce.MAP().choose(scene)
        rows = scene.posterior.n_rows - before
        other = gbce.MAP().choose(asked)
        assert rows <= 24  # the best of six numbers of changes, those that reach, and these again clear of rounding
        assert scene.posterior.n_rows - before - rows > 10 * rows
        points, others = choice.known, other.known
        if scene.query.sparse:
            changes = [int((one.x[0] != X[i]).sum()) for one in (points, others)]
            assert [not points.reached[0, 0], changes[0]] <= [not others.reached[0, 0], changes[1]]
        else:
            assert lowest(scene, [points]) <= scene.objective(scene.draws.known).min() + 1e-12
            assert lowest(scene, [points]) <= lowest(scene, [others]) + 1e-3


def test_a_model_that_says_something_else_than_was_read_is_asked(diabetes):
    X, model = diabetes
    scene = scene_of(model, X, X[1], gbce.AtLeast(200.0, scale=15), gbce.Gaussian())
    shifted = as_predictor(lambda rows: model.predict(rows) - 20.0, scene.space)  # farther from the target
    posterior = replace(scene.posterior, predictors=(shifted,))
    assert mode_on_cells(scene, posterior) is None
    before = posterior.n_rows
    gbce.MAP().choose(replace(scene, posterior=posterior))
    assert posterior.n_rows - before > 100


def test_what_ties_columns_or_models_together_is_left_to_asking(diabetes):
    X, model = diabetes
    target = gbce.AtLeast(200.0, scale=15)
    odd = [gbce.Gaussian(cov=np.corrcoef(X.T)), gbce.NearData(), gbce.Sparse(change=0.7)]
    for prior in odd:
        scene = scene_of(model, X, X[1], target, prior)
        assert objective_on_cells(scene.posterior, scene.mixture) is None
    two = scene_of([model, model], X, X[1], target, gbce.Gaussian())
    assert objective_on_cells(two.posterior, two.mixture) is None
    frame = pd.DataFrame(X[:, :2], columns=["a", "b"])
    small = RandomForestRegressor(3, max_depth=3, random_state=0).fit(frame, X[:, 2])
    for rules, tied in (((), False), (("a <= b",), True)):
        space = gbce.Space.infer(frame, constraints=rules)
        ruled = scene_of(small, frame, frame.iloc[1], gbce.AtLeast(200.0, scale=15), gbce.Gaussian(), space=space)
        assert (objective_on_cells(ruled.posterior, ruled.mixture) is None) == tied
