"""Notes go by what rules are, not by what they are called."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

import gbce
from gbce.base import Choice, Rule

DATA = np.random.default_rng(0).normal(size=(100, 2))
FAR = gbce.AtLeast(3.0, scale=1, tolerance=0.01)  # its mode stops halfway: the nearest point costs 4.5 in the prior


def explained(*rules, target=FAR, eta=1.0, model=lambda x: x.sum(axis=1), **options):
    explainer = gbce.Explainer(
        model, DATA, space=gbce.Space.real(2), eta=eta, sampler=gbce.Importance(4_000, 500), **options
    )
    return explainer.explain([0.0, 0.0], target, rules=rules, seed=0)


def notes(explanation, words):
    return [note for note in explanation.notes if words in note]


@dataclass(frozen=True)
class Summit(Rule):
    """Somebody's own mode, under a name that nothing knows."""

    @property
    def seeks_mode(self):
        return True

    def choose(self, scene):
        return scene.pick(np.argmin(scene.objective(scene.draws.pool)))


@dataclass(frozen=True)
class Called(Rule):
    """Not the mode, whatever its label says."""

    at: tuple[float, float] = (0.2, 0.2)
    name: str = "MAP"

    @property
    def label(self):
        return self.name

    def choose(self, scene):
        return Choice(np.array([self.at]))


@pytest.mark.parametrize(
    "rule",
    [gbce.MAP(), gbce.MAP(polish=False), gbce.MAP(k=41), gbce.MAP(polish=False, k=7), Summit()],
    ids=lambda rule: rule.label,
)
def test_every_mode_that_falls_short_says_so(rule):
    explanation = explained(gbce.Medoid(), rule)
    assert explanation.status == "attainable"
    assert not explanation.pointwise.loc[rule.label, "reached"]
    (note,) = notes(explanation, "falls short")
    assert note.startswith(f"{rule.label} falls short of the target (at least 3): its output is ")
    assert f"{explanation.pointwise.loc[rule.label, 'output']:.4g}" in note


@pytest.mark.parametrize(
    "rule", [gbce.Mean(), gbce.Medoid(), gbce.MAP(method="kde"), gbce.MAP(method="knn", k=41), Called()], ids=repr
)
def test_what_does_not_seek_the_mode_does_not_fall_short_of_it(rule):
    explanation = explained(rule)
    assert not explanation.pointwise["reached"].iloc[0]
    assert not notes(explanation, "falls short")


def test_a_mode_that_arrives_and_a_row_that_has_arrived_need_no_note():
    assert not notes(explained(gbce.MAP(k=41), eta=200.0, target=gbce.AtLeast(1.0, scale=1, tolerance=0.05)), "short")
    assert not notes(explained(gbce.MAP(k=41), target=gbce.AtLeast(-1.0, scale=1)), "short")
    out_of_reach = explained(gbce.MAP(k=41), target=gbce.AtLeast(1e6, scale=1), model=lambda x: np.tanh(x[:, 0]))
    assert out_of_reach.status == "not attained"
    assert not notes(out_of_reach, "short")


def test_the_answer_falls_short_and_not_what_stands_beside_it():
    """Of a sparsity path only the point that is the rule's answer is the mode."""
    rule, target = gbce.MAP(polish=False, changes=1), gbce.AtLeast(0.5, scale=1, tolerance=0.01)
    explanation = explained(rule, target=target, model=lambda x: x.min(axis=1), prior=gbce.Sparse(change=0.5))
    beside = [decision for decision in explanation.decisions if decision.beside]
    assert [decision.label for decision in beside] == ["MAP(polish=False, changes=1) with 2 changes"]
    (note,) = notes(explanation, "falls short")
    assert note.startswith("MAP(polish=False, changes=1) falls short")


@pytest.mark.parametrize("mode", [gbce.MAP(polish=False), Summit()], ids=lambda rule: rule.label)
def test_a_point_that_is_more_probable_than_the_mode_is_named(mode):
    best = explained(gbce.MAP()).decisions[0].x
    few = gbce.Importance(20, 20)
    explainer = gbce.Explainer(lambda x: x.sum(axis=1), DATA, space=gbce.Space.real(2), sampler=few)
    rule = Called(tuple(best), "MAP by hand (with 2 changes)")
    explanation = explainer.explain([0.0, 0.0], FAR, rules=[mode, rule, gbce.Medoid()], seed=0)
    (note,) = notes(explanation, "more probable still")
    assert f"{mode.label} is the most probable point that was found, but {rule.label} is more probable still" in note
    alone = explainer.explain([0.0, 0.0], FAR, rules=[rule, replace(rule, at=(0.0, 0.0), name="other")], seed=0)
    assert not notes(alone, "more probable still")  # neither is meant to be the mode
