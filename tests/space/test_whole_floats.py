"""Floats that are all whole are whole numbers, where there are enough of them to tell."""

import numpy as np
import pandas as pd
import pytest

import gbce

N = 20


def kind_of(values, **options):
    frame = pd.DataFrame({"people": values, "height": np.linspace(1.5, 2.0, len(values))})
    return gbce.Space.infer(frame, **options).features[0].kind


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (np.arange(float(N)), "integer"),
        (1_000.0 * np.arange(N), "integer"),
        (np.arange(N - 1.0), "real"),  # too few to tell
        (np.append(np.arange(5.0), np.nan), "integer"),  # what pandas makes of whole numbers when one is missing
        (np.append(np.arange(N), 0.5), "real"),
        (2.0**60 + 2.0**52 * np.arange(N), "real"),  # no float there has a fraction
        (np.arange(N).astype("float32"), "integer"),
    ],
)
def test_kind_of_floats(values, kind):
    assert kind_of(values) == kind


def test_what_is_said_of_a_kind_counts_and_arrays_stay_real():
    whole = np.arange(float(N))
    assert kind_of(whole, kinds={"people": "real"}) == "real"
    assert gbce.Space.infer(np.column_stack([whole, whole**2])).features[0].kind == "real"


def test_draws_and_answers_have_no_fractions_and_keep_their_dtype():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"people": rng.integers(1, 5_000, 200).astype(float), "income": rng.normal(3, 1, 200)})
    explainer = gbce.Explainer(lambda x: x["income"] + x["people"] / 1_000, frame)
    explanation = explainer.explain(frame.iloc[[0]], gbce.AtLeast(9.0), seed=0)
    drawn = explanation.draws.frame()["people"]
    assert drawn.dtype == float
    assert (drawn == drawn.round()).all()
    assert drawn.nunique() > 10
    answer = explanation.answer.row["people"]
    assert answer.dtype == float
    assert (answer == answer.round()).all()
