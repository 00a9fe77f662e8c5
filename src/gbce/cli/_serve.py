"""The command ``gbce serve``: what a worker opens, as ``gbce explain`` would, and the service around it.

The server has no model: nothing heavy is imported before a worker opens its own.
"""

import logging
import os
from argparse import Namespace
from functools import partial
from pathlib import Path
from typing import Any

from gbce.cli._parser import Messages, UsageError

_TOKEN = "GBCE_TOKEN"  # of the environment
_SHORTEST_TOKEN = 16  # characters, by hand: 64 bits even of hexadecimal digits
PREDICTOR = "predictor"  # in the place of a model file


def run_service(options: Namespace, ignored: list[str]) -> int:
    """Serve explanations until a signal; ``ignored`` are words that KServe may add for later versions."""
    from gbce.serve import Limits, serve

    messages = Messages(options.quiet)
    in_kserve = options.predictor_host is not None
    if ignored:
        messages.say(f"ignored: {' '.join(ignored)}")
    if options.model == PREDICTOR and not in_kserve:
        raise UsageError("give the predictor's host with --predictor_host")
    if options.data == "-":
        raise UsageError("the service reads DATA in every worker: it cannot be standard input")
    token = _read_token(options.token_file)
    host = options.host or ("0.0.0.0" if in_kserve else "127.0.0.1")  # in a container its own address is not loopback
    if token is None and not in_kserve and host not in ("127.0.0.1", "::1", "localhost"):
        messages.say(f"anyone who can reach {host} can send requests: set a token with {_TOKEN} or --token-file")
    limits = Limits(
        batch_rows=options.max_batch, body_bytes=options.max_body, model_rows=options.max_model_rows,
        seconds=options.max_seconds, waiting=options.max_waiting, memory=options.max_memory << 20,
    )  # fmt: skip
    options.secured = token is not None
    serve(
        partial(open_desk, options), host=host, port=options.http_port, name=options.model_name,
        workers=options.workers, limits=limits, token=token, say=messages.say,
        level=logging.DEBUG if options.verbose else logging.WARNING if options.quiet else logging.INFO,
    )  # fmt: skip
    messages.say("stopped")
    return 0


def _read_token(path: str | None) -> str | None:
    """Return the token of a file or of the environment, where no list of processes shows it."""
    token = os.environ.get(_TOKEN) if path is None else Path(path).read_text(encoding="utf-8")
    token = None if token is None else token.strip()
    if token is not None and (len(token) < _SHORTEST_TOKEN or not token.isascii() or not token.isprintable()):
        raise UsageError(f"a token has at least {_SHORTEST_TOKEN} printable ASCII characters")
    return token


def open_desk(options: Namespace, limits: Any) -> Any:
    """Return what a worker answers with: model and table are opened as ``gbce explain`` opens them."""
    from gbce.cli._input import read_settings, read_table
    from gbce.cli._question import build_explainer, choose_columns, convert, load_named_model, read_target
    from gbce.serve.desk import ExplainerDesk
    from gbce.serve.kserve import open_predictor

    messages, settings = Messages(quiet=True), read_settings(options.settings)
    classes = options.classes.split(",") if options.classes else settings.model.get("classes")
    forwarding: dict[str, Any] = {}
    if options.model == PREDICTOR:
        model: Any = open_predictor(
            options.predictor_host, options.model_name, classes=classes, named=options.instances == "objects",
            timeout=limits.seconds,
        )  # fmt: skip
        forwarding["forwarding"] = model.forwarding
    else:
        model = load_named_model(options, settings)
    data, _ = read_table(options.data, options.input, most=options.max_rows)
    columns = choose_columns(model, data, options.index or settings.data.get("index"), settings, messages)
    explainer = build_explainer(model, convert(data[columns], model, settings), settings)
    labels = explainer._session.predictors[0].classes
    target = options.target or settings.target
    if target is not None:
        read_target(target, explainer)
    desk = ExplainerDesk(
        explainer, partial(read_target, explainer=explainer), limits, target=target, name=options.model_name,
        rules=settings.options.get("rules"), reasons=settings.reasons,
        letter={name: value for name, value in settings.letter.items() if name != "reasons"}
        | {"protected": settings.protected},
        examples=[] if labels is None else [str(label) for label in labels], secured=options.secured, **forwarding,
    )  # fmt: skip
    if not forwarding:  # a predictor may start later than its explainer
        desk.warm_up()
    return desk
