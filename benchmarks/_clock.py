"""A limit on the seconds of one core that something may take."""

import contextlib
import signal
from collections.abc import Iterator
from typing import Any

__all__ = ["at_most"]


@contextlib.contextmanager
def at_most(seconds: float, error: BaseException) -> Iterator[None]:
    """Raise an error in the middle of what goes on after so many seconds of one core, or at once if none are left."""

    def stop(*_: Any) -> None:
        raise error

    if seconds <= 0:
        raise error
    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)
