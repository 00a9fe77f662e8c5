"""Letters: the lender's reasons, ways on a page of their own, and one sentence where there must be no letter."""

import re
from dataclasses import replace

import pytest

import gbce
from gbce.explanation import Share
from gbce.words import LetterError
from support.lending import REASONS, applicants, declined, explained, explainer, forest, linear


def letter(explanation=None, reasons=REASONS, **options):
    return (explanation or explained(posterior=True)).letter(reasons, **{"date": "2026-11-18", **options})


def test_reasons_are_the_lenders_own_and_at_most_four():
    found = letter()
    assert 1 <= len(found.reasons) <= 4
    assert all(text == REASONS[column] for column, text in found.reasons)
    changed = list(explained(posterior=True).answer.changes.index)
    assert {column for column, _ in found.reasons[: len(changed)]} == set(changed)


def test_reasons_of_the_answer_are_ordered_by_the_size_of_the_change():
    explanation = explained(posterior=True)
    space, x = explanation.space, explanation.answer.decision.x
    size = dict(zip(space.names, (space.change(x[None, :], explanation.x0) / space.scale)[0], strict=True))
    own = [size[column] for column, _ in letter(alternatives=0).reasons]
    assert own == sorted(own, reverse=True)
    assert all(own)


def test_ways_stand_on_a_page_of_their_own():
    found = letter(sender="Example Bank", contact="desk 4")
    first, second = found.text.split("\f")
    assert "had been" not in first
    assert all(text in first for _, text in found.reasons)
    assert all(way in second for way in found.ways)
    assert "would have said 'approved'" in second
    assert found.html.count("<section>") == 2
    assert "break-before: page" in found.html
    assert "Example Bank decided" in first
    assert "Questions: desk 4" in first


def test_every_way_states_its_reliability_and_the_letter_what_it_depends_on():
    found = letter(model="score 7")
    assert all("times out of 100" in way for way in found.ways)
    for part in ("Model: score 7", "Date: 2026-11-18", f"Receipt: {found.receipt}", "not legal advice"):
        assert part in found.text
    assert re.fullmatch(r"[0-9a-f]{32}", found.receipt)


@pytest.mark.parametrize(("share", "stated"), [(1.0, "100% of 30"), (0.95, "95% of 30")])
def test_refitted_models_are_counted(share, stated):
    explanation = explained(posterior=True)
    refitted = replace(explanation, answer=replace(explanation.answer, survival=Share.of(share, 30)))
    assert f"Refitted models that agree with the first of these: {stated}" in letter(refitted).text


def test_the_receipt_changes_with_row_answer_and_seed():
    other = explainer().explain(declined(2).iloc[1], "approved", seed=0, posterior=False)
    again = explainer().explain(declined(1).iloc[0], "approved", seed=1, posterior=False)
    receipts = [letter(one).receipt for one in (explained(), other, again, explained())]
    assert len(set(receipts)) == 3
    assert receipts[0] == receipts[3]


def test_an_unmapped_column_is_an_error_and_never_other():
    column = letter().reasons[0][0]
    some = {name: text for name, text in REASONS.items() if name != column}
    with pytest.raises(LetterError, match=f"the column '{column}' has no reason: add it to the table"):
        letter(reasons=some)


def test_a_protected_column_is_never_advice():
    column = letter(alternatives=0).reasons[0][0]
    with pytest.raises(LetterError, match=f"the answer changes '{column}', which is protected"):
        letter(protected=[column])
    others = [name for name, _ in letter().reasons if name not in explained(posterior=True).answer.changes.index]
    for name in others:  # a way beside the answer is left out
        shown = letter(protected=[name])
        label = explained().space.label(explained().space.position[name])
        assert label not in " ".join(shown.ways)


def test_an_immutable_column_is_never_advice():
    explanation = explained()
    column = explanation.answer.changes.index[0]
    j = explanation.space.position[column]
    features = list(explanation.space.features)
    features[j] = replace(features[j], mutable=False)
    space = replace(explanation.space, features=tuple(features))
    forged = replace(explanation, query=replace(explanation.query, space=space))
    with pytest.raises(LetterError, match="protected or immutable"):
        letter(forged)


def test_an_answer_that_is_not_reached_gets_no_letter():
    table, model = linear()
    missed = gbce.Explainer(model, table).explain(table.iloc[0], gbce.AtLeast(1_000), seed=0, posterior=False)
    with pytest.raises(LetterError, match="the answer does not reach the target"):
        missed.letter({"pay": "a", "debt": "b"})


def test_an_answer_that_is_not_reliable_gets_no_letter():
    explanation = explained()
    weak = replace(explanation, answer=replace(explanation.answer, reliability=Share(0.6, 0.57, 0.63, 1000)))
    with pytest.raises(LetterError, match="not reliable under small errors; a letter must not recommend it"):
        letter(weak)


def test_a_bad_verdict_gets_no_letter():
    explanation = explained(posterior=True)
    info = replace(explanation.draws.info, doubt="a mode was missed")
    doubted = replace(explanation, draws=replace(explanation.draws, info=info))
    with pytest.raises(LetterError, match=r"the posterior cannot be trusted: use with care.*a mode was missed"):
        letter(doubted)


def test_nobody_who_was_accepted_gets_a_letter():
    table, _ = applicants()
    approved = table[forest().predict(table) == "approved"].iloc[0]
    fine = explainer().explain(approved, "approved", seed=0, posterior=False)
    with pytest.raises(LetterError, match="reaches the target as it is"):
        letter(fine)


def test_options_are_checked():
    with pytest.raises(TypeError, match="reasons must be a mapping"):
        letter(reasons=["income"])
    with pytest.raises(ValueError, match=r"reasons names \['wage'\], but the columns are"):
        letter(reasons={"wage": "x"})
    with pytest.raises(TypeError, match="protected must be a list"):
        letter(protected="age")
    with pytest.raises(ValueError, match="alternatives must be an integer"):
        letter(alternatives=-1)


def test_markup_in_reasons_is_text():
    found = letter(reasons=dict.fromkeys(REASONS, "<script>alert(1)</script>"), sender="<b>")
    assert "<script>" not in found.html
    assert "&lt;script&gt;" in found.html


def test_letters_of_a_table_are_for_mail_merge():
    table, _ = applicants()
    rows = declined(3)
    accepted = table[forest().predict(table) == "approved"].iloc[:1]
    import pandas as pd

    result = explainer().explain_many(pd.concat([rows, accepted]), "approved", seed=0, posterior=False, progress=False)
    letters = result.letters(REASONS, date="2026-11-18")
    assert list(letters.index) == list(result.diagnostics.index)
    assert "reaches the target as it is" in letters["refused"].iloc[-1]
    written = letters[letters["refused"] == ""]
    assert len(written) >= 1
    for label, line in written.iterrows():
        alone = (
            explainer()
            .explain(table.loc[label], "approved", seed=0, posterior=False)
            .letter(REASONS, date="2026-11-18")
        )
        assert line["reason_1"] == alone.reasons[0][1]
        # a table keeps no proved ranges
        assert alone.ways[0].startswith(line["would_have"].split(". ")[0])
        assert "times out of 100" in line["would_have"]
    with pytest.raises(ValueError, match="names"):
        result.letters({"wage": "x"})


def test_a_salutation_of_ones_own_takes_the_place_of_the_usual_one():
    assert letter().opening[0] == "Dear applicant,"
    assert letter(salutation="Dear customer,").opening[0] == "Dear customer,"
