"""HTTP requests with one deadline and one size limit for the whole exchange, and rows and predictions as JSON.

Error messages are redacted: addresses lose user, password and query, and secrets of headers become stars.
"""

import base64
import datetime
import email.utils
import hashlib
import json
import logging
import math
import queue
import random
import re
import reprlib
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

import numpy as np
import pandas as pd

from gbce._validation import is_number
from gbce.predictors._predictor import PredictionError

Answer = float | tuple[float, ...]

ACCEPTED = "gzip"  # the only encoding that is accepted: zlib can limit the size of its output
_SHORTEST_TIMEOUT = 1e-3  # seconds, once the deadline has passed: a time-out must be positive; by hand
_GZIP = 16 + zlib.MAX_WBITS  # zlib's code for gzip header and trailer
_TOO_MANY_REQUESTS = 429  # RFC 6585
_SERVER_ERROR = 500  # and above: RFC 9110
# Of the body of an error response, by hand:
_EXCERPT_BYTES = 2_000  # that are read
_EXCERPT_CHARACTERS = 200  # that are shown
_SHORTEST_SECRET = 4  # characters: shorter words are not secrets, and redacting them would garble the message
_JITTER = (0.5, 1.0)  # random share of a pause, so that clients do not retry in step; by hand
_LARGEST_FLOAT = sys.float_info.max
# Characters of a response shown in a message, by hand: of one value in it, and in all.
_SHOWN_OF_VALUE, _SHOWN = 60, 80
_KEY_BYTES = 16  # of a row's digest: 128 bits, so that no two rows of a cache collide by chance
_BRIEF = reprlib.Repr()
_BRIEF.maxstring = _BRIEF.maxother = _BRIEF.maxlong = _SHOWN_OF_VALUE

# --- one exchange ----------------------------------------------------------------------------------------------------


class UnreadableError(Exception):
    """The body of a response cannot be decoded."""


@dataclass(frozen=True)
class Reply:
    """A response: status, whether it is a success, and the body, ``whole`` or cut off at the size limit."""

    status: int
    good: bool
    headers: Mapping[str, str]
    content: bytes
    whole: bool


def import_httpx() -> Any:
    """Import httpx, or raise an error that names the extra."""
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
    """Reduce addresses that httpx logs in this thread to their public part."""
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


def exchange(
    client: Any, url: str, body: bytes, timeout: float, max_bytes: int, headers: Mapping[str, str] | None = None
) -> Reply:
    """Post ``body`` and return the response; raise ``httpx.TimeoutException`` if it is not complete in ``timeout``.

    The time-outs of httpx apply to single steps: a DNS lookup has none, and a header that arrives byte by byte meets
    each of them. So the exchange runs in a thread of its own that is abandoned at the deadline; a failed exchange
    closes the client, which ends the thread.
    """
    outcomes: queue.SimpleQueue[Reply | BaseException] = queue.SimpleQueue()
    deadline = time.monotonic() + timeout

    def work() -> None:
        outcome: Reply | BaseException
        try:
            with _public_log():
                outcome = _post(client, url, body, deadline, max_bytes, headers)
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
    late: Exception = import_httpx().ReadTimeout("the response is incomplete")
    return late


def _post(
    client: Any, url: str, body: bytes, deadline: float, max_bytes: int, headers: Mapping[str, str] | None
) -> Reply:
    def on_event(name: str, info: Any) -> None:
        if name.endswith("send_request_headers.started") and time.monotonic() > deadline:
            raise _timed_out()  # connected too late: nothing is sent or paid for

    left = max(deadline - time.monotonic(), _SHORTEST_TIMEOUT)
    options = {"timeout": left, "headers": headers, "extensions": {"trace": on_event}}
    with client.stream("POST", url, content=body, **options) as response:
        status, good, headers = response.status_code, response.is_success, response.headers
        coding = headers.get("Content-Encoding", "")
        unpack = _unpacker(coding.strip().lower())
        if unpack is None and good:
            raise UnreadableError(f"its response has the encoding {coding!r}, but only {ACCEPTED} or none is accepted")
        if unpack is None:
            return Reply(status, good, headers, b"", whole=True)
        content = bytearray()
        for part in response.iter_raw():
            try:
                content += unpack(part, max_bytes - len(content) + 1)
            except zlib.error as error:
                raise UnreadableError(f"its gzip response is corrupt ({error})") from None
            if len(content) > max_bytes:
                break
            if time.monotonic() > deadline:
                raise _timed_out()
        return Reply(status, good, headers, bytes(content), whole=len(content) <= max_bytes)


