"""One table and one model: every method answers its rows and is judged, and is on file before the next begins.

A process of its own runs it, so that a method which takes the process with it costs itself only.
"""

import json
import os
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks._clock import at_most
from benchmarks.rivals._changed import changed_models
from benchmarks.rivals._judge import Judge
from benchmarks.rivals._measures import MEASURES
from benchmarks.rivals._methods import METHODS
from benchmarks.rivals._model import CountedModel
from benchmarks.rivals._problem import OwnTable, Problem, problem_of
from benchmarks.rivals._protocol import CannotRunError, Found, Method, Rival
from benchmarks.rivals._wish import Wish

__all__ = ["Cell", "Settings", "file_of", "write_whole"]

MOST_REFITS = 32  # that any method asks for: BetaRCE, as published
_FAILED = "failed: "  # how the note of a row begins in which a method broke


@dataclass(frozen=True)
class Settings:
    """What a run is asked for.

    Parameters
    ----------
    methods : tuple of str
        Their names, and those of measures.
    rows : int
        Of each table and model.
    seconds : float
        Of one core, for each method, table and model; rows that are not reached are not run.
    seed : int
        Of all methods.
    own : OwnTable, optional
        A user's table and model in place of the others.
    """

    methods: tuple[str, ...]
    rows: int = 25
    seconds: float = 60.0
    seed: int = 0
    own: OwnTable | None = None

    @classmethod
    def read(cls, text: str) -> "Settings":
        """Return settings that were written as JSON."""
        said = json.loads(text)
        own = said.pop("own")
        return cls(**said | {"methods": tuple(said["methods"]), "own": own and OwnTable(**own)})


class TooLongError(BaseException):
    """The time of a method is over; no method may take it for an error of its own."""


def file_of(folder: Path, table: str, model: str, method: str) -> Path:
    """Return where the lines of one method are kept."""
    parts = ["".join(c if c.isalnum() else "-" for c in part) for part in (table, model, method)]
    return folder / "cells" / f"{'--'.join(parts)}.json"


