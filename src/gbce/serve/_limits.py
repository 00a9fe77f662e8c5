"""What a request may take, and how a request is refused."""

from dataclasses import dataclass


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
        Requests that wait for a worker; beyond them the answer is 429.
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
