"""Saved explanations, taken apart and put together again otherwise."""

import io
import json
import zipfile
import zlib
from pathlib import Path

import numpy as np

MANIFEST = "explanation.json"


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as box:
        return {name: box.read(name) for name in box.namelist()}


def manifest(path: Path) -> dict:
    return json.loads(members(path)[MANIFEST])


def summed(contents: dict[str, bytes]) -> dict[str, bytes]:
    """Return the members with checksums that fit them, as somebody would who means it."""
    try:
        text = json.loads(contents[MANIFEST])
    except (KeyError, ValueError, RecursionError):
        return contents
    if not isinstance(text, dict) or "checksums" not in text:
        return contents
    text["checksums"] = {name: zlib.crc32(content) for name, content in contents.items() if name != MANIFEST}
    return contents | {MANIFEST: json.dumps(text).encode()}


def boxed(path: Path, contents: dict[str, bytes], how: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", how) as box:
        for name, content in contents.items():
            box.writestr(name, content)
    return path


def altered(path: Path, **changes: bytes | None) -> Path:
    """Write a copy of the file with members replaced, added or (None) left out; ``__`` stands for a dot."""
    changed = members(path) | {name.replace("__", "."): content for name, content in changes.items()}
    kept = {name: content for name, content in changed.items() if content is not None}
    return boxed(path.with_name("altered.gbce"), summed(kept))


def restated(path: Path, **changes) -> Path:
    """Write a copy of the file whose manifest says something else."""
    return altered(path, explanation__json=json.dumps(manifest(path) | changes).encode())


def as_npy(array, **options) -> bytes:
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


def from_npy(content: bytes):
    return np.load(io.BytesIO(content))
