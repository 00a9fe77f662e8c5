"""Proofs against brute force: one is there if and only if no row reaches the target."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import Lasso, LinearRegression, LogisticRegression, PoissonRegressor, Ridge, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import gbce
from gbce.predictors import as_predictor
from gbce.trees import find_safe_ranges, prove_unattainable, read_cells, read_structure

lightgbm = pytest.importorskip("lightgbm")
xgboost = pytest.importorskip("xgboost")

SMALL = {"n_estimators": 3, "max_depth": 3, "random_state": 0}
REGRESSORS = {
    "tree": lambda: DecisionTreeRegressor(max_depth=4, random_state=0),
    "forest": lambda: RandomForestRegressor(**SMALL),
    "extra trees": lambda: ExtraTreesRegressor(**SMALL),
    "gradient boosting": lambda: GradientBoostingRegressor(learning_rate=0.5, **SMALL),
    "histograms": lambda: HistGradientBoostingRegressor(max_iter=3, max_depth=3, min_samples_leaf=5, learning_rate=0.5),
    "counts by histograms": lambda: HistGradientBoostingRegressor("poisson", max_iter=3, max_depth=3),
    "lightgbm": lambda: lightgbm.LGBMRegressor(min_child_samples=5, learning_rate=0.5, verbose=-1, n_jobs=1, **SMALL),
    "xgboost": lambda: xgboost.XGBRegressor(learning_rate=0.5, n_jobs=1, **SMALL),
}
CLASSIFIERS = {
    "tree": lambda: DecisionTreeClassifier(max_depth=4, random_state=0),
    "forest": lambda: RandomForestClassifier(**SMALL),
    "extra trees": lambda: ExtraTreesClassifier(**SMALL),
    "gradient boosting": lambda: GradientBoostingClassifier(**SMALL),
    "histograms": lambda: HistGradientBoostingClassifier(max_iter=3, max_depth=3, min_samples_leaf=5),
    "lightgbm": lambda: lightgbm.LGBMClassifier(min_child_samples=5, verbose=-1, n_jobs=1, **SMALL),
    "xgboost": lambda: xgboost.XGBClassifier(n_jobs=1, **SMALL),
}
TAKES_GAPS = ("tree", "forest", "extra trees", "histograms", "counts by histograms", "lightgbm", "xgboost")
ENOUGH = 10**9  # leaves: branch and bound always ends on these


def table(rng, gaps):
    """Numbers, whole numbers and a category; with gaps in one column if the model takes them."""
    n = 120
    frame = pd.DataFrame(
        {
            "a": rng.normal(size=n).round(2),
            "b": rng.normal(size=n).round(2),
            "k": rng.integers(0, 6, n),
            "c": rng.choice(["x", "y", "z"], n),
        }
    )
    frame.loc[rng.uniform(size=n) < 0.2, "b"] = np.nan if gaps else 0.0
    y = frame["a"] + np.sin(3 * frame["b"].fillna(1.5)) + 0.5 * (frame["c"] == "y") * frame["k"] + rng.normal(0, 0.2, n)
    return frame, y


def random_space(rng, frame, gaps):
    """Bounds, directions, what is fixed and what may be missing, by chance."""
    names = ["a", "b", "k"]
    ways = {name: rng.choice(["any", "increase", "decrease", "fixed"], p=[0.5, 0.2, 0.2, 0.1]) for name in names}
    bounds = {name: (float(frame[name].min()), float(frame[name].max())) for name in names if rng.uniform() < 0.6}
    bounds["k"] = (0, 5)
    return gbce.Space.infer(
        frame,
        immutable=[*(name for name in names if ways[name] == "fixed"), *(["c"] if rng.uniform() < 0.3 else [])],
        increase=[name for name in names if ways[name] == "increase"],
        decrease=[name for name in names if ways[name] == "decrease"],
        bounds=bounds,
        missing={"b": str(rng.choice(["keep", "leave", "any"]))} if gaps else None,
    )


def some_of(edges):
    """Some of the edges themselves: a value that equals a threshold."""
    return edges[1:-1:3]


def cells(space, x0, thresholds):
    """Every combination of cells that a row can be in, one row each: by hand, from the rules of the space."""
    low, high = space.limits(x0)
    lists = []
    for j, feature in enumerate(space.features):
        if np.isnan(low[j]):
            values = []
        elif feature.discrete:
            values = list(np.arange(low[j], high[j] + 1))
        else:
            cuts = np.unique(thresholds[feature.name]) if len(thresholds[feature.name]) else np.zeros(1)
            start = cuts[0] - 1 if np.isinf(low[j]) else low[j]
            end = cuts[-1] + 1 if np.isinf(high[j]) else high[j]
            edges = np.unique([start, end, *cuts[(cuts > start) & (cuts < end)]])
            values = [start, end, *(edges[1:] + edges[:-1]) / 2, *some_of(edges)]
        if np.isnan(x0[j]) or space.may_become_missing[j]:
            values = [*values, np.nan]
        lists.append(values)
    return np.array(list(product(*lists)))


def fit(make, frame, y):
    return make_pipeline(make_column_transformer((OneHotEncoder(), ["c"]), remainder="passthrough"), make()).fit(
        frame, y
    )


def thresholds_of(inside):
    """Thresholds by the feature's name: the category spelled out comes first, as the pipeline has it."""
    column, cut = inside.parts.column, inside.parts.threshold
    return {name: cut[(column == 3 + i) & np.isfinite(cut)] for i, name in enumerate("abk")}


