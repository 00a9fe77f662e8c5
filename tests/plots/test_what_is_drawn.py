"""Pictures show what the tables say: positions, levels, days, gaps, marks."""

import re
from dataclasses import replace
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib import dates
from matplotlib.colors import to_rgb

import gbce
from gbce.plots._style import ANSWER, DRAWS, MISSED, SAFE

QUICK = gbce.Importance(1_000, 200)


def labels(axis_labels):
    return [text.get_text() for text in axis_labels]


def marks(ax, label):
    """Places of all marks with an entry of the legend, in the axes' own data."""
    return np.vstack([np.asarray(c.get_offsets()) for c in ax.collections if c.get_label() == label])


def pixels(ax, zorders=(5, 6)):
    """Middles of the marks of decisions and of the answer, in points."""
    ax.figure.draw_without_rendering()
    found = [c for c in ax.collections if c.get_zorder() in zorders]
    return np.vstack([c.get_offset_transform().transform(c.get_offsets()) for c in found]) * 72 / ax.figure.dpi


def seen_at(ax, places):
    """Where places in the axes' own data are, in points."""
    ax.figure.draw_without_rendering()
    return ax.transData.transform(places) * 72 / ax.figure.dpi


def answered(explanation, **values):
    """The same explanation with an answer that changes what the test says, whatever was drawn."""
    frame = explanation.space.frame(explanation.x0[None, :]).assign(**values)
    decision = replace(explanation.answer.decision, x=explanation.space.encode(frame)[0])
    return replace(explanation, answer=replace(explanation.answer, decision=decision))


@pytest.fixture(scope="module")
def told(mixed):
    return answered(mixed, fees=0.3, savings=2.16, job="smith", since=pd.Timestamp("2021-10-11"))


# --- before and after ----------------------------------------------------------------------------------------------


def test_before_and_after_has_a_line_for_each_change_of_the_answer(told):
    ax = told.plot.before_after()
    changed = ["fees", "savings", "job", "since"]
    assert labels(ax.get_yticklabels()) == ["first says", *changed]
    texts = labels(ax.texts)
    assert "missing" in texts  # savings now
    assert {"clerk", "none", "smith"} <= set(texts)  # levels, and not a number
    assert {"2021-10-11", "0.3", "2.16"} <= set(texts)
    stars = [c for c in ax.collections if np.allclose(c.get_facecolor()[0, :3], to_rgb(ANSWER))]
    assert len(stars) == len(changed) + 1
    assert f"{int(100 * told.answer.reliability.share + 1e-9)} times out of 100" in ax.get_xlabel()


def test_before_and_after_of_a_rule_and_of_one_that_is_not_there(mixed):
    ax = mixed.plot.before_after("Nearest")
    of = mixed.changes()
    assert labels(ax.get_yticklabels())[1:] == of.loc[of["rule"] == "Nearest", "feature"].tolist()
    assert "(Nearest)" in ax.get_title(loc="left")
    with pytest.raises(ValueError, match=r"there is no decision 'CVaR'; the explanation has \['MAP', "):
        mixed.plot.before_after(rule="CVaR")


def bands(ax, colour=SAFE):
    return [patch for patch in ax.patches if np.allclose(patch.get_facecolor()[:3], to_rgb(colour))]


def test_safe_ranges_are_bands_around_the_new_value(told):
    then = told.answer.changes.loc["since", "then"]
    span = pd.Timedelta(days=30)
    known = {"since": (then - span, then + span), "fees": (None, 0.4), "job": ["smith", "clerk"]}
    ax = told.plot.before_after(safe=known)
    drawn = bands(ax)
    assert len(drawn) == 5  # of the output, of two numbers, and two levels
    (line,) = [k for k, name in enumerate(labels(ax.get_yticklabels())) if name == "since"]
    (own,) = [band for band in drawn if abs(band.get_y() + band.get_height() / 2 - line) < 1e-6]
    star = next(c for c in ax.collections if c.get_zorder() == 5 and c.get_offsets()[0, 1] == line)
    middle = own.get_x() + own.get_width() / 2
    assert middle == pytest.approx(float(star.get_offsets()[0, 0]), abs=0.01)
    assert "up to 0.4" in labels(ax.texts)
    assert "wanted / still works" in labels(ax.get_legend().get_texts())
    frame = pd.DataFrame({"low": [0.1], "high": [0.4]}, index=["fees"])
    assert len(bands(told.plot.before_after(safe=frame))) == 2


