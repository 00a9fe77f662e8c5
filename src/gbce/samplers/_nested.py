"""Importance nested sampling for models that are expensive per row, with the package nautilus (Lange, 2023)."""

import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.special import logsumexp, ndtri

from gbce._numerics import ENOUGH_ESS, HUGE, effective_sample_size, log_mean_exp, normalise
from gbce._validation import require_counts
from gbce.base import Array
from gbce.budget import BudgetSpentError
from gbce.draws import Draws, Points, SamplerInfo
from gbce.eta import solve_eta
from gbce.posterior import EtaGoal, GibbsPosterior, Mixture
from gbce.priors import LocatedPrior
from gbce.samplers._importance import N_DRAWS, PRIOR_DRAWS, draw_candidates

_BATCH = 100  # points per model call (by hand)
_LEAST_LIVE = 50  # of n_live: with fewer, there is too little to learn a shell from (by hand)
_LIVE_PER_DIMENSION = 4  # live points per coordinate, at least (by hand)
_LEAST_DIMENSIONS = 2  # that nautilus supports
_LIVE_EVIDENCE = 0.01  # of the evidence among the live points, which ends exploration: nautilus' own default
_PLATEAU = 0.25  # range of the live points' log likelihood that is negligible: weights within a factor of 1.3
_ENLARGED = 1.5  # along each dimension around the points of a shell: with less, corners of the cube get lost
_LOWEST = -HUGE  # stands for a log likelihood of minus infinity, which nautilus would turn into NaN
_HOPELESS = 10  # times the live points, none with any weight, after which exploration is given up
_RAISES = 4  # of eta, at most, in search of one that meets a goal
_RAISE = 10.0  # factor of eta each time
_LADDER = np.arange(4, -30, -1.0)  # log2 factors of eta at which the effective size is computed, the largest first
_INSIDE_CUBE = 2.0**-53  # distance from the faces of the unit cube: the resolution of floats near one
_NOISY_MODULES = r"(nautilus|sklearn\.neural_network|sklearn\.mixture)(\.|$)"  # whose warnings do not concern users


@dataclass(frozen=True)
class Nested:
    """Nested shells that close in on the posterior: few model rows, much computing between them.

    For models whose rows cost money or minutes, such as those behind an API. Shells are learned from the points so far
    by small neural networks and sampled uniformly; every point is weighted by the volume it represents. Where the
    posterior is far from the prior this needs far fewer rows than :class:`Importance`. It needs the package
    ``nautilus-sampler``: ``pip install 'gbce[nested]'``.

    Parameters
    ----------
    n_live : int
        Points that a new shell is drawn around; at least 50. More find more separate modes.
    n_effective : int
        Effective sample size to be reached.
    n_draws : int
        Draws resampled from the pool, N_samp.
    n_networks : int
        Networks in the ensemble that learns a shell. Fewer take less time and somewhat more rows.
    reuse : bool
        Whether points that the shells were learned from count as draws, too. It takes about half the rows, but the
        shells fit these points a little better than others: errors can be off by about as much as is stated.

    Notes
    -----
    Rows come in batches of 100. With a budget the sampler stops before it would be exceeded and returns what it has,
    ``draws.info.complete`` being false; a time limit can be overrun by the seconds it takes to learn one shell.

    Examples
    --------
    >>> import gbce
    >>> data = np.random.default_rng(0).normal(size=(50, 2))
    >>> sampler = Nested(n_live=100, n_effective=100, n_draws=500, n_networks=1)
    >>> explainer = gbce.Explainer(lambda x: x.sum(axis=1), data, sampler=sampler)
    >>> draws = explainer.explain(data[0], gbce.AtLeast(4), rules=[], seed=0).draws
    >>> len(draws), bool(draws.ess >= 100), draws.info.complete
    (500, True, True)
    """

    n_live: int = 1_000  # half of nautilus' own default; chosen by hand
    n_effective: int = N_DRAWS
    n_draws: int = N_DRAWS
    n_networks: int = 4  # nautilus' own default
    reuse: bool = False

    def __post_init__(self) -> None:
        require_counts(self, "n_live", "n_effective", "n_draws", "n_networks")
        if self.n_live < _LEAST_LIVE:
            raise ValueError(f"Nested: n_live must be at least {_LEAST_LIVE}, not {self.n_live!r}")
        if not isinstance(self.reuse, bool):
            raise ValueError(f"Nested: reuse must be True or False, not {self.reuse!r}")

    def sample(self, posterior: GibbsPosterior, rng: np.random.Generator) -> Draws:
        """Draw; if the budget runs out, from the points so far."""
        run = _Run(self, posterior, posterior.mixture, rng)
        met = None if posterior.goal is None else self._raise_eta(run, posterior.goal)
        run.run_until(self.n_effective)
        if posterior.goal is not None and met:
            met = run.solve(posterior.goal)
        shells = len(run.log_v)
        info = NestedInfo(
            complete=run.complete, goal_met=met, n_live=self.n_live, n_effective=self.n_effective, n_shells=shells
        )
        draws = Draws.weigh(run.pool, run.mixture, posterior.prior, log_base_weights=run.log_base_weights, info=info)
        return _add_evidence(draws, run, posterior.prior, rng).resample(rng, self.n_draws)

    def _raise_eta(self, run: "_Run", goal: EtaGoal) -> bool:
        """Raise eta, exploring further each time, until a smaller one suffices, and go back to that one."""
        run.run_until(0)
        for _ in range(_RAISES):
            if run.solve(goal) or run.spent:
                break
            run.temper(_RAISE * (run.top or 1.0))
            run.run_until(0)
        return run.solve(goal)


