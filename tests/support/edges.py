"""Whether what was read of a model says what the model says, at the edges of splits above all."""

import numpy as np

import gbce
from benchmarks._edges import at_edges
from gbce.predictors import as_predictor
from gbce.trees import agrees, read_structure

__all__ = ["at_edges", "check", "compare"]

_LAST_BITS = 1e-14  # of shares of votes: a few dozen trees in double precision


def check(model, rows, space=None, encoded=None):
    """Assert that what is read of a model says what the model says of rows, and decides as it does; return it."""
    space = gbce.Space.infer(rows) if space is None else space
    inside = read_structure(model, space)
    assert inside is not None
    x = space.encode(rows) if encoded is None else encoded
    compare(inside, as_predictor(model, space), x)
    return inside


def compare(inside, predictor, x):
    """Assert that what was read and a predictor say and decide the same of encoded rows."""
    said = predictor(x)
    read = inside.outputs(x)
    assert agrees(inside, x, said.values), np.abs(read - said.values).max()
    if said.classes is None:
        return
    # where the first two are as good as equal the last bit decides, and with it the order in which a model adds up
    top = np.sort(said.values, axis=1)
    clear = top[:, -1] - top[:, -2] > 10 * max(inside.parts.epsilon, _LAST_BITS)
    assert clear.mean() > 0.999 or inside.parts.epsilon < 1e-12  # votes in double precision tie as often as they like
    np.testing.assert_array_equal(read.argmax(axis=1)[clear], said.decided[clear])
