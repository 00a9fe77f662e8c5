"""A summary for a notebook."""

from collections.abc import Sequence
from html import escape

import pandas as pd

from gbce.explanation import Explanation
from gbce.report._content import headline, opening, sections

__all__ = ["as_html"]

_STYLE = """
.gbce { font: 13px/1.5 system-ui, sans-serif; max-width: 70em; overflow-x: auto; }
.gbce h4 { margin: 1em 0 .3em; font-size: 1em; }
.gbce dl { display: grid; grid-template-columns: max-content 1fr; gap: .1em 1em; margin: 0; }
.gbce dt { opacity: .65; } .gbce dd { margin: 0; }
.gbce table { border-collapse: collapse; font: inherit; }
.gbce th, .gbce td { padding: .2em .7em; text-align: right; border-bottom: 1px solid #8884; white-space: nowrap; }
.gbce th:first-child { text-align: left; }
.gbce p { margin: .3em 0; opacity: .65; }
.gbce p.answer { font-size: 1.2em; opacity: 1; max-width: 50em; }
.gbce .missed { color: #c0392b; }
"""


def as_html(explanation: Explanation) -> str:
    """Return the summary as one HTML fragment with its own style."""
    facts = _list_facts(headline(explanation))
    html = [f"<style>{_STYLE}</style><div class='gbce'>{_open(explanation)}<dl>{''.join(facts)}</dl>"]
    for section in sections(explanation):
        if len(section.table):
            table = _draw_table(section.table, section.missed)
            html.append(f"<h4>{escape(section.title)}</h4>{table}<p>{escape(section.legend)}</p>")
    return "".join(html) + "</div>"


def _open(explanation: Explanation) -> str:
    """Return the answer: its sentence, what changes, and why."""
    first, answer = opening(explanation), explanation.answer
    if first is None or answer is None:
        return ""
    missed = "" if answer.reached else " missed"
    table = _draw_table(first.table) if len(first.table) else ""
    facts = "".join(_list_facts(first.facts))
    return f"<p class='answer{missed}'>{escape(first.sentence)}</p>{table}<dl>{facts}</dl><h4>How it was found</h4>"


def _draw_table(table: pd.DataFrame, missed: Sequence[bool] = ()) -> str:
    """Return a table of texts; lines of decisions that miss the target are marked."""
    heads = "".join(f"<th scope='col'>{escape(str(name))}</th>" for name in ["", *table.columns])
    lines = []
    for i, (label, cells) in enumerate(zip(table.index, table.to_numpy(), strict=True)):
        marked = " class='missed'" if i < len(missed) and missed[i] else ""
        texts = "".join(f"<td>{escape(str(cell))}</td>" for cell in cells)
        lines.append(f"<tr{marked}><th scope='row'>{escape(str(label))}</th>{texts}</tr>")
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def _list_facts(facts: list[tuple[str, str]]) -> list[str]:
    return [f"<dt>{escape(name)}</dt><dd>{escape(fact)}</dd>" for name, fact in facts]