def ask(model, space, x):
    return as_predictor(model, space)(x).values


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", REGRESSORS)
def test_a_number_is_proved_out_of_reach_if_and_only_if_no_cell_reaches_it(name, seed):
    rng = np.random.default_rng(1_000 * list(REGRESSORS).index(name) + seed)
    gaps = name in TAKES_GAPS
    frame, y = table(rng, gaps)
    model = fit(REGRESSORS[name], frame, np.exp(y / 2) if name == "counts by histograms" else y)
    space = random_space(rng, frame, gaps)
    x0 = space.encode_row(frame.iloc[int(rng.integers(len(frame)))])
    inside = read_structure(model, space)
    everywhere = cells(space, x0, thresholds_of(inside))
    outputs = ask(model, space, everywhere)
    np.testing.assert_allclose(inside.outputs(everywhere), outputs, rtol=2e-6, atol=2e-6)
    apart = 1e-4 if name == "xgboost" else 1e-7
    here, now = x0[None, :], ask(model, space, x0[None, :])
    top, bottom = outputs.max(), outputs.min()
    inner = np.unique(outputs)
    gap = int(np.argmax(np.diff(inner))) if len(inner) > 1 else None
    wishes = [
        (gbce.AtLeast(top + apart), True),
        (gbce.AtLeast(top - apart), False),
        (gbce.AtMost(bottom - apart), True),
        (gbce.AtMost(bottom + apart), False),
    ]
    if gap is not None and inner[gap + 1] - inner[gap] > 10 * apart:
        wishes.append((gbce.Range(inner[gap] + 2 * apart, inner[gap + 1] - 2 * apart), True))
        wishes.append((gbce.Range(inner[gap] + 2 * apart, inner[gap + 1] + apart), False))
    for wish, unattainable in wishes:
        wish = wish.resolve(1.0)
        proof = prove_unattainable(inside, space, x0, wish, here, now, most_work=ENOUGH)
        assert (proof is not None) == unattainable, (wish, top, bottom)
        if proof is not None and proof.bound is not None:
            beyond = outputs - proof.bound if now[0] < wish.accepted()[0] else proof.bound - outputs
            assert beyond.max() <= 0


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_class_is_never_falsely_proved_out_of_reach(name, classes, seed):
    """Where the decision is asked for, the proof is there if and only if no cell is decided so."""
    rng = np.random.default_rng(100 * list(CLASSIFIERS).index(name) + 10 * classes + seed)
    gaps = name in TAKES_GAPS
    frame, y = table(rng, gaps)
    label = np.digitize(y, [0.8] if classes == 2 else [0.0, 1.6])
    model = fit(CLASSIFIERS[name], frame, label)
    space = random_space(rng, frame, gaps)
    x0 = space.encode_row(frame.iloc[int(rng.integers(len(frame)))])
    inside = read_structure(model, space)
    everywhere = cells(space, x0, thresholds_of(inside))
    said = as_predictor(model, space)(everywhere, use_predict=True)
    np.testing.assert_allclose(inside.outputs(everywhere), said.values, atol=1e-6)
    now = ask(model, space, x0[None, :])
    for wanted in range(classes):
        p = said.values[:, wanted]
        wishes = [
            gbce.Class(wanted),
            gbce.Class(wanted, probability=min(float(p.max()) + 1e-4, 1.0)),
            gbce.Class(wanted, probability=max(float(p.max()) - 1e-4, 1e-4)),
        ]
        for wish in wishes:
            attainable = wish.read(said).reached.any()
            proof = prove_unattainable(inside, space, x0, wish, x0[None, :], now[:, wanted], most_work=ENOUGH)
            if attainable:
                assert proof is None, wish
            ties = np.isclose(np.sort(said.values, axis=1)[:, -1], np.sort(said.values, axis=1)[:, -2], atol=1e-6).any()
            exact = (classes == 2 or wish.probability == 0.5) and not ties and wish.probability < 1
            if not attainable and exact:
                assert proof is not None, wish
            if proof is not None and proof.bound is not None:
                assert p.max() <= proof.bound


