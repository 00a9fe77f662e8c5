"""A model behind an HTTP endpoint: batched requests with retries, and a cache so that no row is sent twice."""

import hashlib
import random
import re
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn
from urllib.parse import urlsplit

import numpy as np
import pandas as pd

from gbce._validation import is_whole, require_counts, require_finite
from gbce.base import Array
from gbce.budget import BudgetSpentError
from gbce.predictors._columns import table_decoder
from gbce.predictors._http import (
    ACCEPTED,
    Answer,
    FatalError,
    RetryableError,
    as_body,
    brief,
    import_httpx,
    json_rows,
    parse,
    pause,
    predictions,
    public_url,
    redact,
    row_keys,
    secrets_in,
    send,
)
from gbce.predictors._predictor import PredictionError, Predictor
from gbce.space import Space

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # a token of RFC 9110
_DIGEST_CHARACTERS = 16  # of the digest of a URL query: 64 bits tell queries apart


@dataclass(frozen=True)
class Usage:
    """What a :class:`Remote` has sent so far.

    Parameters
    ----------
    requests : int
        Requests made, repeated ones included.
    retries : int
        Requests that repeated a failed one.
    rows_sent : int
        Rows in all requests; rows that the endpoint did not process (no connection, status 429) are not counted.
    rows_saved : int
        Rows that were not sent because their prediction was in the cache.
    """

    requests: int = 0
    retries: int = 0
    rows_sent: int = 0
    rows_saved: int = 0


