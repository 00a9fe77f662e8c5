"""The explorer in a browser: every control, and its numbers against Python's."""

import ast
import base64
import csv
import io
import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import sklearn

import gbce
from gbce._numerics import weighted_quantile
from gbce.metrics import costs
from gbce.pages import compare_receipts, receipt_of
from gbce.pages._document import gather_points, row_hash
from gbce.pages._explorer import explorer_payload
from support.browser import opened, slide

THREE_DIGITS = 1e-3  # relative: what the page must agree with Python to


def figures(page):
    found = page.locator("#figures dd").evaluate_all("all => all.map((one) => [one.dataset.figure, one.dataset.value])")
    return {name: float(value) for name, value in found}


def effective(page):
    return float(page.locator("#effective").inner_text().split(" ")[0].replace(",", ""))


def strip(page, explanation, name):
    """Return the ends and the middle of the range that the page shows of a column."""
    j = explanation.space.names.index(name)
    found = page.locator(f".strip-line[data-column='{j}'] .figures").evaluate("one => ({ ...one.dataset })")
    return [float(found[end]) for end in ("low", "middle", "high")]


def plan(page):
    """Return the suggestion as the page copies it."""
    page.locator("#answer [data-copy=JSON]").click()
    text = page.locator("#copy-text").input_value()
    page.locator("#copy button").click()
    return json.loads(text)


def weighed(explanation, weights=None):
    """Return the figures of a pool under weights, as the page has them."""
    draws = explanation.draws
    weights = draws.pool_weights if weights is None else weights
    loss = draws.pool.loss[:, 0]
    return {
        "success": float(weights @ draws.pool.reached[:, 0]),
        "cost": float(weights @ costs(explanation.space, draws.pool.x, explanation.x0, "l1")),
        "loss": float(weights @ loss),
        "tail": weighted_quantile(loss, weights, 1 - explanation.evaluation.alpha),
    }


def tabled(explanation):
    """Return the figures that Python's own tables have."""
    said, draws = explanation.distribution, explanation.draws.read
    moved = explanation.space.changed(draws.pool.x, explanation.x0)[:, explanation.free].sum(axis=1)
    return {
        "success": said["success_probability"],
        "cost": said["expected_cost"],
        "loss": said["expected_loss"],
        "tail": said["tail"],
        "changes": float(draws.mean(moved)),
        **({} if len(explanation.models) < 2 else {"differ": explanation.disagreement().overall["differ"]}),
    }


def assert_same(shown, wanted):
    for name, value in wanted.items():
        assert shown[name] == pytest.approx(value, rel=THREE_DIGITS, abs=1e-6), name


def assert_same_ranges(page, explanation, names):
    ends = [explanation.quantiles(q) for q in (0.05, 0.5, 0.95)]
    for name in names:
        wanted = [end[explanation.space.names.index(name)] for end in ends]
        assert strip(page, explanation, name) == pytest.approx(wanted, rel=THREE_DIGITS)


def assert_same_columns(page, explanation):
    """Compare the mean change of each column listed, and the shares of the levels of categories."""
    bars = page.locator("#importance-bars li").evaluate_all("all => all.map((one) => ({ ...one.dataset }))")
    assert bars
    for one in bars:
        name = explanation.space.names[int(one["column"])]
        wanted = explanation.importance.loc[name, "change"]
        assert float(one["change"]) == pytest.approx(wanted, rel=THREE_DIGITS, abs=1e-6), name
    shares = page.locator(".strip-line .levels li[data-level]").evaluate_all(
        "all => all.map((one) => [one.closest('.strip-line').dataset.column, one.dataset.level, one.dataset.share])"
    )
    for j, code, share in shares:
        wanted = explanation.shares(explanation.space.names[int(j)])["posterior"].iloc[int(code)]
        assert float(share) == pytest.approx(wanted, rel=THREE_DIGITS, abs=1e-6)


def show_all(page):
    """List every column, not only the first dozen."""
    for name in ("all-columns", "all-strips"):
        if page.locator(f"#{name}").count():
            page.locator(f"#{name}").click()


def sound(page):
    assert page.complaints == []
    assert len(page.requests) == 1