def linear_case(seed, scaler=None):
    rng = np.random.default_rng(seed)
    frame, y = table(rng, gaps=False)
    steps = (OneHotEncoder(), ["c"]), (scaler or "passthrough", ["a", "b", "k"])
    return frame, y, make_column_transformer(*steps)


@pytest.mark.parametrize("scaler", [None, StandardScaler(), MinMaxScaler()])
@pytest.mark.parametrize("make", [LinearRegression, Ridge, Lasso, PoissonRegressor])
@pytest.mark.parametrize("seed", range(2))
def test_the_largest_output_of_a_linear_model_is_at_a_corner(make, scaler, seed):
    frame, y, prepare = linear_case(seed, scaler)
    model = make_pipeline(prepare, make(alpha=0.01) if make is not LinearRegression else make())
    model.fit(frame, np.exp(y / 3) if make is PoissonRegressor else y)
    space = gbce.Space.infer(frame, bounds="data", increase=["a"], immutable=["k"] if seed % 2 else [])
    x0 = space.encode_row(frame.iloc[seed])
    low, high = space.limits(x0)
    ends = [[low[0], high[0]], [low[1], high[1]], [low[2], high[2]], range(3)]
    outputs = ask(model, space, np.array(list(product(*ends))))
    inside, now = read_structure(model, space), ask(model, space, x0[None, :])
    for wish, unattainable in [
        (gbce.AtLeast(outputs.max() * (1 + 1e-9) + 1e-9), True),
        (gbce.AtLeast(outputs.max() - 1e-9), False),
        (gbce.AtMost(outputs.min() - 1e-9 * abs(outputs.min()) - 1e-9), True),
        (gbce.AtMost(outputs.min() + 1e-9), False),
    ]:
        proof = prove_unattainable(inside, space, x0, wish.resolve(1.0), x0[None, :], now)
        assert (proof is not None) == unattainable
        if proof is not None:
            assert proof.kind == "linear"
            assert proof.boxes == 1
            assert abs(proof.bound - (outputs.max() if isinstance(wish, gbce.AtLeast) else outputs.min())) < 1e-9


@pytest.mark.parametrize("make", [LogisticRegression, LinearSVC, RidgeClassifier])
def test_a_linear_classifier_that_cannot_be_turned(make):
    frame, y, prepare = linear_case(3)
    model = make_pipeline(prepare, make()).fit(frame, y > 0.5)
    space = gbce.Space.infer(frame, bounds="data", immutable=["a", "b", "c"])
    outputs = ask(model, space, space.encode(frame))[:, 1]
    row = int(np.argmin(outputs))
    x0 = space.encode_row(frame.iloc[row])
    corners = np.tile(x0, (6, 1))
    corners[:, 2] = range(6)
    best = ask(model, space, corners)[:, 1].max()
    inside, now = read_structure(model, space), outputs[[row]]
    assert best < 0.5
    proof = prove_unattainable(inside, space, x0, gbce.Class(True), x0[None, :], now)
    assert proof.bound == pytest.approx(best, abs=1e-9)
    assert "no row can get a probability of True above" in proof.sentence
    assert prove_unattainable(inside, space, x0, gbce.Class(True, probability=best - 1e-6), x0[None, :], now) is None
    assert prove_unattainable(inside, space, x0, gbce.Class(True, probability=best + 1e-6), x0[None, :], now)


