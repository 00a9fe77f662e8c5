"""An explanation in plain sentences of several languages, which state nothing that the figures deny."""

import re
import tomllib
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from math import floor
from typing import Any, Literal, get_args

import numpy as np

from gbce._validation import printable, short
from gbce.base import Array, Target
from gbce.decisions import Nearest
from gbce.explanation import Alternatives, Explanation, SafeBox, Share, Status, changed_columns
from gbce.metrics import PRINTED_Z_95, Verdict
from gbce.space import Space
from gbce.targets import AtLeast, AtMost, Class, Range, Value, format_probability

_ROUNDING = 1e-9  # a share of 0.93 is 93 in 100, whatever its last bit
_LEAST = 0.001  # shares nearer to 0 or 1 than this are not written as a number


def languages() -> list[str]:
    """Return the languages there are, such as ``["en", "ja"]``."""
    return sorted(one.name.removesuffix(".toml") for one in files("gbce.words").iterdir() if one.name.endswith(".toml"))


@cache
def open_catalogue(language: str) -> "Catalogue":
    """Return the catalogue of a language."""
    if language not in languages():
        raise ValueError(f"there is no catalogue for the language {language!r}; there are {', '.join(languages())}")
    text = files("gbce.words").joinpath(f"{language}.toml").read_text(encoding="utf-8")
    return Catalogue(language, tomllib.loads(text))


@dataclass(frozen=True, eq=False)
class Catalogue:
    """Sentences of one language, with the words for values, probabilities and lists."""

    language: str
    entries: dict[str, dict[str, str]]

    def say(self, key: str, **words: Any) -> str:
        """Return the sentence ``"section.name"`` with its words filled in."""
        section, _, name = key.partition(".")
        return self.entries[section][name].format(**words)

    def join(self, parts: Sequence[str], what: str) -> str:
        """Join the changes or ranges of a sentence; ``what`` is "change" or "range"."""
        between, last = self.say(f"grammar.between_{what}s"), self.say(f"grammar.last_{what}")
        return last.join(filter(None, [between.join(parts[:-1]), *parts[-1:]]))

    def list_names(self, names: Sequence[str]) -> str:
        """Join names of columns."""
        return self.say("grammar.between_names").join(names)

    # --- values -------------------------------------------------------------------------------------------------------

    def label(self, label: Any) -> str:
        """Return a class label as a sentence shows it."""
        return self.say("grammar.level", level=label) if isinstance(label, str) else str(label)

    def value(self, space: Space, j: int, value: float, text: str) -> str:
        """Return a value, already written as ``text`` without its unit, with quotation marks or its unit."""
        if np.isnan(value):
            return self.say("grammar.missing")
        feature = space.features[j]
        if feature.leveled:
            level = (feature.levels or ())[round(value)]
            return self.say("grammar.level", level=text) if isinstance(level, str) else text
        unit = feature.unit if feature.kind in ("real", "integer") else ""
        if not unit:
            return text
        wide = unit.startswith("%") or unicodedata.east_asian_width(unit[0]) in "WF"
        return self.say("grammar.unit_wide" if wide else "grammar.unit", value=text, unit=unit)

    # --- probabilities ------------------------------------------------------------------------------------------------

    def likelihood(self, share: float) -> tuple[str, str]:
        """Return the word for a probability, and the kind of sentence it stands in."""
        words = {float(key.replace("_", ".")): word for key, word in self.entries["likelihood"].items()}
        least = max(one for one in words if share + _ROUNDING >= one)
        return words[least], "likely" if least >= 0.66 or least == 0.0 else "even" if least >= 0.33 else "unlikely"

    def count(self, share: Share) -> dict[str, str]:
        """Return a share as a ``count`` in 100, rounded down, never to 100 from trials, and ``how`` it was found."""
        if not share.exact:
            how = self.say("count.simulated", n=f"{share.n:,}")
            whole = floor(100 * share.share + _ROUNDING)
            return {"count": self.say("count.more", count="99") if whole >= 100 else f"{whole}", "how": how}
        count = f"{floor(1000 * share.share + _ROUNDING) / 10:g}"
        if 0 < share.share < _LEAST:
            count = self.say("count.fewer", count=f"{100 * _LEAST:g}")
        elif 1 - _LEAST < share.share < 1:
            count = self.say("count.more", count=f"{100 * (1 - _LEAST):g}")
        return {"count": count, "how": self.say("count.exact")}


