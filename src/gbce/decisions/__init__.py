"""Decision rules: frozen objects that turn draws into one point, or a set of them; and how rules are applied."""

from gbce.base import Choice, ModelNeededError, Rule
from gbce.decisions._apply import (
    apply_known_rules,
    apply_rule,
    apply_rules,
    confirm_point,
    evaluate_choices,
    evaluate_points,
    require_rule,
    require_rules,
)
from gbce.decisions._bayes import GeometricMedian, Mean, Medoid
from gbce.decisions._chance import ChanceConstrained
from gbce.decisions._cvar import CVaR
from gbce.decisions._decision import Decision, answers_among, stack_points
from gbce.decisions._direct import DirectOpt
from gbce.decisions._mode import MAP
from gbce.decisions._nearest import Nearest, nearest_sites
from gbce.decisions._paper import paper_rules
from gbce.decisions._refits import FEWEST_TO_CONFIRM, confirms, refit_shares, split_refits
from gbce.decisions._reliable import Reliable
from gbce.decisions._sets import DiverseSet, RandomDraw
from gbce.draws import Scene

__all__ = [
    "FEWEST_TO_CONFIRM",
    "MAP",
    "CVaR",
    "ChanceConstrained",
    "Choice",
    "Decision",
    "DirectOpt",
    "DiverseSet",
    "GeometricMedian",
    "Mean",
    "Medoid",
    "ModelNeededError",
    "Nearest",
    "RandomDraw",
    "Reliable",
    "Rule",
    "Scene",
    "answers_among",
    "apply_known_rules",
    "apply_rule",
    "apply_rules",
    "confirm_point",
    "confirms",
    "evaluate_choices",
    "evaluate_points",
    "nearest_sites",
    "paper_rules",
    "refit_shares",
    "require_rule",
    "require_rules",
    "split_refits",
    "stack_points",
]
