"""A model behind an HTTP endpoint: asked in batches, patiently, never twice about the same row."""

import hashlib
import random
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn
from urllib.parse import urlsplit

import numpy as np
import pandas as pd

from gbce._validation import is_number, require_counts, require_finite
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

__all__ = ["Remote", "Usage", "from_remote"]

_DIGEST_CHARACTERS = 16  # of a query's digest: 64 bits tell queries apart


@dataclass(frozen=True)
class Usage:
    """What a :class:`Remote` has sent so far.

    Parameters
    ----------
    requests : int
        Requests made, repeated ones included.
    retries : int
        Those among them that repeated a failed one.
    rows_sent : int
        Rows in them; rows that the endpoint refused to look at (no connection, status 429) are not counted.
    rows_saved : int
        Rows that were asked about but not sent, because their answer was known.
    """

    requests: int = 0
    retries: int = 0
    rows_sent: int = 0
    rows_saved: int = 0


@dataclass
class _RemoteState:
    """What changes while a Remote is used."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    cache: OrderedDict[bytes, Answer] = field(default_factory=OrderedDict)
    rng: random.Random = field(default_factory=random.Random)
    client: Any = None
    requests: int = 0
    retries: int = 0
    sent: int = 0
    saved: int = 0


@dataclass(frozen=True, eq=False, repr=False)
class Remote:
    """A model behind an HTTP endpoint that takes and returns JSON (extra ``http``).

    Rows are posted in batches as ``{"columns": [...], "rows": [[...], ...]}``, missing values as null, and answered by
    ``{"predictions": [...]}`` or a bare list: one number per row, or one list of numbers. Answers are kept by the
    content of the row, so that no row is paid for twice; one request is under way at a time. Failures that may pass
    (no connection, no answer in time, status 429 or 5xx) are tried again; others raise :class:`gbce.PredictionError`.
    When the endpoint fails for good, what it had answered is kept, and asking again goes on from there.

    Parameters
    ----------
    url : str
        Where to post, ``http://`` or ``https://``.
    classes : sequence, optional
        Labels of a classifier, in the order of its probabilities; one number per row is the probability of the second
        of two. Left out, predictions are plain numbers.
    batch_rows : int
        Largest number of rows in one request.
    timeout : float
        Seconds for a whole exchange, from looking up the name to the last byte of the answer.
    max_bytes : int
        Largest answer to one request, unpacked. A row may take 32 kB of it at 500 rows in a request.
    retries : int
        How often a failed request is repeated.
    backoff : float
        Seconds to wait before the first repetition; doubled each time, and shortened at random by up to a half. A
        ``Retry-After`` of the endpoint is heeded instead.
    max_wait : float
        Longest wait; an endpoint that asks for more raises an error.
    headers : mapping of str to str, optional
        Sent with every request, e.g. a token; never shown.
    max_rows : int, optional
        Rows that may ever be sent, repeated ones included; :class:`gbce.BudgetSpentError` is raised before more are.
    cache_rows : int
        How many answers are kept; the least recently used go first.
    encode : callable, optional
        ``encode(columns, rows)`` returns another body: anything that JSON has, or text or bytes.
    decode : callable, optional
        ``decode(answer)`` returns the predictions out of the JSON of another answer.
    version : str, optional
        Which model answers there. Stores and explanations know a remote model by its address and this, without asking
        it: another version is another model.

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
        if not is_number(self.retries) or self.retries < 0 or self.retries != int(self.retries):
            raise ValueError(f"Remote: retries must be a whole number, 0 or more, not {self.retries!r}")
        headers = dict(self.headers or {})
        for name, value in headers.items():
            if not isinstance(value, str) or not value.isascii() or not value.isprintable():
                raise ValueError(f"Remote: the header {name!r} must be plain printable text")
        object.__setattr__(self, "headers", headers)
        if self.version is not None and not isinstance(self.version, str):
            raise TypeError(f"Remote: version must be a text such as '2024-05', not {self.version!r}")
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
            "a Remote counts its rows and keeps its answers in one process, and copies of it would pay twice: use "
            "n_jobs=1, its rows share requests anyway"
        )

    @property
    def usage(self) -> Usage:
        """What was sent so far."""
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
                elif key not in answers:
                    asked[key] = row
            self._require_affordable(len(asked))
            state.saved += len(keys) - len(asked)
            self._ask(columns, asked, answers)
        return _stack([answers[key] for key in keys])

    def _ask(self, columns: list[str], asked: dict[bytes, list[Any]], answers: dict[bytes, Answer]) -> None:
        """Ask about all rows, batch by batch, and keep each batch as it comes."""
        state, todo = self._state, list(asked)
        for start in range(0, len(todo), self.batch_rows):
            keys = todo[start : start + self.batch_rows]
            try:
                said = self._batch(columns, [asked[key] for key in keys])
            except (PredictionError, BudgetSpentError) as error:
                kept = f"{start:,} of {len(todo):,} rows were answered"
                advice = f"{kept} and are kept, asking again goes on from there" if start else kept
                raise type(error)(f"{error}; {advice}") from None
            for key, one in zip(keys, said, strict=True):
                answers[key] = state.cache[key] = one
            while len(state.cache) > self.cache_rows:
                state.cache.popitem(last=False)

    def _batch(self, columns: list[str], rows: list[list[Any]]) -> list[Answer]:
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
        """Send one body, again if need be."""
        state = self._state
        for attempt in range(int(self.retries) + 1):
            self._require_affordable(rows)
            state.requests += 1
            state.retries += attempt > 0
            state.sent += rows
            try:
                return send(self._client(), self.url, body, self.timeout, self.max_bytes)
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
                f"{rows:,} more rows for {public_url(self.url)} are not within max_rows = {self.max_rows:,}, of which "
                f"{sent:,} were sent before"
            )

    def _explain(self, reason: str) -> str:
        return f"{public_url(self.url)}: {redact(reason, secrets_in(self.url, self.headers or {}))}"

    @property
    def identity(self) -> str:
        """What tells this model from others: its address and version.

        User and password do not count. The query does, but may hold secrets: of it there is only a digest.
        """
        query = urlsplit(self.url).query
        asked = f"?{hashlib.sha256(query.encode()).hexdigest()[:_DIGEST_CHARACTERS]}" if query else ""
        return f"{public_url(self.url)}{asked}" + ("" if self.version is None else f" version {self.version}")

    def _client(self) -> Any:
        """Return the client, a fresh one after an exchange that failed."""
        state = self._state
        if state.client is None:
            weakref.finalize(self, _close, state)
        if state.client is None or state.client.is_closed:
            headers = {"Content-Type": "application/json", "Accept-Encoding": ACCEPTED, **(self.headers or {})}
            state.client = import_httpx().Client(headers=headers)
        return state.client


def _close(state: _RemoteState) -> None:
    state.client.close()


def _name_column(label: int) -> str:
    return f"x{label + 1}"


def _stack(answers: list[Answer]) -> Array:
    widths = {len(one) if isinstance(one, tuple) else 0 for one in answers}
    if len(widths) > 1:
        raise PredictionError(f"some rows were answered by lists of {max(widths)} numbers, others otherwise")
    return np.array(answers, dtype=float)


def from_remote(remote: Remote, space: Space, name: str | None) -> Predictor:
    """Wrap a remote model; it is shown frames, with the names of the features where the data are an array."""
    table = table_decoder(space)
    classes = None if remote.classes is None else tuple(remote.classes)
    return Predictor(
        name or "Remote", lambda x: remote(table(x)), classes=classes, plain=True, identity=remote.identity,
        by_row=False,
    )  # fmt: skip
