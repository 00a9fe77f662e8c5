"""The test suite as other machines run it: other kernels, another Python, lowest versions, other seeds, all extras.

``make test-machines`` runs each variation once and prints one line for each, beside the default's. A variation that
this machine cannot run (a kernel whose instructions its CPU lacks, a missing Python) is named as not run.
Results are kept in ``out/machines.json`` with the commit they belong to: a run that was ended goes on where it was, and
``--only`` runs some variations again and leaves the others as they are, ``--failed`` only the tests that failed. What
pytest printed is in ``out/machines-*.log``. Where the other Python is not on the path, ``--python`` says where it is;
on a machine with other work ``--processes 1`` leaves it room::

    make test-machines FLAGS="--only 3.13 Haswell --python /opt/python3.13/bin/python3.13 --processes 1"

Doctests print one run's numbers and are left out where seeds are shifted or bits changed. Tests that need packages
which the test extra leaves out are skipped; the last variations install these packages and run the files with them.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "out"
# What the test extra leaves out, for its size or its own requirements; Spark needs Java 17.
MORE = {
    "catboost and torch": ("catboost>=1.2", "torch==2.13.0"),
    "Spark, Ray and DuckDB": ("pyspark>=4.0", "ray>=2.50", "duckdb>=1.4"),
    "MLflow": ("mlflow>=3.17",),
    "schemathesis": ("schemathesis>=4.30",),
    "DiCE": ("dice-ml>=0.12",),
}
# Extras that gbce imports or takes models of: of these, too, the lowest versions; and of tables that it only takes.
EXTRAS = ("arviz", "nested", "http", "onnx", "widget", "dask", "boosting", "skops", "serve", "parquet")
_BESIDE = "polars"
_ASK_KERNEL = (  # multiplies, so that a kernel the CPU cannot run dies here and not in the middle of the suite
    "import numpy, threadpoolctl; a = numpy.ones((300, 300)); numpy.linalg.svd(a @ a);"
    "print([i['architecture'] for i in threadpoolctl.threadpool_info() if i.get('internal_api') == 'openblas'][0])"
)


@dataclass(frozen=True)
class Variation:
    """One way to run the suite: another environment of variables, another Python, more packages, fewer tests."""

    name: str
    variables: dict[str, str] = field(default_factory=dict)
    python: str = ""  # a command; the one that runs this script when empty
    packages: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()


def lowest_versions(extras: Sequence[str] = EXTRAS) -> tuple[str, ...]:
    """Return what gbce and its extras need, each at the lowest version that their own lists allow."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    optional = declared["optional-dependencies"]
    beside = [one for one in optional["test"] if _parts(one)[0] == _BESIDE]
    asked = [*declared["dependencies"], *(one for extra in extras for one in optional[extra]), *beside]
    return tuple(f"{name}=={version}" for name, version in map(_parts, asked) if version)


def _parts(requirement: str) -> tuple[str, str]:
    """Return the name and the lowest version of a requirement, which is empty if it has none."""
    name = re.match(r"[\w.-]+", requirement)
    version = re.search(r">=\s*([\w.]+)", requirement)
    return name[0] if name else "", version[1] if version else ""


def tests_for(packages: Sequence[str]) -> tuple[str, ...]:
    """Return the files with tests that are skipped, or smaller, where one of these packages is not installed."""
    modules = "|".join(_parts(one)[0].replace("-", "_") for one in packages)
    asks = re.compile(rf'(importorskip|find_spec)\("({modules})"\)')
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    return tuple(str(path.relative_to(ROOT)) for path in files if asks.search(path.read_text(encoding="utf-8")))


