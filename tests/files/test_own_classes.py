"""Somebody's own rules, targets, priors and samplers work everywhere, and come back from files or say why not."""

from dataclasses import dataclass

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import gbce
from gbce.base import Choice, ModelNeededError, Rule
from gbce.files._classes import KeptRule, KeptTarget
from support import own
from support.files import manifest, restated
from support.own_question import DATA, ROW, WISH, equal_tables, explainer_of, odds, saved, total

RULES = {
    "defaults": own.Cheapest(),
    "numbers, tuple, list, dict and target": own.Cheapest(
        0.5, 7, (0.2, float("inf")), ["a", "b"], {"a": 2.0, "b": -1.0}, gbce.Range(1.0, 2.0, scale=1)
    ),
    "an own target inside": own.Cheapest(inner=own.Near(2.0)),
    "an array": own.Weighted(np.array([1.0, 5.0, 0.5])),
    "whole numbers": own.Weighted(np.array([1, 5, 2], dtype=np.int16)),
    "points with names": own.Trio(),
    "points with numbers": own.Trio(named=False),
    "a nested mapping": own.Holding({("a", 1): [1, (2, None)], "b": {}}),
    "an option that follows": own.Derived(4),
}
ASKING = {"asks": own.Halfway(), "asks for another rule": own.Halfway(gbce.Medoid())}
LOST = {
    "an enum": (own.Holding(own.Order.UP), "a file does not keep its held"),
    "an enum of texts": (own.Holding(own.Speed.FAST), "a file does not keep its held"),
    "a named tuple": (own.Holding(own.Pair(1.0, 2.0)), "a file does not keep its held"),
    "a set": (own.Holding({1, 2}), "a file does not keep its held"),
    "long numbers": (own.Holding(np.ones(2, dtype=np.longdouble)), "a file does not keep its held"),
    "texts in an array": (own.Holding(np.array(["x"])), "a file does not keep its held"),
    "a function": (own.Holding(key=np.abs), "a file does not keep its key"),
    "a function, deep inside": (own.Holding([{"f": np.abs}]), "a file does not keep its held"),
    "a target without options": (own.Cheapest(inner=own.Plain(2.0)), "a file does not keep its inner"),
    "a rule without options": (own.Halfway(own.Bare(1)), "a file does not keep its of"),
    "no dataclass": (own.Bare(2), "its class is not a dataclass"),
}


@pytest.fixture(scope="module")
def explainer():
    return explainer_of()


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


# --- rules -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", [*RULES.values(), *(rule for rule, _ in LOST.values())], ids=[*RULES, *LOST])
def test_an_own_rule_is_shown_everywhere_and_chooses_again(explainer, rule):
    explanation = explainer.explain(ROW, WISH, rules=[rule, gbce.Mean()], seed=0)
    labels = [one.label for one in explanation.decisions]
    assert all(label.startswith(rule.label) for label in labels[:-1])
    assert rule.label.startswith(type(rule).__name__)
    assert explanation.counterfactuals.index.tolist() == explanation.pointwise.index.tolist() == labels
    assert set(explanation.changes()["rule"]) == set(labels)
    assert explanation.pointwise["robustness"].notna().all()
    for label in labels:
        assert label in explanation.summary()
    assert all(one.rule is rule for one in explanation.decisions[:-1])
    here = [] if rule.asks_model else [explanation.decide(rule)]
    for again in (*here, explainer.decide(explanation, rule)):
        pd.testing.assert_frame_equal(again, explanation.counterfactuals.iloc[:-1], check_exact=True)
    elsewhere = explanation.at(0.8)
    # Mean would have to ask about its point
    assert elsewhere.pointwise.index.tolist() == ([] if rule.asks_model else labels[:-1])
    for ax in (explanation.plot.posterior(), explanation.plot.changes()):
        texts = [text.get_text() for text in ax.get_legend().get_texts()]
        assert any(text.startswith(type(rule).__name__) for text in texts), texts  # long ones end in dots


