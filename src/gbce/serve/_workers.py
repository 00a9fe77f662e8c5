"""Limits of a service, and its worker processes, which open the model each, and are replaced when they are lost.

Messages are JSON in both directions, so that the server never unpickles what a worker says.
"""

import asyncio
import json
import logging
import math
import multiprocessing
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Protocol


@dataclass(frozen=True)
class Limits:
    """Limits of a service; all chosen by hand, and options of ``gbce serve``.

    Parameters
    ----------
    batch_rows : int
        Rows in one request.
    body_bytes : int
        Size of a request.
    model_rows : int
        Model rows for each explained row; a request may ask for fewer.
    seconds : float
        Time of a request; models are not called after it. A request may ask for less.
    waiting : int
        Requests waiting for a worker; beyond them the answer is 429.
    memory : int
        Bytes of data of each worker, where the system can limit them.
    """

    batch_rows: int = 100
    body_bytes: int = 1_000_000
    model_rows: int = 200_000
    seconds: float = 30.0
    waiting: int = 32
    memory: int = 4 << 30


@dataclass(frozen=True)
class Patience:
    """How long the server waits for others, by hand."""

    # Work between model calls is not limited by ``seconds``: a worker is ended at twice the time and this much more.
    overtime: float = 10.0
    body: float = 10.0  # seconds for the body of a request to arrive
    restart: float = 1.0  # pause before a worker that could not be started is tried again, doubled up to the longest
    longest_restart: float = 60.0
    # Share of the memory limit at which a worker is replaced between two requests: fragmentation never shrinks, and one
    # more request needs room.
    grown: float = 0.8

    def of_worker(self, seconds: float) -> float:
        """Return the seconds after which a worker is taken to hang."""
        return 2.0 * seconds + self.overtime


PATIENCE = Patience()


class RequestError(Exception):
    """A request that is refused, with its HTTP status and the reason as a sentence."""

    def __init__(self, status: int, reason: str, retry_after: int | None = None) -> None:
        super().__init__(reason)
        self.status, self.reason, self.retry_after = status, reason, retry_after


_LOG = logging.getLogger("gbce.serve")
_PACE = 0.2  # weight of the last request in the mean of their seconds, by hand
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")

Message = tuple[dict[str, Any], bytes]


class Desk(Protocol):
    """What a worker opens: it describes its questions and answers them."""

    def document(self) -> dict[str, Any]:
        """Return the OpenAPI document."""
        ...

    def answer(self, asked: dict[str, Any]) -> Message:
        """Return facts about the answer (its ``status`` among them), and its content."""
        ...


Opener = Callable[[Limits], Desk]


# --- inside a worker -------------------------------------------------------------------------------------------------


def work(connection: Connection, opener: Opener, limits: Limits, level: int) -> None:
    """Open the model, then answer requests until the server is gone."""
    for one in (signal.SIGINT, signal.SIGTERM):  # the server ends its workers when they have finished
        signal.signal(one, signal.SIG_IGN)
    _limit_memory(limits.memory)
    logging.basicConfig(stream=sys.stderr, format="%(name)s: %(message)s", level=logging.WARNING)
    logging.getLogger("gbce").setLevel(level)
    try:
        desk = opener(limits)
        opening: Message = {"ready": True}, _dump(desk.document())
    except MemoryError:
        opening = {"ready": False, "reason": f"the model and its table need more memory than {limits.memory:,} B"}, b""
    except Exception as error:
        _LOG.debug("the model could not be opened", exc_info=True)
        opening = {"ready": False, "reason": " ".join(str(error).split()) or type(error).__name__}, b""
    try:
        _send(connection, opening)
        while opening[0]["ready"]:
            head, body = desk.answer(json.loads(connection.recv_bytes()))
            head["leaving"] = head.get("leaving", False) or _count_memory() > PATIENCE.grown * limits.memory
            _send(connection, (head, body))
            if head["leaving"]:
                return
    except (EOFError, OSError):  # the server is gone
        return


