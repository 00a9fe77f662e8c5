"""The server around workers: limits, queue, token, ids, lost workers and the way it stops, over real connections."""

import concurrent.futures
import json
import signal
import socket
import subprocess
import time

import pytest

from support.service import alive, children_of, obedient, running

pytest.importorskip("uvicorn")
LIMITS = {"body_bytes": 2_000, "batch_rows": 3, "waiting": 2, "seconds": 1.0, "overtime": 1.0, "body": 0.5,
          "memory": 1 << 30}  # fmt: skip


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with running(obedient(**LIMITS), tmp_path_factory.mktemp("log") / "log") as found:
        yield found


def refused(response, status, sentence):
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    found = response.json()
    assert sentence in found["error"]
    assert found["request_id"] == response.headers["x-request-id"]


def test_a_request_is_answered_with_its_id(service):
    response = service.ask(body={"row": {"a": 1}}, headers={"x-request-id": "trace-7"})
    assert response.status_code == 200
    assert response.headers["x-request-id"] == response.json()["id"] == "trace-7"
    assert response.json()["body"] == {"row": {"a": 1}}
    forged = service.ask(headers={"x-request-id": "a b"})
    assert len(forged.headers["x-request-id"]) == 32
    assert "trace-7 POST /explain 200" in service.log


@pytest.mark.parametrize(
    ("body", "status", "sentence"),
    [
        (b"{", 400, "is not JSON"),
        (b'{"row": NaN}', 400, "NaN is not JSON; a missing value is null"),
        (b'{"row": 1e999999}' + b" " * 3000, 413, "the body is larger than 2,000 bytes"),
        (b"[" * 1999, 400, "nested too deeply"),
        (b"\xff\xfe", 400, "is not JSON"),
        (b"9" * 1999, 400, "99999999999999999999 is beyond the largest float"),
        (b'{"row": {"a": 1e400}}', 400, "1e400 is beyond the largest float"),
        (b"7", 422, "the body must be a JSON object"),
        (b"[]", 422, "the body must be a JSON object"),
        (b'"x"', 422, "the body must be a JSON object"),
        (b"", 400, "is not JSON"),
    ],
)
def test_malformed_and_oversize_bodies_are_refused(service, body, status, sentence):
    kind = {"content-type": "application/json"}
    refused(service.client.post("/explain", content=body, headers=kind), status, sentence)
    assert service.ask(timeout=10).status_code == 200


def test_a_body_without_a_length_is_limited_too(service):
    parts = (b" " * 500 for _ in range(10))
    response = service.client.post("/explain", content=parts, headers={"content-type": "application/json"})
    refused(response, 413, "the body is larger than 2,000 bytes")


def test_wrong_kinds_paths_and_methods(service):
    refused(service.client.post("/explain", content=b"{}", headers={"content-type": "text/plain"}), 415, "must be appl")
    compressed = {"content-encoding": "gzip"}
    refused(service.ask(headers=compressed), 415, "the body must not be compressed")
    refused(service.client.get("/nothing"), 404, "there is nothing at /nothing")
    refused(service.client.get("/explain"), 405, "/explain does not take GET: use POST")
    refused(service.client.get("/v1/models/credit:explain"), 405, "use POST")
    refused(service.ask("/v1/models/credit"), 405, "does not take POST: use GET")
    refused(service.ask("/explain/batch", {"rows": [1] * 4}), 413, "rows has 4 rows, and a request may have 3")
    refused(service.ask("/v1/models/credit:explain", {"instances": [1] * 4}), 413, "instances has 4 rows")
    refused(
        service.ask("/v1/models/other:explain", {}), 404, "there is no model 'other' here; this service has 'credit'"
    )
    refused(service.ask("/v1/models/credit:predict", {}), 501, "it answers :explain, not :predict")


def test_states(service):
    get = service.client.get
    assert get("/").json()["status"] == "alive"
    assert get("/healthz").status_code == get("/v2/health/live").status_code == 200
    assert get("/readyz").json() == get("/v2/health/ready").json() == {"ready": True}
    assert get("/v1/models").json() == {"models": ["credit"]}
    assert get("/v1/models/credit").json() == {"name": "credit", "ready": True}
    refused(get("/v1/models/other"), 404, "there is no model 'other'")
    assert get("/openapi.json").json() == {"openapi": "3.1.0"}


def count(service, line):
    """A counter of the metrics; 0 if it is not there yet."""
    text = service.client.get("/metrics").text
    return sum(float(one.rpartition(" ")[2]) for one in text.splitlines() if one.startswith(line + " "))


def test_metrics_count_requests_and_rows(service):
    lines = ('gbce_requests_total{path="/explain",status="200"}', "gbce_rows_total", "gbce_model_rows_total")
    before = [count(service, one) for one in lines]
    service.ask()
    service.client.get("/a/path/of/nobody")
    assert [count(service, one) - two for one, two in zip(lines, before, strict=True)] == [1, 1, 7]
    assert count(service, 'gbce_requests_total{path="other",status="404"}') >= 1
    assert "nobody" not in service.client.get("/metrics").text


def test_too_many_requests_are_sent_away_and_told_when_to_come_back(service):
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: service.ask(body={"sleep": 0.4}), range(8)))
    statuses = [one.status_code for one in found]
    assert statuses.count(200) == 3  # one is worked on, two wait
    assert set(statuses) == {200, 429}
    away = next(one for one in found if one.status_code == 429)
    refused(away, 429, "2 requests are waiting already")
    assert int(away.headers["retry-after"]) >= 1


