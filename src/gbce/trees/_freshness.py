"""Whether a fitted model still is what it was when it was looked at: people fit models anew in place."""

from collections.abc import Callable
from operator import is_
from typing import Any, NamedTuple

__all__ = ["Snapshot"]

_MOST_PARTS = 200  # objects within a model that are looked at; by hand, so that it takes next to no time
_COUNTS = ("num_trees", "num_boosted_rounds")  # of boosters, which grow in place


class _Part(NamedTuple):
    """One object, what it held, what counts the things in it that grow in place, and how many there were."""

    thing: Any
    held: dict[str, Any]
    counts: list[Callable[[], int]]
    sizes: list[int]


class Snapshot:
    """What a model and the fitted objects within it held, by identity.

    Parameters
    ----------
    model : object
        As the user gave it.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> model = LinearRegression().fit([[0.0], [1.0]], [0.0, 1.0])
    >>> taken = Snapshot(model)
    >>> taken.holds, model.fit([[0.0], [1.0]], [5.0, 1.0]) is model, taken.holds
    (True, True, False)
    """

    def __init__(self, model: Any) -> None:
        self._parts = [_look_at(one) for one in _find_parts(model)]

    @property
    def holds(self) -> bool:
        """Whether nothing was put in another's place, and nothing has grown."""
        for thing, held, counts, sizes in self._parts:
            now = vars(thing)
            if now.keys() != held.keys() or not all(map(is_, map(now.get, held), held.values())):
                return False
            if [count() for count in counts] != sizes:
                return False
        return True


def _find_parts(model: Any) -> list[Any]:
    """Return a model and the fitted objects within it, as far as they have attributes: steps, what is wrapped."""
    found: list[Any] = []
    todo = [model]
    while todo and len(found) < _MOST_PARTS:
        one = todo.pop()
        if not hasattr(one, "__dict__") or isinstance(one, type) or any(one is other for other in found):
            continue
        found.append(one)
        for value in vars(one).values():
            for item in (value if isinstance(value, (list, tuple)) else [value])[:_MOST_PARTS]:
                some = item if isinstance(item, tuple) else (item,)
                todo += [each for each in some if hasattr(each, "fit") or hasattr(each, "predict")]
    return found


def _look_at(thing: Any) -> _Part:
    """Return what an object holds, with the lengths of lists, to which a warm start adds in place, and of a booster."""
    held = dict(vars(thing))
    counts = [value.__len__ for value in held.values() if isinstance(value, list)]
    counts += [getattr(thing, name) for name in _COUNTS if callable(getattr(thing, name, None))]
    return _Part(thing, held, counts, [count() for count in counts])
