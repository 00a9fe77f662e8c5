"""Rules ask the model together: each chooses what it chooses alone, and the calls are those of the longest."""

from dataclasses import dataclass

import numpy as np
import pytest

import gbce
from gbce.base import Choice, Rule
from support.three_columns import DATA, ROW, WISH, total

RULES = (gbce.MAP(), gbce.Mean(), gbce.CVaR(), gbce.ChanceConstrained())


@dataclass(frozen=True)
class Watching(Rule):
    """The row; notes what it was shown of others."""

    reads: bool = False
    name: str = ""

    def choose(self, scene):
        seen = ",".join(rule.label for rule, _ in scene.earlier)
        return Choice(scene.x0[None, :], scene.row, f"{self.name} saw [{seen}]")


@dataclass(frozen=True)
class Reading(Watching):
    """The same after the others."""

    reads_earlier = True


def explain(rules, model=total, **limits):
    explainer = gbce.Explainer(model, DATA, space=gbce.Space.real(list(DATA)), prior=gbce.Gaussian(), policy=None)
    return explainer.explain(ROW, WISH, rules=rules, seed=0, **limits)


def paid(rows):
    return total(rows)


paid.cost_per_call = True


def test_each_rule_chooses_what_it_chooses_alone_in_fewer_calls_where_they_cost():
    together, nothing = explain(RULES, paid), explain([], paid).diagnostics["n_model_calls"]
    alone = [explain([rule], paid) for rule in RULES]
    for decision, single in zip(together.decisions, alone, strict=True):
        np.testing.assert_array_equal(decision.x, single.decisions[0].x)
    calls = [one.diagnostics["n_model_calls"] - nothing for one in alone]
    assert together.diagnostics["n_model_calls"] - nothing == max(calls)


def test_calls_and_rows_are_those_that_the_model_has_seen():
    sizes = []

    def model(rows):
        sizes.append(len(rows))
        return total(rows)

    explainer = gbce.Explainer(model, DATA, space=gbce.Space.real(list(DATA)), prior=gbce.Gaussian(), policy=None)
    for _ in range(2):  # the first asks about the data, once
        sizes.clear()
        explanation = explainer.explain(ROW, WISH, rules=RULES, seed=0)
        asked = explanation.diagnostics["n_model_calls"], explanation.diagnostics["n_model_rows"]
        assert asked == (len(sizes), sum(sizes))


@pytest.mark.parametrize("limits", [{}, {"max_model_rows": 12_000}], ids=["together", "in turn"])
def test_only_rules_that_read_see_what_those_before_them_chose(limits):
    rules = [Reading(name="first"), gbce.Mean(), Watching(name="plain"), Reading(name="last"), gbce.Medoid()]
    explanation = explain(rules, **limits)
    notes = [note for note in explanation.notes if " saw [" in note]
    assert [decision.label for decision in explanation.decisions] == [rule.label for rule in rules]
    labels = ",".join(rule.label for rule in rules[:3])
    assert notes == ["first saw []", "plain saw []", f"last saw [{labels}]"]
