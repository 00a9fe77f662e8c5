"""What a command says on standard error, and the error of a command that is wrong in itself."""

import sys
from typing import Any


class UsageError(ValueError):
    """A command that is wrong in itself, whatever the files hold."""


class Messages:
    """Sentences for standard error; none if ``quiet``."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet

    def say(self, text: str) -> None:
        """Print one sentence."""
        if not self.quiet:
            sys.stderr.write(f"gbce: {text}\n")

    def warn(self, message: Any, category: Any, *_: Any) -> None:
        """Print a warning of the library as one sentence, in the place of ``warnings.showwarning``."""
        if not self.quiet and issubclass(category, (UserWarning, RuntimeWarning)):
            from gbce.words import say_in_settings

            sys.stderr.write(f"gbce: warning: {say_in_settings(' '.join(str(message).split()))}\n")