def test_a_hanging_worker_is_replaced(service):
    restarts = count(service, "gbce_worker_restarts")
    first = service.ask().json()["pid"]
    refused(service.ask(body={"sleep": 60}), 504, "there was no answer within 3 s")
    assert wait_for_answer(service)["pid"] != first
    assert count(service, "gbce_worker_restarts") == restarts + 1


def wait_for_answer(service):
    for _ in range(300):
        response = service.ask()
        if response.status_code == 200:
            return response.json()
        assert response.status_code == 503
        assert int(response.headers["retry-after"]) >= 1
        time.sleep(0.05)
    raise AssertionError(service.log)


def test_a_worker_that_dies_fails_one_request(service):
    refused(service.ask(body={"die": 1}), 503, "the process that explained this request ended")
    wait_for_answer(service)
    assert "another one is started" in service.log


def test_a_worker_that_died_between_requests_is_not_noticed(service):
    """The request that finds it gone is answered by the next worker."""
    import psutil

    psutil.Process(wait_for_answer(service)["pid"]).kill()
    response = service.ask()
    assert response.status_code in (200, 503)  # 503 if its end was noticed before
    wait_for_answer(service)


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="memory is limited where the system can")
def test_a_worker_stays_within_its_memory(service):
    wait_for_answer(service)
    response = service.ask(body={"take": 2 << 30})
    assert response.status_code == 503
    first = wait_for_answer(service)["pid"]
    service.ask(body={"keep": 900 << 20})  # within the limit, but the next request might not be
    assert wait_for_answer(service)["pid"] != first
    assert "a worker reached its memory limit" in service.log


def raw(service, data):
    """Send bytes, and return what comes back until the connection is closed."""
    host, port = service.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(data)
        found = b""
        while part := connection.recv(65536):
            found += part
            if b"\r\n\r\n" in found and b"}" in found:
                break
        return found


def test_a_slow_body_is_not_waited_for(service):
    wait_for_answer(service)
    head = b"POST /explain HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{"
    assert raw(service, head).startswith(b"HTTP/1.1 408 ")


def test_no_http_at_all(service):
    assert raw(service, b"\x16\x03\x01\x00\xa5\x01\r\n\r\n}").startswith(b"HTTP/1.1 400 ")


def test_a_client_that_goes_leaves_its_place(service):
    """Of two requests that wait, one goes: the next one finds its place and need not wait for it."""
    host, port = service.url.removeprefix("http://").split(":")
    body = json.dumps({"sleep": 0.5}).encode()
    head = b"POST /explain HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(
        body
    )
    open_ones = []
    for _ in range(3):
        connection = socket.create_connection((host, int(port)), timeout=20)
        connection.sendall(head + body)
        open_ones.append(connection)
        time.sleep(0.1)
    assert service.ask().status_code == 429
    open_ones[1].close()
    open_ones[2].close()
    time.sleep(0.1)
    assert service.ask(body={"here": 1}).json()["body"] == {"here": 1}
    assert open_ones[0].recv(100).startswith(b"HTTP/1.1 200")
    open_ones[0].close()


TOKEN = "0123456789abcdef"


def test_a_token_is_required_and_never_shown(tmp_path):
    with running(obedient(token=TOKEN, workers=2), tmp_path / "log") as service:
        for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": f"Basic {TOKEN}"}):
            refused(service.ask(headers=headers), 401, "the token is missing or wrong")
            refused(service.client.get("/openapi.json", headers=headers), 401, "the token")
            refused(service.client.get("/metrics", headers=headers), 401, "the token")
        assert service.ask().headers["www-authenticate"] == "Bearer"
        assert service.client.get("/readyz").status_code == 200
        own = {"authorization": f"Bearer {TOKEN}", "traceparent": "00-1"}
        answer = service.ask(headers=own).json()
        assert set(answer["headers"]) == {"traceparent", "x-request-id"}  # its own token is not sent on
        with concurrent.futures.ThreadPoolExecutor(2) as threads:
            one, two = threads.map(lambda _: service.ask(body={"sleep": 0.5}, headers=own).json()["pid"], range(2))
        assert one != two  # two workers, two requests at a time
        assert TOKEN not in service.log


def test_a_stop_finishes_what_runs_and_leaves_no_process(tmp_path):
    with running(obedient(seconds=5.0), tmp_path / "log") as service:
        workers = children_of(service.process)
        assert workers
        with concurrent.futures.ThreadPoolExecutor(2) as threads:
            both = [threads.submit(service.ask, "/explain", {"sleep": 0.7}) for _ in range(2)]
            time.sleep(0.3)
            code = service.stop()
            assert [one.result().status_code for one in both] == [200, 200]
        assert code == 0
        assert not alive(workers)


def test_a_killed_server_leaves_no_worker(tmp_path):
    with running(obedient(), tmp_path / "log") as service:
        workers = children_of(service.process)
        service.process.kill()
        service.process.wait()
        assert not alive(workers)


def test_a_service_that_cannot_start_says_why():
    done = subprocess.run(obedient(nothing=True), capture_output=True, text=True, timeout=60, env=environment())
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "the table lacks the column income"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        command = obedient(port=taken.getsockname()[1])
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment())
    assert done.returncode == 1
    assert "cannot be used: Address already in use" in done.stderr


def environment():
    import os

    from support.service import TESTS

    paths = [str(TESTS), *([os.environ["PYTHONPATH"]] if "PYTHONPATH" in os.environ else [])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