Audience = Literal["person", "analyst"]
_ALTERNATIVES = 3  # ways that a text for analysts lists, as many as `alternatives` by default
_OWN_DECISION = 0.5  # the probability that stands for the model's own decision
_DIGITS = 4  # significant digits of outputs, costs and eta
_LIMIT_DIGITS = 7  # of a target's own numbers, enough to show what the user typed
_VERDICTS = {
    Verdict.TRUSTWORTHY: "trustworthy", Verdict.CARE: "care", Verdict.NOT_SAMPLED: "not_sampled",
    Verdict.NOT_FINISHED: "not_finished",
}  # fmt: skip


def to_text(explanation: Explanation, language: str = "en", *, audience: Audience = "person") -> str:
    """Return an explanation as plain sentences, see :meth:`gbce.Explanation.to_text`."""
    if audience not in get_args(Audience):
        raise ValueError(f"to_text: audience must be 'person' or 'analyst', not {audience!r}")
    catalogue = open_catalogue(language)
    reason = find_refusal(explanation)
    if reason:
        raise ValueError(f"to_text: {reason}")
    narrator = Narrator(Facts.of(explanation), catalogue)
    sentences = narrator.tell_answer()
    if audience == "person":
        return catalogue.say("grammar.between_sentences").join(sentences)
    first = catalogue.say("grammar.between_sentences").join([*sentences, *tell_figures(explanation, catalogue)])
    return "\n".join([first, *tell_alternatives(explanation, narrator, _ALTERNATIVES)])


def find_refusal(explanation: Explanation) -> str:
    """Return why nothing can be stated about an answer; empty if there is no reason."""
    answer = explanation.answer
    if answer is None:
        return "there is no answer to put into words: the explainer has no policy, or no rule was applied"
    if not answer.reached:
        note = explanation.status_note or "no point was found that reaches the target"
        return f"the answer does not reach the target. {note}"
    return ""


@dataclass(frozen=True, eq=False)
class Facts:
    """What sentences state about one row: the question, the row and its output, the answer and its reliability."""

    space: Space
    target: Target
    x0: Array
    now: float
    now_reached: bool
    x: Array
    output: float
    reached: bool
    reliability: Share | None = None
    survival: Share | None = None
    promised: float | None = None
    safe: SafeBox | None = None
    against: tuple[str, ...] = ()

    @classmethod
    def of(cls, explanation: Explanation) -> "Facts":
        """Return the facts of an explanation, which has an answer."""
        answer, row = explanation.answer, explanation.row
        if answer is None:
            raise ValueError(find_refusal(explanation))
        return cls(
            explanation.space, explanation.target, explanation.x0, float(row.outputs[0, 0]), bool(row.reached[0, 0]),
            answer.decision.x, float(answer.decision.outputs[0]), answer.reached, answer.reliability, answer.survival,
            answer.promised, answer.safe, answer.against,
        )  # fmt: skip

    @property
    def changed(self) -> list[int]:
        """Positions of the columns that the answer changes, computed ones excluded."""
        return [int(j) for j in changed_columns(self.space, self.x0, self.x)]


