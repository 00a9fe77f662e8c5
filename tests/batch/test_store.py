"""A store answers for the run that it was begun with, known by content: models and functions by what they return."""

import json
import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor

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
    return explainer.explain_many(data[:rows], target, rules=list(rules), seed=0, progress=False, store=store)


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
    one, two = (tmp_path / "s" / f"row-{i:06d}.gbce" for i in (1, 2))
    kept = two.read_bytes()
    shutil.copy(one, two)
    with pytest.raises(ValueError, match=r"row-000002.gbce holds another row, or another seed, .* Delete it"):
        run(tmp_path / "s")
    two.write_bytes(kept)
    run(tmp_path / "s")
    other = gbce.Explainer(FIT, X, sampler=QUICK).explain(X[2], TARGET, rules=[gbce.MAP()], seed=7)
    other.save(two)  # the row, but another seed
    with pytest.raises(ValueError, match="another seed"):
        run(tmp_path / "s")
    two.unlink()
    assert len(run(tmp_path / "s")) == 3


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
    before = json.loads(note.read_text())
    del before["format"]
    note.write_text(json.dumps(before))
    with pytest.raises(ValueError, match="written by another version of gbce"):
        run(tmp_path / "s")


def test_a_row_file_of_another_store_is_refused(tmp_path):
    run(tmp_path / "s")
    run(tmp_path / "other", model=LinearRegression().fit(X, -Y))  # the same rows, the same seed
    shutil.copy(tmp_path / "other" / "row-000001.gbce", tmp_path / "s")
    with pytest.raises(ValueError, match=r"row-000001.gbce belongs to another run.* Delete it"):
        run(tmp_path / "s")
    run(tmp_path / "twin")  # the same question: its files are as good
    shutil.copy(tmp_path / "twin" / "row-000001.gbce", tmp_path / "s")
    assert len(run(tmp_path / "s")) == 3


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
    assert all("holds results of a different run (models" in one for one in came if isinstance(one, str))
    alone = explainers[tables[0]].explain_many(X[:2], TARGET, rules=RULES, seed=0, progress=False)
    pd.testing.assert_frame_equal(came[tables[0]].pointwise, alone.pointwise)
    assert not list((tmp_path / "s").glob(".*part"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
def test_a_pipe_in_a_store_is_no_file(tmp_path):
    run(tmp_path / "s")
    for name, says in (("row-000001.gbce", "it is not a regular file"), ("run.json", "is damaged")):
        (tmp_path / "s" / name).unlink()
        os.mkfifo(tmp_path / "s" / name)
        with pytest.raises(ValueError, match=says):
            run(tmp_path / "s")
        (tmp_path / "s" / name).unlink()
        if name.startswith("row"):
            run(tmp_path / "s")
