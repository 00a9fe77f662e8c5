"""An explanation under stress: other models, execution noise, other rows. Functions of an explainer."""

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

__all__ = [
    "KnownModels",
    "OtherModels",
    "Sensitivity",
    "explainer_survival",
    "frontier",
    "replace_models",
    "sensitivity",
    "survival",
]