@pytest.mark.parametrize("rule", ASKING.values(), ids=ASKING)
def test_an_own_rule_that_asks_is_sent_to_the_explainer(explainer, rule, tmp_path):
    explanation = explainer.explain(ROW, WISH, rules=[rule], seed=0)
    again = gbce.load(saved(explanation, tmp_path))
    assert again.rules == (rule,)
    for one in (explanation, again):
        with pytest.raises(ModelNeededError, match=r"Halfway.* needs the model.*explainer\.decide"):
            one.decide(again.rules[0])
        pd.testing.assert_frame_equal(explainer.decide(one, again.rules[0]), explanation.counterfactuals)
        assert f"{rule.label} can only be applied with the model" in one.at(0.8).notes[-1]


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_an_own_rule_comes_back_from_a_file(explainer, rule, tmp_path):
    explanation = explainer.explain(ROW, WISH, rules=[gbce.Medoid(), rule], seed=0)
    again = gbce.load(saved(explanation, tmp_path))
    back = again.rules[1]
    assert type(back) is type(rule)
    assert back == rule
    assert back.label == rule.label
    assert all(one.rule is back for one in again.decisions[1:])
    equal_tables(again, explanation)
    pd.testing.assert_frame_equal(again.decide(back), explanation.decide(rule), check_exact=True)
    assert again.at(0.8).pointwise.index.tolist() == explanation.pointwise.index.tolist()


def test_arrays_come_back_with_their_kind_and_shape(explainer, tmp_path):
    for array in (np.zeros((3, 0)), np.float32([[1.5, np.nan]]), np.array(7, dtype=">i2"), np.array([True, False])):
        explanation = explainer.explain(ROW, WISH, rules=[own.Holding(array)], seed=0)
        held = gbce.load(saved(explanation, tmp_path)).rules[0].held
        assert (held.dtype, held.shape) == (array.dtype, array.shape)
        np.testing.assert_array_equal(held, array)


@pytest.mark.parametrize(("rule", "reason"), LOST.values(), ids=LOST)
def test_a_rule_that_no_file_keeps_comes_back_as_data_and_says_so(explainer, rule, reason, tmp_path):
    explanation = explainer.explain(ROW, WISH, rules=[gbce.Medoid(), rule], seed=0)
    again = gbce.load(saved(explanation, tmp_path))
    kept = again.rules[1]
    assert isinstance(kept, KeptRule)
    assert kept.label == rule.label
    assert again.decisions[1].rule is kept
    equal_tables(again, explanation)
    for ask in (again.decide, lambda one: explainer.decide(again, one)):
        with pytest.raises(ValueError, match=reason) as caught:
            ask(kept)
        assert str(caught.value).startswith(f"{rule.label} came from a file")
    with pytest.raises(ValueError, match=reason):
        explainer.explain(ROW, WISH, rules=[kept], seed=0)
    if not rule.asks_model:  # the rule itself, given anew
        pd.testing.assert_frame_equal(again.decide(rule), explanation.decide(rule))
    assert again.at(0.8).pointwise.index.tolist() == ["Medoid"]
    twice = gbce.load(again.save(tmp_path / "two.gbce"))
    assert twice.rules == again.rules
    assert manifest(tmp_path / "two.gbce")["rules"] == manifest(tmp_path / "one.gbce")["rules"]


def test_several_rows_with_own_rules_are_kept_and_resumed(explainer, tmp_path):
    rules = [*RULES.values(), *ASKING.values(), *(rule for rule, _ in LOST.values())]
    options = {"rules": rules, "seed": 0, "progress": False}
    whole = explainer.explain_many(DATA[:3], WISH, **options)
    assert not len(whole.errors)
    assert set(whole.pointwise.index.get_level_values("rule")) >= {"Cheapest", "Trio [far]", "Bare", "Halfway"}
    stored = explainer.explain_many(DATA[:3], WISH, store=tmp_path / "s", keep="draws", **options)
    (tmp_path / "s" / "draws" / "row-000001.gbce").unlink()
    resumed = explainer.explain_many(DATA[:3], WISH, store=tmp_path / "s", keep="draws", **options)
    for table in (stored, resumed):
        pd.testing.assert_frame_equal(table.pointwise, whole.pointwise, check_exact=True)
        pd.testing.assert_frame_equal(table.diagnostics, stored.diagnostics, check_exact=True)
        assert table.summary().splitlines()[:2] == whole.summary().splitlines()[:2]
    others = [own.Cheapest(count=8), *rules[1:]]
    with pytest.raises(ValueError, match="rules changed"):
        explainer.explain_many(DATA[:3], WISH, store=tmp_path / "s", keep="draws", **options | {"rules": others})


