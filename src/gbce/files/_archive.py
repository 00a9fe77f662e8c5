"""Zip archives of arrays with a JSON manifest of their checksums, and atomic writes of files.

Files are untrusted: reading one runs no code from it, and unpacks no more than is allowed and no more than it declares.
A file is replaced only when the new one is complete on disk; leftovers of killed processes are cleared.
"""

import contextlib
import errno
import json
import math
import os
import platform
import re
import uuid
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from gbce.base import Array

try:
    import fcntl
except ImportError:  # Windows: whether a writer is alive is unknown, so nothing is cleared
    fcntl = None  # type: ignore[assignment]

MANIFEST = "explanation.json"
_CHECKSUMS = "checksums"
_COMPRESSION = 1  # zlib's fastest level
_CHUNK = 1 << 20  # bytes that are unpacked at a time: one MiB, by convention
_JSON_GROWTH = 20  # at worst, from text to objects: "[]," has 3 bytes, its list 56 and the reference 8
_USUAL_BYTES = 500_000_000  # enough for a pool of 60,000 points in 500 columns
_USUAL_RATIO = 10  # of compression, at most, for draws that vary: a large file within it is no zip bomb
_LONGEST_NOTE = 200  # bytes of a lock that are read: a process and its machine
_PARTIAL = re.compile(r"\.(.+)\.[0-9a-f]{32}\.part")

# --- zip archives of arrays ------------------------------------------------------------------------------------------


class FileError(ValueError):
    """A file is not an explanation, is damaged, is too large to unpack, or has an unsupported format."""


class TooLargeError(ValueError):
    """The unpacked size exceeds the limit."""


