"""Explanations and tables as plain data: strict JSON that says what the tables say, whatever the columns are."""

import json
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

import gbce
from support.tables import mixed_frame, score_of

SAMPLER = gbce.Importance(500, 60)
N = 60
RNG = np.random.default_rng(0)
ODD = pd.DataFrame(
    {
        "rule": RNG.normal(size=N),
        'quote " and \\ and \n': RNG.integers(0, 5, N),
        "Ünïcode 漢": pd.Categorical.from_codes(np.arange(N) % 3, pd.cut([1.0, 5.0, 9.0], [0, 3, 6, 10.5])),
        ("a", 1): pd.Categorical.from_codes(np.arange(N) % 2, [Decimal("0.10"), Decimal("2")]),
        7: pd.Categorical.from_codes(np.arange(N) % 2, [b"\x00\xff", b"abc"]),
        "when": pd.date_range("2024-01-01", periods=N),
        "gone": pd.array([None if i % 7 == 0 else i for i in range(N)], dtype="Int64"),
    }
)


def odd_score(frame):
    return frame["rule"].to_numpy(float) + (frame[7].astype(object) == b"abc").to_numpy(float)


def explain(data=ODD, model=odd_score, rules=("MAP", "Medoid"), **options):
    explainer = gbce.Explainer(model, data, sampler=SAMPLER, **options)
    return explainer.explain(data.iloc[0], gbce.AtLeast(1.5, scale=1), rules=list(rules), seed=0)


def require_plain(found):
    """Only the types of JSON, exactly, and no number that it has not."""
    if type(found) is dict:
        assert all(type(key) is str for key in found)
        for value in found.values():
            require_plain(value)
    elif type(found) is list:
        for value in found:
            require_plain(value)
    else:
        assert type(found) in (str, int, float, bool, type(None)), type(found)
        assert not isinstance(found, float) or np.isfinite(found)


@pytest.mark.parametrize(
    ("data", "model"), [(ODD, odd_score), (mixed_frame(), score_of), (mixed_frame(), [score_of, lambda f: f["age"]])],
    ids=["odd", "mixed", "two models"],
)  # fmt: skip
def test_an_explanation_is_plain_and_comes_back_from_strict_json(data, model):
    explanation = explain(data, model)
    found = explanation.to_dict(draws=True)
    require_plain(found)
    assert json.loads(explanation.to_json(draws=True)) == found
    columns = [str(label) for label in data.columns]
    assert all(list(line["values"]) == columns for line in (*found["counterfactuals"], *found["draws"], found["row"]))
    assert [line["rule"] for line in found["pointwise"]] == ["MAP", "Medoid"]
    assert found["pointwise"][0]["loss"] == explanation.pointwise.loc["MAP", "loss"]
    assert found["distribution"]["success_probability"] == explanation.distribution["success_probability"]
    assert len(found["changes"]) == len(explanation.changes())
    assert [line["model"] for line in found["row"]["said"]] == list(explanation.models)
    assert found["row"]["said"][0]["output"] == explanation.row.outputs[0, 0]
    assert found["diagnostics"]["sampling"] == explanation.diagnostics["sampling"]
    assert "verdict" not in found["diagnostics"]


KEYS = [
    "target", "status", "models", "row", "answer", "rules", "counterfactuals", "changes", "pointwise", "distribution",
    "importance", "intervals", "diagnostics", "eta", "seed",
]  # fmt: skip


def test_keys_are_those_of_the_reference():
    assert list(explain().to_dict()) == KEYS
    assert list(explain(rules=()).to_dict(draws=True)) == [*KEYS, "draws"]


def test_values_are_those_of_the_table():
    explanation = explain()
    now, first = explanation.to_dict()["row"]["values"], ODD.iloc[0]
    assert now == {
        "rule": first["rule"],
        'quote " and \\ and \n': int(first.iloc[1]),
        "Ünïcode 漢": "(0.0, 3.0]",
        "('a', 1)": "0.10",
        "7": "00ff",
        "when": "2024-01-01T00:00:00",
        "gone": None,
    }
    found = explanation.to_dict(draws=True)["draws"]
    assert {line["values"]["7"] for line in found} == {"00ff", b"abc".hex()}
    np.testing.assert_array_equal([line["weight"] for line in found], explanation.draws.weights)


def test_an_infinite_loss_is_null():
    target = gbce.Loss(lambda f: np.where(f > 0.5, 0.0, np.inf), threshold=0.1)
    data = mixed_frame()
    explainer = gbce.Explainer(score_of, data, sampler=SAMPLER)
    row = data.iloc[int(np.argmin(np.abs(score_of(data) - 0.4)))]  # not far from 0.5, but below it
    found = explainer.explain(row, target, rules=[], seed=0).to_dict()
    assert found["row"]["said"][0]["loss"] is None


def test_an_answer_is_part_of_it():
    explanation = explain()
    assert explanation.to_dict()["answer"]["sentence"] == explanation.answer.sentence
    assert set(explanation.to_dict()["answer"]) == set(explanation.answer.to_dict())
    assert explain(policy=None).to_dict()["answer"] is None


def test_a_path_gets_the_file_and_keeps_the_old_one_where_it_fails(tmp_path):
    explanation, path = explain(), tmp_path / "one.json"
    assert explanation.to_json(path) == path
    assert json.loads(path.read_text()) == explanation.to_dict()
    before = path.read_text()
    with pytest.raises(TypeError, match="to_dict: draws must be True or False, not 'all'"):
        explanation.to_json(path, draws="all")
    assert path.read_text() == before
    with pytest.raises(OSError, match="nowhere"):
        explanation.to_json(tmp_path / "nowhere" / "one.json")
    assert [entry.name for entry in tmp_path.iterdir()] == ["one.json"]


def test_a_table_is_plain_with_rows_of_the_same_label_and_rows_that_failed(tmp_path):
    def picky(frame):
        if (frame["rule"] > 50).any():
            raise OverflowError("too much")
        return odd_score(frame)

    rows = ODD.iloc[:4].set_axis(pd.Index([("r", 1), 2, 2, None], tupleize_cols=False)).copy()
    rows.iloc[1, 0] = 100.0
    explainer = gbce.Explainer(picky, ODD, sampler=SAMPLER)
    with pytest.warns(UserWarning, match="1 of 4 rows could not be explained"):
        table = explainer.explain_many(rows, gbce.AtLeast(1.5, scale=1), rules="MAP", seed=0, progress=False)
    found = table.to_dict()
    require_plain(found)
    assert json.loads(table.to_json()) == found
    assert json.loads(table.to_json(tmp_path / "rows.json").read_text()) == found
    assert list(found) == ["rules", "answers", "counterfactuals", "changes", "pointwise", "distribution", "importance",
                           "diagnostics", "n_model_calls", "n_model_rows"]  # fmt: skip
    assert [line["row"] for line in found["diagnostics"]] == [["r", 1], 2, 2, None]
    assert [line["status"] for line in found["diagnostics"]].count("failed") == 1
    assert [line["row"] for line in found["counterfactuals"]] == [["r", 1], 2, None]
    assert found["distribution"][1]["success_probability"] is None
    assert found["pointwise"][0]["rule"] == "MAP"
    assert [line["sentence"] for line in found["answers"]] == table.answers["sentence"].tolist()
    assert len(found["changes"]) == len(table.changes())
