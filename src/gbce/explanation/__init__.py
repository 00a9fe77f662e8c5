"""Explanations of one row as plain data: draws, decisions, the answer, and tables of them. They contain no model."""

from gbce.decisions import Decision
from gbce.explanation._alternatives import Alternatives, Menu
from gbce.explanation._answer import Answer, AnswerKind, Mean, Share, cheapest_known
from gbce.explanation._explanation import Explanation, require_explanation
from gbce.explanation._given import Event, answer_given, exclude_row, keep_known, meets, with_conditions
from gbce.explanation._plan import Fallback, Plan, PlanStep
from gbce.explanation._tables import choice_table, point_table
from gbce.explanation._words import (
    SafeBox,
    Status,
    changed_columns,
    describe_changes,
    format_value,
    join_words,
)
from gbce.space import number_text
