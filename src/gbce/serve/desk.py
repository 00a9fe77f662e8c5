"""What a worker knows: an explainer and how people write its targets; from a request in JSON to an answer in JSON."""

import json
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

import numpy as np
import pandas as pd

from gbce._validation import show
from gbce.base import Target
from gbce.budget import BudgetSpentError
from gbce.distributed import explain_partition
from gbce.explainer import Explainer
from gbce.explanation import Explanation, Status
from gbce.files import to_json
from gbce.predictors import PredictionError
from gbce.serve._schema import OPTIONS, VALUES, column_labels, column_values, write_document
from gbce.serve._workers import Limits, RequestError
from gbce.space import plain_records
from gbce.words import languages, letter_of, say_in_settings

__all__ = ["ExplainerDesk"]

_LOG = logging.getLogger("gbce.serve")
_UNFIT = (TypeError, ValueError, OverflowError)  # of the library: what is wrong with the input, as a sentence

_WARM_ROWS = 8  # that are tried before the first request, by hand: one that reaches the target takes no search

Forwarding = Callable[[Mapping[str, str]], AbstractContextManager[Any]]


def _forward_nothing(_: Mapping[str, str]) -> AbstractContextManager[Any]:
    return nullcontext()


@dataclass(frozen=True)
class ExplainerDesk:
    """An explainer that answers requests."""

    explainer: Explainer
    read_target: Callable[[str], Target]  # of what a person wrote
    limits: Limits
    target: str | None = None  # of requests that have none
    name: str = "model"
    rules: Sequence[str] | None = None
    reasons: Mapping[str, str] = field(default_factory=dict)  # of letters
    letter: Mapping[str, Any] = field(default_factory=dict)  # other options of letters
    examples: Sequence[str] = ()  # targets, for the description
    forwarding: Forwarding = _forward_nothing  # in its context, headers of a request are sent on to a predictor
    secured: bool = False  # whether requests need a token

    def warm_up(self) -> None:
        """Explain a row of the data, so that the first customer does not wait for what is compiled and learned once."""
        if self.target is None:
            return
        space, x = self.explainer.space, self.explainer._session.data
        fits = np.setdiff1d(np.arange(len(x)), space.misfits(x)["row"].to_numpy())
        target, options = self.read_target(self.target), self._read_options({})
        for i in fits[:_WARM_ROWS]:
            if self._explain_frame(space.frame(x[[i]]), target, options).status != Status.ALREADY_REACHED:
                return

    def document(self) -> dict[str, Any]:
        """Return the OpenAPI document."""
        return write_document(self.explainer, self.limits, self.name, self.target, self.examples, bool(self.reasons),
                              self.secured)  # fmt: skip

    def answer(self, asked: Mapping[str, Any]) -> tuple[dict[str, Any], bytes]:
        """Return facts about the answer to a request, and its content."""
        identity = asked["id"]
        head: dict[str, Any] = {"status": 200, "rows": 0, "model_rows": 0}
        try:
            with self.forwarding(asked["headers"]):
                content, facts = _KINDS[asked["kind"]](self, asked["body"])
            return head | facts, str(to_json({"request_id": identity} | content)).encode()
        except RequestError as error:
            status, reason = error.status, error.reason
        except PredictionError as error:
            status, reason = (502 if self.forwarding is not _forward_nothing else 500), _sentence(error)
        except MemoryError:
            status, reason = 503, f"there is not enough memory for this request within {self.limits.memory:,} B"
            head["leaving"] = True
        except Exception:
            _LOG.exception("%s failed", identity)
            status, reason = 500, "the explanation failed; the log of the service has the reason"
        content = {"error": reason, "request_id": identity}
        return head | {"status": status}, json.dumps(content, ensure_ascii=True).encode()

    # --- kinds of requests

    def _answer_one(self, body: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, int]]:
        """Answer a request about one row."""
        _require_known(body, ("row", *OPTIONS))
        if "row" not in body:
            raise RequestError(422, 'the request has no row: {"row": {column: value, ...}}')
        options = self._read_options(body)
        frame = self._read_rows([body["row"]], "row")
        target = self._require_target(body.get("target", self.target))
        with _refusing_unfit():
            self.explainer.space.encode_row(frame)
        explanation = self._explain_frame(frame, target, options)
        content: dict[str, Any] = {
            "sentence": explanation.status_note if explanation.answer is None else explanation.answer.sentence,
            "explanation": explanation.to_dict(),
        }
        refused: dict[str, str] = {}
        for what in options["include"]:
            try:
                content[what] = _PARTS[what](self, explanation, options)
            except ValueError as error:  # the sentence says why it must not be written
                content[what], refused[what] = None, _sentence(error)
        if options["include"]:
            content["refused"] = refused
        return content, {"rows": 1, "model_rows": int(explanation.diagnostics["n_model_rows"])}

    def _answer_batch(self, body: Mapping[str, Any], rows: str = "rows") -> tuple[dict[str, Any], dict[str, int]]:
        """Answer a request about many rows: one line for each, in order."""
        _require_known(body, (rows, *OPTIONS[: OPTIONS.index("include")]))
        if not isinstance(body.get(rows), list) or not body[rows]:
            raise RequestError(422, f"the request has no rows: {{{json.dumps(rows)}: [{{column: value, ...}}, ...]}}")
        options = self._read_options(body)
        frame = self._read_rows(body[rows], rows)
        target = self._require_target(body.get("target", self.target))
        with _refusing_unfit(bool({"max_model_rows", "seconds"} & set(body))):
            table = explain_partition(
                self.explainer, frame, target, seed=options["seed"], rules=self.rules, posterior=options["posterior"],
                max_model_rows=options["max_model_rows"], total_time=options["seconds"],
            )  # fmt: skip
        by_model = f"{PredictionError.__name__}: "
        if table["error"].str.startswith(by_model).all():  # no row of them is at fault
            raise PredictionError(table["error"].iloc[0].removeprefix(by_model))
        lines = [_nest(line) for line in plain_records(table)]
        return {"rows": lines}, {"rows": len(lines), "model_rows": int(table["n_model_rows"].sum())}

    def _answer_instances(self, body: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, int]]:
        """Answer KServe's V1 protocol, whose rows are called instances."""
        content, facts = self._answer_batch(body, "instances")
        return {"explanations": content["rows"]}, facts

    def _explain_frame(self, frame: pd.DataFrame, target: Target, options: Mapping[str, Any]) -> Explanation:
        with _refusing_unfit(options["limited"]):
            return self.explainer.explain(
                frame, target, rules=self.rules, seed=options["seed"], max_model_rows=options["max_model_rows"],
                time_budget=options["seconds"], posterior=options["posterior"], progress=False,
            )  # fmt: skip

    # --- parts of an answer

    def _list_alternatives(self, explanation: Explanation, options: Mapping[str, Any]) -> dict[str, Any]:
        found = explanation.alternatives(5)
        values = plain_records(explanation.space.frame(found.x)) if len(found) else []
        figures = found.table[["mass", "mass_se", "reached", "output", "cost", "reliability", "reliable", "sentence"]]
        lines = [line | {"row": row} for line, row in zip(plain_records(figures), values, strict=True)]
        return {"strategies": lines, "other": found.other, "other_se": found.other_se,
                "note": say_in_settings(found.note), "caveat": found.caveat}  # fmt: skip

    def _write_text(self, explanation: Explanation, options: Mapping[str, Any]) -> str:
        return explanation.to_text(options["language"], audience=options["audience"])

    def _write_page(self, explanation: Explanation, options: Mapping[str, Any]) -> str:
        return str(explanation.to_html())

    def _write_letter(self, explanation: Explanation, options: Mapping[str, Any]) -> dict[str, Any]:
        if not self.reasons:
            raise ValueError("this service has no reasons for letters: its settings need a table [reasons]")
        letter = letter_of(explanation, self.reasons, language=options["language"], **self.letter)
        reasons = [{"column": column, "text": text} for column, text in letter.reasons]
        return {"text": letter.text, "html": letter.html, "reasons": reasons, "receipt": letter.receipt}

    # --- reading a request

    def _read_options(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options of a request within the limits of the service."""
        limits = self.limits
        most = _read_number(body, "max_model_rows", 1, limits.model_rows, whole=True)
        seconds = _read_number(body, "seconds", 0.1, limits.seconds)
        seed = _read_number(body, "seed", 0, 2**63 - 1, whole=True)
        posterior = body.get("posterior", False)
        if not isinstance(posterior, bool):
            raise RequestError(422, f"posterior must be true or false, not {show(posterior)}")
        include = body.get("include", [])
        if not isinstance(include, list) or not all(isinstance(one, str) for one in include):
            raise RequestError(422, f"include must be a list of {', '.join(VALUES['include'])}, not {show(include)}")
        found: dict[str, Any] = {"include": list(dict.fromkeys(include))}
        for one in include:
            _require_one_of("each of include", one, VALUES["include"])
        for name in ("language", "audience"):
            found[name] = body.get(name, VALUES[name][0])
            _require_one_of(name, found[name], languages() if name == "language" else VALUES[name])
        return found | {
            "seed": 0 if seed is None else int(seed), "posterior": posterior,
            "max_model_rows": limits.model_rows if most is None else int(most),
            "seconds": limits.seconds if seconds is None else float(seconds),
            "limited": most is not None or seconds is not None,
        }  # fmt: skip

    def _read_rows(self, rows: Sequence[Any], what: str) -> pd.DataFrame:
        """Return rows of JSON, mappings of columns or lists in their order, as a frame."""
        space = self.explainer.space
        labels = column_labels(space)
        known = column_values(space)
        lines = []
        for i, row in enumerate(rows):
            name = what if what == "row" else f"{what}[{i}]"
            if isinstance(row, list) and len(row) == len(labels):
                row = dict(zip(labels, row, strict=True))
            if not isinstance(row, dict):
                raise RequestError(422, f"{name} must be an object of columns and values: {', '.join(labels)}")
            missing, surplus = [one for one in labels if one not in row], [one for one in row if one not in labels]
            if missing or surplus:
                parts = [f"lacks {', '.join(map(show, missing))}"] * bool(missing)
                parts += [f"has also {', '.join(map(show, surplus))}"] * bool(surplus)
                raise RequestError(422, f"{name} {' and '.join(parts)}; the columns are {', '.join(labels)}")
            for column, value in row.items():
                if isinstance(value, (dict, list)):
                    raise RequestError(
                        422, f"{name}: {column} must be a number, a string, true, false or null, not {show(value)}"
                    )
                if isinstance(value, int) and abs(value) > sys.float_info.max:
                    raise RequestError(422, f"{name}: {column} is too large for a number")
                if isinstance(value, bool) and column not in known:  # which would be read as 1 or 0
                    raise RequestError(422, f"{name}: {column} must not be {json.dumps(value)}")
            lines.append({one: known[one].get(row[one], row[one]) if one in known else row[one] for one in labels})
        return pd.DataFrame(lines, columns=labels)

    def _require_target(self, text: Any) -> Target:
        """Return the target of a request, else that of the service."""
        if text is None:
            raise RequestError(422, 'the request has no target, and neither has the service: {"target": "..."}')
        if not isinstance(text, str):
            raise RequestError(422, f"target must be a string, not {show(text)}")
        with _refusing_unfit():
            return self.read_target(text)


class _refusing_unfit:
    """Turn what the library says about unfit input into a refused request."""

    def __init__(self, limited: bool = False) -> None:
        self.limited = limited

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: Any, error: BaseException | None, _: Any) -> None:
        if isinstance(error, BudgetSpentError):
            raise RequestError(422 if self.limited else 503, _sentence(error)) from None
        if isinstance(error, _UNFIT):
            raise RequestError(422, _sentence(error)) from None


def _sentence(error: BaseException) -> str:
    return say_in_settings(" ".join(str(error).split())) or type(error).__name__


def _require_known(body: Mapping[str, Any], known: Sequence[str]) -> None:
    """Refuse a request with an unknown option."""
    for name in body:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(known)}"
            raise RequestError(422, f"there is no option {show(name)}{hint}")


def _require_one_of(name: str, value: Any, known: Sequence[str]) -> None:
    """Refuse a request with another value than the known ones."""
    if value not in known:
        raise RequestError(422, f"{name} must be one of {', '.join(known)}, not {show(value)}")


def _read_number(body: Mapping[str, Any], name: str, low: float, high: float, whole: bool = False) -> float | None:
    """Return a number of a request within its limits; ``None`` if it has none."""
    if name not in body:
        return None
    value = body[name]
    kind = "an integer" if whole else "a number"
    fits = isinstance(value, (int, float)) and not isinstance(value, bool) and (not whole or value == int(value))
    if not fits or not low <= value <= high:
        raise RequestError(422, f"{name} must be {kind} from {low:g} to {high:g}, not {show(value)}")
    return value


def _nest(line: dict[str, Any]) -> dict[str, Any]:
    """Return the line of a row with the values to aim for as one object, ``null`` if there are none."""
    prefix = "answer_"
    row = {name.removeprefix(prefix): value for name, value in line.items() if name.startswith(prefix)}
    own = {name: value for name, value in line.items() if not name.startswith(prefix)}
    return own | {"row": row if own["kind"] else None}


_KINDS: dict[str, Callable[[ExplainerDesk, Mapping[str, Any]], tuple[dict[str, Any], dict[str, int]]]] = {
    "explain": ExplainerDesk._answer_one,
    "batch": ExplainerDesk._answer_batch,
    "instances": ExplainerDesk._answer_instances,
}
_PARTS: dict[str, Callable[[ExplainerDesk, Explanation, Mapping[str, Any]], Any]] = {
    "alternatives": ExplainerDesk._list_alternatives,
    "text": ExplainerDesk._write_text,
    "page": ExplainerDesk._write_page,
    "letter": ExplainerDesk._write_letter,
}
