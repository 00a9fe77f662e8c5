"""What stands for another machine or another run, each switched on by one environment variable.

``GBCE_SEED_SHIFT=1`` gives every generator that a test or the library makes from a fixed seed another stream, to see
which tolerances were fitted to one run. Seeds of fitted models (``random_state``) stay.
``GBCE_SHAKE=1`` changes the last bit of what linear algebra returns, as a BLAS kernel of another CPU does.
``GBCE_WITHOUT=pyarrow`` hides an installed package.

Python runs a file of this name when it starts, if its folder is on the path: processes that a test starts are shifted,
shaken and deprived as the test itself is.
"""

import os
import sys

SHIFT = int(os.environ.get("GBCE_SEED_SHIFT", "0"))
SHAKE = os.environ.get("GBCE_SHAKE", "0") != "0"
_STRIDE = 1_000_003  # far more than the seeds any test counts through, so that shifted runs share none

HIDDEN = frozenset(os.environ.get("GBCE_WITHOUT", "").split())


class Hide:
    """Lets importing a hidden package fail as if it were not installed."""

    def find_spec(self, name, path=None, target=None):
        """Refuse hidden packages and leave the others to the next finder."""
        if name.split(".")[0] in HIDDEN:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


if HIDDEN:
    sys.meta_path.insert(0, Hide())


def shift(numpy):
    """Let every generator that is made from a number be made from another one."""
    default_rng = numpy.random.default_rng
    if hasattr(default_rng, "shifted"):
        return

    def make(seed=None):
        if isinstance(seed, (int, numpy.integer)):
            seed = int(seed) + SHIFT * _STRIDE
        elif isinstance(seed, numpy.random.SeedSequence) and isinstance(seed.entropy, int):
            seed = numpy.random.SeedSequence(seed.entropy + SHIFT * _STRIDE, spawn_key=seed.spawn_key)
        return default_rng(seed)

    make.shifted = True
    numpy.random.default_rng = make


def shake(numpy, linalg, names):
    """Change the last bit of what these functions return, always in the same way: equal questions, equal answers."""

    def shaken(result):
        if isinstance(result, tuple):
            return type(result)(*map(shaken, result)) if hasattr(result, "_fields") else tuple(map(shaken, result))
        array = numpy.asarray(result)
        if array.dtype != float:
            return result
        changed = array * (1.0 + numpy.finfo(float).eps * numpy.resize([1.0, -1.0, 0.0], array.shape))
        return changed if array.ndim else changed[()]

    def wrap(function):
        def call(*arguments, **options):
            return shaken(function(*arguments, **options))

        call.shaken = True
        return call

    for name in names:
        if not hasattr(getattr(linalg, name), "shaken"):
            setattr(linalg, name, wrap(getattr(linalg, name)))


if SHIFT:
    import numpy

    shift(numpy)
if SHAKE:
    import numpy
    import scipy.linalg

    shake(numpy, numpy.linalg, ("cholesky", "eigh", "eigvalsh", "inv", "lstsq", "qr", "solve", "svd"))
    shake(numpy, scipy.linalg, ("cholesky", "eigh", "lstsq", "qr", "solve", "solve_triangular", "svd"))
