"""A model behind a real local server: its answers, no row paid for twice, a cap, and secrets kept."""

import copy
import json
import logging
import pickle
import threading
from dataclasses import replace

import httpx
import numpy as np
import pandas as pd
import pytest

import gbce
from gbce.predictors import PredictionError, as_predictor
from support.endpoint import FAST, X, asked, reply, serving, status
from support.tables import mixed_frame

SECRET = "s3cret-t0ken"


@pytest.fixture
def endpoint():
    with serving() as known:
        yield known


# --- answers ---------------------------------------------------------------------------------------------------------


def test_rows_go_in_batches_and_come_back_in_order(endpoint):
    remote = gbce.Remote(endpoint.url, batch_rows=20, **FAST)
    np.testing.assert_array_equal(asked(remote).values, [sum(row) for row in X.tolist()])
    assert [len(body["rows"]) for body in endpoint.bodies] == [20, 20, 10]
    assert endpoint.bodies[0]["columns"] == ["x1", "x2"]
    assert endpoint.headers[0]["Content-Type"] == "application/json"
    assert remote.usage == gbce.predictors.Usage(requests=3, retries=0, rows_sent=50, rows_saved=0)


def test_bare_list_probabilities_and_classes(endpoint):
    endpoint.model = lambda body: [[0.2, 0.3, 0.5] for _ in body["rows"]]
    said = asked(gbce.Remote(endpoint.url, classes=["a", "b", "c"], **FAST))
    assert said.classes == ("a", "b", "c")
    assert said.values.shape == (50, 3)
    assert (said.decided == 2).all()
    endpoint.model = lambda body: [0.9 for _ in body["rows"]]
    said = asked(gbce.Remote(endpoint.url, classes=["no", "yes"], **FAST))
    np.testing.assert_allclose(said.values, np.tile([0.1, 0.9], (50, 1)))
    endpoint.model = lambda body: [3.0 for _ in body["rows"]]
    with pytest.raises(PredictionError, match="is not a probability"):
        asked(gbce.Remote(endpoint.url, classes=["no", "yes"], **FAST))
    said = asked(gbce.classifier(gbce.Remote(endpoint.url, **FAST), ["no", "yes"], logits=True))
    np.testing.assert_allclose(said.values[:, 1], 1 / (1 + np.exp(-3.0)))


def test_values_are_safe_for_json(endpoint):
    endpoint.model = lambda body: [0.0 for _ in body["rows"]]
    frame = pd.DataFrame(
        {
            "real": [1.5, np.nan],
            "whole": np.array([1, 2], dtype="int8"),
            "maybe": pd.array([3, None], dtype="Int64"),
            "word": ["a", None],
            "group": pd.Categorical(["u", None]),
            "flag": [True, False],
            "day": pd.to_datetime(["2026-01-02", None]),
            "narrow": np.array([0.5, 0.25], dtype="float32"),
        }
    )
    gbce.Remote(endpoint.url, **FAST)(frame)
    assert endpoint.bodies[0] == {
        "columns": list(frame.columns),
        "rows": [
            [1.5, 1, 3, "a", "u", True, "2026-01-02T00:00:00", 0.5],
            [None, 2, None, None, None, False, None, 0.25],
        ],
    }
    for value, error in ((np.inf, ValueError), (1j, TypeError)):
        with pytest.raises(error, match="not representable in JSON"):
            gbce.Remote(endpoint.url, **FAST)(pd.DataFrame({"a": [value]}))


def test_frame_with_words_goes_out_as_it_is(endpoint):
    endpoint.model = lambda body: [row[0] for row in body["rows"]]
    frame = mixed_frame(30)
    space = gbce.Space.infer(frame)
    said = as_predictor(gbce.Remote(endpoint.url, **FAST), space)(space.encode(frame))
    np.testing.assert_array_equal(said.values, frame["age"])
    assert endpoint.bodies[0]["columns"] == ["age", "visits", "region", "debt"]
    assert endpoint.bodies[0]["rows"][0][1:3] == [int(frame["visits"][0]), frame["region"][0]]


def test_encode_and_decode_speak_another_format(endpoint):
    endpoint.model = lambda body: {"result": {"scores": [{"value": one["x1"]} for one in body["instances"]]}}
    remote = gbce.Remote(
        endpoint.url,
        encode=lambda columns, rows: {"instances": [dict(zip(columns, row, strict=True)) for row in rows]},
        decode=lambda answer: [one["value"] for one in answer["result"]["scores"]],
        **FAST,
    )
    np.testing.assert_array_equal(asked(remote).values, X[:, 0])
    endpoint.model = lambda body: {"error": "busy"}
    with pytest.raises(PredictionError, match=r"decode raised KeyError.*'busy'"):
        remote(X + 1)
    text = gbce.Remote(endpoint.url, encode=lambda columns, rows: json.dumps({"rows": rows}), **FAST)
    endpoint.model = lambda body: [1.0 for _ in body["rows"]]
    assert (text(X) == 1).all()


