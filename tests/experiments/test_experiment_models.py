"""Simulated data have the stated law, leaderboards are sorted and repeatable, a cache is used only when it fits."""

import json
import sys
import time

import numpy as np
import pytest
from scipy import stats

from experiments import automl as searching
from experiments import models
from experiments.automl import automl
from experiments.data import simulated
from experiments.models import ESTIMATORS, Entry, Leaderboard, Settled, fixed, refitted

FOUND = {
    "rf": Settled(0.2, {"n_estimators": 5, "random_state": 1}),
    "enet": Settled(0.1, {"alpha": 0.5, "selection": "cyclic"}),
}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(119, 2))
    return X, X[:, 0] ** 2 + X[:, 1] + rng.normal(scale=0.1, size=119)


@pytest.fixture
def searched(monkeypatch):
    """Replace the search by one that finds `FOUND` at once; the list says what was searched."""
    log = []

    def searches(X, y, names, budget, seed):
        log.extend(names)
        return iter([FOUND[name] for name in names])

    monkeypatch.setattr(searching, "_searches", searches)
    return log


# --- data ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("d", "n", "sd"), [(2, 3_000, 0.3), (10, 4_000, 0.5)])
def test_simulated_data_have_the_stated_law(d, n, sd):
    data = simulated(d)
    assert data.X.shape == (n, d)
    assert data.y.shape == (n,)
    noise = data.y - data.true_function(data.X)
    for column in (*data.X.T, noise / sd):  # 2 of 10,000 true laws would fail, and the seed is fixed
        assert stats.kstest(column, "norm").pvalue > 1e-4
        assert abs(column.mean()) < 4 / np.sqrt(n)
        assert abs(column.std() - 1) < 4 / np.sqrt(2 * n)
    together = np.corrcoef(np.column_stack([data.X, noise]), rowvar=False)
    assert np.abs(together - np.eye(d + 1)).max() < 4.5 / np.sqrt(n)  # independent inputs and noise
    assert np.mean(data.y <= data.y_star) == pytest.approx(0.9, abs=1 / n)


def test_true_functions_are_those_of_the_paper():
    x = np.arange(1.0, 11.0)[None, :] / 10
    two = 2 * np.sin(0.1) + 0.8 * 0.04 - 1.2 * 0.1 * 0.2
    ten = 1.5 * np.sin(0.1) + 0.8 * 0.04 - 0.1 * 0.3 + 0.5 * 0.4 + 0.3 * (0.5 + 0.6 + 0.7)
    assert simulated(2).true_function(x[:, :2]) == pytest.approx([two])
    assert simulated(10).true_function(x) == pytest.approx([ten])


def test_order_of_random_numbers_is_inputs_then_noise():
    rng = np.random.default_rng(7)
    data = simulated(2, seed=7)
    np.testing.assert_array_equal(data.X, rng.normal(size=(3_000, 2)))
    np.testing.assert_array_equal(data.y, data.true_function(data.X) + rng.normal(scale=0.3, size=3_000))


def test_other_dimensions_are_refused():
    with pytest.raises(ValueError, match="2 and in 10 dimensions, not in 3"):
        simulated(3)


# --- fixed models -------------------------------------------------------------------------------------------------


def test_fixed_leaderboard_is_sorted_repeatable_to_the_bit_and_cross_validated(rows, monkeypatch):
    from sklearn.model_selection import KFold, cross_val_score

    X, y = rows
    for forest in ("rf", "extra_tree"):
        monkeypatch.setitem(models.FIXED, forest, models.FIXED[forest] | {"n_estimators": 10})  # fewer, for time
    board, again = fixed(X, y), fixed(X, y)
    mse = board.frame()["mse"]
    assert mse.is_monotonic_increasing
    assert set(board.frame()["model"]) <= set(ESTIMATORS.values())
    assert [(e.name, e.mse) for e in board.entries] == [(e.name, e.mse) for e in again.entries]
    for one, other in zip(board.entries, again.entries, strict=True):
        np.testing.assert_array_equal(one.model.predict(X), other.model.predict(X))
        assert np.mean((one.model.predict(X) - y) ** 2) < one.mse < 0.5 * y.var()
    folds = KFold(5, shuffle=True, random_state=42)
    (light,) = (e for e in board.entries if e.name == "lgbm")
    scores = cross_val_score(light.model, X, y, cv=folds, scoring="neg_mean_squared_error")
    assert light.mse == pytest.approx(-scores.mean(), rel=1e-12)


