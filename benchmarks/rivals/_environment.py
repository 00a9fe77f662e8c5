"""Packages that cannot share an environment with gbce: one of their own, and a process in it to talk with."""

import json
import subprocess
import sys
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from benchmarks.rivals._protocol import CannotRunError

__all__ = ["Environment", "Process"]

_HOME = Path(__file__).parents[2] / "out" / "environments"
_LATER = 5.0  # seconds that a process has to end by itself


@dataclass(frozen=True)
class Environment:
    """A virtual environment, made once and kept under ``out/environments``.

    Parameters
    ----------
    name : str
        Of its folder.
    requirements : sequence of str
        What pip installs; another list is another environment.
    home : Path
        Where environments are.
    """

    name: str
    requirements: Sequence[str]
    home: Path = _HOME

    @property
    def folder(self) -> Path:
        """Where it is."""
        return self.home / self.name

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    @property
    def ready(self) -> bool:
        """Whether it was made, with these requirements."""
        note = self._note
        return note.exists() and note.read_text().splitlines() == list(self.requirements)

    def version(self, package: str) -> str:
        """Return the version of a package in it; empty if it is not there."""
        if not self.ready:
            return ""
        places = [str(place) for place in self.folder.glob("lib/python*/site-packages")]
        return next((found.version for found in distributions(name=package, path=places)), "")

    def make(self) -> None:
        """Make it, unless it is there.

        Raises
        ------
        CannotRunError
            If pip does not succeed.
        """
        if self.ready:
            return
        self._note.unlink(missing_ok=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(self.folder)], check=True, capture_output=True)
        # alone, or it takes what lies on PYTHONPATH for installed
        pip = [str(self.python), "-I", "-m", "pip", "install", "--quiet", *self.requirements]
        done = subprocess.run(pip, capture_output=True, text=True)
        if done.returncode:
            said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or ["no reason given"]
            raise CannotRunError(f"cannot be installed in an environment of its own: {said[-1]}")
        self._note.write_text("\n".join(self.requirements) + "\n")

    @property
    def _note(self) -> Path:
        return self.folder / "requirements.txt"


class Process:
    """A script in another environment: one JSON line each way, and questions back in between.

    The script answers each line it is told with ``{"ask": ...}``, as often as it likes, and in the end with
    ``{"done": ..., "seconds": ...}``, the latter those of one core that it has taken so far, or ``{"failed": "why"}``.

    Parameters
    ----------
    python : Path
        The interpreter.
    script : Path
        What it runs.
    """

    def __init__(self, python: Path, script: Path) -> None:
        self._process = subprocess.Popen(
            [str(python), "-I", str(script)],  # nothing of this environment, and no neighbours of the script
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.seconds = 0.0  # of one core, when it was done last
        self.close = weakref.finalize(self, _end, self._process)  # closes what nobody closed

    def tell(self, message: Any, answer: Callable[[Any], Any]) -> Any:
        """Tell it something, answer what it asks, and return what it comes to.

        Raises
        ------
        RuntimeError
            If the script fails or ends.
        """
        self._send(message)
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said = json.loads(line)
            if "ask" not in said:
                if "failed" in said:
                    raise RuntimeError(said["failed"])
                self.seconds = float(said.get("seconds", 0.0))
                return said["done"]
            self._send(answer(said["ask"]))
        raise RuntimeError(f"the process of its own ended with code {self._process.wait()}")

    def _send(self, message: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()


def _end(process: subprocess.Popen[str]) -> None:
    """Close the pipes, at which a script ends, and wait for it."""
    for pipe in (process.stdin, process.stdout):
        assert pipe is not None
        try:
            pipe.close()
        except BrokenPipeError:
            continue  # it ended before it was told everything
    try:
        process.wait(_LATER)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