# --- what the page opens with ------------------------------------------------------------------------------------


def test_it_opens_with_the_answer_and_asks_for_nothing_but_itself(browser, loan, loan_file):
    with opened(browser, loan_file) as page:
        assert page.locator("#plan-sentence").inner_text() == str(loan.answer)
        cells = page.locator("#answer table.changes tbody tr").all_inner_texts()
        assert len(cells) == len(loan.answer.changes) + 1  # and what the model says
        assert_same(figures(page), tabled(loan))
        assert effective(page) == pytest.approx(loan.draws.ess, abs=0.5)
        assert page.locator("#warning").count() == 0
        show_all(page)
        assert_same_ranges(page, loan, ["income", "amount", "since"])
        assert_same_columns(page, loan)
        sound(page)


def test_several_models_open_with_pythons_numbers(browser, models, models_file):
    with opened(browser, models_file) as page:
        assert_same(figures(page), tabled(models))
        assert_same_ranges(page, models, ["c0", "c1"])
        assert_same_columns(page, models)
        found = models.disagreement()
        lines = page.locator("#disagreement table").first.locator("tbody tr").all_text_contents()
        for line, (_, pair) in zip(lines, found.pairs.iterrows(), strict=True):
            assert f"{100 * pair['differ']:.0f}%" in line
        # what is computed once, for the question as it was asked, says so
        for part in ("ways", "rules", "trade", "disagreement"):
            assert "does not follow the controls" in page.locator(f"#{part} .as-asked").text_content()
        sound(page)


def test_rules_say_when_to_use_them_and_the_receipt_is_that_of_the_row(browser, loan, loan_row, loan_file):
    with opened(browser, loan_file) as page:
        rules = page.locator("table.rules tbody tr").all_text_contents()
        assert len(rules) == len(loan.counterfactuals)
        assert all("Use it" in line for line in rules)
        page.locator("#copy-receipt").click()
        receipt = json.loads(page.locator("#copy-text").input_value())
        sound(page)
    assert compare_receipts(receipt, loan) == {}
    assert receipt["row"] == row_hash(loan_row)
    assert receipt["prior"].startswith("Sparse(")
    assert "SMC(" in receipt["sampler"]
    assert " at 0x" not in json.dumps(receipt)


def test_a_receipt_has_all_it_takes_to_compute_an_explanation_again(models, fitted, tmp_path):
    receipt = receipt_of(models)
    assert receipt["versions"]["sklearn"] == sklearn.__version__
    assert receipt["prior"] == repr(gbce.Gaussian())
    data, each = fitted
    named = {name: getattr(gbce, name) for name in ("Gaussian", "Reliable")}
    prior, policy = (eval(receipt[name], named) for name in ("prior", "policy"))
    assert receipt["sampler"] == f"left out, which is: {gbce.SMC()}"
    explainer = gbce.Explainer(each, data, prior=prior, policy=policy, eta=receipt["eta"], weights=receipt["weights"])
    row = data.loc[data.iloc[:, :4].sum(axis=1).sort_values().index[60]]
    again = explainer.explain(row, gbce.Class(1), rules=receipt["rules"], seed=int(receipt["seed"]))
    assert compare_receipts(json.loads(json.dumps(receipt)), again) == {}
    assert receipt_of(gbce.load(models.save(tmp_path / "models.gbce"))) == receipt
    assert set(compare_receipts(receipt, models.at(0.5))) == {"eta"}
    with pytest.raises(TypeError, match="receipt must be a mapping"):
        compare_receipts("receipt", models)


# --- sliders -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["loan", "models"])
def test_eta_weighs_the_draws_as_at_does(browser, request, which):
    explanation, path = request.getfixturevalue(which), request.getfixturevalue(f"{which}_file")
    etas = explorer_payload(explanation)["points"]["etas"]
    own = etas.index(explanation.eta)
    with opened(browser, path) as page:
        show_all(page)
        for step in (own - 12, own + 4):
            slide(page, "eta", step)
            there = explanation.at(etas[step])
            assert_same(figures(page), tabled(there))
            line = explanation.path([etas[step]]).iloc[0]
            assert figures(page)["success"] == pytest.approx(line["success_probability"], rel=THREE_DIGITS)
            assert effective(page) == pytest.approx(there.draws.ess, abs=0.51)
            assert_same_ranges(page, there, ["income", "amount", "since"] if which == "loan" else ["c0", "c1"])
            assert_same_columns(page, there)
        sound(page)


