"""Draw coefficients of a model from their Gibbs posterior, exactly or by chains, or from a Laplace approximation."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from gbce._validation import is_number, require_counts
from gbce.base import Array
from gbce.ensembles._hmc import hmc, mixing, network_chains, round_maps
from gbce.ensembles._pac import SAFE_GRID, PACBayes, safe_eta
from gbce.ensembles._posterior import ModelPosterior, Question
from gbce.ensembles._problem import NormalErrors, Problem, gaussian_draws
from gbce.ensembles._reading import LearnerReading, read
from gbce.ensembles._refits import clone_with_seed

__all__ = ["CoefficientPosterior", "LaplaceApproximation"]

# A warning is given above it. Vehtari et al. (2021) recommend 1.01, for chains that run until they mix. Chains here are
# short (200 steps by default), the worst of many figures counts, and it exceeds one even from a perfect start. 1.2 is
# chosen by hand, laxer than MAX_R_HAT of gbce.metrics, because only this warning depends on it: chains over networks
# rarely visit all modes, however long they are (docs/uncertainty.md).
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
