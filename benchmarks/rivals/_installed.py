"""Packages that are asked for where they are used, and missed in a sentence."""

from importlib.util import find_spec

from benchmarks.rivals._protocol import CannotRunError

__all__ = ["require"]


def require(module: str, package: str) -> None:
    """Say how to install what is missing.

    Raises
    ------
    CannotRunError
        If the module cannot be found.
    """
    if find_spec(module) is None:
        raise CannotRunError(f"is not installed: pip install {package}")
