"""The how-to page of the service: its commands run, and are answered as it says."""

import json
import re
import shlex
from pathlib import Path

import pytest

from gbce.cli import main
from support.service import command_line, running

PAGE = (Path(__file__).parents[2] / "docs" / "howto" / "service.md").read_text(encoding="utf-8")


def test_examples_are_answered_as_the_page_says(tmp_path, monkeypatch):
    pytest.importorskip("uvicorn")
    pytest.importorskip("skops")
    assert main(["demo", str(tmp_path), "-q"]) == 0
    monkeypatch.chdir(tmp_path)
    serve, one, many, _ = (shlex.split(block) for block in re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL))
    with running(command_line(*serve[2:]), tmp_path / "log") as service:
        answers = [ask(service, *words) for words in (one, many)]
        paths = re.findall(r"^\| `(/[^`]+)`(?:, `(/\w+)`)? \|", PAGE, re.MULTILINE)
        for path in [each for pair in paths for each in pair if each and ":" not in each]:
            assert service.client.get(path).status_code == 200, path
    shown = json.loads(re.search(r"```json\n(.*?)```", PAGE, re.DOTALL)[1])["sentence"]
    said, shown = (re.sub(r"[\d,.]*\d", "#", text) for text in (answers[0]["sentence"], shown))  # as on any machine
    assert said.startswith(shown), said
    assert [line["status"] for line in answers[1]["rows"]] == ["attainable", "failed"]


def ask(service, _, url, *options):
    """What a command with curl is answered."""
    content = dict(zip(options[::2], options[1::2], strict=True))
    response = service.client.post(
        service.url + url.removeprefix("http://127.0.0.1:8080"), content=content["-d"],
        headers=[content["-H"].split(": ")],
    )  # fmt: skip
    assert response.status_code == 200, response.text
    return response.json()


def test_options_of_the_page_are_those_of_requests():
    from gbce.serve._schema import OPTIONS, VALUES

    table = PAGE.split("| option | means |")[1].split("\n\n")[0]
    listed = [
        name for cell in re.findall(r"^\| (`[^|]+) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", cell)
    ]
    assert listed == list(OPTIONS)
    assert all(f"`{one}`" in table for values in VALUES.values() for one in values)
