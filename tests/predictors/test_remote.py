"""A model behind a real local server that fails, stalls, talks nonsense and dies: rows are never paid for twice."""

import contextlib
import copy
import gzip
import json
import pickle
import socket
import threading
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pandas as pd
import pytest

import gbce
from gbce.predictors import PredictionError, as_predictor
from gbce.predictors._http import pause
from support.tables import mixed_frame

X = np.random.default_rng(0).normal(size=(50, 2))
SECRET = "s3cret-t0ken"
FAST = {"backoff": 0.001, "timeout": 5.0}


@dataclass
class Endpoint:
    """What the server does: ``plan`` has replies for its first requests, then it answers with ``model``."""

    url: str = ""
    model: Callable[[dict], object] = lambda body: {"predictions": [sum(row) for row in body["rows"]]}
    plan: list = field(default_factory=list)
    bodies: list = field(default_factory=list)
    headers: list = field(default_factory=list)
    times: list = field(default_factory=list)

    @property
    def rows(self):
        return [tuple(row) for body in self.bodies for row in body["rows"]]


def reply(handler, status, content, **headers):
    content = content if isinstance(content, bytes) else content.encode()
    handler.send_response(status)
    for name, value in {"Content-Length": str(len(content)), **headers}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(content)


def handler_of(endpoint):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            content = self.rfile.read(int(self.headers["Content-Length"]))
            endpoint.times.append(time.monotonic())
            endpoint.headers.append(dict(self.headers))
            endpoint.bodies.append(json.loads(content))
            step = endpoint.plan.pop(0) if endpoint.plan else None
            if step is not None:
                step(self)
            else:
                reply(self, 200, json.dumps(endpoint.model(endpoint.bodies[-1])))

        def log_message(self, *arguments):
            pass

    return Handler


@pytest.fixture
def endpoint():
    known = Endpoint()
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler_of(known))
    server.handle_error = lambda *arguments: None  # clients that went away
    known.url = f"http://127.0.0.1:{server.server_address[1]}/score"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield known
    server.shutdown()
    server.server_close()
    thread.join()


def status(code, text="out of order", **headers):
    return lambda handler: reply(handler, code, text, **headers)


def hang_up(handler):
    handler.close_connection = True
    handler.connection.close()


def stall(seconds):
    def step(handler):
        time.sleep(seconds)
        hang_up(handler)

    return step


def drip(handler):
    handler.send_response(200)
    handler.send_header("Content-Length", "100000")
    handler.end_headers()
    try:
        for _ in range(100):
            handler.wfile.write(b" ")
            time.sleep(0.02)
    except OSError:
        pass
    handler.close_connection = True


def asked(remote, x=X):
    return as_predictor(remote, gbce.Space.real(2))(x)


# --- answers ------------------------------------------------------------------------------------------------


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


# --- no row is paid for twice -------------------------------------------------------------------------------


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
            X[:2], gbce.AtLeast(2.0, scale=1, tolerance=0), rules=[], seed=0, progress=False, store=tmp_path / "s"
        )

    _, first = explainer(version="1")
    many(first)
    one = gbce.load(tmp_path / "s" / "row-000000.gbce")
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
        with pytest.raises(ValueError, match="holds another run: models differ"):
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
    with pytest.raises(TypeError, match="version must be a text"):
        gbce.Remote(endpoint.url, version=2)
    assert "version='2'" in repr(gbce.Remote(endpoint.url, version="2"))


# --- failures that pass -------------------------------------------------------------------------------------


FAILURES = {
    "500": status(500),
    "503": status(503),
    "429": status(429),
    "hang up": hang_up,
    "stall": stall(0.4),
    "drip": drip,
}


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
def test_failure_that_passes_is_tried_again(endpoint, failure):
    endpoint.plan = [failure, failure]
    remote = gbce.Remote(endpoint.url, backoff=0.001, timeout=0.2, retries=3)
    np.testing.assert_array_equal(remote(X), [sum(row) for row in X.tolist()])
    assert remote.usage.requests == 3
    assert remote.usage.retries == 2


