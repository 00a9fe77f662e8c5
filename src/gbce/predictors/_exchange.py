"""One exchange over HTTP: a body out and an answer back, all of it before one deadline and within one size."""

import logging
import queue
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit, urlunsplit

__all__ = ["ACCEPTED", "Reply", "UnreadableError", "exchange", "import_httpx", "public_url"]

ACCEPTED = "gzip"  # the one encoding that is asked for: zlib unpacks no further than it is told to
_SHORTEST_TIMEOUT = 1e-3  # seconds, where the deadline has passed: a time-out must be positive; by hand
_GZIP = 16 + zlib.MAX_WBITS  # zlib's way to ask for the head and tail of gzip around what it unpacks


class UnreadableError(Exception):
    """An answer came whose body cannot be read."""


@dataclass(frozen=True)
class Reply:
    """An answer: whether its status is a good one, and its body, ``whole`` or broken off beyond the largest size."""

    status: int
    good: bool
    headers: Mapping[str, str]
    content: bytes
    whole: bool


def import_httpx() -> Any:
    """Return the module, or say which extra has it."""
    try:
        import httpx
    except ImportError as error:
        raise ImportError("gbce.Remote needs httpx: pip install 'gbce[http]'") from error
    return httpx


def public_url(url: str) -> str:
    """Return an address without user, password and query, which may hold secrets."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


@contextmanager
def _public_log() -> Iterator[None]:
    """Keep what this thread has httpx log, which is every address as it is, to the public part of the address."""
    own, url, logger = threading.get_ident(), import_httpx().URL, logging.getLogger("httpx")

    def hide(record: logging.LogRecord) -> bool:
        if record.thread == own and isinstance(record.args, tuple):
            record.args = tuple(public_url(str(one)) if isinstance(one, url) else one for one in record.args)
        return True

    logger.addFilter(hide)
    try:
        yield
    finally:
        logger.removeFilter(hide)


def exchange(client: Any, url: str, body: bytes, timeout: float, max_bytes: int) -> Reply:
    """Post ``body`` and return the answer; raise ``httpx.TimeoutException`` if it did not end within ``timeout``.

    The time-outs of httpx are of single steps: a name that is looked up for ever has none, and a header that comes
    byte by byte meets each of them. So the exchange has a thread of its own, which is not waited for any longer; an
    exchange that failed closes the client, and its thread ends with the connection.
    """
    outcomes: queue.SimpleQueue[Reply | BaseException] = queue.SimpleQueue()
    deadline = time.monotonic() + timeout

    def work() -> None:
        outcome: Reply | BaseException
        try:
            with _public_log():
                outcome = _post(client, url, body, deadline, max_bytes)
        except BaseException as error:
            outcome = error
        outcomes.put(outcome)

    threading.Thread(target=work, name="gbce-exchange", daemon=True).start()
    try:
        outcome = outcomes.get(timeout=min(timeout, threading.TIMEOUT_MAX))
        if isinstance(outcome, BaseException):
            raise outcome
    except queue.Empty:
        client.close()
        raise _timed_out() from None
    except BaseException:  # an interrupted wait included: no request goes on unseen
        client.close()
        raise
    return outcome


def _timed_out() -> Exception:
    late: Exception = import_httpx().ReadTimeout("the answer did not end")
    return late


def _post(client: Any, url: str, body: bytes, deadline: float, max_bytes: int) -> Reply:
    def on_event(name: str, info: Any) -> None:
        if name.endswith("send_request_headers.started") and time.monotonic() > deadline:
            raise _timed_out()  # a connection that came too late: nothing is sent, nothing is paid for

    left = max(deadline - time.monotonic(), _SHORTEST_TIMEOUT)
    with client.stream("POST", url, content=body, timeout=left, extensions={"trace": on_event}) as response:
        status, good, headers = response.status_code, response.is_success, response.headers
        coding = headers.get("Content-Encoding", "")
        unpack = _unpacker(coding.strip().lower())
        if unpack is None and good:
            raise UnreadableError(f"it answered in the encoding {coding!r}, where {ACCEPTED} or none was asked for")
        if unpack is None:
            return Reply(status, good, headers, b"", whole=True)
        content = bytearray()
        for part in response.iter_raw():
            try:
                content += unpack(part, max_bytes - len(content) + 1)
            except zlib.error as error:
                raise UnreadableError(f"the gzip that it answered is broken ({error})") from None
            if len(content) > max_bytes:
                break
            if time.monotonic() > deadline:
                raise _timed_out()
        return Reply(status, good, headers, bytes(content), whole=len(content) <= max_bytes)


def _unpacker(coding: str) -> Callable[[bytes, int], bytes] | None:
    """Return what unpacks a part to at most so many bytes; ``None`` if nothing does."""
    if coding in ("", "identity"):
        return lambda part, most: part[:most]
    if coding in (ACCEPTED, f"x-{ACCEPTED}"):
        return zlib.decompressobj(_GZIP).decompress
    return None
