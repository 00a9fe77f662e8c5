"""Requests that the description of a service allows or forbids, made by schemathesis, in ``make test-machines``."""

import subprocess
import sys
from pathlib import Path

import pytest

from support.service import command_line, running

# What a description cannot say (constraints between columns, lines of rows that do not fit) is refused all the same,
# so whether every request is accepted or refused as described is not among the checks.
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"


def test_no_request_makes_the_service_fail(folder, tmp_path):
    pytest.importorskip("schemathesis")
    tool = Path(sys.executable).with_name("schemathesis")
    files = [folder / name for name in ("model.skops", "table.csv", "settings.toml")]
    with running(command_line(*files[:2], "-s", files[2], "--max-batch", 3), tmp_path / "log") as service:
        words = ["run", f"{service.url}/openapi.json", "--checks", CHECKS, "--max-examples", "60"]
        words += ["--generation-deterministic", "--request-timeout", "120"]  # requests may ask for 30 seconds
        done = subprocess.run(
            [tool, *words], capture_output=True, text=True, timeout=600, cwd=tmp_path
        )  # it keeps a cache
        assert done.returncode == 0, done.stdout
        metrics = service.client.get("/metrics").text
    failed = [line for line in metrics.splitlines() if line.startswith("gbce_requests_total") and 'status="5' in line]
    assert failed == []
    assert "No issues found" in done.stdout or "generated" in done.stdout