def test_fixed_models_come_near_the_leaderboard_of_the_paper():
    data = simulated(2)
    top = fixed(data.X, data.y).top(3)
    # their order is a matter of the data's seed
    assert {e.name for e in top} <= {"extra_tree", "xgb_limitdepth", "lgbm", "xgboost", "histgb"}
    # an MSE of 3,000 rows in five folds: squared normal errors alone give a relative SD of sqrt(2 / 3000) = 2.6%
    assert [e.mse for e in top] == pytest.approx([0.146, 0.152, 0.157], rel=0.1)


def test_leaderboard_says_how_many_models_it_has():
    board = Leaderboard((Entry("rf", "Random Forest", 0.5, {}, None),))
    assert board.top(1) == (board.best,)
    with pytest.raises(ValueError, match="has 1 models, so k cannot be 3"):
        board.top(3)


def test_refits_rank_the_same_settings_on_other_rows(rows, monkeypatch):
    monkeypatch.setattr(models, "REFITTED", 3)
    for forest in ("rf", "extra_tree"):
        monkeypatch.setitem(models.FIXED, forest, models.FIXED[forest] | {"n_estimators": 10})
    board = fixed(*rows)
    X = np.random.default_rng(4).normal(size=(119, 2))
    again = refitted(board, X, X[:, 0] ** 2 + X[:, 1], seed=43)
    assert {e.name for e in again.entries} == {e.name for e in board.top(3)}
    assert again.frame()["mse"].is_monotonic_increasing
    assert all(e.config["random_state"] == 43 for e in again.entries)
    assert all(e.mse != {b.name: b.mse for b in board.entries}[e.name] for e in again.entries)


# --- AutoML -------------------------------------------------------------------------------------------------------


def test_a_search_is_kept_and_its_model_rebuilt_to_the_bit(rows, searched, tmp_path):
    board = automl(*rows, names=["rf", "enet"], cache=tmp_path / "new")
    assert searched == ["rf", "enet"]
    assert [(e.label, e.mse) for e in board.entries] == [("ElasticNet", 0.1), ("Random Forest", 0.2)]
    assert not list((tmp_path / "new").glob(".*"))  # no partial files stay
    again = automl(*rows, names=["enet", "rf"], cache=tmp_path / "new")
    assert searched == ["rf", "enet"]
    for one, other in zip(board.entries, again.entries, strict=True):
        assert (one.name, one.mse, one.config) == (other.name, other.mse, other.config)
        np.testing.assert_array_equal(one.model.predict(rows[0]), other.model.predict(rows[0]))


def test_another_seed_budget_data_or_version_is_searched_again(rows, searched, tmp_path, monkeypatch):
    X, y = rows
    nudged = y + np.eye(len(y))[5] * 1e-12

    def run(y=y, **options):
        searched.clear()
        automl(X, y, names=["enet"], cache=tmp_path, **options)
        return searched == ["enet"]

    assert run()
    assert not run()
    assert run(seed=43)
    assert run(budget=24.0)
    assert run(y=nudged)
    assert not run()  # and the first one is still there
    monkeypatch.setattr("sklearn.__version__", "0")
    assert run()