@dataclass
class _RemoteState:
    """Mutable state of a Remote: cache, client and counts."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    cache: OrderedDict[bytes, Answer] = field(default_factory=OrderedDict)
    rng: random.Random = field(default_factory=random.Random)
    client: Any = None
    forwarded: Mapping[str, str] = field(default_factory=dict)
    requests: int = 0
    retries: int = 0
    sent: int = 0
    saved: int = 0


@dataclass(frozen=True, eq=False, repr=False)
class Remote:
    """A model behind an HTTP endpoint that takes and returns JSON (extra ``http``).

    Rows are posted in batches as ``{"columns": [...], "rows": [[...], ...]}``, missing values as null, and answered by
    ``{"predictions": [...]}`` or a bare list: one number per row, or one list of numbers. Predictions are cached by the
    content of the row, so that no row is paid for twice; one request is under way at a time. Temporary failures (no
    connection, no answer in time, status 429 or 5xx) are retried; others raise :class:`gbce.PredictionError`. When the
    endpoint fails for good, predictions received so far stay in the cache, and the next call continues from there.

    Parameters
    ----------
    url : str
        Address of the endpoint, ``http://`` or ``https://``.
    classes : sequence, optional
        Labels of a classifier, in the order of its probabilities; one number per row is the probability of the second
        of two. Without them, predictions are plain numbers.
    batch_rows : int
        Largest number of rows in one request.
    timeout : float
        Seconds for a whole exchange, from the DNS lookup to the last byte of the response.
    max_bytes : int
        Largest response to one request, uncompressed; 32 kB per row at 500 rows in a request.
    retries : int
        Number of retries of a failed request.
    backoff : float
        Seconds to wait before the first retry; doubled each time, and shortened at random by up to a half. A
        ``Retry-After`` of the endpoint takes precedence.
    max_wait : float
        Longest wait; an error is raised if the endpoint asks for more.
    headers : mapping of str to str, optional
        Sent with every request, e.g. a token; never shown.
    max_rows : int, optional
        Total number of rows that may be sent, retries included; exceeding it raises :class:`gbce.BudgetSpentError`.
    cache_rows : int
        Size of the cache; the least recently used predictions are dropped first.
    encode : callable, optional
        ``encode(columns, rows)`` returns a custom body: anything that JSON can represent, or str or bytes.
    decode : callable, optional
        ``decode(answer)`` extracts the predictions from the parsed JSON of a custom response.
    version : str, optional
        Version of the model behind the address. Stores and explanations identify a remote model by address and
        version without calling it: another version is another model.

    Examples
    --------
    >>> import gbce
    >>> remote = gbce.Remote("https://example.org/score", headers={"Authorization": "Bearer 1234"}, max_rows=50_000)
    >>> remote
    Remote('https://example.org/score', batch_rows=500, max_rows=50000)
    >>> remote.usage.rows_sent
    0
    """

    url: str
    classes: Sequence[Any] | None = field(default=None, kw_only=True)
    # defaults by hand
    batch_rows: int = field(default=500, kw_only=True)
    timeout: float = field(default=30.0, kw_only=True)
    max_bytes: int = field(default=16_000_000, kw_only=True)
    retries: int = field(default=5, kw_only=True)
    backoff: float = field(default=0.5, kw_only=True)
    max_wait: float = field(default=60.0, kw_only=True)
    headers: Mapping[str, str] | None = field(default=None, kw_only=True)
    max_rows: int | None = field(default=None, kw_only=True)
    cache_rows: int = field(default=200_000, kw_only=True)
    encode: Callable[[list[str], list[list[Any]]], Any] | None = field(default=None, kw_only=True)
    decode: Callable[[Any], Any] | None = field(default=None, kw_only=True)
    version: str | None = field(default=None, kw_only=True)
    _state: _RemoteState = field(init=False, default_factory=_RemoteState)

    def __post_init__(self) -> None:
        import_httpx()
        if not isinstance(self.url, str) or not self.url.startswith(("http://", "https://")):
            raise ValueError("Remote: url must be an address that begins with http:// or https://")
        if self.classes is not None:
            object.__setattr__(self, "classes", tuple(self.classes))
            if len(set(self.classes)) < max(2, len(self.classes)):
                raise ValueError(f"Remote: classes must be two or more different labels, not {self.classes!r}")
        require_counts(self, "batch_rows", "max_bytes", "cache_rows")
        if self.max_rows is not None:
            require_counts(self, "max_rows")
        require_finite(self, "timeout", "retries", "backoff", "max_wait")
        if self.timeout <= 0 or min(self.backoff, self.max_wait) < 0:
            raise ValueError("Remote: timeout must be positive, backoff and max_wait must not be negative")
        if not is_whole(self.retries) or self.retries < 0:
            raise ValueError(f"Remote: retries must be a non-negative integer, not {self.retries!r}")
        headers = dict(self.headers or {})
        for name, value in headers.items():
            if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name):
                raise ValueError(f"Remote: {name!r} cannot be the name of a header: letters, digits and hyphens")
            if not isinstance(value, str) or not value.isascii() or not value.isprintable():
                raise ValueError(f"Remote: the header {name!r} must be a string of printable ASCII characters")
        object.__setattr__(self, "headers", headers)
        if self.version is not None and not isinstance(self.version, str):
            raise TypeError(f"Remote: version must be a string such as '2024-05', not {self.version!r}")
        for name in ("encode", "decode"):
            if getattr(self, name) is not None and not callable(getattr(self, name)):
                raise TypeError(f"Remote: {name} must be a function, not {type(getattr(self, name)).__name__}")

    def __repr__(self) -> str:
        shown = [repr(public_url(self.url))]
        shown += [] if self.classes is None else [f"classes={list(self.classes)}"]
        shown += [] if self.version is None else [f"version={self.version!r}"]
        shown += [f"batch_rows={self.batch_rows}"] + ([] if self.max_rows is None else [f"max_rows={self.max_rows}"])
        return f"Remote({', '.join(shown)})"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a Remote counts its rows and caches its predictions in one process, and copies of it would pay twice: use "
            "n_jobs=1; its rows share requests anyway"
        )

    @property
    def usage(self) -> Usage:
        """Counts of requests and rows so far."""
        state = self._state
        return Usage(state.requests, state.retries, state.sent, state.saved)

    def __call__(self, rows: Any) -> Array:
        """Return the predictions ``(n,)`` or ``(n, c)`` for a frame or an array of ``n`` rows."""
        table = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(np.asarray(rows)).rename(columns=_name_column)
        columns, values = [str(label) for label in table.columns], json_rows(table)
        keys = row_keys(columns, values)
        state = self._state
        with state.lock:
            answers: dict[bytes, Answer] = {}
            asked: dict[bytes, list[Any]] = {}
            for key, row in zip(keys, values, strict=True):
                if key in state.cache:
                    state.cache.move_to_end(key)
                    answers[key] = state.cache[key]
                else:
                    asked[key] = row
            self._require_affordable(len(asked))
            state.saved += len(keys) - len(asked)
            self._fetch(columns, asked, answers)
        return _stack([answers[key] for key in keys])

    @contextmanager
    def forwarding(self, headers: Mapping[str, str]) -> Iterator[None]:
        """Send headers of somebody's request with those of this context, such as a trace or a permission.

        With an ``authorization`` the cache is left aside: one caller's predictions are not shown to another.

        Parameters
        ----------
        headers : mapping of str to str
            Never shown.
        """
        state = self._state
        private = any(name.lower() == "authorization" for name in headers)
        with state.lock:
            shared, state.forwarded = state.cache, dict(headers)
            state.cache = OrderedDict() if private else shared
        try:
            yield
        finally:
            with state.lock:
                state.cache, state.forwarded = shared, {}

    def _fetch(self, columns: list[str], asked: dict[bytes, list[Any]], answers: dict[bytes, Answer]) -> None:
        """Fetch the predictions of all rows batch by batch, and cache each batch as it arrives."""
        state, todo = self._state, list(asked)
        for start in range(0, len(todo), self.batch_rows):
            keys = todo[start : start + self.batch_rows]
            try:
                received = self._send_batch(columns, [asked[key] for key in keys])
            except (PredictionError, BudgetSpentError) as error:
                kept = f"{start:,} of {len(todo):,} rows were answered"
                advice = f"{kept} and are kept, another call continues from there" if start else kept
                raise type(error)(f"{error}; {advice}") from None
            for key, one in zip(keys, received, strict=True):
                answers[key] = state.cache[key] = one
            while len(state.cache) > self.cache_rows:
                state.cache.popitem(last=False)

    def _send_batch(self, columns: list[str], rows: list[list[Any]]) -> list[Answer]:
        payload = {"columns": columns, "rows": rows} if self.encode is None else self.encode(columns, rows)
        content = self._deliver(as_body(payload), len(rows))
        try:
            answer = parse(content)
            return predictions(answer if self.decode is None else self.decode(answer), len(rows))
        except PredictionError as error:
            raise PredictionError(self._explain(str(error))) from None
        except Exception as error:
            reason = f"decode raised {type(error).__name__} ({error}) on the answer {brief(answer)}"
            raise PredictionError(self._explain(reason)) from None

    def _deliver(self, body: bytes, rows: int) -> bytes:
        """Send one body, with retries, and return the content of the response."""
        state = self._state
        for attempt in range(int(self.retries) + 1):
            self._require_affordable(rows)
            state.requests += 1
            state.retries += attempt > 0
            state.sent += rows
            try:
                return send(self._client(), self.url, body, self.timeout, self.max_bytes, state.forwarded)
            except FatalError as error:
                raise PredictionError(self._explain(str(error))) from None
            except RetryableError as error:
                state.sent -= rows if error.unread else 0
                failure = error
            if failure.wait is not None and failure.wait > self.max_wait:
                asks = f"{failure}; it asks to wait {failure.wait:g} s, longer than max_wait = {self.max_wait:g} s"
                raise PredictionError(self._explain(asks))
            if attempt < self.retries:
                time.sleep(pause(attempt, failure.wait, self.backoff, self.max_wait, state.rng))
        tries = f"{int(self.retries) + 1} attempts failed, the last one because " if self.retries else ""
        raise PredictionError(self._explain(f"{tries}{failure}"))

    def _require_affordable(self, rows: int) -> None:
        sent = self._state.sent
        if self.max_rows is not None and sent + rows > self.max_rows:
            raise BudgetSpentError(
                f"{rows:,} more rows for {public_url(self.url)} would exceed max_rows = {self.max_rows:,}; {sent:,} "
                "were sent before"
            )

    def _explain(self, reason: str) -> str:
        headers = {**(self.headers or {}), **self._state.forwarded}
        return f"{public_url(self.url)}: {redact(reason, secrets_in(self.url, headers))}"

    @property
    def identity(self) -> str:
        """Address and version, without user and password; the query, which may hold secrets, only as a digest."""
        query = urlsplit(self.url).query
        digest = f"?{hashlib.sha256(query.encode()).hexdigest()[:_DIGEST_CHARACTERS]}" if query else ""
        return f"{public_url(self.url)}{digest}" + ("" if self.version is None else f" version {self.version}")

    def _client(self) -> Any:
        """Return the HTTP client, a new one after a failed exchange."""
        state = self._state
        if state.client is None or state.client.is_closed:
            httpx, first = import_httpx(), state.client is None
            headers = httpx.Headers({"Content-Type": "application/json", "Accept-Encoding": ACCEPTED})
            headers.update(self.headers or {})  # names in any case
            state.client = httpx.Client(headers=headers)
            if first:
                weakref.finalize(self, _close, state)
        return state.client


def _close(state: _RemoteState) -> None:
    state.client.close()


def _name_column(label: int) -> str:
    return f"x{label + 1}"


def _stack(answers: list[Answer]) -> Array:
    widths = {len(one) if isinstance(one, tuple) else 0 for one in answers}
    if len(widths) > 1:
        raise PredictionError(f"predictions of some rows are lists of {max(widths)} numbers, of others not")
    return np.array(answers, dtype=float)


def from_remote(remote: Remote, space: Space, name: str | None) -> Predictor:
    """Wrap a remote model, which gets frames with the names of the features even if the data are an array."""
    table = table_decoder(space)
    classes = None if remote.classes is None else tuple(remote.classes)
    return Predictor(
        name or "Remote", lambda x: remote(table(x)), classes=classes, plain=True, identity=remote.identity,
        cost_per_call=True,
    )  # fmt: skip