def test_own_classes_go_to_other_processes_and_come_back(tmp_path):
    explainer = explainer_of(sampler=own.OwnSampler(), prior=own.Pulled())
    options = {"rules": [own.Trio(), own.Halfway()], "seed": 0, "progress": False}
    alone = explainer.explain_many(DATA[:17], own.Near(1.0), **options)
    options |= {"store": tmp_path / "s", "keep": "draws"}
    both = explainer.explain_many(DATA[:17], own.Near(1.0), n_jobs=2, **options)
    pd.testing.assert_frame_equal(both.pointwise, alone.pointwise, check_exact=True)
    last = gbce.load(tmp_path / "s" / "draws" / "row-000016.gbce")
    assert (last.rules, last.target) == ((own.Trio(), own.Halfway()), own.Near(1.0))
    assert [decision.rule for decision in last.decisions] == [own.Trio()] * 3 + [own.Halfway()]


@dataclass(frozen=True)
class Careless(Rule):
    """Returns whatever it holds."""

    made: object = None

    def choose(self, scene):
        return self.made(scene)


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        (lambda scene: None, "must return a Choice, not None"),
        (lambda scene: scene.draws.x[:1], "must return a Choice, not array"),
        (lambda scene: Choice(scene.x0), r"x must be an array of shape \(k, d\)"),
        (lambda scene: Choice(scene.draws.x[:2], names=("one",)), "1 names for 2 points"),
        (lambda scene: Choice(scene.draws.x[:2], scene.row), "2 points, but 1 are known"),
        (lambda scene: Choice(scene.draws.x[:2, :1]), "2 points of 1 features, but the space has 3"),
    ],
)
def test_a_careless_rule_gets_a_sentence(explainer, made, sentence):
    rule = Careless(made)
    with pytest.raises((TypeError, ValueError), match=sentence):
        explainer.explain(ROW, WISH, rules=[rule], seed=0)
    explanation = explainer.explain(ROW, WISH, rules=[], seed=0)
    with pytest.raises((TypeError, ValueError), match=sentence):
        explanation.decide(rule)


# --- targets ---------------------------------------------------------------------------------------------------------


def questions(explainer, explanation, row, target, others):
    """Everything that an explainer can be asked about a target."""
    return {
        "decide": lambda: explainer.decide(explanation, gbce.CVaR(0.8, n_perturb=8)),
        "assess": lambda: explainer.assess(explanation, explanation.counterfactuals),
        "survival": lambda: explainer.survival(explanation, others),
        "metrics.survival": lambda: gbce.metrics.survival(explanation, others),
        "frontier": lambda: explainer.frontier(explanation, noise=0.1, n_confirm=32, max_candidates=50, unseen=others),
        "sensitivity": lambda: explainer.sensitivity(row, target, n_rows=1, n_null=1, seed=0).table,
    }


TARGETS = {
    "own loss": (total, own.Near(1.0)),
    "no dataclass": (total, own.Plain(1.0)),
    "classes": (gbce.classifier(odds, classes=["no", "yes"]), own.Surprise("yes")),
}


@pytest.mark.parametrize(("model", "target"), TARGETS.values(), ids=TARGETS)
def test_an_own_target_is_asked_for_everywhere(model, target, tmp_path):
    explainer = explainer_of(model)
    explanation = explainer.explain(ROW, target, rules=[gbce.MAP(), own.Cheapest()], seed=0)
    assert explanation.target is target
    assert explanation.status == "attainable"
    assert target.describe() in explanation.summary()
    assert target.describe() in repr(explanation)
    assert bool(explanation.pointwise.loc["Cheapest", "reached"])
    others = [model, model]
    for name, ask in questions(explainer, explanation, ROW, target, others).items():
        assert len(ask()) > 0, name
    assessed = explainer.assess(explanation, explanation.counterfactuals)
    pd.testing.assert_frame_equal(assessed.drop(columns="breaks"), explanation.pointwise)
    assert explainer.survival(explanation, others)["survival"].iloc[:2].tolist() == [
        float(reached) for reached in explanation.pointwise["reached"]
    ]
    options = {"rules": [gbce.MAP()], "seed": 0, "progress": False, "store": tmp_path / "s", "keep": "draws"}
    stored = explainer.explain_many(DATA[:2], target, **options).read()
    (tmp_path / "s" / "draws" / "row-000000.gbce").unlink()
    resumed = explainer.explain_many(DATA[:2], target, **options)
    pd.testing.assert_frame_equal(resumed.pointwise, stored.pointwise, check_exact=True)
    again = gbce.load(saved(explanation, tmp_path))
    equal_tables(again, explanation)
    if target == TARGETS["no dataclass"][1]:
        assert isinstance(again.target, KeptTarget)
        return
    assert type(again.target) is type(target)
    assert again.target == target
    for name, ask in questions(explainer, again, ROW, again.target, others).items():
        assert len(ask()) > 0, name