@dataclass(frozen=True)
class NestedInfo(SamplerInfo):
    """What nested sampling reports.

    Parameters
    ----------
    n_live, n_effective : int
        The sampler's options.
    n_shells : int
        Shells that partition the latent space.
    """

    sampler: str = "Nested"
    n_live: int = 0
    n_effective: int = 0
    n_shells: int = 0

    @property
    def advice(self) -> str:
        """What to do about too few draws."""
        return "raise n_live, or use gbce.SMC()"


@dataclass
class _Run:
    """A run of nautilus whose eta can change; every evaluated point is kept, whether nautilus keeps it or not.

    Nautilus partitions the latent space into shells: ``log_v`` are their log volumes ``(S,)``, ``shares`` their shares
    of their bounds ``(S,)``, ``volumes`` the variances of the bounds' log volumes ``(S,)``, and ``members`` the
    positions of the points in each. An interrupted step leaves them unchanged.
    """

    options: Nested
    posterior: GibbsPosterior
    mixture: Mixture
    rng: np.random.Generator
    parts: list[Points] = field(default_factory=list)
    spent: bool = False
    complete: bool = False
    weightless: bool = True
    top: float = 0.0  # the largest eta at which a goal was sought

    def __post_init__(self) -> None:
        dimension = self.posterior.prior.dimension
        self.nautilus = _import_nautilus().Sampler(
            lambda u: u, self._log_likelihood,
            n_dim=max(dimension, _LEAST_DIMENSIONS),  # a second one is a dummy
            n_live=max(self.options.n_live, _LIVE_PER_DIMENSION * dimension),
            n_networks=self.options.n_networks, enlarge_per_dim=_ENLARGED, n_batch=_BATCH, vectorized=True,
            blobs_dtype=int, seed=int(self.rng.integers(2**63)),
        )  # fmt: skip
        self.log_v: Array = np.zeros(0)
        self.shares: Array = np.zeros(0)
        self.volumes: Array = np.zeros(0)
        self.members: list[Array] = []

    @property
    def pool(self) -> Points:
        """Every evaluated point."""
        self.parts = [Points.join(self.parts)]
        return self.parts[0]

    @property
    def log_base_weights(self) -> Array:
        """Log volume that each point represents; minus infinity for one that nautilus has dropped."""
        base = np.full(len(self.pool), -np.inf)
        for log_v, own in zip(self.log_v, self.members, strict=True):
            if len(own):
                base[own] = log_v - np.log(len(own))
        return base

    def variance(self, log_weights: Array) -> float:
        """Return the variance of the log evidence for log weights ``(n,)``: that within shells, and of volumes."""
        total = 0.0
        for own, p, bound in zip(self.members, self.shares, self.volumes, strict=True):
            n = len(own)
            if n:
                weight = np.exp(log_weights[own] - logsumexp(log_weights))
                total += n * float(np.var(weight)) * n / max(n - 1, 1)
                total += float(weight.sum()) ** 2 * ((1.0 - p) / n + bound)
        return total

    def run_until(self, wanted: int) -> None:
        """Learn shells until that is done, then sample them until ``wanted`` effective draws are reached."""
        self.complete = False
        while not (self.complete or self.spent or self._hopeless()):
            if self.posterior.affords(_BATCH) < _BATCH:
                self.spent = True
            else:
                self._add_batch(wanted)
        if not self.parts:  # less than one batch: importance sampling with that
            self.parts = [draw_candidates(self.posterior, self.rng, _BATCH)]
            self.log_v, self.shares, self.volumes = np.zeros(1), np.ones(1), np.zeros(1)
            self.members = [np.arange(len(self.parts[0]))]

    def _add_batch(self, wanted: int) -> None:
        """Let nautilus add one batch."""
        nautilus = self.nautilus
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module=_NOISY_MODULES)
            left = np.inf if self._explored() else _LIVE_EVIDENCE
            try:
                done = nautilus.run(
                    f_live=left, n_shell=min(wanted, 1), n_eff=wanted, n_like_max=nautilus.n_like + 1,
                    discard_exploration=not self.options.reuse,
                )  # fmt: skip
            except BudgetSpentError:
                self.spent = True
            else:
                self.complete = bool(done)
                self._read_shells()

    def _read_shells(self) -> None:
        """Read the shells from nautilus, by the points sampled after they were learned, once there are some."""
        nautilus = self.nautilus
        fresh = self.complete and nautilus.discard_exploration and bool(np.all(nautilus.shell_n > 0))
        begin = nautilus.shell_end_exp if fresh else np.zeros(len(nautilus.bounds), dtype=int)
        tried = nautilus.shell_n_sample - (nautilus.shell_n_sample_exp if fresh else 0)
        self.members = [own[start:] for own, start in zip(nautilus.blobs, begin, strict=True)]
        n = np.array([len(own) for own in self.members])
        self.shares = np.minimum(np.maximum(n, 1) / np.maximum(tried, 1), 1.0)
        self.log_v = np.array([bound.log_v for bound in nautilus.bounds]) + np.log(self.shares)
        self.volumes = np.array([_compute_volume_variance(bound) for bound in nautilus.bounds])

    def _hopeless(self) -> bool:
        """Whether many times the live points were evaluated and none has any weight."""
        return self.weightless and self.nautilus.n_like >= _HOPELESS * self.nautilus.n_live

    def _explored(self) -> bool:
        """Whether to stop exploring: enough effective draws, or a plateau that smaller shells would not resolve."""
        nautilus = self.nautilus
        if nautilus.explored or nautilus.n_like < nautilus.n_live:
            return False
        live = np.sort(np.concatenate(nautilus.log_l))[-nautilus.n_live :]
        return bool(_LOWEST < live[0] >= live[-1] - _PLATEAU or nautilus.n_eff >= self.options.n_effective)

    def temper(self, eta: float) -> None:
        """Change eta and explore on from there: shells are regions and losses are known, so no model is called."""
        self.mixture = replace(self.mixture, eta=eta)
        if self.spent:
            return
        nautilus, value = self.nautilus, self._log_likelihood_at(self.pool)
        nautilus.explored = False
        nautilus.log_l = [value[own] for own in nautilus.blobs]
        nautilus.log_l_t = nautilus.log_l_t if nautilus.blobs_t is None else value[nautilus.blobs_t]
        nautilus.shell_log_l_min[-1] = np.sort(np.concatenate(nautilus.log_l))[-nautilus.n_live :][0]
        for s in range(len(nautilus.bounds)):
            nautilus.update_shell_info(s)

    def solve(self, goal: EtaGoal) -> bool:
        """Go to the smallest eta that meets the goal, or to the closest one that the points support."""
        pool, base = self.pool, self.log_base_weights

        def enough(eta: float) -> bool:
            log_weights = base - replace(self.mixture, eta=eta).potential(pool.loss) - pool.log_correction
            return effective_sample_size(normalise(log_weights)) >= ENOUGH_ESS

        ladder = (self.mixture.eta or 1.0) * np.exp2(_LADDER)
        self.top = next((float(eta) for eta in ladder if enough(eta)), 0.0)
        draws = Draws.weigh(pool, self.mixture, self.posterior.prior, log_base_weights=base)
        found = solve_eta(draws, self.mixture, goal, self.top)
        self.temper(found.eta)
        return found.met

    def _log_likelihood_at(self, points: Points) -> Array:
        """Return the log likelihood ``(n,)`` of evaluated points, bounded from below."""
        return np.maximum(-self.mixture.potential(points.loss) - points.log_correction, _LOWEST)

    def _log_likelihood(self, u: Array) -> tuple[Array, Array]:
        """Evaluate points of the unit cube; return log likelihoods and positions in the pool."""
        seen = sum(map(len, self.parts))
        points = Points.evaluate(self.posterior, _to_latent(u[:, : self.posterior.prior.dimension]))
        self.parts.append(points)
        value = self._log_likelihood_at(points)
        self.weightless &= bool(value.max() <= _LOWEST)
        return value, np.arange(seen, seen + len(points))


