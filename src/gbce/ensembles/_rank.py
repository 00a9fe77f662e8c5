"""Whether the data determine all coefficients that have no prior."""

from collections.abc import Sequence

import numpy as np

from gbce.base import Array

__all__ = ["require_full_rank"]

# The precision of coefficients holds products of columns, which squares ratios of singular values: at 1e-6 four of a
# double's sixteen digits are left, and what is left further down is rounding.
_SMALLEST_RATIO = 1e-6
_INVOLVED_SHARE = 0.01  # of a dependence, in columns of equal length, from which on a column is part of it; by hand
_MOST_COLUMNS_NAMED = 6  # in one sentence; by hand
_ADVICE = (
    "which leaves no proper posterior of coefficients: drop what is redundant, give a prior_sd, or take a learner with "
    "regularisation"
)


def require_full_rank(design: Array, names: Sequence[str]) -> None:
    """Refuse columns ``(n, p)`` without a prior that depend on each other, by name.

    They do where the smallest singular value is below 1e-6 of the largest, after every column was scaled to length 1,
    so that units do not matter.
    """
    n, p = design.shape
    length = np.linalg.norm(design, axis=0)
    if p == 0:
        return
    if not length.all():
        empty = [name for name, zero in zip(names, length == 0, strict=True) if zero]
        raise ValueError(f"{_join_names(empty)} {'is' if len(empty) == 1 else 'are'} zero in every row, {_ADVICE}")
    _, found, ways = np.linalg.svd(design / length, full_matrices=n < p)
    values = np.concatenate([found, np.zeros(p - len(found))])
    small = values < _SMALLEST_RATIO * values[0]
    if small.any():
        share = np.linalg.norm(ways[small], axis=0)
        involved = [name for name, part in zip(names, share, strict=True) if part > _INVOLVED_SHARE * share.max()]
        ratio = values[-1] / values[0]
        raise ValueError(
            f"{_join_names(involved)} depend on each other (the smallest singular value is {ratio:.1e} of the largest, "
            f"and below {_SMALLEST_RATIO:g} it counts as none), {_ADVICE}"
        )


def _join_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_COLUMNS_NAMED} more" if len(names) > _MOST_COLUMNS_NAMED else ""
    return ", ".join(names[:_MOST_COLUMNS_NAMED]) + more
