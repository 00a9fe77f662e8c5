"""The list of methods, in the order of tables."""

from benchmarks.rivals import (
    alibi,
    betarce,
    dice,
    entropic,
    evolution,
    kinjo,
    minmax,
    moc,
    nice,
    own,
    probe,
    psce,
    raman,
    rbr,
    roar,
    treecf,
    wachter,
)
from benchmarks.rivals._protocol import Method

__all__ = ["METHODS"]

_ONE_MODEL = (wachter, evolution, dice, nice, treecf, alibi, moc)
_CHANGED_MODELS = (minmax, kinjo, entropic, betarce, psce, roar, probe)
_BAYESIAN = (rbr, raman)

METHODS: tuple[Method, ...] = tuple(
    method for module in (own, *_ONE_MODEL, *_CHANGED_MODELS, *_BAYESIAN) for method in module.METHODS
)