@pytest.mark.parametrize(
    ("safe", "error", "words"),
    [
        ({"nope": (0, 1)}, ValueError, r"safe names \['nope'\], but the columns are"),
        ({"fees": 3.0}, TypeError, r"'fees' needs a pair \(low, high\), not 3.0"),
        ({"fees": (3.0, 1.0)}, ValueError, "the low end of 'fees' lies above its high end"),
        ({"job": "smith"}, TypeError, "'job' is a categorical column and needs a list of levels"),
        (pd.DataFrame({"low": [0.0]}, index=["fees"]), ValueError, "'low' and 'high'"),
        (5, TypeError, "safe must be a mapping of columns to ranges"),
    ],
)
def test_a_safe_range_that_is_none_is_refused(mixed, safe, error, words):
    with pytest.raises(error, match=words):
        mixed.plot.before_after(safe=safe)


def test_without_an_answer_the_first_decision_is_drawn_and_without_any_it_says_so(single):
    explainer = gbce.Explainer(lambda f: f["a"], pd.DataFrame({"a": np.arange(9.0)}), policy=None)
    explained = explainer.explain({"a": 0.0}, gbce.AtLeast(3), rules=["MAP"], seed=0)
    assert "(MAP)" in explained.plot.before_after().get_title(loc="left")
    none = explainer.explain({"a": 0.0}, gbce.AtLeast(3), rules=[], seed=0)
    for name in ("before_after", "decisions"):
        with pytest.raises(ValueError, match="made without rules"):
            getattr(none.plot, name)()


def test_a_miss_is_called_one(unreached):
    assert "does not reach" in unreached.plot.before_after().get_title(loc="left")
    assert "misses" in labels(unreached.plot.decisions().get_legend().get_texts())


def test_values_of_a_miss_are_rounded_as_in_its_sentence(unreached):
    drawn = labels(unreached.plot.before_after().texts)
    for j in range(len(unreached.space)):
        now, then = unreached.space.format_change(j, unreached.x0[j], unreached.answer.decision.x[j], exact=False)
        assert {now, then} <= set(drawn)
        assert f"from {now} to {then}" in unreached.answer.sentence


def test_a_long_name_is_broken_not_cut():
    name = "average_monthly_income_of_the_whole_household"
    frame = pd.DataFrame({name: np.random.default_rng(0).normal(size=100)})
    explained = gbce.Explainer(lambda f: f[name].to_numpy(), frame).explain(frame.iloc[0], gbce.AtLeast(1.5), seed=0)
    assert [label.replace("\n", "") for label in labels(explained.plot.before_after().get_yticklabels())][1] == name


def test_columns_that_changes_leaves_out_are_counted(wide):
    assert "; 15 more columns move about as under the prior" in wide.plot.changes().get_title(loc="left")
    assert "more" not in wide.plot.changes(max_features=30).get_title(loc="left")


# --- levels, days, gaps, tails -------------------------------------------------------------------------------------


def test_a_category_is_drawn_as_levels_and_a_decision_in_the_box_of_its_own(mixed):
    ax = mixed.plot.changes()
    line = [text.split()[0] for text in labels(ax.get_yticklabels())].index("job")
    boxes = sorted(
        (p for p in ax.patches if abs(p.get_y() + p.get_height() / 2 - line) < 1e-6), key=lambda p: p.get_x()
    )
    assert len(boxes) == 3
    names = sorted((t for t in ax.texts if abs(t.get_position()[1] - line) < 1e-6), key=lambda t: t.get_position()[0])
    shares = mixed.shares("job")["posterior"]
    assert labels(names) == [f"{level}\n{share:.0%}" for level, share in shares.items()]
    level = mixed.counterfactuals.loc["Medoid", "job"]
    at = marks(ax, "Medoid")
    (spot,) = at[np.abs(at[:, 1] - line) < 0.5, 0]
    own = boxes[list(shares.index).index(level)]
    assert own.get_x() < spot < own.get_x() + own.get_width()


