"""Notebook output: the live widget, and pages in a frame with a plain summary if frames or scripts are blocked."""

import math
from collections.abc import Mapping
from functools import cache
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from gbce._validation import is_whole, printable, show
from gbce.base import Array
from gbce.explanation import Explanation, require_explanation
from gbce.pages._document import read_assets
from gbce.pages._explorer import explore
from gbce.pages._table_page import table_page
from gbce.report import as_html
from gbce.space import Space, encode_value, plain_value

if TYPE_CHECKING:
    from gbce.batch import ExplanationTable
    from gbce.explainer import Explainer

_FRAME_HEIGHT = 700  # pixels of a frame that cannot measure its page; the page then scrolls
_MOST_ROWS = 1_000  # of a table embedded in a notebook: two megabytes
_LINES = 10  # rows of a table listed in a notebook at first

# Once the frame has its page, it hides the plain summary above it and grows with the page. If a viewer strips frames or
# scripts from the notebook, the summary stays.
_FIT = (
    "const f=this,d=f.contentDocument;if(d&&d.querySelector('main *')){f.previousElementSibling.hidden=true;"
    "const fit=()=>{f.style.height=d.body.offsetHeight+24+'px'};new ResizeObserver(fit).observe(d.body);fit()}"
)

# --- live widget -----------------------------------------------------------------------------------------------------


def make_widget(explainer: "Explainer", explanation: Explanation) -> Any:
    """Return a live widget, see :meth:`gbce.Explainer.widget`."""
    return _make_widget_class()(explainer, require_explanation(explanation))


@cache
def _make_widget_class() -> Any:
    """Return the class of live widgets, which needs anywidget."""
    try:
        anywidget, traitlets = import_module("anywidget"), import_module("traitlets")
    except ImportError:
        raise ImportError("explainer.widget needs the extra 'widget': pip install 'gbce[widget]'") from None

    class Widget(anywidget.AnyWidget):  # type: ignore[name-defined]
        """Receives questions as messages, answers them with the models and sends replies."""

        _esm = read_assets(["common.js", "widget.js"])
        _css = read_assets(["widget.css"])
        page = traitlets.Unicode().tag(sync=True)
        columns = traitlets.List().tag(sync=True)
        sentence = traitlets.Unicode().tag(sync=True)

        def __init__(self, explainer: "Explainer", explanation: Explanation) -> None:
            super().__init__()
            self.asker = Asker(explainer, explanation)
            self._show()
            self.on_msg(self._receive)

        @property
        def explanation(self) -> Explanation:
            """The explanation shown: the original, or the last one requested."""
            return self.asker.explanation

        def _receive(self, _: Any, message: Any, __: Any) -> None:
            reply = self.asker.answer(message)
            if self.asker.changed:
                self._show()
            self.send(reply)

        def _show(self) -> None:
            self.columns = self.asker.columns()
            self.page = str(explore(self.explanation))
            self.sentence = str(self.explanation.answer or self.explanation.status)
            self.asker.changed = False

    return Widget


