"""Models of the same table that an explainer does not have, and its question under them."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from gbce.base import Array, Target
from gbce.budget import Budget
from gbce.ensembles import ModelPosterior, as_models
from gbce.posterior import GibbsPosterior, as_weights
from gbce.predictors import Predictor, Reference, as_predictor
from gbce.space import Space

if TYPE_CHECKING:
    from gbce.explainer import Explainer
    from gbce.explanation import Explanation

__all__ = ["KnownModels", "OtherModels", "posterior_under", "replace_models"]

_N_REMEMBERED = 2  # lists of models: enough for the ``models`` and ``unseen`` of one frontier


@dataclass(frozen=True)
class OtherModels:
    """Models of the same table that an explainer does not have.

    Parameters
    ----------
    models : tuple of K models
        As they were given.
    predictors : tuple of Predictor
        The same, wrapped.
    weights : array of shape (K,)
        They sum to one.
    reference : Reference
        Rows on which classifiers are tried once.
    """

    models: tuple[Any, ...]
    predictors: tuple[Predictor, ...]
    weights: Array
    reference: Reference

    @classmethod
    def of(cls, models: Any, space: Space, data: Array, what: str = "models") -> "OtherModels":
        """Wrap one model, a list of them or a posterior over models; ``data`` ``(n, d)`` is encoded.

        ``what`` they are called goes into sentences about bad ones.
        """
        listed = as_models(models, what)
        predictors = tuple(as_predictor(model, space) for model in listed)
        return cls(listed, predictors, _weights_of(models, len(listed)), Reference.of(data, space))

    def match(self, models: Any) -> "OtherModels | None":
        """Return these with the weights that ``models`` have now, if they are the very same ones."""
        listed = as_models(models, "models")
        if len(listed) != len(self.models) or any(a is not b for a, b in zip(listed, self.models, strict=True)):
            return None
        return replace(self, weights=_weights_of(models, len(listed)))

    def prepare(self, target: Target, budget: Budget) -> tuple[Predictor, ...]:
        """Return the predictors, for a target that asks for a class as classifiers."""
        if target.reads_classes:
            return self.reference.as_classifiers(self.predictors, budget)
        return tuple(predictor.with_fresh_meter() for predictor in self.predictors)


def _weights_of(models: Any, n: int) -> Array:
    return models.weights if isinstance(models, ModelPosterior) else as_weights(None, n)


@dataclass
class KnownModels:
    """The other models that an explainer was asked about last, as preparing classifiers takes longer than asking.

    Parameters
    ----------
    space : Space
        Of the table.
    data : array of shape (n, d)
        Rows on which classifiers are tried.
    """

    space: Space
    data: Array
    recent: list[OtherModels] = field(default_factory=list)

    def wrap(self, models: Any) -> OtherModels:
        """Wrap models, or remember that it was done before."""
        for others in self.recent:
            known = others.match(models)
            if known is not None:
                return known
        self.recent[:] = [*self.recent[-(_N_REMEMBERED - 1) :], OtherModels.of(models, self.space, self.data)]
        return self.recent[-1]


def posterior_under(
    explainer: "Explainer",
    explanation: "Explanation",
    models: Any,
    budget: Budget,
    weights: Sequence[float] | None = None,
) -> GibbsPosterior:
    """Return the question of an explanation under other models, or under the explainer's own if there are none."""
    posterior = explainer.posterior_of(explanation, budget)
    if models is None:
        own = posterior.mixture.weights if weights is None else as_weights(weights, len(posterior.predictors))
        return replace_models(posterior, posterior.predictors, own)
    others = explainer.other_models.wrap(models)
    chosen = others.weights if weights is None else as_weights(weights, len(others.predictors))
    return replace_models(posterior, others.prepare(explanation.target, budget), chosen)


def replace_models(posterior: GibbsPosterior, predictors: Sequence[Predictor], weights: Array) -> GibbsPosterior:
    """Return the same posterior with other models in it."""
    mixture = replace(posterior.mixture, weights=weights)
    return replace(posterior, predictors=tuple(predictors), mixture=mixture, readers=())
