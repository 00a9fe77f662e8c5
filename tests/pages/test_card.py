"""The card that an explorer opens with: how long it is, what it says, and controls that work together."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

import gbce
from gbce.metrics import costs
from gbce.pages._document import gather_points
from gbce.pages._explorer import explorer_payload
from support.browser import opened, slide


@pytest.mark.parametrize(("width", "height", "screens"), [(1280, 900, 3), (390, 844, 6)])
def test_the_card_is_short_and_whole(browser, loan_file, width, height, screens):
    with opened(browser, loan_file, width=width, height=height, unfold=False) as page:
        assert page.locator("#more").bounding_box()["y"] < screens * height
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        clipped = "all => all.filter((one) => one.scrollWidth > one.clientWidth + 1).length"
        assert page.locator("#answer .scroll").evaluate_all(clipped) == 0
        ids = page.evaluate("[...document.querySelectorAll('[id]')].map((one) => one.id)")
        assert len(set(ids)) == len(ids)
        for name in ("for", "aria-labelledby", "aria-describedby"):
            named = page.locator(f"[{name}]").evaluate_all(
                "(all, name) => all.map((one) => one.getAttribute(name))", name
            )
            assert set(named) <= set(ids), name
        assert {one[1:] for one in page.locator("a[href^='#']").evaluate_all("all => all.map((a) => a.hash)")} <= set(
            ids
        )
        assert page.complaints == []


def test_it_says_the_answer_once(browser, loan, loan_file):
    changes = loan.answer.sentence.split(": the model")[0]
    with opened(browser, loan_file, unfold=False) as page:
        assert page.locator("body").inner_text().count(changes) == 1
        filled = page.locator("#plan-works circle.works").count()
        assert filled == int(100 * loan.answer.reliability.share + 1e-9)
        assert page.locator("#plan-works circle").count() == 100
        assert page.locator("#plan-works .count").inner_text().strip() == f"{filled} of 100"


def test_it_prints_on_two_pages(browser, loan_file):
    with opened(browser, loan_file, unfold=False) as page:
        printed = page.pdf(format="A4")
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= 2


def test_a_class_is_what_the_case_becomes(models):
    assert explorer_payload(models)["title"] == "How this case could become class 1"


def test_every_point_is_said_as_the_target_says_it(models):
    known = gather_points(models)
    wanted = [
        models.target.say(float(output), bool(reached))
        for output, reached in zip(known.output, known.verdicts[:, 0], strict=True)
    ]
    assert {*wanted} <= {*explorer_payload(models)["said"]["texts"]}
    assert sum(one.startswith("says 1 (probability ") for one in wanted) > 100


def test_what_cannot_change_is_a_chip(browser, loan, loan_file):
    j = loan.space.names.index("paid_share")
    with opened(browser, loan_file) as page:
        chip, box = page.locator(f"[data-chip='{j}']"), page.locator(f"#column-{j}-keep")
        chip.click()
        assert chip.get_attribute("aria-pressed") == "true"
        assert box.is_checked()
        box.uncheck()
        assert chip.get_attribute("aria-pressed") == "false"
        assert "country" in page.locator(".keeping").inner_text()  # which never changes
        chip.click()
        page.locator("#reset").click()
        assert chip.get_attribute("aria-pressed") == "false"
        assert page.locator("#plan-sentence").inner_text() == str(loan.answer)


def test_the_reasons_of_the_answer_are_called_its_own_beside_another_suggestion(browser, loan, loan_file):
    moved = loan.space.names.index(loan.answer.changes.index[0])
    with opened(browser, loan_file) as page:
        title = page.locator("#why summary")
        assert title.inner_text() == "Why this, and how sure"
        page.locator(f"[data-chip='{moved}']").click()
        assert title.inner_text() == "The original answer: why, and how sure"
        page.locator("#reset").click()
        assert title.inner_text() == "Why this, and how sure"


def test_a_chip_leaves_a_suggestion_as_reliable_as_the_slider_says_or_says_that_it_is_not(browser, loan, loan_file):
    """Whatever may not change: a point that is not known to work as often as the answer never looks as if it did."""
    least, found = loan.answer.reliability.share, set()
    with opened(browser, loan_file) as page:
        for chip in page.locator("[data-chip]").all():
            chip.click()
            chosen = None
            if page.locator("#answer [data-copy=JSON]").is_enabled():
                page.locator("#answer [data-copy=JSON]").click()
                chosen = json.loads(page.locator("#copy-text").input_value())
                page.locator("#copy button").click()
            known = chosen is not None and chosen["reliability"] is not None and chosen["reliability"] >= least - 1e-6
            found.add("reliable" if known else "none" if chosen is None else "unsure")
            assert page.locator("#plan-unsure").is_visible() == (chosen is not None and not known)
            assert page.locator("#python-line").is_visible() == (not known)
            said = page.locator("#wanted-said").inner_text()
            assert ("not known of this suggestion" in said) == (chosen is not None and not known)
            if not known:
                assert "explainer.given(explanation, keep=[" in page.locator("#python-line").inner_text()
        page.locator("#reset").click()
        assert page.locator("#plan-unsure").is_hidden()
        assert page.complaints == []
    assert found >= {"reliable", "unsure"}


def test_reliability_and_the_number_of_columns_work_together(browser, loan, loan_file):
    """The suggestion is the cheapest point known to be as reliable and to change as few columns, or there is none."""
    found = loan.strategies
    few = loan.space.changed(found.x, loan.x0)[:, loan.free].sum(axis=1)
    cost = costs(loan.space, found.x, loan.x0, "l1")
    steps, suggested = explorer_payload(loan)["frontier"]["steps"], 0
    with opened(browser, loan_file) as page:
        for most in (1, 2, 3):
            slide(page, "most", most)
            for k, step in enumerate(steps):
                page.locator("circle.step").nth(k).evaluate("one => one.dispatchEvent(new Event('click'))")
                if "as the answer" in page.locator("#wanted-said").inner_text():
                    continue
                enough = step["reliability"]
                fits = (found.reliability > enough + 0.03) & (few <= most)  # the same point may have been tried twice
                if "None of the tested" in page.locator("#plan-sentence").inner_text():
                    assert not fits.any()
                    continue
                page.locator("#answer [data-copy=JSON]").click()
                chosen = json.loads(page.locator("#copy-text").input_value())
                page.locator("#copy button").click()
                assert len(chosen["changes"]) <= most
                assert chosen["reliability"] > enough - 1e-6
                assert chosen["cost"] < cost[fits].min(initial=np.inf) + 1e-3
                suggested += 1
        assert page.complaints == []
    assert suggested


def test_a_page_with_the_default_settings_and_20_columns_is_below_a_megabyte():
    x, y = make_classification(600, 20, n_informative=8, random_state=0)
    data = pd.DataFrame(x, columns=[f"column {j}" for j in range(20)])
    model = RandomForestClassifier(20, min_samples_leaf=5, random_state=0).fit(data, y)
    row = data[model.predict(data) == 0].iloc[3]
    explanation = gbce.Explainer(model, data).explain(row, 1, seed=0)
    assert len(explanation.draws) == 2_000
    assert len(explanation.to_html().encode()) < 600_000  # 652,000 when every value was kept in full
    dense = gbce.Explainer(model, data, prior=gbce.Gaussian(), sampler=gbce.Importance(30_000, 2_000))
    assert len(dense.explain(row, 1, rules=["MAP"], seed=0).to_html().encode()) < 1_000_000


def test_columns_have_the_labels_units_and_digits_of_the_space(browser, tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"ltv": rng.uniform(0.2, 1.2, 120), "inc": rng.uniform(1_000, 9_000, 120)})
    space = gbce.Space.infer(frame, labels={"ltv": "Loan-to-value ratio", "inc": "Income"}, units={"inc": "USD"})
    explainer = gbce.Explainer(
        lambda f: f["inc"] / 1_000 - 4 * f["ltv"], frame, space=space, sampler=gbce.Importance(1_000, 300)
    )
    rows = pd.DataFrame({"ltv": [0.9, 1.0], "inc": [3_000.0, 2_500.0]})
    found = explainer.explain(rows.iloc[0], gbce.AtLeast(2.0), rules=["Nearest"], seed=0)
    table = explainer.explain_many(rows, gbce.AtLeast(2.0), rules=["Nearest"], seed=0, progress=False)
    x0, x = found.x0, found.answer.decision.x
    changed = np.flatnonzero(space.changed(x[None, :], x0)[0])
    with opened(browser, found.to_html(tmp_path / "one.html")) as page:
        lines = page.locator("#plan-table tbody tr").all()[:-1]
        shown = [tuple(line.locator("th, td").nth(k).text_content() for k in (0, 1, 3)) for line in lines]
        assert sorted(shown) == sorted((space.label(j), *space.format_change(j, x0[j], x[j])) for j in changed)
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        now = page.locator(".column .who .small").all_text_contents()
        assert sorted(now) == sorted(f" now {space.format(j, x0[j])}" for j in range(2))
        page.locator("[data-chip='1']").click()  # the line of Python has the column's own name
        assert "keep=['inc']" in page.locator("#python-line").text_content()
        assert page.complaints == []
    with opened(browser, table.to_html(tmp_path / "rows.html")) as page:
        text = page.locator("body").inner_text()
        assert "Loan-to-value ratio" in text
        assert "ltv" not in text
        for j in changed:
            assert f"{space.label(j)}: {' → '.join(space.format_change(j, x0[j], x[j], unit=False))}" in text
        assert page.complaints == []


def test_sentences_have_numbers_that_people_read(browser, loan_file):
    with opened(browser, loan_file) as page:
        page.locator("#trade details").evaluate("one => { one.open = true; }")
        texts = page.locator("#frontier-table td, #plan-table td, .card p").all_text_contents()
    assert len(texts) > 5
    assert max(len(number) for text in texts for number in re.findall(r"\d+\.(\d+)", text)) <= 6
