"""Hand-made scenes for decision rules: draws whose best answer is known without sampling."""

import numpy as np

import gbce
from gbce.base import Query
from gbce.draws import Draws, Points, Scene
from gbce.posterior import GibbsPosterior, Mixture
from gbce.predictors import as_predictor


def scene_of(x, *, loss=None, index=None, x0=None, model=None, target=None, eta=1.0, seed=0, noise=0.1, space=None):
    """A scene whose pool is ``x``; the draws are ``index`` (all of the pool by default), of equal weight."""
    x = np.asarray(x, dtype=float)
    n, d = x.shape
    x0 = np.zeros(d) if x0 is None else np.asarray(x0, dtype=float)
    space = gbce.Space.real(d) if space is None else space
    prior = gbce.Gaussian().at(space, x0)
    mixture = Mixture(eta, np.ones(1))
    target = gbce.Value(0.0, scale=1, tolerance=0.5) if target is None else target
    posterior = None
    loss = np.zeros(n) if loss is None else np.asarray(loss, dtype=float)
    row_loss = np.array([[1e9]])
    if model is not None:
        posterior = GibbsPosterior(prior, (as_predictor(model, space),), target, mixture)
        loss = posterior.evaluate(x).loss[:, 0]
        row_loss = posterior.evaluate(x0[None, :]).loss
    pool = points(x, loss[:, None], prior)
    index = np.arange(n) if index is None else np.asarray(index)
    equal = np.full(len(index), 1.0 / len(index))
    share = np.bincount(index, minlength=n) / len(index)
    draws = Draws(pool, share, index, equal, True, np.ones(d), 0.0, 0.0, (eta,), np.zeros(n))
    low, high = space.limits(x0)
    row, evaluation = points(x0[None, :], row_loss, prior), gbce.Evaluation(noise=noise)
    query = Query(space, target, ("model",), mixture, evaluation, (), seed, row, np.flatnonzero(high > low))
    return Scene(query, draws, np.random.default_rng(seed), posterior)


def points(x, loss, prior):
    n = len(x)
    return Points(np.zeros((n, prior.dimension)), x, np.sqrt(loss), loss, loss <= 0.25, prior.cost(x), np.zeros(n))
