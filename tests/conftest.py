"""One environment variable shifts every Monte Carlo seed, to see which tolerances were fitted to one run.

``GBCE_SEED_SHIFT=1 make test`` gives every generator that a test or the library makes from a fixed seed another stream.
Seeds of fitted models (``random_state``) stay. Doctests print one run's numbers, so they are left out then.
"""

import os

import numpy as np
import pytest

SHIFT = int(os.environ.get("GBCE_SEED_SHIFT", "0"))
_STRIDE = 1_000_003  # far more than the seeds any test counts through, so that shifted runs share none

if SHIFT:
    _default_rng = np.random.default_rng

    def _shifted(seed=None):
        if isinstance(seed, (int, np.integer)):
            seed = int(seed) + SHIFT * _STRIDE
        elif isinstance(seed, np.random.SeedSequence) and isinstance(seed.entropy, int):
            seed = np.random.SeedSequence(seed.entropy + SHIFT * _STRIDE, spawn_key=seed.spawn_key)
        return _default_rng(seed)

    np.random.default_rng = _shifted


def pytest_collection_modifyitems(config, items):
    if SHIFT:
        left_out = [item for item in items if isinstance(item, pytest.DoctestItem)]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not isinstance(item, pytest.DoctestItem)]
