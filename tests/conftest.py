"""The suite as another machine or another run has it, where a variable asks for that (see support/elsewhere/)."""

import gc
import os
import runpy
from pathlib import Path

import pytest

ELSEWHERE = Path(__file__).parent / "support" / "elsewhere"
SWITCHED = runpy.run_path(str(ELSEWHERE / "sitecustomize.py"))
if SWITCHED["SHIFT"] or SWITCHED["SHAKE"] or "GBCE_WITHOUT" in os.environ:
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ELSEWHERE), os.environ.get("PYTHONPATH"))))


def pytest_collection_finish(session):
    """Look for garbage less often, and not among what was imported: this was a twentieth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def pytest_collection_modifyitems(config, items):
    """Leave out doctests, which print one run's numbers, where seeds are shifted or bits are shaken."""
    if SWITCHED["SHIFT"] or SWITCHED["SHAKE"]:
        left_out = [item for item in items if isinstance(item, pytest.DoctestItem)]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not isinstance(item, pytest.DoctestItem)]
