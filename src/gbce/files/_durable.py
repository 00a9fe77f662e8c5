"""Files that are there whole or not at all, whatever dies in between, and what a killed process leaves behind."""

import contextlib
import os
import re
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

try:
    import fcntl
except ImportError:  # Windows: nothing tells whether a writer is alive, so nothing is cleared
    fcntl = None  # type: ignore[assignment]

__all__ = ["clear_leftovers", "is_partial", "whole_file"]

_PARTIAL = re.compile(r"\.(.+)\.[0-9a-f]{32}\.part")


@contextlib.contextmanager
def whole_file(path: Path, *, new: bool = False) -> Iterator[BinaryIO]:
    """Open a file that takes the place of ``path`` when all of it is on the disk, and never otherwise.

    It is written under another name, beside it; that file is locked for as long as its writer lives.

    Raises
    ------
    FileExistsError
        If it is to be ``new``, and ``path`` is there in the end: of several writers one has it, whole.
    """
    clear_leftovers(path.parent, path.name.__eq__)
    partial, file = _open_partial(path)
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())  # the name must not be on the disk before what it names
            if fcntl is None:
                file.close()
            if new:
                _take_name(partial, path)
            else:
                partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def is_partial(name: str) -> bool:
    """Whether a file of this name is one that is being written, or that was."""
    return _PARTIAL.fullmatch(name) is not None


def clear_leftovers(folder: Path, ours: Callable[[str], bool]) -> None:
    """Delete what killed processes have left of files with names that are ``ours``; what a live one writes stays."""
    if fcntl is None:
        return
    names: list[str] = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:  # one may write where one may not look
        names = [entry.name for entry in entries if is_partial(entry.name) and entry.is_file(follow_symlinks=False)]
    for name in names:
        meant = _PARTIAL.fullmatch(name)
        if meant and ours(meant[1]):
            # it may be gone meanwhile, locked by its writer, or on a disk without locks
            with contextlib.suppress(OSError), (folder / name).open("r+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                (folder / name).unlink()


def _open_partial(path: Path) -> tuple[Path, BinaryIO]:
    """Begin a file beside ``path`` and lock it; begin again if it was cleared before it was locked."""
    while True:
        partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
        file: Any = partial.open("xb")
        if fcntl is None:
            return partial, file
        with contextlib.suppress(OSError):  # a disk without locks
            fcntl.flock(file, fcntl.LOCK_EX)
        if partial.exists():
            return partial, file
        file.close()


def _take_name(partial: Path, path: Path) -> None:
    """Give a file a name that nobody has, or raise: unlike a look beforehand, a link tells in one step."""
    try:
        os.link(partial, path)
    except FileExistsError:
        raise
    except OSError:  # a disk without hard links: the file is small, and may be cut short by a kill there
        with path.open("xb") as file:
            file.write(partial.read_bytes())
    partial.unlink()


def _sync_folder(folder: Path) -> None:
    """Bring the new name to the disk, where a folder can be opened for that."""
    with contextlib.suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)
