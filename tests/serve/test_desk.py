"""What a worker answers: the answers of the library, in the schema that it publishes, and its sentences."""

import json

import jsonschema
import numpy as np
import pandas as pd
import pytest

import gbce
from gbce.files import json_schema
from support.lending_desk import ROW, open_desk


def ask(desk, body, kind="explain"):
    head, content = desk.answer({"id": "r1", "kind": kind, "body": body, "headers": {}})
    return head["status"], json.loads(content), head


def definition(desk, name):
    """A schema of the document with all that it refers to."""
    document = desk.document()
    return {"$ref": f"#/components/schemas/{name}", "components": document["components"]}


def conforms(desk, name, found):
    jsonschema.Draft202012Validator(definition(desk, name)).validate(found)


def test_the_answer_is_that_of_the_library(desk):
    status, found, head = ask(desk, {"row": ROW, "seed": 3})
    assert status == 200
    own = desk.explainer.explain(ROW, "approved", seed=3, posterior=False, max_model_rows=200_000)
    assert found["sentence"] == own.answer.sentence
    assert found["explanation"]["answer"] == json.loads(own.to_json())["answer"]
    jsonschema.Draft202012Validator(json_schema()).validate(found["explanation"])
    conforms(desk, "Answer", found)
    assert head["rows"] == 1
    assert head["model_rows"] == own.diagnostics["n_model_rows"]


def test_targets_are_those_that_people_write(desk):
    said = [ask(desk, {"row": ROW, "target": one})[1]["explanation"]["target"] for one in ("approved>=0.9", "declined")]
    assert said == ["class 'approved' with probability 0.9 or more", "class 'declined'"]
    status, found, _ = ask(desk, {"row": ROW, "target": "aproved"})
    assert status == 422
    assert "the target 'aproved' is not a class of the model" in found["error"]
    assert "Did you mean 'approved'?" in found["error"]


def test_parts_that_are_asked_for(desk):
    include = ["alternatives", "text", "page", "letter"]
    status, found, _ = ask(desk, {"row": ROW, "posterior": True, "include": include, "language": "ja"})
    assert status == 200
    conforms(desk, "Answer", found)
    first = found["alternatives"]["strategies"][0]
    assert first["reached"] is True
    assert set(first["row"]) == set(ROW)
    assert found["page"].startswith("<!doctype html>")
    assert "円" not in found["text"]
    assert "EUR" in found["text"]
    assert "Income insufficient" in [one["text"] for one in found["letter"]["reasons"]]
    assert found["refused"] == {}


def test_parts_that_must_not_be_written_say_why(desk):
    status, found, _ = ask(desk, {"row": ROW, "include": ["alternatives"]})
    assert (status, found["alternatives"]) == (200, None)
    assert "explained without one" in found["refused"]["alternatives"]
    reached = ROW | {"income": 80.0}
    _, found, _ = ask(desk, {"row": reached, "include": ["letter"]})
    assert "there is no decision against anybody" in found["refused"]["letter"]
    _, found, _ = ask(desk, {"row": ROW, "target": "approved>=0.9999999", "include": ["text"]})
    assert found["text"] is None
    assert found["refused"]["text"]
    conforms(desk, "Answer", found)


def test_a_batch_is_one_line_for_each_row(desk):
    rows = [ROW, ROW | {"income": "x"}, ROW | {"debt": 25.0}]
    status, found, head = ask(desk, {"rows": rows, "seed": 3}, "batch")
    assert status == 200
    conforms(desk, "Lines", found)
    one, bad, other = found["rows"]
    assert [line["status"] for line in found["rows"]] == ["attainable", "failed", "attainable"]
    assert one["sentence"] == ask(desk, {"row": ROW, "seed": 3})[1]["sentence"]
    assert bad["row"] is None
    assert "column 'income' holds 'x'" in bad["error"]
    assert other["row"].keys() == ROW.keys()
    assert head["rows"] == 3


def test_instances_are_mappings_or_lists(desk):
    status, found, _ = ask(desk, {"instances": [ROW, list(ROW.values())]}, "instances")
    assert status == 200
    conforms(desk, "Explanations", found)
    one, other = found["explanations"]
    for each in (one, other):  # under a limit of time, batches depend on the clock
        each.pop("n_model_calls")
    assert one == other


