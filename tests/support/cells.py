"""Trees read as cells, and what their cells offer."""

import numpy as np
from lightgbm import LGBMRegressor

from gbce.trees import read_cells, read_structure


def read(model, space, data):
    """Return the cells of a model that can be read."""
    trees = read_cells(read_structure(model, space), space, data)
    assert trees is not None
    return trees


def slots_that_can_be_had(offers):
    """Return the slots of each moving feature that can be had."""
    return [
        [s for s in range(offers.starts[i], offers.starts[i + 1]) if np.isfinite(offers.price[s])]
        for i in range(len(offers.moving))
    ]


def boosted(seed, **size):
    """Return a small booster that learns fast, not yet fitted."""
    return LGBMRegressor(learning_rate=0.4, random_state=seed, verbose=-1, n_jobs=1, **size)