def test_five_hundred_levels_are_grouped(mixed):
    ax = mixed.plot.shares("town")
    shown = labels(ax.get_yticklabels())
    assert len(shown) == 16
    assert shown[-1] == "other (485 levels)"
    posterior = [bar.get_width() for bar in ax.containers[1]]
    assert sum(posterior) == pytest.approx(1.0)
    table = mixed.shares("town")["posterior"]
    assert posterior[0] == pytest.approx(table[shown[0].removesuffix(" (now)")])
    ax = mixed.plot.posterior(("town", "income"))
    assert labels(ax.get_xticklabels())[-1] == "other (488 levels)"
    other = sum(float(o[0]) > 11.5 for c in ax.collections if c.get_zorder() == 1 for o in c.get_offsets())
    assert other == sum(f"town {k:.0f}" not in labels(ax.get_xticklabels()) for k in mixed.draws.x[:, 5])
    assert any(text.startswith("496 more") for text in labels(mixed.plot.changes().texts))


def test_days_are_days_and_missing_values_have_a_lane(mixed):
    ax = mixed.plot.posterior(("since", "savings"))
    assert isinstance(ax.xaxis.get_major_formatter(), dates.ConciseDateFormatter)
    drawn = np.vstack([c.get_offsets() for c in ax.collections if c.get_label().startswith("draw")])
    frame = mixed.draws.frame()
    assert len(drawn) == len(frame)
    np.testing.assert_allclose(np.sort(drawn[:, 0]), np.sort(dates.date2num(frame["since"])), atol=0.31)
    known = frame["savings"].dropna()
    lane = drawn[:, 1] < known.min()
    assert lane.sum() == frame["savings"].isna().sum() > 0
    assert len(np.unique(drawn[lane, 1])) == 1
    assert "missing" in labels(ax.texts)


def test_numbers_over_many_orders_have_a_logarithmic_axis():
    frame = pd.DataFrame({"a": np.geomspace(1.0, 1e6, 60), "b": np.linspace(1.0, 2.0, 60)})
    space = gbce.Space([gbce.Feature("a", low=1e-3, scale=1e5), gbce.Feature("b", scale=0.1)])
    explainer = gbce.Explainer(
        lambda f: f["b"], frame, space=space, prior=gbce.Sparse(change=0.2), sampler=gbce.Importance(600, 200)
    )
    explanation = explainer.explain({"a": 10.0, "b": 1.0}, gbce.AtLeast(1.05), rules=[gbce.Medoid()], seed=0)
    ax = explanation.plot.posterior(("a", "b"))
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "linear")


# --- marks ---------------------------------------------------------------------------------------------------------


def test_marks_at_one_place_stay_there_as_rings_around_each_other(told):
    x = told.answer.decision.x
    one = replace(told, decisions=tuple(replace(decision, x=x) for decision in told.decisions if not decision.beside))
    n = len(one.decisions) + 1
    posterior = one.plot.posterior(("job", "income"))
    place = told.space.features[4].levels.index("smith"), told.x0[0]
    np.testing.assert_allclose(
        pixels(posterior), seen_at(posterior, [place] * n), atol=0.1
    )  # points: the layout settles
    found = [c for c in posterior.collections if c.get_zorder() in (5, 6)]
    across = np.sort([np.sqrt(c.get_sizes()[0]) for c in found])
    assert len(found) == n == 5
    assert np.diff(across).min() > 2 * 2.0  # each ring is seen inside the next: twice the width of its line
    assert [c.get_label() for c in found if len(c.get_facecolor())] == ["the answer"]
    beside = pixels(one.plot.shares("job"))
    apart = np.hypot(*(beside[:, None] - beside[None, :]).transpose(2, 0, 1)) + 1e9 * np.eye(n)
    assert apart.min() > 0.95 * np.sqrt(46.0)  # a mark's diameter


