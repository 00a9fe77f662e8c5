"""Wrappers that turn a model of any framework into one kind of function: float rows ``(n, d)`` in, checked outputs out.

Only this package knows frameworks; a model is recognised by the names of its classes, so that no framework is imported.
Every output is checked (finite, one line per row), every call and row is counted, and large batches are split to bound
memory.
"""

from gbce.predictors._columns import as_numbers, fitted_columns, in_order, made_by, map_in_turn
from gbce.predictors._estimators import as_predictor, check_data, classifies, folds_of, input_maker, rows_of
from gbce.predictors._frameworks import catboost_rows
from gbce.predictors._memory import Cache, Memory
from gbce.predictors._model_files import ModelFileError, hash_model, load_model
from gbce.predictors._panel import Lockstep, Panel
from gbce.predictors._predictor import Classifier, PredictionError, Predictor, classifier
from gbce.predictors._reference import Partition, Reference, pick_rows, same_answers
from gbce.predictors._remote import Remote, Usage
