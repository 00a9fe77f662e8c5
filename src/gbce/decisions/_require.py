"""Lists of rules, checked."""

from collections.abc import Iterable
from typing import Any

from gbce.base import Rule
from gbce.metrics import require_noise
from gbce.space import Space

__all__ = ["require_rule", "require_rules"]


def require_rule(rule: Any) -> Rule:
    """Return ``rule`` if it is one, or say what was expected."""
    if not isinstance(rule, Rule):
        raise TypeError(f"a rule must be an object such as gbce.MAP(), not {rule!r}")
    return rule


def require_rules(rules: Any, space: Space) -> tuple[Rule, ...]:
    """Return one rule or several as a tuple; refuse what is no rule, is listed twice or does not fit the space."""
    listed = tuple(rules) if isinstance(rules, Iterable) and not isinstance(rules, str) else (rules,)
    for rule in listed:
        require_rule(rule)
    labels = [rule.label for rule in listed]
    twice = sorted({label for label in labels if labels.count(label) > 1})
    if twice:
        raise ValueError(f"rules: {', '.join(twice)} is listed twice")
    for rule in listed:
        require_noise(getattr(rule, "noise", None), space)
    return listed