def test_no_mark_is_drawn_above_certainty(told):
    """Two rules of the same share and nearly the same cost stand at that share, whatever room they need."""
    x = told.answer.decision.x
    sure = [replace(one, x=x, figures={**one.figures, "robustness": 1.0}) for one in told.decisions if not one.beside]
    ax = replace(told, decisions=tuple(sure)).plot.decisions()
    cost = marks(ax, "the answer")[0][0]
    want = seen_at(ax, [(cost, 1.0)] * len(sure) + [(cost, told.answer.reliability.share)])
    np.testing.assert_allclose(pixels(ax), want, atol=0.1)
    draws = np.vstack([c.get_offsets() for c in told.plot.frontier().collections if c.get_label() == "draw"])
    assert set(np.round(draws[:, 1], 9)) <= {0.0, 0.5, 1.0}  # two models of one weight


def test_lanes_of_changes_do_not_overlap(mixed):
    ax = mixed.plot.changes()
    at = pixels(ax)
    apart = np.hypot(*(at[:, None] - at[None, :]).transpose(2, 0, 1)) + 1e9 * np.eye(len(at))
    assert apart.min() > 0.9 * np.sqrt(30.0)


def test_decisions_stand_at_their_cost_and_robustness(mixed):
    for options, figure in (({}, "cost"), ({"distance": "l2"}, "distance")):
        ax = mixed.plot.decisions(**options)
        for rule, line in mixed.pointwise.iterrows():
            np.testing.assert_allclose(marks(ax, rule)[0], [line[figure], line["robustness"]])
        answer = marks(ax, "the answer")[0]
        assert answer[1] == pytest.approx(mixed.answer.reliability.share)
        assert figure in ax.get_xlabel()


def test_axes_of_cost_are_priced_as_the_answer(mixed):
    """Whatever is not asked otherwise is the sum of changes, and says so."""
    for ax in (mixed.plot.frontier(), mixed.plot.decisions()):
        assert marks(ax, "the answer")[0][0] == pytest.approx(mixed.answer.cost)
        assert ax.get_xlabel() == "cost: sum of changes, in units of each feature's scale"
    assert "expected cost" in [panel.get_title(loc="left") for panel in mixed.plot.path()]


def test_decisions_without_noise_say_what_stands_in_its_place(mixed):
    assert "reliability was not estimated" in mixed.at(0.9).plot.decisions().get_ylabel()


# --- figures -------------------------------------------------------------------------------------------------------


def test_importance_is_that_of_the_table_what_matters_most_first(mixed):
    ax = mixed.plot.importance()
    shown = [text.rsplit(" (", 1)[0] for text in labels(ax.get_yticklabels())]
    gap = (mixed.importance["ratio"] - 1).abs()
    assert shown[0] == gap.idxmax()
    width = [bar.get_width() for bar in ax.containers[1]]
    scale = dict(zip(mixed.space.names, mixed.space.scale, strict=True))
    np.testing.assert_allclose(width, [mixed.importance.loc[name, "change"] / scale[name] for name in shown])


def test_alternatives_have_a_panel_each_with_their_mass(mixed):
    found = mixed.alternatives(3)
    panels = np.ravel(mixed.plot.alternatives(3))
    assert len(panels) == len(found) >= 1
    for panel, (_, line) in zip(panels, found.table.iterrows(), strict=True):
        assert f"{line['mass']:.0%}" in panel.get_title(loc="left")
        for name in labels(panel.get_yticklabels())[1:]:
            assert name in line["sentence"]


def test_the_menu_has_a_line_for_each_set_of_columns_with_its_costs(mixed):
    table = mixed.menu().table
    table = table[table["verdict"] == "reaches"]
    ax = mixed.plot.menu()
    names = ["\n".join(columns) for columns in table["columns"].head(12)]
    assert [text.rsplit("\n", 1)[0] for text in labels(ax.get_yticklabels())] == names
    marks = {float(x) for line in ax.lines if line.get_marker() == "o" for x in line.get_xdata()}
    costs = pd.concat([table["cost"], table["reliable_cost"]]).dropna()
    assert marks == set(costs) or len(table) > 12
    assert len(np.ravel(mixed.plot.menu(1, max_sets=1).get_yticks())) == 1