def test_answer_that_drips_is_late_as_a_whole(endpoint):
    endpoint.plan = [drip]
    start = time.monotonic()
    with pytest.raises(PredictionError, match=r"no answer within 0.2 s; 0 of 50 rows were answered"):
        gbce.Remote(endpoint.url, timeout=0.2, retries=0)(X)
    assert time.monotonic() - start < 1.5  # it would drip for two seconds


def test_retry_after_is_heeded(endpoint):
    endpoint.plan = [status(429, Retry_After="0.3"), status(503, Retry_After="Wed, 21 Oct 2015 07:28:00 GMT")]
    remote = gbce.Remote(endpoint.url, backoff=0.001)
    remote(X)
    assert endpoint.times[1] - endpoint.times[0] >= 0.3
    assert endpoint.times[2] - endpoint.times[1] < 0.25
    endpoint.plan = [status(429, Retry_After="3600")]
    with pytest.raises(PredictionError, match=r"asks to wait 3600 s, longer than max_wait = 60 s"):
        remote(X + 1)


def test_pauses_double_with_jitter_up_to_the_longest():
    import random

    rng = random.Random(0)
    for attempt, longest in enumerate([1.0, 2.0, 4.0, 8.0, 10.0, 10.0]):
        waits = [pause(attempt, None, 1.0, 10.0, rng) for _ in range(200)]
        assert longest / 2 <= min(waits) < 0.6 * longest
        assert 0.9 * longest < max(waits) <= longest


# --- failures that do not -----------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [302, 400, 401, 404, 422])
def test_refusal_is_not_tried_again(endpoint, code):
    endpoint.plan = [status(code, "no such model")]
    remote = gbce.Remote(endpoint.url, **FAST)
    with pytest.raises(PredictionError, match=rf"it answered {code}: no such model"):
        asked(remote)
    assert remote.usage.requests == 1


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("<html><body>Welcome</body></html>", r"not JSON: '<html>"),
        ("[1.0, 2.0]", "2 predictions for 50 rows"),
        (json.dumps([1.0] * 49 + [float("nan")]), "prediction 49 is float nan, where a finite number belongs"),
        (json.dumps([1.0] * 49 + [None]), "prediction 49 is null"),
        (json.dumps(["0.5"] * 50), "prediction 0 is str '0.5'"),
        (json.dumps([[0.5, "a"]] * 50), "prediction 0 is str 'a'"),
        (json.dumps([[0.5, 0.5]] * 49 + [1.0]), "all be numbers or all be lists of one length"),
        (json.dumps({"error": "quota"}), r'"predictions": \[...\].*quota'),
        ("0.5", "a list or"),
        ("", "not JSON"),
        (b"\xff\xfe", "not JSON"),
    ],
)
def test_rubbish_is_named_and_not_kept(endpoint, answer, words):
    endpoint.plan = [status(200, answer)]
    remote = gbce.Remote(endpoint.url, **FAST)
    with pytest.raises(PredictionError, match=words):
        asked(remote)
    assert remote.usage.requests == 1
    np.testing.assert_array_equal(asked(remote).values, [sum(row) for row in X.tolist()])
    assert remote.usage.requests == 2


def test_endpoint_that_dies_midway_is_gone_on_with(endpoint):
    fine = lambda handler: reply(handler, 200, json.dumps([sum(row) for row in endpoint.bodies[-1]["rows"]]))  # noqa: E731
    endpoint.plan = [fine, fine, *[status(500)] * 3]
    remote = gbce.Remote(endpoint.url, batch_rows=20, retries=2, **FAST)
    with pytest.raises(PredictionError, match=r"3 attempts failed.*500: out of order; 40 of 50 rows were answered and"):
        asked(remote)
    np.testing.assert_array_equal(asked(remote).values, [sum(row) for row in X.tolist()])
    assert len(endpoint.bodies[-1]["rows"]) == 10
    assert remote.usage.rows_sent == 40 + 3 * 10 + 10


