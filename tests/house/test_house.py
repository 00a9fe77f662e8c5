"""Rooms import only from lower rooms, every public name is documented, and pages are those of the code."""

import ast
import os
import re
import runpy
import shutil
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import gbce

ROOT = Path(gbce.__file__).parent
REPOSITORY = Path(__file__).parents[2]


@cache
def parsed(path):
    return ast.parse(path.read_text())


def rooms():
    return [(path, path.relative_to(ROOT).parts[0].removesuffix(".py")) for path in sorted(ROOT.rglob("*.py"))]


def test_rooms_import_only_from_rooms_below_them():
    """The contract in pyproject.toml, imports inside functions included."""
    linter = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run([linter, "--no-cache"], cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_the_contract_finds_an_import_inside_a_function(tmp_path):
    """A linter that finds nothing would also be silent."""
    shutil.copytree(ROOT, tmp_path / "src" / "gbce", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(REPOSITORY / "pyproject.toml", tmp_path)
    with (tmp_path / "src" / "gbce" / "posterior.py").open("a") as file:
        file.write("\n\ndef late() -> None:\n    from gbce.report import as_text\n")
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "src")}
    linter = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run([linter, "--no-cache"], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert "gbce.posterior -> gbce.report" in done.stdout


def test_files_of_a_room_are_imported_by_that_room_only():
    for path, room in rooms():
        imports = [node for node in ast.walk(parsed(path)) if isinstance(node, ast.ImportFrom)]
        for first, second, *_ in ([*str(node.module).removeprefix("gbce.").split("."), ""] for node in imports):
            assert first == room or not second.startswith("_"), (path, first, second)


def test_the_root_has_few_entries_and_two_private_ones():
    entries = [path.stem for path in ROOT.iterdir() if path.name not in ("__pycache__", "py.typed", "__init__.py")]
    assert len(entries) <= 31
    assert sorted(name for name in entries if name.startswith("_")) == ["_numerics", "_validation"]


SLOW_TO_IMPORT = ("scipy.stats", "sklearn", "matplotlib")


@pytest.mark.parametrize("use", ["", "gbce.Explainer, gbce.SMC, gbce.load, gbce.CVaR, gbce.ExplanationTable"])
def test_importing_gbce_loads_nothing_slow(use):
    code = f"import sys, gbce; {use or 'gbce'}; print([m for m in {SLOW_TO_IMPORT} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_is_there_and_listed():
    assert [name for name in gbce.__all__ if getattr(gbce, name).__name__ != name] == []
    nodes = ast.walk(parsed(ROOT / "__init__.py"))
    imports = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    typed = [alias.name for node in imports if str(node.module).startswith("gbce.") for alias in node.names]
    assert sorted(typed) == sorted(gbce.__all__)  # what type checkers see
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        gbce.nonsense  # noqa: B018
    with pytest.raises(AttributeError, match=r"gbce\.datasets went to experiments\.trends"):
        gbce.datasets  # noqa: B018


def test_one_line_calls_a_model():
    """Nobody but predictors calls a model; ensembles fit models of their own and call them on folds."""
    tree = {path: parsed(path) for path, room in rooms() if room not in ("predictors", "ensembles")}
    for path, module in tree.items():
        for node in ast.walk(module):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                assert node.func.attr not in ("predict", "predict_proba", "decision_function"), (path, node.lineno)


def test_only_rooms_that_read_or_fit_models_name_a_framework():
    framework = re.compile(
        r"^\s*(import|from) (sklearn|lightgbm|xgboost|catboost|torch|onnxruntime|httpx)", re.MULTILINE
    )
    for path, room in rooms():
        code = "\n".join(line for line in path.read_text().splitlines() if ">>>" not in line)
        known = room in ("predictors", "trees", "eta", "ensembles") or path.parts[-2:] == ("cli", "_demo.py")
        assert known or not framework.search(code), path


def test_every_public_name_has_a_docstring_with_an_example_and_a_place_in_the_reference():
    reference = (REPOSITORY / "docs" / "reference.md").read_text()
    names = {name: getattr(gbce, name) for name in gbce.__all__}
    for name, thing in names.items():
        assert thing.__doc__, name
        assert f"`{name}" in reference, f"{name} is missing in docs/reference.md"
        if not (isinstance(thing, type) and issubclass(thing, Exception)):
            assert ">>>" in thing.__doc__ or "Examples" in thing.__doc__, name


def test_the_loans_are_those_that_their_script_makes():
    import pandas as pd

    loans = runpy.run_path(str(REPOSITORY / "examples" / "loans.py"))
    pd.testing.assert_frame_equal(
        pd.read_csv(loans["PATH"]), loans["make_loans"]().astype({"savings": float}), check_dtype=False
    )


def test_every_dependency_has_its_reason():
    import tomllib

    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    reasons = (REPOSITORY / "docs" / "dependencies.md").read_text()
    listed = [*project["dependencies"], *(d for extra in project["optional-dependencies"].values() for d in extra)]
    for requirement in listed:
        name = re.split(r"[\[<>=]", requirement)[0]
        assert name == "gbce" or f"`{name}`" in reasons, name


def test_the_lowest_version_of_every_dependency_is_declared_and_run():
    import tomllib

    from support.machines import VARIATIONS, lowest_versions

    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    lowest = lowest_versions()
    for requirement in project["dependencies"]:
        name, version = requirement.split(">=")
        assert f"{name}=={version}" in lowest
    assert any(variation.packages == lowest and not variation.tests for variation in VARIATIONS)


def test_version_is_the_one_of_the_package_and_of_the_changelog():
    from importlib.metadata import version

    assert version("gbce") == gbce.__version__
    assert f"## [{gbce.__version__}]" in (REPOSITORY / "CHANGELOG.md").read_text()


def test_the_page_of_the_architecture_is_that_of_the_import_graph():
    drawing = runpy.run_path(str(REPOSITORY / "docs" / "draw_architecture.py"))
    text = (REPOSITORY / "docs" / "architecture.md").read_text()
    assert drawing["with_generated"](text) == text, "run: python docs/draw_architecture.py"


def test_a_row_goes_the_way_that_the_page_shows_and_never_up():
    """A call goes to a room below, but for Explanation's report, and the readers of trees that a posterior is given."""
    drawing = runpy.run_path(str(REPOSITORY / "docs" / "draw_architecture.py"))
    from benchmarks.walk import tiers, trace

    walk = trace()
    called = [walk["functions"].index((step.file, step.function)) for step in drawing["WAY_OF_A_ROW"]]
    assert called == sorted(called)
    place = {room: i for i, room in enumerate(tiers())}
    assert {pair for pair in walk["edges"] if place[pair[0]] < place[pair[1]]} == {
        ("explanation", "report"),
        ("posterior", "trees"),
    }


def test_digests_are_those_of_the_bits_and_tell_a_changed_one():
    from support import digest

    assert len(digest.QUESTIONS) >= 25
    explain = digest.QUESTIONS["target value"]
    found = explain()
    assert digest.digests(found) == digest.digests(explain())
    changed = replace(found, draws=replace(found.draws, weights=np.nextafter(found.draws.weights, 1.0)))
    assert {what for what, value in digest.digests(changed).items() if value != digest.digests(found)[what]} >= {
        "draws"
    }


def constants():
    """Every number that a module defines under a name in capitals, with its source line and the comment above it."""
    for path, _ in rooms():
        text = path.read_text()
        lines = text.splitlines()
        for node in parsed(path).body:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            names = [part.id for target in targets if target for part in ast.walk(target) if isinstance(part, ast.Name)]
            value = getattr(node, "value", None)
            if not names or not isinstance(value, (ast.Constant, ast.Tuple, ast.BinOp, ast.UnaryOp)):
                continue
            numbers = [
                part for part in ast.walk(value) if isinstance(part, ast.Constant) and type(part.value) in (int, float)
            ]
            if numbers and all(name.isupper() for name in names):
                above = node.lineno - 2
                while lines[above].strip() and not lines[above].startswith("#"):
                    above -= 1  # one comment may stand above several
                said = (
                    "#" in lines[node.lineno - 1] or "#" in lines[node.end_lineno - 1] or lines[above].startswith("#")
                )
                yield f"{path.relative_to(ROOT)}: {', '.join(names)}", said


def test_every_number_that_decides_something_has_its_reason():
    known = dict(constants())
    assert len(known) > 300
    assert [name for name, said in known.items() if not said] == []


# Private words for what the field has names for: run, distribution, mode, proposal, target, curvature, log density,
# output, price, basin. The fields that files and diagnostics have kept their names; so has ``max_looks``.
RETIRED = re.compile(r"(?i)(^|_)(laws?|looks?|sites?|guides?|lessons?|wish(es)?|bends?|said|told|offers?|wells?)(_|$)")
KEPT = {"looks", "max_looks", "sites"}


def test_retired_words_stay_out_of_the_code():
    import io
    import tokenize

    for path, _ in rooms():
        tokens = tokenize.generate_tokens(io.StringIO(path.read_text()).readline)
        names = {token.string for token in tokens if token.type == tokenize.NAME}
        assert {name for name in names - KEPT if RETIRED.search(name)} == set(), path
