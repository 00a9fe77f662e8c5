"""Markov chain Monte Carlo: many chains in the latent space, moved together.

Chains are exact in the limit whatever they start from, so they check other samplers. They estimate neither the evidence
nor the mass of modes between which they do not cross; both come from the run that they start from. Its points and the
chains' states are weighted as one pool, see :func:`_pool_start_and_states`.
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Literal, NamedTuple, get_args

import numpy as np
from scipy.special import logsumexp

from gbce._numerics import HUGE, WORST_R_HAT, effective_sample_size, normalise, resample_evenly
from gbce._validation import is_count, require_counts
from gbce.base import Array, Sampler
from gbce.budget import BudgetSpentError
from gbce.draws import Draws, Points, SamplerInfo
from gbce.posterior import GibbsPosterior, Mixture
from gbce.samplers._importance import N_DRAWS, PRIOR_DRAWS, draw_candidates
from gbce.samplers._moves import Kernel, Slice, StepSizes
from gbce.samplers._smc import SMC

KernelName = Literal["pcn", "elliptical"]

_LEAST_CHAINS, _LEAST_STEPS = 4, 10  # to compare chains, and their halves, at all (a convention)
_LEAST_STATES = 4  # of a chain, for a convergence figure: two for each half
_START_SHARE = 0.5  # of the budget; the other half is for the steps
_MOST_STATES = 20_000  # of all chains together in the pool: as many as candidates, to bound memory
_MOST_COORDINATES = 100  # whose convergence is computed: bounds its time
_LEAST_BLOCKS = 8  # independent parts of a start without groups: as many as SMC has islands
_BLOCK_ESS = 10.0  # effective points in each part, where there are more; by hand
_TAIL = 0.05  # probability in each tail whose effective sample size is reported (a convention)


@dataclass(frozen=True)
class Chains:
    """Markov chains in the latent space, all moved by one model call.

    The chains start from the draws of another sampler, which also estimates the evidence and the mass of modes that are
    too far apart for a chain to cross. Errors are those between independent runs: the start's islands, or parts of its
    candidates, each with the chains that began there.

    Parameters
    ----------
    n_chains : int
        Chains, at least 4.
    n_steps : int
        Steps of each, at least 10, warm-up included.
    kernel : {"pcn", "elliptical"}
        Preconditioned Crank-Nicolson proposals, one row of the model per chain and step, or elliptical slice
        sampling, which needs no step size but evaluates two to ten rows.
    warmup : int, optional
        Steps that are discarded, in which pCN's step is adapted to an acceptance rate of a quarter; it is fixed
        afterwards. Half of the steps when left out.
    start : Sampler or "prior", optional
        What the chains start from; ``SMC()`` when left out. With ``"prior"`` they start from draws of the prior and
        count equally: they have to find the posterior by themselves, R-hat tells whether they did, and the evidence
        is only that of importance sampling with as many draws as there are chains.
    n_draws : int
        Draws picked from all states.

    Notes
    -----
    ``draws.info`` holds ``acceptance``, ``step``, ``r_hat`` (the largest, over latent coordinates, their squared norm
    and the potential), ``ess_bulk`` and ``ess_tail`` (the smallest), all of the states after warm-up, and
    ``complete``, which is False if the budget ended before the steps did. Figures that cannot be computed are left out.

    Examples
    --------
    >>> Chains(n_chains=50, n_steps=400, kernel="elliptical").kept
    200
    """

    n_chains: int = 200  # chosen by hand, as is the next: one model call per step, so that many chains cost little
    n_steps: int = 200
    _: KW_ONLY
    kernel: KernelName = "pcn"
    warmup: int | None = None
    start: Sampler | Literal["prior"] | None = None
    n_draws: int = N_DRAWS

    def __post_init__(self) -> None:
        require_counts(self, "n_chains", "n_steps", "n_draws")
        if self.n_chains < _LEAST_CHAINS:
            raise ValueError(
                f"Chains: n_chains must be at least {_LEAST_CHAINS}, not {self.n_chains}: chains are compared"
            )
        if self.n_steps < _LEAST_STEPS:
            raise ValueError(f"Chains: n_steps must be at least {_LEAST_STEPS}, not {self.n_steps}")
        if self.kernel not in get_args(KernelName):
            raise ValueError(f"Chains: kernel must be one of {get_args(KernelName)}, not {self.kernel!r}")
        most = self.n_steps - _LEAST_STATES
        if self.warmup is not None and not (is_count(self.warmup, least=0) and self.warmup <= most):
            raise ValueError(
                f"Chains: warmup must be an integer from 0 to {most}, so that "
                f"{_LEAST_STATES} of {self.n_steps} steps are kept, not {self.warmup!r}"
            )
        known = self.start is None or (isinstance(self.start, str) and self.start == "prior")
        if not known and (isinstance(self.start, type) or not hasattr(self.start, "sample")):
            raise TypeError(f'Chains: start must be a sampler such as SMC() or the string "prior", not {self.start!r}')

    @property
    def searches(self) -> bool:
        """Whether the sampler that chains start from begins at training rows."""
        return self.start != "prior" and bool(getattr(self._starter, "searches", False))

    @property
    def usual_rows(self) -> int:
        """Rows per model of a usual explanation with these options; slice sampling takes more."""
        return self.n_chains * self.n_steps + int(getattr(self._starter, "usual_rows", 0))

    @property
    def kept(self) -> int:
        """Steps of each chain after warm-up."""
        return self.n_steps - (self.n_steps // 2 if self.warmup is None else int(self.warmup))

    def sample(self, posterior: GibbsPosterior, rng: np.random.Generator) -> Draws:
        """Draw: the start's model calls, then one for each step of all chains (several with slice sampling)."""
        start = self._draw_start(posterior, rng)
        # the start has solved for eta if there was a goal, or stopped early if the budget was short
        mixture = replace(posterior.mixture, eta=start.draws.rungs[-1])

        def u(points: Points) -> Array:
            return mixture.potential(points.loss) + points.log_correction

        chains_run = self._run_chains(
            Kernel(posterior, u) if self.kernel == "pcn" else Slice(posterior, u), rng, start.points
        )
        info = self._make_info(start, chains_run)
        if not chains_run.states:
            return replace(start.draws, info=info).resample(rng, self.n_draws)
        info = replace(info, acceptance=chains_run.acceptance, step=chains_run.step)
        info = _add_mixing(info, chains_run.states, mixture)
        return self._weigh(posterior, rng, start, chains_run.states, mixture, info).resample(rng, self.n_draws)

    def _make_info(self, start: "_Start", chains_run: "_Trajectories") -> "ChainsInfo":
        """Return the info of a run, without mixing figures."""
        before = start.draws.info
        done = len(chains_run.states) == self.kept and len(start.points) == self.n_chains
        return ChainsInfo(
            complete=done and before.complete,
            goal_met=before.goal_met,
            start="prior" if self.start == "prior" else type(self._starter).__name__,
            kernel=self.kernel,
            n_chains=len(start.points),
            n_steps=chains_run.n_steps,
            own_evidence=self.start != "prior",
        )

    @property
    def _starter(self) -> Sampler:
        """The sampler that chains start from."""
        return SMC() if self.start is None or self.start == "prior" else self.start

    def _draw_start(self, posterior: GibbsPosterior, rng: np.random.Generator) -> "_Start":
        """Run the sampler that chains start from, or draw their starts from the prior."""
        half = replace(posterior, budget=posterior.budget.share(_START_SHARE))
        if self.start != "prior":
            return _start_from_pool(self._starter.sample(half, rng), rng, self.n_chains)
        points = draw_candidates(posterior, rng, self.n_chains)
        if posterior.goal is None:
            draws = Draws.weigh(points, posterior.mixture, posterior.prior)
        else:
            draws = self._starter.sample(half, rng)
        n = len(points)
        return _Start(draws, np.arange(len(draws.pool)) % n, points, np.full(n, 1.0 / n), np.arange(n))

    def _run_chains(self, kernel: Kernel | Slice, rng: np.random.Generator, points: Points) -> "_Trajectories":
        """Take all steps, or as many as the budget allows."""
        steps, tried, sweeps, states = StepSizes(), [], [], []
        warmup = self.n_steps - self.kept
        try:
            for _ in range(warmup):
                points, steps = kernel.sweep(rng, points, steps)
                tried.append(steps.plain)
            if tried:  # the mean over half of the warm-up, because a single adapted step is noisy
                steps = steps._replace(plain=float(np.exp(np.log(tried[warmup // 2 :]).mean())))
            for _ in range(self.kept):
                points, after = kernel.sweep(rng, points, steps)
                states.append(points)
                sweeps.append(after)
        except BudgetSpentError:
            pass  # keep the states so far
        accepted = float(np.mean([one.acceptance for one in sweeps])) if sweeps else 0.0
        step = steps.plain if self.kernel == "pcn" or not sweeps else float(np.mean([one.plain for one in sweeps]))
        return _Trajectories(states, step, accepted, len(tried) + len(states))

    def _weigh(
        self,
        posterior: GibbsPosterior,
        rng: np.random.Generator,
        start: "_Start",
        states: Sequence[Points],
        mixture: Mixture,
        info: "ChainsInfo",
    ) -> Draws:
        """Weight the start's points and some of the states together."""
        most = max(_MOST_STATES // len(start.points), 1)
        chosen = np.unique(np.linspace(0, len(states) - 1, min(most, len(states))).round().astype(int))
        pool, base, groups = _pool_start_and_states(start, [states[i] for i in chosen], mixture)
        prior, rungs, evidence_inflation = posterior.prior, start.draws.rungs, start.draws.evidence_inflation
        draws = Draws.weigh(
            pool,
            mixture,
            prior,
            log_base_weights=base,
            groups=groups,
            rungs=rungs,
            info=info,
            evidence_inflation=evidence_inflation,
        )
        if self.start != "prior":
            return draws
        # equally weighted chains carry no error of the evidence, and few prior draws little of the prior
        placed = prior.place(rng.standard_normal((PRIOR_DRAWS, prior.dimension)))
        return replace(
            draws,
            log_evidence=start.draws.log_evidence,
            log_evidence_se=start.draws.log_evidence_se,
            prior_change=normalise(-placed.log_correction) @ prior.change(placed.x),
        )


@dataclass(frozen=True)
class ChainsInfo(SamplerInfo):
    """What chains report; mixing figures are ``None`` where there were too few states.

    Parameters
    ----------
    start, kernel : str
        The sampler they started from, and the kind of moves.
    n_chains, n_steps : int
        Their number and length, warm-up included.
    own_evidence : bool
        Whether the evidence rests on the chains' own start.
    acceptance, step, ess_bulk, ess_tail : float, optional
        After warm-up: acceptance rate, step size, and the smallest effective sample sizes.
    """

    sampler: str = "Chains"
    start: str = ""
    kernel: str = ""
    n_chains: int = 0
    n_steps: int = 0
    own_evidence: bool = True
    acceptance: float | None = None
    step: float | None = None
    ess_bulk: float | None = None
    ess_tail: float | None = None

    @property
    def advice(self) -> str:
        """What to do about too few draws."""
        return "raise n_steps, or use gbce.SMC()"

    @property
    def runs(self) -> str:
        """Number of chains."""
        return f"{self.n_chains} chains"

    @property
    def kind_of_run(self) -> str:
        """Name of several runs."""
        return "chains"


class _Start(NamedTuple):
    """Starting points of chains.

    ``draws`` is a weighted pool of ``N`` points in ``groups`` ``(N,)``; ``points`` has one point for each of the ``C``
    chains, ``mass`` ``(C,)`` is the share of the posterior that each represents, ``chain_groups`` ``(C,)`` its group.
    """

    draws: Draws
    groups: Array
    points: Points
    mass: Array
    chain_groups: Array


class _Trajectories(NamedTuple):
    """States after warm-up, all chains at each; step size, acceptance rate, and the number of steps in all."""

    states: list[Points]
    step: float
    acceptance: float
    n_steps: int


def _start_from_pool(draws: Draws, rng: np.random.Generator, n_chains: int) -> _Start:
    """Start chains in every independent part of a pool, with the mass of that part.

    Before normalisation, mass times any average over such a chain is unbiased, however short the chain is.
    """
    weights, groups = draws.pool_weights, draws.groups
    if groups is None:
        parts = min(n_chains, len(weights), max(_LEAST_BLOCKS, int(draws.ess / _BLOCK_ESS)))
        groups = np.arange(len(weights)) % parts
    else:
        parts = min(n_chains, int(groups.max()) + 1)
        groups = groups % parts
    chain_groups = np.arange(n_chains) % parts
    picks = np.empty(n_chains, dtype=int)
    for part in range(parts):
        own, chains = np.flatnonzero(groups == part), chain_groups == part
        picks[chains] = own[resample_evenly(rng, weights[own], int(chains.sum()))]
    mass = np.bincount(groups, weights=weights) / np.bincount(chain_groups)
    return _Start(draws, groups, draws.pool.take(picks), mass[chain_groups], chain_groups)


def _pool_start_and_states(start: _Start, states: Sequence[Points], mixture: Mixture) -> tuple[Points, Array, Array]:
    """Return the start's points and the chains' states as one pool, with base log weights and groups.

    The start's pool represents ``N(0, I)`` and the states the posterior. Weights are those of a mixture of ``n`` draws
    of the first and ``n * ratio`` of the second (balance heuristic, Veach and Guibas, 1995). The states dominate where
    the posterior is dense, the start's points in the prior's tails, so that no reweighting rests on an inverse density.
    """
    draws, after = start.draws, Points.join(states)

    def u(points: Points) -> Array:
        return mixture.potential(points.loss) + points.log_correction

    log_weights = draws.log_base_weights - u(draws.pool)
    log_z = logsumexp(log_weights) - logsumexp(draws.log_base_weights)
    log_ratio = np.log(len(after) / effective_sample_size(normalise(draws.log_base_weights))) - log_z
    with np.errstate(divide="ignore"):  # a part of the start may have no mass
        mass = np.log(np.tile(start.mass, len(states))) - np.log(len(states))
    base = np.concatenate(
        [
            draws.log_base_weights - logsumexp(log_weights) - np.logaddexp(0.0, log_ratio - u(draws.pool)),
            mass + log_ratio - np.logaddexp(0.0, log_ratio - u(after)),
        ]
    )
    groups = np.concatenate([start.groups, np.tile(start.chain_groups, len(states))])
    return Points.join([draws.pool, after]), base, groups


def _add_mixing(info: ChainsInfo, states: Sequence[Points], mixture: Mixture) -> ChainsInfo:
    """Add R-hat and effective sample sizes of the worst figure, if there are enough states."""
    if len(states) < _LEAST_STATES:
        return info
    from arviz_stats.base import array_stats  # type: ignore[attr-defined]  # slow to import, needed only here

    m = states[0].z.shape[1]
    some = np.arange(m) if m <= _MOST_COORDINATES else np.linspace(0, m - 1, _MOST_COORDINATES).astype(int)
    watched = np.array(
        [
            np.column_stack([p.z[:, some], np.square(p.z).sum(axis=1), np.minimum(mixture.potential(p.loss), HUGE)])
            for p in states
        ]
    ).transpose(2, 1, 0)  # (figure, chain, step)
    watched = watched[np.ptp(watched, axis=(1, 2)) > 0]  # constant figures have no convergence
    if len(watched) == 0:
        return info
    with np.errstate(all="ignore"):
        r_hat = array_stats.rhat(watched)
        bulk, tail = array_stats.ess(watched, method="bulk"), array_stats.ess(watched, method="tail", prob=_TAIL)
    return replace(
        info,
        r_hat=float(np.minimum(np.nan_to_num(r_hat, nan=WORST_R_HAT), WORST_R_HAT).max()),
        ess_bulk=float(np.nan_to_num(bulk, nan=0.0).min()),
        ess_tail=float(np.nan_to_num(tail, nan=0.0).min()),
    )