def test_no_server_at_all():
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        port = server.server_address[1]
    remote = gbce.Remote(f"http://127.0.0.1:{port}/", retries=1, **FAST)
    with pytest.raises(PredictionError, match=r"2 attempts failed.*no connection could be made"):
        remote(X)
    assert remote.usage.rows_sent == 0


# --- one deadline, one size ---------------------------------------------------------------------------------


def dripped(content, pause=0.02, most=4.0):
    """Send raw bytes one at a time, for as long as anybody listens but never longer than ``most`` seconds."""

    def step(handler):
        end = time.monotonic() + most
        with contextlib.suppress(OSError):
            for byte in content:
                handler.connection.sendall(bytes([byte]))
                time.sleep(pause)
                if time.monotonic() > end:
                    break
        hang_up(handler)

    return step


DRIPS = {
    "status line": dripped(b"HTTP/1.1 200 " + b"O" * 1000),
    "header": dripped(b"HTTP/1.1 200 OK\r\nX-Padding: " + b"a" * 1000),
    "many headers": dripped(b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 200),
    "be patient": dripped(b"HTTP/1.1 102 Processing\r\n\r\n" * 50),
    "chunk size": dripped(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"0" * 1000),
}


@pytest.mark.parametrize("slowly", DRIPS.values(), ids=DRIPS)
def test_bytes_dripped_anywhere_do_not_defeat_the_deadline(endpoint, slowly):
    endpoint.plan = [slowly]
    remote = gbce.Remote(endpoint.url, timeout=0.3, retries=0)
    start = time.monotonic()
    with pytest.raises(PredictionError, match=r"no answer within 0.3 s; 0 of 50 rows were answered"):
        remote(X)
    assert time.monotonic() - start < 2.0  # it would drip for four seconds
    np.testing.assert_array_equal(remote(X), [sum(row) for row in X.tolist()])  # and the next request is a fresh one


def test_nobody_goes_on_listening_after_the_deadline(endpoint):
    endpoint.plan = [DRIPS["header"]]
    with pytest.raises(PredictionError, match="no answer within"):
        gbce.Remote(endpoint.url, timeout=0.2, retries=0)(X)
    for _ in range(100):  # the next byte ends it
        if not [thread for thread in threading.enumerate() if thread.name == "gbce-exchange"]:
            break
        time.sleep(0.02)
    else:
        pytest.fail("a thread still listens")