# What has nothing to do with each other shares a run: kernels that any x86 CPU has are run with shifted seeds.
VARIATIONS = (
    Variation("default"),
    *(
        Variation(
            f"BLAS kernel {kernel}, seeds shifted by {shift}",
            {"OPENBLAS_CORETYPE": kernel, "GBCE_SEED_SHIFT": str(shift)},
        )
        for shift, kernel in enumerate(("Nehalem", "Sandybridge", "Prescott"), start=1)
    ),
    *(
        Variation(f"BLAS kernel {kernel}", {"OPENBLAS_CORETYPE": kernel})
        for kernel in ("Haswell", "Zen", "SkylakeX", "Cooperlake")
    ),
    Variation(
        "numpy without vector loops, last bits of linear algebra shaken, no pyarrow",
        {"NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL", "GBCE_SHAKE": "1", "GBCE_WITHOUT": "pyarrow"},
    ),
    Variation("Python 3.13", python="python3.13"),
    Variation("lowest versions of all dependencies", python="python3.11", packages=lowest_versions()),
    *(Variation(f"with {name}", packages=more, tests=tests_for(more)) for name, more in MORE.items()),
)


def main() -> int:
    """Run what was asked for and print a table; one if anything failed that the default passes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="WORD", help="variations whose name contains one of these words")
    parser.add_argument("--docs", action="store_true", help="write the table to docs/results/machines.csv")
    parser.add_argument("--python", metavar="COMMAND", help="the interpreter of the variation with another Python")
    parser.add_argument("--processes", default="auto", metavar="N", help="how many tests run at a time")
    parser.add_argument("--failed", action="store_true", help="of variations with failures, run only those tests again")
    parser.add_argument("--lowest", action="store_true", help="print the lowest versions and do nothing else")
    options = parser.parse_args()
    if options.lowest:
        print(" ".join(lowest_versions()))
        return 0
    wanted = [v for v in VARIATIONS if not options.only or any(word in v.name for word in options.only)]
    if options.python:
        wanted = [replace(v, python=options.python) if v.python and not v.packages else v for v in wanted]
    done, state = _kept(), _state()
    for variation in wanted:
        before = done.get(variation.name, {})
        if options.failed and before.get("failed"):
            print(f"{variation.name}, what failed ...", flush=True)
            now = _run(replace(variation, tests=tuple(before["failed"])), {}, options.processes)
            passed = before["passed"] + now["passed"]
            done[variation.name] = before | {"passed": passed, "failed": now["failed"]}
            done[variation.name]["state"] = f"{before['state']}, what failed again at {state}"
            _keep(done)
        elif before.get("state") != state and not options.failed:
            print(f"{variation.name} ...", flush=True)
            others = {name: result for name, result in done.items() if name != variation.name}
            done[variation.name] = _run(variation, others, options.processes) | {"state": state}
            _keep(done)
        if variation.name in done:
            print(f"{variation.name}: {_in_words(done[variation.name])}", flush=True)
    table = _table(done)
    print("\n" + table)
    if options.docs:
        _write(table)
    return int(any(result.get("failed") for result in done.values()))


def _run(variation: Variation, done: dict, processes: str) -> dict:
    """Return the counts of one run, or why it was not run."""
    python, reason = _environment(variation)
    if reason:
        return {"not run": reason}
    variables = os.environ | {"OMP_NUM_THREADS": "1"} | variation.variables
    facts = {"python": _version(python)}
    if "OPENBLAS_CORETYPE" in variation.variables or variation.name == "default":
        asked = subprocess.run([python, "-c", _ASK_KERNEL], env=variables, capture_output=True, text=True, cwd=ROOT)
        if asked.returncode:
            return {"not run": "this CPU cannot execute that kernel"}
        facts["kernel"] = asked.stdout.strip()
        same = [name for name, result in done.items() if result.get("kernel") == facts["kernel"]]
        if same and len(variation.variables) == 1:
            return {"not run": f"OpenBLAS takes the kernel {facts['kernel']} for it here, as in: {same[0]}"}
    OUT.mkdir(exist_ok=True)
    report = OUT / "machines.xml"
    report.unlink(missing_ok=True)
    start = time.monotonic()
    command = [python, "-m", "pytest", "-q", "--numprocesses", processes, f"--junitxml={report}", *variation.tests]
    with (OUT / f"machines-{_file_name(variation)}.log").open("w") as log:
        subprocess.run(command, env=variables, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)
    if not report.exists():
        return {"failed": ["pytest did not finish"], **facts}
    return {**_counts(report), **facts, "minutes": round((time.monotonic() - start) / 60, 1)}


def _environment(variation: Variation) -> tuple[str, str]:
    """Return the Python to run, its packages installed, or the reason why there is none."""
    if not variation.python and not variation.packages:
        return sys.executable, ""
    base = _interpreter(variation.python) if variation.python else sys.executable
    if base is None:
        return "", f"there is no {variation.python} on this machine"
    home = ROOT / f".venv-{_file_name(variation)}"
    python = str(home / "bin" / "python")
    if not home.exists():
        subprocess.run([base, "-m", "venv", home], check=True)
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--editable", ".[test]"]
    made = subprocess.run([*install, *variation.packages], cwd=ROOT, capture_output=True, text=True)
    return (python, "") if made.returncode == 0 else ("", "its packages could not be installed")


def _interpreter(command: str) -> str | None:
    """Return the first Python of that name that answers: on the path, or one of pyenv's, whose shims may be closed."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found = [shutil.which(command), *map(str, sorted(pyenv.glob(f"versions/*/bin/{Path(command).name}"), reverse=True))]
    return next((python for python in found if python and _version(python)), None)


