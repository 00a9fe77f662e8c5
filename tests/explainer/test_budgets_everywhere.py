"""Whatever asks a model takes ``max_model_rows`` and ``time_budget``, and keeps to them."""

import copy
import inspect
import warnings

import numpy as np
import pandas as pd
import pytest

import gbce
from gbce.budget import BudgetSpentError
from support.clock import Clock

DATA = np.random.default_rng(0).normal(size=(300, 4))
SPACE = gbce.Space.real(4)
ROW = DATA[0]
NUMBER = gbce.AtLeast(2.0, scale=1, tolerance=0.1)
OPEN = gbce.AtLeast(2.0)  # its scale is read off the data
LABEL = gbce.Class("yes")
BLINK = 0.05  # seconds: a batch may end so much after the deadline
N_MANY = 2
KNOWN = {}


class Counting:
    """A model that counts its rows and moves a clock; for a class, one whose predict has a threshold of its own."""

    classes_ = np.array(["no", "yes"])

    def __init__(self, clock, slope=1.0):
        self.clock, self.slope, self.rows = clock, slope, 0

    def count(self, x):
        x = np.asarray(x)
        self.rows += len(x)
        self.clock.time += 1e-3 * len(x)
        return self.slope * x[:, 0] + x[:, 1:].sum(axis=1)

    def predict_proba(self, x):
        p = 1 / (1 + np.exp(-self.count(x)))
        return np.column_stack([1 - p, p])

    def predict(self, x):
        return self.classes_[(self.predict_proba(x)[:, 1] > 0.8).astype(int)]


class World:
    """An explainer whose models count, an explanation of its own, and everything that it can be asked."""

    def __init__(self, clock, target):
        self.clock, self.target = clock, target
        models = [Counting(clock, slope) for slope in (1.0, 0.8, 1.0, 1.2)]
        ready = models if target is LABEL else [model.count for model in models]
        self.models, self.others = models, ready[1:]
        self.explainer = gbce.Explainer(ready[0], DATA, space=SPACE)
        self.other = gbce.Explainer(ready[0], DATA, space=SPACE)  # one that has not set anything up

    @classmethod
    def knowing(cls, clock, target):
        """One that has explained the row; the run is made once for each target, and its state copied."""
        if target not in KNOWN:
            world = cls(clock, target)
            world.known = world.explainer.explain(ROW, target, rules=[gbce.Mean(), gbce.Medoid()], seed=0)
            KNOWN[target] = world
        return copy.deepcopy(
            KNOWN[target], {id(KNOWN[target].clock): clock, id(KNOWN[target].known): KNOWN[target].known}
        )

    @property
    def rows(self):
        return sum(model.rows for model in self.models)

    def ask(self, name, **limits):
        """Ask; return the answer, or the error, and how many rows and seconds it took."""
        rows, start = self.rows, self.clock.time
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="frontier: the budget ran out")
                answer = ASKED[name](self, **limits)
        except BudgetSpentError as error:
            answer = error
        return answer, self.rows - rows, self.clock.time - start


ASKED = {
    "explain": lambda w, **k: w.other.explain(ROW, w.target, seed=0, **k),
    "explain_many": lambda w, **k: w.other.explain_many(
        DATA[:N_MANY], w.target, seed=0, progress=False, on_error="raise", **k
    ),
    "decide CVaR": lambda w, **k: w.explainer.decide(w.known, gbce.CVaR(), **k),
    "decide ChanceConstrained": lambda w, **k: w.explainer.decide(w.known, gbce.ChanceConstrained(), **k),
    "decide DirectOpt": lambda w, **k: w.explainer.decide(w.known, gbce.DirectOpt(), **k),
    "decide MAP": lambda w, **k: w.explainer.decide(w.known, gbce.MAP(), **k),
    "given": lambda w, **k: w.explainer.given(w.known, keep=[SPACE.names[-1]], **k).pointwise,
    "plan": lambda w, **k: w.explainer.plan(w.known, to="Medoid", **k).table,  # of several changes
    "assess": lambda w, **k: w.explainer.assess(w.known, w.known.counterfactuals, **k),
    "survival": lambda w, **k: w.explainer.survival(w.known, w.others, **k),
    "metrics.survival": lambda w, **k: gbce.metrics.survival(w.known, w.others, **k),
    "frontier": lambda w, **k: w.explainer.frontier(w.known, **k),
    "frontier of others": lambda w, **k: w.explainer.frontier(
        w.known, noise=0.1, models=w.others, unseen=w.others[:1], **k
    ),
    "sensitivity": lambda w, **k: w.other.sensitivity(ROW, w.target, n_rows=2, n_null=2, seed=0, **k).table,
}
LEAST = {  # rows with which there is an answer to a plain target, whatever it is
    "explain": 3, "explain_many": 3, "decide CVaR": 100, "decide ChanceConstrained": 400, "decide DirectOpt": 300,
    "decide MAP": 1, "given": 5, "plan": 100, "assess": 3, "survival": 7, "metrics.survival": 6, "frontier": 10,
    "frontier of others": 1_500, "sensitivity": 30,
}  # fmt: skip


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("gbce.budget._now", clock)
    return clock


