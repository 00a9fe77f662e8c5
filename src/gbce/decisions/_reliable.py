"""The point to hand over: the cheapest that reaches the target and keeps reaching it."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from gbce._validation import require_counts, require_finite
from gbce.base import Array, Choice, Rule
from gbce.decisions._beyond import thin_out
from gbce.decisions._looks import accepts
from gbce.decisions._nearest import Nearest
from gbce.decisions._promise import Promise, PromiseSearch
from gbce.decisions._risk import UnderNoise, count_affordable
from gbce.decisions._trials import lower_bound
from gbce.draws import Scene
from gbce.metrics import Noise, costs, evaluate_under_noise, offsets, require_noise
from gbce.posterior import GibbsPosterior
from gbce.space import Space

__all__ = ["Reliable", "refit_shares"]

# Chosen by hand.
_FURTHER = np.array([1.0, 1.05, 1.1, 1.2, 1.35, 1.5, 1.75, 2.0, 2.5, 3.0])  # times as far as a point that just reaches
_CHEAPEST = 0.5  # of the candidates: the cheapest, all of them; the others are spread over what is dearer
_READABLE = 40  # steps of a real number in one unit of its scale, rounded to a power of ten
_REFIT_COPIES = 32  # perturbed copies of a candidate that refitted models are asked about
_ROUNDING = 1e-9  # of a step: a number that is on the grid but for its last bits stays there


@dataclass(frozen=True)
class Reliable(Rule):
    """The cheapest point that reaches the target and keeps reaching it, the usual policy for ``explanation.answer``.

    Candidates are what :class:`gbce.Nearest` finds, points further in the same directions, every evaluated point that
    reaches the target, and what other rules chose, with real numbers rounded to values that a person would say. They
    are gone through from the cheapest on, as :class:`gbce.ChanceConstrained` does it: what is promised holds under
    fresh noise, with the confidence given. From the first that holds, changes are drawn back as far as the promise
    allows.

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
    If no candidate holds, the nearest point that reaches the target is chosen; if none reaches it, the best that was
    seen. A note says which. A row that reaches the target already is chosen as it is.

    Examples
    --------
    >>> Reliable(0.8).label
    'Reliable(probability=0.8)'
    """

    asks_model: ClassVar[bool] = True

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
        if not self._accepts(scene, posterior, nearest.x[:1])[0]:
            return _first(nearest, "no evaluated point reaches the target; this is the best seen")
        noisy = UnderNoise(scene, posterior, self.noise, first_only=True)
        most = count_affordable(posterior, self.max_candidates, 2 * self.n_perturb)
        search = PromiseSearch(
            noisy,
            Promise(self.probability, self.confidence, self.n_perturb, self.n_confirm),
            self._list_candidates(scene, nearest, most),
            lambda x: costs(scene.space, x, scene.x0, self.distance),
            tidy=lambda x: _round_away(scene.space, scene.x0, x),
            holds_elsewhere=lambda x: self._holds(scene, noisy, x),
        )
        held = search.find_holding()
        if held is None:
            return _first(
                nearest,
                f"no point was found that keeps reaching the target with probability {self.probability:g}; this is the "
                "nearest that reaches it",
            )
        nearer = search.draw_nearer(search.x[held])
        x = search.x[held] if nearer is None else nearer
        under = "under execution noise" if scene.refits is None else "under execution noise and refitted models"
        shown = min(search.trials.enough, self.probability)
        return Choice(
            x[None, :],
            note=f"the cheapest point found that reaches the target and keeps reaching it with probability {shown:.4g} "
            f"{under}",
        )

    def _find_nearest(self, scene: Scene) -> Choice:
        """Return what a rule that seeks the nearest chose, or seek it."""
        wanted = Nearest(distance=self.distance)
        for rule, choice in scene.earlier:
            if rule == wanted:
                return choice
        return wanted.choose(scene)

    def _accepts(self, scene: Scene, posterior: GibbsPosterior, x: Array) -> Array:
        return accepts(UnderNoise(scene, posterior, self.noise, first_only=True), x)

    def _list_candidates(self, scene: Scene, nearest: Choice, most: int) -> Array:
        """Return candidates ``(k, d)``, the cheapest first."""
        space, x0 = scene.space, scene.x0
        known = scene.draws.known
        found = [nearest.x, *(choice.x for _, choice in scene.earlier)]
        with np.errstate(invalid="ignore"):
            further = (x0 + _FURTHER[:, None, None] * (nearest.x - x0)).reshape(-1, len(x0))
        source = np.tile(nearest.x, (len(_FURTHER), 1))
        further = space.project(np.where(space.unordered | np.isnan(further), source, further), x0)
        x = np.vstack([*found, _round_away(space, x0, np.vstack([*found, further, known.x[known.reached[:, 0]]]))])
        x = np.unique(x[space.admissible(x, x0)], axis=0)
        x = x[np.argsort(costs(space, x, x0, self.distance), kind="stable")]
        cheap = min(int(_CHEAPEST * most), len(x))
        return np.vstack([x[:cheap], x[cheap:][thin_out(np.arange(len(x) - cheap), most - cheap)]])

    def _holds(self, scene: Scene, noisy: UnderNoise, x: Array) -> Array:
        """Whether the model itself accepts points ``(k, d)``, and refitted ones do so often enough: ``(k,)``."""
        good = accepts(noisy, x)
        if scene.refits is None or not good.any():
            return good
        shares = refit_shares(scene, self.noise, x[good], _REFIT_COPIES)
        n = shares.shape[1]
        risk = 1.0 - self.refit_confidence
        enough = min(self.probability, lower_bound(1.0, n, risk))
        good[good] = [lower_bound(float(share), n, risk) >= enough for share in shares.mean(axis=1)]
        return good


def refit_shares(scene: Scene, noise: Noise | None, x: Array, copies: int) -> Array:
    """Return how often each of ``R`` refitted models accepts points ``(k, d)`` under noise: ``(k, R)``."""
    refits = scene.refits
    assert refits is not None
    drawn = offsets(scene.noise if noise is None else noise, scene.space, scene.rng, copies)
    return np.asarray(evaluate_under_noise(refits, scene.space, x, drawn).reached.mean(axis=1))


def _first(choice: Choice, note: str) -> Choice:
    """Return the first point of a choice."""
    known = None if choice.known is None else choice.known.take(np.arange(1))
    return Choice(choice.x[:1], known, note)


def _round_away(space: Space, x0: Array, x: Array) -> Array:
    """Return points ``(n, d)`` with changed real numbers rounded, away from the row, to what a person would say."""
    real = np.array([feature.kind == "real" for feature in space.features]) & ~space.is_computed
    step = 10.0 ** np.floor(np.log10(space.scale / _READABLE))
    with np.errstate(invalid="ignore"):
        away = np.where(x > x0, np.ceil(x / step - _ROUNDING), np.floor(x / step + _ROUNDING))
        value = np.where(step < 1, away / np.rint(1 / step), away * step)  # the double that is nearest to the decimal
        rounded = np.where(real & (x != x0) & np.isfinite(x) & np.isfinite(x0), value, x)
    return space.project(rounded, x0)