class Narrator:
    """Facts of one row as sentences of one language."""

    def __init__(self, facts: Facts, catalogue: Catalogue) -> None:
        self.facts, self.catalogue = facts, catalogue

    # --- the answer ---------------------------------------------------------------------------------------------------

    def tell_answer(self) -> list[str]:
        """Return sentences on the output now, the changes, the output then, and how reliable it is."""
        facts = self.facts
        if not facts.changed:
            return [self.say_output("already", facts.output)]
        sentences = [] if facts.now_reached else [self.say_output("now", facts.now)]
        sentences.append(self.say_then(facts.x, facts.output))
        return [*sentences, *self.tell_reliability()]

    def tell_reliability(self) -> list[str]:
        """Return sentences on safe ranges, on the reliability under noise and on refitted models."""
        return [*self._say_safe(), *self._say_reliability(), *self._say_survival(), *self._say_against()]

    def say_then(self, x: Array, output: float) -> str:
        """Return the sentence on a point ``(d,)`` that reaches the target, and the output there."""
        return self.say_output("then", output, changes=self.say_changes(x))

    def say_changes(self, x: Array) -> str:
        """Return the changes to a point ``(d,)`` as part of a sentence."""
        x0, space = self.facts.x0, self.facts.space
        return self.catalogue.join([self._say_change(int(j), x[j]) for j in changed_columns(space, x0, x)], "change")

    def _say_change(self, j: int, after: float) -> str:
        space, before = self.facts.space, float(self.facts.x0[j])
        texts = space.format_change(j, before, after, unit=False)
        now, then = (self.catalogue.value(space, j, *one) for one in zip((before, after), texts, strict=True))
        return self.catalogue.say("change.value", name=space.label(j), now=now, then=then)

    def say_output(self, when: str, output: float, **words: str) -> str:
        """Return the sentence of a section (now, already or then) for an output, beside what is wanted."""
        target, say = self.facts.target, self.catalogue.say
        if isinstance(target, Class):
            own = target.probability == _OWN_DECISION
            kind = "class" if own or when == "now" else "probability"
            words |= {"label": self.catalogue.label(_make_printable(target.label)), "p": format_probability(output)}
            return say(f"{when}.{kind}", wanted=self.say_wanted(), **words)
        if isinstance(target, (AtLeast, AtMost, Range, Value)):
            return say(f"{when}.number", y=self._format_output(output), wanted=self.say_wanted(), **words)
        return say(f"{when}.other", target=printable(target.describe()), **words)

    def say_wanted(self) -> str:
        """Return what is wanted of the output in a few words."""
        target, say = self.facts.target, self.catalogue.say
        if isinstance(target, Class):
            if target.probability == _OWN_DECISION:
                return self.catalogue.label(_make_printable(target.label))
            if isinstance(target.probability, tuple):
                low, high = target.probability
                return say("wanted.between", low=f"{low:g}", high=f"{high:g}")
            return say("wanted.at_least", low=f"{target.probability:g}")
        if isinstance(target, Value):
            return say("wanted.value", value=short(target.y, _LIMIT_DIGITS), tolerance=short(target.tolerance or 0.0))
        if isinstance(target, Range):
            return say("wanted.between", low=short(target.low, _LIMIT_DIGITS), high=short(target.high, _LIMIT_DIGITS))
        if isinstance(target, (AtLeast, AtMost)):
            end = short(target.y, _LIMIT_DIGITS)
            return say("wanted.at_least", low=end) if isinstance(target, AtLeast) else say("wanted.at_most", high=end)
        return printable(target.describe())

    def _format_output(self, output: float) -> str:
        """Format a prediction with enough digits that it lies on the same side of the wanted limits."""
        low, high = self.facts.target.accepted() or (-np.inf, np.inf)
        for digits in range(_DIGITS, 17):
            rounded = float(f"{output:.{digits}g}")
            if (low <= rounded <= high) == (low <= output <= high):
                return short(output, digits)
        return repr(output)

    # --- reliability --------------------------------------------------------------------------------------------------

    def _say_reliability(self) -> list[str]:
        share, say = self.facts.reliability, self.catalogue.say
        if share is None:
            return [say("reliable.unknown")]
        word, kind = self.catalogue.likelihood(share.share)
        sentences = [say(f"reliable.{kind}", word=word, **self.catalogue.count(share))]
        return [*sentences, *self._say_missed(share)]

    def _say_missed(self, share: Share) -> list[str]:
        promised = self.facts.promised
        if promised is None or share.share >= promised:
            return []
        return [self.catalogue.say("reliable.missed", promised=f"{100 * promised:g}")]

    def _say_survival(self) -> list[str]:
        share, say = self.facts.survival, self.catalogue.say
        if share is None:
            return []
        if share.share >= 1:
            return [say("refits.all", n=share.n) if share.n > 1 else say("refits.one")]
        return [say("refits.some", n=share.n, share=self.catalogue.count(share._replace(exact=False))["count"])]

    def _say_against(self) -> list[str]:
        """Return a sentence on changes against the average effect of their columns, if there are any."""
        labels = [self.facts.space.label(self.facts.space.position[name]) for name in self.facts.against]
        return [self.catalogue.say("answer.against", names=self.catalogue.list_names(labels))] if labels else []

    def _say_safe(self) -> list[str]:
        safe = self.facts.safe
        if safe is None:
            return []
        space, parts = self.facts.space, []
        for name, low, high in zip(safe.features, safe.low.tolist(), safe.high.tolist(), strict=True):
            j = space.position[name]
            texts = space.format_ends(j, low, high, inside=float(self.facts.x[j]))
            if not any(texts):
                continue
            kind = "between" if all(texts) else "at_least" if texts[0] else "at_most"
            ends = [self.catalogue.value(space, j, end, text) for end, text in zip((low, high), texts, strict=True)]
            parts.append(self.catalogue.say(f"safe.{kind}", name=space.label(j), low=ends[0], high=ends[1]))
        covered = {space.position[name] for name in safe.features}
        sentence = "safe.sentence" if covered.issuperset(self.facts.changed) else "safe.beside"
        return [self.catalogue.say(sentence, ranges=self.catalogue.join(parts, "range"))] if parts else []


