"""What it is to reach a target with a margin, and how much is missing where it is not reached."""

from dataclasses import dataclass

import numpy as np

from gbce.base import Array, Rule, Target
from gbce.posterior import Evaluated
from gbce.search import Judged

__all__ = ["Reaching"]

# Probabilities are compared by their log-odds, in which many classifiers add up what features say; a forest's zero is
# taken as one vote in a thousand. By hand: it orders points of a search, nothing else.
_LEAST_ODDS = 1e-3


@dataclass(frozen=True)
class Reaching:
    """Whether the first model reaches a target, by ``margin`` more than it has to.

    Parameters
    ----------
    target : Target
        With its numbers filled in.
    margin : float
        In units of the output, see :class:`gbce.Nearest`.
    """

    target: Target
    margin: float = 0.0

    def require(self, rule: Rule) -> None:
        """Refuse a margin that the target has no room for, or does not know."""
        if self.margin == 0:
            return
        name = type(self.target).__name__
        try:
            low, high = self.target.accepted()
        except TypeError:
            raise ValueError(
                f"{rule.label}: margin is a distance of one output from what is accepted, which {name} does not say; "
                "leave margin at 0, and ask for more in the target itself"
            ) from None
        room = min(high, 1.0) if self.target.reads_classes else high
        if low + self.margin > room or (np.isfinite(high) and low + self.margin > high - self.margin):
            raise ValueError(
                f"{rule.label}: no output is that far inside the target ({self.target.describe()}), which accepts "
                f"{low:g} to {room:g}; ask for a smaller margin"
            )

    def judge(self, said: Evaluated) -> Judged:
        """Return what is missing at evaluated points, and whether they reach, by the first model."""
        output, loss, reached = said.outputs[:, 0], said.loss[:, 0], said.reached[:, 0].astype(bool)
        accepted = self._accepted()
        if accepted is None:
            return Judged(loss, reached)
        low, high = accepted
        if self.margin > 0:
            reached = reached & (output >= low) & (output <= high)
        gap = np.maximum(self._place(low) - self._place(output), self._place(output) - self._place(high))
        return Judged(gap, reached)

    def _accepted(self) -> tuple[float, float] | None:
        """Return the lowest and the highest output that are far enough inside; none if the output does not tell."""
        try:
            low, high = self.target.accepted()
        except TypeError:
            return None
        return low + self.margin, high - self.margin

    def _place(self, output: float | Array) -> Array:
        """Return outputs on the scale on which they are compared."""
        if not self.target.reads_classes:
            return np.asarray(output, dtype=float)
        p = np.clip(output, _LEAST_ODDS, 1.0 - _LEAST_ODDS)
        return np.asarray(np.where(np.isinf(output), output, np.log(p / (1.0 - p))))
