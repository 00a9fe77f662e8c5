"""One price of a decision in every table, and one line on which share of the draws reaches the target."""

from dataclasses import replace

import matplotlib
import numpy as np
import pandas as pd
import pytest

import gbce
from gbce.metrics import Judgement, Verdict, costs, describe_posterior

matplotlib.use("Agg")

WEIGHTS = np.array([1.0, 0.8, 0.6])
FRAME = pd.DataFrame(np.random.default_rng(0).normal(size=(120, 3)), columns=["a", "b", "c"])
ROW = pd.Series({"a": -1.0, "b": -1.0, "c": -1.0})
RULES = ["Nearest", gbce.Nearest("l2"), gbce.Nearest("changes"), "MAP"]


def score(rows):
    return np.asarray(rows, dtype=float) @ WEIGHTS


@pytest.fixture(scope="module")
def explainer():
    return gbce.Explainer(score, FRAME)


@pytest.fixture(scope="module")
def explanation(explainer):
    return explainer.explain(ROW, gbce.AtLeast(1.0), rules=RULES, seed=0)


def sum_of_changes(explanation, rows):
    return np.abs(np.asarray(rows, dtype=float) - ROW.to_numpy()) @ (1.0 / explanation.space.scale)


# --- price ---------------------------------------------------------------------------------------------------------


def test_every_table_of_decisions_has_the_cost_that_the_answer_minimises(explainer, explanation):
    table = explanation.pointwise
    np.testing.assert_allclose(table["cost"], sum_of_changes(explanation, explanation.counterfactuals))
    np.testing.assert_allclose(table["distance"], explanation.space.distance(
        explanation.space.encode(explanation.counterfactuals), explanation.x0))  # fmt: skip
    # rounding to few digits may add a hundredth
    assert table["cost"].min() >= table.loc["Nearest", "cost"] / 1.01
    own = explainer.assess(explanation, explanation.answer.row)
    assert own["cost"].iloc[0] == pytest.approx(explanation.answer.cost)
    plain = explanation.to_dict(draws=True)
    assert [one["cost"] for one in plain["pointwise"]] == pytest.approx(table["cost"].tolist())
    drawn = [one["values"][name] for one in plain["draws"] for name in FRAME]
    expected = sum_of_changes(explanation, np.reshape(drawn, (-1, 3)))
    assert [one["cost"] for one in plain["draws"]] == pytest.approx(expected)
    assert explanation.distribution["expected_cost"] == pytest.approx(expected.mean())
    assert explanation.frontier()["cost"].iloc[0] <= 1.01 * explanation.answer.cost


def test_the_summary_prices_decisions_and_names_those_that_minimise_something_else(explanation):
    decisions = explanation.summary().split("\nDecisions\n")[1].split("\nWhat changes\n")[0]
    heads = decisions.splitlines()[0].split()
    assert "cost" in heads
    assert "distance" not in heads
    said = " ".join(decisions.split())
    assert "cost: the changes added up, each in units of its column's scale" in said
    assert "Nearest(distance=l2) minimises the Euclidean distance instead" in said
    assert "Nearest(distance=changes) minimises the number of changes first" in said
    assert "MAP minimises" not in said


def test_tables_of_many_rows_are_priced_alike(explainer):
    table = explainer.explain_many(FRAME.iloc[:4] - 1.0, gbce.AtLeast(1.0), rules=["MAP"], seed=0, progress=False)
    assert "cost" in table.summary().split("Mean ± SD over rows\n")[1].splitlines()[0].split()
    inside = np.array([True, True, False, False])
    found = gbce.group_costs(table, inside, rule="MAP")
    cost = table.pointwise["cost"].to_numpy()
    assert found.loc[True, "cost"] == pytest.approx(cost[inside].mean())
    ax = table.plot.costs(inside, rule="answer")
    dots = np.concatenate([c.get_offsets()[:, 0] for c in ax.collections if c.get_label() == "a row"])
    assert sorted(dots) == pytest.approx(sorted(table.answers["cost"]))
    assert ax.get_xlabel().startswith("cost of the answer: sum of changes")


def test_a_file_without_the_pool_has_the_expected_cost_even_if_it_was_not_recorded(explanation, tmp_path):
    again = gbce.load(explanation.save(tmp_path / "one.gbce", pool=False))
    value, se = explanation.distribution[["expected_cost", "expected_cost_se"]]
    assert again.distribution["expected_cost"] == pytest.approx(value)
    record = again.draws.record
    older = replace(record, figures=tuple(one for one in record.figures if one[0] != "expected_cost"))
    before = replace(again, draws=replace(again.draws, record=older))
    assert before.distribution["expected_cost"] == pytest.approx(value, abs=1e-9)
    assert before.distribution["expected_cost_se"] == pytest.approx(se, rel=1.0)