def test_a_name_that_takes_long_to_look_up_is_late_and_nothing_is_sent_afterwards(endpoint, monkeypatch):
    look_up = socket.getaddrinfo
    looked_up = threading.Event()

    def slowly(*arguments, **options):
        time.sleep(2.0)
        looked_up.set()
        return look_up(*arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", slowly)
    start = time.monotonic()
    with pytest.raises(PredictionError, match="no answer within"):
        gbce.Remote(endpoint.url, timeout=0.2, retries=0)(X)
    assert time.monotonic() - start < 1.8
    assert looked_up.wait(10)
    time.sleep(0.3)
    assert endpoint.bodies == []


def gzipped(content):
    return lambda handler: reply(handler, 200, gzip.compress(content), Content_Encoding="gzip")


def test_answer_in_gzip_is_read(endpoint):
    endpoint.plan = [gzipped(json.dumps([1.0] * 50).encode())]
    assert (gbce.Remote(endpoint.url, **FAST)(X) == 1).all()
    assert endpoint.headers[0]["Accept-Encoding"] == "gzip"


def endless(handler):
    handler.connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n[")
    with contextlib.suppress(OSError):
        for _ in range(200):
            handler.connection.sendall(b"1.0, " * 20_000)  # 20 MB in all
    hang_up(handler)


TOO_LARGE = {
    "endless": endless,
    "a bomb": gzipped(b" " * 30_000_000),
    "a long list": status(200, json.dumps([1.0] * 300_000)),
}


@pytest.mark.parametrize("large", TOO_LARGE.values(), ids=TOO_LARGE)
def test_answer_beyond_the_cap_is_refused_before_it_is_unpacked(endpoint, large):
    endpoint.plan = [large]
    remote = gbce.Remote(endpoint.url, max_bytes=1_000_000, timeout=20.0, retries=0)
    tracemalloc.start()
    try:
        with pytest.raises(PredictionError, match=r"longer than max_bytes = 1,000,000.*smaller batch_rows"):
            remote(X)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()
    assert remote.usage.requests == 1
    np.testing.assert_array_equal(remote(X), [sum(row) for row in X.tolist()])


def test_an_error_is_shown_by_its_beginning_however_long_it_is(endpoint):
    endpoint.plan = [status(404, "no such model " + "x" * 3_000_000)]
    with pytest.raises(PredictionError, match=r"it answered 404: no such model x") as caught:
        gbce.Remote(endpoint.url, max_bytes=1_000_000, **FAST)(X)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("[" * 100_000, "JSON that is nested too deep"),
        ('{"a":' * 100_000, "JSON that is nested too deep"),
        (json.dumps([0.5] * 49 + [True]), "prediction 49 is bool True, where a finite number belongs"),
        (json.dumps([[0.5, False]] * 50), "prediction 0 is bool False"),
        (json.dumps([0.5] * 49 + [10**400]), "prediction 49 is int 1000"),
        ("[" + "[" * 400 + "]" * 400 + ", 1.0]", "2 predictions for 50 rows"),
        (json.dumps([0.5] * 49) [:-1] + ", " + "[" * 400 + "]" * 400 + "]", r"prediction 49 is list \[\["),
    ],
    ids=["lists", "mappings", "true", "false in a list", "a huge whole number", "two deep ones", "a deep one"],
)  # fmt: skip
def test_odd_json_is_named(endpoint, answer, words):
    endpoint.plan = [status(200, answer)]
    with pytest.raises(PredictionError, match=words):
        gbce.Remote(endpoint.url, retries=0, **FAST)(X)


@pytest.mark.parametrize(
    ("headers", "words"),
    [({"Content_Encoding": "br"}, "encoding 'br'"), ({"Content_Encoding": "gzip"}, "gzip .* is broken")],
)
def test_encodings_that_cannot_be_read_are_named(endpoint, headers, words):
    endpoint.plan = [status(200, json.dumps([1.0] * 50), **headers)]
    with pytest.raises(PredictionError, match=words):
        gbce.Remote(endpoint.url, retries=0, **FAST)(X)


# --- the cap ------------------------------------------------------------------------------------------------


def test_cap_is_checked_before_anything_is_sent(endpoint):
    remote = gbce.Remote(endpoint.url, batch_rows=10, max_rows=60, **FAST)
    remote(X)
    requests = remote.usage.requests
    with pytest.raises(gbce.BudgetSpentError, match=r"50 more rows .* not within max_rows = 60, of which 50 were sent"):
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


# --- secrets and bad options --------------------------------------------------------------------------------


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


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"url": "ftp://example.org"}, ValueError, "begins with http"),
        ({"classes": ["a"]}, ValueError, "two or more different labels"),
        ({"batch_rows": 0}, ValueError, "batch_rows must be a whole number"),
        ({"max_rows": -1}, ValueError, "max_rows must be a whole number"),
        ({"timeout": 0}, ValueError, "timeout must be positive"),
        ({"max_bytes": 0}, ValueError, "max_bytes must be a whole number"),
        ({"retries": 1.5}, ValueError, "retries must be a whole number"),
        ({"backoff": float("nan")}, ValueError, "backoff must be a finite number"),
        ({"headers": {"Token": f"{SECRET}\n"}}, ValueError, "'Token' must be plain printable text"),
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
