"""Changes of many rows that share their groups' and the population's centres, sampled without slopes of the model.

The law is ``mu0_j ~ N(0, 1)``, ``omega_j ~ half-normal(0.5)``, ``mu_gj ~ N(mu0_j, omega_j)``, ``b_j`` as ``omega_j``,
``delta_ij ~ Laplace(mu_gj, b_j)`` (or normal), times ``score(row_i + delta_i) ** kappa * exp(-rate |delta_i|_1)``.

Four chains go side by side, and one call of the model serves all rows of all of them. A row's change is renewed in a
random set of its numbers: candidates come from the law itself, and one of them or what is there is picked by what the
model says (iterated sampling importance resampling, which keeps the target exactly). What is above the rows needs no
model: slices, once around the centres and once with their standardised offsets held fixed, since one of the two is slow
whenever spreads are small or large (interweaving, Yu and Meng 2011). Three more moves carry the rows along: a group's
centre with its rows, a width with the deviations from the centres, and whole columns, all levels of them at once: these
go a way that is right where the model says nothing, and the model decides whether to go it (surrogate transitions, Liu
2001), which it hardly ever refuses for columns that do not matter to it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = ["Law", "Levels", "draw_changes", "log_mass", "mixing", "renew", "sample_levels", "worth"]

_PRIOR_SCALE = 0.5  # of the half-normal laws of spreads and widths; a reconstruction, as the publication's is not known
_STEPS = 8  # most widths that a slice is stepped out by
_SHRINKS = 100  # most tries in a slice; it halves with each, so that this is never the end
_FLAT = 1e-9  # a slope below which a stretch counts as flat
_SURROGATE = 1  # rounds of slices on the way of whole columns, forth and back; more cost no model call
_JUMPS = (0.05, 0.2, 0.6)  # sizes of joint moves, one picked at random: many rows take small ones only
_NEVER = 10.0  # R-hat of chains that never moved, or far apart

LogScore = Callable[[Any], Any]  # changes (chains, rows, m, p) to logarithms of scores (chains, rows, m)


@dataclass(frozen=True)
class Law:
    """The hierarchy's options; a number fixes what would otherwise have its own law.

    Parameters
    ----------
    kappa : float
        Weight of the logarithm of the score.
    rate : float
        Of the proximity term, per unit of l1 distance.
    family : {"laplace", "normal"}
        Of the changes around their centre.
    centre, spread, width : float, optional
        ``mu0``, ``omega`` and ``b`` where they are known.
    """

    kappa: float = 1.0
    rate: float = 1.0
    family: str = "laplace"
    centre: float | None = None
    spread: float | None = None
    width: float | None = None

    def __post_init__(self) -> None:
        if self.family not in ("laplace", "normal"):
            raise ValueError(f"the family of changes is 'laplace' or 'normal', not {self.family!r}")
        if self.kappa < 0 or self.rate < 0:
            raise ValueError("kappa and rate must not be negative")

    @property
    def late_rate(self) -> float:
        """The rate that candidates do not carry yet, so that it counts when one of them is picked."""
        return self.rate if self.family == "normal" else 0.0

    def around(self, deviation: Any, width: Any) -> Any:
        """Return the logarithm of the density of deviations from a centre, but for the width's own factor."""
        scaled = deviation / width
        return -np.abs(scaled) if self.family == "laplace" else -0.5 * scaled**2


@dataclass
class Levels:
    """Draws of the hierarchy, each array with steps and chains in front.

    Parameters
    ----------
    population, spread, width : ndarray of shape (steps, chains, p)
        ``mu0``, ``omega`` and ``b``.
    groups : ndarray of shape (steps, chains, g, p)
        ``mu_g``.
    changes : ndarray of shape (steps, chains, n, p)
        ``delta``.
    moved : dict of str to float
        How often each move went anywhere.
    """

    population: Any
    spread: Any
    width: Any
    groups: Any
    changes: Any
    moved: dict[str, float] = field(default_factory=dict)

    @property
    def r_hat(self) -> float:
        """The worst R-hat of all that is above the rows."""
        parts = [self.population, np.log(self.spread), np.log(self.width), *np.moveaxis(self.groups, 2, 0)]
        return mixing(np.concatenate(parts, axis=2))

    def costs(self, groups: Any) -> Any:
        """Return the mean l1 size of changes in each group, by draw ``(steps, chains, g)``: what groups have to pay."""
        sizes = np.abs(self.changes).sum(axis=3)
        return np.stack([sizes[:, :, groups == g].mean(axis=2) for g in range(self.groups.shape[2])], axis=2)


