"""Reviews: what has become of each row under another model, from a table and from stored lines."""

import json

import numpy as np
import pandas as pd
import pytest

import gbce
from gbce.policy import ReviewKind, review

DATA = pd.DataFrame(np.random.default_rng(0).normal(50, 10, size=(99, 2)).round(1), columns=["pay", "debt"])


def score(rows):
    return (rows["pay"] - rows["debt"]).to_numpy(dtype=float)


@pytest.fixture(scope="module")
def table():
    explainer = gbce.Explainer(score, DATA)
    rows = pd.concat([DATA[score(DATA) < 0].head(12), DATA[score(DATA) > 0].head(3)])
    return explainer.explain_many(rows, gbce.AtLeast(0), rules=["Nearest"], seed=0, posterior=False, progress=False)


def test_the_same_model_tells_nobody(table):
    found = review(table, score)
    assert found.counts.to_dict() == {
        kind: {"still served": 12, "accepted, as before": 3}.get(str(kind), 0) for kind in ReviewKind
    }
    assert len(found.to_notify) == 0
    assert found.sentences[-1] == "Nobody has to be notified."
    assert "0 to be notified" in repr(found)


@pytest.mark.parametrize("shift", [-30.0, -3.0, -0.5, 3.0, 60.0])
def test_every_row_has_the_kind_that_the_model_gives_it(table, shift):
    asked = []

    def today(rows):
        asked.append(len(rows))
        return score(rows) + shift

    found = review(table, today)
    assert len(asked) == 1  # one call for all rows and answers
    known = table.require_encoded("a test")
    now, then = (score(known.space.frame(x)) + shift >= 0 for x in (known.x0, known.answers))
    before = score(known.space.frame(known.x0)) >= 0
    for kind, was, here, there in zip(found.table["kind"], before, now, then, strict=True):
        if was:
            assert kind == (ReviewKind.KEPT if here else ReviewKind.REFUSED)
        elif here:
            assert kind == ReviewKind.ACCEPTED
        else:
            assert kind == (ReviewKind.SERVED if there else ReviewKind.LOST)
    needed = ~before & ~now
    assert found.served.n == needed.sum()
    if needed.any():
        assert found.served.share == pytest.approx(then[needed].mean())
    assert found.to_notify.index.tolist() == found.table.index[found.table["notify"]].tolist()


def test_groups_and_json(table, tmp_path):
    groups = ["a"] * 6 + ["b"] * 9
    found = review(table, lambda rows: score(rows) - 1.0, groups=groups)
    assert found.groups["rows"].to_dict() == {"a": 6, "b": 9}
    assert found.groups["needed"].sum() == found.served.n
    written = json.loads(found.to_json(tmp_path / "review.json").read_text())
    assert sum(written["counts"].values()) == len(table) == len(written["rows"])


def test_bad_input_is_a_sentence(table):
    with pytest.raises(ValueError, match="target must be a Target"):
        review(table, score, target="good")
    with pytest.raises(ValueError, match="one entry per row"):
        review(table, score, groups=["a"])
    with pytest.raises(TypeError, match="ExplanationTable"):
        review([1, 2], score)
    with pytest.raises(ValueError, match="must be one model, today's, not 2"):
        review(table, [score, score])


def test_a_store_is_reviewed_part_by_part_and_on_the_command_line(tmp_path, capsys):
    from sklearn.linear_model import LogisticRegression
    from skops.io import dump

    from gbce.cli import main

    wanted = np.where(score(DATA) > 0, "good", "poor")
    model = LogisticRegression().fit(DATA, wanted)
    explainer = gbce.Explainer(model, DATA, space=gbce.Space.infer(DATA))
    rows = DATA[model.predict(DATA) == "poor"].head(12)
    shared = {"rules": ["Nearest"], "seed": 0, "posterior": False, "progress": False}
    table = explainer.explain_many(rows, "good", **shared)
    explainer.explain_many(rows, "good", store=tmp_path / "answers", **shared)
    today = LogisticRegression().fit(DATA, np.where(score(DATA) > 4, "good", "poor"))
    stored, held = review(tmp_path / "answers", today), review(table, today)
    pd.testing.assert_frame_equal(stored.frame(), held.frame(), check_dtype=False, check_index_type=False)
    assert 0 < stored.counts["no longer served"] <= 12
    dump(today, tmp_path / "today.skops")
    page = tmp_path / "review.html"
    assert main(["review", str(tmp_path / "answers"), str(tmp_path / "today.skops"), "-o", str(page)]) == 3
    assert page.read_text().startswith("<!doctype html>")
    assert main(["review", str(tmp_path / "answers"), str(tmp_path / "today.skops"), "--groups", "age"]) == 1
    assert "there is no column 'age'" in capsys.readouterr().err


def test_rows_that_could_not_be_explained_are_counted_and_named(tmp_path):
    """In a store of a stream, where rows that do not fit are kept as failed, their values unknown."""
    explainer = gbce.Explainer(score, DATA, space=gbce.Space.infer(DATA, bounds={"pay": (0, 200)}))
    rows = DATA[score(DATA) < 0].head(8).set_axis(list("abcdefgh"))
    rows.loc["c", "pay"] = -5.0
    options = {"rules": ["Nearest"], "seed": 0, "posterior": False, "progress": False}
    with pytest.warns(UserWarning, match="1 of 8 rows could not be explained"):
        stored = explainer.explain_many(iter([rows]), gbce.AtLeast(0), store=tmp_path / "run", **options)
    groups = dict.fromkeys("abcd", "x") | dict.fromkeys("efgh", "y")
    found = review(tmp_path / "run", score, groups=groups)
    assert found.counts["failed"] == 1
    assert found.table.loc["c", "kind"] == ReviewKind.FAILED
    assert np.isnan(found.table.loc["c", "output_row"])
    assert found.served.n == 7
    assert found.groups["rows"].to_dict() == {"x": 4, "y": 4}
    assert "1 row could not be explained then and cannot be judged now (row c)." in found.sentences
    for one in (stored, stored.read()):  # what is read from the store is what a table in memory has
        pd.testing.assert_frame_equal(review(one, score, groups=groups).frame(), found.frame(), check_dtype=False)
    # a group of its own where the value is not known
    assert gbce.policy.fairness(stored, "pay", n_permutations=100).groups.loc["missing", "failed"] == 1
    assert len(gbce.policy.actions(stored, 1, explainer=explainer, seed=0).labels) == 7


def test_an_open_tolerance_is_taken_from_the_explainers_data(table, tmp_path):
    explainer = gbce.Explainer(score, DATA)
    near = gbce.Value(0.0)
    with pytest.raises(ValueError, match="come from data: give explainer="):
        review(table, score, target=near)
    whole = np.abs(score(DATA.loc[table.answers.index])) <= 0.1 * score(DATA).std()
    found = review(table, score, target=near, explainer=explainer)
    now = found.table["kind"].isin([ReviewKind.KEPT, ReviewKind.ACCEPTED])
    np.testing.assert_array_equal(now, whole)
