"""How often an answer holds: exact where it can be, trials otherwise, marked which wherever it is shown."""

import json

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier, RandomForestRegressor

import gbce
from gbce.budget import Budget
from gbce.metrics import noise_distribution, sum_under_noise
from gbce.pages._explorer import explorer_payload
from support.files import manifest, restated

DATA = np.random.default_rng(1).normal(size=(200, 2))
FOREST = RandomForestRegressor(10, max_depth=4, random_state=0).fit(DATA, DATA[:, 0] + 2 * DATA[:, 1])
OTHER = RandomForestRegressor(10, max_depth=4, random_state=1).fit(DATA, DATA[:, 0] + 2 * DATA[:, 1])
ROW = int(np.argmin(FOREST.predict(DATA)))
WISH = gbce.AtLeast(1.0, scale=0.5)
RULES = [gbce.MAP()]


def ask(model=FOREST, noise=0.1, data=DATA, wish=WISH, **options):
    explainer = gbce.Explainer(
        model, data, sampler=gbce.Importance(300), evaluation=gbce.Evaluation(noise=noise), **options
    )
    return explainer, explainer.explain(data[ROW], wish, rules=RULES, seed=0)


def as_a_function(rng, n):
    """The noise that 0.1 is, with the same numbers, as a function: nobody can look into it."""
    return rng.standard_normal((n, 2)) * (0.1 * gbce.Space.infer(DATA).scale)


@pytest.fixture(scope="module")
def exact():
    return ask()[1]


def test_exact_and_tried_are_answers_to_one_question(exact):
    _, tried = ask(noise=as_a_function)
    held, seen = exact.answer.reliability, tried.answer.reliability
    assert (held.exact, held.n, seen.exact, seen.n) == (True, 0, False, 1000)
    assert held.high - held.low < 2e-6
    error = np.sqrt(held.share * (1 - held.share) / seen.n)
    assert 0.5 < held.share < 1
    assert abs(held.share - seen.share) <= 4.5 * error
    mean, average = exact.answer.expected, tried.answer.expected
    assert (mean.exact, average.exact, average.n) == (True, False, 1000)
    assert abs(mean.mean - average.mean) <= 4.5 * (average.high - average.low) / (2 * 1.96)
    # nothing else changes, and the copies are saved but for a few
    np.testing.assert_array_equal(exact.draws.x, tried.draws.x)
    pairs = zip((*exact.decisions, exact.answer.decision), (*tried.decisions, tried.answer.decision), strict=True)
    for one, other in pairs:
        np.testing.assert_array_equal(one.x, other.x)
        assert one.figures == other.figures
    assert tried.n_model_rows - 1000 < exact.n_model_rows <= tried.n_model_rows - 800


def test_it_is_marked_wherever_it_is_shown(exact, tmp_path):
    answer = exact.answer
    share = answer.reliability.share
    count = f"{np.floor(1000 * share + 1e-9) / 10:g}"
    assert f"it still works {count} times out of 100 (computed, not simulated)." in answer.sentence
    assert f"{np.floor(1000 * share + 1e-9) / 1000:.3f} (exact: summed over" in exact.summary()
    assert "under execution noise (exact)" in exact.summary()
    said = json.loads(json.dumps(answer.to_dict()))
    assert (said["reliability"]["exact"], said["reliability"]["n"], said["expected"]["exact"]) == (True, 0, True)
    shown = explorer_payload(exact)["answer"]
    assert (shown["reliability"]["exact"], shown["expected"]["exact"]) == (True, True)
    again = gbce.load(exact.save(tmp_path / "one.gbce")).answer
    assert (again.reliability, again.expected) == (answer.reliability, answer.expected)
    assert again.sentence == answer.sentence


def test_files_with_unsound_figures_are_refused(exact, tmp_path):
    path = exact.save(tmp_path / "one.gbce")
    written = manifest(path)["answer"]
    for change in (
        {"reliability": [0.9, 0.88, 0.92, 0, False]},
        {"reliability": [0.9, 0.88, 0.92, 10, True]},
        {"expected": ["1", 0.0, 2.0, 0, True]},
    ):
        with pytest.raises(ValueError, match=next(iter(change))):
            gbce.load(restated(path, answer=written | change))


def test_several_models_have_the_exact_figure_of_the_first():
    explainer, found = ask(model=[FOREST, OTHER])
    posterior = explainer._session.own_posterior(found, Budget())
    law = noise_distribution(0.1, explainer.space, found.x0, found.answer.decision.x)
    assert found.answer.reliability.exact
    assert found.answer.reliability.share == sum_under_noise(posterior, law, posterior.read_trees()).success.value


def test_a_booster_of_classes_is_exact_and_a_function_or_a_rule_is_not():
    labels = np.where(DATA.sum(axis=1) > 0, "good", "bad")
    booster = GradientBoostingClassifier(n_estimators=10, random_state=0).fit(DATA, labels)
    _, found = ask(model=booster, wish=gbce.Class("good"))
    assert (found.answer.reliability.exact, found.answer.expected.exact) == (True, True)
    _, found = ask(model=lambda x: booster.predict_proba(x)[:, 1], wish=gbce.AtLeast(0.5))
    assert (found.answer.reliability.exact, found.answer.expected.exact) == (False, False)
    bound = gbce.Space.infer(DATA, constraints=["x1 <= x2 + 20"])
    _, found = ask(space=bound)
    assert (found.answer.reliability.exact, found.answer.reliability.n) == (False, 1000)


def test_a_budget_too_short_for_trials_does_for_sums():
    found = [ask(noise=noise)[0].explain(DATA[ROW], WISH, rules=RULES, seed=0, max_model_rows=1_000)
             for noise in (0.1, as_a_function)]  # fmt: skip
    assert all(one.n_model_rows <= 1_000 for one in found)
    held, seen = (one.answer.reliability for one in found)
    assert held.exact
    assert seen is None or seen.n < 1_000