@pytest.mark.parametrize(("model", "target"), TARGETS.values(), ids=TARGETS)
def test_what_an_own_target_does_not_tell_is_said(model, target):
    with pytest.raises(TypeError, match=f"ModelError cannot calibrate eta for the losses of {type(target).__name__}"):
        explainer_of(model, eta=gbce.ModelError(mse=1.0)).explain(ROW, target, seed=0)
    explainer = explainer_of(model)
    explanation = explainer.explain(ROW, target, rules=[], seed=0)
    with pytest.raises(
        ValueError, match=f"reliability='next' is not available for this target: {type(target).__name__} cannot"
    ):
        explainer.frontier(explanation, models=[model] * 8, reliability="next")


def test_an_own_target_may_find_its_eta():
    explainer = explainer_of(eta=gbce.SuccessProbability(0.6), sampler=gbce.SMC(2_000, 300))
    calibrated = explainer.explain(ROW, own.Near(1.0), rules=[], seed=0)
    assert calibrated.calibration.met
    assert calibrated.distribution["success_probability"] == pytest.approx(0.6, abs=0.12)  # four errors of 300 draws


def test_a_target_that_lost_its_class_is_no_other_model(tmp_path):
    """What it made of the models' outputs is not known, so that nobody can say that they have changed."""
    for model, target in TARGETS.values():
        explainer = explainer_of(model)
        explanation = explainer.explain(ROW, target, rules=[own.Cheapest()], seed=0)
        path = saved(explanation, tmp_path)
        unknown = manifest(path)["target"] | {"type": "nowhere.targets:Wish"}
        again = gbce.load(restated(path, target=unknown))
        assert again.target.describe() == target.describe()
        equal_tables(again, explanation)
        for name, ask in questions(explainer, again, ROW, again.target, [model]).items():
            with pytest.raises(ValueError, match=r"came from a file, and its class (Wish|is not)") as told:
                ask()
            assert "another model" not in str(told.value), name
            assert "not a dataclass" in str(told.value) or "import nowhere.targets and load" in str(told.value)
        pd.testing.assert_frame_equal(explainer.decide(again, own.Cheapest()), again.counterfactuals)


@pytest.mark.parametrize("scale", ["log", 2.0])
def test_a_summary_does_not_guess_what_somebodys_scale_means(scale):
    @dataclass(frozen=True)
    class Scaled(own.Near):
        scale: object = "log"

    text = explainer_of().explain(ROW, Scaled(1.0, scale=scale), rules=[], seed=0).summary()
    assert "counts as a loss of 1" not in text


def test_a_target_says_itself_what_costs_one_unit_of_loss():
    class Scaled(own.Near):
        loss_unit = 2.5

    text = explainer_of().explain(ROW, Scaled(1.0), rules=[], seed=0).summary()
    assert "(missing it by 2.5 counts as a loss of 1)" in text


def test_an_option_of_somebodys_rule_may_be_called_noise(explainer):
    @dataclass(frozen=True)
    class Loud(own.Cheapest):
        noise: str = "loud"

    assert explainer.explain(ROW, WISH, rules=[Loud()], seed=0).decisions[0].label == "Loud"


@pytest.mark.parametrize(
    ("reading", "sentence"),
    [
        (lambda f: (f, np.where(f > 1, np.nan, f), f > 1), "loss that is not a number"),
        (lambda f: (f, f[:, None] ** 2, f > 1), r"loss of shape \(\d+, 1\)"),
        (lambda f: (f, f**2, (f > 1)[:1]), r"reached of shape \(1,\)"),
        (lambda f: f**2, "must return output, loss and reached"),
    ],
)
def test_a_careless_target_gets_a_sentence(explainer, reading, sentence):
    @dataclass(frozen=True)
    class Careless(own.Near):
        def read(self, outputs):
            return reading(outputs.values)

    with pytest.raises((TypeError, ValueError), match=sentence):
        explainer.explain(ROW, Careless(1.0), seed=0)


def test_an_own_sampler_may_call_anything_n_candidates():
    class Vague(own.OwnSampler):
        def sample(self, posterior, rng):
            return own.OwnSampler().sample(posterior, rng)

    explainer = explainer_of(sampler=Vague(n_candidates="many"))
    assert len(explainer.explain_many(DATA[:2], WISH, rules=[], seed=0, progress=False)) == 2


# --- priors ----------------------------------------------------------------------------------------------------------


