"""Draws in the form that ArviZ reads: equal weights, one chain per independent run."""

from importlib import import_module
from typing import Any

import numpy as np

from gbce._numerics import REWEIGHTING, normalise, resample_evenly, stream
from gbce.base import Array
from gbce.explanation._explanation import Explanation

__all__ = ["to_arviz"]

_SHORTEST_CHAIN = 4  # draws: of fewer, ArviZ computes neither R-hat nor an effective size


def to_arviz(explanation: Explanation) -> Any:
    """Return the draws as an ``xarray.DataTree``; see :meth:`gbce.Explanation.to_arviz`.

    Islands and chains become chains; a pool of independent points becomes one. Within each run points are picked by
    their weights there, so that every chain is a sample of the posterior by itself. How much mass each run found
    is not kept: figures and errors are those of the explanation.
    """
    picks = _chains(explanation)
    pool, space = explanation.draws.pool, explanation.space
    posterior: dict[str, Array] = {space.names[j]: pool.x[:, j][picks] for j in explanation.free}
    posterior |= {
        _free_name("loss", posterior): pool.loss[:, 0][picks],
        _free_name("distance", posterior): space.distance(pool.x, explanation.x0)[picks],
    }
    height = -explanation.mixture.objective(pool.loss, pool.cost)
    groups = {"posterior": posterior, "sample_stats": {"lp": height[picks], "success": pool.reached[:, 0][picks]}}
    tree = _import_arviz_base().from_dict(groups)
    tree.attrs |= {
        "eta": explanation.eta,
        "target": explanation.target.describe(),
        "seed": str(explanation.seed),
        "sampling": explanation.diagnostics["sampling_note"],
        "inference_library": "gbce",
    }
    return tree


def _chains(explanation: Explanation) -> Array:
    """Positions in the pool ``(chains, draws)``, as many in each chain."""
    draws = explanation.draws
    if draws.groups is None:
        return draws.index[None, :]
    rng = stream(explanation.seed, REWEIGHTING, explanation.query.key)
    runs = [np.flatnonzero((draws.groups == j) & (draws.pool_weights > 0)) for j in range(int(draws.groups.max()) + 1)]
    runs = [own for own in runs if len(own)]
    each = max(len(draws) // len(runs), _SHORTEST_CHAIN, len(runs))  # ArviZ takes more chains than draws for a mistake
    picked = [own[resample_evenly(rng, normalise(np.log(draws.pool_weights[own])), each)] for own in runs]
    # points picked twice would stand side by side, and the chain would seem to have stayed there
    return np.array([rng.permutation(one) for one in picked])


def _free_name(name: str, taken: dict[str, Array]) -> str:
    while name in taken:
        name += "_"
    return name


def _import_arviz_base() -> Any:
    try:
        return import_module("arviz_base")
    except ImportError:
        raise ImportError("to_arviz needs the extra 'arviz': pip install 'gbce[arviz]'") from None
