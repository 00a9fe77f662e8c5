"""Classes that a file names and a process does not know: kept as data, never imported, and checked."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import gbce
from gbce.base import Rule
from gbce.draws import SamplerInfo
from gbce.files._classes import KeptInfo, KeptRule, KeptTarget
from support import own
from support.files import manifest, restated
from support.own_question import ROW, WISH, equal_tables, explainer_of, saved

TESTS = Path(__file__).parents[1]
SOURCES = Path(gbce.__file__).parents[1]


@pytest.fixture(scope="module")
def explainer():
    return explainer_of()


# --- another process -------------------------------------------------------------------------------------------------

ELSEWHERE = """
import sys
import gbce

first, second = sys.argv[1:]
one = gbce.load(first)
assert not any(name.startswith("support") for name in sys.modules)
info, target = one.draws.info, one.target
assert type(target).__name__ == "KeptTarget" and target.describe() == "near 1 (own)"
assert [rule.label for rule in one.rules] == ["Cheapest(count=4)", "Trio", "Holding(key=absolute)", "Mean"]
labels = ["Cheapest(count=4)", "Trio", "Trio with 1 more (2)", "Trio [far]", "Holding(key=absolute)", "Mean"]
assert one.pointwise.index.tolist() == one.counterfactuals.index.tolist() == labels
assert one.diagnostics["stages"] == (2000, 300) and one.diagnostics["remark"] == "as asked"
assert "from one own run" in one.diagnostics["verdict"]
assert type(one.rules[-1]) is gbce.Mean
for rule, what in zip(one.rules[:3], ("class Cheapest", "class Trio", "a file does not keep its key")):
    try:
        one.decide(rule)
    except ValueError as error:
        assert what in str(error), error
        if what.startswith("class"):
            assert "import support.own" in str(error), error
    else:
        raise AssertionError(rule)
assert one.at(0.8).pointwise.index.tolist() == []
import matplotlib
matplotlib.use("Agg")
for ax in (one.plot.posterior(), one.plot.changes()):
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    for label in ("Cheapest(count=4)", "Trio", "Trio, alternatives", "Holding(key=absolute)"):
        assert label in texts, texts
one.save(second)
print(one.summary())
"""

KNOWN = """
import sys
import gbce
from support import own

for path in sys.argv[1:]:
    one = gbce.load(path)
    assert one.rules[:2] == (own.Cheapest(count=4), own.Trio()), one.rules
    assert one.target == own.Near(1.0)
    assert type(one.draws.info) is own.OwnInfo and one.draws.info.stages == (2000, 300)
    assert one.decide(one.rules[0]).index.tolist() == ["Cheapest(count=4)"]
print(one.summary())
"""


def run(script, *arguments, path=()):
    """Run a script in a process of its own; what it prints comes back."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (SOURCES, *path)))}
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)], capture_output=True, text=True, env=environment, cwd="/"
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_process_that_does_not_know_the_classes_keeps_them_for_one_that_does(tmp_path):
    rules = [own.Cheapest(count=4), own.Trio(), own.Holding(key=np.abs), gbce.Mean()]
    explainer = explainer_of(sampler=own.OwnSampler())
    explanation = explainer.explain(ROW, own.Near(1.0), rules=rules, seed=0)
    first, second = saved(explanation, tmp_path), tmp_path / "two.gbce"
    assert run(ELSEWHERE, first, second).strip() == explanation.summary().strip()
    for name in ("rules", "target", "sampler", "decisions"):
        assert manifest(second)[name] == manifest(first)[name]
    assert run(KNOWN, first, second, path=[TESTS]).strip() == explanation.summary().strip()
    equal_tables(gbce.load(second), explanation)


MARKING = """
from pathlib import Path
Path(__file__).with_suffix(".marker").touch()
from gbce.base import Rule
class Own(Rule): ...
"""


@pytest.mark.parametrize("module", ["antigravity", "marking", "marking.inner", "os.path"])
@pytest.mark.parametrize("member", ["rules", "target", "sampler"])
def test_nothing_is_imported_because_a_file_says_so(tmp_path, monkeypatch, explainer, module, member):
    explanation = explainer.explain(ROW, WISH, rules=[own.Cheapest()], seed=0)
    path = saved(explanation, tmp_path)
    (tmp_path / "marking").mkdir()
    for name in ("marking/__init__.py", "marking/inner.py"):
        (tmp_path / name).write_text(MARKING)
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    written, named = manifest(path)[member], {"type": f"{module}:Rule"}
    again = gbce.load(restated(path, **{member: [written[0] | named] if member == "rules" else written | named}))
    again.summary()
    kept = {"rules": again.rules[0], "target": again.target, "sampler": again.draws.info}[member]
    assert isinstance(kept, {"rules": KeptRule, "target": KeptTarget, "sampler": KeptInfo}[member])
    assert set(sys.modules) <= before
    assert not list(tmp_path.rglob("*.marker"))


def test_what_was_defined_in_a_script_is_to_be_defined_and_not_imported(explainer, tmp_path):
    explanation = explainer.explain(ROW, WISH, rules=[own.Cheapest()], seed=0)
    path = saved(explanation, tmp_path)
    for name in ("__main__:Mine", "somewhere:work.<locals>.Mine"):
        written = manifest(path)["rules"][0] | {"type": name}
        again = gbce.load(restated(path, rules=[written]))
        with pytest.raises(ValueError, match=r"its class .*Mine is not defined: define it and load the file again"):
            again.decide(again.rules[0])