class Asker:
    """Answers messages with an explainer: the widget without its front end.

    A message has ``ask`` and, if needed, ``values`` (by column: numbers, positions of levels, dates as strings),
    ``keep`` (names) and ``between`` (by column two ends, either of which may be null). The reply has the same ``id``,
    ``ok`` and either ``said`` or ``error``, a sentence.
    """

    def __init__(self, explainer: "Explainer", explanation: Explanation) -> None:
        self.explainer, self.first, self.explanation = explainer, explanation, explanation
        self.start, self.changed = explanation, True

    def answer(self, message: Any) -> dict[str, Any]:
        """Return the reply to a message; errors become a sentence in it."""
        handlers = {"value": self._assess, "given": self._sample_given, "explain": self._explain, "reset": self._reset}
        known = message if isinstance(message, Mapping) else {}
        number, ask = known.get("id"), known.get("ask")
        if not isinstance(ask, str) or ask not in handlers:  # a list or a mapping is not hashable
            return {"id": number, "ok": False, "error": f"ask must be one of {list(handlers)}, not {show(ask)}"}
        try:
            return {"id": number, "ok": True, **handlers[ask](known)}
        except Exception as error:  # any error of a model is shown in the widget, not in the kernel's log
            return {"id": number, "ok": False, "error": printable(f"{error}")}

    def _assess(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Evaluate the row with the values set by the user."""
        x = _set_values(self.first.space, self.first.x0, message.get("values"))
        line = self.explainer.assess(self.first, self.first.space.frame(x[None, :])).iloc[0]
        output, reached = float(line["output"]), bool(line["reached"])
        sentence = f"The model then {printable(self.first.target.say(output, reached))}."
        figures = {str(name): plain_value(value) for name, value in line.items()}
        return {"said": sentence, "reached": reached, "figures": figures}

    def _sample_given(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Explain the row again, with columns kept or limited to a range."""
        keep, between = list(message.get("keep") or ()), dict(message.get("between") or {})
        if not keep and not between:
            raise ValueError("no column is held: keep some column, or give it a range")
        low, high = ({name: span[k] for name, span in between.items() if span[k] is not None} for k in (0, 1))
        self._change(self.explainer.given(self.first, keep=keep, at_least=low, at_most=high))
        return {"said": f"Sampled again given that {' and '.join(self.explanation.conditions)}."}

    def _explain(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Explain the row with the values set by the user."""
        x = _set_values(self.first.space, self.first.x0, message.get("values"))
        row, before = self.explainer.space.frame(x[None, :]), self.first
        self.first = self.explainer.explain(row, before.target, rules=before.rules, seed=before.seed, progress=False)
        self._change(self.first)
        return {"said": "This is the edited row."}

    def _reset(self, _: Mapping[str, Any]) -> dict[str, Any]:
        """Go back to the original explanation."""
        self.first = self.start
        self._change(self.start)
        return {"said": "Back to the original explanation."}

    def _change(self, explanation: Explanation) -> None:
        self.explanation, self.changed = explanation, True

    def columns(self) -> list[dict[str, Any]]:
        """Return the columns that can be set, as plain data."""
        space, x0 = self.first.space, self.first.x0
        listed = []
        for j, feature in enumerate(space.features):
            if space.is_computed[j]:
                continue
            listed.append(
                {
                    "name": feature.name,
                    "shown": space.label(j),
                    "now": space.format(j, x0[j], quoted=True),
                    "kind": "level" if feature.leveled else "moment" if feature.kind == "datetime" else "number",
                    "at": None if np.isnan(x0[j]) else float(x0[j]),
                    "whole": feature.kind == "integer",
                    "levels": [printable(str(level)) for level in feature.levels or ()],
                    "fixed": not feature.mutable,
                }
            )
        return listed


def _set_values(space: Space, x0: Array, values: Any) -> Array:
    """Return the row ``(d,)`` with the given columns replaced and computed columns updated."""
    x = x0.copy()
    for name, value in dict(values or {}).items():
        if name not in space.position:
            raise ValueError(f"there is no column {name!r}")
        x[space.position[name]] = _encode(space, x0, space.position[name], value)
    return np.asarray(space.completed(x[None, :], x)[0])


def _encode(space: Space, x0: Array, j: int, value: Any) -> float:
    """Encode a value that is a number, the position of a level, or a date as a string; null is missing."""
    feature = space.features[j]
    if space.is_computed[j]:
        raise ValueError(f"{feature.name!r} is computed from other columns: set those")
    if value is None and np.isnan(x0[j]):
        return math.nan
    if feature.leveled and value is not None:
        levels = feature.levels or ()
        if not is_whole(value) or not 0 <= value < len(levels):
            raise ValueError(f"{feature.name!r} has {len(levels)} levels, none at position {show(value)}")
        value = levels[int(value)]
    return encode_value(space, j, value, "values", exact=True)


# --- notebook views --------------------------------------------------------------------------------------------------


def view_explanation(explanation: Explanation) -> str:
    """Return the notebook view of an explanation: the explorer in a frame, with the summary as a fallback."""
    plain = as_html(explanation)
    return plain if len(explanation.draws) == 0 else _embed_in_frame(plain, str(explore(explanation)), "explanation")


def view_table(table: "ExplanationTable", plain: str) -> str:
    """Return the notebook view of a table: its page in a frame, with trusted HTML ``plain`` as a fallback."""
    if table.encoded is None:
        return plain
    if len(table) > _MOST_ROWS:
        return f"{plain}<p>table.to_html('rows.html') writes all rows to an interactive page.</p>"
    return _embed_in_frame(plain, table_page(table, lines=_LINES), "table of explanations")


def _embed_in_frame(plain: str, page: str, title: str) -> str:
    """Return a page in a frame, below its fallback."""
    inside = escape(page, quote=False).replace("'", "&#39;")  # in single quotes, because JSON is full of double ones
    style = f"width:100%;height:{_FRAME_HEIGHT}px;border:0;background:transparent"
    return (
        f'<div>{plain}</div><iframe title="{escape(title)}" style="{style}" onload="{escape(_FIT)}" '
        f"srcdoc='{inside}'></iframe>"
    )
