"""The answer for one row: the recommended point, the reason for choosing it, and how reliable it is.

``Share`` and ``Mean`` are estimates with a 95% interval, from trials or computed exactly; ``Answer`` puts them into a
sentence.
"""

from dataclasses import dataclass
from enum import StrEnum
from math import floor, sqrt
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from gbce._numerics import NORMAL_975, WIDE_ROUNDING, first_of_least, wilson
from gbce._validation import printable
from gbce.base import Array, Query
from gbce.decisions import Decision
from gbce.draws import Draws, Points
from gbce.explanation._tables import point_table
from gbce.explanation._words import SafeBox, changed_columns, describe_changes, join_words, name_change, name_model
from gbce.metrics import costs, noise_distribution
from gbce.space import effort_cost, plain_value

_LABEL = "answer"
_OFTEN = 0.5  # shares below this are preceded by "only" unless the policy promised another one
_LEAST_DIGIT = 0.001  # the last of the three decimals of a share
_SHORT = 200  # characters of a sentence in a repr
_MOST_LISTED = 8  # changes that a sentence lists; more are only counted


class AnswerKind(StrEnum):
    """Kind of an answer, best first."""

    NOTHING = "nothing to change"
    RELIABLE = "reliable"
    REACHES = "reaches"
    BEST_SEEN = "best seen"

    def __repr__(self) -> str:
        return repr(self.value)


