"""The point to hand over: the cheapest that reaches the target and keeps reaching it."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from gbce._numerics import SHARE_ROUNDING
from gbce._validation import require_counts, require_finite
from gbce.base import Array, Choice, Rule
from gbce.budget import BudgetSpentError
from gbce.decisions._beyond import thin_out
from gbce.decisions._looks import accepts
from gbce.decisions._nearest import Nearest
from gbce.decisions._promise import Promise, PromiseSearch
from gbce.decisions._reaching import Reaching
from gbce.decisions._risk import UnderNoise, count_affordable
from gbce.decisions._trials import lower_bound
from gbce.draws import Scene
from gbce.metrics import Noise, costs, evaluate_under_noise, offsets, require_noise
from gbce.posterior import Evaluated, GibbsPosterior
from gbce.search import Around, Judged, find_nearest, values_to_try
from gbce.space import Space

__all__ = ["Reliable", "refit_shares"]

# Chosen by hand.
_FURTHER = np.array([1.0, 1.05, 1.1, 1.2, 1.35, 1.5, 1.75, 2.0, 2.5, 3.0])  # times as far as a point that just reaches
_PUSHES = np.array([0.25, 0.5, 1.0, 2.0, 4.0])  # units that changes go on by, where none of these points holds
_CHEAPEST = 0.5  # of the evaluated points: the cheapest, all of them; the others are spread over what is dearer
_ROUNDS_NEARER = 8  # of the search towards the row: its points are cheap, and what it saves is what is handed over
_READABLE = 40  # steps of a real number in one unit of its scale, rounded to a power of ten
_SEARCHED_REFITS, _ASKED_OF_REFITS = 8, 1_500  # refitted models that a search asks, and about how many points
_SITES = 12  # points of such a search that are kept
_REFIT_COPIES = 32  # perturbed copies of a candidate that refitted models are asked about
_ROUNDING = 1e-9  # of a step: a number that is on the grid but for its last bits stays there


@dataclass(frozen=True)
class Reliable(Rule):
    """The cheapest point that reaches the target and keeps reaching it, the usual policy for ``explanation.answer``.

    Candidates are what :class:`gbce.Nearest` finds, points further in the same directions, every evaluated point that
    reaches the target, and what other rules chose, with real numbers rounded to values that a person would say. They
    are gone through from the cheapest on, as :class:`gbce.ChanceConstrained` does it: what is promised holds under
    fresh noise, with the confidence given. Where none of them holds, points follow that go on from the nearest ones by
    steps, and then rows of the data that reach the target. From the first point that holds, changes are drawn back as
    far as the promise allows, and small ones are left out.

    Parameters
    ----------
    probability : float
        Of still reaching the target under execution noise, and under refitted models where the explainer has some.
    distance : {"l1", "l2"}
        What is cheap, in units of each feature's scale: the sum of changes, or Euclidean distance.
    noise : number, sequence, mapping or function, optional
        Execution noise, as in :class:`gbce.Evaluation`, whose own is used when left out.
    confidence : float
        That the promise is kept under noise, over all trials together.
    refit_confidence : float
        That it is kept by refitted models like those the explainer was given: the lower confidence bound of the share
        of them, over noise as well, must be the probability or more. Of models too few to show that, all must accept
        the point.
    n_perturb, n_confirm : int
        Perturbed copies of each candidate for a first look, and of each promising one.
    max_candidates : int
        Points that are looked at.

    Notes
    -----
    If no candidate holds under refitted models, one is chosen that holds under noise; if none does, the nearest point
    that reaches the target; if none reaches it, the best that was seen. A note says which. A row that reaches the
    target already is chosen as it is.

    Examples
    --------
    >>> Reliable(0.8).label
    'Reliable(probability=0.8)'
    """

    asks_model: ClassVar[bool] = True
    reads_earlier: ClassVar[bool] = True

    probability: float = 0.9
    distance: Literal["l1", "l2"] = "l1"
    noise: Noise | None = None
    confidence: float = 0.95
    refit_confidence: float = 0.8
    n_perturb: int = 64
    n_confirm: int = 512
    max_candidates: int = 300

    def __post_init__(self) -> None:
        require_finite(self, "probability", "confidence", "refit_confidence")
        if not 0 < self.probability <= 1:
            raise ValueError(f"Reliable: probability must be above 0, at most 1, not {self.probability!r}")
        for name in ("confidence", "refit_confidence"):
            if not 0 < getattr(self, name) < 1:
                raise ValueError(f"Reliable: {name} must lie between 0 and 1, not {getattr(self, name)!r}")
        if self.distance not in ("l1", "l2"):
            raise ValueError(f"Reliable: distance must be 'l1' or 'l2', not {self.distance!r}")
        require_counts(self, "n_perturb", "n_confirm", "max_candidates")

    def check_space(self, space: Space) -> None:
        """Refuse noise that does not fit the features."""
        require_noise(self.noise, space)

    def choose(self, scene: Scene) -> Choice:
        """Choose the cheapest candidate that holds, or a point on its way to the row; otherwise the nearest."""
        posterior = scene.model(self)
        if scene.row.reached[0, 0]:
            return Choice(scene.row.x, scene.row, "the row reaches the target as it is")
        nearest = self._find_nearest(scene)
        noisy = UnderNoise(scene, posterior, self.noise, first_only=True)
        if not accepts(noisy, nearest.x[:1])[0]:
            return _first(nearest, "no evaluated point reaches the target; this is the best seen")
        missed = f"no point was found that keeps reaching the target with probability {self.probability:g}"
        try:
            found = self._find_holding(scene, noisy, nearest.x)
        except BudgetSpentError:
            found, missed = None, "the budget did not allow a search"
        return _first(nearest, f"{missed}; this is the nearest that reaches it") if found is None else found

    def _find_holding(self, scene: Scene, noisy: UnderNoise, nearest: Array) -> Choice | None:
        """Return the cheapest point found that holds; ``nearest`` ``(n, d)`` are cheap points that reach."""
        most = count_affordable(noisy.posterior, self.max_candidates, 2 * self.n_perturb)
        near = np.vstack([nearest, self._find_under_refits(scene, noisy.posterior, nearest)])
        candidates = self._list_candidates(scene, near, most)
        kept, tried = "the cheapest point found that reaches the target and keeps reaching it with probability", 0

        def further() -> Iterator[Array]:
            for points in (_push_on(scene, near), _known_rows(scene)):
                yield self._thin(self._sort(scene, _round_away(scene.space, scene.x0, points)), most)

        if scene.refits is not None:
            x, shown, tried = self._seek(noisy, candidates, lambda x: self._holds(scene, noisy, x), tried, further())
            if x is not None:
                return Choice(x[None, :], note=f"{kept} {shown:.4g} under execution noise and refitted models")
        x, shown, tried = self._seek(noisy, candidates, lambda x: accepts(noisy, x), tried, further())
        if x is None:
            return None
        but = "" if scene.refits is None else "; none was found that enough of the refitted models accept as well"
        return Choice(x[None, :], note=f"{kept} {shown:.4g} under execution noise{but}")

    def _seek(
        self,
        noisy: UnderNoise,
        candidates: Array,
        holds_elsewhere: Callable[[Array], Array],
        tried: int,
        further: Iterable[Array],
    ) -> tuple[Array | None, float, int]:
        """Seek among candidates, and among ``further`` ones as long as none holds and the budget lasts."""
        x, shown, tried = self._seek_among(noisy, candidates, holds_elsewhere, tried)
        try:
            for more in further if x is None else ():
                x, shown, tried = self._seek_among(noisy, more, holds_elsewhere, tried)
                if x is not None:
                    break
        except BudgetSpentError:  # nothing was found so far, and there may be a weaker promise to look for
            return None, 0.0, tried
        return x, shown, tried

    def _seek_among(
        self, noisy: UnderNoise, candidates: Array, holds_elsewhere: Callable[[Array], Array], tried: int
    ) -> tuple[Array | None, float, int]:
        """Return the cheapest point ``(d,)`` that holds, if one is found, and the probability that its trial shows.

        So many trials were ``tried`` before; with those of this search they are the last number.
        """
        space, x0 = noisy.scene.space, noisy.scene.x0
        search = PromiseSearch(
            noisy,
            Promise(self.probability, self.confidence, self.n_perturb, self.n_confirm),
            candidates,
            lambda x: costs(space, x, x0, self.distance),
            tidy=lambda x: _round_away(space, x0, x),
            holds_elsewhere=holds_elsewhere,
            tried=tried,
        )
        if not search.trials.possible:  # earlier searches have used them up
            return None, 0.0, tried
        held = search.find_holding()
        nearer = None if held is None else search.draw_nearer(search.x[held], _ROUNDS_NEARER)
        if held is None:
            return None, 0.0, search.trials.done
        x = search.give_back(search.x[held] if nearer is None else nearer)
        return x, min(search.trials.enough, self.probability), search.trials.done

    def _find_nearest(self, scene: Scene) -> Choice:
        """Return what a rule that seeks the nearest chose, or seek it."""
        wanted = Nearest(distance=self.distance)
        for rule, choice in scene.earlier:
            if rule == wanted:
                return choice
        return wanted.choose(scene)

    def _find_under_refits(self, scene: Scene, posterior: GibbsPosterior, trials: Array) -> Array:
        """Return cheap points ``(k, d)`` that some of the refitted models accept often enough as they are."""
        if scene.refits is None:
            return trials[:0]
        space, x0, n = scene.space, scene.x0, len(scene.refits.predictors)
        some = np.unique(np.linspace(0, n - 1, min(n, _SEARCHED_REFITS)).round().astype(int))
        few = replace(scene.refits, predictors=tuple(scene.refits.predictors[k] for k in some))
        reaching = Reaching(posterior.target)

        def judge(x: Array) -> Judged:
            own, said = reaching.judge(posterior.evaluate_first(x)), few.evaluate(x)
            each = [reaching.judge(Evaluated(*(part[:, [k]] for part in said))) for k in range(len(some))]
            missing = np.quantile([one.gap for one in each], self.probability, axis=0, method="higher")
            agree = np.mean([one.reached for one in each], axis=0) >= self.probability
            return Judged(np.maximum(own.gap, missing), own.reached & agree)

        data = scene.draws.known.x if posterior.landmarks is None else posterior.landmarks
        around = Around(space, x0, values_to_try(space, x0, data), lambda x: costs(space, x, x0, self.distance))
        found = find_nearest(
            around, judge, trials[:0], trials=_go_further(space, x0, trials), power=2 if self.distance == "l2" else 1,
            affords=few.affords, max_rows=_ASKED_OF_REFITS,
        )  # fmt: skip
        return found.x[np.argsort(found.cost, kind="stable")[:_SITES]]

    def _list_candidates(self, scene: Scene, nearest: Array, most: int) -> Array:
        """Return candidates ``(k, d)``, the cheapest first; ``nearest`` ``(n, d)`` are cheap points that reach."""
        space, x0 = scene.space, scene.x0
        known = scene.draws.known
        found = np.vstack([nearest, *(choice.x for _, choice in scene.earlier)])
        made = [nearest, _round_away(space, x0, np.vstack([found, _go_further(space, x0, nearest)]))]
        x = self._sort(scene, np.vstack(made))[:most]
        evaluated = self._sort(scene, _round_away(space, x0, known.x[known.reached[:, 0]]))
        return self._sort(scene, np.vstack([x, self._thin(evaluated, most - len(x))]))

    @staticmethod
    def _thin(x: Array, most: int) -> Array:
        """Return at most so many of points ``(n, d)``: the cheapest, which come first, and some of all the others."""
        cheap = min(int(_CHEAPEST * most), len(x))
        return np.vstack([x[:cheap], x[thin_out(np.arange(cheap, len(x)), most - cheap)]])

    def _sort(self, scene: Scene, x: Array) -> Array:
        """Return those of points ``(n, d)`` that can be had, each once, the cheapest first."""
        x = np.unique(x[scene.space.admissible(x, scene.x0)], axis=0)
        return x[np.argsort(costs(scene.space, x, scene.x0, self.distance), kind="stable")]

    def _holds(self, scene: Scene, noisy: UnderNoise, x: Array) -> Array:
        """Whether the model itself accepts points ``(k, d)``, and refitted ones do so often enough: ``(k,)``."""
        good = accepts(noisy, x)
        if scene.refits is None or not good.any():
            return good
        n, risk = len(scene.refits.predictors), 1.0 - self.refit_confidence
        enough = min(self.probability, lower_bound(1.0, n, risk))
        for noise, copies in ((0.0, 1), (self.noise, _REFIT_COPIES)):  # as they are first, which costs little
            if good.any():
                shares = refit_shares(scene, noise, x[good], copies) @ scene.refits.mixture.weights
                good[good] = [lower_bound(float(share), n, risk) >= enough - SHARE_ROUNDING for share in shares]
        return good


def refit_shares(scene: Scene, noise: Noise | None, x: Array, copies: int) -> Array:
    """Return how often each of ``R`` refitted models accepts points ``(k, d)`` under noise: ``(k, R)``."""
    refits = scene.refits
    assert refits is not None
    drawn = offsets(scene.noise if noise is None else noise, scene.space, scene.rng, copies)
    return np.asarray(evaluate_under_noise(refits, scene.space, x, drawn).reached.mean(axis=1))


def _go_further(space: Space, x0: Array, x: Array) -> Array:
    """Return points that go as far as points ``(k, d)`` in their directions, and further."""
    with np.errstate(invalid="ignore"):
        further = (x0 + _FURTHER[:, None, None] * (x - x0)).reshape(-1, len(x0))
    source = np.tile(x, (len(_FURTHER), 1))
    return space.project(np.where(space.unordered | np.isnan(further), source, further), x0)


def _push_on(scene: Scene, x: Array) -> Array:
    """Return points ``(m, d)`` that go on from points ``(k, d)`` by steps in one of their changes, or in all of them.

    Times as far is no further for a change that ends at a bound, and a small one beside it would have to be the answer.
    """
    space, x0 = scene.space, scene.x0
    with np.errstate(invalid="ignore"):
        step = np.where(space.unordered, 0.0, np.sign(np.nan_to_num(x - x0)) * space.scale)
    which, column = step.nonzero()
    singly = np.zeros((len(which), len(x0)))
    singly[np.arange(len(which)), column] = step[which, column]
    start, steps = np.vstack([x, x[which]]), np.vstack([step, singly])
    return space.project((start + _PUSHES[:, None, None] * steps).reshape(-1, len(x0)), x0)


def _known_rows(scene: Scene) -> Array:
    """Return rows of the data that reach the target, as near to each ``(m, d)`` as the row can come."""
    posterior = scene.posterior
    if posterior is None or posterior.landmarks is None or posterior.landmark_said is None:
        return np.zeros((0, len(scene.space)))
    reached = Reaching(scene.query.target).judge(posterior.landmark_said).reached
    return scene.space.project(posterior.landmarks[reached], scene.x0)


def _first(choice: Choice, note: str) -> Choice:
    """Return the first point of a choice."""
    known = None if choice.known is None else choice.known.take(np.arange(1))
    return Choice(choice.x[:1], known, note)


def _round_away(space: Space, x0: Array, x: Array) -> Array:
    """Return points ``(n, d)`` with changed real numbers rounded, away from the row, to what a person would say."""
    real = np.array([feature.kind == "real" for feature in space.features]) & ~space.is_computed
    step = 10.0 ** np.floor(np.log10(space.scale / _READABLE))
    with np.errstate(invalid="ignore", divide="ignore"):
        away = np.where(x > x0, np.ceil(x / step - _ROUNDING), np.floor(x / step + _ROUNDING))
        value = np.where(step < 1, away / np.rint(1 / step), away * step)  # the double that is nearest to the decimal
        rounded = np.where(real & (x != x0) & np.isfinite(x) & np.isfinite(x0), value, x)
    return space.project(rounded, x0)
