"""The page of a table, in a browser: every control, and the numbers that Python has."""

import csv
import io
import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import gbce
from gbce.batch._table import record_of, stack_records
from gbce.explanation import number_text
from gbce.pages import table_page
from gbce.pages._table_page import _pack_new, table_payload

QUICK = gbce.Importance(n_candidates=600, n_draws=150)
HOSTILE = ["</script><script>window.hit=1</script>", '"><img src=x onerror=window.hit=1>', "a\u2028b & <b>"]
MOST_BYTES = 2_000_000


def people(n=80):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "income": rng.lognormal(7, 0.4, n).round(0),
            "debt": rng.lognormal(5, 0.8, n).round(1),
            "cards": rng.integers(0, 4, n),
            "housing": rng.choice(["rent", "own", "free"], n),
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D"),
        }
    )
    return frame.set_index(pd.Index([f"p{i:02d}" for i in range(n)]))


RICH = 50_000.0  # beyond what candidates for other rows reach


def score(frame):
    if (frame["income"] > RICH).any():
        raise RuntimeError("knows no such <i>income</i>")
    worth = np.log1p(frame["income"].astype(float)) - 0.5 * np.log1p(frame["debt"].astype(float))
    return (worth + 0.4 * (frame["housing"] == "own") - 0.2 * frame["cards"].astype(float)).to_numpy()


PEOPLE = people()
TARGET = gbce.AtLeast(5.2)
RULES = ["MAP", "Mean"]
ASKED = PEOPLE.iloc[:12].copy()
ASKED.loc["p03", "income"] = 2 * RICH  # fails
ASKED.loc["p05", ["income", "debt"]] = [3000.0, 10.0]  # reaches the target as it is


def explain(rows=ASKED, model=score, data=PEOPLE, target=TARGET, rules=RULES, **options):
    kept = {name: options.pop(name) for name in ("store", "keep") if name in options}
    explainer = gbce.Explainer(model, data, sampler=QUICK, **options)
    return explainer.explain_many(rows, target, rules=rules, seed=1, progress=False, **kept)


@pytest.fixture(scope="module")
def table():
    with pytest.warns(UserWarning, match="could not be explained"):
        return explain()


class Opened:
    """A page in the browser, and all that went wrong in it."""

    def __init__(self, browser, path, width=1280, **options):
        self.context = browser.new_context(viewport={"width": width, "height": 800}, **options)
        self.page = self.context.new_page()
        self.wrong, self.requests = [], []
        self.page.on("console", lambda message: self.wrong.append(message.text))
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())

    def texts(self, selector):
        return self.page.locator(selector).all_text_contents()

    def rows(self):
        return [
            int(one) for one in self.page.evaluate("[...document.querySelectorAll('tr.line')].map(r => r.dataset.row)")
        ]

    def tile(self, name):
        return self.page.locator("#tiles div", has_text=name).locator("dd").text_content()


@pytest.fixture
def open_page(browser, tmp_path):
    opened = []

    def open_one(table, width=1280, groups=None, **options):
        path = (
            table if not isinstance(table, gbce.ExplanationTable) else table.to_html(tmp_path / "t.html", groups=groups)
        )
        opened.append(Opened(browser, path, width, **options))
        return opened[-1]

    yield open_one
    for one in opened:
        one.context.close()
        assert one.wrong == []
        assert len(one.requests) == 1
        assert one.requests[0].startswith("file:")


def four(value):
    return number_text(float(value), 4)


def test_it_opens_with_how_many_rows_have_which_answer(table, open_page):
    shown = open_page(table)
    kinds = table.answers["kind"].where(table.answers["kind"] != "", table.diagnostics["status"]).value_counts()
    chips = {re.sub(r"\s*\d+$", "", text): int(text.split()[-1]) for text in shown.texts("#summary .chips button")}
    assert chips == kinds.to_dict()
    assert "wanted: at least 5.2" in shown.page.locator("#summary h2").text_content()
    todo = table.answers[table.answers["n_changes"] > 0]
    assert shown.tile("median cost") == four(np.float32(todo["cost"].median()))
    assert shown.tile("columns to change") == four(todo["n_changes"].median())
    assert shown.tile("rows shown") == "12"


