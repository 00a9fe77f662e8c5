"""Robust Bayesian recourse: away from samples that are refused, towards those that are accepted, both at their worst.

T.-D. H. Nguyen, N. Bui, D. Nguyen, M.-C. Yue and V. A. Nguyen (2022). Robust Bayesian Recourse. UAI. Read: the abstract
and the released code (VinAIResearch/robust-bayesian-recourse), from which the steps and the defaults come.

The nearest point at which the decision turns is sought on lines to training rows; around it points are drawn evenly and
labelled by the model. Each class becomes a sum of Gaussian kernels, and the posterior odds of the refused class are
made small within an l1 budget, while each kernel may move and widen within a ball: to the best for what is refused, to
the worst for what is wanted.

Where this differs from the released code:

- that ball is searched to the end. The released search has a wrong sign and too small a ball, so its worst case is
  milder than the one it states: ``worst_case="published"`` has that one. It also ends as soon as the budget is spent,
  before it has converged along its edge: ``stops_at_edge=True``.
- the lines are looked through from the nearest point outwards, which finds the same point with fewer model rows.
- where the publication has numbers only, categories are half-unit indicators and their argmax; columns that may not
  change are left out, and the answer is rounded and cut at its bounds once, at the end. It may be invalid.
- numbers wanted: the label says whether the output lies in the interval.
- the largest distance between training rows, in which the radius is given, is that of at most 1,000 of them.
- where samples are of one class even in a tenth set of them, the point at which the decision turns is the answer.
"""

from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pandas as pd
from scipy.spatial.distance import pdist
from scipy.special import logsumexp, softmax

import gbce
from benchmarks.rivals._data import Data
from benchmarks.rivals._model import CountedModel
from benchmarks.rivals._protocol import Found, Method
from benchmarks.rivals._question import Codes, Question
from benchmarks.rivals._wish import Wish

__all__ = ["METHODS", "RBR", "Kernels", "descend", "least_wanted", "most_refused", "project"]

_STEP = 1 / np.sqrt(1000)  # of every descent, in the released code
_PATIENCE, _GAIN = 10, 1e-10  # a descent ends after so many steps that gain no more than this; released code
_INNER = 1_000  # steps of the released code's inner descents
_HAIR = 1e-6  # what the released code adds under a root
_LINE = 100  # points on each line to a training row; released code
_FIRST_LOOK = 500  # points of the lines in the first call, then twice as many each time; no result hangs on it
_MOST_PAIRED = 1_000  # training rows among which the largest distance is sought: half a million pairs
_TRIES = 10  # sets of samples until both classes are among them; chosen by hand
_TABLE = 400  # distances for which the worst case is solved; between them its arguments are interpolated
_ZOOMS, _SIDE = 9, 17  # grids of so many points a side, each about a quarter of the one before: to 1e-6 of the ball


def project(x: Any, radius: float) -> Any:
    """Return the point ``(p,)`` nearest to ``x`` whose absolute values add up to ``radius`` at most.

    Examples
    --------
    >>> project(np.array([2.0, -1.0, 0.1]), 1.0).tolist()
    [1.0, -0.0, 0.0]
    """
    size = np.abs(x)
    if size.sum() <= radius:
        return x
    falling = np.sort(size)[::-1]
    excess = (np.cumsum(falling) - radius) / np.arange(1, len(x) + 1)
    return np.sign(x) * np.maximum(size - excess[np.flatnonzero(falling > excess)[-1]], 0.0)


def _zoom(value: Any, n: int, axes: int) -> Any:
    """Return angles ``(n, axes)`` up to pi / 2 at which ``value`` of angles ``(n, m, axes)``, ``(n, m)``, is least."""
    side = np.linspace(-1.0, 1.0, _SIDE)
    around = np.stack(np.meshgrid(*[side] * axes, indexing="ij"), axis=-1).reshape(-1, axes)
    best, half = np.full((n, axes), np.pi / 4), np.pi / 4
    for _ in range(_ZOOMS):
        tried = np.clip(best[:, None, :] + half * around, 0.0, np.pi / 2)
        best = tried[np.arange(n), value(tried).argmin(axis=1)]
        half *= 4 / (_SIDE - 1)
    return best


