"""A summary for the terminal."""

import textwrap

import pandas as pd

from gbce.explanation import Explanation
from gbce.report._content import Opening, headline, opening, sections

__all__ = ["as_text"]

_WIDTH = 110  # characters, chosen by hand
_NAME_WIDTH = 10  # of the names of facts: the longest, "why this" or "sampling", and two blanks


def as_text(explanation: Explanation) -> str:
    """Return the summary as plain text, at most 110 characters wide where the columns allow it."""
    first = opening(explanation)
    lines = [] if first is None else _open(first)
    lines += _list_facts(headline(explanation))
    for section in sections(explanation):
        if len(section.table):
            lines += ["", section.title, *_fold_table(section.table)]
            lines += textwrap.wrap(section.legend, _WIDTH, initial_indent="  ", subsequent_indent="  ")
    return "\n".join(lines)


def _open(first: Opening) -> list[str]:
    """Return the answer: its sentence, what changes, and why."""
    lines = [*textwrap.wrap(first.sentence, _WIDTH), ""]
    if len(first.table):
        lines += [*_fold_table(first.table), ""]
    return [*lines, *_list_facts(first.facts), ""]


def _list_facts(facts: list[tuple[str, str]]) -> list[str]:
    lines = []
    for name, fact in facts:
        indent = f"{name:<{_NAME_WIDTH}}"
        lines += textwrap.wrap(fact, _WIDTH, initial_indent=indent, subsequent_indent=" " * _NAME_WIDTH)
    return lines


def _fold_table(table: pd.DataFrame) -> list[str]:
    """Align columns on the right, folded into several blocks where they would be too wide."""
    index = [str(table.index.name or ""), *map(str, table.index)]
    first = max(map(len, index))
    columns = [[str(name), *map(str, table[name])] for name in table.columns]
    blocks: list[list[list[str]]] = [[]]
    used = first
    for cells in columns:
        width = max(map(len, cells)) + 2
        if blocks[-1] and used + width > _WIDTH - 2:
            blocks.append([])
            used = first
        blocks[-1].append([cell.rjust(width) for cell in cells])
        used += width
    lines = []
    for block in blocks:
        lines += ["  " + index[i].ljust(first) + "".join(cells[i] for cells in block) for i in range(len(index))]
    return lines