# --- classes that changed, and files that lie ------------------------------------------------------------------------


def test_a_class_that_takes_other_options_by_now_is_kept_as_data(explainer, tmp_path):
    explanation = explainer.explain(ROW, WISH, rules=[own.Cheapest(count=4)], seed=0)
    path = saved(explanation, tmp_path)
    written = manifest(path)["rules"][0]
    older = written | {"options": written["options"] | {"colour": "red"}}
    again = gbce.load(restated(path, rules=[older]))
    equal_tables(again, explanation)
    with pytest.raises(ValueError, match=r"its class Cheapest does not accept .*colour"):
        again.decide(again.rules[0])
    target = {"type": "support.own:Near", "label": "near", "options": {"wish": 1.0, "room": 2.0, "gone": 1}}
    assert isinstance(gbce.load(restated(path, target=target)).target, KeptTarget)
    report = {"type": "support.own:OwnInfo", "label": "Own", "options": {"sampler": "Own", "gone": 3}}
    says = {"advice": "draw more", "runs": "", "kind_of_run": "runs", "tempered": False}
    info = gbce.load(restated(path, sampler=report | {"says": says})).draws.info
    assert isinstance(info, KeptInfo)
    assert info.entries()["gone"] == 3


def test_a_class_that_was_defined_again_is_the_last_one(explainer, tmp_path):
    def define():
        @dataclass(frozen=True)
        class Mine(Rule):
            nth: int = 0

            def choose(self, scene):
                return scene.pick(scene.draws.index[self.nth])

        return Mine

    first, second = define(), define()
    explanation = explainer.explain(ROW, WISH, rules=[first(3)], seed=0)
    assert type(gbce.load(saved(explanation, tmp_path)).rules[0]) is second


LIES = {
    "a kept rule": {"type": "gbce:KeptRule", "label": "x", "options": {"written": 5, "reason": "no"}},
    "the base": {"type": "gbce:Rule", "label": "x", "options": {}},
    "a target": {"type": "gbce:AtLeast", "label": "x", "options": {"y": 1.0}},
    "no label": {"type": "nowhere:Rule", "options": {}},
    "a label that is no text": {"type": "nowhere:Rule", "label": 3, "options": {}},
    "no options": {"type": "nowhere:Rule", "label": "x"},
    "options that are none": {"type": "nowhere:Rule", "label": "x", "options": [1]},
    "a huge array": {
        "type": "support.own:Holding",
        "label": "x",
        "options": {"held": {"array": [1, 1, 1], "dtype": "S9999999999", "shape": [3]}},
    },
    "objects": {
        "type": "support.own:Holding",
        "label": "x",
        "options": {"held": {"array": [1], "dtype": "O", "shape": [1]}},
    },
}


@pytest.mark.parametrize("rule", LIES.values(), ids=LIES)
def test_a_file_that_lies_about_a_rule_is_damaged(explainer, tmp_path, rule):
    path = saved(explainer.explain(ROW, WISH, rules=[own.Cheapest()], seed=0), tmp_path)
    with pytest.raises(gbce.FileError, match="is damaged"):
        gbce.load(restated(path, rules=[rule]))


@pytest.mark.parametrize(
    "change",
    [{"r_hat": "x"}, {"complete": "yes"}, {"sampler": 3}, {"model_evidence": 1.0}, {"goal_met": 0.5}],
    ids=lambda change: next(iter(change)),
)
@pytest.mark.parametrize("name", ["gbce:ImportanceInfo", "nowhere:Info"])
def test_a_file_that_lies_about_a_report_is_damaged(explainer, tmp_path, change, name):
    path = saved(explainer.explain(ROW, WISH, rules=[], seed=0), tmp_path)
    written = manifest(path)["sampler"]
    written = written | {"type": name, "options": written["options"] | change}
    with pytest.raises(gbce.FileError, match="is damaged"):
        gbce.load(restated(path, sampler=written))


def test_a_report_of_an_unknown_class_keeps_its_advice(tmp_path):
    explanation = explainer_of(sampler=own.OwnSampler(60, 30)).explain(ROW, WISH, rules=[], seed=0)
    verdict = explanation.diagnostics["verdict"]
    assert verdict.endswith("from one own run; give it more candidates")
    path = saved(explanation, tmp_path)
    written = manifest(path)["sampler"] | {"type": "nowhere:Info"}
    assert gbce.load(restated(path, sampler=written)).diagnostics["verdict"] == verdict


def test_a_report_of_an_unknown_class_needs_its_words(explainer, tmp_path):
    path = saved(explainer.explain(ROW, WISH, rules=[], seed=0), tmp_path)
    written = manifest(path)["sampler"] | {"type": "nowhere:Info"}
    assert isinstance(gbce.load(restated(path, sampler=written)).draws.info, SamplerInfo)
    del written["says"]
    with pytest.raises(gbce.FileError, match="is damaged"):
        gbce.load(restated(path, sampler=written))