def _limit_memory(size: int) -> None:
    """Limit the data of this process, where the system can."""
    try:
        import resource
    except ImportError:  # Windows
        return
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (size if most == resource.RLIM_INFINITY else min(size, most), most))


def _count_memory() -> int:
    """Return the bytes that this process has in memory; 0 where the system does not say."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def _dump(content: Any) -> bytes:
    # the escape of a lone surrogate is that of JSON
    return json.dumps(content, ensure_ascii=False, allow_nan=False).encode("utf-8", "backslashreplace")


def _send(connection: Connection, message: Message) -> None:
    connection.send_bytes(_dump(message[0]))
    connection.send_bytes(message[1])


# --- in the server ---------------------------------------------------------------------------------------------------


class Reply:
    """What a worker answered: facts about it, and its content as JSON."""

    def __init__(self, head: dict[str, Any], content: bytes) -> None:
        self.head, self.content = head, content

    @property
    def status(self) -> int:
        """The HTTP status."""
        return int(self.head["status"])


class Ticket:
    """A request that waits for a worker, or is worked on."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self.message = _dump(asked)
        self.result: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self.begun = asyncio.Event()

    def fail(self, error: RequestError) -> None:
        """Refuse the request, if somebody still waits for it."""
        if not self.result.done():
            self.result.set_exception(error)


class _LostError(Exception):
    """A worker is gone; the reason is its text, empty if it left as it should."""


