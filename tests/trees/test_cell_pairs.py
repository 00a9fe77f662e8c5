"""Two changes at once on cells: nothing with two changes is cheaper than what is found, whatever changes cost."""

import itertools
import tracemalloc
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMRegressor
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import gbce
from gbce.trees import _nearest as _cell_nearest
from gbce.trees import _pairs as _cell_pairs
from gbce.trees import find_nearest_cells, price_units, reachable_cells, score_constraints
from gbce.trees._pairs import find_pairs
from support.cells import boosted, read, slots_that_can_be_had

UNITS = np.array([0.37, 2.9, 1.0, 0.11, 13.0])  # nothing that one column costs is like another
FOR_CHANGING = np.array([0.5, 0.0, 2.0, 1.0, 0.25])


def pricing(x0, units, fixed, power=1):
    """Return a price for how far a column changes and one for changing it at all; categories have no how far."""

    def price(j, values):
        gone = np.isnan(values) != np.isnan(x0[j])
        far = np.where(gone, 1.0, np.abs(np.nan_to_num(values) - np.nan_to_num(x0[j])) / units[j])
        return (far + fixed[j] * ((values != x0[j]) | gone)) ** power

    return price


def best_of_two(trees, offers, wish, most=2):
    """Return the least price of all points with at most so many changes, by asking about every one of them."""
    own = slots_that_can_be_had(offers)
    slots = []
    for i, j in itertools.combinations(range(len(own)), 2):
        grid = np.tile(offers.here, (len(own[i]) * len(own[j]), 1))
        grid[:, [i, j]] = list(itertools.product(own[i], own[j]))
        slots.append(grid)
    slots = np.vstack(slots)
    slots = slots[(slots != offers.here).sum(axis=1) <= most]
    x = offers.points(slots)
    good = offers.space.admissible(x, offers.x0)
    good &= wish.shortfall(trees.scores(trees.cells(x)) @ wish.weights.T) <= 0
    return offers.cost(slots[good]).min(initial=np.inf)


def numbers(seed, kind):
    """Return a model in which columns count together, its table, and what is wanted."""
    rng = np.random.default_rng(seed)
    data = rng.normal(size=(90, 5)) * UNITS
    z = data / UNITS
    y = z[:, 0] * z[:, 1] + 2 * z[:, 2] * (z[:, 3] > 0) + z[:, 4] + 0.3 * rng.normal(size=90)
    if kind == "together":  # two columns help only together, three others a little each
        y = 4.0 * (z[:, 0] > 0.4) * (z[:, 1] > 0.4) + z[:, 2:].sum(axis=1)
    if kind == "classes":
        model = GradientBoostingClassifier(n_estimators=6, max_depth=3, random_state=seed)
        return model.fit(data, np.digitize(y, [-1, 1])), data, gbce.Class(2)
    if kind == "forest":
        model = RandomForestRegressor(8, max_depth=4, random_state=seed).fit(data, y)
    else:
        model = boosted(seed, n_estimators=14, num_leaves=6, min_child_samples=4).fit(data, y)
    return model, data, gbce.AtLeast(float(np.quantile(model.predict(data), 0.85)), scale=1.0).resolve(1.0)


def questions(seed, kind, fixed=1.0, power=1):
    """Yield a wish and what cells offer around rows that do not have it."""
    model, data, target = numbers(seed, kind)
    space = gbce.Space.real(5)
    trees = read(model, space, data)
    wish = score_constraints(trees.inside, target)
    wish = wish.beyond(wish.rounding(trees))
    for x0 in data[:6]:
        if wish.shortfall(trees.scores(trees.cells(x0[None, :])) @ wish.weights.T)[0] > 0:
            yield trees, wish, reachable_cells(trees, space, x0, pricing(x0, UNITS, fixed * FOR_CHANGING, power)), data


@pytest.mark.parametrize("kind", ["forest", "boosting", "classes", "together"])
@pytest.mark.parametrize(("fixed", "power"), [(1.0, 1), (0.0, 1), (0.4, 2)])
def test_nothing_with_two_changes_is_cheaper(kind, fixed, power):
    compared = 0
    for seed in range(4):
        for trees, wish, offers, data in questions(seed, kind, fixed, power):
            best = best_of_two(trees, offers, wish)
            found = find_nearest_cells(trees, offers, wish, data, power=power)
            assert found.cost[0] <= best ** (1 / power) * (1 + 1e-9)
            compared += np.isfinite(best)
    assert compared >= 5


