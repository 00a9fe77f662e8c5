"""How far each feature may go from a row."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gbce.base import Array
from gbce.space._feature import Feature

__all__ = ["Limits"]


class Limits(NamedTuple):
    """What the limits of a row follow from, each ``(d,)``."""

    low: Array
    high: Array
    only_up: Array
    only_down: Array
    unordered: Array
    discrete: Array
    keeps: Array
    may_become_missing: Array
    fixed: Array

    @classmethod
    def of(cls, features: Sequence[Feature], computed: Array) -> "Limits":
        """Read limits off features; those that are ``computed`` ``(d,)`` from others do not move by themselves."""
        low = [0.0 if f.unordered else -math.inf if f.low is None else f.low for f in features]
        high = [len(f.levels or ()) - 1.0 if f.unordered else math.inf if f.high is None else f.high for f in features]
        return cls(
            low=np.array(low),
            high=np.array(high),
            only_up=np.array([f.direction == "increase" for f in features]),
            only_down=np.array([f.direction == "decrease" for f in features]),
            unordered=np.array([f.unordered for f in features]),
            discrete=np.array([f.discrete for f in features]),
            keeps=np.array([f.missing not in ("leave", "any") for f in features]),
            may_become_missing=np.array([f.missing == "any" and f.mutable for f in features]) & ~computed,
            fixed=np.array([not f.mutable for f in features]) | computed,
        )

    def at(self, x0: Array) -> tuple[Array, Array]:
        """Lowest and highest values ``(d,)`` from the row ``x0``."""
        low = np.where(self.only_up, np.fmax(self.low, x0), self.low)
        high = np.where(self.only_down, np.fmin(self.high, x0), self.high)
        # a row that rounding puts a hair outside its bound keeps its own value
        low, high = np.fmin(low, x0), np.fmax(high, x0)
        if self.discrete.any():
            low = np.where(self.unordered, self.low, low)
            high = np.where(self.unordered, self.high, high)
            start = np.where(np.isnan(x0), 0.0, x0)
            low = np.where(self.discrete, start + np.ceil(low - start), low)
            high = np.where(self.discrete, start + np.floor(high - start), high)
        fixed = self.fixed | (self.keeps & np.isnan(x0))
        return np.where(fixed, x0, low), np.where(fixed, x0, high)
