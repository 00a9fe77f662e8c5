"""Importance nested sampling for models that cost money per row, by the package nautilus (Lange, 2023)."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.special import logsumexp, ndtri

from gbce._checks import require_counts
from gbce._weights import Array, effective_sample_size, log_mean_exp, normalise
from gbce.draws import Draws, Points
from gbce.posterior import BudgetSpentError, EtaGoal, GibbsPosterior, Mixture
from gbce.priors import LocatedPrior
from gbce.samplers._goal import settled

__all__ = ["Nested"]

_BATCH = 100  # points shown to the models at a time
_LEAST_LIVE = 50
_LEFT = 0.01  # of the evidence among the live points: then exploring is over
_ROOM = 1.5  # along each dimension around the points of a shell: less would cut off corners of the cube, and with them mass
_HOPE = 2.0  # times the rows that are needed really, shells look as if they needed before they are sampled anew
_LOWEST = -1e300  # stands for a log likelihood of minus infinity, which nautilus would turn into NaN
_PRIOR_DRAWS = 20_000  # for what the prior says by itself, which no model is asked for
_STALE = 0.01  # of the evidence may rest on points that the shells were learned from
_CARRIED = 100.0  # effective draws without which an eta is not believed
_RAISES = 4  # of eta, at most, in search of one that achieves a goal
_FARTHER = 10.0  # how much larger eta is each time
_SILENT = r"(nautilus|sklearn\.neural_network|sklearn\.mixture)(\.|$)"


@dataclass(frozen=True)
class Nested:
    """Nested shells that close in on the posterior: few model rows, much computing between them.

    For models whose rows cost money or minutes, such as those behind an API. Shells are learned from the points seen
    so far, by small neural networks, and sampled evenly; every point counts with the volume it stands for. Where the
    posterior is far from the prior this needs far fewer rows than :class:`Importance`. It needs the package
    ``nautilus-sampler``: ``pip install 'gbce[nested]'``.

    Parameters
    ----------
    n_live : int
        Points that a new shell is drawn around; at least 50. More find more separate modes.
    n_effective : int
        Effective draws to be reached.
    n_draws : int
        Draws resampled from them, N_samp.
    n_networks : int
        Networks that learn a shell together. Fewer take less time and somewhat more rows.

    Notes
    -----
    Rows come in batches of 100. With a budget the sampler stops before it would be exceeded and returns what it has,
    ``facts["complete"]`` being false; a time limit can be overrun by the seconds it takes to learn one shell.

    Examples
    --------
    >>> import gbce
    >>> data = np.random.default_rng(0).normal(size=(50, 2))
    >>> sampler = Nested(n_live=200, n_effective=200, n_draws=500, n_networks=1)
    >>> explainer = gbce.Explainer(lambda x: x.sum(axis=1), data, sampler=sampler)
    >>> draws = explainer.explain(data[0], gbce.AtLeast(4), rules=[], seed=0).draws
    >>> len(draws), bool(draws.ess >= 200), draws.facts["complete"]
    (500, True, True)
    """

    n_live: int = 1_000
    n_effective: int = 2_000
    n_draws: int = 2_000
    n_networks: int = 4

    def __post_init__(self) -> None:
        require_counts(self, "n_live", "n_effective", "n_draws", "n_networks")
        if self.n_live < _LEAST_LIVE:
            raise ValueError(f"Nested: n_live must be at least {_LEAST_LIVE}, not {self.n_live!r}")

    def sample(self, posterior: GibbsPosterior, rng: np.random.Generator) -> Draws:
        """Draw; where the budget runs out, from what there is by then."""
        run = _Run(self, posterior, posterior.mixture, rng)
        run.explore()
        facts: dict[str, Any] = {"sampler": "Nested", "n_live": self.n_live, "n_effective": self.n_effective}
        if posterior.goal is not None:
            facts["goal_met"] = self._seek(run, posterior.goal)
        run.draw()
        if posterior.goal is not None and facts["goal_met"]:
            facts["goal_met"] = run.settle(posterior.goal)
        facts |= {"complete": run.complete, "n_shells": len(run.shells.log_v)}
        draws = Draws.weighed(run.pool, run.mixture, posterior.prior.x0, base=run.base, facts=facts)
        return _with_evidence(draws, run.mixture, posterior.prior, rng).resample(rng, self.n_draws)

    def _seek(self, run: "_Run", goal: EtaGoal) -> bool:
        """Raise eta, exploring further each time, until a smaller one is known to be enough; go back to that one."""
        for _ in range(_RAISES):
            eta = run.mixture.eta
            if run.settle(goal):
                return True
            if run.spent:
                return False
            run.temper(_FARTHER * eta)
            run.explore()
        return run.settle(goal)


@dataclass(frozen=True)
class _Shells:
    """A partition of the latent law: the log volume of each shell ``(S,)`` and the points that lie in it.

    ``stale`` ``(S,)`` marks the shells whose points are those that the shells were learned from. They lie inside more
    readily than others would, which makes volumes a little too large.
    """

    log_v: Array
    members: list[Array]
    stale: Array

    @classmethod
    def of(cls, nautilus: Any) -> "_Shells":
        """Read them off a sampler; once it has explored, a shell's later points stand for it where it has any."""
        log_v, members = nautilus.shell_log_v.copy(), list(nautilus.blobs)
        stale = np.ones(len(log_v), dtype=bool)
        for s in range(len(log_v)) if nautilus.explored else ():
            fresh = members[s][nautilus.shell_end_exp[s] :]
            if len(fresh):
                tried = nautilus.shell_n_sample[s] - nautilus.shell_n_sample_exp[s]
                log_v[s] = nautilus.bounds[s].log_v + np.log(len(fresh) / tried)
                members[s], stale[s] = fresh, False
        return cls(log_v, members, stale)

    def base(self, n: int) -> Array:
        """Log volume that each of ``n`` points stands for; minus infinity for one in no shell."""
        base = np.full(n, -np.inf)
        for log_v, own in zip(self.log_v, self.members, strict=True):
            if len(own):
                base[own] = log_v - np.log(len(own))
        return base