def test_every_method_that_asks_a_model_is_here():
    """Those that ask none are named; a new one belongs to one of the two."""
    names = {name for name, _ in inspect.getmembers(gbce.Explainer, inspect.isfunction) if not name.startswith("_")}
    without = {"listed_rules", "prepare", "rows_to_prepare", "ask_about_data", "explain_encoded", "own_posterior"}
    without |= {"posterior_of", "prepare_refits", "listed_target", "read_models"}
    without |= {"safe_box", "widget"}  # which ask little, once, or when somebody presses a button
    assert names - without == {name.split()[0] for name in ASKED} - {"metrics.survival"}
    for ask in (*(getattr(gbce.Explainer, name) for name in names - without), gbce.metrics.survival):
        options = inspect.signature(ask).parameters
        for limit in ("max_model_rows", "time_budget"):
            assert (options[limit].kind, options[limit].default) == (inspect.Parameter.KEYWORD_ONLY, None), ask


@pytest.mark.parametrize("target", [NUMBER, OPEN, LABEL], ids=["number", "open scale", "class"])
@pytest.mark.parametrize("name", ASKED)
def test_no_more_rows_are_asked_than_are_allowed(clock, name, target):
    world = World.knowing(clock, target)
    answers = {}
    plenty = (1_500, 5_000) if name in ("explain", "frontier of others") else (1_500,)
    limits = (1, 2, 3, 5, 10, 30, 100, 400, *plenty) if target is NUMBER else (2, 30, plenty[-1])
    for most in (2, 3, 100, 1_500) if name == "explain_many" else limits:  # each of its rows is one of explain
        world.other = gbce.Explainer(world.explainer._session.models[0], DATA, space=SPACE)
        answers[most], rows, _ = world.ask(name, max_model_rows=most)
        # explain_many has so many for each row; what is set up once is the first one's
        allowed = most if name != "explain_many" else N_MANY * most + world.other._session.rows_to_prepare(target)
        assert rows <= allowed, (most, rows)
        if isinstance(answers[most], BudgetSpentError):
            assert "raise max_model_rows" in str(answers[most])
        else:
            assert rows > 0
            # what others accept may be nothing
            assert name == "frontier of others" or len(getattr(answers[most], "draws", answers[most])) > 0
    assert not isinstance(answers[most], BudgetSpentError)
    refused = [most for most, answer in answers.items() if isinstance(answer, BudgetSpentError)]
    if target is NUMBER:
        assert refused == [most for most in answers if most < LEAST[name]]
    assert refused == list(answers)[: len(refused)]  # whoever is allowed more is not refused


