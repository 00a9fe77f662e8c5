"""Somebody's own rules, targets, priors and samplers, in a module that another process may know or not."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum
from typing import Any, NamedTuple

import numpy as np

import gbce
from gbce.base import Choice, Outputs, Reading, Rule, Target
from gbce.draws import Draws, Points, SamplerInfo

# --- rules -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cheapest(Rule):
    """The nearest draw that reaches the target; the options only have to be kept."""

    share: float = 1.0
    count: int = 3
    span: tuple[float, float] = (0.1, 0.9)
    names: list[str] = field(default_factory=list)
    prices: Mapping[str, float] = field(default_factory=dict)
    inner: Target | None = None

    def choose(self, scene):
        draws = scene.draws
        order = np.lexsort((scene.distance(draws.x), ~draws.reached[:, 0]))
        return scene.pick(draws.index[order[0]], note=f"{type(self).__name__} looked at {len(draws)} draws.")


@dataclass(frozen=True, eq=False)
class Weighted(Rule):
    """The draw with the least weighted change; its weights are an array."""

    weights: np.ndarray = field(default_factory=lambda: np.ones(3))

    def choose(self, scene):
        change = np.abs(scene.draws.x - scene.x0) / scene.space.scale
        missed = ~scene.draws.reached[:, 0]
        return scene.pick(scene.draws.index[np.lexsort((change @ self.weights, missed))[0]])

    def __eq__(self, other):
        return type(other) is type(self) and np.array_equal(other.weights, self.weights)

    __hash__ = None


@dataclass(frozen=True)
class Halfway(Rule):
    """Half of the way of another rule, if the model says that it is enough: it has to ask."""

    asks_model = True

    of: Rule = field(default_factory=gbce.Mean)

    def choose(self, scene):
        posterior, end = scene.model(self), self.of.choose(scene).x[:1]
        x = scene.space.project(scene.x0 + 0.5 * (end - scene.x0), scene.x0)
        reached = posterior.evaluate(x).reached[0, 0]
        return Choice(x if reached else end, note="" if reached else "Half of the way is not enough.")


@dataclass(frozen=True)
class Trio(Rule):
    """An answer and two points beside it, under names of their own; or three answers, under numbers."""

    named: bool = True

    def choose(self, scene):
        where = scene.draws.index[np.argsort(scene.distance(scene.draws.x), kind="stable")][[0, 100, 200]]
        names = ("", "with 1 more (2)", "[far]") if self.named else ()
        return replace(scene.pick(where), names=names)


class Bare(Rule):
    """No dataclass: its option is set by a constructor of its own."""

    def __init__(self, nth=0):
        self.nth = nth

    def choose(self, scene):
        return scene.pick(scene.draws.index[self.nth])


class Order(Enum):
    UP = 1
    DOWN = 2


class Speed(StrEnum):
    FAST = "fast"


class Pair(NamedTuple):
    low: float
    high: float


@dataclass(frozen=True)
class Holding(Rule):
    """Holds anything, such as what a file does not keep."""

    held: Any = None
    key: Callable[[np.ndarray], np.ndarray] | None = None

    def choose(self, scene):
        return scene.pick(scene.draws.index[0])


@dataclass(frozen=True)
class Derived(Rule):
    """An option that follows from another, and is none of the constructor's."""

    nth: int = 1
    twice: int = field(init=False)

    def __post_init__(self):
        object.__setattr__(self, "twice", 2 * self.nth)

    def choose(self, scene):
        return scene.pick(scene.draws.index[self.twice])


# --- targets ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Near(Target):
    """A loss and an output of its own: the distance from a wish, and its logarithm."""

    wish: float
    room: float = 0.5

    def read(self, outputs: Outputs) -> Reading:
        away = np.abs(outputs.values - self.wish)
        return Reading(away, np.log1p(np.square(away)), away <= self.room)

    def describe(self):
        return f"near {self.wish:g} (own)"


@dataclass(frozen=True)
class Surprise(Target):
    """Wants a classifier: the probability of a label at least so high."""

    reads_classes = True

    label: str
    least: float = 0.7

    def read(self, outputs: Outputs) -> Reading:
        p = outputs.values[:, outputs.classes.index(self.label)]
        return Reading(p, -np.log(np.clip(p, 1e-12, 1.0)), p >= self.least)

    def describe(self):
        return f"{self.label} at {self.least:g} (own)"


class Plain(Target):
    """No dataclass."""

    def __init__(self, least):
        self.least = least

    def read(self, outputs: Outputs) -> Reading:
        short = np.maximum(self.least - outputs.values, 0.0)
        return Reading(outputs.values, np.square(short), short == 0)

    def describe(self):
        return f"no less than {self.least:g} (own)"


# --- priors ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pulled:
    """A normal law whose centre lies off the row, towards a place that it learns from the data."""

    by: float = 0.2
    centre: np.ndarray | None = None

    def learned(self, space, data):
        return replace(self, centre=np.median(data, axis=0))

    def at(self, space, x0):
        return gbce.Gaussian().at(space, space.project((x0 + self.by * (self.centre - x0))[None, :], x0)[0])


# --- samplers --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OwnInfo(SamplerInfo):
    sampler: str = "Own"
    kept_share: float = 0.0
    stages: tuple[int, ...] = ()
    remark: str | None = None

    @property
    def runs(self):
        return "one own run"

    @property
    def advice(self):
        return "give it more candidates"


@dataclass(frozen=True)
class OwnSampler:
    """Candidates from the prior, weighed and resampled, and a report with fields of its own."""

    n_candidates: int = 2_000
    n_draws: int = 300

    def sample(self, posterior, rng):
        n = posterior.affords(self.n_candidates)
        pool = Points.evaluate(posterior, posterior.prior.draw(rng, n))
        share = float(pool.reached[:, 0].mean())
        info = OwnInfo(complete=n == self.n_candidates, kept_share=share, stages=(n, self.n_draws), remark="as asked")
        return Draws.weigh(pool, posterior.mixture, posterior.prior, info=info).resample(rng, self.n_draws)
