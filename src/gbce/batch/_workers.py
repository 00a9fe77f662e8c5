"""Run tasks in one process or in several that share what they need; those of a killed process are sent again, once."""

import os
import pickle
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from typing import Any, Generic, TypeVar

import joblib
import numpy as np

from gbce.base import Array

T = TypeVar("T")
Task = tuple[Any, ...]  # a key, and the arguments

_POLL_INTERVAL = 0.5  # seconds, by hand: how long a worker may outlive its parent process


@dataclass(frozen=True)
class Packed(Generic[T]):
    """A pickled object with the digest of its bytes; each process unpacks it once and keeps what it learns of models.

    ``packed`` is an array of bytes because joblib sends large arrays once, and not with every group.
    """

    digest: str
    packed: Array

    @classmethod
    def of(cls, thing: T) -> "Packed[T]":
        """Pickle an object; functions and classes that cannot be imported elsewhere travel by value."""
        packed = pickle.dumps(joblib.wrap_non_picklable_objects(thing, keep_wrapper=False))
        return cls(sha256(packed).hexdigest(), np.frombuffer(packed, dtype=np.uint8))

    def unpack(self) -> T:
        """Return the object, the same one whenever this process unpacks it again before another one."""
        found = _unpacked.get(self.digest)
        if found is None:
            found = pickle.loads(self.packed.tobytes())
            _unpacked.clear()
            _unpacked[self.digest] = found
        return found

    def __dask_tokenize__(self) -> str:
        return self.digest


_unpacked: dict[str, Any] = {}  # in a worker process: what it last unpacked
_watched: set[int] = set()  # in a worker process: its parent


def count_workers(n_jobs: int | None) -> int:
    """Return how many processes, or threads, joblib uses for ``n_jobs``."""
    return int(joblib.effective_n_jobs(n_jobs or 1))


def run_tasks(
    function: Callable[..., T], shared: Any, tasks: Iterator[Task], n_jobs: int | None, *, timed: bool
) -> Iterator[tuple[Any, T]]:
    """Yield the key and the result of ``function(shared, *arguments)`` for each task, in the order they finish.

    ``timed`` tasks are made one by one when a process is free for them. If a process is killed, the tasks that were
    under way are sent again, each once.
    """
    if count_workers(n_jobs) == 1:
        for key, *arguments in tasks:
            yield key, function(shared, *arguments)
        return
    packed, parent = Packed.of(shared), os.getpid()
    under_way: dict[Any, Task] = {}
    again: set[Any] = set()
    failed: list[Exception] = []

    def sent(waiting: Iterable[Task]) -> Iterator[Any]:
        try:
            for key, *arguments in waiting:
                under_way[key] = (key, *arguments)
                yield joblib.delayed(_run_packed)(function, packed, parent, key, arguments)
        except Exception as error:  # joblib takes tasks in a thread of its own, which must not end by an error
            failed.append(error)

    waiting: Iterable[Task] = tasks
    while True:
        try:
            for key, result in _open_pool(n_jobs, timed)(sent(waiting)):
                del under_way[key]
                yield key, result
            if failed:
                raise failed[0]
            return
        except _killed() as error:
            lost = [key for key in under_way if key in again]
            if lost:
                raise RuntimeError(
                    f"a worker process was killed while it explained group {lost[0]}, and again when it was sent to "
                    "another one; too little memory is the usual reason: use fewer n_jobs. Rows in a store are kept."
                ) from error
            again |= under_way.keys()
            warnings.warn(
                f"a worker process was killed; {len(under_way)} groups that were under way are sent again", stacklevel=2
            )
            waiting = chain(list(under_way.values()), tasks)


def _killed() -> tuple[type[BaseException], ...]:
    """Return the errors by which a pool reports the death of a worker."""
    from joblib.externals.loky.process_executor import BrokenProcessPool

    return (BrokenProcessPool,)


def _open_pool(n_jobs: int | None, timed: bool) -> joblib.Parallel:
    """Return a pool of joblib's backend that yields results as they finish, or all at the end where it cannot."""
    options: dict[str, Any] = {"n_jobs": n_jobs, "batch_size": 1}
    if timed:
        options["pre_dispatch"] = "n_jobs"
    backend, _ = joblib.parallel.get_active_backend()
    if isinstance(backend, joblib.parallel.LokyBackend):
        options |= {"initializer": _watch_parent, "initargs": (os.getpid(),)}
    if backend.supports_return_generator:
        options["return_as"] = "generator_unordered"
    return joblib.Parallel(**options)


def _watch_parent(parent: int) -> None:
    """Start a thread, once, that ends this worker process soon after its parent; not in a thread of the parent."""
    if os.getppid() == parent and parent not in _watched:
        _watched.add(parent)
        threading.Thread(target=_exit_after, args=(parent,), daemon=True).start()


def _exit_after(parent: int) -> None:
    """Exit when the parent process is gone: finished rows are in the store, unfinished files are cleared later."""
    while os.getppid() == parent:
        time.sleep(_POLL_INTERVAL)
    os._exit(1)


def _run_packed(
    function: Callable[..., T], packed: Packed[Any], parent: int, key: Any, arguments: list[Any]
) -> tuple[Any, T]:
    _watch_parent(parent)
    return key, function(packed.unpack(), *arguments)