WRONG = [
    ({}, "the request has no row"),
    ({"row": 3}, "row must be an object of columns and values: income, debt, years, job"),
    ({"row": {"income": 1.0}}, "row lacks 'debt', 'years', 'job'"),
    ({"row": ROW | {"age": 3}}, "row has also 'age'"),
    ({"row": ROW | {"job": "pilot"}}, "a level that the data do not have; its levels are 'clerk', 'smith'"),
    ({"row": ROW | {"job": ["smith"]}}, "job must be a number, a string, true, false or null"),
    ({"row": ROW | {"years": True}}, "row: years must not be true"),
    ({"row": ROW | {"job": None}}, "column 'job' is missing"),
    ({"row": ROW | {"years": 3.5}}, "'years' = 3.5 cannot be stored in a column of type int64"),
    ({"row": ROW | {"years": 10**400}}, "row: years is too large for a number"),
    ({"row": ROW | {"income": "20"}}, "holds '20' in row 0 where a number is expected"),
    ({"row": ROW | {"income": 95.0}}, "'income' = 95 lies above its bound 90"),
    ({"row": ROW | {"debt": 100.0}}, "debt <= 3 * income"),
    ({"row": ROW, "targt": "x"}, "there is no option 'targt'; did you mean 'target'?"),
    ({"row": ROW, "target": ["x"]}, "target must be a string"),
    ({"row": ROW, "seed": -1}, "seed must be an integer from 0"),
    ({"row": ROW, "seed": True}, "seed must be an integer from 0"),
    ({"row": ROW, "seed": 1.5}, "seed must be an integer from 0"),
    ({"row": ROW, "seconds": 0.0}, "seconds must be a number from 0.1 to 30"),
    ({"row": ROW, "seconds": 31}, "seconds must be a number from 0.1 to 30"),
    ({"row": ROW, "max_model_rows": 10**9}, "max_model_rows must be an integer from 1 to 200000"),
    ({"row": ROW, "posterior": 1}, "posterior must be true or false"),
    ({"row": ROW, "include": "text"}, "include must be a list"),
    ({"row": ROW, "include": ["txt"]}, "include must be one of alternatives, text, page, letter"),
    ({"row": ROW, "language": "xx"}, "language must be one of"),
    ({"row": ROW, "audience": {}}, "audience must be one of person, analyst"),
]


@pytest.mark.parametrize(("body", "sentence"), WRONG, ids=[sentence for _, sentence in WRONG])
def test_what_does_not_fit_is_refused_in_a_sentence(desk, body, sentence):
    status, found, head = ask(desk, body)
    assert status == 422, found
    assert sentence in found["error"]
    assert set(found) == {"error", "request_id"}
    assert head["rows"] == 0


def test_batches_that_do_not_fit(desk):
    for body in ({}, {"rows": []}, {"rows": ROW}):
        assert ask(desk, body, "batch")[0] == 422
    status, found, _ = ask(desk, {"rows": [ROW, {"income": 1}]}, "batch")
    assert status == 422
    assert "rows[1] lacks 'debt'" in found["error"]
    assert ask(desk, {"rows": [ROW], "include": []}, "batch")[0] == 422


def test_a_budget_that_is_too_small_for_the_row_itself(desk):
    status, found, _ = ask(desk, {"row": ROW, "max_model_rows": 1})
    assert status in (200, 422), found


def test_the_row_schema_is_that_of_the_space(desk):
    row = desk.document()["components"]["schemas"]["Row"]
    assert row["required"] == list(ROW)
    assert row["additionalProperties"] is False
    income, debt, years, job = row["properties"].values()
    assert (income["type"], income["minimum"], income["maximum"]) == ("number", 0, 90)
    assert income["description"] == "income, in EUR; may only increase, from 0, up to 90"
    assert debt["type"] == "number"
    assert "maximum" not in debt  # an inferred bound does not bind the row
    assert years["type"] == "integer"
    assert job["enum"] == ["clerk", "smith"]
    assert job["description"] == "job; never changed"


