"""Decisions about many rows, read from their answers: the model is asked again only to confirm."""

from gbce.policy._action import Action, Move
from gbce.policy._actions import actions
from gbce.policy._allocate import Allocation, allocate, count_distribution
from gbce.policy._fairness import Fairness, fairness
from gbce.policy._files import load
from gbce.policy._group_actions import GroupActions
from gbce.policy._read import AnsweredRows, read_answers
from gbce.policy._review import Review, ReviewKind, review

__all__ = [
    "Action", "Allocation", "AnsweredRows", "Fairness", "GroupActions", "Move", "Review", "ReviewKind", "actions",
    "allocate", "count_distribution", "fairness", "load", "read_answers", "review",
]  # fmt: skip
