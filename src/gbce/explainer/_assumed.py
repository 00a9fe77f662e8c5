"""The prior when none is given: sparse on a table, the paper's Gaussian elsewhere; and the note on what was assumed."""

from dataclasses import dataclass
from typing import Any

from gbce.base import Prior
from gbce.priors import Gaussian, Sparse
from gbce.space import Assumptions, Space, has_labels

__all__ = ["AssumedPrior", "assume_prior"]

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
