"""Marks and legends go by rules, not by what labels look like."""

from dataclasses import dataclass, replace

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex

import gbce
from gbce.base import Rule
from gbce.plots._style import choose_styles, short_text

DATA = np.random.default_rng(0).normal(size=(100, 3))
RED = "#ad0611"  # MAP's


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


@dataclass(frozen=True)
class Titled(Rule):
    """Somebody's own rule under any title."""

    title: str
    n: int = 1
    names: tuple[str, ...] = ()

    @property
    def label(self):
        return self.title

    def choose(self, scene):
        return replace(scene.pick(scene.draws.index[: self.n]), names=self.names)


@dataclass(frozen=True)
class Another(Titled):
    """A rule of another class."""


def explained(*rules, **options):
    explainer = gbce.Explainer(
        lambda x: x.sum(axis=1), DATA, space=gbce.Space.real(3), sampler=gbce.Importance(4_000, 500), **options
    )
    return explainer.explain([0.0, 0.0, 0.0], gbce.AtLeast(1.5, scale=1), rules=rules, seed=0)


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def drawn(ax):
    """Colour and number of corners of every mark of a decision, by its entry."""
    found = {}
    for mark in ax.collections:
        if mark.get_zorder() == 5:
            face = mark.get_facecolor() if len(mark.get_facecolor()) else mark.get_edgecolor()  # a ring has no face
            colour, path = to_hex(face[0]), mark.get_paths()[0].vertices.round(6).tobytes()
            found.setdefault(mark.get_label(), set()).add((colour, path))
    return found


HARD = ["MAP", "MAP with 3 changes", "MAP 2", "Own [3] (k=4) with 3 changes", "DiverseSet(k=3) 1", "Own 1", "Own 2"]


def test_a_label_that_looks_like_another_rule_has_its_own_mark_and_entry():
    explanation = explained(*(Titled(title) for title in HARD))
    styles = choose_styles(explanation.decisions)
    assert len({(style["color"], style["marker"]) for style in styles[:6]}) == 6  # six different marks, then again
    assert len({style["color"] for style in styles}) == 1  # one class, one colour
    assert RED not in {style["color"] for style in styles}
    assert "." not in {style["marker"] for style in styles}
    for ax in (explanation.plot.posterior(), explanation.plot.changes()):
        assert legend(ax)[-len(HARD) :] == HARD
        assert set(drawn(ax)) == set(HARD)


def test_rules_of_different_classes_have_different_colours():
    explanation = explained(Titled("Mean 1"), Another("Mean 2"), gbce.Mean(), gbce.MAP(k=41), gbce.MAP())
    one, other, mean, variant, mode = choose_styles(explanation.decisions)
    assert len({style["color"] for style in (one, other, mean, mode)}) == 4
    assert (variant["color"], mode["color"]) == (RED, RED)
    assert variant["marker"] != mode["marker"]
    assert legend(explanation.plot.changes())[-5:] == ["Mean 1", "Mean 2", "Mean", "MAP(k=41)", "MAP"]


def test_points_of_one_set_share_a_mark_and_an_entry():
    explanation = explained(gbce.DiverseSet(3), Titled("Own (2) with 3 changes", n=4))
    styles = choose_styles(explanation.decisions)
    assert styles[0] == styles[1] == styles[2]
    assert styles[3] == styles[4] == styles[5] == styles[6] != styles[0]
    for ax in (explanation.plot.posterior(), explanation.plot.changes()):
        assert legend(ax)[-2:] == ["DiverseSet(k=3)", "Own (2) with 3 changes"]


@pytest.mark.parametrize("rule", [gbce.MAP(), gbce.MAP(k=41), gbce.MAP(changes=2)], ids=lambda rule: rule.label)
def test_the_other_points_of_a_sparsity_path_are_not_drawn(rule, tmp_path):
    explanation = explained(rule, gbce.Medoid(), prior=gbce.Sparse(change=0.5))
    for one in (explanation, gbce.load(explanation.save(tmp_path / "one.gbce"))):
        assert len(one.sparsity_path) == sum(isinstance(decision.rule, gbce.MAP) for decision in one.decisions) == 3
        for ax in (one.plot.posterior(), one.plot.changes()):
            assert legend(ax)[-2:] == [rule.label, "Medoid"]
            assert set(drawn(ax)) == {rule.label, "Medoid"}
            assert {colour for colour, _ in drawn(ax)[rule.label]} == {RED}


def test_somebodys_own_points_beside_an_answer_are_alternatives_too():
    explanation = explained(Titled("Own [1]", n=3, names=("", "(b)", "with 3 changes")))
    assert [decision.label for decision in explanation.decisions] == [
        "Own [1]",
        "Own [1] (b)",
        "Own [1] with 3 changes",
    ]
    styles = choose_styles(explanation.decisions)
    assert [style["marker"] for style in styles] == ["o", ".", "."]
    assert legend(explanation.plot.posterior())[-2:] == ["Own [1]", "Own [1], alternatives"]


def test_a_loaded_picture_is_the_same(tmp_path):
    lost = gbce.CVaR(0.6, noise=lambda rng, n: 0.1 * rng.normal(size=(n, 3)))  # a file does not keep the function
    explanation = explained(gbce.MAP(k=41), Titled("Own (2)"), Another("[3]"), gbce.CVaR(0.8), gbce.CVaR(0.7), lost)
    again = gbce.load(explanation.save(tmp_path / "one.gbce"))
    assert choose_styles(again.decisions) == choose_styles(explanation.decisions)
    for name in ("posterior", "changes"):
        assert drawn(getattr(again.plot, name)()) == drawn(getattr(explanation.plot, name)())


def test_names_that_are_cut_keep_the_number_that_tells_them_apart():
    names = [f"HistGradientBoostingRegressor{number}" for number in ("", " #2", " #13")]
    assert [short_text(name, 20) for name in names] == [
        "HistGradientBoostin…", "HistGradientBoos… #2", "HistGradientBoo… #13"
    ]  # fmt: skip