@pytest.mark.parametrize("down", [False, True])
def test_every_column_sorts(table, open_page, down):
    shown = open_page(table)
    if down:
        shown.page.click("#down")
    facts = pd.concat([table.rows.reset_index(drop=True), table.answers.reset_index(drop=True)], axis=1)
    facts = facts.where(facts["kind"] != "", np.nan)
    by = {
        "income": table.rows["income"],
        "since": table.rows["since"],
        "cost": facts["cost"],
        "works": facts["reliability"],
    }
    for label, values in by.items():
        shown.page.select_option("#sort", label=label)
        order = values.reset_index(drop=True).astype(float if label != "since" else "int64")
        signed = -order if down else order
        assert shown.rows() == signed.sort_values(kind="stable", na_position="last").index.tolist(), label
    for column in shown.page.evaluate("[...document.querySelectorAll('#sort option')].map(o => o.value)"):
        shown.page.select_option("#sort", column)
        assert sorted(shown.rows()) == list(range(12))


def test_heads_sort_and_say_so(table, open_page):
    shown = open_page(table)
    head = shown.page.locator("#lines th[data-column=cost]")
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    head.locator("button").press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    cost = table.answers["cost"].reset_index(drop=True)
    assert shown.rows()[0] == cost.idxmax()


def test_filters_keep_the_rows_that_pandas_keeps(table, open_page):
    shown = open_page(table)
    rows = table.rows.reset_index(drop=True)
    shown.page.select_option("#add-filter", label="income")
    shown.page.fill('fieldset input[data-end="low"]', "900")
    wanted = rows["income"] >= 900
    assert shown.rows() == rows.index[wanted].tolist()
    shown.page.select_option("#add-filter", label="housing")
    shown.page.locator("fieldset", has_text="housing").get_by_label("rent").uncheck()
    wanted &= rows["housing"] != "rent"
    assert shown.rows() == rows.index[wanted].tolist()
    shown.page.select_option("#add-filter", label="since")
    shown.page.locator("fieldset", has_text="since").locator('[data-end="high"]').fill("2021-06")
    wanted &= rows["since"] < "2021-07-01"
    assert shown.rows() == rows.index[wanted].tolist()
    assert f"{int(wanted.sum())} row" in shown.page.locator("#matched").text_content()
    shown.page.get_by_label("remove the filter on since").click()
    shown.page.click("#clear")
    assert len(shown.rows()) == 12
    shown.page.fill("#search", "P07")
    assert shown.rows() == [7]
    shown.page.fill("#search", "no such row")
    assert "No row matches" in shown.page.locator("#matched").text_content()
    shown.page.click("#clear")
    shown.page.locator("#summary .chips button", has_text="failed").click()
    assert shown.rows() == [row for row in range(12) if table.diagnostics["status"].iloc[row] != "failed"]


@pytest.mark.parametrize("rule", ["MAP", "Mean"])
def test_what_changes_is_what_the_table_says(table, open_page, rule):
    shown = open_page(table)
    shown.page.select_option("#rule", label=rule)
    moves = table.changes()[lambda lines: lines["rule"] == rule]
    decided = (table.pointwise.index.get_level_values("rule") == rule).sum()
    counts = moves["feature"].value_counts()
    said = dict(zip(shown.texts("#moves .name"), shown.texts("#moves .share-text"), strict=True))
    assert {name: int(re.search(r"\((\d+)\)", text)[1]) for name, text in said.items()} == counts.to_dict()
    for name, n in counts.items():
        assert said[name].startswith(f"{100 * n / decided:.0f}%")
    middle = moves.loc[moves["feature"] == "debt", "change"].astype(float).median()
    words = shown.page.locator('#moves li[data-feature="debt"] .said').text_content()
    assert words.endswith("median " + four(middle).replace("-", "−"))
    up = int((moves.loc[moves["feature"] == "debt", "change"] > 0).sum())
    n = counts["debt"]
    assert words.startswith("raised;" if up == n else f"raised in {up}, lowered in {n - up};" if up else "lowered;")
    where = set(moves.loc[moves["feature"] == "debt", "row"])
    shown.page.locator("#moves .name", has_text="debt").click()
    assert {table.diagnostics.index[row] for row in shown.rows()} == where
    assert "only those that change debt" in shown.page.locator("#matched").text_content()


