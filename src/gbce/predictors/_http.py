"""One exchange over HTTP: a body out and an answer back, all of it before one deadline and within one size."""

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

__all__ = [
    "ACCEPTED",
    "Answer",
    "FatalError",
    "Reply",
    "RetryableError",
    "UnreadableError",
    "as_body",
    "brief",
    "exchange",
    "import_httpx",
    "json_rows",
    "parse",
    "pause",
    "predictions",
    "public_url",
    "redact",
    "row_keys",
    "secrets_in",
    "send",
]

# --- one exchange over HTTP ------------------------------------------------------------------------------------------

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


# --- one request over HTTP -------------------------------------------------------------------------------------------

_TOO_MANY_REQUESTS = 429  # RFC 6585
_SERVER_ERROR = 500  # and above: RFC 9110
# Of what a failed answer says, by hand:
_EXCERPT_BYTES = 2_000  # that are read
_EXCERPT_CHARACTERS = 200  # that are shown
_SHORTEST_SECRET = 4  # characters: shorter words are no secrets, and stars in their place would spoil the sentence
_JITTER = (0.5, 1.0)  # share of a pause that is waited, at random, so that clients do not come back together; by hand


class RetryableError(Exception):
    """The request failed in a way that may pass.

    Parameters
    ----------
    reason : str
        For a sentence.
    wait : float, optional
        Seconds the endpoint asked for.
    unread : bool
        Whether the endpoint never looked at the rows.
    """

    def __init__(self, reason: str, wait: float | None = None, unread: bool = False) -> None:
        super().__init__(reason)
        self.wait, self.unread = wait, unread


class FatalError(Exception):
    """The request failed and would fail again."""


def send(client: Any, url: str, body: bytes, timeout: float, max_bytes: int) -> bytes:
    """Post ``body`` and return the content of a good answer, or raise one of the errors above."""
    httpx = import_httpx()
    try:
        reply = exchange(client, url, body, timeout, max_bytes)
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
            f"its answer is longer than max_bytes = {max_bytes:,}: ask for less at a time with a smaller batch_rows, "
            "or raise max_bytes"
        )
    if reply.good:
        return reply.content
    said = f"it answered {reply.status}{_excerpt(reply.content)}"
    too_many = reply.status == _TOO_MANY_REQUESTS
    if too_many or reply.status >= _SERVER_ERROR:
        raise RetryableError(said, _retry_after(reply.headers.get("Retry-After")), unread=too_many)
    raise FatalError(said)


def _excerpt(content: bytes) -> str:
    text = re.sub(r"\s+", " ", content[:_EXCERPT_BYTES].decode("utf-8", "replace")).strip()
    return f": {text[:_EXCERPT_CHARACTERS]}" if text else ""


def _retry_after(value: str | None) -> float | None:
    """Read seconds or a date; what is neither is ignored."""
    if value is None:
        return None
    if re.fullmatch(r"\d+(\.\d+)?", value.strip()):
        return float(value)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def pause(attempt: int, wait: float | None, backoff: float, longest: float, rng: random.Random) -> float:
    """Return the seconds to wait after failure ``attempt`` = 0, 1, ...: doubling, with jitter, or as was asked for."""
    if wait is not None:
        return wait + backoff * rng.random()
    return min(longest, backoff * 2.0**attempt) * rng.uniform(*_JITTER)


def secrets_in(url: str, headers: Mapping[str, str]) -> tuple[str, ...]:
    """Return what must not be shown: words of header values, user and password, values of the query."""
    parts = urlsplit(url)
    words = [word for value in headers.values() for word in (value, *re.split(r"[\s,;=]+", value))]
    words += [value for _, value in parse_qsl(parts.query)] + [parts.query]
    if parts.username is not None:
        user, password = unquote(parts.username), unquote(parts.password or "")
        words += [parts.username, parts.password or "", user, password]
        words.append(base64.b64encode(f"{user}:{password}".encode()).decode())  # as it goes into a header
    return tuple(sorted({word for word in words if len(word) >= _SHORTEST_SECRET}, key=len, reverse=True))


def redact(text: str, secrets: Iterable[str]) -> str:
    """Return a text in which every secret is three stars."""
    for secret in secrets:
        text = text.replace(secret, "***")
    return text


# --- rows as JSON, and JSON as predictions ---------------------------------------------------------------------------

Answer = float | tuple[float, ...]

_LARGEST_FLOAT = sys.float_info.max
# Characters of an answer that a sentence shows, by hand: of one value in it, and in all.
_SHOWN_OF_VALUE, _SHOWN = 60, 80
_KEY_BYTES = 16  # of a row's digest: at 128 bits two rows in a cache never meet by chance
_BRIEF = reprlib.Repr()
_BRIEF.maxstring = _BRIEF.maxother = _BRIEF.maxlong = _SHOWN_OF_VALUE


def json_rows(table: pd.DataFrame) -> list[list[Any]]:
    """Return the rows of a frame as values of JSON: numbers, text, booleans, null for what is missing."""
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
        return None if math.isnan(value) else value + 0.0  # minus zero is zero, in whatever is remembered
    if isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    raise TypeError(
        f"column {column!r} holds {type(value).__name__} {value!r:.40}, which is not representable in JSON: hold "
        "numbers, text, booleans or dates in it"
    )


def row_keys(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[bytes]:
    """Return a short key of the content of each row."""
    start = hashlib.blake2b(json.dumps(columns).encode(), digest_size=_KEY_BYTES)
    keys = []
    for row in rows:
        one = start.copy()
        one.update(json.dumps(row).encode())
        keys.append(one.digest())
    return keys


def as_body(payload: Any) -> bytes:
    """Return what is sent: text and bytes as they are, anything else as JSON."""
    if isinstance(payload, bytes):
        return payload
    if isinstance(payload, str):
        return payload.encode()
    return json.dumps(payload, allow_nan=False).encode()


def parse(content: bytes) -> Any:
    """Return the JSON of an answer, or say that it is none."""
    try:
        return json.loads(content)
    except RecursionError:
        raise PredictionError(f"it answered JSON that is nested too deep: {_beginning(content)!r}") from None
    except ValueError:
        raise PredictionError(f"it answered something that is not JSON: {_beginning(content)!r}") from None


def _beginning(content: bytes) -> str:
    return content[:_SHOWN].decode("utf-8", "replace")


def predictions(answer: Any, rows: int) -> list[Answer]:
    """Return one number, or one tuple of numbers, per row of a decoded answer; or say what is wrong with it."""
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
    if not is_number(value) or not abs(value) <= _LARGEST_FLOAT:  # a whole number may be too large for a float
        raise PredictionError(f"prediction {i} is {_short(value)}, where a finite number belongs")
    return float(value)


def _short(value: Any) -> str:
    return "null" if value is None else f"{type(value).__name__} {brief(value)}"


def brief(value: Any) -> str:
    """Return a value as a sentence shows it, however large or deep it is."""
    return _BRIEF.repr(value)[:_SHOWN]
