"""A store answers for the run that it was begun with, known by content: models and functions by what they return."""

import json
import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier

import gbce

X = np.random.default_rng(0).normal(size=(100, 2))
Y = X @ [1.0, 2.0]
FIT = LinearRegression().fit(X, Y)
QUICK = gbce.Importance(n_candidates=400, n_draws=100)
TARGET = gbce.AtLeast(2.0)
RULES = (gbce.MAP(),)


def run(store, model=FIT, target=TARGET, data=X, rules=RULES, rows=3, **options):
    explainer = gbce.Explainer(model, data, sampler=QUICK, **options)
    given = {"seed": 0, "progress": False, "store": store, "keep": "draws"}
    return explainer.explain_many(data[:rows], target, rules=list(rules), **given)


def refused(what, store, **options):
    with pytest.raises(ValueError, match=f"holds results of a different run .{what}"):
        run(store, **options)


def test_the_same_class_fitted_to_something_else_is_another_model(tmp_path):
    first = run(tmp_path / "s")
    again = run(tmp_path / "s", model=LinearRegression().fit(X, Y))
    pd.testing.assert_frame_equal(first.pointwise, again.pointwise)
    refused("models", tmp_path / "s", model=LinearRegression().fit(X, -Y))
    refused("models, mixture", tmp_path / "s", model=[FIT, FIT])


def test_one_of_several_models_counts(tmp_path):
    run(tmp_path / "s", model=[FIT, LinearRegression().fit(X, -Y)])
    refused("models", tmp_path / "s", model=[FIT, LinearRegression().fit(X, 0.9 * Y)])


def test_a_classifier_is_known_by_its_threshold_as_well(tmp_path):
    fit = LogisticRegression(C=0.1).fit(X, Y > 0)

    def at(threshold):
        return FixedThresholdClassifier(fit, threshold=threshold, response_method="predict_proba").fit(X, Y > 0)

    run(tmp_path / "s", model=at(0.5), target=gbce.Class(True))
    run(tmp_path / "s", model=at(0.5), target=gbce.Class(True))
    refused("models", tmp_path / "s", model=at(0.8), target=gbce.Class(True))


def test_a_model_with_other_last_bits_is_the_same(tmp_path):
    run(tmp_path / "s", model=scored(lambda rows: FIT.predict(rows)))
    run(tmp_path / "s", model=scored(lambda rows: FIT.predict(rows).astype("float32")))


def scored(function):
    function.__name__ = "score"
    return function


def prior(weight):
    return {"prior": gbce.DistancePrior(lambda x, row: weight * np.abs(x - row).sum(axis=1))}


def noisy(sd):
    return {"rules": [gbce.CVaR(noise=lambda rng, n: sd * rng.normal(size=(n, 2)), n_perturb=4, max_candidates=10)]}


def wish(y):
    return {"target": gbce.Loss(lambda f: np.abs(f - y), threshold=0.5)}


def within(limit):
    return {"space": gbce.Space.infer(X, constraints=[lambda rows: rows.sum(axis=1) < limit])}


def summed(factor):
    data = pd.DataFrame(X, columns=["a", "b"]).assign(c=factor * X.sum(axis=1))
    space = gbce.Space.infer(data, computed={"c": lambda frame: factor * (frame["a"] + frame["b"])})
    return {"data": data, "space": space, "model": lambda frame: frame["a"] + frame["b"]}


@pytest.mark.parametrize(
    ("what", "options", "one", "other"),
    [
        ("prior", prior, 2.0, 3.0),
        ("rules", noisy, 0.1, 0.3),
        ("target", wish, 2.0, 3.0),
        ("space", within, 6.0, 5.2),
        (".*space", summed, 1.0, 2.0),
    ],
    ids=["distance", "noise", "loss", "constraint", "computed"],
)
def test_functions_are_known_by_what_they_return(what, options, one, other, tmp_path):
    first = run(tmp_path / "s", **options(one))
    again = run(tmp_path / "s", **options(one))  # the same function, made anew: its address is another
    pd.testing.assert_frame_equal(first.counterfactuals, again.counterfactuals)
    refused(what, tmp_path / "s", **options(other))


