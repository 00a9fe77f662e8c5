"""The OpenAPI document of a service, from its Space: columns with their types, levels and bounds."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from gbce.explainer import Explainer
from gbce.files import json_schema
from gbce.serve._workers import Limits
from gbce.space import Feature, Space, plain_value
from gbce.words import languages

# Options of a request; those of one row alone come last.
OPTIONS = (
    "target", "seed", "posterior", "max_model_rows", "seconds", "include", "language", "audience",
)  # fmt: skip
VALUES = {
    "include": ("alternatives", "text", "page", "letter"),
    "language": ("en", *sorted(set(languages()) - {"en"})),
    "audience": ("person", "analyst"),
}
_LARGEST_SEED = 2**63 - 1  # seeds are int64 in tables of answers
_SHORTEST = 0.1  # seconds of a request, by hand: below, not even the row is evaluated


def column_labels(space: Space) -> list[str]:
    """Return the names of the columns of a row."""
    return [str(label) for label in (space.columns or space.names)]


def column_values(space: Space) -> dict[str, dict[Any, Any]]:
    """Return for each column with levels the level that each value of JSON stands for."""
    found = {}
    for codec in space.codecs:
        levels = getattr(codec, "levels", None)
        if levels is not None:
            found[str(codec.labels[0])] = {plain_value(level): level for level in levels}
    return found


# --- rows ------------------------------------------------------------------------------------------------------------


def _describe_row(space: Space) -> dict[str, Any]:
    """Return the schema of a row."""
    columns: dict[str, Any] = {}
    for feature, codec in zip(space.features, space.codecs, strict=True):
        if len(codec.labels) > 1:  # the columns of a one-hot group
            columns |= {str(label): {"enum": [0, 1], "description": feature.name} for label in codec.labels}
        else:
            columns[str(codec.labels[0])] = _describe_column(feature, codec)
    labels = column_labels(space)
    return {
        "type": "object",
        "required": labels,
        "properties": {label: columns[label] for label in labels},
        "additionalProperties": False,
    }


def _describe_column(feature: Feature, codec: Any) -> dict[str, Any]:
    """Return the schema of one column: its type, levels and bounds."""
    kind: dict[str, Any]
    if codec.levels is not None:
        kind = {"enum": [plain_value(level) for level in codec.levels] + [None] * (feature.missing is not None)}
    elif codec.tick:
        duration = codec.dtype.startswith("timedelta")
        kind = {"type": "string", "format": "duration" if duration else "date-time"}
    else:
        whole = codec.dtype.lower().startswith(("int", "uint"))
        kind = {"type": "integer" if whole else "number"}
        if not feature.stretch:
            ends = {"minimum": feature.low, "maximum": feature.high}
            kind |= {name: _plain_end(end, whole) for name, end in ends.items() if end is not None}
    if feature.missing is not None and "type" in kind:
        kind["type"] = [kind["type"], "null"]
    return kind | {"description": _tell_column(feature)}


def _plain_end(end: float, whole: bool) -> float | int:
    return int(end) if whole and end == int(end) else end


def _tell_column(feature: Feature) -> str:
    """Return what an answer may do with a column."""
    name = feature.label or feature.name
    unit = f", in {feature.unit}" if feature.unit else ""
    if not feature.mutable:
        return f"{name}{unit}; never changed"
    way = {"any": "may change", "increase": "may only increase", "decrease": "may only decrease"}[feature.direction]
    ends = [None if feature.levels is not None else end for end in (feature.low, feature.high)]
    low, high = (None if end is None else f"{end:g}" for end in ends)
    limits = f", from {low}" * (low is not None) + f", up to {high}" * (high is not None)
    return f"{name}{unit}; {way}{limits}"


# --- questions and answers -------------------------------------------------------------------------------------------


def _describe_options(limits: Limits, target: str | None, examples: Sequence[str]) -> dict[str, Any]:
    default = {} if target is None else {"default": target}
    return {
        "target": {
            "type": "string",
            "description": "what is wanted of the model: a class (approved), approved>=0.8, <=140, >=10, +10%, -5, "
            "0.8..1",
            "examples": list(examples) or ["<=140"],
            "pattern": _write_pattern(examples),
            **default,
        },
        "seed": {"type": "integer", "minimum": 0, "maximum": _LARGEST_SEED, "default": 0,
                 "description": "the same seed gives the same answer"},
        "posterior": {"type": "boolean", "default": False,
                      "description": "whether to draw the posterior, which takes many times as long"},
        "max_model_rows": {"type": "integer", "minimum": 1, "maximum": limits.model_rows, "default": limits.model_rows,
                           "description": "largest number of model rows for each explained row"},
        "seconds": {"type": "number", "minimum": _SHORTEST, "maximum": limits.seconds, "default": limits.seconds,
                    "description": "do not call the model after this time"},
        "include": {"type": "array", "items": {"enum": list(VALUES["include"])}, "default": [],
                    "description": "what to add to the answer: alternatives with shares (with posterior), sentences, "
                    "an HTML page, a letter with the reasons of the settings"},
        "language": {"enum": list(VALUES["language"]), "default": "en", "description": "of text and letter"},
        "audience": {"enum": list(VALUES["audience"]), "default": "person", "description": "of text"},
    }  # fmt: skip


def _write_pattern(classes: Sequence[str]) -> str:
    """Return the regular expression of targets as people write them; JSON Schema has that of JavaScript."""
    if classes:
        labels = "|".join(re.sub(r"([\\^$.*+?()\[\]{}|/])", r"\\\1", label) for label in classes)
        share = r"0?\.[0-9]{1,6}"
        return f"^({labels})( ?(>=|≥) ?{share}|(=|:){share}\\.\\.1)?$"
    number = r"[-+]?[0-9]{1,15}(\.[0-9]{1,9})?"
    return f"^((<=|≤|>=|≥|=) ?{number}|[-+][0-9]{{1,9}}(\\.[0-9]{{1,9}})?( ?%)?|{number}(\\.\\.|±){number})$"


def _describe_explanation() -> dict[str, Any]:
    """Return the published schema, its references as they are within the document."""
    own = "#/components/schemas/Explanation/$defs/"
    written = json.dumps({k: v for k, v in json_schema().items() if k != "$schema"}).replace('"#/$defs/', f'"{own}')
    found: dict[str, Any] = json.loads(written)
    return found


_NUMBER: dict[str, Any] = {"type": ["number", "null"]}
_WORDS: dict[str, Any] = {"type": "string"}


def _describe_line() -> dict[str, Any]:
    """Return the schema of the line of one row of a batch."""
    figures = (
        "cost", "output", "reliability", "reliability_low", "reliability_high", "survival", "success_probability",
        "success_probability_se",
    )  # fmt: skip
    own: dict[str, Any] = {
        "status": {"enum": ["attainable", "already reached", "not attained", "failed"]},
        "sampling": _WORDS, "seed": {"type": "integer"}, "n_model_rows": {"type": "integer"},
        "error": {"type": "string", "description": "why the row could not be explained; empty if it could"},
        "kind": _WORDS, "reached": {"type": "boolean"}, "n_changes": {"type": "integer"}, "changes": _WORDS,
        "sentence": _WORDS, **dict.fromkeys(figures, _NUMBER),
        "row": {"type": ["object", "null"], "description": "the values to aim for, by column"},
    }  # fmt: skip
    return {"type": "object", "required": list(own), "properties": own}


def _describe_parts() -> dict[str, Any]:
    """Return the schemas of the parts of an answer that a request may include."""
    texts = {"text": _WORDS, "html": _WORDS, "receipt": _WORDS, "reasons": {"type": "array"}}
    strategies = {"strategies": {"type": "array", "items": {"type": "object"}}, "other": {"type": "number"},
                  "other_se": {"type": "number"}, "note": _WORDS, "caveat": _WORDS}  # fmt: skip
    return {
        "alternatives": {"type": ["object", "null"], "properties": strategies},
        "text": {"type": ["string", "null"]},
        "page": {"type": ["string", "null"], "description": "an HTML document"},
        "letter": {"type": ["object", "null"], "properties": texts},
        "refused": {"type": "object", "additionalProperties": _WORDS,
                    "description": "why a requested part must not be written"},
    }  # fmt: skip


_ERRORS = {
    400: "the body is not JSON", 401: "the token is missing or wrong", 408: "the body did not arrive in time",
    413: "the body is too large, or has too many rows",
    415: "the content type is not application/json, or the body is compressed",
    422: "the row does not fit the table, or an option is wrong", 429: "too many requests wait; see Retry-After",
    500: "the explanation failed", 502: "the predictor failed",
    503: "no worker is ready, or it ran out of memory", 504: "there was no answer in time",
}  # fmt: skip


def _refer(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


def _describe_path(summary: str, asked: str, answered: str, codes: Sequence[int]) -> dict[str, Any]:
    """Return one path that takes and returns JSON."""

    def holds(schema: str) -> dict[str, Any]:
        return {"content": {"application/json": {"schema": _refer(schema)}}}

    errors = {str(code): {"description": _ERRORS[code], **holds("Error")} for code in codes}
    return {
        "post": {
            "summary": summary,
            "requestBody": {"required": True, **holds(asked)},
            "responses": {"200": {"description": "answered", **holds(answered)}, **errors},
        }
    }


def _describe_state(summary: str, codes: Mapping[str, str], kind: str = "application/json") -> dict[str, Any]:
    schema = {"type": "object"} if kind == "application/json" else {"type": "string"}
    responses = {code: {"description": text, "content": {kind: {"schema": schema}}} for code, text in codes.items()}
    return {"get": {"summary": summary, "security": [], "responses": responses}}


def write_document(
    explainer: Explainer,
    limits: Limits,
    name: str,
    target: str | None,
    examples: Sequence[str],
    letters: bool,
    secured: bool,
) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of a service."""
    from gbce import __version__

    row = _describe_row(explainer.space)
    options = _describe_options(limits, target, examples)
    if not letters:
        options["include"]["items"] = {"enum": [one for one in VALUES["include"] if one != "letter"]}
    many = {one: options[one] for one in OPTIONS[: OPTIONS.index("include")]}
    needed = [] if target is not None else ["target"]
    listed = [column for column in column_labels(explainer.space)]
    rows = {"type": "array", "items": _refer("Row"), "minItems": 1, "maxItems": limits.batch_rows}
    identity = {"request_id": _WORDS}

    def asks(properties: Mapping[str, Any], first: str) -> dict[str, Any]:
        return {"type": "object", "required": [first, *needed], "properties": dict(properties),
                "additionalProperties": False}  # fmt: skip

    def answers(properties: Mapping[str, Any], required: Sequence[str]) -> dict[str, Any]:
        return {"type": "object", "required": ["request_id", *required], "properties": {**identity, **properties}}

    schemas = {
        "Row": row,
        "Question": asks({"row": _refer("Row"), **options}, "row"),
        "Batch": asks({"rows": rows, **many}, "rows"),
        "Instances": asks({"instances": rows | {"description": f"also lists, in the order {listed}"}, **many},
                          "instances"),
        "Answer": answers({"sentence": _WORDS, "explanation": _refer("Explanation"), **_describe_parts()},
                          ["sentence", "explanation"]),
        "Lines": answers({"rows": {"type": "array", "items": _refer("Line")}}, ["rows"]),
        "Explanations": answers({"explanations": {"type": "array", "items": _refer("Line")}}, ["explanations"]),
        "Line": _describe_line(),
        "Explanation": _describe_explanation(),
        "Error": answers({"error": _WORDS}, ["error"]),
    }  # fmt: skip
    codes = [code for code in _ERRORS if code != 401 or secured]
    paths = {
        "/explain": _describe_path("Explain one row", "Question", "Answer", codes),
        "/explain/batch": _describe_path("Explain many rows: one line for each", "Batch", "Lines", codes),
        f"/v1/models/{name}:explain": _describe_path(
            "KServe's V1 protocol", "Instances", "Explanations", [code for code in codes if code != 415]
        ),
        f"/v1/models/{name}": _describe_state("Whether the model is ready", {"200": "ready", "503": "not ready"}),
        "/healthz": _describe_state("Whether the server runs", {"200": "it runs"}),
        "/readyz": _describe_state("Whether a worker is ready", {"200": "ready", "503": "not ready"}),
        "/metrics": _describe_state("Metrics in Prometheus' format", {"200": "metrics"}, "text/plain"),
    }
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": f"Counterfactual explanations of {name}", "version": __version__},
        "paths": paths,
        "components": {"schemas": schemas},
    }
    if secured:
        document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"token": []}]
        del document["paths"]["/metrics"]["get"]["security"]
    return document