def test_a_column_without_bounds_leaves_a_linear_model_without_a_proof():
    frame = pd.DataFrame({"a": [0.0, 1.0, 2.0], "b": [1.0, 0.0, 3.0]})
    model = LinearRegression().fit(frame, frame["a"] + frame["b"])
    x0, now = np.array([0.0, 1.0]), np.array([1.0])
    for space, provable in [
        (gbce.Space.infer(frame, bounds="none"), False),
        (gbce.Space.infer(frame, bounds={"a": (None, 2), "b": (None, 3)}), True),
        (gbce.Space.infer(frame, bounds={"a": (0, None), "b": (0, None)}), False),
        (gbce.Space.infer(frame, decrease=["a"], immutable=["b"]), True),
    ]:
        proof = prove_unattainable(
            read_structure(model, space), space, x0, gbce.AtLeast(9, scale=1, tolerance=0), x0[None, :], now
        )
        assert (proof is not None) == provable


@pytest.mark.parametrize(("low", "provable"), [(-1.0, True), (-1e15, False)])
def test_rounding_of_scores_that_differ_by_a_constant_counts_the_far_end(low, provable):
    """The difference of two scores with equal coefficients is rounded as they are, however far the row goes."""
    frame = pd.DataFrame({"a": np.linspace(-1.0, 0.0, 30)})
    model = LogisticRegression().fit(frame, np.arange(30) % 3)
    model.coef_, model.intercept_ = np.full((3, 1), 0.3), np.array([0.0, 1e-3, -5.0])
    space = gbce.Space.infer(frame, bounds={"a": (low, 0)})
    x0 = np.zeros(1)
    inside, now = read_structure(model, space), ask(model, space, x0[None, :])[:, 0]
    proof = prove_unattainable(inside, space, x0, gbce.Class(0), x0[None, :], now)
    assert (proof is not None) == provable


def test_no_probability_rounds_beyond_the_bound_of_a_proof():
    frame = pd.DataFrame({"a": np.linspace(0.0, 1.0, 30)})
    space, x0 = gbce.Space.infer(frame, bounds="data"), np.zeros(1)
    model = LinearDiscriminantAnalysis().fit(frame, np.arange(30) % 2)
    for slope in np.linspace(1.0, 14.0, 60):  # one probability is one less the other
        model.coef_, model.intercept_ = np.array([[-slope]]), np.array([-0.123])
        best = ask(model, space, np.ones((1, 1)))[0, 0]
        wish = gbce.Class(0, probability=0.5 * (best + 1.0))
        now = ask(model, space, x0[None, :])[:, 0]
        assert prove_unattainable(read_structure(model, space), space, x0, wish, x0[None, :], now).bound >= best


def test_a_computed_column_is_not_held_where_it_is():
    """Limits say that it cannot move by itself, but it follows from those that do."""
    frame = pd.DataFrame({"a": np.arange(30.0), "b": np.arange(30.0) % 7})
    frame["sum"] = frame["a"] + frame["b"]
    model = DecisionTreeRegressor(max_depth=3).fit(frame, frame["sum"])
    space = gbce.Space.infer(frame, computed={"sum": "a + b"}, bounds={"a": (0, 29), "b": (0, 6)})
    x0 = space.encode_row(frame.iloc[0])
    top = model.predict(frame).max()
    inside, now = read_structure(model, space), model.predict(frame.iloc[[0]])
    for y, provable in ((top - 0.01, False), (top + 0.01, True)):
        wish = gbce.AtLeast(y, scale=1, tolerance=0)
        assert (prove_unattainable(inside, space, x0, wish, x0[None, :], now) is not None) == provable


def forest_case(seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(200, 3))
    model = RandomForestRegressor(10, max_depth=4, random_state=0).fit(x, x.sum(axis=1))
    space = gbce.Space.infer(x, bounds="data")
    return model, space, x


def test_what_contradicts_the_reading_is_no_proof():
    model, space, x = forest_case()
    inside, x0, now = read_structure(model, space), x[0], model.predict(x[:1])
    wish = gbce.AtLeast(50, scale=1, tolerance=0)
    assert prove_unattainable(inside, space, x0, wish, x[:1], now)
    assert prove_unattainable(inside, space, x0, wish, x[:1], now + 1e-3) is None  # the model says something else
    outside = np.array([[99.0, 0.0, 0.0]])  # a row that cannot be, by what was read of the bounds
    both = np.vstack([x[:1], outside])
    assert prove_unattainable(inside, space, x0, wish, both, model.predict(both)) is None


