"""A service under many clients at once, over loopback: what they are answered, how fast, and with what memory.

``gbce demo`` writes table, model (a forest of 60 trees) and settings; ``gbce serve`` answers with two workers. Clients
ask ``POST /explain`` about rows of the table for half a minute, without a pause; one that is sent away (429) comes back
after as many seconds as it was told, but at most after one. Beside them stands what one client alone sees. Seconds are
of requests that were answered (200). Memory is resident: of the server, and of all its workers before and at most.
"""

import argparse
import asyncio
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil

from benchmarks._documents import add_docs_option, markdown, print_into

ADDRESS = "127.0.0.1"  # no other is asked
_RUN = "import sys; from gbce.cli import main; sys.exit(main())"
_MB = 1 << 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=30.0)
    add_docs_option(parser)
    options = parser.parse_args()
    with print_into("service", options.docs, __doc__):
        with tempfile.TemporaryDirectory() as folder:
            rows = write_files(Path(folder))
            with serving(Path(folder)) as (address, process):
                lines = [measure(address, process, rows, n, options.seconds) for n in (1, options.clients)]
        print(markdown(list(lines[0]), [list(map(str, line.values())) for line in lines]))


def write_files(folder: Path) -> list[dict[str, Any]]:
    """Write the files of the demo and return the rows that are declined."""
    subprocess.run([sys.executable, "-c", _RUN, "demo", str(folder), "-q"], check=True, capture_output=True)
    table = pd.read_csv(folder / "applicants.csv")
    declined = table[table["decision"] == "declined"].drop(columns=["applicant", "decision"])
    return [json.loads(row) for row in declined.to_json(orient="records", lines=True).splitlines()]


@contextmanager
def serving(folder: Path) -> Iterator[tuple[str, psutil.Process]]:
    """Run a service in a process of its own, as long as the block lasts."""
    files = [str(folder / name) for name in ("model.skops", "applicants.csv", "credit.toml")]
    words = [*files[:2], "--settings", files[2], "--host", ADDRESS, "--port", "0", "--workers", "2", "-q"]
    log = folder / "log"
    with log.open("w") as file:
        process = subprocess.Popen([sys.executable, "-c", _RUN, "serve", *words[:-1]], stderr=file)
    try:
        while not (found := re.search(r"ready at (http://\S+)", log.read_text())):
            if process.poll() is not None:
                raise RuntimeError(log.read_text())
            time.sleep(0.1)
        yield found[1], psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait()


def measure(
    address: str, server: psutil.Process, rows: list[dict[str, Any]], clients: int, seconds: float
) -> dict[str, Any]:
    """Return what a number of clients see for some seconds."""
    found = Seen()
    before = found.memory = count_memory(server)
    asyncio.run(ask_all(address, server, rows, clients, seconds, found))
    answered = np.array(found.seconds)
    statuses = Counter(found.statuses)
    return {
        "clients": clients, "answered": statuses[200], "sent away (429)": statuses[429],
        "5xx": sum(n for status, n in statuses.items() if status >= 500),
        "others": sum(n for status, n in statuses.items() if status not in (200, 429) and status < 500),
        "answers per second": round(len(answered) / seconds, 1), "median s": round(float(np.median(answered)), 2),
        "p95 s": round(float(np.quantile(answered, 0.95)), 2), "longest s": round(float(answered.max()), 2),
        "server MB": round(found.server / _MB), "workers MB, before": round(before / _MB),
        "workers MB, at most": round(found.memory / _MB),
    }  # fmt: skip


class Seen:
    """What clients and the watcher of memory saw."""

    def __init__(self) -> None:
        self.statuses: list[int] = []
        self.seconds: list[float] = []
        self.memory = 0
        self.server = 0


def count_memory(server: psutil.Process) -> int:
    """Return the resident bytes of all workers."""
    return sum(one.memory_info().rss for one in server.children())


async def ask_all(
    address: str, server: psutil.Process, rows: list[dict[str, Any]], clients: int, seconds: float, found: Seen
) -> None:
    """Let clients ask until the time is over; what is under way is waited for."""
    import httpx

    end = time.monotonic() + seconds
    limits = httpx.Limits(max_connections=clients, max_keepalive_connections=clients)

    async with httpx.AsyncClient(base_url=address, limits=limits, timeout=120.0, trust_env=False) as client:

        async def ask(k: int) -> None:
            rng = np.random.default_rng(k)
            while time.monotonic() < end:
                start = time.monotonic()
                response = await client.post("/explain", json={"row": rows[rng.integers(len(rows))], "seed": k})
                found.statuses.append(response.status_code)
                if response.status_code == 200:
                    found.seconds.append(time.monotonic() - start)
                else:
                    await asyncio.sleep(min(1.0, float(response.headers.get("retry-after", 1))))

        async def watch() -> None:
            while True:
                found.memory = max(found.memory, count_memory(server))
                found.server = max(found.server, server.memory_info().rss)
                await asyncio.sleep(0.5)

        watching = asyncio.create_task(watch())
        await asyncio.gather(*(ask(k) for k in range(clients)))
        watching.cancel()


if __name__ == "__main__":
    main()
