"""Eta as a user may give it: a number, several, or a rule that finds one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gbce.base import Array
from gbce.eta._goals import ExpectedLoss, SuccessProbability
from gbce.eta._model_error import ModelError

__all__ = ["Calibration", "EtaRule", "as_eta", "as_etas"]

EtaRule = SuccessProbability | ExpectedLoss | ModelError


@dataclass(frozen=True)
class Calibration:
    """How a rule found eta.

    Parameters
    ----------
    rule : str
        Its label.
    met : bool
        Whether eta achieves what was asked for.
    errors : mapping
        What :class:`gbce.ModelError` went by: an error of the model by its name, and in how many folds it was measured.
    """

    rule: str
    met: bool = True
    errors: Mapping[str, float] = field(default_factory=dict)

    def entries(self) -> dict[str, Any]:
        """Return all of it as plain data by name."""
        return {"rule": self.rule, "met": self.met, **self.errors}


def as_eta(eta: Any) -> tuple[float, EtaRule | None]:
    """Tell a number from a rule; with a rule the number is only where the search begins."""
    if isinstance(eta, EtaRule):
        return 1.0, eta
    if isinstance(eta, type) and issubclass(eta, EtaRule):
        raise TypeError(f"eta must be a number or an object such as gbce.SuccessProbability(0.9), not the class {eta}")
    return eta, None


def as_etas(etas: Any) -> Array:
    """Check a list of etas; ``(n,)``, in rising order."""
    try:
        array = np.sort(np.asarray(list(etas), dtype=float))
    except (TypeError, ValueError):
        raise ValueError(f"etas must be numbers, not {etas!r}") from None
    if array.ndim != 1 or len(array) == 0 or not np.isfinite(array).all() or (array < 0).any():
        raise ValueError(f"etas must be zero or positive numbers, at least one, not {etas!r}")
    return array
