"""All chains of the hierarchy at one step, and the moves that renew them."""

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.rivals._hierarchy_law import Law, LogScore, draw_changes, log_mass, pick_some, renew

__all__ = ["State"]

_PRIOR_SCALE = 0.5  # of the half-normal laws of spreads and widths; a reconstruction, as the publication's is not known
_STEPS = 8  # most widths that a slice is stepped out by
_SHRINKS = 100  # most tries in a slice; it halves with each, so that this is never the end
_SURROGATE = 1  # rounds of slices on the way of whole columns, forth and back; more cost no model call
_JUMPS = (0.05, 0.2, 0.6)  # sizes of joint moves, one picked at random: many rows take small ones only


class State:
    """All chains at one step."""

    def __init__(
        self, law: Law, log_score: LogScore, groups: Any, free: Any, chains: int, g: int, rng: np.random.Generator
    ) -> None:
        self.law, self._log_score, self._groups, self._free, self._rng = law, log_score, groups, free, rng
        n, p = free.shape
        self._members = np.equal.outer(np.arange(g), groups)  # (g, n)
        half = _PRIOR_SCALE
        self.mu0 = rng.standard_normal((chains, p)) if law.centre is None else np.full((chains, p), law.centre)
        self.omega = self._known(law.spread, half * np.abs(rng.standard_normal((chains, p))))
        self.b = self._known(law.width, half * np.abs(rng.standard_normal((chains, p))))
        self.mu = self.mu0[:, None] + self.omega[:, None] * rng.standard_normal((chains, g, p))
        self.delta = draw_changes(law, self.mu[:, groups], np.broadcast_to(self.b[:, None], (chains, n, p)), rng) * free
        self._said = self._ask(self.delta)

    @staticmethod
    def _known(number: float | None, otherwise: Any) -> Any:
        return otherwise if number is None else np.full(otherwise.shape, number)

    def _ask(self, delta: Any) -> Any:
        return self._log_score(delta[:, :, None, :])[:, :, 0]

    # --- moves that ask the model -----------------------------------------------------------------------------

    def renew_changes(self, candidates: int) -> float:
        """Renew every row's change."""
        centre, width = self.mu[:, self._groups], np.broadcast_to(self.b[:, None], self.delta.shape)
        self.delta, self._said, share = renew(
            self.law, self.delta, self._said, centre, width, self._free, self._log_score, candidates, self._rng
        )
        return share

    def carry_groups(self, candidates: int) -> float:
        """Shift centres of groups together with the changes of their rows."""
        chains, g, p = self.mu.shape
        shift = self._crowd((chains, g, p), candidates)  # (chains, g, m, p)
        mu = self.mu[:, :, None] + shift
        delta = self.delta[:, :, None] + shift[:, self._groups] * self._free[:, None]
        said = self._log_score(delta)
        by_row = self._row_terms(delta, said) - self._row_terms(self.delta, self._said)[:, :, None]
        ways = (mu - self.mu0[:, None, None]) / self.omega[:, None, None]
        way = (self.mu - self.mu0[:, None]) / self.omega[:, None]
        gain = np.einsum("cnm,gn->cgm", by_row, self._members.astype(float))
        gain += 0.5 * ((way**2).sum(axis=2)[:, :, None] - (ways**2).sum(axis=3))
        pick, taken = self._pick(gain)  # (chains, g)
        rows = pick[:, self._groups]
        moves = taken[:, self._groups]
        self.mu = np.where(taken[:, :, None], _at(mu, pick), self.mu)
        self.delta = np.where(moves[:, :, None], _at(delta, rows), self.delta)
        self._said = np.where(moves, np.take_along_axis(said, rows[..., None], axis=2)[..., 0], self._said)
        return float(taken.mean())

    def carry_widths(self, candidates: int) -> float:
        """Stretch widths together with the deviations of all rows."""
        stretch = self._crowd(self.b.shape, candidates)  # (chains, m, p)
        b, centre = self.b[:, None] * np.exp(stretch), self.mu[:, self._groups]
        apart = (self.delta - centre) * self._free
        delta = self.delta[:, :, None] + apart[:, :, None] * np.expm1(stretch)[:, None]
        said = self._log_score(delta)
        by_row = self._row_terms(delta, said) - self._row_terms(self.delta, self._said)[:, :, None]
        gain = by_row.sum(axis=1) + (_half_normal(b) - _half_normal(self.b)[:, None] + stretch).sum(axis=2)
        pick, taken = self._pick(gain)  # (chains,)
        rows = np.broadcast_to(pick[:, None], self._said.shape)
        self.b = np.where(taken[:, None], _at(b, pick), self.b)
        self.delta = np.where(taken[:, None, None], _at(delta, rows), self.delta)
        there = np.take_along_axis(said, rows[..., None], axis=2)[..., 0]
        self._said = np.where(taken[:, None], there, self._said)
        return float(taken.mean())

    def _pick(self, gain: Any) -> tuple[Any, Any]:
        """Pick a candidate, or what is there, by gains over it ``(..., m)``: which ``(...)``, and whether any."""
        stay = np.zeros((*gain.shape[:-1], 1))
        weight = np.concatenate([gain, stay], axis=-1)
        best = np.argmax(weight + self._rng.gumbel(size=weight.shape), axis=-1)
        taken = best < gain.shape[-1]
        return np.where(taken, best, 0), taken

    def renew_columns(self) -> float:
        """Renew all levels of some columns, and the changes of all rows in them."""
        law, rng = self.law, self._rng
        chains, _, p = self.mu.shape
        mu0, omega, b, mu = self._surrogate()
        touched = pick_some((chains, p), rng)
        mu0, omega, b = (
            np.where(touched, new, old) for new, old in ((mu0, self.mu0), (omega, self.omega), (b, self.b))
        )
        mu = np.where(touched[:, None], mu, self.mu)
        fresh = draw_changes(law, mu[:, self._groups], np.broadcast_to(b[:, None], self.delta.shape), rng)
        delta = np.where(touched[:, None] & self._free, fresh, self.delta)
        said = self._ask(delta)
        gain = law.kappa * (said - self._said).sum(axis=1)
        gain -= law.late_rate * (np.abs(delta) - np.abs(self.delta)).sum(axis=(1, 2))
        taken = np.log(rng.uniform(size=chains)) < gain
        one, two = taken[:, None], taken[:, None, None]
        self.mu0, self.omega, self.b = (
            np.where(one, new, old) for new, old in ((mu0, self.mu0), (omega, self.omega), (b, self.b))
        )
        self.mu, self.delta = np.where(two, mu, self.mu), np.where(two, delta, self.delta)
        self._said = np.where(one, said, self._said)
        return float(taken.mean())

    def _surrogate(self) -> tuple[Any, Any, Any, Any]:
        """Return population, spreads, widths and centres after a reversible way that knows nothing of the model."""
        law, rng = self.law, self._rng
        counts = np.stack([self._free[members].sum(axis=0) for members in self._members])  # (g, p)
        mu0, omega, b, mu = self.mu0, self.omega, self.b, self.mu

        def of_population(x: Any) -> Any:
            return -0.5 * x**2 + self._log_centres(mu, x, omega).sum(axis=1)

        def of_spread(x: Any) -> Any:
            return _half_normal(np.exp(x)) + x + self._log_centres(mu, mu0, np.exp(x)).sum(axis=1)

        def of_width(x: Any) -> Any:
            return _half_normal(np.exp(x)) + x + (counts * log_mass(law, mu, np.exp(x)[:, None])).sum(axis=1)

        def of_centres(x: Any) -> Any:
            return self._log_centres(x, mu0, omega) + counts * log_mass(law, x, b[:, None])

        way = ["population", "spread", "width", "centres"] * _SURROGATE
        for what in [*way, *way[::-1]]:  # a palindrome of reversible steps is reversible
            if what == "population" and law.centre is None:
                mu0 = _slice(of_population, mu0, 0.5, rng)
            elif what == "spread" and law.spread is None:
                omega = np.exp(_slice(of_spread, np.log(omega), 1.0, rng))
            elif what == "width" and law.width is None:
                b = np.exp(_slice(of_width, np.log(b), 1.0, rng))
            elif what == "centres":
                mu = _slice(of_centres, mu, 0.5 * omega[:, None], rng)
        return mu0, omega, b, mu

    def _crowd(self, shape: tuple[int, ...], m: int) -> Any:
        """Return moves ``(..., m, p)`` in some numbers, scattered around one that is scattered around what is there.

        So what is there is one of the crowd, as likely as any to have begun it, and picking by the target alone is
        right (Tjelmeland 2004).
        """
        size = np.array(_JUMPS)[self._rng.integers(0, len(_JUMPS), shape[:-1])][..., None, None]
        touched = pick_some(shape, self._rng)[..., None, :]
        middle = self._rng.standard_normal(shape)[..., None, :]
        around = self._rng.standard_normal((*shape[:-1], m, shape[-1]))
        return np.where(touched, size * (middle + around) / np.sqrt(2.0), 0.0)

    def _row_terms(self, delta: Any, said: Any) -> Any:
        """Return what scores and proximity say of changes ``(..., p)``."""
        return self.law.kappa * said - self.law.rate * np.abs(delta).sum(axis=-1)

    # --- moves above the rows ---------------------------------------------------------------------------------

    def renew_levels(self) -> None:
        """Renew centres, spreads and widths given the changes."""
        self._renew_centres()
        if self.law.width is None:
            self._renew_widths()
        if self.law.centre is None:
            self._renew_population()
        if self.law.spread is None:
            self._renew_spreads()
        self._renew_by_offsets()

    def _renew_centres(self) -> None:
        def density(mu: Any) -> Any:
            return self._log_changes(mu) + self._log_centres(mu, self.mu0, self.omega)

        self.mu = _slice(density, self.mu, 0.5 * self.omega[:, None], self._rng)

    def _renew_widths(self) -> None:
        size = -self.law.around(self.delta - self.mu[:, self._groups], 1.0)
        total, n = (size * self._free).sum(axis=1), self._free.sum(axis=0)
        power = 1 if self.law.family == "laplace" else 2

        def density(log_b: Any) -> Any:
            return _half_normal(np.exp(log_b)) + log_b - n * log_b - total * np.exp(-power * log_b)

        self.b = np.exp(_slice(density, np.log(self.b), 1.0, self._rng))

    def _renew_population(self) -> None:
        g = self.mu.shape[1]
        precision = 1 + g / self.omega**2
        middle = self.mu.sum(axis=1) / self.omega**2 / precision
        self.mu0 = middle + self._rng.standard_normal(middle.shape) / np.sqrt(precision)

    def _renew_spreads(self) -> None:
        def density(log_omega: Any) -> Any:
            omega = np.exp(log_omega)
            centres = self._log_centres(self.mu, self.mu0, omega).sum(axis=1)
            return _half_normal(omega) + log_omega + centres

        self.omega = np.exp(_slice(density, np.log(self.omega), 1.0, self._rng))

    def _renew_by_offsets(self) -> None:
        """Renew the population's centre and the spread with the groups' standardised offsets held fixed."""
        offset = (self.mu - self.mu0[:, None]) / self.omega[:, None]
        if self.law.centre is None:

            def of_centre(mu0: Any) -> Any:
                return -0.5 * mu0**2 + self._log_changes(mu0[:, None] + self.omega[:, None] * offset).sum(axis=1)

            self.mu0 = _slice(of_centre, self.mu0, 0.5, self._rng)
        if self.law.spread is None:

            def of_spread(log_omega: Any) -> Any:
                omega = np.exp(log_omega)
                changes = self._log_changes(self.mu0[:, None] + omega[:, None] * offset).sum(axis=1)
                return _half_normal(omega) + log_omega + changes

            self.omega = np.exp(_slice(of_spread, np.log(self.omega), 1.0, self._rng))
        self.mu = self.mu0[:, None] + self.omega[:, None] * offset

    def _log_changes(self, mu: Any) -> Any:
        """Return what the changes say of the groups' centres ``(chains, g, p)``."""
        totals = []
        for g, members in enumerate(self._members):
            terms = self.law.around(self.delta[:, members] - mu[:, g, None], self.b[:, None])
            totals.append((terms * self._free[members]).sum(axis=1))
        return np.stack(totals, axis=1)

    @staticmethod
    def _log_centres(mu: Any, mu0: Any, omega: Any) -> Any:
        """Return the logarithm of the density of the groups' centres ``(chains, g, p)``."""
        return -0.5 * ((mu - mu0[:, None]) / omega[:, None]) ** 2 - np.log(omega[:, None])


