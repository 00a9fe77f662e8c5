"""Built-in rules by their names, as text."""

import difflib
from dataclasses import MISSING, fields
from typing import Any

from gbce.base import Rule

__all__ = ["named_rule"]

_ROOM = __name__.rpartition(".")[0]


def named_rule(name: str) -> Rule:
    """Return the built-in rule of this name with its usual options.

    Parameters
    ----------
    name : str
        That of a class of this room, such as ``"MAP"``.

    Returns
    -------
    Rule
        An object of that class.

    Raises
    ------
    ValueError
        If there is no such rule, or none without options.

    Examples
    --------
    >>> named_rule("Mean")
    Mean()
    """
    known = _built_in(Rule)
    if name not in known:
        lowered = {one.lower(): one for one in known}
        near = difflib.get_close_matches(name.lower(), list(lowered), n=1)
        hint = f" Did you mean {lowered[near[0]]!r}?" if near else ""
        raise ValueError(
            f"there is no rule {name!r}; rules by name are {', '.join(sorted(known))}, and one with options is an "
            f"object such as gbce.CVaR(0.8).{hint}"
        )
    needed = _options_without_default(known[name])
    if needed:
        options = ", ".join(f"{option}=..." for option in needed)
        raise ValueError(f"the rule {name!r} needs options: write gbce.{name}({options})")
    return known[name]()


def _built_in(base: type[Any]) -> dict[str, type[Rule]]:
    """Return the classes of this room that inherit from ``base``, by name; somebody's own are not among them."""
    found: dict[str, type[Rule]] = {}
    for kind in base.__subclasses__():
        if kind.__module__.startswith(f"{_ROOM}.") and not kind.__name__.startswith("_"):
            found[kind.__name__] = kind
        found |= _built_in(kind)
    return found


def _options_without_default(kind: Any) -> list[str]:
    missing = [f for f in fields(kind) if f.init and f.default is MISSING and f.default_factory is MISSING]
    return [f.name for f in missing]
