"""Before a target is said to be out of reach of a search: whether it can be proved to be."""

import numpy as np

from gbce.base import Array, Query
from gbce.draws import Points
from gbce.posterior import GibbsPosterior
from gbce.predictors import Inside
from gbce.search import Proof, prove_unattainable
from gbce.trees import CellReader

__all__ = ["Prover"]

_CHECKED = 256  # known points that what was read of a model must agree with, the lowest and others; by hand
_BOXES_IN_TIME = 100  # into which rows are parted under a deadline: that takes a tenth of a second


class Prover:
    """Looks into an explainer's first model when there is something to prove, and not before.

    Parameters
    ----------
    reader : CellReader
        Of that model.
    """

    def __init__(self, reader: CellReader) -> None:
        self._reader = reader

    @property
    def inside(self) -> Inside | None:
        """What the model is made of, looked up once."""
        return self._reader.inside

    def prove(self, query: Query, posterior: GibbsPosterior, known: Points) -> Proof | None:
        """Return a proof that no row can reach the target, if none is known to and there is one."""
        decides = query.target.reads_classes and posterior.predictors[0].decide_always  # by a threshold of its own
        if query.row.reached[0, 0] or known.reached[:, 0].any() or decides or self.inside is None:
            return None
        seen = known.take(_some_of(known))
        x, outputs = np.vstack([query.row.x, seen.x]), np.append(query.row.outputs[:, 0], seen.outputs[:, 0])
        limit = {} if posterior.budget.deadline is None else {"most_boxes": _BOXES_IN_TIME}
        return prove_unattainable(self.inside, query.space, query.x0, query.target, x, outputs, **limit)


def _some_of(known: Points) -> Array:
    """Return positions of some points: those of the lowest loss, and others evenly spread."""
    lowest = np.argsort(known.loss[:, 0], kind="stable")[: _CHECKED // 2]
    spread = np.linspace(0, len(known) - 1, min(len(known), _CHECKED // 2)).astype(int)
    return np.union1d(lowest, spread)