def test_damaged_files_are_searched_again_and_replaced(rows, searched, tmp_path):
    automl(*rows, names=["enet"], cache=tmp_path)
    (path,) = tmp_path.iterdir()
    whole = path.read_text()
    other = json.loads(whole)
    other["config"]["alpha"] = 0.7
    other_settings = json.loads(whole)
    other_settings["settings"]["seed"] = 1
    other_settings["digest"] = searching._digest({k: v for k, v in other_settings.items() if k != "digest"})
    damaged = [whole[:-30], "", "[]", "null", "{}", json.dumps(other), json.dumps(other_settings), "\x00\xff"]
    for text in damaged:
        searched.clear()
        path.write_text(text)
        assert automl(*rows, names=["enet"], cache=tmp_path).best.config == FOUND["enet"][1]
        assert searched == ["enet"], text
        assert path.read_text() == whole
    path.write_bytes(b"\xff\xfe")
    automl(*rows, names=["enet"], cache=tmp_path)
    assert path.read_text() == whole


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "model.json"
    searching._write(path, {}, FOUND["rf"])
    before = path.read_text()

    def full_disk(self, text):
        self.open("w").close()
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr("pathlib.Path.write_text", full_disk)
        with pytest.raises(OSError, match="no space"):
            searching._write(path, {}, FOUND["enet"])
    assert [p.name for p in tmp_path.iterdir()] == ["model.json"]
    assert path.read_text() == before


def test_flaml_searches_and_its_own_model_is_rebuilt_to_the_bit(rows, monkeypatch, tmp_path):
    import flaml

    runs = {}

    class Kept(flaml.AutoML):
        def fit(self, **options):
            assert (options["eval_method"], options["n_splits"], options["metric"]) == ("cv", 5, "mse")
            assert (options["time_budget"], options["seed"]) == (1, 42)
            super().fit(**options)
            runs[options["estimator_list"][0]] = self

    monkeypatch.setattr(flaml, "AutoML", Kept)
    one_process = lambda X, y, names, budget, seed: [searching._search(X, y, n, budget, seed) for n in names]  # noqa: E731
    monkeypatch.setattr(searching, "_searches", one_process)
    board = automl(*rows, budget=1, names=["rf", "sgd"], cache=tmp_path)
    assert board.best.name == "rf"
    for entry in board.entries:
        np.testing.assert_array_equal(entry.model.predict(rows[0]), runs[entry.name].predict(rows[0]))
        assert entry.mse == runs[entry.name].best_loss


def test_flaml_searches_in_processes_of_its_own(rows, tmp_path):
    board = automl(*rows, budget=1, names=["lgbm", "xgb_limitdepth"], cache=tmp_path)
    assert sorted(e.name for e in board.entries) == ["lgbm", "xgb_limitdepth"]
    assert board.best.mse < rows[1].var()


def test_without_flaml_the_extra_is_named(rows, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "flaml", None)
    with pytest.raises(ImportError, match=r"need flaml: pip install 'gbce\[paper\]'"):
        automl(*rows, cache=tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget": 0}, "budget must be a positive number of seconds, not 0"),
        ({"names": ["lgbm", "catboost"]}, r"not \['catboost'\]"),
        ({"names": []}, "not none of them"),
    ],
)
def test_bad_options_are_sentences(rows, tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        automl(*rows, cache=tmp_path, **options)


def test_bad_rows_are_sentences():
    with pytest.raises(ValueError, match=r"X must be \(n, d\) and y \(n,\), not \(20, 2\) and \(19,\)"):
        fixed(np.zeros((20, 2)), np.zeros(19))
    with pytest.raises(ValueError, match="9 rows are too few"):
        fixed(np.zeros((9, 2)), np.zeros(9))


def test_a_search_counts_the_work_of_its_process_and_not_its_waiting():
    wall = time.time
    with searching._processor_time():
        begun = time.time()
        time.sleep(0.5)
        waited = time.time() - begun
        worked = time.process_time()
        while time.process_time() < worked + 0.2:
            pass
        assert waited < 0.25
        assert time.time() - begun == pytest.approx(waited + 0.2, abs=0.1)
    assert time.time is wall
