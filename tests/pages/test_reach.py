"""What a page calls a way reaches the target, and it says which share of the draws does."""

import numpy as np
import pandas as pd
import pytest

import gbce
from gbce.pages._explorer import explorer_payload
from support.browser import opened, slide

LEVELS = list("pqrs")


def words(n=300):
    rng = np.random.default_rng(0)
    return pd.DataFrame({"a": rng.choice(LEVELS, n), "b": rng.choice(LEVELS, n), "c": rng.normal(size=n)})


def score(rows):
    return (rows["a"] == "q") * 1.0 + (rows["b"] == "r") * 1.0 + 0.3 * rows["c"]


@pytest.fixture(scope="module")
def explanation():
    row = pd.Series({"a": "p", "b": "s", "c": 0.0})
    return gbce.Explainer(score, words()).explain(row, gbce.AtLeast(1.0), rules=["Nearest", "MAP", "Mean"], seed=0)


@pytest.fixture(scope="module")
def file(explanation, tmp_path_factory):
    return explanation.to_html(tmp_path_factory.mktemp("reach") / "page.html")


def as_percent(share):
    return f"{100 * share:.0f}%"


def test_charts_say_which_share_of_their_draws_reaches(browser, explanation, file):
    etas = explorer_payload(explanation)["points"]["etas"]
    with opened(browser, file) as page:
        lines = page.locator(".reach")
        assert lines.count() == 2  # where the columns end up, and which of them matter
        share = as_percent(explanation.distribution["success_probability"])
        assert lines.all_text_contents() == [f"{share} of these draws reach the target."] * 2
        assert f"; {share} of the draws reach the target" in page.locator("#effective").text_content()
        slide(page, "eta", 0)
        few = explanation.path([etas[0]]).iloc[0]["success_probability"]
        assert few < 0.5
        for text in lines.all_text_contents():
            assert text.startswith(f"Only {as_percent(few)} of these draws reach the target: most of them are not")
        assert page.locator(".reach.bad").count() == 2
        assert page.complaints == []


def test_dots_that_miss_are_grey_below_the_others_and_counted(browser, explanation, file):
    with opened(browser, file) as page:
        for step in (0, explorer_payload(explanation)["points"]["etas"].index(explanation.eta)):
            slide(page, "eta", step)
            page.locator(".cloud").focus()
            page.keyboard.press("ArrowRight")  # out of sight the picture waits; a key brings it up to date
            kinds = page.locator(".cloud circle[visibility=visible]").evaluate_all(
                "all => all.filter(one => ['hit', 'miss'].includes(one.getAttribute('class')))"
                ".map(one => [one.getAttribute('class'), getComputedStyle(one).fill])"
            )
            names = [name for name, _ in kinds]
            assert names == sorted(names, reverse=True)  # misses first
            fills = dict(kinds)
            assert len(set(fills.values())) == len(fills)
            hits = names.count("hit")
            said = page.locator("#cloud-count").text_content()
            assert said.startswith(f"{hits} of {len(names)} dots" if hits < len(names) else f"All {hits} dots")
        assert page.complaints == []


def test_two_axes_of_levels_are_spread_independently(browser, explanation, file):
    """Dots of one pair of levels fill their cell; on one sequence they would lie on a few lines."""
    with opened(browser, file) as page:
        page.locator("#pair-x").select_option(label="a")
        page.locator("#pair-y").select_option(label="b")
        page.locator(".cloud").scroll_into_view_if_needed()
        page.wait_for_function("document.querySelectorAll('.cloud circle.hit').length > 50")
        at = np.array(
            page.locator(".cloud circle.hit[visibility=visible]").evaluate_all(
                "all => all.map(one => [Number(one.getAttribute('cx')), Number(one.getAttribute('cy'))])"
            )
        )
    # gaps between neighbours along one axis tell nothing of the other: shifted by its own offset, one sequence would
    # give a difference of the two that takes few values
    (left, right), (top, bottom) = ((side.min(), side.max()) for side in at.T)
    step_x, step_y = (right - left) / (len(LEVELS) - 0.4), (bottom - top) / (len(LEVELS) - 0.4)
    u = ((at[:, 0] - left) / step_x) % 1.0 / 0.6
    v = 1.0 - ((at[:, 1] - top) / step_y) % 1.0 / 0.6
    gap = np.round((u - v) % 1.0, 1) % 1.0
    assert len(np.unique(gap)) >= 8


