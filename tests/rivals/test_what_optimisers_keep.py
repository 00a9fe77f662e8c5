"""Distance minimisers, ROAR and PROBE on a mixed table: what they keep, and that seeds decide."""

import pandas as pd
import pytest

from benchmarks.rivals import evolution, probe, roar, wachter
from benchmarks.rivals._wish import Wish
from support.mixed_question import mixed, mixed_rows

METHODS = (*wachter.METHODS, *evolution.METHODS, *roar.METHODS, *probe.METHODS)
YES = Wish(label="yes")


def _made(method):
    if method.name == "CMA-ES":
        pytest.importorskip("cma")
    return method.make()


def _answered(rival, rows):
    """Yield rows that a method finds an answer for; each gives up on some."""
    for i in range(len(rows)):
        found = rival.counterfactual(rows.iloc[[i]], YES, 3)
        if found.answers:
            yield rows.iloc[[i]], found


@pytest.mark.parametrize("smooth", [True, False])
@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_bounds_categories_and_missing_cells_are_kept_and_the_seed_decides(method, smooth):
    rival, _ = mixed(_made(method), smooth)
    rows = mixed_rows()
    refused = rows[(rival._model.predict(rows) == "no") & ~(rows["income"] > 45.0)]
    chance = pd.Series(rival._model.predict_proba(refused)[:, 1], index=refused.index)
    refused = refused.loc[chance.sort_values(ascending=False).index]  # those first that are nearly accepted
    for rows_alike in (refused[refused["income"].notna()], refused[refused["income"].isna()]):
        row, found = next(_answered(rival, rows_alike[:4]))
        answer, again = found.answers[""], rival.counterfactual(row, YES, 3)
        pd.testing.assert_frame_equal(answer, again.answers[""])
        assert list(answer.columns) == list(rows.columns)
        assert answer["age"].iloc[0] == row["age"].iloc[0]
        assert answer["months"].iloc[0] <= row["months"].iloc[0]
        assert answer["months"].iloc[0] == round(answer["months"].iloc[0])
        assert answer["job"].iloc[0] in {"none", "part", "full"}
        assert answer["income"].isna().iloc[0] == row["income"].isna().iloc[0]
        assert not answer["income"].iloc[0] > 45.0
        if method.name != "ROAR":  # which does not check
            assert rival._model.predict(answer)[0] == "yes"


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_nothing_to_change_is_a_note(method):
    rival, space = mixed(_made(method))
    rival._codes.space = type(space).infer(mixed_rows(), immutable=list(mixed_rows().columns))
    found = rival.counterfactual(mixed_rows().iloc[[10]], YES, 0)
    assert not found.answers
    assert found.note == "nothing may change"
