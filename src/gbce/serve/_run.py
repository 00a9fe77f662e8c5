"""Run a service: bind its address, start server and workers, and stop when what runs is finished."""

import logging
import os
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any

from gbce.serve._workers import PATIENCE, Limits, Opener, Pool

_KEEP_ALIVE = 75  # seconds, as nginx: longer than clients and balancers keep idle connections, so that they close first
_BACKLOG = 1024  # connections that wait to be accepted, by hand: more than clients that are answered 429 at a time


class ServeError(RuntimeError):
    """A service that cannot run, with the reason."""


def serve(
    opener: Opener,
    *,
    host: str,
    port: int,
    name: str,
    workers: int = 1,
    limits: Limits | None = None,
    token: str | None = None,
    level: int = logging.INFO,
    say: Callable[[str], None] = lambda _: None,
) -> None:
    """Serve explanations until SIGTERM or SIGINT; requests that are under way are finished.

    Parameters
    ----------
    opener : callable
        ``opener(limits)`` returns what a worker answers with; pickled by reference, so a function of a module.
    host, port : str, int
        The address; port 0 is any free one.
    name : str
        Name of the model in KServe's protocol.
    workers : int
        Number of worker processes.
    limits : Limits, optional
        What a request may take.
    token : str, optional
        What requests must show as ``Authorization: Bearer``.
    level : int
        Level of the log on standard error.
    say : callable
        Gets sentences about the address and the first worker.

    Raises
    ------
    ServeError
        If the address cannot be used or the first worker cannot open the model.
    """
    try:
        import uvicorn

        from gbce.serve._app import Service, build_app
    except ImportError as error:
        raise ImportError(f"gbce serve needs {error.name}: pip install 'gbce[serve]'") from None
    limits = limits or Limits()
    with _bind(host, port) as bound:
        _log_to_stderr(level)
        pool = Pool(opener, workers, limits)
        shown = f"[{host}]" if ":" in host else host
        address = f"http://{shown}:{bound.getsockname()[1]}"

        def hear(failure: str) -> None:
            if failure:
                server.should_exit = True
            else:
                say(f"ready at {address}")

        app = build_app(Service(pool, limits, name, token), hear)
        config = uvicorn.Config(
            app, log_config=None, access_log=False, server_header=False, lifespan="on", ws="none",
            timeout_keep_alive=_KEEP_ALIVE,
            timeout_graceful_shutdown=int(PATIENCE.of_worker(limits.seconds)) + 1,
        )  # fmt: skip
        server = uvicorn.Server(config)
        say(f"loading the model; the address will be {address}")
        _run(server, bound)
    if pool.failure:
        raise ServeError(pool.failure)


def _bind(host: str, port: int) -> socket.socket:
    """Return a socket that is bound to an address."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, protocol)
        if os.name == "posix":  # elsewhere it would share the address with another process
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ServeError(f"the address {host}:{port} cannot be used: {reason}") from None
    bound.listen(_BACKLOG)
    return bound


def _run(server: Any, bound: socket.socket) -> None:
    """Run the server until a signal; it repeats the signal when it has stopped, which is then nobody's concern."""
    names = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(one, lambda *_: None) for one in names]
    try:
        server.run(sockets=[bound])
    finally:
        for one, handler in zip(names, before, strict=True):
            signal.signal(one, handler)


def _log_to_stderr(level: int) -> None:
    """Log with times to standard error; of uvicorn, what goes wrong."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s: %(message)s"))
    for name, least in (("gbce.serve", level), ("uvicorn", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(least)