def test_ways_are_those_of_draws_that_reach(explanation):
    found = explorer_payload(explanation)["alternatives"]
    table, success = explanation.alternatives(4).table, explanation.distribution["success_probability"]
    shares = (table["mass"] / success).clip(upper=1.0)
    assert len(shares)
    assert [one["share"] for one in found["listed"]] == pytest.approx(shares.tolist())
    assert found["other"] == pytest.approx(max(1.0 - shares.sum(), 0.0))
    rare = gbce.Explainer(score, words(), eta=0.0).explain(
        pd.Series({"a": "p", "b": "s", "c": -2.0}), gbce.AtLeast(2.2), rules=[], seed=0
    )
    none = explorer_payload(rare)["alternatives"]
    assert none["listed"] == []
    assert "too few of the draws reach the target" in none["why"]


def test_draws_that_mostly_miss_are_said_aloud_at_the_top(browser, tmp_path):
    row = pd.Series({"a": "p", "b": "s", "c": -2.0})
    rare = gbce.Explainer(score, words(), eta=0.0).explain(row, gbce.AtLeast(1.0), rules=[], seed=0)
    assert rare.diagnostics["sampling"] == "trustworthy"
    with opened(browser, rare.to_html(tmp_path / "page.html")) as page:
        said = page.locator("#warning").inner_text()
        assert "are not counterfactuals" in said
        assert 'eta="auto"' in said
        assert page.complaints == []


def test_one_mark_has_one_meaning(browser, explanation, file):
    """A dark line is where the row is; what would be without the target is pale, in strips and in bars."""
    colour = "(all, side) => all.map((one) => getComputedStyle(one)[side])"
    with opened(browser, file) as page:
        pale = set(page.locator(".levels .ghost").evaluate_all(colour, "backgroundColor"))
        assert set(page.locator(".strip .prior").evaluate_all(colour, "fill")) == pale
        assert page.locator(".levels .tick").count() == 0
        assert set(page.locator(".strip .row").evaluate_all(colour, "stroke")).isdisjoint(pale)
        named = page.locator("#importance .legend li").all_text_contents()
        assert named == ["the draws", "without the target"]


def test_a_slider_with_one_position_is_no_slider(browser, tmp_path):
    data = pd.DataFrame({"a": np.random.default_rng(0).normal(size=200)})
    one = gbce.Explainer(lambda rows: rows["a"], data).explain(data.iloc[0], gbce.AtLeast(1.5), rules=[], seed=0)
    with opened(browser, one.to_html(tmp_path / "page.html")) as page:
        assert page.locator("#most").count() == 0
        assert page.locator("#most-said").count() == 0
        for slider in page.locator("input[type=range]").all():
            low, high = (slider.evaluate(f"one => Number(one.{end})") for end in ("min", "max"))
            assert high > low
        slide(page, "eta", 3)
        page.locator("#reset").click()
        assert "as asked" in page.locator("#eta-said").inner_text()
        assert page.complaints == []


def test_a_row_of_a_table_says_what_share_of_its_draws_reaches(browser, tmp_path):
    rows = pd.DataFrame({"a": ["p", "r"], "b": ["s", "q"], "c": [0.0, 0.1]}, index=["first", "second"])
    explainer = gbce.Explainer(score, words())
    table = explainer.explain_many(rows, gbce.AtLeast(1.0), rules=["MAP"], seed=0, progress=False)
    with opened(browser, table.to_html(tmp_path / "rows.html")) as page:
        page.locator("button.open").first.click()
        said = page.locator("tr.detail dl.facts").first.text_content()
        assert table.diagnostics["posterior_note"].iloc[0] in said
        assert "expected cost" in said
        assert "expected distance" not in said
        assert page.complaints == []
