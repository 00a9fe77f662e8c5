"""Rows at the very edges of a model's splits, and whether what was read of the model says what it says there."""

import numpy as np

import gbce
from gbce.predictors import agrees, as_predictor, look_inside

TOGETHER = 0.3  # of the columns of a row at an edge, how many are moved to edges


def edge_values(parts, column):
    """Thresholds of a column, and the numbers next to them in double and in single precision."""
    cuts = np.unique(parts.threshold[(parts.column == column) & np.isfinite(parts.threshold)])
    with np.errstate(over="ignore"):  # a border between all numbers and what is missing
        single = cuts.astype(np.float32)
        near = [cuts, np.nextafter(cuts, np.inf), np.nextafter(cuts, -np.inf), single.astype(float)]
        near += [np.nextafter(single, np.float32(way)).astype(float) for way in (np.inf, -np.inf)]
        middle = (near[-2] + near[-3]) / 2  # where single precision rounds up or down
        near += [middle, np.nextafter(middle, np.inf), np.nextafter(middle, -np.inf)]
    values = np.concatenate(near)
    return values[np.abs(values) <= np.finfo(np.float32).max]


def at_edges(rows, parts, seed, missing=0.0, small=False):
    """Rows of numbers with some columns at edges of splits, at zero and next to it, or missing."""
    rng, moved = np.random.default_rng(seed), rows.copy()
    for column in range(rows.shape[1]):
        values = edge_values(parts, column)
        if small:
            values = np.concatenate([values, [0.0, 1e-36, -1e-36, 1.1e-35, -1.1e-35, -0.0]])
        if len(values):
            chosen = rng.random(len(rows)) < TOGETHER
            moved[chosen, column] = rng.choice(values, chosen.sum())
    if missing:
        moved[rng.random(moved.shape) < missing] = np.nan
    return moved


def check(model, rows, space=None, encoded=None):
    """Assert that what is read of a model says what the model says of rows, and decides as it does; return it."""
    space = gbce.Space.infer(rows) if space is None else space
    inside = look_inside(model, space)
    assert inside is not None
    x = space.encode(rows) if encoded is None else encoded
    compare(inside, as_predictor(model, space), x)
    return inside


def compare(inside, predictor, x):
    """Assert that what was read and a predictor say and decide the same of encoded rows."""
    said = predictor(x)
    read = inside.outputs(x)
    assert agrees(inside, x, said.values), np.abs(read - said.values).max()
    by_thresholds = inside.by_thresholds()
    assert agrees(by_thresholds, x, said.values)
    if said.classes is None:
        return
    # where a model adds up in single precision and the first two are as good as equal the last bit decides
    top = np.sort(said.values, axis=1)
    clear = (top[:, -1] - top[:, -2] > 10 * inside.parts.epsilon) | (inside.parts.epsilon < 1e-12)
    assert clear.mean() > 0.999
    np.testing.assert_array_equal(read.argmax(axis=1)[clear], said.decided[clear])
