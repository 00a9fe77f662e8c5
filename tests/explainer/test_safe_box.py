"""Safe boxes against random points: all of them reach, and the ranges are more than points."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gbce
from gbce.trees import find_safe_ranges, read_cells, read_structure


def make_table(n=300):
    rng = np.random.default_rng(8)
    frame = pd.DataFrame(
        {
            "income": rng.normal(50, 12, n).round(1),
            "debt": rng.normal(15, 5, n).round(1),
            "age": rng.integers(18, 80, n),
            "owner": rng.random(n) < 0.4,
        }
    )
    y = frame["income"] - 1.5 * frame["debt"] + 0.2 * frame["age"] + 5 * frame["owner"] + rng.normal(0, 2, n)
    return frame, np.asarray(y)


FRAME, Y = make_table()
LABELS = np.where(Y > 40, "good", np.where(Y > 25, "fair", "bad"))
MODELS = {
    "boosting": (GradientBoostingRegressor(n_estimators=30, random_state=0).fit(FRAME, Y), None),
    "forest": (RandomForestRegressor(20, random_state=0).fit(FRAME, Y), None),
    "scaled": (
        make_pipeline(StandardScaler(), RandomForestRegressor(10, max_depth=5, random_state=0)).fit(FRAME, Y),
        None,
    ),
    "classes": (GradientBoostingClassifier(n_estimators=10, random_state=0).fit(FRAME, LABELS), "good"),
}


def draw_within(rng, space, ranges, x, n=400):
    """Random rows of a box, half of them at its very ends."""
    rows = np.repeat(x[None, :], n, axis=0)
    for j, low, high in zip(ranges.features, ranges.low, ranges.high, strict=True):
        low, high = max(low, x[j] - 50 * space.scale[j]), min(high, x[j] + 50 * space.scale[j])
        values = rng.uniform(low, high, n)
        if space.features[j].discrete:
            values = np.clip(np.round(values), low, high)
        rows[:, j] = np.where(rng.random(n) < 0.5, rng.choice([low, high], n), values)
    return rows


@pytest.mark.parametrize("name", MODELS)
def test_every_point_of_a_box_reaches(name):
    model, label = MODELS[name]
    space = gbce.Space.infer(FRAME, bounds={"income": (None, None)})
    x, rng = space.encode(FRAME), np.random.default_rng(1)
    trees = read_cells(read_structure(model, space), space, x)
    said = model.predict(FRAME)
    level = np.quantile(said, 0.6) if label is None else None
    wishes = [(gbce.Class(label), said == label)] if label else [
        (gbce.AtLeast(level, scale=1).resolve(1.0), said >= level),
        (gbce.Range(level - 8, level, scale=1).resolve(1.0), (said >= level - 8) & (said <= level)),
    ]  # fmt: skip
    wide = 0
    for wish, reached in wishes:
        for i in np.flatnonzero(reached)[:12]:
            which = np.sort(rng.choice(4, 3, replace=False))
            ranges = find_safe_ranges(trees, space, x[i], x[i], wish, which)
            if ranges is None:
                continue
            assert set(ranges.features) <= set(which)
            at = x[i][ranges.features]
            assert (ranges.low <= at).all()
            assert (at <= ranges.high).all()
            then = model.predict(space.decode(draw_within(rng, space, ranges, x[i])))
            if label:
                assert (then == label).all()
            else:
                low, high = wish.accepted()
                assert ((then >= low) & (then <= high)).all()
            wide += int(((ranges.high - ranges.low) / space.scale[ranges.features] > 0.5).any())
    assert wide >= 8, wide  # not one of them only a hair wide


SMALL = {
    "boosting": GradientBoostingRegressor(n_estimators=20, random_state=0).fit(FRAME, Y),
    "forest": RandomForestRegressor(6, max_depth=5, random_state=0).fit(FRAME, Y),
}


def cells_of(space, trees, x, j):
    """Return the lowest and the highest values of all cells of a column within its limits."""
    low, high = (end[j] for end in space.limits(x))
    if space.features[j].discrete:
        return np.arange(low, high + 1), np.arange(low, high + 1)
    places = np.concatenate([[low], trees.edges[j][(trees.edges[j] > low) & (trees.edges[j] < high)], [high]])
    return places[:-1], places[1:]


def widest_by_force(model, space, trees, x, level, which):
    """Return the largest product of widths of all boxes around a row in which the model grants every cell."""
    ends = [cells_of(space, trees, x, j) for j in which] + [(np.zeros(1), np.zeros(1))] * (2 - len(which))
    middle = np.stack(np.meshgrid(*((low + high) / 2 for low, high in ends), indexing="ij"), axis=-1)
    rows = np.repeat(x[None, :], middle[..., 0].size, axis=0)
    rows[:, which] = middle.reshape(-1, 2)[:, : len(which)]
    denied = (model.predict(space.decode(rows)) < level).reshape(middle.shape[:2])
    own = [int(np.flatnonzero((low <= x[j]) & (x[j] <= high))[0]) for (low, high), j in zip(ends, which, strict=False)]
    own += [0] * (2 - len(which))
    count = np.pad(denied.cumsum(axis=0).cumsum(axis=1), ((1, 0), (1, 0)))
    widths = [np.maximum(high[own[i] :] - low[: own[i] + 1, None], 1e-3) for i, (low, high) in enumerate(ends)]
    best = 0.0
    for first in range(own[0] + 1):
        for last in range(own[0], len(ends[0][0])):
            strip = count[last + 1] - count[first]
            safe = strip[own[1] + 1 :] - strip[: own[1] + 1, None] == 0
            best = max(best, widths[0][first, last - own[0]] * np.max(widths[1] * safe))
    return best / 1e-3 ** (2 - len(which))


@pytest.mark.parametrize("which", [[0], [2], [0, 1], [1, 2]])
@pytest.mark.parametrize("name", SMALL)
def test_ranges_of_one_or_two_columns_are_the_largest(name, which):
    model, space = SMALL[name], gbce.Space.infer(FRAME, bounds="data", scale="raw")
    x, said = space.encode(FRAME), SMALL[name].predict(FRAME)
    trees, level = read_cells(read_structure(model, space), space, x), float(np.quantile(said, 0.6))
    wish = gbce.AtLeast(level, scale=1).resolve(1.0)
    for row in x[said >= level][:4]:
        ranges = find_safe_ranges(trees, space, row, row, wish, np.array(which))
        found = {} if ranges is None else dict(zip(ranges.features, ranges.high - ranges.low, strict=True))
        mine = np.prod([max(found.get(j, 0.0), 1e-3) for j in which])
        best = widest_by_force(model, space, trees, row, level, which)
        assert best * 0.995 <= mine <= best * (1 + 1e-9)  # ends have few digits


RULES = ["debt <= 0.3 * income", "if owner then income / debt < 12", "abs(age - 40) <= 60"]


@pytest.mark.parametrize("which", [[0], [1], [0, 1], [0, 1, 2]])
@pytest.mark.parametrize("name", SMALL)
def test_every_point_of_a_box_keeps_the_rules_between_columns(name, which):
    model, rng = SMALL[name], np.random.default_rng(2)
    free, space = (gbce.Space.infer(FRAME, bounds="data", scale="raw", constraints=rules) for rules in ([], RULES))
    x = space.encode(FRAME)
    said = model.predict(FRAME)
    trees, level = read_cells(read_structure(model, space), space, x), float(np.quantile(said, 0.5))
    wish = gbce.AtLeast(level, scale=1).resolve(1.0)
    rows = x[(said >= level) & space.admissible(x, x[0])]
    cut = 0
    for row in rows[:25]:
        ranges = find_safe_ranges(trees, space, row, row, wish, np.array(which))
        wider = find_safe_ranges(trees, free, row, row, wish, np.array([j for j in which if j != 2]))
        if ranges is None:
            continue
        assert 2 not in ranges.features  # of an absolute value nothing linear is read
        within = draw_within(rng, space, ranges, row)
        assert space.admissible(within, row).all()
        assert (model.predict(space.decode(within)) >= level).all()
        if len(which) == 1:  # as far as the model and the rules let it
            [j], income, debt, owner = which, *row[[0, 1, 3]]
            by_rules = (debt / 0.3, 12 * debt if owner else np.inf) if j == 0 else (income / 12 * owner, 0.3 * income)
            low, high = max(wider.low[0], by_rules[0]), min(wider.high[0], by_rules[1])
            assert [ranges.low[0], ranges.high[0]] == pytest.approx([low, high], abs=2e-3 * (high - low))
        cut += not np.array_equal(ranges.high - ranges.low, wider.high - wider.low)
    assert cut >= 3


def test_the_answer_keeps_the_rule_that_was_given():
    rule = ["income <= 8 * debt"]
    explainer = gbce.Explainer(
        SMALL["boosting"],
        FRAME,
        space=gbce.Space.infer(FRAME, bounds="data", constraints=rule),
        sampler=gbce.Importance(500),
    )
    seen = 0
    for i in np.flatnonzero((SMALL["boosting"].predict(FRAME) < 38) & (FRAME["income"] <= 8 * FRAME["debt"]))[:8]:
        answer = explainer.explain(FRAME.iloc[[i]], gbce.AtLeast(42), rules=[gbce.Nearest()], seed=0).answer
        if answer.safe is None:
            continue
        low, high = answer.decision.x.copy(), answer.decision.x.copy()
        at = [explainer.space.position[name] for name in answer.safe.features]
        low[at], high[at] = answer.safe.low, answer.safe.high
        worst = np.where(np.arange(4) == 0, high, low)  # most income, least debt
        assert explainer.space.admissible(worst[None, :], answer.query.x0)[0]
        seen += 1
    assert seen >= 2


@pytest.fixture(scope="module")
def explained():
    explainer = gbce.Explainer(MODELS["boosting"][0], FRAME, prior=gbce.Gaussian(), sampler=gbce.Importance(500))
    row = {"income": 30.0, "debt": 20.0, "age": 40, "owner": False}
    return explainer, explainer.explain(row, gbce.AtLeast(25), rules=[gbce.Nearest()], seed=0)


def test_the_answer_says_where_it_holds(explained, tmp_path):
    explainer, explanation = explained
    answer = explanation.answer
    assert answer.safe.sentence.startswith("Any ")
    assert answer.safe.sentence.endswith(" is guaranteed to work, all else unchanged.")
    assert answer.safe.sentence in answer.sentence
    assert answer.safe.contains(answer.decision.x[None, :])[0]
    assert list(answer.safe.table.columns) == ["low", "high"]
    assert set(answer.safe.features) <= set(answer.changes.index)
    assert answer.to_dict()["safe"] == answer.safe.to_dict()
    again = gbce.load(explanation.save(tmp_path / "safe.gbce")).answer
    assert again.sentence == answer.sentence
    assert again.safe.table.equals(answer.safe.table)
    assert explainer.safe_box(explanation).to_dict() == answer.safe.to_dict()


def test_any_decision_and_any_columns_have_a_box(explained):
    explainer, explanation = explained
    free = explainer.safe_box(explanation, features=["age"])
    assert free.features == ("age",)
    assert explainer.safe_box(explanation, "Nearest", features=["income", "debt", "age"]) is not None
    with pytest.raises(ValueError, match="no decision 'Best'"):
        explainer.safe_box(explanation, "Best")
    with pytest.raises(ValueError, match="no columns"):
        explainer.safe_box(explanation, features=["height"])


def test_models_that_are_no_trees_have_none():
    numbers = FRAME.drop(columns="owner")
    explainer = gbce.Explainer(LinearRegression().fit(numbers, Y), numbers, sampler=gbce.Importance(500))
    explanation = explainer.explain(numbers.iloc[0], gbce.AtLeast(45), rules=[gbce.Nearest()], seed=0)
    assert explanation.answer.safe is None
