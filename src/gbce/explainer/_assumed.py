"""What is assumed of a table: its prior when none is given, with a note, and the order of its features."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from gbce.base import Prior
from gbce.predictors import Classifier, fitted_columns
from gbce.priors import Gaussian, Sparse
from gbce.space import Assumptions, Space, has_labels

__all__ = ["AssumedPrior", "assume_prior", "order_by_model"]

_MOVES = 3.0  # columns that change under the prior, however many there are: what a person can act on at once; by hand
_SENTENCE = "About three columns change under the prior, each with probability 1/2 at most (prior= changes that)."


@dataclass(frozen=True)
class AssumedPrior:
    """A prior, and what to say if nobody asked for it.

    Parameters
    ----------
    prior : Prior
        As given, or as assumed.
    sentence : str
        Nothing where it was given, or is the paper's.
    """

    prior: Prior
    sentence: str = ""

    def note(self, space: Space) -> str:
        """Return one note on all that was assumed, of the prior and of the table; nothing if nothing was."""
        of_the_table = Assumptions() if space.assumed is None else space.assumed
        return of_the_table.note(*([self.sentence] if self.sentence else []))


def assume_prior(space: Space, data: Any) -> AssumedPrior:
    """Return the prior for data when none is given.

    A frame has columns that mean something by themselves, and a person changes few of them. An array, or real features
    that are free to move anywhere (:meth:`gbce.Space.real`), is the setting of the paper.
    """
    if not has_labels(data) or (space.assumed is None and space.free_reals):
        return AssumedPrior(Gaussian())
    return AssumedPrior(Sparse(moves=_MOVES), _SENTENCE)


def order_by_model(space: Space, models: Sequence[Any], prior: Any) -> Space:
    """Return the space with its features in the order of the columns that the first model with names was fitted on.

    So it does not matter in which order the data have them. Where a prior counts features by their positions, these
    are the data's, and stay.
    """
    if _counts_by_position(prior):
        return space
    fitted = (fitted_columns(one.model if isinstance(one, Classifier) else one) for one in models)
    return space.ordered_by(next((names for names in fitted if names), []))


def _counts_by_position(option: Any) -> bool:
    """Whether an option may know features by their positions: a matrix, a function of rows, or who knows what."""
    if option is None or isinstance(option, (bool, str, int, float, np.generic)):
        return False
    if is_dataclass(option) and not isinstance(option, type) and not callable(option):
        return any(_counts_by_position(getattr(option, one.name)) for one in fields(option))
    return True
