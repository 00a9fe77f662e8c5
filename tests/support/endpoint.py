"""A real local server with a model behind it that does as it is told, failures included."""

import contextlib
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

import gbce
from gbce.predictors import as_predictor

X = np.random.default_rng(0).normal(size=(50, 2))
FAST = {"backoff": 0.001, "timeout": 5.0}


@dataclass
class Endpoint:
    """What the server does: ``plan`` has replies for its first requests, then it answers with ``model``."""

    url: str = ""
    model: Callable[[dict], object] = lambda body: {"predictions": [sum(row) for row in body["rows"]]}
    plan: list = field(default_factory=list)
    bodies: list = field(default_factory=list)
    headers: list = field(default_factory=list)
    outlasted: bool = False  # whether a reply that drips came to its end before the client went

    @property
    def rows(self):
        return [tuple(row) for body in self.bodies for row in body["rows"]]


def reply(handler, status, content, **headers):
    content = content if isinstance(content, bytes) else content.encode()
    handler.send_response(status)
    for name, value in {"Content-Length": str(len(content)), **headers}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(content)


def handler_of(endpoint):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        known = endpoint

        def do_POST(self):
            content = self.rfile.read(int(self.headers["Content-Length"]))
            endpoint.headers.append(dict(self.headers))
            endpoint.bodies.append(json.loads(content))
            step = endpoint.plan.pop(0) if endpoint.plan else None
            if step is not None:
                step(self)
            else:
                reply(self, 200, json.dumps(endpoint.model(endpoint.bodies[-1])))

        def log_message(self, *arguments):
            pass

    return Handler


@contextlib.contextmanager
def serving():
    """A server at a free port, as long as the block lasts."""
    known = Endpoint()
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler_of(known))
    server.handle_error = lambda *arguments: None  # clients that went away
    known.url = f"http://127.0.0.1:{server.server_address[1]}/score"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield known
    server.shutdown()
    server.server_close()
    thread.join()


def status(code, text="out of order", **headers):
    return lambda handler: reply(handler, code, text, **headers)


def asked(remote, x=X):
    return as_predictor(remote, gbce.Space.real(2))(x)
