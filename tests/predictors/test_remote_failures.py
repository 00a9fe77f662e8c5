"""A model behind a real local server that fails, stalls, talks nonsense and dies."""

import contextlib
import gzip
import json
import socket
import threading
import time
import tracemalloc
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

import gbce
from gbce.predictors import PredictionError
from gbce.predictors._http import pause
from support.endpoint import FAST, X, asked, reply, serving, status


@pytest.fixture
def endpoint():
    with serving() as known:
        yield known


def hang_up(handler):
    handler.close_connection = True
    handler.connection.close()


def stall(handler):
    """Say nothing until the client has gone."""
    with contextlib.suppress(OSError):
        handler.connection.settimeout(20.0)
        handler.connection.recv(1)
    hang_up(handler)


def dripped(content):
    """Send raw bytes one at a time, for as long as anybody listens; a thousand of them take twenty seconds."""

    def step(handler):
        with contextlib.suppress(OSError):
            for byte in content:
                handler.connection.sendall(bytes([byte]))
                time.sleep(0.02)
            handler.known.outlasted = True
        hang_up(handler)

    return step


drip = dripped(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + b" " * 1000)


# --- failures that pass ----------------------------------------------------------------------------------------------


FAILURES = {
    "500": status(500),
    "503": status(503),
    "429": status(429),
    "hang up": hang_up,
    "stall": stall,
    "drip": drip,
}


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
def test_failure_that_passes_is_tried_again(endpoint, failure):
    endpoint.plan = [failure, failure]
    late = failure in (stall, drip)  # waited for; what is answered at once has time on a busy machine
    remote = gbce.Remote(endpoint.url, backoff=0.001, timeout=1.0 if late else 30.0, retries=3)
    np.testing.assert_array_equal(remote(X), [sum(row) for row in X.tolist()])
    assert remote.usage.requests == 3
    assert remote.usage.retries == 2


def test_answer_that_drips_is_late_as_a_whole(endpoint):
    endpoint.plan = [drip]
    with pytest.raises(PredictionError, match=r"no answer within 0.2 s; 0 of 50 rows were answered"):
        gbce.Remote(endpoint.url, timeout=0.2, retries=0)(X)
    assert not endpoint.outlasted


def test_retry_after_is_heeded(endpoint, monkeypatch):
    pauses, here = [], threading.get_ident()

    def note(seconds):
        if threading.get_ident() == here:  # a server of another test may still be pausing
            pauses.append(seconds)

    monkeypatch.setattr("gbce.predictors._remote.time.sleep", note)
    endpoint.plan = [status(429, Retry_After="0.3"), status(503, Retry_After="Wed, 21 Oct 2015 07:28:00 GMT")]
    remote = gbce.Remote(endpoint.url, backoff=0.001)
    remote(X)
    assert 0.3 <= pauses[0] <= 0.301
    assert pauses[1] <= 0.001  # a date that has passed
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


# --- failures that do not --------------------------------------------------------------------------------------------


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
        (json.dumps([1.0] * 49 + [float("nan")]), "prediction 49 is float nan, not a finite number"),
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


# --- one deadline, one size ------------------------------------------------------------------------------------------


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
    remote = gbce.Remote(endpoint.url, timeout=1.0, retries=0)
    with pytest.raises(PredictionError, match=r"no answer within 1 s; 0 of 50 rows were answered"):
        remote(X)
    assert not endpoint.outlasted
    np.testing.assert_array_equal(remote(X), [sum(row) for row in X.tolist()])  # and the next request is a fresh one


def test_nobody_goes_on_listening_after_the_deadline(endpoint):
    endpoint.plan = [DRIPS["header"]]
    with pytest.raises(PredictionError, match="no answer within"):
        gbce.Remote(endpoint.url, timeout=0.2, retries=0)(X)
    assert nobody_listens()  # the next byte ended it
    assert not endpoint.outlasted


def nobody_listens():
    """Wait for the threads of exchanges, which end when their connection is closed."""
    for thread in threading.enumerate():
        if thread.name == "gbce-exchange":
            thread.join(timeout=15.0)
    return not any(thread.name == "gbce-exchange" for thread in threading.enumerate())


def test_a_name_that_takes_long_to_look_up_is_late_and_nothing_is_sent_afterwards(endpoint, monkeypatch):
    look_up = socket.getaddrinfo
    may_end = threading.Event()

    def slowly(*arguments, **options):
        may_end.wait(20)
        return look_up(*arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", slowly)
    with pytest.raises(PredictionError, match="no answer within"):
        gbce.Remote(endpoint.url, timeout=0.2, retries=0)(X)
    (listening,) = [thread for thread in threading.enumerate() if thread.name == "gbce-exchange"]
    may_end.set()
    listening.join(timeout=15.0)
    assert not listening.is_alive()
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
        ("[" * 100_000, "JSON response is nested too deeply"),
        ('{"a":' * 100_000, "JSON response is nested too deeply"),
        (json.dumps([0.5] * 49 + [True]), "prediction 49 is bool True, not a finite number"),
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
    [({"Content_Encoding": "br"}, "encoding 'br'"), ({"Content_Encoding": "gzip"}, "gzip response is corrupt")],
)
def test_encodings_that_cannot_be_read_are_named(endpoint, headers, words):
    endpoint.plan = [status(200, json.dumps([1.0] * 50), **headers)]
    with pytest.raises(PredictionError, match=words):
        gbce.Remote(endpoint.url, retries=0, **FAST)(X)