def write_whole(path: Path, content: str) -> None:
    """Write a file, all of it or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(content, encoding="utf-8")
    os.replace(part, path)


class Cell:
    """The methods that have yet to answer for one table and model.

    Parameters
    ----------
    folder : Path
        Where files are kept.
    table, model : str
        Their names.
    settings : Settings
        What was asked for.
    """

    def __init__(self, folder: Path, table: str, model: str, settings: Settings) -> None:
        self._folder, self._table, self._model, self._settings = folder, table, model, settings

    def run(self) -> None:
        """Let each method answer that has no file yet."""
        methods = [m for m in METHODS if m.name in self._settings.methods and not self._file(m.name).exists()]
        measures = [name for name in MEASURES if name in self._settings.methods and not self._file(name).exists()]
        if not methods and not measures:
            return
        problem = problem_of(self._table, self._model, self._settings.rows, self._settings.own)
        judge = Judge(problem, _changed(problem))
        if methods:
            _refits(problem)  # before anybody's clock is started, also the one that ends the process
        for method in methods:
            print(method.name, flush=True)  # who is to blame if the process ends here
            self._answered(method, problem, judge)
        for name in measures:
            print(name, flush=True)
            self._measured(name, problem)

    def _answered(self, method: Method, problem: Problem, judge: Judge) -> None:
        """Ask one method about all rows within its time, judge what it says, and write that down."""
        found: list[tuple[dict[str, Any], Found]] = []
        models = [CountedModel(problem.case.model), *_refits(problem)]
        note = self._noted(self._asking(method.make(), problem, models), found)
        note = "; ".join(filter(None, [note, _failures([one for _, one in found])]))
        named = [(fact, name, answer) for fact, one in found for name, answer in one.answers.items()]
        rows = [problem.rows.iloc[[fact["row"]]] for fact, _, _ in named]
        judged = judge.judge([answer for _, _, answer in named], rows, self._settings.seed)
        lines = [{**fact, "answer": name, **asdict(one)} for (fact, name, _), one in zip(named, judged, strict=True)]
        lines += [{**fact, "answer": ""} for fact, one in found if not one.answers]
        self._write(method.name, note, lines, asked=len(problem.rows), reached=len(found))

    def _asking(
        self, rival: Rival, problem: Problem, models: list[CountedModel]
    ) -> Iterator[tuple[dict[str, Any], Found] | None]:
        """Fit a method, and ask it about row after row; its first word is none, when it is fitted."""
        rival.fit(models[0], problem.data, problem.case.space)
        yield None
        for i in range(len(problem.rows)):
            row = problem.rows.iloc[[i]]
            wish, before = problem.wish(row), sum(model.rows for model in models)
            begun = time.process_time()
            answer = _answer(rival, row, wish, self._settings.seed)
            seconds = time.process_time() - begun + answer.elsewhere
            asked = sum(model.rows for model in models) - before
            yield {"row": i, "seconds": seconds, "model_rows": asked, "said": answer.note}, answer

    def _measured(self, name: str, problem: Problem) -> None:
        """Write down what a measure comes to within its time."""
        lines: list[dict[str, Any]] = []
        note = self._noted(MEASURES[name](problem, self._settings.seed), lines)
        rows = _count_rows(lines)
        self._write(name, note, lines, asked=len(problem.rows), reached=rows)

    def _noted(self, said: Iterator[Any], into: list[Any]) -> str:
        """Collect what is said until the time is over; return what went wrong."""
        left = self._settings.seconds
        try:
            while True:
                begun = time.process_time()
                with at_most(left, TooLongError()):
                    one = next(said)
                left -= time.process_time() - begun
                if one is not None:
                    left -= one[1].elsewhere if isinstance(one, tuple) else 0.0
                    into.append(one)
        except StopIteration:
            return ""
        except CannotRunError as error:
            return str(error)
        except TooLongError:
            return f"not run after row {_count_rows(into)}: {self._settings.seconds:g} s were over"
        except Exception as error:  # a method that breaks is a finding, not the end of the run
            return _in_words(error)

    def _write(self, name: str, note: str, lines: list[dict[str, Any]], *, asked: int, reached: int) -> None:
        about: dict[str, Any] = {"table": self._table, "model": self._model, "method": name, "note": note}
        about |= {"asked": asked, "reached": reached, "lines": lines}
        write_whole(self._file(name), json.dumps(about, default=float))

    def _file(self, method: str) -> Path:
        return file_of(self._folder, self._table, self._model, method)


def _answer(rival: Rival, row: pd.DataFrame, wish: Wish, seed: int) -> Found:
    """Return what a method says of a row; where it breaks, that is what it says."""
    try:
        return rival.counterfactual(row, wish, seed)
    except CannotRunError:
        raise
    except Exception as error:  # the other rows may do better
        return Found(note=f"{_FAILED}{_in_words(error)}")


def _in_words(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error)[:200]}".replace("\n", " ")


def _failures(found: Sequence[Found]) -> str:
    """Return in how many rows a method broke, and what was said last."""
    said = [one.note.removeprefix(_FAILED) for one in found if one.note.startswith(_FAILED)]
    return f"{len(said)} of {len(found)} rows failed: {said[-1]}" if said else ""


def _count_rows(lines: Sequence[Any]) -> int:
    """Return of how many rows lines speak."""
    facts = [line[0] if isinstance(line, tuple) else line for line in lines]
    return len({fact["row"] for fact in facts if "row" in fact})


def _refits(problem: Problem) -> list[CountedModel]:
    """Return what methods may look at, fitted the first time."""
    return [] if problem.data.learn is None else problem.data.refits(MOST_REFITS)


def _changed(problem: Problem) -> dict[str, Sequence[Any]]:
    return {} if problem.learn is None else dict(changed_models(problem.learn, problem.data, 0, problem.others))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    pd.options.mode.copy_on_write = True  # methods may not write into the tables of others
    Cell(Path(sys.argv[1]), sys.argv[2], sys.argv[3], Settings.read(sys.argv[4])).run()
