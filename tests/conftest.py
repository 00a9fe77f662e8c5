"""What stands for another machine or another run, each switched on by one environment variable.

``GBCE_SEED_SHIFT=1`` gives every generator that a test or the library makes from a fixed seed another stream, to see
which tolerances were fitted to one run. Seeds of fitted models (``random_state``) stay.
``GBCE_SHAKE=1`` changes the last bit of what linear algebra returns, as a BLAS kernel of another CPU does.
``GBCE_WITHOUT=pyarrow`` hides an installed package.
Doctests print one run's numbers; they are left out where seeds are shifted or bits are shaken.
"""

import os
import sys

for _package in os.environ.get("GBCE_WITHOUT", "").split():
    sys.modules[_package] = None  # from here on, importing it fails as if it were not installed

import numpy as np
import pytest
import scipy.linalg

SHIFT = int(os.environ.get("GBCE_SEED_SHIFT", "0"))
SHAKE = os.environ.get("GBCE_SHAKE", "0") != "0"
_STRIDE = 1_000_003  # far more than the seeds any test counts through, so that shifted runs share none


def _shifted(default_rng):
    def make(seed=None):
        if isinstance(seed, (int, np.integer)):
            seed = int(seed) + SHIFT * _STRIDE
        elif isinstance(seed, np.random.SeedSequence) and isinstance(seed.entropy, int):
            seed = np.random.SeedSequence(seed.entropy + SHIFT * _STRIDE, spawn_key=seed.spawn_key)
        return default_rng(seed)

    return make


def _shaken(function):
    def shake(result):
        if isinstance(result, tuple):
            return type(result)(*map(shake, result)) if hasattr(result, "_fields") else tuple(map(shake, result))
        array = np.asarray(result)
        if array.dtype != float:
            return result
        signs = np.resize([1.0, -1.0, 0.0], array.shape)  # always the same: equal questions have equal answers
        shaken = array * (1.0 + np.finfo(float).eps * signs)
        return shaken if array.ndim else shaken[()]

    return lambda *arguments, **options: shake(function(*arguments, **options))


if SHIFT:
    np.random.default_rng = _shifted(np.random.default_rng)
if SHAKE:
    for _name in ("cholesky", "eigh", "eigvalsh", "inv", "lstsq", "qr", "solve", "svd"):
        setattr(np.linalg, _name, _shaken(getattr(np.linalg, _name)))
    for _name in ("cholesky", "eigh", "lstsq", "qr", "solve", "solve_triangular", "svd"):
        setattr(scipy.linalg, _name, _shaken(getattr(scipy.linalg, _name)))


def pytest_collection_modifyitems(config, items):
    if SHIFT or SHAKE:
        left_out = [item for item in items if isinstance(item, pytest.DoctestItem)]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not isinstance(item, pytest.DoctestItem)]
