"""Say in the words of a settings file what the library says in those of Python: for the command line and over HTTP."""

import re
from collections.abc import Callable

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
    (r"gbce\.classifier\(model, classes=\[\.\.\.\]\)", "classes in [model] of the settings"),
)
_TABLE = [(re.compile(re.sub(r"(?<!\\) ", r"\\s+", phrase)), instead) for phrase, instead in _PHRASES]


def say_in_settings(text: str) -> str:
    """Return a message with settings in the place of Python's options.

    Parameters
    ----------
    text : str
        What the library says.

    Examples
    --------
    >>> say_in_settings("Numbers stay within their range. Set `bounds=` to change this.")
    'Numbers stay within their range. Set bounds in [columns.NAME] of the settings to change this.'
    """
    for phrase, instead in _TABLE:
        text = phrase.sub(instead, text)
    return text
