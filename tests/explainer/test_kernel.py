"""Progress bars in a real notebook kernel: they go when they are done, and nobody is asked to install anything."""

import textwrap

import nbformat
import pytest
from nbclient import NotebookClient

_CELLS = (
    """
    import sys
    {before}
    import numpy as np, pandas as pd, gbce
    data = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 2)), columns=["a", "b"])
    explainer = gbce.Explainer(lambda x: x["a"] + x["b"], data)
    """,
    'explanation = explainer.explain(data.iloc[0], gbce.AtLeast(3), seed=0, progress="auto")',
    "table = explainer.explain_many(data.iloc[:2], gbce.AtLeast(3), seed=0, posterior=False, progress=True)",
    "explanation",
)


def run_in_kernel(before: str) -> list:
    """Run the cells in a kernel of its own and return the cells with their outputs."""
    cells = [nbformat.v4.new_code_cell(textwrap.dedent(cell).format(before=before)) for cell in _CELLS]
    book = nbformat.v4.new_notebook(cells=cells)
    return NotebookClient(book, timeout=120, kernel_name="python3").execute().cells


def shown_at_last(text: str) -> str:
    """Return what remains of a line that carriage returns overwrite."""
    line: list[str] = []
    for part in text.split("\r"):
        line[: len(part)] = part
    return "".join(line).strip()


# a package set to None cannot be imported, as where it is not installed
@pytest.mark.parametrize("before", ["", 'sys.modules["ipywidgets"] = None'], ids=["widgets", "no widgets"])
def test_no_bar_and_no_warning_is_left_in_a_notebook(before):
    *quiet, shown = run_in_kernel(before)
    for cell in quiet:
        printed = "".join(output.get("text", "") for output in cell.outputs)
        assert "Warning" not in printed
        assert not shown_at_last(printed)
        for output in cell.outputs:  # a bar of widgets is closed when it is done, and then shows nothing
            assert set(output.get("data", {})) <= {"text/plain", "application/vnd.jupyter.widget-view+json"}
    assert "text/html" in shown.outputs[0]["data"]