def _unpacker(coding: str) -> Callable[[bytes, int], bytes] | None:
    """Return a function that decompresses a part to at most a number of bytes; None for an unknown encoding."""
    if coding in ("", "identity"):
        return lambda part, most: part[:most]
    if coding in (ACCEPTED, f"x-{ACCEPTED}"):
        return zlib.decompressobj(_GZIP).decompress
    return None


# --- requests and failures -------------------------------------------------------------------------------------------


class RetryableError(Exception):
    """A temporary failure; ``wait`` has the seconds the endpoint asked for, ``unread`` if it never saw the rows."""

    def __init__(self, reason: str, wait: float | None = None, unread: bool = False) -> None:
        super().__init__(reason)
        self.wait, self.unread = wait, unread


class FatalError(Exception):
    """A permanent failure of a request."""


def send(
    client: Any, url: str, body: bytes, timeout: float, max_bytes: int, headers: Mapping[str, str] | None = None
) -> bytes:
    """Post ``body`` and return the content of a successful response, or raise one of the errors above."""
    httpx = import_httpx()
    try:
        reply = exchange(client, url, body, timeout, max_bytes, headers)
    except httpx.TimeoutException:
        raise RetryableError(f"there was no answer within {timeout:g} s") from None
    except httpx.ConnectError as error:
        raise RetryableError(f"no connection could be made ({error})", unread=True) from None
    except (httpx.NetworkError, httpx.RemoteProtocolError) as error:
        raise RetryableError(f"the connection broke ({type(error).__name__}: {error})") from None
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise FatalError(f"the request failed ({type(error).__name__}: {error})") from None
    except UnreadableError as error:
        raise FatalError(str(error)) from None
    if reply.good and not reply.whole:
        raise FatalError(
            f"its response is longer than max_bytes = {max_bytes:,}: use a smaller batch_rows, or raise max_bytes"
        )
    if reply.good:
        return reply.content
    reason = f"it answered {reply.status}{_excerpt(reply.content)}"
    too_many = reply.status == _TOO_MANY_REQUESTS
    if too_many or reply.status >= _SERVER_ERROR:
        raise RetryableError(reason, _retry_after(reply.headers.get("Retry-After")), unread=too_many)
    raise FatalError(reason)


def _excerpt(content: bytes) -> str:
    text = re.sub(r"\s+", " ", content[:_EXCERPT_BYTES].decode("utf-8", "replace")).strip()
    return f": {text[:_EXCERPT_CHARACTERS]}" if text else ""


def _retry_after(value: str | None) -> float | None:
    """Parse the seconds or the date of a header; None for anything else."""
    if value is None:
        return None
    if re.fullmatch(r"\d+(\.\d+)?", value.strip()):
        return float(value)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def pause(attempt: int, wait: float | None, backoff: float, longest: float, rng: random.Random) -> float:
    """Return the seconds to wait after failure ``attempt`` = 0, 1, ...: doubling with jitter, or as requested."""
    if wait is not None:
        return wait + backoff * rng.random()
    return min(longest, backoff * 2.0**attempt) * rng.uniform(*_JITTER)


def secrets_in(url: str, headers: Mapping[str, str]) -> tuple[str, ...]:
    """Return the secrets, longest first: words of header values, user and password, values of the query."""
    parts = urlsplit(url)
    words = [word for value in headers.values() for word in (value, *re.split(r"[\s,;=]+", value))]
    words += [value for _, value in parse_qsl(parts.query)] + [parts.query]
    if parts.username is not None:
        user, password = unquote(parts.username), unquote(parts.password or "")
        words += [parts.username, parts.password or "", user, password]
        words.append(base64.b64encode(f"{user}:{password}".encode()).decode())  # as sent in a header
    return tuple(sorted({word for word in words if len(word) >= _SHORTEST_SECRET}, key=len, reverse=True))


