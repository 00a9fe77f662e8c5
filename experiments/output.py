"""Tables as text, Markdown and CSV, written whole or not at all."""

import uuid
from pathlib import Path

import pandas as pd

__all__ = ["beside_the_paper", "markdown", "text", "write"]


def beside_the_paper(table: pd.DataFrame, digits: int = 3) -> pd.DataFrame:
    """Turn columns (figure; paper, run, mean, SD) into three lines per row: paper, one run, mean ± SD over seeds."""
    lines = {}
    figures = list(dict.fromkeys(table.columns.get_level_values(0)))
    for key, row in table.iterrows():
        key = key if isinstance(key, tuple) else (key,)
        for source in ("paper", "one run", "mean ± SD"):
            cells = {}
            for figure in figures:
                values = row[figure]
                if source == "mean ± SD":
                    cells[figure] = f"{values['mean']:.{digits}f} ± {values['SD']:.{digits}f}"
                else:
                    cells[figure] = f"{values['paper' if source == 'paper' else 'run']:.{digits}f}"
                if "prior" in values.index:
                    cells["prior"] = f"{values['prior']:.{digits}f}" if source == "mean ± SD" else ""
            lines[(*key, source)] = cells
    names = [*(str(name) for name in table.index.names), "source"]
    frame = pd.DataFrame(list(lines.values()), index=pd.MultiIndex.from_tuples(list(lines), names=names))
    return frame


def text(table: pd.DataFrame) -> str:
    """Return a table for the terminal."""
    return table.to_string()


def markdown(table: pd.DataFrame) -> str:
    """Return a table in Markdown; repeated labels of the index are left out."""
    flat = table.reset_index()
    n_labels = flat.shape[1] - table.shape[1]
    header = [str(name) for name in flat.columns]
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * n_labels + "---:|" * table.shape[1]]
    before: list[str] = [""] * n_labels
    for row in flat.itertuples(index=False):
        cells = ["" if pd.isna(cell) else str(cell) for cell in row]
        labels = cells[:n_labels]
        shown = []
        for i, label in enumerate(labels):
            same = labels[: i + 1] == before[: i + 1] and i < n_labels - 1
            shown.append("" if same else label)
        before = labels
        lines.append("| " + " | ".join([*shown, *cells[n_labels:]]) + " |")
    return "\n".join(lines)


def write(path: Path, content: str) -> Path:
    """Write a text file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
    partial.write_text(content, encoding="utf-8")
    return partial.replace(path)
