"""One request over HTTP: sent, sent again with growing pauses, or given up with the reason."""

import base64
import email.utils
import random
import re
import time
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from gbce.predictors._exchange import UnreadableError, exchange, import_httpx, public_url

__all__ = ["FatalError", "RetryableError", "pause", "public_url", "redact", "secrets_in", "send"]


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
