"""Answers read from a table and from stored lines are the same arrays."""

import numpy as np
import pandas as pd
import pytest

import gbce
from gbce.distributed import explain_partition
from gbce.policy import read_answers
from gbce.policy._read import read_whole


@pytest.fixture(scope="module")
def asked():
    rng = np.random.default_rng(0)
    data = pd.DataFrame(
        {
            "pay": rng.normal(50, 10, 80).round(1),
            "job": rng.choice(["clerk", "nurse"], 80),
            "years": rng.integers(0, 9, 80),
        }
    )
    explainer = gbce.Explainer(lambda x: x["pay"] + 3 * x["years"] + 5 * (x["job"] == "nurse"), data)
    return explainer, data.iloc[:6], gbce.AtLeast(75.0)


def test_a_table_and_its_stored_lines_are_read_alike(asked):
    explainer, rows, target = asked
    table = explainer.explain_many(rows, target, seed=0, posterior=False, progress=False)
    lines = explain_partition(explainer, rows, target, seed=0)
    lines = pd.concat([lines, rows.add_prefix("row_")], axis=1).assign(label=rows.index)
    one, other = read_answers(table), read_answers(lines, explainer)
    for name in ("x0", "answers", "answered", "already", "failed", "reliability", "cost"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert list(one.labels) == list(other.labels)
    assert one.target.y == 75.0
    assert other.target is None
    assert one.answered.any()
    some = one.take(np.array([1, 3]))
    assert len(some) == 2
    assert some.cost[1] == one.cost[3]


def test_the_table_of_a_store_is_read_like_one_in_memory(asked, tmp_path):
    explainer, rows, target = asked
    options = {"seed": 0, "posterior": False, "progress": False}
    stored = explainer.explain_many(rows, target, store=tmp_path / "run", **options)
    assert isinstance(stored, gbce.batch.StoredTable)
    one, other = read_answers(explainer.explain_many(rows, target, **options)), read_answers(stored)
    for name in ("x0", "answers", "answered", "already", "failed", "reliable", "reliability", "cost", "words"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert list(one.labels) == list(other.labels)
    assert other.target.y == 75.0
    light = read_whole(stored, explainer, words=False)
    assert set(light.words) == {""}
    np.testing.assert_array_equal(light.answers, one.answers)
    few = gbce.policy.actions(stored, 1, explainer=explainer, seed=0)
    assert few.labels.isin(rows.index).all()


def test_what_cannot_be_read_is_said(asked):
    explainer, rows, target = asked
    lines = explain_partition(explainer, rows, target, seed=0)
    with pytest.raises(ValueError, match="give explainer="):
        read_answers(lines)
    with pytest.raises(ValueError, match="no column 'row_pay'"):
        read_answers(lines, explainer)
    with pytest.raises(TypeError, match="must be an ExplanationTable"):
        read_answers([1, 2])
    without = gbce.Explainer(lambda x: x["pay"], rows, policy=None)
    unanswered = without.explain_many(rows, gbce.AtLeast(75.0), seed=0, posterior=False, progress=False)
    with pytest.raises(ValueError, match="no row of the table has an answer"):
        read_answers(unanswered)
