"""The result: plain data about one row, with its tables. No model inside, nothing executable."""

from gbce.decisions import Decision
from gbce.explanation._answer import Answer, AnswerKind, Share
from gbce.explanation._explanation import Explanation, require_explanation
from gbce.explanation._status import Status
from gbce.explanation._tables import choice_table, point_table
from gbce.explanation._words import say_value

__all__ = [
    "Answer",
    "AnswerKind",
    "Decision",
    "Explanation",
    "Share",
    "Status",
    "choice_table",
    "point_table",
    "require_explanation",
    "say_value",
]
