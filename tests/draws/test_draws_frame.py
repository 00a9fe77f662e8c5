"""The draws as a table like the user's, with what is said of each beside them."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import gbce
from support.tables import mixed_frame, score_of

DATA = mixed_frame()
SAMPLER = gbce.Importance(500, 100)


def explain(data=DATA, model=score_of, **options):
    explainer = gbce.Explainer(model, data, sampler=SAMPLER, **options)
    row = data.iloc[0] if isinstance(data, pd.DataFrame) else data[0]
    return explainer.explain(row, gbce.AtLeast(1.0, scale=1), rules=["MAP"], seed=0)


def test_draws_have_the_columns_and_dtypes_of_the_table_and_what_the_model_says_of_them():
    explanation = explain()
    found = explanation.draws.frame()
    pd.testing.assert_series_equal(found.dtypes, DATA.dtypes)
    np.testing.assert_array_equal(explanation.space.encode(found), explanation.draws.x)
    np.testing.assert_allclose(score_of(found), explanation.draws.outputs[:, 0])


def test_figures_stand_beside_the_columns_in_the_order_that_was_asked_for():
    draws = explain(model=[score_of, lambda frame: frame["age"]]).draws
    found = draws.frame("reached", "weight", "loss", "output", "loss")
    assert found.columns.tolist() == [*DATA.columns, "reached", "weight", "loss", "output"]
    assert found["reached"].dtype == bool
    for name, values in (("weight", draws.weights), ("output", draws.outputs[:, 0]), ("loss", draws.loss[:, 0])):
        np.testing.assert_array_equal(found[name], values)
    np.testing.assert_array_equal(found["reached"], draws.reached[:, 0])


def test_a_column_of_the_users_keeps_its_name():
    data = DATA.rename(columns={"age": "loss", "debt": "loss_"})
    explanation = explain(data, lambda frame: frame["loss"] - frame["loss_"])
    found = explanation.draws.frame("loss")
    assert found.columns.tolist() == ["loss", "visits", "region", "loss_", "loss__"]
    np.testing.assert_array_equal(found["loss__"], explanation.draws.loss[:, 0])


def test_arrays_get_the_names_of_features_and_labels_of_any_kind_are_kept():
    numbers = np.random.default_rng(0).normal(size=(50, 2))
    assert explain(numbers, lambda x: x.sum(axis=1)).draws.frame().columns.tolist() == ["x1", "x2"]
    labelled = pd.DataFrame(numbers, columns=pd.Index([("a", 1), 7], tupleize_cols=False))
    assert explain(labelled, lambda frame: frame.sum(axis=1)).draws.frame().columns.tolist() == [("a", 1), 7]


def test_a_file_and_other_etas_know_the_columns_too(tmp_path):
    explanation = explain()
    again = gbce.load(explanation.save(tmp_path / "one.gbce"))
    pd.testing.assert_frame_equal(again.draws.frame("weight"), explanation.draws.frame("weight"), check_exact=True)
    assert explanation.at(0.5).draws.frame().shape == (100, 4)


def test_bad_figures_and_draws_without_columns_are_refused():
    draws = explain().draws
    with pytest.raises(
        ValueError, match=r"frame shows 'weight', 'output', 'loss', 'reached' beside the draws, not 'x'"
    ):
        draws.frame("loss", "x")
    with pytest.raises(
        ValueError, match="these draws do not know the columns of the table; use the draws of an explanation"
    ):
        replace(draws, space=None).frame()
