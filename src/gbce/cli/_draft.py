"""A settings file to edit: the columns of a table with what was inferred and assumed about them."""

import json
from typing import Any

import pandas as pd

from gbce.space import Feature, Space, plain_value
from gbce.words import say_in_settings

_SHOWN_LEVELS = 12  # levels that a comment lists; by hand
_HEAD = """# Settings for gbce. Everything in here may be left out; lines that begin with # are comments.

# what is wanted of the model: a class, "<=140", ">=10", "+10%", "0.8..1", "approved>=0.8"
# target = "approved"

# conditions between columns that the row and every answer satisfy
constraints = [
  # "debt <= 0.4 * income",
]

[data]
# index = "id"       # column that names the rows
# drop = ["outcome"] # columns that the model does not use

[model]
# classes = ["declined", "approved"]  # names of a booster's classes 0, 1, ...

[options]
# eta = "auto"
# rules = ["Nearest", "ChanceConstrained", "CVaR", "MAP"]
# max_model_rows = 100000
# sensible = true  # prefer no change that goes against the model's average; the default if there are reasons
"""
_TAIL = """
# Columns that follow from others: they are computed again for every answer.
[computed]
# free = "income - debt / 12"

# For letters: the reason for each column that an answer may change, in your own words or codes.
[reasons]
{reasons}

[letter]
# salutation = "Dear customer,"
# sender = "Example Bank"
# model = "credit model of May 2026"
# contact = "credit@example.com"
"""


def draft_settings(data: pd.DataFrame, columns: list[str]) -> str:
    """Return settings for the columns of a table, as TOML with comments.

    Examples
    --------
    >>> text = draft_settings(pd.DataFrame({"age": [30, 40], "job": ["clerk", "smith"]}), ["age", "job"])
    >>> "[columns.age]" in text, 'kind = "categorical"' in text
    (True, True)
    """
    space = Space.infer(data[columns])
    sentences = () if space.assumed is None else space.assumed.sentences
    assumed = "".join(f"# assumed: {say_in_settings(one)}\n" for one in sentences)
    tables = "\n".join(_draft_column(feature) for feature in space.features)
    reasons = "\n".join(f"# {_quote(name)} = {_quote(f'{name} is not sufficient')}" for name in space.names)
    return f"{_HEAD}\n{assumed}\n{tables}{_TAIL.format(reasons=reasons)}"


def _draft_column(feature: Feature) -> str:
    """Return the table of one column."""
    lines = [f"[columns.{_quote_key(feature.name)}]", f"kind = {_quote(feature.kind)}"]
    if feature.levels is not None:
        shown = [str(level) for level in feature.levels[:_SHOWN_LEVELS]]
        more = f", and {len(feature.levels) - len(shown)} more" if len(feature.levels) > len(shown) else ""
        lines.append(f"# levels: {', '.join(shown)}{more}".replace("\n", " "))
    elif feature.kind in ("real", "integer"):
        ends = [_write_number(end, feature.kind) for end in (feature.low, feature.high)]
        lines.append(f"bounds = [{', '.join(ends)}]" if ends != ['""', '""'] else '# bounds = [0, ""]')
    lines += [
        f"mutable = {'true' if feature.mutable else 'false'}" + ("" if feature.mutable else "  # constant in the data"),
        f"direction = {_quote(feature.direction)}  # any, increase or decrease",
        "protected = false  # true: a letter never names it as advice",
        '# label = ""',
        '# unit = ""',
        "",
    ]
    return "\n".join(lines)


def _write_number(end: Any, kind: str) -> str:
    """Return a bound as TOML; an open side is an empty string."""
    if end is None:
        return '""'
    value = plain_value(end)
    return str(round(value)) if kind == "integer" else repr(float(value))


def _quote(text: str) -> str:
    """Return a string as TOML, whose basic strings are those of JSON but for two escapes."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _quote_key(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() and name.isascii() else _quote(name)
