"""Letters for people about whom a model decided: the lender's own reasons, and what would have changed the result.

A letter is refused, in one sentence, where the explanation does not carry it.
"""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from gbce._validation import is_count
from gbce.base import Array
from gbce.batch import ExplanationTable, RowFacts
from gbce.explanation import AnswerKind, Explanation, Share, Status
from gbce.metrics import Verdict
from gbce.pages import hash_content, receipt_of
from gbce.words._text import Facts, Narrator, find_refusal, list_alternatives, open_catalogue, trusts_posterior

MOST_REASONS = 4  # "more than four reasons is not likely to be helpful": official commentary on Regulation B, 1002.9
_RECEIPT_DIGITS = 32  # hexadecimal digits of a receipt: 128 bits, of which no two are ever equal by chance
_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #111; background: #fff; margin: 2em auto; max-width: 42em;
  padding: 0 1em; overflow-wrap: anywhere; }
h1 { font-size: 1.3em; } h2 { font-size: 1.1em; }
.small { font-size: .85em; color: #444; }
section + section { border-top: 1px solid #999; margin-top: 2em; padding-top: 1em; }
@media print { section + section { break-before: page; border: 0; } body { margin: 0; } }
"""


class _Way(NamedTuple):
    """A point ``(d,)`` that reaches the target, the output there, and its reliability unless it is the answer."""

    x: Array
    output: float
    share: float | None = None


class LetterError(ValueError):
    """A letter that must not be written, with the reason."""


@dataclass(frozen=True)
class Letter:
    """A letter as plain data, with its two pages as text and as HTML.

    Parameters
    ----------
    language : str
        Its language.
    title : str
        Its title.
    opening : tuple of str
        Sentences before the reasons.
    reasons : tuple of (str, str)
        At most four columns with the lender's texts, the most important first.
    closing : tuple of str
        Sentences after the reasons.
    ways : tuple of str
        What would have led to a different result, one sentence each, the recommended one first.
    ways_title, ways_opening, or_ : str
        Words around them.
    depends : tuple of str
        What the letter depends on: model, date, reliability.
    depends_title : str
        The title of that part.
    receipt : str
        Hash of row, answer, model, settings and seed.
    """

    language: str
    title: str
    opening: tuple[str, ...]
    reasons: tuple[tuple[str, str], ...]
    closing: tuple[str, ...]
    ways: tuple[str, ...]
    ways_title: str
    ways_opening: str
    or_: str
    depends: tuple[str, ...]
    depends_title: str
    receipt: str

    @property
    def text(self) -> str:
        """Both pages as plain text, divided by a form feed."""
        listed = [f"{number}. {text}" for number, (_, text) in enumerate(self.reasons, start=1)]
        first = [self.title, "", *self.opening, "", *listed, "", *self.closing]
        others = [line for way in self.ways[1:] for line in ("", f"{self.or_}{way}")]
        second = [self.ways_title, "", self.ways_opening, "", self.ways[0], *others, "", self.depends_title]
        return "\n".join([*first, "\f", *second, *self.depends]) + "\n"

    @property
    def body(self) -> str:
        """Both pages as sections of an HTML document."""

        def paragraphs(lines: Sequence[str], kind: str = "") -> str:
            return "".join(f"<p{kind}>{escape(line)}</p>" for line in lines)

        listed = "".join(f"<li>{escape(text)}</li>" for _, text in self.reasons)
        others = [f"{self.or_}{way}" for way in self.ways[1:]]
        first = f"<h1>{escape(self.title)}</h1>{paragraphs(self.opening)}<ol>{listed}</ol>{paragraphs(self.closing)}"
        small = ' class="small"'
        second = (
            f"<h1>{escape(self.ways_title)}</h1>{paragraphs([self.ways_opening, self.ways[0], *others])}"
            f"<h2>{escape(self.depends_title)}</h2>{paragraphs(self.depends, small)}"
        )
        return f"<section>{first}</section><section>{second}</section>"

    @property
    def html(self) -> str:
        """Both pages as one HTML document without scripts; the second begins a page of its own when printed."""
        return join_letters([self], "html")

    def __str__(self) -> str:
        return self.text


def join_letters(letters: Sequence[Letter], kind: str) -> str:
    """Return letters as one text or one HTML document."""
    if kind == "text":
        return "\f\n".join(letter.text for letter in letters)
    if kind != "html":
        raise ValueError(f"letters are 'text' or 'html', not {kind!r}")
    language, title = letters[0].language, letters[0].title
    body = "".join(letter.body for letter in letters)
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        f'<!doctype html><html lang="{escape(language)}"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}"><meta name="viewport" '
        f'content="width=device-width"><title>{escape(title)}</title><style>{_STYLE}</style></head>'
        f"<body><main>{body}</main></body></html>\n"
    )


# --- one letter ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LetterOptions:
    """What a lender says in every letter, see :meth:`gbce.Explanation.letter`."""

    reasons: Mapping[str, str]
    protected: Sequence[str] = ()
    language: str = "en"
    salutation: str = ""
    sender: str = ""
    subject: str = ""
    contact: str = ""
    date: Any = None
    model: str = ""


def letter_of(explanation: Explanation, reasons: Mapping[str, str], *, alternatives: int = 2, **options: Any) -> Letter:
    """Return the letter of an explanation, see :meth:`gbce.Explanation.letter`."""
    own = LetterOptions(reasons, **options)
    _require_options(own, explanation.space.names)
    if not is_count(alternatives, 0):
        raise ValueError(f"letter: alternatives must be an integer of at least 0, not {alternatives!r}")
    reason = _find_letter_refusal(explanation)
    if reason:
        raise LetterError(reason)
    facts = Facts.of(explanation)
    ways = [_Way(facts.x, facts.output)]
    found = list_alternatives(explanation, alternatives + 1)
    if found is not None:
        lines = zip(found.x, *(found.table[name] for name in ("output", "reliability", "reliable")), strict=True)
        ways += [_Way(x, float(output), float(share)) for x, output, share, reliable in lines
                 if reliable and not np.array_equal(x, facts.x, equal_nan=True)]  # fmt: skip
    receipt = hash_content(receipt_of(explanation))[:_RECEIPT_DIGITS]
    return _compose(facts, own, ways[: alternatives + 1], receipt, own.model or ", ".join(explanation.models[:1]))


def _require_options(own: LetterOptions, names: Sequence[str]) -> None:
    given = own.reasons
    if not isinstance(given, Mapping) or not all(isinstance(one, str) and one for one in given.values()):
        raise TypeError("letter: reasons must be a mapping of columns to texts or codes, none of them empty")
    if isinstance(own.protected, str):
        raise TypeError(f"letter: protected must be a list of columns, not {own.protected!r}")
    for what in ("reasons", "protected"):
        unknown = sorted(set(getattr(own, what)) - set(names))
        if unknown:
            raise ValueError(f"letter: {what} names {unknown}, but the columns are {list(names)}")


def _find_letter_refusal(explanation: Explanation) -> str:
    """Return why there must be no letter, empty if there may be one."""
    reason = find_refusal(explanation)
    answer = explanation.answer
    if reason or answer is None:
        return reason
    doubted = explanation.draws.info.draws_posterior and not trusts_posterior(explanation)
    note = str(explanation.diagnostics["sampling_note"]) if doubted else ""
    return _refuse_answer(str(explanation.status), str(answer.kind), note, answer.doubt)


def _refuse_answer(status: str, kind: str, sampling: str, doubt: str = "") -> str:
    """Return why an answer that reaches the target must not be in a letter."""
    if status == Status.ALREADY_REACHED or kind == AnswerKind.NOTHING:
        return "the row reaches the target as it is: there is no decision against anybody to explain"
    if sampling:
        return f"the posterior cannot be trusted: {sampling}"
    if kind != AnswerKind.RELIABLE:
        why = f": {doubt}" if doubt else ""
        return (
            f"the answer reaches the target but is not reliable under small errors{why}; a letter must not recommend it"
        )
    return ""


def _compose(facts: Facts, own: LetterOptions, ways: Sequence[_Way], receipt: str, model: str) -> Letter:
    """Return a letter of checked facts."""
    catalogue = open_catalogue(own.language)
    say, narrator = catalogue.say, Narrator(facts, catalogue)
    ways = [ways[0], *(way for way in ways[1:] if not _find_forbidden(facts, way.x, own.protected))]
    forbidden = _find_forbidden(facts, ways[0].x, own.protected)
    if forbidden:
        raise LetterError(
            f"the answer changes {forbidden!r}, which is protected or immutable and must not be advised: "
            "explain the row with it as immutable"
        )
    columns = rank_columns(facts, [way.x for way in ways])
    unmapped = [name for name in columns if name not in own.reasons]
    if unmapped:
        raise LetterError(f"the column {unmapped[0]!r} has no reason: add it to the table of reasons")
    opening = "letter.opening_sender" if own.sender else "letter.opening"
    closing = [say("letter.order"), say("letter.next_page")]
    closing += [say("letter.contact", contact=own.contact)] if own.contact else []
    date = datetime.datetime.now(datetime.UTC).date() if own.date is None else own.date
    depends = [say("letter.model", model=model), say("letter.date", date=date)]
    if facts.reliability is not None:
        depends.append(say("letter.held", **catalogue.count(facts.reliability)))
    if facts.survival is not None:
        every = facts.survival.share >= 1  # of the models, which were counted
        share = "100" if every else catalogue.count(facts.survival._replace(exact=False))["count"]
        depends.append(say("letter.refitted", share=share, n=facts.survival.n))
    depends += [say("letter.receipt", receipt=receipt), say("letter.check"), say("letter.not_advice")]
    return Letter(
        language=catalogue.language,
        title=own.subject or say("letter.title"),
        opening=(own.salutation or say("letter.dear"), say(opening, sender=own.sender, wanted=narrator.say_wanted())),
        reasons=tuple((name, own.reasons[name]) for name in columns),
        closing=tuple(closing),
        ways=tuple(_tell_way(narrator, way) for way in ways),
        ways_title=say("letter.ways"),
        ways_opening=say("letter.ways_opening"),
        or_=say("letter.or"),
        depends=tuple(depends),
        depends_title=say("letter.depends"),
        receipt=receipt,
    )


def _tell_way(narrator: Narrator, way: _Way) -> str:
    """Return what would have been, and how reliable: of the answer in all its sentences, of others as a count."""
    catalogue, then = narrator.catalogue, narrator.say_then(way.x, way.output)
    if way.share is None:
        return catalogue.say("grammar.between_sentences").join([then, *narrator.tell_reliability()])
    count = catalogue.count(Share(way.share, way.share, way.share, 0))["count"]
    return catalogue.say("letter.way_held", way=then, count=count)


def rank_columns(facts: Facts, ways: Sequence[Array]) -> list[str]:
    """Return the columns of the ways, at most four: those of the first by the size of their change, then the others'.

    Changes are in units of each column's scale; columns of one way keep the order of their sizes.
    """
    space, listed = facts.space, []
    for x in ways:
        changed = np.flatnonzero(space.changed(x[None, :], facts.x0)[0] & ~space.is_computed)
        size = (space.change(x[None, :], facts.x0) / space.scale)[0]
        listed += [space.names[j] for j in changed[np.argsort(-size[changed], kind="stable")]]
    return list(dict.fromkeys(listed))[:MOST_REASONS]


def _find_forbidden(facts: Facts, x: Array, protected: Sequence[str]) -> str:
    """Return a changed column that is protected or immutable, empty if there is none."""
    space = facts.space
    for j in np.flatnonzero(space.changed(x[None, :], facts.x0)[0] & ~space.is_computed):
        if space.names[j] in protected or not space.features[j].mutable:
            return space.names[j]
    return ""


# --- many letters ----------------------------------------------------------------------------------------------------


def letters_of(table: ExplanationTable, reasons: Mapping[str, str], **options: Any) -> pd.DataFrame:
    """Return letters for mail merge, see :meth:`gbce.ExplanationTable.letters`."""
    letters, refused = write_letters(table, reasons, **options)
    return letter_table(letters, refused).sort_index().set_axis(table.diagnostics.index)


def write_letters(
    table: ExplanationTable, reasons: Mapping[str, str], **options: Any
) -> tuple[dict[int, Letter], dict[int, str]]:
    """Return the letters of a table, and why others are refused, by the position of the row."""
    own = LetterOptions(reasons, **options)
    _require_options(own, table.require_encoded("letters").space.names)
    letters: dict[int, Letter] = {}
    refused: dict[int, str] = {}
    for i in range(len(table)):
        try:
            letters[i] = _letter_of_row(table, i, own)
        except LetterError as error:
            refused[i] = str(error)
    return letters, refused


def _letter_of_row(table: ExplanationTable, i: int, options: LetterOptions) -> Letter:
    """Return the letter of the row at position ``i`` of a table."""
    line, answer, own = table.diagnostics.iloc[i], table.answers.iloc[i], table.facts[i] if table.facts else None
    if line["status"] == Status.FAILED:
        raise LetterError(f"the row could not be explained: {line['error']}")
    if own is None:
        raise LetterError("there is no answer, or the target is a function: use explanation.letter(...)")
    if not own.reached:
        raise LetterError("the answer does not reach the target")
    doubted = own.sampled and line["sampling"] != str(Verdict.TRUSTWORTHY)
    facts, name = _facts_of_row(table, i, own), options.model or own.model
    reason = _refuse_answer(line["status"], answer["kind"], str(line["sampling_note"]) if doubted else "")
    if reason:
        raise LetterError(reason)
    content = {"row": facts.x0.tolist(), "answer": facts.x.tolist(), "target": facts.target.describe(),
               "model": name, "seed": str(line["seed"])}  # fmt: skip
    return _compose(facts, options, [_Way(facts.x, facts.output)], hash_content(content)[:_RECEIPT_DIGITS], name)


def _facts_of_row(table: ExplanationTable, i: int, own: RowFacts) -> Facts:
    """Return the facts of one row of a table."""
    known = table.require_encoded("letters")
    return Facts(
        known.space, own.target, known.x0[i], own.now, own.now_reached, known.answers[i], own.output, own.reached,
        own.reliability, own.survival, own.promised,
    )  # fmt: skip


def letter_table(letters: Mapping[Any, Letter], refused: Mapping[Any, str]) -> pd.DataFrame:
    """Return letters by name for mail merge: reasons, ways, receipt and texts, or why there is no letter."""
    lines = {}
    for name, letter in letters.items():
        texts = [text for _, text in letter.reasons]
        lines[name] = {
            **{f"reason_{k + 1}": texts[k] if k < len(texts) else "" for k in range(MOST_REASONS)},
            "would_have": letter.ways[0],
            "depends": " ".join(letter.depends),
            "receipt": letter.receipt,
            "text": letter.text,
            "refused": "",
        }
    columns = [*(f"reason_{k + 1}" for k in range(MOST_REASONS)), "would_have", "depends", "receipt", "text", "refused"]
    for name, reason in refused.items():
        lines[name] = dict.fromkeys(columns, "") | {"refused": reason}
    frame = pd.DataFrame.from_dict(lines, orient="index", columns=columns)
    return frame.rename_axis("row")
