"""The options and messages of every command. Only argparse is imported, so that help is immediate."""

import argparse
import sys
from typing import Any, NamedTuple

EPILOG = """exit codes:
  0  every row has an answer that reaches the target
  1  failure: something is wrong with a file, a model or a column
  2  the command itself is wrong
  3  finished, but some row misses the target or its posterior cannot be trusted
"""
_MODEL = "LightGBM, XGBoost, CatBoost, ONNX or skops file, or MLflow folder"
_DATA = "table that the model was fitted on: CSV, Parquet or JSON lines, as its name says; - for standard input"
_TARGET = "what is wanted: a class (approved), '<=140', '>=10', '+10%%', '-5', '0.8..1', 'approved>=0.8'"
_EXPLANATION = ".gbce file that `gbce explain -o` wrote, or the folder of `gbce batch --store`"


class Command(NamedTuple):
    """Name, summary and examples of a command."""

    name: str
    summary: str
    examples: tuple[str, ...]


COMMANDS = (
    Command(
        "explain",
        "Explain one row of a table",
        (
            "gbce explain model.txt applicants.csv --row 3 --target 1",
            "gbce explain model.txt applicants.csv --row 3 --target 1 --settings credit.toml -o row3.gbce",
        ),
    ),
    Command(
        "batch",
        "Explain many rows",
        (
            "gbce batch model.txt applicants.csv --rows declined.csv --target 1 --settings credit.toml -o answers.csv",
            "gbce batch model.txt applicants.csv --rows declined.csv --target 1 -s credit.toml --store answers/",
        ),
    ),
    Command(
        "report",
        "Turn a saved explanation into text, a page, a picture or JSON",
        ("gbce report row3.gbce -o row3.html", "gbce report row3.gbce --format text --language ja"),
    ),
    Command(
        "frontier",
        "List the cheapest point for each reliability under noise",
        ("gbce frontier model.txt applicants.csv --row 3 --target 1 --settings credit.toml --noise 0.1",),
    ),
    Command(
        "letters",
        "Write letters with the lender's own reasons",
        ("gbce letters row3.gbce --settings credit.toml -o row3-letter.html",),
    ),
    Command(
        "review",
        "Check earlier answers against today's model, and list who must be notified",
        (
            "gbce review answers/ model.txt -o review.html",
            "gbce review answers/ model.txt --groups years_employed -o told.csv",
        ),
    ),
    Command(
        "verify",
        "Check a certificate against the model file alone",
        (
            "gbce report row3.gbce --format certificate --model model.txt -o row3.certificate.json",
            "gbce verify row3.certificate.json model.txt",
        ),
    ),
    Command(
        "serve",
        "Answer requests over HTTP",
        (
            "gbce serve model.txt applicants.csv --target 1 --settings credit.toml",
            "gbce serve predictor applicants.csv -t approved --classes declined,approved --predictor_host HOST",
        ),
    ),
    Command(
        "init",
        "Write a settings file to edit: columns, kinds, bounds and what was assumed",
        ("gbce init applicants.csv --model model.txt -o draft.toml",),
    ),
    Command("demo", "Write a table, a model and settings to try the other commands on", ("gbce demo .",)),
)


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Help that is the same under every version of Python."""

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        value = self._format_args(action, self._get_default_metavar_for_optional(action))
        return f"{', '.join(action.option_strings)} {value}"


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="gbce",
        description="Counterfactual explanations of models in files, with their reliability stated.",
        epilog=EPILOG,
        formatter_class=_Formatter,
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    parts = parser.add_subparsers(dest="command", metavar="command", title="commands")
    for one in COMMANDS:
        examples = "examples:\n" + "\n".join(f"  {example}" for example in one.examples)
        sub = parts.add_parser(
            one.name,
            help=one.summary,
            description=one.summary + ".",
            epilog=examples,
            formatter_class=_Formatter,
        )
        _OPTIONS[one.name](sub)
        sub.add_argument("-q", "--quiet", action="store_true", help="no messages and no progress bar")
        sub.add_argument("-v", "--verbose", action="store_true", help="log stages and calls to standard error")
    return parser


def write_page() -> str:
    """Return the help of all commands as the body of a Markdown page."""
    import os
    from unittest.mock import patch

    with patch.dict(os.environ, {"COLUMNS": "100", "NO_COLOR": "1"}):
        parser = build_parser()
        subs = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
        parts = [("gbce", parser), *((f"gbce {name}", sub) for name, sub in subs.choices.items())]
        return "\n".join(f"## `{name}`\n\n```text\n{one.format_help().rstrip()}\n```\n" for name, one in parts)


# --- options ---------------------------------------------------------------------------------------------------------


def _add_question(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help=_MODEL)
    parser.add_argument("data", metavar="DATA", help=_DATA)
    parser.add_argument("-t", "--target", help=f"{_TARGET}; by default that of the settings")
    parser.add_argument("-s", "--settings", metavar="TOML", help="columns, constraints and options; see `gbce init`")
    parser.add_argument("--classes", metavar="A,B", help="names of the model's classes, in the model's order")
    parser.add_argument("--index", metavar="COLUMN", help="column that names the rows")
    parser.add_argument("--seed", type=int, default=0, help="the same seed gives the same result (default: 0)")
    parser.add_argument("--no-posterior", action="store_true", help="only search for the answer, much faster")
    parser.add_argument("--time", type=float, metavar="SECONDS", help="do not call the model after this time")
    _add_input(parser)


def _add_input(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--input", choices=["csv", "parquet", "jsonl"], help="format of tables, if not in their names")
    parser.add_argument("--max-rows", type=int, default=200_000, metavar="N", help=(
        "largest number of rows of DATA that are used, drawn at random (default: 200000)"))  # fmt: skip
    parser.add_argument("--trust-pickle", action="store_true", help=(
        "also load pickle and joblib files; loading one runs any code that is in it, so only allow it for files that "
        "you made or would run as a program"))  # fmt: skip


def _add_output(parser: argparse.ArgumentParser, formats: list[str], usual: str) -> None:
    parser.add_argument("-o", "--output", metavar="FILE", default="-", help="file to write; standard output by default")
    parser.add_argument("-f", "--format", choices=formats, help=f"by default from the name of the file, else {usual}")


def _add_words(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--language", default="en", help="language of texts and letters: en, ja (default: en)")
    parser.add_argument("--audience", choices=["person", "analyst"], default="person", help="of texts, default: person")


def _add_explain(parser: argparse.ArgumentParser) -> None:
    _add_question(parser)
    parser.add_argument("-r", "--row", required=True, help=(
        "which row: its name with --index, its position from 0, COLUMN=VALUE, JSON such as '{\"age\": 30}', or - for "
        "JSON on standard input"))  # fmt: skip
    parser.add_argument("--rows", metavar="FILE", help="table of the row, if not DATA")
    _add_output(parser, ["summary", "text", "json", "html", "png", "gbce"], "summary")
    _add_words(parser)


def _add_batch(parser: argparse.ArgumentParser) -> None:
    _add_question(parser)
    parser.add_argument("--rows", metavar="FILE", help="table of the rows to explain, if not DATA")
    parser.add_argument("--jobs", type=int, metavar="N", help="number of processes (default: 1)")
    parser.add_argument(
        "--store",
        metavar="FOLDER",
        help=("write finished rows there as Parquet and resume after an interruption; rows are then read in parts"),
    )  # fmt: skip)
    parser.add_argument("--limit", type=int, metavar="N", help="explain only the first rows")
    _add_output(parser, ["csv", "jsonl", "json", "html", "parquet", "summary"], "csv")


def _add_report(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("explanation", metavar="EXPLANATION", help=".gbce file that `gbce explain -o` wrote")
    _add_output(parser, ["summary", "text", "json", "html", "png", "certificate"], "summary")
    _add_words(parser)
    parser.add_argument("--model", help="the model file, whose hash a certificate holds")
    parser.add_argument("--classes", metavar="A,B", help="names of its classes, as they were given to `gbce explain`")
    parser.add_argument("--trust-pickle", action="store_true", help="also load pickles; see `gbce explain --help`")


def _add_frontier(parser: argparse.ArgumentParser) -> None:
    _add_question(parser)
    parser.add_argument("-r", "--row", required=True, help="which row, as for `gbce explain`")
    parser.add_argument("--rows", metavar="FILE", help="table of the row, if not DATA")
    parser.add_argument("--noise", type=float, default=0.1, help=(
        "standard deviation of the execution noise, in units of each column's scale (default: 0.1)"))  # fmt: skip
    _add_output(parser, ["csv", "jsonl", "parquet"], "csv")


def _add_letters(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("explanation", metavar="EXPLANATION", nargs="+", help=_EXPLANATION)
    parser.add_argument("-s", "--settings", metavar="TOML", required=True, help=(
        "settings with the tables [reasons] (column = text) and [letter] (sender, contact, date)"))  # fmt: skip
    _add_output(parser, ["text", "html", "csv"], "text")
    parser.add_argument("--language", default="en", help="en, ja (default: en)")


def _add_review(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("store", metavar="STORE", help="folder of `explain_many(..., store=)` or `gbce batch --store`")
    parser.add_argument("model", metavar="MODEL", help=f"today's model: {_MODEL}")
    parser.add_argument("--classes", metavar="A,B", help="names of the model's classes, in the model's order")
    parser.add_argument("--groups", metavar="COLUMN", help="also the share of answers that still hold, by group")
    _add_output(parser, ["text", "html", "csv", "jsonl", "parquet", "json"], "text")
    parser.add_argument("--trust-pickle", action="store_true", help="also load pickles; see `gbce explain --help`")


def _add_verify(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("certificate", metavar="CERTIFICATE", help="JSON that `gbce report --format certificate` wrote")
    parser.add_argument("model", metavar="MODEL", help=_MODEL)
    parser.add_argument("--trust-pickle", action="store_true", help="also load pickles; see `gbce explain --help`")


def _add_serve(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help=f"{_MODEL}; or the word predictor, see --predictor_host")
    parser.add_argument("data", metavar="DATA", help="table that the model was fitted on: CSV, Parquet or JSON lines")
    parser.add_argument("-t", "--target", help=f"for requests without a target: {_TARGET}")
    parser.add_argument("-s", "--settings", metavar="TOML", help="columns, constraints and options; see `gbce init`")
    parser.add_argument("--classes", metavar="A,B", help="names of the model's classes, in the model's order")
    parser.add_argument("--index", metavar="COLUMN", help="column that names the rows, and is left out")
    _add_input(parser)
    at = parser.add_argument_group("address")
    at.add_argument("--host", help="address to listen at (default: 127.0.0.1; 0.0.0.0 with --predictor_host)")
    at.add_argument("--port", "--http_port", dest="http_port", type=int, default=8080, metavar="N", help=(
        "port; 0 is any free one (default: 8080)"))  # fmt: skip
    at.add_argument("--token-file", metavar="FILE", help=(
        "file with the token that requests must send as Authorization: Bearer; or set GBCE_TOKEN"))  # fmt: skip
    limits = parser.add_argument_group("limits")
    for name, kind, default, text in _LIMITS:
        limits.add_argument(name, type=kind, default=default, metavar="N", help=f"{text} (default: {default})")
    kserve = parser.add_argument_group("KServe", "as explainer of an InferenceService, which adds these")
    kserve.add_argument("--name", "--model_name", dest="model_name", default="model", help="name of the model")
    kserve.add_argument("--predictor_host", metavar="HOST", help=(
        "call the model at this host by KServe's V1 protocol; MODEL is then the word predictor"))  # fmt: skip
    kserve.add_argument("--instances", choices=["lists", "objects"], default="lists", help=(
        "rows as the predictor takes them: lists of values, or objects with names (default: lists)"))  # fmt: skip


def _positive(text: str) -> int:
    """Return a positive integer."""
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def _seconds(text: str) -> float:
    """Return a time that a request can be answered in."""
    number = float(text)
    if not 0.1 <= number <= 86_400:  # as in the description of the service; a day
        raise ValueError
    return number


# as in gbce.serve.Limits, where they have their reasons
_LIMITS = (
    ("--workers", _positive, 1, "workers, each with its own model and table: as many requests are answered at a time"),
    ("--max-waiting", _positive, 32, "requests that may wait for a worker; further ones are answered with 429"),
    ("--max-batch", _positive, 100, "rows in one request"),
    ("--max-body", _positive, 1_000_000, "bytes of a request"),
    ("--max-model-rows", _positive, 200_000, "model rows for each explained row"),
    ("--max-seconds", _seconds, 30.0, "seconds per request, after which the model is not called"),
    ("--max-memory", _positive, 4096, "megabytes of memory per worker, its model included"),
)


def _add_init(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", metavar="DATA", help=_DATA)
    parser.add_argument("--model", help="model file: only its columns are listed")
    parser.add_argument("--index", metavar="COLUMN", help="column that names the rows")
    parser.add_argument("-o", "--output", metavar="FILE", default="-", help="file to write; standard output by default")
    _add_input(parser)


def _add_demo(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="FOLDER", nargs="?", default="gbce-demo", help=(
        "folder for the files (default: gbce-demo)"))  # fmt: skip


_OPTIONS = {
    "explain": _add_explain,
    "batch": _add_batch,
    "report": _add_report,
    "frontier": _add_frontier,
    "letters": _add_letters,
    "review": _add_review,
    "verify": _add_verify,
    "serve": _add_serve,
    "init": _add_init,
    "demo": _add_demo,
}


# --- what a command says -----------------------------------------------------------------------------------------


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