class _Worker:
    """One process and the connection to it."""

    def __init__(self, opener: Opener, limits: Limits, level: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        # a daemon, so that the interpreter does not wait for it
        self.process = context.Process(
            target=work, args=(theirs, opener, limits, level), name="gbce-worker", daemon=True
        )
        self.process.start()
        theirs.close()

    def receive(self) -> Message:
        return json.loads(self.connection.recv_bytes()), self.connection.recv_bytes()

    def end(self) -> None:
        """End the process: nobody waits for what it does."""
        self.process.kill()
        self.process.join()
        self.connection.close()


class Pool:
    """Workers, each of which explains one request at a time, and the requests that wait for them."""

    def __init__(self, opener: Opener, workers: int, limits: Limits) -> None:
        self.opener, self.workers, self.limits = opener, workers, limits
        self.document: bytes | None = None
        self.restarts = 0
        self.failure = ""
        # what the library says of every row is for those who look for errors
        self._level = logging.DEBUG if _LOG.isEnabledFor(logging.DEBUG) else logging.WARNING
        self._at_work: dict[int, _Worker] = {}
        self._running = 0
        self._seconds = 0.0
        self._waiting: deque[Ticket] = deque()
        self._arrived = asyncio.Condition()
        # a thread of each worker waits for its messages; one more, so that a hanging one delays no other
        self._threads = ThreadPoolExecutor(2 * workers, "gbce-pipe")
        self._tasks: list[asyncio.Task[None]] = []
        self.changed = asyncio.Event()  # set when the first worker is ready, or cannot be

    def start(self) -> None:
        """Start the workers; several of them share the cores."""
        if self.workers > 1:
            for name in _THREADS:
                os.environ.setdefault(name, "1")
        self._tasks = [asyncio.create_task(self._keep(k)) for k in range(self.workers)]

    async def close(self) -> None:
        """End the workers, which have nothing to do any more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._threads.shutdown(wait=False)

    @property
    def ready(self) -> int:
        """Workers that have opened the model and are alive."""
        return sum(worker.process.is_alive() for worker in self._at_work.values())

    @property
    def running(self) -> int:
        """Requests in progress."""
        return self._running

    @property
    def waiting(self) -> int:
        """Requests waiting for a worker."""
        return sum(not one.result.done() for one in self._waiting)

    @property
    def retry_after(self) -> int:
        """Seconds after which a request that is refused now may find a place, at least one."""
        ahead = (self.waiting + self._running) / self.workers
        return max(1, min(math.ceil(ahead * self._seconds), math.ceil(self.limits.seconds)))

    async def submit(self, asked: dict[str, Any]) -> Ticket:
        """Queue a request, or refuse it if none is ready or too many wait."""
        if self.document is None or not self._at_work:
            raise RequestError(503, "no worker is ready: the model is being loaded", self.retry_after)
        if self.waiting >= self.limits.waiting and self._running + self.waiting >= self.workers:
            raise RequestError(429, f"{self.waiting} requests are waiting already: try again later", self.retry_after)
        ticket = Ticket(asked)
        async with self._arrived:
            self._waiting.append(ticket)
            self._arrived.notify()
        return ticket

    # --- one worker after the other in one place

    async def _keep(self, place: int) -> None:
        """Keep a worker in a place as long as the service runs."""
        pause = PATIENCE.restart
        while True:
            worker = await self._call(_Worker, self.opener, self.limits, self._level)
            try:
                reason = await self._open(worker)
                if reason:
                    if self.document is None:
                        self.failure = reason
                        self.changed.set()
                        return
                    _LOG.error("a worker could not be started: %s", reason)
                    await asyncio.sleep(pause)
                    pause = min(2.0 * pause, PATIENCE.longest_restart)
                    continue
                pause = PATIENCE.restart
                self._at_work[place] = worker
                self.changed.set()
                await self._feed(worker)
            except _LostError as lost:
                if str(lost):
                    _LOG.warning("%s; another one is started", lost)
                self.restarts += 1
            finally:
                self._at_work.pop(place, None)
                worker.end()

    async def _open(self, worker: _Worker) -> str:
        """Wait until a worker has opened the model; return why it could not."""
        try:
            head, content = await self._call(worker.receive)
        except (EOFError, OSError):
            return "a worker ended while it opened the model: it was killed, or there is not enough memory"
        if head["ready"]:
            self.document = content
        return "" if head["ready"] else str(head["reason"])

    async def _feed(self, worker: _Worker) -> None:
        """Give a worker one request after the other until it is lost."""
        while True:
            async with self._arrived:
                await self._arrived.wait_for(lambda: bool(self._waiting))
                ticket = self._waiting.popleft()
            if ticket.result.done():  # nobody waits for it any more
                continue
            self._running += 1
            ticket.begun.set()
            start = time.monotonic()
            try:
                leaving = await self._exchange(worker, ticket)
            except _LostError:
                raise
            except Exception as error:  # a defect must cost one request, and not the place of a worker
                _LOG.exception("a request could not be passed to a worker, or its answer could not be read")
                ticket.fail(RequestError(500, "the explanation failed; the log of the service has the reason"))
                raise _LostError("a worker's answer could not be read") from error
            finally:
                self._running -= 1
                took = time.monotonic() - start
                self._seconds = took if not self._seconds else (1.0 - _PACE) * self._seconds + _PACE * took
            if leaving:
                raise _LostError("a worker reached its memory limit")

    async def _exchange(self, worker: _Worker, ticket: Ticket) -> bool:
        """Have one request answered; return whether the worker leaves afterwards."""
        try:
            await self._call(worker.connection.send_bytes, ticket.message)
        except OSError:
            async with self._arrived:  # it had gone before: the request is the next one's
                self._waiting.appendleft(ticket)
                self._arrived.notify()
            raise _LostError("a worker had ended") from None
        try:
            patience = PATIENCE.of_worker(self.limits.seconds)
            head, content = await asyncio.wait_for(self._call(worker.receive), patience)
        except TimeoutError:
            ticket.fail(RequestError(504, f"there was no answer within {patience:g} s"))
            raise _LostError("a worker hung") from None
        except (EOFError, OSError):
            ticket.fail(
                RequestError(503, "the process that explained this request ended: it was killed, or ran out of memory")
            )
            raise _LostError("a worker ended while it explained a request") from None
        if not ticket.result.done():
            ticket.result.set_result(Reply(head, content))
        return bool(head["leaving"])

    async def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)
