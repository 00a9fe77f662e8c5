"""A limit on the seconds of one core that something may take, and the memory that a process took."""

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["at_most", "peak_memory"]


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


def peak_memory() -> float:
    """Return the largest resident memory of this process so far, in megabytes, on Linux."""
    # ru_maxrss would begin with that of the parent process
    status = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(float(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024
