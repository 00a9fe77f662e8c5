"""Services in processes of their own: one with a desk that does as it is told, and ways to start and ask them."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx

TESTS = Path(__file__).parents[1]


class ObedientDesk:
    """Answers with what it knows, or sleeps, dies and grows as the request says."""

    def __init__(self):
        self.kept = []

    def document(self):
        return {"openapi": "3.1.0"}

    def answer(self, asked):
        body = asked["body"]
        time.sleep(body.get("sleep", 0))
        if "die" in body:
            os.kill(os.getpid(), signal.SIGKILL)
        head = {"status": 200, "rows": 1, "model_rows": 7}
        if "keep" in body:
            self.kept.append(b"x" * body["keep"])
        if "take" in body:
            try:
                bytearray(body["take"])
            except MemoryError:
                return head | {"status": 503, "leaving": True}, b'{"error": "no memory"}'
        return head, json.dumps(asked | {"pid": os.getpid()}).encode()


def open_obedient(limits):
    return ObedientDesk()


def open_nothing(limits):
    raise ValueError("the table lacks\nthe column income")


def serve_obedient(**options):
    """Serve, with limits of a test."""
    import logging

    from gbce.serve import Limits, ServeError, _workers, serve

    patience = {name: options.pop(name) for name in ("body", "overtime") if name in options}
    for name, value in patience.items():
        object.__setattr__(_workers.PATIENCE, name, value)
    opener = open_nothing if options.pop("nothing", False) else open_obedient
    rest = {name: options.pop(name) for name in ("workers", "token", "port") if name in options}

    def say(text):
        sys.stderr.write(f"gbce: {text}\n")
        sys.stderr.flush()

    try:
        serve(opener, **{"host": "127.0.0.1", "port": 0, "name": "credit", **rest}, limits=Limits(**options), say=say,
              level=logging.INFO)  # fmt: skip
    except ServeError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(1)


class Running:
    """A service in a process, its client, and what it wrote to standard error."""

    def __init__(self, process, log):
        self.process, self._log = process, log
        self.url = self._find_address()
        self.client = httpx.Client(base_url=self.url, timeout=60.0, trust_env=False)

    @property
    def log(self):
        return self._log.read_text()

    def _find_address(self):
        for _ in range(600):
            found = re.search(r"ready at (http://\S+)", self.log)
            if found:
                return found[1]
            if self.process.poll() is not None:
                raise RuntimeError(f"the service ended: {self.log}")
            time.sleep(0.1)
        raise RuntimeError(f"the service is not ready: {self.log}")

    def ask(self, path="/explain", body=None, **options):
        return self.client.post(path, json={} if body is None else body, **options)

    def stop(self):
        """End it as a cluster would, and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


@contextlib.contextmanager
def running(command, log, **environment):
    """A service as long as the block lasts."""
    paths = os.pathsep.join([str(TESTS), *([os.environ["PYTHONPATH"]] if "PYTHONPATH" in os.environ else [])])
    with Path(log).open("w") as file:
        process = subprocess.Popen(
            command, stderr=file, stdout=subprocess.DEVNULL, env=os.environ | {"PYTHONPATH": paths} | environment
        )
    try:
        service = Running(process, Path(log))
        with service.client:
            yield service
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def obedient(**options):
    """The command of a service whose desk does as it is told."""
    return [sys.executable, "-c", f"from support.service import serve_obedient; serve_obedient(**{options!r})"]


def command_line(*words):
    """The command of ``gbce serve`` at a free port."""
    code = "import sys; from gbce.cli import main; sys.exit(main())"
    return [sys.executable, "-c", code, "serve", *map(str, words), "--port", "0"]


def children_of(process):
    """The processes that a service has started."""
    import psutil

    return psutil.Process(process.pid).children()


def alive(processes):
    """Those that still run after some seconds: one that ended may wait for somebody to ask for its exit code."""
    import psutil

    found = list(processes)
    for _ in range(100):
        left, found = found, []
        for one in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                if one.status() != psutil.STATUS_ZOMBIE:
                    found.append(one)
        if not found:
            break
        time.sleep(0.1)
    return found
