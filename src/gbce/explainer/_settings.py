"""What an explainer was made with, as texts: what a receipt needs beside the question itself."""

import hashlib
import re
import sys
from collections.abc import Iterable
from importlib import metadata
from typing import Any

from gbce._validation import printable

__all__ = ["say_settings"]

_LONGEST = 300  # letters of a setting; of a longer one, such as a covariance, the beginning and a hash; by hand
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")  # where an object lies in memory says nothing to the next run
_PLAIN = ("builtins", "__main__", "numpy", "functools")  # homes of settings and functions that are no model's library


def say_settings(models: Iterable[Any], **settings: Any) -> tuple[tuple[str, str], ...]:
    """Return settings that are not ``None`` as texts by name, and the libraries that models come from.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> settings = dict(say_settings([LinearRegression()], sampler="SMC()", policy=None))
    >>> list(settings), settings["libraries"].split()[0]
    (['sampler', 'libraries'], 'sklearn')
    """
    said = {name: _say(value) for name, value in settings.items() if value is not None}
    roots = sorted({root for model in models for root in _roots(model)})
    known = [f"{root} {version}" for root in roots for version in [_version(root)] if version]
    return (*said.items(), *([("libraries", ", ".join(known))] if known else []))


def _say(value: Any) -> str:
    """Return a setting as a text that is the same in every run, and short."""
    text = _ADDRESS.sub("", printable(value if isinstance(value, str) else repr(value)))
    text = re.sub(r"\s+", " ", text)
    if len(text) <= _LONGEST:
        return text
    return f"{text[: _LONGEST // 2]}... (SHA-256 of all of it {hashlib.sha256(text.encode()).hexdigest()})"


def _roots(model: Any) -> set[str]:
    """Return the packages that a model and its parts come from."""
    parts = [model]
    try:
        parts += list(model.get_params(deep=True).values())
    except (AttributeError, TypeError):  # not an estimator, or a class of one
        parts += [getattr(model, "__self__", None)]
    homes = {(getattr(type(part), "__module__", None) or "").split(".")[0] for part in parts if part is not None}
    return homes - set(_PLAIN) - {""}


def _version(root: str) -> str:
    """Return the version of a package, empty where it says none."""
    version = getattr(sys.modules.get(root), "__version__", None)
    if isinstance(version, str):
        return printable(version)
    try:
        return metadata.version(root)
    except metadata.PackageNotFoundError:
        return ""
