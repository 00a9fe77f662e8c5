"""``gbce serve`` with a model in a file, and as the explainer of a predictor in another process."""

import io
import json
import subprocess
import sys
import zipfile

import numpy as np
import pytest

from gbce.cli import main
from gbce.cli._parser import UsageError
from support.lending_desk import ROW, open_desk
from support.service import alive, children_of, command_line, running


def files(folder):
    return [folder / "table.csv", "-s", folder / "settings.toml"]


def test_a_model_file_is_served_as_the_command_line_explains_it(folder, tmp_path, capsys):
    command = command_line(folder / "model.skops", *files(folder), "--max-batch", 2, "--name", "credit")
    with running(command, tmp_path / "log") as service:
        response = service.ask(body={"row": ROW, "seed": 0})
        assert response.status_code == 200, service.log
        batch = service.ask("/explain/batch", {"rows": [ROW, ROW]}).json()["rows"]
        assert service.ask("/explain/batch", {"rows": [ROW] * 3}).status_code == 413
        document = service.client.get("/openapi.json").json()
        assert document["components"]["schemas"]["Batch"]["properties"]["rows"]["maxItems"] == 2
        workers = children_of(service.process)
        assert service.stop() == 0
        assert not alive(workers)
        assert "gbce: stopped" in service.log
        assert "smith" not in service.log  # rows stay out of logs
    words = [
        "explain",
        folder / "model.skops",
        *files(folder),
        "--row",
        json.dumps(ROW),
        "--no-posterior",
        "-f",
        "json",
    ]
    assert main([*map(str, words), "-q"]) == 0
    own = json.loads(capsys.readouterr().out)
    assert response.json()["explanation"]["answer"] == own["answer"]
    assert [line["sentence"] for line in batch] == [own["answer"]["sentence"]] * 2


PREDICTOR = """
import json, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
import pandas as pd
from gbce.predictors import load_model

sys.stderr.write("")
model = load_model(sys.argv[1])

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert self.path == "/v1/models/credit:predict"
        rows = pd.DataFrame(body["instances"], columns=["income", "debt", "years", "job"])
        sys.stderr.write(f"rows {len(rows)} {self.headers['Authorization']} {self.headers['X-B3-TraceId']}\\n")
        sys.stderr.flush()
        content = json.dumps({"predictions": model.predict_proba(rows).tolist()}).encode()
        status = 200 if self.headers["Authorization"] != "Bearer revoked" else 403
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments):
        pass

server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
sys.stderr.write(f"ready at http://127.0.0.1:{server.server_address[1]}\\n")
sys.stderr.flush()
server.serve_forever()
"""


def test_an_explainer_asks_the_predictor_of_its_inference_service(folder, tmp_path):
    """Two processes, with the arguments that KServe passes; the answer is that of the model in a file."""
    pytest.importorskip("httpx")
    with running([sys.executable, "-c", PREDICTOR, str(folder / "model.skops")], tmp_path / "predictor") as predictor:
        host = predictor.url.removeprefix("http://")
        passed = ("--model_name", "credit", "--predictor_host", host, "--http_port", 0, "--workers", 1, "--later", 3)
        command = command_line("predictor", *files(folder), "--classes", "approved,declined", *passed)
        with running(command, tmp_path / "log") as explainer:
            assert "0.0.0.0" in explainer.url  # in a container, its own address is not loopback
            assert "ignored: --later 3" in explainer.log
            address = explainer.url.replace("0.0.0.0", "127.0.0.1")
            assert explainer.client.get(f"{address}/v1/models/credit").json() == {"name": "credit", "ready": True}
            headers = {"authorization": "Bearer of-a-user", "x-b3-traceid": "b3"}
            asked = {"instances": [list(ROW.values()), ROW]}
            url = f"{address}/v1/models/credit:explain"
            response = explainer.client.post(url, content=json.dumps(asked), headers=headers)
            assert response.status_code == 200, explainer.log
            one, other = response.json()["explanations"]
            for explained in (one, other):  # within a limit of time, calls are cut by how long the last ones took
                assert explained.pop("n_model_calls") > 0
            assert one == other
            assert one["status"] == "attainable"
            assert "Bearer of-a-user b3" in predictor.log
            refused = explainer.client.post(url, json=asked, headers={"authorization": "Bearer revoked"})
            assert refused.status_code == 502
            assert "it answered 403" in refused.json()["error"]
            assert "revoked" not in refused.json()["error"] + explainer.log
            assert "of-a-user" not in explainer.log
    desk = open_desk(folder, "--classes", "approved,declined")
    _, content = desk.answer({"id": "1", "kind": "instances", "body": {"instances": [ROW]}, "headers": {}})
    assert json.loads(content)["explanations"][0]["row"] == one["row"]


def fails(words, capsys, code, sentence):
    assert main(["serve", *map(str, words)]) == code
    err = capsys.readouterr().err
    assert sentence in err.splitlines()[-1], err


def test_wrong_commands(folder, capsys, tmp_path, monkeypatch):
    model, table = folder / "model.skops", folder / "table.csv"
    fails(["predictor", table], capsys, 2, "give the predictor's host with --predictor_host")
    fails([model, "-"], capsys, 2, "it cannot be standard input")
    fails([model, table, "--prot", "80"], capsys, 2, "unrecognized arguments: --prot 80")
    fails([model, table, "--max-seconds", "0"], capsys, 2, "invalid")
    (tmp_path / "token").write_text("short")
    fails([model, table, "--token-file", tmp_path / "token"], capsys, 2, "a token has at least 16 printable ASCII")
    fails([model, table, "--token-file", tmp_path / "none"], capsys, 1, "No such file")
    fails([model, table, "--host", "300.1.1.1", "--port", 0], capsys, 1, "cannot be used")


def write_bomb(path):
    """Write a model of a kilobyte that claims to hold an array of 6 gigabytes."""
    import skops.io
    from sklearn.linear_model import LinearRegression

    model = LinearRegression().fit(np.arange(12.0).reshape(6, 2), np.arange(6.0))
    claimed = io.BytesIO()
    np.lib.format.write_array_header_1_0(claimed, {"descr": "<f8", "fortran_order": False, "shape": (750_000_000,)})
    with zipfile.ZipFile(io.BytesIO(skops.io.dumps(model))) as file, zipfile.ZipFile(path, "w") as bomb:
        for name in file.namelist():
            bomb.writestr(name, claimed.getvalue() if name.endswith(".npy") else file.read(name))


def test_a_model_that_takes_too_much_memory_ends_the_service(folder, tmp_path):
    """It is opened in a process with a limit, so that a small file cannot take all memory of the machine."""
    write_bomb(tmp_path / "bomb.skops")
    command = command_line(tmp_path / "bomb.skops", folder / "table.csv")
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "gbce: the model and its table need more memory than 4,294,967,296 B"


def test_what_cannot_be_opened_says_why(folder):
    with pytest.raises(UsageError, match="'aproved' is not a class of the model"):
        open_desk(folder, "-t", "aproved")


def test_the_server_loads_no_model_and_no_numpy():
    code = (
        "import sys, gbce.cli._serve, gbce.serve, gbce.serve._app, gbce.serve._run; "
        "print([m for m in ('numpy', 'pandas', 'sklearn') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