def test_the_schema_knows_every_kind_of_column():
    """Rows of the data conform, and are read back as they are."""
    from gbce.serve._workers import Limits
    from gbce.serve.desk import ExplainerDesk
    from gbce.targets import AtLeast

    data = pd.DataFrame({
        "size": pd.Categorical(["S", "M", "L", "S"], ["S", "M", "L"], ordered=True), "flag": [True, False, True, True],
        "when": pd.to_datetime(["2024-01-01", "2024-02-01", "2024-03-01", "2024-01-05"]),
        "gap": [1.5, np.nan, 2.5, 3.0], "code": pd.Categorical([1, 2, 1, 2]),
    })  # fmt: skip
    explainer = gbce.Explainer(lambda x: x["gap"].fillna(0) + x["flag"], data)
    desk = ExplainerDesk(explainer, lambda text: AtLeast(float(text)), Limits())
    row = {"size": "M", "flag": False, "when": "2024-02-01T00:00:00", "gap": None, "code": 2}
    properties = desk.document()["components"]["schemas"]["Row"]["properties"]
    assert properties["size"]["enum"] == ["S", "M", "L"]
    assert properties["flag"]["enum"] == [False, True]
    assert properties["when"]["format"] == "date-time"
    assert properties["gap"]["type"] == ["number", "null"]
    assert properties["code"]["enum"] == [1, 2]
    conforms(desk, "Row", row)
    frame = desk._read_rows([row], "row")
    assert np.array_equal(explainer.space.encode(frame), explainer.space.encode(data.iloc[[1]]), equal_nan=True)
    status, found, _ = ask(desk, {"row": row, "target": "1"})
    assert status == 200
    assert found["explanation"]["row"]["values"] == row


def test_the_document_is_openapi(desk):
    document = desk.document()
    assert document["openapi"] == "3.1.0"
    assert {"/explain", "/explain/batch", "/v1/models/credit:explain"} <= set(document["paths"])
    for schema in document["components"]["schemas"]:
        jsonschema.Draft202012Validator.check_schema(definition(desk, schema))
    conforms(desk, "Question", {"row": ROW})
    for target in ("approved", "declined", "approved>=0.8", "approved=0.8..1"):
        conforms(desk, "Question", {"row": ROW, "target": target})
        assert ask(desk, {"row": ROW, "target": target})[0] == 200
    for wrong in ({"row": ROW | {"job": "pilot"}}, {"row": ROW, "target": "aproved"}, {"row": ROW, "seed": None}):
        assert ask(desk, wrong)[0] == 422
        with pytest.raises(jsonschema.ValidationError):
            conforms(desk, "Question", wrong)


@pytest.mark.parametrize("target", ["<=140", ">= 10", "+10%", "-5", "0.8..1", "140±5", "=3"])
def test_targets_on_numbers_are_described(target):
    import re

    from gbce.serve._schema import _write_pattern
    from gbce.targets import parse_target

    assert re.match(_write_pattern([]), target)
    parse_target(target, None)
    assert not re.match(_write_pattern([]), "140")
    assert re.match(_write_pattern(["a.b", "c|d"]), "c|d")
    assert not re.match(_write_pattern(["a.b"]), "axb")


def test_a_model_that_fails_is_an_error_without_its_secrets(folder):
    from gbce.serve._workers import Limits
    from gbce.serve.desk import ExplainerDesk
    from gbce.targets import AtLeast

    def broken(x):
        raise KeyError("password=123")

    data = pd.DataFrame({"a": [1.0, 2.0, 3.0]})
    desk = ExplainerDesk(gbce.Explainer(broken, data), lambda text: AtLeast(float(text)), Limits())
    status, found, _ = ask(desk, {"row": {"a": 1.0}, "target": "5"})
    assert status == 500
    assert found["request_id"] == "r1"


def test_a_service_without_reasons_writes_no_letters(folder, tmp_path):
    text = (folder / "settings.toml").read_text().split("[reasons]")[0].replace('target = "approved"', "")
    (tmp_path / "s.toml").write_text(text)
    desk = open_desk(folder, "-s", str(tmp_path / "s.toml"))
    schemas = desk.document()["components"]["schemas"]
    assert "letter" not in schemas["Question"]["properties"]["include"]["items"]["enum"]
    assert schemas["Question"]["required"] == ["row", "target"]
    assert "has no target" in ask(desk, {"row": ROW})[1]["error"]
    _, found, _ = ask(desk, {"row": ROW, "target": "approved", "include": ["letter"]})
    assert "its settings need a table [reasons]" in found["refused"]["letter"]
