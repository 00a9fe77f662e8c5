"""Decision rules: frozen objects that choose one point, or several, from the draws; and how rules are applied."""

from gbce.base import Rule
from gbce.decisions._apply import (
    Decision,
    answers_among,
    apply_known_rules,
    apply_rule,
    apply_rules,
    confirm_point,
    evaluate_choices,
    evaluate_points,
    match_label,
    require_rule,
    require_rules,
    stack_points,
)
from gbce.decisions._chance import ChanceConstrained
from gbce.decisions._cvar import CVaR, paper_rules
from gbce.decisions._grain import find_against
from gbce.decisions._mode import MAP
from gbce.decisions._nearest import Nearest, nearest_points
from gbce.decisions._needed import find_moves, follow_strategies
from gbce.decisions._point_estimates import DirectOpt, DiverseSet, GeometricMedian, Mean, Medoid, RandomDraw
from gbce.decisions._reliable import FEWEST_TO_CONFIRM, Reliable, confirms, refit_shares, split_refits
from gbce.decisions._strategies import Strategies, find_strategies