def test_a_row_opens_by_click_and_by_key_with_answer_changes_decisions_and_figures(table, open_page):
    shown = open_page(table)
    row = int(np.flatnonzero((table.answers["n_changes"] > 0) & table.answers["reached"])[0])
    label, answer = table.diagnostics.index[row], table.answers.iloc[row]
    button = shown.page.locator(f'tr.line[data-row="{row}"] button.open')
    button.press("Enter")
    assert button.get_attribute("aria-expanded") == "true"
    detail = shown.page.locator(f"#detail-{row}")
    assert answer["sentence"] in detail.locator("p.answer").text_content()
    told = {line[0]: line[1:] for line in detail.locator(".before-after tbody tr").evaluate_all(
        "lines => lines.map(line => [...line.cells].map(cell => cell.textContent))"
    )}  # fmt: skip
    known = table.encoded
    changed = known.space.changed(known.answers[row][None, :], known.x0[row])[0]
    assert sorted(told) == sorted(np.array(known.space.names)[changed])
    for name, cells in told.items():
        j = known.space.names.index(name)
        if known.space.features[j].kind in ("real", "integer"):
            assert cells[:2] == [number_text(known.x0[row, j]), number_text(known.answers[row, j])]
    lines = detail.locator(".decisions tbody tr").evaluate_all(
        "lines => lines.map(line => [...line.cells].map(cell => cell.textContent))"
    )
    heads = detail.locator(".decisions thead th").all_text_contents()
    for line in lines:
        figures = table.pointwise.loc[(label, line[0])]
        shown_figures = dict(zip(heads, line, strict=True))
        assert shown_figures["target"].endswith("reached" if figures["reached"] else "missed")
        for name in ("output", "cost", "distance", "loss", "robustness", "plausibility"):
            assert float(shown_figures[name].replace(",", "")) == pytest.approx(figures[name], rel=1e-3), name
    success = table.distribution.iloc[row]["success_probability"]
    said = detail.locator("dl.facts").first.text_content()
    assert four(np.float32(success)) in said
    low, high = (float(end) for end in re.search(r"success probability\S* \(([\d.]+) to ([\d.]+)\)", said).groups())
    assert 0 <= low <= success <= high <= 1
    assert str(table.diagnostics["seed"].iloc[row]) in said
    detail.locator("summary").click()
    detail.locator("details dl").wait_for()
    assert detail.locator("details dl dt").all_text_contents() == list(known.space.names)
    shown.page.locator(f'tr.line[data-row="{row}"] td').first.click()
    assert detail.count() == 0


def test_rows_that_failed_and_decisions_that_miss_are_marked(table, open_page):
    reached = np.arange(len(table.pointwise)) % 3 > 0  # whatever chance decided
    shown = open_page(replace(table, pointwise=table.pointwise.assign(reached=reached)))
    failed = int(np.flatnonzero(table.diagnostics["status"] == "failed")[0])
    line = shown.page.locator(f'tr.line[data-row="{failed}"]')
    assert "failed" in line.get_attribute("class")
    for button in shown.page.locator("button.open").all():
        button.click()
    assert table.errors.iloc[0].split("\n")[0][:60] in shown.page.locator(f"#detail-{failed}").text_content()
    assert shown.page.locator(f"#detail-{failed} i").count() == 0
    marks = shown.texts(".decisions tbody td:nth-child(2) span")
    assert marks == ["✓ reached" if one else "✗ missed" for one in reached]
    assert shown.page.locator(".decisions .bad").count() == (~reached).sum()


