"""The live page: messages in, messages out, with a real model behind; and its form in a browser."""

import sys

import comm
import numpy as np
import pytest
from comm.base_comm import BaseComm

import gbce
from gbce.pages._widget import _make_widget_class
from support.credit_book import credit_book, worth

DATA = credit_book()
ROW = 5


class Wire(BaseComm):
    """A wire to nowhere that remembers what was sent over it."""

    def __init__(self, *arguments, **options):
        self.sent = []
        super().__init__(*arguments, **options)

    def publish_msg(self, msg_type, data=None, metadata=None, buffers=None, **_):
        self.sent.append((msg_type, data))


@pytest.fixture(scope="module")
def explained():
    explainer = gbce.Explainer(worth, DATA, sampler=gbce.Importance(n_candidates=2_000, n_draws=300))
    wanted = float(worth(DATA.iloc[[ROW]])[0]) + 1.0
    return explainer, explainer.explain(DATA.iloc[ROW], gbce.AtLeast(wanted), rules=["MAP"], seed=0)


@pytest.fixture
def live(explained, monkeypatch):
    monkeypatch.setattr(comm, "create_comm", Wire)
    return explained[0].widget(explained[1])


def ask(widget, **message):
    before = len(widget.comm.sent)
    widget.comm.handle_msg({"content": {"data": {"method": "custom", "content": message}}, "buffers": []})
    sent = [data for kind, data in widget.comm.sent[before:] if kind == "comm_msg"]
    (reply,) = [data["content"] for data in sent if data["method"] == "custom"]
    updates = {name for data in sent if data["method"] == "update" for name in data["state"]}
    return reply, updates


def test_a_value_is_put_to_the_model(live):
    row = DATA.iloc[[ROW]].copy()
    row["income"] = 9_000.0
    reply, updates = ask(live, id="1", ask="value", values={"income": 9_000})
    assert (reply["id"], reply["ok"]) == ("1", True)
    assert reply["figures"]["output"] == pytest.approx(float(worth(row)[0]))
    assert reply["reached"] == bool(worth(row)[0] >= live.explanation.target.y)
    assert updates == set()  # nothing but the sentence changes


def test_what_is_held_is_sampled_anew(live, explained):
    explainer, explanation = explained
    reply, updates = ask(live, id="2", ask="given", keep=["income"], between={"debt_ratio": [None, 0.4]})
    want = explainer.given(explanation, keep=["income"], at_most={"debt_ratio": 0.4})
    assert reply["ok"]
    assert live.explanation.conditions == want.conditions
    np.testing.assert_array_equal(live.explanation.draws.x, want.draws.x)
    assert {"page", "sentence"} <= updates
    assert live.sentence == str(want.answer)
    assert ask(live, id="3", ask="reset")[0]["ok"]
    assert live.explanation is explanation


def test_an_edited_row_is_explained_as_a_row_of_its_own(live, explained):
    explainer, explanation = explained
    j = explanation.space.names.index("job")
    level = (int(explanation.x0[j]) + 1) % len(explanation.space.features[j].levels)
    reply, updates = ask(live, id="4", ask="explain", values={"income": 4_000, "job": level, "since": "2021-03-04"})
    row = DATA.iloc[[ROW]].copy()
    row["income"], row["since"] = 4_000.0, np.datetime64("2021-03-04")
    row["job"] = explanation.space.features[j].levels[level]
    want = explainer.explain(row, explanation.target, rules=["MAP"], seed=explanation.seed)
    assert reply["ok"]
    np.testing.assert_array_equal(live.explanation.x0, want.x0)
    assert live.sentence == str(want.answer)
    assert {"page", "columns"} <= updates


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ({"ask": "dance"}, "ask must be one of"),
        ("nonsense", "ask must be one of"),
        ({"ask": ["value"]}, "ask must be one of ['value', 'given', 'explain', 'reset'], not ['value']"),
        ({"ask": {"value": 1}}, "not {'value': 1}"),
        ({}, "not None"),
        ({"ask": "value", "values": {"nope": 1}}, "there is no column 'nope'"),
        ({"ask": "value", "values": {"income": "much"}}, "'income' needs a finite number"),
        ({"ask": "value", "values": {"job": 99}}, "none at position 99"),
        ({"ask": "value", "values": {"amount": 2.7}}, "'amount' holds integers, and 2.7 is not one"),
        ({"ask": "value", "values": {"amount": None}}, "'amount' cannot be missing"),
        ({"ask": "value", "values": {"rate": float("inf")}}, "'rate' needs a finite number"),
        ({"ask": "value", "values": {"since": "soon"}}, "'since' must be times"),
        ({"ask": "given"}, "no column is held"),
        ({"ask": "given", "between": {"income": [9e9, None]}}, "income"),
    ],
)
def test_what_cannot_be_answered_is_said(live, explained, message, error):
    reply = live.asker.answer(message)
    assert reply["ok"] is False
    assert error in reply["error"]
    assert live.explanation is explained[1]


