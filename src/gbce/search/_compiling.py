"""Loops that numba compiles where it is installed (the extra ``trees``), once they have run long enough to pay.

numba takes about a second to be imported, and some more the first time that it compiles a loop on a machine: more than
most explanations. So numpy does the work until there was enough of it, and always where numba is not there. Both give
the same bits, since a loop adds in the order in which numpy does.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any

__all__ = ["Loop"]


class Loop:
    """A loop over arrays that is worth compiling when there is much to do.

    Parameters
    ----------
    function : callable
        In the part of Python that numba knows, at the top of a module.
    patience : int
        Work after which it is compiled, in whatever unit :meth:`after` counts.

    Examples
    --------
    >>> def add(x):
    ...     return x + 1
    >>> loop = Loop(add, patience=10)
    >>> loop.after(4) is None
    True
    """

    def __init__(self, function: Callable[..., Any], patience: int) -> None:
        self.function, self.patience, self.done = function, patience, 0

    def hurry(self) -> None:
        """Have it compiled from now on, as after much work."""
        self.done = max(self.done, self.patience)

    def after(self, work: int) -> Callable[..., Any] | None:
        """Count some work, and return the compiled loop if there was enough of it and there is a compiler."""
        if self.done < self.patience:
            self.done += work
            return None
        return self._compiled

    @cached_property
    def _compiled(self) -> Callable[..., Any] | None:
        try:
            import numba
        except ImportError:  # not installed, or not made for this numpy
            return None
        if numba.config.DISABLE_JIT:  # Python itself would run the loop, slower than numpy
            return None
        try:
            return numba.njit(cache=True, nogil=True)(self.function)
        except RuntimeError:  # no folder to keep it in
            return numba.njit(nogil=True)(self.function)