# --- no row is paid for twice ----------------------------------------------------------------------------------------


def test_known_rows_and_twins_are_not_sent(endpoint):
    remote = gbce.Remote(endpoint.url, **FAST)
    twice = np.vstack([X[:10], X[:10]])
    np.testing.assert_array_equal(remote(twice), twice.sum(axis=1))
    np.testing.assert_array_equal(remote(X), [sum(row) for row in X.tolist()])
    assert sorted(endpoint.rows) == sorted(map(tuple, X.tolist()))
    assert remote.usage.rows_sent == 50
    assert remote.usage.rows_saved == 20
    remote(pd.DataFrame(X, columns=["b", "a"]))  # the same numbers in other columns are other rows
    assert remote.usage.rows_sent == 100


def test_cache_is_bounded_and_drops_the_least_recently_used(endpoint):
    remote = gbce.Remote(endpoint.url, cache_rows=10, **FAST)
    np.testing.assert_array_equal(remote(X), [sum(row) for row in X.tolist()])
    assert remote(X[40:]).shape == (10,)
    assert remote.usage.rows_sent == 50
    remote(X[:1])
    remote(X[41:])
    assert remote.usage.rows_sent == 51
    remote(X[40:41])
    assert remote.usage.rows_sent == 52


def test_threads_share_what_is_known(endpoint):
    remote = gbce.Remote(endpoint.url, batch_rows=7, **FAST)
    results = [None] * 8

    def work(i):
        results[i] = remote(np.roll(X, i, axis=0))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i, result in enumerate(results):
        np.testing.assert_allclose(result, np.roll(X, i, axis=0).sum(axis=1))
    assert remote.usage.rows_sent == len(endpoint.rows) == 50
    assert remote.usage.rows_saved == 350


def test_copies_are_refused(endpoint):
    remote = gbce.Remote(endpoint.url)
    for make in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="n_jobs=1"):
            make(remote)


def test_explanation_of_a_remote_model_sends_each_row_once(endpoint):
    remote = gbce.Remote(endpoint.url, batch_rows=1_000, **FAST)
    explainer = gbce.Explainer(remote, X, sampler=gbce.Importance(n_candidates=500, n_draws=200))
    first = explainer.explain(X[0], gbce.AtLeast(2.0), rules=[gbce.MAP()], seed=0)
    assert first.status == "attainable"
    sent = remote.usage.rows_sent
    assert len(set(endpoint.rows)) == len(endpoint.rows) == sent
    again = explainer.explain(X[0], gbce.AtLeast(2.0), rules=[gbce.MAP()], seed=0)
    assert remote.usage.rows_sent == sent
    pd.testing.assert_frame_equal(again.counterfactuals, first.counterfactuals)
    table = explainer.explain_many(X[:3], gbce.AtLeast(2.0), rules=[], seed=0, progress=False)
    assert len(table.diagnostics) == 3


def test_remote_model_is_known_by_address_and_version_and_not_asked(endpoint, tmp_path):
    def explainer(url=endpoint.url, **options):
        remote = gbce.Remote(url, batch_rows=1_000, **FAST, **options)
        return remote, gbce.Explainer(remote, X, sampler=gbce.Importance(n_candidates=300, n_draws=100))

    def many(one):
        return one.explain_many(
            X[:2], gbce.AtLeast(2.0, scale=1, tolerance=0), rules=[], seed=0, progress=False, store=tmp_path / "s",
            keep="draws",
        )  # fmt: skip

    _, first = explainer(version="1")
    many(first)
    one = gbce.load(tmp_path / "s" / "draws" / "row-000000.gbce")
    remote, again = explainer(version="1")
    assert many(again).n_model_rows == 0
    again.decide(one, gbce.Mean())
    assert remote.usage.requests == 0  # nothing is paid for
    same = explainer(endpoint.url.replace("http://", "http://me:pass@"), version="1")[1]
    assert many(same).n_model_rows == 0
    for url, version in (
        (endpoint.url, "2"),
        (endpoint.url, None),
        (f"{endpoint.url}/new", "1"),
        (f"{endpoint.url}?m=2", "1"),
    ):
        remote, other = explainer(url, version=version)
        with pytest.raises(ValueError, match=r"holds results of a different run \(models"):
            many(other)
        with pytest.raises(
            ValueError, match=r"made with another model: http\S+ version 1, where this explainer has http"
        ):
            other.decide(one, gbce.Mean())
        assert remote.usage.requests == 0
    with pytest.raises(ValueError, match="made with another model"):
        gbce.Explainer(lambda rows: rows.sum(axis=1), X).decide(one, gbce.Mean())
    old = replace(one, query=replace(one.query, identities=()))  # as a file of an earlier version has it
    other.decide(old, gbce.Mean())
    with pytest.raises(TypeError, match="version must be a string"):
        gbce.Remote(endpoint.url, version=2)
    assert "version='2'" in repr(gbce.Remote(endpoint.url, version="2"))


