"""Decisions about many rows on the page of a table and on their own, as a browser shows them."""

import numpy as np
import pandas as pd
import pytest

import gbce
from gbce.pages import policy_page, table_page
from gbce.pages._table_page import table_payload
from support.browser import opened

DATA = pd.DataFrame(np.random.default_rng(0).normal(50, 10, size=(99, 2)).round(1), columns=["pay", "debt"]).assign(
    sex=np.random.default_rng(1).choice(["f <b>", "m"], 99)
)


def score(rows):
    return (rows["pay"] - rows["debt"] - 3 * (rows["sex"] == "m")).to_numpy(dtype=float)


@pytest.fixture(scope="module")
def decided():
    space = gbce.Space.infer(DATA, immutable=["sex"])
    explainer = gbce.Explainer(score, DATA, space=space)
    low = DATA[score(DATA) < 0].head(14)
    table = explainer.explain_many(low, gbce.AtLeast(0), rules=["Nearest"], seed=0, posterior=False, progress=False)
    fair = gbce.policy.fairness(
        table, "sex", explainer=explainer, protected="sex", refits=[score, score], n_permutations=100
    )
    review = gbce.policy.review(table, lambda rows: score(rows) - 2, groups="sex")
    plan = explainer.plan(explainer.explain(low.iloc[0], gbce.AtLeast(0), seed=0), fallbacks=False)
    few = gbce.policy.actions(table, 2, explainer=explainer, seed=0)
    return table, [few, gbce.policy.allocate(table, 5), fair, review, {low.index[0]: plan}]


def test_each_kind_has_its_section_with_its_sentences(decided, browser, tmp_path):
    table, policies = decided
    path = table.to_html(tmp_path / "rows.html", policies=policies)
    with opened(browser, path) as page:
        assert page.complaints == []
        titles = page.locator("section.policy h2").all_inner_texts()
        assert titles == [
            "Actions for many", "Whom to help first", "Fairness", "Answers under today's model", "Plans, step by step",
        ]  # fmt: skip
        shown = page.locator("main").inner_text()
        for one in (*policies[1].sentences, *policies[2].sentences, *policies[3].sentences):
            assert one in shown
        assert page.locator("#policy-3 svg.interval").count() >= 2 * 3
        assert page.locator("details.plan li").count() == len(policies[4][next(iter(policies[4]))])


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_axe_finds_nothing_and_nothing_sticks_out(decided, browser, tmp_path, width, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="pip install axe-playwright-python")
    table, policies = decided
    for path in (
        table.to_html(tmp_path / "rows.html", policies=policies),
        policies[3].to_html(tmp_path / "review.html"),
    ):
        with opened(browser, path, width=width, color_scheme=scheme) as page:
            page.locator("details.plan").evaluate_all("all => all.forEach((one) => { one.open = true; })")
            assert [one["id"] for one in axe.Axe().run(page).response["violations"]] == []
            assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_what_is_no_decision_is_refused(decided):
    table = decided[0]
    with pytest.raises(TypeError, match=r"results of gbce\.policy"):
        table_page(table, policies=[3])
    with pytest.raises(TypeError, match=r"results of gbce\.policy"):
        table_page(table, policies="review")
    with pytest.raises(ValueError, match="nothing to show"):
        policy_page([])


def test_a_narrow_screen_has_each_line_as_a_list_that_is_read_without_scrolling(decided, browser, tmp_path):
    path = decided[0].to_html(tmp_path / "rows.html", policies=decided[1])
    with opened(browser, path, width=390) as page:
        wide = "all => all.filter((one) => one.scrollWidth > one.clientWidth + 1).length"
        assert page.locator(".policy-table .scroll").count() > 4
        assert page.locator(".policy-table .scroll").evaluate_all(wide) == 0
        line = page.locator("#policy-2 .policy-table").nth(1).locator("tbody tr").first
        heads = line.locator("[data-head]").evaluate_all("all => all.map((one) => one.dataset.head)")
        assert heads == ["row", "cost", "reliability", "changes"]
        assert line.locator("td").last.bounding_box()["width"] > 300


def test_without_a_posterior_no_figure_of_one_is_shown(decided):
    payload = table_payload(decided[0], groups="sex")
    assert payload["groups"]
    assert all(one["changes"] == [] for one in payload["groups"])
    assert payload["titles"] == {}
    assert set(payload["figures"]) >= {"reliability", "ess"}