def write_archive(
    file: BinaryIO, manifest: Mapping[str, Any], arrays: Mapping[str, Array], plain: Callable[[Any], Any]
) -> None:
    """Write named arrays and a JSON manifest; ``plain`` converts values that JSON cannot represent."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=_COMPRESSION) as box:
        for name, array in arrays.items():
            with box.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
        checksums = {info.filename: info.CRC for info in box.infolist()}
        box.writestr(MANIFEST, json.dumps({**manifest, _CHECKSUMS: checksums}, default=plain))


class Archive:
    """An archive open for reading: the manifest at once, the arrays on request.

    ``limit`` is the largest unpacked size in bytes: ``max_bytes``, or by default the larger of 500 MB and ten times
    the size of the file.
    """

    def __init__(self, file: BinaryIO, max_bytes: int | None = None) -> None:
        self._box = zipfile.ZipFile(file)
        self._members = {info.filename: info for info in self._box.infolist()}
        self._require_small(file, max_bytes)
        if MANIFEST not in self._members:
            raise ValueError(f"there is no {MANIFEST} in it")
        with self._open_member(MANIFEST) as member:
            manifest = json.loads(b"".join(_read_chunks(member, self._members[MANIFEST].file_size)))
        if not isinstance(manifest, dict):
            raise ValueError(f"its {MANIFEST} is not a mapping")
        self.manifest: dict[str, Any] = manifest

    def arrays(self, needed: Collection[str], possible: Collection[str]) -> dict[str, Array]:
        """Read all arrays; raise for missing or unknown ones, and for those of another file."""
        names = set(self._members) - {MANIFEST}
        known, must = ({f"{name}.npy" for name in some} for some in ({*needed, *possible}, needed))
        for wrong, what in ((must - names, "lacks"), (names - known, "has an unknown member:")):
            if wrong:
                raise ValueError(f"it {what} {min(wrong)}")
        if self.manifest[_CHECKSUMS] != {name: self._members[name].CRC for name in names}:
            raise ValueError("its arrays do not match its checksums")
        return {name.removesuffix(".npy"): self._read_array(name) for name in sorted(names)}

    def _require_small(self, file: BinaryIO, max_bytes: int | None) -> None:
        listed = self._box.infolist()
        if len(self._members) < len(listed):
            raise ValueError("a member occurs twice")
        size = file.seek(0, 2)
        self.limit = limit = max(_USUAL_BYTES, _USUAL_RATIO * size) if max_bytes is None else max_bytes
        takes = sum(info.file_size * (_JSON_GROWTH if info.filename == MANIFEST else 1) for info in listed)
        if takes > limit:
            raise TooLargeError(
                f"it would take up to {takes:,} bytes unpacked, more than the {limit:,} that are allowed; if you trust "
                f"it, load it with max_bytes={takes}"
            )

    def _open_member(self, name: str) -> Any:
        info = self._members[name]
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"{name} has an unknown compression")
        return self._box.open(info)

    def _read_array(self, name: str) -> Array:
        """Read an array after checking that its shape agrees with its size, before memory is allocated."""
        size = self._members[name].file_size
        with self._open_member(name) as member:
            if np.lib.format.read_magic(member) != (1, 0):
                raise ValueError(f"{name} has an unknown version of the npy format")
            shape, by_column, dtype = np.lib.format.read_array_header_1_0(member)
            if dtype.kind not in "fiub":
                raise ValueError(f"{name} holds {dtype} instead of numbers (an object would be a pickle)")
            if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != size - member.tell():
                raise ValueError(f"{name} has the shape {shape}, which does not match its size")
            flat = np.empty(math.prod(shape), dtype)
            view, start = flat.view(np.uint8), 0
            for chunk in _read_chunks(member, flat.nbytes):
                view[start : start + len(chunk)] = np.frombuffer(chunk, np.uint8)
                start += len(chunk)
            if dtype.kind == "b" and (view > 1).any():
                raise ValueError(f"{name} holds values that are neither true nor false")
        return flat.reshape(shape[::-1]).T if by_column else flat.reshape(shape)


def _read_chunks(member: Any, size: int) -> Iterator[bytes]:
    """Yield the ``size`` bytes of a member in chunks; zipfile verifies the checksum after the last."""
    left = size
    while left:
        chunk = member.read(min(left, _CHUNK))
        if not chunk:
            raise ValueError(f"{member.name} ends too early")
        left -= len(chunk)
        yield chunk


# --- atomic writes ---------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def whole_file(path: Path, *, beside: Path | None = None) -> Iterator[BinaryIO]:
    """Open a temporary file, locked while its writer lives, that replaces ``path`` once it is complete on disk.

    It is in the folder of ``path``, and a pipe, a device or the file that a link names is written to as it is; or in
    another folder of the same disk, ``beside``, as those of a store, in which pipes and links are replaced.
    """
    if beside is None and path.exists() and not path.is_file():
        with path.open("wb") as device:
            yield device
        return
    path = path.resolve() if beside is None and path.is_symlink() else path
    folder = path.parent if beside is None else beside
    clear_leftovers(folder, path.name.__eq__)
    try:
        partial, file = _open_partial(folder / path.name)
    except OSError as error:  # about the name that was asked for
        raise OSError(error.errno, error.strerror, str(path)) from None
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())  # the content must be on disk before the name
            if fcntl is None:
                file.close()
            partial.replace(path)
    except BaseException as error:
        partial.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno and error.filename is None:  # a full disk
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise
    _sync_folder(path.parent)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock on a file, or raise BlockingIOError if another run holds it; it ends with the process that holds it.

    There are no such locks on Windows and on some network disks.
    """
    with path.open("a+b") as file:
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                holder = file.read(_LONGEST_NOTE).decode(errors="replace").strip()
                raise BlockingIOError(holder or "another process") from None
            except OSError as error:
                if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.EINVAL):  # but for a disk without locks
                    raise
        file.truncate(0)
        file.write(f"process {os.getpid()} on {platform.node()}".encode())
        file.flush()
        yield


def is_partial(name: str) -> bool:
    """Whether a file of this name is temporary, of a live or a killed writer."""
    return _PARTIAL.fullmatch(name) is not None


def clear_leftovers(folder: Path, ours: Callable[[str], bool]) -> None:
    """Delete temporary files that killed processes have left for names that are ``ours``."""
    if fcntl is None:
        return
    names: list[str] = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:  # a folder may be writable but not readable
        names = [entry.name for entry in entries if is_partial(entry.name) and entry.is_file(follow_symlinks=False)]
    for name in names:
        final = _PARTIAL.fullmatch(name)
        if final and ours(final[1]):
            # it may be gone by now, locked by its writer, or on a disk without locks
            with contextlib.suppress(OSError), (folder / name).open("r+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                (folder / name).unlink()


def _open_partial(path: Path) -> tuple[Path, BinaryIO]:
    """Create a temporary file beside ``path`` and lock it; retry if it was cleared before it was locked."""
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


def _sync_folder(folder: Path) -> None:
    """Flush the new name to disk, where a folder can be opened for that."""
    with contextlib.suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


# --- strict JSON -----------------------------------------------------------------------------------------------------


def to_json(content: Mapping[str, Any], path: str | Path | None = None) -> str | Path:
    """Return plain data as a string of strict JSON, or write it to a file atomically and return its path."""
    text = json.dumps(content, allow_nan=False, indent=1)
    if path is None:
        return text
    path = Path(path)
    with whole_file(path) as file:
        file.write(text.encode())
    return path
