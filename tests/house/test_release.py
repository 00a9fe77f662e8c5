"""The conda recipe and the workflow state what the package states."""

import importlib.util
import re
import tomllib
from pathlib import Path

import gbce
from support import installed, machines

ROOT = Path(__file__).parents[2]


def test_the_recipe_has_version_and_requirements_of_the_package():
    recipe = (ROOT / "recipe" / "recipe.yaml").read_text()
    assert f'version: "{gbce.__version__}"' in recipe
    listed = dict(re.findall(r"^    - ([\w-]+) >=([\d.]+)$", recipe.split("  run:")[1], flags=re.MULTILINE))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = dict(one.split(">=") for one in project["dependencies"]) | {"python": project["requires-python"][2:]}
    declared["matplotlib-base"] = declared.pop("matplotlib")
    assert listed == declared


def test_the_workflow_tests_every_supported_python():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    supported = [one.rpartition(" ")[2] for one in project["classifiers"] if re.search(r":: 3\.\d+$", one)]
    workflow = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    assert f"python: {supported}".replace("'", '"') in workflow
    assert "versions: [newest, lowest]" in workflow
    assert list(installed.PYTHONS) == [f"python{one}" for one in supported]


def test_installed_packages_run_the_commands_of_the_readme():
    assert [words[:2] for words in installed.commands()] == [
        ["gbce", "demo"], ["gbce", "explain"], ["gbce", "report"], ["gbce", "letters"]
    ]  # fmt: skip


def test_every_test_that_may_be_skipped_runs_on_some_machine():
    """Packages are in the test extra, or ``make test-machines`` installs them; NICE asks for a numpy of before 2."""
    asked = r'(?:importorskip|find_spec)\("(\w+)[\w.]*"\)'
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    names = {name for source in sources for name in re.findall(asked, source)}
    listed = {machines._parts(one)[0].replace("-", "_") for more in machines.MORE.values() for one in more}
    assert {name for name in names - listed if importlib.util.find_spec(name) is None} <= {"nice"}
    assert "tests/trees/test_read_catboost.py" in machines.tests_for(machines.MORE["catboost and torch"])
