"""What each command does: open the question, ask the library, write the result, and judge it by an exit code."""

import warnings
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from gbce.cli._input import (
    STDIN,
    Settings,
    choose_format,
    read_settings,
    read_table,
    require_columns,
    write,
    write_frame,
)
from gbce.cli._parser import Messages, UsageError
from gbce.cli._question import choose_columns, load_named_model, open_question
from gbce.explanation import Explanation, Status
from gbce.files import load
from gbce.metrics import Verdict
from gbce.predictors import load_model
from gbce.report import as_text
from gbce.words import say_in_settings

OK, FAILED, DOUBTFUL = 0, 1, 3  # exit codes, as in _main


def run(options: Any) -> int:
    """Run the command of parsed options and return its exit code."""
    messages = Messages(options.quiet)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning = messages.warn  # type: ignore[assignment]
        return _COMMANDS[options.command](options, messages)


# --- commands about one row ------------------------------------------------------------------------------------------


def _judge(explanation: Explanation, messages: Messages) -> int:
    """Return the exit code of an explanation, and say what is wrong with it."""
    answer = explanation.answer
    if explanation.status == Status.NOT_ATTAINED or answer is None or not answer.reached:
        messages.say(say_in_settings(explanation.status_note) or "no answer reaches the target")
        return DOUBTFUL
    if explanation.draws.info.draws_posterior and explanation.diagnostics["sampling"] != Verdict.TRUSTWORTHY:
        note = say_in_settings(explanation.diagnostics["sampling_note"])
        messages.say(f"the posterior cannot be trusted: {note}")
        return DOUBTFUL
    return OK


def _explain(options: Namespace, messages: Messages) -> int:
    known = ["summary", "text", "json", "html", "png", "gbce"]
    kind = choose_format(options.output, options.format, known, "summary")
    if kind == "gbce" and options.output == STDIN:
        raise UsageError("an explanation is a file: name it with -o, such as -o row.gbce")
    question = open_question(options, messages)
    explanation = question.explainer.explain(
        question.rows.iloc[0], question.target, **question.options(options, messages.quiet)
    )
    code = _judge(explanation, messages)
    return max(code, _write_explanation(explanation, kind, options, messages))


def _write_explanation(explanation: Explanation, kind: str, options: Namespace, messages: Messages) -> int:
    """Write an explanation in one of its formats; the code is not zero where it refuses."""
    if kind == "text" and (explanation.answer is None or not explanation.answer.reached):
        return DOUBTFUL  # the message has said why
    make: dict[str, Callable[[], Any]] = {
        "summary": lambda: as_text(explanation, say_in_settings), "json": explanation.to_json,
        "html": explanation.to_html, "png": lambda: _draw(explanation),
        "text": lambda: explanation.to_text(options.language, audience=options.audience),
        "gbce": lambda: explanation.save(options.output),
    }  # fmt: skip
    _deliver(make[kind](), kind, options, messages)
    return OK


def _deliver(content: Any, kind: str, options: Namespace, messages: Messages) -> None:
    """Write a table, text or bytes, unless that is done, and name the file if it is not standard output."""
    if isinstance(content, pd.DataFrame):
        write_frame(content, kind, options.output)
    elif kind != "gbce":
        write(content, options.output)
    if options.output != STDIN:
        messages.say(f"wrote {options.output}")


def _draw(explanation: Explanation) -> bytes:
    """Return the picture of the changes as PNG."""
    import io

    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    explanation.plot.changes()
    buffer = io.BytesIO()
    plt.gcf().savefig(buffer, format="png", dpi=150, bbox_inches="tight")
    plt.close("all")
    return buffer.getvalue()


def _frontier(options: Namespace, messages: Messages) -> int:
    kind = choose_format(options.output, options.format, ["csv", "jsonl", "parquet"], "csv")
    question = open_question(options, messages)
    shared = question.options(options, messages.quiet)
    explanation = question.explainer.explain(question.rows.iloc[0], question.target, **shared)
    code = _judge(explanation, messages)
    if code and explanation.status == Status.NOT_ATTAINED:
        return code
    table = question.explainer.frontier(
        explanation, noise=options.noise, max_model_rows=shared["max_model_rows"], time_budget=options.time
    )
    _deliver(table, kind, options, messages)
    return code


def _report(options: Namespace, messages: Messages) -> int:
    known = ["summary", "text", "json", "html", "png"]
    kind = options.format or choose_format(options.output, None, known, "summary")
    explanation = load(options.explanation)
    code = _judge(explanation, messages)
    if kind == "certificate":
        if options.model is None:
            raise UsageError("a certificate holds the hash of the model file: name the file with --model")
        classes = options.classes.split(",") if options.classes else None
        made = explanation.certificate(options.model, classes=classes, trust_pickle=options.trust_pickle)
        _deliver(made.to_json(), kind, options, messages)
        return code
    return max(code, _write_explanation(explanation, kind, options, messages))


# --- commands about many rows ----------------------------------------------------------------------------------------


