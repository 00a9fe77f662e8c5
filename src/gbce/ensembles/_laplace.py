"""Laplace's approximation around the mode of the coefficients."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gbce.base import Array
from gbce.ensembles._coefficients import is_rate, require_positive
from gbce.ensembles._fits import clone_with_seed
from gbce.ensembles._pac import PACBayes
from gbce.ensembles._posterior import ModelPosterior
from gbce.ensembles._problem import Problem, gaussian_draws
from gbce.ensembles._question import Question
from gbce.ensembles._reading import read

__all__ = ["LaplaceApproximation"]

# Of a prior, among which the one of largest evidence is taken: standard deviations from 100 to 0.01, ten steps to a
# power of ten of the precision. By hand.
_PRECISIONS = np.logspace(-4, 4, 81)


@dataclass(frozen=True)
class LaplaceApproximation:
    """Draw coefficients from a normal law around the mode of their posterior, with the inverse Hessian as covariance.

    The mode is that at ``eta`` and under the prior: the learner's own fit where ``eta = 1`` and the prior is read off
    the learner, and drawn towards the prior as ``eta`` falls. For ``LinearRegression`` and ``Ridge`` it is the exact
    posterior. A network is fitted first and then brought to the mode next to its fit; the Hessian is the generalised
    Gauss-Newton matrix, and models are linearised around the mode, as that matrix supposes (Immer, Korzepa and Bauer
    2021); the prior's precision is that of largest evidence (MacKay 1992) at the fit unless it is given.

    Parameters
    ----------
    eta : float or PACBayes
        The learning rate eta': the loss counts as ``eta`` times minus the log likelihood. A :class:`gbce.PACBayes`
        finds the one of least risk bound, for linear models and logistic ones of two classes.
    prior_sd : float, optional
        Standard deviation of the normal prior of weights; read off the learner's regularisation when left out, and
        for networks found by evidence.
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
    """Return the problem with the prior's precision of largest evidence, all coefficients alike."""
    alone = replace(problem, precision=np.zeros_like(problem.precision))
    known = np.maximum(np.linalg.eigvalsh(alone.curvature(theta)), 0.0)
    score = [
        0.5 * len(theta) * np.log(tau) - 0.5 * np.log(known + tau).sum() - 0.5 * tau * theta @ theta
        for tau in _PRECISIONS
    ]
    return replace(problem, precision=_PRECISIONS[int(np.argmax(score))] * np.eye(len(theta)))
