"""What is recorded and shown of a run: settings as strings, a progress bar, and the errors of models."""

import hashlib
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from importlib import metadata
from typing import Any, Literal, ParamSpec, TypeVar

from gbce._validation import current_options, printable
from gbce.budget import Budget, progress_bar
from gbce.predictors import PredictionError

P = ParamSpec("P")
T = TypeVar("T")

_LONGEST = 300  # characters of a recorded setting; longer ones, such as a covariance, are cut and hashed; by hand
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")  # memory addresses in a repr, which differ between runs
_PLAIN = ("builtins", "__main__", "numpy", "functools")  # modules that are not a model's library
Progress = bool | Literal["auto"]
_DELAY = 1.0  # seconds before progress="auto" shows a bar, a convention

# --- recorded settings -----------------------------------------------------------------------------------------------


def describe_settings(models: Iterable[Any], **settings: Any) -> tuple[tuple[str, str], ...]:
    """Return settings that are not ``None`` as strings by name, and the libraries of the models.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> settings = dict(describe_settings([LinearRegression()], sampler="SMC()", policy=None))
    >>> list(settings), settings["libraries"].split()[0]
    (['sampler', 'libraries'], 'sklearn')
    """
    recorded = {name: _format_setting(value) for name, value in settings.items() if value is not None}
    packages = sorted({package for model in models for package in _find_packages(model)})
    known = [f"{package} {version}" for package in packages for version in [_find_version(package)] if version]
    return (*recorded.items(), *([("libraries", ", ".join(known))] if known else []))


def _format_setting(value: Any) -> str:
    """Return a setting as a short string that is the same in every run."""
    text = _ADDRESS.sub("", printable(value if isinstance(value, str) else repr(value)))
    text = re.sub(r"\s+", " ", text)
    if len(text) <= _LONGEST:
        return text
    return f"{text[: _LONGEST // 2]}... (SHA-256 of all of it {hashlib.sha256(text.encode()).hexdigest()})"


def _find_packages(model: Any) -> set[str]:
    """Return the top-level packages of a model and its parts."""
    parts = [model]
    try:
        parts += list(model.get_params(deep=True).values())
    except (AttributeError, TypeError):  # not an estimator, or a class of one
        parts += [getattr(model, "__self__", None)]
    homes = {(getattr(type(part), "__module__", None) or "").split(".")[0] for part in parts if part is not None}
    return homes - set(_PLAIN) - {""}


def _find_version(package: str) -> str:
    """Return the version of a package, empty if unknown."""
    version = getattr(sys.modules.get(package), "__version__", None)
    if isinstance(version, str):
        return printable(version)
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


# --- progress bar ----------------------------------------------------------------------------------------------------


def is_shown(progress: Any) -> bool:
    """Whether to show a bar; ``"auto"`` shows one on a terminal and in a notebook only.

    Examples
    --------
    >>> is_shown(True), is_shown(False)
    (True, False)
    """
    set_for_all = current_options().progress
    progress = progress if set_for_all is None else set_for_all
    if isinstance(progress, str) and progress == "auto":
        shell = sys.modules.get("IPython")
        if shell is not None and getattr(shell.get_ipython(), "kernel", None) is not None:
            return True
        return sys.stderr is not None and sys.stderr.isatty()
    if not isinstance(progress, bool):
        raise ValueError(f'progress must be True, False or "auto", not {progress!r}')
    return progress


class _Bar:
    """A progress bar with the current stage and the model rows so far."""

    def __init__(self, at_once: bool) -> None:
        self._bar = progress_bar(
            desc="explaining",
            unit=" model rows",
            unit_scale=True,
            delay=0.0 if at_once else _DELAY,
            bar_format="{desc}: {n_fmt}{unit} in {elapsed}",
        )

    def begin(self, stage: str) -> None:
        self._bar.set_description_str(stage, refresh=False)

    def spend(self, rows: int) -> None:
        self._bar.update(rows)

    def close(self) -> None:
        self._bar.close()


@contextmanager
def watched(budget: Budget, progress: Any) -> Iterator[None]:
    """Show a progress bar for a budget while the block runs, if ``progress`` asks for one."""
    if not is_shown(progress):
        yield
        return
    bar = _Bar(at_once=progress is True)
    budget.watch = bar
    try:
        yield
    finally:
        budget.watch = None
        bar.close()


# --- errors of models ------------------------------------------------------------------------------------------------


def short_traceback(method: Callable[P, T]) -> Callable[P, T]:
    """Return a method whose prediction errors show the traceback of the model, and of the package only this call."""

    @wraps(method)
    def call(*args: P.args, **options: P.kwargs) -> T:
        try:
            return method(*args, **options)
        except PredictionError as error:
            raise error.with_traceback(None) from error.__cause__

    return call
