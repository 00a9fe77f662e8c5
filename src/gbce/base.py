"""The contract: what is asked (:class:`Query`), and what a target, a prior, a sampler and a rule have to be.

A target or rule of your own inherits from the class here, and a prior or sampler of your own has the methods of the
protocol here; each then works wherever the built-in ones do. docs/architecture.md has a skeleton of each.
"""

from abc import ABC, abstractmethod
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from gbce.draws import Draws, Points, Scene
    from gbce.metrics import Evaluation
    from gbce.posterior import GibbsPosterior, Mixture
    from gbce.priors import LocatedPrior
    from gbce.space import Condition, Space
    from gbce.trees import Proof

__all__ = [
    "Array", "Choice", "ModelNeededError", "Outputs", "Prior", "Query", "Reading", "Rule", "Sampler", "Target",
    "label_of",
]  # fmt: skip

Array = NDArray[Any]


# --- what is wanted of a model's output ----------------------------------------------------------------------


@dataclass(frozen=True)
class Outputs:
    """What one model said about ``n`` rows.

    Parameters
    ----------
    values : array of shape (n,) or (n, c)
        Predictions, or class probabilities in the order of ``classes``.
    classes : tuple, optional
        The labels of a classifier's columns; ``None`` for anything else.
    decided : int array of shape (n,), optional
        Index of the class the model itself decides for.
    model : str
        Name for error messages.
    """

    values: Array
    classes: tuple[Any, ...] | None = None
    decided: Array | None = None
    model: str = "model"


class Reading(NamedTuple):
    """A target's reading of one model's outputs: three arrays ``(n,)``."""

    output: Array
    loss: Array
    reached: Array


class Target(ABC):
    """Base of all targets: frozen dataclasses with their options inside."""

    reads_classes: ClassVar[bool] = False  # whether models are asked for class probabilities
    loss_from_zero: ClassVar[bool] = False  # whether no loss is below zero, whatever models say

    @abstractmethod
    def read(self, outputs: Outputs) -> Reading:
        """Return output, loss and reached for each row."""

    @abstractmethod
    def describe(self) -> str:
        """Return the wish as a few words, e.g. ``"at least 60"``."""

    def accepted(self) -> tuple[float, float]:
        """Return the lowest and the highest output, as :meth:`read` returns it, that meet the wish.

        Raises
        ------
        TypeError
            Where the output alone does not tell.
        """
        raise TypeError(f"{type(self).__name__} cannot be read off one number per model")

    def say(self, output: float, reached: bool) -> str:
        """Return what a model says about a row, as a sentence goes on after "the model then"."""
        return f"{'reaches' if reached else 'misses'} the target ({self.describe()})"

    @property
    def readable(self) -> bool:
        """Whether :meth:`read` can be called; a target that lost its code in a file cannot."""
        return True

    @property
    def needs_spread(self) -> bool:
        """Whether a number was left open that :meth:`resolve` reads off the model's outputs."""
        return False

    def resolve(self, spread: float | Array) -> "Target":
        """Return the target with open numbers filled in.

        Parameters
        ----------
        spread : float or array of shape (c,)
            SD of the model's outputs on the data, one number per output.
        """
        return self

    def bind(self, now: Outputs) -> "Target":
        """Return the target with a wish relative to the row made absolute; ``now`` has the outputs for that row."""
        return self

    @property
    def error(self) -> str | None:
        """Which error of the model turns the loss into a likelihood: ``"mse"`` or ``"mae"``; none if it is one already.

        Raises
        ------
        TypeError
            Where no error does.
        """
        raise TypeError(f"ModelError does not know what the losses of {type(self).__name__} mean: give eta as a number")

    @property
    def loss_unit(self) -> float | None:
        """The error of the output that costs one unit of loss; ``None`` where no such number is known."""
        return None


# --- laws around a row, and draws from a posterior -------------------------------------------------------------


class Prior(Protocol):
    """What the user writes down: a law of ``x`` around any row.

    What it reads off the data, if anything, it may return from a method ``learned(space, data) -> Prior``.
    """

    def at(self, space: "Space", x0: Array) -> "LocatedPrior":
        """Place the law at the row ``x0`` of shape ``(d,)``."""
        ...


class Sampler(Protocol):
    """What an Explainer takes as ``sampler``."""

    def sample(self, posterior: "GibbsPosterior", rng: np.random.Generator) -> "Draws":
        """Draw from the posterior; the last of the draws' rungs is the eta that was reached."""
        ...


