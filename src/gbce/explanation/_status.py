"""What became of a question, in one word."""

from enum import StrEnum

__all__ = ["Status"]


class Status(StrEnum):
    """Whether there was anything to do, and whether any evaluated point does it."""

    ATTAINABLE = "attainable"
    ALREADY_REACHED = "already reached"
    NOT_ATTAINED = "not attained"
    FAILED = "failed"  # of a row among many: the model or a function failed for it

    def __repr__(self) -> str:
        return repr(self.value)
