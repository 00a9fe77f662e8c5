"""The one decision that is handed over: what to change, why this, and how sure that is."""

from dataclasses import dataclass
from enum import StrEnum
from math import floor, sqrt
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from gbce._numerics import NORMAL_975, first_of_least, wilson
from gbce._validation import printable
from gbce.base import Array, Query
from gbce.decisions import Decision
from gbce.draws import Draws, Points
from gbce.explanation._tables import point_table
from gbce.explanation._words import SafeBox, changed_columns, say_changes
from gbce.metrics import costs
from gbce.space import effort_cost, plain_value

__all__ = ["Answer", "AnswerKind", "Mean", "Share", "cheapest_known"]

_LABEL = "answer"
_ROUNDING = 1e-9  # a share of 0.93 is 93 of 100, whatever its last bit
_OFTEN = 0.5  # below it, if nothing else was promised, "only" belongs before a number of cases
_LEAST_DIGIT = 0.001  # of a share that is written with three of them
_MOST_SAID = 8  # changes that a sentence lists; more are counted


class AnswerKind(StrEnum):
    """What an answer is, from the best to the least."""

    NOTHING = "nothing to change"
    RELIABLE = "reliable"
    REACHES = "reaches"
    BEST_SEEN = "best seen"

    def __repr__(self) -> str:
        return repr(self.value)


class Share(NamedTuple):
    """How often something held.

    Parameters
    ----------
    share : float
        Of the trials; or the probability itself, where it is exact.
    low, high : float
        Its 95% interval (Wilson, 1927). Of an exact one the numbers between which it certainly lies, less than 2e-6
        apart.
    n : int
        How many trials there were; 0 where it is exact.
    exact : bool
        Whether it was computed, without trials.
    """

    share: float
    low: float
    high: float
    n: int
    exact: bool = False

    @classmethod
    def of(cls, share: float, n: int) -> "Share":
        """Return a share of ``n`` trials with its interval.

        Examples
        --------
        >>> round(Share.of(0.93, 1000).low, 3)
        0.912
        """
        share = min(float(share), 1.0)  # a sum of weights may exceed one by rounding
        low, high = wilson(np.array(share), n)
        return cls(share, float(low), float(high), int(n))

    @property
    def digits(self) -> str:
        """The share with three digits; what is nearly all or nearly nothing is not said to be it.

        Examples
        --------
        >>> [Share(share, share, share, 0, exact=True).digits for share in (0.9324, 0.9997, 1.0)]
        ['0.932', 'above 0.999', '1.000']
        """
        if 0 < self.share < _LEAST_DIGIT:
            return f"below {_LEAST_DIGIT}"
        return f"above {1 - _LEAST_DIGIT}" if 1 - _LEAST_DIGIT < self.share < 1 else f"{self.share:.3f}"


class Mean(NamedTuple):
    """What an output is on average.

    Parameters
    ----------
    mean : float
        Over the trials; or the expected output itself, where it is exact.
    low, high : float
        Its 95% interval. Of an exact one the numbers between which it certainly lies, apart by rounding only.
    n : int
        How many trials there were; 0 where it is exact.
    exact : bool
        Whether it was computed, without trials.
    """

    mean: float
    low: float
    high: float
    n: int
    exact: bool = False

    @classmethod
    def of(cls, outputs: Array) -> "Mean":
        """Return the mean of outputs ``(n,)`` of trials with its interval.

        Examples
        --------
        >>> [round(number, 3) for number in Mean.of(np.array([1.0, 2.0, 3.0, 2.0]))[:3]]
        [2.0, 1.2, 2.8]
        """
        unit, n = max(float(np.abs(outputs).max()), 1.0), len(outputs)  # sums of huge numbers are none
        mean = unit * float((outputs / unit).mean())
        half = NORMAL_975 * unit * float((outputs / unit).std(ddof=1)) / sqrt(n)
        return cls(mean, mean - half, mean + half, n)