def test_a_limit_on_boxes_leaves_it_undecided():
    for seed in range(20):  # the first forest whose best leaves lie so far apart that one batch of boxes does not do
        model, space, x = forest_case(seed)
        inside, x0, now = read_structure(model, space), x[0], model.predict(x[:1])
        wish = gbce.AtLeast(make_top(model, space, x0) + 1e-6, scale=1, tolerance=0)
        full = prove_unattainable(inside, space, x0, wish, x[:1], now)
        limited = prove_unattainable(inside, space, x0, wish, x[:1], now, most_work=0)
        if limited is None:
            break
    assert full.boxes > 1
    assert limited is None


def test_a_margin_is_kept_for_rounding():
    """The largest output itself, and what lies within rounding of it, are never proved out of reach."""
    model, space, x = forest_case()
    inside, x0, now = read_structure(model, space), x[0], model.predict(x[:1])
    trees = make_top(model, space, x0)
    for steps in range(4):
        wish = gbce.AtLeast(float(trees + steps * np.spacing(trees)), scale=1, tolerance=0)
        assert prove_unattainable(inside, space, x0, wish, x[:1], now, most_work=ENOUGH) is None


@pytest.mark.parametrize("label", [0, 1])
def test_a_probability_in_single_precision_may_be_rounded_to_the_limit(label):
    """A score of 17 is a probability of one to such a model, though its sigmoid is not."""
    x = np.linspace(0.0, 1.0, 60)[:, None]
    options = {"max_depth": 1, "learning_rate": 1.0, "reg_lambda": 0.0, "min_child_weight": 0.0, "base_score": 0.5}
    model = xgboost.XGBClassifier(n_estimators=60, n_jobs=1, **options).fit(x, (x[:, 0] > 0.5).astype(int))
    space = gbce.Space.infer(x, bounds="data")
    p = model.predict_proba(x)[:, label].astype(float)
    far = np.flatnonzero((x[:, 0] > 0.5) != label)  # rows of the other class
    inside, trees = read_structure(model, space), read_cells(read_structure(model, space), space, x)
    for limit in np.unique(p[p > 0.5]):
        wish = gbce.Class(label, probability=float(limit))
        assert prove_unattainable(inside, space, x[far[0]], wish, x[far], p[far]) is None
        safe = find_safe_ranges(trees, space, x[far[0]], x[int(p.argmax())], wish, np.array([0]))
        if safe is not None:
            grid = np.linspace(safe.low[0], safe.high[0], 50)[:, None]
            assert (model.predict_proba(grid)[:, label] >= limit).all()
    proof = prove_unattainable(inside, space, x[far[0]], gbce.Class(label, probability=(0.0, 1e-9)), x[:0], p[:0])
    assert proof is None or proof.bound <= p.min()


@pytest.mark.parametrize(
    ("make", "wish"),
    [
        (lambda: HistGradientBoostingRegressor(loss="poisson", max_iter=3), gbce.AtMost(-1.0, scale=1.0)),
        (lambda: IsolationForest(n_estimators=5, random_state=0), gbce.AtLeast(2.0, scale=1.0)),
    ],
)
def test_what_no_score_attains_is_proved_out_of_reach(make, wish):
    x = np.random.default_rng(0).normal(size=(60, 2))
    model, space = make().fit(x, np.arange(60) % 3), gbce.Space.infer(x)
    now = model.predict(x[:1]).astype(float)
    proof = prove_unattainable(read_structure(model, space), space, x[0], wish.resolve(1.0), x[:1], now)
    assert proof.kind == "trees"
    assert "no row can get" in proof.sentence


def make_top(model, space, x0):
    """The largest output over all cells of a forest on three columns."""
    inside = read_structure(model, space)
    low, high = space.limits(x0)
    lists = []
    for j in range(3):
        cuts = inside.parts.threshold[inside.parts.column == j]
        edges = np.unique([low[j], high[j], *cuts[(cuts > low[j]) & (cuts < high[j])]])
        lists.append((edges[1:] + edges[:-1]) / 2)
    best = -np.inf
    for a in lists[0]:
        grid = np.array(list(product([a], lists[1], lists[2])))
        best = max(best, float(model.predict(grid).max()))
    return best


def test_targets_without_conditions_on_scores_have_no_proof():
    model, space, x = forest_case()
    inside, now = read_structure(model, space), model.predict(x[:1])
    for wish in (gbce.Loss(lambda f: f**2, threshold=0.0), gbce.Class(1)):
        assert prove_unattainable(inside, space, x[0], wish, x[:1], now) is None
