"""All cells of a comparison, a few at a time, each in a process of its own; what is done stays done."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

from benchmarks.rivals._cell import Settings, file_of, write_whole

__all__ = ["SettingsDifferError", "require_same", "run"]

ROOT = Path(__file__).resolve().parents[2]
_PATIENCE = 4.0  # times the seconds of a method, and a minute: then its process is ended, whatever it waits for
_SETTING_UP = 900.0  # seconds in which models are fitted and refitted before the first method


class SettingsDifferError(ValueError):
    """A folder holds a run with other settings."""


def run(
    folder: Path, cells: Sequence[tuple[str, str]], settings: Settings, jobs: int, tell: Callable[[str], None] = print
) -> None:
    """Run what has no file yet.

    Parameters
    ----------
    folder : Path
        Where files are kept, with the settings that they belong to.
    cells : sequence of (str, str)
        Tables and models.
    settings : Settings
        The same for all.
    jobs : int
        Processes at a time.
    tell : callable
        Is told of each method that is done.

    Raises
    ------
    SettingsDifferError
        If the folder holds a run with other settings.
    """
    require_same(folder, settings)
    progress = _Progress(len(cells) * len(settings.methods), tell)
    with ThreadPoolExecutor(jobs) as pool:
        for _ in pool.map(lambda cell: _Watched(folder, cell[0], cell[1], settings, progress).run(), cells):
            pass


def require_same(folder: Path, settings: Settings) -> None:
    """Keep the settings, and compare them with those of a run that is to go on; methods may be added.

    Raises
    ------
    SettingsDifferError
        If the folder holds a run with other settings.
    """
    path, own = folder / "settings.json", json.loads(json.dumps(asdict(settings)))
    if path.exists():
        kept = json.loads(path.read_text(encoding="utf-8"))
        others = [name for name in own if name != "methods" and kept.get(name) != own[name]]
        if others:
            said = ", ".join(f"{name} {kept.get(name)!r} instead of {own[name]!r}" for name in others)
            raise SettingsDifferError(f"{folder} holds a run with {said}: give another --folder, or delete this one")
    write_whole(path, json.dumps(own, indent=1))


class _Progress:
    """How many methods are done."""

    def __init__(self, n: int, tell: Callable[[str], None]) -> None:
        self._n, self._tell, self._done = n, tell, 0
        self._begun, self._lock = time.monotonic(), threading.Lock()

    def add(self, what: str) -> None:
        """Count one, and say so."""
        with self._lock:
            self._done += 1
            minutes = (time.monotonic() - self._begun) / 60
            self._tell(f"{self._done:>4} of {self._n} {minutes:6.1f} min  {what}")


class _Watched:
    """A cell's process, begun again without the method that took it down or would not end."""

    def __init__(self, folder: Path, table: str, model: str, settings: Settings, progress: _Progress) -> None:
        self._folder, self._table, self._model = folder, table, model
        self._settings, self._progress = settings, progress

    def run(self) -> None:
        """Run until every method has a file; a cell that cannot even be set up has one line for each."""
        for method in self._settings.methods:
            if self._file(method).exists():
                self._done(method)
        while left := [method for method in self._settings.methods if not self._file(method).exists()]:
            at_work, why = self._run_once()
            if not why:
                continue
            for method in [at_work] if at_work else left:
                if self._file(method).exists():  # it ended after its work was done
                    self._done(method)
                else:
                    self._give_up(method, why)

    def _run_once(self) -> tuple[str, str]:
        """Run the process; return the method at work when it ended before its time, and why, or nothing."""
        about = [str(self._folder.resolve()), self._table, self._model, json.dumps(asdict(self._settings))]
        command = [sys.executable, "-m", "benchmarks.rivals._cell", *about]
        alone, pipe = os.environ | {"OMP_NUM_THREADS": "1"}, subprocess.PIPE
        with subprocess.Popen(command, cwd=ROOT, env=alone, stdout=pipe, stderr=pipe, text=True) as process:
            return self._watch(process)

    def _watch(self, process: subprocess.Popen[str]) -> tuple[str, str]:
        """Follow a process, which prints each method before it begins with it."""
        assert process.stdout is not None
        errors: list[str] = []
        reader = threading.Thread(target=lambda: errors.extend(process.stderr or ()), daemon=True)
        reader.start()
        at_work, ended = "", [False]
        clock = self._clock(process, _SETTING_UP, ended)
        try:
            for line in process.stdout:
                clock.cancel()
                if at_work:
                    self._done(at_work)
                at_work = line.strip()
                clock = self._clock(process, _PATIENCE * self._settings.seconds + 60.0, ended)
            code = process.wait()
        finally:
            clock.cancel()
            process.kill()
            reader.join()
        if code == 0:
            if at_work:
                self._done(at_work)
            return "", ""
        said = "it would not end" if ended[0] else next((e.strip() for e in reversed(errors) if e.strip()), "no word")
        return at_work, f"its process ended with {code}: {said[:200]}"

    def _clock(self, process: subprocess.Popen[str], seconds: float, ended: list[bool]) -> threading.Timer:
        def end() -> None:
            ended[0] = True
            process.kill()

        clock = threading.Timer(seconds, end)
        clock.daemon = True
        clock.start()
        return clock

    def _give_up(self, method: str, why: str) -> None:
        about = {"table": self._table, "model": self._model, "method": method, "note": why, "lines": []}
        write_whole(self._file(method), json.dumps(about | {"asked": 0, "reached": 0}))
        self._done(method)

    def _done(self, method: str) -> None:
        about = json.loads(self._file(method).read_text(encoding="utf-8"))
        note = f": {about['note']}" if about["note"] else ""
        of_models = about["lines"] and not about["reached"]  # what compares models has no row to count
        rows = f"{len(about['lines'])} lines" if of_models else f"{about['reached']} of {about['asked']} rows"
        self._progress.add(f"{self._table}, {self._model}, {method}: {rows}{note}")

    def _file(self, method: str) -> Path:
        return file_of(self._folder, self._table, self._model, method)