# --- the cap ---------------------------------------------------------------------------------------------------------


def test_cap_is_checked_before_anything_is_sent(endpoint):
    remote = gbce.Remote(endpoint.url, batch_rows=10, max_rows=60, **FAST)
    remote(X)
    requests = remote.usage.requests
    with pytest.raises(gbce.BudgetSpentError, match=r"50 more rows .* would exceed max_rows = 60; 50 were sent"):
        asked(remote, X + 1)
    assert remote.usage.requests == len(endpoint.bodies) == requests
    asked(remote, np.vstack([X, X[:10] + 1]))  # known rows are free
    assert remote.usage.rows_sent == len(endpoint.rows) == 60


def test_repeated_rows_count_towards_the_cap_unless_refused_unread(endpoint):
    endpoint.plan = [status(429), status(500)]
    remote = gbce.Remote(endpoint.url, max_rows=100, **FAST)
    remote(X)
    assert remote.usage.rows_sent == 100
    endpoint.plan = [status(500)] * 5
    remote = gbce.Remote(endpoint.url, max_rows=120, **FAST)
    with pytest.raises(gbce.BudgetSpentError, match=r"100 were sent before; 0 of 50 rows were answered"):
        remote(X)
    assert remote.usage.rows_sent == 100


# --- secrets and bad options -----------------------------------------------------------------------------------------


def test_secrets_are_sent_but_never_shown(endpoint):
    url = endpoint.url.replace("http://", "http://user:passw0rd@") + "?key=querykey"
    remote = gbce.Remote(url, headers={"X-Token": f"Bearer {SECRET}"}, retries=0, **FAST)

    def echo(handler):
        mine, basic = handler.headers["X-Token"], handler.headers["Authorization"].split()[1]
        text = f"token {SECRET} is not {mine}, {basic} nor {handler.path} passw0rd"
        reply(handler, 403, text)

    endpoint.plan = [echo, lambda handler: reply(handler, 500, SECRET), lambda handler: reply(handler, 200, SECRET)]
    shown = [repr(remote), str(remote)]
    for _ in range(3):
        with pytest.raises(PredictionError) as caught:
            asked(remote)
        error = caught.value
        while error is not None:
            shown.append(str(error))
            error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    assert endpoint.headers[0]["X-Token"] == f"Bearer {SECRET}"
    assert len(shown) >= 8
    assert not any(word in text for text in shown for word in (SECRET, "passw0rd", "querykey", "dXNlc"))
    assert any("token *** is not ***, *** nor" in text for text in shown)


def test_a_header_of_the_user_replaces_that_of_the_library(endpoint):
    asked(gbce.Remote(endpoint.url, headers={"content-type": "text/plain"}, **FAST))
    sent = [value for name, value in endpoint.headers[0].items() if name.lower() == "content-type"]
    assert sent == ["text/plain"]


def test_secrets_are_not_logged(endpoint, caplog):
    url = endpoint.url.replace("http://", "http://user:passw0rd@") + "?key=querykey"
    with caplog.at_level(logging.DEBUG):
        asked(gbce.Remote(url, headers={"X-Token": SECRET}, **FAST))
        httpx.post(f"{endpoint.url}?page=7", json={"rows": []})  # somebody else's request is logged as it was
    shown = [record.getMessage() for record in caplog.records]
    assert endpoint.headers[0]["Authorization"].startswith("Basic ")
    assert any(text.startswith(f"HTTP Request: POST {endpoint.url} ") for text in shown)
    assert not any(word in text for text in shown for word in (SECRET, "passw0rd", "querykey", "dXNlc"))
    assert any("?page=7" in text for text in shown)
    assert not logging.getLogger("httpx").filters


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"url": "ftp://example.org"}, ValueError, "begins with http"),
        ({"classes": ["a"]}, ValueError, "two or more different labels"),
        ({"headers": {"X-Größe": "1"}}, ValueError, "'X-Größe' cannot be the name of a header"),
        ({"batch_rows": 0}, ValueError, "batch_rows must be an integer"),
        ({"max_rows": -1}, ValueError, "max_rows must be an integer"),
        ({"timeout": 0}, ValueError, "timeout must be positive"),
        ({"max_bytes": 0}, ValueError, "max_bytes must be an integer"),
        ({"retries": 1.5}, ValueError, "retries must be a non-negative integer"),
        ({"backoff": float("nan")}, ValueError, "backoff must be a finite number"),
        ({"headers": {"Token": f"{SECRET}\n"}}, ValueError, "'Token' must be a string of printable"),
        ({"decode": 3}, TypeError, "decode must be a function"),
    ],
)
def test_bad_options_are_refused_without_showing_secrets(options, error, words):
    with pytest.raises(error, match=words) as caught:
        gbce.Remote(**{"url": "http://example.org", **options})
    assert SECRET not in str(caught.value)


def test_missing_httpx_names_the_extra(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(ImportError, match=r"pip install 'gbce\[http\]'"):
        gbce.Remote("http://example.org")