def test_without_anywidget_the_extra_is_named(explained, monkeypatch):
    _make_widget_class.cache_clear()
    monkeypatch.setitem(sys.modules, "anywidget", None)
    with pytest.raises(ImportError, match=r"pip install 'gbce\[widget\]'"):
        explained[0].widget(explained[1])
    _make_widget_class.cache_clear()


def test_only_explanations_have_a_widget(explained):
    with pytest.raises(TypeError, match="explanation must come from"):
        explained[0].widget("nonsense")


HOST = """<!doctype html><html lang="en"><meta charset="utf-8"><title>host</title><main id="el"></main>"""

PLAY = """async (module) => {
  const state = await window.stateOf(), listeners = {};
  window.model = {
    get: (name) => state[name], set: (name, value) => { state[name] = value; }, save_changes: () => {},
    on: (event, one) => (listeners[event] ??= new Set()).add(one), off: (event, one) => listeners[event]?.delete(one),
    send: async (message) => {
      const reply = await window.toPython(message), after = await window.stateOf();
      for (const name of Object.keys(after)) {
        if (JSON.stringify(after[name]) === JSON.stringify(state[name])) continue;
        state[name] = after[name];
        listeners[`change:${name}`]?.forEach((one) => one());
      }
      listeners["msg:custom"]?.forEach((one) => one(reply, []));
    },
  };
  const { default: widget } = await import(URL.createObjectURL(new Blob([module], { type: "text/javascript" })));
  window.stop = widget.render({ model: window.model, el: document.getElementById("el") });
}"""


def test_the_form_asks_and_shows_what_comes_back(live, browser, explained):
    page = browser.new_page()
    wrong = []
    page.on("console", lambda message: wrong.append(message.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.expose_function("toPython", lambda message: ask(live, **message)[0])
    page.expose_function("stateOf", lambda: {name: getattr(live, name) for name in ("page", "columns", "sentence")})
    page.set_content(HOST)
    page.add_style_tag(content=live._css)
    page.evaluate(PLAY, live._esm)
    assert page.locator(".gbce-sentence").text_content() == str(explained[1].answer)
    names = page.locator(".gbce-live tbody th").all_text_contents()
    assert names == list(explained[1].space.names)
    assert page.get_by_role("button", name="Ask the model").is_disabled()
    page.get_by_label("set income").fill("9000")
    page.get_by_role("button", name="Ask the model").click()
    page.locator(".gbce-said.good").wait_for()
    row = DATA.iloc[[ROW]].copy()
    row["income"] = 9_000.0
    said = explained[1].target.say(float(worth(row)[0]), True)
    assert page.locator(".gbce-said").text_content() == f"The model then {said}."
    page.get_by_label("set income").fill("")
    page.get_by_label("hold income").select_option("keep")
    page.get_by_label("hold debt_ratio").select_option("between")
    page.get_by_label("to debt_ratio").fill("0.4")
    page.get_by_role("button", name="Sample again").click()
    page.wait_for_function("document.querySelector('.gbce-said').textContent.startsWith('Sampled again')")
    assert page.locator(".gbce-sentence").text_content() == str(live.explanation.answer)
    inside = page.frame_locator(".gbce-live iframe")
    assert str(live.explanation.answer) in inside.locator("#plan-sentence").text_content()
    page.get_by_role("button", name="Start over").click()
    page.wait_for_function("document.querySelector('.gbce-said').textContent.startsWith('Back')")
    assert live.explanation is explained[1]
    page.evaluate("window.stop()")
    page.close()
    assert wrong == []
