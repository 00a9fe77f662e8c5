"""Loops that numba compiles where it is installed (the extra ``trees``), once they have run long enough to pay.

numba takes about a second to be imported, and some more the first time that it compiles a loop on a machine: more than
most explanations. So numpy does the work until there was enough of it, and always where numba is not there. Both give
the same bits, since a loop adds in the order in which numpy does.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any

__all__ = ["Loop"]

# Two seconds of numpy, by hand: tens of ns for a leaf, and as long as for some thousands of leaves for a call itself.
_PATIENCE = 50_000_000
_CALL = 5_000


class Loop:
    """A loop over leaves that is worth compiling when there is much to do.

    Parameters
    ----------
    function : callable
        In the part of Python that numba knows, at the top of a module.
    patience : int
        Leaves after which it is compiled, those that a call counts as included.

    Examples
    --------
    >>> def add(x):
    ...     return x + 1
    >>> Loop(add).after(4) is None
    True
    """

    def __init__(self, function: Callable[..., Any], patience: int = _PATIENCE) -> None:
        self.function, self.patience, self.done = function, patience, 0

    def hurry(self) -> None:
        """Have it compiled from now on, as after much work."""
        self.done = max(self.done, self.patience)

    def after(self, leaves: int) -> Callable[..., Any] | None:
        """Count a call, and return the compiled loop if there was enough work before and there is a compiler."""
        if self.done < self.patience:
            self.done += _CALL + leaves
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
