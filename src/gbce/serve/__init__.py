"""Explanations as a service: an HTTP server that holds no model, and worker processes that explain.

The server checks, counts and queues requests; it imports neither numpy nor a model. Every worker opens model and table
by itself, under a limit of memory, and is replaced when it dies, hangs or grows. Server and workers exchange JSON.
"""

from gbce.serve._run import ServeError, serve
from gbce.serve._workers import Limits, Opener, RequestError

__all__ = ["Limits", "Opener", "RequestError", "ServeError", "serve"]