# --- one question, and what is chosen in answer to it ----------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Query:
    """What was asked about one row: known before a single draw, and plain data.

    Parameters
    ----------
    space : Space
        The features.
    target : Target
        With its numbers filled in.
    models : tuple of K str
        Their names.
    mixture : Mixture
        Eta, with the weights of the models and their combination.
    evaluation : Evaluation
        Settings of the figures.
    rules : tuple of Rule
        Which decisions to take.
    seed : int
        The number that reproduces draws and decisions, together with the row's own :attr:`key`.
    row : Points
        The row itself as one evaluated point. One that breaks the conditions of a follow-up question has an infinite
        cost and does not count as reached, so that no rule chooses it.
    free : int array of shape (m,)
        Positions of the features that can move.
    identities : tuple of str
        What identifies a model without asking it, such as the address and version of a remote one; empty for a model
        that is known by its outputs.
    sparse : bool
        Whether the prior lets features stay exactly where they are with positive probability, so that densities of
        points with different numbers of changed features cannot be compared.
    conditions : tuple of Condition
        What a follow-up question holds on to; the space has them as bounds, constraints and columns that stay.
    effort : tuple of (str, float)
        Columns that a follow-up question has made harder or easier to change, each with how many times as much a unit
        of its change counts.
    settings : tuple of (str, str)
        What else it was made with, as texts by name, for a receipt: prior, sampler, policy, versions of libraries.
    """

    space: "Space"
    target: Target
    models: tuple[str, ...]
    mixture: "Mixture"
    evaluation: "Evaluation"
    rules: "tuple[Rule, ...]"
    seed: int
    row: "Points"
    free: Array
    identities: tuple[str, ...] = ()
    sparse: bool = False
    conditions: "tuple[Condition, ...]" = ()
    effort: tuple[tuple[str, float], ...] = ()
    settings: tuple[tuple[str, str], ...] = ()

    @property
    def x0(self) -> Array:
        """The row, encoded: ``(d,)``."""
        return self.row.x[0]

    @property
    def key(self) -> tuple[int, ...]:
        """What the row adds to the seed of its random numbers: words made of its values, by the names of columns.

        So rows of a table have numbers of their own, and one row always has the same: alone, among others, at any
        place. Rows without named columns add nothing, and their numbers are those of the seed.
        """
        if self.space.columns is None:
            return ()
        values = zip(self.space.features, (self.x0 + 0.0).tolist(), strict=True)  # zero has no sign
        told = sorted((one.name, repr(value) if not one.levels or value != value else str(one.levels[int(value)]))
                      for one, value in values)  # fmt: skip
        return tuple(np.frombuffer(sha256(repr(told).encode()).digest()[:16], dtype="<u4").tolist())


class ModelNeededError(RuntimeError):
    """A rule has to ask the model, but an explanation does not carry one: use ``explainer.decide``."""


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
        A sentence about the choice that the user should read, if there is one.
    names : tuple of str
        What to add to the rule's label for each point; numbers, if there are several points and no names. An empty one
        marks the point that is the rule's answer; the others stand beside it.
    proof : Proof, optional
        What is proved about the rule's answer.
    """

    x: Array
    known: "Points | None" = None
    note: str = ""
    names: tuple[str, ...] = ()
    proof: "Proof | None" = None

    def __post_init__(self) -> None:
        if np.ndim(self.x) != 2:
            raise ValueError(f"Choice: x must be an array of shape (k, d), not {np.shape(self.x)}")
        if self.known is not None and len(self.known.x) != len(self.x):
            raise ValueError(f"Choice: there are {len(self.x)} points, but {len(self.known.x)} are known")
        if self.names and len(self.names) != len(self.x):
            raise ValueError(f"Choice: there are {len(self.names)} names for {len(self.x)} points")

    def labels(self, rule: str) -> list[str]:
        """Return a label for each point: the rule's, with its name or number."""
        if self.names:
            return [f"{rule} {name}".rstrip() for name in self.names]
        return [rule] if len(self.x) == 1 else [f"{rule} {i + 1}" for i in range(len(self.x))]

    @property
    def beside(self) -> list[bool]:
        """Which points only stand beside the rule's answer."""
        return [bool(name) for name in self.names] if self.names else [False] * len(self.x)


class Rule(ABC):
    """Base of all decision rules: frozen dataclasses with their options inside."""

    asks_model: ClassVar[bool] = False  # whether it cannot choose without asking the model
    reads_earlier: ClassVar[bool] = False  # whether it looks at what rules listed before it chose, ``scene.earlier``

    @abstractmethod
    def choose(self, scene: "Scene") -> Choice:
        """Return the points that the rule chooses."""

    def check_space(self, space: "Space") -> None:  # noqa: B027 (most rules have nothing to check)
        """Refuse options that do not fit the space, before anything is drawn; by default all do."""

    def check_target(self, target: Target) -> None:  # noqa: B027 (most rules have nothing to check)
        """Refuse options that do not fit the target, its numbers filled in, before anything is drawn."""

    @property
    def seeks_mode(self) -> bool:
        """Whether its answer is meant to be the most probable point."""
        return False

    @property
    def has_path(self) -> bool:
        """Whether points beside its answer are a path over the number of changes, which has a table of its own."""
        return False

    @property
    def kind(self) -> str:
        """Name of the class, by which pictures choose colours."""
        return type(self).__name__

    @property
    def label(self) -> str:
        """Name in tables: the class, with the options that are not at their defaults."""
        return label_of(self)


def label_of(thing: Any) -> str:
    """Return the class, and of a dataclass the options that are not at their defaults."""
    options = [f for f in fields(thing) if f.init] if is_dataclass(thing) else []
    held = [(f.name, getattr(thing, f.name), _default(f)) for f in options]
    changed = [f"{name}={_short(value)}" for name, value, default in held if not _same(value, default)]
    return type(thing).__name__ + (f"({', '.join(changed)})" if changed else "")


def _default(option: "Field[Any]") -> Any:
    return option.default if option.default_factory is MISSING else option.default_factory()


def _same(a: Any, b: Any) -> bool:
    """Whether two options are equal; one from a file is never the very same object."""
    if a is b:
        return True
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return type(a) is type(b) and np.array_equal(a, b)
    try:
        return bool(a == b)
    except Exception:  # values of anybody's making: then they are not known to be equal
        return False


def _short(value: Any) -> str:
    if isinstance(value, Rule):
        return value.label
    if isinstance(value, Target):
        return value.describe()
    if isinstance(value, np.ndarray):
        return " ".join(str(value).split())  # in one line
    return getattr(value, "__name__", str(value)) if callable(value) else str(value)