def test_expected_cost_along_eta_is_that_of_the_reweighted_pool(explanation):
    eta = explanation.eta / 2
    line = explanation.path([eta]).iloc[0]
    draws = explanation.at(eta).draws
    expected = draws.pool_weights @ costs(explanation.space, draws.pool.x, explanation.x0, "l1")
    assert line["expected_cost"] == pytest.approx(expected)


# --- reach and sampling --------------------------------------------------------------------------------------------


def line_of(explanation):
    """Return the summary's line on the posterior, unwrapped."""
    lines = explanation.summary().split("\ntarget ")[0].splitlines()
    first = next(k for k, line in enumerate(lines) if line.startswith("posterior"))
    return " ".join(" ".join(lines[first:]).split()).removeprefix("posterior ")


def test_one_line_says_how_many_draws_reach_and_how_well_they_were_sampled(explanation):
    note = explanation.diagnostics["sampling_note"]
    success = explanation.distribution["success_probability"]
    assert line_of(explanation) == f"{success:.0%} of the draws reach the target; well sampled ({note})"
    assert "\nsampling " not in explanation.summary()
    assert "\ndraws " not in explanation.summary()
    assert f"<dt>posterior</dt><dd>{success:.0%} of the draws reach" in explanation._repr_html_()


def test_draws_that_mostly_miss_are_called_that_with_what_to_do():
    rare = gbce.Explainer(score, FRAME, eta=0.0).explain(ROW, gbce.AtLeast(-1.0), rules=[], seed=0)
    success = rare.distribution["success_probability"]
    assert 0.01 < success < 0.5
    said = line_of(rare)
    assert f"{success:.0%} of the draws reach the target, so most of them are not counterfactuals: set `eta=" in said
    assert rare.diagnostics["sampling_note"] in said
    assert 'eta="auto"' in said
    assert "well sampled" in said


def test_eta_that_cannot_be_raised_further_is_not_asked_for():
    capped = gbce.Explainer(lambda rows: np.minimum(score(rows), 1.0), FRAME)
    never = capped.explain(ROW, gbce.AtLeast(5.0), rules=[], seed=0, max_model_rows=20_000)
    assert never.status == "not attained"
    assert "auto" not in line_of(never)


@pytest.mark.parametrize("verdict", [Verdict.NOT_SAMPLED, Verdict.NOT_FINISHED])
def test_what_was_not_sampled_is_said_before_the_share(verdict):
    said = describe_posterior(Judgement(verdict, f"{verdict}: only 12 effective draws"), 0.25, "remedy")
    assert said == f"{verdict}: only 12 effective draws (of what was drawn, 25% reaches the target)"


@pytest.mark.parametrize(
    ("success", "begins"),
    [(0.0, "none of the draws reach the target, so they are not"), (0.001, "less than 1% of"), (1.0, "100% of")],
)
def test_the_share_is_never_rounded_to_nothing(success, begins):
    judged = Judgement(Verdict.CARE, "use with care, because there are few")
    said = describe_posterior(judged, success)
    assert said.startswith(begins)
    assert said.endswith("; use with care, because there are few")


def test_an_answer_without_a_posterior_says_only_that(explainer):
    alone = explainer.explain(ROW, gbce.AtLeast(1.0), seed=0, posterior=False)
    assert line_of(alone) == alone.diagnostics["sampling_note"]


def test_rows_of_a_table_have_the_same_line(explainer):
    table = explainer.explain_many(FRAME.iloc[:2] - 1.0, gbce.AtLeast(1.0), rules=["MAP"], seed=0, progress=False)
    success = table.distribution["success_probability"]
    for note, share in zip(table.diagnostics["posterior_note"], success, strict=True):
        assert note.startswith(f"{share:.0%} of the draws reach the target; ")
    line = next(line for line in table.summary().splitlines() if line.startswith("posterior: "))
    assert f"{success.median():.0%} of the draws reach the target in the median row" in line
    assert "sampling: " in line
    alone = explainer.explain_many(FRAME.iloc[:2] - 1.0, gbce.AtLeast(1.0), seed=0, progress=False, posterior=False)
    assert "\nposterior: not sampled: only an answer was asked for; " in alone.summary()