def test_an_eta_that_the_draws_cannot_carry_is_greyed_out(browser, wide, tmp_path):
    explanation = wide(3, 200)
    etas = explorer_payload(explanation)["points"]["etas"]
    with pytest.raises(ValueError, match="cannot be reweighted"):
        explanation.at(etas[-1])
    with opened(browser, explanation.to_html(tmp_path / "page.html")) as page:
        assert "too-few" not in (page.locator("body").get_attribute("class") or "")
        slide(page, "eta", len(etas) - 1)
        assert "too-few" in page.locator("body").get_attribute("class")
        assert page.locator("#advice").is_visible()
        slide(page, "eta", 0)
        law = explanation.draws.prior_weights
        assert_same(figures(page), weighed(explanation, law))
        sound(page)


def test_reliability_moves_along_the_frontier_of_the_models(browser, models, models_file):
    frontier = models.frontier()
    assert len(frontier) > 1
    with opened(browser, models_file) as page:
        said = positions(page)
        steps = [k for k, text in enumerate(said) if "as the answer" not in text]
        assert len(steps) == len(frontier)
        for k, (share, line) in zip(steps, frontier.iterrows(), strict=True):
            slide(page, "wanted", k)
            chosen = plan(page)
            assert (
                said[k].replace("all 3", "3 of 3").startswith(("at least ", "")[share == 1] + f"{3 * share:.0f} of 3")
            )
            assert chosen["cost"] == pytest.approx(line["cost"], rel=THREE_DIGITS)
            row = line[list(chosen["row"])].astype(float)
            assert list(chosen["row"].values()) == pytest.approx(row.tolist(), rel=THREE_DIGITS)
        assert page.locator("circle.step.chosen").count() == 1
        page.locator("circle.step").first.focus()
        page.keyboard.press("Enter")
        assert page.locator("#wanted").input_value() == str(steps[0])
        sound(page)


def positions(page):
    """Return what the reliability slider says at each of its positions, and leave it where it was."""
    start, most = (page.locator("#wanted").evaluate(f"one => Number(one.{end})") for end in ("value", "max"))
    said = []
    for k in range(most + 1):
        slide(page, "wanted", k)
        said.append(page.locator("#wanted-said").inner_text())
    slide(page, "wanted", start)
    return said


@pytest.mark.parametrize("which", ["loan", "models"])
def test_the_reliability_slider_rises_and_begins_at_the_answers_own_place(browser, request, which):
    explanation, path = request.getfixturevalue(which), request.getfixturevalue(f"{which}_file")
    with opened(browser, path) as page:
        start = page.locator("#wanted").evaluate("one => Number(one.value)")
        said = positions(page)
        assert [k for k, text in enumerate(said) if "as the answer" in text] == [start]
        assert len(set(said)) == len(said) > 2
        counts = [float(re.search(r"\d+(\.\d+)?", text)[0]) for text in said]
        assert counts == sorted(counts)
        assert page.locator("#plan-sentence").inner_text() == str(explanation.answer)
        slide(page, "wanted", len(said) - 1)
        if which == "loan":  # that several models agree may cost less than to hold under noise
            assert plan(page)["cost"] >= explanation.answer.cost
        page.locator("#reset").click()
        assert page.locator("#wanted-said").inner_text() == said[start]
        sound(page)


def test_a_measured_frontier_takes_the_sliders_place(models):
    measured = models.frontier()
    measured["output"] = 0.7
    payload = explorer_payload(models, measured)
    assert payload["frontier"]["of"] == "measured"
    assert [one["reliability"] for one in payload["frontier"]["steps"]] == pytest.approx(measured.index.tolist())
    with pytest.raises(TypeError, match="frontier must come from"):
        models.to_html(frontier=pd.DataFrame({"a": [1]}))