def most_refused(c: Any, sigma: float, eps: float) -> tuple[Any, Any]:
    """Return shifts and extra widths at which a refused kernel at distances ``c`` ``(n,)`` is largest."""
    near = np.minimum(c, eps), np.zeros_like(c)
    far = c > eps + sigma  # only then is it worth a width, and the whole ball is used
    if eps == 0 or not far.any():
        return near

    def value(angle: Any) -> Any:
        width = sigma + eps * np.sin(angle[..., 0])
        return np.log(width) + (c[far, None] - eps * np.cos(angle[..., 0])) ** 2 / (2 * width**2)

    angle = _zoom(value, int(far.sum()), 1)[:, 0]
    near[0][far], near[1][far] = eps * np.cos(angle), eps * np.sin(angle)
    return near


def least_wanted(c: Any, p: int, sigma: float, eps: float) -> tuple[Any, Any]:
    """Return shifts and extra widths at which a wanted kernel at distances ``c`` ``(n,)`` is smallest.

    What they leave of the ball widens the kernel in the other ``p - 1`` directions.
    """
    if eps == 0:
        return np.zeros_like(c), np.zeros_like(c)

    def parts(angle: Any) -> tuple[Any, Any]:
        reach = eps * np.sin(angle[..., 0])
        return reach * np.cos(angle[..., 1]), reach * np.sin(angle[..., 1])

    def value(angle: Any) -> Any:
        return _log_wanted(c[:, None], *parts(angle), p, sigma, eps)

    return parts(_zoom(value, len(c), 2))


def _most_refused_published(c: Any, sigma: float, eps: float) -> tuple[Any, Any]:
    """Return the same as :func:`most_refused` by the released code's descent."""

    def slope(v: Any) -> Any:
        gap, width = c - v[0], sigma + v[1]
        return np.stack([-gap / width**2, 1 / width - gap**2 / width**3])

    def value(v: Any) -> Any:
        return np.log(sigma + v[1]) + (c - v[0]) ** 2 / (2 * (sigma + v[1]) ** 2)

    shift, width = _inner_descent(value, slope, len(c), eps)
    return shift, width


def _least_wanted_published(c: Any, p: int, sigma: float, eps: float) -> tuple[Any, Any]:
    """Return the same as :func:`least_wanted` by the released code's descent, its sign and its ball."""
    root = np.sqrt(p)

    def slope(u: Any) -> Any:
        width, far = sigma + u[1], c + root * u[0]
        other = np.sqrt((_HAIR + eps**2 - p * u[0] ** 2 - u[1] ** 2) / max(p - 1, 1))
        rest = 1 / (other * (other + sigma))
        return np.stack([-root * far / width**2 - p * u[0] * rest, -1 / width + far**2 / width**3 + u[1] * rest])

    def value(u: Any) -> Any:
        return _log_wanted(c, root * u[0], u[1], p, sigma, eps)

    u = _inner_descent(value, slope, len(c), eps / root)
    return root * u[0], u[1]


def _inner_descent(value: Any, slope: Any, n: int, radius: float) -> Any:
    """Return ``(2, n)`` after projected steps from zero, each of the ``n`` until it has no more gain."""
    v, least, stale = np.zeros((2, n)), np.full(n, np.inf), np.zeros(n, dtype=int)
    for _ in range(_INNER):
        now = value(v)
        moved = np.maximum(v - _STEP * slope(v), 0.0)
        moved *= radius / np.maximum(np.maximum(np.hypot(*moved), radius), np.finfo(float).tiny)
        v = np.where(stale < _PATIENCE, moved, v)
        stale = np.where(stale >= _PATIENCE, stale, np.where(least - now <= _GAIN, stale + 1, 0))
        least = np.minimum(least, now)
    return v


def _log_refused(c: Any, shift: Any, width: Any, p: int, sigma: float) -> Any:
    """Return the logarithm of a refused kernel, but for a constant."""
    return -(p - 1) * np.log(sigma) - np.log(sigma + width) - (c - shift) ** 2 / (2 * (sigma + width) ** 2)


def _log_wanted(c: Any, shift: Any, width: Any, p: int, sigma: float, eps: float) -> Any:
    """Return the logarithm of a wanted kernel, but for the same constant."""
    left = np.sqrt(np.maximum(eps**2 - shift**2 - width**2, 0.0) / max(p - 1, 1))
    along = -np.log(sigma + width) - (c + shift) ** 2 / (2 * (sigma + width) ** 2)
    return along - (p - 1) * np.log(sigma + left)


