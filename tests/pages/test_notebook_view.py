"""What a notebook shows: the page in a frame, whole; and a plain summary where frames or scripts are taken out."""

import re

import numpy as np
import pandas as pd
import pytest

import gbce

HOSTILE = "<img src=x onerror='top.hit=1'> & \"it's\""


@pytest.fixture(scope="module")
def shown():
    """An explanation and a table in which the mean of the draws, between two ways, misses the target."""
    rng = np.random.default_rng(0)
    data = pd.DataFrame({HOSTILE: rng.normal(size=60), "b": rng.normal(size=60)})
    explainer = gbce.Explainer(
        lambda f: np.abs(f[HOSTILE].to_numpy()), data, prior=gbce.Gaussian(), sampler=gbce.Importance(2_000, 300)
    )
    options = {"rules": ["Nearest", "Mean"], "seed": 0}
    rows = pd.DataFrame({HOSTILE: [0.0, 0.01], "b": [0.0, 1.0]}, index=["r", "s"])
    explanation = explainer.explain(rows.iloc[0], gbce.AtLeast(1.5, scale=0.1), **options)
    return explanation, explainer.explain_many(rows, gbce.AtLeast(1.5, scale=0.1), progress=False, **options)


def notebook(view):
    return f"<!doctype html><meta charset='utf-8'><title>notebook</title><p>In [1]:</p>{view}<p>end</p>"


@pytest.fixture
def open_view(browser, tmp_path):
    contexts, wrong = [], []

    def open_one(view, width=1000, **options):
        path = tmp_path / "notebook.html"
        path.write_text(notebook(view))
        contexts.append(browser.new_context(viewport={"width": width, "height": 700}, **options))
        page = contexts[-1].new_page()
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(path.as_uri())
        return page

    yield open_one
    for one in contexts:
        one.close()
    assert wrong == []


CLIPPED = """() => {
  const frame = document.querySelector("iframe"), inside = frame.contentDocument.documentElement;
  return [inside.scrollHeight - frame.clientHeight, inside.scrollWidth - frame.clientWidth];
}"""


@pytest.mark.parametrize("which", [0, 1], ids=["explanation", "table"])
@pytest.mark.parametrize("width", [390, 1000])
def test_the_frame_is_as_high_as_its_page_and_clips_nothing(shown, open_view, which, width):
    page = open_view(shown[which]._repr_html_(), width)
    page.wait_for_function("document.querySelector('iframe').previousElementSibling.hidden")
    page.wait_for_timeout(200)
    below, beside = page.evaluate(CLIPPED)
    assert below <= 0
    assert beside <= 0
    sentence = shown[0].answer.sentence if which == 0 else "2 rows, wanted: at least 1.5"
    assert sentence in page.frame_locator("iframe").locator("main").text_content()
    assert page.evaluate("window.hit") is None
    assert page.frame_locator("iframe").locator("img").count() == 0


def test_all_of_a_framed_page_is_laid_out_so_that_it_keeps_its_height(shown, open_view):
    page = open_view(shown[0]._repr_html_(), 860)
    page.wait_for_function("document.querySelector('iframe').previousElementSibling.hidden")
    height = "document.querySelector('iframe').clientHeight"
    page.wait_for_timeout(200)
    before = page.evaluate(height)
    inside = page.frame_locator("iframe")
    inside.locator("details.part").evaluate_all("all => all.forEach((one) => { one.open = true; })")
    page.wait_for_function(f"document.querySelector('iframe').clientHeight > {2 * before}")
    page.wait_for_timeout(200)
    before = page.evaluate(height)
    for part in ("rules", "importance", "trade", "receipt", "quality"):
        assert inside.locator(f"#{part} h2").inner_text()  # not skipped, though far out of sight
        inside.locator(f"#{part}").scroll_into_view_if_needed()
    assert page.evaluate(height) == before


def test_a_cell_shows_the_card_and_the_rest_behind_a_click(shown, open_view):
    explanation, _ = shown
    page = open_view(explanation._repr_html_(), 860)
    page.wait_for_function("document.querySelector('iframe').previousElementSibling.hidden")
    page.wait_for_timeout(200)
    assert page.evaluate("document.querySelector('iframe').clientHeight") < 1_400  # seven thousand with all of it
    inside = page.frame_locator("iframe")
    assert inside.locator("details.part[open]").count() == 0
    assert inside.locator("#answer .scroll[data-more]").count() == 0
    assert inside.locator("#plan-sentence").inner_text() == str(explanation.answer)
    plain = open_view(explanation._repr_html_(), java_script_enabled=False)
    assert plain.locator(".gbce p.answer").is_visible()
    assert plain.locator(".gbce details dl").is_hidden()


def test_a_table_in_a_cell_does_not_blow_up_its_pictures(shown, open_view):
    page = open_view(shown[1]._repr_html_(), 860)
    page.wait_for_function("document.querySelector('iframe').previousElementSibling.hidden")
    strips = page.frame_locator("iframe").locator("svg.strip")
    assert strips.count() > 0
    assert max(strips.evaluate_all("all => all.map((one) => one.clientWidth)")) <= 480


def test_the_frame_grows_with_its_page(shown, open_view):
    page = open_view(shown[1]._repr_html_())
    page.wait_for_function("document.querySelector('iframe').previousElementSibling.hidden")
    before = page.evaluate("document.querySelector('iframe').clientHeight")
    page.frame_locator("iframe").locator("button.open").first.click()
    page.wait_for_function(f"document.querySelector('iframe').clientHeight > {before}")
    page.wait_for_timeout(200)
    assert page.evaluate(CLIPPED)[0] <= 0


@pytest.mark.parametrize("which", [0, 1], ids=["explanation", "table"])
def test_without_scripts_or_frames_the_summary_stays(shown, open_view, which):
    view = shown[which]._repr_html_()
    words = shown[0].answer.sentence if which == 0 else "2 rows, "
    page = open_view(view, java_script_enabled=False)
    assert words in page.locator("body > div").text_content()
    assert page.locator("body > div").is_visible()
    bare = re.sub(r"<iframe.*?</iframe>", "", view, flags=re.S)
    assert "<script" not in bare
    assert "<img" not in bare


def test_a_decision_that_misses_is_marked(shown, open_view):
    explanation, table = shown
    assert explanation.pointwise["reached"].tolist() == [True, False]
    plain = explanation._repr_html_().split("<iframe")[0]
    assert re.findall(r"<tr class='missed'><th scope='row'>(\w+)</th>", plain) == ["Mean"]
    page = open_view(table._repr_html_())
    inside = page.frame_locator("iframe")
    inside.locator("button.open").first.click()
    assert inside.locator(".decisions tr", has_text="Mean").locator(".bad").text_content() == "✗ missed"


def test_a_table_too_long_for_a_notebook_says_how_to_see_it(shown, monkeypatch):
    monkeypatch.setattr("gbce.pages._widget._MOST_ROWS", 1)
    view = shown[1]._repr_html_()
    assert "<iframe" not in view
    assert "table.to_html(" in view
