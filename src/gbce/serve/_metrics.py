"""What a service counts, in Prometheus' format."""

from typing import TYPE_CHECKING, Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST

if TYPE_CHECKING:
    from gbce.serve._workers import Pool

# Seconds of requests, by hand: from a search without a posterior to the usual limit.
_BUCKETS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)


class Metrics:
    """Counts of one service; gauges are read from its pool when they are asked for."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self, pool: "Pool") -> None:
        disable_created_metrics()  # when a counter was made tells nobody anything
        own = self._registry = CollectorRegistry()
        ProcessCollector(registry=own)
        self._requests = Counter("gbce_requests", "Requests by path and status", ["path", "status"], registry=own)
        self._seconds = Histogram("gbce_request_seconds", "Seconds of requests", ["path"], buckets=_BUCKETS,
                                  registry=own)  # fmt: skip
        self._rows = Counter("gbce_rows", "Rows that were explained", registry=own)
        self._model_rows = Counter("gbce_model_rows", "Rows that the model evaluated for them", registry=own)
        gauges: dict[str, tuple[str, Any]] = {
            "gbce_workers_ready": ("Workers that have opened the model", lambda: pool.ready),
            "gbce_requests_running": ("Requests that are worked on", lambda: pool.running),
            "gbce_requests_waiting": ("Requests that wait for a worker", lambda: pool.waiting),
            "gbce_worker_restarts": ("Workers that were replaced", lambda: pool.restarts),
        }
        for name, (text, read) in gauges.items():
            Gauge(name, text, registry=own).set_function(read)

    def count_request(self, path: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        self._requests.labels(path, str(status)).inc()
        self._seconds.labels(path).observe(seconds)

    def count_rows(self, rows: int, model_rows: int) -> None:
        """Count rows that were explained."""
        self._rows.inc(rows)
        self._model_rows.inc(model_rows)

    def render(self) -> bytes:
        """Return all of them as text."""
        return generate_latest(self._registry)
