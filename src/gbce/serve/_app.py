"""The HTTP side of a service: routes, limits, token, request ids, logs, counts; no numpy, no model."""

import asyncio
import hmac
import json
import logging
import math
import re
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gbce.serve._workers import PATIENCE, Limits, Pool, RequestError

if TYPE_CHECKING:
    from gbce.serve._workers import Pool

_LOG = logging.getLogger("gbce.serve")
_IDENTITY = re.compile(r"[!-~]{1,128}")  # of a request, from its client: printable, so that it cannot forge lines
# What is sent on to a predictor: its trace and its permission, as KServe's own explainers do.
_FORWARDED = ("x-request-id", "x-b3-traceid", "traceparent", "authorization")
_GONE = 499  # as nginx logs it: the client went before it was answered
_PUBLIC = ("/", "/healthz", "/readyz", "/v2/health/live", "/v2/health/ready")


class Service:
    """The handlers of one service."""

    def __init__(self, pool: Pool, limits: Limits, name: str, token: str | None) -> None:
        self.pool, self.limits, self.name, self.token = pool, limits, name, token
        self.metrics = Metrics(pool)

    # --- questions

    async def explain(self, request: Request) -> Response:
        """Answer ``POST /explain``."""
        _require_json(request)
        return await self._ask(request, "explain")

    async def explain_batch(self, request: Request) -> Response:
        """Answer ``POST /explain/batch``."""
        _require_json(request)
        return await self._ask(request, "batch", "rows")

    async def explain_instances(self, request: Request) -> Response:
        """Answer KServe's ``POST /v1/models/{name}:explain``."""
        verb = request.path_params["verb"]
        self._require_name(request.path_params["name"])
        if verb != "explain":
            raise RequestError(501, f"this is an explainer: it answers :explain, not :{verb[:80]}")
        return await self._ask(request, "instances", "instances")

    async def _ask(self, request: Request, kind: str, rows: str = "") -> Response:
        """Have a worker answer a request, unless its client goes away before."""
        body = _parse(await _read_body(request, self.limits.body_bytes))
        if rows and isinstance(body.get(rows), list) and len(body[rows]) > self.limits.batch_rows:
            raise RequestError(
                413, f"{rows} has {len(body[rows]):,} rows, and a request may have {self.limits.batch_rows:,}"
            )
        headers = {name: request.headers[name] for name in _FORWARDED if name in request.headers}
        headers["x-request-id"] = request.state.identity
        if self.token is not None:  # it is this service's own
            headers.pop("authorization", None)
        ticket = await self.pool.submit({"id": request.state.identity, "kind": kind, "body": body, "headers": headers})
        gone: asyncio.Future[Any] = asyncio.create_task(_wait_until_gone(request))
        late: asyncio.Future[Any] = asyncio.create_task(ticket.begun.wait())
        try:
            await asyncio.wait([late, gone], timeout=self.limits.seconds, return_when=asyncio.FIRST_COMPLETED)
            if not ticket.begun.is_set():
                ticket.result.cancel()
                if gone.done():
                    return Response(status_code=_GONE)
                raise RequestError(429, "no worker was free in time: try again later", self.pool.retry_after)
            await asyncio.wait([ticket.result, gone], return_when=asyncio.FIRST_COMPLETED)
            if not ticket.result.done():
                ticket.result.cancel()
                return Response(status_code=_GONE)
            reply = ticket.result.result()
        finally:
            gone.cancel()
            late.cancel()
        self.metrics.count_rows(reply.head["rows"], reply.head["model_rows"])
        return Response(reply.content, reply.status, media_type="application/json")

    # --- states

    async def tell_ready(self, request: Request) -> Response:
        """Answer whether a worker is ready."""
        ready = self.pool.ready > 0
        return JSONResponse({"ready": ready}, 200 if ready else 503)

    async def tell_alive(self, request: Request) -> Response:
        """Answer that the server runs."""
        return JSONResponse({"status": "alive", "live": True})

    async def list_models(self, request: Request) -> Response:
        """Answer KServe's ``GET /v1/models``."""
        return JSONResponse({"models": [self.name]})

    async def tell_model(self, request: Request) -> Response:
        """Answer KServe's ``GET /v1/models/{name}``."""
        if request.path_params["name"] == f"{self.name}:explain":
            raise HTTPException(405, headers={"allow": "POST"})
        self._require_name(request.path_params["name"])
        ready = self.pool.ready > 0
        return JSONResponse({"name": self.name, "ready": ready}, 200 if ready else 503)

    async def show_document(self, request: Request) -> Response:
        """Answer with the OpenAPI document, which comes from a worker."""
        if self.pool.document is None:
            raise RequestError(503, "no worker is ready: the model is being loaded", self.pool.retry_after)
        return Response(self.pool.document, media_type="application/json")

    async def show_metrics(self, request: Request) -> Response:
        """Answer with the metrics."""
        return Response(self.metrics.render(), headers={"content-type": self.metrics.content_type})

    def _require_name(self, name: str) -> None:
        if name != self.name:
            raise RequestError(404, f"there is no model {name[:80]!r} here; this service has {self.name!r}")


