"""Rows, answers and decisions of a table as its space encodes them: what pictures and pages draw."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gbce.base import Array
from gbce.space import Space

__all__ = ["EncodedRow", "EncodedRows", "stack_encoded"]


@dataclass(frozen=True, eq=False)
class EncodedRow:
    """One row: itself ``(d,)``, the answer ``(d,)`` if there is one, and its decisions ``(k, d)``."""

    space: Space
    x0: Array
    answer: Array | None
    decisions: Array
    target: str = ""


@dataclass(frozen=True, eq=False)
class EncodedRows:
    """The rows of a table, what they are advised, and which row each decision belongs to.

    Parameters
    ----------
    space : Space
        The features.
    x0 : ndarray of shape (n, d)
        The rows.
    answers : ndarray of shape (n, d)
        The answers; a row without one has its own values.
    answered : ndarray of shape (n,)
        Whether a row has an answer.
    decisions : ndarray of shape (k, d)
        The decisions, in the order of ``table.pointwise``.
    place : ndarray of shape (k,)
        The position of each decision's row: labels may occur twice.
    target : str
        What was wanted, in words; empty where rows want different things.
    """

    space: Space
    x0: Array
    answers: Array
    answered: Array
    decisions: Array
    place: Array
    target: str = ""


def stack_encoded(rows: Sequence[EncodedRow]) -> EncodedRows | None:
    """Stack rows of one space; nothing if there are none."""
    if not rows:
        return None
    space, targets = rows[0].space, {row.target for row in rows if row.target}
    x0 = np.array([row.x0 for row in rows]).reshape(len(rows), len(space))
    return EncodedRows(
        space=space,
        x0=x0,
        answers=np.array([row.x0 if row.answer is None else row.answer for row in rows]).reshape(x0.shape),
        answered=np.array([row.answer is not None for row in rows], dtype=bool),
        decisions=np.vstack([row.decisions for row in rows]),
        place=np.repeat(np.arange(len(rows)), [len(row.decisions) for row in rows]),
        target=targets.pop() if len(targets) == 1 else "",
    )