def mixing(figures: Any) -> float:
    """Return the worst R-hat of figures ``(steps, chains, m)``; those that are the same everywhere do not count."""
    from arviz_stats.base import array_stats  # type: ignore[attr-defined]  # slow to import, needed only here

    watched = figures[:, :, np.ptp(figures, axis=(0, 1)) > 0].transpose(2, 1, 0)
    if watched.size == 0:
        return 1.0
    with np.errstate(all="ignore"):
        r_hat = array_stats.rhat(watched)
    return float(np.minimum(np.nan_to_num(r_hat, nan=_NEVER), _NEVER).max())


def worth(figures: Any) -> float:
    """Return how many independent draws a figure ``(steps, chains)`` is worth.

    Where each chain has its own draw of the levels above, their differences count as slowness: it is too few then.
    """
    from arviz_stats.base import array_stats  # type: ignore[attr-defined]  # slow to import, needed only here

    with np.errstate(all="ignore"):
        ess = float(array_stats.ess(figures.T[None], method="bulk")[0])
    return min(ess, figures.size) if np.isfinite(ess) else 1.0


def draw_changes(law: Law, centre: Any, width: Any, rng: np.random.Generator) -> Any:
    """Return changes from their law around ``centre``, with the proximity term where the family is Laplace.

    That product has an exponential tail on either side of zero and the centre, and an exponential stretch between them.
    """
    centre, width = np.broadcast_arrays(centre, width)
    if law.family == "normal":
        return centre + width * rng.standard_normal(centre.shape)
    low, high, length = np.minimum(centre, 0.0), np.maximum(centre, 0.0), np.abs(centre)
    slope, fall, flat, parts = _stretches(law, centre, width)
    of_zero, of_centre, between = parts
    pick = rng.uniform(size=centre.shape) * (of_zero + of_centre + between)
    along = rng.uniform(size=centre.shape)
    tail = -np.log1p(-along) / (1 / width + law.rate)
    outward = np.where(centre >= 0, 1.0, -1.0)  # from zero to the centre
    step = np.where(flat, along * length, -np.log1p(-along * fall) / slope)
    inside = np.where(1 / width >= law.rate, centre - outward * step, outward * step)
    beyond_zero, beyond_centre = -outward * tail, centre + outward * tail
    change = np.where(pick < of_zero, beyond_zero, np.where(pick < of_zero + of_centre, beyond_centre, inside))
    return np.where((pick >= of_zero + of_centre), np.clip(change, low, high), change)


