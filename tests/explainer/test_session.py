"""An explainer has the documented names only; runs of a session need no threads; a model's errors stay its own."""

import re
import threading
import traceback
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import gbce

ROOT = Path(__file__).parents[2]
DATA = np.random.default_rng(0).normal(size=(80, 2))
QUICK = gbce.SMC(n_candidates=500, n_draws=100)
MOST_FRAMES = 2  # of the package, in a traceback: the method that was called


def total(rows):
    return rows.sum(axis=1)


def paid_total(rows):
    return rows.sum(axis=1)


paid_total.cost_per_call = True


def test_an_explainer_has_the_documented_names_and_no_others():
    documented = set(re.findall(r"`Explainer\.(\w+)", (ROOT / "docs" / "reference.md").read_text()))
    assert {name for name in dir(gbce.Explainer(total, DATA)) if not name.startswith("_")} == documented
    assert {"explain", "explain_many", "given", "decide"} <= documented


@pytest.mark.parametrize("name", ["policy", "sampler", "space"])
def test_an_option_that_is_set_later_is_not_ignored_silently(name):
    with pytest.raises(AttributeError, match=name):
        setattr(gbce.Explainer(total, DATA), name, None)


def test_a_search_without_a_posterior_leaves_the_explainer_as_it_was():
    explainer = gbce.Explainer(total, DATA, sampler=QUICK)
    before = explainer.explain(DATA[0], gbce.AtLeast(2), seed=0)
    searched = explainer.explain(DATA[0], gbce.AtLeast(2), seed=0, posterior=False)
    after = explainer.explain(DATA[0], gbce.AtLeast(2), seed=0)
    assert dict(searched.query.settings)["sampler"].startswith("SearchOnly")
    assert before.query.settings == after.query.settings != searched.query.settings
    np.testing.assert_array_equal(before.draws.x, after.draws.x)


def test_rows_and_their_tasks_run_without_threads_unless_calls_are_paid_for(monkeypatch):
    started = []
    start = threading.Thread.start
    monkeypatch.setattr(threading.Thread, "start", lambda thread: started.append(type(thread)) or start(thread))
    tables = {}
    for model in (total, paid_total):
        explainer = gbce.Explainer(model, DATA, sampler=QUICK)
        tables[model] = explainer.explain_many(DATA[:3], gbce.AtLeast(2), rules=["MAP"], seed=0, progress=False)
        assert (threading.Thread in started) == (model is paid_total)  # a progress bar has a class of its own
    free, paid = tables[total], tables[paid_total]
    pd.testing.assert_frame_equal(free.distribution, paid.distribution, check_exact=True)
    pd.testing.assert_frame_equal(free.counterfactuals, paid.counterfactuals, check_exact=True)
    assert paid.n_model_calls < free.n_model_calls / 2


class Fragile:
    """A model that fails after some calls."""

    def __init__(self, n, cost_per_call=False):
        self.left, self.cost_per_call = n, cost_per_call

    def __call__(self, rows):
        self.left -= 1
        if self.left < 0:
            raise KeyError("no such column")
        return rows.sum(axis=1)


def own_frames(error):
    """Return the files of the package in the traceback of an error."""
    return [one for one in traceback.extract_tb(error.__traceback__) if "gbce" in Path(one.filename).parts]


CALLS = {
    "explain": lambda explainer: explainer.explain(DATA[0], gbce.AtLeast(2), seed=0),
    "explain_many": lambda explainer: explainer.explain_many(
        DATA[:3], gbce.AtLeast(2), seed=0, on_error="raise", progress=False
    ),
    "sensitivity": lambda explainer: explainer.sensitivity(DATA[0], gbce.AtLeast(2), n_rows=1, n_null=1, seed=0),
    "time_budget": lambda explainer: explainer.explain(DATA[0], gbce.AtLeast(2), seed=0, time_budget=1e6),
}


@pytest.mark.parametrize("cost_per_call", [False, True])
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("n", [2, 12])
def test_an_error_of_the_model_shows_its_own_traceback_and_little_of_ours(n, call, cost_per_call):
    explainer = gbce.Explainer(Fragile(n, cost_per_call), DATA, sampler=QUICK)
    with pytest.raises(gbce.PredictionError, match=r"the model raised KeyError: 'no such column'") as raised:
        CALLS[call](explainer)
    error, cause = raised.value, raised.value.__cause__
    assert isinstance(cause, KeyError)
    assert traceback.extract_tb(cause.__traceback__)[-1].name == "__call__"
    assert not own_frames(cause)
    assert len(own_frames(error)) <= MOST_FRAMES
    shown = "".join(traceback.format_exception(error))
    assert shown.count("KeyError: 'no such column'") == 2  # the model's own error, and ours that names it


def test_a_follow_up_question_is_as_brief():
    explainer = gbce.Explainer(model := Fragile(10**6), DATA, sampler=QUICK)
    explanation = explainer.explain(DATA[0], gbce.AtLeast(2), rules=["MAP"], seed=0)
    model.left = 3
    for ask in (lambda: explainer.given(explanation, keep=["x1"]), lambda: explainer.frontier(explanation)):
        with pytest.raises(gbce.PredictionError) as raised:
            ask()
        assert len(own_frames(raised.value)) <= MOST_FRAMES
        model.left = 3
