"""Posteriors to be tempered, and whether draws agree with what is exact."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

import gbce
from gbce.posterior import GibbsPosterior, Mixture
from gbce.predictors import as_predictor
from support.exact import Grid, gaussian_log_prior, linear, midpoints
from support.laws import close, small_error

# Tempered from the prior, without a search; in MANY there are so many islands that the error itself is well known.
SMALL = gbce.SMC(4_000, 1_000, max_looks=0)
MANY = gbce.SMC(10_000, 3_200, n_islands=32, max_looks=0)
# As SMC is by default: it searches first, and tempers only where draws around what it found do not do.
SEARCHING = gbce.SMC(4_000, 1_000)
WAYS = {"tempered": MANY, "searched": SEARCHING}  # the two ways to the same law, for a test of draws
SMALL_WAYS = {"tempered": SMALL, "searched": SEARCHING}


def posterior_of(model, x0, target, eta, *, prior=None, space=None, weights=None, combine="any", **options):
    models = model if isinstance(model, list) else [model]
    space = gbce.Space.real(len(x0)) if space is None else space
    located = (gbce.Gaussian() if prior is None else prior).at(space, np.asarray(x0, dtype=float))
    mixture = Mixture(eta, np.full(len(models), 1 / len(models)) if weights is None else np.array(weights), combine)
    return GibbsPosterior(located, tuple(as_predictor(one, space) for one in models), target, mixture, **options)


def sampled(sampler, posterior, seed=0):
    return sampler.sample(posterior, np.random.default_rng(seed))


def explain(model, x0, target, *, eta, sampler=MANY, seed=0, **options):
    options = {"space": gbce.Space.real(len(x0))} | options
    data = np.random.default_rng(0).normal(size=(50, len(x0)))
    return gbce.Explainer(model, data, eta=eta, sampler=sampler, **options).explain(x0, target, rules=[], seed=seed)


def went(draws, way):
    """Whether draws are not those of the prior, but came the way that a test is about."""
    return draws.groups is not None if way == "tempered" else draws.facts.get("looks") is not None


def agrees(draws, values, exact, what, size=None):
    """A mean over the draws of values given for the pool is exact within its error, and the error is small."""
    got = draws.mean(values)
    se = draws.standard_error(values - got)
    close(got, exact, se, what, draws)
    small_error(se, exact if size is None else size, what, draws)


def evidence_agrees(draws, exact, least=0.4):
    close(draws.log_evidence, exact, draws.log_evidence_se, "log evidence", draws)
    assert draws.log_evidence_se < least, f"log evidence: error {draws.log_evidence_se} is too large"


TOLERANCE = 0.15


def hard(d, eta=20.0, away=5.0):
    """A linear model whose target is five prior deviations away: log evidence -14, success probability one half."""
    case = linear(d, eta=eta, seed=d)
    return replace(case, y=float(case.w @ case.x0 + case.b + away))


def value_of(case):
    return gbce.Value(case.y, scale=1, tolerance=TOLERANCE)


def posterior_linear(case, **options):
    return posterior_of(case.predict, case.x0, value_of(case), case.eta, **options)


def as_loss(threshold=1.0):
    """The model's own output is the loss."""
    return gbce.Loss(lambda f: f, threshold=threshold)


@dataclass(frozen=True)
class Basins:
    """Two round wells in ``d`` dimensions, left and right of the row, with 0.3 and 0.7 of the posterior at eta 1."""

    d: int
    at: float = 2.2
    width: float = 0.3

    def loss(self, x):
        rest = np.square(x[:, 1:]).sum(axis=1)
        left, right = (np.square(x[:, 0] - sign * self.at) + rest for sign in (-1, 1))
        return np.minimum(0.5 * left / self.width**2 - np.log(0.3), 0.5 * right / self.width**2 - np.log(0.7))

    @property
    def log_evidence(self):
        """Two masses of a normal law times a well; the wells do not touch."""
        spread = 1 + self.width**2
        return 0.5 * self.d * np.log(self.width**2 / spread) - 0.5 * self.at**2 / spread


@dataclass(frozen=True)
class Far:
    """A well near the row that never reaches the target, and a narrow one, 4.5 deviations away, that does."""

    d: int

    def loss(self, x):
        near = 9.0 + 0.5 * np.square(x[:, :2] - [1.0, 0.0]).sum(axis=1) / 0.15**2
        far = 0.5 * np.square(x[:, :2] - self.centre).sum(axis=1) / 0.2**2
        return np.minimum(near, far)

    @property
    def centre(self):
        return 4.5 * np.array([0.6, 0.8])

    def rows(self, n=400):
        """Training rows, of which a twentieth lies in the far well, with all other features at random."""
        rng = np.random.default_rng(1)
        rows = rng.normal(size=(n, self.d))
        rows[: n // 20, :2] = self.centre + 0.2 * rng.normal(size=(n // 20, 2))
        return rows

    def sampled(self, sampler, seed=0):
        posterior = posterior_of(self.loss, np.zeros(self.d), as_loss(5.0), 1.0, landmarks=self.rows())
        draws = sampled(sampler, posterior, seed)
        return draws, draws.pool.reached[:, 0].astype(float)

    @property
    def grid(self):
        axes = [midpoints(-6, 7, 1300), midpoints(-6, 7, 1300)]
        return Grid.of(axes, gaussian_log_prior(np.zeros(2), np.eye(2)), self.loss)


@dataclass
class Counting:
    """A model that counts its calls and rows."""

    answer: Callable  # not "predict": a model with that name would be asked past the count
    calls: int = 0
    rows: int = 0
    seen: list = field(default_factory=list)

    def __call__(self, x):
        self.calls, self.rows = self.calls + 1, self.rows + len(x)
        self.seen.append(x.copy())
        return self.answer(x)
