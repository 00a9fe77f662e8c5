"""An explanation under stress: other models, execution noise, other rows. Functions of an explainer."""

from gbce.stress._frontier import frontier
from gbce.stress._other_models import KnownModels
from gbce.stress._sensitivity import Sensitivity, sensitivity
from gbce.stress._survival import explainer_survival, survival

__all__ = [
    "KnownModels",
    "Sensitivity",
    "explainer_survival",
    "frontier",
    "sensitivity",
    "survival",
]
