"""Draw coefficients from their Gibbs posterior or a Laplace approximation, and choose their eta'."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import digamma, ndtr

from gbce._validation import is_number, require_counts
from gbce.base import Array
from gbce.ensembles._hmc import hmc, mixing, network_chains, round_maps
from gbce.ensembles._posterior import ModelPosterior, Question
from gbce.ensembles._problem import NormalErrors, Problem, gaussian_draws
from gbce.ensembles._reading import LearnerReading, read
from gbce.ensembles._refits import clone_with_seed

# --- learning rates --------------------------------------------------------------------------------------------------

SAFE_GRID = tuple(2.0 ** (-j / 2) for j in range(13))  # learning rates in half powers of two, 1 down to 1/64; by hand


@dataclass(frozen=True)
class _Tuning:
    """How SafeBayes reads the rows, and the quadrature of clipped log losses, exact to some 1e-9."""

    # of rows that linear models average over: one order let 12 of 40 wrong models pass at eta' = 1, eight 1
    n_orders: int = 8
    # For logistic regression, by hand: each block takes a mode, and draws are the same for all learning rates.
    n_blocks: int = 60  # in which rows arrive
    n_draws: int = 64  # from each posterior, in antithetic pairs
    # prior standard deviation in place of a flat prior, in units of y or in logits; by hand, wide for both
    weak_sd: float = 10.0
    reach_sds: float = 9.0  # range of integration in standard deviations: 1e-19 of a normal distribution is farther out
    reach_logits: float = 40.0  # and in logits: the loss is 4e-18 there
    nodes: int = 64  # of the Gauss-Legendre rule
    smallest_spread: float = 1e-150  # instead of zero in a denominator; its square is still above zero


_TUNING = _Tuning()
# Values of Catoni's C, 4 down to 1/64 in half powers of two: the bound is smallest near sqrt(2 KL / (n loss)), and flat
# there. Each costs a share of delta, of which the bound holds the logarithm.
SPEEDS = tuple(4.0 * 2.0 ** (-j / 2) for j in range(17))

# --- SafeBayes -------------------------------------------------------------------------------------------------------


def safe_eta(problem: Problem, grid: Sequence[float], version: str, rng: np.random.Generator) -> dict[str, Any]:
    """Return the eta' of smallest cumulative prequential loss (Grünwald and van Ommen 2017), and all losses."""
    order = rng.permutation(len(problem.X))
    etas = np.sort(np.asarray(grid, dtype=float))[::-1]
    likelihood = problem.likelihood
    if isinstance(likelihood, NormalErrors):
        proper = _with_weak_prior(problem, _TUNING.weak_sd * max(float(np.abs(likelihood.y).max()), likelihood.sd))
        orders = [order, *(rng.permutation(len(problem.X)) for _ in range(_TUNING.n_orders - 1))]
        losses = np.mean([_squared_losses(proper, likelihood.take(one), one, etas, version) for one in orders], axis=0)
    else:
        half = rng.standard_normal((_TUNING.n_draws // 2, problem.net.n_parameters))
        blocks = np.array_split(order, min(len(order), _TUNING.n_blocks))
        proper, normal = _with_weak_prior(problem, _TUNING.weak_sd), np.concatenate([half, -half])
        losses = np.array([_log_loss(proper.at(eta), blocks, normal, version) for eta in etas])
    best = int(np.argmin(losses))  # the first, hence the largest eta, of equals
    return {"eta": float(etas[best]), "eta_grid": tuple(etas.tolist()), "eta_losses": tuple(losses.tolist())}


def _with_weak_prior(problem: Problem, spread: float) -> Problem:
    """Replace flat priors by weak ones, so that the first rows can be predicted."""
    flat = np.diag(problem.precision) == 0
    return replace(problem, precision=problem.precision + np.diag(flat / spread**2))


def _squared_losses(problem: Problem, likelihood: NormalErrors, order: Array, etas: Array, version: str) -> Array:
    """Return the prequential losses ``(g,)`` of linear regression with unknown noise variance, for all etas."""
    # The prior is the paper's conjugate one. A known variance would hide what SafeBayes detects: a posterior
    # concentrated on a variance that is wrong for the next row. Version "I" predicts with posterior means; that of the
    # variance, b / (a - 1), exists from the second row on, so all rates predict the first one alike.
    rows = problem.net.jacobian(np.zeros(problem.net.n_parameters), problem.X[order])[:, 0]
    cov = np.repeat(np.linalg.inv(problem.precision)[None] / likelihood.sd**2, len(etas), axis=0)  # over the variance
    mean = np.zeros((len(etas), rows.shape[1]))
    a, b = np.ones(len(etas)), np.full(len(etas), likelihood.sd**2)
    losses = np.zeros(len(etas))
    for number, (x, y) in enumerate(zip(rows, likelihood.y, strict=True)):
        shared = cov @ x
        spread, error = shared @ x, y - mean @ x
        if version == "R":
            losses += 0.5 * (np.log(b) - digamma(a) + error**2 * a / b + spread)
        elif number:
            losses += 0.5 * (np.log(b / (a - 1)) + error**2 * (a - 1) / b)
        gain = shared / (1 / etas + spread)[:, None]
        mean = mean + gain * error[:, None]
        cov = cov - gain[:, :, None] * shared[:, None, :]
        a, b = a + etas / 2, b + 0.5 * error**2 / (1 / etas + spread)
    return losses


def _log_loss(problem: Problem, blocks: Sequence[Array], normal: Array, version: str) -> float:
    """Return the prequential loss of logistic regression with Laplace approximations, which only have to rank etas."""
    total, seen = 0.0, np.zeros(0, dtype=int)
    mode = np.zeros(problem.net.n_parameters)
    for block in blocks:
        known, new = problem.take(seen), problem.take(block)
        mode = known.mode(mode)
        theta = mode[None] if version == "I" else gaussian_draws(mode, known.curvature(mode), normal)
        total += float(new.likelihood.loss(new.net.outputs(theta, new.X)).sum()) / len(theta)
        seen = np.concatenate([seen, block])
    return total if math.isfinite(total) else math.inf


# --- PAC-Bayes -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PACBayes:
    """Choose eta' as the learning rate with the smallest PAC-Bayes bound, for a posterior over coefficients.

    Catoni's bound (2007, Theorem 1.2.6): for i.i.d. rows, a loss between 0 and ``clip``, a prior that is independent of
    the ``n`` rows and a fixed ``C``, with probability ``1 - delta`` the expected loss on a new row of a model drawn
    from any posterior is at most ``clip (1 - exp(-C r / clip - (KL - log delta) / n)) / (1 - exp(-C))``, with ``r`` its
    mean loss on the n rows and KL its divergence from the prior.

    For such a prior, a random ``share`` of the rows is set apart: what is learned from data besides the coefficients
    (steps of a pipeline, ``noise_sd``, a prior scaled by it) is learned from them alone, and the prior of the bound is
    the posterior given them. The bound uses the other rows; models are drawn from the posterior given all rows. By a
    union bound, ``delta`` is divided among all pairs of eta' and C.

    The posterior must be normal for the bound to be exact: ``LinearRegression`` and ``Ridge`` with either method, and
    ``LogisticRegression`` of two classes with :class:`gbce.LaplaceApproximation`. The facts have the chosen ``eta``,
    its ``bound`` with ``bound_loss`` (r), ``bound_kl`` and ``bound_rows``, ``eta_bounds`` for all of ``eta_grid``, and
    ``bound_says``, the bound in words.

    Parameters
    ----------
    clip : float
        Value at which the loss of a row, a negative log likelihood, is clipped. 2 is an error of 2 ``noise_sd``, or a
        probability of 0.135 for the class that occurred.
    delta : float
        Probability with which the bound may fail.
    share : float
        Share of the rows that is set apart.
    grid : sequence of float
        Learning rates to compare.

    Examples
    --------
    >>> import gbce
    >>> from sklearn.linear_model import Ridge
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 3))
    >>> y = X @ [1.0, 0.5, 0.0] + 0.5 * rng.normal(size=400)
    >>> method = gbce.CoefficientPosterior(gbce.PACBayes())
    >>> posterior = gbce.model_posterior(Ridge(1.0), X, y, method, n_models=20, seed=0)
    >>> facts = posterior.facts
    >>> facts["bound_loss"] < facts["bound"] < 1 and facts["bound"] == min(facts["eta_bounds"])
    True
    >>> print(facts["bound_says"].split(":")[0])
    With probability 0.95 over the rows, a drawn model loses at most 0.773 a row on average, and 0.490 on 200 known rows
    """

    clip: float = 2.0
    delta: float = 0.05
    share: float = 0.5
    grid: Sequence[float] = SAFE_GRID

    def __post_init__(self) -> None:
        if not is_number(self.clip) or not 0 < self.clip < math.inf:
            raise ValueError(f"PACBayes: clip must be a positive number, not {self.clip!r}")
        for name in ("delta", "share"):
            if not is_number(getattr(self, name)) or not 0 < getattr(self, name) < 1:
                raise ValueError(f"PACBayes: {name} must be between 0 and 1, not {getattr(self, name)!r}")
        if not len(self.grid) or not all(is_number(one) and 0 < one < math.inf for one in self.grid):
            raise ValueError(f"PACBayes: grid must be positive numbers, at least one, not {self.grid!r}")

    def certify(
        self, question: Question, method: str, prior_sd: float | None, noise_sd: float | None, rng: np.random.Generator
    ) -> tuple[LearnerReading, dict[str, Any]]:
        """Return the learner as read from the rows set apart, with all rows in its problem, and the facts."""
        n = len(question.y)
        order = rng.permutation(n)
        apart = min(max(round(self.share * n), 2), n - 1)
        reading = read(question, method, prior_sd, noise_sd, standardise=False, learned_from=np.sort(order[:apart]))
        if reading.network or reading.problem.net.sizes[-1] > 1:
            raise ValueError("PACBayes supports linear models and two-class logistic models: give a number as eta")
        known, held = reading.problem.take(order[:apart]), reading.problem.take(order[apart:])
        etas = np.sort(np.asarray(self.grid, dtype=float))[::-1]
        found = [_loss_and_divergence(known.at(eta), held, reading.problem.at(eta), self.clip) for eta in etas]
        paid = self.delta / (len(etas) * len(SPEEDS))
        bounds = [min(catoni_bound(r, kl, n - apart, paid, self.clip, speed) for speed in SPEEDS) for r, kl in found]
        best = int(np.argmin(bounds))  # the first, hence the largest eta, of equals
        facts = {"eta": float(etas[best]), "bound": bounds[best], "bound_loss": found[best][0],
                 "bound_kl": found[best][1], "bound_rows": n - apart, "eta_grid": tuple(etas.tolist()),
                 "eta_bounds": tuple(bounds)}  # fmt: skip
        return reading, facts | {"bound_says": self._sentence(facts, reading)}

    def _sentence(self, facts: dict[str, Any], reading: LearnerReading) -> str:
        loss = "-log p(y)" if reading.classes is not None else f"(y - f)**2 / (2 * {reading.noise_sd:.4g}**2)"
        return (
            f"With probability {1 - self.delta:g} over the rows, a drawn model loses at most {facts['bound']:.3f} a "
            f"row on average, and {facts['bound_loss']:.3f} on {facts['bound_rows']} known rows: the loss is {loss}, "
            f"clipped at {self.clip:g}, and rows are independent and identically distributed"
        )


def catoni_bound(loss: float, kl: float, n: int, delta: float, clip: float, speed: float) -> float:
    """Return Catoni's bound on an expected loss in ``[0, clip]``, given its mean ``loss`` over ``n`` rows."""
    return float(clip * np.expm1(-speed * loss / clip - (kl - math.log(delta)) / n) / np.expm1(-speed))


def normal_kl(mean: Array, precision: Array, mean0: Array, precision0: Array) -> float:
    """Return the KL divergence of ``N(mean, precision^-1)`` from ``N(mean0, precision0^-1)``."""
    root, root0 = np.linalg.cholesky(precision), np.linalg.cholesky(precision0)
    ratio = solve_triangular(root, root0, lower=True)  # its square sums to the trace of precision0 / precision
    logs = 2 * (np.log(np.diag(root)).sum() - np.log(np.diag(root0)).sum())
    shift = (mean - mean0) @ root0
    return float(0.5 * (np.square(ratio).sum() - len(mean) + shift @ shift + logs))


def _loss_and_divergence(known: Problem, held: Problem, whole: Problem, clip: float) -> tuple[float, float]:
    """Return the mean clipped loss of the ``held`` rows under the posterior given all rows, and its KL divergence."""
    mean0, mean = known.mode(), whole.mode()
    precision0, precision = known.curvature(mean0), whole.curvature(mean)
    return float(np.mean(clipped_loss(held, mean, precision, clip))), normal_kl(mean, precision, mean0, precision0)


def clipped_loss(problem: Problem, mean: Array, precision: Array, clip: float) -> Array:
    """Return the expected clipped loss ``(n,)`` of each row under coefficients ``N(mean, precision^-1)``."""
    slopes = problem.net.jacobian(mean, problem.X)[:, 0]
    spread = np.linalg.norm(solve_triangular(np.linalg.cholesky(precision), slopes.T, lower=True), axis=0)
    output, spread = problem.net.outputs(mean, problem.X)[:, 0], np.maximum(spread, _TUNING.smallest_spread)
    likelihood = problem.likelihood
    if isinstance(likelihood, NormalErrors):
        return _clipped_square(output - likelihood.y, spread, clip * 2 * likelihood.sd**2) / (2 * likelihood.sd**2)
    return _clipped_log(np.where(likelihood.codes == 1, output, -output), spread, clip)


def _clipped_square(mean: Array, sd: Array, most: float) -> Array:
    """Return ``E min(u**2, most)`` for normal u."""
    low, high = (-math.sqrt(most) - mean) / sd, (math.sqrt(most) - mean) / sd
    at_low, at_high = (np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi) for z in (low, high))
    inside = ndtr(high) - ndtr(low)
    edges = 2 * mean * sd * (at_low - at_high) + sd**2 * (low * at_low - high * at_high)
    return (mean**2 + sd**2) * inside + edges + most * (1 - inside)


def _clipped_log(mean: Array, sd: Array, most: float) -> Array:
    """Return ``E min(log(1 + exp(-u)), most)`` for normal u, in two parts beyond an edge."""
    # max(-u, 0) in closed form, and log(1 + exp(-|u|)), which is smooth on either side of zero
    edge = -(most + math.log(-math.expm1(-most)))  # where the loss is ``most``
    low, zero = (min(edge, 0.0) - mean) / sd, -mean / sd
    at_low, at_zero = (np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi) for z in (low, zero))
    known = most * ndtr((edge - mean) / sd) - mean * (ndtr(zero) - ndtr(low)) + sd * (at_zero - at_low)
    return known + _expected_fold(mean, sd, edge, 0.0) + _expected_fold(mean, sd, max(edge, 0.0), _TUNING.reach_logits)


