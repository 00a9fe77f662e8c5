"""Sentences state the numbers of the tables, with words for probabilities, and nothing that the figures deny."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import gbce
from gbce.explanation import Share
from gbce.words._text import languages, open_catalogue
from support.lending import declined, explained, explainer, linear

NUMBER = re.compile(r"-?\d+(?:,\d{3})*(?:\.\d+)?")


def numbers(text):
    return [float(one.replace(",", "")) for one in NUMBER.findall(text)]


def share(p, n=1000, exact=False):
    return Share(p, p, p, 0 if exact else n, exact)


def with_answer(explanation, **changes):
    return replace(explanation, answer=replace(explanation.answer, **changes))


def test_the_text_states_now_then_and_how_reliable():
    explanation = explained()
    text, answer = explanation.to_text(), explanation.answer
    assert "As things are, the model gives 'approved' a probability of" in text
    assert "the model would have said 'approved' (probability" in text
    for name, line in answer.changes.iterrows():
        label = explanation.space.label(explanation.space.position[name])
        found = re.search(rf"{label} had been ([\d,.]+)(?: EUR)? instead of ([\d,.]+)", text)
        assert numbers(found[1]) == [pytest.approx(line["then"])]
        assert numbers(found[2]) == [pytest.approx(line["now"], abs=0.5)]
    count = np.floor(100 * answer.reliability.share + 1e-9)
    assert f"({count:g} times out of 100" in text or answer.reliability.exact
    assert "will" not in text.split()


def test_analysts_get_cost_posterior_and_other_ways():
    explanation = explained(posterior=True)
    text, found = explanation.to_text(audience="analyst"), explanation.alternatives(3)
    success = 100 * explanation.distribution["success_probability"]
    assert f"{success:.1f}% reach the target" in text
    listed = text.splitlines()[1:]
    assert len(listed) == len(found)
    for line, mass, error in zip(listed, found.table["mass"], found.table["mass_se"], strict=True):
        assert f"{100 * mass:.0f}% of the posterior (± {100 * 1.96 * error:.0f}%)" in line


def test_draws_that_are_not_trusted_are_not_read():
    explanation = explained(posterior=True)
    doubted = replace(explanation.draws.info, doubt="something was missed")
    text = replace(explanation, draws=replace(explanation.draws, info=doubted)).to_text(audience="analyst")
    assert "cannot be trusted (use with care)" in text
    assert "% reach the target" not in text
    assert len(text.splitlines()) == 1
    assert "No posterior was sampled" in explained().to_text(audience="analyst")


@pytest.mark.parametrize(
    ("p", "words"),
    [
        (1.0, "virtually certainly still have worked (more than 99 times"),
        (0.95, "very likely still have worked (95 times"),
        (0.899999, "likely still have worked (89 times"),
        (0.66, "would likely still have worked (66 times"),
        (0.5, "been about as likely as not to still work (50 times"),
        (0.2, "been unlikely to still work (20 times"),
        (0.05, "been very unlikely to still work (5 times"),
        (0.0, "almost certainly not still have worked (0 times"),
    ],
)
def test_words_for_probabilities_stand_with_the_number(p, words):
    assert words in with_answer(explained(), reliability=share(p), promised=None).to_text()


def test_exact_shares_near_the_ends_are_not_rounded_to_them():
    assert "more than 99.9 times" in with_answer(explained(), reliability=share(0.9997, exact=True)).to_text()
    assert "fewer than 0.1 times" in with_answer(explained(), reliability=share(0.0002, exact=True)).to_text()


def test_a_promise_that_was_missed_is_stated():
    text = with_answer(explained(), reliability=share(0.71), promised=0.9).to_text()
    assert "(71 times out of 100" in text
    assert "less than the 90 times out of 100 that were wanted" in text
    unknown = with_answer(explained(), reliability=None).to_text()
    assert "was not computed" in unknown


def test_refitted_models_are_counted():
    assert "All 30 refitted models would have agreed" in with_answer(explained(), survival=share(1.0, 30)).to_text()
    assert "Of 30 refitted models, 86% would" in with_answer(explained(), survival=share(0.8667, 30)).to_text()


def test_an_answer_that_misses_is_refused_with_the_reason():
    table, model = linear()
    missed = gbce.Explainer(model, table).explain(table.iloc[0], gbce.AtLeast(1_000), seed=0, posterior=False)
    with pytest.raises(ValueError, match=r"to_text: the answer does not reach the target. .*1,000|1000"):
        missed.to_text()
    without = gbce.Explainer(model, table, policy=None).explain(table.iloc[0], gbce.AtLeast(0), seed=0)
    with pytest.raises(ValueError, match="there is no answer"):
        without.to_text()


def test_a_row_that_reaches_needs_no_change():
    table, model = linear()
    reached = gbce.Explainer(model, table).explain(
        {"pay": 60.0, "debt": 40.0}, gbce.AtLeast(0), seed=0, posterior=False
    )
    assert reached.to_text() == (
        "Nothing would have had to be different: the model already predicts 20 (wanted: at least 0)."
    )


@pytest.mark.parametrize(
    ("target", "wanted"),
    [
        (gbce.AtLeast(5), "(wanted: at least 5)"),
        (gbce.AtMost(-40), "(wanted: at most -40)"),
        (gbce.Range(5, 9), "(wanted: 5 to 9)"),
        (gbce.Value(7, tolerance=0.5), "(wanted: 7 ± 0.5)"),
        (gbce.Change(0.5, relative=True), "(wanted: at least -10)"),
        (gbce.Loss(lambda f: np.abs(f - 7), threshold=1), "would have reached the target ("),
    ],
    ids=["at least", "at most", "range", "value", "change", "loss"],
)
def test_targets_on_numbers(target, wanted):
    table, model = linear()
    found = gbce.Explainer(model, table).explain({"pay": 40.0, "debt": 60.0}, target, seed=0, posterior=False)
    assert wanted in found.to_text()


def test_a_wanted_probability_is_stated():
    found = explainer().explain(declined(1).iloc[0], gbce.Class("approved", probability=0.7), seed=0, posterior=False)
    assert re.search(
        r"would have given 'approved' a probability of 0\.[789]\d* \(wanted: at least 0\.7\)", found.to_text()
    )


def test_languages_and_audiences_that_do_not_exist_are_named():
    with pytest.raises(ValueError, match="no catalogue for the language 'xx'; there are en, ja"):
        explained().to_text("xx")
    with pytest.raises(ValueError, match="audience must be 'person' or 'analyst'"):
        explained().to_text(audience="child")


def test_every_language_has_the_same_sentences_with_the_same_words():
    fields = {
        language: {
            (section, name): set(re.findall(r"\{(\w+)\}", text))
            for section, texts in open_catalogue(language).entries.items()
            for name, text in texts.items()
        }
        for language in languages()
    }
    assert languages() == ["en", "ja"]
    assert fields["ja"] == fields["en"]


def test_hostile_names_are_printed_and_not_run():
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 1)), columns=["\x1b[31m{pay}"])
    found = gbce.Explainer(lambda x: x.iloc[:, 0], table).explain(
        table.iloc[0], gbce.AtLeast(1), seed=0, posterior=False
    )
    assert r"\x1b[31m{pay} had been" in found.to_text()