class Share(NamedTuple):
    """A proportion with its 95% interval.

    Parameters
    ----------
    share : float
        Proportion of the trials, or the probability itself if it is exact.
    low, high : float
        95% interval (Wilson, 1927). For an exact share, guaranteed bounds less than 2e-6 apart.
    n : int
        Number of trials; 0 if it is exact.
    exact : bool
        Whether it was computed rather than simulated.
    """

    share: float
    low: float
    high: float
    n: int
    exact: bool = False

    @classmethod
    def of(cls, share: float, n: int) -> "Share":
        """Return the share of ``n`` trials with its interval.

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
        """The share with three decimals, never rounded to 0 or 1, and down if it is exact, as :attr:`in_hundred`.

        Examples
        --------
        >>> [Share(share, share, share, 0, exact=True).digits for share in (0.9326, 0.9997, 1.0)]
        ['0.932', 'above 0.999', '1.000']
        """
        if 0 < self.share < _LEAST_DIGIT:
            return f"below {_LEAST_DIGIT}"
        if 1 - _LEAST_DIGIT < self.share < 1:
            return f"above {1 - _LEAST_DIGIT}"
        return f"{floor(1000 * self.share + WIDE_ROUNDING) / 1000 if self.exact else self.share:.3f}"

    @property
    def in_hundred(self) -> str:
        """The share as a count in 100, rounded down; with one decimal, never rounded to 0 or 100, if it is exact.

        Trials never show that something always works: of them, 100 is "more than 99".

        Examples
        --------
        >>> [Share(0.9996, 0.9, 1.0, n, exact=n == 0).in_hundred for n in (1000, 0)]
        ['99', 'more than 99.9']
        >>> Share.of(1.0, 1000).in_hundred
        'more than 99'
        """
        if not self.exact:
            count = floor(100 * self.share + WIDE_ROUNDING)
            return "more than 99" if count >= 100 else f"{count}"
        if 0 < self.share < _LEAST_DIGIT:
            return f"fewer than {100 * _LEAST_DIGIT:g}"
        if 1 - _LEAST_DIGIT < self.share < 1:
            return f"more than {100 * (1 - _LEAST_DIGIT):g}"
        return f"{floor(1000 * self.share + WIDE_ROUNDING) / 10:g}"


class Mean(NamedTuple):
    """An expected output with its 95% interval.

    Parameters
    ----------
    mean : float
        Mean over the trials, or the expectation itself if it is exact.
    low, high : float
        95% interval. For an exact mean, guaranteed bounds that differ by rounding only.
    n : int
        Number of trials; 0 if it is exact.
    exact : bool
        Whether it was computed rather than simulated.
    """

    mean: float
    low: float
    high: float
    n: int
    exact: bool = False

    @classmethod
    def of(cls, outputs: Array) -> "Mean":
        """Return the mean of simulated outputs ``(n,)`` with its interval.

        Examples
        --------
        >>> [round(number, 3) for number in Mean.of(np.array([1.0, 2.0, 3.0, 2.0]))[:3]]
        [2.0, 1.2, 2.8]
        """
        unit, n = max(float(np.abs(outputs).max()), 1.0), len(outputs)  # sums of huge numbers overflow
        mean = unit * float((outputs / unit).mean())
        half = NORMAL_975 * unit * float((outputs / unit).std(ddof=1)) / sqrt(n)
        return cls(mean, mean - half, mean + half, n)


@dataclass(frozen=True, eq=False)
class Answer:
    """The recommendation for a row: one point, why it was chosen, and how reliable it is.

    Made by :meth:`gbce.Explainer.explain` with the explainer's policy; ``print(explanation.answer)`` prints it as a
    sentence.

    Parameters
    ----------
    query : Query
        The question.
    decision : Decision
        The point, evaluated by the models: ``.x (d,)``, ``.outputs (K,)``, ``.reached (K,)`` and the usual figures.
    policy : str
        Label of the rule that chose it.
    reason : str
        Why it was chosen, as part of a sentence.
    cost : float
        Sum of its changes in units of each feature's scale.
    promised : float, optional
        Probability of success that the policy guarantees, if it has one.
    reliability : Share, optional
        Probability that the first model still reaches the target under execution noise independent of the noise used
        for the choice; ``None`` if the budget did not allow it. It is exact if the model is a tree ensemble that can be
        read, the noise is Gaussian and touches few of its cells, and no constraint binds the columns it moves;
        otherwise simulated. ``.exact`` tells which.
    survival : Share, optional
        The same over refitted models, if the explainer was given some: over those held out from the choice, unless
        they are too few.
    proof : str
        Sentence of a proof, if there is one: that the target cannot be reached, or, with ``Nearest(prove=True)`` among
        the rules, a lower bound on the cost of any point that reaches it.
    safe : SafeBox, optional
        Ranges of the changed columns within which the first model is guaranteed to reach the target, if it is a tree
        ensemble that can be read and the ranges are more than a point.
    expected : Mean, optional
        Expected output of the first model under the same noise, exact or simulated.
    against : tuple of str
        Changed columns that move against their average effect on the first model over rows of the data: advice against
        the grain.
    doubt : str
        Why the answer is not called reliable whatever its shares, such as too few refitted models to confirm it. Empty
        if there is no such reason.

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
    against: tuple[str, ...] = ()

    @property
    def reached(self) -> bool:
        """Whether the first model reaches the target at this point."""
        return bool(self.decision.reached[0])

    @property
    def kind(self) -> AnswerKind:
        """Kind of the answer, in a word or two."""
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
        """Number of columns to change, not counting computed ones."""
        return len(changed_columns(self.query.space, self.query.x0, self.decision.x))

    @property
    def row(self) -> pd.DataFrame:
        """The whole row after the change, one line in the user's columns and dtypes."""
        return point_table(self.query.space, self.decision.x[None, :], [_LABEL])

    @property
    def changes(self) -> pd.DataFrame:
        """The changed features only: their values ``now`` and ``then``, as in the table."""
        space, x0, x = self.query.space, self.query.x0, self.decision.x
        where = np.flatnonzero(space.changed(x[None, :], x0)[0])
        shown = space.readable(np.vstack([x0, x])).iloc[:, where].T
        shown.columns = pd.Index(["now", "then"])
        return shown.rename_axis("feature")

    @property
    def changes_in_words(self) -> str:
        """The changes in words, such as ``"lower debt from 60 to 40"``; empty if there are none."""
        return describe_changes(self.query.space, self.query.x0, self.decision.x, exact=self.reached)

    @property
    def sentence(self) -> str:
        """The answer in words: what to change, the model's decision then, and how reliable that is."""
        model = name_model(self.query.models)
        verdict = printable(self.query.target.say(float(self.decision.outputs[0]), self.reached))
        adverb = " then" if self.n_changes else " already" if self.reached else ""
        first = _capitalise(self.changes_in_words or ("nothing has to change" if self.reached else "change nothing"))
        if self.n_changes > _MOST_LISTED:
            first = f"Change {self.n_changes} columns (answer.changes lists them)"
        if not self.reached:
            target = printable(self.query.target.describe())
            none = self.proof or f"No point was found that reaches the target ({target})."
            return f"{none} Best seen: {first[:1].lower()}{first[1:]}: {model}{adverb} {verdict}."
        parts = [f"{first}: {model}{adverb} {verdict}.", *self._describe_reliability(), self.proof, self._warn()]
        return " ".join(filter(None, parts))

    def _warn(self) -> str:
        """Return a sentence on changes against the grain, empty if there are none."""
        space = self.query.space
        places = [space.position[name] for name in self.against]
        if not places:
            return ""
        moves = join_words([name_change(space, j, self.query.x0[j], self.decision.x[j]) for j in places])
        return f"Note that in other cases {moves} usually has the opposite effect on the model."

    def _describe_reliability(self) -> list[str]:
        """Return sentences on the safe ranges, the reliability under noise and the agreement of refitted models."""
        found = [] if self.safe is None else [self.safe.describe(beside=self._changes_beside(self.safe))]
        if self.reliability is not None and self.n_changes:
            found.append(self._describe_noise(self.reliability))
        if self.survival is not None:
            found.append(self._describe_survival(self.survival))
        return [*found, self.doubt] if self.doubt else found

    def _changes_beside(self, safe: SafeBox) -> bool:
        """Whether the answer changes a column of which no range is stated."""
        space = self.query.space
        return not {space.names[j] for j in changed_columns(space, self.query.x0, self.decision.x)} <= {*safe.features}

    def _describe_noise(self, reliability: Share) -> str:
        """Return a sentence on how often the change works if it is made imprecisely, or why it cannot be."""
        space, x0 = self.query.space, self.query.x0
        imprecise = not space.unordered[changed_columns(space, x0, self.decision.x)].all()
        noise = noise_distribution(self.query.evaluation.noise, space, x0, self.decision.x)
        if not imprecise and noise is not None and not noise.columns:
            tested = "" if self.survival is not None else " Whether other models agree was not tested (refits=)."
            return f"No number changes, so there is nothing to miss by a little.{tested}"
        count, exact = _count_in_hundred(reliability, self.promised), reliability.exact
        who = "the values" if imprecise else "No number changes; if the other numbers"
        return (
            f"{'If ' * imprecise}{who} turn out slightly different, it still works {count} times out of 100"
            f"{' (computed, not simulated)' * exact}{self._state_promise(reliability)}."
        )

    def _describe_survival(self, survival: Share) -> str:
        """Return a sentence on the share of refitted models that agree."""
        models = f"refitted model{'s' * (survival.n > 1)}"
        models += "" if self.doubt or self.promised is None else " held out from the choice"
        if survival.share + WIDE_ROUNDING >= 1:
            return f"All {survival.n} {models} agree." if survival.n > 1 else f"The {models} agrees."
        count = _count_in_hundred(survival, self.promised)
        return f"Of {survival.n} {models}, {count}% agree under such errors{self._state_promise(survival)}."

    def _state_promise(self, share: Share) -> str:
        """Return the promised share in brackets if it was missed, else nothing."""
        if self.promised is None or share.share >= self.promised:
            return ""
        return f" (wanted: {100 * self.promised:g})"

    @property
    def because(self) -> str:
        """Why this point and not another, as a sentence."""
        named = "" if self.policy in self.reason else f" ({self.policy})"
        held, missed = self.reliability, ""
        if not self.reached:  # neither reliable nor what the rule is for
            return _capitalise(f"{self.reason}.")
        if held is not None and self.promised is not None and held.share < self.promised:
            missed = f"; fresh trials gave {held.digits}"
        return _capitalise(f"{self.reason}{missed}{named}.")

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as plain data, ready for JSON.

        Keys: ``sentence``, ``kind``, ``reached``, ``changes`` (``now`` and ``then`` by feature), ``row`` (the whole row
        after the change, by column), ``n_changes``, ``cost``, ``output``, ``policy``, ``reason``, ``promised``,
        ``doubt``, ``against``, ``proof``, ``safe`` (``low`` and ``high`` by column), ``reliability`` and
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
            "against": list(self.against),
            "proof": self.proof,
            "safe": None if self.safe is None else self.safe.to_dict(),
            "reliability": None if self.reliability is None else self.reliability._asdict(),
            "survival": None if self.survival is None else self.survival._asdict(),
            "expected": None if self.expected is None else self.expected._asdict(),
        }

    def __str__(self) -> str:
        return self.sentence

    def __repr__(self) -> str:
        words = self.sentence if len(self.sentence) <= _SHORT else f"{self.sentence[: _SHORT - 3].rstrip()}..."
        return f"<Answer ({self.kind}): {words}>"


def cheapest_known(query: Query, draws: Draws) -> tuple[Points, str]:
    """Return the cheapest evaluated point that reaches the target, else the one of least loss, and its description."""
    known = draws.known.take(np.isfinite(draws.known.log_correction))
    misses = (~known.reached[:, 0]).astype(float)
    cost = costs(query.space, known.x, query.x0, "l1") + effort_cost(query.space, query.effort, known.x, query.x0)
    best = np.array([first_of_least(misses, np.where(misses > 0, known.loss[:, 0], 0.0), cost)])
    return known.take(best), "the best seen" if misses.all() else "the cheapest evaluated point that reaches the target"


def _count_in_hundred(share: Share, promised: float | None) -> str:
    """Return a share as a count in 100, after "only" if it is small, or smaller than promised."""
    few = share.share < (_OFTEN if promised is None else promised) and share.in_hundred[0].isdigit()
    return f"{'only ' * few}{share.in_hundred}"


def _capitalise(text: str) -> str:
    return text[:1].upper() + text[1:]
