"""The list of methods, in the order of tables."""

from benchmarks.rivals import own
from benchmarks.rivals._protocol import Method

__all__ = ["METHODS"]

METHODS: tuple[Method, ...] = (*own.METHODS,)