# --- for analysts ----------------------------------------------------------------------------------------------------


def tell_figures(explanation: Explanation, catalogue: Catalogue) -> list[str]:
    """Return sentences on the cost, a proved bound, the posterior, conditions and several models."""
    answer, say, sentences = explanation.answer, catalogue.say, []
    if answer is not None and answer.n_changes:
        sentences.append(say("analyst.cost", cost=short(answer.cost, _DIGITS), policy=printable(answer.policy)))
        lower = find_bound(explanation)
        sentences += [] if lower is None else [say("analyst.bound", lower=_round_down(lower))]
    sentences.append(_say_posterior(explanation, catalogue))
    if explanation.conditions:
        listed = ", ".join(printable(one) for one in explanation.conditions)
        sentences.append(say("analyst.conditions", conditions=listed))
    if len(explanation.models) > 1:
        sentences.append(say("analyst.models", n=len(explanation.models), model=printable(explanation.models[0])))
    return sentences


def find_bound(explanation: Explanation) -> float | None:
    """Return a proved lower bound on the answer's kind of cost; None without one."""
    for one in explanation.decisions:
        rule = one.rule
        plain = isinstance(rule, Nearest) and rule.distance == "l1" and rule.margin == 0 and rule.max_changes is None
        if plain and one.proof is not None and one.proof.lower:
            return one.proof.lower
    return None


def _round_down(bound: float) -> str:
    text = f"{bound:.3g}"
    return text if float(text) <= bound else f"{bound * (1 - 5e-3):.3g}"


def trusts_posterior(explanation: Explanation) -> bool:
    """Whether the draws may be read."""
    drawn = explanation.draws.info.draws_posterior
    return drawn and explanation.diagnostics["sampling"] == Verdict.TRUSTWORTHY


def _say_posterior(explanation: Explanation, catalogue: Catalogue) -> str:
    say = catalogue.say
    if not explanation.draws.info.draws_posterior:
        return say("analyst.no_posterior")
    if not trusts_posterior(explanation):
        verdict = _VERDICTS[explanation.diagnostics["sampling"]]
        return say("analyst.not_trusted", verdict=say(f"verdict.{verdict}"))
    success = 100 * float(explanation.distribution["success_probability"])
    ess = f"{explanation.diagnostics['ess']:,.0f}"
    return say("analyst.posterior", success=f"{success:.1f}", ess=ess, eta=short(explanation.eta, _DIGITS))


