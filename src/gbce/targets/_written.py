"""Targets as people write them, in one string: ``approved``, ``approved>=0.8``, ``<=140``, ``+10%``, ``0.8..1``."""

import re
from difflib import get_close_matches
from typing import Any

from gbce.targets._class import Class
from gbce.targets._numeric import AtLeast, AtMost, Change, Range, Value

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_RANGE = re.compile(rf"({_NUMBER})\s*\.\.\s*({_NUMBER})")
_LIMIT = re.compile(rf"(<=|≤|>=|≥|=)\s*({_NUMBER})")
_CHANGE = re.compile(r"([-+](?:\d+\.?\d*|\.\d+))(\s*%)?")
_ABOUT = re.compile(rf"=?\s*({_NUMBER})\s*(?:±|\+-|\+/-)\s*({_NUMBER})")
_SURE = re.compile(rf"(.+?)\s*(?:(?:>=|≥)\s*({_NUMBER})|(?:=|:)\s*({_NUMBER})\s*\.\.\s*({_NUMBER}))")


def parse_target(text: str, classes: tuple[Any, ...] | None) -> Any:
    """Return the target that a person wrote, for a model with ``classes``, or ``None`` for one that returns numbers.

    Examples
    --------
    >>> parse_target("<=140", None), parse_target("approved>=0.8", ("approved", "declined"))
    (AtMost(scale=None, tolerance=None, loss='squared', y=140.0), Class(label='approved', probability=0.8))
    >>> parse_target("-10%", None).describe(), parse_target("0.8..1", None).describe()
    ("10% below the row's output", 'between 0.8 and 1')
    """
    text = text.strip()
    if classes is not None:
        return _parse_class(text, {str(label): label for label in classes})
    if found := _RANGE.fullmatch(text):
        return Range(float(found[1]), float(found[2]))
    if found := _ABOUT.fullmatch(text):
        return Value(float(found[1]), tolerance=float(found[2]))
    if found := _LIMIT.fullmatch(text):
        kind = Value if found[1] == "=" else AtMost if found[1] in "<=≤" else AtLeast
        return kind(float(found[2]))
    if found := _CHANGE.fullmatch(text):
        return Change(float(found[1]) / 100, relative=True) if found[2] else Change(float(found[1]))
    raise ValueError(
        f"the target {text!r} is not understood for a model that returns numbers: write '<=140', '>=10', '0.8..1', "
        "'140±5', '+10%' or '-5'; a classifier needs the names of its classes"
    )


def _parse_class(text: str, labels: dict[str, Any]) -> Class:
    """Return a target on a class, with a probability if one is given."""
    if text in labels:
        return Class(labels[text])
    listed = ", ".join(labels)
    if (found := _SURE.fullmatch(text)) and found[1] in labels:
        if found[2] is not None:
            return Class(labels[found[1]], probability=float(found[2]))
        return Class(labels[found[1]], probability=(float(found[3]), float(found[4])))
    near = get_close_matches(text, list(labels), n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    some = next(iter(labels))
    raise ValueError(
        f"the target {text!r} is not a class of the model; its classes are {listed}.{hint} A probability is written "
        f"'{some}>=0.8' or '{some}=0.8..1'"
    )