@lru_cache(maxsize=64)
def _tabulated(worst_case: str, p: int, sigma: float, eps_op: float, eps_pe: float, largest: float) -> tuple[Any, ...]:
    """Return distances, and at them the shifts and widths of refused and of wanted kernels."""
    c = np.linspace(0.0, largest, _TABLE)
    if worst_case == "exact":
        return c, *most_refused(c, sigma, eps_op), *least_wanted(c, p, sigma, eps_pe)
    return c, *_most_refused_published(c, sigma, eps_op), *_least_wanted_published(c, p, sigma, eps_pe)


@dataclass(frozen=True)
class Kernels:
    """The logarithm of the posterior odds against the wanted class, at its worst.

    Parameters
    ----------
    refused, wanted : ndarray of shape (n, p)
        The samples of both classes.
    sigma : float
        Standard deviation of a kernel.
    eps_op, eps_pe : float
        Radius in which kernels of the refused and of the wanted class move.
    worst_case : {"exact", "published"}
        How that is searched.
    """

    refused: Any
    wanted: Any
    sigma: float = 1.0
    eps_op: float = 0.0
    eps_pe: float = 0.0
    worst_case: str = "exact"

    def at(self, x: Any) -> tuple[float, Any]:
        """Return the value at a point ``(p,)`` and its slope ``(p,)``."""
        p = len(x)
        away, towards = x - self.refused, x - self.wanted
        c, d = np.linalg.norm(away, axis=1), np.linalg.norm(towards, axis=1)
        if self.eps_op or self.eps_pe:
            largest = float(2.0 ** np.ceil(np.log2(max(c.max(), d.max(), 1.0))))  # few tables for many points
            table = _tabulated(self.worst_case, p, self.sigma, self.eps_op, self.eps_pe, largest)
            v, w = (np.interp(c, table[0], part) for part in table[1:3])
            m, s = (np.interp(d, table[0], part) for part in table[3:5])
        else:
            v = w = np.zeros_like(c)
            m = s = np.zeros_like(d)
        refused = _log_refused(c, v, w, p, self.sigma)
        wanted = _log_wanted(d, m, s, p, self.sigma, self.eps_pe)
        # shifts and widths are at their best, so that their own changes do not count
        pull = softmax(refused) * -(c - v) / (self.sigma + w) ** 2 / np.where(c > 0, c, 1.0)
        push = softmax(wanted) * -(d + m) / (self.sigma + s) ** 2 / np.where(d > 0, d, 1.0)
        return float(logsumexp(refused) - logsumexp(wanted)), pull @ away - push @ towards


def descend(
    kernels: Kernels, start: Any, row: Any, budget: float, *, max_iter: int = 500, stops_at_edge: bool = False
) -> Any:
    """Return where projected steps from a start ``(p,)`` lead within an l1 distance of the row."""
    x, least, stale = start, np.inf, 0
    for _ in range(max_iter):
        if stops_at_edge and np.abs(x - row).sum() >= budget:
            break
        value, slope = kernels.at(x)
        x = row + project(x - _STEP * slope - row, budget)
        stale = stale + 1 if least - value <= _GAIN else 0
        least = min(least, value)
        if stale >= _PATIENCE:
            break
    return x


