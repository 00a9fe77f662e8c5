"""Plain data in one file: a zip of arrays, and one member of JSON that knows their checksums.

A file may come from anybody. Reading one runs nothing from it, unpacks no more than was allowed, and no more than it
declared beforehand.
"""

import contextlib
import json
import math
import os
import re
import uuid
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from gbce.base import Array

__all__ = [
    "MANIFEST",
    "Archive",
    "FileError",
    "TooLargeError",
    "clear_leftovers",
    "is_partial",
    "to_json",
    "whole_file",
    "write_archive",
]

# --- plain data in one file ------------------------------------------------------------------------------------------

MANIFEST = "explanation.json"
_CHECKSUMS = "checksums"
_COMPRESSION = 1  # zlib's quickest
_CHUNK = 1 << 20  # bytes that are unpacked at a time: one MiB, by convention
_JSON_GROWTH = 20  # at worst, from text to objects: "[]," has 3 bytes, and takes a list of 56 and a reference of 8
_USUAL_BYTES = 500_000_000  # enough for a pool of 60,000 points in 500 columns
_USUAL_RATIO = 10  # draws that vary are packed at best so far: a large file within it is no bomb


class FileError(ValueError):
    """A file is not an explanation, is damaged, too large to unpack, or of a format that this version does not read."""


class TooLargeError(ValueError):
    """More would be unpacked than is allowed."""


def write_archive(
    file: BinaryIO, manifest: Mapping[str, Any], arrays: Mapping[str, Array], plain: Callable[[Any], Any]
) -> None:
    """Write arrays by their names, and JSON; ``plain`` turns what is not representable in JSON into what is."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=_COMPRESSION) as box:
        for name, array in arrays.items():
            with box.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
        checksums = {info.filename: info.CRC for info in box.infolist()}
        box.writestr(MANIFEST, json.dumps({**manifest, _CHECKSUMS: checksums}, default=plain))


class Archive:
    """A file that is being read: its manifest at once, its arrays when they are asked for.

    Parameters
    ----------
    file : file
        Open for reading.
    max_bytes : int, optional
        How much it may take unpacked; 500 MB, or ten times its size if that is more, when left out. ``limit`` has the
        number that holds.
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
            raise ValueError(f"its {MANIFEST} is no mapping")
        self.manifest: dict[str, Any] = manifest

    def arrays(self, needed: Collection[str], possible: Collection[str]) -> dict[str, Array]:
        """Read all arrays; others than these are refused, and those of another file."""
        names = set(self._members) - {MANIFEST}
        known, must = ({f"{name}.npy" for name in some} for some in ({*needed, *possible}, needed))
        for wrong, what in ((must - names, "lacks"), (names - known, "has a member that is not known:")):
            if wrong:
                raise ValueError(f"it {what} {min(wrong)}")
        if self.manifest[_CHECKSUMS] != {name: self._members[name].CRC for name in names}:
            raise ValueError("its arrays are not those that it was written with")
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
            raise ValueError(f"{name} is packed in a way that is not known")
        return self._box.open(info)

    def _read_array(self, name: str) -> Array:
        """Read an array whose shape agrees with the size of its member, before memory is taken for it."""
        size = self._members[name].file_size
        with self._open_member(name) as member:
            if np.lib.format.read_magic(member) != (1, 0):
                raise ValueError(f"{name} is an array of an unknown version")
            shape, by_column, dtype = np.lib.format.read_array_header_1_0(member)
            if dtype.kind not in "fiub":
                raise ValueError(f"{name} holds {dtype}, where numbers belong (an object would be a pickle)")
            if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != size - member.tell():
                raise ValueError(f"{name} has the shape {shape}, which is not its size")
            flat = np.empty(math.prod(shape), dtype)
            view, start = flat.view(np.uint8), 0
            for chunk in _read_chunks(member, flat.nbytes):
                view[start : start + len(chunk)] = np.frombuffer(chunk, np.uint8)
                start += len(chunk)
            if dtype.kind == "b" and (view > 1).any():
                raise ValueError(f"{name} holds what is neither true nor false")
        return flat.reshape(shape[::-1]).T if by_column else flat.reshape(shape)


def _read_chunks(member: Any, size: int) -> Iterator[bytes]:
    """Yield the ``size`` bytes of a member part by part; at the last of them zipfile compares the checksum."""
    left = size
    while left:
        chunk = member.read(min(left, _CHUNK))
        if not chunk:
            raise ValueError(f"{member.name} ends too early")
        left -= len(chunk)
        yield chunk


# --- files that are there whole or not at all, whatever dies in between, and what a killed process -------------------

try:
    import fcntl
except ImportError:  # Windows: nothing tells whether a writer is alive, so nothing is cleared
    fcntl = None  # type: ignore[assignment]

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


# --- plain data as strict JSON, as a text or in a file that is there whole or not at all -----------------------------


def to_json(content: Mapping[str, Any], path: str | Path | None = None) -> str | Path:
    """Return plain data as a text of strict JSON, or write it to a file and return its path."""
    text = json.dumps(content, allow_nan=False, indent=1)
    if path is None:
        return text
    path = Path(path)
    with whole_file(path) as file:
        file.write(text.encode())
    return path