def test_options_deep_inside_count_by_their_values(tmp_path):
    wide = np.diag([1.0, 2.0])
    run(tmp_path / "s", prior=gbce.Gaussian(cov=wide))
    run(tmp_path / "s", prior=gbce.Gaussian(cov=wide.copy()))
    refused("prior", tmp_path / "s", prior=gbce.Gaussian(cov=np.diag([1.0, 2.0 + 1e-4])))
    run(tmp_path / "n", prior=gbce.NearData(gbce.Gaussian(0.5)))
    run(tmp_path / "n", prior=gbce.NearData(gbce.Gaussian(0.5)))
    refused("prior", tmp_path / "n", prior=gbce.NearData(gbce.Gaussian(0.6)))


def test_a_row_file_knows_its_row_and_its_seed(tmp_path):
    run(tmp_path / "s")
    one, two = (tmp_path / "s" / "draws" / f"row-{i:06d}.gbce" for i in (1, 2))
    kept = two.read_bytes()
    shutil.copy(one, two)
    with pytest.raises(ValueError, match=r"row-000002.gbce holds another row, or another seed, .* Delete it"):
        run(tmp_path / "s").read()
    two.write_bytes(kept)
    run(tmp_path / "s").read()
    other = gbce.Explainer(FIT, X, sampler=QUICK).explain(X[2], TARGET, rules=[gbce.MAP()], seed=7)
    other.save(two)  # the row, but another seed
    with pytest.raises(ValueError, match="another seed"):
        run(tmp_path / "s").read()
    two.unlink()
    assert len(run(tmp_path / "s").read()) == 3


def test_what_it_costs_to_tell_is_counted(tmp_path):
    asked = []

    def counted(rows):
        asked.append(len(rows))
        return FIT.predict(rows)

    table = run(tmp_path / "s", model=counted)
    assert (table.n_model_calls, table.n_model_rows) == (len(asked), sum(asked))
    asked.clear()
    table = run(tmp_path / "s", model=counted)
    assert table.n_model_calls == len(asked) == 1
    assert 24 <= table.n_model_rows == asked[0] <= 50


def test_a_store_of_an_earlier_version_says_so(tmp_path):
    run(tmp_path / "s")
    note = tmp_path / "s" / "run.json"
    note.write_text(json.dumps(json.loads(note.read_text()) | {"format": 4}))
    with pytest.raises(ValueError, match="written by another version of gbce"):
        run(tmp_path / "s")
    with pytest.raises(gbce.FileError, match="written by another version of gbce"):
        gbce.load(tmp_path / "s")


def test_a_row_file_of_another_store_is_refused(tmp_path):
    run(tmp_path / "s")
    run(tmp_path / "other", model=LinearRegression().fit(X, -Y))  # the same rows, the same seed
    shutil.copy(tmp_path / "other" / "draws" / "row-000001.gbce", tmp_path / "s" / "draws")
    with pytest.raises(ValueError, match=r"row-000001.gbce belongs to another run.* Delete it"):
        run(tmp_path / "s").read()
    run(tmp_path / "twin")  # the same question: its files are as good
    shutil.copy(tmp_path / "twin" / "draws" / "row-000001.gbce", tmp_path / "s" / "draws")
    assert len(run(tmp_path / "s").read()) == 3


def test_one_of_several_runs_that_begin_at_once_has_the_folder(tmp_path):
    explainers = [gbce.Explainer(LinearRegression().fit(X, (k + 1) * Y), X, sampler=QUICK) for k in range(6)]
    ready = threading.Barrier(len(explainers))

    def begin(explainer):
        ready.wait()
        try:
            return explainer.explain_many(X[:2], TARGET, rules=RULES, seed=0, progress=False, store=tmp_path / "s")
        except ValueError as error:
            return str(error)

    with ThreadPoolExecutor(len(explainers)) as pool:
        came = list(pool.map(begin, explainers))
    tables = [k for k, one in enumerate(came) if not isinstance(one, str)]
    assert len(tables) == 1
    in_use = (f"is in use by process {os.getpid()}", "is in use by another process")  # until it has written its number
    refusals = ("holds results of a different run (models", *in_use)
    assert all(any(why in one for why in refusals) for one in came if isinstance(one, str))
    alone = explainers[tables[0]].explain_many(X[:2], TARGET, rules=RULES, seed=0, progress=False)
    pd.testing.assert_frame_equal(came[tables[0]].answers, alone.answers)
    assert not list((tmp_path / "s").rglob(".*part"))


