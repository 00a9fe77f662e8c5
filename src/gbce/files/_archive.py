"""Plain data in one file: a zip of arrays, and one member of JSON that knows their checksums.

A file may come from anybody. Reading one runs nothing from it, unpacks no more than was allowed, and no more than it
declared beforehand.
"""

import json
import math
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, BinaryIO

import numpy as np

from gbce.base import Array

__all__ = ["MANIFEST", "Archive", "FileError", "TooLargeError", "write_archive"]

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
