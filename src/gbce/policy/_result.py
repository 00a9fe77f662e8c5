"""What the results of this room have in common: sentences, plain data and JSON."""

from pathlib import Path
from typing import Any

from gbce.files import to_json

__all__ = ["PolicyResult"]


class PolicyResult:
    """A result as plain data, which ``print`` shows as sentences."""

    @property
    def sentences(self) -> list[str]:
        """What was found, in sentences."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data: strings, finite numbers, booleans, None, lists and mappings."""
        raise NotImplementedError

    def __str__(self) -> str:
        return "\n".join(self.sentences)

    def to_json(self, path: str | Path | None = None) -> str | Path:
        """Return :meth:`to_dict` as strict JSON, or write it to ``path`` atomically and return the path."""
        return to_json(self.to_dict(), path)