def _batch(options: Namespace, messages: Messages) -> int:
    known = ["csv", "jsonl", "json", "html", "parquet", "summary"]
    kind = choose_format(options.output, options.format, known, "csv")
    question = open_question(options, messages, many=True)
    rows = question.rows
    if isinstance(rows, pd.DataFrame) and options.limit is not None:
        rows = rows.iloc[: options.limit]
    shared = question.options(options, messages.quiet)
    table = question.explainer.explain_many(rows, question.target, n_jobs=options.jobs, store=options.store, **shared)
    make: dict[str, Callable[[], Any]] = {"json": table.to_json, "html": table.to_html, "summary": table.summary}
    lines = table.answers.join(table.diagnostics[["status", "sampling", "error"]])
    _deliver(make[kind]() if kind in make else lines, kind, options, messages)
    status, sampling = table.diagnostics["status"], table.diagnostics["sampling"]
    missed = (status == Status.NOT_ATTAINED) | (status == Status.FAILED) | ~table.answers["reached"].astype(bool)
    doubted = ~missed & (sampling != str(Verdict.TRUSTWORTHY)) & shared["posterior"]
    if missed.any() or doubted.any():
        parts = [f"{int(missed.sum())} without an answer that reaches the target"] * bool(missed.any())
        parts += [f"{int(doubted.sum())} whose posterior cannot be trusted"] * bool(doubted.any())
        messages.say(f"of {len(table)} rows, {' and '.join(parts)}")
    if len(table) and (status == Status.FAILED).all():
        return FAILED
    return DOUBTFUL if missed.any() or doubted.any() else OK


def _letters(options: Namespace, messages: Messages) -> int:
    from gbce.batch import load as load_result
    from gbce.words import Letter, LetterError, join_letters, letter_of, letter_table, write_letters

    kind = choose_format(options.output, options.format, ["text", "html", "csv"], "text")
    settings = read_settings(options.settings)
    if not settings.reasons:
        raise ValueError(f"{options.settings} has no reasons: give each column its own in [reasons], column = text")
    own = dict(settings.letter) | {"protected": settings.protected, "language": options.language}
    of_rows = {name: value for name, value in own.items() if name != "alternatives"}  # which need draws
    letters: dict[str, Letter] = {}
    refused: dict[str, str] = {}
    for path in map(Path, options.explanation):
        found = load_result(path)
        if isinstance(found, Explanation):
            try:
                letters[path.stem] = letter_of(found, settings.reasons, **own)
            except LetterError as error:
                refused[path.stem] = str(error)
            continue
        for table in found.tables():
            written, others = write_letters(table, settings.reasons, **of_rows)
            names = [str(label) for label in table.diagnostics.index]
            letters |= {names[i]: letter for i, letter in written.items()}
            refused |= {names[i]: reason for i, reason in others.items()}
    for name, reason in refused.items():
        messages.say(f"no letter for {name}: {say_in_settings(reason)}")
    if kind == "csv":
        _deliver(letter_table(letters, refused), kind, options, messages)
    elif letters:
        _deliver(join_letters(list(letters.values()), kind), kind, options, messages)
    return DOUBTFUL if refused else OK


def _review(options: Namespace, messages: Messages) -> int:
    from gbce.policy import review

    known = ["text", "html", "csv", "jsonl", "parquet", "json"]
    kind = choose_format(options.output, options.format, known, "text")
    found = review(options.store, load_named_model(options, Settings()), groups=options.groups)
    make: dict[str, Callable[[], Any]] = {
        "json": found.to_json, "html": found.to_html, "text": lambda: "\n".join(found.sentences)
    }  # fmt: skip
    _deliver(make.get(kind, found.frame)(), kind, options, messages)
    return DOUBTFUL if found.table["notify"].any() else OK


# --- certificates, settings, demo ------------------------------------------------------------------------------------


def _verify(options: Namespace, messages: Messages) -> int:
    from gbce.words import Certificate, Finding

    found = Certificate.load(options.certificate).check(options.model, trust_pickle=options.trust_pickle)
    write("\n".join(str(one) for one in found), STDIN)
    results = {one.result for one in found}
    if Finding.DENIED in results:
        messages.say("the certificate is not confirmed")
        return FAILED
    return DOUBTFUL if Finding.UNKNOWN in results else OK


def _init(options: Namespace, messages: Messages) -> int:
    from gbce.cli._demo import draft_settings

    data, _ = read_table(options.data, options.input, most=options.max_rows)
    require_columns(data, [] if options.index is None else [options.index], "--index")
    columns = [name for name in data.columns if name != options.index]
    if options.model is not None:
        model = load_model(options.model, trust_pickle=options.trust_pickle)
        columns = choose_columns(model, data, options.index, Settings(), messages)
    _deliver(draft_settings(data, columns, options.index), "toml", options, messages)
    return OK


def _demo(options: Namespace, messages: Messages) -> int:
    from gbce.cli._demo import write_demo

    write(write_demo(Path(options.folder), messages), STDIN)
    return OK


_COMMANDS: dict[str, Callable[[Namespace, Messages], int]] = {
    "explain": _explain,
    "batch": _batch,
    "report": _report,
    "frontier": _frontier,
    "letters": _letters,
    "review": _review,
    "verify": _verify,
    "init": _init,
    "demo": _demo,
}
