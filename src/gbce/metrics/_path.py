"""The eta path: figures of the posterior at every eta, out of one pool of points."""

from dataclasses import replace

import numpy as np
import pandas as pd

from gbce._numerics import ENOUGH_ESS
from gbce.base import Array
from gbce.draws import Draws
from gbce.metrics._distributional import Figure, PoolGeometry, first_figures
from gbce.posterior import Mixture
from gbce.space import Space

__all__ = ["eta_path"]

# A path from the prior to eta; both numbers were chosen by hand, for a smooth curve.
_N_ETAS = 40
_SMALLEST_ETA = 1e-3  # as a share of eta: where the path leaves the prior


def eta_path(
    draws: Draws, mixture: Mixture, space: Space, x0: Array, alpha: float, etas: Array | None = None
) -> pd.DataFrame:
    """Return one line per eta; where the points cannot carry one, only their effective number is given."""
    if etas is None:
        etas = (
            np.array([0.0, *np.geomspace(_SMALLEST_ETA, 1.0, _N_ETAS) * mixture.eta])
            if mixture.eta > 0
            else np.zeros(1)
        )
    geometry = PoolGeometry.of(draws.pool, space, x0)
    lines = [_line(draws.reweigh(replace(mixture, eta=float(eta))), geometry, alpha) for eta in etas]
    return pd.DataFrame(lines, index=pd.Index(etas, name="eta", dtype=float))


def _line(draws: Draws, geometry: PoolGeometry, alpha: float) -> dict[str, float]:
    figures = first_figures(draws, geometry, alpha)
    figures["log_evidence"] = Figure(draws.log_evidence, draws.log_evidence_se)
    carried = draws.ess >= ENOUGH_ESS
    line = {key: value for name, figure in figures.items() for key, value in figure.entries(name).items()}
    return (line if carried else dict.fromkeys(line, np.nan)) | {"ess": draws.ess}