def redact(text: str, secrets: Iterable[str]) -> str:
    """Replace every secret in a text by three stars."""
    for secret in secrets:
        text = text.replace(secret, "***")
    return text


# --- rows and predictions as JSON ------------------------------------------------------------------------------------


def json_rows(table: pd.DataFrame) -> list[list[Any]]:
    """Return the rows of a frame as JSON values: numbers, strings, booleans, null for missing values."""
    columns = [_json_column(table.iloc[:, j]) for j in range(table.shape[1])]
    return [list(row) for row in zip(*columns, strict=True)]


def _json_column(column: pd.Series) -> list[Any]:
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "iub":
        return list(column.tolist())
    return [_json_value(value, str(column.name)) for value in column.tolist()]


def _json_value(value: Any, column: str) -> Any:
    if value is None or value is pd.NA or value is pd.NaT:
        return None
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        if math.isinf(value):
            raise ValueError(f"column {column!r} holds {value}, which is not representable in JSON")
        return None if math.isnan(value) else value + 0.0  # minus zero is the same row as zero
    if isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    raise TypeError(
        f"column {column!r} holds {type(value).__name__} {value!r:.40}, which is not representable in JSON: use "
        "numbers, strings, booleans or dates"
    )


def row_keys(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[bytes]:
    """Return a digest of the content of each row."""
    start = hashlib.blake2b(json.dumps(columns).encode(), digest_size=_KEY_BYTES)
    keys = []
    for row in rows:
        one = start.copy()
        one.update(json.dumps(row).encode())
        keys.append(one.digest())
    return keys


def as_body(payload: Any) -> bytes:
    """Return the body of a request: str and bytes as they are, anything else as JSON."""
    if isinstance(payload, bytes):
        return payload
    if isinstance(payload, str):
        return payload.encode()
    return json.dumps(payload, allow_nan=False).encode()


def parse(content: bytes) -> Any:
    """Parse a JSON response."""
    try:
        return json.loads(content)
    except RecursionError:
        raise PredictionError(f"its JSON response is nested too deeply: {_beginning(content)!r}") from None
    except ValueError:
        raise PredictionError(f"its response is not JSON: {_beginning(content)!r}") from None


def _beginning(content: bytes) -> str:
    return content[:_SHOWN].decode("utf-8", "replace")


def predictions(answer: Any, rows: int) -> list[Answer]:
    """Return one number, or one tuple of numbers, per row of a decoded response, after checks."""
    if isinstance(answer, dict) and "predictions" in answer:
        answer = answer["predictions"]
    if isinstance(answer, (np.ndarray, pd.Series)):
        answer = answer.tolist()
    if not isinstance(answer, (list, tuple)):
        raise PredictionError(f'a list or {{"predictions": [...]}} was expected, but it returned {_short(answer)}')
    if len(answer) != rows:
        raise PredictionError(f"{len(answer):,} predictions for {rows:,} rows")
    result = [_prediction(value, i) for i, value in enumerate(answer)]
    if len({len(one) if isinstance(one, tuple) else 0 for one in result}) > 1:
        raise PredictionError("predictions must all be numbers or all be lists of one length")
    return result


def _prediction(value: Any, i: int) -> Answer:
    if isinstance(value, (list, tuple)) and value:
        return tuple(_number(part, i) for part in value)
    return _number(value, i)


def _number(value: Any, i: int) -> float:
    if not is_number(value) or not abs(value) <= _LARGEST_FLOAT:  # an integer may be too large for a float
        raise PredictionError(f"prediction {i} is {_short(value)}, not a finite number")
    return float(value)


def _short(value: Any) -> str:
    return "null" if value is None else f"{type(value).__name__} {brief(value)}"


def brief(value: Any) -> str:
    """Return a short repr of a value, however large or deep it is."""
    return _BRIEF.repr(value)[:_SHOWN]