def list_alternatives(explanation: Explanation, k: int) -> Alternatives | None:
    """Return up to ``k`` ways to reach the target, None if the draws may not be read."""
    if not trusts_posterior(explanation) or explanation.status != Status.ATTAINABLE:
        return None
    return explanation.alternatives(k)


def tell_alternatives(explanation: Explanation, narrator: Narrator, k: int) -> list[str]:
    """Return one sentence per way to reach the target, with its share of the posterior."""
    found, say = list_alternatives(explanation, k), narrator.catalogue.say
    if found is None:
        return []
    lines = zip(found.table.itertuples(), found.x, strict=True)
    return [
        say("analyst.alternative", number=number, share=f"{100 * line.mass:.0f}",
            error=f"{100 * PRINTED_Z_95 * line.mass_se:.0f}", sentence=narrator.say_then(x, float(line.output)))
        for number, (line, x) in enumerate(lines, start=1)
    ]  # fmt: skip


def _make_printable(label: Any) -> Any:
    return printable(label) if isinstance(label, str) else label


# --- what messages say in settings -------------------------------------------------------------------------------


_Replacement = str | Callable[[re.Match[str]], str]


def _name_column(after: str) -> Callable[[re.Match[str]], str]:
    """Return what writes ``after`` with the table of the column that was found."""
    return lambda found: f"{after} in [columns.{_quote_key(found[1])}] of the settings"


def _quote_key(name: str) -> str:
    """Return a name as a key of TOML."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else f"'{name}'"


# Phrases of messages and notes, whose spaces may be the end of a line, and what stands for them.
_PHRASES: tuple[tuple[str, _Replacement], ...] = (
    (
        r"leave out posterior=False, or use gbce\.SMC\(\), to",
        'leave out --no-posterior (HTTP: "posterior": true) to',
    ),
    (r"with Space\.infer\(data, immutable=\[[^\]]*\]\)", "by mutable = false in [columns.NAME] of the settings"),
    (r"Space\.infer\(data, immutable=\['([^']*)'\]\)", _name_column("mutable = false")),
    (r"Space\.infer\(data, immutable=\[[^\]]*\]\)", "mutable = false in [columns.NAME] of the settings"),
    (r"list all levels with Space\.infer\(data, levels=\{'([^']*)': \[\.\.\.\]\}\)", _name_column("list all levels")),
    (r"with Space\.infer\(data, missing=\{'([^']*)': 'keep'\}\)", _name_column('by missing = "keep"')),
    (r"with (scale|levels)=\{name: [^}]*\}", r"by \1 in [columns.NAME] of the settings"),
    (r"give levels=\{'([^']*)': \[lowest, \.\.\., highest\]\}", _name_column("give levels, the lowest first,")),
    (r"`(bounds|scale)=`", r"\1 in [columns.NAME] of the settings"),
    (r"`eta=`", "eta in [options] of the settings"),
    (r"`eta=\"auto\"`", 'eta = "auto" in [options] of the settings'),
    (r" Set `prior=` to allow more or fewer\.", ""),
    (r"gbce\.classifier\((?:model|session|function), classes=\[\.\.\.\]\)", "classes in [model] of the settings"),
    (r"explain the row with it as immutable", "set mutable = false for it in the settings and explain the row again"),
    (r"add it to the table of reasons", "add it to [reasons] of the settings"),
)
_TABLE = [(re.compile(re.sub(r"(?<!\\) ", r"\\s+", phrase)), instead) for phrase, instead in _PHRASES]


def say_in_settings(text: str) -> str:
    """Return a message with settings in the place of Python's options.

    Parameters
    ----------
    text : str
        What the library says.
    """
    for phrase, instead in _TABLE:
        text = phrase.sub(instead, text)
    return text
