"""The conda recipe and the workflow state what the package states."""

import re
import tomllib
from pathlib import Path

import gbce
from support import installed

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
