"""A bar for one explanation that takes its time: on a terminal or in a notebook, and gone when it is done."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from tqdm.auto import tqdm

from gbce.budget import Budget

__all__ = ["Progress", "is_shown", "watched"]

Progress = bool | Literal["auto"]

_DELAY = 1.0  # seconds before anything is shown, where nobody insisted; a convention: shorter is not waiting


def is_shown(progress: Any) -> bool:
    """Whether to show a bar; ``"auto"`` shows one on a terminal and in a notebook, not in pipes, scripts and tests.

    Examples
    --------
    >>> is_shown(True), is_shown(False)
    (True, False)
    """
    if isinstance(progress, str) and progress == "auto":
        shell = sys.modules.get("IPython")
        if shell is not None and getattr(shell.get_ipython(), "kernel", None) is not None:
            return True
        return sys.stderr is not None and sys.stderr.isatty()
    if not isinstance(progress, bool):
        raise ValueError(f'progress must be True, False or "auto", not {progress!r}')
    return progress


class _Bar:
    """Shows the stage and the model rows so far."""

    def __init__(self, insist: bool) -> None:
        self._bar = tqdm(
            desc="explaining",
            unit=" model rows",
            unit_scale=True,
            leave=False,
            delay=0.0 if insist else _DELAY,
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
    """Show what is spent of a budget while the block runs, if that is wanted; nothing is left behind."""
    if not is_shown(progress):
        yield
        return
    bar = _Bar(insist=progress is True)
    budget.watch = bar
    try:
        yield
    finally:
        budget.watch = None
        bar.close()
