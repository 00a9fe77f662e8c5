"""A table by labels: one row's table, iteration, and whole sentences."""

import pandas as pd
import pytest

import gbce
from support.lending import linear


@pytest.fixture(scope="module")
def table():
    data, model = linear()
    rows = data.iloc[:4].set_axis(["a", "b", "b", 7])
    return gbce.Explainer(model, data).explain_many(rows, gbce.AtLeast(15), seed=0, posterior=False, progress=False)


def test_iteration_is_over_labels(table):
    assert list(table) == ["a", "b", "b", 7]
    assert len(table) == 4


def test_a_label_gives_the_table_of_its_rows(table):
    one = table[7]
    assert len(one) == 1
    assert one.answers.equals(table.answers.iloc[[3]])
    assert one.changes().equals(table.changes()[table.changes()["row"] == 7])
    assert one.rows.equals(table.rows.iloc[[3]])
    assert len(table["b"]) == 2
    assert one.encoded.place.tolist() == [0] * len(one.pointwise)
    assert table["b"].counterfactuals.equals(table.counterfactuals.loc[["b"]])
    pd.testing.assert_frame_equal(one.changes("answer"), table.changes("answer")[table.changes("answer")["row"] == 7]
                                  .reset_index(drop=True), check_dtype=False)  # fmt: skip


def test_an_unknown_label_is_named(table):
    with pytest.raises(KeyError, match="there is no row 'z'; the first rows are"):
        table["z"]


def test_sentences_are_not_cut(table):
    lines = str(table).splitlines()
    assert len(lines) == 4
    for line, label, sentence in zip(lines, table, table.answers["sentence"], strict=True):
        assert line == f"{label}: {sentence}"