@pytest.mark.parametrize("kind", ["forest", "classes", "together"])
def test_no_pair_is_ruled_out_that_is_the_cheapest(kind):
    told_apart = 0
    for trees, wish, offers, _ in itertools.chain(*(questions(seed, kind) for seed in range(2))):
        seen = []

        def accept(slots, seen=seen, offers=offers):
            seen.append(float(offers.cost(slots[0])))
            return seen[-1]

        find_pairs(trees, offers, wish, np.inf, accept)
        alone, best = (best_of_two(trees, offers, wish, most) for most in (1, 2))
        assert seen == sorted(seen, reverse=True)  # each has to be cheaper than the one before
        np.testing.assert_allclose(min([alone, *seen]), best, rtol=1e-12)
        told_apart += best < alone
    assert told_apart >= 2


def mixed():
    rng = np.random.default_rng(3)
    n = 150
    frame = pd.DataFrame({
        "job": rng.choice(["clerk", "chief", "none", "cook"], n),
        "children": rng.integers(0, 5, n),
        "income": rng.normal(3.0, 1.0, n),
        "age": rng.integers(20, 60, n),
    })  # fmt: skip
    score = frame["income"] * (1 + (frame["job"] == "chief")) - frame["children"] * (frame["age"] < 40)
    encode = make_column_transformer((OneHotEncoder(), ["job"]), remainder="passthrough")
    model = make_pipeline(encode, RandomForestClassifier(9, max_depth=5, random_state=0)).fit(frame, score > 3)
    return frame, model


@pytest.mark.parametrize("rules", [{}, {"increase": ["age"], "bounds": {"income": (0, 5)}}, {"immutable": ["job"]}])
def test_levels_whole_numbers_and_limits_take_part(rules):
    frame, model = mixed()
    space = gbce.Space.infer(frame, **rules)
    data = space.encode(frame)
    trees = read(model, space, data)
    wish = score_constraints(trees.inside, gbce.Class(True))
    wish = wish.beyond(wish.rounding(trees))
    compared = 0
    for x0 in data[np.flatnonzero(~model.predict(frame))[:12]]:
        offers = reachable_cells(trees, space, x0, pricing(x0, np.array([3.0, 0.7, 1.3, 9.0]), np.full(4, 0.6)))
        best = best_of_two(trees, offers, wish)
        found = find_nearest_cells(trees, offers, wish, data)
        if np.isfinite(best):
            assert found.cost[0] <= best * (1 + 1e-9)
            assert model.predict(space.decode(found.x[:1])).all()
            compared += 1
    assert compared >= 6


def test_rows_with_gaps_are_moved_as_well():
    rng = np.random.default_rng(5)
    data = rng.normal(size=(200, 4))
    y = data[:, 0] * data[:, 1] + data[:, 2] * data[:, 3]
    data[rng.random((200, 4)) < 0.2] = np.nan
    model = LGBMRegressor(n_estimators=10, num_leaves=6, random_state=0, verbose=-1, n_jobs=1).fit(data, y)
    space = gbce.Space([gbce.Feature(name, missing="any") for name in "abcd"])
    trees = read(model, space, data)
    said = model.predict(data)
    wish = score_constraints(trees.inside, gbce.AtLeast(float(np.quantile(said, 0.9)), scale=1.0).resolve(1.0))
    rows = data[np.isnan(data).any(axis=1) & (said < np.median(said))][:8]
    for x0 in rows:
        offers = reachable_cells(trees, space, x0, pricing(x0, np.ones(4), np.full(4, 0.3)))
        found = find_nearest_cells(trees, offers, wish, data)
        assert (wish.shortfall(trees.scores(trees.cells(found.x)) @ wish.weights.T) <= 0).all()
        assert found.cost[0] <= best_of_two(trees, offers, wish) * (1 + 1e-9)


def test_numbers_that_become_missing_are_half_of_a_pair():
    rng = np.random.default_rng(6)
    data = rng.normal(size=(200, 3))
    data[rng.random((200, 3)) < 0.3] = np.nan
    y = np.isnan(data[:, 0]) * (data[:, 1] > 0) + 0.7 * np.isnan(data[:, 1]) * np.isnan(data[:, 2])
    model = LGBMRegressor(n_estimators=10, num_leaves=6, random_state=0, verbose=-1, n_jobs=1).fit(data, y)
    space = gbce.Space([gbce.Feature(name, missing="any") for name in "abc"])
    trees = read(model, space, data)
    wish = score_constraints(trees.inside, gbce.AtLeast(0.4, scale=1.0).resolve(1.0))
    wish = wish.beyond(wish.rounding(trees))
    gone = 0
    for x0 in data[~np.isnan(data).any(axis=1)][:10]:
        offers = reachable_cells(trees, space, x0, pricing(x0, np.ones(3), np.full(3, 0.3)))
        seen, missing = [np.inf], [False]

        def accept(slots, seen=seen, missing=missing, offers=offers):
            seen.append(float(offers.cost(slots[0])))
            missing.append(bool(np.isnan(offers.points(slots[:1])).any()))
            return seen[-1]

        find_pairs(trees, offers, wish, np.inf, accept)
        alone, best = (best_of_two(trees, offers, wish, most) for most in (1, 2))
        np.testing.assert_allclose(min(alone, seen[-1]), best, rtol=1e-12)
        gone += missing[-1] and best < alone
    assert gone >= 2