def test_pairs_are_a_triangle(mixed, wide):
    panels = mixed.plot.pairs(["income", "job", "since"])
    assert len(panels) == 6
    assert [panel.get_xlabel() for panel in panels[3:]] == ["income", "job", "since"]
    assert [panel.get_ylabel() for panel in (panels[1], panels[3])] == ["job", "since"]
    heights = panels[2].patches[0].get_height(), panels[2].patches[1].get_height(), panels[2].patches[2].get_height()
    np.testing.assert_allclose(heights, mixed.shares("job")["prior"])
    with pytest.raises(ValueError, match="panels too small to read"):
        wide.plot.pairs(max_features=9)


def test_disagreement_is_that_of_the_table(mixed):
    pairs, where = mixed.plot.disagreement()
    found = mixed.disagreement()
    assert [f"{found.pairs['differ'].iloc[0]:.0%}"] == labels(pairs.texts)
    assert [text.split("\n")[0] for text in labels(where.get_yticklabels())] == found.where.dropna(
        subset=["difference"]
    ).index.tolist()


def test_the_frontier_of_one_model_is_what_cost_buys():
    data = np.random.default_rng(0).normal(size=(60, 2))
    explainer = gbce.Explainer(
        lambda x: x.sum(axis=1), data, space=gbce.Space.real(2), sampler=gbce.Importance(800, 200)
    )
    explanation = explainer.explain([0.0, 0.0], gbce.AtLeast(1.5, scale=1), rules=["MAP"], seed=0)
    ax = explanation.plot.frontier()
    assert ax.get_ylabel() == "the model's output"
    x, y = ax.lines[0].get_data()
    assert (np.diff(x) >= 0).all()
    assert (np.diff(y) > 0).all()  # every step is nearer to the wish
    assert (x[0], y[0]) == (0.0, 0.0)
    dots = {
        to: c for c in ax.collections for to in (DRAWS, MISSED) if np.allclose(c.get_facecolor()[0, :3], to_rgb(to))
    }
    assert np.asarray(dots[DRAWS].get_offsets())[:, 1].min() >= 1.5 > np.asarray(dots[MISSED].get_offsets())[:, 1].max()
    multi = explainer.explain([0.0, 0.0], gbce.Loss(lambda f: np.square(f - 1.5), threshold=0.1), rules=[], seed=0)
    assert multi.plot.frontier().get_ylabel() == "loss"


# --- the model's surface -------------------------------------------------------------------------------------------


def test_the_region_that_the_model_accepts_is_where_it_does(mixed, mixed_explainer):
    told = answered(mixed, savings=5.0)
    ax = told.plot.posterior(("since", "income"), explainer=mixed_explainer, resolution=20)
    entries = labels(ax.get_legend().get_texts())
    assert {"the model accepts", "the model's output"} <= set(entries)
    region = next(c for c in ax.collections if c.get_zorder() == 0.4)
    rows = told.answer.row.loc[told.answer.row.index.repeat(2)].reset_index(drop=True)
    rows["income"] = [50.0, 62.0]
    said = mixed_explainer.assess(told, rows)["reached"].tolist()
    inside = [
        any(path.contains_point((dates.date2num(day), income)) for path in region.get_paths())
        for day, income in zip(rows["since"], rows["income"], strict=True)
    ]
    assert inside == said == [False, True]


