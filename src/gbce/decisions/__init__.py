"""Decision rules: frozen objects that turn draws into one point, or a set of them."""

from gbce.decisions._bayes import GeometricMedian, Mean, Medoid
from gbce.decisions._direct import DirectOpt
from gbce.decisions._mode import MAP
from gbce.decisions._risk import ChanceConstrained, CVaR
from gbce.decisions._rule import Choice, ModelNeededError, Rule, Scene, require_rule
from gbce.decisions._sets import DiverseSet, RandomDraw
from gbce.decisions._steps import Steps
from gbce.decisions._walk import Shelf, walk

__all__ = [
    "MAP",
    "CVaR",
    "ChanceConstrained",
    "Choice",
    "DirectOpt",
    "DiverseSet",
    "GeometricMedian",
    "Mean",
    "Medoid",
    "ModelNeededError",
    "RandomDraw",
    "Rule",
    "Scene",
    "Shelf",
    "Steps",
    "require_rule",
    "walk",
]