# --- partitions -------------------------------------------------------------------------------------------------------

PEOPLE = pd.DataFrame(X, columns=["a", "b"])


def answers_of(store, factor=1.0, rows=PEOPLE[:40], **options):
    explainer = gbce.Explainer(lambda x: factor * (x["a"] + 2 * x["b"]), PEOPLE)
    given = {"seed": 0, "progress": False, "posterior": False, "store": store, "rules": []} | options
    return explainer.explain_many(rows, TARGET, **given)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A store of forty rows in three partitions, which no test changes."""
    return answers_of(tmp_path_factory.mktemp("stores") / "s")


@pytest.fixture
def copied(stored, tmp_path):
    shutil.copytree(stored.folder, tmp_path / "s")
    return tmp_path / "s"


def test_a_store_says_what_the_table_in_memory_says(stored):
    table = answers_of(None)
    again = gbce.load(stored.folder)
    assert len(again) == len(list(again)) == 40
    assert again.complete
    for name in ("answers", "diagnostics", "errors"):
        found, expected = getattr(again, name), getattr(table, name)
        (pd.testing.assert_series_equal if name == "errors" else pd.testing.assert_frame_equal)(found, expected)
    pd.testing.assert_frame_equal(again.changes(), table.changes("answer"))
    pd.testing.assert_frame_equal(again.rows.rename_axis(None), PEOPLE[:40])
    reasons = {"a": "Too little a", "b": "Too little b"}
    pd.testing.assert_frame_equal(again.letters(reasons), table.letters(reasons))
    assert str(again[7]) == str(table[7])
    assert again.summary().splitlines()[:3] == table.summary().splitlines()[:3]
    assert again.to_html().startswith("<!doctype html>")
    pd.testing.assert_frame_equal(
        gbce.group_costs(again, PEOPLE["a"][:40] > 0), gbce.group_costs(table, PEOPLE["a"][:40] > 0)
    )
    for ask in (lambda: again.pointwise, lambda: again.changes("Nearest"), lambda: again.explanation(7)):
        with pytest.raises(ValueError, match=r"needs the draws, which this store does not keep: .*keep='draws'"):
            ask()
    with pytest.raises(KeyError, match="no row 'x' in the store"):
        again["x"]


def test_other_programs_read_the_partitions(stored):
    polars = pytest.importorskip("polars")
    whole = pd.read_parquet(stored.folder / "answers")
    assert whole["position"].tolist() == list(range(40))
    assert [*whole.columns[:2], *whole.columns[-2:]] == ["position", "label", "row_a", "row_b"]
    np.testing.assert_array_equal(whole[["row_a", "row_b"]], PEOPLE[:40])
    np.testing.assert_array_equal(whole["answer_a"] + 2 * whole["answer_b"] >= 2.0, whole["reached"])
    assert polars.read_parquet(stored.folder / "answers").to_pandas().equals(whole)


def test_a_damaged_partition_is_computed_again(stored, copied):
    rng = np.random.default_rng(0)
    for name in ("part-000000.parquet", "part-000002.parquet"):
        path = copied / "answers" / name
        whole = bytearray(path.read_bytes())
        whole[int(rng.integers(len(whole) // 2))] ^= 0xFF
        path.write_bytes(whole[: rng.integers(1, len(whole))] if name.endswith("2.parquet") else whole)
    with pytest.raises(gbce.FileError, match=r"damaged.*to recompute it"):
        gbce.load(copied).frame()
    with pytest.warns(UserWarning, match=r"part-00000\d.parquet is damaged and computed again"):
        again = answers_of(copied)
    pd.testing.assert_frame_equal(again.frame(), stored.frame())


def test_no_flipped_byte_goes_unnoticed(stored, copied):
    path, rng = copied / "answers" / "part-000001.parquet", np.random.default_rng(1)
    whole, expected, noticed = path.read_bytes(), stored.frame(), 0
    for place in rng.integers(len(whole), size=25):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        try:
            pd.testing.assert_frame_equal(gbce.load(copied).frame(), expected)
        except ValueError:
            noticed += 1
    assert noticed > 12


def test_a_partition_of_another_run_is_refused(stored, copied, tmp_path):
    other = answers_of(tmp_path / "other", factor=1.5)
    shutil.copy(other.folder / "answers" / "part-000001.parquet", copied / "answers")
    with pytest.raises(ValueError, match=r"part-000001.parquet belongs to another run.* Delete it"):
        answers_of(copied)
    (copied / "answers" / "part-000001.parquet").unlink()
    pd.testing.assert_frame_equal(answers_of(copied).frame(), stored.frame())
    (copied / "answers" / "part-000001.parquet").rename(copied / "answers" / "part-000000.parquet")
    with pytest.raises(ValueError, match="or as another partition"):
        answers_of(copied)


def test_a_folder_in_use_is_refused_before_anything_is_written(tmp_path):
    begun, end = threading.Event(), threading.Event()

    def slow(rows):
        begun.set()
        end.wait()
        return rows.sum(axis=1)

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(run, tmp_path / "s", model=slow)
        begun.wait()
        with pytest.raises(ValueError, match=f"is in use by process {os.getpid()} on .*: wait until it ends"):
            run(tmp_path / "s")
        assert [path.name for path in (tmp_path / "s").iterdir()] == [".lock"]
        end.set()
        assert len(first.result()) == 3


def test_streams_give_the_table_of_the_frame(stored, tmp_path):
    PEOPLE[:40].to_parquet(tmp_path / "rows.parquet")
    cuts = [0, 3, 21, 40]
    frames = (PEOPLE[start:stop] for start, stop in pairwise(cuts))
    for name, rows in (("path", tmp_path / "rows.parquet"), ("frames", frames)):
        table = answers_of(tmp_path / name, rows=rows)
        pd.testing.assert_frame_equal(table.frame(), stored.frame())
        assert len(table) == 40
    pd.testing.assert_frame_equal(answers_of(None, rows=tmp_path / "rows.parquet").answers, stored.answers)
    pd.testing.assert_frame_equal(answers_of(tmp_path / "path", rows=PEOPLE[:40]).frame(), stored.frame())
    with pytest.raises(ValueError, match="rows changed"):
        answers_of(tmp_path / "frames", rows=iter([PEOPLE[:10]]))
    with pytest.raises(ValueError, match="no column 'b'"):
        answers_of(tmp_path / "bad", rows=iter([PEOPLE[["a"]]]))
    with pytest.raises(ValueError, match="need the number of rows"):
        answers_of(tmp_path / "bad", rows=iter([PEOPLE]), total_model_rows=10_000)


def test_a_row_of_a_stream_that_does_not_fit_is_a_line(stored, tmp_path):
    rows = PEOPLE[:40].astype(object)
    rows.loc[17, "a"] = "many"
    with pytest.warns(UserWarning, match=r"1 of 40 rows could not be explained, first row 17: .*many"):
        table = answers_of(tmp_path / "s", rows=iter([rows]))
    assert table.errors.index.tolist() == [17]
    pd.testing.assert_frame_equal(table.answers.drop(17), stored.answers.drop(17))
    assert table.frame().loc[17, ["status", "kind"]].tolist() == ["failed", ""]
    assert table.to_html()
    with pytest.raises(ValueError, match=r"row 17: .*many"):
        answers_of(tmp_path / "t", rows=iter([rows]), on_error="raise")


def test_values_of_every_kind_come_back(tmp_path):
    rng = np.random.default_rng(2)
    kinds = pd.DataFrame({
        "real": rng.normal(size=60), "whole": rng.integers(0, 9, 60), "flag": rng.random(60) < 0.5,
        "word": rng.choice(["x", "y"], 60), "kind": pd.Categorical(rng.choice(["p", "q", "r"], 60)),
        "gap": pd.array(rng.integers(0, 5, 60), dtype="Int64"),
        "when": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, 60), unit="D"),
    })  # fmt: skip
    kinds.loc[[3, 4], "gap"] = pd.NA
    kinds.loc[5, "real"] = np.nan
    explainer = gbce.Explainer(lambda x: x["whole"] + 2.0 * x["flag"] + (x["kind"] == "p"), kinds)
    options = {"seed": 0, "posterior": False, "rules": [], "progress": False}
    rows = kinds[:8].set_axis([f"case {i}" for i in range(8)])
    stored = explainer.explain_many(rows, gbce.AtLeast(8.0), store=tmp_path / "s", **options)
    table, again = explainer.explain_many(rows, gbce.AtLeast(8.0), **options), stored.read()
    np.testing.assert_array_equal(again.encoded.x0, table.encoded.x0)
    np.testing.assert_array_equal(again.encoded.answers, table.encoded.answers)
    pd.testing.assert_frame_equal(again.changes("answer"), table.changes("answer"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
def test_a_pipe_in_a_store_is_no_file(copied, stored):
    (copied / "answers" / "part-000001.parquet").unlink()
    os.mkfifo(copied / "answers" / "part-000001.parquet")
    with pytest.warns(UserWarning, match="damaged and computed again: it is not a regular file"):
        pd.testing.assert_frame_equal(answers_of(copied).frame(), stored.frame())
    (copied / "run.json").unlink()
    os.mkfifo(copied / "run.json")
    with pytest.raises(ValueError, match="is damaged"):
        answers_of(copied)


NEAREST = {"rules": ["Nearest"], "seed": 0, "posterior": False, "progress": False}


def kept(rows, folder, data=None, **options):
    explainer = gbce.Explainer(lambda rows: rows["b"].to_numpy(float), rows if data is None else data)
    return explainer.explain_many(rows, gbce.AtLeast(1), store=folder, **NEAREST, **options)


def test_labels_of_any_size_and_step_come_back(tmp_path):
    rows = pd.DataFrame(X[:8], columns=["a", "b"])
    labels = np.arange(8, dtype="uint64") + np.uint64(2**63)
    assert list(kept(rows.set_axis(labels), tmp_path / "huge")) == list(map(str, labels))
    assert list(kept(iter([rows[::2], rows[1::2]]), tmp_path / "steps", rows)) == [0, 2, 4, 6, 1, 3, 5, 7]
    with pytest.raises(ValueError, match="are labelled by integers, but one by 'x': give all rows labels of one kind"):
        kept(iter([rows, rows[:1].set_axis(["x"])]), tmp_path / "mixed", rows)


def test_what_a_store_does_not_keep_is_refused_at_once(tmp_path):
    b = X[:, 1]
    fine = pd.date_range("2020-01-01", periods=100, unit="ns") + pd.to_timedelta(np.arange(100) % 7, unit="ns")
    with pytest.raises(ValueError, match=r"a store has no nanoseconds: round column 'a', e.g. with .dt.floor\('us'\)"):
        kept(pd.DataFrame({"a": fine, "b": b}), tmp_path / "fine")
    assert len(kept(pd.DataFrame({"a": fine.floor("us"), "b": b})[:4], tmp_path / "fine", keep="draws").read()) == 4
    with pytest.raises(ValueError, match="cannot tell two levels '1' of column 'a' apart"):
        kept(pd.DataFrame({"a": pd.Categorical([1, "1"] * 50), "b": b}), tmp_path / "levels")


def test_unfinished_draws_are_beside_the_partitions(tmp_path):
    rows, leftover = pd.DataFrame(X[:3], columns=["a", "b"]), f".row-000000.gbce.{'0' * 32}.part"
    kept(rows, tmp_path / "s", keep="draws")
    (tmp_path / "s" / leftover).write_bytes(b"")
    (tmp_path / "s" / "draws" / "row-000001.gbce").unlink()
    assert len(kept(rows, tmp_path / "s", keep="draws").read()) == 3
    assert not (tmp_path / "s" / leftover).exists()


def test_a_note_that_is_nested_too_deeply_is_damaged(copied):
    (copied / "run.json").write_text("[" * 100_000)
    with pytest.raises(gbce.FileError, match="is damaged or missing"):
        gbce.load(copied)