def test_groups_are_those_of_group_costs(table, open_page):
    groups = pd.Series(["<a>", "b", "b"] * 4, index=table.diagnostics.index, name="team")
    shown = open_page(table, groups=groups)
    assert shown.texts("#grouping option")[0] == "team"
    for name, given in (("team", groups), ("housing", table.rows["housing"])):
        shown.page.select_option("#grouping", label=name)
        want = gbce.group_costs(table, given, rule="answer")
        lines = shown.page.locator("#group-costs tbody tr").evaluate_all(
            "lines => lines.map(line => [...line.cells].map(cell => cell.textContent))"
        )
        assert sorted(line[0] for line in lines) == sorted(want.index)
        for group, rows, share, _, cost, _ in lines:
            line = want.loc[group]
            assert int(rows.split(",")[0]) == line["rows"]
            of_all = "–" if np.isnan(line["attainable"]) else f"{100 * line['attainable']:.0f}%"  # a group of errors
            assert share.startswith(of_all)
            if np.isfinite(line["cost"]):
                numbers = [float(text) for text in re.findall(r"-?[\d.]+", cost)]
                np.testing.assert_allclose(numbers, line[["cost", "cost_low", "cost_high"]].dropna(), rtol=5e-3)
    want = gbce.group_changes(table, table.rows["housing"])
    cells = shown.page.locator("#group-changes tbody tr", has_text="debt").locator("td").all_text_contents()
    heads = shown.page.locator("#group-changes thead th").all_text_contents()[1:]
    for group, cell in zip(heads, cells, strict=True):
        value = want.loc[(group, "debt"), "change"]
        assert np.isnan(value) or float(cell.split(" ")[0].replace(",", "")) == pytest.approx(value, rel=5e-3)


def test_no_group_changes_a_category_with_a_probability_above_one(table):
    often = table.importance.copy()
    housing = often.index.get_level_values("feature") == "housing"
    often.loc[housing, "change"] = np.linspace(0.8, 1.0, housing.sum())
    found = gbce.group_changes(replace(table, importance=often), table.rows["cards"])
    intervals = found.xs("housing", level="feature")[["change", "low", "high"]].dropna()
    assert len(intervals) > 1
    assert (intervals["high"] <= 1.0).all()
    assert (intervals["high"] == 1.0).any()
    assert (intervals["low"] <= intervals["change"]).all()


def test_columns_can_be_added_and_rows_copied(table, open_page):
    shown = open_page(table)
    shown.page.locator("#columns summary").click()
    shown.page.locator("#columns").get_by_label("since", exact=True).check()
    cells = shown.page.locator("tr.line td:last-child").all_text_contents()
    assert cells == [str(moment.date()) for moment in table.rows["since"]]
    shown.page.locator("#columns").get_by_label("since", exact=True).uncheck()
    shown.page.click("#csv")
    lines = list(csv.DictReader(io.StringIO(shown.page.input_value("#copy-text"), newline="")))
    assert [float(line["debt"]) for line in lines] == table.rows["debt"].tolist()
    assert [line["sentence"] for line in lines] == table.answers["sentence"].tolist()
    shown.page.locator("#copy button").click()
    before = shown.page.evaluate("getComputedStyle(document.body).backgroundColor")
    shown.page.click("#theme")
    assert shown.page.evaluate("getComputedStyle(document.body).backgroundColor") != before


def test_a_table_from_a_store_has_the_same_page(tmp_path):
    rows, options = ASKED.iloc[:2], {"store": tmp_path / "run", "keep": "draws", "rules": "MAP"}
    once, again = (table_payload(table) for table in (explain(rows, rules="MAP"), explain(rows, **options).read()))
    for name in ("calls", "asked"):
        once.pop(name), again.pop(name)
    assert json.dumps(once) == json.dumps(again)


@pytest.fixture(scope="module")
def hostile():
    frame = PEOPLE[["income", "debt", "housing"]].copy()
    frame["housing"] = frame["housing"].map(dict(zip(["rent", "own", "free"], HOSTILE, strict=True)))
    frame.columns = HOSTILE
    frame.index = [HOSTILE[i % 3] + str(i) for i in range(len(frame))]

    def model(rows):
        if (rows.iloc[:, 0] > RICH).any():
            raise RuntimeError(HOSTILE[0] + HOSTILE[1])
        return np.log1p(rows.iloc[:, 0].astype(float)).to_numpy()

    rows = frame.iloc[:4].copy()
    rows.iloc[3, 0] = 2 * RICH
    with pytest.warns(UserWarning, match="could not be explained"):
        return explain(rows, model, frame, gbce.AtLeast(7.5), ["MAP"])