@pytest.mark.parametrize("target", [NUMBER, OPEN, LABEL], ids=["number", "open scale", "class"])
@pytest.mark.parametrize("name", ASKED)
def test_time_is_overrun_by_a_batch_at_most(clock, name, target):
    world = World.knowing(clock, target)
    answers = {}
    for seconds in (1e-4, 0.02, 0.1, 0.5, 2.0, 8.0) if target is NUMBER else (1e-4, 0.1, 2.0):
        world.other = gbce.Explainer(world.explainer._session.models[0], DATA, space=SPACE)
        answers[seconds], _, passed = world.ask(name, time_budget=seconds)
        # the few rows of an answer itself may be asked when time is over
        allowed = seconds + BLINK
        if name == "explain_many":  # so much for each row; what is set up once comes before them
            allowed = N_MANY * allowed + 1e-3 * world.other._session.rows_to_prepare(target)
        assert passed <= allowed + 1e-9, (seconds, passed)
        if isinstance(answers[seconds], BudgetSpentError):
            assert "time_budget" in str(answers[seconds])
    assert not isinstance(answers[seconds], BudgetSpentError)
    assert len(getattr(answers[seconds], "draws", answers[seconds])) > 0


@pytest.mark.parametrize("name", ASKED)
def test_more_than_enough_changes_nothing(clock, name):
    world = World.knowing(clock, NUMBER)
    free, plenty = (world.ask(name, **limit)[0] for limit in ({}, {"max_model_rows": 10**7}))
    if name == "explain" or name == "explain_many":
        free, plenty = free.pointwise, plenty.pointwise
    pd.testing.assert_frame_equal(plenty, free, check_exact=True)


@pytest.mark.parametrize("bad", [float("nan"), 0, -1, "soon", True])
@pytest.mark.parametrize("limit", ["max_model_rows", "time_budget"])
@pytest.mark.parametrize("name", ["decide CVaR", "assess", "metrics.survival"])
def test_limits_that_are_none_get_a_sentence_before_anything_is_asked(clock, name, limit, bad):
    world = World.knowing(clock, NUMBER)
    before = world.rows
    sentence = f"^{limit} must be (an integer|a positive number) .*, not {bad!r}: leave it out"
    with pytest.raises(ValueError, match=sentence):
        world.ask(name, **{limit: bad})
    assert world.rows == before


# --- rows that somebody proposes -------------------------------------------------------------------------------------


def test_rows_are_assessed_without_robustness_where_the_budget_is_short(clock):
    world = World.knowing(clock, NUMBER)
    rows = DATA[:6] + 0.5
    full = world.explainer.assess(world.known, rows)
    assert full["robustness"].notna().all()
    known = [name for name in full if not name.startswith("robustness")]
    for limit in ({"max_model_rows": 7}, {"max_model_rows": 50}, {"time_budget": 1e-3}):
        short = world.explainer.assess(world.known, rows, **limit)
        assert short[["robustness", "robustness_se"]].isna().all().all()
        pd.testing.assert_frame_equal(short[known], full[known], check_exact=True)
    # one row tells whether the model is the explanation's own, and one is short
    with pytest.raises(BudgetSpentError, match="6 more model rows exceed the budget: raise max_model_rows"):
        world.explainer.assess(world.known, rows, max_model_rows=6)


def test_robustness_rests_on_fewer_copies_where_the_budget_is_shorter(clock):
    world = World.knowing(clock, NUMBER)
    rows = DATA[:6] + 0.5
    full = world.explainer.assess(world.known, rows)
    some = world.explainer.assess(world.known, rows, max_model_rows=200)
    assert some["robustness"].notna().all()
    assert (some["robustness_se"] > full["robustness_se"]).all()
    apart = (some["robustness"] - full["robustness"]).abs()
    assert (apart < 4 * np.hypot(some["robustness_se"], full["robustness_se"])).all()


# --- rules -----------------------------------------------------------------------------------------------------------


def test_a_rule_that_need_not_ask_answers_from_the_draws(clock):
    world = World.knowing(clock, NUMBER)
    (_, polishing, _), (bare, rows, _) = world.ask("decide MAP"), world.ask("decide MAP", max_model_rows=1)
    assert rows == 1 < polishing  # whether the model is the explanation's own
    pd.testing.assert_frame_equal(bare, world.known.decide(gbce.MAP()))


def test_a_rule_tries_fewer_candidates_where_the_budget_is_short(clock):
    world = World.knowing(clock, NUMBER)
    (_, free, _), (_, few, _) = world.ask("decide CVaR"), world.ask("decide CVaR", max_model_rows=2_000)
    assert 1_500 < few <= 2_000 < free
