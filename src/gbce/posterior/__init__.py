"""The Gibbs posterior ``exp(-potential(x)) * prior(x | row)``.

The potential is written here once, for one model and for several. Losses are kept per model, ``(n, K)``, so that
another temperature, other weights or another way of combining needs no further model call.
"""

from gbce.posterior._posterior import (
    FEW_ROWS,
    Combine,
    Entropic,
    EtaGoal,
    Evaluated,
    GibbsPosterior,
    Mixture,
    as_weights,
    run_together,
    weights_from_risk,
)

__all__ = [
    "FEW_ROWS",
    "Combine",
    "Entropic",
    "EtaGoal",
    "Evaluated",
    "GibbsPosterior",
    "Mixture",
    "as_weights",
    "run_together",
    "weights_from_risk",
]