def test_hostile_names_are_only_texts(hostile, open_page):
    shown = open_page(hostile)
    for button in shown.page.locator("button.open").all():
        button.click()
    for option in shown.page.evaluate("[...document.querySelectorAll('#add-filter option')].map(o => o.value)"):
        shown.page.select_option("#add-filter", option)
    assert shown.page.evaluate("window.hit") is None
    assert shown.page.locator("img, main script").count() == 0
    assert HOSTILE[1] in shown.page.locator("main").text_content()
    assert HOSTILE[0] in shown.page.locator("#detail-3 p.answer").text_content()


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1280, "dark")])
def test_axe_finds_nothing_serious_and_nothing_sticks_out(table, open_page, width, scheme):
    from axe_playwright_python.sync_playwright import Axe

    shown = open_page(table, width, bypass_csp=True, color_scheme=scheme)
    for row in (0, 3):
        shown.page.locator(f'tr.line[data-row="{row}"] button.open').click()
    for column in ("income", "housing"):
        shown.page.select_option("#add-filter", label=column)
    shown.page.locator("#columns summary").click()
    found = Axe().run(shown.page).response["violations"]
    assert [(one["id"], one["impact"]) for one in found if one["impact"] in ("serious", "critical")] == []
    assert shown.page.evaluate("document.documentElement.scrollWidth") <= width


def grown(explanations, n):
    """Return the records of a few explanations as those of many rows: values, changes and texts are each row's own."""
    rng = np.random.default_rng(0)
    known = [record_of(one) for one in explanations]

    def retold(text):
        return re.sub(r"\d", lambda _: str(rng.integers(10)), text)

    records = []
    for i in range(n):
        record = known[i % len(known)]
        before, x0 = record.encoded.x0, rng.normal(size=record.encoded.x0.shape)
        answer, decisions = (
            x0 + (after - before) * rng.lognormal(size=after.shape)
            for after in (record.encoded.answers, record.encoded.decisions)
        )
        figures = record.pointwise.select_dtypes(float)
        records.append(
            replace(
                record,
                encoded=replace(record.encoded, x0=x0, answers=answer, decisions=decisions),
                answer=record.answer | {"sentence": retold(record.answer["sentence"])},
                pointwise=record.pointwise.assign(**figures * rng.uniform(0.5, 1.5, size=figures.shape)),
                distribution=record.distribution * rng.uniform(0.5, 1.5, size=len(record.distribution)),
                diagnostics=record.diagnostics
                | {name: retold(record.diagnostics[name]) for name in ("notes", "posterior_note")}
                | {"seed": int(rng.integers(2**62))},
            )
        )
    return stack_records(records, [f"case {i}" for i in range(n)], n, n)


@pytest.mark.parametrize("prior", [gbce.Sparse(moves=3), gbce.Gaussian()], ids=["sparse", "dense"])
def test_a_thousand_rows_take_less_than_two_megabytes(prior, open_page, tmp_path, capsys):
    data = np.random.default_rng(0).normal(size=(60, 20))
    explainer = gbce.Explainer(lambda x: x.sum(axis=1), data, space=gbce.Space.real(20), prior=prior, sampler=QUICK)
    rules = ["MAP", "Mean", "Medoid", "GeometricMedian"]
    made = [explainer.explain(row, gbce.AtLeast(5, scale=1), rules=rules, seed=0) for row in data[:2]]
    table = grown(made, 1_000)
    assert len(np.unique(table.encoded.x0)) == table.encoded.x0.size  # no row stands for another one
    assert len(set(table.answers["sentence"])) == 1_000
    path = table.to_html(tmp_path / "many.html")
    with capsys.disabled():
        print(f"\n1,000 rows x 20 columns x {len(rules)} rules, {type(prior).__name__}: {path.stat().st_size:,} bytes")  # noqa: T201
    assert path.stat().st_size < MOST_BYTES
    shown = open_page(path)
    assert len(shown.rows()) == 100
    shown.page.click("#more")
    assert len(shown.rows()) == 200
    assert "the first 200" in shown.page.locator("#matched").text_content()