def build_app(service: Service, when_ready: Callable[[str], None]) -> ASGIApp:
    """Return the application; ``when_ready`` hears of the first worker, or of the reason why there is none."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        pool = service.pool
        pool.start()

        async def watch() -> None:
            await pool.changed.wait()
            when_ready(pool.failure)

        watching = asyncio.create_task(watch())
        yield
        watching.cancel()
        await pool.close()

    routes = [
        Route("/", service.tell_alive),
        Route("/explain", service.explain, methods=["POST"]),
        Route("/explain/batch", service.explain_batch, methods=["POST"]),
        Route("/healthz", service.tell_alive),
        Route("/readyz", service.tell_ready),
        Route("/v1/models", service.list_models),
        Route("/v1/models/{name}:{verb}", service.explain_instances, methods=["POST"]),
        Route("/v1/models/{name}", service.tell_model),
        Route("/v2/health/live", service.tell_alive),
        Route("/v2/health/ready", service.tell_ready),
        Route("/openapi.json", service.show_document),
        Route("/metrics", service.show_metrics),
    ]
    known: dict[Any, Any] = {
        RequestError: _refuse, HTTPException: _refuse_http, ClientDisconnect: _note_gone, Exception: _fail,
    }  # fmt: skip
    return _Recorder(Starlette(routes=routes, lifespan=lifespan, exception_handlers=known), service)


# --- errors ----------------------------------------------------------------------------------------------------------


def _write_error(identity: str, status: int, reason: str, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse({"error": reason, "request_id": identity}, status, headers=headers)


async def _refuse(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestError)
    headers = {} if error.retry_after is None else {"retry-after": str(error.retry_after)}
    if error.status == 401:
        headers["www-authenticate"] = "Bearer"
    return _write_error(request.state.identity, error.status, error.reason, headers)


async def _refuse_http(request: Request, error: Exception) -> Response:
    """Answer an unknown path or method as JSON, too."""
    assert isinstance(error, HTTPException)
    allowed = " or ".join(sorted(re.split(r",\s*", Headers(error.headers or {}).get("allow", ""))))
    reasons = {
        404: f"there is nothing at {request.url.path[:80]}",
        405: f"{request.url.path[:80]} does not take {request.method}: use {allowed}",
    }
    reason = reasons.get(error.status_code, str(error.detail))
    return _write_error(request.state.identity, error.status_code, reason, dict(error.headers or {}))


async def _fail(request: Request, error: Exception) -> Response:
    """Answer for an error of the service itself, which the server logs."""
    return _write_error(request.state.identity, 500, "the service failed; its log has the reason")


async def _note_gone(request: Request, error: Exception) -> Response:
    return Response(status_code=_GONE)


# --- reading a request -----------------------------------------------------------------------------------------------


def _require_json(request: Request) -> None:
    """Require that the body is said to be JSON: no page of another site can send that without being asked."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        raise RequestError(415, "the content-type must be application/json")


async def _read_body(request: Request, most: int) -> bytes:
    """Return the body, or refuse one that is too large or too slow."""
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise RequestError(415, "the body must not be compressed")
    too_large = RequestError(413, f"the body is larger than {most:,} bytes")
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length[:20]) > most:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(PATIENCE.body):
            async for part in request.stream():
                body += part
                if len(body) > most:
                    raise too_large
    except TimeoutError:
        raise RequestError(408, f"the body did not arrive within {PATIENCE.body:g} s") from None
    return bytes(body)


