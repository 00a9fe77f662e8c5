"""Wheel and sdist in empty environments outside the source tree: the command line's example of the README.

Each Python gets wheel and sdist, both with the newest and with the lowest stated versions of the dependencies. In a
folder of its own ``gbce demo`` writes a table and a model file, and the commands of the README make a page and a letter
of them. ``make test-machines`` runs this at its end; the release workflow for one Python and the artefacts it built::

    python tests/support/installed.py --dist dist --python python3.12 --only lowest
"""

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from support.machines import ROOT, _interpreter, lowest_versions

PYTHONS = ("python3.11", "python3.12", "python3.13")
WAYS = {  # what is installed, and which versions of its dependencies
    f"{name}, {age}": (pattern, versions)
    for name, pattern in (("wheel", "*.whl"), ("sdist", "*.tar.gz"))
    for age, versions in (("newest", ()), ("lowest", lowest_versions(("skops", "parquet"))))
}


def main() -> int:
    """Install and run what was asked for, and print a table; one if anything failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", nargs="+", default=PYTHONS, metavar="COMMAND", help="the interpreters")
    parser.add_argument("--only", default="", metavar="WORD", help="what has this word: wheel, sdist, lowest, newest")
    parser.add_argument(
        "--dist", type=Path, metavar="FOLDER", help="built wheel and sdist; they are built when missing"
    )
    options = parser.parse_args()
    lines = []
    with tempfile.TemporaryDirectory() as home:
        dist = options.dist or built(Path(home))
        for command in options.python:
            for way in (way for way in WAYS if options.only in way):
                python = _interpreter(command)
                start = time.monotonic()
                with tempfile.TemporaryDirectory() as place:
                    said = tried(python, dist, way, Path(place)) if python else "not run: no such Python"
                lines.append(f"| {command} | {way} | {said} | {time.monotonic() - start:.0f} |")
                print(lines[-1], flush=True)
    print("\n".join(["", "| Python | installed | page and letter | seconds |", "|---|---|---|---|", *lines]))
    return int(any("failed" in line for line in lines))


def built(home: Path) -> Path:
    """Return a folder with wheel and sdist of this tree, the wheel made of the sdist."""
    run([sys.executable, "-m", "venv", "build"], home)
    run(["build/bin/pip", "install", "--quiet", "build"], home)
    run(["build/bin/python", "-m", "build", "--outdir", "dist", str(ROOT)], home)
    return home / "dist"


def tried(python: str, dist: Path, way: str, place: Path) -> str:
    """Install into an empty environment, run the commands, and say what made page and letter, or what failed."""
    pattern, versions = WAYS[way]
    package = next(dist.resolve().glob(pattern))
    try:
        run([python, "-m", "venv", "empty"], place)
        run(["empty/bin/pip", "install", "--quiet", f"{package}[skops]", *versions], place)
        run(["empty/bin/pip", "check"], place)
        (place / "work").mkdir()
        for command in commands():
            run([str(place / "empty" / "bin" / command[0]), *command[1:]], place / "work")
        page, letter = (place / "work" / name for name in ("A002.html", "A002-letter.html"))
        if "</html>" not in page.read_text() or "not legal advice" not in letter.read_text():
            return "failed: page or letter is not whole"
        names = "numpy", "scipy", "pandas", "scikit-learn"
        found = "; ".join(f"print({name!r}, version({name!r}))" for name in names)
        said = run([str(place / "empty/bin/python"), "-c", f"from importlib.metadata import version; {found}"], place)
    except RuntimeError as error:
        return f"failed: {error}"
    return "made with " + ", ".join(said.split("\n")[:-1])


def commands() -> list[list[str]]:
    """Return the example of the README as words, but for the installation."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.search(r"## From the command line.*?```sh\n(.*?)```", text, re.DOTALL)[1]
    return [shlex.split(one) for one in re.split(r"\n|&&", block) if one.strip().startswith("gbce ")]


def run(words: list[str], place: Path) -> str:
    """Run one command without this tree's packages, and return what it printed."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    done = subprocess.run(words, cwd=place, env=variables, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words[:3])}: {(done.stderr or done.stdout).strip().splitlines()[-1:]}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
