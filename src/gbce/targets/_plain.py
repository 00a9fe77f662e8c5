"""Plain values in a target's place: a class label of the model asks for a decision for it, a number says too little."""

from collections.abc import Hashable
from typing import Any

import numpy as np

from gbce._validation import is_number, show
from gbce.base import Target
from gbce.targets._class import Class, find_class

__all__ = ["as_target"]


def as_target(target: Any, classes: tuple[Any, ...] | None, model: str) -> Target:
    """Return a target as it is, and a class label of the model as the wish for a decision for it.

    Parameters
    ----------
    target : Target, or a label
        What was given.
    classes : tuple, optional
        The labels of the first model, ``None`` if it has none.
    model : str
        Its name.

    Returns
    -------
    Target
        ``Class(label)`` for a label, spelled as the model does.

    Raises
    ------
    TypeError
        For what is neither. A number that is no class does not say whether more or less of it is wanted.
    ValueError
        For a text that is no class of the model.

    Examples
    --------
    >>> as_target("good", ("bad", "good"), "forest")
    Class(label='good', probability=0.5)
    """
    if isinstance(target, Target):
        return target
    label = target.item() if isinstance(target, np.generic) else target
    if classes is not None and isinstance(label, str):
        return Class(classes[find_class(label, classes, f"target: {model}")])
    if classes is not None and isinstance(label, Hashable) and not isinstance(label, type):
        for known in classes:
            # 1.0 may be meant as a probability, where the class is 1
            if known == label and isinstance(label, float) <= isinstance(known, float):
                return Class(known)
        if isinstance(label, bool) and str(label) in classes:  # CatBoost names the classes of yes and no so
            return Class(str(label))
    raise TypeError(
        f"target must be a gbce target such as gbce.AtLeast(10), not {show(target)}" + _advice(label, classes, model)
    )


def _advice(label: Any, classes: tuple[Any, ...] | None, model: str) -> str:
    """Return what could be written instead, as the rest of a sentence."""
    if (is_number(label) or isinstance(label, bool)) and classes is not None:
        return f": {model} has the classes {list(classes)}, of which gbce.Class(label, probability=...) wants one"
    if is_number(label):
        wishes = ", ".join(f"gbce.{name}({label!r})" for name in ("AtLeast", "AtMost"))
        return f": a number does not say what is wanted of the output; write {wishes} or gbce.Value({label!r})"
    if isinstance(label, (str, bytes, bool)):
        return (
            f": {model} returns numbers without classes; gbce.classifier(model, classes=[...]) names them, and a wish "
            "for a number is gbce.AtLeast, gbce.AtMost, gbce.Range or gbce.Value"
        )
    return ""
