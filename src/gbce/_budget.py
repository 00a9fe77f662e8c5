"""What an explanation may spend: rows shown to models, and time.

A budget is asked before a model is: who can do with less asks :meth:`Budget.affords` and stops in good order, who
cannot runs into :class:`BudgetSpentError`.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from gbce._checks import is_number

__all__ = ["Budget", "BudgetSpentError", "budget_of"]


_ANY = 2**62
_SLACK = 2  # times the time that is left


class BudgetSpentError(RuntimeError):
    """A model was about to be asked more than ``max_model_rows`` or ``time_budget`` allow."""


@dataclass
class Budget:
    """Rows and time that are left; without limits everything is affordable.

    Parameters
    ----------
    max_rows : int, optional
        Rows, counted once for every model.
    deadline : float, optional
        On the clock of ``time.monotonic``.
    whole : Budget, optional
        The budget this one is a share of; it is charged as well.
    """

    max_rows: int | None = None
    deadline: float | None = None
    whole: "Budget | None" = None
    rows: int = 0
    seconds: float = field(default=0.0, repr=False)

    @property
    def limited(self) -> bool:
        """Whether there is any limit."""
        return self.max_rows is not None or self.deadline is not None

    def affords(self, rows: int) -> int:
        """Return how many of ``rows`` can be asked now: all, fewer, or none.

        Time is foreseen from what rows have cost so far; before the first one that is not known.
        """
        if self.max_rows is not None:
            rows = min(rows, self.max_rows - self.rows)
        return max(min(rows, self._in_time()), 0)

    def _in_time(self) -> int:
        """Rows that can be expected to be answered before the deadline."""
        if self.deadline is None:
            return _ANY
        left = self.deadline - time.monotonic()
        if left <= 0:
            return 0
        return int(left * self.rows / self.seconds) if self.seconds > 0 else _ANY

    @contextmanager
    def spending(self, rows: int) -> Iterator[None]:
        """Charge ``rows`` and the time the block takes, or refuse; a forecast of time has some slack."""
        within = self.max_rows is None or rows <= self.max_rows - self.rows
        if not within or rows > _SLACK * self._in_time():
            raise BudgetSpentError(f"{rows:,} more model rows are not within the budget")
        start = time.monotonic()
        try:
            yield
        finally:
            self._charge(rows, time.monotonic() - start)

    def share(self, fraction: float) -> "Budget":
        """Return a budget of a fraction of what is left."""
        if not self.limited:
            return self
        now = time.monotonic()
        return Budget(
            None if self.max_rows is None else int(fraction * (self.max_rows - self.rows)),
            None if self.deadline is None else now + fraction * (self.deadline - now),
            whole=self,
        )

    def untimed(self) -> "Budget":
        """Return the same budget without its deadline, for the few rows without which nothing can be reported."""
        left = None if self.max_rows is None else self.max_rows - self.rows
        return Budget(left, whole=self)

    def _charge(self, rows: int, seconds: float) -> None:
        self.rows += rows
        self.seconds += seconds
        if self.whole is not None:
            self.whole._charge(rows, seconds)


def budget_of(max_model_rows: Any, time_budget: Any) -> Budget:
    """Check what a user may give as limits; the clock starts now."""
    whole = is_number(max_model_rows) and max_model_rows == int(max_model_rows)
    if max_model_rows is not None and not (whole and max_model_rows >= 1):
        raise ValueError(f"max_model_rows must be a whole number of at least 1, not {max_model_rows!r}")
    if time_budget is not None and not (is_number(time_budget) and time_budget > 0):
        raise ValueError(f"time_budget must be a positive number of seconds, not {time_budget!r}")
    deadline = None if time_budget is None else time.monotonic() + float(time_budget)
    return Budget(None if max_model_rows is None else int(max_model_rows), deadline)
