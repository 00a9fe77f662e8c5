"""Answers of packages, which know columns in ways of their own, as rows of the table."""

from typing import Any

import numpy as np
import pandas as pd

from benchmarks.rivals._question import Question

__all__ = ["kept"]


def kept(question: Question, answer: pd.DataFrame) -> pd.DataFrame:
    """Return a package's answer of one line as the table has it: within bounds, what may not change unchanged."""
    space = question.codes.space
    x: Any = space.encode(answer[list(question.row.columns)], what="the answer")
    return question.frame(question.codes.of(np.where(np.isnan(x), question.x0, x)))
