"""Do what the Dockerfile says without a container: copy, install in a new environment, serve, ask once, and stop.

``python examples/service/rehearse.py``; instructions of the system (``apt-get``, ``useradd``) are left out.
"""

import json
import re
import shlex
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = Path(__file__).parent / "Dockerfile"
ROW = {"age": 40, "income": 2000, "debt": 3000, "savings": 100, "years_employed": 2, "purpose": "car"}


def instructions() -> list[tuple[str, str]]:
    """Return the instructions of the Dockerfile with their arguments, lines that go on joined."""
    lines = re.sub(r"\\\n", " ", DOCKERFILE.read_text()).splitlines()
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in lines if line and not line.startswith("#")]


def command() -> list[str]:
    """Return what the container runs."""
    found = dict(instructions())
    return [*json.loads(found["ENTRYPOINT"]), *json.loads(found["CMD"])]


def rehearse(place: Path) -> None:
    """Build and run it in a folder."""
    app, binaries = place / "app", place / "venv" / "bin"
    app.mkdir()
    subprocess.run([sys.executable, "-m", "venv", place / "venv"], check=True)
    for kind, words in instructions():
        *names, to = words.split()
        if kind == "COPY" and names != ["examples/service/files"]:
            subprocess.run(["cp", "-r", *names, str(app / to)], check=True, cwd=ROOT)
        if kind == "RUN" and words.startswith("pip"):
            subprocess.run([str(binaries / "python"), "-m", *shlex.split(words)], check=True, cwd=app)
    subprocess.run([str(binaries / "gbce"), "demo", str(place / "models"), "-q"], check=True)
    words_run = [one.replace("/mnt/models", str(place / "models")) for one in command()]
    log = place / "log"
    with log.open("w") as file:
        service = subprocess.Popen([str(binaries / words_run[0]), *words_run[1:], "--port", "0"], stderr=file)
    while not (found := re.search(r"ready at http://[^:]+:(\d+)", log.read_text())):
        if service.poll() is not None:
            raise RuntimeError(log.read_text())
        time.sleep(0.2)
    content = json.dumps({"row": ROW}).encode()
    asked = urllib.request.Request(
        f"http://127.0.0.1:{found[1]}/explain", content, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(asked) as response:
        print(response.status, json.load(response)["sentence"])
    service.terminate()
    print("exit code", service.wait())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        rehearse(Path(folder))