@dataclass(frozen=True, eq=False)
class Answer:
    """What gbce would hand over for a row: one point, why it and not another, and what it rests on.

    Made by :meth:`gbce.Explainer.explain` with the explainer's policy; ``print(explanation.answer)`` says it.

    Parameters
    ----------
    query : Query
        What was asked.
    decision : Decision
        The point, as the models judge it: ``.x (d,)``, ``.outputs (K,)``, ``.reached (K,)`` and the usual figures.
    policy : str
        Label of the rule that chose it.
    reason : str
        Why it was chosen, as part of a sentence.
    cost : float
        The sum of its changes in units of each feature's scale.
    promised : float, optional
        The probability of holding that the policy was to keep, if it has one.
    reliability : Share, optional
        How often the first model still decides so under execution noise that had no part in the choice; ``None`` where
        the budget did not allow to ask. It is exact where the model is a tree ensemble that can be read, noise is
        Gaussian and gets to few of its cells, and no rule binds what it moves; else simulated. ``.exact`` says which.
    survival : Share, optional
        The same over refitted models, if the explainer was given some: those that had no part in the choice, unless
        they are too few.
    proof : str
        The sentence of a proof, where there is one: that the target cannot be reached, or, where one of the rules is
        ``Nearest(prove=True)``, what any point that reaches it costs at least.
    safe : SafeBox, optional
        Ranges of the changed columns within which the first model certainly reaches the target, where it is a tree
        ensemble that can be read and there is more than a point.
    expected : Mean, optional
        The first model's output on average under the same noise, exact or simulated.
    doubt : str
        A sentence on why the answer is not called reliable whatever its shares, such as that refitted models are too
        few to confirm it. Empty if there is no doubt.

    Examples
    --------
    >>> import gbce
    >>> data = pd.DataFrame(np.random.default_rng(0).normal(50, 10, size=(200, 2)).round(1), columns=["income", "debt"])
    >>> explainer = gbce.Explainer(lambda x: x["income"] - x["debt"], data)
    >>> explanation = explainer.explain({"income": 40.0, "debt": 60.0}, gbce.AtLeast(0), seed=0)
    >>> explanation.answer.reached, explanation.answer.kind
    (True, 'reliable')
    """

    query: Query
    decision: Decision
    policy: str
    reason: str
    cost: float
    promised: float | None = None
    reliability: Share | None = None
    survival: Share | None = None
    proof: str = ""
    safe: SafeBox | None = None
    expected: Mean | None = None
    doubt: str = ""

    @property
    def reached(self) -> bool:
        """Whether the first model itself decides as wanted."""
        return bool(self.decision.reached[0])

    @property
    def kind(self) -> AnswerKind:
        """What the answer is, in a word or two."""
        if not self.reached:
            return AnswerKind.BEST_SEEN
        if self.n_changes == 0:
            return AnswerKind.NOTHING
        measured = [share for share in (self.reliability, self.survival) if share is not None]
        kept = self.promised is not None and self.reliability is not None and not self.doubt
        if kept and all(one.share >= (self.promised or 0.0) for one in measured):
            return AnswerKind.RELIABLE
        return AnswerKind.REACHES

    @property
    def n_changes(self) -> int:
        """How many columns have to be changed; computed ones follow by themselves."""
        return len(changed_columns(self.query.space, self.query.x0, self.decision.x))

    @property
    def row(self) -> pd.DataFrame:
        """The whole row after the change, one line in the user's columns and dtypes."""
        return point_table(self.query.space, self.decision.x[None, :], [_LABEL])

    @property
    def changes(self) -> pd.DataFrame:
        """Only what changes: by feature its value ``now`` and ``then``, as the table has them."""
        space, x0, x = self.query.space, self.query.x0, self.decision.x
        where = np.flatnonzero(space.changed(x[None, :], x0)[0])
        shown = space.readable(np.vstack([x0, x])).iloc[:, where].T
        shown.columns = pd.Index(["now", "then"])
        return shown.rename_axis("feature")

    @property
    def changes_in_words(self) -> str:
        """What has to be done, such as ``"lower debt from 60 to 40"``; empty if nothing has."""
        return say_changes(self.query.space, self.query.x0, self.decision.x)

    @property
    def sentence(self) -> str:
        """The answer in words: what to change, what the model then says, and how often that holds."""
        said = f"{self._model} then {self._said}"
        if self.n_changes == 0:
            said = f"{self._model} already {self._said}" if self.reached else f"{self._model} {self._said}"
        first = _capitalise(self.changes_in_words or ("nothing has to change" if self.reached else "change nothing"))
        if self.n_changes > _MOST_SAID:
            first = f"Change {self.n_changes} columns (answer.changes lists them)"
        if not self.reached:
            wish = printable(self.query.target.describe())
            none = self.proof or f"No point was found that reaches the target ({wish})."
            return f"{none} Best seen: {_lower(first)}: {said}."
        return " ".join([f"{first}: {said}.", *self._held(), *([self.proof] if self.proof else [])])

    def _held(self) -> list[str]:
        """Sentences on how often it holds."""
        held = [] if self.safe is None else [self.safe.sentence]
        if self.reliability is not None:
            count = _of_hundred(self.reliability, self.promised)
            exactly = f" (exact: {self.reliability.digits})" if self.reliability.exact else ""
            wanted = self._say_wanted(self.reliability)
            held.append(f"Under small errors of execution this holds in {count} of 100 cases{exactly}{wanted}.")
        if self.survival is not None:
            models = f"{self.survival.n} refitted model{'s' * (self.survival.n > 1)}"
            models += "" if self.doubt or self.promised is None else " that had no part in the choice"
            count, wanted = _of_hundred(self.survival, self.promised), self._say_wanted(self.survival)
            held.append(f"Of {models}, under such errors, {count}% agree{wanted}.")
        return [*held, self.doubt] if self.doubt else held

    def _say_wanted(self, held: Share) -> str:
        """Return what was promised, in brackets, where that is not what was found."""
        if self.promised is None or held.share >= self.promised:
            return ""
        return f" (wanted: {100 * self.promised:g})"

    @property
    def _model(self) -> str:
        return "the model" if len(self.query.models) == 1 else printable(self.query.models[0])

    @property
    def _said(self) -> str:
        return printable(self.query.target.say(float(self.decision.outputs[0]), self.reached))

    @property
    def because(self) -> str:
        """Why this point and not another, as a sentence."""
        named = "" if self.policy in self.reason else f" ({self.policy})"
        return _capitalise(f"{self.reason}{named}.")

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as plain data, ready for JSON.

        Keys: ``sentence``, ``kind``, ``reached``, ``changes`` (by feature its values ``now`` and ``then``), ``row``
        (the whole row after the change, by column), ``n_changes``, ``cost``, ``output``, ``policy``, ``reason``,
        ``promised``, ``doubt``, ``proof``, ``safe`` (by column its ends ``low`` and ``high``), ``reliability`` and
        ``survival`` with ``share``, ``low``, ``high``, ``n`` and ``exact``, and ``expected`` with ``mean`` and so on.
        """
        return {
            "sentence": self.sentence,
            "kind": str(self.kind),
            "reached": self.reached,
            "changes": {
                str(name): {str(when): plain_value(value) for when, value in line.items()}
                for name, line in self.changes.iterrows()
            },
            "row": {str(name): plain_value(value) for name, value in self.row.iloc[0].items()},
            "n_changes": self.n_changes,
            "cost": self.cost,
            "output": float(self.decision.outputs[0]),
            "policy": self.policy,
            "reason": self.reason,
            "promised": self.promised,
            "doubt": self.doubt,
            "proof": self.proof,
            "safe": None if self.safe is None else self.safe.to_dict(),
            "reliability": None if self.reliability is None else self.reliability._asdict(),
            "survival": None if self.survival is None else self.survival._asdict(),
            "expected": None if self.expected is None else self.expected._asdict(),
        }

    def __str__(self) -> str:
        return self.sentence

    def __repr__(self) -> str:
        return f"<Answer ({self.kind}): {self.sentence}>"


def cheapest_known(query: Query, draws: Draws) -> tuple[Points, str]:
    """Return the cheapest evaluated point that reaches the target, or the best seen, as one point, and which it is."""
    known = draws.known.take(np.isfinite(draws.known.log_correction))
    misses = (~known.reached[:, 0]).astype(float)
    cost = costs(query.space, known.x, query.x0, "l1") + effort_cost(query.space, query.effort, known.x, query.x0)
    best = np.array([first_of_least(misses, np.where(misses > 0, known.loss[:, 0], 0.0), cost)])
    return known.take(best), "the best seen" if misses.all() else "the cheapest evaluated point that reaches the target"


def _of_hundred(held: Share, promised: float | None) -> str:
    """Return a share in whole hundredths, rounded down: 99.7 of 100 are not all of them; "only" if it is too few."""
    few = held.share < (_OFTEN if promised is None else promised)
    return f"{'only ' if few else ''}{floor(100 * held.share + _ROUNDING)}"


def _capitalise(text: str) -> str:
    return text[:1].upper() + text[1:]


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
