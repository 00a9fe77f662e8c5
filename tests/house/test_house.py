"""Rooms import only from lower rooms, every public name is documented, and documents run."""

import ast
import re
from pathlib import Path

import pytest

import gbce

ROOT = Path(gbce.__file__).parent
REPOSITORY = Path(__file__).parents[2]
LEVEL = {
    "_durable": 0, "_archive": 0.5, "_values": 0.5,
    "_weights": 0, "_checks": 0, "_seeds": 0, "_budget": 0.5, "_rows": 0.5, "_units": 0.5, "_frames": 0,
    "_expressions": 0.5, "_combining": 0.5, "space": 1, "targets": 1, "datasets": 1, "predictors": 2, "priors": 2,
    "_asking": 2.5, "posterior": 3, "draws": 4, "noise": 4, "samplers": 5,
    "decisions": 5, "metrics": 5, "calibration": 6.2, "models": 6, "_decision": 6, "_readings": 6.5, "_joint": 6,
    "explanation": 7, "_status": 7.2,
    "_deciding": 7.2, "_provenance": 7.2, "_reference": 7.2, "_across": 7.3, "_frontier": 7.35,
    "_sensitivity": 7.3, "_probes": 7.4, "explain": 7.5,
    "plots": 8, "report": 8, "io": 8, "_arviz": 8, "_soundness": 7.9, "batch": 9,
}  # fmt: skip


def rooms():
    return [(path, path.relative_to(ROOT).parts[0].removesuffix(".py")) for path in sorted(ROOT.rglob("*.py"))]


def top_level_imports(path):
    for node in ast.parse(path.read_text()).body:  # imports inside functions or TYPE_CHECKING are not load-time
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gbce"):
            yield node.module.split(".")[1] if "." in node.module else node.names[0].name
        elif isinstance(node, ast.Import):
            yield from (a.name.split(".")[1] for a in node.names if a.name.startswith("gbce."))


@pytest.mark.parametrize(("path", "room"), [(p, r) for p, r in rooms() if r != "__init__"], ids=str)
def test_rooms_import_only_from_lower_rooms(path, room):
    for other in top_level_imports(path):
        assert other == room or LEVEL[other] < LEVEL[room], f"{path.name} ({room}) imports {other}"


def test_only_predictors_calibration_and_models_name_a_framework():
    framework = re.compile(
        r"^\s*(import|from) (sklearn|lightgbm|xgboost|catboost|torch|onnxruntime|httpx)", re.MULTILINE
    )
    for path, room in rooms():
        code = "\n".join(line for line in path.read_text().splitlines() if ">>>" not in line)
        assert room in ("predictors", "calibration", "models") or not framework.search(code), path


def test_every_public_name_has_a_docstring_with_an_example_and_a_place_in_the_reference():
    reference = (REPOSITORY / "docs" / "reference.md").read_text()
    names = {name: getattr(gbce, name) for name in gbce.__all__}
    names |= {f"datasets.{name}": getattr(gbce.datasets, name) for name in gbce.datasets.__all__}
    for name, thing in names.items():
        assert thing.__doc__, name
        assert f"`{name}" in reference, f"{name} is missing in docs/reference.md"
        if not (isinstance(thing, type) and issubclass(thing, Exception)):
            assert ">>>" in thing.__doc__ or "Examples" in thing.__doc__, name


DOCUMENTS = ["README.md", *(f"docs/{name}.md" for name in ("guide", "tables", "models", "trends", "uncertainty"))]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_python_in_documents_runs(document, tmp_path, monkeypatch):
    import matplotlib

    matplotlib.use("Agg")
    blocks = re.findall(r"```python\n(.*?)```", (REPOSITORY / document).read_text(), flags=re.DOTALL)
    assert blocks
    monkeypatch.chdir(tmp_path)
    exec(compile("\n".join(blocks), document, "exec"), {})


def test_every_dependency_has_its_reason():
    import tomllib

    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    reasons = (REPOSITORY / "docs" / "dependencies.md").read_text()
    listed = [*project["dependencies"], *(d for extra in project["optional-dependencies"].values() for d in extra)]
    for requirement in listed:
        name = re.split(r"[\[<>=]", requirement)[0]
        assert name == "gbce" or f"`{name}`" in reasons, name


def test_version_is_the_one_of_the_package_and_of_the_changelog():
    from importlib.metadata import version

    assert version("gbce") == gbce.__version__
    assert f"## [{gbce.__version__}]" in (REPOSITORY / "CHANGELOG.md").read_text()