def _at(values: Any, which: Any) -> Any:
    """Return the candidates ``which`` ``(...)`` of values ``(..., m, p)``."""
    return np.take_along_axis(values, which[..., None, None], axis=-2)[..., 0, :]


def _half_normal(x: Any) -> Any:
    """Return the logarithm of the density of spreads and widths, but for a constant."""
    return -0.5 * (x / _PRIOR_SCALE) ** 2


def _slice(log_density: Callable[[Any], Any], x: Any, width: Any, rng: np.random.Generator) -> Any:
    """Return the next states of many one-dimensional slice samplers, with steps out (Neal 2003)."""
    level = log_density(x) - rng.exponential(size=x.shape)
    left = x - width * rng.uniform(size=x.shape)
    right = left + width
    to_left = rng.integers(0, _STEPS, x.shape)
    to_right = _STEPS - 1 - to_left
    while (grow := (to_left > 0) & (log_density(left) > level)).any():
        left, to_left = np.where(grow, left - width, left), to_left - grow
    while (grow := (to_right > 0) & (log_density(right) > level)).any():
        right, to_right = np.where(grow, right + width, right), to_right - grow
    now, open_ = x, np.ones(x.shape, dtype=bool)
    for _ in range(_SHRINKS):
        tried = left + (right - left) * rng.uniform(size=x.shape)
        good = log_density(tried) > level
        now, open_ = np.where(open_ & good, tried, now), open_ & ~good
        if not open_.any():
            break
        left, right = np.where(open_ & (tried < x), tried, left), np.where(open_ & (tried >= x), tried, right)
    return now