@dataclass
class _Run:
    """A run of nautilus, whose eta can change. Every evaluated point is kept, whether nautilus keeps it or not."""

    options: Nested
    posterior: GibbsPosterior
    mixture: Mixture
    rng: np.random.Generator
    parts: list[Points] = field(default_factory=list)
    spent: bool = False
    complete: bool = False

    def __post_init__(self) -> None:
        dimension = self.posterior.prior.dimension
        self.nautilus = _nautilus().Sampler(
            lambda u: u, self._log_likelihood,
            n_dim=max(dimension, 2),  # nautilus needs two; the second one then means nothing
            n_live=max(self.options.n_live, 4 * dimension),
            n_networks=self.options.n_networks, enlarge_per_dim=_ROOM, n_batch=_BATCH, vectorized=True, blobs_dtype=int,
            seed=int(self.rng.integers(2**63)),
        )  # fmt: skip
        self.shells = _Shells(np.zeros(0), [], np.zeros(0, dtype=bool))

    # --- what there is ----------------------------------------------------------------------------------------

    @property
    def pool(self) -> Points:
        """Every evaluated point."""
        self.parts = [Points.joined(self.parts)]
        return self.parts[0]

    @property
    def base(self) -> Array:
        """Log weight of each before its potential and its extra come in."""
        return self.shells.base(len(self.pool))

    # --- steps ------------------------------------------------------------------------------------------------

    def explore(self) -> None:
        """Add shells until the live points have little of the evidence, or what is left to do is the lesser part."""
        nautilus, self.nautilus.explored = self.nautilus, False
        while not nautilus.explored and not self.spent:
            rows = nautilus.n_like
            enough = rows >= nautilus.n_live and rows * nautilus.eta >= _HOPE * self.options.n_effective
            self._step(
                lambda f_live: nautilus.run(f_live=f_live, n_eff=0, n_like_max=nautilus.n_like + 1),
                np.inf if enough else _LEFT,
            )
        if not self.parts:
            self._without_nautilus()

    def draw(self) -> None:
        """Sample the shells, now fixed, until there are as many effective draws as were asked for.

        How often each shell's turn comes is settled beforehand, by what the exploration found in it: shares that
        followed the new points themselves would favour shells that looked large by chance.
        """
        mass, ess, n = self._evidence()
        share = mass / mass.sum()
        rate = share / np.sqrt(ess / n)  # the least variance for the number of points
        taken = np.zeros(len(rate))
        while not self.spent:
            mass, ess, _ = self._evidence()
            enough = mass.sum() ** 2 / np.sum(mass**2 / ess) >= self.options.n_effective
            if enough and share[self.shells.stale].sum() <= _STALE:
                self.complete = True
                return
            turn = int(np.argmax(rate / (taken + 0.5)))
            taken[turn] += 1
            self._step(self.nautilus.add_samples, turn)

    def temper(self, eta: float) -> None:
        """Go to another eta: shells are regions, and losses are known, so nothing is asked of a model."""
        self.mixture = replace(self.mixture, eta=eta)
        if self.spent:
            return
        nautilus, value = self.nautilus, self._value(self.pool)
        nautilus.log_l = [value[own] for own in nautilus.blobs]
        nautilus.log_l_t = nautilus.log_l_t if nautilus.blobs_t is None else value[nautilus.blobs_t]
        nautilus.shell_log_l_min[-1] = np.sort(np.concatenate(nautilus.log_l))[-nautilus.n_live :][0]
        for s in range(len(nautilus.bounds)):
            nautilus.update_shell_info(s)

    def settle(self, goal: EtaGoal) -> bool:
        """Go to the smallest eta that achieves the goal, or to the largest that the points carry."""
        pool, base = self.pool, self.base

        def carried(eta: float) -> bool:
            log_weights = base - replace(self.mixture, eta=eta).potential(pool.loss) - pool.extra
            return effective_sample_size(normalise(log_weights)) >= _CARRIED

        ladder = (self.mixture.eta or 1.0) * np.exp2(np.arange(4, -30, -1.0))
        top = next((float(eta) for eta in ladder if carried(eta)), 0.0)
        draws = Draws.weighed(pool, self.mixture, self.posterior.prior.x0, base=base)
        found = settled(draws, self.mixture, goal, top)
        self.temper(found.eta)
        return found.met

    # --- pieces -----------------------------------------------------------------------------------------------

    def _step(self, step: Callable[[Any], Any], argument: Any) -> None:
        """Let nautilus add one batch, if that can be afforded; a step broken off leaves the shells as they were."""
        if self.posterior.affords(_BATCH) < _BATCH:
            self.spent = True
            return
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", module=_SILENT)
                step(argument)
        except BudgetSpentError:
            self.spent = True
        else:
            self.shells = _Shells.of(self.nautilus)

    def _evidence(self) -> tuple[Array, Array, Array]:
        """Return the evidence in each shell, up to a common factor, its effective draws and its points, each ``(S,)``."""
        value = self._value(self.pool)
        log_z = [v + log_mean_exp(value[own]) for v, own in zip(self.shells.log_v, self.shells.members, strict=True)]
        ess = [effective_sample_size(normalise(value[own])) for own in self.shells.members]
        return np.exp(log_z - np.max(log_z)), np.array(ess), np.array([len(own) for own in self.shells.members])

    def _value(self, points: Points) -> Array:
        return np.maximum(-self.mixture.potential(points.loss) - points.extra, _LOWEST)

    def _log_likelihood(self, u: Array) -> tuple[Array, Array]:
        seen = sum(map(len, self.parts))
        points = Points.evaluated(self.posterior, _latent(u[:, : self.posterior.prior.dimension]))
        self.parts.append(points)
        return self._value(points), np.arange(seen, seen + len(points))

    def _without_nautilus(self) -> None:
        """Spend what is left, less than a batch, on points from the prior's map: importance sampling."""
        n = max(self.posterior.affords(_BATCH), 1)
        self.parts = [Points.evaluated(self.posterior, self.rng.standard_normal((n, self.posterior.prior.dimension)))]
        self.shells = _Shells(np.zeros(1), [np.arange(n)], np.ones(1, dtype=bool))


