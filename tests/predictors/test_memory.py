"""Outputs that are remembered, by content: nothing is asked twice, and no other model answers."""

import sqlite3
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression, LogisticRegression

import gbce
from gbce.predictors import Memory

X, Y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
WISH = gbce.AtMost(150)
LINE = LinearRegression().fit(X, Y)


class Paid:
    """A model that charges for every row."""

    def __init__(self, identity="line 1", model=LINE):
        self.identity, self.model, self.seen = identity, model, []

    def __call__(self, frame):
        self.seen += [row.tobytes() for row in frame.to_numpy(float)]
        return self.model.predict(frame)

    @property
    def rows(self):
        return len(self.seen)


def explain(model, row=0, rows=300, **options):
    return gbce.Explainer(model, X, **options).explain(X.iloc[row], WISH, seed=0, max_model_rows=rows)


def test_few_rows_are_never_asked_twice_in_one_call():
    model = Paid()
    found = explain(model)
    assert model.rows == len(set(model.seen)) == found.n_model_rows


def test_nothing_is_asked_twice_across_calls_and_explainers(tmp_path):
    first, again = Paid(), Paid()
    before = explain(first, rows=150, cache=tmp_path / "outputs.sqlite")
    after = explain(again, rows=150, cache=tmp_path / "outputs.sqlite")
    both = set(again.seen) & set(first.seen)
    assert len(both) <= 3  # which are compared, once
    assert first.rows == len(set(first.seen))
    assert after.answer.cost <= before.answer.cost * 1.02


def test_a_posterior_is_the_same_from_a_cache_and_asks_nothing(tmp_path):
    path = tmp_path / "outputs.sqlite"

    def ask(model):
        explainer = gbce.Explainer(model, X, sampler=gbce.Importance(800, 200), cache=path, policy=None)
        return explainer.explain(X.iloc[3], WISH, rules=[gbce.MAP(polish=False)], seed=0)

    first, again = Paid(), Paid()
    one, other = ask(first), ask(again)
    np.testing.assert_array_equal(one.draws.x, other.draws.x)
    np.testing.assert_array_equal(one.draws.loss, other.draws.loss)
    assert first.rows > 800
    assert again.rows == 3


def test_another_model_never_answers(tmp_path):
    path = tmp_path / "outputs.sqlite"
    explain(Paid(), cache=path)
    other = LinearRegression().fit(X, -Y)
    fresh = Paid("line 2", other)
    explain(fresh, cache=path, rows=100)
    assert fresh.rows == len(set(fresh.seen)) > 50
    with pytest.raises(ValueError, match="are not those of this model"):
        explain(Paid("line 1", other), cache=path)


def test_a_refit_in_place_is_another_model(tmp_path):
    model = LinearRegression().fit(X, Y)
    explainer = gbce.Explainer(model, X, cache=tmp_path / "outputs.sqlite")
    before = explainer.explain(X.iloc[0], WISH, seed=0, max_model_rows=100)
    model.fit(X, Y + 40.0)
    after = explainer.explain(X.iloc[0], WISH, seed=0, max_model_rows=100)
    assert after.query.row.outputs[0, 0] == pytest.approx(before.query.row.outputs[0, 0] + 40.0)
    assert model.predict(after.answer.row)[0] <= 150


def test_a_function_needs_an_identity(tmp_path):
    with pytest.raises(ValueError, match=r"cannot be recognised by its content.*model.identity = "):
        gbce.Explainer(lambda rows: LINE.predict(rows), X, cache=tmp_path / "outputs.sqlite")


def test_decisions_of_classifiers_are_kept_as_well(tmp_path):
    model = LogisticRegression(max_iter=2_000).fit(X, Y > 140)
    path = tmp_path / "outputs.sqlite"
    found = [
        gbce.Explainer(model, X, cache=path).explain(
            X.iloc[1], gbce.Class(True), rules=[gbce.Nearest()], seed=0, posterior=False, max_model_rows=200
        )
        for _ in "ab"
    ]
    with sqlite3.connect(path) as file:
        kinds = dict(file.execute("SELECT kind, count(*) FROM outputs GROUP BY kind").fetchall())
    assert set(kinds) == {"output", "decision"}
    assert bool(model.predict(found[1].answer.row)[0]) is True


