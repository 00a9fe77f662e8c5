"""Arrays inside of a page: the smallest type that keeps every value, as base64."""

import base64
from typing import Any

import numpy as np

from gbce.base import Array

__all__ = ["pack_array"]

_WHOLE = ("u1", "i1", "u2", "i2", "i4")  # types of whole numbers, the smallest first
_LARGEST_WHOLE = 2.0**31  # of the widest of them; beyond it a double keeps whole numbers up to 2**53
_NAMES = {np.dtype(f"<{name}"): name for name in (*_WHOLE, "f4", "f8")}


def pack_array(values: Array, *, precision: float | None = None, apart_from: float | None = None) -> dict[str, Any]:
    """Return numbers ``(n,)`` as plain data that ``unpackArray`` of common.js reads.

    Whole numbers are kept exactly, whatever their size; so are moments, which are whole numbers too. Others are kept as
    single precision where that loses no more than ``precision``, and as doubles where it would.

    Parameters
    ----------
    values : array of shape (n,)
        Finite or not; booleans are zeros and ones.
    precision : float, optional
        Largest error allowed; none at all when left out.
    apart_from : float, optional
        A number that values which differ from it must still differ from.

    Returns
    -------
    dict
        ``type`` (of numpy, without the byte order, which is little-endian), ``n`` and ``data``; of an array with one
        value only, ``type`` is ``"one"`` and ``data`` is that value.

    Examples
    --------
    >>> pack_array(np.array([1.0, 2.0, 300.0]))["type"], pack_array(np.array([0.1, 0.2]))["type"]
    ('u2', 'f8')
    >>> pack_array(np.array([0.1, 0.2]), precision=1e-6)["type"], pack_array(np.zeros(5))
    ('f4', {'type': 'one', 'n': 5, 'data': 0.0})
    """
    values = np.asarray(values, dtype=float)
    if len(values) and np.isfinite(values[0]) and (values == values[0]).all():
        return {"type": "one", "n": len(values), "data": float(values[0])}
    kept = values.astype(_type_of(values, precision, apart_from))
    return {"type": _NAMES[kept.dtype], "n": len(values), "data": base64.b64encode(kept.tobytes()).decode()}


def _type_of(values: Array, precision: float | None, apart_from: float | None) -> np.dtype[Any]:
    """Return the smallest type that keeps the values well enough."""
    if np.isfinite(values).all() and (np.abs(values) <= _LARGEST_WHOLE).all() and (values == np.round(values)).all():
        for name in _WHOLE:
            bounds = np.iinfo(name)
            if len(values) == 0 or (bounds.min <= values.min() and values.max() <= bounds.max):
                return np.dtype(f"<{name}")
    with np.errstate(over="ignore"):
        single = values.astype(np.float32)
    known = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        lost = np.where(single[known] == values[known], 0.0, np.abs(single[known] - values[known]))
    good = bool((lost <= (precision or 0.0)).all())
    if good and apart_from is not None:
        good = not bool(((single == np.float32(apart_from)) & (values != apart_from)).any())
    return np.dtype("<f4" if good else "<f8")