def test_rules_between_columns_are_kept():
    model, data, target = numbers(2, "forest")
    space = gbce.Space.real(5)
    rule = gbce.Space([gbce.Feature(f"x{j}") for j in range(5)], constraints=["x0 + x1 <= 1"])
    trees = read(model, space, data)
    wish = score_constraints(trees.inside, target)
    found_any = 0
    for x0 in data[:12]:
        if not rule.admissible(x0[None, :], x0)[0]:
            continue
        offers = reachable_cells(trees, rule, x0, pricing(x0, UNITS, FOR_CHANGING))
        found = find_nearest_cells(trees, offers, wish, data)
        assert rule.admissible(found.x, x0).all()
        assert found.cost.min(initial=np.inf) >= best_of_two(trees, offers, wish) * (1 - 1e-9) or found.changes[0] > 2
        found_any += len(found.x) > 0
    assert found_any >= 3


def test_a_limit_of_work_leaves_what_was_found_before(monkeypatch):
    model, data, target = numbers(1, "forest")
    space = gbce.Space.real(5)
    trees = read(model, space, data)
    wish = score_constraints(trees.inside, target)
    shown = []
    scan = _cell_pairs._Pairs.scan
    monkeypatch.setattr(_cell_pairs._Pairs, "scan", lambda *given: shown.append(given[1:3]) or scan(*given))
    cost = []
    for most in (_cell_pairs._MOST_CELLS, 0):
        monkeypatch.setattr(_cell_pairs, "_MOST_CELLS", most)
        cost.append([])
        for x0 in data[:10]:
            offers = reachable_cells(trees, space, x0, pricing(x0, UNITS, FOR_CHANGING))
            cost[-1].append(find_nearest_cells(trees, offers, wish, data).cost.min(initial=np.inf))
        shown.append(None)
    with_all = shown.index(None)
    assert with_all > len(shown) - 2 - with_all  # fewer pairs are scanned
    assert np.all(np.array(cost[0]) <= np.array(cost[1]) * (1 + 1e-9))


def test_a_grid_of_too_many_cells_is_not_laid_out():
    rng = np.random.default_rng(0)
    data = rng.normal(size=(700, 2))
    y = 2 * np.sin(data[:, 0]) + 0.8 * data[:, 1] ** 2 - 1.2 * data[:, 0] * data[:, 1]
    model = ExtraTreesRegressor(30, random_state=0).fit(data, y)
    space = gbce.Space.real(2)
    trees = read(model, space, data)
    assert np.prod(trees.n_cells.astype(float)) > 100 * _cell_pairs._MOST_CELLS  # several GB of prices
    wish = score_constraints(trees.inside, gbce.AtLeast(float(np.quantile(y, 0.9)), scale=1.0).resolve(1.0))
    offers = reachable_cells(trees, space, np.array([0.2, 0.1]), price_units(space, np.array([0.2, 0.1])))
    tracemalloc.start()
    found = find_nearest_cells(trees, offers, wish, data[y > np.quantile(y, 0.9)])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert wish.shortfall(trees.scores(trees.cells(found.x)) @ wish.weights.T).max() == 0
    assert peak < 200e6


def test_going_without_a_change_pays_where_changing_costs(monkeypatch):
    x, y = load_breast_cancer(return_X_y=True)
    model = RandomForestClassifier(40, random_state=0, n_jobs=1).fit(x[::2], y[::2])
    space, units = gbce.Space.real(x.shape[1]), np.median(np.abs(x - np.median(x, axis=0)), axis=0)
    trees = read(model, space, x)
    wish = score_constraints(trees.inside, gbce.Class(1))
    wish = wish.beyond(wish.rounding(trees))
    rows = x[model.predict(x) == 0][:30]
    cost = []
    for share in (_cell_nearest._NEAREST.fixed_share, np.inf):
        monkeypatch.setattr(_cell_nearest, "_NEAREST", replace(_cell_nearest._NEAREST, fixed_share=share))
        cost.append([])
        for x0 in rows:
            offers = reachable_cells(trees, space, x0, pricing(x0, units, np.ones(x.shape[1])))
            cost[-1].append(find_nearest_cells(trees, offers, wish).cost[0])
    ratio = np.array(cost[0]) / np.array(cost[1])
    assert ratio.max() <= 1 + 1e-12
    assert ratio.min() < 1 - 1e-6