def _latent(u: Array) -> Array:
    """Turn points of the unit cube into latent ones; its faces are as far out as floats near one go."""
    return ndtri(np.clip(u, 2.0**-53, 1.0 - 2.0**-53))


def _with_evidence(draws: Draws, mixture: Mixture, prior: LocatedPrior, rng: np.random.Generator) -> Draws:
    """Read the evidence off the shells' volumes, and the prior's own figures off draws from its map.

    The shells' volumes are absolute, so the weights sum to ``E[exp(-potential - extra)]`` over the latent law. What
    concerns the prior alone needs no model, and points of the outer shells are too few for it.
    """
    log_weights = draws.base - mixture.potential(draws.pool.loss) - draws.pool.extra
    placed = prior.place(rng.standard_normal((_PRIOR_DRAWS, prior.dimension)))
    weights = normalise(-placed.extra)
    variance = 1.0 / draws.ess + 1.0 / effective_sample_size(weights) - 1.0 / _PRIOR_DRAWS
    return replace(
        draws,
        log_evidence=float(logsumexp(log_weights)) - log_mean_exp(-placed.extra),
        log_evidence_se=float(np.sqrt(variance)),
        prior_change=weights @ np.abs(placed.x - prior.x0),
    )


def _nautilus() -> Any:
    try:
        import nautilus
    except ImportError:
        raise ImportError("Nested needs the package nautilus-sampler: pip install 'gbce[nested]'") from None
    return nautilus
