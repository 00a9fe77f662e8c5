"""The contract of a decision rule: a scene in, a choice of one or more points out."""

from abc import ABC, abstractmethod
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar

import numpy as np

from gbce._weights import Array
from gbce.draws import Draws, Points
from gbce.noise import Noise
from gbce.posterior import GibbsPosterior, Mixture
from gbce.space import Places, Space

__all__ = ["Choice", "ModelNeededError", "Rule", "Scene", "best", "pick", "require_rule"]


class ModelNeededError(RuntimeError):
    """A rule has to ask the model, but an explanation does not carry one: use ``explainer.decide``."""


@dataclass(frozen=True)
class Scene:
    """Everything a rule may look at.

    Parameters
    ----------
    draws : Draws
        From the posterior.
    mixture : Mixture
        How losses combine, and eta.
    space : Space
        For units and limits.
    x0 : array of shape (d,)
        The row.
    free : int array of shape (m,)
        Features that can move.
    row : Points
        The row itself as one evaluated point.
    noise : Noise
        Execution noise for rules that leave theirs open.
    rng : Generator
        The same stream for every rule, whatever the order of rules.
    posterior : GibbsPosterior, optional
        For rules that ask the model; ``None`` when there is only an explanation.
    """

    draws: Draws
    mixture: Mixture
    space: Space
    x0: Array
    free: Array
    row: Points
    noise: Noise
    rng: np.random.Generator
    posterior: GibbsPosterior | None = None

    def units(self, x: Array) -> Places:
        """Return the free features of ``(n, d)`` as points whose distance is in units of their scales."""
        return self.space.embed(x, self.free)

    def distance(self, x: Array) -> Array:
        """Return the Euclidean distance ``(n,)`` of ``(n, d)`` to the row in units of each feature's scale."""
        return self.space.distance(x, self.x0)

    def objective(self, points: Points) -> Array:
        """Return minus the log posterior density ``(n,)``, up to a constant."""
        return self.mixture.objective(points.loss, points.cost)

    def model(self, rule: "Rule") -> GibbsPosterior:
        """Return the posterior with its models, or say how to get at them."""
        if self.posterior is None:
            raise ModelNeededError(
                f"{rule.label} asks the model, which an explanation does not carry: call "
                "explainer.decide(explanation, rule), or give the rule to explainer.explain(..., rules=[...])"
            )
        return self.posterior


@dataclass(frozen=True)
class Choice:
    """The points a rule chose.

    Parameters
    ----------
    x : array of shape (k, d)
        Encoded.
    known : Points, optional
        The same points with what the models said about them, if they were evaluated before.
    note : str
        A sentence for the user, if something about the choice must be said.
    names : tuple of str
        What to add to the rule's label for each point; numbers, if there are several points and no names.
    """

    x: Array
    known: Points | None = None
    note: str = ""
    names: tuple[str, ...] = ()

    def labels(self, rule: str) -> list[str]:
        """Return a label for each point: the rule's, with its name or number."""
        if self.names:
            return [f"{rule} {name}".rstrip() for name in self.names]
        return [rule] if len(self.x) == 1 else [f"{rule} {i + 1}" for i in range(len(self.x))]


class Rule(ABC):
    """Base of all decision rules: frozen dataclasses with their options inside."""

    asks_model: ClassVar[bool] = False

    @abstractmethod
    def choose(self, scene: Scene) -> Choice:
        """Choose."""

    @property
    def label(self) -> str:
        """Name in tables: the class, with the options that are not at their defaults."""
        changed = [
            f"{f.name}={_short(getattr(self, f.name))}"
            for f in fields(self)  # type: ignore[arg-type]
            if f.default is MISSING or not _same(getattr(self, f.name), f.default)
        ]
        return type(self).__name__ + (f"({', '.join(changed)})" if changed else "")


def require_rule(rule: Any) -> Rule:
    """Return ``rule`` if it is one, or say what was expected."""
    if not isinstance(rule, Rule):
        raise TypeError(f"a rule must be an object such as gbce.MAP(), not {rule!r}")
    return rule


def pick(scene: Scene, index: Array, note: str = "") -> Choice:
    """Choose pool points by position."""
    points = scene.draws.pool.take(np.atleast_1d(index))
    return Choice(points.x, points, note)


def best(values: Array, *tie_breakers: Array) -> int:
    """Position of the smallest value; ties go to the smallest tie breaker, then to the first."""
    return int(np.lexsort((*reversed(tie_breakers), values))[0])


def _same(a: Any, b: Any) -> bool:
    return a is b or (isinstance(a, (str, int, float)) and a == b)


def _short(value: Any) -> str:
    return getattr(value, "__name__", str(value)) if callable(value) else str(value)
