"""Refitted models in two halves: one takes part in choosing a point, the other confirms it."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Literal

import numpy as np

from gbce._numerics import SHARE_ROUNDING
from gbce._validation import require_counts, require_finite
from gbce.base import Array, Choice, Rule
from gbce.budget import BudgetSpentError
from gbce.decisions._nearest import Nearest
from gbce.decisions._risk import UnderNoise, count_affordable, lower_bound, thin_out
from gbce.decisions._screening import Promise, PromiseSearch, accepts
from gbce.decisions._structure import Reaching
from gbce.draws import Scene
from gbce.metrics import Noise, costs, evaluate_under_noise, offsets, require_noise
from gbce.posterior import Evaluated, GibbsPosterior
from gbce.search import CandidateMoves, Judged, find_nearest, values_to_try
from gbce.space import Space

__all__ = ["FEWEST_TO_CONFIRM", "SPREADS", "Reliable", "confirms", "refit_share", "refit_shares", "split_refits"]

# --- refitted models in two halves -----------------------------------------------------------------------------------

# Measured on rows of the breast cancer and diabetes tables: of points that 6 others had confirmed for 6 refits, 3 of 36
# kept less than 0.88 of 50 unseen refits where 0.9 was asked for; of those that 10 or 12 had confirmed, none of 94.
FEWEST_TO_CONFIRM = 10
# Times the noise under which refits choose a point, each where the one before was not confirmed: what holds under wider
# noise is further from where models disagree. Chosen by hand.
SPREADS = (1.0, 2.0, 4.0)
_ORDER = 0  # seed of the order in which they are split: the same for all rows, whatever order they were given in


def split_refits(refits: GibbsPosterior) -> tuple[GibbsPosterior, GibbsPosterior | None]:
    """Return the refits that choose, and those that confirm; of too few all choose."""
    n = len(refits.predictors)
    if n < 2 * FEWEST_TO_CONFIRM:
        return refits, None
    order = np.random.default_rng(_ORDER).permutation(n)
    return _only(refits, np.sort(order[: n // 2])), _only(refits, np.sort(order[n // 2 :]))


def _only(refits: GibbsPosterior, which: Array) -> GibbsPosterior:
    weights = refits.mixture.weights[which]
    equal = np.full(len(which), 1 / len(which))  # of models that count for nothing each is as good as another
    mixture = replace(refits.mixture, weights=weights / weights.sum() if weights.sum() > 0 else equal)
    return replace(refits, predictors=tuple(refits.predictors[k] for k in which), mixture=mixture)


def refit_shares(scene: Scene, noise: Noise | None, x: Array, copies: int, spread: float = 1.0) -> Array:
    """Return how often each of ``R`` refitted models accepts points ``(k, d)`` under noise: ``(k, R)``.

    Noise is so many times as wide as it is said to be.
    """
    refits = scene.refits
    assert refits is not None
    drawn = spread * offsets(scene.noise if noise is None else noise, scene.space, scene.rng, copies)
    return np.asarray(evaluate_under_noise(refits, scene.space, x, drawn).reached.mean(axis=1))


def refit_share(scene: Scene, noise: Noise | None, x: Array, copies: int, spread: float = 1.0) -> Array:
    """Return how often they accept points ``(k, d)`` on average, each with its weight: ``(k,)``."""
    assert scene.refits is not None
    return refit_shares(scene, noise, x, copies, spread) @ scene.refits.mixture.weights


def confirms(shares: Array, weights: Array, probability: float, confidence: float) -> bool:
    """Whether enough of refits accept a point, from how often each of them does so under noise ``(R,)``.

    Each has to accept it with the probability or more; the lower confidence bound of the share that does must be the
    probability, and of too few to show that, all have to. As some points may be put to this one after the other, each
    has a part of the risk: the luckiest of several would be no better than one that these refits chose.
    """
    risk, n = (1.0 - confidence) / len(SPREADS), len(shares)
    accepting = float((shares >= probability - SHARE_ROUNDING) @ weights)
    enough = min(probability, lower_bound(1.0, n, risk))
    return lower_bound(accepting, n, risk) >= enough - SHARE_ROUNDING


# --- the point to hand over ------------------------------------------------------------------------------------------

# Chosen by hand.
_FURTHER = np.array([1.0, 1.05, 1.1, 1.2, 1.35, 1.5, 1.75, 2.0, 2.5, 3.0])  # times as far as a point that just reaches
_PUSHES = np.array([0.25, 0.5, 1.0, 2.0, 4.0])  # units that changes go on by, where none of these points holds
_CHEAPEST = 0.5  # of the evaluated points: the cheapest, all of them; the others are spread over what is dearer
_ROUNDS_NEARER = 8  # of the search towards the row: its points are cheap, and what it saves is what is handed over
_READABLE = 40  # steps of a real number in one unit of its scale, rounded to a power of ten
_SEARCHED_REFITS, _ASKED_OF_REFITS = 8, 1_500  # refitted models that a search asks, and about how many points
_MODES = 12  # points of such a search that are kept
_REFIT_COPIES = 32  # perturbed copies of a candidate that refitted models are asked about
_FEW_COPIES = 4  # the same of every candidate, where the one is sought that they accept most often
_AT_MOST = 2.0  # times the cost of the nearest point: what a point may cost that is more reliable but keeps no promise
_CLEARLY = 2.0  # standard errors that it has to be more reliable by
_ROUNDING = 1e-9  # of a step: a number that is on the grid but for its last bits stays there
_KEPT = "the cheapest point found that reaches the target and keeps reaching it with probability"


@dataclass
class _Search:
    """Candidates ``(k, d)`` in their order and further ones; the trials so far, and what they have to show."""

    x: Array
    further: Callable[[], Iterable[Array]]
    tried: int = 0
    shown: float = 0.0


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
        That it is kept by refitted models like those the explainer was given. From 20 on, half of them take part in
        choosing, and the others have to confirm the point: the lower confidence bound of the share of them that accept
        it must be the probability or more; of models too few to show that, all must accept it. Where they do not, a
        more robust point is sought, twice at most, at a common risk. Of fewer than 20 all choose and none confirm, so
        that the answer is not called reliable.
    n_perturb, n_confirm : int
        Perturbed copies of each candidate for a first look, and of each promising one.
    max_candidates : int
        Points that are looked at.

    Notes
    -----
    If no candidate holds under refitted models, one is chosen that holds under noise, at up to twice the cost of the
    nearest point the one that most of them accept; if none holds, the most reliable point that reaches the target at up
    to that cost; if none reaches it, the best that was seen. A note says which, and where the budget ended. A row that
    reaches the target already is chosen as it is.

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
        """Choose the cheapest candidate that holds, or a point on its way to the row; otherwise the most reliable."""
        posterior = scene.model(self)
        if scene.row.reached[0, 0]:
            return Choice(scene.row.x, scene.row, "the row reaches the target as it is")
        noisy = UnderNoise(scene, posterior, self.noise, first_only=True)
        try:
            nearest = self._find_nearest(scene)
        except BudgetSpentError:
            nearest = self._nearest_rule.choose(replace(scene, posterior=None))
            return _first(nearest, f"the budget ended before the search did; this is the {_what_is(nearest)}")
        try:
            if not accepts(noisy, nearest.x[:1])[0]:
                return _first(nearest, "no evaluated point reaches the target; this is the best seen")
            found = self._find_holding(scene, noisy, nearest.x)
            return self._find_most_reliable(scene, noisy, nearest) if found is None else found
        except BudgetSpentError:
            return _first(nearest, f"the budget ended before the search did; this is the {_what_is(nearest)}")

    def _find_holding(self, scene: Scene, noisy: UnderNoise, nearest: Array) -> Choice | None:
        """Return the cheapest point found that holds; ``nearest`` ``(n, d)`` are cheap points that reach."""
        most = count_affordable(noisy.posterior, self.max_candidates, 2 * self.n_perturb)
        choosing, confirming = (None, None) if scene.refits is None else split_refits(scene.refits)
        chosen_by = replace(scene, refits=choosing)
        near = np.vstack([nearest, self._find_under_refits(chosen_by, noisy.posterior, nearest)])
        search = _Search(self._list_candidates(scene, near, most), lambda: self._list_further(scene, near, most))
        if choosing is None:
            x = self._seek(noisy, search, lambda x: accepts(noisy, x))
            return None if x is None else Choice(x[None, :], note=f"{_KEPT} {search.shown:.4g} under execution noise")
        judges = None if confirming is None else replace(scene, refits=confirming)
        found = self._find_under_both(chosen_by, judges, noisy, search)
        return self._find_without_refits(chosen_by, noisy, search, nearest[0]) if found is None else found

    def _find_under_both(
        self, scene: Scene, judges: Scene | None, noisy: UnderNoise, search: "_Search"
    ) -> Choice | None:
        """Return the cheapest point that holds under noise and refits; one that is not confirmed says so.

        Where refits that had no part in the choice, those of the ``judges``, do not accept a point, those that had one
        are asked for a more robust one: under wider noise.
        """
        kept = f"{_KEPT} {{:.4g}} under execution noise and refitted models"
        if judges is None:
            x = self._seek(noisy, search, partial(self._holds, scene, noisy))
            return None if x is None else Choice(x[None, :], note=kept.format(search.shown))
        last, but = None, "the others do not confirm it"
        try:
            for spread in SPREADS:
                x = self._seek(noisy, search, partial(self._holds, scene, noisy, spread=spread))
                if x is None:
                    break
                last = x
                if self._confirm(judges, x):
                    return Choice(x[None, :], note=kept.format(search.shown))
        except BudgetSpentError:
            if last is None:
                raise
            but = "the budget ended before the others confirmed a point"
        note = (
            f"the most robust point that half of the refitted models chose, which keeps reaching the target with "
            f"probability {search.shown:.4g} under execution noise; {but}"
        )
        return None if last is None else Choice(last[None, :], note=note)

    def _confirm(self, judges: Scene, x: Array) -> bool:
        """Whether refits that had no part in choosing a point ``(d,)`` accept it."""
        assert judges.refits is not None
        shares = refit_shares(judges, self.noise, x[None, :], _REFIT_COPIES)[0]
        return confirms(shares, judges.refits.mixture.weights, self.probability, self.refit_confidence)

    def _find_without_refits(self, scene: Scene, noisy: UnderNoise, search: "_Search", nearest: Array) -> Choice | None:
        """Return a point that holds under noise only: at up to twice the cost of ``nearest``, the one most accepted."""
        missed = f"no point was found that refitted models accept with probability {self.probability:g}"
        x = search.x[self._cost(scene, search.x) <= _AT_MOST * self._cost(scene, nearest[None, :])]
        assert scene.refits is not None
        if scene.refits.affords(len(x) * _FEW_COPIES) == len(x) * _FEW_COPIES:
            shares = refit_share(scene, self.noise, x, _FEW_COPIES)
            some = _Search(x[np.argsort(-shares, kind="stable")], tuple, search.tried)
            found = self._seek(noisy, some, lambda x: accepts(noisy, x), refine=False)
            search.tried = some.tried
            if found is not None:
                note = (
                    f"{missed}; this is the one that they accept most often of those at up to {_AT_MOST:g} times the "
                    f"cost of the nearest, and it keeps reaching the target with probability {some.shown:.4g} under "
                    "execution noise"
                )
                return Choice(found[None, :], note=note)
        found = self._seek(noisy, search, lambda x: accepts(noisy, x))
        note = f"{missed}; this is {_KEPT} {search.shown:.4g} under execution noise"
        return None if found is None else Choice(found[None, :], note=note)

    def _find_most_reliable(self, scene: Scene, noisy: UnderNoise, nearest: Choice) -> Choice:
        """Return the point that succeeds most often at up to twice the cost of the nearest, or the nearest itself."""
        most = count_affordable(noisy.posterior, self.max_candidates, 2 * self.n_perturb)
        pushed = _round_away(scene.space, scene.x0, _extend_each_change(scene, nearest.x))
        x = self._sort(scene, np.vstack([self._list_candidates(scene, nearest.x, most), pushed]))
        x = self._thin(x[self._cost(scene, x) <= _AT_MOST * self._cost(scene, nearest.x[:1])], most)
        promise = Promise(self.probability, self.confidence, self.n_perturb, self.n_confirm)
        search = PromiseSearch(noisy, promise, x, lambda x: self._cost(scene, x))
        search.glance_at_all()
        winner, accepted = search.looks.find_fallback(reaching=True)
        n = count_affordable(noisy.posterior, promise.trial_copies, 2)
        both = noisy.successes(np.vstack([nearest.x[:1], x[[winner]]]), noisy.draw_offsets(n))
        found, gain = both.mean(axis=1), both[1] - both[0]
        if not accepted or gain.mean() <= _CLEARLY * gain.std() / np.sqrt(n):
            what = "this is the nearest that reaches it, and none at up to {} its cost is more reliable"
            return _first(nearest, self._say_missed(what, found[0]))
        what = "this is the most reliable at up to {} the cost of the nearest that reaches it"
        return Choice(x[[winner]], note=self._say_missed(what, found[1]))

    def _say_missed(self, what: str, found: float) -> str:
        """Say that the promise is not kept, what was wanted, and what was found."""
        missed = f"no point was found that keeps reaching the target with probability {self.probability:g}"
        return f"{missed}; {what.format(f'{_AT_MOST:g} times')} (wanted {self.probability:g}, found about {found:.2f})"

    def _seek(
        self, noisy: UnderNoise, search: "_Search", holds_elsewhere: Callable[[Array], Array], *, refine: bool = True
    ) -> Array | None:
        """Seek among candidates, and among further ones as long as none holds and the budget lasts: ``(d,)``."""
        x = self._seek_among(noisy, search, search.x, holds_elsewhere, refine)
        try:
            for more in search.further() if x is None else ():
                x = self._seek_among(noisy, search, more, holds_elsewhere, refine)
                if x is not None:
                    break
        except BudgetSpentError:  # nothing was found so far, and there may be a weaker promise to look for
            return None
        return x

    def _seek_among(
        self,
        noisy: UnderNoise,
        search: "_Search",
        candidates: Array,
        holds_elsewhere: Callable[[Array], Array],
        refine: bool,
    ) -> Array | None:
        """Return the cheapest point ``(d,)`` that holds, if one is found."""
        space, x0 = noisy.scene.space, noisy.scene.x0
        among = PromiseSearch(
            noisy,
            Promise(self.probability, self.confidence, self.n_perturb, self.n_confirm),
            candidates,
            lambda x: self._cost(noisy.scene, x),
            tidy=lambda x: _round_away(space, x0, x),
            holds_elsewhere=holds_elsewhere,
            tried=search.tried,
        )
        if not among.trials.possible:  # earlier searches have used them up
            return None
        try:
            held = among.find_holding()
            if held is None:
                return None
            nearer = among.draw_nearer(among.x[held], _ROUNDS_NEARER) if refine else None
            x = among.x[held] if nearer is None else nearer
            return among.give_back(x) if refine else x
        finally:
            search.tried, search.shown = among.trials.done, min(among.trials.enough, self.probability)

    def _find_nearest(self, scene: Scene) -> Choice:
        """Return what a rule that seeks the nearest chose, or seek it."""
        for rule, choice in scene.earlier:
            if rule == self._nearest_rule:
                return choice
        return self._nearest_rule.choose(scene)

    @property
    def _nearest_rule(self) -> Nearest:
        return Nearest(distance=self.distance)

    def _cost(self, scene: Scene, x: Array) -> Array:
        """Return what points ``(n, d)`` cost: ``(n,)``."""
        return costs(scene.space, x, scene.x0, self.distance)

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
        around = CandidateMoves(space, x0, values_to_try(space, x0, data), lambda x: costs(space, x, x0, self.distance))
        found = find_nearest(
            around, judge, trials[:0], trials=_go_further(space, x0, trials), power=2 if self.distance == "l2" else 1,
            affords=few.affords, max_rows=_ASKED_OF_REFITS,
        )  # fmt: skip
        return found.x[np.argsort(found.cost, kind="stable")[:_MODES]]

    def _list_candidates(self, scene: Scene, nearest: Array, most: int) -> Array:
        """Return candidates ``(k, d)``, the cheapest first; ``nearest`` ``(n, d)`` are cheap points that reach."""
        space, x0 = scene.space, scene.x0
        known = scene.draws.known
        found = np.vstack([nearest, *(choice.x for _, choice in scene.earlier)])
        made = [nearest, _round_away(space, x0, np.vstack([found, _go_further(space, x0, nearest)]))]
        x = self._sort(scene, np.vstack(made))[:most]
        evaluated = self._sort(scene, _round_away(space, x0, known.x[known.reached[:, 0]]))
        return self._sort(scene, np.vstack([x, self._thin(evaluated, most - len(x))]))

    def _list_further(self, scene: Scene, near: Array, most: int) -> Iterator[Array]:
        """Yield candidates ``(k, d)`` for where none of those near to the row holds."""
        for points in (_extend_each_change(scene, near), _known_rows(scene)):
            yield self._thin(self._sort(scene, _round_away(scene.space, scene.x0, points)), most)

    @staticmethod
    def _thin(x: Array, most: int) -> Array:
        """Return at most so many of points ``(n, d)``: the cheapest, which come first, and some of all the others."""
        cheap = min(int(_CHEAPEST * most), len(x))
        return np.vstack([x[:cheap], x[thin_out(np.arange(cheap, len(x)), most - cheap)]])

    def _sort(self, scene: Scene, x: Array) -> Array:
        """Return those of points ``(n, d)`` that can be had, each once, the cheapest first."""
        x = np.unique(x[scene.space.admissible(x, scene.x0)], axis=0)
        return x[np.argsort(costs(scene.space, x, scene.x0, self.distance), kind="stable")]

    def _holds(self, scene: Scene, noisy: UnderNoise, x: Array, spread: float = 1.0) -> Array:
        """Whether the model itself accepts points ``(k, d)``, and refitted ones do so often enough: ``(k,)``.

        For these noise is so many times as wide.
        """
        good = accepts(noisy, x)
        if scene.refits is None or not good.any():
            return good
        n, risk = len(scene.refits.predictors), 1.0 - self.refit_confidence
        enough = min(self.probability, lower_bound(1.0, n, risk))
        for noise, copies in ((0.0, 1), (self.noise, _REFIT_COPIES)):  # as they are first, which costs little
            if good.any():
                shares = refit_share(scene, noise, x[good], copies, spread)
                good[good] = [lower_bound(float(share), n, risk) >= enough - SHARE_ROUNDING for share in shares]
        return good


def _go_further(space: Space, x0: Array, x: Array) -> Array:
    """Return points that go as far as points ``(k, d)`` in their directions, and further."""
    with np.errstate(invalid="ignore"):
        further = (x0 + _FURTHER[:, None, None] * (x - x0)).reshape(-1, len(x0))
    source = np.tile(x, (len(_FURTHER), 1))
    return space.project(np.where(space.unordered | np.isnan(further), source, further), x0)


def _extend_each_change(scene: Scene, x: Array) -> Array:
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


def _what_is(nearest: Choice) -> str:
    """Return what the nearest point is: where none reaches, a note says so."""
    return "best seen" if nearest.note else "nearest that reaches the target"


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