def test_changes_too_small_for_single_precision_are_kept_apart():
    before = np.linspace(1.0, 2.0, 100)
    after = before + np.where(np.arange(100) % 20 == 0, 1e-7, 0.3)
    packed = _pack_new(before, after)
    assert packed["type"] == "f4"
    assert packed["apart"]["at"] == list(range(0, 100, 20))
    assert packed["apart"]["values"] == after[::20].tolist()
    assert _pack_new(before, before + 1e-7)["type"] == "f8"


def test_one_row_many_columns_and_labels_that_occur_twice(open_page):
    rng = np.random.default_rng(0)
    wide = pd.DataFrame(rng.normal(size=(20, 300)), columns=[f"column {j}" for j in range(300)])
    table = explain(wide.iloc[:1], lambda f: f.to_numpy()[:, :40].sum(axis=1), wide, gbce.Change(2.0), ["Mean"],
                    prior=gbce.Gaussian(), policy=None)  # fmt: skip
    shown = open_page(table)
    assert shown.texts("#rule option") == ["Mean"]
    assert len(shown.texts("#moves li")) == 12
    shown.page.click("#all-features")
    assert len(shown.texts("#moves li")) == len(table.changes())
    rows = PEOPLE.iloc[:2].set_axis([7, 7])
    table = explain(rows, rules=["MAP"], policy=None)
    shown = open_page(table)
    for row in (0, 1):
        shown.page.locator(f'tr.line[data-row="{row}"] button.open').click()
        assert "No answer was sought" in shown.page.locator(f"#detail-{row}").text_content()
        assert shown.page.locator(f"#detail-{row} .decisions tbody tr").count() == 1


def test_missing_values_are_said_and_come_last(open_page):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=40), "b": rng.choice(["x", "y", None], 40), "c": rng.normal(size=40)})
    frame.loc[[1, 5], "a"] = np.nan
    table = explain(frame.iloc[:3], lambda f: (f["a"].fillna(0) + (f["b"] == "x") + f["c"]).to_numpy(), frame,
                    gbce.AtLeast(2.0), ["MAP"], policy=None)  # fmt: skip
    shown = open_page(table)
    shown.page.select_option("#sort", label="a")
    assert shown.rows()[-1] == 1
    shown.page.locator('tr.line[data-row="1"] button.open').click()
    shown.page.locator("#detail-1 summary").click()
    assert shown.page.locator("#detail-1 details dl dd").first.text_content().startswith("missing")


def test_what_cannot_be_shown_is_said(table):
    with pytest.raises(ValueError, match="there is no column 'nonsense'"):
        table.to_html(groups="nonsense")
    with pytest.raises(ValueError, match="one entry per row"):
        table.to_html(groups=["a"])
    with pytest.raises(ValueError, match="to_html needs the rows"):
        replace(table, encoded=None).to_html()
    with pytest.raises(TypeError, match=r"come from explainer\.explain_many"):
        table_page([])
    many = pd.concat([ASKED.drop("p03")] * 4)
    with pytest.raises(ValueError, match="44 groups are too many"):
        table_page(_repeated(table, many), groups=list(range(44)))


def _repeated(table, rows):
    """Return a table that has as many rows as asked for, all of them like the first."""
    label = table.diagnostics.index[0]
    times = [0] * len(rows)
    known = table.encoded
    return replace(
        table,
        diagnostics=table.diagnostics.iloc[times],
        answers=table.answers.iloc[times],
        distribution=table.distribution.iloc[times],
        importance=pd.concat([table.importance.loc[[label]]] * len(rows)),
        encoded=replace(known, x0=known.x0[times], answers=known.answers[times], answered=known.answered[times]),
    )
