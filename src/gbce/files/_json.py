"""Plain data as strict JSON, as a text or in a file that is there whole or not at all."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gbce.files._durable import whole_file

__all__ = ["to_json"]


def to_json(content: Mapping[str, Any], path: str | Path | None = None) -> str | Path:
    """Return plain data as a text of strict JSON, or write it to a file and return its path."""
    text = json.dumps(content, allow_nan=False, indent=1)
    if path is None:
        return text
    path = Path(path)
    with whole_file(path) as file:
        file.write(text.encode())
    return path
