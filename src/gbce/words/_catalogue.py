"""One catalogue of sentences per language, read from a TOML file beside this module.

A new language is one more file with the same keys and the same words in braces.
"""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from math import floor
from typing import Any

import numpy as np

from gbce.explanation import Share
from gbce.space import Space

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
        wide = not unit.isascii() or unit.startswith("%")
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
