"""Choose the smallest change that keeps reaching the target under execution noise and under refitted models.

Refitted models, where there are enough, are split in two halves: one takes part in the choice, the other confirms it.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import ClassVar, Literal

import numpy as np

from gbce._numerics import WIDE_ROUNDING, effective_sample_size
from gbce._validation import require_counts, require_finite
from gbce.base import Array, Choice, Rule
from gbce.budget import BudgetSpentError
from gbce.decisions._grain import forbid_against
from gbce.decisions._nearest import Nearest
from gbce.decisions._risk import UnderNoise, count_affordable, lower_bound, thin_out
from gbce.decisions._screening import Promise, PromiseSearch, accepts
from gbce.decisions._structure import Reaching
from gbce.draws import Scene
from gbce.metrics import Noise, costs, evaluate_under_noise, offsets, require_noise
from gbce.posterior import Evaluated, GibbsPosterior
from gbce.search import CandidateMoves, Judged, find_nearest, values_to_try
from gbce.space import Space, effort_cost
from gbce.trees import read_models

# Measured on rows of the breast cancer and diabetes tables, with 0.9 required: of 36 points confirmed by 6 refits, 3
# were accepted by less than 0.88 of 50 unseen refits; of 94 points confirmed by 10 or 12 refits, none.
FEWEST_TO_CONFIRM = 10
_ORDER = 0  # seed of the split: the same for all rows, in whatever order refits are given
# All of these were chosen by hand.
# Factors of the noise under which refits choose a point, each tried where the one before was not confirmed: a point
# that holds under wider noise lies further from where the models disagree.
SPREADS = (1.0, 2.0, 4.0)
_FURTHER = np.array([1.0, 1.05, 1.1, 1.2, 1.35, 1.5, 1.75, 2.0, 2.5, 3.0])  # multiples of a change that just reaches
_PUSHES = np.array([0.25, 0.5, 1.0, 2.0, 4.0])  # units of scale by which changes are extended, one by one and together


@dataclass(frozen=True)
class _Effort:
    """How rows are spent on candidates and refitted models; chosen by hand."""

    # of the evaluated candidates are the cheapest ones; the rest is spread over the dearer points
    cheapest: float = 0.5
    rounds_nearer: int = 8  # of the search towards the row: its points are cheap, and every saving shows in the answer
    searched_refits: int = 8  # refitted models used in a search, and about how many points it evaluates
    refit_rows: int = 1_500
    # On 128 questions of four tables, 700, 1,000 and 1,500 rows give answers as cheap as each other.
    margin_rows: int = 700
    margin_copies: int = 64  # perturbed copies of the nearest point, from which the margin that noise takes is read
    modes: int = 12  # points of such a search that are kept
    pushed: int = 3  # of the cheapest points, whose changes are extended by fixed steps
    refit_copies: int = 32  # perturbed copies of a candidate for refitted models
    few_copies: int = 4  # the same, to rank all candidates by how often refits accept them
    dearest: float = 2.0  # times the cost of the nearest point that a more reliable fallback may cost
    clear_se: float = 2.0  # standard errors by which it must be more reliable


_EFFORT = _Effort()

_HOLDS = "the smallest change found that still works with probability at least"
_UNDER_NOISE = "when it is not made exactly"

# --- refitted models -------------------------------------------------------------------------------------------------


def split_refits(refits: GibbsPosterior) -> tuple[GibbsPosterior, GibbsPosterior | None]:
    """Split refits into those that choose and those that confirm (``None`` if they are too few)."""
    n = len(refits.predictors)
    if n < 2 * FEWEST_TO_CONFIRM:
        return refits, None
    order = np.random.default_rng(_ORDER).permutation(n)
    return _select_refits(refits, np.sort(order[: n // 2])), _select_refits(refits, np.sort(order[n // 2 :]))


def _select_refits(refits: GibbsPosterior, which: Array) -> GibbsPosterior:
    """Return the posterior over some of the refits, with weights renormalised."""
    weights = refits.mixture.weights[which]
    equal = np.full(len(which), 1 / len(which))  # if all weights are zero
    mixture = replace(refits.mixture, weights=weights / weights.sum() if weights.sum() > 0 else equal)
    return replace(refits, predictors=tuple(refits.predictors[k] for k in which), mixture=mixture)


def refit_shares(scene: Scene, noise: Noise | None, x: Array, copies: int, spread: float = 1.0) -> Array:
    """Return how often each of ``R`` refits accepts points ``(k, d)`` under ``spread`` times the noise: ``(k, R)``."""
    refits = scene.refits
    assert refits is not None
    drawn = spread * offsets(scene.noise if noise is None else noise, scene.space, scene.rng, copies)
    return np.asarray(evaluate_under_noise(refits, scene.space, x, drawn).reached.mean(axis=1))


def refit_share(scene: Scene, noise: Noise | None, x: Array, copies: int, spread: float = 1.0) -> Array:
    """Return the weighted mean of :func:`refit_shares` over refits: ``(k,)``."""
    assert scene.refits is not None
    return refit_shares(scene, noise, x, copies, spread) @ scene.refits.mixture.weights


def confirms(shares: Array, weights: Array, probability: float, confidence: float) -> bool:
    """Whether refits with acceptance rates ``(R,)`` show that enough of them accept; if they are few, all must."""
    # split over the points that may be tested one after another (Bonferroni): else the luckiest of several would pass
    risk, n = (1.0 - confidence) / len(SPREADS), _count_equal(weights)
    accepting = float((shares >= probability - WIDE_ROUNDING) @ weights)
    enough = min(probability, lower_bound(1.0, n, risk))
    return lower_bound(accepting, n, risk) >= enough - WIDE_ROUNDING


def _count_equal(weights: Array) -> float:
    """Return how many refits of equal weight tell as much as these."""
    return len(weights) if (weights == weights[0]).all() else effective_sample_size(weights)


# --- rule ------------------------------------------------------------------------------------------------------------


@dataclass
class _Candidates:
    """Candidates ``x`` ``(k, d)`` and further ones; the number of trials so far, and the probability they show."""

    x: Array = field(default_factory=lambda: np.zeros((0, 0)))
    further: Callable[[], Iterable[Array]] = tuple
    tried: int = 0
    shown: float = 0.0


@dataclass(frozen=True)
class Reliable(Rule):
    """The cheapest point that reaches the target and keeps reaching it, the usual policy for ``explanation.answer``.

    Candidates are the points found by :class:`gbce.Nearest`, those found with the margin that noise takes there, points
    further in the same directions, every evaluated point that reaches the target, and the choices of other rules, with
    real numbers rounded to a few digits. They are tested from the cheapest on, as by :class:`gbce.ChanceConstrained`:
    the chosen point keeps its promise under fresh noise, with the given confidence. If none of them holds, rows of the
    data follow that reach the target. The changes of the first point that holds are shrunk as far as the promise
    allows, and small ones are undone.

    Parameters
    ----------
    probability : float
        Required probability of still reaching the target under execution noise, and under refitted models where the
        explainer has some.
    distance : {"l1", "l2"}
        Cost of a point in units of each feature's scale: the sum of absolute changes, or the Euclidean distance.
    noise : number, sequence, mapping or function, optional
        Execution noise, as in :class:`gbce.Evaluation`, whose noise is the default.
    confidence : float
        Confidence that the promise is kept under noise, over all trials together.
    refit_confidence : float
        Confidence that it is kept by refitted models like those the explainer was given. With 20 or more, half of them
        take part in the choice and the other half must confirm it: the lower confidence bound of the share that accepts
        the point must be at least the probability; if they are too few to show that, all must accept it. If they do
        not, a more robust point is sought, at most twice, at a common risk. With fewer than 20, all take part in the
        choice and none confirm it, so that the answer is not called reliable.
    n_perturb, n_confirm : int
        Perturbed copies of each candidate for screening, and of each promising one.
    max_candidates : int
        Largest number of candidates.
    sensible : bool
        Whether to prefer a point without advice against the grain: a number only moves in a direction that, over rows
        of the data, does not clearly take the first model's output away from the target on average. If no such point
        holds, the option has no effect, and the answer says which changes go against the grain.

    Notes
    -----
    If no candidate holds under refitted models, one that holds under noise is chosen: at up to twice the cost of the
    nearest point, the one that most of them accept. If none holds, it is the most reliable point that reaches the
    target at up to that cost; if none reaches it, the best point seen. A note says which, and whether the budget ran
    out. A row that already reaches the target is returned unchanged.

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
    sensible: bool = False

    def __post_init__(self) -> None:
        require_finite(self, "probability", "confidence", "refit_confidence")
        if not 0 < self.probability <= 1:
            raise ValueError(f"Reliable: probability must be above 0, at most 1, not {self.probability!r}")
        for name in ("confidence", "refit_confidence"):
            if not 0 < getattr(self, name) < 1:
                raise ValueError(f"Reliable: {name} must lie between 0 and 1, not {getattr(self, name)!r}")
        if self.distance not in ("l1", "l2"):
            raise ValueError(f"Reliable: distance must be 'l1' or 'l2', not {self.distance!r}")
        if not isinstance(self.sensible, (bool, np.bool_)):
            raise TypeError(f"Reliable: sensible must be True or False, not {self.sensible!r}")
        require_counts(self, "n_perturb", "n_confirm", "max_candidates")

    def check_space(self, space: Space) -> None:
        """Refuse noise that does not fit the features."""
        require_noise(self.noise, space)

    def choose(self, scene: Scene) -> Choice:
        """Choose the cheapest candidate that holds, its changes shrunk if possible; otherwise the most reliable one."""
        posterior = scene.model(self)
        if scene.row.reached[0, 0]:
            return Choice(scene.row.x, scene.row, "the row reaches the target as it is")
        search = _Candidates()  # one after another, so that all trials together have the risk
        if self.sensible and (found := self._find_sensible(scene, posterior, search)) is not None:
            return found
        try:
            nearest = self._find_nearest(scene)
        except BudgetSpentError:
            nearest = self._nearest_rule.choose(replace(scene, posterior=None))
            return _take_nearest(nearest)
        own = UnderNoise(scene, posterior, self.noise, first_only=True)
        try:
            if not accepts(own, nearest.x[:1])[0]:
                return _take_first(nearest, "no evaluated point reaches the target; this is the best seen")
            read = replace(own, posterior=read_models(posterior))  # trees are read, and asked to confirm the result
            found = self._find_holding(scene, read, nearest.x, search)
            if found is not None and not accepts(own, found.x)[0]:
                found = self._find_holding(scene, own, nearest.x, search)
            return self._find_most_reliable(scene, read, nearest) if found is None else found
        except BudgetSpentError:
            return _take_nearest(nearest)

    def _find_sensible(self, scene: Scene, posterior: GibbsPosterior, search: _Candidates) -> Choice | None:
        """Return a point that holds without a change against the grain, if there is one and the budget allows it."""
        reached = scene.draws.known.reached[:, 0]
        if not reached.any():
            return None
        gain = float(np.median(scene.draws.known.outputs[reached, 0]) - scene.row.outputs[0, 0])
        try:
            space = forbid_against(posterior, scene.space, scene.x0, gain)
            if space is scene.space:
                return None
            limited = replace(scene, query=replace(scene.query, space=space, free=space.free(scene.x0)), earlier=())
            noisy = UnderNoise(scene, posterior, self.noise, first_only=True)  # errors keep to no direction
            nearest = self._nearest_rule.choose(limited)
            good = accepts(noisy, nearest.x[:1])[0]
            return self._find_holding(limited, noisy, nearest.x, search) if good else None
        except BudgetSpentError:
            return None

    def _find_holding(self, scene: Scene, noisy: UnderNoise, nearest: Array, search: _Candidates) -> Choice | None:
        """Return the cheapest point found that holds; ``nearest`` ``(n, d)`` are cheap points that reach the target.

        Its candidates take the place of those of an earlier ``search``, whose trials count.
        """
        most = count_affordable(noisy.posterior, self.max_candidates, 2 * self.n_perturb)
        choosing, confirming = (None, None) if scene.refits is None else split_refits(scene.refits)
        chosen_by = replace(scene, refits=choosing)
        stricter = (self._find_with_margin(scene, noisy, nearest), self._find_under_refits(chosen_by, noisy, nearest))
        near = np.vstack([nearest, *stricter])
        search.x = self._list_candidates(scene, near, most)
        search.further = lambda: self._list_rows(scene, most)
        if choosing is None:
            x = self._seek(noisy, search, partial(accepts, noisy))
            return None if x is None else Choice(x[None, :], note=f"{_HOLDS} {search.shown:.4g} {_UNDER_NOISE}")
        judges = None if confirming is None else replace(scene, refits=confirming)
        found = self._find_under_both(chosen_by, judges, noisy, search)
        return self._find_without_refits(chosen_by, noisy, search, nearest[0]) if found is None else found

    def _find_under_both(
        self, scene: Scene, judges: Scene | None, noisy: UnderNoise, search: _Candidates
    ) -> Choice | None:
        """Return the cheapest point that holds under noise and refits, under wider noise where ``judges`` reject it."""
        kept = f"{_HOLDS} {{:.4g}} {_UNDER_NOISE} and under refitted models"
        if judges is None:
            x = self._seek(noisy, search, partial(self._holds, scene, noisy))
            return None if x is None else Choice(x[None, :], note=kept.format(search.shown))
        last, caveat = None, "the other half does not confirm it"
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
            caveat = "the budget ran out before the other half confirmed a point"
        note = (
            "the most robust point chosen with half of the refitted models, which still works with probability at "
            f"least {search.shown:.4g} {_UNDER_NOISE}; {caveat}"
        )
        return None if last is None else Choice(last[None, :], note=note)

    def _confirm(self, judges: Scene, x: Array) -> bool:
        """Whether the confirming refits accept a point ``(d,)``."""
        assert judges.refits is not None
        shares = refit_shares(judges, self.noise, x[None, :], _EFFORT.refit_copies)[0]
        return confirms(shares, judges.refits.mixture.weights, self.probability, self.refit_confidence)

    def _find_without_refits(
        self, scene: Scene, noisy: UnderNoise, search: _Candidates, nearest: Array
    ) -> Choice | None:
        """Return a point that holds under noise only, preferably one that many refits accept."""
        missed = f"no point was found that refitted models accept with probability {self.probability:g}"
        x = search.x[self._cost(scene, search.x) <= _EFFORT.dearest * self._cost(scene, nearest[None, :])]
        assert scene.refits is not None
        if scene.refits.affords(len(x) * _EFFORT.few_copies) == len(x) * _EFFORT.few_copies:
            shares = refit_share(scene, self.noise, x, _EFFORT.few_copies)
            some = _Candidates(x[np.argsort(-shares, kind="stable")], tuple, search.tried)
            found = self._seek(noisy, some, partial(accepts, noisy), refine=False)
            search.tried = some.tried
            if found is not None:
                note = (
                    f"{missed}; among points at up to {_EFFORT.dearest:g} times the cost of the nearest, this is the "
                    "one they accept most often, and it still works with probability at least "
                    f"{some.shown:.4g} {_UNDER_NOISE}"
                )
                return Choice(found[None, :], note=note)
        found = self._seek(noisy, search, partial(accepts, noisy))
        note = f"{missed}; this is {_HOLDS} {search.shown:.4g} {_UNDER_NOISE}"
        return None if found is None else Choice(found[None, :], note=note)

    def _find_most_reliable(self, scene: Scene, noisy: UnderNoise, nearest: Choice) -> Choice:
        """Return the point of highest success rate at up to twice the cost of the nearest, or the nearest itself."""
        most = count_affordable(noisy.posterior, self.max_candidates, 2 * self.n_perturb)
        x = self._list_candidates(scene, nearest.x, most)
        x = self._thin(x[self._cost(scene, x) <= _EFFORT.dearest * self._cost(scene, nearest.x[:1])], most)
        search = PromiseSearch(noisy, self._promise, x, partial(self._cost, scene))
        search.screen_all()
        winner, accepted = search.screening.find_fallback(reaching=True)
        n = count_affordable(noisy.posterior, self._promise.trial_copies, 2)
        both = noisy.successes(np.vstack([nearest.x[:1], x[[winner]]]), noisy.draw_offsets(n))
        found, gain = both.mean(axis=1), both[1] - both[0]
        if not accepted or gain.mean() <= _EFFORT.clear_se * gain.std() / np.sqrt(n):
            what = "this is the nearest point that reaches it, and none at up to {} its cost is more reliable"
            return _take_first(nearest, self._describe_shortfall(what, found[0]))
        what = "this is the most reliable point at up to {} the cost of the nearest that reaches it"
        return Choice(x[[winner]], note=self._describe_shortfall(what, found[1]))

    def _describe_shortfall(self, what: str, found: float) -> str:
        """Return a note that the promise is not kept, with the required and the estimated probability."""
        missed = f"no point was found that keeps reaching the target with probability {self.probability:g}"
        what = what.format(f"{_EFFORT.dearest:g} times")
        return f"{missed}; {what} (wanted {self.probability:g}, found about {found:.2f})"

    def _seek(
        self,
        noisy: UnderNoise,
        search: _Candidates,
        holds_elsewhere: Callable[[Array], Array],
        *,
        refine: bool = True,
    ) -> Array | None:
        """Search the candidates, then further ones until one holds or the budget ends: ``(d,)`` or ``None``."""
        for number, candidates in enumerate(chain([search.x], search.further())):
            try:
                x = self._seek_among(noisy, search, candidates, holds_elsewhere, refine)
            except BudgetSpentError:
                if number == 0:
                    raise
                return None  # the caller may settle for a weaker promise
            if x is not None:
                return x
        return None

    def _seek_among(
        self,
        noisy: UnderNoise,
        search: _Candidates,
        candidates: Array,
        holds_elsewhere: Callable[[Array], Array],
        refine: bool,
    ) -> Array | None:
        """Return the cheapest point ``(d,)`` that holds among candidates, if one is found."""
        among = PromiseSearch(
            noisy, self._promise, candidates, partial(self._cost, noisy.scene),
            partial(round_away, noisy.scene.space, noisy.scene.x0), holds_elsewhere, search.tried,
        )  # fmt: skip
        if not among.trials.possible:  # earlier searches have spent the risk
            return None
        try:
            held = among.find_holding()
            if held is None:
                return None
            nearer = among.shrink_changes(among.x[held], _EFFORT.rounds_nearer) if refine else None
            x = among.x[held] if nearer is None else nearer
            return among.undo_changes(x) if refine else x
        finally:
            search.tried, search.shown = among.trials.done, min(among.trials.enough, self.probability)

    @property
    def _promise(self) -> Promise:
        return Promise(self.probability, self.confidence, self.n_perturb, self.n_confirm)

    def _find_nearest(self, scene: Scene) -> Choice:
        """Return the choice of an earlier :class:`Nearest` rule, or search now."""
        for rule, choice in scene.earlier:
            if rule == self._nearest_rule:
                return choice
        return self._nearest_rule.choose(scene)

    @property
    def _nearest_rule(self) -> Nearest:
        return Nearest(distance=self.distance)

    def _cost(self, scene: Scene, x: Array) -> Array:
        """Return the cost of points ``(n, d)``: ``(n,)``; efforts count where it is the sum of changes."""
        effort = scene.query.effort if self.distance == "l1" else ()
        return costs(scene.space, x, scene.x0, self.distance) + effort_cost(scene.space, effort, x, scene.x0)

    def _find_with_margin(self, scene: Scene, noisy: UnderNoise, nearest: Array) -> Array:
        """Return cheap points ``(k, d)`` that exceed the target by what noise takes at the nearest ``(n, d)``."""
        reaching, posterior = Reaching(noisy.posterior.target), noisy.posterior
        rows = _EFFORT.margin_rows + 2 * self._promise.trial_copies  # what is found has to be put to trials, too
        if not reaching.has_margin or posterior.affords(rows) < rows:
            return nearest[:0]
        shifted = noisy.evaluate(nearest[:1], noisy.draw_offsets(_EFFORT.margin_copies))
        gaps = reaching.judge(Evaluated(*(part[0] for part in shifted))).gap
        short = float(np.quantile(gaps, self.probability, method="higher"))
        margin = short - float(reaching.judge(posterior.evaluate_first(nearest[:1])).gap[0])
        if not 0.0 < short < np.inf:  # the nearest point may hold itself, or noise may ruin it altogether
            return nearest[:0]

        def judge(x: Array) -> Judged:
            gap, reached = reaching.judge(posterior.evaluate_first(x))
            with np.errstate(over="ignore"):  # outputs near the limits of floats
                gap = gap + margin
            return Judged(gap, reached & (gap <= 0.0))

        found = self._search_nearest(scene, posterior, judge, nearest, posterior.affords, _EFFORT.margin_rows)
        return round_away(scene.space, scene.x0, found)

    def _find_under_refits(self, scene: Scene, noisy: UnderNoise, nearest: Array) -> Array:
        """Return cheap points ``(k, d)`` that enough of some refits accept without noise."""
        if scene.refits is None:
            return nearest[:0]
        posterior, n = noisy.posterior, len(scene.refits.predictors)
        some = np.unique(np.linspace(0, n - 1, min(n, _EFFORT.searched_refits)).round().astype(int))
        few = replace(scene.refits, predictors=tuple(scene.refits.predictors[k] for k in some))
        reaching = Reaching(posterior.target)

        def judge(x: Array) -> Judged:
            own, outputs = reaching.judge(posterior.evaluate_first(x)), few.evaluate(x)
            each = [reaching.judge(Evaluated(*(part[:, [k]] for part in outputs))) for k in range(len(some))]
            missing = np.quantile([one.gap for one in each], self.probability, axis=0, method="higher")
            agree = np.mean([one.reached for one in each], axis=0) >= self.probability
            return Judged(np.maximum(own.gap, missing), own.reached & agree)

        return self._search_nearest(scene, posterior, judge, nearest, few.affords, _EFFORT.refit_rows)

    def _search_nearest(
        self,
        scene: Scene,
        posterior: GibbsPosterior,
        judge: Callable[[Array], Judged],
        nearest: Array,
        affords: Callable[[int], int],
        max_rows: int,
    ) -> Array:
        """Return the cheapest points ``(k, d)`` that a stricter judge accepts, found from ``nearest`` ``(n, d)`` on."""
        space, x0 = scene.space, scene.x0
        data = scene.draws.known.x if posterior.landmarks is None else posterior.landmarks
        found = find_nearest(
            CandidateMoves(space, x0, values_to_try(space, x0, data), lambda x: costs(space, x, x0, self.distance)),
            judge,
            nearest[:0],
            trials=extend_changes(space, x0, nearest),
            power=2 if self.distance == "l2" else 1,
            affords=affords,
            max_rows=max_rows,
        )
        return found.x[np.argsort(found.cost, kind="stable")[: _EFFORT.modes]]

    def _list_candidates(self, scene: Scene, nearest: Array, most: int) -> Array:
        """Return candidates ``(k, d)``, the cheapest first; ``nearest`` ``(n, d)`` reach the target."""
        space, x0 = scene.space, scene.x0
        known = scene.draws.known
        found = np.vstack([nearest, *(choice.x for _, choice in scene.earlier)])
        pushed = extend_each_change(scene, self._sort(scene, nearest)[: _EFFORT.pushed])
        rounded = round_away(space, x0, np.vstack([found, extend_changes(space, x0, nearest), pushed]))
        evaluated = self._sort(scene, round_away(space, x0, known.x[known.reached[:, 0]]))
        made = self._thin(self._sort(scene, np.vstack([nearest, rounded])), most // 2)
        return self._sort(scene, np.vstack([made, self._thin(evaluated, most - len(made))]))

    def _list_rows(self, scene: Scene, most: int) -> Iterator[Array]:
        """Yield rows of the data as candidates ``(k, d)``, for when none near the row holds."""
        yield self._thin(self._sort(scene, round_away(scene.space, scene.x0, _list_reaching_rows(scene))), most)

    @staticmethod
    def _thin(x: Array, most: int) -> Array:
        """Return at most ``most`` of points ``(n, d)`` sorted by cost: the cheapest, and a spread of the others."""
        cheap = min(int(_EFFORT.cheapest * most), len(x))
        return np.vstack([x[:cheap], x[thin_out(np.arange(cheap, len(x)), most - cheap)]])

    def _sort(self, scene: Scene, x: Array) -> Array:
        """Return the admissible points among ``(n, d)`` without duplicates, the cheapest first."""
        x = np.unique(x[scene.space.admissible(x, scene.x0)], axis=0)
        return x[np.argsort(self._cost(scene, x), kind="stable")]

    def _holds(self, scene: Scene, noisy: UnderNoise, x: Array, spread: float = 1.0) -> Array:
        """Whether the model accepts points ``(k, d)`` and refits do often enough under scaled noise: ``(k,)``."""
        good = accepts(noisy, x)
        if scene.refits is None or not good.any():
            return good
        n, risk = _count_equal(scene.refits.mixture.weights), 1.0 - self.refit_confidence
        enough = min(self.probability, lower_bound(1.0, n, risk))
        for noise, copies in ((0.0, 1), (self.noise, _EFFORT.refit_copies)):  # first without noise, which costs little
            if good.any():
                shares = refit_share(scene, noise, x[good], copies, spread)
                good[good] = [lower_bound(float(share), n, risk) >= enough - WIDE_ROUNDING for share in shares]
        return good


def extend_changes(space: Space, x0: Array, x: Array) -> Array:
    """Return points with the changes of points ``(k, d)`` multiplied by each factor of ``_FURTHER``."""
    with np.errstate(invalid="ignore"):
        further = (x0 + _FURTHER[:, None, None] * (x - x0)).reshape(-1, len(x0))
    source = np.tile(x, (len(_FURTHER), 1))
    return space.project(np.where(space.unordered | np.isnan(further), source, further), x0)


def extend_each_change(scene: Scene, x: Array) -> Array:
    """Return points ``(m, d)`` with one change, or all, extended by fixed steps, as scaling cannot at a bound."""
    space, x0 = scene.space, scene.x0
    with np.errstate(invalid="ignore"):
        step = np.where(space.unordered, 0.0, np.sign(np.nan_to_num(x - x0)) * space.scale)
    which, column = step.nonzero()
    singly = np.zeros((len(which), len(x0)))
    singly[np.arange(len(which)), column] = step[which, column]
    start, steps = np.vstack([x, x[which]]), np.vstack([step, singly])
    return space.project((start + _PUSHES[:, None, None] * steps).reshape(-1, len(x0)), x0)


def _list_reaching_rows(scene: Scene) -> Array:
    """Return the training rows that reach the target, projected to what the row can become: ``(m, d)``."""
    posterior = scene.posterior
    if posterior is None or posterior.landmarks is None or posterior.landmark_evaluated is None:
        return np.zeros((0, len(scene.space)))
    reached = Reaching(scene.query.target).judge(posterior.landmark_evaluated).reached
    return scene.space.project(posterior.landmarks[reached], scene.x0)


def _take_nearest(nearest: Choice) -> Choice:
    """Return the nearest point, where the budget ended the search; with a note of its own it does not reach."""
    what = "best seen" if nearest.note else "nearest that reaches the target"
    return _take_first(nearest, f"the budget ran out during the search; this is the {what}")


def _take_first(choice: Choice, note: str) -> Choice:
    """Return the first point of a choice, with another note."""
    known = None if choice.known is None else choice.known.take(np.arange(1))
    return Choice(choice.x[:1], known, note)


def round_away(space: Space, x0: Array, x: Array) -> Array:
    """Round changed numbers of points ``(n, d)`` to steps that a person would use, away from the row."""
    step = np.where(space.steps > 0, space.steps, 1.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        away = np.where(x > x0, np.ceil(x / step - WIDE_ROUNDING), np.floor(x / step + WIDE_ROUNDING))
        value = np.where(step < 1, away / np.rint(1 / step), away * step)  # the double nearest to the decimal
        rounded = np.where((space.steps > 0) & (x != x0) & np.isfinite(x) & np.isfinite(x0), value, x)
    return space.project(rounded, x0)