def _expected_fold(mean: Array, sd: Array, low: float, high: float) -> Array:
    """Return ``E log(1 + exp(-|u|))`` for normal u over an interval, by Gauss-Legendre quadrature."""
    near, far = mean - _TUNING.reach_sds * sd, mean + _TUNING.reach_sds * sd
    start, end = (np.clip(end, near, far) for end in (max(low, -_TUNING.reach_logits), max(low, high)))
    points, weights = np.polynomial.legendre.leggauss(_TUNING.nodes)
    half = 0.5 * (end - start)
    u = (start + half)[:, None] + half[:, None] * points
    density = np.exp(-0.5 * ((u - mean[:, None]) / sd[:, None]) ** 2) / (math.sqrt(2 * math.pi) * sd[:, None])
    return half * ((np.log1p(np.exp(-np.abs(u))) * density) @ weights)


# --- draws of coefficients -------------------------------------------------------------------------------------------

# A warning is given above it. Vehtari et al. (2021) recommend 1.01, for chains that run until they mix. Chains here are
# short (200 steps by default), the worst of many figures counts, and it exceeds one even from a perfect start. 1.2 is
# chosen by hand, laxer than MAX_R_HAT of gbce.metrics, because only this warning depends on it: chains over networks
# rarely visit all modes, however long they are (docs/howto/model-posteriors.md).
_MAX_R_HAT = 1.2
_MONITORED_ROWS = 20  # whose outputs must agree between chains of a network; by hand
# Candidates for the prior precision of largest evidence: standard deviations from 100 to 0.01, ten steps to a power of
# ten of the precision. By hand.
_PRECISIONS = np.logspace(-4, 4, 81)

