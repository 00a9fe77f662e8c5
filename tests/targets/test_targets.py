"""What is wanted: boundaries, changes from the row's own output, ranges of probabilities, several outputs."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.multioutput import MultiOutputRegressor

import gbce
from gbce._validation import short
from gbce.base import Outputs


@pytest.mark.parametrize(
    ("target", "outputs"),
    [
        (gbce.Value(3.0, scale=1, tolerance=0.5), Outputs(np.array([3.5, 3.500001]))),
        (gbce.Range(1.0, 2.0, scale=1, tolerance=0.25), Outputs(np.array([2.25, 2.250001]))),
        (gbce.AtMost(1.0, scale=1, tolerance=0.0), Outputs(np.array([1.0, 1.000001]))),
        (gbce.Loss(lambda f: f, threshold=0.2), Outputs(np.array([0.2, 0.200001]))),
        (
            gbce.Class("b", probability=0.75),
            Outputs(np.array([[0.25, 0.75], [0.26, 0.74]]), ("a", "b"), np.array([1, 1])),
        ),
    ],
    ids=["value", "range", "at most", "loss", "class"],
)
def test_the_boundary_counts_as_reached(target, outputs):
    assert target.read(outputs).reached.tolist() == [True, False]


def test_numbers_in_sentences_have_no_exponent_while_they_can_be_read():
    assert [short(v) for v in (300_000.0, 12_345.6, -1e6, 60.0, 0.1234567, 1e-7, 1e20)] == [
        "300,000", "12,346", "-1,000,000", "60", "0.1235", "1e-07", "1e+20",
    ]  # fmt: skip
    assert gbce.AtLeast(300_000).describe() == "at least 300,000"


# --- relative to the row ----------------------------------------------------------------------------------------

SAMPLER = gbce.Importance(n_candidates=20_000, n_draws=4_000)
DATA = np.random.default_rng(0).normal(size=(200, 2))
A = np.array([1.0, -0.5])


def now(value):
    return Outputs(np.array([value]))


def linear(x):
    return x @ A


def explainer(model=linear, **options):
    return gbce.Explainer(model, DATA, space=gbce.Space.real(2), sampler=SAMPLER, **options)


@pytest.mark.parametrize(
    ("change", "value", "plain", "words"),
    [
        (gbce.Change(-0.1, relative=True), 240.0, gbce.AtMost(216.0), "10% below the row's 240: at most 216"),
        (gbce.Change(0.5, relative=True), 240, gbce.AtLeast(360.0), "50% above the row's 240: at least 360"),
        (gbce.Change(5), 240.0, gbce.AtLeast(245.0), "5 above the row's 240: at least 245"),
        (gbce.Change(-5), 0.0, gbce.AtMost(-5.0), "5 below the row's 0: at most -5"),
        (gbce.Change(0.1, relative=True), -50.0, gbce.AtLeast(-45.0), "10% above the row's -50: at least -45"),
        (gbce.Change(-0.1, relative=True), -50.0, gbce.AtMost(-55.0), "10% below the row's -50: at most -55"),
        (gbce.Change(5, exact=True, tolerance=1), 1.0, gbce.Value(6.0, tolerance=1), "5 above the row's 1: 6 ± 1"),
        (gbce.Change(0, exact=True, tolerance=1), 7.0, gbce.Value(7.0, tolerance=1), "equal to the row's 7: 7 ± 1"),
    ],
)
def test_a_change_comes_down_to_a_plain_target(change, value, plain, words):
    settled = change.bind(now(value))
    assert settled.y == pytest.approx(plain.y)
    assert settled == type(plain)(settled.y, tolerance=plain.tolerance)
    assert settled.describe() == words


def test_a_change_keeps_scale_tolerance_and_loss():
    change = gbce.Change(2, scale=3, tolerance=0.5, loss="absolute")
    assert change.bind(now(1.0)) == gbce.AtLeast(3.0, scale=3, tolerance=0.5, loss="absolute")
    assert gbce.Change(2).resolve(10.0) == gbce.Change(2, scale=1.0, tolerance=0.0)
    assert gbce.Change(2, exact=True).resolve(10.0) == gbce.Change(2, exact=True, scale=1.0, tolerance=1.0)


@pytest.mark.parametrize(
    ("build", "kind", "sentence"),
    [
        (lambda: gbce.Change(np.nan), ValueError, r"Change: by must be a finite number, not nan"),
        (lambda: gbce.Change("5"), ValueError, r"Change: by must be a finite number, not '5'"),
        (lambda: gbce.Change(0), ValueError, r"by=0 does not say which way.*exact=True"),
        (lambda: gbce.Change(5, relative=0.1), TypeError, r"Change: relative must be True or False, not 0\.1"),
        (lambda: gbce.Change(5, scale=0), ValueError, r"Change: scale must be positive"),
        (
            lambda: gbce.Change(0.1, relative=True).bind(now(0.0)),
            ValueError,
            r"gives 0 for the row.*absolute change",
        ),
        (
            lambda: gbce.Change(1).bind(Outputs(np.zeros(2))),
            ValueError,
            r"the current output comes from one row, not 2",
        ),
        (lambda: gbce.Change(1).read(now(0.0)), ValueError, r"1 above the row's output.*call bind\(now\) first"),
        (lambda: gbce.Change(1).bind(Outputs(np.zeros((1, 3)))), ValueError, r"returns 3 columns; use gbce\.Multi"),
        (
            lambda: gbce.Change(1).bind(Outputs(np.ones((1, 2)), ("a", "b"))),
            TypeError,
            r"is a classifier.*gbce\.Class",
        ),
    ],
)
def test_a_bad_change_is_refused(build, kind, sentence):
    with pytest.raises(kind, match=sentence):
        build()


@pytest.mark.parametrize(
    ("change", "y"),
    [
        (gbce.Change(1.5, exact=True, scale=1, tolerance=0.1), 2.5),
        (gbce.Change(-0.8, relative=True, exact=True, scale=1, tolerance=0.1), 0.2),
    ],
)
def test_a_change_of_a_linear_model_has_the_closed_form_mean(change, y):
    x0 = np.array([1.0, 0.0])
    explanation = explainer(eta=2.0).explain(x0, change, rules=[], seed=0)
    assert isinstance(explanation.target, gbce.Value)
    assert explanation.target.y == pytest.approx(y)
    mean = x0 + A * (y - A @ x0) / (1 / 4 + A @ A)  # likelihood of variance scale^2 / (2 eta)
    se = explanation.draws.x.std(axis=0) / np.sqrt(explanation.diagnostics["ess"])
    assert (np.abs(explanation.draws.weights @ explanation.draws.x - mean) <= 4 * se).all()


def test_a_change_is_saved_as_the_target_it_came_down_to(tmp_path):
    explanation = explainer().explain([2.0, 0.0], gbce.Change(-0.25, relative=True), rules=[gbce.MAP()], seed=0)
    again = gbce.load(explanation.save(tmp_path / "e"))
    assert again.target == explanation.target == gbce.AtMost(1.5, scale=explanation.target.scale, tolerance=0.0)
    assert again.target.describe() == "25% below the row's 2: at most 1.5"
    assert "25% below the row's 2: at most 1.5" in again.summary()
    assert explanation.target.scale == pytest.approx(0.1 * linear(DATA).std())


def test_many_rows_change_from_where_each_is(tmp_path):
    rows = np.array([[2.0, 0.0], [-1.0, 1.0], [0.5, 0.0]])
    change, store = gbce.Change(1), {"store": tmp_path / "s", "keep": "draws"}
    table = explainer().explain_many(rows, change, rules="MAP", seed=0, progress=False, **store)
    one = explainer().explain_many(rows[1:2], change, rules=[gbce.MAP()], seed=0, progress=False)
    assert len(one.counterfactuals) == 1
    for position, row in enumerate(rows):
        kept = gbce.load(tmp_path / "s" / "draws" / f"row-{position:06d}.gbce")
        assert kept.target.y == pytest.approx(linear(row) + 1)
        assert kept.row.outputs[0, 0] == pytest.approx(linear(row))
    again = explainer().explain_many(rows, change, rules="MAP", progress=False, **store)
    assert again.counterfactuals.equals(table.counterfactuals)
    with pytest.raises(ValueError, match="target changed"):
        explainer().explain_many(rows, gbce.Change(2), rules="MAP", progress=False, **store)


def test_a_change_costs_no_further_model_call():
    asked = []

    def model(x):
        asked.append(len(x))
        return linear(x)

    explanation = explainer(model).explain([2.0, 0.0], gbce.Change(1, scale=1), rules=[], seed=0)
    assert asked[0] == 1
    assert asked.count(1) == 1
    assert explanation.n_model_rows == sum(asked)


def test_several_models_are_asked_for_the_number_of_the_first():
    both = explainer([linear, lambda x: 10 + linear(x)])
    explanation = both.explain([2.0, 0.0], gbce.Change(-0.5, relative=True), rules=[], seed=0)
    assert explanation.target.y == pytest.approx(1.0)
    assert explanation.row.reached.tolist() == [[False, False]]


# --- a probability in a range -----------------------------------------------------------------------------------


def said(p):
    p = np.atleast_1d(np.asarray(p, dtype=float))
    return Outputs(np.column_stack([1 - p, p]), ("no", "yes"), (p > 0.5).astype(int))


def test_a_range_of_probabilities_is_reached_inside_and_costs_its_divergence_outside():
    target = gbce.Class("yes", probability=(0.6, 0.8))
    reading = target.read(said([0.0, 0.3, 0.6, 0.7, 0.8, 0.9, 1.0]))
    assert reading.reached.tolist() == [False, False, True, True, True, False, False]
    assert (reading.loss[2:5] == 0).all()
    assert reading.loss[1] == pytest.approx(0.6 * np.log(0.6 / 0.3) + 0.4 * np.log(0.4 / 0.7))
    assert reading.loss[5] == pytest.approx(0.8 * np.log(0.8 / 0.9) + 0.2 * np.log(0.2 / 0.1))
    assert target.describe() == "class 'yes' with probability between 0.6 and 0.8"


@pytest.mark.parametrize("pair", [(0.6, 0.8), (0.0, 0.3), (0.9, 1.0), (0.5, 0.5), (1.0, 1.0), (0.0, 0.0), [0.2, 0.4]])
def test_the_loss_of_a_range_is_finite_and_rises_with_the_distance(pair):
    p = np.linspace(0, 1, 1001)
    target = gbce.Class("yes", probability=pair)
    reading = target.read(said(p))
    low, high = pair
    assert np.isfinite(reading.loss).all()
    assert (reading.loss >= 0).all()
    assert (np.diff(reading.loss[p <= low]) < 0).all()
    assert (np.diff(reading.loss[p >= high]) > 0).all()
    np.testing.assert_array_equal(reading.reached, (low <= p) & (p <= high))
    np.testing.assert_array_equal(reading.loss == 0, reading.reached)


def test_the_range_of_certainty_is_the_log_loss():
    p = np.array([0.0, 1e-3, 0.5, 0.99, 1.0])
    range_loss = gbce.Class("yes", probability=(1, 1)).read(said(p)).loss
    np.testing.assert_allclose(range_loss, gbce.Class("yes").read(said(p)).loss, atol=1e-12)


@pytest.mark.parametrize(
    ("pair", "sentence"),
    [
        ((0.8, 0.6), r"low = 0\.8 above high = 0\.6; swap them"),
        ((0.5, 1.5), r"a pair \(low, high\) of numbers from 0 to 1, not \(0\.5, 1\.5\)"),
        ((np.nan, 0.5), r"a pair \(low, high\) of numbers"),
        ((0.1, 0.2, 0.3), r"a pair \(low, high\) of numbers"),
        ((0.1, "b"), r"a pair \(low, high\) of numbers"),
        ((0, 1), r"nothing to reach; narrow the pair"),
    ],
)
def test_a_bad_range_of_probabilities_is_refused(pair, sentence):
    with pytest.raises(ValueError, match=sentence):
        gbce.Class("yes", probability=pair)


def test_a_range_of_probabilities_through_the_explainer(tmp_path):
    labels = np.where(DATA @ A + np.random.default_rng(1).normal(size=200) > 0, "yes", "no")
    model = LogisticRegression().fit(DATA, labels)
    target = gbce.Class("yes", probability=(0.6, 0.8))
    explanation = explainer(model, eta=200.0).explain([-1.0, 1.0], target, rules=[gbce.MAP()], seed=0)
    p = model.predict_proba(explanation.draws.x)[:, 1]
    np.testing.assert_array_equal(explanation.draws.reached[:, 0], (p >= 0.6) & (p <= 0.8))
    assert explanation.distribution["success_probability"] > 0.5
    assert explanation.pointwise["output"].iloc[0] == pytest.approx(0.6, abs=0.02)  # the near end, nearly
    assert gbce.load(explanation.save(tmp_path / "e")).target == target
    with pytest.raises(TypeError, match="needs a classifier, but LinearRegression"):
        explainer(LinearRegression().fit(DATA, DATA @ A)).explain([0.0, 0.0], target, rules=[], seed=0)


# --- several outputs --------------------------------------------------------------------------------------------

W = np.array([[1.0, 0.5], [-0.5, 1.0]])  # one line per output


def two(x):
    return x @ W.T


def test_the_loss_of_several_outputs_is_the_weighted_sum_and_all_must_be_reached():
    f = np.array([[3.0, 5.0], [2.0, 5.0], [3.0, 7.0], [1.0, 9.0]])
    parts = [gbce.AtLeast(3, scale=1, tolerance=0), gbce.AtMost(5, scale=2, tolerance=0)]
    for wish in (gbce.Multi(parts), gbce.Multi({1: parts[1], 0: parts[0]})):
        reading = wish.read(Outputs(f))
        assert reading.loss.tolist() == [0, 1, 1, 8]
        assert reading.reached.tolist() == [True, False, False, False]
    for wish in (gbce.Multi(parts, weights=[2, 0.5]), gbce.Multi(dict(enumerate(parts)), weights={0: 2, 1: 0.5})):
        assert wish.read(Outputs(f)).loss.tolist() == [0, 2, 0.5, 10]
    assert gbce.Multi([None, parts[1]]).read(Outputs(f)).loss.tolist() == [0, 0, 1, 4]
    assert gbce.Multi({1: parts[1]}).describe() == "output 1 at most 5"
    assert gbce.Multi([parts[0]]).read(Outputs(f[:, 0])).loss.tolist() == [0, 1, 0, 4]


def test_open_numbers_come_from_each_outputs_own_spread_and_changes_from_its_own_value():
    wish = gbce.Multi([gbce.Change(-0.5, relative=True), gbce.Value(1.0)])
    assert wish.needs_spread
    settled = wish.resolve(np.array([1.0, 100.0])).bind(Outputs(np.array([[4.0, 9.0]])))
    parts = [gbce.AtMost(2.0, scale=0.1, tolerance=0.0), gbce.Value(1.0, scale=10.0, tolerance=10.0)]
    assert settled == gbce.Multi(parts)
    assert settled.describe() == "output 0 50% below the row's 4: at most 2, output 1 1 ± 10"


@pytest.mark.parametrize(
    ("build", "kind", "sentence"),
    [
        (lambda: gbce.Multi([]), ValueError, r"there is no target; give at least one"),
        (lambda: gbce.Multi([None]), ValueError, r"there is no target; give at least one"),
        (lambda: gbce.Multi(gbce.AtLeast(3)), TypeError, r"targets must be a mapping or a sequence"),
        (lambda: gbce.Multi(5), TypeError, r"targets must be a mapping or a sequence"),
        (lambda: gbce.Multi([gbce.Class(1)]), TypeError, r"output 0 must be a Value, Range.*not Class.*gbce\.Loss"),
        (lambda: gbce.Multi([gbce.AtLeast]), TypeError, r"the target of output 0 must be"),
        (
            lambda: gbce.Multi({-1: gbce.AtLeast(3)}),
            ValueError,
            r"names the output -1; outputs are integers from 0",
        ),
        (lambda: gbce.Multi({"a": gbce.AtLeast(3)}), ValueError, r"names the output 'a'"),
        (
            lambda: gbce.Multi([gbce.AtLeast(3)], weights=[0]),
            ValueError,
            r"weight of output 0 must be a positive number",
        ),
        (lambda: gbce.Multi([gbce.AtLeast(3)], weights=[np.nan]), ValueError, r"must be a positive number, not nan"),
        (lambda: gbce.Multi([gbce.AtLeast(3)], weights=[1, 2]), ValueError, r"weights has 2 entries, targets has 1"),
        (lambda: gbce.Multi({0: gbce.AtLeast(3)}, weights=[1]), ValueError, r"weights must name them too"),
        (lambda: gbce.Multi({0: gbce.AtLeast(3)}, weights={1: 1}), ValueError, r"output 1 has a weight but no target"),
        (lambda: gbce.Multi([gbce.AtLeast(3)], weights=2), TypeError, r"weights must be a mapping or a sequence"),
        (
            lambda: ask(two, gbce.Multi([gbce.AtLeast(3)])),
            ValueError,
            r"lists targets for 1, but two returns 2 columns.*None",
        ),
        (
            lambda: ask(two, gbce.Multi({5: gbce.AtLeast(3)})),
            ValueError,
            r"target for output 5, but two returns 2 columns",
        ),
        (
            lambda: ask(linear, gbce.Multi({1: gbce.AtMost(3)})),
            ValueError,
            r"output 1, but linear returns 1 column; outputs",
        ),
        (lambda: ask(two, gbce.AtLeast(3)), ValueError, r"returns 2 columns; use gbce\.Multi.*or gbce\.Loss"),
        (
            lambda: ask(two, gbce.Multi([gbce.Change(1)] * 2), eta=gbce.ModelError(mse=1.0)),
            TypeError,
            r"ModelError measures one",
        ),
        (
            lambda: ask(lambda x: 0 * two(x), gbce.Multi([gbce.AtLeast(3)] * 2)),
            ValueError,
            r"Multi, output 0: .*same output",
        ),
        (
            lambda: ask(LogisticRegression().fit(DATA, DATA[:, 0] > 0), gbce.Multi([gbce.AtLeast(3)] * 2)),
            TypeError,
            r"Multi needs numbers, but LogisticRegression is a classifier",
        ),
    ],
)
def test_bad_targets_of_several_outputs_are_refused(build, kind, sentence):
    with pytest.raises(kind, match=sentence):
        build()


def ask(model, target, **options):
    return explainer(model, **options).explain([0.0, 0.0], target, rules=[], seed=0)


def test_several_outputs_of_a_linear_model_have_the_closed_form_mean():
    x0, y, scale = np.array([0.5, -0.5]), np.array([1.0, 0.5]), np.array([1.0, 0.5])
    wish = gbce.Multi([gbce.Value(y[i], scale=scale[i], tolerance=0.2) for i in range(2)], weights=[1.0, 0.5])
    explanation = explainer(two).explain(x0, wish, rules=[], seed=0)
    precision = np.diag(2 * np.array([1.0, 0.5]) / scale**2)
    mean = x0 + np.linalg.solve(np.eye(2) + W.T @ precision @ W, W.T @ precision @ (y - W @ x0))
    se = explanation.draws.x.std(axis=0) / np.sqrt(explanation.diagnostics["ess"])
    assert (np.abs(explanation.draws.weights @ explanation.draws.x - mean) <= 4 * se).all()
    np.testing.assert_array_equal(explanation.draws.outputs, explanation.draws.loss)


@pytest.mark.parametrize(
    "model",
    [LinearRegression(), RandomForestRegressor(10, random_state=0), MultiOutputRegressor(LinearRegression())],
    ids=lambda model: type(model).__name__,
)
def test_regressors_of_several_outputs(model, tmp_path):
    model = model.fit(DATA, two(DATA) * [1, 100])
    wish = gbce.Multi({0: gbce.Change(0.5), 1: gbce.Range(-50, 50)})
    rules = [gbce.MAP(), gbce.ChanceConstrained(0.5)]
    explanation = explainer(model).explain(DATA[0], wish, rules=rules, seed=0)
    scales = [target.scale for target in explanation.target.targets.values()]
    np.testing.assert_allclose(scales, 0.1 * model.predict(DATA).std(axis=0))
    f = model.predict(explanation.draws.x)
    hit = (f[:, 0] >= explanation.target.targets[0].y) & (np.abs(f[:, 1]) <= 50)
    np.testing.assert_array_equal(explanation.draws.reached[:, 0], hit)
    again = gbce.load(explanation.save(tmp_path / "e"))
    assert again.target == explanation.target
    assert again.summary() == explanation.summary()
    assert explainer(model).decide(again, gbce.Mean()).equals(explainer(model).decide(explanation, gbce.Mean()))


def test_lists_and_weights_survive_a_file(tmp_path):
    wish = gbce.Multi([None, gbce.AtLeast(1, scale=1)], weights=[1, 3])
    explanation = explainer(two).explain([0.0, 0.0], wish, rules=[], seed=0)
    again = gbce.load(explanation.save(tmp_path / "e"))
    assert (
        again.target == explanation.target == gbce.Multi([None, gbce.AtLeast(1, scale=1, tolerance=0)], weights=[1, 3])
    )


def test_many_rows_with_several_outputs_settle_one_by_one(tmp_path):
    rows = DATA[:3]
    wish = gbce.Multi([gbce.Change(0.5), None])
    store = {"store": tmp_path / "s", "keep": "draws"}
    explainer(two).explain_many(rows, wish, rules=[gbce.MAP()], seed=0, progress=False, **store)
    for position, row in enumerate(rows):
        kept = gbce.load(tmp_path / "s" / "draws" / f"row-{position:06d}.gbce")
        assert kept.target.targets[0].y == pytest.approx(two(row)[0] + 0.5)
        assert kept.target.targets[1] is None
