"""The Dockerfile and the manifest of KServe: everything that they name is there, and their commands are understood.

``python examples/service/rehearse.py`` runs the commands of the Dockerfile in a new environment.
"""

import re
import runpy
import tomllib
from pathlib import Path

import pytest

from gbce.cli._parser import build_parser

ROOT = Path(__file__).parents[2]
SERVICE = ROOT / "examples" / "service"
KSERVE = ["--model_name", "credit", "--predictor_host", "credit-predictor.default", "--http_port", "8080", "--workers",
          "2"]  # fmt: skip


REHEARSAL = runpy.run_path(str(SERVICE / "rehearse.py"))
instructions, command = REHEARSAL["instructions"], REHEARSAL["command"]


def test_the_dockerfile_begins_with_a_python_that_is_supported():
    kind, image = instructions()[0]
    assert kind == "FROM"
    version = re.fullmatch(r"python:(3\.\d+)-slim", image)[1]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert f"Programming Language :: Python :: {version}" in project["classifiers"]


def test_what_is_copied_exists_and_is_enough_to_build():
    copied = [words.split()[:-1] for kind, words in instructions() if kind == "COPY"]
    names = [name for part in copied for name in part]
    assert [name for name in names if not (ROOT / name).exists()] == ["examples/service/files"]  # the user's own
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {project["readme"], *project["license-files"], "src", "pyproject.toml"} <= set(names)


def test_extras_that_are_installed_exist():
    extras = next(re.search(r"\[(.+)\]", words)[1] for kind, words in instructions() if "pip install" in words)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(extras.split(",")) <= set(project["optional-dependencies"])


def test_the_command_of_the_container_is_understood():
    parsed, unknown = build_parser().parse_known_args(command()[1:])
    assert not unknown
    assert (parsed.command, parsed.host, parsed.http_port) == ("serve", "0.0.0.0", 8080)


def test_the_manifest_is_one_of_kserve():
    yaml = pytest.importorskip("yaml")
    manifest = yaml.safe_load((SERVICE / "kserve.yaml").read_text())
    assert manifest["apiVersion"] == "serving.kserve.io/v1beta1"
    assert manifest["kind"] == "InferenceService"
    (container,) = manifest["spec"]["explainer"]["containers"]
    assert container["name"] == "kserve-container"
    parsed, unknown = build_parser().parse_known_args(["serve", *container["args"], *KSERVE])
    assert not unknown
    assert (parsed.model, parsed.model_name, parsed.workers) == ("predictor", "credit", 2)
    ports = {one["containerPort"] for one in container["ports"]}
    probes = [container[name]["httpGet"] for name in ("readinessProbe", "livenessProbe")]
    assert ports == {probe["port"] for probe in probes} == {parsed.http_port}
    from gbce.serve._app import Service

    assert [probe["path"] for probe in probes] == ["/readyz", "/healthz"]
    assert hasattr(Service, "tell_ready")
