"""What explaining many rows may spend: for each row, and in all."""

from dataclasses import dataclass
from typing import Any

from gbce.budget import Budget, BudgetSpentError, budget_of, deadline_in, require_rows, require_seconds

__all__ = ["Allowance"]

_MODELS_SHARE = 0.9  # of the whole time, chosen by hand: the rest is for computing figures when models have answered


@dataclass(frozen=True)
class Allowance:
    """Limits for each row and for all of them.

    Parameters
    ----------
    rows : int, optional
        Model rows for each row.
    seconds : float, optional
        For each row.
    whole : Budget
        For all rows; its clock is running.
    """

    rows: int | None
    seconds: float | None
    whole: Budget

    @classmethod
    def of(cls, rows: Any, seconds: Any, total_rows: Any, total_seconds: Any) -> "Allowance":
        """Check what a user may give; the clock starts now."""
        budget_of(rows, seconds)
        require_rows(total_rows, "total_model_rows")
        require_seconds(total_seconds, "total_time")
        return cls(rows, seconds, budget_of(total_rows, total_seconds))

    def rows_for_each(self, n: int, setting_up: int) -> int | None:
        """Return the model rows for each of ``n`` rows; ``setting_up`` are those that it takes to begin.

        It does not depend on which rows are finished or on who was asked before, so neither do the bits.
        """
        if self.whole.max_rows is None:
            return self.rows
        each = (self.whole.max_rows - setting_up) // max(n, 1)
        if each < 1:
            raise BudgetSpentError(
                f"total_model_rows = {self.whole.max_rows:,} leaves none for each of {n:,} rows after {setting_up:,} "
                "that setting up takes: raise it, or explain fewer rows"
            )
        return each if self.rows is None else min(self.rows, each)

    def setting_up(self, n: int) -> Budget:
        """Return what setting up for ``n`` rows may take; where only each row has a time, what they have together."""
        if self.seconds is None or self.whole.deadline is not None:
            return self.whole
        return Budget(self.whole.max_rows, deadline_in(n * self.seconds))

    def seconds_for_group(self, n: int, left: int, workers: int) -> float | None:
        """Return the seconds for ``n`` rows that are explained together, of ``left`` that ``workers`` have to do."""
        own = None if self.seconds is None else n * self.seconds
        if self.whole.deadline is None:
            return own
        part = _MODELS_SHARE * self.whole.time_left * min(n * workers / left, 1.0)
        return part if own is None else min(own, part)
