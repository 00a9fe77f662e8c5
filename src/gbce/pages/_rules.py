"""When to use which decision rule, in one sentence each."""

import inspect

from gbce.base import Rule

__all__ = ["when_to_use"]

# One sentence for a person who has to choose, by the name of the class.
_WHEN = {
    "Nearest": "Use it when the change is certain to be carried out exactly and has to be as small as possible.",
    "Reliable": "Use it when people carry out the change: the cheapest one that still works if it is not exact.",
    "ChanceConstrained": "Use it when a stated probability of success has to be kept although changes are not exact.",
    "CVaR": "Use it when a failure would be expensive: it looks at the worst cases, and pays for safety.",
    "MAP": "Use it when one wants the single most probable compromise between staying near and reaching the target.",
    "Mean": "Use it as a summary of where the draws lie; between two separate ways it may itself miss the target.",
    "GeometricMedian": "Use it as a summary that a few far-off draws do not pull away.",
    "Medoid": "Use it when the suggestion has to be one of the draws, the one in the middle of the others.",
    "DirectOpt": "Use it for comparison with plain optimisation, which knows one point and no uncertainty.",
    "DiverseSet": "Use it to hand over several suggestions that differ, and let a person choose.",
    "RandomDraw": "Use it when many people get suggestions and these should not all be the same.",
}


def when_to_use(rule: Rule | None) -> str:
    """Return one sentence on when to use a rule; of somebody's own, the first line of what its class says of itself.

    Examples
    --------
    >>> from gbce.decisions import Medoid
    >>> when_to_use(Medoid())
    'Use it when the suggestion has to be one of the draws, the one in the middle of the others.'
    """
    if rule is None:
        return "A row that somebody proposed."
    if rule.kind in _WHEN:
        return _WHEN[rule.kind]
    said = inspect.getdoc(type(rule)) or ""
    return said.split("\n", 1)[0] or "A rule of your own."