def test_known_outputs_of_the_data_are_not_asked():
    model = Paid(identity="")
    explain(model, outputs=LINE.predict(X))
    assert not set(model.seen) & {row.tobytes() for row in X.drop(index=0).to_numpy(float)}
    with pytest.raises(ValueError, match=r"each of the 442 rows of data"):
        gbce.Explainer(model, X, outputs=[1.0, 2.0])


def test_a_file_survives_a_kill(tmp_path):
    path = tmp_path / "outputs.sqlite"
    script = f"""
        import os, signal, gbce
        from sklearn.datasets import load_diabetes
        from sklearn.linear_model import LinearRegression
        X, Y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
        line, calls = LinearRegression().fit(X, Y), []
        def model(frame):
            calls.append(len(frame))
            if len(calls) == 6:
                os.kill(os.getpid(), signal.SIGKILL)
            return line.predict(frame)
        model.identity = "line 1"
        gbce.Explainer(model, X, cache={str(path)!r}).explain(
            X.iloc[0], gbce.AtMost(150), seed=0, max_model_rows=300)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, check=False)
    assert done.returncode == -9
    with sqlite3.connect(path) as file:
        ((kept,),) = file.execute("SELECT count(*) FROM outputs").fetchall()
    assert kept > 50
    killed, undisturbed = Paid(), Paid()
    found = explain(killed, cache=path)
    explain(undisturbed)
    assert found.answer.reached
    assert len(set(undisturbed.seen) - set(killed.seen)) >= kept - 3


def test_a_file_of_something_else_is_refused(tmp_path):
    text, other = tmp_path / "text.sqlite", tmp_path / "other.sqlite"
    text.write_text("no file of outputs " * 100)
    with sqlite3.connect(other) as file:
        file.execute("CREATE TABLE mine (a INTEGER)")
    for path in (text, other):
        with pytest.raises(ValueError, match="is not a file of outputs, or is damaged"):
            gbce.Explainer(Paid(), X, cache=path)
    with pytest.raises(ValueError, match="is not a file in an existing folder"):
        gbce.Explainer(Paid(), X, cache=tmp_path / "nowhere" / "outputs.sqlite")
    with pytest.raises(TypeError, match="path of a file"):
        gbce.Explainer(Paid(), X, cache=3)


def test_a_damaged_output_is_noticed(tmp_path):
    path = tmp_path / "outputs.sqlite"
    explain(Paid(), cache=path, rows=100)
    with sqlite3.connect(path) as file:
        file.execute("UPDATE outputs SET output = x'00'")
    with pytest.raises(ValueError, match="damaged"):
        explain(Paid(), cache=path, rows=100)
    with sqlite3.connect(path) as file:
        file.execute("UPDATE outputs SET output = ?", (np.array([np.nan]).tobytes(),))
    with pytest.raises(ValueError, match="damaged"):
        explain(Paid(), cache=path, rows=100)


def test_several_may_make_the_file_at_once(tmp_path):
    together = threading.Barrier(8)

    def make(path):
        together.wait()
        Memory("model", path).learn("output", np.ones((1, 2)), [1.0])

    with ThreadPoolExecutor(8) as pool:
        for number in range(6):
            list(pool.map(make, [tmp_path / f"{number}.sqlite"] * 8))


def test_equal_rows_are_one_row():
    memory, asked = Memory(), []

    def compute(rows):
        asked.append(rows)
        return np.nansum(rows, axis=1)

    x = np.array([[0.0, 1.0], [-0.0, 1.0], [np.nan, 2.0], [-np.nan, 2.0], [0.0, 1.0]])
    np.testing.assert_array_equal(memory.recall("output", x, compute), [1.0, 1.0, 2.0, 2.0, 1.0])
    assert [len(rows) for rows in asked] == [2]
    assert memory.are_new("output", np.array([[0.0, 1.0], [3.0, 1.0]])).tolist() == [False, True]