def _version(python: str) -> str:
    """Return the version of an interpreter, nothing if it does not answer."""
    asked = subprocess.run([python, "-c", "import platform; print(platform.python_version())"], capture_output=True)
    return asked.stdout.decode().strip() if asked.returncode == 0 else ""


def _file_name(variation: Variation) -> str:
    return re.sub("[^a-z0-9.]+", "-", variation.name.lower())


def _counts(report: Path) -> dict:
    """Read pytest's own report."""
    cases = list(ElementTree.parse(report).getroot().iter("testcase"))
    bad = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    skipped = sum(case.find("skipped") is not None for case in cases)
    names = [f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}" for case in bad]
    return {"passed": len(cases) - len(bad) - skipped, "skipped": skipped, "failed": names}


def _in_words(result: dict) -> str:
    if "not run" in result:
        return f"not run: {result['not run']}"
    counted = f"{result.get('passed', 0):,} passed, {len(result['failed'])} failed, {result.get('skipped', 0)} skipped"
    return counted + "".join(f"\n    {name}" for name in result["failed"])


def _table(done: dict) -> str:
    """Return one line for each variation."""
    lines = ["| variation | Python | passed | failed | skipped | minutes | commit |", "|---|---|---|---|---|---|---|"]
    for name in [v.name for v in VARIATIONS if v.name in done]:
        result = done[name]
        if "not run" in result:
            lines.append(f"| {name} | | not run: {result['not run']} | | | | |")
        else:
            kernel = f" (kernel {result['kernel']})" if name == "default" and "kernel" in result else ""
            numbers = [result.get("python", ""), f"{result.get('passed', 0):,}", len(result["failed"])]
            numbers += [result.get("skipped", 0), result.get("minutes", ""), result["state"]]
            lines.append(f"| {name}{kernel} | {' | '.join(map(str, numbers))} |")
    return "\n".join(lines)


def _write(table: str) -> None:
    """Write the table to docs/results."""
    sys.path.insert(0, str(ROOT))
    from benchmarks._documents import write_results

    write_results("machines", table, __doc__, command="make test-machines FLAGS=--docs")


def _state() -> str:
    """Return the commit, marked where code or tests differ from it."""
    commit = subprocess.run(
        ["git", "log", "-1", "--format=%h"], cwd=ROOT, capture_output=True, text=True
    ).stdout.strip()
    changed = subprocess.run(["git", "diff", "--quiet", "HEAD", "--", "src", "tests"], cwd=ROOT).returncode
    return f"{commit} and changes" if changed else commit


def _kept() -> dict:
    path = OUT / "machines.json"
    return json.loads(path.read_text()) if path.exists() else {}


def _keep(done: dict) -> None:
    OUT.mkdir(exist_ok=True)
    part = OUT / "machines.json.part"
    part.write_text(json.dumps(done, indent=1))
    part.replace(OUT / "machines.json")


if __name__ == "__main__":
    sys.exit(main())