# --- Gibbs posterior -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class CoefficientPosterior:
    """Draw coefficients from ``p(theta | D)`` proportional to ``exp(-eta' L(D, theta)) p(theta)``.

    ``L`` is the negative log likelihood: squared errors over ``2 noise_sd**2`` for ``LinearRegression``, ``Ridge`` and
    ``MLPRegressor``, log loss for ``LogisticRegression`` and ``MLPClassifier``; so ``eta = 1`` is Bayes' rule. Linear
    coefficients with squared loss are drawn exactly, others by Hamiltonian Monte Carlo with exact gradients, with
    ``r_hat`` of the chains in the facts. Chains over a network start from a population tempered from the prior and also
    propose to rescale its units; a warning says when they have not converged. The steps of a pipeline before the
    learner are fitted once and kept.

    Parameters
    ----------
    eta : float, "safe" or PACBayes
        The learning rate eta', or SafeBayes: the one of ``grid`` that best predicts every row from those before it
        (Grünwald and van Ommen 2017), for linear models with unknown noise and logistic models; the losses are in the
        facts. A :class:`gbce.PACBayes` takes the one of smallest risk bound, for linear models.
    prior_sd : float, optional
        Standard deviation of the normal prior of weights. By default it follows from the learner: ``alpha`` of
        ``Ridge``, ``C`` of ``LogisticRegression``, infinite for ``LinearRegression``; for networks it is 2 for the
        sum of the standardised inputs of a unit, since their tiny ``alpha`` is not meant as a prior. Intercepts of
        linear models have a flat prior.
    noise_sd : float, optional
        Standard deviation of outcomes around predictions; by default that of residuals, cross-validated for networks.
    n_chains, n_warmup, n_steps, leaps : int
        Chains, warm-up steps, steps kept of each chain (more if ``n_models`` needs them), and most leapfrog steps per
        step.
    grid : sequence of float
        Learning rates that SafeBayes compares.
    safe : {"R", "I"}
        R-log-SafeBayes (expected loss of a draw) or I-log-SafeBayes (loss at the posterior mean).

    Examples
    --------
    >>> import gbce
    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 2))
    >>> y = rng.random(100) < 1 / (1 + np.exp(-2 * X[:, 0]))
    >>> posterior = gbce.model_posterior(LogisticRegression(), X, y, gbce.CoefficientPosterior(), n_models=100)
    >>> posterior.facts["r_hat"] < 1.05
    True
    >>> posterior[0].predict_proba(X[:3]).shape
    (3, 2)
    """

    eta: float | Literal["safe"] | PACBayes = 1.0
    prior_sd: float | None = None
    noise_sd: float | None = None
    # by hand: 1,600 states, from which models are taken at equal distances
    n_chains: int = 8
    n_warmup: int = 300
    n_steps: int = 200
    leaps: int = 20
    grid: Sequence[float] = SAFE_GRID
    safe: Literal["R", "I"] = "R"

    def __post_init__(self) -> None:
        name = type(self).__name__
        if self.eta != "safe" and not is_rate(self.eta):
            raise ValueError(f'{name}: eta must be a positive number or "safe" or a gbce.PACBayes, not {self.eta!r}')
        require_positive(self, "prior_sd", "noise_sd")
        require_counts(self, "n_chains", "n_warmup", "n_steps", "leaps")
        if not len(self.grid) or not all(is_number(one) and 0 < one < math.inf for one in self.grid):
            raise ValueError(f"{name}: grid must be positive numbers, at least one, not {self.grid!r}")
        if self.safe not in ("R", "I"):
            raise ValueError(f'{name}: safe must be "R" or "I", not {self.safe!r}')

    def draw(self, question: Question) -> ModelPosterior:
        """Return models at drawn coefficients, all of weight ``1 / n_models``."""
        choosing, drawing = (np.random.default_rng(seed) for seed in question.children(2))
        given = (question, type(self).__name__, self.prior_sd, self.noise_sd)
        if isinstance(self.eta, PACBayes):
            if question.classifies:
                raise ValueError(
                    "PACBayes bounds the loss of a normal distribution of coefficients: for a classifier use "
                    "gbce.LaplaceApproximation(gbce.PACBayes()), which draws from it"
                )
            reading, chosen = self.eta.certify(*given, choosing)
        else:
            reading = read(*given, standardise=True)
            chosen = self._choose_eta(reading, choosing)
        facts: dict[str, Any] = dict(reading.facts) | chosen
        problem = reading.problem.at(facts["eta"])
        if problem.linear and isinstance(problem.likelihood, NormalErrors):
            normal = drawing.standard_normal((question.n_models, problem.net.n_parameters))
            precision = problem.curvature(np.zeros(problem.net.n_parameters))
            gaussian_draws(np.zeros(len(precision)), precision, normal[:1])  # raises if the posterior is improper
            theta = gaussian_draws(problem.mode(), precision, normal)
        else:
            theta, mixed = self._run_chains(problem, question.n_models, drawing)
            facts |= mixed
        return ModelPosterior.of([reading.model(one) for one in theta], self, facts)

    def _choose_eta(self, reading: LearnerReading, rng: np.random.Generator) -> dict[str, Any]:
        if self.eta != "safe":
            return {"eta": float(self.eta)}  # type: ignore[arg-type]
        if reading.network:
            raise ValueError('eta="safe" is for linear and logistic models: give a number for a network')
        if not math.isfinite(reading.prior_sd):
            raise ValueError(
                'eta="safe" predicts every row from those before it, and needs a prior for the first: give prior_sd, '
                "or a learner with regularisation such as Ridge"
            )
        return safe_eta(reading.problem, self.grid, self.safe, rng)

    def _run_chains(self, problem: Problem, n_models: int, rng: np.random.Generator) -> tuple[Array, dict[str, float]]:
        c, p, steps = self.n_chains, problem.net.n_parameters, max(self.n_steps, math.ceil(n_models / self.n_chains))
        if problem.linear:
            mode = problem.mode()
            problem.require_proper(mode)
            maps = round_maps(problem, mode[None, None])
            start = mode + (maps @ rng.standard_normal((c, p, 1)))[:, :, 0]
            run = hmc(problem.energy, start, maps, self.n_warmup, steps, self.leaps, rng)
            figures = run.states
        else:
            run = network_chains(problem, c, self.n_warmup, steps, self.leaps, rng)
            # hidden units may be permuted between chains, so that weights differ where outputs agree
            rows = np.linspace(0, len(problem.X) - 1, min(_MONITORED_ROWS, len(problem.X))).astype(int)
            outputs = problem.net.outputs(run.states.reshape(-1, p), problem.X[rows])
            figures = outputs.reshape(steps, c, -1)
        facts = {"acceptance": run.acceptance, "n_chains": c, "n_steps": steps, **mixing(figures)}
        if facts["r_hat"] > _MAX_R_HAT:
            warnings.warn(
                f"the chains over coefficients have not converged (R-hat {facts['r_hat']:.2f}): raise n_steps and "
                "n_warmup, or give a smaller prior_sd",
                stacklevel=4,
            )
        pool = run.states.reshape(-1, p)  # step by step, so that evenly spaced states come from all chains
        return pool[np.linspace(0, len(pool) - 1, n_models).round().astype(int)], facts


