"""Models of any framework as one kind of function: float rows ``(n, d)`` in, checked outputs out.

This is the only room that knows a framework; a model is recognised by the names of its classes, and nothing is
imported for it. Every answer is checked (there is one, with one finite line per row), every call and row is counted,
and large batches are split so that memory stays bounded.
"""

from gbce.predictors._agreement import MORE_TERMS, agrees, n_terms, same_output
from gbce.predictors._classifier import Classifier, classifier
from gbce.predictors._columns import fitted_columns
from gbce.predictors._estimators import as_predictor
from gbce.predictors._identity import pick_rows, same_answers
from gbce.predictors._inside import Inside, look_inside
from gbce.predictors._learners import check_data, classifies, folds_of, rows_of
from gbce.predictors._lockstep import Lockstep
from gbce.predictors._panel import Panel
from gbce.predictors._partition import Partition
from gbce.predictors._predictor import PredictionError, Predictor
from gbce.predictors._reference import Reference
from gbce.predictors._remote import Remote, Usage
from gbce.predictors._score_parts import LinearScores, TreeScores

__all__ = [
    "MORE_TERMS",
    "Classifier",
    "Inside",
    "LinearScores",
    "Lockstep",
    "Panel",
    "Partition",
    "PredictionError",
    "Predictor",
    "Reference",
    "Remote",
    "TreeScores",
    "Usage",
    "agrees",
    "as_predictor",
    "check_data",
    "classifier",
    "classifies",
    "fitted_columns",
    "folds_of",
    "look_inside",
    "n_terms",
    "pick_rows",
    "rows_of",
    "same_answers",
    "same_output",
]
