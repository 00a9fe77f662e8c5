"""Looks at candidates under execution noise, from a glance at all of them to a closer look at a few."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gbce.base import Array
from gbce.decisions._risk import UnderNoise, count_affordable
from gbce.decisions._trials import Trials

__all__ = ["Looks", "accepts", "fresh_success"]

# How model rows are spent; all chosen by hand, and no promise hangs on them.
_GLANCE, _LOOKS = 0.125, (0.375, 1.0)  # of the few copies, for every candidate, and then for those that may hold
_AT_ONCE, _PROMISING_AT_ONCE = 4, 2  # candidates that get more of the few copies in one call, and then the many
_HOPE = 2.0  # standard errors that a share may be below what is wanted, after each look but the last
_PART = 0.25  # of the many copies, after which those go on that may hold
# If none holds: so many get all of the few copies, the best of them a part of the many, the best of these all.
_FALLBACKS, _CONFIRMED_IN_PART, _CONFIRMED = 60, 20, 5


@dataclass
class Looks:
    """Shares of successes of candidates, the nearest first, under copies that are the same for all of them.

    Parameters
    ----------
    noisy : UnderNoise
        The models under noise.
    x : array of shape (k, d)
        Candidates.
    few, many : array of shape (n, d)
        Offsets of a first look, and of a closer one.
    share : array of shape (k,)
        Of successes, under as many of the few as a candidate got.
    copies : int array of shape (k,)
        How many of the few a candidate got.
    """

    noisy: UnderNoise
    x: Array
    few: Array
    many: Array
    share: Array
    copies: Array

    @classmethod
    def of(cls, noisy: UnderNoise, x: Array, n_few: int, n_many: int) -> "Looks":
        """Draw offsets for candidates ``(k, d)``."""
        few, many = np.split(noisy.draw_offsets(n_few + n_many), [n_few])
        return cls(noisy, x, few, many, np.zeros(len(x)), np.zeros(len(x), dtype=int))

    def glance(self, block: slice, worth: float) -> Array:
        """Look at a block of candidates under a few copies; return the positions of those that may be worth more."""
        return self._sift(np.arange(len(self.x))[block], worth, _GLANCE)

    def sift(self, which: Array, worth: float) -> Array:
        """Return those of candidates that may be worth more under all of the few copies."""
        for part in _LOOKS:
            which = self._sift(which, worth, part)
        return which

    def _sift(self, which: Array, worth: float, part: float) -> Array:
        n = max(int(part * len(self.few)), 1)
        self._look(which, n)
        return which[self.share[which] >= _hope(worth, n)]

    def _look(self, which: Array, n: int) -> None:
        """Look at candidates under ``n`` of the few copies."""
        for had in np.unique(self.copies[which]).tolist():
            some = which[self.copies[which] == had]
            if had < n:
                more = self.noisy.success(self.x[some], self.few[had:n])
                self.share[some] = (had * self.share[some] + (n - had) * more) / n
                self.copies[some] = n

    def find_holding(self, hopeful: Array, trials: Trials, holds_elsewhere: Callable[[Array], Array]) -> int | None:
        """Return the first of the hopeful candidates that holds under many copies, elsewhere, and in a trial."""
        for start in range(0, len(hopeful), _AT_ONCE):
            some = self.sift(hopeful[start : start + _AT_ONCE], trials.worth)
            for at in range(0, len(some), _PROMISING_AT_ONCE):
                near = some[at : at + _PROMISING_AT_ONCE]
                # one more, for the trial
                near = near[: count_affordable(self.noisy.posterior, len(near) + 1, len(self.many))]
                near, share = self._look_closer(near, trials.worth)
                good = share >= trials.worth
                good[good] = accepts(self.noisy, self.x[near[good]], known=True)
                good[good] = holds_elsewhere(self.x[near[good]])
                held = trials.first_to_hold(near[good], share[good])
                if held is not None:
                    return held
        return None

    def _look_closer(self, which: Array, worth: float) -> tuple[Array, Array]:
        """Return those of some candidates that may hold after a part of the many copies, and their shares of all."""
        n, part = len(self.many), self._n_part
        share = self.noisy.success(self.x[which], self.many[:part])
        going = share >= _hope(worth, part)
        which, share = which[going], share[going]
        if len(which) and part < n:
            share = (part * share + (n - part) * self.noisy.success(self.x[which], self.many[part:])) / n
        return which, share

    @property
    def _n_part(self) -> int:
        return max(int(_PART * len(self.many)), 1)

    def find_fallback(self, reaching: bool) -> tuple[int, bool]:
        """Return the candidate that succeeds most often, the nearest of equals, and whether the model accepts it."""
        best = self._best(np.arange(len(self.x)), self.share, _FALLBACKS)
        self._look(best[: self.noisy.posterior.affords(len(best) * len(self.few)) // len(self.few)], len(self.few))
        most = count_affordable(self.noisy.posterior, _CONFIRMED_IN_PART + 1, len(self.many))
        best = self._best(best, self.share[best], min(most, _CONFIRMED_IN_PART))
        accepted = best[accepts(self.noisy, self.x[best], known=True)] if reaching else best[:0]
        best = accepted if len(accepted) else best
        part = self._n_part
        share = self.noisy.success(self.x[best], self.many[:part])
        if len(best) > 1 and part < len(self.many):
            few = np.isin(best, self._best(best, share, _CONFIRMED))
            more = self.noisy.success(self.x[best[few]], self.many[part:])
            best, share = best[few], part * share[few] + (len(self.many) - part) * more
        return int(best[np.argmax(share)]), len(accepted) > 0

    @staticmethod
    def _best(which: Array, share: Array, most: int) -> Array:
        """Return those of candidates with the greatest shares, in their order."""
        return which[np.sort(np.argsort(-share, kind="stable")[:most])]


def _hope(worth: float, n: int) -> float:
    """Return the share of ``n`` copies from which a candidate may be worth a trial: some standard errors less."""
    return worth - _HOPE * float(np.sqrt(worth * (1 - worth) / n))


def fresh_success(noisy: UnderNoise, x: Array, copies: int) -> tuple[float, int]:
    """Return the share of successes of one point ``(d,)`` under offsets of its own, as many as the budget allows."""
    n = count_affordable(noisy.posterior, copies, 1)
    return float(noisy.success(x[None, :], noisy.draw_offsets(n))[0]), n


def accepts(noisy: UnderNoise, x: Array, *, known: bool = False) -> Array:
    """Whether the first model accepts points ``(k, d)`` by its own decision: ``(k,)``.

    Of points ``known`` to reach the target it is asked only where its decision may differ from what was read off them.
    """
    first = noisy.posterior.predictors[0]
    if len(x) == 0 or (known and first.questions(use_predict=True) == first.questions()):
        return np.ones(len(x), dtype=bool)
    return noisy.posterior.read(noisy.posterior.ask(x, use_predict=True, models=1)).reached[:, 0]