def _parse(body: bytes) -> dict[str, Any]:
    """Return the object that a body is."""
    try:
        found = json.loads(body, parse_constant=_refuse_constant, parse_float=_read_float, parse_int=_read_integer)
    except RecursionError:
        raise RequestError(400, "the body is nested too deeply") from None
    except ValueError as error:
        raise RequestError(400, f"the body is not JSON: {str(error)[:200]}") from None
    if not isinstance(found, dict):
        raise RequestError(422, "the body must be a JSON object")
    return found


def _read_float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):  # it could not be written as JSON again
        raise ValueError(f"{text[:20]} is beyond the largest float")
    return number


def _read_integer(text: str) -> int:
    _read_float(text)
    return int(text)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON; a missing value is null")


async def _wait_until_gone(request: Request) -> None:
    """Wait until the client has closed its connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


# --- around every request --------------------------------------------------------------------------------------------


class _Recorder:
    """Give every request an id, check its token, and log and count how it was answered."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app, self.service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, headers = time.monotonic(), dict(scope["headers"])
        given = headers.get(b"x-request-id", b"").decode("latin-1")
        identity = given if _IDENTITY.fullmatch(given) else uuid.uuid4().hex
        scope.setdefault("state", {})["identity"] = identity
        status = 500

        async def note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", identity.encode())]
            await send(message)

        path = scope["path"]
        try:
            if self.service.token is not None and path not in _PUBLIC and not self._is_permitted(headers):
                refused = await _refuse(Request(scope), RequestError(401, "the token is missing or wrong"))
                await refused(scope, receive, note)
            else:
                await self.app(scope, receive, note)
        finally:
            took = time.monotonic() - start
            self.service.metrics.count_request(self._name_path(path), status, took)
            shown = re.sub(r"[^!-~]", "?", path)[:200]
            _LOG.info("%s %s %s %d %.3f s", identity, scope["method"], shown, status, took)

    def _is_permitted(self, headers: dict[bytes, bytes]) -> bool:
        """Return whether the token is right, in a time that does not tell how much of it is."""
        kind, _, token = headers.get(b"authorization", b"").partition(b" ")
        right = (self.service.token or "").encode()
        return hmac.compare_digest(token.strip(), right) and kind.lower() == b"bearer"

    def _name_path(self, path: str) -> str:
        """Return the path as metrics name it: few names, whatever is asked for."""
        known = ("/explain", "/explain/batch", *_PUBLIC, "/openapi.json", "/metrics")
        if path in known:
            return path
        return "/v1/models" if path.startswith("/v1/models") else "other"


# --- what a service counts ---------------------------------------------------------------------------------------


# Seconds of requests, by hand: from a search without a posterior to the usual limit.
_BUCKETS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)


class Metrics:
    """Counts of one service; gauges are read from its pool when they are asked for."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self, pool: "Pool") -> None:
        disable_created_metrics()  # when a counter was made tells nobody anything
        own = self._registry = CollectorRegistry()
        ProcessCollector(registry=own)
        self._requests = Counter("gbce_requests", "Requests by path and status", ["path", "status"], registry=own)
        self._seconds = Histogram("gbce_request_seconds", "Seconds of requests", ["path"], buckets=_BUCKETS,
                                  registry=own)  # fmt: skip
        self._rows = Counter("gbce_rows", "Rows that were explained", registry=own)
        self._model_rows = Counter("gbce_model_rows", "Rows that the model evaluated for them", registry=own)
        gauges: dict[str, tuple[str, Any]] = {
            "gbce_workers_ready": ("Workers that have opened the model", lambda: pool.ready),
            "gbce_requests_running": ("Requests in progress", lambda: pool.running),
            "gbce_requests_waiting": ("Requests waiting for a worker", lambda: pool.waiting),
            "gbce_worker_restarts": ("Workers that were replaced", lambda: pool.restarts),
        }
        for name, (text, read) in gauges.items():
            Gauge(name, text, registry=own).set_function(read)

    def count_request(self, path: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        self._requests.labels(path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)

    def count_rows(self, rows: int, model_rows: int) -> None:
        """Count rows that were explained."""
        self._rows.inc(rows)
        self._model_rows.inc(model_rows)

    def render(self) -> bytes:
        """Return all of them as text."""
        return generate_latest(self._registry)