def _pick_some(shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    """Pick random sets along the last axis: about one number, or two, four and so on up to all of them."""
    p = shape[-1]
    sizes = np.minimum(2.0 ** np.arange(np.ceil(np.log2(max(p, 1))) + 1), p)
    share = sizes[rng.integers(0, len(sizes), shape[:-1])] / max(p, 1)
    return rng.uniform(size=shape) < share[..., None]


def _stretches(law: Law, centre: Any, width: Any) -> tuple[Any, Any, Any, tuple[Any, Any, Any]]:
    """Return slope and fall between zero and the centre, where it is flat, and the masses of the three stretches.

    Masses, of the tail at zero, of that at the centre and between, are in units of the height of the higher kink.
    """
    inner, length = 1 / width, np.abs(centre)
    slope = np.abs(inner - law.rate)
    flat = slope * length < _FLAT
    slope = np.where(flat, 1.0, slope)
    fall = -np.expm1(-slope * length)
    top = -length * np.minimum(inner, law.rate)
    tail = 1 / (inner + law.rate)
    of_zero, of_centre = np.exp(-length * inner - top) * tail, np.exp(-length * law.rate - top) * tail
    return slope, fall, flat, (of_zero, of_centre, np.where(flat, length, fall / slope))


def log_mass(law: Law, centre: Any, width: Any) -> Any:
    """Return the logarithm of the mass that the proximity term leaves of the law of a change."""
    if law.family == "normal":
        return np.zeros(np.broadcast_shapes(np.shape(centre), np.shape(width)))
    parts = _stretches(law, centre, width)[3]
    return np.log(sum(parts)) - np.abs(centre) * np.minimum(1 / width, law.rate) - np.log(2 * width)


def renew(
    law: Law,
    change: Any,
    said: Any,
    centre: Any,
    width: Any,
    free: Any,
    log_score: LogScore,
    m: int,
    rng: np.random.Generator,
) -> tuple[Any, Any, float]:
    """Renew random sets of the free numbers of changes ``(chains, rows, p)`` by one of ``m`` candidates each.

    ``said`` ``(chains, rows)`` is their log score, ``centre`` and ``width`` have the shape of the changes.

    Returns
    -------
    change, said, share
        What there is now, and the share of rows that moved.
    """
    *shape, p = change.shape
    touched = _pick_some(change.shape, rng) & free
    wide = (*shape, m, p)
    fresh = draw_changes(
        law, np.broadcast_to(centre[..., None, :], wide), np.broadcast_to(width[..., None, :], wide), rng
    )
    tried = np.where(touched[..., None, :], fresh, change[..., None, :])
    scores = log_score(tried)
    all_scores = np.concatenate([said[..., None], scores], axis=-1)
    all_changes = np.concatenate([change[..., None, :], tried], axis=-2)
    weight = law.kappa * all_scores - law.late_rate * np.abs(all_changes).sum(axis=-1)
    best = np.argmax(weight + rng.gumbel(size=weight.shape), axis=-1)[..., None]
    moved = best[..., 0] > 0
    change = np.take_along_axis(all_changes, best[..., None], axis=-2)[..., 0, :]
    return change, np.take_along_axis(all_scores, best, axis=-1)[..., 0], float(moved.mean())


def sample_levels(
    law: Law,
    log_score: LogScore,
    groups: Any,
    free: Any,
    *,
    steps: int = 200,
    warmup: int = 200,
    chains: int = 4,
    candidates: int = 3,
    n_groups: int | None = None,
    rng: np.random.Generator,
) -> Levels:
    """Draw from the joint law of all levels.

    Parameters
    ----------
    law : Law
        Options.
    log_score : callable
        Changes ``(chains, n, m, p)`` to logarithms of scores ``(chains, n, m)``; ignores numbers that are not free.
    groups : ndarray of shape (n,)
        The group of each row, from zero.
    free : ndarray of shape (n, p)
        Which numbers of each row may change; the others say nothing about centres.
    steps, warmup, chains : int
        Kept and dropped steps of each chain.
    candidates : int
        Tried at once for each row.
    n_groups : int, optional
        Where some have no row.
    rng : Generator
        All chance.
    """
    state = _State(law, log_score, groups, free, chains, n_groups or int(groups.max()) + 1, rng)
    kept: list[tuple[Any, ...]] = []
    moved: dict[str, list[float]] = {"rows": [], "groups": [], "widths": [], "columns": []}
    for step in range(warmup + steps):
        moved["rows"].append(state.renew_changes(candidates))
        turn = step % 4
        if turn in (0, 2):
            moved["groups"].append(state.carry_groups(2 * candidates))
        elif turn == 1:
            moved["columns"].append(state.renew_columns())
        elif law.width is None:
            moved["widths"].append(state.carry_widths(2 * candidates))
        state.renew_levels()
        if step >= warmup:
            kept.append((state.mu0, state.omega, state.b, state.mu, state.delta))
    shares = {name: float(np.mean(values)) for name, values in moved.items() if values}
    population, spread, width, means, changes = (np.stack(part) for part in zip(*kept, strict=True))
    return Levels(population, spread, width, means, changes, shares)


class _State:
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
        touched = _pick_some((chains, p), rng)
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
        touched = _pick_some(shape, self._rng)[..., None, :]
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
