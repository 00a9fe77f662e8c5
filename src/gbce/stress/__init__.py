"""Robustness of an explanation to other models, execution noise and changes of the row."""

from gbce.stress._frontier import frontier
from gbce.stress._other_models import (
    KnownModels,
    OtherModels,
    Sensitivity,
    explainer_survival,
    replace_models,
    sensitivity,
    survival,
)
