"""Models of any framework as one kind of function: float rows ``(n, d)`` in, checked outputs out.

This is the only room that knows a framework; a model is recognised by the names of its classes, and nothing is
imported for it. Every answer is checked (there is one, with one finite line per row), every call and row is counted,
and large batches are split so that memory stays bounded.
"""

from gbce.predictors._columns import as_numbers, fitted_columns, in_order, made_by, map_in_turn
from gbce.predictors._estimators import as_predictor, check_data, classifies, folds_of, input_maker, rows_of
from gbce.predictors._frameworks import catboost_rows
from gbce.predictors._panel import Lockstep, Panel
from gbce.predictors._predictor import Classifier, PredictionError, Predictor, classifier
from gbce.predictors._reference import Partition, Reference, pick_rows, same_answers
from gbce.predictors._remote import Remote, Usage

__all__ = [
    "Classifier",
    "Lockstep",
    "Panel",
    "Partition",
    "PredictionError",
    "Predictor",
    "Reference",
    "Remote",
    "Usage",
    "as_numbers",
    "as_predictor",
    "catboost_rows",
    "check_data",
    "classifier",
    "classifies",
    "fitted_columns",
    "folds_of",
    "in_order",
    "input_maker",
    "made_by",
    "map_in_turn",
    "pick_rows",
    "rows_of",
    "same_answers",
]
