"""The entry point: parse, run one command, and turn every failure into one sentence and an exit code."""

import os
import re
import sys
from argparse import Namespace
from collections.abc import Sequence

from gbce.cli._parser import build_parser

# Exit codes: of research on tools that stand in pipes, and of shells for signals (128 and the number of the signal).
OK, FAILED, USAGE, DOUBTFUL, INTERRUPTED, PIPE_CLOSED = 0, 1, 2, 3, 130, 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    Parameters
    ----------
    arguments : sequence of str, optional
        The words after ``gbce``; those of the process by default.

    Returns
    -------
    int
        0 if every row has an answer, 1 for a failure, 2 for a wrong command, 3 if some row is not attained or not
        trusted, 130 after Ctrl-C, 141 if the reader of a pipe went away.

    Examples
    --------
    >>> main(["report", "none.gbce"])
    1
    """
    parser = build_parser()
    try:
        words = _join_targets(sys.argv[1:] if arguments is None else list(arguments))
        options, unknown = parser.parse_known_args(words)
        if unknown and getattr(options, "predictor_host", None) is None:  # KServe may add options of its own
            parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    except SystemExit as end:  # argparse has said why
        return int(end.code or 0)
    if options.version:
        from gbce import __version__

        sys.stdout.write(f"gbce {__version__}\n")
        return OK
    if options.command is None:
        parser.print_help(sys.stderr)
        return USAGE
    try:
        code = _run(options, unknown)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # the reader has what it wanted; what is left in the buffer must not fail at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED
    except KeyboardInterrupt:
        return _say("interrupted: nothing was written", INTERRUPTED)
    except Exception as error:
        return _fail(error, options.verbose)


def _join_targets(words: list[str]) -> list[str]:
    """Join ``--target -10%``, which argparse would take for an option, to ``--target=-10%``."""
    joined: list[str] = []
    for word in words:
        if joined and joined[-1] in ("-t", "--target") and re.match(r"-[\d.]", word):
            joined[-1] = f"--target={word}"
        else:
            joined.append(word)
    return joined


def _run(options: Namespace, unknown: list[str]) -> int:
    """Run the command that was parsed."""
    if options.command == "serve":
        from gbce.cli._serve import run_service

        return run_service(options, unknown)
    import logging

    from gbce.cli import _commands

    if getattr(options, "verbose", False):
        logging.basicConfig(stream=sys.stderr, format="%(name)s: %(message)s", level=logging.DEBUG)
        logging.getLogger().setLevel(logging.WARNING)
        logging.getLogger("gbce").setLevel(logging.DEBUG)
    return _commands.run(options)


def _fail(error: Exception, verbose: bool) -> int:
    """Print an error as one sentence and return its exit code."""
    if verbose:
        import traceback

        traceback.print_exception(error)
    from gbce.cli._parser import UsageError

    if isinstance(error, UsageError):
        return _say(str(error), USAGE)
    if isinstance(error, OSError) and error.strerror:
        if error.filename is None:  # writing to a stream
            return _close_stdout(f"could not write: {error.strerror}")
        return _say(f"{error.filename}: {error.strerror}", FAILED)
    if isinstance(error, MemoryError):
        return _say("there is not enough memory for this table: use a part of it, or a smaller --max-rows", FAILED)
    known = isinstance(error, (ValueError, TypeError, OSError, ImportError, RuntimeError))
    text = " ".join(str(error).split())
    from gbce.words import say_in_settings

    return _say(say_in_settings(text) if known and text else f"{type(error).__name__}: {text}", FAILED)


def _close_stdout(text: str) -> int:
    """Print a failure of standard output, and keep what is left in its buffer from failing again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return _say(text, FAILED)


def _say(text: str, code: int) -> int:
    sys.stderr.write(f"gbce: {text}\n")
    return code