def test_one_model_has_the_frontier_of_what_was_tried_under_noise(loan):
    steps = explorer_payload(loan)["frontier"]["steps"]
    tried = {*loan.pointwise["robustness"].round(12), round(loan.answer.reliability.share, 12)}
    assert steps
    assert {round(one["reliability"], 12) for one in steps} <= tried
    assert sorted(one["cost"] for one in steps) == [one["cost"] for one in steps]
    assert len({one["point"] for one in steps}) == len(steps)


def test_a_thinned_page_knows_the_cheapest_points_that_reach(loan, monkeypatch):
    monkeypatch.setattr("gbce.pages._document.MOST_CELLS", 1)
    there, known = gather_points(loan), loan.draws.known
    x = known.x[known.reached[:, 0] & np.isfinite(known.log_correction)]
    assert there.n_pool < len(known) / 2
    cheap, all_cheap = (
        np.sort(costs(loan.space, some, loan.x0, "l1"))[:100] for some in (there.x[there.verdicts[:, 0]], x)
    )
    assert cheap == pytest.approx(all_cheap)


def is_as_reliable(page, explanation):
    """Return whether the page calls its suggestion as reliable as the answer, after a look that it rightly does."""
    chosen, share = plan(page), explanation.answer.reliability.share
    calls_it_so = page.locator("#plan-unsure").is_hidden()
    assert calls_it_so == (chosen["reliability"] is not None and chosen["reliability"] >= share - 1e-6)
    assert page.locator("#advice").is_hidden() == calls_it_so
    assert ("not known of this suggestion" not in page.locator("#wanted-said").inner_text()) == calls_it_so
    return calls_it_so


def known_points(explanation):
    """Return every point that the page may suggest, and which of them reach the target."""
    known, decided = explanation.draws.known, [*explanation.decisions, explanation.answer.decision]
    x = np.vstack([known.x, *(one.x for one in decided)])
    return x, np.concatenate([known.reached[:, 0], [one.reached[0] for one in decided]])


@pytest.mark.parametrize("most", [1, 2, 3])
def test_fewer_changes_are_the_answer_or_the_cheapest_known_ones(browser, loan, loan_file, most):
    x, reached = known_points(loan)
    few = loan.space.changed(x, loan.x0)[:, loan.free].sum(axis=1) <= most
    cheapest = costs(loan.space, x, loan.x0, "l1")[reached & few].min(initial=np.inf)
    with opened(browser, loan_file) as page:
        slide(page, "most", most)
        said = page.locator("#plan-sentence").inner_text()
        if not np.isfinite(cheapest):
            assert "No point" in said
            assert f"max_changes={most}" in page.locator("#python-line").inner_text()
            return
        chosen, as_reliable = plan(page), is_as_reliable(page, loan)
        sound(page)
    assert chosen["reaches"]
    assert len(chosen["changes"]) <= most
    if loan.answer.n_changes <= most or not as_reliable:
        wanted = loan.answer.cost if loan.answer.n_changes <= most else cheapest
        assert chosen["cost"] == pytest.approx(wanted, rel=THREE_DIGITS)


# --- columns -----------------------------------------------------------------------------------------------------


def position(explanation, name):
    return explanation.space.names.index(name)


