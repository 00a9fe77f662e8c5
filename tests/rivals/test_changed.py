"""The models that answers are judged by."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

from benchmarks.rivals._changed import CHANGES, changed_models
from benchmarks.rivals._data import Data


class Seen:
    """What a learner was shown."""

    def __init__(self, X, y, seed):
        self.X, self.y, self.seed = X, y, seed


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(80, 2)), columns=["a", "b"])
    return X, pd.Series(np.where(np.arange(80) < 3, "rare", np.where(X["a"] > 0, "up", "down")))


def test_each_kind_sees_the_data_changed_in_its_own_way(table):
    X, y = table
    made = changed_models(Seen, Data(X, y), 0, {"other": Seen, "another": Seen})
    assert {name: len(models) for name, models in made.items()} == CHANGES | {"other learners": 2}
    for model in made["bootstrap"]:
        assert len(model.X) == 80
        assert model.X.index.has_duplicates
    for model in made["seed"]:
        assert sorted(model.X.index) == list(range(80))
        assert list(model.X.index) != list(range(80))
    for model in made["deletion"]:
        assert len(model.X) == 72
        assert not model.X.index.has_duplicates
    for model in made["label noise"]:
        assert model.X.equals(X)
        assert (model.y != y).sum() == 4
    for model in made["other learners"]:
        assert model.X.equals(X)
        assert model.y.equals(y)
    every = [model for models in made.values() for model in models]
    assert all(set(model.y) == {"rare", "up", "down"} for model in every)
    assert all((model.X.index == model.y.index).all() for model in every)
    assert all(model.y[model.y.index].isin(y).all() for model in every)
    seeds = [model.seed for model in every]
    assert len(set(seeds)) == len(seeds)
    assert y.equals(table[1])


def test_a_deterministic_learner_changes_where_it_must_and_nowhere_else(table):
    X, y = table
    y = y.where(y == "up", "down")
    said = LogisticRegression().fit(X, y).predict_proba(X)
    made = changed_models(lambda X, y, seed: LogisticRegression().fit(X, y), Data(X, y), 3)
    gaps = {name: [np.abs(m.predict_proba(X) - said).max() for m in models] for name, models in made.items()}
    assert max(gaps["seed"]) < 1e-3  # the solver's tolerance
    assert min(gaps["bootstrap"] + gaps["deletion"] + gaps["label noise"]) > 1e-3


def test_numbers_are_exchanged(table):
    X, _ = table
    y = 3 * X["a"] + 1
    made = changed_models(Seen, Data(X, y), 0)
    for model in made["label noise"]:
        assert (model.y != y).sum() == 4
        np.testing.assert_array_equal(np.sort(model.y), np.sort(y))
    fits = changed_models(lambda X, y, seed: LinearRegression().fit(X, y), Data(X, y), 0)
    assert all(abs(m.coef_[0] - 3) < 1e-9 for name in ("bootstrap", "seed", "deletion") for m in fits[name])
    assert all(abs(m.coef_[0] - 3) > 1e-6 for m in fits["label noise"])


def test_the_same_seed_gives_the_same_fits_and_methods_see_none_of_them(table):
    X, y = table
    data = Data(X, y, Seen)
    once, again, other = (changed_models(Seen, data, seed) for seed in (99, 99, 98))
    for name in CHANGES:
        assert all(a.X.equals(b.X) and a.y.equals(b.y) for a, b in zip(once[name], again[name], strict=True))
        assert not all(a.X.equals(b.X) and a.y.equals(b.y) for a, b in zip(once[name], other[name], strict=True))
    judged = [model for models in once.values() for model in models]
    shown = [model.inner for model in data.refits(5)]
    assert max(model.seed for model in judged) < min(model.seed for model in shown)
    with pytest.raises(ValueError, match="seed is 100"):
        changed_models(Seen, data, 100)


def test_whole_numbers_do_not_pass_for_classes_without_end(table):
    X, _ = table
    counts = pd.Series(np.arange(80))  # no bootstrap has them all
    with pytest.raises(ValueError, match="none has all 80 classes"):
        changed_models(Seen, Data(X, counts))
    with pytest.raises(ValueError, match="make the outcome a float"):
        Data(X, counts, Seen).refits(1)
    assert len(Data(X, counts.astype(float), Seen).refits(1)) == 1