def is_rate(eta: Any) -> bool:
    """Whether ``eta`` is a learning rate or a method to choose one."""
    return isinstance(eta, PACBayes) or (is_number(eta) and 0 < eta < math.inf)


def require_positive(owner: Any, *names: str) -> None:
    """Require options to be None or positive; infinite stands for a flat prior."""
    for name in names:
        value = getattr(owner, name)
        if value is not None and not (is_number(value) and value > 0):
            raise ValueError(f"{type(owner).__name__}: {name} must be a positive number, not {value!r}")


# --- Laplace approximation -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LaplaceApproximation:
    """Draw coefficients from a normal distribution around their posterior mode, with the inverse Hessian as covariance.

    At ``eta = 1`` and the prior implied by the learner, the mode is the learner's own fit; it shrinks towards the prior
    as ``eta`` falls. For ``LinearRegression`` and ``Ridge`` this is the exact posterior. A network is fitted first and
    then optimised to the mode near its fit; the Hessian is the generalised Gauss-Newton matrix, and models are
    linearised around the mode, as that matrix implies (Immer, Korzepa and Bauer 2021); the prior precision is that of
    largest evidence (MacKay 1992) at the fit unless it is given.

    Parameters
    ----------
    eta : float or PACBayes
        The learning rate eta': the loss is ``eta`` times the negative log likelihood. A :class:`gbce.PACBayes` takes
        the one of smallest risk bound, for linear models and logistic ones of two classes.
    prior_sd : float, optional
        Standard deviation of the normal prior of weights; by default it follows from the learner's regularisation, and
        for networks from the evidence.
    noise_sd : float, optional
        As in :class:`gbce.CoefficientPosterior`.

    Examples
    --------
    >>> import gbce
    >>> from sklearn.linear_model import LogisticRegression
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> y = np.where(X[:, 0] + X[:, 1] ** 2 > 1, "yes", "no")
    >>> posterior = gbce.model_posterior(LogisticRegression(), X, y, gbce.LaplaceApproximation(), n_models=10)
    >>> posterior[0].classes_.tolist()
    ['no', 'yes']
    """

    eta: float | PACBayes = 1.0
    prior_sd: float | None = None
    noise_sd: float | None = None

    def __post_init__(self) -> None:
        if not is_rate(self.eta):
            raise ValueError(
                f"LaplaceApproximation: eta must be a positive number or a gbce.PACBayes, not {self.eta!r}"
            )
        require_positive(self, "prior_sd", "noise_sd")

    def draw(self, question: Question) -> ModelPosterior:
        """Return models at drawn coefficients, all of weight ``1 / n_models``."""
        fitting, drawing = (np.random.default_rng(seed) for seed in question.children(2))
        given = (question, type(self).__name__, self.prior_sd, self.noise_sd)
        if isinstance(self.eta, PACBayes):
            reading, chosen = self.eta.certify(*given, fitting)
        else:
            reading, chosen = read(*given, standardise=False), {"eta": float(self.eta)}
        problem = reading.problem.at(chosen["eta"])
        facts: dict[str, Any] = {**reading.facts, **chosen}
        if reading.network:
            fitted = clone_with_seed(reading.learner, fitting).fit(problem.X, question.y)
            theta = problem.net.pack(list(zip(fitted.coefs_, fitted.intercepts_, strict=True)))
            if self.prior_sd is None:
                problem = _maximise_evidence(problem, theta)
                facts["prior_sd"] = float(problem.precision[0, 0] ** -0.5)
            theta = problem.mode_near(theta)
        else:
            theta = problem.mode()
            problem.require_proper(theta)
        normal = drawing.standard_normal((question.n_models, len(theta)))
        draws = gaussian_draws(theta, problem.curvature(theta), normal)
        if reading.network:
            models = [reading.model(theta, step=one - theta) for one in draws]
        else:
            models = [reading.model(one) for one in draws]
        return ModelPosterior.of(models, self, facts)


def _maximise_evidence(problem: Problem, theta: Array) -> Problem:
    """Return the problem with the isotropic prior precision of largest evidence."""
    alone = replace(problem, precision=np.zeros_like(problem.precision))
    known = np.maximum(np.linalg.eigvalsh(alone.curvature(theta)), 0.0)
    score = [
        0.5 * len(theta) * np.log(tau) - 0.5 * np.log(known + tau).sum() - 0.5 * tau * theta @ theta
        for tau in _PRECISIONS
    ]
    return replace(problem, precision=_PRECISIONS[int(np.argmax(score))] * np.eye(len(theta)))
