"""Models of any make as one kind of function: float rows ``(n, d)`` in, checked outputs out.

This is the only room that knows a framework. Every answer is checked (it came, it has one line per row, it is
finite), every call and row is counted, and large batches are split so that memory stays bounded.
"""

from gbce.predictors._estimators import as_classifier, as_predictor, follow_predict
from gbce.predictors._predictor import Meter, PredictionError, Predictor

__all__ = ["Meter", "PredictionError", "Predictor", "as_classifier", "as_predictor", "follow_predict"]
