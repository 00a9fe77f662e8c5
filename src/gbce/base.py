"""Interfaces of targets, priors, samplers and decision rules, and the :class:`Query` that combines them.

A custom target or rule inherits from the class here, a custom prior or sampler implements the protocol here; each then
works wherever the built-in ones do. docs/architecture.md has a skeleton of each.
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


# --- targets ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outputs:
    """Outputs of one model for ``n`` rows.

    Parameters
    ----------
    values : array of shape (n,) or (n, c)
        Predictions, or class probabilities in the order of ``classes``.
    classes : tuple, optional
        The labels of a classifier's columns; ``None`` for anything else.
    decided : int array of shape (n,), optional
        Index of the class that the model predicts.
    model : str
        Name of the model for error messages.
    """

    values: Array
    classes: tuple[Any, ...] | None = None
    decided: Array | None = None
    model: str = "model"


class Reading(NamedTuple):
    """A target's evaluation of one model's outputs: three arrays ``(n,)``."""

    output: Array
    loss: Array
    reached: Array


class Target(ABC):
    """Base class of targets: frozen dataclasses whose fields are their options."""

    reads_classes: ClassVar[bool] = False  # whether it needs class probabilities
    loss_from_zero: ClassVar[bool] = False  # whether the loss is never negative

    @abstractmethod
    def read(self, outputs: Outputs) -> Reading:
        """Compute output, loss and whether the target is reached for each row."""

    @abstractmethod
    def describe(self) -> str:
        """Describe the target in a few words, e.g. ``"at least 60"``."""

    def accepted(self) -> tuple[float, float]:
        """Return the lowest and the highest output, as returned by :meth:`read`, that reach the target.

        Raises
        ------
        TypeError
            If the output alone does not determine whether the target is reached.
        """
        raise TypeError(f"{type(self).__name__} cannot be judged from one number per model")

    def say(self, output: float, reached: bool) -> str:
        """Describe a model's output for a row, as the end of a sentence that begins with "the model then"."""
        return f"{'reaches' if reached else 'misses'} the target ({self.describe()})"

    @property
    def readable(self) -> bool:
        """Whether :meth:`read` can be called; not so for a custom target whose code was not stored in a file."""
        return True

    @property
    def needs_spread(self) -> bool:
        """Whether an option was left out that :meth:`resolve` computes from the model's outputs."""
        return False

    def resolve(self, spread: float | Array) -> "Target":
        """Return the target with options that were left out filled in.

        Parameters
        ----------
        spread : float or array of shape (c,)
            Standard deviation of the model's outputs on the data, one number per output.
        """
        return self

    def bind(self, now: Outputs) -> "Target":
        """Return the target with changes relative to the row made absolute; ``now`` has the outputs for that row."""
        return self

    @property
    def error(self) -> str | None:
        """The model error, ``"mse"`` or ``"mae"``, that makes the loss a likelihood; ``None`` if it is one already.

        Raises
        ------
        TypeError
            If there is no such error.
        """
        raise TypeError(
            f"ModelError cannot calibrate eta for the losses of {type(self).__name__}: give eta as a number"
        )

    @property
    def loss_unit(self) -> float | None:
        """The error of the output that costs one unit of loss; ``None`` if unknown."""
        return None


# --- priors and samplers ---------------------------------------------------------------------------------------------


class Prior(Protocol):
    """A distribution of ``x`` around any row, before it is placed at one.

    A prior that is fitted to data also has a method ``learned(space, data) -> Prior``.
    """

    def at(self, space: "Space", x0: Array) -> "LocatedPrior":
        """Place the prior at the row ``x0`` of shape ``(d,)``."""
        ...


class Sampler(Protocol):
    """Draws from a posterior: the option ``sampler`` of an explainer."""

    def sample(self, posterior: "GibbsPosterior", rng: np.random.Generator) -> "Draws":
        """Draw from the posterior; the last rung of the draws is the eta that was reached."""
        ...