def test_the_surface_keeps_to_its_rows_and_to_its_own_explanation(mixed, mixed_explainer):
    asked = []

    def counted(rows):
        asked.append(len(rows))
        return np.asarray(rows["a"]) - np.asarray(rows["b"])

    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 2)), columns=["a", "b"])
    explainer = gbce.Explainer(counted, frame, sampler=gbce.Importance(300, 100))
    explanation = explainer.explain(frame.iloc[0], gbce.Change(1.0), rules=[], seed=0)
    asked.clear()
    explanation.plot.posterior(explainer=explainer, max_model_rows=150)
    assert 64 <= max(asked) <= 150
    with pytest.raises(ValueError, match="max_model_rows = 20 is too few for contours"):
        explanation.plot.posterior(explainer=explainer, max_model_rows=20)
    with pytest.raises(ValueError, match="resolution must be an integer of at least 8"):
        explanation.plot.posterior(explainer=explainer, resolution=3)
    with pytest.raises(ValueError, match="another space"):
        mixed.plot.posterior(explainer=explainer)


# --- tables --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=60), "b$": rng.normal(size=60), "job": rng.choice(["x", "y"], 60)})
    explainer = gbce.Explainer(
        lambda f: f["a"] + (f["job"] == "y"), frame, sampler=gbce.Importance(300, 100), policy=None
    )
    return explainer.explain_many(frame.iloc[:14], gbce.AtLeast(1.2), rules=["MAP", "Medoid"], seed=0, progress=False)


def test_the_swarm_has_a_dot_for_each_row_that_changes_a_column(table):
    ax = table.plot.changes(rule="Medoid")
    moves = table.changes().query("rule == 'Medoid'")
    shown = [text.split("\n")[0].replace(r"\$", "$") for text in labels(ax.get_yticklabels())]
    assert shown == moves["feature"].value_counts().index.tolist()
    for line, name in enumerate(shown):
        own = moves[moves["feature"] == name]
        assert f"{len(own)} of 14 rows" in labels(ax.get_yticklabels())[line]
        if name == "job":
            assert any(text.startswith("to y") for text in labels(ax.texts))
            continue
        (dots,) = [c for c in ax.collections if abs(np.mean(c.get_offsets()[:, 1]) - line) < 0.4]
        expected = own["change"] / own["change"].abs().max()
        np.testing.assert_allclose(np.asarray(dots.get_offsets())[:, 0], expected)
        places = {tuple(at) for at in np.asarray(dots.get_offsets()).round(6)}
        assert len(places) == len(own)  # none on top of another
    assert ax.get_title(loc="left") == "What Medoid changes in 14 rows"
    by_rule = table.plot.changes(gbce.Medoid())
    assert labels(by_rule.get_yticklabels()) == labels(ax.get_yticklabels())
    with pytest.raises(ValueError, match="there is no rule 'Mean'"):
        table.plot.changes(rule="Mean")


def test_the_swarm_shows_the_answers_unless_told_otherwise(advised):
    ax = advised.plot.changes()
    moves = advised.changes("answer")
    assert ax.get_title(loc="left") == "What the answers change in 6 rows"
    assert {text.split("\n")[0] for text in labels(ax.get_yticklabels())} == set(moves["feature"])
    for i, label in enumerate(advised.diagnostics.index):
        own = moves[moves["row"] == label].set_index("feature")
        assert len(own) == advised.answers["n_changes"].iloc[i]
        for name, line in own.iterrows():
            assert line["from"] == advised.rows[name].iloc[i]
            assert line["to"] - line["from"] == pytest.approx(line["change"])


def test_the_swarm_says_the_units_that_are_known(table):
    space = table.encoded.space
    named = replace(space, features=(replace(space.features[0], unit="EUR"), *space.features[1:]))
    ax = replace(table, encoded=replace(table.encoded, space=named)).plot.changes()
    said = {text.split("\n")[0]: text for text in labels(ax.get_yticklabels())}
    assert said["a"].endswith(" EUR)")
    assert not any("EUR" in text for name, text in said.items() if name != "a")
    assert ax.get_xlabel() == "change, each column in its own unit"


@pytest.fixture(scope="module")
def advised():
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 2)), columns=["a", "b"])
    explainer = gbce.Explainer(lambda f: f["a"] + f["b"], frame, sampler=gbce.Importance(300, 100))
    return explainer.explain_many(frame.iloc[:6], gbce.AtLeast(2.5), rules=["Nearest"], seed=0, progress=False)