CONDITIONS = {
    "a kept number": ({"keep": ["income"]}, lambda p, j: p.locator(f"#column-{j('income')}-keep").check()),
    "a range": (
        {"at_least": {"paid_share": 0.05}, "at_most": {"paid_share": 0.5}},
        lambda p, j: (
            p.locator(f"#column-{j('paid_share')}-low").fill("0.05"),
            p.locator(f"#column-{j('paid_share')}-high").fill("0.5"),
        ),
    ),
    "a level": (
        {"exactly": {"owner": 1}},
        lambda p, j: p.locator(f"#column-{j('owner')}-level").select_option(label="1"),
    ),
    "a moment": (
        {"at_least": {"since": "2023-10-23"}},
        lambda p, j: p.locator(f"#column-{j('since')}-low").fill("2023-10-23"),
    ),
    "two at once": (
        {"keep": ["owner"], "at_most": {"paid_share": 0.5}},
        lambda p, j: (
            p.locator(f"#column-{j('owner')}-keep").check(),
            p.locator(f"#column-{j('paid_share')}-high").fill("0.5"),
        ),
    ),
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_conditions_weigh_the_draws_as_given_does(browser, loan, loan_file, name):
    asked, do = CONDITIONS[name]
    there = loan.given(**asked)
    with opened(browser, loan_file) as page:
        show_all(page)
        do(page, lambda column: position(loan, column))
        assert_same(figures(page), tabled(there))
        assert effective(page) == pytest.approx(there.draws.ess, abs=0.51)
        assert_same_ranges(page, there, ["amount", "balance", "since"])
        assert_same_columns(page, there)
        row = there.answer.row.iloc[0]
        chosen = plan(page)["row"]
        if not is_as_reliable(page, loan):  # then it is the cheapest known point, as Python's answer
            for column in ("income", "paid_share", "debt_ratio", "amount"):
                assert chosen[column] == pytest.approx(float(row[column]), rel=1e-6)
            assert chosen["job"] == row["job"]
        page.locator("#reset").click()
        assert_same(figures(page), tabled(loan))
        sound(page)


def test_too_few_draws_are_said_with_the_line_that_asks_the_model(browser, loan, loan_file):
    asked = {"at_least": {"income": 7000}, "keep": ["owner"], "exactly": {"job": "clerk"}}
    with pytest.raises(ValueError, match="To use the models instead, run") as error:
        loan.given(**asked)
    with opened(browser, loan_file) as page:
        show_all(page)
        page.locator(f"#column-{position(loan, 'income')}-low").fill("7000")
        page.locator(f"#column-{position(loan, 'owner')}-keep").check()
        page.locator(f"#column-{position(loan, 'job')}-level").select_option(label="'clerk'")
        assert page.locator("#advice").is_visible()
        assert "too-few" in page.locator("body").get_attribute("class")
        line = page.locator("#python-line").inner_text()
        sound(page)
    assert options_of(line) == asked
    assert options_of(str(error.value)) == asked


def options_of(text):
    """Return the options of the call of ``explainer.given`` that a text ends with."""
    call = ast.parse(text[text.index("explainer.given") :].strip(), mode="eval").body
    return {one.arg: ast.literal_eval(one.value) for one in call.keywords}


def test_effort_tilts_the_weights_and_the_cost_by_the_size_of_the_change(browser, loan, loan_file):
    j = position(loan, "paid_share")
    x, reached = known_points(loan)
    size = loan.space.change(x, loan.x0)[:, j] / loan.space.scale[j]
    plain = costs(loan.space, x, loan.x0, "l1")
    with opened(browser, loan_file) as page:
        show_all(page)
        for effort, factor in (("harder", 2.0), ("easier", 0.5), ("much harder", 4.0)):
            page.locator(f"#column-{j}-effort").select_option(effort)
            there = loan.given(effort={"paid_share": factor})
            assert_same(figures(page), tabled(there))
            assert_same_ranges(page, there, ["paid_share", "income"])
            assert effective(page) == pytest.approx(there.draws.ess, abs=0.51)
            cost = np.where(reached, plain + (factor - 1.0) * size, np.inf)
            chosen = plan(page)
            if is_as_reliable(page, loan):
                continue
            for row in (loan.space.frame(x[[cost.argmin()]]).iloc[0], there.answer.row.iloc[0]):
                assert chosen["row"]["paid_share"] == pytest.approx(float(row["paid_share"]), rel=THREE_DIGITS)
        sound(page)


# --- lines of Python ---------------------------------------------------------------------------------------------


def harder(page, j):
    page.locator(f"#column-{j('income')}-effort").select_option("harder")


ASKED = {
    "nothing": (lambda p, j: None, {}, None),
    "conditions": (CONDITIONS["two at once"][1], CONDITIONS["two at once"][0], None),
    "all of it": (
        lambda p, j: (slide(p, "eta", 36), CONDITIONS["a level"][1](p, j), harder(p, j)),
        {"effort": {"income": 2}, "exactly": {"owner": 1}},
        36,
    ),
}


@pytest.mark.parametrize("name", ASKED)
def test_lines_of_python_say_what_the_page_shows(browser, loan, loan_explainer, loan_file, name):
    do, options, step = ASKED[name]
    names = {"explanation": loan, "explainer": loan_explainer, "gbce": gbce}
    with opened(browser, loan_file) as page:
        show_all(page)
        do(page, lambda column: position(loan, column))
        reading, line = (page.locator(f"#{one}").text_content() for one in ("reading-line", "python-line"))
        shown = figures(page)
        sound(page)
    read = eval(reading, names)
    assert_same(shown, {"success": read["success_probability"], "tail": read["tail"], "loss": read["expected_loss"]})
    found = eval(line, names)
    if not options and step is None:
        assert list(found.index) == ["Nearest"]
        return
    eta = loan.eta if step is None else explorer_payload(loan)["points"]["etas"][step]
    asked = loan.given(**options).query if options else loan.query
    assert found.eta == eta
    assert found.query.conditions == asked.conditions
    assert found.query.effort == asked.effort
    # models asked anew and the same draws weighed anew answer the same question
    value, se = found.distribution[["success_probability", "success_probability_se"]]
    assert abs(value - shown["success"]) < 5 * np.hypot(se, read["success_probability_se"])


def test_lines_for_few_columns_and_for_reliability_ask_a_rule(browser, loan, loan_explainer, loan_file):
    names = {"explanation": loan, "explainer": loan_explainer, "gbce": gbce}
    with opened(browser, loan_file) as page:
        slide(page, "most", 1)
        few = page.locator("#python-line").text_content()
        slide(page, "wanted", len(positions(page)) - 1)
        both, lacks = (page.locator(f"#{one}").text_content() for one in ("python-line", "python-line-lacks"))
        sound(page)
    row = eval(few, names)
    assert loan.space.changed(loan.space.encode(row), loan.x0).sum() == 1
    assert "at most 1 column" in lacks
    wanted = min(explorer_payload(loan)["frontier"]["steps"][-1]["reliability"], 0.99)  # certainty is not promised
    found = eval(both, names)
    assert loan_explainer.assess(loan, found)["robustness"].iloc[0] > wanted - 5 * np.sqrt(0.25 / 200)


def test_the_line_for_models_that_agree_is_a_step_of_the_frontier(browser, models, models_explainer, models_file):
    with opened(browser, models_file) as page:
        slide(page, "wanted", len(positions(page)) - 1)
        line, chosen = page.locator("#python-line").text_content(), plan(page)
        sound(page)
    found = eval(line, {"explanation": models, "explainer": models_explainer})
    assert found["cost"].tolist() == pytest.approx([chosen["cost"]], rel=THREE_DIGITS)


def test_columns_are_found_by_name_and_all_can_be_shown(browser, loan, loan_file):
    with opened(browser, loan_file) as page:
        listed = len(loan.free)
        assert page.locator(".column").count() == 12
        page.locator("#find-column").fill("late")
        assert page.locator(".column:visible").count() == 1
        page.locator("#find-column").fill("")
        assert page.locator(".column:visible").count() == listed
        page.locator("#all-strips").click()
        assert page.locator(".strip-line").count() == listed
        assert "country" in page.locator("#answer").inner_text()
        sound(page)


# --- other ways, bookmarks, copies, points -----------------------------------------------------------------------


def test_bookmarks_stand_side_by_side_and_are_copied(browser, loan, loan_file):
    ways = loan.alternatives(4).table
    share = ways["mass"].iloc[0] / loan.distribution["success_probability"]
    with opened(browser, loan_file) as page:
        assert page.locator("article.card").count() == ways["reached"].sum()
        first = page.locator("article.card").first.text_content()
        assert f"{100 * share:.0f}% of the draws that reach the target" in first
        page.locator("#bookmark").click()
        page.locator("[data-way='0']").click()
        page.locator("[data-rule]").first.click()
        page.locator("#bookmark").click()  # the answer again: it is there already
        payload = explorer_payload(loan)
        first = [payload["answer"], payload["alternatives"]["listed"][0], payload["decisions"][0]]
        letters = ["A", "B", "C"][: len({one["point"] for one in first})]  # a point stands there once
        assert page.locator("#bookmarks thead th").all_text_contents() == ["column", "now", *letters]
        texts = {}
        for kind in ("text", "CSV", "JSON"):
            page.locator(f"#bookmarks [data-copy={kind}]").click()
            texts[kind] = page.locator("#copy-text").input_value()
            page.locator("#copy button").click()
        page.get_by_role("button", name=f"Remove {letters[-1]}").click()
        assert page.locator("#bookmarks thead th").all_text_contents() == ["column", "now", *letters[:-1]]
        sound(page)
    assert texts["text"].startswith(f"A: {loan.answer}")
    assert next(csv.reader(io.StringIO(texts["CSV"]))) == ["", "now", *letters]
    kept = json.loads(texts["JSON"])
    answer = loan.answer.to_dict()
    assert {name: kept[0]["row"][name] for name in ("income", "job", "amount")} == {
        name: answer["row"][name] for name in ("income", "job", "amount")
    }


def test_the_row_behind_a_point_is_told_by_mouse_and_by_keys(browser, loan, loan_file):
    with opened(browser, loan_file) as page:
        page.locator("#pair-x").select_option(label="income")
        page.locator("#pair-y").select_option(label="job")
        page.locator(".cloud").focus()
        told = []
        for key in ("ArrowRight", "ArrowRight", "ArrowLeft"):
            page.keyboard.press(key)
            told.append(page.locator("#cloud-detail p").first.inner_text())
        assert told[0] == told[2]
        assert told[0] != told[1]
        dot = page.locator(".cloud circle.hit").nth(5).bounding_box()
        page.mouse.move(dot["x"] + dot["width"] / 2, dot["y"] + dot["height"] / 2)
        assert "the model then predicts" in page.locator("#cloud-detail").inner_text()
        page.locator("#bookmark-point").click()
        assert page.locator("#bookmarks table").count() == 1
        sound(page)


def test_models_that_disagree_have_a_section_and_a_live_figure(browser, models, models_file):
    with opened(browser, models_file) as page:
        said = page.locator("#disagreement .lead").text_content()
        assert said.lower().rstrip(".") == str(models.disagreement()).lower().rstrip(".")
        step = 30
        slide(page, "eta", step)
        there = models.at(explorer_payload(models)["points"]["etas"][step])
        assert_same(figures(page), {"differ": there.disagreement().overall["differ"]})
        sound(page)


def test_colours_follow_the_system_and_the_button(browser, loan_file):
    shade = "getComputedStyle(document.body).backgroundColor"
    with opened(browser, loan_file, color_scheme="dark") as page:
        dark = page.evaluate(shade)
        page.locator("#theme").click()
        light = page.evaluate(shade)
        sound(page)
    with opened(browser, loan_file, color_scheme="light") as page:
        assert page.evaluate(shade) == light
        page.locator("#theme").click()
        assert page.evaluate(shade) == dark
        page.emulate_media(media="print")
        assert page.evaluate(shade) == light
        assert page.locator("button:visible").count() == 0


def test_a_page_without_any_way_of_its_own_says_so(loan):
    payload = explorer_payload(replace(loan, strategies=None))
    assert payload["alternatives"]["listed"] == []
    assert payload["alternatives"]["why"] == str(replace(loan, strategies=None).alternatives(3)).strip()
    assert payload["menu"]["sets"] == []


def test_the_menu_of_a_page_is_that_of_the_explanation(browser, loan, loan_file):
    table = loan.menu(3).table
    reaching = table[table["verdict"] == "reaches"]
    assert len(reaching)
    with opened(browser, loan_file) as page:
        lines = page.locator("#menu tbody tr")
        assert lines.count() == min(len(reaching), 12)
        assert lines.first.locator("th, td").first.text_content() == ", ".join(reaching["columns"].iloc[0])
        sound(page)


def test_the_prediction_at_each_way_is_stated(loan):
    payload = explorer_payload(loan)
    said, ways = payload["said"], payload["alternatives"]["listed"]
    at = np.frombuffer(base64.b64decode(said["at"]["data"]), said["at"]["type"])
    assert len(ways) > 1
    for way in ways:
        assert said["texts"][at[way["point"]]] == loan.target.say(way["output"], True)