def _compute_volume_variance(bound: Any) -> float:
    """Return the variance of a bound's log volume: binomial, from how many points nautilus rejected."""
    both: list[Any] = [bound, getattr(bound, "outer_bound", None)]
    parts = [part for part in both if getattr(part, "n_sample", 0)]
    return sum(part.n_reject / part.n_sample / max(part.n_sample - part.n_reject, 1) for part in parts)


def _to_latent(u: Array) -> Array:
    """Map the unit cube to latent points, finite at its faces as well."""
    return ndtri(np.clip(u, _INSIDE_CUBE, 1.0 - _INSIDE_CUBE))


def _add_evidence(draws: Draws, run: _Run, prior: LocatedPrior, rng: np.random.Generator) -> Draws:
    """Compute the evidence from the shells' volumes, and the prior's own figures from draws of its map.

    The shells' volumes are absolute, so the weights sum to ``E[exp(-potential - log_correction)]`` under ``N(0, I)``.
    Figures of the prior alone need no model, and the outer shells have too few points for them.
    """
    log_weights = draws.log_base_weights - run.mixture.potential(draws.pool.loss) - draws.pool.log_correction
    placed = prior.place(rng.standard_normal((PRIOR_DRAWS, prior.dimension)))
    weights = normalise(-placed.log_correction)
    variance = run.variance(log_weights) + 1.0 / effective_sample_size(weights) - 1.0 / PRIOR_DRAWS
    return replace(
        draws,
        log_evidence=float(logsumexp(log_weights)) - log_mean_exp(-placed.log_correction),
        log_evidence_se=float(np.sqrt(variance)),
        prior_change=weights @ prior.change(placed.x),
    )


def _import_nautilus() -> Any:
    """Import nautilus, or say how to install it."""
    try:
        import nautilus
    except ImportError:
        raise ImportError("Nested needs the package nautilus-sampler: pip install 'gbce[nested]'") from None
    return nautilus