def test_an_own_prior_learns_and_is_used_everywhere(tmp_path):
    prior = own.Pulled(0.5)
    explainer = explainer_of(prior=prior)
    np.testing.assert_array_equal(explainer._session.prior.centre, np.median(DATA, axis=0))
    explanation = explainer.explain(ROW, WISH, rules=[gbce.MAP(), own.Cheapest()], seed=0)
    pulled = explanation.draws.prior_weights @ explanation.draws.pool.x
    centre = ROW + 0.5 * (np.median(DATA, axis=0) - ROW)
    np.testing.assert_allclose(pulled, centre, atol=4 / np.sqrt(2_000))
    again = gbce.load(saved(explanation, tmp_path))
    equal_tables(again, explanation)
    for one in (explanation, again):
        for name, ask in questions(explainer, one, ROW, WISH, [total]).items():
            assert len(ask()) > 0, name
    with pytest.raises(ValueError, match="made with a different prior"):
        explainer_of(prior=own.Pulled(0.4)).assess(again, again.counterfactuals)
    options = {"rules": [own.Cheapest()], "seed": 0, "progress": False, "store": tmp_path / "s", "keep": "draws"}
    stored = explainer.explain_many(DATA[:2], WISH, **options)
    resumed = explainer_of(prior=prior).explain_many(DATA[:2], WISH, **options)
    pd.testing.assert_frame_equal(resumed.pointwise, stored.pointwise, check_exact=True)
    with pytest.raises(ValueError, match="prior changed"):
        explainer_of(prior=own.Pulled(0.4)).explain_many(DATA[:2], WISH, **options)


# --- samplers --------------------------------------------------------------------------------------------------------


def test_an_own_sampler_and_its_report_come_through(tmp_path):
    explainer = explainer_of(sampler=own.OwnSampler())
    explanation = explainer.explain(ROW, WISH, rules=[gbce.MAP(), own.Cheapest()], seed=0)
    found = explanation.diagnostics
    assert (found["sampler"], found["stages"], found["remark"]) == ("Own", (2_000, 300), "as asked")
    assert found["kept_share"] == explanation.draws.pool.reached.mean()
    assert "effective draws from one own run" in found["verdict"]
    again = gbce.load(saved(explanation, tmp_path))
    assert type(again.draws.info) is own.OwnInfo
    assert again.draws.info == explanation.draws.info
    equal_tables(again, explanation)
    for one in (explanation, again, explanation.at(0.8)):
        assert one.diagnostics["stages"] == (2_000, 300)
    for name, ask in questions(explainer, again, ROW, WISH, [total]).items():
        assert len(ask()) > 0, name
    options = {"rules": [own.Cheapest()], "seed": 0, "progress": False, "store": tmp_path / "s", "keep": "draws"}
    stored = explainer.explain_many(DATA[:2], WISH, **options)
    resumed = explainer_of(sampler=own.OwnSampler()).explain_many(DATA[:2], WISH, **options)
    pd.testing.assert_frame_equal(resumed.diagnostics, stored.diagnostics, check_exact=True)
    with pytest.raises(ValueError, match="sampler changed"):
        explainer_of(sampler=own.OwnSampler(1_000)).explain_many(DATA[:2], WISH, **options)


def test_an_own_sampler_keeps_to_a_budget_and_asks_many_models():
    explainer = explainer_of(sampler=own.OwnSampler())
    short = explainer.explain(ROW, WISH, rules=[], seed=0, max_model_rows=500)
    assert short.n_model_rows == 500
    assert short.diagnostics["sampling"] == "not finished"
    assert any("The budget ran out" in note for note in short.notes)
    models = [lambda x, s=s: s * total(x) for s in np.linspace(0.8, 1.2, 20)]
    jointly = explainer_of(models, sampler=own.OwnSampler())
    assert jointly._session.jointly
    joint = jointly.explain(ROW, WISH, rules=[], seed=0)
    assert joint.draws.outputs.shape[1] == 20
    assert joint.diagnostics["sampler"] == "Own"
    assert joint.diagnostics["joint"]


def test_a_goal_that_an_own_sampler_does_not_pursue_is_not_called_met():
    explainer = explainer_of(sampler=own.OwnSampler(), eta=gbce.SuccessProbability(0.9))
    explanation = explainer.explain(ROW, WISH, rules=[], seed=0)
    assert not explanation.calibration.met
    assert any("could not be met" in note for note in explanation.notes)


def test_a_careless_sampler_gets_a_sentence():
    class Careless:
        def sample(self, posterior, rng):
            return posterior.prior.draw(rng, 10)

    with pytest.raises(TypeError, match="sampler Careless must return Draws, not array"):
        explainer_of(sampler=Careless()).explain(ROW, WISH, seed=0)