def test_costs_compare_the_answers_unless_told_otherwise(advised):
    groups = ["one", "two"] * 3
    found = gbce.group_costs(advised, groups)
    want = advised.answers["cost"].groupby(np.array(groups)).mean()
    np.testing.assert_allclose(found["cost"], want[found.index])
    spread = gbce.group_costs(advised, groups, rule="posterior")
    want = advised.distribution["expected_cost"].groupby(np.array(groups)).mean()
    np.testing.assert_allclose(spread["cost"], want[spread.index])
    assert not np.allclose(spread["cost"], found["cost"], rtol=0.02)  # draws scatter around an answer
    assert advised.plot.costs(groups).get_xlabel().startswith("cost of the answer: ")
    assert advised.plot.costs(groups, rule=gbce.Nearest()).get_xlabel().startswith("cost of Nearest: ")


@pytest.mark.parametrize("rule", ["posterior", "MAP"])
def test_costs_are_those_of_group_costs(table, rule):
    groups = ["one", "two"] * 7
    ax = table.plot.costs(groups, rule=rule)
    found = gbce.group_costs(table, groups, rule=rule)
    for line, (name, row) in enumerate(found.iterrows()):
        means = [c.get_offsets()[0] for c in ax.collections if c.get_label() == "mean of the group"]
        assert labels(ax.get_yticklabels())[line].split("\n")[0] == name
        np.testing.assert_allclose(means[line], [row["cost"], line])
        np.testing.assert_allclose(ax.lines[line].get_xdata(), [row["cost_low"], row["cost_high"]])
    single = table.plot.costs(rule=rule)
    with pytest.raises(ValueError, match=r"no row has an answer: .* rule='posterior'"):
        table.plot.costs(groups)
    assert labels(single.get_yticklabels())[0].startswith("all rows")


def test_table_pictures_draw_where_they_are_told(table):
    for draw in (table.plot.changes, partial(table.plot.costs, rule="posterior")):
        _, given = plt.subplots()
        assert draw(ax=given) is given
        with pytest.raises(TypeError, match="ax must be a matplotlib Axes"):
            draw(ax=3)


# --- words ---------------------------------------------------------------------------------------------------------


def test_columns_have_the_labels_units_and_digits_of_the_space():
    """What people read says what they call a column, and numbers as they write them."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"ltv": rng.uniform(0.2, 1.2, 120), "inc": rng.uniform(1_000, 9_000, 120)})
    space = gbce.Space.infer(frame, labels={"ltv": "Loan-to-value ratio", "inc": "Income"}, units={"inc": "USD"})
    explainer = gbce.Explainer(lambda f: f["inc"] / 1_000 - 4 * f["ltv"], frame, space=space, sampler=QUICK)
    found = explainer.explain({"ltv": 0.9, "inc": 3_000.0}, gbce.AtLeast(2.0), rules=["Nearest"], seed=0)
    names = {"Loan-to-value ratio", "Income"}
    for ax in (found.plot.changes(), found.plot.importance()):
        assert {re.split(r"\s+\(", text)[0] for text in labels(ax.get_yticklabels())} == names
    assert "(now 3,000 USD)" in " ".join(labels(found.plot.changes().get_yticklabels()))
    axes = found.plot.posterior(("ltv", "inc"))
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("Loan-to-value ratio", "Income (USD)")
    drawn = found.plot.before_after()
    assert set(labels(drawn.get_yticklabels())[1:]) <= names
    then = [space.format_change(j, found.x0[j], found.answer.decision.x[j])[1] for j in range(2)]
    changed = np.flatnonzero(space.changed(found.answer.decision.x[None, :], found.x0)[0])
    assert {then[j] for j in changed} <= set(labels(drawn.texts))
    table = explainer.explain_many(frame.iloc[:3], gbce.AtLeast(4.0), rules=["Nearest"], seed=0, progress=False)
    assert {text.split("\n")[0] for text in labels(table.plot.changes().get_yticklabels())} <= names