# --- queries and decision rules --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class Query:
    """All settings of one explanation, fixed before sampling, as plain data.

    Parameters
    ----------
    space : Space
        The features.
    target : Target
        The target, with all options filled in.
    models : tuple of K str
        Names of the models.
    mixture : Mixture
        Eta, the weights of the models and their combination.
    evaluation : Evaluation
        Settings of the figures.
    rules : tuple of Rule
        The decision rules.
    seed : int
        Reproduces draws and decisions, together with the row's own :attr:`key`.
    row : Points
        The row itself as one evaluated point. If it violates the conditions of a follow-up question, it has an infinite
        cost and does not count as reached, so that no rule chooses it.
    free : int array of shape (m,)
        Positions of the features that can change.
    identities : tuple of str
        Identifies each model without calling it, such as the address and version of a remote one; empty for a model
        that is identified by its outputs.
    sparse : bool
        Whether the prior lets features keep the row's value with positive probability, so that densities of points with
        different numbers of changed features cannot be compared.
    conditions : tuple of Condition
        Conditions of a follow-up question; the space contains them as bounds, constraints and immutable columns.
    effort : tuple of (str, float)
        Effort factors of a follow-up question: columns with the factor by which the cost of their change is multiplied.
    settings : tuple of (str, str)
        Other settings by name, as strings, for the record: prior, sampler, policy, versions of libraries.
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

    def __repr__(self) -> str:
        models = ", ".join(self.models[:3]) + (", ..." if len(self.models) > 3 else "")
        rules = ", ".join(rule.label for rule in self.rules) or "no rules"
        return f"<Query: {self.target.describe()}; {models}; {len(self.space)} columns; {rules}; seed {self.seed}>"

    @property
    def x0(self) -> Array:
        """The row, encoded: ``(d,)``."""
        return self.row.x[0]

    @property
    def key(self) -> tuple[int, ...]:
        """The spawn key of the row's random streams: a hash of its values by column name.

        Rows of a table have independent streams, and a row always has the same one: alone, among others, in any order.
        Rows without named columns have an empty key, and their streams depend on the seed only.
        """
        if self.space.columns is None:
            return ()
        values = zip(self.space.features, (self.x0 + 0.0).tolist(), strict=True)  # turns -0.0 into 0.0
        hashed = sorted((one.name, repr(value) if not one.levels or value != value else str(one.levels[int(value)]))
                        for one, value in values)  # fmt: skip
        return tuple(np.frombuffer(sha256(repr(hashed).encode()).digest()[:16], dtype="<u4").tolist())


class ModelNeededError(RuntimeError):
    """A rule needs the model, which an explanation does not contain: use ``explainer.decide``."""


@dataclass(frozen=True)
class Choice:
    """The points that a rule chose.

    Parameters
    ----------
    x : array of shape (k, d)
        The points, encoded.
    known : Points, optional
        The same points with their outputs, if they were evaluated before.
    note : str
        A sentence about the choice for the user, if any.
    names : tuple of str
        Suffixes of the rule's label for each point; by default numbers if there are several points. An empty one marks
        the point that is the rule's answer; the others are shown beside it.
    proof : Proof, optional
        A proof about the rule's answer.
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
        """Whether each point is only shown beside the rule's answer."""
        return [bool(name) for name in self.names] if self.names else [False] * len(self.x)


class Rule(ABC):
    """Base class of decision rules: frozen dataclasses whose fields are their options."""

    asks_model: ClassVar[bool] = False  # whether it needs the model to choose
    reads_earlier: ClassVar[bool] = False  # whether it uses the choices of rules listed before it, ``scene.earlier``

    @abstractmethod
    def choose(self, scene: "Scene") -> Choice:
        """Choose points."""

    def check_space(self, space: "Space") -> None:  # noqa: B027 (most rules have nothing to check)
        """Reject options that do not fit the space, before sampling."""

    def check_target(self, target: Target) -> None:  # noqa: B027 (most rules have nothing to check)
        """Reject options that do not fit the resolved target, before sampling."""

    @property
    def seeks_mode(self) -> bool:
        """Whether its answer approximates the posterior mode."""
        return False

    @property
    def has_path(self) -> bool:
        """Whether the points beside its answer are a path over the number of changes, shown in a table of their own."""
        return False

    @property
    def kind(self) -> str:
        """Name of the class, which determines its colour in plots."""
        return type(self).__name__

    @property
    def label(self) -> str:
        """Name in tables: the class, with its non-default options."""
        return label_of(self)


def label_of(thing: Any) -> str:
    """Return the class name, for a dataclass with its non-default options."""
    options = [f for f in fields(thing) if f.init] if is_dataclass(thing) else []
    values = [(f.name, getattr(thing, f.name), _get_default(f)) for f in options]
    changed = [f"{name}={_format_option(value)}" for name, value, default in values if not _is_equal(value, default)]
    return type(thing).__name__ + (f"({', '.join(changed)})" if changed else "")


def _get_default(option: "Field[Any]") -> Any:
    """Return the default of a dataclass field."""
    return option.default if option.default_factory is MISSING else option.default_factory()


def _is_equal(a: Any, b: Any) -> bool:
    """Whether two options are equal, also if one was read from a file."""
    if a is b:
        return True
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return type(a) is type(b) and np.array_equal(a, b)
    try:
        return bool(a == b)
    except Exception:  # user-defined comparison may fail in any way: then they are not known to be equal
        return False


def _format_option(value: Any) -> str:
    """Format the value of an option in one line."""
    if isinstance(value, Rule):
        return value.label
    if isinstance(value, Target):
        return value.describe()
    if isinstance(value, np.ndarray):
        return " ".join(str(value).split())
    return getattr(value, "__name__", str(value)) if callable(value) else str(value)