@dataclass
class RBR:
    """Robust Bayesian recourse, with the released experiments' defaults.

    Parameters
    ----------
    delta_plus : float
        Budget beyond the l1 distance at which the decision turns.
    sigma, eps_op, eps_pe, worst_case
        As in :class:`Kernels`; the defaults of the radii are zero, and 0.5 and 1 in the experiments.
    n_samples : int
        Points drawn around where the decision turns.
    radius : float
        Of the ball in which they lie, as a share of the largest distance between training rows.
    neighbours : int
        Training rows to which lines are drawn.
    max_iter : int
        Most steps.
    stops_at_edge : bool
        Whether to end where the budget is spent, as the released code does.
    """

    delta_plus: float = 0.2
    sigma: float = 1.0
    eps_op: float = 0.0
    eps_pe: float = 0.0
    worst_case: str = "exact"
    n_samples: int = 200
    radius: float = 0.2
    neighbours: int = 1_000
    max_iter: int = 500
    stops_at_edge: bool = False

    def __post_init__(self) -> None:
        if self.worst_case not in ("exact", "published"):
            raise ValueError(f"RBR: worst_case is 'exact' or 'published', not {self.worst_case!r}")
        for name in ("sigma", "radius"):
            if not getattr(self, name) > 0:
                raise ValueError(f"RBR: {name} must be above zero, not {getattr(self, name)}")

    def fit(self, model: CountedModel, data: Data, space: gbce.Space) -> None:
        """Ask the model about the training rows."""
        self._model, self._codes = model, Codes(data.X, space)
        self._said = model.predict(data.X)
        points = self._codes.points
        some = np.random.default_rng(0).permutation(len(points))[:_MOST_PAIRED]
        self._ball = self.radius * float(pdist(points[some]).max(initial=0.0))

    def counterfactual(self, row: pd.DataFrame, target: Wish, seed: int) -> Found:
        """Descend from where the decision turns."""
        question = Question(self._model, self._codes, row, target)
        rng = np.random.default_rng(seed)
        free = np.flatnonzero(question.free)
        turn = self._turn(question, free)
        if turn is None:
            return Found(note="no line to a training row that is granted the wish reaches it")
        kernels = self._sample(question, free, turn, rng)
        if kernels is None:
            answer = question.frame(turn[None, :])
            return Found.one(answer, "samples were all of one class: the point where the decision turns is the answer")
        budget = float(np.abs(turn - question.start).sum()) + self.delta_plus
        z = question.start.copy()
        z[free] = descend(
            kernels,
            turn[free],
            question.start[free],
            budget,
            max_iter=self.max_iter,
            stops_at_edge=self.stops_at_edge,
        )
        return Found.one(question.frame(z[None, :]))

    def _turn(self, question: Question, free: Any) -> Any:
        """Return the nearest point ``(p,)`` on lines to training rows that is granted the wish, or nothing."""
        points = self._codes.points[question.wish.reached(self._said)]
        order = np.argsort(np.abs(points - question.start).sum(axis=1), kind="stable")[: self.neighbours]
        ways = np.zeros((len(order), len(question.start)))
        ways[:, free] = points[order][:, free] - question.start[free]
        shares = np.linspace(0.0, 1.0, _LINE)
        far = np.abs(ways).sum(axis=1)[:, None] * shares
        # the first turn of each line, and of these the nearest: so the nearest point of all that is granted the wish
        nearest = np.argsort(far, axis=None, kind="stable")
        begin, size = 0, _FIRST_LOOK
        while begin < len(nearest):
            line, step = np.unravel_index(nearest[begin : begin + size], far.shape)
            z = question.start + shares[step][:, None] * ways[line]
            granted = np.flatnonzero(question.granted(z))
            if len(granted):
                return z[granted[0]]
            begin, size = begin + size, 2 * size
        return None

    def _sample(self, question: Question, free: Any, turn: Any, rng: np.random.Generator) -> Kernels | None:
        """Return kernels of both classes around a point, if samples are of both."""
        for _ in range(_TRIES):
            direction = rng.standard_normal((self.n_samples, len(free)))
            direction /= np.linalg.norm(direction, axis=1, keepdims=True)
            length = self._ball * rng.uniform(size=(self.n_samples, 1)) ** (1 / len(free))
            z = np.tile(turn, (self.n_samples, 1))
            z[:, free] += length * direction
            granted = question.granted(z)
            if granted.any() and not granted.all():
                sets = z[~granted][:, free], z[granted][:, free]
                return Kernels(*sets, self.sigma, self.eps_op, self.eps_pe, self.worst_case)
        return None


_SOURCE = "Nguyen et al. 2022"
_EXPERIMENT = partial(RBR, eps_op=0.5, eps_pe=1.0)  # the radii of the benchmark recourse_bench

METHODS: tuple[Method, ...] = (
    Method("RBR", _SOURCE, RBR),
    Method("RBR, radii 0.5 and 1", _SOURCE, _EXPERIMENT),
    Method(
        "RBR, radii 0.5 and 1, its released search",
        _SOURCE,
        partial(_EXPERIMENT, worst_case="published", stops_at_edge=True),
    ),
)
